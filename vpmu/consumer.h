/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Consumers: one counter of somebody. A consumer counts one key for one account and everything
 * below the account; its value is the difference of the account's total now and when it started.
 *
 * Guest register models make a consumer per counter that the guest enables, sessions make one per
 * event and target. However many there are, they share one hardware counter per key and pCPU.
 *
 * Adding, enabling, disabling and deleting have two forms:
 *
 *   local form, @pcpu is not NULL: the account is a vCPU's, the vCPU is placed on @pcpu, and the
 *     caller is the owner of @pcpu. The cost does not depend on how many consumers, VMs or accounts
 *     there are. While others use the key already, the call takes no lock, and it allocates memory
 *     only if the pCPU's pool of bindings is empty.
 *   control form, @pcpu is NULL: any account; a control call. It waits until every pCPU has passed
 *     a safe point, so that no event from before the call is included.
 *
 * A consumer keeps to the form in which it was added.
 */
#ifndef VPMU_CONSUMER_H
#define VPMU_CONSUMER_H

#include <stddef.h>

#include "vpmu/event/key.h"
#include "vpmu/value.h"

struct vpmu_account;
struct vpmu_binding;
struct vpmu_pcpu;

/*
 * The memory is the caller's. It must be zero before the first use. It may be freed a grace period
 * after vpmu_consumer_del; vpmu_rcu_free does that.
 */
struct vpmu_consumer {
	/* private */
	struct vpmu_binding *binding; /* RCU: read anywhere, replaced whole */
	struct vpmu_binding *spare;   /* so that disabling cannot fail */
	struct vpmu_account *account;
	vpmu_key_t key;
	int slot;   /* -1: disabled or unsupported */
	bool local; /* the form it was added in */
	bool supported;
	enum vpmu_quality quality;
};

/*
 * vpmu_consumer_add - count @key for @account from now on; the value starts at 0. Returns 0, or
 *
 *   -EOPNOTSUPP  no PMU that could count for the consumer can count @key: the one of @pcpu in the
 *                local form, any of the host in the control form. The consumer is added all the
 *                same, reads as unsupported, and must be deleted.
 *   -ENOSPC      VPMU_MAX_SLOTS other keys are in use. Not added.
 *   -EINVAL      @key is not valid (vpmu_key_valid). Not added.
 *   -ENOMEM      Not added.
 *
 * Example: two VMs each have a consumer of "instructions" and the operator adds a third one, for
 * their tenant. Each pCPU still has one counter for the key. When the VMs have run 100 and 50
 * instructions after that, the third consumer reads 150.
 */
int vpmu_consumer_add(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		      struct vpmu_pcpu *pcpu);

/*
 * vpmu_consumer_disable - stop counting; the value stays. Cannot fail.
 * vpmu_consumer_enable - count on from the value it stopped at. On an error, which is one of
 * vpmu_consumer_add's, it is still disabled.
 * Both do nothing when the consumer is in that state already.
 */
int vpmu_consumer_enable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu);
void vpmu_consumer_disable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu);

/* vpmu_consumer_del - disable @c, store its last value in *@last (may be NULL), and release what it
 * holds. */
void vpmu_consumer_del(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu, struct vpmu_value *last);

/*
 * vpmu_consumer_add_many, vpmu_consumer_del_many - the control form for @n consumers at once: they
 * wait for the pCPUs once instead of @n times. All accounts must be of one host. The arrays are the
 * caller's. add_many stops at the first error other than -EOPNOTSUPP, deletes what it had added,
 * stores the index in *@failed (may be NULL) and returns the error. @last may be NULL.
 */
int vpmu_consumer_add_many(struct vpmu_consumer **c, struct vpmu_account *const *account,
			   const vpmu_key_t *key, size_t n, size_t *failed);
void vpmu_consumer_del_many(struct vpmu_consumer **c, size_t n, struct vpmu_value *last);

/*
 * vpmu_consumer_read - the value as of the last switch or flush of the pCPUs concerned. For the
 * value as of now, call vpmu_pcpu_flush (owner) or vpmu_host_sync (control) before.
 *
 * Any thread and any signal handler, also one that interrupts a function of this library. Never
 * blocks and allocates nothing. The cost depends on the number of accounts below the consumer's
 * (none for a vCPU's). count and enabled_ns never go down from one read to the next. running_ns of
 * a slot without a counter can be one interval ahead when the read falls into a charge.
 */
void vpmu_consumer_read(const struct vpmu_consumer *c, struct vpmu_value *out);

/* vpmu_rcu_free - free(@ptr) after a grace period. Cannot fail. Any thread. */
void vpmu_rcu_free(void *ptr);

#endif
