// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The emulator executes: exact budgets, exact counts, string instructions that fault,
 * self-modifying code, kicks, the closed list, and whatever bytes a hostile guest has.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/unit/emu_bed.h"
#include "vmm/emu/emu.h"
#include "tests/random.h"

TestSuite(emu_exec, .fini = bed_end);

/* ---- budgets ---- */

/* A little of everything: calls, memory, strings, division, flags consumed late, a sys op. */
BED_GUEST(guest_mix, "mov $9, %edi\n"
		     "call 10f\n"
		     "mov %eax, 0x300000\n"
		     "mov $0x300100, %edi\n"
		     "mov $7, %ecx\n"
		     "mov $0x5a, %eax\n"
		     "rep stosb\n"
		     "mov $0x300100, %esi\n"
		     "mov $3, %ecx\n"
		     "rep movsw\n"
		     "xor %ecx, %ecx\n"
		     "rep movsq\n"
		     "mov $20, %ebx\n"
		     "1: mov %ebx, %eax\n"
		     "cltd\n"
		     "mov $3, %esi\n"
		     "idiv %esi\n"
		     "add %rdx, 0x300040\n"
		     "bt $0, %ebx\n"
		     "adc $5, %r8\n"
		     "cmp $10, %ebx\n"
		     "setl %r9b\n"
		     "cmovg %rbx, %r10\n"
		     "incq 0x300048\n"
		     "pushf\n"
		     "pop %r11\n"
		     "add %r11, %r12\n"
		     "rdtsc\n"
		     "shl $3, %r13\n"
		     "xor %rbx, %r13\n"
		     "dec %ebx\n"
		     "jne 1b\n"
		     "lock xaddl %eax, 0x300050\n"
		     "syscall\n"
		     "10: push %rbx\n"
		     "cmp $1, %edi\n"
		     "jbe 11f\n"
		     "mov %edi, %ebx\n"
		     "lea -1(%rdi), %edi\n"
		     "call 10b\n"
		     "lea -2(%rbx), %edi\n"
		     "mov %eax, %ebx\n"
		     "call 10b\n"
		     "add %ebx, %eax\n"
		     "pop %rbx\n"
		     "ret\n"
		     "11: mov %edi, %eax\n"
		     "pop %rbx\n"
		     "ret\n");

struct end_state {
	struct kvm_regs r;
	struct vpmu_emu_tally t;
	uint8_t data[4096];
	uint64_t retired;
};

/* Run guest_mix to the end, in slices: @first instructions, then @slice at a time. */
static void run_mix(struct end_state *s, uint64_t first, uint64_t slice)
{
	struct bed b;
	uint64_t budget = first;

	BED_START(&b, guest_mix, true);
	s->retired = 0;
	for (;;) {
		/* LSTAR is 0: SYSCALL ends the program at address 0, in CPL0, at a HLT. */
		b.ram[0] = 0xf4;
		enum vmm_exit x = bed_run(&b, budget);

		s->retired += b.run.retired;
		cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), s->retired);
		if (x == VMM_EXIT_HLT)
			break;
		cr_assert_eq(x, VMM_EXIT_BUDGET);
		cr_assert_eq(b.run.retired, budget);
		budget = slice;
	}
	s->r = b.r;
	s->t = b.t;
	memcpy(s->data, b.ram + BED_DATA, sizeof(s->data));
	bed_stop(&b);
}

Test(emu_exec, any_stop_gives_the_same_end)
{
	static struct end_state whole, part;

	run_mix(&whole, 0, 0);
	cr_assert_gt(whole.retired, 500);
	cr_assert_eq(*(uint32_t *)whole.data, 34); /* fib(9) */
	for (uint64_t first = 1; first <= whole.retired; first++) {
		run_mix(&part, first, 0);
		cr_assert_eq(memcmp(&part, &whole, sizeof(whole)), 0, "stopped after %lu", first);
	}
	for (uint64_t slice = 1; slice <= 100; slice++) {
		run_mix(&part, slice, slice);
		cr_assert_eq(memcmp(&part, &whole, sizeof(whole)), 0, "slices of %lu", slice);
	}
}

/* ---- counts ---- */

BED_GUEST(guest_count, "push %rax\n"	     /* store */
		       "pop %rax\n"	     /* load */
		       "add %eax, (%rdi)\n"  /* load store */
		       "cmp %eax, (%rdi)\n"  /* load */
		       "mov %eax, (%rdi)\n"  /* store */
		       "mov (%rdi), %eax\n"  /* load */
		       "lea (%rdi), %rsi\n"  /* none */
		       "nopl (%rdi)\n"	     /* none */
		       "prefetcht0 (%rdi)\n" /* none */
		       "call 1f\n"	     /* store, branch taken */
		       "1: pop %rax\n"	     /* load */
		       "movsb\n"	     /* load store */
		       "mov $3, %ecx\n"
		       "rep stosb\n"	     /* store: once */
		       "rep stosb\n"	     /* RCX is 0: no access */
		       "rep movsb\n"	     /* nor here */
		       "btsl $3, (%rdi)\n"   /* load store */
		       "btl $3, (%rdi)\n"    /* load */
		       "xchg %eax, (%rdi)\n" /* load store */
		       "jmp 2f\n"	     /* branch taken */
		       "2: test %ecx, %ecx\n"
		       "jne 3f\n"	   /* branch */
		       "3: jrcxz 4f\n"	   /* branch taken */
		       "4: pushq (%rdi)\n" /* load store */
		       "popq (%rdi)\n"	   /* load store */
		       "push %rbp\n"	   /* store */
		       "mov %rsp, %rbp\n"
		       "leave\n" /* load */
		       "ud2\n");

Test(emu_exec, events_of_known_code)
{
	const uint64_t *ev = b.t.ev[VPMU_EMU_USR];

	cr_assert_eq(BED_VECTOR(&b, guest_count, true), 6); /* #UD: not retired */
	cr_assert_eq(ev[VPMU_EMU_INSTRUCTIONS], 28);
	cr_assert_eq(ev[VPMU_EMU_LOADS], 12, "%lu", ev[VPMU_EMU_LOADS]);
	cr_assert_eq(ev[VPMU_EMU_STORES], 11, "%lu", ev[VPMU_EMU_STORES]);
	cr_assert_eq(ev[VPMU_EMU_BRANCHES], 4);
	cr_assert_eq(ev[VPMU_EMU_BRANCHES_TAKEN], 3);
	cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_INSTRUCTIONS], 1); /* the HLT */
	cr_assert_eq(ev[VPMU_EMU_CYCLES], ev[VPMU_EMU_REF_CYCLES]);
}

BED_GUEST(guest_fault_mid, "add $1, %eax\n"
			   "add $1, %eax\n"
			   "mov (%rsi), %ebx\n" /* faults */
			   "add $1, %eax\n"
			   "cmp $5, %eax\n"
			   "jne 1f\n"
			   "1: hlt\n");

Test(emu_exec, a_fault_mid_block_counts_what_retired)
{
	cr_assert_eq(BED_VECTOR(&b, guest_fault_mid, true, .rsi = BED_WIN), 14);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 2);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_LOADS], 0);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_BRANCHES], 0);
	cr_assert_eq(b.r.rax, 2);
	cr_assert_eq(bed_stack(&b, 1), BED_CODE + 6);
}

/* ---- strings ---- */

BED_GUEST(guest_rep, "rep movsb\nhlt\n");

Test(emu_exec, rep_faults_half_way_and_goes_on)
{
	BED_START(&b, guest_rep, true);
	*bed_u64(&b, BED_PT) = BED_DATA | 7; /* one page, then nothing */
	for (int i = 0; i < 4096; i++)
		b.ram[BED_DATA + 0x10000 + i] = (uint8_t)(i * 7);
	BED_REGS(&b, .rsi = BED_DATA + 0x10000, .rdi = BED_WIN + 4000, .rcx = 200);
	BED_FAULTS(&b, 14, 6, BED_CODE); /* user write, not present */
	cr_assert_eq(b.r.rcx, 104);
	cr_assert_eq(b.r.rsi, BED_DATA + 0x10000 + 96);
	cr_assert_eq(b.r.rdi, BED_WIN + 4096);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 0);
	cr_assert_eq(memcmp(b.ram + BED_DATA + 4000, b.ram + BED_DATA + 0x10000, 96), 0);

	/* The page appears; the instruction is started over. */
	*bed_u64(&b, BED_PT + 8) = (BED_DATA + 0x2000) | 7;
	bed_set_mode(&b, b.v, true);
	BED_REGS(&b, .rip = BED_CODE);
	cr_assert_eq(bed_run_to_hlt(&b), 13); /* HLT in CPL3 */
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 1);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_STORES], 1);
	cr_assert_eq(b.r.rcx, 0);
	cr_assert_eq(memcmp(b.ram + BED_DATA + 0x2000, b.ram + BED_DATA + 0x10000 + 96, 104), 0);
}

Test(emu_exec, overlapping_and_backward_moves)
{
	/* d = s + 1: a pattern spreads. */
	BED_START(&b, guest_rep, true);
	memset(b.ram + BED_DATA, 0, 64);
	b.ram[BED_DATA] = 0xab;
	BED_REGS(&b, .rsi = BED_DATA, .rdi = BED_DATA + 1, .rcx = 40);
	bed_run_to_hlt(&b);
	for (int i = 0; i <= 40; i++)
		cr_assert_eq(b.ram[BED_DATA + i], 0xab);
	cr_assert_eq(b.ram[BED_DATA + 41], 0);

	/* Downwards, over a page end. */
	BED_START(&b, guest_rep, true);
	for (int i = 0; i < 100; i++)
		b.ram[BED_DATA + 0x10000 - 50 + i] = (uint8_t)i;
	BED_REGS(&b, .rsi = BED_DATA + 0x10000 + 49, .rdi = BED_DATA + 0x20000 + 49, .rcx = 100,
		 .rflags = 2 | 0x400);
	bed_run_to_hlt(&b);
	cr_assert_eq(memcmp(b.ram + BED_DATA + 0x20000 - 50, b.ram + BED_DATA + 0x10000 - 50, 100),
		     0);
	cr_assert_eq(b.r.rsi, BED_DATA + 0x10000 - 51);
}

/* ---- self-modifying code ---- */

/* The immediate of the very next instruction is overwritten. */
BED_GUEST(guest_smc, "mov $20, %ecx\n"
		     "1: mov %ecx, 2f+1(%rip)\n"
		     "2: mov $0x11111111, %eax\n"
		     "add %rax, %rbx\n"
		     "dec %ecx\n"
		     "jne 1b\n"
		     "ud2\n");

Test(emu_exec, the_next_instruction_is_the_new_one)
{
	for (uint64_t slice = 0; slice < 4; slice++) {
		BED_START(&b, guest_smc, true);
		while (bed_run(&b, slice) == VMM_EXIT_BUDGET)
			;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		cr_assert_eq(b.r.rbx, 210, "slice %lu: %llu", slice, b.r.rbx);
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 1 + 20 * 5);
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_STORES], 20);
	}
}

/* Writes through another virtual address, and by a rep that overwrites itself and what follows. */
BED_GUEST(guest_alias, "mov $3, %edx\n"
		       "1: movb $0xfe, 2f-1b(%rsi)\n" /* inc %eax -> dec %eax, via the alias */
		       "2: .byte 0xff, 0xc0\n"
		       "xorb $0x08, 2b-1b+1(%rsi)\n"
		       "dec %edx\n"
		       "jne 2b\n"
		       "ud2\n");

Test(emu_exec, code_written_through_an_alias)
{
	BED_START(&b, guest_alias, true);
	*bed_u64(&b, BED_PT) = BED_CODE | 7;
	b.r.rsi = BED_WIN + 5; /* label 1 */
	o->set_regs(b.v, &b.r);
	/* fe c0 is inc %al; then fe c8 dec %al; fe c0 again: 1, 0, 1 */
	cr_assert_eq(bed_run_to_hlt(&b), 6);
	cr_assert_eq(b.r.rax, 1, "%llx", b.r.rax);
}

BED_GUEST(guest_rep_self, "mov $0x90, %eax\n"
			  "lea 1f(%rip), %rdi\n"
			  "mov $4, %ecx\n"
			  "rep stosb\n"
			  "1: ud2\n"
			  "ud2\n"
			  "add $7, %ebx\n"
			  "ud2\n");

Test(emu_exec, rep_overwrites_what_follows)
{
	cr_assert_eq(BED_VECTOR(&b, guest_rep_self, true), 6);
	cr_assert_eq(b.r.rbx, 7);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 4 + 4 + 1);
}

/* A page is mapped elsewhere: same address, other code. */
BED_GUEST(guest_remap, "mov $0x40000000, %ebx\n"
		       "call *%rbx\n"
		       "mov %rdi, 0x14000\n" /* the window's first entry */
		       "invlpg (%rbx)\n"
		       "call *%rbx\n"
		       "mov %rsi, 0x14000\n"
		       "mov %cr3, %rcx\n"
		       "mov %rcx, %cr3\n"
		       "call *%rbx\n"
		       "hlt\n");

Test(emu_exec, remapped_code)
{
	static const uint8_t add1[] = {0x83, 0xc0, 0x01, 0xc3}, add16[] = {0x83, 0xc0, 0x10, 0xc3};

	BED_START(&b, guest_remap, false);
	memcpy(b.ram + BED_DATA, add1, 4);
	memcpy(b.ram + BED_DATA + 0x1000, add16, 4);
	*bed_u64(&b, BED_PT) = BED_DATA | 3;
	BED_REGS(&b, .rdi = (BED_DATA + 0x1000) | 3, .rsi = BED_DATA | 3);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.r.rax, 0x12);
}

/* An instruction that crosses a page: its second half is overwritten, then moved away. */
Test(emu_exec, code_across_a_page_end)
{
	static const uint8_t insn[] = {0xb8, 0x11, 0x22, 0x33, 0x44, 0x0f, 0x0b}; /* mov; ud2 */

	BED_START(&b, guest_rep, true);
	memcpy(b.ram + BED_DATA + 0xffd, insn, 3);
	memcpy(b.ram + BED_DATA + 0x5000, insn + 3, 4);
	*bed_u64(&b, BED_PT) = BED_DATA | 7;
	*bed_u64(&b, BED_PT + 8) = (BED_DATA + 0x5000) | 7;
	for (int i = 0; i < 3; i++) {
		uint64_t want = i == 0 ? 0x44332211 : i == 1 ? 0x55332211 : 0x66772211;

		bed_set_mode(&b, b.v, true);
		BED_REGS(&b, .rip = BED_WIN + 0xffd, .rsp = BED_STACK);
		cr_assert_eq(bed_run_to_hlt(&b), 6);
		cr_assert_eq(b.r.rax, want, "%d: %llx", i, b.r.rax);
		if (i == 0) { /* by the guest itself: mov %dl, (%rdi) */
			memcpy(b.ram + BED_CODE, "\x88\x17", 2);
			bed_set_mode(&b, b.v, true);
			BED_REGS(&b, .rip = BED_CODE, .rdi = BED_DATA + 0x5001, .rdx = 0x55);
			cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
		} else {
			memcpy(b.ram + BED_DATA + 0x6000, "\x77\x66\x0f\x0b", 4);
			*bed_u64(&b, BED_PT + 8) = (BED_DATA + 0x6000) | 7;
		}
	}
	/* And the second page goes away: a fetch fault at its start. */
	*bed_u64(&b, BED_PT + 8) = 0;
	bed_set_mode(&b, b.v, true);
	BED_REGS(&b, .rip = BED_WIN + 0xffd, .rsp = BED_STACK);
	BED_FAULTS(&b, 14, 0x14, BED_WIN + 0xffd);
	cr_assert_eq(bed_sregs(&b).cr2, BED_WIN + 0x1000);
}

/* ---- kicks ---- */

BED_GUEST(guest_spin, "1: add $1, %eax\njmp 1b\n");

static void *kicker(void *arg)
{
	struct timespec ts = {.tv_nsec = 20000000};

	nanosleep(&ts, NULL);
	o->kick(arg);
	return NULL;
}

Test(emu_exec, a_kick_ends_an_endless_run)
{
	pthread_t th;

	BED_START(&b, guest_spin, true);
	pthread_create(&th, NULL, kicker, b.v);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_INTR);
	pthread_join(th, NULL);
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), b.run.retired);
	/* Kicked before the run: it returns at once, once. */
	o->kick(b.v);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_INTR);
	cr_assert_eq(b.run.retired, 0);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_BUDGET);
}

BED_GUEST(guest_huge_rep, "rep stosb\n1: jmp 1b\n");

Test(emu_exec, a_string_instruction_without_end_is_interrupted)
{
	BED_START(&b, guest_huge_rep, false);
	/* All of the lower half maps to the same few pages: hours of storing. */
	for (int i = 0; i < 512; i++) {
		if (i)
			*bed_u64(&b, BED_PT + 0x2000 + i * 8) = (BED_DATA + 0x40000) | 3;
		*bed_u64(&b, BED_PT + 0x1000 + i * 8) = (BED_PT + 0x2000) | 3;
		*bed_u64(&b, BED_PD2 + i * 8) = (BED_PT + 0x1000) | 3;
		if (i > 1)
			*bed_u64(&b, BED_PDPT + i * 8) = (BED_PT + 0x1000) | 3;
		if (i)
			*bed_u64(&b, BED_PML4 + i * 8) = BED_PDPT | 3;
	}
	*bed_u64(&b, BED_PT + 0x2000) = (BED_DATA + 0x40000) | 3;
	for (int i = 0; i < 512; i++)
		*bed_u64(&b, BED_PT + 0x1000 + i * 8) = (BED_PT + 0x2000) | 3;
	BED_REGS(&b, .rdi = 0x80000000, .rcx = 1ULL << 46, .rax = 0x77);
	/* It comes back by itself every now and then, not retired, and goes on. */
	for (uint64_t last = b.r.rcx, i = 0; i < 3; i++, last = b.r.rcx) {
		BED_STOPS(&b, 1, VMM_EXIT_INTR, 0, BED_CODE);
		cr_assert_lt(b.r.rcx, last);
		cr_assert_eq(b.r.rdi - 0x80000000, (1ULL << 46) - b.r.rcx);
	}
	cr_assert_eq(b.ram[BED_DATA + 0x40000], 0x77);
	o->kick(b.v);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_INTR);
}

/* ---- the closed list ---- */

BED_GUEST(guest_avx512, "add $1, %eax\nvaddps %zmm1, %zmm2, %zmm0\n");

Test(emu_exec, an_instruction_outside_the_list_is_named)
{
	BED_START(&b, guest_avx512, true);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ERROR);
	cr_assert_eq(b.run.retired, 1);
	cr_assert_eq(b.run.u.error.rip, BED_CODE + 3);
	cr_assert_str_eq(b.run.u.error.msg, "instruction outside the emulator's list: 62 f1 6c 48 "
					    "58 c1 (vaddps zmm0, zmm2, zmm1) at rip 0x200003");
}

static int find_name(const char *mnemonic, void *arg)
{
	const char **want = arg;

	for (int i = 0; want[i]; i++)
		if (!strcmp(want[i], mnemonic))
			want[i] = "";
	return 0;
}

Test(emu_exec, the_list_names_its_instructions)
{
	const char *want[] = {"add", "jnz", "rdpmc", "wrmsr", "cmpxchg16b", "stosq", NULL};

	cr_assert_eq(emu_isa_list(find_name, want), 0);
	for (int i = 0; want[i]; i++)
		cr_assert_str_eq(want[i], "");
}

Test(emu_exec, ram_ends)
{
	BED_START(&b, guest_fault_mid, true);
	*bed_u64(&b, BED_PT) = BED_RAM | 7;
	BED_REGS(&b, .rsi = BED_WIN + 8);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ERROR);
	cr_assert(strstr(b.run.u.error.msg, "load of guest-physical 0x400008"), "%s",
		  b.run.u.error.msg);
	cr_assert_eq(b.run.u.error.rip, BED_CODE + 6);
	cr_assert_eq(b.run.retired, 2);
}

/* ---- hostile guests ---- */

static uint64_t rng_state;

static uint64_t hostile_value(void)
{
	switch (random_shift(&rng_state) % 6) {
	case 0:
		return random_shift(&rng_state);
	case 1:
		return random_shift(&rng_state) % BED_RAM;
	case 2:
		return BED_CODE + random_shift(&rng_state) % 4096;
	case 3:
		return BED_WIN + random_shift(&rng_state) % 0x200000;
	case 4:
		return 0 - random_shift(&rng_state) % 64;
	default:
		return random_shift(&rng_state) % 256;
	}
}

Test(emu_exec, random_bytes_do_no_harm)
{
	BED_START(&b, guest_spin, true);
	for (uint64_t seed = 1; seed <= 3000; seed++) {
		uint64_t retired = 0, *r = (uint64_t *)&b.r;

		rng_state = seed * 0x9e3779b97f4a7c15ULL;
		for (int i = 0; i < 2048; i += 8)
			*bed_u64(&b, BED_CODE + i) = random_shift(&rng_state);
		for (int i = 0; i < 512; i++)
			*bed_u64(&b, BED_PT + i * 8) =
				random_shift(&rng_state) % 4
					? random_shift(&rng_state) % (BED_RAM + 8192)
					: 0;
		memset(&b.t, 0, sizeof(b.t));
		bed_set_mode(&b, b.v, seed & 1);
		for (int i = 0; i < 16; i++)
			r[i] = hostile_value();
		b.r.rip = seed % 7 ? BED_CODE + random_shift(&rng_state) % 2048 : hostile_value();
		b.r.rflags = random_shift(&rng_state);
		o->set_regs(b.v, &b.r);
		if (seed % 3 == 0)
			o->interrupt(b.v, (uint8_t)random_shift(&rng_state));
		for (int i = 0; i < 20; i++) {
			bed_run(&b, 1 + random_shift(&rng_state) % 400);
			retired += b.run.retired;
			cr_assert_eq(retired, bed_total(&b.t, VPMU_EMU_INSTRUCTIONS));
			if (b.run.exit == VMM_EXIT_ERROR || b.run.exit == VMM_EXIT_SHUTDOWN)
				break;
			if (b.run.exit == VMM_EXIT_RDMSR || b.run.exit == VMM_EXIT_WRMSR)
				b.run.u.msr.fault = random_shift(&rng_state) & 1;
		}
		/* Stray stores may have hit the tables. */
		if (seed % 50 == 0) {
			BED_START(&b, guest_spin, true);
		}
	}
}
