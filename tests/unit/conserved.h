/* SPDX-License-Identifier: GPL-2.0-or-later */
/* I1 for the tests of libvpmu: nothing was lost or invented on the way. */
#ifndef TESTS_UNIT_CONSERVED_H
#define TESTS_UNIT_CONSERVED_H

#include <criterion/criterion.h>

#include "vpmu/conservation.h"

struct conserved_rows {
	unsigned int n;
	bool bad;
	struct vpmu_conservation first_bad;
};

/* Under the library's lock, where no assertion may leave from. */
static inline int conserved_row(const struct vpmu_conservation *c, void *arg)
{
	struct conserved_rows *rows = arg;

	rows->n++;
	if (c->hardware != c->charged && !rows->bad) {
		rows->bad = true;
		rows->first_bad = *c;
	}
	return 0;
}

/* I1 of @host now; returns how many pCPU and key pairs there are. */
static inline unsigned int conserved(struct vpmu_host *host)
{
	struct conserved_rows rows = {0};

	cr_assert_eq(vpmu_host_conservation(host, conserved_row, &rows), 0);
	cr_assert(!rows.bad, "pCPU %u key %#lx: hardware %lu, charged %lu", rows.first_bad.pcpu,
		  rows.first_bad.key, rows.first_bad.hardware, rows.first_bad.charged);
	return rows.n;
}

#endif
