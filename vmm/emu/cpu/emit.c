// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From decoded instructions to ops: operands, and emu_emit(), which picks the emitter of an
 * instruction and adds up its events. Frequent instructions have their own handlers; the rest is
 * decomposed (load to EMU_T0, operate, store) or calls a helper. A decomposed instruction checks
 * its store first (LDW), so a fault leaves nothing changed.
 */
#include "vmm/emu/cpu/emit.h"

struct emu_op *emit_add(struct emit *e, unsigned int opcode)
{
	struct emu_code *c = e->c;
	struct emu_op *op = &c->ops[c->nr_ops];

	c->code[c->nr_ops++] = (uint16_t)opcode;
	*op = (struct emu_op){.base = EMU_ZERO, .idx = EMU_ZERO};
	return op;
}

struct emu_op *emit_helper(struct emit *e, emu_op_fn *fn, unsigned int lg, unsigned int kind)
{
	struct emu_op *op = emit_add(e, EMU_OP_HELPER);

	op->fn = fn;
	op->base = (uint8_t)lg;
	op->idx = (uint8_t)kind;
	return op;
}

struct emu_op *emit_sysop(struct emit *e, emu_op_fn *fn)
{
	struct emu_op *op = emit_add(e, EMU_OP_SYS);

	op->fn = fn;
	e->c->ended = e->c->solo = true;
	return op;
}

/* ---- operands ---- */

unsigned int emu_gpr(ZydisRegister r)
{
	if (r >= ZYDIS_REGISTER_AL && r <= ZYDIS_REGISTER_BL)
		return (unsigned int)(r - ZYDIS_REGISTER_AL) * 8;
	if (r >= ZYDIS_REGISTER_AH && r <= ZYDIS_REGISTER_BH)
		return (unsigned int)(r - ZYDIS_REGISTER_AH) * 8 + 1;
	if (r >= ZYDIS_REGISTER_SPL && r <= ZYDIS_REGISTER_R15B)
		return (unsigned int)(r - ZYDIS_REGISTER_SPL + EMU_RSP) * 8;
	if (r >= ZYDIS_REGISTER_AX && r <= ZYDIS_REGISTER_R15W)
		return (unsigned int)(r - ZYDIS_REGISTER_AX);
	if (r >= ZYDIS_REGISTER_EAX && r <= ZYDIS_REGISTER_R15D)
		return (unsigned int)(r - ZYDIS_REGISTER_EAX);
	if (r >= ZYDIS_REGISTER_RAX && r <= ZYDIS_REGISTER_R15)
		return (unsigned int)(r - ZYDIS_REGISTER_RAX);
	return EMU_ZERO;
}

unsigned int emit_reg(const struct emit *e, unsigned int i)
{
	return emu_gpr(e->zo[i].reg.value);
}

uint8_t emit_seg(const struct emit *e, unsigned int i)
{
	const ZydisDecodedOperandMem *z = &e->zo[i].mem;

	if (z->type == ZYDIS_MEMOP_TYPE_AGEN) /* LEA loads no segment base */
		return EMU_ZERO;
	return z->segment == ZYDIS_REGISTER_FS	 ? EMU_FSBASE
	       : z->segment == ZYDIS_REGISTER_GS ? EMU_GSBASE
						 : EMU_ZERO;
}

void emit_mem(struct emit *e, unsigned int i, struct emit_mem *m)
{
	const ZydisDecodedOperandMem *z = &e->zo[i].mem;
	uint8_t seg = emit_seg(e, i);
	struct emu_op *op;

	*m = (struct emit_mem){.base = EMU_ZERO, .idx = EMU_ZERO};
	m->disp = z->disp.has_displacement ? z->disp.value : 0;
	m->ss = z->segment == ZYDIS_REGISTER_SS;
	if (z->base == ZYDIS_REGISTER_RIP || z->base == ZYDIS_REGISTER_EIP)
		m->disp += (int64_t)e->next;
	else
		m->base = (uint8_t)emu_gpr(z->base);
	if ((e->zi->attributes & ZYDIS_ATTRIB_HAS_SIB) && e->zi->raw.modrm.mod == 0 &&
	    e->zi->raw.sib.base == 5) {
		/* disp32 without a base, regardless of REX.B (SDM vol. 2, table 2-3). Zydis 4.0
		 * takes it for [r13d] when the address size is 32 bits. */
		m->base = EMU_ZERO;
		m->disp = e->zi->raw.disp.value;
	}
	if (z->index != ZYDIS_REGISTER_NONE) {
		m->idx = (uint8_t)emu_gpr(z->index);
		m->scale = (uint8_t)(z->scale == 8 ? 3 : z->scale == 4 ? 2 : z->scale == 2 ? 1 : 0);
	}
	if (e->zi->address_width == 32 || (seg != EMU_ZERO && m->idx != EMU_ZERO)) {
		op = emit_add(e, e->zi->address_width == 32 ? EMU_OP_LEA32 : EMU_OP_LEA64X);
		emit_set_mem(op, m);
		op->dst = EMU_TEA;
		m->base = EMU_TEA;
		m->idx = EMU_ZERO;
		m->scale = 0;
		m->disp = 0;
	}
	if (seg != EMU_ZERO)
		m->idx = seg;
}

void emit_set_mem(struct emu_op *op, const struct emit_mem *m)
{
	op->base = m->base;
	op->idx = m->idx;
	op->scale = m->scale;
	op->disp = m->disp;
	if (m->ss)
		op->flags |= EMU_OPF_SS;
}

void emit_tea(struct emit *e, unsigned int i)
{
	struct emit_mem m;
	struct emu_op *op;

	emit_mem(e, i, &m);
	op = emit_add(e, EMU_OP_LEA64X);
	emit_set_mem(op, &m);
	op->dst = EMU_TEA;
}

struct emu_op *emit_load(struct emit *e, const struct emit_mem *m, unsigned int lg,
			 unsigned int dst)
{
	struct emu_op *op = emit_add(e, (m->idx == EMU_ZERO ? EMU_OP_LDB8 : EMU_OP_LDX8) + lg);

	emit_set_mem(op, m);
	op->dst = (uint8_t)dst;
	return op;
}

struct emu_op *emit_store(struct emit *e, const struct emit_mem *m, unsigned int lg,
			  unsigned int src)
{
	struct emu_op *op = emit_add(e, (m->idx == EMU_ZERO ? EMU_OP_STB8 : EMU_OP_STX8) + lg);

	emit_set_mem(op, m);
	op->src = (uint8_t)src;
	return op;
}

unsigned int emit_src(struct emit *e, unsigned int i)
{
	unsigned int lg = emit_lg(e, i);
	struct emit_mem m;

	if (!emit_is_mem(e, i))
		return emit_reg(e, i);
	emit_mem(e, i, &m);
	emit_load(e, &m, lg, emit_t0(lg));
	return emit_t0(lg);
}

unsigned int emit_rmw_begin(struct emit *e, unsigned int i, struct emit_mem *m)
{
	unsigned int lg = emit_lg(e, i);
	struct emu_op *op;

	if (!emit_is_mem(e, i))
		return emit_reg(e, i);
	emit_mem(e, i, m);
	op = emit_add(e, (emit_lock_prefix(e) ? EMU_OP_LDL8 : EMU_OP_LDW8) + lg);
	emit_set_mem(op, m);
	op->dst = (uint8_t)emit_t0(lg);
	return emit_t0(lg);
}

void emit_rmw_end(struct emit *e, unsigned int i, const struct emit_mem *m)
{
	unsigned int lg = emit_lg(e, i);

	if (emit_is_mem(e, i))
		emit_store(e, m, lg, emit_t0(lg));
}

/* ---- the whole instruction ---- */

static void emit_finish(struct emu_code *c, unsigned int first, uint64_t rip, unsigned int len,
			uint8_t ev)
{
	c->ops[first].len = (uint8_t)len;
	c->ops[first].ev = ev;
	c->sum += emu_ev_sum(ev);
	c->step += emu_ev_step(ev);
	c->n++;
	c->bytes += len;
	c->next = rip + len;
	c->last = rip;
}

static uint8_t emit_events(const ZydisDecodedInstruction *zi, const ZydisDecodedOperand *zo,
			   const struct emu_isa_row *row)
{
	unsigned int ev = row->flags & ISA_BRANCH ? EMU_EV_BRANCH : 0, cost = row->cost;

	if (zi->meta.category == ZYDIS_CATEGORY_COND_BR)
		return EMU_EV_CONDITIONAL;
	for (unsigned int i = 0; i < zi->operand_count; i++) {
		if (zo[i].type != ZYDIS_OPERAND_TYPE_MEMORY ||
		    (zo[i].mem.type != ZYDIS_MEMOP_TYPE_MEM &&
		     zo[i].mem.type != ZYDIS_MEMOP_TYPE_VSIB) ||
		    (row->flags & ISA_NO_MEM))
			continue;
		if (zo[i].actions & ZYDIS_OPERAND_ACTION_MASK_READ)
			ev |= EMU_EV_LOAD;
		if (zo[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			ev |= EMU_EV_STORE;
	}
	cost += (ev & EMU_EV_LOAD ? EMU_COST_LOAD : 0) + (ev & EMU_EV_STORE ? EMU_COST_STORE : 0);
	if (zi->attributes & ZYDIS_ATTRIB_HAS_LOCK)
		cost += EMU_COST_LOCK;
	if (cost > EMU_COST_MAX)
		cost = EMU_COST_MAX;
	return (uint8_t)(ev | cost << EMU_EV_COST_SHIFT);
}

uint8_t emu_insn_events(const ZydisDecodedInstruction *zi, const ZydisDecodedOperand *zo,
			unsigned int cost)
{
	struct emu_isa_row other = {.cost = (uint8_t)cost};
	const struct emu_isa_row *row = emu_isa_row(zi->mnemonic);

	if (zi->meta.branch_type != ZYDIS_BRANCH_TYPE_NONE)
		other.flags = ISA_BRANCH;
	return emit_events(zi, zo, row ? row : &other);
}

static bool emit_row(struct emit *e, const struct emu_isa_row *row)
{
	return e->zi->encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX ? emit_evex_row(e, row)
								  : row->fn(e, row->arg);
}

void emu_emit(struct emu_code *c, uint64_t rip, const struct ZydisDecodedInstruction_ *zi,
	      const struct ZydisDecodedOperand_ *zo)
{
	const struct emu_isa_row *row = emu_isa_same_name(emu_isa_row(zi->mnemonic), zi);
	const ZydisAccessedFlags *fl = zi->cpu_flags;
	struct emit e = {.c = c, .zi = zi, .zo = zo, .rip = rip, .next = rip + zi->length};
	unsigned int first = c->nr_ops;
	uint8_t ev = 0;

	if (row && emu_isa_shown(zi, c->simd) && emit_row(&e, row)) {
		ev = emit_events(zi, zo, row);
	} else {
		c->nr_ops = first;
		emit_sysop(&e, emu_sys_closed);
	}
	emit_finish(c, first, rip, zi->length, ev);
	if (fl && ((fl->modified | fl->set_0 | fl->set_1 | fl->undefined) & EMU_ARITH))
		c->fclass = e.fc;
}

void emu_emit_fault(struct emu_code *c, uint64_t rip, unsigned int len, bool gp)
{
	struct emit e = {.c = c};
	unsigned int first = c->nr_ops;

	emit_sysop(&e, gp ? emu_sys_gp : emu_sys_ud);
	emit_finish(c, first, rip, len, 0);
}

void emu_emit_end(struct emu_code *c)
{
	struct emit e = {.c = c};

	emit_add(&e, EMU_OP_END)->flags = EMU_OPF_FALL;
	c->ended = true;
}
