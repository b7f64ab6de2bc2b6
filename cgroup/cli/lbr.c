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
#include "cgroup/cli/rows.h"
#include "cgroup/cli/wait.h"

#define FOLDED_TIMES 100 /* readings with --folded and without -n */
#define CALL_STACK   "call-stack"

struct lbr_opts {
	const char *mode;
	struct look_opts look;
	long times; /* 0: not given */
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
		if (strcmp(arg, CALL_STACK) && strcmp(arg, "branches") && strcmp(arg, "calls"))
			cli_usage("lbr: --mode \"%s\": give call-stack, branches or calls", arg);
		o->mode = arg;
		return 0;
	case 'n':
		o->times = cli_number(state, "-n", arg, 1, 1000000);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What all readings of one run add up to. */
struct result {
	struct images *images;
	struct frame stacks;
	uint64_t rows;	 /* vCPUs read, over all readings */
	uint64_t custom; /* of them: the guest records branches of its own */
	uint64_t unread; /* of them: could not be read */
};

/* Show the row @c, or add it to the stacks. 0 or -ENOMEM. */
static int take_row(const struct lbr_opts *o, struct result *r, const struct capture *c)
{
	struct chain ch;

	r->rows++;
	r->unread += c->error != NULL;
	r->custom += !c->error && strcmp(c->mode, o->mode) != 0;
	if (o->look.json) {
		capture_print_json(r->images, c);
	} else if (!o->look.folded) {
		capture_print(r->images, c);
	} else if (!c->error && capture_is_call_stack(c)) {
		capture_chain(c, &ch);
		return chain_add(&r->stacks, r->images, &ch, 1);
	}
	return 0;
}

/* Show or add up one reading. false: stop; the error was printed, or main() prints it. */
static bool take(const struct lbr_opts *o, struct result *r, const json_t *answer)
{
	struct fields f = {0};
	const json_t *rows = field_array(&f, answer, "rows"), *row;
	int ret = 0;
	size_t i;

	json_array_foreach (rows, i, row) {
		struct capture c;

		ret = capture_parse(&f, row, &c);
		if (!ret && !f.wrong)
			ret = take_row(o, r, &c);
		capture_fini(&c);
		if (ret || f.wrong)
			break;
	}
	if (ret)
		cli_error("out of memory");
	/* A closed pipe or a full disk ends it here; main() says why. */
	return !ret && fields_ok(&f) && fflush(stdout) == 0;
}

static int finish(const struct lbr_opts *o, const struct result *r)
{
	if (!r->rows) {
		cli_error("lbr: no vCPU of %s has records; a vCPU that runs has", o->look.target);
		return 1;
	}
	if (!o->look.folded)
		return 0;
	stacks_print_folded(&r->stacks, stdout);
	if (r->custom)
		cli_error("%" PRIu64 " of %" PRIu64 " readings are left out: the guests there "
			  "record branches of their own",
			  r->custom, r->rows);
	if (r->unread)
		cli_error("%" PRIu64 " of %" PRIu64 " readings are left out: they could not be "
			  "read whole",
			  r->unread, r->rows);
	return 0;
}

/* Read at evenly spaced times. Returns the exit status. */
static int read_all(const struct lbr_opts *o, struct client *c, struct result *r)
{
	double start = cli_now();

	for (long i = 1; i <= o->times; i++) {
		double next = start + o->look.duration_s / (double)o->times * (double)i;
		enum cli_wait why = cli_wait(next, client_fd(c));
		json_t *a;
		bool ok;

		if (why == CLI_WAIT_SERVER_GONE) {
			cli_error("lbr: the server went away");
			return 1;
		}
		a = client_ask(
			c, json_pack("{s:s, s:s}", "cmd", "lbr-read", "target", o->look.target));
		ok = a && take(o, r, a);
		json_decref(a);
		if (!ok)
			return 1;
		if (why == CLI_WAIT_STOP) /* Ctrl-C: that was the last reading */
			return 0;
	}
	return 0;
}

static int run(const struct lbr_opts *o, struct client *c)
{
	/* The capture ends with the connection, however this process ends. */
	json_t *a = client_ask(c, json_pack("{s:s, s:s, s:s}", "cmd", "lbr-attach", "target",
					    o->look.target, "mode", o->mode));
	struct result r = {0};
	int ret;

	if (!a)
		return 1;
	rows_note_left_out("lbr", a);
	json_decref(a);
	r.images = images_load(c);
	if (!r.images)
		return 1;
	ret = read_all(o, c, &r);
	/* What was read before the VM or the server went away is shown. */
	if (!ret || r.rows)
		ret |= finish(o, &r);
	stacks_free(&r.stacks);
	images_free(r.images);
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
	if (!o.times)
		o.times = o.look.folded ? FOLDED_TIMES : 1;
	c = client_open(cli, false);
	if (c && cli_wait_init() == 0)
		ret = run(&o, c);
	client_close(c);
	return ret;
}
