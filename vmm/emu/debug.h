/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hardware breakpoints of one vCPU: DR0 to DR3 hold the addresses, DR7 the conditions, DR6 the hits
 * (SDM vol. 3, chapter 18; AMD64 APM vol. 2, 13.1). run.c calls these functions between
 * instructions, access.c, string.c and msr.c for accesses, cache.c when it looks up a block. While
 * DR7 enables nothing they must cost no more than one comparison, and nothing where the dispatch
 * loop and translated code hit the TLB.
 *
 * A page with a breakpoint for data is never in the TLB, so all its accesses come to access.c. An
 * access that hits a breakpoint traps like a store to decoded code (EMU_TRAP_SMC), and the
 * instruction is executed again, alone. This time the access notes the breakpoint in brk.hits and
 * proceeds. The #DB is raised when the instruction is done.
 *
 * Code in a page with a breakpoint for instructions is executed one instruction at a time. Its
 * blocks are found with a ctx of their own (EMU_CTX_NEAR), so no link leads there unnoticed. All
 * other code runs as always.
 */
#pragma once

#include "vmm/emu/lbr.h"

#define EMU_DR6_BD (1ULL << 13)
#define EMU_DR6_BS (1ULL << 14)
#define EMU_DR7_GD (1ULL << 13)
#define EMU_NR_BRK 4u

/* emu_ctx_update - call it whenever v->map_gen, v->kernel_gen, v->cpl or v->brk.near has
 * changed. */
static inline void emu_ctx_update(struct emu_vcpu *v)
{
	uint32_t gen = v->cpl == 3 ? v->map_gen : v->kernel_gen;

	v->ctx = gen << EMU_CTX_GEN | (v->brk.near ? EMU_CTX_NEAR : 0) | (v->cpl == 3);
	emu_lbr_update(v);
}

/* emu_watched - returns true if the page of @va has a breakpoint of the set @which (brk.code,
 * brk.data). */
static inline bool emu_watched(const struct emu_vcpu *v, unsigned int which, uint64_t va)
{
	for (unsigned int n = 0; which >> n; n++)
		if ((which >> n & 1) && !((v->dr[n] ^ va) >> EMU_PAGE_SHIFT))
			return true;
	return false;
}

/* emu_debug_update - call it when DR0 to DR7 have changed: updates the sets of breakpoints. */
void emu_debug_update(struct emu_vcpu *v);
/* emu_debug_access - the instruction in progress accesses @bytes at @va. Call it while brk.data is
 * not 0, before the access. Returns 1 with v->trap set if the instruction must be executed alone
 * first. */
int emu_debug_access(struct emu_vcpu *v, uint64_t va, unsigned int bytes, bool store);
/* emu_rmw_quiet - emu_rmw_slow() without breakpoints, for operands that are accessed in part or not
 * at all. */
static inline void *emu_rmw_quiet(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	void *p;

	v->brk.quiet = true;
	p = emu_rmw_slow(v, va, bytes);
	v->brk.quiet = false;
	return p;
}
/* emu_debug_port - the instruction in progress accesses @bytes at @port. */
void emu_debug_port(struct emu_vcpu *v, uint16_t port, unsigned int bytes);
/* emu_debug_fetch - call it before the instruction at v->rip is looked up, while there are
 * breakpoints for instructions or v->brk.near is set. @pass: report none, because of RF or after
 * MOV SS. Traps: #DB. */
int emu_debug_fetch(struct emu_vcpu *v, bool pass);
/* emu_debug_due - returns true if a #DB follows the instruction that was just done: it was
 * single-stepped (v->step) or hit breakpoints. After MOV SS neither is reported yet. */
static inline bool emu_debug_due(const struct emu_vcpu *v)
{
	return (v->step || v->brk.hits) && !v->brk.ss_shadow;
}
/* emu_debug_trap - raise that #DB. */
void emu_debug_trap(struct emu_vcpu *v);
