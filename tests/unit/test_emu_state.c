// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * get_state and set_state: a vCPU moved into another VM at any point goes on as if nothing had
 * happened; bytes from strangers are taken exactly or not at all.
 */
#include <errno.h>

#include "emu_prog.h"
#include "vmm/engine/simd.h"

TestSuite(emu_state, .fini = bed_end);

/* bed_move(), with the pCPU's counts and the open answer. */
static void move(const struct bed *b, struct bed *to)
{
	uint8_t state[BED_STATE], again[BED_STATE];
	size_t n = bed_state(b, state);

	bed_move(b, to);
	to->t = b->t;
	to->run = b->run;
	to->r = b->r;
	cr_assert_eq(bed_state(to, again), n);
	cr_assert(!memcmp(state, again, n), "what was set is what is read");
}

static void same(const struct bed *a, const struct bed *b, uint64_t seed, size_t at)
{
	uint8_t sa[BED_STATE], sb[BED_STATE];
	struct kvm_sregs x = bed_sregs(a), y = bed_sregs(b);
	size_t n = bed_state(a, sa);

	cr_assert_eq(a->run.exit, b->run.exit, "seed %lu, at %zu: exits %d, %d", seed, at,
		     a->run.exit, b->run.exit);
	cr_assert_eq(a->run.retired, b->run.retired, "seed %lu, at %zu: retired", seed, at);
	cr_assert(!memcmp(&a->r, &b->r, sizeof(a->r)), "seed %lu, at %zu: registers", seed, at);
	cr_assert(!memcmp(&x, &y, sizeof(x)), "seed %lu, at %zu: sregs", seed, at);
	cr_assert(!memcmp(&a->t, &b->t, sizeof(a->t)), "seed %lu, at %zu: counts, records", seed,
		  at);
	cr_assert_eq(bed_state(b, sb), n);
	cr_assert(!memcmp(sa, sb, n), "seed %lu, at %zu: state", seed, at);
}

/* The caller's part of run(); the same for the same random number. */
static void act(struct bed *b, uint64_t r)
{
	if (b->run.exit == VMM_EXIT_RDPMC) {
		b->run.u.pmc.data = r;
		b->run.u.pmc.fault = r % 8 == 0;
	}
	if (r >> 8 & 1)
		o->interrupt(b->v, 0x40);
	if ((r >> 9 & 3) == 0)
		o->nmi(b->v);
	if (b->run.exit == VMM_EXIT_ALARM || (r >> 16 & 7) == 0) {
		b->t.alarm[0] = (struct vpmu_emu_alarm){.event = r >> 20 & 3, .modes = 2};
		b->t.alarm[0].at = b->t.ev[1][b->t.alarm[0].event] + 1 + (r >> 32) % 100;
		b->t.armed = 1;
	}
}

static bool waits(const struct bed *b)
{
	return b->run.exit == VMM_EXIT_RDPMC;
}

/* Program @seed, moved once, at a random point: both go on side by side. */
static unsigned int check_program(uint64_t seed)
{
	uint64_t rng = seed * 13, when, step = 0;
	unsigned int waited = 0;
	struct bed a, b;
	bool moved = false;

	prog_start(&a, seed);
	bed_gate(&a, 0x40, PROG_KERNEL, 0, 0xe);
	bed_gate(&a, 2, PROG_KERNEL, 0, 0xe);
	bed_gate(&a, 13, BED_HANDLERS + 13, 0, 0xe); /* a refused RDPMC is the end */
	a.r.rflags |= 0x200;
	o->set_regs(a.v, &a.r);
	a.t.lbr.ctl = VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES;
	a.t.lbr.depth = 32;
	when = random_split(&rng) % 40;
	do {
		uint64_t budget = 1 + random_split(&rng) % 80, r = random_split(&rng);

		bed_run(&a, budget);
		if (moved) {
			bed_run(&b, budget);
			same(&a, &b, seed, step);
		}
		act(&a, r);
		if (moved)
			act(&b, r);
		if (!moved && step++ >= when) {
			waited = waits(&a);
			move(&a, &b);
			moved = true;
		}
	} while (a.run.exit != VMM_EXIT_HLT);
	if (moved) {
		cr_assert(!memcmp(a.ram, b.ram, BED_RAM), "seed %lu: memory", seed);
		bed_stop(&b);
	}
	bed_stop(&a);
	return waited;
}

Test(emu_state, goes_on_in_another_vm)
{
	unsigned int waited = 0;

	for (uint64_t seed = 1; seed <= 250; seed++)
		waited += check_program(seed);
	cr_assert_gt(waited, 5, "too few were moved while an exit waited: %u", waited);
}

BED_GUEST(g_exits, "mov $0x10,%ecx\n inb $0x20,%al\n inw $0x20,%ax\n inl $0x20,%eax\n"
		   "outb %al,$0x20\n outl %eax,$0x20\n mov $0xc1,%ecx\n rdmsr\n wrmsr\n"
		   "rdpmc\n mov $0xc1,%ecx\n rdmsr\n hlt");

/* Every kind of exit that waits, moved after every single run. */
Test(emu_state, every_exit_waits)
{
	struct bed b[2];
	unsigned int cur = 0, exits = 0;
	uint64_t retired = 0;

	BED_START(&b[0], g_exits, false);
	for (;;) {
		struct bed *x = &b[cur], *y = &b[!cur];
		enum vmm_exit e = bed_run(x, 1000);

		retired += x->run.retired;
		if (e == VMM_EXIT_HLT)
			break;
		exits++;
		if (e == VMM_EXIT_IO)
			x->run.u.io.data = 0xabcd0000 + exits;
		if (e == VMM_EXIT_RDMSR)
			x->run.u.msr.data = 0x1234567800000000 + exits;
		if (e == VMM_EXIT_RDPMC)
			x->run.u.pmc.data = 0x8765432100000000 + exits;
		move(x, y);
		bed_stop(x);
		cur = !cur;
	}
	cr_assert_eq(exits, 9);
	cr_assert_eq(retired, 13);
	cr_assert_eq(b[cur].r.rax, 9);
	cr_assert_eq(b[cur].r.rdx, 0x12345678);
	cr_assert_eq(bed_total(&b[cur].t, VPMU_EMU_INSTRUCTIONS), 13);
	bed_stop(&b[cur]);
}

BED_GUEST(g_simd, "mov %cr4,%rax\n or $0x200,%eax\n mov %rax,%cr4\n haddps %xmm1,%xmm0\n pshufb "
		  "%xmm1,%xmm0\n ptest %xmm1,%xmm0\n"
		  "crc32 %eax,%ebx\n movbe (%rsp),%eax\n andn %eax,%eax,%ebx\n "
		  "pdep %eax,%eax,%ebx\n mov $1,%eax\n cpuid\n mov %ecx,%esi\n mov $7,%eax\n "
		  "xor %ecx,%ecx\n cpuid\n hlt");

static void show(struct kvm_cpuid_entry2 *e, uint32_t word)
{
	e[1].ecx = word & VMM_SIMD_1C;
	e[2].ebx = word & VMM_SIMD_7B;
}

/* CPUID of a whole CPU decides which of the extensions there are, and belongs to the state. */
Test(emu_state, extensions_of_sse2)
{
	static const uint32_t bits[] = {VMM_SIMD_SSE3,	VMM_SIMD_SSSE3, VMM_SIMD_SSE41,
					VMM_SIMD_SSE42, VMM_SIMD_MOVBE, VMM_SIMD_BMI1,
					VMM_SIMD_BMI2};
	const unsigned int nr = sizeof(bits) / sizeof(bits[0]);
	struct kvm_cpuid_entry2 e[] = {
		{.function = 0, .eax = 7}, {.function = 1, .edx = 1u << 24}, {.function = 7}};
	uint8_t with[BED_STATE], bad[BED_STATE];
	size_t n;
	struct bed b;

	if ((vmm_simd_host() & VMM_SIMD_ALL) != VMM_SIMD_ALL)
		cr_skip_test("this CPU lacks BMI2");
	cr_assert_eq(BED_VECTOR(&b, g_simd, false), -1, "without CPUID: what the host has");
	for (unsigned int k = 0; k <= nr; k++) { /* without one of them, then with all */
		show(e, VMM_SIMD_ALL & ~(k < nr ? bits[k] : 0));
		bed_load(&b, g_simd, g_simd_end, false);
		cr_assert_eq(o->set_cpuid(b.v, e, 3), 0);
		cr_assert_eq(bed_run_to_hlt(&b), k < nr ? 6 : -1, "#UD without feature %u", k);
		cr_assert_eq(b.run.retired, k < nr ? 4 + k : 10 + nr, "%u", k);
	}
	/* The state goes to a vCPU whose table shows none of them, and back. */
	bed_load(&b, g_simd, g_simd_end, false);
	n = bed_state(&b, with);
	show(e, 0);
	cr_assert_eq(o->set_cpuid(b.v, e, 3), 0);
	cr_assert_lt(bed_state(&b, bad), n);
	cr_assert_eq(o->set_state(b.v, with, n), 0);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	o->get_regs(b.v, &b.r);
	cr_assert_eq((b.r.rsi & VMM_SIMD_1C) | (b.r.rbx & VMM_SIMD_7B), VMM_SIMD_ALL);
	for (unsigned int bit = 0; bit < 32; bit++) { /* the last 4 bytes are the section's */
		memcpy(bad, with, n);
		bad[n - 4 + bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(o->set_state(b.v, bad, n),
			     VMM_SIMD_ALL >> bit & 1			      ? 0
			     : 1u << bit & ~vmm_simd_host() & VMM_SIMD_AVX512 ? -EOPNOTSUPP
			     : 1u << bit & VMM_SIMD_AVX512		      ? 0
									      : -EINVAL,
			     "bit %u", bit);
	}
	bed_stop(&b);
}

BED_GUEST(g_conforming, "1: nop\n jmp 1b");

/* Conforming code runs in CPL 3 though its segment has 0: the level must survive. */
Test(emu_state, level_of_conforming_code)
{
	struct bed a, b;
	uint8_t state[BED_STATE];
	size_t n;

	BED_START(&a, g_conforming, true);
	n = bed_state(&a, state);
	BED_SREGS(&a, (s.cs.dpl = 0, s.cs.type = 0xf));
	o->set_regs(a.v, &a.r);
	cr_assert_eq(o->set_state(a.v, state, n), 0);
	cr_assert_eq(bed_run(&a, 10), VMM_EXIT_BUDGET);
	cr_assert_eq(a.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 10);
	move(&a, &b);
	cr_assert_eq(bed_run(&b, 10), VMM_EXIT_BUDGET);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], 20);
	bed_stop(&a);
	bed_stop(&b);
}

BED_GUEST(g_tsc, "rdtsc\n mov %rax,%rbx\n cli\n sti\n hlt");

Test(emu_state, shadow_and_clock)
{
	struct bed a, b;

	BED_START(&a, g_tsc, false);
	cr_assert_eq(bed_run(&a, 4), VMM_EXIT_BUDGET); /* in the shadow of STI */
	o->interrupt(a.v, 0x40);
	move(&a, &b);
	cr_assert_eq(bed_run_to_hlt(&b), 0x40);
	cr_assert_eq(bed_stack(&b, 0), BED_CODE + (uint64_t)(g_tsc_end - g_tsc),
		     "HLT is in the shadow, and the interrupt wakes it");
	/* The same clock in both. */
	a.r.rip = b.r.rip = BED_CODE;
	cr_assert_eq(bed_run_to_hlt(&a), 0x40);
	bed_load(&a, g_tsc, g_tsc_end, false);
	bed_load(&b, g_tsc, g_tsc_end, false);
	bed_run(&a, 2);
	bed_run(&b, 2);
	cr_assert_eq(a.r.rbx, b.r.rbx);
	cr_assert_gt(a.r.rbx, 30);
	bed_stop(&a);
	bed_stop(&b);
}

Test(emu_state, room)
{
	uint8_t buf[BED_STATE];
	size_t n, need;

	BED_START(&b, g_exits, false);
	need = bed_state(&b, buf);
	for (n = 0; n < need; n++) {
		size_t bytes = n;

		memset(buf, 0xee, sizeof(buf));
		cr_assert_eq(o->get_state(b.v, buf, &bytes), -ENOSPC);
		cr_assert_eq(bytes, need);
		cr_assert_eq(buf[0], 0xee);
	}
}

/* Whatever is in the bytes: they are taken exactly, or not at all. */
static unsigned int check_bytes(struct bed *b, const uint8_t *bytes, size_t n, const uint8_t *now,
				size_t now_n)
{
	uint8_t after[BED_STATE];
	int ret = o->set_state(b->v, bytes, n);

	cr_assert(ret == 0 || ret == -EINVAL, "%d", ret);
	if (ret) {
		cr_assert_eq(bed_state(b, after), now_n);
		cr_assert(!memcmp(after, now, now_n), "refused, but changed");
		return 0;
	}
	cr_assert_eq(bed_state(b, after), n);
	cr_assert(!memcmp(after, bytes, n), "taken, but not as it is");
	cr_assert_eq(o->set_state(b->v, now, now_n), 0);
	return 1;
}

#ifdef VPMU_FEWER
enum { STRANGERS = 50000 };
#else
enum { STRANGERS = 200000 };
#endif

Test(emu_state, bytes_from_strangers)
{
	uint8_t now[BED_STATE], bytes[BED_STATE];
	unsigned int taken = 0, tried = 0;
	uint64_t rng = 4;
	size_t n;

	BED_START(&b, g_exits, false);
	for (int waiting = 0; waiting < 2; waiting++) {
		if (waiting)
			cr_assert_eq(bed_run(&b, 100), VMM_EXIT_IO);
		n = bed_state(&b, now);
		memset(bytes, 0, sizeof(bytes));
		for (size_t i = 0; i < n; i++)
			cr_assert_eq(check_bytes(&b, now, i, now, n), 0, "cut at %zu", i);
		memcpy(bytes, now, n);
		cr_assert_eq(check_bytes(&b, bytes, n + 1, now, n), 0, "a byte too many");
		for (size_t i = 0; i < n * 8; i++) {
			memcpy(bytes, now, n);
			bytes[i / 8] ^= (uint8_t)(1u << i % 8);
			taken += check_bytes(&b, bytes, n, now, n);
			tried++;
		}
		for (size_t i = 0; i < STRANGERS; i++) {
			memcpy(bytes, now, n);
			for (uint64_t k = 1 + random_split(&rng) % 4; k; k--)
				bytes[random_split(&rng) % 40] = (uint8_t)random_split(&rng);
			check_bytes(&b, bytes, n, now, n);
		}
	}
	/* Clocks, STAR, debug addresses, x87 and SSE registers are any number; much else is not. */
	cr_assert(taken > tried / 4 && taken < tried * 9 / 10, "%u of %u", taken, tried);
}
