/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arguments of the guest tools: one struct and one parse function per command. The commands
 * (stat.c, record.c, ...) call these functions before they touch the machine. The functions must
 * make no system calls, because tests also build them for the host.
 */
#pragma once

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

struct args_run {
	uint64_t repeat; /* 0: endless; default 1 */
	struct args_work work;
};

#define ARGS_PERIOD_MAX 0x7fffffffu

struct args_record {
	struct event ev; /* default instructions:u */
	uint64_t period; /* default 10000 */
	bool vector;	 /* deliver by a fixed vector; default NMI */
	bool fixed;	 /* sample by a fixed counter */
	bool chains;	 /* branch records with each sample */
	bool raw;	 /* also print each sample */
	bool json;
	struct args_work work;
};

struct args_lbr {
	uint64_t period; /* in instructions in CPL3; default 997 */
	uint32_t depth;	 /* 0: the largest */
	bool branches;	 /* record all branches instead of the call stack */
	bool vector;
	bool json;
	struct args_work work; /* default chain, or branches */
};

/*
 * args_workload - parse "WORKLOAD [ARG]" at *@s and move *@s behind it. ARG is taken only if it
 * starts with a digit. Refuses a workload that needs more than @mem_bytes of scratch memory.
 * args_end - check that no word is left at @s.
 * args_stat_parse, ... - parse everything after the command's name.
 * On an error all functions here return false, with one line in @err (ARGS_ERR_MAX bytes).
 */
bool args_workload(const char **s, uint64_t mem_bytes, struct args_work *work, char *err);
bool args_end(const char *s, char *err);
bool args_stat_parse(const char *s, uint64_t mem_bytes, struct args_stat *a, char *err);
bool args_run_parse(const char *s, uint64_t mem_bytes, struct args_run *a, char *err);
bool args_record_parse(const char *s, uint64_t mem_bytes, struct args_record *a, char *err);
bool args_lbr_parse(const char *s, uint64_t mem_bytes, struct args_lbr *a, char *err);

/* For commands' own parse functions: */
struct option {
	const char *name;  /* "-c", "--raw" */
	const char *value; /* its value in the list of options; NULL: it has none */
	bool (*set)(const struct option *o, struct word value, char *err);
	void *to;
	uint64_t min, max; /* of numbers */
};

#define OPTIONS(o) (o), sizeof(o) / sizeof((o)[0])

bool option_on(const struct option *o, struct word value, char *err); /* *(bool *)to = true */
bool option_u64(const struct option *o, struct word w, char *err);
/* args_options - parse the options at *@s, up to the first word that is none, or behind "--".
 * args_number - parse a number that has no option's name and may be left out. */
bool args_options(const char **s, const char *cmd, const struct option *o, size_t nr, char *err);
bool args_number(const char **s, const char *name, uint64_t min, uint64_t max, uint64_t *v,
		 char *err);
