// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SVM in the emulator: a hypervisor of two instructions (VMRUN, HLT) runs one guest after the
 * other. Each case says what the guest executes, what the VMCB intercepts, and how it exits.
 */
#include "svm_cases.h"

TestSuite(emu_svm, .fini = bed_end);

BED_GUEST(g_run, "vmrun\n hlt");
BED_GUEST(g_nop, "nop\n nop\n hlt");

#define BIT(n) (1ULL << ((n)-VMEXIT_INTR))
#define MOV    (1ULL << 63)

/* X(name, code, its length, exit code, info1, offset of the instruction, icpt, crdr, except), as in
 * struct one; I() for what only has an intercept of its own. */
#define ONES(X, I)                                                                                 \
	X(cr0r, "mov %cr0,%rbx", 3, VMEXIT_CR_READ, MOV | 3, 6, 0, 1, 0)                           \
	X(cr3r, "mov %cr3,%r9", 4, VMEXIT_CR_READ + 3, MOV | 9, 6, 0, 8, 0)                        \
	X(cr0w, "mov $0x80010033,%eax\n mov %rax,%cr0", 3, VMEXIT_CR_WRITE, MOV, 11, 0, 1 << 16,   \
	  0)                                                                                       \
	X(cr0sel, "mov $0x80010013,%eax\n mov %rax,%cr0", 3, VMEXIT_CR0_SEL_WRITE, MOV, 11,        \
	  BIT(VMEXIT_CR0_SEL_WRITE), 0, 0)                                                         \
	X(cr0ts, "mov $0x8001003b,%eax\n mov %rax,%cr0", 0, VMEXIT_HLT, 0, 14,                     \
	  BIT(VMEXIT_CR0_SEL_WRITE), 0, 0)                                                         \
	X(cr3w, "mov %rax,%cr3", 3, VMEXIT_CR_WRITE + 3, MOV, 6, 0, 8 << 16, 0)                    \
	X(cr4w, "mov %r10,%cr4", 4, VMEXIT_CR_WRITE + 4, MOV | 10, 6, 0, 16 << 16, 0)              \
	X(cr8w, "mov %rsi,%cr8", 4, VMEXIT_CR_WRITE + 8, MOV | 6, 6, 0, 256 << 16, 0)              \
	X(clts, "clts", 2, VMEXIT_CR_WRITE, 0, 6, 0, 1 << 16, 0)                                   \
	X(lmsw, "mov $3,%ebx\n lmsw %bx", 3, VMEXIT_CR0_SEL_WRITE, 0, 11,                          \
	  BIT(VMEXIT_CR0_SEL_WRITE), 0, 0)                                                         \
	X(smsw, "smsw %ebx", 3, VMEXIT_CR_READ, 0, 6, 0, 1, 0)                                     \
	X(dr0w, "mov %rcx,%dr0", 3, VMEXIT_DR_WRITE, 1, 6, 0, 1ULL << 48, 0)                       \
	X(dr7r, "mov %dr7,%rdx", 3, VMEXIT_DR_READ + 7, 2, 6, 0, 128ULL << 32, 0)                  \
	I(rdtsc, "rdtsc", 2, VMEXIT_RDTSC)                                                         \
	I(rdtscp, "rdtscp", 3, VMEXIT_RDTSCP)                                                      \
	I(rdpmc, "rdpmc", 2, VMEXIT_RDPMC)                                                         \
	X(xsetbv,                                                                                  \
	  "mov $0x40020,%eax\n mov %rax,%cr4\n mov $1,%eax\n xor %edx,%edx\n"                      \
	  "xor %ecx,%ecx\n xsetbv",                                                                \
	  3, VMEXIT_XSETBV, 0, 23, BIT(VMEXIT_XSETBV), 0, 0)                                       \
	I(pushf, "pushfq", 1, VMEXIT_PUSHF)                                                        \
	I(popf, "popfq", 1, VMEXIT_POPF)                                                           \
	I(cpuid, "cpuid", 2, VMEXIT_CPUID)                                                         \
	I(iret, "iretq", 2, VMEXIT_IRET)                                                           \
	X(int, "int $0x81", 2, VMEXIT_SWINT, 0x81, 6, BIT(VMEXIT_SWINT), 0, 0)                     \
	X(int3, "int3", 1, VMEXIT_EXCP + 3, 0, 6, 0, 0, 8)                                         \
	I(invd, "invd", 2, VMEXIT_INVD)                                                            \
	I(wbinvd, "wbinvd", 2, VMEXIT_WBINVD)                                                      \
	I(pause, "pause", 2, VMEXIT_PAUSE)                                                         \
	I(hlt, "hlt", 1, VMEXIT_HLT)                                                               \
	X(invlpg, "invlpg 0x10(%rdi)", 4, VMEXIT_INVLPG, 0x340010, 6, BIT(VMEXIT_INVLPG), 0, 0)    \
	I(invlpga, "invlpga", 3, VMEXIT_INVLPGA)                                                   \
	X(inb, "inb $0x70,%al", 2, VMEXIT_IOIO, 0x700211, 6, BIT(VMEXIT_IOIO), 0, 0)               \
	X(outw, "outw %ax,$0x71", 3, VMEXIT_IOIO, 0x710220, 6, BIT(VMEXIT_IOIO), 0, 0)             \
	X(rdmsr, "mov $0xc0000081,%ecx\n rdmsr", 2, VMEXIT_MSR, 0, 11, BIT(VMEXIT_MSR), 0, 0)      \
	X(wrmsr, "mov $0xc0000082,%ecx\n wrmsr", 2, VMEXIT_MSR, 1, 11, BIT(VMEXIT_MSR), 0, 0)      \
	X(rdmsrx, "mov $0x4b564d01,%ecx\n rdmsr", 2, VMEXIT_MSR, 0, 11, BIT(VMEXIT_MSR), 0, 0)     \
	I(sidt, "sidt (%rdi)", 3, VMEXIT_IDTR_READ)                                                \
	I(sgdt, "sgdt (%rdi)", 3, VMEXIT_GDTR_READ)                                                \
	I(lidt, "lidt (%rdi)", 3, VMEXIT_IDTR_WRITE)                                               \
	I(lgdt, "lgdt (%rdi)", 3, VMEXIT_GDTR_WRITE)                                               \
	I(sldt, "sldt %ebx", 3, VMEXIT_LDTR_READ)                                                  \
	I(lldt, "lldt %bx", 3, VMEXIT_LDTR_WRITE)                                                  \
	I(str, "str %ebx", 3, VMEXIT_TR_READ)                                                      \
	I(ltr, "ltr %bx", 3, VMEXIT_TR_WRITE)                                                      \
	I(vmrun, "vmrun", 3, VMEXIT_VMRUN)                                                         \
	I(vmmcall, "vmmcall", 3, VMEXIT_VMMCALL)                                                   \
	I(vmload, "vmload", 3, VMEXIT_VMLOAD)                                                      \
	I(vmsave, "vmsave", 3, VMEXIT_VMSAVE)                                                      \
	I(stgi, "stgi", 3, VMEXIT_STGI)                                                            \
	I(clgi, "clgi", 3, VMEXIT_CLGI)                                                            \
	X(ud2, "ud2", 0, VMEXIT_EXCP + 6, 0, 6, 0, 0, 1 << 6)                                      \
	X(div, "xor %ecx,%ecx\n div %ecx", 0, VMEXIT_EXCP + 0, 0, 8, 0, 0, 1 << 0)                 \
	X(gp, "mov $0x8000000000000000,%rbx\n mov (%rbx),%eax", 0, VMEXIT_EXCP + 13, 0, 16, 0, 0,  \
	  1 << 13)                                                                                 \
	X(pf, "mov %eax,0x8000000(%rdi)", 0, VMEXIT_EXCP + 14, 2, 6, 0, 0, 1 << 14)

#define ONE_CODE(name, text, ...) CASE(i_##name, text);
ONES(ONE_CODE, ONE_CODE)

static const struct one {
	const uint8_t *guest, *end;
	const char *name;
	unsigned int len;
	uint64_t code, info1;
	unsigned int at;	     /* offset of the instruction */
	uint64_t icpt, crdr, except; /* crdr: as the first 8 bytes of the VMCB */
} ones[] = {
#define ONE(name, text, n, ...)	      {i_##name, i_##name##_end, #name, n, __VA_ARGS__},
#define ONE_ICPT(name, text, n, code) ONE(name, text, n, code, 0, 6, BIT(code), 0, 0)
	ONES(ONE, ONE_ICPT)};

/* Intercepted, each ends the guest before the instruction. The host's state is as before. */
Test(emu_svm, each_intercept)
{
	start();
	memset(b.ram + IOPM, 0xff, 0x4000); /* with the MSRs' */
	memset(b.ram + MSRPM, 0xff, 0x2000);
	for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
		const struct one *o = &ones[i];

		host(g_run, g_run_end, IF);
		guest(o->guest, o->end);
		ctl()->icpt[0] |= (uint32_t)o->icpt;
		ctl()->icpt[1] |= (uint32_t)(o->icpt >> 32);
		ctl()->exceptions = (uint32_t)o->except;
		memcpy(ctl(), &o->crdr, 8);
		run();
		expect(o->name, o->code, o->info1, L2 + o->at, o->code == VMEXIT_HLT ? 1 : o->len);
		cr_expect_eq(b.r.rax, VMCB, "%s", o->name);
		cr_expect_eq(b.r.rsp, BED_STACK, "%s", o->name);
		cr_expect_eq(b.r.rflags & IF, IF, "%s", o->name);
		cr_expect(vcpu()->gif_clear, "%s", o->name);
		cr_expect_eq(ctl()->exit_int_info, 0, "%s", o->name);
		if (o->code == VMEXIT_IOIO)
			cr_expect_eq(ctl()->exit_info2, L2 + o->at + o->len, "%s", o->name);
		if (o->code == VMEXIT_EXCP + 14) {
			cr_expect_eq(ctl()->exit_info2, 0x8340000);
			cr_expect_eq(save()->cr2, 0, "an intercepted #PF has set CR2");
			cr_expect_eq(ctl()->insn_bytes_fetched, 15);
			cr_expect(!memcmp(ctl()->insn_bytes, b.ram + L2 + 6, 15));
		}
	}
}

/* Not intercepted, the same instruction exits no more: the guest's own HLT, or handler, does. */
Test(emu_svm, only_what_is_intercepted)
{
	start();
	memset(b.ram + IOPM, 0, 0x6000);
	for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
		const struct one *o = &ones[i];
		bool out = false;

		if (o->code == VMEXIT_HLT || o->code == VMEXIT_VMRUN)
			continue;
		host(g_run, g_run_end, 0);
		guest(o->guest, o->end);
		if (o->code == VMEXIT_MSR || o->code == VMEXIT_IOIO)
			ctl()->icpt[0] |= (uint32_t)o->icpt;
		/* IN, OUT, RDPMC and some MSRs go to the VMM; the rest of the vCPU stays. */
		while (bed_run(&b, 100000) != VMM_EXIT_HLT) {
			cr_assert(b.run.exit == VMM_EXIT_IO || b.run.exit == VMM_EXIT_RDPMC ||
					  b.run.exit == VMM_EXIT_RDMSR ||
					  b.run.exit == VMM_EXIT_WRMSR,
				  "%s: exit %d %s", o->name, b.run.exit,
				  b.run.exit == VMM_EXIT_ERROR ? b.run.u.error.msg : "");
			b.run.u.msr.fault = b.run.u.pmc.fault = false;
			out = true;
		}
		if (strcmp(o->name, "rdmsrx")) {
			cr_expect_eq(ctl()->exit_code, VMEXIT_HLT, "%s: 0x%lx", o->name,
				     ctl()->exit_code);
			cr_expect_eq(out, o->code == VMEXIT_IOIO || o->code == VMEXIT_RDPMC, "%s",
				     o->name);
		} else { /* outside of the map's ranges it is always intercepted */
			cr_expect_eq(ctl()->exit_code, VMEXIT_MSR);
		}
	}
}

/* #GP of a program comes before the intercept; VMMCALL has no such check. */
Test(emu_svm, at_cpl_3)
{
	start();
	for (int call = 0; call < 2; call++) {
		host(g_run, g_run_end, 0);
		guest(call ? i_vmmcall : i_cr3w, call ? i_vmmcall_end : i_cr3w_end);
		save()->cpl = 3;
		save()->cs = (struct vmcb_seg){BED_CS3, 0xafb, ~0u, 0};
		save()->ss = (struct vmcb_seg){BED_SS3, 0xcf3, ~0u, 0};
		ctl()->cr_write = 0xffff;
		ctl()->exceptions = 1u << 13;
		ctl()->icpt[1] |= 2;
		run();
		expect(call ? "vmmcall" : "cr3w", call ? VMEXIT_VMMCALL : VMEXIT_EXCP + 13, 0, AT,
		       call ? 3 : 0);
		cr_expect_eq(save()->cpl, 3);
	}
}

/* ---- invalid VMCBs ---- */

static const struct bad {
	const char *name;
	size_t at;
	unsigned int bytes;
	uint64_t value;
} bads[] = {
#define CTL(f, v)                                                                                  \
	{                                                                                          \
#f, offsetof(struct vmcb_control, f), sizeof(((struct vmcb_control *)0)->f), v     \
	}
#define SAVE(f, v)                                                                                 \
	{                                                                                          \
#f, VMCB_SAVE + offsetof(struct vmcb_save, f), sizeof(((struct vmcb_save *)0)->f), \
			v                                                                          \
	}
	CTL(asid, 0),
	CTL(asid, VMM_SVM_ASIDS),
	CTL(icpt[1], 0),
	CTL(iopm, 1ULL << 40),
	CTL(iopm, (1ULL << 40) - 0x2000),
	CTL(msrpm, (1ULL << 40) - 0x1000),
	CTL(event_inj, VMCB_EVENT_VALID | 1 << 8),
	CTL(event_inj, VMCB_EVENT_VALID | 5 << 8),
	CTL(event_inj, VMCB_EVENT_VALID | 3 << 8 | 2),
	CTL(event_inj, VMCB_EVENT_VALID | 3 << 8 | 32),
	SAVE(efer, 0xd01),
	SAVE(efer, SVME | 0xd01 | 1 << 16),
	SAVE(cr0, 0xa0010033),
	SAVE(cr0, 0x180010033),
	SAVE(cr0, 0x80010032),
	SAVE(cr3, 1ULL << 40),
	SAVE(cr4, 0),
	SAVE(cr4, 0x20 | 1 << 12),
	SAVE(dr6, 1ULL << 32),
	SAVE(dr7, 1ULL << 32),
	SAVE(cs.attrib, 0xe9b),
};

/* Each is -1, the guest does not begin, and nothing of the VMCB but the code changes. */
Test(emu_svm, invalid)
{
	start();
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++) {
		const struct bad *x = &bads[i];
		uint8_t before[4096];

		WORLDS(g_run, 0, g_nop);
		memcpy(b.ram + VMCB + x->at, &x->value, x->bytes);
		memcpy(before, b.ram + VMCB, 4096);
		run();
		cr_expect_eq(ctl()->exit_code, VMEXIT_INVALID, "%s = 0x%lx: 0x%lx", x->name,
			     x->value, ctl()->exit_code);
		ctl()->exit_code = 0;
		cr_expect(!memcmp(before, b.ram + VMCB, 4096), "%s", x->name);
		cr_expect(vcpu()->gif_clear);
	}
	/* Nested paging has two more. */
	for (int pat = 0; pat < 2; pat++) {
		WORLDS(g_run, 0, g_nop);
		ctl()->nested_ctl = 1;
		ctl()->ncr3 = pat ? NPT : 1ULL << 40;
		save()->g_pat = pat ? 2 : save()->g_pat;
		run();
		cr_expect_eq(ctl()->exit_code, VMEXIT_INVALID, "pat %d", pat);
	}
}

/* RAX that is no page of RAM, EFER.SVME clear, CPL 3: exceptions of the host. */
Test(emu_svm, faults_of_vmrun)
{
	static const uint64_t addresses[] = {VMCB + 8, BED_RAM, 1ULL << 40, ~0xfffULL};

	start();
	for (unsigned int i = 0; i < 4; i++) {
		host(g_run, g_run_end, 0);
		BED_REGS(&b, .rax = addresses[i]);
		cr_expect_eq(bed_run_to_hlt(&b), EMU_GP, "rax 0x%lx", addresses[i]);
	}
	cr_expect_eq(BED_RERUN(&b, g_run, false), EMU_UD);
	bed_load(&b, g_run, g_run_end, true);
	BED_SREGS(&b, s.efer |= SVME);
	cr_expect_eq(bed_run_to_hlt(&b), EMU_GP);
}

/* ---- what is not modelled ---- */

CASE(e_avx512, "vaddps %zmm0,%zmm1,%zmm2");

/* It ends the VM with a message, in a guest as outside. */
Test(emu_svm, not_modelled)
{
	static const char *const why[] = {"32-bit paging", "virtual-8086 mode",
					  "16- or 32-bit code at CPL 3",
					  "injected into protected mode", "vaddps"};

	for (size_t i = 0; i < sizeof(why) / sizeof(why[0]); i++) {
		start();
		WORLDS(g_run, 0, e_avx512);
		switch (i) {
		case 0:
			save()->efer = SVME;
			break;
		case 1:
			save()->rflags |= EMU_VM;
			break;
		case 2:
			save()->cs.attrib = 0xcfb;
			save()->cpl = 3;
			break;
		case 3:
			save()->cs.attrib = 0xc9b;
			save()->cr0 = 0x11;
			save()->efer = SVME;
			ctl()->event_inj = VMCB_EVENT_VALID | 0x60;
			break;
		}
		cr_assert_eq(bed_run(&b, 1000), VMM_EXIT_ERROR, "%s: exit %d", why[i], b.run.exit);
		cr_expect(strstr(b.run.u.error.msg, why[i]), "%s: %s", why[i], b.run.u.error.msg);
	}
}
