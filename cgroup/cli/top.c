// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu top: its options and batch mode. The screen is in top_screen.c. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/cli/commands.h"
#include "cgroup/cli/error.h"
#include "cgroup/cli/top_screen.h"
#include "cgroup/cli/top_source.h"
#include "cgroup/cli/top_view.h"
#include "cgroup/cli/wait.h"

#define DEFAULT_EVENTS "instructions,cycles,branches"
#define BATCH_WIDTH    80 /* columns without $COLUMNS */

static const struct argp_option options[] = {
	{"delay", 'd', "SEC", 0, "Seconds between two updates (default: 1)", 0},
	{"batch", 'b', NULL, 0, "Batch mode: print plain text, for pipes and files", 0},
	{"iterations", 'n', "N", 0, "End after N updates", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->what;
		return 0;
	case 'd':
		o->delay_s = cli_seconds(state, "-d", arg, 3600);
		return 0;
	case 'b':
		o->batch = true;
		return 0;
	case 'n':
		o->iterations = cli_number(state, "-n", arg, 1, 1000000000);
		return 0;
	default:
		return cli_no_args(key, arg, state);
	}
}

/* ---- batch mode --------------------------------------------------------------------------- */

static unsigned int batch_width(void)
{
	const char *env = getenv("COLUMNS");
	long n = env ? strtol(env, NULL, 10) : 0;

	return n >= 40 && n <= 500 ? (unsigned int)n : BATCH_WIDTH;
}

static void print_batch(const struct top_view *v)
{
	unsigned int width = batch_width();
	const char *plane = reading_plane(v->diff);
	char line[512], stamp[32], marks[VIEW_MARKS];
	time_t now = time(NULL);
	struct tm tm;

	strftime(stamp, sizeof(stamp), "%H:%M:%S", localtime_r(&now, &tm));
	printf("vpmu top - %s - events per second over %.2f s%s%s\n", stamp, v->seconds,
	       plane ? " - plane: " : "", plane ? plane : "");
	view_line(v, -1, line, sizeof(line), width);
	puts(line);
	for (size_t i = 0; i < v->nr_rows; i++) {
		view_line(v, (long)v->order[i], line, sizeof(line), width);
		puts(line);
	}
	view_marks(v, marks);
	if (*marks)
		puts(marks + 2);
	putchar('\n');
	fflush(stdout);
}

static int run_batch(struct top_source *src, const struct top_opts *o)
{
	double next = cli_now();

	if (cli_wait_init())
		return 1;
	for (long i = 0; (!o->iterations || i < o->iterations) && !ferror(stdout); i++) {
		const struct reading *diff;
		struct top_view v;
		enum cli_wait why;

		next += o->delay_s;
		why = cli_wait(next, client_fd(src->c));
		if (why == CLI_WAIT_STOP)
			return 0;
		if (why == CLI_WAIT_SERVER_GONE) {
			cli_error("top: the server went away");
			return 1;
		}
		diff = top_take(src);
		if (!diff)
			return 1;
		if (view_init(&v, diff, src->seconds, 0, false))
			print_batch(&v);
		view_fini(&v);
	}
	return 0;
}

int cmd_top(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_what_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = children,
		.doc = "Show rates of tenants (the default), VMs or vCPUs, live. Without "
		       "-e: " DEFAULT_EVENTS ".\v"
		       "Keys: q quits. t, v and c show tenants, VMs and vCPUs. Left and right "
		       "choose the column to sort by, n sorts by name, r reverses. Up and down "
		       "scroll. + and - change the delay.",
	};
	struct top_opts o = {.what = {.events = DEFAULT_EVENTS, .scope = "tenant", .target = "/"},
			     .delay_s = 1};
	struct top_source src;
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (!o.batch && !isatty(STDOUT_FILENO))
		cli_usage("top: standard output is not a terminal; give -b for plain text");
	c = client_open(cli, false);
	if (!c)
		return 1;
	if (top_open(&src, c, &o))
		ret = o.batch ? run_batch(&src, &o) : top_screen(&src, &o);
	top_close(&src);
	client_close(c);
	return ret;
}
