/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answer of `read` or `detach` as plain structures, the difference and the union of two of
 * them. Used by `vpmu stat`, `top` and `detach`. Every field is checked: the server may answer
 * anything.
 */
#ifndef CLI_READING_H
#define CLI_READING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum row_kind { ROW_ROOT, ROW_HOST, ROW_TENANT, ROW_VM, ROW_VCPU };

#define ROW_DEPTH_MAX 255

/* One event of one row. */
struct val {
	uint64_t count, enabled_ns, running_ns;
	uint64_t age_ns;  /* what a CPU counted in so much time before the reading is missing */
	char quality[32]; /* words: "modelled", or "tsc partial" */
	bool supported;
	double variance; /* of several runs: the standard error of the mean, in percent of it; below
			  * 0: there was one run */
};

struct rrow {
	uint64_t id; /* of the session; the same in all its readings */
	enum row_kind kind;
	unsigned int depth; /* at most ROW_DEPTH_MAX */
	unsigned int vcpu;
	char *path, *vm, *error; /* vm, error: may be NULL */
	char *backend;		 /* who counted: "emulator", "kvm"; NULL: the server does not say */
	bool gone;
	struct val *v; /* one per event of the reading */
	size_t order;  /* where it stood in the answer */
};

/* An event that a backend cannot count. */
struct unsupported {
	char *backend, *event, *why;
};

/*
 * The rows of one backend stand together, in the order of the answer: parents before children. A
 * tenant with VMs on two backends has two rows. Their counts must never be added: a modelled count
 * of the emulator and a count of a real CPU are different things.
 */
struct reading {
	char *session, *target, *scope;
	uint64_t age_ns, dropped;
	size_t nr_merged; /* readings that were added by reading_merge */
	bool target_gone; /* the target was removed: no count changes any more */
	size_t nr_events, nr_rows;
	char **events;
	struct rrow *rows;
	struct unsupported *unsupported;
	size_t nr_unsupported;
};

/* reading_parse - NULL after an error was printed. @answer is borrowed. Free with reading_free. */
struct reading *reading_parse(const json_t *answer);
/* reading_free - NULL is allowed. */
void reading_free(struct reading *r);

/*
 * reading_merge - add the rows of @from (taken) to @into, another session's reading of the same
 * events. A row that both have is shown once. Row ids stay the same in all readings that are merged
 * in the same order. In a tree, the rows of each target begin at depth 0.
 */
void reading_merge(struct reading *into, struct reading *from);

/* reading_backends - how many backends the rows are of. A row without a backend counts as one more.
 */
size_t reading_backends(const struct reading *r);
/* reading_backend - the backend that all rows are of, or NULL: there are several, or it is not
 * known.
 */
const char *reading_backend(const struct reading *r);

/* reading_subtract - take the counts of @before (NULL: nothing) off those of @now. Rows are matched
 * by id; a row that is not in @before keeps its counts. */
void reading_subtract(struct reading *now, const struct reading *before);

/* reading_difference - the counts of @now (taken; NULL: NULL is returned) since *before (NULL: all
 * of them). *before is freed and becomes @now. */
struct reading *reading_difference(struct reading *now, struct reading **before);

/* val_scaled - count * enabled / running, at most UINT64_MAX. The count itself if it was counted
 * all the time or never. */
uint64_t val_scaled(const struct val *v);
/* val_percent - running / enabled in percent; 100 if it was never enabled. */
double val_percent(const struct val *v);
/* val_is_scaled - whether it was counted in a part of the time only. */
bool val_is_scaled(const struct val *v);
/* val_has - whether @word is one of the words of the quality. */
bool val_has(const struct val *v, const char *word);
/* val_counted - whether there is a count to show: the event is supported, the row could be counted,
 * and the event was counted for some time. */
bool val_counted(const struct rrow *row, const struct val *v);

/* reading_ipc_pair - if event @e is instructions: the index of the cycles event with the same
 * modifiers. -1: there is none. */
int reading_ipc_pair(const struct reading *r, size_t e);
/* reading_ipc - instructions per cycle of @row, if event @e is instructions. Below 0: there is no
 * such number. */
double reading_ipc(const struct reading *r, const struct rrow *row, size_t e);

/* reading_why - why event @e of @row is not supported; NULL: the server does not say. */
const char *reading_why(const struct reading *r, const struct rrow *row, size_t e);

/* row_kind_name - "root", "host", "tenant", "vm" or "vcpu". */
const char *row_kind_name(enum row_kind kind);

#endif
