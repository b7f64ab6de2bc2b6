/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The client's side of the control socket: one request, one answer. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "cgroup/cli/cli.h"

struct client;

/* client_open - connect to cli->socket, $VPMU_SOCKET or the first of the usual places that
 * answers. NULL: said on stderr which were tried and how to start a server (@quiet: not said). */
struct client *client_open(const struct cli *cli, bool quiet);
/* client_named - whether -S or $VPMU_SOCKET says which server is meant. */
bool client_named(const struct cli *cli);
void client_close(struct client *c);

/* client_wait_long - for requests whose answer takes as long as it takes: a VM's memory is written
 * or read. Giving up would call something failed that is then done. Ctrl-C ends the client. */
void client_wait_long(struct client *c);

/* client_fd - readable when the server went away. */
int client_fd(const struct client *c);

/* client_ask - send @req (taken, may be NULL: out of memory) and return the answer, or NULL after
 * an error was said on stderr. client_try - the same, and leaves what to say about an error of the
 * server to the caller: *err (malloc'd). */
json_t *client_ask(struct client *c, json_t *req);
json_t *client_try(struct client *c, json_t *req, char **err);

/* client_simple - ask without fields. */
json_t *client_simple(struct client *c, const char *cmd);

#endif
