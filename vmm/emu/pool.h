/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of the emulator's vCPUs, close together. Each of a thousand vCPUs that take turns
 * needs a dozen pages of its own as soon as it runs. In small pages the host's TLB does not hold
 * them. Here objects of one size share regions of 2 MiB, which are huge pages where the host gives
 * them.
 *
 * The first region of a size is of small pages: a few vCPUs gain nothing, and would take 2 MiB for
 * each size. All functions: any thread.
 */
#ifndef VMM_EMU_POOL_H
#define VMM_EMU_POOL_H

#include <stddef.h>

#define EMU_POOL_MAX (256u << 10) /* bytes of an object, at most */

/* emu_pool_get - @bytes of zeroes at a multiple of 64; NULL: no memory, or @bytes is 0 or above
 * EMU_POOL_MAX. emu_pool_put - give @p back, which was got with the same @bytes; NULL is fine. */
void *emu_pool_get(size_t bytes);
void emu_pool_put(void *p, size_t bytes);

#endif
