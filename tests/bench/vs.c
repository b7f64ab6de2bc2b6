// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-bench --vs: two builds against each other. Either program runs in turn, once per benchmark
 * and run, and prints JSON lines; this compares lines that mean the same. It needs only the fields
 * "name", "value" and "unit" and the parameters below, so that builds from before a change of the
 * format can be compared too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define ROWS_MAX 256

/* Parameters that separate results of one name. */
static const char *const params[] = {"tenants", "consumers", "keys",   "workload", "branches",
				     "event",	"period",    "alarms", "samplers", "vcpus",
				     "threads", "vms",	     "entries"};
#define NR_PARAMS (sizeof(params) / sizeof(params[0]))

/* One result of both programs. */
struct row {
	char key[160], unit[32];
	double *value[2];    /* by run; 0: none */
	double *units[2];    /* the same in units; 0 where it is not given */
	double *free_pct[2]; /* by run, core_free_pct; 0 where it is not given */
};

static struct row rows[ROWS_MAX];
static unsigned int nr_rows, nr_runs;

static double *values(void)
{
	double *v = calloc(nr_runs, sizeof(*v));

	if (!v)
		bench_oom();
	return v;
}

static struct row *find(const char *key, const char *unit)
{
	struct row *row;

	for (unsigned int i = 0; i < nr_rows; i++)
		if (!strcmp(rows[i].key, key))
			return &rows[i];
	if (nr_rows == ROWS_MAX)
		return NULL;
	row = &rows[nr_rows++];
	snprintf(row->key, sizeof(row->key), "%s", key);
	snprintf(row->unit, sizeof(row->unit), "%s", unit);
	row->value[0] = values();
	row->value[1] = values();
	row->units[0] = values();
	row->units[1] = values();
	row->free_pct[0] = values();
	row->free_pct[1] = values();
	return row;
}

static void take_line(const char *line, unsigned int who, unsigned int run)
{
	json_t *o = json_loads(line, 0, NULL);
	const char *name = json_string_value(json_object_get(o, "name"));
	const char *unit = json_string_value(json_object_get(o, "unit"));
	char key[160];
	struct row *row;
	int len;

	if (name && unit) {
		len = snprintf(key, sizeof(key), "%s", name);
		for (size_t i = 0; i < NR_PARAMS && len < (int)sizeof(key); i++) {
			json_t *p = json_object_get(o, params[i]);

			if (json_is_string(p))
				len += snprintf(key + len, sizeof(key) - (size_t)len, " %s",
						json_string_value(p));
			else if (json_is_integer(p))
				len += snprintf(key + len, sizeof(key) - (size_t)len, " %lld",
						(long long)json_integer_value(p));
		}
		row = find(key, unit);
		if (row) {
			row->value[who][run] = json_number_value(json_object_get(o, "value"));
			row->units[who][run] = json_number_value(json_object_get(o, "units"));
			row->free_pct[who][run] =
				json_number_value(json_object_get(o, "core_free_pct"));
		}
	}
	json_decref(o);
}

/* One program, one benchmark. 0, or 1 with a line on stderr. */
static int run_one(const char *path, unsigned int rounds, const char *name, unsigned int who,
		   unsigned int run)
{
	char text[16], line[4096];
	const char *argv[8] = {path, "--json", name};
	int fds[2], status;
	FILE *f;
	pid_t pid;

	if (rounds) {
		snprintf(text, sizeof(text), "%u", rounds);
		argv[3] = "--rounds";
		argv[4] = text;
	}
	if (pipe(fds))
		goto failed;
	pid = fork();
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		goto failed;
	}
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		execv(path, (char *const *)argv);
		_exit(127);
	}
	close(fds[1]);
	f = fdopen(fds[0], "r");
	while (f && fgets(line, sizeof(line), f))
		take_line(line, who, run);
	if (f)
		fclose(f);
	else
		close(fds[0]);
	if (waitpid(pid, &status, 0) != pid)
		goto failed;
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "vpmu-bench: %s %s: it failed\n", path, name);
		return 1;
	}
	return 0;
failed:
	fprintf(stderr, "vpmu-bench: %s: %s\n", path, strerror(errno));
	return 1;
}

static bool is_rate(const char *unit)
{
	return strstr(unit, "/s") != NULL;
}

/* Values that are neither ratios nor shares. */
static bool is_cost(const char *unit)
{
	static const char *const costs[] = {"ns", "us", "ms", "KiB", "MiB", "bytes"};

	for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++)
		if (!strcmp(unit, costs[i]))
			return true;
	return is_rate(unit);
}

/* The least cost or the highest rate of the runs. */
static double best(const struct row *row, unsigned int who)
{
	double b = 0;

	for (unsigned int i = 0; i < nr_runs; i++) {
		double v = row->value[who][i];

		if (v != 0 && (b == 0 || (is_rate(row->unit) ? v > b : v < b)))
			b = v;
	}
	return b;
}

static double cost_ratio(const struct row *row, double here, double there)
{
	return is_rate(row->unit) ? there / here : here / there;
}

static double mean(const double *v)
{
	double sum = 0;

	for (unsigned int i = 0; i < nr_runs; i++)
		sum += v[i];
	return sum / nr_runs;
}

/* Returns whether it was printed: both programs have it. */
static bool print_row(const struct row *row)
{
	double here = best(row, 0), there = best(row, 1), *ratio = values();
	unsigned int n = 0;

	for (unsigned int i = 0; i < nr_runs; i++)
		/* In units where both have them: the core may be shared in one of the two. */
		if (row->units[0][i] != 0 && row->units[1][i] != 0)
			ratio[n++] = row->units[0][i] / row->units[1][i];
		else if (row->value[0][i] != 0 && row->value[1][i] != 0)
			ratio[n++] = cost_ratio(row, row->value[0][i], row->value[1][i]);
	if (n) {
		qsort(ratio, n, sizeof(*ratio), by_value);
		printf("%-36s %10.2f %10.2f %-8s %6.3f   %5.3f (%5.3f .. %5.3f)  %3.0f%% %3.0f%%\n",
		       row->key, here, there, row->unit, cost_ratio(row, here, there), ratio[n / 2],
		       ratio[n / 4], ratio[n - 1 - n / 4], mean(row->free_pct[0]),
		       mean(row->free_pct[1]));
	}
	free(ratio);
	return n;
}

int vs_run(const char *other, unsigned int runs, unsigned int rounds, const char *const *names)
{
	unsigned int printed = 0;
	char self[4096];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len < 0) {
		fprintf(stderr, "vpmu-bench: /proc/self/exe: %s\n", strerror(errno));
		return 1;
	}
	self[len] = '\0';
	nr_runs = runs;
	for (unsigned int run = 0; run < runs; run++)
		for (unsigned int i = 0; names[i]; i++)
			for (unsigned int k = 0; k < 2; k++) {
				/* Neither is always first. */
				unsigned int who = (run + k) & 1;

				if (run_one(who ? other : self, rounds, names[i], who, run))
					return 1;
			}
	printf("# here: %s\n# there: %s\n# %u runs each, in turn. A ratio above 1: this build is "
	       "slower, or needs more.\n",
	       self, other, runs);
	printf("%-36s %10s %10s %-8s %6s   %s\n", "", "here", "there", "unit", "best",
	       "median (quartiles) of ratios  core free");
	for (unsigned int i = 0; i < nr_rows; i++) {
		if (is_cost(rows[i].unit))
			printed += print_row(&rows[i]);
		for (int who = 0; who < 2; who++) {
			free(rows[i].value[who]);
			free(rows[i].units[who]);
			free(rows[i].free_pct[who]);
		}
	}
	if (!printed) {
		fprintf(stderr, "vpmu-bench: %s has no result in common with this build\n", other);
		return 1;
	}
	return 0;
}
