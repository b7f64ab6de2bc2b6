// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * World switches: VMRUN with its checks, and #VMEXIT (APM vol. 2, 15.5 and 15.6). svm.c has the
 * other instructions. Between the two, v holds the guest's registers and svm->host the host's.
 *
 * For counters VMRUN is a far branch and #VMEXIT an exception, and what changes the mode counts in
 * the mode that it enters: a VMRUN that succeeds in the guest, at the guest's CPL, and an exit not
 * at all (S. Das of AMD on kvm@vger, 2023-04-26, "Hide guest counter updates from the VMRUN
 * instruction"; Linux's svm/pmu.c). Neither is recorded as a branch. With LBR virtualization
 * (15.23) DebugCtl and the record of the last branch are switched, else host and guest share them.
 * LbrExtV2 is shared: no kvm-amd up to Linux 7.3 uses its fields of the VMCB.
 */
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/pte.h"
#include "vmm/emu/svm/svm.h"

#define CR0_BITS   (CR0_WRITABLE | CR0_ET)
#define EFER_KNOWN 0x201d01ULL /* SCE LME LMA SVME NXE AIBRSE */
#define RFLAGS_SET 2ULL

/* Segment attributes: the descriptor's bits 47:40 and 55:52. */
enum { ATTR_S = 4, ATTR_DPL = 5, ATTR_P = 7, ATTR_AVL = 8, ATTR_L = 9, ATTR_DB = 10, ATTR_G = 11 };

uint8_t *svm_phys(struct emu_vcpu *v, uint64_t pa)
{
	return emu_is_ram(v->vm, pa) ? v->vm->ram + (pa & EMU_PAGE_MASK) : NULL;
}

void svm_stored(struct emu_vcpu *v, const uint8_t *page)
{
	if (emu_code_stored(v->vm, page, EMU_PAGE_SIZE))
		v->extra += EMU_EFFORT_CODE;
}

void svm_to_vmcb(struct vmcb_seg *to, const struct kvm_segment *s, uint64_t base)
{
	to->selector = s->selector;
	to->limit = s->limit;
	to->base = base;
	to->attrib = (uint16_t)(s->type | s->s << ATTR_S | s->dpl << ATTR_DPL |
				(s->present && !s->unusable) << ATTR_P | s->avl << ATTR_AVL |
				s->l << ATTR_L | s->db << ATTR_DB | s->g << ATTR_G);
}

void svm_from_vmcb(struct kvm_segment *to, const struct vmcb_seg *m)
{
	*to = (struct kvm_segment){
		.base = svm_canonical(m->base),
		.limit = m->limit,
		.selector = m->selector,
		.type = m->attrib & 0xf,
		.s = m->attrib >> ATTR_S & 1,
		.dpl = m->attrib >> ATTR_DPL & 3,
		.present = m->attrib >> ATTR_P & 1,
		.avl = m->attrib >> ATTR_AVL & 1,
		.l = m->attrib >> ATTR_L & 1,
		.db = m->attrib >> ATTR_DB & 1,
		.g = m->attrib >> ATTR_G & 1,
		.unusable = !(m->attrib >> ATTR_P & 1),
	};
}

/* ---- translations ---- */

static void space_leave(struct emu_vcpu *v, struct svm_space *p)
{
	memcpy(p->ltlb, v->ltlb, sizeof(p->ltlb));
	memcpy(p->filled, v->filled, sizeof(p->filled));
	p->nr_filled = v->nr_filled;
	p->large_seen = v->large_seen;
	p->code_seen = v->code_seen;
	p->large_code_seen = v->large_code_seen;
	p->huge_seen = v->huge_seen;
	p->map_gen = v->map_gen;
	p->epoch = atomic_load_explicit(&v->epoch_seen, memory_order_relaxed);
	p->cr0 = v->cr0;
	p->cr3 = v->cr3;
	p->cr4 = v->cr4;
	p->efer = v->efer;
	p->npt = v->npt;
	p->ncr3 = v->npt ? v->svm->c.ncr3 : 0;
	p->valid = true;
}

/* The registers of @v are set already. */
static void space_enter(struct emu_vcpu *v, struct svm_space *p)
{
	bool keep = p->valid && p->cr0 == v->cr0 && p->cr3 == v->cr3 && p->cr4 == v->cr4 &&
		    p->efer == v->efer && p->npt == v->npt &&
		    p->ncr3 == (v->npt ? v->svm->c.ncr3 : 0);

	v->tlbs = p->tlbs;
	v->tlb = v->tlbs[v->cpl == 3];
	if (!keep) {
		v->nr_filled = EMU_FILLED + 1;
		emu_tlb_flush(v);
		return;
	}
	memcpy(v->ltlb, p->ltlb, sizeof(p->ltlb));
	memcpy(v->filled, p->filled, sizeof(p->filled));
	v->nr_filled = p->nr_filled;
	v->large_seen = p->large_seen;
	v->code_seen = p->code_seen;
	v->large_code_seen = p->large_code_seen;
	v->huge_seen = p->huge_seen;
	v->map_gen = v->kernel_gen = p->map_gen; /* equal in a VM with SVM: emu_cr3_set() */
	emu_jit_drop_sites(v);
	emu_ctx_update(v);
	/* Pages have begun to hold code meanwhile. */
	if (p->epoch != atomic_load_explicit(&v->epoch_seen, memory_order_relaxed)) {
		v->extra += EMU_EFFORT_DEMOTE;
		emu_tlb_demote(v);
	}
}

void svm_flush(struct emu_vcpu *v, uint32_t asid)
{
	v->svm->space[asid].valid = false;
}

void emu_svm_forget(struct emu_vcpu *v)
{
	for (unsigned int i = 0; v->svm && i < VMM_SVM_ASIDS; i++)
		v->svm->space[i].valid = false;
}

/* ---- VMRUN ---- */

/* Returns true if EVENTINJ is legal (15.20). */
static bool event_valid(uint64_t e)
{
	uint8_t vec = e & VMCB_EVENT_VECTOR;

	if (!(e & VMCB_EVENT_VALID))
		return true;
	switch (VMCB_EVENT_TYPE(e)) {
	case VMCB_TYPE_INTR:
	case VMCB_TYPE_NMI:
	case VMCB_TYPE_SOFT:
		return true;
	case VMCB_TYPE_EXCEPTION:
		return vec != EMU_NMI && vec < 32;
	default:
		return false;
	}
}

/* The checks of 15.5.1, "Canonicalization and Consistency Checks", and of 15.25.4. */
static bool state_valid(const struct emu_vcpu *v, const struct vmcb_control *c,
			const struct vmcb_save *m)
{
	uint64_t no = emu_no_address(v);
	bool lme = m->efer & EFER_LME, pg = m->cr0 & CR0_PG;
	bool l = m->cs.attrib >> ATTR_L & 1, d = m->cs.attrib >> ATTR_DB & 1;

	if (!(m->efer & EFER_SVME) || (m->efer & ~EFER_KNOWN))
		return false;
	if (m->cr0 >> 32 || ((m->cr0 & CR0_NW) && !(m->cr0 & CR0_CD)) || (m->cr3 & no) ||
	    (m->cr4 & ~emu_cr4_writable(v)) || m->dr6 >> 32 || m->dr7 >> 32)
		return false;
	if (lme && pg && (!(m->cr4 & CR4_PAE) || !(m->cr0 & CR0_PE) || (l && d)))
		return false;
	if (!(c->icpt[1] & 1)) /* VMRUN must be intercepted */
		return false;
	/* Bits 11:0 are ignored. CPUs check three pages of either, as kvm-unit-tests has it. */
	if ((((c->iopm & EMU_PAGE_MASK) + 0x2fff) | ((c->msrpm & EMU_PAGE_MASK) + 0x2fff)) & no)
		return false;
	if (!c->asid || c->asid >= VMM_SVM_ASIDS || !event_valid(c->event_inj))
		return false;
	return !(c->nested_ctl & VMCB_NP_ENABLE) || (!(c->ncr3 & no) && emu_pat_valid(m->g_pat));
}

/* ---- DebugCtl and the last branch (15.23.1) ---- */

/* Freezing by PMIs, as CPUID has it (APM vol. 2, 13.1.1.6). */
uint64_t svm_debugctl_bits(const struct emu_vcpu *v)
{
	const struct kvm_cpuid_entry2 *e = emu_cpuid(v, 0x80000022, 0);

	if (!e || !(e->eax & 4)) /* LbrAndPmcFreeze */
		return 0;
	return 1ULL << 12 | (e->eax & 2 ? 1ULL << 11 : 0); /* LbrStack */
}

/* Reserved bits of @debugctl are ignored. */
static void svm_last_load(struct emu_vcpu *v, uint64_t debugctl, const uint64_t ip[EMU_NR_LAST])
{
	struct emu_svm *s = v->svm;
	uint64_t rest = debugctl & svm_debugctl_bits(v);

	v->last.on = debugctl & DEBUGCTL_LBR;
	memcpy(v->last.ip, ip, sizeof(v->last.ip));
	s->debugctl_due |= rest != s->debugctl;
	s->debugctl = rest;
}

static void svm_last_store(const struct emu_vcpu *v, uint64_t *debugctl, uint64_t ip[EMU_NR_LAST])
{
	*debugctl = emu_debugctl_read(v, v->svm->debugctl);
	memcpy(ip, v->last.ip, sizeof(v->last.ip));
}

bool emu_svm_debugctl(struct emu_vcpu *v)
{
	struct emu_svm *s = v->svm;

	if (likely(!s->debugctl_due))
		return false;
	s->debugctl_due = false;
	v->run->exit = VMM_EXIT_WRMSR;
	v->run->u.msr.index = MSR_DEBUGCTL;
	v->run->u.msr.data = s->debugctl;
	v->run->u.msr.fault = false;
	return true;
}

static void host_save(struct emu_vcpu *v)
{
	struct emu_svm *s = v->svm;

	s->host.cr0 = v->cr0;
	s->host.cr3 = v->cr3;
	s->host.cr4 = v->cr4;
	s->host.efer = v->efer;
	s->host.rflags = emu_get_rflags(v);
	s->host.rip = v->rip;
	s->host.rsp = v->r[EMU_RSP];
	s->host.rax = v->r[EMU_RAX];
	s->host.pat = v->pat;
	s->host.es = v->seg[EMU_ES];
	s->host.cs = v->seg[EMU_CS];
	s->host.ss = v->seg[EMU_SS];
	s->host.ds = v->seg[EMU_DS];
	s->host.gdt = v->gdt;
	s->host.idt = v->idt;
	s->host.cpl = v->cpl;
	if (s->c.virt_ext & VMCB_LBR_VIRT)
		svm_last_store(v, &s->host.debugctl, s->host.last);
}

static void guest_load(struct emu_vcpu *v, const struct vmcb_save *m)
{
	struct emu_svm *s = v->svm;
	bool real = !(m->cr0 & CR0_PE);

	v->cr0 = (m->cr0 & CR0_BITS) | CR0_ET;
	v->cr2 = m->cr2;
	v->cr3 = m->cr3;
	v->cr4 = m->cr4;
	v->efer = m->efer & ~EFER_LMA;
	if ((v->efer & EFER_LME) && (v->cr0 & CR0_PG))
		v->efer |= EFER_LMA;
	emu_put_rflags(v, (m->rflags & 0x3d7fd7) | RFLAGS_SET);
	v->rip = m->rip;
	v->r[EMU_RSP] = m->rsp;
	v->r[EMU_RAX] = m->rax;
	svm_from_vmcb(&v->seg[EMU_ES], &m->es);
	svm_from_vmcb(&v->seg[EMU_CS], &m->cs);
	svm_from_vmcb(&v->seg[EMU_SS], &m->ss);
	svm_from_vmcb(&v->seg[EMU_DS], &m->ds);
	v->gdt.base = svm_canonical(m->gdtr.base);
	v->gdt.limit = (uint16_t)m->gdtr.limit;
	v->idt.base = svm_canonical(m->idtr.base);
	v->idt.limit = (uint16_t)m->idtr.limit;
	v->dr[6] = emu_dr_fixed(6, m->dr6);
	v->dr[7] = emu_dr_fixed(7, m->dr7);
	v->npt = s->c.nested_ctl & VMCB_NP_ENABLE;
	if (v->npt)
		v->pat = m->g_pat;
	v->guest_tsc = s->c.tsc_offset;
	v->virq = s->c.int_ctl & VMCB_V_IRQ;
	s->vtpr = s->c.int_ctl & 0xf;
	v->cpl = real ? 0 : m->cpl & 3;
	if (s->c.virt_ext & VMCB_LBR_VIRT) {
		svm_last_load(v, m->dbgctl, m->last);
		for (unsigned int i = 0; i < EMU_NR_LAST; i++)
			v->last.ip[i] = svm_canonical(v->last.ip[i]);
	}
}

/* TLB_CONTROL (15.16.2). All encodings flush at least what they must. */
static void flush_as_asked(struct emu_vcpu *v)
{
	struct emu_svm *s = v->svm;

	if (s->c.tlb_control == VMCB_FLUSH_ALL)
		for (unsigned int i = 1; i < VMM_SVM_ASIDS; i++)
			svm_flush(v, i);
	else if (s->c.tlb_control != VMCB_FLUSH_NONE)
		svm_flush(v, s->c.asid);
}

/* Modes that the emulator lacks end the VM, as they do outside of guests. Traps. */
static int modelled(struct emu_vcpu *v, const struct vmcb_save *m)
{
	bool lme = m->efer & EFER_LME, pg = m->cr0 & CR0_PG;

	if (pg && !lme)
		return emu_error(v, "VMRUN of a guest with 32-bit paging, which is not modelled");
	if (m->rflags & EMU_VM)
		return emu_error(v, "VMRUN of a guest in virtual-8086 mode, which is not modelled");
	if ((m->cr0 & CR0_PE) && (m->cpl & 3) && !(pg && (m->cs.attrib >> ATTR_L & 1)))
		return emu_error(v, "VMRUN of 16- or 32-bit code at CPL %u, which is not modelled",
				 m->cpl & 3u);
	return 0;
}

int emu_sys_vmrun(struct emu_vcpu *v, const struct emu_op *op)
{
	uint8_t *p = svm_vmcb_page(v, op);
	struct emu_svm *s = v->svm;
	struct vmcb_save m;

	if (!p)
		return 1;
	v->extra += EMU_EFFORT_WORLD;
	memcpy(&s->c, p, sizeof(s->c));
	memcpy(&m, p + VMCB_SAVE, sizeof(m));
	s->vmcb = v->r[EMU_RAX];
	v->step = false;
	v->attn |= EMU_ATTN_EVENT;
	if (!state_valid(v, &s->c, &m)) {
		emu_put(p + offsetof(struct vmcb_control, exit_code), 8, VMEXIT_INVALID);
		svm_stored(v, p);
		v->gif_clear = true;
		return 2;
	}
	if (modelled(v, &m))
		return 1;
	s->icpt = s->c.icpt[0] | (uint64_t)s->c.icpt[1] << 32;
	s->host_nxe = v->efer & EFER_NXE;
	s->no_address = emu_no_address(v) & PTE_ADDR;
	s->inject = s->c.event_inj & VMCB_EVENT_VALID ? s->c.event_inj : 0;
	s->outer = 0;
	host_save(v);
	space_leave(v, &s->space[0]);
	emu_fold_before(v, op->ev);
	v->guest = true;
	v->gif_clear = false;
	guest_load(v, &m);
	emu_taken(v);
	flush_as_asked(v);
	space_enter(v, &s->space[s->c.asid]);
	emu_debug_update(v);
	v->sti_shadow = s->c.int_state & VMCB_SHADOW;
	v->brk.ss_shadow = false;
	return 2;
}

/* ---- #VMEXIT ---- */

/* Up to 15 bytes of the instruction at v->rip, if they are known without an access. */
static void save_bytes(struct emu_vcpu *v, struct vmcb_control *c)
{
	const struct emu_block *b = v->cur;
	uint64_t pa = b->pa + (v->rip - b->rip), room = EMU_PAGE_SIZE - (pa & ~EMU_PAGE_MASK);

	c->insn_bytes_fetched = 0;
	if (!v->svm->exit.bytes || v->svm->outer || b->ctx != v->ctx ||
	    v->rip - b->rip >= b->bytes || !emu_is_ram(v->vm, pa))
		return;
	c->insn_bytes_fetched = (uint8_t)(room < 15 ? room : 15);
	memcpy(c->insn_bytes, v->vm->ram + pa, c->insn_bytes_fetched);
}

static void guest_store(struct emu_vcpu *v, uint8_t *p)
{
	struct emu_svm *s = v->svm;
	struct vmcb_control *c = &s->c;
	struct vmcb_save m;

	memcpy(&m, p + VMCB_SAVE, sizeof(m));
	svm_to_vmcb(&m.es, &v->seg[EMU_ES], v->seg[EMU_ES].base);
	svm_to_vmcb(&m.cs, &v->seg[EMU_CS], v->seg[EMU_CS].base);
	svm_to_vmcb(&m.ss, &v->seg[EMU_SS], v->seg[EMU_SS].base);
	svm_to_vmcb(&m.ds, &v->seg[EMU_DS], v->seg[EMU_DS].base);
	m.gdtr.base = v->gdt.base;
	m.gdtr.limit = v->gdt.limit;
	m.idtr.base = v->idt.base;
	m.idtr.limit = v->idt.limit;
	m.cpl = v->cpl;
	m.efer = v->efer;
	m.cr0 = v->cr0;
	m.cr2 = v->cr2;
	m.cr3 = v->cr3;
	m.cr4 = v->cr4;
	m.dr6 = v->dr[6];
	m.dr7 = v->dr[7];
	m.rflags = emu_get_rflags(v);
	m.rip = v->rip;
	m.rsp = v->r[EMU_RSP];
	m.rax = v->r[EMU_RAX];
	if (v->npt)
		m.g_pat = v->pat;
	if (c->virt_ext & VMCB_LBR_VIRT)
		svm_last_store(v, &m.dbgctl, m.last);
	memcpy(p + VMCB_SAVE, &m, sizeof(m));

	c->int_ctl =
		(c->int_ctl & ~(VMCB_V_IRQ | VMCB_V_TPR)) | s->vtpr | (v->virq ? VMCB_V_IRQ : 0);
	c->int_state = v->sti_shadow ? VMCB_SHADOW : 0;
	c->exit_code = s->exit.code;
	c->exit_info1 = s->exit.info1;
	c->exit_info2 = s->exit.info2;
	c->exit_int_info = s->outer;
	c->event_inj &= ~VMCB_EVENT_VALID;
	c->next_rip = s->exit.len ? v->rip + s->exit.len : 0;
	save_bytes(v, c);
	/* What only the host writes may have been changed meanwhile by another vCPU: only what the
	 * exit writes is stored. */
#define STORE(field) memcpy(p + offsetof(struct vmcb_control, field), &c->field, sizeof(c->field))
	STORE(int_ctl), STORE(int_state), STORE(exit_code), STORE(exit_info1), STORE(exit_info2);
	STORE(exit_int_info), STORE(event_inj), STORE(next_rip), STORE(insn_bytes_fetched);
	STORE(insn_bytes);
#undef STORE
	svm_stored(v, p);
}

static void host_load(struct emu_vcpu *v)
{
	struct emu_svm *s = v->svm;

	v->cr0 = s->host.cr0 | CR0_PE;
	v->cr3 = s->host.cr3;
	v->cr4 = s->host.cr4;
	v->efer = s->host.efer;
	emu_put_rflags(v, s->host.rflags & ~EMU_VM);
	v->rip = s->host.rip;
	v->r[EMU_RSP] = s->host.rsp;
	v->r[EMU_RAX] = s->host.rax;
	if (v->npt)
		v->pat = s->host.pat;
	v->seg[EMU_ES] = s->host.es;
	v->seg[EMU_CS] = s->host.cs;
	v->seg[EMU_SS] = s->host.ss;
	v->seg[EMU_DS] = s->host.ds;
	v->gdt = s->host.gdt;
	v->idt = s->host.idt;
	v->dr[7] = 0x400;
	v->cpl = s->host.cpl;
	if (s->c.virt_ext & VMCB_LBR_VIRT)
		svm_last_load(v, s->host.debugctl, s->host.last);
}

void emu_svm_exit(struct emu_vcpu *v)
{
	struct emu_svm *s = v->svm;
	uint32_t asid = s->c.asid;

	v->extra += EMU_EFFORT_WORLD;
	guest_store(v, v->vm->ram + s->vmcb);
	space_leave(v, &s->space[asid]);
	host_load(v);
	v->guest = v->npt = v->virq = false;
	v->guest_tsc = 0;
	v->gif_clear = true;
	v->halted = v->sti_shadow = v->brk.ss_shadow = v->single = false;
	v->brk.hits = 0;
	v->rest.block = NULL;
	s->inject = s->outer = 0;
	space_enter(v, &s->space[0]);
	emu_debug_update(v);
	v->trap = EMU_TRAP_NONE;
}
