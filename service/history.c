// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recording: from sessions to segments; see history.h. A delta must never include events from
 * before the last tick, nor hide that some are missing: without an earlier value there is no delta.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/history.h"
#include "service/history_log.h"
#include "service/program/memory.h"
#include "service/session_rows.h"
#include "vpmu/util/fail.h"

/* An event of a node. */
struct series {
	char *path, *vm, *event; /* vm: "": a tenant */
	vpmu_key_t key;
	uint32_t id;  /* in the segment @seq */
	uint64_t seq; /* 0: in none yet */
	/* The row that the last value is of, and that value. */
	const struct session *session;
	uint64_t session_ns, row;
	struct vpmu_value last;
	uint64_t late_ns;
	/* This interval so far. */
	bool has, ended; /* ended: its node was removed; delta is complete */
	uint8_t flags, share;
	uint64_t delta;
	uint64_t tick; /* the last one that had it */
};

struct history {
	struct sessions *ss;
	struct history_opts opts;
	struct history_file *file; /* NULL: none */
	struct history_segment seg[HISTORY_SEGMENTS];
	size_t nr_segs; /* the last one grows */
	void *by_name;	/* tsearch tree of struct series */
	struct series **series;
	size_t nr, room;
	uint64_t ticks, last_us, last_ns; /* of the last tick; 0: none */
	uint64_t kept_ns;		  /* last_ns, if that tick was kept; else 0 */
	uint64_t dropped;
	bool noted;
};

/* ---- series --------------------------------------------------------------------------------- */

static int series_by_name(const void *a, const void *b)
{
	const struct series *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	if (!c)
		c = strcmp(x->vm, y->vm);
	return c ? c : x->key < y->key ? -1 : x->key > y->key;
}

static void series_free(struct series *s)
{
	free(s->path);
	free(s->vm);
	free(s->event);
	free(s);
}

static struct series *series_new(const struct series *like)
{
	struct series *s = xcalloc(1, sizeof(*s));

	s->path = xstrdup(like->path);
	s->vm = xstrdup(like->vm);
	s->event = xstrdup(like->event);
	s->key = like->key;
	return s;
}

/* The series of event @e of a row; NULL: no room. */
static struct series *series_of(struct history *h, const struct session *s, const struct row *r,
				size_t e)
{
	struct series like = {.path = r->path,
			      .vm = r->vm ? r->vm : (char *)"",
			      .event = s->events[e],
			      .key = s->keys[e]},
		      **found = tfind(&like, &h->by_name, series_by_name), *new;

	if (found)
		return *found;
	if (h->nr == HISTORY_SERIES_MAX) {
		h->dropped++;
		return NULL;
	}
	if (h->nr == h->room) {
		h->room += 1024;
		h->series = xreallocarray(h->series, h->room, sizeof(struct series *));
	}
	new = series_new(&like);
	xtsearch(new, &h->by_name, series_by_name);
	h->series[h->nr++] = new;
	return new;
}

/* Forget series that no session has counted for a while; what they counted stays. */
static void series_forget(struct history *h)
{
	size_t to = 0;

	for (size_t i = 0; i < h->nr; i++) {
		struct series *s = h->series[i];

		if (s->tick + 1 >= h->ticks || s->has) {
			h->series[to++] = s;
			continue;
		}
		tdelete(s, &h->by_name, series_by_name);
		series_free(s);
	}
	h->nr = to;
}

/* ---- deltas --------------------------------------------------------------------------------- */

static bool same_row(const struct series *t, const struct session *s, const struct row *r)
{
	return t->session == s && t->session_ns == s->opened_ns && t->row == r->pub.id;
}

static uint8_t running_share(const struct vpmu_value *now, const struct vpmu_value *was)
{
	uint64_t enabled = now->enabled_ns - was->enabled_ns;
	uint64_t running = now->running_ns - was->running_ns;

	if (running >= enabled)
		return 100;
	/* Never 100 if anything is missing. */
	return (uint8_t)(running / (enabled / 100 + 1));
}

/* Add what the row has counted since the last value. */
static void series_take(struct history *h, struct series *t, const struct session *s,
			const struct row *r, const struct vpmu_value *v)
{
	static const struct vpmu_value zero = {0};
	bool same = same_row(t, s, r);
	/* A row that began in this interval counted from 0: of a new node all there is, of a new
	 * session a part. */
	bool new = !same && h->last_ns && r->since_ns > h->last_ns;
	const struct vpmu_value *was = same ? &t->last : &zero;

	if ((same || new) && v->supported && v->count >= was->count &&
	    v->enabled_ns >= was->enabled_ns && v->running_ns >= was->running_ns) {
		bool loss = v->partial && (!v->losses || !was->partial || v->losses != was->losses);
		uint8_t share = running_share(v, was);

		t->flags |= (uint8_t)v->quality & HISTORY_QUALITY;
		/* A new row may have been late in this interval. */
		if (loss || row_late(r) != (same ? t->late_ns : 0) ||
		    (new && s->opened_ns > h->last_ns))
			t->flags |= HISTORY_PARTIAL;
		if (v->age_ns || was->age_ns) /* what was missing then came since */
			t->flags |= HISTORY_AGED;
		if (share < 100) {
			t->share = t->flags & HISTORY_MULTIPLEXED && t->share < share ? t->share
										      : share;
			t->flags |= HISTORY_MULTIPLEXED;
		}
		t->delta += v->count - was->count;
		t->has = true;
	} else if (t->has) { /* what this row has counted so far is missing */
		t->flags |= HISTORY_PARTIAL;
	}
	t->session = s;
	t->session_ns = s->opened_ns;
	t->row = r->pub.id;
	t->last = *v;
	t->late_ns = row_late(r);
}

static bool is_kept(const struct session *s, const struct row *r)
{
	return access_all(&s->reg.who) && !s->cpus && r->pub.kind != NODE_VCPU;
}

/* A node goes: its last values are shown to others only once. */
static void history_gone(const struct session *s, const struct row *r, void *arg)
{
	struct history *h = arg;

	if (!is_kept(s, r) || r->pub.error)
		return;
	for (size_t e = 0; e < s->nr_events; e++) {
		struct series *t = series_of(h, s, r, e);

		/* Another session may have shown it already. */
		if (!t || t->ended || (!same_row(t, s, r) && t->session && t->tick + 1 >= h->ticks))
			continue;
		series_take(h, t, s, r, &r->final[e]);
		t->session = NULL; /* a node of that name begins anew */
		t->ended = t->has;
	}
}

/* Take the rows of @s whose series have no value of another session in this tick. */
static void history_session(struct history *h, struct session *s)
{
	rows_take(s);
	for (size_t i = 0; i < s->nr_rows; i++) {
		const struct row *r = s->rows[i];

		if (!r->c || !is_kept(s, r))
			continue;
		for (size_t e = 0; e < s->nr_events; e++) {
			struct series *t = series_of(h, s, r, e);

			/* The session of the last value has precedence: only then there is a
			 * difference. */
			if (!t || t->tick == h->ticks)
				continue;
			t->tick = h->ticks;
			series_take(h, t, s, r, &r->final[e]);
		}
	}
}

/* Returns true if the last value of a series is of @s. */
static bool history_ranks(const struct history *h, const struct session *s)
{
	for (size_t i = 0; i < h->nr; i++)
		if (h->series[i]->session == s && h->series[i]->session_ns == s->opened_ns)
			return true;
	return false;
}

/* Returns true if an earlier session, which is still open, counts the same. */
static bool is_double(const struct registry *r, const struct session *s)
{
	for (const struct registered *e = r->first; e && e != &s->reg; e = e->next) {
		const struct session *o = (const struct session *)e;
		bool same = access_all(&o->reg.who) && !o->cpus && o->scope == s->scope &&
			    !strcmp(o->reg.target, s->reg.target) && o->nr_events == s->nr_events &&
			    !memcmp(o->keys, s->keys, s->nr_events * sizeof(*s->keys));

		if (same)
			return true;
	}
	return false;
}

/* ---- segments ------------------------------------------------------------------------------- */

static void drop_oldest(struct history *h)
{
	free(h->seg[0].buf);
	memmove(&h->seg[0], &h->seg[1], --h->nr_segs * sizeof(h->seg[0]));
}

static void history_next_segment(struct history *h)
{
	struct history_segment *last = h->nr_segs ? &h->seg[h->nr_segs - 1] : NULL;
	struct history_segment new = {.seq = last ? last->seq + 1 : 1};

	history_log_begin(&new, h->opts.interval_ns);
	if (last)
		history_log_trim(last);
	if (h->nr_segs == HISTORY_SEGMENTS)
		drop_oldest(h);
	h->seg[h->nr_segs++] = new;
}

static size_t segment_bytes(const struct history *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->nr_segs; i++)
		n += h->seg[i].room;
	return n;
}

/* The segment to append to: a new one when the last one has its share of the time or of memory. */
static struct history_segment *history_segment_now(struct history *h)
{
	struct history_segment *last = h->nr_segs ? &h->seg[h->nr_segs - 1] : NULL;
	uint64_t part = h->opts.keep_ns / (HISTORY_SEGMENTS - 1);

	if (!last || (uint64_t)last->ticks * h->opts.interval_ns >= part ||
	    last->len > HISTORY_BYTES_MAX / (HISTORY_SEGMENTS - 1))
		history_next_segment(h);
	while (h->nr_segs > 1 && segment_bytes(h) > HISTORY_BYTES_MAX)
		drop_oldest(h);
	return &h->seg[h->nr_segs - 1];
}

/* Append the tick's deltas, in the order of their ids. */
static void history_append(struct history *h, const struct history_tick *t)
{
	struct history_segment *seg = history_segment_now(h);
	struct history_delta *d;
	size_t n = 0;

	for (size_t i = 0; i < h->nr; i++) {
		struct series *t = h->series[i];

		if (!t->has || t->seq == seg->seq)
			continue;
		t->id = history_log_series(seg, t->path, t->vm, t->key, t->event);
		t->seq = seg->seq;
	}
	d = xcalloc(seg->nr_ids + 1, sizeof(*d));
	/* By id: then those that are there move together. */
	for (size_t i = 0; i < h->nr; i++) {
		const struct series *t = h->series[i];

		if (t->has)
			d[t->id] = (struct history_delta){t->id + 1, t->flags, t->share, t->delta};
	}
	for (uint32_t id = 0; id < seg->nr_ids; id++) {
		if (!d[id].id)
			continue;
		d[n] = d[id];
		d[n++].id = id;
	}
	history_log_tick(seg, t, d, n);
	free(d);
}

/* The clocks went the same way since the last tick, which was kept. After a jump of the time there
 * is a gap. */
static bool history_follows(const struct history *h, uint64_t at_us, uint64_t mono_ns)
{
	int64_t jump = (int64_t)(at_us - h->last_us) - (int64_t)((mono_ns - h->kept_ns) / 1000);

	return h->kept_ns && (uint64_t)llabs(jump) * 1000 < h->opts.interval_ns / 2;
}

void history_tick(struct history *h, uint64_t at_us, uint64_t mono_ns)
{
	const struct registry *reg = sessions_registry(h->ss);
	struct history_tick t = {.time_ns = at_us * 1000,
				 .follows = history_follows(h, at_us, mono_ns)};
	uint64_t begin = now_ns();
	bool any = false;
	int ret = 0;

	h->ticks++;
	/* Those that the last values are of come first. */
	for (int pass = 0; pass < 2; pass++) {
		bool first = pass == 0;

		for (struct registered *e = reg->first; e; e = e->next) {
			struct session *s = (struct session *)e;

			if (!access_all(&s->reg.who) || s->cpus || history_ranks(h, s) != first ||
			    (!first && is_double(reg, s)))
				continue;
			history_session(h, s);
			any = true;
		}
	}
	for (size_t i = 0; i < h->nr; i++)
		any |= h->series[i]->has;
	t.width_ns = now_ns() - begin;
	if (any)
		history_append(h, &t);
	h->kept_ns = any ? mono_ns : 0;
	if (any && h->file)
		ret = history_file_write(h->file, &h->seg[h->nr_segs - 1]);
	if (ret && !h->noted) {
		char line[200];

		fail(ret, line, sizeof(line), "the history has a gap: %s", strerror(-ret));
		h->opts.note(h->opts.arg, line);
	}
	h->noted = ret != 0;
	for (size_t i = 0; i < h->nr; i++) {
		struct series *e = h->series[i];

		e->has = e->ended = false;
		e->flags = e->share = 0;
		e->delta = 0;
	}
	series_forget(h);
	h->last_us = at_us;
	h->last_ns = mono_ns;
}

/* ---- life ----------------------------------------------------------------------------------- */

struct history *history_create(struct sessions *ss, const struct history_opts *o)
{
	struct history *h = xcalloc(1, sizeof(*h));

	h->ss = ss;
	h->opts = *o;
	if (o->file)
		h->file = history_file_open(o->file, o->interval_ns, h->seg, HISTORY_SEGMENTS,
					    &h->nr_segs, o->note, o->arg);
	h->opts.file = NULL; /* the caller's */
	sessions_on_gone(ss, history_gone, h);
	return h;
}

static void series_keep(void *p)
{
}

void history_destroy(struct history *h)
{
	if (!h)
		return;
	sessions_on_gone(h->ss, NULL, NULL);
	history_file_close(h->file);
	for (size_t i = 0; i < h->nr_segs; i++)
		free(h->seg[i].buf);
	tdestroy(h->by_name, series_keep);
	for (size_t i = 0; i < h->nr; i++)
		series_free(h->series[i]);
	free(h->series);
	free(h);
}

uint64_t history_interval_ns(const struct history *h)
{
	return h->opts.interval_ns;
}

uint64_t history_dropped(const struct history *h)
{
	return h->dropped;
}

const struct history_segment *history_segment(const struct history *h, size_t i)
{
	return i < h->nr_segs ? &h->seg[i] : NULL;
}
