// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Saves and restores sessions; see session_save.h. The server's owner calls this. The saved text
 * comes from the owner's file: each field is checked, and an incomplete session is dropped.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/json_text.h"
#include "service/request.h"
#include "service/session_rows.h"
#include "service/session_save.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

/* Words per event of a VM's former runs, as in save_before(). */
#define BEFORE_WORDS 6
#define IDS_AHEAD    65536 /* more rows than a session gets between two writes of the state */

/* ---- saving --------------------------------------------------------------------------------- */

static json_t *save_access(const struct access *a)
{
	json_t *tenants = json_array();

	for (unsigned int i = 0; i < a->nr; i++)
		json_array_append_new(tenants, json_string(a->tenants[i]));
	return json_pack("{s:I, s:b, s:b, s:b, s:o}", "uid", (json_int_t)a->uid, "owner", a->owner,
			 "admin", a->admin, "all", a->all, "tenants", tenants);
}

static void add_word(struct json_text *words, uint64_t v)
{
	json_text_count(words, words->len ? " " : "", v);
}

static json_t *words_end(struct json_text *words)
{
	json_t *text = json_text_ok(words) ? json_string(words->text) : NULL;

	json_text_free(words);
	return text;
}

static json_t *save_before(const struct session *s, const struct vpmu_value *v)
{
	struct json_text words = {0};

	for (size_t e = 0; e < s->nr_events; e++) {
		const uint64_t word[BEFORE_WORDS] = {
			v[e].count,	v[e].enabled_ns, v[e].running_ns,
			v[e].supported, v[e].partial,	 v[e].quality,
		};

		for (size_t w = 0; w < BEFORE_WORDS; w++)
			add_word(&words, word[w]);
	}
	return words_end(&words);
}

/* The bases are one string of numbers: as objects, those of 10,000 tenants would be a quarter of a
 * million. */
static json_t *save_row(const struct session *s, const struct row *r, const struct session_bases *b)
{
	struct json_text words = {0};
	json_t *obj;

	for (size_t e = 0; e < s->nr_events; e++) {
		uint64_t base[SESSION_BASE_WORDS];

		b->get(r->c, e, base);
		for (size_t w = 0; w < SESSION_BASE_WORDS; w++)
			add_word(&words, base[w]);
	}
	obj = json_pack("{s:o, s:i, s:s, s:s*, s:i, s:o, s:o}", "id", json_u64(r->pub.id), "kind",
			(int)r->pub.kind, "path", r->path, "vm", r->vm, "vcpu", (int)r->pub.vcpu,
			"since", json_u64(r->pub.since_us), "bases", words_end(&words));
	if (row_late(r))
		json_object_set_new(obj, "late", json_u64(row_late(r)));
	if (r->before)
		json_object_set_new(obj, "before", save_before(s, r->before));
	return obj;
}

static json_t *save_session(const struct session *s, const struct session_bases *b)
{
	json_t *rows = json_array(), *events = json_array();
	bool keep = !s->reg.owner && !s->reg.lost_ns;

	for (size_t e = 0; e < s->nr_events; e++)
		json_array_append_new(events, json_pack("{s:s, s:o}", "event", s->events[e], "key",
							json_u64(s->keys[e])));
	for (size_t i = 0; i < s->nr_rows; i++)
		if (s->rows[i]->c && !strcmp(s->rows[i]->pub.backend, b->backend))
			json_array_append_new(rows, save_row(s, s->rows[i], b));
	return json_pack("{s:s, s:s, s:s*, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
			 s->reg.name, "target", s->reg.target, "metrics", s->metrics, "scope",
			 session_scope_name(s->scope), "keep", keep, "opened",
			 json_u64(s->opened_ns), "opened-width", json_u64(s->opened_width_ns),
			 "next-id", json_u64(s->next_id), "who", save_access(&s->reg.who), "events",
			 events, "rows", rows);
}

json_t *sessions_save(struct sessions *ss, const struct session_bases *b)
{
	json_t *all = json_array();

	for (const struct registered *e = sessions_registry(ss)->first; e; e = e->next)
		if (e->name[0] != '@')
			json_array_append_new(all, save_session((const struct session *)e, b));
	return all;
}

/* ---- restoring ------------------------------------------------------------------------------ */

/* Parse a count: a string of digits. */
static bool session_save_get_u64(const json_t *v, uint64_t *out)
{
	const char *text = json_string_value(v);
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	errno = 0;
	*out = strtoull(text, &end, 10);
	return !errno && !*end;
}

static bool get_access(const json_t *o, struct access *a)
{
	const json_t *tenants = json_object_get(o, "tenants"), *t;
	size_t i;

	*a = (struct access){
		.uid = (uid_t)json_integer_value(json_object_get(o, "uid")),
		.owner = json_is_true(json_object_get(o, "owner")),
		.admin = json_is_true(json_object_get(o, "admin")),
		.all = json_is_true(json_object_get(o, "all")),
	};
	json_array_foreach (tenants, i, t) {
		if (a->nr == ACCESS_TENANTS_MAX || !json_is_string(t))
			return false;
		a->tenants[a->nr++] = json_string_value(t);
	}
	return json_is_integer(json_object_get(o, "uid")) && json_is_array(tenants);
}

/* Read the events of @o; @names point into @o. Returns 0 if one is invalid or has another key now.
 */
static size_t get_events(const json_t *o, const struct session_bases *b, const char **names,
			 vpmu_key_t *keys)
{
	const json_t *events = json_object_get(o, "events"), *e;
	size_t i, n = json_array_size(events);
	uint64_t key;

	if (!n || n > SESSION_EVENTS_MAX)
		return 0;
	json_array_foreach (events, i, e) {
		size_t one = 1;

		names[i] = json_string_value(json_object_get(e, "event"));
		if (!names[i] || !session_save_get_u64(json_object_get(e, "key"), &key) ||
		    vpmu_event_parse_list(names[i], b->raw_space, &keys[i], NULL, &one, NULL, 0) ||
		    one != 1)
			return 0;
		if (b->host_too)
			keys[i] = vpmu_event_host_too(names[i], keys[i]);
		if (keys[i] != key)
			return 0;
	}
	return n;
}

static bool is_row(const json_t *saved, const struct row *r)
{
	const char *path = json_string_value(json_object_get(saved, "path"));
	const char *vm = json_string_value(json_object_get(saved, "vm"));

	return json_integer_value(json_object_get(saved, "kind")) == (json_int_t)r->pub.kind &&
	       path && !strcmp(path, r->path) && !vm == !r->vm && (!vm || !strcmp(vm, r->vm)) &&
	       json_integer_value(json_object_get(saved, "vcpu")) == (json_int_t)r->pub.vcpu;
}

/* Parse the next number of *@text, up to a space or the end. */
static bool next_u64(const char **text, uint64_t *out)
{
	char *end;

	if (!*text || **text < '0' || **text > '9')
		return false;
	errno = 0;
	*out = strtoull(*text, &end, 10);
	if (errno || (*end && *end != ' '))
		return false;
	*text = *end ? end + 1 : end;
	return true;
}

/* Set the bases of @r from @saved. Returns false, with all bases as they were, if one does not fit:
 * the counts of a row begin together. */
static bool set_bases(struct session *s, struct row *r, const json_t *saved,
		      const struct session_bases *b)
{
	const char *words = json_string_value(json_object_get(saved, "bases"));
	uint64_t base[SESSION_BASE_WORDS], now[SESSION_EVENTS_MAX][SESSION_BASE_WORDS];
	bool ok = true;
	size_t e;

	for (e = 0; e < s->nr_events && ok; e++) {
		b->get(r->c, e, now[e]);
		for (size_t w = 0; w < SESSION_BASE_WORDS && ok; w++)
			ok = next_u64(&words, &base[w]);
		ok = ok && !b->set(r->c, e, base);
	}
	while (!ok && e--)
		b->set(r->c, e, now[e]);
	return ok;
}

/* Parse one event of save_before(). */
static bool next_value(const char **words, struct vpmu_value *v)
{
	uint64_t w[BEFORE_WORDS];

	for (size_t i = 0; i < BEFORE_WORDS; i++)
		if (!next_u64(words, &w[i]))
			return false;
	*v = (struct vpmu_value){.count = w[0],
				 .enabled_ns = w[1],
				 .running_ns = w[2],
				 .supported = w[3],
				 .partial = w[4],
				 .quality = (enum vpmu_quality)w[5]};
	return w[3] <= 1 && w[4] <= 1 && w[5] <= VPMU_Q_TSC;
}

/* Restore the counts of @r's VM in former runs. */
static void set_before(const struct session *s, struct row *r, const json_t *saved)
{
	const char *words = json_string_value(json_object_get(saved, "before"));
	bool ok = words && row_before(s, r);

	for (size_t e = 0; ok && e < s->nr_events; e++)
		ok = next_value(&words, &r->before[e]);
	if (ok)
		return;
	free(r->before);
	r->before = NULL;
}

bool session_resume_row(struct session *s, struct row *r)
{
	const json_t *rows = json_object_get(s->saved, "rows"), *saved;
	size_t nr = json_array_size(rows);
	uint64_t id, since, late;

	if (!s->saved || strcmp(r->pub.backend, s->bases->backend))
		return false;
	/* Rows mostly come back in the order in which they were saved. */
	for (size_t i = 0; i < nr; i++) {
		size_t at = (s->saved_at + i) % nr;

		saved = json_array_get(rows, at);
		if (!is_row(saved, r))
			continue;
		s->saved_at = at + 1;
		if (!set_bases(s, r, saved, s->bases))
			return false;
		if (session_save_get_u64(json_object_get(saved, "id"), &id))
			r->pub.id = id;
		if (session_save_get_u64(json_object_get(saved, "since"), &since))
			r->pub.since_us = since;
		r->since_ns = 0;
		if (session_save_get_u64(json_object_get(saved, "late"), &late))
			r->late_kept = late;
		set_before(s, r, saved);
		return true;
	}
	return false;
}

static void restore_one(struct sessions *ss, struct tenants *ts, const json_t *o,
			const struct session_bases *b, char *err, size_t errlen)
{
	const char *target = json_string_value(json_object_get(o, "target"));
	const char *scope = json_string_value(json_object_get(o, "scope"));
	const char *names[SESSION_EVENTS_MAX];
	vpmu_key_t keys[SESSION_EVENTS_MAX];
	uint64_t opened, next_id;
	struct access who;
	struct session *s;
	struct session_spec spec = {
		.open = {.name = json_string_value(json_object_get(o, "name")), .who = &who},
		.events = names,
		.metrics = json_string_value(json_object_get(o, "metrics")),
		.keys = keys,
		.nr_events = get_events(o, b, names, keys),
	};

	if (!target || !scope || !spec.open.name || !spec.nr_events ||
	    session_scope_parse(scope, &spec.scope) ||
	    !get_access(json_object_get(o, "who"), &who) ||
	    !session_save_get_u64(json_object_get(o, "opened"), &opened) ||
	    !session_save_get_u64(json_object_get(o, "next-id"), &next_id)) {
		fail(0, err, errlen, "its saved state is incomplete");
		return;
	}
	spec.open.target = *target == '/' ? tenant_find(ts, target) : tenant_vm_find(ts, target);
	if (!spec.open.target) {
		fail(0, err, errlen, "%s is not there any more", target);
		return;
	}
	if (session_open(ss, &spec, &s, err, errlen))
		return;
	s->opened_ns = opened;
	if (!session_save_get_u64(json_object_get(o, "opened-width"), &s->opened_width_ns))
		s->opened_width_ns = UINT64_MAX; /* an older server's */
	s->reg.lost_ns = json_is_true(json_object_get(o, "keep")) ? 0 : now_ns();
	s->saved = o;
	s->bases = b;
	/* Row numbers are never reused, except by the rows that go on: leave out those of rows that
	 * came after the state was saved. */
	if (next_id + IDS_AHEAD > s->next_id)
		s->next_id = next_id + IDS_AHEAD;
	for (size_t i = 0; i < s->nr_rows; i++) {
		struct row *r = s->rows[i];

		r->pub.id = s->next_id++;
		r->late_base = 0; /* the session is older than these nodes */
		if (r->c && !session_resume_row(s, r))
			r->late_kept = b->lacks(r->c, r->node);
	}
}

void sessions_restore(struct sessions *ss, const json_t *saved, const struct session_bases *b,
		      void (*note)(void *arg, const char *line), void *arg)
{
	char err[300], line[400];
	const json_t *o;
	size_t i;

	json_array_foreach (saved, i, o) {
		const char *name = json_string_value(json_object_get(o, "name"));

		*err = '\0';
		restore_one(ss, sessions_tenants(ss), o, b, err, sizeof(err));
		if (!*err)
			continue;
		fail(0, line, sizeof(line), "session %.64s has ended with the former server: %s",
		     name ? name : "?", err);
		note(arg, line);
	}
}

void sessions_restored(struct sessions *ss)
{
	for (struct registered *e = sessions_registry(ss)->first; e; e = e->next)
		((struct session *)e)->saved = NULL;
}
