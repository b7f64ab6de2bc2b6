// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Moves of running tasks between cgroups. The kernel calls a function of its perf_event controller
 * for each running task that is moved, on that task's CPU. A program there charges the task's time
 * so far to its old cgroup (on_move in account.bpf.c). load.c attaches it together with the program
 * of switches. If no hook is available, a tracepoint shows tasks that move themselves (on_attach);
 * moves by others are charged to the old cgroup up to the next switch, and the values of both
 * cgroups are partial. Counting works without any of these.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cgroup/priv.h"

/* ENOTSUPP of include/linux/errno.h, a kernel-internal error that leaks to user space: strerror()
 * has no text for it. */
#define KERNEL_ENOTSUPP 524

/* Returns true if the perf_event controller is in the cgroup2 hierarchy. It is unless it is mounted
 * as version 1, and then it is not called when a task moves in cgroup2. The file has a line per
 * hierarchy: number:controllers:path. */
bool moves_in_cgroup2(const struct bpf_backend *k)
{
	char path[256], line[4352], *at, *end;
	bool found = false, other = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", k->sys->files);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		found |= !strncmp(line, "0::", 3);
		at = strchr(line, ':');
		end = at ? strchr(at + 1, ':') : NULL;
		if (!end)
			continue;
		*end = '\0';
		for (at = strtok(at + 1, ","); at; at = strtok(NULL, ","))
			other |= !strcmp(at, "perf_event");
	}
	if (f)
		fclose(f);
	return found && !other;
}

/* Set whether the program sees every move from now on. */
static void cgroup_migrate_set(struct bpf_backend *k, bool all)
{
	if (!all == !k->cfg->moves)
		return;
	backend_changed(k);
	__atomic_store_n(&k->cfg->moves,
			 !all	       ? 0
			 : k->cfg->gen ? k->cfg->gen
				       : 1,
			 __ATOMIC_RELEASE);
}

void moves_look(struct bpf_backend *k)
{
	if (k->move_link)
		cgroup_migrate_set(k, k->move_by != MOVE_TRACEPOINT && moves_in_cgroup2(k));
}

static struct bpf_link *cgroup_migrate_attach(struct bpf_backend *k)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL); /* no messages: failing is fine */
	struct bpf_link *link = NULL;

	k->move_error = 0;
	if (k->on_move) {
		link = k->sys->attach(k->on_move);
		if (!link)
			k->move_error = errno;
	}
	libbpf_set_print(print);
	return link;
}

void moves_attach(struct bpf_backend *k)
{
	int ret;

	if (k->move_link)
		return;
	if (!pin_is_there(k, PIN_MOVES)) /* else the former process's program has seen all moves */
		cgroup_migrate_set(k, false);
	k->move_link = cgroup_migrate_attach(k);
	if (!k->move_link) {
		cgroup_migrate_set(k, false);
		pin_unlink(k, PIN_MOVES);
		return;
	}
	ret = pin_link(k, k->move_link, PIN_MOVES);
	if (ret) {
		moves_detach(k);
		k->move_error = -ret;
		return;
	}
	moves_look(k);
}

void moves_detach(struct bpf_backend *k)
{
	cgroup_migrate_set(k, false);
	pin_unlink(k, PIN_MOVES);
	bpf_link__destroy(k->move_link);
	k->move_link = NULL;
}

/* The reason why moves can be missed. */
static void why_not_all(const struct bpf_backend *k, char *why, size_t len)
{
	if (!moves_in_cgroup2(k) || (k->move_link && k->move_by < MOVE_TRACEPOINT))
		snprintf(why, len, "perf_event is not in the cgroup2 hierarchy");
	else if (k->move_by >= MOVE_TRACEPOINT && !k->move_error)
		snprintf(why, len,
			 "the kernel takes neither an fentry program nor a kprobe that sees moves");
	else
		snprintf(why, len, "the kernel lets no program see moves: %s",
			 k->move_error == KERNEL_ENOTSUPP ? "not supported"
							  : strerror(k->move_error));
}

bool moves_describe(const struct bpf_backend *k, char *why, size_t len)
{
	static const char *const by[] = {"fentry", "kprobe"};
	char reason[100];

	why_not_all(k, reason, sizeof(reason));
	if (!k->link)
		snprintf(why, len, "no counter is in use");
	else if (k->cfg->moves)
		snprintf(why, len, "charged to the old cgroup up to the move (%s)", by[k->move_by]);
	else
		snprintf(why, len,
			 "charged to the old cgroup up to the next switch%s; both are partial "
			 "then: %s",
			 k->move_link ? " unless they move themselves" : "", reason);
	return k->cfg->moves;
}
