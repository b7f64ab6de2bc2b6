// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fetching, decoding and counting of 16- and 32-bit code, see legacy.h. run.c calls this file for a
 * vCPU outside of 64-bit mode. Speed does not matter here: an application processor executes about
 * a hundred such instructions, once.
 */
#include <stdio.h>
#include <string.h>

#include "vmm/emu/realmode/legacy.h"
#include "vmm/emu/svm/svm.h"

/* Modelled cycles of an instruction that only exists here, such as a far JMP. */
#define COST_OTHER 20u

/* Add up to @n bytes of code at linear address @la to @buf. Traps. */
static int legacy_fetch(struct emu_vcpu *v, uint32_t la, uint8_t *buf, unsigned int n)
{
	uint64_t pa;

	if (emu_translate(v, la, EMU_ACC_X, &pa, NULL))
		return 1;
	if (!emu_is_ram(v->vm, pa))
		return emu_error(
			v, "instruction fetch from guest-physical 0x%llx, where there is no RAM",
			(unsigned long long)pa);
	memcpy(buf, v->vm->ram + pa, n);
	return 0;
}

static void decoder(const struct emu_vcpu *v, ZydisDecoder *d)
{
	bool wide = v->seg[EMU_CS].db && v->cr0 & CR0_PE;
	ZydisMachineMode mode = wide ? ZYDIS_MACHINE_MODE_LEGACY_32 : ZYDIS_MACHINE_MODE_LEGACY_16;

	if (!(v->cr0 & CR0_PE))
		mode = ZYDIS_MACHINE_MODE_REAL_16;
	else if (v->efer & EFER_LMA)
		mode = wide ? ZYDIS_MACHINE_MODE_LONG_COMPAT_32 : ZYDIS_MACHINE_MODE_LONG_COMPAT_16;
	ZydisDecoderInit(d, mode, wide ? ZYDIS_STACK_WIDTH_32 : ZYDIS_STACK_WIDTH_16);
}

/* Fetch and decode the instruction at CS:IP into *zi, zo[] and raw[]. Traps. */
static int legacy_decode(struct emu_vcpu *v, uint8_t raw[INSN_MAX], ZydisDecodedInstruction *zi,
			 ZydisDecodedOperand *zo)
{
	uint32_t la = (uint32_t)(v->seg[EMU_CS].base + v->rip);
	unsigned int room = (unsigned int)(EMU_PAGE_SIZE - (la & ~EMU_PAGE_MASK));
	unsigned int n = room < INSN_MAX ? room : INSN_MAX;
	ZydisDecoder d;
	ZyanStatus st;

	if (legacy_fetch(v, la, raw, n))
		return 1;
	decoder(v, &d);
	st = ZydisDecoderDecodeFull(&d, raw, n, zi, zo);
	if (st == ZYDIS_STATUS_NO_MORE_DATA && n < INSN_MAX) {
		if (legacy_fetch(v, la + n, raw + n, INSN_MAX - n))
			return 1;
		st = ZydisDecoderDecodeFull(&d, raw, INSN_MAX, zi, zo);
	}
	if (!ZYAN_SUCCESS(st))
		return emu_ud(v);
	if (v->rip + zi->length - 1 > v->seg[EMU_CS].limit)
		return emu_gp(v, 0);
	return 0;
}

static int legacy_refuse(struct emu_vcpu *v, const uint8_t *raw, const ZydisDecodedInstruction *zi,
			 const ZydisDecodedOperand *zo)
{
	char hex[3 * INSN_MAX + 1] = "", text[80] = "?";
	ZydisFormatter f;

	for (unsigned int i = 0; i < zi->length && i < INSN_MAX; i++)
		snprintf(hex + 3 * i, 4, "%02x ", raw[i]);
	ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterFormatInstruction(&f, zi, zo, zi->operand_count_visible, text, sizeof(text),
					v->rip, NULL);
	return emu_error(v, "instruction outside the emulator's list of %s code: %s(%s)",
			 v->cr0 & CR0_PE ? "protected-mode" : "real-mode", hex, text);
}

void emu_legacy_step(struct emu_vcpu *v)
{
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	struct emu_block here = {.pfn2 = UINT32_MAX}, *cur = v->cur;
	uint8_t raw[INSN_MAX] = {0};
	ZydisDecodedInstruction zi;
	struct legacy l = {.v = v, .zi = &zi, .zo = zo};
	bool shadow = v->sti_shadow, ss = v->brk.ss_shadow;
	uint64_t mask;
	uint8_t ev;
	int rc;

	v->extra += EMU_EFFORT_SLICE + EMU_EFFORT_DECODE;
	v->sti_shadow = v->brk.ss_shadow = false;
	v->single = true; /* stores may hit decoded code */
	rc = legacy_decode(v, raw, &zi, zo);
	if (!rc) {
		mask = v->seg[EMU_CS].db ? 0xffffffff : 0xffff;
		l.next = (v->rip + zi.length) & mask;
		/* State that an exit keeps about its instruction. */
		here.rip = v->rip;
		here.next = l.next;
		v->cur = &here;
		ev = emu_insn_events(&zi, zo, COST_OTHER);
		rc = unlikely(v->guest) ? emu_svm_legacy(v, &zi, zo) : 0;
		if (!rc)
			rc = emu_legacy_insn(&l);
		v->cur = cur;
		if (rc < 0)
			legacy_refuse(v, raw, &zi, zo);
		if (rc == 0 || rc == 2) {
			v->rip = l.next;
			emu_count_one(v, ev, l.taken);
		}
	}
	if (v->trap == EMU_TRAP_FAULT || v->trap == EMU_TRAP_VMEXIT) {
		v->sti_shadow = shadow; /* it did not execute */
		v->brk.ss_shadow = ss;
	}
	v->single = false;
	if (v->trap == EMU_TRAP_FAULT && v->guest)
		emu_svm_exception(v, v->fault.vec, v->fault.has_err, v->fault.err);
	if (v->trap == EMU_TRAP_FAULT)
		emu_error(v, "exception %u in 16- or 32-bit code, where none is delivered",
			  v->fault.vec);
}
