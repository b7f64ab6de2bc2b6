/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The client's end of the control socket (docs/protocol.md): one line out, one line in. The command
 * and vpmu-exporter use it. The server is believed to be slow, to end, and to send what is no
 * answer; what an answer says is for the caller to check. One thread.
 */
#ifndef SERVICE_CONNECTION_H
#define SERVICE_CONNECTION_H

#include <jansson.h>
#include <stddef.h>

#define CONNECTION_ANSWER_MAX (128u << 20) /* bytes of one answer */

/* All 0 but @fd = -1 is closed. */
struct connection {
	int fd;
	/* private: received, and not taken yet */
	char *in;
	size_t len, room;
};

/* connection_open - connect to the socket at @path. No send and no receive waits for more than @sec
 * seconds; 0: without limit. -errno. connection_close - of a closed one, too. */
int connection_open(struct connection *c, const char *path, unsigned int sec);
void connection_close(struct connection *c);

/* connection_send - the request @text, without its newline. -errno. */
int connection_send(struct connection *c, const char *text);

/*
 * connection_receive - one answer to *@resp; NULL there: it is no JSON object. @before (may be
 * NULL) is called before each wait. -EAGAIN: the time is over; -EPIPE: the server has closed the
 * connection; -EMSGSIZE: more than CONNECTION_ANSWER_MAX; -ENOMEM.
 */
int connection_receive(struct connection *c, void (*before)(int fd), json_t **resp);

#endif
