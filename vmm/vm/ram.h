/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The RAM of a VM: where it is in guest-physical memory, as on a PC, and its host memory. Used by
 * vm.c, and by snapshots, which know a VM's layout before it exists.
 */
#pragma once

#include "vmm/engine/ram.h"

/*
 * vm_ram_layout - the slots of a VM with @bytes of RAM (a multiple of VMM_RAM_ALIGN, VMM_RAM_MIN to
 * VMM_RAM_MAX); r->base is NULL. Up to 3 GiB of RAM begin at address 0. The rest begins at 4 GiB:
 * the last GiB below belongs to devices. Example: 5 GiB are 0..3 GiB and 4..6 GiB. Pure.
 */
void vm_ram_layout(uint64_t bytes, struct vmm_ram *r);

/* vm_ram_map - map host memory for the slots of *r: zeroed, and allocated by the host page by page
 * on first access. @huge: huge pages help (VMM_CAN_HUGE_PAGES). -errno: r->base is NULL. */
int vm_ram_map(struct vmm_ram *r, bool huge);
/* vm_ram_unmap - undo vm_ram_map; does nothing if it is not mapped. */
void vm_ram_unmap(struct vmm_ram *r);
