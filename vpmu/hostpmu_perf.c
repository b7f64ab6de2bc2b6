// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The host PMU made of perf events, see hostpmu_perf.h. libvpmu calls it through vpmu_hostpmu_ops,
 * on the thread whose events these are; only making and removing the PMU happens elsewhere. Each
 * bound counter is one event, which all who count its key share.
 *
 * A pinned event that lost its place on the PMU stops for good and reads as end of file. That must
 * not be hidden: the counter keeps its last value, and quality() no longer calls its key exact.
 */
#include "vpmu/hostpmu_perf.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <linux/perf_event.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "vpmu/hostpmu_perf_priv.h"

enum kind { KIND_FREE = 0, KIND_PERF, KIND_TSC, KIND_NOMINAL };

#define CTR_TSC	    (VPMU_MAX_CTRS - 2)
#define CTR_NOMINAL (VPMU_MAX_CTRS - 1)

static struct vpmu_hostpmu_perf *perf(const struct vpmu_hostpmu *pmu)
{
	return (struct vpmu_hostpmu_perf *)pmu;
}

static bool of_thread(const struct vpmu_hostpmu_perf *p)
{
	return p->opts.cpu == VPMU_PERF_THREAD;
}

/* Whether the TSC ticks at a constant rate, that of the nominal clock: CPUID 80000007H EDX bit 8
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

static uint64_t bits(unsigned int from, unsigned int n)
{
	return ((1ULL << n) - 1) << from;
}

/* ---- who can count what ------------------------------------------------------------------- */

/* Time in the guest can be counted only for both privilege levels together, and only for guests. */
static bool is_guest_only(vpmu_key_t key, enum vpmu_generic ev)
{
	return key == vpmu_key_generic(ev, VPMU_KEY_USR | VPMU_KEY_OS);
}

static uint32_t hardware_ctrs(vpmu_key_t key)
{
	const struct vpmu_perf_capacity *c = vpmu_perf_capacity();
	uint32_t ctrs = (uint32_t)bits(0, c->gp);
	unsigned int i;

	for (i = 0; i < c->fixed; i++) {
		if (vpmu_key_space(key) != VPMU_SPACE_GENERIC ||
		    vpmu_key_event(key) != c->fixed_event[i])
			continue;
		/* Intel has no event select for it, so no other counter can count it. */
		if (c->fixed_event[i] == VPMU_EV_REF_CYCLES)
			ctrs = 0;
		ctrs |= 1u << (c->gp + i);
	}
	return ctrs;
}

static uint32_t perf_eligible(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	const struct vpmu_hostpmu_perf *p = perf(pmu);
	const struct vpmu_perf_capacity *c = vpmu_perf_capacity();
	unsigned int hardware = c->gp + c->fixed;

	if (!vpmu_perf_probe(key, p->opts.cpu)) {
		if (vpmu_key_space(key) == VPMU_SPACE_SOFTWARE)
			return (uint32_t)bits(hardware, CTR_TSC - hardware);
		if (hardware_ctrs(key))
			return hardware_ctrs(key);
	}
	if (p->opts.guest_tsc && is_guest_only(key, VPMU_EV_REF_CYCLES))
		return 1u << CTR_TSC;
	if (p->opts.nominal_cycles && is_guest_only(key, VPMU_EV_CYCLES))
		return 1u << CTR_NOMINAL;
	return 0;
}

static enum vpmu_quality perf_quality(const struct vpmu_hostpmu *pmu, vpmu_key_t key)
{
	const struct vpmu_hostpmu_perf *p = perf(pmu);
	uint32_t ctrs = perf_eligible(pmu, key);
	unsigned int i;

	if (ctrs & 1u << CTR_TSC)
		return VPMU_Q_TSC;
	if (ctrs & 1u << CTR_NOMINAL)
		return VPMU_Q_ESTIMATED;
	for (i = 0; i < CTR_TSC; i++) {
		if (p->ctr[i].key == key && p->ctr[i].lost)
			return VPMU_Q_ESTIMATED;
	}
	return VPMU_Q_EXACT;
}

/* ---- reading ------------------------------------------------------------------------------ */

static uint64_t tsc_in_guest(const struct vpmu_hostpmu_perf *p)
{
	return p->opts.guest_tsc(p->opts.arg);
}

static int this_tid(void)
{
	static __thread int tid;

	if (!tid)
		tid = (int)syscall(SYS_gettid);
	return tid;
}

/*
 * Read a counter without a system call, as linux/perf_event.h documents it at struct
 * perf_event_mmap_page. False: the kernel does not allow it now, or the event is not on the PMU.
 */
static bool read_page(const struct perf_event_mmap_page *page, uint64_t *value)
{
	const volatile struct perf_event_mmap_page *pc = page;
	uint32_t seq, index;
	unsigned int shift;
	int64_t pmc;

	do {
		/* The kernel writes the page on this very CPU, in an interrupt or a migration
		 * between our loads. So only the compiler must keep the order of the loads. */
		seq = pc->lock;
		__asm__ volatile("" ::: "memory");
		index = pc->index;
		if (!pc->cap_user_rdpmc || !index || !pc->pmc_width || pc->pmc_width > 64)
			return false;
		shift = 64u - pc->pmc_width;
		pmc = (int64_t)(vpmu_perf_sys->rdpmc(index - 1) << shift) >> shift;
		*value = (uint64_t)(pc->offset + pmc);
		__asm__ volatile("" ::: "memory");
	} while (pc->lock != seq);
	return true;
}

static uint64_t read_event(struct vpmu_hostpmu_perf *p, struct vpmu_perf_ctr *c)
{
	uint64_t value;

	/* rdpmc reads a counter of the CPU we are on, so it is right for our own thread's events
	 * only. */
	if (c->page && this_tid() == p->tid && read_page(c->page, &value))
		return value;
	if (!vpmu_perf_sys->read(c->fd, &value))
		return value;
	c->lost = true;
	return c->last;
}

static uint64_t perf_read(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	struct vpmu_perf_ctr *c = &p->ctr[ctr];

	c->last = c->kind == KIND_PERF ? read_event(p, c) : tsc_in_guest(p);
	if (!c->based) {
		c->base = c->last;
		c->based = true;
	}
	return c->last;
}

/* The host's own work does not count in @key, so its counter stands still between a read and its
 * audit. */
static bool stands_still(vpmu_key_t key)
{
	return !(key & VPMU_KEY_HOST);
}

/*
 * By read(2) instead of rdpmc, where the two can be compared. A counter that goes on while we look,
 * such as a clock, is taken as of its last read.
 */
static uint64_t perf_audit(const struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	const struct vpmu_hostpmu_perf *p = perf(pmu);
	const struct vpmu_perf_ctr *c = &p->ctr[ctr];
	uint64_t now = c->last;

	if (!c->based)
		return 0;
	if (c->kind != KIND_PERF)
		now = tsc_in_guest(p);
	else if (stands_still(c->key) && !c->lost && vpmu_perf_sys->read(c->fd, &now))
		now = c->last;
	return now - c->base;
}

static uint64_t perf_now(const struct vpmu_hostpmu *pmu)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

/* ---- binding ------------------------------------------------------------------------------ */

static int bind_event(struct vpmu_hostpmu_perf *p, struct vpmu_perf_ctr *c, vpmu_key_t key)
{
	uint64_t value;
	int rc;

	if (of_thread(p) && !p->tid)
		return -EAGAIN;
	rc = vpmu_perf_open(key, of_thread(p) ? p->tid : -1, p->opts.cpu);
	if (rc < 0)
		return rc;
	c->fd = rc;
	/* A pinned event that found no place says so now, if its thread is the one that runs. */
	rc = vpmu_perf_sys->read(c->fd, &value);
	if (rc) {
		vpmu_perf_sys->close(c->fd);
		return rc == -ENODATA ? -EBUSY : rc;
	}
	if (of_thread(p) && vpmu_key_space(key) != VPMU_SPACE_SOFTWARE)
		c->page = vpmu_perf_sys->map(c->fd);
	return 0;
}

static int perf_bind(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);
	struct vpmu_perf_ctr *c = &p->ctr[ctr % VPMU_MAX_CTRS];
	int rc;

	if (ctr >= VPMU_MAX_CTRS || c->kind != KIND_FREE || !(perf_eligible(pmu, key) & 1u << ctr))
		return -EINVAL;
	memset(c, 0, sizeof(*c));
	if (ctr < CTR_TSC) {
		rc = bind_event(p, c, key);
		if (rc)
			return rc;
		c->kind = KIND_PERF;
	} else {
		c->kind = ctr == CTR_TSC ? KIND_TSC : KIND_NOMINAL;
	}
	c->key = key;
	return 0;
}

static void perf_unbind(struct vpmu_hostpmu *pmu, unsigned int ctr)
{
	struct vpmu_perf_ctr *c = &perf(pmu)->ctr[ctr];

	if (c->kind == KIND_PERF) {
		if (c->page)
			vpmu_perf_sys->unmap(c->page);
		vpmu_perf_sys->close(c->fd);
	}
	memset(c, 0, sizeof(*c));
}

static void perf_kick(struct vpmu_hostpmu *pmu)
{
	struct vpmu_hostpmu_perf *p = perf(pmu);

	if (p->opts.kick)
		p->opts.kick(p->opts.arg);
}

static const struct vpmu_hostpmu_ops perf_ops = {
	.name = "perf",
	.eligible = perf_eligible,
	.quality = perf_quality,
	.bind = perf_bind,
	.unbind = perf_unbind,
	.read = perf_read,
	.now = perf_now,
	.audit = perf_audit,
	.kick = perf_kick,
};

/* ---- life --------------------------------------------------------------------------------- */

int vpmu_hostpmu_perf_init(struct vpmu_hostpmu_perf *p, const struct vpmu_hostpmu_perf_opts *opts)
{
	const struct vpmu_perf_capacity *c;

	if (opts->cpu < VPMU_PERF_THREAD)
		return -EINVAL;
	if (opts->cpu != VPMU_PERF_THREAD && (opts->guest_tsc || opts->nominal_cycles))
		return -EINVAL;
	if (opts->nominal_cycles && !opts->guest_tsc)
		return -EINVAL;
	if (opts->nominal_cycles && !invariant_tsc())
		return -EOPNOTSUPP;

	c = vpmu_perf_capacity();
	memset(p, 0, sizeof(*p));
	p->opts = *opts;
	p->pmu.ops = &perf_ops;
	p->pmu.nr_ctrs = VPMU_MAX_CTRS;
	p->pmu.fixed_mask = (uint32_t)(bits(c->gp, c->fixed) | bits(CTR_TSC, 2));
	p->pmu.width_mask = UINT64_MAX; /* the kernel extends counters to 64 bits */
	return 0;
}

void vpmu_hostpmu_perf_set_thread(struct vpmu_hostpmu_perf *p, int tid)
{
	p->tid = tid;
}

void vpmu_hostpmu_perf_fini(struct vpmu_hostpmu_perf *p)
{
	unsigned int i;

	for (i = 0; i < VPMU_MAX_CTRS; i++)
		perf_unbind(&p->pmu, i);
}
