// SPDX-License-Identifier: GPL-2.0-or-later
/* SVM in the emulator: nested paging and ASIDs, the clock and MSRs of a guest, a CPU without
 * it. */
#include "svm_cases.h"

TestSuite(emu_svm_memory, .fini = bed_end);

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

Test(emu_svm_memory, nested_paging)
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
		WORLDS(g_run, 0, m_load);
		nested();
		memcpy(b.ram + 0x360000, b.ram + BED_PML4, 4096);
		save()->cr3 = 0x360000;
		*npte(0x360000) = there ? 0x360005 : 0;
		run();
		expect("table", VMEXIT_NPF, 1ULL << 33 | 6 | (there ? 1 : 0), L2, 0);
		cr_expect_eq(ctl()->exit_info2, 0x360000);
	}
	/* Delivery through an IDT that is not there. */
	WORLDS(g_run, 0, i_ud2);
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
Test(emu_svm_memory, asids)
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
		BED_REGS(&b, .r8 = invlpga ? 0 : c[i].tlb_control,
			 .r9 = invlpga ? (i == 5 ? 1 : 3) : c[i].asid);
		run();
		cr_expect_eq(ctl()->exit_code, VMEXIT_HLT);
		cr_expect_eq(b.r.rcx, 0x4444, "%u: 0x%llx", i, b.r.rcx);
		cr_expect_eq(b.r.rbx, fresh ? 0x5555 : 0x4444, "%u: 0x%llx", i, b.r.rbx);
	}
}

/* ---- clocks, MSRs ---- */

BED_GUEST(g_tsc, "rdtsc\n shl $32,%rdx\n or %rax,%rdx\n mov %rdx,%rbx\n mov $0x10,%ecx\n rdmsr\n"
		 "shl $32,%rdx\n or %rax,%rdx\n hlt");
BED_GUEST(h_tsc, "vmrun\n rdtsc\n hlt");

Test(emu_svm_memory, tsc_offset)
{
	start();
	WORLDS(h_tsc, 0, g_tsc);
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
Test(emu_svm_memory, irperf)
{
	start();
	for (int i = 0; i < 2; i++) {
		WORLDS(h_irperf, 0, g_irperf);
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

Test(emu_svm_memory, msrs)
{
	struct vmcb_save *out;

	start();
	cr_expect_eq(BED_RERUN(&b, h_msr, false), -1);
	cr_expect_eq(b.r.rbx, 0x77000);
	cr_expect_eq(b.r.rax, 0x18);
	/* Disabled and locked: EFER.SVME is reserved. */
	cr_expect_eq(BED_RERUN(&b, h_efer, false), EMU_GP);
	start();
	cr_expect_eq(BED_RERUN(&b, h_hsave, false), EMU_GP);
	cr_expect_eq(BED_RERUN(&b, h_efer, false), -1);
	cr_expect(vcpu()->efer & SVME);
	/* VMLOAD and VMSAVE. */
	WORLDS(h_vmsave, 0, g_nop);
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

/* ---- without SVM ---- */

BED_GUEST(n_vmrun, "vmrun");
BED_GUEST(n_stgi, "stgi");
BED_GUEST(n_invlpga, "invlpga");
BED_GUEST(n_vmmcall, "vmmcall\n hlt");

/* A CPU that does not show it has none of it: #UD, and #GP for EFER.SVME. */
Test(emu_svm_memory, off)
{
	struct kvm_cpuid_entry2 whole = {.function = 1, .edx = 7u << 24};
	static const uint8_t *const code[] = {n_vmrun, n_stgi, n_invlpga};

	BED_START(&b, g_nop, false);
	cr_assert_eq(o->set_cpuid(b.v, &whole, 1), 0);
	cr_expect_eq(BED_RERUN(&b, h_efer, false), EMU_GP);
	for (unsigned int i = 0; i < 3; i++) {
		bed_load(&b, code[i], code[i] + 3, false);
		cr_expect_eq(bed_run_to_hlt(&b), EMU_UD);
	}
	cr_expect_eq(BED_RERUN(&b, n_vmmcall, false), -1);
	cr_expect_eq(b.r.rax, (uint64_t)-1000);
	cr_expect(!vcpu()->svm);
}
