/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the files of emu-truth: native runs, the same code in a VM, slices of it. */
#ifndef TESTS_EMU_TRUTH_RUN_H
#define TESTS_EMU_TRUTH_RUN_H

#include "guest-tools/workloads.h"
#include "tests/emu/bare.h"
#include "tests/emu/truth.h"
#include "vpmu/emupmu.h"

#define NR_PCPUS  2u
#define EXIT_VA	  0x13370000u
#define RAM_BYTES (32u << 20)

struct run {
	const char *name;
	workload_fn *fn;
	uint64_t n;
	struct truth truth;
	struct truth_log log;
	uint8_t *memory; /* scratch memory as the native run left it */
};

struct account {
	const struct run *r;
	uint64_t ev[VPMU_EMU_EVENTS]; /* CPL3 */
	unsigned int slices, moves;
	int on; /* pCPU of the last slice */
	bool done;
};

/* start_machine, start_vcpu - @s is created with the code of this process, and vCPU @i is put at
 * the start of @r. 0 or -errno. */
int start_machine(struct bare *s, unsigned int vcpus);
int start_vcpu(struct bare *s, unsigned int i, const struct run *r, bool shared);
/* slice - one of vCPU @i on @tally; additions there are the vCPU's. Returns 0, or -errno. */
int slice(struct bare *s, unsigned int i, struct account *a, struct vpmu_emu_tally *tally, int pcpu,
	  uint64_t budget);
/* result - one line of the test's output. */
void result(bool ok, const char *fmt, const char *name);

/* truth_branches - @nr runs, in random slices: the records are the last branches of the native
 * run, or, with @stack, its open calls. */
void truth_branches(const struct run *runs, unsigned int nr, bool stack, uint64_t seed);

#endif
