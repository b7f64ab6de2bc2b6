// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu top: options, the session behind it, and batch output. The screen is in top_screen.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/top.h"

#define BATCH_WIDTH 80 /* without $COLUMNS */

enum { OPT_FOR_EACH = 1000 };

static const struct argp_option options[] = {
	{"event", 'e', "LIST", 0, "Events (default: instructions,cycles,branches)", 0},
	{"for-each", OPT_FOR_EACH, "KIND", 0, "tenant (default), vm or vcpu", 0},
	{"target", 't', "WHAT", 0, "Only inside this tenant or VM", 0},
	{"delay", 'd', "SEC", 0, "Seconds between updates (default: 1)", 0},
	{"batch", 'b', NULL, 0, "Plain text, for pipes and files", 0},
	{"iterations", 'n', "N", 0, "End after N updates", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top_opts *o = state->input;

	switch (key) {
	case 'e':
		o->events = arg;
		return 0;
	case OPT_FOR_EACH:
		if (strcmp(arg, "tenant") && strcmp(arg, "vm") && strcmp(arg, "vcpu"))
			cli_usage("top: --for-each \"%s\": tenant, vm or vcpu is accepted", arg);
		o->scope = arg;
		return 0;
	case 't':
		o->target = arg;
		return 0;
	case 'd':
		o->delay_s = cli_seconds("top: -d", arg, 3600);
		return 0;
	case 'b':
		o->batch = true;
		return 0;
	case 'n':
		o->iterations = cli_number("top: -n", arg, 1, 1000000000);
		return 0;
	default:
		return cli_no_args(key, arg, state);
	}
}

/* ---- the session -------------------------------------------------------------------------- */

bool top_open(struct top_source *src, struct client *c, const struct top_opts *o)
{
	json_t *resp = client_ask(c, json_pack("{s:s, s:s, s:s, s:s}", "cmd", "attach", "events",
					       o->events, "scope", o->scope, "target", o->target));
	const char *name = json_string_value(json_object_get(resp, "session"));

	*src = (struct top_source){.c = c, .session = name ? strdup(name) : NULL};
	json_decref(resp);
	return src->session && top_take(src);
}

const struct reading *top_take(struct top_source *src)
{
	json_t *resp =
		client_ask(src->c, json_pack("{s:s, s:s}", "cmd", "read", "session", src->session));
	struct reading *now = resp ? reading_parse(resp) : NULL;
	struct reading *diff = now ? reading_parse(resp) : NULL;

	json_decref(resp);
	if (!diff) {
		reading_free(now);
		return NULL;
	}
	src->seconds = (double)(now->age_ns - (src->before ? src->before->age_ns : 0)) / 1e9;
	reading_subtract(diff, src->before);
	reading_free(src->diff);
	reading_free(src->before);
	src->before = now;
	src->diff = diff;
	return diff;
}

void top_close(struct top_source *src)
{
	json_t *resp = NULL;
	char *err = NULL;

	if (src->session)
		resp = client_try(src->c,
				  json_pack("{s:s, s:s}", "cmd", "detach", "session", src->session),
				  &err);
	json_decref(resp);
	free(err);
	reading_free(src->diff);
	reading_free(src->before);
	free(src->session);
	*src = (struct top_source){0};
}

/* ---- batch -------------------------------------------------------------------------------- */

static unsigned int batch_width(void)
{
	const char *env = getenv("COLUMNS");
	long n = env ? strtol(env, NULL, 10) : 0;

	return n >= 40 && n <= 500 ? (unsigned int)n : BATCH_WIDTH;
}

static void print_batch(const struct top_view *v)
{
	unsigned int width = batch_width();
	char line[512], stamp[32];
	time_t now = time(NULL);
	struct tm tm;

	strftime(stamp, sizeof(stamp), "%H:%M:%S", localtime_r(&now, &tm));
	printf("vpmu top - %s - events per second over %.2f s\n", stamp, v->seconds);
	view_line(v, -1, line, sizeof(line), width);
	puts(line);
	for (size_t i = 0; i < v->nr_rows; i++) {
		view_line(v, (long)v->order[i], line, sizeof(line), width);
		puts(line);
	}
	if (v->modelled || v->estimated || v->scaled)
		puts("~ modelled   ? estimated or tsc   * scaled up: counted part of the time");
	putchar('\n');
	fflush(stdout);
}

static int run_batch(struct top_source *src, const struct top_opts *o)
{
	struct timespec delay = {.tv_sec = (time_t)o->delay_s};

	delay.tv_nsec = (long)((o->delay_s - (double)delay.tv_sec) * 1e9);
	for (long i = 0; (!o->iterations || i < o->iterations) && !ferror(stdout); i++) {
		const struct reading *diff;
		struct top_view v;

		nanosleep(&delay, NULL);
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
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.doc = "Rates of tenants, VMs or vCPUs, live.\v"
		       "Keys: q quit; t, v, c tenants, VMs, vCPUs; left, right and n what to sort "
		       "by; r reverse; up, down scroll; + and - change the delay.",
	};
	struct top_opts o = {.events = "instructions,cycles,branches",
			     .scope = "tenant",
			     .target = "/",
			     .delay_s = 1};
	struct top_source src;
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (!o.batch && !isatty(STDOUT_FILENO))
		cli_usage("top: standard output is no terminal; -b is accepted there");
	c = client_open(cli, false);
	if (!c)
		return 1;
	if (top_open(&src, c, &o))
		ret = o.batch ? run_batch(&src, &o) : top_screen(&src, &o);
	top_close(&src);
	client_close(c);
	return ret;
}
