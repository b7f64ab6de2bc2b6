// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prints what vpmud/discover reports, for trying it by hand:
 *   vpmu-discover [--once|--cost] [URI...]
 * One line for each report, until SIGINT or SIGTERM ends it; with --once after one look at /proc.
 * With --cost it looks once each second, as the daemon does, and prints the cost at the end.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "vpmu/util/clock.h"
#include "vpmud/discover/discover.h"

static const char *or_none(const char *text)
{
	return text ? text : "-";
}

static void print(const char *what, const struct disc_vm *vm)
{
	printf("%s kind=%s name=%s uuid=%s pid=%d start=%" PRIu64 " cgroup=%s cgroup_id=%" PRIu64
	       " tenant=%s socket=%s vcpus=",
	       what, vm->kind, vm->name, or_none(vm->uuid), (int)vm->pid, vm->start_time,
	       or_none(vm->cgroup), vm->cgroup_id, or_none(vm->tenant),
	       or_none(vm->backend_socket));
	for (size_t i = 0; i < vm->nr_vcpus; i++)
		printf("%s%d:%d", i ? "," : "", vm->vcpus[i].index, (int)vm->vcpus[i].tid);
	printf("\n");
	fflush(stdout);
}

static void added(void *arg, const struct disc_vm *vm)
{
	print("added", vm);
}

static void changed(void *arg, const struct disc_vm *vm)
{
	print("changed", vm);
}

static void removed(void *arg, const struct disc_vm *vm)
{
	print("removed", vm);
}

static void note(void *arg, const char *line)
{
	printf("note %s\n", line);
	fflush(stdout);
}

static uint64_t now_us(clockid_t clock)
{
	return clock_ns(clock) / 1000;
}

/* Turn the loop until a signal, and print the CPU time of turns: the daemon's other work waits
 * for them. */
static int cost(sd_event *e)
{
	uint64_t began = now_us(CLOCK_MONOTONIC), cpu = now_us(CLOCK_PROCESS_CPUTIME_ID);
	uint64_t longest = 0, turns = 0;

	while (sd_event_get_state(e) != SD_EVENT_FINISHED) {
		int ret = sd_event_prepare(e);
		uint64_t from, took;

		if (!ret)
			ret = sd_event_wait(e, UINT64_MAX);
		from = now_us(CLOCK_THREAD_CPUTIME_ID);
		if (ret > 0)
			ret = sd_event_dispatch(e);
		if (ret < 0)
			return ret;
		took = now_us(CLOCK_THREAD_CPUTIME_ID) - from;
		turns++;
		if (took > longest)
			longest = took;
	}
	began = now_us(CLOCK_MONOTONIC) - began;
	cpu = now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	printf("%" PRIu64 " turns in %" PRIu64 " us; CPU time of the longest %" PRIu64
	       " us, of all %" PRIu64 " us, %.1f %%\n",
	       turns, began, longest, cpu, 100.0 * (double)cpu / (double)began);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct disc_ops ops = {added, changed, removed, note};
	bool once = argc > 1 && !strcmp(argv[1], "--once");
	bool costs = argc > 1 && !strcmp(argv[1], "--cost");
	int first = 1 + (once || costs);
	struct disc_opts o = {
		.libvirt_uris = (const char *const *)argv + first,
		.nr_uris = (size_t)(argc - first),
		.poll_ms = costs ? 0 : 100,
	};
	struct disc *d;
	sd_event *e;
	sigset_t end;
	int ret;

	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	ret = sd_event_new(&e);
	if (ret >= 0)
		ret = sd_event_add_signal(e, NULL, SIGTERM, NULL, NULL);
	if (ret >= 0)
		ret = sd_event_add_signal(e, NULL, SIGINT, NULL, NULL);
	if (ret >= 0)
		ret = disc_open(e, &o, &ops, NULL, &d);
	if (ret < 0) {
		fprintf(stderr, "vpmu-discover: %s\n", strerror(-ret));
		return 1;
	}
	ret = once ? disc_scan(d) : costs ? cost(e) : sd_event_loop(e);
	disc_close(d);
	sd_event_unref(e);
	return ret < 0;
}
