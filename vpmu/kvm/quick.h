/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * For preload, not public. The most frequent exit is one at which the PMU has nothing to do: a VMM
 * that counts nothing must not pay for it.
 */
#pragma once

#include <linux/kvm.h>
#include <stdbool.h>

#include "vpmu/kvm/port.h"

/* kvm_quick_enter - in place of vpmu_kvm_enter: true if nothing is counted and nothing is due, so
 * that KVM_RUN may follow. false: nothing was done. errno stays. vCPU. */
bool kvm_quick_enter(struct vpmu_kvm_vcpu *v);

/* kvm_bound_elsewhere - a thread other than the calling one is bound to @v. Any thread. */
bool kvm_bound_elsewhere(struct vpmu_kvm_vcpu *v);

/* kvm_quick_leave - after that, in place of vpmu_kvm_leave: true if KVM_RUN, which returned @rc, is
 * the VMM's. false: vpmu_kvm_leave must follow. vCPU. */
static inline bool kvm_quick_leave(const struct kvm_run *kr, int rc)
{
	if (rc)
		return false;
	if (kr->exit_reason == KVM_EXIT_IO)
		return kr->io.port != KVM_PORT_RDPMC;
	return kr->exit_reason != KVM_EXIT_X86_RDMSR && kr->exit_reason != KVM_EXIT_X86_WRMSR;
}
