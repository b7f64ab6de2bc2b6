// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the choice of blocks, batches of translations, and running them; jit_part.c has
 * the memory of the code. exec.c and cache.c call these functions. The interpreter is the
 * reference: a block must end in the same state with and without a translation.
 */
#include <cpuid.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/emu/jit/jit.h"
#include "vmm/emu/pool.h"

/* A vCPU's tables: sites, then slots. */
#define SITES_BYTES (2 * sizeof(*((struct emu_vcpu *)0)->jit.sites))
#define TABLE_BYTES (SITES_BYTES + EMU_SLOTS * sizeof(struct emu_block *))

/* A block is translated after HOT executions, together with those successors that have NEXT_HOT. */
#define HOT	 64u
#define NEXT_HOT (HOT - 8u)
/* A hot block for which there is no room waits for so many more before all code makes room for it:
 * a loop with more code than there is room for would drop it in each round. */
#define LATER 4096u

/* Fewer instructions are not worth entry and exit if their block has others after them. */
#define LEAST_INSNS 4

/* Interpret a block again after POOR entries in a row that ran less translated code than POOR_INSNS
 * instructions. */
#define POOR	   64u
#define POOR_INSNS 24

struct jit_common jit_common;

static const char *why_off = "not opened";
static enum emu_jit_mode mode = EMU_JIT_HOT;

static bool host_can(void)
{
	unsigned int a, b, c = 0, d;

	if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & 1)) /* LAHF in 64-bit mode */
		return false;
	jit_common.popcnt = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_POPCNT);
	return true;
}

static void open_once(void)
{
	if (mode == EMU_JIT_OFF) {
		why_off = "--no-jit";
		return;
	}
	why_off = host_can() ? jit_parts_open() : "the host's CPU has no LAHF in 64-bit mode";
}

void emu_jit_open(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_once);
}

/* ---- sites ---- */

/* Interval in quarters of effort saved: some 100,000 instructions. */
#define CREDIT_QUARTERS 300000

/* Number of site pairs given to accesses. All later ones are empty and have credit. */
static unsigned int pairs(const struct emu_vcpu *v)
{
	uint32_t n = v->jit.nr_sites[v->jit.nr_sites[0] < v->jit.nr_sites[1]];

	return n < EMU_SITES ? n : EMU_SITES;
}

static void clear_sites(struct emu_vcpu *v)
{
	v->jit.sites_used = false;
	for (unsigned int user = 0; user < 2; user++)
		for (unsigned int i = 0; i < pairs(v); i++)
			v->jit.sites[user][i][0].tag = v->jit.sites[user][i][1].tag = EMU_SITE_NONE;
}

void emu_jit_drop_sites(struct emu_vcpu *v)
{
	if (!v->jit.sites_used)
		return;
	v->extra += EMU_EFFORT_SITES;
	clear_sites(v);
}

/* Give credit to the sites of one mode. Those of the other mode may be in no cache. */
static void give_credit(struct emu_vcpu *v, bool user)
{
	v->jit.credit_at[user] = v->jit.quarters - CREDIT_QUARTERS;
	for (unsigned int i = 0; i < pairs(v); i++)
		v->jit.sites[user][i][0].credit = v->jit.sites[user][i][1].credit = EMU_SITE_CREDIT;
}

/* ---- which blocks ---- */

static bool translated(const struct emu_block *b)
{
	return b->native_body;
}

static void untranslate(struct emu_block *b)
{
	b->native[0] = jit_exec(jit_common.untranslated[0]);
	b->native[1] = jit_exec(jit_common.untranslated[1]);
	b->native_body = 0;
	b->heat = mode == EMU_JIT_ALL ? 1 : HOT;
	b->poor = 0;
	b->ops[0].h = emu_labels[EMU_OP_HEAT];
}

void emu_jit_added(struct emu_vcpu *v, struct emu_block *b)
{
	b->h0 = b->ops[0].h;
	b->native_body = 0;
	if (!why_off && mode != EMU_JIT_OFF)
		untranslate(b);
}

void emu_jit_reset(struct emu_vcpu *v)
{
	v->extra += v->jit.used / EMU_EFFORT_DROP_BYTES;
	jit_parts_drop(v);
	clear_sites(v);
	give_credit(v, false);
	give_credit(v, true);
	v->jit.nr_sites[0] = v->jit.nr_sites[1] = v->jit.nr_slots = 0;
}

void emu_jit_fini(struct emu_vcpu *v)
{
	jit_parts_drop(v);
	emu_pool_put(v->jit.sites, TABLE_BYTES);
	free(v->jit.big);
	v->jit.sites = NULL;
	v->jit.big = NULL;
}

/* Drop all code, and keep the blocks. */
static void jit_forget(struct emu_vcpu *v)
{
	for (unsigned int i = 0; i <= v->hash_mask; i++)
		for (struct emu_block *b = v->hash[i]; b; b = b->hash_next)
			if (b->nr_ops)
				untranslate(b);
	emu_jit_reset(v);
	v->jit.forgot++;
}

static bool unsettled(const struct emu_vcpu *v, const struct emu_block *b)
{
	for (uint32_t i = 0; i < v->nr_unsettled; i++)
		if (v->unsettled[i].block == b)
			return true;
	return false;
}

/*
 * Two blocks on one page, guest-virtual and guest-physical, are valid at the same times: they share
 * the mapping, and a store to the page's code drops both (cpage_drop() in smc.c). Unsettled
 * blocks are dropped alone, and a block that crosses pages depends on the second one as well.
 */
bool jit_same_page(const struct emu_vcpu *v, const struct emu_block *from,
		   const struct emu_block *to)
{
	return to->ctx == v->ctx && from->ctx == v->ctx && to->nr_ops &&
	       !((from->rip ^ to->rip) >> EMU_PAGE_SHIFT) &&
	       !((from->pa ^ to->pa) >> EMU_PAGE_SHIFT) && from->pfn2 == UINT32_MAX &&
	       to->pfn2 == UINT32_MAX && !unsettled(v, to);
}

static bool worth(const struct emu_block *b)
{
	return !translated(b) && b->heat <= NEXT_HOT && b->heat;
}

void jit_reloc(struct jit *j, uint8_t *site, const uint8_t *to)
{
	if (j->nr_relocs == JIT_RELOCS)
		j->b.full = true;
	else
		j->relocs[j->nr_relocs++] = (struct jit_reloc){site, to};
}

/* Write the code of j->blk. Returns false if it has none, or there is no room (j->b.full). */
static bool write_block(struct jit *j)
{
	struct emu_vcpu *v = j->v;
	uint8_t *at = j->b.at;

	if (v->jit.nr_slots + EMU_BLOCK_SLOTS > (v->jit.big ? EMU_BIG_SLOTS : EMU_SLOTS)) {
		j->b.full = true;
		return false;
	}
	j->blk->slot = (uint16_t)v->jit.nr_slots;
	v->jit.slots[j->blk->slot + EMU_SLOT_SELF] = j->blk;
	v->extra += EMU_EFFORT_TRANSLATE + EMU_EFFORT_TRANSLATE_INSN * (uint32_t)j->blk->n;
	if (!jit_block(j)) {
		if (!j->b.full)
			j->b.at = at;
		return false;
	}
	v->jit.nr_slots += EMU_BLOCK_SLOTS;
	return true;
}

/* Write the code of list[0] and of its hot successors, as far as there is room. Returns the number
 * of blocks in the list, including those without code. */
static unsigned int write_batch(struct jit *j, struct emu_block *list[JIT_BATCH])
{
	unsigned int n = 1;

	for (unsigned int i = 0; i < n; i++) {
		unsigned int jumps = j->nr_jumps;
		uint8_t *at = j->b.at;

		j->blk = list[i];
		list[i]->heat = 0;
		list[i]->ops[0].h = list[i]->h0;
		if (!write_block(j)) {
			if (!j->b.full)
				continue;
			if (!i)
				break;
			/* Without the blocks before it, this one may have room. */
			j->b.at = at;
			j->b.full = false;
			while (n > i)
				untranslate(list[--n]);
			break;
		}
		for (; jumps < j->nr_jumps; jumps++) {
			/* The links are the ops' own: they may be changed here. */
			struct emu_block *to = (struct emu_block *)(uintptr_t)j->jumps[jumps].to;

			if (n < JIT_BATCH && worth(to)) {
				to->heat = 0;
				list[n++] = to;
			}
		}
	}
	return n;
}

/* Direct the jumps of the batch at @code to translated blocks. */
static void link_jumps(struct jit *j, const uint8_t *code)
{
	for (unsigned int i = 0; i < j->nr_jumps; i++) {
		const struct jit_jump *p = &j->jumps[i];
		const uint8_t *to = p->to->native[p->taken];

		if (!translated(p->to))
			continue;
		if (to >= code && to < j->b.at)
			x_link(&j->b, p->site, to);
		else
			jit_reloc(j, p->site, jit_common.write + (to - jit_common.exec));
	}
}

/* Translate @first and its hot successors. Returns false if this vCPU has no room for more code;
 * then nothing is translated. */
static bool batch(struct emu_vcpu *v, struct emu_block *first)
{
	_Alignas(64) uint8_t code[JIT_PART_BYTES];
	struct emu_block *list[JIT_BATCH] = {first};
	const uint8_t *at = NULL;
	unsigned int n;
	struct jit j;

	j.v = v;
	j.b = (struct jit_buf){code, code + jit_room(v), false};
	j.nr_jumps = j.nr_relocs = 0;
	j.aligned = false;
	j.least = mode == EMU_JIT_ALL ? 1 : LEAST_INSNS;
	n = write_batch(&j, list);
	if (!j.b.full)
		link_jumps(&j, code);
	x_align(&j.b, 64);
	if (j.b.full) {
		for (unsigned int i = 0; i < n; i++)
			untranslate(list[i]);
		return false;
	}
	if (j.b.at > code)
		at = jit_place(v, code, (uint32_t)(j.b.at - code), j.relocs, j.nr_relocs);
	for (unsigned int i = 0; i < n; i++) {
		struct emu_block *b = list[i];

		if (!translated(b))
			continue;
		if (!at) { /* no memory: the interpreter keeps the block */
			untranslate(b);
			b->heat = 0;
			b->ops[0].h = b->h0;
			continue;
		}
		for (unsigned int t = 0; t < 2; t++)
			b->native[t] = at + ((const uint8_t *)b->native[t] - code);
		b->ops[0].h = emu_labels[EMU_OP_NATIVE];
	}
	return true;
}

/* Allocate sites and slots for @v. */
static bool jit_take(struct emu_vcpu *v)
{
	if (v->jit.sites)
		return true;
	v->jit.sites = emu_pool_get(TABLE_BYTES);
	if (!v->jit.sites)
		return false;
	v->jit.slots = (struct emu_block **)(void *)((char *)v->jit.sites + SITES_BYTES);
	for (unsigned int i = 0; i < 4 * EMU_SITES; i++)
		(&v->jit.sites[0][0][0])[i] =
			(struct emu_site){.tag = EMU_SITE_NONE, .credit = EMU_SITE_CREDIT};
	return true;
}

/* @v has more code than a freestanding guest: raise its limit. Returns false if it cannot be
 * raised, or was before. */
static bool jit_grow(struct emu_vcpu *v)
{
	if (!v->chip || v->jit.big || !jit_parts_plenty())
		return false;
	v->jit.big = malloc(EMU_BIG_SLOTS * sizeof(*v->jit.big));
	if (!v->jit.big)
		return false;
	memcpy(v->jit.big, v->jit.slots, v->jit.nr_slots * sizeof(*v->jit.big));
	v->jit.slots = v->jit.big;
	return true;
}

static void translate(struct emu_vcpu *v, struct emu_block *b)
{
	bool waited = b->poor || mode == EMU_JIT_ALL;

	if (!jit_take(v)) {
		b->ops[0].h = b->h0;
		return;
	}
	if (batch(v, b) || (jit_grow(v) && batch(v, b)))
		return;
	if (waited) {
		jit_forget(v);
		batch(v, b);
	} else {
		b->poor = 1;
		b->heat = LATER;
	}
}

const void *emu_jit_heat(struct emu_vcpu *v, struct emu_block *b)
{
	if (--b->heat)
		return b->h0;
	if (unsettled(v, b)) {
		b->heat = HOT;
		return b->h0;
	}
	translate(v, b);
	return translated(b) ? b->ops[0].h : b->h0;
}

/* ---- running ---- */

static uint32_t to_ax(uint64_t f)
{
	return (uint32_t)((f & 0xff) << 8 | (f & EMU_OF ? 1 : 0));
}

/* Set the flags in the middle of a block. Later ops may rely on the kind of operation that left
 * them, and read fl_a and fl_b as its operands: choose operands that fit. */
static void flags_inside(struct emu_vcpu *v, uint64_t f, bool sub)
{
	bool cf = f & EMU_CF, less = !(f & EMU_SF) != !(f & EMU_OF);
	uint64_t a, b;

	if (sub) { /* a - b: equal by ZF, unsigned order by CF, signed order by SF and OF */
		a = f & EMU_ZF ? 0 : cf ? 0 : less ? ~0ULL : 1;
		b = f & EMU_ZF ? 0 : cf ? (less ? 1 : ~0ULL) : 0;
	} else { /* a is the result; b is more than it, if there is a carry */
		a = f & EMU_ZF ? 0 : f & EMU_SF ? 1ULL << 63 : 1;
		b = cf ? ~0ULL : 0;
	}
	emu_fl_set(v, EMU_FK(SUB, 3) | EMU_FK_OVER, a, b);
	v->fl_omask = EMU_ARITH;
	v->fl_oval = (uint32_t)f;
}

uint32_t emu_jit_run(struct emu_vcpu *v, struct emu_block *b)
{
	int64_t left = v->left, insns;
	uint32_t word;
	uint64_t f;

	v->jit.ax = to_ax(emu_flags(v));
	if (unlikely(v->jit.quarters < v->jit.credit_at[v->cpl == 3]))
		give_credit(v, v->cpl == 3);
	v->jit.sites_now = v->jit.sites[v->cpl == 3];
	v->jit.sites_used = true;
	v->jit.sums[0] = v->acc;
	v->jit.sums[1] = (uint64_t)(v->jit.quarters + b->native_effort);
	jit_simd_begin(v, b);
	word = jit_common.enter(v, (const uint8_t *)b->native[1] + b->native_body);
	v->acc = v->jit.sums[0];
	v->jit.quarters = (int64_t)v->jit.sums[1] - (int16_t)(word >> JIT_WORD_REST);
	f = (v->jit.ax >> 8 & EMU_ARITH & 0xff) | (v->jit.ax & 1 ? EMU_OF : 0);
	insns = (left - v->left) >> EMU_LEFT_SHIFT;
	word &= (1u << JIT_WORD_REST) - 1;
	if (EMU_JIT_KIND(word) == EMU_JIT_OP) {
		flags_inside(v, f, word & JIT_WORD_SUB);
		word &= JIT_WORD_SUB - 1;
		insns += EMU_JIT_INDEX(word);
	} else {
		emu_fl_raw(v, f);
		insns += b->n;
	}
	jit_simd_end(v, word, insns);
	emu_warm_left(v, v->jit.block);
	if (EMU_JIT_KIND(word) != EMU_JIT_ENTER)
		v->cur = v->jit.block;
	if (EMU_JIT_KIND(word) == EMU_JIT_TAKEN || EMU_JIT_KIND(word) == EMU_JIT_FALL)
		emu_jit_slot(v, v->cur, EMU_JIT_KIND(word) == EMU_JIT_TAKEN);
	if (insns >= POOR_INSNS)
		b->poor = 0;
	else if (++b->poor == POOR && mode != EMU_JIT_ALL)
		b->ops[0].h = b->h0;
	return word;
}

const char *emu_jit_off(void)
{
	return why_off ? why_off : mode == EMU_JIT_OFF ? "--no-jit" : NULL;
}

const char *vmm_emu_translate(bool on)
{
	if (!on)
		mode = EMU_JIT_OFF;
	emu_jit_open();
	return emu_jit_off();
}

void emu_jit_set(enum emu_jit_mode m)
{
	mode = m;
}
