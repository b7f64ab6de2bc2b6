// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vpmu/fail.h"
#include "cgroup/service/session_rows.h"

struct sessions {
	struct tenants *ts;
	struct tenants_watch watch;
	struct session *first;
	unsigned int nr;
	uint64_t next_auto;
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

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* ---- following the tree --------------------------------------------------------------------- */

static void node_added(struct node *n, void *arg)
{
	struct sessions *ss = arg;

	for (struct session *s = ss->first; s; s = s->next) {
		struct row *r;
		size_t failed;
		int ret;

		if (!session_counts(s, n))
			continue;
		ret = rows_reserve(s, 1);
		r = ret == 0 || ret == -E2BIG ? row_new(s, n) : NULL;
		if (ret || !r) {
			/* No row to say it in: the reader sees that rows are missing. */
			row_free(r);
			s->dropped++;
			continue;
		}
		s->rows[s->nr_rows++] = r;
		ret = rows_start(s, s->nr_rows - 1, &failed);
		if (ret) {
			vpmu_rcu_free(r->c);
			r->c = NULL;
			for (size_t e = 0; e < s->nr_events; e++)
				r->final[e].supported = true; /* for all we know: not counted */
			if (asprintf(&r->error, "%s: %s", s->events[failed],
				     ret == -ENOSPC ? "all counter slots of the host are in use"
						    : strerror(-ret)) < 0)
				r->error = NULL;
			r->pub.error = r->error ? r->error : "out of memory";
		}
	}
}

static void node_removing(struct node *n, void *arg)
{
	struct sessions *ss = arg;

	for (struct session *s = ss->first; s; s = s->next) {
		if (!session_counts(s, n))
			continue;
		for (size_t i = 0; i < s->nr_rows; i++) {
			if (s->rows[i]->node != n)
				continue;
			/* Where it was in the tree; 0 is "/", which is never removed. */
			if (!s->rows[i]->order) {
				rows_sort(s);
				i = SIZE_MAX; /* rows moved: look again */
				continue;
			}
			rows_stop(s, &s->rows[i], 1);
			s->rows[i]->node = NULL;
			s->rows[i]->pub.gone = true;
			s->nr_gone++;
			break;
		}
		if (s->nr_gone > SESSION_GONE_MAX) {
			s->dropped += s->nr_gone - SESSION_GONE_MAX;
			rows_forget(s, SESSION_GONE_MAX);
		}
	}
}

int sessions_create(struct tenants *ts, struct sessions **out)
{
	struct sessions *ss = calloc(1, sizeof(*ss));

	if (!ss)
		return -ENOMEM;
	ss->ts = ts;
	ss->next_auto = 1;
	ss->watch =
		(struct tenants_watch){.added = node_added, .removing = node_removing, .arg = ss};
	tenants_watch(ts, &ss->watch);
	*out = ss;
	return 0;
}

void sessions_destroy(struct sessions *ss)
{
	if (!ss)
		return;
	while (ss->first)
		session_close(ss->first);
	tenants_unwatch(ss->ts, &ss->watch);
	free(ss);
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
	free(s->target);
	free(s);
}

bool session_name_ok(const char *name, char *err, size_t errlen)
{
	size_t len = strlen(name);

	if (len >= 1 && len <= SESSION_NAME_MAX &&
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") ==
		    len)
		return true;
	fail(-EINVAL, err, errlen, "name: \"%.64s\": 1 to %d of [A-Za-z0-9_.:-] are accepted", name,
	     SESSION_NAME_MAX);
	return false;
}

static int take_name(struct sessions *ss, const char *name, struct session *s, char *err,
		     size_t errlen)
{
	if (!name) {
		snprintf(s->name, sizeof(s->name), "@%llu", (unsigned long long)ss->next_auto++);
		return 0;
	}
	if (!session_name_ok(name, err, errlen))
		return -EINVAL;
	if (session_find(ss, name))
		return fail(-EEXIST, err, errlen,
			    "name: there is a session \"%s\"; detach it, or take another name",
			    name);
	strcpy(s->name, name);
	return 0;
}

static int add_row(struct node *n, unsigned int depth, void *arg)
{
	struct session *s = arg;
	struct row *r;
	int ret;

	if (!session_counts(s, n))
		return 0;
	ret = rows_reserve(s, 1);
	if (ret)
		return ret;
	r = row_new(s, n);
	if (!r)
		return -ENOMEM;
	s->rows[s->nr_rows++] = r;
	return 0;
}

static int copy_events(struct session *s, const struct session_spec *spec)
{
	s->nr_events = spec->nr_events;
	s->events = calloc(spec->nr_events, sizeof(*s->events));
	s->keys = calloc(spec->nr_events, sizeof(*s->keys));
	if (!s->events || !s->keys)
		return -ENOMEM;
	for (size_t e = 0; e < spec->nr_events; e++) {
		s->keys[e] = spec->keys[e];
		s->events[e] = strdup(spec->events[e]);
		if (!s->events[e])
			return -ENOMEM;
	}
	return 0;
}

static int check_spec(const struct sessions *ss, const struct session_spec *spec, char *err,
		      size_t errlen)
{
	if (spec->nr_events < 1 || spec->nr_events > SESSION_EVENTS_MAX)
		return fail(-EINVAL, err, errlen, "events: %zu given; 1 to %d are accepted",
			    spec->nr_events, SESSION_EVENTS_MAX);
	if (spec->target->kind == NODE_VCPU)
		return fail(-EINVAL, err, errlen, "target: a vCPU; a tenant or VM is accepted");
	if (spec->target->kind == NODE_VM && spec->scope == SESSION_TENANT)
		return fail(-EINVAL, err, errlen,
			    "scope: \"tenant\" of VM %s; none, vm or vcpu are accepted for a VM",
			    spec->target->name);
	if (ss->nr >= SESSIONS_MAX)
		return fail(-E2BIG, err, errlen,
			    "attach: there are %d sessions; detach one of `sessions` first",
			    SESSIONS_MAX);
	return 0;
}

int session_open(struct sessions *ss, const struct session_spec *spec, struct session **out,
		 char *err, size_t errlen)
{
	struct session *s, **link;
	size_t failed;
	int ret = check_spec(ss, spec, err, errlen);

	if (ret)
		return ret;
	s = calloc(1, sizeof(*s));
	if (!s)
		return fail(-ENOMEM, err, errlen, "attach: out of memory");
	s->ss = ss;
	s->ts = ss->ts;
	s->scope = spec->scope;
	s->owner = spec->owner;
	s->target_vm = spec->target->kind == NODE_VM;
	s->next_id = 1;
	ret = take_name(ss, spec->name, s, err, errlen);
	if (ret)
		goto fail;
	s->target = strdup(s->target_vm ? spec->target->name : spec->target->path);
	ret = s->target ? copy_events(s, spec) : -ENOMEM;
	if (!ret)
		ret = tenants_walk(ss->ts, add_row, s);
	if (ret) {
		fail(ret, err, errlen, "attach: %s",
		     ret == -E2BIG ? "too many rows; fewer events or a narrower target are accepted"
				   : strerror(-ret));
		goto fail;
	}
	ret = rows_start(s, 0, &failed);
	if (ret) {
		fail(ret, err, errlen, "events: %s: %s", s->events[failed],
		     ret == -ENOSPC ? "all counter slots of the host are in use; detach a session, "
				      "or ask for fewer distinct events"
				    : strerror(-ret));
		goto fail;
	}
	s->opened_ns = now_ns();
	for (link = &ss->first; *link; link = &(*link)->next)
		;
	*link = s;
	ss->nr++;
	*out = s;
	return 0;
fail:
	session_free(s);
	return ret;
}

void session_close(struct session *s)
{
	struct session **link = &s->ss->first;

	rows_stop(s, s->rows, s->nr_rows);
	while (*link != s)
		link = &(*link)->next;
	*link = s->next;
	s->ss->nr--;
	session_free(s);
}

void session_close_owner(struct sessions *ss, const void *owner)
{
	struct session *s = ss->first, *next;

	for (; s; s = next) {
		next = s->next;
		if (s->owner == owner)
			session_close(s);
	}
}

bool session_owned(const struct sessions *ss, const void *owner)
{
	for (const struct session *s = ss->first; s; s = s->next)
		if (s->owner == owner)
			return true;
	return false;
}

struct session *session_find(const struct sessions *ss, const char *name)
{
	for (struct session *s = ss->first; s; s = s->next)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}

int sessions_each(const struct sessions *ss, int (*fn)(struct session *s, void *arg), void *arg)
{
	int ret = 0;

	for (struct session *s = ss->first; s && !ret; s = s->next)
		ret = fn(s, arg);
	return ret;
}

int session_read(struct session *s, bool keep_gone,
		 int (*fn)(const struct session_row *row, void *arg), void *arg)
{
	int ret = 0;

	vpmu_host_sync(tenants_host(s->ts));
	s->read_ns = now_ns();
	rows_sort(s);
	/* The host runs on: a parent read after its children never shows less than they do. */
	for (size_t i = s->nr_rows; i--;)
		for (size_t e = 0; s->rows[i]->c && e < s->nr_events; e++)
			vpmu_consumer_read(&s->rows[i]->c[e], &s->rows[i]->final[e]);
	for (size_t i = 0; i < s->nr_rows && !ret; i++) {
		s->rows[i]->pub.values = s->rows[i]->final;
		ret = fn(&s->rows[i]->pub, arg);
	}
	if (!ret && !keep_gone)
		rows_forget(s, 0);
	return ret;
}

const char *session_name(const struct session *s)
{
	return s->name;
}

const char *session_target(const struct session *s)
{
	return s->target;
}

enum session_scope session_scope(const struct session *s)
{
	return s->scope;
}

const void *session_owner(const struct session *s)
{
	return s->owner;
}

size_t session_nr_events(const struct session *s)
{
	return s->nr_events;
}

size_t session_nr_rows(const struct session *s)
{
	return s->nr_rows;
}

const char *session_event(const struct session *s, size_t i)
{
	return s->events[i];
}

vpmu_key_t session_key(const struct session *s, size_t i)
{
	return s->keys[i];
}

uint64_t session_age_ns(const struct session *s)
{
	return now_ns() - s->opened_ns;
}

uint64_t session_read_age_ns(const struct session *s)
{
	return s->read_ns - s->opened_ns;
}

uint64_t session_dropped(const struct session *s)
{
	return s->dropped;
}
