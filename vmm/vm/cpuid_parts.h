/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the two CPUID tables (cpuid.c, cpuid_linux.c). */
#ifndef VMM_VM_CPUID_PARTS_H
#define VMM_VM_CPUID_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/guest.h"

struct cpuid_identity {
	const char *vendor; /* the caller stores it in EBX, EDX, ECX */
	uint32_t signature; /* 1H EAX */
	uint32_t max_basic; /* of the small table */
};

/* cpuid_identity - the vendor and the signature that a model shows: see cpuid.c. Never NULL. */
const struct cpuid_identity *cpuid_identity(enum vpmu_guest_model model);

/* cpuid_text - the four characters at @text + @offset as a register holds them. */
uint32_t cpuid_text(const char *text, size_t offset);

extern const char cpuid_brand[48];

/* 80000008H EAX: 39 bits of physical address, which every KVM host has, and 48 of linear address.
 */
#define CPUID_ADDRESS_BITS (39 | 48 << 8)

#endif
