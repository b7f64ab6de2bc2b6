/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket and its clients, inside an sd-event loop. It knows lines, not requests.
 *
 * A client has one request in work and one answer on its way: nothing more is read from it until
 * the answer is written, so a client that does not read costs one answer, and is dropped when it
 * reads nothing for SERVER_SLOW_SEC.
 */
#ifndef SERVICE_LISTENER_H
#define SERVICE_LISTENER_H

#include "service/server.h"

struct listener;

int listener_create(struct server *s, sd_event *ev, const struct server_opts *opts,
		    struct listener **out, char *err, size_t errlen);
/* listener_destroy - close all clients, remove the socket. NULL is fine. */
void listener_destroy(struct listener *l);

/* What the listener needs of server.c. */

/*
 * server_dispatch_conn - server_dispatch for the connection whose rights are @who. The address of
 * @who is the connection's identity, @conn below. If the request waits (server_wait), it returns
 * NULL and *@later; listener_answer follows, unless server_forget comes first. @later NULL: it
 * never waits.
 */
char *server_dispatch_conn(struct server *s, const struct access *who, const char *line, size_t len,
			   struct later **later);
/* server_forget - the client of @l is gone. */
void server_forget(struct later *l);
/* listener_answer - for server.c: the answer (malloc'd; NULL: no memory) of the request @later. */
void listener_answer(struct listener *l, const struct later *later, char *line);
/* server_error_line - an error answer, malloc'd; NULL when out of memory. */
char *server_error_line(int ret, const char *text);
/* server_last_words - the final counts of one session of connection @conn, which ends with that, as
 * an answer of detach with the id "end"; malloc'd. NULL: it has no more sessions. */
char *server_last_words(struct server *s, const struct access *conn);
/* server_conn_owns - whether sessions, profiles or captures would end with connection @conn. */
bool server_conn_owns(struct server *s, const void *conn);
/* server_conn_closed - connection @conn is gone, and what it owns with it. */
void server_conn_closed(struct server *s, const void *conn);

#endif
