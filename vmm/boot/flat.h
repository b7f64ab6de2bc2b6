/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the boot protocols: 64-bit mode with flat segments and one set of page tables. Only
 * vmm/boot includes this. SDM vol. 3, 2.5, 3.4.5 and 5.5 / APM vol. 2, 3.1, 4.8 and 5.3.
 */
#pragma once

#include <linux/kvm.h>
#include <stdint.h>

/* Page-table entry bits. */
#define PTE_P  (1ULL << 0)
#define PTE_W  (1ULL << 1)
#define PTE_PS (1ULL << 7)

#define CR0_PE	 (1ULL << 0)
#define CR0_MP	 (1ULL << 1)
#define CR0_ET	 (1ULL << 4)
#define CR0_NE	 (1ULL << 5)
#define CR0_WP	 (1ULL << 16)
#define CR0_PG	 (1ULL << 31)
#define CR4_PAE	 (1ULL << 5)
#define EFER_SCE (1ULL << 0)
#define EFER_LME (1ULL << 8)
#define EFER_LMA (1ULL << 10)
#define EFER_NXE (1ULL << 11)

/* Descriptors: 64-bit code; data; a busy 64-bit TSS with base 0 and limit 67H. */
#define DESC_CODE64 0x00af9b000000ffffULL
#define DESC_DATA   0x00cf93000000ffffULL
#define DESC_TSS64  0x00008b0000000067ULL

/* A GDT holds, from selector @code on, the three descriptors above and the second half of the last.
 */
#define FLAT_GDT_BYTES(code) ((code) + 4 * 8)

/*
 * flat_sregs - 64-bit mode in CPL 0: CS is selector @code of the GDT at @gdt, the other segments
 * are the data descriptor behind it, TR is the TSS behind that. No IDT. CR3 is @pages; in CR0, CR4
 * and EFER only the bits that paging needs are set; the protocol adds others. Pure.
 */
void flat_sregs(struct kvm_sregs *s, uint64_t gdt, uint16_t code, uint64_t pages);
