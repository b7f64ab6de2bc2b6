/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The events that a command counts or samples if none is named: those of hardware where a backend
 * of the server counts them, else software events, which every kernel counts. A choice that differs
 * from the usual one is reported on standard error, in one line.
 */
#pragma once

#include <stdbool.h>

struct client;

#define DEFAULTS_SOFTWARE "task-clock,context-switches,page-faults"
#define DEFAULTS_SAMPLED  "cpu-clock"
/* Its usual period: 1,000 samples per second of each CPU. */
#define DEFAULTS_CLOCK_PERIOD "1000000"

/*
 * defaults_events - return those events of @usual, a list, that a backend counts, or
 * DEFAULTS_SOFTWARE if none counts any of them. The caller must free it. @command: "stat".
 * *@software (may be NULL): DEFAULTS_SOFTWARE was chosen. If the server does not report its events,
 * @usual.
 */
char *defaults_events(struct client *c, const char *command, const char *usual, bool *software);

/* defaults_sampled - return @usual, or DEFAULTS_SAMPLED if no backend counts @usual and one counts
 * that. */
const char *defaults_sampled(struct client *c, const char *command, const char *usual);

/* defaults_none_counted - report that the server counts none of the events asked for, and name
 * events that it counts. */
void defaults_none_counted(struct client *c, const char *command);
