/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits while sessions count, for `vpmu stat`: the counts are read periodically, so that some
 * remain if the server is lost. A server that ends normally sends its last counts.
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/session.h"
#include "cli/wait.h"

enum watch_end {
	WATCH_TIME,	    /* timeout */
	WATCH_STOP,	    /* Ctrl-C, SIGTERM, or the command ended */
	WATCH_TARGET_GONE,  /* the target VM or tenant was removed */
	WATCH_FAILED,	    /* the server rejected a request; the error was printed */
	WATCH_SERVER_ENDED, /* the server ended and sent its last counts */
	WATCH_SERVER_LOST   /* the server is gone without last counts */
};

struct watch {
	struct sessions *s;
	bool follow;	      /* continue when the target is removed */
	struct reading *last; /* counts since the attach, newer than any returned by watch_take();
				 NULL: none */
	double next, gap;     /* of background readings */
};

/* watch_until - wait until cli_now() reaches @end (below 0: no limit), or for another end. */
enum watch_end watch_until(struct watch *w, double end);

/*
 * watch_take - read the counts now, as in @how, or take the last known ones if that fails. *@why,
 * from watch_until(), is updated if the server turns out to be gone. The caller must free the
 * reading. NULL: no counts.
 */
struct reading *watch_take(struct watch *w, enum session_read how, enum watch_end *why);

/* watch_note - print to standard error that the server is gone, and the age of the counts @shown
 * (NULL: none). Returns the exit status. */
int watch_note(enum watch_end why, const struct reading *shown);

void watch_fini(struct watch *w);

#endif
