/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Command lines of the subcommands: one parser for all, and the options that several share. An
 * invalid value exits with EXIT_USAGE and one line with the expected values.
 */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct completion;

/* Context of every subcommand. */
struct cli {
	const char *socket; /* -S; NULL: $VPMU_SOCKET, else the default paths */
	/* If not NULL, cli_parse() only completes the command line (cli/complete.h). */
	struct completion *completion;
};

/* The option -S. Its input is struct cli. */
extern const struct argp cli_socket_argp;

/*
 * cli_parse - parse the options of a subcommand, and -S. @argp is as for argp_parse(). It may have
 * children; its parser sets their inputs at ARGP_KEY_INIT. With @first_arg NULL, arguments go to
 * the parser of @argp. Otherwise parsing stops at the first argument, and *@first_arg is its index
 * in @argv (@argc: none).
 */
void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv, int *first_arg,
	       void *input);

/* cli_command - return the subcommand that @state parses ("stat"), for messages. */
const char *cli_command(const struct argp_state *state);

/* cli_no_args - argp parser of a subcommand that takes neither options nor arguments. */
error_t cli_no_args(int key, char *arg, struct argp_state *state);

/* cli_one_arg - store the only argument of a subcommand, at ARGP_KEY_ARG. @what names it for
 * errors: "a target". */
void cli_one_arg(const char **out, const char *arg, const char *what,
		 const struct argp_state *state);

/* cli_once - call it for @option with the key @key if a repetition adds nothing: given twice, it
 * exits. */
void cli_once(const struct argp_state *state, int key, const char *option);

/* cli_text - the same, and store the option's value @text. Returns 0. */
error_t cli_text(const struct argp_state *state, int key, const char *option, const char *text,
		 const char **out);

/* cli_choice - return the index of @text in cli_values(@option + 2), limited to the values whose
 * bit in @have is set. @option: "--mode". */
unsigned int cli_choice(const struct argp_state *state, const char *option, const char *text,
			unsigned int have);

/* cli_number - cli_once(), and parse all of @text as a decimal number from @min to @max. @option:
 * "-I". */
long cli_number(const struct argp_state *state, int key, const char *option, const char *text,
		long min, long max);

/* cli_seconds - the same with @text as seconds, above 0 and up to @max. Fractions are allowed. */
double cli_seconds(const struct argp_state *state, int key, const char *option, const char *text,
		   double max);

/* -e, --for-each, -t, and perf's -a, -p and -G: the events and targets of a session. -e, -t, -p and
 * -G are cumulative. Set the default scope before parsing. */
#define CLI_TARGETS_MAX 16
enum target_kind { TARGET_NAME, TARGET_PID, TARGET_CGROUP }; /* -t, -p, -G */
struct what_opts {
	const char *events; /* NULL: not given */
	const char *scope;  /* "none", "tenant", "vm" or "vcpu" */
	const char *target[CLI_TARGETS_MAX];
	enum target_kind kind[CLI_TARGETS_MAX];
	bool all;	     /* -a */
	const char *cpus;    /* -C; NULL: all */
	size_t nr_targets;   /* 0: not given, which means "/" */
	const char *metrics; /* set by the caller: names that the session keeps; NULL: none */
};
extern const struct argp cli_what_argp;

/* -C, of the same input; not for sessions with a name, which count all CPUs. */
extern const struct argp cli_cpus_argp;

/* --since and --until, as typed; NULL: not given. */
struct past_opts {
	const char *since, *until;
};
extern const struct argp cli_past_argp;

/* -M: metrics; cumulative. Its input is a const char *, set to the list; NULL: not given. */
extern const struct argp cli_metric_argp;

struct metrics;

/* -j, -x and --no-big-num: output formats; text by default. */
struct format_opts {
	bool json, plain; /* plain: numbers without thousands separators */
	const char *sep;  /* separator of -x; NULL: not given */
	FILE *to;	  /* NULL: standard output */
	bool tree;	  /* text: VMs and vCPUs as a tree; set by the caller */
	bool verbose;	  /* text: with the time of the reading; set by the caller */
	/* Set by the caller: metrics to print after the events; NULL: none. */
	const struct metrics *metrics;
};
extern const struct argp cli_format_argp;

/* -j alone. Its input is a bool. */
extern const struct argp cli_json_argp;

/* Values of --format, data for other tools. Bit n is value n of the option. */
enum data_format {
	DATA_NONE,
	DATA_PERF_SCRIPT = 1 << 0, /* perf-script */
	DATA_PPROF = 1 << 1,	   /* pprof */
	DATA_BRSTACK = 1 << 2,	   /* brstack */
};

/* -d, --folded, -j, --format, -o and the argument TARGET: how long to observe VMs, and the output.
 * No more than one of folded, json and format is set; with output one of folded and format is. */
struct look_opts {
	const char *target; /* "/" when none is given */
	double duration_s;  /* set before parsing; below 0: until Ctrl-C */
	bool folded, json;
	unsigned int formats; /* set before parsing: the data_formats that the subcommand has */
	enum data_format format;
	const char *output; /* a file; NULL: standard output */
};
extern const struct argp cli_look_argp;

/* cli_values - return the values of @option ("mode"), NULL-terminated; NULL: no fixed set. */
const char *const *cli_values(const char *option);
