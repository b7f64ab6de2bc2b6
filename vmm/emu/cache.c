// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cache of decoded blocks of one vCPU, and its invalidation when code is overwritten. Callers
 * are the dispatch loop and run.c (emu_find), and everything that stores to guest memory. A block
 * with overwritten code must never execute beyond the safe points below.
 *
 * Finding a block. A block is identified by its guest-physical address and its virtual address.
 * b->ctx is the value of v->ctx (mapping and privilege) for which this pair was last checked. So a
 * transfer of control costs one comparison of ctx, and a change of mapping invalidates all blocks
 * by incrementing v->map_gen.
 *
 * Self-modifying code. vm->pages[] marks the 64-byte pieces of a page that hold code decoded by any
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
#include <stdlib.h>
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/pool.h"
#include "vmm/emu/svm/svm.h"

#define MAP_GEN_LIMIT (0xffffff00u >> EMU_CTX_GEN)

/* Stands for "no block" in the tables and links. Its ctx never equals the ctx of a vCPU. */
static struct emu_block nowhere = {.rip = ~0ULL, .pfn2 = UINT32_MAX};

static unsigned int hash_index(const struct emu_vcpu *v, uint64_t pa)
{
	return (unsigned int)(pa ^ pa >> EMU_HASH_BITS ^ pa >> EMU_BIG_HASH_BITS) & v->hash_mask;
}

/* The initial tables of every vCPU. */
static void little_tables(struct emu_vcpu *v)
{
	v->hash = v->little.hash;
	v->hash_mask = EMU_HASH_SIZE - 1;
	v->cpages = v->little.cpages;
	v->cpage_first = v->little.cpage_first;
	v->cpage_next = v->little.cpage_next;
	v->max_cpages = EMU_CPAGES;
	v->max_chunks = EMU_ARENA_CHUNKS;
}

/* The larger tables. The caller drops all blocks. Without memory the old tables stay. */
static void big_tables(struct emu_vcpu *v)
{
	struct big {
		struct emu_block *hash[1u << EMU_BIG_HASH_BITS];
		struct emu_cpage cpages[EMU_BIG_CPAGES];
		uint16_t cpage_first[EMU_BIG_CPAGES], cpage_next[EMU_BIG_CPAGES];
	} *big = malloc(sizeof(*big));

	if (!big)
		return;
	v->big = big;
	v->hash = big->hash;
	v->hash_mask = (1u << EMU_BIG_HASH_BITS) - 1;
	v->cpages = big->cpages;
	v->cpage_first = big->cpage_first;
	v->cpage_next = big->cpage_next;
	v->max_cpages = EMU_BIG_CPAGES;
	v->max_chunks = EMU_BIG_CHUNKS;
}

void emu_cache_reset(struct emu_vcpu *v)
{
	for (unsigned int i = 0; i < EMU_JC_SIZE; i++)
		v->jc[i] = &nowhere;
	memset(v->hash, 0, (v->hash_mask + 1) * sizeof(v->hash[0]));
	memset(v->cpage_first, 0, v->max_cpages * sizeof(v->cpage_first[0]));
	v->nr_cpages = 0;
	v->density = 1;
	v->nr_unsettled = 0;
	v->link = NULL;
	v->cur = &nowhere;
	v->rest.block = NULL;
	for (struct emu_chunk *c = v->arena; c; c = c->next)
		c->used = 0;
	v->arena_free = v->arena;
	emu_jit_reset(v);
}

static void ltlb_reset(struct emu_vcpu *v)
{
	for (unsigned int i = 0; i < EMU_LTLB_SIZE; i++)
		v->ltlb[i].tag = EMU_TAG_NONE;
}

int emu_cache_init(struct emu_vcpu *v)
{
	v->map_gen = v->last_gen = 1;
	little_tables(v);
	emu_cache_reset(v);
	v->nr_filled = EMU_FILLED + 1;
	ltlb_reset(v);
	emu_tlb_flush(v);
	return 0;
}

void emu_cache_fini(struct emu_vcpu *v)
{
	struct emu_chunk *c = v->arena;

	while (c) {
		struct emu_chunk *next = c->next;

		emu_pool_put(c, sizeof(*c) + EMU_ARENA_CHUNK);
		c = next;
	}
	v->arena = v->arena_free = NULL;
	emu_jit_fini(v);
	free(v->big);
	v->big = NULL;
}

/* Returns room for a block, or NULL if the arena is full or the host is out of memory. */
static struct emu_block *arena_alloc(struct emu_vcpu *v, size_t bytes)
{
	struct emu_chunk *c = v->arena_free;

	bytes = (bytes + 63) & ~63ULL;
	if (c && c->used + bytes > EMU_ARENA_CHUNK)
		c = c->next; /* the chunks after arena_free are empty */
	if (!c) {
		if (v->nr_chunks == v->max_chunks)
			return NULL;
		c = emu_pool_get(sizeof(*c) + EMU_ARENA_CHUNK);
		if (!c)
			return NULL;
		c->next = NULL;
		c->used = 0;
		if (v->arena_free)
			v->arena_free->next = c;
		else
			v->arena = c;
		v->nr_chunks++;
	}
	v->arena_free = c;
	c->used += (uint32_t)bytes;
	return (struct emu_block *)(c->mem + c->used - bytes);
}

/* ---- decoded code in guest pages ------------------------------------------------------------ */

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
	 * fence in cache_settle(): either this vCPU sees the mask, or that one the new bytes. */
	atomic_thread_fence(memory_order_seq_cst);
	if (likely(!emu_code_hit(vm, p, bytes)))
		return false;
	/* The mask must be cleared first: cache_settle() on another vCPU that reads the new
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

/* The bytes from which unsettled block @b was decoded. */
static uint8_t *block_code(struct emu_block *b)
{
	return (uint8_t *)&b->ops[b->nr_ops];
}

/* Returns true if guest memory still has the bytes from which @b was decoded. */
static bool block_unchanged(const struct emu_vcpu *v, struct emu_block *b)
{
	unsigned int n = b->bytes, room = (unsigned int)(EMU_PAGE_SIZE - (b->pa & ~EMU_PAGE_MASK));

	if (n > room)
		n = room;
	return !memcmp(v->vm->ram + b->pa, block_code(b), n) &&
	       !memcmp(v->vm->ram + ((uint64_t)b->pfn2 << EMU_PAGE_SHIFT), block_code(b) + n,
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

/* Check @b at each safe point until all vCPUs have seen @e. */
static void unsettled_add(struct emu_vcpu *v, struct emu_block *b, uint32_t e)
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

/* ---- finding and making blocks ----------------------------------------------------------------
 */

/* Mark the block's bytes as code. Returns true if they are still the bytes that were decoded; if
 * not, the caller must decode again. *epoch: the block is unsettled until all vCPUs have seen it;
 * 0: it is settled. */
static bool cache_settle(struct emu_vcpu *v, uint64_t pa, const struct emu_code *c,
			 const uint8_t *buf, uint32_t gen[2], uint32_t *epoch)
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

static bool cpage_add(struct emu_vcpu *v, uint32_t pfn, uint32_t gen, struct emu_block *b,
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

static uint8_t branch_type(uint32_t branch)
{
	switch (branch) {
	case VPMU_LBR_IND_JMP:
		return EMU_LBR_IND_JMP;
	case VPMU_LBR_REL_JMP:
		return EMU_LBR_REL_JMP;
	case VPMU_LBR_IND_CALL:
		return EMU_LBR_IND_CALL;
	case VPMU_LBR_REL_CALL:
		return EMU_LBR_REL_CALL;
	case VPMU_LBR_RET:
		return EMU_LBR_RET;
	default:
		return EMU_LBR_JCC;
	}
}

/* @buf: the bytes, if the block is unsettled; else NULL. */
static struct emu_block *block_new(struct emu_vcpu *v, uint64_t pa, const struct emu_code *c,
				   const uint8_t *buf, const uint32_t gen[2])
{
	size_t bytes =
		sizeof(struct emu_block) + c->nr_ops * sizeof(struct emu_op) + (buf ? c->bytes : 0);
	struct emu_block *b = arena_alloc(v, bytes);
	unsigned int h = hash_index(v, pa);

	if (!b)
		return NULL;
	*b = (struct emu_block){
		.pa = pa,
		.target = c->target,
		.next = c->next,
		.pfn2 = c->crosses ? c->pfn2 : UINT32_MAX,
		.nr_ops = (uint16_t)c->nr_ops,
		.bytes = (uint16_t)c->bytes,
		.last = c->last,
		.branch = c->branch,
		.branch_type = branch_type(c->branch),
		.rip = c->rip,
		.ctx = v->ctx,
		.n = (int32_t)c->n,
		.step = c->step,
		.sum = c->sum,
	};
	memcpy(b->ops, c->ops, c->nr_ops * sizeof(struct emu_op));
	if (buf)
		memcpy(block_code(b), buf, c->bytes);
	if (c->ended) {
		struct emu_op *last = &b->ops[c->nr_ops - 1];

		if (last->flags & EMU_OPF_TAKEN)
			last->taken = &nowhere;
		if (last->flags & EMU_OPF_FALL)
			last->fall = &nowhere;
	}
	if (!cpage_add(v, (uint32_t)(pa >> EMU_PAGE_SHIFT), gen[0], b, 0))
		return NULL;
	if (c->crosses && !cpage_add(v, c->pfn2, gen[1], b, 1))
		return NULL;
	emu_alarm_decoded(v, b, c->solo);
	emu_jit_added(v, b);
	b->hash_next = v->hash[h];
	v->hash[h] = b;
	return b;
}

/* Set *same if the second page of a crossing instruction still maps to the page it was decoded
 * from, or if @b has no such instruction. Traps. */
static int check_second(struct emu_vcpu *v, const struct emu_block *b, bool *same)
{
	uint64_t pa;

	*same = true;
	if (b->pfn2 == UINT32_MAX)
		return 0;
	if (emu_translate(v, (b->rip & EMU_PAGE_MASK) + EMU_PAGE_SIZE,
			  EMU_ACC_X | (v->cpl == 3 ? EMU_ACC_U : 0), &pa, NULL))
		return 1;
	*same = pa >> EMU_PAGE_SHIFT == b->pfn2;
	return 0;
}

static struct emu_block *find_slow(struct emu_vcpu *v)
{
	unsigned int acc = EMU_ACC_X | (v->cpl == 3 ? EMU_ACC_U : 0);
	uint8_t buf[EMU_BLOCK_BYTES];
	struct emu_code code;
	struct emu_block *b, **at;
	uint32_t gen[2] = {0, 0};
	uint64_t pa;
	uint32_t epoch;
	bool same, good;

	if (unlikely(v->last_gen >= MAP_GEN_LIMIT)) {
		emu_cache_reset(v);
		emu_svm_forget(v);
		v->last_gen = 0;
		ltlb_reset(v);
		emu_tlb_flush(v);
	}
	v->extra += EMU_EFFORT_FIND;
	/* The block may reach into the next page. */
	v->code_seen |= emu_seen_bit(v->rip >> EMU_PAGE_SHIFT) |
			emu_seen_bit((v->rip >> EMU_PAGE_SHIFT) + 1);
	v->large_code_seen |= emu_seen_bit(v->rip >> 21) | emu_seen_bit((v->rip + 4096) >> 21);
	if (emu_translate(v, v->rip, acc, &pa, NULL))
		return NULL;
	if (!emu_is_ram(v->vm, pa)) {
		emu_error(v, "instruction fetch from guest-physical 0x%llx, where there is no RAM",
			  (unsigned long long)pa);
		return NULL;
	}
	for (at = &v->hash[hash_index(v, pa)]; (b = *at);) {
		if (!b->nr_ops) { /* killed: its code was overwritten */
			*at = b->hash_next;
			continue;
		}
		at = &b->hash_next;
		if (b->pa != pa || b->rip != v->rip)
			continue;
		if (check_second(v, b, &same))
			return NULL;
		if (same) {
			b->ctx = v->ctx;
			return b;
		}
	}
	do {
		if (emu_decode(v, pa, &code, buf))
			return NULL;
		v->extra += EMU_EFFORT_DECODE + EMU_EFFORT_DECODE_INSN * code.n;
		good = cache_settle(v, pa, &code, buf, gen, &epoch);
		if (v->extra >= v->extra_stop) {
			v->attn |= EMU_ATTN_SPENT;
			if (!good) /* overwritten again and again by others: let run() return */
				return NULL;
		}
	} while (!good);
	b = block_new(v, pa, &code, epoch ? buf : NULL, gen);
	if (!b) {
		if (v->chip && !v->big)
			big_tables(v);
		emu_cache_reset(v);
		b = block_new(v, pa, &code, epoch ? buf : NULL, gen);
	}
	if (!b)
		emu_error(v, "no memory for decoded code");
	else if (epoch)
		unsettled_add(v, b, epoch);
	return b;
}

struct emu_block *emu_find(struct emu_vcpu *v)
{
	unsigned int i = emu_jc_index(v->rip);
	struct emu_block *b = v->jc[i];

	if (unlikely(v->brk.code) && !v->brk.near && emu_watched(v, v->brk.code, v->rip)) {
		v->link = NULL;
		v->trap = EMU_TRAP_NEAR;
		return NULL;
	}
	if (b->rip != v->rip || b->ctx != v->ctx) {
		b = find_slow(v);
		if (unlikely(!b)) {
			v->link = NULL;
			return NULL;
		}
		v->jc[emu_jc_index(v->rip)] = b;
	}
	if (v->link) {
		*v->link = b;
		v->link = NULL;
	}
	return b;
}
