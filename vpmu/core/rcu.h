/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * liburcu, memb flavour, with the read side inlined. Include this instead of urcu/urcu-memb.h.
 *
 * ThreadSanitizer sees neither the inline-asm barriers of liburcu 0.13 nor the inside of its
 * library, and would report every publication and every free after a grace period. In TSan builds
 * only, this file declares RCU's guarantees to TSan:
 *   - rcu_assign_pointer is a release store. So is the store that removes a list element, because
 *     it publishes the next one. rcu_dereference already is an atomic load.
 *   - Accesses before a reader's unlock, and before call_rcu, happen before the callback. Callbacks
 *     happen before the return of urcu_memb_barrier.
 * This is stronger than RCU in one respect: it includes the unlock of a reader that began after the
 * grace period. tests/model and ASan cover the races that TSan misses for that reason.
 */
#pragma once

#ifndef _LGPL_SOURCE
#define _LGPL_SOURCE /* inline read side of liburcu; we are LGPL, too */
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

/* One address for all grace periods: a symbol of liburcu, common to all users. */
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

/* TSan would report the internals of urcu_memb_barrier. Callbacks run in order, so waiting for one
 * queued last is equivalent. */
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

/* Must follow the macros above, which its inline functions use. */
#include <urcu/rculist.h>
