// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest kernel's handler of performance monitoring interrupts, by NMI or by vector. kernel.c
 * calls it in CPL0 with interrupts off. According to struct guest_pmi, it takes a sample, moves the
 * counter to the next period, acknowledges the status and arms LVTPC again.
 *
 * The handler must never fault: the IRETQ of the fault's handler would unblock NMIs, and the next
 * NMI would overwrite the stack. So pmi_register tries every MSR once before the handler uses it.
 */
#include "guest-tools/kernel.h"

/* SDM vol. 3, 11.12.1.2; LVT entries: 11.5.1 */
#define X2APIC_EOI   0x80bu
#define X2APIC_LVTPC 0x834u
#define LVT_NMI	     (4u << 8)
#define LVT_MASKED   (1u << 16)
#define LVT_WRITABLE 0x107ffu
#define LVTPC_VECTOR GUEST_VEC_PMI

/* SDM vol. 4 table 2-2; 390H is written to clear (STATUS_RESET from version 4 on) */
#define MSR_INTEL_STATUS 0x38eu
#define MSR_INTEL_RESET	 0x390u
/* APM vol. 2, 13.2.4 */
#define MSR_AMD_STATUS	   0xc0000300u
#define MSR_AMD_STATUS_CLR 0xc0000302u

#define COUNTER_BITS ((1ull << 48) - 1) /* status bits of counters; the others are freeze bits */

#define STACK_MAX 64u
#define LBR_MAX	  32u

static uint32_t kernel_pmi_lvtpc(const struct guest_pmi *p)
{
	return p->delivery == GUEST_PMI_VECTOR ? LVTPC_VECTOR : LVT_NMI;
}

static bool lbr_readable(const struct guest_pmi *p)
{
	uint64_t v;

	for (uint32_t i = 0; i < p->lbr_nr; i++) {
		if (msr_read_safe(p->lbr_from + i * p->lbr_stride, &v) ||
		    msr_read_safe(p->lbr_to + i * p->lbr_stride, &v))
			return false;
	}
	return true;
}

/* Returns 0; -1 if an address or size in *pmi is invalid; -2 if an access that the handler needs is
 * #GP. */
int64_t pmi_register(struct percpu *cpu, uint64_t pmi)
{
	struct guest_pmi *p = (struct guest_pmi *)pmi;
	uint64_t v;

	cpu->pmi = NULL;
	cpu->run_flags = 2;
	if (!pmi)
		return 0;
	if (!user_range(cpu, pmi, sizeof(*p)) || p->lbr_nr > LBR_MAX || p->stack_nr > STACK_MAX ||
	    p->sample_bytes != sizeof(struct guest_sample) + 8 * (p->stack_nr + 2 * p->lbr_nr) ||
	    p->max > UINT32_MAX ||
	    (p->max && !user_range(cpu, (uint64_t)p->buf, p->max * p->sample_bytes)))
		return -1;
	if (p->ctr && (p->width < 32 || p->width > 63 || p->status_bit > 63 || !p->period))
		return -1;
	if (p->ctr &&
	    (msr_read_safe(p->ctl, &v) || msr_write_safe(p->ctl, v) || msr_read_safe(p->ctr, &v)))
		return -2;
	if (p->status == GUEST_STATUS_INTEL &&
	    (msr_read_safe(MSR_INTEL_STATUS, &v) || msr_write_safe(MSR_INTEL_RESET, v)))
		return -2;
	if (p->status == GUEST_STATUS_AMD &&
	    (msr_read_safe(MSR_AMD_STATUS, &v) || msr_write_safe(MSR_AMD_STATUS_CLR, v)))
		return -2;
	if (!lbr_readable(p) || msr_write_safe(X2APIC_LVTPC, kernel_pmi_lvtpc(p)))
		return -2;
	if (p->delivery == GUEST_PMI_VECTOR)
		cpu->run_flags = 2 | 1u << 9; /* IF */
	cpu->pmi = p;
	return 0;
}

static void take_lbr(const struct guest_pmi *p, struct guest_sample *s, uint64_t *to)
{
	uint16_t n = 0;

	while (n < p->lbr_nr) {
		to[2 * n] = rdmsr(p->lbr_from + n * p->lbr_stride);
		to[2 * n + 1] = rdmsr(p->lbr_to + n * p->lbr_stride);
		if (!to[2 * n] && !to[2 * n + 1])
			break;
		n++;
	}
	s->nr_lbr = n;
}

static void kernel_pmi_take_sample(const struct percpu *cpu, struct guest_pmi *p,
				   const struct trap_frame *f, uint64_t status)
{
	struct guest_sample *s = (struct guest_sample *)(p->buf + p->samples * p->sample_bytes);
	uint64_t *words = (uint64_t *)(s + 1);
	uint64_t depth = f->rsp <= cpu->run_rsp ? (cpu->run_rsp - f->rsp) / 8 : 0;

	if (p->samples >= p->max)
		return;
	s->ip = f->rip;
	s->rsp = f->rsp;
	s->status = status;
	s->r8 = f->r8;
	s->rdi = f->rdi;
	s->cs = (uint32_t)f->cs;
	s->nr_stack = 0;
	s->nr_lbr = 0;
	if (f->cs & 3 && f->rsp >= USTACK_VA && f->rsp % 8 == 0) {
		while (s->nr_stack < depth && s->nr_stack < p->stack_nr) {
			words[s->nr_stack] = ((const uint64_t *)f->rsp)[s->nr_stack];
			s->nr_stack++;
		}
	}
	if (p->lbr_nr)
		take_lbr(p, s, words + p->stack_nr);
	p->samples++;
}

/* Read and clear the PMU's status. Without a status register the sampled counter has overflowed if
 * its top bit, which the period had set, is clear. */
static uint64_t take_status(const struct guest_pmi *p, uint64_t value)
{
	uint64_t status = 0;

	if (p->status == GUEST_STATUS_INTEL) {
		status = rdmsr(MSR_INTEL_STATUS);
		wrmsr(MSR_INTEL_RESET, status);
	} else if (p->status == GUEST_STATUS_AMD) {
		status = rdmsr(MSR_AMD_STATUS);
		wrmsr(MSR_AMD_STATUS_CLR, status);
	} else if (p->ctr && !(value >> (p->width - 1) & 1)) {
		status = 1ull << p->status_bit;
	}
	return status;
}

static void kernel_pmi_handle(struct percpu *cpu, struct guest_pmi *p, const struct trap_frame *f)
{
	uint64_t ctl = 0, value = 0, status, mask = (1ull << p->width) - 1;

	p->pmis++;
	if (p->ctr) {
		ctl = rdmsr(p->ctl);
		wrmsr(p->ctl, ctl & ~p->ctl_off);
		value = rdmsr(p->ctr) & mask;
	}
	status = take_status(p, value);
	p->status_seen |= status;
	if (!status && p->early && p->status == GUEST_STATUS_AMD)
		p->early--;
	else if (!status)
		p->no_cause++;
	/* AMD does not mask LVTPC. If another counter overflows before the status is read, its PMI
	 * is still pending and will find no status bit. */
	for (uint64_t more = status & COUNTER_BITS; more & (more - 1); more &= more - 1)
		p->early++;
	if (p->ctr && status >> p->status_bit & 1) {
		kernel_pmi_take_sample(cpu, p, f, status);
		for (; value >= p->period && !(value >> (p->width - 1)); value -= p->period)
			p->overruns++;
		wrmsr(p->ctr, (value - p->period) & mask);
	}
	/* Intel masks LVTPC when it delivers a PMI. Writing LVTPC arms it on both vendors. */
	wrmsr(X2APIC_LVTPC, p->keep_lvtpc ? rdmsr(X2APIC_LVTPC) & ~LVT_MASKED & LVT_WRITABLE
					  : kernel_pmi_lvtpc(p));
	if (p->ctr)
		wrmsr(p->ctl, ctl);
}

void pmi_interrupt(struct percpu *cpu, const struct trap_frame *f)
{
	struct guest_pmi *p = cpu->pmi;

	if (p && (f->vector < 32 || f->vector == GUEST_VEC_PMI))
		kernel_pmi_handle(cpu, p, f);
	else if (p)
		p->interrupts++;
	/* A spurious interrupt is not in service (SDM vol. 3, 11.9). */
	if (f->vector >= 32 && f->vector != GUEST_VEC_SPURIOUS)
		wrmsr(X2APIC_EOI, 0);
}
