/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Command lines of the subcommands: one parser for all, and the options that several subcommands
 * have. Wrong values end the program with EXIT_USAGE and one line that says what would be right.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct completion;

/* What every subcommand gets. */
struct cli {
	const char *socket; /* -S; NULL: $VPMU_SOCKET, else the usual places */
	/* The command line is only to be completed (cli/complete.h), which cli_parse does; NULL:
	 * no. */
	struct completion *completion;
};

/* The option -S. Its input is struct cli. */
extern const struct argp cli_socket_argp;

/*
 * cli_parse - parse the options of a subcommand, and -S. @argp is as for argp_parse. It may have
 * children; its parser sets their inputs at ARGP_KEY_INIT. With @first_arg NULL, arguments go to
 * the parser of @argp. Otherwise parsing ends at the first argument, and *first_arg is its index in
 * @argv
 * (@argc: there is none).
 */
void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv, int *first_arg,
	       void *input);

/* cli_command - the subcommand that @state parses, for messages: "stat". */
const char *cli_command(const struct argp_state *state);

/* cli_no_args - argp parser of a subcommand that takes neither options nor arguments. */
error_t cli_no_args(int key, char *arg, struct argp_state *state);

/* cli_one_arg - store the one argument of a subcommand; called at ARGP_KEY_ARG. @what: "a target".
 */
void cli_one_arg(const char **out, const char *arg, const char *what,
		 const struct argp_state *state);

/* cli_once - called when @option, which adds nothing when it is repeated, is parsed: given twice,
 * it ends the program. @key is its key. */
void cli_once(const struct argp_state *state, int key, const char *option);

/* cli_choice - the index of @text in cli_values(@option + 2), of those whose bit in @have is set.
 * @option: "--mode". */
unsigned int cli_choice(const struct argp_state *state, const char *option, const char *text,
			unsigned int have);

/* cli_number - all of @text is a decimal number from @min to @max. @option: "-I". */
long cli_number(const struct argp_state *state, const char *option, const char *text, long min,
		long max);

/* cli_seconds - all of @text is a number of seconds above 0, at most @max. Fractions are allowed.
 */
double cli_seconds(const struct argp_state *state, const char *option, const char *text,
		   double max);

/* -e, --for-each and -t: what a session counts. -e and -t may be given several times and add up.
 * The caller sets the default scope before it parses. */
#define CLI_TARGETS_MAX 16
struct what_opts {
	const char *events; /* NULL: not given */
	const char *scope;  /* "none", "tenant", "vm" or "vcpu" */
	const char *target[CLI_TARGETS_MAX];
	size_t nr_targets; /* 0: not given, which means "/" */
};
extern const struct argp cli_what_argp;

/* -M: metrics. Several -M add up. Its input is a const char *, which becomes the list; NULL: not
 * given.
 */
extern const struct argp cli_metric_argp;

struct metrics;

/* -j, -x and --no-big-num: how values are printed. Without -j and -x: as text for people. */
struct format_opts {
	bool json, plain; /* plain: numbers without thousands separators */
	const char *sep;  /* separator of -x; NULL: not given */
	FILE *to;	  /* NULL: standard output */
	bool tree;	  /* text: rows of VMs and vCPUs as a tree. No option of cli_format_argp */
	/* Not an option: the metrics to print behind the events; NULL: none. */
	const struct metrics *metrics;
};
extern const struct argp cli_format_argp;

/* -j alone. Its input is a bool. */
extern const struct argp cli_json_argp;

/* What --format chooses: data for other tools instead of text. Bit n is value n of the option. */
enum data_format {
	DATA_NONE,
	DATA_PERF_SCRIPT = 1 << 0, /* perf-script */
	DATA_PPROF = 1 << 1,	   /* pprof */
	DATA_BRSTACK = 1 << 2,	   /* brstack */
};

/* -d, --folded, -j, --format, -o and the argument TARGET: how long to look at VMs, and how to show
 * it. At most one of folded, json and format is set; with output one of folded and format is. */
struct look_opts {
	const char *target; /* "/" when none is given */
	double duration_s;  /* set before parsing; below 0: until Ctrl-C */
	bool folded, json;
	unsigned int formats; /* set before parsing: the data_formats that the subcommand has */
	enum data_format format;
	const char *output; /* a file; NULL: standard output */
};
extern const struct argp cli_look_argp;

#endif
