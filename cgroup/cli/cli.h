/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu, the operator's command: what its subcommands share. Exit status: 0 done, 1 it failed,
 * 2 the command line was wrong. Every error is one line on stderr: "vpmu: what: what is accepted".
 */
#ifndef CLI_H
#define CLI_H

#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define EXIT_USAGE 2

struct cli {
	const char *socket; /* -S; NULL: $VPMU_SOCKET, then the usual places */
};

struct subcommand {
	const char *name;
	const char *brief; /* one line for `vpmu --help` */
	int (*main)(struct cli *cli, int argc, char **argv);
};
/* Ends with name NULL. */
extern const struct subcommand subcommands[];

int cmd_list(struct cli *cli, int argc, char **argv);
int cmd_stat(struct cli *cli, int argc, char **argv);
int cmd_top(struct cli *cli, int argc, char **argv);
int cmd_events(struct cli *cli, int argc, char **argv);
int cmd_check(struct cli *cli, int argc, char **argv);
int cmd_attach(struct cli *cli, int argc, char **argv);
int cmd_detach(struct cli *cli, int argc, char **argv);
int cmd_sessions(struct cli *cli, int argc, char **argv);
int cmd_sharing(struct cli *cli, int argc, char **argv);
int cmd_conservation(struct cli *cli, int argc, char **argv);
int cmd_tenant(struct cli *cli, int argc, char **argv);
int cmd_vm(struct cli *cli, int argc, char **argv);
int cmd_profile(struct cli *cli, int argc, char **argv);
int cmd_lbr(struct cli *cli, int argc, char **argv);
int cmd_pause(struct cli *cli, int argc, char **argv);
int cmd_resume(struct cli *cli, int argc, char **argv);
int cmd_quit(struct cli *cli, int argc, char **argv);

/* cli_error - one line on stderr after "vpmu: ". cli_usage - the same, and exit with 2. */
void cli_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void cli_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

/* cli_number - all of @text as min..max, or cli_usage naming @what. */
long cli_number(const char *what, const char *text, long min, long max);
/* cli_seconds - all of @text as seconds up to @max, fractions allowed, or cli_usage. */
double cli_seconds(const char *what, const char *text, double max);

/* cli_parse - parse the options of one subcommand, and -S. @argp as argp_parse's, its children
 * unused. Arguments after "--" or the first non-option are left when @first_arg is not NULL
 * (*first_arg = index), else given to the parser. */
void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv, int *first_arg,
	       void *input);

/* cli_no_args - an argp parser of subcommands without options of their own. */
error_t cli_no_args(int key, char *arg, struct argp_state *state);

/* cli_done - flush stdout; 1 and a line when that fails (a full disk; a closed pipe is silent). */
int cli_done(int status);

/* Terminal width of stdout in columns; 0 when it is not a terminal. */
unsigned int cli_width(void);

#endif
