/* SPDX-License-Identifier: LGPL-2.1-or-later */
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
 *     there are. While others use the key already, the call takes no lock, and it allocates
 *     nothing; but the first use of a key by the vCPU after it came to the pCPU does both, for the
 *     key's row.
 *   control form, @pcpu is NULL: any account; a control call. It waits until every pCPU on which
 *     the account has run has passed a safe point, so that no event from before the call is
 *     included.
 *
 * A consumer keeps to the form in which it was added.
 */
#ifndef VPMU_CONSUMER_H
#define VPMU_CONSUMER_H

#include <stddef.h>

#include "vpmu/event/key.h"
#include "vpmu/value.h"

struct vpmu_account;
struct vpmu_pcpu;

/* The sum for one slot over an account and everything below it. Private. */
struct vpmu_sum {
	uint64_t count;
	uint64_t time_ns;  /* time of the slot: the account ran where the key can be counted */
	uint64_t idle_ns;  /* part of time_ns: the slot had no counter */
	uint64_t unsup_ns; /* not in time_ns: the account ran where the key cannot be counted */
};

/* Private. */
enum vpmu_state_kind {
	VPMU_CONSUMER_NONE,	/* the value is 0 */
	VPMU_CONSUMER_COUNTING, /* the value is the account's sum + add */
	VPMU_CONSUMER_STOPPING, /* the value is cut + add */
	VPMU_CONSUMER_STOPPED,	/* the value is add */
};

/* What readers need to know of a consumer. Private. */
struct vpmu_state {
	struct {
		_Alignas(8) uint8_t kind; /* enum vpmu_state_kind */
		uint8_t slot;
		uint8_t quality; /* enum vpmu_quality: the worst so far */
		bool supported;
		bool local;
	} how; /* read and written whole */
	struct vpmu_account *account;
	struct vpmu_sum add; /* modulo 2^64 */
};

/*
 * The memory is the caller's. It must be zero before the first use. It may be freed a grace period
 * after vpmu_consumer_del; vpmu_rcu_free does that.
 */
struct vpmu_consumer {
	/* private */
	uint64_t seq;		    /* grows with each change; readers use state[seq & 1] */
	struct vpmu_state state[2]; /* read anywhere; only the copy not in use is written */
	struct vpmu_sum cut;	    /* stopping: the account's sum at the stop, decided once */
	/* what only the writer uses */
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
 *   -ENOSPC      VPMU_MAX_SLOTS other keys are in use, or in the local form for a VM with a quota
 *                those that guests may use (quota.h). Not added.
 *   -EDQUOT      local form: the quota of distinct keys of the VM or its tenant is used up. Not
 *                added.
 *   -EINVAL      @key is not valid (vpmu_key_valid). Not added.
 *   -ENOMEM      Not added.
 *   -ETIMEDOUT   control form: a pCPU does not answer (vpmu_host_late). Not added.
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
 * blocks and allocates nothing. The cost depends on the number of pCPUs on which the account has
 * run. count and enabled_ns never go down from one read to the next.
 */
void vpmu_consumer_read(const struct vpmu_consumer *c, struct vpmu_value *out);

/* vpmu_rcu_free - free(@ptr) after a grace period. Cannot fail. Any thread. */
void vpmu_rcu_free(void *ptr);

#endif
