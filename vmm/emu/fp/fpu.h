/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * x87, MMX, and SSE to SSE4.2 of the emulator: the guest's registers, and the host's instructions
 * that compute with them.
 *
 * Every result is the host's: an instruction of the guest is executed by a stub, which is the same
 * instruction on fixed registers (fpstub.c). So results are bit for bit those of the host's CPU,
 * even where the manuals allow several (RCPPS, FSIN). The emulator itself decides only which
 * exception is raised, and which state then changes.
 *
 * The stubs are part of the program, not generated at run time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 16 bytes: an XMM register, or an x87 register with its padding. */
union emu_xmm {
	uint8_t b[16];
	uint16_t w[8];
	uint32_t d[4];
	uint64_t q[2];
	double f64[2];
	float f32[4];
} __attribute__((aligned(16)));

/* The image that FXSAVE64 writes (SDM vol. 1, table 10-2; APM vol. 2, 11.4.4). st[0] is ST(0); ftw
 * has one bit per physical register, 1 for valid. */
struct emu_fx {
	uint16_t fcw, fsw;
	uint8_t ftw, zero;
	uint16_t fop;
	uint64_t fip, fdp;
	uint32_t mxcsr, mxcsr_mask;
	union emu_xmm st[8];
	union emu_xmm xmm[16];
	uint8_t rest[96]; /* neither read nor written */
} __attribute__((aligned(16)));
#define EMU_FX_BYTES   512u
#define EMU_FX_WRITTEN 416u

struct emu_fpu {
	struct emu_fx fx;	    /* the registers; fop, fip, fdp and MXCSR are below */
	union emu_xmm ymm_high[16]; /* bits 255:128 of the YMM registers */
	/* AVX-512 (SDM vol. 1, 15.1): bits 511:256 of ZMM0 to ZMM15; ZMM16 to ZMM31; k0 to k7. */
	union emu_xmm zmm_high[16][2], zmm_hi16[16][4];
	uint64_t k[8];
	uint64_t xcr0;
	uint32_t mxcsr, mxcsr_mask;
	/* The last x87 instruction that was not a control instruction (SDM vol. 1, 8.1.8). */
	uint64_t fip, fdp;
	uint16_t fop, fcs, fds;
};

/* Bits of XCR0: AVX-512 needs all of ZMM (SDM vol. 1, 15.2). */
#define EMU_XCR0_ZMM_HI 0x40ULL
#define EMU_XCR0_ZMM	0xe6ULL

#define EMU_FSW_ES     0x0080u
#define EMU_FSW_B      0x8000u
#define EMU_FSW_TOP(f) ((f) >> 11 & 7u)
#define EMU_FCW_INIT   0x037fu
#define EMU_FP_FLAGS   0x3fu /* the exception flags of FSW and MXCSR */
#define EMU_FP_IE      0x01u
#define EMU_FP_DE      0x02u
#define EMU_FP_ZE      0x04u
#define EMU_FP_OE      0x08u
#define EMU_FP_UE      0x10u
#define EMU_FP_PE      0x20u

#define EMU_MXCSR_INIT	0x1f80u
#define EMU_MXCSR_MASKS 7u /* position of the masks */
#define EMU_MXCSR_FTZ	0x8000u
#define EMU_MXCSR_MM	0x20000u /* APM vol. 2, 11.2.4 */

/* ---- fpstub.c ---- */

/* Operands of a stub: reg is register 0 (a, mm_a, or RAX), rm is register 1 (b, mm_b, or RCX). */
struct emu_simd_io {
	union emu_xmm a, b;
	uint64_t gpr;	/* in: RCX, out: RAX */
	uint64_t flags; /* out: RFLAGS */
	union {
		struct {
			uint64_t mm_a, mm_b;
		};
		union emu_xmm c; /* register 2 of FMA */
	};
	uint32_t mxcsr, host;
};
/* Execute a stub: _int without MXCSR; _text with RAX = mm_a and RDX = mm_b (PCMPxSTRx), which
 * returns RCX in gpr, and the flags; _fp with the guest's, which is updated; _mm and _mm_fp with
 * MMX registers. Those with MXCSR leave io.host in the host's, which must be the thread's own. They
 * do not read MXCSR first, and execute LFENCE before reading the exception flags: on some CPUs an
 * STMXCSR soon after a change of the flags takes 25 to 50 ns. The thread's x87 state is
 * unchanged. */
void emu_simd_int(struct emu_simd_io *io, const void *stub);
void emu_simd_text(struct emu_simd_io *io, const void *stub);
void emu_simd_fp(struct emu_simd_io *io, const void *stub);
void emu_simd_mm(struct emu_simd_io *io, const void *stub);
void emu_simd_mm_fp(struct emu_simd_io *io, const void *stub);
static inline uint32_t emu_host_mxcsr(void)
{
	uint32_t x;

	__asm__ volatile("stmxcsr %0" : "=m"(x) : : "memory");
	return x;
}
/* Execute an x87 stub on the registers in @fx, with memory operand @mem and the arithmetic flags
 * @flags. Returns AX and the flags. */
struct emu_x87_out {
	uint64_t ax, flags;
};
struct emu_x87_out emu_x87_call(struct emu_fx *fx, void *mem, const void *stub, uint64_t flags);

/* One 8-byte stub for each [prefix 0F opcode /r]; prefixes are none, 66, F3, F2. */
extern const uint8_t emu_stub_simd[];
/* F3 and F2, 48 0F 2A, 2C and 2D. */
extern const uint8_t emu_stub_wide[];
/* Stubs with an immediate byte, 256 for each instruction. */
extern const uint8_t emu_stub_imm[];
/* [0F 38 opcode /r], without and with prefix 66; [0F 3A opcode /r imm], see emu_3a_stub(). In those
 * of PEXTRx and EXTRACTPS the general register is rm: RAX. */
extern const uint8_t emu_stub_38[], emu_stub_3a[];
/* VEX stubs of 128 bits. emu_stub_fma: with VEX.W 0 and 1, opcodes 96 to BF. emu_stub_cmp: VCMPxx
 * without a prefix and with 66, F3, F2, the 32 predicates each. VCVTPH2PS; VCVTPS2PH with the
 * immediate bytes 0 to 7, from register 1 to register 0. */
extern const uint8_t emu_stub_fma[], emu_stub_cmp[], emu_stub_ph2ps[], emu_stub_ps2ph[];
#define EMU_STUBS_FMA (2u * 42)
/* 4-byte stubs: D8..DF with a register (C0..FF), and with memory, /0../7. */
extern const uint8_t emu_stub_x87_reg[], emu_stub_x87_mem[];
/* 8-byte stubs: D9 and DD with memory, with prefix 66. */
extern const uint8_t emu_stub_x87_mem16[];
/* No instruction: the pass through FXRSTOR64 and FXSAVE64 makes the image a valid one. */
extern const uint8_t emu_stub_none[];
enum { SIMD_NP, SIMD_66, SIMD_F3, SIMD_F2 };
/* emu_imm_stub - return the stub of an instruction with the immediate byte @imm, or NULL. */
const uint8_t *emu_imm_stub(unsigned int prefix, unsigned int opcode, unsigned int imm);
const uint8_t *emu_wide_stub(unsigned int prefix, unsigned int opcode);
const uint8_t *emu_3a_stub(unsigned int prefix, unsigned int opcode, bool wide, unsigned int imm);
/* Returns true if @stub is one of DPPS or DPPD, with its immediate byte. */
bool emu_stub_is_dp(const uint8_t *stub, bool *is64, unsigned int *imm);
static inline const uint8_t *emu_simd_stub(unsigned int prefix, unsigned int opcode)
{
	return emu_stub_simd + (prefix * 256 + opcode) * 8;
}

/* ---- fpu.c ---- */
struct emu_vcpu;
struct emu_op;

/* emu_fpu_reset - the state after a reset (SDM vol. 3, table 9-1; APM vol. 2, table 14-1). */
void emu_fpu_reset(struct emu_fpu *f);
/* emu_fpu_settle - make the x87 registers in @f valid: reserved bits, and the summary bits of
 * FSW. */
void emu_fpu_settle(struct emu_fpu *f);
/* emu_fx_out - the FXSAVE image of a vCPU. emu_fx_in - load one, with an MXCSR that is valid; of
 * the x87 registers alone if !@sse. @wide: REX.W. */
void emu_fx_out(const struct emu_vcpu *v, struct emu_fx *fx, bool wide);
void emu_fx_in(struct emu_vcpu *v, const struct emu_fx *fx, bool wide, bool sse);
/* fpu_save.c: the sections of get_state. emu_fpu_load returns false if emu_fpu_save() could not
 * have written these registers; it does not check the reserved bits of MXCSR and XCR0. */
struct vpmu_blob;
struct vpmu_blob_reader;
void emu_fpu_save(const struct emu_fpu *f, struct vpmu_blob *b);
bool emu_fpu_load(struct emu_fpu *f, struct vpmu_blob_reader *all);
/* emu_fpu_mask - call it when CPUID has changed: updates the set of valid MXCSR bits. */
void emu_fpu_mask(struct emu_vcpu *v);
/* Check if an instruction may execute now. All trap. emu_fp_x87 - #NM, and #MF if @wait;
 * emu_fp_mmx, emu_fp_sse - #UD, #NM, #MF of MMX. emu_fp_avx - an instruction with a VEX prefix;
 * emu_fp_avx512 - with an EVEX prefix, or one of opmask registers.
 * emu_fp_simd - one of both. */
int emu_fp_x87(struct emu_vcpu *v, bool wait);
int emu_fp_mmx(struct emu_vcpu *v);
int emu_fp_sse(struct emu_vcpu *v);
int emu_fp_avx(struct emu_vcpu *v);
int emu_fp_avx512(struct emu_vcpu *v);
int emu_fp_simd(struct emu_vcpu *v, const struct emu_op *op);
