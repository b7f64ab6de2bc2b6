// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-bench [--json] [--list] [NAME...] - the speed figures of docs/performance.md.
 *
 * A table, or one JSON object per line: name, value, unit, goal, ok and what was measured. The
 * exit status says whether it could measure, not whether goals were met.
 */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/bench/bench.h"
#include "vpmu/rcu.h"

static bool json;

static uint64_t clock_of(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t bench_ns(void)
{
	return clock_of(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t bench_wall_ns(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

void bench_report(const char *name, double value, const char *unit, enum bench_goal cmp,
		  double goal, const char *params, ...)
{
	bool ok = cmp == GOAL_MOST ? value <= goal : value >= goal;
	char more[512], sign = cmp == GOAL_MOST ? '<' : '>';
	va_list ap;

	va_start(ap, params);
	vsnprintf(more, sizeof(more), params, ap);
	va_end(ap);
	if (json) {
		printf("{\"name\":\"%s\",\"value\":%.4g,\"unit\":\"%s\"", name, value, unit);
		if (cmp != GOAL_NONE)
			printf(",\"goal\":\"%c= %g\",\"ok\":%s", sign, goal, ok ? "true" : "false");
		printf("%s%s}\n", *more ? "," : "", more);
	} else {
		char text[32] = "", *out = more;

		for (char *in = more; *in; in++) {
			if (*in != '"')
				*out++ = *in == ',' ? ' ' : *in == ':' ? '=' : *in;
		}
		*out = '\0';
		if (cmp != GOAL_NONE)
			snprintf(text, sizeof(text), "%c= %g %s", sign, goal, ok ? "ok" : "MISSED");
		printf("%-18s %10.4g %-8s %-18s %s\n", name, value, unit, text, more);
	}
	fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

double bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_value);
	return n & 1 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void bench_compare(void (*a)(void *arg, size_t ops), void *a_arg, void (*b)(void *arg, size_t ops),
		   void *b_arg, size_t ops, size_t batches, struct bench_pair *out)
{
	double *ta = calloc(batches, sizeof(*ta)), *ratio = calloc(batches, sizeof(*ratio));

	*out = (struct bench_pair){.a_ns = 1e300, .b_ns = 1e300};
	for (size_t i = 0; ta && ratio && i < batches; i++) {
		uint64_t t0 = bench_ns(), t1, t2;
		double ns;

		a(a_arg, ops);
		t1 = bench_ns();
		ta[i] = (double)(t1 - t0) / (double)ops;
		if (ta[i] < out->a_ns)
			out->a_ns = ta[i];
		if (!b)
			continue;
		b(b_arg, ops);
		t2 = bench_ns();
		ns = (double)(t2 - t1) / (double)ops;
		if (ns < out->b_ns)
			out->b_ns = ns;
		ratio[i] = ta[i] / ns;
	}
	out->a_median_ns = bench_median(ta, batches);
	out->ratio = b ? bench_median(ratio, batches) : 0;
	free(ta);
	free(ratio);
}

static const struct {
	const struct bench *b;
	const size_t *n;
} all[] = {
	{core_benches, &nr_core_benches},
#ifdef BENCH_VM
	{vm_benches, &nr_vm_benches},
#endif
};
#define NR_ALL (sizeof(all) / sizeof(all[0]))

static const struct bench *find(const char *name)
{
	for (size_t k = 0; k < NR_ALL; k++) {
		for (size_t i = 0; i < *all[k].n; i++) {
			if (!strcmp(all[k].b[i].name, name))
				return &all[k].b[i];
		}
	}
	return NULL;
}

static void list(FILE *f)
{
	for (size_t k = 0; k < NR_ALL; k++) {
		for (size_t i = 0; i < *all[k].n; i++)
			fprintf(f, "%-18s %s\n", all[k].b[i].name, all[k].b[i].what);
	}
}

static int run(const struct bench *b)
{
	int ret = b->run();

	if (ret)
		fprintf(stderr, "vpmu-bench: %s: %s\n", b->name, strerror(-ret));
	return ret != 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"list", no_argument, NULL, 'l'},
						{"help", no_argument, NULL, 'h'},
						{NULL, 0, NULL, 0}};
	int opt, failed = 0;

	while ((opt = getopt_long(argc, argv, "jlh", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			json = true;
			break;
		case 'l':
			list(stdout);
			return 0;
		default:
			fprintf(opt == 'h' ? stdout : stderr,
				"usage: vpmu-bench [--json] [--list] [NAME...]\n");
			return opt == 'h' ? 0 : 2;
		}
	}
	for (int i = optind; i < argc; i++) {
		if (!find(argv[i])) {
			fprintf(stderr, "vpmu-bench: no benchmark \"%s\"; there are:\n", argv[i]);
			list(stderr);
			return 2;
		}
	}
	urcu_memb_register_thread();
	for (int i = optind; i < argc; i++)
		failed |= run(find(argv[i]));
	for (size_t k = 0; k < NR_ALL && optind == argc; k++) {
		for (size_t i = 0; i < *all[k].n; i++)
			failed |= run(&all[k].b[i]);
	}
	urcu_memb_unregister_thread();
	return failed;
}
