/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Soft side of the differential test: cases run on the emulator through vmm/engine/engine.h. */
#ifndef TESTS_EMU_EMU_SIDE_H
#define TESTS_EMU_EMU_SIDE_H

#include "tests/emu/dt.h"
#include "tests/emu/bare.h"
#include "vpmu/emupmu.h"

struct emu_side {
	struct bare vm;
	const uint8_t *pool;
	uint64_t code, edge, data, ro, stack, exit; /* guest-physical */
	struct vpmu_emu_tally tally;
	/* Breakpoints that each run has, and where their traps go; or NULL. */
	const struct dt_watch *watch;
	struct dt_traps *traps;
};

/* What one run added to the tally in CPL3, and whether the engine kept its promises doing so. */
struct emu_counts {
	uint64_t ev[VPMU_EMU_EVENTS];
	uint64_t retired;
	struct vpmu_lbr_regs lbr; /* branches in CPL3, of a run in one slice */
	char broken[120];	  /* empty, or the promise broken */
};

/* emu_side_init - a fresh machine of @vcpus vCPUs, of which the first executes the cases. LOCK is
 * decoded in two ways: for one vCPU, and for several. @cpuid: @n entries the guest sees. 0 or
 * -errno, @why. */
int emu_side_init(struct emu_side *s, unsigned int vcpus, const uint8_t *pool,
		  const struct kvm_cpuid_entry2 *cpuid, size_t n, char *why, size_t why_len);
void emu_side_fini(struct emu_side *s);

/*
 * emu_side_load - put the code of @n cases into their slots; none of their pages may have run.
 * emu_side_run - run one; @slices: 0 = in one slice, with branch records on; else a seed of random
 * budgets and alarms. EMU_SIDE_WARM: in one slice, without branch records, and with the pages of
 * its data in the TLB: nothing of it keeps translated code from running.
 */
#define EMU_SIDE_WARM UINT64_MAX
void emu_side_load(struct emu_side *s, const struct dt_case *c, unsigned int n);
void emu_side_run(struct emu_side *s, const struct dt_case *c, uint64_t slices, struct dt_result *r,
		  struct emu_counts *counts);
/* emu_side_regs_in, emu_side_regs_out - a case's registers as KVM has them, and back. */
void emu_side_regs_in(const struct dt_case *c, struct kvm_regs *k);
void emu_side_regs_out(const struct kvm_regs *k, uint64_t *r);

#endif
