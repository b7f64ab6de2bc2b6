// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Planes and VMs of one vpmu-vmm: making an engine, its scheduler and its source of counts when the
 * first VM needs them, and each VM's life. main.c and control.c call it on the control thread. VMs
 * of two engines must never share a source.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/kvm/kvm.h"
#include "vmm/machine/priv.h"
#include "vmm/sched/perfpmu.h"
#include "vmm/sched/runner.h"
#include "vmm/sched/threads.h"

/* ---- engines -------------------------------------------------------------------------------- */

int machine_open_engine(struct plane *p, char *err, size_t errlen)
{
	int ret;

	if (p->engine)
		return 0;
	*p->why = 0;
	ret = p->ops->open(&p->engine, p->why, sizeof(p->why));
	if (!ret)
		return 0;
	p->engine = NULL;
	if (!*p->why)
		snprintf(p->why, sizeof(p->why), "%s", strerror(-ret));
	return fail(ret, err, errlen, "engine %s: %s", p->ops->name, p->why);
}

/* [host] lbr: every vCPU of the modelled pCPUs, those to come as well. */
static int start_capture(struct machine *m)
{
	static const uint32_t ctl[] = {
		[HOST_LBR_BRANCHES] = VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES,
		[HOST_LBR_CALL_STACK] =
			VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS,
	};
	int ret;

	if (m->host_cfg.lbr == HOST_LBR_OFF)
		return 0;
	ret = vpmu_source_branches_attach(m->soft.source->root, ctl[m->host_cfg.lbr]);
	m->capture = !ret;
	return ret;
}

static void close_soft(struct machine *m)
{
	if (m->capture)
		vpmu_source_branches_detach(m->soft.source->root);
	m->capture = false;
	if (m->runner)
		runner_destroy(m->runner);
	m->runner = NULL;
}

/* Last, when nothing can fail any more: from now on the plane shows in every command. */
static int begin_plane(struct machine *m, struct plane *p, struct vm_sched *sched)
{
	p->sched = sched;
	return tenants_add_source(m->tenants, p->source);
}

/* A source of the core, whose control calls wait as long as [host] says. */
static int create_source(const struct machine *m, const struct vpmu_source_core_opts *o,
			 struct vpmu_source **out)
{
	int ret = vpmu_source_core_create(o, out);

	if (!ret)
		vpmu_host_set_deadline(vpmu_source_core_host(*out),
				       m->host_cfg.late_after * 1000000ULL);
	return ret;
}

static int start_soft(struct machine *m)
{
	const struct vpmu_source_core_opts o = {
		.plane = PLANE_SOFT,
		.can = VPMU_SOURCE_SAMPLES | VPMU_SOURCE_BRANCHES,
		.can_count = machine_soft_counts,
		.arg = m,
	};
	int ret = create_source(m, &o, &m->soft.source);

	if (!ret)
		ret = runner_create(vpmu_source_core_host(m->soft.source), &m->host_cfg,
				    &m->runner);
	if (!ret)
		ret = start_capture(m);
	if (!ret && m->launched)
		ret = runner_launch(m->runner);
	return ret ? ret : begin_plane(m, &m->soft, runner_sched(m->runner));
}

static int need_soft(struct machine *m, char *err, size_t errlen)
{
	int ret = machine_open_engine(&m->soft, err, errlen);

	if (ret || m->soft.source)
		return ret;
	ret = start_soft(m);
	if (!ret)
		return 0;
	close_soft(m);
	vpmu_source_core_destroy(m->soft.source);
	m->soft.source = NULL;
	return fail(ret, err, errlen, "modelled host (lbr = %s): %s",
		    host_lbr_name(m->host_cfg.lbr), strerror(-ret));
}

static int start_kvm(struct machine *m)
{
	const struct vpmu_source_core_opts o = {
		.plane = PLANE_KVM, .can_count = machine_kvm_counts, .arg = m};
	struct threads_pmu pmu = perfpmu_ops;
	int ret = create_source(m, &o, &m->kvm.source);

	pmu.arg = &m->perf;
	if (!ret)
		ret = threads_create(vpmu_source_core_host(m->kvm.source), &pmu, 0, &m->threads);
	return ret ? ret : begin_plane(m, &m->kvm, threads_sched(m->threads));
}

static int need_kvm(struct machine *m, char *err, size_t errlen)
{
	int ret = machine_open_engine(&m->kvm, err, errlen);

	if (ret || m->kvm.source)
		return ret;
	ret = start_kvm(m);
	if (!ret)
		return 0;
	if (m->threads)
		threads_destroy(m->threads);
	m->threads = NULL;
	vpmu_source_core_destroy(m->kvm.source);
	m->kvm.source = NULL;
	return fail(ret, err, errlen, "vCPU threads: %s", strerror(-ret));
}

/* @why (VM_REASON_MAX bytes): what a VM without a choice of its own lacks for KVM. */
static int choose_plane(struct machine *m, const struct vm_config *c, struct plane **out, char *why,
			char *err, size_t errlen)
{
	int ret = 0;

	*out = c->engine == VM_ENGINE_SOFT ? &m->soft : &m->kvm;
	if (c->engine != VM_ENGINE_SOFT)
		ret = need_kvm(m, why, VM_REASON_MAX);
	if (c->engine == VM_ENGINE_KVM && ret)
		return fail(ret, err, errlen, "%s: vm %s: %s", c->where, c->name, why);
	if (ret)
		*out = &m->soft;
	return *out == &m->soft ? need_soft(m, err, errlen) : 0;
}

/* Once the VM is there: where it cannot be made, the error is the only line. */
static void note_plane(const struct machine *m, const struct vm_config *c,
		       const struct plane *plane, const char *why)
{
	char line[VM_REASON_MAX + 160];

	if (c->engine != VM_ENGINE_AUTO || plane != &m->soft || !m->opts.note)
		return;
	snprintf(line, sizeof(line), "vm %s: runs on the soft machine (%s)", c->name, why);
	m->opts.note(line, m->opts.arg);
}

/* ---- a VM ----------------------------------------------------------------------------------- */

static void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
	struct machine_vm *e = arg;

	e->machine->opts.console(e, vcpu, line, len, e->machine->opts.arg);
}

static void on_ended(struct vm *vm, void *arg)
{
	struct machine_vm *e = arg;

	/* Release: pairs with machine_reap. */
	atomic_store_explicit(&e->over, true, memory_order_release);
	e->machine->opts.wake(e->machine->opts.arg);
}

static int on_join(struct vm *vm, int tid, void *arg, char *err, size_t errlen)
{
	struct machine_vm *e = arg;

	return tenant_join(e->node, tid, err, errlen);
}

typedef int (*load_fn)(struct vm *vm, void *arg, char *err, size_t errlen);

/* The PMU that the guest is shown. */
static struct vpmu_guest_cfg pmu_of(const struct vm_config *c, const struct plane *plane)
{
	if (c->kernel && c->rdpmc_off && !(plane->ops->can & VMM_CAN_RDPMC))
		return (struct vpmu_guest_cfg){.model = VPMU_GUEST_NONE};
	return c->pmu;
}

static int create_vm(struct machine *m, struct machine_vm *e, const struct vm_config *c,
		     struct plane *plane, load_fn load, void *load_arg, char *err, size_t errlen)
{
	struct vpmu_account *vcpus[VM_VCPUS_MAX];
	struct vpmu_source *source = plane->source;
	struct machine_share *share = machine_share(m, e->node->parent);
	struct image img = {0}, initrd = {0};
	struct vm_opts o = {
		.name = c->name,
		.vcpus = c->vcpus,
		.memory_bytes = c->memory_bytes,
		.image = &img,
		.load = load,
		.load_arg = load_arg,
		.args = c->kernel ? c->cmdline : c->args,
		.protocol = c->kernel ? &boot_linux : NULL,
		.initrd = c->initrd ? &initrd : NULL,
		.max_events = c->max_events,
		.quota = !share		     ? NULL
			 : plane == &m->soft ? &share->soft
					     : &share->kvm,
		.pmu = pmu_of(c, plane),
		.ops = plane->ops,
		.engine = plane->engine,
		.sched = plane->sched,
		.share = share ? &share->share : NULL,
		.weight = c->weight,
		.account = vpmu_source_core_account(node_in(e->node, source)),
		.vcpu_accounts = vcpus,
		.console = on_console,
		.ended = on_ended,
		.join = on_join,
		.arg = e,
	};
	char why[VM_REASON_MAX];
	int ret;

	if (!share)
		return fail(-ENOMEM, err, errlen, "%s: vm %s: out of memory", c->where, c->name);
	for (unsigned int i = 0; i < c->vcpus; i++)
		vcpus[i] = vpmu_source_core_account(node_in(node_vcpu(e->node, i), source));
	ret = vm_config_policy(c, &o.pmu.policy, &e->policy_mem, err, errlen);
	if (ret)
		return ret;
	if (!load && c->kernel)
		ret = machine_kernel_get(&m->kernel, c->kernel, &o.image, why, sizeof(why));
	else if (!load)
		ret = image_read(c->image, &img, why, sizeof(why));
	if (!ret && !load && c->kernel && boot_multiboot.probe(o.image))
		o.protocol = &boot_multiboot;
	if (!ret && !load && c->initrd)
		ret = image_read(c->initrd, &initrd, why, sizeof(why));
	if (!ret)
		ret = vm_create(&o, &e->vm, why, sizeof(why));
	if (ret)
		fail(ret, err, errlen, "%s: vm %s: %s", c->where, c->name, why);
	image_free(&img);
	image_free(&initrd);
	if (m->launched)
		machine_kernel_forget(&m->kernel);
	return ret;
}

static void free_entry(struct machine_vm *e)
{
	if (e->user)
		e->machine->opts.freed(e, e->machine->opts.arg);
	for (unsigned int i = 0; e->branches && i < e->vcpus; i++)
		free(e->branches[i]);
	free(e->branches);
	free(e->policy_mem);
	free(e->name);
	free(e->image);
	free(e->args);
	free(e->allow);
	free(e->deny);
	free(e);
}

/* NULL stays NULL. */
static bool copy_text(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return *to || !from;
}

static struct machine_vm *new_entry(struct machine *m, const struct vm_config *c,
				    const struct plane *plane)
{
	struct machine_vm *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	if (!copy_text(&e->name, c->name) ||
	    !copy_text(&e->image, c->kernel  ? c->kernel
				  : c->image ? c->image
					     : "") ||
	    !copy_text(&e->args, c->kernel && c->cmdline ? c->cmdline : c->args) ||
	    !copy_text(&e->allow, c->allow) || !copy_text(&e->deny, c->deny)) {
		free_entry(e);
		return NULL;
	}
	e->machine = m;
	e->engine = plane->ops->name;
	e->can = plane->ops->can;
	e->pmu = pmu_of(c, plane).model;
	e->vcpus = c->vcpus;
	e->kernel = c->kernel != NULL;
	e->policy = c->policy;
	e->max_events = c->max_events;
	e->lbr = c->lbr;
	e->weight = c->weight;
	atomic_init(&e->over, false);
	return e;
}

/* Whether @c's RAM fits beside that of the others. The kernel would give it, page by page, until
 * there is none left and it ends the whole process. */
static int check_ram(const struct machine *m, const struct vm_config *c, char *err, size_t errlen)
{
	uint64_t limit = m->host_cfg.ram_limit;

	if (!limit)
		limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (m->ram_bytes <= limit && c->memory_bytes <= limit - m->ram_bytes)
		return 0;
	return fail(-ENOMEM, err, errlen,
		    "%s: vm %s/memory: %" PRIu64 "M given, accepted: at most %" PRIu64
		    "M, what other VMs have left of the %" PRIu64 "M of --ram-limit",
		    c->where, c->name, c->memory_bytes >> 20,
		    m->ram_bytes < limit ? (limit - m->ram_bytes) >> 20 : 0, limit >> 20);
}

/* @e has its RAM no more. */
static void give_ram(struct machine_vm *e)
{
	e->machine->ram_bytes -= e->ram_bytes;
	e->ram_bytes = 0;
}

static int add_vm(struct machine *m, const struct vm_config *c, load_fn load, void *load_arg,
		  struct machine_vm **out, char *err, size_t errlen)
{
	struct machine_vm *e;
	struct plane *plane;
	struct node *tenant;
	char why[VM_REASON_MAX], no_kvm[VM_REASON_MAX];
	int ret;

	if (machine_vm_find(m, c->name))
		return fail(-EEXIST, err, errlen, "%s: vm %s: there is a VM of that name", c->where,
			    c->name);
	ret = check_ram(m, c, err, errlen);
	if (!ret)
		ret = choose_plane(m, c, &plane, no_kvm, err, errlen);
	if (ret)
		return ret;
	if (load && !(plane->ops->can & VMM_CAN_SAVE))
		return fail(-EOPNOTSUPP, err, errlen,
			    "%s: vm %s: engine %s cannot go on from a snapshot", c->where, c->name,
			    plane->ops->name);
	e = new_entry(m, c, plane);
	if (!e)
		return fail(-ENOMEM, err, errlen, "%s: vm %s: out of memory", c->where, c->name);
	if (m->opts.adding) {
		ret = m->opts.adding(e, c, why, sizeof(why), m->opts.arg);
		if (ret) {
			fail(ret, err, errlen, "%s: vm %s: %s", c->where, c->name, why);
			goto err_free;
		}
	}
	tenant = tenant_find(m->tenants, "/host");
	ret = *c->tenant ? tenant_add(m->tenants, c->tenant, &tenant, why, sizeof(why)) : 0;
	if (!ret)
		ret = tenant_vm_add(m->tenants, tenant, plane->source, c->name, c->vcpus, e,
				    &e->node, why, sizeof(why));
	if (ret) {
		fail(ret, err, errlen, "%s: vm %s/tenant: %s", c->where, c->name, why);
		goto err_free;
	}
	ret = create_vm(m, e, c, plane, load, load_arg, err, errlen);
	if (ret)
		goto err_node;
	e->ram_bytes = c->memory_bytes;
	m->ram_bytes += e->ram_bytes;
	/* create_vm has made what this sets, so it cannot fail. */
	machine_set_tenant(m, e->node->parent, c->tenant_weight, c->tenant_max_events);
	*m->last = e;
	m->last = &e->next;
	note_plane(m, c, plane, no_kvm);
	if (out)
		*out = e;
	return 0;
err_node:
	tenant_vm_remove(m->tenants, e->node);
err_free:
	free_entry(e);
	return ret;
}

int machine_vm_add(struct machine *m, const struct vm_config *c, struct machine_vm **out, char *err,
		   size_t errlen)
{
	return add_vm(m, c, NULL, NULL, out, err, errlen);
}

int machine_vm_restore(struct machine *m, const struct vm_config *c, load_fn load, void *load_arg,
		       struct machine_vm **out, char *err, size_t errlen)
{
	return add_vm(m, c, load, load_arg, out, err, errlen);
}

void machine_vm_remove(struct machine_vm *e)
{
	struct machine *m = e->machine;
	struct machine_vm **p;

	if (e->vm)
		vm_destroy(e->vm);
	tenant_vm_remove(m->tenants, e->node);
	for (p = &m->vms; *p != e; p = &(*p)->next)
		;
	*p = e->next;
	if (m->last == &e->next)
		m->last = p;
	give_ram(e);
	free_entry(e);
}

struct machine_vm *machine_vm_find(const struct machine *m, const char *name)
{
	struct node *n = tenant_vm_find(m->tenants, name);

	return n ? n->user : NULL;
}

struct machine_vm *machine_vms(const struct machine *m)
{
	return m->vms;
}

int machine_vm_start(struct machine_vm *e, char *err, size_t errlen)
{
	return e->vm ? vm_start(e->vm, err, errlen) : 0;
}

void machine_vm_pause(struct machine_vm *e)
{
	if (e->vm)
		vm_pause(e->vm);
}

enum vm_state machine_vm_state(const struct machine_vm *e)
{
	return e->vm ? vm_state(e->vm) : e->state;
}

uint64_t machine_vm_denied(const struct machine_vm *e, uint64_t *last)
{
	if (!e->vm) {
		*last = e->denied_last;
		return e->denied;
	}
	*last = atomic_load_explicit(&e->vm->denied_last, memory_order_relaxed);
	return atomic_load_explicit(&e->vm->denied, memory_order_relaxed);
}

uint64_t machine_vm_refused(const struct machine_vm *e)
{
	return e->vm ? __atomic_load_n(&e->vm->quota.refused, __ATOMIC_RELAXED) : e->refused;
}

/* Keep the last branches of a VM that failed, for the post-mortem. Without memory there is none. */
static void keep_branches(struct machine_vm *e)
{
	e->branches = calloc(e->vcpus, sizeof(*e->branches));
	for (unsigned int i = 0; e->branches && i < e->vcpus; i++) {
		e->branches[i] = e->vm->vcpus[i].last;
		e->vm->vcpus[i].last = NULL;
	}
}

void machine_reap(struct machine *m)
{
	struct machine_vm *next;

	for (struct machine_vm *e = m->vms; e; e = next) {
		next = e->next; /* ended() may remove it */
		if (!e->vm || !atomic_load_explicit(&e->over, memory_order_acquire))
			continue;
		e->state = vm_state(e->vm);
		e->how = vm_how(e->vm);
		e->status = vm_status(e->vm);
		memcpy(e->reason, e->vm->reason, sizeof(e->reason));
		e->denied = machine_vm_denied(e, &e->denied_last);
		e->refused = machine_vm_refused(e);
		if (e->state == VM_FAILED)
			keep_branches(e);
		vm_destroy(e->vm);
		e->vm = NULL;
		give_ram(e);
		m->opts.ended(e, m->opts.arg);
	}
}

bool machine_ticks(const struct machine *m)
{
	return m->threads;
}

void machine_tick(struct machine *m)
{
	if (m->threads)
		threads_tick(m->threads);
}

/* ---- the whole ------------------------------------------------------------------------------ */

int machine_create(const struct machine_opts *o, struct machine **out, char *err, size_t errlen)
{
	struct machine *m = calloc(1, sizeof(*m));
	const char *why;
	char line[128];
	int ret;

	if (!m)
		return fail(-ENOMEM, err, errlen, "out of memory");
	m->opts = *o;
	m->host_cfg = *o->host;
	m->opts.host = &m->host_cfg;
	m->perf = (struct perfpmu_opts){
		.leave_counters = m->host_cfg.leave_counters,
		.pinned = m->host_cfg.pinned_counters,
		.nominal_cycles = m->host_cfg.nominal_cycles,
	};
	m->last = &m->vms;
	m->soft.ops = &vmm_soft_ops;
	why = vmm_soft_translate(!m->host_cfg.no_jit);
	if (why && !m->host_cfg.no_jit && o->note) {
		snprintf(line, sizeof(line), "guest code is interpreted and not translated: %s",
			 why);
		o->note(line, o->arg);
	}
	m->kvm.ops = &vmm_kvm_ops;
	ret = tenants_create(o->host->cgroup_root, &m->tenants, err, errlen);
	if (ret) {
		free(m);
		return ret;
	}
	machine_shares_begin(m);
	*out = m;
	return 0;
}

void machine_destroy(struct machine *m)
{
	while (m->vms)
		machine_vm_remove(m->vms);
	close_soft(m);
	if (m->threads)
		threads_destroy(m->threads);
	machine_shares_end(m);
	tenants_destroy(m->tenants);
	vpmu_source_core_destroy(m->soft.source);
	vpmu_source_core_destroy(m->kvm.source);
	if (m->soft.engine)
		m->soft.ops->close(m->soft.engine);
	if (m->kvm.engine)
		m->kvm.ops->close(m->kvm.engine);
	machine_kernel_forget(&m->kernel);
	free(m);
}

struct tenants *machine_tenants(struct machine *m)
{
	return m->tenants;
}

int machine_launch(struct machine *m, char *err, size_t errlen)
{
	int ret = 0;

	if (m->launched)
		return 0;
	if (m->runner)
		ret = runner_launch(m->runner);
	if (ret)
		return fail(ret, err, errlen, "modelled host: starting its pCPUs: %s",
			    strerror(-ret));
	m->launched = true;
	machine_kernel_forget(&m->kernel);
	return 0;
}

uint64_t machine_step(struct machine *m, uint64_t slices)
{
	return m->runner && !m->launched ? runner_step(m->runner, slices) : 0;
}
