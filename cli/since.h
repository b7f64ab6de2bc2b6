/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu stat --since: what vpmud has kept of the past (the request `history`, docs/protocol.md), as
 * readings that are printed like any other. It attaches nothing, and never makes up a count: an
 * interval without one is a gap.
 */
#ifndef CLI_SINCE_H
#define CLI_SINCE_H

#include "cli/client.h"
#include "cli/options.h"

struct since_opts {
	const struct what_opts *what;
	const struct format_opts *format;
	const struct past_opts *past; /* since is given */
	double interval_s;	      /* -I: a reading for each; 0: one for the range */
};

/* since_run - ask @c and print. Returns the exit status: 1 if nothing was kept of that time. */
int since_run(const struct since_opts *o, struct client *c);

#endif
