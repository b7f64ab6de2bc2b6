// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The exit loop that both engines share. Called by the schedulers (vmm/sched/). The guest is
 * hostile: each of its exits is completed, becomes the architectural fault, or ends its VM with one
 * line that gives the reason.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/vm/vm.h"
#include "vpmu/guest/abi.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/emupmu.h"

enum step { STEP_ON, STEP_BUDGET, STEP_INTR, STEP_YIELD, STEP_HALTED, STEP_ENDED };

static enum step vcpu_end(struct vcpu *v, enum vcpu_state state)
{
	if (!v->vm->devices)
		serial_flush(&v->serial);
	v->state = state;
	return STEP_ENDED;
}

static uint64_t rip_of(struct vcpu *v)
{
	struct kvm_regs regs;

	return v->vm->ops->get_regs(v->ev, &regs) ? 0 : regs.rip;
}

int vcpu_where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	struct vcpu *v = (struct vcpu *)((char *)ctx - offsetof(struct vcpu, ctx));
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	int ret = v->vm->ops->get_regs(v->ev, &regs);

	if (!ret)
		ret = v->vm->ops->get_sregs(v->ev, &sregs);
	if (ret)
		return ret;
	out->ip = regs.rip;
	out->cpl = sregs.cs.selector & 3; /* SDM vol. 3, 5.5 */
	return 0;
}

/* ---- PMIs ---- */

/* Service the counters' overflows since the last run. Returns true if a PMI was raised. */
static inline bool service_counters(struct vcpu *v)
{
	const struct vmm_engine_ops *ops = v->vm->ops;

	if (!vpmu_guest_pending(v->guest) || !vpmu_guest_service(v->guest))
		return false;
	/* Without PMIs the guest finds the overflow in its status register. */
	return (ops->can & VMM_CAN_PMI) && !ops->pmi(v->ev);
}

/* ---- MSRs ---- */

/* Add to @all the guest's @n events beyond the *@noted that were added before. */
static void vcpu_note(struct vm_uncounted *all, uint64_t *noted, uint64_t n, uint64_t last)
{
	if (n == *noted)
		return;
	atomic_store_explicit(&all->last, last, memory_order_relaxed);
	atomic_fetch_add_explicit(&all->n, n - *noted, memory_order_relaxed);
	*noted = n;
}

void vcpu_note_uncounted(struct vcpu *v)
{
	const struct vpmu_guest *g = v->guest;

	vcpu_note(&v->vm->denied, &v->denied, g->denied, g->denied_last);
	vcpu_note(&v->vm->unsupported, &v->unsupported, g->unsupported, g->unsupported_last);
}

/* MSRs of neither the engine nor the PMU model do not exist: #GP. */
static void vcpu_rdmsr(struct vcpu *v)
{
	struct vmm_run *run = &v->run;

	run->u.msr.data = 0;
	run->u.msr.fault = vpmu_guest_rdmsr(v->guest, run->u.msr.index, &run->u.msr.data) != 0;
}

static void vcpu_wrmsr(struct vcpu *v)
{
	struct vmm_run *run = &v->run;

	run->u.msr.fault = vpmu_guest_wrmsr(v->guest, run->u.msr.index, run->u.msr.data) != 0;
	vcpu_note_uncounted(v);
}

/* ---- devices ---- */

static void vcpu_console_line(const char *line, size_t len, void *arg)
{
	struct vcpu *v = arg;

	v->vm->console(v->vm, v->id, line, len, v->vm->arg);
}

static void exited(uint32_t status, void *arg)
{
	struct vcpu *v = arg;

	v->status = status;
	vcpu_end(v, VCPU_EXITED);
	if (v->vm->devices)
		vm_devices_exited(v->vm->devices);
}

int vcpu_devices(struct vcpu *v)
{
	int ret;

	v->exitport = (struct exitport){.exited = exited, .arg = v};
	if (v->vm->devices) {
		ret = vm_devices_claim(v->vm->devices, &v->ports);
		return ret || !v->vm->devices->exit_port
			       ? ret
			       : exitport_claim_debug(&v->exitport, &v->ports);
	}
	serial_init(&v->serial, vcpu_console_line, NULL, v);
	ret = serial_claim(&v->serial, &v->ports);
	return ret ? ret : exitport_claim(&v->exitport, &v->ports);
}

static enum step vcpu_port_io(struct vcpu *v)
{
	struct vmm_run *run = &v->run;

	if (run->u.io.in)
		run->u.io.data = (uint32_t)bus_read(&v->ports, run->u.io.port, run->u.io.size);
	else
		bus_write(&v->ports, run->u.io.port, run->u.io.size, run->u.io.data);
	return v->state == VCPU_READY ? STEP_ON : STEP_ENDED;
}

/* ---- exits ---- */

/*
 * The vCPU is in HLT, and no pending event wakes it. HLT itself may have made a counter overflow.
 * If that raises a PMI, the vCPU runs again: the engine wakes it, or reports HLT once more when the
 * guest does not accept the PMI. Without interrupt controllers nothing else can wake a vCPU: there
 * is no timer, and IPIs of other vCPUs go nowhere.
 */
static enum step halt(struct vcpu *v, const struct vcpu_env *env)
{
	vpmu_pcpu_overflow(env->pcpu);
	if (service_counters(v))
		return STEP_ON;
	return v->vm->irqchip && v->run.u.hlt.waits ? STEP_HALTED : vcpu_end(v, VCPU_HALTED);
}

/* Returns true if the vCPU cannot continue because its kernel panicked: kernels end the machine in
 * many ways. */
static bool panicked(struct vcpu *v)
{
	return v->vm->devices && vm_devices_panicked(v->vm->devices);
}

static enum step vcpu_answer(struct vcpu *v, const struct vcpu_env *env)
{
	struct vmm_run *run = &v->run;

	switch (run->exit) {
	case VMM_EXIT_BUDGET:
		return STEP_BUDGET;
	case VMM_EXIT_INTR:
		return STEP_INTR;
	case VMM_EXIT_YIELD:
		run->exit = VMM_EXIT_INTR; /* no answer is pending: snapshots need no such exit */
		return STEP_YIELD;
	case VMM_EXIT_IO:
		return vcpu_port_io(v);
	case VMM_EXIT_RDMSR:
		vcpu_rdmsr(v);
		return STEP_ON;
	case VMM_EXIT_WRMSR:
		vcpu_wrmsr(v);
		return STEP_ON;
	case VMM_EXIT_RDPMC:
		run->u.pmc.data = 0;
		run->u.pmc.fault =
			vpmu_guest_rdpmc(v->guest, run->u.pmc.index, &run->u.pmc.data) != 0;
		return STEP_ON;
	case VMM_EXIT_ALARM:
		vpmu_pcpu_overflow(env->pcpu);
		return STEP_ON;
	case VMM_EXIT_HLT:
		return halt(v, env);
	case VMM_EXIT_SHUTDOWN:
		if (!panicked(v))
			vm_fail(v->vm, "vCPU %u: triple fault at RIP 0x%" PRIx64, v->id, rip_of(v));
		return vcpu_end(v, VCPU_FAILED);
	case VMM_EXIT_ERROR:
		if (!panicked(v))
			vm_fail(v->vm, "vCPU %u: %s", v->id, run->u.error.msg);
		return vcpu_end(v, VCPU_FAILED);
	}
	vm_fail(v->vm, "vCPU %u: engine %s reports unknown exit %d", v->id, v->vm->ops->name,
		run->exit);
	return vcpu_end(v, VCPU_FAILED);
}

/* Count the modelled cost of an exit as host time of the current account. */
static inline void model_world_switch(const struct vcpu_env *env)
{
	struct vpmu_emu_tally *t = env->tally;

	if (!t)
		return;
	vpmu_emu_add(t, VPMU_EMU_HOST, VPMU_EMU_CYCLES, VCPU_WORLD_SWITCH_CYCLES);
	vpmu_emu_add(t, VPMU_EMU_HOST, VPMU_EMU_REF_CYCLES, VCPU_WORLD_SWITCH_CYCLES);
	*env->clock_ns = t->ev[VPMU_EMU_ROW_ALL][VPMU_EMU_REF_CYCLES];
}

/* @v never runs again. Its last branches are still on the pCPU: keep them for a post-mortem. */
static enum vcpu_slice vcpu_ended(struct vcpu *v, const struct vcpu_env *env)
{
	struct vcpu_branches b;

	if ((v->vm->ops->can & VMM_CAN_LBR) &&
	    !vpmu_lbr_live(&v->ctx, env->pcpu, &b.regs, &b.user)) {
		v->last = malloc(sizeof(*v->last));
		if (v->last)
			*v->last = b;
	}
	return VCPU_SLICE_ENDED;
}

/* Effort of one unit of vpmu_guest.work. */
#define WORK_EFFORT 25

/* The effort of handling the exit in @run, which the engine does not include; without that of the
 * counters. */
static uint64_t answer_effort(const struct vmm_run *run)
{
	switch (run->exit) {
	case VMM_EXIT_IO: /* a line of the console takes locks and is made printable */
		return run->u.io.port == VPMU_PORT_COM1 && run->u.io.data == '\n' ? 150 : 60;
	case VMM_EXIT_RDMSR:
	case VMM_EXIT_RDPMC:
		return 80;
	case VMM_EXIT_WRMSR:
		return 200;
	case VMM_EXIT_ALARM:
		return 300;
	default:
		return 0;
	}
}

enum vcpu_slice vcpu_run_slice(struct vcpu *v, const struct vcpu_env *env, uint64_t budget,
			       struct vcpu_used *used)
{
	const struct vmm_engine_ops *ops = v->ops;
	struct vmm_run *run = &v->run;
	uint64_t left = budget, effort, extra = 0, work = v->guest->work;
	unsigned int exits = 0;
	enum step step;
	int ret;

	run->pauses = budget ? VCPU_SLICE_PAUSES : 0;
	for (;;) {
		if (vm_failing(v->vm)) {
			vcpu_end(v, VCPU_STOPPED);
			return vcpu_ended(v, env);
		}
		service_counters(v);
		run->budget = left;
		run->effort_max = VCPU_POLL_EFFORT;
		run->effort = 0;
		ret = ops->run(v->ev, run);
		if (ret) {
			model_world_switch(env);
			vm_fail(v->vm, "vCPU %u: engine %s: %s", v->id, ops->name, strerror(-ret));
			vcpu_end(v, VCPU_FAILED);
			return vcpu_ended(v, env);
		}
		/* 0: the engine does not report effort. */
		effort = (run->effort ? run->effort : run->retired) + answer_effort(run);
		used->insns += run->retired;
		used->effort += effort;
		extra += effort > run->retired ? effort - run->retired : 0;
		left -= run->retired < left ? run->retired : left;
		/* If run() returned only for a safe point, the guest has not left the CPU, and no
		 * count may show it: it depends on the engine's caches, and a restored VM must
		 * count as if it had never been saved. */
		if (budget && run->exit == VMM_EXIT_INTR && run->effort >= run->effort_max &&
		    extra < VCPU_SLICE_EXTRA_MAX) {
			step = STEP_ON;
		} else {
			model_world_switch(env);
			step = vcpu_answer(v, env);
			exits++;
		}
		effort = WORK_EFFORT * (v->guest->work - work);
		work = v->guest->work;
		used->effort += effort;
		extra += effort;
		switch (step) {
		case STEP_ON:
			break;
		case STEP_BUDGET:
			return VCPU_SLICE_BUDGET;
		case STEP_INTR:
			return VCPU_SLICE_INTR;
		case STEP_YIELD:
			return VCPU_SLICE_YIELD;
		case STEP_HALTED:
			return VCPU_SLICE_HALTED;
		case STEP_ENDED:
			return vcpu_ended(v, env);
		}
		vpmu_pcpu_poll(env->pcpu);
		if (budget &&
		    (!left || extra >= VCPU_SLICE_EXTRA_MAX || exits == VCPU_SLICE_EXITS_MAX))
			return VCPU_SLICE_BUDGET;
		/* The control thread has a request for this vCPU, or for another one of the
		 * pCPU. */
		if (atomic_load_explicit(&v->request, memory_order_relaxed) != VCPU_REQ_NONE ||
		    (env->hurry && atomic_load_explicit(env->hurry, memory_order_relaxed)))
			return VCPU_SLICE_INTR;
	}
}
