// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clock of an emulator VM with interrupt controllers, and its halted vCPUs ("Halted vCPUs" in
 * vmm/engine/engine.h). See chip.h.
 *
 * A vCPU's own time is plat.ahead + cycles. Between runs it stands still. chip.now is the largest
 * own time of any vCPU. A vCPU that starts to run, or reads the clock, catches up with it. So time
 * advances with the vCPU that is ahead, and no vCPU sees it go back. From when all vCPUs sleep
 * until the first one runs again, chip.now is the time at which the last one fell asleep, and the
 * waker's clock gives the time since then. A woken vCPU may wait long for its pCPU; with a clock
 * that stands still during the wait, an idle VM would lose time at each of its timers.
 *
 * A timer that is due stops its vCPU exactly after the instruction that passes its time, for any
 * slice length: emu_chip_limit() works like alarm.c. The timer of a sleeping vCPU stops the running
 * vCPU in the same way, which then wakes the sleeper.
 */
#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/svm/svm.h"

/* ---- the clock ---- */

uint64_t emu_chip_now(struct emu_vcpu *v, uint64_t cycles)
{
	_Atomic uint64_t *clock = &v->chip->now;
	uint64_t own = v->plat.ahead + v->cycles + cycles, now = atomic_load(clock);

	while (now < own)
		if (atomic_compare_exchange_weak(clock, &now, own))
			return own;
	v->plat.ahead += now - own;
	return now;
}

/* Only under the lock. */
static uint64_t emu_clock_now(struct emu_chip *c)
{
	uint64_t now = atomic_load(&c->now), from = atomic_load(&c->idle_from);

	if (from && c->waker.time)
		now += c->waker.time(c->waker.arg) - from;
	return now;
}

uint64_t emu_chip_base(struct emu_chip *c)
{
	uint64_t now;

	pthread_mutex_lock(&c->lock);
	now = emu_clock_now(c);
	pthread_mutex_unlock(&c->lock);
	return now;
}

/* ---- sleeping vCPUs; only under the lock ---- */

/* The time at which the first timer of the sleeping vCPUs is due. */
static uint64_t first_due(const struct emu_chip *c)
{
	uint64_t due = LAPIC_NEVER;

	for (unsigned int i = 0; i < c->nr; i++) {
		const struct emu_vcpu *v = c->vcpu[i];

		if (v && atomic_load(&v->plat.asleep) && v->plat.sleep_due < due)
			due = v->plat.sleep_due;
	}
	return due;
}

static void awaken(struct emu_chip *c, struct emu_vcpu *v)
{
	c->awake++;
	atomic_store(&v->plat.asleep, false);
	atomic_store(&c->due, first_due(c));
}

/* All vCPUs sleep from now on. */
static void begin_idle(struct emu_chip *c)
{
	atomic_store(&c->now, emu_clock_now(c)); /* a woken vCPU may have ended before it ran */
	atomic_store(&c->idle_from, c->waker.time ? c->waker.time(c->waker.arg) : 0);
}

/* If a VM has not run for so long although a timer was due, its process or the host was stopped. */
#define STOPPED_NS 1000000000ULL

/* All vCPUs slept, and one is about to run. Report to the guest if its VM was stopped. */
static void tell_if_stopped(struct emu_chip *c)
{
	uint64_t now = emu_clock_now(c), due = LAPIC_NEVER;

	/* Woken vCPUs that wait for their pCPU are no longer asleep. */
	for (unsigned int i = 0; i < c->nr; i++)
		if (c->vcpu[i] && c->vcpu[i]->plat.sleep_due < due)
			due = c->vcpu[i]->plat.sleep_due;
	if (now < due || now - due < STOPPED_NS)
		return;
	for (unsigned int i = 0; i < c->nr; i++)
		if (c->vcpu[i])
			emu_whole_stopped(c->vcpu[i]);
}

/* A vCPU runs from now on. */
void emu_chip_end_idle(struct emu_chip *c)
{
	if (atomic_load(&c->idle_from))
		tell_if_stopped(c);
	atomic_store(&c->now, emu_clock_now(c));
	atomic_store(&c->idle_from, 0);
}

/* When clock_expire() must be called; 0: never, or there is no waker. */
static uint64_t wake_time(const struct emu_chip *c)
{
	uint64_t due = atomic_load(&c->due), now = atomic_load(&c->now);
	uint64_t from = atomic_load(&c->idle_from);

	if (c->awake || !from || due == LAPIC_NEVER)
		return 0;
	due = due > now ? due - now : 0;
	return due < LAPIC_NEVER - from ? from + due : LAPIC_NEVER;
}

/* Returns true if nothing can ever wake any vCPU. An interrupt does not wake a vCPU that masks
 * it. */
static bool dead(struct emu_chip *c)
{
	enum ioapic_open open;
	bool any = false;

	pthread_mutex_lock(&c->ioapic_lock);
	open = ioapic_open(&c->ioapic);
	pthread_mutex_unlock(&c->ioapic_lock);
	for (unsigned int i = 0; i < c->nr; i++) {
		const struct emu_vcpu *v = c->vcpu[i];

		if (v && v->plat.sleep_open)
			any |= v->plat.sleep_due != LAPIC_NEVER || open == IOAPIC_OPEN;
	}
	return !any && open != IOAPIC_OPEN_ALWAYS;
}

/* Add the vCPUs with due timers to *w, and mark them awake. */
static void wake_due(struct emu_chip *c, uint64_t now, struct emu_wakes *w)
{
	for (unsigned int i = 0; i < c->nr; i++) {
		struct emu_vcpu *v = c->vcpu[i];

		if (!v || !atomic_load(&v->plat.asleep) || v->plat.sleep_due > now)
			continue;
		awaken(c, v);
		w->bits[i / 64] |= 1ULL << i % 64;
	}
}

/* ---- waking ---- */

static void call_waker(const struct vmm_waker *waker, const struct emu_wakes *w)
{
	if (!waker->wake)
		return;
	for (unsigned int i = 0; i < 4; i++)
		for (uint64_t bits = w->bits[i]; bits; bits &= bits - 1)
			waker->wake(waker->arg, i * 64 + (unsigned int)__builtin_ctzll(bits));
}

static bool none(const struct emu_wakes *w)
{
	return !(w->bits[0] | w->bits[1] | w->bits[2] | w->bits[3]);
}

void emu_chip_wake(struct emu_chip *c, const struct emu_wakes *w)
{
	struct vmm_waker waker;

	if (none(w))
		return;
	pthread_mutex_lock(&c->lock);
	for (unsigned int i = 0; i < c->nr; i++)
		if ((w->bits[i / 64] >> i % 64 & 1) && c->vcpu[i] &&
		    atomic_load(&c->vcpu[i]->plat.asleep))
			awaken(c, c->vcpu[i]);
	waker = c->waker;
	pthread_mutex_unlock(&c->lock);
	call_waker(&waker, w);
}

/* @now: a running vCPU has reached the time at which a timer of a sleeping one is due; 0: if all
 * sleep, those that are due by the waker's clock. Returns when to call it again, 0: never. */
static uint64_t clock_expire(struct emu_chip *c, uint64_t now)
{
	struct emu_wakes w = {0};
	struct vmm_waker waker;
	uint64_t next;

	pthread_mutex_lock(&c->lock);
	if (now || !c->awake)
		wake_due(c, now ? now : emu_clock_now(c), &w);
	next = wake_time(c);
	waker = c->waker;
	pthread_mutex_unlock(&c->lock);
	call_waker(&waker, &w);
	return next;
}

void emu_chip_expire(struct emu_chip *c, uint64_t *next)
{
	*next = clock_expire(c, 0);
}

void emu_chip_waker(struct emu_chip *c, const struct vmm_waker *w)
{
	pthread_mutex_lock(&c->lock);
	emu_chip_end_idle(c);
	c->waker = w ? *w : (struct vmm_waker){0};
	if (!c->awake)
		begin_idle(c);
	pthread_mutex_unlock(&c->lock);
}

/* ---- a vCPU runs, halts, ends ---- */

void emu_chip_enter(struct emu_vcpu *v)
{
	struct emu_chip *c = v->chip;

	if (atomic_load(&v->plat.asleep) || atomic_load(&c->idle_from)) {
		pthread_mutex_lock(&c->lock);
		if (atomic_load(&v->plat.asleep))
			awaken(c, v);
		if (atomic_load(&c->idle_from))
			emu_chip_end_idle(c);
		pthread_mutex_unlock(&c->lock);
	}
	emu_chip_now(v, 0);
	emu_chip_signals(v);
}

bool emu_chip_poll(struct emu_vcpu *v)
{
	uint64_t now = emu_chip_now(v, 0);

	if (unlikely(now >= v->plat.timer_due)) {
		v->extra += EMU_EFFORT_CLOCK;
		v->lapic.now = now;
		v->lapic.tsc_offset = v->tsc_offset;
		lapic_timer_expire(&v->lapic);
		emu_chip_timer(v);
		emu_irq_update(v);
	}
	if (unlikely(now >= atomic_load_explicit(&v->chip->due, memory_order_relaxed)))
		clock_expire(v->chip, now);
	if (unlikely(emu_chip_posted(v))) {
		emu_chip_take(v);
		return atomic_load(&v->plat.signals) & (EMU_POST_INIT | EMU_POST_SIPI);
	}
	return false;
}

int64_t emu_chip_limit(struct emu_vcpu *v, const struct emu_block *b, int64_t n, bool *armed)
{
	uint64_t due = atomic_load_explicit(&v->chip->due, memory_order_relaxed);
	uint64_t own = v->plat.ahead + v->cycles;

	if (v->plat.timer_due < due)
		due = v->plat.timer_due;
	due = due > own ? due - own : 1;
	v->plat.stop_cycles = due < LAPIC_NEVER - v->cycles ? v->cycles + due : LAPIC_NEVER;
	return emu_deadline_limit(v, b, n, due, armed);
}

void emu_chip_timer(struct emu_vcpu *v)
{
	uint64_t due = lapic_timer_due(&v->lapic);

	/* The chunk's limit is out of date. */
	if (due < v->plat.timer_due)
		v->attn |= EMU_ATTN_EVENT;
	v->plat.timer_due = due;
}

bool emu_chip_halt(struct emu_vcpu *v)
{
	struct emu_chip *c = v->chip;
	struct vmm_run *run = v->run;
	struct emu_wakes others = {0};
	struct vmm_waker waker;
	bool open = !v->plat.wait_sipi && !v->gif_clear &&
		    (v->guest ? emu_svm_open(v) : !!(v->rflags & EMU_IF));

	emu_chip_now(v, 0);
	pthread_mutex_lock(&c->lock);
	v->plat.sleep_open = open;
	v->plat.sleep_due = open ? v->plat.timer_due : LAPIC_NEVER;
	atomic_store(&v->plat.asleep, true);
	/* Pairs with post(): one of both sees the other's store. */
	if (atomic_load(&v->plat.posted_any)) {
		atomic_store(&v->plat.asleep, false);
		pthread_mutex_unlock(&c->lock);
		return false;
	}
	c->awake--;
	atomic_store(&c->due, first_due(c));
	if (!c->awake)
		begin_idle(c);
	run->exit = VMM_EXIT_HLT;
	run->u.hlt.waits = c->awake || !dead(c);
	run->u.hlt.deadline = wake_time(c);
	waker = c->waker;
	if (!run->u.hlt.waits) /* the others must return this, too */
		for (unsigned int i = 0; i < c->nr; i++)
			if (c->vcpu[i] && c->vcpu[i] != v)
				others.bits[i / 64] |= 1ULL << i % 64;
	pthread_mutex_unlock(&c->lock);
	call_waker(&waker, &others);
	return true;
}

void emu_chip_retire(struct emu_vcpu *v, uint64_t *next)
{
	struct emu_chip *c = v->chip;

	pthread_mutex_lock(&c->lock);
	v->plat.sleep_open = false;
	v->plat.sleep_due = LAPIC_NEVER;
	if (!atomic_load(&v->plat.asleep)) {
		atomic_store(&v->plat.asleep, true);
		c->awake--;
		if (!c->awake)
			begin_idle(c);
	}
	atomic_store(&c->due, first_due(c));
	*next = wake_time(c);
	pthread_mutex_unlock(&c->lock);
}
