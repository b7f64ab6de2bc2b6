/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The backend of fuzz_vpmud: nothing may be bound to a node that is removed. */
#ifndef TESTS_FUZZ_FUZZ_VPMUD_BACKEND_H
#define TESTS_FUZZ_FUZZ_VPMUD_BACKEND_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BINDS_MAX 512
#include "tests/unit/fake_binds.h"

static void check(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_vpmud: %s\n", what);
	abort();
}

static void bind_check(struct vpmu_backend_node *n, pid_t tid, uint64_t start)
{
	check(n, "bound to no node");
}

/* Of a number that is used again the kernel may hear in the other order: its new user took it. */
static void unbind_check(struct vpmu_backend_node *n, const struct bind *b)
{
	check(n, "unbound from no node");
}

static void node_remove(struct vpmu_backend_node *n)
{
	check(!is_bound_to(n), "a node is removed while something is bound to it");
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
