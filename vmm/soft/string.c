// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MOVS, STOS, LODS, CMPS and SCAS, plain and repeated. The dispatch loop calls soft_help_string().
 * A repeated instruction counts as one instruction. When it is interrupted by a fault, a kick or a
 * single step, RCX, RSI and RDI show how far it came, and it must never have retired: it is
 * executed again from there (SDM vol. 2, REP). Repeated MOVS and STOS process page piece by page
 * piece instead of element by element where they can.
 */
#include <string.h>

#include "vmm/soft/emit.h"

struct str {
	struct soft_vcpu *v;
	uint64_t seg;	/* segment base of the source */
	uint64_t amask; /* the address bits of the address size */
	int64_t step;	/* bytes from one element to the next; negative if DF is set */
	unsigned int bytes;
	unsigned int acc; /* SOFT_ACC_U in user mode */
};

static uint64_t src_at(const struct str *s)
{
	return s->seg + (s->v->r[SOFT_RSI] & s->amask);
}

static uint64_t dst_at(const struct str *s)
{
	return s->v->r[SOFT_RDI] & s->amask;
}

/* Move register @reg by @n elements. With a 32-bit address size its upper half becomes 0. */
static void advance(struct str *s, unsigned int reg, uint64_t n)
{
	s->v->r[reg] = (s->v->r[reg] + (uint64_t)s->step * n) & s->amask;
}

static void cmp_flags(struct soft_vcpu *v, unsigned int lg, uint64_t a, uint64_t b)
{
	soft_fl_set(v, SOFT_FK(SUB, lg), soft_sext(a, lg), soft_sext(b, lg));
}

/* Process one element. Traps. CMPS reads two operands in memory, and if both fault, the fault of
 * the first one is reported. Intel's CPUs read the operand at ES:[RDI] first, AMD's the operand at
 * DS:[RSI]. */
static int one(struct str *s, unsigned int kind, unsigned int lg)
{
	struct soft_vcpu *v = s->v;
	bool dst_first = kind == STR_SCAS || (kind == STR_CMPS && v->intel);
	uint64_t a = 0, b = 0;

	if (dst_first) {
		b = soft_ld_slow(v, dst_at(s), s->bytes);
		if (v->trap)
			return 1;
	}
	if (kind == STR_MOVS || kind == STR_LODS || kind == STR_CMPS) {
		a = soft_ld_slow(v, src_at(s), s->bytes);
		if (v->trap)
			return 1;
	}
	if (kind == STR_CMPS && !dst_first) {
		b = soft_ld_slow(v, dst_at(s), s->bytes);
		if (v->trap)
			return 1;
	}
	switch (kind) {
	case STR_MOVS:
		if (soft_st_slow(v, dst_at(s), s->bytes, a))
			return 1;
		break;
	case STR_STOS:
		if (soft_st_slow(v, dst_at(s), s->bytes, v->r[SOFT_RAX]))
			return 1;
		break;
	case STR_LODS:
		soft_wr(v, SOFT_RAX, s->bytes, a);
		break;
	case STR_CMPS:
		cmp_flags(v, lg, a, b);
		break;
	case STR_SCAS:
		cmp_flags(v, lg, soft_rd(v, SOFT_RAX, s->bytes), b);
		break;
	}
	if (kind != STR_STOS && kind != STR_SCAS)
		advance(s, SOFT_RSI, 1);
	if (kind != STR_LODS)
		advance(s, SOFT_RDI, 1);
	return 0;
}

static uint64_t room(const struct str *s, uint64_t va)
{
	return (SOFT_PAGE_SIZE - (va & ~SOFT_PAGE_MASK)) / s->bytes;
}

/* Host address where a whole piece may be read or stored directly. NULL: there was a trap, or the
 * page of a store holds decoded code. */
static inline uint8_t *piece(struct str *s, uint64_t va, bool write)
{
	struct soft_vcpu *v = s->v;
	const struct soft_tlbe *e = &v->tlb[va >> SOFT_PAGE_SHIFT & (SOFT_TLB_SIZE - 1)];
	uint8_t *p;

	if (likely((write ? e->wtag : e->rtag) == (va & SOFT_PAGE_MASK)))
		return (uint8_t *)(e->add + va);
	p = soft_host(v, va, s->acc | (write ? SOFT_ACC_W : 0));
	/* soft_host() makes a store hit the TLB unless there is code in the page. */
	return p && write && e->wtag != (va & SOFT_PAGE_MASK) ? NULL : p;
}

/* Process as many elements of a forward MOVS or STOS as fit in the current pages, at most @count.
 * Returns how many. 0: there was a trap, or the caller must process one element by one(). */
static uint64_t bulk(struct str *s, unsigned int kind, uint64_t count)
{
	struct soft_vcpu *v = s->v;
	uint64_t to = dst_at(s), from = src_at(s), n = room(s, to);
	uint8_t *d, *p;

	if (kind == STR_MOVS && room(s, from) < n)
		n = room(s, from);
	if (n > count)
		n = count;
	if (n < 2)
		return 0;
	if (kind == STR_MOVS) {
		p = piece(s, from, false);
		if (!p)
			return 0;
		d = piece(s, to, true);
		if (!d)
			return 0;
		/* A forward copy to a place shortly after its source repeats a pattern, so it must
		 * go element by element. */
		if (d > p && d < p + n * s->bytes) {
			for (uint64_t i = 0; i < n * s->bytes; i += s->bytes)
				soft_put(d + i, s->bytes, soft_get(p + i, s->bytes));
		} else {
			memmove(d, p, n * s->bytes);
		}
		advance(s, SOFT_RSI, n);
	} else {
		d = piece(s, to, true);
		if (!d)
			return 0;
		if (s->bytes == 1)
			memset(d, (uint8_t)v->r[SOFT_RAX], n);
		else
			for (uint64_t i = 0; i < n; i++)
				soft_put(d + i * s->bytes, s->bytes, v->r[SOFT_RAX]);
	}
	advance(s, SOFT_RDI, n);
	return n;
}

/*
 * Intel's CPUs write ECX before the first iteration of a repeated string instruction with a 32-bit
 * address size, and ESI and EDI too where they copy or fill memory. This clears the upper halves
 * even if the count is zero or the first element faults. AMD's CPUs write the registers only when
 * an element is done.
 */
static void narrow(struct soft_vcpu *v, unsigned int kind)
{
	v->r[SOFT_RCX] = (uint32_t)v->r[SOFT_RCX];
	if (kind == STR_MOVS)
		v->r[SOFT_RSI] = (uint32_t)v->r[SOFT_RSI];
	if (kind == STR_MOVS || kind == STR_STOS)
		v->r[SOFT_RDI] = (uint32_t)v->r[SOFT_RDI];
}

int soft_help_string(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base, kind = op->idx;
	struct str s = {
		.v = v,
		.seg = v->r[op->src],
		.amask = op->flags & SOFT_OPF_A32 ? 0xffffffffULL : ~0ULL,
		.bytes = 1u << lg,
		.acc = v->cpl == 3 ? SOFT_ACC_U : 0,
	};
	const struct {
		uint64_t a, b;
		uint32_t kind, omask, oval;
	} fl = {v->fl_a, v->fl_b, v->fl_kind, v->fl_omask, v->fl_oval};
	uint64_t count, n, done = 0;

	s.step = v->rflags & SOFT_DF ? -(int64_t)s.bytes : (int64_t)s.bytes;
	if (!(op->flags & (SOFT_OPF_REP | SOFT_OPF_REPNE)))
		return one(&s, kind, lg);

	if (unlikely(v->intel && (op->flags & SOFT_OPF_A32)))
		narrow(v, kind);
	count = v->r[SOFT_RCX] & s.amask;
	if (!count) { /* no access takes place: take those in op->ev off */
		v->adj_loads -= kind != STR_STOS;
		v->adj_stores -= kind == STR_MOVS || kind == STR_STOS;
		return 0;
	}
	for (n = 0; count; count -= n) {
		n = 0;
		if (s.step > 0 && !v->step && (kind == STR_MOVS || kind == STR_STOS))
			n = bulk(&s, kind, count);
		v->effort += n;
		if (!v->trap && !n) {
			n = !one(&s, kind, lg);
			v->effort += SOFT_EFFORT_ELEMENT;
		}
		if (v->trap)
			goto unfinished;
		v->r[SOFT_RCX] = (v->r[SOFT_RCX] - n) & s.amask;
		done += n;
		if (kind >= STR_CMPS) {
			bool equal = v->fl_a == v->fl_b;

			if (op->flags & SOFT_OPF_REPNE ? equal : !equal)
				break;
		}
		if (count == n)
			break;
		if (unlikely(v->step)) { /* a debug trap follows each iteration */
			v->trap = SOFT_TRAP_STEP;
			goto unfinished;
		}
		/* No host address is kept between pieces. So other vCPUs that wait in
		 * soft_code_mark() may go on. */
		soft_ack_code(v);
		if (unlikely(v->effort >= SOFT_EFFORT_MAX ||
			     atomic_load_explicit(&v->kicked, memory_order_relaxed))) {
			v->trap = SOFT_TRAP_KICK;
			goto unfinished;
		}
	}
	v->extra_cycles += done;
	if (unlikely(v->effort >= SOFT_EFFORT_MAX))
		v->attn |= SOFT_ATTN_EVENT;
	return 0;

unfinished:
	/* The flags must be those from before the instruction. For a fault, SDM vol. 2, REP says
	 * so. For interrupts and debug traps between iterations it was measured (Intel, family
	 * 6). */
	soft_fl_set(v, fl.kind, fl.a, fl.b);
	v->fl_omask = fl.omask;
	v->fl_oval = fl.oval;
	v->extra_cycles += done;
	return 1;
}
