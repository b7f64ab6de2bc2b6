/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The backend of fuzz_vpmud: nothing may be bound to a node that is removed. */
#ifndef TESTS_FUZZ_FUZZ_VPMUD_BACKEND_H
#define TESTS_FUZZ_FUZZ_VPMUD_BACKEND_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake_backend.h"

#define BINDS_MAX 512

static int bind_error;

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_vpmud: %s\n", what);
	abort();
}

/* A binding: of a cgroup (tid 0) or a task. */
static struct bind {
	struct vpmu_backend_node *n;
	uint64_t id;
	pid_t tid;
} binds[BINDS_MAX];

static struct bind *bind_of(uint64_t id, pid_t tid)
{
	for (size_t i = 0; i < BINDS_MAX; i++)
		if (binds[i].n && binds[i].id == id && binds[i].tid == tid)
			return &binds[i];
	return NULL;
}

static int bind(struct vpmu_backend_node *n, uint64_t id, pid_t tid)
{
	struct bind *b = bind_of(id, tid);

	check(n, "bound to no node");
	if (bind_error)
		return bind_error;
	for (size_t i = 0; !b && i < BINDS_MAX; i++)
		if (!binds[i].n)
			b = &binds[i];
	check(b, "more is bound than there is");
	*b = (struct bind){n, id, tid};
	return 0;
}

/* Of a number that is used again the kernel may hear in the other order: its new user took it. */
static void unbind(struct vpmu_backend_node *n, uint64_t id, pid_t tid)
{
	struct bind *b = bind_of(id, tid);

	check(n, "unbound from no node");
	if (b && b->n == n)
		b->n = NULL;
}

static int bind_cgroup(struct vpmu_backend_node *n, uint64_t id)
{
	return bind(n, id, 0);
}

static void unbind_cgroup(struct vpmu_backend_node *n, uint64_t id)
{
	unbind(n, id, 0);
}

static int bind_task(struct vpmu_backend_node *n, pid_t tid, uint64_t start)
{
	return bind(n, 0, tid);
}

static void unbind_task(struct vpmu_backend_node *n, pid_t tid)
{
	unbind(n, 0, tid);
}

static void node_remove(struct vpmu_backend_node *n)
{
	for (size_t i = 0; i < BINDS_MAX; i++)
		check(binds[i].n != n, "a node is removed while something is bound to it");
	fake_node_remove(n);
}

static int sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			struct vpmu_sampling **out)
{
	return fake_of(n)->sampling ? -EBUSY : fake_sample_start(n, o, out);
}

static void note(void *arg, const char *line)
{
	check(*line && !strpbrk(line, "\n\r\x1b"), "a note that is not one clean line");
}

#endif
