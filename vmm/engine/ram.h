/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Guest RAM: which guest-physical addresses are RAM, and where the host has them.
 *
 * All of a VM's guest-physical addresses are one range of host addresses: guest-physical X is at
 * host address base + X. The slots are RAM. Between slots nothing is mapped on the host, so a
 * missing check crashes the VMM instead of leaking its memory. vmm/vm/ram.c makes it; boot
 * protocols, engines and snapshots use it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VMM_RAM_ALIGN (2ULL << 20) /* slots begin and end at multiples of this */
#define VMM_RAM_MIN   (4ULL << 20) /* RAM of one VM */
#define VMM_RAM_MAX   (64ULL << 30)
#define VMM_RAM_SLOTS 4

struct vmm_ram {
	uint8_t *base;
	unsigned int nr; /* slots; 0: no RAM yet */
	/* Ascending; they do not overlap. The first begins at 0. */
	struct {
		uint64_t gpa, bytes;
	} slot[VMM_RAM_SLOTS];
};

/* vmm_ram_holds - returns true if all of the @bytes (not 0) at guest-physical @gpa are RAM, in one
 * slot. */
static inline bool vmm_ram_holds(const struct vmm_ram *r, uint64_t gpa, uint64_t bytes)
{
	for (unsigned int i = 0; i < r->nr; i++) {
		uint64_t offset = gpa - r->slot[i].gpa;

		if (offset < r->slot[i].bytes)
			return bytes <= r->slot[i].bytes - offset;
	}
	return false;
}

/* vmm_ram_end - the first address behind the last slot; 0 without RAM. */
static inline uint64_t vmm_ram_end(const struct vmm_ram *r)
{
	return r->nr ? r->slot[r->nr - 1].gpa + r->slot[r->nr - 1].bytes : 0;
}

/* vmm_ram_bytes - RAM in all slots. */
static inline uint64_t vmm_ram_bytes(const struct vmm_ram *r)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < r->nr; i++)
		bytes += r->slot[i].bytes;
	return bytes;
}

/* vmm_ram_valid - returns true if @r is as described above and does not reach beyond @max. */
static inline bool vmm_ram_valid(const struct vmm_ram *r, uint64_t max)
{
	uint64_t end = 0;

	if (!r->base || (uintptr_t)r->base % 4096 || !r->nr || r->nr > VMM_RAM_SLOTS ||
	    r->slot[0].gpa)
		return false;
	for (unsigned int i = 0; i < r->nr; i++) {
		if (r->slot[i].gpa % VMM_RAM_ALIGN || r->slot[i].bytes % VMM_RAM_ALIGN ||
		    !r->slot[i].bytes || r->slot[i].gpa < end || r->slot[i].gpa > max ||
		    r->slot[i].bytes > max - r->slot[i].gpa)
			return false;
		end = r->slot[i].gpa + r->slot[i].bytes;
	}
	return true;
}
