/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket and its clients, inside an sd-event loop. It knows lines, not requests.
 *
 * A client has one request in work and one answer on its way: nothing more is read from it until
 * the answer is written, so a client that does not read costs one answer, and is dropped when it
 * reads nothing for SERVER_SLOW_SEC.
 */
#ifndef CGROUP_SERVICE_LISTENER_H
#define CGROUP_SERVICE_LISTENER_H

#include "cgroup/service/server.h"

struct listener;

int listener_create(struct server *s, sd_event *ev, const struct server_opts *opts,
		    struct listener **out, char *err, size_t errlen);
/* listener_destroy - close all clients, remove the socket. NULL is fine. */
void listener_destroy(struct listener *l);

/* What the listener needs of server.c. */

/* server_dispatch_conn - server_dispatch for connection @conn, which is never dereferenced. */
char *server_dispatch_conn(struct server *s, const void *conn, const char *line, size_t len);
/* server_error_line - an error answer, malloc'd; NULL when out of memory. */
char *server_error_line(int ret, const char *text);
/* server_conn_owns - whether sessions, profiles or captures would end with connection @conn. */
bool server_conn_owns(struct server *s, const void *conn);
/* server_conn_closed - connection @conn is gone, and what it owns with it. */
void server_conn_closed(struct server *s, const void *conn);

#endif
