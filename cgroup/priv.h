/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the files of this folder; private to it.
 *
 *   load.c            loading, attaching, opening and closing
 *   features.c        selects the variant of the program for this kernel
 *   cgroup_migrate.c  the program that sees running tasks move
 *   backend.c         service/backend/backend.h: attach, flush, read
 *   can_count.c       which keys can be counted, and why not
 *   conserve.c        compares counts with charges
 *   node.c            the tree of nodes, their masks; folding of removed nodes
 *   aggregate.c       sums of many nodes in one pass
 *   bind.c            cgroups and tasks bound to nodes
 *   slot.c            keys, their slots and perf events
 *   hotplug.c         CPUs that come and go
 *   alive.c           detects events that no longer count
 *   budget.c          limits counter use; multiplexes keys
 *   pmu.c             counters of the platform
 *   schedstat.c       the scheduler's figures of bound threads
 *   schedtask.c       the same of all of them at once
 *   totals.c          pages of totals, for the VMMs that run the vCPUs
 *   growmap.c         maps that grow
 *   pin.c             pins; takeover from a former process
 *   pin_dir.c         checks the directory of the pins
 *   sampling.c        samples of nodes
 *   attribute.c       finds the node of a sample
 *   branches.c        branch records of vCPU threads
 *   sys.c             system calls
 */
#pragma once

#include <time.h>

#include "cgroup/cgroup.h"
#include "cgroup/bpf/maps.h"
#include "cgroup/growmap.h"
#include "cgroup/sample/events.h"
#include "vpmu/core/taskdata.h"

#define PIN_PATH  256	  /* bytes of a pin's path */
#define PIN_LINK  "link"  /* the pin of the link of the program of switches, */
#define PIN_MOVES "moves" /* of the link of the program of moves, */
#define PIN_EXITS "exits" /* and of that of the flush program at the exit of KVM_RUN */

/* A key, and the perf event of each CPU that counts it. */
struct slot {
	vpmu_key_t key;	    /* 0: free */
	unsigned int users; /* keys of countings */
	bool used;	    /* since the last grace period: a CPU may still charge it */
	bool counted;	    /* some account has it in its mask */
	int *fd;	    /* by CPU; -1: none */
	int error;	    /* why no CPU has an event; 0: at least one has */
	uint64_t served_ns; /* its turns so far */
	uint64_t begun_ns;  /* before it got its events; 0: by a former process */
};

/* The hardware counters of each CPU. */
struct bpf_backend_pmu {
	bool known;
	unsigned int general; /* for any event */
	uint32_t fixed;	      /* a bit for each enum vpmu_generic with a counter of its own */
	char from[96];	      /* source of the numbers, or why they are unknown */
};

struct knode {
	struct vpmu_backend_node n; /* first */
	uint32_t account;
	uint64_t name;	    /* persistent; 0: none */
	bool orphan;	    /* a former process's node, without a handle */
	bool taken;	    /* it has the account of a former process's node */
	bool blank;	    /* never bound, and without children so far: its sums are 0 */
	bool removed;	    /* removed by its owner; the account exists until it is folded */
	uint64_t own, mask; /* own: slots counted for this node; mask: for it or an ancestor */
	uint16_t *refs;	    /* countings per slot; NULL: none so far */
	struct knode *parent, *child, *next, **link; /* first child, next sibling */
	unsigned int mark;			     /* number of the last flush that includes it */
	struct sums *asked;			     /* requests of the current sums_take */
	struct binding *bound;			     /* its cgroups and tasks */
	unsigned int captures;			     /* branches_attach less branches_detach */
	uint32_t capture_ctl;			     /* common to all captures */
};

/* The last reading of a bound thread's figures: schedstat.c. */
struct sched_thread {
	bool open;
	int schedstat, status; /* its files in /proc; status: -1 unless requested */
	unsigned int pass;     /* of the iterator that found it last */
	uint64_t runs;
	uint64_t figure[KP_SCHED];
};

/* A cgroup or task bound to a node. Also in a tree by id. */
struct binding {
	uint64_t id;	/* cgroup id, or task number */
	uint64_t start; /* of the task */
	bool task;
	struct knode *node;
	struct binding *next, **link; /* of the node */
	/* of tasks: */
	pid_t pid;	      /* its process, while nodes are sampled; 0: not known */
	struct branches *lbr; /* capture of its branch records; NULL: none */
	struct vpmu_taskdata *lbr_data;
	struct sched_thread sched;
};

/* Cache of the nodes of cgroups: attribute.c. */
#define WHOSE_CACHE 1024
struct whose {
	struct {
		uint64_t cgroup;
		struct knode *node;
	} cache[WHOSE_CACHE];
	char *root;  /* where cgroup2 is mounted; NULL: not known */
	void *vmms;  /* tsearch tree of processes with vCPU threads */
	bool looked; /* root was looked up */
	enum { WHOSE_IDS, WHOSE_IDS_BUT_ROOT, WHOSE_NO_IDS } ids; /* of samples, that are right */
};

/* How moves of tasks are seen, best first. The first two see all running tasks, the tracepoint only
 * those that move themselves. */
enum move_means { MOVE_FENTRY, MOVE_KPROBE, MOVE_TRACEPOINT, MOVE_MEANS };

struct bpf_backend {
	struct vpmu_backend source;
	struct bpf_backend_opts opts;
	struct kcounting *on_cpus; /* countings of chosen CPUs */
	const struct bpf_backend_sys *sys;
	struct account_bpf *skel;
	struct bpf_program *on_switch, *flush_cpu; /* of the right kind */
	struct bpf_program *on_move;		   /* by move_by; NULL: not supported here */
	struct bpf_link *move_link;		   /* NULL: not attached */
	enum move_means move_by;		   /* the best one supported; MOVE_MEANS: none */
	int move_error;				   /* an errno: why it is not attached */
	bool sees_hidden;      /* the program can read a CPU's number of switches, and counts it */
	struct bpf_link *link; /* NULL: nothing is attached */
	struct bpf_link *exit_link; /* of flush_cpu, to KP_EXIT_HOOK; NULL: not attached */
	int alive;		    /* program of alive.c; -1 */
	int sync_page;		    /* backend_sync: page for an unused element */
	unsigned int nr_cpus;	    /* possible ones */
	bool *online, *quiet;	    /* by CPU; quiet: isolated, not to be interrupted */
	struct kp_cfg *cfg;	    /* mapped */
	uint8_t *cpus;		    /* mapped: see cpu_state */
	size_t cpus_size;
	uint64_t *task_bits; /* mapped */
	uint32_t *bit_users; /* bound tasks by bit */
	struct pages accounts, index, cells, totals;
	uint32_t nr_totals;   /* accounts with a page of totals */
	uint32_t nr_accounts; /* numbers allocated so far, 0 included */
	uint32_t *free_accounts, nr_free, room_free;
	unsigned int chunks; /* chunks that may be in use: of slots 0 .. highest */
	struct slot slot[VPMU_MAX_SLOTS];
	struct knode root, other, **nodes; /* nodes: by account */
	uint32_t nr_removed;
	unsigned int mark;
	void *cgroup_bindings, *task_bindings; /* tsearch trees of struct binding */
	int pin_lock;			       /* the directory of pins; -1 */
	bool taken_over;		       /* until bpf_backend_named */
	bool running;		/* in bpf_backend_open: a former process's program is attached */
	void *orphans;		/* tsearch tree of struct knode, by name and parent */
	unsigned int countings; /* attached keys with a slot */
	uint64_t refused;
	uint64_t gaps_ns;   /* when slot_gaps was called last */
	uint64_t folded_ns; /* when node_fold was called last */
	struct bpf_backend_pmu pmu;
	bool mediated;	  /* guests own the PMU while they run */
	bool turns;	  /* the keys in use are multiplexed */
	uint64_t on;	  /* slots that are counted now; without turns all hardware keys */
	uint64_t turn_ns; /* when the turn began */
	int turn_timer;	  /* timerfd, readable when the turn ends */
	struct {
		unsigned int users[KP_SCHED]; /* attached keys */
		int error[KP_SCHED];	      /* why it cannot be read; 0: it can */
		uint64_t read_ns;	      /* when all threads were read last */
		struct sched_bpf *tasks;      /* schedtask.c; NULL: /proc only */
		unsigned int pass;	      /* number of its last reading */
		uint64_t idle_step;	      /* idle.c: added to the kernel's figure */
	} sched;
	struct samples *samples;
	bool *sampled_cpus; /* online and not quiet */
	unsigned int samplings;
	struct whose whose;
	struct vpmu_lbr_pool lbr_pool;
	char lbr_why[200]; /* last refusal of branch records */
};

static inline struct knode *knode_of(const struct vpmu_backend_node *n)
{
	return (struct knode *)n;
}

/* knode_is_below - returns true if @n is @top or below it. */
static inline bool knode_is_below(const struct knode *n, const struct knode *top)
{
	while (n && n != top)
		n = n->parent;
	return n;
}

static inline struct bpf_backend *backend_of(const struct vpmu_backend *s)
{
	return (struct bpf_backend *)s; /* its first member */
}

static inline struct kp_cpu *cpu_state(const struct bpf_backend *k, unsigned int cpu)
{
	return (struct kp_cpu *)(k->cpus + cpu * KP_CPU_BYTES);
}

/* Orders earlier loads before later ones. Pairs with the program's ordered stores (STORE_IN_ORDER)
 * of last_ns before and the account, then done_ns, after a charge. The pragma: gcc warns that
 * ThreadSanitizer ignores fences; the program in the kernel is outside of its view anyway. */
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
static inline void fence_loads(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}
#pragma GCC diagnostic pop

/* Sum of charges for a slot: a value is the difference of two of these. */
struct ksum {
	uint64_t total, time_ns, lost_ns;
	uint32_t lacks, missed; /* as in kp_account */
};

/* countings_folded - the charges @c of one chunk of @cpu are about to move to the daemon's cells of
 * @to, where they are of no CPU any more. */
void countings_folded(struct bpf_backend *k, const struct knode *to, unsigned int cpu,
		      unsigned int chunk, const struct kp_cell *c);

/* ---- aggregate.c ---- */
/* A request for one node's sums, and the result. The caller links them by next. */
struct sums {
	struct knode *node;
	const bool *cpus; /* only these CPUs; NULL: all */
	size_t nr;
	struct sum_key {
		unsigned int slot;
		struct ksum now;  /* result */
		struct ksum pass; /* private: of one CPU */
	} * key;
	struct sums *next;
	struct sums *same; /* private: of the same node */
};
/* sums_take - fill in the sums of each node of @list, everything below it included. */
void sums_take(const struct bpf_backend *k, struct sums *list);

/* ---- quiet.c: values of quiet CPUs ---- */
/* quiet_age - for how long a quiet CPU that runs @c's node or one below it has charged nothing, of
 * the time since @since_ns. The maximum over CPUs, as of all three. */
uint64_t quiet_age(const struct bpf_backend *k, const struct vpmu_counting *c, uint64_t since_ns);
/* quiet_early - for how long one has charged nothing of @slot up to @since_ns, when @c begins: its
 * next charge has these counts, too, which no one can tell from later ones. Call before the base is
 * read. */
uint64_t quiet_early(const struct bpf_backend *k, const struct vpmu_counting *c, unsigned int slot,
		     uint64_t since_ns);
/* quiet_charged - returns true if one has charged since @since_ns. */
bool quiet_charged(const struct bpf_backend *k, const struct vpmu_counting *c, uint64_t since_ns);

/* ---- sys.c ---- */
extern const struct bpf_backend_sys bpf_backend_sys_real;
/* bpf_backend_cpus - set set[cpu] for the CPUs listed in file @name (below the prefix sys->files)
 * and clear all others. Returns false if there is no such file. */
bool bpf_backend_cpus(const struct bpf_backend_sys *sys, const char *name, bool *set,
		      unsigned int nr);

/* ---- node.c ---- */
int node_init(struct bpf_backend *k);
void node_exit(struct bpf_backend *k);
int node_add(struct vpmu_backend_node *parent, uint64_t serial, struct vpmu_backend_node **out);
void node_remove(struct vpmu_backend_node *n);
/* node_use, node_unuse - add or drop a counting of @slot; the caller then updates the masks. */
void node_use(struct knode *n, unsigned int slot);
void node_unuse(struct knode *n, unsigned int slot);
/* node_masks - compute all masks and store changed ones in the accounts. */
void node_masks(struct bpf_backend *k);
/* node_mask - the same for @n and its descendants; the masks above must be current. */
void node_mask(struct knode *n);
/* node_cell - the cell of @account for the slots of @chunk on @cpu, or the daemon's own (nr_cpus);
 * NULL: never charged there.
 * node_add_cell - add its row of @slot to @out. */
struct kp_cell *node_cell(const struct bpf_backend *k, unsigned int cpu, uint32_t account,
			  unsigned int chunk);
void node_add_cell(const struct kp_cell *c, unsigned int slot, struct ksum *out);
/* cpu_sum - sum of all accounts on one CPU, unclaimed counts included. */
uint64_t cpu_sum(const struct bpf_backend *k, unsigned int cpu, unsigned int slot);
/* node_grow - make the pages that accounts, slots and CPUs need now. Waits for a grace period if
 * any is missing. */
int node_grow(struct bpf_backend *k);
/* Limit of removed nodes that wait to be folded. */
#define KP_REMOVED_MAX 256u
/* node_fold - add the charges of removed nodes to their parents and free the accounts. */
void node_fold(struct bpf_backend *k);
struct kp_account *account_at(const struct bpf_backend *k, uint32_t account);

/* knode_link, knode_unlink - add below @parent; take out of the tree. */
void knode_link(struct knode *n, struct knode *parent);
void knode_unlink(struct knode *n);
/* node_orphan - make the orphan of account @i of a former process, or mark the account free. */
int node_orphan(struct bpf_backend *k, uint32_t i);
void node_set_name(struct bpf_backend *k, struct knode *n, uint64_t name);

/* ---- bind.c ---- */
/* bind_found - record a former process's binding. */
void bind_found(struct bpf_backend *k, uint32_t account, bool task, uint64_t id, uint64_t start);
/* bind_found_all - all are recorded. Those to accounts that no node has are the root's now; in the
 * maps, too, so that they are not those of the next node with the number. */
void bind_found_all(struct bpf_backend *k);
/* bind_move - move all bindings of @from to @to. */
void bind_move(struct bpf_backend *k, struct knode *from, struct knode *to);
void bind_exit(struct bpf_backend *k);
/* bind_task_node, bind_cgroup_node - the node that the task or cgroup is bound to; NULL: none. */
struct knode *bind_task_node(const struct bpf_backend *k, uint32_t tid);
struct knode *bind_cgroup_node(const struct bpf_backend *k, uint64_t id);

/* bind_task - the binding of task @tid; NULL: none. */
struct binding *bind_task(const struct bpf_backend *k, uint64_t tid);
/* bind_each_task - call @fn for each bound task; it must neither bind nor unbind. */
void bind_each_task(const struct bpf_backend *k, void (*fn)(struct binding *b, void *arg),
		    void *arg);
/* bind_is_thread - returns true if the thread of @b is the one that was bound. */
bool bind_is_thread(const struct bpf_backend *k, const struct binding *b);

/* ---- sampling.c ---- */
void sampling_open(struct bpf_backend *k);
void sampling_close(struct bpf_backend *k);
/* sampling_tend - call when CPUs may have come or gone. */
void sampling_tend(struct bpf_backend *k);
/* sampling_settle - call before a binding changes: delivers pending samples to the nodes of now. */
void sampling_settle(struct bpf_backend *k);
/* For bpf_backend_ops. */
int sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
		 struct vpmu_sampling **out);
void sample_stop(struct vpmu_sampling *s);
void sample_read(const struct vpmu_sampling *s, struct vpmu_value *out);
unsigned int sample_take(struct vpmu_backend *s);
void sample_state(const struct vpmu_sampling *s, struct vpmu_sampling_state *out);

/* ---- attribute.c ---- */
/* whose_node - the node of a sample; NULL: unknown. */
struct knode *whose_node(struct bpf_backend *k, const struct ring_sample *s);
/* whose_vmm - process @pid if it runs a VM, else NULL. */
struct vmm *whose_vmm(const struct bpf_backend *k, pid_t pid);
/* whose_task, whose_task_gone - task @b was bound; will be unbound.
 * whose_begin - learn all bound tasks, and which cgroups of samples are right. */
void whose_task(struct bpf_backend *k, struct binding *b);
void whose_task_gone(struct bpf_backend *k, struct binding *b);
void whose_begin(struct bpf_backend *k);
/* whose_forget - bindings have changed: clear the cache. */
void whose_forget(struct bpf_backend *k);
void whose_exit(struct bpf_backend *k);

/* ---- branches.c ---- */
/* branches_follow - task @b runs in b->node now: begin or end its capture.
 * branches_end - @b is unbound: end its capture. */
void branches_follow(struct bpf_backend *k, struct binding *b);
void branches_end(struct bpf_backend *k, struct binding *b);
/* branches_flush - bring the records of @n and below up to date for branches_get. */
void branches_flush(struct knode *n);
void branches_init(struct bpf_backend *k);
void branches_exit(struct bpf_backend *k);
/* For bpf_backend_ops. */
int branches_attach(struct vpmu_backend_node *n, uint32_t ctl);
void branches_detach(struct vpmu_backend_node *n);
int branches_get(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
		 enum vpmu_lbr_user *user);
void branches_usage(struct vpmu_backend *s, struct vpmu_lbr_usage *out);
const char *branches_why(const struct vpmu_backend *s);

/* ---- features.c ---- */
/* fit_init - register the handlers of program sections; call before the program is opened.
 * fit_program - between opening and loading: select the variant of the program and the size of the
 * map of CPUs. libbpf loads the last selection. @from: the first of the means for moves that may be
 * used.
 * fit_without_symbol - the kernel has refused the selection since it does not find a symbol:
 * returns true if another one needs none. */
int fit_init(void);
int fit_program(struct bpf_backend *k, enum move_means from);
bool fit_without_symbol(const struct bpf_backend *k);

/* ---- cgroup_migrate.c ---- */
/* moves_in_cgroup2 - returns true if the kernel calls the programs for moves in the cgroup2
 * hierarchy.
 * moves_attach - attach together with the program of switches. Optional: the backend works without
 * it.
 * moves_look - check again if all moves are seen, which may change.
 * moves_detach - detach, and remove a former process's pin.
 * moves_describe - for bpf_backend_usage; returns true if all moves are seen. */
bool moves_in_cgroup2(const struct bpf_backend *k);
void moves_attach(struct bpf_backend *k);
void moves_look(struct bpf_backend *k);
void moves_detach(struct bpf_backend *k);
bool moves_describe(const struct bpf_backend *k, char *why, size_t len);

/* ---- totals.c ---- */
/* totals_attach, totals_detach - attach the flush program to the exit of KVM_RUN if that is due. */
int totals_attach(struct bpf_backend *k);
void totals_detach(struct bpf_backend *k);
/* totals_drop - end @n's page, if it has one. totals_bound - the same if @n's bindings no longer
 * permit one. */
void totals_drop(struct bpf_backend *k, struct knode *n);
void totals_bound(struct bpf_backend *k, struct knode *n);
/* totals_take - take over the former process's. totals_tend - note losses in all pages. */
void totals_take(struct bpf_backend *k);
void totals_tend(struct bpf_backend *k);

/* ---- load.c ---- */
/* backend_sync - wait until all programs that began before the call have ended. */
void backend_sync(struct bpf_backend *k);
/* backend_changed - masks, bindings or events have changed: increment the generation. */
void backend_changed(struct bpf_backend *k);
/* backend_attach, backend_detach - attach or detach the program; no-op if it already is. */
int backend_attach(struct bpf_backend *k);
void backend_detach(struct bpf_backend *k);
/* backend_flush - make @cpu charge its counts up to now and take up new events. Fails if the CPU is
 * not online. */
int backend_flush(struct bpf_backend *k, unsigned int cpu);
/* backend_flush_all - flush all CPUs that may be interrupted. */
void backend_flush_all(struct bpf_backend *k);
/* backend_blind - grows when any node may have been charged too little. */
uint32_t backend_blind(const struct bpf_backend *k);

/* ---- pin.c ---- */
/* pin_prepare - before loading: lock the directory, check its pins, and set the pin path of each
 * map. One line to @why on an error.
 * pin_take - after loading: take over nodes, bindings and keys. */
int pin_prepare(struct bpf_backend *k, char *why, size_t whylen);
int pin_take(struct bpf_backend *k);
void pin_close(struct bpf_backend *k);
/* pin_link - pin a program's link, replacing a former one.
 * pin_is_there - returns true if a former process's program is attached. */
int pin_link(struct bpf_backend *k, struct bpf_link *link, const char *name);
void pin_unlink(const struct bpf_backend *k, const char *name);
bool pin_is_there(const struct bpf_backend *k, const char *name);

/* ---- pin_dir.c ---- */
/* pin_dir_open - open directory @path, checking that only this user and root can write to or
 * replace it and that no component is a symbolic link. Returns a file descriptor; -ELOOP, -ENOTDIR,
 * -EPERM or open's errors with one line to @why. */
int pin_dir_open(const char *path, char *why, size_t whylen);

/* ---- conserve.c ---- */
/* For bpf_backend_ops. */
int conserve(struct vpmu_backend *s, int (*fn)(const struct vpmu_conservation *c, void *arg),
	     void *arg);

/* ---- can_count.c ---- */
/* For bpf_backend_ops. */
bool can_count(const struct vpmu_backend *s, vpmu_key_t key, enum vpmu_quality *q, char *why,
	       size_t whylen);

/* ---- backend.c ---- */
extern const struct vpmu_backend_ops bpf_backend_ops;

#include "cgroup/sched.h"
#include "vpmu/util/clock.h"
