// SPDX-License-Identifier: GPL-2.0-or-later
/* Identifies the peer of a socket, see guests_priv.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vpmud/discover/procfile.h"
#include "vpmud/guests_priv.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

bool guest_peer_ended(const struct guest_peer *p)
{
	struct pollfd f = {.fd = p->pidfd, .events = POLLIN};

	return p->pidfd >= 0 && poll(&f, 1, 0) != 0;
}

void guest_peer_close(struct guest_peer *p)
{
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = -1;
}

int guest_peer_read(int fd, struct guest_peer *p)
{
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	struct proc_stat st;
	char path[40];
	int ret;

	*p = (struct guest_peer){.pidfd = -1};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.pid <= 0) /* of another PID namespace */
		return -ESRCH;
	p->pid = cred.pid;
	p->uid = cred.uid;
	len = sizeof(p->pidfd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &p->pidfd, &len)) {
		p->pidfd = -1;
		if (errno != ENOPROTOOPT)
			return -errno;
	} else {
		fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
	}
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)p->pid);
	ret = procfile_stat(AT_FDCWD, path, &st);
	p->start_time = st.start_time;
	/* If it has not ended by now, the pid was its own when the file was read. */
	if (!ret && guest_peer_ended(p))
		ret = -ESRCH;
	if (ret)
		guest_peer_close(p);
	return ret;
}
