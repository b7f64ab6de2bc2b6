// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Debug registers and hardware breakpoints; debug.h describes the scheme and the callers. SDM vol.
 * 3, 18.2 defines DR6 and DR7. A breakpoint that DR7 does not enable is never reported in DR6. The
 * accesses of event delivery (gate, stack) hit none.
 */
#include "vmm/emu/debug.h"

#define CR4_DE (1ULL << 3)

/* R/W fields of DR7. */
enum { BRK_CODE, BRK_STORE, BRK_PORT, BRK_ACCESS };

static unsigned int debug_type_of(const struct emu_vcpu *v, unsigned int n)
{
	return v->dr[7] >> (16 + 4 * n) & 3;
}

static bool enabled(const struct emu_vcpu *v, unsigned int n)
{
	return v->dr[7] >> 2 * n & 3;
}

/* Returns true if breakpoint @n covers any of the @bytes at @at. Its length is in its LEN field,
 * and the address bits below that length are ignored. */
static bool meets(const struct emu_vcpu *v, unsigned int n, uint64_t at, unsigned int bytes)
{
	static const uint8_t lengths[] = {1, 2, 8, 4};
	unsigned int len = lengths[v->dr[7] >> (18 + 4 * n) & 3];
	uint64_t base = v->dr[n] & ~(uint64_t)(len - 1);

	return base - at < bytes || at - base < len;
}

void emu_debug_update(struct emu_vcpu *v)
{
	v->brk.code = v->brk.data = 0;
	for (unsigned int n = 0; n < EMU_NR_BRK; n++) {
		unsigned int type = debug_type_of(v, n);

		if (!enabled(v, n) || type == BRK_PORT)
			continue;
		if (type == BRK_CODE)
			v->brk.code |= (uint8_t)(1u << n);
		else
			v->brk.data |= (uint8_t)(1u << n);
		/* Drop its TLB entry, and look up its blocks again. */
		emu_tlb_flush_page(v, v->dr[n]);
	}
}

int emu_debug_access(struct emu_vcpu *v, uint64_t va, unsigned int bytes, bool store)
{
	uint8_t hits = 0;

	if (v->brk.quiet)
		return 0;
	for (unsigned int n = 0; n < EMU_NR_BRK; n++)
		if ((v->brk.data >> n & 1) && (store || debug_type_of(v, n) == BRK_ACCESS) &&
		    meets(v, n, va, bytes))
			hits |= (uint8_t)(1u << n);
	if (!hits)
		return 0;
	if (!v->single) {
		v->trap = EMU_TRAP_SMC;
		return 1;
	}
	v->brk.hits |= hits;
	return 0;
}

void emu_debug_port(struct emu_vcpu *v, uint16_t port, unsigned int bytes)
{
	if (!(v->cr4 & CR4_DE))
		return;
	for (unsigned int n = 0; n < EMU_NR_BRK; n++)
		if (enabled(v, n) && debug_type_of(v, n) == BRK_PORT && meets(v, n, port, bytes))
			v->brk.hits |= (uint8_t)(1u << n);
}

int emu_debug_fetch(struct emu_vcpu *v, bool pass)
{
	bool near = emu_watched(v, v->brk.code, v->rip);
	unsigned int hits = 0;

	if (near != v->brk.near) {
		v->brk.near = near;
		emu_ctx_update(v);
	}
	if (!near || pass)
		return 0;
	for (unsigned int n = 0; n < EMU_NR_BRK; n++)
		if ((v->brk.code >> n & 1) && v->dr[n] == v->rip)
			hits |= 1u << n;
	if (!hits)
		return 0;
	v->dr[6] |= hits;
	return emu_fault(v, EMU_DB, false, 0);
}

void emu_debug_trap(struct emu_vcpu *v)
{
	v->dr[6] |= (v->step ? EMU_DR6_BS : 0) | v->brk.hits;
	v->brk.hits = 0;
	emu_fault(v, EMU_DB, false, 0);
}

/* ---- the registers ---- */

static int dr_index(struct emu_vcpu *v, unsigned int n)
{
	if (n == 4 || n == 5) {
		if (v->cr4 & CR4_DE)
			return -1;
		return (int)n + 2;
	}
	return n > 7 ? -1 : (int)n;
}

/* Bits that are fixed: SDM vol. 3, 18.2. */
uint64_t emu_dr_fixed(unsigned int n, uint64_t x)
{
	return n == 6 ? (x & 0xe00f) | 0xffff0ff0 : (x & 0xffff2bff) | 0x400;
}

bool emu_dr_valid(unsigned int n, uint64_t x)
{
	return x == emu_dr_fixed(n, x);
}

/* Checks that MOV to and from DR share. Returns the register, or -1 with v->trap set. With DR7.GD
 * the access is a fault, for which RF is set; emu_deliver() clears GD. */
static int debug_begin(struct emu_vcpu *v, unsigned int dr)
{
	int n;

	if (v->cpl) {
		emu_gp(v, 0);
		return -1;
	}
	n = dr_index(v, dr);
	if (n < 0) {
		emu_ud(v);
		return -1;
	}
	if (v->dr[7] & EMU_DR7_GD) {
		v->dr[6] |= EMU_DR6_BD;
		v->rflags |= EMU_RF;
		emu_fault(v, EMU_DB, false, 0);
		return -1;
	}
	return n;
}

int emu_sys_mov_to_dr(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = v->r[op->src];
	int n = debug_begin(v, op->scale);

	if (n < 0)
		return 1;
	if (n >= 6 && x >> 32)
		return emu_gp(v, 0);
	v->dr[n] = n < 6 ? x : emu_dr_fixed((unsigned int)n, x);
	if (n == 7 || (n < 4 && enabled(v, (unsigned int)n)))
		emu_debug_update(v);
	return 0;
}

int emu_sys_mov_from_dr(struct emu_vcpu *v, const struct emu_op *op)
{
	int n = debug_begin(v, op->scale);

	if (n < 0)
		return 1;
	v->r[op->dst] = v->dr[n];
	return 0;
}
