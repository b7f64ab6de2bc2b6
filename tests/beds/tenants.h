/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The BPF backend with tenants t0, t1, ... for the beds' tests: each a cgroup that is a node of
 * the backend. Every call ends the test on a failure.
 */
#ifndef TESTS_BEDS_TENANTS_H
#define TESTS_BEDS_TENANTS_H

#include "cgroup/cgroup.h"

#define TENANTS_MAX_KEYS 24

struct tenants {
	struct bpf_backend *k;
	struct vpmu_backend *source;
	unsigned int nr_tenants, nr_keys;
	vpmu_key_t keys[TENANTS_MAX_KEYS];
	struct vpmu_backend_node **node; /* of each tenant */
	struct vpmu_counting **counting; /* of each tenant, then of `other`, then of the root */
	struct vpmu_value *values;	 /* tenants_value */
};

/* tenants_open - the backend with @nr_tenants tenants; @events ends with NULL. Nothing counts.
 * tenants_open_as - with options. */
void tenants_open(struct tenants *p, unsigned int nr_tenants, const char *const events[]);
void tenants_open_as(struct tenants *p, unsigned int nr_tenants, const char *const events[],
		     const struct bpf_backend_opts *opts);
void tenants_close(struct tenants *p);

/* tenants_attach - count the first @nr keys for all tenants, and with @all for `other` and the
 * root, too. tenants_detach - and fill in the last values. */
void tenants_attach(struct tenants *p, unsigned int nr, bool all);
void tenants_detach(struct tenants *p);

/* The value of key @key of tenant @tenant; tenant nr_tenants is `other`, and nr_tenants + 1 the
 * root. */
static inline const struct vpmu_value *tenants_value(const struct tenants *p, unsigned int tenant,
						     unsigned int key)
{
	return &p->values[tenant * TENANTS_MAX_KEYS + key];
}

/* tenants_conserved - the counts of the events of @cpus CPUs equal the charges of all accounts
 * charged. tenants_root_is_all - after tenants_detach: the root has the sum of the tenants and all
 * others have. */
void tenants_conserved(const struct tenants *p, unsigned int cpus);
void tenants_root_is_all(const struct tenants *p);

#endif
