// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Sessions of ours on the servers, and what these say of them. peers.c and peer_source.c call it.
 * What a server says is hostile: a count that cannot be true ends the connection, and none may be
 * believed in part.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmud/peer_rows.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define SINGLE_MAX 4 /* sessions about one VM each, of a meter and a kind on one server */

/* ---- parts ---------------------------------------------------------------------------------- */

void value_add(struct vpmu_value *to, const struct vpmu_value *v)
{
	if (!v->supported)
		return;
	if (!to->supported || v->quality > to->quality)
		to->quality = v->quality;
	to->supported = true;
	to->partial |= v->partial;
	to->count += v->count;
	to->enabled_ns += v->enabled_ns;
	to->running_ns += v->running_ns;
}

bool part_matters(const struct part *t)
{
	const struct pnode *n = pnode_of(t->count->c.node);

	return n->kind != PNODE_TENANT || n->vms[t->r->peer->slot];
}

int part_new(struct count *k, struct remote *r)
{
	struct part *t = r ? calloc(1, sizeof(*t) + 2 * k->m->nr * sizeof(t->v[0])) : NULL;

	if (!t)
		return -ENOMEM;
	t->count = k;
	t->r = r;
	LIST_INSERT_HEAD(&k->parts, t, in_count);
	LIST_INSERT_HEAD(&r->parts, t, in_remote);
	return 0;
}

void part_free(struct part *t)
{
	LIST_REMOVE(t, in_count);
	LIST_REMOVE(t, in_remote);
	free(t);
}

/* ---- sessions on servers -------------------------------------------------------------------- */

static void remote_free(struct remote *r)
{
	if (r->m)
		LIST_REMOVE(r, in_meter);
	LIST_REMOVE(r, in_peer);
	free(r);
}

/* Nobody wants @r any more. */
static void forgotten(void *arg, const json_t *answer)
{
}

void remote_drop(struct remote *r)
{
	if (r->m)
		LIST_REMOVE(r, in_meter);
	r->m = NULL;
	if (r->asked)
		return; /* with the last answer */
	if (r->state == COUNTS && r->peer->link)
		link_ask(r->peer->link,
			 json_pack("{s:s, s:s}", "cmd", "detach", "session", r->session), forgotten,
			 NULL);
	remote_free(r);
}

/* An answer about @r is here; false: it has no use for it. */
static bool remote_answered(struct remote *r, const json_t *answer)
{
	r->asked--;
	if (r->m && answer)
		return true;
	if (!r->m && !r->asked)
		remote_drop(r);
	return false;
}

static void remote_failed(struct remote *r, const char *why)
{
	r->state = FAILED;
	fail(0, r->why, sizeof(r->why), "%s", why);
}

static const char *error_of(const json_t *answer)
{
	const char *text = json_string_value(json_object_get(answer, "error"));

	return text ? text : "it does not say why";
}

static void on_attached(void *arg, const json_t *answer)
{
	struct remote *r = arg;
	const char *name = json_string_value(json_object_get(answer, "session"));
	bool ok = json_is_true(json_object_get(answer, "ok"));

	/* Its name is needed to end it, too. */
	if (ok && name && *name && strlen(name) <= REGISTRY_NAME_MAX) {
		snprintf(r->session, sizeof(r->session), "%s", name);
		r->state = COUNTS;
	} else if (ok) {
		link_fail(r->peer->link, "its session has no name");
	} else if (answer) {
		remote_failed(r, error_of(answer));
	}
	remote_answered(r, answer);
}

static const char *const scopes[] = {
	[PNODE_TENANT] = "tenant", [PNODE_VM] = "vm", [PNODE_VCPU] = "vcpu"};

static json_t *event_names(const struct meter *m)
{
	json_t *names = json_array();
	char name[VPMU_EVENT_NAME_MAX];

	for (size_t i = 0; names && i < m->nr; i++) {
		if (json_array_append_new(names, json_string(vpmu_event_name(m->keys[i], name)))) {
			json_decref(names);
			names = NULL;
		}
	}
	return names;
}

static struct remote *remote_open(struct meter *m, struct peer *e, enum pnode_kind kind,
				  const struct peer_vm *only)
{
	struct remote *r = calloc(1, sizeof(*r));
	json_t *req;
	int ret;

	if (!r)
		return NULL;
	r->m = m;
	r->peer = e;
	r->kind = kind;
	r->only = only;
	LIST_INSERT_HEAD(&m->remotes, r, in_meter);
	LIST_INSERT_HEAD(&e->remotes, r, in_peer);
	req = json_pack("{s:s, s:o, s:s, s:s}", "cmd", "attach", "events", event_names(m), "scope",
			scopes[kind], "target", only ? only->name : "/");
	ret = link_ask(e->link, req, on_attached, r);
	if (ret)
		remote_failed(r, ret == -ENOMEM ? "out of memory" : "it reads no requests");
	else
		r->asked = 1;
	return r;
}

/* The session on @e that counts nodes of @kind, opened if there is none. @only: the VM that it is
 * wanted for; @many: wanted for others, too. */
struct remote *remote_for(struct meter *m, struct peer *e, enum pnode_kind kind,
			  const struct peer_vm *only, bool many)
{
	unsigned int single = 0;
	struct remote *r;

	LIST_FOREACH (r, &m->remotes, in_meter) {
		if (r->peer != e || r->kind != kind)
			continue;
		if (!r->only || (r->only == only && !many))
			return r;
		single++;
	}
	/* A server has a limit of sessions. */
	many |= single >= SINGLE_MAX;
	return remote_open(m, e, kind, many ? NULL : only);
}

/* ---- what servers say ----------------------------------------------------------------------- */

static bool get_count(const json_t *o, const char *key, uint64_t *out)
{
	const char *text = json_string_value(json_object_get(o, key));
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

/* "tsc partial": each word may be missing, and there are no others. */
static bool get_quality(const json_t *o, struct vpmu_value *v)
{
	const char *text = json_string_value(json_object_get(o, "quality"));

	if (!text)
		return false;
	v->quality = VPMU_Q_EXACT;
	while (*text) {
		size_t n = strcspn(text, " ");
		int q = VPMU_Q_EXACT;

		if (n == 7 && !strncmp(text, "partial", n)) {
			v->partial = true;
		} else {
			while (q <= VPMU_Q_TSC &&
			       (strlen(vpmu_quality_name((enum vpmu_quality)q)) != n ||
				strncmp(vpmu_quality_name((enum vpmu_quality)q), text, n)))
				q++;
			if (q > VPMU_Q_TSC)
				return false;
			v->quality = (enum vpmu_quality)q;
		}
		text += n + (text[n] == ' ');
	}
	return true;
}

static bool get_value(const json_t *o, struct vpmu_value *v)
{
	const json_t *supported = json_object_get(o, "supported");

	*v = (struct vpmu_value){.supported = json_is_true(supported)};
	return json_is_boolean(supported) && get_count(o, "count", &v->count) &&
	       get_count(o, "enabled-ns", &v->enabled_ns) &&
	       get_count(o, "running-ns", &v->running_ns) && v->running_ns <= v->enabled_ns &&
	       get_quality(o, v);
}

/* The node that @row of @r is about, or NULL: we have none. */
static struct pnode *row_node(const struct remote *r, const json_t *row)
{
	struct peers *p = r->peer->p;
	const char *kind = json_string_value(json_object_get(row, "kind"));
	const char *path = json_string_value(json_object_get(row, "path"));
	const char *name = json_string_value(json_object_get(row, "vm"));
	const json_t *nr = json_object_get(row, "vcpu");
	const struct peer_vm *vm;
	struct node *n;

	if (!kind || !path)
		return NULL;
	if (r->kind == PNODE_TENANT) {
		if (strcmp(kind, "root") && strcmp(kind, "host") && strcmp(kind, "tenant"))
			return NULL;
		n = tenant_find(p->ts, path);
		return n && node_in(n, &p->source) ? pnode_of(node_in(n, &p->source)) : NULL;
	}
	vm = name && !strcmp(kind, scopes[r->kind]) ? peer_vm_find(r->peer, name) : NULL;
	if (!vm || r->kind == PNODE_VM)
		return vm ? vm->in : NULL;
	return json_is_integer(nr) && json_integer_value(nr) >= 0 &&
			       json_integer_value(nr) < (json_int_t)vm->nr_vcpus
		       ? vm->vcpu[json_integer_value(nr)]
		       : NULL;
}

static struct part *part_of(const struct remote *r, const struct pnode *n)
{
	struct count *k;
	struct part *t;

	LIST_FOREACH (k, &n->counts, in_node) {
		if (k->m != r->m)
			continue;
		LIST_FOREACH (t, &k->parts, in_count)
			if (t->r == r)
				return t;
	}
	return NULL;
}

/* One row of an answer. A node that was removed there and added again is one counting here. Not 0:
 * it cannot be true. */
static int take_row(struct remote *r, const json_t *row, bool gone)
{
	const json_t *backend = json_object_get(row, "backend"), *values, *id;
	struct part *t;
	struct pnode *n;
	size_t nr = r->m->nr;

	if (json_is_true(json_object_get(row, "gone")) != gone || !json_is_string(backend) ||
	    strcmp(json_string_value(backend), PEER_BACKEND))
		return 0;
	n = row_node(r, row);
	t = n ? part_of(r, n) : NULL;
	if (!t)
		return 0; /* a node that is not here yet */
	values = json_object_get(row, "values");
	id = json_object_get(row, "row");
	if (json_array_size(values) != nr || !json_is_integer(id) || json_integer_value(id) < 1)
		return -EINVAL;
	for (size_t i = 0; i < nr; i++) {
		struct vpmu_value v, *now = &t->v[i], *before = &t->v[nr + i];

		if (!get_value(json_array_get(values, i), &v))
			return -EINVAL;
		/* A row that another one has replaced has not been seen to go. */
		if (json_integer_value(id) != t->row && !gone) {
			value_add(before, now);
		} else if (json_integer_value(id) == t->row &&
			   (v.count < now->count || v.enabled_ns < now->enabled_ns)) {
			return -ERANGE;
		}
		if (gone) {
			value_add(before, &v);
			if (json_integer_value(id) == t->row)
				*now = (struct vpmu_value){0};
		} else {
			*now = v;
		}
	}
	if (!gone)
		t->row = json_integer_value(id);
	else if (t->row == json_integer_value(id))
		t->row = 0;
	return 0;
}

static int take_rows(struct remote *r, const json_t *answer)
{
	const json_t *rows = json_object_get(answer, "rows"), *row;
	int ret = json_is_array(rows) ? 0 : -EINVAL;
	size_t i;

	/* Those of removed nodes first: a new row has come after them. */
	for (int gone = 1; gone >= 0 && !ret; gone--) {
		json_array_foreach (rows, i, row) {
			ret = take_row(r, row, gone);
			if (ret)
				break;
		}
	}
	r->read |= !ret;
	return ret;
}

static void on_read(void *arg, const json_t *answer)
{
	struct remote *r = arg;
	int ret = 0;

	if (!remote_answered(r, answer))
		return;
	if (!json_is_true(json_object_get(answer, "ok")))
		remote_failed(r, error_of(answer)); /* somebody has ended the session there */
	else
		ret = take_rows(r, answer);
	if (ret)
		link_fail(r->peer->link, "%s",
			  ret == -ERANGE ? "its counts go back" : "its counts are none");
}

void peer_read(struct peer *e, const vpmu_key_t *keys)
{
	struct remote *r;

	LIST_FOREACH (r, &e->remotes, in_peer) {
		/* Its name is known when the answer to attach is here; the next round reads it. */
		if (!r->m || r->state != COUNTS || (keys && r->m->keys != keys))
			continue;
		if (!link_ask(e->link,
			      json_pack("{s:s, s:s}", "cmd", "read", "session", r->session),
			      on_read, r))
			r->asked++;
	}
}

bool peer_counts_for(const struct peer *e, const vpmu_key_t *keys)
{
	const struct remote *r;

	LIST_FOREACH (r, &e->remotes, in_peer)
		if (r->m && (!keys || r->m->keys == keys))
			return true;
	return false;
}

bool peer_unread(const struct peer *e, const vpmu_key_t *keys)
{
	const struct remote *r;

	LIST_FOREACH (r, &e->remotes, in_peer)
		if (r->m && (!keys || r->m->keys == keys) && r->state != FAILED && !r->read)
			return true;
	return false;
}

bool peer_attaching(const struct peer *e)
{
	const struct remote *r;

	LIST_FOREACH (r, &e->remotes, in_peer)
		if (r->m && r->state == ATTACHING)
			return true;
	return false;
}

/* The server ends: the last counts of one session. */
void peer_farewell(struct peer *e, const json_t *line)
{
	const char *name = json_string_value(json_object_get(line, "session"));
	struct remote *r;

	LIST_FOREACH (r, &e->remotes, in_peer) {
		if (!r->m || r->state != COUNTS || !name || strcmp(r->session, name))
			continue;
		if (take_rows(r, line))
			link_fail(e->link, "its last counts are none");
		else
			r->ended = true;
		return;
	}
}

/* ---- servers that come and go --------------------------------------------------------------- */

void peer_appears(struct peer *e)
{
	struct meter *m;
	struct count *k;

	LIST_FOREACH (m, &e->p->meters, next)
		LIST_FOREACH (k, &m->counts, in_meter) {
			if (pnode_of(k->c.node)->kind == PNODE_TENANT &&
			    part_new(k, remote_for(m, e, PNODE_TENANT, NULL, true)))
				peer_note(e, "out of memory; not all of its VMs are counted");
		}
}

void peer_is_lost(struct peer *e, const char *why)
{
	struct remote *r;
	struct part *t;

	while ((r = LIST_FIRST(&e->remotes))) {
		while ((t = LIST_FIRST(&r->parts))) {
			struct count *k = t->count;
			bool tenant = pnode_of(k->c.node)->kind == PNODE_TENANT;
			bool lost = part_matters(t) && !r->ended;

			for (size_t i = 0; i < k->m->nr; i++) {
				value_add(&k->gone[i], &t->v[i]);
				value_add(&k->gone[i], &t->v[k->m->nr + i]);
				k->gone[i].partial |= lost;
			}
			if (lost && !tenant)
				fail(0, k->why, sizeof(k->why), "the server at %s: %s", e->path,
				     why);
			part_free(t);
		}
		remote_free(r);
	}
}
