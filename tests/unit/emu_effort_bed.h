/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VMs that execute the guests of tests/emu/attack.h, for test_emu_effort: runs and slices, and what
 * they were charged. */
#ifndef TESTS_UNIT_EMU_EFFORT_BED_H
#define TESTS_UNIT_EMU_EFFORT_BED_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <urcu/urcu-memb.h>

#include "tests/emu/attack.h"
#include "vmm/sched/runner.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/emu.h"
#include "vmm/vm/vm.h"
#include "vpmu/account.h"
#include "vpmu/host.h"
#include "vpmu/emupmu.h"

static const struct vmm_engine_ops *const o = &vmm_emu_ops;

struct guest {
	struct vmm_engine *e;
	struct vmm_engine_vm *vm;
	struct vmm_engine_vcpu *v, *others[16];
	struct vpmu_emu_tally t;
	struct vmm_run run;
	uint8_t *ram;
};

static void open_engine(struct guest *g)
{
	char why[128];

	memset(g, 0, sizeof(*g));
	cr_assert_eq(o->open(&g->e, why, sizeof(why)), 0);
	g->ram = mmap(NULL, ATTACK_RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(g->ram != MAP_FAILED);
	cr_assert_eq(o->vm_create(g->e,
				  &(struct vmm_ram){
					  .base = g->ram, .nr = 1, .slot[0].bytes = ATTACK_RAM},
				  &g->vm),
		     0);
}

static void open_guest(struct guest *g, const struct attack *a)
{
	open_engine(g);
	cr_assert_eq(o->vcpu_create(g->vm, 0, &g->v), 0);
	cr_assert_eq(o->set_tally(g->v, &g->t), 0);
	cr_assert_eq(attack_load(a, o, g->v, g->ram), 0);
}

static void close_guest(struct guest *g)
{
	o->vcpu_destroy(g->v);
	o->vm_destroy(g->vm);
	o->close(g->e);
	munmap(g->ram, ATTACK_RAM);
}

/* A guest of chip_attacks: a whole CPU, and the serial port's line asserted. */
static void open_chip_guest(struct guest *g, const struct chip_attack *c)
{
	struct kvm_cpuid_entry2 leaf1 = {.function = 1, .ecx = 1u << 24, .edx = 7u << 24};

	open_engine(g);
	cr_assert_eq(o->irqchip_create(g->vm), 0);
	for (unsigned int i = 0; i < c->vcpus; i++) {
		cr_assert_eq(o->vcpu_create(g->vm, i, &g->others[i]), 0);
		cr_assert_eq(o->set_cpuid(g->others[i], &leaf1, 1), 0);
		cr_assert_eq(chip_attack_load(c, o, g->others[i], i, g->ram), 0);
	}
	g->v = g->others[0];
	cr_assert_eq(o->set_tally(g->v, &g->t), 0);
	cr_assert_eq(o->irq_line(g->vm, 4, true), 0);
}

static void close_chip_guest(struct guest *g, unsigned int vcpus)
{
	for (unsigned int i = 0; i < vcpus; i++)
		o->vcpu_destroy(g->others[i]);
	o->vm_destroy(g->vm);
	o->close(g->e);
	munmap(g->ram, ATTACK_RAM);
}

/* One run() of up to @most units, and its exit answered. Returns the effort. */
static uint64_t run(struct guest *g, uint64_t most)
{
	g->run.effort_max = most;
	g->run.budget = most;
	cr_assert_eq(o->run(g->v, &g->run), 0);
	cr_assert(g->run.exit != VMM_EXIT_HLT && g->run.exit != VMM_EXIT_SHUTDOWN &&
			  g->run.exit != VMM_EXIT_ERROR,
		  "exit %d: %s", g->run.exit,
		  g->run.exit == VMM_EXIT_ERROR ? g->run.u.error.msg : "");
	cr_assert_geq(4 * g->run.effort, g->run.retired);
	g->run.u.msr.fault = false;
	return g->run.effort;
}

/* A slice of @most units as vcpu_run_slice() makes it, except for answers of exits. */
static uint64_t slice(struct guest *g, uint64_t most, uint64_t *insns)
{
	uint64_t sum = 0;

	while (sum < most) {
		sum += run(g, most - sum);
		*insns += g->run.retired;
	}
	return sum;
}

#endif
