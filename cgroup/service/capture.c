// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/service/capture.h"
#include "vpmu/fail.h"

#define ALL_LEVELS (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR)
#define READ_TRIES 5

struct captures {
	struct tenants *ts;
	struct tenants_watch watch;
	struct capture *first;
	unsigned int nr;
	uint64_t next_auto;
};

static const struct {
	const char *name;
	uint32_t ctl; /* without levels */
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

static void stop(struct capture *cap)
{
	if (cap->node)
		vpmu_lbr_detach(cap->node->account);
	cap->node = NULL;
}

static void node_removing(struct node *n, void *arg)
{
	struct captures *cs = arg;

	for (struct capture *cap = cs->first; cap; cap = cap->next) {
		if (cap->node != n)
			continue;
		stop(cap);
		cap->gone = true;
	}
}

int captures_create(struct tenants *ts, struct captures **out)
{
	struct captures *cs = calloc(1, sizeof(*cs));

	if (!cs)
		return -ENOMEM;
	cs->ts = ts;
	cs->next_auto = 1;
	cs->watch = (struct tenants_watch){
		/* New vCPUs of a target are captured by inheritance. */ .removing = node_removing,
		.arg = cs};
	tenants_watch(ts, &cs->watch);
	*out = cs;
	return 0;
}

void captures_destroy(struct captures *cs)
{
	if (!cs)
		return;
	while (cs->first)
		capture_close(cs->first);
	tenants_unwatch(cs->ts, &cs->watch);
	free(cs);
}

int capture_attach(struct vpmu_account *account, uint32_t ctl, const char *field, char *err,
		   size_t errlen)
{
	int ret = vpmu_lbr_attach(account, ctl);

	switch (ret) {
	case 0:
		return 0;
	case -EBUSY:
		return fail(ret, err, errlen,
			    "%s: branches there are captured in another mode already, by one of "
			    "`captures` (vpmu sessions shows them) or the server's lbr option; its "
			    "mode is accepted",
			    field);
	case -EOPNOTSUPP:
		return fail(ret, err, errlen,
			    "%s: no CPU here has branch records; the soft machine has", field);
	default:
		return fail(ret, err, errlen, "%s: branch records: %s", field, strerror(-ret));
	}
}

static int take_name(struct capture *cap, const char *name, char *err, size_t errlen)
{
	if (!name) {
		snprintf(cap->name, sizeof(cap->name), "@%llu",
			 (unsigned long long)cap->cs->next_auto++);
		return 0;
	}
	if (!session_name_ok(name, err, errlen))
		return -EINVAL;
	if (capture_find(cap->cs, name))
		return fail(-EEXIST, err, errlen,
			    "name: there is a capture \"%s\"; detach it, or take another name",
			    name);
	strcpy(cap->name, name);
	return 0;
}

int capture_open(struct captures *cs, const struct capture_spec *spec, struct capture **out,
		 char *err, size_t errlen)
{
	struct capture *cap, **link;
	int ret;

	if (cs->nr >= CAPTURES_MAX)
		return fail(-E2BIG, err, errlen,
			    "lbr-attach: there are %d captures; detach one of `captures` first",
			    CAPTURES_MAX);
	cap = calloc(1, sizeof(*cap));
	if (!cap)
		return fail(-ENOMEM, err, errlen, "lbr-attach: out of memory");
	cap->cs = cs;
	cap->mode = spec->mode;
	cap->owner = spec->owner;
	ret = take_name(cap, spec->name, err, errlen);
	if (ret)
		goto fail;
	cap->target =
		strdup(spec->target->kind == NODE_VM ? spec->target->name : spec->target->path);
	ret = cap->target ? 0 : fail(-ENOMEM, err, errlen, "lbr-attach: out of memory");
	if (!ret)
		ret = capture_attach(spec->target->account, capture_ctl(spec->mode), "mode", err,
				     errlen);
	if (ret)
		goto fail;
	cap->node = spec->target;
	for (link = &cs->first; *link; link = &(*link)->next)
		;
	*link = cap;
	cs->nr++;
	*out = cap;
	return 0;
fail:
	free(cap->target);
	free(cap);
	return ret;
}

void capture_close(struct capture *cap)
{
	struct capture **link = &cap->cs->first;

	stop(cap);
	while (*link != cap)
		link = &(*link)->next;
	*link = cap->next;
	cap->cs->nr--;
	free(cap->target);
	free(cap);
}

void captures_close_owner(struct captures *cs, const void *owner)
{
	struct capture *cap = cs->first, *next;

	for (; cap; cap = next) {
		next = cap->next;
		if (cap->owner == owner)
			capture_close(cap);
	}
}

bool captures_owned(const struct captures *cs, const void *owner)
{
	for (const struct capture *cap = cs->first; cap; cap = cap->next)
		if (cap->owner == owner)
			return true;
	return false;
}

struct capture *capture_find(const struct captures *cs, const char *name)
{
	for (struct capture *cap = cs->first; cap; cap = cap->next)
		if (strcmp(cap->name, name) == 0)
			return cap;
	return NULL;
}

struct capture *captures_first(const struct captures *cs)
{
	return cs->first;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int read_one(const struct node *vcpu, int (*fn)(const struct capture_reading *cr, void *arg),
		    void *arg)
{
	struct vpmu_lbr_regs regs;
	struct capture_reading cr = {.vcpu = vcpu, .ret = -EAGAIN};

	for (int i = 0; i < READ_TRIES && cr.ret == -EAGAIN; i++)
		cr.ret = vpmu_lbr_read(vcpu->account, &regs, &cr.user);
	if (cr.ret == -ENOENT)
		return 0;
	cr.r = cr.ret ? NULL : &regs;
	return fn(&cr, arg);
}

int capture_read(struct tenants *ts, const struct node *n,
		 int (*fn)(const struct capture_reading *cr, void *arg), void *arg)
{
	const struct node *top = n;
	int ret = 0;

	vpmu_host_sync(tenants_host(ts));
	for (;;) {
		if (n->kind == NODE_VCPU)
			ret = read_one(n, fn, arg);
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
