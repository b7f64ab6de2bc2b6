// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds the node of a sample: the one that the BPF program charges the task to. sampling.c calls
 * this for each sample, so results from /proc are cached by cgroup until a binding changes. A
 * sample must never be given to a node on a guess.
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cgroup/fs/cgroupfs.h"
#include "cgroup/priv.h"
#include "service/program/memory.h"
#include "vpmu/util/proctext.h"

/* ---- processes that run VMs ----------------------------------------------------------------- */

/* A process with bound (vCPU) tasks. */
struct vmm {
	pid_t pid;
	unsigned int tasks;
};

static int attribute_by_pid(const void *a, const void *b)
{
	const struct vmm *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

struct vmm *whose_vmm(const struct bpf_backend *k, pid_t pid)
{
	const struct vmm key = {.pid = pid};
	struct vmm **v = tfind(&key, &k->whose.vmms, attribute_by_pid);

	return v ? *v : NULL;
}

/* The process of task @tid; 0: the task is gone. */
static pid_t process_of(const struct bpf_backend *k, pid_t tid)
{
	char status[4096], *field;

	proctext_read(status, sizeof(status), "%s/proc/%d/status", k->sys->files, tid);
	field = proctext_field(status, "Tgid:");
	return field ? (pid_t)strtol(field, NULL, 10) : 0;
}

void whose_task(struct bpf_backend *k, struct binding *b)
{
	struct vmm *v;

	if (!k->samplings || b->pid)
		return;
	b->pid = process_of(k, (pid_t)b->id);
	if (!b->pid)
		return;
	v = whose_vmm(k, b->pid);
	if (!v) {
		v = xcalloc(1, sizeof(*v));
		v->pid = b->pid;
		xtsearch(v, &k->whose.vmms, attribute_by_pid);
	}
	v->tasks++;
}

void whose_task_gone(struct bpf_backend *k, struct binding *b)
{
	struct vmm *v = b->pid ? whose_vmm(k, b->pid) : NULL;

	b->pid = 0;
	if (!v || --v->tasks)
		return;
	tdelete(v, &k->whose.vmms, attribute_by_pid);
	free(v);
}

/* ---- cgroups -------------------------------------------------------------------------------- */

void whose_forget(struct bpf_backend *k)
{
	if (k->samplings)
		memset(k->whose.cache, 0, sizeof(k->whose.cache));
}

/* Mount point of cgroup2. */
static const char *root_of(struct bpf_backend *k)
{
	char path[256];

	if (k->whose.looked)
		return k->whose.root;
	k->whose.looked = true;
	snprintf(path, sizeof(path), "%s/proc/self/mounts", k->sys->files);
	k->whose.root = cgroupfs_mount(path);
	return k->whose.root;
}

#define ROOT_CGROUP 1 /* id of the root */

/*
 * Which ids of cgroups in samples are those of the tasks' cgroups? The kernel takes them from the
 * controller perf_event. That is off in all cgroups but the root until some other controller is put
 * in cgroup.subtree_control of the root, and every sample has the root's id (seen on Linux 6.1;
 * systemd puts some there at boot). With a hierarchy of cgroup v1 for perf_event the ids are of
 * that one.
 */
static void whose_ids(struct bpf_backend *k)
{
	const char *root = root_of(k);
	char text[4096];

	if (!moves_in_cgroup2(k))
		k->whose.ids = WHOSE_NO_IDS;
	else if (root &&
		 proctext_read(text, sizeof(text), "%s/cgroup.subtree_control", root) >= 0 &&
		 (!*text || *text == '\n'))
		k->whose.ids = WHOSE_IDS_BUT_ROOT;
	else
		k->whose.ids = WHOSE_IDS;
}

/* The cgroup2 directory of task @tid. Returns false if the task is gone or cgroup2 is not mounted.
 */
static bool directory_of(struct bpf_backend *k, uint32_t tid, char dir[8192])
{
	const char *root = root_of(k), *path;
	char text[8192];

	proctext_read(text, sizeof(text), "%s/proc/%u/cgroup", k->sys->files, tid);
	path = proctext_field(text, "0::");
	if (!root || !path || *path != '/')
		return false;
	return snprintf(dir, 8192, "%s%s", root, path) < 8192;
}

/* The node of cgroup @dir or of its nearest ancestor that has one, else `other`; NULL: the
 * directory is gone. *id: cgroup id of @dir itself. Modifies @dir. */
static struct knode *attribute_node_of(struct bpf_backend *k, char *dir, uint64_t *id)
{
	size_t root = strlen(k->whose.root);
	struct knode *n = NULL;
	struct stat st;

	*id = 0;
	for (;;) {
		char *last;

		if (stat(dir, &st))
			return NULL;
		if (!*id)
			*id = st.st_ino;
		n = bind_cgroup_node(k, st.st_ino);
		last = strrchr(dir, '/');
		if (n || strlen(dir) <= root || !last)
			break;
		*last = '\0';
	}
	return n ? n : &k->other;
}

static struct knode *cgroup_node(struct bpf_backend *k, uint64_t cgroup, uint32_t tid)
{
	size_t at = cgroup * 0x9e3779b97f4a7c15ULL >> 54;
	struct knode *n;
	char dir[8192];
	uint64_t id;

	_Static_assert(WHOSE_CACHE == 1 << (64 - 54), "the hash has as many values");
	if (cgroup && k->whose.cache[at].cgroup == cgroup)
		return k->whose.cache[at].node;
	if (!directory_of(k, tid, dir))
		return NULL;
	n = attribute_node_of(k, dir, &id);
	/* The task may have moved since the sample: cache only the sample's own cgroup. */
	if (n && cgroup && id == cgroup) {
		k->whose.cache[at].cgroup = cgroup;
		k->whose.cache[at].node = n;
	}
	return n;
}

void whose_begin(struct bpf_backend *k)
{
	whose_ids(k);
	for (uint32_t i = 0; i < k->nr_accounts; i++)
		for (struct binding *b = k->nodes[i] ? k->nodes[i]->bound : NULL; b; b = b->next)
			if (b->task)
				whose_task(k, b);
}

struct knode *whose_node(struct bpf_backend *k, const struct ring_sample *s)
{
	struct knode *n;

	if (!s->tid)
		return &k->other; /* the idle task */
	n = bind_task_node(k, s->tid);
	if (n)
		return n;
	if (k->whose.ids == WHOSE_NO_IDS ||
	    (k->whose.ids == WHOSE_IDS_BUT_ROOT && s->cgroup == ROOT_CGROUP))
		return cgroup_node(k, 0, s->tid);
	return cgroup_node(k, s->cgroup, s->tid);
}

void whose_exit(struct bpf_backend *k)
{
	tdestroy(k->whose.vmms, free);
	free(k->whose.root);
}
