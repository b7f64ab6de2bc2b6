/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random guest programs for the emulator's tests: a loop over random pieces in CPL3 (branches
 * of all kinds, loads and stores, divisions, repeated strings, exits, system calls, software
 * interrupts, faults), with handlers in CPL0, that ends at a HLT. The same seed is the same
 * program.
 */
#ifndef TESTS_UNIT_EMU_PROG_H
#define TESTS_UNIT_EMU_PROG_H

#include "emu_bed.h"
#include "tests/random.h"

#define PROG_KERNEL (BED_CODE + 0x8000)
#define PROG_LEAF   (BED_CODE + 0x6000) /* functions */
#define PROG_MOST   200000u		/* instructions, safely */

/* The kernel: INT 0x80 and #UD (of which the handler skips the two bytes), SYSCALL. */
BED_GUEST(prog_int, "push %rax\n mov 8(%rsp),%rax\n inc %r14\n pop %rax\n iretq");
BED_GUEST(prog_ud, "addq $2,(%rsp)\n inc %r14\n iretq");
BED_GUEST(prog_syscall, "inc %r14\n test $1,%r14b\n jz 1f\n nop\n call 2f\n 1: sysretq\n"
			"2: mov (%rdi),%rax\n ret");
BED_GUEST(prog_leaf, "push %rbx\n call 1f\n pop %rbx\n ret\n 1: mov (%rsp),%rbx\n ret $0");
BED_GUEST(prog_hlt, "hlt");
/* LSTAR: prog_syscall; STAR: kernel 8, user 18H. */
BED_GUEST(prog_setup, "mov $0xc0000082,%ecx\n mov $0x208200,%eax\n xor %edx,%edx\n wrmsr\n"
		      "dec %ecx\n xor %eax,%eax\n mov $0x180008,%edx\n wrmsr\n hlt");

struct prog_piece {
	uint8_t n, b[15];
};

/* One random piece at @p; @at is its guest address. Returns its length. */
static inline size_t prog_piece(uint8_t *p, uint64_t at, uint64_t *s)
{
	static const struct prog_piece fixed[] = {
		{3, {0x48, 0x01, 0xc8}},			 /* add rax, rcx */
		{3, {0x48, 0x31, 0xd8}},			 /* xor rax, rbx */
		{4, {0x48, 0x8d, 0x44, 0x03}},			 /* (see below: needs a disp8) */
		{3, {0x48, 0x8b, 0x1f}},			 /* mov rbx, [rdi] */
		{4, {0x48, 0x89, 0x47, 0x08}},			 /* mov [rdi+8], rax */
		{4, {0x48, 0x01, 0x47, 0x10}},			 /* add [rdi+16], rax */
		{2, {0x50, 0x59}},				 /* push rax; pop rcx */
		{1, {0x90}},					 /* nop */
		{7, {0x31, 0xd2, 0xb9, 3, 0, 0, 0}},		 /* xor edx, edx; mov ecx, 3 */
		{9, {0x31, 0xd2, 0xb9, 7, 0, 0, 0, 0xf7, 0xf1}}, /* ... div ecx */
		{4, {0x48, 0x0f, 0xaf, 0xc3}},			 /* imul rax, rbx */
		{5, {0xf0, 0x48, 0x0f, 0xc1, 0x07}},		 /* lock xadd [rdi], rax */
		{2, {0x0f, 0x05}},				 /* syscall */
		{2, {0xcd, 0x80}},				 /* int 0x80 */
		{2, {0x0f, 0x0b}},				 /* ud2 */
		{4, {0x31, 0xc9, 0x0f, 0x33}},			 /* rdpmc of 0 */
		{7, {0xb9, 4, 0, 0, 0, 0xe2, 0xfe}},		 /* mov ecx, 4; loop . */
		{9, {0xb9, 3, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc}}, /* ... dec ecx; jnz */
		{7, {0x31, 0xc9, 0x67, 0xe3, 0x01, 0x90, 0x90}}, /* jecxz over a nop */
		{5, {0xe8, 0, 0, 0, 0}},			 /* call the next */
		{2, {0x0f, 0xa2}},				 /* cpuid */
	};
	uint64_t r = random_split(s);
	unsigned int kind = r % 32;
	uint8_t *q = p;
	int32_t rel;

	if (kind < sizeof(fixed) / sizeof(fixed[0]) && kind != 2) {
		memcpy(p, fixed[kind].b, fixed[kind].n);
		q += fixed[kind].n;
		if (kind == 19) /* ... and drop the return address */
			*q++ = 0x58;
		return (size_t)(q - p);
	}
	switch (kind) {
	case 2: /* jmp short over garbage */
		*q++ = 0xeb;
		*q++ = 1;
		*q++ = 0x06;
		break;
	case 21: /* call leaf */
		rel = (int32_t)(PROG_LEAF - (at + 5));
		*q++ = 0xe8;
		memcpy(q, &rel, 4);
		q += 4;
		break;
	case 22: /* mov eax, leaf; call rax */
	case 23: /* lea rax, next; jmp rax */
		rel = (int32_t)(kind == 22 ? PROG_LEAF : at + 7);
		*q++ = 0xb8;
		memcpy(q, &rel, 4);
		q += 4;
		*q++ = 0xff;
		*q++ = kind == 22 ? 0xd0 : 0xe0;
		break;
	case 24:
	case 25:
	case 26: /* push rdi; rsi = rdi; rdi += 0x800; ecx = n; rep movsb / stosq / repe cmpsb */
		memcpy(q, "\x57\x48\x89\xfe\x48\x81\xc7\x00\x08\x00\x00\xb9", 12);
		q += 12;
		rel = (int32_t)(r >> 32 & 1 ? r >> 40 & 3 : r >> 40 & 127);
		memcpy(q, &rel, 4);
		q += 4;
		*q++ = 0xf3;
		if (kind == 25)
			*q++ = 0x48;
		*q++ = kind == 24 ? 0xa4 : kind == 25 ? 0xab : 0xa6;
		*q++ = 0x5f;
		break;
	default: /* test al, bit; jcc over two instructions */
		*q++ = 0xa8;
		*q++ = (uint8_t)(1u << (r >> 8 & 7));
		*q++ = (uint8_t)(0x74 | (r >> 16 & 1));
		*q++ = 6;
		memcpy(q, "\x48\xff\xc0\x48\x01\xd8", 6);
		q += 6;
		break;
	}
	return (size_t)(q - p);
}

/* A started bed with program @seed. */
static inline void prog_start(struct bed *b, uint64_t seed)
{
	uint64_t s = seed, at = BED_CODE;
	uint8_t code[0x3000];
	size_t n = 0, pieces = 5 + random_split(&s) % 60;
	uint32_t times = (uint32_t)(1 + random_split(&s) % 8);
	int32_t rel;

	memcpy(code, "\x41\xbf", 2); /* mov r15d, times */
	memcpy(code + 2, &times, 4);
	n = 6;
	for (size_t i = 0; i < pieces; i++)
		n += prog_piece(code + n, at + n, &s);
	memcpy(code + n, "\x41\xff\xcf\x0f\x85", 5); /* dec r15d; jnz to the first piece */
	rel = (int32_t)(6 - (int64_t)(n + 9));
	memcpy(code + n + 5, &rel, 4);
	n += 9;
	code[n++] = 0xcd; /* int 0x81: the end */
	code[n++] = 0x81;
	BED_START(b, prog_hlt, true); /* a place to begin; replaced now */
	memcpy(b->ram + BED_CODE, code, n);
	BED_PUT(b, PROG_LEAF, prog_leaf);
	BED_PUT(b, PROG_KERNEL, prog_int);
	BED_PUT(b, PROG_KERNEL + 0x100, prog_ud);
	BED_PUT(b, PROG_KERNEL + 0x200, prog_syscall);
	bed_gate(b, 0x80, PROG_KERNEL, 0, 0x6e);
	bed_gate(b, 0x81, BED_HANDLERS + 0x81, 0, 0x6e);
	bed_gate(b, 6, PROG_KERNEL + 0x100, 0, 0xe);
	/* SYSCALL's registers have no place in sregs: let the guest set them, in CPL0. */
	bed_set_mode(b, b->v, false);
	BED_PUT(b, 0x2000, prog_setup);
	BED_REGS(b, .rip = 0x2000);
	cr_assert_eq(bed_run(b, 100), VMM_EXIT_HLT);
	bed_set_mode(b, b->v, true);
	BED_SREGS(b, s.cr4 |= 0x100); /* PCE */
	memset(&b->r, 0, sizeof(b->r));
	BED_REGS(b, .rip = BED_CODE, .rsp = BED_STACK, .rdi = BED_DATA, .rflags = 2);
	memset(&b->t, 0, sizeof(b->t));
}

/* The answer to an exit that waits. */
static inline void prog_answer(struct bed *b)
{
	cr_assert_eq(b->run.exit, VMM_EXIT_RDPMC, "exit %d at 0x%llx: %s", b->run.exit,
		     (unsigned long long)b->r.rip,
		     b->run.exit == VMM_EXIT_ERROR ? b->run.u.error.msg : "");
	b->run.u.pmc.data = 0x1122334455ULL;
}

/* Where a program stood after each instruction. */
struct prog_step {
	uint64_t rip;
	uint64_t ev[2][VPMU_EMU_EVENTS];
};

/* Of the program that the test looks at; [0] is the start. */
static __attribute__((unused)) struct prog_step steps[PROG_MOST];

/* Run program @seed instruction by instruction, to steps.
 * Returns the number of instructions, the HLT included. */
static inline size_t prog_trace(uint64_t seed)
{
	struct bed b;
	size_t n = 0;

	prog_start(&b, seed);
	steps[0] = (struct prog_step){.rip = b.r.rip};
	for (;;) {
		enum vmm_exit x = bed_run(&b, 1);

		if (b.run.retired) {
			cr_assert(++n < PROG_MOST);
			steps[n].rip = b.r.rip;
			memcpy(steps[n].ev, b.t.ev, sizeof(steps[n].ev));
		}
		if (x == VMM_EXIT_HLT)
			break;
		if (x != VMM_EXIT_BUDGET)
			prog_answer(&b);
	}
	bed_stop(&b);
	return n;
}

#endif
