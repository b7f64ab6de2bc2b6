/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Guest ABI of vpmu-vmm: paravirtual CPUID leaves and MSRs, boot protocol, ports. The VMM, the
 * register models and freestanding guest code include this file, so it must contain only constants
 * and plain structs and must include nothing.
 */
#pragma once

/* ---- paravirtual leaves: how good is a count? ----------------------------------------------
 * CPUID 40000000H: EAX = highest leaf, EBX ECX EDX = "vpmuvpmuvpmu".
 * CPUID 40000001H: EAX = ABI version, EBX = feature bits below.
 * In VMs with a stock kernel KVM's leaves are there, and these two begin at 40000100H. */
#define VPMU_PV_CPUID_BASE   0x40000000u
#define VPMU_PV_CPUID_BESIDE 0x40000100u
#define VPMU_PV_SIG_EBX	     0x756d7076u /* "vpmu" little endian, the same in ECX and EDX */
#define VPMU_PV_VERSION	     1u
#define VPMU_PV_FEAT_TIMES   (1u << 0) /* the MSRs below exist */
#define VPMU_PV_FEAT_RDPMC   (1u << 1) /* RDPMC works (it is #GP on the KVM engine) */

/*
 * Three read-only MSRs for each counter i, 0..15 for GP counters and 16..19 for fixed ones:
 *   BASE + 4*i + 0  enabled: ns that the vCPU ran with the counter enabled since the last write of
 *                   the counter
 *   BASE + 4*i + 1  running: the part of these ns during which a host counter counted for it
 *   BASE + 4*i + 2  quality: VPMU_PV_Q_*, or VPMU_PV_UNSUPPORTED
 * If running < enabled, the count is partial and value * enabled / running is an estimate. If the
 * host cannot count the event, the MSRs read as 0, 0 and VPMU_PV_UNSUPPORTED.
 */
#define VPMU_PV_MSR_BASE    0x56504d00u
#define VPMU_PV_MSR_COUNT   80u
#define VPMU_PV_FIXED	    16u
#define VPMU_PV_UNSUPPORTED 0xffu
#define VPMU_PV_Q_EXACT	    0u /* events counted one by one */
#define VPMU_PV_Q_MODELLED  1u /* from the emulator's cost table: docs/internals/emulator.md */
#define VPMU_PV_Q_ESTIMATED 2u /* derived, such as cycles from the nominal clock */
#define VPMU_PV_Q_TSC	    3u /* time stamp counter between entering and leaving the guest */

/* ---- boot protocol of freestanding images ---------------------------------------------------
 * The image is a static ELF64 executable, linked at VPMU_BOOT_IMAGE or above and identity-mapped.
 * Every vCPU starts at the entry point:
 *   64-bit mode, CPL0, interrupts off, empty IDT, no stack
 *   flat CS = 08h (64-bit code), SS and DS = 10h
 *   CR3 = the loader's page tables, which map all guest RAM 1:1 (2 MiB pages, writable, supervisor)
 *   RDI = the vCPU's number, RSI = address of struct vpmu_boot_info */
#define VPMU_BOOT_INFO	     0x7000u  /* struct vpmu_boot_info */
#define VPMU_BOOT_GDT	     0x6000u  /* loader's GDT */
#define VPMU_BOOT_ARGS	     0x8000u  /* guest arguments, NUL-terminated, at most 4095 bytes */
#define VPMU_BOOT_PAGETABLES 0x10000u /* loader's page tables, up to 0x80000 */
#define VPMU_BOOT_IMAGE	     0x200000u
#define VPMU_BOOT_MAGIC	     0x756d7076746f6f62ull /* "bootvpmu" */
#define VPMU_BOOT_ARGS_MAX   4095u

struct vpmu_boot_info {
	unsigned long long magic;
	unsigned long long mem_bytes; /* guest RAM that begins at 0: all of it up to 3 GiB */
	unsigned long long args;      /* VPMU_BOOT_ARGS */
	unsigned int nr_vcpus;
	unsigned int version;	       /* 2; version 1 ended here */
	unsigned long long high_base;  /* more guest RAM: at 4 GiB, or 0 */
	unsigned long long high_bytes; /* 0: there is none */
};

/* ---- ports ---------------------------------------------------------------------------------
 * COM1 is a 16550-compatible transmitter: write a byte to THR; LSR always reads as ready. The VMM
 * has a line buffer for each vCPU, so lines of several vCPUs do not mix.
 * EXIT: a 32-bit write ends this vCPU with the written status. The VM ends when all of its vCPUs
 * have ended. */
#define VPMU_PORT_COM1	   0x3f8
#define VPMU_PORT_COM1_LSR 0x3fd
#define VPMU_PORT_EXIT	   0xf4
