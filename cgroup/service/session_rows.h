/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rows of operator sessions: which nodes a session counts, and the consumers of each. What
 * sessions are and when rows come and go is session.c's. Control thread.
 */
#ifndef CGROUP_SERVICE_SESSION_ROWS_H
#define CGROUP_SERVICE_SESSION_ROWS_H

#include "cgroup/service/session.h"

struct row {
	struct session_row pub;
	struct node *node; /* NULL: gone */
	unsigned int order;
	struct vpmu_consumer *c;  /* one per event; NULL: not counted, or gone */
	struct vpmu_value *final; /* last values read, one per event; gone: for good */
	char *path, *vm, *error;  /* owned */
};

struct session {
	struct sessions *ss;
	struct tenants *ts;
	struct session *next;
	char name[SESSION_NAME_MAX + 1];
	char *target;
	bool target_vm;
	enum session_scope scope;
	const void *owner;
	uint64_t opened_ns, read_ns, dropped, next_id;
	size_t nr_events;
	char **events;
	vpmu_key_t *keys;
	struct row **rows;
	size_t nr_rows, cap_rows, nr_gone;
	uint64_t sorted_gen;
};

/* session_counts - whether @n has a row in @s. */
bool session_counts(const struct session *s, const struct node *n);

/* row_new - a row of @n that does not count yet; NULL when out of memory. row_free - of a row that
 * does not count. */
struct row *row_new(struct session *s, struct node *n);
void row_free(struct row *r);

/* rows_reserve - room for @more rows: 0, -E2BIG (SESSION_VALUES_MAX), -ENOMEM. */
int rows_reserve(struct session *s, size_t more);

/* rows_start - count for the rows from index @first on, in one batch: all, or none and -errno with
 * *failed = the index of the event. */
int rows_start(struct session *s, size_t first, size_t *failed);

/* rows_stop - stop counting for @n rows at @rows in one batch, and keep their last values. */
void rows_stop(struct session *s, struct row **rows, size_t n);

/* rows_forget - free rows of removed nodes: the oldest, until @keep are left. */
void rows_forget(struct session *s, size_t keep);

/* rows_sort - tree order. Gone rows stay where their node was. */
void rows_sort(struct session *s);

#endif
