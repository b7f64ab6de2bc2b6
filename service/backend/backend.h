/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A source of counts: what sessions, profiles and captures ask of whoever counts.
 *
 * A source counts on one backend, and the backend's name says which CPUs that means: "emulator" is
 * the emulator machine's modelled pCPUs, "kvm" is perf events of vCPU threads. Every value that a
 * user sees carries its backend. Counts of two backends are counts of different CPUs and are never
 * added.
 *
 * A source counts for nodes: tenants, VMs and vCPUs. They form a tree of the source's own, which
 * follows the tree of service/tenant/ as far as the source counts anything there. What runs in a
 * node is between the source and its maker: libvpmu's core has an account per node
 * (core.h), a source in the kernel has a cgroup or a thread.
 *
 * cgroup/ calls nothing of libvpmu's core but this interface. It must never show accounts,
 * contexts, pCPUs or RCU pointers. All functions: control thread, unless they say otherwise.
 * Errors are negative errno.
 */
#ifndef SERVICE_BACKEND_BACKEND_H
#define SERVICE_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/conservation.h"
#include "vpmu/event/key.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/value.h"

/* What a source can do beyond counting. The operations of a capability that a source does not
 * have may be NULL; the functions below then answer -EOPNOTSUPP, or do nothing. */
#define VPMU_BACKEND_SAMPLES   (1u << 0) /* sample_start, sample_stop, sample_read */
#define VPMU_BACKEND_BRANCHES  (1u << 1) /* branches_... */
#define VPMU_BACKEND_CONSERVES (1u << 2) /* conservation */
#define VPMU_BACKEND_CHAINS    (1u << 3) /* samples have call chains without branch records */

/* Filled in by the source's maker; constant for its users. */
struct vpmu_backend {
	const struct vpmu_backend_ops *ops;
	const char *backend;
	unsigned int can; /* VPMU_BACKEND_... */
	/* Nodes that are always there: everything that the source counts, and below it what runs
	 * in no tenant. */
	struct vpmu_backend_node *root, *other;
};

/* A node. A source embeds it first in a struct of its own. */
struct vpmu_backend_node {
	struct vpmu_backend *source;
	uint64_t serial; /* the tree's number of the node; samples carry it */
};

/*
 * Keys counted for a node: one row of a session. A source embeds it first in a struct of its own.
 * The caller makes one with vpmu_counting_new, links those it attaches or detaches together by
 * next, and owns the keys and the values.
 */
struct vpmu_counting {
	struct vpmu_backend *source; /* node's */
	struct vpmu_backend_node *node;
	const vpmu_key_t *keys;
	size_t nr_keys;
	struct vpmu_value *values; /* nr_keys of them: what read and detach fill in */
	struct vpmu_counting *next;
};

/* Whose code a sample is of, on backends that count more than guests. */
enum vpmu_side {
	VPMU_SIDE_NONE, /* a guest's, or nobody's: cpl says at which level */
	VPMU_SIDE_GUEST_KERNEL,
	VPMU_SIDE_GUEST_USER,
	VPMU_SIDE_VMM,	/* user mode of a process that runs a VM */
	VPMU_SIDE_USER, /* user mode of any other process */
	VPMU_SIDE_HOST, /* the host's kernel, for whatever process */
};

/* vpmu_side_name - "guest.k", "guest.u", "qemu", "user", "host"; NULL for VPMU_SIDE_NONE. Pure. */
static inline const char *vpmu_side_name(enum vpmu_side side)
{
	static const char *const names[] = {NULL, "guest.k", "guest.u", "qemu", "user", "host"};

	return names[side];
}

/* A sample. Valid during the call of sample(). */
struct vpmu_backend_sample {
	uint64_t serial; /* of the node that it ran in: a vCPU, or on a backend that counts more
			  * than VMs a VM or a tenant; 0: none of these */
	unsigned int cpu;
	enum vpmu_side side;
	uint32_t pid; /* of the process it ran in, where that says more than the node; 0 */
	bool chained; /* calls were looked for */
	unsigned int nr_calls;
	const uint64_t *calls; /* callers of @ip, innermost first */
	bool known;	       /* whether ip and cpl are known */
	uint8_t cpl;
	uint64_t ip;	  /* the next instruction */
	uint64_t periods; /* samples that this one stands for: more than 1 when a single
			   * instruction counted several periods */
	uint64_t over;	  /* events counted since the last of these periods ended */
	const struct vpmu_lbr_regs *branches; /* NULL: not asked for, or there are none */
	uint64_t time_ns;		      /* CLOCK_MONOTONIC; 0: not asked for, or not known */
};

struct vpmu_sampling_opts {
	vpmu_key_t key;
	uint64_t period; /* events between two samples, 1 .. 2^47 */
	bool branches;	 /* with branch records, where the node has some */
	bool chains;	 /* with calls; VPMU_BACKEND_CHAINS */
	bool times;	 /* with the time of each sample */
	/* Takes a sample. Called on the CPU that counts, or in sample_take, flush_node and calls
	 * that change nodes; also before sample_start returns, and for several CPUs at a time: no
	 * locks, no allocation, no call of the source. */
	void (*sample)(void *arg, const struct vpmu_backend_sample *s);
	void *arg;
};

/* How a sampling is going. */
struct vpmu_sampling_state {
	uint64_t lost;	    /* samples that the source had no room for. A backend on which nobody
			     * knows whose they were gives those of the whole backend. */
	uint64_t throttled; /* how often the kernel stopped sampling for a while */
	uint64_t nobodys;   /* samples of which it is not known in which node they ran */
	const char *note;   /* one line on what its samples cannot say; NULL. Constant. */
};

/* A node that is sampled. A source embeds it first in a struct of its own. */
struct vpmu_sampling {
	struct vpmu_backend_node *node;
};

struct vpmu_backend_ops {
	/*
	 * node_add - a node below @parent. -ENOMEM.
	 * node_remove - the node's counts become part of its parent's, exactly, whatever reads
	 * meanwhile; the node must have no nodes below it, nothing attached and no sampling. It
	 * cannot fail. What still runs in the node is counted for the parent.
	 */
	int (*node_add)(struct vpmu_backend_node *parent, uint64_t serial,
			struct vpmu_backend_node **out);
	void (*node_remove)(struct vpmu_backend_node *n);

	/* counting_new - a counting of @n that does not count yet; NULL: no memory.
	 * counting_free - of one that is not attached. */
	struct vpmu_counting *(*counting_new)(struct vpmu_backend_node *n, size_t nr_keys);
	void (*counting_free)(struct vpmu_counting *c);

	/*
	 * attach - count from now on, for every counting of @list, all of them this source's:
	 * nothing from before the call is in a value. Keys that cannot be counted here are no
	 * error: their values are "not supported". All or nothing: -ENOSPC (too many distinct keys)
	 * or -ENOMEM, with *failed = the index in keys[] of the key; -ETIMEDOUT: late() says why.
	 * detach - stop for every counting of @list, and store the last values. Cannot fail.
	 */
	int (*attach)(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed);
	void (*detach)(struct vpmu_backend *s, struct vpmu_counting *list);
	/*
	 * flush - make what reads of the countings in @list see current: it includes all that was
	 * counted before the call, except by a CPU that late() names. flush_node - the same for
	 * the samples and the branch records of @n. Neither disturbs CPUs on which nothing of that
	 * has run.
	 */
	void (*flush)(struct vpmu_backend *s, const struct vpmu_counting *list);
	void (*flush_node)(struct vpmu_backend_node *n);
	/*
	 * late - whether some CPU does not answer; then one line that names it to @why. Such a CPU
	 * missed a deadline once, and no call waits for it again until it answers. Meanwhile values
	 * lack what it has counted since, and calls that begin or check something return
	 * -ETIMEDOUT. May be NULL: every CPU answers.
	 */
	bool (*late)(struct vpmu_backend *s, char *why, size_t whylen);
	/* read - fill in c->values as of the last flush or later. Values of a removed node's
	 * parent include the node's. */
	void (*read)(const struct vpmu_counting *c);
	/*
	 * read_list - the same for every counting of @list, all of them this source's, in one go: a
	 * node's values are the sums of those of the nodes below it and of what is the node's own,
	 * also while CPUs count on. Attach and detach take their values in the same way. NULL:
	 * countings are read one by one, and a node that is read after those below it never shows
	 * less than they do.
	 */
	void (*read_list)(struct vpmu_counting *list);
	/* can_count - whether @key is counted here, and how well; else one line to @why. */
	bool (*can_count)(const struct vpmu_backend *s, vpmu_key_t key, enum vpmu_quality *q,
			  char *why, size_t whylen);
	void (*sharing)(struct vpmu_backend *s, struct vpmu_sharing *out);

	/* conservation - as vpmu_host_conservation; -ETIMEDOUT: late() says why. */
	int (*conservation)(struct vpmu_backend *s,
			    int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg);

	/*
	 * sample_start - sample @n and everything below it from now on: every period-th event on
	 * each CPU. -EOPNOTSUPP: the key cannot be sampled; -ENOSPC: too many distinct keys;
	 * -E2BIG: too many samplings; -ETIMEDOUT: late() says why. sample_stop - no call of
	 * sample() on return. sample_read - what the key counted for @n since the start, as of the
	 * last flush or later.
	 */
	int (*sample_start)(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			    struct vpmu_sampling **out);
	void (*sample_stop)(struct vpmu_sampling *s);
	void (*sample_read)(const struct vpmu_sampling *s, struct vpmu_value *out);
	/* sample_take - hand over what was sampled so far; returns how full the source's fullest
	 * buffer was, in percent. NULL: a sample is handed over when it is taken. sample_state -
	 * NULL: all zero. */
	unsigned int (*sample_take)(struct vpmu_backend *s);
	void (*sample_state)(const struct vpmu_sampling *s, struct vpmu_sampling_state *out);

	/*
	 * branches_attach - record branches (@ctl: vpmu/lbr.h) of every vCPU at or below @n, those
	 * to come included; counted: each attach needs a detach. -EBUSY: recorded there with
	 * another ctl; -EOPNOTSUPP: no branch records there; -ETIMEDOUT: late() says why.
	 * branches_read - the records of vCPU
	 * node @n, as of the last flush or later; *user says whose: the guest's own, or attached
	 * ones. -ENOENT: none; -EAGAIN: try again. branches_usage - memory held for records.
	 */
	int (*branches_attach)(struct vpmu_backend_node *n, uint32_t ctl);
	void (*branches_detach)(struct vpmu_backend_node *n);
	int (*branches_read)(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			     enum vpmu_lbr_user *user);
	void (*branches_usage)(struct vpmu_backend *s, struct vpmu_lbr_usage *out);
	/* branches_why - why branches_attach answered -EOPNOTSUPP last. May be NULL. */
	const char *(*branches_why)(const struct vpmu_backend *s);
};

/* ---- what users call; struct vpmu_backend_ops says what each does -----------------------------
 */

static inline int vpmu_backend_node_add(struct vpmu_backend_node *parent, uint64_t serial,
					struct vpmu_backend_node **out)
{
	return parent->source->ops->node_add(parent, serial, out);
}

static inline void vpmu_backend_node_remove(struct vpmu_backend_node *n)
{
	n->source->ops->node_remove(n);
}

/* vpmu_counting_new - @keys and @values (nr_keys each) stay the caller's and must live until
 * vpmu_counting_free. */
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

/* @why is the empty string unless a CPU is late. */
bool vpmu_backend_late(struct vpmu_backend *s, char *why, size_t whylen);

/* vpmu_backend_error - why an operation of @s returned @ret: a CPU is late, or strerror. Returns
 * @why. */
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
/* NULL: the source has no more to say. */
const char *vpmu_backend_branches_why(const struct vpmu_backend *s);
void vpmu_backend_branches_detach(struct vpmu_backend_node *n);
/* -ENOENT also from a source without branch records. */
int vpmu_backend_branches_read(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			       enum vpmu_lbr_user *user);
/* Zeroes from a source without branch records. */
void vpmu_backend_branches_usage(struct vpmu_backend *s, struct vpmu_lbr_usage *out);

#endif
