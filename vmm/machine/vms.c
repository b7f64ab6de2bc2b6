// SPDX-License-Identifier: GPL-2.0-or-later
/* The VMs of one vpmu-vmm: how each is created, restored and removed, and the record kept of one
 * that has ended. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "vmm/engine/simd.h"
#include "vmm/sched/runner.h"
#include "vpmu/util/fail.h"
#include "vmm/machine/priv.h"

static void vms_on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len,
			   void *arg)
{
	struct machine_vm *e = arg;

	e->machine->opts.console(e, vcpu, line, len, e->machine->opts.arg);
}

static void vms_on_sent(struct vm *vm, uint8_t byte, void *arg)
{
	struct machine_vm *e = arg;

	e->machine->opts.sent(e, byte, e->machine->opts.arg);
}

static void vms_on_ended(struct vm *vm, void *arg)
{
	struct machine_vm *e = arg;

	/* Release: pairs with the acquire in machine_reap, which reads the outcome. */
	atomic_store_explicit(&e->over, true, memory_order_release);
	e->machine->opts.wake(e->machine->opts.arg);
}

static int on_join(struct vm *vm, int tid, void *arg, char *err, size_t errlen)
{
	struct machine_vm *e = arg;

	return tenant_join(e->node, tid, err, errlen);
}

typedef int (*load_fn)(struct vm *vm, void *arg, char *err, size_t errlen);

/* The PMU that is shown to the guest. */
static struct vpmu_guest_cfg pmu_of(const struct vm_config *c, const struct backend *backend)
{
	if (c->kernel && c->rdpmc_off && !(backend->ops->can & VMM_CAN_RDPMC))
		return (struct vpmu_guest_cfg){.model = VPMU_GUEST_NONE};
	return c->pmu;
}

/* Fill in the seed of a kernel's random numbers. The emulator's depends on --seed, the VM's name
 * and the number of kernels before it alone. Returns false if the host has none yet: the guest does
 * without. */
static bool vms_rng_seed(struct machine *m, const struct vm_config *c, bool emulator,
			 uint8_t seed[BOOT_RNG_SEED_BYTES])
{
	uint64_t state = m->host_cfg.seed, word;

	if (!emulator)
		return getrandom(seed, BOOT_RNG_SEED_BYTES, GRND_NONBLOCK) == BOOT_RNG_SEED_BYTES;
	state = random_next(&state) ^ m->seeded++;
	for (const char *s = c->name; *s; s++)
		state = random_next(&state) ^ (uint8_t)*s;
	for (size_t i = 0; i < BOOT_RNG_SEED_BYTES; i += sizeof(word)) {
		word = random_next(&state);
		memcpy(seed + i, &word, sizeof(word));
	}
	return true;
}

static int create_vm(struct machine *m, struct machine_vm *e, const struct vm_config *c,
		     struct backend *backend, load_fn load, void *load_arg, char *err,
		     size_t errlen)
{
	struct vpmu_account *vcpus[VM_VCPUS_MAX];
	struct vpmu_backend *source = backend->source;
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
		.quota = !share			   ? NULL
			 : backend == &m->emulator ? &share->emulator
						   : &share->kvm,
		.pmu = pmu_of(c, backend),
		.svm = c->svm,
		.ops = backend->ops,
		.engine = backend->engine,
		.sched = backend->sched,
		.share = share ? &share->share : NULL,
		.weight = c->weight,
		.account = vpmu_backend_core_account(node_in(e->node, source)),
		.vcpu_accounts = vcpus,
		.console = vms_on_console,
		.sent = m->opts.sent ? vms_on_sent : NULL,
		.ended = vms_on_ended,
		.join = on_join,
		.arg = e,
	};
	uint8_t seed[BOOT_RNG_SEED_BYTES];
	char why[VM_REASON_MAX];
	int ret;

	if (!share)
		return fail(-ENOMEM, err, errlen, "%s: vm %s: out of memory", c->where, c->name);
	for (unsigned int i = 0; i < c->vcpus; i++)
		vcpus[i] = vpmu_backend_core_account(node_in(node_vcpu(e->node, i), source));
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
	if (!ret && !load && o.protocol == &boot_linux &&
	    vms_rng_seed(m, c, backend == &m->emulator, seed))
		o.rng_seed = seed;
	if (!ret)
		ret = vm_create(&o, &e->vm, why, sizeof(why));
	explicit_bzero(seed, sizeof(seed));
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
				    const struct backend *backend)
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
	e->engine = backend->ops->name;
	e->can = backend->ops->can;
	e->pmu = pmu_of(c, backend).model;
	e->vcpus = c->vcpus;
	e->kernel = c->kernel != NULL;
	e->policy = c->policy;
	e->max_events = c->max_events;
	e->lbr = c->lbr;
	e->weight = c->weight;
	atomic_init(&e->over, false);
	return e;
}

/* Check that @c's RAM fits besides that of the others. The kernel overcommits: it would provide
 * pages until none is left and then kill the whole process. */
static int check_ram(const struct machine *m, const struct vm_config *c, char *err, size_t errlen)
{
	uint64_t limit = m->host_cfg.ram_limit;

	if (!limit)
		limit = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	if (m->ram_bytes <= limit && c->memory_bytes <= limit - m->ram_bytes)
		return 0;
	return fail(-ENOMEM, err, errlen,
		    "%s: vm %s/memory: %" PRIu64 "M is invalid; expected up to %" PRIu64
		    "M, what other VMs have left of the %" PRIu64 "M of --ram-limit",
		    c->where, c->name, c->memory_bytes >> 20,
		    m->ram_bytes < limit ? (limit - m->ram_bytes) >> 20 : 0, limit >> 20);
}

/* @e's RAM is free again. */
static void give_ram(struct machine_vm *e)
{
	e->machine->ram_bytes -= e->ram_bytes;
	e->ram_bytes = 0;
}

/* Called when the VM exists: if it cannot be created, the error is the only line. */
static void note_backend(const struct machine *m, const struct vm_config *c,
			 const struct backend *backend, const char *why)
{
	char line[VM_REASON_MAX + 160];

	if (c->engine != VM_ENGINE_AUTO || backend != &m->emulator || !m->opts.note)
		return;
	snprintf(line, sizeof(line), "vm %s: runs on the emulator (%s)", c->name, why);
	m->opts.note(line, m->opts.arg);
}

/* A distribution that demands more than the guest's CPU has ends without a word. */
static void note_simd(const struct machine *m, const struct vm_config *c,
		      const struct backend *backend)
{
	const char *level = vmm_simd_lacks(vmm_simd_host());
	char line[160];

	if (backend != &m->emulator || !c->kernel || !level || !m->opts.note)
		return;
	snprintf(line, sizeof(line), "vm %s: its CPU lacks parts of %s, as this host's does",
		 c->name, level);
	m->opts.note(line, m->opts.arg);
}

static int vms_add_vm(struct machine *m, const struct vm_config *c, load_fn load, void *load_arg,
		      struct machine_vm **out, char *err, size_t errlen)
{
	struct machine_vm *e;
	struct backend *backend;
	struct node *tenant;
	char why[VM_REASON_MAX], no_kvm[VM_REASON_MAX];
	int ret;

	if (machine_vm_find(m, c->name))
		return fail(-EEXIST, err, errlen, "%s: vm %s: there is a VM of that name", c->where,
			    c->name);
	ret = check_ram(m, c, err, errlen);
	if (!ret)
		ret = machine_choose_backend(m, c, &backend, no_kvm, err, errlen);
	if (ret)
		return ret;
	if (load && !(backend->ops->can & VMM_CAN_SAVE))
		return fail(-EOPNOTSUPP, err, errlen,
			    "%s: vm %s: engine %s cannot go on from a snapshot", c->where, c->name,
			    backend->ops->name);
	e = new_entry(m, c, backend);
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
		ret = tenant_vm_add(m->tenants, tenant, backend->source, c->name, c->vcpus, e,
				    &e->node, why, sizeof(why));
	if (ret) {
		fail(ret, err, errlen, "%s: vm %s/tenant: %s", c->where, c->name, why);
		goto err_free;
	}
	ret = create_vm(m, e, c, backend, load, load_arg, err, errlen);
	if (ret)
		goto err_node;
	e->ram_bytes = c->memory_bytes;
	m->ram_bytes += e->ram_bytes;
	/* Cannot fail: create_vm has created the tenant's share. */
	machine_set_tenant(m, e->node->parent, c->tenant_weight, c->tenant_max_events);
	*m->last = e;
	m->last = &e->next;
	note_backend(m, c, backend, no_kvm);
	note_simd(m, c, backend);
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
	return vms_add_vm(m, c, NULL, NULL, out, err, errlen);
}

int machine_vm_restore(struct machine *m, const struct vm_config *c, load_fn load, void *load_arg,
		       struct machine_vm **out, char *err, size_t errlen)
{
	return vms_add_vm(m, c, load, load_arg, out, err, errlen);
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

static struct machine_uncounted vms_uncounted(const struct vm_uncounted *u)
{
	return (struct machine_uncounted){
		.n = atomic_load_explicit(&u->n, memory_order_relaxed),
		.last = atomic_load_explicit(&u->last, memory_order_relaxed),
	};
}

struct machine_uncounted machine_vm_denied(const struct machine_vm *e)
{
	return e->vm ? vms_uncounted(&e->vm->denied) : e->denied;
}

struct machine_uncounted machine_vm_unsupported(const struct machine_vm *e)
{
	return e->vm ? vms_uncounted(&e->vm->unsupported) : e->unsupported;
}

uint64_t machine_vm_refused(const struct machine_vm *e)
{
	return e->vm ? __atomic_load_n(&e->vm->quota.refused, __ATOMIC_RELAXED) : e->refused;
}

/* Keep the last branches of a VM that failed, for the post-mortem. Out of memory: none. */
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
		/* Acquire: pairs with the release in vms_on_ended. */
		if (!e->vm || !atomic_load_explicit(&e->over, memory_order_acquire))
			continue;
		e->state = vm_state(e->vm);
		e->how = vm_how(e->vm);
		e->status = vm_status(e->vm);
		memcpy(e->reason, e->vm->reason, sizeof(e->reason));
		e->denied = machine_vm_denied(e);
		e->unsupported = machine_vm_unsupported(e);
		e->refused = machine_vm_refused(e);
		if (e->state == VM_FAILED)
			keep_branches(e);
		vm_destroy(e->vm);
		e->vm = NULL;
		give_ram(e);
		m->opts.ended(e, m->opts.arg);
	}
}
