// SPDX-License-Identifier: GPL-2.0-or-later
/* Soft side of the differential test, see emu_side.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/emu/emu_side.h"
#include "vmm/emu/debug.h"
#include "vmm/engine/simd.h"

#define RAM_BYTES  0x800000u
#define MAX_INSNS  20000u /* no sequence that ends executes as many */
#define MAX_COSTLY 1000u
#define RESERVED_1 2u /* RFLAGS bit 1 */

static int map(struct emu_side *s, uint32_t va, size_t bytes, uint64_t bits, uint64_t *pa)
{
	*pa = bare_alloc(&s->vm, bytes);
	return *pa ? bare_map(&s->vm, va, *pa, bytes, bits) : -ENOMEM;
}

int emu_side_init(struct emu_side *s, unsigned int vcpus, const uint8_t *pool,
		  const struct kvm_cpuid_entry2 *cpuid, size_t n, char *why, size_t why_len)
{
	int rc;

	memset(s, 0, sizeof(*s));
	s->pool = pool;
	rc = bare_create(&s->vm, RAM_BYTES, vcpus, why, why_len);
	if (rc)
		return rc;
	rc = map(s, DT_CODE, DT_CODE_BYTES, BARE_U | BARE_W, &s->code);
	if (!rc)
		rc = map(s, DT_EDGE, 0x1000, BARE_U | BARE_W, &s->edge);
	if (!rc)
		rc = map(s, DT_DATA, DT_DATA_BYTES, BARE_U | BARE_W | BARE_NX, &s->data);
	if (!rc)
		rc = map(s, DT_RO, 0x1000, BARE_U | BARE_NX, &s->ro);
	if (!rc)
		rc = map(s, DT_STACK, DT_STACK_BYTES, BARE_U | BARE_W | BARE_NX, &s->stack);
	if (!rc)
		rc = map(s, DT_EXIT, 0x1000, BARE_U, &s->exit);
	if (!rc)
		rc = vmm_emu_ops.set_cpuid(s->vm.vcpu[0], cpuid, n);
	if (rc) {
		snprintf(why, why_len, "emulator side: %s", strerror(-rc));
		return rc;
	}
	/* No image has AVX-512 without CPUID. */
	((struct emu_vcpu *)s->vm.vcpu[0])->simd = vmm_simd_host();
	memset(s->vm.ram + s->code, DT_FILL, DT_CODE_BYTES);
	memset(s->vm.ram + s->edge, DT_FILL, 0x1000);
	memcpy(s->vm.ram + s->ro, pool, 0x1000);
	s->vm.ram[s->exit] = 0xf4; /* HLT in CPL3: #GP, which ends the case */
	/* HLT; IRETQ: the #DB of a breakpoint is passed. */
	memcpy(s->vm.ram + BARE_HANDLERS + 1 * 16 + 1, "\x48\xcf", 2);
	vmm_emu_ops.set_tally(s->vm.vcpu[0], &s->tally);
	return 0;
}

void emu_side_fini(struct emu_side *s)
{
	bare_destroy(&s->vm);
}

void emu_side_load(struct emu_side *s, const struct dt_case *c, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		memcpy(s->vm.ram + s->code + (c[i].slot - DT_CODE), c[i].code, DT_SLOT);
}

/* struct kvm_regs begins with the general registers, in an order of its own. */
static const uint8_t kvm_order[DT_NREGS] = {DT_RAX, DT_RBX, DT_RCX, DT_RDX, DT_RSI, DT_RDI,
					    DT_RSP, DT_RBP, DT_R8,  DT_R9,  DT_R10, DT_R11,
					    DT_R12, DT_R13, DT_R14, DT_R15};

void emu_side_regs_in(const struct dt_case *c, struct kvm_regs *k)
{
	*k = (struct kvm_regs){.rip = c->rip, .rflags = c->rflags | RESERVED_1};
	for (unsigned int i = 0; i < DT_NREGS; i++)
		(&k->rax)[i] = c->regs[kvm_order[i]];
}

void emu_side_regs_out(const struct kvm_regs *k, uint64_t *r)
{
	for (unsigned int i = 0; i < DT_NREGS; i++)
		r[kvm_order[i]] = (&k->rax)[i];
}

/* An alarm a few events ahead. */
static void arm(struct vpmu_emu_tally *t, uint64_t *rng)
{
	struct vpmu_emu_alarm *a = &t->alarm[0];

	*a = (struct vpmu_emu_alarm){.event = (uint8_t)dt_below(rng, VPMU_EMU_EVENTS),
				     .modes = (uint8_t)(1 + dt_below(rng, 3))};
	for (int m = 0; m < VPMU_EMU_MODES; m++)
		a->at += a->modes & (1 << m) ? t->ev[m][a->event] : 0;
	a->at += 1 + dt_below(rng, dt_below(rng, 3) ? 10 : 200);
	t->armed = 1;
}

/* It must be due exactly when the engine reports it, and not have been passed. */
static void check_alarm(const struct vpmu_emu_tally *t, enum vmm_exit exit, char *broken,
			size_t len)
{
	const struct vpmu_emu_alarm *a = &t->alarm[0];
	bool cycles = a->event == VPMU_EMU_CYCLES || a->event == VPMU_EMU_REF_CYCLES;
	bool due = !vpmu_emu_alarm_left(t, a);
	uint64_t sum = 0;

	for (int m = 0; m < VPMU_EMU_MODES; m++)
		sum += a->modes & (1 << m) ? t->ev[m][a->event] : 0;
	if (due != (exit == VMM_EXIT_ALARM) && exit != VMM_EXIT_ERROR)
		snprintf(broken, len, "exit %d, but %llu events until the alarm", exit,
			 (unsigned long long)vpmu_emu_alarm_left(t, a));
	else if (due && !cycles && sum != a->at)
		snprintf(broken, len, "alarm of event %u at %llu, stopped at %llu", a->event,
			 (unsigned long long)a->at, (unsigned long long)sum);
}

/* run() has ended with @exit. If it is the HLT behind the #DB of a breakpoint, note the trap and
 * let the case go on. */
static bool pass_trap(struct emu_side *s, enum vmm_exit exit)
{
	struct emu_vcpu *v = (struct emu_vcpu *)s->vm.vcpu[0];
	uint32_t hits = v->dr[6] & 15;
	struct bare_stop stop;
	struct kvm_regs k;
	uint64_t *flags;

	if (!s->watch || exit != VMM_EXIT_HLT || bare_stopped(&s->vm, 0, exit, &stop) ||
	    stop.vector != 1 || !hits)
		return false;
	s->traps->at[s->traps->n++] = (struct dt_trap){stop.rip, hits};
	vmm_emu_ops.get_regs(s->vm.vcpu[0], &k);
	flags = (uint64_t *)(s->vm.ram + (k.rsp - BARE_KERNEL) + 16);
	if (hits & v->brk.code)
		*flags |= DT_RF;
	v->dr[6] = 0xffff0ff0;
	if (s->traps->n == DT_TRAPS) {
		v->dr[7] = 0x400;
		emu_debug_update(v);
	}
	vmm_emu_ops.set_regs(s->vm.vcpu[0], &k); /* ends the HLT */
	return true;
}

static int run_slices(struct emu_side *s, uint64_t slices, struct vmm_run *run,
		      struct emu_counts *counts)
{
	uint64_t rng = slices, left = MAX_INSNS;
	unsigned int costly = 0;

	do {
		memset(run, 0, sizeof(*run));
		run->budget = slices ? 1 + dt_below(&rng, dt_below(&rng, 4) ? 4 : 40) : left;
		if (run->budget > left)
			run->budget = left;
		if (slices && !s->tally.armed)
			arm(&s->tally, &rng);

		int rc = vmm_emu_ops.run(s->vm.vcpu[0], run);

		if (rc)
			return rc;
		counts->retired += run->retired;
		if (run->retired > run->budget)
			snprintf(counts->broken, sizeof(counts->broken),
				 "retired %llu of a budget of %llu",
				 (unsigned long long)run->retired, (unsigned long long)run->budget);
		if (run->exit == VMM_EXIT_BUDGET && run->retired != run->budget)
			snprintf(counts->broken, sizeof(counts->broken),
				 "budget exit after %llu of %llu", (unsigned long long)run->retired,
				 (unsigned long long)run->budget);
		if (slices)
			check_alarm(&s->tally, run->exit, counts->broken, sizeof(counts->broken));
		if (run->exit == VMM_EXIT_ALARM)
			s->tally.armed = 0;
		left -= run->retired < left ? run->retired : left;
		/* INTR without a kick: sequences that make the machine decode over and over. */
		costly += run->exit == VMM_EXIT_INTR;
	} while ((run->exit == VMM_EXIT_BUDGET || run->exit == VMM_EXIT_INTR ||
		  run->exit == VMM_EXIT_ALARM || pass_trap(s, run->exit)) &&
		 left && costly < MAX_COSTLY);
	s->tally.armed = 0;
	return 0;
}

static void fill_result(struct emu_side *s, const struct vmm_run *run, struct dt_result *r)
{
	struct bare_stop stop;
	int rc = bare_stopped(&s->vm, 0, run->exit, &stop);

	if (rc) {
		snprintf(r->msg, sizeof(r->msg), "reading the state back: %s", strerror(-rc));
		return;
	}
	r->vector = stop.vector;
	r->error = stop.error;
	r->cr2 = stop.cr2;
	r->rip = stop.rip;
	r->rflags = stop.rflags;
	r->cs = stop.cs;
	r->ss = stop.ss;
	emu_side_regs_out(&stop.regs, r->regs);
	if (stop.vector < 0) {
		r->vector = run->exit == VMM_EXIT_BUDGET || run->exit == VMM_EXIT_INTR ? DT_HANG
										       : DT_OTHER;
		if (run->exit == VMM_EXIT_ERROR) {
			r->rip = run->u.error.rip;
			snprintf(r->msg, sizeof(r->msg), "engine error: %.140s", run->u.error.msg);
		} else {
			snprintf(r->msg, sizeof(r->msg), "exit %d", run->exit);
		}
	} else if (stop.vector == 13 && stop.rip == DT_EXIT) {
		r->vector = DT_END;
		r->error = 0;
		r->rflags &= ~(uint64_t)DT_RF; /* the image of the #GP that ends the case */
	}
}

static void fx_in(struct emu_side *s, const struct dt_case *c)
{
	struct emu_fpu *f = &((struct emu_vcpu *)s->vm.vcpu[0])->fpu;

	memcpy(&f->fx, c->fx, DT_FX_BYTES);
	f->mxcsr = f->fx.mxcsr & f->mxcsr_mask;
	f->fip = f->fdp = 0;
	f->fop = f->fcs = f->fds = 0;
	emu_fpu_settle(f);
	memcpy(f->ymm_high, c->v.ymm, sizeof(f->ymm_high));
	memcpy(f->zmm_high, c->v.zmm_high, sizeof(f->zmm_high));
	memcpy(f->zmm_hi16, c->v.zmm_hi16, sizeof(f->zmm_hi16));
	memcpy(f->k, c->v.k, sizeof(f->k));
	f->xcr0 = vmm_simd_host() & VMM_SIMD_AVX512 ? 0xe7 : 7;
}

/* As FXSAVE64 of an AMD CPU: pointers only while an exception waits. */
static void fx_out(struct emu_side *s, uint8_t fx[DT_FX_BYTES])
{
	const struct emu_fpu *f = &((const struct emu_vcpu *)s->vm.vcpu[0])->fpu;
	struct emu_fx x;

	memcpy(&x, &f->fx, DT_FX_BYTES);
	x.fop = f->fop;
	x.fip = f->fip;
	x.fdp = f->fdp;
	x.mxcsr = f->mxcsr;
	memcpy(fx, &x, DT_FX_BYTES);
}

static void watch(struct emu_side *s)
{
	struct emu_vcpu *v = (struct emu_vcpu *)s->vm.vcpu[0];

	s->traps->n = 0;
	memcpy(v->dr, s->watch->dr, sizeof(s->watch->dr));
	v->dr[6] = 0xffff0ff0;
	v->dr[7] = s->watch->dr7 | 0x400;
	emu_debug_update(v);
}

static void warm_up(struct emu_side *s)
{
	struct emu_vcpu *v = (struct emu_vcpu *)s->vm.vcpu[0];

	for (uint32_t at = 0; at < DT_DATA_BYTES; at += EMU_PAGE_SIZE)
		emu_host(v, DT_DATA + at, EMU_ACC_W | EMU_ACC_U);
	emu_host(v, DT_RO, EMU_ACC_R | EMU_ACC_U);
	emu_host(v, DT_STACK, EMU_ACC_W | EMU_ACC_U);
}

void emu_side_run(struct emu_side *s, const struct dt_case *c, uint64_t slices, struct dt_result *r,
		  struct emu_counts *counts)
{
	const uint64_t slot = s->code + (c->slot - DT_CODE);
	const struct emu_fpu *f = &((struct emu_vcpu *)s->vm.vcpu[0])->fpu;
	struct vpmu_emu_tally before = s->tally;
	uint64_t all = 0;
	struct kvm_regs k;
	struct vmm_run run;
	int rc;

	memset(counts, 0, sizeof(*counts));
	r->vector = DT_OTHER;
	r->msg[0] = 0;
	memcpy(s->vm.ram + s->data, s->pool + c->data_pool, DT_DATA_BYTES);
	memcpy(s->vm.ram + s->stack, s->pool + c->stack_pool, DT_STACK_BYTES);
	s->tally.lbr = (struct vpmu_lbr_regs){0};
	if (!slices) {
		s->tally.lbr.ctl = VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_TYPES;
		s->tally.lbr.depth = VPMU_LBR_DEPTH_MAX;
	}
	emu_side_regs_in(c, &k);
	rc = bare_user(&s->vm, 0, &k, DT_FS_BASE, DT_GS_BASE);
	fx_in(s, c);
	if (!rc && slices == EMU_SIDE_WARM)
		warm_up(s);
	if (s->watch)
		watch(s);
	if (!rc)
		rc = run_slices(s, slices == EMU_SIDE_WARM ? 0 : slices, &run, counts);
	if (rc)
		snprintf(r->msg, sizeof(r->msg), "engine: %s", strerror(-rc));
	else
		fill_result(s, &run, r);
	fx_out(s, r->fx);
	memcpy(r->v.ymm, f->ymm_high, sizeof(f->ymm_high));
	memcpy(r->v.zmm_high, f->zmm_high, sizeof(f->zmm_high));
	memcpy(r->v.zmm_hi16, f->zmm_hi16, sizeof(f->zmm_hi16));
	memcpy(r->v.k, f->k, sizeof(f->k));
	memcpy(r->code, s->vm.ram + slot, DT_SLOT);
	memcpy(r->data, s->vm.ram + s->data, DT_DATA_BYTES);
	memcpy(r->stack, s->vm.ram + s->stack, DT_STACK_BYTES);
	counts->lbr = s->tally.lbr;
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		counts->ev[e] = s->tally.ev[VPMU_EMU_USR][e] - before.ev[VPMU_EMU_USR][e];
	for (int m = 0; m < VPMU_EMU_MODES; m++)
		all += s->tally.ev[m][VPMU_EMU_INSTRUCTIONS] - before.ev[m][VPMU_EMU_INSTRUCTIONS];
	if (all != counts->retired && !counts->broken[0])
		snprintf(counts->broken, sizeof(counts->broken),
			 "tallies have %llu instructions, retired says %llu",
			 (unsigned long long)all, (unsigned long long)counts->retired);
}
