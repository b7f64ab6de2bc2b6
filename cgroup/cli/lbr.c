// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu lbr: capture branch records of VMs, read them once or several times, and show them: call
 * chains, branches, folded stacks or JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/cli/capture.h"
#include "cgroup/cli/client.h"
#include "cgroup/cli/commands.h"
#include "cgroup/cli/error.h"
#include "cgroup/cli/progress.h"
#include "cgroup/cli/rows.h"
#include "cgroup/cli/terminal.h"
#include "cgroup/cli/wait.h"
#include "cgroup/cli/why.h"

#define FOLDED_TIMES 100 /* readings with --folded and without -n */
#define CALL_STACK   "call-stack"

struct lbr_opts {
	const char *mode;
	struct look_opts look;
	long times; /* 0: not given */
	bool exact; /* it was given: no reading is left out */
};

enum { OPT_MODE = 1000 };

static const struct argp_option options[] = {
	{"mode", OPT_MODE, "MODE", 0, "Record call-stack (default), branches or calls", 0},
	{"times", 'n', "N", 0,
	 "Read N times, spread over the duration (default: 1; with --folded 100)", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct lbr_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->look;
		return 0;
	case OPT_MODE:
		cli_once(state, key, "--mode");
		if (strcmp(arg, CALL_STACK) && strcmp(arg, "branches") && strcmp(arg, "calls"))
			cli_usage("lbr: --mode \"%s\": give call-stack, branches or calls", arg);
		o->mode = arg;
		return 0;
	case 'n':
		cli_once(state, key, "-n");
		o->times = cli_number(state, "-n", arg, 1, 1000000);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What all readings of one run add up to. */
struct result {
	const char *capture; /* its name */
	struct images *images;
	uint64_t rows;	 /* vCPUs read, over all readings */
	uint64_t custom; /* of them: the guest records branches of its own */
	uint64_t unread; /* of them: could not be read */
	long missed;	 /* readings left out because the duration was over */
	bool any;	 /* one of them had records */
};

/* Show one reading. false: stop; the error was printed, or main() prints it. */
static bool show(const struct lbr_opts *o, struct result *r, const json_t *answer)
{
	struct fields f = {0};
	const json_t *rows = field_array(&f, answer, "rows"), *row;
	int ret = 0;
	size_t i;

	json_array_foreach (rows, i, row) {
		struct capture c;

		ret = capture_parse(&f, row, &c);
		if (!ret && !f.wrong) {
			r->rows++;
			r->any |= !c.error && c.total;
			if (o->look.json)
				capture_print_json(r->images, &c);
			else
				capture_print(r->images, &c);
		}
		capture_fini(&c);
		if (ret || f.wrong)
			break;
	}
	if (ret)
		cli_error("out of memory");
	/* A closed pipe or a full disk ends it here; main() says why. */
	terminal_flush();
	return !ret && fields_ok(&f) && !ferror(stdout);
}

/* With --folded the server adds the call chains up: an answer is the same for one vCPU and for
 * thousands. */
static bool add_up(struct result *r, const json_t *answer)
{
	struct fields f = {0};

	r->rows += field_int(&f, answer, "read", INT32_MAX);
	r->any |= field_int(&f, answer, "with-records", INT32_MAX) != 0;
	r->custom += field_int(&f, answer, "custom", INT32_MAX);
	r->unread += field_int(&f, answer, "unread", INT32_MAX);
	return fields_ok(&f);
}

/* Print what was added up. Returns the exit status. */
static int print_folded(struct client *c, const struct result *r)
{
	json_t *a =
		client_ask(c, json_pack("{s:s, s:s}", "cmd", "lbr-detach", "capture", r->capture));
	struct frame stacks = {0};
	struct fields f = {0};
	int ret = a ? chains_add(&f, r->images, a, &stacks) : -EIO;

	if (ret == -ENOMEM)
		cli_error("out of memory");
	if (!ret && fields_ok(&f))
		stacks_print_folded(&stacks, stdout);
	stacks_free(&stacks);
	json_decref(a);
	if (r->missed)
		cli_error("lbr: the records were read %ld times instead of %d: the server did not "
			  "answer in time",
			  FOLDED_TIMES - r->missed, FOLDED_TIMES);
	if (r->custom)
		cli_error("%" PRIu64 " of %" PRIu64 " readings are left out: the guests there "
			  "record branches of their own",
			  r->custom, r->rows);
	if (r->unread)
		cli_error("%" PRIu64 " of %" PRIu64 " readings are left out: they could not be "
			  "read whole",
			  r->unread, r->rows);
	return ret || f.wrong ? 1 : 0;
}

static int finish(const struct lbr_opts *o, struct client *c, const struct result *r)
{
	char why[WHY_LEN];

	if (!r->any && (why_not_running(c, o->look.target, why) || !r->rows)) {
		cli_error("lbr: no vCPU of %s has records: %s", o->look.target, why);
		return 1;
	}
	return o->look.folded ? print_folded(c, r) : 0;
}

/* The number of the reading that follows number @i, which has ended. When the duration is over, one
 * more is the last, unless -n asked for all of them. */
static long next_reading(const struct lbr_opts *o, struct result *r, long i, double start)
{
	if (!o->exact && i < o->times - 1 && cli_now() >= start + o->look.duration_s) {
		r->missed = o->times - 1 - i;
		i += r->missed;
	}
	return i + 1;
}

/* Read at evenly spaced times since @start. Returns the exit status. */
static int read_all(const struct lbr_opts *o, struct client *c, struct result *r, double start)
{
	const char *key = o->look.folded ? "capture" : "target";
	enum cli_wait why = CLI_WAIT_TIME;
	bool ok = true;

	/* Ctrl-C: the reading that follows is the last. */
	for (long i = 1; ok && i <= o->times && why == CLI_WAIT_TIME;
	     i = next_reading(o, r, i, start)) {
		json_t *a;

		why = cli_wait(start + o->look.duration_s / (double)o->times * (double)i,
			       client_fd(c));
		if (why == CLI_WAIT_SERVER_GONE) {
			cli_error("lbr: the server went away");
			return 1;
		}
		a = client_ask(c, json_pack("{s:s, s:s}", "cmd", "lbr-read", key,
					    o->look.folded ? r->capture : o->look.target));
		ok = a && (o->look.folded ? add_up(r, a) : show(o, r, a));
		json_decref(a);
		if (o->look.folded) /* otherwise the output shows it */
			progress_show("lbr", "%ld of %ld readings", i, o->times);
	}
	progress_end();
	return ok ? 0 : 1;
}

static int run(const struct lbr_opts *o, struct client *c)
{
	/* The capture ends with the connection, however this process ends. */
	json_t *a = client_ask(c, json_pack("{s:s, s:s, s:s}", "cmd", "lbr-attach", "target",
					    o->look.target, "mode", o->mode));
	double start = cli_now(); /* it records from here on, also while images are loaded */
	struct result r = {0};
	struct fields f = {0};
	int ret = 1;

	if (!a)
		return 1;
	r.capture = field_string(&f, a, "capture");
	if (fields_ok(&f)) {
		rows_note_left_out("lbr", a);
		r.images = images_load(c);
	}
	if (r.images) {
		ret = read_all(o, c, &r, start);
		/* What was read before the VM or the server went away is shown. */
		if (!ret || r.rows)
			ret |= finish(o, c, &r);
	}
	images_free(r.images);
	json_decref(a);
	return ret;
}

int cmd_lbr(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_look_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.children = children,
		.args_doc = "[TARGET]",
		.doc = "Record branches of a tenant, a VM or everything (/, the default) for a "
		       "time "
		       "(default: 1 second) and show them. A guest that records branches of its "
		       "own goes on; its own records are shown.",
	};
	struct lbr_opts o = {.mode = CALL_STACK, .look = {.duration_s = 1}};
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (o.look.folded && strcmp(o.mode, CALL_STACK))
		cli_usage("lbr: --folded needs --mode call-stack");
	o.exact = o.times || !o.look.folded;
	if (!o.times)
		o.times = o.look.folded ? FOLDED_TIMES : 1;
	c = client_open(cli, false);
	if (c && cli_wait_init() == 0)
		ret = run(&o, c);
	client_close(c);
	return ret;
}
