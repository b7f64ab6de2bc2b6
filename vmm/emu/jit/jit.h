/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Translated code: shared declarations of the files jit*.c. docs/internals/emulator.md, "Translated
 * code", lists the translated instructions and argues exactness. exec.c and cache.c call only the
 * functions of the first part.
 */
#pragma once

#include "vmm/emu/internal.h"
#include "vmm/emu/cpu/ops.h"

/* ---- for the interpreter ---- */

/* emu_jit_open - make the code memory, once; emu_open() and vmm_emu_translate() call it. Later
 * calls do nothing. */
void emu_jit_open(void);
/* emu_jit_set - for tests and operators: when to translate blocks that are decoded from now on:
 * never, when hot, or at once. Call it while no vCPU runs. */
enum emu_jit_mode { EMU_JIT_OFF, EMU_JIT_HOT, EMU_JIT_ALL };
void emu_jit_set(enum emu_jit_mode mode);
/* emu_jit_off - return the reason why nothing is translated, or NULL. */
const char *emu_jit_off(void);

/* Why translated code returned: the next step of the dispatch loop. emu_jit_run() returns a word of
 * one of these and, in the upper bits, the index of an op. */
enum emu_jit_exit {
	EMU_JIT_OP,    /* interpret from op INDEX of v->cur: nothing of its instruction is done */
	EMU_JIT_TAKEN, /* take the branch at the end of v->cur; TAKEN of exec.c */
	EMU_JIT_FALL,  /* fall through at the end of v->cur; FALL of exec.c */
	EMU_JIT_ENTER  /* enter v->jit.block: it has no translation, or the chunk has no room */
};
#define EMU_JIT_KIND(word)  ((enum emu_jit_exit)((word)&3))
#define EMU_JIT_INDEX(word) ((word) >> 2)

/* emu_jit_added - call it for each new block, before it executes. */
void emu_jit_added(struct emu_vcpu *v, struct emu_block *b);
/* emu_jit_heat - @b is executed without a translation. Translates it after enough executions. Only
 * the interpreter may call it, at the first op of @b, and must continue at the handler returned. */
const void *emu_jit_heat(struct emu_vcpu *v, struct emu_block *b);
/* emu_jit_run - run translated block @b and its successors. The caller has entered @b already:
 * v->left and v->acc include it. Returns a word, see above. */
uint32_t emu_jit_run(struct emu_vcpu *v, struct emu_block *b);
/* emu_jit_reset - drop all translated code of @v. The caller drops all blocks. */
void emu_jit_reset(struct emu_vcpu *v);
/* emu_jit_drop_sites - call it when a TLB entry or a tag of one is dropped. */
void emu_jit_drop_sites(struct emu_vcpu *v);
/* emu_jit_fini - free the vCPU's code memory. */
void emu_jit_fini(struct emu_vcpu *v);
/* emu_jit_settle - call it when a vCPU begins to run on this thread: if code was written since the
 * thread last called it, the CPU may still have prefetched the old bytes. */
void emu_jit_settle(void);

/* ---- among the files jit*.c ---- */

#define JIT_IN(code, first, last)                                                                  \
	((unsigned int)((code) - (first)) <= (unsigned int)((last) - (first)))

/* Host registers. Mapped guest registers stay in them while translated code runs. */
enum host_reg {
	HOST_RAX, /* the guest's flags: AH as LAHF leaves them, AL = OF */
	HOST_RCX,
	HOST_RDX,
	HOST_RBX,
	HOST_RSP, /* the frame, see below */
	HOST_RBP,
	HOST_RSI,
	HOST_RDI,
	HOST_R8,
	HOST_R9,
	HOST_R10,
	HOST_R11,	/* guest RAX */
	HOST_R12,	/* guest RSP */
	HOST_LEFT = 13, /* v->left */
	HOST_S1 = 14,	/* scratch; on exit, the block */
	HOST_S2 = 15,	/* scratch; on exit, the word */
	HOST_NONE = 0xff
};

/* The frame of translated code at RSP: copies of the vCPU fields it uses. */
enum {
	FRAME_VCPU = 0,
	FRAME_TLB = 8,
	FRAME_CTX = 16,
	FRAME_SSE = 20, /* enum jit_sse, 4 bytes */
	FRAME_JC = 24,
	FRAME_ADDR = 32,  /* one guest-virtual address */
	FRAME_BLOCK = 40, /* one block */
	FRAME_SITES = 48,
	FRAME_SLOTS = 56,
	FRAME_REGS = 64, /* guest registers R11 to EMU_T0 */
	FRAME_BYTES = FRAME_REGS + (EMU_NREGS - EMU_R11) * 8
};

/* An operand: a host register, or host memory. */
struct rm {
	bool is_reg;
	uint8_t base; /* HOST_NONE: no base */
	uint8_t idx;  /* HOST_NONE: no index */
	uint8_t scale;
	int32_t disp;
};
static inline struct rm rm_reg(unsigned int r)
{
	return (struct rm){.is_reg = true, .base = (uint8_t)r, .idx = HOST_NONE};
}
static inline struct rm rm_mem(unsigned int base, int32_t disp)
{
	return (struct rm){.base = (uint8_t)base, .idx = HOST_NONE, .disp = disp};
}
static inline struct rm rm_sib(unsigned int base, unsigned int idx, unsigned int scale,
			       int32_t disp)
{
	return (struct rm){
		.base = (uint8_t)base, .idx = (uint8_t)idx, .scale = (uint8_t)scale, .disp = disp};
}

/* Output of code. Nothing is written beyond the end; then full is set. */
struct jit_buf {
	uint8_t *at, *end;
	bool full;
};

/* jit_x86.c: encodings. @lg is log2 of the operand's bytes. An opcode with 0F has 0x0f00 added. */
enum { X_ADD, X_OR, X_ADC, X_SBB, X_AND, X_SUB, X_XOR, X_CMP };
enum { X_ROL, X_ROR, X_SHL = 4, X_SHR, X_SAR = 7 };
enum { X_NOT = 2, X_NEG, X_MUL, X_IMUL, X_DIV, X_IDIV };
enum { CC_O, CC_NO, CC_B, CC_AE, CC_E, CC_NE, CC_BE, CC_A, CC_S, CC_NS, CC_P, CC_NP, CC_L, CC_GE };
void x_byte(struct jit_buf *b, unsigned int x);
void x_word(struct jit_buf *b, uint64_t x, unsigned int bytes);
/* x_op - one opcode with the register (or opcode extension) @reg and the operand @m. An @lg of 0
 * means that @reg and @m are bytes.
 * x_vex - one with a VEX prefix: @prefix is SIMD_*, @opcode has 0x0f3800 or 0x0f3a00 added; @lg: 2
 * or 3.
 * x_ext - the same if @m has another size than @reg, which has @lg. */
void x_vex(struct jit_buf *b, unsigned int prefix, unsigned int opcode, unsigned int lg,
	   unsigned int reg, unsigned int vvvv, struct rm m);
void x_op(struct jit_buf *b, unsigned int opcode, unsigned int lg, unsigned int reg, struct rm m);
void x_ext(struct jit_buf *b, unsigned int opcode, unsigned int lg, unsigned int reg, struct rm m,
	   unsigned int from);
void x_alu(struct jit_buf *b, unsigned int alu, unsigned int lg, struct rm dst, unsigned int src);
void x_alu_load(struct jit_buf *b, unsigned int alu, unsigned int lg, unsigned int dst,
		struct rm src);
void x_alu_imm(struct jit_buf *b, unsigned int alu, unsigned int lg, struct rm dst, int64_t imm);
void x_mov(struct jit_buf *b, unsigned int lg, unsigned int dst, struct rm src);
void x_store(struct jit_buf *b, unsigned int lg, struct rm dst, unsigned int src);
void x_store_imm(struct jit_buf *b, unsigned int lg, struct rm dst, int64_t imm);
void x_mov_imm(struct jit_buf *b, unsigned int dst, uint64_t imm);
void x_lea(struct jit_buf *b, unsigned int lg, unsigned int dst, struct rm m);
void x_shift_imm(struct jit_buf *b, unsigned int kind, unsigned int lg, struct rm dst,
		 unsigned int count);
void x_unary(struct jit_buf *b, unsigned int kind, unsigned int lg, struct rm dst);
void x_setcc(struct jit_buf *b, unsigned int cc, struct rm dst);
void x_lahf(struct jit_buf *b);
void x_sahf(struct jit_buf *b);
/* An operation on AH (X_OR ...) with a constant, and TEST AH. */
void x_ah(struct jit_buf *b, unsigned int alu, unsigned int imm);
void x_ah_test(struct jit_buf *b, unsigned int imm);
/* PADDQ of the two sums at @at, inside the code. */
void x_add_sums(struct jit_buf *b, const uint8_t *at);
/* Jumps with a 32-bit displacement. They return the address of the displacement; x_link sets it to
 * lead to @to. */
uint8_t *x_jcc(struct jit_buf *b, unsigned int cc);
uint8_t *x_jmp(struct jit_buf *b);
void x_link(const struct jit_buf *b, uint8_t *site, const uint8_t *to);
void x_jmp_mem(struct jit_buf *b, struct rm m);
void x_align(struct jit_buf *b, unsigned int to);

/* Location of the guest's flags during translation. */
enum jit_flags {
	FL_AX,	 /* in RAX */
	FL_HOST, /* in the host's flags; shape: those that the host leaves undefined */
	FL_BOTH, /* in both, complete */
	FL_DEAD	 /* dead: every path overwrites them before reading them */
};
enum jit_shape {
	SHAPE_ALL, /* all six are defined */
	SHAPE_AF0, /* AF is undefined and must be 0 */
	SHAPE_AF1, /* AF is undefined and must be 1 */
	SHAPE_OF0, /* and OF must be 0 */
	SHAPE_SHL  /* and OF must be CF xor SF */
};

struct jit_ea { /* a guest address */
	uint8_t base, idx, scale;
	int64_t disp;
};

#define JIT_BATCH  16
#define JIT_EXITS  (EMU_BLOCK_INSNS * 4)
#define JIT_RELOCS (5 * JIT_BATCH)

struct jit_jump { /* a jump in the code; @to may get a translation in the same batch */
	uint8_t *site;
	const struct emu_block *from, *to;
	bool taken;
};

struct jit_reloc { /* a jump to code elsewhere, an address in the write view */
	uint8_t *site;
	const uint8_t *to;
};

/*
 * A translation in progress. The code is written to memory of the caller; its final place is chosen
 * when it is complete (jit_place). So nothing in it may depend on its address, or on the vCPU's,
 * except through relocs and the frame.
 */
struct jit {
	struct emu_vcpu *v;
	struct jit_buf b;
	struct emu_block *blk;
	unsigned int nr;		/* ops */
	uint16_t code[EMU_BLOCK_OPS];	/* their opcodes, pairs unfused */
	int8_t quarters[EMU_BLOCK_OPS]; /* effort of each op beyond one unit per instruction */
	bool live[EMU_BLOCK_OPS + 1];	/* flags are needed before op I; [nr]: at the end */
	int quarters_all;
	unsigned int i, start; /* the op, and the first op of its instruction */
	enum jit_flags fl;
	enum jit_shape shape;
	bool sub;     /* the flags are those of a subtraction */
	uint32_t xmm; /* guest XMM registers that are in host registers: jit_simd.c */
	bool aligned; /* the next access must be aligned */
	bool tea_known;
	struct jit_ea tea; /* address in EMU_TEA, not materialised */
	bool t0_known;
	struct rm t0; /* operand in EMU_T0, not loaded: guest memory checked by jit_access() */
	struct {
		uint8_t *site;
		uint32_t word;
	} exits[JIT_EXITS];
	unsigned int nr_exits;
	struct jit_miss {		      /* an access that missed its site */
		uint8_t *site, *first, *back; /* first: a second jump here, or NULL */
		struct rm ea;
		int32_t at; /* the site, from FRAME_SITES */
		unsigned int bytes;
		bool store, aligned;
		uint32_t word; /* the word with which the code is left */
	} misses[JIT_EXITS];
	unsigned int nr_misses;
	const uint8_t *miss; /* sums that a miss adds */
	struct jit_jump jumps[2 * JIT_BATCH];
	unsigned int nr_jumps;
	struct jit_reloc relocs[JIT_RELOCS];
	unsigned int nr_relocs;
	unsigned int insns; /* instructions of the block with code */
	unsigned int least; /* minimum of insns for an incomplete block */
};

/* The parts of a word that the C side of emu_jit_run() needs, above kind and index. */
#define JIT_WORD(kind, index, sub, rest)                                                           \
	((uint32_t)(kind) | (uint32_t)(index) << 2 | (uint32_t)(sub) << 9 | (uint32_t)(rest) << 16)
#define JIT_WORD_SUB  (1u << 9)
#define JIT_WORD_REST 16

/* jit_op.c: write the code of the instruction that begins at op j->i, and advance j->i past it.
 * Returns false, with nothing written, if it has none. */
bool jit_insn(struct jit *j);
bool jit_op(struct jit *j); /* the same for op j->i alone, without advancing; may write a part */
struct jit_source {	    /* a constant or an operand */
	bool is_imm;
	int64_t imm;
	struct rm m;
};
/* jit_alu.c: */
enum { JIT_RR, JIT_RI, JIT_RM, JIT_RX, JIT_MR, JIT_MI }; /* forms of OPS_ALU_FORMS */
/* Returns true if byte register @reg of an op is AH, CH, DH or BH. */
static inline bool jit_is_high(unsigned int lg, unsigned int reg)
{
	return lg == 0 && (reg & 7);
}

static inline unsigned int jit_number(unsigned int lg, unsigned int reg)
{
	return lg ? reg : reg >> 3;
}

/* Each writes the code of one op. Returns false if there is no template. */
bool jit_alu_op(struct jit *j, const struct emu_op *op, unsigned int code);
bool jit_unary_op(struct jit *j, const struct emu_op *op, unsigned int code);
/* MUL and IMUL: SF, ZF, AF and PF are unchanged. */
void jit_mul(struct jit *j, const struct emu_op *op, unsigned int lg);
void jit_imul(struct jit *j, const struct emu_op *op, unsigned int lg, bool by_imm);
/* One operation with destination @m, guest memory: by number in OPS_ALU, with HOST_S1 free; by
 * number in OPS_UNARY; a shift by @count, 0 to 2 for SHL, SHR, SAR. Returns false if there is no
 * template. */
void jit_alu_mem(struct jit *j, unsigned int alu, unsigned int lg, struct rm m,
		 struct jit_source s);
bool jit_unary(struct jit *j, unsigned int what, unsigned int lg, struct rm m);
bool jit_shift(struct jit *j, unsigned int what, unsigned int lg, struct rm m, unsigned int count);
/* jit_rare.c: the ops with a template among those that call a helper. */
bool jit_helper(struct jit *j, const struct emu_op *op);
/* jit_simd.c. SSE instructions allowed in translated code: none, those that do not use MXCSR,
 * all. */
enum jit_sse { JIT_SSE_NONE, JIT_SSE_MOVES, JIT_SSE_ALL };
/* jit_simd_level - the level that the op of a helper needs; JIT_SSE_NONE if it is no SSE op.
 * jit_simd_quarters - effort of an SSE op in quarters; @known: registers that the block has used
 * before, 0 at its start.
 * jit_simd - its template. jit_simd_enter - the code at a block's start.
 * jit_simd_begin and jit_simd_end enclose a run of translated code that begins in @b. */
unsigned int jit_simd_level(const struct emu_op *op);
int jit_simd_quarters(const struct emu_op *op, uint32_t *known);
bool jit_simd(struct jit *j, const struct emu_op *op);
void jit_simd_enter(struct jit *j);
void jit_simd_begin(struct emu_vcpu *v, const struct emu_block *b);
void jit_simd_end(struct emu_vcpu *v, uint32_t word, int64_t insns);
/* jit_rare.c: a read-modify-write that is split into ops: [TEA,] load to T0, modify, store. The
 * load is op j->i. Returns false if there is no template. */
bool jit_rmw(struct jit *j);
/* jit_op_flow - an op's effect on the flags: JIT_READS some, JIT_LEAVES the translated code,
 * JIT_KILLS all six. */
enum { JIT_READS = 1, JIT_LEAVES = 2, JIT_KILLS = 4 };
unsigned int jit_op_flow(const struct jit *j, unsigned int i);

/* jit_mem.c: operands, flags and guest memory */
unsigned int jit_host(unsigned int guest); /* host register of a guest register, or HOST_NONE */
struct rm jit_rm(unsigned int guest);	   /* location of a guest register */
/* Location of a source operand: as jit_rm(), or j->t0. */
struct rm jit_src(const struct jit *j, unsigned int guest);
/* Load a guest register into a host register: its own, or @scratch. */
unsigned int jit_get(struct jit *j, unsigned int guest, unsigned int scratch);
/* Set guest register @guest to host register @host: all 64 bits. */
void jit_put(struct jit *j, unsigned int guest, unsigned int host);
/* Flags. jit_set - an instruction has set the host's flags to the guest's. */
void jit_set(struct jit *j, enum jit_shape shape, bool sub);
void jit_to_ax(struct jit *j);	     /* to RAX; they may stay in the host's, too */
void jit_clobber(struct jit *j);     /* to RAX unless dead: the host's may be overwritten */
void jit_carry(struct jit *j);	     /* the host's CF becomes the guest's */
void jit_or_carry(struct jit *j);    /* in RAX: CF = bit 0 of HOST_S2, which is overwritten */
void jit_or_overflow(struct jit *j); /* in RAX: OF = CF = the host's OF */
/* Returns the host condition that is true if the guest's flags meet @cc. */
unsigned int jit_cond(struct jit *j, unsigned int cc);
/* The jump at @site leaves the translated code, before the instruction in progress. */
void jit_leave_at(struct jit *j, uint8_t *site);
/* Check an access and return its operand, which uses HOST_S2; overwrites HOST_S1. If the address
 * has no template, writes nothing and clears *ok. */
struct rm jit_access(struct jit *j, struct jit_ea ea, unsigned int bytes, bool store, bool *ok);
/* Write the TLB lookup for a site that missed. */
void jit_write_miss(struct jit *j, const struct jit_miss *m);
struct jit_ea jit_op_ea(const struct jit *j, const struct emu_op *op);
/* Set host register @dst to an address, of 1 << @lg bytes. Changes no flags; overwrites HOST_S1 and
 * HOST_S2. Returns false if there is no template for it. */
bool jit_address(struct jit *j, struct jit_ea ea, unsigned int lg, unsigned int dst);

/* jit_flow.c: transfers of control; the block's last op is j->i. Returns false if there is no
 * template. */
bool jit_branch(struct jit *j);
/* jit_block - write the code of j->blk, and set its entries. Returns false if it has no template
 * for the block's first instructions, or no room (j->b.full). */
bool jit_block(struct jit *j);
/* jit_reloc - the jump at @site leads to @to in other code. */
void jit_reloc(struct jit *j, uint8_t *site, const uint8_t *to);
/* jit.c: returns true if a jump of @from may lead to @to without checking the mapping. */
bool jit_same_page(const struct emu_vcpu *v, const struct emu_block *from,
		   const struct emu_block *to);

/* Addresses in the code of all vCPUs. */
struct jit_common {
	uint8_t *write, *exec; /* the same memory, mapped twice */
	uint32_t (*enter)(struct emu_vcpu *v, const void *code);
	/* In the write view. A jump to @leave needs the block and the word in HOST_S1 and HOST_S2;
	 * a jump to @untranslated only the block. A block without a translation has its entries at
	 * @untranslated; [1] is for taken branches. */
	uint8_t *leave, *untranslated[2];
	bool popcnt;
};
extern struct jit_common jit_common;
/* emu_jit_slot - copy the link at the end of translated block @b to its slot. */
static inline void emu_jit_slot(struct emu_vcpu *v, const struct emu_block *b, bool taken)
{
	const struct emu_op *last = &b->ops[b->nr_ops - 1];

	v->jit.slots[b->slot + (taken ? EMU_SLOT_TAKEN : EMU_SLOT_FALL)] =
		(struct emu_block *)(uintptr_t)(taken ? last->taken : last->fall);
}
/* jit_part.c: code memory. */
#define JIT_PART_BYTES (132u << 10)
/* jit_parts_open - make the memory and jit_common. Returns NULL, or the reason why it failed. */
const char *jit_parts_open(void);
/* jit_place - find a place for the @bytes (up to jit_room()) of code at @code, a translation for
 * @v: one that already holds the same code, or a new one. Returns the address to execute, or NULL
 * if there is no room. */
const uint8_t *jit_place(struct emu_vcpu *v, uint8_t *code, uint32_t bytes,
			 const struct jit_reloc *relocs, unsigned int nr);
/* jit_room - bytes of code that @v can get now. */
uint32_t jit_room(const struct emu_vcpu *v);
/* jit_parts_plenty - returns true if enough parts are free for a vCPU to have EMU_BIG_PARTS. */
bool jit_parts_plenty(void);
/* jit_parts_drop - release all parts of @v. */
void jit_parts_drop(struct emu_vcpu *v);
/* jit_common_write - write enter and leave at @b. */
void jit_common_write(struct jit_buf *b);
static inline const void *jit_exec(const uint8_t *write)
{
	return jit_common.exec + (write - jit_common.write);
}
