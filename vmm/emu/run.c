// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * run() of the emulator; engine.c calls emu_run(). It first completes the instruction of the
 * previous exit with the caller's answer. Then it alternates between events (kicks, interrupts,
 * faults) and chunks of execution. It must never return with counts that are not folded: the tally
 * is exact at every return.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/debug.h"
#include "vmm/emu/jit/jit.h"
#include "vmm/emu/realmode/legacy.h"
#include "vmm/emu/svm/svm.h"

/* Faults and interrupts in a row, without a retired instruction, after which run() returns. Without
 * this limit a handler that faults on its first byte would never let run() return. */
#define IDLE_EVENTS 1000

void emu_fold(struct emu_vcpu *v)
{
	uint64_t done = (uint64_t)(v->left0 - v->left), n = done >> EMU_LEFT_SHIFT, acc = v->acc;
	uint64_t cycles = (acc >> EMU_LANE_CYCLES & 0xffff) + v->extra_cycles;

	const uint64_t ev[VPMU_EMU_EVENTS] = {
		[VPMU_EMU_INSTRUCTIONS] = n,
		[VPMU_EMU_CYCLES] = cycles,
		[VPMU_EMU_REF_CYCLES] = cycles,
		[VPMU_EMU_LOADS] = (acc >> EMU_LANE_LOADS & 0xfff) + (uint64_t)v->adj_loads,
		[VPMU_EMU_STORES] = (acc >> EMU_LANE_STORES & 0xfff) + (uint64_t)v->adj_stores,
		[VPMU_EMU_BRANCHES] = acc >> EMU_LANE_BRANCHES & 0xfff,
		[VPMU_EMU_BRANCHES_TAKEN] = acc >> EMU_LANE_TAKEN,
		[VPMU_EMU_BRANCHES_CONDITIONAL] = done & EMU_LEFT_LOW,
	};

	enum vpmu_emu_mode mode = v->cpl ? VPMU_EMU_USR : VPMU_EMU_OS;
	unsigned int svm = emu_svm_mode(v);

	vpmu_emu_count(v->tally, mode, ev);
	if (unlikely(svm))
		vpmu_emu_count_svm(v->tally, svm, mode, ev);
	v->retired += n;
	v->cycles += cycles;
	v->clock += cycles;
	v->left0 = v->left;
	v->acc = 0;
	v->extra_cycles = 0;
	v->adj_loads = v->adj_stores = 0;
}

void emu_fold_before(struct emu_vcpu *v, uint8_t ev)
{
	if (v->left == v->left0) /* 16- and 32-bit code: emu_count_one() follows */
		return;
	v->left += emu_ev_step(ev);
	v->acc -= emu_ev_sum(ev);
	emu_fold(v);
	v->left -= emu_ev_step(ev);
	v->acc = emu_ev_sum(ev);
}

int emu_error(struct emu_vcpu *v, const char *fmt, ...)
{
	struct vmm_run *run = v->run;
	va_list ap;

	run->exit = VMM_EXIT_ERROR;
	va_start(ap, fmt);
	vsnprintf(run->u.error.msg, sizeof(run->u.error.msg), fmt, ap);
	va_end(ap);
	v->trap = EMU_TRAP_EXIT;
	return 1;
}

int emu_fault(struct emu_vcpu *v, uint8_t vec, bool has_err, uint32_t err)
{
	v->trap = EMU_TRAP_FAULT;
	v->fault.vec = vec;
	v->fault.has_err = has_err;
	v->fault.canon = false;
	v->fault.err = err;
	return 1;
}

void emu_count_one(struct emu_vcpu *v, uint8_t ev, bool taken)
{
	v->left0 = emu_ev_step(ev);
	v->left = 0;
	v->acc = emu_ev_sum(ev) + (taken ? EMU_TAKEN_SUM : 0);
	emu_fold(v);
}

/* Complete the instruction of the last exit with the caller's answer. Traps if the answer is a
 * fault. */
static int complete(struct emu_vcpu *v)
{
	const struct vmm_run *run = v->run;
	enum emu_pending_kind kind = v->pending.kind;
	uint64_t x;

	v->pending.kind = EMU_PEND_NONE;
	if (v->chip && (kind == EMU_PEND_IN || kind == EMU_PEND_OUT))
		v->extra +=
			atomic_exchange_explicit(&v->chip->line_effort, 0, memory_order_relaxed);
	switch (kind) {
	case EMU_PEND_IN:
		emu_wr(v, EMU_RAX, v->pending.size, run->u.io.data);
		break;
	case EMU_PEND_RDMSR:
	case EMU_PEND_WRMSR:
		if (run->u.msr.fault)
			return emu_gp(v, 0);
		x = run->u.msr.data;
		if (run->u.msr.index == MSR_DEBUGCTL && kind == EMU_PEND_RDMSR)
			x = emu_debugctl_read(v, x);
		else if (run->u.msr.index == MSR_DEBUGCTL)
			emu_debugctl_written(v, x);
		if (kind == EMU_PEND_RDMSR) {
			v->r[EMU_RAX] = (uint32_t)x;
			v->r[EMU_RDX] = x >> 32;
		}
		break;
	case EMU_PEND_RDPMC:
		if (run->u.pmc.fault)
			return emu_gp(v, 0);
		v->r[EMU_RAX] = (uint32_t)run->u.pmc.data;
		v->r[EMU_RDX] = run->u.pmc.data >> 32;
		break;
	default:
		break;
	}
	v->rip = v->pending.next;
	v->sti_shadow = v->brk.ss_shadow = false;
	v->rflags &= ~EMU_RF;
	emu_count_one(v, v->pending.ev, false);
	return 0;
}

/* Deliver the queued NMI and interrupt if the vCPU can take them now. Returns 1 with v->trap set if
 * run() must return. */
static int run_events(struct emu_vcpu *v)
{
	uint8_t vec;

	if (v->sti_shadow || v->gif_clear)
		return 0;
	if (v->nmi_pending && !v->nmi_masked) {
		v->nmi_pending = false;
		v->nmi_masked = true;
		emu_irq_taken(v);
		if (emu_interrupt(v, EMU_NMI, EMU_EVENT_EXT, false, 0))
			return v->trap == EMU_TRAP_FAULT ? emu_deliver(v) : 1;
	}
	if (v->intr_pending && (v->rflags & EMU_IF) && v->intr_vec >> 4 > v->cr8) {
		vec = v->intr_vec;
		v->intr_pending = false;
		emu_irq_taken(v);
		if (emu_interrupt(v, vec, EMU_EVENT_EXT, false, 0))
			return v->trap == EMU_TRAP_FAULT ? emu_deliver(v) : 1;
	}
	return 0;
}

static bool alarm_due(const struct emu_vcpu *v)
{
	return unlikely(v->tally->armed) && vpmu_emu_alarm_due(v->tally);
}

/* Index of the first op of instruction @n (from 0), counted from op @from of @b. */
static unsigned int op_of(const struct emu_block *b, unsigned int from, int64_t n)
{
	for (unsigned int i = from;; i++)
		if (b->ops[i].len && n-- == 0)
			return i;
}

/* Number of instructions of @b from op @from on. */
static int64_t insns_from(const struct emu_block *b, unsigned int from)
{
	int64_t n = b->n;

	for (unsigned int i = 0; i < from; i++)
		n -= b->ops[i].len != 0;
	return n;
}

/* Execute up to @n instructions of @b from op @from on; more than @n must remain. A STOP op
 * temporarily replaces the op after them. If that op is the second of a fused pair, the first op of
 * the pair temporarily gets its unfused handler. */
static void exec_part(struct emu_vcpu *v, struct emu_block *b, unsigned int from, int64_t n)
{
	unsigned int i = op_of(b, from, n);
	const void *first = b->ops[0].h, *stop, *pair = NULL;
	struct emu_op *prev = i ? &b->ops[i - 1] : NULL;

	b->ops[0].h = b->h0; /* the interpreter executes this */
	stop = b->ops[i].h;

	if (prev && (prev->flags & EMU_OPF_FUSED)) {
		pair = prev->h;
		prev->h = emu_labels[b->ops[i].unfused];
		prev->flags &= (uint8_t)~EMU_OPF_FUSED;
	}
	b->ops[i].h = emu_labels[EMU_OP_STOP];
	emu_exec(v, b, from);
	b->ops[i].h = stop;
	if (pair) {
		prev->h = pair;
		prev->flags |= EMU_OPF_FUSED;
	}
	b->ops[0].h = first;
	if (v->trap == EMU_TRAP_STOP) {
		v->rest.block = b;
		v->rest.rip = v->rip;
		v->rest.op = i;
	}
}

/*
 * Returns true if this chunk starts where the last one stopped inside a block, and may continue
 * there. Not after an event or new registers: ops in the middle of a block may rely on the flags
 * state left by the ops before them. And not while alarms are armed: emu_alarm_limit() and
 * v->density handle only whole blocks.
 */
static bool goes_on(const struct emu_vcpu *v)
{
	const struct emu_block *b = v->rest.block;

	return b && b->ctx == v->ctx && v->rip == v->rest.rip && !v->tally->armed;
}

/* Execute one chunk of up to @budget instructions. On return v->trap is the reason for its end. */
static void chunk(struct emu_vcpu *v, uint64_t budget)
{
	bool tf = v->rflags & EMU_TF, shadow = v->sti_shadow, ss = v->brk.ss_shadow, on;
	int64_t n = budget < EMU_CHUNK ? (int64_t)budget : EMU_CHUNK;
	uint64_t before = v->retired, rf = v->rflags & EMU_RF;
	struct emu_block *b;
	unsigned int from;

	if (unlikely(v->brk.code || v->brk.near) && emu_debug_fetch(v, rf || ss)) {
		v->rest.block = NULL;
		v->extra += EMU_EFFORT_SLICE;
		return;
	}
	on = goes_on(v);
	from = on ? v->rest.op : 0;
	b = on ? v->rest.block : emu_find(v);
	v->rest.block = NULL;
	v->extra += EMU_EFFORT_SLICE;
	if (!b)
		return;
	if (tf || shadow || v->single || v->brk.near)
		n = 1;
	if (unlikely(v->tally->armed))
		n = emu_alarm_limit(v, b, n);
	if (unlikely(v->chip)) {
		bool armed = false;

		n = emu_chip_limit(v, b, n, &armed);
		if (armed)
			v->attn |= EMU_ATTN_ARMED;
	}
	v->sti_shadow = v->brk.ss_shadow = false;
	v->rflags &= ~EMU_RF; /* RF is clear once an instruction is done (SDM vol. 3, 18.3.1.1) */
	v->step = tf;
	v->left = v->left0 = n << EMU_LEFT_SHIFT | EMU_LEFT_LOW;
	v->acc = 0;
	if (b->n > n && insns_from(b, from) > n)
		exec_part(v, b, from, n);
	else
		emu_exec(v, b, from);
	v->single = false;
	if (v->trap == EMU_TRAP_STOP)
		v->trap = EMU_TRAP_NONE;
	if (v->retired == before) { /* the instruction in the shadow has not retired yet */
		v->sti_shadow = shadow;
		v->brk.ss_shadow = ss;
		v->rflags |= rf;
	} else if (emu_debug_due(v)) {
		emu_debug_trap(v); /* replaces the exit of a HLT: it ends the HLT */
	}
}

/* Effort of this run() so far. */
static inline uint64_t spent(const struct emu_vcpu *v)
{
	int64_t quarters = v->jit.quarters - v->jit.quarters_begin;

	return (uint64_t)(4 * (int64_t)(v->retired + v->extra - v->extra_begin) + quarters) / 4;
}

/* The vCPU is halted. Returns true if run() must return VMM_EXIT_HLT. */
static bool halts(struct emu_vcpu *v)
{
	v->run->exit = VMM_EXIT_HLT;
	if (v->chip)
		return emu_chip_halt(v);
	return true;
}

/* A repeated string instruction stopped after an iteration that is not its last. Set RFLAGS.RF as
 * an event taken here pushes it: Intel's CPUs set it, AMD's leave it unchanged. */
static void between_iterations(struct emu_vcpu *v)
{
	if (v->intel)
		v->rflags |= EMU_RF;
}

static void run_loop(struct emu_vcpu *v)
{
	struct vmm_run *run = v->run;
	uint64_t budget = run->budget ? run->budget : UINT64_MAX, last = 0, left;
	uint64_t most = run->effort_max ? run->effort_max : UINT64_MAX;
	unsigned int idle = 0;

	if (unlikely(v->plat.wait_sipi)) {
		if (!halts(v))
			run->exit = VMM_EXIT_INTR; /* a message has come */
		return;
	}
	if (!emu_in_64bit(v) && !v->whole && !v->guest) {
		emu_error(v, "not in 64-bit mode (CR0 0x%llx, CR4 0x%llx, EFER 0x%llx, CS.L %u)",
			  (unsigned long long)v->cr0, (unsigned long long)v->cr4,
			  (unsigned long long)v->efer, v->seg[EMU_CS].l);
		return;
	}
	if (v->pending.kind) {
		if (complete(v)) {
			if (emu_deliver(v))
				return;
		} else {
			v->step = v->rflags & EMU_TF;
			if (emu_debug_due(v)) {
				emu_debug_trap(v);
				if (emu_deliver(v))
					return;
			}
		}
	}
	for (;;) {
		if (alarm_due(v)) {
			run->exit = VMM_EXIT_ALARM;
			return;
		}
		if (unlikely(v->svm) && emu_svm_debugctl(v))
			return;
		if (v->retired >= budget) {
			run->exit = VMM_EXIT_BUDGET;
			return;
		}
		idle = v->retired == last ? idle + 1 : 0;
		last = v->retired;
		if (atomic_exchange(&v->kicked, false) || idle > IDLE_EVENTS || spent(v) >= most ||
		    v->extra >= v->extra_stop) {
			run->exit = VMM_EXIT_INTR;
			return;
		}
		if (unlikely(v->chip) && emu_chip_poll(v)) {
			run->exit = VMM_EXIT_INTR;
			return;
		}
		if (unlikely(v->halted)) {
			if (!emu_deliverable(v)) {
				if (halts(v))
					return;
				continue;
			}
			v->halted = false;
		}
		emu_sync(v);
		v->attn = v->tally->armed ? EMU_ATTN_ARMED : 0;
		v->trap = EMU_TRAP_NONE;
		if (unlikely(v->guest)) {
			int rc = emu_svm_events(v);

			if (rc > 1)
				return;
			if (rc)
				continue;
		}
		if (unlikely(!emu_in_64bit(v))) {
			emu_legacy_step(v); /* events wait: none can be delivered there */
			v->brk.hits = 0;
		} else {
			if (!v->guest && run_events(v))
				return;
			v->trap = EMU_TRAP_NONE;
			left = most - spent(v);
			chunk(v, budget - v->retired < left ? budget - v->retired : left);
		}
		switch ((enum emu_trap)v->trap) {
		case EMU_TRAP_FAULT:
			if (emu_deliver(v))
				return;
			break;
		case EMU_TRAP_VMEXIT:
			emu_svm_exit(v);
			break;
		case EMU_TRAP_SMC:
			v->single = true;
			break;
		case EMU_TRAP_EXIT:
			if (run->exit == VMM_EXIT_YIELD && alarm_due(v))
				run->exit = VMM_EXIT_ALARM;
			if (run->exit != VMM_EXIT_HLT)
				return;
			v->halted = true;
			if (alarm_due(v))
				run->exit = VMM_EXIT_ALARM;
			else if (v->chip || emu_deliverable(v))
				break; /* the queued event wakes the vCPU, or it halts above */
			return;
		case EMU_TRAP_STEP:
			between_iterations(v);
			emu_debug_trap(v);
			if (emu_deliver(v))
				return;
			break;
		case EMU_TRAP_KICK:
			between_iterations(v);
			if (alarm_due(v))
				break; /* the elements so far made it due; v->kicked stays set */
			if (v->chip && !atomic_load(&v->kicked) && v->extra < v->extra_stop)
				break; /* a timer or a message, not a kick */
			run->exit = VMM_EXIT_INTR;
			atomic_store(&v->kicked, false);
			return;
		case EMU_TRAP_DEVICE:
			emu_error(v,
				  "instruction that cannot access guest-physical 0x%llx, where "
				  "there is no RAM",
				  (unsigned long long)v->device);
			return;
		default:
			break;
		}
	}
}

int emu_run(struct vmm_engine_vcpu *ev, struct vmm_run *run)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);

	v->run = run;
	v->host_mxcsr = emu_host_mxcsr();
	v->retired = 0;
	v->extra_begin = v->extra;
	v->jit.quarters_begin = v->jit.quarters;
	v->extra_stop = v->extra + (run->effort_max ? run->effort_max : EMU_EXTRA_MAX);
	v->trap = EMU_TRAP_NONE;
	v->left = v->left0 = 0;
	v->acc = 0;
	v->clock = vpmu_emu_clock(v->tally);
	v->lbr_ctl = v->tally->lbr.ctl & VPMU_LBR_EN ? v->tally->lbr.ctl : 0;
	emu_lbr_update(v);
	emu_jit_settle();
	/* Pairs with emu_smc_settle(): either its all_acked() sees v->running, or emu_ack_code()
	 * sees the epoch that its code_mark() has raised. */
	atomic_store(&v->running, true);
	emu_ack_code(v);
	if (unlikely(v->chip))
		emu_chip_enter(v);
	run_loop(v);
	if (unlikely(v->chip))
		emu_chip_now(v, 0);
	atomic_store(&v->running, false);
	emu_warm_note(v);
	if (run->exit == VMM_EXIT_ERROR) {
		size_t n = strlen(run->u.error.msg);

		run->u.error.rip = v->rip;
		snprintf(run->u.error.msg + n, sizeof(run->u.error.msg) - n, " at rip 0x%llx",
			 (unsigned long long)v->rip);
	}
	run->retired = v->retired;
	if (unlikely(v->svm))
		v->svm->retired += v->retired;
	run->effort = spent(v);
	v->run = NULL;
	return 0;
}
