// SPDX-License-Identifier: GPL-2.0-or-later
/* What a machine can count, and why not. */
#include <errno.h>
#include <stdio.h>

#include "vmm/machine/priv.h"
#include "vmm/sched/perfpmu.h"

/* The host PMUs that keys may be counted by: the modelled pCPUs', and that of vCPU threads. */
static int pmu_counts(const struct vpmu_hostpmu *pmu, vpmu_key_t key, enum vpmu_quality *q)
{
	if (!pmu->ops->eligible(pmu, key))
		return 0;
	*q = pmu->ops->quality(pmu, key);
	return 1;
}

int machine_can_count(struct machine *m, vpmu_key_t key, enum vpmu_quality *q, char *why,
		      size_t whylen)
{
	enum vpmu_quality soft_q = VPMU_Q_EXACT, kvm_q = VPMU_Q_EXACT;
	bool soft, kvm;

	if (!m->runner && !m->threads)
		return -ENODATA;
	soft = m->runner && pmu_counts(runner_pmu(m->runner), key, &soft_q);
	kvm = m->threads && perfpmu_counts(key, m->host_cfg.nominal_cycles, &kvm_q);
	if (soft || kvm) {
		*q = soft && (!kvm || soft_q > kvm_q) ? soft_q : kvm_q;
		return 1;
	}
	snprintf(why, whylen, "%s",
		 m->runner && m->threads ? "neither the modelled pCPUs nor this host's KVM guests"
		 : m->runner		 ? "not among the events of the modelled pCPUs"
					 : "not for KVM guests of this host");
	return 0;
}

struct describe {
	void (*fn)(const char *what, bool ok, const char *why, void *arg);
	void *arg;
};

static int perf_row(const char *what, bool ok, const char *why, void *arg)
{
	const struct describe *d = arg;
	char name[64];

	/* What these counters count is for KVM guests only; the soft machine has its own. */
	snprintf(name, sizeof(name), "KVM: %s", what);
	d->fn(name, ok, why, d->arg);
	return 0;
}

void machine_describe(struct machine *m,
		      void (*fn)(const char *what, bool ok, const char *why, void *arg), void *arg)
{
	struct describe d = {.fn = fn, .arg = arg};
	const struct host_config *h = &m->host_cfg;
	char text[VM_REASON_MAX];
	bool ok;

	snprintf(text, sizeof(text),
		 "%u modelled pCPUs of %u general-purpose and %u fixed counters, %u bits", h->pcpus,
		 h->gp, h->fixed, h->width);
	fn("soft machine", true, text, arg);
	fn("soft: events", true,
	   "instructions, branches, branches-taken, loads, stores exact; cycles, ref-cycles "
	   "modelled",
	   arg);
	fn("sampling", true, "on the modelled pCPUs, to the instruction; not of KVM guests", arg);
	snprintf(text, sizeof(text),
		 "the last %d of each vCPU of the modelled pCPUs; lbr = %s; not of KVM guests",
		 VPMU_LBR_DEPTH_MAX, host_lbr_name(h->lbr));
	fn("branch records", true, text, arg);
	ok = !machine_need_kvm(m, text, sizeof(text));
	fn("KVM engine", ok, ok ? "" : text, arg);
	vpmu_hostpmu_perf_check(perf_row, &d);
}
