/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions that outlive their server: saved as JSON, and opened again by the next server on the
 * same counts. Only named sessions are saved, since the others end with their connection; values of
 * removed nodes are not. The counts stay with the backend: the bases are each row's start. Control
 * thread.
 */
#pragma once

#include <jansson.h>

#include "service/session.h"

#define SESSION_BASE_WORDS 8

/* Operations of a backend with counts that outlive the server. */
struct session_bases {
	const char *backend;
	/* Read the base of key @i of an attached counting. */
	void (*get)(const struct vpmu_counting *c, size_t i, uint64_t base[SESSION_BASE_WORDS]);
	/* -EINVAL: the base was taken from other counts. */
	int (*set)(struct vpmu_counting *c, size_t i, const uint64_t base[SESSION_BASE_WORDS]);
	enum vpmu_space raw_space; /* as in struct server_opts */
	bool host_too;		   /* the same */
	/* The row @c of @n was not saved and begins now: how long it has not counted @n at the
	 * most, as tenant_late(), beyond what @n is late; 0: it is new. */
	uint64_t (*lacks)(const struct vpmu_counting *c, const struct node *n);
};

/* sessions_save - all named sessions, as an array. */
json_t *sessions_save(struct sessions *ss, const struct session_bases *b);

/*
 * sessions_restore - open the sessions of @saved (from sessions_save) again. @saved and @b must
 * live until sessions_restored and as long as the sessions, which use their strings. Until
 * sessions_restored rows of nodes that are added later get their bases, too. Each session that
 * cannot be restored is one line to @note.
 */
void sessions_restore(struct sessions *ss, const json_t *saved, const struct session_bases *b,
		      void (*note)(void *arg, const char *line), void *arg);
void sessions_restored(struct sessions *ss);

/* For session.c: row @r of @s has just started to count. If it was saved, restore its base and
 * return true. */
struct row;
bool session_resume_row(struct session *s, struct row *r);
