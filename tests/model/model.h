/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plain, slow model of libvpmu: a log of running accounts and executed work.
 *
 * It logs all executed work, with the running account and the keys that had a hardware
 * counter there, and answers "what should this consumer read?" by adding up the log. No slots,
 * snapshots, bases, cookies, cells or folds: nothing of the library but its public key layout,
 * which only m_key_encode writes down. Single-threaded.
 */
#ifndef TESTS_MODEL_MODEL_H
#define TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/event/event.h"

#define M_EVENTS 7 /* the machine's first events, in the order of enum vpmu_emu_event */
#define M_MODES	 3 /* guest kernel, guest user, host: the order of enum vpmu_emu_mode */
#define M_KEYS	 128
#define M_PCPUS	 16 /* ever, in one history */
#define M_NONE	 (-1)

/* The keys a history uses, by index. */
struct m_key {
	vpmu_key_t key;
	int event; /* its event, or M_NONE: no emulator PMU counts it */
	bool modes[M_MODES];
	bool modelled; /* a cost model's figure, not counted one by one */
};
extern struct m_key m_keys[M_KEYS];
extern int m_nr_keys;
void m_keys_init(void);

typedef struct {
	bool has[M_KEYS];
} m_keyset;

struct m_exec {
	uint64_t ev[M_MODES][M_EVENTS];
	uint64_t ns;
};

struct m_truth {
	uint64_t
		executed; /* events of the key while the account ran and the consumer was enabled */
	uint64_t counted; /* of these: while a hardware counter had the key */
	uint64_t enabled_ns;	 /* the account ran on pCPUs that can count the key */
	uint64_t uncountable_ns; /* it ran on others */
	uint64_t running_ns;	 /* of that: while a hardware counter had the key */
};

struct model;

struct model *model_new(void);
void model_free(struct model *m);

/* Accounts form a tree; 0 is the root, made by model_new. A removed account's past stays with
 * those above it. */
int model_account(struct model *m, int parent);
bool model_below(const struct model *m, int account, int above);

/* @account runs on @pcpu from now on. */
void model_switch(struct model *m, int pcpu, int account);
/* A hardware counter of @pcpu now has (not) @key. */
void model_counter(struct model *m, int pcpu, int key, bool bound);
/* Returns true if some counter of @pcpu could count @key; before anything runs there. */
void model_can(struct model *m, int pcpu, int key, bool can);
void model_execute(struct model *m, int pcpu, const struct m_exec *x);

/* Consumers: made disabled. */
int model_consumer(struct model *m, int account, int key);
void model_enable(struct model *m, int consumer);
void model_disable(struct model *m, int consumer);
void model_forget(struct model *m, int consumer);
struct m_truth model_truth(struct model *m, int consumer);
/* Enabled consumers of @account itself. */
int model_enabled(const struct model *m, int account);

/*
 * A sampler: the work of @account, and those below it, from now on while a counter had
 * @key. @pcpu: there, or M_NONE: anywhere.
 */
int model_watch(struct model *m, int account, int key, int pcpu);
uint64_t model_watched(struct model *m, int watch);
void model_unwatch(struct model *m, int watch);

/* All work on @pcpu while a counter had @key, of any account. */
uint64_t model_hardware(const struct model *m, int pcpu, int key);
/* Keys that enabled consumers of @account or of those above it ask for. */
void model_keys_in_use(const struct model *m, int account, m_keyset *set);
/* Distinct keys of all enabled consumers; whether @key is one of them. */
int model_distinct_keys(const struct model *m, int key, bool *among);

#endif
