/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A backend, or source of counts: the interface between sessions, profiles and captures and a
 * counting mechanism.
 *
 * The backend's name identifies its CPUs: "emulator" is the emulator's modelled pCPUs, "kvm" is
 * perf events of vCPU threads, "bpf" is this host's CPUs. Every value that a user sees carries its
 * backend. Counts of two backends are counts of different CPUs and are never added.
 *
 * A backend counts for nodes: tenants, VMs and vCPUs. They form a tree of the backend's own, which
 * follows the tree of service/tenant/ as far as it counts anything there. How code is assigned to a
 * node is between the backend and its maker: libvpmu's core has an account per node (core.h), a
 * backend in the kernel has a cgroup or a thread.
 *
 * cgroup/ uses nothing of libvpmu's core except this interface. It must never show accounts,
 * contexts, pCPUs or RCU pointers. All functions: control thread, unless documented otherwise.
 * Errors are negative errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/conservation.h"
#include "vpmu/event/key.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/value.h"

/* Capabilities beyond counting. The operations of a missing capability may be NULL; the functions
 * below then return -EOPNOTSUPP, or do nothing. */
#define VPMU_BACKEND_SAMPLES   (1u << 0) /* sample_start, sample_stop, sample_read */
#define VPMU_BACKEND_BRANCHES  (1u << 1) /* branches_... */
#define VPMU_BACKEND_CONSERVES (1u << 2) /* conservation */
#define VPMU_BACKEND_CHAINS    (1u << 3) /* call chains do not need branch records */
#define VPMU_BACKEND_CPUS      (1u << 4) /* vpmu_counting.cpus */

/* Filled in by the backend's maker; constant for its users, but for base_ns. */
struct vpmu_backend {
	const struct vpmu_backend_ops *ops;
	const char *backend;
	unsigned int can;     /* VPMU_BACKEND_... */
	unsigned int nr_cpus; /* with VPMU_BACKEND_CPUS */
	/* Permanent nodes: everything that the backend counts, and below it everything outside of
	 * tenants. */
	struct vpmu_backend_node *root, *other;
	/* CLOCK_MONOTONIC: the last attach took the values at which its countings begin after this.
	 * Its caller sets it; a backend that prepares for long sets it again. */
	uint64_t base_ns;
};

/* A node. A backend embeds it first in a struct of its own. */
struct vpmu_backend_node {
	struct vpmu_backend *source;
	uint64_t serial; /* the tree's number of the node; samples carry it */
};

/*
 * Keys counted for a node: one row of a session. A backend embeds it first in a struct of its own.
 * The caller creates it with vpmu_counting_new, links countings that it attaches or detaches
 * together by next, and owns the keys and the values.
 */
struct vpmu_counting {
	struct vpmu_backend *source; /* node's */
	struct vpmu_backend_node *node;
	const vpmu_key_t *keys;
	size_t nr_keys;
	struct vpmu_value *values; /* nr_keys of them: results of read and detach */
	/* One per CPU of the source: only those that are true are counted. NULL: all. With
	 * VPMU_BACKEND_CPUS; set before attach, valid until vpmu_counting_free. */
	const bool *cpus;
	struct vpmu_counting *next;
};

/* The sampled code, on backends that count more than guests. */
enum vpmu_side {
	VPMU_SIDE_NONE, /* not distinguished: guest code at level cpl, or none */
	VPMU_SIDE_GUEST_KERNEL,
	VPMU_SIDE_GUEST_USER,
	VPMU_SIDE_VMM,	/* user mode of a process that runs a VM */
	VPMU_SIDE_USER, /* user mode of any other process */
	VPMU_SIDE_HOST, /* the host's kernel, for any process */
};

/* vpmu_side_name - "guest.k", "guest.u", "qemu", "user", "host"; NULL for VPMU_SIDE_NONE. Pure. */
static inline const char *vpmu_side_name(enum vpmu_side side)
{
	static const char *const names[] = {NULL, "guest.k", "guest.u", "qemu", "user", "host"};

	return names[side];
}

/* A sample. Valid only during the call of sample(). */
struct vpmu_backend_sample {
	uint64_t serial; /* of its node: a vCPU, or on a backend that counts more than VMs a VM or a
			  * tenant; 0: none of these */
	unsigned int cpu;
	enum vpmu_side side;
	uint32_t pid; /* of its process, if that says more than the node; else 0 */
	bool chained; /* a call chain was taken, possibly empty */
	unsigned int nr_calls;
	const uint64_t *calls; /* callers of @ip, innermost first */
	bool known;	       /* ip and cpl are valid */
	uint8_t cpl;
	uint64_t ip;	  /* the next instruction */
	uint64_t periods; /* periods that this sample represents: more than 1 if a single
			   * instruction counted several */
	uint64_t over;	  /* events counted since the last of these periods ended */
	const struct vpmu_lbr_regs *branches; /* NULL: not requested, or none */
	uint64_t time_ns;		      /* CLOCK_MONOTONIC; 0: not requested, or unknown */
};

struct vpmu_sampling_opts {
	vpmu_key_t key;
	uint64_t period;  /* events between two samples, 1 .. 2^47 */
	bool branches;	  /* with branch records, if the node has any */
	bool chains;	  /* with calls; VPMU_BACKEND_CHAINS */
	bool times;	  /* with the time of each sample */
	const bool *cpus; /* by CPU: sample those only; NULL: all. Needs VPMU_BACKEND_CPUS; valid
			   * until sample_stop */
	/* Receives a sample. Called on the CPU that counts, or in sample_take, flush_node and calls
	 * that change nodes; also before sample_start returns, and for several CPUs at a time: no
	 * locks, no allocation, no calls of the backend. */
	void (*sample)(void *arg, const struct vpmu_backend_sample *s);
	void *arg;
};

/* State of a sampling. */
struct vpmu_sampling_state {
	uint64_t lost; /* samples for which the backend had no room; of all that ran on the CPUs
			* sampled if lost samples cannot be attributed */
	uint64_t throttled; /* how often the kernel stopped sampling for a while */
	uint64_t nobodys;   /* samples with an unknown node */
	const char *note;   /* one line on a limitation of its samples; NULL. Constant. */
};

/* A node that is sampled. A backend embeds it first in a struct of its own. */
struct vpmu_sampling {
	struct vpmu_backend_node *node;
};

struct vpmu_backend_ops {
	/*
	 * node_add - a node below @parent. -ENOMEM.
	 * node_remove - the node's counts become part of its parent's, exactly, even while CPUs
	 * count. The node must have no nodes below it, nothing attached and no sampling. It cannot
	 * fail. Code that still runs in the node is counted for the parent.
	 */
	int (*node_add)(struct vpmu_backend_node *parent, uint64_t serial,
			struct vpmu_backend_node **out);
	void (*node_remove)(struct vpmu_backend_node *n);

	/* counting_new - a counting of @n, not attached; NULL: no memory.
	 * counting_free - free one that is not attached. */
	struct vpmu_counting *(*counting_new)(struct vpmu_backend_node *n, size_t nr_keys);
	void (*counting_free)(struct vpmu_counting *c);

	/*
	 * attach - count from now on, for every counting of @list, all of them this backend's: no
	 * value includes counts from before the call. Keys that cannot be counted here are no
	 * error: their values are "not supported". All or nothing: -ENOSPC (too many distinct keys)
	 * or -ENOMEM, with *failed = the index in keys[] of the key; -ETIMEDOUT: see stalled().
	 * detach - stop for every counting of @list, and store the last values. Cannot fail.
	 */
	int (*attach)(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed);
	void (*detach)(struct vpmu_backend *s, struct vpmu_counting *list);
	/*
	 * flush - bring reads of the countings in @list up to date: they include all counts from
	 * before the call, except those of CPUs that stalled() reports.
	 * flush_node - the same for the samples and branch records of @n. Neither interrupts CPUs
	 * on which nothing of that has run.
	 */
	void (*flush)(struct vpmu_backend *s, const struct vpmu_counting *list);
	void (*flush_node)(struct vpmu_backend_node *n);
	/*
	 * stalled - returns true if a CPU is stalled, with one line that names it to @why. A
	 * stalled CPU has missed a deadline, and no call waits for it again until it responds.
	 * Until then values lack its counts, and calls that begin or check something return
	 * -ETIMEDOUT. May be NULL: CPUs cannot stall.
	 */
	bool (*stalled)(struct vpmu_backend *s, char *why, size_t whylen);
	/* read - fill in c->values as of the last flush or later. Values of a removed node's parent
	 * include the node's. */
	void (*read)(const struct vpmu_counting *c);
	/*
	 * read_list - the same for every counting of @list, all of them this backend's, in one
	 * pass: a node's values are the sums of those of the nodes below it and its own, even while
	 * CPUs count. Attach and detach take their values in the same way. NULL: countings are read
	 * one by one, and a node that is read after those below it never shows less than they do.
	 */
	void (*read_list)(struct vpmu_counting *list);
	/* can_count - returns true and the quality if @key is counted here; else false and one line
	 * to @why. */
	bool (*can_count)(const struct vpmu_backend *s, vpmu_key_t key, enum vpmu_quality *q,
			  char *why, size_t whylen);
	void (*sharing)(struct vpmu_backend *s, struct vpmu_sharing *out);

	/* conservation - as vpmu_host_conservation; -ETIMEDOUT: see stalled(). */
	int (*conservation)(struct vpmu_backend *s,
			    int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg);

	/*
	 * sample_start - sample @n and everything below it from now on: every period-th event on
	 * each CPU. -EOPNOTSUPP: the key cannot be sampled; -ENOSPC: too many distinct keys;
	 * -E2BIG: too many samplings; -ETIMEDOUT: see stalled().
	 * sample_stop - sample() is not called any more on return.
	 * sample_read - the key's count for @n since the start, as of the last flush or later.
	 */
	int (*sample_start)(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			    struct vpmu_sampling **out);
	void (*sample_stop)(struct vpmu_sampling *s);
	void (*sample_read)(const struct vpmu_sampling *s, struct vpmu_value *out);
	/* sample_take - deliver pending samples; returns the fill level of the fullest buffer, in
	 * percent. NULL: samples are delivered when taken.
	 * sample_state - NULL: all zero. */
	unsigned int (*sample_take)(struct vpmu_backend *s);
	void (*sample_state)(const struct vpmu_sampling *s, struct vpmu_sampling_state *out);

	/*
	 * branches_attach - record branches (@ctl: vpmu/lbr.h) of every vCPU at or below @n,
	 * including later ones. Nests: each attach needs a detach. -EBUSY: recorded there with
	 * another ctl; -EOPNOTSUPP: no branch records there; -ETIMEDOUT: see stalled().
	 * branches_read - the records of vCPU node @n, as of the last flush or later; *user: the
	 * guest's own records, or attached ones. -ENOENT: none; -EAGAIN: try again.
	 * branches_usage - memory held for records.
	 */
	int (*branches_attach)(struct vpmu_backend_node *n, uint32_t ctl);
	void (*branches_detach)(struct vpmu_backend_node *n);
	int (*branches_read)(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			     enum vpmu_lbr_user *user);
	void (*branches_usage)(struct vpmu_backend *s, struct vpmu_lbr_usage *out);
	/* branches_why - the reason of the last -EOPNOTSUPP of branches_attach. May be NULL. */
	const char *(*branches_why)(const struct vpmu_backend *s);
};

/* ---- functions for users: documented at struct vpmu_backend_ops ------------------------------ */

static inline int vpmu_backend_node_add(struct vpmu_backend_node *parent, uint64_t serial,
					struct vpmu_backend_node **out)
{
	return parent->source->ops->node_add(parent, serial, out);
}

static inline void vpmu_backend_node_remove(struct vpmu_backend_node *n)
{
	n->source->ops->node_remove(n);
}

/* vpmu_counting_new - the caller keeps @keys and @values (nr_keys each) valid until
 * vpmu_counting_free. NULL: no memory. */
struct vpmu_counting *vpmu_counting_new(struct vpmu_backend_node *n, const vpmu_key_t *keys,
					size_t nr_keys, struct vpmu_value *values);
/* vpmu_counting_free - NULL is fine. */
void vpmu_counting_free(struct vpmu_counting *c);

/* An empty list is fine for all three. */
int vpmu_backend_attach(struct vpmu_counting *list, size_t *failed);
void vpmu_backend_detach(struct vpmu_counting *list);
void vpmu_backend_flush(const struct vpmu_counting *list);

static inline void vpmu_backend_read(const struct vpmu_counting *c)
{
	c->source->ops->read(c);
}

static inline void vpmu_backend_flush_node(struct vpmu_backend_node *n)
{
	n->source->ops->flush_node(n);
}

/* @why is the empty string unless a CPU is stalled. */
bool vpmu_backend_stalled(struct vpmu_backend *s, char *why, size_t whylen);

/* vpmu_backend_error - the reason for error @ret of an operation of @s: a stalled CPU, or strerror.
 * Returns @why. */
const char *vpmu_backend_error(struct vpmu_backend *s, int ret, char *why, size_t whylen);

static inline bool vpmu_backend_can_count(const struct vpmu_backend *s, vpmu_key_t key,
					  enum vpmu_quality *q, char *why, size_t whylen)
{
	return s->ops->can_count(s, key, q, why, whylen);
}

static inline void vpmu_backend_sharing(struct vpmu_backend *s, struct vpmu_sharing *out)
{
	s->ops->sharing(s, out);
}

int vpmu_backend_conservation(struct vpmu_backend *s,
			      int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg);

int vpmu_backend_sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			      struct vpmu_sampling **out);
/* NULL is fine. */
void vpmu_backend_sample_stop(struct vpmu_sampling *s);
static inline void vpmu_backend_sample_read(const struct vpmu_sampling *s, struct vpmu_value *out)
{
	s->node->source->ops->sample_read(s, out);
}

unsigned int vpmu_backend_sample_take(struct vpmu_backend *s);
void vpmu_backend_sample_state(const struct vpmu_sampling *s, struct vpmu_sampling_state *out);

int vpmu_backend_branches_attach(struct vpmu_backend_node *n, uint32_t ctl);
/* Returns NULL if the backend gives no reason. */
const char *vpmu_backend_branches_why(const struct vpmu_backend *s);
void vpmu_backend_branches_detach(struct vpmu_backend_node *n);
/* -ENOENT also from a backend without branch records. */
int vpmu_backend_branches_read(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			       enum vpmu_lbr_user *user);
/* Zeroes from a backend without branch records. */
void vpmu_backend_branches_usage(struct vpmu_backend *s, struct vpmu_lbr_usage *out);
