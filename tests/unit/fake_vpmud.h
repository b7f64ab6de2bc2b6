/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A vpmud for one vCPU's thread, at a socket of its own: pages, and binds, by the rules of
 * vpmu/totals.h, or in one of the ways in which it may go wrong. What its BPF program does is
 * vpmud_charge(), and goes on while the server is dead.
 */
#ifndef TESTS_UNIT_FAKE_VPMUD_H
#define TESTS_UNIT_FAKE_VPMUD_H

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/send_fd.h"
#include "vpmu/totals.h"

enum vpmud_mode {
	VPMUD_GOOD = 0,
	VPMUD_REFUSES, /* with vpmud.error */
	VPMUD_SILENT,  /* answers when it is good again */
	VPMUD_CLOSES,  /* each connection */
	VPMUD_GARBAGE, /* answers random bytes */
	VPMUD_NO_FD,   /* where there should be one */
	VPMUD_BAD_FD,  /* of a file that can shrink, of a pipe, and others */
	VPMUD_BAD_SLOT,
	VPMUD_MODES
};

static struct {
	pthread_mutex_t lock;
	char dir[32], path[64];
	pthread_t thread;
	int listener, conn, stop;
	bool alive;
	_Atomic int mode, error;
	_Atomic unsigned int requests, binds, unbinds, events, connections, pages;
	unsigned int bad;
	/* Pages and binds outlive the server. */
	int fd; /* of the page, or -1 */
	struct vpmu_totals *page;
	uint64_t shown;
	vpmu_key_t slot[VPMU_MAX_SLOTS];
	unsigned int of_conn; /* binds of the connection */
	uint64_t began_ns;
} vpmud = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static inline void vpmud_forget_page(void)
{
	munmap(vpmud.page, sizeof(*vpmud.page));
	close(vpmud.fd);
	vpmud.page = NULL;
	vpmud.fd = -1;
	vpmud.shown = 0;
}

static inline void vpmud_end_page(void)
{
	if (!vpmud.page)
		return;
	__atomic_store_n(&vpmud.page->ended, 1, __ATOMIC_RELEASE);
	vpmud_forget_page();
}

static inline int vpmud_memory(bool sealed)
{
	int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert(fd >= 0 && !ftruncate(fd, sizeof(struct vpmu_totals)));
	if (sealed)
		cr_assert(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	return fd;
}

static inline void vpmud_new_page(void)
{
	vpmud.pages++;
	vpmud.fd = vpmud_memory(true);
	vpmud.page =
		mmap(NULL, sizeof(*vpmud.page), PROT_READ | PROT_WRITE, MAP_SHARED, vpmud.fd, 0);
	cr_assert(vpmud.page != MAP_FAILED);
	vpmud.page->time_ns = 12345;
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		vpmud.page->row[i].total = 1000 * i; /* no base */
}

/* KVM_RUN has returned: @events since the last time, in @ns, of which @lost without a counter. */
static inline void vpmud_charge(uint64_t events, uint64_t ns, uint64_t lost)
{
	pthread_mutex_lock(&vpmud.lock);
	if (vpmud.page) {
		struct vpmu_totals *t = vpmud.page;

		__atomic_fetch_add(&t->seq, 1, __ATOMIC_SEQ_CST);
		for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
			if (!(vpmud.shown >> i & 1))
				continue;
			__atomic_fetch_add(&t->row[i].total, events, __ATOMIC_SEQ_CST);
			__atomic_fetch_add(&t->row[i].lost, lost, __ATOMIC_SEQ_CST);
		}
		__atomic_fetch_add(&t->time_ns, ns, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&t->seq, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&vpmud.lock);
}

static inline unsigned int vpmud_slot(vpmu_key_t key)
{
	for (unsigned int i = 7;; i++) {
		cr_assert(i < VPMU_MAX_SLOTS);
		if (!vpmud.slot[i])
			vpmud.slot[i] = key;
		if (vpmud.slot[i] == key)
			return i;
	}
}

static inline void vpmud_bind(vpmu_key_t key)
{
	struct vpmu_totals_reply r = {.slot = vpmud_slot(key)};
	bool first = !vpmud.of_conn;
	int fd = -1, other = -1;

	if (!vpmud.page)
		vpmud_new_page();
	if (first)
		fd = vpmud.fd;
	vpmud.of_conn++;
	vpmud.shown |= 1ull << r.slot;
	vpmud.binds++;
	if (vpmud.mode == VPMUD_NO_FD)
		fd = -1;
	if (vpmud.mode == VPMUD_BAD_SLOT)
		r.slot = VPMU_MAX_SLOTS + vpmud.bad++ * 12345;
	if (vpmud.mode == VPMUD_BAD_FD && first) {
		int pipes[2];

		switch (vpmud.bad++ % 3) {
		case 0:
			other = vpmud_memory(false);
			break;
		case 1:
			cr_assert(!pipe2(pipes, O_CLOEXEC));
			close(pipes[1]);
			other = pipes[0];
			break;
		default:
			other = open("/", O_RDONLY | O_CLOEXEC);
		}
		fd = other;
	}
	send_fd(vpmud.conn, &r, sizeof(r), fd);
	if (other >= 0)
		close(other);
}

static inline void vpmud_answer(const struct vpmu_totals_request *q)
{
	struct vpmu_totals_reply r = {0};
	int fd;

	cr_assert_eq(q->version, VPMU_TOTALS_VERSION);
	if (vpmud.mode == VPMUD_REFUSES) {
		r.error = (uint32_t)vpmud.error;
		send_fd(vpmud.conn, &r, sizeof(r), -1);
	} else if (vpmud.mode == VPMUD_GARBAGE) {
		uint32_t junk[3] = {vpmud.bad++ * 2654435761u, vpmud.bad * 40503u, 7};

		send_fd(vpmud.conn, junk, 1 + vpmud.bad % sizeof(junk),
			vpmud.bad % 3 ? -1 : vpmud.stop);
		if (vpmud.bad % 2)
			shutdown(vpmud.conn, SHUT_RDWR);
	} else if (q->what == VPMU_TOTALS_BIND) {
		vpmud_bind(q->key);
	} else if (q->what == VPMU_TOTALS_UNBIND) {
		vpmud.unbinds++;
		vpmud.shown &= ~(1ull << vpmud_slot(q->key));
		vpmud.of_conn--;
		if (!vpmud.of_conn)
			vpmud_end_page();
		send_fd(vpmud.conn, &r, sizeof(r), -1);
	} else {
		vpmud.events++;
		fd = eventfd(0, EFD_CLOEXEC);
		send_fd(vpmud.conn, &r, sizeof(r), fd);
		close(fd);
	}
}

static inline void vpmud_hang_up(bool ends)
{
	if (vpmud.conn < 0)
		return;
	close(vpmud.conn);
	vpmud.conn = -1;
	vpmud.of_conn = 0;
	if (ends)
		vpmud_end_page();
}

static inline void *vpmud_run(void *arg)
{
	struct vpmu_totals_request q;

	for (;;) {
		struct pollfd p[3] = {{.fd = vpmud.stop, .events = POLLIN},
				      {.fd = vpmud.listener, .events = POLLIN},
				      {.fd = vpmud.conn, .events = POLLIN}};

		if (vpmud.mode == VPMUD_SILENT)
			p[2].fd = -1;
		poll(p, 3, 5);
		if (p[0].revents)
			return arg;
		pthread_mutex_lock(&vpmud.lock);
		if (p[2].revents && vpmud.mode != VPMUD_SILENT) {
			ssize_t n = recv(vpmud.conn, &q, sizeof(q), MSG_WAITALL);

			vpmud.requests += n > 0;
			if (n == (ssize_t)sizeof(q))
				vpmud_answer(&q);
			else
				vpmud_hang_up(true);
		}
		if (p[1].revents) {
			vpmud_hang_up(true);
			vpmud.conn = accept4(vpmud.listener, NULL, NULL, SOCK_CLOEXEC);
			vpmud.connections++;
			if (vpmud.mode == VPMUD_CLOSES)
				vpmud_hang_up(true);
		}
		pthread_mutex_unlock(&vpmud.lock);
	}
}

/* @in_time: before the pages that the last one has left end. */
static inline void vpmud_start(bool in_time)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (!*vpmud.dir) {
		strcpy(vpmud.dir, "/tmp/fake-vpmud-XXXXXX");
		cr_assert(mkdtemp(vpmud.dir));
		snprintf(vpmud.path, sizeof(vpmud.path), "%s/vcpus.sock", vpmud.dir);
	}
	if (!in_time)
		vpmud_end_page();
	strcpy(a.sun_path, vpmud.path);
	vpmud.conn = -1;
	vpmud.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	vpmud.stop = eventfd(0, EFD_CLOEXEC);
	cr_assert(!bind(vpmud.listener, (struct sockaddr *)&a, sizeof(a)));
	cr_assert(!listen(vpmud.listener, 8));
	cr_assert(!pthread_create(&vpmud.thread, NULL, vpmud_run, NULL));
	vpmud.alive = true;
}

static inline void vpmud_kill(void)
{
	const uint64_t one = 1;

	if (!vpmud.alive)
		return;
	cr_assert_eq(write(vpmud.stop, &one, 8), 8);
	pthread_join(vpmud.thread, NULL);
	vpmud_hang_up(false);
	close(vpmud.listener);
	close(vpmud.stop);
	unlink(vpmud.path);
	vpmud.alive = false;
}

static inline void vpmud_fini(void)
{
	vpmud_kill();
	vpmud_end_page();
	if (*vpmud.dir)
		rmdir(vpmud.dir);
}

#endif
