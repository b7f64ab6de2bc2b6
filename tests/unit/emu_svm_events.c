// SPDX-License-Identifier: GPL-2.0-or-later
/* SVM in the emulator: events that are injected, arrive, or wait; guests in real mode. */
#include "svm_cases.h"

TestSuite(emu_svm_events, .fini = bed_end);

#define MASK VMCB_V_INTR_MASKING

/* ---- events ---- */

static uint64_t pushed(unsigned int i)
{
	return *bed_u64(&b, save()->rsp + i * 8);
}

/* EVENTINJ comes before the guest's first instruction, with interrupts disabled, too. */
Test(emu_svm_events, injection)
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
		WORLDS(g_run, 0, g_nop);
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
Test(emu_svm_events, exit_in_delivery)
{
	static const uint64_t e[] = {VMCB_TYPE_INTR << 8 | 0x60,
				     VMCB_TYPE_EXCEPTION << 8 | 13 | VMCB_EVENT_ERROR | 7ULL << 32,
				     VMCB_TYPE_SOFT << 8 | 0x90};

	start();
	for (size_t i = 0; i < 3; i++) {
		WORLDS(g_run, 0, g_nop);
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
		WORLDS(g_run, 0, i_ud2);
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
	bed_arrives(&b, vector);
}

BED_GUEST(g_spin, "1: jmp 1b");
BED_GUEST(g_sti, "sti\n nop\n nop\n 1: jmp 1b");
BED_GUEST(g_stgi, "vmrun\n stgi\n nop\n hlt");

/* A physical interrupt ends the guest by the host's IF (V_INTR_MASKING), or by its own. It is not
 * taken: the host does that after STGI. */
Test(emu_svm_events, physical)
{
	for (int i = 0; i < 8; i++) {
		bool masking = i & 1, host_if = i & 2, guest_if = i & 4;
		bool open = masking ? host_if : guest_if;

		start();
		WORLDS(g_stgi, host_if ? IF : 0, g_spin);
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
	WORLDS(g_run, 0, g_sti);
	arrives(0x70);
	run();
	expect("guest's", VMEXIT_HLT, 0, BED_HANDLERS + 0x70, 1);
	cr_expect_eq(pushed(0), L2 + 2, "behind the shadow of STI");
}

/* NMIs: whatever the flags, and held while GIF is 0. */
Test(emu_svm_events, nmi)
{
	for (int icpt = 0; icpt < 2; icpt++) {
		start();
		WORLDS(g_stgi, 0, g_spin);
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
	WORLDS(g_run, IF, g_nop);
	run();
	o->nmi(b.v);
	o->interrupt(b.v, 0x70);
	cr_expect_eq(bed_run(&b, 100), VMM_EXIT_HLT);
	cr_expect(vcpu()->nmi_pending && vcpu()->intr_pending && vcpu()->gif_clear);
}

#define VIRQ(prio) (VMCB_V_IRQ | (prio) << VMCB_V_PRIO_SHIFT)
BED_GUEST(g_cr8,
	  "mov $5,%eax\n mov %rax,%cr8\n sti\n nop\n nop\n mov $3,%eax\n mov %rax,%cr8\n nop\n"
	  "1: jmp 1b");
BED_GUEST(g_cr8r, "mov %cr8,%rbx\n mov $7,%eax\n mov %rax,%cr8\n hlt");

/* A virtual interrupt waits for IF and V_TPR. */
Test(emu_svm_events, virtual_interrupt)
{
	for (int window = 0; window < 2; window++) {
		start();
		WORLDS(g_run, 0, g_cr8);
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
	WORLDS(g_run, 0, g_cr8);
	ctl()->int_ctl = MASK | VIRQ(4) | VMCB_V_IGN_TPR;
	ctl()->int_vector = 0x44;
	run();
	cr_expect_eq(pushed(0), L2 + 11);
	/* V_TPR is the guest's CR8, with masking only. */
	for (int masking = 1; masking >= 0; masking--) {
		WORLDS(g_run, 0, g_cr8r);
		ctl()->int_ctl = (masking ? MASK : 0) | 2;
		run();
		cr_expect_eq(b.r.rbx, masking ? 2 : 0);
		cr_expect_eq(ctl()->int_ctl & 0xff, masking ? 7 : 2);
		cr_expect_eq(vcpu()->cr8, masking ? 0 : 7);
	}
}

/* The interrupt shadow goes in and comes out. */
Test(emu_svm_events, shadow)
{
	start();
	WORLDS(g_run, IF, g_nop);
	save()->rflags |= IF;
	ctl()->int_state = 1;
	ctl()->icpt[0] |= 1;
	arrives(0x70);
	run();
	expect("shadow", VMEXIT_INTR, 0, L2 + 1, 0);
	cr_expect_eq(ctl()->int_state, 0);
	WORLDS(g_run, 0, g_nop);
	memcpy(b.ram + L2, "\xfb\xf4", 2); /* STI, HLT */
	run();
	expect("sti", VMEXIT_HLT, 0, L2 + 1, 1);
	cr_expect_eq(ctl()->int_state, 1);
}

/* ---- real mode ---- */

BED_GUEST(r_code, ".code16\nnop\n hlt\n.code64");

static void real_guest(void)
{
	start();
	WORLDS(g_run, 0, r_code);
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
Test(emu_svm_events, injection_into_real_mode)
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
Test(emu_svm_events, shadow_of_real_mode)
{
	real_guest();
	ctl()->int_state = VMCB_SHADOW;
	run();
	expect("shadow", VMEXIT_HLT, 0, 0x231, 1);
	cr_expect_eq(ctl()->int_state, 0);
}

/* Intercepts of instructions that have another name there, and of INT with its vector. */
Test(emu_svm_events, intercepts_of_real_mode)
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
