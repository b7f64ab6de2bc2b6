/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tools' arguments. Pure: no system calls, builds hosted too (tests). */
#ifndef GUEST_TOOLS_ARGS_H
#define GUEST_TOOLS_ARGS_H

#include "guest-tools/events.h"
#include "guest-tools/text.h"
#include "guest-tools/workloads.h"

#define ARGS_ERR_MAX	384
#define ARGS_REPEAT_MAX 1000000u

struct args_work {
	const struct workload *w;
	uint64_t n;
};

enum stat_format { STAT_TEXT, STAT_CSV, STAT_JSON };

struct args_stat {
	struct event ev[EVENTS_MAX];
	size_t nr_ev;
	enum stat_format format;
	char sep[8];
	uint32_t repeat;
	bool verbose;
	struct args_work work;
};

/*
 * args_workload - "WORKLOAD [ARG]" at *@s, checked against @mem_bytes of scratch memory. A
 * following word that does not start with a digit is left alone. args_end - nothing more at @s.
 * args_stat_parse - everything behind "stat". All: false and one line in @err (ARGS_ERR_MAX).
 */
bool args_workload(const char **s, uint64_t mem_bytes, struct args_work *work, char *err);
bool args_end(const char *s, char *err);
bool args_stat_parse(const char *s, uint64_t mem_bytes, struct args_stat *a, char *err);

#endif
