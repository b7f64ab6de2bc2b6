// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code against the interpreter: random programs in random slices must stop at the same
 * instructions with the same registers, flags, memory and counts. Then: code memory that is full.
 * emu_jit_off.c: hosts that allow no executable memory.
 */
#include <pthread.h>
#include <signal.h>

#include "tests/unit/emu_bed.h"
#include "tests/unit/emu_random.h"
#include "vmm/emu/jit/jit.h"
#include "vpmu/lbr_regs.h"

TestSuite(emu_jit, .fini = bed_end);

/* ---- running them ---- */

#define STOPS_MAX 20000u

struct stop {
	enum vmm_exit exit;
	struct kvm_regs r;
	struct vpmu_emu_tally t;
	uint64_t memory, effort;
};

static uint64_t sum_of(const struct bed *b)
{
	uint64_t h = 0;

	for (uint64_t at = BED_DATA; at < BED_DATA + 8192; at += 8)
		h = (h ^ *(const uint64_t *)(b->ram + at)) * 0x100000001b3ull;
	return h;
}

/* Run @p in slices that @slices decides, to its HLT or a fault. Returns the number of stops. */
static unsigned int run_prog(const struct prog *p, uint64_t slices, struct stop *out)
{
	uint64_t rng = slices, data = ~slices;
	struct vpmu_emu_alarm *a;
	unsigned int n = 0;
	enum vmm_exit x;
	struct bed b;

	bed_init(&b);
	for (uint64_t at = BED_DATA; at < BED_DATA + 8192; at += 8)
		*bed_u64(&b, at) = random_split(&data);
	cr_assert_eq(o->vcpu_create(b.vm, 0, &b.v), 0);
	o->set_tally(b.v, &b.t);
	bed_load(&b, p->code, p->code + p->n, slices & 1);
	a = &b.t.alarm[0];
	do {
		if (slices % 8 == 3 && !below(&rng, 4)) { /* branches are recorded now and then */
			b.t.lbr.ctl ^= VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_OS | VPMU_LBR_TYPES;
			b.t.lbr.depth = VPMU_LBR_DEPTH_MAX;
		}
		if (!b.t.armed && !below(&rng, 3)) {
			*a = (struct vpmu_emu_alarm){.event = (uint8_t)below(&rng, VPMU_EMU_EVENTS),
						     .modes = 3};
			a->at = b.t.ev[0][a->event] + b.t.ev[1][a->event] + 1 + below(&rng, 400);
			b.t.armed = 1;
		}
		x = bed_run(&b, 1 + below(&rng, below(&rng, 4) ? 300 : 4000));
		if (x == VMM_EXIT_ALARM)
			b.t.armed = 0;
		cr_assert(n < STOPS_MAX);
		out[n++] = (struct stop){x, b.r, b.t, sum_of(&b), b.run.effort};
	} while (x == VMM_EXIT_BUDGET || x == VMM_EXIT_ALARM || x == VMM_EXIT_INTR);
	bed_stop(&b);
	return n;
}

static void compare(uint64_t seed, const struct stop *a, const struct stop *b, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		cr_assert_eq(a[i].exit, b[i].exit, "seed %lu stop %u: exit %d, %d", seed, i,
			     a[i].exit, b[i].exit);
		cr_assert(!memcmp(&a[i].r, &b[i].r, sizeof(a[i].r)),
			  "seed %lu stop %u: registers (rip %llx %llx, flags %llx %llx)", seed, i,
			  a[i].r.rip, b[i].r.rip, a[i].r.rflags, b[i].r.rflags);
		cr_assert(!memcmp(&a[i].t, &b[i].t, sizeof(a[i].t)), "seed %lu stop %u: counts",
			  seed, i);
		cr_assert_eq(a[i].memory, b[i].memory, "seed %lu stop %u: memory", seed, i);
	}
}

static void need_translation(void)
{
	struct vmm_engine *e;

	cr_assert_eq(o->open(&e, NULL, 0), 0);
	emu_jit_set(EMU_JIT_ALL);
	if (emu_jit_off())
		cr_skip_test("%s", emu_jit_off());
}

Test(emu_jit, equals_the_interpreter)
{
	struct stop *out = malloc(3 * STOPS_MAX * sizeof(*out));
	unsigned int n, m, halts = 0;
	static struct prog p;

	need_translation();
	cr_assert(out);
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		random_prog(&p, seed);
		emu_jit_set(EMU_JIT_OFF);
		n = run_prog(&p, seed, out);
		emu_jit_set(seed % 4 ? EMU_JIT_ALL : EMU_JIT_HOT);
		m = run_prog(&p, seed, out + STOPS_MAX);
		cr_assert_eq(n, m, "seed %lu: %u stops, %u", seed, n, m);
		compare(seed, out, out + STOPS_MAX, n);
		halts += out[n - 1].exit == VMM_EXIT_HLT;
		if (seed % 16)
			continue;
		m = run_prog(&p, seed, out + 2 * STOPS_MAX);
		for (unsigned int i = 0; i < m; i++)
			cr_assert_eq(out[STOPS_MAX + i].effort, out[2 * STOPS_MAX + i].effort,
				     "seed %lu stop %u: effort", seed, i);
	}
	cr_assert_gt(halts, 1800, "%u programs ended", halts);
	free(out);
}

/* ---- code in a page that is mapped elsewhere ---- */

/* RBX counts calls of the page at BED_WIN, which is one of two pages in turn: RSI has the entry of
 * the one, R8 that of the other. */
BED_GUEST(guest_remap, "mov $200, %ebp\n"
		       "1: mov %rsi, 0x14000\n"
		       "xchg %rsi, %r8\n"
		       "mov $0x40000000, %eax\n"
		       "invlpg (%rax)\n"
		       "mov $70, %ecx\n"
		       "2: call *%rax\n"
		       "add %rbx, %rdx\n"
		       "lea 3(%rdx), %rdx\n"
		       "dec %ecx\n"
		       "jne 2b\n"
		       "dec %ebp\n"
		       "jne 1b\n"
		       "hlt");
BED_GUEST(guest_add,
	  "mov $5, %edi\n 1: add $1, %rbx\n lea 1(%rbx), %rbx\n dec %edi\n jne 1b\n ret");
BED_GUEST(guest_xor,
	  "mov $5, %edi\n 1: xor $9, %rbx\n lea 7(%rbx), %rbx\n dec %edi\n jne 1b\n ret");

Test(emu_jit, code_that_is_mapped_elsewhere)
{
	struct kvm_regs r[3];
	uint64_t insns[3];

	need_translation();
	for (int i = 0; i < 3; i++) {
		emu_jit_set(i ? i == 1 ? EMU_JIT_ALL : EMU_JIT_HOT : EMU_JIT_OFF);
		BED_START(&b, guest_remap, false);
		BED_PUT(&b, 0x310000, guest_add);
		BED_PUT(&b, 0x311000, guest_xor);
		BED_REGS(&b, .rsi = 0x310000 | BED_P | BED_W, .r8 = 0x311000 | BED_P | BED_W);
		while (bed_run(&b, 100000) == VMM_EXIT_BUDGET)
			;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		r[i] = b.r;
		insns[i] = bed_total(&b.t, VPMU_EMU_INSTRUCTIONS);
		cr_assert(!memcmp(&r[0], &r[i], sizeof(r[0])), "mode %d: rdx %llx, %llx", i,
			  r[0].rdx, r[i].rdx);
		cr_assert_eq(insns[0], insns[i]);
	}
}

/* ---- what accesses have found in the TLB ---- */

/* Run @code, with RSI and R8 as page-table entries of BED_WIN, in all modes, and compare. It ends
 * in the handler of @vector, or -1. */
static void same_in_all_modes(const char *name, const uint8_t *code, const uint8_t *end, int vector)
{
	struct kvm_regs r[3];

	need_translation();
	for (int i = 0; i < 3; i++) {
		emu_jit_set(i ? i == 1 ? EMU_JIT_ALL : EMU_JIT_HOT : EMU_JIT_OFF);
		bed_start(&b, code, end, false);
		*bed_u64(&b, 0x310000) = 3;
		*bed_u64(&b, 0x311000) = 1000;
		BED_REGS(&b, .rsi = 0x310000 | BED_P | BED_W, .r8 = 0x311000 | BED_P | BED_W);
		cr_assert_eq(bed_run_to_hlt(&b), vector, "%s, mode %d", name, i);
		r[i] = b.r;
		cr_assert(!memcmp(&r[0], &r[i], sizeof(r[0])),
			  "%s, mode %d: rbx %llx, %llx; rip %llx, %llx", name, i, r[0].rbx,
			  r[i].rbx, r[0].rip, r[i].rip);
	}
}

/* A page is read and written by hot code, and then is another page: INVLPG, or MOV to CR3. */
#define REMAP(flush)                                                                               \
	"mov $20, %ebp\n"                                                                          \
	"mov $0x40000000, %edx\n"                                                                  \
	"1: mov %rsi, 0x14000\n"                                                                   \
	"xchg %rsi, %r8\n" flush "mov $200, %ecx\n"                                                \
	"2: mov (%rdx), %rax\n"                                                                    \
	"add %rax, %rbx\n"                                                                         \
	"lea 1(%rax), %rax\n"                                                                      \
	"mov %rax, (%rdx)\n"                                                                       \
	"dec %ecx\n"                                                                               \
	"jne 2b\n"                                                                                 \
	"dec %ebp\n"                                                                               \
	"jne 1b\n"                                                                                 \
	"hlt"
BED_GUEST(guest_invlpg, REMAP("invlpg (%rdx)\n"));
BED_GUEST(guest_cr3, REMAP("mov %cr3, %rax\n mov %rax, %cr3\n"));

Test(emu_jit, data_that_is_mapped_elsewhere)
{
	same_in_all_modes("invlpg", guest_invlpg, guest_invlpg_end, -1);
	same_in_all_modes("cr3", guest_cr3, guest_cr3_end, -1);
}

/* A page is written by hot code, then it is executed, and then the same code writes to it again:
 * the number that is added in it. */
BED_GUEST(guest_code_page, "mov $0x310000, %edx\n"
			   "movl $0x05c38348, 16(%rdx)\n" /* add $5, %rbx */
			   "movb $0xc3, 20(%rdx)\n"	  /* ret */
			   "mov $300, %ebp\n"
			   "1: mov $1, %ecx\n"
			   "cmp $100, %ebp\n"
			   "ja 2f\n"
			   "lea 16(%rdx), %rax\n"
			   "call *%rax\n"
			   "2: mov %bpl, 19(%rdx)\n"
			   "add $3, %r9\n"
			   "lea 2(%r9), %r9\n"
			   "dec %ecx\n"
			   "jne 2b\n"
			   "dec %ebp\n"
			   "jne 1b\n"
			   "hlt");

/* Hot code that has stored to another page stores to one that it may only read. */
BED_GUEST(guest_read_only, "and $-3, %rsi\n"
			   "mov %rsi, 0x14000\n"
			   "mov $0x40000000, %edx\n"
			   "add $0x5000, %rdi\n" /* has another entry of the TLB */
			   "3: mov $200, %ecx\n"
			   "2: mov (%rdx), %rax\n"
			   "add %rax, %rbx\n"
			   "mov %rbx, (%rdi)\n"
			   "dec %ecx\n"
			   "jne 2b\n"
			   "mov %rdx, %rdi\n"
			   "jmp 3b");

/* Accesses go byte by byte from one page to the next, which is another one in guest-physical
 * memory. */
BED_GUEST(guest_crossing, "mov %r8, 0x14000\n"
			  "mov %rsi, 0x14008\n"
			  "mov $0x40000000, %edx\n"
			  "mov 4096(%rdx), %rax\n"
			  "mov %rax, 4096(%rdx)\n"
			  "mov $9, %ebp\n"
			  "1: mov $0x40000fe0, %edx\n"
			  "mov $64, %ecx\n"
			  "2: mov (%rdx), %rax\n"
			  "lea 5(%rax,%rbx,2), %rbx\n"
			  "mov %rbx, (%rdx)\n"
			  "add %ecx, 2(%rdx)\n"
			  "add $1, %rdx\n"
			  "dec %ecx\n"
			  "jne 2b\n"
			  "dec %ebp\n"
			  "jne 1b\n"
			  "hlt");

/* The interpreter goes on between a comparison that overflows and what depends on it: at an access
 * that crosses a page. */
BED_GUEST(guest_flags, "mov $200, %ecx\n"
		       "1: mov $0x7fffffff, %eax\n"
		       "lea (%rax,%rcx), %eax\n"
		       "mov %ecx, %edx\n"
		       "cmp %edx, %eax\n"
		       "mov 4093(%rdi), %r9\n"
		       "setl %bl\n"
		       "setb %bh\n"
		       "lea (%r10,%rbx), %r10\n"
		       "cmovge %rcx, %r11\n"
		       "jl 2f\n"
		       "lea 7(%r10,%r10), %r10\n"
		       "2: dec %ecx\n"
		       "jne 1b\n"
		       "hlt");

/* The same code reads a page of the supervisor in CPL 0, and then in CPL 3. */
BED_GUEST(guest_modes, "mov %rsi, 0x14000\n"
		       "mov $0x40000000, %edx\n"
		       "call 1f\n"
		       "call 1f\n" /* its first access is in the TLB now */
		       "push $0x23\n"
		       "push $0x90000\n"
		       "push $2\n"
		       "push $0x2b\n"
		       "lea 3f(%rip), %rax\n"
		       "push %rax\n"
		       "iretq\n"
		       "3: call 1f\n"
		       "hlt\n"
		       "1: mov $200, %ecx\n"
		       "2: mov (%rdx), %rax\n"
		       "add %rax, %rbx\n"
		       "lea 1(%rax), %rax\n"
		       "dec %ecx\n"
		       "jne 2b\n"
		       "ret");

Test(emu_jit, accesses)
{
	static const struct {
		const char *name;
		const uint8_t *code, *end;
		int vector;
	} rows[] = {
		{"data that becomes code", guest_code_page, guest_code_page_end, -1},
		{"data that is read only", guest_read_only, guest_read_only_end, 14},
		{"accesses that cross a page", guest_crossing, guest_crossing_end, -1},
		{"flags for the interpreter", guest_flags, guest_flags_end, -1},
		{"data of the supervisor", guest_modes, guest_modes_end, 14},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		same_in_all_modes(rows[i].name, rows[i].code, rows[i].end, rows[i].vector);
}

/* ---- code memory ---- */

/* More code than there is room for: it is forgotten as a whole, and made again. */
Test(emu_jit, code_memory_is_full)
{
	static uint8_t code[0x60000];
	struct kvm_regs r[2];
	uint64_t insns[2];
	unsigned int n = 0;

	need_translation();
	/* 1: blocks of four additions and a jump; dec %ecx; jne 1b; hlt */
	for (unsigned int i = 0; i < 900; i++) {
		static const uint8_t block[] = {0x48, 0x01, 0xd8, 0x48, 0xff, 0xc3, 0x49,
						0x01, 0xc0, 0x4c, 0x31, 0xc2, 0xeb, 0x00};

		memcpy(code + n, block, sizeof(block));
		n += sizeof(block);
	}
	memcpy(code + n, "\xff\xc9\x0f\x85", 4);
	n += 8;
	*(int32_t *)(void *)(code + n - 4) = -(int32_t)n;
	code[n++] = 0xf4;
	for (int i = 0; i < 2; i++) {
		emu_jit_set(i ? EMU_JIT_ALL : EMU_JIT_OFF);
		bed_start(&b, code, code + n, false);
		BED_REGS(&b, .rcx = 3);
		while (bed_run(&b, 1000000) == VMM_EXIT_INTR) /* decoding takes much effort */
			;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		r[i] = b.r;
		insns[i] = bed_total(&b.t, VPMU_EMU_INSTRUCTIONS);
		if (i)
			cr_assert_gt(((struct emu_vcpu *)b.v)->jit.forgot, 0, "it was not full");
	}
	cr_assert(!memcmp(&r[0], &r[1], sizeof(r[0])));
	cr_assert_eq(insns[0], insns[1]);
}

/* Hot blocks that are translated together and have no room together: 16 blocks of 30 PUSHes of
 * memory each. */
BED_GUEST(guest_long, "mov %rsp, %rbp\n mov $300, %ecx\n"
		      "1: .rept 16\n mov %rbp, %rsp\n .rept 30\n push 8(%rdi)\n .endr\n"
		      "jmp 2f\n 2:\n .endr\n"
		      "dec %ecx\n jne 1b\n hlt");

Test(emu_jit, code_memory_is_too_small_for_a_batch)
{
	const struct emu_vcpu *v;

	need_translation();
	emu_jit_set(EMU_JIT_HOT);
	bed_start(&b, guest_long, guest_long_end, false);
	v = (const struct emu_vcpu *)b.v;
	while (bed_run(&b, 1000000) == VMM_EXIT_INTR)
		;
	cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
	cr_assert_gt(v->jit.used, JIT_PART_BYTES / 2, "%u bytes", v->jit.used);
	cr_assert_eq(v->jit.forgot, 0, "%u times", v->jit.forgot);
}

/* Every vCPU gives its part of the code memory back. */
Test(emu_jit, code_memory_comes_back)
{
	static struct prog p;

	need_translation();
	random_prog(&p, 7);
	for (unsigned int i = 0; i < 5000; i++) {
		bed_start(&b, p.code, p.code + p.n, false);
		bed_run(&b, 200);
		cr_assert(((struct emu_vcpu *)b.v)->jit.nr_parts, "vCPU %u got none", i);
	}
}

/* ---- vCPUs with the same code ---- */

static const struct emu_vcpu *emulator(const struct bed *b)
{
	return (const struct emu_vcpu *)b->v;
}

/* All begin alike. Then bed I adds I + 1 in a loop. */
BED_GUEST(guest_alike, "mov $300, %ebp\n"
		       "1: mov $20, %ecx\n"
		       "2: add %rcx, %r9\n"
		       "lea 5(%r9,%rbp), %r9\n"
		       "imul $3, %r9, %r9\n"
		       "mov %r9, (%rdi)\n"
		       "dec %ecx\n"
		       "jne 2b\n"
		       "mov $20, %ecx\n"
		       "cmp $200, %ebp\n"
		       "ja 4f\n"
		       "3: .byte 0x48, 0x81, 0xc3\n" /* add $imm, %rbx */
		       "guest_alike_imm: .long 0\n"
		       "lea 1(%rbx), %rbx\n"
		       "mov %rbx, 8(%rdi)\n"
		       "mov 8(%rdi), %r10\n"
		       "dec %ecx\n"
		       "jne 3b\n"
		       "4: dec %ebp\n"
		       "jne 1b\n"
		       "hlt");
extern const uint8_t guest_alike_imm[];

#define ALIKE 12

/* vCPUs of several VMs alternate. Those with the same code have it in the same place; each
 * computes by its own code, also after those that translated it are gone. */
Test(emu_jit, vcpus_share_equal_code)
{
	static struct bed b[2 * ALIKE];
	bool done[2 * ALIKE] = {false};
	uint64_t r9 = 0;

	need_translation();
	for (unsigned int i = 0; i < 2 * ALIKE; i++) {
		uint8_t code[512];
		size_t n = (size_t)(guest_alike_end - guest_alike);
		uint32_t imm;

		cr_assert(n < sizeof(code));
		memcpy(code, guest_alike, n);
		imm = i / 2 + 1;
		memcpy(code + (guest_alike_imm - guest_alike), &imm, sizeof(imm));
		bed_start(&b[i], code, code + n, false);
	}
	for (unsigned int left = 2 * ALIKE, turn = 0; left; turn++) {
		unsigned int i = turn % (2 * ALIKE);

		if (done[i] || bed_run(&b[i], 700) == VMM_EXIT_BUDGET)
			continue;
		cr_assert_eq(b[i].run.exit, VMM_EXIT_HLT);
		cr_assert_eq(b[i].r.rbx, 200 * 20 * (i / 2 + 2), "vCPU %u: rbx %llu", i,
			     b[i].r.rbx);
		cr_assert(!r9 || b[i].r.r9 == r9, "vCPU %u: r9 %llx, not %lx", i, b[i].r.r9, r9);
		r9 = b[i].r.r9;
		done[i] = true;
		left--;
		cr_assert(emulator(&b[i])->jit.nr_parts);
		cr_assert_eq(emulator(&b[i])->jit.parts[0], emulator(&b[1])->jit.parts[0],
			     "vCPU %u begins in another part", i);
		if (i & 1)
			cr_assert(!memcmp(emulator(&b[i])->jit.parts,
					  emulator(&b[i - 1])->jit.parts,
					  sizeof(emulator(&b[i])->jit.parts)),
				  "vCPUs %u and %u have equal code", i - 1, i);
		if (i > 2)
			cr_assert_neq(emulator(&b[i])->jit.parts[emulator(&b[i])->jit.nr_parts - 1],
				      emulator(&b[i % 2])
					      ->jit.parts[emulator(&b[i % 2])->jit.nr_parts - 1],
				      "vCPU %u executes the code of another one", i);
	}
	/* The first ones have written the code. Without them it is still there. */
	for (unsigned int i = 0; i < 2 * ALIKE; i++) {
		if (i + 1 < 2 * ALIKE) {
			struct bed *last = &b[2 * ALIKE - 1];

			bed_stop(&b[i]);
			last->r.rip = BED_CODE;
			last->r.rbx = last->r.r9 = 0;
			o->set_regs(last->v, &last->r);
			while (bed_run(last, 5000) == VMM_EXIT_BUDGET)
				;
			cr_assert_eq(last->run.exit, VMM_EXIT_HLT);
			cr_assert_eq(last->r.rbx, 200 * 20 * (ALIKE + 1));
			cr_assert_eq(last->r.r9, r9);
		} else {
			bed_stop(&b[i]);
		}
	}
}

/* Threads translate the same programs at the same time, and end, and their code memory is used
 * again. */
#define SHARE_PROGS   60
#define SHARE_THREADS 4

static struct outcome {
	unsigned int n;
	struct stop last;
} expected[SHARE_PROGS];

static void *translate_all(void *arg)
{
	struct stop *out = malloc(STOPS_MAX * sizeof(*out));
	struct prog *p = malloc(sizeof(*p));
	uintptr_t bad = 0;

	for (unsigned int round = 0; round < 3; round++)
		for (unsigned int i = 0; out && p && i < SHARE_PROGS; i++) {
			const struct outcome *e = &expected[i];
			unsigned int n;

			random_prog(p, i + 1);
			n = run_prog(p, i + 1, out);
			bad += n != e->n || memcmp(&out[n - 1].r, &e->last.r, sizeof(e->last.r)) ||
			       out[n - 1].memory != e->last.memory ||
			       memcmp(&out[n - 1].t, &e->last.t, sizeof(e->last.t));
		}
	bad += !out || !p;
	free(out);
	free(p);
	return (void *)bad;
}

Test(emu_jit, threads_share_equal_code)
{
	struct stop *out = malloc(STOPS_MAX * sizeof(*out));
	pthread_t t[SHARE_THREADS];
	static struct prog p;
	void *bad;

	need_translation();
	cr_assert(out);
	emu_jit_set(EMU_JIT_OFF);
	for (unsigned int i = 0; i < SHARE_PROGS; i++) {
		random_prog(&p, i + 1);
		expected[i].n = run_prog(&p, i + 1, out);
		expected[i].last = out[expected[i].n - 1];
	}
	free(out);
	emu_jit_set(EMU_JIT_ALL);
	for (unsigned int i = 0; i < SHARE_THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, translate_all, NULL), 0);
	for (unsigned int i = 0; i < SHARE_THREADS; i++) {
		cr_assert_eq(pthread_join(t[i], &bad), 0);
		cr_assert_eq((uintptr_t)bad, 0, "thread %u: %lu programs", i, (uintptr_t)bad);
	}
}
