// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: transfers of control with known targets, those that fail, and self-modifying code.
 */
#include <string.h>

#include "tests/emu/gen_internal.h"

/* A near branch, now and then with the operand-size prefix that Intel's CPUs ignore. */
static int emit_branch(struct gen *g, const uint8_t *b, unsigned int n)
{
	uint8_t prefixed[12] = {0x66};

	if (!gen_intel || !percent(g, 8))
		return emit_bytes(g, b, n);
	memcpy(prefixed + 1, b, n);
	return emit_bytes(g, prefixed, n + 1);
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
		gen_simple_op(g);
	g->skip_until = old_skip;
	to = g->pos;
	if (to == end) {
		/* No room was left: stepping cannot show whether this is taken. */
		g->q->no_step = true;
		return;
	}
	gen_join(g, from, to, undef);
	if (bytes == 1)
		g->q->c.code[end - 1] = (uint8_t)(to - end);
	else
		gen_patch32(g, end - 4, to - end);
}

void t_jump_over(struct gen *g)
{
	uint8_t b[6] = {0};
	unsigned int n, field;
	int at;

	if (!gen_can_join(g))
		return;
	switch (below(g, 9)) {
	case 8:
		if (percent(g, 40))
			gen_set_reg_wide(g, DT_RCX, below(g, 3));
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
	at = emit_branch(g, b, n);
	if (at >= 0)
		skip_body(g, at, g->pos, field);
}

/* LEA r, [rip + x]; JMP r or through memory. Skipped code is dead. */
void t_jump_indirect(struct gen *g)
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
	if (!gen_can_join(g) || emit_bytes(g, lea, sizeof(lea)) < 0)
		return;
	lea_end = g->pos;
	if (percent(g, 50)) {
		at = emit_branch(g, jmp_reg, sizeof(jmp_reg));
	} else {
		emit_bytes(g, store, sizeof(store));
		at = emit_branch(g, jmp_mem, sizeof(jmp_mem));
	}
	if (at < 0)
		return;
	undef = g->undef;
	g->skip_until = DT_SLOT;
	gen_simple_op(g);
	g->skip_until = old_skip;
	gen_join(g, at, g->pos, undef);
	gen_patch32(g, lea_end - 4, g->pos - lea_end);
	gen_set_reg(g, r, gen_address(g, 1));
}

/*
 *	CALL f; JMP over; f: body; RET; over:
 * The body may not write RSP, so that RET finds its address.
 */
void t_call(struct gen *g)
{
	static const uint8_t call[5] = {0xe8}, jmp[2] = {0xeb}, ret = 0xc3;
	const uint8_t ret_n[3] = {0xc2, (uint8_t)(below(g, 4) * 8), 0};
	const uint8_t lea[7] = {0x48, 0x8d, 0x15};
	static const uint8_t call_reg[2] = {0xff, 0xd2}; /* RDX */
	bool indirect = percent(g, 30);
	unsigned int field, jmp_end;
	uint32_t frozen = g->frozen;

	if (!gen_can_join(g) || g->frozen & REG(DT_RSP) || g->pos + 90 > g->limit)
		return;
	if ((indirect ? emit_bytes(g, lea, 7) : emit_branch(g, call, 5)) < 0)
		return;
	field = g->pos;
	if (indirect && emit_branch(g, call_reg, 2) < 0)
		return;
	if (emit_branch(g, jmp, 2) < 0)
		return;
	jmp_end = g->pos;
	gen_patch32(g, field - 4, g->pos - field);
	if (indirect)
		gen_set_reg(g, DT_RDX, gen_address(g, 1));
	g->frozen |= REG(DT_RSP);
	for (uint32_t i = 1 + below(g, 2); i; i--)
		gen_simple_op(g);
	g->frozen = frozen;
	if (percent(g, 70))
		emit_branch(g, &ret, 1);
	else
		emit_branch(g, ret_n, 3);
	g->q->c.code[jmp_end - 1] = (uint8_t)(g->pos - jmp_end);
}

/*
 *	MOV ECX, n; label: body; LOOPcc label (or DEC RCX; JNZ)
 * The body must leave alone what its operands' addresses depend on.
 */
void t_loop(struct gen *g)
{
	static const uint8_t dec_jnz[5] = {0x48, 0xff, 0xc9, 0x75, 0};
	uint32_t frozen = g->frozen;
	uint8_t loop[2] = {(uint8_t)(0xe0 + below(g, 3))};
	unsigned int label;
	int at;

	if (!gen_can_join(g) || frozen || g->pos + 80 > g->limit)
		return;
	if (gen_set_reg(g, DT_RCX, 1 + below(g, 5)) < 0)
		return;
	g->known &= (uint32_t)random_split(&g->rng) | REG(DT_RSP);
	g->known &= ~REG(DT_RCX);
	g->frozen = g->known | REG(DT_RCX);
	label = g->pos;
	g->join_undef[label] = DT_STATUS;
	for (uint32_t i = 1 + below(g, 2); i; i--)
		gen_simple_op(g);
	g->frozen = frozen;
	g->join_undef[g->pos] = DT_STATUS;
	if (percent(g, 60)) {
		at = emit_branch(g, loop, 2);
	} else {
		at = emit_bytes(g, dec_jnz, 3);
		if (at >= 0)
			at = emit_branch(g, dec_jnz + 3, 2);
	}
	if (at < 0)
		return;
	g->q->c.code[g->pos - 1] = (uint8_t)(label - g->pos);
	gen_join(g, at, label, DT_STATUS);
}

/*
 * IRETQ or far RET to the instruction that follows, by the book: SS, RSP, RFLAGS, CS, RIP on the
 * stack, or CS, RIP. Now and then one of them is wrong. Far RET and wrong frames have been compared
 * with Intel's CPUs only.
 */
void t_iret(struct gen *g)
{
	static const uint8_t push_rsp = 0x54, pushf = 0x9c,
			     or_rf[] = {0x81, 0x0c, 0x24, 0, 0, 1, 0}, push_rax = 0x50,
			     iretq[] = {0x48, 0xcf}, retf[] = {0x48, 0xcb},
			     retf_n[] = {0x48, 0xca, 8, 0};
	static const uint8_t lea[7] = {0x48, 0x8d, 0x05};
	/* Null, the kernel's, data where code is wanted and the other way round, no LDT. */
	static const uint8_t no_cs[] = {0, 3, 0x10, 0x13, DT_USER_SS, 0x0f},
			     no_ss[] = {0, 3, 0x18, 0x1b, DT_USER_CS, 0x0f, 0x28};
	uint8_t push_ss[] = {0x6a, DT_USER_SS}, push_cs[] = {0x6a, DT_USER_CS};
	uint8_t mov64[10] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0x80};
	unsigned int lea_end = 0, wrong = gen_intel && percent(g, 12) ? 1 + below(g, 3) : 0;
	bool far_ret = gen_intel && percent(g, 30);

	if (g->frozen || g->pos + 44 > g->limit || !gen_isa[ZYDIS_MNEMONIC_IRETQ])
		return;
	g->q->no_step = true;
	if (wrong == 1)
		push_cs[1] = no_cs[below(g, sizeof(no_cs))];
	if (wrong == 2)
		push_ss[1] = no_ss[below(g, sizeof(no_ss))];
	if (!far_ret) {
		emit_bytes(g, push_ss, 2);
		emit_bytes(g, &push_rsp, 1);
		emit_bytes(g, &pushf, 1);
		if (percent(g, 40)) /* RF: would suppress a breakpoint on the next instruction */
			emit_bytes(g, or_rf, 7);
	}
	emit_bytes(g, push_cs, 2);
	if (wrong == 3) {
		emit_bytes(g, mov64, 10);
	} else {
		emit_bytes(g, lea, 7);
		lea_end = g->pos;
	}
	emit_bytes(g, &push_rax, 1);
	g->known &= ~REG(DT_RSP);
	if (!far_ret)
		emit_bytes(g, iretq, 2);
	else if (percent(g, 50))
		emit_bytes(g, retf, 2);
	else
		emit_bytes(g, retf_n, 4);
	if (lea_end)
		gen_patch32(g, lea_end - 4, g->pos - lea_end);
	gen_set_reg(g, DT_RAX, gen_address(g, 1));
}

/* Overwrites part of a later instruction's immediate just before it is executed. */
void t_self_modify(struct gen *g)
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

		gen_simple_op(g);
		g->skip_until = old_skip;
	}
	/* The displacement is filled in before the target is known to exist: never dangling. */
	at = g->pos;
	if (emit_bytes(g, mov, 5) < 0)
		at = g->pos - 2;
	g->known &= ~REG(reg);
	gen_patch32(g, store_end - (n - 2), at + 1 + off - store_end);
}

/* Jumps into a page that cannot be executed, one that is not there, off the end of one, and to
 * values that are no addresses. */
void t_bad_jump(struct gen *g)
{
	static const uint8_t jmp[2] = {0xff, 0xe0}, call[2] = {0xff, 0xd0};
	static const uint8_t push_ret[2] = {0x50, 0xc3};
	uint8_t mov64[10] = {0x48, 0xb8};
	uint64_t wild = random_split(&g->rng);
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
