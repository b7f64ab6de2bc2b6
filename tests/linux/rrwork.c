// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Programs whose course depends on time, scheduling and signals, for rr in a guest
 * (tests/linux/rr): linux-rrwork NAME prints a digest of its course. Two runs differ; a replay must
 * print the same.
 */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

/* rr takes milliseconds of the guest for each system call that blocks, and for each exec. */
#define ROUNDS	200
#define SIGNALS 4

/* FNV-1a (Fowler, Noll, Vo), by words. */
static volatile uint64_t digest = 0xcbf29ce484222325;

static void note(uint64_t x)
{
	digest = (digest ^ x) * 0x100000001b3;
}

/*
 * A loop that takes long, with a conditional branch at each of 64 places. Where rr replays an
 * interrupt it stops some thousand branches early, and goes on by a breakpoint at the place that
 * was interrupted: it is hit the more seldom.
 */
#define STEP(p, k)                                                                                 \
	do {                                                                                       \
		*(p) = *(p)*31 + (k);                                                              \
		if (*(p) >> ((k) % 64) & 1)                                                        \
			*(p) ^= (k);                                                               \
	} while (0)
#define STEP4(p, k)                                                                                \
	do {                                                                                       \
		STEP(p, k);                                                                        \
		STEP(p, (k) + 1);                                                                  \
		STEP(p, (k) + 2);                                                                  \
		STEP(p, (k) + 3);                                                                  \
	} while (0)
#define STEP16(p, k)                                                                               \
	do {                                                                                       \
		STEP4(p, k);                                                                       \
		STEP4(p, (k) + 4);                                                                 \
		STEP4(p, (k) + 8);                                                                 \
		STEP4(p, (k) + 12);                                                                \
	} while (0)

static __attribute__((noinline)) void wide(volatile uint64_t *p)
{
	STEP16(p, 1);
	STEP16(p, 17);
	STEP16(p, 33);
	STEP16(p, 49);
}

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* ---- threads -------------------------------------------------------------------------------- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic uint32_t turn;
static volatile uint64_t place; /* in a loop */
static volatile uint64_t raced;
static unsigned int queued, taken;

static void threads(void *(*fn)(void *), uintptr_t n)
{
	pthread_t t[8];

	for (uintptr_t i = 0; i < n; i++)
		must(!pthread_create(&t[i], NULL, fn, (void *)i), "pthread_create");
	for (uintptr_t i = 0; i < n; i++)
		pthread_join(t[i], NULL);
}

/* No lock: updates get lost, and which ones depends on where each thread is interrupted. */
static void *race(void *arg)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		raced += (uintptr_t)arg;
		wide(&raced);
	}
	return NULL;
}

static void *locked(void *arg)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		wide(&place); /* so long that threads are interrupted in it */
		note((uintptr_t)arg);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void *pingpong(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg, now;

	for (int i = 0; i < ROUNDS / 8; i++) {
		while ((now = atomic_load(&turn)) % 2 != me)
			syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
		note(__rdtsc());
		atomic_fetch_add(&turn, 1);
		syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	return NULL;
}

static void *queue(void *arg)
{
	for (int i = 0; i < 2 * ROUNDS; i++) {
		wide(&place);
		pthread_mutex_lock(&mutex);
		if (arg) {
			while (queued - taken == 16)
				pthread_cond_wait(&changed, &mutex);
			queued++;
		} else {
			while (queued == taken)
				pthread_cond_wait(&changed, &mutex);
			note(queued - taken++);
		}
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&mutex);
	}
	return NULL;
}

static void run_race(void)
{
	threads(race, 4);
	note(raced);
}

static void run_mutex(void)
{
	threads(locked, 4);
}

static void run_futex(void)
{
	threads(pingpong, 2);
}

static void run_cond(void)
{
	threads(queue, 2);
}

/* ---- signals -------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals;

static void on_signal(int sig, siginfo_t *info, void *context)
{
	(void)context;
	note(place);
	note((uint64_t)sig + (uint64_t)info->si_value.sival_int);
	signals++;
}

static void handle(int sig)
{
	struct sigaction sa = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};

	must(!sigaction(sig, &sa, NULL), "sigaction");
}

/* Signals at arbitrary instructions of a loop: the digest holds each place. */
static void run_itimer(void)
{
	struct itimerval every = {{0, 2000}, {0, 2000}}, never = {0};

	handle(SIGALRM);
	setitimer(ITIMER_REAL, &every, NULL);
	while (signals < SIGNALS)
		wide(&place);
	setitimer(ITIMER_REAL, &never, NULL);
}

static void run_timer(void)
{
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
	struct itimerspec every = {{0, 2000000}, {0, 2000000}};
	timer_t id;

	handle(SIGRTMIN);
	must(!timer_create(CLOCK_MONOTONIC, &ev, &id), "timer_create");
	timer_settime(id, 0, &every, NULL);
	while (signals < SIGNALS)
		wide(&place);
	timer_delete(id);
}

static void run_sigqueue(void)
{
	pid_t parent = getpid(), child;

	handle(SIGRTMIN + 1);
	child = fork();
	if (!child) {
		for (int i = 0; i < SIGNALS; i++) {
			while (sigqueue(parent, SIGRTMIN + 1, (union sigval){.sival_int = i}))
				usleep(100);
			usleep(200);
		}
		_exit(0);
	}
	while (signals < SIGNALS)
		wide(&place);
	waitpid(child, NULL, 0);
}

/* ---- processes ------------------------------------------------------------------------------ */

static void run_fork(void)
{
	int status;

	for (int i = 0; i < 4; i++) {
		pid_t pid = fork();

		if (!pid) {
			for (volatile int n = 0; n < i * 1000; n++)
				;
			_exit(i);
		}
	}
	for (int i = 0; i < 4; i++) { /* the order of their ends is noted */
		note((uint64_t)wait(&status));
		note((uint64_t)status);
	}
}

static void run_exec(void)
{
	for (int i = 0; i < 2; i++) {
		pid_t pid = vfork();

		if (!pid) {
			execl("/proc/self/exe", "linux-rrwork", "clocks", NULL);
			_exit(127);
		}
		note((uint64_t)waitpid(pid, NULL, 0));
	}
}

/* Processes race for a word of shared memory. */
static void run_shared(void)
{
	_Atomic uint32_t *p =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	must(p != MAP_FAILED, "mmap");
	pid = fork();
	for (int i = 0; i < 2 * ROUNDS; i++) {
		uint32_t old = atomic_exchange(p, pid ? 1 : 2);

		wide(&place);
		if (pid)
			note(old);
	}
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void run_pipes(void)
{
	char buf[256];
	int to[2], fds[2];
	pid_t pid;

	must(!pipe(to) && !socketpair(AF_UNIX, SOCK_STREAM, 0, fds), "pipe");
	pid = fork();
	if (!pid) {
		for (int i = 0; i < ROUNDS / 4; i++)
			if (write(i % 3 ? to[1] : fds[1], buf, (size_t)i % 200 + 1) < 0)
				_exit(1);
		_exit(0);
	}
	close(to[1]);
	close(fds[1]);
	for (int open = 2; open;) {
		struct pollfd p[2] = {{to[0], POLLIN, 0}, {fds[0], POLLIN, 0}};

		poll(p, 2, -1);
		for (int i = 0; i < 2; i++) {
			ssize_t n = p[i].revents ? read(p[i].fd, buf, sizeof(buf)) : 0;

			note((uint64_t)n + (uint64_t)i);
			note(__rdtsc());
			if (!p[i].revents || n > 0)
				continue;
			close(p[i].fd);
			*(i ? &fds[0] : &to[0]) = -1;
			open--;
		}
	}
	waitpid(pid, NULL, 0);
}

/* ---- time ----------------------------------------------------------------------------------- */

static void run_clocks(void)
{
	struct timespec ts;
	uint64_t x;

	for (int i = 0; i < 50; i++) {
		clock_gettime(i % 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME, &ts);
		note((uint64_t)ts.tv_nsec);
		note(__rdtsc());
		must(getrandom(&x, sizeof(x), GRND_NONBLOCK | GRND_INSECURE) == sizeof(x),
		     "getrandom");
		note(x);
	}
}

static void run_epoll(void)
{
	struct itimerspec every = {{0, 1000000}, {0, 1000000}};
	struct epoll_event ev = {.events = EPOLLIN}, got;
	struct signalfd_siginfo info;
	int ep = epoll_create1(0), tfd = timerfd_create(CLOCK_MONOTONIC, 0), sfd;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sfd = signalfd(-1, &set, 0);
	timerfd_settime(tfd, 0, &every, NULL);
	ev.data.fd = tfd;
	epoll_ctl(ep, EPOLL_CTL_ADD, tfd, &ev);
	ev.data.fd = sfd;
	epoll_ctl(ep, EPOLL_CTL_ADD, sfd, &ev);
	for (int i = 0; i < 8;) {
		must(epoll_wait(ep, &got, 1, -1) == 1, "epoll_wait");
		if (got.data.fd == tfd) {
			uint64_t n;

			must(read(tfd, &n, sizeof(n)) == sizeof(n), "read");
			note(n);
			kill(getpid(), SIGUSR1);
			i++;
		} else {
			must(read(sfd, &info, sizeof(info)) == sizeof(info), "read");
			note(info.ssi_signo);
			note(__rdtsc());
		}
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} works[] = {
	{"race", run_race},	    {"mutex", run_mutex},   {"futex", run_futex},
	{"cond", run_cond},	    {"itimer", run_itimer}, {"timer", run_timer},
	{"sigqueue", run_sigqueue}, {"fork", run_fork},	    {"exec", run_exec},
	{"shared", run_shared},	    {"pipes", run_pipes},   {"clocks", run_clocks},
	{"epoll", run_epoll},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(works) / sizeof(*works); i++)
		if (!strcmp(argv[1], works[i].name)) {
			works[i].run();
			printf("%s %016lx\n", argv[1], (unsigned long)digest);
			return 0;
		}
	fprintf(stderr, "usage: linux-rrwork NAME\n");
	return 2;
}
