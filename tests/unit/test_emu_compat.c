// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * 32-bit code of the emulator against the CPU that this runs on: a 64-bit process of Linux may
 * jump to the kernel's 32-bit code segment. Each instruction runs with random operands on the CPU,
 * in a child, and on the emulator, in protected mode. Registers, memory and defined flags must
 * be the same. Then locked instructions of two vCPUs on two threads, of which none may get lost.
 * Where the host does not let a process run 32-bit code, the comparison is skipped.
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/random.h"
#include "tests/unit/emu_bed.h"

TestSuite(emu_compat, .fini = bed_end);

#define PF 0x4u
#define AF 0x10u
#define SF 0x80u
#define OF 0x800u

#define ROUNDS 60
#define REACH  4096 /* bytes before and behind the operand: a bit's number may lead there */

static const struct row {
	uint8_t len, bytes[8];
	uint16_t undefined; /* flags: SDM vol. 2 */
} rows[] = {
	/* LOCK; the operand is at EDI */
	{3, {0xf0, 0x01, 0x1f}, 0},				      /* add %ebx */
	{3, {0xf0, 0x09, 0x1f}, AF},				      /* or */
	{3, {0xf0, 0x11, 0x1f}, 0},				      /* adc */
	{3, {0xf0, 0x19, 0x1f}, 0},				      /* sbb */
	{3, {0xf0, 0x21, 0x1f}, AF},				      /* and */
	{3, {0xf0, 0x29, 0x1f}, 0},				      /* sub */
	{3, {0xf0, 0x31, 0x1f}, AF},				      /* xor */
	{3, {0xf0, 0x00, 0x3f}, 0},				      /* add %bh */
	{4, {0x66, 0xf0, 0x01, 0x1f}, 0},			      /* add %bx */
	{4, {0xf0, 0x83, 0x07, 0xf0}, 0},			      /* addl $-16 */
	{4, {0xf0, 0x80, 0x0f, 0x55}, AF},			      /* orb $0x55 */
	{7, {0xf0, 0x81, 0x37, 0x78, 0x56, 0x34, 0x92}, AF},	      /* xorl $0x92345678 */
	{3, {0xf0, 0xff, 0x07}, 0},				      /* incl */
	{3, {0xf0, 0xff, 0x0f}, 0},				      /* decl */
	{3, {0xf0, 0xfe, 0x07}, 0},				      /* incb */
	{4, {0x66, 0xf0, 0xff, 0x0f}, 0},			      /* decw */
	{3, {0xf0, 0xf7, 0x1f}, 0},				      /* negl */
	{3, {0xf0, 0xf6, 0x1f}, 0},				      /* negb */
	{3, {0xf0, 0xf7, 0x17}, 0},				      /* notl */
	{5, {0xf0, 0x0f, 0xba, 0x2f, 0x25}, OF | SF | AF | PF},	      /* bts $37 */
	{5, {0xf0, 0x0f, 0xba, 0x37, 0x1e}, OF | SF | AF | PF},	      /* btr $30 */
	{5, {0xf0, 0x0f, 0xba, 0x3f, 0x07}, OF | SF | AF | PF},	      /* btc $7 */
	{6, {0x66, 0xf0, 0x0f, 0xba, 0x2f, 0x13}, OF | SF | AF | PF}, /* btsw $19 */
	{5, {0x66, 0xf0, 0x0f, 0xab, 0x1f}, OF | SF | AF | PF},	      /* bts %bx */
	{5, {0x66, 0xf0, 0x0f, 0xb3, 0x1f}, OF | SF | AF | PF},	      /* btr %bx */
	{5, {0x66, 0xf0, 0x0f, 0xbb, 0x0f}, OF | SF | AF | PF},	      /* btc %cx */
	{4, {0xf0, 0x0f, 0xc1, 0x1f}, 0},			      /* xadd %ebx */
	{4, {0xf0, 0x0f, 0xc0, 0x27}, 0},			      /* xadd %ah */
	{5, {0x66, 0xf0, 0x0f, 0xc1, 0x17}, 0},			      /* xadd %dx */
	{4, {0xf0, 0x0f, 0xb1, 0x1f}, 0},			      /* cmpxchg %ebx */
	{4, {0xf0, 0x0f, 0xb0, 0x3f}, 0},			      /* cmpxchg %bh */
	{5, {0x66, 0xf0, 0x0f, 0xb1, 0x0f}, 0},			      /* cmpxchg %cx */
	{4, {0xf0, 0x0f, 0xc7, 0x0f}, 0},			      /* cmpxchg8b */
	{3, {0xf0, 0x87, 0x1f}, 0},				      /* lock xchg %ebx */
	{2, {0x87, 0x1f}, 0},					      /* xchg %ebx */
	{2, {0x86, 0x3f}, 0},					      /* xchg %bh */
	/* registers, with some encodings that only 32-bit code has */
	{2, {0x87, 0xd9}, 0},			    /* xchg %ebx, %ecx */
	{2, {0x86, 0xdc}, 0},			    /* xchg %bl, %ah */
	{1, {0x92}, 0},				    /* xchg %eax, %edx */
	{1, {0x41}, 0},				    /* inc %ecx */
	{1, {0x4b}, 0},				    /* dec %ebx */
	{2, {0x66, 0x40}, 0},			    /* inc %ax */
	{4, {0x67, 0x66, 0x8d, 0x07}, 0},	    /* lea (%bx), %ax */
	{4, {0x67, 0x8d, 0x47, 0x80}, 0},	    /* lea -128(%bx), %eax */
	{4, {0x8d, 0x44, 0x8b, 0x11}, 0},	    /* lea 0x11(%ebx,%ecx,4), %eax */
	{2, {0x01, 0xd8}, 0},			    /* add %ebx, %eax */
	{2, {0x28, 0xd8}, 0},			    /* sub %bl, %al */
	{3, {0x66, 0x39, 0xd8}, 0},		    /* cmp %bx, %ax */
	{2, {0x85, 0xd8}, AF},			    /* test %ebx, %eax */
	{3, {0xc1, 0xe0, 0x05}, OF | AF},	    /* shl $5, %eax */
	{3, {0xc1, 0xe8, 0x09}, OF | AF},	    /* shr $9, %eax */
	{3, {0x0f, 0xa3, 0xd8}, OF | SF | AF | PF}, /* bt %ebx, %eax */
	{3, {0x0f, 0xb6, 0xc7}, 0},		    /* movzx %bh, %eax */
	{2, {0x03, 0x07}, 0},			    /* add (%edi), %eax */
	{2, {0x29, 0x07}, 0},			    /* sub %eax, (%edi) */
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

struct one {			 /* a case, before and after */
	uint32_t regs[4], flags; /* EAX ECX EDX EBX */
	uint8_t mem[2 * REACH];	 /* the operand is in the middle */
};

/* The operands of a case are the same on both sides. */
static void make(struct one *c, uint64_t *seed, unsigned int n)
{
	for (unsigned int i = 0; i < sizeof(c->mem); i += 8) {
		uint64_t x = random_split(seed);

		memcpy(c->mem + i, &x, 8);
	}
	for (unsigned int k = 0; k < 4; k++)
		c->regs[k] = n & 1 << k ? (uint32_t)random_split(seed) : random_split(seed) & 0xff;
	if (n % 3 == 0) { /* CMPXCHG finds its operand */
		memcpy(&c->regs[0], c->mem + REACH, 4);
		memcpy(&c->regs[2], c->mem + REACH + 4, 4);
	}
	c->flags = random_split(seed) & 0xcd5;
}

/* ---- on the CPU ---- */

/* Below 4 GiB, where 32-bit code reaches. The code uses these numbers. */
#define LOW	  0x20000000u
#define LOW_BYTES 0x8000u
#define LOW_REGS  (LOW + 0x1000) /* EAX ECX EDX EBX flags EDI */
#define LOW_BACK  (LOW + 0x1020) /* far pointer to the 64-bit code at LOW + 800H */
#define LOW_GO	  (LOW + 0x1030) /* far pointer to LOW */
#define LOW_STACK (LOW + 0x2000)
#define LOW_MEM	  (LOW + 0x4000)
#define USER32_CS 0x23 /* Linux, arch/x86/include/asm/segment.h */

extern const uint8_t compat_code[], compat_insn[], compat_code_end[];
extern const uint8_t compat_back[], compat_back_end[];
/* compat_code: 16 bytes of NOP stand for the instruction. compat_back: LOW + 1040H is where the
 * caller's RSP is. */
__asm__(".pushsection .rodata\n"
	".globl compat_code, compat_insn, compat_code_end, compat_back, compat_back_end\n"
	".code32\n"
	"compat_code:\n"
	"mov $0x2b, %eax\n mov %eax, %ds\n mov %eax, %es\n"
	"mov 0x20001000, %eax\n mov 0x20001004, %ecx\n mov 0x20001008, %edx\n"
	"mov 0x2000100c, %ebx\n mov 0x20001014, %edi\n"
	"pushl 0x20001010\n popfl\n"
	"compat_insn: .fill 16, 1, 0x90\n"
	"pushfl\n cld\n popl 0x20001010\n"
	"mov %eax, 0x20001000\n mov %ecx, 0x20001004\n mov %edx, 0x20001008\n"
	"mov %ebx, 0x2000100c\n"
	"ljmp *0x20001020\n"
	"compat_code_end:\n"
	".code64\n"
	"compat_back: mov 0x20001040, %rsp\n ret\n"
	"compat_back_end:\n"
	".popsection\n");

struct low {
	uint32_t regs[4], flags, edi, pad[2];
	uint32_t back, back_cs, pad2[2]; /* at 20H */
	uint32_t go, go_cs, pad3[2];	 /* at 30H */
	uint64_t rsp;
};

static void far_call(void)
{
	__asm__ volatile("lea -128(%%rsp), %%rsp\n" /* the red zone */
			 "push %%rbx\n push %%rbp\n"
			 "lea 1f(%%rip), %%rax\n push %%rax\n"
			 "mov %%rsp, 0x20001040\n"
			 "mov $0x20002000, %%esp\n"
			 "ljmp *0x20001030\n"
			 "1: pop %%rbp\n pop %%rbx\n"
			 "lea 128(%%rsp), %%rsp\n"
			 :
			 :
			 : "rax", "rcx", "rdx", "rdi", "rsi", "r8", "r9", "r10", "r11", "r12",
			   "r13", "r14", "r15", "memory", "cc");
}

/* In a child: run all cases on the CPU. Ends it with 0, 1 if the memory cannot be had; where 32-bit
 * code cannot run, a signal ends it. */
static void natively(struct one *all)
{
	uint8_t *low = mmap((void *)(uintptr_t)LOW, LOW_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct low *at = (struct low *)(uintptr_t)LOW_REGS;
	uint16_t cs;

	if (low != (uint8_t *)(uintptr_t)LOW)
		_exit(1);
	__asm__("mov %%cs, %0" : "=r"(cs));
	memcpy(low, compat_code, (size_t)(compat_code_end - compat_code));
	memcpy(low + 0x800, compat_back, (size_t)(compat_back_end - compat_back));
	at->back = LOW + 0x800;
	at->back_cs = cs;
	at->go = LOW;
	at->go_cs = USER32_CS;
	for (size_t i = 0; i < ROWS * ROUNDS; i++) {
		const struct row *r = &rows[i / ROUNDS];
		uint8_t *insn = low + (compat_insn - compat_code);

		memset(insn, 0x90, 16);
		memcpy(insn, r->bytes, r->len);
		memcpy(at->regs, all[i].regs, sizeof(at->regs));
		at->flags = all[i].flags | 0x202;
		at->edi = LOW_MEM + REACH;
		memcpy((void *)(uintptr_t)LOW_MEM, all[i].mem, sizeof(all[i].mem));
		far_call();
		memcpy(all[i].regs, at->regs, sizeof(at->regs));
		all[i].flags = at->flags;
		memcpy(all[i].mem, (void *)(uintptr_t)LOW_MEM, sizeof(all[i].mem));
	}
	_exit(0);
}

/* ---- on the emulator ---- */

static void softly(struct bed *b, const struct row *r, struct one *c)
{
	bed_protected(b, b->v);
	memcpy(b->ram + BED_CODE, r->bytes, r->len);
	b->ram[BED_CODE + r->len] = 0xf4; /* HLT */
	memcpy(b->ram + BED_DATA - REACH, c->mem, sizeof(c->mem));
	/* EDI is the CPU's: what an instruction makes of it must be the same. */
	b->r = (struct kvm_regs){.rax = c->regs[0],
				 .rcx = c->regs[1],
				 .rdx = c->regs[2],
				 .rbx = c->regs[3],
				 .rdi = BED_DATA,
				 .rsp = BED_STACK,
				 .rip = BED_CODE,
				 .rflags = c->flags | 2};
	o->set_regs(b->v, &b->r);
	cr_assert_eq(bed_run(b, 10), VMM_EXIT_HLT, "row %zu: %s", (size_t)(r - rows),
		     b->run.u.error.msg);
	c->regs[0] = (uint32_t)b->r.rax;
	c->regs[1] = (uint32_t)b->r.rcx;
	c->regs[2] = (uint32_t)b->r.rdx;
	c->regs[3] = (uint32_t)b->r.rbx;
	c->flags = (uint32_t)b->r.rflags;
	memcpy(c->mem, b->ram + BED_DATA - REACH, sizeof(c->mem));
}

Test(emu_compat, instructions_are_those_of_the_cpu)
{
	size_t bytes = ROWS * ROUNDS * sizeof(struct one);
	struct one *cpu =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct one *emulator = malloc(bytes);
	static const uint8_t nothing[1];
	uint64_t seed = 1;
	int status = 0;
	pid_t pid;

	cr_assert(cpu != MAP_FAILED && emulator);
	for (size_t i = 0; i < ROWS * ROUNDS; i++)
		make(&cpu[i], &seed, (unsigned int)(i % ROUNDS));
	memcpy(emulator, cpu, bytes);
	fflush(NULL);
	pid = fork();
	if (!pid)
		natively(cpu);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	if (status) {
		free(emulator);
		munmap(cpu, bytes);
		cr_skip_test("a process cannot run 32-bit code here (status 0x%x)",
			     (unsigned int)status);
	}
	bed_start(&b, nothing, nothing + 1, false);
	bed_whole(b.v, false);
	for (size_t i = 0; i < ROWS * ROUNDS; i++) {
		const struct row *r = &rows[i / ROUNDS];
		uint32_t flags = 0xcd5u & ~r->undefined;

		softly(&b, r, &emulator[i]);
		cr_assert_eq(memcmp(emulator[i].regs, cpu[i].regs, sizeof(cpu[i].regs)), 0,
			     "row %zu case %zu: registers", i / ROUNDS, i % ROUNDS);
		cr_assert_eq(emulator[i].flags & flags, cpu[i].flags & flags,
			     "row %zu case %zu: flags 0x%x and 0x%x", i / ROUNDS, i % ROUNDS,
			     emulator[i].flags, cpu[i].flags);
		cr_assert_eq(memcmp(emulator[i].mem, cpu[i].mem, sizeof(cpu[i].mem)), 0,
			     "row %zu case %zu: memory", i / ROUNDS, i % ROUNDS);
	}
	free(emulator);
	munmap(cpu, bytes);
}

/* ---- two vCPUs ---- */

#define TURNS 20000u

/* The counters are in one line, but the last one, which is in two. */
BED_GUEST(guest_count, ".code32\n"
		       "1: movl $3, %eax\n"
		       "lock xaddl %eax, (%edi)\n"
		       "lock incl 4(%edi)\n"
		       "2: movl $1, %eax\n"
		       "xchgl %eax, 8(%edi)\n" /* a lock around non-atomic code */
		       "testl %eax, %eax\n"
		       "jnz 2b\n"
		       "incl 12(%edi)\n"
		       "xchgl %eax, 8(%edi)\n"
		       "lock addl $2, 62(%edi)\n"
		       "decl %ecx\n"
		       "jnz 1b\n"
		       "hlt\n"
		       ".code64\n");

static void *count(void *arg)
{
	struct vmm_run run = {.budget = 1000};

	do {
		if (o->run(arg, &run))
			return (void *)"run() failed";
	} while (run.exit == VMM_EXIT_BUDGET || run.exit == VMM_EXIT_INTR);
	return run.exit == VMM_EXIT_HLT ? NULL : (void *)"no HLT";
}

Test(emu_compat, locked_instructions_of_two_vcpus)
{
	struct vpmu_emu_tally tallies[2];
	struct vmm_engine_vcpu *v[2];
	struct kvm_regs r = {
		.rip = BED_CODE, .rsp = BED_STACK, .rdi = BED_DATA, .rcx = TURNS, .rflags = 2};
	pthread_t thread[2];
	void *says;

	memset(tallies, 0, sizeof(tallies));
	bed_init(&b);
	BED_PUT(&b, BED_CODE, guest_count);
	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(o->vcpu_create(b.vm, i, &v[i]), 0);
		o->set_tally(v[i], &tallies[i]);
		bed_whole(v[i], false);
		bed_protected(&b, v[i]);
		o->set_regs(v[i], &r);
	}
	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, count, v[i]), 0);
	for (unsigned int i = 0; i < 2; i++) {
		pthread_join(thread[i], &says);
		cr_assert_null(says, "vCPU %u: %s", i, (char *)says);
	}
	cr_assert_eq((uint32_t)*bed_u64(&b, BED_DATA), 6 * TURNS, "XADD");
	cr_assert_eq((uint32_t)*bed_u64(&b, BED_DATA + 4), 2 * TURNS, "INC");
	cr_assert_eq((uint32_t)*bed_u64(&b, BED_DATA + 8), 0, "the lock is held");
	cr_assert_eq((uint32_t)*bed_u64(&b, BED_DATA + 12), 2 * TURNS, "XCHG");
	cr_assert_eq((uint32_t)*bed_u64(&b, BED_DATA + 62), 4 * TURNS, "ADD across two lines");
	o->vcpu_destroy(v[1]);
	o->vcpu_destroy(v[0]);
	b.v = NULL;
}
