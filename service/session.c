// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Life of sessions: opening, following the tree of tenants, reading, closing. The commands call
 * this on the control thread. It must never add values, neither of backends nor of nodes, except
 * the runs of one VM in a session of that VM.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/cpu_list.h"
#include "service/program/memory.h"
#include "service/session_rows.h"
#include "service/session_save.h"
#include "vpmu/util/fail.h"

struct sessions {
	struct registry reg;
	struct tenants *ts;
	struct tenants_watch watch;
	uint64_t generation;
	void (*on_gone)(const struct session *s, const struct row *r, void *arg);
	void *gone_arg;
};

static void session_close_one(struct registered *e)
{
	session_close((struct session *)e); /* reg is first in struct session */
}

static const struct registry_kind kind = {
	.kind = "session",
	.open = "attach",
	.end = "detach",
	.max = {SESSIONS_MAX / 4, SESSIONS_MAX * 3 / 8, SESSIONS_MAX * 3 / 4, SESSIONS_MAX * 7 / 8,
		SESSIONS_MAX},
	.by_row = true,
	.stays = true,
	.close = session_close_one,
};

static const char *const scope_names[] = {"none", "tenant", "vm", "vcpu"};

int session_scope_parse(const char *name, enum session_scope *scope)
{
	for (unsigned int i = 0; i < sizeof(scope_names) / sizeof(scope_names[0]); i++) {
		if (strcmp(name, scope_names[i]) == 0) {
			*scope = (enum session_scope)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *session_scope_name(enum session_scope scope)
{
	return scope_names[scope];
}

struct tenants *sessions_tenants(const struct sessions *ss)
{
	return ss->ts;
}

uint64_t sessions_generation(const struct sessions *ss)
{
	return ss->generation;
}

static struct session *session_first(const struct sessions *ss)
{
	return (struct session *)ss->reg.first;
}

static struct session *session_next(const struct session *s)
{
	return (struct session *)s->reg.next;
}

/* ---- following the tree --------------------------------------------------------------------- */

/* The row stays, with the reason why it does not count. */
static void row_failed(struct session *s, struct row *r, int ret, size_t event)
{
	struct vpmu_backend *in = r->c->source;
	char why[200];

	vpmu_counting_free(r->c);
	r->c = NULL;
	/* Not counted, which is not the same as not supported. */
	for (size_t e = 0; e < s->nr_events; e++)
		r->final[e].supported = true;
	if (asprintf(&r->error, "%s: %s", s->events[event],
		     ret == -ENOSPC ? "all counter slots of the host are in use"
				    : vpmu_backend_error(in, ret, why, sizeof(why))) < 0)
		r->error = NULL;
	r->pub.error = r->error ? r->error : "out of memory";
}

static void session_node_added(struct node *n, struct vpmu_backend_node *in, void *arg)
{
	struct sessions *ss = arg;
	struct vpmu_backend *source;
	size_t event;
	int ret;

	for (struct session *s = session_first(ss); s; s = session_next(s)) {
		if (!session_counts(s, n))
			continue;
		if (row_add(s, n, in)) {
			/* No row can show the error: report it as a dropped row. */
			s->dropped++;
			continue;
		}
		if (session_of_one_vm(s) && row_goes_on(s, s->rows[s->nr_rows - 1]))
			s->dropped++;
		ret = rows_start(s, s->nr_rows - 1, &event, &source);
		if (ret)
			row_failed(s, s->rows[s->nr_rows - 1], ret, event);
		else if (!s->rows[s->nr_rows - 1]->before) /* saved bases belong to another run */
			session_resume_row(s, s->rows[s->nr_rows - 1]);
	}
}

/* Stop the rows of @n, one per backend; they keep their last values. */
static void stop_node(struct session *s, struct node *n)
{
	for (size_t i = 0; i < s->nr_rows; i++) {
		struct row *r = s->rows[i];

		if (r->node != n)
			continue;
		/* A gone row keeps its place in the tree, so it needs one: order 0 means not sorted
		 * yet, or "/", which is never removed. */
		if (!r->order) {
			rows_sort(s);
			i = SIZE_MAX; /* rows moved: look again from the first */
			continue;
		}
		rows_stop(s, &r, 1);
		if (s->ss->on_gone)
			s->ss->on_gone(s, r, s->ss->gone_arg);
		r->late_kept = row_late(r);
		r->node = NULL;
		r->pub.gone = true;
		r->pub.gone_ns = now_ns();
		s->nr_gone++;
		if (n->kind >= NODE_VM)
			break; /* it has only one row */
	}
}

static void session_node_removing(struct node *n, void *arg)
{
	struct sessions *ss = arg;

	for (struct session *s = session_first(ss); s; s = session_next(s)) {
		if (!session_counts(s, n))
			continue;
		stop_node(s, n);
		if (s->nr_gone > SESSION_GONE_MAX) {
			s->dropped += s->nr_gone - SESSION_GONE_MAX;
			rows_forget(s, SESSION_GONE_MAX, UINT64_MAX);
		}
	}
}

struct sessions *sessions_create(struct tenants *ts)
{
	struct sessions *ss = xcalloc(1, sizeof(*ss));

	ss->ts = ts;
	ss->reg.kind = &kind;
	ss->watch = (struct tenants_watch){
		.added = session_node_added, .removing = session_node_removing, .arg = ss};
	tenants_watch(ts, &ss->watch);
	return ss;
}

void sessions_destroy(struct sessions *ss)
{
	if (!ss)
		return;
	registry_close_all(&ss->reg);
	tenants_unwatch(ss->ts, &ss->watch);
	free(ss);
}

void sessions_on_gone(struct sessions *ss,
		      void (*fn)(const struct session *s, const struct row *r, void *arg),
		      void *arg)
{
	ss->on_gone = fn;
	ss->gone_arg = arg;
}

struct registry *sessions_registry(struct sessions *ss)
{
	return &ss->reg;
}

/* ---- sessions ----------------------------------------------------------------------------- */

static void session_free(struct session *s)
{
	for (size_t i = 0; i < s->nr_rows; i++)
		row_free(s->rows[i]);
	for (size_t e = 0; s->events && e < s->nr_events; e++)
		free(s->events[e]);
	free(s->rows);
	free(s->events);
	free(s->keys);
	free(s->metrics);
	free(s->cpu_list);
	free(s->cpus);
	free(s);
}

static int session_add_rows(struct node *n, unsigned int depth, void *arg)
{
	struct session *s = arg;
	int ret = 0;

	for (unsigned int i = 0; i < TENANTS_SOURCES_MAX && !ret; i++)
		if (n->in[i] && session_counts(s, n))
			ret = row_add(s, n, n->in[i]);
	return ret;
}

static int copy_events(struct session *s, const struct session_spec *spec)
{
	s->nr_events = spec->nr_events;
	s->events = calloc(spec->nr_events, sizeof(*s->events));
	s->keys = calloc(spec->nr_events, sizeof(*s->keys));
	if (spec->metrics)
		s->metrics = strdup(spec->metrics);
	if (!s->events || !s->keys || !s->metrics != !spec->metrics)
		return -ENOMEM;
	for (size_t e = 0; e < spec->nr_events; e++) {
		s->keys[e] = spec->keys[e];
		s->events[e] = strdup(spec->events[e]);
		if (!s->events[e])
			return -ENOMEM;
	}
	return 0;
}

static int check_spec(const struct session_spec *spec, char *err, size_t errlen)
{
	if (spec->nr_events < 1 || spec->nr_events > SESSION_EVENTS_MAX)
		return fail(-EINVAL, err, errlen, "events: %zu given; expected 1 to %d",
			    spec->nr_events, SESSION_EVENTS_MAX);
	if (spec->open.target->kind == NODE_VCPU)
		return fail(-EINVAL, err, errlen, "target: a vCPU; expected a tenant or VM");
	if (spec->open.target->kind == NODE_VM && spec->scope == SESSION_TENANT)
		return fail(-EINVAL, err, errlen,
			    "scope: \"tenant\" of VM %s; expected none, vm or vcpu for a VM",
			    spec->open.target->name);
	return 0;
}

/* Add @n keys to the @nr distinct ones at @set. Returns false if there would be more than @max. */
static bool add_keys(vpmu_key_t *set, size_t *nr, size_t max, const vpmu_key_t *keys, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < *nr && set[k] != keys[i])
			k++;
		if (k == max)
			return false;
		set[k] = keys[i];
		*nr += k == *nr;
	}
	return true;
}

/* Readers must leave counter slots to administrators and to each other. */
static int check_keys(struct sessions *ss, const struct session_spec *spec, char *err,
		      size_t errlen)
{
	const struct access *who = spec->open.who;
	static const struct {
		enum access_pool pool;
		size_t max;
	} limits[] = {{POOL_USER, SESSION_USER_KEYS},
		      {POOL_TENANT, SESSION_TENANT_KEYS},
		      {POOL_READERS, SESSION_READERS_KEYS}};
	bool ok = true;

	if (access_admin(who))
		return 0;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]) && ok; i++) {
		vpmu_key_t set[SESSION_READERS_KEYS];
		size_t nr = 0;

		ok = add_keys(set, &nr, limits[i].max, spec->keys, spec->nr_events);
		for (const struct session *s = session_first(ss); s && ok; s = session_next(s))
			if (access_pooled(limits[i].pool, who, &s->reg.who))
				ok = add_keys(set, &nr, limits[i].max, s->keys, s->nr_events);
	}
	if (ok)
		return 0;
	ss->reg.refused++;
	return fail(-ENOSPC, err, errlen,
		    "events: one reader may count %d distinct events at a time, the readers of a "
		    "tenant %d, and all readers %d; detach a session, or ask for fewer",
		    SESSION_USER_KEYS, SESSION_TENANT_KEYS, SESSION_READERS_KEYS);
}

/* Take the list of CPUs, which all backends must be able to count. */
static int session_cpus(struct session *s, const char *list, char *err, size_t errlen)
{
	struct vpmu_backend *source;
	unsigned int nr = 0;

	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++) {
		if (!(source->can & VPMU_BACKEND_CPUS))
			return fail(-EOPNOTSUPP, err, errlen,
				    "cpus: backend %s does not count single CPUs", source->backend);
		nr = source->nr_cpus;
	}
	s->cpu_list = strdup(list);
	s->cpus = calloc(nr ? nr : 1, sizeof(*s->cpus));
	if (!s->cpu_list || !s->cpus)
		return fail(-ENOMEM, err, errlen, "attach: out of memory");
	return cpu_list_parse(list, s->cpus, nr, err, errlen);
}

static int session_start(struct session *s, const struct session_spec *spec, char *err,
			 size_t errlen)
{
	struct vpmu_backend *source;
	char why[200];
	size_t event;
	int ret = copy_events(s, spec);

	if (!ret)
		ret = tenants_walk(s->ts, session_add_rows, s);
	if (ret)
		return fail(ret, err, errlen, "attach: %s",
			    ret == -E2BIG
				    ? "too many rows; ask for fewer events or a narrower target"
				    : strerror(-ret));
	ret = rows_start(s, 0, &event, &source);
	if (ret == -ETIMEDOUT)
		return fail(ret, err, errlen, "attach: %s",
			    vpmu_backend_error(source, ret, why, sizeof(why)));
	if (ret)
		return fail(ret, err, errlen, "events: %s, backend %s: %s", s->events[event],
			    source->backend,
			    ret == -ENOSPC ? "all counter slots of the host are in use; detach a "
					     "session, or ask for fewer distinct events"
					   : strerror(-ret));
	return 0;
}

/* Note when the counts began. */
static void session_opened(struct session *s)
{
	struct vpmu_backend *source;

	s->opened_ns = now_ns();
	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++)
		if (session_counts_on(s, source) &&
		    s->opened_ns - source->base_ns > s->opened_width_ns)
			s->opened_width_ns = s->opened_ns - source->base_ns;
}

int session_open(struct sessions *ss, const struct session_spec *spec, struct session **out,
		 char *err, size_t errlen)
{
	struct session *s;
	int ret = check_spec(spec, err, errlen);

	if (!ret)
		ret = check_keys(ss, spec, err, errlen);
	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(-ENOMEM, err, errlen, "attach: out of memory");
	s->ss = ss;
	s->ts = ss->ts;
	s->scope = spec->scope;
	s->target_vm = spec->open.target->kind == NODE_VM;
	s->next_id = 1;
	ret = registry_prepare(&ss->reg, &s->reg, &spec->open, err, errlen);
	if (ret)
		goto fail;
	if (spec->cpus)
		ret = session_cpus(s, spec->cpus, err, errlen);
	if (!ret)
		ret = session_start(s, spec, err, errlen);
	if (ret)
		goto fail_registered;
	session_opened(s);
	registry_add(&ss->reg, &s->reg);
	ss->generation++;
	*out = s;
	return 0;
fail_registered:
	registry_discard(&s->reg);
fail:
	session_free(s);
	return ret;
}

void session_close(struct session *s)
{
	rows_stop(s, s->rows, s->nr_rows);
	s->ss->generation++;
	registry_remove(&s->ss->reg, &s->reg);
	session_free(s);
}

void session_read(struct session *s, void (*fn)(const struct session_row *row, void *arg),
		  void *arg)
{
	rows_take(s);
	for (size_t i = 0; i < s->nr_rows; i++) {
		s->rows[i]->pub.values = row_values(s, s->rows[i]);
		s->rows[i]->pub.late_ns = row_late(s->rows[i]);
		fn(&s->rows[i]->pub, arg);
	}
}

void session_forget_before(struct session *s, uint64_t ns)
{
	rows_forget(s, 0, ns);
}
