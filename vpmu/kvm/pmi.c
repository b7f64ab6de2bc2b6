// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The PMI through the LVT performance entry of KVM's local APIC, since the guest does not have
 * KVM's own PMU.
 *
 * Nothing here may call KVM_SET_LAPIC. It replaces the whole register page: an IPI that another
 * vCPU sends at that moment and a due timer would be lost. So the mask bit that an Intel CPU sets
 * when it delivers a PMI is a shadow here, besides the guest's own mask bit. KVM does not report
 * writes of LVTPC. So the shadow is cleared by a write that the guest's handler must make before
 * another useful PMI: of IA32_PERF_GLOBAL_OVF_CTRL or IA32_PERF_GLOBAL_CTRL (SDM vol. 3, 20.2.4). A
 * guest that unmasks LVTPC without such a write gets no further PMI; one that writes them and
 * leaves LVTPC masked gets PMIs that a CPU would not deliver.
 */
#include <string.h>

#include "vpmu/kvm/port.h"

/* SDM vol. 3, 11.4.1: offset of the LVT performance entry; 11.5.1: its fields. */
#define APIC_LVTPC	 0x340
#define LVT_VECTOR(x)	 ((x)&0xffu)
#define LVT_MODE(x)	 ((x) >> 8 & 7u)
#define LVT_MASKED	 (1u << 16)
#define MODE_FIXED	 0u
#define MODE_NMI	 4u
#define VECTORS_RESERVED 16u
/* SDM vol. 3, 11.11.1: the address of a message to a local APIC; the ID is in bits 12-19. KVM takes
 * bits 8 and above of an x2APIC ID from the upper half (api.rst, KVM_CAP_X2APIC_API). */
#define MSI_ADDRESS 0xfee00000u

#define GLOBAL_CTRL	0x38f
#define GLOBAL_OVF_CTRL 0x390

static int pmi_lvtpc(struct kvm_port *p, uint32_t *value)
{
	struct kvm_lapic_state regs;
	int rc = p->vm->ioctl(p->fd, KVM_GET_LAPIC, &regs);

	if (!rc)
		memcpy(value, regs.regs + APIC_LVTPC, sizeof(*value));
	return rc;
}

static int pmi_fixed(struct kvm_port *p, uint32_t vector)
{
	struct kvm_msi msi = {.address_lo = MSI_ADDRESS | (p->id & 0xff) << 12,
			      .address_hi = p->id & ~0xffu,
			      .data = vector};
	int rc;

	if (vector < VECTORS_RESERVED)
		return 0; /* an illegal vector: the APIC only notes an error */
	rc = p->vm->ioctl(p->vm->fd, KVM_SIGNAL_MSI, &msi);
	/* 0: the guest has switched this APIC off; 1: delivered. */
	return rc < 0 ? rc : 0;
}

int kvm_port_pmi(struct kvm_port *p)
{
	uint32_t entry;
	int rc;

	if (p->pmi_masked)
		return 0;
	rc = pmi_lvtpc(p, &entry);
	if (rc || entry & LVT_MASKED)
		return rc;
	if (LVT_MODE(entry) == MODE_NMI)
		rc = p->vm->ioctl(p->fd, KVM_NMI, NULL);
	else if (LVT_MODE(entry) == MODE_FIXED)
		rc = pmi_fixed(p, LVT_VECTOR(entry));
	else
		return 0; /* other delivery modes are not supported: it is lost */
	p->pmi_masked = !rc && p->masks_pmi;
	return rc;
}

void kvm_port_wrote(struct kvm_port *p, uint32_t msr)
{
	if (msr == GLOBAL_CTRL || msr == GLOBAL_OVF_CTRL)
		p->pmi_masked = false;
}
