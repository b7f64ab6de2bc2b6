/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the register models share. guest.c owns the counters: values, consumers, overflow bits.
 * A vendor file owns the layout: a table of its registers, CPUID, RDPMC encodings, and which key
 * an event select means. A counter is on iff the vendor file selected a key for it (ctr.sel) and
 * its bit is set in global_ctrl; nobody but guest.c looks at that.
 *
 * An MSR exit takes no lock, allocates nothing and makes no system call of its own; what a counter
 * that starts costs is vpmu_consumer_enable's.
 */
#ifndef VPMU_GUEST_INTERNAL_H
#define VPMU_GUEST_INTERNAL_H

#include "vpmu/guest/guest.h"

#define BIT(n)	      (1ULL << (n))
#define FIXED0	      VPMU_GUEST_MAX_GP /* counter number of the first fixed counter */
#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define guest_for_each_ctr(i, mask)                                                                \
	for (uint32_t m_ = (mask); m_ && ((i) = (unsigned int)__builtin_ctz(m_), true);            \
	     m_ &= m_ - 1)

/*
 * A range of registers of a model. @i is the index in the range. Without @rd (@wr) every read
 * (write) is #GP. 0 or -EFAULT; on -EFAULT nothing has changed.
 */
struct guest_reg {
	uint32_t base;
	uint32_t count;
	int (*rd)(struct vpmu_guest *g, unsigned int i, uint64_t *val);
	int (*wr)(struct vpmu_guest *g, unsigned int i, uint64_t val);
};

struct vpmu_guest_ops {
	const struct guest_reg *regs; /* disjoint; hot ones first */
	unsigned int nr_regs;
	unsigned int gp_min, gp_max, gp_default;
	unsigned int fixed_max, fixed_default;
	unsigned int width; /* of all counters, bits */
	/* counter number that RDPMC's ECX names, or -1: #GP */
	int (*rdpmc)(const struct vpmu_guest *g, uint32_t ecx);
	void (*cpuid)(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf,
		      uint32_t regs[4]);
};

extern const struct vpmu_guest_ops guest_intel_v2_ops, guest_intel_v5_ops, guest_amd_v2_ops;

/* Does counter @i exist? For indexes of register ranges. */
static inline bool guest_has(const struct vpmu_guest *g, unsigned int i)
{
	return i < VPMU_GUEST_MAX_CTRS && (g->ctrs & (1u << i));
}

/* Bit of counter @i in the global control and status registers, the same for both vendors. */
static inline uint64_t guest_global_bit(unsigned int i)
{
	return i < FIXED0 ? BIT(i) : BIT(32 + i - FIXED0);
}

/* All of these bits of counters that exist. */
uint64_t guest_global_mask(const struct vpmu_guest *g);

/* IA32_PERF_GLOBAL_STATUS.CTR_Frz: while set no counter counts (SDM vol. 3, 20.2.4). */
#define STATUS_CTR_FRZ BIT(59)

/* guest_settle - make the values, times and overflow bits of @ctrs current, to the instruction.
 * Before anything that reads them or changes what they count. */
void guest_settle(struct vpmu_guest *g, uint32_t ctrs);

/* guest_apply - after a change of sel, global_ctrl or CTR_Frz: @ctrs that are now on start, those
 * that are off stop, all from the same instant. They were settled before the change. */
void guest_apply(struct vpmu_guest *g, uint32_t ctrs);

/* guest_ctr_read / write - the value of counter @i now; set it (counting goes on from there). */
uint64_t guest_ctr_read(struct vpmu_guest *g, unsigned int i);
void guest_ctr_write(struct vpmu_guest *g, unsigned int i, uint64_t val);

/* guest_select - counter @i (settled) counts @sel from now on if its global bit says so. */
void guest_select(struct vpmu_guest *g, unsigned int i, vpmu_key_t sel);

/* guest_set_global / guest_set_status - replace IA32_PERF_GLOBAL_CTRL or PerfCntrGlobalCtl;
 * clear and set bits of the status register. Bits were checked. */
void guest_set_global(struct vpmu_guest *g, uint64_t val);
void guest_set_status(struct vpmu_guest *g, uint64_t clear, uint64_t set);
uint64_t guest_status(struct vpmu_guest *g);

/* pv.c */
int guest_pv_rd(struct vpmu_guest *g, unsigned int i, uint64_t *val);
void guest_pv_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t regs[4]);

#endif
