/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The answer of `sharing`: the numbers of consumers and counters on each backend. Used by `vpmu
 * sharing` and by the heading of `vpmu top`. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "cli/client.h"

#define SHARING_BACKENDS_MAX 8

struct sharing {
	char backend[32]; /* "": not reported */
	unsigned int consumers;
	unsigned int keys; /* distinct events that they count */
	unsigned int counters;
	uint64_t refused; /* consumers refused for lack of a slot, or by their VM's quota */
};

/* sharing_ask - query the server. Returns the number of backends, up to SHARING_BACKENDS_MAX, or -1
 * after an error was printed. */
int sharing_ask(struct client *c, struct sharing out[SHARING_BACKENDS_MAX]);
