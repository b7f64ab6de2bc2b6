// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * get_state, set_state, get_vm_state and set_vm_state (vmm/engine/engine.h) of the KVM engine. The
 * kernel's structures are saved as they are: their layout is its ABI. The kind of VM decides which
 * of them are in a file; the MSRs are in a table.
 *
 * Loaded data are hostile. The kernel, which trusts no user of /dev/kvm, checks everything except
 * our own numbers; only MSRs of the table are written. The TSC and KVM's clock continue from their
 * saved values.
 *
 * Writes are ordered by dependency: the TSC before the local APIC with the timer that it drives,
 * the APIC before its deadline, and events after all writes that reset them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/kvm/kvm_priv.h"
#include "vpmu/core/blob_io.h"

#define TAG_OURS   0x55504356u /* "VCPU" */
#define TAG_XSAVE  0x45564153u /* "SAVE" */
#define TAG_XCR	   0x53524358u /* "XCRS" */
#define TAG_DEBUG  0x52474244u /* "DBGR" */
#define TAG_EVENTS 0x544e5645u /* "EVNT" */
#define TAG_LAPIC  0x4350414cu /* "LAPC" */
#define TAG_MSRS   0x5352534du /* "MSRS" */
#define TAG_CLOCK  0x4b434c43u /* "CLCK" */
#define TAG_CHIP   0x50494843u /* "CHIP" */
#define TAG_RDPMC  0x434d5052u /* "RPMC" */
#define FORMAT	   1

#define XSAVE_MAX (48u << 10)

/*
 * MSRs of a vCPU that are not in kvm_sregs: asm/msr-index.h, asm/kvm_para.h; without those of the
 * PMU, which is not KVM's. Ascending, except the last one, which needs the local APIC. A file has
 * only those that KVM supports.
 */
#define MSR_TSC_DEADLINE 0x6e0
static const uint32_t msrs[] = {
	0x10 /* TSC */, 0x11, 0x12 /* KVM's clock, old */, 0x3b /* TSC_ADJUST */,
	0x48 /* SPEC_CTRL */, 0x140 /* MISC_FEATURES_ENABLES */, 0x174, 0x175, 0x176 /* SYSENTER */,
	0x17a, 0x17b /* MCG */, 0x1a0 /* MISC_ENABLE */,
	/* MTRRs */
	0x200, 0x201, 0x202, 0x203, 0x204, 0x205, 0x206, 0x207, 0x208, 0x209, 0x20a, 0x20b, 0x20c,
	0x20d, 0x20e, 0x20f, 0x250, 0x258, 0x259, 0x268, 0x269, 0x26a, 0x26b, 0x26c, 0x26d, 0x26e,
	0x26f, 0x277 /* PAT */, 0x2ff, 0xda0 /* XSS */,
	/* KVM's */
	0x4b564d00, 0x4b564d01, 0x4b564d02, 0x4b564d03, 0x4b564d04, 0x4b564d05, 0x4b564d06,
	0xc0000081, 0xc0000082, 0xc0000083, 0xc0000084 /* SYSCALL */,
	0xc0000102 /* KERNEL_GS_BASE */, 0xc0000103 /* TSC_AUX */, 0xc0010015 /* HWCR */,
	0xc001011f /* VIRT_SPEC_CTRL */, 0xc0011029 /* DE_CFG */, MSR_TSC_DEADLINE};
#define NR_MSRS (sizeof(msrs) / sizeof(msrs[0]))

/* ---- parts ---- */

static void state_put(struct vpmu_blob *b, uint32_t tag, const void *p, size_t bytes)
{
	size_t section = vpmu_blob_begin(b, tag, FORMAT);

	vpmu_blob_bytes(b, p, bytes);
	vpmu_blob_end(b, section);
}

/* Read a part of @bytes. */
static bool state_take(struct vpmu_blob_reader *r, uint32_t tag, void *p, size_t bytes)
{
	struct vpmu_blob_reader in;

	if (!vpmu_blob_get_section(r, tag, FORMAT, &in))
		return false;
	vpmu_blob_get_bytes(&in, p, bytes);
	return vpmu_blob_done(&in);
}

static int save_ioctl(struct vpmu_blob *b, int fd, unsigned long get, uint32_t tag, void *p,
		      size_t bytes)
{
	int rc;

	memset(p, 0, bytes);
	rc = kvm_ioctl(fd, get, p);
	if (!rc)
		state_put(b, tag, p, bytes);
	return rc;
}

/* If the kernel rejects a part, the file is invalid. */
static int refused(int rc)
{
	return rc == -ENOMEM || !rc ? rc : -EINVAL;
}

/* ---- x87, SSE and later extensions ---- */

static size_t xsave_bytes(const struct vmm_engine_vcpu *v)
{
	int rc = kvm_ioctl(v->vm->fd, KVM_CHECK_EXTENSION, (void *)KVM_CAP_XSAVE2);

	return rc > (int)sizeof(struct kvm_xsave) && rc <= (int)XSAVE_MAX
		       ? (size_t)rc
		       : sizeof(struct kvm_xsave);
}

static int save_xsave(struct vmm_engine_vcpu *v, struct vpmu_blob *b)
{
	size_t bytes = xsave_bytes(v);
	struct kvm_xcrs xcrs;
	void *p = calloc(1, bytes);
	int rc;

	if (!p)
		return -ENOMEM;
	rc = save_ioctl(b, v->fd, bytes > sizeof(struct kvm_xsave) ? KVM_GET_XSAVE2 : KVM_GET_XSAVE,
			TAG_XSAVE, p, bytes);
	free(p);
	return rc ? rc : save_ioctl(b, v->fd, KVM_GET_XCRS, TAG_XCR, &xcrs, sizeof(xcrs));
}

static int load_xsave(struct vmm_engine_vcpu *v, struct vpmu_blob_reader *r)
{
	size_t bytes = xsave_bytes(v);
	struct kvm_xcrs xcrs;
	void *p = calloc(1, bytes);
	int rc = -EINVAL;

	if (!p)
		return -ENOMEM;
	if (state_take(r, TAG_XSAVE, p, bytes) && state_take(r, TAG_XCR, &xcrs, sizeof(xcrs))) {
		rc = kvm_ioctl(v->fd, KVM_SET_XCRS, &xcrs);
		if (!rc)
			rc = kvm_ioctl(v->fd, KVM_SET_XSAVE, p);
	}
	free(p);
	return refused(rc);
}

/* ---- MSRs ---- */

union one_msr {
	struct kvm_msrs m;
	uint8_t room[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
};

static bool get_msr(struct vmm_engine_vcpu *v, uint32_t index, uint64_t *val)
{
	union one_msr one = {.room = {0}};
	bool got;

	one.m.nmsrs = 1;
	one.m.entries[0].index = index;
	got = kvm_ioctl(v->fd, KVM_GET_MSRS, &one) == 1;
	*val = one.m.entries[0].data;
	return got;
}

int kvm_vcpu_set_msr(struct vmm_engine_vcpu *v, uint32_t index, uint64_t val)
{
	union one_msr one = {.room = {0}};

	one.m.nmsrs = 1;
	one.m.entries[0].index = index;
	one.m.entries[0].data = val;
	return kvm_ioctl(v->fd, KVM_SET_MSRS, &one) == 1 ? 0 : -EINVAL;
}

static void save_msrs(struct vmm_engine_vcpu *v, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG_MSRS, FORMAT);
	uint64_t val;

	for (size_t i = 0; i < NR_MSRS; i++) {
		if (!get_msr(v, msrs[i], &val))
			continue;
		vpmu_blob_u32(b, msrs[i]);
		vpmu_blob_u64(b, val);
	}
	vpmu_blob_end(b, section);
}

/* Each MSR may occur once, in the order of the table. @late: only those that need the local APIC,
 * else only the others. KVM rejects some MSRs for a CPU that does not have them, even with the
 * value that they read as: skip an MSR that has its value already, or does not exist and is 0. */
static int load_msrs(struct vmm_engine_vcpu *v, struct vpmu_blob_reader in, bool late)
{
	size_t next = 0;

	while (!vpmu_blob_done(&in)) {
		uint32_t index = vpmu_blob_get_u32(&in);
		uint64_t val = vpmu_blob_get_u64(&in), here = 0;

		while (next < NR_MSRS && msrs[next] != index)
			next++;
		if (in.failed || next++ == NR_MSRS)
			return -EINVAL;
		if ((index == MSR_TSC_DEADLINE) != late)
			continue;
		get_msr(v, index, &here);
		if (here != val && kvm_vcpu_set_msr(v, index, val))
			return -EINVAL;
	}
	return 0;
}

/* ---- a vCPU ---- */

/* What KVM does not hold. */
struct ours {
	uint32_t mp_state;
	bool irq_pending, nmi_queued, halted, pmi_masked;
	uint8_t irq_vector;
};

static void ours_io(struct blob_io *io, void *of)
{
	struct ours *o = of;

	IO(o->mp_state), IO_BOOL(o->irq_pending), IO(o->irq_vector), IO_BOOL(o->nmi_queued);
	IO_BOOL(o->halted), IO_BOOL(o->pmi_masked);
}

static void save_ours(const struct vmm_engine_vcpu *v, const struct kvm_mp_state *mp,
		      struct vpmu_blob *b)
{
	const struct ours o = {
		.mp_state = mp->mp_state,
		.irq_pending = v->irq_pending,
		.nmi_queued = v->nmi_queued,
		.halted = v->halted,
		.pmi_masked = v->port.pmi_masked,
		.irq_vector = v->irq_pending ? v->irq_vector : 0,
	};

	blob_save(b, TAG_OURS, FORMAT, ours_io, &o);
}

int kvm_vcpu_get_state(struct vmm_engine_vcpu *v, void *buf, size_t *bytes)
{
	struct vpmu_blob b = {0};
	struct kvm_mp_state mp;
	struct kvm_debugregs dr;
	struct kvm_vcpu_events ev;
	struct kvm_lapic_state lapic;
	int rc;

	/* run() has not completed the exit, or the guest is in a string instruction. */
	if (v->pending != KVM_PENDING_NONE)
		return -EBUSY;
	rc = kvm_ioctl(v->fd, KVM_GET_MP_STATE, &mp);
	if (!rc)
		save_ours(v, &mp, &b);
	if (!rc)
		rc = save_xsave(v, &b);
	if (!rc)
		save_msrs(v, &b);
	if (!rc && v->vm->irqchip)
		rc = save_ioctl(&b, v->fd, KVM_GET_LAPIC, TAG_LAPIC, &lapic, sizeof(lapic));
	if (!rc)
		rc = save_ioctl(&b, v->fd, KVM_GET_DEBUGREGS, TAG_DEBUG, &dr, sizeof(dr));
	if (!rc)
		rc = save_ioctl(&b, v->fd, KVM_GET_VCPU_EVENTS, TAG_EVENTS, &ev, sizeof(ev));
	return blob_out(&b, rc, buf, bytes);
}

int kvm_vcpu_set_state(struct vmm_engine_vcpu *v, const void *buf, size_t bytes)
{
	struct vpmu_blob_reader r = {.data = buf, .len = bytes}, in;
	struct kvm_mp_state mp = {0};
	struct ours ours;
	struct kvm_lapic_state lapic;
	struct kvm_debugregs dr;
	struct kvm_vcpu_events ev;
	int rc;

	/* With interrupt controllers, KVM holds pending events. */
	if (!blob_load(&r, TAG_OURS, FORMAT, ours_io, &ours) ||
	    (ours.irq_vector && !ours.irq_pending) ||
	    (v->vm->irqchip && (ours.irq_pending || ours.halted)) ||
	    (ours.pmi_masked && !(v->port.masks_pmi && v->vm->irqchip)))
		return -EINVAL;
	mp.mp_state = ours.mp_state;
	rc = load_xsave(v, &r);
	if (rc)
		return rc;
	if (!vpmu_blob_get_section(&r, TAG_MSRS, FORMAT, &in) || load_msrs(v, in, false))
		return -EINVAL;
	if (v->vm->irqchip && (!state_take(&r, TAG_LAPIC, &lapic, sizeof(lapic)) ||
			       kvm_ioctl(v->fd, KVM_SET_LAPIC, &lapic)))
		return -EINVAL;
	if (load_msrs(v, in, true) || !state_take(&r, TAG_DEBUG, &dr, sizeof(dr)) ||
	    kvm_ioctl(v->fd, KVM_SET_DEBUGREGS, &dr) ||
	    !state_take(&r, TAG_EVENTS, &ev, sizeof(ev)) || !vpmu_blob_done(&r) ||
	    kvm_ioctl(v->fd, KVM_SET_VCPU_EVENTS, &ev) || kvm_ioctl(v->fd, KVM_SET_MP_STATE, &mp))
		return -EINVAL;
	v->waits = v->vm->irqchip && mp.mp_state != KVM_MP_STATE_RUNNABLE &&
		   mp.mp_state != KVM_MP_STATE_HALTED;
	v->irq_pending = ours.irq_pending;
	v->irq_vector = ours.irq_vector;
	v->irq_ready = false;
	v->nmi_queued = ours.nmi_queued;
	v->halted = ours.halted;
	v->port.pmi_masked = ours.pmi_masked;
	return 0;
}

/* ---- a VM ---- */

static const uint32_t chips[] = {KVM_IRQCHIP_PIC_MASTER, KVM_IRQCHIP_PIC_SLAVE, KVM_IRQCHIP_IOAPIC};
#define NR_CHIPS (sizeof(chips) / sizeof(chips[0]))

int kvm_vm_get_state(struct vmm_engine_vm *vm, void *buf, size_t *bytes)
{
	struct vpmu_blob b = {0};
	struct kvm_clock_data clock = {0};
	size_t section, n;
	int rc;

	if (!vm->irqchip)
		return -ENXIO;
	rc = kvm_ioctl(vm->fd, KVM_GET_CLOCK, &clock);
	state_put(&b, TAG_CLOCK, &clock.clock, sizeof(clock.clock));
	for (size_t i = 0; i < NR_CHIPS && !rc; i++) {
		struct kvm_irqchip chip = {.chip_id = chips[i]};

		rc = kvm_ioctl(vm->fd, KVM_GET_IRQCHIP, &chip);
		state_put(&b, TAG_CHIP, &chip.chip, sizeof(chip.chip));
	}
	section = vpmu_blob_begin(&b, TAG_RDPMC, FORMAT);
	n = atomic_load_explicit(&vm->port.nr_sites, memory_order_relaxed);
	for (size_t i = 0; i < n; i++)
		vpmu_blob_u64(&b, vm->port.site[i]);
	vpmu_blob_end(&b, section);
	return blob_out(&b, rc, buf, bytes);
}

static int load_sites(struct vmm_engine_vm *vm, struct vpmu_blob_reader *in)
{
	size_t n = in->len / sizeof(uint64_t);
	uint64_t rip[VPMU_KVM_SITES];

	if (in->len % sizeof(uint64_t) || n > VPMU_KVM_SITES)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		rip[i] = vpmu_blob_get_u64(in);
	return kvm_vm_rdpmc_sites(vm, rip, n);
}

int kvm_vm_set_state(struct vmm_engine_vm *vm, const void *buf, size_t bytes)
{
	struct vpmu_blob_reader r = {.data = buf, .len = bytes}, in;
	struct kvm_irqchip chip[NR_CHIPS] = {0};
	struct kvm_clock_data clock = {0};
	int rc = 0;

	if (!vm->irqchip)
		return -ENXIO;
	if (!state_take(&r, TAG_CLOCK, &clock.clock, sizeof(clock.clock)))
		return -EINVAL;
	for (size_t i = 0; i < NR_CHIPS; i++) {
		chip[i].chip_id = chips[i];
		if (!state_take(&r, TAG_CHIP, &chip[i].chip, sizeof(chip[i].chip)))
			return -EINVAL;
	}
	if (!vpmu_blob_get_section(&r, TAG_RDPMC, FORMAT, &in) || !vpmu_blob_done(&r))
		return -EINVAL;
	for (size_t i = 0; i < NR_CHIPS && !rc; i++)
		rc = kvm_ioctl(vm->fd, KVM_SET_IRQCHIP, &chip[i]);
	if (!rc)
		rc = kvm_ioctl(vm->fd, KVM_SET_CLOCK, &clock);
	return rc ? refused(rc) : load_sites(vm, &in);
}
