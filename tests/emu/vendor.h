/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * CPU vendors in the tests of the emulator: which one made the host's CPU, how an emulator
 * is configured as one of theirs, and the table of everything in which Intel's and AMD's CPUs are
 * known to differ, as far as the emulator executes it.
 */
#ifndef TESTS_EMU_VENDOR_H
#define TESTS_EMU_VENDOR_H

#include <linux/kvm.h>

#include "tests/emu/dt.h"

enum vendor { VENDOR_AMD, VENDOR_INTEL, NR_VENDORS };

struct vendor_host {
	enum vendor vendor; /* AMD also stands for makers that are neither */
	bool listed;	    /* a CPU that all of difftest agreed with the emulator on */
	char text[64];	    /* vendor, family and model */
};

static inline enum vendor vendor_other(enum vendor v)
{
	return v == VENDOR_AMD ? VENDOR_INTEL : VENDOR_AMD;
}

const char *vendor_name(enum vendor v);

/* vendor_of_host - the vendor of this CPU by CPUID. */
void vendor_of_host(struct vendor_host *h);

/* vendor_leaf0 - CPUID leaf 0 of @v: the vCPU it is set for behaves like that vendor's CPUs. It is
 * the last basic leaf as well. */
void vendor_leaf0(enum vendor v, struct kvm_cpuid_entry2 *e);

/* ---- the table ---- */

struct vendor_reg {
	uint8_t reg; /* enum dt_reg */
	uint64_t value;
};

#define VENDOR_REGS 4u

/* How the instructions of a row end. Everything that is not mentioned stays as it was. */
struct vendor_result {
	int vector; /* as in struct dt_result; DT_OTHER: the machine refuses the instruction */
	uint32_t error;
	uint64_t cr2;	 /* of vector 14 */
	uint64_t rflags; /* of a fault, without TF; 0: not looked at */
	uint64_t rip;	 /* of a fault: offset in the code, or an address beyond it */
	uint64_t below;	 /* if not 0: the 8 bytes below RSP hold the address at this offset */
	uint16_t cs;	 /* of a fault of .kernel */
	unsigned int nr;
	struct vendor_reg reg[VENDOR_REGS];
};

struct vendor_diff {
	const char *name;
	const char *what;		/* the difference in words */
	const char *source[NR_VENDORS]; /* where the expectation comes from */
	bool kernel;			/* runs in CPL 0, others in CPL 3 */
	uint8_t emu_only;		/* 1 << enum vendor: not run on that vendor's CPUs */
	bool pushes;			/* changes the stack: it is not compared */
	uint8_t len;
	uint8_t code[56];
	unsigned int nr;
	struct vendor_reg before[VENDOR_REGS]; /* others: vendor_case() */
	struct vendor_result result[NR_VENDORS];
};

extern const struct vendor_diff vendor_diffs[];
extern const unsigned int nr_vendor_diffs;

/* vendor_case - the inputs of @d, in the first slot. CPL 3: its code is followed by a jump to
 * DT_EXIT. */
void vendor_case(const struct vendor_diff *d, struct dt_case *c);

/* vendor_expect - true if @r, of a run of @c, is as in @d for @v; else the difference in @why.
 * @pool: what initial memory was taken from. */
bool vendor_expect(const struct vendor_diff *d, enum vendor v, const struct dt_case *c,
		   const uint8_t *pool, const struct dt_result *r, char *why, size_t why_len);

#endif
