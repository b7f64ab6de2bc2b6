/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The CPU a VM sees. Freestanding images see one small, deterministic CPUID table for both engines,
 * the same on every host: 64-bit mode and general registers, no FPU or SSE; a local APIC where the
 * engine has one; and the PMU of the VM's register model. Stock kernels see a whole CPU.
 */
#pragma once

#include <linux/kvm.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/guest.h"

#define VMM_CPUID_MAX 48

/*
 * vmm_cpuid - fill e[] (VMM_CPUID_MAX entries) with the leaves that vCPU @vcpu sees, and return
 * their number. @guest: its register model, initialised. @lapic: there is a local APIC with x2APIC
 * mode. Leaves that are not in the table read as 0. Pure.
 */
size_t vmm_cpuid(const struct vpmu_guest *guest, unsigned int vcpu, bool lapic,
		 struct kvm_cpuid_entry2 *e);

/* Properties of the engine of a VM with a stock kernel. */
struct vmm_cpuid_host {
	/* KVM_GET_SUPPORTED_CPUID; NULL: all features in cpuid_linux.c are supported. */
	const struct kvm_cpuid_entry2 *supported;
	size_t nr_supported;
	uint32_t tsc_khz;  /* of the guest's TSC; 0: not known, leaves 15H and 16H are absent */
	uint32_t simd;	   /* VMM_SIMD_* that an engine without a table has */
	bool svm;	   /* show SVM to AMD's models */
	uint32_t timer_hz; /* input clock of the local APIC's timer */
};

/*
 * vmm_cpuid_linux - as vmm_cpuid, for vCPU @vcpu of @nr_vcpus (1..255) in a VM that boots a stock
 * kernel and has interrupt controllers. Pure.
 */
size_t vmm_cpuid_linux(const struct vpmu_guest *guest, unsigned int vcpu, unsigned int nr_vcpus,
		       const struct vmm_cpuid_host *host, struct kvm_cpuid_entry2 *e);

/* ---- shared by cpuid.c and cpuid_linux.c ---- */

struct cpuid_identity {
	const char *vendor; /* the caller stores it in EBX, EDX, ECX */
	uint32_t signature; /* 1H EAX */
	uint32_t max_basic; /* of the small table */
};

/* cpuid_identity - the vendor and the signature that a model shows: see cpuid.c. Never NULL. */
const struct cpuid_identity *cpuid_identity(enum vpmu_guest_model model);

/* cpuid_text - the four characters at @text + @offset as a register holds them. */
uint32_t cpuid_text(const char *text, size_t offset);

extern const char cpuid_brand[48];

/* 80000008H EAX: 39 bits of physical address, which every KVM host has, and 48 of linear address.
 */
#define CPUID_ADDRESS_BITS (39 | 48 << 8)
