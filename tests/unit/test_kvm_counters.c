// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many of the host's counters a vCPU of vpmu/kvm.h takes: a guest whose counters all count gets
 * the truth, on a fake kernel with a PMU (fake_perf.h) that has counters for it, and others keep
 * what is left.
 */
#include "fake_perf.h"
#include "vpmu/core/rcu.h"
#include "vpmu/guest/guest.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/kvm/quick.h"
#include "vpmu/pcpu.h"
#include "vpmu/quota.h"

#include <linux/kvm.h>
#include <signal.h>

#define MS    1000000ull
#define TRUTH 40000u /* events of 40 ms */

static int kvm_ioctl(int fd, unsigned long request, void *arg)
{
	switch (request) {
	case KVM_CHECK_EXTENSION:
	case KVM_SIGNAL_MSI:
		return 1;
	case KVM_GET_REGS:
		memset(arg, 0, sizeof(struct kvm_regs));
		return 0;
	case KVM_GET_SREGS:
		memset(arg, 0, sizeof(struct kvm_sregs));
		return 0;
	case KVM_GET_LAPIC:
		memset(arg, 0, sizeof(struct kvm_lapic_state));
		return 0;
	default:
		return 0;
	}
}

struct row {
	enum vpmu_guest_model model;
	unsigned int gp, leave; /* 0: the defaults */
	unsigned int host;
	bool host_fixed;
	unsigned int most; /* general counters of the host that are in use at a time */
};

/* Six events that are all different, and known to any CPU. */
static void guest_writes(struct vpmu_guest *g, bool intel)
{
	static const uint64_t mode[] = {1u << 16, 1u << 17, 3u << 16};

	for (unsigned int i = 0; i < g->cfg.gp && i < 6; i++) {
		uint64_t sel = mode[i % 3] | 1u << 22;

		if (intel)
			sel |= i < 3 ? 0xc4 : 0xc5;
		else
			sel |= i < 3 ? 0xc2 : 0xc3;
		cr_assert_eq(vpmu_guest_wrmsr(g, intel ? 0x186 + i : 0xc0010200 + 2 * i, sel), 0);
	}
	if (!intel && g->cfg.model == VPMU_GUEST_AMD_V2)
		cr_assert_eq(vpmu_guest_wrmsr(g, 0xc0000301, (1u << g->cfg.gp) - 1), 0);
	if (!intel)
		return;
	cr_assert_eq(vpmu_guest_wrmsr(g, 0x38d, 0x033), 0); /* instructions and cycles */
	cr_assert_eq(vpmu_guest_wrmsr(g, 0x38f, 3ull << 32 | ((1u << g->cfg.gp) - 1)), 0);
}

static uint64_t guest_reads(struct vpmu_guest *g, uint32_t msr)
{
	uint64_t val = 0;

	cr_assert_eq(vpmu_guest_rdmsr(g, msr, &val), 0);
	return val;
}

struct bed {
	struct vpmu_guest_cfg cfg;
	struct vpmu_kvm_vm_opts o;
	struct kvm_run *run;
	struct vpmu_kvm_vcpu *v;
	struct vpmu_kvm_vm *vm;
	struct vpmu_guest *g;
};

/* The fake kernel has been started. */
static void bed_open(struct bed *b, const struct row *r)
{
	struct vpmu_kvm_vcpu_opts vo = {.size = sizeof(vo), .fd = 1001};
	char why[200] = "";

	*b = (struct bed){.cfg = {.model = r->model, .gp = r->gp}};
	b->o = (struct vpmu_kvm_vm_opts){.size = sizeof(b->o),
					 .fd = 1000,
					 .guest = &b->cfg,
					 .leave_counters = r->leave,
					 .ioctl = kvm_ioctl,
					 .tick_ns = 3600ull * 1000 * MS};
	b->run = vo.run = calloc(1, 8192);
	b->o.host = vpmu_host_create();
	cr_assert(!vpmu_kvm_vm_open(&b->o, &b->vm, why, sizeof(why)), "%s", why);
	cr_assert(!vpmu_kvm_vcpu_open(b->vm, &vo, &b->v, why, sizeof(why)), "%s", why);
	b->g = vpmu_kvm_vcpu_guest(b->v);
	cr_assert(!vpmu_kvm_enter(b->v));
	b->run->exit_reason = KVM_EXIT_HLT;
}

static void bed_close(struct bed *b)
{
	cr_assert(!vpmu_kvm_vcpu_close(b->v));
	vpmu_kvm_vm_close(b->vm);
	vpmu_host_destroy(b->o.host);
	free(b->run);
}

static void bed_run(const struct row *r, unsigned int n)
{
	struct vpmu_guest *g;
	uint64_t sum = 0;
	struct bed b;
	bool intel;

	fake_start(r->host, r->host_fixed);
	bed_open(&b, r);
	g = b.g;
	intel = vpmu_guest_is_intel(g);
	guest_writes(g, intel);
	for (int i = 0; i < 40; i++) {
		vpmu_pcpu_tick(b.v->pcpu);
		fake_run(MS);
	}
	vpmu_kvm_leave(b.v, 0);
	for (unsigned int i = 0; i < g->cfg.gp && i < 6; i++) {
		uint64_t val = guest_reads(g, intel ? 0xc1 + i : 0xc0010201 + 2 * i);

		sum += val;
		cr_expect(r->leave || val == TRUTH, "row %u, counter %u: %lu", n, i, val);
	}
	for (unsigned int i = 0; intel && i < 2; i++)
		cr_expect_eq(guest_reads(g, 0x309 + i), TRUTH, "row %u, fixed %u: %lu", n, i,
			     guest_reads(g, 0x309 + i));
	if (r->leave) /* what the guest cannot know */
		cr_expect(sum > 3 * TRUTH && sum < 5 * TRUTH, "row %u: %lu", n, sum);
	else
		cr_expect_eq(fake.most_gp, r->most, "row %u: %u of the host's counters", n,
			     fake.most_gp);
	bed_close(&b);
}

/* One row in a process: the host's capacity is looked at once. */
#define ROW(name, ...)                                                                             \
	Test(kvm_counters, name)                                                                   \
	{                                                                                          \
		const struct row r = {__VA_ARGS__};                                                \
                                                                                                   \
		urcu_memb_register_thread();                                                       \
		bed_run(&r, __LINE__);                                                             \
		urcu_memb_unregister_thread();                                                     \
	}

ROW(all_six_of_amd_core, .model = VPMU_GUEST_AMD_CORE, .host = 6, .most = 6)
ROW(six_of_seven, .model = VPMU_GUEST_AMD_CORE, .host = 7, .most = 6)
ROW(six_of_eight, .model = VPMU_GUEST_AMD_V2, .host = 8, .most = 6)
ROW(four_leave_two, .model = VPMU_GUEST_AMD_V2, .gp = 4, .host = 6, .most = 4)
ROW(intels_with_fixed_ones, .model = VPMU_GUEST_INTEL_V2, .gp = 4, .host = 4, .host_fixed = true,
    .most = 4)
ROW(fixed_ones_take_general_ones, .model = VPMU_GUEST_INTEL_V5, .gp = 4, .host = 6, .most = 6)
ROW(what_the_vmm_leaves_others, .model = VPMU_GUEST_AMD_CORE, .leave = 2, .host = 6)

/* A vCPU that counts by RDPMC. */
static void bed_open_amd(struct bed *b)
{
	const struct row r = {.model = VPMU_GUEST_AMD_V2, .gp = 4};

	urcu_memb_register_thread();
	fake_start(6, false);
	fake.rdpmc = true;
	bed_open(b, &r);
}

static void bed_close_amd(struct bed *b)
{
	vpmu_kvm_leave(b->v, 0);
	bed_close(b);
	urcu_memb_unregister_thread();
}

/* A guest's kernel stops and starts all of its counters by one write at each context switch, with
 * interrupts on: each of the host's counters is read once. */
Test(kvm_counters, one_reading_stops_or_starts_all)
{
	struct bed b;

	bed_open_amd(&b);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0010201 + 2 * i, 1ull << 47));
		cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0010200 + 2 * i, 0x5300c2 + i));
	}
	for (unsigned int n = 1; n < 5; n++) {
		cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0000301, 15));
		fake_run(MS);
		fake.rdpmcs = fake.reads = 0;
		cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0000301, 0));
		cr_expect_eq(fake.rdpmcs + fake.reads, 4, "%u to stop", fake.rdpmcs + fake.reads);
		for (uint32_t i = 0; i < 4; i++)
			cr_expect_eq(guest_reads(b.g, 0xc0010201 + 2 * i),
				     (1ull << 47) + n * TRUTH / 40);
		fake.rdpmcs = fake.reads = 0;
		cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0000301, 15));
		cr_expect_eq(fake.rdpmcs + fake.reads, 4, "%u to start", fake.rdpmcs + fake.reads);
	}
	bed_close_amd(&b);
}

/* The guest does not run from its exit to its next entry: one reading of the clock is enough, for
 * an alarm as for an access. */
Test(kvm_counters, an_alarm_reads_the_clock_once)
{
	struct bed b;

	bed_open_amd(&b);
	cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0010201, (1ull << 48) - 1500));
	cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0010200, 0x5300c2));
	cr_assert(!vpmu_guest_wrmsr(b.g, 0xc0000301, 1));
	fake_run(MS);
	for (unsigned int n = 0; n < 2; n++) {
		vpmu_kvm_leave(b.v, 0);
		cr_assert(!vpmu_kvm_enter(b.v));
		fake_run(MS);
		raise(kvm_alarm_signal());
		fake.clocks = 0;
		cr_expect_eq(vpmu_kvm_leave(b.v, -EINTR), VPMU_KVM_AGAIN);
		cr_assert(!vpmu_kvm_enter(b.v));
		cr_expect_eq(fake.clocks, 1, "%u", fake.clocks);
	}
	/* The first alarm was early. Time has gone on. */
	cr_expect_eq(guest_reads(b.g, 0xc0000300), 1);
	cr_expect(b.g->ctr[0].enabled_ns >= 3 * MS && b.g->ctr[0].enabled_ns < 4 * MS, "%lu",
		  b.g->ctr[0].enabled_ns);
	bed_close_amd(&b);
}

/* Counters that are on and could not start, for lack of quota or rights, do at a tick: a guest need
 * not touch them. */
Test(kvm_counters, what_could_not_start_does_at_a_tick)
{
	const struct row r = {.model = VPMU_GUEST_INTEL_V2, .host = 8, .host_fixed = true};
	struct vpmu_quota quota = {.max = 1};
	struct bed b;

	fake_start(8, true);
	bed_open(&b, &r);
	b.v->ctx.quota = &quota;
	b.v->vm->opts.tick_ns = 1000 * MS;
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x38d, 2), 0);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x38f, 1ull << 32 | 0xff), 0);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x186, 0x4100c4), 0); /* no quota */
	fake.fail = -EACCES;
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x187, 0x4100c5), 0); /* no right */
	fake_run(MS);
	cr_assert_eq(guest_reads(b.g, 0x309), 1000);
	cr_assert_eq(guest_reads(b.g, 0xc1), 0);
	cr_assert_eq(guest_reads(b.g, 0xc2), 0);
	fake.fail = 0;
	fake_run(2000 * MS); /* as long as a refusal is remembered */
	vpmu_quota_set_max(&quota, 0);
	kvm_vcpu_tick(b.v, true);
	fake_run(MS);
	cr_assert_eq(guest_reads(b.g, 0x309), 2002000);
	cr_expect_eq(guest_reads(b.g, 0xc1), 1000);
	cr_expect_eq(guest_reads(b.g, 0xc2), 1000);
	b.v->ctx.quota = NULL;
	bed_close(&b);
}

/* There are ticks for them as well if nothing else counts. */
Test(kvm_counters, what_could_not_start_is_waited_for)
{
	const struct row r = {.model = VPMU_GUEST_INTEL_V2, .host = 8, .host_fixed = true};
	struct bed b;

	fake_start(8, true);
	bed_open(&b, &r);
	b.v->vm->opts.tick_ns = 1000 * MS;
	fake.fail = -EACCES;
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x38f, 0xff), 0);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x187, 0x4100c5), 0);
	kvm_vcpu_tick(b.v, false);
	cr_expect(b.v->timer_on);
	cr_expect(!kvm_quick_enter(b.v));
	fake.fail = 0;
	fake_run(2000 * MS);
	b.v->ticked_ns = 0; /* long ago */
	kvm_vcpu_tick(b.v, true);
	fake_run(MS);
	cr_expect_eq(guest_reads(b.g, 0xc2), 1000);
	/* Not for what is off again. */
	fake.fail = -EACCES;
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x187, 0x4100c6), 0);
	cr_expect_neq(b.g->again, 0);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x187, 0), 0);
	cr_expect_eq(b.g->again, 0);
	bed_close(&b);
}
