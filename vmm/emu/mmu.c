// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guest paging and the software TLB. Every guest access goes through these functions or through a
 * TLB entry made here; all files that execute instructions call them. An entry must never point
 * outside of guest RAM. Page tables have four levels (AMD64 APM vol. 2, 5.3; SDM vol. 3, 4.5-4.8).
 * A guest that sets CR4 bits of LA57, PCID, SMAP or protection keys gets #GP (system.c).
 */
#include <string.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/debug.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/pte.h"
#include "vmm/emu/svm/svm.h"

#define CR0_WP	 (1ULL << 16)
#define CR4_SMEP (1ULL << 20)

#define PF_P	1u
#define PF_RSVD 8u

#define LTLB_DIRTY 0x80000000u
#define LARGE_MASK (~0x1fffffULL)

static int page_fault(struct emu_vcpu *v, uint64_t va, unsigned int acc, unsigned int err)
{
	err |= acc & (EMU_ACC_W | EMU_ACC_U);
	/* The I bit exists only where instruction fetches can be forbidden. */
	if ((acc & EMU_ACC_X) && ((v->efer & EFER_NXE) || (v->cr4 & CR4_SMEP)))
		err |= EMU_ACC_X;
	v->fault.cr2 = va;
	return emu_fault(v, EMU_PF_VEC, true, err);
}

/* Returns true if @perm (PTE_W, PTE_U and PTE_NX, combined over the walk) allows access @acc. */
static bool mmu_allowed(const struct emu_vcpu *v, uint64_t perm, unsigned int acc)
{
	bool user = acc & EMU_ACC_U;

	if (user && !(perm & PTE_U))
		return false;
	if ((acc & EMU_ACC_W) && !(perm & PTE_W) && (user || (v->cr0 & CR0_WP)))
		return false;
	if (acc & EMU_ACC_X) {
		if (perm & PTE_NX)
			return false;
		if (!user && (perm & PTE_U) && (v->cr4 & CR4_SMEP))
			return false;
	}
	return true;
}

/*
 * Set A and D bits in an entry that was read as @seen. Returns false if the entry has changed: walk
 * again. Another vCPU may have exchanged the entry for 0 and taken the old value as the page's
 * final state. No bit may be set after that, as CPUs set them in locked cycles (SDM vol. 3,
 * "Automatic Locking"). Linux would take the leftover bits for a swapped-out page.
 */
bool emu_pte_set(struct emu_vcpu *v, _Atomic uint64_t *pte, uint64_t seen, uint64_t bits)
{
	if (!atomic_compare_exchange_strong(pte, &seen, seen | bits))
		return false;
	emu_code_stored(v->vm, (uint8_t *)pte, 8);
	return true;
}

static unsigned int writable_now(const struct emu_vcpu *v, uint64_t perm, bool dirty,
				 unsigned int acc)
{
	return dirty && mmu_allowed(v, perm, (acc & EMU_ACC_U) | EMU_ACC_W) ? EMU_ACC_W : 0;
}

static int mmu_walk(struct emu_vcpu *v, uint64_t va, unsigned int acc, uint64_t *pa,
		    unsigned int *wr)
{
	uint64_t table, perm, pte, seen[4];
	_Atomic uint64_t *slot[4];
	int shift, level;
	bool large;

again:
	table = v->cr3 & PTE_ADDR;
	perm = PTE_W | PTE_U;
	large = false;
	v->extra += EMU_EFFORT_WALK;

	for (level = 0, shift = 39;; level++, shift -= 9) {
		uint64_t at = table + (va >> shift & 511) * 8;

		if (unlikely(v->npt) && emu_svm_table(v, &at))
			return 1;
		if (!emu_is_ram(v->vm, at))
			return emu_error(v,
					 "page table entry at guest-physical 0x%llx, where there "
					 "is no RAM (walking 0x%llx)",
					 (unsigned long long)at, (unsigned long long)va);
		slot[level] = (_Atomic uint64_t *)(v->vm->ram + at);
		pte = seen[level] = atomic_load_explicit(slot[level], memory_order_relaxed);
		if (!(pte & PTE_P))
			return page_fault(v, va, acc, 0);
		if (((pte & PTE_NX) && !(v->efer & EFER_NXE)) ||
		    (level == 0 && (pte & (v->intel ? PTE_PS : PTE_PS | PTE_G))) ||
		    (unlikely(v->guest) && (pte & v->svm->no_address))) /* KVM relies on it */
			return page_fault(v, va, acc, PF_P | PF_RSVD);
		perm = (perm & (pte | ~(PTE_W | PTE_U))) | (pte & PTE_NX);
		if (level == 3)
			break;
		if (level > 0 && (pte & PTE_PS)) {
			/* The bits between PAT (bit 12) and the page's address are reserved. */
			if (pte & ((1ULL << shift) - 1) & PTE_ADDR & ~0x1000ULL)
				return page_fault(v, va, acc, PF_P | PF_RSVD);
			large = true;
			break;
		}
		table = pte & PTE_ADDR;
	}
	if (!mmu_allowed(v, perm, acc))
		return page_fault(v, va, acc, PF_P);

	for (int i = 0; i < level; i++)
		if (!(seen[i] & PTE_A) && !emu_pte_set(v, slot[i], seen[i], PTE_A))
			goto again;
	if (!(pte & PTE_A) || ((acc & EMU_ACC_W) && !(pte & PTE_D))) {
		uint64_t bits = PTE_A | (acc & EMU_ACC_W ? PTE_D : 0);

		if (!emu_pte_set(v, slot[level], pte, bits))
			goto again;
		pte |= bits;
	}
	*pa = (pte & PTE_ADDR & ~((1ULL << shift) - 1)) | (va & ((1ULL << shift) - 1));
	*wr = writable_now(v, perm, pte & PTE_D, acc);
	if (large) {
		v->large_seen |= emu_seen_bit(va >> 21);
		v->huge_seen |= shift == 30;
	}
	if (unlikely(v->npt)) /* a nested page may be smaller, and have fewer rights */
		return emu_svm_page(v, acc, pa, wr);
	if (large) {
		struct emu_ltlbe *e = &v->ltlb[va >> 21 & (EMU_LTLB_SIZE - 1)];

		e->tag = va & LARGE_MASK;
		e->pa = *pa & LARGE_MASK;
		e->perm = (uint32_t)perm | (perm & PTE_NX ? 1u << 30 : 0) |
			  (pte & PTE_D ? LTLB_DIRTY : 0);
		e->ctx = v->map_gen;
	}
	return 0;
}

int emu_translate(struct emu_vcpu *v, uint64_t va, unsigned int acc, uint64_t *pa,
		  unsigned int *perm)
{
	const struct emu_ltlbe *e = &v->ltlb[va >> 21 & (EMU_LTLB_SIZE - 1)];
	unsigned int wr = 0;
	int rc;

	if (unlikely(!(v->cr0 & CR0_PG))) { /* 16- and 32-bit code: linear is physical */
		*pa = va;
		if (perm)
			*perm = EMU_ACC_W;
		return unlikely(v->npt) ? emu_svm_page(v, acc, pa, perm) : 0;
	}
	if (unlikely(!emu_canonical(va))) {
		emu_gp(v, 0);
		v->fault.canon = true;
		return 1;
	}
	if (e->tag == (va & LARGE_MASK) && e->ctx == v->map_gen) {
		uint64_t p = (e->perm & (PTE_W | PTE_U)) | (e->perm & 1u << 30 ? PTE_NX : 0);
		bool dirty = e->perm & LTLB_DIRTY;

		if (mmu_allowed(v, p, acc) && (dirty || !(acc & EMU_ACC_W))) {
			*pa = e->pa | (va & ~LARGE_MASK);
			if (perm)
				*perm = writable_now(v, p, dirty, acc);
			return 0;
		}
	}
	rc = mmu_walk(v, va, acc, pa, &wr);
	if (!rc && perm)
		*perm = wr;
	return rc;
}

static struct emu_tlbe *tlb_slot(struct emu_vcpu *v, uint64_t va, unsigned int acc)
{
	return &v->tlbs[!!(acc & EMU_ACC_U)][va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
}

uint8_t *emu_host(struct emu_vcpu *v, uint64_t va, unsigned int acc)
{
	struct emu_tlbe *e = tlb_slot(v, va, acc);
	uint64_t page = va & EMU_PAGE_MASK, pa;
	unsigned int wr;

	if (acc & EMU_ACC_W ? e->ctag == page : e->rtag == page) {
		pa = e->add + va - (uintptr_t)v->vm->ram;
		if (e->ctag == page && !atomic_load(&v->vm->pages[pa >> EMU_PAGE_SHIFT].mask))
			e->wtag = page; /* the page holds no decoded code any more */
		return (uint8_t *)(e->add + va);
	}
	v->extra += EMU_EFFORT_FILL;
	if (emu_translate(v, va, acc, &pa, &wr))
		return NULL;
	if (unlikely(!emu_is_ram(v->vm, pa))) {
		if (v->chip) {
			v->device = pa;
			v->trap = EMU_TRAP_DEVICE;
			return NULL;
		}
		emu_error(v, "%s of guest-physical 0x%llx (virtual 0x%llx), where there is no RAM",
			  acc & EMU_ACC_W ? "store" : "load", (unsigned long long)pa,
			  (unsigned long long)va);
		return NULL;
	}
	if (unlikely(v->brk.data) && emu_watched(v, v->brk.data, va))
		return v->vm->ram + pa;
	if (v->nr_filled < EMU_FILLED)
		v->filled[v->nr_filled++] = (uint16_t)((acc & EMU_ACC_U ? EMU_TLB_SIZE : 0) +
						       (va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)));
	else
		v->nr_filled = EMU_FILLED + 1;
	e->add = (uintptr_t)v->vm->ram + pa - va;
	e->rtag = page;
	e->wtag = e->ctag = EMU_TAG_NONE;
	if (wr) {
		e->ctag = page;
		/* Pairs with code_mark(), which sets the mask and then lets the epoch grow. */
		if (!atomic_load(&v->vm->pages[pa >> EMU_PAGE_SHIFT].mask))
			e->wtag = page;
	}
	return (uint8_t *)(e->add + va);
}

static inline unsigned int cur_acc(const struct emu_vcpu *v, unsigned int acc)
{
	return acc | (v->cpl == 3 ? EMU_ACC_U : 0);
}

/* Translate an access that may cross a page: host[] and n[] become the address and the length of
 * each part. Returns the number of parts, 1 or 2, or 0 with v->trap set. The access may hit a
 * breakpoint. */
static int span(struct emu_vcpu *v, uint64_t va, unsigned int bytes, unsigned int acc,
		uint8_t *host[2], uint16_t n[2])
{
	uint64_t room = EMU_PAGE_SIZE - (va & ~EMU_PAGE_MASK);

	if (unlikely(v->brk.data) && emu_debug_access(v, va, bytes, acc & EMU_ACC_W))
		return 0;
	/* An access that reaches beyond the canonical addresses raises #GP or #SS, even if its
	 * first page would raise #PF. */
	if (room < bytes && unlikely(!emu_canonical(va + bytes - 1)))
		va += room;
	v->extra += EMU_EFFORT_SLOW;
	host[0] = emu_host(v, va, acc);
	if (!host[0])
		return 0;
	if (room >= bytes) {
		n[0] = (uint16_t)bytes;
		n[1] = 0;
		return 1;
	}
	n[0] = (uint16_t)room;
	n[1] = (uint16_t)(bytes - room);
	v->extra += EMU_EFFORT_CROSS;
	host[1] = emu_host(v, va + room, acc);
	return host[1] ? 2 : 0;
}

/* span() has failed. Returns true if the access is to a device, at v->device. */
static bool to_device(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	if (v->trap != EMU_TRAP_DEVICE)
		return false;
	v->trap = EMU_TRAP_NONE;
	if (bytes <= 8 && EMU_PAGE_SIZE - (va & ~EMU_PAGE_MASK) >= bytes)
		return true;
	emu_error(v, "access of %u bytes at virtual 0x%llx, where there is no RAM but devices",
		  bytes, (unsigned long long)va);
	return false;
}

uint64_t emu_ld_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	uint8_t *host[2], buf[8] = {0};
	uint16_t n[2];

	switch (span(v, va, bytes, cur_acc(v, EMU_ACC_R), host, n)) {
	case 1:
		return emu_get(host[0], bytes);
	case 2:
		memcpy(buf, host[0], n[0]);
		memcpy(buf + n[0], host[1], n[1]);
		return emu_get(buf, bytes);
	}
	return to_device(v, va, bytes) ? emu_device_load(v, v->device, bytes) : 0;
}

/* Set *hit if a store to these parts hits decoded code. Traps on a hit, unless the instruction
 * already executes alone (v->single). */
static int code_check(struct emu_vcpu *v, int parts, uint8_t *host[2], const uint16_t n[2],
		      bool *hit)
{
	v->extra += EMU_EFFORT_FENCE;
	*hit = emu_code_hit(v->vm, host[0], n[0]) ||
	       (parts == 2 && emu_code_hit(v->vm, host[1], n[1]));
	if (*hit)
		v->extra += EMU_EFFORT_CODE;
	if (*hit && !v->single) {
		v->trap = EMU_TRAP_SMC;
		return 1;
	}
	return 0;
}

/* Call it after a store to the parts that span() has returned. */
static void mmu_stored(struct emu_vcpu *v, uint8_t *const host[2], const uint16_t n[2])
{
	for (int i = 0; i < 2 && n[i]; i++)
		emu_code_stored(v->vm, host[i], n[i]);
}

int emu_st_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes, uint64_t x)
{
	uint8_t *host[2], buf[8];
	uint16_t n[2];
	int parts = span(v, va, bytes, cur_acc(v, EMU_ACC_W), host, n);
	bool hit;

	if (!parts && to_device(v, va, bytes))
		return emu_device_store(v, v->device, bytes, x);
	if (!parts || code_check(v, parts, host, n, &hit))
		return 1;
	if (parts == 1) {
		emu_put(host[0], bytes, x);
	} else {
		emu_put(buf, bytes, x);
		memcpy(host[0], buf, n[0]);
		memcpy(host[1], buf + n[0], n[1]);
	}
	mmu_stored(v, host, n);
	return 0;
}

void *emu_rmw_slow(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	int parts = span(v, va, bytes, cur_acc(v, EMU_ACC_W), v->bounce.host, v->bounce.n);
	bool hit;

	if (!parts && to_device(v, va, bytes)) {
		emu_put(v->bounce.buf, bytes, emu_device_load(v, v->device, bytes));
		v->bounce.host[0] = NULL;
		v->bounce.n[0] = (uint16_t)bytes;
		v->bounce.n[1] = 0;
		return v->trap ? NULL : v->bounce.buf;
	}
	if (!parts || code_check(v, parts, v->bounce.host, v->bounce.n, &hit))
		return NULL;
	/* Without code in the page, the caller may write to it directly until its next safe point.
	 */
	if (parts == 1 &&
	    !atomic_load(&v->vm->pages[(uint64_t)(v->bounce.host[0] - v->vm->ram) >> EMU_PAGE_SHIFT]
				  .mask))
		return v->bounce.host[0];
	memcpy(v->bounce.buf, v->bounce.host[0], v->bounce.n[0]);
	if (parts == 2)
		memcpy(v->bounce.buf + v->bounce.n[0], v->bounce.host[1], v->bounce.n[1]);
	return v->bounce.buf;
}

void emu_rmw_commit(struct emu_vcpu *v)
{
	uint8_t *src = v->bounce.buf;

	v->extra += EMU_EFFORT_FENCE;
	if (unlikely(!v->bounce.host[0])) { /* cannot trap: the load from it did not */
		emu_device_store(v, v->device, v->bounce.n[0], emu_get(src, v->bounce.n[0]));
		return;
	}
	for (int i = 0; i < 2 && v->bounce.n[i]; i++) {
		memcpy(v->bounce.host[i], src, v->bounce.n[i]);
		src += v->bounce.n[i];
	}
	mmu_stored(v, v->bounce.host, v->bounce.n);
}

/* System structures, stacks of interrupts and the state of x87 and SSE are in RAM. Returns 1. */
static int no_device(struct emu_vcpu *v, uint64_t va)
{
	if (v->trap == EMU_TRAP_DEVICE)
		emu_error(v,
			  "system structure, or state of x87 or SSE, at virtual 0x%llx, where "
			  "there is no RAM but devices",
			  (unsigned long long)va);
	return 1;
}

int emu_touch(struct emu_vcpu *v, uint64_t va, unsigned int acc)
{
	return emu_host(v, va, cur_acc(v, acc)) ? 0 : no_device(v, va);
}

/* AMD's CPUs access the last byte of x87 or SSE state first; for FXSAVE and FXRSTOR it is the last
 * of 512 (measured on family 1AH). Not if the operand wraps to address 0 (family 19H). */
static bool last_byte(struct emu_vcpu *v, uint64_t va, unsigned int bytes, unsigned int acc)
{
	unsigned int all = bytes == EMU_FX_WRITTEN ? EMU_FX_BYTES : bytes;

	return v->intel || va + all - 1 < va || !emu_touch(v, va + all - 1, acc);
}

int emu_ld_wide(struct emu_vcpu *v, uint64_t va, void *buf, unsigned int bytes)
{
	unsigned int acc = cur_acc(v, EMU_ACC_R);

	return last_byte(v, va, bytes, acc) ? emu_sys_read(v, va, buf, bytes, acc) : 1;
}

int emu_area_open(struct emu_vcpu *v, uint64_t va, unsigned int bytes)
{
	int parts = span(v, va, bytes, cur_acc(v, EMU_ACC_W), v->bounce.host, v->bounce.n);
	bool hit;

	if (!parts)
		return no_device(v, va);
	return code_check(v, parts, v->bounce.host, v->bounce.n, &hit);
}

void emu_area_io(struct emu_vcpu *v, unsigned int at, void *buf, unsigned int bytes, bool store)
{
	unsigned int first = v->bounce.n[0];

	for (unsigned int n; bytes; at += n, bytes -= n, buf = (uint8_t *)buf + n) {
		uint8_t *p = at < first ? v->bounce.host[0] + at : v->bounce.host[1] + at - first;

		n = at < first && bytes > first - at ? first - at : bytes;
		memcpy(store ? p : buf, store ? buf : p, n);
	}
}

void emu_area_close(struct emu_vcpu *v)
{
	mmu_stored(v, v->bounce.host, v->bounce.n);
}

int emu_st_wide(struct emu_vcpu *v, uint64_t va, const void *buf, unsigned int bytes)
{
	if (!last_byte(v, va, bytes, cur_acc(v, EMU_ACC_W)) || emu_area_open(v, va, bytes))
		return 1;
	emu_area_io(v, 0, (void *)(uintptr_t)buf, bytes, true);
	emu_area_close(v);
	return 0;
}

int emu_sys_read(struct emu_vcpu *v, uint64_t va, void *buf, unsigned int bytes, unsigned int acc)
{
	uint8_t *host[2];
	uint16_t n[2];
	int parts = span(v, va, bytes, EMU_ACC_R | acc, host, n);

	if (!parts)
		return no_device(v, va);
	memcpy(buf, host[0], n[0]);
	if (parts == 2)
		memcpy((uint8_t *)buf + n[0], host[1], n[1]);
	return 0;
}

int emu_sys_write(struct emu_vcpu *v, uint64_t va, const void *buf, unsigned int bytes,
		  unsigned int acc)
{
	uint8_t *host[2];
	uint16_t n[2];
	int parts = span(v, va, bytes, EMU_ACC_W | acc, host, n);

	if (!parts)
		return no_device(v, va);
	memcpy(host[0], buf, n[0]);
	if (parts == 2)
		memcpy(host[1], (const uint8_t *)buf + n[0], n[1]);
	mmu_stored(v, host, n);
	return 0;
}

static struct emu_tlbe *tlb_at(struct emu_vcpu *v, unsigned int i)
{
	return &v->tlbs[i / EMU_TLB_SIZE][i % EMU_TLB_SIZE];
}

static void entry_drop(struct emu_tlbe *e)
{
	e->rtag = e->wtag = e->ctag = EMU_TAG_NONE;
}

/* Invalidate all known virtual addresses of blocks. */
static void new_mapping(struct emu_vcpu *v)
{
	v->map_gen = ++v->last_gen;
	v->code_seen = v->large_code_seen = 0;
	emu_ctx_update(v);
}

void emu_tlb_flush(struct emu_vcpu *v)
{
	bool all = v->nr_filled > EMU_FILLED;
	unsigned int n = all ? 2 * EMU_TLB_SIZE : v->nr_filled;

	v->extra += EMU_EFFORT_FLUSH + n / EMU_EFFORT_FLUSH_ENTRIES;
	for (unsigned int i = 0; i < n; i++)
		entry_drop(tlb_at(v, all ? i : v->filled[i]));
	emu_jit_drop_sites(v);
	v->nr_filled = 0;
	v->large_seen = 0;
	v->huge_seen = false;
	new_mapping(v);
}

void emu_tlb_flush_page(struct emu_vcpu *v, uint64_t va)
{
	unsigned int i = va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1);
	bool large = v->large_seen & emu_seen_bit(va >> 21);

	if (v->huge_seen) {
		emu_tlb_flush(v);
		return;
	}
	v->extra += EMU_EFFORT_FLUSH;
	/* The entry of the direct-mapped TLB may belong to another page. A CPU may drop
	 * translations at any time (SDM vol. 3, 4.10.2.2), so drop it regardless. */
	entry_drop(&v->tlbs[0][i]);
	entry_drop(&v->tlbs[1][i]);
	emu_jit_drop_sites(v);
	if (large) {
		/* Every entry is for 4 KiB, so a large page may have many. */
		v->extra += EMU_EFFORT_FLUSH_LARGE;
		v->ltlb[va >> 21 & (EMU_LTLB_SIZE - 1)].tag = EMU_TAG_NONE;
		for (i = 0; i < 2 * EMU_TLB_SIZE; i++)
			if (!((tlb_at(v, i)->rtag ^ va) >> 21))
				entry_drop(tlb_at(v, i));
	}
	if ((v->code_seen & emu_seen_bit(va >> EMU_PAGE_SHIFT)) ||
	    (large && (v->large_code_seen & emu_seen_bit(va >> 21))))
		new_mapping(v);
}

void emu_tlb_demote(struct emu_vcpu *v)
{
	emu_jit_drop_sites(v);
	for (unsigned int m = 0; m < 2; m++)
		for (unsigned int i = 0; i < EMU_TLB_SIZE; i++) {
			struct emu_tlbe *e = &v->tlbs[m][i];
			uint64_t pa = e->add + e->wtag - (uintptr_t)v->vm->ram;

			if (e->wtag != EMU_TAG_NONE &&
			    atomic_load(&v->vm->pages[pa >> EMU_PAGE_SHIFT].mask))
				e->wtag = EMU_TAG_NONE;
		}
}
