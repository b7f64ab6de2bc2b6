// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parses the records of perf rings. A record is a header with its length, and 64-bit words in the
 * order of perf_event_open(2). Each length is checked against the rest before anything after it is
 * read.
 */
#include <string.h>

#include "cgroup/sample/ring.h"

/* Limit of the header's 16-bit size: 65,535 bytes. */
#define RECORD_WORDS 8192

/* From this value on a word of a call chain is a marker (PERF_CONTEXT_...), not an address. */
#define CHAIN_MARKS ((uint64_t)PERF_CONTEXT_MAX)

/* The unread words of a record. */
struct words {
	const uint64_t *at;
	size_t left;
	bool bad; /* there were too few */
};

static uint64_t ring_next(struct words *w)
{
	if (!w->left) {
		w->bad = true;
		return 0;
	}
	w->left--;
	return *w->at++;
}

/* The next @n words; NULL: there are fewer. */
static const uint64_t *next_many(struct words *w, uint64_t n)
{
	const uint64_t *at = w->at;

	if (n > w->left) {
		w->bad = true;
		return NULL;
	}
	w->at += n;
	w->left -= n;
	return at;
}

static enum ring_mode ring_mode_of(uint16_t misc)
{
	switch (misc & PERF_RECORD_MISC_CPUMODE_MASK) {
	case PERF_RECORD_MISC_KERNEL:
		return RING_KERNEL;
	case PERF_RECORD_MISC_USER:
		return RING_USER;
	case PERF_RECORD_MISC_HYPERVISOR:
		return RING_HYPERVISOR;
	case PERF_RECORD_MISC_GUEST_KERNEL:
		return RING_GUEST_KERNEL;
	case PERF_RECORD_MISC_GUEST_USER:
		return RING_GUEST_USER;
	default:
		return RING_UNKNOWN;
	}
}

static bool is_guest(enum ring_mode mode)
{
	return mode == RING_GUEST_KERNEL || mode == RING_GUEST_USER;
}

/* The interrupted instruction comes first and is skipped. The kernel has no chains of guests: it
 * would give callers in the host, so these are dropped. */
static void take_chain(struct words *w, struct ring_sample *s)
{
	uint64_t n = ring_next(w);
	const uint64_t *ip = next_many(w, n);
	bool first = true;

	for (uint64_t i = 0; ip && !is_guest(s->mode) && i < n; i++) {
		if (ip[i] >= CHAIN_MARKS)
			continue;
		if (!(first && ip[i] == s->ip) && s->nr_calls < RING_CALLS_MAX)
			s->calls[s->nr_calls++] = ip[i];
		first = false;
	}
}

static void take_branches(struct words *w, struct ring_sample *s)
{
	const size_t size = sizeof(struct perf_branch_entry) / sizeof(uint64_t);
	uint64_t n = ring_next(w);
	const uint64_t *at = n <= w->left ? next_many(w, n * size) : NULL;

	w->bad |= !at;
	s->branches = (const struct perf_branch_entry *)at;
	s->nr_branches = !at ? 0 : n < RING_BRANCHES_MAX ? (unsigned int)n : RING_BRANCHES_MAX;
}

static bool parse_sample(struct words *w, uint16_t misc, uint64_t type, struct ring_sample *s)
{
	uint64_t v;

	s->mode = ring_mode_of(misc);
	s->ip = ring_next(w);
	v = ring_next(w);
	memcpy(&s->pid, &v, sizeof(s->pid));
	memcpy(&s->tid, (const uint8_t *)&v + sizeof(s->pid), sizeof(s->tid));
	s->time_ns = ring_next(w);
	v = ring_next(w);
	memcpy(&s->cpu, &v, sizeof(s->cpu));
	s->nr_calls = s->nr_branches = 0;
	s->branches = NULL;
	if (type & PERF_SAMPLE_CALLCHAIN)
		take_chain(w, s);
	if (type & PERF_SAMPLE_BRANCH_STACK)
		take_branches(w, s);
	s->cgroup = type & RING_SAMPLE_CGROUP ? ring_next(w) : 0;
	return !w->bad;
}

void ring_init(struct ring *r, void *base, size_t page_size, size_t bytes)
{
	r->page = base;
	r->data = (uint8_t *)base + page_size;
	r->bytes = bytes;
}

/* Copy @n bytes at position @pos, which may wrap around. */
static void ring_copy(const struct ring *r, uint64_t pos, void *to, size_t n)
{
	size_t at = pos & (r->bytes - 1), first = r->bytes - at;

	if (first > n)
		first = n;
	memcpy(to, r->data + at, first);
	memcpy((uint8_t *)to + first, r->data, n - first);
}

/* A record copied out of the ring, so that the kernel cannot change it any more. */
struct record {
	struct perf_event_header header;
	uint64_t word[RECORD_WORDS];
};

/* Copy the record at @pos, of up to @left bytes. Returns false if it is not a valid record. */
static bool copy_record(const struct ring *r, uint64_t pos, uint64_t left, struct record *rec)
{
	size_t size;

	if (left < sizeof(rec->header))
		return false;
	ring_copy(r, pos, &rec->header, sizeof(rec->header));
	size = rec->header.size;
	if (size < sizeof(rec->header) || size > left || size % sizeof(uint64_t))
		return false;
	ring_copy(r, pos + sizeof(rec->header), rec->word, size - sizeof(rec->header));
	return true;
}

static void take_record(const struct record *rec, uint64_t type, struct ring_counts *counts,
			void (*take)(const struct ring_sample *s, void *arg), void *arg)
{
	struct words w = {.at = rec->word,
			  .left = (rec->header.size - sizeof(rec->header)) / sizeof(uint64_t)};
	struct ring_sample s;
	uint64_t n;

	switch (rec->header.type) {
	case PERF_RECORD_SAMPLE:
		if (parse_sample(&w, rec->header.misc, type, &s))
			take(&s, arg);
		break;
	case PERF_RECORD_LOST:
		ring_next(&w); /* the event's id */
		n = ring_next(&w);
		counts->lost += n;
		break;
	case PERF_RECORD_THROTTLE:
		counts->throttled++;
		break;
	default:
		break;
	}
	counts->bad += w.bad;
}

unsigned int ring_read(struct ring *r, uint64_t sample_type, struct ring_counts *counts,
		       void (*take)(const struct ring_sample *s, void *arg), void *arg)
{
	/* Pairs with the kernel's barrier between writing records and storing data_head. */
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = __atomic_load_n(&r->page->data_tail, __ATOMIC_RELAXED), used = head - tail;
	struct record rec;

	if (used > r->bytes) {
		counts->bad++;
		tail = head;
		used = r->bytes;
	}
	while (tail != head) {
		if (!copy_record(r, tail, head - tail, &rec)) {
			/* The start of the next record is unknown, too. */
			counts->bad++;
			tail = head;
			break;
		}
		take_record(&rec, sample_type, counts, take, arg);
		tail += rec.header.size;
	}
	/* Reads above come before this store: from then on the kernel may overwrite the records.
	 * Pairs with the kernel's read of data_tail (perf_output_begin). */
	__atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
	return (unsigned int)(used * 100 / r->bytes);
}

bool ring_newest(const struct ring *r, uint64_t sample_type, struct ring_counts *counts,
		 void (*take)(const struct ring_sample *s, void *arg), void *arg)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE), pos = head;
	uint64_t left = 0 - head; /* bytes written: the head counts down from 0 */
	struct record rec;

	if (left > r->bytes)
		left = r->bytes;
	while (left) {
		if (!copy_record(r, pos, left, &rec)) {
			/* The oldest record may be truncated; the newest may not. */
			counts->bad += pos == head;
			return false;
		}
		take_record(&rec, sample_type, counts, take, arg);
		if (rec.header.type == PERF_RECORD_SAMPLE)
			return true;
		pos += rec.header.size;
		left -= rec.header.size;
	}
	return false;
}
