// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/vm/share.c, vmm/sched/runqueue.c: how VMs and tenants divide the time of a pCPU. */
#include "runner_bed.h"

static uint64_t ran[VMS_MAX];
static struct bed *sharing;

/* fake_trace: a slice of @v begins. All slices are equally long. */
static void count_slice(struct vmm_engine_vcpu *v, uint64_t budget)
{
	for (unsigned int i = 0; i < VMS_MAX; i++)
		if (sharing->vms[i].vm && budget == small_host.slice_insns)
			for (unsigned int k = 0; k < VCPUS; k++)
				ran[i] += sharing->vms[i].vm->vcpus[k].ev == v;
}

/* @n slices; *percent[i] becomes the part of VM i. */
static void run_shares(struct bed *b, uint64_t n, unsigned int percent[VMS_MAX])
{
	uint64_t sum = 0;

	sharing = b;
	memset(ran, 0, sizeof(ran));
	fake_trace = count_slice;
	cr_assert_eq(runner_step(b->runner, n), n);
	fake_trace = NULL;
	for (unsigned int i = 0; i < VMS_MAX; i++)
		sum += ran[i];
	for (unsigned int i = 0; i < VMS_MAX; i++)
		percent[i] = (unsigned int)((100 * ran[i] + sum / 2) / sum);
}

static void expect_part(const unsigned int percent[VMS_MAX], unsigned int i, unsigned int want,
			int line)
{
	cr_expect(percent[i] + 1 >= want && percent[i] <= want + 1, "line %d VM %u: %u %%, not %u",
		  line, i, percent[i], want);
}
#define EXPECT_PART(i, want) expect_part(percent, i, want, __LINE__)

static const struct fake_step busy[] = {{FAKE_RUN, 1000000000000, 0, 0}};

/* Time is divided between tenants, then between their VMs and the tenants below them; how many
 * there are and how many vCPUs they have changes nothing for others. */
Test(runner_shares, weights_divide_the_time)
{
	struct host_config h = small_host;
	struct share a, b, nested;
	unsigned int percent[VMS_MAX];
	struct bed bed;

	h.pcpus = 1;
	bed_init(&bed, &h);
	fake_play(busy, busy, NULL);
	share_init(&a, NULL, 100);
	share_init(&b, NULL, 100);
	share_init(&nested, &b, 300);
	/* One VM against five. */
	start(add_vm_in(&bed, 0, &a, 0));
	for (unsigned int i = 1; i <= 4; i++)
		start(add_vm_in(&bed, i, &b, 100));
	run_shares(&bed, 8000, percent);
	EXPECT_PART(0, 50);
	EXPECT_PART(1, 12);
	/* A tenant below b, with the weight of three of b's VMs: 4 + 3 parts of half the time. */
	start(add_vm_in(&bed, 5, &nested, 100));
	run_shares(&bed, 8000, percent);
	EXPECT_PART(0, 50);
	EXPECT_PART(1, 7);
	EXPECT_PART(5, 21);
	/* Weights of tenants and VMs. */
	share_set_weight(&a, 300);
	share_set_weight(&bed.vms[1].vm->share, 500);
	run_shares(&bed, 8000, percent);
	EXPECT_PART(0, 75);
	EXPECT_PART(1, 25 * 5 / 11);
	EXPECT_PART(2, 25 / 11);
	EXPECT_PART(5, 25 * 3 / 11);
	/* Who does not run has no part, and has no credit for it afterwards. */
	vm_pause(bed.vms[0].vm);
	run_shares(&bed, 8000, percent);
	EXPECT_PART(0, 0);
	EXPECT_PART(1, 100 * 5 / 11);
	start(bed.vms[0].vm);
	run_shares(&bed, 400, percent);
	EXPECT_PART(0, 75);
	bed_fini(&bed);
}

Test(runner_shares, extreme_weights_starve_nobody)
{
	struct host_config h = small_host;
	struct share a, b;
	unsigned int percent[VMS_MAX];
	struct bed bed;

	h.pcpus = 1;
	bed_init(&bed, &h);
	fake_play(busy, busy, NULL);
	share_init(&a, NULL, SHARE_WEIGHT_MAX);
	share_init(&b, NULL, SHARE_WEIGHT_MIN);
	start(add_vm_in(&bed, 0, &a, 0));
	start(add_vm_in(&bed, 1, &b, 0));
	run_shares(&bed, 60000, percent);
	cr_expect(ran[1] >= 4 && ran[1] <= 10, "%lu of 60000", ran[1]);
	bed_fini(&bed);
}
