/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the files of this folder share. Nobody else includes this.
 *
 *   load.c    loading, attaching, opening and closing
 *   features.c      which kind of program is loaded
 *   cgroup_migrate.c    the program that sees running tasks move
 *   backend.c   service/backend/backend.h: attach, flush, read
 *   conserve.c comparing what was counted with what was charged
 *   node.c     the tree of nodes, their masks; folding of removed nodes
 *   aggregate.c      what nodes were charged, of many of them in one go
 *   bind.c     what runs in a node
 *   slot.c     keys, their slots and perf events
 *   hotplug.c  CPUs that come and go
 *   alive.c    whether events still count
 *   budget.c   how many counters are used, and who waits for one
 *   pmu.c      what the platform says of its counters
 *   growmap.c    maps that grow
 *   pin.c      pins, and what a former process left
 *   sampling.c samples of nodes
 *   attribute.c    which node a sample is of
 *   branches.c branch records of vCPU threads
 *   sys.c      the calls of the kernel
 */
#ifndef CGROUP_PRIV_H
#define CGROUP_PRIV_H

#include <time.h>

#include "cgroup/cgroup.h"
#include "cgroup/bpf/maps.h"
#include "cgroup/sample/events.h"
#include "vpmu/core/taskdata.h"

#define PIN_PATH  256	  /* bytes of a pin's path */
#define PIN_LINK  "link"  /* the pin of the link of the program of switches, */
#define PIN_MOVES "moves" /* and of the one for moves */

/* An array of maps whose inner maps are our memory too. */
struct pages {
	int fd;
	uint32_t nr;	     /* pages at most */
	uint32_t entries;    /* of a page */
	uint32_t value_size; /* of an entry, a multiple of 8 */
	void **page;	     /* nr of them; NULL: not there */
	uint64_t bytes;	     /* memory of those there */
	const struct bpf_backend_sys *sys;
	const char *pin_dir, *name; /* page I is pinned as name-I; NULL: it is not */
};
/* pages_init, pages_free - @fd stays the caller's. -ENOMEM. */
int pages_init(struct pages *p, const struct bpf_backend_sys *sys, int fd, uint32_t nr,
	       uint32_t entries, uint32_t value_size);
void pages_free(struct pages *p);
/* pages_add - make the pages @index[0..n), which are not there. All or nothing. Waits for a grace
 * period of the kernel. */
int pages_add(struct pages *p, const uint32_t *index, uint32_t n);
/* pages_find - take over the pages that a former process has pinned. pages_unpin - remove the pins
 * of all pages, also those that are not known. */
int pages_find(struct pages *p);
void pages_unpin(const struct pages *p);

/* A key, and the perf event of each CPU that counts it. */
struct slot {
	vpmu_key_t key;	    /* 0: free */
	unsigned int users; /* keys of countings */
	bool used;	    /* since the last grace period: a CPU may still charge it */
	bool counted;	    /* some account has it in its mask */
	int *fd;	    /* by CPU; -1: none */
	int error;	    /* why no CPU has an event; 0: some have */
	uint64_t served_ns; /* its turns so far */
};

/* The hardware counters of each CPU. */
struct bpf_backend_pmu {
	bool known;
	unsigned int general; /* for any event */
	uint32_t fixed;	      /* a bit for each enum vpmu_generic with a counter of its own */
	char from[96];	      /* how that is known, or why it is not */
};

struct knode {
	struct vpmu_backend_node n; /* first */
	uint32_t account;
	uint64_t name;	    /* lasting; 0: none */
	bool ghost;	    /* a former process's, without a handle */
	bool removed;	    /* its account is there until it is folded */
	uint64_t own, mask; /* slots counted for it; for it or an ancestor */
	uint16_t *refs;	    /* countings per slot; NULL: none so far */
	struct knode *parent, *child, *next, **link; /* first child, next sibling */
	unsigned int mark;			     /* flush: the last one that asked for it */
	struct sums *asked;			     /* sums_take: who asks for its sums */
	struct binding *bound;			     /* what runs in it */
	unsigned int captures;			     /* branches_attach less branches_detach */
	uint32_t capture_ctl;			     /* of all of them */
};

/* A cgroup or a task that runs in a node. Also in a table by id. */
struct binding {
	uint64_t id;	/* cgroup id, or task number */
	uint64_t start; /* of the task */
	bool task;
	struct knode *node;
	struct binding *next, **link; /* of the node */
	/* of tasks: */
	pid_t pid;	      /* its process, while nodes are sampled; 0: not known */
	struct branches *lbr; /* its branch records are captured; NULL: not */
	struct vpmu_taskdata *lbr_data;
};

/* Which node the tasks of a cgroup are in: attribute.c. */
#define WHOSE_CACHE 1024
struct whose {
	struct {
		uint64_t cgroup;
		struct knode *node;
	} cache[WHOSE_CACHE];
	char *root;  /* where cgroup2 is mounted; NULL: not known */
	void *vmms;  /* tsearch tree of processes with vCPU threads */
	bool looked; /* for root */
};

/* How moves are seen, the best first: those of all running tasks, or all that tasks make by
 * themselves. */
enum move_means { MOVE_FENTRY, MOVE_KPROBE, MOVE_TRACEPOINT, MOVE_MEANS };

struct bpf_backend {
	struct vpmu_backend source;
	struct bpf_backend_opts opts;
	const struct bpf_backend_sys *sys;
	struct account_bpf *skel;
	struct bpf_program *on_switch, *flush_cpu; /* of the right kind */
	struct bpf_program *on_move;		   /* by move_by; NULL: the kernel takes none */
	struct bpf_link *move_link;		   /* NULL: not attached */
	enum move_means move_by; /* the best one that there is; MOVE_MEANS: none */
	int move_error;		 /* an errno: why it is not attached */
	bool sees_hidden;	 /* the program finds the number of switches of a CPU */
	bool has_switches;	 /* and can count it as an event */
	struct bpf_link *link;	 /* NULL: nothing is attached */
	int alive;		 /* file of the program of alive.c; -1 */
	int sync_page;		 /* backend_sync: a page for an element that nobody uses */
	unsigned int nr_cpus;	 /* possible ones */
	bool *online, *quiet;	 /* by CPU; quiet: isolated, not to be interrupted */
	struct kp_cfg *cfg;	 /* mapped */
	uint8_t *cpus;		 /* mapped: see cpu_state */
	size_t cpus_size;
	uint64_t *task_bits; /* mapped */
	uint32_t *bit_users; /* bound tasks by bit */
	struct pages accounts, index, cells;
	uint32_t nr_accounts; /* numbers given out so far, 0 included */
	uint32_t *free_accounts, nr_free, room_free;
	unsigned int chunks; /* that may be in use: those of slots 0 .. highest */
	struct slot slot[VPMU_MAX_SLOTS];
	struct knode root, other, **nodes; /* nodes: by account */
	uint32_t nr_removed;
	unsigned int mark;
	void *cgroup_bindings, *task_bindings; /* tsearch trees of struct binding */
	int pin_lock;			       /* the directory of pins; -1 */
	bool taken_over;		       /* until bpf_backend_named */
	bool running;		/* bpf_backend_open: a former process's program is attached */
	void *ghosts;		/* tsearch tree of struct knode, by name and parent */
	unsigned int countings; /* attached keys */
	uint64_t refused;
	uint64_t gaps_ns;   /* when slot_gaps was called last */
	uint64_t folded_ns; /* the same of node_fold */
	struct bpf_backend_pmu pmu;
	bool mediated;	  /* guests have the counters to themselves while they run */
	bool turns;	  /* the keys in use take turns */
	uint64_t on;	  /* slots whose turn it is, or all of hardware keys */
	uint64_t turn_ns; /* when the turn began */
	int turn_timer;	  /* readable when it ends */
	struct samples *samples;
	bool *sampled_cpus; /* online and not quiet */
	unsigned int samplings;
	struct whose whose;
	struct vpmu_lbr_pool lbr_pool;
	char lbr_why[200]; /* why branch records were refused last */
};

static inline struct knode *knode_of(const struct vpmu_backend_node *n)
{
	return (struct knode *)n;
}

static inline struct bpf_backend *backend_of(const struct vpmu_backend *s)
{
	return (struct bpf_backend *)s; /* its first member */
}

static inline struct kp_cpu *cpu_state(const struct bpf_backend *k, unsigned int cpu)
{
	return (struct kp_cpu *)(k->cpus + cpu * KP_CPU_BYTES);
}

/* The loads before it come before those behind it. ThreadSanitizer knows no fences and gcc warns of
 * that; the program in the kernel is out of its sight anyway. */
#pragma GCC diagnostic push
#if defined(__SANITIZE_THREAD__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wtsan"
#endif
static inline void fence_loads(void)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
}
#pragma GCC diagnostic pop

/* What accounts were charged for a slot: a value is the difference of two of these. */
struct ksum {
	uint64_t total, time_ns, lost_ns;
	uint32_t lacks, missed; /* as in kp_account */
};

/* ---- aggregate.c ---- */
/* What is asked for of one node, and the answer. The caller makes a list of them by next. */
struct sums {
	struct knode *node;
	size_t nr;
	struct sum_key {
		unsigned int slot;
		struct ksum now;  /* the answer */
		struct ksum pass; /* private: of one CPU */
	} * key;
	struct sums *next;
	struct sums *same; /* private: of the same node */
};
/* sums_take - what each node of @list and everything below it were charged so far. */
void sums_take(const struct bpf_backend *k, struct sums *list);

/* ---- sys.c ---- */
extern const struct bpf_backend_sys bpf_backend_sys_real;
/* bpf_backend_cpus - set set[cpu] for the CPUs that file @name below the backend's files lists;
 * others are cleared. False: no such file. */
bool bpf_backend_cpus(const struct bpf_backend_sys *sys, const char *name, bool *set,
		      unsigned int nr);

/* ---- node.c ---- */
int node_init(struct bpf_backend *k);
void node_exit(struct bpf_backend *k);
int node_add(struct vpmu_backend_node *parent, uint64_t serial, struct vpmu_backend_node **out);
void node_remove(struct vpmu_backend_node *n);
/* node_use - one more counting of @slot; node_unuse - one less. Then node_masks. */
int node_use(struct knode *n, unsigned int slot);
void node_unuse(struct knode *n, unsigned int slot);
/* node_masks - compute the masks of all nodes, and store those that have changed in their
 * accounts. */
void node_masks(struct bpf_backend *k);
/* node_mask - the same for @n and what is below it, when nothing above has changed. */
void node_mask(struct knode *n);
/* node_cell - the cell of @account for the slots of @chunk on @cpu, or the daemon's own (nr_cpus);
 * NULL: it was never charged there. node_add_cell - add what it has of @slot. */
struct kp_cell *node_cell(const struct bpf_backend *k, unsigned int cpu, uint32_t account,
			  unsigned int chunk);
void node_add_cell(const struct kp_cell *c, unsigned int slot, struct ksum *out);
/* cpu_sum - of all accounts, on one CPU. */
uint64_t cpu_sum(const struct bpf_backend *k, unsigned int cpu, unsigned int slot);
/* node_grow - make the pages that accounts, slots and CPUs need now. Waits for a grace period if
 * any is made. -ENOMEM. */
int node_grow(struct bpf_backend *k);
/* So many removed nodes are not folded yet at most. */
#define KP_REMOVED_MAX 256u
/* node_fold - give what removed nodes were charged to their parents, and their accounts back. */
void node_fold(struct bpf_backend *k);
struct kp_account *account_at(const struct bpf_backend *k, uint32_t account);

/* knode_link, knode_unlink - put below @parent; take out. */
void knode_link(struct knode *n, struct knode *parent);
void knode_unlink(struct knode *n);
/* node_ghost - the node of account @i of a former process, or that this account is free. */
int node_ghost(struct bpf_backend *k, uint32_t i);
void node_set_name(struct bpf_backend *k, struct knode *n, uint64_t name);

/* ---- bind.c ---- */
/* bind_found - what a former process bound. -ENOMEM. */
int bind_found(struct bpf_backend *k, uint32_t account, bool task, uint64_t id, uint64_t start);
/* bind_move - what runs in @from runs in @to from now on. */
void bind_move(struct bpf_backend *k, struct knode *from, struct knode *to);
void bind_exit(struct bpf_backend *k);
/* bind_task_node, bind_cgroup_node - the node that it is bound to; NULL: none. */
struct knode *bind_task_node(const struct bpf_backend *k, uint32_t tid);
struct knode *bind_cgroup_node(const struct bpf_backend *k, uint64_t id);

/* ---- sampling.c ---- */
int sampling_open(struct bpf_backend *k);
void sampling_close(struct bpf_backend *k);
/* sampling_tend - CPUs may have come or gone. */
void sampling_tend(struct bpf_backend *k);
/* sampling_settle - before what runs where changes: samples so far are of the nodes of now. */
void sampling_settle(struct bpf_backend *k);
/* For bpf_backend_ops. */
int sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
		 struct vpmu_sampling **out);
void sample_stop(struct vpmu_sampling *s);
void sample_read(const struct vpmu_sampling *s, struct vpmu_value *out);
unsigned int sample_take(struct vpmu_backend *s);
void sample_state(const struct vpmu_sampling *s, struct vpmu_sampling_state *out);

/* ---- attribute.c ---- */
/* whose_node - the node that a sample ran in; NULL: it is not known. */
struct knode *whose_node(struct bpf_backend *k, const struct ring_sample *s);
/* whose_vmm - whether process @pid runs a VM. */
bool whose_vmm(const struct bpf_backend *k, pid_t pid);
/* whose_task - task @b is bound now; whose_task_gone - it will not be. whose_begin - learn of all
 * bound tasks. */
void whose_task(struct bpf_backend *k, struct binding *b);
void whose_task_gone(struct bpf_backend *k, struct binding *b);
void whose_begin(struct bpf_backend *k);
/* whose_forget - what runs where has changed. */
void whose_forget(struct bpf_backend *k);
void whose_exit(struct bpf_backend *k);

/* ---- branches.c ---- */
/* branches_follow - task @b runs in b->node now: begin or end capturing it. branches_end - it is
 * not bound any more. */
void branches_follow(struct bpf_backend *k, struct binding *b);
void branches_end(struct bpf_backend *k, struct binding *b);
/* branches_flush - make what branches_read gives of @n and below current. */
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

/* ---- slot.c ---- */
/* kslot_get - the slot of @key, with one user more; new ones get their events. -ENOSPC: none is
 * free; -ENOMEM. For a new one FRESH or FRESH_HARDWARE is added to *fresh. */
#define FRESH	       1u
#define FRESH_HARDWARE 2u
int kslot_get(struct bpf_backend *k, vpmu_key_t key, unsigned int *slot, unsigned int *fresh);
void kslot_put(struct bpf_backend *k, unsigned int slot);
int slot_init(struct bpf_backend *k);
void slot_exit(struct bpf_backend *k);
/* slot_is_hardware - whether the event of @key needs a counter of the CPU. */
bool slot_is_hardware(vpmu_key_t key);
/* slot_drop_guests - events that count in guests are closed, as guests now have the counters to
 * themselves; values of these keys are not supported any more. */
void slot_drop_guests(struct bpf_backend *k);
/* slot_probe - 0, or why no CPU counts @key. Opens an event that does not count. */
int slot_probe(const struct bpf_backend *k, vpmu_key_t key);
/* slot_take - the keys that a former process counted are in use by nobody yet. slot_drop - those
 * that still are end. */
void slot_take(struct bpf_backend *k);
void slot_drop(struct bpf_backend *k);
/* slot_lacks - whether no CPU has an event of the slot's key, and no error says why. */
bool slot_lacks(const struct bpf_backend *k, unsigned int slot);
/* slot_gaps - from now on, read the times of hardware events whose counters the kernel has taken
 * away. Returns whether there are new ones. */
bool slot_gaps(struct bpf_backend *k);
/* slot_open_on - open the event of slot @slot on @cpu, and let the program use it from the next
 * generation on. @final: what the event before it has counted at its end, if it was of the same
 * key; else KP_NONE. slot_close_on - the event is gone; none is fine. */
int slot_open_on(struct bpf_backend *k, unsigned int slot, unsigned int cpu, uint64_t final);
/* slot_open_beside - an event of the slot's key on @cpu that the program does not know: a file. */
int slot_open_beside(const struct bpf_backend *k, unsigned int slot, unsigned int cpu);
void slot_close_on(struct bpf_backend *k, unsigned int slot, unsigned int cpu);
/* slot_hide_on - the program uses the event of @slot on @cpu no longer, but it is still there. */
void slot_hide_on(struct bpf_backend *k, unsigned int slot, unsigned int cpu);
/* slot_needs_none - whether the key is counted without an event. Such a slot needs nothing when
 * CPUs come and go. */
static inline bool slot_needs_none(const struct bpf_backend *k, unsigned int slot)
{
	return k->cfg->switches >> slot & 1;
}
/* slot_has - whether @cpu has an event of the slot's key, perhaps a former process's. */
static inline bool slot_has(const struct bpf_backend *k, unsigned int slot, unsigned int cpu)
{
	return cpu_state(k, cpu)->has >> slot & 1;
}

/* ---- alive.c ---- */
int alive_init(struct bpf_backend *k);
void alive_exit(struct bpf_backend *k);
/* alive_dead - slots whose event on @cpu, which is online, the program is to read although it does
 * not count any more. Interrupts the CPU. */
uint64_t alive_dead(const struct bpf_backend *k, unsigned int cpu);

/* ---- hotplug.c ---- */
void hotplug_init(struct bpf_backend *k);
/* hotplug_take - a former process's events are taken over. */
void hotplug_take(struct bpf_backend *k);
/* hotplug_check - hotplug_tend(), and new events for those that count no longer for another reason
 * or that the host can count only now. Interrupts all CPUs but quiet ones. */
void hotplug_check(struct bpf_backend *k);
/* hotplug_tend - notice CPUs that have come or gone. @thorough: also those that have come back
 * since the last call, which takes a system call for each CPU. */
void hotplug_tend(struct bpf_backend *k, bool thorough);
/* hotplug_renew - close the events of @slots on @cpu and open new ones; nothing that was charged
 * changes. False: the CPU is not online, and nothing is done or the CPU has to be looked at again.
 */
bool hotplug_renew(struct bpf_backend *k, unsigned int cpu, uint64_t slots);

/* ---- pmu.c ---- */
/* pmu_find - @counters: what the configuration says of general counters; 0: nothing. */
void pmu_find(const struct bpf_backend_sys *sys, unsigned int counters, struct bpf_backend_pmu *p);
/* pmu_is_mediated - whether KVM gives its guests the whole PMU. */
bool pmu_is_mediated(const struct bpf_backend_sys *sys);

/* ---- budget.c ---- */
int budget_init(struct bpf_backend *k);
void budget_exit(struct bpf_backend *k);
/* budget_new - slot @i has got a key: whether its events begin switched off. budget_is_off -
 * whether the event on @cpu is to be so. budget_change - keys have come or gone, and those that
 * have come have their events. Before it masks name new slots. budget_tend - the next turn, if it
 * is time. budget_look - whether guests have come to have the counters to themselves. */
void budget_look(struct bpf_backend *k);
void budget_new(struct bpf_backend *k, unsigned int i);
bool budget_is_off(const struct bpf_backend *k, unsigned int i, unsigned int cpu);
void budget_change(struct bpf_backend *k);
void budget_tend(struct bpf_backend *k, bool thorough);
/* budget_partner - the slot that is to be in one group with @key; -1: none. */
int budget_partner(const struct bpf_backend *k, vpmu_key_t key);

/* Keys that are counted together or not at all. */
struct budget_unit {
	uint64_t slots;
	unsigned int nr_keys;
	vpmu_key_t key[2];
	uint64_t served_ns;
};
/* budget_plan - choose of @n units, which it sorts, those that find a counter while @leave general
 * ones are left, if there are more: who was served least comes first. Returns their slots. Pure. */
uint64_t budget_plan(const struct bpf_backend_pmu *p, unsigned int leave, struct budget_unit *u,
		     unsigned int n);

/* ---- features.c ---- */
/* fit_init - once, before the program is opened. fit_program - between opening and loading: choose
 * the kind of program, and the size of the map of CPUs. What was chosen last is what libbpf loads.
 * @from: the first of the means for moves that may be used. */
int fit_init(void);
int fit_program(struct bpf_backend *k, enum move_means from);

/* ---- cgroup_migrate.c ---- */
/* moves_attach - with the program of switches. The backend works without it. moves_look - whether
 * the kernel calls it for all moves, which may change. moves_detach - with all that a former
 * process has left. moves_describe - for bpf_backend_usage. moves_in_cgroup2 - whether the kernel
 * calls the programs for moves in the cgroup2 hierarchy. */
bool moves_in_cgroup2(const struct bpf_backend *k);
void moves_attach(struct bpf_backend *k);
void moves_look(struct bpf_backend *k);
void moves_detach(struct bpf_backend *k);
bool moves_describe(const struct bpf_backend *k, char *why, size_t len);

/* ---- load.c ---- */
uint64_t backend_now_ns(clockid_t clock);
/* backend_sync - wait until no CPU runs a program that began before the call. */
void backend_sync(struct bpf_backend *k);
/* backend_changed - masks, bindings or events have changed: move the generation. */
void backend_changed(struct bpf_backend *k);
/* backend_attach - attach the program if it is not. backend_detach - if it is. */
int backend_attach(struct bpf_backend *k);
void backend_detach(struct bpf_backend *k);
/* backend_flush - make @cpu charge what it has counted so far, and take up new events. An error:
 * the CPU is not online. */
int backend_flush(struct bpf_backend *k, unsigned int cpu);
/* backend_flush_all - all CPUs that may be interrupted. */
void backend_flush_all(struct bpf_backend *k);
/* backend_blind - grows when any node may have been charged too little. */
uint32_t backend_blind(const struct bpf_backend *k);

/* ---- pin.c ---- */
/* pin_prepare - before loading: lock the directory, look at what is there, and say where each map
 * is pinned. One line to @why on an error. pin_take - after that, take over nodes, bindings and
 * keys. */
int pin_prepare(struct bpf_backend *k, char *why, size_t whylen);
int pin_take(struct bpf_backend *k);
void pin_close(struct bpf_backend *k);
/* pin_link - pin a program's link in place of a former one. pin_is_there - whether a former
 * process's program is attached. */
int pin_link(struct bpf_backend *k, struct bpf_link *link, const char *name);
void pin_unlink(const struct bpf_backend *k, const char *name);
bool pin_is_there(const struct bpf_backend *k, const char *name);

/* ---- pin_dir.c ---- */
/* pin_dir_open - a descriptor of the directory @path, which nobody but this user and root can
 * replace or write to, and which no symbolic link leads to. -ELOOP, -ENOTDIR, -EPERM or what open
 * says, and one line to @why. */
int pin_dir_open(const char *path, char *why, size_t whylen);

/* ---- conserve.c ---- */
/* For bpf_backend_ops. */
int conserve(struct vpmu_backend *s, int (*fn)(const struct vpmu_conservation *c, void *arg),
	     void *arg);

/* ---- backend.c ---- */
extern const struct vpmu_backend_ops bpf_backend_ops;

#endif
