/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stubs for the operations that an engine does not support (their flag is not in
 * vmm_engine_ops.can), so that no operation is NULL. Each does nothing and returns -EOPNOTSUPP.
 */
#pragma once

#include <errno.h>

#include "vmm/engine/engine.h"

#define VMM_REFUSE(name, ...)                                                                      \
	static inline int name(__VA_ARGS__)                                                        \
	{                                                                                          \
		return -EOPNOTSUPP;                                                                \
	}
VMM_REFUSE(vmm_no_pmi, struct vmm_engine_vcpu *v)
VMM_REFUSE(vmm_no_irqchip, struct vmm_engine_vm *vm)
VMM_REFUSE(vmm_no_irq_line, struct vmm_engine_vm *vm, unsigned int gsi, bool level)
VMM_REFUSE(vmm_no_rdpmc_sites, struct vmm_engine_vm *vm, const uint64_t *rip, size_t n)
VMM_REFUSE(vmm_no_waker, struct vmm_engine_vm *vm, const struct vmm_waker *w)
VMM_REFUSE(vmm_no_expire, struct vmm_engine_vm *vm, uint64_t *next)
VMM_REFUSE(vmm_no_retire, struct vmm_engine_vcpu *v, uint64_t *next)
VMM_REFUSE(vmm_no_get_vm_state, struct vmm_engine_vm *vm, void *buf, size_t *bytes)
VMM_REFUSE(vmm_no_set_vm_state, struct vmm_engine_vm *vm, const void *buf, size_t bytes)
VMM_REFUSE(vmm_no_tally, struct vmm_engine_vcpu *v, struct vpmu_emu_tally *t)
VMM_REFUSE(vmm_no_get_state, struct vmm_engine_vcpu *v, void *buf, size_t *bytes)
VMM_REFUSE(vmm_no_set_state, struct vmm_engine_vcpu *v, const void *buf, size_t bytes)
VMM_REFUSE(vmm_no_guest_tsc, struct vmm_engine_vcpu *v, uint64_t *ticks)
#undef VMM_REFUSE

static inline void vmm_no_warm(const struct vmm_engine_vcpu *v, bool next)
{
}

static inline void vmm_any_cpuid(const struct vmm_engine *e, const struct kvm_cpuid_entry2 **table,
				 size_t *n)
{
	*table = NULL;
	*n = 0;
}
