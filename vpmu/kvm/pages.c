// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Counters on vpmud's pages; see pages.h. All operations are the thread's that is counted, but for
 * those that hostpmu.h has for any thread.
 *
 * Time without a counter must never be time counted. When a page has ended, or has a gap, all of
 * the time since the last good reading is one.
 */
#include "vpmu/kvm/pages.h"

#include <errno.h>
#include <string.h>

#include "vpmu/host/perf_priv.h"

/* CPU time of a thread without a charge after which its page is taken for abandoned. */
#define PAGES_DEAD_NS 100000000ull

#define PAGES_SOFTWARE (((1u << VPMU_PERF_CTR_TSC) - 1) & ~((1u << VPMU_PERF_CTR_SOFTWARE) - 1))

static struct kvm_pages *pages_of(const struct vpmu_hostpmu *pmu)
{
	return (struct kvm_pages *)pmu;
}

static bool pages_is_owner(const struct kvm_pages *p)
{
	return p->thread && p->tid == vpmu_perf_this_tid();
}

/* ---- time --------------------------------------------------------------- */

static void pages_advance(struct kvm_pages *p, uint64_t now)
{
	if (now > p->clock_ns)
		p->clock_ns = now;
}

static bool pages_ended(const struct vpmu_totals *page)
{
	return __atomic_load_n(&page->ended, __ATOMIC_ACQUIRE);
}

/* Returns false if the clock of @page cannot be used. */
static bool pages_time(const struct vpmu_totals *page, uint64_t *ns)
{
	struct vpmu_row row;
	__u64 time_ns;

	if (pages_ended(page) || vpmu_totals_read(page, 0, &row, &time_ns))
		return false;
	*ns = time_ns;
	return true;
}

/* Set now() by the thread's CPU time; then it goes on by the clock of a page, if there is one and
 * no counter needs the other. Takes a system call. */
static void pages_sync(struct kvm_pages *p)
{
	uint64_t now = p->perf->pmu.ops->now(&p->perf->pmu), page_ns;

	pages_advance(p, now);
	p->by = NULL;
	for (unsigned int i = 0; i < VPMU_MAX_CTRS && !p->nr_perf && !p->by; i++)
		if (p->ctr[i].kind == PAGES_SHARED && !p->ctr[i].ended &&
		    !pages_ended(p->ctr[i].use.page))
			p->by = p->ctr[i].use.page;
	if (!p->by)
		return;
	if (pages_time(p->by, &page_ns)) {
		p->offset_ns = now - page_ns; /* not clock_ns: it would stay ahead */
		p->synced_ns = page_ns;
	} else {
		p->by = NULL;
	}
}

/*
 * At a tick: the two clocks differ a little. If the page's has stood still for long, it is not
 * written any more and does not say so: the program was taken off the kernel without vpmud, pins
 * and all. It would have charged the thread at each switch and return of KVM_RUN. A counter may be
 * bound to it again, and again it takes so long to see.
 */
static void pages_check(struct kvm_pages *p)
{
	uint64_t page_ns;

	if (!p->by)
		return;
	if (pages_time(p->by, &page_ns) && page_ns == p->synced_ns) {
		if (p->perf->pmu.ops->now(&p->perf->pmu) < page_ns + p->offset_ns + PAGES_DEAD_NS)
			return;
		for (unsigned int i = 0; i < VPMU_MAX_CTRS; i++)
			if (p->ctr[i].kind == PAGES_SHARED && p->ctr[i].use.page == p->by)
				p->ctr[i].ended = true;
	}
	pages_sync(p);
}

static uint64_t pages_now(const struct vpmu_hostpmu *pmu)
{
	struct kvm_pages *p = pages_of(pmu);
	uint64_t page_ns;

	if (!p->by)
		pages_advance(p, p->perf->pmu.ops->now(&p->perf->pmu));
	else if (pages_time(p->by, &page_ns))
		pages_advance(p, page_ns + p->offset_ns);
	else
		pages_sync(p);
	for (; p->fresh; p->fresh &= p->fresh - 1)
		p->ctr[__builtin_ctz(p->fresh)].seen_ns = p->clock_ns;
	return p->clock_ns;
}

/* ---- what can be counted ------------------------------------------------ */

static bool pages_could_share(vpmu_key_t key)
{
	return vpmu_key_space(key) != VPMU_SPACE_SCHED;
}

/* Counting by the TSC needs no event, and its quality is another one: such keys are not shared. */
static uint32_t pages_eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	struct kvm_pages *p = pages_of(pmu);
	uint32_t ctrs = p->perf->pmu.ops->eligible(&p->perf->pmu, key);

	if (ctrs >> VPMU_PERF_CTR_TSC || !pages_could_share(key) || !pages_is_owner(p))
		return ctrs;
	return share_ask(p->thread, key, p->access) ? ctrs | PAGES_SOFTWARE : ctrs;
}

static enum vpmu_quality pages_quality(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	struct kvm_pages *p = pages_of(pmu);

	return p->perf->pmu.ops->quality(&p->perf->pmu, key);
}

/* ---- reading ------------------------------------------------------------ */

/* All time since the last good reading is without a counter. */
static void pages_gap(struct kvm_pages *p, struct kvm_pages_ctr *c)
{
	uint64_t now = p->clock_ns;

	if (now > c->seen_ns)
		c->gap_ns += now - c->seen_ns;
	c->seen_ns = now;
}

static uint64_t pages_read_shared(struct kvm_pages *p, unsigned int ctr)
{
	struct kvm_pages_ctr *c = &p->ctr[ctr];
	struct vpmu_row row;
	__u64 time_ns;
	bool ended, good, other;

	/* A reading that no now() has followed: its time is that of the one before. */
	p->fresh &= ~(1u << ctr);
	if (c->ended)
		return c->last;
	good = !vpmu_totals_read(c->use.page, c->use.slot, &row, &time_ns);
	/* After the totals. The slot of a bind that has ended may count another key by now, unless
	 * the page has ended as well. */
	other = atomic_load(&c->use.share->bind) != c->use.bind;
	ended = pages_ended(c->use.page);
	good &= ended || !other;
	ended |= other;
	if (good && (row.total < c->last || row.lost < c->lost_ns)) {
		good = false; /* it is no page of totals */
		ended = true;
	}
	if (good)
		c->last = row.total;
	if (ended) {
		c->ended = true;
		if (c->use.page == p->by)
			pages_sync(p);
	}
	if (good && !ended) {
		uint64_t gaps = __atomic_load_n(&c->use.page->gaps, __ATOMIC_RELAXED);

		if (gaps != c->gaps) {
			pages_now(&p->pmu);
			pages_gap(p, c);
		} else {
			c->gap_ns += row.lost - c->lost_ns;
			/* Without a charge since the last reading nothing shows that it goes on. */
			if (time_ns != c->page_ns)
				p->fresh |= 1u << ctr;
		}
		c->gaps = gaps;
		c->lost_ns = row.lost;
		c->page_ns = time_ns;
	}
	return c->last;
}

static uint64_t pages_read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct kvm_pages *p = pages_of(pmu);

	return p->ctr[ctr].kind == PAGES_SHARED ? pages_read_shared(p, ctr)
						: p->perf->pmu.ops->read(&p->perf->pmu, ctr);
}

static uint64_t pages_gap_ns(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct kvm_pages *p = pages_of(pmu);
	struct kvm_pages_ctr *c = &p->ctr[ctr];
	uint64_t most = p->clock_ns - c->bound_ns;

	if (c->kind != PAGES_SHARED)
		return p->perf->pmu.ops->gap_ns(&p->perf->pmu, ctr);
	if (c->ended)
		pages_gap(p, c);
	return c->gap_ns < most ? c->gap_ns : most;
}

static uint64_t pages_audit(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct kvm_pages *p = pages_of(pmu);
	const struct kvm_pages_ctr *c = &p->ctr[ctr];

	return c->kind == PAGES_SHARED ? c->last - c->base
				       : p->perf->pmu.ops->audit(&p->perf->pmu, ctr);
}

/* ---- alarms ------------------------------------------------------------- */

/* Open the event that interrupts for @c. 0; -EAGAIN: perhaps later. */
static int pages_event(struct kvm_pages *p, struct kvm_pages_ctr *c)
{
	const struct vpmu_perf_where where = {
		.tid = p->tid, .cpu = -1, .enabled = true, .alarm_signal = p->alarm_signal};
	int rc = vpmu_perf_event_open(&c->event, c->key, &where), fd;

	if (rc != -EACCES && rc != -EPERM)
		return vpmu_perf_passes(rc) ? -EAGAIN : rc;
	fd = share_event(p->thread, c->use.share, p->access);
	if (fd < 0)
		return fd;
	c->event = (struct vpmu_perf_event){.key = c->key, .nr = 1, .fd = {fd}};
	rc = vpmu_perf_sys->notify(fd, p->tid, p->alarm_signal);
	if (!rc)
		rc = vpmu_perf_event_enable(&c->event, true);
	if (rc)
		vpmu_perf_event_close(&c->event);
	return rc;
}

static void pages_arm_shared(struct kvm_pages *p, struct kvm_pages_ctr *c)
{
	if (c->due && c->use.page && !c->event.nr && !c->event_error) {
		int rc = pages_event(p, c);

		c->event_error = rc == -EAGAIN ? 0 : rc;
	}
	c->armed = c->event.nr;
	if (c->armed)
		vpmu_perf_event_arm(&c->event, !c->due		  ? 0
					       : c->due > c->last ? c->due - c->last
								  : 1);
}

static void pages_arm(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events)
{
	struct kvm_pages *p = pages_of(pmu);
	struct kvm_pages_ctr *c = &p->ctr[ctr];

	if (c->kind != PAGES_SHARED) {
		p->perf->pmu.ops->arm(&p->perf->pmu, ctr, events);
		return;
	}
	c->due = events ? c->last + events : 0;
	pages_arm_shared(p, c);
}

/* ---- binding ------------------------------------------------------------ */

static bool pages_needs_perf_clock(unsigned int ctr)
{
	return ctr < VPMU_PERF_CTR_TSC;
}

static int pages_bind_perf(struct kvm_pages *p, unsigned int ctr, vpmu_key_t key)
{
	int rc;

	/* Only its own counters: it checks the number. */
	rc = p->perf->pmu.ops->bind(&p->perf->pmu, ctr, key);
	if (rc)
		return rc;
	p->ctr[ctr] = (struct kvm_pages_ctr){.kind = PAGES_PERF, .key = key};
	if (pages_needs_perf_clock(ctr) && !p->nr_perf++)
		pages_sync(p);
	return 0;
}

/* By an event of the thread; else, if vpmud may grant @key soon, a counter that waits for it. */
static int pages_bind_other(struct kvm_pages *p, unsigned int ctr, vpmu_key_t key, bool shares)
{
	int rc = pages_bind_perf(p, ctr, key);

	if (!rc)
		return 0;
	if (!shares || !share_may(p->thread, key)) {
		if (shares)
			share_put(p->thread, key);
		return rc;
	}
	p->ctr[ctr] = (struct kvm_pages_ctr){.kind = PAGES_SHARED, .key = key, .ended = true};
	p->ctr[ctr].bound_ns = p->ctr[ctr].seen_ns = pages_now(&p->pmu);
	return 0;
}

static int pages_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	struct kvm_pages *p = pages_of(pmu);
	struct kvm_pages_ctr *c = &p->ctr[ctr];
	bool shares = p->thread && ctr < VPMU_PERF_CTR_TSC && pages_could_share(key);
	struct vpmu_row row = {0};
	struct share_use use;
	__u64 time_ns;

	if (!shares || !share_get(p->thread, key, p->access, &use))
		return pages_bind_other(p, ctr, key, shares);
	if (vpmu_totals_read(use.page, use.slot, &row, &time_ns)) {
		share_put(p->thread, key);
		return -EAGAIN;
	}
	*c = (struct kvm_pages_ctr){
		.kind = PAGES_SHARED,
		.key = key,
		.use = use,
		.base = row.total,
		.last = row.total,
		.lost_ns = row.lost,
		.page_ns = time_ns,
		.gaps = __atomic_load_n(&use.page->gaps, __ATOMIC_RELAXED),
	};
	if (!p->by)
		pages_sync(p);
	c->bound_ns = c->seen_ns = pages_now(pmu);
	atomic_fetch_add_explicit(&p->nr_shared, 1, memory_order_relaxed);
	return 0;
}

static void pages_unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct kvm_pages *p = pages_of(pmu);
	struct kvm_pages_ctr *c = &p->ctr[ctr];
	const struct kvm_pages_ctr was = *c;
	bool clock = was.use.page && was.use.page == p->by;

	if (was.kind == PAGES_FREE)
		return;
	p->fresh &= ~(1u << ctr);
	if (was.kind == PAGES_SHARED) {
		vpmu_perf_event_close(&c->event);
		if (was.use.page)
			atomic_fetch_sub_explicit(&p->nr_shared, 1, memory_order_relaxed);
	} else {
		p->perf->pmu.ops->unbind(&p->perf->pmu, ctr);
		clock = pages_needs_perf_clock(ctr) && !--p->nr_perf;
	}
	*c = (struct kvm_pages_ctr){0};
	if (clock)
		pages_sync(p); /* before the page may be unmapped */
	if (p->thread)
		share_put(p->thread, was.key);
}

/* ---- ticks -------------------------------------------------------------- */

/* True if @c is better bound again: to a page, or not to this one. */
static bool pages_moves(const struct kvm_pages *p, const struct kvm_pages_ctr *c)
{
	if (!p->thread || c->kind == PAGES_FREE)
		return false;
	if (c->kind == PAGES_SHARED && (c->use.page || !share_may(p->thread, c->key)))
		return c->ended;
	return share_ready(p->thread, c->key);
}

static uint32_t pages_lost(struct vpmu_hostpmu *pmu)
{
	struct kvm_pages *p = pages_of(pmu);
	uint32_t lost = p->perf->pmu.ops->lost(&p->perf->pmu);

	pages_check(p);
	for (unsigned int i = 0; i < VPMU_MAX_CTRS; i++) {
		struct kvm_pages_ctr *c = &p->ctr[i];

		if (pages_moves(p, c))
			lost |= 1u << i;
		else if (c->kind == PAGES_SHARED && c->due && !c->armed)
			pages_arm_shared(p, c);
	}
	return lost;
}

static void pages_kick(struct vpmu_hostpmu *pmu)
{
	struct kvm_pages *p = pages_of(pmu);

	p->perf->pmu.ops->kick(&p->perf->pmu);
}

static const struct vpmu_hostpmu_ops pages_ops = {
	.name = "pages",
	.eligible = pages_eligible,
	.quality = pages_quality,
	.bind = pages_bind,
	.unbind = pages_unbind,
	.read = pages_read,
	.now = pages_now,
	.gap_ns = pages_gap_ns,
	.lost = pages_lost,
	.audit = pages_audit,
	.kick = pages_kick,
	.arm = pages_arm,
};

void kvm_pages_init(struct kvm_pages *p, struct vpmu_hostpmu_perf *perf,
		    struct share_client *client, int alarm_signal)
{
	*p = (struct kvm_pages){
		.pmu = {.ops = &pages_ops,
			.nr_ctrs = perf->pmu.nr_ctrs,
			.fixed_mask = perf->pmu.fixed_mask,
			.width_mask = perf->pmu.width_mask},
		.perf = perf,
		.client = client,
		.alarm_signal = alarm_signal,
	};
}

void kvm_pages_thread(struct kvm_pages *p, int tid)
{
	for (unsigned int i = 0; i < VPMU_MAX_CTRS; i++)
		pages_unbind(&p->pmu, i);
	share_end(p->thread);
	p->thread = tid ? share_begin(p->client, tid) : NULL;
	p->tid = tid;
}
