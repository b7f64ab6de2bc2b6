/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client's end of the control socket (docs/protocol.md): one line out, one line in. vpmu and
 * vpmu-exporter use it. The server may be slow, may end, and may send invalid answers; the caller
 * checks the contents. One thread.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>

#define CONNECTION_ANSWER_MAX (128u << 20) /* bytes of one answer */

/* Closed: all 0 except @fd = -1. */
struct connection {
	int fd;
	/* private: received data, not yet consumed */
	char *in;
	size_t len, room;
};

/* connection_open - connect to the socket at @path. @sec: timeout of each send and receive in
 * seconds; 0: none. -errno.
 * connection_close - a closed one is fine. */
int connection_open(struct connection *c, const char *path, unsigned int sec);
void connection_close(struct connection *c);

/* connection_send - the request @text, without its newline. -errno. */
int connection_send(struct connection *c, const char *text);

/*
 * connection_receive - receive one answer to *@resp; NULL: it is not a JSON object. @before (may be
 * NULL) is called before each wait. -EAGAIN: timeout; -EPIPE: the server has closed the connection;
 * -EMSGSIZE: more than CONNECTION_ANSWER_MAX; -ENOMEM.
 */
int connection_receive(struct connection *c, void (*before)(int fd), json_t **resp);
