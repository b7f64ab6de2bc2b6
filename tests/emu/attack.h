/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guests that make each of their instructions as expensive as they can for the host, and a plain
 * guest beside them. Each runs without end in a VM of its own. The unit tests of effort and the
 * benchmark fair_worst run them. This needs no test framework.
 */
#ifndef TESTS_EMU_ATTACK_H
#define TESTS_EMU_ATTACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/engine/engine.h"

#define ATTACK_RAM  (16ULL << 20) /* bytes of RAM that a guest needs, at address 0 */
#define ATTACK_CODE 0x200000ULL	  /* where its code is */

struct attack {
	const char *name;
	const uint8_t *code, *end; /* runs at ATTACK_CODE in CPL 0 */
	/* The least extra effort (vmm_run.effort beyond instructions) of 100 instructions in the
	 * interpreter: without it they would take more host time than their charge. */
	unsigned int effort;
	/* Its cost is misses of the host's caches, which no table of instructions has. */
	bool memory;
	unsigned int special; /* what attack_load() prepares; private */
};

/* attacks[0] is the plain guest. */
extern const struct attack attacks[];
extern const size_t nr_attacks;

/* attack_load - write the guest @a into @ram (ATTACK_RAM zeroed bytes, guest-physical 0) and set
 * the registers of @v, a new vCPU of @ops. 0 or -errno. */
int attack_load(const struct attack *a, const struct vmm_engine_ops *ops, struct vmm_engine_vcpu *v,
		uint8_t *ram);

/* ---- attack_chip.c: guests that attack by interrupts ---- */

/* Its VM has the hardware of stock kernels (boot_linux). */
struct chip_attack {
	struct attack attack; /* .effort and .memory mean nothing here */
	unsigned int vcpus;   /* all run the same code */
	bool xapic;	      /* the local APICs are in xAPIC mode, others in x2APIC mode */
};

/* chip_attacks[0] is a plain guest. */
extern const struct chip_attack chip_attacks[];
extern const size_t nr_chip_attacks;

/* chip_attack_load - attack_load() for vCPU @i of the guest @c. All vCPUs are loaded before the
 * first one runs. */
int chip_attack_load(const struct chip_attack *c, const struct vmm_engine_ops *ops,
		     struct vmm_engine_vcpu *v, unsigned int i, uint8_t *ram);

#endif
