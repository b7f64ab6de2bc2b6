// SPDX-License-Identifier: GPL-2.0-or-later
/* The modelled hosts and emulator VMs that benchmarks run. See bench_bed.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench_bed.h"
#include "tests/emu/attack.h"
#include "vpmu/account.h"
#include "vpmu/host.h"

#define MIB (1u << 20)

static const enum vpmu_generic events[BENCH_KEYS] = {
	VPMU_EV_INSTRUCTIONS,	VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES, VPMU_EV_BRANCHES,
	VPMU_EV_BRANCHES_TAKEN, VPMU_EV_LOADS,	VPMU_EV_STORES};

void must(bool ok, const char *what, const char *why)
{
	if (ok)
		return;
	fprintf(stderr, "vpmu-bench: %s: %s\n", what, why);
	exit(1);
}

void bed_open(struct bed *b, unsigned int pcpus, uint64_t slice)
{
	char err[512] = "out of memory";

	memset(b, 0, sizeof(*b));
	config_init(&b->cfg);
	b->cfg.host.pcpus = pcpus;
	b->cfg.host.slice_insns = slice;
	b->host = vpmu_host_create();
	must(b->host && !runner_create(b->host, &b->cfg.host, &b->runner), "runner", err);
	must(!vmm_emu_ops.open(&b->engine, err, sizeof(err)), "engine", err);
	must(!image_read(VPMU_GUEST, &b->image, err, sizeof(err)), "image", err);
	for (int k = 0; k < BENCH_KEYS; k++)
		must(!vpmu_consumer_add(&b->total[k], vpmu_host_root(b->host),
					vpmu_key_generic(events[k], VPMU_KEY_USR | VPMU_KEY_OS),
					NULL),
		     "consumer", err);
}

void bed_close(struct bed *b)
{
	for (int k = 0; k < BENCH_KEYS; k++)
		vpmu_consumer_del(&b->total[k], NULL, NULL);
	runner_destroy(b->runner);
	image_free(&b->image);
	vmm_emu_ops.close(b->engine);
	vpmu_host_destroy(b->host);
	config_fini(&b->cfg);
}

static void quiet(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void ended(struct vm *vm, void *arg)
{
}

static void bvm_create(struct bed *b, struct bvm *v, unsigned int vcpus, const char *args,
		       const struct boot_protocol *protocol,
		       int (*load)(struct vm *vm, void *arg, char *err, size_t errlen),
		       void *load_arg)
{
	struct vm_opts o = {
		.name = "bench",
		.vcpus = vcpus,
		.memory_bytes = 16 * MIB,
		.image = &b->image,
		.protocol = protocol,
		.load = load,
		.load_arg = load_arg,
		.args = args,
		.pmu = {.model = VPMU_GUEST_INTEL_V5},
		.ops = &vmm_emu_ops,
		.engine = b->engine,
		.sched = runner_sched(b->runner),
		.console = quiet,
		.ended = ended,
	};
	char err[512] = "out of memory";

	v->nr = vcpus;
	v->vcpus = calloc(vcpus, sizeof(struct vpmu_account *));
	must(v->vcpus && !vpmu_account_create(vpmu_host_root(b->host), NULL, &v->account), "VM",
	     err);
	for (unsigned int i = 0; i < vcpus; i++)
		must(!vpmu_account_create(v->account, NULL, &v->vcpus[i]), "vCPU", err);
	o.account = v->account;
	o.vcpu_accounts = v->vcpus;
	must(!vm_create(&o, &v->vm, err, sizeof(err)), "VM", err);
}

void bvm_open(struct bed *b, struct bvm *v, unsigned int vcpus, const char *args)
{
	bvm_create(b, v, vcpus, args, NULL, NULL, NULL);
}

void bvm_open_load(struct bed *b, struct bvm *v, unsigned int vcpus,
		   int (*load)(struct vm *vm, void *arg, char *err, size_t errlen), void *arg)
{
	bvm_create(b, v, vcpus, NULL, NULL, load, arg);
}

void bvm_open_linux(struct bed *b, struct bvm *v, unsigned int vcpus,
		    int (*load)(struct vm *vm, void *arg, char *err, size_t errlen), void *arg)
{
	bvm_create(b, v, vcpus, NULL, &boot_linux, load, arg);
}

void bvm_close(struct bvm *v)
{
	vm_destroy(v->vm);
	for (unsigned int i = 0; i < v->nr; i++)
		vpmu_account_del(v->vcpus[i]);
	vpmu_account_del(v->account);
	free(v->vcpus);
}

void start(struct bvm *v)
{
	char err[512];

	must(!vm_start(v->vm, err, sizeof(err)), "VM", err);
}

int bvm_load_chip(struct vm *vm, void *arg, char *err, size_t errlen)
{
	int ret = 0;

	for (unsigned int i = 0; i < vm->nr_vcpus && !ret; i++)
		ret = chip_attack_load(arg, vm->ops, vm->vcpus[i].ev, i, vm->ram.base);
	return ret;
}

uint64_t insns(struct bed *b)
{
	struct runner_stats s;

	runner_stats(b->runner, &s);
	return s.insns;
}

void run_slices(void *arg, uint64_t n)
{
	struct bed *b = arg;

	if (!b->slices)
		b->insns_before = insns(b);
	must(runner_step(b->runner, n) == n, "runner", "the guests ended");
	b->slices += n;
}

/* Guest instructions per slice, the mean of all. */
double insns_per_slice(struct bed *b)
{
	return (double)(insns(b) - b->insns_before) / (double)b->slices;
}
