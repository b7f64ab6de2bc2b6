// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator, upper half: places instructions, follows what is known about registers and flags,
 * and composes what single random instructions would not reach: control flow with known targets,
 * string instructions with sensible counts, self-modifying code, faults of every kind.
 */
#include <string.h>

#include "tests/soft/gen_internal.h"

const bool *gen_isa;

#define SEQ_BYTES  150u /* longest sequence, its final jump included */
#define FINAL_JUMP 5u
#define REG(r)	   (1u << (r))

void gen_init(const bool isa[SEQ_MNEMONICS])
{
	gen_isa = isa;
}

static int gpr_index(ZydisRegister reg)
{
	ZydisRegister r = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);

	return ZydisRegisterGetClass(r) == ZYDIS_REGCLASS_GPR64 ? ZydisRegisterGetId(r) : -1;
}

static uint32_t written_regs(const struct insn *in)
{
	uint32_t mask = 0;

	for (int k = 0; k < in->i.operand_count; k++) {
		int r;

		if (in->op[k].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(in->op[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		r = gpr_index(in->op[k].reg.value);
		if (r >= 0)
			mask |= REG(r);
	}
	return mask;
}

static int known_cl(const struct gen *g)
{
	return g->known & REG(DT_RCX) ? (int)(g->val[DT_RCX] & 0xff) : -1;
}

/* How far a push, pop, call or return moves RSP; 0 for everything else. */
static int64_t stack_move(const struct insn *in)
{
	int64_t move = 0;

	switch (in->i.meta.category) {
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_CALL:
		return -(in->i.mnemonic == ZYDIS_MNEMONIC_CALL ? 8 : in->i.operand_width / 8);
	case ZYDIS_CATEGORY_POP:
		return in->i.operand_width / 8;
	case ZYDIS_CATEGORY_RET:
		if (in->i.mnemonic != ZYDIS_MNEMONIC_RET)
			return 0;
		if (in->op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			move = (int64_t)in->op[0].imm.value.u;
		return 8 + move;
	default:
		return 0;
	}
}

static void follow_registers(struct gen *g, const struct insn *in, const uint8_t *b)
{
	uint32_t written = written_regs(in);
	bool certain = g->pos >= g->skip_until;
	int64_t move = stack_move(in);
	bool pops_rsp = in->op[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
			in->i.meta.category == ZYDIS_CATEGORY_POP &&
			gpr_index(in->op[0].reg.value) == DT_RSP;
	unsigned int rex = b[0] == 0x41, reg = (b[rex] & 7) | rex << 3;

	if (move && certain && !pops_rsp && g->known & REG(DT_RSP)) {
		g->val[DT_RSP] += (uint64_t)move;
		written &= ~REG(DT_RSP);
	}
	g->known &= ~written;
	if (certain && (b[rex] & 0xf8) == 0xb8 && in->i.operand_width == 32) {
		g->known |= REG(reg);
		g->val[reg] = in->op[1].imm.value.u & 0xffffffff;
	}
}

static void record(struct gen *g, unsigned int len, uint16_t mnemonic, bool raw)
{
	struct seq_insn *si = &g->q->insn[g->q->n++];

	g->undef |= g->join_undef[g->pos];
	*si = (struct seq_insn){.off = (uint8_t)g->pos,
				.len = (uint8_t)len,
				.raw = raw,
				.mnemonic = mnemonic,
				.undef = g->undef,
				.cl = (int16_t)known_cl(g)};
}

static bool room(const struct gen *g, unsigned int len)
{
	return g->pos + len <= g->limit && g->q->n < SEQ_MAX_INSNS - 4;
}

static int place(struct gen *g, const struct insn *in, const uint8_t *b)
{
	unsigned int at = g->pos;

	record(g, in->i.length, in->i.mnemonic, false);
	memcpy(g->q->c.code + at, b, in->i.length);
	g->undef = insn_undefined_flags(in, g->undef, known_cl(g));
	g->q->undef_any |= g->undef;
	follow_registers(g, in, b);
	g->pos += in->i.length;
	return (int)at;
}

/* CMP defines all six status flags and writes no register. */
static void define_flags(struct gen *g)
{
	const uint8_t b[] = {0x48, 0x83, (uint8_t)(0xf8 | below(g, 8)), (uint8_t)below(g, 256)};
	struct insn in;

	if (insn_decode(b, sizeof(b), &in))
		place(g, &in, b);
}

/*
 * Forms that are not on the list though their mnemonic is (docs/soft-machine.md): nested and
 * 16-bit frames, vector instructions that share a string instruction's name. And 0F 0D with a
 * register: #UD on AMD, NOP on Intel.
 */
static bool form_left_out(const struct insn *in)
{
	if (in->i.mnemonic == ZYDIS_MNEMONIC_ENTER || in->i.mnemonic == ZYDIS_MNEMONIC_LEAVE)
		return in->i.operand_width == 16 ||
		       (in->i.operand_count_visible == 2 && in->op[1].imm.value.u & 31);
	if (in->i.opcode_map == ZYDIS_OPCODE_MAP_0F && in->i.opcode == 0x0d)
		return in->i.raw.modrm.mod == 3;
	return in->i.meta.isa_ext != ZYDIS_ISA_EXT_BASE &&
	       in->i.opcode_map == ZYDIS_OPCODE_MAP_0F &&
	       (in->i.mnemonic == ZYDIS_MNEMONIC_MOVSD || in->i.mnemonic == ZYDIS_MNEMONIC_CMPSD);
}

int emit_bytes(struct gen *g, const uint8_t *b, unsigned int n)
{
	const unsigned int definer = 4;
	uint32_t undef;
	struct insn in;

	if (!insn_decode(b, n, &in) || in.i.length != n || !gen_isa[in.i.mnemonic] ||
	    !room(g, n + definer) || written_regs(&in) & g->frozen ||
	    insn_undefined_result(&in, known_cl(g)) || form_left_out(&in))
		return -1;
	undef = g->undef | g->join_undef[g->pos];
	if (insn_reads_flags(&in) & undef) {
		/* A RIP-relative displacement was computed for this place: fill it up to there. */
		if (insn_is_rip_relative(&in))
			return -1;
		define_flags(g);
	}
	return place(g, &in, b);
}

int emit(struct gen *g, const struct enc *e)
{
	return emit_bytes(g, e->b, e->n);
}

int emit_raw(struct gen *g, const uint8_t *b, unsigned int n)
{
	int at = (int)g->pos;

	if (!room(g, n))
		return -1;
	record(g, n, ZYDIS_MNEMONIC_INVALID, true);
	memcpy(g->q->c.code + at, b, n);
	g->pos += n;
	return at;
}

/* From the branch at @from control may go to @to, with what was undefined at the branch. */
static void add_join(struct gen *g, int from, unsigned int to, uint32_t undef)
{
	struct dt_seq *q = g->q;

	q->join[q->nr_joins].from = (uint8_t)from;
	q->join[q->nr_joins++].to = (uint8_t)to;
	g->join_undef[to] |= undef;
}

static bool can_join(const struct gen *g)
{
	return g->q->nr_joins < SEQ_MAX_JOINS - 1 && g->pos + 40 < g->limit;
}

/* One instruction, or a few, that only go forward. At least one is placed if there is room. */
static void simple_op(struct gen *g)
{
	static const uint8_t nop = 0x90;

	for (int tries = 0; tries < 6; tries++)
		if (percent(g, 85) ? gen_table_op(g) : gen_random_op(g))
			return;
	emit_bytes(g, &nop, 1);
}

static void patch32(struct gen *g, unsigned int at, uint32_t v)
{
	memcpy(g->q->c.code + at, &v, 4);
}

/*
 * Code that is jumped over: @from's branch target field is @bytes long and ends at @end. The body
 * is filled in after the branch is placed, so the flags at the branch are kept for the join.
 */
static void skip_body(struct gen *g, int from, unsigned int end, unsigned int bytes)
{
	uint32_t undef = g->undef;
	unsigned int old_skip = g->skip_until, to;

	g->skip_until = DT_SLOT;
	for (uint32_t i = 1 + below(g, 2); i; i--)
		simple_op(g);
	g->skip_until = old_skip;
	to = g->pos;
	if (to == end) {
		/* No room was left: stepping cannot tell whether this is taken. */
		g->q->no_step = true;
		return;
	}
	add_join(g, from, to, undef);
	if (bytes == 1)
		g->q->c.code[end - 1] = (uint8_t)(to - end);
	else
		patch32(g, end - 4, to - end);
}

static void t_jump_over(struct gen *g)
{
	uint8_t b[6] = {0};
	unsigned int n, field;
	int at;

	if (!can_join(g))
		return;
	switch (below(g, 9)) {
	case 8:
		b[0] = 0x67, b[1] = (uint8_t)(0xe0 + below(g, 4)), n = 3, field = 1;
		break;
	case 0:
		b[0] = 0xeb, n = 2, field = 1;
		break;
	case 1:
		b[0] = 0xe9, n = 5, field = 4;
		break;
	case 2:
		b[0] = (uint8_t)(0xe0 + below(g, 4)), n = 2, field = 1; /* LOOPcc, JRCXZ */
		break;
	case 3:
	case 4:
		b[0] = 0x0f, b[1] = (uint8_t)(0x80 + below(g, 16)), n = 6, field = 4;
		break;
	default:
		b[0] = (uint8_t)(0x70 + below(g, 16)), n = 2, field = 1;
		break;
	}
	at = emit_bytes(g, b, n);
	if (at >= 0)
		skip_body(g, at, g->pos, field);
}

/* LEA r, [rip + x]; JMP r or through memory. What is skipped is dead code. */
static void t_jump_indirect(struct gen *g)
{
	unsigned int r = below(g, 2) ? DT_RAX : DT_RBX, lea_end, old_skip = g->skip_until;
	const uint8_t lea[7] = {0x48, 0x8d, (uint8_t)(0x05 | r << 3)};
	const uint8_t jmp_reg[2] = {0xff, (uint8_t)(0xe0 | r)};
	uint8_t store[8] = {0x48, 0x89, (uint8_t)(0x04 | r << 3), 0x25};
	uint8_t jmp_mem[7] = {0xff, 0x24, 0x25};
	uint32_t cell = DT_DATA + 0x100 + below(g, 64) * 8, undef;
	int at;

	memcpy(store + 4, &cell, 4);
	memcpy(jmp_mem + 3, &cell, 4);
	if (!can_join(g) || emit_bytes(g, lea, sizeof(lea)) < 0)
		return;
	lea_end = g->pos;
	if (percent(g, 50)) {
		at = emit_bytes(g, jmp_reg, sizeof(jmp_reg));
	} else {
		emit_bytes(g, store, sizeof(store));
		at = emit_bytes(g, jmp_mem, sizeof(jmp_mem));
	}
	if (at < 0)
		return;
	undef = g->undef;
	g->skip_until = DT_SLOT;
	simple_op(g);
	g->skip_until = old_skip;
	add_join(g, at, g->pos, undef);
	patch32(g, lea_end - 4, g->pos - lea_end);
	gen_set_reg(g, r, gen_address(g, 1));
}

/*
 *	CALL f; JMP over; f: body; RET; over:
 * The body may not write RSP, so that RET finds its address.
 */
static void t_call(struct gen *g)
{
	static const uint8_t call[5] = {0xe8}, jmp[2] = {0xeb}, ret = 0xc3;
	const uint8_t ret_n[3] = {0xc2, (uint8_t)(below(g, 4) * 8), 0};
	const uint8_t lea[7] = {0x48, 0x8d, 0x15};
	static const uint8_t call_reg[2] = {0xff, 0xd2}; /* RDX */
	bool indirect = percent(g, 30);
	unsigned int field, jmp_end;
	uint32_t frozen = g->frozen;

	if (!can_join(g) || g->frozen & REG(DT_RSP) || g->pos + 90 > g->limit)
		return;
	if (emit_bytes(g, indirect ? lea : call, indirect ? 7 : 5) < 0)
		return;
	field = g->pos;
	if (indirect && emit_bytes(g, call_reg, 2) < 0)
		return;
	if (emit_bytes(g, jmp, 2) < 0)
		return;
	jmp_end = g->pos;
	patch32(g, field - 4, g->pos - field);
	if (indirect)
		gen_set_reg(g, DT_RDX, gen_address(g, 1));
	g->frozen |= REG(DT_RSP);
	for (uint32_t i = 1 + below(g, 2); i; i--)
		simple_op(g);
	g->frozen = frozen;
	if (percent(g, 70))
		emit_bytes(g, &ret, 1);
	else
		emit_bytes(g, ret_n, 3);
	g->q->c.code[jmp_end - 1] = (uint8_t)(g->pos - jmp_end);
}

/*
 *	MOV ECX, n; label: body; LOOPcc label (or DEC RCX; JNZ)
 * The body must leave alone what its operands' addresses depend on.
 */
static void t_loop(struct gen *g)
{
	static const uint8_t dec_jnz[5] = {0x48, 0xff, 0xc9, 0x75, 0};
	uint32_t frozen = g->frozen;
	uint8_t loop[2] = {(uint8_t)(0xe0 + below(g, 3))};
	unsigned int label;
	int at;

	if (!can_join(g) || frozen || g->pos + 80 > g->limit)
		return;
	if (gen_set_reg(g, DT_RCX, 1 + below(g, 5)) < 0)
		return;
	g->known &= (uint32_t)dt_rand(&g->rng) | REG(DT_RSP);
	g->known &= ~REG(DT_RCX);
	g->frozen = g->known | REG(DT_RCX);
	label = g->pos;
	g->join_undef[label] = DT_STATUS;
	for (uint32_t i = 1 + below(g, 2); i; i--)
		simple_op(g);
	g->frozen = frozen;
	g->join_undef[g->pos] = DT_STATUS;
	if (percent(g, 60)) {
		at = emit_bytes(g, loop, 2);
	} else {
		at = emit_bytes(g, dec_jnz, 3);
		if (at >= 0)
			at = emit_bytes(g, dec_jnz + 3, 2);
	}
	if (at < 0)
		return;
	g->q->c.code[g->pos - 1] = (uint8_t)(label - g->pos);
	add_join(g, at, label, DT_STATUS);
}

static void t_string(struct gen *g)
{
	static const uint8_t ops[] = {0xa4, 0xa5, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xa6, 0xa7};
	static const uint8_t cld_std[] = {0xfc, 0xfd};
	uint8_t b[6];
	unsigned int n = 0, op = below(g, sizeof(ops));

	if (percent(g, 60))
		emit_bytes(g, &cld_std[below(g, 3) == 0], 1);
	if (percent(g, 95))
		gen_set_reg(g, DT_RDI, gen_address(g, 1));
	if (percent(g, 95))
		gen_set_reg(g, DT_RSI, gen_address(g, 1));
	if (percent(g, 30)) /* a chance that two strings are equal for a while */
		gen_set_reg(g, DT_RAX, below(g, 256));
	if (percent(g, 70)) {
		if (percent(g, 95))
			gen_set_reg(g, DT_RCX, percent(g, 80) ? below(g, 20) : below(g, 700));
		b[n++] = percent(g, 60) ? 0xf3 : 0xf2;
	}
	if (percent(g, 25))
		b[n++] = 0x66;
	if (percent(g, 8))
		b[n++] = 0x67;
	if (percent(g, 4))
		b[n++] = percent(g, 50) ? 0x64 : 0x65;
	if (percent(g, 30))
		b[n++] = 0x48;
	b[n++] = ops[op];
	emit_bytes(g, b, n);
}

static void t_shift_cl(struct gen *g)
{
	static const uint8_t counts[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 63, 64, 65};

	gen_set_reg(g, DT_RCX, percent(g, 60) ? counts[below(g, sizeof(counts))] : below(g, 256));
	for (int tries = 0; tries < 4; tries++)
		if (gen_group_op(g, percent(g, 75) ? OPS_SHIFT_CL : OPS_DOUBLE_SHIFT_CL))
			return;
}

static void t_div(struct gen *g)
{
	static const uint8_t xor_edx[] = {0x31, 0xd2}, cdq = 0x99, cqo[] = {0x48, 0x99};

	switch (below(g, 5)) {
	case 0:
	case 1:
		emit_bytes(g, xor_edx, 2);
		break;
	case 2:
		emit_bytes(g, &cdq, 1);
		break;
	case 3:
		emit_bytes(g, cqo, 2);
		break;
	default:
		break;
	}
	if (percent(g, 50))
		gen_set_reg(g, DT_RBX, (uint32_t)gen_value(g));
	if (percent(g, 30))
		gen_set_reg(g, DT_RAX, (uint32_t)gen_value(g));
	gen_group_op(g, OPS_DIV);
}

static void t_bit(struct gen *g)
{
	unsigned int r = below(g, 8);

	if (r != DT_RSP)
		gen_set_reg(g, r,
			    percent(g, 70) ? below(g, 0x2000) : (uint32_t) - (int)below(g, 4096));
	for (int tries = 0; tries < 4; tries++)
		if (gen_group_op(g, OPS_BT_REG))
			return;
}

/* Makes the comparison succeed half of the time. */
static void t_cmpxchg(struct gen *g)
{
	uint32_t cell = DT_DATA + 0x200 + below(g, 32) * 16;
	uint8_t load[8] = {0x48, 0x8b, 0x04, 0x25}, load_dx[8] = {0x48, 0x8b, 0x14, 0x25};
	uint8_t op[10] = {0xf0, 0x48, 0x0f, 0xb1, 0x0c, 0x25};
	uint8_t wide[10] = {0xf0, 0x48, 0x0f, 0xc7, 0x0c, 0x25};
	bool lock = percent(g, 40), rexw = percent(g, 60);
	uint32_t high = cell + (rexw ? 8 : 4);

	if (percent(g, 30)) {
		gen_group_op(g, OPS_CMPXCHG);
		return;
	}
	memcpy(load + 4, &cell, 4);
	memcpy(load_dx + 4, &high, 4);
	memcpy(op + 6, &cell, 4);
	memcpy(wide + 6, &cell, 4);
	if (!rexw) {
		op[1] = wide[1] = 0x40;
		load[0] = load_dx[0] = 0x40;
	}
	emit_bytes(g, load, 8);
	if (percent(g, 50)) {
		emit_bytes(g, op + !lock, 10 - !lock);
	} else {
		emit_bytes(g, load_dx, 8);
		emit_bytes(g, wide + !lock, 10 - !lock);
	}
}

/* PUSH imm32; POPF with any flags but TF, AC and ID; and the ways to read them. */
static void t_flags(struct gen *g)
{
	static const uint8_t pushf = 0x9c, popf = 0x9d, pushf16[] = {0x66, 0x9c},
			     popf16[] = {0x66, 0x9d};
	uint32_t f =
		(uint32_t)dt_rand(&g->rng) & (DT_STATUS | DT_DF | DT_IF | 0x3000 | 0x10000 | 2);
	uint8_t push[5] = {0x68}, push16[4] = {0x66, 0x68, (uint8_t)f, (uint8_t)(f >> 8)};

	if (g->frozen)
		return;
	g->q->no_step = true;
	memcpy(push + 1, &f, 4);
	switch (below(g, 5)) {
	case 0:
		emit_bytes(g, &pushf, 1);
		break;
	case 1:
		emit_bytes(g, pushf16, 2);
		break;
	case 2:
		if (emit_bytes(g, push16, 4) >= 0)
			emit_bytes(g, popf16, 2);
		break;
	default:
		if (emit_bytes(g, push, 5) >= 0)
			emit_bytes(g, &popf, 1);
		break;
	}
}

/* IRETQ to the instruction that follows, by the book: SS, RSP, RFLAGS, CS, RIP on the stack. */
static void t_iret(struct gen *g)
{
	static const uint8_t push_ss[] = {0x6a, DT_USER_SS}, push_rsp = 0x54, pushf = 0x9c,
			     push_cs[] = {0x6a, DT_USER_CS}, push_rax = 0x50,
			     iretq[] = {0x48, 0xcf};
	static const uint8_t lea[7] = {0x48, 0x8d, 0x05};
	unsigned int lea_end;

	if (g->frozen || g->pos + 40 > g->limit || !gen_isa[ZYDIS_MNEMONIC_IRETQ])
		return;
	g->q->no_step = true;
	emit_bytes(g, push_ss, 2);
	emit_bytes(g, &push_rsp, 1);
	emit_bytes(g, &pushf, 1);
	emit_bytes(g, push_cs, 2);
	emit_bytes(g, lea, 7);
	lea_end = g->pos;
	emit_bytes(g, &push_rax, 1);
	g->known &= ~REG(DT_RSP);
	emit_bytes(g, iretq, 2);
	patch32(g, lea_end - 4, g->pos - lea_end);
	gen_set_reg(g, DT_RAX, gen_address(g, 1));
}

/* Overwrites part of a later instruction's immediate just before it is executed. */
static void t_self_modify(struct gen *g)
{
	uint8_t store[10] = {0xc6, 0x05}; /* MOV byte [rip + x], imm8, or more bytes */
	unsigned int n = 7, store_end, reg = below(g, 8), at;
	uint8_t mov[5] = {(uint8_t)(0xb8 | reg)};
	uint32_t off = below(g, 4);

	if (reg == DT_RSP || g->pos + 50 > g->limit)
		return;
	if (percent(g, 40)) {
		store[0] = 0xc7;
		n = 10;
		off = 0;
	}
	for (unsigned int i = 6; i < n; i++)
		store[i] = (uint8_t)below(g, 256);
	if (emit_bytes(g, store, n) < 0)
		return;
	store_end = g->pos;
	if (percent(g, 50)) {
		unsigned int old_skip = g->skip_until;

		simple_op(g);
		g->skip_until = old_skip;
	}
	/* The displacement is filled in before the target is known to exist: never dangling. */
	at = g->pos;
	if (emit_bytes(g, mov, 5) < 0)
		at = g->pos - 2;
	g->known &= ~REG(reg);
	patch32(g, store_end - (n - 2), at + 1 + off - store_end);
}

/* Jumps into a page that cannot be executed, one that is not there, off the end of one, and to
 * what is no address. */
static void t_bad_jump(struct gen *g)
{
	static const uint8_t jmp[2] = {0xff, 0xe0}, call[2] = {0xff, 0xd0};
	static const uint8_t push_ret[2] = {0x50, 0xc3};
	uint8_t mov64[10] = {0x48, 0xb8};
	uint64_t wild = dt_rand(&g->rng);
	uint8_t store[11] = {0xc7, 0x04, 0x25};
	uint32_t at = DT_EDGE + 0xff8, nops = 0x90909090, half_mov = 0x1234b848;

	g->q->no_step = true;
	switch (below(g, 4)) {
	case 3: /* not canonical, mostly; else the kernel's half or nothing */
		if (percent(g, 30))
			wild = (uint64_t)((int64_t)wild >> 17);
		memcpy(mov64 + 2, &wild, 8);
		emit_bytes(g, mov64, 10);
		break;
	case 0:
		gen_set_reg(g, DT_RAX, DT_DATA + below(g, DT_DATA_BYTES));
		break;
	case 1:
		gen_set_reg(g, DT_RAX, DT_EDGE + 0x1000 + below(g, 64));
		break;
	default:
		memcpy(store + 3, &at, 4);
		memcpy(store + 7, &nops, 4);
		if (emit_bytes(g, store, 11) < 0)
			return;
		at += 4;
		memcpy(store + 3, &at, 4);
		memcpy(store + 7, &half_mov, 4);
		if (emit_bytes(g, store, 11) < 0)
			return;
		gen_set_reg(g, DT_RAX, at - below(g, 3));
		break;
	}
	switch (below(g, 3)) {
	case 0:
		emit_bytes(g, jmp, 2);
		break;
	case 1:
		emit_bytes(g, call, 2);
		break;
	default:
		emit_bytes(g, push_ret, 1);
		emit_bytes(g, push_ret + 1, 1);
		break;
	}
}

/* Instruction bytes as one number in reading order, behind a 1 that keeps leading zeros. */
static unsigned int unpack(uint64_t packed, uint8_t b[8])
{
	unsigned int n = (unsigned int)(63 - __builtin_clzll(packed)) / 8;

	for (unsigned int i = 0; i < n; i++)
		b[i] = (uint8_t)(packed >> (8 * (n - 1 - i)));
	return n;
}

/* What CPL3 may not do, and what is no instruction at all. */
static void t_fault(struct gen *g)
{
	static const uint64_t bad[] = {
		0x1f4,	     /* HLT */
		0x1fa,	     /* CLI */
		0x1fb,	     /* STI */
		0x1e433,     /* IN AL, 33h */
		0x1e633,     /* OUT 33h, AL */
		0x1ec,	     /* IN AL, DX */
		0x1ee,	     /* OUT DX, AL */
		0x1ed,	     /* IN EAX, DX */
		0x1ef,	     /* OUT DX, EAX */
		0x10f30,     /* WRMSR */
		0x10f32,     /* RDMSR */
		0x10f20c0,   /* MOV RAX, CR0 */
		0x10f22d8,   /* MOV CR3, RAX */
		0x10f21f8,   /* MOV RAX, DR7 */
		0x10f23c0,   /* MOV DR0, RAX */
		0x10f0110,   /* LGDT [RAX] */
		0x10f0118,   /* LIDT [RAX] */
		0x10f0138,   /* INVLPG [RAX] */
		0x10f01f8,   /* SWAPGS */
		0x10f06,     /* CLTS */
		0x10f08,     /* INVD */
		0x10f09,     /* WBINVD */
		0x10f00d8,   /* LTR AX */
		0x10f00d0,   /* LLDT AX */
		0x10f33,     /* RDPMC */
		0x1480f07,   /* SYSRETQ */
		0x1cc,	     /* INT3 */
		0x1cd20,     /* INT 20h */
		0x1cd03,     /* INT 3 */
		0x1cd0d,     /* INT 13 */
		0x10f0b,     /* UD2 */
		0x10fb9c0,   /* UD1 */
		0x10fffc0,   /* UD0 */
		0x106,	     /* PUSH ES: not in 64-bit mode */
		0x127,	     /* DAA: the same */
		0x160,	     /* PUSHA: the same */
		0x1d6,	     /* SALC: the same */
		0x182c0,     /* the ALU group's copy: the same */
		0x1ea,	     /* far JMP: the same */
		0x19a,	     /* far CALL: the same */
		0x1f001c0,   /* LOCK ADD EAX, EAX */
		0x1f08b00,   /* LOCK MOV EAX, [RAX] */
		0x1f090,     /* LOCK NOP */
		0x1f0488500, /* LOCK TEST [RAX], RAX */
		0x18dc0,     /* LEA EAX, EAX */
		0x10fc7c8,   /* CMPXCHG8B EAX */
		0x166,	     /* sixteen of these: no instruction is as long */
	};
	uint64_t what = bad[below(g, sizeof(bad) / sizeof(bad[0]))];
	uint8_t b[16];
	unsigned int n;
	struct insn in;

	if (what == 0x166) {
		memset(b, 0x66, sizeof(b));
		emit_raw(g, b, sizeof(b));
		return;
	}
	n = unpack(what, b);
	if (insn_decode(b, n, &in) && in.i.length == n)
		emit_bytes(g, b, n);
	else
		emit_raw(g, b, n);
}

/* Instructions with no operands to choose. */
static void t_fixed(struct gen *g)
{
	static const uint64_t fixed[] = {
		0x1f30f1efa,	   /* ENDBR64 */
		0x1f30f1efb,	   /* ENDBR32 */
		0x1f390,	   /* PAUSE */
		0x10faef0,	   /* MFENCE */
		0x10faee8,	   /* LFENCE */
		0x10faef8,	   /* SFENCE */
		0x18cc8,	   /* MOV EAX, CS */
		0x1488cd3,	   /* MOV RBX, SS */
		0x1668cd9,	   /* MOV CX, DS */
		0x18cc2,	   /* MOV EDX, ES */
		0x16690,	   /* NOP, 16 bit */
		0x10f1f8000000000, /* NOP with a displacement */
		0x10f180424,	   /* PREFETCHNTA [RSP] */
		0x10f181424,	   /* PREFETCHT1 [RSP] */
		0x10f181c24,	   /* PREFETCHT2 [RSP] */
	};
	uint8_t b[8];
	unsigned int n = unpack(fixed[below(g, sizeof(fixed) / sizeof(fixed[0]))], b);

	emit_bytes(g, b, n);
}

/* Writes back the segment base it read: the other operands rely on it. */
static void t_segment_base(struct gen *g)
{
	static const uint8_t rd[5] = {0xf3, 0x48, 0x0f, 0xae, 0xc0}; /* RDFSBASE RAX */
	uint8_t b[5], w = percent(g, 60) ? 0x48 : 0x40, gs = percent(g, 50) ? 8 : 0;

	memcpy(b, rd, sizeof(b));
	b[1] = w;
	b[4] = (uint8_t)(rd[4] | gs);
	if (emit_bytes(g, b, 5) < 0)
		return;
	b[4] |= 0x10; /* WRFSBASE, WRGSBASE */
	emit_bytes(g, b, 5);
}

/* Leaves that are the same on every CPU of the host, and need no masking by a hypervisor. */
static void t_cpuid(struct gen *g)
{
	static const uint8_t cpuid[] = {0x0f, 0xa2};

	if (gen_set_reg(g, DT_RAX, GEN_CPUID_FIRST + below(g, GEN_CPUID_LEAVES)) >= 0)
		emit_bytes(g, cpuid, 2);
}

/* A stray return, a frame that is left, an unbalanced push: whatever is on the stack. */
static void t_stack(struct gen *g)
{
	static const uint8_t ret = 0xc3, leave = 0xc9, push_rsp = 0x54, pop_rsp = 0x5c;
	uint8_t enter[4] = {0xc8, (uint8_t)below(g, 128), 0, 0};

	if (g->frozen)
		return;
	switch (below(g, 8)) {
	case 0:
		g->q->no_step = true;
		emit_bytes(g, &ret, 1);
		break;
	case 1:
		emit_bytes(g, &push_rsp, 1);
		break;
	case 2:
		emit_bytes(g, &push_rsp, 1);
		emit_bytes(g, &pop_rsp, 1);
		break;
	case 3:
		emit_bytes(g, enter, 4);
		break;
	default:
		gen_set_reg(g, DT_RBP, DT_STACK + 0x700 + below(g, 0x200));
		emit_bytes(g, &leave, 1);
		break;
	}
}

static const struct {
	uint8_t weight;
	void (*fn)(struct gen *g);
} templates[] = {
	{110, simple_op},   {10, t_jump_over}, {3, t_jump_indirect}, {5, t_call},
	{4, t_loop},	    {12, t_string},    {10, t_shift_cl},     {6, t_div},
	{7, t_bit},	    {6, t_cmpxchg},    {3, t_flags},	     {1, t_iret},
	{2, t_self_modify}, {1, t_bad_jump},   {1, t_fault},	     {3, t_fixed},
	{4, t_stack},	    {1, t_cpuid},      {1, t_segment_base},
};

static void random_op(struct gen *g)
{
	uint32_t total = 0, at;

	for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
		total += templates[i].weight;
	at = below(g, total);
	for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++) {
		if (at < templates[i].weight) {
			templates[i].fn(g);
			return;
		}
		at -= templates[i].weight;
	}
}

static void init_state(struct gen *g)
{
	struct dt_case *c = &g->q->c;

	for (unsigned int r = 0; r < DT_NREGS; r++)
		c->regs[r] = percent(g, 45) ? gen_address(g, 1) : gen_value(g);
	c->regs[DT_RSP] =
		DT_STACK + (percent(g, 95) ? 0x7c0 + below(g, 8) * 8 : 0x700 + below(g, 256));
	c->rflags = (dt_rand(&g->rng) & (DT_STATUS | (percent(g, 15) ? DT_DF : 0))) | DT_IF | 2;
	c->data_pool = below(g, DT_POOL);
	c->stack_pool = below(g, DT_POOL);
	memcpy(g->val, c->regs, sizeof(g->val));
	g->known = (1u << DT_NREGS) - 1;
}

void gen_sequence(uint64_t seed, struct dt_seq *q)
{
	struct gen g = {.rng = seed * 0x2545f4914f6cdd1dull + 1, .q = q};
	uint8_t jmp[FINAL_JUMP] = {0xe9};
	uint32_t rel;

	q->n = q->nr_joins = 0;
	q->undef_any = 0;
	q->no_step = false;
	q->c.seed = seed;
	q->c.slot = dt_slot_address(seed);
	q->c.step = false;
	memset(q->c.code, DT_FILL, sizeof(q->c.code));
	init_state(&g);
	g.pos = below(&g, DT_SLOT - SEQ_BYTES);
	q->c.rip = q->c.slot + g.pos;
	g.limit = g.pos + SEQ_BYTES - FINAL_JUMP;
	for (uint32_t ops = 1 + below(&g, 12); ops; ops--)
		random_op(&g);
	rel = DT_EXIT - (uint32_t)(here(&g) + FINAL_JUMP);
	memcpy(jmp + 1, &rel, 4);
	g.undef |= g.join_undef[g.pos];
	q->undef_end = g.undef;
	q->undef_any |= g.undef;
	record(&g, FINAL_JUMP, ZYDIS_MNEMONIC_JMP, false);
	memcpy(q->c.code + g.pos, jmp, FINAL_JUMP);
}

bool gen_recheck(struct dt_seq *q)
{
	uint32_t join_undef[DT_SLOT + 1] = {0}, undef = 0;

	for (unsigned int j = 0; j < q->nr_joins; j++)
		if (q->join[j].to <= q->join[j].from)
			join_undef[q->join[j].to] = DT_STATUS;
	q->undef_any = 0;
	for (unsigned int k = 0; k < q->n; k++) {
		struct seq_insn *si = &q->insn[k];
		struct insn in;

		undef |= join_undef[si->off];
		si->undef = undef;
		if (si->raw || !insn_decode(q->c.code + si->off, si->len, &in))
			continue;
		if (insn_reads_flags(&in) & undef)
			return false;
		if (insn_undefined_result(&in, si->cl))
			return false;
		undef = insn_undefined_flags(&in, undef, si->cl);
		for (unsigned int j = 0; j < q->nr_joins; j++)
			if (q->join[j].from == si->off && q->join[j].to > si->off)
				join_undef[q->join[j].to] |= undef;
		q->undef_any |= undef;
	}
	q->undef_end = undef;
	return true;
}
