/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CPU a VM sees: one small, deterministic CPUID table for both engines, the same on every
 * host. It offers what the soft machine executes - 64-bit mode and general registers, no FPU or
 * SSE; a local APIC where the engine has one - and the PMU of the VM's register model.
 */
#ifndef VMM_VM_CPUID_H
#define VMM_VM_CPUID_H

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>

#include "vpmu/guest/guest.h"

#define VMM_CPUID_MAX 24

/*
 * vmm_cpuid - fill e[] (VMM_CPUID_MAX entries) with the leaves vCPU @vcpu sees and return how
 * many. @guest: its register model, initialised. @lapic: there is a local APIC with x2APIC mode.
 * Leaves that are not in the table read as 0. Pure.
 */
size_t vmm_cpuid(const struct vpmu_guest *guest, unsigned int vcpu, bool lapic,
		 struct kvm_cpuid_entry2 *e);

#endif
