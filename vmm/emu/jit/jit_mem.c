// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the location of guest registers and flags, and accesses to guest memory.
 * jit_op.c and jit_flow.c call these functions. The emitted code must never access guest memory
 * except through an entry of the software TLB that it has compared with the address.
 */
#include <stddef.h>

#include "vmm/emu/jit/jit.h"

/* ---- registers ---- */

unsigned int jit_host(unsigned int guest)
{
	static const uint8_t host[EMU_R11] = {HOST_R11, HOST_RCX, HOST_RDX, HOST_RBX,
					      HOST_R12, HOST_RBP, HOST_RSI, HOST_RDI,
					      HOST_R8,	HOST_R9,  HOST_R10};

	return guest < EMU_R11 ? host[guest] : HOST_NONE;
}

struct rm jit_rm(unsigned int guest)
{
	if (guest < EMU_R11)
		return rm_reg(jit_host(guest));
	return rm_mem(HOST_RSP, FRAME_REGS + (int32_t)(guest - EMU_R11) * 8);
}

struct rm jit_src(const struct jit *j, unsigned int guest)
{
	return guest == EMU_T0 && j->t0_known ? j->t0 : jit_rm(guest);
}

unsigned int jit_get(struct jit *j, unsigned int guest, unsigned int scratch)
{
	if (guest < EMU_R11)
		return jit_host(guest);
	x_mov(&j->b, 3, scratch, jit_rm(guest));
	return scratch;
}

void jit_put(struct jit *j, unsigned int guest, unsigned int host)
{
	if (guest >= EMU_R11 || jit_host(guest) != host)
		x_store(&j->b, 3, jit_rm(guest), host);
}

/* ---- flags ---- */

#define AH_AF 0x10u

void jit_set(struct jit *j, enum jit_shape shape, bool sub)
{
	j->fl = j->live[j->i + 1] ? FL_HOST : FL_DEAD;
	j->shape = shape;
	j->sub = sub;
}

void jit_to_ax(struct jit *j)
{
	if (j->fl != FL_HOST)
		return;
	x_lahf(&j->b);
	j->fl = FL_AX;
	switch (j->shape) {
	case SHAPE_ALL:
		x_setcc(&j->b, CC_O, rm_reg(HOST_RAX));
		j->fl = FL_BOTH;
		break;
	case SHAPE_AF0:
		x_setcc(&j->b, CC_O, rm_reg(HOST_RAX));
		x_ah(&j->b, X_AND, 0xff & ~AH_AF);
		break;
	case SHAPE_AF1:
		x_setcc(&j->b, CC_O, rm_reg(HOST_RAX));
		x_ah(&j->b, X_OR, AH_AF);
		break;
	case SHAPE_OF0:
		x_store_imm(&j->b, 0, rm_reg(HOST_RAX), 0);
		x_ah(&j->b, X_OR, AH_AF);
		break;
	case SHAPE_SHL: /* AL = bit 7 of AH (SF) ^ bit 0 of AH (CF) */
		x_byte(&j->b, 0x88), x_byte(&j->b, 0xe0); /* mov al, ah */
		x_shift_imm(&j->b, X_ROL, 0, rm_reg(HOST_RAX), 1);
		x_byte(&j->b, 0x30), x_byte(&j->b, 0xe0); /* xor al, ah */
		x_alu_imm(&j->b, X_AND, 0, rm_reg(HOST_RAX), 1);
		x_ah(&j->b, X_OR, AH_AF);
		break;
	}
}

void jit_clobber(struct jit *j)
{
	jit_to_ax(j);
	if (j->fl == FL_BOTH)
		j->fl = FL_AX;
}

void jit_carry(struct jit *j)
{
	if (j->fl == FL_AX) { /* bt eax, 8: bit 0 of AH */
		x_byte(&j->b, 0x0f), x_byte(&j->b, 0xba), x_byte(&j->b, 0xe0), x_byte(&j->b, 8);
	}
}

void jit_or_carry(struct jit *j)
{
	x_ah(&j->b, X_AND, 0xfe);
	x_alu_imm(&j->b, X_AND, 2, rm_reg(HOST_S2), 1);
	x_shift_imm(&j->b, X_SHL, 2, rm_reg(HOST_S2), 8);
	x_alu(&j->b, X_OR, 2, rm_reg(HOST_RAX), HOST_S2);
}

void jit_or_overflow(struct jit *j)
{
	x_setcc(&j->b, CC_O, rm_reg(HOST_RAX));
	x_ah(&j->b, X_AND, 0xfe);
	x_byte(&j->b, 0x08), x_byte(&j->b, 0xc4); /* or ah, al */
}

unsigned int jit_cond(struct jit *j, unsigned int cc)
{
	/* Mask in AH; the condition is true if any of its bits is set. 0: it needs OF. */
	static const uint8_t ah[8] = {0, 0x01, 0x40, 0x41, 0x80, 0x04, 0, 0};
	bool overflow = !ah[cc >> 1];

	if (j->fl == FL_HOST && overflow && j->shape >= SHAPE_OF0)
		jit_to_ax(j);
	if (j->fl != FL_AX)
		return cc;
	if (!overflow) {
		x_ah_test(&j->b, ah[cc >> 1]);
		return CC_NE ^ (cc & 1);
	}
	/* OF = AL, then the others. AL is 0 or 1 again afterwards. */
	x_alu_imm(&j->b, X_ADD, 0, rm_reg(HOST_RAX), 0x7f);
	x_sahf(&j->b);
	x_setcc(&j->b, CC_O, rm_reg(HOST_RAX));
	j->fl = FL_BOTH;
	return cc;
}

/* ---- memory ---- */

static uint32_t leave_word(const struct jit *j)
{
	int rest = 0;

	for (unsigned int i = j->start; i < j->nr; i++)
		rest += j->quarters[i];
	return JIT_WORD(EMU_JIT_OP, j->start, j->sub, rest);
}

void jit_leave_at(struct jit *j, uint8_t *site)
{
	if (j->nr_exits == JIT_EXITS) {
		j->b.full = true;
		return;
	}
	j->exits[j->nr_exits].site = site;
	j->exits[j->nr_exits++].word = leave_word(j);
}

struct jit_ea jit_op_ea(const struct jit *j, const struct emu_op *op)
{
	if (op->base == EMU_TEA && op->idx == EMU_ZERO && !op->disp && j->tea_known)
		return j->tea;
	return (struct jit_ea){op->base, op->idx, op->scale, op->disp};
}

/* The address as a host operand, if its registers are in host registers. */
static bool direct(struct jit_ea ea, struct rm *m)
{
	unsigned int base = ea.base == EMU_ZERO ? HOST_NONE : jit_host(ea.base);
	unsigned int idx = ea.idx == EMU_ZERO ? HOST_NONE : jit_host(ea.idx);

	if ((ea.base != EMU_ZERO && base == HOST_NONE) ||
	    (ea.idx != EMU_ZERO && idx == HOST_NONE) || ea.disp + 16 != (int32_t)(ea.disp + 16) ||
	    ea.disp != (int32_t)ea.disp)
		return false;
	*m = rm_sib(base, idx, ea.scale, (int32_t)ea.disp);
	return true;
}

/* HOST_S1 = the address; overwrites HOST_S2. */
static bool jit_mem_compute(struct jit *j, struct jit_ea ea)
{
	struct rm m = rm_mem(HOST_S1, (int32_t)ea.disp);

	if (ea.disp != (int32_t)ea.disp)
		return false;
	if (ea.base == EMU_ZERO)
		m.base = HOST_NONE;
	else
		m.base = (uint8_t)jit_get(j, ea.base, HOST_S1);
	if (ea.idx != EMU_ZERO) {
		m.idx = (uint8_t)jit_get(j, ea.idx, HOST_S2);
		m.scale = ea.scale;
	}
	x_lea(&j->b, 3, HOST_S1, m);
	return true;
}

bool jit_address(struct jit *j, struct jit_ea ea, unsigned int lg, unsigned int dst)
{
	struct rm m;

	if (ea.base == EMU_ZERO && ea.idx == EMU_ZERO) {
		x_mov_imm(&j->b, dst, lg == 3 ? (uint64_t)ea.disp : (uint32_t)ea.disp);
		return true;
	}
	if (direct(ea, &m)) {
		x_lea(&j->b, lg, dst, m);
		return true;
	}
	if (!jit_mem_compute(j, ea))
		return false;
	x_mov(&j->b, lg, dst, rm_reg(HOST_S1));
	return true;
}

/* HOST_S2 holds the address; make it the address of the TLB entry. */
static void entry(struct jit *j)
{
	x_shift_imm(&j->b, X_SHR, 2, rm_reg(HOST_S2), EMU_PAGE_SHIFT - 5);
	x_alu_imm(&j->b, X_AND, 2, rm_reg(HOST_S2), (EMU_TLB_SIZE - 1) << 5);
	x_alu_load(&j->b, X_ADD, 3, HOST_S2, rm_mem(HOST_RSP, FRAME_TLB));
}

/* HOST_S1 holds the page of the last byte. Returns the jump that is taken unless the entry at
 * HOST_S2 is for that page. */
static uint8_t *jit_mem_compare(struct jit *j, bool store)
{
	int32_t tag = store ? offsetof(struct emu_tlbe, wtag) : offsetof(struct emu_tlbe, rtag);

	x_alu_load(&j->b, X_CMP, 3, HOST_S1, rm_mem(HOST_S2, tag));
	return x_jcc(&j->b, CC_NE);
}

static void jit_mem_page_of(struct jit *j, unsigned int reg)
{
	x_alu_imm(&j->b, X_AND, 3, rm_reg(reg), -(int64_t)EMU_PAGE_SIZE);
}

/* Returns the jump that is taken unless the address in @reg is a multiple of @bytes. */
static uint8_t *jit_mem_misaligned(struct jit *j, unsigned int reg, unsigned int bytes)
{
	x_op(&j->b, 0xf6, 0, 0, rm_reg(reg)); /* test */
	x_byte(&j->b, bytes - 1);
	return x_jcc(&j->b, CC_NE);
}

/* An access without a direct address: compute it, and keep it in the frame. */
static struct rm access_computed(struct jit *j, struct jit_ea ea, unsigned int bytes, bool store,
				 bool *ok)
{
	struct rm at = rm_mem(HOST_RSP, FRAME_ADDR);

	if (!jit_mem_compute(j, ea)) {
		*ok = false;
		return at;
	}
	if (j->aligned)
		jit_leave_at(j, jit_mem_misaligned(j, HOST_S1, bytes));
	x_store(&j->b, 3, at, HOST_S1);
	x_mov(&j->b, 2, HOST_S2, rm_reg(HOST_S1));
	entry(j);
	if (bytes > 1)
		x_alu_imm(&j->b, X_ADD, 3, rm_reg(HOST_S1), bytes - 1);
	jit_mem_page_of(j, HOST_S1);
	jit_leave_at(j, jit_mem_compare(j, store));
	x_mov(&j->b, 3, HOST_S2, rm_mem(HOST_S2, offsetof(struct emu_tlbe, add)));
	x_alu_load(&j->b, X_ADD, 3, HOST_S2, at);
	return rm_mem(HOST_S2, 0);
}

static struct rm of_site(int32_t site, size_t field)
{
	return rm_mem(HOST_S2, site + (int32_t)field);
}

/*
 * Compare the page with that of the access's site, which was found in the TLB with the same tag.
 * The bits below the operand's size are compared as well, so only an aligned access hits, which
 * cannot cross a page. All others look up the TLB: see jit_write_miss(). Accesses of 16 bytes are
 * often unaligned: for those that need no alignment, compare the pages of the first and the last
 * byte.
 */
struct rm jit_access(struct jit *j, struct jit_ea ea, unsigned int bytes, bool store, bool *ok)
{
	uint32_t n = j->v->jit.nr_sites[store]++ % EMU_SITES;
	int32_t at = (int32_t)((2 * n + store) * sizeof(struct emu_site));
	bool any = bytes == 16 && !j->aligned;
	uint8_t *site, *first = NULL;
	struct rm m, last;

	jit_clobber(j);
	if (!direct(ea, &m))
		return access_computed(j, ea, bytes, store, ok);
	last = m;
	if (j->nr_misses == JIT_EXITS) {
		*ok = false;
		return m;
	}
	x_mov(&j->b, 3, HOST_S2, rm_mem(HOST_RSP, FRAME_SITES));
	if (m.base != HOST_NONE && m.idx == HOST_NONE && !m.disp)
		x_mov(&j->b, 3, HOST_S1, rm_reg(m.base));
	else
		x_lea(&j->b, 3, HOST_S1, m);
	if (any) {
		jit_mem_page_of(j, HOST_S1);
		x_alu_load(&j->b, X_CMP, 3, HOST_S1, of_site(at, offsetof(struct emu_site, tag)));
		first = x_jcc(&j->b, CC_NE);
		last.disp += (int32_t)bytes - 1;
		x_lea(&j->b, 3, HOST_S1, last);
		jit_mem_page_of(j, HOST_S1);
	} else {
		x_alu_imm(&j->b, X_AND, 3, rm_reg(HOST_S1), -(int64_t)EMU_PAGE_SIZE | (bytes - 1));
	}
	x_alu_load(&j->b, X_CMP, 3, HOST_S1, of_site(at, offsetof(struct emu_site, tag)));
	site = x_jcc(&j->b, CC_NE);
	x_mov(&j->b, 3, HOST_S2, of_site(at, offsetof(struct emu_site, add)));
	j->misses[j->nr_misses++] = (struct jit_miss){site,  first,	 j->b.at,      m, at, bytes,
						      store, j->aligned, leave_word(j)};
	if (m.idx != HOST_NONE) {
		if (m.base != HOST_NONE)
			x_alu_load(&j->b, X_ADD, 3, HOST_S2, rm_reg(m.base));
		return rm_sib(HOST_S2, m.idx, m.scale, m.disp);
	}
	if (m.base != HOST_NONE)
		return rm_sib(HOST_S2, m.base, 0, m.disp);
	return rm_mem(HOST_S2, m.disp);
}

/*
 * As TLBE() and TAG() in exec.c: the entry is that of the first byte, the tag is compared with the
 * page of the last byte. So an access that crosses a page never hits.
 */
void jit_write_miss(struct jit *j, const struct jit_miss *m)
{
	const struct rm add = rm_mem(HOST_RSP, FRAME_ADDR);
	struct rm last = m->ea;
	uint8_t *no_credit;

	_Static_assert(sizeof(struct emu_tlbe) == 32, "entry() shifts");
	if (j->nr_exits + 2 > JIT_EXITS) {
		j->b.full = true;
		return;
	}
	x_link(&j->b, m->site, j->b.at);
	if (m->first)
		x_link(&j->b, m->first, j->b.at);
	x_add_sums(&j->b, j->miss);
	x_lea(&j->b, 2, HOST_S2, m->ea);
	if (m->aligned) {
		j->exits[j->nr_exits].site = jit_mem_misaligned(j, HOST_S2, m->bytes);
		j->exits[j->nr_exits++].word = m->word;
	}
	entry(j);
	last.disp += (int32_t)m->bytes - 1;
	x_lea(&j->b, 3, HOST_S1, last);
	jit_mem_page_of(j, HOST_S1);
	j->exits[j->nr_exits].site = jit_mem_compare(j, m->store);
	j->exits[j->nr_exits++].word = m->word;
	x_mov(&j->b, 3, HOST_S2, rm_mem(HOST_S2, offsetof(struct emu_tlbe, add)));
	x_store(&j->b, 3, add, HOST_S2);
	x_mov(&j->b, 3, HOST_S2, rm_mem(HOST_RSP, FRAME_SITES));
	x_op(&j->b, 0xff, 2, 1, of_site(m->at, offsetof(struct emu_site, credit))); /* dec */
	no_credit = x_jcc(&j->b, CC_S);
	x_store(&j->b, 3, of_site(m->at, offsetof(struct emu_site, tag)), HOST_S1);
	x_mov(&j->b, 3, HOST_S1, add);
	x_store(&j->b, 3, of_site(m->at, offsetof(struct emu_site, add)), HOST_S1);
	x_mov(&j->b, 3, HOST_S2, rm_reg(HOST_S1));
	x_link(&j->b, x_jmp(&j->b), m->back);
	/* Out of credit: make the site miss always, which the CPU predicts. */
	x_link(&j->b, no_credit, j->b.at);
	x_store_imm(&j->b, 3, of_site(m->at, offsetof(struct emu_site, tag)), EMU_SITE_NONE);
	x_mov(&j->b, 3, HOST_S2, add);
	x_link(&j->b, x_jmp(&j->b), m->back);
}
