// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/service/session_rows.h"

/* ---- which nodes a session counts ----------------------------------------------------------- */

static bool path_within(const char *target, const char *path)
{
	size_t n = strlen(target);

	if (n == 1) /* "/" */
		return true;
	return strncmp(path, target, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static const struct node *vm_of(const struct node *n)
{
	return n->kind == NODE_VCPU ? n->parent : n;
}

static bool in_target(const struct session *s, const struct node *n)
{
	if (s->target_vm)
		return strcmp(vm_of(n)->name, s->target) == 0;
	return path_within(s->target, n->path);
}

bool session_counts(const struct session *s, const struct node *n)
{
	switch (s->scope) {
	case SESSION_ONE:
		if (s->target_vm)
			return n->kind == NODE_VM && strcmp(n->name, s->target) == 0;
		return n->kind <= NODE_TENANT && strcmp(n->path, s->target) == 0;
	case SESSION_TENANT:
		return n->kind <= NODE_TENANT && in_target(s, n);
	case SESSION_VM:
		return n->kind == NODE_VM && in_target(s, n);
	case SESSION_VCPU:
		return n->kind == NODE_VCPU && in_target(s, n);
	}
	return false;
}

/* ---- rows --------------------------------------------------------------------------------- */

void row_free(struct row *r)
{
	if (!r)
		return;
	/* Consumers may still be looked at by readers of before their deletion. */
	if (r->c)
		vpmu_rcu_free(r->c);
	free(r->final);
	free(r->path);
	free(r->vm);
	free(r->error);
	free(r);
}

struct row *row_new(struct session *s, struct node *n)
{
	struct row *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->node = n;
	r->pub.id = s->next_id++;
	r->pub.kind = n->kind;
	r->pub.depth = n->depth;
	r->pub.vcpu = n->vcpu;
	r->path = strdup(n->path);
	r->c = calloc(s->nr_events, sizeof(*r->c));
	r->final = calloc(s->nr_events, sizeof(*r->final));
	if (n->kind >= NODE_VM)
		r->vm = strdup(vm_of(n)->name);
	if (!r->path || !r->c || !r->final || (n->kind >= NODE_VM && !r->vm)) {
		row_free(r);
		return NULL;
	}
	r->pub.path = r->path;
	r->pub.vm = r->vm;
	return r;
}

int rows_reserve(struct session *s, size_t more)
{
	size_t want = s->nr_rows + more, cap = s->cap_rows ? s->cap_rows : 8;
	struct row **rows;

	if (want * s->nr_events > SESSION_VALUES_MAX)
		return -E2BIG;
	if (want <= s->cap_rows)
		return 0;
	while (cap < want)
		cap *= 2;
	rows = reallocarray(s->rows, cap, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	s->rows = rows;
	s->cap_rows = cap;
	return 0;
}

/* Add the consumers of rows first..nr_rows-1 in one batch. *failed: index of the event. */
int rows_start(struct session *s, size_t first, size_t *failed)
{
	size_t n = (s->nr_rows - first) * s->nr_events, k = 0;
	struct vpmu_consumer **c = calloc(n ? n : 1, sizeof(*c));
	struct vpmu_account **a = calloc(n ? n : 1, sizeof(*a));
	vpmu_key_t *keys = calloc(n ? n : 1, sizeof(*keys));
	int ret = -ENOMEM;

	*failed = 0;
	if (!c || !a || !keys)
		goto out;
	for (size_t i = first; i < s->nr_rows; i++) {
		for (size_t e = 0; e < s->nr_events; e++, k++) {
			c[k] = &s->rows[i]->c[e];
			a[k] = s->rows[i]->node->account;
			keys[k] = s->keys[e];
		}
	}
	ret = n ? vpmu_consumer_add_many(c, a, keys, n, failed) : 0;
	*failed %= s->nr_events;
	if (ret == -EOPNOTSUPP) /* added all the same; their values say so */
		ret = 0;
out:
	free(c);
	free(a);
	free(keys);
	return ret;
}

/* Stop the consumers of the @n rows at @rows in one batch and keep their last values. */
void rows_stop(struct session *s, struct row **rows, size_t n)
{
	size_t k = 0;
	struct vpmu_consumer **c = calloc(n * s->nr_events + 1, sizeof(*c));
	struct vpmu_value *last = calloc(n * s->nr_events + 1, sizeof(*last));

	for (size_t i = 0; i < n; i++) {
		if (!rows[i]->c)
			continue;
		for (size_t e = 0; e < s->nr_events; e++) {
			if (c && last)
				c[k++] = &rows[i]->c[e];
			else /* no memory for the batch: one by one */
				vpmu_consumer_del(&rows[i]->c[e], NULL, &rows[i]->final[e]);
		}
	}
	if (c && last && k)
		vpmu_consumer_del_many(c, k, last);
	k = 0;
	for (size_t i = 0; i < n; i++) {
		if (!rows[i]->c)
			continue;
		if (c && last) {
			memcpy(rows[i]->final, &last[k], s->nr_events * sizeof(*last));
			k += s->nr_events;
		}
		vpmu_rcu_free(rows[i]->c);
		rows[i]->c = NULL;
	}
	free(c);
	free(last);
}

/* Forget rows of removed nodes: all, or the oldest until @keep are left. */
void rows_forget(struct session *s, size_t keep)
{
	size_t to = 0, drop = s->nr_gone > keep ? s->nr_gone - keep : 0;

	for (size_t i = 0; i < s->nr_rows; i++) {
		if (drop && !s->rows[i]->node) {
			row_free(s->rows[i]);
			drop--;
			s->nr_gone--;
			continue;
		}
		s->rows[to++] = s->rows[i];
	}
	s->nr_rows = to;
}

static int cmp_row(const void *a, const void *b)
{
	const struct row *x = *(struct row *const *)a, *y = *(struct row *const *)b;

	if (x->order != y->order)
		return x->order < y->order ? -1 : 1;
	return x->pub.id < y->pub.id ? -1 : x->pub.id > y->pub.id;
}

static int nothing(struct node *n, unsigned int depth, void *arg)
{
	return 0;
}

void rows_sort(struct session *s)
{
	uint64_t gen = tenants_generation(s->ts) + 1;

	if (s->sorted_gen == gen)
		return;
	tenants_walk(s->ts, nothing, NULL); /* numbers the nodes */
	for (size_t i = 0; i < s->nr_rows; i++)
		if (s->rows[i]->node)
			s->rows[i]->order = s->rows[i]->node->order;
	if (s->nr_rows > 1)
		qsort(s->rows, s->nr_rows, sizeof(*s->rows), cmp_row);
	s->sorted_gen = gen;
}
