// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records while everything happens at once.
 *
 *   test_lbr_churn [--seconds N] [--seed N]
 *
 * Runners own a pCPU each: they switch between the vCPUs they have, make branches, use the guests'
 * own records, poll, go offline and online, and hand vCPUs to each other. One controller captures
 * tenants and the whole host, another one VMs and vCPUs, which it also makes and removes (births
 * and deaths in global mode). Readers read everybody's records all the time.
 *
 * Each branch carries the vCPU that made it, whether its guest had records enabled, and a number
 * that counts them. So a reader can detect: records of another task or another user (I5), a
 * record lost or repeated anywhere in the middle, a torn copy, a state older than the one read
 * before. The guests' own reads are compared exactly. At the end no memory is left (I6).
 * Meant for TSan and ASan too (--seconds 30).
 */
#include <errno.h>
#include <pthread.h>

#include "vpmu/account.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"
#include "vpmu/emupmu.h"

#define TENANTS 2
#define VMS	8
#define VCPUS	2 /* of each VM */

#define ALL   (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)
#define STACK (VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS)

struct vcpu {
	struct vm *vm;
	uint32_t id; /* never used twice */
	struct vpmu_account *own;
	struct vpmu_context ctx;
	/* by its holder: branches made with the guest's records enabled, and without */
	uint32_t made[VPMU_LBR_USERS];
	bool open, on;
	unsigned int depth;
	uint64_t recorded; /* of made[GUEST], since the open */
	/* readers: the newest branch anybody has seen; atomic */
	uint32_t seen[VPMU_LBR_USERS];
	struct vcpu *next;
};

struct runner_own {
	unsigned long guest_checks; /* atomic */
};

#include "tests/model/churn.h"

/* Readers hold the lock while they look at a VM: its contexts cannot go. */
static struct {
	pthread_rwlock_t lock;
	struct vm *vm;
} slots[VMS];
static uint32_t next_id = 1;
static unsigned long nr_reads, nr_records, nr_again, nr_attached, nr_busy, nr_vms;

/* ---- the content of a record ---- */

static uint64_t stamp(const struct vcpu *v, enum vpmu_lbr_user user, uint32_t n)
{
	return (uint64_t)v->id << 40 | (uint64_t)user << 32 | n;
}

/* All of @r are @v's own, made as @user, without a gap. The number of the newest; 0: none. */
static uint32_t check(const struct vcpu *v, const struct vpmu_lbr_regs *r, enum vpmu_lbr_user user,
		      const char *who)
{
	const struct vpmu_lbr_entry *e = vpmu_lbr_nth(r, 0);
	uint32_t newest = e ? (uint32_t)e->from : 0;

	if (r->count > r->depth || (r->total < 32 && r->count > r->total))
		fail("%s: %u records, %lu made, depth %u", who, r->count, r->total, r->depth);
	for (unsigned int i = 0; i < r->count; i++) {
		e = vpmu_lbr_nth(r, i);
		if (e->from != stamp(v, user, newest - i) || e->to != ~e->from)
			fail("%s: record %u of vCPU %u, user %d: %#lx -> %#lx, newest %u", who, i,
			     v->id, user, e->from, e->to, newest);
	}
	return newest;
}

/* ---- readers ---- */

/* Whoever read before us saw nothing newer. */
static void read_one(struct vcpu *v)
{
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;
	uint32_t seen[VPMU_LBR_USERS], newest;
	int ret;

	for (int u = 0; u < VPMU_LBR_USERS; u++)
		seen[u] = load(&v->seen[u]);
	ret = vpmu_lbr_read(v->own, &r, &user);
	if (ret == -EAGAIN)
		__atomic_add_fetch(&nr_again, 1, __ATOMIC_RELAXED);
	else if (ret && ret != -ENOENT)
		fail("read: %d", ret);
	if (ret)
		return;
	newest = check(v, &r, user, "reader");
	__atomic_add_fetch(&nr_records, r.count, __ATOMIC_RELAXED);
	if (!newest)
		return; /* just begun */
	if (newest < seen[user])
		fail("reader: vCPU %u went back from %u to %u", v->id, seen[user], newest);
	while (seen[user] < newest &&
	       !__atomic_compare_exchange_n(&v->seen[user], &seen[user], newest, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
}

static void *reader(void *arg)
{
	unsigned long n = 0;

	urcu_memb_register_thread();
	while (!load(&stop_readers)) {
		for (int i = 0; i < VMS; i++) {
			pthread_rwlock_rdlock(&slots[i].lock);
			for (int k = 0; slots[i].vm && k < VCPUS; k++, n++)
				read_one(&slots[i].vm->vcpu[k]);
			pthread_rwlock_unlock(&slots[i].lock);
		}
		if (n % 512 == 0)
			vpmu_host_sync(host);
		sched_yield();
	}
	__atomic_add_fetch(&nr_reads, n, __ATOMIC_RELAXED);
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- runners ---- */

/* @v, or the host when NULL, executes @n branches. */
static void execute(struct runner *r, struct vcpu *v, unsigned int n)
{
	struct vpmu_lbr_regs *lbr = &r->pmu.tally->lbr;
	enum vpmu_lbr_user user = v && v->on ? VPMU_LBR_GUEST : VPMU_LBR_HOST;

	for (; n; n--) {
		uint64_t from = v ? stamp(v, user, ++v->made[user]) : 0xbad;

		if (v && v->on)
			v->recorded++;
		if (!(lbr->ctl & VPMU_LBR_EN)) {
			if (v && v->on)
				fail("the guest of vCPU %u is not recorded", v->id);
			continue;
		}
		if (!v)
			fail("the host is recorded");
		lbr->head = (uint8_t)((lbr->head + 1) % VPMU_LBR_DEPTH_MAX);
		lbr->e[lbr->head] = (struct vpmu_lbr_entry){from, ~from, 0};
		lbr->count = lbr->count < lbr->depth ? lbr->count + 1 : lbr->depth;
		lbr->total++;
	}
}

/* The guest looks at its own: exactly its own branches. */
static void guest_check(struct runner *r, struct vcpu *v, struct vpmu_lbr_regs *regs)
{
	uint32_t newest;

	if (vpmu_lbr_guest_get(&v->ctx, r->p, regs)) {
		fail("guest_get");
		return;
	}
	newest = check(v, regs, VPMU_LBR_GUEST, "guest");
	if (regs->total != v->recorded ||
	    regs->count != (v->recorded < v->depth ? v->recorded : v->depth) ||
	    (regs->count && newest != v->made[VPMU_LBR_GUEST]))
		fail("guest of vCPU %u: %u records, %lu of %lu made, newest %u of %u", v->id,
		     regs->count, regs->total, v->recorded, newest, v->made[VPMU_LBR_GUEST]);
	__atomic_add_fetch(&r->own.guest_checks, 1, __ATOMIC_RELAXED);
}

/* Current or not. */
static void guest_use(struct runner *r, struct vcpu *v)
{
	struct vpmu_lbr_regs regs;

	if (!v->open) {
		v->depth = 8 + 8 * rnd(&r->rng, 4);
		if (vpmu_lbr_guest_open(&v->ctx, r->p, v->depth))
			fail("guest_open");
		v->open = true;
		v->recorded = 0;
		guest_check(r, v, &regs); /* records of no account are in there */
		return;
	}
	guest_check(r, v, &regs);
	if (!rnd(&r->rng, 8)) {
		vpmu_lbr_guest_close(&v->ctx, r->p);
		v->open = v->on = false;
	} else if (!rnd(&r->rng, 2)) {
		v->on = !v->on;
		regs.ctl = v->on ? ALL : 0;
		if (vpmu_lbr_guest_set(&v->ctx, r->p, &regs))
			fail("guest_set");
	}
}

static void live(struct runner *r, struct vcpu *v)
{
	struct vpmu_lbr_regs regs;
	enum vpmu_lbr_user user;
	int ret = vpmu_lbr_live(&v->ctx, r->p, &regs, &user);

	if (ret && (ret != -ENOENT || v->open))
		fail("live: %d", ret);
	if (!ret)
		check(v, &regs, user, "live");
}

static void slice(struct runner *r)
{
	static const struct vpmu_lbr_regs zero;
	int i = 0;
	struct vcpu *v = switch_to_some(r, &i);

	if (!v && memcmp(&r->pmu.tally->lbr, &zero, sizeof(zero)))
		fail("I5: the CPU holds records while the host runs");
	for (unsigned int k = rnd(&r->rng, 4); k; k--) {
		execute(r, v, rnd(&r->rng, 50));
		if (v && !rnd(&r->rng, 4))
			guest_use(r, v);
		if (v && !rnd(&r->rng, 8))
			live(r, v);
		vpmu_pcpu_poll(r->p);
	}
	if (r->n && !rnd(&r->rng, 16) && r->mine[0] != v)
		guest_use(r, r->mine[0]);
	offline_sometimes(r);
	if (!v || (!load(&v->vm->dying) && rnd(&r->rng, 10)))
		return;
	/* Not always the host in between when it leaves. */
	vpmu_pcpu_switch(r->p, r->n > 1 ? &r->mine[i ? 0 : 1]->ctx : NULL);
	r->mine[i] = r->mine[--r->n];
	if (load(&v->vm->dying)) {
		__atomic_sub_fetch(&v->vm->held, 1, __ATOMIC_RELEASE);
	} else {
		give(&runner[rnd(&r->rng, RUNNERS)], v);
		__atomic_add_fetch(&r->moved, 1, __ATOMIC_RELAXED);
	}
}

/* ---- controllers ---- */

static void vm_create(int i, uint64_t *rng)
{
	struct vm *vm = vm_new(rnd(rng, TENANTS));

	for (int k = 0; k < VCPUS; k++)
		vm->vcpu[k].id = next_id++;
	pthread_rwlock_wrlock(&slots[i].lock);
	slots[i].vm = vm;
	pthread_rwlock_unlock(&slots[i].lock);
	for (int k = 0; k < VCPUS; k++)
		give(&runner[rnd(rng, RUNNERS)], &vm->vcpu[k]);
	nr_vms++;
}

static void vm_destroy(int i)
{
	struct vm *vm = slots[i].vm;

	store(&vm->dying, true);
	if (!let_go_of(vm))
		return;
	pthread_rwlock_wrlock(&slots[i].lock);
	slots[i].vm = NULL;
	pthread_rwlock_unlock(&slots[i].lock);
	vm_free(vm);
}

/* Attach or detach; *users are this controller's attaches of @a. */
static void capture(struct vpmu_account *a, unsigned int *users, uint64_t *rng)
{
	int ret;

	if (*users && rnd(rng, 2)) {
		vpmu_lbr_detach(a);
		--*users;
		return;
	}
	ret = vpmu_lbr_attach(a, rnd(rng, 8) ? ALL : STACK);
	if (ret && ret != -EBUSY)
		fail("attach: %d", ret);
	if (!ret)
		++*users;
	__atomic_add_fetch(ret ? &nr_busy : &nr_attached, 1, __ATOMIC_RELAXED);
}

static void release(struct vpmu_account *a, unsigned int *users)
{
	for (; *users; --*users)
		vpmu_lbr_detach(a);
}

/* The host, the tenants. */
static void *control_top(void *arg)
{
	struct vpmu_account *a[TENANTS + 1] = {tenant[0], tenant[1], vpmu_host_root(host)};
	unsigned int users[TENANTS + 1] = {0};
	uint64_t rng = base_seed + 100;

	urcu_memb_register_thread();
	while (!load(&stop_controllers) && !load(&failed)) {
		unsigned int i = rnd(&rng, TENANTS + 1);

		capture(a[i], &users[i], &rng);
		sched_yield();
	}
	for (int i = 0; i <= TENANTS; i++)
		release(a[i], &users[i]);
	urcu_memb_unregister_thread();
	return NULL;
}

/* VMs and vCPUs: their captures, births and deaths. */
static void *control_vms(void *arg)
{
	unsigned int users[VMS][VCPUS + 1] = {{0}};
	uint64_t rng = base_seed + 200;

	urcu_memb_register_thread();
	while (!load(&stop_controllers) && !load(&failed)) {
		int i = (int)rnd(&rng, VMS), k = (int)rnd(&rng, VCPUS + 1);
		struct vm *vm = slots[i].vm;

		if (!vm) {
			vm_create(i, &rng);
		} else if (rnd(&rng, 4)) {
			capture(k < VCPUS ? vm->vcpu[k].own : vm->account, &users[i][k], &rng);
		} else {
			for (k = 0; k < VCPUS; k++)
				release(vm->vcpu[k].own, &users[i][k]);
			release(vm->account, &users[i][VCPUS]);
			vm_destroy(i);
		}
	}
	for (int i = 0; i < VMS; i++) {
		for (int k = 0; slots[i].vm && k < VCPUS; k++)
			release(slots[i].vm->vcpu[k].own, &users[i][k]);
		if (slots[i].vm)
			release(slots[i].vm->account, &users[i][VCPUS]);
	}
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- the whole ---- */

static void setup(void)
{
	runners_init(NULL);
	for (int i = 0; i < TENANTS; i++) {
		if (vpmu_account_create(vpmu_host_root(host), NULL, &tenant[i]))
			fail("account_create");
	}
	for (int i = 0; i < VMS; i++)
		pthread_rwlock_init(&slots[i].lock, NULL);
}

static void teardown(void)
{
	struct vpmu_lbr_usage u;

	for (int i = 0; i < VMS; i++) {
		if (slots[i].vm)
			vm_free(slots[i].vm);
	}
	/* Twice, as one may have been opened and closed in its first grace period. */
	urcu_memb_barrier();
	urcu_memb_barrier();
	vpmu_lbr_usage(host, &u);
	if (u.tasks || u.bytes)
		fail("I6: %zu tasks, %zu bytes are left", u.tasks, u.bytes);
	vpmu_host_destroy(host);
}

/* The tested cases have occurred. */
static bool all_happened(void)
{
	unsigned long checks = 0, moved = 0;

	for (int i = 0; i < RUNNERS; i++) {
		checks += load(&runner[i].own.guest_checks);
		moved += load(&runner[i].moved);
	}
	return checks && moved && load(&nr_records) && load(&nr_attached);
}

int main(int argc, char **argv)
{
	unsigned long checks = 0, slices = 0, moved = 0;
	time_t seconds = churn_options(argc, argv, NULL, NULL);

	if (seconds < 0)
		return 2;
	urcu_memb_register_thread();
	setup();
	churn_start(reader, control_top, control_vms);
	churn_for(seconds, all_happened);
	/* Controllers and readers wait for runners: they end first. */
	churn_stop(&stop_controllers, threads.controllers, 2);
	churn_stop(&stop_readers, threads.readers, READERS);
	churn_stop(&stop_runners, threads.runners, RUNNERS);
	for (int i = 0; i < RUNNERS; i++) {
		checks += runner[i].own.guest_checks;
		slices += runner[i].slices;
		moved += runner[i].moved;
	}
	if (!load(&failed))
		teardown();
	printf("# seed %lu: %lu slices, %lu migrations, %lu VMs, %lu captures (%lu refused), %lu "
	       "guest checks, %lu reads (%lu given up), %lu records read\n",
	       base_seed, slices, moved, nr_vms, nr_attached, nr_busy, checks, nr_reads, nr_again,
	       nr_records);
	printf("%sok 1 - I5, I6: branch records under churn\n1..1\n", failed ? "not " : "");
	urcu_memb_unregister_thread();
	return failed;
}
