/* SPDX-License-Identifier: GPL-2.0-or-later */
#pragma once

#include <string.h>
#include <sys/socket.h>

/* Send @n bytes to the socket @to, and with them the descriptor @fd if there is one: not -1. */
static inline ssize_t send_fd(int to, const void *bytes, size_t n, int fd)
{
	struct iovec iov = {(void *)bytes, n};
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = {.h = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof(c.room);
		memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	}
	return sendmsg(to, &m, MSG_NOSIGNAL);
}
