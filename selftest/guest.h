/* SPDX-License-Identifier: GPL-2.0-or-later */
/* VMs of the self-test, which workers run: without an operating system, with known code. */
#ifndef SELFTEST_GUEST_H
#define SELFTEST_GUEST_H

#include <stdint.h>

/* What a guest with libvpmu's PMU has seen; in memory that a worker shares. */
struct guest_seen {
	uint64_t pmis;	     /* taken by the guest */
	uint64_t raised;     /* by libvpmu */
	uint64_t msr, rdpmc; /* a stopped counter, by RDMSR and by RDPMC; low 32 bits */
	char why[200];
};

#define GUEST_PMIS 3

/* guest_loop - a guest with a loop of @n rounds, 2 instructions each, and at most 10 around it.
 * Returns 0 or -errno. */
int guest_loop(uint64_t n);
/* guest_pmu - a guest that counts for itself. -EOPNOTSUPP: not on this host, with a reason. */
int guest_pmu(struct guest_seen *seen);

#endif
