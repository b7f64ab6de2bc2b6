// SPDX-License-Identifier: GPL-2.0-or-later
/* Segments of past counts; see history_log.h. The bytes may come from a damaged file: a reader must
 * never go beyond them, nor believe a number in them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/history_log.h"
#include "service/program/memory.h"

/*
 * A segment: records of kind (1 byte), length of the rest (4), checksum of the rest (4), rest.
 *   BEGIN   magic, seq, interval
 *   SERIES  key, path, vm, event (strings with NUL)
 *   TICK    time, width * 2 + follows, then the deltas: id less the last one, flags, [share,] delta
 * Numbers of rests are of 7 bits a byte, the least significant first.
 */
#define BEGIN	   1
#define SERIES	   2
#define TICK	   3
#define HEAD	   9
#define MAGIC	   0x32796f7473696876ULL /* "vhistoy2" */
#define STEP	   (64u << 10)
#define NAME_BYTES 320 /* of a string: a path has up to 255 */

/* FNV-1a. It detects a write that was cut off, not an attacker: the file is the server's own. */
static uint32_t log_sum(const uint8_t *p, size_t len)
{
	uint32_t sum = 2166136261u;

	while (len--)
		sum = (sum ^ *p++) * 16777619u;
	return sum;
}

static void log_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint32_t log_get_u32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint8_t *log_number(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

/* Room for a record with a rest of @len bytes; its address. */
static uint8_t *log_room(struct history_segment *s, size_t len)
{
	size_t need = s->len + HEAD + len;

	if (need > s->room) {
		s->room = need + STEP + s->len / 8;
		s->buf = xreallocarray(s->buf, s->room, 1);
	}
	return s->buf + s->len + HEAD;
}

/* The record ends at @end. */
static void log_done(struct history_segment *s, uint8_t kind, const uint8_t *end)
{
	uint8_t *head = s->buf + s->len, *rest = head + HEAD;

	head[0] = kind;
	log_u32(head + 1, (uint32_t)(end - rest));
	log_u32(head + 5, log_sum(rest, (size_t)(end - rest)));
	s->len = (size_t)(end - s->buf);
}

void history_log_begin(struct history_segment *s, uint64_t interval_ns)
{
	uint8_t *p = log_room(s, 30);

	log_done(s, BEGIN, log_number(log_number(log_number(p, MAGIC), s->seq), interval_ns));
}

static uint8_t *log_string(uint8_t *p, const char *text)
{
	size_t len = strlen(text) + 1;

	memcpy(p, text, len);
	return p + len;
}

uint32_t history_log_series(struct history_segment *s, const char *path, const char *vm,
			    vpmu_key_t key, const char *event)
{
	uint8_t *p = log_room(s, 10 + strlen(path) + strlen(vm) + strlen(event) + 3);

	p = log_string(log_string(log_string(log_number(p, key), path), vm), event);
	log_done(s, SERIES, p);
	return s->nr_ids++;
}

/* Times go back if the clock was set back. */
static void log_span(uint64_t *first_ns, uint64_t *last_ns, uint64_t time_ns)
{
	*first_ns = *first_ns && *first_ns < time_ns ? *first_ns : time_ns;
	*last_ns = *last_ns > time_ns ? *last_ns : time_ns;
}

void history_log_tick(struct history_segment *s, const struct history_tick *t,
		      const struct history_delta *d, size_t n)
{
	uint8_t *p = log_room(s, 20 + n * 17);
	uint32_t last = 0;

	p = log_number(log_number(p, t->time_ns), t->width_ns << 1 | t->follows);
	for (size_t i = 0; i < n; i++) {
		p = log_number(p, d[i].id - last);
		last = d[i].id;
		*p++ = d[i].flags;
		if (d[i].flags & HISTORY_MULTIPLEXED)
			*p++ = d[i].share;
		p = log_number(p, d[i].delta);
	}
	log_done(s, TICK, p);
	log_span(&s->first_ns, &s->last_ns, t->time_ns);
	s->ticks++;
}

void history_log_trim(struct history_segment *s)
{
	s->buf = xreallocarray(s->buf, s->len, 1);
	s->room = s->len;
}

/* ---- reading -------------------------------------------------------------------------------- */

/* What is left of a record's rest. */
struct rest {
	const uint8_t *p, *end;
	bool bad;
};

static uint64_t rest_number(struct rest *r)
{
	uint64_t v = 0;

	for (unsigned int shift = 0; r->p < r->end && shift < 64; shift += 7) {
		uint8_t b = *r->p++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	r->bad = true;
	return 0;
}

static uint8_t rest_byte(struct rest *r)
{
	if (r->p < r->end)
		return *r->p++;
	r->bad = true;
	return 0;
}

static const char *rest_string(struct rest *r)
{
	const char *text = (const char *)r->p;
	const uint8_t *nul = memchr(r->p, 0, (size_t)(r->end - r->p));

	if (!nul || nul - r->p >= NAME_BYTES) {
		r->bad = true;
		return "";
	}
	r->p = nul + 1;
	return text;
}

static bool read_series(struct rest r, uint32_t id, const struct history_walk *w)
{
	vpmu_key_t key = rest_number(&r);
	const char *path = rest_string(&r), *vm = rest_string(&r), *event = rest_string(&r);

	if (r.bad || r.p != r.end || *path != '/' || !*event || !vpmu_key_valid(key))
		return false;
	if (w->series)
		w->series(w->arg, id, path, vm, key, event);
	return true;
}

static bool read_tick(struct rest r, uint32_t nr_ids, uint64_t *time_ns,
		      const struct history_walk *w)
{
	struct history_tick t = {.time_ns = rest_number(&r)};
	struct history_delta d;
	uint64_t width = rest_number(&r), id = 0;

	t.width_ns = width >> 1;
	t.follows = width & 1;
	*time_ns = t.time_ns;
	if (r.bad || !t.time_ns)
		return false;
	if (w->tick && !w->tick(w->arg, &t))
		return true;
	while (r.p < r.end && w->delta) {
		id += rest_number(&r);
		d = (struct history_delta){.id = (uint32_t)id, .flags = rest_byte(&r)};
		if (d.flags & HISTORY_MULTIPLEXED)
			d.share = rest_byte(&r);
		d.delta = rest_number(&r);
		if (r.bad || id >= nr_ids || d.share > 100)
			return false;
		w->delta(w->arg, &d);
	}
	return true;
}

/* The state of a walk. */
struct walk {
	uint32_t nr_ids;
	uint64_t seq, interval_ns, first_ns, last_ns;
	unsigned int ticks;
};

/* Read a record; returns false if it is invalid at this place. */
static bool read_record(struct walk *at, uint8_t kind, struct rest r, const struct history_walk *w)
{
	uint64_t time_ns;

	switch (kind) {
	case BEGIN:
		if (at->interval_ns || rest_number(&r) != MAGIC)
			return false;
		at->seq = rest_number(&r);
		at->interval_ns = rest_number(&r);
		return !r.bad && at->interval_ns;
	case SERIES:
		if (!at->interval_ns || !read_series(r, at->nr_ids, w))
			return false;
		at->nr_ids++;
		return true;
	case TICK:
		if (!at->interval_ns || !read_tick(r, at->nr_ids, &time_ns, w))
			return false;
		log_span(&at->first_ns, &at->last_ns, time_ns);
		at->ticks++;
		return true;
	default:
		return false;
	}
}

static size_t log_read(const struct history_segment *s, const struct history_walk *w,
		       struct walk *at)
{
	size_t pos = 0;

	*at = (struct walk){0};
	while (s->len - pos >= HEAD) {
		const uint8_t *head = s->buf + pos, *rest = head + HEAD;
		size_t len = log_get_u32(head + 1);

		if (len > s->len - pos - HEAD || log_get_u32(head + 5) != log_sum(rest, len) ||
		    !read_record(at, head[0], (struct rest){.p = rest, .end = rest + len}, w))
			break;
		pos += HEAD + len;
	}
	return pos;
}

size_t history_log_walk(const struct history_segment *s, const struct history_walk *w)
{
	struct walk at;

	return log_read(s, w, &at);
}

static void check_delta(void *arg, const struct history_delta *d)
{
}

int history_log_check(struct history_segment *s, uint64_t interval_ns)
{
	const struct history_walk w = {.delta = check_delta};
	struct walk at;

	s->len = log_read(s, &w, &at);
	s->nr_ids = at.nr_ids;
	s->seq = at.seq;
	s->first_ns = at.first_ns;
	s->last_ns = at.last_ns;
	s->ticks = at.ticks;
	return at.interval_ns == interval_ns ? 0 : -EINVAL;
}
