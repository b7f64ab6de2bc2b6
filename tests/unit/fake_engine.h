/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An engine without a CPU, for tests of the runner: each vCPU follows a script of steps, so that
 * its executed work is known. It counts into the tally it is given and stops for its alarms like
 * the emulator does. Interrupts are taken where they may be and noted; their handlers take no time
 * and end at once.
 */
#ifndef TESTS_UNIT_FAKE_ENGINE_H
#define TESTS_UNIT_FAKE_ENGINE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/elf_image.h"
#include "vmm/engine/refuse.h"
#include "vmm/boot/boot.h"
#include "vpmu/guest/abi.h"
#include "vpmu/emupmu.h"

enum fake_op {
	FAKE_RUN,      /* @a user instructions */
	FAKE_WRMSR,    /* @a = @b */
	FAKE_WRMSR_GP, /* the same, must fault */
	FAKE_RDMSR,    /* @a must read @b */
	FAKE_RDMSR_GP,
	FAKE_OUT, /* port @a, value @b, size @c */
	FAKE_IN,  /* port @a, size @c, must give @b */
	FAKE_HLT, /* @a: also count as so many instructions */
	FAKE_IF,  /* RFLAGS.IF = @a */
	FAKE_SHUTDOWN,
	FAKE_ERROR,
	FAKE_EIO,   /* run() itself fails */
	FAKE_AGAIN, /* go on at step @a */
};

struct fake_step {
	enum fake_op op;
	uint64_t a, b;
	uint8_t c;
};

struct vmm_engine_vcpu {
	const struct fake_step *script;
	unsigned int id;
	size_t at;
	uint64_t done; /* of a FAKE_RUN step */
	bool answered; /* the step at @at has exited and is to be completed */
	bool halted;   /* ... and it was a HLT */
	_Atomic bool kicked;
	struct vpmu_emu_tally own, *tally;
	struct kvm_regs regs;
	struct kvm_sregs sregs;

	/* interrupts that wait; and those taken: which, behind how many instructions */
	bool no_if; /* RFLAGS.IF is clear */
	bool nmi, nmi_masked;
	int intr; /* vector, 0: none */
	uint64_t insns;
	unsigned int pmis, nr_taken;
	struct {
		uint64_t insns;
		int vector; /* 2: NMI */
	} taken[64];
};

struct vmm_engine_vm {
	int unused;
};

/* What vCPU creation takes as script: by vCPU number. */
static const struct fake_step *(*fake_script)(unsigned int vcpu);
static const struct fake_step *fake_scripts[3];

static inline const struct fake_step *fake_script_of(unsigned int vcpu)
{
	return fake_scripts[vcpu];
}

/* What the vCPUs that are created from now on do. */
static inline void fake_play(const struct fake_step *vcpu0, const struct fake_step *vcpu1,
			     const struct fake_step *vcpu2)
{
	fake_scripts[0] = vcpu0;
	fake_scripts[1] = vcpu1;
	fake_scripts[2] = vcpu2;
	fake_script = fake_script_of;
}
/* Steps with an answer other than the expected one. */
static _Atomic unsigned int fake_wrong;
/* A machine without alarms: due events are found at switches only. */
static bool fake_no_alarms;
/* Called at each run(); for traces. */
static void (*fake_trace)(struct vmm_engine_vcpu *v, uint64_t budget);

static void fake_count(struct vmm_engine_vcpu *v, enum vpmu_emu_mode mode, uint64_t n)
{
	vpmu_emu_add(v->tally, mode, VPMU_EMU_INSTRUCTIONS, n);
	vpmu_emu_add(v->tally, mode, VPMU_EMU_CYCLES, 2 * n);
	vpmu_emu_add(v->tally, mode, VPMU_EMU_REF_CYCLES, n);
	/* One branch in eight instructions, whatever the slices. */
	vpmu_emu_add(v->tally, mode, VPMU_EMU_BRANCHES, (v->done + n) / 8 - v->done / 8);
}

static void fake_check(struct vmm_engine_vcpu *v, bool ok, const struct fake_step *s, uint64_t got)
{
	if (ok)
		return;
	fprintf(stderr, "vCPU %u step %zu (op %d, %#lx): expected %#lx, got %#lx\n", v->id, v->at,
		s->op, (unsigned long)s->a, (unsigned long)s->b, (unsigned long)got);
	fake_wrong++;
}

/* Complete the exit of step @s by its answer. */
static void fake_complete(struct vmm_engine_vcpu *v, const struct fake_step *s,
			  const struct vmm_run *run)
{
	switch (s->op) {
	case FAKE_WRMSR:
		fake_check(v, !run->u.msr.fault, s, run->u.msr.fault);
		break;
	case FAKE_RDMSR:
		fake_check(v, !run->u.msr.fault && run->u.msr.data == s->b, s, run->u.msr.data);
		break;
	case FAKE_WRMSR_GP:
	case FAKE_RDMSR_GP:
		fake_check(v, run->u.msr.fault, s, run->u.msr.data);
		break;
	case FAKE_IN:
		fake_check(v, run->u.io.data == s->b, s, run->u.io.data);
		break;
	default:
		break;
	}
	v->at++;
}

static int fake_exit(struct vmm_engine_vcpu *v, const struct fake_step *s, struct vmm_run *run)
{
	v->answered = true;
	v->regs.rip = 0x1000 + v->at;
	switch (s->op) {
	case FAKE_WRMSR:
	case FAKE_WRMSR_GP:
	case FAKE_RDMSR:
	case FAKE_RDMSR_GP:
		run->exit = s->op == FAKE_WRMSR || s->op == FAKE_WRMSR_GP ? VMM_EXIT_WRMSR
									  : VMM_EXIT_RDMSR;
		run->u.msr.index = (uint32_t)s->a;
		run->u.msr.data = s->b;
		run->u.msr.fault = false;
		return 0;
	case FAKE_OUT:
	case FAKE_IN:
		run->exit = VMM_EXIT_IO;
		run->u.io.port = (uint16_t)s->a;
		run->u.io.size = s->c;
		run->u.io.in = s->op == FAKE_IN;
		run->u.io.data = s->op == FAKE_IN ? 0 : (uint32_t)s->b;
		return 0;
	case FAKE_HLT:
		fake_count(v, VPMU_EMU_OS, s->a);
		v->insns += s->a;
		v->halted = true;
		run->exit = VMM_EXIT_HLT;
		return 0;
	case FAKE_SHUTDOWN:
		run->exit = VMM_EXIT_SHUTDOWN;
		return 0;
	case FAKE_ERROR:
		run->exit = VMM_EXIT_ERROR;
		strcpy(run->u.error.msg, "no such instruction at RIP 0x1234");
		return 0;
	default:
		return -EIO;
	}
}

static bool fake_wakes(struct vmm_engine_vcpu *v)
{
	return (v->nmi && !v->nmi_masked) ||
	       (v->intr && !v->no_if && (unsigned int)v->intr >> 4 > v->sregs.cr8);
}

static void fake_take(struct vmm_engine_vcpu *v)
{
	while (fake_wakes(v) && v->nr_taken < 64) {
		bool nmi = v->nmi && !v->nmi_masked;

		v->taken[v->nr_taken].insns = v->insns;
		v->taken[v->nr_taken++].vector = nmi ? 2 : v->intr;
		if (nmi)
			v->nmi = false;
		else
			v->intr = 0;
	}
}

/* One instruction of a FAKE_RUN step at a time where an alarm may stop it. */
static uint64_t fake_stride(const struct vmm_engine_vcpu *v, uint64_t n)
{
	return v->tally->armed && !fake_no_alarms && n > 1 ? 1 : n;
}

/* Steps that only change the CPU. */
static bool fake_quiet(struct vmm_engine_vcpu *v, const struct fake_step *s)
{
	switch (s->op) {
	case FAKE_AGAIN:
		v->at = s->a;
		return true;
	case FAKE_IF:
		v->no_if = !s->a;
		break;
	default:
		return false;
	}
	v->at++;
	return true;
}

static int fake_run(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	uint64_t left = run->budget ? run->budget : UINT64_MAX; /* 0: none, as on KVM */

	if (fake_trace)
		fake_trace(v, run->budget);
	run->retired = 0;
	if (atomic_exchange(&v->kicked, false)) {
		run->exit = VMM_EXIT_INTR;
		return 0;
	}
	if (v->halted && !fake_wakes(v)) {
		run->exit = VMM_EXIT_HLT;
		return 0;
	}
	v->halted = false;
	if (v->answered)
		fake_complete(v, &v->script[v->at], run);
	v->answered = false;
	for (;;) {
		const struct fake_step *s = &v->script[v->at];
		uint64_t n = s->a - v->done;

		if (!fake_no_alarms && vpmu_emu_alarm_due(v->tally)) {
			run->exit = VMM_EXIT_ALARM;
			return 0;
		}
		fake_take(v);
		if (fake_quiet(v, s))
			continue;
		if (s->op != FAKE_RUN)
			return fake_exit(v, s, run);
		if (!left) {
			run->exit = VMM_EXIT_BUDGET;
			return 0;
		}
		n = fake_stride(v, n < left ? n : left);
		fake_count(v, VPMU_EMU_USR, n);
		v->done += n;
		v->insns += n;
		run->retired += n;
		left -= n;
		if (v->done == s->a) {
			v->done = 0;
			v->at++;
		}
	}
}

static int fake_vm_create(struct vmm_engine *e, const struct vmm_ram *ram,
			  struct vmm_engine_vm **vm)
{
	*vm = calloc(1, sizeof(**vm));
	return *vm ? 0 : -ENOMEM;
}

static void fake_vm_destroy(struct vmm_engine_vm *vm)
{
	free(vm);
}

static int fake_trap_msrs(struct vmm_engine_vm *vm, const struct vpmu_msr_range *r)
{
	return 0;
}

static int fake_vcpu_create(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **v)
{
	*v = calloc(1, sizeof(**v));
	if (!*v)
		return -ENOMEM;
	(*v)->id = id;
	(*v)->script = fake_script(id);
	(*v)->tally = &(*v)->own;
	return 0;
}

static void fake_vcpu_destroy(struct vmm_engine_vcpu *v)
{
	free(v);
}

static int fake_set_cpuid(struct vmm_engine_vcpu *v, const struct kvm_cpuid_entry2 *e, size_t n)
{
	return 0;
}

static int fake_get_regs(struct vmm_engine_vcpu *v, struct kvm_regs *r)
{
	*r = v->regs;
	return 0;
}

static int fake_set_regs(struct vmm_engine_vcpu *v, const struct kvm_regs *r)
{
	v->regs = *r;
	return 0;
}

static int fake_get_sregs(struct vmm_engine_vcpu *v, struct kvm_sregs *s)
{
	*s = v->sregs;
	return 0;
}

static int fake_set_sregs(struct vmm_engine_vcpu *v, const struct kvm_sregs *s)
{
	v->sregs = *s;
	return 0;
}

static int fake_interrupt(struct vmm_engine_vcpu *v, uint8_t vector)
{
	if (v->intr)
		return -EBUSY;
	v->intr = vector;
	return 0;
}

static int fake_nmi(struct vmm_engine_vcpu *v)
{
	if (v->nmi)
		return -EBUSY;
	v->nmi = true;
	return 0;
}

/* LVTPC has NMI delivery and is never masked. */
static int fake_pmi(struct vmm_engine_vcpu *v)
{
	v->pmis++;
	v->nmi = true;
	return 0;
}

static void fake_kick(struct vmm_engine_vcpu *v)
{
	v->kicked = true;
}

static int fake_set_tally(struct vmm_engine_vcpu *v, struct vpmu_emu_tally *t)
{
	v->tally = t ? t : &v->own;
	return 0;
}

static const struct vmm_engine_ops fake_ops = {
	.name = "fake",
	.can = VMM_CAN_RDPMC | VMM_CAN_LAPIC | VMM_CAN_PMI | VMM_CAN_TALLY | VMM_CAN_LBR,
	.vm_create = fake_vm_create,
	.vm_destroy = fake_vm_destroy,
	.vm_trap_msrs = fake_trap_msrs,
	.irqchip_create = vmm_no_irqchip,
	.irq_line = vmm_no_irq_line,
	.rdpmc_sites = vmm_no_rdpmc_sites,
	.set_waker = vmm_no_waker,
	.expire = vmm_no_expire,
	.retire = vmm_no_retire,
	.vcpu_create = fake_vcpu_create,
	.vcpu_destroy = fake_vcpu_destroy,
	.set_cpuid = fake_set_cpuid,
	.supported_cpuid = vmm_any_cpuid,
	.get_regs = fake_get_regs,
	.set_regs = fake_set_regs,
	.get_sregs = fake_get_sregs,
	.set_sregs = fake_set_sregs,
	.run = fake_run,
	.warm = vmm_no_warm,
	.kick = fake_kick,
	.interrupt = fake_interrupt,
	.nmi = fake_nmi,
	.pmi = fake_pmi,
	.set_tally = fake_set_tally,
	.get_state = vmm_no_get_state,
	.set_state = vmm_no_set_state,
	.get_vm_state = vmm_no_get_vm_state,
	.set_vm_state = vmm_no_set_vm_state,
	.guest_tsc = vmm_no_guest_tsc,
};

/* The smallest image that loads. */
static inline struct image fake_image(void)
{
	static struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
	} f;

	f.eh = elf_program(VPMU_BOOT_IMAGE, 1);
	f.ph = elf_segment(PF_R | PF_X, VPMU_BOOT_IMAGE, 0, sizeof(f));
	return (struct image){.name = "fake.elf", .data = (uint8_t *)&f, .bytes = sizeof(f)};
}

#endif
