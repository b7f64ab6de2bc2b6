/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A kernel that samples: events with rings that the test writes. It does as perf with the
 * attributes that this project uses, and refuses those that the test selects.
 */
#ifndef TESTS_UNIT_SAMPLE_FAKE_H
#define TESTS_UNIT_SAMPLE_FAKE_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "cgroup/sample/ring.h"
#include "cgroup/sample/sys.h"

#define FAKE_EVENTS_MAX 64
#define FAKE_FD		1000

static struct fake_event {
	bool open, enabled, paused;
	struct perf_event_attr attr;
	pid_t tid;
	int cpu;
	uint8_t *memory;
	size_t bytes;
	uint64_t lost;
} fake[FAKE_EVENTS_MAX];

static int fake_open_error;	 /* what every open answers; 0: it opens */
static uint64_t fake_unknown;	 /* bits of sample_type that this kernel does not know */
static bool fake_no_lost;	 /* nor PERF_FORMAT_LOST */
static size_t fake_map_max;	 /* bytes that a ring may have; 0: any */
static unsigned int fake_opened; /* since the start */

static inline struct fake_event *fake_of(int fd)
{
	cr_assert(fd >= FAKE_FD && fd < FAKE_FD + FAKE_EVENTS_MAX && fake[fd - FAKE_FD].open,
		  "event %d is not open", fd);
	return &fake[fd - FAKE_FD];
}

static int fake_sys_open(const struct perf_event_attr *attr, pid_t tid, int cpu)
{
	int i = 0;

	if (fake_open_error)
		return fake_open_error;
	if (attr->sample_type & fake_unknown || (attr->read_format && fake_no_lost))
		return -EINVAL;
	while (i < FAKE_EVENTS_MAX && fake[i].open)
		i++;
	if (i == FAKE_EVENTS_MAX)
		return -EMFILE;
	fake[i] = (struct fake_event){.open = true, .attr = *attr, .tid = tid, .cpu = cpu};
	fake_opened++;
	return FAKE_FD + i;
}

static void fake_sys_close(int fd)
{
	cr_assert(!fake_of(fd)->memory, "event %d is still mapped", fd);
	fake_of(fd)->open = false;
}

static int fake_sys_map(int fd, size_t bytes, bool take, void **out)
{
	struct fake_event *e = fake_of(fd);

	if (fake_map_max && bytes > fake_map_max)
		return -EPERM;
	cr_assert_eq(take, !e->attr.write_backward);
	e->memory = calloc(1, bytes);
	e->bytes = bytes;
	cr_assert(e->memory);
	*out = e->memory;
	return 0;
}

static void fake_sys_unmap(void *p, size_t bytes)
{
	for (int i = 0; i < FAKE_EVENTS_MAX; i++) {
		if (fake[i].memory != p)
			continue;
		cr_assert_eq(fake[i].bytes, bytes);
		free(p);
		fake[i].memory = NULL;
	}
}

static int fake_sys_control(int fd, unsigned long request, unsigned long arg)
{
	struct fake_event *e = fake_of(fd);

	if (request == PERF_EVENT_IOC_ENABLE)
		e->enabled = true;
	else if (request == PERF_EVENT_IOC_PAUSE_OUTPUT)
		e->paused = arg;
	else
		return -EINVAL;
	return 0;
}

static int fake_sys_lost(int fd, uint64_t *lost)
{
	cr_assert(fake_of(fd)->attr.read_format);
	*lost = fake_of(fd)->lost;
	return 0;
}

static const struct sample_sys fake_sys = {
	.open = fake_sys_open,
	.close = fake_sys_close,
	.map = fake_sys_map,
	.unmap = fake_sys_unmap,
	.control = fake_sys_control,
	.lost = fake_sys_lost,
};

/* The @n-th open event of @tid on @cpu. */
static inline struct fake_event *fake_event(pid_t tid, int cpu, int n)
{
	for (int i = 0; i < FAKE_EVENTS_MAX; i++)
		if (fake[i].open && fake[i].tid == tid && fake[i].cpu == cpu && !n--)
			return &fake[i];
	cr_assert_fail("no event of task %d on CPU %d", tid, cpu);
	return NULL;
}

static inline unsigned int fake_events(void)
{
	unsigned int n = 0;

	for (int i = 0; i < FAKE_EVENTS_MAX; i++)
		n += fake[i].open;
	return n;
}

/* ---- records -------------------------------------------------------------------------------- */

struct fake_record {
	struct perf_event_header header;
	uint64_t word[600];
	size_t n;
};

static inline void fake_word(struct fake_record *r, uint64_t v)
{
	r->word[r->n++] = v;
	r->header.size = (uint16_t)(sizeof(r->header) + r->n * 8);
}

static inline uint64_t fake_pair(uint32_t low, uint32_t high)
{
	return (uint64_t)high << 32 | low;
}

/* A sample up to its CPU. */
static inline struct fake_record fake_sample(uint16_t mode, uint64_t ip, uint32_t pid, uint32_t tid,
					     uint32_t cpu)
{
	struct fake_record r = {.header = {.type = PERF_RECORD_SAMPLE, .misc = mode, .size = 8}};
	static uint64_t time_ns;

	fake_word(&r, ip);
	fake_word(&r, fake_pair(pid, tid));
	fake_word(&r, ++time_ns);
	fake_word(&r, fake_pair(cpu, 0));
	return r;
}

static inline struct perf_event_mmap_page *fake_page(const struct fake_event *e)
{
	return (struct perf_event_mmap_page *)e->memory;
}

/* Write @n bytes at position @pos of the ring. */
static inline void fake_bytes(const struct fake_event *e, uint64_t pos, const void *from, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = e->bytes - page;

	for (size_t i = 0; i < n; i++)
		e->memory[page + ((pos + i) & (bytes - 1))] = ((const uint8_t *)from)[i];
}

/* The kernel's part of a sample: false if there is no room for it. */
static inline bool fake_put(struct fake_event *e, const struct fake_record *r)
{
	size_t bytes = e->bytes - (size_t)sysconf(_SC_PAGESIZE);
	struct perf_event_mmap_page *p = fake_page(e);
	uint64_t head = p->data_head;

	if (!e->enabled || e->paused)
		return false;
	if (e->attr.write_backward) {
		head -= r->header.size;
	} else if (head + r->header.size - p->data_tail > bytes) {
		e->lost += r->header.type == PERF_RECORD_SAMPLE;
		return false;
	}
	fake_bytes(e, head, &r->header, sizeof(r->header));
	fake_bytes(e, head + sizeof(r->header), r->word, r->n * 8);
	p->data_head = e->attr.write_backward ? head : head + r->header.size;
	return true;
}

#endif
