// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu, the operator's command: the table of its subcommands, and main(). Exit status: 0: success;
 * 1: the command failed; 2: invalid command line, even if only the server can detect it. Every
 * error is one line on standard error.
 */
#include <jansson.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/error.h"
#include "cli/habits.h"
#include "cli/options_check.h"
#include "cli/terminal.h"
#include "service/program/memory.h"
#include "vpmu/util/nearest.h"

static char program[] = "vpmu";

const char *argp_program_version = "vpmu " VPMU_VERSION;

static subcommand_fn cmd_help;

static const struct subcommand {
	const char *name;
	const char *brief; /* its line in `vpmu --help` */
	subcommand_fn *main;
} subcommands[] = {
	{"list", "show the server's tenants and VMs", cmd_list},
	{"stat", "count events, like perf stat", cmd_stat},
	{"top", "show rates of tenants or VMs, live", cmd_top},
	{"profile", "sample VMs and show the functions they run", cmd_profile},
	{"report", "write a page for a browser: who runs, suffers, disturbs", cmd_report},
	{"lbr", "show call chains and branches of VMs", cmd_lbr},
	{"events", "show event names, and which of them the host counts", cmd_events},
	{"metrics", "show the metrics that -M computes from events", cmd_metrics},
	{"check", "show what the host can count, and why not", cmd_check},
	{"selftest", "count known work on this host, and compare", cmd_selftest},
	{"attach", "start a session that goes on without a client", cmd_attach},
	{"detach", "end a session and show its counts", cmd_detach},
	{"sessions", "show running sessions, profiles and captures", cmd_sessions},
	{"sharing", "show how many consumers share how many counters", cmd_sharing},
	{"conservation", "compare hardware counts with charged counts", cmd_conservation},
	{"tenant", "add, remove or change a tenant", cmd_tenant},
	{"vm", "add, remove, change, save or restore a VM", cmd_vm},
	{"console", "show the output of a VM's guest, and follow it", cmd_console},
	{"pause", "stop VMs for a while", cmd_pause},
	{"resume", "let paused VMs run", cmd_resume},
	{"reload", "let vpmud read its configuration again", cmd_reload},
	{"quit", "end the server", cmd_quit},
	{"help", "show the purpose and options of a command", cmd_help},
	{NULL, NULL, NULL},
};

struct main_input {
	struct cli *cli;
	int first; /* index of the subcommand */
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

/* Add the table of subcommands to --help. */
static char *help_filter(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t len;
	FILE *f;

	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)text;
	f = open_memstream(&out, &len);
	if (!f)
		memory_out();
	fputs("Commands:\n", f);
	for (const struct subcommand *c = subcommands; c->name; c++)
		fprintf(f, "  %-13s %s\n", c->name, c->brief);
	fputs("\n`vpmu help COMMAND` shows more.", f);
	fclose(f);
	return out;
}

static void offer_commands(const struct complete *c)
{
	for (const struct subcommand *s = subcommands; s->name; s++)
		complete_offer(c, s->name, s->brief);
}

static bool ran; /* a subcommand ran and has finished its output */

/* No command is called @name: name the one of vpmu that does what perf's does, or the nearest. */
__attribute__((noreturn)) static void main_unknown(const char *name)
{
	const char *hint = habits_command(name);
	struct vpmu_nearest near;

	if (hint)
		cli_usage("%s: no such command: %s", name, hint);
	vpmu_nearest_init(&near, name);
	for (const struct subcommand *c = subcommands; c->name; c++)
		vpmu_nearest_try(&near, c->name);
	habits_offer(&near);
	hint = near.best ? habits_command(near.best) : NULL;
	if (hint)
		cli_usage("%s: no such command; for perf's \"%s\": %s", name, near.best, hint);
	if (near.best)
		cli_usage(
			"%s: no such command; did you mean \"%s\"? `vpmu help` lists the commands",
			name, near.best);
	cli_usage("%s: no such command; `vpmu help` lists the commands", name);
}

static int main_run(struct cli *cli, int argc, char **argv)
{
	static char name[64];
	int status;

	for (const struct subcommand *c = subcommands; c->name; c++) {
		if (strcmp(c->name, argv[0]) != 0)
			continue;
		snprintf(name, sizeof(name), "vpmu %s", c->name);
		argv[0] = name;
		status = client_exit_status(c->main(cli, argc, argv));
		ran = true;
		return terminal_done(status);
	}
	main_unknown(argv[0]);
}

static const struct argp main_argp = {
	.parser = parse_main,
	.args_doc = "COMMAND [ARG...]",
	.doc = "Count what virtual machines do, through shared hardware counters.\v ",
	.children = (const struct argp_child[]){{&cli_socket_argp, 0, NULL, 0}, {0}},
	.help_filter = help_filter,
};

static int cmd_help(struct cli *cli, int argc, char **argv)
{
	static const struct argp argp = {
		.args_doc = "[COMMAND]",
		.doc = "Show the commands, or what COMMAND does and takes."};
	char option[] = "--help", *help[] = {NULL, option, NULL};
	struct main_input in = {.cli = cli};
	int first;

	cli_parse(cli, &argp, argc, argv, &first, NULL);
	if (argc > first + 1)
		cli_usage("help: \"%s\": give one COMMAND", argv[first + 1]);
	if (argc > first) {
		help[0] = argv[first];
		return main_run(cli, 2, help);
	}
	help[0] = program;
	argp_parse(&main_argp, 2, help, ARGP_IN_ORDER, NULL, &in); /* exits */
	return 0;
}

/* argp prints --help and --version itself and exits. */
static void main_at_exit(void)
{
	if (!ran && terminal_done(0))
		_exit(1);
}

int main(int argc, char **argv)
{
	struct cli cli = {0};
	struct main_input in = {.cli = &cli, .first = argc};
	struct completion completion = {.commands = offer_commands};
	char err[400];

	setlocale(LC_CTYPE, "");
	json_set_alloc_funcs(xmalloc, free);
	atexit(main_at_exit);
	/* A write to a closed pipe becomes an error of fflush() instead of ending the process. */
	signal(SIGPIPE, SIG_IGN);
	/* The same for a file size limit, which would leave half a file. */
	signal(SIGXFSZ, SIG_IGN);
	argp_err_exit_status = EXIT_USAGE;
	if (complete_asked(&completion.c, argc, argv)) {
		if (cli_complete_main(&completion, &main_argp))
			return 0;
		cli.completion = &completion;
		return main_run(&cli, 1, (char *[]){(char *)completion.c.args[0], NULL});
	}
	if (options_fault(&main_argp, argc, argv, true, err, sizeof(err)))
		cli_usage("%s", err);
	if (argp_parse(&main_argp, argc, argv, ARGP_IN_ORDER, NULL, &in))
		memory_out();
	if (in.first == argc)
		cli_usage("no command given; `vpmu help` lists the commands");
	return main_run(&cli, argc - in.first, argv + in.first);
}
