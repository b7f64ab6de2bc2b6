// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer: rings of perf events with any content, read forwards and backwards. The first bytes
 * say where the ring's head and tail are and what a sample has; the rest is the ring. It is
 * allocated to the byte, so that reading beyond it is found.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/sample/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES 4096
#define PAGE  sizeof(struct perf_event_mmap_page)

struct setup {
	uint64_t head, tail;
	uint8_t type;
};

static uint64_t sum; /* so that a sample's references are read */

static void take(const struct ring_sample *s, void *arg)
{
	unsigned int *n = arg;

	if (s->nr_calls > RING_CALLS_MAX || s->nr_branches > RING_BRANCHES_MAX ||
	    s->mode > RING_GUEST_USER)
		abort();
	for (unsigned int i = 0; i < s->nr_calls; i++) {
		if (s->calls[i] >= (uint64_t)PERF_CONTEXT_MAX)
			abort();
		sum += s->calls[i];
	}
	for (unsigned int i = 0; i < s->nr_branches; i++)
		sum += s->branches[i].from + s->branches[i].to;
	++*n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *base = calloc(1, PAGE + BYTES);
	struct ring_counts counts = {0};
	struct setup at = {0};
	unsigned int n = 0;
	uint64_t type = RING_FIXED;
	struct ring r;

	if (!base)
		return 0;
	memcpy(&at, data, size < sizeof(at) ? size : sizeof(at));
	data += size < sizeof(at) ? size : sizeof(at);
	size -= size < sizeof(at) ? size : sizeof(at);
	memcpy(base + PAGE, data, size < BYTES ? size : BYTES);
	type |= at.type & 1 ? PERF_SAMPLE_CALLCHAIN : 0;
	type |= at.type & 2 ? PERF_SAMPLE_BRANCH_STACK : 0;
	type |= at.type & 4 ? RING_SAMPLE_CGROUP : 0;
	ring_init(&r, base, PAGE, BYTES);
	/* Heads that can be are found sooner. */
	r.page->data_tail = at.tail;
	r.page->data_head = at.type & 8 ? at.head : at.tail + at.head % (BYTES + 1);
	ring_newest(&r, type, &counts, take, &n);
	if (n > 1)
		abort();
	n = 0;
	if (ring_read(&r, type, &counts, take, &n) > 100 || r.page->data_tail != r.page->data_head)
		abort();
	if (n > BYTES / 8)
		abort();
	free(base);
	return 0;
}
