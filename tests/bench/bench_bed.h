/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A modelled host and emulator VMs on it, for benchmarks. Every event is counted. A failure ends
 * the program with one line.
 */
#ifndef TESTS_BENCH_BENCH_BED_H
#define TESTS_BENCH_BENCH_BED_H

#include "tests/bench/bench.h"
#include "vmm/sched/runner.h"
#include "vmm/vm/vm.h"
#include "vpmu/consumer.h"
#include "vpmu/core/rcu.h"

#define BENCH_KEYS 7

struct bed {
	struct config cfg;
	struct vpmu_host *host;
	struct runner *runner;
	struct vmm_engine *engine;
	struct image image;
	struct vpmu_consumer total[BENCH_KEYS];
	uint64_t slices, insns_before; /* run by run_slices; executed before its first */
};

struct bvm {
	struct vpmu_account *account, **vcpus;
	unsigned int nr;
	struct vm *vm;
};

/* must - unless @ok, print @what and @why and exit. */
void must(bool ok, const char *what, const char *why);

/* bed_open - a host of @pcpus modelled pCPUs with slices of @slice, stepped by the caller. */
void bed_open(struct bed *b, unsigned int pcpus, uint64_t slice);
void bed_close(struct bed *b);

/* bvm_open - a VM that runs the guest tools with @args. bvm_open_load - one that @load fills in, as
 * vm_opts.load. start - let it run. */
void bvm_open(struct bed *b, struct bvm *v, unsigned int vcpus, const char *args);
void bvm_open_load(struct bed *b, struct bvm *v, unsigned int vcpus,
		   int (*load)(struct vm *vm, void *arg, char *err, size_t errlen), void *arg);
/* bvm_open_linux - the same with the hardware of stock kernels. */
void bvm_open_linux(struct bed *b, struct bvm *v, unsigned int vcpus,
		    int (*load)(struct vm *vm, void *arg, char *err, size_t errlen), void *arg);
/* bvm_load_chip - vm_opts.load of the struct chip_attack @arg. */
int bvm_load_chip(struct vm *vm, void *arg, char *err, size_t errlen);
void bvm_close(struct bvm *v);
void start(struct bvm *v);

/* insns - guest instructions retired on @b. */
uint64_t insns(struct bed *b);
/* run_slices - run @n slices of the bed @arg. */
void run_slices(void *arg, uint64_t n);
/* insns_per_slice - guest instructions per slice, the mean of all slices of run_slices(). */
double insns_per_slice(struct bed *b);

#endif
