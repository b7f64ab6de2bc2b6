/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completes vpmu's command line (service/program/complete.h). Options, their values and arguments
 * come from the argp tables; tenants, VMs, sessions and events from the server.
 */
#pragma once

#include "cli/options.h"
#include "service/program/complete.h"

struct completion {
	struct complete c;
	void (*commands)(const struct complete *c); /* offers the subcommands */
};

/* cli_complete_main - complete the subcommand or an option before it, from @argp. Returns false if
 * a subcommand is typed: call cli_complete(). */
bool cli_complete_main(struct completion *comp, const struct argp *argp);

/* cli_complete - complete the command line of the subcommand @name ("vpmu stat") from @argp, and
 * exit. */
void cli_complete(struct cli *cli, const struct argp *argp, const char *name)
	__attribute__((noreturn));
