// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: entry and exit, blocks, and transfers of control between them. jit.c calls
 * jit_block(). The emitted code must count each block that it enters, as ENTER in exec.c does, and
 * must go to another block only if that is valid in the vCPU's mapping.
 */
#include <stddef.h>

#include "vmm/emu/jit/jit.h"

#define IN(code, first, last) JIT_IN(code, EMU_OP_##first, EMU_OP_##last)

#define VCPU(field) ((int32_t)offsetof(struct emu_vcpu, field))

/* ---- entry and exit ---- */

/* xmm15: the sums since the last fold. [0] is v->acc, [1] is effort. */
static void sums(struct jit_buf *b, bool store, unsigned int base)
{
	const unsigned int opcode = store ? 0x7f : 0x6f; /* movdqu */

	x_byte(b, 0xf3), x_byte(b, 0x44), x_byte(b, 0x0f), x_byte(b, opcode);
	x_byte(b, 0xb8 | base);
	x_word(b, (uint32_t)VCPU(jit.sums), 4);
}

static void write_enter(struct jit_buf *b)
{
	const struct rm v = rm_mem(HOST_RDI, 0);
	struct rm m = v;

	x_byte(b, 0x53), x_byte(b, 0x55); /* push rbx, rbp, r12 to r15 */
	for (unsigned int r = 4; r < 8; r++)
		x_byte(b, 0x41), x_byte(b, 0x50 | r);
	x_alu_imm(b, X_SUB, 3, rm_reg(HOST_RSP), FRAME_BYTES);
	x_store(b, 3, rm_mem(HOST_RSP, FRAME_VCPU), HOST_RDI);
	m.disp = VCPU(tlb);
	x_mov(b, 3, HOST_RAX, m);
	x_store(b, 3, rm_mem(HOST_RSP, FRAME_TLB), HOST_RAX);
	m.disp = VCPU(tctx);
	x_mov(b, 2, HOST_RAX, m);
	x_store(b, 2, rm_mem(HOST_RSP, FRAME_CTX), HOST_RAX);
	m.disp = VCPU(jit.sse);
	x_mov(b, 2, HOST_RAX, m);
	x_store(b, 2, rm_mem(HOST_RSP, FRAME_SSE), HOST_RAX);
	m.disp = VCPU(jit.sites_now);
	x_mov(b, 3, HOST_RAX, m);
	x_store(b, 3, rm_mem(HOST_RSP, FRAME_SITES), HOST_RAX);
	m.disp = VCPU(jit.slots);
	x_mov(b, 3, HOST_RAX, m);
	x_store(b, 3, rm_mem(HOST_RSP, FRAME_SLOTS), HOST_RAX);
	m.disp = VCPU(jc);
	x_lea(b, 3, HOST_RAX, m);
	x_store(b, 3, rm_mem(HOST_RSP, FRAME_JC), HOST_RAX);
	for (unsigned int g = EMU_R11; g <= EMU_GSBASE; g++) {
		m.disp = VCPU(r) + (int32_t)g * 8;
		x_mov(b, 3, HOST_RAX, m);
		x_store(b, 3, jit_rm(g), HOST_RAX);
	}
	sums(b, false, HOST_RDI);
	m.disp = VCPU(left);
	x_mov(b, 3, HOST_LEFT, m);
	m.disp = VCPU(jit.ax);
	x_mov(b, 2, HOST_RAX, m);
	x_mov(b, 3, HOST_S1, rm_reg(HOST_RSI));
	for (unsigned int g = 0; g < EMU_R11; g++)
		if (jit_host(g) != HOST_RDI) {
			m.disp = VCPU(r) + (int32_t)g * 8;
			x_mov(b, 3, jit_host(g), m);
		}
	m.disp = VCPU(r) + EMU_RDI * 8;
	x_mov(b, 3, HOST_RDI, m);
	x_op(b, 0xff, 2, 4, rm_reg(HOST_S1)); /* jmp */
}

static void write_leave(struct jit_buf *b)
{
	struct rm m = rm_mem(HOST_RAX, 0);

	x_store(b, 2, rm_mem(HOST_RSP, FRAME_ADDR), HOST_RAX);
	x_mov(b, 3, HOST_RAX, rm_mem(HOST_RSP, FRAME_VCPU));
	for (unsigned int g = 0; g < EMU_R11; g++) {
		m.disp = VCPU(r) + (int32_t)g * 8;
		x_store(b, 3, m, jit_host(g));
	}
	for (unsigned int g = EMU_R11; g < EMU_ZERO; g++) {
		m.disp = VCPU(r) + (int32_t)g * 8;
		x_mov(b, 3, HOST_RCX, jit_rm(g));
		x_store(b, 3, m, HOST_RCX);
	}
	sums(b, true, HOST_RAX);
	m.disp = VCPU(left);
	x_store(b, 3, m, HOST_LEFT);
	x_mov(b, 2, HOST_RCX, rm_mem(HOST_RSP, FRAME_ADDR));
	m.disp = VCPU(jit.ax);
	x_store(b, 2, m, HOST_RCX);
	m.disp = VCPU(jit.block);
	x_store(b, 3, m, HOST_S1);
	x_mov(b, 2, HOST_RAX, rm_reg(HOST_S2));
	x_alu_imm(b, X_ADD, 3, rm_reg(HOST_RSP), FRAME_BYTES);
	for (unsigned int r = 7; r >= 4; r--)
		x_byte(b, 0x41), x_byte(b, 0x58 | r);
	x_byte(b, 0x5d), x_byte(b, 0x5b), x_byte(b, 0xc3); /* pop rbp, rbx; ret */
}

void jit_common_write(struct jit_buf *b)
{
	const uint8_t *taken;

	x_align(b, 16);
	taken = b->at;
	x_word(b, EMU_TAKEN_SUM, 8);
	x_word(b, 0, 8);
	jit_common.enter = (uint32_t(*)(struct emu_vcpu *, const void *))(uintptr_t)jit_exec(b->at);
	write_enter(b);
	jit_common.untranslated[1] = b->at;
	x_add_sums(b, taken);
	jit_common.untranslated[0] = b->at;
	x_mov_imm(b, HOST_S2, EMU_JIT_ENTER);
	jit_common.leave = b->at;
	write_leave(b);
}

/* ---- transfers ---- */

/* The jump at @site leaves with @kind, at the end of the block. */
static void leave_end(struct jit *j, uint8_t *site, enum emu_jit_exit kind)
{
	if (j->nr_exits == JIT_EXITS) {
		j->b.full = true;
		return;
	}
	j->exits[j->nr_exits].site = site;
	j->exits[j->nr_exits++].word = JIT_WORD(kind, 0, 0, 0);
}

/* HOST_S1 = slot @which of the block. The code may be shared by vCPUs, each with blocks at other
 * addresses. */
static void slot(struct jit *j, unsigned int which)
{
	x_mov(&j->b, 3, HOST_S1, rm_mem(HOST_RSP, FRAME_SLOTS));
	x_mov(&j->b, 3, HOST_S1, rm_mem(HOST_S1, (int32_t)(8 * (j->blk->slot + which))));
}

/*
 * The target of the jump at @site: by the link in the op, like TAKEN and FALL in exec.c. If the
 * link's block has a translation and is on the same page, jit.c makes the jump direct. The slot is
 * a copy of the link; emu_jit_run() updates it when the code was left here.
 */
static void edge(struct jit *j, uint8_t *site, const struct emu_op *op, bool taken)
{
	const struct emu_block *to = taken ? op->taken : op->fall;

	x_link(&j->b, site, j->b.at);
	if (jit_same_page(j->v, j->blk, to))
		j->jumps[j->nr_jumps++] = (struct jit_jump){site, j->blk, to, taken};
	emu_jit_slot(j->v, j->blk, taken);
	slot(j, taken ? EMU_SLOT_TAKEN : EMU_SLOT_FALL);
	x_mov(&j->b, 2, HOST_S2, rm_mem(HOST_RSP, FRAME_CTX));
	x_alu_load(&j->b, X_CMP, 2, HOST_S2, rm_mem(HOST_S1, offsetof(struct emu_block, ctx)));
	leave_end(j, x_jcc(&j->b, CC_NE), taken ? EMU_JIT_TAKEN : EMU_JIT_FALL);
	x_jmp_mem(&j->b, rm_mem(HOST_S1, offsetof(struct emu_block, native) + (taken ? 8 : 0)));
}

/* Jump to taken if the host meets @cc, else to fall. */
static void two_edges(struct jit *j, const struct emu_op *op, unsigned int cc)
{
	uint8_t *taken = x_jcc(&j->b, cc), *fall = x_jmp(&j->b);

	edge(j, taken, op, true);
	edge(j, fall, op, false);
}

/* Look up the block of the indirect target in HOST_S1: HOST_S2 becomes its block, or the code is
 * left, like INDIRECT in exec.c. A non-canonical target is in no block. */
static void jit_flow_look_up(struct jit *j)
{
	jit_clobber(j);
	x_mov(&j->b, 3, HOST_S2, rm_reg(HOST_S1));
	x_shift_imm(&j->b, X_SHR, 3, rm_reg(HOST_S2), EMU_JC_BITS);
	x_alu(&j->b, X_XOR, 2, rm_reg(HOST_S2), HOST_S1);
	x_alu_imm(&j->b, X_AND, 2, rm_reg(HOST_S2), EMU_JC_SIZE - 1);
	x_shift_imm(&j->b, X_SHL, 2, rm_reg(HOST_S2), 3);
	x_alu_load(&j->b, X_ADD, 3, HOST_S2, rm_mem(HOST_RSP, FRAME_JC));
	x_mov(&j->b, 3, HOST_S2, rm_mem(HOST_S2, 0));
	x_alu_load(&j->b, X_CMP, 3, HOST_S1, rm_mem(HOST_S2, offsetof(struct emu_block, rip)));
	jit_leave_at(j, x_jcc(&j->b, CC_NE));
	x_mov(&j->b, 2, HOST_S1, rm_mem(HOST_RSP, FRAME_CTX));
	x_alu_load(&j->b, X_CMP, 2, HOST_S1, rm_mem(HOST_S2, offsetof(struct emu_block, ctx)));
	jit_leave_at(j, x_jcc(&j->b, CC_NE));
}

/* Jump to the block in HOST_S1. */
static void go(struct jit *j)
{
	x_jmp_mem(&j->b, rm_mem(HOST_S1, offsetof(struct emu_block, native) + 8));
}

/* Push the return address @to; the stack is checked first. */
static bool push_return(struct jit *j, uint64_t to)
{
	const struct jit_ea top = {EMU_RSP, EMU_ZERO, 0, -8};
	bool ok = true;
	struct rm m = jit_access(j, top, 8, true, &ok);

	if (to == (uint64_t)(int64_t)(int32_t)to) {
		x_store_imm(&j->b, 3, m, (int64_t)to);
	} else {
		x_mov_imm(&j->b, HOST_S1, to);
		x_store(&j->b, 3, m, HOST_S1);
	}
	x_lea(&j->b, 3, HOST_R12, rm_mem(HOST_R12, -8));
	return ok;
}

bool jit_branch(struct jit *j)
{
	const struct emu_op *op = &j->blk->ops[j->i];
	const struct jit_ea top = {EMU_RSP, EMU_ZERO, 0, 0};
	unsigned int code = j->code[j->i], lg = op->flags & EMU_OPF_A32 ? 2 : 3;
	bool ok = true;
	struct rm m;

	if (j->nr_jumps + 2 > sizeof(j->jumps) / sizeof(j->jumps[0]))
		return false;
	if (IN(code, JCC, J_RNS)) {
		jit_to_ax(j);
		two_edges(j, op, jit_cond(j, op->scale));
		return true;
	}
	jit_clobber(j);
	switch (code) {
	case EMU_OP_JMP:
		edge(j, x_jmp(&j->b), op, true);
		return true;
	case EMU_OP_CALL:
		ok = push_return(j, (uint64_t)op->imm);
		edge(j, x_jmp(&j->b), op, true);
		return ok;
	case EMU_OP_LOOP:
		x_lea(&j->b, lg, HOST_RCX, rm_mem(HOST_RCX, -1));
		x_alu_imm(&j->b, X_CMP, 3, rm_reg(HOST_RCX), 0);
		two_edges(j, op, CC_NE);
		return true;
	case EMU_OP_JRCXZ:
		x_alu_imm(&j->b, X_CMP, lg, rm_reg(HOST_RCX), 0);
		two_edges(j, op, CC_E);
		return true;
	case EMU_OP_JMP_R:
		x_mov(&j->b, 3, HOST_S1, jit_rm(op->src));
		jit_flow_look_up(j);
		x_mov(&j->b, 3, HOST_S1, rm_reg(HOST_S2));
		go(j);
		return true;
	case EMU_OP_CALL_R:
		x_mov(&j->b, 3, HOST_S1, jit_rm(op->src));
		jit_flow_look_up(j);
		x_store(&j->b, 3, rm_mem(HOST_RSP, FRAME_BLOCK), HOST_S2);
		ok = push_return(j, (uint64_t)op->imm);
		x_mov(&j->b, 3, HOST_S1, rm_mem(HOST_RSP, FRAME_BLOCK));
		go(j);
		return ok;
	case EMU_OP_RET:
	case EMU_OP_RETI:
		m = jit_access(j, top, 8, false, &ok);
		x_mov(&j->b, 3, HOST_S1, m);
		jit_flow_look_up(j);
		x_lea(&j->b, 3, HOST_R12,
		      rm_mem(HOST_R12, 8 + (code == EMU_OP_RETI ? (int32_t)op->imm : 0)));
		x_mov(&j->b, 3, HOST_S1, rm_reg(HOST_S2));
		go(j);
		return ok;
	default:
		return false;
	}
}

/* ---- blocks ---- */

/* The effort of memory accesses of the instruction that begins with @op, in quarters; *accesses of
 * the block were before it. */
static int quarters_of_accesses(const struct emu_op *op, unsigned int code, unsigned int *accesses)
{
	bool load = op->ev & EMU_EV_LOAD, store = op->ev & EMU_EV_STORE;
	unsigned int before = *accesses;
	int q;

	if (!load && !store)
		return 0;
	*accesses += load + store;
	q = (int)(*accesses / 2 - before / 2);
	if (load && store)
		q += EMU_QUARTERS_MODIFY;
	if (IN(code, PUSH_R, LEAVE))
		return q + EMU_QUARTERS_STACK;
	if (!IN(code, JMP, JRCXZ) && code != EMU_OP_HELPER &&
	    ((op->base >= EMU_R11 && op->base != EMU_ZERO) ||
	     (op->idx >= EMU_R11 && op->idx != EMU_ZERO)))
		q += EMU_QUARTERS_ADDRESS;
	return q;
}

/* The opcodes of the block's ops, with fused pairs split. */
static void read_ops(struct jit *j)
{
	struct emu_block *blk = j->blk;

	uint32_t xmm = 0;
	unsigned int last = 0, accesses = 0;
	int least;

	blk->simd = JIT_SSE_NONE;
	j->nr = blk->nr_ops;
	j->quarters_all = 0;
	for (unsigned int i = 0; i < j->nr; i++) {
		const struct emu_op *op = &blk->ops[i];
		unsigned int code = emu_opcode(i ? op->h : blk->h0);
		int q = op->len ? EMU_QUARTERS_PLAIN - 4 : 0;

		if (op->flags & EMU_OPF_FUSED)
			code = op[1].unfused;
		if (IN(code, LDL8, LDL64))
			q += EMU_QUARTERS_LOCK - EMU_QUARTERS_PLAIN;
		else if (IN(code, ADC_RR8, SBB_MI64))
			q += EMU_QUARTERS_CARRY - EMU_QUARTERS_PLAIN;
		else if (IN(code, MUL32, MUL64))
			q += EMU_QUARTERS_MUL - EMU_QUARTERS_PLAIN;
		else if (IN(code, IMUL_RR32, IMUL_RRI64))
			q += EMU_QUARTERS_IMUL - EMU_QUARTERS_PLAIN;
		else if (code == EMU_OP_HELPER && jit_simd_level(op)) {
			if (jit_simd_level(op) > blk->simd)
				blk->simd = (uint8_t)jit_simd_level(op);
			q += jit_simd_quarters(op, &xmm) - EMU_QUARTERS_PLAIN;
		} else if (code == EMU_OP_HELPER)
			q += (op->fn == emu_help_div || op->fn == emu_help_idiv
				      ? EMU_QUARTERS_DIVIDE
				      : EMU_QUARTERS_BITS) -
			     EMU_QUARTERS_PLAIN;
		else if (code == EMU_OP_LOOP)
			q += EMU_QUARTERS_LOOP - EMU_QUARTERS_PLAIN;
		else if (code == EMU_OP_RET || code == EMU_OP_RETI || code == EMU_OP_JMP_R ||
			 code == EMU_OP_CALL_R)
			q += EMU_QUARTERS_INDIRECT;
		if (op->len)
			q += quarters_of_accesses(op, code, &accesses);
		j->code[i] = (uint16_t)code;
		j->quarters[i] = (int8_t)q;
		j->quarters_all += q;
		if (op->len)
			last = i;
	}
	/* Charge the shortfall below the minimum to the last instruction. */
	least = EMU_QUARTERS_BLOCK - 4 * blk->n - j->quarters_all;
	if (least > 0) {
		j->quarters[last] = (int8_t)(j->quarters[last] + least);
		j->quarters_all += least;
	}
}

/* Find the points at which the flags are needed, from the end backwards. */
static void find_live(struct jit *j)
{
	bool live = true;

	j->live[j->nr] = true;
	for (unsigned int i = j->nr; i--;) {
		unsigned int flow = jit_op_flow(j, i);

		if (flow & (JIT_READS | JIT_LEAVES))
			live = true;
		else if (flow & JIT_KILLS)
			live = false;
		j->live[i] = live;
	}
}

/* The instructions up to the block's end, or to the first without a template. */
static void body(struct jit *j)
{
	const struct emu_op *ops = j->blk->ops;

	j->i = j->start = j->insns = 0;
	j->fl = FL_AX;
	j->sub = false;
	j->xmm = 0;
	jit_simd_enter(j);
	while (j->i < j->nr && j->code[j->i] != EMU_OP_END) {
		if (!jit_insn(j)) {
			j->start = j->i;
			jit_clobber(j);
			jit_leave_at(j, x_jmp(&j->b));
			return;
		}
		j->insns++;
	}
	if (j->i < j->nr) {
		jit_clobber(j);
		edge(j, x_jmp(&j->b), &ops[j->i], false);
	}
}

static void write_exits(struct jit *j)
{
	uint8_t *tails[JIT_EXITS], *tail;

	for (unsigned int i = 0; i < j->nr_misses; i++)
		jit_write_miss(j, &j->misses[i]);
	for (unsigned int i = 0; i < j->nr_exits; i++) {
		x_link(&j->b, j->exits[i].site, j->b.at);
		x_mov_imm(&j->b, HOST_S2, j->exits[i].word);
		tails[i] = x_jmp(&j->b);
	}
	tail = j->b.at;
	slot(j, EMU_SLOT_SELF);
	jit_reloc(j, x_jmp(&j->b), jit_common.leave);
	for (unsigned int i = 0; i < j->nr_exits; i++)
		x_link(&j->b, tails[i], tail);
}

bool jit_block(struct jit *j)
{
	struct emu_block *blk = j->blk;
	uint8_t *entry[2], *no_room[2], *to_body, *start;
	const uint8_t *sum[2];
	unsigned int nr_jumps = j->nr_jumps, nr_relocs = j->nr_relocs;

	j->nr_exits = j->nr_misses = 0;
	read_ops(j);
	find_live(j);
	x_align(&j->b, 16);
	for (unsigned int t = 0; t < 2; t++) {
		sum[t] = j->b.at;
		x_word(&j->b, blk->sum + (t ? EMU_TAKEN_SUM : 0), 8);
		x_word(&j->b, (uint64_t)(int64_t)j->quarters_all, 8);
	}
	j->miss = j->b.at;
	x_word(&j->b, 0, 8);
	x_word(&j->b, EMU_QUARTERS_MISS, 8);
	for (unsigned int t = 0; t < 2; t++) {
		entry[t] = j->b.at;
		x_alu_imm(&j->b, X_SUB, 3, rm_reg(HOST_LEFT), blk->step);
		no_room[t] = x_jcc(&j->b, CC_S);
		x_add_sums(&j->b, sum[t]);
		if (!t)
			to_body = x_jmp(&j->b);
	}
	start = j->b.at;
	x_link(&j->b, to_body, start);
	body(j);
	if (j->insns < j->least && j->insns < (unsigned int)blk->n) {
		j->nr_jumps = nr_jumps;
		j->nr_relocs = nr_relocs;
		return false;
	}
	write_exits(j);
	for (unsigned int t = 0; t < 2; t++) {
		x_link(&j->b, no_room[t], j->b.at);
		x_alu_imm(&j->b, X_ADD, 3, rm_reg(HOST_LEFT), blk->step);
		slot(j, EMU_SLOT_SELF);
		jit_reloc(j, x_jmp(&j->b), jit_common.untranslated[t]);
	}
	if (j->b.full) {
		j->nr_jumps = nr_jumps;
		j->nr_relocs = nr_relocs;
		return false;
	}
	blk->native[0] = entry[0]; /* until it has a place */
	blk->native[1] = entry[1];
	blk->native_body = (uint16_t)(start - entry[1]);
	blk->native_effort = (int16_t)j->quarters_all;
	return true;
}
