// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Alarms: run() stops right behind the instruction that makes one due. Truth is the same program
 * run one instruction at a time, with the tallies read after each.
 */
#include "emu_prog.h"

TestSuite(emu_alarm, .fini = bed_end);

/* Index of the first step at which @a is due. */
static size_t due_at(size_t n, const struct vpmu_emu_alarm *a)
{
	for (size_t i = 0; i <= n; i++) {
		uint64_t sum = 0;

		for (int m = 0; m < 2; m++)
			sum += a->modes & (1 << m) ? steps[i].ev[m][a->event] : 0;
		if (sum >= a->at)
			return i;
	}
	return SIZE_MAX;
}

static void arm(struct vpmu_emu_tally *t, unsigned int i, unsigned int event, unsigned int modes,
		uint64_t left)
{
	struct vpmu_emu_alarm *a = &t->alarm[i];

	*a = (struct vpmu_emu_alarm){.event = (uint8_t)event, .modes = (uint8_t)modes};
	for (int m = 0; m < VPMU_EMU_MODES; m++)
		a->at += modes & (1u << m) ? t->ev[m][event] : 0;
	a->at += left;
	t->armed |= 1u << i;
}

static uint64_t distance(uint64_t *rng)
{
	uint64_t r = random_split(rng);

	return 1 + (r >> 8) % (r & 1 ? 20 : r & 2 ? 300 : 5000);
}

/* Run program @seed with up to three alarms that are armed again when they fired, and random
 * budgets; every stop must be as in the trace. */
static void check_program(uint64_t seed)
{
	size_t n = prog_trace(seed), at = 0;
	unsigned int nr = 1 + seed % 3;
	uint64_t rng = seed * 31;
	struct bed b;

	prog_start(&b, seed);
	for (unsigned int i = 0; i < nr; i++)
		arm(&b.t, i * 7, (unsigned int)(random_split(&rng) % VPMU_EMU_EVENTS),
		    (unsigned int)(1 + random_split(&rng) % 7), distance(&rng));
	for (;;) {
		uint64_t budget = random_split(&rng) % 4 ? 1000000 : 1 + random_split(&rng) % 50;
		size_t want = SIZE_MAX;
		enum vmm_exit x;

		for (unsigned int i = 0; i < nr; i++) {
			size_t d = due_at(n, &b.t.alarm[i * 7]);

			want = d < want ? d : want;
		}
		x = bed_run(&b, budget);
		at += b.run.retired;
		cr_assert(at <= n, "seed %lu: ran past the end", seed);
		cr_assert_eq(b.r.rip, steps[at].rip, "seed %lu, instruction %zu: rip", seed, at);
		cr_assert(!memcmp(b.t.ev, steps[at].ev, sizeof(steps[at].ev)),
			  "seed %lu, instruction %zu: tallies", seed, at);
		cr_assert(at <= want, "seed %lu: alarm due at %zu, stopped at %zu (exit %d)", seed,
			  want, at, x);
		cr_assert(x != VMM_EXIT_ALARM || at == want,
			  "seed %lu: alarm due at %zu, told at %zu", seed, want, at);
		if (x == VMM_EXIT_HLT)
			break;
		if (x == VMM_EXIT_ALARM) {
			/* Not answered: nothing runs. */
			BED_STOPS(&b, 1000, VMM_EXIT_ALARM, 0, steps[at].rip);
			for (unsigned int i = 0; i < nr; i++)
				if (!vpmu_emu_alarm_left(&b.t, &b.t.alarm[i * 7]))
					arm(&b.t, i * 7, b.t.alarm[i * 7].event,
					    b.t.alarm[i * 7].modes, distance(&rng));
		} else if (x == VMM_EXIT_BUDGET) {
			cr_assert_eq(b.run.retired, budget);
			cr_assert_neq(at, want, "seed %lu: the alarm comes first", seed);
		} else {
			prog_answer(&b);
		}
	}
	cr_assert_eq(at, n);
	bed_stop(&b);
}

Test(emu_alarm, stops_where_stepping_says)
{
	for (uint64_t seed = 1; seed <= 400; seed++)
		check_program(seed);
}

/* Every event, every distance, on one program: nothing is left to chance. */
Test(emu_alarm, every_distance)
{
	uint64_t seed = 7;
	size_t n;

	do
		n = prog_trace(++seed);
	while (n < 300 || n > 800);
	for (unsigned int ev = 0; ev < VPMU_EMU_EVENTS; ev++)
		for (unsigned int modes = 1; modes <= 3; modes++) {
			uint64_t all = 0;

			for (int m = 0; m < 2; m++)
				all += modes & (1u << m) ? steps[n].ev[m][ev] : 0;
			for (uint64_t left = 1; left <= all; left++) {
				size_t at = 0, want;

				prog_start(&b, seed);
				arm(&b.t, 3, ev, modes, left);
				want = due_at(n, &b.t.alarm[3]);
				for (;;) {
					enum vmm_exit x = bed_run(&b, 0);

					at += b.run.retired;
					if (x == VMM_EXIT_ALARM)
						break;
					prog_answer(&b);
				}
				cr_assert_eq(at, want, "event %u, modes %u, distance %lu", ev,
					     modes, left);
				cr_assert_eq(b.r.rip, steps[at].rip);
			}
		}
}

BED_GUEST(g_long, "mov $100000000,%ecx\n 1: add (%rdi),%rax\n dec %rcx\n jnz 1b\n hlt");

/* Long distances: through many chunks, and no more than a few stops of the dispatch loop each. */
Test(emu_alarm, far_away)
{
	uint64_t rng = 1;

	BED_START(&b, g_long, false);
	for (unsigned int ev = 0; ev < VPMU_EMU_EVENTS; ev++) {
		if (ev == VPMU_EMU_STORES)
			continue;
		for (int i = 0; i < 20; i++) {
			uint64_t left = 1 + random_split(&rng) % 300000, before;

			before = bed_total(&b.t, ev);
			arm(&b.t, 0, ev, 1, left);
			cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ALARM);
			/* The event's own instruction adds at most 2 cycles too many. */
			cr_assert_geq(bed_total(&b.t, ev) - before, left);
			cr_assert_leq(bed_total(&b.t, ev) - before,
				      left + (ev == VPMU_EMU_CYCLES || ev == VPMU_EMU_REF_CYCLES
						      ? 2
						      : 0));
		}
	}
}

BED_GUEST(g_rep, "mov $300,%ecx\n cld\n rep stosb\n nop\n nop\n hlt");

/* A repeated string instruction may make more cycles than are left: the stop is behind it. */
Test(emu_alarm, behind_a_repeated_string)
{
	BED_START(&b, g_rep, false);
	arm(&b.t, 0, VPMU_EMU_CYCLES, 1, 10);
	BED_STOPS(&b, 0, VMM_EXIT_ALARM, 3, BED_CODE + 8);
	cr_assert_eq(b.r.rcx, 0);
}

BED_GUEST(g_io, "mov $5,%eax\n out %eax,$0x10\n nop\n nop\n hlt");

/* The instruction of an exit retires when it is answered; an alarm comes right behind it, one that
 * was set since, too. */
Test(emu_alarm, behind_an_answered_exit)
{
	BED_START(&b, g_io, false);
	arm(&b.t, 0, VPMU_EMU_INSTRUCTIONS, 1, 2);
	BED_STOPS(&b, 0, VMM_EXIT_IO, 1, BED_CODE + 5);
	BED_STOPS(&b, 0, VMM_EXIT_ALARM, 1, BED_CODE + 7);
	b.t.armed = 0;
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	bed_load(&b, g_io, g_io_end, false);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_IO);
	arm(&b.t, 0, VPMU_EMU_INSTRUCTIONS, 1, 1);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ALARM);
	cr_assert_eq(b.run.retired, 1);
}

BED_GUEST(g_idle, "sti\n nop\n hlt\n nop\n hlt");

/* HLT and an alarm at once: first the alarm, then, if nothing woke it, the HLT. */
Test(emu_alarm, halt)
{
	BED_START(&b, g_idle, false);
	arm(&b.t, 0, VPMU_EMU_INSTRUCTIONS, 1, 3);
	BED_STOPS(&b, 0, VMM_EXIT_ALARM, 3, BED_CODE + 3);
	b.t.armed = 0;
	BED_STOPS(&b, 0, VMM_EXIT_HLT, 0, BED_CODE + 3);
	/* The same, but the alarm's interrupt wakes it: the handler's HLT is the next. */
	bed_load(&b, g_idle, g_idle_end, false);
	arm(&b.t, 0, VPMU_EMU_INSTRUCTIONS, 1, 3);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ALARM);
	b.t.armed = 0;
	o->interrupt(b.v, 0x40);
	cr_assert_eq(bed_run_to_hlt(&b), 0x40);
	cr_assert_eq(b.run.retired, 1);
	cr_assert_eq(bed_stack(&b, 0), BED_CODE + 3, "it returns behind the HLT");
}

/* An alarm that is due comes before interrupts, kicks and the budget. */
Test(emu_alarm, before_everything)
{
	BED_START(&b, g_idle, false);
	cr_assert_eq(bed_run(&b, 2), VMM_EXIT_BUDGET);
	arm(&b.t, 0, VPMU_EMU_INSTRUCTIONS, 1, 0);
	o->interrupt(b.v, 0x40);
	o->kick(b.v);
	BED_STOPS(&b, 0, VMM_EXIT_ALARM, 0, BED_CODE + 2);
	b.t.armed = 0;
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_INTR, "the kick was not lost");
	cr_assert_eq(bed_run_to_hlt(&b), 0x40);
}

/* Modes that do not run now cost nothing: kernel code does not count towards a user alarm. */
Test(emu_alarm, other_mode)
{
	BED_START(&b, g_long, false);
	arm(&b.t, 0, VPMU_EMU_INSTRUCTIONS, 1 << VPMU_EMU_USR | 1 << VPMU_EMU_HOST, 1);
	cr_assert_eq(bed_run(&b, 100000), VMM_EXIT_BUDGET);
	vpmu_emu_add(&b.t, VPMU_EMU_HOST, VPMU_EMU_INSTRUCTIONS, 1);
	cr_assert_eq(bed_run(&b, 100000), VMM_EXIT_ALARM);
	cr_assert_eq(b.run.retired, 0);
}

BED_GUEST(g_dense, "mov $40,%ecx\n mov $3,%ebx\n 1: dec %ecx\n jnz 1b\n xor %edx,%edx\n"
		   ".rept 25\n div %ebx\n .endr\n mov $40,%ecx\n 2: dec %ecx\n jnz 2b\n"
		   ".rept 25\n lock xadd %rax,(%rdi)\n .endr\n hlt");

/* Code of more cycles per instruction than any before is met in the middle of a chunk. */
Test(emu_alarm, denser_code_on_the_way)
{
	static uint64_t sum[400], rip[400];
	size_t n = 0;

	BED_START(&b, g_dense, false);
	while (bed_run(&b, 1) == VMM_EXIT_BUDGET && n < 399) {
		sum[++n] = bed_total(&b.t, VPMU_EMU_CYCLES);
		rip[n] = b.r.rip;
	}
	for (uint64_t left = 1; left <= sum[n]; left++) {
		size_t want = 1;

		while (sum[want] < left)
			want++;
		BED_START(&b, g_dense, false);
		arm(&b.t, 0, VPMU_EMU_CYCLES, 1, left);
		cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ALARM);
		cr_assert_eq(b.run.retired, want, "distance %lu: %lu instead of %zu", left,
			     b.run.retired, want);
		cr_assert_eq(b.r.rip, rip[want]);
	}
}
