/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answer of `read` or `detach` as plain structures, and their difference and union. Used by
 * `vpmu stat`, `top` and `detach`. Every field is checked: the server may answer anything.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum row_kind { ROW_ROOT, ROW_HOST, ROW_TENANT, ROW_VM, ROW_VCPU };

#define ROW_DEPTH_MAX 255
#define QUALITY_LEN   48

/* One event of one row. */
struct val {
	uint64_t count, enabled_ns, running_ns;
	uint64_t estimate; /* what the count is scaled to; 0: count * enabled / running */
	uint64_t age_ns; /* counts of this long before the reading are missing, for a stalled CPU */
	char quality[QUALITY_LEN]; /* words: "modelled", or "tsc partial" */
	bool supported;
	double variance; /* standard error of the mean of several runs, in percent of it; below 0:
			    one run */
};

struct rrow {
	uint64_t id; /* row of the session; the same in all its readings */
	enum row_kind kind;
	unsigned int depth; /* 0 to ROW_DEPTH_MAX */
	unsigned int vcpu;
	char *path, *vm, *error; /* vm, error: may be NULL */
	char *backend;		 /* "emulator", "kvm", "bpf"; NULL: not reported */
	bool gone;
	uint64_t late_ns; /* the counts lack up to this time of what was found late */
	struct val *v;	  /* one per event of the reading */
	size_t order;	  /* position in the answer */
};

/* An event that a backend cannot count. */
struct unsupported {
	char *backend, *event, *why;
};

/* When values were read: between @ns - @width_ns and @ns of the server's CLOCK_MONOTONIC. */
struct moment {
	uint64_t ns, width_ns; /* width_ns: UINT64_MAX: unknown */
};

/*
 * Rows are grouped by backend, in the order of the answer: parents before children. A tenant with
 * VMs on two backends has two rows. Their counts must never be added: a modelled count of the
 * emulator and a count of a real CPU are different things.
 */
struct reading {
	char *session, *target, *scope;
	char *cpus;    /* the CPUs that it counts; NULL: all */
	char *metrics; /* those that the session was attached with; NULL: none */
	uint64_t age_ns, dropped;
	/* The counts are of the time between the two; rates are computed from to.ns - from.ns. If
	 * the server reports no times, only that difference is known. */
	struct moment from, to;
	uint64_t to_us;		   /* CLOCK_REALTIME at to.ns; 0: the server reports no times */
	uint64_t start_ns, end_ns; /* of the past, in ns since 1970: cli/since.c; 0: of now */
	size_t nr_merged;	   /* readings added by reading_merge() */
	bool target_gone;	   /* the target was removed: counts no longer change */
	size_t nr_events, nr_rows;
	char **events;
	struct rrow *rows;
	struct unsupported *unsupported;
	size_t nr_unsupported;
};

/* reading_parse - parse @answer (borrowed). NULL after an error was printed. Free with
 * reading_free(). */
struct reading *reading_parse(const json_t *answer);
/* reading_free - NULL is allowed. */
void reading_free(struct reading *r);

/*
 * reading_merge - add the rows of @from (taken) to @into, another session's reading of the same
 * events. A row in both appears once. Row ids are the same for all readings merged in the same
 * order. In a tree, the rows of each target begin at depth 0.
 */
void reading_merge(struct reading *into, struct reading *from);

/* reading_backends - return the number of backends of the rows; rows without one count as one
 * more. */
size_t reading_backends(const struct reading *r);
/* reading_backend - return the backend of all rows, or NULL: several, or unknown. */
const char *reading_backend(const struct reading *r);

/* reading_subtract - subtract the counts of @before (NULL: nothing) from @now, which are then those
 * since @before. Rows are matched by id; a row missing in @before keeps its counts, as do all if
 * @now is of a session that began after @before. */
void reading_subtract(struct reading *now, const struct reading *before);

/* reading_difference - return the counts of @now (taken; NULL gives NULL) since *@before (NULL:
 * all). *@before is freed and set to @now. */
struct reading *reading_difference(struct reading *now, struct reading **before);

/* reading_seconds - return the time that the counts cover. */
double reading_seconds(const struct reading *r);

/* val_scaled - return the estimate, or count * enabled / running, capped at UINT64_MAX; the count
 * itself if it was always or never running. */
uint64_t val_scaled(const struct val *v);
/* val_percent - return running / enabled in percent; 100 if never enabled. */
double val_percent(const struct val *v);
/* val_is_scaled - returns true if the value was multiplexed. */
bool val_is_scaled(const struct val *v);
/* quality_add - append the words of @more that @all lacks, without "ok" and "exact", and without
 * those for which there is no room. Returns true if @more has a word to append. */
bool quality_add(char all[QUALITY_LEN], const char *more);
/* val_has - returns true if @word is in the quality. */
bool val_has(const struct val *v, const char *word);
/* val_counted - returns true if there is a count: the event is supported, the row was counted, and
 * the event was running for some time. */
bool val_counted(const struct rrow *row, const struct val *v);

/* reading_ipc_pair - if event @e is instructions, return the index of the cycles event with the
 * same modifiers; -1: none. */
int reading_ipc_pair(const struct reading *r, size_t e);
/* reading_ipc - return the instructions per cycle of @row if event @e is instructions; below 0:
 * none. */
double reading_ipc(const struct reading *r, const struct rrow *row, size_t e);

/* reading_why - return why event @e of @row is not supported; NULL: not reported. */
const char *reading_why(const struct reading *r, const struct rrow *row, size_t e);

/* reading_none_supported - returns true if there are rows, and no event of any row is supported. */
bool reading_none_supported(const struct reading *r);

/* row_kind_name - return "root", "host", "tenant", "vm" or "vcpu". */
const char *row_kind_name(enum row_kind kind);
