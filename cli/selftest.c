// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu selftest: known work on this host, as a table of what was expected and seen. main.c calls
 * it. It needs no server; the checks are in selftest/. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "selftest/selftest.h"

struct report {
	bool json;
	json_t *facts, *rows;
	unsigned int nr[3]; /* per result */
};

struct selftest_input {
	struct selftest_opts o;
	bool json;
};

static volatile sig_atomic_t selftest_stopped;

static void selftest_stop(int sig)
{
	selftest_stopped = 1;
}

static const char *const result_names[] = {"PASS", "FAIL", "SKIP"};

static void selftest_fact(void *arg, const struct selftest_fact *f)
{
	struct report *r = arg;

	if (r->json)
		json_array_append_new(r->facts,
				      json_pack("{s:s, s:s}", "what", f->what, "text", f->text));
	else
		printf("# %s: %s\n", f->what, f->text);
}

/* "5", "5..9", ">=5" */
static void selftest_range(char text[48], uint64_t low, uint64_t high)
{
	if (low == high)
		snprintf(text, 48, "%llu", (unsigned long long)low);
	else if (high == UINT64_MAX)
		snprintf(text, 48, ">=%llu", (unsigned long long)low);
	else
		snprintf(text, 48, "%llu..%llu", (unsigned long long)low, (unsigned long long)high);
}

static void selftest_json(json_t *rows, const struct selftest_row *row)
{
	json_t *o =
		json_pack("{s:s, s:s}", "check", row->check, "result", result_names[row->result]);

	if (row->result != SELFTEST_SKIP) {
		json_object_set_new(o, "subject", json_string(row->subject));
		json_object_set_new(o, "low", json_sprintf("%llu", (unsigned long long)row->low));
		if (row->high != UINT64_MAX)
			json_object_set_new(o, "high",
					    json_sprintf("%llu", (unsigned long long)row->high));
		json_object_set_new(o, "seen", json_sprintf("%llu", (unsigned long long)row->seen));
		json_object_set_new(o, "comparisons", json_integer(row->times));
	}
	if (*row->why)
		json_object_set_new(o, "why", json_string(row->why));
	json_array_append_new(rows, o);
}

static void selftest_row(void *arg, const struct selftest_row *row)
{
	struct report *r = arg;
	char expected[48];

	r->nr[row->result]++;
	if (r->json) {
		selftest_json(r->rows, row);
		return;
	}
	if (row->result == SELFTEST_SKIP) {
		printf("SKIP  %-8s %s\n", row->check, row->why);
	} else {
		selftest_range(expected, row->low, row->high);
		printf("%s  %-8s %-31s expected %s, seen %llu", result_names[row->result],
		       row->check, row->subject, expected, (unsigned long long)row->seen);
		if (row->result == SELFTEST_FAIL)
			printf(": %s", row->why);
		else if (row->times > 1)
			printf(" (%u comparisons)", row->times);
		putchar('\n');
	}
	fflush(stdout);
}

enum { OPT_HOTPLUG = 256, OPT_EXACT };

static const struct argp_option options[] = {
	{"hotplug", OPT_HOTPLUG, 0, 0, "Also take a CPU offline for a moment", 0},
	{"exact", OPT_EXACT, 0, 0, "Allow for nothing that real CPUs count in: emulated machines",
	 0},
	{0},
};

static error_t parse_selftest(int key, char *arg, struct argp_state *state)
{
	struct selftest_input *in = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &in->json;
		return 0;
	case OPT_HOTPLUG:
		in->o.hotplug = true;
		return 0;
	case OPT_EXACT:
		in->o.exact = true;
		return 0;
	case ARGP_KEY_ARG:
		cli_one_arg(&in->o.only, arg, "a check", state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Ends the program if there is no check @only; it names those that there are. */
static void selftest_expect(const char *only)
{
	const char *name, *brief;
	char text[200] = "";
	size_t n = 0;

	for (unsigned int i = 0; (name = selftest_name(i, &brief)) && n < sizeof(text); i++) {
		if (!strcmp(name, only))
			return;
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? ", " : "", name);
	}
	cli_usage("selftest: \"%s\" is invalid; expected one of %s", only, text);
}

static const struct argp selftest_argp = {
	.options = options,
	.parser = parse_selftest,
	.children = (const struct argp_child[]){{&cli_json_argp, 0, NULL, 0}, {0}},
	.args_doc = "[CHECK]",
	.doc = "Count known work on this host, in cgroups of its own, and compare. Needs the "
	       "rights of vpmud, and no server."};

int cmd_selftest(struct cli *cli, int argc, char **argv)
{
	const struct sigaction on_stop = {.sa_handler = selftest_stop};
	struct selftest_input in = {.o = {.stop = &selftest_stopped}};
	struct report r = {0};
	char err[512] = "";
	int ret;

	cli_parse(cli, &selftest_argp, argc, argv, NULL, &in);
	if (in.o.only)
		selftest_expect(in.o.only);
	r.json = in.json;
	r.facts = json_array();
	r.rows = json_array();
	in.o.fact = selftest_fact;
	in.o.row = selftest_row;
	in.o.arg = &r;
	sigaction(SIGINT, &on_stop, NULL);
	sigaction(SIGTERM, &on_stop, NULL);
	sigaction(SIGHUP, &on_stop, NULL);
	fflush(stdout); /* the checks fork */
	ret = selftest_run(&in.o, err, sizeof(err));
	if (in.json) {
		json_t *o = json_pack("{s:s, s:b, s:o, s:o, s:i, s:i, s:i}", "version",
				      VPMU_VERSION, "ok", ret == 0, "host", r.facts, "rows", r.rows,
				      "passed", r.nr[SELFTEST_PASS], "failed", r.nr[SELFTEST_FAIL],
				      "skipped", r.nr[SELFTEST_SKIP]);

		json_dumpf(o, stdout, JSON_COMPACT);
		putchar('\n');
		json_decref(o);
	} else {
		if (ret >= 0)
			printf("%u passed, %u failed, %u skipped\n", r.nr[SELFTEST_PASS],
			       r.nr[SELFTEST_FAIL], r.nr[SELFTEST_SKIP]);
		json_decref(r.facts);
		json_decref(r.rows);
	}
	if (ret < 0)
		cli_error("selftest: %s", err);
	return ret ? 1 : 0;
}
