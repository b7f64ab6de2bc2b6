// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX-512: memory operands, gathers and scatters. An element whose mask bit is 0 is not accessed,
 * so it cannot fault (SDM vol. 1, 15.6.4). A masked access that faults has changed nothing; a
 * gather or scatter that faults has completed the elements before, and cleared their mask bits.
 */
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/fp/evex.h"

/* An operand of which no element is accessed need not be aligned (measured on AMD family 19H). */
static bool evex_misaligned(struct emu_vcpu *v, const struct emu_op *op, union evex_op e,
			    uint64_t bits)
{
	return e.align && bits && (v->r[EMU_TEA] & (op->base - 1u)) && emu_gp(v, 0);
}

/* The elements in memory that an instruction with @mask accesses, a bit each. */
static uint64_t evex_elements(const struct emu_op *op, union evex_op e, uint64_t mask)
{
	unsigned int in_memory = op->base >> e.mem_lg;
	unsigned int n = e.scalar      ? 1
			 : e.broadcast ? evex_bytes(e) >> (e.lg > e.mem_lg ? e.lg : e.mem_lg)
				       : in_memory;
	uint64_t all = n < 64 ? mask & ((1ULL << n) - 1) : mask, bits = 0;

	if (e.packed) {
		n = (unsigned int)__builtin_popcountll(all);
		return n < 64 ? (1ULL << n) - 1 : UINT64_MAX;
	}
	if (!e.broadcast)
		return all;
	for (unsigned int i = 0; i < n; i += in_memory)
		bits |= all >> i;
	return bits & ((1ULL << in_memory) - 1);
}

/* Replicate the lowest @bytes of @z. */
static void evex_broadcast(union evex_reg *z, unsigned int bytes)
{
	for (unsigned int at = bytes; at < sizeof(*z); at += bytes)
		memcpy(z->b + at, z->b, bytes);
}

static unsigned int evex_first(uint64_t bits)
{
	return (unsigned int)__builtin_ctzll(bits);
}

static unsigned int evex_end(uint64_t bits)
{
	return 64 - (unsigned int)__builtin_clzll(bits);
}

/* Only elements that are accessed hit breakpoints; the access itself is then made quietly. */
static bool evex_watch(struct emu_vcpu *v, uint64_t bits, unsigned int lg, bool store)
{
	if (likely(!v->brk.data))
		return false;
	for (; bits; bits &= bits - 1)
		if (emu_debug_access(v, v->r[EMU_TEA] + ((uint64_t)evex_first(bits) << lg),
				     1u << lg, store))
			return true;
	return false;
}

/* The access to the range of @bits has trapped. If that was a page fault of the second page, its
 * address is that of the first element there, even behind the page's start. */
static int evex_fault(struct emu_vcpu *v, uint64_t bits, unsigned int lg)
{
	uint64_t va = v->r[EMU_TEA], second = (va & EMU_PAGE_MASK) + EMU_PAGE_SIZE;

	if (v->trap != EMU_TRAP_FAULT || v->fault.vec != EMU_PF || v->fault.cr2 != second)
		return 1;
	while (va + ((uint64_t)(evex_first(bits) + 1) << lg) <= second)
		bits &= bits - 1;
	if (va + ((uint64_t)evex_first(bits) << lg) > second)
		v->fault.cr2 = va + ((uint64_t)evex_first(bits) << lg);
	return 1;
}

/* Pages between the first and the last element that is accessed hold one of them: an operand has
 * 64 bytes at most. */
static int evex_load_slow(struct emu_vcpu *v, const struct emu_op *op, union evex_op e,
			  uint64_t bits, union evex_reg *to)
{
	uint64_t va = v->r[EMU_TEA];
	unsigned int acc = v->cpl == 3 ? EMU_ACC_U : 0, from, n;
	int rc;

	if (e.whole)
		return emu_sys_read(v, va, to, op->base, acc);
	if (!bits)
		return 0;
	v->extra += EMU_EFFORT_SIMD;
	if (evex_watch(v, bits, e.mem_lg, false))
		return 1;
	from = evex_first(bits) << e.mem_lg;
	n = (evex_end(bits) << e.mem_lg) - from;
	v->brk.quiet = true;
	rc = emu_sys_read(v, va + from, to->b + from, n, acc);
	v->brk.quiet = false;
	return rc ? evex_fault(v, bits, e.mem_lg) : 0;
}

int evex_load(struct emu_vcpu *v, const struct emu_op *op, union evex_op e, union evex_reg *to)
{
	uint64_t va = v->r[EMU_TEA];
	const struct emu_tlbe *t = &v->tlb[va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
	uint64_t bits = evex_elements(op, e, evex_mask(v, e));

	v->extra += EMU_EFFORT_EVEX;
	if (evex_misaligned(v, op, e, bits))
		return 1;
	if (likely(t->rtag == ((va + op->base - 1) & EMU_PAGE_MASK)))
		memcpy(to, (const void *)(t->add + va), op->base);
	else if (evex_load_slow(v, op, e, bits, to))
		return 1;
	if (e.broadcast)
		evex_broadcast(to, op->base);
	return 0;
}

int evex_open(struct emu_vcpu *v, const struct emu_op *op, union evex_op e, struct evex_area *a)
{
	uint64_t va = v->r[EMU_TEA];
	const struct emu_tlbe *t = &v->tlb[va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
	uint64_t checked;
	int rc;

	v->extra += EMU_EFFORT_EVEX;
	*a = (struct evex_area){.bits = evex_elements(op, e, evex_mask(v, e))};
	if (evex_misaligned(v, op, e, a->bits))
		return 1;
	if (likely(t->wtag == ((va + op->base - 1) & EMU_PAGE_MASK))) {
		a->direct = (uint8_t *)(t->add + va);
		return 0;
	}
	checked = e.whole ? evex_elements(op, e, UINT64_MAX) : a->bits;
	if (!checked)
		return 0;
	if (evex_watch(v, a->bits, e.mem_lg, true))
		return 1;
	a->first = evex_first(checked) << e.mem_lg;
	a->open = true;
	v->brk.quiet = true;
	rc = emu_area_open(v, va + a->first, (evex_end(checked) << e.mem_lg) - a->first);
	v->brk.quiet = false;
	return rc ? evex_fault(v, checked, e.mem_lg) : 0;
}

/* Elements that follow each other are stored at once. */
void evex_close(struct emu_vcpu *v, union evex_op e, const struct evex_area *a, const void *from)
{
	uint64_t bits = a->bits;

	while (bits) {
		unsigned int i = evex_first(bits);
		unsigned int n = ~(bits >> i) ? evex_first(~(bits >> i)) : 64;
		unsigned int at = i << e.mem_lg, bytes = n << e.mem_lg;
		const uint8_t *p = (const uint8_t *)from + at;

		v->extra += EMU_EFFORT_SIMD;
		if (a->direct)
			memcpy(a->direct + at, p, bytes);
		else
			emu_area_io(v, at - a->first, (void *)(uintptr_t)p, bytes, true);
		bits &= i + n < 64 ? UINT64_MAX << (i + n) : 0;
	}
	if (a->open)
		emu_area_close(v);
}

/* The result of a gather has @bytes; register bits beyond are cleared. */
static void evex_gathered(struct emu_vcpu *v, const struct emu_op *op, union evex_reg *z,
			  unsigned int bytes)
{
	memset(z->b + bytes, 0, sizeof(*z) - bytes);
	evex_put(v, op->dst, z);
}

/* The elements of @op are at EMU_TEA plus an index each. op->scale: register of the indices;
 * op->idx: the one with the segment base. */
int emu_help_evex_gather(struct emu_vcpu *v, const struct emu_op *op)
{
	const union evex_op e = {.imm = op->imm};
	const union evex_reg index = evex_get(v, op->scale);
	unsigned int bytes = 1u << e.lg, index_bytes = 1u << e.mem_lg;
	unsigned int n = evex_bytes(e) / (index_bytes > bytes ? index_bytes : bytes);
	uint64_t seg = v->r[op->idx], at = v->r[EMU_TEA] - seg, *mask = &v->fpu.k[e.mask];
	struct emu_op one = {.base = (uint8_t)bytes, .flags = op->flags};
	union evex_reg z = evex_get(v, op->dst);
	bool any = false;

	if (emu_fp_avx512(v))
		return 1;
	v->extra += EMU_EFFORT_SIMD * n;
	for (unsigned int i = 0; i < n; i++) {
		uint64_t x = index_bytes == 8 ? index.q[i] : (uint64_t)(int32_t)index.d[i];
		int rc;

		if (!(*mask >> i & 1))
			continue;
		x = at + x * e.count;
		v->r[EMU_TEA] = seg + (op->flags & EMU_OPF_A32 ? (uint32_t)x : x);
		rc = e.store ? emu_simd_store(v, &one, z.b + i * bytes)
			     : emu_simd_load(v, &one, z.b + i * bytes);
		if (rc) {
			/* Measured on AMD family 19H. */
			if (!e.store && any)
				evex_gathered(v, op, &z, evex_bytes(e));
			return 1;
		}
		any = true;
		*mask &= ~(1ULL << i);
	}
	*mask = 0;
	if (!e.store)
		evex_gathered(v, op, &z, n * bytes);
	return 0;
}
