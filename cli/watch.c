// SPDX-License-Identifier: GPL-2.0-or-later
/* Waits while sessions count; see stat.h. */
#include <stdlib.h>

#include "cli/error.h"
#include "cli/stat.h"

#define GAP_MIN_S 0.1
#define GAP_MAX_S 1
#define COST	  20 /* pause after a reading, as a multiple of its duration */

/* Take the last counts of a server that closed the connection. */
static enum watch_end server_gone(struct watch *w)
{
	struct reading *r = sessions_last(w->s);

	if (!r)
		return WATCH_SERVER_LOST;
	reading_free(w->last);
	w->last = r;
	return WATCH_SERVER_ENDED;
}

/* Reading failed: classify the failure. */
static enum watch_end watch_failed(struct watch *w)
{
	return client_lost(w->s->c) ? server_gone(w) : WATCH_FAILED;
}

/* Read in the background. Returns false on failure: call watch_failed(). */
static bool watch_peek(struct watch *w)
{
	double start = cli_now();
	struct reading *r = sessions_read(w->s, SESSION_PEEK);
	double took = cli_now() - start;

	if (!r)
		return false;
	reading_free(w->last);
	w->last = r;
	w->gap = w->gap * 2 > GAP_MAX_S ? GAP_MAX_S : w->gap * 2;
	if (w->gap < COST * took)
		w->gap = COST * took;
	w->next = cli_now() + w->gap;
	return true;
}

enum watch_end watch_until(struct watch *w, double end)
{
	if (!w->gap) {
		w->gap = GAP_MIN_S;
		w->next = cli_now() + w->gap;
	}
	for (;;) {
		bool now = end >= 0 && end <= w->next;

		if (sessions_gone(w->s) && !w->follow)
			return WATCH_TARGET_GONE;

		switch (cli_wait(now ? end : w->next, client_fd(w->s->c))) {
		case CLI_WAIT_STOP:
			return WATCH_STOP;
		case CLI_WAIT_SERVER_GONE:
			return server_gone(w);
		case CLI_WAIT_TIME:
		case CLI_WAIT_INPUT:
			break;
		}
		if (now)
			return WATCH_TIME;
		if (!watch_peek(w))
			return watch_failed(w);
	}
}

struct reading *watch_take(struct watch *w, enum session_read how, enum watch_end *why)
{
	struct reading *r = NULL;

	if (*why < WATCH_FAILED) {
		r = sessions_read(w->s, how);
		if (!r)
			*why = watch_failed(w);
	}
	if (r)
		reading_free(w->last);
	else
		r = w->last;
	w->last = NULL;
	return r;
}

int watch_note(enum watch_end why, const struct reading *shown)
{
	if (why <= WATCH_FAILED)
		return shown && why < WATCH_FAILED ? 0 : 1;
	if (!shown)
		cli_error("stat: the server went away before counts were read");
	else if (why == WATCH_SERVER_ENDED)
		cli_error("stat: the server ended; these are the counts up to its end");
	else
		cli_error("stat: the server went away; these are the counts of %.3f s after the "
			  "start, the last that were read",
			  (double)shown->age_ns / 1e9);
	return shown && why == WATCH_SERVER_ENDED ? 0 : 1;
}

void watch_fini(struct watch *w)
{
	reading_free(w->last);
	w->last = NULL;
}
