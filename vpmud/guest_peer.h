/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process that has connected to the socket for VMMs, as the kernel identifies it: not its pid
 * alone, which another process may have by the time that it is looked up. guests.c calls it, on the
 * event loop's thread.
 */
#ifndef VPMUD_GUEST_PEER_H
#define VPMUD_GUEST_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guest_peer {
	pid_t pid;
	uid_t uid;
	uint64_t start_time; /* as in struct disc_vm */
	/* Readable once the process has ended; -1: this kernel has none for sockets (SO_PEERPIDFD,
	 * Linux 6.5). Then a process that took the pid between connect() and guest_peer_read() is
	 * taken for the one that connected. */
	int pidfd;
};

/* guest_peer_read - the peer of socket @fd. -ESRCH: it has ended; other -errno of the kernel.
 * guest_peer_close - close the pidfd. guest_peer_ended - returns true if the process has ended, by
 * the pidfd. */
int guest_peer_read(int fd, struct guest_peer *p);
void guest_peer_close(struct guest_peer *p);
bool guest_peer_ended(const struct guest_peer *p);

#endif
