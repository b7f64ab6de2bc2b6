/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One random history: the library and the model side by side, one step at a time.
 * history.c makes the steps, checks.c compares, test_model.c runs many.
 */
#ifndef TESTS_MODEL_HISTORY_H
#define TESTS_MODEL_HISTORY_H

#include <setjmp.h>

#include "tests/model/fake.h"
#include "vpmu/guest/guest.h"
#include "vpmu/sampler.h"

#define H_PCPUS	    3
#define H_ACCOUNTS  40
#define H_VCPUS	    24
#define H_CONSUMERS 160
#define H_ALARMS    24
#define H_SAMPLERS  (VPMU_SAMPLERS_MAX + 1) /* one too many */

enum acc_kind { ACC_ROOT, ACC_OTHER, ACC_TENANT, ACC_VM, ACC_VCPU };

struct h_pcpu {
	bool alive;
	int id; /* the model's; never used again once gone, like the library's rows */
	struct vpmu_pcpu *p;
	struct fake fake;
	int vcpu;		   /* current, or M_NONE: the host */
	uint64_t unread[M_EVENTS]; /* executed since all counters were read */
	/* the library's state at its last look at the running context */
	int seen_account;
	m_keyset seen_keys;
	unsigned int seen_changes;
	unsigned long seen_kicks;
};

struct h_acc {
	bool alive;
	enum acc_kind kind;
	struct vpmu_account *a;
	int parent;
	int model;
	int children, consumers, contexts;
	unsigned int captures; /* vpmu_lbr_attach */
	uint32_t capture_ctl;
};

/* Branch records that should be there. */
struct h_lbr {
	bool exists;
	struct vpmu_lbr_regs r;
};

/* A counter of a guest. The consumer is there from the first time it counts an event until it
 * counts another, or its vCPU is placed nowhere. */
struct h_gctr {
	bool exists;
	uint64_t evtsel;
	int sel;   /* the key that the registers select, or M_NONE */
	bool intr; /* its overflow interrupts */
	int added; /* the key of its consumer, or M_NONE: there is none */
	bool can, on, failed;
	int con; /* the model's, where it can count */
	struct m_truth base;
	uint64_t value;
	/* since it was written */
	uint64_t enabled_ns, running_ns;
	bool lost, known, modelled;
};

#define G_FIXED VPMU_GUEST_MAX_GP /* the first fixed counter */

/* The expected PMU registers of a vCPU. */
struct h_guest {
	struct vpmu_guest *g;
	struct vpmu_guest_cfg cfg;
	bool intel;
	unsigned int version; /* Intel 2, 5; AMD 0 (PERFCTR_CORE only), 2 */
	unsigned int depth;   /* of branch records; 0: none */
	int place;	      /* pCPU, or M_NONE */
	struct h_gctr ctr[VPMU_GUEST_MAX_CTRS];
	uint64_t fixed_ctrl, global, status, debugctl, lbr_ctl, lbr_cfg;
	unsigned int lbr_depth;
	bool pmi;
};

struct h_vcpu {
	bool alive;
	struct vpmu_context ctx;
	int own, group; /* accounts; group may be M_NONE */
	int place;	/* pCPU, or M_NONE */
	struct history *h;
	struct h_guest *guest; /* NULL: no register model */
	uint32_t tag;	       /* in its branches; never used twice, and kept by a restored one */
	uint32_t branches;
	struct h_lbr lbr[VPMU_LBR_USERS];
	bool where_known;
};

struct h_alm {
	bool set;
	int con, vcpu;
	int watch;    /* the model's */
	uint64_t due; /* of the watched work */
	uint64_t fires;
	struct history *h;
	struct vpmu_alarm a;
};

struct h_smp {
	bool alive, lbr;
	int acc, key, model;
	uint64_t period;
	int watch[M_PCPUS];	 /* by id of pCPUs */
	uint64_t taken[M_PCPUS]; /* periods */
	struct history *h;
	struct vpmu_sampler *s;
	struct vpmu_value last;
};

struct h_con {
	bool alive, enabled, local;
	bool pcpu_at_add; /* a pCPU could report whether the key is supported */
	bool can_at_add;  /* and none reported no */
	int acc, key;
	int model;
	struct vpmu_consumer c;
	struct vpmu_value last; /* as last read: must never go back */
};

struct history {
	uint64_t seed, rng;
	int steps;
	bool log;
	/* flavour */
	int max_pcpus, max_consumers, keys, gp, fixed, width, batch;
	int pool[M_KEYS]; /* the keys in use, some maybe twice */
	unsigned int refuse_percent;
	bool mixed; /* pCPUs with different sets of events */
	bool storm; /* many keys at once: slots run out and are used again */
	int alarms; /* of pCPUs: FAKE_... */
	bool no_lbr;

	struct vpmu_host *host;
	struct model *m;
	struct h_pcpu pcpu[H_PCPUS + 1]; /* the last ones: of another host, steps_move.c */
	struct h_acc acc[H_ACCOUNTS + 1];
	struct h_vcpu vcpu[H_VCPUS];
	struct h_con con[H_CONSUMERS];
	struct h_alm alm[H_ALARMS];
	struct h_smp smp[H_SAMPLERS];
	uint32_t next_tag;
	struct vpmu_emupmu reference; /* the host's features as shown to guests */
	unsigned int samples;	      /* taken, ever */
	bool away;		      /* a vCPU is in another host */
	bool lbr_moves; /* records come or go in the call under way: samples may show either */
	unsigned int changes; /* of any consumer's being enabled */
	bool key_used[M_KEYS];
	int nr_keys_used;
	int nr_pcpu_ids;

	bool touched[H_CONSUMERS]; /* made or removed by the call under way */
	int smp_touched;	   /* sampler + 1 that is being removed */

	int step;
	jmp_buf failed;
	char why[512];
	bool told; /* a callback found something wrong: see h_tell */
};

/* Cases that the histories met, to detect a run without them. */
struct h_stats {
	unsigned long histories, steps, exact_values, multiplexed_values, unsupported_values;
	unsigned long enospc, recycled, equal_switches, switches, folds, i5_probes, rows, wraps;
	unsigned long fires, samples, stops, pmis, captures, records, reads_lbr, moved, killed,
		freed, overflows, guest_reads;
};
extern struct h_stats h_stats; /* atomic adds */
#define H_COUNT(field) __atomic_add_fetch(&h_stats.field, 1, __ATOMIC_RELAXED)

/* test_signal: called before (@on) and after every call of the library; small histories only. */
extern void (*h_trace)(struct history *h, bool on);
extern void (*h_trace_pause)(bool on); /* in callbacks of the library; may be NULL */

/* Run up to @steps steps (0: the seed's own number) of history @seed; traced, exactly @steps.
 * 0, or the failing step + 1, with h->why filled. */
int history_run(struct history *h, uint64_t seed, int steps, bool log);

/* for checks.c */
void h_fail(struct history *h, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* h_tell - from a callback, inside a call of the library: fails after it. */
void h_tell(struct history *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define H_TELL(h, cond, ...)                                                                       \
	do {                                                                                       \
		if (!(cond))                                                                       \
			h_tell((h), __VA_ARGS__);                                                  \
	} while (0)
#define H_CHECK(h, cond, ...)                                                                      \
	do {                                                                                       \
		if (!(cond))                                                                       \
			h_fail((h), __VA_ARGS__);                                                  \
	} while (0)
int h_charged(const struct history *h, int vcpu); /* the account (index) that @vcpu is charged to */
void h_refreshed(struct history *h, int pcpu);

void check_value(struct history *h, int con, bool exact);
void check_stale(struct history *h); /* I2: monotonic, never ahead of the truth */
void check_exact(struct history *h); /* I2, I7 after a sync; I1 by count of the slots in use */
void check_conservation(struct history *h); /* I1 */
void check_switch(struct history *h, int pcpu, int next_account, const m_keyset *next,
		  unsigned int samples); /* I3 */
void check_no_idle_counter(struct history *h, int pcpu);
/* checks_pmu.c */
void check_alarms(struct history *h);		      /* none that is due has not fired */
void check_samplers(struct history *h, bool charged); /* floor(N / period) of each pCPU */
void check_lbr_cpu(struct history *h); /* I5: CPUs hold state of the running account only */
void check_lbr(struct history *h);     /* all saved: everybody's records; I6 */
void check_pending(struct history *h); /* PMIs of running vCPUs */

#endif
