/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between vpmud and the process that speaks HTTP: messages on a SOCK_SEQPACKET socket pair, one
 * request at a time. The text of an answer is a file in memory that comes with it (SCM_RIGHTS).
 * vpmud believes nothing that this process says: there is only a number to check.
 */
#ifndef EXPORTER_WIRE_H
#define EXPORTER_WIRE_H

#include <stddef.h>
#include <stdint.h>

struct wire_ask {
	uint32_t id;   /* the answer has it, too; 0: none, this is the message of the start */
	uint32_t form; /* enum expo_form */
};

struct wire_answer {
	uint32_t id;
	int32_t ret; /* 0, and a file comes with it; or -errno, and @why says why */
	uint64_t len;
	char why[240];
};

/* wire_send - @fd: a file that goes along, or -1. wire_recv - *@fd: a file that came, or -1.
 * Returns the bytes received, 0: the other end is gone. -errno. */
int wire_send(int sock, const void *msg, size_t len, int fd);
int wire_recv(int sock, void *msg, size_t len, int *fd);

#endif
