// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What guests read is what happened: every known workload, on every PMU model, on a hundred vCPUs
 * that are cut into random slices and migrated, against single-stepping the same code natively;
 * and the operator's counts at the same time add up.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "guest-tools/workloads.h"
#include "machine_bed.h"
#include "overhead.h"
#include "tests/emu/truth.h"

#define NR_VMS 70 /* each workload on each model */
#define VCPUS  2
#define EVENTS "instructions:u,,branches:u,,branches-taken:u,,loads:u,,stores:u"
#define NR_EV  5
/* amd-k7 has four counters. */
#define EVENTS4 "instructions:u,,branches:u,,branches-taken:u,,loads:u"
#define NR_EV4	4

static const char *const models[] = {"intel-v2", "intel-v3", "intel-v4", "intel-v5",
				     "amd-k7",	 "amd-core", "amd-v2"};

#define NR_MODELS (sizeof(models) / sizeof(models[0]))

/* The guest's system call, as far as the native run goes; in assembly so that its counts are
 * known: 2 instructions, 1 branch, taken, 1 load (RET). */
uint64_t it_echo(uint64_t arg);
__asm__(".text\n.globl it_echo\n.type it_echo, @function\n"
	"it_echo:\n	mov %rdi, %rax\n	ret\n");

struct expected {
	const char *workload;
	uint64_t n;
	uint64_t value[NR_EV];
};

static const char *const event_names[NR_EV] = {"instructions:u", "branches:u", "branches-taken:u",
					       "loads:u", "stores:u"};

static struct expected expected[] = {
	{"empty", 5, {0}},     {"loop", 3000, {0}},    {"sieve", 400, {0}}, {"fib", 12, {0}},
	{"memcpy", 5003, {0}}, {"repmovs", 9001, {0}}, {"chase", 500, {0}}, {"syscalls", 300, {0}},
	{"chain", 700, {0}},   {"branches", 900, {0}},
};

#define NR_EXPECTED (sizeof(expected) / sizeof(expected[0]))

/* Truth, plus the documented part of the guest's tool (workloads.h). */
static void single_step(struct expected *e)
{
	const struct workload *w = workload_find(e->workload, strlen(e->workload));
	uint64_t calls = w->needs_call ? e->n : 0;
	size_t bytes = (workload_mem_bytes(w, e->n) + 63) & ~63ULL;
	void *mem = aligned_alloc(64, bytes ? bytes : 64);
	const uint64_t args[6] = {e->n, (uint64_t)(uintptr_t)mem, bytes,
				  (uint64_t)(uintptr_t)it_echo};
	struct truth t;

	cr_assert_eq(truth_call((const void *)(uintptr_t)w->fn, args, &t), 0);
	e->value[0] = t.insns + WORKLOAD_OVERHEAD_INSNS_U + calls * (WORKLOAD_CALL_INSNS_U - 2);
	e->value[1] =
		t.branches + WORKLOAD_OVERHEAD_BRANCHES_U + calls * (WORKLOAD_CALL_BRANCHES_U - 1);
	e->value[2] = t.taken + WORKLOAD_OVERHEAD_TAKEN_U + calls * (WORKLOAD_CALL_TAKEN_U - 1);
	e->value[3] = t.loads + WORKLOAD_OVERHEAD_LOADS_U + calls * (WORKLOAD_CALL_LOADS_U - 1);
	e->value[4] = t.stores + WORKLOAD_OVERHEAD_STORES_U + calls * WORKLOAD_CALL_STORES_U;
	free(mem);
}

/* VM names are NUMBER-WORKLOAD. */
static const struct expected *expected_of(const char *vm)
{
	for (size_t i = 0; i < NR_EXPECTED; i++)
		if (!strcmp(strchr(vm, '-') + 1, expected[i].workload))
			return &expected[i];
	cr_assert_fail("%s", vm);
	return NULL;
}

struct seen {
	unsigned int values;
	uint64_t insns[NR_VMS]; /* sum over the VM's vCPUs */
};

static void check_stat(const struct bed_line *l, const json_t *stat, void *arg)
{
	const struct expected *e = expected_of(l->vm);
	const char *event = json_string_value(json_object_get(stat, "event"));
	const char *text = json_string_value(json_object_get(stat, "counter-value"));
	const char *quality = json_string_value(json_object_get(stat, "quality"));
	uint64_t value = text ? strtoull(text, NULL, 10) : 0;
	struct seen *seen = arg;

	for (size_t i = 0; i < NR_EV; i++) {
		if (strcmp(event, event_names[i]))
			continue;
		cr_assert_eq(value, e->value[i], "%s vCPU %u, %s: %s, truth %lu", l->vm, l->vcpu,
			     event, text, e->value[i]);
		cr_assert_str_eq(quality, "exact");
		cr_assert_eq(json_number_value(json_object_get(stat, "pcnt-running")), 100.0);
		if (i == 0)
			seen->insns[atoi(l->vm)] += value;
		seen->values++;
		return;
	}
	cr_assert_fail("%s: unknown event %s", l->vm, event);
}

static uint64_t count_of(const json_t *row)
{
	const json_t *value = json_array_get(json_object_get(row, "values"), 0);

	return strtoull(json_string_value(json_object_get(value, "count")), NULL, 10);
}

/* Instructions in user mode, as the operator's session sees them: a VM did at least what its guest
 * counted; a tenant is the sum of its VMs; the root the sum of all. */
static void check_operator(struct bed *b, const struct seen *seen)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'read','session':'vms'}"), *row;
	json_t *rows = json_object_get(answer, "rows");
	uint64_t sum = 0;
	size_t i;

	cr_assert_eq(json_array_size(rows), NR_VMS);
	json_array_foreach (rows, i, row) {
		int vm = atoi(json_string_value(json_object_get(row, "vm")));

		cr_assert_geq(count_of(row), seen->insns[vm]);
		sum += count_of(row);
	}
	json_decref(answer);
	answer = bed_ask(b, true, "{'cmd':'read','session':'tenants'}");
	rows = json_object_get(answer, "rows");
	json_array_foreach (rows, i, row) {
		const char *path = json_string_value(json_object_get(row, "path"));

		if (!strcmp(path, "/"))
			cr_assert_eq(count_of(row), sum);
		if (!strcmp(path, "/host"))
			cr_assert_eq(count_of(row), 0);
	}
	json_decref(answer);
}

static void run_all(const char *host)
{
	struct seen seen = {0};
	unsigned int values = 0;
	struct bed b;

	bed_open(&b, host);
	for (unsigned int i = 0; i < NR_VMS; i++) {
		const struct expected *e = &expected[i % NR_EXPECTED];
		const char *model = models[i / NR_EXPECTED % NR_MODELS];
		bool four = !strcmp(model, "amd-k7");

		bed_add(&b,
			"name=%u-%s,tenant=/t%u/%s,vcpus=%u,memory=8M,pmu=%s,"
			"args=stat -j -e %s %s %lu",
			i, e->workload, i % 4, e->workload, VCPUS, model, four ? EVENTS4 : EVENTS,
			e->workload, e->n);
		values += VCPUS * (four ? NR_EV4 : NR_EV);
	}
	bed_do(&b,
	       "{'cmd':'attach','name':'vms','keep':true,'scope':'vm','events':'instructions:u'}");
	bed_do(&b, "{'cmd':'attach','name':'tenants','keep':true,'scope':'tenant','events':'"
		   "instructions:u,branches:u'}");
	bed_run(&b, NR_VMS);
	cr_assert_eq(b.failed, 0);
	bed_each_stat(&b, check_stat, &seen);
	cr_assert_eq(seen.values, values);
	check_operator(&b, &seen);
	cr_assert_gt(bed_conserved(&b), 0);
	bed_close(&b);
}

/*
 * In the kernel: what starting and stopping the counters adds, by how many there are, and what each
 * null system call does (workloads.h).
 */
static const char *const kernel_events[] = {"instructions:k", "branches:k", "branches-taken:k",
					    "loads:k", "stores:k"};

struct kernel_run {
	bool list; /* counters are started one by one */
	unsigned int nr;
	uint64_t calls;
	unsigned int values;
};

static uint64_t bpf_backend_value(const struct kernel_run *k, unsigned int event)
{
	const uint64_t more = k->nr;
	const uint64_t one[] = {WORKLOAD_OVERHEAD_INSNS_K, WORKLOAD_OVERHEAD_BRANCHES_K,
				WORKLOAD_OVERHEAD_TAKEN_K, WORKLOAD_OVERHEAD_LOADS_K,
				WORKLOAD_OVERHEAD_STORES_K};
	const uint64_t list[] = {WORKLOAD_LIST_INSNS_K(more), WORKLOAD_LIST_BRANCHES_K(more),
				 WORKLOAD_LIST_TAKEN_K(more), WORKLOAD_LIST_LOADS_K(more),
				 WORKLOAD_LIST_STORES_K(more)};
	const uint64_t call[] = {WORKLOAD_CALL_INSNS_K, WORKLOAD_CALL_BRANCHES_K,
				 WORKLOAD_CALL_TAKEN_K, WORKLOAD_CALL_LOADS_K,
				 WORKLOAD_CALL_STORES_K};

	return (k->list ? list : one)[event] + k->calls * call[event];
}

static void check_kernel(const struct bed_line *l, const json_t *stat, void *arg)
{
	struct kernel_run *k = &((struct kernel_run *)arg)[atoi(l->vm)];
	const char *event = json_string_value(json_object_get(stat, "event"));
	const char *text = json_string_value(json_object_get(stat, "counter-value"));
	unsigned int i = 0;

	while (i < 5 && strcmp(event, kernel_events[i]))
		i++;
	cr_assert_lt(i, 5, "%s", event);
	cr_assert_eq(strtoull(text, NULL, 10), bpf_backend_value(k, i), "%s %s: %s, documented %lu",
		     l->vm, event, text, bpf_backend_value(k, i));
	k->values++;
}

/* One to four events on each model, with and without system calls. */
static void run_kernel(const char *host)
{
	struct kernel_run runs[NR_MODELS * 8] = {0};
	unsigned int nr = 0;
	struct bed b;

	bed_open(&b, host);
	for (unsigned int m = 0; m < NR_MODELS; m++) {
		for (unsigned int i = 0; i < 8; i++, nr++) {
			struct kernel_run *k = &runs[nr];
			char list[128] = "";

			k->list = !strcmp(models[m], "amd-k7") || !strcmp(models[m], "amd-core");
			k->nr = 1 + i / 2;
			k->calls = i % 2 ? 200 + i : 0;
			for (unsigned int e = 0; e < k->nr; e++) {
				strcat(list, e ? ",," : "");
				strcat(list, kernel_events[(m + i + e) % 5]);
			}
			bed_add(&b, "name=%u-k,memory=8M,pmu=%s,args=stat -j -e %s %s %lu", nr,
				models[m], list, i % 2 ? "syscalls" : "empty", k->calls);
		}
	}
	bed_run(&b, nr);
	cr_assert_eq(b.failed, 0);
	bed_each_stat(&b, check_kernel, runs);
	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(runs[i].values, runs[i].nr, "VM %u", i);
	cr_assert_gt(bed_conserved(&b), 0);
	bed_close(&b);
}

/* Fewer counters than events: a guest's reading is marked partial, or exact; nothing else. */
static void check_honest(const struct bed_line *l, const json_t *stat, void *arg)
{
	const struct expected *e = expected_of(l->vm);
	const char *event = json_string_value(json_object_get(stat, "event"));
	const char *text = json_string_value(json_object_get(stat, "counter-value"));
	double running = json_number_value(json_object_get(stat, "pcnt-running"));
	unsigned int *partial = arg;

	for (size_t i = 0; i < NR_EV; i++) {
		if (strcmp(event, event_names[i]))
			continue;
		if (running == 100.0)
			cr_assert_eq(strtoull(text, NULL, 10), e->value[i], "%s %s: %s", l->vm,
				     event, text);
		else
			(*partial)++;
	}
}

static void run_rotating(void)
{
	unsigned int partial = 0;
	struct bed b;

	bed_open(&b, "pcpus=2,gp=1,fixed=1,slice=100,tick_us=1");
	for (unsigned int i = 0; i < 16; i++)
		bed_add(&b, "name=%u-%s,args=stat -j -e " EVENTS " %s %lu", i,
			expected[i % NR_EXPECTED].workload, expected[i % NR_EXPECTED].workload,
			expected[i % NR_EXPECTED].n);
	bed_run(&b, 16);
	cr_assert_eq(b.failed, 0);
	bed_each_stat(&b, check_honest, &partial);
	cr_assert_gt(partial, 0);
	cr_assert_gt(bed_conserved(&b), 0);
	bed_close(&b);
}

/* One test: the single-stepping takes longest, and Criterion runs each test in its own process. */
Test(exact, guests_read_the_truth)
{
	for (size_t i = 0; i < NR_EXPECTED; i++)
		single_step(&expected[i]);
#ifndef VPMU_FEWER /* the same code with other slices */
	run_all("");
	run_all("pcpus=2,slice=500,random_slices=yes,migrate=random:3,seed=1");
#endif
	run_all("pcpus=3,slice=37,random_slices=yes,migrate=random:2,seed=2,tick_us=20");
	run_kernel("pcpus=2,gp=8,slice=90,random_slices=yes,migrate=random:3,seed=3");
	run_rotating();
}

/* One pCPU, one seed: the same run twice, to the byte. */
static char *transcript(const char *host)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	struct bed b;

	bed_open(&b, host);
	for (unsigned int i = 0; i < 12; i++)
		bed_add(&b, "name=v%u,vcpus=2,pmu=amd-v2,args=stat sieve %u", i, 1000 + i);
	bed_run(&b, 12);
	for (size_t i = 0; i < b.nr_lines; i++)
		fprintf(f, "%s/%u %s\n", b.lines[i].vm, b.lines[i].vcpu, b.lines[i].text);
	fclose(f);
	bed_close(&b);
	return text;
}

Test(exact, deterministic_on_one_pcpu)
{
	static const char host[] =
		"pcpus=1,gp=2,fixed=1,slice=300,random_slices=yes,tick_us=3,seed=5";
	char *first = transcript(host), *second = transcript(host);

	cr_assert_str_eq(first, second);
	cr_assert(strstr(first, "sieve 1011"));
	free(first);
	free(second);
}
