/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Consumers: virtual counters. A consumer counts one key for one account and all accounts below it.
 * Its value is the account's total now minus the total when it started.
 *
 * Guest register models make a consumer per counter that the guest enables, sessions make one per
 * event and target. All consumers of a key share one hardware counter per pCPU.
 *
 * Adding, enabling, disabling and deleting have two forms:
 *
 *   local form, @pcpu is not NULL: the account is a vCPU's, the vCPU is placed on @pcpu, and the
 *     caller is the owner of @pcpu. The cost does not depend on the number of consumers, VMs or
 *     accounts. If the key is already in use, the call takes no lock and allocates nothing, except
 *     on the vCPU's first use of the key on this pCPU, which makes the key's row.
 *   control form, @pcpu is NULL: any account; a control call. It waits until every pCPU on which
 *     the account has run passes a safe point, so that no event from before the call is included.
 *
 * All calls for a consumer use the form in which it was added.
 */
#ifndef VPMU_CONSUMER_H
#define VPMU_CONSUMER_H

#include <stddef.h>

#include "vpmu/event/key.h"
#include "vpmu/value.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_account;
struct vpmu_pcpu;

/* The sum for one slot over an account and everything below it. Private. */
struct vpmu_sum {
	uint64_t count;
	uint64_t time_ns;  /* the account ran where the key can be counted */
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

/* The state that readers use. Private. */
struct vpmu_state {
	struct {
		uint8_t kind __attribute__((aligned(8))); /* enum vpmu_state_kind */
		uint8_t slot;
		uint8_t quality; /* enum vpmu_quality: the worst so far */
		bool supported;
	} how; /* read and written whole */
	struct vpmu_account *account;
	struct vpmu_sum add; /* modulo 2^64 */
};

/*
 * The memory is the caller's and must be zero before the first use. After vpmu_consumer_del, free
 * it a grace period later (vpmu_rcu_free).
 */
struct vpmu_consumer {
	/* private */
	uint64_t seq;		    /* incremented by each change; readers use state[seq & 1] */
	struct vpmu_state state[2]; /* any thread reads; only the unused copy is written */
	struct vpmu_sum cut;	    /* stopping: the account's sum at the stop, decided once */
	/* writer only */
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
 *   -EOPNOTSUPP  @key cannot be counted: by the PMU of @pcpu (local form), by any PMU of the host
 *                (control form). The consumer is added nevertheless, reads as unsupported, and must
 *                be deleted.
 *   -ENOSPC      VPMU_MAX_SLOTS other keys are in use; or, in the local form for a VM with a quota,
 *                all slots that guests may use (quota.h). Not added.
 *   -EDQUOT      local form: the VM or its tenant has used up its quota of distinct keys. Not
 *                added.
 *   -EINVAL      @key is not valid (vpmu_key_valid). Not added.
 *   -ENOMEM      Not added.
 *   -ETIMEDOUT   control form: a pCPU does not answer (vpmu_host_stalled). Not added.
 *
 * Example: two VMs each have a consumer of "instructions" and the operator adds a third, for their
 * tenant. Each pCPU still uses one counter for the key. After the VMs have executed 100 and 50 more
 * instructions, the third consumer reads 150.
 */
int vpmu_consumer_add(struct vpmu_consumer *c, struct vpmu_account *account, vpmu_key_t key,
		      struct vpmu_pcpu *pcpu);

/*
 * vpmu_consumer_disable - stop counting and keep the value. Cannot fail.
 * vpmu_consumer_enable - resume counting from the kept value. Errors as vpmu_consumer_add; the
 * consumer then stays disabled. In the local form it also starts one that could not be counted, if
 * its PMU can by now.
 * Both do nothing if the consumer is already in that state.
 */
int vpmu_consumer_enable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu);
void vpmu_consumer_disable(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu);

/* vpmu_consumer_del - disable @c, store its final value in *@last (may be NULL), and release its
 * slot. */
void vpmu_consumer_del(struct vpmu_consumer *c, struct vpmu_pcpu *pcpu, struct vpmu_value *last);

/*
 * vpmu_consumer_add_many, vpmu_consumer_del_many - the control form for @n consumers at once, with
 * one wait for the pCPUs instead of @n. All accounts must be of one host. The arrays are the
 * caller's. On the first error other than -EOPNOTSUPP, add_many removes the consumers it has added,
 * stores the index in *@failed (may be NULL) and returns the error. Without one, it returns
 * -EOPNOTSUPP if any consumer is unsupported, else 0. @last may be NULL.
 */
int vpmu_consumer_add_many(struct vpmu_consumer **c, struct vpmu_account *const *account,
			   const vpmu_key_t *key, size_t n, size_t *failed);
void vpmu_consumer_del_many(struct vpmu_consumer **c, size_t n, struct vpmu_value *last);

/*
 * vpmu_consumer_read - store the value as of the last switch or flush of each pCPU. For a current
 * value, call vpmu_pcpu_flush (owner) or vpmu_host_sync (control) first.
 *
 * Async-signal-safe, even in a handler that interrupts this library; any thread. Never blocks and
 * allocates nothing. The cost is proportional to the number of pCPUs on which the account has run.
 * count and enabled_ns never decrease from one read to the next.
 */
void vpmu_consumer_read(const struct vpmu_consumer *c, struct vpmu_value *out);

/* vpmu_rcu_free - free(@ptr) after a grace period. Cannot fail. Any thread. */
void vpmu_rcu_free(void *ptr);

#ifdef __cplusplus
}
#endif

#endif
