// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/emu: time in VMs with interrupt controllers: the local APIC's timer, vCPUs that halt and
 * pause, and the clock of several vCPUs. Everything that is compared repeats exactly. */
#include "chip_bed.h"

TestSuite(emu_chip_time, .fini = stop_last);

/* ---- the timer ---- */

/* As expect(), but the entry at @skip is not compared: an address or a clock. */
Test(emu_chip_time, timer_modes)
{
	uint32_t deadline[2], got;

	for (uint64_t budget = 7; budget < 40000; budget = budget * 5 + 1) {
		RUN(&c, g_oneshot, budget);
		/* 0x40 comes in the first loop of 4000 cycles or so: the count is 0 behind it. */
		EXPECT(&c, 0, 0x40, 0, 1, 2);

		RUN(&c, g_periodic, budget);
		EXPECT(&c, 0, 0x41, 0x41, 0x41, 0x41, 1, 2);

		RUN(&c, g_deadline, budget);
		memcpy(&got, c.b.ram + LOG(0), 4);
		deadline[0] = budget == 7 ? got : deadline[0];
		cr_assert_eq(got, deadline[0], "the same clock with every budget");
		cr_assert_neq(got, 0);
		memcpy(c.b.ram + LOG(0), "\0\0\0", 4);
		EXPECT(&c, 0, 0, 1, 0x42, 0, 0x42, 2, 0, 3);
	}
}

/* The timer comes behind the same instruction whatever the budgets are, also close to others. */
BED_GUEST(g_exact,
	  XENABLE XW(0x320, 0x45) XW(
		  0x3e0,
		  0xb) "sti\n"
		       "mov $40,%r8d\n2: imul $331,%r8d,%eax\nadd $100,%eax\nmov %eax,0x380(%rbx)\n"
		       "mov $9000,%ecx\n1: dec %ecx\nlea (%rcx,%rax,2),%rdx\njnz 1b\n"
		       "dec %r8d\njnz 2b\ncli\nhlt\n");

Test(emu_chip_time, timer_is_exact)
{
	/* mov %ecx,(%rdi); add $4,%rdi; movl $0,0xb0(%rbx); iretq */
	static const uint8_t h[] = {0x89, 0x0f, 0x48, 0x83, 0xc7, 4, 0xc7, 0x83, 0xb0,
				    0,	  0,	0,    0,    0,	  0, 0,	   0x48, 0xcf};
	uint32_t first[40], log[40];

	for (uint64_t budget = 0; budget < 4000; budget = budget * 7 + 1) {
		struct kvm_regs r;

		start(&c, 1);
		memcpy(c.b.ram + HANDLERS + 0x45 * 32, h, sizeof(h));
		PUT(&c, 0, g_exact);
		to_hlt(&c, 0, budget);
		o->get_regs(c.v[0], &r);
		cr_assert_eq(r.rdi, LOG(0) + 40 * 4);
		memcpy(log, c.b.ram + LOG(0), sizeof(log));
		if (!budget)
			memcpy(first, log, sizeof(log));
		for (unsigned int i = 0; i < 40; i++)
			cr_assert_eq(log[i], first[i], "budget %llu, round %u: %u, not %u",
				     (unsigned long long)budget, i, log[i], first[i]);
	}
	/* 4 cycles an iteration, and the next round is 331 cycles shorter. */
	for (unsigned int i = 1; i < 40; i++)
		cr_assert(first[i] - first[i - 1] >= 82 && first[i] - first[i - 1] <= 83,
			  "round %u: %u iterations", i, first[i] - first[i - 1]);
}

/* ---- halted vCPUs and the clock ---- */

Test(emu_chip_time, halt_and_timer)
{
	uint64_t next = 77, due;
	uint32_t log[3];

	RUN(&c, g_wait, 0);
	cr_assert(c.run[0].u.hlt.waits);
	due = c.run[0].u.hlt.deadline;
	cr_assert(due > 1000 + 999000 && due <= 1000 + 1000000, "%llu", (unsigned long long)due);
	/* Too early: nothing, and the same deadline again. */
	c.time = due - 1;
	cr_assert_eq(o->expire(c.b.vm, &next), 0);
	cr_assert_eq(next, due);
	cr_assert_eq(c.woken[0], 0);
	c.time = due + 500;
	cr_assert_eq(o->expire(c.b.vm, &next), 0);
	cr_assert_eq(next, 0);
	cr_assert_eq(c.woken[0], 1);
	/* Nobody runs it yet: the VM goes on waiting. */
	c.time += 700000;
	run(&c, 0, 1);
	/* From now on its clock stands still when it could run and is not let run. */
	c.time += 1000000000;
	to_hlt(&c, 0, 0);
	memcpy(log, c.b.ram + LOG(0), sizeof(log));
	cr_assert_eq(log[0], 0x43);
	cr_assert_eq(log[1], 1);
	cr_assert(log[2] > 1700000 + 500 && log[2] < 1702000, "%u", log[2]);
	/* Interrupts are off, and there is no source of an NMI. */
	cr_assert_not(c.run[0].u.hlt.waits);
}

/* The clock keeps the time for which all vCPUs have slept when another one is created. */
Test(emu_chip_time, created_while_all_sleep)
{
	struct vmm_engine_vcpu *other;
	uint64_t slept;

	RUN(&c, g_wait, 0);
	slept = emu_chip_base(((struct emu_vm *)c.b.vm)->chip);
	c.time += 5000;
	cr_assert_eq(o->vcpu_create(c.b.vm, 1, &other), 0);
	cr_assert_eq(emu_chip_base(((struct emu_vm *)c.b.vm)->chip), slept + 5000);
	o->vcpu_destroy(other);
}

/* PAUSE in a loop gives way after as many as the caller says, and only where there are others. */
BED_GUEST(g_spin, "1: pause\njmp 1b\n");

Test(emu_chip_time, pauses)
{
	for (unsigned int nr = 1; nr <= 2; nr++) {
		start(&c, nr);
		PUT(&c, nr - 1, g_spin);
		c.run[nr - 1].pauses = 10;
		if (nr == 1) {
			cr_assert_eq(run(&c, 0, 10000), VMM_EXIT_BUDGET);
		} else {
			/* In two pieces, as at a safe point: four of them in the first. */
			cr_assert_eq(run(&c, 1, 8), VMM_EXIT_BUDGET);
			cr_assert_eq(c.run[1].pauses, 6);
			cr_assert_eq(run(&c, 1, 10000), VMM_EXIT_YIELD);
			cr_assert_eq(c.run[1].retired, 11);
			cr_assert_eq(c.run[1].pauses, 0);
			/* No limit. */
			cr_assert_eq(run(&c, 1, 10000), VMM_EXIT_BUDGET);
			cr_assert_eq(c.run[1].retired, 10000);
		}
	}
}

/* A vCPU that sleeps is woken by the one that runs, exactly at its time. */
BED_GUEST(g_nap,
	  XENABLE XW(0x320, 0x43)
		  XW(0x3e0, 0xb) "sti\n" XW(0x380,
					    5000) "hlt\n"
						  "rdtsc\nmov %eax,(%rdi)\nadd $4,%rdi\nhlt\n");
BED_GUEST(g_busy, "mov $100000,%ecx\n1: dec %ecx\njnz 1b\nhlt\n");

Test(emu_chip_time, clock_of_several)
{
	uint32_t log[2], first = 0;

	for (uint64_t budget = 100; budget < 3000; budget += 531) {
		uint64_t before;

		start(&c, 2);
		PUT(&c, 0, g_nap);
		PUT(&c, 1, g_busy);
		to_hlt(&c, 0, 0);
		cr_assert(c.run[0].u.hlt.waits);
		cr_assert_eq(c.run[0].u.hlt.deadline, 0, "vCPU 1 looks at it");
		before = c.t[0].ev[VPMU_EMU_OS][VPMU_EMU_CYCLES];
		while (!c.woken[0]) {
			cr_assert_lt(c.t[1].ev[VPMU_EMU_OS][VPMU_EMU_CYCLES], 5100);
			run(&c, 1, budget);
		}
		to_hlt(&c, 0, 0);
		memcpy(log, c.b.ram + LOG(0), sizeof(log));
		cr_assert_eq(log[0], 0x43);
		/* Not before its time, and no later than vCPU 1 was when it was let run. */
		cr_assert_geq(log[1], before + 4980);
		if (!first)
			first = log[1];
		cr_assert(log[1] < first + 6000);
	}
}

/* RDTSC never goes back over all vCPUs, in any order of slices. */
BED_GUEST(g_tsc, "mov $0x300800,%esi\n1: mov (%rsi),%rbx\nrdtsc\nshl $32,%rdx\nor %rdx,%rax\n"
		 "cmp %rax,%rbx\nja 2f\nmov %rax,(%rsi)\njmp 1b\n2: cli\nhlt\n");

Test(emu_chip_time, tsc_is_one)
{
	start(&c, 3);
	for (unsigned int i = 0; i < 3; i++)
		PUT(&c, i, g_tsc);
	for (unsigned int n = 0; n < 2000; n++)
		cr_assert_eq(run(&c, n * 7 % 3, 1 + n % 97), VMM_EXIT_BUDGET, "a TSC went back");
	/* Another vCPU, which runs at the same time, is ahead. */
	for (unsigned int i = 0; i < 3; i++) {
		struct emu_vcpu *v = (struct emu_vcpu *)c.v[i];
		uint64_t ahead = emu_chip_now(v, 0) + 1000000;

		atomic_store(&v->chip->now, ahead);
		cr_assert_eq(emu_chip_now(v, 7), ahead);
		cr_assert_eq(emu_chip_now(v, 8), ahead + 1);
		cr_assert_eq(atomic_load(&v->chip->now), ahead + 1);
	}
}
