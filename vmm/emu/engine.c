// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm_emu_ops: the emulator behind the engine interface (callers: see vmm/engine/engine.h). This
 * file creates and destroys VMs and vCPUs, gets and sets registers, and queues events from outside.
 * It must never execute guest code: run.c does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "vmm/engine/simd.h"
#include "vmm/engine/refuse.h"
#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/pool.h"
#include "vmm/emu/svm/svm.h"
#include "vpmu/util/clock.h"

#define RAM_MAX	   (1ULL << 40) /* page numbers fit 32 bits, with room */
#define EFER_KNOWN 0x200d01ULL	/* SCE LME LMA NXE AIBRSE; and SVME with SVM */
/* 2020-01-01: time of birth of VMs whose runs must repeat. */
#define REPEATED_BIRTH (1577836800ULL * 1000000000ULL)

static int emu_open(struct vmm_engine **e, char *why, size_t why_len)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static char engine; /* the engine has no state: this address is only a handle */

	pthread_once(&once, emu_exec_init);
	emu_jit_open();
	if (why && why_len)
		why[0] = '\0';
	*e = (struct vmm_engine *)&engine;
	return 0;
}

static void emu_close(struct vmm_engine *e)
{
}

static int emu_vm_create(struct vmm_engine *e, const struct vmm_ram *ram,
			 struct vmm_engine_vm **out)
{
	struct emu_vm *vm;

	if (!vmm_ram_valid(ram, RAM_MAX))
		return -EINVAL;
	vm = calloc(1, sizeof(*vm));
	if (!vm)
		return -ENOMEM;
	vm->ram = ram->base;
	vm->low = ram->slot[0].bytes;
	vm->slots = *ram;
	vm->born_ns = clock_ns(CLOCK_REALTIME);
	/* Mapped rather than allocated: only the entries of pages in use take memory. */
	vm->pages_bytes = (vmm_ram_end(ram) >> EMU_PAGE_SHIFT) * sizeof(struct emu_page);
	vm->pages = mmap(NULL, vm->pages_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (vm->pages == MAP_FAILED) {
		free(vm);
		return -ENOMEM;
	}
	pthread_mutex_init(&vm->lock, NULL);
	pthread_mutex_init(&vm->split_lock, NULL);
	*out = (struct vmm_engine_vm *)vm;
	return 0;
}

static void emu_vm_destroy(struct vmm_engine_vm *evm)
{
	struct emu_vm *vm = emu_to_vm(evm);

	if (!vm)
		return;
	munmap(vm->pages, vm->pages_bytes);
	emu_chip_destroy(vm);
	pthread_mutex_destroy(&vm->lock);
	pthread_mutex_destroy(&vm->split_lock);
	free(vm->msrs);
	free(vm);
}

static int emu_vm_trap_msrs(struct vmm_engine_vm *evm, const struct vpmu_msr_range *r)
{
	struct emu_vm *vm = emu_to_vm(evm);
	struct vpmu_msr_range *copy;
	size_t n = 0;

	if (vm->vcpus)
		return -EBUSY;
	while (r && r[n].count)
		n++;
	copy = n ? malloc(n * sizeof(*copy)) : NULL;
	if (n && !copy)
		return -ENOMEM;
	if (n)
		memcpy(copy, r, n * sizeof(*copy));
	free(vm->msrs);
	vm->msrs = copy;
	vm->nr_msrs = n;
	return 0;
}

static int emu_irqchip_create(struct vmm_engine_vm *evm)
{
	struct emu_vm *vm = emu_to_vm(evm);

	if (vm->chip)
		return -EEXIST;
	return vm->vcpus ? -EBUSY : emu_chip_create(vm);
}

static int emu_irq_line(struct vmm_engine_vm *evm, unsigned int gsi, bool level)
{
	return emu_chip_line(emu_to_vm(evm)->chip, gsi, level);
}

static int emu_set_waker(struct vmm_engine_vm *evm, const struct vmm_waker *w)
{
	if (!emu_to_vm(evm)->chip)
		return -ENXIO;
	emu_chip_waker(emu_to_vm(evm)->chip, w);
	if (w && w->repeats)
		emu_to_vm(evm)->born_ns = REPEATED_BIRTH;
	return 0;
}

static int emu_expire(struct vmm_engine_vm *evm, uint64_t *next)
{
	if (!emu_to_vm(evm)->chip)
		return -ENXIO;
	emu_chip_expire(emu_to_vm(evm)->chip, next);
	return 0;
}

static int emu_retire(struct vmm_engine_vcpu *ev, uint64_t *next)
{
	if (!emu_to_vcpu(ev)->chip)
		return -ENXIO;
	emu_chip_retire(emu_to_vcpu(ev), next);
	return 0;
}

void emu_reset(struct emu_vcpu *v)
{
	v->rflags = 2;
	v->rip = 0xfff0;
	v->cr0 = 0x60000010;
	v->apic_base = 0xfee00800 | (v->id ? 0 : 0x100);
	v->pat = 0x0007040600070406ULL;
	v->dr[6] = 0xffff0ff0;
	v->dr[7] = 0x400;
	memset(&v->brk, 0, sizeof(v->brk));
	v->gdt.limit = v->idt.limit = 0xffff;
	for (int i = 0; i < EMU_NSEGS; i++)
		v->seg[i] = (struct kvm_segment){
			.limit = 0xffff, .type = i == EMU_CS ? 0xb : 3, .present = 1, .s = 1};
	v->tr = (struct kvm_segment){.limit = 0xffff, .type = 0xb, .present = 1};
	v->ldt = (struct kvm_segment){.limit = 0xffff, .type = 2, .present = 1};
}

static int emu_vcpu_create(struct vmm_engine_vm *evm, unsigned int id, struct vmm_engine_vcpu **out)
{
	struct emu_vm *vm = emu_to_vm(evm);
	struct emu_vcpu *v = emu_pool_get(sizeof(*v));
	int rc;

	if (!v)
		return -ENOMEM;
	v->vm = vm;
	v->id = id;
	v->tally = &v->own_tally;
	v->tlbs = v->own_tlbs;
	v->tlb = v->tlbs[0];
	v->simd = vmm_simd_host() & VMM_SIMD_ALL;
	v->xsave = EMU_XSAVE_ALL;
	emu_reset(v);
	/* INIT does not reset these two: SDM vol. 3, table 9-1. */
	emu_fpu_reset(&v->fpu);
	emu_whole_reset(&v->w);
	lapic_init(&v->lapic, id);
	rc = vm->chip ? emu_chip_add(v) : 0;
	if (!rc) {
		rc = emu_cache_init(v);
		if (rc)
			emu_chip_remove(v);
	}
	if (rc) {
		emu_pool_put(v, sizeof(*v));
		return rc;
	}
	v->epoch_seen = atomic_load(&vm->code_epoch);
	v->smc_seen = atomic_load(&vm->smc_seq);
	pthread_mutex_lock(&vm->lock);
	if (vm->vcpus && !vm->vcpus->vm_next) /* decoded as the only vCPU (emu_code.alone) */
		emu_cache_reset(vm->vcpus);
	v->vm_next = vm->vcpus;
	vm->vcpus = v;
	pthread_mutex_unlock(&vm->lock);
	*out = (struct vmm_engine_vcpu *)v;
	return 0;
}

static void emu_vcpu_destroy(struct vmm_engine_vcpu *ev)
{
	struct emu_vcpu *v = emu_to_vcpu(ev), **p;

	if (!v)
		return;
	pthread_mutex_lock(&v->vm->lock);
	for (p = &v->vm->vcpus; *p != v; p = &(*p)->vm_next)
		;
	*p = v->vm_next;
	pthread_mutex_unlock(&v->vm->lock);
	emu_chip_remove(v);
	emu_svm_fini(v);
	emu_cache_fini(v);
	free(v->cpuid);
	emu_pool_put(v, sizeof(*v));
}

/* Leaf @leaf of a CPUID table, or its subleaf @sub; all zero if it has none. */
static struct kvm_cpuid_entry2 leaf_of(const struct kvm_cpuid_entry2 *e, size_t n, uint32_t leaf,
				       uint32_t sub)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].function == leaf && e[i].index == sub)
			return e[i];
	return (struct kvm_cpuid_entry2){.function = leaf};
}

void emu_show_simd(struct emu_vcpu *v, uint32_t simd)
{
	const struct vmm_simd_cpuid all = vmm_simd_cpuid(VMM_SIMD_ALL | VMM_SIMD_ZMM),
				    show = vmm_simd_cpuid(simd);

	for (size_t i = 0; i < v->nr_cpuid; i++) {
		struct kvm_cpuid_entry2 *e = &v->cpuid[i];

		if (e->function == 1) {
			e->ecx = (e->ecx & ~all.ecx_1) | show.ecx_1;
		} else if (e->function == 7 && !e->index) {
			e->ebx = (e->ebx & ~all.ebx_7) | show.ebx_7;
			e->ecx = (e->ecx & ~all.ecx_7) | show.ecx_7;
		} else if (e->function == 7 && e->index == 1) {
			e->eax = (e->eax & ~all.eax_7_1) | show.eax_7_1;
		}
	}
	if (v->simd == simd)
		return;
	v->simd = simd;
	emu_cache_reset(v);
	emu_tlb_flush(v);
}

static int emu_set_cpuid(struct vmm_engine_vcpu *ev, const struct kvm_cpuid_entry2 *e, size_t n)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);
	struct kvm_cpuid_entry2 *copy = n ? malloc(n * sizeof(*copy)) : NULL;
	const struct kvm_cpuid_entry2 vendor = leaf_of(e, n, 0, 0), features = leaf_of(e, n, 1, 0),
				      seven = leaf_of(e, n, 7, 0);
	const struct vmm_simd_cpuid shown = {features.ecx, seven.ebx, seven.ecx,
					     leaf_of(e, n, 7, 1).eax};
	bool intel = !memcmp(&vendor.ebx, "Genu", 4) && !memcmp(&vendor.edx, "ineI", 4) &&
		     !memcmp(&vendor.ecx, "ntel", 4);
	const struct kvm_cpuid_entry2 *leaf;
	uint32_t simd = vmm_simd_host();

	if (n && !copy)
		return -ENOMEM;
	if (n)
		memcpy(copy, e, n * sizeof(*copy));
	free(v->cpuid);
	v->cpuid = copy;
	v->nr_cpuid = n;
	v->la57 = seven.ecx >> 16 & 1;
	v->whole = features.edx >> 24 & 1; /* FXSR: only the tables for stock kernels have it */
	emu_fpu_mask(v);
	leaf = emu_cpuid(v, 0xd, 1);
	v->xsave = !v->whole			   ? EMU_XSAVE_ALL
		   : leaf && leaf->function == 0xd ? leaf->eax & EMU_XSAVE_ALL
						   : 0;
	if (v->chip)
		v->lapic.deadline = features.ecx >> 24 & 1;
	simd &= v->whole ? vmm_simd_of(&shown) : VMM_SIMD_ALL;
	if (intel != v->intel || simd != v->simd) {
		/* Decoded code and translations depend on these: forget them. */
		v->intel = intel;
		v->simd = simd;
		v->last = (struct emu_last){0};
		emu_cache_reset(v);
		emu_tlb_flush(v);
	}
	return emu_svm_show(v);
}

/* The registers of *@r in the order of emu_vcpu.r. */
#define KVM_ORDER(r)                                                                               \
	{                                                                                          \
		&(r)->rax, &(r)->rcx, &(r)->rdx, &(r)->rbx, &(r)->rsp, &(r)->rbp, &(r)->rsi,       \
			&(r)->rdi, &(r)->r8, &(r)->r9, &(r)->r10, &(r)->r11, &(r)->r12, &(r)->r13, \
			&(r)->r14, &(r)->r15                                                       \
	}

static int emu_get_regs(struct vmm_engine_vcpu *ev, struct kvm_regs *r)
{
	const struct emu_vcpu *v = emu_to_vcpu(ev);
	__u64 *const order[16] = KVM_ORDER(r);

	for (unsigned int i = 0; i < 16; i++)
		*order[i] = v->r[i];
	r->rip = v->rip;
	r->rflags = emu_get_rflags(v);
	return 0;
}

static int emu_set_regs(struct vmm_engine_vcpu *ev, const struct kvm_regs *r)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);
	const __u64 *const order[16] = KVM_ORDER(r);

	for (unsigned int i = 0; i < 16; i++)
		v->r[i] = *order[i];
	v->rip = r->rip;
	emu_put_rflags(v, r->rflags & 0x3d7fd7); /* drops VM and the reserved bits */
	/* The vCPU continues with the new registers: drop an exit that waits for its answer. */
	v->pending.kind = EMU_PEND_NONE;
	v->rest.block = NULL;
	v->halted = false;
	v->plat.wait_sipi = false;
	v->sti_shadow = v->brk.ss_shadow = false;
	v->brk.hits = 0;
	return 0;
}

static int emu_get_sregs(struct vmm_engine_vcpu *ev, struct kvm_sregs *s)
{
	const struct emu_vcpu *v = emu_to_vcpu(ev);

	memset(s, 0, sizeof(*s));
	s->es = v->seg[EMU_ES];
	s->cs = v->seg[EMU_CS];
	s->ss = v->seg[EMU_SS];
	s->ds = v->seg[EMU_DS];
	s->fs = v->seg[EMU_FS];
	s->gs = v->seg[EMU_GS];
	s->fs.base = v->r[EMU_FSBASE];
	s->gs.base = v->r[EMU_GSBASE];
	s->tr = v->tr;
	s->ldt = v->ldt;
	s->gdt = v->gdt;
	s->idt = v->idt;
	s->cr0 = v->cr0;
	s->cr2 = v->cr2;
	s->cr3 = v->cr3;
	s->cr4 = v->cr4;
	s->cr8 = v->cr8;
	s->efer = v->efer;
	s->apic_base = v->apic_base;
	if (v->intr_pending)
		s->interrupt_bitmap[v->intr_vec / 64] |= 1ULL << v->intr_vec % 64;
	return 0;
}

static int emu_set_sregs(struct vmm_engine_vcpu *ev, const struct kvm_sregs *s)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);

	if (s->cs.dpl > 3 || s->cr8 > 15 || (s->efer & ~(EFER_KNOWN | emu_svm_efer(v))) ||
	    !emu_canonical(s->fs.base) || !emu_canonical(s->gs.base))
		return -EINVAL;
	emu_svm_reset(v);
	v->seg[EMU_ES] = s->es;
	v->seg[EMU_CS] = s->cs;
	v->seg[EMU_SS] = s->ss;
	v->seg[EMU_DS] = s->ds;
	v->seg[EMU_FS] = s->fs;
	v->seg[EMU_GS] = s->gs;
	v->r[EMU_FSBASE] = s->fs.base;
	v->r[EMU_GSBASE] = s->gs.base;
	v->tr = s->tr;
	v->ldt = s->ldt;
	v->gdt = s->gdt;
	v->idt = s->idt;
	v->cr0 = s->cr0;
	v->cr2 = s->cr2;
	v->cr3 = s->cr3;
	v->cr4 = s->cr4;
	v->cr8 = s->cr8;
	v->efer = s->efer;
	v->apic_base = s->apic_base;
	/* Between runs all counts are folded, so the mode may change without emu_set_cpl(). */
	v->cpl = s->cs.dpl;
	v->tlb = v->tlbs[v->cpl == 3];
	if (v->pending.kind)
		v->brk.hits = 0; /* of that instruction */
	v->pending.kind = EMU_PEND_NONE;
	v->halted = false;
	v->intr_pending = false;
	for (unsigned int i = 0; i < 256; i++)
		if (s->interrupt_bitmap[i / 64] >> i % 64 & 1) {
			v->intr_pending = true;
			v->intr_vec = (uint8_t)i;
		}
	if (v->lapic.offered && !(v->intr_pending && v->intr_vec == v->lapic.offered))
		v->lapic.offered = 0;
	emu_lapic_mode(v);
	emu_irq_update(v);
	/* A caller that sets up a vCPU may have written guest code too: decode everything again. */
	emu_cache_reset(v);
	emu_tlb_flush(v);
	return 0;
}

static void engine_emu_kick(struct vmm_engine_vcpu *ev)
{
	atomic_store(&emu_to_vcpu(ev)->kicked, true);
}

static int emu_interrupt_queue(struct vmm_engine_vcpu *ev, uint8_t vector)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);

	if (v->intr_pending)
		return -EBUSY;
	v->intr_pending = true;
	v->intr_vec = vector;
	return 0;
}

static int emu_nmi_queue(struct vmm_engine_vcpu *ev)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);

	if (v->nmi_pending)
		return -EBUSY;
	v->nmi_pending = true;
	return 0;
}

static int emu_engine_pmi(struct vmm_engine_vcpu *ev)
{
	emu_pmi(emu_to_vcpu(ev));
	return 0;
}

static int emu_set_tally(struct vmm_engine_vcpu *ev, struct vpmu_emu_tally *t)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);

	v->tally = t ? t : &v->own_tally;
	return 0;
}

const struct vmm_engine_ops vmm_emu_ops = {
	.name = "emulator",
	.can = VMM_CAN_RDPMC | VMM_CAN_LAPIC | VMM_CAN_PMI | VMM_CAN_SAVE | VMM_CAN_TALLY |
	       VMM_CAN_LBR | VMM_CAN_WARM | VMM_CAN_IRQCHIP | VMM_CAN_WAKE,
	.open = emu_open,
	.close = emu_close,
	.vm_create = emu_vm_create,
	.vm_destroy = emu_vm_destroy,
	.vm_trap_msrs = emu_vm_trap_msrs,
	.irqchip_create = emu_irqchip_create,
	.irq_line = emu_irq_line,
	.rdpmc_sites = vmm_no_rdpmc_sites,
	.set_waker = emu_set_waker,
	.expire = emu_expire,
	.retire = emu_retire,
	.vcpu_create = emu_vcpu_create,
	.vcpu_destroy = emu_vcpu_destroy,
	.set_cpuid = emu_set_cpuid,
	.supported_cpuid = vmm_any_cpuid,
	.get_regs = emu_get_regs,
	.set_regs = emu_set_regs,
	.get_sregs = emu_get_sregs,
	.set_sregs = emu_set_sregs,
	.run = emu_run,
	.warm = emu_warm,
	.kick = engine_emu_kick,
	.interrupt = emu_interrupt_queue,
	.nmi = emu_nmi_queue,
	.pmi = emu_engine_pmi,
	.set_tally = emu_set_tally,
	.get_state = emu_get_state,
	.set_state = emu_set_state,
	.get_vm_state = emu_get_vm_state,
	.set_vm_state = emu_set_vm_state,
	.guest_tsc = vmm_no_guest_tsc,
};
