/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Finds the sockets of servers (docs/protocol.md), for client.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SOCKET_PATH_MAX 108 /* with its NUL; as in struct sockaddr_un */
#define SOCKETS_USUAL	4

/* sockets_usual - list the default sockets in the order in which they are tried. Returns their
 * number. */
size_t sockets_usual(char place[SOCKETS_USUAL][SOCKET_PATH_MAX]);

/* socket_trusted - returns true if @path may be used: anybody can create directories in /tmp, so a
 * socket there must be in a directory of ours. */
bool socket_trusted(const char *path);

/* sockets_found - write a hint to append to an error: "; found PATH, PATH...: choose one with -S
 * PATH". It lists the sockets in the default directories on which a server listens and that the
 * user may use, but not @but (may be NULL). Empty if there are none. Nothing is sent to them. */
#define SOCKETS_FOUND 1200
void sockets_found(const char *but, char text[SOCKETS_FOUND]);
