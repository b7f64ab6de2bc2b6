// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu-bench [--json] [--list] [NAME...]: run all benchmarks, or those named. */
#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tests/bench/bench.h"
#include "vpmu/rcu.h"

static const struct bench benches[] = {
	{"switch_equal", "switch between vCPUs of equal cookies", bench_switch_equal},
	{"switch_4keys", "switch between vCPUs with 4 distinct keys", bench_switch_4keys},
	{"switch_scale", "the same with many tenants and consumers", bench_switch_scale},
	{"consumer_add_del", "a guest counter comes and goes", bench_consumer_add_del},
	{"consumer_read", "a guest counter is read", bench_consumer_read},
	{"sampling", "three sample on one counter against one", bench_sampling},
	{"lbr_switch", "switch with 32 branch records to save and restore", bench_lbr_switch},
	{"lbr_memory", "memory for branch records of 10,000 vCPUs", bench_lbr_memory},
	{"soft_mips", "guest instructions per CPU second, all events counted", bench_soft_mips},
	{"soft_mips_lbr", "the same while branches are recorded", bench_soft_mips_lbr},
	{"soft_alarm", "the same with an exact stop every so many events", bench_soft_alarm},
	{"vm_create", "a soft VM is made: time, memory beyond guest RAM", bench_vm_create},
	{"runner_scale", "1,000 vCPUs on 2 pCPUs against one", bench_runner_scale},
};
#define NR (sizeof(benches) / sizeof(benches[0]))

static bool as_json, list;
static bool wanted[NR];

void bench_report(const char *name, double value, const char *unit, double goal, bool at_least,
		  json_t *params)
{
	bool ok = goal == 0 || (at_least ? value >= goal : value <= goal);
	json_t *o = json_pack("{s:s, s:f, s:s}", "name", name, "value", value, "unit", unit);
	char *text;

	if (goal != 0) {
		json_object_set_new(o, "goal", json_real(goal));
		json_object_set_new(o, "ok", json_boolean(ok));
	}
	if (params)
		json_object_update(o, params);
	if (as_json) {
		text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(5));
		printf("%s\n", text);
	} else {
		text = params ? json_dumps(params, JSON_COMPACT | JSON_REAL_PRECISION(5)) : NULL;
		printf("%-20s %12.2f %-10s", name, value, unit);
		if (goal != 0)
			printf(" %s %.2f %s", at_least ? ">=" : "<=", goal, ok ? "ok" : "MISSED");
		printf("  %s\n", text ? text : "");
	}
	fflush(stdout);
	free(text);
	json_decref(params);
	json_decref(o);
}

static double now_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

double bench_thread_ns(void)
{
	return now_ns(CLOCK_THREAD_CPUTIME_ID);
}

double bench_process_ns(void)
{
	return now_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* How many calls take about 2 ms. */
static uint64_t calibrate(void (*fn)(void *arg, uint64_t n), void *arg)
{
	for (uint64_t n = 16;; n *= 2) {
		double start = bench_thread_ns();

		fn(arg, n);
		if (bench_thread_ns() - start > 2e6 || n > 1ULL << 32)
			return n;
	}
}

static double once(void (*fn)(void *arg, uint64_t n), void *arg, uint64_t n)
{
	double start = bench_thread_ns();

	fn(arg, n);
	return (bench_thread_ns() - start) / (double)n;
}

double bench_batch(void (*fn)(void *arg, uint64_t n), void *arg, unsigned int batches)
{
	uint64_t n = calibrate(fn, arg);
	double best = once(fn, arg, n);

	for (unsigned int i = 1; i < batches; i++) {
		double ns = once(fn, arg, n);

		best = ns < best ? ns : best;
	}
	return best;
}

void bench_pair(void (*a)(void *arg, uint64_t n), void *arg_a, void (*b)(void *arg, uint64_t n),
		void *arg_b, unsigned int batches, double *ns_a, double *ns_b)
{
	uint64_t na = calibrate(a, arg_a), nb = calibrate(b, arg_b);

	*ns_a = once(a, arg_a, na);
	*ns_b = once(b, arg_b, nb);
	for (unsigned int i = 1; i < batches; i++) {
		double ns = once(a, arg_a, na);

		*ns_a = ns < *ns_a ? ns : *ns_a;
		ns = once(b, arg_b, nb);
		*ns_b = ns < *ns_b ? ns : *ns_b;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'j':
		as_json = true;
		return 0;
	case 'l':
		list = true;
		return 0;
	case ARGP_KEY_ARG:
		for (size_t i = 0; i < NR; i++) {
			if (!strcmp(arg, benches[i].name)) {
				wanted[i] = true;
				return 0;
			}
		}
		argp_failure(state, 2, 0, "%s: no such benchmark; --list names them", arg);
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", 'j', NULL, 0, "One JSON object per line", 0},
		{"list", 'l', NULL, 0, "Name the benchmarks", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[NAME...]",
		.doc = "Measure vpmu. Values are of the fastest batch.",
	};
	bool all = true;
	int ret = 0;

	argp_err_exit_status = 2;
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return 2;
	for (size_t i = 0; i < NR; i++) {
		if (list)
			printf("%-20s %s\n", benches[i].name, benches[i].what);
		all = all && !wanted[i];
	}
	if (list)
		return 0;
	urcu_memb_register_thread();
	for (size_t i = 0; i < NR; i++)
		if (all || wanted[i])
			ret |= benches[i].run();
	urcu_memb_unregister_thread();
	return ret;
}
