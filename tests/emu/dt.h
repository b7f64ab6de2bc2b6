/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Differential test of the emulator against the CPU it runs on: what the generator, the
 * native side and the emulator side agree on.
 *
 * A case is one short instruction sequence with all its inputs. Both sides run it at the same
 * virtual addresses in CPL3, with the same memory; the result is everything a program could
 * observe. Nothing here knows how the interpreter works.
 */
#ifndef TESTS_EMU_DT_H
#define TESTS_EMU_DT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/random.h"

/*
 * Address space. Both sides map exactly this below 4 GiB; everything else faults. No sum,
 * difference, AND, OR or flipped bit of scratch addresses leads into code, with memory that is not
 * put back before each case.
 */
#define DT_CODE	       0x2a000000u /* slots; readable, writable, executable */
#define DT_CODE_BYTES  0x200000u
#define DT_EDGE	       0x2c660000u /* one page like DT_CODE, nothing behind it */
#define DT_EXIT	       0x13370000u /* a sequence ends by jumping here */
#define DT_DATA	       0x50000000u /* scratch, no execute */
#define DT_DATA_BYTES  0x2000u
#define DT_RO	       (DT_DATA + DT_DATA_BYTES) /* read only, no execute */
#define DT_STACK       0x60000000u
#define DT_STACK_BYTES 0x1000u
#define DT_FS_BASE     (DT_DATA + 0x800u)
#define DT_GS_BASE     (DT_DATA + 0x1000u)
#define DT_FILL	       0xf4u /* HLT: unwritten code faults at once */
#define DT_USER_CS     0x33u /* what 64-bit Linux gives a process */
#define DT_USER_SS     0x2bu

/*
 * A batch of DT_BATCH consecutive seeds shares DT_STRIDE bytes of code area. Slots start at
 * DT_SLOT_PAD, so that every sixteenth straddles a page.
 */
#define DT_BATCH     64u
#define DT_SLOT	     256u
#define DT_SLOT_PAD  128u
#define DT_STRIDE    0x5000u
#define DT_REGIONS   (DT_CODE_BYTES / DT_STRIDE)
#define DT_POOL	     0x10000u /* random bytes initial memory is taken from */
#define DT_POOL_TAIL 0x3000u
#define DT_STEPS     384u
#define DT_FX_BYTES  416u /* what FXSAVE64 writes */

/* Registers of AVX and AVX-512, as in struct emu_fpu: bits 255:128 of YMM0 to YMM15, 511:256 of
 * ZMM0 to ZMM15, ZMM16 to ZMM31, k0 to k7. What the host lacks is 0. */
struct dt_vectors {
	uint8_t ymm[16][16], zmm_high[16][32], zmm_hi16[16][64];
	uint64_t k[8];
};

enum dt_reg {
	DT_RAX,
	DT_RCX,
	DT_RDX,
	DT_RBX,
	DT_RSP,
	DT_RBP,
	DT_RSI,
	DT_RDI,
	DT_R8,
	DT_R9,
	DT_R10,
	DT_R11,
	DT_R12,
	DT_R13,
	DT_R14,
	DT_R15,
	DT_NREGS
};

/* EFLAGS bits (SDM vol. 1, figure 3-8). */
#define DT_CF	  0x001u
#define DT_PF	  0x004u
#define DT_AF	  0x010u
#define DT_ZF	  0x040u
#define DT_SF	  0x080u
#define DT_TF	  0x100u
#define DT_IF	  0x200u
#define DT_DF	  0x400u
#define DT_OF	  0x800u
#define DT_RF	  0x10000u
#define DT_STATUS (DT_CF | DT_PF | DT_AF | DT_ZF | DT_SF | DT_OF)

struct dt_case {
	uint64_t seed;
	uint64_t regs[DT_NREGS];
	uint64_t rflags;
	uint64_t slot; /* virtual address of code[] */
	uint64_t rip;
	uint32_t data_pool; /* offset in the pool of the scratch area's contents */
	uint32_t stack_pool;
	uint8_t fx[DT_FX_BYTES];
	struct dt_vectors v;
	bool step; /* native: run a second time, single-stepped, and record the path */
	uint8_t code[DT_SLOT];
};

#define DT_END	 (-1) /* reached DT_EXIT */
#define DT_HANG	 (-2) /* did not end */
#define DT_OTHER (-3) /* the side itself failed; see msg */

struct dt_result {
	int vector; /* exception, or one of the above */
	uint32_t error;
	uint64_t cr2; /* vector 14 */
	uint64_t regs[DT_NREGS];
	uint64_t rip;
	uint64_t rflags;
	uint16_t cs, ss;
	uint8_t fx[DT_FX_BYTES];
	struct dt_vectors v;
	uint32_t nr_steps; /* native: how often it was interrupted; > DT_STEPS: not recorded */
	uint32_t step[DT_STEPS]; /* RIP - DT_CODE after each */
	uint64_t step_rcx[DT_STEPS];
	char msg[160];
	uint8_t code[DT_SLOT];
	uint8_t data[DT_DATA_BYTES];
	uint8_t stack[DT_STACK_BYTES];
};

/* Hardware breakpoints of a run, and the #DB that they raised. Each trap is passed as a debugger
 * does it: DR6 is cleared, and RF set for an instruction breakpoint. */
#define DT_TRAPS 200u /* the breakpoints are removed at so many */
struct dt_watch {
	uint64_t dr[4], dr7;
};
struct dt_traps {
	uint32_t n;
	struct dt_trap {
		uint64_t rip;
		uint32_t dr6; /* B0 to B3 */
	} at[DT_TRAPS];
};

/* Shared by the test and its native helper process. */
struct dt_shm {
	uint8_t pool[DT_POOL + DT_POOL_TAIL];
	struct {
		uint32_t n;
		uint32_t running; /* native: index of the case in work */
		struct dt_case c[DT_BATCH];
		struct dt_result r[DT_BATCH];
	} buf[2];
};

/* The helper inherits these; it reads one byte (a buffer's number) per batch and returns it. */
#define DT_FD_SHM 20
#define DT_FD_CMD 21
#define DT_FD_ACK 22

/* 0 .. n-1 */
static inline uint32_t dt_below(uint64_t *s, uint32_t n)
{
	return (uint32_t)(((random_split(s) >> 32) * n) >> 32);
}

static inline uint64_t dt_slot_address(uint64_t seed)
{
	return DT_CODE + seed / DT_BATCH % DT_REGIONS * DT_STRIDE + DT_SLOT_PAD +
	       seed % DT_BATCH * DT_SLOT;
}

#endif
