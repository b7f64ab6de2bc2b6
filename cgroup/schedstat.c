// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scheduler's own figures of bound threads (vCPUs): time waited for a CPU, and involuntary
 * context switches. backend.c, bind.c and node.c call this. The kernel keeps them anyway, so the
 * program at a switch has no part in them: they are read from /proc, or those of many threads by
 * schedtask.c, and differences are added to the account of the thread's node (kp_account.sched).
 *
 * A reading is a difference: what a thread did before it was bound is not counted. What it did
 * between its last reading and its end cannot be read any more: the account is marked
 * (kp_account.sched_lost), and nothing is made up.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/bpf/sched.h"
#include "cgroup/priv.h"
#include "vpmu/util/files.h"
#include "vpmu/util/proctext.h"

_Static_assert(KP_SCHED_RAN == VPMU_SCHED_PREEMPTED && KP_SCHED == VPMU_SCHED_NR + 2,
	       "a figure has no place in the accounts");

/* Between two readings of all threads without a request, which bounds what is lost at an end. */
#define SCHED_EVERY_NS 10000000000ULL

/* From so many threads on, the iterator of all tasks is cheaper than their files, unless the host
 * has so many tasks for each of them. */
#define SCHED_MANY  64
#define SCHED_TASKS 8

#define STATUS_MAX 8192 /* bytes: lists of CPUs and memory nodes can be long */

/* Of a walk over the bound threads. */
struct sched_walk {
	struct bpf_backend *k;
	bool all; /* not only those of marked nodes */
	unsigned int nr;
};

/* Open a file of thread @tid. It stays that thread's, even if another one gets its number. */
static int sched_file(const struct bpf_backend *k, pid_t tid, const char *name)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/proc/%d/task/%d/%s", k->sys->files, tid, tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == EMFILE) {
		files_more();
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return fd < 0 ? -errno : fd;
}

/* Read a file of a thread into @buf as text. Fails if the thread has ended. */
static int sched_text(int fd, char *buf, size_t len)
{
	ssize_t n = pread(fd, buf, len - 1, 0);

	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

static int sched_switches(int fd, uint64_t *switches)
{
	static const char field[] = "\nnonvoluntary_ctxt_switches:";
	char text[STATUS_MAX], *end;
	int ret = sched_text(fd, text, sizeof(text));
	const char *at = ret ? NULL : strstr(text, field);

	if (ret)
		return ret;
	if (!at)
		return -EOPNOTSUPP;
	errno = 0;
	*switches = strtoull(at + sizeof(field) - 1, &end, 10);
	return errno || *end != '\n' ? -EINVAL : 0;
}

/*
 * Read the figures of the thread into @now; @now->schedstat and @now->status are its files. status
 * costs ten times as much as schedstat, so it is not read of a thread that has neither run nor
 * waited since the reading @last.
 */
static int sched_figures(struct sched_thread *now, const struct sched_thread *last)
{
	unsigned long long ran, waited, runs;
	char text[128];
	int ret = sched_text(now->schedstat, text, sizeof(text));

	if (ret)
		return ret;
	if (sscanf(text, "%llu %llu %llu", &ran, &waited, &runs) != 3)
		return -EINVAL;
	now->figure[KP_SCHED_RAN] = ran;
	now->runs = runs;
	now->figure[VPMU_SCHED_RUN_DELAY] = waited;
	if (now->status < 0)
		return 0;
	if (last && last->status >= 0 && ran == last->figure[KP_SCHED_RAN] && runs == last->runs &&
	    waited == last->figure[VPMU_SCHED_RUN_DELAY])
		return 0;
	return sched_switches(now->status, &now->figure[VPMU_SCHED_INVOLUNTARY]);
}

void sched_close(struct binding *b)
{
	if (!b->sched.open)
		return;
	close(b->sched.schedstat);
	if (b->sched.status >= 0)
		close(b->sched.status);
	b->sched = (struct sched_thread){0};
}

static void sched_mark(const struct binding *b)
{
	struct kp_account *a = account_at(backend_of(b->node->n.source), b->node->account);

	if (a)
		a->sched_lost++;
}

/* Charge what @b has done since its last reading, up to @now. */
static void sched_add(struct kp_account *a, struct binding *b, const struct sched_thread *now)
{
	for (unsigned int i = 0; i <= KP_SCHED_RAN; i++)
		/* Of the first reading of status there is no difference. */
		if (i != VPMU_SCHED_INVOLUNTARY || b->sched.status >= 0)
			a->sched[i] += now->figure[i] - b->sched.figure[i];
	b->sched = *now;
}

void sched_read(struct bpf_backend *k, struct binding *b)
{
	struct kp_account *a = account_at(k, b->node->account);
	struct sched_thread now = b->sched;
	int ret = 0;

	if (!b->sched.open || !a)
		return;
	if (now.status < 0 && k->sched.users[VPMU_SCHED_INVOLUNTARY])
		now.status = ret = sched_file(k, (pid_t)b->id, "status");
	if (ret >= 0)
		ret = sched_figures(&now, &b->sched);
	if (ret) {
		if (now.status >= 0)
			b->sched.status = now.status;
		sched_mark(b);
		sched_close(b);
		return;
	}
	sched_add(a, b, &now);
}

static bool sched_used(const struct bpf_backend *k)
{
	return k->sched.users[VPMU_SCHED_RUN_DELAY] || k->sched.users[VPMU_SCHED_INVOLUNTARY];
}

void sched_begin(struct bpf_backend *k, struct binding *b)
{
	struct sched_thread first = {.open = true, .status = -1};
	int ret = 0;

	if (!b->task || b->sched.open || !sched_used(k))
		return;
	first.schedstat = sched_file(k, (pid_t)b->id, "schedstat");
	if (k->sched.users[VPMU_SCHED_INVOLUNTARY])
		ret = first.status = sched_file(k, (pid_t)b->id, "status");
	if (first.schedstat < 0 || ret < 0 || !bind_is_thread(k, b) ||
	    sched_figures(&first, NULL)) {
		if (first.schedstat >= 0)
			close(first.schedstat);
		if (first.status >= 0)
			close(first.status);
		sched_mark(b);
		return;
	}
	b->sched = first;
}

void sched_end(struct bpf_backend *k, struct binding *b)
{
	sched_read(k, b);
	sched_close(b);
}

/* ---- all threads ---------------------------------------------------------------------------- */

static bool sched_wanted(const struct sched_walk *w, const struct binding *b)
{
	const struct knode *n;

	for (n = b->node; n && n->mark != w->k->mark && !w->all; n = n->parent)
		;
	return n != NULL;
}

static void sched_walk_read(struct binding *b, void *arg)
{
	const struct sched_walk *w = arg;

	if (sched_wanted(w, b))
		sched_read(w->k, b);
}

static void sched_walk_count(struct binding *b, void *arg)
{
	struct sched_walk *w = arg;

	w->nr += b->sched.open && sched_wanted(w, b);
}

/* A thread that the iterator has not found has ended, or was not in the map yet. */
static void sched_walk_rest(struct binding *b, void *arg)
{
	const struct sched_walk *w = arg;

	if (b->sched.pass != w->k->sched.pass)
		sched_read(w->k, b);
}

static void sched_walk_begin(struct binding *b, void *arg)
{
	const struct sched_walk *w = arg;

	/* What the former process had not read yet is lost. */
	if (w->k->taken_over)
		sched_mark(b);
	sched_begin(w->k, b);
}

static void sched_walk_close(struct binding *b, void *arg)
{
	sched_close(b);
}

/* Returns the number that sched_walk_count() counts. */
static unsigned int sched_walk(struct bpf_backend *k, bool all,
			       void (*fn)(struct binding *b, void *arg))
{
	struct sched_walk w = {.k = k, .all = all};

	bind_each_task(k, fn, &w);
	if (all)
		k->sched.read_ns = clock_ns(CLOCK_MONOTONIC);
	return w.nr;
}

static void sched_record(struct bpf_backend *k, const struct sched_record *r)
{
	struct binding *b = bind_task(k, r->tid);
	struct kp_account *a = b && b->sched.open ? account_at(k, b->node->account) : NULL;
	struct sched_thread now;

	/* The first number of status is yet to be read: sched_use(). */
	if (!a || b->start != r->start ||
	    (b->sched.status < 0 && k->sched.users[VPMU_SCHED_INVOLUNTARY]))
		return;
	now = b->sched;
	now.pass = k->sched.pass;
	now.figure[KP_SCHED_RAN] = r->ran_ns;
	now.figure[VPMU_SCHED_RUN_DELAY] = r->run_delay_ns;
	now.figure[VPMU_SCHED_INVOLUNTARY] = r->involuntary;
	sched_add(a, b, &now);
}

/* Return the number of the host's tasks; 0: unknown. */
static unsigned int sched_tasks(const struct bpf_backend *k)
{
	unsigned int nr;
	char text[128];

	proctext_read(text, sizeof(text), "%s/proc/loadavg", k->sys->files);
	return sscanf(text, "%*s %*s %*s %*u/%u", &nr) == 1 ? nr : 0;
}

/* Read all threads of marked nodes; all threads if @all. */
static void sched_read_many(struct bpf_backend *k, bool all)
{
	unsigned int nr = sched_walk(k, all, sched_walk_count);

	if (nr < SCHED_MANY || !k->sched.tasks || sched_tasks(k) / SCHED_TASKS > nr) {
		sched_walk(k, all, sched_walk_read);
		return;
	}
	k->sched.pass++;
	schedtask_read(k, sched_record);
	sched_walk(k, true, sched_walk_rest);
}

void sched_flush(struct bpf_backend *k)
{
	if (k->sched.users[VPMU_SCHED_IDLE])
		idle_take(k);
	if (sched_used(k))
		sched_read_many(k, false);
}

void sched_tend(struct bpf_backend *k, uint64_t now_ns)
{
	if (sched_used(k) && now_ns - k->sched.read_ns >= SCHED_EVERY_NS)
		sched_read_many(k, true);
}

void sched_use(struct bpf_backend *k, unsigned int i)
{
	bool first = !sched_used(k);

	if (!k->sched.users[i])
		k->sched.error[i] = sched_probe(k, i);
	if (i == VPMU_SCHED_IDLE) {
		k->sched.users[i]++;
		idle_take(k);
		return;
	}
	/* From now on status is read: take the first number at once. */
	if (!k->sched.users[i]++)
		sched_walk(k, true, first ? sched_walk_begin : sched_walk_read);
	if (first)
		schedtask_open(k);
}

void sched_unuse(struct bpf_backend *k, unsigned int i)
{
	k->sched.users[i]--;
	if (i != VPMU_SCHED_IDLE && !sched_used(k)) {
		sched_walk(k, true, sched_walk_close);
		schedtask_close(k);
	}
}

static int sched_probe_thread(const struct bpf_backend *k, unsigned int i)
{
	struct sched_thread own = {.schedstat = sched_file(k, getpid(), "schedstat"),
				   .status = sched_file(k, getpid(), "status")};
	int ret = own.schedstat < 0 ? own.schedstat : own.status < 0 ? own.status : 0;

	if (!ret)
		ret = sched_figures(&own, NULL);
	if (own.schedstat >= 0)
		close(own.schedstat);
	if (own.status >= 0)
		close(own.status);
	/* This process has run: a kernel that keeps the figures shows that. */
	return ret ? ret : own.figure[KP_SCHED_RAN] || i != VPMU_SCHED_RUN_DELAY ? 0 : -EOPNOTSUPP;
}

int sched_probe(const struct bpf_backend *k, unsigned int i)
{
	uint64_t idle_ns;

	return i == VPMU_SCHED_IDLE ? idle_read(k, &idle_ns) : sched_probe_thread(k, i);
}
