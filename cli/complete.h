/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion of vpmu's command line (service/program/complete.h). Options, their values and
 * arguments are those of the argp tables; tenants, VMs, sessions and events are those of the server
 * as it is now.
 */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include "cli/options.h"
#include "service/program/complete.h"

struct completion {
	struct complete c;
	void (*commands)(const struct complete *c); /* offers the subcommands */
};

/* cli_complete_main - complete the subcommand, or what is before it, of which @argp has the
 * options. False: a subcommand is typed, and cli_complete is to be called. */
bool cli_complete_main(struct completion *comp, const struct argp *argp);

/* cli_complete - complete the command line of the subcommand @name ("vpmu stat"), whose options and
 * arguments @argp has, and end the program. */
void cli_complete(struct cli *cli, const struct argp *argp, const char *name)
	__attribute__((noreturn));

#endif
