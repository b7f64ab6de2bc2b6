// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SVM in the emulator: a hypervisor of two instructions (VMRUN, HLT) runs one guest after the
 * other. Each case says what the guest executes, what the VMCB intercepts, and how it exits.
 */
#include "svm_bed.h"

TestSuite(emu_svm, .fini = bed_end);

#define NPT  0x110000ULL /* four tables: identity of the first 4 MiB, by 4 KiB from 2 MiB on */
#define MASK VMCB_V_INTR_MASKING

BED_GUEST(g_run, "vmrun\n hlt");
BED_GUEST(g_nop, "nop\n nop\n hlt");

/* Run the host until its HLT behind VMRUN. */
static void run(void)
{
	cr_assert_eq(bed_run_to_hlt(&b), -1, "handler at 0x%llx", b.r.rip);
	cr_assert(!vcpu()->guest);
}

static void expect(const char *name, uint64_t code, uint64_t info1, uint64_t rip, unsigned int len)
{
	cr_expect_eq(ctl()->exit_code, code, "%s: exit 0x%lx", name, ctl()->exit_code);
	cr_expect_eq(ctl()->exit_info1, info1, "%s: info1 0x%lx", name, ctl()->exit_info1);
	cr_expect_eq(save()->rip, rip, "%s: rip 0x%lx", name, save()->rip);
	cr_expect_eq(ctl()->next_rip, len ? rip + len : 0, "%s: next rip 0x%lx", name,
		     ctl()->next_rip);
}

/* Two instructions before the one in question, so that its address is not the guest's first. */
#define CASE(name, ...) BED_GUEST(name, "mov $0x340000,%edi\n nop\n" __VA_ARGS__ "\n hlt")
#define AT		(L2 + 6)

CASE(i_cr0r, "mov %cr0,%rbx");
CASE(i_cr3r, "mov %cr3,%r9");
CASE(i_cr0w, "mov $0x80010033,%eax\n mov %rax,%cr0");
CASE(i_cr0sel, "mov $0x80010013,%eax\n mov %rax,%cr0");
CASE(i_cr0ts, "mov $0x8001003b,%eax\n mov %rax,%cr0");
CASE(i_cr3w, "mov %rax,%cr3");
CASE(i_cr4w, "mov %r10,%cr4");
CASE(i_cr8w, "mov %rsi,%cr8");
CASE(i_xsetbv, "mov $0x40020,%eax\n mov %rax,%cr4\n mov $1,%eax\n xor %edx,%edx\n xor %ecx,%ecx\n"
	       "xsetbv");
CASE(i_clts, "clts");
CASE(i_lmsw, "mov $3,%ebx\n lmsw %bx");
CASE(i_smsw, "smsw %ebx");
CASE(i_dr0w, "mov %rcx,%dr0");
CASE(i_dr7r, "mov %dr7,%rdx");
CASE(i_rdtsc, "rdtsc");
CASE(i_rdtscp, "rdtscp");
CASE(i_rdpmc, "rdpmc");
CASE(i_pushf, "pushfq");
CASE(i_popf, "popfq");
CASE(i_cpuid, "cpuid");
CASE(i_iret, "iretq");
CASE(i_int, "int $0x81");
CASE(i_int3, "int3");
CASE(i_invd, "invd");
CASE(i_wbinvd, "wbinvd");
CASE(i_pause, "pause");
CASE(i_hlt, "hlt");
CASE(i_invlpg, "invlpg 0x10(%rdi)");
CASE(i_invlpga, "invlpga");
CASE(i_inb, "inb $0x70,%al");
CASE(i_outw, "outw %ax,$0x71");
CASE(i_outl, "outl %eax,$0x80");
CASE(i_rdmsr, "mov $0xc0000081,%ecx\n rdmsr");
CASE(i_wrmsr, "mov $0xc0000082,%ecx\n wrmsr");
CASE(i_rdmsrx, "mov $0x4b564d01,%ecx\n rdmsr");
CASE(i_sidt, "sidt (%rdi)");
CASE(i_sgdt, "sgdt (%rdi)");
CASE(i_lidt, "lidt (%rdi)");
CASE(i_lgdt, "lgdt (%rdi)");
CASE(i_sldt, "sldt %ebx");
CASE(i_lldt, "lldt %bx");
CASE(i_str, "str %ebx");
CASE(i_ltr, "ltr %bx");
CASE(i_vmrun, "vmrun");
CASE(i_vmmcall, "vmmcall");
CASE(i_vmload, "vmload");
CASE(i_vmsave, "vmsave");
CASE(i_stgi, "stgi");
CASE(i_clgi, "clgi");
CASE(i_ud2, "ud2");
CASE(i_div, "xor %ecx,%ecx\n div %ecx");
CASE(i_gp, "mov $0x8000000000000000,%rbx\n mov (%rbx),%eax");
CASE(i_pf, "mov %eax,0x8000000(%rdi)");

#define C(name, n) i_##name, i_##name##_end, #name, n
#define BIT(n)	   (1ULL << ((n)-VMEXIT_INTR))
#define I(name, len, code)                                                                         \
	{                                                                                          \
		C(name, len), code, 0, 6, BIT(code), 0, 0                                          \
	}
#define MOV (1ULL << 63)

static const struct one {
	const uint8_t *guest, *end;
	const char *name;
	unsigned int len;
	uint64_t code, info1;
	unsigned int at;	     /* offset of the instruction */
	uint64_t icpt, crdr, except; /* crdr: as the first 8 bytes of the VMCB */
} ones[] = {
	{C(cr0r, 3), VMEXIT_CR_READ, MOV | 3, 6, 0, 1, 0},
	{C(cr3r, 4), VMEXIT_CR_READ + 3, MOV | 9, 6, 0, 8, 0},
	{C(cr0w, 3), VMEXIT_CR_WRITE, MOV, 11, 0, 1 << 16, 0},
	{C(cr0sel, 3), VMEXIT_CR0_SEL_WRITE, MOV, 11, BIT(VMEXIT_CR0_SEL_WRITE), 0, 0},
	{C(cr0ts, 0), VMEXIT_HLT, 0, 14, BIT(VMEXIT_CR0_SEL_WRITE), 0, 0},
	{C(cr3w, 3), VMEXIT_CR_WRITE + 3, MOV, 6, 0, 8 << 16, 0},
	{C(cr4w, 4), VMEXIT_CR_WRITE + 4, MOV | 10, 6, 0, 16 << 16, 0},
	{C(cr8w, 4), VMEXIT_CR_WRITE + 8, MOV | 6, 6, 0, 256 << 16, 0},
	{C(clts, 2), VMEXIT_CR_WRITE, 0, 6, 0, 1 << 16, 0},
	{C(lmsw, 3), VMEXIT_CR0_SEL_WRITE, 0, 11, BIT(VMEXIT_CR0_SEL_WRITE), 0, 0},
	{C(smsw, 3), VMEXIT_CR_READ, 0, 6, 0, 1, 0},
	{C(dr0w, 3), VMEXIT_DR_WRITE, 1, 6, 0, 1ULL << 48, 0},
	{C(dr7r, 3), VMEXIT_DR_READ + 7, 2, 6, 0, 128ULL << 32, 0},
	I(rdtsc, 2, VMEXIT_RDTSC),
	I(rdtscp, 3, VMEXIT_RDTSCP),
	I(rdpmc, 2, VMEXIT_RDPMC),
	{C(xsetbv, 3), VMEXIT_XSETBV, 0, 23, BIT(VMEXIT_XSETBV), 0, 0},
	I(pushf, 1, VMEXIT_PUSHF),
	I(popf, 1, VMEXIT_POPF),
	I(cpuid, 2, VMEXIT_CPUID),
	I(iret, 2, VMEXIT_IRET),
	{C(int, 2), VMEXIT_SWINT, 0x81, 6, BIT(VMEXIT_SWINT), 0, 0},
	{C(int3, 1), VMEXIT_EXCP + 3, 0, 6, 0, 0, 8},
	I(invd, 2, VMEXIT_INVD),
	I(wbinvd, 2, VMEXIT_WBINVD),
	I(pause, 2, VMEXIT_PAUSE),
	I(hlt, 1, VMEXIT_HLT),
	{C(invlpg, 4), VMEXIT_INVLPG, 0x340010, 6, BIT(VMEXIT_INVLPG), 0, 0},
	I(invlpga, 3, VMEXIT_INVLPGA),
	{C(inb, 2), VMEXIT_IOIO, 0x700211, 6, BIT(VMEXIT_IOIO), 0, 0},
	{C(outw, 3), VMEXIT_IOIO, 0x710220, 6, BIT(VMEXIT_IOIO), 0, 0},
	{C(rdmsr, 2), VMEXIT_MSR, 0, 11, BIT(VMEXIT_MSR), 0, 0},
	{C(wrmsr, 2), VMEXIT_MSR, 1, 11, BIT(VMEXIT_MSR), 0, 0},
	{C(rdmsrx, 2), VMEXIT_MSR, 0, 11, BIT(VMEXIT_MSR), 0, 0},
	I(sidt, 3, VMEXIT_IDTR_READ),
	I(sgdt, 3, VMEXIT_GDTR_READ),
	I(lidt, 3, VMEXIT_IDTR_WRITE),
	I(lgdt, 3, VMEXIT_GDTR_WRITE),
	I(sldt, 3, VMEXIT_LDTR_READ),
	I(lldt, 3, VMEXIT_LDTR_WRITE),
	I(str, 3, VMEXIT_TR_READ),
	I(ltr, 3, VMEXIT_TR_WRITE),
	I(vmrun, 3, VMEXIT_VMRUN),
	I(vmmcall, 3, VMEXIT_VMMCALL),
	I(vmload, 3, VMEXIT_VMLOAD),
	I(vmsave, 3, VMEXIT_VMSAVE),
	I(stgi, 3, VMEXIT_STGI),
	I(clgi, 3, VMEXIT_CLGI),
	{C(ud2, 0), VMEXIT_EXCP + 6, 0, 6, 0, 0, 1 << 6},
	{C(div, 0), VMEXIT_EXCP + 0, 0, 8, 0, 0, 1 << 0},
	{C(gp, 0), VMEXIT_EXCP + 13, 0, 16, 0, 0, 1 << 13},
	{C(pf, 0), VMEXIT_EXCP + 14, 2, 6, 0, 0, 1 << 14},
};

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

		host(g_run, g_run_end, 0);
		guest(g_nop, g_nop_end);
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
		host(g_run, g_run_end, 0);
		guest(g_nop, g_nop_end);
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
	struct kvm_sregs s;

	start();
	for (unsigned int i = 0; i < 4; i++) {
		host(g_run, g_run_end, 0);
		b.r.rax = addresses[i];
		vmm_emu_ops.set_regs(b.v, &b.r);
		cr_expect_eq(bed_run_to_hlt(&b), EMU_GP, "rax 0x%lx", addresses[i]);
	}
	bed_load(&b, g_run, g_run_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), EMU_UD);
	bed_load(&b, g_run, g_run_end, true);
	vmm_emu_ops.get_sregs(b.v, &s);
	s.efer |= SVME;
	cr_assert_eq(vmm_emu_ops.set_sregs(b.v, &s), 0);
	cr_expect_eq(bed_run_to_hlt(&b), EMU_GP);
}

/* ---- events ---- */

static uint64_t pushed(unsigned int i)
{
	return *bed_u64(&b, save()->rsp + i * 8);
}

/* EVENTINJ comes before the guest's first instruction, with interrupts disabled, too. */
Test(emu_svm, injection)
{
	static const struct {
		uint64_t event;
		unsigned int vec;
		bool err, next;
	} e[] = {
		{VMCB_TYPE_INTR << 8 | 0x60, 0x60, false, false},
		{VMCB_TYPE_NMI << 8, 2, false, false},
		{VMCB_TYPE_EXCEPTION << 8 | 6, 6, false, false},
		{VMCB_TYPE_EXCEPTION << 8 | 13 | VMCB_EVENT_ERROR | 0x1234ULL << 32, 13, true,
		 false},
		{VMCB_TYPE_EXCEPTION << 8 | 3, 3, false, true},
		{VMCB_TYPE_SOFT << 8 | 0x90, 0x90, false, true},
	};

	start();
	for (size_t i = 0; i < sizeof(e) / sizeof(e[0]); i++) {
		host(g_run, g_run_end, 0);
		guest(g_nop, g_nop_end);
		ctl()->exceptions = ~0u; /* an injected exception is not intercepted */
		ctl()->event_inj = e[i].event | VMCB_EVENT_VALID;
		ctl()->next_rip = L2 + 77;
		run();
		expect("inject", VMEXIT_HLT, 0, BED_HANDLERS + e[i].vec, 1);
		cr_expect_eq(ctl()->exit_int_info, 0);
		cr_expect_eq(ctl()->event_inj & VMCB_EVENT_VALID, 0, "%zu", i);
		if (e[i].err)
			cr_expect_eq(pushed(0), 0x1234);
		cr_expect_eq(pushed(e[i].err), e[i].next ? L2 + 77 : L2, "%zu: 0x%lx", i,
			     pushed(e[i].err));
	}
}

/* An exit in the delivery reports the event: the stack is not there. */
Test(emu_svm, exit_in_delivery)
{
	static const uint64_t e[] = {VMCB_TYPE_INTR << 8 | 0x60,
				     VMCB_TYPE_EXCEPTION << 8 | 13 | VMCB_EVENT_ERROR | 7ULL << 32,
				     VMCB_TYPE_SOFT << 8 | 0x90};

	start();
	for (size_t i = 0; i < 3; i++) {
		host(g_run, g_run_end, 0);
		guest(g_nop, g_nop_end);
		save()->rsp = 0x8000000;
		ctl()->exceptions = 1u << 14;
		ctl()->event_inj = e[i] | VMCB_EVENT_VALID;
		ctl()->next_rip = L2 + 9;
		run();
		expect("delivery", VMEXIT_EXCP + 14, 2, L2, 0);
		cr_expect_eq(ctl()->exit_int_info, e[i] | VMCB_EVENT_VALID, "0x%lx",
			     ctl()->exit_int_info);
		cr_expect_eq(ctl()->insn_bytes_fetched, 0);
	}
	/* The same of an instruction's own exception and of INT n. */
	for (int soft = 0; soft < 2; soft++) {
		host(g_run, g_run_end, 0);
		guest(soft ? i_int : i_ud2, soft ? i_int_end : i_ud2_end);
		save()->rsp = 0x8000000;
		ctl()->exceptions = 1u << 14;
		run();
		expect("own", VMEXIT_EXCP + 14, 2, AT, 0);
		cr_expect_eq(ctl()->exit_int_info,
			     VMCB_EVENT_VALID | (soft ? VMCB_TYPE_SOFT << 8 | 0x81
						      : VMCB_TYPE_EXCEPTION << 8 | 6),
			     "%d: 0x%lx", soft, ctl()->exit_int_info);
	}
	/* A triple fault is a shutdown: of the guest, or of the VM. */
	for (int icpt = 0; icpt < 2; icpt++) {
		host(g_run, g_run_end, 0);
		guest(i_ud2, i_ud2_end);
		save()->idtr.limit = 0;
		ctl()->icpt[0] |= icpt ? 1u << 31 : 0;
		cr_expect_eq(bed_run(&b, 1000), icpt ? VMM_EXIT_HLT : VMM_EXIT_SHUTDOWN);
		if (icpt)
			cr_expect_eq(ctl()->exit_code, VMEXIT_SHUTDOWN);
	}
}

/* An interrupt, or NMI, that the host holds off by GIF until it begins the guest. */
static void arrives(uint8_t vector)
{
	vcpu()->gif_clear = true;
	if (vector == 2)
		vmm_emu_ops.nmi(b.v);
	else
		vmm_emu_ops.interrupt(b.v, vector);
}

BED_GUEST(g_spin, "1: jmp 1b");
BED_GUEST(g_sti, "sti\n nop\n nop\n 1: jmp 1b");
BED_GUEST(g_stgi, "vmrun\n stgi\n nop\n hlt");

/* A physical interrupt ends the guest by the host's IF (V_INTR_MASKING), or by its own. It is not
 * taken: the host does that after STGI. */
Test(emu_svm, physical)
{
	for (int i = 0; i < 8; i++) {
		bool masking = i & 1, host_if = i & 2, guest_if = i & 4;
		bool open = masking ? host_if : guest_if;

		start();
		host(g_stgi, g_stgi_end, host_if ? IF : 0);
		guest(g_spin, g_spin_end);
		save()->rflags = 2 | (guest_if ? IF : 0);
		ctl()->icpt[0] |= 1;
		ctl()->int_ctl = masking ? MASK : 0;
		arrives(0x70);
		cr_expect_eq(bed_run(&b, 10000), open ? VMM_EXIT_HLT : VMM_EXIT_BUDGET, "%d", i);
		if (!open)
			continue;
		cr_expect_eq(ctl()->exit_code, VMEXIT_INTR, "%d: 0x%lx", i, ctl()->exit_code);
		cr_expect_eq(b.r.rip, host_if ? BED_HANDLERS + 0x71 : BED_CODE + 8, "%d: 0x%llx", i,
			     b.r.rip);
		cr_expect_eq(vcpu()->intr_pending, !host_if);
	}
	/* Not intercepted, it is the guest's. */
	start();
	host(g_run, g_run_end, 0);
	guest(g_sti, g_sti_end);
	arrives(0x70);
	run();
	expect("guest's", VMEXIT_HLT, 0, BED_HANDLERS + 0x70, 1);
	cr_expect_eq(pushed(0), L2 + 2, "behind the shadow of STI");
}

/* NMIs: whatever the flags, and held while GIF is 0. */
Test(emu_svm, nmi)
{
	for (int icpt = 0; icpt < 2; icpt++) {
		start();
		host(g_stgi, g_stgi_end, 0);
		guest(g_spin, g_spin_end);
		ctl()->icpt[0] |= icpt << 1;
		arrives(2);
		cr_expect_eq(bed_run_to_hlt(&b), icpt ? 2 : -1);
		cr_expect_eq(ctl()->exit_code, icpt ? VMEXIT_NMI : VMEXIT_HLT, "%d: 0x%lx", icpt,
			     ctl()->exit_code);
		if (icpt) /* behind STGI */
			cr_expect_eq(bed_stack(&b, 0), BED_CODE + 6);
	}
	/* With GIF 0 an interrupt and an NMI wait. */
	start();
	host(g_run, g_run_end, IF);
	guest(g_nop, g_nop_end);
	run();
	vmm_emu_ops.nmi(b.v);
	vmm_emu_ops.interrupt(b.v, 0x70);
	cr_expect_eq(bed_run(&b, 100), VMM_EXIT_HLT);
	cr_expect(vcpu()->nmi_pending && vcpu()->intr_pending && vcpu()->gif_clear);
}

#define VIRQ(prio) (VMCB_V_IRQ | (prio) << VMCB_V_PRIO_SHIFT)
BED_GUEST(g_cr8,
	  "mov $5,%eax\n mov %rax,%cr8\n sti\n nop\n nop\n mov $3,%eax\n mov %rax,%cr8\n nop\n"
	  "1: jmp 1b");
BED_GUEST(g_cr8r, "mov %cr8,%rbx\n mov $7,%eax\n mov %rax,%cr8\n hlt");

/* A virtual interrupt waits for IF and V_TPR. */
Test(emu_svm, virtual_interrupt)
{
	for (int window = 0; window < 2; window++) {
		start();
		host(g_run, g_run_end, 0);
		guest(g_cr8, g_cr8_end);
		ctl()->int_ctl = MASK | VIRQ(4);
		ctl()->int_vector = 0x44;
		ctl()->icpt[0] |= window << 4;
		run();
		if (window) {
			expect("window", VMEXIT_VINTR, 0, L2 + 21, 0);
			cr_expect(ctl()->int_ctl & VMCB_V_IRQ);
			cr_expect_eq(ctl()->int_ctl & 0xff, 3);
		} else {
			expect("virtual", VMEXIT_HLT, 0, BED_HANDLERS + 0x44, 1);
			cr_expect_eq(pushed(0), L2 + 21);
			cr_expect(!(ctl()->int_ctl & VMCB_V_IRQ));
		}
		cr_expect_eq(vcpu()->cr8, 0, "the host's CR8");
	}
	/* V_IGN_TPR */
	host(g_run, g_run_end, 0);
	guest(g_cr8, g_cr8_end);
	ctl()->int_ctl = MASK | VIRQ(4) | VMCB_V_IGN_TPR;
	ctl()->int_vector = 0x44;
	run();
	cr_expect_eq(pushed(0), L2 + 11);
	/* V_TPR is the guest's CR8, with masking only. */
	for (int masking = 1; masking >= 0; masking--) {
		host(g_run, g_run_end, 0);
		guest(g_cr8r, g_cr8r_end);
		ctl()->int_ctl = (masking ? MASK : 0) | 2;
		run();
		cr_expect_eq(b.r.rbx, masking ? 2 : 0);
		cr_expect_eq(ctl()->int_ctl & 0xff, masking ? 7 : 2);
		cr_expect_eq(vcpu()->cr8, masking ? 0 : 7);
	}
}

/* The interrupt shadow goes in and comes out. */
Test(emu_svm, shadow)
{
	start();
	host(g_run, g_run_end, IF);
	guest(g_nop, g_nop_end);
	save()->rflags |= IF;
	ctl()->int_state = 1;
	ctl()->icpt[0] |= 1;
	arrives(0x70);
	run();
	expect("shadow", VMEXIT_INTR, 0, L2 + 1, 0);
	cr_expect_eq(ctl()->int_state, 0);
	host(g_run, g_run_end, 0);
	guest(g_nop, g_nop_end);
	memcpy(b.ram + L2, "\xfb\xf4", 2); /* STI, HLT */
	run();
	expect("sti", VMEXIT_HLT, 0, L2 + 1, 1);
	cr_expect_eq(ctl()->int_state, 1);
}

/* ---- clocks, MSRs ---- */

BED_GUEST(g_tsc, "rdtsc\n shl $32,%rdx\n or %rax,%rdx\n mov %rdx,%rbx\n mov $0x10,%ecx\n rdmsr\n"
		 "shl $32,%rdx\n or %rax,%rdx\n hlt");
BED_GUEST(h_tsc, "vmrun\n rdtsc\n hlt");

Test(emu_svm, tsc_offset)
{
	start();
	host(h_tsc, h_tsc_end, 0);
	guest(g_tsc, g_tsc_end);
	ctl()->tsc_offset = 1ULL << 40;
	run();
	cr_expect_eq(b.r.rbx >> 40, 1);
	cr_expect_eq(b.r.rdx >> 8, 0, "the host's TSC has no offset");
	cr_expect_gt(b.r.rax, (uint32_t)b.r.rbx);
}

/* Two readings, with the guest between them. */
BED_GUEST(h_irperf, "mov %rax,%rsi\n mov $0xc00000e9,%ecx\n rdmsr\n mov %rax,%rbx\n"
		    "mov %rsi,%rax\n vmrun\n mov $0xc00000e9,%ecx\n rdmsr\n hlt");
BED_GUEST(g_irperf, "mov $1000,%ecx\n 1: dec %ecx\n jnz 1b\n hlt");

/* Instructions retired, in and outside of guests, whatever counters do; also over several run()s.
 */
Test(emu_svm, irperf)
{
	start();
	for (int i = 0; i < 2; i++) {
		host(h_irperf, h_irperf_end, 0);
		guest(g_irperf, g_irperf_end);
		run();
		/* RDMSR, two MOV, VMRUN; 2001 of the guest, whose HLT exits; MOV */
		cr_expect_eq(b.r.rax - b.r.rbx, 4 + 2001 + 1, "%llu",
			     (unsigned long long)(b.r.rax - b.r.rbx));
		cr_expect_eq(b.r.rbx, 2 + i * (2 + 2006 + 2), "%llu", (unsigned long long)b.r.rbx);
	}
}

BED_GUEST(
	h_msr,
	"mov $0x77000,%eax\n xor %edx,%edx\n mov $0xc0010117,%ecx\n wrmsr\n rdmsr\n mov %rax,%rbx\n"
	"mov $0xc0010114,%ecx\n mov $0x18,%eax\n wrmsr\n rdmsr\n hlt");
BED_GUEST(h_hsave, "mov $0x77001,%eax\n xor %edx,%edx\n mov $0xc0010117,%ecx\n wrmsr\n hlt");
BED_GUEST(h_efer, "mov $0xc0000080,%ecx\n rdmsr\n or $0x1000,%eax\n wrmsr\n hlt");
BED_GUEST(h_vmsave, "vmload\n add $0x1000,%rax\n vmsave\n hlt");

Test(emu_svm, msrs)
{
	struct vmcb_save *out;

	start();
	bed_load(&b, h_msr, h_msr_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), -1);
	cr_expect_eq(b.r.rbx, 0x77000);
	cr_expect_eq(b.r.rax, 0x18);
	/* Disabled and locked: EFER.SVME is reserved. */
	bed_load(&b, h_efer, h_efer_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), EMU_GP);
	start();
	bed_load(&b, h_hsave, h_hsave_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), EMU_GP);
	bed_load(&b, h_efer, h_efer_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), -1);
	cr_expect(vcpu()->efer & SVME);
	/* VMLOAD and VMSAVE. */
	host(h_vmsave, h_vmsave_end, 0);
	guest(g_nop, g_nop_end);
	save()->fs = (struct vmcb_seg){0x33, 0xc93, 0x12345, 0x123456789000};
	save()->gs.base = 0xffff888812345000;
	save()->tr = (struct vmcb_seg){0x40, 0x8b, 0x67, 0xfffffe0000001000};
	save()->kernel_gs_base = 0x0000800000000000; /* becomes canonical */
	save()->star = 0x23001000000000;
	save()->lstar = 0xffffffff81000000;
	save()->sfmask = 0x147700;
	save()->sysenter_cs = 0x10;
	run();
	out = (struct vmcb_save *)(b.ram + VMCB + 0x1000 + VMCB_SAVE);
	cr_expect(!memcmp(&out->fs, &save()->fs, sizeof(out->fs)));
	cr_expect(!memcmp(&out->tr, &save()->tr, sizeof(out->tr)));
	cr_expect_eq(out->gs.base, save()->gs.base);
	cr_expect_eq(out->kernel_gs_base, 0xffff800000000000);
	cr_expect_eq(out->star, save()->star);
	cr_expect_eq(out->lstar, save()->lstar);
	cr_expect_eq(out->sfmask, save()->sfmask);
	cr_expect_eq(out->sysenter_cs, 0x10);
}

/* ---- memory ---- */

/* Identity, but for the pages that the test changes. */
static void nested(void)
{
	bed_word *t = bed_u64(&b, NPT);

	t[0] = (NPT + 0x1000) | 7;
	t[512] = (NPT + 0x2000) | 7;
	t[1024] = BED_PS | 7;
	t[1025] = (NPT + 0x3000) | 7;
	for (uint64_t i = 0; i < 512; i++)
		t[1536 + i] = (0x200000 + i * 4096) | 7;
	ctl()->nested_ctl = 1;
	ctl()->ncr3 = NPT;
}

static bed_word *npte(uint64_t gpa)
{
	return bed_u64(&b, NPT + 0x3000 + (gpa - 0x200000) / 4096 * 8);
}

CASE(m_load, "mov (%rdi),%ebx");
CASE(m_store, "mov %ebx,(%rdi)");
CASE(m_fetch, "jmp *%rdi");

Test(emu_svm, nested_paging)
{
	static const struct {
		const uint8_t *guest, *end;
		uint64_t pte, info1; /* 0: no exit */
	} n[] = {
		{m_load, m_load_end, 0, 1ULL << 32 | 4},
		{m_load, m_load_end, 0x340003, 1ULL << 32 | 5},
		{m_load, m_load_end, 0x340005, 0},
		{m_store, m_store_end, 0x340005, 1ULL << 32 | 7},
		{m_store, m_store_end, 0x340007, 0},
		{m_fetch, m_fetch_end, 0x340007 | BED_NX, 1ULL << 32 | 0x15},
		{m_fetch, m_fetch_end, 0, 1ULL << 32 | 0x14},
		{m_load, m_load_end, 1ULL << 45 | 0x340007, 1ULL << 32 | 0xd}, /* reserved */
		{m_load, m_load_end, 0x350007, 0},			       /* to another page */
	};

	start();
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		bool fetch = n[i].guest == m_fetch;

		host(g_run, g_run_end, 0);
		guest(n[i].guest, n[i].end);
		nested();
		*npte(0x340000) = n[i].pte;
		*bed_u64(&b, 0x350000) = 0x5555;
		*bed_u64(&b, 0x340000) = 0x4444;
		run();
		if (!n[i].info1) {
			expect("npt", VMEXIT_HLT, 0, L2 + 8, 1);
			cr_expect_eq(*npte(0x340000) & BED_A, BED_A);
			cr_expect_eq(!!(*npte(0x340000) & BED_D), n[i].guest == m_store);
			if (n[i].pte >> 12 == 0x350)
				cr_expect_eq(b.r.rbx, 0x5555);
			continue;
		}
		expect("npf", VMEXIT_NPF, n[i].info1, fetch ? 0x340000 : L2 + 6, 0);
		cr_expect_eq(ctl()->exit_info2, 0x340000);
		cr_expect_eq(ctl()->insn_bytes_fetched, fetch ? 0 : 15);
		if (!fetch)
			cr_expect(!memcmp(ctl()->insn_bytes, b.ram + L2 + 6, 15));
	}
	/* Page tables of the guest in a page that is not there, or read-only. */
	for (int there = 0; there < 2; there++) {
		host(g_run, g_run_end, 0);
		guest(m_load, m_load_end);
		nested();
		memcpy(b.ram + 0x360000, b.ram + BED_PML4, 4096);
		save()->cr3 = 0x360000;
		*npte(0x360000) = there ? 0x360005 : 0;
		run();
		expect("table", VMEXIT_NPF, 1ULL << 33 | 6 | (there ? 1 : 0), L2, 0);
		cr_expect_eq(ctl()->exit_info2, 0x360000);
	}
	/* Delivery through an IDT that is not there. */
	host(g_run, g_run_end, 0);
	guest(i_ud2, i_ud2_end);
	nested();
	save()->idtr.base = 0x370000;
	*npte(0x370000) = 0;
	run();
	expect("idt", VMEXIT_NPF, 1ULL << 32 | 4, AT, 0);
	cr_expect_eq(ctl()->exit_info2, 0x370060);
	cr_expect_eq(ctl()->exit_int_info, VMCB_EVENT_VALID | VMCB_TYPE_EXCEPTION << 8 | 6);
}

BED_GUEST(g_asid, "mov 0x340000,%ebx\n hlt");
BED_GUEST(h_asid, "vmrun\n mov %rbx,%rcx\n"
		  "mov $0x350007,%edx\n mov %rdx,0x113a00\n" /* NPT: 340000H leads elsewhere */
		  "mov $0x220000,%edx\n mov %rdx,0x100578\n" /* the guest's RIP */
		  "mov %r8d,0x10005c\n mov %r9d,0x100058\n"  /* TLB_CONTROL, ASID */
		  "vmrun\n hlt");
BED_GUEST(h_invlpga, "vmrun\n mov %rbx,%rcx\n"
		     "mov $0x350007,%edx\n mov %rdx,0x113a00\n"
		     "mov $0x220000,%edx\n mov %rdx,0x100578\n"
		     "push %rcx\n push %rax\n mov $0x340000,%eax\n mov %r9d,%ecx\n invlpga\n pop "
		     "%rax\n pop %rcx\n"
		     "vmrun\n hlt");

/* Translations of an ASID live on until they are flushed: the old page, or the new one. */
Test(emu_svm, asids)
{
	static const struct {
		unsigned int tlb_control, asid;
		bool fresh;
	} c[] = {{0, 1, false}, {1, 1, true}, {3, 1, true}, {7, 1, true}, {0, 2, true}};

	for (unsigned int i = 0; i < 7; i++) {
		bool invlpga = i >= 5;
		bool fresh = invlpga ? i == 5 : c[i].fresh;

		start();
		if (invlpga)
			host(h_invlpga, h_invlpga_end, 0);
		else
			host(h_asid, h_asid_end, 0);
		guest(g_asid, g_asid_end);
		nested();
		*bed_u64(&b, 0x340000) = 0x4444;
		*bed_u64(&b, 0x350000) = 0x5555;
		b.r.r8 = invlpga ? 0 : c[i].tlb_control;
		b.r.r9 = invlpga ? (i == 5 ? 1 : 3) : c[i].asid;
		vmm_emu_ops.set_regs(b.v, &b.r);
		run();
		cr_expect_eq(ctl()->exit_code, VMEXIT_HLT);
		cr_expect_eq(b.r.rcx, 0x4444, "%u: 0x%llx", i, b.r.rcx);
		cr_expect_eq(b.r.rbx, fresh ? 0x5555 : 0x4444, "%u: 0x%llx", i, b.r.rbx);
	}
}

/* ---- real mode ---- */

BED_GUEST(r_code, ".code16\nnop\n hlt\n.code64");

static void real_guest(void)
{
	start();
	host(g_run, g_run_end, 0);
	guest(r_code, r_code_end);
	save()->efer = SVME;
	save()->cr0 = 0x10;
	save()->cs = (struct vmcb_seg){
		.selector = 0x500, .attrib = 0x9b, .limit = 0xffff, .base = 0x5000};
	save()->ss = (struct vmcb_seg){.attrib = 0x93, .limit = 0xffff};
	save()->idtr.base = 0x2000;
	save()->rip = 0x230;
	save()->rsp = 0x9000;
	save()->rflags = 0x202;
	memcpy(b.ram + 0x5230, r_code, 2);
}

/* An event is delivered by the interrupt table, in real mode as in 64-bit mode. */
Test(emu_svm, injection_into_real_mode)
{
	real_guest();
	save()->cs.selector = 0x1000;
	save()->cs.base = 0x10000;
	save()->rip = 0x77;
	memcpy(b.ram + 0x2000 + 0x60 * 4, (uint16_t[]){0x230, 0x500}, 4);
	ctl()->event_inj = VMCB_EVENT_VALID | 0x60;
	run();
	expect("real", VMEXIT_HLT, 0, 0x231, 1);
	cr_expect_eq(save()->cs.selector, 0x500);
	cr_expect_eq(save()->rflags & 0x200, 0);
	cr_expect_eq(save()->rsp, 0x8ffa);
	cr_expect(!memcmp(b.ram + 0x8ffa, (uint16_t[]){0x77, 0x1000, 0x202}, 6));
}

/* The first instruction ends an interrupt shadow there, too. */
Test(emu_svm, shadow_of_real_mode)
{
	real_guest();
	ctl()->int_state = VMCB_SHADOW;
	run();
	expect("shadow", VMEXIT_HLT, 0, 0x231, 1);
	cr_expect_eq(ctl()->int_state, 0);
}

/* Intercepts of instructions that have another name there, and of INT with its vector. */
Test(emu_svm, intercepts_of_real_mode)
{
	static const struct {
		const char *name;
		uint8_t code[3], len;
		uint64_t exit, info;
	} c[] = {{"iret", {0xcf}, 1, VMEXIT_IRET, 0},
		 {"iretd", {0x66, 0xcf}, 2, VMEXIT_IRET, 0},
		 {"pushf", {0x9c}, 1, VMEXIT_PUSHF, 0},
		 {"pushfd", {0x66, 0x9c}, 2, VMEXIT_PUSHF, 0},
		 {"popf", {0x9d}, 1, VMEXIT_POPF, 0},
		 {"popfd", {0x66, 0x9d}, 2, VMEXIT_POPF, 0},
		 {"int", {0xcd, 0x81}, 2, VMEXIT_SWINT, 0x81}};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		real_guest();
		memcpy(b.ram + 0x5230, c[i].code, sizeof(c[i].code));
		ctl()->icpt[0] |= 1u << (c[i].exit - VMEXIT_INTR);
		run();
		expect(c[i].name, c[i].exit, c[i].info, 0x230, c[i].len);
	}
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
		host(g_run, g_run_end, 0);
		guest(e_avx512, e_avx512_end);
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

/* ---- without SVM ---- */

BED_GUEST(n_vmrun, "vmrun");
BED_GUEST(n_stgi, "stgi");
BED_GUEST(n_invlpga, "invlpga");
BED_GUEST(n_vmmcall, "vmmcall\n hlt");

/* A CPU that does not show it has none of it: #UD, and #GP for EFER.SVME. */
Test(emu_svm, off)
{
	struct kvm_cpuid_entry2 whole = {.function = 1, .edx = 7u << 24};
	static const uint8_t *const code[] = {n_vmrun, n_stgi, n_invlpga};

	BED_START(&b, g_nop, false);
	cr_assert_eq(vmm_emu_ops.set_cpuid(b.v, &whole, 1), 0);
	bed_load(&b, h_efer, h_efer_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), EMU_GP);
	for (unsigned int i = 0; i < 3; i++) {
		bed_load(&b, code[i], code[i] + 3, false);
		cr_expect_eq(bed_run_to_hlt(&b), EMU_UD);
	}
	bed_load(&b, n_vmmcall, n_vmmcall_end, false);
	cr_expect_eq(bed_run_to_hlt(&b), -1);
	cr_expect_eq(b.r.rax, (uint64_t)-1000);
	cr_expect(!vcpu()->svm);
}
