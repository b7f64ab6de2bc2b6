// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Prefetching for a vCPU that runs soon. A short slice of a vCPU among a thousand ends before the
 * caches hold its data; engine.c calls emu_warm() while another vCPU runs. Neither guests nor
 * counts can observe a prefetch, so the notes may be out of date, but emu_warm() must read only
 * memory of the vCPU itself.
 */
#include <stddef.h>

#include "vmm/emu/jit/jit.h"

#define LINE 64u

static inline void warm_fetch(const void *p)
{
	__builtin_prefetch(p, 0, 2);
}

static void fetch_range(const void *from, size_t bytes)
{
	const char *p = (const char *)((uintptr_t)from & ~(uintptr_t)(LINE - 1));

	for (const char *end = (const char *)from + bytes; p < end; p += LINE)
		warm_fetch(p);
}

static inline size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The TLB entry for RSP in the current mode of @v. */
static const struct emu_tlbe *tlbe_of_stack(const struct emu_vcpu *v)
{
	return &v->tlb[v->r[EMU_RSP] >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
}

void emu_warm_note(struct emu_vcpu *v)
{
	const struct emu_tlbe *e = tlbe_of_stack(v);

	v->warm.block = v->jc[emu_jc_index(v->rip)];
	v->warm.stack = e->rtag == (v->r[EMU_RSP] & EMU_PAGE_MASK)
				? (const void *)(e->add + v->r[EMU_RSP])
				: NULL;
}

void emu_warm(const struct vmm_engine_vcpu *ev, bool next)
{
	const struct emu_vcpu *v = emu_to_vcpu(ev);
	const struct emu_block *b;
	uint32_t sites;

	if (!next) {
		fetch_range(v, offsetof(struct emu_vcpu, seg[EMU_CS + 1]));
		return;
	}
	warm_fetch(&v->vm->smc_seq);
	warm_fetch(&v->jc[emu_jc_index(v->rip)]);
	warm_fetch(tlbe_of_stack(v));
	/* Read nothing of a block here: it may be in no cache, and the running vCPU would wait. */
	if (v->rest.block) {
		b = v->rest.block;
		warm_fetch(&b->ctx);
		fetch_range(b->ops, least(v->rest.op + 6, 20) * sizeof(b->ops[0]));
	} else if (v->warm.block) {
		b = v->warm.block;
		fetch_range(&b->h0, offsetof(struct emu_block, ops) -
					    offsetof(struct emu_block, h0) + sizeof(b->ops[0].h));
	}
	if (v->warm.stack)
		fetch_range((const char *)v->warm.stack - 3 * LINE, 10 * LINE);
	for (unsigned int i = 0; i < EMU_WARM_BLOCKS; i++) {
		b = v->warm.recent[i];
		if (!b)
			continue;
		warm_fetch(&b->rip); /* and the entries of its translation */
		warm_fetch(&v->jc[v->warm.recent_jc[i]]);
	}
	if (!v->jit.sites)
		return;
	sites = v->jit.nr_sites[v->jit.nr_sites[0] < v->jit.nr_sites[1]];
	fetch_range(v->jit.sites[v->cpl == 3], least(sites, 16) * sizeof(v->jit.sites[0][0]));
	fetch_range(v->jit.slots, least(v->jit.nr_slots, 64) * sizeof(*v->jit.slots));
}
