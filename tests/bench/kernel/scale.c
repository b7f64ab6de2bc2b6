// SPDX-License-Identifier: GPL-2.0-or-later
/* The cost of opening, attaching and reading many tenants, and of a switch beside a reading.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/kernel/kbench.h"

#define SWITCHES 40000 /* of a play beside a reader */

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 65536; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

void bench_scale(unsigned int tenants)
{
	static struct backend p;
	struct bpf_backend_usage u;
	struct rusage r;
	double t0, t1;
	unsigned int files = open_files();

	ground_need(tenants);
	t0 = 1e9 * clock_s(CLOCK_MONOTONIC);
	backend_open(&p, tenants, EVENTS8);
	t1 = 1e9 * clock_s(CLOCK_MONOTONIC);
	printf("%u tenants, 8 keys: opened and attached in %.0f ms", tenants, (t1 - t0) / 1e6);
	for (int i = 0; i < 3; i++) {
		t0 = 1e9 * clock_s(CLOCK_MONOTONIC);
		backend_read(&p);
		t1 = 1e9 * clock_s(CLOCK_MONOTONIC);
		printf("%s %.1f ms", i ? "," : "; all read in", (t1 - t0) / 1e6);
	}
	bpf_backend_usage(p.k, &u);
	getrusage(RUSAGE_SELF, &r);
	printf("; %u files, %u of them events; maps %.1f MB; at most %.1f MB resident\n",
	       open_files() - files, u.events, (double)u.map_bytes / 1e6,
	       (double)r.ru_maxrss / 1e3);
	t0 = 1e9 * clock_s(CLOCK_MONOTONIC);
	backend_close(&p);
	printf("detached and closed in %.0f ms\n", (1e9 * clock_s(CLOCK_MONOTONIC) - t0) / 1e6);
}

double beside(void (*read_all)(void *arg), void *arg, int cpu)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	double ns = 0;
	pid_t player;
	int go[2];

	if (pipe(go))
		skip("pipe: %s", strerror(errno));
	player = fork();
	if (player < 0)
		skip("fork: %s", strerror(errno));
	if (!player) {
		ns = play(WORK_PIPE, 0, 1, cpu, SWITCHES);
		_exit(write(go[1], &ns, sizeof(ns)) != sizeof(ns));
	}
	while (!waitpid(player, NULL, WNOHANG)) {
		if (read_all)
			read_all(arg);
		nanosleep(&pause, NULL);
	}
	if (read(go[0], &ns, sizeof(ns)) != sizeof(ns))
		skip("the workload failed");
	close(go[0]);
	close(go[1]);
	return ns;
}

static void read_backend(void *arg)
{
	backend_read(arg);
}

/* The cost of reading @vms VMs with 8 keys, and of a switch while one reader reads ten times
 * a second on another CPU: one backend, in turns. */
void bench_read(unsigned int rounds, unsigned int vms, int cpu)
{
	static struct backend p;
	double calm = 0, busy = 0, cost = 0, sum[2] = {0, 0};

	ground_need(vms);
	backend_open(&p, vms, EVENTS8);
	for (unsigned int r = 0; r < rounds; r++) {
		double t0 = 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID), took, ns;

		backend_read(&p);
		took = 1e9 * clock_s(CLOCK_PROCESS_CPUTIME_ID) - t0;
		cost = took > cost ? took : cost;
		/* Either one first in turn. */
		for (unsigned int i = 0; i < 2; i++) {
			bool reads = (r + i) % 2;

			ns = beside(reads ? read_backend : NULL, &p, cpu);
			sum[reads] += ns;
			if (reads)
				busy = !busy || ns < busy ? ns : busy;
			else
				calm = !calm || ns < calm ? ns : calm;
		}
	}
	backend_close(&p);
	printf("reading %u VMs, 8 keys: %.1f ms CPU at most   goal 20\n", vms, cost / 1e6);
	printf("a switch: %.0f ns; while they are read ten times a second: %.0f ns; ratio %.3f, of "
	       "the sums of all rounds %.3f   goal 1.02\n",
	       calm, busy, busy / calm, sum[1] / sum[0]);
}
