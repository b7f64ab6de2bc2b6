// SPDX-License-Identifier: GPL-2.0-or-later
/* The memory of branch records: only while they are in use, cleared before, never too much,
 * and there for readers. */
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lbr_bed.h"

/* The linker puts this in the place of the library's mmap: the pool gets so many chunks more. */
static unsigned int chunks_left = ~0u;

void *__real_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at);
void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at);

void *__wrap_mmap(void *addr, size_t len, int prot, int flags, int fd, off_t at)
{
	if (!chunks_left) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	chunks_left--;
	return __real_mmap(addr, len, prot, flags, fd, at);
}

TestSuite(lbr_memory, .init = bed_setup, .fini = bed_teardown);

static bool mapped(const void *p)
{
	unsigned char in_core;

	return !mincore((void *)((uintptr_t)p & ~4095UL), 4096, &in_core);
}

/* I6 */
Test(lbr_memory, memory_only_while_in_use)
{
	cr_assert_eq(lbr_usage(&b).bytes, 0);
	lbr_guest_on(&b, 0);
	cr_assert_eq(lbr_usage(&b).tasks, 1);
	cr_assert_gt(lbr_usage(&b).bytes, 0);
	cr_assert_eq(vpmu_lbr_attach(b.vm, LBR_ALL), 0);
	cr_assert_eq(lbr_usage(&b).tasks, 1 + BED_VCPUS);
	vpmu_lbr_guest_close(C0, NULL);
	vpmu_lbr_detach(b.vm);
	cr_assert_eq(lbr_usage(&b).tasks, 0);
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).bytes, 0, "a grace period later it is gone");
	/* A reader keeps it. */
	lbr_guest_on(&b, 0);
	urcu_memb_read_lock();
	vpmu_lbr_guest_close(C0, NULL);
	cr_assert_gt(lbr_usage(&b).bytes, 0);
	urcu_memb_read_unlock();
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).bytes, 0);
}

/* The memory is back at the system, not only no longer counted. */
Test(lbr_memory, memory_is_unmapped)
{
	struct vpmu_taskdata *d;

	lbr_guest_on(&b, 0);
	d = C0->lbr.data[VPMU_LBR_GUEST];
	cr_assert(mapped(d));
	vpmu_lbr_guest_close(C0, NULL);
	urcu_memb_barrier();
	cr_assert(!mapped(d));
}

/* I5: memory that was another task's. */
Test(lbr_memory, reused_memory_is_empty)
{
	struct vpmu_taskdata *old;
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;

	lbr_guest_on(&b, 2); /* so that the pool keeps its memory */
	lbr_guest_on(&b, 0);
	old = C0->lbr.data[VPMU_LBR_GUEST];
	vpmu_pcpu_switch(P0, C0);
	lbr_branches(&b, 0, 20, 100);
	vpmu_lbr_guest_close(C0, P0);
	urcu_memb_barrier();
	cr_assert_eq(vpmu_lbr_attach(b.vcpu[1], LBR_ALL), 0);
	cr_assert_eq(b.ctx[1].lbr.data[VPMU_LBR_HOST], old, "not the same memory: no test");
	cr_assert_eq(vpmu_lbr_read(b.vcpu[1], &r, &user), 0);
	for (int i = 0; i < VPMU_LBR_DEPTH_MAX; i++)
		cr_assert(!r.e[i].from && !r.e[i].to && !r.e[i].info, "entry %d", i);
	cr_assert(r.ctl == LBR_ALL && !r.count && !r.head && !r.cycles && !r.total);
	vpmu_lbr_detach(b.vcpu[1]);
}

/* A guest that enables and disables as fast as it can takes no more than any other, and finds
 * nothing of its own. */
Test(lbr_memory, toggling_takes_one_object)
{
	size_t most = 0;

	vpmu_pcpu_switch(P0, C0);
	for (unsigned int i = 0; i < 20000; i++) {
		struct vpmu_lbr_regs r;

		cr_assert_eq(vpmu_lbr_guest_open(C0, P0, 16), 0);
		cr_assert_eq(vpmu_lbr_guest_get(C0, P0, &r), 0);
		cr_assert(!r.count && !r.ctl && !r.e[1].from && r.depth == 16);
		cr_assert_eq(lbr_usage(&b).tasks, 1);
		if (i % 16 == 0) {
			r.ctl = LBR_ALL;
			cr_assert_eq(vpmu_lbr_guest_set(C0, P0, &r), 0);
			lbr_branches(&b, 0, 3, 100);
		}
		most = lbr_usage(&b).bytes > most ? lbr_usage(&b).bytes : most;
		vpmu_lbr_guest_close(C0, P0);
		cr_assert_eq(lbr_usage(&b).tasks, 0);
		cr_assert(lbr_cpu_zero(&b, 0));
	}
	cr_assert_leq(most, 2 * 65536, "%zu bytes", most);
	urcu_memb_barrier();
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).bytes, 0);
	/* Its context goes while it waits. */
	lbr_guest_on(&b, 0);
	vpmu_lbr_guest_close(C0, P0);
	vpmu_pcpu_switch(P0, NULL);
	vpmu_context_fini(C0);
	memset(C0, 0xff, sizeof(*C0));
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).bytes, 0);
	for (size_t i = 0; i < sizeof(*C0); i++)
		cr_assert_eq(((unsigned char *)C0)[i], 0xff, "written to after its end");
	memset(C0, 0, sizeof(*C0));
}

/* A callback that reports that it runs, and waits. */
struct stop {
	struct rcu_head rcu;
	sem_t runs, go;
};

static void stop_here(struct rcu_head *head)
{
	struct stop *s = caa_container_of(head, struct stop, rcu);

	sem_post(&s->runs);
	sem_wait(&s->go);
}

static void stop_call(struct stop *s)
{
	sem_init(&s->runs, 0, 0);
	sem_init(&s->go, 0, 0);
	urcu_memb_call_rcu(&s->rcu, stop_here);
}

/*
 * Closed, opened and closed again while the first grace period is over but not yet acted upon: who
 * began to read in between must find the memory there. Callbacks run in order, those that were
 * there when a grace period began after it.
 */
Test(lbr_memory, each_close_has_a_grace_period)
{
	struct stop first, before, after;
	struct vpmu_taskdata *d;

	lbr_guest_on(&b, 0);
	d = C0->lbr.data[VPMU_LBR_GUEST];
	stop_call(&first);
	sem_wait(&first.runs);
	stop_call(&before); /* these three wait together */
	vpmu_lbr_guest_close(C0, NULL);
	stop_call(&after);
	sem_post(&after.go);
	sem_post(&first.go);
	sem_wait(&before.runs);
	lbr_guest_on(&b, 0);
	cr_assert_eq(C0->lbr.data[VPMU_LBR_GUEST], d);
	urcu_memb_read_lock();
	vpmu_lbr_guest_close(C0, NULL);
	sem_post(&before.go);
	sem_wait(&after.runs);
	cr_assert(mapped(d));
	cr_assert_eq(d->regs.ctl, LBR_ALL);
	urcu_memb_read_unlock();
	urcu_memb_barrier();
	urcu_memb_barrier();
	cr_assert(!mapped(d));
}

#define MANY 10000

Test(lbr_memory, ten_thousand_and_too_many)
{
	struct vpmu_context *ctx = calloc(MANY, sizeof(*ctx));
	struct vpmu_account **vcpu = calloc(MANY, sizeof(*vcpu)), *vm;

	cr_assert(ctx && vcpu);
	cr_assert_eq(vpmu_account_create(b.tenant, NULL, &vm), 0);
	for (int i = 0; i < MANY; i++) {
		cr_assert_eq(vpmu_account_create(vm, NULL, &vcpu[i]), 0);
		cr_assert_eq(vpmu_context_init(&ctx[i], vcpu[i], vm), 0);
	}
	cr_assert_eq(vpmu_lbr_attach(vcpu[17], LBR_ALL), 0);
	cr_assert_eq(vpmu_lbr_attach(vm, LBR_ALL), 0);
	cr_assert_eq(lbr_usage(&b).tasks, MANY);
	cr_assert_leq(lbr_usage(&b).bytes, 8 << 20);
	vpmu_lbr_detach(vm);
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).tasks, 1);
	/* Out of memory half way: as if nothing had been asked. */
	chunks_left = 60;
	cr_assert_eq(vpmu_lbr_attach(vm, LBR_ALL), -ENOMEM);
	cr_assert_eq(lbr_usage(&b).tasks, 1);
	cr_assert_eq(vm->lbr_users, 0);
	for (int i = 0; i < MANY; i++)
		cr_assert_eq(ctx[i].lbr.data[VPMU_LBR_HOST] != NULL, i == 17);
	cr_assert_eq(vpmu_lbr_attach(vm, LBR_STACK), -EBUSY, "vCPU 17");
	vpmu_lbr_detach(vcpu[17]);
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).bytes, 0);
	chunks_left = 1;
	for (int i = 0; i < MANY; i++) {
		int ret = vpmu_lbr_guest_open(&ctx[i], NULL, 8);

		if (ret) {
			cr_assert_eq(ret, -ENOMEM);
			cr_assert_gt(i, 70);
			break;
		}
	}
	/* And a context that would inherit is not made. */
	cr_assert_eq(vpmu_lbr_attach(b.vcpu[0], LBR_ALL), -ENOMEM);
	for (int i = 0; i < MANY; i++)
		vpmu_context_fini(&ctx[i]);
	urcu_memb_barrier();
	cr_assert_eq(lbr_usage(&b).bytes, 0);
	cr_assert_eq(vpmu_lbr_attach(vm, LBR_ALL), 0);
	chunks_left = 1;
	for (int i = 0; i < MANY; i++) {
		int ret = vpmu_context_init(&ctx[i], vcpu[i], vm);

		if (ret) {
			cr_assert_eq(ret, -ENOMEM);
			cr_assert_gt(i, 70);
			cr_assert_null(ctx[i].own);
			vpmu_context_fini(&ctx[i]); /* harmless */
			break;
		}
	}
	vpmu_lbr_detach(vm);
	for (int i = 0; i < MANY; i++)
		vpmu_context_fini(&ctx[i]);
	free(ctx);
	free(vcpu);
}
