// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records of vCPU tasks: recorded tasks, the CPU at a switch, the right to capture,
 * and lives. Memory: test_core_lbr_memory.c. Any history against a plain model:
 * tests/model/test_model.c.
 */
#include <stdlib.h>

#include "lbr_bed.h"
#include "tests/lbr_faults.h"
#include "tests/random.h"

static void setup(void)
{
	bed_init(&b, NULL);
	lbr_count(&b);
}

TestSuite(lbr, .init = setup, .fini = bed_teardown);

/* vCPU @v has @n records, the newest made at @from + n - 1. */
static void expect(int v, enum vpmu_lbr_user want, unsigned int n, uint64_t from)
{
	enum vpmu_lbr_user user;
	struct vpmu_lbr_regs r;
	int ret;

	vpmu_host_sync(b.host);
	ret = vpmu_lbr_read(b.vcpu[v], &r, &user);
	cr_assert_eq(ret, 0, "%d", ret);
	cr_assert_eq(user, want);
	cr_assert_eq(r.count, n, "%u records", r.count);
	for (unsigned int i = 0; i < n; i++)
		cr_assert_eq(vpmu_lbr_nth(&r, i)->from, from + n - 1 - i);
}

static void expect_none(int v)
{
	enum vpmu_lbr_user user;
	struct vpmu_lbr_regs r;

	cr_assert_eq(vpmu_lbr_read(b.vcpu[v], &r, &user), -ENOENT);
}

/* ---- the switch ---- */

/* Each kind of switch has its calls and no more. */
Test(lbr, work_of_a_switch)
{
	vpmu_pcpu_switch(P0, C0);
	vpmu_pcpu_switch(P0, C2);
	vpmu_pcpu_flush(P0);
	vpmu_pcpu_switch(P0, NULL);
	LBR_CALLED(0, 0, 0, 0); /* without users */
	lbr_guest_on(&b, 0);
	lbr_guest_on(&b, 2);
	LBR_CALLED(0, 0, 0, 0); /* not current */
	vpmu_pcpu_switch(P0, C0);
	LBR_CALLED(0, 1, 0, 0);
	for (int i = 0; i < 100; i++)
		vpmu_pcpu_switch(P0, C0);
	LBR_CALLED(0, 0, 0, 0); /* the same owner, no other in between */
	vpmu_pcpu_switch(P0, C2);
	LBR_CALLED(1, 1, 0, 0);
	vpmu_pcpu_switch(P0, NULL);
	LBR_CALLED(1, 0, 1, 0);
	cr_assert(lbr_cpu_zero(&b, 0));
	vpmu_pcpu_switch(P0, NULL);
	LBR_CALLED(0, 0, 0, 0);
	vpmu_pcpu_switch(P0, C2);
	LBR_CALLED(0, 1, 0, 0); /* the host was somebody */
	vpmu_pcpu_flush(P0);
	vpmu_pcpu_tick(P0);
	LBR_CALLED(2, 0, 0, 2); /* read, and go on with the present records */
	lbr_guest_ctl(&b, 2, P0, LBR_ALL & ~VPMU_LBR_EN);
	LBR_CALLED(1, 0, 1, 1); /* get; then the CPU must hold nothing */
	cr_assert(lbr_cpu_zero(&b, 0));
	vpmu_pcpu_switch(P0, C0);
	vpmu_pcpu_switch(P0, C2);
	LBR_CALLED(1, 1, 1, 0); /* only vCPU 0 records */
}

/* The same on another pCPU than before, and with counters that differ. */
Test(lbr, migration_and_counters)
{
	lbr_guest_on(&b, 0);
	vpmu_pcpu_switch(P0, C0);
	bed_own(&b, 0, INSNS);
	lbr_branches(&b, 0, 3, 100);
	vpmu_pcpu_switch(P0, NULL);
	cr_assert(lbr_cpu_zero(&b, 0));
	cr_assert_eq(vpmu_context_place(C0, b.p[1]), 0);
	vpmu_pcpu_switch(b.p[1], C0);
	lbr_branches(&b, 1, 3, 103);
	lbr_branches(&b, 0, 5, 900); /* the host's, elsewhere */
	vpmu_pcpu_switch(b.p[1], NULL);
	cr_assert_eq(vpmu_context_place(C0, P0), 0);
	vpmu_pcpu_switch(P0, C0);
	lbr_branches(&b, 0, 3, 106);
	expect(0, VPMU_LBR_GUEST, 9, 100);
}

Test(lbr, guest_disabled_keeps_its_records)
{
	struct vpmu_lbr_regs r;

	lbr_guest_on(&b, 0);
	vpmu_pcpu_switch(P0, C0);
	lbr_branches(&b, 0, 4, 100);
	lbr_guest_ctl(&b, 0, P0, 0);
	lbr_branches(&b, 0, 4, 200);
	expect(0, VPMU_LBR_GUEST, 4, 100);
	vpmu_pcpu_switch(P0, C2);
	vpmu_pcpu_switch(P0, C0);
	cr_assert_eq(vpmu_lbr_guest_get(C0, P0, &r), 0);
	cr_assert_eq(r.count, 4);
	lbr_guest_ctl(&b, 0, P0, LBR_ALL);
	lbr_branches(&b, 0, 2, 104);
	expect(0, VPMU_LBR_GUEST, 6, 100);
	/* The hardware stopped it: it stays so until the guest enables it. */
	b.pmu[0].tally->lbr.ctl &= ~VPMU_LBR_EN;
	vpmu_pcpu_flush(P0);
	cr_assert(lbr_cpu_zero(&b, 0));
	expect(0, VPMU_LBR_GUEST, 6, 100);
	cr_assert_eq(vpmu_lbr_guest_get(C0, P0, &r), 0);
	cr_assert_eq(r.ctl, LBR_ALL & ~VPMU_LBR_EN);
	vpmu_lbr_guest_close(C0, P0);
	expect_none(0);
	cr_assert_eq(vpmu_lbr_guest_get(C0, P0, &r), -ENOENT);
	cr_assert_eq(vpmu_lbr_guest_set(C0, P0, &r), -ENOENT);
}

/* An operator captures while the guest now records, now does not: neither sees the other's. */
Test(lbr, guest_and_capture)
{
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;

	vpmu_pcpu_switch(P0, C0);
	cr_assert_eq(vpmu_lbr_attach(b.vcpu[0], LBR_STACK), 0);
	cr_assert_eq(b.pmu[0].tally->lbr.ctl, LBR_STACK, "it has begun on return");
	lbr_branches(&b, 0, 2, 100);
	cr_assert_eq(vpmu_lbr_guest_open(C0, P0, 16), 0);
	lbr_branches(&b, 0, 2, 102);
	expect(0, VPMU_LBR_HOST, 4, 100);
	lbr_guest_ctl(&b, 0, P0, LBR_ALL);
	lbr_branches(&b, 0, 3, 200);
	expect(0, VPMU_LBR_GUEST, 3, 200);
	cr_assert_eq(vpmu_lbr_live(C0, P0, &r, &user), 0);
	cr_assert(user == VPMU_LBR_GUEST && r.count == 3 && r.depth == 16);
	lbr_guest_ctl(&b, 0, P0, 0);
	cr_assert_eq(vpmu_lbr_guest_get(C0, P0, &r), 0);
	cr_assert_eq(r.count, 3);
	lbr_branches(&b, 0, 1, 104);
	cr_assert_eq(vpmu_lbr_live(C0, P0, &r, &user), 0);
	cr_assert(user == VPMU_LBR_HOST && r.count == 5);
	expect(0, VPMU_LBR_HOST, 5, 100);
	lbr_guest_ctl(&b, 0, P0, LBR_ALL);
	vpmu_lbr_guest_close(C0, P0);
	lbr_branches(&b, 0, 1, 105);
	expect(0, VPMU_LBR_HOST, 6, 100);
	vpmu_lbr_detach(b.vcpu[0]);
	cr_assert(lbr_cpu_zero(&b, 0));
	expect_none(0);
	cr_assert_eq(vpmu_lbr_live(C0, P0, &r, &user), -ENOENT);
}

static void break_all(enum lbr_fault fault)
{
	for (int i = 0; i < BED_PCPUS; i++)
		lbr_break(&b.pmu[i].pmu, fault);
}

/* I5. Records that the next task finds, in its CPU and in records of its own once it enables them.
 */
static unsigned int found(enum lbr_fault fault)
{
	struct vpmu_lbr_regs r;

	break_all(fault);
	lbr_guest_on(&b, 0);
	vpmu_pcpu_switch(P0, C0);
	lbr_branches(&b, 0, 20, 0xa000);
	vpmu_pcpu_switch(P0, C2);
	cr_assert_eq(lbr_cpu_zero(&b, 0), fault != LBR_FAULT_NO_RESET);
	lbr_branches(&b, 0, 20, 0xb000);
	cr_assert_eq(vpmu_lbr_guest_open(C2, P0, 32), 0);
	lbr_guest_ctl(&b, 2, P0, LBR_ALL);
	cr_assert_eq(vpmu_lbr_guest_get(C2, P0, &r), 0);
	break_all(LBR_FAULT_NONE);
	return r.count;
}

Test(lbr, no_leak)
{
	cr_assert_eq(found(LBR_FAULT_NONE), 0);
}

Test(lbr, leak_without_reset)
{
	cr_assert_eq(found(LBR_FAULT_NO_RESET), 20, "the test above could not fail");
}

Test(lbr, short_without_restore)
{
	lbr_guest_on(&b, 0);
	break_all(LBR_FAULT_NO_RESTORE);
	for (unsigned int i = 0; i < 5; i++) {
		vpmu_pcpu_switch(P0, C0);
		lbr_branches(&b, 0, 2, 100 + 2 * i);
		vpmu_pcpu_flush(P0);
		expect(0, VPMU_LBR_GUEST, 2, 100 + 2 * i);
		vpmu_pcpu_switch(P0, C2);
	}
	break_all(LBR_FAULT_NONE);
	vpmu_lbr_guest_close(C0, NULL);
	lbr_guest_on(&b, 0);
	for (unsigned int i = 0; i < 5; i++) {
		vpmu_pcpu_switch(P0, C0);
		lbr_branches(&b, 0, 2, 100 + 2 * i);
		vpmu_pcpu_switch(P0, C2);
	}
	expect(0, VPMU_LBR_GUEST, 10, 100);
}

/* Whatever is in the registers, also in entries beyond @count. */
Test(lbr, every_bit_of_a_guests_registers_comes_back)
{
	uint64_t seed = 1;

	lbr_guest_on(&b, 0);
	lbr_guest_on(&b, 2);
	for (unsigned int i = 0; i < 200; i++) {
		struct vpmu_pcpu *p = b.p[i / 2 % 2];
		struct vpmu_lbr_regs r = {.depth = (uint8_t)(8 + 8 * (i % 4)),
					  .head = (uint8_t)(i % VPMU_LBR_DEPTH_MAX),
					  .cycles = i,
					  .total = 2 * i},
				     got;
		enum vpmu_lbr_user user;

		r.ctl = i % 3 ? LBR_ALL : LBR_ALL & ~VPMU_LBR_EN;
		r.count = (uint8_t)(i % (r.depth + 1u));
		for (int e = 0; e < VPMU_LBR_DEPTH_MAX; e++)
			r.e[e] = (struct vpmu_lbr_entry){random_split(&seed), random_split(&seed),
							 random_split(&seed)};
		cr_assert_eq(vpmu_context_place(C0, p), 0);
		if (i % 5 == 0)
			vpmu_pcpu_switch(p, C0);
		cr_assert_eq(vpmu_lbr_guest_set(C0, p, &r), 0);
		vpmu_pcpu_switch(p, C0);
		cr_assert_eq(vpmu_lbr_live(C0, p, &got, &user), 0);
		cr_assert(!memcmp(&got, &r, sizeof(r)), "%u: live", i);
		vpmu_pcpu_switch(p, p == P0 ? C2 : NULL);
		cr_assert_eq(vpmu_lbr_read(b.vcpu[0], &got, &user), 0);
		cr_assert(!memcmp(&got, &r, sizeof(r)), "%u: read", i);
		cr_assert_eq(vpmu_lbr_guest_get(C0, p, &got), 0);
		cr_assert(!memcmp(&got, &r, sizeof(r)), "%u: get", i);
	}
}

/* ---- captures ---- */

Test(lbr, inheritance_and_global_mode)
{
	struct vpmu_account *vcpu, *late;
	struct vpmu_context late_ctx = {0};
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;

	cr_assert_eq(vpmu_lbr_attach(vpmu_host_root(b.host), LBR_ALL), 0);
	cr_assert_eq(lbr_usage(&b).tasks, BED_VCPUS);
	/* A child of a captured tenant is captured from its first branch. */
	cr_assert_eq(vpmu_account_create(b.tenant, NULL, &late), 0);
	cr_assert_eq(vpmu_account_create(late, NULL, &vcpu), 0);
	cr_assert_eq(vpmu_context_init(&late_ctx, vcpu, late), 0);
	cr_assert_eq(vpmu_context_place(&late_ctx, P0), 0);
	cr_assert_eq(lbr_usage(&b).tasks, BED_VCPUS + 1);
	vpmu_pcpu_switch(P0, &late_ctx);
	lbr_branches(&b, 0, 3, 500);
	vpmu_pcpu_switch(P0, NULL);
	cr_assert(lbr_cpu_zero(&b, 0), "the host's own work is no vCPU task");
	cr_assert_eq(vpmu_lbr_read(vcpu, &r, &user), 0);
	cr_assert_eq(r.count, 3);
	/* Users are counted, by account and over accounts. */
	cr_assert_eq(vpmu_lbr_attach(late, LBR_ALL), 0);
	cr_assert_eq(vpmu_lbr_attach(late, LBR_ALL), 0);
	cr_assert_eq(lbr_usage(&b).tasks, BED_VCPUS + 1);
	vpmu_lbr_detach(vpmu_host_root(b.host));
	cr_assert_eq(lbr_usage(&b).tasks, 1);
	vpmu_lbr_detach(late);
	cr_assert_eq(vpmu_lbr_read(vcpu, &r, &user), 0);
	cr_assert_eq(r.count, 3, "what was captured is still there");
	vpmu_lbr_detach(late);
	cr_assert_eq(vpmu_lbr_read(vcpu, &r, &user), -ENOENT);
	vpmu_lbr_detach(late); /* nothing to detach */
	vpmu_context_fini(&late_ctx);
	cr_assert_eq(vpmu_account_del(vcpu), 0);
	cr_assert_eq(vpmu_account_del(late), 0);
}

Test(lbr, one_ctl_where_they_overlap)
{
	struct vpmu_account *root = vpmu_host_root(b.host), *empty;

	cr_assert_eq(vpmu_account_create(root, NULL, &empty), 0);
	cr_assert_eq(vpmu_lbr_attach(b.vm, LBR_ALL), 0);
	cr_assert_eq(vpmu_lbr_attach(b.vm, LBR_STACK), -EBUSY, "the account");
	cr_assert_eq(vpmu_lbr_attach(root, LBR_STACK), -EBUSY, "above it");
	cr_assert_eq(vpmu_lbr_attach(b.vcpu[1], LBR_STACK), -EBUSY, "below it");
	cr_assert_eq(vpmu_lbr_attach(empty, LBR_STACK), 0, "beside it");
	/* No context is there yet, but one could come. */
	cr_assert_eq(vpmu_lbr_attach(root, LBR_ALL), -EBUSY);
	cr_assert_eq(vpmu_account_del(empty), -EBUSY, "captured");
	vpmu_lbr_detach(empty);
	cr_assert_eq(vpmu_lbr_attach(root, LBR_ALL & ~VPMU_LBR_EN), 0, "EN is understood");
	vpmu_lbr_detach(b.vm);
	cr_assert_eq(lbr_usage(&b).tasks, BED_VCPUS);
	vpmu_lbr_detach(root);
	cr_assert_eq(lbr_usage(&b).tasks, 0);
	cr_assert_eq(vpmu_lbr_attach(root, LBR_STACK), 0);
	vpmu_lbr_detach(root);
	cr_assert_eq(vpmu_account_del(empty), 0);
}

Test(lbr, refusals)
{
	const struct vpmu_lbr_regs bad[] = {{.ctl = 1u << 4, .depth = 32},
					    {.ctl = LBR_ALL, .depth = 12},
					    {.ctl = LBR_ALL, .depth = 32, .head = 32},
					    {.ctl = LBR_ALL, .depth = 32, .count = 33}};
	struct vpmu_lbr_regs r = {.ctl = LBR_ALL, .depth = 32}, now;

	cr_assert_eq(vpmu_lbr_attach(b.vm, VPMU_LBR_CALL_STACK | VPMU_LBR_TYPES), -EINVAL);
	cr_assert_eq(vpmu_lbr_attach(b.vm, 1u << 31), -EINVAL);
	cr_assert_eq(vpmu_lbr_attach(vpmu_host_other(b.host), LBR_ALL), -EOPNOTSUPP);
	cr_assert_eq(vpmu_lbr_guest_open(C0, NULL, 0), -EINVAL);
	cr_assert_eq(vpmu_lbr_guest_open(C0, NULL, 33), -EINVAL);
	cr_assert_eq(vpmu_lbr_guest_open(C0, NULL, 40), -EINVAL);
	cr_assert_eq(lbr_usage(&b).bytes, 0);
	cr_assert_eq(vpmu_lbr_guest_open(C0, NULL, 8), 0);
	cr_assert_eq(vpmu_lbr_guest_open(C0, NULL, 16), 0, "open already");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(vpmu_lbr_guest_set(C0, NULL, &bad[i]), -EINVAL, "%zu", i);
	cr_assert_eq(vpmu_lbr_guest_get(C0, NULL, &now), 0);
	cr_assert(now.depth == 8 && now.ctl == 0, "nothing of that was taken");
	cr_assert_eq(vpmu_lbr_guest_set(C0, NULL, &r), 0);
}

/* ---- places and lives ---- */

/* A pCPU without a facility: records of elsewhere stay as they are. */
Test(lbr_mixed, pcpu_without_facility)
{
	struct vpmu_emupmu_opts none = {.no_lbr = true};
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;

	bed_init(&b, &none);
	cr_assert_eq(vpmu_lbr_attach(b.vm, LBR_ALL), -EOPNOTSUPP);
	vpmu_emupmu_init(&pmu, NULL);
	cr_assert_eq(vpmu_pcpu_create(b.host, &pmu.pmu, 7, &p), 0);
	cr_assert_eq(vpmu_lbr_attach(b.vm, LBR_ALL), 0);
	cr_assert_eq(vpmu_context_place(C0, p), 0);
	vpmu_pcpu_switch(p, C0);
	lbr_push(&pmu.tally->lbr, 100, 0);
	vpmu_pcpu_switch(p, NULL);
	cr_assert_eq(vpmu_context_place(C0, P0), 0);
	vpmu_pcpu_switch(P0, C0);
	lbr_guest_on(&b, 0);
	vpmu_lbr_guest_close(C0, P0);
	vpmu_pcpu_flush(P0);
	vpmu_pcpu_switch(P0, C2);
	expect(0, VPMU_LBR_HOST, 1, 100);
	cr_assert_eq(vpmu_context_place(C0, p), 0);
	vpmu_pcpu_switch(p, C0);
	lbr_push(&pmu.tally->lbr, 101, 0);
	expect(0, VPMU_LBR_HOST, 2, 100);
	vpmu_pcpu_switch(p, NULL);
	cr_assert_eq(vpmu_pcpu_destroy(p), 0);
	expect(0, VPMU_LBR_HOST, 2, 100);
	vpmu_lbr_detach(b.vm);
	bed_fini(&b);
}

/* Data that are gone are not found again, whatever is at their address now. */
Test(lbr, new_data_at_an_old_address)
{
	struct vpmu_taskdata *old;

	vpmu_pcpu_switch(P0, C0);
	cr_assert_eq(vpmu_lbr_attach(b.vcpu[0], LBR_ALL), 0);
	old = C0->lbr.data[VPMU_LBR_HOST];
	lbr_branches(&b, 0, 5, 100);
	vpmu_lbr_detach(b.vcpu[0]);
	urcu_memb_barrier();
	cr_assert_eq(vpmu_lbr_attach(b.vcpu[0], LBR_ALL), 0);
	if (C0->lbr.data[VPMU_LBR_HOST] != old)
		cr_log_info("not the same address");
	lbr_branches(&b, 0, 2, 200);
	expect(0, VPMU_LBR_HOST, 2, 200);
	vpmu_lbr_detach(b.vcpu[0]);
}

Test(lbr, context_ends_and_another_begins_in_its_memory)
{
	struct vpmu_context other = {0};
	struct vpmu_account *vcpu;

	cr_assert_eq(vpmu_lbr_attach(b.tenant, LBR_ALL), 0);
	cr_assert_eq(vpmu_account_create(b.vm, NULL, &vcpu), 0);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(vpmu_context_init(&other, vcpu, b.vm), 0);
		cr_assert_eq(vpmu_context_place(&other, P0), 0);
		cr_assert_eq(vpmu_lbr_guest_open(&other, P0, 32), 0);
		vpmu_pcpu_switch(P0, &other);
		lbr_branches(&b, 0, 5, 100);
		cr_assert_eq(other.lbr.data[VPMU_LBR_HOST]->regs.count, 0, "saved at a switch");
		vpmu_pcpu_switch(P0, C2);
		cr_assert_eq(other.lbr.data[VPMU_LBR_HOST]->regs.count, 5);
		vpmu_context_fini(&other);
	}
	vpmu_pcpu_switch(P0, NULL);
	cr_assert_eq(vpmu_account_del(vcpu), 0);
	vpmu_lbr_detach(b.tenant);
}
