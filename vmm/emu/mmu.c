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

#define LTLB_DIRTY  0x80000000u
#define LTLB_GLOBAL ((uint32_t)PTE_G)
#define LARGE_MASK  (~0x1fffffULL)

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

/* A translation at @va for fetches of code was found. A 1 GiB page passes for one that is not
 * global. */
static void code_mapped(struct emu_vcpu *v, uint64_t va, unsigned int acc, bool global)
{
	if (!(acc & EMU_ACC_X) || (acc & EMU_ACC_U))
		return;
	if (global && va >> 63)
		v->kernel_seen |= emu_seen_bit(va >> 21);
	else
		v->kernel_local = true;
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
	code_mapped(v, va, acc, (pte & PTE_G) && shift < 30);
	if (unlikely(v->npt)) /* a nested page may be smaller, and have fewer rights */
		return emu_svm_page(v, acc, pa, wr);
	if (large) {
		struct emu_ltlbe *e = &v->ltlb[va >> 21 & (EMU_LTLB_SIZE - 1)];

		e->tag = va & LARGE_MASK;
		e->pa = *pa & LARGE_MASK;
		e->perm = (uint32_t)perm | (perm & PTE_NX ? 1u << 30 : 0) |
			  (pte & PTE_D ? LTLB_DIRTY : 0) |
			  (pte & PTE_G && shift < 30 ? LTLB_GLOBAL : 0);
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
		code_mapped(v, va, acc, false);
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
			code_mapped(v, va, acc, e->perm & LTLB_GLOBAL);
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

static struct emu_tlbe *tlb_at(struct emu_vcpu *v, unsigned int i)
{
	return &v->tlbs[i / EMU_TLB_SIZE][i % EMU_TLB_SIZE];
}

static void entry_drop(struct emu_tlbe *e)
{
	e->rtag = e->wtag = e->ctag = EMU_TAG_NONE;
}

/* Invalidate all known virtual addresses of blocks; if @keep, not those outside of CPL 3. */
static void new_mapping(struct emu_vcpu *v, bool keep)
{
	v->map_gen = ++v->last_gen;
	if (!keep) {
		v->kernel_gen = v->map_gen;
		v->kernel_seen = 0;
		v->kernel_local = false;
	}
	v->code_seen = v->large_code_seen = 0;
	emu_ctx_update(v);
}

static void tlb_flush(struct emu_vcpu *v, bool keep)
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
	new_mapping(v, keep);
}

void emu_tlb_flush(struct emu_vcpu *v)
{
	tlb_flush(v, false);
}

void emu_cr3_set(struct emu_vcpu *v, uint64_t cr3)
{
	/* At the limit there must be a look-up, which a kernel that is kept may never need. */
	bool keep =
		(v->cr4 & CR4_PGE) && !v->kernel_local && !v->svm && v->last_gen < EMU_GEN_LIMIT;

	v->cr3 = cr3;
	tlb_flush(v, keep);
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
	    (large && (v->large_code_seen & emu_seen_bit(va >> 21))) ||
	    (va >> 63 && (v->kernel_seen & emu_seen_bit(va >> 21))))
		new_mapping(v, false);
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
