/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket and its clients, in an sd-event loop. It handles lines, not requests.
 *
 * A client has one request in progress and one answer pending: nothing more is read from it until
 * the answer is written. So a client that does not read costs one answer, and is dropped if it
 * reads nothing for SERVER_SLOW_SEC.
 */
#pragma once

#include "service/server.h"

struct listener;

int listener_create(struct server *s, sd_event *ev, const struct server_opts *opts,
		    struct listener **out, char *err, size_t errlen);
/* listener_destroy - close all clients, remove the socket. NULL is fine. */
void listener_destroy(struct listener *l);

/* Functions of server.c for the listener. */

/*
 * server_dispatch_conn - server_dispatch for the connection with rights @who. The address of @who
 * identifies the connection (@conn below). If the request waits (server_wait), returns NULL and
 * sets *@later; listener_answer follows, unless server_forget comes first. @later NULL: it cannot
 * wait.
 */
char *server_dispatch_conn(struct server *s, const struct access *who, const char *line, size_t len,
			   struct later **later);
/* server_forget - the client of @l has disconnected. */
void server_forget(struct later *l);
/* listener_answer - called by server.c with the answer (malloc'd; NULL: no memory) to the request
 * @later. */
void listener_answer(struct listener *l, const struct later *later, char *line);
/* server_error_line - an error answer, malloc'd; NULL when out of memory. */
char *server_error_line(int ret, const char *text);
/* server_last_words - detach one session of connection @conn: its final counts as an answer of
 * detach with the id "end", malloc'd. NULL: @conn has no more sessions. */
char *server_last_words(struct server *s, const struct access *conn);
/* server_conn_owns - returns true if connection @conn owns sessions, profiles or captures. */
bool server_conn_owns(struct server *s, const void *conn);
/* server_conn_closed - connection @conn has ended: close its objects, or mark sessions that stay as
 * lost. */
void server_conn_closed(struct server *s, const void *conn);
