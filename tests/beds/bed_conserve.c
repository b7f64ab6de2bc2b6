// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF backend on hardware counters that are exact: no instruction is lost or counted twice,
 * and each is charged to the tenant that executed it. Tenants that loop; where there is a KVM,
 * tenants with VMs, too.
 */
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/beds/bed.h"
#include "tests/beds/bed_guest.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"

#define TENANTS 20
#define TIMES	30u

/* A loop of its own length in each tenant, all at once. */
static uint64_t loop_of(unsigned int tenant)
{
	return 20000 + 7777 * tenant;
}

static void make_loops(const struct tenants *t, struct looper l[TENANTS])
{
	char name[24];

	for (unsigned int i = 0; i < t->nr_tenants; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		looper_make(&l[i], name, loop_of(i), TIMES);
	}
	usleep(10000); /* until all of them wait */
}

static void play_loops(const struct tenants *t, struct looper l[TENANTS])
{
	uint64_t gave_way = 0;

	for (unsigned int i = 0; i < t->nr_tenants; i++)
		looper_start(&l[i]);
	for (unsigned int i = 0; i < t->nr_tenants; i++)
		gave_way += looper_end(&l[i]);
	cr_expect_geq(gave_way, t->nr_tenants * TIMES / 4, "the loops ran one after another: %lu",
		      gave_way);
}

static void run_loops(const struct tenants *t)
{
	struct looper l[TENANTS];

	make_loops(t, l);
	play_loops(t, l);
}

/* ---- loops in many cgroups ---------------------------------------------------------------- */

/* Group: instructions in user mode are those of the loops and a constant, for each tenant. The rest
 * of the CPU is exact by the sums. */
Test(bed_conserve, each_tenant_has_its_own_instructions)
{
	static const char *const events[] = {"instructions:uGH", "instructions:GH", "cycles:GH",
					     "instructions:kGH", NULL};
	struct tenants t;
	struct looper l[TENANTS];
	uint64_t own = 0;

	bed_one_cpu();
	tenants_open(&t, TENANTS, events);
	make_loops(&t, l);
	tenants_attach(&t, t.nr_keys, true);
	play_loops(&t, l);
	tenants_conserved(&t, 1);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int i = 0; i < TENANTS; i++) {
		uint64_t user = tenants_value(&t, i, 0)->count,
			 all = tenants_value(&t, i, 1)->count;
		uint64_t besides = user - 2 * loop_of(i) * TIMES;

		if (i == 0)
			own = besides;
		cr_expect_eq(besides, own, "tenant %u: %lu instructions beside its loops, not %lu",
			     i, besides, own);
		/* The program reads one event after the other, and its own instructions are counted
		 * meanwhile: a part of a switch. */
		cr_expect_lt(llabs((long long)(all - user - tenants_value(&t, i, 3)->count)),
			     (long long)all / 50);
		for (unsigned int k = 0; k < t.nr_keys; k++) {
			const struct vpmu_value *v = tenants_value(&t, i, k);

			cr_expect(v->supported && !v->partial && v->quality == VPMU_Q_EXACT);
			cr_expect_eq(v->enabled_ns, v->running_ns);
		}
	}
	printf("each tenant: its loops and %lu instructions in user mode\n", own);
	cr_expect_lt(own, 1000u);
	tenants_close(&t);
}

/* Both CPUs, tasks that move between them. */
Test(bed_conserve, two_cpus)
{
	static const char *const events[] = {"instructions:uGH", "instructions:GH", "cycles:GH",
					     "instructions:kGH", NULL};
	struct tenants t;

	bed_cpu1(true);
	tenants_open(&t, TENANTS, events);
	tenants_attach(&t, t.nr_keys, true);
	for (int i = 0; i < 5; i++) {
		run_loops(&t);
		tenants_conserved(&t, 2);
	}
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int i = 0; i < TENANTS; i++)
		cr_expect_geq(tenants_value(&t, i, 0)->count, 5 * 2 * loop_of(i) * TIMES);
	tenants_close(&t);
}

/* ---- more keys than counters -------------------------------------------------------------- */

Test(bed_conserve, more_keys_than_counters)
{
	static const char *const events[] = {"instructions:uGH",
					     "instructions:kGH",
					     "instructions:GH",
					     "cycles:uGH",
					     "cycles:kGH",
					     "cycles:GH",
					     "instructions:uH",
					     "instructions:kH",
					     "instructions:H",
					     "cycles:uH",
					     "cycles:kH",
					     "cycles:H",
#ifdef __aarch64__
					     "arm::r23:GH",
					     "arm::r24:GH",
#else
					     "branches:GH",
					     "branches:uGH",
#endif
					     NULL};
	struct tenants t;
	unsigned int waited = 0;
	double scaled = 0, truth = 0;

	bed_one_cpu();
	tenants_open(&t, TENANTS, events);
	tenants_attach(&t, t.nr_keys, true);
	for (int i = 0; i < 3; i++) {
		run_loops(&t);
		tenants_conserved(&t, 1);
	}
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int i = 0; i < TENANTS; i++) {
		for (unsigned int k = 0; k < t.nr_keys; k++) {
			const struct vpmu_value *v = tenants_value(&t, i, k);

			cr_expect(v->supported);
			cr_expect_leq(v->running_ns, v->enabled_ns);
			cr_expect_gt(v->enabled_ns, 0u);
			waited += v->running_ns < v->enabled_ns;
			if (k == 0) {
				scaled += (double)vpmu_value_scaled(v);
				truth += 3.0 * 2 * (double)loop_of(i) * TIMES;
				cr_expect_lt(v->count, 3 * (2 * loop_of(i) * TIMES + 50000));
			}
			if (i == 0)
				printf("%-18s count %10lu scaled %10lu running %3u %%\n", events[k],
				       v->count, vpmu_value_scaled(v),
				       (unsigned int)(100 * v->running_ns / v->enabled_ns));
		}
	}
	cr_expect(scaled > 0.8 * truth && scaled < 1.2 * truth, "%.0f, scaled, of %.0f", scaled,
		  truth);
	cr_expect_gt(waited, t.nr_tenants, "the keys did not wait for counters");
	tenants_close(&t);
}

/* ---- guests ------------------------------------------------------------------------------- */

/* A VM in a tenant, run by a process of the tenant: @times loops. *@entries is shared memory, for
 * bed_guest_entries(). */
static pid_t run_vm(const char *cgroup, uint64_t n, unsigned int times, uint64_t *entries)
{
	pid_t pid = fork();
	struct bed_guest g;

	if (pid)
		return pid;
	cgroup_enter(cgroup);
	bed_guest_make(&g);
	for (unsigned int i = 0; i < times; i++) {
		bed_guest_start(&g, n + i);
		while (bed_guest_run(&g))
			;
		sched_yield();
	}
	*entries = bed_guest_entries(&g);
	bed_guest_free(&g);
	fflush(stdout);
	_exit(0);
}

Test(bed_conserve, guests_of_tenants)
{
	static const char *const events[] = {"instructions", "instructions:H", "instructions:GH",
					     "cycles", NULL};
	enum { VMS = 4 };
	struct tenants t;
	char name[24];
	uint64_t *entries;
	pid_t pid[VMS];
	int status;

	if (access("/dev/kvm", F_OK))
		cr_skip_test("no KVM in this bed");
	entries = mmap(NULL, VMS * sizeof(*entries), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(entries != MAP_FAILED);
	bed_one_cpu();
	tenants_open(&t, VMS + 1, events);
	tenants_attach(&t, t.nr_keys, true);
	for (unsigned int i = 0; i < VMS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		pid[i] = run_vm(name, loop_of(i), TIMES, &entries[i]);
	}
	for (unsigned int i = 0; i < VMS; i++) {
		cr_assert_eq(waitpid(pid[i], &status, 0), pid[i]);
		cr_assert_eq(status, 0, "a VM failed: %d", status);
	}
	tenants_conserved(&t, 1);
	tenants_detach(&t);
	tenants_root_is_all(&t);
	for (unsigned int i = 0; i <= VMS; i++) {
		uint64_t guest = tenants_value(&t, i, 0)->count;
		uint64_t want = i < VMS ? entries[i] : 0;

		for (unsigned int j = 0; j < TIMES && i < VMS; j++)
			want += 2 * (loop_of(i) + j) + 1;
		cr_expect_eq(guest, want, "tenant %u: %lu guest instructions, not %lu", i, guest,
			     want);
		cr_expect_lt(llabs((long long)(tenants_value(&t, i, 2)->count - guest -
					       tenants_value(&t, i, 1)->count)),
			     (long long)tenants_value(&t, i, 2)->count / 50 + 1);
	}
	printf("tenant 0: guest %lu, host %lu instructions\n", tenants_value(&t, 0, 0)->count,
	       tenants_value(&t, 0, 1)->count);
	/* Nobody else is a guest. */
	cr_expect_eq(tenants_value(&t, VMS + 1, 0)->count, 0u);
	tenants_close(&t);
}
