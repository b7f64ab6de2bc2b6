// SPDX-License-Identifier: GPL-2.0-or-later
/* One mapping for all guest-physical addresses of a VM; only its slots can be accessed. See ram.h.
 */
#include <errno.h>
#include <sys/mman.h>

#include "vmm/vm/ram.h"

#define GIB	 (1ULL << 30)
#define LOW_MAX	 (3 * GIB)
#define HIGH_GPA (4 * GIB)

void vm_ram_layout(uint64_t bytes, struct vmm_ram *r)
{
	*r = (struct vmm_ram){.nr = 1, .slot[0].bytes = bytes};
	if (bytes <= LOW_MAX)
		return;
	r->nr = 2;
	r->slot[0].bytes = LOW_MAX;
	r->slot[1].gpa = HIGH_GPA;
	r->slot[1].bytes = bytes - LOW_MAX;
}

int vm_ram_map(struct vmm_ram *r, bool huge)
{
	size_t span = vmm_ram_end(r);
	uint8_t *base =
		mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int ret;

	if (base == MAP_FAILED)
		return -errno;
	for (unsigned int i = 0; i < r->nr; i++)
		if (mprotect(base + r->slot[i].gpa, r->slot[i].bytes, PROT_READ | PROT_WRITE)) {
			ret = -errno;
			munmap(base, span);
			return ret;
		}
	/* With huge pages each of a thousand small guests would use whole 2 MiB pages for its boot
	 * area and image. A failure is harmless. */
	if (!huge)
		madvise(base, span, MADV_NOHUGEPAGE);
	r->base = base;
	return 0;
}

void vm_ram_unmap(struct vmm_ram *r)
{
	if (r->base)
		munmap(r->base, vmm_ram_end(r));
	r->base = NULL;
}
