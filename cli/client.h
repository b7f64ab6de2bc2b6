/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client's side of the control socket (docs/protocol.md): one request, one answer. Used by all
 * subcommands, from one thread. It checks that an answer is a JSON object with "ok"; field.h checks
 * its fields. Strings in an answer are safe to print (terminal_safe()).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/options.h"

struct client;
struct connection;

/*
 * client_open - connect to the socket of -S or $VPMU_SOCKET, else to the first default path that
 * answers. On failure returns NULL and prints the paths tried and how to start a server; prints
 * nothing if @quiet.
 */
struct client *client_open(const struct cli *cli, bool quiet);
/* client_reach - as client_open(), but prints nothing: on failure @tried, of @room bytes, gets the
 * paths tried, each with the reason. */
#define CLIENT_TRIED 700
struct client *client_reach(const struct cli *cli, char *tried, size_t room);
/* client_named - returns true if -S or $VPMU_SOCKET names a server. */
bool client_named(const struct cli *cli);
/* client_close - close the connection. The server drops all that belongs to it. NULL is allowed. */
void client_close(struct client *c);

/* client_wait_long - disable the timeout of 30 s, for requests that read or write a VM's memory or
 * unpack a kernel: a timeout would report a failure of something that then succeeds. Ctrl-C ends
 * the client. */
void client_wait_long(struct client *c);

/* client_connection - for requests without client_ask. */
struct connection *client_connection(struct client *c);

/* client_fd - a descriptor that is readable when the server closes the connection. */
int client_fd(const struct client *c);

/*
 * client_last - wait for the end of the connection and return what the server sent before it: an
 * array of answers of `detach`, one per session of this connection; NULL: nothing. Belongs to @c.
 */
const json_t *client_last(struct client *c);
/* client_lost - returns true if a request got no answer; later ones will not, either. */
bool client_lost(const struct client *c);

/*
 * client_ask - send @req (taken) and return the answer, which the caller must json_decref(). NULL
 * after an error was printed. @req may be NULL, which is an error: json_pack() returns it for
 * arguments that are not UTF-8.
 */
json_t *client_ask(struct client *c, json_t *req);
/* client_try - as client_ask(), but an error in the server's answer goes to *@err, which the caller
 * must free. */
json_t *client_try(struct client *c, json_t *req, char **err);
/* client_exit_status - the exit status of a command that ends with @status: EXIT_USAGE instead of 1
 * if the server rejected the command line. */
int client_exit_status(int status);
/* client_simple - client_ask() for a command without fields. client_silent - the same, but an error
 * in the answer is not printed. */
json_t *client_simple(struct client *c, const char *cmd);
json_t *client_silent(struct client *c, const char *cmd);
