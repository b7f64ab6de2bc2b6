/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CPU vendors in the tests of the soft machine: which one made the host's CPU, and how a soft
 * machine is told to be one of theirs.
 */
#ifndef TESTS_SOFT_VENDOR_H
#define TESTS_SOFT_VENDOR_H

#include <linux/kvm.h>
#include <stdbool.h>

enum vendor { VENDOR_AMD, VENDOR_INTEL, NR_VENDORS };

struct vendor_host {
	enum vendor vendor; /* AMD also stands for makers that are neither */
	bool listed;	    /* a CPU whose results the table of differences was checked against */
	char text[64];	    /* vendor, family and model */
};

static inline enum vendor vendor_other(enum vendor v)
{
	return v == VENDOR_AMD ? VENDOR_INTEL : VENDOR_AMD;
}

const char *vendor_name(enum vendor v);

/* vendor_of_host - what CPUID says about the CPU this runs on. */
void vendor_of_host(struct vendor_host *h);

/* vendor_leaf0 - CPUID leaf 0 of @v: the vCPU it is set for behaves like that vendor's CPUs. */
void vendor_leaf0(enum vendor v, struct kvm_cpuid_entry2 *e);

#endif
