/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Guests of the emulator that have no loader: flat segments, and code in the test. */
#ifndef TESTS_EMU_FLAT_H
#define TESTS_EMU_FLAT_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stdint.h>

/* flat_segment - 64-bit code, or data, of the privilege level in @sel. */
static inline struct kvm_segment flat_segment(uint16_t sel, bool code)
{
	return (struct kvm_segment){.limit = ~0u,
				    .selector = sel,
				    .type = code ? 0xb : 3,
				    .present = 1,
				    .dpl = sel & 3,
				    .db = !code,
				    .s = 1,
				    .l = code,
				    .g = 1};
}

/* FLAT_GUEST(name, "assembly") makes the code from name to name_end. */
#define FLAT_GUEST(name, ...)                                                                      \
	extern const uint8_t name[], name##_end[];                                                 \
	__asm__(".pushsection .rodata\n.balign 16\n.globl " #name "\n" #name ":\n" __VA_ARGS__     \
		"\n.globl " #name "_end\n" #name "_end:\n.popsection\n")

#endif
