// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: places instructions, follows known values of registers and flags, and mixes what
 * gen_ops.c, gen_flow.c and gen_special.c offer to sequences.
 */
#include <string.h>

#include "tests/emu/gen_internal.h"
#include "vmm/emu/cpu/emit.h"
#include "vmm/engine/simd.h"

const bool *gen_isa;
bool gen_intel;
bool gen_misalign;
bool gen_masked;
static bool no_cvtpi2ps; /* from memory */

#define SEQ_BYTES  150u /* longest sequence, its final jump included */
#define FINAL_JUMP 5u

void gen_init(const bool isa[SEQ_MNEMONICS], bool intel, bool misalign, bool masked,
	      bool without_cvtpi2ps)
{
	no_cvtpi2ps = without_cvtpi2ps;
	gen_masked = masked;
	gen_misalign = misalign;
	gen_isa = isa;
	gen_intel = intel;
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
 * Forms that are not on the list though their mnemonic is (docs/internals/emulator.md): nested and
 * 16-bit frames, vector instructions that share a string instruction's name. And 0F 0D with a
 * register, #UD on AMD's CPUs by the manual only. And CVTPI2PS from memory, where a CPU of Intel's
 * does not behave as in SDM vol. 2.
 */
static bool form_left_out(const struct insn *in)
{
	if (in->i.mnemonic == ZYDIS_MNEMONIC_ENTER || in->i.mnemonic == ZYDIS_MNEMONIC_LEAVE)
		return in->i.operand_width == 16 ||
		       (in->i.operand_count_visible == 2 && in->op[1].imm.value.u & 31);
	if (in->i.mnemonic == ZYDIS_MNEMONIC_CVTPI2PS)
		return no_cvtpi2ps && in->op[1].type == ZYDIS_OPERAND_TYPE_MEMORY;
	if (in->i.opcode_map == ZYDIS_OPCODE_MAP_0F && in->i.opcode == 0x0d)
		return in->i.raw.modrm.mod == 3 && !gen_intel;
	return false;
}

/* XINUSE does not follow from the registers while AVX instructions execute, and while SSE ones do
 * with bits 511:256 in use: a sequence has either these, or those that show it. */
static bool other_sequence(const struct gen *g, const struct insn *in)
{
	for (int k = 0; k < in->i.operand_count && g->zmm; k++)
		if (in->op[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(in->op[k].reg.value) == ZYDIS_REGCLASS_XMM)
			return true;
	if (in->i.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX)
		return !g->avx || !emu_isa_shown(&in->i, vmm_simd_host());
	switch (in->i.meta.isa_set) {
	case ZYDIS_ISA_SET_AVX_VNNI: /* not in the list, but its names are */
		return true;
	case ZYDIS_ISA_SET_AVX:
	case ZYDIS_ISA_SET_AVX2:
	case ZYDIS_ISA_SET_AVX2GATHER:
	case ZYDIS_ISA_SET_FMA:
	case ZYDIS_ISA_SET_F16C:
	case ZYDIS_ISA_SET_AVX512F_KOP:
	case ZYDIS_ISA_SET_AVX512DQ_KOP:
	case ZYDIS_ISA_SET_AVX512BW_KOP:
		return !g->avx;
	case ZYDIS_ISA_SET_XSAVE:
	case ZYDIS_ISA_SET_XSAVEC:
	case ZYDIS_ISA_SET_XSAVEOPT:
	case ZYDIS_ISA_SET_XSAVES:
		return g->avx;
	default:
		return false;
	}
}

int emit_bytes(struct gen *g, const uint8_t *b, unsigned int n)
{
	const unsigned int definer = 4;
	uint32_t undef;
	struct insn in;

	if (!insn_decode(b, n, &in) || in.i.length != n || !gen_isa[in.i.mnemonic] ||
	    !room(g, n + definer) || written_regs(&in) & g->frozen ||
	    insn_undefined_result(&in, known_cl(g)) || form_left_out(&in) || other_sequence(g, &in))
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

void gen_join(struct gen *g, int from, unsigned int to, uint32_t undef)
{
	struct dt_seq *q = g->q;

	q->join[q->nr_joins].from = (uint8_t)from;
	q->join[q->nr_joins++].to = (uint8_t)to;
	g->join_undef[to] |= undef;
}

bool gen_can_join(const struct gen *g)
{
	return g->q->nr_joins < SEQ_MAX_JOINS - 1 && g->pos + 40 < g->limit;
}

void gen_simple_op(struct gen *g)
{
	static const uint8_t nop = 0x90;

	for (int tries = 0; tries < 6; tries++)
		if (percent(g, 85) ? gen_table_op(g) : gen_random_op(g))
			return;
	emit_bytes(g, &nop, 1);
}

void gen_patch32(struct gen *g, unsigned int at, uint32_t v)
{
	memcpy(g->q->c.code + at, &v, 4);
}

static const struct {
	uint8_t weight;
	void (*fn)(struct gen *g);
} templates[] = {
	{110, gen_simple_op}, {10, t_jump_over},  {3, t_jump_indirect}, {5, t_call},
	{4, t_loop},	      {12, t_string},	  {10, t_shift_cl},	{6, t_div},
	{7, t_bit},	      {6, t_cmpxchg},	  {3, t_flags},		{1, t_iret},
	{2, t_self_modify},   {1, t_bad_jump},	  {1, t_fault},		{3, t_fixed},
	{4, t_stack},	      {1, t_cpuid},	  {1, t_segment_base},	{1, t_bad_access},
	{1, t_selector},      {36, t_simd},	  {22, t_x87},		{6, t_fp_control},
	{8, t_bmi},	      {1, t_vex_illegal}, {10, t_xsave},	{40, t_avx},
	{3, t_gather},	      {6, t_opmask},	  {45, t_evex},		{4, t_gather_evex},
	{1, t_evex_illegal},
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
	c->rflags =
		(random_split(&g->rng) & (DT_STATUS | (percent(g, 15) ? DT_DF : 0))) | DT_IF | 2;
	c->data_pool = below(g, DT_POOL);
	c->stack_pool = below(g, DT_POOL);
	gen_fx(g, c->fx);
	g->avx = gen_isa[ZYDIS_MNEMONIC_VZEROUPPER] && percent(g, 50);
	g->zmm = !g->avx && percent(g, 12);
	gen_vectors(g, &c->v);
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
