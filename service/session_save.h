/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions that outlive their server: saved as JSON, and opened again by the next server on the
 * same counts. Only sessions with a name are saved, since the others end with their connection;
 * values of removed nodes are not. What is counted stays with the backend: the bases say from where
 * on each row counts. Control thread.
 */
#ifndef SERVICE_SESSION_SAVE_H
#define SERVICE_SESSION_SAVE_H

#include <jansson.h>

#include "service/session.h"

#define SESSION_BASE_WORDS 7

/* What a backend whose counts outlive the server does. */
struct session_bases {
	const char *backend;
	/* The base of key @i of a counting that is attached. */
	void (*get)(const struct vpmu_counting *c, size_t i, uint64_t base[SESSION_BASE_WORDS]);
	/* -EINVAL: the counting's counts are not those that the base was taken of. */
	int (*set)(struct vpmu_counting *c, size_t i, const uint64_t base[SESSION_BASE_WORDS]);
	enum vpmu_space raw_space; /* as in struct server_opts */
	bool host_too;		   /* the same */
};

/* sessions_save - all that can be saved, as an array; NULL: out of memory. */
json_t *sessions_save(struct sessions *ss, const struct session_bases *b);

/*
 * sessions_restore - open those of @saved again. @saved (of sessions_save) and @b must live until
 * sessions_restored and as long as the sessions, which have strings of it. Rows of nodes that come
 * later go on with their bases, too, until sessions_restored. What cannot be restored is a line to
 * @note; the rest is.
 */
void sessions_restore(struct sessions *ss, const json_t *saved, const struct session_bases *b,
		      void (*note)(void *arg, const char *line), void *arg);
void sessions_restored(struct sessions *ss);

/* For session.c: row @r of @s has begun to count. If it was saved, it goes on where it was. */
struct row;
void session_resume_row(struct session *s, struct row *r);

#endif
