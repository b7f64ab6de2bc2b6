// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Splits guest code into blocks: fetches bytes, decodes them with Zydis, and appends ops with
 * emu_emit(). A block ends with a transfer of control, before a system instruction, at a page's end
 * (an instruction that crosses it is a block of its own), or when it is full.
 */
#include <string.h>

#include "vmm/emu/cpu/emit.h"

/* Most ops of one instruction: a locked or read-modify-write form whose address has a segment and
 * an index. */
#define INSN_OPS 6u

enum outcome { GOT, SHORT, BAD, TOO_LONG };

static enum outcome decode_one(const uint8_t *p, unsigned int room, ZydisDecodedInstruction *zi,
			       ZydisDecodedOperand *zo)
{
	ZydisDecoder d;
	ZyanStatus st;

	ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	st = ZydisDecoderDecodeFull(&d, p, room < INSN_MAX ? room : INSN_MAX, zi, zo);
	/* Knights Corner has VEX forms of TZCNT, LZCNT and POPCNT, and MVEX prefixes. */
	if (ZYAN_SUCCESS(st))
		return zi->encoding == ZYDIS_INSTRUCTION_ENCODING_MVEX ||
				       (zi->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX &&
					zi->meta.isa_ext >= ZYDIS_ISA_EXT_KNC &&
					zi->meta.isa_ext <= ZYDIS_ISA_EXT_KNCV)
			       ? BAD
			       : GOT;
	if (st == ZYDIS_STATUS_NO_MORE_DATA)
		return room < INSN_MAX ? SHORT : TOO_LONG;
	return st == ZYDIS_STATUS_INSTRUCTION_TOO_LONG ? TOO_LONG : BAD;
}

static void emit_one(struct emu_code *c, uint64_t rip, enum outcome o, unsigned int room,
		     const ZydisDecodedInstruction *zi, const ZydisDecodedOperand *zo)
{
	if (o == GOT)
		emu_emit(c, rip, zi, zo);
	else
		emu_emit_fault(c, rip, room < INSN_MAX ? room : INSN_MAX, o == TOO_LONG);
}

/* The block's first instruction reaches beyond its page: get the rest from the next one. */
static int decode_crossing(struct emu_vcpu *v, struct emu_code *c, unsigned int room, uint8_t *buf)
{
	unsigned int acc = EMU_ACC_X | (v->cpl == 3 ? EMU_ACC_U : 0);
	uint64_t va = (v->rip & EMU_PAGE_MASK) + EMU_PAGE_SIZE, pa;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction zi;
	enum outcome o;

	if (emu_translate(v, va, acc, &pa, NULL))
		return 1;
	if (!emu_is_ram(v->vm, pa))
		return emu_error(
			v, "instruction fetch from guest-physical 0x%llx, where there is no RAM",
			(unsigned long long)pa);
	memcpy(buf + room, v->vm->ram + pa, INSN_MAX - room);
	o = decode_one(buf, INSN_MAX, &zi, zo);
	emit_one(c, v->rip, o, INSN_MAX, &zi, zo);
	/* Bytes of a bad instruction may all be in the first page; then it does not cross. */
	c->crosses = c->bytes > room;
	c->pfn2 = (uint32_t)(pa >> EMU_PAGE_SHIFT);
	return 0;
}

int emu_decode(struct emu_vcpu *v, uint64_t pa, struct emu_code *c, uint8_t buf[EMU_BLOCK_BYTES])
{
	unsigned int avail = (unsigned int)(EMU_PAGE_SIZE - (pa & ~EMU_PAGE_MASK)), at = 0;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction zi;

	if (avail > EMU_BLOCK_BYTES)
		avail = EMU_BLOCK_BYTES;
	/* Decode a copy: another vCPU can change the code, and emu_find() must compare the bytes
	 * that were decoded. */
	memcpy(buf, v->vm->ram + pa, avail);
	c->nr_ops = c->n = c->bytes = 0;
	c->rip = c->next = v->rip;
	c->target = 0;
	c->last = v->rip;
	c->branch = 0;
	c->sum = 0;
	c->step = 0;
	c->crosses = c->ended = c->full = c->solo = false;
	c->pfn2 = UINT32_MAX;
	c->intel = v->intel;
	c->simd = v->simd;
	c->alone = v->vm->vcpus == v && !v->vm_next;
	c->yields = (v->chip && !c->alone) || v->svm;
	c->fclass = EMU_FC_UNKNOWN;

	while (!c->ended) {
		unsigned int nr_ops = c->nr_ops, n = c->n, room = avail - at;
		uint64_t sum = c->sum, next = c->next, last = c->last;
		int32_t step = c->step;
		enum outcome o;

		if (c->full || n == EMU_BLOCK_INSNS || nr_ops + INSN_OPS >= EMU_BLOCK_OPS ||
		    !room) {
			emu_emit_end(c);
			break;
		}
		o = decode_one(buf + at, room, &zi, zo);
		if (o == SHORT) {
			if (!n) {
				if (decode_crossing(v, c, room, buf))
					return 1;
				if (!c->ended)
					emu_emit_end(c);
				break;
			}
			emu_emit_end(c);
			break;
		}
		emit_one(c, c->next, o, room, &zi, zo);
		if (c->solo && n) { /* it starts a block of its own */
			c->nr_ops = nr_ops;
			c->n = n;
			c->bytes = at;
			c->sum = sum;
			c->step = step;
			c->next = next;
			c->last = last;
			c->solo = false;
			emu_emit_end(c);
			break;
		}
		at = c->bytes;
	}
	for (unsigned int i = 0; i < c->nr_ops; i++)
		c->ops[i].h = emu_labels[c->code[i]];
	return 0;
}
