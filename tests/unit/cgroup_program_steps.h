/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random histories of the host for test_cgroup_program: each step acts on the kernel, on the
 * daemon, or on both, on the program and on the model. */
#ifndef TESTS_UNIT_CGROUP_PROGRAM_STEPS_H
#define TESTS_UNIT_CGROUP_PROGRAM_STEPS_H

#include "cgroup_program_model.h"

static __u64 rnd_state;

static __u64 rnd(__u64 n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % n;
}

static void is_true(unsigned int cpu, unsigned int slot, __u64 more)
{
	__u32 a = model_account(current[cpu] < 0 ? &idle[cpu].t : &task[current[cpu]].t);

	if (event[cpu][slot].there && account_map[a].mask >> slot & 1)
		truth[a][slot] += more;
}

static void pass_time(void)
{
	__u64 ns = 2 + rnd(rnd(20) ? 100000 : 300000000), more;

	mono += ns;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (!event[cpu][i].there)
				continue;
			if ((int)i == pre)
				continue;
			more = (int)i == sw || !rnd(4) ? 0 : rnd(1000);
			is_true(cpu, i, more);
			event[cpu][i].count += more;
			event[cpu][i].e.count.a.a.counter = (__s64)event[cpu][i].count;
			event[cpu][i].enabled += ns;
			event[cpu][i].running += rnd(2) ? ns : ns / 2;
		}
}

/* The kinds of the program must do the same. */
#define KINDS 3
static int (*const program[KINDS])(unsigned long long *ctx) = {on_switch, on_switch_cast,
							       on_switch_any};

/* The CPU is notified that its task was moved. */
static void call_on_move(void)
{
	static int (*const on[KINDS])(void *ctx) = {on_move, on_move_probe, on_move_any};

	on[seed % KINDS](NULL);
}

static void run_move(unsigned int cpu)
{
	struct task_struct *t;

	here = cpu;
	t = bpf_get_current_task_btf();
	call_on_move();
	model_switch(cpu, t, t, MOVES);
}

/* The task that runs on @cpu has moved @t. */
static void run_attach(unsigned int cpu, int t, bool group)
{
	static int (*const on[KINDS])(unsigned long long *ctx) = {on_attach, on_attach,
								  on_attach_any};
	const int to = cset_cgroup[task[t].t.cgroups - cset];
	unsigned long long ctx[4] = {(unsigned long long)&cgroup[to].cg, 0,
				     (unsigned long long)&task[t].t, group};
	struct task_struct *ours;
	__u32 a = KP_OTHER, its = task[t].t.thread_info.cpu;

	here = cpu;
	ours = bpf_get_current_task_btf();
	on[seed % KINDS](ctx);
	if (model[cpu].cset != ours->cgroups)
		model_switch(cpu, ours, ours, MOVES);
	for (int c = to; c >= 0; c = cgroup[c].parent)
		if (cgroup[c].bound) {
			a = cgroup[c].bound;
			break;
		}
	if (group && task[t].t.signal->nr_threads > 1) {
		model_misses(a);
	} else if (current[cpu] != t && task[t].t.on_cpu) {
		model_misses(a);
		model_misses(model[its].account);
		model[cpu].blind += model[its].nr != rq[its].nr_switches;
	}
}

static int ask_flush(unsigned long long arg)
{
	unsigned long long ctx[4] = {arg};
	int ret;

	flushes++;
	ret = seed % KINDS < 2 ? flush_cpu(ctx) : flush_cpu_any(ctx);
	flushes--;
	cr_assert_eq(holds, can_hold ? flushes : 0);
	return ret;
}

static void call_flush(unsigned long long arg)
{
	cr_assert_eq(ask_flush(arg), 0);
}

/* KVM_RUN returns to user space on @cpu. */
static void run_exit(unsigned int cpu)
{
	struct task_struct *t;
	bool due = model[cpu].paged || model[cpu].nr != rq[cpu].nr_switches;

	here = cpu;
	t = bpf_get_current_task_btf();
	ask_in_exit = rnd(4) == 0;
	call_flush(rnd(40));
	ask_in_exit = false;
	exits += due;
	if (due)
		model_switch(cpu, t, t, FLUSHES);
}

/* A CPU that requests a flush of itself can be notified before it. */
static void run_flush(unsigned int cpu)
{
	struct task_struct *t;
	struct css_set *to;

	here = cpu;
	t = bpf_get_current_task_btf();
	move_in_flush = current[cpu] >= 0 && rnd(4) == 0 ? &cset[rnd(CSETS)] : NULL;
	to = move_in_flush;
	move_from = t->cgroups;
	call_flush(KP_FLUSH_ASKED);
	if (!to || move_in_flush) {
		move_in_flush = NULL;
		model_switch(cpu, t, t, FLUSHES);
		return;
	}
	moved_in_flush++;
	t->cgroups = move_from;
	model_switch(cpu, t, t, FLUSHES);
	t->cgroups = to;
	model[cpu].cset = NULL;
}

static bool runs(int t)
{
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		if (current[cpu] == t)
			return true;
	return false;
}

static void run_switch(unsigned int cpu, int t)
{
	struct task_struct *prev, *next;
	unsigned long long ctx[4];
	__u32 from, to;
	bool preempted;

	here = cpu;
	if (t == current[cpu] || (t >= 0 && runs(t)))
		return;
	prev = bpf_get_current_task_btf();
	if (sw >= 0)
		is_true(cpu, (unsigned int)sw, 1);
	current[cpu] = t;
	next = bpf_get_current_task_btf();
	next->thread_info.cpu = cpu;
	next->se.cfs_rq = &cfs[cpu];
	prev->on_cpu = 0;
	next->on_cpu = 1;
	ctx[0] = !rnd(3);
	ctx[3] = rnd(3) ? 0 : rnd(256);
	cfs[cpu].throttle_count = !rnd(6);
	preempted = (ctx[0] || !ctx[3]) && !cfs[cpu].throttle_count && prev->pid && next->pid;
	from = model_account(prev);
	to = model_account(next);
	if (pre >= 0 && preempted && event[cpu][pre].there && account_map[from].mask >> pre & 1 &&
	    account_map[from].tenant != account_map[to].tenant)
		truth[from][pre]++;
	rq[cpu].nr_switches++;
	if (sw >= 0 && event[cpu][sw].there)
		event[cpu][sw].count = rq[cpu].nr_switches;
	if (!rnd(hides)) { /* the kernel does not show this one */
		hidden++;
		return;
	}
	rq[cpu].clock = mono - ahead[cpu];
	ctx[1] = (unsigned long long)prev;
	ctx[2] = (unsigned long long)next;
	program[seed % KINDS](ctx);
	if (!rnd(10)) /* a former process's program is attached, too */
		program[seed % KINDS](ctx);
	model_switch(cpu, prev, next, preempted ? PREEMPTIONS : SWITCHES);
}

/* @t was moved. The CPU is notified a little later, if moves are shown and if @t still runs there.
 */
static void tell_of_move(int t)
{
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		if (current[cpu] != t || !cfg.moves || !is_told(task[t].t.cgroups))
			continue;
		pass_time();
		if (rnd(8) == 0)
			run_flush(cpu);
		pass_time();
		if (rnd(8) == 0)
			run_switch(cpu, -1);
		else
			run_move(cpu);
	}
}

/* The daemon: what has changed takes effect with the generation. */
static void changed(void)
{
	cfg.gen++;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		state(cpu)->want = cfg.gen;
		state(cpu)->until_ns = 0;
	}
}

static __u32 some_account(void)
{
	return KP_OTHER + (__u32)rnd(rnd(4) ? 8 : ACCOUNTS - KP_OTHER);
}

static __u64 some_mask(void)
{
	static const __u64 usual[] = {0, 1, 3, 7, 15, 15, 15, 0xff, 0xfff};

	return rnd(3) ? usual[rnd(9)] : rnd(1 << SLOTS);
}

/* The keys of a mask have events; a mask has a key only after all CPUs know its events. */
static void set_masks(void)
{
	__u64 same = some_mask(), root = rnd(3) ? 0 : some_mask();

	same |= root; /* counts of the root are counts of all */
	account_map[KP_ROOT].mask = root;
	for (__u32 a = KP_OTHER; a < ACCOUNTS; a++)
		account_map[a].mask = rnd(8) ? same : root | (rnd(2) ? 0 : some_mask());
	cfg.usual = 1 + (__u32)rnd(4);
	if (rnd(4) && same && !(same & (same + 1)) && same < 16)
		cfg.usual = (__u32)__builtin_popcountll(same);
}

/* As bpf_backend_totals_open and bpf_backend_totals_close. A CPU that is not interrupted notices at
 * its next switch. */
static void turn_totals(void)
{
	__u32 i = (__u32)rnd(TOTALS), a = KP_OTHER + 1 + i;

	account_map[a].totals = account_map[a].totals ? 0 : i + 1;
	account_map[a].shown = rnd(4) ? ~0ull : rnd(~0ull);
	totals_map[i] = want_page[i] = (struct vpmu_totals){0};
	changed();
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		if (rnd(2))
			run_flush(cpu);
}

static void new_event(unsigned int cpu, unsigned int i)
{
	bool same_key = event[cpu][i].there && rnd(2) && (int)i != sw && (int)i != pre;

	state(cpu)->final[i] = same_key ? event[cpu][i].count : KP_NONE;
	if (same_key) /* the end of the former event is part of the key's count */
		ended[cpu][i] += event[cpu][i].count;
	else
		ended[cpu][i] += model[cpu].snap[i];
	state(cpu)->where[i] = 0;
	memset(&event[cpu][i], 0, sizeof(event[cpu][i]));
	event[cpu][i].entry.event = &event[cpu][i].e;
	event[cpu][i].there = 1;
	if ((int)i == sw)
		event[cpu][i].count = rq[cpu].nr_switches;
	if ((int)i == pre)
		event[cpu][i].count = model[cpu].preempted;
	state(cpu)->opened[i]++;
}

static int new_events(void)
{
	unsigned int i = (unsigned int)rnd(SLOTS);

	if (rnd(3))
		cfg.timed &= ~(1ULL << i);
	else
		cfg.timed |= 1ULL << i;
	if (rnd(2) && !(cfg.timed >> i & 1))
		cfg.memory |= 1ULL << i;
	else
		cfg.memory &= ~(1ULL << i);
	if ((int)i == sw || (int)i == pre) {
		cfg.timed &= ~(1ULL << i);
		cfg.memory &= ~(1ULL << i);
	}
	cfg.since_ns = mono;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		if (rnd(10) || event[cpu][i].there) {
			/* As hotplug_renew. */
			if (state(cpu)->seen[i] != state(cpu)->opened[i])
				run_flush(cpu);
			new_event(cpu, i);
		}
	return (int)i;
}

static void end_cgroup(unsigned int c)
{
	serials += 1 + rnd(400); /* so that some share a place in the cache */
	cgroup[c].cg.self.serial_nr = serials;
	cgroup[c].kn.id = ++ids << 8;
	cgroup[c].bound = 0;
}

static void bind_task(unsigned int t)
{
	__u32 bit = kp_task_bit((__u32)task[t].t.pid);

	cfg.tasks -= task[t].bound != 0;
	task_bits[bit / 64] &= ~(1ULL << (bit % 64));
	task[t].bound = rnd(2) ? some_account() : 0;
	/* Sometimes for another task of that number. */
	task[t].start = task[t].t.start_boottime / NS_PER_TICK + !rnd(4);
	cfg.tasks += task[t].bound != 0;
	for (unsigned int i = 0; i < TASKS; i++)
		if (task[i].bound) {
			bit = kp_task_bit((__u32)task[i].t.pid);
			task_bits[bit / 64] |= 1ULL << (bit % 64);
		}
}

static void step(void)
{
	unsigned int cpu = (unsigned int)rnd(CPUS), t = (unsigned int)rnd(TASKS), c;
	bool bound;
	int slot;

	pass_time();
	steps_done++;
	switch (rnd(40)) {
	case 0:
		set_masks();
		changed();
		break;
	case 1:
		c = 1 + (unsigned int)rnd(CGROUPS - 1);
		cgroup[c].bound = rnd(4) ? some_account() : 0;
		changed();
		break;
	case 2: /* an empty cgroup ends, and another one is in its memory */
		c = 1 + (unsigned int)rnd(CGROUPS - 1);
		for (t = 0; t < TASKS; t++)
			if (cset_cgroup[task[t].t.cgroups - cset] == (int)c)
				return;
		for (t = c + 1; t < CGROUPS; t++)
			if (cgroup[t].parent == (int)c)
				return;
		for (t = 0; t < CPUS; t++)
			if (model[t].cset && cset_cgroup[model[t].cset - cset] == (int)c)
				return;
		if (cgroup[c].bound) {
			cgroup[c].bound = 0;
			changed();
		}
		end_cgroup(c);
		break;
	case 3:
	case 4: /* moves, maybe while it runs */
		task[t].t.cgroups = &cset[rnd(CSETS)];
		tell_of_move((int)t);
		if (!cfg.moves && rnd(2))
			run_attach(rnd(2) && task[t].t.on_cpu ? task[t].t.thread_info.cpu : cpu,
				   (int)t, rnd(2));
		break;
	case 5:
		slot = new_events();
		if (rnd(2))
			pass_time();
		changed();
		/* A CPU that is not interrupted takes it up at its next switch. */
		for (unsigned int i = 0; i < CPUS; i++)
			if ((slot != sw && slot != pre) || rnd(2))
				run_flush(i);
		break;
	case 6:
		bound = cfg.tasks != 0;
		bind_task(t);
		changed();
		for (unsigned int i = 0; !bound && i < CPUS; i++) /* as bind() */
			run_flush(i);
		break;
	case 7: /* a task ends, and another one is in its memory and maybe has its number */
		if (runs((int)t))
			break;
		run_switch(cpu, (int)t);
		pass_time(); /* no CPU switches twice in one ns */
		run_switch(cpu, -1);
		task[t].t.start_boottime = mono;
		pass_time();
		run_switch(cpu, (int)t);
		break;
	case 8:
		state(cpu)->cells_max = state(cpu)->cells + (__u32)rnd(4);
		break;
	case 9:
		state(cpu)->cells_max = KP_NEAR + NR_PAGES * KP_PAGE_CELLS;
		break;
	case 10:
		run_flush(cpu);
		if (rnd(4) == 0) /* in the same ns */
			run_flush(cpu);
		break;
	case 12: /* as moves_look */
		if (rnd(4))
			break;
		if (!cfg.moves)
			changed();
		cfg.moves = cfg.moves ? 0 : cfg.gen;
		break;
	case 13:
		if (seed % 4)
			turn_totals();
		break;
	case 14:
	case 15:
		run_exit(cpu);
		break;
	case 11: /* a timer tick */
		rq[cpu].clock = mono - ahead[cpu];
		break;
	default:
		run_switch(cpu, rnd(5) ? (int)t : -1);
	}
}

#endif
