/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Counts of vpmud for the vCPUs of this process (vpmu/totals.h): which keys are wanted of
 * which thread, and what vpmud has granted. share.c talks to vpmud on a thread of its own, so that
 * a vCPU's thread never does: that one notes what it wants, waits for at most SHARE_WAIT_NS, and
 * reads pages. pages.c is its user.
 *
 * vpmud may be absent, refuse, answer late or wrongly, and end at any time. What has been granted
 * stays readable then, and is bound again when vpmud is back.
 *
 * Functions may be called by any thread, those on a share_thread by its vCPU's thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/event/key.h"
#include "vpmu/totals.h"

/* The longest time for which an access to a PMU MSR waits for vpmud. After a wait that was in vain
 * there is none until vpmud has answered. */
#define SHARE_WAIT_NS 20000000ull
/* A key that is not in use any more stays bound for this long: guests multiplex. */
#define SHARE_IDLE_NS 1000000000ull
/* Keys of a thread, with those that stay. */
#define SHARE_KEYS 32

enum share_state {
	SHARE_NONE = 0,
	SHARE_WANTED,  /* to be asked for */
	SHARE_BOUND,   /* its row of the page grows */
	SHARE_REFUSED, /* until retry_ns */
	SHARE_UNBIND   /* to be given back */
};

/* A page, mapped while anyone refers to it. */
struct share_page {
	const struct vpmu_totals *totals;
	unsigned int refs;
};

/* A key of a thread. Written under the client's lock. */
struct share {
	vpmu_key_t key;	   /* 0: free */
	bool used;	   /* by a counter of the vCPU */
	bool again;	   /* bound by a connection that has ended */
	int error;	   /* an errno, while SHARE_REFUSED */
	unsigned int slot; /* while SHARE_BOUND */
	enum share_state state;
	uint64_t retry_ns, idle_ns;
	struct share_page *page; /* the user's, from share_get to share_put; NULL: not bound then */
	/* Which bind it is: changes with each one that begins a new count; 0: not SHARE_BOUND. The
	 * vCPU's thread reads it without the lock. */
	_Atomic uint32_t bind;
	bool event_wanted;	   /* an event of the thread that samples, */
	int event_fd, event_error; /* -1, or it has come; an errno */
};

struct share_client; /* opaque: a connection */

/* A thread that runs a vCPU. It lives until vpmud has been told that it has ended. */
struct share_thread;

/* share_open - the client of the socket @path, shared by all users of it. 0 or -errno. share_close
 * - drop it; the last one ends the connection. NULL does nothing. */
int share_open(const char *path, struct share_client **out);
void share_close(struct share_client *c);

/* share_begin - the calling thread, @tid, runs a vCPU from now on. NULL: no memory. share_end - its
 * shares end; pages must not be read any more. NULL does nothing. */
struct share_thread *share_begin(struct share_client *c, int tid);
void share_end(struct share_thread *t);

/* A key that is bound, from share_get to share_put. */
struct share_use {
	const struct vpmu_totals *page;
	unsigned int slot;
	uint32_t bind; /* share->bind differs: nothing more comes */
	struct share *share;
};

/*
 * With @wait these wait for vpmud if it may answer soon.
 *
 * share_ask - want @key for a while. Returns true if it is bound, or may yet be.
 * share_may - the same, without wanting it.
 * share_get - use @key for a counter. Returns false if it is not bound: it is wanted then, and
 * share_put must follow all the same.
 * share_put - the counter does not need @key any more.
 * share_ready - returns true if @key, which is wanted, is bound.
 */
bool share_ask(struct share_thread *t, vpmu_key_t key, bool wait);
bool share_may(struct share_thread *t, vpmu_key_t key);
bool share_get(struct share_thread *t, vpmu_key_t key, bool wait, struct share_use *out);
void share_put(struct share_thread *t, vpmu_key_t key);
bool share_ready(struct share_thread *t, vpmu_key_t key);

/* share_event - a sampling event of the thread for @s, which is used. The caller closes it. The fd;
 * -EAGAIN: not yet; or -errno: refused. */
int share_event(struct share_thread *t, struct share *s, bool wait);
