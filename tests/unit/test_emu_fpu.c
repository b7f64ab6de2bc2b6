// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * x87, MMX and SSE on the emulator: what emu-difftest, which runs in CPL 3 with the control
 * registers of Linux, cannot reach. Which fault comes first under which CR0 and CR4, the state
 * after a reset, the vendors' pointers, and that a thread's own floating-point state survives.
 */
#include <errno.h>

#include "emu_bed.h"
#include "emu_prog.h"
#include "vmm/emu/jit/jit.h"

TestSuite(emu_fpu, .fini = bed_end);

#define CR0_BASE 0x80010031ull /* PG WP NE ET PE */
#define MP	 2ull
#define EM	 4ull
#define TS	 8ull
#define OSFXSR	 0x200ull
#define OSXMM	 0x400ull
#define NONE	 (-1)

BED_GUEST(g_prefix, "mov %rbx,%cr0\n mov %rcx,%cr4");

/* One instruction with these control registers; returns the vector. */
static int one(const uint8_t *insn, size_t n, uint64_t cr0, uint64_t cr4, struct emu_fpu *fpu)
{
	struct emu_vcpu *v;
	size_t at = (size_t)(g_prefix_end - g_prefix);
	struct bed b;
	int vector;

	BED_START(&b, g_prefix, false);
	memcpy(b.ram + BED_CODE + at, insn, n);
	b.ram[BED_CODE + at + n] = 0xf4;
	v = (struct emu_vcpu *)b.v;
	BED_REGS(&b, .rbx = CR0_BASE | cr0, .rcx = CR4_PAE | cr4);
	if (fpu)
		v->fpu = *fpu;
	vector = bed_run_to_hlt(&b);
	if (vector >= 0)
		cr_assert_eq(bed_stack(&b, 0), BED_CODE + at, "the fault is at the instruction");
	if (fpu)
		*fpu = v->fpu;
	bed_stop(&b);
	return vector;
}

enum class { X87, CONTROL, MMX, SSE, STATE, WAIT, OTHER };

static const struct {
	const char *name;
	enum class class;
	uint8_t n, b[8];
} insns[] = {
	{"fld1", X87, 2, {0xd9, 0xe8}},
	{"fldcw", X87, 2, {0xd9, 0x2f}},
	{"fnstsw ax", CONTROL, 2, {0xdf, 0xe0}},
	{"fninit", CONTROL, 2, {0xdb, 0xe3}},
	{"fnclex", CONTROL, 2, {0xdb, 0xe2}},
	{"fnstcw", CONTROL, 2, {0xd9, 0x3f}},
	{"fnstenv", CONTROL, 2, {0xd9, 0x37}},
	{"fnsave", CONTROL, 2, {0xdd, 0x37}},
	{"paddb mm", MMX, 3, {0x0f, 0xfc, 0xc1}},
	{"movq mm, m", MMX, 3, {0x0f, 0x6f, 0x07}},
	{"emms", MMX, 2, {0x0f, 0x77}},
	{"paddb xmm", SSE, 4, {0x66, 0x0f, 0xfc, 0xc1}},
	{"movups", SSE, 3, {0x0f, 0x10, 0x07}},
	{"addps", SSE, 3, {0x0f, 0x58, 0xc1}},
	{"movaps store", SSE, 3, {0x0f, 0x29, 0x07}},
	{"comiss", SSE, 3, {0x0f, 0x2f, 0xc1}},
	{"stmxcsr", SSE, 3, {0x0f, 0xae, 0x1f}},
	{"ldmxcsr", SSE, 3, {0x0f, 0xae, 0x17}},
	{"maskmovdqu", SSE, 4, {0x66, 0x0f, 0xf7, 0xc1}},
	{"pslldq", SSE, 5, {0x66, 0x0f, 0x73, 0xf8, 3}},
	{"fxsave", STATE, 3, {0x0f, 0xae, 0x07}},
	{"fxrstor", STATE, 3, {0x0f, 0xae, 0x0f}},
	{"fwait", WAIT, 1, {0x9b}},
	{"movnti", OTHER, 3, {0x0f, 0xc3, 0x07}},
	{"sfence", OTHER, 3, {0x0f, 0xae, 0xf8}},
	{"clflush", OTHER, 3, {0x0f, 0xae, 0x3f}},
	{"prefetcht0", OTHER, 3, {0x0f, 0x18, 0x0f}},
};

/* SDM vol. 3, table 2-2 and 14.1; SDM vol. 2, 2.4; APM vol. 2, 11.2.2 and table 8-8. */
static int expected(enum class c, uint64_t cr0, uint64_t cr4, bool waits)
{
	switch (c) {
	case X87:
		return cr0 & (EM | TS) ? 7 : waits ? 16 : NONE;
	case CONTROL:
	case STATE:
		return cr0 & (EM | TS) ? 7 : NONE;
	case MMX:
		return cr0 & EM ? 6 : cr0 & TS ? 7 : waits ? 16 : NONE;
	case SSE:
		return cr0 & EM || !(cr4 & OSFXSR) ? 6 : cr0 & TS ? 7 : NONE;
	case WAIT:
		return (cr0 & (MP | TS)) == (MP | TS) ? 7 : waits ? 16 : NONE;
	default:
		return NONE;
	}
}

Test(emu_fpu, control_registers)
{
	struct emu_fpu reset = {0};

	emu_fpu_reset(&reset);
	for (size_t i = 0; i < sizeof(insns) / sizeof(insns[0]); i++)
		for (unsigned int k = 0; k < 32; k++) {
			uint64_t cr0 = (k & 7) * MP, cr4 = k & 8 ? OSFXSR : 0;
			struct emu_fpu f = reset;
			bool waits = k & 16;
			int want = expected(insns[i].class, cr0, cr4, waits), got;

			f.fx.fcw = 0x37b; /* division by zero is not masked */
			f.fx.fsw = waits ? 0x8084 : 0;
			f.fx.ftw = 0;
			got = one(insns[i].b, insns[i].n, cr0, cr4, &f);
			cr_assert_eq(got, want, "%s: cr0 %lx, cr4 %lx, waits %d: %d, not %d",
				     insns[i].name, cr0, cr4, waits, got, want);
		}
}

/* Without OSXMMEXCPT an exception that is not masked is #UD; nothing but the flags changes. */
Test(emu_fpu, simd_exceptions)
{
	static const uint8_t divps[] = {0x0f, 0x5e, 0xc1};
	struct emu_fpu f = {0}, begin;

	emu_fpu_reset(&f);
	f.mxcsr = 0x1f80 & ~0x200u;
	f.fx.xmm[0] = (union emu_xmm){.f32 = {1, 2, 3, 4}};
	begin = f;
	cr_assert_eq(one(divps, 3, 0, OSFXSR, &f), 6);
	cr_assert_eq(f.mxcsr, begin.mxcsr | 4);
	cr_assert(!memcmp(&f.fx, &begin.fx, sizeof(f.fx)));
	f = begin;
	cr_assert_eq(one(divps, 3, 0, OSFXSR | OSXMM, &f), 19);
	cr_assert_eq(f.mxcsr, begin.mxcsr | 4);
	cr_assert(!memcmp(&f.fx, &begin.fx, sizeof(f.fx)));
	f = begin;
	f.mxcsr = 0x1f80;
	cr_assert_eq(one(divps, 3, 0, OSFXSR | OSXMM, &f), NONE);
	cr_assert_eq(f.mxcsr, 0x1f84u);
	cr_assert_eq(f.fx.xmm[0].d[3], 0x7f800000u);
}

BED_GUEST(g_save, "mov $0x80010031,%eax\n mov %rax,%cr0\n mov $0x620,%eax\n mov %rax,%cr4\n"
		  "fxsave64 (%rdi)\n fninit\n fxsave64 512(%rdi)\n"
		  "1: fld1\n fldl 1024(%rdi)\n fxsave64 512(%rdi)\n fnstenv 1040(%rdi)\n hlt");

/* The state after a reset, after FNINIT, and both vendors' last-instruction pointers. */
Test(emu_fpu, reset_and_pointers)
{
	for (int is_intel = 0; is_intel < 2; is_intel++) {
		const uint64_t fld = BED_CODE + (uint64_t)(g_save_end - g_save) - 21;
		uint32_t env[7];
		struct emu_fx fx;

		BED_START(&b, g_save, false);
		bed_intel(&b, is_intel);
		cr_assert_eq(bed_run(&b, 5), VMM_EXIT_BUDGET);
		memcpy(&fx, b.ram + BED_DATA, sizeof(fx));
		cr_assert_eq(fx.fcw, 0x40);
		cr_assert_eq(fx.fsw, 0);
		cr_assert_eq(fx.ftw, 0xff);
		cr_assert_eq(fx.mxcsr, 0x1f80u);
		cr_assert_eq(fx.mxcsr_mask, 0xffffu);
		cr_assert_eq(bed_run(&b, 2), VMM_EXIT_BUDGET);
		memcpy(&fx, b.ram + BED_DATA + 512, sizeof(fx));
		cr_assert_eq(fx.fcw, 0x37f);
		cr_assert_eq(fx.ftw, 0);
		cr_assert_eq(bed_run_to_hlt(&b), NONE);
		memcpy(&fx, b.ram + BED_DATA + 512, sizeof(fx));
		memcpy(env, b.ram + BED_DATA + 1040, sizeof(env));
		cr_assert_eq(EMU_FSW_TOP(fx.fsw), 6);
		cr_assert_eq(fx.ftw, 0xc0);
		/* No exception waits: AMD's CPUs store no pointers by FXSAVE. */
		cr_assert_eq(fx.fip, is_intel ? fld : 0, "%lx, not %lx", fx.fip, fld);
		cr_assert_eq(fx.fdp, is_intel ? BED_DATA + 1024 : 0);
		cr_assert_eq(fx.fop, is_intel ? 0x587 : 0);
		cr_assert_eq(env[3], (uint32_t)fld);
		cr_assert_eq(env[4], 0x587u << 16 | (is_intel ? 0 : BED_CS0));
		cr_assert_eq(env[5], BED_DATA + 1024);
	}
}

BED_GUEST(g_cvtpi2ps, "mov $0x620,%eax\n mov %rax,%cr4\n fninit\n fld1\n cvtpi2ps (%rdi),%xmm0\n"
		      "fnstsw %ax\n mov %eax,%ebx\n cvtpi2pd (%rdi),%xmm1\n fnstsw %ax\n hlt");

/* With a memory operand: CVTPI2PD never makes the x87 registers MMX registers, CVTPI2PS does on
 * Intel's CPUs. A page fault of FXSAVE names the first bad byte, or the last one. */
Test(emu_fpu, vendors)
{
	static const uint8_t fxsave[] = {0x0f, 0xae, 0x06};

	for (int is_intel = 0; is_intel < 2; is_intel++) {
		uint64_t cr2;

		BED_START(&b, g_cvtpi2ps, false);
		bed_intel(&b, is_intel);
		cr_assert_eq(bed_run_to_hlt(&b), NONE);
		cr_assert_eq(b.r.rbx, is_intel ? 0u : 7u << 11, "%llx", b.r.rbx);
		cr_assert_eq(b.r.rax & 0xffff, b.r.rbx);
		memcpy(b.ram + BED_CODE, fxsave, sizeof(fxsave));
		*bed_u64(&b, BED_PT) = BED_DATA | 7;
		*bed_u64(&b, BED_PT + 8) = 0;
		BED_SREGS(&b, ); /* the code has changed */
		BED_REGS(&b, .rip = BED_CODE, .rsi = BED_WIN + 0xf00);
		cr_assert_eq(bed_run_to_hlt(&b), 14);
		cr2 = bed_sregs(&b).cr2;
		cr_assert_eq(cr2, BED_WIN + (is_intel ? 0x1000 : 0xf00 + 511), "%lx", cr2);
	}
}

BED_GUEST(g_loop,
	  "mov $0x80010031,%eax\n mov %rax,%cr0\n mov $0x620,%eax\n mov %rax,%cr4\n"
	  "fninit\n movl $0x7fa0,(%rdi)\n ldmxcsr (%rdi)\n movl $0x27f,(%rdi)\n fldcw (%rdi)\n"
	  "mov $1000,%ecx\n cvtsi2sd %rcx,%xmm0\n movapd %xmm0,%xmm1\n fldpi\n"
	  "1: divsd %xmm0,%xmm1\n addsd %xmm0,%xmm1\n mulsd %xmm1,%xmm0\n sqrtsd %xmm0,%xmm0\n"
	  "fld1\n faddp\n fsin\n movsd %xmm1,(%rdi)\n paddq %xmm1,%xmm7\n"
	  "paddb (%rdi),%xmm6\n dec %ecx\n jnz 1b\n hlt");
/* The last instruction that uses MXCSR is an MMX one; and one in translated code. */
BED_GUEST(g_convert, "mov $0x620,%eax\n mov %rax,%cr4\n fninit\n movl $1,(%rdi)\n flds (%rdi)\n"
		     "fld1\n fstp %st(0)\n movl $0x7f80,(%rdi)\n ldmxcsr (%rdi)\n"
		     "cvtpd2pi %xmm7,%mm3\n hlt");
BED_GUEST(g_add, "mov $0x620,%eax\n mov %rax,%cr4\n movl $0x7f80,(%rdi)\n ldmxcsr (%rdi)\n"
		 "mov $500,%ecx\n 1: addss %xmm0,%xmm0\n add $1,%ebx\n add $2,%ebx\n"
		 "add $3,%ebx\n dec %ecx\n jnz 1b\n hlt");

static void host_state(uint32_t *mxcsr, uint16_t *fcw, uint16_t *tags)
{
	uint16_t env[14];

	__asm__ volatile("stmxcsr %0" : "=m"(*mxcsr));
	__asm__ volatile("fnstcw %0" : "=m"(*fcw));
	__asm__ volatile("fnstenv %0\n\tfldenv %0" : "=m"(env));
	*tags = env[4];
}

static void thread_keeps_state(struct bed *a)
{
	uint32_t mxcsr[2];
	uint16_t fcw[2], tags[2];

	host_state(&mxcsr[0], &fcw[0], &tags[0]);
	cr_assert_eq(bed_run_to_hlt(a), NONE);
	host_state(&mxcsr[1], &fcw[1], &tags[1]);
	cr_assert_eq(mxcsr[1], mxcsr[0], "%x, %x", mxcsr[1], mxcsr[0]);
	cr_assert_eq(fcw[1], fcw[0]);
	cr_assert_eq(tags[1], tags[0]);
	cr_assert_eq(tags[1], 0xffff);
}

/* A guest changes rounding and masks and leaves values on the x87 stack; the thread keeps its own,
 * and the same run in slices, moved at each, ends the same. */
Test(emu_fpu, thread_and_moves)
{
	uint64_t rng = 7;
	struct emu_fpu whole;
	struct bed a, b;

	BED_START(&a, g_loop, false);
	thread_keeps_state(&a);
	whole = ((struct emu_vcpu *)a.v)->fpu;
	cr_assert_eq(whole.fx.fcw, 0x27f);
	cr_assert_eq(whole.mxcsr & 0x7f80, 0x7f80u);
	bed_stop(&a);

	BED_START(&a, g_convert, false);
	thread_keeps_state(&a);
	cr_assert(((struct emu_vcpu *)a.v)->fpu.fx.fsw & EMU_FP_DE, "a flag stays set");
	bed_stop(&a);
	BED_START(&a, g_add, false);
	thread_keeps_state(&a);
	bed_stop(&a);

	BED_START(&a, g_loop, false);
	while (bed_run(&a, 1 + random_split(&rng) % 300) == VMM_EXIT_BUDGET) {
		bed_move(&a, &b);
		bed_stop(&a);
		a = b;
		o->set_tally(a.v, NULL); /* b is overwritten */
	}
	cr_assert_eq(a.run.exit, VMM_EXIT_HLT);
	cr_assert(!memcmp(&whole, &((struct emu_vcpu *)a.v)->fpu, sizeof(whole)));
	bed_stop(&a);
}

/* RSI walks through BED_DATA in steps of 8: MOVUPS everywhere, MOVAPS where it may, and in the last
 * turn where it may not. R14, R15 and XMM14, XMM15 are in memory in translated code. */
BED_GUEST(g_vectors, "mov $0x80010031,%eax\n mov %rax,%cr0\n mov $0x620,%eax\n mov %rax,%cr4\n"
		     "mov %rdi,%rsi\n lea 8(%rdi),%r14\n mov $3000,%ecx\n movups (%rdi),%xmm3\n"
		     "movaps %xmm3,%xmm15\n"
		     "1: movups (%rsi),%xmm0\n paddd %xmm3,%xmm0\n movups %xmm0,4(%rsi)\n"
		     "movaps (%rdi),%xmm1\n mulps %xmm1,%xmm15\n paddq (%rdi),%xmm3\n"
		     "movd %ecx,%xmm14\n pshufd $0x1b,%xmm14,%xmm2\n movups (%r14),%xmm5\n"
		     "movhps (%rsi),%xmm5\n movlhps %xmm14,%xmm15\n movss %xmm5,%xmm6\n"
		     "pmovmskb %xmm5,%edx\n cvtss2si %xmm5,%r15\n cvttsd2si %xmm3,%rbx\n"
		     "comiss %xmm6,%xmm5\n adc $0,%ebp\n psllw $3,%xmm6\n psrldq $5,%xmm6\n"
		     "movq %xmm6,8(%rdi)\n pinsrw $3,%edx,%xmm7\n sqrtps %xmm7,%xmm8\n"
		     "add $8,%rsi\n dec %ecx\n jnz 1b\n movaps (%r14),%xmm1\n hlt");

/* TS is set in the middle of a loop: its next turn is #NM, translated or not. */
BED_GUEST(g_ts, "mov $0x80010031,%eax\n mov %rax,%cr0\n mov $0x620,%eax\n mov %rax,%cr4\n"
		"mov $500,%ecx\n 1: paddd %xmm0,%xmm1\n addps %xmm1,%xmm2\n add $1,%ebx\n"
		"add $2,%ebx\n add $3,%ebx\n dec %ecx\n jnz 1b\n"
		"mov $0x80010039,%eax\n mov %rax,%cr0\n mov $10,%ecx\n jmp 1b");

/* The last turn has an aligned access that is not, through a site that the others have filled. */
BED_GUEST(g_aligned, "mov $0x620,%eax\n mov %rax,%cr4\n mov $300,%ecx\n mov %rdi,%rsi\n"
		     "1: movaps (%rsi),%xmm0\n movaps 64(%rsi),%xmm1\n add $1,%ebx\n add $16,%rsi\n"
		     "cmp $1,%ecx\n jne 2f\n add $4,%rsi\n 2: dec %ecx\n jns 1b\n hlt");

/* Doubled until it overflows, which is when the loop has a translation. */
BED_GUEST(g_overflow, "mov $0x620,%eax\n mov %rax,%cr4\n mov $0x3f800000,%eax\n movd %eax,%xmm0\n"
		      "mov $300,%ecx\n 1: addss %xmm0,%xmm0\n add $1,%ebx\n add $2,%ebx\n"
		      "add $3,%ebx\n dec %ecx\n jnz 1b\n hlt");

/* Vectors across the two pages of the window, which are not neighbours in memory. */
BED_GUEST(g_cross, "mov $0x620,%eax\n mov %rax,%cr4\n mov $0x40000400,%esi\n mov $420,%ecx\n"
		   "1: movups (%rsi),%xmm0\n paddd %xmm0,%xmm1\n movups %xmm1,(%rsi)\n"
		   "add $1,%ebx\n add $8,%rsi\n dec %ecx\n jnz 1b\n hlt");

static int run_mode(enum emu_jit_mode mode, const uint8_t *code, const uint8_t *end,
		    struct emu_fpu *f, struct kvm_regs *r, uint8_t *data, uint64_t *insns)
{
	struct bed b;
	int vector;

	emu_jit_set(mode);
	bed_start(&b, code, end, false);
	for (unsigned int i = 0; i < 8192; i++)
		b.ram[BED_DATA + i] = (uint8_t)(i * 37 + (i >> 3));
	*bed_u64(&b, BED_PT) = (BED_DATA + 0x1000) | 7;
	*bed_u64(&b, BED_PT + 8) = BED_DATA | 7;
	vector = bed_run_to_hlt(&b);
	*f = ((struct emu_vcpu *)b.v)->fpu;
	f->fx.fip = f->fx.fdp = 0;
	f->fx.fop = 0;
	*r = b.r;
	*insns = bed_total(&b.t, VPMU_EMU_INSTRUCTIONS) + (bed_total(&b.t, VPMU_EMU_LOADS) << 32);
	memcpy(data, b.ram + BED_DATA, 0x10000);
	bed_stop(&b);
	emu_jit_set(EMU_JIT_HOT);
	return vector;
}

/* Translated code leaves the same state as the interpreter. */
Test(emu_fpu, translated)
{
	static const struct {
		const char *name;
		const uint8_t *code, *end;
		int vector;
	} guests[] = {{"loop", g_loop, g_loop_end, NONE},
		      {"vectors", g_vectors, g_vectors_end, 13},
		      {"ts", g_ts, g_ts_end, 7},
		      {"cross", g_cross, g_cross_end, NONE},
		      {"overflow", g_overflow, g_overflow_end, NONE},
		      {"aligned", g_aligned, g_aligned_end, 13}};
	static uint8_t data[3][0x10000];

	if (vmm_emu_translate(true))
		cr_skip_test("%s", emu_jit_off());
	for (size_t i = 0; i < sizeof(guests) / sizeof(guests[0]); i++) {
		static const enum emu_jit_mode modes[] = {EMU_JIT_OFF, EMU_JIT_HOT, EMU_JIT_ALL};
		struct emu_fpu f[3];
		struct kvm_regs r[3];
		uint64_t insns[3];

		for (int m = 0; m < 3; m++) {
			int vector = run_mode(modes[m], guests[i].code, guests[i].end, &f[m], &r[m],
					      data[m], &insns[m]);

			cr_assert_eq(vector, guests[i].vector, "%s, mode %d: vector %d",
				     guests[i].name, m, vector);
			cr_assert_eq(insns[m], insns[0], "%s, mode %d: counts", guests[i].name, m);
			cr_assert(!memcmp(&f[m], &f[0], sizeof(f[0])), "%s, mode %d: x87, SSE",
				  guests[i].name, m);
			cr_assert(!memcmp(&r[m], &r[0], sizeof(r[0])), "%s, mode %d: registers",
				  guests[i].name, m);
			cr_assert(!memcmp(data[m], data[0], sizeof(data[0])), "%s, mode %d: memory",
				  guests[i].name, m);
		}
	}
}

/* A state with bits that no CPU has. */
Test(emu_fpu, impossible_states)
{
	uint8_t state[BED_STATE], now[BED_STATE];
	size_t n, at;

	BED_START(&b, g_loop, false);
	n = bed_state(&b, state);
	for (at = 0; at + 4 < n && memcmp(state + at, "FPU ", 4); at++)
		;
	cr_assert_lt(at + 4, n);
	at += 12; /* behind the head: FCW, FSW, FTW, FOP, FIP, FDP, FCS, FDS, MXCSR */
	for (int bad = 0; bad < 4; bad++) {
		uint8_t copy[BED_STATE];

		memcpy(copy, state, n);
		if (bad == 0)
			copy[at] = 0; /* FCW bit 6 is always 1 */
		else if (bad == 1)
			copy[at + 2] = 0x80; /* FSW.ES without an exception */
		else if (bad == 2)
			copy[at + 6] = 0x08; /* FOP has 11 bits */
		else
			copy[at + 27 + 2] = 0x10; /* MXCSR */
		cr_assert_eq(o->set_state(b.v, copy, n), -EINVAL, "%d", bad);
		cr_assert(bed_state(&b, now) == n && !memcmp(now, state, n));
	}
}
