// SPDX-License-Identifier: GPL-2.0-or-later
/* Perf events as the PMU of vCPU threads; see perfpmu.h. Only makes and frees the PMU and connects
 * it to the engine; vpmu/host/perf.c does the counting. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/sched/perfpmu.h"

static uint64_t guest_tsc(void *arg)
{
	struct vcpu *v = arg;
	uint64_t ticks = 0;

	v->vm->ops->guest_tsc(v->ev, &ticks); /* cannot fail: create() checked VMM_CAN_GUEST_TSC */
	return ticks;
}

static void kick(void *arg)
{
	struct vcpu *v = arg;

	v->vm->ops->kick(v->ev);
}

static struct vpmu_hostpmu_perf_opts opts_of(const struct perfpmu_opts *conf, struct vcpu *v)
{
	return (struct vpmu_hostpmu_perf_opts){
		.cpu = VPMU_PERF_THREAD,
		.leave_counters = conf->leave_counters,
		.pinned = conf->pinned,
		.guest_tsc = guest_tsc,
		.kick = kick,
		.arg = v,
		.nominal_cycles = conf->nominal_cycles,
		.alarm_signal = v && v->vm->ops->can & VMM_CAN_ALARM_SIGNAL ? VMM_ALARM_SIGNAL : 0,
	};
}

static int create(struct vcpu *v, void *arg, struct vpmu_hostpmu **pmu, char *err, size_t errlen)
{
	const struct vpmu_hostpmu_perf_opts opts = opts_of(arg, v);
	struct vpmu_hostpmu_perf *p;
	int ret;

	if (!(v->vm->ops->can & VMM_CAN_GUEST_TSC))
		return fail(-EOPNOTSUPP, err, errlen,
			    "vm %s: engine %s cannot measure the time that its guests run, which "
			    "perf events need",
			    v->vm->name, v->vm->ops->name);
	p = calloc(1, sizeof(*p));
	ret = p ? vpmu_hostpmu_perf_init(p, &opts) : -ENOMEM;
	if (ret) {
		free(p);
		if (ret == -EOPNOTSUPP)
			return fail(ret, err, errlen,
				    "nominal_cycles: this host's TSC does not run at a constant "
				    "rate");
		return fail(ret, err, errlen, "perf events of vCPU %u: %s", v->id, strerror(-ret));
	}
	*pmu = &p->pmu;
	return 0;
}

static void set_thread(struct vpmu_hostpmu *pmu, int tid)
{
	vpmu_hostpmu_perf_set_thread((struct vpmu_hostpmu_perf *)pmu, tid); /* pmu is first */
}

static void destroy(struct vpmu_hostpmu *pmu)
{
	struct vpmu_hostpmu_perf *p = (struct vpmu_hostpmu_perf *)pmu;

	vpmu_hostpmu_perf_fini(p);
	free(p);
}

const struct threads_pmu perfpmu_ops = {
	.create = create,
	.set_thread = set_thread,
	.destroy = destroy,
};

bool perfpmu_counts(vpmu_key_t key, const struct perfpmu_opts *conf, enum vpmu_quality *q)
{
	/* No vCPU: nothing is bound, so its callbacks are not called. */
	const struct vpmu_hostpmu_perf_opts opts = opts_of(conf, NULL);
	struct vpmu_hostpmu_perf p;
	bool counts;

	if (vpmu_hostpmu_perf_init(&p, &opts))
		return false;
	counts = p.pmu.ops->eligible(&p.pmu, key) != 0;
	if (counts)
		*q = p.pmu.ops->quality(&p.pmu, key);
	vpmu_hostpmu_perf_fini(&p);
	return counts;
}
