// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A server at vpmud's socket for VMMs that permits every event and counts 1,000 of each in 10 ms,
 * for qemu.sh: pages SOCKET. It writes a line for each connection and each request, and ends when
 * it is killed; its page then stands still. What vpmud does besides is not here.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/send_fd.h"
#include "vpmu/totals.h"

static struct vpmu_totals *page;
static int page_fd, conn = -1;
static __u64 keys[VPMU_MAX_SLOTS];

static int pages_listen(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	unlink(path);
	return fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, 8) ? -1 : fd;
}

static int pages_make(void)
{
	page_fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (page_fd < 0 || ftruncate(page_fd, sizeof(*page)) ||
	    fcntl(page_fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -1;
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
	return page == MAP_FAILED ? -1 : 0;
}

static void pages_count(void)
{
	__atomic_fetch_add(&page->seq, 1, __ATOMIC_SEQ_CST);
	for (int i = 0; i < VPMU_MAX_SLOTS; i++)
		__atomic_fetch_add(&page->row[i].total, keys[i] ? 1000 : 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&page->time_ns, 10000000, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&page->seq, 1, __ATOMIC_SEQ_CST);
}

static void pages_reply(__u32 error, __u32 slot, int fd)
{
	struct vpmu_totals_reply r = {error, slot};

	if (send_fd(conn, &r, sizeof(r), fd) < 0)
		perror("pages: sendmsg");
}

/* Returns -1: the connection has ended. */
static int pages_answer(int *first)
{
	struct vpmu_totals_request q;
	__u32 slot = 1;

	if (recv(conn, &q, sizeof(q), MSG_WAITALL) != sizeof(q))
		return -1;
	printf("request %u of %llx\n", q.what, (unsigned long long)q.key);
	if (q.what == VPMU_TOTALS_BIND) {
		while (slot < VPMU_MAX_SLOTS - 1 && keys[slot] && keys[slot] != q.key)
			slot++;
		keys[slot] = q.key;
		pages_reply(0, slot, *first ? page_fd : -1);
		*first = 0;
	} else {
		pages_reply(q.what == VPMU_TOTALS_EVENT ? 22 : 0, 0, -1);
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct pollfd p[2] = {{.events = POLLIN}, {.events = POLLIN}};
	int first = 1;

	setvbuf(stdout, NULL, _IOLBF, 0);
	p[0].fd = argc == 2 ? pages_listen(argv[1]) : -1;
	if (p[0].fd < 0 || pages_make()) {
		perror("pages");
		return 1;
	}
	for (;;) {
		p[0].events = conn < 0 ? POLLIN : 0;
		p[1].fd = conn;
		if (!poll(p, 2, 10))
			pages_count();
		if (p[1].revents && pages_answer(&first)) {
			close(conn);
			conn = -1;
		}
		if (p[0].revents) {
			conn = accept4(p[0].fd, NULL, NULL, SOCK_CLOEXEC);
			first = 1;
			printf("connected\n");
		}
	}
}
