// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * get_state and set_state (vmm/engine/engine.h): the state of a vCPU beyond kvm_regs and kvm_sregs.
 * It is one section of fields, followed by the sections of x87 and SSE (fpu_save.c) and of the
 * local APIC (lapic_save.c), and the extensions of SSE2 that CPUID shows. A last section exists
 * only after MOV SS, and while IN or OUT at a breakpoint waits for its answer. engine.c calls this
 * file.
 *
 * The state does not include:
 *   - caches (decoded code, translations): the restored vCPU rebuilds them;
 *   - the tally: it belongs to the pCPU;
 *   - CPUID, but for these extensions, and the VM's trapped MSRs: the restoring caller must set the
 *     same ones;
 *   - a kick.
 *
 * set_state must never trust the bytes. Each field must have a value that this engine could have
 * written for a vCPU with these registers.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/debug.h"
#include "vmm/emu/cpu/emit.h"
#include "vpmu/core/blob_io.h"
#include "vmm/engine/simd.h"

#define TAG	    0x55504356u /* "VCPU" */
#define VERSION	    2
#define SIMD_TAG    0x444d4953u /* "SIMD", of a whole CPU */
#define SIMD_FORMAT 1
#define LAST_TAG    0x54534c42u /* "BLST", of an AMD vCPU that has recorded its last branch */
#define LAST_FORMAT 1
#define BRK_TAG	    0x4b524248u /* "HBRK" */
#define BRK_VERSION 1

struct state {
	uint8_t cpl;
	bool sti_shadow, nmi_masked, nmi_pending, intr_pending, halted;
	uint8_t intr_vec;
	uint8_t kind, size; /* the exit that waits for its answer (emu_vcpu.pending) */
	uint8_t len;	    /* length of that exit's instruction in bytes */
	uint64_t cycles, tsc_offset;
	uint64_t star, lstar, cstar, fmask, kernel_gs_base, pat, tsc_aux;
	uint64_t dr[6]; /* 0..3, 6, 7 */
	struct emu_fpu fpu;
	struct lapic lapic;
	struct emu_plat_state plat; /* with interrupt controllers */
	struct emu_whole w;	    /* of a whole CPU */
	bool ss_shadow;
	uint8_t hits; /* breakpoints hit: emu_vcpu.brk */
	uint32_t simd;
	struct emu_last last;
};

static void state_collect(const struct emu_vcpu *v, struct state *s)
{
	bool waits = v->pending.kind != EMU_PEND_NONE;
	bool io = v->pending.kind == EMU_PEND_IN || v->pending.kind == EMU_PEND_OUT;

	*s = (struct state){
		.cpl = v->cpl,
		.sti_shadow = v->sti_shadow,
		.nmi_masked = v->nmi_masked,
		.nmi_pending = v->nmi_pending,
		.intr_pending = v->intr_pending,
		.halted = v->halted,
		.intr_vec = v->intr_pending ? v->intr_vec : 0,
		.kind = (uint8_t)v->pending.kind,
		.size = io ? v->pending.size : 0,
		.len = waits ? (uint8_t)(v->pending.next - v->pending.rip) : 0,
		.cycles = v->cycles,
		.tsc_offset = v->tsc_offset,
		.star = v->star,
		.lstar = v->lstar,
		.cstar = v->cstar,
		.fmask = v->fmask,
		.kernel_gs_base = v->kernel_gs_base,
		.pat = v->pat,
		.tsc_aux = v->tsc_aux,
		.dr = {v->dr[0], v->dr[1], v->dr[2], v->dr[3], v->dr[6], v->dr[7]},
		.lapic = emu_lapic(v),
		.ss_shadow = v->brk.ss_shadow,
		.hits = v->brk.hits,
		.simd = v->simd,
		.last = v->last,
	};
	if (v->chip)
		emu_plat_get(v, &s->plat);
}

static void state_io(struct blob_io *io, void *of)
{
	struct state *s = of;

	IO(s->cpl), IO_BOOL(s->sti_shadow), IO_BOOL(s->nmi_masked), IO_BOOL(s->nmi_pending);
	IO_BOOL(s->intr_pending), IO(s->intr_vec), IO_BOOL(s->halted);
	IO(s->kind), IO(s->size), IO(s->len), IO(s->cycles), IO(s->tsc_offset);
	IO(s->star), IO(s->lstar), IO(s->cstar), IO(s->fmask), IO(s->kernel_gs_base);
	IO(s->pat), IO(s->tsc_aux);
	IO_EACH(s->dr);
}

static void brk_io(struct blob_io *io, void *of)
{
	struct state *s = of;

	IO_BOOL(s->ss_shadow), IO(s->hits);
}

static void simd_io(struct blob_io *io, void *of)
{
	struct state *s = of;

	IO(s->simd);
}

static void last_io(struct blob_io *io, void *of)
{
	struct state *s = of;

	IO_BOOL(s->last.on);
	IO_EACH(s->last.ip);
}

static bool has_last(const struct state *s)
{
	static const struct emu_last none;

	return s->last.on || memcmp(s->last.ip, none.ip, sizeof(none.ip));
}

int emu_get_state(struct vmm_engine_vcpu *ev, void *buf, size_t *bytes)
{
	const struct emu_vcpu *v = emu_to_vcpu(ev);
	struct vpmu_blob b = {0};
	struct state s;

	state_collect(v, &s);
	blob_save(&b, TAG, VERSION, state_io, &s);
	emu_fpu_save(&v->fpu, &b);
	lapic_save(&s.lapic, &b);
	if (v->chip)
		emu_plat_save(&s.plat, &b);
	if (v->whole)
		emu_whole_save(&v->w, &b);
	if (v->whole && s.simd)
		blob_save(&b, SIMD_TAG, SIMD_FORMAT, simd_io, &s);
	if (has_last(&s))
		blob_save(&b, LAST_TAG, LAST_FORMAT, last_io, &s);
	if (s.ss_shadow || s.hits)
		blob_save(&b, BRK_TAG, BRK_VERSION, brk_io, &s);
	return blob_out(&b, 0, buf, bytes);
}

/* The local APIC of @v after a reset. */
static void reset_lapic(const struct emu_vcpu *v, struct lapic *l)
{
	*l = (struct lapic){.tsc_offset = v->tsc_offset};
	if (!v->chip) {
		lapic_init(l, v->id);
		return;
	}
	l->now = emu_chip_base(v->chip);
	lapic_init_full(l, v->id, v->lapic.deadline);
	l->x2 = v->lapic.x2;
}

/* Absent if CPUID shows none of them. */
static void parse_simd(struct state *s, struct vpmu_blob_reader *all)
{
	struct vpmu_blob_reader r = *all;
	struct vmm_simd_cpuid shown;

	if (!blob_load(&r, SIMD_TAG, SIMD_FORMAT, simd_io, s) || !s->simd)
		return;
	shown = vmm_simd_cpuid(s->simd);
	if (vmm_simd_of(&shown) == s->simd)
		*all = r;
}

/* Any addresses are possible: SYSRET may go anywhere, and they are only read. */
static void parse_last(struct state *s, const struct emu_vcpu *v, struct vpmu_blob_reader *all)
{
	struct vpmu_blob_reader r = *all;

	if (!v->intel && blob_load(&r, LAST_TAG, LAST_FORMAT, last_io, s) && has_last(s))
		*all = r;
	else
		s->last = (struct emu_last){0};
}

/* The last section, if there is one. */
static bool parse_brk(struct state *s, struct vpmu_blob_reader *all)
{
	return vpmu_blob_done(all) ||
	       (blob_load(all, BRK_TAG, BRK_VERSION, brk_io, s) && (s->ss_shadow || s->hits));
}

static bool state_parse(struct state *s, const struct emu_vcpu *v, const void *buf, size_t bytes)
{
	struct vpmu_blob_reader all = {.data = buf, .len = bytes};

	memset(s, 0, sizeof(*s));
	reset_lapic(v, &s->lapic);
	if (!blob_load(&all, TAG, VERSION, state_io, s) || !emu_fpu_load(&s->fpu, &all) ||
	    lapic_load(&s->lapic, &all) || (v->chip && !emu_plat_load(&s->plat, &all)) ||
	    (v->whole && !emu_whole_load(&s->w, &all)))
		return false;
	if (v->whole)
		parse_simd(s, &all);
	parse_last(s, v, &all);
	return parse_brk(s, &all) && vpmu_blob_done(&all);
}

/* The table row of the instruction that makes an exit of @kind, or NULL. */
static const struct emu_isa_row *row_of(uint8_t kind)
{
	switch ((enum emu_pending_kind)kind) {
	case EMU_PEND_IN:
		return emu_isa_row(ZYDIS_MNEMONIC_IN);
	case EMU_PEND_OUT:
		return emu_isa_row(ZYDIS_MNEMONIC_OUT);
	case EMU_PEND_RDMSR:
		return emu_isa_row(ZYDIS_MNEMONIC_RDMSR);
	case EMU_PEND_WRMSR:
		return emu_isa_row(ZYDIS_MNEMONIC_WRMSR);
	case EMU_PEND_RDPMC:
		return emu_isa_row(ZYDIS_MNEMONIC_RDPMC);
	default:
		return NULL;
	}
}

static bool exit_valid(const struct emu_vcpu *v, const struct state *s)
{
	bool io = s->kind == EMU_PEND_IN || s->kind == EMU_PEND_OUT;

	if (s->kind == EMU_PEND_NONE)
		return !s->size && !s->len;
	if (!row_of(s->kind) || s->halted || !s->len || s->len > 15)
		return false;
	/* RDMSR and WRMSR exit only in CPL 0. */
	if ((s->kind == EMU_PEND_RDMSR || s->kind == EMU_PEND_WRMSR) && s->cpl)
		return false;
	return io ? s->size == 1 || s->size == 2 || s->size == 4 : !s->size;
}

/* Hits are reported by the next #DB at once, unless MOV SS or an exit is in between. */
static bool brk_valid(const struct state *s)
{
	bool io = s->kind == EMU_PEND_IN || s->kind == EMU_PEND_OUT;

	return (!s->ss_shadow || s->sti_shadow) && s->hits < 1u << EMU_NR_BRK &&
	       (!s->hits || s->ss_shadow || io);
}

static bool lapic_valid(const struct emu_vcpu *v, const struct state *s)
{
	const struct lapic *l = &s->lapic;
	struct lapic reset;

	if (!emu_lapic_on(v)) {
		reset_lapic(v, &reset);
		return !memcmp(l, &reset, offsetof(struct lapic, nmi)) && !l->nmi && !l->offered &&
		       !memcmp(l->tmr, reset.tmr, sizeof(l->tmr)) && l->dfr == reset.dfr &&
		       !l->ldr && !l->timer_left && !l->timer_at && !l->tsc_deadline;
	}
	return l->tpr >> 4 == v->cr8 &&
	       emu_irq_settled(l, s->nmi_pending, s->intr_pending, s->intr_vec);
}

static bool valid(const struct emu_vcpu *v, const struct state *s)
{
	const struct kvm_segment *cs = &v->seg[EMU_CS];
	uint64_t xcr0 = emu_xcr0_valid(v->whole, s->simd);

	/* Conforming code runs at the CPL of its caller, which is not below its DPL. */
	if (s->cpl > 3 || ((cs->type & 0xc) == 0xc ? s->cpl < cs->dpl : s->cpl != cs->dpl))
		return false;
	if (!s->intr_pending && s->intr_vec)
		return false;
	if (s->halted && s->cpl)
		return false;
	if (s->fpu.mxcsr & ~v->fpu.mxcsr_mask)
		return false;
	if (!emu_xcr0_ok(s->fpu.xcr0, xcr0) || ((v->cr4 & CR4_OSXSAVE) && !xcr0))
		return false;
	if (!emu_canonical(s->lstar) || !emu_canonical(s->cstar) ||
	    !emu_canonical(s->kernel_gs_base))
		return false;
	if (s->fmask >> 32 || s->tsc_aux >> 32 || !emu_pat_valid(s->pat))
		return false;
	if (!emu_dr_valid(6, s->dr[4]) || !emu_dr_valid(7, s->dr[5]))
		return false;
	return exit_valid(v, s) && brk_valid(s) && lapic_valid(v, s);
}

int emu_set_state(struct vmm_engine_vcpu *ev, const void *buf, size_t bytes)
{
	struct emu_vcpu *v = emu_to_vcpu(ev);
	struct state s;

	if (!state_parse(&s, v, buf, bytes) || !valid(v, &s))
		return -EINVAL;
	if (s.simd & ~vmm_simd_host())
		return -EOPNOTSUPP;
	if (v->whole)
		emu_show_simd(v, s.simd);
	v->cpl = s.cpl;
	v->tlb = v->tlbs[v->cpl == 3];
	v->sti_shadow = s.sti_shadow;
	v->nmi_masked = s.nmi_masked;
	v->nmi_pending = s.nmi_pending;
	v->intr_pending = s.intr_pending;
	v->intr_vec = s.intr_vec;
	v->halted = s.halted;
	v->cycles = s.cycles;
	v->tsc_offset = s.tsc_offset;
	v->star = s.star;
	v->lstar = s.lstar;
	v->cstar = s.cstar;
	v->fmask = s.fmask;
	v->kernel_gs_base = s.kernel_gs_base;
	v->pat = s.pat;
	v->tsc_aux = s.tsc_aux;
	memcpy(v->dr, s.dr, 4 * sizeof(v->dr[0]));
	v->dr[6] = s.dr[4];
	v->dr[7] = s.dr[5];
	v->brk.ss_shadow = s.ss_shadow;
	v->brk.hits = s.hits;
	v->last = s.last;
	emu_debug_update(v);
	s.fpu.mxcsr_mask = v->fpu.mxcsr_mask;
	v->fpu = s.fpu;
	v->lapic = s.lapic;
	v->lapic.tsc_offset = v->tsc_offset;
	if (v->chip)
		emu_plat_set(v, &s.plat);
	if (v->whole)
		v->w = s.w;
	v->pending.kind = s.kind;
	v->pending.size = s.size;
	v->pending.rip = v->rip;
	v->pending.next = v->rip + s.len;
	v->pending.ev = s.kind ? (uint8_t)(row_of(s.kind)->cost << EMU_EV_COST_SHIFT) : 0;
	/* The CPL may differ from the one that set_sregs took from CS. */
	emu_tlb_flush(v);
	return 0;
}
