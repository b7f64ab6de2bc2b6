/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RDPMC instructions of a stock kernel. KVM cannot let user space answer RDPMC, so on KVM the
 * VMM replaces each by an instruction of the same length that exits, IN EAX,33H, before the kernel
 * starts (docs/guest-guide.md, "Stock kernels on KVM").
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vmm/boot/boot.h"

/* More than any known kernel has: about ten if it inlines the read. */
#define RDPMC_SITES_MAX 64

struct rdpmc_sites {
	size_t nr;
	size_t seen;		       /* private: candidates seen */
	uint64_t gpa[RDPMC_SITES_MAX]; /* guest-physical address */
	uint64_t rip[RDPMC_SITES_MAX]; /* address when executed */
};

/*
 * rdpmc_find - find all RDPMC instructions of unpacked kernel @img, which passed boot_linux.check.
 * Two things must be true of each: code decoded from different starts before it reaches it as an
 * instruction, and SHL RDX,32 follows, as in the kernel's native_read_pmc(). 0, also if there is
 * none. -ENOEXEC and one line in @err: only one of the two is true of some bytes in a code section
 * (ambiguous); the kernel copies one elsewhere (.altinstr_replacement); or too many. Takes some 10
 * ms. Pure.
 */
int rdpmc_find(const struct image *img, struct rdpmc_sites *out, char *err, size_t errlen);

/* rdpmc_rewrite - replace them in guest RAM, where @img was loaded. */
void rdpmc_rewrite(const struct vmm_ram *ram, const struct rdpmc_sites *s);
