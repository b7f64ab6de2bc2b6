/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One connection to a server, as its client: requests out, answers in, in this order. It knows
 * lines and JSON, not what they mean. What comes in is bounded, and so is what waits to be sent.
 * The event loop's thread.
 */
#ifndef VPMUD_PEER_LINK_H
#define VPMUD_PEER_LINK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#define LINK_OUT_MAX	 (1 << 18) /* bytes of requests that the server has not read yet */
#define LINK_ASKED_MAX	 1024	   /* requests without an answer */
#define LINK_DENSITY_MIN 65536	   /* longer answers may not be all brackets and commas */

struct link;

struct link_opts {
	sd_event *ev;
	size_t *buffered; /* bytes of answers that are not whole, of all links */
	/* A line that answers no request: the server ends. May be NULL */
	void (*farewell)(void *arg, const json_t *line);
	/* Each line has been dealt with. May be NULL */
	void (*answered)(void *arg);
	/* The connection is of no use any more. Called once, and last: it may close the link */
	void (*ended)(void *arg, const char *why);
	void *arg;
};

/* link_open - connect to @path. The server must be @uid's or root's. -errno and one line to @why;
 * -EAGAIN: it is busy. link_fd - the same for a connected socket @fd, which is the link's then. */
int link_open(const struct link_opts *o, const char *path, uid_t uid, struct link **out, char *why,
	      size_t whylen);
int link_fd(const struct link_opts *o, int fd, struct link **out);
/* link_close - forget all requests without an answer: their functions are called with NULL. Not
 * within such a function. NULL is fine. */
void link_close(struct link *l);

/*
 * link_ask - send @req, whose reference it takes. @fn gets the answer, an object with a boolean
 * "ok"; NULL: there will be none. -ENOBUFS: the server has not read or answered enough of what was
 * sent before; -ENOMEM. @fn is not called then, nor before link_ask returns.
 */
int link_ask(struct link *l, json_t *req, void (*fn)(void *arg, const json_t *answer), void *arg);

/* link_fail - within a function that got an answer: the server lies, and the link has ended. */
void link_fail(struct link *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* link_sent - number of the last request. link_done - of the last one that was answered.
 * link_since - when the oldest one without an answer was sent (now_ns); 0: there is none. */
uint64_t link_sent(const struct link *l);
uint64_t link_done(const struct link *l);
uint64_t link_since(const struct link *l);
pid_t link_pid(const struct link *l);

#endif
