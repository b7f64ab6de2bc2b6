// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: what single random instructions would hardly reach: string instructions with sensible
 * counts, shifts by a known CL, divisions that succeed, flags, faults of every kind.
 */
#include <string.h>

#include "tests/emu/gen_internal.h"

/* Instruction bytes as one number in reading order, behind a 1 that keeps leading zeros. */
static unsigned int unpack(uint64_t packed, uint8_t b[8])
{
	unsigned int n = (unsigned int)(63 - __builtin_clzll(packed)) / 8;

	for (unsigned int i = 0; i < n; i++)
		b[i] = (uint8_t)(packed >> (8 * (n - 1 - i)));
	return n;
}

/* An address where an access faults, or one of more than a byte does. */
static uint64_t bad_address(struct gen *g)
{
	switch (below(g, 6)) {
	case 0:
		return below(g, 0x10000);
	case 1:
		return DT_RO + 0x1000 - below(g, 8);
	case 2:
		return DT_DATA - 1 - below(g, 8);
	case 3: /* across the end of canonical addresses, and just beyond */
		return 0x800000000000 - 8 + below(g, 12);
	case 4:
		return 0xffff800000000000 - 8 + below(g, 16);
	default:
		return random_split(&g->rng);
	}
}

static int set_bad(struct gen *g, unsigned int reg)
{
	uint64_t v = bad_address(g);
	uint8_t b[10] = {(uint8_t)(0x48 | reg >> 3), (uint8_t)(0xb8 | (reg & 7))};

	memcpy(b + 2, &v, 8);
	return emit_bytes(g, b, 10);
}

/* One access to such an address, of every kind; the stack's too. */
void t_bad_access(struct gen *g)
{
	static const uint64_t access[] = {
		0x18a07,     /* MOV AL, [RDI] */
		0x18807,     /* MOV [RDI], AL */
		0x1668b07,   /* MOV AX, [RDI] */
		0x18b07,     /* MOV EAX, [RDI] */
		0x1488b07,   /* MOV RAX, [RDI] */
		0x1668907,   /* MOV [RDI], AX */
		0x18907,     /* MOV [RDI], EAX */
		0x1488907,   /* MOV [RDI], RAX */
		0x1480107,   /* ADD [RDI], RAX */
		0x1f0480107, /* LOCK ADD [RDI], RAX */
		0x148870f,   /* XCHG [RDI], RCX */
		0x1480fb10f, /* CMPXCHG [RDI], RCX */
		0x10fc70f,   /* CMPXCHG8B [RDI] */
		0x1480fc70f, /* CMPXCHG16B [RDI] */
		0x1480fab07, /* BTS [RDI], RAX */
		0x1480fc307, /* MOVNTI [RDI], RAX */
		0x1d10f,     /* ROR DWORD [RDI], 1 */
		0x10f9007,   /* SETO [RDI] */
		0x1ff37,     /* PUSH [RDI] */
		0x18f07,     /* POP [RDI] */
		0x1ff17,     /* CALL [RDI] */
		0x1ff27,     /* JMP [RDI] */
		0x18c1f,     /* MOV [RDI], DS */
	};
	static const uint64_t stack[] = {
		0x150,	       /* PUSH RAX */
		0x158,	       /* POP RAX */
		0x16650,       /* PUSH AX */
		0x16658,       /* POP AX */
		0x16a01,       /* PUSH 1 */
		0x19c,	       /* PUSHFQ */
		0x1c9,	       /* LEAVE */
		0x1c8100000,   /* ENTER 16, 0 */
		0x1e800000000, /* CALL */
		0x1c3,	       /* RET */
		0x1c20800,     /* RET 8 */
		0x148cb,       /* far RET */
		0x148cf,       /* IRETQ */
		0x1488b4424f8, /* MOV RAX, [RSP - 8] */
	};
	static const uint8_t regs[] = {DT_RDI, DT_RSP, DT_RBP};
	unsigned int r = regs[below(g, 3)], n;
	uint8_t b[8];

	if (!gen_intel || g->frozen)
		return;
	g->q->no_step = true;
	if (set_bad(g, r) < 0)
		return;
	n = r == DT_RDI ? unpack(access[below(g, sizeof(access) / sizeof(access[0]))], b)
			: unpack(stack[below(g, sizeof(stack) / sizeof(stack[0]))], b);
	emit_bytes(g, b, n);
}

/* Load a selector, null or one that both sides' descriptor tables hold, and read it back. Compared
 * with Intel's CPUs only. */
void t_selector(struct gen *g)
{
	static const uint8_t sel[] = {0,    1,		2,    3,	  0x10, 0x18,
				      0x23, DT_USER_SS, 0x2a, DT_USER_CS, 7};
	unsigned int seg = below(g, 4); /* ES, CS, SS, DS */
	uint8_t mov[2] = {0x8e, (uint8_t)(0xc0 | seg << 3)}, back[2] = {0x8c, mov[1]};
	uint8_t s = sel[below(g, sizeof(sel))];

	if (!gen_intel)
		return;
	/* Mostly the value that the segment register has already: other tests check the others. */
	if (percent(g, 70))
		s = seg == 2 ? DT_USER_SS : 0;
	g->q->no_step |= seg == 2; /* no trap behind MOV SS */
	if (gen_set_reg(g, DT_RAX, s) < 0 || emit_bytes(g, mov, 2) < 0)
		return;
	emit_bytes(g, back, 2);
	gen_set_reg(g, DT_RAX, gen_address(g, 1));
}

void t_string(struct gen *g)
{
	static const uint8_t ops[] = {0xa4, 0xa5, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf, 0xa6, 0xa7};
	static const uint8_t cld_std[] = {0xfc, 0xfd};
	uint8_t b[6];
	unsigned int n = 0, op = below(g, sizeof(ops));
	bool addr32 = percent(g, 8);
	int (*set)(struct gen *, unsigned int, uint32_t) = addr32 ? gen_set_reg_wide : gen_set_reg;

	if (percent(g, 60))
		emit_bytes(g, &cld_std[below(g, 3) == 0], 1);
	if (gen_intel && percent(g, 8)) { /* which of two faults */
		set_bad(g, DT_RDI);
		set_bad(g, DT_RSI);
	} else {
		if (percent(g, 95))
			set(g, DT_RDI, gen_address(g, 1));
		if (percent(g, 95))
			set(g, DT_RSI, gen_address(g, 1));
	}
	if (percent(g, 30)) /* a chance that two strings are equal for a while */
		gen_set_reg(g, DT_RAX, below(g, 256));
	if (percent(g, 70)) {
		if (percent(g, 95))
			set(g, DT_RCX, percent(g, 80) ? below(g, 20) : below(g, 700));
		b[n++] = percent(g, 60) ? 0xf3 : 0xf2;
	}
	if (percent(g, 25))
		b[n++] = 0x66;
	if (addr32)
		b[n++] = 0x67;
	if (percent(g, 4))
		b[n++] = percent(g, 50) ? 0x64 : 0x65;
	if (percent(g, 30))
		b[n++] = 0x48;
	b[n++] = ops[op];
	emit_bytes(g, b, n);
}

void t_shift_cl(struct gen *g)
{
	static const uint8_t counts[] = {0, 1, 2, 7, 8, 9, 15, 16, 17, 18, 31, 32, 33, 63, 64, 65};

	gen_set_reg(g, DT_RCX, percent(g, 60) ? counts[below(g, sizeof(counts))] : below(g, 256));
	for (int tries = 0; tries < 4; tries++)
		if (gen_group_op(g, percent(g, 75) ? OPS_SHIFT_CL : OPS_DOUBLE_SHIFT_CL))
			return;
}

void t_div(struct gen *g)
{
	/* XOR EDX, EDX twice as often as CDQ, CQO and nothing */
	static const uint64_t before[] = {0x131d2, 0x131d2, 0x199, 0x14899, 1};
	uint8_t b[8];
	unsigned int n = unpack(before[below(g, 5)], b);

	if (n)
		emit_bytes(g, b, n);
	if (percent(g, 50))
		gen_set_reg(g, DT_RBX, (uint32_t)gen_value(g));
	if (percent(g, 30))
		gen_set_reg(g, DT_RAX, (uint32_t)gen_value(g));
	gen_group_op(g, OPS_DIV);
}

void t_bit(struct gen *g)
{
	unsigned int r = below(g, 8);

	if (r != DT_RSP)
		gen_set_reg(g, r,
			    percent(g, 70) ? below(g, 0x2000) : (uint32_t) - (int)below(g, 4096));
	for (int tries = 0; tries < 4; tries++)
		if (gen_group_op(g, OPS_BT_REG))
			return;
}

/* Makes the comparison succeed half of the time. */
void t_cmpxchg(struct gen *g)
{
	uint32_t cell = DT_DATA + 0x200 + below(g, 32) * 16;
	uint8_t load[8] = {0x48, 0x8b, 0x04, 0x25}, load_dx[8] = {0x48, 0x8b, 0x14, 0x25};
	uint8_t op[10] = {0xf0, 0x48, 0x0f, 0xb1, 0x0c, 0x25};
	uint8_t wide[10] = {0xf0, 0x48, 0x0f, 0xc7, 0x0c, 0x25};
	bool lock = percent(g, 40), rexw = percent(g, 60);
	uint32_t high = cell + (rexw ? 8 : 4);

	if (percent(g, 30)) {
		gen_group_op(g, OPS_CMPXCHG);
		return;
	}
	memcpy(load + 4, &cell, 4);
	memcpy(load_dx + 4, &high, 4);
	memcpy(op + 6, &cell, 4);
	memcpy(wide + 6, &cell, 4);
	if (!rexw) {
		op[1] = wide[1] = 0x40;
		load[0] = load_dx[0] = 0x40;
	}
	emit_bytes(g, load, 8);
	if (percent(g, 50)) {
		emit_bytes(g, op + !lock, 10 - !lock);
	} else {
		emit_bytes(g, load_dx, 8);
		emit_bytes(g, wide + !lock, 10 - !lock);
	}
}

/* PUSH imm32; POPF with any flags but TF, AC and ID; and the ways to read them. */
void t_flags(struct gen *g)
{
	static const uint8_t pushf[] = {0x66, 0x9c}, popf[] = {0x66, 0x9d};
	uint32_t f = (uint32_t)random_split(&g->rng) &
		     (DT_STATUS | DT_DF | DT_IF | 0x3000 | 0x10000 | 2);
	unsigned int kind;
	uint8_t push[5] = {0x68}, push16[4] = {0x66, 0x68, (uint8_t)f, (uint8_t)(f >> 8)};

	if (g->frozen)
		return;
	g->q->no_step = true;
	memcpy(push + 1, &f, 4);
	kind = below(g, 5);
	if (kind < 2)
		emit_bytes(g, pushf + !kind, 1 + kind);
	else if (emit_bytes(g, kind == 2 ? push16 : push, kind == 2 ? 4 : 5) >= 0)
		emit_bytes(g, popf + (kind != 2), 1 + (kind == 2));
}

/* Instructions that CPL3 may not execute, and invalid ones. */
void t_fault(struct gen *g)
{
	static const uint64_t bad[] = {
		0x1f4,	     /* HLT */
		0x1fa,	     /* CLI */
		0x1fb,	     /* STI */
		0x1e433,     /* IN AL, 33h */
		0x1e633,     /* OUT 33h, AL */
		0x1ec,	     /* IN AL, DX */
		0x1ee,	     /* OUT DX, AL */
		0x1ed,	     /* IN EAX, DX */
		0x1ef,	     /* OUT DX, EAX */
		0x10f30,     /* WRMSR */
		0x10f32,     /* RDMSR */
		0x10f20c0,   /* MOV RAX, CR0 */
		0x10f22d8,   /* MOV CR3, RAX */
		0x10f21f8,   /* MOV RAX, DR7 */
		0x10f23c0,   /* MOV DR0, RAX */
		0x10f0110,   /* LGDT [RAX] */
		0x10f0118,   /* LIDT [RAX] */
		0x10f0138,   /* INVLPG [RAX] */
		0x10f01f8,   /* SWAPGS */
		0x10f06,     /* CLTS */
		0x10f08,     /* INVD */
		0x10f09,     /* WBINVD */
		0x10f00d8,   /* LTR AX */
		0x10f00d0,   /* LLDT AX */
		0x10f33,     /* RDPMC */
		0x1480f07,   /* SYSRETQ */
		0x1cc,	     /* INT3 */
		0x1cd20,     /* INT 20h */
		0x1cd03,     /* INT 3 */
		0x1cd0d,     /* INT 13 */
		0x10f0b,     /* UD2 */
		0x10fb9c0,   /* UD1 */
		0x10fffc0,   /* UD0 */
		0x106,	     /* PUSH ES: not in 64-bit mode */
		0x127,	     /* DAA: the same */
		0x160,	     /* PUSHA: the same */
		0x1d6,	     /* SALC: the same */
		0x182c0,     /* the ALU group's copy: the same */
		0x1ea,	     /* far JMP: the same */
		0x19a,	     /* far CALL: the same */
		0x1f001c0,   /* LOCK ADD EAX, EAX */
		0x1f08b00,   /* LOCK MOV EAX, [RAX] */
		0x1f090,     /* LOCK NOP */
		0x1f0488500, /* LOCK TEST [RAX], RAX */
		0x18dc0,     /* LEA EAX, EAX */
		0x10fc7c8,   /* CMPXCHG8B EAX */
		0x166,	     /* sixteen of these: no instruction is as long */
	};
	uint64_t what = bad[below(g, sizeof(bad) / sizeof(bad[0]))];
	uint8_t b[16];
	unsigned int n;
	struct insn in;

	if (what == 0x166) {
		memset(b, 0x66, sizeof(b));
		emit_raw(g, b, sizeof(b));
		return;
	}
	n = unpack(what, b);
	if (insn_decode(b, n, &in) && in.i.length == n)
		emit_bytes(g, b, n);
	else
		emit_raw(g, b, n);
}

/* Instructions with no operands to choose. */
void t_fixed(struct gen *g)
{
	static const uint64_t fixed[] = {
		0x1f30f1efa,	   /* ENDBR64 */
		0x1f30f1efb,	   /* ENDBR32 */
		0x1f390,	   /* PAUSE */
		0x10faef0,	   /* MFENCE */
		0x10faee8,	   /* LFENCE */
		0x10faef8,	   /* SFENCE */
		0x18cc8,	   /* MOV EAX, CS */
		0x1488cd3,	   /* MOV RBX, SS */
		0x1668cd9,	   /* MOV CX, DS */
		0x18cc2,	   /* MOV EDX, ES */
		0x16690,	   /* NOP, 16 bit */
		0x10f1f8000000000, /* NOP with a displacement */
		0x10f180424,	   /* PREFETCHNTA [RSP] */
		0x10f181424,	   /* PREFETCHT1 [RSP] */
		0x10f181c24,	   /* PREFETCHT2 [RSP] */
	};
	uint8_t b[8];
	unsigned int n = unpack(fixed[below(g, sizeof(fixed) / sizeof(fixed[0]))], b);

	emit_bytes(g, b, n);
}

/* Writes back the segment base it read: the other operands rely on it. */
void t_segment_base(struct gen *g)
{
	static const uint8_t rd[5] = {0xf3, 0x48, 0x0f, 0xae, 0xc0}; /* RDFSBASE RAX */
	uint8_t b[5], w = percent(g, 60) ? 0x48 : 0x40, gs = percent(g, 50) ? 8 : 0;

	memcpy(b, rd, sizeof(b));
	b[1] = w;
	b[4] = (uint8_t)(rd[4] | gs);
	if (emit_bytes(g, b, 5) < 0)
		return;
	b[4] |= 0x10; /* WRFSBASE, WRGSBASE */
	emit_bytes(g, b, 5);
}

/* Leaves that are the same on every CPU of the host, and need no masking by a hypervisor. */
void t_cpuid(struct gen *g)
{
	static const uint8_t cpuid[] = {0x0f, 0xa2};

	if (gen_set_reg(g, DT_RAX, GEN_CPUID_FIRST + below(g, GEN_CPUID_LEAVES)) >= 0)
		emit_bytes(g, cpuid, 2);
}

/* A stray return, a frame that is left, an unbalanced push: whatever is on the stack. */
void t_stack(struct gen *g)
{
	static const uint8_t ret = 0xc3, leave = 0xc9, push_rsp = 0x54, pop_rsp = 0x5c;
	uint8_t enter[4] = {0xc8, (uint8_t)below(g, 128), 0, 0};

	if (g->frozen)
		return;
	switch (below(g, 8)) {
	case 0:
		g->q->no_step = true;
		emit_bytes(g, &ret, 1);
		break;
	case 1:
		emit_bytes(g, &push_rsp, 1);
		break;
	case 2:
		emit_bytes(g, &push_rsp, 1);
		emit_bytes(g, &pop_rsp, 1);
		break;
	case 3:
		emit_bytes(g, enter, 4);
		break;
	default:
		gen_set_reg(g, DT_RBP, DT_STACK + 0x700 + below(g, 0x200));
		emit_bytes(g, &leave, 1);
		break;
	}
}
