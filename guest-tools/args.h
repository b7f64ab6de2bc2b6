/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arguments of the guest tools: one struct and one parse function per command. The commands
 * (stat.c, record.c, ...) call these functions before they touch the machine. The functions must
 * make no system calls, because tests also build them for the host.
 */
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

struct args_run {
	uint64_t repeat; /* 0: endless; default 1 */
	struct args_work work;
};

#define ARGS_PERIOD_MAX 0x7fffffffu
#define ARGS_OPS_MAX	1000000000u

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

struct args_torture {
	uint64_t seed, ops; /* default 1, 10000 */
	bool json;
};

struct args_leak {
	uint64_t rounds;  /* default 10 */
	uint64_t spin;	  /* instructions to spin, so that a switch happens; default 100000 */
	uint64_t address; /* where the copy of the workload is mapped */
	bool json;
};

struct args_victim {
	uint64_t address;
	uint64_t rounds; /* 0: endless */
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
bool args_torture_parse(const char *s, struct args_torture *a, char *err);
bool args_leak_parse(const char *s, struct args_leak *a, char *err);
bool args_victim_parse(const char *s, struct args_victim *a, char *err);

#endif
