// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cache of decoded blocks of one vCPU. The dispatch loop and run.c call emu_find(). A block
 * with overwritten code (smc.c) must never be found.
 *
 * Finding a block. A block is identified by its guest-physical address and its virtual address.
 * b->ctx is the value of v->ctx (mapping and privilege) for which this pair was last checked. So a
 * transfer of control costs one comparison of ctx, and a change of mapping invalidates all blocks
 * by incrementing v->map_gen. v->kernel_gen takes its place outside of CPL 3: it survives loads of
 * CR3 while all code found there is in global pages, as a kernel's is.
 */
#include <stdlib.h>
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/pool.h"
#include "vmm/emu/svm/svm.h"

/* Stands for "no block" in the tables and links. Its ctx never equals the ctx of a vCPU. */
static struct emu_block nowhere = {.rip = ~0ULL, .pfn2 = UINT32_MAX};

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
	for (unsigned int i = 0; i < EMU_ITLB_SIZE; i++)
		v->itlb[i].ctx = EMU_CTX_NEVER;
}

int emu_cache_init(struct emu_vcpu *v)
{
	v->map_gen = v->kernel_gen = v->last_gen = 1;
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
	unsigned int h = emu_hash_index(v, pa, v->rip);

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
		memcpy(emu_block_code(b), buf, c->bytes);
	if (c->ended) {
		struct emu_op *last = &b->ops[c->nr_ops - 1];

		if (last->flags & EMU_OPF_TAKEN)
			last->taken = &nowhere;
		if (last->flags & EMU_OPF_FALL)
			last->fall = &nowhere;
	}
	if (!emu_smc_page_add(v, (uint32_t)(pa >> EMU_PAGE_SHIFT), gen[0], b, 0))
		return NULL;
	if (c->crosses && !emu_smc_page_add(v, c->pfn2, gen[1], b, 1))
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

/* Translate v->rip, with the page that was found last in the same mapping and mode. Traps. */
static int find_address(struct emu_vcpu *v, uint64_t *pa)
{
	struct emu_itlbe *e = &v->itlb[v->rip >> EMU_PAGE_SHIFT & (EMU_ITLB_SIZE - 1)];
	uint64_t page = v->rip & EMU_PAGE_MASK;

	if (e->page == page && e->ctx == v->ctx) {
		*pa = e->pa | (v->rip & ~EMU_PAGE_MASK);
		return 0;
	}
	if (emu_translate(v, v->rip, EMU_ACC_X | (v->cpl == 3 ? EMU_ACC_U : 0), pa, NULL))
		return 1;
	*e = (struct emu_itlbe){page, *pa & EMU_PAGE_MASK, v->ctx};
	return 0;
}

/* @had: the block in jc at v->rip, often the right one with an old ctx. */
static struct emu_block *find_slow(struct emu_vcpu *v, struct emu_block *had)
{
	uint8_t buf[EMU_BLOCK_BYTES];
	struct emu_code code;
	struct emu_block *b, **at;
	uint32_t gen[2] = {0, 0};
	unsigned int hops = 0;
	uint64_t pa;
	uint32_t epoch;
	bool same, good;

	if (unlikely(v->last_gen >= EMU_GEN_LIMIT)) {
		emu_cache_reset(v);
		had = &nowhere;
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
	if (find_address(v, &pa))
		return NULL;
	if (!emu_is_ram(v->vm, pa)) {
		emu_error(v, "instruction fetch from guest-physical 0x%llx, where there is no RAM",
			  (unsigned long long)pa);
		return NULL;
	}
	if (had->rip == v->rip && had->pa == pa && had->nr_ops && had->pfn2 == UINT32_MAX) {
		had->ctx = v->ctx;
		return had;
	}
	for (at = &v->hash[emu_hash_index(v, pa, v->rip)]; (b = *at);) {
		/* A guest can choose addresses so that one chain has all blocks. */
		if (++hops % EMU_FIND_HOPS == 0)
			v->extra += EMU_EFFORT_FIND;
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
		good = emu_smc_settle(v, pa, &code, buf, gen, &epoch);
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
		emu_smc_check(v, b, epoch);
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
		b = find_slow(v, b);
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
