/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Entries of page tables of four levels, which are also those of nested paging: AMD64 APM vol. 2,
 * 5.3 and 15.25; SDM vol. 3, 4.5. Only files that walk tables include it. */
#pragma once

#define PTE_P	 1ULL
#define PTE_W	 2ULL
#define PTE_U	 4ULL
#define PTE_A	 0x20ULL
#define PTE_D	 0x40ULL
#define PTE_PS	 0x80ULL
#define PTE_G	 0x100ULL
#define PTE_NX	 (1ULL << 63)
#define PTE_ADDR 0x000ffffffffff000ULL
