/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host PMU between the library and the soft PMU that sees every call: it tells the model which
 * keys have a counter, counts calls for the O(1) checks, and can be made difficult: counters that
 * start anywhere, events it cannot count, binds it refuses.
 */
#ifndef TESTS_MODEL_FAKE_H
#define TESTS_MODEL_FAKE_H

#include "tests/model/model.h"
#include "vpmu/softpmu.h"

struct fake {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_softpmu soft;
	struct model *model; /* may be NULL */
	int pcpu;
	uint64_t rng;
	unsigned int refuse_percent; /* of binds */
	bool memory;		     /* counters and clock can be read without a call */
	bool cannot[M_EVENTS];
	int key[VPMU_MAX_CTRS]; /* index of the bound key, or M_NONE */
	uint64_t offset[VPMU_MAX_CTRS];

	/* since fake_reset_calls */
	unsigned int calls, nows;
	unsigned int reads[M_KEYS];
	bool rebound[M_KEYS]; /* got or lost a counter */
};

int fake_init(struct fake *f, const struct vpmu_softpmu_opts *opts, struct model *m, int pcpu,
	      uint64_t seed);
void fake_reset_calls(struct fake *f);
void fake_execute(struct fake *f, const struct m_exec *x);
bool fake_can(const struct fake *f, int key);
int fake_counter_of(const struct fake *f, int key);
uint32_t fake_eligible(const struct fake *f, int key);

/* splitmix64: the random numbers of all model tests */
static inline uint64_t rnd64(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

#endif
