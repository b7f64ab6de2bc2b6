// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cgroup/cli/cli.h"

const char *argp_program_version = "vpmu " VPMU_VERSION;

const struct subcommand subcommands[] = {
	{"list", "tenants, VMs and vCPUs of the server", cmd_list},
	{"stat", "count events, like perf stat", cmd_stat},
	{"top", "rates of tenants or VMs, live", cmd_top},
	{"profile", "where VMs are: functions by samples", cmd_profile},
	{"lbr", "call chains and branches of VMs", cmd_lbr},
	{"events", "event names, and which of them this host counts", cmd_events},
	{"check", "what this host can count, and why not", cmd_check},
	{"attach", "start a session that goes on without a client", cmd_attach},
	{"detach", "end a session and show its counts", cmd_detach},
	{"sessions", "sessions, profiles and captures of now", cmd_sessions},
	{"sharing", "how many consumers share how many counters", cmd_sharing},
	{"conservation", "hardware counts against charged counts", cmd_conservation},
	{"tenant", "add or remove a tenant", cmd_tenant},
	{"vm", "add, remove, save or restore a VM", cmd_vm},
	{"pause", "stop VMs for a while", cmd_pause},
	{"resume", "let VMs go on, or start", cmd_resume},
	{"quit", "end the server", cmd_quit},
	{NULL, NULL, NULL},
};

/* ---- errors ------------------------------------------------------------------------------- */

static void verror(const char *fmt, va_list ap)
{
	fflush(stdout);
	fputs("vpmu: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

void cli_error(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	verror(fmt, ap);
	va_end(ap);
}

void cli_usage(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	verror(fmt, ap);
	va_end(ap);
	exit(EXIT_USAGE);
}

long cli_number(const char *what, const char *text, long min, long max)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || errno || v < min || v > max)
		cli_usage("%s: \"%s\": a number from %ld to %ld is accepted", what, text, min, max);
	return v;
}

double cli_seconds(const char *what, const char *text, double max)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v <= 0 || v > max)
		cli_usage("%s: \"%s\": seconds above 0 up to %g are accepted", what, text, max);
	return v;
}

int cli_done(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (errno != EPIPE)
		cli_error("standard output: %s", strerror(errno));
	return 1;
}

unsigned int cli_width(void)
{
	struct winsize ws;

	return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &ws) == 0 ? ws.ws_col : 0;
}

/* ---- options ------------------------------------------------------------------------------ */

static error_t parse_socket(int key, char *arg, struct argp_state *state)
{
	struct cli *cli = state->input;

	if (key != 'S')
		return ARGP_ERR_UNKNOWN;
	if (!*arg)
		cli_usage("-S: empty; the path of a socket is accepted");
	cli->socket = arg;
	return 0;
}

static const struct argp_option socket_options[] = {
	{"socket", 'S', "PATH", 0, "The server's socket (else $VPMU_SOCKET, else the usual places)",
	 1},
	{0},
};

static const struct argp socket_argp = {.options = socket_options, .parser = parse_socket};

/* The outer parser of a subcommand: gives -S to one child, the rest to the other. */
struct parse_input {
	struct cli *cli;
	void *own;
	int first_arg;
	bool stop_at_arg;
};

static error_t parse_outer(int key, char *arg, struct argp_state *state)
{
	struct parse_input *in = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = in->own;
		state->child_inputs[1] = in->cli;
		return 0;
	case ARGP_KEY_ARG:
		if (!in->stop_at_arg)
			return ARGP_ERR_UNKNOWN;
		in->first_arg = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv, int *first_arg,
	       void *input)
{
	const struct argp own = {.options = argp->options, .parser = argp->parser};
	const struct argp_child children[] = {{&own, 0, NULL, 0}, {&socket_argp, 0, NULL, 0}, {0}};
	const struct argp outer = {.parser = parse_outer,
				   .args_doc = argp->args_doc,
				   .doc = argp->doc,
				   .children = children};
	struct parse_input in = {
		.cli = cli, .own = input, .first_arg = argc, .stop_at_arg = first_arg != NULL};

	argp_parse(&outer, argc, argv, first_arg ? ARGP_IN_ORDER : 0, NULL, &in);
	if (first_arg)
		*first_arg = in.first_arg;
}

error_t cli_no_args(int key, char *arg, struct argp_state *state)
{
	if (key == ARGP_KEY_ARG)
		cli_usage("%s: \"%s\": no argument is accepted", strchr(state->name, ' ') + 1, arg);
	return ARGP_ERR_UNKNOWN;
}

/* ---- main --------------------------------------------------------------------------------- */

struct main_input {
	struct cli *cli;
	int first;
};

static error_t parse_main(int key, char *arg, struct argp_state *state)
{
	struct main_input *in = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = in->cli;
		return 0;
	case ARGP_KEY_ARG:
		in->first = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* The table of subcommands for --help. */
static char *help_filter(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t len;
	FILE *f;

	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	f = open_memstream(&out, &len);
	if (!f)
		return NULL;
	fputs("Commands:\n", f);
	for (const struct subcommand *c = subcommands; c->name; c++)
		fprintf(f, "  %-13s %s\n", c->name, c->brief);
	fputs("\n`vpmu COMMAND --help` says more.", f);
	fclose(f);
	return out;
}

static int run(struct cli *cli, int argc, char **argv)
{
	static char name[64];

	for (const struct subcommand *c = subcommands; c->name; c++) {
		if (strcmp(c->name, argv[0]) != 0)
			continue;
		snprintf(name, sizeof(name), "vpmu %s", c->name);
		argv[0] = name;
		return cli_done(c->main(cli, argc, argv));
	}
	cli_usage("%s: no such command; `vpmu --help` lists those accepted", argv[0]);
}

int main(int argc, char **argv)
{
	static const struct argp_child children[] = {{&socket_argp, 0, NULL, 0}, {0}};
	static const struct argp argp = {
		.parser = parse_main,
		.args_doc = "COMMAND [ARG...]",
		.doc = "Count what virtual machines do, through shared hardware counters.\v ",
		.children = children,
		.help_filter = help_filter,
	};
	struct cli cli = {0};
	struct main_input in = {.cli = &cli, .first = argc};

	setlocale(LC_CTYPE, "");
	/* Writing to a closed pipe is an error of fflush, not the end by signal. */
	signal(SIGPIPE, SIG_IGN);
	argp_err_exit_status = EXIT_USAGE;
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &in);
	if (in.first == argc)
		cli_usage("no command given; `vpmu --help` lists those accepted");
	return run(&cli, argc - in.first, argv + in.first);
}
