// SPDX-License-Identifier: GPL-2.0-or-later
/* Command lines of the subcommands; see options.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/complete.h"
#include "cli/error.h"
#include "cli/options.h"
#include "cli/options_check.h"
#include "service/program/memory.h"

#define DURATION_MAX_S 1e6
#define LIST_MAX       8192 /* bytes of all -e together */
#define OPT_KEYS       4096 /* above all option keys */

/* ---- values ------------------------------------------------------------------------------- */

const char *cli_command(const struct argp_state *state)
{
	const char *blank = strchr(state->name, ' '); /* the name is "vpmu stat" */

	return blank ? blank + 1 : state->name;
}

void cli_once(const struct argp_state *state, int key, const char *option)
{
	static bool given[OPT_KEYS];

	if (given[key])
		cli_usage("%s: %s is given twice; give it once", cli_command(state), option);
	given[key] = true;
}

error_t cli_text(const struct argp_state *state, int key, const char *option, const char *text,
		 const char **out)
{
	cli_once(state, key, option);
	*out = text;
	return 0;
}

unsigned int cli_choice(const struct argp_state *state, const char *option, const char *text,
			unsigned int have)
{
	const char *const *values = cli_values(option + 2);
	char list[64] = "";
	size_t len = 0;
	bool last;

	for (unsigned int i = 0; values[i]; i++) {
		if (!(have & 1u << i))
			continue;
		if (!strcmp(text, values[i]))
			return i;
		have &= ~(1u << i);
		last = !have || !values[i + 1];
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%s",
					!len   ? ""
					: last ? " or "
					       : ", ",
					values[i]);
	}
	cli_usage("%s: %s \"%s\" is invalid; expected %s", cli_command(state), option, text, list);
}

long cli_number(const struct argp_state *state, int key, const char *option, const char *text,
		long min, long max)
{
	char *end;
	long v;

	cli_once(state, key, option);
	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < min || v > max)
		cli_usage("%s: %s \"%s\" is invalid; expected a number from %ld to %ld",
			  cli_command(state), option, text, min, max);
	return v;
}

double cli_seconds(const struct argp_state *state, int key, const char *option, const char *text,
		   double max)
{
	char *end;
	double v = strtod(text, &end);

	cli_once(state, key, option);
	if (end == text || *end || !isfinite(v) || v <= 0 || v > max)
		cli_usage("%s: %s \"%s\" is invalid; expected seconds above 0 and up to %.0f",
			  cli_command(state), option, text, max);
	return v;
}

void cli_one_arg(const char **out, const char *arg, const char *what,
		 const struct argp_state *state)
{
	if (*out)
		cli_usage("%s: \"%s\" and \"%s\": give only one %s", cli_command(state), *out, arg,
			  what);
	*out = arg;
}

error_t cli_no_args(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		cli_usage("%s: \"%s\": this command takes no argument", cli_command(state), arg);
	return ARGP_ERR_UNKNOWN;
}

/* ---- options of several subcommands ------------------------------------------------------- */

enum { OPT_FOR_EACH = 2000, OPT_FOLDED, OPT_FORMAT, OPT_NO_BIG_NUM, OPT_SINCE, OPT_UNTIL };

/* Repeated -e or -M form one list: append @arg to @all. */
static const char *add_list(char all[LIST_MAX], const char *option, const char *arg,
			    const struct argp_state *state)
{
	size_t n = strlen(all);

	if (!*arg)
		cli_usage("%s: %s: the list is empty; expected NAME[,NAME...]", cli_command(state),
			  option);
	if (n + strlen(arg) + 2 > LIST_MAX)
		cli_usage("%s: %s: give up to %d bytes of names", cli_command(state), option,
			  LIST_MAX - 2);
	snprintf(all + n, LIST_MAX - n, "%s%s", n ? "," : "", arg);
	return all;
}

static void add_target(struct what_opts *o, enum target_kind kind, const char *arg,
		       const struct argp_state *state)
{
	for (size_t i = 0; i < o->nr_targets; i++)
		if (o->kind[i] == kind && strcmp(o->target[i], arg) == 0)
			return;
	if (o->nr_targets == CLI_TARGETS_MAX)
		cli_usage("%s: -t: give up to %d targets", cli_command(state), CLI_TARGETS_MAX);
	o->kind[o->nr_targets] = kind;
	o->target[o->nr_targets++] = arg;
}

/* Add each part of @list, which is separated by commas as in perf. */
static void add_targets(struct what_opts *o, enum target_kind kind, char *list,
			const struct argp_state *state)
{
	char *part;

	while ((part = strsep(&list, ","))) {
		if (!*part)
			cli_usage("%s: %s: a part of the list is empty", cli_command(state),
				  kind == TARGET_PID ? "-p" : "-G");
		add_target(o, kind, part, state);
	}
}

static error_t parse_what(int key, char *arg, struct argp_state *state)
{
	static char events[LIST_MAX];
	struct what_opts *o = state->input;

	switch (key) {
	case 'e':
		o->events = add_list(events, "-e", arg, state);
		return 0;
	case OPT_FOR_EACH:
		cli_once(state, key, "--for-each");
		cli_choice(state, "--for-each", arg, -1u);
		o->scope = arg;
		return 0;
	case 't':
		add_target(o, TARGET_NAME, arg, state);
		return 0;
	case 'a':
		o->all = true;
		return 0;
	case 'p':
		add_targets(o, TARGET_PID, arg, state);
		return 0;
	case 'G':
		add_targets(o, TARGET_CGROUP, arg, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option what_options[] = {
	{"event", 'e', "LIST", 0, "The events, as for perf stat -e; several -e add up", 0},
	{"for-each", OPT_FOR_EACH, "KIND", 0, "One row for each tenant, vm or vcpu", 0},
	{"target", 't', "TARGET", 0,
	 "A tenant (/acme), a VM (web-1) or everything (/, the default); several -t add up", 0},
	{"all-cpus", 'a', NULL, 0, "Everything, as without -t", 0},
	{"pid", 'p', "PID", 0, "The VM or the tenant of process PID, as -t", 0},
	{"cgroup", 'G', "CGROUP", 0, "The tenant of cgroup CGROUP, as -t", 0},
	{0},
};

const struct argp cli_what_argp = {.options = what_options, .parser = parse_what};

static error_t parse_cpus(int key, char *arg, struct argp_state *state)
{
	struct what_opts *o = state->input;

	if (key != 'C')
		return ARGP_ERR_UNKNOWN;
	return cli_text(state, key, "-C", arg, &o->cpus);
}

static const struct argp_option cpus_options[] = {
	{"cpu", 'C', "CPUS", 0, "Only what runs on these CPUs of the host (0,2-4)", 0},
	{0},
};

const struct argp cli_cpus_argp = {.options = cpus_options, .parser = parse_cpus};

static error_t parse_past(int key, char *arg, struct argp_state *state)
{
	struct past_opts *o = state->input;

	switch (key) {
	case OPT_SINCE:
		return cli_text(state, key, "--since", arg, &o->since);
	case OPT_UNTIL:
		return cli_text(state, key, "--until", arg, &o->until);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option past_options[] = {
	{"since", OPT_SINCE, "TIME", 0,
	 "Show what vpmud has kept since TIME: -30m, 03:12, \"2026-11-28 03:12:00\"", 0},
	{"until", OPT_UNTIL, "TIME", 0, "With --since, up to TIME instead of now", 0},
	{0},
};

const struct argp cli_past_argp = {.options = past_options, .parser = parse_past};

static error_t parse_metric(int key, char *arg, struct argp_state *state)
{
	static char metrics[LIST_MAX];
	const char **list = state->input;

	if (key != 'M')
		return ARGP_ERR_UNKNOWN;
	*list = add_list(metrics, "-M", arg, state);
	return 0;
}

static const struct argp_option metric_options[] = {
	{"metrics", 'M', "LIST", 0,
	 "Metrics, which `vpmu metrics` lists, computed from events that are counted as well; "
	 "several -M add up",
	 0},
	{0},
};

const struct argp cli_metric_argp = {.options = metric_options, .parser = parse_metric};

static error_t parse_format(int key, char *arg, struct argp_state *state)
{
	struct format_opts *o = state->input;

	switch (key) {
	case 'x':
		cli_once(state, key, "-x");
		if (!*arg)
			cli_usage("%s: -x: give a separator that is not empty, such as \",\"",
				  cli_command(state));
		o->sep = arg;
		break;
	case 'j':
		o->json = true;
		break;
	case OPT_NO_BIG_NUM:
		o->plain = true;
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (o->json && o->sep)
		cli_usage("%s: give only one of -j and -x", cli_command(state));
	return 0;
}

static const struct argp_option format_options[] = {
	{"field-separator", 'x', "SEP", 0, "Print one value per line, fields separated by SEP", 0},
	{"json-output", 'j', NULL, 0, "Print one JSON object per value and line", 0},
	{"no-big-num", OPT_NO_BIG_NUM, NULL, 0, "Print numbers without thousands separators", 0},
	{0},
};

const struct argp cli_format_argp = {.options = format_options, .parser = parse_format};

static error_t parse_json(int key, char *arg, struct argp_state *state)
{
	bool *json = state->input;

	if (key != 'j')
		return cli_no_args(key, arg, state);
	*json = true;
	return 0;
}

static const struct argp_option json_options[] = {
	{"json-output", 'j', NULL, 0, "Print one JSON object per line", 0},
	{"json", 0, NULL, OPTION_ALIAS, NULL, 0},
	{0},
};

const struct argp cli_json_argp = {.options = json_options, .parser = parse_json};

static void check_look(const struct argp_state *state, struct look_opts *o)
{
	if (o->folded + o->json + (o->format != DATA_NONE) > 1)
		cli_usage("%s: give only one of --format, --folded and -j", cli_command(state));
	if (o->output && !o->folded && !o->format)
		cli_usage("%s: -o needs --format or --folded", cli_command(state));
	if (o->format == DATA_PPROF && (!o->output || !strcmp(o->output, "-")) && isatty(1))
		cli_usage("%s: --format=pprof is not text: give a file with -o",
			  cli_command(state));
	if (!o->target)
		o->target = "/";
}

static error_t parse_look(int key, char *arg, struct argp_state *state)
{
	struct look_opts *o = state->input;

	switch (key) {
	case 'd':
		o->duration_s = cli_seconds(state, key, "-d", arg, DURATION_MAX_S);
		return 0;
	case OPT_FOLDED:
		o->folded = true;
		return 0;
	case 'j':
		o->json = true;
		return 0;
	case OPT_FORMAT:
		cli_once(state, key, "--format");
		o->format = 1u << cli_choice(state, "--format", arg, o->formats);
		return 0;
	case 'o':
		return cli_text(state, key, "-o", arg, &o->output);
	case ARGP_KEY_ARG:
		if (state->quoted) /* as for perf record */
			cli_usage("%s: \"%s\" is invalid behind --; expected a TARGET of `vpmu "
				  "list`; `vpmu stat -- COMMAND` counts a command",
				  cli_command(state), arg);
		cli_one_arg(&o->target, arg, "target", state);
		return 0;
	case ARGP_KEY_END:
		check_look(state, o);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option look_options[] = {
	{"duration", 'd', "SEC", 0, "Stop after SEC seconds; fractions are allowed", 0},
	{"folded", OPT_FOLDED, NULL, 0, "Print call chains as folded stacks, for flame graphs", 0},
	{"json-output", 'j', NULL, 0, "Print one JSON object per line", 0},
	{"format", OPT_FORMAT, "FORMAT", 0,
	 "Print data for other tools: perf-script, pprof or, of vpmu lbr, brstack", 0},
	{"output", 'o', "FILE", 0, "Write what --format or --folded print to FILE", 0},
	{0},
};

const struct argp cli_look_argp = {.options = look_options, .parser = parse_look};

/* ---- the parser of all subcommands -------------------------------------------------------- */

static error_t parse_socket(int key, char *arg, struct argp_state *state)
{
	struct cli *cli = state->input;

	if (key == 'h') {
		argp_state_help(state, stdout, ARGP_HELP_STD_HELP);
		return 0;
	}
	if (key != 'S')
		return ARGP_ERR_UNKNOWN;
	cli_once(state, key, "-S");
	if (!*arg)
		cli_usage("-S: give the path of a socket, not an empty string");
	cli->socket = arg;
	return 0;
}

static const struct argp_option socket_options[] = {
	{"socket", 'S', "PATH", 0,
	 "The server's socket (default: $VPMU_SOCKET, then the usual places)", 1},
	{NULL, 'h', NULL, 0, "As --help", -1},
	{0},
};

const struct argp cli_socket_argp = {.options = socket_options, .parser = parse_socket};

/* The outer parser gives -S to one child and everything else to the other. */
struct outer {
	struct cli *cli;
	void *own;
	int first_arg;
	bool stop_at_arg;
};

static error_t parse_outer(int key, char *arg, struct argp_state *state)
{
	struct outer *o = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = o->own;
		state->child_inputs[1] = o->cli;
		return 0;
	case ARGP_KEY_ARG:
		if (!o->stop_at_arg)
			return ARGP_ERR_UNKNOWN;
		o->first_arg = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv, int *first_arg,
	       void *input)
{
	const struct argp own = {
		.options = argp->options, .parser = argp->parser, .children = argp->children};
	const struct argp_child children[] = {
		{&own, 0, NULL, 0}, {&cli_socket_argp, 0, NULL, 0}, {0}};
	const struct argp outer = {.parser = parse_outer,
				   .args_doc = argp->args_doc,
				   .doc = argp->doc,
				   .children = children};
	struct outer o = {
		.cli = cli, .own = input, .first_arg = argc, .stop_at_arg = first_arg != NULL};
	char err[400];

	if (cli->completion)
		cli_complete(cli, &outer, argv[0]);
	if (options_fault(&outer, argc, argv, first_arg != NULL, err, sizeof(err)))
		cli_usage("%s", err);
	/* argp exits on invalid options; only ENOMEM returns. */
	if (argp_parse(&outer, argc, argv, first_arg ? ARGP_IN_ORDER : 0, NULL, &o))
		memory_out();
	if (first_arg)
		*first_arg = o.first_arg;
}
