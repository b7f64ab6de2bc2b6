// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stubs of AVX-512, see evex.h. The assembler builds two tables of them. As in fpstub.c, a table
 * also has entries for bytes that are no instruction: never call those.
 */
#include "vmm/emu/fp/evex.h"

/* Stubs that the plain table lacks: with an immediate byte, or without a mask. X(map, prefix, W
 * (2: ignored), opcode, bits of the immediate byte that count (0: there is none), mask, lengths).
 */
/* clang-format off */
#define EVEX_ROWS(X) \
	X(1, 0, 0, 0x12, 0, 0, 1) X(1, 0, 0, 0x16, 0, 0, 1) X(1, 0, 0, 0x2e, 0, 0, 1) \
	X(1, 0, 0, 0x2f, 0, 0, 1) X(1, 1, 1, 0x2e, 0, 0, 1) X(1, 1, 1, 0x2f, 0, 0, 1) \
	X(1, 1, 0, 0x6e, 0, 0, 1) X(1, 1, 1, 0x6e, 0, 0, 1) X(1, 1, 0, 0x7e, 0, 0, 1) \
	X(1, 1, 1, 0x7e, 0, 0, 1) X(1, 2, 1, 0x7e, 0, 0, 1) X(1, 1, 1, 0xd6, 0, 0, 1) \
	X(1, 2, 0, 0x2a, 0, 0, 1) X(1, 2, 0, 0x2c, 0, 0, 1) X(1, 2, 0, 0x2d, 0, 0, 1) \
	X(1, 2, 0, 0x78, 0, 0, 1) X(1, 2, 0, 0x79, 0, 0, 1) X(1, 2, 0, 0x7b, 0, 0, 1) \
	X(1, 2, 1, 0x2a, 0, 0, 1) X(1, 2, 1, 0x2c, 0, 0, 1) X(1, 2, 1, 0x2d, 0, 0, 1) \
	X(1, 2, 1, 0x78, 0, 0, 1) X(1, 2, 1, 0x79, 0, 0, 1) X(1, 2, 1, 0x7b, 0, 0, 1) \
	X(1, 3, 0, 0x2a, 0, 0, 1) X(1, 3, 0, 0x2c, 0, 0, 1) X(1, 3, 0, 0x2d, 0, 0, 1) \
	X(1, 3, 0, 0x78, 0, 0, 1) X(1, 3, 0, 0x79, 0, 0, 1) X(1, 3, 0, 0x7b, 0, 0, 1) \
	X(1, 3, 1, 0x2a, 0, 0, 1) X(1, 3, 1, 0x2c, 0, 0, 1) X(1, 3, 1, 0x2d, 0, 0, 1) \
	X(1, 3, 1, 0x78, 0, 0, 1) X(1, 3, 1, 0x79, 0, 0, 1) X(1, 3, 1, 0x7b, 0, 0, 1) \
	X(1, 1, 2, 0xf6, 0, 0, 3) X(1, 0, 0, 0xc2, 5, 1, 3) X(1, 1, 1, 0xc2, 5, 1, 3) \
	X(1, 2, 0, 0xc2, 5, 1, 1) X(1, 3, 1, 0xc2, 5, 1, 1) X(1, 0, 0, 0xc6, 8, 1, 3) \
	X(1, 1, 1, 0xc6, 8, 1, 3) X(1, 1, 0, 0x70, 8, 1, 3) X(1, 2, 2, 0x70, 8, 1, 3) \
	X(1, 3, 2, 0x70, 8, 1, 3) X(1, 1, 2, 0xc4, 3, 0, 1) X(1, 1, 2, 0xc5, 3, 0, 1) \
	X(2, 2, 0, 0x28, 0, 0, 3) X(2, 2, 1, 0x28, 0, 0, 3) X(2, 2, 0, 0x29, 0, 0, 3) \
	X(2, 2, 1, 0x29, 0, 0, 3) X(2, 2, 0, 0x38, 0, 0, 3) X(2, 2, 1, 0x38, 0, 0, 3) \
	X(2, 2, 0, 0x39, 0, 0, 3) X(2, 2, 1, 0x39, 0, 0, 3) X(2, 2, 0, 0x3a, 0, 0, 3) \
	X(2, 2, 1, 0x2a, 0, 0, 3) X(3, 1, 1, 0x00, 8, 1, 3) X(3, 1, 1, 0x01, 8, 1, 3) \
	X(3, 1, 0, 0x03, 4, 1, 3) X(3, 1, 1, 0x03, 3, 1, 3) X(3, 1, 0, 0x04, 8, 1, 3) \
	X(3, 1, 1, 0x05, 8, 1, 3) X(3, 1, 0, 0x08, 8, 1, 3) X(3, 1, 1, 0x09, 8, 1, 3) \
	X(3, 1, 0, 0x0a, 8, 1, 1) X(3, 1, 1, 0x0b, 8, 1, 1) X(3, 1, 2, 0x0f, 8, 1, 3) \
	X(3, 1, 2, 0x14, 4, 0, 1) X(3, 1, 2, 0x15, 3, 0, 1) X(3, 1, 0, 0x16, 2, 0, 1) \
	X(3, 1, 1, 0x16, 1, 0, 1) X(3, 1, 2, 0x17, 2, 0, 1) X(3, 1, 0, 0x18, 2, 1, 3) \
	X(3, 1, 1, 0x18, 2, 1, 3) X(3, 1, 0, 0x19, 2, 1, 3) X(3, 1, 1, 0x19, 2, 1, 3) \
	X(3, 1, 0, 0x1a, 1, 1, 3) X(3, 1, 1, 0x1a, 1, 1, 3) X(3, 1, 0, 0x1b, 1, 1, 3) \
	X(3, 1, 1, 0x1b, 1, 1, 3) X(3, 1, 0, 0x38, 2, 1, 3) X(3, 1, 1, 0x38, 2, 1, 3) \
	X(3, 1, 0, 0x39, 2, 1, 3) X(3, 1, 1, 0x39, 2, 1, 3) X(3, 1, 0, 0x3a, 1, 1, 3) \
	X(3, 1, 1, 0x3a, 1, 1, 3) X(3, 1, 0, 0x3b, 1, 1, 3) X(3, 1, 1, 0x3b, 1, 1, 3) \
	X(3, 1, 0, 0x1d, 3, 1, 3) X(3, 1, 0, 0x1e, 3, 1, 3) X(3, 1, 1, 0x1e, 3, 1, 3) \
	X(3, 1, 0, 0x1f, 3, 1, 3) X(3, 1, 1, 0x1f, 3, 1, 3) X(3, 1, 0, 0x3e, 3, 1, 3) \
	X(3, 1, 1, 0x3e, 3, 1, 3) X(3, 1, 0, 0x3f, 3, 1, 3) X(3, 1, 1, 0x3f, 3, 1, 3) \
	X(3, 1, 2, 0x20, 4, 0, 1) X(3, 1, 0, 0x21, 8, 0, 1) X(3, 1, 0, 0x22, 2, 0, 1) \
	X(3, 1, 1, 0x22, 1, 0, 1) X(3, 1, 0, 0x23, 8, 1, 3) X(3, 1, 0, 0x43, 8, 1, 3) \
	X(3, 1, 0, 0x25, 8, 1, 3) X(3, 1, 0, 0x26, 4, 1, 3) X(3, 1, 0, 0x27, 4, 1, 1) \
	X(3, 1, 0, 0x50, 4, 1, 3) X(3, 1, 0, 0x51, 4, 1, 1) X(3, 1, 0, 0x54, 8, 1, 3) \
	X(3, 1, 0, 0x55, 8, 1, 1) X(3, 1, 0, 0x56, 8, 1, 3) X(3, 1, 0, 0x57, 8, 1, 1) \
	X(3, 1, 0, 0x66, 8, 1, 3) X(3, 1, 0, 0x67, 8, 1, 1) X(3, 1, 1, 0x23, 8, 1, 3) \
	X(3, 1, 1, 0x43, 8, 1, 3) X(3, 1, 1, 0x25, 8, 1, 3) X(3, 1, 1, 0x26, 4, 1, 3) \
	X(3, 1, 1, 0x27, 4, 1, 1) X(3, 1, 1, 0x50, 4, 1, 3) X(3, 1, 1, 0x51, 4, 1, 1) \
	X(3, 1, 1, 0x54, 8, 1, 3) X(3, 1, 1, 0x55, 8, 1, 1) X(3, 1, 1, 0x56, 8, 1, 3) \
	X(3, 1, 1, 0x57, 8, 1, 1) X(3, 1, 1, 0x66, 8, 1, 3) X(3, 1, 1, 0x67, 8, 1, 1) \
	X(3, 1, 0, 0x42, 8, 1, 3) X(3, 1, 1, 0x70, 4, 1, 3) X(3, 1, 0, 0x71, 5, 1, 3) \
	X(3, 1, 1, 0x71, 6, 1, 3) X(3, 1, 1, 0x72, 4, 1, 3) X(3, 1, 0, 0x73, 5, 1, 3) \
	X(3, 1, 1, 0x73, 6, 1, 3)
/* clang-format on */

#define EVEX_PREFIXES 4u
#define EVEX_LENGTHS  3u
#define EVEX_PLAIN    (2u * EVEX_PREFIXES * 2 * EVEX_LENGTHS * 256)

#define EVEX_ASM(map, prefix, w, opcode, bits, mask, lengths)                                      \
	"evex_row " #map ", " #prefix ", " #w ", " #opcode ", " #bits ", " #mask ", " #lengths "\n"

__asm__(".text\n"
	/* 62 P0 P1 P2 opcode ModRM [imm] RET: register 1, register 0, register 2 */
	".macro evex_row map, prefix, w, opcode, bits, mask, lengths\n"
	".set emu_l, 0\n"
	".rept \\lengths\n"
	".set emu_n, 0\n"
	".rept 1 << \\bits\n"
	".balign 8, 0xcc\n"
	".byte 0x62, 0xf0 + \\map, 0x7c + \\prefix + ((\\w & 1) << 7), (emu_l << 5) + 8 + \\mask\n"
	".byte \\opcode, 0xca\n"
	".if \\bits\n"
	".byte emu_n\n"
	".endif\n"
	".byte 0xc3\n"
	".set emu_n, emu_n + 1\n"
	".endr\n"
	".set emu_l, emu_l + 1\n"
	".endr\n"
	".balign 8, 0xcc\n"
	".endm\n"
	".balign 64, 0xcc\n"
	".globl emu_evex_stubs\n"
	"emu_evex_stubs:\n"
	".set emu_map, 1\n"
	".rept 2\n"
	".set emu_prefix, 0\n"
	".rept 4\n"
	".set emu_w, 0\n"
	".rept 2\n"
	".set emu_l, 0\n"
	".rept 3\n"
	".set emu_n, 0\n"
	".rept 256\n"
	".byte 0x62, 0xf0 + emu_map, 0x7c + emu_prefix + (emu_w << 7), (emu_l << 5) + 9\n"
	".byte emu_n, 0xca, 0xc3, 0xcc\n"
	".set emu_n, emu_n + 1\n"
	".endr\n"
	".set emu_l, emu_l + 1\n"
	".endr\n"
	".set emu_w, emu_w + 1\n"
	".endr\n"
	".set emu_prefix, emu_prefix + 1\n"
	".endr\n"
	".set emu_map, emu_map + 1\n"
	".endr\n" EVEX_ROWS(EVEX_ASM));
extern const uint8_t emu_evex_stubs[];

_Static_assert(offsetof(struct evex_io, k) == 192 && offsetof(struct evex_io, r) == 208 &&
		       offsetof(struct evex_io, flags) == 224 &&
		       offsetof(struct evex_io, mxcsr) == 232 &&
		       offsetof(struct evex_io, host) == 236,
	       "the assembler code knows these");

/* VZEROUPPER does not clear ZMM16 to ZMM31, which no stub uses. */
#define EVEX_BEFORE                                                                                \
	"	vmovdqa64 (%rdi), %zmm0\n"                                                               \
	"	vmovdqa64 64(%rdi), %zmm1\n"                                                             \
	"	vmovdqa64 128(%rdi), %zmm2\n"                                                            \
	"	kmovq 192(%rdi), %k1\n"                                                                  \
	"	kmovq 200(%rdi), %k2\n"                                                                  \
	"	mov 208(%rdi), %rcx\n"                                                                   \
	"	mov 216(%rdi), %rdx\n"                                                                   \
	"	call *%rsi\n"
#define EVEX_AFTER                                                                                 \
	"	pushfq\n"                                                                                \
	"	popq 224(%rdi)\n"                                                                        \
	"	vmovdqa64 %zmm1, 64(%rdi)\n"                                                             \
	"	vmovdqa64 %zmm2, 128(%rdi)\n"                                                            \
	"	kmovq %k1, 192(%rdi)\n"                                                                  \
	"	mov %rcx, 208(%rdi)\n"                                                                   \
	"	mov %rdx, 216(%rdi)\n"                                                                   \
	"	vzeroupper\n"                                                                            \
	"	ret\n"

__asm__(".text\n"
	".balign 16, 0xcc\n"
	".globl emu_evex_int\n"
	".type emu_evex_int, @function\n"
	"emu_evex_int:\n" EVEX_BEFORE EVEX_AFTER ".size emu_evex_int, . - emu_evex_int\n"
	".balign 16, 0xcc\n"
	".globl emu_evex_fp\n"
	".type emu_evex_fp, @function\n"
	"emu_evex_fp:\n"
	"	ldmxcsr 232(%rdi)\n" EVEX_BEFORE "	lfence\n"
	"	stmxcsr 232(%rdi)\n"
	"	ldmxcsr 236(%rdi)\n" EVEX_AFTER ".size emu_evex_fp, . - emu_evex_fp\n");

struct evex_row {
	uint8_t map, prefix, w, opcode, bits, lengths;
};
#define EVEX_ROW(map, prefix, w, opcode, bits, mask, lengths)                                      \
	{map, prefix, w, opcode, bits, lengths},
static const struct evex_row rows[] = {EVEX_ROWS(EVEX_ROW)};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static unsigned int evex_row_stubs(const struct evex_row *r)
{
	return (unsigned int)r->lengths << r->bits;
}

int emu_evex_find(unsigned int map, unsigned int prefix, bool w, unsigned int length,
		  unsigned int opcode, unsigned int imm)
{
	unsigned int at = EVEX_PLAIN;

	for (unsigned int i = 0; i < NR_ROWS; i++) {
		const struct evex_row *r = &rows[i];

		if (r->map == map && r->prefix == prefix && (r->w == 2 || r->w == w) &&
		    r->opcode == opcode)
			return (int)(at + ((r->lengths == 1 ? 0 : length) << r->bits) +
				     (imm & ((1u << r->bits) - 1)));
		at += evex_row_stubs(r);
	}
	if (map != 1 && map != 2)
		return -1;
	return (int)(((((map - 1) * EVEX_PREFIXES + prefix) * 2 + w) * EVEX_LENGTHS + length) *
			     256 +
		     opcode);
}

const uint8_t *emu_evex_stub(unsigned int number)
{
	return emu_evex_stubs + number * 8;
}

unsigned int emu_evex_opcode(unsigned int number, unsigned int *imm)
{
	const uint8_t *b = emu_evex_stub(number);

	*imm = b[6];
	return EVEX_OPCODE((unsigned int)b[1] & 3, (unsigned int)b[2] >> 7, (unsigned int)b[2] & 3,
			   b[4]);
}
