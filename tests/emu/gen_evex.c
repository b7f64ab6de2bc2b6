// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: instructions with an EVEX prefix, also those that are #UD. Each opcode of the list is
 * as frequent as any other; its operands, masks, rounding and broadcast are random.
 */
#include "tests/emu/gen_internal.h"
#include "vmm/engine/simd.h"

struct evex {
	unsigned int map, pp, opcode, ll, aaa;
	bool w, b, z, mem;
	unsigned int reg, vvvv, rm;
	unsigned int before; /* a prefix that must not be there, or 0 */
	struct memop m;
};

static void put_evex(struct gen *g, struct enc *e, const struct evex *x, unsigned int *disp_at)
{
	bool rex_x = x->mem ? x->m.rex_x : x->rm >> 4, rex_b = x->mem ? x->m.rex_b : x->rm >> 3 & 1;

	if (x->mem && x->m.segment)
		put(e, x->m.segment);
	if (x->mem && x->m.addr32)
		put(e, 0x67);
	if (x->before)
		put(e, (uint8_t)x->before);
	put(e, 0x62);
	put(e, (uint8_t)((x->reg >> 3 & 1 ? 0 : 0x80) | (rex_x ? 0 : 0x40) | (rex_b ? 0 : 0x20) |
			 (x->reg >> 4 ? 0 : 0x10) | x->map));
	put(e, (uint8_t)((x->w ? 0x80 : 0) | (~x->vvvv & 15) << 3 | 4 | x->pp));
	put(e, (uint8_t)((x->z ? 0x80 : 0) | x->ll << 5 | (x->b ? 0x10 : 0) |
			 (x->vvvv >> 4 ? 0 : 8) | x->aaa));
	put(e, (uint8_t)x->opcode);
	gen_put_operand(e, x->mem ? &x->m : NULL, x->rm & 15, x->reg & 15, disp_at);
	put_le(e, below(g, 256), 1); /* the immediate byte, if there is one */
}

static unsigned int any_vector(struct gen *g)
{
	return percent(g, 70) ? below(g, 32) : below(g, 4);
}

static void evex_operands(struct gen *g, struct evex *x)
{
	x->ll = percent(g, 3) ? 3 : below(g, 3);
	x->b = percent(g, 20);
	x->z = percent(g, 30);
	x->aaa = percent(g, 40) ? 0 : below(g, 8);
	x->vvvv = percent(g, 40) ? 0 : any_vector(g); /* 0 is encoded as 1111B */
	x->reg = percent(g, 30) ? below(g, 8) : any_vector(g);
	x->rm = percent(g, 30) ? gen_pick_reg(g) : any_vector(g);
	x->mem = percent(g, 45);
	if (!x->mem)
		return;
	/* An operand may reach over the end of the area. */
	x->m = gen_mem_operand(g, percent(g, 60) ? 64 : 1, percent(g, 40) ? below(g, 64) : 0);
	if (x->m.disp_len == 1 && percent(g, 80)) /* it is multiplied by up to 64 */
		x->m.disp = below(g, 3) - 1;
}

/* A general register as ModRM.rm, for which EVEX.X is ignored. Family 19H of AMD's then reads an
 * old RSP after a PUSH. */
static bool ignores_x(const struct evex *x, const struct insn *in)
{
	for (unsigned int i = 0; x->rm >> 4 && i < in->i.operand_count_visible; i++)
		if (in->op[i].encoding == ZYDIS_OPERAND_ENCODING_MODRM_RM &&
		    in->op[i].type == ZYDIS_OPERAND_TYPE_REGISTER)
			return in->op[i].size <= 64 &&
			       ZydisRegisterGetClass(in->op[i].reg.value) != ZYDIS_REGCLASS_XMM;
	return false;
}

/* Place the instruction. If it is none, it is placed with @illegal only. AMD's CPUs execute some
 * register forms with EVEX.b, and some unmasked ones with EVEX.z, which are #UD by the manual. */
static bool evex_emit(struct gen *g, const struct evex *x, bool illegal)
{
	bool lenient = (x->b && !x->mem) || (x->z && !x->aaa);
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	put_evex(g, &e, x, &disp_at);
	if (!insn_decode(e.b, e.n, &in) || in.i.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX)
		return illegal && !lenient && emit_raw(g, e.b, e.n) >= 0;
	return !ignores_x(x, &in) && gen_place(g, &e, x->mem ? &x->m : NULL, disp_at);
}

static bool is_gather(unsigned int map, unsigned int opcode)
{
	return map == 2 &&
	       ((opcode >= 0x90 && opcode <= 0x93) || (opcode >= 0xa0 && opcode <= 0xa3));
}

/* The opcodes of the list, with prefix and W. */
static struct {
	uint8_t map, pp, w, opcode;
} known[1024];
static unsigned int nr_known;

/* Any form of the opcode decodes, and is in the list. */
static bool opcode_known(unsigned int map, unsigned int pp, unsigned int w, unsigned int opcode)
{
	for (unsigned int try = 0; try < 128; try++) {
		uint8_t b[16] = {0x62,
				 (uint8_t)(0xf0 | map),
				 (uint8_t)(w << 7 | (try & 1 ? 0x7c : 0x64) | pp),
				 (uint8_t)((try >> 6) << 6 | 8 | (try >> 2 & 1)),
				 (uint8_t)opcode,
				 (uint8_t)((try & 2 ? 0xc0 : 0) | (try >> 3 & 7) << 3 | 2)};
		struct insn in;

		if (insn_decode(b, sizeof(b), &in) && gen_isa[in.i.mnemonic] &&
		    in.i.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX)
			return true;
	}
	return false;
}

static void find_known(void)
{
	for (unsigned int i = 0; i < 3 * 4 * 2 * 256; i++) {
		unsigned int map = 1 + i / 2048, pp = i / 512 % 4, w = i / 256 % 2;

		if (!is_gather(map, i % 256) && opcode_known(map, pp, w, i % 256)) {
			known[nr_known].map = (uint8_t)map;
			known[nr_known].pp = (uint8_t)pp;
			known[nr_known].w = (uint8_t)w;
			known[nr_known++].opcode = (uint8_t)i;
		}
	}
}

static bool has_evex(const struct gen *g)
{
	return g->avx && vmm_simd_host() & VMM_SIMD_AVX512;
}

void t_evex(struct gen *g)
{
	if (!has_evex(g))
		return;
	if (!nr_known)
		find_known();
	for (uint32_t n = 1 + below(g, 6); n; n--) {
		unsigned int k = below(g, nr_known);
		struct evex x = {.map = known[k].map,
				 .pp = known[k].pp,
				 .w = known[k].w,
				 .opcode = known[k].opcode};

		for (int tries = 0; tries < 24; tries++) {
			evex_operands(g, &x);
			if (evex_emit(g, &x, percent(g, 1)))
				break;
		}
	}
}

/* One instruction with registers only and no mask. */
static void evex_registers(struct gen *g, struct evex x, unsigned int imm)
{
	struct enc e = {.n = 0};
	unsigned int disp_at;
	struct insn in;

	x.pp = 1;
	put_evex(g, &e, &x, &disp_at);
	e.b[e.n - 1] = (uint8_t)imm;
	if (!insn_decode(e.b, e.n, &in))
		return;
	e.n = in.i.length;
	emit(g, &e);
}

/* A gather or scatter with small indices from the scratch area or its end, where some elements
 * fault: indices become their own upper bits first. */
void t_gather_evex(struct gen *g)
{
	unsigned int opcode = (percent(g, 50) ? 0x90 : 0xa0) + below(g, 4), index = below(g, 32);
	unsigned int dst = below(g, 32), scale = below(g, 4), ll = below(g, 3), disp_at;
	bool wide = opcode & 1;
	uint32_t at =
		percent(g, 75) ? gen_address(g, 1) & ~0xfffu : DT_RO + 0x1000 - below(g, 0x200);
	struct evex x = {.map = 2,
			 .pp = 1,
			 .opcode = opcode,
			 .w = percent(g, 50),
			 .ll = ll,
			 .aaa = percent(g, 95) ? 1 + below(g, 7) : 0,
			 .z = percent(g, 2),
			 .b = percent(g, 2),
			 .reg = dst,
			 .vvvv = index & 16,
			 .mem = true};
	struct enc e = {.n = 0};
	struct insn in;

	if (!has_evex(g))
		return;
	if (percent(g, 60) && opcode >= 0xa0)
		at = DT_DATA + DT_DATA_BYTES - below(g, 0x200);
	evex_registers(g,
		       (struct evex){.map = 1,
				     .opcode = wide ? 0x73 : 0x72,
				     .w = wide,
				     .ll = 2,
				     .reg = 2,
				     .vvvv = index,
				     .rm = index},
		       wide ? 55 : 23);
	x.m = (struct memop){.rm = 4,
			     .has_sib = true,
			     .sib = (uint8_t)(scale << 6 | (index & 7) << 3 | 5), /* no base */
			     .rex_x = index >> 3 & 1,
			     .addr32 = percent(g, 5),
			     .disp_len = 4,
			     .disp = at};
	put_evex(g, &e, &x, &disp_at);
	if (!insn_decode(e.b, e.n, &in)) {
		emit_raw(g, e.b, e.n);
		return;
	}
	e.n = in.i.length;
	emit(g, &e);
}

/* Any EVEX prefix, also behind one of the prefixes that must not be there (SDM vol. 2, 2.7). */
void t_evex_illegal(struct gen *g)
{
	static const uint8_t before[] = {0x66, 0xf2, 0xf3, 0xf0, 0x40, 0x48};
	struct evex x = {.map = below(g, 8), .pp = below(g, 4), .opcode = below(g, 256)};

	if (!has_evex(g))
		return;
	x.w = percent(g, 50);
	evex_operands(g, &x);
	if (percent(g, 40))
		x.before = before[below(g, sizeof(before))];
	x.map = x.before || percent(g, 70) ? 1 + below(g, 3) : x.map;
	if (x.map == 5 || x.map == 6) /* FP16, which the emulator does not have */
		return;
	evex_emit(g, &x, true);
}
