// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MOVS, STOS, LODS, CMPS and SCAS, plain and repeated. The dispatch loop calls emu_help_string(). A
 * repeated instruction counts as one instruction. When a fault, a kick or a single step interrupts
 * it, RCX, RSI and RDI hold its progress, and it must not retire: it is executed again from there
 * (SDM vol. 2, REP). Repeated instructions process page piece by page piece instead of element by
 * element where they can.
 */
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/cpu/emit.h"

struct str {
	struct emu_vcpu *v;
	uint64_t seg;	/* segment base of the source */
	uint64_t amask; /* the address bits of the address size */
	int64_t step;	/* bytes from one element to the next; negative if DF is set */
	unsigned int bytes;
	unsigned int lg;  /* bytes is 1 << lg */
	unsigned int acc; /* EMU_ACC_U in user mode */
};

static uint64_t src_at(const struct str *s)
{
	return s->seg + (s->v->r[EMU_RSI] & s->amask);
}

static uint64_t dst_at(const struct str *s)
{
	return s->v->r[EMU_RDI] & s->amask;
}

/* Move register @reg by @n elements. With a 32-bit address size its upper half becomes 0. */
static void string_advance(struct str *s, unsigned int reg, uint64_t n)
{
	s->v->r[reg] = (s->v->r[reg] + (uint64_t)s->step * n) & s->amask;
}

static void cmp_flags(struct emu_vcpu *v, unsigned int lg, uint64_t a, uint64_t b)
{
	emu_fl_set(v, EMU_FK(SUB, lg), emu_sext(a, lg), emu_sext(b, lg));
}

/* Process one element. Traps. CMPS reads two memory operands; if both fault, the first fault is
 * reported. Intel's CPUs read the operand at ES:[RDI] first, AMD's the operand at DS:[RSI]. */
static int string_one(struct str *s, unsigned int kind, unsigned int lg)
{
	struct emu_vcpu *v = s->v;
	bool dst_first = kind == STR_SCAS || (kind == STR_CMPS && v->intel);
	uint64_t a = 0, b = 0;

	if (dst_first) {
		b = emu_ld_slow(v, dst_at(s), s->bytes);
		if (v->trap)
			return 1;
	}
	if (kind == STR_MOVS || kind == STR_LODS || kind == STR_CMPS) {
		a = emu_ld_slow(v, src_at(s), s->bytes);
		if (v->trap)
			return 1;
	}
	if (kind == STR_CMPS && !dst_first) {
		b = emu_ld_slow(v, dst_at(s), s->bytes);
		if (v->trap)
			return 1;
	}
	switch (kind) {
	case STR_MOVS:
		if (emu_st_slow(v, dst_at(s), s->bytes, a))
			return 1;
		break;
	case STR_STOS:
		if (emu_st_slow(v, dst_at(s), s->bytes, v->r[EMU_RAX]))
			return 1;
		break;
	case STR_LODS:
		emu_wr(v, EMU_RAX, s->bytes, a);
		break;
	case STR_CMPS:
		cmp_flags(v, lg, a, b);
		break;
	case STR_SCAS:
		cmp_flags(v, lg, emu_rd(v, EMU_RAX, s->bytes), b);
		break;
	}
	if (kind != STR_STOS && kind != STR_SCAS)
		string_advance(s, EMU_RSI, 1);
	if (kind != STR_LODS)
		string_advance(s, EMU_RDI, 1);
	return 0;
}

/* Number of elements from @at on, in the direction of the instruction, below @end. */
static uint64_t room_below(const struct str *s, uint64_t at, uint64_t end)
{
	if (s->step > 0)
		return (end - at) >> s->lg;
	return at + s->bytes <= end ? (at >> s->lg) + 1 : 0;
}

/* Number of elements from @va on, at offset register @reg of the segment, inside @va's page and
 * before the offset wraps around. */
static uint64_t string_room(const struct str *s, uint64_t va, unsigned int reg)
{
	uint64_t n = room_below(s, va & ~EMU_PAGE_MASK, EMU_PAGE_SIZE), wrap;

	if (likely(s->amask == ~0ULL))
		return n;
	wrap = room_below(s, s->v->r[reg] & s->amask, 1ULL << 32);
	return wrap < n ? wrap : n;
}

/* Host address at which a whole piece may be read or stored directly. NULL: it trapped, or the page
 * of a store holds decoded code, or the page has a breakpoint. */
static inline uint8_t *piece(struct str *s, uint64_t va, bool write)
{
	struct emu_vcpu *v = s->v;
	const struct emu_tlbe *e = &v->tlb[va >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
	uint8_t *p;

	if (likely((write ? e->wtag : e->rtag) == (va & EMU_PAGE_MASK)))
		return (uint8_t *)(e->add + va);
	if (unlikely(v->brk.data) && emu_watched(v, v->brk.data, va))
		return NULL;
	p = emu_host(v, va, s->acc | (write ? EMU_ACC_W : 0));
	if (unlikely(v->trap == EMU_TRAP_DEVICE))
		v->trap = EMU_TRAP_NONE; /* one element at a time */
	/* emu_host() makes a store hit the TLB unless there is code in the page. */
	return p && write && e->wtag != (va & EMU_PAGE_MASK) ? NULL : p;
}

/* Copy @n elements from @p to @d, one after the other. */
static void string_copy(const struct str *s, uint8_t *d, const uint8_t *p, uint64_t n)
{
	uint64_t bytes = n * s->bytes, apart = (uint64_t)(d - p), done;

	if (s->step < 0) {
		if (d < p && (uint64_t)(p - d) < bytes) {
			for (uint64_t i = 0; i < n; i++, d -= s->bytes, p -= s->bytes)
				emu_put(d, s->bytes, emu_get(p, s->bytes));
			s->v->extra += n;
			return;
		}
		d -= bytes - s->bytes;
		p -= bytes - s->bytes;
	} else if (d > p && apart < bytes) {
		/* The destination begins inside the source: the copied bytes are the source of
		 * later ones. */
		if (apart < s->bytes) {
			for (uint64_t i = 0; i < bytes; i += s->bytes)
				emu_put(d + i, s->bytes, emu_get(p + i, s->bytes));
			s->v->extra += n;
			return;
		}
		memcpy(d, p, apart);
		for (done = apart; done < bytes; done *= 2)
			memcpy(d + done, d, done < bytes - done ? done : bytes - done);
		return;
	}
	memmove(d, p, bytes);
}

/* Store @x to the @n elements upwards from @d. */
static void string_fill(const struct str *s, uint8_t *d, uint64_t x, uint64_t n)
{
	uint64_t bytes = n * s->bytes;

	if (s->bytes == 1) {
		memset(d, (uint8_t)x, n);
		return;
	}
	emu_put(d, s->bytes, x);
	for (uint64_t done = s->bytes; done < bytes; done *= 2)
		memcpy(d + done, d, done < bytes - done ? done : bytes - done);
}

/* Compare the elements @n at @a with those at @b, or all with @x if @b is NULL, until two are equal
 * (@equal) or differ. Returns the number compared. @bytes is a constant. */
static inline __attribute__((always_inline)) uint64_t
string_scan(const struct str *s, const uint8_t *a, const uint8_t *b, uint64_t x, uint64_t n,
	    bool equal, unsigned int bytes)
{
	for (uint64_t i = 0; i < n; i++, a += s->step) {
		if (b) {
			x = emu_get(b, bytes);
			b += s->step;
		}
		if ((emu_get(a, bytes) == x) == equal) {
			n = i + 1;
			break;
		}
	}
	s->v->extra += n / 2;
	return n;
}

static uint64_t string_compare(const struct str *s, const uint8_t *a, const uint8_t *b, uint64_t x,
			       uint64_t n, bool equal)
{
	uint64_t bytes = n * s->bytes, same = 0, skip;
	const uint8_t *hit;

	if (!b && equal && s->bytes == 1 && s->step > 0) {
		hit = memchr(a, (int)x, n);
		n = hit ? (uint64_t)(hit - a) + 1 : n;
		s->v->extra += n / EMU_EFFORT_PIECE_BYTES;
		return n;
	}
	if (b && !equal) { /* eight bytes at a time while they are equal */
		if (s->step > 0)
			while (same + 8 <= bytes && emu_get(a + same, 8) == emu_get(b + same, 8))
				same += 8;
		else
			while (same + 8 <= bytes && emu_get(a + s->bytes - same - 8, 8) ==
							    emu_get(b + s->bytes - same - 8, 8))
				same += 8;
	}
	s->v->extra += same / 12;
	skip = same >> s->lg;
	if (skip == n)
		return n;
	a += (int64_t)skip * s->step;
	b = b ? b + (int64_t)skip * s->step : NULL;
	n -= skip;
	switch (s->bytes) {
	case 1:
		return skip + string_scan(s, a, b, x, n, equal, 1);
	case 2:
		return skip + string_scan(s, a, b, x, n, equal, 2);
	case 4:
		return skip + string_scan(s, a, b, x, n, equal, 4);
	default:
		return skip + string_scan(s, a, b, x, n, equal, 8);
	}
}

/* Number of elements (up to @count) that MOVS and so on can process in the current pages. */
static inline uint64_t string_fit(const struct str *s, bool reads, bool to_di, uint64_t count)
{
	uint64_t n;

	if (to_di) {
		n = string_room(s, dst_at(s), EMU_RDI);
		count = n < count ? n : count;
	}
	if (reads) {
		n = string_room(s, src_at(s), EMU_RSI);
		count = n < count ? n : count;
	}
	return count;
}

/* Process the elements (up to @count) of MOVS or STOS in the current pages. Returns their number.
 * 0: it trapped, or the caller must process one element by string_one(). */
static uint64_t bulk_store(struct str *s, bool movs, uint64_t count)
{
	struct emu_vcpu *v = s->v;
	uint64_t n = string_fit(s, movs, true, count);
	uint8_t *d, *p;

	if (n < 2)
		return 0;
	v->extra += EMU_EFFORT_PIECE + n * s->bytes / EMU_EFFORT_PIECE_BYTES;
	if (movs) {
		p = piece(s, src_at(s), false);
		if (!p)
			return 0;
		d = piece(s, dst_at(s), true);
		if (!d)
			return 0;
		string_copy(s, d, p, n);
		string_advance(s, EMU_RSI, n);
	} else {
		d = piece(s, dst_at(s), true);
		if (!d)
			return 0;
		string_fill(s, s->step < 0 ? d - (n - 1) * s->bytes : d, v->r[EMU_RAX], n);
	}
	string_advance(s, EMU_RDI, n);
	return n;
}

/* The same for LODS, CMPS and SCAS; the last two end when two elements are equal (@equal), or
 * differ. */
static uint64_t bulk_load(struct str *s, unsigned int kind, unsigned int lg, bool equal,
			  uint64_t count)
{
	struct emu_vcpu *v = s->v;
	uint64_t n = string_fit(s, kind != STR_SCAS, kind != STR_LODS, count), x;
	int64_t last;
	const uint8_t *a = NULL, *b = NULL; /* at RSI, at RDI */

	if (n < 2)
		return 0;
	v->extra += EMU_EFFORT_PIECE;
	/* If both operands of CMPS fault, Intel's CPUs report the one at ES:[RDI]. */
	if (kind == STR_SCAS || (kind == STR_CMPS && v->intel)) {
		b = piece(s, dst_at(s), false);
		if (!b)
			return 0;
	}
	if (kind != STR_SCAS) {
		a = piece(s, src_at(s), false);
		if (!a)
			return 0;
	}
	if (kind == STR_CMPS && !b) {
		b = piece(s, dst_at(s), false);
		if (!b)
			return 0;
	}
	if (kind == STR_LODS) {
		emu_wr(v, EMU_RAX, s->bytes, emu_get(a + (int64_t)(n - 1) * s->step, s->bytes));
		string_advance(s, EMU_RSI, n);
		return n;
	}
	x = emu_rd(v, EMU_RAX, s->bytes);
	n = a ? string_compare(s, a, b, 0, n, equal) : string_compare(s, b, NULL, x, n, equal);
	last = (int64_t)(n - 1) * s->step;
	if (a) {
		x = emu_get(a + last, s->bytes);
		string_advance(s, EMU_RSI, n);
	}
	cmp_flags(v, lg, x, emu_get(b + last, s->bytes));
	string_advance(s, EMU_RDI, n);
	return n;
}

/*
 * Intel's CPUs write ECX before the first iteration of a repeated string instruction with a 32-bit
 * address size, and ESI and EDI too where they copy or fill memory. This clears the upper halves
 * even if the count is zero or the first element faults. AMD's CPUs write the registers only after
 * an element.
 */
static void narrow(struct emu_vcpu *v, unsigned int kind)
{
	v->r[EMU_RCX] = (uint32_t)v->r[EMU_RCX];
	if (kind == STR_MOVS)
		v->r[EMU_RSI] = (uint32_t)v->r[EMU_RSI];
	if (kind == STR_MOVS || kind == STR_STOS)
		v->r[EMU_RDI] = (uint32_t)v->r[EMU_RDI];
}

/* Returns true if run.c should check the clock and the posted events, which only it does. May be a
 * little early. */
static bool platform_waits(const struct emu_vcpu *v, uint64_t done)
{
	return v->cycles + v->extra_cycles + done + 0xffff >= v->plat.stop_cycles ||
	       atomic_load_explicit(&v->plat.posted_any, memory_order_relaxed);
}

int emu_help_string(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base, kind = op->idx;
	struct str s = {
		.v = v,
		.seg = v->r[op->src],
		.amask = op->flags & EMU_OPF_A32 ? 0xffffffffULL : ~0ULL,
		.bytes = 1u << lg,
		.lg = lg,
		.acc = v->cpl == 3 ? EMU_ACC_U : 0,
	};
	const struct {
		uint64_t a, b;
		uint32_t kind, omask, oval;
	} fl = {v->fl_a, v->fl_b, v->fl_kind, v->fl_omask, v->fl_oval};
	uint64_t count, n, done = 0;

	s.step = v->rflags & EMU_DF ? -(int64_t)s.bytes : (int64_t)s.bytes;
	if (!(op->flags & (EMU_OPF_REP | EMU_OPF_REPNE)))
		return string_one(&s, kind, lg);

	if (unlikely(v->intel && (op->flags & EMU_OPF_A32)))
		narrow(v, kind);
	v->extra += EMU_EFFORT_REPEAT;
	count = v->r[EMU_RCX] & s.amask;
	if (!count) { /* no access takes place: subtract those in op->ev */
		v->adj_loads -= kind != STR_STOS;
		v->adj_stores -= kind == STR_MOVS || kind == STR_STOS;
		return 0;
	}
	for (n = 0; count; count -= n) {
		n = 0;
		if (likely(!v->step))
			n = kind <= STR_STOS
				    ? bulk_store(&s, kind == STR_MOVS, count)
				    : bulk_load(&s, kind, lg, op->flags & EMU_OPF_REPNE, count);
		if (!v->trap && !n) {
			n = !string_one(&s, kind, lg);
			v->extra += EMU_EFFORT_ELEMENT;
		}
		if (v->trap)
			goto unfinished;
		v->r[EMU_RCX] = (v->r[EMU_RCX] - n) & s.amask;
		done += n;
		if (kind >= STR_CMPS) {
			bool equal = v->fl_a == v->fl_b;

			if (op->flags & EMU_OPF_REPNE ? equal : !equal)
				break;
		}
		if (count == n)
			break;
		if (unlikely(v->step || v->brk.hits)) { /* a debug trap follows the iteration */
			v->trap = EMU_TRAP_STEP;
			goto unfinished;
		}
		/* No host address is kept between pieces, so code decoded by other vCPUs can
		 * settle. */
		emu_ack_code(v);
		if (unlikely(v->extra >= v->extra_stop ||
			     atomic_load_explicit(&v->kicked, memory_order_relaxed) ||
			     (v->chip && platform_waits(v, done)))) {
			v->trap = EMU_TRAP_KICK;
			goto unfinished;
		}
	}
	if (unlikely(v->chip && platform_waits(v, done)))
		v->attn |= EMU_ATTN_EVENT;
	v->extra_cycles += done;
	return 0;

unfinished:
	/* Intel's CPUs keep the flags from before the instruction: SDM vol. 2, REP, for faults;
	 * measured (family 6) for interrupts and debug traps between iterations. AMD's have those
	 * of the last comparison (measured, families 19H and 1AH). */
	if (v->intel) {
		emu_fl_set(v, fl.kind, fl.a, fl.b);
		v->fl_omask = fl.omask;
		v->fl_oval = fl.oval;
	}
	v->extra_cycles += done;
	return 1;
}
