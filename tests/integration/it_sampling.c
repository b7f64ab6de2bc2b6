// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sampling that shares: guests that sample one event with different periods, on every PMU model,
 * while the operator counts and samples it too, by one hardware counter a pCPU. Each guest gets
 * exactly floor(count / period) PMIs, each at the instruction that single-stepping the same code
 * natively; each of the operator's profiles floor(count / period) samples of each pCPU.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest_truth.h"
#include "machine_bed.h"

/* Truths, single-stepped once, before any thread. */
static struct guest_truth truths[] = {
	{.workload = "fib", .n = 12},	    {.workload = "sieve", .n = 300},
	{.workload = "branches", .n = 500}, {.workload = "chain", .n = 400},
	{.workload = "memcpy", .n = 700},   {.workload = "repmovs", .n = 700},
	{.workload = "syscalls", .n = 200}, {.workload = "loop", .n = 2000},
};

#define NR_TRUTHS (sizeof(truths) / sizeof(truths[0]))

static const char *const models[] = {"intel-v2", "intel-v3", "intel-v4", "intel-v5",
				     "amd-k7",	 "amd-core", "amd-v2"};

/* A guest that samples: its arguments, and its output. */
struct guest {
	const struct guest_truth *truth;
	const char *model, *event;
	uint64_t period;
	unsigned int vcpus, mask;
	bool vector;	  /* its PMIs wait while interrupts are off */
	uint64_t next[4]; /* sample that is expected, of each vCPU */
	unsigned int summaries;
};

static const struct guest_truth *truth_of(const char *workload)
{
	for (size_t i = 0; i < NR_TRUTHS; i++)
		if (!strcmp(truths[i].workload, workload))
			return &truths[i];
	cr_assert_fail("%s", workload);
	return NULL;
}

static void single_step_all(void)
{
	for (size_t i = 0; i < NR_TRUTHS; i++)
		guest_truth_open(&truths[i], VPMU_GUEST, truths[i].workload, truths[i].n);
}

static void free_truths(void)
{
	for (size_t i = 0; i < NR_TRUTHS; i++)
		guest_truth_close(&truths[i]);
}

/* VMs that sample are called 0, 1, ...: their index in the guests. */
static void add_guest(struct bed *b, struct guest *g, unsigned int i, const char *tenant,
		      const char *options)
{
	g->mask = guest_truth_mask(g->event);
	g->vector = !strcmp(options, "--vector");
	bed_add(b,
		"name=%u,tenant=%s,vcpus=%u,memory=8M,pmu=%s,args=record -j --raw -e %s -c %lu "
		"%s %s %lu",
		i, tenant, g->vcpus, g->model, g->event, g->period, options, g->truth->workload,
		g->truth->n);
}

/* ---- the guests' samples -------------------------------------------------------------------- */

static uint64_t integer(const json_t *o, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(o, key));
}

static uint64_t digits(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	cr_assert(text, "no %s", key);
	return strtoull(text, NULL, 10);
}

/* Addresses of functions, each looked up once: names come thousands of times. */
static uint64_t function(const char *name)
{
	static struct {
		char name[64];
		uint64_t address;
	} known[64];
	static size_t nr;

	if (!strncmp(name, "0x", 2))
		return strtoull(name, NULL, 16);
	for (size_t i = 0; i < nr; i++)
		if (!strcmp(known[i].name, name))
			return known[i].address;
	cr_assert(nr < 64 && strlen(name) < sizeof(known[0].name));
	strcpy(known[nr].name, name);
	known[nr].address = guest_symbol(VPMU_GUEST, name);
	return known[nr++].address;
}

static void check_summary(const struct bed_line *l, const json_t *o, struct guest *g)
{
	uint64_t count = guest_truth_count(g->truth, g->mask), pmis = count / g->period;

	cr_assert(json_is_true(json_object_get(o, "ok")), "%s", l->text);
	cr_assert(json_is_false(json_object_get(o, "partial")), "%s", l->text);
	cr_assert_eq(digits(o, "count"), count, "%s, truth %lu", l->text, count);
	cr_assert_eq(integer(o, "pmis"), pmis, "%s, truth %lu", l->text, pmis);
	cr_assert_eq(integer(o, "samples"), pmis, "%s", l->text);
	cr_assert_eq(integer(o, "lost"), 0, "%s", l->text);
	cr_assert_eq(integer(o, "without_cause"), 0, "%s", l->text);
	g->summaries++;
}

/* The k-th sample is where the count reached k periods: nowhere else. By a vector, that of the last
 * instruction, which is a SYSCALL, is where interrupts are on next: before the call that waits for
 * it (sampler_run). */
static void check_sample(const struct bed_line *l, const json_t *o, struct guest *g)
{
	uint64_t nr = integer(o, "nr");
	const struct guest_step *at = guest_truth_at(g->truth, g->mask, (nr + 1) * g->period);
	uint64_t ip =
		function(json_string_value(json_object_get(o, "function"))) + integer(o, "offset");
	bool waits = g->vector && at && !at->cpl;
	uint64_t want = waits ? function("user_call") : at ? at->next : 0;
	unsigned int cpl = waits ? 3 : at ? at->cpl : 0;

	cr_assert_eq(nr, g->next[l->vcpu], "%s", l->text);
	g->next[l->vcpu]++;
	cr_assert(at, "%s: more samples than periods", l->text);
	cr_assert(ip == want && integer(o, "cpl") == cpl,
		  "%s (%s %s, one in %lu): 0x%lx, truth 0x%lx cpl %u", l->text, g->model, g->event,
		  g->period, ip, want, cpl);
}

static void each_record(struct bed *b, struct guest *guests,
			void (*summary)(const struct bed_line *, const json_t *, struct guest *),
			void (*sample)(const struct bed_line *, const json_t *, struct guest *))
{
	for (size_t i = 0; i < b->nr_lines; i++) {
		const struct bed_line *l = &b->lines[i];
		const char *kind;
		json_t *o;

		if (l->text[0] != '{' || l->vm[0] < '0' || l->vm[0] > '9')
			continue;
		o = json_loads(l->text, 0, NULL);
		cr_assert(o, "%s", l->text);
		kind = json_string_value(json_object_get(o, "kind"));
		if (!strcmp(kind, "sample-summary"))
			summary(l, o, &guests[atoi(l->vm)]);
		else if (!strcmp(kind, "sample"))
			sample(l, o, &guests[atoi(l->vm)]);
		json_decref(o);
	}
}

static void check_guests(struct bed *b, struct guest *guests, unsigned int nr)
{
	uint64_t samples = 0;

	each_record(b, guests, check_summary, check_sample);
	for (unsigned int i = 0; i < nr; i++) {
		struct guest *g = &guests[i];

		cr_assert_eq(g->summaries, g->vcpus, "VM %u", i);
		for (unsigned int v = 0; v < g->vcpus; v++) {
			cr_assert_eq(g->next[v], guest_truth_count(g->truth, g->mask) / g->period);
			samples += g->next[v];
		}
	}
	cr_assert_eq(b->failed, 0);
	fprintf(stderr, "# %u VMs: %lu samples, each at its instruction\n", nr, samples);
}

/* ---- the operator --------------------------------------------------------------------------- */

static void profile(struct bed *b, const char *name, const char *target, unsigned int period)
{
	bed_do(b,
	       "{'cmd':'profile-start','name':'%s','keep':true,'event':'instructions:u','target':'%"
	       "s','period':%u}",
	       name, target, period);
}

/* samples + lost is floor(count / period); of several pCPUs each rounds down by itself. */
static json_t *check_profile(struct bed *b, const char *name, unsigned int pcpus)
{
	json_t *o = bed_ask(b, true, "{'cmd':'profile-stop','profile':'%s'}", name);
	uint64_t taken = digits(o, "samples") + digits(o, "lost");
	uint64_t want = digits(o, "count") / digits(o, "period");

	cr_assert_gt(taken, 0, "%s", name);
	cr_assert(taken <= want && taken + pcpus > want, "%s: %lu samples, count / period %lu",
		  name, taken, want);
	cr_assert_eq(digits(o, "late-max"), 0, "%s", name);
	cr_assert_str_eq(json_string_value(json_object_get(o, "quality")), "exact");
	return o;
}

/* The profile of "/" was the first to count, so that its events are all the hardware counted: then
 * the samples of each pCPU are known. */
static void check_root_profile(struct bed *b, unsigned int pcpus, unsigned int period)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'conservation'}"), *rows, *row, *o;
	uint64_t want = 0;
	unsigned int seen = 0;
	size_t i;

	rows = json_object_get(answer, "rows");
	json_array_foreach (rows, i, row) {
		if (strcmp(json_string_value(json_object_get(row, "event")), "instructions:u"))
			continue;
		want += digits(row, "hardware") / period;
		seen++;
	}
	json_decref(answer);
	cr_assert(seen > 0 && seen <= pcpus);
	o = check_profile(b, "root", pcpus);
	cr_assert_eq(digits(o, "samples") + digits(o, "lost"), want);
	json_decref(o);
}

static void sharing(struct bed *b, unsigned int *consumers, unsigned int *counters)
{
	json_t *o = bed_ask(b, true, "{'cmd':'sharing'}");
	const json_t *emulator = json_array_get(json_object_get(o, "backends"), 0);

	*consumers = (unsigned int)integer(emulator, "consumers");
	*counters = (unsigned int)integer(emulator, "host-counters");
	json_decref(o);
}

/* Run until @ended VMs have ended; never more than @pcpus hardware counters are in use. Returns the
 * most consumers seen at once on them. */
static unsigned int run_and_watch(struct bed *b, unsigned int ended, unsigned int pcpus)
{
	unsigned int consumers, counters, most = 0;

	bed_run(b, 0);
	while (b->ended < ended) {
		sharing(b, &consumers, &counters);
		cr_assert_leq(counters, pcpus);
		if (counters && consumers > most)
			most = consumers;
		usleep(1000);
		machine_reap(b->machine);
	}
	return most;
}

/*
 * The operator's view of a guest that does not sample: how often each instruction of the
 * workload was next when a period ended. Where in a period the workload began depends on what the
 * guest did before; one of the @period possibilities must fit all addresses.
 */
static bool fits(const json_t *rows, const struct guest_truth *t, uint64_t lo, uint64_t hi,
		 uint64_t period, uint64_t phase)
{
	uint64_t *want = calloc(hi - lo, sizeof(*want));
	const json_t *row;
	bool same = true;
	size_t i;

	for (uint64_t k = period - phase; k <= t->nr; k += period)
		if (t->step[k - 1].next >= lo && t->step[k - 1].next < hi)
			want[t->step[k - 1].next - lo]++;
	json_array_foreach (rows, i, row) {
		uint64_t ip = strtoull(json_string_value(json_object_get(row, "ip")), NULL, 16);

		if (ip >= lo && ip < hi) {
			same = same && want[ip - lo] == digits(row, "samples");
			want[ip - lo] = 0;
		}
	}
	for (uint64_t a = 0; a < hi - lo; a++)
		same = same && !want[a];
	free(want);
	return same;
}

static void check_rows(const json_t *profile, const struct guest_truth *t, uint64_t lo, uint64_t hi)
{
	uint64_t period = digits(profile, "period");
	unsigned int fit = 0;

	cr_assert_eq(digits(profile, "lost"), 0);
	cr_assert_eq(integer(profile, "other-rows"), 0);
	for (uint64_t phase = 0; phase < period; phase++)
		fit += fits(json_object_get(profile, "rows"), t, lo, hi, period, phase);
	cr_assert_eq(fit, 1, "%s: %u of %lu phases fit", t->workload, fit, period);
}

/* ---- one pCPU, one counter ------------------------------------------------------------------ */

#define ROOT_PERIOD 1009

static void one_counter(const char *host)
{
	struct guest guests[] = {
		{.truth = truth_of("fib"), .model = "intel-v5", .period = 97},
		{.truth = truth_of("sieve"), .model = "amd-v2", .period = 1000},
		{.truth = truth_of("branches"), .model = "amd-k7", .period = 7},
		{.truth = truth_of("syscalls"), .model = "intel-v2", .period = 11},
		{.truth = truth_of("memcpy"), .model = "amd-core", .period = 64},
	};
	const unsigned int nr = sizeof(guests) / sizeof(guests[0]);
	unsigned int base, most, counters, last;
	struct bed b;
	json_t *o;

	bed_open(&b, host);
	for (unsigned int i = 0; i < nr; i++) {
		guests[i].event = "instructions:u";
		guests[i].vcpus = 1;
		add_guest(&b, &guests[i], i, i % 2 ? "/odd" : "/even", "--nmi");
	}
	bed_add(&b, "name=watched,tenant=/watched,args=run sieve 300");
	/* So that a counter is always in use when the operator looks. */
	bed_add(&b, "name=busy,tenant=/busy,pmu=intel-v3,args=stat -e instructions:u -r 1000000 "
		    "loop 3000");
	profile(&b, "root", "/", ROOT_PERIOD);
	bed_do(&b, "{'cmd':'attach','name':'tenants','keep':true,'scope':'tenant','events':'"
		   "instructions:u'}");
	profile(&b, "a", "0", 211);
	profile(&b, "odd", "/odd", 50);
	profile(&b, "watched", "watched", 7);
	sharing(&b, &base, &counters);
	most = run_and_watch(&b, nr + 1, 1);
	while (most <= base) {
		sharing(&b, &last, &counters);
		most = counters == 1 && last > most ? last : most;
		usleep(1000);
	}
	cr_assert(base > 3, "operator's consumers %u", base);
	sharing(&b, &last, &counters);
	cr_assert_eq(counters, 1);
	bed_do(&b, "{'cmd':'vm-remove','name':'busy'}");
	check_guests(&b, guests, nr);
	check_root_profile(&b, 1, ROOT_PERIOD);
	json_decref(check_profile(&b, "a", 1));
	json_decref(check_profile(&b, "odd", 1));
	o = check_profile(&b, "watched", 1);
	check_rows(o, truth_of("sieve"), function("workload_sieve"), function("workload_fib"));
	json_decref(o);
	cr_assert_gt(bed_conserved(&b), 0);
	bed_close(&b);
}

/* ---- many VMs ------------------------------------------------------------------------------- */

static void many(const char *host, unsigned int pcpus, bool mixed, const char *options)
{
	static const uint64_t periods[] = {7, 97, 333, 1000, 5003};
	static const char *const events[] = {"instructions:u", "branches-taken:u", "loads:u",
					     "stores:u", "branches:u"};
	struct guest guests[24] = {0};
	const unsigned int nr = sizeof(guests) / sizeof(guests[0]);
	unsigned int most;
	struct bed b;

	bed_open(&b, host);
	for (unsigned int i = 0; i < nr; i++) {
		struct guest *g = &guests[i];
		char tenant[16];

		g->truth = &truths[i % NR_TRUTHS];
		g->model = models[i % 7];
		g->event = mixed ? events[i % 5] : events[0];
		g->period = periods[(i + i / 5) % 5];
		g->vcpus = g->period < 20 ? 1 : 2; /* thousands of lines each */
		/* In the kernel interrupts are off: a vector's sample is where they are on again.
		 */
		if (!strcmp(options, "--vector") && !strcmp(g->truth->workload, "syscalls"))
			g->truth = truth_of("loop");
		if (i == 0) /* one sample, behind the last instruction */
			g->period = guest_truth_count(g->truth, guest_truth_mask(g->event));
		snprintf(tenant, sizeof(tenant), "/t%u", i % 3);
		add_guest(&b, g, i, tenant, options);
	}
	profile(&b, "root", "/", ROOT_PERIOD);
	profile(&b, "t1", "/t1", 4001);
	profile(&b, "vm", "3", 500);
	bed_do(&b, "{'cmd':'attach','name':'vcpus','keep':true,'scope':'vcpu','events':'"
		   "instructions:u'}");
	most = run_and_watch(&b, nr, mixed ? 7 * pcpus : pcpus);
	cr_assert_gt(most, 3);
	check_guests(&b, guests, nr);
	check_root_profile(&b, pcpus, ROOT_PERIOD);
	json_decref(check_profile(&b, "t1", pcpus));
	json_decref(check_profile(&b, "vm", pcpus));
	cr_assert_gt(bed_conserved(&b), 0);
	bed_close(&b);
}

/* ---- more events than counters -------------------------------------------------------------- */

static unsigned int partials;

static void partial_summary(const struct bed_line *l, const json_t *o, struct guest *g)
{
	uint64_t count = guest_truth_count(g->truth, g->mask);

	/* Not ok: its counters and PMIs contradict each other. */
	cr_assert(json_is_true(json_object_get(o, "ok")), "%s %s", g->model, l->text);
	partials += json_is_true(json_object_get(o, "partial"));
	cr_assert_leq(integer(o, "pmis"), count / g->period, "%s", l->text);
	cr_assert_leq(digits(o, "count"), count, "%s", l->text);
	if (json_is_false(json_object_get(o, "partial")))
		cr_assert_eq(integer(o, "pmis"), count / g->period, "%s", l->text);
	g->summaries++;
}

/* Which periods were missed is not known: but every sample is right behind one of its events. */
static void partial_sample(const struct bed_line *l, const json_t *o, struct guest *g)
{
	uint64_t ip =
		function(json_string_value(json_object_get(o, "function"))) + integer(o, "offset");
	bool found = false;

	for (size_t i = 0; i < g->truth->nr && !found; i++)
		found = (!g->mask || g->truth->step[i].what & g->mask) &&
			g->truth->step[i].next == ip;
	cr_assert(found, "%s: not behind any %s", l->text, g->event);
}

static void rotating(const char *host)
{
	static const char *const events[] = {"instructions:u", "loads:u", "branches-taken:u"};
	struct guest guests[9] = {0};
	struct bed b;

	partials = 0;
	bed_open(&b, host);
	for (unsigned int i = 0; i < 9; i++) {
		guests[i] = (struct guest){.truth = &truths[i % 4],
					   .model = models[i % 7],
					   .event = events[i % 3],
					   .period = 50 + 13 * i,
					   .vcpus = 1};
		add_guest(&b, &guests[i], i, "/t", "--nmi");
	}
	profile(&b, "root", "/", ROOT_PERIOD);
	bed_run(&b, 9);
	each_record(&b, guests, partial_summary, partial_sample);
	cr_assert_eq(b.failed, 0);
	for (unsigned int i = 0; i < 9; i++)
		cr_assert_eq(guests[i].summaries, 1);
	cr_assert_gt(partials, 0);
	cr_assert_gt(bed_conserved(&b), 0);
	bed_close(&b);
}

/* One test: the single-stepping takes longest, and Criterion runs each test in its own process. */
Test(sampling, every_sample_is_at_its_instruction)
{
	single_step_all();
#ifndef VPMU_FEWER /* the same code with other slices */
	one_counter("pcpus=1,gp=1,fixed=0,slice=700,random_slices=yes,seed=3");
	many("pcpus=2,gp=1,fixed=0,slice=500,random_slices=yes,migrate=random:3,seed=1", 2, false,
	     "--nmi");
	rotating("pcpus=1,gp=1,fixed=0,slice=300,random_slices=yes,tick_us=1,seed=6");
#endif
	one_counter("pcpus=1,gp=1,fixed=0,slice=5,seed=4");
	many("pcpus=3,gp=1,fixed=0,slice=61,random_slices=yes,migrate=random:2,seed=2", 3, false,
	     "--vector");
	many("pcpus=3,gp=5,fixed=3,slice=97,random_slices=yes,migrate=random:2,seed=5", 3, true,
	     "--nmi");
	rotating("pcpus=2,gp=1,fixed=0,slice=100,migrate=random:3,tick_us=1,seed=7");
	free_truths();
}
