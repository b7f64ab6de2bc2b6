/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared declarations of the emitters (emit*.c). An emitter turns one decoded instruction into ops;
 * there is one emitter per group of instructions. The table in isa.c assigns an emitter to every
 * instruction of the closed list, and emu_emit() calls it. An emitter must never access guest
 * memory or change the vCPU. state.c uses emu_isa_row(), svm/intercept.c also enum emit_sys.
 */
#pragma once

#include <Zydis/Zydis.h>

#include "vmm/emu/internal.h"
#include "vmm/emu/cpu/ops.h"

struct emit {
	struct emu_code *c;
	const ZydisDecodedInstruction *zi;
	const ZydisDecodedOperand *zo;
	uint64_t rip, next;
	uint8_t ev;	    /* EMU_EV_LOAD etc. without the cost */
	enum emu_fclass fc; /* out: state of the lazy flags after an instruction that sets flags */
};

/* Emits the instruction and returns true, or returns false if the closed list lacks this form. */
typedef bool emit_fn(struct emit *e, unsigned int arg);

struct emu_isa_row {
	ZydisMnemonic mnemonic;
	emit_fn *fn;
	uint16_t arg;
	uint8_t cost;  /* modelled cycles, without memory accesses (docs/internals/emulator.md) */
	uint8_t flags; /* ISA_* */
};
#define ISA_NO_MEM 1u /* do not count the loads and stores of its memory operands */
#define ISA_BRANCH 2u
#define ISA_ROW(f, a, c, flags, m)                                                                 \
	{                                                                                          \
		ZYDIS_MNEMONIC_##m, f, a, c, flags                                                 \
	}
/* ROWS(f, a, c, MNEMONIC...): a row for each of up to 85 mnemonics. A macro cannot call itself, so
 * each pass of ROWS_ON expands one more call. */
#define ROWS(f, a, c, ...) ROWS_FLAGS(f, a, c, 0, __VA_ARGS__)
#define ROWS_FLAGS(...)	   ROWS_64(ROWS_NEXT(__VA_ARGS__))
#define ROWS_64(...)	   ROWS_16(ROWS_16(ROWS_16(ROWS_16(__VA_ARGS__))))
#define ROWS_16(...)	   ROWS_4(ROWS_4(ROWS_4(ROWS_4(__VA_ARGS__))))
#define ROWS_4(...)	   ROWS_1(ROWS_1(ROWS_1(ROWS_1(__VA_ARGS__))))
#define ROWS_1(...)	   __VA_ARGS__
#define ROWS_NEXT(f, a, c, fl, m, ...)                                                             \
	ISA_ROW(f, a, c, fl, m)                                                                    \
	__VA_OPT__(, ROWS_AGAIN ROWS_PARENS(f, a, c, fl, __VA_ARGS__))
#define ROWS_PARENS  ()
#define ROWS_AGAIN() ROWS_NEXT

/* Modelled cycles that are added to a row's cost. */
#define EMU_COST_LOAD  2u
#define EMU_COST_STORE 1u
#define EMU_COST_LOCK  12u

/* isa.c: the row of @m, or NULL if @m is not in the closed list. */
const struct emu_isa_row *emu_isa_row(ZydisMnemonic m);
/* isa_fp.c: Returns true if @zi belongs to no extension of SSE2, or to one of @simd (VMM_SIMD_*).
 */
bool emu_isa_shown(const ZydisDecodedInstruction *zi, uint32_t simd);

/* A resolved memory operand. */
struct emit_mem {
	uint8_t base, idx, scale;
	bool ss;
	int64_t disp;
};

enum { ALU_ADD, ALU_OR, ALU_ADC, ALU_SBB, ALU_AND, ALU_SUB, ALU_XOR, ALU_CMP, ALU_TEST };
/* Kinds of emu_help_locked, in addition to ALU_ADD..ALU_XOR. */
enum {
	LOCKED_INC = 16,
	LOCKED_DEC,
	LOCKED_NEG,
	LOCKED_NOT,
	LOCKED_BTS,
	LOCKED_BTR,
	LOCKED_BTC,
	LOCKED_XADD,
	LOCKED_XCHG,
	LOCKED_CMPXCHG
};
enum { ROT_ROL, ROT_ROR, ROT_RCL, ROT_RCR };
enum { SCAN_BSF, SCAN_BSR, SCAN_TZCNT, SCAN_LZCNT, SCAN_POPCNT };
/* bmi.c: those that set flags are first. */
enum {
	BMI_ANDN,
	BMI_BEXTR,
	BMI_BLSI,
	BMI_BLSMSK,
	BMI_BLSR,
	BMI_BZHI,
	BMI_MULX,
	BMI_PDEP,
	BMI_PEXT,
	BMI_RORX,
	BMI_SARX,
	BMI_SHLX,
	BMI_SHRX
};
#define BMI_IS_BLS(kind) ((kind) >= BMI_BLSI && (kind) <= BMI_BLSR)
enum { STR_MOVS, STR_STOS, STR_LODS, STR_CMPS, STR_SCAS };
enum { FLAG_CLC, FLAG_STC, FLAG_CMC, FLAG_CLD, FLAG_STD };
#define EMIT_IMM 0xff /* src: the operand is op->imm */

/* x87.c: op->idx, and op->scale of control instructions. */
#define X87_STORE 1u
#define X87_FLAGS 2u /* the result is flags */
#define X87_LONG  4u
#define X87_WAIT  8u  /* checks for pending exceptions */
#define X87_SMALL 16u /* the environment has its 16-bit format */
enum {
	X87_NOP,
	X87_INIT,
	X87_CLEX,
	X87_LDCW,
	X87_STCW,
	X87_STSW,
	X87_STSW_AX,
	X87_LDENV,
	X87_STENV,
	X87_RSTOR,
	X87_SAVE
};

/* simd.c, mmx.c: op->idx, and op->scale of moves. */
#define SIMD_ALIGN    1u /* the memory operand must be aligned */
#define SIMD_ZERO     2u /* loads: clears the rest of the register */
#define SIMD_FP	      2u /* uses MXCSR */
#define SIMD_TO_GPR   4u
#define SIMD_FROM_GPR 8u
#define SIMD_FLAGS    16u /* the result is flags */
#define SIMD_RIGHT    16u
#define SIMD_LONG     16u /* expensive */
#define SIMD_STRICT   64u /* moves: MXCSR.MM is ignored */
#define SIMD_STAYS    16u /* MMX: with a memory operand, the x87 registers are unchanged */
#define SIMD_MMX      32u
#define SIMD_SRC_MMX  64u
#define SIMD_XMM      128u
/* emu_help_pcmpstr */
#define TEXT_MASK     1u /* the result is a mask in XMM0, not an index in ECX */
#define TEXT_EXPLICIT 2u /* the lengths are in EAX and EDX */
/* Kinds of moves: between registers, as op->scale or op->idx, and in the table's arg with MOVE_*.
 */
enum {
	MOV_ALL,
	MOV_LOW32,
	MOV_LOW64,
	MOV_ZERO64,
	MOV_HL,
	MOV_LH,
	MOV_FROM32,
	MOV_FROM64,
	MOV_TO32,
	MOV_TO64
};
/* arg of emit_simd_mov and emit_avx_mov, with MOV_* */
#define MOVE_ALIGNED 16u /* the memory operand must be aligned */
#define MOVE_LOW     32u /* memory is the lower half; a load keeps the rest */
#define MOVE_HIGH    64u /* the same for the upper half */
/* simd.c: move @s to *d in a way of MOV_ALL to MOV_FROM64; the latter from a general register. */
void emu_simd_mov(const struct emu_vcpu *v, const struct emu_op *op, unsigned int kind,
		  union emu_xmm *d, const union emu_xmm *s);
enum { MMX_MOVE, MMX_LOAD, MMX_STORE, MMX_FROM_GPR, MMX_TO_GPR, MMX_FROM_XMM, MMX_TO_XMM };

/* simd.c: the memory operand at EMU_TEA. Traps. */
int emu_simd_load(struct emu_vcpu *v, const struct emu_op *op, void *to);
int emu_simd_store(struct emu_vcpu *v, const struct emu_op *op, const void *from);
/* simd_fp.c: execute @stub on the @n (1 or 2) lanes of an instruction, with its exceptions. Traps.
 */
int emu_simd_run_fp(struct emu_vcpu *v, const uint8_t *stub, struct emu_simd_io *io, unsigned int n,
		    void (*call)(struct emu_simd_io *, const void *));
/* emu_simd_raise - #XM, or #UD if CR4 does not have it; MXCSR gets @flags. Traps.
 * emu_simd_flags - the flags that one element of an instruction raises while those of @masks are
 * masked. @opcode: 58, 59, 5A, 5C, 5E; @from64: elements have 64 bits; @host: the thread's MXCSR.
 */
int emu_simd_raise(struct emu_vcpu *v, uint32_t flags);
uint32_t emu_simd_flags(unsigned int opcode, bool from64, uint32_t mxcsr, uint32_t masks,
			uint32_t host, uint64_t a, uint64_t b);
/* avx_fp.c: the exceptions of one lane of FMA and of VCVTPS2PH. */
uint32_t emu_fma_flags(const uint8_t *stub, uint32_t mxcsr, uint32_t masks, const union emu_xmm *a,
		       const struct emu_simd_io *io);
uint32_t emu_ps2ph_flags(const uint8_t *stub, uint32_t mxcsr, uint32_t masks,
			 const struct emu_simd_io *io);
/* mmx.c: emu_mmx_enter traps if an MMX instruction may not execute; emu_mmx returns MMn;
 * emu_mmx_done has the effect on the x87 state that each such instruction has unless it faults. */
int emu_mmx_enter(struct emu_vcpu *v);
uint64_t emu_mmx(const struct emu_vcpu *v, unsigned int n);
void emu_mmx_done(struct emu_vcpu *v);

/* emu_simd_source - the second operand, or its bytes in memory followed by zeros. Traps. */
int emu_simd_source(struct emu_vcpu *v, const struct emu_op *op, union emu_xmm *to);

/* isa_fp.c: the rows of x87, MMX, and SSE to SSE4.2. */
extern const struct emu_isa_row emu_isa_fp[];
extern const unsigned int emu_isa_nr_fp;
/* isa_avx.c: the rows of AVX, AVX2, FMA, F16C, and of opmask registers. */
extern const struct emu_isa_row emu_isa_avx[];
extern const unsigned int emu_isa_nr_avx;
/* isa_evex.c: the rows of AVX-512 without those that AVX has, too. */
extern const struct emu_isa_row emu_isa_evex[];
extern const unsigned int emu_isa_nr_evex;
/* emu_isa_same_name - return @row, or the row of the SSE instruction that shares its mnemonic with
 * a string instruction. */
const struct emu_isa_row *emu_isa_same_name(const struct emu_isa_row *row,
					    const struct ZydisDecodedInstruction_ *zi);

/* emit.c */
/* emu_gpr - the number of a general register; for 8 bits that of its byte, as in emu_rd(). EMU_ZERO
 * if @r is no general register. */
unsigned int emu_gpr(ZydisRegister r);
/* emu_insn_events - EMU_EV_* of an instruction; @cost applies if it has no row in isa.c. */
uint8_t emu_insn_events(const ZydisDecodedInstruction *zi, const ZydisDecodedOperand *zo,
			unsigned int cost);
struct emu_op *emit_add(struct emit *e, unsigned int opcode);
struct emu_op *emit_helper(struct emit *e, emu_op_fn *fn, unsigned int lg, unsigned int kind);
struct emu_op *emit_sysop(struct emit *e, emu_op_fn *fn);
void emit_mem(struct emit *e, unsigned int i, struct emit_mem *m);
void emit_set_mem(struct emu_op *op, const struct emit_mem *m);
/* Register that holds the segment base of memory operand @i. */
uint8_t emit_seg(const struct emit *e, unsigned int i);
struct emu_op *emit_load(struct emit *e, const struct emit_mem *m, unsigned int lg,
			 unsigned int dst);
struct emu_op *emit_store(struct emit *e, const struct emit_mem *m, unsigned int lg,
			  unsigned int src);
/* Emit an op that sets EMU_TEA to the effective address of operand @i. */
void emit_tea(struct emit *e, unsigned int i);
unsigned int emit_reg(const struct emit *e, unsigned int i);
/* Return the register that holds source operand @i: for a memory operand EMU_T0, after emitting a
 * load into it. */
unsigned int emit_src(struct emit *e, unsigned int i);
/* emit_rmw_begin and emit_rmw_end enclose the ops that modify operand @i. emit_rmw_begin returns
 * the register to modify. For a memory operand the two emit the load and the store. */
unsigned int emit_rmw_begin(struct emit *e, unsigned int i, struct emit_mem *m);
void emit_rmw_end(struct emit *e, unsigned int i, const struct emit_mem *m);

static inline bool emit_is_mem(const struct emit *e, unsigned int i)
{
	return e->zo[i].type == ZYDIS_OPERAND_TYPE_MEMORY;
}
static inline bool emit_is_reg(const struct emit *e, unsigned int i)
{
	return e->zo[i].type == ZYDIS_OPERAND_TYPE_REGISTER;
}
static inline bool emit_is_imm(const struct emit *e, unsigned int i)
{
	return e->zo[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}
static inline int64_t emit_imm(const struct emit *e, unsigned int i)
{
	return e->zo[i].imm.value.s;
}
/* log2 of the bytes of operand @i. */
static inline unsigned int emit_lg(const struct emit *e, unsigned int i)
{
	switch (e->zo[i].size) {
	case 8:
		return 0;
	case 16:
		return 1;
	case 32:
		return 2;
	default:
		return 3;
	}
}
static inline unsigned int emit_t0(unsigned int lg)
{
	return lg ? EMU_T0 : EMU_T0 * 8;
}
static inline bool emit_lock_prefix(const struct emit *e)
{
	return e->zi->attributes & ZYDIS_ATTRIB_HAS_LOCK;
}
/* Returns true if other vCPUs must see the instruction as one access. */
static inline bool emit_locked(const struct emit *e)
{
	return !e->c->alone && emit_lock_prefix(e);
}

/* The emitters, by group of instructions. The second argument is the row's arg. */
emit_fn emit_alu, emit_mov, emit_movx, emit_lea, emit_unary, emit_shift, emit_rotate, emit_shiftd,
	emit_mul, emit_imul, emit_bt, emit_scan, emit_bswap, emit_simple, emit_hint, emit_cbw,
	emit_flagop, emit_ahf, emit_xchg, emit_pause, emit_xadd, emit_cmpxchg, emit_cmpxchgb,
	emit_push, emit_pop, emit_leave, emit_enter, emit_jcc, emit_setcc, emit_cmov, emit_jmp,
	emit_call, emit_ret, emit_loop, emit_string, emit_fence, emit_system;
bool emit_mov_special(struct emit *e);
emit_fn emit_descriptor, emit_xlat, emit_bmi, emit_movbe;

/* emit_fp.c, emit_simd.c. emit_fp_helper - emit a helper call with memory operand @mem, of size
 * @bytes, which becomes op->base, or with EMIT_NO_MEM. */
#define EMIT_NO_MEM 0xffu
struct emu_op *emit_fp_helper(struct emit *e, emu_op_fn *fn, unsigned int mem, unsigned int bytes,
			      unsigned int flags);
emit_fn emit_x87, emit_fwait, emit_fxstate, emit_xsave, emit_clflush, emit_emms, emit_simd,
	emit_simd_mov, emit_maskmov, emit_pcmpstr, emit_blendv, emit_crc32;
enum { FX_SAVE, FX_RSTOR, FX_LDMXCSR, FX_STMXCSR };
/* emit_xsave; XS_SAVES is XRSTORS, too, and XS_RSTOR is added for the loads. */
enum { XS_SAVE, XS_SAVEOPT, XS_SAVEC, XS_SAVES, XS_RSTOR };
enum emit_simd_class {
	SIMD_PLAIN,
	SIMD_ARITH,
	SIMD_ARITH_LONG,
	SIMD_COMPARE,
	SIMD_TO_R,   /* to a general register */
	SIMD_FROM_R, /* from a general register */
	SIMD_CVT_TO_R,
	SIMD_CVT_FROM_R,
	SIMD_CVT_MMX,
	SIMD_SHIFT
};
/* emit_avx.c */
emit_fn emit_avx, emit_avx_gpr, emit_avx_ps2ph, emit_avx_bits, emit_avx_perm, emit_avx_extract,
	emit_avx_zero, emit_avx_maskmov, emit_avx_gather, emit_avx_mov, emit_opmask;
/* emit_evex.c; emit_evex_row emits an instruction with an EVEX prefix, which has @row. */
emit_fn emit_evex, emit_evex_gather;
bool emit_evex_row(struct emit *e, const struct emu_isa_row *row);
enum emit_avx_kind {
	VEX_PLAIN,
	VEX_ARITH,
	VEX_LONG,
	VEX_COMPARE,
	VEX_SHIFT,
	VEX_WIDEN_2, /* elements of the source have half the bytes */
	VEX_WIDEN_4,
	VEX_WIDEN_8,
	VEX_WIDEN_FP,
	VEX_NARROW,
	VEX_FMA,
	VEX_PH2PS
};

/* The instructions of emit_system(), with the function of each, emu_sys_*. */
#define EMIT_SYS(X)                                                                                \
	X(UD, ud), X(CLI, cli), X(STI, sti), X(HLT, hlt), X(PUSHF, pushf), X(POPF, popf),          \
		X(CLTS, clts), X(INVLPG, invlpg), X(WBINVD, wbinvd), X(LGDT, lgdt), X(LIDT, lidt), \
		X(SGDT, sgdt), X(SIDT, sidt), X(LLDT, lldt), X(LTR, ltr), X(LMSW, lmsw),           \
		X(VMCALL, vmcall), X(SWAPGS, swapgs), X(RDBASE, rdwr_base), X(WRBASE, rdwr_base),  \
		X(CPUID, cpuid), X(RDTSC, rdtsc), X(RDTSCP, rdtsc), X(RDMSR, rdmsr),               \
		X(WRMSR, wrmsr), X(RDPMC, rdpmc), X(IN, in), X(OUT, out), X(SYSCALL, syscall),     \
		X(SYSRET, sysret), X(SYSENTER, sysenter), X(SYSEXIT, sysexit), X(IRETQ, iret),     \
		X(INT, int), X(INT3, int), X(PAUSE, pause), X(INVD, wbinvd), X(VMMCALL, vmmcall),  \
		X(VMRUN, vmrun), X(VMLOAD, vmload), X(VMSAVE, vmsave), X(STGI, stgi),              \
		X(CLGI, clgi), X(INVLPGA, invlpga), X(SKINIT, absent), X(RSM, ud),                 \
		X(XGETBV, xgetbv), X(XSETBV, xsetbv)
#define EMIT_SYS_ENUM(name, fn) SYS_##name
enum emit_sys { EMIT_SYS(EMIT_SYS_ENUM), SYS_STR, SYS_SLDT, SYS_SMSW };
