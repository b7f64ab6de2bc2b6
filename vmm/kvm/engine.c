// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The KVM engine: /dev/kvm behind vmm/engine/engine.h. This file opens it and, if it cannot be
 * used, reports in one line what is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/engine/refuse.h"
#include "vmm/kvm/kvm_priv.h"
#include "vpmu/util/fail.h"

/* Kernel Documentation/virt/kvm/api.rst; the version is the first Linux that has it. */
static const struct {
	int cap;
	const char *name;
	const char *since;
} required_caps[] = {
	{KVM_CAP_USER_MEMORY, "KVM_CAP_USER_MEMORY", "2.6.26"},
	{KVM_CAP_SET_TSS_ADDR, "KVM_CAP_SET_TSS_ADDR", "2.6.26"},
	{KVM_CAP_EXT_CPUID, "KVM_CAP_EXT_CPUID", "2.6.26"},
	{KVM_CAP_USER_NMI, "KVM_CAP_USER_NMI", "2.6.29"},
	{KVM_CAP_VCPU_EVENTS, "KVM_CAP_VCPU_EVENTS", "2.6.33"},
	{KVM_CAP_IRQCHIP, "KVM_CAP_IRQCHIP", "2.6.20"},
	{KVM_CAP_MP_STATE, "KVM_CAP_MP_STATE", "2.6.25"},
	{KVM_CAP_SIGNAL_MSI, "KVM_CAP_SIGNAL_MSI", "3.5"},
	{KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT", "4.11"},
	{KVM_CAP_X86_USER_SPACE_MSR, "KVM_CAP_X86_USER_SPACE_MSR", "5.10"},
	{KVM_CAP_X86_MSR_FILTER, "KVM_CAP_X86_MSR_FILTER", "5.10"},
};

static const char *open_hint(int err)
{
	switch (err) {
	case ENOENT:
		return "; load the kvm module, or use the emulator engine";
	case EACCES:
	case EPERM:
		return "; this user may not (group kvm), or use the emulator engine";
	case ENXIO:
	case ENODEV:
		return "; the kvm module found no usable CPU virtualization, use the emulator "
		       "engine";
	default:
		return "";
	}
}

/* Check that the open device has all required capabilities. */
static int check_device(struct vmm_engine *e, const char *path, char *why, size_t why_len)
{
	int rc = kvm_ioctl(e->fd, KVM_GET_API_VERSION, 0);
	size_t i;

	if (rc < 0)
		return fail(rc == -ENOTTY ? -ENODEV : rc, why, why_len,
			    "%s: not a KVM device (KVM_GET_API_VERSION: %s)", path, strerror(-rc));
	if (rc != KVM_API_VERSION)
		return fail(-EPROTO, why, why_len, "%s: KVM API version %d; expected %d", path, rc,
			    KVM_API_VERSION);

	for (i = 0; i < sizeof(required_caps) / sizeof(required_caps[0]); i++) {
		rc = kvm_ioctl(e->fd, KVM_CHECK_EXTENSION,
			       (void *)(unsigned long)required_caps[i].cap);
		if (rc <= 0)
			return fail(-EOPNOTSUPP, why, why_len,
				    "%s: lacks %s; expected a KVM of Linux %s or later", path,
				    required_caps[i].name, required_caps[i].since);
	}

	rc = kvm_ioctl(e->fd, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (rc < (int)sizeof(struct kvm_run))
		return fail(rc < 0 ? rc : -EPROTO, why, why_len,
			    "%s: KVM_GET_VCPU_MMAP_SIZE is %d; expected at least %zu", path, rc,
			    sizeof(struct kvm_run));
	e->run_bytes = (size_t)rc;

	/* Only KVM_CREATE_VM shows if another hypervisor uses the CPUs. */
	rc = kvm_create_vm_fd(e);
	if (rc < 0)
		return fail(rc, why, why_len, "%s: KVM_CREATE_VM: %s%s", path, strerror(-rc),
			    rc == -EBUSY ? "; another hypervisor uses the CPU's virtualization"
					 : "");
	close(rc);
	return 0;
}

/* KVM_MAX_CPUID_ENTRIES of the kernel. */
#define CPUID_ENTRIES 256

static int read_cpuid(struct vmm_engine *e, const char *path, char *why, size_t why_len)
{
	int rc;

	e->cpuid = calloc(1, sizeof(*e->cpuid) + CPUID_ENTRIES * sizeof(e->cpuid->entries[0]));
	if (!e->cpuid)
		return fail(-ENOMEM, why, why_len, "%s: out of memory", path);
	e->cpuid->nent = CPUID_ENTRIES;
	rc = kvm_ioctl(e->fd, KVM_GET_SUPPORTED_CPUID, e->cpuid);
	return rc ? fail(rc, why, why_len, "%s: KVM_GET_SUPPORTED_CPUID: %s", path, strerror(-rc))
		  : 0;
}

static void engine_cpuid(const struct vmm_engine *e, const struct kvm_cpuid_entry2 **table,
			 size_t *n)
{
	*table = e->cpuid->entries;
	*n = e->cpuid->nent;
}

int vmm_kvm_open_path(const char *path, struct vmm_engine **out, char *why, size_t why_len)
{
	struct vmm_engine *e = calloc(1, sizeof(*e));
	int rc;

	if (!e)
		return fail(-ENOMEM, why, why_len, "%s: out of memory", path);
	e->fd = open(path, O_RDWR | O_CLOEXEC);
	if (e->fd < 0) {
		rc = fail(-errno, why, why_len, "%s: %s%s", path, strerror(errno),
			  open_hint(errno));
		goto err_free;
	}
	rc = check_device(e, path, why, why_len);
	if (!rc)
		rc = read_cpuid(e, path, why, why_len);
	if (rc)
		goto err_close;
	rc = kvm_signal_install(VMM_KVM_KICK_SIGNAL, kvm_on_kick, why, why_len);
	if (!rc)
		rc = kvm_alarm_install(VMM_ALARM_SIGNAL, why, why_len);
	if (rc)
		goto err_close;
	*out = e;
	return 0;

err_close:
	free(e->cpuid);
	close(e->fd);
err_free:
	free(e);
	return rc;
}

static int engine_open(struct vmm_engine **e, char *why, size_t why_len)
{
	return vmm_kvm_open_path("/dev/kvm", e, why, why_len);
}

static void engine_close(struct vmm_engine *e)
{
	if (!e)
		return;
	close(e->fd);
	free(e->cpuid);
	free(e);
}

const struct vmm_engine_ops vmm_kvm_ops = {
	.name = "kvm",
	.can = VMM_CAN_GUEST_TSC | VMM_CAN_HUGE_PAGES | VMM_CAN_IRQCHIP | VMM_CAN_PMI |
	       VMM_CAN_ALARM_SIGNAL | VMM_CAN_RDPMC_SITES | VMM_CAN_SAVE,
	.open = engine_open,
	.close = engine_close,
	.vm_create = kvm_vm_create,
	.vm_destroy = kvm_vm_destroy,
	.vm_trap_msrs = kvm_vm_trap_msrs,
	.irqchip_create = kvm_vm_irqchip_create,
	.irq_line = kvm_vm_irq_line,
	.rdpmc_sites = kvm_vm_rdpmc_sites,
	.set_waker = vmm_no_waker,
	.expire = vmm_no_expire,
	.retire = vmm_no_retire,
	.vcpu_create = kvm_vcpu_create,
	.vcpu_destroy = kvm_vcpu_destroy,
	.set_cpuid = kvm_vcpu_set_cpuid,
	.supported_cpuid = engine_cpuid,
	.get_regs = kvm_vcpu_get_regs,
	.set_regs = kvm_vcpu_set_regs,
	.get_sregs = kvm_vcpu_get_sregs,
	.set_sregs = kvm_vcpu_set_sregs,
	.run = kvm_vcpu_run,
	.warm = vmm_no_warm,
	.kick = kvm_vcpu_kick,
	.interrupt = kvm_vcpu_interrupt,
	.nmi = kvm_vcpu_nmi,
	.pmi = kvm_vcpu_pmi,
	.set_tally = vmm_no_tally,
	.get_state = kvm_vcpu_get_state,
	.set_state = kvm_vcpu_set_state,
	.get_vm_state = kvm_vm_get_state,
	.set_vm_state = kvm_vm_set_state,
	.guest_tsc = kvm_vcpu_guest_tsc,
};
