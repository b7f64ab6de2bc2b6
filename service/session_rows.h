/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of operator sessions: the nodes that a session counts, and the counting of each. session.c
 * decides when rows come and go. Control thread.
 */
#pragma once

#include "service/session.h"

struct row {
	struct session_row pub;
	struct node *node;	       /* NULL: gone */
	uint64_t since_ns;	       /* now_ns: as pub.since_us; 0: before this server */
	uint64_t late_base, late_kept; /* late_ns of the node at the begin; of former runs */
	unsigned int order;
	struct vpmu_counting *c;  /* NULL: does not count, or no longer */
	struct vpmu_value *final; /* last values read, one per event; gone: final */
	/* Values of former runs of the VM, one per event, followed by the sums; NULL: none. */
	struct vpmu_value *before;
	char *path, *vm, *error; /* owned */
};

/* row_late - the time that the values lack: see tenant_late(). */
uint64_t row_late(const struct row *r);

/* session_counts - returns true if @s has rows for @n. */
bool session_counts(const struct session *s, const struct node *n);

/* session_of_one_vm - returns true if @s counts any VM with its target's name. */
bool session_of_one_vm(const struct session *s);

/* row_add - append a row of @n on the backend of @in, not attached. -E2BIG: SESSION_VALUES_MAX;
 * -ENOMEM.
 * row_free - free a row that is not attached. */
int row_add(struct session *s, struct node *n, struct vpmu_backend_node *in);
void row_free(struct row *r);

/* row_goes_on - let @r, the last row, take the place of the former run's row on the same backend,
 * if there is one. -ENOMEM: it starts from 0.
 * row_before - the values of former runs, allocated if needed; NULL: out of memory.
 * row_values - the values of all runs. */
int row_goes_on(struct session *s, struct row *r);
struct vpmu_value *row_before(const struct session *s, struct row *r);
const struct vpmu_value *row_values(const struct session *s, struct row *r);

/*
 * rows_start - attach the rows from index @first on, in one batch per backend: all, or none and
 * -errno, with *event = the index of the event and *failed = the backend that refused.
 */
int rows_start(struct session *s, size_t first, size_t *event, struct vpmu_backend **failed);

/* rows_stop - detach @n rows at @rows, in one batch per backend, and keep their last values. */
void rows_stop(struct session *s, struct row **rows, size_t n);

/*
 * rows_take - read the values of all rows that count, and set s->read: a value includes all events
 * until the begin of that time, some or none of those during it, and none from later. Exceptions
 * are in the values (age_ns, partial) or in vpmu_backend_stalled(). In tree order (rows_sort).
 */
void rows_take(struct session *s);

/* rows_forget - free rows of nodes that were removed before @before (now_ns), until @keep rows of
 * removed nodes are left. A session of one VM keeps its row. */
void rows_forget(struct session *s, size_t keep, uint64_t before);

/* rows_sort - sort in tree order. Gone rows keep their node's place. */
void rows_sort(struct session *s);
