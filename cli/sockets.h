/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where servers listen (docs/protocol.md). */
#ifndef CLI_SOCKETS_H
#define CLI_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

#define SOCKET_PATH_MAX 108 /* with its NUL; as in struct sockaddr_un */
#define SOCKETS_USUAL	4

/* sockets_usual - the sockets of servers that were given no path, in the order in which they are
 * tried. Returns how many they are. */
size_t sockets_usual(char place[SOCKETS_USUAL][SOCKET_PATH_MAX]);

/* socket_trusted - whether @path may be used: everybody may make directories in /tmp, so a socket
 * there is used only in a directory of ours. */
bool socket_trusted(const char *path);

/* sockets_found - what to add to an error: "; found PATH, PATH...: choose one with -S PATH". It
 * names each socket in the directories of the usual ones at which somebody listens, and that the
 * user may use. @but is left out; NULL: none is. Empty if there is none. Nothing is sent to them.
 */
#define SOCKETS_FOUND 1200
void sockets_found(const char *but, char text[SOCKETS_FOUND]);

#endif
