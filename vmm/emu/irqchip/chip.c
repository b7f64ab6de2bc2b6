// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Messages between the local APICs and the I/O APIC of an emulator VM: their destinations, their
 * way to a vCPU that another thread runs, and the effects of INIT and start-up IPIs. SDM vol. 3,
 * 9.4, 11.6. See chip.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/svm/svm.h"

/* Of the ICR: SDM vol. 3, figure 11-28. */
#define ICR_VECTOR(icr)	   ((uint8_t)(icr))
#define ICR_MODE(icr)	   ((unsigned int)((icr) >> 8 & 7))
#define ICR_LOGICAL	   (1ULL << 11)
#define ICR_SHORTHAND(icr) ((icr) >> 18 & 3)
enum { NO_SHORTHAND, SELF, ALL, OTHERS };

int emu_chip_create(struct emu_vm *vm)
{
	struct emu_chip *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	pthread_mutex_init(&c->lock, NULL);
	pthread_mutex_init(&c->ioapic_lock, NULL);
	atomic_init(&c->due, LAPIC_NEVER);
	ioapic_init(&c->ioapic);
	vm->chip = c;
	return 0;
}

void emu_chip_destroy(struct emu_vm *vm)
{
	if (!vm->chip)
		return;
	pthread_mutex_destroy(&vm->chip->lock);
	pthread_mutex_destroy(&vm->chip->ioapic_lock);
	free(vm->chip);
}

int emu_chip_add(struct emu_vcpu *v)
{
	struct emu_chip *c = v->vm->chip;

	if (v->id >= EMU_CHIP_VCPUS || c->vcpu[v->id])
		return -EINVAL;
	v->chip = c;
	lapic_init_full(&v->lapic, v->id, false);
	emu_chip_address(v);
	emu_chip_timer(v);
	v->plat.sleep_due = LAPIC_NEVER;
	v->plat.wait_sipi = v->id != 0;
	pthread_mutex_lock(&c->lock);
	c->vcpu[v->id] = v;
	if (v->id >= c->nr)
		c->nr = v->id + 1;
	emu_chip_end_idle(c);
	c->awake++;
	pthread_mutex_unlock(&c->lock);
	return 0;
}

void emu_chip_remove(struct emu_vcpu *v)
{
	struct emu_chip *c = v->chip;

	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	if (!atomic_load(&v->plat.asleep))
		c->awake--;
	c->vcpu[v->id] = NULL;
	pthread_mutex_unlock(&c->lock);
}

void emu_chip_address(struct emu_vcpu *v)
{
	atomic_store(&v->plat.address, emu_lapic_on(v) ? lapic_address(&v->lapic) : 0);
}

/* ---- posting ---- */

static void post_init(struct emu_vcpu *v)
{
	uint32_t old = atomic_load(&v->plat.signals);

	/* Events before the INIT are lost with it. */
	while (!atomic_compare_exchange_weak(&v->plat.signals, &old, EMU_POST_INIT))
		;
}

static void post_sipi(struct emu_vcpu *v, uint8_t vector)
{
	uint32_t old = atomic_load(&v->plat.signals);

	do {
		if (old & EMU_POST_SIPI)
			return; /* a second one is ignored */
	} while (!atomic_compare_exchange_weak(
		&v->plat.signals, &old, old | EMU_POST_SIPI | (uint32_t)vector << EMU_POST_VECTOR));
}

static void post(struct emu_vcpu *v, unsigned int mode, uint8_t vector, bool level,
		 struct emu_wakes *w)
{
	uint32_t bit = 1u << vector % 32;

	switch (mode) {
	case EMU_MODE_FIXED:
	case EMU_MODE_LOWEST:
		atomic_fetch_or(level ? &v->plat.posted_level[vector / 32]
				      : &v->plat.posted[vector / 32],
				bit);
		break;
	case EMU_MODE_NMI:
		atomic_fetch_or(&v->plat.signals, EMU_POST_NMI);
		break;
	case EMU_MODE_INIT:
		post_init(v);
		break;
	case EMU_MODE_SIPI:
		post_sipi(v, vector);
		break;
	default:
		return; /* SMI: there is no SMM. ExtINT: there is no PIC */
	}
	w->effort += EMU_EFFORT_POST;
	/* Pairs with emu_chip_halt(): either it sees posted_any, or this thread sees asleep. */
	atomic_store(&v->plat.posted_any, true);
	if (atomic_load(&v->plat.asleep))
		w->bits[v->id / 64] |= 1ULL << v->id % 64;
}

struct message {
	uint32_t dest;
	unsigned int mode;
	uint8_t vector;
	bool logical, x2, level;
};

static bool is_for(const struct emu_vcpu *v, const struct message *m)
{
	uint64_t address = atomic_load(&v->plat.address);

	if (!address || !lapic_matches(address, m->dest, m->logical, m->x2))
		return false;
	return m->mode != EMU_MODE_LOWEST || lapic_address_enabled(address);
}

/*
 * Send to all destinations of @m. Returns false if there is none. If several match a
 * lowest-priority message, its vector picks one: the choice is model-specific (11.6.2.4), and
 * kernels that use this mode leave all priorities equal.
 */
static bool send(struct emu_chip *c, const struct message *m, struct emu_wakes *w)
{
	unsigned int n = 0, chosen = 0;

	w->effort += c->nr * EMU_EFFORT_LOOK;
	for (unsigned int i = 0; i < c->nr; i++)
		n += c->vcpu[i] && is_for(c->vcpu[i], m);
	if (!n)
		return false;
	if (m->mode == EMU_MODE_LOWEST)
		chosen = m->vector % n;
	for (unsigned int i = 0; i < c->nr; i++) {
		struct emu_vcpu *v = c->vcpu[i];

		if (!v || !is_for(v, m))
			continue;
		if (m->mode != EMU_MODE_LOWEST || !chosen--)
			post(v, m->mode, m->vector, m->level, w);
	}
	return true;
}

/* Send the IPI that the guest wrote to the APIC of @v. */
static void send_ipi(struct emu_vcpu *v, struct emu_wakes *w)
{
	uint64_t icr = v->lapic.icr_sent;
	struct emu_chip *c = v->chip;
	struct message m = {
		.dest = (uint32_t)(icr >> (v->lapic.x2 ? 32 : 56)),
		.mode = ICR_MODE(icr),
		.vector = ICR_VECTOR(icr),
		.logical = icr & ICR_LOGICAL,
		.x2 = v->lapic.x2,
	};

	switch (ICR_SHORTHAND(icr)) {
	case NO_SHORTHAND:
		send(c, &m, w);
		break;
	case SELF:
		post(v, m.mode, m.vector, false, w);
		break;
	case ALL:
	case OTHERS:
		w->effort += c->nr * EMU_EFFORT_LOOK;
		for (unsigned int i = 0; i < c->nr; i++)
			if (c->vcpu[i] && atomic_load(&c->vcpu[i]->plat.address) &&
			    (c->vcpu[i] != v || ICR_SHORTHAND(icr) == ALL))
				post(c->vcpu[i], m.mode, m.vector, false, w);
		break;
	}
}

/* ---- the I/O APIC ---- */

/* Only under ioapic_lock. */
static void send_pins(struct emu_chip *c, uint32_t pins, struct emu_wakes *w)
{
	for (; pins; pins &= pins - 1) {
		unsigned int pin = (unsigned int)__builtin_ctz(pins);
		struct ioapic_message im = ioapic_message(&c->ioapic, pin);
		struct message m = {
			.dest = im.dest,
			.mode = im.mode,
			.vector = im.vector,
			.logical = im.logical,
			.level = im.level,
		};

		if (!send(c, &m, w))
			ioapic_refused(&c->ioapic, pin);
	}
}

int emu_chip_line(struct emu_chip *c, unsigned int pin, bool level)
{
	struct emu_wakes w = {0};

	if (!c || pin >= IOAPIC_PINS)
		return -ENXIO;
	pthread_mutex_lock(&c->ioapic_lock);
	send_pins(c, ioapic_line(&c->ioapic, pin, level), &w);
	pthread_mutex_unlock(&c->ioapic_lock);
	atomic_fetch_add_explicit(&c->line_effort, w.effort, memory_order_relaxed);
	emu_chip_wake(c, &w);
	return 0;
}

uint32_t emu_chip_ioapic_read(struct emu_chip *c, uint32_t offset)
{
	uint32_t val;

	pthread_mutex_lock(&c->ioapic_lock);
	val = ioapic_read(&c->ioapic, offset);
	pthread_mutex_unlock(&c->ioapic_lock);
	return val;
}

void emu_chip_ioapic_write(struct emu_vcpu *v, uint32_t offset, uint32_t val)
{
	struct emu_chip *c = v->chip;
	struct emu_wakes w = {0};

	pthread_mutex_lock(&c->ioapic_lock);
	send_pins(c, ioapic_write(&c->ioapic, offset, val), &w);
	pthread_mutex_unlock(&c->ioapic_lock);
	v->extra += w.effort;
	emu_chip_wake(c, &w);
}

void emu_chip_after(struct emu_vcpu *v)
{
	struct emu_chip *c = v->chip;
	struct lapic *l = &v->lapic;
	struct emu_wakes w = {0};

	emu_chip_address(v);
	emu_chip_timer(v);
	if (l->sends)
		send_ipi(v, &w);
	if (l->ended) {
		v->extra += EMU_EFFORT_PINS;
		pthread_mutex_lock(&c->ioapic_lock);
		send_pins(c, ioapic_eoi(&c->ioapic, l->ended), &w);
		pthread_mutex_unlock(&c->ioapic_lock);
	}
	v->extra += w.effort;
	l->sends = false;
	l->ended = 0;
	emu_chip_wake(c, &w);
	emu_chip_take(v); /* IPIs to itself arrive at once */
}

/* ---- taking ---- */

static void take_words(struct emu_vcpu *v, _Atomic uint32_t *words, bool level)
{
	for (unsigned int i = 0; i < 8; i++) {
		uint32_t set = atomic_load_explicit(&words[i], memory_order_relaxed)
				       ? atomic_exchange(&words[i], 0)
				       : 0;

		for (; set; set &= set - 1)
			lapic_accept(&v->lapic, i * 32 + (unsigned int)__builtin_ctz(set), level);
	}
}

void emu_chip_take(struct emu_vcpu *v)
{
	uint32_t signals;

	if (!emu_chip_posted(v) || !atomic_exchange(&v->plat.posted_any, false))
		return;
	v->extra += EMU_EFFORT_TAKE;
	take_words(v, v->plat.posted, false);
	take_words(v, v->plat.posted_level, true);
	signals = atomic_fetch_and(&v->plat.signals, ~EMU_POST_NMI);
	if ((signals & EMU_POST_NMI) && !v->plat.wait_sipi)
		v->lapic.nmi = true;
	if (signals & ~EMU_POST_NMI) { /* left for emu_chip_signals() */
		atomic_store(&v->plat.posted_any, true);
		v->attn |= EMU_ATTN_EVENT;
	}
	emu_irq_update(v);
}

/* INIT: SDM vol. 3, table 9-1 and 11.4.7.3. The PMU's registers, the TSC and the MSRs are
 * unchanged. */
static void irqchip_chip_init(struct emu_vcpu *v)
{
	uint64_t apic_base = v->apic_base, pat = v->pat, cr0 = v->cr0;
	const struct kvm_cpuid_entry2 *sig = NULL;
	bool x2 = v->lapic.x2;

	for (size_t i = 0; i < v->nr_cpuid; i++)
		if (v->cpuid[i].function == 1)
			sig = &v->cpuid[i];
	emu_svm_reset(v);
	emu_reset(v);
	v->apic_base = apic_base;
	v->pat = pat;
	v->cr0 = 0x10 | (cr0 & 0x60000000); /* CD and NW are unchanged */
	for (int i = 0; i <= 15; i++)
		v->r[i] = 0;
	v->r[EMU_FSBASE] = v->r[EMU_GSBASE] = 0;
	v->r[EMU_RDX] = sig ? sig->eax : 0;
	emu_put_rflags(v, 2);
	v->seg[EMU_CS].selector = 0xf000;
	v->seg[EMU_CS].base = 0xffff0000;
	v->cr2 = v->cr3 = v->cr4 = v->cr8 = v->efer = 0;
	for (int i = 0; i < 4; i++)
		v->dr[i] = 0;
	v->cpl = 0;
	v->tlb = v->tlbs[0];
	v->pending.kind = EMU_PEND_NONE;
	v->halted = v->sti_shadow = v->nmi_masked = false;
	v->nmi_pending = v->intr_pending = false;
	lapic_init_full(&v->lapic, v->id, v->lapic.deadline);
	v->lapic.x2 = x2;
	emu_chip_address(v);
	emu_chip_timer(v);
	emu_cache_reset(v);
	emu_tlb_flush(v);
}

void emu_chip_signals(struct emu_vcpu *v)
{
	uint32_t signals;

	if (!emu_chip_posted(v))
		return;
	emu_chip_take(v);
	signals = atomic_exchange(&v->plat.signals, 0);
	if (signals & EMU_POST_INIT) {
		irqchip_chip_init(v);
		/* The processor that boots the system goes to the reset vector. */
		v->plat.wait_sipi = v->id != 0;
	}
	if ((signals & EMU_POST_SIPI) && v->plat.wait_sipi) {
		uint32_t vector = signals >> EMU_POST_VECTOR;

		v->plat.wait_sipi = false;
		v->seg[EMU_CS].selector = (uint16_t)(vector << 8);
		v->seg[EMU_CS].base = vector << 12;
		v->rip = 0;
	}
	if (signals & EMU_POST_NMI && !v->plat.wait_sipi)
		v->lapic.nmi = true;
	emu_irq_update(v);
}
