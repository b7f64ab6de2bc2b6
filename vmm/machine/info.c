// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The events that a machine can count, and the reasons for others: for `events` and `check`.
 * Nothing here may start a backend.
 */
#include <stdio.h>

#include "vmm/machine/priv.h"
#include "vmm/sched/perfpmu.h"
#include "vpmu/hostpmu_perf.h"

bool machine_emu_counts(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg)
{
	const struct machine *m = arg;
	const struct vpmu_hostpmu *pmu = runner_pmu(m->runner);

	if (!pmu->ops->eligible(pmu, key)) {
		/* If it can be counted with :G, only the host's side is missing. */
		bool host = !(key & VPMU_KEY_GUEST) &&
			    pmu->ops->eligible(pmu, (key | VPMU_KEY_GUEST) & ~VPMU_KEY_HOST);

		snprintf(why, whylen, "%s",
			 host ? "the host's work on modelled pCPUs is all at kernel privilege; "
				"expected :H or :Hk"
			      : "the modelled pCPUs have no such event");
		return false;
	}
	*q = pmu->ops->quality(pmu, key);
	return true;
}

bool machine_kvm_counts(vpmu_key_t key, enum vpmu_quality *q, char *why, size_t whylen, void *arg)
{
	const struct machine *m = arg;

	if (perfpmu_counts(key, &m->perf, q))
		return true;
	vpmu_hostpmu_perf_why_not(key, why, whylen);
	return false;
}

struct describe {
	void (*fn)(const struct machine_fact *f, void *arg);
	void *arg;
};

static void info_row(const struct describe *d, const char *backend, const char *what, bool ok,
		     const char *why)
{
	const struct machine_fact f = {.what = what, .backend = backend, .why = why, .ok = ok};

	d->fn(&f, d->arg);
}

static int perf_row(const char *what, bool ok, const char *why, void *arg)
{
	char name[64];

	/* These counters are for KVM guests only. */
	snprintf(name, sizeof(name), "KVM: %s", what);
	info_row(arg, BACKEND_KVM, name, ok, why);
	return 0;
}

void machine_describe(struct machine *m, void (*fn)(const struct machine_fact *f, void *arg),
		      void *arg)
{
	struct describe d = {.fn = fn, .arg = arg};
	const struct host_config *h = &m->host_cfg;
	char text[VM_REASON_MAX];
	const char *why;
	bool ok;

	snprintf(text, sizeof(text),
		 "%u modelled pCPUs of %u general-purpose and %u fixed counters, %u bits", h->pcpus,
		 h->gp, h->fixed, h->width);
	info_row(&d, BACKEND_EMU, "emulator", true, text);
	info_row(&d, BACKEND_EMU, "emulator: events", true,
		 "instructions, branches, branches-taken, branches-conditional, loads, stores "
		 "exact; cycles, ref-cycles modelled");
	why = vmm_emu_translate(!h->no_jit);
	info_row(&d, BACKEND_EMU, "emulator: translated code", !why,
		 why ? why : "hot code, exactly counted");
	info_row(&d, BACKEND_EMU, "sampling", true, "to the instruction");
	snprintf(text, sizeof(text), "the last %d of each vCPU; lbr = %s", VPMU_LBR_DEPTH_MAX,
		 host_lbr_name(h->lbr));
	info_row(&d, BACKEND_EMU, "branch records", true, text);
	ok = !machine_open_engine(&m->kvm, text, sizeof(text));
	info_row(&d, BACKEND_KVM, "KVM engine", ok, ok ? "" : text);
	info_row(&d, BACKEND_KVM, "KVM: sampling", false,
		 "perf events of vCPU threads are not sampled");
	info_row(&d, BACKEND_KVM, "KVM: branch records", false,
		 "KVM keeps the host's branch records off while a guest runs");
	vpmu_hostpmu_perf_check(m->perf.leave_counters, perf_row, &d);
}
