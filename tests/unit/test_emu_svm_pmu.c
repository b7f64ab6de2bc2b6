// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * HostOnly and GuestOnly of AMD's event selects (APM vol. 2, 13.2.1) across world switches: a
 * hypervisor and its guest in the emulator, whose counters are a register model with a core of its
 * own. Every number of events is known. VMRUN counts in the guest (vmm/emu/svm/world.c).
 */
#include <errno.h>
#include <urcu/urcu-memb.h>

#include "conserved.h"
#include "svm_bed.h"
#include "vpmu/account.h"
#include "vpmu/context.h"
#include "vpmu/guest/guest.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"

#define USR	  (1ULL << 16)
#define OS	  (1ULL << 17)
#define INT	  (1ULL << 20)
#define EN	  (1ULL << 22)
#define GUESTONLY (1ULL << 40)
#define HOSTONLY  (1ULL << 41)
#define INSNS	  0xc0
#define BRANCHES  0xc2
#define TAKEN	  0xc4
#define CYCLES	  0x76

#define CTL(n)	   (0xc0010200u + 2 * (n))
#define CTR(n)	   (0xc0010201u + 2 * (n))
#define STATUS	   0xc0000300u
#define GLOBAL_CTL 0xc0000301u
#define DEBUGCTL   0x1d9u
#define FREEZE	   (1ULL << 12)
#define PMC_FROZEN (1ULL << 59)

/* What counts the vCPU of the bed. */
static struct {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *pcpu;
	struct vpmu_account *vm, *vcpu;
	struct vpmu_context ctx;
	struct vpmu_guest *g;
	uint8_t pmi; /* vector of PMIs; 2: NMI */
	unsigned int slice;
} p;

TestSuite(emu_svm_pmu, .fini = bed_end);

static void begin(enum vpmu_guest_model model, bool svm)
{
	const struct vpmu_guest_cfg cfg = {
		.model = model, .svm = svm, .gp = model == VPMU_GUEST_AMD_V2 ? 15 : 0};

	start();
	urcu_memb_register_thread();
	p.host = vpmu_host_create();
	cr_assert(p.host);
	cr_assert_eq(vpmu_emupmu_init(&p.pmu, &(struct vpmu_emupmu_opts){.gp = 16}), 0);
	cr_assert_eq(vpmu_pcpu_create(p.host, &p.pmu.pmu, 0, &p.pcpu), 0);
	cr_assert_eq(vpmu_account_create(vpmu_host_root(p.host), NULL, &p.vm), 0);
	cr_assert_eq(vpmu_account_create(p.vm, NULL, &p.vcpu), 0);
	cr_assert_eq(vpmu_context_init(&p.ctx, p.vcpu, p.vm), 0);
	p.g = calloc(1, sizeof(*p.g));
	cr_assert_eq(vpmu_guest_init(p.g, &cfg, &p.ctx, &p.pmu.pmu), 0);
	cr_assert_eq(vpmu_context_place(&p.ctx, p.pcpu), 0);
	vpmu_guest_placed(p.g, p.pcpu);
	vpmu_pcpu_switch(p.pcpu, &p.ctx);
	o->set_tally(b.v, p.pmu.tally);
	p.pmi = 2;
	p.slice = 1000000;
}

static void end(void)
{
	conserved(p.host);
	vpmu_guest_fini(p.g);
	vpmu_pcpu_switch(p.pcpu, NULL);
	vpmu_context_fini(&p.ctx);
	cr_assert_eq(vpmu_account_del(p.vcpu), 0);
	cr_assert_eq(vpmu_account_del(p.vm), 0);
	vpmu_rcu_free(p.g);
	cr_assert_eq(vpmu_pcpu_destroy(p.pcpu), 0);
	vpmu_host_destroy(p.host);
	urcu_memb_unregister_thread();
}

static void wr(uint32_t msr, uint64_t x)
{
	cr_assert_eq(vpmu_guest_wrmsr(p.g, msr, x), 0, "MSR 0x%x", msr);
}

static uint64_t rd(uint32_t msr)
{
	uint64_t x = ~0ULL;

	cr_assert_eq(vpmu_guest_rdmsr(p.g, msr, &x), 0, "MSR 0x%x", msr);
	return x;
}

/* The vCPU runs until a HLT of the host. Returns the vector of its handler, or -1. */
static int go(void)
{
	for (unsigned int i = 0; i < 100000; i++) {
		if (vpmu_guest_pending(p.g) && vpmu_guest_service(p.g)) {
			if (p.pmi == 2)
				o->nmi(b.v);
			else
				o->interrupt(b.v, p.pmi);
		}
		switch (bed_run(&b, p.slice)) {
		case VMM_EXIT_BUDGET:
			break;
		case VMM_EXIT_ALARM:
			vpmu_pcpu_overflow(p.pcpu);
			break;
		case VMM_EXIT_HLT:
			cr_assert(!vcpu()->guest);
			return b.r.rip > BED_HANDLERS && b.r.rip <= BED_HANDLERS + 256
				       ? (int)(b.r.rip - BED_HANDLERS - 1)
				       : -1;
		default:
			cr_assert_fail("exit %d: %s", b.run.exit, b.run.u.error.msg);
		}
	}
	cr_assert_fail("no end");
	return -1;
}

/* ---- counts ---- */

BED_GUEST(h_loop, "1: mov $100,%ebx\n vmrun\n movq $0x220000,0x100578\n" /* the guest's RIP */
		  "dec %ecx\n jnz 1b\n hlt");
BED_GUEST(g_loop, "1: dec %ebx\n jnz 1b\n nop\n vmmcall");

#define TIMES 5

/* Events of both: {host, guest}. VMMCALL is intercepted, so it does not retire. */
static const struct {
	uint8_t event;
	uint64_t n[2];
} known[] = {
	{INSNS, {TIMES * 4 + 1, TIMES *(1 + 201)}},
	{BRANCHES, {TIMES, TIMES *(1 + 100)}},
	{TAKEN, {TIMES - 1, TIMES *(1 + 99)}},
};

static void loop_guest(bool user)
{
	host(h_loop, h_loop_end, 0);
	BED_REGS(&b, .rcx = TIMES);
	guest(g_loop, g_loop_end);
	ctl()->icpt[1] |= 1u << (VMEXIT_VMMCALL - VMEXIT_VMRUN);
	if (!user)
		return;
	save()->cs.selector = BED_CS3;
	save()->cs.attrib = 0xafb;
	save()->ss.selector = BED_SS3;
	save()->ss.attrib = 0xcf3;
	save()->cpl = 3;
}

static void count_loop(enum vpmu_guest_model model, unsigned int slice, bool user, size_t k)
{
	/* By HostOnly and GuestOnly: what they select. */
	static const struct {
		uint64_t bits;
		bool host, guest;
	} f[] = {{0, true, true},
		 {GUESTONLY, false, true},
		 {HOSTONLY, true, false},
		 {GUESTONLY | HOSTONLY, true, true}};
	static const uint64_t levels[] = {OS | USR, USR, OS};
	unsigned int nr, n;

	begin(model, true);
	p.slice = slice;
	nr = p.g->cfg.gp < 12 ? p.g->cfg.gp : 12;
	loop_guest(user);
	for (n = 0; n < nr; n++)
		wr(CTL(n), EN | known[k].event | levels[n / 4] | f[n % 4].bits);
	cr_assert_eq(go(), -1);
	cr_assert_eq(ctl()->exit_code, VMEXIT_VMMCALL, "0x%lx", ctl()->exit_code);
	for (n = 0; n < nr; n++) {
		uint64_t level = levels[n / 4], is = rd(CTR(n)), expect = 0;

		if (f[n % 4].host && level & OS)
			expect += known[k].n[0];
		if (f[n % 4].guest && level & (user ? USR : OS))
			expect += known[k].n[1];
		cr_expect_eq(is, expect,
			     "%s, slices of %u, event 0x%x, CPL %d, select 0x%lx: %lu, not %lu",
			     vpmu_guest_model_name(model), slice, known[k].event, user ? 3 : 0,
			     rd(CTL(n)), is, expect);
	}
	end();
}

Test(emu_svm_pmu, host_and_guest_to_the_count)
{
	static const enum vpmu_guest_model models[] = {VPMU_GUEST_AMD_CORE, VPMU_GUEST_AMD_V2};
	static const unsigned int slices[] = {1, 7, 1000000};

	for (unsigned int i = 0; i < 2 * 3 * 2 * 3; i++)
		count_loop(models[i & 1], slices[i / 2 % 3], i / 6 & 1, i / 12);
}

/* The K7 addresses are other names of the first four. */
Test(emu_svm_pmu, k7)
{
	begin(VPMU_GUEST_AMD_K7, true);
	loop_guest(false);
	wr(0xc0010000, EN | OS | INSNS | GUESTONLY);
	wr(0xc0010001, EN | OS | INSNS | HOSTONLY);
	cr_assert_eq(go(), -1);
	cr_expect_eq(rd(0xc0010004), known[0].n[1]);
	cr_expect_eq(rd(0xc0010005), known[0].n[0]);
	end();
}

/* Modelled cycles: guest and host are all, and the guest has VMRUN's. */
Test(emu_svm_pmu, cycles_add_up)
{
	begin(VPMU_GUEST_AMD_V2, true);
	loop_guest(false);
	for (unsigned int n = 0; n < 4; n++)
		wr(CTL(n), EN | OS | CYCLES | (uint64_t)n << 40);
	cr_assert_eq(go(), -1);
	cr_expect_eq(rd(CTR(1)) + rd(CTR(2)), rd(CTR(0)));
	cr_expect_eq(rd(CTR(3)), rd(CTR(0)));
	/* per entry: VMRUN 32; 100 DEC, 100 JNZ, of which 99 are taken; NOP */
	cr_expect_eq(rd(CTR(1)), TIMES * (32 + 200 + 99 + 1), "%lu", rd(CTR(1)));
	end();
}

BED_GUEST(h_svme, "nop\n nop\n wrmsr\n nop\n hlt");

/* Without EFER.SVME only a counter with neither bit counts. WRMSR counts in the new state. */
Test(emu_svm_pmu, svme)
{
	static const uint64_t counts[2][4] = {{5, 0, 3, 3}, {5, 0, 2, 2}};

	for (int on = 1; on >= 0; on--) {
		begin(VPMU_GUEST_AMD_CORE, true);
		host(h_svme, h_svme_end, 0);
		if (on) {
			bed_set_mode(&b, b.v, false); /* EFER without it */
			o->set_regs(b.v, &b.r);
		}
		BED_REGS(&b, .rcx = MSR_EFER, .rax = 0xd01 | (on ? SVME : 0));
		for (unsigned int n = 0; n < 4; n++)
			wr(CTL(n), EN | OS | USR | INSNS | (uint64_t)n << 40);
		cr_assert_eq(go(), -1);
		cr_expect_eq(!!(vcpu()->efer & SVME), on);
		for (unsigned int n = 0; n < 4; n++)
			cr_expect_eq(rd(CTR(n)), counts[!on][n], "%s, bits %u: %lu",
				     on ? "set" : "cleared", n, rd(CTR(n)));
		end();
	}
}

/* A VMRUN that fails stays in the host, and counts there. */
Test(emu_svm_pmu, failed_vmrun)
{
	begin(VPMU_GUEST_AMD_CORE, true);
	loop_guest(false);
	ctl()->asid = 0;
	wr(CTL(0), EN | OS | INSNS | GUESTONLY);
	wr(CTL(1), EN | OS | INSNS | HOSTONLY);
	cr_assert_eq(go(), -1);
	cr_expect_eq(ctl()->exit_code, VMEXIT_INVALID);
	cr_expect_eq(rd(CTR(0)), 0);
	cr_expect_eq(rd(CTR(1)), TIMES * 5 + 1);
	end();
}

/* ---- PMIs ---- */

BED_GUEST(h_stgi, "vmrun\n nop\n nop\n stgi\n nop\n hlt");
BED_GUEST(g_nops, ".fill 12,1,0x90\n hlt");

#define STGI_AT (BED_CODE + 5)

/* Counter 0 of @bits overflows at its @n-th event. */
static void overflow(uint64_t bits, unsigned int n, unsigned int slice, uint64_t rflags)
{
	begin(VPMU_GUEST_AMD_V2, true);
	p.slice = slice;
	WORLDS(h_stgi, rflags, g_nops);
	wr(CTR(0), (1ULL << 48) - n);
	wr(CTL(0), EN | INT | OS | INSNS | bits);
}

static const unsigned int slices[] = {1, 3, 1000000};

/* In the guest: the exit, or the guest's own handler, is behind the @n-th instruction; the first
 * one is VMRUN. The overflow's status bit is set before. The host does not count. */
Test(emu_svm_pmu, pmi_in_the_guest)
{
	for (unsigned int i = 0; i < 3 * 13 * 3; i++) {
		unsigned int n = 1 + i / 3 % 13, how = i / 39, vec;

		overflow(GUESTONLY, n, slices[i % 3], 0);
		if (how == 1)
			ctl()->icpt[0] |= 1u << (VMEXIT_NMI - VMEXIT_INTR);
		if (how == 2) {
			p.pmi = 0x70;
			save()->rflags |= IF;
			ctl()->icpt[0] |= 1;
		}
		vec = (unsigned int)go();
		if (how == 0) {
			cr_expect_eq(ctl()->exit_code, VMEXIT_HLT);
			cr_expect_eq(save()->rip, BED_HANDLERS + 2, "0x%lx", save()->rip);
			cr_expect_eq(*bed_u64(&b, save()->rsp), L2 + n - 1, "%u: 0x%lx", n,
				     *bed_u64(&b, save()->rsp));
		} else {
			cr_expect_eq(ctl()->exit_code, how == 1 ? VMEXIT_NMI : VMEXIT_INTR);
			cr_expect_eq(save()->rip, L2 + n - 1, "%u: 0x%lx", n, save()->rip);
			cr_expect_eq(vec, how == 1 ? 2u : ~0u);
		}
		cr_expect_eq(rd(STATUS), 1);
		cr_expect_eq(rd(CTR(0)), 0, "%u: 0x%lx", n, rd(CTR(0)));
		end();
	}
}

/* In the host: after #VMEXIT the NMI waits for STGI. The guest does not count. */
Test(emu_svm_pmu, pmi_in_the_host)
{
	for (unsigned int i = 0; i < 3; i++) {
		overflow(HOSTONLY, 2, slices[i], 0);
		cr_assert_eq(go(), 2);
		cr_expect_eq(ctl()->exit_code, VMEXIT_HLT);
		cr_expect_eq(save()->rip, L2 + 12);
		cr_expect_eq(bed_stack(&b, 0), STGI_AT + 3);
		cr_expect_eq(rd(CTR(0)), 2, "STGI and the handler's HLT");
		end();
	}
}

/* A PMI in the guest freezes what the host reads behind the exit. No register of the PMU is
 * switched. */
Test(emu_svm_pmu, global_registers)
{
	overflow(GUESTONLY, 7, 1000000, 0);
	wr(CTL(1), EN | OS | INSNS | HOSTONLY);
	wr(CTL(2), EN | OS | INSNS);
	wr(DEBUGCTL, FREEZE);
	ctl()->icpt[0] |= 1u << (VMEXIT_NMI - VMEXIT_INTR);
	cr_assert_eq(go(), 2);
	cr_expect_eq(ctl()->exit_code, VMEXIT_NMI);
	cr_expect_eq(rd(DEBUGCTL), FREEZE);
	cr_expect_eq(rd(GLOBAL_CTL), (1u << 15) - 1);
	cr_expect_eq(rd(STATUS), PMC_FROZEN | 1, "0x%lx", rd(STATUS));
	cr_expect_eq(rd(CTR(0)), 0);
	cr_expect_eq(rd(CTR(1)), 0);
	cr_expect_eq(rd(CTR(2)), 7);
	end();
}

/* ---- the register ---- */

/* A guest without SVM has neither bit: they are dropped, and the counter counts. */
Test(emu_svm_pmu, off)
{
	const uint64_t both = GUESTONLY | HOSTONLY;

	for (int svm = 0; svm < 2; svm++) {
		begin(VPMU_GUEST_AMD_V2, svm);
		loop_guest(false);
		wr(CTL(0), EN | OS | INSNS | GUESTONLY);
		wr(CTL(1), EN | OS | INSNS | HOSTONLY);
		cr_expect_eq(rd(CTL(0)), EN | OS | INSNS | (svm ? GUESTONLY : 0));
		cr_assert_eq(go(), -1);
		cr_expect_eq(rd(CTR(0)), known[0].n[1] + (svm ? 0 : known[0].n[0]));
		cr_expect_eq(rd(CTR(1)), known[0].n[0] + (svm ? 0 : known[0].n[1]));
		/* As state. */
		cr_expect_eq(vpmu_guest_set_msr(p.g, CTL(0), EN | OS | INSNS | both),
			     svm ? 0 : -EINVAL);
		cr_expect_eq(rd(CTL(0)) & both, svm ? both : 0);
		end();
	}
}
