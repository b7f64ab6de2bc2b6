// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VMM that binds events of its vCPU at vpmud's socket, for vpmud_guests.sh:
 *
 *   vpmu-guest-counter SOCKET            a VM of one vCPU, run by this thread
 *   vpmu-guest-counter SOCKET COMMAND    no VM: one command
 *
 * Reads commands from standard input and answers each with one line:
 *
 *   connect       "0", or the error's number
 *   tid N         name thread N from now on (0: its own): "0"
 *   bind KEY      "ERROR SLOT", ERROR 0: bound; maps the page that comes with it. The slot of
 *                 page faults is the one that is read
 *   unbind KEY    "ERROR"
 *   faults N      take N page faults, run the vCPU once: "PAGE PERF", both since the first bind
 *   page          "ENDED GAPS MAPPED"
 *   write         try to map the page for writing: the error's number
 *   flood N       N requests that are not permitted, without waiting: number of answers "13"
 *   garbage N     N bytes that are no request, then what the connection gives: "closed" or "open"
 *   second        another connection of this process: "closed" or "open"
 *   events N      ask for N events of page faults and keep them: "GOT ERROR" of the last reply
 *   close N       close N of them
 *   reused        asks for an event of a thread that has ended, and whose number another process
 * has: the reply's error config        what vpmud lets it have: "ERROR KEY=VALUE ...", or "closed"
 *   storm TID     100 connections, each with thousands of forged requests, for this thread and
 *                 thread TID, and garbage: the number of requests
 *   leave         this process ends, and a child keeps its connection, which is then "closed" or
 *                 "open"; "old": the kernel cannot tell
 */
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/integration/guest_faults.h"
#include "vpmu/totals.h"

static const char *path;
static int conn = -1, page_fd = -1, vcpu;
static int kept[2048]; /* events */
static unsigned int nr_kept;
static int32_t tid;
static const struct vpmu_totals *page;
static unsigned int slot;
static uint64_t page_base, perf_base;

static void vm_make(void)
{
	int kvm, vm = guest_vm(&kvm);

	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		die("KVM");
	guest_begin(vcpu);
}

static void vm_run(void)
{
	while (ioctl(vcpu, KVM_RUN, 0) && errno == EINTR)
		;
}

static int socket_open(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a))) {
		close(fd);
		return -errno;
	}
	return fd;
}

static int request(uint32_t what, uint64_t key)
{
	const struct vpmu_totals_request q = {
		.version = VPMU_TOTALS_VERSION, .what = what, .key = key, .tid = tid};

	return send(conn, &q, sizeof(q), MSG_NOSIGNAL) == sizeof(q) ? 0 : -1;
}

static int reply(struct vpmu_totals_reply *r)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c;
	struct iovec iov = {r, sizeof(*r)};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)};
	ssize_t n = recvmsg(conn, &m, MSG_WAITALL | MSG_CMSG_CLOEXEC);
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);

	if (h && h->cmsg_type == SCM_RIGHTS) {
		if (page_fd >= 0)
			close(page_fd);
		memcpy(&page_fd, CMSG_DATA(h), sizeof(page_fd));
	}
	return n == sizeof(*r) ? 0 : -1;
}

static uint64_t page_read(void)
{
	struct vpmu_row row = {0};
	__u64 time_ns;

	return page && !vpmu_totals_read(page, slot, &row, &time_ns) ? row.total : 0;
}

static void bind_key(uint64_t key)
{
	struct vpmu_totals_reply r = {0};
	const struct vpmu_totals *had = page;
	int fd = page_fd;
	void *p;

	if (request(VPMU_TOTALS_BIND, key) || reply(&r)) {
		printf("closed\n");
		return;
	}
	if (!r.error && page_fd != fd) {
		p = mmap(NULL, sizeof(*page), PROT_READ, MAP_SHARED, page_fd, 0);
		if (p == MAP_FAILED)
			die("page");
		page = p;
	}
	if (!r.error && (key & 0xffff) == PERF_COUNT_SW_PAGE_FAULTS) {
		slot = r.slot;
		if (!had || page->seq < had->seq || had->ended) {
			vm_run();
			page_read();
			faults_by_perf();
			vm_run();
			page_base = page_read();
			perf_base = faults_by_perf();
		}
	}
	printf("%u %u\n", r.error, r.slot);
}

static void faults(unsigned int n)
{
	uint64_t by_page, by_perf;

	faults_take(n);
	vm_run();
	by_page = page_read();
	by_perf = faults_by_perf();
	printf("%lu %lu\n", (unsigned long)(by_page - page_base),
	       (unsigned long)(by_perf - perf_base));
}

static void flood(unsigned int n)
{
	struct vpmu_totals_reply r;
	unsigned int sent = 0, got = 0;

	for (; sent < n && !request(VPMU_TOTALS_BIND, 1); sent++)
		;
	while (got < sent && !reply(&r) && r.error == EACCES)
		got++;
	printf("%u\n", got);
}

static void closes(int fd, size_t garbage)
{
	char c;

	for (size_t i = 0; i < garbage; i++)
		if (send(fd, "x", 1, MSG_NOSIGNAL) != 1)
			break;
	printf("%s\n", recv(fd, &c, 1, 0) <= 0 ? "closed" : "open");
}

/* Each reply comes with one descriptor, which reply() takes for a page. */
static void events(unsigned int n)
{
	struct vpmu_totals_reply r = {0};
	int page_was = page_fd;
	unsigned int got = 0;

	for (; got < n && !r.error && nr_kept < sizeof(kept) / sizeof(kept[0]); got += !r.error) {
		page_fd = -1;
		if (request(VPMU_TOTALS_EVENT, 0x043c00000002) || reply(&r))
			break;
		if (!r.error)
			kept[nr_kept++] = page_fd;
	}
	page_fd = page_was;
	printf("%u %u\n", got, r.error);
}

static void events_close(unsigned int n)
{
	for (; n && nr_kept; n--)
		close(kept[--nr_kept]);
	printf("%u\n", nr_kept);
}

static volatile int32_t thread_tid;
static volatile bool thread_ends;

static void *thread_run(void *arg)
{
	prctl(PR_SET_NAME, "CPU 7/KVM");
	thread_tid = (int32_t)syscall(SYS_gettid);
	while (!thread_ends)
		usleep(1000);
	return NULL;
}

/* A child with the number @number. */
static pid_t child_as(pid_t number)
{
	struct clone_args a = {
		.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number, .set_tid_size = 1};
	long pid;

	do
		pid = syscall(SYS_clone3, &a, sizeof(a));
	while (pid < 0 && errno == EEXIST); /* it is not yet gone */
	if (!pid) {
		pause();
		_exit(0);
	}
	return (pid_t)pid;
}

static void reused(void)
{
	struct vpmu_totals_reply r = {.error = ESRCH};
	int page_was = page_fd;
	pthread_t thread;
	pid_t child;

	if (pthread_create(&thread, NULL, thread_run, NULL))
		die("thread");
	while (!thread_tid)
		usleep(1000);
	tid = thread_tid;
	page_fd = -1;
	/* vpmud finds it within seconds. */
	for (int i = 0; r.error == ESRCH && i < 100; i++) {
		usleep(100000);
		if (request(VPMU_TOTALS_BIND, 0x043c00000002) || reply(&r))
			die("bind");
	}
	if (r.error)
		die("the thread is not found");
	thread_ends = true;
	pthread_join(thread, NULL);
	child = child_as(tid);
	if (child != tid || request(VPMU_TOTALS_EVENT, 0x043c00000002) || reply(&r))
		die("event");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(page_fd);
	page_fd = page_was;
	tid = (int32_t)syscall(SYS_gettid);
	printf("%u\n", r.error);
}

static void config(void)
{
	const struct vpmu_totals_request q = {.version = VPMU_TOTALS_VERSION,
					      .what = VPMU_TOTALS_CONFIG};
	struct vpmu_totals_reply r = {0};
	char text[VPMU_TOTALS_CONFIG_MAX + 1] = "";

	if (send(conn, &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q) || reply(&r) ||
	    r.slot >= sizeof(text) ||
	    (r.slot && recv(conn, text, r.slot, MSG_WAITALL) != (ssize_t)r.slot)) {
		printf("closed\n");
		return;
	}
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ' ';
	printf("%u %s\n", r.error, text);
}

/* Requests of all kinds: valid ones for what is not this VM's or not permitted, and invalid ones.
 */
static void forge(struct vpmu_totals_request *q, size_t n, int32_t other)
{
	static uint64_t x = 88172645463325252ULL;

	for (size_t i = 0; i < n; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		q[i] = (struct vpmu_totals_request){
			.version = VPMU_TOTALS_VERSION + !(x % 997),
			.what = (uint32_t)(x >> 8 & 7),
			.key = x & 1 << 20 ? x : 0x043c00000002 ^ (x >> 40 & 3),
			.tid = x & 1 << 21   ? other
			       : x & 1 << 22 ? tid
					     : (int32_t)(x >> 32),
		};
	}
}

static void storm(int32_t other)
{
	static struct vpmu_totals_request q[2048];
	unsigned long sent = 0;
	ssize_t n;

	for (int i = 0; i < 100; i++) {
		forge(q, 2048, other);
		if (conn >= 0)
			close(conn);
		conn = socket_open();
		/* Without waiting; the last request may be cut off. */
		n = send(conn, q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			sent += (unsigned long)n / sizeof(*q);
		send(conn, "garbage", 7, MSG_NOSIGNAL | MSG_DONTWAIT);
		usleep(10000);
	}
	printf("%lu\n", sent);
}

static void leave(void)
{
	const struct timeval limit = {.tv_sec = 30};
	socklen_t len = sizeof(int);
	int pidfd;
	char c;

	/* SO_PEERPIDFD */
	if (getsockopt(conn, SOL_SOCKET, 77, &pidfd, &len)) {
		printf("old\n");
		return;
	}
	if (fork())
		_exit(0);
	setsockopt(conn, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	printf("%s\n", recv(conn, &c, 1, 0) == 0 ? "closed" : "open");
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	char line[128], word[32];
	struct vpmu_totals_reply r = {0};
	unsigned long long n;
	int fd;

	if (argc != 2 && argc != 3)
		return 2;
	path = argv[1];
	if (argc == 3) {
		tid = (int32_t)syscall(SYS_gettid);
		conn = socket_open();
		if (conn < 0)
			die(path);
		if (!strcmp(argv[2], "config"))
			config();
		else
			bind_key(0x043c00000002);
		return 0;
	}
	tid = (int32_t)syscall(SYS_gettid);
	prctl(PR_SET_NAME, "CPU 0/KVM"); /* as QEMU names it: vpmud finds the thread by that */
	vm_make();
	vm_run();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		if (sscanf(line, "%31s %lli", word, (long long *)&n) < 1)
			continue;
		if (!strcmp(word, "connect")) {
			if (conn >= 0)
				close(conn);
			conn = socket_open();
			printf("%d\n", conn < 0 ? -conn : 0);
		} else if (!strcmp(word, "tid")) {
			tid = n ? (int32_t)n : (int32_t)syscall(SYS_gettid);
			printf("0\n");
		} else if (!strcmp(word, "bind")) {
			bind_key(n);
		} else if (!strcmp(word, "unbind")) {
			if (request(VPMU_TOTALS_UNBIND, n) || reply(&r))
				printf("closed\n");
			else
				printf("%u\n", r.error);
		} else if (!strcmp(word, "faults")) {
			faults((unsigned int)n);
		} else if (!strcmp(word, "page")) {
			printf("%d %lu %d\n", page && page->ended,
			       page ? (unsigned long)page->gaps : 0, page != NULL);
		} else if (!strcmp(word, "write")) {
			printf("%d\n", mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, page_fd,
					    0) == MAP_FAILED
					       ? errno
					       : 0);
		} else if (!strcmp(word, "flood")) {
			flood((unsigned int)n);
		} else if (!strcmp(word, "garbage")) {
			closes(conn, n);
		} else if (!strcmp(word, "config")) {
			config();
		} else if (!strcmp(word, "events")) {
			events((unsigned int)n);
		} else if (!strcmp(word, "close")) {
			events_close((unsigned int)n);
		} else if (!strcmp(word, "reused")) {
			reused();
		} else if (!strcmp(word, "storm")) {
			storm((int32_t)n);
		} else if (!strcmp(word, "leave")) {
			leave();
		} else if (!strcmp(word, "second")) {
			fd = socket_open();
			closes(fd, 0);
			close(fd);
		}
	}
	return 0;
}
