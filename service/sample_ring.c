// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bounded rings, see sample_ring.h. A slot's sequence number gives its state: in lap L (position /
 * slots), 2L is free for the producer of that position, 2L + 1 is filled. A producer takes a
 * position by a compare-and-swap, fills the slot, and publishes it by a release store of 2L + 1,
 * which pairs with the consumer's acquire load. The consumer frees it by a release store of 2L + 2,
 * which pairs with the acquire load of the producer one lap later. All zero is the empty ring.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "service/sample_ring.h"

struct slot {
	_Atomic uint64_t seq;
	uint64_t vcpu, ip, periods, late, time_ns;
	uint32_t pid;
	uint8_t side, cpl, known, chained, nr_from;
	uint64_t from[];
};

_Static_assert(SAMPLE_CALLS_MAX >= VPMU_LBR_DEPTH_MAX, "the records of a CPU fit");

struct ring {
	_Alignas(64) _Atomic uint64_t tail; /* position of the next producer */
	_Atomic uint64_t lost;
	_Alignas(64) uint64_t head; /* position of the consumer */
	unsigned char *slots;
};

struct sample_rings {
	struct ring ring[SAMPLE_RINGS];
	size_t stride; /* bytes of a slot */
	uint64_t nr_slots;
	bool chains;
};

struct sample_rings *sample_rings_create(bool chains)
{
	struct sample_rings *rs = aligned_alloc(64, sizeof(*rs));

	if (!rs)
		return NULL;
	*rs = (struct sample_rings){.chains = chains};
	rs->nr_slots = chains ? SAMPLE_CHAIN_SLOTS : SAMPLE_RING_SLOTS;
	rs->stride = sizeof(struct slot) + (chains ? SAMPLE_CALLS_MAX * sizeof(uint64_t) : 0);
	for (size_t i = 0; i < SAMPLE_RINGS; i++) {
		/* Untouched pages use no memory. */
		rs->ring[i].slots = calloc(rs->nr_slots, rs->stride);
		if (!rs->ring[i].slots) {
			sample_rings_free(rs);
			return NULL;
		}
	}
	return rs;
}

void sample_rings_free(struct sample_rings *rs)
{
	if (!rs)
		return;
	for (size_t i = 0; i < SAMPLE_RINGS; i++)
		free(rs->ring[i].slots);
	free(rs);
}

static struct slot *slot_at(const struct sample_rings *rs, const struct ring *r, uint64_t pos)
{
	return (struct slot *)(r->slots + (pos & (rs->nr_slots - 1)) * rs->stride);
}

static void sample_ring_fill(const struct sample_rings *rs, struct slot *s,
			     const struct sample_record *r, const struct vpmu_lbr_regs *lbr)
{
	const struct vpmu_lbr_entry *e;
	unsigned int n = 0;

	s->vcpu = r->vcpu;
	s->ip = r->ip;
	s->periods = r->periods;
	s->late = r->late;
	s->time_ns = r->time_ns;
	s->pid = r->pid;
	s->side = r->side;
	s->cpl = r->cpl;
	s->known = r->known;
	s->chained = rs->chains && (lbr ? (lbr->ctl & VPMU_LBR_CALL_STACK) != 0 : r->chained);
	if (s->chained && lbr)
		while (n < VPMU_LBR_DEPTH_MAX && (e = vpmu_lbr_nth(lbr, n)))
			s->from[n++] = e->from;
	else if (s->chained)
		for (; n < r->nr_from && n < SAMPLE_CALLS_MAX; n++)
			s->from[n] = r->from[n];
	s->nr_from = (uint8_t)n;
}

bool sample_rings_put(struct sample_rings *rs, unsigned int pcpu, struct sample_record *r,
		      const struct vpmu_lbr_regs *lbr)
{
	struct ring *ring = &rs->ring[pcpu % SAMPLE_RINGS];
	uint64_t pos = atomic_load_explicit(&ring->tail, memory_order_relaxed);

	for (;;) {
		struct slot *s = slot_at(rs, ring, pos);
		uint64_t seq = atomic_load_explicit(&s->seq, memory_order_acquire);
		uint64_t free_seq = pos / rs->nr_slots * 2;

		if (seq < free_seq) { /* the previous lap's record is still there */
			atomic_fetch_add_explicit(&ring->lost, r->periods, memory_order_relaxed);
			return false;
		}
		if (seq > free_seq) { /* another producer took this position */
			pos = atomic_load_explicit(&ring->tail, memory_order_relaxed);
			continue;
		}
		if (!atomic_compare_exchange_weak_explicit(
			    &ring->tail, &pos, pos + 1, memory_order_relaxed, memory_order_relaxed))
			continue;
		sample_ring_fill(rs, s, r, lbr);
		atomic_store_explicit(&s->seq, free_seq + 1, memory_order_release);
		return true;
	}
}

unsigned int sample_rings_drain(struct sample_rings *rs,
				void (*fn)(const struct sample_record *r, void *arg), void *arg)
{
	uint64_t fullest = 0;

	for (size_t i = 0; i < SAMPLE_RINGS; i++) {
		struct ring *ring = &rs->ring[i];
		uint64_t n;

		/* Limit: one lap, because fast producers must not keep the control thread busy
		 * forever. */
		for (n = 0; n < rs->nr_slots; n++) {
			struct slot *s = slot_at(rs, ring, ring->head);
			uint64_t full_seq = ring->head / rs->nr_slots * 2 + 1;
			struct sample_record r;

			if (atomic_load_explicit(&s->seq, memory_order_acquire) != full_seq)
				break;
			r = (struct sample_record){.vcpu = s->vcpu,
						   .ip = s->ip,
						   .periods = s->periods,
						   .late = s->late,
						   .time_ns = s->time_ns,
						   .pid = s->pid,
						   .side = s->side,
						   .cpl = s->cpl,
						   .known = s->known,
						   .chained = s->chained,
						   .nr_from = s->nr_from,
						   .from = s->from};
			fn(&r, arg);
			atomic_store_explicit(&s->seq, full_seq + 1, memory_order_release);
			ring->head++;
		}
		if (n > fullest)
			fullest = n;
	}
	return (unsigned int)(fullest * 100 / rs->nr_slots);
}

uint64_t sample_rings_lost(const struct sample_rings *rs)
{
	uint64_t lost = 0;

	for (size_t i = 0; i < SAMPLE_RINGS; i++)
		lost += atomic_load_explicit(&rs->ring[i].lost, memory_order_relaxed);
	return lost;
}
