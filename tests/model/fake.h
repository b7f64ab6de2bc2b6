/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host PMU between the library and the emulator PMU that sees every call: it reports to the model
 * which keys have a counter, counts calls for the O(1) checks, and can be made difficult: counters
 * that start anywhere, events it cannot count, binds it refuses.
 */
#ifndef TESTS_MODEL_FAKE_H
#define TESTS_MODEL_FAKE_H

#include "tests/model/model.h"
#include "vpmu/emupmu.h"
#include "tests/random.h"

/* A branch: @mode and @type (VPMU_LBR_JCC ...) are what filters look at. */
struct fake_branch {
	int mode;
	uint32_t type;
	struct vpmu_lbr_entry e;
};

struct fake {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_emupmu emulator;
	struct model *model; /* may be NULL */
	int pcpu;
	uint64_t rng;
	unsigned int refuse_percent; /* of binds */
	bool memory;		     /* counters and clock can be read without a call */
	enum { FAKE_EXACT, FAKE_BIG, FAKE_LATE, FAKE_NEVER, FAKE_EARLY } alarms;
	bool cannot[M_EVENTS];
	int key[VPMU_MAX_CTRS]; /* index of the bound key, or M_NONE */
	uint64_t offset[VPMU_MAX_CTRS];

	/* since fake_reset_calls */
	unsigned int calls, nows, lbr_calls;
	unsigned long kicks; /* since fake_init */
	unsigned int reads[M_KEYS];
	bool rebound[M_KEYS]; /* got or lost a counter */
};

/* @alarms: they go off on time; as soon as an instruction that counts several is over; too late, or
 * not at all; there are none. */
int fake_init(struct fake *f, const struct vpmu_emupmu_opts *opts, struct model *m, int pcpu,
	      uint64_t seed, int alarms);
void fake_reset_calls(struct fake *f);
void fake_execute(struct fake *f, const struct m_exec *x);
/* As much of *x as is executed until an alarm goes off: executed, and taken off. True: one did. */
bool fake_execute_some(struct fake *f, struct m_exec *x);
/* A branch, recorded if the facility is on; RETs pop in call-stack mode. fake_record: the same
 * for any state; whether there is a newest record now that was not there. */
bool fake_record(struct vpmu_lbr_regs *r, const struct fake_branch *b);
void fake_branch(struct fake *f, const struct fake_branch *b);
/* Alarms are noticed before anything else is executed. */
static inline bool fake_on_time(const struct fake *f)
{
	return f->alarms == FAKE_EXACT || f->alarms == FAKE_BIG || f->alarms == FAKE_EARLY;
}
/* All bound counters have alarms, which are on time: no reader is needed in time. */
bool fake_tells_all(const struct fake *f);
bool fake_can(const struct fake *f, int key);
int fake_counter_of(const struct fake *f, int key);
uint32_t fake_eligible(const struct fake *f, int key);

#endif
