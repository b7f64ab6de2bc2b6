/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * liburcu, memb flavour, inline read side. Include this instead of urcu/urcu-memb.h.
 *
 * ThreadSanitizer sees neither liburcu 0.13's inline-asm barriers nor what its library does, so it
 * would report every publication and every free after a grace period. Under TSan only, this tells
 * it what RCU guarantees and nothing more:
 *   - rcu_assign_pointer is a release store, and so is the store that takes an element out of a
 *     list, as it publishes the next one (rcu_dereference is an atomic load already);
 *   - what a reader did before its unlock, and what was done before call_rcu, happens before the
 *     callback; what callbacks did happens before the end of urcu_memb_barrier.
 * It is coarser than the truth in one way: any unlock counts, also of readers that began after the
 * grace period; tests/model/test_model and ASan stand in for what that might hide.
 */
#ifndef VPMU_RCU_H
#define VPMU_RCU_H

#ifndef _LGPL_SOURCE
#define _LGPL_SOURCE /* inline read side of liburcu; we are GPL */
#endif
#include <urcu/urcu-memb.h>

#ifdef __SANITIZE_THREAD__
#include <semaphore.h>
#include <urcu/pointer.h>
#include <sanitizer/tsan_interface.h>

#undef rcu_assign_pointer
#define rcu_assign_pointer(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)
#undef CMM_STORE_SHARED
#define CMM_STORE_SHARED(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

/* One address stands for all grace periods; the libraries share liburcu's own symbol. */
#define VPMU_TSAN_RCU ((void *)&urcu_memb_gp)

static inline void vpmu_tsan_read_unlock(void)
{
	__tsan_release(VPMU_TSAN_RCU);
	_urcu_memb_read_unlock();
}
#undef urcu_memb_read_unlock
#define urcu_memb_read_unlock vpmu_tsan_read_unlock

struct vpmu_tsan_rcu_head {
	struct rcu_head head; /* first */
	void (*func)(struct vpmu_tsan_rcu_head *head);
};

static inline void vpmu_tsan_callback(struct rcu_head *head)
{
	struct vpmu_tsan_rcu_head *h = (struct vpmu_tsan_rcu_head *)head;

	__tsan_acquire(VPMU_TSAN_RCU);
	h->func(h);
	__tsan_release(VPMU_TSAN_RCU);
}

static inline void vpmu_tsan_call_rcu(struct vpmu_tsan_rcu_head *head,
				      void (*func)(struct vpmu_tsan_rcu_head *head))
{
	head->func = func;
	__tsan_release(VPMU_TSAN_RCU);
	urcu_memb_call_rcu(&head->head, vpmu_tsan_callback);
}

/* urcu_memb_barrier's own bookkeeping is reported; callbacks run in order, so a last one will do.
 */
struct vpmu_tsan_last {
	struct vpmu_tsan_rcu_head rcu; /* first */
	sem_t done;
};

static inline void vpmu_tsan_last_done(struct vpmu_tsan_rcu_head *head)
{
	sem_post(&((struct vpmu_tsan_last *)head)->done);
}

static inline void vpmu_tsan_barrier(void)
{
	struct vpmu_tsan_last last;

	sem_init(&last.done, 0, 0);
	vpmu_tsan_call_rcu(&last.rcu, vpmu_tsan_last_done);
	while (sem_wait(&last.done))
		;
	__tsan_acquire(VPMU_TSAN_RCU);
}

static inline void vpmu_tsan_synchronize(void)
{
	urcu_memb_synchronize_rcu();
	__tsan_acquire(VPMU_TSAN_RCU);
}

#define rcu_head vpmu_tsan_rcu_head
#undef urcu_memb_call_rcu
#define urcu_memb_call_rcu vpmu_tsan_call_rcu
#undef urcu_memb_barrier
#define urcu_memb_barrier vpmu_tsan_barrier
#undef urcu_memb_synchronize_rcu
#define urcu_memb_synchronize_rcu vpmu_tsan_synchronize
#endif

/* Its inline functions use the macros above. */
#include <urcu/rculist.h>

#endif
