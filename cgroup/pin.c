// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pins: the maps and links of the program in a directory of a BPF file system, so that counting
 * goes on without the daemon and the next one takes it over. load.c calls this while it opens.
 * Foreign pins, or pins of another schema, are left alone and refused with one line.
 *
 * A former process's nodes become orphans: nodes without a handle.
 * bpf_backend_name gives an orphan's account to a new node; bpf_backend_named removes the remaining
 * orphans.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>

#include "cgroup/slot.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#include <account.skel.h> /* it needs maps.h */

#define PINS 10

static void path_of(const struct bpf_backend *k, const char *name, char path[PIN_PATH])
{
	snprintf(path, PIN_PATH, "%s/%s", k->opts.pin_dir, name);
}

/* cfg is last: it marks the others as complete. */
static void all_maps(const struct bpf_backend *k, struct bpf_map *map[PINS], const char *name[PINS])
{
	const struct {
		struct bpf_map *map;
		const char *name;
	} all[PINS] = {
		{k->skel->maps.cpus, "cpus"},	     {k->skel->maps.events, "events"},
		{k->skel->maps.cgroups, "cgroups"},  {k->skel->maps.tasks, "tasks"},
		{k->skel->maps.data_bits, "bits"},   {k->skel->maps.accounts, "accounts"},
		{k->skel->maps.cell_index, "index"}, {k->skel->maps.cells, "cells"},
		{k->skel->maps.totals, "totals"},    {k->skel->maps.data, "cfg"},
	};

	for (unsigned int i = 0; i < PINS; i++) {
		map[i] = all[i].map;
		name[i] = all[i].name;
	}
}

static void remove_all(const struct bpf_backend *k)
{
	struct bpf_map *map[PINS];
	const char *name[PINS];
	char path[PIN_PATH];

	all_maps(k, map, name);
	for (unsigned int i = 0; i < PINS; i++) {
		path_of(k, name[i], path);
		unlink(path);
	}
	pin_unlink(k, PIN_LINK);
	pin_unlink(k, PIN_MOVES);
	pin_unlink(k, PIN_EXITS);
}

/* Check the pin of cfg. Returns 1 if it can be taken over, 0 if there is none or only the leftovers
 * of a process that ended while it made its maps. */
static int look_at_cfg(struct bpf_backend *k, char *why, size_t whylen)
{
	struct bpf_map_info info = {0};
	uint32_t len = sizeof(info), zero = 0;
	struct kp_cfg *cfg;
	char path[PIN_PATH];
	int fd, ret = 0;

	path_of(k, "cfg", path);
	fd = bpf_obj_get(path);
	if (fd < 0)
		return errno == ENOENT
			       ? 0
			       : fail(-EBUSY, why, whylen, "%s: not a map of vpmu: %s; %s", path,
				      strerror(errno), "remove the directory, or name another one");
	cfg = xcalloc(1, sizeof(*cfg) + 4096);
	if (bpf_obj_get_info_by_fd(fd, &info, &len) || info.type != BPF_MAP_TYPE_ARRAY ||
	    info.value_size < sizeof(uint32_t) * 2 || info.value_size > sizeof(*cfg) + 4096 ||
	    bpf_map_lookup_elem(fd, &zero, cfg)) {
		ret = fail(-EBUSY, why, whylen,
			   "%s: not a map of vpmu; remove the directory, or name another one",
			   path);
	} else if (cfg->schema != KP_SCHEMA || info.value_size != sizeof(*cfg)) {
		ret = fail(-EBUSY, why, whylen,
			   "%s: the pins have schema %u, this version has %u: the version of vpmud "
			   "that made them can go on with their counts; to give these up, rm -r %s",
			   path, cfg->schema, KP_SCHEMA, k->opts.pin_dir);
	} else {
		ret = cfg->ready;
	}
	free(cfg);
	close(fd);
	return ret;
}

int pin_prepare(struct bpf_backend *k, char *why, size_t whylen)
{
	struct bpf_map *map[PINS];
	const char *name[PINS], *dir = k->opts.pin_dir;
	char path[PIN_PATH];
	struct statfs fs;
	int ret;

	if (strlen(dir) > PIN_PATH - 16)
		return fail(-EINVAL, why, whylen, "pin directory: expected up to %d bytes",
			    PIN_PATH - 16);
	if (mkdir(dir, 0700) && errno != EEXIST)
		return fail(-errno, why, whylen, "%s: %s", dir, strerror(errno));
	if (statfs(dir, &fs))
		return fail(-errno, why, whylen, "%s: %s", dir, strerror(errno));
	if ((unsigned long)fs.f_type != BPF_FS_MAGIC) {
		rmdir(dir); /* only if it is empty: this call may have made it */
		return fail(-EOPNOTSUPP, why, whylen,
			    "%s is not in a BPF file system: mount -t bpf bpf /sys/fs/bpf", dir);
	}
	if (k->pin_lock < 0) /* else this is a retry with other means for moves */
		k->pin_lock = pin_dir_open(dir, why, whylen);
	if (k->pin_lock < 0)
		return k->pin_lock;
	for (unsigned int times = 0; flock(k->pin_lock, LOCK_EX | LOCK_NB); times++)
		if (!k->opts.busy || !k->opts.busy(times))
			return fail(-EBUSY, why, whylen, "%s: another process uses these pins",
				    dir);
	ret = look_at_cfg(k, why, whylen);
	if (ret < 0)
		return ret;
	k->taken_over = ret;
	if (!k->taken_over)
		remove_all(k);
	all_maps(k, map, name);
	for (unsigned int i = 0; i < PINS; i++) {
		path_of(k, name[i], path);
		ret = bpf_map__set_pin_path(map[i], path);
		if (ret)
			return fail(ret, why, whylen, "%s: %s", path, strerror(-ret));
	}
	return 0;
}

bool pin_is_there(const struct bpf_backend *k, const char *name)
{
	char path[PIN_PATH];
	int fd;

	if (!k->opts.pin_dir)
		return false;
	path_of(k, name, path);
	fd = bpf_obj_get(path);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int pin_link(struct bpf_backend *k, struct bpf_link *link, const char *name)
{
	char path[PIN_PATH];

	if (!k->opts.pin_dir)
		return 0;
	path_of(k, name, path);
	unlink(path); /* the former process's: its program ends here, after the new one has begun */
	return bpf_link__pin(link, path);
}

void pin_unlink(const struct bpf_backend *k, const char *name)
{
	char path[PIN_PATH];

	if (!k->opts.pin_dir)
		return;
	path_of(k, name, path);
	unlink(path);
}

/* Orphans belong to the tree of nodes. */
static void pin_forget_orphan(void *orphan)
{
}

void pin_close(struct bpf_backend *k)
{
	tdestroy(k->orphans, pin_forget_orphan);
	if (k->pin_lock >= 0)
		close(k->pin_lock);
}

/* ---- takeover ------------------------------------------------------------------------------- */

static int pin_by_name(const void *a, const void *b)
{
	const struct knode *x = a, *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->parent < y->parent ? -1 : x->parent > y->parent;
}

static int take_nodes(struct bpf_backend *k)
{
	struct kp_account *a;
	struct knode *n, *parent;
	int ret = 0;

	for (uint32_t i = KP_OTHER + 1; !ret && i < k->cfg->nr_accounts; i++)
		ret = node_orphan(k, i);
	for (uint32_t i = KP_OTHER + 1; !ret && i < k->nr_accounts; i++) {
		n = k->nodes[i];
		if (!n)
			continue;
		a = account_at(k, i);
		parent = a->parent < k->nr_accounts ? k->nodes[a->parent] : NULL;
		/* A cycle can only be written by others; it must not cause an endless loop. */
		for (struct knode *up = parent; up && parent; up = up->parent)
			if (up == n)
				parent = NULL;
		knode_link(n, parent ? parent : &k->root);
		if (n->name)
			xtsearch(n, &k->orphans, pin_by_name);
	}
	return ret;
}

static void take_bindings(struct bpf_backend *k)
{
	int cgroups = bpf_map__fd(k->skel->maps.cgroups), tasks = bpf_map__fd(k->skel->maps.tasks);
	uint64_t id, *last_id = NULL;
	uint32_t tid, account, *last_tid = NULL;
	struct kp_task t;

	memset(k->task_bits, 0, KP_TASK_BITS / 8);
	k->cfg->tasks = 0;
	for (; !bpf_map_get_next_key(cgroups, last_id, &id); last_id = &id)
		if (!bpf_map_lookup_elem(cgroups, &id, &account))
			bind_found(k, account, false, id, 0);
	for (; !bpf_map_get_next_key(tasks, last_tid, &tid); last_tid = &tid)
		if (!bpf_map_lookup_elem(tasks, &tid, &t))
			bind_found(k, t.account, true, tid, t.start);
	bind_found_all(k); /* not before: a map that changes cannot be walked */
}

int pin_take(struct bpf_backend *k)
{
	int ret;

	if (!k->taken_over)
		return 0;
	k->root.taken = k->other.taken = true;
	ret = take_nodes(k);
	if (!ret) {
		take_bindings(k);
		slot_take(k);
		hotplug_take(k);
		totals_take(k);
	}
	backend_changed(k); /* cfg.timed has changed */
	return ret;
}

int bpf_backend_name(struct vpmu_backend_node *node, uint64_t name)
{
	struct bpf_backend *k = backend_of(node->source);
	struct knode *n = knode_of(node), key = {.name = name, .parent = n->parent}, **found,
		     *orphan;
	uint32_t account;

	if (!name || !n->parent || n->child || n->bound || n->own || n->name)
		return -EINVAL;
	found = tfind(&key, &k->orphans, pin_by_name);
	if (!found) {
		node_set_name(k, n, name);
		return 0;
	}
	orphan = *found;
	tdelete(orphan, &k->orphans, pin_by_name);
	account = n->account;
	n->account = orphan->account;
	orphan->account = account;
	k->nodes[n->account] = n;
	k->nodes[account] = orphan;
	n->mask |= orphan->mask;
	n->name = name;
	n->taken = true;
	n->blank = false;
	/* Orphans below are found by their new parent. */
	for (struct knode *c = orphan->child, *next; c; c = next) {
		next = c->next;
		if (c->name)
			tdelete(c, &k->orphans, pin_by_name);
		knode_unlink(c);
		knode_link(c, n);
		if (c->name)
			xtsearch(c, &k->orphans, pin_by_name);
	}
	bind_move(k, orphan, n);
	orphan->removed = true;
	orphan->name = 0;
	k->nr_removed++;
	return 1;
}

bool bpf_backend_taken(const struct vpmu_backend_node *n)
{
	return ((const struct knode *)n)->taken;
}

static void pin_remove_orphans(struct bpf_backend *k, struct knode *n)
{
	for (struct knode *c = n->child, *next; c; c = next) {
		next = c->next;
		pin_remove_orphans(k, c);
		if (!c->orphan || c->removed)
			continue;
		bind_move(k, c, n);
		c->removed = true;
		k->nr_removed++;
	}
}

void bpf_backend_named(struct bpf_backend *k)
{
	if (!k->taken_over)
		return;
	k->taken_over = false;
	tdestroy(k->orphans, pin_forget_orphan);
	k->orphans = NULL;
	pin_remove_orphans(k, &k->root);
	node_masks(k);
	backend_changed(k);
	slot_drop(k);
	budget_change(k);
	node_fold(k);
}

uint64_t bpf_backend_epoch(const struct bpf_backend *k)
{
	return k->cfg->epoch;
}
