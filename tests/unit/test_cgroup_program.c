// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF program of the BPF backend, compiled for user space, on random histories of a host: what
 * it charges is compared with a plain model, which remembers no cgroup, no cell and no short way.
 * The test is the kernel (tasks, cgroups, events, clocks, maps) and the daemon.
 *
 *   VPMU_SEED=N        the first history (a failure prints its own)
 *   VPMU_HISTORIES=N   how many; 2,000
 */
#include <criterion/criterion.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup_program_kernel.h"
#include "cgroup_program_model.h"
#include "cgroup_program_steps.h"

/* ---- comparing ---------------------------------------------------------------------------- */

static const struct kp_cell *charged_cell(unsigned int cpu, __u32 a, unsigned int chunk)
{
	__u32 nr = index_map[chunk][cpu][a];

	if (!nr)
		return NULL;
	return nr <= KP_NEAR ? &state(cpu)->near_cell[nr]
			     : &cell_map[cpu][kp_cell_page(0, nr)][kp_cell_at(nr)];
}

static void compare(void)
{
	__u64 got[SLOTS], lost[SLOTS], ns[SLOTS / KP_CHUNK], sum[CPUS][SLOTS] = {{0}};
	const struct kp_cell *cell;

	for (__u32 a = 0; a < ACCOUNTS; a++) {
		memset(got, 0, sizeof(got));
		memset(lost, 0, sizeof(lost));
		memset(ns, 0, sizeof(ns));
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			for (unsigned int i = 0; i < SLOTS; i++) {
				cell = charged_cell(cpu, a, i / KP_CHUNK);
				if (!cell)
					continue;
				got[i] += cell->row[i % KP_CHUNK].total;
				lost[i] += cell->row[i % KP_CHUNK].lost;
				sum[cpu][i] += cell->row[i % KP_CHUNK].total;
				if (i % KP_CHUNK == 0)
					ns[i / KP_CHUNK] += cell->time_ns;
			}
		exhausted += account_map[a].lacks;
		if (account_map[a].missed != want_missed[a])
			cr_assert_fail("seed %llu: account %u: %u switches missed, not %u", seed, a,
				       account_map[a].missed, want_missed[a]);
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (account_map[a].lacks ? got[i] > want_total[a][i]
						 : got[i] != want_total[a][i])
				cr_assert_fail("seed %llu: account %u, slot %u: %llu, not %llu",
					       seed, a, i, got[i], want_total[a][i]);
			if (!account_map[a].lacks && lost[i] != want_lost[a][i])
				cr_assert_fail("seed %llu: account %u, slot %u: %llu ns lost, not "
					       "%llu",
					       seed, a, i, lost[i], want_lost[a][i]);
		}
		for (unsigned int i = 0; i < SLOTS / KP_CHUNK; i++)
			if (!account_map[a].lacks && ns[i] != want_ns[a][i])
				cr_assert_fail("seed %llu: account %u, chunk %u: %llu ns, not %llu",
					       seed, a, i, ns[i], want_ns[a][i]);
	}
	for (unsigned int i = 0; i < TOTALS; i++) {
		const struct vpmu_totals *t = &totals_map[i], *want = &want_page[i];

		cr_assert(t->seq % 2 == 0, "seed %llu: page %u: sequence %llu", seed, i, t->seq);
		if (account_map[KP_OTHER + 1 + i].lacks)
			continue;
		if (t->time_ns != want->time_ns || t->gaps != want->gaps)
			cr_assert_fail("seed %llu: page %u: %llu ns and %llu gaps, not %llu and "
				       "%llu",
				       seed, i, t->time_ns, t->gaps, want->time_ns, want->gaps);
		for (unsigned int n = 0; n < SLOTS; n++)
			if (t->row[n].total != want->row[n].total ||
			    t->row[n].lost != want->row[n].lost)
				cr_assert_fail("seed %llu: page %u, slot %u: %llu, %llu ns lost; "
					       "not %llu, %llu",
					       seed, i, n, t->row[n].total, t->row[n].lost,
					       want->row[n].total, want->row[n].lost);
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			__u64 counted = state(cpu)->snap[i] + ended[cpu][i];

			sum[cpu][i] += kp_unclaimed(state(cpu), i);
			if (model[cpu].seen[i] != state(cpu)->opened[i]) /* not taken up */
				counted -= model[cpu].snap[i];
			if (sum[cpu][i] != counted || state(cpu)->snap[i] != model[cpu].snap[i])
				cr_assert_fail("seed %llu: CPU %u, slot %u: charged %llu of %llu",
					       seed, cpu, i, sum[cpu][i], counted);
		}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		cr_assert(kp_mask(state(cpu)) == model[cpu].mask &&
				  state(cpu)->at.account == model[cpu].account &&
				  state(cpu)->missed == model[cpu].missed &&
				  state(cpu)->moved == model[cpu].moved &&
				  state(cpu)->blind == model[cpu].blind &&
				  state(cpu)->done_ns == state(cpu)->last_ns,
			  "seed %llu: CPU %u is in account %u, not %u", seed, cpu,
			  state(cpu)->at.account, model[cpu].account);
}

static void begin(void)
{
	memset(cpu_map, 0, sizeof(cpu_map));
	memset(task_bits, 0, sizeof(task_bits));
	memset(account_map, 0, sizeof(account_map));
	memset(index_map, 0, sizeof(index_map));
	memset(cell_map, 0, sizeof(cell_map));
	memset(event, 0, sizeof(event));
	memset(model, 0, sizeof(model));
	memset(want_total, 0, sizeof(want_total));
	memset(want_lost, 0, sizeof(want_lost));
	memset(want_missed, 0, sizeof(want_missed));
	memset(totals_map, 0, sizeof(totals_map));
	memset(want_page, 0, sizeof(want_page));
	memset(want_ns, 0, sizeof(want_ns));
	memset(ended, 0, sizeof(ended));
	memset(task, 0, sizeof(task));
	memset(order, 0, sizeof(order));
	ordered = seed % 16 < KINDS;
	rnd_state = seed * 0x9e3779b97f4a7c15ULL + 1;
	cfg = (struct kp_cfg){.schema = KP_SCHEMA, .nr_cpus = CPUS, .usual = 1};
	mono = 1000000000 + rnd(1000000000);
	serials = 0;
	for (unsigned int c = 0; c < CGROUPS; c++) {
		end_cgroup(c);
		if (!c)
			cgroup[c].cg.self.serial_nr = 0; /* the root's */
		cgroup[c].parent = c ? (int)rnd(c) : -1;
		cgroup[c].cg.kn = &cgroup[c].kn;
		cgroup[c].cg.self.cgroup = &cgroup[c].cg;
		cgroup[c].cg.self.parent = c ? &cgroup[cgroup[c].parent].cg.self : NULL;
		if (c && rnd(2))
			cgroup[c].bound = some_account();
	}
	for (unsigned int i = 0; i < CSETS; i++) {
		cset_cgroup[i] = i < CGROUPS ? (int)i : (int)rnd(CGROUPS);
		cset[i].dfl_cgrp = &cgroup[cset_cgroup[i]].cg;
		/* Some are not distinguished from the root. */
		cset[i].subsys[perf_event_cgrp_id] =
			&cgroup[cset_cgroup[i] % 5 ? cset_cgroup[i] : 0].cg.self;
	}
	for (unsigned int t = 0; t < TASKS; t++) {
		task[t].t.pid = 100 + (int)t * (rnd(4) ? 1 : 512);
		task[t].t.start_boottime = rnd(mono);
		task[t].t.cgroups = &cset[rnd(CSETS)];
		task[t].t.se.cfs_rq = &cfs[0];
		task[t].t.signal = &process[rnd(2)];
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		current[cpu] = -1;
		ahead[cpu] = rnd(1000000);
		cfs[cpu].rq = &rq[cpu];
		rq[cpu].clock = mono - ahead[cpu] - rnd(1000000);
		rq[cpu].nr_switches = 1 + rnd(1000);
		idle[cpu].t.cgroups = &cset[0];
		idle[cpu].t.se.cfs_rq = &cfs[cpu];
		/* As backend_attach leaves it. */
		state(cpu)->gen = cfg.gen - 1;
		state(cpu)->usual = 1;
		state(cpu)->cells_max = KP_NEAR + NR_PAGES * KP_PAGE_CELLS;
		/* So that some cells are far ones. */
		state(cpu)->cells = rnd(2) ? 0 : KP_NEAR - (__u32)rnd(30);
		model[cpu].gen = cfg.gen - 1;
		model[cpu].nr = rq[cpu].nr_switches;
		model[cpu].last_ns = mono - 1; /* the program's times only grow */
	}
	can_hold = rnd(2);
	has_cast = seed % KINDS == 1 || (seed % KINDS == 2 && rnd(2));
	sw = rnd(3) ? (int)rnd(SLOTS) : -1;
	pre = rnd(2) ? (int)rnd(SLOTS) : -1;
	pre = pre == sw ? -1 : pre;
	for (__u32 a = 0; a < ACCOUNTS; a++)
		account_map[a].tenant = a % 5;
	for (unsigned int i = 0; i < SLOTS; i++)
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			if (i < 4 || rnd(10))
				new_event(cpu, i);
	cfg.switches = sw >= 0 ? 1ULL << sw : 0;
	cfg.preempts = pre >= 0 ? 1ULL << pre : 0;
	cfg.timed = rnd(2) ? 0 : rnd(1 << SLOTS) & ~cfg.switches & ~cfg.preempts;
	cfg.memory = rnd(1 << SLOTS) & ~cfg.timed & ~cfg.switches & ~cfg.preempts;
	cfg.since_ns = mono;
	changed();
	cfg.moves = rnd(3) ? cfg.gen : 0;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		run_flush(cpu);
	set_masks();
	changed();
}

Test(cgroup_program, charges_as_the_model)
{
	const char *first = getenv("VPMU_SEED"), *many = getenv("VPMU_HISTORIES");
	unsigned long long n = many ? strtoull(many, NULL, 0) : 2000;

	seed = first ? strtoull(first, NULL, 0) : 1;
	for (; n; n--, seed++) {
		begin();
		for (unsigned int i = 0; i < STEPS; i++) {
			step();
			if (i % 50 == 49)
				compare();
		}
		pass_time();
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		compare();
	}
	printf("# %llu steps; %llu times an account had lacked a cell; %llu switches hidden; "
	       "%llu times accounts were marked; %llu flushes interrupted; %llu "
	       "charges to pages, %llu exits, %llu of them interrupted; %llu preemptions\n",
	       steps_done, exhausted, hidden, marked, moved_in_flush, paged, exits, asked_in_exit,
	       preemptions);
	cr_assert(exhausted && hidden && marked && moved_in_flush);
	cr_assert_gt(preemptions, 1000);
	cr_assert(paged > 1000 && exits > 1000 && asked_in_exit);
}

/* ---- unmarked counts are right ------------------------------------------------------------ */

static void charged_rows(__u64 got[ACCOUNTS][SLOTS])
{
	const struct kp_cell *cell;

	for (__u32 a = 0; a < ACCOUNTS; a++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			got[a][i] = 0;
			for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
				cell = charged_cell(cpu, a, i / KP_CHUNK);
				got[a][i] += cell ? cell->row[i % KP_CHUNK].total : 0;
			}
		}
}

/* The kernel's view of moves. */
enum shows { ALL_MOVES, OWN_MOVES, NO_MOVES };

/* A move of a task, maybe while it runs. If no program sees moves, a second one before the next
 * look cannot be noticed, nor one of a task of which it is not known that it runs. */
static void move_truly(enum shows shows, bool by_others, bool *moved)
{
	unsigned int t = (unsigned int)rnd(TASKS), cpu = task[t].t.thread_info.cpu;
	bool runs = task[t].t.on_cpu;

	if (runs && shows == NO_MOVES &&
	    (moved[cpu] || (state(cpu)->nr & ~KP_BOUND) != rq[cpu].nr_switches + 1))
		return;
	task[t].t.cgroups = &cset[rnd(CSETS)];
	moved[cpu] |= runs;
	if (shows == ALL_MOVES && runs)
		run_move(cpu);
	if (shows != OWN_MOVES)
		return;
	if (runs && !by_others)
		run_attach(cpu, (int)t, false);
	else if (runs && rnd(4) == 0) /* it goes before the notification */
		run_switch(cpu, -1);
	if (by_others || !runs)
		run_attach(runs ? !cpu : cpu, (int)t, by_others && rnd(8) == 0);
}

static bool is_right(enum shows shows, bool by_others, unsigned int *exact, unsigned int *partial)
{
	static __u64 was[ACCOUNTS][SLOTS], got[ACCOUNTS][SLOTS];
	__u32 missed[ACCOUNTS], blind = 0;
	bool moved[CPUS] = {false};

	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		run_flush(cpu);
		blind -= state(cpu)->blind;
	}
	charged_rows(was);
	memset(truth, 0, sizeof(truth));
	for (__u32 a = 0; a < ACCOUNTS; a++)
		missed[a] = account_map[a].missed;
	for (unsigned int i = 0; i < STEPS; i++) {
		unsigned int cpu = (unsigned int)rnd(CPUS), usually = hides;

		pass_time();
		switch (rnd(20)) {
		case 0:
			here = cpu;
			call_flush(KP_FLUSH_ASKED);
			model_switch(cpu, bpf_get_current_task_btf(), bpf_get_current_task_btf(),
				     FLUSHES);
			moved[cpu] = false;
			break;
		case 1:
		case 2:
			move_truly(shows, by_others, moved);
			break;
		default:
			if (shows == NO_MOVES && moved[cpu])
				hides = 1U << 31;
			run_switch(cpu, rnd(5) ? (int)rnd(TASKS) : -1);
			moved[cpu] = false;
			hides = usually;
		}
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		run_flush(cpu);
		blind += state(cpu)->blind;
	}
	charged_rows(got);
	for (__u32 a = KP_OTHER; a < ACCOUNTS; a++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (account_map[a].missed != missed[a] || blind || account_map[a].lacks) {
				++*partial;
				continue;
			}
			*exact += truth[a][i] != 0;
			if (got[a][i] - was[a][i] == truth[a][i])
				continue;
			printf("# seed %llu: account %u, slot %u: %llu, and %llu is true\n", seed,
			       a, i, got[a][i] - was[a][i], truth[a][i]);
			return false;
		}
	return true;
}

/* Whatever switches and moves the kernel does not show: a row is what ran, or it is marked. If all
 * is shown no row is marked. */
Test(cgroup_program, a_row_that_is_not_marked_is_right)
{
	unsigned int exact = 0, partial = 0, few;

	for (seed = 1; seed < 1200; seed++) {
		const enum shows shows = seed / KINDS % 3;
		const bool hiding = seed / (3 * KINDS) % 2, by_others = seed / (6 * KINDS) % 2;

		begin();
		for (unsigned int t = 0; t < TASKS / 4 && rnd(2); t++)
			bind_task(t);
		for (unsigned int i = 0; i < CSETS; i++)
			cset[i].subsys[perf_event_cgrp_id] = &cset[i].dfl_cgrp->self;
		cfg.moves = shows == ALL_MOVES ? cfg.gen + 1 : 0;
		changed();
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		hides = hiding ? 10 + (unsigned int)rnd(200) : 1U << 31;
		few = partial;
		cr_assert(is_right(shows, by_others, &exact, &partial));
		if (!hiding && (shows == ALL_MOVES || (shows == OWN_MOVES && !by_others)))
			cr_assert_eq(partial, few, "seed %llu: all is shown, and rows are marked",
				     seed);
	}
	printf("# %u rows that were charged are right, %u are marked\n", exact, partial);
	cr_assert(exact > 1000 && partial > 1000);
}

/* Sums of all rows, and of all events, of the slots that the root counts. */
static void whole_counts(__u64 whole, __u64 charged[SLOTS], __u64 counted[SLOTS])
{
	static __u64 got[ACCOUNTS][SLOTS];

	charged_rows(got);
	for (unsigned int i = 0; i < SLOTS; i++) {
		charged[i] = counted[i] = 0;
		if (!(whole >> i & 1) || (int)i == sw || (int)i == pre)
			continue;
		for (__u32 a = 0; a < ACCOUNTS; a++)
			charged[i] += got[a][i];
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			counted[i] += event[cpu][i].there ? event[cpu][i].count : 0;
	}
}

/* The root's values are never marked for switches that the kernel does not show: they are whole,
 * also at the end of a session. Its keys go from the masks first, then each CPU is interrupted. */
Test(cgroup_program, what_the_root_counts_is_whole)
{
	unsigned int some = 0;

	for (seed = 1; seed < 1200; seed++) {
		__u64 charged[2][SLOTS], counted[2][SLOTS], whole;

		begin();
		whole = account_map[KP_ROOT].mask;
		if (!whole)
			continue;
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		whole_counts(whole, charged[0], counted[0]);
		hides = 2 + (unsigned int)rnd(10);
		for (unsigned int i = 0; i < STEPS; i++) {
			pass_time();
			run_switch((unsigned int)rnd(CPUS), rnd(5) ? (int)rnd(TASKS) : -1);
		}
		for (__u32 a = KP_ROOT; a < ACCOUNTS; a++)
			account_map[a].mask = 0;
		changed();
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		whole_counts(whole, charged[1], counted[1]);
		for (unsigned int i = 0; i < SLOTS; i++) {
			cr_assert_eq(charged[1][i] - charged[0][i], counted[1][i] - counted[0][i],
				     "seed %llu, slot %u: %llu of %llu", seed, i,
				     charged[1][i] - charged[0][i], counted[1][i] - counted[0][i]);
			some += charged[1][i] != charged[0][i];
		}
	}
	cr_assert_gt(some, 100);
}

/* The two clocks drift apart after the program has compared them, so that a flush is ahead of the
 * CPU's clock. */
Test(cgroup_program, time_goes_on_after_a_flush_that_was_ahead)
{
	const int cpu = 0;
	__u64 last;

	for (seed = 1; seed < 200; seed++) {
		begin();
		for (unsigned int i = 0; i < TASKS; i++) {
			pass_time();
			run_switch(cpu, (int)i);
		}
		mono += 1000;
		ahead[cpu] += 50000;
		run_flush(cpu);
		last = state(cpu)->last_ns;
		for (unsigned int i = 0; i < 2 * TASKS; i++) {
			mono += 5000;
			run_switch(cpu, (int)(i % TASKS));
			cr_assert(state(cpu)->last_ns >= last, "seed %llu: %llu ns back", seed,
				  last - state(cpu)->last_ns);
			last = state(cpu)->last_ns;
		}
	}
}
