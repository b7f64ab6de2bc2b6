/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An engine without a CPU, for tests of the runner: each vCPU follows a script of steps, so that
 * what it executed is known. It counts into the tally it is given like the soft machine does.
 */
#ifndef FAKE_ENGINE_H
#define FAKE_ENGINE_H

#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/engine.h"
#include "vmm/loader.h"
#include "vpmu/guest/abi.h"

enum fake_op {
	FAKE_RUN,      /* @a user instructions */
	FAKE_WRMSR,    /* @a = @b */
	FAKE_WRMSR_GP, /* the same, must fault */
	FAKE_RDMSR,    /* @a must read @b */
	FAKE_RDMSR_GP,
	FAKE_OUT, /* port @a, value @b, size @c */
	FAKE_IN,  /* port @a, size @c, must give @b */
	FAKE_HLT,
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
	_Atomic bool kicked;
	struct vpmu_soft_tally own, *tally;
	struct kvm_regs regs;
};

struct vmm_engine_vm {
	int unused;
};

/* What vCPU creation takes as script: by vCPU number. */
static const struct fake_step *(*fake_script)(unsigned int vcpu);
/* Steps whose answer was not the expected one. */
static _Atomic unsigned int fake_wrong;
/* Called at each run(); for traces. */
static void (*fake_trace)(struct vmm_engine_vcpu *v, uint64_t budget);

static void fake_count(struct vmm_engine_vcpu *v, enum vpmu_soft_mode mode, uint64_t n)
{
	uint64_t *ev = v->tally->ev[mode];

	ev[VPMU_SOFT_INSTRUCTIONS] += n;
	ev[VPMU_SOFT_CYCLES] += 2 * n;
	ev[VPMU_SOFT_REF_CYCLES] += n;
	/* One branch in eight instructions, whatever the slices. */
	ev[VPMU_SOFT_BRANCHES] += (v->done + n) / 8 - v->done / 8;
}

static void fake_check(struct vmm_engine_vcpu *v, bool ok, const struct fake_step *s, uint64_t got)
{
	if (ok)
		return;
	fprintf(stderr, "vCPU %u step %zu (op %d, %#lx): expected %#lx, got %#lx\n", v->id, v->at,
		s->op, (unsigned long)s->a, (unsigned long)s->b, (unsigned long)got);
	fake_wrong++;
}

/* Complete the exit of step @s as its answer says. */
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
	if (v->answered)
		fake_complete(v, &v->script[v->at], run);
	v->answered = false;
	for (;;) {
		const struct fake_step *s = &v->script[v->at];
		uint64_t n = s->a - v->done;

		if (s->op == FAKE_AGAIN) {
			v->at = s->a;
			continue;
		}
		if (s->op != FAKE_RUN)
			return fake_exit(v, s, run);
		if (n > left)
			n = left;
		fake_count(v, VPMU_SOFT_USR, n);
		v->done += n;
		run->retired += n;
		left -= n;
		if (v->done < s->a) {
			run->exit = VMM_EXIT_BUDGET;
			return 0;
		}
		v->done = 0;
		v->at++;
	}
}

static int fake_vm_create(struct vmm_engine *e, void *ram, size_t bytes, struct vmm_engine_vm **vm)
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
	memset(s, 0, sizeof(*s));
	return 0;
}

static int fake_set_sregs(struct vmm_engine_vcpu *v, const struct kvm_sregs *s)
{
	return 0;
}

static void fake_kick(struct vmm_engine_vcpu *v)
{
	v->kicked = true;
}

static void fake_set_tally(struct vmm_engine_vcpu *v, struct vpmu_soft_tally *t)
{
	v->tally = t ? t : &v->own;
}

static const struct vmm_engine_ops fake_ops = {
	.name = "fake",
	.vm_create = fake_vm_create,
	.vm_destroy = fake_vm_destroy,
	.vm_trap_msrs = fake_trap_msrs,
	.vcpu_create = fake_vcpu_create,
	.vcpu_destroy = fake_vcpu_destroy,
	.set_cpuid = fake_set_cpuid,
	.get_regs = fake_get_regs,
	.set_regs = fake_set_regs,
	.get_sregs = fake_get_sregs,
	.set_sregs = fake_set_sregs,
	.run = fake_run,
	.kick = fake_kick,
	.set_tally = fake_set_tally,
};

/* The smallest image that loads. */
static struct image fake_image(void)
{
	static struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
	} f = {
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		       .e_type = ET_EXEC,
		       .e_machine = EM_X86_64,
		       .e_version = EV_CURRENT,
		       .e_entry = VPMU_BOOT_IMAGE,
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1},
		.ph = {.p_type = PT_LOAD,
		       .p_flags = PF_R | PF_X,
		       .p_vaddr = VPMU_BOOT_IMAGE,
		       .p_paddr = VPMU_BOOT_IMAGE,
		       .p_filesz = sizeof(f),
		       .p_memsz = sizeof(f)},
	};

	return (struct image){.name = "fake.elf", .data = (uint8_t *)&f, .bytes = sizeof(f)};
}

#endif
