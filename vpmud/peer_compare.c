// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * `conservation` of the servers' own counters. Each server is asked over a connection of its own,
 * because it may take long: it waits for all its CPUs. The client gets the rows of all servers with
 * vpmud's own, and learns which server has not said any.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/request.h"
#include "vpmud/peer_priv.h"
#include "vpmu/event/event.h"

#define ROWS_MAX 65536 /* of one server: more CPUs and events than one can have */
#define PCPU_MAX 65535

/* What one server says. */
struct part {
	struct compare *c;
	struct link *link; /* NULL: nothing more to come */
	char path[108];
	char why[200]; /* there are no rows; "": there are */
};

/* One client's request. */
struct compare {
	LIST_ENTRY(compare) next;
	struct peers *p;
	struct later *l;
	uint64_t until_ns;
	unsigned int waits; /* parts with a link */
	unsigned int nr;
	json_t *rows;
	struct part part[PEERS_MAX];
};

static void compare_free(struct compare *c)
{
	for (unsigned int i = 0; i < c->nr; i++)
		link_close(c->part[i].link);
	json_decref(c->rows);
	free(c);
}

static void compare_lost(void *arg)
{
	struct compare *c = arg;

	LIST_REMOVE(c, next);
	compare_free(c);
}

/* The command asks for what was said while it runs. */
static void compare_done(struct compare *c)
{
	struct peers *p = c->p;

	LIST_REMOVE(c, next);
	p->compared = c;
	server_go_on(c->l);
	p->compared = NULL;
	compare_free(c);
}

static bool plain(const json_t *row, const char *key, size_t max)
{
	const char *s = json_string_value(json_object_get(row, key));
	size_t n = s ? strlen(s) : 0;

	for (size_t i = 0; i < n; i++)
		if (!isgraph((unsigned char)s[i]))
			return false;
	return n && n <= max;
}

static bool peer_compare_count(const json_t *row, const char *key)
{
	const char *s = json_string_value(json_object_get(row, key));
	char *end;

	if (!s || !isdigit((unsigned char)*s))
		return false;
	errno = 0;
	strtoull(s, &end, 10);
	return !errno && !*end;
}

static bool row_ok(const json_t *row)
{
	const json_t *pcpu = json_object_get(row, "pcpu");

	return plain(row, "backend", 16) && plain(row, "event", VPMU_EVENT_NAME_MAX) &&
	       json_is_integer(pcpu) && json_integer_value(pcpu) >= 0 &&
	       json_integer_value(pcpu) <= PCPU_MAX && peer_compare_count(row, "hardware") &&
	       peer_compare_count(row, "charged");
}

static int peer_compare_add_row(struct compare *c, const struct part *s, const json_t *row)
{
	json_t *one = json_pack(
		"{s:O, s:O, s:O, s:O, s:O, s:s}", "backend", json_object_get(row, "backend"),
		"pcpu", json_object_get(row, "pcpu"), "event", json_object_get(row, "event"),
		"hardware", json_object_get(row, "hardware"), "charged",
		json_object_get(row, "charged"), "server", s->path);

	return one ? json_array_append_new(c->rows, one) : -1;
}

/* All rows of a server, or none: half of them would look like all. */
static const char *peer_compare_take(struct compare *c, const struct part *s, const json_t *answer)
{
	const json_t *rows = json_object_get(answer, "rows"), *row;
	size_t i, had = json_array_size(c->rows);

	if (!json_is_array(rows) || json_array_size(rows) > ROWS_MAX)
		return "what it answers is no conservation";
	json_array_foreach (rows, i, row)
		if (!row_ok(row))
			return "what it answers is no conservation";
	json_array_foreach (rows, i, row) {
		if (!peer_compare_add_row(c, s, row))
			continue;
		while (json_array_size(c->rows) > had)
			json_array_remove(c->rows, json_array_size(c->rows) - 1);
		return "vpmud has no memory for it";
	}
	return "";
}

static void peer_compare_on_answer(void *arg, const json_t *answer)
{
	struct part *s = arg;
	const char *text = json_string_value(json_object_get(answer, "error"));

	if (!answer)
		return;
	if (json_is_true(json_object_get(answer, "ok")))
		snprintf(s->why, sizeof(s->why), "%s", peer_compare_take(s->c, s, answer));
	else
		snprintf(s->why, sizeof(s->why), "%s", text ? text : "the server does not say why");
	for (char *at = s->why; *at; at++) /* it is to be a line */
		if (iscntrl((unsigned char)*at))
			*at = ' ';
	link_fail(s->link, "done");
}

static void part_done(struct part *s)
{
	link_close(s->link);
	s->link = NULL;
	if (!--s->c->waits)
		compare_done(s->c);
}

static void peer_compare_on_ended(void *arg, const char *why)
{
	struct part *s = arg;

	if (strcmp(why, "done"))
		snprintf(s->why, sizeof(s->why), "%s", why);
	part_done(s);
}

static void peer_compare_ask(struct compare *c, const struct peer *e)
{
	struct part *s = &c->part[c->nr++];
	const struct link_opts o = {.ev = c->p->ev,
				    .buffered = &c->p->buffered,
				    .ended = peer_compare_on_ended,
				    .arg = s};

	s->c = c;
	snprintf(s->path, sizeof(s->path), "%s", e->path);
	snprintf(s->why, sizeof(s->why), "it does not answer");
	if (e->late)
		return;
	if (link_open(&o, e->path, c->p->uid, &s->link, s->why, sizeof(s->why))) {
		s->link = NULL;
		return;
	}
	if (link_pid(s->link) != link_pid(e->link)) {
		snprintf(s->why, sizeof(s->why), "another one has taken its place");
	} else if (link_ask(s->link, json_pack("{s:s}", "cmd", "conservation"),
			    peer_compare_on_answer, s)) {
		snprintf(s->why, sizeof(s->why), "vpmud has no memory for it");
	} else {
		snprintf(s->why, sizeof(s->why), "it does not answer");
		c->waits++;
		return;
	}
	link_close(s->link);
	s->link = NULL;
}

static bool asked(const struct peer *e)
{
	return e && e->link && e->greeted;
}

int peer_compare(struct peers *p, struct later *l)
{
	struct compare *c = calloc(1, sizeof(*c));

	if (!c)
		return 0;
	*c = (struct compare){.p = p, .l = l, .until_ns = now_ns() + p->late_ns};
	c->rows = json_array();
	for (unsigned int i = 0; i < PEERS_MAX && c->rows; i++)
		if (asked(p->peer[i]))
			peer_compare_ask(c, p->peer[i]);
	if (!c->waits) { /* the command says what could not be asked */
		compare_free(c);
		return 0;
	}
	LIST_INSERT_HEAD(&p->compares, c, next);
	server_on_lost(l, compare_lost, c);
	return 1;
}

void peer_compare_late(struct peers *p, uint64_t now)
{
	struct compare *c, *next;

	for (c = LIST_FIRST(&p->compares); c; c = next) {
		next = LIST_NEXT(c, next);
		if (now > c->until_ns)
			compare_done(c);
	}
}

void peers_forget_compares(struct peers *p)
{
	while (!LIST_EMPTY(&p->compares))
		compare_lost(LIST_FIRST(&p->compares));
}

static int peer_compare_add_missing(json_t **all, const char *path, const char *why)
{
	if (!*all)
		*all = json_array();
	return json_array_append_new(*all, json_pack("{s:s, s:s}", "server", path, "why", why));
}

int peers_compared(const struct peers *p, json_t *resp)
{
	const struct compare *c = p->compared;
	json_t *missing = NULL;
	int ret = 0;

	for (unsigned int i = 0; c && !ret && i < c->nr; i++)
		if (*c->part[i].why)
			ret = peer_compare_add_missing(&missing, c->part[i].path, c->part[i].why);
	for (unsigned int i = 0; !c && !ret && i < PEERS_MAX; i++)
		if (asked(p->peer[i]))
			ret = peer_compare_add_missing(&missing, p->peer[i]->path,
						       p->peer[i]->late ? "it does not answer"
									: "it could not be asked");
	if (!ret && c)
		ret = json_array_extend(json_object_get(resp, "rows"), c->rows);
	if (!ret && missing)
		ret = json_object_set(resp, "missing", missing);
	json_decref(missing);
	return ret ? -ENOMEM : 0;
}
