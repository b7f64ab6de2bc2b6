// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Cells: what accounts cost in memory, when that is freed, and whom a control call asks. The
 * library's allocations are counted (alloc_wrap.h).
 */
#include <semaphore.h>
#include <unistd.h>

#include <string.h>

#include "alloc_wrap.h"
#include "core_bed.h"
#include "vpmu/core/internal.h"

static sem_t callbacks_ran;

static void post(struct rcu_head *head)
{
	(void)head;
	sem_post(&callbacks_ran);
}

/*
 * The bytes in use when all callbacks have run. Where liburcu is linked statically, its own memory
 * counts too, and the thread that runs callbacks frees the barrier's memory only behind the
 * barrier. The callback here comes behind that, and allocates nothing.
 */
static long live_now(void)
{
	static struct rcu_head last;

	cr_assert_eq(sem_init(&callbacks_ran, 0, 0), 0);
	urcu_memb_barrier();
	urcu_memb_call_rcu(&last, post);
	while (sem_wait(&callbacks_ran))
		;
	return alloc_live;
}

/* ---- a host with many pCPUs ---- */

#define PCPUS 16
#define VMS   64
#define KEYS  8

static struct vpmu_host *host;
static struct vpmu_emupmu pmu[PCPUS];
static struct vpmu_pcpu *pcpu[PCPUS];
static struct vpmu_account *tenant, *vm[VMS], *vcpu[VMS];
static struct vpmu_context ctx[VMS];
static struct vpmu_consumer con[VMS * KEYS], *list[VMS * KEYS];
static struct vpmu_account *acc[VMS * KEYS];
static vpmu_key_t keys[VMS * KEYS];
static size_t nr;

static struct vpmu_hostpmu_ops kick_ops;
static unsigned int kicks[PCPUS];

static void count_kick(struct vpmu_hostpmu *p)
{
	kicks[(struct vpmu_emupmu *)p - pmu]++;
}

static vpmu_key_t nth_key(size_t k)
{
	static const enum vpmu_generic events[] = {
		VPMU_EV_INSTRUCTIONS,	VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES, VPMU_EV_BRANCHES,
		VPMU_EV_BRANCHES_TAKEN, VPMU_EV_LOADS,	VPMU_EV_STORES};

	return vpmu_key_generic(events[k % 7], k < 7 ? GUEST : VPMU_KEY_USR);
}

/* Each VM's vCPU has been on @visits pCPUs. */
static void open_host(unsigned int visits)
{
	const struct vpmu_emupmu_opts opts = {.gp = KEYS, .no_default = true};

	urcu_memb_register_thread();
	host = vpmu_host_create();
	cr_assert_eq(vpmu_account_create(vpmu_host_root(host), NULL, &tenant), 0);
	for (unsigned int p = 0; p < PCPUS; p++) {
		cr_assert_eq(vpmu_emupmu_init(&pmu[p], &opts), 0);
		kick_ops = *pmu[p].pmu.ops;
		kick_ops.kick = count_kick;
		pmu[p].pmu.ops = &kick_ops;
		cr_assert_eq(vpmu_pcpu_create(host, &pmu[p].pmu, p, &pcpu[p]), 0);
		kicks[p] = 0;
	}
	for (unsigned int i = 0; i < VMS; i++) {
		cr_assert_eq(vpmu_account_create(tenant, NULL, &vm[i]), 0);
		cr_assert_eq(vpmu_account_create(vm[i], NULL, &vcpu[i]), 0);
		cr_assert_eq(vpmu_context_init(&ctx[i], vcpu[i], vm[i]), 0);
		for (unsigned int p = visits; p--;)
			cr_assert_eq(vpmu_context_place(&ctx[i], pcpu[(i + p) % PCPUS]), 0);
	}
}

static void close_host(void)
{
	if (!host)
		return;
	for (unsigned int p = 0; p < PCPUS; p++)
		vpmu_pcpu_switch(pcpu[p], NULL);
	for (unsigned int i = 0; i < VMS; i++)
		vpmu_context_fini(&ctx[i]);
	vpmu_host_destroy(host);
	host = NULL;
	urcu_memb_unregister_thread();
}

TestSuite(cells, .fini = close_host);

static void attach_each_vm(void)
{
	nr = VMS * KEYS;
	for (size_t i = 0; i < nr; i++) {
		con[i] = (struct vpmu_consumer){0};
		list[i] = &con[i];
		acc[i] = vm[i / KEYS];
		keys[i] = nth_key(i % KEYS);
	}
	cr_assert_eq(vpmu_consumer_add_many(list, acc, keys, nr, NULL), 0);
}

static void run(unsigned int i, uint64_t n)
{
	struct vpmu_emupmu *sp = &pmu[i % PCPUS];

	vpmu_pcpu_switch(pcpu[i % PCPUS], &ctx[i]);
	vpmu_emu_add(sp->tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
	sp->own_clock_ns += n;
}

/* ---- memory ---- */

/* Memory of each VM for a further pCPU: with nothing counted, and with 8 keys. */
Test(cells, memory_of_what_is_counted_where_it_ran)
{
	long none[2], some[2], after;

	/* liburcu makes its own data with the first callback. */
	vpmu_rcu_free(malloc(1));
	for (int i = 0; i < 2; i++) {
		long before = live_now();

		open_host(i ? PCPUS : 1);
		none[i] = live_now() - before;
		attach_each_vm();
		some[i] = live_now() - before - none[i];
		vpmu_consumer_del_many(list, nr, NULL);
		for (unsigned int v = 0; v < VMS; v++)
			cr_expect_null(vm[v]->cells, "nobody counts");
		close_host();
		after = live_now();
		cr_expect_eq(after, before, "%ld bytes are left", after - before);
	}
	none[1] = (none[1] - none[0]) / (VMS * (PCPUS - 1));
	some[1] = (some[1] - some[0]) / (VMS * (PCPUS - 1));
	cr_expect_leq(none[1], 64, "%ld bytes with nothing counted", none[1]);
	cr_expect_leq(some[1], 24 * KEYS, "%ld bytes with %d keys", some[1], KEYS);
}

Test(cells, pcpus_that_come_and_go_leave_nothing)
{
	struct vpmu_consumer c[2] = {0};
	struct vpmu_emupmu sp;
	long before = 0;

	open_host(1);
	cr_assert_eq(vpmu_consumer_add(&c[0], vpmu_host_root(host), INSNS, NULL), 0);
	cr_assert_eq(vpmu_consumer_add(&c[1], tenant, INSNS, NULL), 0);
	for (unsigned int n = 0; n < 20000; n++) {
		struct vpmu_pcpu *p;

		vpmu_emupmu_init(&sp, NULL);
		cr_assert_eq(vpmu_pcpu_create(host, &sp.pmu, PCPUS, &p), 0);
		cr_assert_eq(vpmu_context_place(&ctx[0], p), 0);
		vpmu_pcpu_switch(p, &ctx[0]);
		vpmu_emu_add(sp.tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 3);
		sp.own_clock_ns += 2;
		vpmu_pcpu_switch(p, NULL);
		if (n % 5000 == 0)
			conserved(host);
		cr_assert_eq(vpmu_pcpu_destroy(p), 0);
		if (n == 100)
			before = live_now();
		if (n == 1000)
			cr_assert_leq(live_now(), before, "%ld bytes more", live_now() - before);
	}
	cr_expect_leq(live_now(), before, "%ld bytes more", live_now() - before);
	for (int i = 0; i < 2; i++) {
		struct vpmu_value v = bed_read(&c[i]);

		cr_expect_eq(v.count, 60000);
		cr_expect_eq(v.enabled_ns, 40000);
		vpmu_consumer_del(&c[i], NULL, NULL);
	}
}

/* A guest that switches its counters on and off: no memory for rows after the first time. */
Test(cells, a_guest_that_toggles_keeps_its_rows)
{
	struct vpmu_consumer c[4] = {0};
	const struct vpmu_cell *cell = NULL;

	open_host(1);
	for (int n = 0; n < 10; n++) {
		run(0, 1);
		for (size_t k = 0; k < 4; k++)
			cr_assert_eq(vpmu_consumer_add(&c[k], vcpu[0], nth_key(k), pcpu[0]), 0);
		run(0, 10);
		if (!cell)
			cell = vcpu[0]->cells;
		cr_expect_eq(vcpu[0]->cells, cell);
		cr_expect_null(cell->next, "one cell for all of them");
		for (size_t k = 0; k < 4; k++) {
			struct vpmu_value last;

			vpmu_consumer_del(&c[k], pcpu[0], &last);
			cr_expect_eq(last.enabled_ns, 10);
			cr_expect_eq(last.count, k ? 0 : 10);
		}
	}
	vpmu_pcpu_switch(pcpu[0], NULL);
	cr_assert_eq(vpmu_context_place(&ctx[0], pcpu[1]), 0);
	cr_expect_null(vcpu[0]->cells, "it has no counters when it is placed elsewhere");
}

/* ---- readers ---- */

/* The first cell of @a is read from now on. */
static void watch(const struct vpmu_account *a)
{
	alloc_watched_is_freed = false;
	urcu_memb_read_lock();
	alloc_watched = a->cells;
	cr_assert(a->cells);
}

static void watched_goes_when_read(void)
{
	usleep(50000); /* time for a callback that does not wait for the reader */
	cr_expect(!alloc_watched_is_freed, "still read");
	urcu_memb_read_unlock();
	urcu_memb_barrier();
	cr_expect(alloc_watched_is_freed);
	alloc_watched = NULL;
}

/* Cells that a reader may look at stay until it is done: the account's own, and those of an account
 * that is removed. */
static void stays_while_read(struct vpmu_account *a, bool remove)
{
	struct vpmu_consumer c = {0};

	cr_assert_eq(vpmu_consumer_add(&c, a, INSNS, NULL), 0);
	run(0, 5);
	vpmu_host_sync(host);
	watch(a);
	vpmu_consumer_del(&c, NULL, NULL);
	if (remove)
		cr_assert_eq(vpmu_account_del(a), 0);
	watched_goes_when_read();
}

Test(cells, stay_while_somebody_reads)
{
	open_host(1);
	stays_while_read(vm[0], false);
	stays_while_read(tenant, false);
}

Test(cells, of_a_removed_account_stay_while_somebody_reads)
{
	struct vpmu_consumer own = {0};
	struct vpmu_value last;

	open_host(1);
	cr_assert_eq(vpmu_consumer_add(&own, tenant, INSNS, NULL), 0);
	run(0, 7);
	/* A guest's rows outlive its counters, until the account goes. */
	vpmu_consumer_add(&con[0], vcpu[0], INSNS, pcpu[0]);
	run(0, 2);
	vpmu_consumer_del(&con[0], pcpu[0], &last);
	cr_expect_eq(last.count, 2);
	vpmu_pcpu_switch(pcpu[0], NULL);
	vpmu_context_fini(&ctx[0]);
	watch(vcpu[0]);
	cr_assert_eq(vpmu_account_del(vcpu[0]), 0);
	watched_goes_when_read();
	vpmu_consumer_del(&own, NULL, &last);
	cr_expect_eq(last.count, 9);
	cr_assert_eq(vpmu_account_del(vm[0]), 0);
}

/* ---- whom a control call asks ---- */

/* The pCPUs that were kicked since the last call, each once. */
static uint64_t kicked(void)
{
	uint64_t mask = 0;

	for (unsigned int p = 0; p < PCPUS; p++) {
		cr_expect_leq(kicks[p], 1);
		mask |= (uint64_t)kicks[p] << p;
		kicks[p] = 0;
	}
	return mask;
}

static struct vpmu_account *next_some(void *arg)
{
	struct vpmu_account ***list = arg;

	return *(*list)++;
}

Test(cells, a_control_call_asks_only_the_pcpus_concerned)
{
	struct vpmu_consumer c = {0};
	struct vpmu_account *some[3] = {0}, **list;

	open_host(1); /* VM i is on pCPU i % PCPUS */
	some[0] = vm[5];
	some[1] = vm[6];
	memset(kicks, 0, sizeof(kicks));
	cr_assert_eq(vpmu_consumer_add(&c, vm[3], INSNS, NULL), 0);
	cr_expect_eq(kicked(), 1 << 3);
	run(3, 11);
	vpmu_consumer_disable(&c, NULL);
	cr_expect_eq(kicked(), 1 << 3);
	cr_assert_eq(vpmu_consumer_enable(&c, NULL), 0);
	cr_expect_eq(kicked(), 1 << 3);
	vpmu_consumer_del(&c, NULL, NULL);
	cr_expect_eq(kicked(), 1 << 3);
	cr_assert_eq(vpmu_consumer_add(&c, vcpu[4], INSNS, NULL), 0);
	cr_expect_eq(kicked(), 1 << 4, "a vCPU: where it is");
	vpmu_consumer_del(&c, NULL, NULL);
	memset(kicks, 0, sizeof(kicks));
	vpmu_pcpu_switch(pcpu[3], NULL);
	cr_assert_eq(vpmu_context_place(&ctx[3], pcpu[9]), 0);
	cr_assert_eq(vpmu_consumer_add(&c, vm[3], INSNS, NULL), 0);
	cr_expect_eq(kicked(), 1 << 3 | 1 << 9, "a VM: where it has been");
	vpmu_consumer_del(&c, NULL, NULL);
	memset(kicks, 0, sizeof(kicks));
	vpmu_host_sync(host);
	cr_expect_eq(kicked(), (1 << PCPUS) - 1);
	list = some;
	cr_assert_eq(vpmu_host_sync_some(host, next_some, &list), 0);
	cr_expect_eq(kicked(), 1 << 5 | 1 << 6, "a read: where the accounts have been");
	cr_assert_eq(vpmu_lbr_attach(vm[3], VPMU_LBR_USR | VPMU_LBR_TYPES), 0);
	cr_expect_eq(kicked(), 1 << 3 | 1 << 9, "a capture: where the VM has been");
	vpmu_lbr_detach(vm[3]);
	cr_expect_eq(kicked(), 1 << 3 | 1 << 9, "its end");
}

/* ---- conservation ---- */

static unsigned int differences(void)
{
	struct conserved_rows rows = {0};

	cr_assert_eq(vpmu_host_conservation(host, conserved_row, &rows), 0);
	return rows.bad ? (unsigned int)(rows.first_bad.charged - rows.first_bad.hardware) : 0;
}

static struct vpmu_row *counted_row(const struct vpmu_account *a)
{
	struct vpmu_cell *cell = a->cells;

	while (!cell->row[0].total)
		cell = cell->next;
	return &cell->row[0];
}

/* A row that was written twice, or not at all, whatever account it is of. */
Test(cells, conservation_finds_a_wrong_row)
{
	struct vpmu_consumer c[3] = {0};
	struct vpmu_account *a[3];

	open_host(2);
	a[0] = tenant;
	a[1] = vm[0];
	a[2] = vm[5];
	for (int i = 0; i < 3; i++)
		cr_assert_eq(vpmu_consumer_add(&c[i], a[i], INSNS, NULL), 0);
	run(5, 100);
	run(0, 50);
	vpmu_pcpu_switch(pcpu[5], NULL);
	cr_expect_eq(differences(), 0);
	for (int i = 0; i < 3; i++) {
		struct vpmu_row *row = counted_row(a[i]);

		row->total += 7;
		cr_expect_eq(differences(), 7, "%d: too much", i);
		row->total -= 14;
		cr_expect_eq(differences(), -7u, "%d: too little", i);
		row->total += 7;
	}
	cr_expect_eq(differences(), 0);
	for (int i = 0; i < 3; i++)
		vpmu_consumer_del(&c[i], NULL, NULL);
	cr_expect_eq(differences(), 0, "with the rows gone");
}

/* An owner that only polls adds up the rows of the running account, and no others. */
Test(cells, a_safe_point_does_not_look_at_all_cells)
{
	struct bed_owner o;

	open_host(PCPUS);
	attach_each_vm();
	for (unsigned int i = 0; i < VMS; i += PCPUS)
		run(i, 1000);
	bed_owner_start(&o, pcpu[0]);
	cr_expect_eq(differences(), 0);
	cr_expect_eq(pcpu[0]->home->seen[con[0].slot], 1000, "of one VM, not of %d", VMS / PCPUS);
	bed_owner_stop(&o);
	vpmu_consumer_del_many(list, nr, NULL);
}
