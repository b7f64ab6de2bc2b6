// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Life of captures, and reading branch records. The commands call this on the control thread;
 * profiles with call chains attach by capture_attach, too. It must never stop a vCPU.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/capture.h"
#include "service/program/memory.h"
#include "service/backend_choice.h"
#include "vpmu/util/fail.h"

#define ALL_LEVELS (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR)
#define READ_TRIES 5

struct captures {
	struct registry reg;
	struct tenants *ts;
	struct tenants_watch watch;
};

static void capture_close_one(struct registered *e)
{
	capture_close((struct capture *)e); /* reg is first in struct capture */
}

static const struct registry_kind kind = {
	.kind = "capture",
	.open = "lbr-attach",
	.end = "detach",
	.max = {CAPTURES_MAX / 4, CAPTURES_MAX * 3 / 8, CAPTURES_MAX * 3 / 4, CAPTURES_MAX * 7 / 8,
		CAPTURES_MAX},
	.close = capture_close_one,
};

static const struct {
	const char *name;
	uint32_t ctl; /* branch types only, no privilege levels */
} modes[] = {
	[CAPTURE_CALL_STACK] = {"call-stack", VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS},
	[CAPTURE_BRANCHES] = {"branches", VPMU_LBR_TYPES},
	[CAPTURE_CALLS] = {"calls", VPMU_LBR_REL_CALL | VPMU_LBR_IND_CALL},
};
#define NR_MODES (sizeof(modes) / sizeof(modes[0]))

int capture_mode_parse(const char *name, enum capture_mode *mode)
{
	for (size_t i = 0; i < NR_MODES; i++) {
		if (strcmp(name, modes[i].name) == 0) {
			*mode = (enum capture_mode)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *capture_mode_name(enum capture_mode mode)
{
	return modes[mode].name;
}

uint32_t capture_ctl(enum capture_mode mode)
{
	return modes[mode].ctl | ALL_LEVELS;
}

const char *capture_ctl_mode(uint32_t ctl)
{
	for (size_t i = 0; i < NR_MODES; i++)
		if ((ctl & (VPMU_LBR_CALL_STACK | VPMU_LBR_TYPES)) == modes[i].ctl)
			return modes[i].name;
	return "custom";
}

/* ---- life --------------------------------------------------------------------------------- */

static void capture_stop(struct capture *cap)
{
	if (cap->in)
		vpmu_backend_branches_detach(cap->in);
	cap->in = NULL;
	cap->node = NULL;
}

static void capture_node_removing(struct node *n, void *arg)
{
	struct captures *cs = arg;

	for (struct registered *e = cs->reg.first; e; e = e->next) {
		struct capture *cap = (struct capture *)e;

		whos_gone(&cap->whos, n->serial);
		if (cap->node != n)
			continue;
		capture_stop(cap);
		cap->gone = true;
	}
}

struct captures *captures_create(struct tenants *ts)
{
	struct captures *cs = xcalloc(1, sizeof(*cs));

	cs->ts = ts;
	cs->reg.kind = &kind;
	/* No `added`: attaching includes later vCPUs. */
	cs->watch = (struct tenants_watch){.removing = capture_node_removing, .arg = cs};
	tenants_watch(ts, &cs->watch);
	return cs;
}

void captures_destroy(struct captures *cs)
{
	if (!cs)
		return;
	registry_close_all(&cs->reg);
	tenants_unwatch(cs->ts, &cs->watch);
	free(cs);
}

struct registry *captures_registry(struct captures *cs)
{
	return &cs->reg;
}

int capture_attach(struct vpmu_backend_node *n, uint32_t ctl, const char *field, char *err,
		   size_t errlen)
{
	int ret = vpmu_backend_branches_attach(n, ctl);
	const char *more = ret == -EOPNOTSUPP ? vpmu_backend_branches_why(n->source) : NULL;
	char why[200];

	if (more)
		return fail(ret, err, errlen,
			    "target: branch records of mode %s are <not supported>: %s",
			    capture_ctl_mode(ctl), more);

	switch (ret) {
	case 0:
		return 0;
	case -EBUSY:
		return fail(ret, err, errlen,
			    "%s: branches of this target are captured in another mode, by another "
			    "capture or by `vpmu-vmm --lbr`; wait until that ends, or use "
			    "its mode (`vpmu sessions` shows it)",
			    field);
	case -EOPNOTSUPP:
		return fail(ret, err, errlen,
			    "target: no branch records of this target (backend %s); give a VM "
			    "of the emulator, or a tenant with one",
			    n->source->backend);
	default:
		return fail(ret, err, errlen, "%s: branch records: %s", field,
			    vpmu_backend_error(n->source, ret, why, sizeof(why)));
	}
}

static int capture_start(struct capture *cap, const struct capture_spec *spec, char *err,
			 size_t errlen)
{
	struct vpmu_backend_node *in;
	int ret = backend_choose(cap->cs->ts, spec->open.target, VPMU_BACKEND_BRANCHES,
				 "branch records", spec->open.backend, &in, err, errlen);

	if (!ret)
		ret = capture_attach(in, capture_ctl(spec->mode), "mode", err, errlen);
	if (ret)
		return ret;
	cap->backend = in->source->backend;
	cap->in = in;
	cap->node = spec->open.target;
	return 0;
}

int capture_open(struct captures *cs, const struct capture_spec *spec, struct capture **out,
		 char *err, size_t errlen)
{
	struct capture *cap = calloc(1, sizeof(*cap));
	int ret;

	if (!cap)
		return fail(-ENOMEM, err, errlen, "lbr-attach: out of memory");
	cap->cs = cs;
	cap->mode = spec->mode;
	cap->chains = (struct traces){.whos = &cap->whos, .max = CAPTURE_CHAINS_MAX};
	ret = registry_prepare(&cs->reg, &cap->reg, &spec->open, err, errlen);
	if (!ret)
		ret = capture_start(cap, spec, err, errlen);
	if (ret) {
		registry_discard(&cap->reg);
		free(cap);
		return ret;
	}
	registry_add(&cs->reg, &cap->reg);
	*out = cap;
	return 0;
}

void capture_close(struct capture *cap)
{
	capture_stop(cap);
	traces_free(&cap->chains);
	whos_clear(&cap->whos);
	registry_remove(&cap->cs->reg, &cap->reg);
	free(cap);
}

/* ---- reading ------------------------------------------------------------------------------ */

static int capture_read_one(const struct node *vcpu,
			    int (*fn)(const struct capture_reading *cr, void *arg), void *arg)
{
	struct vpmu_lbr_regs regs;
	struct capture_reading cr = {.vcpu = vcpu, .ret = -EAGAIN};

	for (int i = 0; i < READ_TRIES && cr.ret == -EAGAIN; i++)
		cr.ret = vpmu_backend_branches_read(node_in(vcpu, node_source(vcpu)), &regs,
						    &cr.user);
	if (cr.ret == -ENOENT)
		return 0;
	cr.r = cr.ret ? NULL : &regs;
	return fn(&cr, arg);
}

int capture_read(struct tenants *ts, const struct node *n,
		 int (*fn)(const struct capture_reading *cr, void *arg), void *arg)
{
	const struct node *top = n;
	struct vpmu_backend *source;
	int ret = 0;

	for (unsigned int i = 0; (source = tenants_source(ts, i)); i++)
		if (n->in[i] && (source->can & VPMU_BACKEND_BRANCHES))
			vpmu_backend_flush_node(n->in[i]);
	for (;;) {
		if (n->kind == NODE_VCPU)
			ret = capture_read_one(n, fn, arg);
		if (ret)
			return ret;
		if (n->first_child) {
			n = n->first_child;
			continue;
		}
		while (n != top && !n->next)
			n = n->parent;
		if (n == top)
			return 0;
		n = n->next;
	}
}

/* ---- adding up ---------------------------------------------------------------------------- */

struct folding {
	struct capture *cap;
	struct capture_folded *out;
};

/* The target of the newest call, then the origin of each call. */
static int fold_row(const struct capture_reading *cr, void *arg)
{
	const struct folding *f = arg;
	struct trace t = {.samples = 1, .cpl = TRACE_CPL_UNKNOWN, .known = true};
	uint64_t ip[VPMU_LBR_DEPTH_MAX + 1];
	const struct vpmu_lbr_entry *e;

	if (!access_sees(&f->cap->reg.who, cr->vcpu->path))
		return 0;
	f->out->read++;
	f->out->unread += !cr->r;
	if (!cr->r)
		return 0;
	f->out->total += cr->r->total != 0;
	if (strcmp(capture_ctl_mode(cr->r->ctl), capture_mode_name(f->cap->mode)) != 0) {
		f->out->custom++;
		return 0;
	}
	t.who = whos_find(&f->cap->whos, cr->vcpu->serial);
	if (!t.who) {
		if (whos_add(&f->cap->whos, cr->vcpu))
			return -ENOMEM;
		t.who = whos_find(&f->cap->whos, cr->vcpu->serial);
	}
	for (unsigned int i = 0; (e = vpmu_lbr_nth(cr->r, i)); i++) {
		if (!i)
			ip[t.nr++] = e->to;
		ip[t.nr++] = e->from;
	}
	traces_add(&f->cap->chains, &t, ip);
	return 0;
}

int capture_fold(struct capture *cap, struct capture_folded *out)
{
	struct folding f = {.cap = cap, .out = out};

	*out = (struct capture_folded){0};
	cap->folded = true;
	return cap->node ? capture_read(cap->cs->ts, cap->node, fold_row, &f) : 0;
}
