// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Nested paging: the second translation of a guest's physical addresses (APM vol. 2, 15.25). mmu.c
 * calls it for every address that a walk of the guest's tables meets. A fault is an exit, never an
 * exception. A nested entry must never lead outside of RAM unchecked: callers check the result.
 */
#include "vmm/emu/pte.h"
#include "vmm/emu/svm/svm.h"

#define CR4_SMEP (1ULL << 20)

/* EXITINFO1: the low bits are those of a #PF error code. */
#define NPF_P	  1ULL
#define NPF_RSVD  8ULL
#define NPF_PAGE  (1ULL << 32) /* of the translated address itself */
#define NPF_TABLE (1ULL << 33) /* of the guest's page tables */

/* Every access is a user access for the nested tables. */
static int npt_fault(struct emu_vcpu *v, uint64_t gpa, unsigned int acc, uint64_t why)
{
	const struct emu_svm *s = v->svm;

	/* The bit of an instruction fetch exists with NX or SMEP only (APM vol. 2, 8.4.2). */
	why |= EMU_ACC_U | (acc & EMU_ACC_W) |
	       (s->host_nxe || (s->host.cr4 & CR4_SMEP) ? acc & EMU_ACC_X : 0);
	svm_trap(v, VMEXIT_NPF, why, gpa, 0);
	v->svm->exit.bytes = !(acc & EMU_ACC_X);
	return 1;
}

static int npt_walk(struct emu_vcpu *v, uint64_t gpa, unsigned int acc, uint64_t of, uint64_t *pa,
		    unsigned int *wr)
{
	const struct emu_svm *s = v->svm;
	uint64_t table, perm, pte, seen[4], bits;
	_Atomic uint64_t *slot[4];
	int shift, level;

	if (gpa >> 48) /* four levels reach no further */
		return npt_fault(v, gpa, acc, of);
again:
	table = s->c.ncr3 & PTE_ADDR;
	perm = PTE_W | PTE_U;
	v->extra += EMU_EFFORT_WALK;
	for (level = 0, shift = 39;; level++, shift -= 9) {
		uint64_t at = table + (gpa >> shift & 511) * 8;

		if (!emu_is_ram(v->vm, at))
			return emu_error(v,
					 "nested page table entry at guest-physical 0x%llx, where "
					 "there is no RAM (walking 0x%llx)",
					 (unsigned long long)at, (unsigned long long)gpa);
		slot[level] = (_Atomic uint64_t *)(v->vm->ram + at);
		pte = seen[level] = atomic_load_explicit(slot[level], memory_order_relaxed);
		if (!(pte & PTE_P))
			return npt_fault(v, gpa, acc, of);
		if (((pte & PTE_NX) && !s->host_nxe) || (pte & s->no_address) ||
		    (level == 0 && (pte & (PTE_PS | PTE_G))))
			return npt_fault(v, gpa, acc, of | NPF_P | NPF_RSVD);
		perm = (perm & (pte | ~(PTE_W | PTE_U))) | (pte & PTE_NX);
		if (level == 3)
			break;
		if (level > 0 && (pte & PTE_PS)) {
			if (pte & ((1ULL << shift) - 1) & PTE_ADDR & ~0x1000ULL)
				return npt_fault(v, gpa, acc, of | NPF_P | NPF_RSVD);
			break;
		}
		table = pte & PTE_ADDR;
	}
	if (!(perm & PTE_U) || ((acc & EMU_ACC_W) && !(perm & PTE_W)) ||
	    ((acc & EMU_ACC_X) && (perm & PTE_NX)))
		return npt_fault(v, gpa, acc, of | NPF_P);
	for (int i = 0; i < level; i++)
		if (!(seen[i] & PTE_A) && !emu_pte_set(v, slot[i], seen[i], PTE_A))
			goto again;
	bits = PTE_A | (acc & EMU_ACC_W ? PTE_D : 0);
	if ((pte & bits) != bits && !emu_pte_set(v, slot[level], pte, bits))
		goto again;
	pte |= bits;
	*pa = (pte & PTE_ADDR & ~((1ULL << shift) - 1)) | (gpa & ((1ULL << shift) - 1));
	*wr = (pte & PTE_D) && (perm & PTE_W) ? EMU_ACC_W : 0;
	return 0;
}

int emu_svm_table(struct emu_vcpu *v, uint64_t *at)
{
	unsigned int wr;

	/* A and D bits may be set in it, so it counts as a write (15.25.5). */
	return npt_walk(v, *at, EMU_ACC_W, NPF_TABLE, at, &wr);
}

int emu_svm_page(struct emu_vcpu *v, unsigned int acc, uint64_t *pa, unsigned int *wr)
{
	unsigned int nested;

	if (npt_walk(v, *pa, acc, NPF_PAGE, pa, &nested))
		return 1;
	if (wr)
		*wr &= nested;
	return 0;
}
