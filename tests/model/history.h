/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One random history: the library and the model side by side, one step at a time.
 * history.c makes the steps, checks.c compares, test_model.c runs many.
 */
#ifndef TESTS_MODEL_HISTORY_H
#define TESTS_MODEL_HISTORY_H

#include <setjmp.h>

#include "tests/model/fake.h"
#include "vpmu/vpmu.h"

#define H_PCPUS	    3
#define H_ACCOUNTS  40
#define H_VCPUS	    24
#define H_CONSUMERS 160

enum acc_kind { ACC_ROOT, ACC_OTHER, ACC_TENANT, ACC_VM, ACC_VCPU };

struct h_pcpu {
	bool alive;
	int id; /* the model's; never used again once gone, like the library's rows */
	struct vpmu_pcpu *p;
	struct fake fake;
	int vcpu;		   /* current, or M_NONE: the host */
	uint64_t unread[M_EVENTS]; /* executed since all counters were read */
	/* what the library knew when it last looked at the running context */
	int seen_account;
	m_keyset seen_keys;
	unsigned int seen_changes;
};

struct h_acc {
	bool alive;
	enum acc_kind kind;
	struct vpmu_account *a;
	int parent;
	int model;
	int children, consumers, contexts;
};

struct h_vcpu {
	bool alive;
	struct vpmu_context ctx;
	int own, group; /* accounts; group may be M_NONE */
	int place;	/* pCPU, or M_NONE */
};

struct h_con {
	bool alive, enabled, local;
	bool pcpu_at_add; /* somebody could say whether the key is supported */
	bool can_at_add;  /* and nobody said no */
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
	bool mixed; /* pCPUs that differ in what they can count */
	bool storm; /* many keys at once: slots run out and are used again */

	struct vpmu_host *host;
	struct model *m;
	struct h_pcpu pcpu[H_PCPUS];
	struct h_acc acc[H_ACCOUNTS];
	struct h_vcpu vcpu[H_VCPUS];
	struct h_con con[H_CONSUMERS];
	unsigned int changes; /* of any consumer's being enabled */
	bool key_used[M_KEYS];
	int nr_keys_used;
	int nr_pcpu_ids;

	bool touched[H_CONSUMERS]; /* made or removed by the call under way */

	int step;
	jmp_buf failed;
	char why[512];
};

/* What the histories met, so that a run that tests nothing shows. */
struct h_stats {
	unsigned long histories, steps, exact_values, multiplexed_values, unsupported_values;
	unsigned long enospc, recycled, equal_switches, switches, folds, i5_probes, rows, wraps;
};
extern struct h_stats h_stats; /* atomic adds */
#define H_COUNT(field) __atomic_add_fetch(&h_stats.field, 1, __ATOMIC_RELAXED)

/* test_signal: called before (@on) and after every call of the library; small histories only. */
extern void (*h_trace)(struct history *h, bool on);

/* Run at most @steps steps (0: as many as the seed says) of history @seed; traced, exactly @steps.
 * 0, or the failing step + 1, with h->why filled. */
int history_run(struct history *h, uint64_t seed, int steps, bool log);

/* for checks.c */
void h_fail(struct history *h, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));
#define H_CHECK(h, cond, ...)                                                                      \
	do {                                                                                       \
		if (!(cond))                                                                       \
			h_fail((h), __VA_ARGS__);                                                  \
	} while (0)
int h_charged(const struct history *h, int vcpu); /* the account (index) that @vcpu is charged to */
void h_refreshed(struct history *h, int pcpu);

void check_value(struct history *h, int con, bool exact);
void check_stale(struct history *h);	    /* I2: monotonic, never ahead of the truth */
void check_exact(struct history *h);	    /* I2, I7 after a sync; I1 by count of what is used */
void check_conservation(struct history *h); /* I1 */
void check_switch(struct history *h, int pcpu, int next_account, const m_keyset *next); /* I3 */
void check_no_idle_counter(struct history *h, int pcpu);

#endif
