/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of operator sessions: which nodes a session counts, and the counting of each. When rows come
 * and go is session.c's. Control thread.
 */
#ifndef SERVICE_SESSION_ROWS_H
#define SERVICE_SESSION_ROWS_H

#include "service/session.h"

struct row {
	struct session_row pub;
	struct node *node; /* NULL: gone */
	unsigned int order;
	struct vpmu_counting *c;  /* NULL: does not count, or not any more */
	struct vpmu_value *final; /* the last values read, one per event; gone: for good */
	/* Of former runs of the VM, one per event, and behind them the sums; NULL: none. */
	struct vpmu_value *before;
	char *path, *vm, *error; /* owned */
};

/* session_counts - whether @n has rows in @s. */
bool session_counts(const struct session *s, const struct node *n);

/* session_of_one_vm - whether @s counts whatever VM has its target's name. */
bool session_of_one_vm(const struct session *s);

/* row_add - a new last row of @n on the backend of @in, which does not count yet. -E2BIG:
 * SESSION_VALUES_MAX; -ENOMEM. row_free - of a row that does not count. */
int row_add(struct session *s, struct node *n, struct vpmu_backend_node *in);
void row_free(struct row *r);

/* row_goes_on - @r, the last row, is about a VM of the name that the session is about: it goes on
 * where the row of the one before was, if that was on the same backend. -ENOMEM: it begins anew.
 * row_before - the values of former runs, which are made if there are none; NULL: out of memory.
 * row_values - of all runs. */
int row_goes_on(struct session *s, struct row *r);
struct vpmu_value *row_before(const struct session *s, struct row *r);
const struct vpmu_value *row_values(const struct session *s, struct row *r);

/*
 * rows_start - count for the rows from index @first on, in one batch per backend: all, or none and
 * -errno, with *event = the index of the event and *failed = the backend that refused.
 */
int rows_start(struct session *s, size_t first, size_t *event, struct vpmu_backend **failed);

/* rows_stop - stop counting for @n rows at @rows, in one batch per backend, and keep their last
 * values. */
void rows_stop(struct session *s, struct row **rows, size_t n);

/* rows_flush - make current what the rows that count will read. */
void rows_flush(struct session *s);

/* rows_read - the values of all rows that count: of each backend of one moment, if it can do that.
 * In tree order (rows_sort). */
void rows_read(struct session *s);

/* rows_forget - free rows of nodes that were removed before @before (now_ns), until @keep rows of
 * removed nodes are left. The row of a session of one VM stays. */
void rows_forget(struct session *s, size_t keep, uint64_t before);

/* rows_sort - tree order. Gone rows stay where their node was. */
void rows_sort(struct session *s);

#endif
