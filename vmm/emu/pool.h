/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory of the emulator's vCPUs, packed. Each of a thousand multiplexed vCPUs touches a dozen
 * pages of its own as soon as it runs; in small pages these overflow the host's TLB. Objects of one
 * size share regions of 2 MiB, which are huge pages if the host provides them.
 *
 * The first region of a size has small pages: a few vCPUs gain nothing and would take 2 MiB for
 * each size. All functions: any thread.
 */
#pragma once

#include <stddef.h>

#define EMU_POOL_MAX (256u << 10) /* largest object, in bytes */

/* emu_pool_get - return @bytes (1..EMU_POOL_MAX) of zeroes at a multiple of 64, or NULL.
 * emu_pool_put - free @p, which was allocated with the same @bytes. NULL is fine. */
void *emu_pool_get(size_t bytes);
void emu_pool_put(void *p, size_t bytes);
