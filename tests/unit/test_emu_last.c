// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AMD's record of the last branch (APM vol. 2, 13.1.6.1) and its switch between a host and its
 * guest (15.23.1). In programs it must equal the newest of the emulator's other branch records,
 * which test_emu_lbr.c checks; everything else is spelled out.
 */
#include <errno.h>

#include "emu_prog.h"
#include "svm_bed.h"
#include "vmm/emu/svm/svm.h"

TestSuite(emu_last, .fini = bed_end);

#define DEBUGCTL 0x1d9u
#define FREEZE	 0x1800ULL /* both bits of amd-v2 */
#define DROPPED	 0x3fULL

/* What run()'s caller keeps of DebugCtl, as vpmu/guest/amd.c does, and the writes it got. */
static struct {
	uint64_t debugctl, writes[8];
	unsigned int nr;
	unsigned int slice;
} m;

/* Run until HLT; the vector of its handler, or -1. */
static int go(void)
{
	struct vmm_run *run = &b.run;

	for (unsigned int i = 0; i < 10000; i++)
		switch (bed_run(&b, m.slice ? m.slice : 100000)) {
		case VMM_EXIT_BUDGET:
			break;
		case VMM_EXIT_RDMSR:
			run->u.msr.fault = run->u.msr.index != DEBUGCTL;
			run->u.msr.data = m.debugctl;
			break;
		case VMM_EXIT_WRMSR:
			run->u.msr.fault = run->u.msr.index != DEBUGCTL ||
					   run->u.msr.data & ~(FREEZE | DROPPED);
			if (run->u.msr.fault)
				break;
			m.debugctl = run->u.msr.data & FREEZE;
			m.writes[m.nr++ % 8] = run->u.msr.data;
			break;
		case VMM_EXIT_HLT:
			return b.r.rip > BED_HANDLERS && b.r.rip <= BED_HANDLERS + 256
				       ? (int)(b.r.rip - BED_HANDLERS - 1)
				       : -1;
		default:
			cr_assert_fail("exit %d: %s", run->exit, run->u.error.msg);
		}
	cr_assert_fail("no end");
	return -1;
}

static const uint64_t *last(void)
{
	return vcpu()->last.ip;
}

static void expect_last(const char *what, uint64_t from, uint64_t to, uint64_t int_from,
			uint64_t int_to)
{
	const uint64_t want[EMU_NR_LAST] = {from, to, int_from, int_to};

	for (unsigned int i = 0; i < EMU_NR_LAST; i++)
		cr_expect_eq(last()[i], want[i], "%s: MSR 0x%x is 0x%lx, not 0x%lx", what,
			     0x1db + i, last()[i], want[i]);
}

/* ---- the record ---- */

/* Beside a ring of all branches, and alone. Neither changes what is counted. */
Test(emu_last, the_newest_of_all)
{
	uint64_t ip[2][EMU_NR_LAST], rng = 5;

	for (uint64_t seed = 1; seed <= 100; seed++) {
		size_t n = prog_trace(seed);

		for (int ring = 1; ring >= 0; ring--) {
			prog_start(&b, seed);
			vcpu()->last.on = true;
			if (ring) {
				b.t.lbr.ctl =
					VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES;
				b.t.lbr.depth = 8;
			}
			do {
				const struct vpmu_lbr_entry *e;

				bed_run(&b, 1 + random_split(&rng) % 60);
				e = vpmu_lbr_nth(&b.t.lbr, 0);
				if (ring)
					cr_assert(last()[0] == (e ? e->from : 0) &&
							  last()[1] == (e ? e->to : 0),
						  "seed %lu: 0x%lx -> 0x%lx", seed, last()[0],
						  last()[1]);
				if (b.run.exit == VMM_EXIT_RDPMC)
					prog_answer(&b);
			} while (b.run.exit != VMM_EXIT_HLT);
			cr_assert(!memcmp(b.t.ev, steps[n].ev, sizeof(steps[n].ev)), "seed %lu",
				  seed);
			memcpy(ip[ring], last(), sizeof(ip[ring]));
			bed_end();
		}
		cr_assert(!memcmp(ip[0], ip[1], sizeof(ip[0])), "seed %lu", seed);
	}
}

/* The guest turns it on and off, and reads DebugCtl in between; then the four MSRs. */
BED_GUEST(g_msrs, "mov $0x1d9,%ecx\n mov $0x1001,%eax\n xor %edx,%edx\n wrmsr\n"
		  ".globl g_msrs_from, g_msrs_to\n"
		  "g_msrs_from: jmp g_msrs_to\n nop\n g_msrs_to: nop\n"
		  "rdmsr\n mov %eax,%r8d\n mov $0x103e,%eax\n wrmsr\n jmp 1f\n nop\n 1: rdmsr\n"
		  "mov %eax,%r9d\n mov $0x1db,%ecx\n rdmsr\n mov %eax,%r10d\n mov %edx,%r12d\n"
		  "inc %ecx\n rdmsr\n mov %eax,%r11d\n hlt");
extern const uint8_t g_msrs_from[], g_msrs_to[];
#define IN(name, label, base) ((base) + (uint64_t)((label) - (name)))

Test(emu_last, by_msrs)
{
	for (m.slice = 0; m.slice < 3; m.slice++) {
		BED_START(&b, g_msrs, false);
		cr_assert_eq(go(), -1);
		cr_expect_eq(b.r.r8, 0x1001, "0x%llx", b.r.r8);
		cr_expect_eq(b.r.r9, 0x1000, "0x%llx", b.r.r9);
		cr_expect_eq(b.r.r10, IN(g_msrs, g_msrs_from, BED_CODE), "0x%llx", b.r.r10);
		cr_expect_eq(b.r.r11, IN(g_msrs, g_msrs_to, BED_CODE), "0x%llx", b.r.r11);
		cr_expect_eq(b.r.r12, 0);
		cr_expect(!vcpu()->lbr_sel && vcpu()->tctx == vcpu()->ctx, "costs nothing again");
	}
}

BED_GUEST(g_refused, "mov $1,%eax\n xor %edx,%edx\n wrmsr");
BED_GUEST(g_rdmsr, "rdmsr\n hlt");

/* Read-only, for CPL 0, and not on Intel's CPUs. A refused DebugCtl turns nothing on. */
Test(emu_last, refused)
{
	for (uint32_t msr = 0x1db; msr <= 0x1de; msr++) {
		BED_START(&b, g_refused, false);
		BED_REGS(&b, .rcx = msr);
		vcpu()->last.ip[msr - 0x1db] = 0x1234;
		cr_expect_eq(go(), 13);
		cr_expect_eq(last()[msr - 0x1db], 0x1234);
		bed_load(&b, g_rdmsr, g_rdmsr_end, true);
		BED_REGS(&b, .rcx = msr);
		cr_expect_eq(go(), 13);
		for (int write = 0; write < 2; write++) {
			if (write)
				BED_START(&b, g_refused, false);
			else
				BED_START(&b, g_rdmsr, false);
			bed_intel(&b, true);
			BED_REGS(&b, .rcx = msr);
			cr_expect_eq(bed_run(&b, 100), write ? VMM_EXIT_WRMSR : VMM_EXIT_RDMSR);
		}
	}
	BED_START(&b, g_refused, false);
	BED_REGS(&b, .rcx = DEBUGCTL);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_WRMSR);
	b.run.u.msr.fault = true;
	cr_expect_eq(bed_run(&b, 100), VMM_EXIT_HLT);
	cr_expect(!vcpu()->last.on);
	/* An Intel vCPU's write reaches the caller, and no more. */
	BED_START(&b, g_refused, false);
	bed_intel(&b, true);
	BED_REGS(&b, .rcx = DEBUGCTL);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_WRMSR);
	bed_run(&b, 1);
	cr_expect(!vcpu()->last.on);
}

BED_GUEST(g_events, "jmp 1f\n nop\n 1: int $1\n");
BED_GUEST(g_step, "jmp 1f\n nop\n 1: pushfq\n orq $0x100,(%rsp)\n popfq\n nop\n nop");
BED_GUEST(g_fault, "jmp 1f\n nop\n 1: nop\n ud2");
BED_GUEST(g_open, "jmp 1f\n nop\n 1: sti\n nop\n 2: jmp 2b");

static void record(const uint8_t *code, const uint8_t *end)
{
	bed_start(&b, code, end, false);
	vcpu()->last.on = true;
}

/* Interrupts and exceptions are the last branch, and the one before them is kept. */
Test(emu_last, events)
{
	record(g_fault, g_fault_end);
	cr_assert_eq(go(), 6);
	expect_last("#UD", BED_CODE + 4, BED_HANDLERS + 6, BED_CODE, BED_CODE + 3);
	record(g_events, g_events_end);
	cr_assert_eq(go(), 1);
	expect_last("INT 1", BED_CODE + 3, BED_HANDLERS + 1, BED_CODE, BED_CODE + 3);
	cr_expect(vcpu()->last.on, "INT 1 is no #DB");
	for (int nmi = 0; nmi < 2; nmi++) {
		record(g_open, g_open_end);
		cr_assert_eq(bed_run(&b, 10), VMM_EXIT_BUDGET);
		bed_arrives(&b, nmi ? 2 : 0x55);
		cr_assert_eq(go(), nmi ? 2 : 0x55);
		expect_last("interrupt", BED_CODE + 5, BED_HANDLERS + (nmi ? 2 : 0x55),
			    BED_CODE + 5, BED_CODE + 5);
	}
}

/* #DB ends the recording, and is not recorded. */
Test(emu_last, debug_exception)
{
	record(g_step, g_step_end);
	cr_assert_eq(go(), 1);
	expect_last("#DB", BED_CODE, BED_CODE + 3, 0, 0);
	cr_expect(!vcpu()->last.on);
	cr_expect_eq(vcpu()->tctx, vcpu()->ctx);
}

/* ---- state ---- */

/* A vCPU that never recorded has no such section, and an old state clears the record. */
Test(emu_last, saved)
{
	uint8_t none[BED_STATE], some[BED_STATE], again[BED_STATE];
	size_t n0, n1;
	struct emu_last was;

	BED_START(&b, g_fault, false);
	n0 = bed_state(&b, none);
	for (int on = 0; on < 2; on++) {
		vcpu()->last.on = on;
		memcpy(vcpu()->last.ip, (uint64_t[]){1, 1ULL << 63, 3, ~0ULL}, 32);
		was = vcpu()->last;
		n1 = bed_state(&b, some);
		cr_assert_gt(n1, n0);
		cr_assert_eq(o->set_state(b.v, none, n0), 0);
		cr_expect(!vcpu()->last.on && !last()[0] && !last()[3]);
		cr_assert_eq(o->set_state(b.v, some, n1), 0);
		cr_expect_eq(vcpu()->last.on, was.on);
		expect_last("restored", 1, 1ULL << 63, 3, ~0ULL);
		cr_assert_eq(bed_state(&b, again), n1);
		cr_expect(!memcmp(some, again, n1));
		/* Cut, with a bool that is none, and empty. */
		cr_expect_eq(o->set_state(b.v, some, n1 - 1), -EINVAL);
		some[n1 - 33] = 2;
		cr_expect_eq(o->set_state(b.v, some, n1), -EINVAL);
		memset(some + n1 - 33, 0, 33);
		cr_expect_eq(o->set_state(b.v, some, n1), -EINVAL);
	}
	/* Only its on bit: a section, too. Intel's CPUs have none. */
	memset(&vcpu()->last, 0, sizeof(was));
	vcpu()->last.on = true;
	n1 = bed_state(&b, some);
	cr_assert_gt(n1, n0);
	cr_assert_eq(o->set_state(b.v, some, n1), 0);
	cr_expect(vcpu()->last.on);
	bed_intel(&b, true);
	cr_expect(!vcpu()->last.on, "another CPU");
	cr_expect_eq(o->set_state(b.v, some, n1), -EINVAL);
}

/* ---- host and guest ---- */

/* The host: DebugCtl from R8, a branch, VMRUN; DebugCtl to R9 and the last branch to R10, R11. */
BED_GUEST(h_last, "mov $0x1d9,%ecx\n mov %r8d,%eax\n xor %edx,%edx\n wrmsr\n mov $0x100000,%eax\n"
		  ".globl h_last_from, h_last_to\n"
		  "h_last_from: jmp h_last_to\n nop\n h_last_to: vmrun\n"
		  "mov $0x1d9,%ecx\n rdmsr\n mov %eax,%r9d\n mov $0x1db,%ecx\n rdmsr\n"
		  "mov %eax,%r10d\n inc %ecx\n rdmsr\n mov %eax,%r11d\n hlt");
/* The guest: DebugCtl to R12, FROM to R13; a branch, and FROM to R14. */
BED_GUEST(g_last, "mov $0x1d9,%ecx\n rdmsr\n mov %eax,%r12d\n mov $0x1db,%ecx\n rdmsr\n"
		  "mov %eax,%r13d\n"
		  ".globl g_last_from, g_last_to\n"
		  "g_last_from: jmp g_last_to\n nop\n g_last_to: rdmsr\n mov %eax,%r14d\n hlt");
BED_GUEST(g_nothing, "hlt");
extern const uint8_t h_last_from[], h_last_to[], g_last_from[], g_last_to[];

#define H_FROM IN(h_last, h_last_from, BED_CODE)
#define H_TO   IN(h_last, h_last_to, BED_CODE)
#define G_FROM IN(g_last, g_last_from, L2)
#define G_TO   IN(g_last, g_last_to, L2)

/* CPUID with 80000022H EAX @pmu; DebugCtl is 0. */
static void last_start(uint32_t pmu)
{
	struct kvm_cpuid_entry2 cpuid[] = {
		{.function = 0x80000000, .eax = 0x80000022},
		{.function = 0x80000001, .ecx = 1u << 2},
		{.function = 0x80000008, .eax = 40},
		{.function = 0x80000022, .eax = pmu},
	};

	start();
	cr_assert_eq(o->set_cpuid(b.v, cpuid, 4), 0);
	m.debugctl = m.nr = 0;
}

static void worlds(uint64_t host_ctl, uint64_t guest_ctl, bool virt)
{
	last_start(7);
	host(h_last, h_last_end, 0);
	BED_REGS(&b, .r8 = host_ctl);
	guest(g_last, g_last_end);
	ctl()->virt_ext = virt;
	save()->dbgctl = guest_ctl;
	memcpy(save()->last, (uint64_t[]){0x1111, 0x2222, 0x3333, 0x4444}, 32);
	cr_assert_eq(go(), -1);
	cr_assert_eq(ctl()->exit_code, VMEXIT_HLT, "0x%lx", ctl()->exit_code);
}

/* All of it is switched; neither side sees the other's. */
Test(emu_last, virtualized)
{
	for (unsigned int i = 0; i < 3 * 16; i++) {
		uint64_t hc = (i & 1) | (i & 2 ? 0x1000 : 0),
			 gc = (i >> 2 & 1) | (i & 8 ? 0x800 : 0);
		bool h = hc & 1, g = gc & 1;

		m.slice = i / 16;
		worlds(hc, gc, true);
		cr_expect_eq(b.r.r12, gc, "%u: DebugCtl in the guest 0x%llx", i, b.r.r12);
		cr_expect_eq(b.r.r13, 0x1111, "%u: 0x%llx", i, b.r.r13);
		cr_expect_eq(b.r.r14, g ? G_FROM : 0x1111, "%u: 0x%llx", i, b.r.r14);
		cr_expect_eq(save()->dbgctl, gc, "%u: DBGCTL 0x%lx", i, save()->dbgctl);
		cr_expect_eq(save()->last[0], g ? G_FROM : 0x1111, "%u: BR_FROM", i);
		cr_expect_eq(save()->last[1], g ? G_TO : 0x2222, "%u: BR_TO", i);
		cr_expect_eq(save()->last[2], 0x3333);
		cr_expect_eq(save()->last[3], 0x4444);
		cr_expect_eq(b.r.r9, hc, "%u: DebugCtl in the host 0x%llx", i, b.r.r9);
		cr_expect_eq(b.r.r10, h ? H_FROM : 0, "%u: 0x%llx", i, b.r.r10);
		cr_expect_eq(b.r.r11, h ? H_TO : 0, "%u: 0x%llx", i, b.r.r11);
		/* The caller hears of its bits only if they change: the host's write, VMRUN, exit.
		 */
		cr_expect_eq(m.nr, (hc ^ gc) & FREEZE ? 3 : 1, "%u: %u writes", i, m.nr);
		cr_expect_eq(m.debugctl, hc & FREEZE);
	}
}

/* Without, both use the same registers, and the VMCB's fields are left alone. */
Test(emu_last, shared)
{
	for (uint64_t h = 0; h < 2; h++) {
		worlds(h | 0x1000, 0x801, false);
		cr_expect_eq(b.r.r12, h | 0x1000);
		cr_expect_eq(b.r.r13, h ? H_FROM : 0);
		cr_expect_eq(b.r.r14, h ? G_FROM : 0);
		cr_expect_eq(save()->dbgctl, 0x801);
		cr_expect_eq(save()->last[0], 0x1111);
		cr_expect_eq(b.r.r9, h | 0x1000);
		cr_expect_eq(b.r.r10, h ? G_FROM : 0);
		cr_expect_eq(b.r.r11, h ? G_TO : 0);
		cr_expect_eq(m.nr, 1);
	}
}

/* Of DBGCTL only bits of this CPU are taken, and of addresses 48 bits. */
Test(emu_last, hostile_vmcb)
{
	static const struct {
		uint32_t pmu;
		uint64_t bits;
	} cpu[] = {{0, 1}, {1, 1}, {3, 1}, {5, 0x1001}, {7, 0x1801}};
	static const uint64_t ip[4] = {~0ULL, 1ULL << 63 | 5, 0x0000800000000000,
				       0xffff7fffffffffff};

	for (size_t i = 0; i < sizeof(cpu) / sizeof(cpu[0]); i++)
		for (unsigned int bit = 0; bit <= 64; bit++) {
			uint64_t x = bit < 64 ? 1ULL << bit : ~0ULL;

			last_start(cpu[i].pmu);
			host(h_last_to, h_last_end, 0);
			guest(g_nothing, g_nothing_end);
			ctl()->virt_ext = 1;
			save()->dbgctl = x;
			memcpy(save()->last, ip, sizeof(ip));
			vcpu()->last.ip[1] = 1ULL << 47; /* where a SYSRET went to */
			cr_assert_eq(go(), -1);
			cr_expect_eq(ctl()->exit_code, VMEXIT_HLT);
			cr_expect_eq(save()->dbgctl, x & cpu[i].bits, "%u: 0x%lx", bit,
				     save()->dbgctl);
			for (unsigned int k = 0; k < 4; k++)
				cr_expect_eq(save()->last[k], svm_canonical(ip[k]));
			cr_expect(!vcpu()->last.on);
			expect_last("the host", 0, 1ULL << 47, 0, 0);
			cr_expect_eq(m.debugctl, 0);
		}
}

/* An invalid VMCB switches nothing. */
Test(emu_last, no_switch)
{
	last_start(7);
	host(h_last, h_last_end, 0);
	BED_REGS(&b, .r8 = 0x1001);
	guest(g_last, g_last_end);
	ctl()->virt_ext = 1;
	ctl()->asid = 0;
	save()->dbgctl = 0x800;
	cr_assert_eq(go(), -1);
	cr_expect_eq(ctl()->exit_code, VMEXIT_INVALID);
	cr_expect_eq(save()->dbgctl, 0x800);
	cr_expect_eq(b.r.r9, 0x1001);
	cr_expect_eq(b.r.r10, H_FROM);
	cr_expect_eq(m.nr, 1);
}

/* Injected: #MC is the last branch and no last interrupt; #DB ends the recording. */
Test(emu_last, injected)
{
	static const uint8_t vecs[] = {18, 1, 6};

	for (size_t i = 0; i < sizeof(vecs); i++) {
		uint8_t vec = vecs[i];

		last_start(7);
		host(h_last_to, h_last_end, 0);
		guest(g_nothing, g_nothing_end);
		ctl()->virt_ext = 1;
		ctl()->event_inj = vec | VMCB_TYPE_EXCEPTION << 8 | VMCB_EVENT_VALID;
		save()->dbgctl = 1;
		memcpy(save()->last, (uint64_t[]){0x1111, 0x2222, 0x3333, 0x4444}, 32);
		cr_assert_eq(go(), -1);
		cr_expect_eq(save()->rip, BED_HANDLERS + vec);
		cr_expect_eq(save()->dbgctl, vec != 1);
		cr_expect_eq(save()->last[0], vec == 1 ? 0x1111 : L2);
		cr_expect_eq(save()->last[1], vec == 1 ? 0x2222 : BED_HANDLERS + vec);
		cr_expect_eq(save()->last[2], vec == 6 ? 0x1111 : 0x3333);
		cr_expect_eq(save()->last[3], vec == 6 ? 0x2222 : 0x4444);
	}
}
