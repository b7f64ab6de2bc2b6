// SPDX-License-Identifier: LGPL-2.1-or-later
/* The state of a vCPU's PMU, as MSRs and as a blob, and its report. The registers themselves are
 * vpmu/guest's; a blob adds what is KVM's: the shadow of LVTPC's mask. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vpmu/core/blob.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/util/fail.h"
#include "vpmu/guest/save.h"

#define TAG_KVM 0x554d504bu /* "KPMU" */
#define FORMAT	1

/* ---- MSRs ---- */

void vpmu_kvm_vcpu_reset(struct vpmu_kvm_vcpu *v)
{
	kvm_thread_use();
	vpmu_guest_reset(v->guest);
	v->port.pmi_masked = false;
	kvm_vcpu_note(v);
}

void vpmu_kvm_vcpu_msrs(struct vpmu_kvm_vcpu *v, uint32_t *msr, size_t *n)
{
	kvm_thread_use();
	*n = vpmu_guest_msr_list(v->guest, msr, *n);
}

int vpmu_kvm_vcpu_get_msr(struct vpmu_kvm_vcpu *v, uint32_t msr, uint64_t *val)
{
	kvm_thread_use();
	return vpmu_guest_get_msr(v->guest, msr, val);
}

int vpmu_kvm_vcpu_set_msr(struct vpmu_kvm_vcpu *v, uint32_t msr, uint64_t val)
{
	int rc;

	kvm_thread_use();
	rc = vpmu_guest_set_msr(v->guest, msr, val);
	if (!rc)
		kvm_port_wrote(&v->port, msr);
	kvm_vcpu_note(v);
	return rc;
}

/* ---- the blob ---- */

int vpmu_kvm_vcpu_save(struct vpmu_kvm_vcpu *v, void *buf, size_t *bytes)
{
	struct vpmu_pcpu *pcpu = v->guest->pcpu;
	struct vpmu_blob b = {0};
	size_t section;
	int rc;

	kvm_thread_use();
	/* Its counts are in consumers while it is placed. */
	if (pcpu)
		vpmu_guest_placed(v->guest, NULL);
	section = vpmu_blob_begin(&b, TAG_KVM, FORMAT);
	vpmu_blob_u8(&b, v->port.pmi_masked);
	rc = vpmu_guest_save(v->guest, &b);
	vpmu_blob_end(&b, section);
	if (pcpu)
		vpmu_guest_placed(v->guest, pcpu);
	if (!rc && b.failed)
		rc = -ENOMEM;
	if (!rc && *bytes < b.len)
		rc = -ENOSPC;
	else if (!rc)
		memcpy(buf, b.data, b.len);
	if (!rc || rc == -ENOSPC)
		*bytes = b.len;
	vpmu_blob_fini(&b);
	return rc;
}

/* The guest's section must be the last part: vpmu_guest_load changes the guest, so what is behind
 * it is checked before. */
static bool state_ends_with_section(struct vpmu_blob_reader in)
{
	uint32_t len;

	vpmu_blob_get_u32(&in); /* tag */
	vpmu_blob_get_u32(&in); /* version, flags */
	len = vpmu_blob_get_u32(&in);
	return !in.failed && len == in.len - in.at;
}

int vpmu_kvm_vcpu_load(struct vpmu_kvm_vcpu *v, const void *buf, size_t bytes, char *why,
		       size_t whylen)
{
	struct vpmu_blob_reader r = {.data = buf, .len = bytes}, in;
	struct vpmu_pcpu *pcpu = v->guest->pcpu;
	bool masked;
	int rc;

	kvm_thread_use();
	if (!vpmu_blob_get_section(&r, TAG_KVM, FORMAT, &in) || !vpmu_blob_done(&r))
		return fail(-EINVAL, why, whylen,
			    "state of a vCPU's PMU is invalid; expected one section KPMU of "
			    "version %d",
			    FORMAT);
	masked = vpmu_blob_get_bool(&in);
	if (in.failed || (masked && !v->port.masks_pmi))
		return fail(-EINVAL, why, whylen, "PMI mask is invalid; expected 0%s",
			    v->port.masks_pmi ? " or 1" : " for a model of AMD");
	if (!state_ends_with_section(in))
		return fail(-EINVAL, why, whylen,
			    "PMU: the length of the state is invalid; expected the guest's section "
			    "at its end");
	if (pcpu)
		vpmu_guest_placed(v->guest, NULL);
	rc = vpmu_guest_load(v->guest, &in, why, whylen);
	if (pcpu)
		vpmu_guest_placed(v->guest, pcpu);
	if (!rc)
		v->port.pmi_masked = masked;
	kvm_vcpu_note(v);
	return rc;
}

/* ---- the report ---- */

static unsigned int state_degraded(const struct vpmu_guest *g)
{
	unsigned int flags = 0;

	for (uint32_t m = g->enabled | g->failed; m; m &= m - 1) {
		const struct vpmu_guest_ctr *c = &g->ctr[__builtin_ctz(m)];

		if (g->failed & m & -m)
			flags |= c->denied ? VPMU_KVM_DENIED : VPMU_KVM_REFUSED;
		if (!c->enabled)
			continue;
		if (c->lost)
			flags |= VPMU_KVM_UNSUPPORTED;
		else if (c->running_ns < c->enabled_ns)
			flags |= VPMU_KVM_MULTIPLEXED;
		if (c->quality == VPMU_Q_MODELLED || c->quality == VPMU_Q_ESTIMATED)
			flags |= VPMU_KVM_ESTIMATED;
	}
	return flags;
}

#define put(to, value) atomic_store_explicit(&(to), value, memory_order_relaxed)
#define get(from)      atomic_load_explicit(&(from), memory_order_relaxed)

void kvm_vcpu_note(struct vpmu_kvm_vcpu *v)
{
	const struct vpmu_guest *g = v->guest;

	put(v->degraded, state_degraded(g));
	put(v->denied, g->denied);
	put(v->denied_last, g->denied_last);
	put(v->unsupported, g->unsupported);
	put(v->unsupported_last, g->unsupported_last);
}

void vpmu_kvm_vcpu_report(const struct vpmu_kvm_vcpu *v, struct vpmu_kvm_report *out)
{
	*out = (struct vpmu_kvm_report){
		.degraded = get(v->degraded),
		.denied = get(v->denied),
		.denied_last = get(v->denied_last),
		.unsupported = get(v->unsupported),
		.unsupported_last = get(v->unsupported_last),
		.rdmsr = get(v->rdmsr),
		.wrmsr = get(v->wrmsr),
		.rdpmc = get(v->rdpmc),
		.faults = get(v->faults),
		.alarms = get(v->alarms),
		.pmis = get(v->pmis),
		.pmi_errors = get(v->pmi_errors),
		.guest_tsc = get(v->guest_tsc),
		.shared = kvm_pages_shared(&v->pages),
	};
}
