/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The smallest VM: one vCPU of a guest without an operating system, with code that is a loop of
 * known length. Every call ends the test on a failure.
 */
#ifndef TESTS_BEDS_BED_GUEST_H
#define TESTS_BEDS_BED_GUEST_H

#include <stdint.h>

/* Where the guest's code is, in guest addresses: these bytes and nothing else. LINES: where its
 * five instructions are in it. */
#define BED_GUEST_CODE 0x40000000ULL
#ifdef __aarch64__
#define BED_GUEST_CODE_BYTES 20
#define BED_GUEST_LINES                                                                            \
	{                                                                                          \
		0, 4, 8, 12, 16                                                                    \
	}
#else
#define BED_GUEST_CODE_BYTES 11
#define BED_GUEST_LINES                                                                            \
	{                                                                                          \
		0, 2, 5, 7, 9                                                                      \
	}
#endif

struct bed_guest {
	int kvm, vm, vcpu; /* files */
	void *ram;
	struct kvm_run *run;
	int run_bytes;
};

/* bed_guest_make - a VM with one vCPU, to be run by the calling thread only. Skips the test where
 * there is no KVM. */
void bed_guest_make(struct bed_guest *g);
void bed_guest_free(struct bed_guest *g);

/* bed_guest_start - let the guest begin a loop of 2 * @n instructions when it runs next; @n > 0.
 * One instruction more, which does not retire, ends it: a store to a device, or OUT. */
void bed_guest_start(struct bed_guest *g, uint64_t n);

/* bed_guest_run - run until the loop's end. Returns 0, or -EINTR: a signal came before that, and
 * the next call goes on. */
int bed_guest_run(struct bed_guest *g);

/* bed_guest_entries - instructions so far that entered the guest and that the CPU counts as the
 * guest's: AMD's VMRUN. */
uint64_t bed_guest_entries(const struct bed_guest *g);

#endif
