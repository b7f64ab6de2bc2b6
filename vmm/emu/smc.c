// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Self-modifying code: which guest pages hold decoded code, and the end of blocks whose code was
 * overwritten. Everything that stores to guest memory calls emu_code_stored(); cache.c marks what
 * it decodes. A block with overwritten code must never execute beyond the safe points below.
 *
 * vm->pages[] marks the 64-byte pieces of a page that hold code decoded by any
 * vCPU. Stores to such a page never take the TLB's fast path.
 *   - A store that hits a marked piece clears the page's mask and increments its generation.
 *   - Every vCPU compares generations at its next safe point and drops the page's blocks. Safe
 *     points are every system instruction, and a block boundary after EMU_CHUNK
 *     instructions at the latest.
 *   - The storing vCPU executes that one instruction alone, so its next instruction already
 *     executes the new bytes, as SDM vol. 3, 9.1.3 requires. Code on other vCPUs must serialise.
 *
 * When a page first holds code, other vCPUs of the VM may still have a fast path to it, until each
 * is outside run() or has passed a safe point (code_epoch, epoch_seen). No vCPU waits for that: the
 * host may not be running the others. A block decoded before then is unsettled. It keeps a copy of
 * its bytes, and its vCPU compares them with the guest's memory at each of its own safe points,
 * until all others have passed one.
 */
#include <string.h>

#include "vmm/emu/jit/jit.h"

static uint64_t piece_mask(uint64_t offset, unsigned int bytes)
{
	unsigned int first = (unsigned int)(offset & ~EMU_PAGE_MASK) >> 6;
	unsigned int last = (unsigned int)((offset + bytes - 1) & ~EMU_PAGE_MASK) >> 6;

	return (~0ULL >> (63 - (last - first))) << first;
}

bool emu_code_hit(struct emu_vm *vm, const uint8_t *p, unsigned int bytes)
{
	uint64_t pa = (uint64_t)(p - vm->ram);

	return atomic_load(&vm->pages[pa >> EMU_PAGE_SHIFT].mask) & piece_mask(pa, bytes);
}

bool emu_code_stored(struct emu_vm *vm, const uint8_t *p, unsigned int bytes)
{
	uint64_t pfn = (uint64_t)(p - vm->ram) >> EMU_PAGE_SHIFT;
	struct emu_page *page = &vm->pages[pfn];
	uint32_t seq;

	/* Another vCPU may have decoded these bytes since the storing one checked. Pairs with the
	 * fence in emu_smc_settle(): either this vCPU sees the mask, or that one the new bytes. */
	atomic_thread_fence(memory_order_seq_cst);
	if (likely(!emu_code_hit(vm, p, bytes)))
		return false;
	/* The mask must be cleared first: emu_smc_settle() on another vCPU that reads the new
	 * generation must also see that its mask bits are cleared. */
	atomic_store(&page->mask, 0);
	atomic_fetch_add(&page->gen, 1);
	seq = atomic_fetch_add(&vm->smc_seq, 1);
	atomic_store(&vm->smc_log[seq % EMU_SMC_LOG], (uint64_t)(uint32_t)(seq + 1) << 32 | pfn);
	return true;
}

void emu_ack_code(struct emu_vcpu *v)
{
	uint32_t e = atomic_load(&v->vm->code_epoch);

	if (atomic_load_explicit(&v->epoch_seen, memory_order_relaxed) != e) {
		emu_tlb_demote(v);
		atomic_store(&v->epoch_seen, e);
	}
}

/* Mark @bytes at @pa, inside one page, as decoded code. Returns the epoch from which on all stores
 * of a vCPU that has seen it check the mark. */
static uint32_t code_mark(struct emu_vcpu *v, uint64_t pa, unsigned int bytes)
{
	struct emu_vm *vm = v->vm;
	struct emu_page *page = &vm->pages[pa >> EMU_PAGE_SHIFT];
	uint32_t e;

	/* If the page held code before, some vCPUs may not have seen the epoch of its first mark
	 * yet. */
	if (atomic_fetch_or(&page->mask, piece_mask(pa, bytes)))
		e = atomic_load(&vm->code_epoch);
	else
		e = atomic_fetch_add(&vm->code_epoch, 1) + 1;
	emu_ack_code(v);
	return e;
}

/* Returns true if all other running vCPUs have seen epoch @e; false also if finding out would
 * block. */
static bool all_acked(struct emu_vcpu *v, uint32_t e)
{
	struct emu_vm *vm = v->vm;
	bool all = true;

	if ((int32_t)(atomic_load(&vm->epoch_settled) - e) >= 0)
		return true;
	if (pthread_mutex_trylock(&vm->lock))
		return false;
	for (struct emu_vcpu *o = vm->vcpus; o && all; o = o->vm_next)
		all = o == v || !atomic_load(&o->running) ||
		      (int32_t)(atomic_load(&o->epoch_seen) - e) >= 0;
	if (all && (int32_t)(atomic_load(&vm->epoch_settled) - e) < 0)
		atomic_store(&vm->epoch_settled, e);
	pthread_mutex_unlock(&vm->lock);
	return all;
}

static struct emu_cpage *cpage_find(struct emu_vcpu *v, uint32_t pfn)
{
	for (uint32_t i = v->cpage_first[pfn % v->max_cpages]; i; i = v->cpage_next[i - 1])
		if (v->cpages[i - 1].pfn == pfn)
			return &v->cpages[i - 1];
	return NULL;
}

static void block_kill(struct emu_block *b)
{
	b->ctx = 0;
	b->nr_ops = 0; /* permanent: find_slow() removes such a block */
}

static void cpage_drop(struct emu_vcpu *v, struct emu_cpage *cp)
{
	for (struct emu_block *b = cp->blocks, *next; b; b = next) {
		next = b->page_next[b->pa >> EMU_PAGE_SHIFT != cp->pfn];
		block_kill(b);
	}
	cp->blocks = NULL;
	cp->gen = atomic_load(&v->vm->pages[cp->pfn].gen);
}

/* Returns true if guest memory still has the bytes from which @b was decoded. */
static bool block_unchanged(const struct emu_vcpu *v, struct emu_block *b)
{
	unsigned int n = b->bytes, room = (unsigned int)(EMU_PAGE_SIZE - (b->pa & ~EMU_PAGE_MASK));

	if (n > room)
		n = room;
	return !memcmp(v->vm->ram + b->pa, emu_block_code(b), n) &&
	       !memcmp(v->vm->ram + ((uint64_t)b->pfn2 << EMU_PAGE_SHIFT), emu_block_code(b) + n,
		       b->bytes - n);
}

/* At a safe point: check the unsettled blocks. */
static void check_unsettled(struct emu_vcpu *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->nr_unsettled; i++) {
		struct emu_unsettled u = v->unsettled[i];
		/* Before comparing: this makes visible the stores of others before their safe
		 * points. */
		bool settled = all_acked(v, u.epoch);

		v->extra += EMU_EFFORT_SLOW;
		if (!u.block->nr_ops)
			continue;
		if (!block_unchanged(v, u.block))
			block_kill(u.block);
		else if (!settled)
			v->unsettled[n++] = u;
	}
	v->nr_unsettled = n;
}

void emu_smc_check(struct emu_vcpu *v, struct emu_block *b, uint32_t e)
{
	if (v->nr_unsettled == EMU_UNSETTLED) {
		block_kill(v->unsettled[0].block);
		memmove(v->unsettled, v->unsettled + 1,
			(EMU_UNSETTLED - 1) * sizeof(v->unsettled[0]));
		v->nr_unsettled--;
	}
	v->unsettled[v->nr_unsettled++] = (struct emu_unsettled){b, e};
}

static void sync_page(struct emu_vcpu *v, struct emu_cpage *cp)
{
	if (cp && cp->gen != atomic_load(&v->vm->pages[cp->pfn].gen))
		cpage_drop(v, cp);
}

/* Check the pages with code overwritten from time @from to @to. Returns false if these are unknown:
 * too many, or one is not logged yet. */
static bool sync_logged(struct emu_vcpu *v, uint32_t from, uint32_t to)
{
	uint32_t pfn[EMU_SMC_LOG], n = to - from;

	if (n > EMU_SMC_LOG)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t entry = atomic_load(&v->vm->smc_log[(from + i) % EMU_SMC_LOG]);

		if (entry >> 32 != (uint32_t)(from + i + 1))
			return false;
		pfn[i] = (uint32_t)entry;
	}
	v->extra += n;
	for (uint32_t i = 0; i < n; i++)
		sync_page(v, cpage_find(v, pfn[i]));
	return true;
}

void emu_sync(struct emu_vcpu *v)
{
	uint32_t seq = atomic_load(&v->vm->smc_seq);

	emu_ack_code(v);
	if (unlikely(v->nr_unsettled))
		check_unsettled(v);
	if (likely(seq == v->smc_seen))
		return;
	if (!sync_logged(v, v->smc_seen, seq)) {
		v->extra += v->nr_cpages / 4;
		for (uint32_t i = 0; i < v->nr_cpages; i++)
			sync_page(v, &v->cpages[i]);
	}
	v->smc_seen = seq;
}

bool emu_smc_settle(struct emu_vcpu *v, uint64_t pa, const struct emu_code *c, const uint8_t *buf,
		    uint32_t gen[2], uint32_t *epoch)
{
	struct emu_vm *vm = v->vm;
	uint64_t at[2] = {pa, (uint64_t)c->pfn2 << EMU_PAGE_SHIFT};
	unsigned int n[2] = {c->bytes, 0};
	uint32_t e;

	*epoch = 0;

	if (c->crosses) {
		n[0] = (unsigned int)(EMU_PAGE_SIZE - (pa & ~EMU_PAGE_MASK));
		n[1] = c->bytes - n[0];
	}
	for (int i = 0; i < 2 && n[i]; i++) {
		struct emu_page *page = &vm->pages[at[i] >> EMU_PAGE_SHIFT];
		uint64_t bits = piece_mask(at[i], n[i]);

		e = code_mark(v, at[i], n[i]);
		if (!all_acked(v, e))
			*epoch = e | !e; /* 0 means settled: use the next epoch */
		gen[i] = atomic_load(&page->gen);
		/* Pairs with the fence in emu_code_stored(). */
		atomic_thread_fence(memory_order_seq_cst);
		if (memcmp(vm->ram + at[i], buf + (i ? n[0] : 0), n[i]))
			return false;
		if ((atomic_load(&page->mask) & bits) != bits)
			return false;
	}
	return true;
}

bool emu_smc_page_add(struct emu_vcpu *v, uint32_t pfn, uint32_t gen, struct emu_block *b,
		      unsigned int which)
{
	struct emu_cpage *cp = cpage_find(v, pfn);

	if (!cp) {
		uint16_t *first = &v->cpage_first[pfn % v->max_cpages];

		if (v->nr_cpages == v->max_cpages)
			return false;
		cp = &v->cpages[v->nr_cpages++];
		*cp = (struct emu_cpage){.pfn = pfn, .gen = gen};
		v->cpage_next[v->nr_cpages - 1] = *first;
		*first = (uint16_t)v->nr_cpages;
	} else if (cp->gen != gen) {
		cpage_drop(v, cp);
		cp->gen = gen;
	}
	b->page_next[which] = cp->blocks;
	cp->blocks = b;
	return true;
}
