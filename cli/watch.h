/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waiting while sessions count, for `vpmu stat`: the counts are read now and then, so that there
 * are some to show when the server is gone. A server that ends by itself sends its last counts.
 */
#ifndef CLI_WATCH_H
#define CLI_WATCH_H

#include "cli/session.h"
#include "cli/wait.h"

enum watch_end {
	WATCH_TIME,	    /* the time has come */
	WATCH_STOP,	    /* Ctrl-C, SIGTERM, or the command ended */
	WATCH_TARGET_GONE,  /* the VM or tenant that is counted was removed */
	WATCH_FAILED,	    /* the server refuses to go on; the error was printed */
	WATCH_SERVER_ENDED, /* the server ended; its last counts are known */
	WATCH_SERVER_LOST   /* the server is gone without a word */
};

struct watch {
	struct sessions *s;
	bool follow;	      /* go on when the target is removed */
	struct reading *last; /* counts since the attach, newer than any that watch_take returned;
				 NULL: none */
	double next, gap;     /* of reading in the background */
};

/* watch_until - wait until cli_now() reaches @end (below 0: no such end), or for something else. */
enum watch_end watch_until(struct watch *w, double end);

/*
 * watch_take - read the counts now, as @how says, or take the last known ones if they cannot be
 * read: *why, what watch_until returned, then says so even if that is found out here only. The
 * caller must free the reading. NULL: no counts were read.
 */
struct reading *watch_take(struct watch *w, enum session_read how, enum watch_end *why);

/* watch_note - say on standard error if the server is gone, and of when the counts of @shown are
 * (NULL: there are none). Returns the exit status. */
int watch_note(enum watch_end why, const struct reading *shown);

void watch_fini(struct watch *w);

#endif
