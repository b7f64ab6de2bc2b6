/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Short words for tests that use a guest's counters: one vCPU, its registers, its work. */
#ifndef TESTS_UNIT_GUEST_USE_H
#define TESTS_UNIT_GUEST_USE_H

#include <criterion/criterion.h>

#include "conserved.h"
#include "guest_bed.h"

#define USR  (1u << 16)
#define OS   (1u << 17)
#define EDGE (1u << 18)
#define INT  (1u << 20)
#define EN   (1u << 22)
#define INV  (1u << 23)
#define BOTH (USR | OS)
#define W48  0xffffffffffffULL

#define INSTR  0xc0u
#define CYCLES 0x3cu
#define BRANCH 0xc4u
#define LOADS  0x81d0u
#define MISSES 0xc5u /* the emulator host has none */

static struct bed b;

static inline uint64_t rd(uint32_t msr)
{
	uint64_t val = 0;
	int ret = vpmu_guest_rdmsr(b.g, msr, &val);

	cr_assert_eq(ret, 0, "RDMSR %x: %d", msr, ret);
	return val;
}

static inline void wr(uint32_t msr, uint64_t val)
{
	int ret = vpmu_guest_wrmsr(b.g, msr, val);

	cr_assert_eq(ret, 0, "WRMSR(%x, %llx): %d", msr, (unsigned long long)val, ret);
}

static inline uint64_t pmc(uint32_t ecx)
{
	uint64_t val = 0;

	cr_assert_eq(vpmu_guest_rdpmc(b.g, ecx, &val), 0);
	return val;
}

#define PV_EN(i)  rd(VPMU_PV_MSR_BASE + 4 * (i))
#define PV_RUN(i) rd(VPMU_PV_MSR_BASE + 4 * (i) + 1)
#define PV_Q(i)	  rd(VPMU_PV_MSR_BASE + 4 * (i) + 2)

/* I1, and the end of what start_on() began: by the next one, or in the suite's .fini. */
static inline void finish(void)
{
	if (!b.host)
		return;
	conserved(b.host);
	bed_fini(&b);
	b.host = NULL;
}

static inline void start_on(enum vpmu_guest_model model, unsigned int gp, unsigned int fixed,
			    const struct vpmu_emupmu_opts *emulator)
{
	struct vpmu_guest_cfg cfg = {.model = model, .gp = gp, .fixed = fixed};

	finish();
	cr_assert_eq(bed_init(&b, &cfg, emulator), 0);
	bed_enter(&b, 0);
}

static inline void start(enum vpmu_guest_model model)
{
	start_on(model, 0, 0, NULL);
}

/* The guest runs @n user and @m kernel instructions, with some of everything else. */
static inline void work(uint64_t n, uint64_t m)
{
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
	bed_exec(&b, VPMU_EMU_OS, VPMU_EMU_INSTRUCTIONS, m);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_BRANCHES, n / 2);
	bed_exec(&b, VPMU_EMU_OS, VPMU_EMU_BRANCHES, m / 2);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_CYCLES, 3 * n);
	bed_exec(&b, VPMU_EMU_OS, VPMU_EMU_CYCLES, 3 * m);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_REF_CYCLES, 2 * n);
	bed_exec(&b, VPMU_EMU_OS, VPMU_EMU_REF_CYCLES, 2 * m);
	/* the hypervisor's own work is never the guest's */
	bed_exec(&b, VPMU_EMU_HOST, VPMU_EMU_INSTRUCTIONS, 1000003);
}

/* The CPU executes a taken branch; it looks at nothing but its own registers. */
static inline void branch(enum vpmu_emu_mode mode, uint32_t type, uint64_t from, uint64_t to)
{
	struct vpmu_lbr_regs *l = &b.sp[b.on].tally->lbr;

	if (!(l->ctl & VPMU_LBR_EN) || !(l->ctl & type) ||
	    !(l->ctl & (mode == VPMU_EMU_OS ? VPMU_LBR_OS : VPMU_LBR_USR)))
		return;
	l->head = (uint8_t)((l->head + 1) % VPMU_LBR_DEPTH_MAX);
	l->e[l->head] = (struct vpmu_lbr_entry){from, to, 5ULL << VPMU_LBR_INFO_TYPE_SHIFT | 77};
	l->count = (uint8_t)(l->count < l->depth ? l->count + 1 : l->depth);
	l->total++;
}

#endif
