/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hardware of VMs that boot a stock kernel (key "kernel"): the addresses of its devices. The
 * ACPI tables (vmm/boot/acpi.c) describe it, devices (vmm/dev/) and interrupt controllers (the
 * engines) implement it. Freestanding images do not have this hardware.
 */
#pragma once

#define PLATFORM_VCPUS_MAX 16 /* vCPUs of such a VM; local APIC ID n is vCPU n */

/* Interrupt controllers (VMM_CAN_IRQCHIP), in guest-physical memory. */
#define PLATFORM_LAPIC	     0xfee00000u
#define PLATFORM_IOAPIC	     0xfec00000u
#define PLATFORM_IOAPIC_ID   0
#define PLATFORM_IOAPIC_PINS 24

/* I/O ports. The first serial port is where PCs have it: 8 ports. */
#define PLATFORM_COM1	  0x3f8
#define PLATFORM_COM1_GSI 4

/* ACPI sleep control and sleep status registers (ACPI 6.4, 4.8.3.7): one byte each. */
#define PLATFORM_SLEEP_CONTROL 0x600
#define PLATFORM_SLEEP_STATUS  0x601
#define PLATFORM_SLEEP_S5      5 /* SLP_TYP of soft off, in \_S5 */

/* The reset register of PCs' chipsets, which the FADT names: writing PLATFORM_RESET_VALUE resets
 * the VM. Kernels that do not use ACPI write FEH to the keyboard controller's command port. */
#define PLATFORM_RESET	     0xcf9
#define PLATFORM_RESET_VALUE 6
#define PLATFORM_KEYBOARD    0x64

/* PCI's configuration address and data, 4 ports each. */
#define PLATFORM_PCI_ADDRESS 0xcf8
#define PLATFORM_PCI_DATA    0xcfc

/* Only in VMs with a multiboot image: a write ends the VM, as with QEMU's isa-debug-exit (4 ports).
 * The VM's status is the value itself. */
#define PLATFORM_DEBUG_EXIT 0xf4
