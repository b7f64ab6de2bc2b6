// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu lbr: captures branch records of VMs, reads them once or several times, and prints them as
 * call chains, branches, folded stacks or JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/capture.h"
#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/names.h"
#include "cli/outfile.h"
#include "cli/formats.h"
#include "cli/profile.h"
#include "cli/rows.h"
#include "cli/terminal.h"
#include "cli/wait.h"
#include "service/clock.h"

#define DATA_TIMES 100 /* readings with --folded or --format and without -n */
#define CALL_STACK "call-stack"

struct lbr_opts {
	const char *mode;
	struct look_opts look;
	long times; /* 0: not given */
	bool exact; /* -n was given: no reading is skipped */
	bool sum;   /* the server adds up call chains, printed at the end */
};

enum { OPT_MODE = 1000 };

static const struct argp_option options[] = {
	{"mode", OPT_MODE, "MODE", 0,
	 "Record call-stack (default), branches (with --format=brstack) or calls", 0},
	{"times", 'n', "N", 0,
	 "Read N times, spread over the duration (default: 1; with --folded and --format 100)", 0},
	{0},
};

static error_t lbr_parse(int key, char *arg, struct argp_state *state)
{
	struct lbr_opts *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &o->look;
		return 0;
	case OPT_MODE:
		cli_once(state, key, "--mode");
		cli_choice(state, "--mode", arg, -1u);
		o->mode = arg;
		return 0;
	case 'n':
		o->times = cli_number(state, key, "-n", arg, 1, 1000000);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The sum of all readings of one run. */
struct result {
	const char *capture; /* its name */
	struct images *images;
	uint64_t rows;	 /* vCPUs read, over all readings */
	uint64_t custom; /* of these: the guest records branches of its own */
	uint64_t unread; /* of these: unreadable */
	long missed;	 /* readings skipped because the duration was over */
	bool any;	 /* some had records */
	struct outfile *out;
	struct brstack brstack;
	int64_t start_ns; /* since 1970 */
};

static void lbr_show_one(const struct lbr_opts *o, struct result *r, const struct capture *c)
{
	r->rows++;
	r->any |= !c->error && c->total;
	if (o->look.format == DATA_BRSTACK)
		brstack_print(&r->brstack, r->images, c, outfile_stream(r->out));
	else if (o->look.json)
		capture_print_json(r->images, c);
	else
		capture_print(r->images, c);
}

/* Print one reading. Returns false to stop; the error was printed, or main() will print it. */
static bool lbr_show(const struct lbr_opts *o, struct result *r, const json_t *answer)
{
	struct fields f = {0};
	const json_t *rows = field_array(&f, answer, "rows"), *row;
	bool names = o->look.format != DATA_BRSTACK;
	size_t i;

	/* First collect the code to be named, then print. */
	for (int print = !names; print < 2 && !f.wrong; print++) {
		json_array_foreach (rows, i, row) {
			struct capture c;

			capture_parse(&f, row, &c);
			if (!f.wrong && print)
				lbr_show_one(o, r, &c);
			else if (!f.wrong)
				capture_want(r->images, &c);
			capture_fini(&c);
			if (f.wrong)
				break;
		}
		if (!print)
			images_look(r->images);
	}
	/* A closed pipe or a full disk ends it here; main() prints the error. */
	terminal_flush();
	return fields_ok(&f) && !ferror(outfile_stream(r->out));
}

/* Add one answer to a sum: the server has merged the call chains, so the answer has the same size
 * for one vCPU and for thousands. */
static bool add_up(struct result *r, const json_t *answer)
{
	struct fields f = {0};

	r->rows += field_int(&f, answer, "read", INT32_MAX);
	r->any |= field_int(&f, answer, "with-records", INT32_MAX) != 0;
	r->custom += field_int(&f, answer, "custom", INT32_MAX);
	r->unread += field_int(&f, answer, "unread", INT32_MAX);
	return fields_ok(&f);
}

static void print_folded(const struct result *r, struct fields *f, const json_t *a)
{
	struct frame stacks = {0};

	chains_add(f, r->images, a, &stacks);
	if (!f->wrong)
		stacks_print_folded(&stacks, outfile_stream(r->out));
	stacks_free(&stacks);
}

/* A reading takes the place of a sample, and stands for no number of events. */
static void print_perf_script(const struct result *r, struct fields *f, const json_t *a)
{
	const struct perf_script_about about = {.event = "readings", .period = 1};
	struct perf_script_gaps gaps;

	perf_script_print(&about, f, r->images, a, outfile_stream(r->out), &gaps);
	if (gaps.left_out)
		cli_error("%" PRIu64
			  " readings are missing: they had too many different call chains",
			  gaps.left_out);
}

static int print_pprof(const struct lbr_opts *o, const struct result *r, struct fields *f,
		       const json_t *a)
{
	const struct pprof_about about = {.samples = "readings",
					  .start_ns = r->start_ns,
					  .duration_ns = (int64_t)(o->look.duration_s * 1e9)};
	struct pprof *p = pprof_new(&about);
	int ret = 0;

	pprof_comment(p, "vpmu lbr of %s: call stacks of %" PRIu64 " readings", o->look.target,
		      r->rows);
	pprof_add_answer(p, f, r->images, a);
	if (!f->wrong)
		ret = pprof_write(p, outfile_stream(r->out));
	pprof_free(p);
	return ret;
}

/* Print the sum. Returns the exit status. */
static int print_sum(const struct lbr_opts *o, struct client *c, const struct result *r)
{
	json_t *a =
		client_ask(c, json_pack("{s:s, s:s}", "cmd", "lbr-detach", "capture", r->capture));
	struct fields f = {0};
	int ret = a ? 0 : 1;

	if (a)
		chains_look(&f, r->images, a);
	if (a && o->look.folded)
		print_folded(r, &f, a);
	else if (a && o->look.format == DATA_PERF_SCRIPT)
		print_perf_script(r, &f, a);
	else if (a)
		ret = print_pprof(o, r, &f, a);
	if (ret && a)
		cli_error("lbr: %s", strerror(-ret));
	if (!ret && !fields_ok(&f))
		ret = 1;
	json_decref(a);
	if (r->missed)
		cli_error("lbr: the records were read %ld times instead of %ld: the server did not "
			  "answer in time",
			  o->times - r->missed, o->times);
	if (r->custom)
		cli_error("%" PRIu64 " of %" PRIu64
			  " readings are left out: the guests there record branches of their own",
			  r->custom, r->rows);
	if (r->unread)
		cli_error("%" PRIu64 " of %" PRIu64
			  " readings are left out: they could not be read whole",
			  r->unread, r->rows);
	return ret ? 1 : 0;
}

static int lbr_finish(const struct lbr_opts *o, struct client *c, const struct result *r)
{
	char why[WHY_LEN];

	if (!r->any && (why_not_running(c, o->look.target, why) || !r->rows)) {
		cli_error("lbr: no vCPU of %s has records: %s", o->look.target, why);
		return 1;
	}
	if (o->look.format == DATA_BRSTACK && r->brstack.images > 1)
		cli_error("the branches of %" PRIu64
			  " images are mixed; give a VM, or a tenant with one image for all VMs",
			  r->brstack.images);
	return o->sum ? print_sum(o, c, r) : 0;
}

/* Return the number of the reading after number @i. Once the duration is over, one more is the
 * last, unless -n requested all. */
static long next_reading(const struct lbr_opts *o, struct result *r, long i, double start)
{
	if (!o->exact && i < o->times - 1 && cli_now() >= start + o->look.duration_s) {
		r->missed = o->times - 1 - i;
		i += r->missed;
	}
	return i + 1;
}

/* Read at evenly spaced times from @start on. Returns the exit status. */
static int read_all(const struct lbr_opts *o, struct client *c, struct result *r, double start)
{
	const char *key = o->sum ? "capture" : "target";
	enum cli_wait why = CLI_WAIT_TIME;
	bool ok = true;

	/* After Ctrl-C, one more reading is the last. */
	for (long i = 1; ok && i <= o->times && why == CLI_WAIT_TIME;
	     i = next_reading(o, r, i, start)) {
		json_t *a;

		why = cli_wait(start + o->look.duration_s / (double)o->times * (double)i,
			       client_fd(c));
		if (why == CLI_WAIT_SERVER_GONE) {
			progress_end();
			cli_error("lbr: the server went away");
			return 1;
		}
		a = client_ask(c, json_pack("{s:s, s:s}", "cmd", "lbr-read", key,
					    o->sum ? r->capture : o->look.target));
		ok = a && (o->sum ? add_up(r, a) : lbr_show(o, r, a));
		json_decref(a);
		if (o->look.folded || o->look.format) /* otherwise the output shows it */
			progress_show("lbr", "%ld of %ld readings", i, o->times);
	}
	progress_end();
	return ok ? 0 : 1;
}

static int capture(const struct lbr_opts *o, struct client *c, struct outfile *out)
{
	/* The capture ends with the connection, in whatever way this process ends. */
	json_t *a = names_ask(c,
			      json_pack("{s:s, s:s, s:s}", "cmd", "lbr-attach", "target",
					o->look.target, "mode", o->mode),
			      "target");
	double start = cli_now(); /* recording starts here, before images are loaded */
	struct result r = {.out = out};
	struct fields f = {0};
	int ret = 1;

	if (!a)
		return 1;
	r.start_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	r.capture = field_string(&f, a, "capture");
	if (fields_ok(&f)) {
		rows_note_left_out("lbr", a);
		r.images = images_load(c);
	}
	if (r.images) {
		ret = read_all(o, c, &r, start);
		/* Show the readings taken before the VM or the server went away. */
		if (!ret || r.rows)
			ret |= lbr_finish(o, c, &r);
	}
	brstack_free(&r.brstack);
	images_free(r.images);
	json_decref(a);
	return ret;
}

static int lbr_run(const struct lbr_opts *o, struct client *c)
{
	struct outfile *out;
	int ret;

	if (outfile_open(o->look.output, &out))
		return 1;
	ret = capture(o, c, out);
	return outfile_close(out, !ret) || ret ? 1 : 0;
}

int cmd_lbr(struct cli *cli, int argc, char **argv)
{
	static const struct argp_child children[] = {{&cli_look_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.options = options,
		.parser = lbr_parse,
		.children = children,
		.args_doc = "[TARGET]",
		.doc = "Record branches of a tenant, a VM or everything (/, the default) for a "
		       "time (default: 1 second) and show them. A guest that records branches of "
		       "its own goes on; its own records are shown.",
	};
	struct lbr_opts o = {
		.look = {.duration_s = 1, .formats = DATA_PERF_SCRIPT | DATA_PPROF | DATA_BRSTACK}};
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	o.sum = o.look.folded || (o.look.format && o.look.format != DATA_BRSTACK);
	if (!o.mode)
		o.mode = o.look.format == DATA_BRSTACK ? "branches" : CALL_STACK;
	if (o.sum && strcmp(o.mode, CALL_STACK))
		cli_usage("lbr: %s needs --mode call-stack",
			  o.look.folded ? "--folded" : "this --format");
	if (o.look.format == DATA_BRSTACK && strcmp(o.mode, "branches"))
		cli_usage("lbr: --format=brstack needs --mode branches");
	o.exact = o.times || (!o.look.folded && !o.look.format);
	if (!o.times)
		o.times = o.look.folded || o.look.format ? DATA_TIMES : 1;
	c = client_open(cli, false);
	if (c)
		o.look.target = names_target(c, o.look.target);
	if (c && cli_wait_init() == 0)
		ret = lbr_run(&o, c);
	client_close(c);
	return ret;
}
