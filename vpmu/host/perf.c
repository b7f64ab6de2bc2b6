// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The host PMU made of perf events, see hostpmu_perf.h. libvpmu calls it through vpmu_hostpmu_ops,
 * on the thread that these events count; only init and fini run elsewhere. A bound counter is one
 * event per core type (perf_event.c), shared by all consumers of its key.
 *
 * Time without a counter must never be reported as time counted. Every reading from the kernel
 * distinguishes the two. An event that the kernel has stopped for good reads as end of file: its
 * time since the last good reading is a gap, and lost() reports it to libvpmu.
 */
#include "vpmu/hostpmu_perf.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "vpmu/host/perf_priv.h"

/* Ticks after which a parked event is closed. */
#define PARKED_TICKS 64
/* An alarm so far away takes seconds, and ticks come each few milliseconds: it is armed when it is
 * closer. Guests that only count start each counter 2^47 events before its end. */
#define FAR_EVENTS (1ULL << 40)

static struct vpmu_hostpmu_perf *perf(const struct vpmu_hostpmu *pmu)
{
	return (struct vpmu_hostpmu_perf *)pmu;
}

static bool of_thread(const struct vpmu_hostpmu_perf *p)
{
	return p->opts.cpu == VPMU_PERF_THREAD;
}

/* True if the TSC ticks at a constant rate, that of the nominal clock: CPUID 80000007H EDX bit 8
 * (SDM vol. 3, 18.17.1; APM vol. 2, 13.3). */
static bool invariant_tsc(void)
{
#ifdef __x86_64__
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && edx & 1u << 8;
#else
	return false;
#endif
}

/* ---- eligible counters ------------------------------------------------------------------- */

/* The TSC counts time in the guest only, both privilege levels together. */
static bool is_guest_only(vpmu_key_t key, enum vpmu_generic ev)
{
	return key == vpmu_key_generic(ev, VPMU_KEY_USR | VPMU_KEY_OS);
}

static uint32_t hardware_ctrs(const struct vpmu_hostpmu_perf *p, vpmu_key_t key)
{
	const struct vpmu_perf_capacity c = vpmu_perf_capacity();
	unsigned int gp = vpmu_perf_usable(&c, p->opts.leave_counters), i;
	uint32_t ctrs = (uint32_t)vpmu_perf_bits(0, gp < p->room ? gp : p->room);

	for (i = 0; i < c.fixed; i++) {
		if (vpmu_key_space(key) != VPMU_SPACE_GENERIC ||
		    vpmu_key_event(key) != c.fixed_event[i])
			continue;
		/* Intel has no event select for it: only the fixed counter counts it. */
		if (c.fixed_event[i] == VPMU_EV_REF_CYCLES)
			ctrs = 0;
		ctrs |= 1u << (VPMU_PERF_CTR_FIXED + i);
	}
	return ctrs;
}

static uint32_t perf_by_tsc(const struct vpmu_hostpmu_perf *p, vpmu_key_t key)
{
	if (p->opts.guest_tsc && is_guest_only(key, VPMU_EV_REF_CYCLES))
		return 1u << VPMU_PERF_CTR_TSC;
	if (p->opts.nominal_cycles && is_guest_only(key, VPMU_EV_CYCLES))
		return 1u << VPMU_PERF_CTR_NOMINAL;
	return 0;
}

/*
 * vpmu_perf_probe, which opens an event for each key that is new. On the thread that is counted, a
 * guest chooses these: beyond the rate of events the answer is -EAGAIN. Not for the keys that have
 * two ways to be counted.
 */
static int perf_try(struct vpmu_hostpmu_perf *p, vpmu_key_t key)
{
	int rc;

	if (vpmu_perf_probed(key, p->opts.cpu, &rc))
		return rc;
	if (p->tid == vpmu_perf_this_tid() && !perf_by_tsc(p, key) && !vpmu_perf_may_open(p))
		return -EAGAIN;
	return vpmu_perf_probe(key, p->opts.cpu);
}

/* A key is eligible even if counters, files or memory are used up at present: bind refuses until
 * they are available. */
static uint32_t perf_eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	int rc = perf_try(p, key);

	if (!rc || vpmu_perf_passes(rc)) {
		uint32_t ctrs = vpmu_perf_hardware(key)
					? hardware_ctrs(p, key)
					: (uint32_t)vpmu_perf_bits(VPMU_PERF_CTR_SOFTWARE,
								   VPMU_PERF_CTR_TSC -
									   VPMU_PERF_CTR_SOFTWARE);

		if (ctrs)
			return ctrs;
	}
	return perf_by_tsc(p, key);
}

static enum vpmu_quality perf_quality(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	uint32_t ctrs = perf_eligible(pmu, key);

	if (ctrs & 1u << VPMU_PERF_CTR_TSC)
		return VPMU_Q_TSC;
	return ctrs & 1u << VPMU_PERF_CTR_NOMINAL ? VPMU_Q_ESTIMATED : VPMU_Q_EXACT;
}

/* ---- time --------------------------------------------------------------------------------- */

/* The time of now(), without its side effects. Stands still before the thread is set and after it
 * has ended. */
static uint64_t perf_clock_now(const struct vpmu_hostpmu_perf *p)
{
	uint64_t now;

	if (p->held || (of_thread(p) && !p->tid) ||
	    vpmu_perf_sys->clock(of_thread(p) ? p->tid : 0, &now))
		return p->clock_ns;
	now += p->clock_offset;
	return now > p->clock_ns ? now : p->clock_ns;
}

static uint64_t perf_now(const struct vpmu_hostpmu *pmu)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);

	p->clock_ns = perf_clock_now(p);
	p->held = p->hold;
	for (; p->fresh; p->fresh &= p->fresh - 1)
		p->ctr[__builtin_ctz(p->fresh)].seen_ns = p->clock_ns;
	return p->clock_ns;
}

/* ---- reading ------------------------------------------------------------------------------ */

static uint64_t tsc_in_guest(const struct vpmu_hostpmu_perf *p)
{
	return p->opts.guest_tsc(p->opts.arg);
}

int vpmu_perf_this_tid(void)
{
	static __thread int tid;

	if (!tid)
		tid = (int)syscall(SYS_gettid);
	return tid;
}

/* rdpmc reads the current CPU's counter, so it is valid for the calling thread's events only. */
static int read_event(const struct vpmu_hostpmu_perf *p, const struct vpmu_perf_event *e,
		      struct vpmu_perf_reading *r)
{
	return of_thread(p) && vpmu_perf_this_tid() == p->tid ? vpmu_perf_event_read_here(e, r)
							      : vpmu_perf_event_read(e, r);
}

/* Add the time for which @c was throttled since its last reading: the event's own running time
 * includes it. */
static void note_throttled(struct vpmu_hostpmu_perf *p, struct vpmu_perf_ctr *c,
			   uint64_t gap_before)
{
	uint64_t stopped = vpmu_perf_event_stopped(&c->event), since;

	if (!c->based || !stopped)
		return;
	/* Limit: the time for which the thread has run since. */
	p->held = false;
	since = perf_clock_now(p) - c->seen_ns;
	since -= c->gap_ns - gap_before < since ? c->gap_ns - gap_before : since;
	if (stopped > since)
		stopped = since;
	c->gap_ns += stopped;
	c->throttled_ns += stopped;
}

/* Update the times of @c from @r. A gap is part of the time up to now. */
static void note_times(struct vpmu_hostpmu_perf *p, struct vpmu_perf_ctr *c,
		       const struct vpmu_perf_reading *r)
{
	uint64_t gap = r->enabled_ns > r->running_ns ? r->enabled_ns - r->running_ns : 0;
	uint64_t before = c->gap_ns;

	if (!c->based)
		c->base_gap_ns = gap;
	if (gap + c->throttled_ns > c->base_gap_ns + c->gap_ns)
		c->gap_ns = gap + c->throttled_ns - c->base_gap_ns;
	p->held &= c->gap_ns == before;
	c->running_ns = r->running_ns;
	note_throttled(p, c, before);
}

/* The kernel has stopped the event of @c: return its final count. */
static uint64_t lose(struct vpmu_perf_ctr *c)
{
	uint64_t value = c->last;

	if (!c->lost && vpmu_perf_event_last(&c->event, &value) && value < c->last)
		value = c->last;
	c->lost = true;
	return value;
}

static uint64_t perf_read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	struct vpmu_perf_ctr *c = &p->ctr[ctr];
	struct vpmu_perf_reading r;
	int rc;

	if (c->kind != KIND_PERF) {
		c->last = tsc_in_guest(p);
	} else if (!c->lost && (rc = read_event(p, &c->event, &r)) >= 0) {
		if (ctr < VPMU_PERF_CTR_SOFTWARE && c->based &&
		    (rc || r.running_ns > c->running_ns))
			p->counted_ns = p->clock_ns;
		note_times(p, c, &r);
		c->last = r.value;
		p->fresh |= 1u << ctr;
	} else {
		c->last = lose(c);
	}
	if (!c->based) {
		c->base = c->last;
		c->based = true;
	}
	return c->last;
}

static uint64_t perf_gap_ns(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	const struct vpmu_hostpmu_perf *p = perf(pmu);
	const struct vpmu_perf_ctr *c = &p->ctr[ctr];

	/* When the kernel stopped it is unknown. Assume right after the last good reading, so that
	 * no uncounted time is claimed. */
	return c->lost ? c->gap_ns + (perf_clock_now(p) - c->seen_ns) : c->gap_ns;
}

/* True if the host's own work does not count in @key: then its counter stands still between a read
 * and its audit. */
static bool stands_still(vpmu_key_t key)
{
	return !(key & VPMU_KEY_HOST);
}

/*
 * Uses read(2) instead of rdpmc if the two are comparable. A counter that advances meanwhile, such
 * as a clock, is taken as of its last read.
 */
static uint64_t perf_audit(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	const struct vpmu_hostpmu_perf *p = perf(pmu);
	const struct vpmu_perf_ctr *c = &p->ctr[ctr];
	struct vpmu_perf_reading r;

	if (!c->based)
		return 0;
	if (c->kind != KIND_PERF)
		return tsc_in_guest(p) - c->base;
	if (stands_still(c->key) && !c->lost && !vpmu_perf_event_read(&c->event, &r))
		return r.value - c->base;
	return c->last - c->base;
}

/* ---- binding ------------------------------------------------------------------------------ */

static int perf_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	struct vpmu_perf_ctr *c = &p->ctr[ctr % VPMU_MAX_CTRS];
	enum vpmu_perf_kind kind = ctr < VPMU_PERF_CTR_TSC    ? KIND_PERF
				   : ctr == VPMU_PERF_CTR_TSC ? KIND_TSC
							      : KIND_NOMINAL;
	struct vpmu_perf_event e = {0};
	int rc;

	if (ctr >= VPMU_MAX_CTRS || c->kind != KIND_FREE || !(perf_eligible(pmu, key) & 1u << ctr))
		return -EINVAL;
	if (kind == KIND_PERF && of_thread(p) && !p->tid)
		return -EAGAIN;
	rc = kind == KIND_PERF ? vpmu_perf_take(p, &e, key) : 0;
	if (!rc)
		*c = (struct vpmu_perf_ctr){
			.kind = (uint8_t)kind,
			.key = key,
			.event = e,
			.bind = ++p->binds,
			.seen_ns = p->clock_ns,
		};
	return rc;
}

static void perf_arm(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	struct vpmu_perf_ctr *c = &p->ctr[ctr];

	if (c->kind == KIND_PERF) {
		c->due = events < FAR_EVENTS ? 0 : c->last + events;
		events = c->due ? 0 : events;
		if (events || c->armed)
			vpmu_perf_event_arm(&c->event, events);
	} else {
		vpmu_perf_timer_arm(p, ctr - VPMU_PERF_CTR_TSC, events);
	}
	c->armed = events;
}

/* Arm what is not far any more. The tick has read all counters. */
static void arm_near(struct vpmu_hostpmu_perf *p)
{
	for (unsigned int i = 0; i < VPMU_PERF_CTR_TSC; i++) {
		uint64_t left = p->ctr[i].due - p->ctr[i].last;

		if (p->ctr[i].due && left < FAR_EVENTS)
			perf_arm(&p->pmu, i, left);
	}
}

static void perf_unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	struct vpmu_perf_ctr *c = &p->ctr[ctr];

	if (c->armed)
		perf_arm(pmu, ctr, 0);
	if (c->kind == KIND_PERF)
		vpmu_perf_put(p, &c->event, c->lost);
	p->fresh &= ~(1u << ctr);
	memset(c, 0, sizeof(*c));
}

/* ---- events stopped by the kernel --------------------------------------------------------- */

static uint32_t perf_lost(struct vpmu_hostpmu *pmu)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	uint32_t lost = vpmu_perf_group_lost(p);

	for (unsigned int i = 0; i < VPMU_PERF_CTR_TSC; i++) {
		if (p->ctr[i].lost)
			lost |= 1u << i;
	}
	p->polls++;
	arm_near(p);
	vpmu_perf_group_room(p);
	vpmu_perf_close_waiting(p, PARKED_TICKS);
	vpmu_perf_timers_retry(p);
	return lost;
}

static void perf_kick(struct vpmu_hostpmu *pmu)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);

	if (p->opts.kick)
		p->opts.kick(p->opts.arg);
}

#define PERF_OPS                                                                                   \
	.name = "perf", .eligible = perf_eligible, .quality = perf_quality, .bind = perf_bind,     \
	.unbind = perf_unbind, .read = perf_read, .now = perf_now, .gap_ns = perf_gap_ns,          \
	.lost = perf_lost, .audit = perf_audit, .kick = perf_kick
static const struct vpmu_hostpmu_ops perf_ops = {PERF_OPS};
static const struct vpmu_hostpmu_ops perf_alarm_ops = {PERF_OPS, .arm = perf_arm};

/* ---- life --------------------------------------------------------------------------------- */

int vpmu_hostpmu_perf_init(struct vpmu_hostpmu_perf *p, const struct vpmu_hostpmu_perf_opts *opts)
{
	if (opts->cpu < VPMU_PERF_THREAD)
		return -EINVAL;
	if (opts->cpu != VPMU_PERF_THREAD && (opts->guest_tsc || opts->nominal_cycles))
		return -EINVAL;
	if (opts->nominal_cycles && !opts->guest_tsc)
		return -EINVAL;
	if (opts->cpu != VPMU_PERF_THREAD && opts->alarm_signal)
		return -EINVAL;
	if (opts->nominal_cycles && !invariant_tsc())
		return -EOPNOTSUPP;

	vpmu_perf_capacity(); /* not when a key is first used, in a switch */
	memset(p, 0, sizeof(*p));
	p->opts = *opts;
	memset(p->leader, -1, sizeof(p->leader));
	p->room = VPMU_PERF_MAX_GP;
	p->pmu.ops = opts->alarm_signal ? &perf_alarm_ops : &perf_ops;
	if (opts->alarm_signal)
		vpmu_perf_sys->tsc_ns(0); /* start measuring the TSC's rate */
	p->pmu.nr_ctrs = VPMU_MAX_CTRS;
	p->pmu.fixed_mask = (uint32_t)(vpmu_perf_bits(VPMU_PERF_CTR_FIXED, 3) |
				       vpmu_perf_bits(VPMU_PERF_CTR_TSC, 2));
	p->pmu.width_mask = UINT64_MAX; /* the kernel extends counters to 64 bits */
	return 0;
}

void vpmu_hostpmu_perf_set_thread(struct vpmu_hostpmu_perf *p, int tid)
{
	uint64_t now;

	p->tid = tid;
	p->clock_offset = vpmu_perf_sys->clock(tid, &now) ? 0 : p->clock_ns - now; /* it goes on */
}

void vpmu_hostpmu_perf_fini(struct vpmu_hostpmu_perf *p)
{
	for (unsigned int i = 0; i < VPMU_MAX_CTRS; i++)
		perf_unbind(&p->pmu, i);
	vpmu_perf_timers_end(p);
	vpmu_perf_close_waiting(p, 0);
}
