/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The answer of `sharing`: how many consumers share how many counters, on each backend. Used by
 * `vpmu sharing` and by the heading of `vpmu top`. */
#ifndef CLI_SHARING_H
#define CLI_SHARING_H

#include <stddef.h>
#include <stdint.h>

#include "cli/client.h"

#define SHARING_BACKENDS_MAX 8

struct sharing {
	char backend[32]; /* "": the server does not say */
	unsigned int consumers;
	unsigned int keys; /* distinct events that they count */
	unsigned int counters;
	uint64_t refused; /* consumers that found no slot, or their VM's quota used up */
};

/* sharing_ask - ask the server. Returns how many backends it counts on, at most
 * SHARING_BACKENDS_MAX, or -1 after an error was printed. */
int sharing_ask(struct client *c, struct sharing out[SHARING_BACKENDS_MAX]);

#endif
