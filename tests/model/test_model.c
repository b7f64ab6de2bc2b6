// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * I1, I2, I3 and I5 to I8 over many random histories, against the plain model.
 *
 *   test_model [--histories N] [--seed N] [--base N] [--threads N]
 *
 * --seed replays one history. Histories are independent, and mostly wait for RCU grace periods
 * (each makes and destroys a host), so several threads run them at the same time.
 *
 * tests/mutations.txt has defects of the library that it must find.
 */
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/model/history.h"
#include "vpmu/core/rcu.h"

static uint64_t base = 0x76706d75;
static unsigned long nr_histories = 10000;
static unsigned long next_history; /* atomic */
static uint64_t failed_seed;	   /* atomic: the first */
static int any_failed;
static _Thread_local uint64_t running_seed;

static uint64_t seed_of(unsigned long n)
{
	uint64_t state = base + n;

	return random_split(&state) | 1;
}

/* A crash must name its history too. */
static void on_crash(int sig)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "# signal %d in --seed %#lx\n", sig, running_seed);

	if (write(STDERR_FILENO, line, (size_t)n) < 0)
		_exit(3);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void *worker(void *arg)
{
	struct history *h = malloc(sizeof(*h));

	urcu_memb_register_thread();
	while (!__atomic_load_n(&any_failed, __ATOMIC_RELAXED)) {
		unsigned long n = __atomic_fetch_add(&next_history, 1, __ATOMIC_RELAXED);

		if (n >= nr_histories)
			break;
		running_seed = seed_of(n);
		if (history_run(h, running_seed, 0, false)) {
			if (!__atomic_exchange_n(&any_failed, 1, __ATOMIC_RELAXED))
				failed_seed = running_seed;
			break;
		}
	}
	urcu_memb_unregister_thread();
	free(h);
	return NULL;
}

/* Find the fewest steps of the history that fail (each run compares all at its end), show them. */
static int replay(uint64_t seed)
{
	struct history *h = malloc(sizeof(*h));
	int most, n;

	running_seed = seed;
	most = history_run(h, seed, 0, false);
	if (!most) {
		printf("ok 1 - history --seed %#lx\n1..1\n", seed);
		free(h);
		return 0;
	}
	printf("# --seed %#lx failed at step %d: %s\n", seed, most - 1, h->why);
	for (n = 1; n < most; n++) {
		if (history_run(h, seed, n, false))
			break;
	}
	history_run(h, seed, n, true);
	printf("# %s\nnot ok 1 - history --seed %#lx, %d steps\n1..1\n", h->why, seed, n);
	return 1;
}

static void report(void)
{
	const struct h_stats *s = &h_stats;

	printf("# %lu histories, %lu steps; values compared: %lu exact, %lu multiplexed, %lu that "
	       "no counter served\n",
	       s->histories, s->steps, s->exact_values, s->multiplexed_values,
	       s->unsupported_values);
	printf("# %lu switches, %lu of them equal; %lu conservation rows; %lu folds; %lu I5 "
	       "probes; "
	       "%lu flushes for narrow counters; %lu keys that reused a slot; %lu ENOSPC\n",
	       s->switches, s->equal_switches, s->rows, s->folds, s->i5_probes, s->wraps,
	       s->recycled, s->enospc);
	printf("# %lu alarms fired, %lu samples, %lu stops; %lu captures, %lu branch records and "
	       "%lu states of them compared, %lu times all was given back; %lu VMs killed\n",
	       s->fires, s->samples, s->stops, s->captures, s->records, s->reads_lbr, s->freed,
	       s->killed);
	printf("# guests: %lu overflows, %lu PMIs, %lu counters read; %lu vCPUs saved and "
	       "restored\n",
	       s->overflows, s->pmis, s->guest_reads, s->moved);
	printf("ok 1 - I1 conservation per pCPU and key\n"
	       "ok 2 - I2 monotonic, nothing from before add or after disable, exact\n"
	       "ok 3 - I3 a switch reads what prev or next use, equal contexts nothing\n"
	       "ok 4 - I5 no consumer moves by what others execute, nothing of the past\n"
	       "ok 5 - I7 quality and support of every value\n"
	       "ok 6 - alarms and samplers: floor(N / period), each at the right event\n"
	       "ok 7 - I5, I6 branch records: their makers' own, memory on demand\n"
	       "ok 8 - guests' registers, overflows and PMIs, also saved and restored\n"
	       "ok 9 - I8 counts of VMs that were killed are their tenants'\n1..9\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"histories", required_argument, NULL, 'n'},
						{"seed", required_argument, NULL, 's'},
						{"base", required_argument, NULL, 'b'},
						{"threads", required_argument, NULL, 't'},
						{NULL, 0, NULL, 0}};
	unsigned long threads = 32;
	pthread_t *t;
	uint64_t seed = 0;
	int opt;

	while ((opt = getopt_long(argc, argv, "n:s:b:t:", options, NULL)) != -1) {
		switch (opt) {
		case 'n':
			nr_histories = strtoul(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'b':
			base = strtoull(optarg, NULL, 0);
			break;
		case 't':
			threads = strtoul(optarg, NULL, 0);
			break;
		default:
			fprintf(stderr,
				"usage: %s [--histories N] [--seed N] [--base N] "
				"[--threads N]\n",
				argv[0]);
			return 2;
		}
	}
	if (!threads || threads > 1000 || !nr_histories) {
		fprintf(stderr, "test_model: --threads takes 1..1000, --histories at least 1\n");
		return 2;
	}
	signal(SIGSEGV, on_crash);
	signal(SIGABRT, on_crash);
	signal(SIGFPE, on_crash);
	m_keys_init();
	urcu_memb_register_thread();
	if (seed)
		return replay(seed);
	t = calloc(threads, sizeof(*t));
	for (unsigned long i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, worker, NULL);
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	free(t);
	if (any_failed)
		return replay(failed_seed);
	report();
	urcu_memb_unregister_thread();
	return 0;
}
