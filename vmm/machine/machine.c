// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Backends of one vpmu-vmm: creates an engine, its scheduler and its source of counts when the
 * first VM needs them. main.c and control.c call it on the control thread. VMs of two engines must
 * never share a source.
 */
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/machine/priv.h"
#include "vmm/sched/perfpmu.h"
#include "vmm/sched/runner.h"
#include "vmm/sched/threads.h"

/* ---- engines -------------------------------------------------------------------------------- */

int machine_open_engine(struct backend *p, char *err, size_t errlen)
{
	int ret;

	if (p->engine)
		return 0;
	*p->why = 0;
	ret = p->ops->open(&p->engine, p->why, sizeof(p->why));
	if (!ret)
		return 0;
	p->engine = NULL;
	if (!*p->why)
		snprintf(p->why, sizeof(p->why), "%s", strerror(-ret));
	return fail(ret, err, errlen, "engine %s: %s", p->ops->name, p->why);
}

/* [host] lbr: capture every vCPU of the modelled pCPUs, including future ones. */
static int start_capture(struct machine *m)
{
	static const uint32_t ctl[] = {
		[HOST_LBR_BRANCHES] = VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES,
		[HOST_LBR_CALL_STACK] =
			VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS,
	};
	int ret;

	if (m->host_cfg.lbr == HOST_LBR_OFF)
		return 0;
	ret = vpmu_backend_branches_attach(m->emulator.source->root, ctl[m->host_cfg.lbr]);
	m->capture = !ret;
	return ret;
}

static void close_emu(struct machine *m)
{
	if (m->capture)
		vpmu_backend_branches_detach(m->emulator.source->root);
	m->capture = false;
	if (m->runner)
		runner_destroy(m->runner);
	m->runner = NULL;
}

/* Called last, when nothing else can fail: it makes the backend visible to every command. */
static int begin_backend(struct machine *m, struct backend *p, struct vm_sched *sched)
{
	p->sched = sched;
	return tenants_add_source(m->tenants, p->source);
}

/* Create a source; its control calls wait up to [host] stalled_after. */
static int create_source(const struct machine *m, const struct vpmu_backend_core_opts *o,
			 struct vpmu_backend **out)
{
	int ret = vpmu_backend_core_create(o, out);

	if (!ret)
		vpmu_host_set_deadline(vpmu_backend_core_host(*out),
				       m->host_cfg.stalled_after * 1000000ULL);
	return ret;
}

static int start_emu(struct machine *m)
{
	const struct vpmu_backend_core_opts o = {
		.backend = BACKEND_EMU,
		.can = VPMU_BACKEND_SAMPLES | VPMU_BACKEND_BRANCHES,
		.can_count = machine_emu_counts,
		.arg = m,
	};
	int ret = create_source(m, &o, &m->emulator.source);

	if (!ret)
		ret = runner_create(vpmu_backend_core_host(m->emulator.source), &m->host_cfg,
				    &m->runner);
	if (!ret)
		ret = start_capture(m);
	if (!ret && m->launched)
		ret = runner_launch(m->runner);
	return ret ? ret : begin_backend(m, &m->emulator, runner_sched(m->runner));
}

static int need_emu(struct machine *m, char *err, size_t errlen)
{
	int ret = machine_open_engine(&m->emulator, err, errlen);

	if (ret || m->emulator.source)
		return ret;
	ret = start_emu(m);
	if (!ret)
		return 0;
	close_emu(m);
	vpmu_backend_core_destroy(m->emulator.source);
	m->emulator.source = NULL;
	return fail(ret, err, errlen, "modelled host (lbr = %s): %s",
		    host_lbr_name(m->host_cfg.lbr), strerror(-ret));
}

static int start_kvm(struct machine *m)
{
	const struct vpmu_backend_core_opts o = {
		.backend = BACKEND_KVM, .can_count = machine_kvm_counts, .arg = m};
	struct threads_pmu pmu = perfpmu_ops;
	int ret = create_source(m, &o, &m->kvm.source);

	pmu.arg = &m->perf;
	if (!ret)
		ret = threads_create(vpmu_backend_core_host(m->kvm.source), &pmu, 0, &m->threads);
	return ret ? ret : begin_backend(m, &m->kvm, threads_sched(m->threads));
}

static int need_kvm(struct machine *m, char *err, size_t errlen)
{
	int ret = machine_open_engine(&m->kvm, err, errlen);

	if (ret || m->kvm.source)
		return ret;
	ret = start_kvm(m);
	if (!ret)
		return 0;
	if (m->threads)
		threads_destroy(m->threads);
	m->threads = NULL;
	vpmu_backend_core_destroy(m->kvm.source);
	m->kvm.source = NULL;
	return fail(ret, err, errlen, "vCPU threads: %s", strerror(-ret));
}

int machine_choose_backend(struct machine *m, const struct vm_config *c, struct backend **out,
			   char *why, char *err, size_t errlen)
{
	int ret = 0;

	*out = c->engine == VM_ENGINE_EMU ? &m->emulator : &m->kvm;
	if (c->engine != VM_ENGINE_EMU)
		ret = need_kvm(m, why, VM_REASON_MAX);
	if (c->engine == VM_ENGINE_KVM && ret)
		return fail(ret, err, errlen, "%s: vm %s: %s", c->where, c->name, why);
	if (ret)
		*out = &m->emulator;
	return *out == &m->emulator ? need_emu(m, err, errlen) : 0;
}

bool machine_ticks(const struct machine *m)
{
	return m->threads;
}

void machine_tick(struct machine *m)
{
	if (m->threads)
		threads_tick(m->threads);
}

/* ---- the whole ------------------------------------------------------------------------------ */

int machine_create(const struct machine_opts *o, struct machine **out, char *err, size_t errlen)
{
	struct machine *m = calloc(1, sizeof(*m));
	const char *why;
	char line[128];
	int ret;

	if (!m)
		return fail(-ENOMEM, err, errlen, "out of memory");
	m->opts = *o;
	m->host_cfg = *o->host;
	m->opts.host = &m->host_cfg;
	m->perf = (struct perfpmu_opts){
		.leave_counters = m->host_cfg.leave_counters,
		.pinned = m->host_cfg.pinned_counters,
		.nominal_cycles = m->host_cfg.nominal_cycles,
	};
	m->last = &m->vms;
	m->emulator.ops = &vmm_emu_ops;
	why = vmm_emu_translate(!m->host_cfg.no_jit);
	if (why && !m->host_cfg.no_jit && o->note) {
		snprintf(line, sizeof(line), "guest code is interpreted and not translated: %s",
			 why);
		o->note(line, o->arg);
	}
	m->kvm.ops = &vmm_kvm_ops;
	ret = tenants_create(o->host->cgroup_root, &m->tenants, err, errlen);
	if (ret) {
		free(m);
		return ret;
	}
	machine_shares_begin(m);
	*out = m;
	return 0;
}

void machine_destroy(struct machine *m)
{
	while (m->vms)
		machine_vm_remove(m->vms);
	close_emu(m);
	if (m->threads)
		threads_destroy(m->threads);
	machine_shares_end(m);
	tenants_destroy(m->tenants);
	vpmu_backend_core_destroy(m->emulator.source);
	vpmu_backend_core_destroy(m->kvm.source);
	if (m->emulator.engine)
		m->emulator.ops->close(m->emulator.engine);
	if (m->kvm.engine)
		m->kvm.ops->close(m->kvm.engine);
	machine_kernel_forget(&m->kernel);
	free(m);
}

struct tenants *machine_tenants(struct machine *m)
{
	return m->tenants;
}

int machine_launch(struct machine *m, char *err, size_t errlen)
{
	int ret = 0;

	if (m->launched)
		return 0;
	if (m->runner)
		ret = runner_launch(m->runner);
	if (ret)
		return fail(ret, err, errlen, "modelled host: starting its pCPUs: %s",
			    strerror(-ret));
	m->launched = true;
	machine_kernel_forget(&m->kernel);
	return 0;
}

uint64_t machine_step(struct machine *m, uint64_t slices)
{
	return m->runner && !m->launched ? runner_step(m->runner, slices) : 0;
}
