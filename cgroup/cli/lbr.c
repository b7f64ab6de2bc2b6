// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu lbr: capture branch records of VMs, once or several times, and show them: call chains,
 * branches, folded stacks or JSON.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/output.h"
#include "cgroup/cli/stacks.h"
#include "cgroup/cli/symbols.h"
#include "cgroup/cli/wait.h"

#define CHAIN_MAX    64
#define FOLDED_TIMES 100 /* readings by default with --folded */
#define CALL_STACK   "call-stack"

struct lbr_opts {
	const char *mode, *target;
	double duration_s;
	long times; /* 0: not said */
	bool folded, json;
};

enum { OPT_MODE = 1000, OPT_FOLDED };

static const struct argp_option options[] = {
	{"mode", OPT_MODE, "MODE", 0, "call-stack (default), branches or calls", 0},
	{"duration", 'd', "SEC", 0, "Record for SEC seconds (default: 1)", 0},
	{"times", 'n', "N", 0,
	 "Read N times, spread over the duration (default: 1; with --folded 100)", 0},
	{"folded", OPT_FOLDED, NULL, 0, "Call chains as folded stacks with counts", 0},
	{"json-output", 'j', NULL, 0, "One JSON object per vCPU and line", 0},
	{0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct lbr_opts *o = state->input;

	switch (key) {
	case OPT_MODE:
		if (strcmp(arg, CALL_STACK) && strcmp(arg, "branches") && strcmp(arg, "calls"))
			cli_usage("lbr: --mode \"%s\": call-stack, branches or calls is accepted",
				  arg);
		o->mode = arg;
		return 0;
	case 'd':
		o->duration_s = cli_seconds("lbr: -d", arg, 1e6);
		return 0;
	case 'n':
		o->times = cli_number("lbr: -n", arg, 1, 1000000);
		return 0;
	case OPT_FOLDED:
		o->folded = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->target)
			cli_usage("lbr: \"%s\": one TARGET is accepted", arg);
		o->target = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* What the captures of one run add up to. */
struct result {
	struct images *images;
	struct frame stacks;
	uint64_t rows;	 /* vCPUs read, over all times */
	uint64_t custom; /* of them: with other records than asked for */
	uint64_t unread; /* of them: that could not be read */
};

static const char *string_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "?";
}

static bool is_call_stack(const json_t *row)
{
	return strcmp(string_of(row, "mode"), CALL_STACK) == 0;
}

static const char *function(struct images *im, const json_t *row, const json_t *address,
			    char buf[ADDRESS_LEN])
{
	uint64_t a;

	if (address_parse(address, &a))
		return strcpy(buf, "[unknown]");
	return images_function(im, string_of(row, "vm"), a, buf);
}

static const char *place(struct images *im, const json_t *row, const json_t *address,
			 char buf[ADDRESS_LEN])
{
	uint64_t a;

	if (address_parse(address, &a))
		return strcpy(buf, "[unknown]");
	return images_place(im, string_of(row, "vm"), a, buf);
}

/*
 * The call chain, innermost first: where the newest call led to, then where each call came from.
 * Returns how many.
 */
static size_t chain_of(const json_t *row, const json_t *address[CHAIN_MAX])
{
	const json_t *entry;
	size_t i, n = 0;

	json_array_foreach (json_object_get(row, "entries"), i, entry) {
		if (i == 0)
			address[n++] = json_object_get(entry, "to");
		if (n < CHAIN_MAX)
			address[n++] = json_object_get(entry, "from");
	}
	return n;
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *branch_object(struct images *im, const json_t *row, const json_t *entry)
{
	char from[ADDRESS_LEN], to[ADDRESS_LEN];
	json_t *obj = json_pack("{s:s, s:s, s:s}", "from",
				place(im, row, json_object_get(entry, "from"), from), "to",
				place(im, row, json_object_get(entry, "to"), to), "type",
				string_of(entry, "type"));

	if (json_object_get(entry, "cycles"))
		json_object_set(obj, "cycles", json_object_get(entry, "cycles"));
	return obj;
}

static void print_json(struct images *im, const json_t *row)
{
	const json_t *address[CHAIN_MAX], *entry;
	json_t *list = json_array(), *obj;
	char buf[ADDRESS_LEN];
	size_t i, n;

	obj = json_pack("{s:s, s:s, s:i, s:s, s:s}", "kind", "lbr", "vm", string_of(row, "vm"),
			"vcpu", (int)json_integer_value(json_object_get(row, "vcpu")), "source",
			string_of(row, "source"), "mode", string_of(row, "mode"));
	if (json_object_get(row, "error")) {
		json_object_set(obj, "error", json_object_get(row, "error"));
		json_decref(list);
	} else if (is_call_stack(row)) {
		n = chain_of(row, address);
		for (i = 0; i < n; i++)
			json_array_append_new(list,
					      json_string(function(im, row, address[i], buf)));
		json_object_set_new(obj, "chain", list);
	} else {
		json_array_foreach (json_object_get(row, "entries"), i, entry)
			json_array_append_new(list, branch_object(im, row, entry));
		json_object_set_new(obj, "branches", list);
	}
	json_dumpf(obj, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(obj);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_text(struct images *im, const json_t *row)
{
	const json_t *address[CHAIN_MAX], *entry;
	char from[ADDRESS_LEN], to[ADDRESS_LEN], group[GROUP_LEN];
	size_t i, n = json_array_size(json_object_get(row, "entries"));

	printf("%s/%d", string_of(row, "vm"),
	       (int)json_integer_value(json_object_get(row, "vcpu")));
	if (json_object_get(row, "error")) {
		printf(": %s\n", string_of(row, "error"));
		return;
	}
	printf(": %s, %s: %zu of %s records, newest first\n",
	       strcmp(string_of(row, "source"), "guest") ? "captured" : "the guest's own",
	       string_of(row, "mode"), n,
	       out_group(strtoull(string_of(row, "total"), NULL, 10), group));
	if (is_call_stack(row)) {
		n = chain_of(row, address);
		for (i = 0; i < n; i++)
			printf("    %s\n", place(im, row, address[i], from));
		return;
	}
	json_array_foreach (json_object_get(row, "entries"), i, entry) {
		const json_t *cycles = json_object_get(entry, "cycles");

		printf("    %-8s %-30s -> %s", string_of(entry, "type"),
		       place(im, row, json_object_get(entry, "from"), from),
		       place(im, row, json_object_get(entry, "to"), to));
		if (cycles)
			printf("  %lld cycles (modelled)", (long long)json_integer_value(cycles));
		putchar('\n');
	}
}

/* ---- stacks --------------------------------------------------------------------------------- */

static int add_stack(struct result *r, const json_t *row)
{
	const json_t *address[CHAIN_MAX];
	char buf[CHAIN_MAX][ADDRESS_LEN], vcpu[24];
	const char *name[CHAIN_MAX + 2] = {string_of(row, "vm"), vcpu};
	size_t n = chain_of(row, address);

	snprintf(vcpu, sizeof(vcpu), "vcpu%d",
		 (int)json_integer_value(json_object_get(row, "vcpu")));
	for (size_t i = 0; i < n; i++)
		name[2 + i] = function(r->images, row, address[n - 1 - i], buf[i]);
	/* Without a call that has not returned it is not known where the vCPU was. */
	if (!n)
		name[2] = "[no calls]";
	return stacks_add(&r->stacks, name, 2 + (n ? n : 1), 1);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static int take(const struct lbr_opts *o, struct result *r, const json_t *answer)
{
	const json_t *row;
	size_t i;

	json_array_foreach (json_object_get(answer, "rows"), i, row) {
		r->rows++;
		r->unread += json_object_get(row, "error") != NULL;
		if (!json_object_get(row, "error") && strcmp(string_of(row, "mode"), o->mode))
			r->custom++;
		if (o->json)
			print_json(r->images, row);
		else if (!o->folded)
			print_text(r->images, row);
		else if (is_call_stack(row) && add_stack(r, row)) {
			cli_error("out of memory");
			return -ENOMEM;
		}
	}
	/* Nobody reads any more, or the disk is full: main says why. */
	return fflush(stdout) ? -EIO : 0;
}

static int finish(const struct lbr_opts *o, struct result *r)
{
	if (!r->rows) {
		cli_error("lbr: no vCPU of %s had records; one that runs is accepted", o->target);
		return 1;
	}
	if (o->folded)
		stacks_print_folded(&r->stacks, stdout);
	if (o->folded && r->custom)
		cli_error("%" PRIu64 " of %" PRIu64 " readings are not in it: the guests there "
			  "record branches of their own",
			  r->custom, r->rows);
	if (o->folded && r->unread)
		cli_error("%" PRIu64 " of %" PRIu64 " readings are not in it: they could not be "
			  "read whole",
			  r->unread, r->rows);
	return 0;
}

static int run(const struct lbr_opts *o, struct client *c)
{
	json_t *a = client_ask(c, json_pack("{s:s, s:s, s:s}", "cmd", "lbr-attach", "target",
					    o->target, "mode", o->mode));
	struct result r = {0};
	enum cli_wait w = CLI_WAIT_TIME;
	double start;
	int ret = 0;

	if (!a)
		return 1;
	json_decref(a);
	r.images = images_load(c);
	if (!r.images)
		return 1;
	start = cli_now();
	/* The capture ends with the connection, whatever happens. */
	for (long i = 0; i < o->times && !ret && w == CLI_WAIT_TIME; i++) {
		double next = o->duration_s / (double)o->times * (double)(i + 1);
		double left = start + next - cli_now();

		w = cli_wait(left > 0 ? left : 0, client_fd(c));
		if (w == CLI_WAIT_SERVER_GONE) {
			cli_error("the server went away");
			ret = 1;
			break;
		}
		a = client_ask(c, json_pack("{s:s, s:s}", "cmd", "lbr-read", "target", o->target));
		ret = a ? take(o, &r, a) ? 1 : 0 : 1;
		json_decref(a);
	}
	/* What was read until the VM or the server went is not thrown away. */
	if (!ret || r.rows)
		ret |= finish(o, &r);
	stacks_free(&r.stacks);
	images_free(r.images);
	return ret;
}

int cmd_lbr(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[TARGET]",
		.doc = "Record branches of a tenant, a VM or the whole host (/, the default) and "
		       "show "
		       "them. A guest that records branches of its own goes on doing so, and those "
		       "are shown.",
	};
	struct lbr_opts o = {.mode = CALL_STACK, .duration_s = 1};
	struct client *c;
	int ret = 1;

	cli_parse(cli, &argp, argc, argv, NULL, &o);
	if (o.folded && o.json)
		cli_usage("lbr: --folded and -j: one of them is accepted");
	if (o.folded && strcmp(o.mode, CALL_STACK))
		cli_usage("lbr: --folded needs --mode call-stack");
	if (!o.times)
		o.times = o.folded ? FOLDED_TIMES : 1;
	if (!o.target)
		o.target = "/";
	c = client_open(cli, false);
	if (c && cli_wait_init() == 0)
		ret = run(&o, c);
	client_close(c);
	return ret;
}
