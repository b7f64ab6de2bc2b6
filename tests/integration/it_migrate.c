// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A running VM that moves from one machine to another, again and again, against the same VM that
 * stays: its guest's output - its counts, its samples with their addresses, its branch records -
 * must be the same to the letter, and the counts of all machines' operators must add up to
 * the count of the one machine's operator. Machines are stepped on this thread, so a save can
 * be at any slice. VPMU_SEED=n replays one journey of each program (VPMU_LINE=n: of the one
 * in that line), VPMU_JOURNEYS=n sets how many there are (2).
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine_bed.h"
#include "vmm/emu/emu.h"
#include "tests/random.h"

#define EVENTS	  "instructions,branches,branches-taken:u,loads:k,stores,cycles:u"
#define NR_EVENTS 6

static uint64_t rng_state;

static uint64_t below(uint64_t n)
{
	return random_split(&rng_state) % n;
}

/* The rest of a VM that has ended: its console, by vCPU, and the operators' counts. */
struct outcome {
	char *text[4];
	uint64_t count[NR_EVENTS];
	unsigned int moves;
	/* cases that the saves met */
	unsigned int answers, overflows, pmis, counting, recording;
};

static void add_lines(struct outcome *o, const struct bed *b)
{
	for (size_t i = 0; i < b->nr_lines; i++) {
		const struct bed_line *l = &b->lines[i];
		char **t = &o->text[l->vcpu];
		size_t have = *t ? strlen(*t) : 0, len = strlen(l->text);

		*t = realloc(*t, have + len + 2);
		sprintf(*t + have, "%s\n", l->text);
	}
}

static void attach(struct bed *b)
{
	bed_do(b, "{'cmd':'tenant-add','path':'/acme'}");
	bed_do(b, "{'cmd':'attach','events':'%s','target':'/acme','name':'bill','keep':true}",
	       EVENTS);
}

static void add_counts(struct outcome *o, struct bed *b)
{
	json_t *resp = bed_ask(b, true, "{'cmd':'detach','session':'bill'}");
	json_t *row = json_array_get(json_object_get(resp, "rows"), 0), *value;
	size_t i;

	json_array_foreach (json_object_get(row, "values"), i, value) {
		const char *count = json_string_value(json_object_get(value, "count"));

		bed_must(count && i < NR_EVENTS, "detach: value %zu", i);
		o->count[i] += strtoull(count, NULL, 10);
	}
	json_decref(resp);
}

static void leave(struct outcome *o, struct bed *b)
{
	add_counts(o, b);
	add_lines(o, b);
	bed_close(b);
}

/* Returns true if the emulator has an interrupt or NMI that @v has not taken yet. */
static bool events_wait(const struct vcpu *v)
{
	const struct emu_vcpu *sv = (const struct emu_vcpu *)v->ev;

	return sv->intr_pending || sv->nmi_pending;
}

/* The unfinished work of the vCPUs of @vm, which is saved. */
static void note(struct outcome *o, const struct machine_vm *vm)
{
	for (unsigned int i = 0; i < vm->vcpus; i++) {
		const struct vcpu *v = &vm->vm->vcpus[i];
		struct vpmu_lbr_regs r;

		if (v->state != VCPU_READY)
			continue;
		o->answers += v->run.exit == VMM_EXIT_IO || v->run.exit == VMM_EXIT_RDMSR ||
			      v->run.exit == VMM_EXIT_WRMSR || v->run.exit == VMM_EXIT_RDPMC;
		o->overflows += v->guest->pmi;
		o->pmis += events_wait(v);
		for (unsigned int c = 0; c < VPMU_GUEST_MAX_CTRS; c++)
			o->counting += v->guest->ctr[c].sel && (v->guest->intr & (1u << c));
		o->recording += !vpmu_lbr_guest_get((struct vpmu_context *)&v->ctx, NULL, &r) &&
				(r.ctl & VPMU_LBR_EN);
	}
}

static char dir[] = "/tmp/vpmu-migrate-XXXXXX";

static const char *file(void)
{
	static char path[100];

	if (strstr(dir, "XXXXXX"))
		bed_must(mkdtemp(dir), "%s", dir);
	snprintf(path, sizeof(path), "%s/vm.snap", dir);
	return path;
}

static void save(struct bed *b)
{
	json_t *resp = bed_ask(b, true, "{'cmd':'vm-save','name':'web','file':'%s'}", file());
	struct stat st;

	bed_must(json_is_true(json_object_get(resp, "saved")), "vm-save");
	json_decref(resp);
	bed_must(stat(file(), &st) == 0 && (st.st_mode & 0777) == 0600, "%s", file());
}

static struct machine_vm *restore(struct bed *b)
{
	bed_do(b, "{'cmd':'vm-restore','trust':true,'file':'%s'}", file());
	return machine_vm_find(b->machine, "web");
}

/* An overflow was noted and not served: rare at the end of a slice, so it is worth waiting for. */
static bool overflow_waits(const struct machine_vm *vm)
{
	for (unsigned int i = 0; vm->vm && i < vm->vcpus; i++)
		if (vm->vm->vcpus[i].state == VCPU_READY &&
		    vpmu_guest_pending(vm->vm->vcpus[i].guest))
			return true;
	return false;
}

/* Step until the VM has ended, up to @slices; @seek: or until an overflow waits. */
static bool step(struct bed *b, const struct machine_vm *vm, uint64_t slices, bool seek)
{
	if (!seek)
		machine_step(b->machine, slices);
	while (seek && slices-- && machine_step(b->machine, 1) && !overflow_waits(vm))
		;
	machine_reap(b->machine);
	return b->ended;
}

/* Run it to its end, moving after random numbers of slices around @every (0: never). */
static struct outcome journey(const char *host, const char *vm, const char *args, uint64_t every)
{
	struct outcome o = {0};
	struct machine_vm *m;
	struct bed b;

	bed_open(&b, host);
	attach(&b);
	m = bed_add(&b, "name=web,tenant=/acme,%s,args=%s", vm, args);
	bed_start(m);
	while (!step(&b, m, every ? 1 + below(2 * every) : 1000000, every && below(2))) {
		bed_must(every, "it does not end");
		save(&b);
		note(&o, m);
		if (below(8) == 0) { /* it may stay as well, as if it had failed over there */
			bed_start(m);
			continue;
		}
		bed_do(&b, "{'cmd':'vm-remove','name':'web'}");
		leave(&o, &b);
		bed_open(&b, host);
		attach(&b);
		m = restore(&b);
		bed_start(m);
		o.moves++;
		bed_must(o.moves < 3000, "%s: %s", vm, args);
	}
	leave(&o, &b);
	unlink(file());
	return o;
}

static void outcome_add(struct outcome *o, const struct outcome *more)
{
	o->moves += more->moves;
	o->answers += more->answers;
	o->overflows += more->overflows;
	o->pmis += more->pmis;
	o->counting += more->counting;
	o->recording += more->recording;
}

static void outcome_free(struct outcome *o)
{
	for (size_t i = 0; i < sizeof(o->text) / sizeof(o->text[0]); i++)
		free(o->text[i]);
}

static void compare(const struct outcome *stayed, const struct outcome *moved, const char *what)
{
	for (size_t i = 0; i < sizeof(stayed->text) / sizeof(stayed->text[0]); i++) {
		const char *s = stayed->text[i] ? stayed->text[i] : "";
		const char *m = moved->text[i] ? moved->text[i] : "";

		bed_must(!strcmp(m, s), "%s: vCPU %zu, stayed:\n%.3000s\nmoved:\n%.3000s", what, i,
			 s, m);
	}
	for (unsigned int i = 0; i < NR_EVENTS; i++)
		bed_must(stayed->count[i] == moved->count[i],
			 "%s: operator's event %u of " EVENTS ": stayed %lu, moved %lu", what, i,
			 stayed->count[i], moved->count[i]);
}

/* ---- what is run --------------------------------------------------------------------------------
 */

static const struct program {
	int line;
	const char *host, *vm, *args;
	uint64_t every; /* slices between moves, on average */
} programs[] = {
	/* counting */
	{__LINE__, "pcpus=1,slice=1000", "pmu=intel-v2", "stat -j sieve 3000", 15},
	{__LINE__, "pcpus=1,slice=700", "pmu=intel-v5,gp=4",
	 "stat -j -e instructions,,branches,,cycles,,loads:u,,stores:k fib 17", 25},
	{__LINE__, "pcpus=1,slice=900", "pmu=amd-v2", "stat -j fib 17", 25},
	{__LINE__, "pcpus=1,slice=900", "pmu=amd-k7", "stat -j -e cycles,,instructions sieve 3000",
	 15},
	/* a slice ends after 1000 exits: the last one was answered and is not completed */
	{__LINE__, "pcpus=1,slice=1000000", "pmu=intel-v5", "help", 1},
	{__LINE__, "pcpus=1,slice=1000000", "pmu=amd-v2", "selftest", 1},
	{__LINE__, "pcpus=1,slice=1000000", "pmu=intel-v5", "selftest", 1},
	{__LINE__, "pcpus=1,slice=1000000,gp=16", "pmu=intel-v4", "torture 9 1000", 1},
	/* a move between any two instructions */
	{__LINE__, "pcpus=1,slice=1", "pmu=intel-v4", "stat -j -e instructions,,branches loop 100",
	 500},
	{__LINE__, "pcpus=1,slice=1", "pmu=amd-core", "stat -j -e instructions loop 50", 500},
	{__LINE__, "pcpus=1,slice=3", "pmu=intel-v3,vcpus=2", "run syscalls 40", 150},
	/* sampling */
	{__LINE__, "pcpus=1,slice=300", "pmu=intel-v5", "record -j -c 500 fib 15", 20},
	{__LINE__, "pcpus=1,slice=300", "pmu=intel-v2", "record -j --vector -c 777 sieve 3000", 20},
	{__LINE__, "pcpus=1,slice=50,gp=16", "pmu=intel-v4", "record -j -c 64 fib 11", 60},
	{__LINE__, "pcpus=1,slice=5,gp=16", "pmu=intel-v5", "record -j -c 200 fib 9", 400},
	{__LINE__, "pcpus=1,slice=5,gp=16", "pmu=amd-k7", "record -j -c 200 fib 9", 400},
	{__LINE__, "pcpus=1,slice=300", "pmu=amd-v2", "record -j -c 500 fib 15", 20},
	{__LINE__, "pcpus=1,slice=300", "pmu=amd-k7", "record -j -c 501 -e branches fib 15", 20},
	/* branch records */
	{__LINE__, "pcpus=1,slice=300", "pmu=intel-v5", "lbr -j -c 500 chain 300", 20},
	{__LINE__, "pcpus=1,slice=300", "pmu=intel-v5", "record -j -g -c 500 fib 15", 20},
	{__LINE__, "pcpus=1,slice=300", "pmu=intel-v5", "lbr -j --branches -c 100 branches 300",
	 20},
	{__LINE__, "pcpus=1,slice=300", "pmu=amd-v2", "lbr -j --branches -c 100 branches 300", 20},
	/* everything at once, and several vCPUs; as many host counters as they can want, since what
	 * rotation leaves out depends on time */
	{__LINE__, "pcpus=1,slice=200,gp=16", "pmu=intel-v5,vcpus=2", "torture -j 3 400", 150},
	{__LINE__, "pcpus=2,slice=200,gp=16,migrate=random:2", "pmu=intel-v4,vcpus=3",
	 "torture -j 4 400", 150},
	{__LINE__, "pcpus=1,slice=200,gp=16", "pmu=amd-v2,vcpus=2", "torture -j 5 400", 150},
	{__LINE__, "pcpus=1,slice=200,gp=16", "pmu=amd-core", "torture -j 6 400", 150},
	{__LINE__, "pcpus=2,slice=500", "pmu=intel-v5,vcpus=4,memory=32M", "stat -j sieve 3000",
	 40},
	{__LINE__, "pcpus=1,slice=500", "pmu=none", "run sieve 3000", 20},
	{__LINE__, "pcpus=1,slice=500", "policy=architectural,deny=branches", "stat -j sieve 2000",
	 10},
};

#define NR_PROGRAMS (sizeof(programs) / sizeof(programs[0]))

#define WORKERS 8

/* Programs i, i + WORKERS, ...: what their journeys met goes to @result. */
static void work(unsigned int i, void *result)
{
	const char *one = getenv("VPMU_SEED"), *many = getenv("VPMU_JOURNEYS");
	const char *line = getenv("VPMU_LINE");
	uint64_t n = one ? 1 : many ? strtoull(many, NULL, 10) : 2;
	struct outcome *all = result;

	for (; i < NR_PROGRAMS; i += WORKERS) {
		const struct program *p = &programs[i];
		struct outcome stayed;
		char what[300];

		if (line && atoi(line) != p->line)
			continue;
		stayed = journey(p->host, p->vm, p->args, 0);
		bed_must(stayed.count[0] > 100, "line %d", p->line);
		for (uint64_t k = 1; k <= n; k++) {
			uint64_t seed = one ? strtoull(one, NULL, 10) : k * 100 + i;
			struct outcome moved;

			rng_state = seed;
			snprintf(what, sizeof(what), "line %d VPMU_SEED=%lu: %s: %s", p->line, seed,
				 p->vm, p->args);
			moved = journey(p->host, p->vm, p->args, p->every);
			compare(&stayed, &moved, what);
			outcome_add(all, &moved);
			outcome_free(&moved);
		}
		outcome_free(&stayed);
	}
	rmdir(dir);
}

Test(migrate, as_if_it_had_stayed)
{
	struct outcome all = {0}, met[WORKERS];

	bed_fork(WORKERS, met, sizeof(met[0]), work);
	for (unsigned int i = 0; i < WORKERS; i++)
		outcome_add(&all, &met[i]);
	fprintf(stderr,
		"# %u moves; saved with: %u exits answered and not completed, %u overflows not "
		"served, %u PMIs on their way, %u counters on their way to a PMI, %u vCPUs "
		"recording branches\n",
		all.moves, all.answers, all.overflows, all.pmis, all.counting, all.recording);
	cr_assert(getenv("VPMU_LINE") || (all.moves > 100 && all.answers > 5 && all.overflows > 5 &&
					  all.pmis > 0 && all.counting > 20 && all.recording > 10));
}
