// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rows of a session: selecting nodes, and attaching, reading and detaching rows in one batch
 * per backend. session.c and session_save.c call this. A row must never change its backend.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/session_rows.h"

/* ---- which nodes a session counts ----------------------------------------------------------- */

static const struct node *vm_of(const struct node *n)
{
	return n->kind == NODE_VCPU ? n->parent : n;
}

static bool in_target(const struct session *s, const struct node *n)
{
	if (s->target_vm)
		return strcmp(vm_of(n)->name, s->reg.target) == 0;
	return tenant_path_within(s->reg.target, n->path);
}

bool session_counts(const struct session *s, const struct node *n)
{
	if (!access_sees(&s->reg.who, n->path))
		return false;
	switch (s->scope) {
	case SESSION_ONE:
		if (s->target_vm)
			return n->kind == NODE_VM && strcmp(n->name, s->reg.target) == 0;
		return n->kind <= NODE_TENANT && strcmp(n->path, s->reg.target) == 0;
	case SESSION_TENANT:
		return n->kind <= NODE_TENANT && in_target(s, n);
	case SESSION_VM:
		return n->kind == NODE_VM && in_target(s, n);
	case SESSION_VCPU:
		return n->kind == NODE_VCPU && in_target(s, n);
	}
	return false;
}

bool session_of_one_vm(const struct session *s)
{
	return s->scope == SESSION_ONE && s->target_vm;
}

/* ---- rows --------------------------------------------------------------------------------- */

void row_free(struct row *r)
{
	if (!r)
		return;
	vpmu_counting_free(r->c);
	free(r->final);
	free(r->before);
	free(r->path);
	free(r->vm);
	free(r->error);
	free(r);
}

uint64_t row_late(const struct row *r)
{
	return r->late_kept + (r->node ? r->node->late_ns - r->late_base : 0);
}

static struct row *row_new(struct session *s, struct node *n, struct vpmu_backend_node *in)
{
	struct row *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->node = n;
	r->late_base = n->late_ns;
	r->pub.id = s->next_id++;
	r->pub.backend = in->source->backend;
	r->pub.kind = n->kind;
	r->pub.depth = n->depth;
	r->pub.vcpu = n->vcpu;
	r->pub.since_us = realtime_us();
	r->since_ns = now_ns();
	r->path = strdup(n->path);
	r->final = calloc(s->nr_events, sizeof(*r->final));
	r->c = r->final ? vpmu_counting_new(in, s->keys, s->nr_events, r->final) : NULL;
	if (r->c)
		r->c->cpus = s->cpus;
	if (n->kind >= NODE_VM)
		r->vm = strdup(vm_of(n)->name);
	if (!r->path || !r->c || (n->kind >= NODE_VM && !r->vm)) {
		row_free(r);
		return NULL;
	}
	r->pub.path = r->path;
	r->pub.vm = r->vm;
	return r;
}

/* Room for one more row. */
static int reserve(struct session *s)
{
	size_t cap = s->cap_rows ? s->cap_rows * 2 : 8;
	struct row **rows;

	if ((s->nr_rows + 1) * s->nr_events > SESSION_VALUES_MAX)
		return -E2BIG;
	if (s->nr_rows < s->cap_rows)
		return 0;
	rows = reallocarray(s->rows, cap, sizeof(*rows));
	if (!rows)
		return -ENOMEM;
	s->rows = rows;
	s->cap_rows = cap;
	return 0;
}

int row_add(struct session *s, struct node *n, struct vpmu_backend_node *in)
{
	int ret = reserve(s);
	struct row *r = ret ? NULL : row_new(s, n, in);

	if (!r)
		return ret ? ret : -ENOMEM;
	s->rows[s->nr_rows++] = r;
	return 0;
}

/* ---- a VM that is started again ------------------------------------------------------------- */

struct vpmu_value *row_before(const struct session *s, struct row *r)
{
	if (!r->before)
		r->before = calloc(2 * s->nr_events, sizeof(*r->before));
	return r->before;
}

/* Counts that one run could not take make the sum partial. */
static void value_add_run(struct vpmu_value *to, const struct vpmu_value *run)
{
	to->partial |= run->partial || to->supported != run->supported;
	to->supported |= run->supported;
	if (run->quality > to->quality)
		to->quality = run->quality;
	to->count += run->count;
	to->enabled_ns += run->enabled_ns;
	to->running_ns += run->running_ns;
}

const struct vpmu_value *row_values(const struct session *s, struct row *r)
{
	struct vpmu_value *sum;

	if (!r->before)
		return r->final;
	sum = r->before + s->nr_events;
	for (size_t e = 0; e < s->nr_events; e++) {
		sum[e] = r->final[e];
		value_add_run(&sum[e], &r->before[e]);
	}
	return sum;
}

int row_goes_on(struct session *s, struct row *r)
{
	size_t i = 0, last = s->nr_rows - 1;
	struct row *old;

	while (i < last && (s->rows[i]->node || strcmp(s->rows[i]->pub.backend, r->pub.backend)))
		i++;
	if (i == last)
		return 0;
	if (!row_before(s, r))
		return -ENOMEM;
	old = s->rows[i];
	memcpy(r->before, row_values(s, old), s->nr_events * sizeof(*r->before));
	r->pub.id = old->pub.id;
	r->pub.since_us = old->pub.since_us;
	r->since_ns = old->since_ns;
	r->late_kept = row_late(old);
	row_free(old);
	memmove(&s->rows[i], &s->rows[i + 1], (last - i) * sizeof(s->rows[0]));
	s->nr_rows--;
	s->nr_gone--;
	return 0;
}

/* ---- counting, backend by backend ----------------------------------------------------------- */

/* The countings on @source of the @n rows at @rows, as a list. */
static struct vpmu_counting *rows_of(struct row **rows, size_t n, const struct vpmu_backend *source)
{
	struct vpmu_counting *list = NULL;

	while (n--) {
		struct vpmu_counting *c = rows[n]->c;

		if (!c || c->source != source)
			continue;
		c->next = list;
		list = c;
	}
	return list;
}

int rows_start(struct session *s, size_t first, size_t *event, struct vpmu_backend **failed)
{
	size_t n = s->nr_rows - first;
	struct row **rows = n ? s->rows + first : NULL; /* s->rows is NULL without rows */
	struct vpmu_backend *source;

	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++) {
		int ret;

		source->base_ns = now_ns();
		ret = vpmu_backend_attach(rows_of(rows, n, source), event);
		if (!ret)
			continue;
		*failed = source;
		while (i--)
			vpmu_backend_detach(rows_of(rows, n, tenants_source(s->ts, i)));
		return ret;
	}
	return 0;
}

void rows_stop(struct session *s, struct row **rows, size_t n)
{
	struct vpmu_backend *source;

	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++)
		vpmu_backend_detach(rows_of(rows, n, source));
	for (size_t i = 0; i < n; i++) {
		vpmu_counting_free(rows[i]->c);
		rows[i]->c = NULL;
	}
}

size_t session_rows_for(const struct session *s, const struct access *who)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nr_rows; i++)
		n += access_sees(who, s->rows[i]->path);
	return n;
}

bool session_counts_on(const struct session *s, const struct vpmu_backend *source)
{
	for (size_t i = 0; i < s->nr_rows; i++)
		if (s->rows[i]->c && s->rows[i]->c->source == source)
			return true;
	return false;
}

void rows_take(struct session *s)
{
	struct vpmu_backend *source;
	uint64_t begin_ns;

	rows_sort(s);
	/* What a CPU has charged before it is flushed is current; so is all of a CPU that does not
	 * run the row then. */
	begin_ns = now_ns();
	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++)
		vpmu_backend_flush(rows_of(s->rows, s->nr_rows, source));
	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++)
		if (source->ops->read_list)
			source->ops->read_list(rows_of(s->rows, s->nr_rows, source));
	/* VMs keep running: a parent that is read after its children never shows less than they do.
	 */
	for (size_t i = s->nr_rows; i--;)
		if (s->rows[i]->c && !s->rows[i]->c->source->ops->read_list)
			vpmu_backend_read(s->rows[i]->c);
	s->read = as_of_now(begin_ns);
}

void rows_forget(struct session *s, size_t keep, uint64_t before)
{
	size_t to = 0, drop = s->nr_gone > keep ? s->nr_gone - keep : 0;

	if (session_of_one_vm(s))
		return;
	for (size_t i = 0; i < s->nr_rows; i++) {
		if (drop && !s->rows[i]->node && s->rows[i]->pub.gone_ns < before) {
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
