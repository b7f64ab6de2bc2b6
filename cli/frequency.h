/* SPDX-License-Identifier: GPL-2.0-or-later */
/* perf's -F: the period of a profile for a number of samples per second. */
#ifndef CLI_FREQUENCY_H
#define CLI_FREQUENCY_H

#include <stdbool.h>

#define FREQUENCY_MAX 100000

struct client;

/*
 * frequency_period - write the period with which @event of @target makes @hz samples in each second
 * that one CPU runs the target, in digits, to @period. Of a clock event that is exact; of others
 * the rate is measured first, for FREQUENCY_MEASURE_S. False after an error was printed. Call
 * cli_wait_init() before.
 */
#define FREQUENCY_MEASURE_S 0.2
#define FREQUENCY_LEN	    24
bool frequency_period(struct client *c, const char *event, const char *target, long hz,
		      char period[FREQUENCY_LEN]);

#endif
