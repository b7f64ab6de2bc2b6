// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The servers: where they are looked for, when they are asked, and what becomes of one that does
 * not answer, lies or ends. daemon.c makes it; sd-event calls it. It must never wait for a server.
 */
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/clock.h"
#include "vpmud/peer_priv.h"
#include "vpmu/util/fail.h"

#define LOOK_MS	      1000
#define AGAIN_LIAR_NS 10000000000ULL /* so long a server that lied is left alone */
#define SERVER_NAME   "vpmu-vmm"
#define ENDED	      "it has ended" /* what peer_link.c says of it */
#define PLACES_USUAL  "/run/vpmu/vpmu-vmm*.sock"

void peer_note(const struct peer *e, const char *fmt, ...)
{
	char text[300], line[420];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail(0, line, sizeof(line), "server at %s: %s", e->path, text);
	if (e->p->note)
		e->p->note(e->p->arg, line);
}

struct peer *peer_at(const struct peers *p, const char *path)
{
	for (unsigned int i = 0; i < PEERS_MAX; i++)
		if (p->peer[i] && p->peer[i]->link && !strcmp(p->peer[i]->path, path))
			return p->peer[i];
	return NULL;
}

/* ---- waiting for answers -------------------------------------------------------------------- */

static void mark_met(struct peer *e, struct mark *k)
{
	struct barrier *b = k->b;

	TAILQ_REMOVE(&e->marks, k, next);
	free(k);
	if (--b->marks)
		return;
	b->done(b->arg);
	free(b);
}

/* Whoever waits for the answers up to the last one, or for @all, goes on. */
static void marks_look(struct peer *e, bool all)
{
	struct mark *k;

	while ((k = TAILQ_FIRST(&e->marks)) && (all || k->upto <= link_done(e->link)))
		mark_met(e, k);
}

struct barrier *peers_barrier(struct peers *p, bool (*wants)(struct peer *e, void *arg), void *arg,
			      void (*done)(void *arg), void *done_arg)
{
	struct barrier *b = calloc(1, sizeof(*b));

	for (unsigned int i = 0; b && i < PEERS_MAX; i++) {
		struct peer *e = p->peer[i];
		struct mark *k;

		if (!e || !e->link || e->late || link_sent(e->link) == link_done(e->link) ||
		    !wants(e, arg))
			continue;
		k = calloc(1, sizeof(*k));
		if (!k)
			continue;
		k->b = b;
		k->upto = link_sent(e->link);
		b->marks++;
		TAILQ_INSERT_TAIL(&e->marks, k, next);
	}
	if (b && !b->marks) {
		free(b);
		b = NULL;
	}
	if (b) {
		b->done = done;
		b->arg = done_arg;
	}
	return b;
}

void barrier_cancel(struct peers *p, struct barrier *b)
{
	for (unsigned int i = 0; b && i < PEERS_MAX; i++) {
		struct mark *k, *next;

		for (k = p->peer[i] ? TAILQ_FIRST(&p->peer[i]->marks) : NULL; k; k = next) {
			next = TAILQ_NEXT(k, next);
			if (k->b != b)
				continue;
			TAILQ_REMOVE(&p->peer[i]->marks, k, next);
			free(k);
		}
	}
	free(b);
}

/* ---- asking one server ---------------------------------------------------------------------- */

static void on_list(void *arg, const json_t *answer)
{
	if (answer)
		peer_list(arg, answer);
}

static unsigned int peers_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	json_int_t n = json_integer_value(v);

	return json_is_integer(v) && n > 0 && n < 1 << 24 ? (unsigned int)n : 0;
}

/* The last answer of a round: all counts of what is not in the list any more are here. */
static void on_sharing(void *arg, const json_t *answer)
{
	struct peer *e = arg;
	const json_t *one;
	size_t i;

	e->rounds--;
	if (!answer)
		return;
	json_array_foreach (json_object_get(answer, "backends"), i, one) {
		const char *backend = json_string_value(json_object_get(one, "backend"));
		const char *refused = json_string_value(json_object_get(one, "refused"));

		if (backend && !strcmp(backend, PEER_BACKEND))
			e->sharing = (struct vpmu_sharing){
				.consumers = peers_number(one, "consumers"),
				.keys = peers_number(one, "keys"),
				.host_counters = peers_number(one, "host-counters"),
				.refused = refused ? strtoull(refused, NULL, 10) : 0,
			};
	}
	peer_list_apply(e);
	e->listed = true;
}

void peer_ask_all(struct peer *e)
{
	if (link_ask(e->link, json_pack("{s:s}", "cmd", "list"), on_list, e))
		return;
	peer_read(e, NULL);
	if (!link_ask(e->link, json_pack("{s:s}", "cmd", "sharing"), on_sharing, e))
		e->rounds++;
}

static void on_hello(void *arg, const json_t *answer)
{
	struct peer *e = arg;
	const char *name = json_string_value(json_object_get(answer, "server"));

	if (!answer)
		return;
	if (!name || strcmp(name, SERVER_NAME)) {
		link_fail(e->link, "it is no " SERVER_NAME);
		return;
	}
	if (json_integer_value(json_object_get(answer, "protocol")) != SERVER_PROTOCOL) {
		link_fail(e->link, "it speaks another version of the protocol");
		return;
	}
	*e->why = '\0';
	e->greeted = true;
	peer_appears(e);
	peer_ask_all(e);
}

/* ---- its state ------------------------------------------------------------------------------ */

static void set_late(struct peer *e, bool late)
{
	if (e->late == late)
		return;
	e->late = late;
	peer_note(e, late ? "it does not answer; its VMs are not counted until it does"
			  : "it answers again");
	if (late)
		marks_look(e, true);
}

static bool is_late(const struct peer *e)
{
	uint64_t since = link_since(e->link);

	return since && now_ns() - since > e->p->late_ns;
}

static void on_answered(void *arg)
{
	struct peer *e = arg;

	if (e->late)
		set_late(e, is_late(e));
	marks_look(e, false);
}

static void on_farewell(void *arg, const json_t *line)
{
	peer_farewell(arg, line);
}

/* The connection is of no use any more. */
static void peer_end(struct peer *e, const char *why)
{
	link_close(e->link);
	peer_is_lost(e, why);
	e->link = NULL;
	e->late = false;
	e->greeted = false;
	e->listed = false;
	e->sharing = (struct vpmu_sharing){0};
	peer_vms_drop(e);
	marks_look(e, true);
}

static void peers_on_ended(void *arg, const char *why)
{
	struct peer *e = arg;
	bool ended = !strcmp(why, ENDED);
	char text[240];

	snprintf(text, sizeof(text), "%s", why); /* it is the link's */
	/* A place may include the socket of something else, such as our own: that is told once. */
	if (strcmp(text, e->why))
		peer_note(e, "%s", text);
	peer_end(e, text);
	snprintf(e->why, sizeof(e->why), "%s", text);
	e->again_ns = now_ns() + (ended ? 0 : AGAIN_LIAR_NS);
}

static void peer_free(struct peer *e)
{
	e->p->peer[e->slot] = NULL;
	free(e);
}

static void peer_connect(struct peer *e)
{
	const struct link_opts o = {
		.ev = e->p->ev,
		.buffered = &e->p->buffered,
		.farewell = on_farewell,
		.answered = on_answered,
		.ended = peers_on_ended,
		.arg = e,
	};
	char why[240] = "";
	int ret = link_open(&o, e->path, e->p->uid, &e->link, why, sizeof(why));

	if (!ret && link_ask(e->link, json_pack("{s:s}", "cmd", "hello"), on_hello, e)) {
		link_close(e->link);
		e->link = NULL;
		ret = fail(-ENOMEM, why, sizeof(why), "out of memory");
	}
	/* Nobody listens: a file that a server has left. That is nothing to tell. */
	if (ret && ret != -ECONNREFUSED && ret != -EAGAIN && strcmp(why, e->why))
		peer_note(e, "%s", why);
	if (ret)
		snprintf(e->why, sizeof(e->why), "%s", why);
}

/* ---- looking -------------------------------------------------------------------------------- */

static void peers_look_at(struct peers *p, const char *path)
{
	struct peer *e = NULL, **slot = NULL;
	struct stat st;

	if (stat(path, &st) || !S_ISSOCK(st.st_mode) || strlen(path) >= sizeof(e->path))
		return;
	for (unsigned int i = 0; i < PEERS_MAX && !e; i++) {
		if (p->peer[i] && !strcmp(p->peer[i]->path, path))
			e = p->peer[i];
		else if (!p->peer[i] && !slot)
			slot = &p->peer[i];
	}
	if (e && e->link && (e->dev != st.st_dev || e->ino != st.st_ino)) {
		peer_note(e, "another server has taken its place");
		peer_end(e, "another server has taken its place");
		e->again_ns = 0;
	}
	if (!e && !slot) {
		if (!p->noted_many && p->note)
			p->note(p->arg,
				"more than 32 servers of vpmu-vmm; the others are not shown");
		p->noted_many = true;
	}
	if (!e && slot)
		e = calloc(1, sizeof(*e));
	if (!e)
		return;
	if (!e->p) {
		e->p = p;
		e->slot = (unsigned int)(slot - p->peer);
		snprintf(e->path, sizeof(e->path), "%s", path);
		LIST_INIT(&e->remotes);
		TAILQ_INIT(&e->marks);
		*slot = e;
	}
	e->dev = st.st_dev;
	e->ino = st.st_ino;
	if (!e->link && now_ns() >= e->again_ns)
		peer_connect(e);
}

static void look_for(struct peers *p, const char *pattern)
{
	glob_t found;

	if (glob(pattern, GLOB_NOSORT, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		peers_look_at(p, found.gl_pathv[i]);
	globfree(&found);
}

void peers_look(struct peers *p)
{
	char *places = strdup(p->places), *rest = places, *place;

	/* No memory: at the next look. */
	while ((place = strsep(&rest, " \t")))
		if (*place == '/')
			look_for(p, place);
	free(places);
	for (unsigned int i = 0; i < PEERS_MAX; i++) {
		struct peer *e = p->peer[i];
		struct stat st;

		if (!e)
			continue;
		if (e->link)
			set_late(e, is_late(e));
		if (e->link && e->listed && !e->late && !e->rounds)
			peer_ask_all(e);
		/* Whoever has no file any more and does not speak to us is gone. */
		if (!e->link && stat(e->path, &st))
			peer_free(e);
	}
	peer_forward_late(p, now_ns());
	peer_compare_late(p, now_ns());
}

static int peers_on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct peers *p = arg;
	uint64_t ms = p->late_ns / 2000000;

	peers_look(p);
	return sd_event_source_set_time_relative(s, 1000 * (ms < LOOK_MS ? ms + 1 : LOOK_MS));
}

/* ---- life ----------------------------------------------------------------------------------- */

bool peers_places_ok(const char *places)
{
	const char *p = places;
	size_t n = 0;

	if (!strcmp(places, "none"))
		return true;
	for (; *p; p++) {
		if (*p == ' ' || *p == '\t')
			continue;
		if (*p != '/')
			return false;
		p += strcspn(p, " \t") - 1;
		n++;
	}
	return n > 0;
}

/* Where vpmu-vmm listens if it is not told: root's servers, and those of our own user. */
static char *peers_usual_places(void)
{
	char own[108], *all = NULL;

	if (geteuid() == 0 || server_default_path(SERVER_NAME, own, sizeof(own)))
		return strdup(PLACES_USUAL);
	return asprintf(&all, "%s %s", PLACES_USUAL, own) < 0 ? NULL : all;
}

int peers_create(sd_event *ev, struct tenants *ts, const struct peers_opts *o, struct peers **out)
{
	struct peers *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	p->ev = sd_event_ref(ev);
	p->ts = ts;
	p->uid = o->uid;
	p->late_ns = (o->late_ms ? o->late_ms : PEERS_LATE_MS) * 1000000ULL;
	p->note = o->note;
	p->arg = o->arg;
	p->places = o->places ? strdup(o->places) : peers_usual_places();
	ret = p->places ? peer_source_init(p) : -ENOMEM;
	if (!ret)
		ret = sd_event_add_time_relative(ev, &p->timer, CLOCK_MONOTONIC, 0, 0,
						 peers_on_timer, p);
	if (ret >= 0)
		ret = sd_event_source_set_enabled(p->timer, SD_EVENT_ON);
	if (ret < 0) {
		peers_destroy(p);
		return ret;
	}
	*out = p;
	return 0;
}

void peers_stop(struct peers *p)
{
	if (!p)
		return;
	p->timer = sd_event_source_disable_unref(p->timer);
	peers_forget_forwards(p);
	peers_forget_compares(p);
	for (unsigned int i = 0; i < PEERS_MAX; i++) {
		if (!p->peer[i])
			continue;
		if (p->peer[i]->link)
			peer_end(p->peer[i], "vpmud ends");
		peer_free(p->peer[i]);
	}
}

void peers_destroy(struct peers *p)
{
	if (!p)
		return;
	peers_stop(p);
	peer_source_fini(p);
	free(p->places);
	sd_event_unref(p->ev);
	free(p);
}

void peers_check(const struct peers *p,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg)
{
	char what[160], why[300];

	for (unsigned int i = 0; i < PEERS_MAX; i++) {
		const struct peer *e = p->peer[i];

		if (!e)
			continue;
		snprintf(what, sizeof(what), "server at %s", e->path);
		if (e->late)
			snprintf(why, sizeof(why), "it does not answer");
		else if (e->link)
			snprintf(why, sizeof(why), "process %d: %zu VMs and vCPUs of backend %s",
				 link_pid(e->link), e->nr_nodes, PEER_BACKEND);
		else
			snprintf(why, sizeof(why), "%s", e->why);
		row(what, e->link && !e->late, why, arg);
	}
}
