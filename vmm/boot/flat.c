// SPDX-License-Identifier: GPL-2.0-or-later
/* The segments and control registers that vCPUs start with; see flat.h. */
#include "vmm/boot/flat.h"

void flat_sregs(struct kvm_sregs *s, uint64_t gdt, uint16_t code, uint64_t pages)
{
	struct kvm_segment data = {
		.limit = 0xffffffff,
		.selector = (uint16_t)(code + 8),
		.type = 3, /* read, write, accessed */
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1,
	};

	s->cs = (struct kvm_segment){
		.limit = 0xffffffff,
		.selector = code,
		.type = 11, /* execute, read, accessed */
		.present = 1,
		.s = 1,
		.l = 1,
		.g = 1,
	};
	s->ds = s->es = s->fs = s->gs = s->ss = data;
	/* VM entry demands a busy TSS; guests that take interrupts load one of their own. */
	s->tr = (struct kvm_segment){
		.limit = 0x67, .selector = (uint16_t)(code + 16), .type = 11, .present = 1};
	s->ldt = (struct kvm_segment){.type = 2, .unusable = 1};
	s->gdt = (struct kvm_dtable){.base = gdt, .limit = (uint16_t)(FLAT_GDT_BYTES(code) - 1)};
	s->idt = (struct kvm_dtable){0};
	s->cr0 = CR0_PE | CR0_ET | CR0_PG;
	s->cr2 = 0;
	s->cr3 = pages;
	s->cr4 = CR4_PAE;
	s->cr8 = 0;
	s->efer = EFER_LME | EFER_LMA;
}
