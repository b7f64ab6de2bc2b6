/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The bindings of vpmud's tree, beside fake_backend.h: who includes this has bind_check() and
 * unbind_check(), which judge a call, and BINDS_MAX. */
#ifndef TESTS_UNIT_FAKE_BINDS_H
#define TESTS_UNIT_FAKE_BINDS_H

#include <stdlib.h>

#include "tests/unit/fake_backend.h"

/* A binding: of a cgroup (tid 0) or a task. */
static struct bind {
	struct vpmu_backend_node *n;
	uint64_t id;
	pid_t tid;
} binds[BINDS_MAX];
static int bind_error;

/* @start: of task @tid; both 0: of a cgroup. */
static void bind_check(struct vpmu_backend_node *n, pid_t tid, uint64_t start);
/* @b: NULL if it is not bound. */
static void unbind_check(struct vpmu_backend_node *n, const struct bind *b);

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

	if (bind_error)
		return bind_error;
	for (size_t i = 0; !b && i < BINDS_MAX; i++)
		if (!binds[i].n)
			b = &binds[i];
	if (!b)
		abort(); /* more is bound than there is */
	*b = (struct bind){n, id, tid};
	return 0;
}

static void unbind(struct vpmu_backend_node *n, uint64_t id, pid_t tid)
{
	struct bind *b = bind_of(id, tid);

	unbind_check(n, b);
	if (b && b->n == n)
		b->n = NULL;
}

static int bind_cgroup(struct vpmu_backend_node *n, uint64_t id)
{
	bind_check(n, 0, 0);
	return bind(n, id, 0);
}

static void unbind_cgroup(struct vpmu_backend_node *n, uint64_t id)
{
	unbind(n, id, 0);
}

static int bind_task(struct vpmu_backend_node *n, pid_t tid, uint64_t start)
{
	bind_check(n, tid, start);
	return bind(n, 0, tid);
}

static void unbind_task(struct vpmu_backend_node *n, pid_t tid)
{
	unbind(n, 0, tid);
}

static bool is_bound_to(const struct vpmu_backend_node *n)
{
	for (size_t i = 0; i < BINDS_MAX; i++)
		if (binds[i].n == n)
			return true;
	return false;
}

#endif
