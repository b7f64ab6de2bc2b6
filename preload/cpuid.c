// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CPUID on its ways to and from KVM.
 *
 * What KVM supports: leaf 0AH is shown with as many counters as QEMU has words for, because it
 * saves and sets the words of those only (words.h). For AMD's models PERFCTR_CORE is shown as well,
 * and PerfMonV2, also for a model without it, because QEMU 11.1 saves only with it what it has
 * words for. PERFCTR_NB is a mark: no KVM has it, so QEMU with perfctr-nb=on,enforce does not start
 * without the library. No model has it, so no guest gets it.
 *
 * What the guest gets: the model's PMU. A VMM that gives the guest no leaf 0AH would not carry its
 * PMU, and a CPU of the other vendor could not use it: such a VM is refused, and gets back what KVM
 * had in these two places.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "preload/sys.h"
#include "preload/vm.h"
#include "preload/words.h"

#define ARCH_PMU	  0xau
#define EXTENDED_MAX	  0x80000000u
#define EXTENDED_FEATURES 0x80000001u
#define PERFMON_V2	  0x80000022u
#define PERFCTR_CORE	  (1u << 23)
#define PERFCTR_NB	  (1u << 24)
/* An absurd number of leaves: what KVM does with it is KVM's affair. */
#define CPUID_MAX 256u

static const struct kvm_cpuid_entry2 *cpuid_find(const struct kvm_cpuid2 *c, uint32_t leaf)
{
	for (uint32_t i = 0; i < c->nent; i++)
		if (c->entries[i].function == leaf)
			return &c->entries[i];
	return NULL;
}

int cpuid_supported(struct kvm_cpuid2 *c, uint32_t room)
{
	bool shown = atomic_load(&process.shown), amd = !words_is_intel(process.guest.model);

	if (!cpuid_find(c, ARCH_PMU))
		return 0; /* no room was made for it: cpuid_set refuses */
	if (amd && !cpuid_find(c, PERFMON_V2)) {
		if (c->nent >= room)
			return -E2BIG;
		c->entries[c->nent++] = (struct kvm_cpuid_entry2){.function = PERFMON_V2};
	}
	for (uint32_t i = 0; i < c->nent; i++) {
		struct kvm_cpuid_entry2 *e = &c->entries[i];

		if (e->function == ARCH_PMU) {
			if (!shown)
				memcpy(process.real_0a,
				       (uint32_t[]){e->eax, e->ebx, e->ecx, e->edx},
				       sizeof(process.real_0a));
			/* version 2, counters of 48 bits, all events available */
			e->eax = 2 | WORDS_GP << 8 | 48 << 16;
			e->ebx = e->ecx = 0;
			e->edx = WORDS_FIXED | 48 << 5;
		} else if (e->function == EXTENDED_FEATURES) {
			if (!shown)
				process.real_core = e->ecx & PERFCTR_CORE;
			e->ecx |= PERFCTR_NB | (amd ? PERFCTR_CORE : 0);
		} else if (e->function == EXTENDED_MAX && amd) {
			if (!shown)
				process.real_max = e->eax;
			if (e->eax < PERFMON_V2)
				e->eax = PERFMON_V2;
		} else if (e->function == PERFMON_V2 && amd) {
			if (!shown)
				memcpy(process.real_22, (uint32_t[]){e->eax, e->ebx},
				       sizeof(process.real_22));
			e->eax |= 1;
			e->ebx = (e->ebx & ~0xfu) | WORDS_AMD_GP;
		}
	}
	atomic_store(&process.shown, true);
	return 0;
}

/* The reason to refuse, or NULL. */
static const char *cpuid_unfit(const struct kvm_cpuid2 *c)
{
	const struct kvm_cpuid_entry2 *vendor = cpuid_find(c, 0), *pmu = cpuid_find(c, ARCH_PMU);
	const char *unfit =
		words_unfit(process.guest.model, vendor ? (const char *)&vendor->ebx : "none");

	if (unfit)
		return unfit;
	if (!atomic_load(&process.shown) || !pmu || (pmu->eax & 0xff) < 2)
		return "its CPU has no PMU; expected -cpu host, max, or a model with pmu=on";
	return NULL;
}

/* Of a PMU that neither the library nor KVM has: as with QEMU's pmu=off. */
static void cpuid_clear(struct kvm_cpuid2 *c)
{
	for (uint32_t i = 0; i < c->nent; i++) {
		struct kvm_cpuid_entry2 *e = &c->entries[i];

		if (e->function == ARCH_PMU)
			e->eax = e->ebx = e->ecx = e->edx = 0;
		else if (e->function == EXTENDED_FEATURES)
			e->ecx &= ~PERFCTR_CORE;
		else if (e->function == PERFMON_V2)
			e->eax = e->ebx = 0;
	}
}

/* What the VMM would have passed without the library. */
static void cpuid_restore(struct kvm_cpuid2 *c)
{
	for (uint32_t i = 0; i < c->nent && atomic_load(&process.shown); i++) {
		struct kvm_cpuid_entry2 *e = &c->entries[i];

		if (e->function == ARCH_PMU && e->eax) {
			e->eax = process.real_0a[0];
			e->ebx = process.real_0a[1];
			e->ecx = process.real_0a[2];
			e->edx = process.real_0a[3];
		} else if (e->function == EXTENDED_FEATURES) {
			e->ecx &= ~(PERFCTR_NB | (process.real_core ? 0 : PERFCTR_CORE));
		} else if (e->function == EXTENDED_MAX && process.real_max &&
			   e->eax == PERFMON_V2 && process.real_max < PERFMON_V2) {
			e->eax = process.real_max;
		} else if (e->function == PERFMON_V2 && !words_is_intel(process.guest.model)) {
			e->eax &= process.real_22[0];
			e->ebx = e->ebx && e->eax ? process.real_22[1] & 0xf : 0;
		}
	}
}

int cpuid_set(struct vcpu *v, const struct kvm_cpuid2 *given)
{
	size_t n = given->nent, room = n + VPMU_KVM_CPUID_MORE;
	const struct kvm_cpuid_entry2 *features;
	struct kvm_cpuid2 *c;
	const char *unfit;
	int rc = 0;

	if (n > CPUID_MAX)
		return sys_ioctl(vcpu_fd(v), KVM_SET_CPUID2, (void *)given);
	features = cpuid_find(given, EXTENDED_FEATURES);
	v->guard = features && features->ecx & PERFCTR_NB;
	c = calloc(1, sizeof(*c) + room * sizeof(c->entries[0]));
	if (!c)
		return -ENOMEM;
	memcpy(c, given, sizeof(*c) + n * sizeof(c->entries[0]));
	pthread_mutex_lock(&v->vm->lock);
	unfit = v->vm->state == PRE_ON ? cpuid_unfit(c) : NULL;
	if (unfit)
		vm_refuse(v->vm, unfit);
	if (v->vm->state == PRE_ON)
		rc = vpmu_kvm_vcpu_cpuid(v->kvm, c->entries, &n, room);
	else
		cpuid_restore(c);
	if (v->vm->state != PRE_ON && v->vm->opened)
		cpuid_clear(c);
	pthread_mutex_unlock(&v->vm->lock);
	c->nent = (uint32_t)n;
	if (!rc)
		rc = sys_ioctl(vcpu_fd(v), KVM_SET_CPUID2, c);
	free(c);
	return rc;
}

void cpuid_set_old(struct vcpu *v)
{
	pthread_mutex_lock(&v->vm->lock);
	if (v->vm->state == PRE_ON)
		vm_refuse(v->vm, "its CPUID is set by KVM_SET_CPUID; expected KVM_SET_CPUID2");
	pthread_mutex_unlock(&v->vm->lock);
}
