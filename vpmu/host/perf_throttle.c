// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The time for which the kernel has throttled events that interrupted too often. perf.c calls this
 * when it reads a counter.
 *
 * An event that overflows more often than /proc/sys/kernel/perf_event_max_sample_rate is throttled:
 * its counter stands still while its running time goes on. Only records in the event's ring show
 * this (linux/perf_event.h, PERF_RECORD_THROTTLE and PERF_RECORD_UNTHROTTLE), so sampling events
 * have a ring of one page. It is mapped read-only: the kernel then overwrites the oldest records
 * and never waits for a reader. There is one reader, and checking an unchanged ring costs one load.
 *
 * The records have CLOCK_MONOTONIC times (vpmu_perf_clock_attr). If the thread lost its CPU while
 * its event was throttled, they give more time than it ran; the caller limits that.
 */
#include <linux/perf_event.h>
#include <string.h>
#include <time.h>

#include "vpmu/host/perf_priv.h"

#define UNKNOWN UINT64_MAX

struct throttle_record {
	struct perf_event_header header;
	uint64_t time;
};

void vpmu_perf_clock_attr(struct perf_event_attr *attr)
{
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
}

/* Copy @n bytes from position @at of the ring behind @page. */
static void perf_throttle_copy(void *to, const struct perf_event_mmap_page *page, uint64_t at,
			       size_t n)
{
	const uint8_t *data = (const uint8_t *)page + page->data_offset;
	uint8_t *p = to;

	while (n--)
		*p++ = data[at++ % page->data_size];
}

static uint64_t perf_throttle_add(uint64_t ns, uint64_t more)
{
	return ns > UNKNOWN - more ? UNKNOWN : ns + more;
}

/* The event was throttled until @time. The start is unknown if its record was not seen. */
static uint64_t perf_throttle_ended(struct vpmu_perf_ring *r, uint64_t time)
{
	uint64_t from = r->stopped_at;

	r->stopped_at = 0;
	if (!from)
		return UNKNOWN;
	return time > from ? time - from : 0;
}

/* The throttled time in the records up to @head; UNKNOWN if they are incomplete. */
static uint64_t read_records(struct vpmu_perf_ring *r, const struct perf_event_mmap_page *page,
			     uint64_t head)
{
	struct throttle_record rec;
	uint64_t ns = 0;

	while (r->at != head) {
		uint64_t left = head - r->at;

		/* Overwritten, or not in the kernel's format. */
		if (left > page->data_size || left < sizeof(rec.header))
			goto unknown;
		perf_throttle_copy(&rec.header, page, r->at, sizeof(rec.header));
		if (rec.header.size < sizeof(rec.header) || rec.header.size > left)
			goto unknown;
		if (rec.header.type == PERF_RECORD_THROTTLE ||
		    rec.header.type == PERF_RECORD_UNTHROTTLE) {
			if (rec.header.size < sizeof(rec))
				goto unknown;
			perf_throttle_copy(&rec, page, r->at, sizeof(rec));
			if (rec.header.type == PERF_RECORD_UNTHROTTLE)
				ns = perf_throttle_add(ns, perf_throttle_ended(r, rec.time));
			else
				r->stopped_at = rec.time ? rec.time : 1;
		}
		r->at += rec.header.size;
	}
	return ns;
unknown:
	r->at = head;
	r->stopped_at = 0;
	return UNKNOWN;
}

static uint64_t stopped_of(struct vpmu_perf_ring *r)
{
	const struct perf_event_mmap_page *page = r->page;
	uint64_t head, ns, now;

	if (!page || !page->data_size)
		return 0;
	/* Acquire: the kernel writes the records before the head. */
	head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	if (head == r->at && !r->stopped_at)
		return 0;
	ns = read_records(r, page, head);
	if (r->stopped_at) {
		/* Still throttled: the next call counts from now on. */
		if (vpmu_perf_sys->clock(0, &now))
			return UNKNOWN;
		ns = perf_throttle_add(ns, now > r->stopped_at ? now - r->stopped_at : 0);
		r->stopped_at = now > r->stopped_at ? now : r->stopped_at;
	}
	return ns;
}

uint64_t vpmu_perf_event_stopped(struct vpmu_perf_event *e)
{
	uint64_t ns = 0;

	for (unsigned int i = 0; i < e->nr; i++)
		ns = perf_throttle_add(ns, stopped_of(&e->ring[i]));
	return ns;
}
