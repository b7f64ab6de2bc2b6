// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hardware breakpoints of the emulator: the manuals on DR0 to DR7, #DB and RF, and
 * random programs with instruction breakpoints, compared with the same programs run one
 * instruction at a time. Which accesses meet a breakpoint is compared with the CPU by
 * tests/emu/watch_test.c.
 */
#include "emu_prog.h"
#include "vmm/emu/debug.h"

TestSuite(emu_breakpoint, .fini = bed_end);

#define TF   0x100ULL
#define IF   0x200ULL
#define RF   0x10000ULL
#define STUB 0x3800ULL /* HLT; IRETQ */
#define DR6  0xffff0ff0ULL
#define DR7  0x400ULL

enum { X = 0, W = 1, IO = 2, RW = 3 };
enum { LEN1 = 0, LEN2 = 1, LEN8 = 2, LEN4 = 3 };

static struct emu_vcpu *cpu(const struct bed *b)
{
	return (struct emu_vcpu *)b->v;
}

static uint64_t field(unsigned int n, unsigned int type, unsigned int len)
{
	return 1ULL << 2 * n | (uint64_t)(type | len << 2) << (16 + 4 * n);
}

static void set(struct bed *b, unsigned int n, uint64_t at, unsigned int type, unsigned int len)
{
	cpu(b)->dr[n] = at;
	cpu(b)->dr[7] |= field(n, type, len);
	emu_debug_update(cpu(b));
}

/* Run to the #DB, which has a HLT as its handler, and return B0 to B3, BD and BS; DR6 is cleared.
 */
static uint64_t next_db(struct bed *b, uint64_t rip)
{
	uint64_t hits;
	int vec = bed_run_to_hlt(b);

	cr_assert_eq(vec, 1, "vector %d at 0x%llx", vec, b->r.rip);
	cr_assert_eq(bed_stack(b, 0), rip, "#DB at 0x%lx, not 0x%lx", bed_stack(b, 0), rip);
	hits = cpu(b)->dr[6] & ~DR6;
	cpu(b)->dr[6] = DR6;
	return hits;
}

/* Go back to where the #DB came from, as IRETQ would; @rf: with RF. */
static void resume(struct bed *b, bool rf)
{
	struct kvm_regs r = b->r;

	r.rip = bed_stack(b, 0);
	r.rflags = bed_stack(b, 2) | (rf ? RF : 0);
	r.rsp = bed_stack(b, 3);
	if (bed_stack(b, 1) & 3)
		bed_set_mode(b, b->v, true);
	cr_assert_eq(o->set_regs(b->v, &r), 0);
}

/* ---- the registers ---- */

BED_GUEST(g_dr7, "mov %rax,%dr7\n mov %dr7,%rbx\n hlt");
BED_GUEST(g_dr6, "mov %rax,%dr6\n mov %dr6,%rbx\n hlt");
BED_GUEST(g_dr4, "mov %rax,%db4\n hlt");
BED_GUEST(g_dr5, "mov %db5,%rbx\n hlt");
BED_GUEST(g_dr0, "mov %rax,%dr0\n mov %dr0,%rbx\n hlt");

Test(emu_breakpoint, registers)
{
	/* every field that is not reserved */
	cr_assert_eq(BED_VECTOR(&b, g_dr7, false, .rax = 0xffff03ff), -1);
	cr_assert_eq(b.r.rbx, 0xffff07ff);
	cr_assert_eq(BED_RERUN(&b, g_dr7, false), -1);
	cr_assert_eq(b.r.rbx, 0x400);
	cr_assert_eq(BED_RERUN(&b, g_dr7, false, .rax = 1ULL << 32), 13);
	cr_assert_eq(BED_RERUN(&b, g_dr6, false), -1);
	cr_assert_eq(b.r.rbx, DR6);
	cr_assert_eq(BED_RERUN(&b, g_dr6, false, .rax = 1ULL << 63), 13);
	/* all 64 bits, also of no canonical address */
	cr_assert_eq(BED_RERUN(&b, g_dr0, false, .rax = 0x8123456789abcdef), -1);
	cr_assert_eq(b.r.rbx, 0x8123456789abcdef);
	/* DR4 and DR5 are DR6 and DR7, but not with CR4.DE. */
	cr_assert_eq(BED_RERUN(&b, g_dr4, false, .rax = 0xf), -1);
	cr_assert_eq(cpu(&b)->dr[6], DR6 | 0xf);
	for (int read = 0; read < 2; read++) {
		bed_load(&b, read ? g_dr5 : g_dr4, read ? g_dr5_end : g_dr4_end, false);
		BED_SREGS(&b, s.cr4 |= 8);
		cr_assert_eq(bed_run_to_hlt(&b), 6);
	}
	cr_assert_eq(BED_RERUN(&b, g_dr7, true), 13, "CPL 3");
}

/* DR7.GD: any access is a fault with BD, which pushes RF and clears GD. */
Test(emu_breakpoint, general_detect)
{
	BED_START(&b, g_dr0, false);
	cpu(&b)->dr[7] |= EMU_DR7_GD;
	cr_assert_eq(next_db(&b, BED_CODE), EMU_DR6_BD);
	cr_assert_eq(bed_stack(&b, 2), 2 | RF);
	cr_assert_eq(cpu(&b)->dr[7], DR7);
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 1, "only the handler's HLT");
	resume(&b, false);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	BED_START(&b, g_dr0, true); /* #GP comes first */
	cpu(&b)->dr[7] |= EMU_DR7_GD;
	cr_assert_eq(bed_run_to_hlt(&b), 13);
	cr_assert(cpu(&b)->dr[7] & EMU_DR7_GD);
}

/* ---- instructions ---- */

BED_GUEST(g_loop, "mov $5,%ecx\n 1: nop\n inc %rax\n dec %ecx\n jnz 1b\n hlt");

/* A fault before the instruction, in each turn; RF passes it; counts are those of the program. */
Test(emu_breakpoint, instruction)
{
	for (int user = 0; user < 2; user++) {
		BED_START(&b, g_loop, user);
		set(&b, 2, BED_CODE + 6, X, LEN1); /* INC */
		for (uint64_t i = 0; i < 5; i++) {
			cr_assert_eq(next_db(&b, BED_CODE + 6), 1 << 2);
			cr_assert_eq(bed_stack(&b, 2) & RF, 0);
			cr_assert_eq(b.r.rax, i);
			cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 2 + 4 * i + 1 + i);
			resume(&b, true);
		}
		cr_assert_eq(bed_run_to_hlt(&b), user ? 13 : -1);
		cr_assert_eq(b.r.rax, 5);
	}
}

/* Not at any other byte of it; and without RF again and again. */
Test(emu_breakpoint, instruction_is_its_first_byte)
{
	BED_START(&b, g_loop, false);
	for (unsigned int n = 0; n < 2; n++)
		set(&b, n, BED_CODE + 7 + n, X, LEN1);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	bed_load(&b, g_loop, g_loop_end, false);
	set(&b, 3, BED_CODE, X, LEN1);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(next_db(&b, BED_CODE), 1 << 3);
		resume(&b, false);
	}
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS) - 22, 3, "the handler's");
}

BED_GUEST(g_far, "mov $200,%ecx\n 1: call *%rbx\n dec %ecx\n jnz 1b\n hlt");
BED_GUEST(g_leaf, "nop\n inc %rax\n ret");

/* Hot code with links and translation that lead into another page with a breakpoint: it is noticed
 * each time, also when it comes later, and not any more when it is gone. */
Test(emu_breakpoint, page_that_hot_code_enters)
{
	const uint64_t leaf = BED_CODE + 0x5ff0;

	BED_START(&b, g_far, false);
	memcpy(b.ram + leaf, g_leaf, 5);
	for (int round = 0; round < 3; round++) {
		bed_load(&b, g_far, g_far_end, false);
		BED_REGS(&b, .rbx = leaf);
		cpu(&b)->dr[7] = DR7;
		emu_debug_update(cpu(&b));
		cr_assert_eq(bed_run(&b, 1 + 6 * 60), VMM_EXIT_BUDGET);
		set(&b, 0, leaf + 1, X, LEN1);
		for (uint64_t i = 60; i < 100; i++) {
			cr_assert_eq(next_db(&b, leaf + 1), 1);
			cr_assert_eq(b.r.rax, i);
			cr_assert_eq(b.r.rcx, 200 - i);
			resume(&b, true);
		}
		cpu(&b)->dr[7] = DR7;
		emu_debug_update(cpu(&b));
		cr_assert_eq(bed_run_to_hlt(&b), -1);
		cr_assert_eq(b.r.rax, 200);
	}
}

#define UD_IRETQ (PROG_KERNEL + 0x108) /* of a fault, so it loads RF */

/* The breakpoints that instruction @at meets. */
static unsigned int met(size_t at, const uint64_t where[4], unsigned int enabled)
{
	unsigned int bits = 0;

	if (at && steps[at - 1].rip == UD_IRETQ)
		return 0;
	for (unsigned int i = 0; i < 4; i++)
		if ((enabled >> i & 1) && where[i] == steps[at].rip)
			bits |= 1u << i;
	return bits;
}

/* Programs with random instruction breakpoints stop as in stepping, with the same counts; in
 * slices, with an alarm, and while they are stepped. */
static uint64_t check_program(uint64_t seed)
{
	size_t n = prog_trace(seed), at = 0;
	unsigned int enabled = 15u & ~(1u << seed % 8);
	uint64_t rng = seed * 77, hits = 0, where[4];
	bool passed = false;
	struct bed b;

	prog_start(&b, seed);
	bed_gate(&b, 1, STUB, 1, 0xe); /* on its own stack */
	memcpy(b.ram + STUB, "\xf4\x48\xcf", 3);
	for (unsigned int i = 0; i < 4; i++) {
		where[i] = steps[random_split(&rng) % n].rip;
		if (enabled >> i & 1)
			set(&b, i, where[i], X, LEN1);
	}
	for (;;) {
		size_t want = at + passed;
		unsigned int bits = 0;
		enum vmm_exit x;
		uint64_t ran;

		while (want < n && !(bits = met(want, where, enabled)))
			want++;
		x = bed_run(&b, random_split(&rng) % 2 ? 1000000 : 1 + random_split(&rng) % 30);
		ran = b.run.retired;
		if (x == VMM_EXIT_HLT && b.r.rip == STUB + 1) {
			cr_assert(bits, "seed %lu: #DB at 0x%lx", seed, bed_stack(&b, 0));
			at += ran - 1;
			cr_assert_eq(at, want, "seed %lu: #DB at %zu, not %zu", seed, at, want);
			cr_assert_eq(bed_stack(&b, 0), steps[at].rip);
			cr_assert_eq(cpu(&b)->dr[6], DR6 | bits);
			cpu(&b)->dr[6] = DR6;
			*bed_u64(&b, b.r.rsp + 16) |= RF;
			hits++;
			o->set_regs(b.v, &b.r); /* HLT is over */
			b.run.budget = 1;
			cr_assert_eq(o->run(b.v, &b.run), 0); /* IRETQ */
			cr_assert_eq(b.run.retired, 1);
			passed = true;
			continue;
		}
		if (ran)
			passed = false;
		at += ran;
		cr_assert(at <= want || x == VMM_EXIT_HLT, "seed %lu: passed %zu", seed, want);
		if (x == VMM_EXIT_HLT)
			break;
		if (x != VMM_EXIT_BUDGET)
			prog_answer(&b);
	}
	cr_assert_eq(at, n);
	for (unsigned int e = 0; e < VPMU_EMU_EVENTS; e++)
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][e], steps[n].ev[VPMU_EMU_USR][e],
			     "seed %lu, event %u: %lu, not %lu", seed, e, b.t.ev[VPMU_EMU_USR][e],
			     steps[n].ev[VPMU_EMU_USR][e]);
	/* The handler's are HLT and IRETQ. */
	cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_INSTRUCTIONS],
		     steps[n].ev[VPMU_EMU_OS][VPMU_EMU_INSTRUCTIONS] + 2 * hits);
	bed_stop(&b);
	return hits;
}

Test(emu_breakpoint, programs)
{
	uint64_t hits = 0;

	for (uint64_t seed = 1; seed <= 300; seed++)
		hits += check_program(seed);
	cr_assert_gt(hits, 3000, "only %lu", hits);
}

BED_GUEST(g_iret, "iretq");

/* The breakpoint comes before the fault of the fetch, and behind interrupts. */
Test(emu_breakpoint, order)
{
	uint64_t frame[5] = {BED_WIN, BED_CS0, 2 | IF, BED_STACK, BED_SS0};

	for (int kind = 0; kind < 3; kind++) {
		BED_START(&b, g_iret, false);
		frame[2] = 2 | IF | (kind == 2 ? RF : 0);
		memcpy(b.ram + BED_STACK - 0x100, frame, sizeof(frame));
		BED_REGS(&b, .rsp = BED_STACK - 0x100);
		set(&b, 0, BED_WIN, X, LEN1);
		if (kind == 1)
			o->interrupt(b.v, 0x40);
		cr_assert_eq(bed_run_to_hlt(&b), kind == 0 ? 1 : kind == 1 ? 0x40 : 14);
		cr_assert_eq(cpu(&b)->dr[6], kind ? DR6 : DR6 | 1);
		cr_assert_eq(bed_stack(&b, kind == 2), BED_WIN);
	}
}

/* RF that IRETQ loads: run() can stop there, an event pushes it, and the next instruction ends it.
 */
Test(emu_breakpoint, iretq_loads_rf)
{
	uint64_t frame[5] = {BED_DATA, BED_CS0, 2 | IF | RF, BED_STACK, BED_SS0};

	BED_START(&b, g_iret, false);
	memset(b.ram + BED_DATA, 0x90, 16);
	memcpy(b.ram + BED_STACK - 0x100, frame, sizeof(frame));
	BED_REGS(&b, .rsp = BED_STACK - 0x100);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	cr_assert_eq(b.r.rflags, 2 | IF | RF);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	cr_assert_eq(b.r.rflags, 2 | IF);
	bed_load(&b, g_iret, g_iret_end, false);
	BED_REGS(&b, .rsp = BED_STACK - 0x100);
	cr_assert_eq(bed_run(&b, 3), VMM_EXIT_BUDGET); /* in one slice */
	cr_assert_eq(b.r.rflags, 2 | IF);
	bed_load(&b, g_iret, g_iret_end, false);
	BED_REGS(&b, .rsp = BED_STACK - 0x100);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	o->nmi(b.v);
	cr_assert_eq(bed_run_to_hlt(&b), 2);
	cr_assert_eq(bed_stack(&b, 2), 2 | IF | RF);
}

/* ---- data ---- */

BED_GUEST(g_data, "mov (%rdi),%eax\n mov %eax,(%rdi)\n addl $1,(%rdi)\n nop\n hlt");

/* Every type, length and place around an access of four bytes. */
Test(emu_breakpoint, data)
{
	static const unsigned int bytes[] = {[LEN1] = 1, [LEN2] = 2, [LEN4] = 4, [LEN8] = 8};

	for (unsigned int type = W; type <= RW; type += 2)
		for (unsigned int len = 0; len < 4; len++)
			for (int off = -16; off < 16; off++) {
				uint64_t at = BED_DATA + 0xff0 + (uint64_t)off, base;
				bool hit;

				BED_START(&b, g_data, off & 1);
				BED_REGS(&b, .rdi = BED_DATA + 0xff2);
				set(&b, 1, at, type, len);
				base = at & -(uint64_t)bytes[len];
				hit = base < BED_DATA + 0xff6 &&
				      base + bytes[len] > BED_DATA + 0xff2;
				if (hit) {
					for (unsigned int i = type == W; i < 3; i++) {
						cr_assert_eq(next_db(&b, BED_CODE + 2 + i * 2 +
										 (i == 2)),
							     2);
						cr_assert_eq(bed_stack(&b, 2) & RF, 0);
						resume(&b, false);
					}
				}
				cr_assert_eq(bed_run_to_hlt(&b), off & 1 ? 13 : -1);
				cr_assert_eq(b.t.ev[off & 1][VPMU_EMU_STORES], 2);
				cr_assert_eq(b.t.ev[off & 1][VPMU_EMU_LOADS], 2);
				cr_assert_eq(cpu(&b)->dr[6], DR6);
			}
}

BED_GUEST(g_hot, "mov $3000,%ecx\n 1: mov %rcx,(%rdi)\n add (%rsi),%rax\n dec %ecx\n jnz 1b\n hlt");

/* A page that hot code has in the TLB, and translated accesses know: it is noticed at once. Another
 * vCPU of the VM has breakpoints of its own. */
Test(emu_breakpoint, page_that_hot_code_accesses)
{
	struct vmm_engine_vcpu *other;

	BED_START(&b, g_hot, false);
	cr_assert_eq(o->vcpu_create(b.vm, 1, &other), 0);
	BED_REGS(&b, .rsi = BED_DATA + 0x100);
	((struct emu_vcpu *)other)->dr[0] = BED_DATA;
	((struct emu_vcpu *)other)->dr[7] |= field(0, RW, LEN8);
	emu_debug_update((struct emu_vcpu *)other);
	cr_assert_eq(bed_run(&b, 1 + 4 * 2000), VMM_EXIT_BUDGET);
	set(&b, 0, BED_DATA + 0x100, W, LEN8); /* the same page, but only loads */
	cr_assert_eq(bed_run(&b, 4 * 500), VMM_EXIT_BUDGET);
	set(&b, 1, BED_DATA, W, LEN8);
	for (uint64_t i = 500; i; i--) {
		cr_assert_eq(next_db(&b, BED_CODE + 8), 2);
		cr_assert_eq(b.r.rcx, i);
		cr_assert_eq(*bed_u64(&b, BED_DATA), i, "the store is done");
		resume(&b, false);
	}
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	o->vcpu_destroy(other);
}

BED_GUEST(g_stos, "rep stosb\n hlt");
BED_GUEST(g_push, "pushq (%rdi)\n nop\n hlt");

/* Between the iterations of a repeated string instruction RIP is its own, and on Intel's CPUs RF is
 * 1. */
static void watch_string(bool intel)
{
	BED_START(&b, g_stos, true);
	bed_intel(&b, intel);
	BED_REGS(&b, .rcx = 300);
	set(&b, 0, BED_DATA + 100, W, LEN2);
	set(&b, 3, BED_DATA + 299, RW, LEN1);
	for (uint64_t i = 0; i < 2; i++) {
		cr_assert_eq(next_db(&b, BED_CODE), 1);
		cr_assert_eq(b.r.rcx, 199 - i);
		cr_assert_eq(bed_stack(&b, 2), 2 | (intel ? RF : 0));
		cr_assert_eq(b.t.ev[1][VPMU_EMU_INSTRUCTIONS], 0);
		resume(&b, false);
	}
	cr_assert_eq(next_db(&b, BED_CODE + 2), 8);
	cr_assert_eq(bed_stack(&b, 2), 2);
	cr_assert_eq(b.t.ev[1][VPMU_EMU_INSTRUCTIONS], 1);
	cr_assert_eq(b.t.ev[1][VPMU_EMU_STORES], 1);
}

Test(emu_breakpoint, string)
{
	watch_string(false);
	watch_string(true);
}

/* An instruction that faults behind an access meets nothing; when it is done, it does. What an
 * event's delivery stores meets nothing either. */
Test(emu_breakpoint, faults_and_deliveries)
{
	BED_START(&b, g_push, false);
	BED_REGS(&b, .rsp = BED_WIN + 8);
	bed_gate(&b, 14, BED_HANDLERS + 14, 1, 0xe);
	set(&b, 0, BED_DATA, RW, LEN8);
	set(&b, 1, BED_IST1 - 16, RW, LEN8);
	set(&b, 2, BED_IDT + 14 * 16, RW, LEN8);
	cr_assert_eq(bed_run_to_hlt(&b), 14);
	cr_assert_eq(cpu(&b)->dr[6], DR6);
	BED_REGS(&b, .rip = BED_CODE, .rflags = 2, .rsp = BED_STACK);
	cr_assert_eq(next_db(&b, BED_CODE + 2), 1);
}

/* One #DB for a single step and the breakpoints of the same instruction. */
Test(emu_breakpoint, with_single_step)
{
	BED_START(&b, g_push, false);
	BED_REGS(&b, .rflags = 2 | TF);
	set(&b, 0, BED_DATA + 4, RW, LEN4);
	set(&b, 2, BED_STACK - 8, W, LEN1);
	set(&b, 3, BED_CODE + 2, X, LEN1);
	cr_assert_eq(next_db(&b, BED_CODE + 2), EMU_DR6_BS | 5);
	resume(&b, false);
	cr_assert_eq(next_db(&b, BED_CODE + 2), 8, "then that of the next instruction");
	resume(&b, true);
	cr_assert_eq(next_db(&b, BED_CODE + 3), EMU_DR6_BS);
}

/* Save the vCPU; lose the exit that waits and the shadow; and restore it. */
static void reload(void)
{
	struct kvm_sregs s = bed_sregs(&b);
	uint8_t state[2048];
	size_t n = sizeof(state);

	cr_assert_eq(o->get_state(b.v, state, &n), 0);
	o->set_sregs(b.v, &s);
	o->set_regs(b.v, &b.r);
	cr_assert_eq(o->set_state(b.v, state, n), 0);
}

/* ---- shadows ---- */

BED_GUEST(g_ss, "mov %eax,%ss\n nop\n nop\n hlt");
BED_GUEST(g_ss_mem, "mov (%rdi),%ss\n nop\n nop\n hlt");
BED_GUEST(g_ss_int, "mov (%rdi),%ss\n int $0x80\n hlt");
BED_GUEST(g_sti, "sti\n nop\n nop\n hlt");

/* Behind MOV SS no instruction breakpoint is reported, and a data breakpoint of its own comes one
 * instruction later, also in the handler of a software interrupt. STI holds nothing off. */
Test(emu_breakpoint, shadows)
{
	for (int saved = 0; saved < 2; saved++) {
		BED_START(&b, g_ss, false);
		BED_REGS(&b, .rax = BED_SS0);
		set(&b, 0, BED_CODE + 2, X, LEN1);
		set(&b, 1, BED_CODE + 3, X, LEN1);
		cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
		if (saved)
			reload();
		cr_assert_eq(next_db(&b, BED_CODE + 3), 2);
		BED_START(&b, g_ss_mem, false);
		*bed_u64(&b, BED_DATA) = BED_SS0;
		set(&b, 2, BED_DATA, RW, LEN1);
		cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
		cr_assert_eq(b.r.rip, BED_CODE + 2);
		if (saved)
			reload();
		cr_assert_eq(next_db(&b, BED_CODE + 3), 4);
	}
	BED_START(&b, g_ss_int, false);
	*bed_u64(&b, BED_DATA) = BED_SS0;
	set(&b, 2, BED_DATA, RW, LEN1);
	cr_assert_eq(next_db(&b, BED_HANDLERS + 0x80), 4);
	BED_START(&b, g_sti, false);
	set(&b, 0, BED_CODE + 1, X, LEN1);
	cr_assert_eq(next_db(&b, BED_CODE + 1), 1);
}

/* ---- ports ---- */

BED_GUEST(g_port, "outb %al,$0x20\n inw $0x22,%ax\n nop\n hlt");

/* With CR4.DE, behind IN or OUT that the caller has answered; also in another VM's vCPU. */
Test(emu_breakpoint, ports)
{
	for (int de = 0; de < 2; de++)
		for (int saved = 0; saved < 2; saved++) {
			BED_START(&b, g_port, false);
			BED_SREGS(&b, s.cr4 |= de ? 8 : 0);
			set(&b, 0, 0x23, IO, LEN1);
			cr_assert_eq(bed_run(&b, 100), VMM_EXIT_IO);
			cr_assert_eq(bed_run(&b, 100), VMM_EXIT_IO);
			cr_assert_eq(cpu(&b)->dr[6], DR6);
			if (saved)
				reload();
			b.run.u.io.data = 0x1234;
			if (de) {
				cr_assert_eq(next_db(&b, BED_CODE + 5), 1);
				cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 3);
				resume(&b, false);
			}
			cr_assert_eq(bed_run_to_hlt(&b), -1);
			cr_assert_eq(b.r.rax, 0x1234);
		}
}

/* ---- limits ---- */

/* A handler with a breakpoint at its own first instruction never gets anywhere: run() does, and the
 * vCPU is charged. */
Test(emu_breakpoint, handler_that_traps)
{
	BED_START(&b, g_loop, false);
	bed_gate(&b, 1, BED_HANDLERS + 1, 1, 0xe);
	set(&b, 0, BED_HANDLERS + 1, X, LEN1);
	set(&b, 1, BED_CODE, X, LEN1);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_INTR);
	cr_assert_eq(b.run.retired, 0);
	cr_assert_gt(b.run.effort, 1000 * EMU_EFFORT_EVENT / 2);
}
