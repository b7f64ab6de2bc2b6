/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client's side of the control socket (docs/protocol.md): one request, one answer. Used by all
 * subcommands, from one thread. Answers are checked to be JSON objects that say "ok"; their fields
 * are for field.h to check. Strings in an answer are safe to print (terminal_safe).
 */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/options.h"

struct client;
struct connection;

/*
 * client_open - connect to the socket of -S or $VPMU_SOCKET, else to the first of the usual places
 * that answers. NULL after an error was printed: which places were tried, and how to start a
 * server. @quiet: NULL without an error.
 */
struct client *client_open(const struct cli *cli, bool quiet);
/* client_reach - as client_open, but NULL without an error: @tried, of @room bytes, has the places
 * that were tried, each with the reason. */
#define CLIENT_TRIED 700
struct client *client_reach(const struct cli *cli, char *tried, size_t room);
/* client_named - whether -S or $VPMU_SOCKET names a server. */
bool client_named(const struct cli *cli);
/* client_close - end the connection. The server drops what belongs to it. NULL is allowed. */
void client_close(struct client *c);

/* client_wait_long - do not give up on an answer after 30 s. For requests that read or write a VM's
 * memory: giving up would report a failure of something that is then done. Ctrl-C ends the client.
 */
void client_wait_long(struct client *c);

/* client_connection - for requests without client_ask. */
struct connection *client_connection(struct client *c);

/* client_fd - becomes readable when the server closes the connection. */
int client_fd(const struct client *c);

/*
 * client_last - what a server that has closed the connection sent just before: an array of answers
 * of `detach`, one per session of this connection. NULL: nothing. Belongs to @c. Waits for the end
 * of the connection.
 */
const json_t *client_last(struct client *c);
/* client_lost - whether a request got no answer, so that no other request will get one. */
bool client_lost(const struct client *c);

/*
 * client_ask - send @req and return the answer, which the caller must json_decref. @req is taken;
 * NULL, which json_pack returns of what is not UTF-8, is an error. NULL after an error was
 * printed.
 */
json_t *client_ask(struct client *c, json_t *req);
/* client_try - as client_ask, but an error that the server answers is not printed: it goes to *err,
 * which the caller must free. */
json_t *client_try(struct client *c, json_t *req, char **err);
/* client_exit_status - the exit status of a command that ends with @status: EXIT_USAGE instead of 1
 * if what the server refused was the command line. */
int client_exit_status(int status);
/* client_simple - client_ask for a command without fields. */
json_t *client_simple(struct client *c, const char *cmd);

#endif
