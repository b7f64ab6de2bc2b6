// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * 16- and 32-bit code of the emulator: the way of a trampoline from real mode to 64-bit mode,
 * each instruction against the same one in 64-bit mode (which emu-difftest compares with the CPU),
 * and refusals. emu_whole.c: the further state of vCPUs that show a whole CPU.
 */
#include <errno.h>

#include "tests/random.h"
#include "tests/unit/emu_bed.h"

TestSuite(emu_legacy, .fini = bed_end);

#define REAL 0x8000ULL /* where 16-bit code is */

/* A whole CPU in real mode as after a start-up IPI with the vector of REAL. */
static void real_mode(const uint8_t *code, const uint8_t *end)
{
	struct kvm_segment seg = {.limit = 0xffff, .type = 3, .present = 1, .s = 1};

	bed_start(&b, code, end, false);
	bed_whole(b.v, false);
	bed_put(&b, REAL, code, end);
	BED_SREGS(&b, {
		s.cr0 = 0x10;
		s.cr3 = s.cr4 = s.efer = 0;
		s.cs = s.ds = s.es = s.ss = s.fs = s.gs = seg;
		s.cs.base = REAL;
		s.cs.selector = REAL >> 4;
		s.gdt = s.idt = (struct kvm_dtable){.limit = 0xffff};
	});
	memset(&b.r, 0, sizeof(b.r));
	BED_REGS(&b, .rsp = 0x9000, .rflags = 2);
}

/* What stock trampolines do, on the way of verify_cpu, startup_32 and startup_64. */
BED_GUEST(guest_trampoline, ".code16\n"
			    "cli\n"				      /* 1 */
			    "wbinvd\n"				      /* 2 */
			    "ljmp $0x800, $(1f - guest_trampoline)\n" /* 3 */
			    "1: mov %cs, %ax\n"
			    "mov %ax, %ds\n"
			    "mov %ax, %es\n"
			    "mov %ax, %ss\n"
			    "movl $0x1000, %esp\n" /* 8 */
			    "call 5f\n"		   /* 9 */
			    "testl %eax, %eax\n"   /* behind 5: */
			    "jnz 9f\n"
			    "lidtl 8f - guest_trampoline\n"
			    "lgdtl 7f - guest_trampoline\n" /* 4 of these */
			    "mov $0x10, %dx\n"
			    "movl $0x50033, %eax\n"
			    "movl %eax, %cr0\n"
			    "ljmpl $0x18, $(0x8000 + 2f - guest_trampoline)\n" /* 8 */
			    "9: hlt\n"
			    "5: pushf\n"
			    "push $0\n"
			    "popf\n"
			    "pushfl\n"
			    "popl %eax\n"
			    "movl %eax, %ebx\n"
			    "xorl $0x200000, %eax\n"
			    "pushl %eax\n"
			    "popfl\n"
			    "pushfl\n"
			    "popl %eax\n"
			    "cmpl %eax, %ebx\n"
			    "je 6f\n" /* 13 */
			    "movl $1, %eax\n"
			    "cpuid\n"
			    "andl $0x7000000, %edx\n"
			    "xorl $0x7000000, %edx\n"
			    "jnz 6f\n"
			    "popf\n"
			    "xorl %eax, %eax\n"
			    "ret\n" /* 8 */
			    "6: popf\n"
			    "movl $1, %eax\n"
			    "ret\n"
			    ".balign 8\n"
			    "7: .word 0x3f\n.long 0x6000\n"
			    ".balign 8\n"
			    "8: .word 0\n.long 0\n"
			    ".code32\n"
			    "2: movl %edx, %ss\n"
			    "addl $0x8000, %esp\n"
			    "movl %edx, %ds\n"
			    "movl %edx, %gs\n"
			    "btl $0, 0x7000\n"
			    "jnc 3f\n"
			    "hlt\n"
			    "3: movl $0x20, %eax\n"
			    "movl %eax, %cr4\n"
			    "movl $0x10000, %eax\n"
			    "movl %eax, %cr3\n"
			    "movl $0xc0000080, %ecx\n"
			    "rdmsr\n"
			    "movl $0x901, %eax\n"
			    "xorl %edx, %edx\n"
			    "wrmsr\n"
			    "movl $0x80050033, %eax\n"
			    "movl %eax, %cr0\n"
			    "ljmpl $8, $(0x8000 + 4f - guest_trampoline)\n" /* 18 */
			    ".code64\n"
			    "4: mov $0x123456789abcdef0, %rbx\n"
			    "hlt\n"); /* 2 */

/* run() stops behind each instruction and goes on, or does all of them. */
static void from_real_mode(uint64_t budget)
{
	struct kvm_sregs s;
	unsigned int steps = 0;

	real_mode(guest_trampoline, guest_trampoline_end);
	*bed_u64(&b, BED_GDT + 0x18) = 0x00cf9b000000ffff; /* 32-bit code */
	while (bed_run(&b, budget) == VMM_EXIT_BUDGET)
		cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), ++steps);
	cr_assert_eq(b.run.exit, VMM_EXIT_HLT, "exit %d: %s", b.run.exit, b.run.u.error.msg);
	cr_assert_eq(b.r.rbx, 0x123456789abcdef0, "rbx 0x%llx", b.r.rbx);
	cr_assert_eq(b.r.rsp, 0x9000);
	s = bed_sregs(&b);
	cr_assert(s.cs.l && s.cs.selector == 8);
	cr_assert_eq(s.efer, 0xd01);
	cr_assert_eq(s.cr0, 0x80050033);
	cr_assert_eq(s.gdt.base, BED_GDT);
	cr_assert_eq(s.gdt.limit, 0x3f);
	cr_assert_eq(s.gs.selector, 0x10);
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 9 + 4 + 4 + 21 + 18 + 2);
	/* ljmp, call, ret, ljmpl, jnc, ljmpl; and jnz, je, jnz that are not taken */
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_BRANCHES), 9);
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_BRANCHES_TAKEN), 6);
}

Test(emu_legacy, from_real_mode_to_64_bit_mode)
{
	from_real_mode(1000);
}

Test(emu_legacy, each_instruction_is_one)
{
	from_real_mode(1);
}

/* ---- instructions that have the same bytes and meaning in 32-bit and 64-bit mode ---- */

static const struct {
	uint8_t len, bytes[8];
} same[] = {
	{2, {0x01, 0xd8}},			   /* add %ebx, %eax */
	{2, {0x29, 0xd8}},			   /* sub */
	{2, {0x39, 0xd8}},			   /* cmp */
	{2, {0x21, 0xd8}},			   /* and */
	{2, {0x09, 0xd8}},			   /* or */
	{2, {0x31, 0xd8}},			   /* xor */
	{2, {0x85, 0xd8}},			   /* test */
	{2, {0x00, 0xfc}},			   /* add %bh, %ah */
	{2, {0x28, 0xd8}},			   /* sub %bl, %al */
	{3, {0x66, 0x01, 0xd8}},		   /* add %bx, %ax */
	{3, {0x66, 0x29, 0xd8}},		   /* sub %bx, %ax */
	{3, {0x83, 0xc0, 0xf0}},		   /* add $-16, %eax */
	{5, {0x3d, 0x78, 0x56, 0x34, 0x12}},	   /* cmp $0x12345678, %eax */
	{2, {0xff, 0xc0}},			   /* inc %eax */
	{2, {0xff, 0xc8}},			   /* dec %eax */
	{2, {0xfe, 0xc4}},			   /* inc %ah */
	{3, {0xc1, 0xe0, 0x05}},		   /* shl $5, %eax */
	{3, {0xc1, 0xe8, 0x09}},		   /* shr $9, %eax */
	{2, {0xd1, 0xe8}},			   /* shr %eax */
	{3, {0x0f, 0xa3, 0xd8}},		   /* bt %ebx, %eax */
	{3, {0x0f, 0xab, 0xd8}},		   /* bts */
	{3, {0x0f, 0xb3, 0xd8}},		   /* btr */
	{4, {0x0f, 0xba, 0xf0, 0x02}},		   /* btr $2, %eax */
	{5, {0xf0, 0x0f, 0xba, 0x2f, 0x25}},	   /* lock bts $37, (%edi) */
	{5, {0xf0, 0x0f, 0xba, 0x37, 0x1e}},	   /* lock btr $30, (%edi) */
	{6, {0x66, 0xf0, 0x0f, 0xba, 0x2f, 0x03}}, /* lock btsw $3, (%edi) */
	{3, {0x0f, 0xb6, 0xc3}},		   /* movzx %bl, %eax */
	{3, {0x0f, 0xb7, 0xc3}},		   /* movzx %bx, %eax */
	{2, {0x89, 0xd8}},			   /* mov %ebx, %eax */
	{2, {0x88, 0xdc}},			   /* mov %bl, %ah */
	{3, {0x66, 0x89, 0xd8}},		   /* mov %bx, %ax */
	{4, {0x8d, 0x44, 0x8b, 0x11}},		   /* lea 0x11(%ebx, %ecx, 4), %eax */
	{2, {0x03, 0x07}},			   /* add (%edi), %eax */
	{2, {0x29, 0x07}},			   /* sub %eax, (%edi) */
	{2, {0x11, 0xd8}},			   /* adc %ebx, %eax */
	{2, {0x10, 0xd8}},			   /* adc %bl, %al */
	{2, {0x19, 0xd8}},			   /* sbb */
	{3, {0x66, 0x19, 0xd8}},		   /* sbb %bx, %ax */
	{2, {0xf7, 0xd8}},			   /* neg %eax */
	{2, {0xf6, 0x1f}},			   /* negb (%edi) */
	{2, {0xf7, 0xd0}},			   /* not */
	{3, {0xc1, 0xf8, 0x05}},		   /* sar $5, %eax */
	{2, {0xd2, 0xf8}},			   /* sar %cl, %al */
	{3, {0xc1, 0xc0, 0x03}},		   /* rol $3, %eax */
	{3, {0x66, 0xd3, 0xc8}},		   /* ror %cl, %ax */
	{3, {0xc1, 0x17, 0x02}},		   /* rcll $2, (%edi) */
	{2, {0xd1, 0xd8}},			   /* rcr %eax */
	{4, {0x0f, 0xa4, 0xd8, 0x04}},		   /* shld $4, %ebx, %eax */
	{3, {0x0f, 0xad, 0xd8}},		   /* shrd %cl, %ebx, %eax */
	{3, {0x0f, 0xbc, 0xc3}},		   /* bsf %ebx, %eax */
	{3, {0x0f, 0xbd, 0xc3}},		   /* bsr */
	{2, {0xf7, 0xe3}},			   /* mul %ebx */
	{2, {0xf6, 0xe3}},			   /* mul %bl */
	{2, {0xf7, 0xeb}},			   /* imul %ebx */
	{3, {0x0f, 0xaf, 0xc3}},		   /* imul %ebx, %eax */
	{4, {0x66, 0x0f, 0xaf, 0xc3}},		   /* imul %bx, %ax */
	{3, {0x6b, 0xc3, 0x07}},		   /* imul $7, %ebx, %eax */
	{5, {0x83, 0xc9, 0x01, 0xf7, 0xf1}},	   /* or $1, %ecx; div %ecx */
	{6, {0x83, 0xc9, 0x01, 0x99, 0xf7, 0xf9}}, /* or $1, %ecx; cdq; idiv %ecx */
	{3, {0x0f, 0xbe, 0xc3}},		   /* movsx %bl, %eax */
	{3, {0x0f, 0xbf, 0xc3}},		   /* movsx %bx, %eax */
	{2, {0x0f, 0xc8}},			   /* bswap %eax */
	{2, {0x66, 0x98}},			   /* cbw */
	{1, {0x98}},				   /* cwde */
	{2, {0x66, 0x99}},			   /* cwd */
	{1, {0x99}},				   /* cdq */
	{3, {0x0f, 0x92, 0xc0}},		   /* setb %al */
	{3, {0x0f, 0x9c, 0x07}},		   /* setl (%edi) */
	{3, {0x0f, 0x42, 0xc3}},		   /* cmovb %ebx, %eax */
	{1, {0xf8}},				   /* clc */
	{1, {0xf9}},				   /* stc */
	{1, {0xf5}},				   /* cmc */
	{1, {0xab}},				   /* stosl */
	{3, {0x89, 0xfe, 0xac}},		   /* mov %edi, %esi; lodsb */
	{5, {0x83, 0xe1, 0x1f, 0xf3, 0xaa}},	   /* and $31, %ecx; rep stosb */
	{7,
	 {0x89, 0xfe, 0x83, 0xe1, 0x03, 0xf3, 0xa5}}, /* mov %edi, %esi; and $3, %ecx; rep movsl */
	{7, {0xb1, 0xc8, 0x0f, 0xb6, 0xc9, 0xf3, 0xaa}}, /* movzx $200, %ecx; rep stosb */
	{1, {0xfa}},					 /* cli */
	{1, {0xfc}},					 /* cld */
	{2, {0x72, 0x01}},				 /* jb over the hlt */
	{2, {0x7f, 0x01}},				 /* jg */
	{2, {0xeb, 0x01}},				 /* jmp */
};

Test(emu_legacy, instructions_are_those_of_64_bit_mode)
{
	static const uint8_t hlt[] = {0xf4, 0xf4};
	struct bed a, b;
	struct kvm_sregs s;
	uint64_t seed = 1;

	bed_start(&a, hlt, hlt + 2, false);
	bed_start(&b, hlt, hlt + 2, false);
	bed_whole(a.v, false);
	bed_protected(&a, a.v);
	s = bed_sregs(&a);
	for (unsigned int i = 0; i < sizeof(same) / sizeof(same[0]); i++)
		for (unsigned int n = 0; n < 100; n++) {
			struct bed *both[2] = {&a, &b};
			uint64_t mem = random_split(&seed), regs[3],
				 flags = random_split(&seed) & 0xcd5;

			for (unsigned int k = 0; k < 3; k++)
				regs[k] = n & 1 << k ? (uint32_t)random_split(&seed)
						     : random_split(&seed) & 0xff;
			for (unsigned int k = 0; k < 2; k++) {
				struct bed *x = both[k];

				memcpy(x->ram + BED_CODE, same[i].bytes, same[i].len);
				memcpy(x->ram + BED_CODE + same[i].len, hlt, 2);
				*bed_u64(x, BED_DATA) = mem;
				x->r = (struct kvm_regs){.rax = regs[0],
							 .rbx = regs[1],
							 .rcx = regs[2],
							 .rdi = BED_DATA,
							 .rsp = BED_STACK,
							 .rip = BED_CODE,
							 .rflags = flags | 2};
				if (x == &a)
					cr_assert_eq(o->set_sregs(x->v, &s), 0);
				else
					bed_set_mode(x, x->v, false);
				o->set_regs(x->v, &x->r);
				cr_assert_eq(bed_run(x, 10), VMM_EXIT_HLT, "row %u: %s", i,
					     x->run.u.error.msg);
			}
			cr_assert(a.r.rax == b.r.rax && a.r.rbx == b.r.rbx && a.r.rcx == b.r.rcx &&
					  a.r.rdx == b.r.rdx && a.r.rdi == b.r.rdi &&
					  a.r.rsi == b.r.rsi && a.r.rip == b.r.rip &&
					  a.r.rflags == b.r.rflags,
				  "row %u: eax 0x%llx 0x%llx, flags 0x%llx 0x%llx", i, a.r.rax,
				  b.r.rax, a.r.rflags, b.r.rflags);
			cr_assert_eq(*bed_u64(&a, BED_DATA), *bed_u64(&b, BED_DATA), "row %u", i);
		}
	cr_assert(!memcmp(a.t.ev, b.t.ev, sizeof(a.t.ev)), "the events differ");
	bed_stop(&a);
	bed_stop(&b);
}

BED_GUEST(guest_16_stack, ".code16\n"
			  "movw $(1f - guest_16_stack), 0x180\n"
			  "movw $0x800, 0x182\n"
			  "sti\n"
			  "mov $0x1111, %ax\n"
			  "pushaw\n"
			  "mov $3, %ax\n"
			  "popaw\n"
			  "int $0x60\n"
			  "lcallw $0x800, $(2f - guest_16_stack)\n"
			  "lesw 0x180, %di\n"
			  "sidtl 0x190\n"
			  "pushw $0x77\n"
			  "popw 0x198\n"
			  "pushw $0x55\n"
			  "mov %sp, %bp\n"
			  "mov $4, %sp\n"
			  "leavew\n"
			  "hlt\n"
			  "1: pushfw\n"
			  "pop %cx\n"
			  "mov $7, %si\n"
			  "iretw\n"
			  "2: mov $9, %dx\n"
			  "lretw\n"
			  ".code64\n");

Test(emu_legacy, interrupts_of_real_mode)
{
	real_mode(guest_16_stack, guest_16_stack_end);
	cr_assert_eq(bed_run(&b, 1000), VMM_EXIT_HLT, "exit %d: %s", b.run.exit, b.run.u.error.msg);
	cr_expect_eq(b.r.rax, 0x1111);
	cr_expect_eq(b.r.rcx & 0x202, 2, "flags of the handler 0x%llx", b.r.rcx);
	cr_expect_eq(b.r.rflags & 0x200, 0x200);
	cr_expect_eq(b.r.rbp, 0x55);
	cr_expect_eq(b.r.rsi, 7);
	cr_expect(!memcmp(b.ram + 0x190, (uint16_t[]){0xffff, 0, 0, 0, 0x77}, 10));
	cr_expect_eq(b.r.rdx, 9);
	cr_expect_eq(b.r.rsp, 0x9000);
	cr_expect_eq(bed_sregs(&b).es.base, 0x8000);
	cr_expect_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 18 + 4 + 2);
	cr_expect_eq(bed_total(&b.t, VPMU_EMU_BRANCHES_TAKEN), 4);
}

BED_GUEST(guest_16_aaa, ".code16\naaa\n.code64\n");
BED_GUEST(guest_16_xbegin, ".code16\nxor %ax, %ax\nxbegin 1f\nhlt\n1:\nhlt\n.code64\n");
BED_GUEST(guest_16_ud, ".code16\nud2\n.code64\n");
BED_GUEST(guest_16_page, ".code16\nmov $1, %eax\nmov %eax, %cr0\nmov $0x80000001, %eax\n"
			 "mov %eax, %cr0\n.code64\n");
BED_GUEST(guest_16_limit, ".code16\nmov $0xffff, %bx\nmov (%bx), %ax\n.code64\n");

Test(emu_legacy, what_is_refused_is_one_line)
{
	static const struct {
		const uint8_t *code, *end;
		const char *says;
	} rows[] = {
		{guest_16_aaa, guest_16_aaa_end, "outside the emulator's list of real-mode code"},
		{guest_16_xbegin, guest_16_xbegin_end, "outside the emulator's list"},
		{guest_16_ud, guest_16_ud_end, "outside the emulator's list of real-mode code"},
		{guest_16_page, guest_16_page_end, "turns on paging"},
		{guest_16_limit, guest_16_limit_end, "exception 13"},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		real_mode(rows[i].code, rows[i].end);
		cr_assert_eq(bed_run(&b, 100), VMM_EXIT_ERROR, "row %u: exit %d", i, b.run.exit);
		cr_assert(strstr(b.run.u.error.msg, rows[i].says), "row %u: %s", i,
			  b.run.u.error.msg);
	}
}

BED_GUEST(guest_32_cs, ".code32\nmov %cs:0, %eax\nhlt\n.code64\n");

/* SDM vol. 3, table 3-1: code is executable, and readable if bit 1 of its type is set. */
Test(emu_legacy, code_that_is_not_readable)
{
	for (unsigned int i = 0; i < 3; i++) {
		real_mode(guest_32_cs, guest_32_cs_end);
		/* in real mode types do not matter */
		BED_SREGS(&b, (s.cr0 |= i < 2, s.cs.type = i == 1 ? 11 : 9, s.cs.db = i < 2));
		cr_assert_eq(bed_run(&b, 100), i ? VMM_EXIT_HLT : VMM_EXIT_ERROR, "row %u", i);
		cr_expect(i || strstr(b.run.u.error.msg, "exception 13"), "%s", b.run.u.error.msg);
	}
}
