// SPDX-License-Identifier: GPL-2.0-or-later
/* Owners of pCPUs that do not come to a safe point in time: what counts as time (vpmu/core/sync.c).
 */
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core_bed.h"

#define DEADLINE_MS 2000

static int go[2], asks[2];

static void sleep_ms(long ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* An owner that comes to its safe point at a command. */
static void *owner(void *p)
{
	char c;

	if (read(go[0], &c, 1) == 1)
		vpmu_pcpu_poll(p);
	return NULL;
}

/* A control call in a process of its own, with one owner that waits for go. Its exit status. */
static _Noreturn void ask(void)
{
	struct bed b;
	pthread_t thread;
	int ret;

	bed_init(&b, NULL);
	vpmu_host_set_deadline(b.host, DEADLINE_MS * 1000000ULL);
	vpmu_pcpu_online(b.p[0]);
	if (pthread_create(&thread, NULL, owner, b.p[0]) || write(asks[1], "a", 1) != 1)
		_exit(2);
	ret = vpmu_host_sync(b.host);
	_exit(ret == 0 ? 0 : ret == -ETIMEDOUT ? 1 : 2);
}

/* 0: the owner came in time; 1: it was stalled. */
static int ask_and(void (*meanwhile)(pid_t pid))
{
	int status;
	pid_t pid;
	char c;

	cr_assert_eq(pipe(go) | pipe(asks), 0);
	pid = fork();
	if (!pid)
		ask();
	cr_assert_gt(pid, 0);
	cr_assert_eq(read(asks[0], &c, 1), 1);
	meanwhile(pid);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	for (int i = 0; i < 2; i++) {
		close(go[i]);
		close(asks[i]);
	}
	cr_assert(WIFEXITED(status), "status %#x", status);
	return WEXITSTATUS(status);
}

static void wait_long(pid_t pid)
{
}

static void stop_long(pid_t pid)
{
	int status;

	sleep_ms(100); /* it waits by now, or the test shows less */
	cr_assert_eq(kill(pid, SIGSTOP), 0);
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	sleep_ms(DEADLINE_MS + 500);
	cr_assert_eq(kill(pid, SIGCONT), 0);
	sleep_ms(20);
	cr_assert_eq(write(go[1], "g", 1), 1);
}

Test(stalled, an_owner_that_never_comes)
{
	cr_expect_eq(ask_and(wait_long), 1);
}

/* While the process is stopped the clock goes on, and no owner can come. */
Test(stalled, a_process_that_was_stopped_is_not_stalled)
{
	cr_expect_eq(ask_and(stop_long), 0);
}
