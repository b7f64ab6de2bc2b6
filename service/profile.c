// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Life of profiles: sampling, draining the rings on a timer, following the tree of tenants. The
 * commands call this on the control thread; the backend calls profile_sample on its CPUs, where it
 * must neither wait nor allocate.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/capture.h"
#include "service/clock.h"
#include "service/cpu_list.h"
#include "service/backend_choice.h"
#include "service/program/memory.h"
#include "service/profile.h"
#include "vpmu/util/fail.h"
#include "vpmu/event/event.h"

#define DRAIN_MIN_MS   5
#define DRAIN_FIRST_MS 10 /* the rate of samples is still unknown */

struct profiles {
	struct registry reg;
	struct tenants *ts;
	struct tenants_watch watch;
	sd_event_source *timer; /* NULL: none */
	unsigned int drain_ms;
	struct whos whos; /* of all vCPUs, while there is a profile */
	uint64_t lost;	  /* samples, of profiles that have ended */
};

static void profile_close_one(struct registered *e)
{
	profile_stop((struct profile *)e); /* reg is first in struct profile */
}

static const struct registry_kind kind = {
	.kind = "profile",
	.open = "profile-start",
	.end = "stop",
	.max = {PROFILES_MAX_USER, PROFILES_MAX_TENANT, PROFILES_MAX_READERS, PROFILES_MAX * 7 / 8,
		PROFILES_MAX},
	.close = profile_close_one,
};

static struct profile *profile_first(const struct profiles *ps)
{
	return (struct profile *)ps->reg.first;
}

static struct profile *profile_next(const struct profile *p)
{
	return (struct profile *)p->reg.next;
}

/* ---- samples ------------------------------------------------------------------------------ */

void profile_sample(void *arg, const struct vpmu_backend_sample *s)
{
	struct profile *p = arg;
	struct sample_record r = {
		.vcpu = s->serial,
		.ip = s->ip,
		.periods = s->periods,
		.late = (s->periods - 1) * p->period + s->over,
		.time_ns = s->time_ns,
		.pid = s->pid,
		.side = (uint8_t)s->side,
		.cpl = s->cpl,
		.known = s->known,
		.chained = s->chained,
		.nr_from =
			(uint8_t)(s->nr_calls < SAMPLE_CALLS_MAX ? s->nr_calls : SAMPLE_CALLS_MAX),
		.from = s->calls,
	};

	sample_rings_put(p->rings, s->cpu, &r, s->branches);
}

static void profile_take(const struct sample_record *r, void *arg)
{
	struct profile *p = arg;
	uint64_t ip[1 + SAMPLE_CALLS_MAX];
	struct trace t = {
		.who = whos_find(&p->ps->whos, r->vcpu),
		.samples = r->periods,
		.first_ns = r->time_ns,
		.pid = r->pid,
		.side = r->side,
		.cpl = r->cpl,
		.known = r->known,
		.nr = 1,
	};

	ip[0] = r->ip;
	p->samples += r->periods;
	if (r->late > p->late_max)
		p->late_max = r->late;
	traces_add(&p->rows, &t, ip);
	if (!p->lbr)
		return;
	if (!r->chained)
		p->unchained += r->periods;
	memcpy(&ip[1], r->from, r->nr_from * sizeof(*ip));
	t.nr = (uint8_t)(1 + r->nr_from);
	/* One from before opened_ns belongs to the start. */
	if (r->time_ns)
		t.at_ns = r->time_ns > p->opened_ns ? r->time_ns - p->opened_ns : 1;
	traces_add(&p->chains, &t, ip);
}

static unsigned int drain(struct profile *p)
{
	unsigned int percent;

	if (!p->rings)
		return 0;
	percent = sample_rings_drain(p->rings, profile_take, p);
	p->lost = sample_rings_lost(p->rings) + p->source_lost;
	return percent;
}

/* Copy the backend's state. */
static void take_state(struct profile *p)
{
	struct vpmu_sampling_state st;

	vpmu_backend_sample_state(p->sampling, &st);
	p->source_lost = st.lost;
	p->throttled = st.throttled;
	p->nobodys = st.nobodys;
	p->note = st.note;
}

/* Drain, and adapt the interval so that a ring that fills at the current rate stays less than half
 * full. */
static int profile_on_timer(sd_event_source *src, uint64_t usec, void *arg)
{
	struct profiles *ps = arg;
	unsigned int fullest = 0;

	for (struct profile *p = profile_first(ps); p; p = profile_next(p)) {
		unsigned int percent = p->in ? vpmu_backend_sample_take(p->in->source) : 0;

		if (percent > fullest)
			fullest = percent;
		percent = drain(p);
		if (percent > fullest)
			fullest = percent;
	}
	if (fullest > 25 && ps->drain_ms / 2 >= DRAIN_MIN_MS)
		ps->drain_ms /= 2;
	else if (fullest < 10 && ps->drain_ms < PROFILE_DRAIN_MS)
		ps->drain_ms =
			ps->drain_ms * 2 < PROFILE_DRAIN_MS ? ps->drain_ms * 2 : PROFILE_DRAIN_MS;
	return sd_event_source_set_time_relative(src, ps->drain_ms * 1000ULL);
}

void profile_read(struct profile *p)
{
	uint64_t begin_ns = now_ns();

	if (p->gone)
		return;
	vpmu_backend_flush_node(p->in);
	take_state(p);
	drain(p);
	vpmu_backend_sample_read(p->sampling, &p->value);
	p->read = as_of_now(begin_ns);
}

/* ---- following the tree --------------------------------------------------------------------- */

static void profile_node_added(struct node *n, struct vpmu_backend_node *in, void *arg)
{
	struct profiles *ps = arg;

	/* On -ENOMEM its samples are shown without a VM. */
	if (profile_first(ps))
		whos_add(&ps->whos, n);
}

/* Stop sampling; samples so far are kept. */
static void profile_end(struct profile *p)
{
	vpmu_backend_sample_stop(p->sampling);
	p->sampling = NULL;
	if (p->captures && p->in)
		vpmu_backend_branches_detach(p->in);
	p->in = NULL;
	p->node = NULL;
}

static void profile_node_removing(struct node *n, void *arg)
{
	struct profiles *ps = arg;

	for (struct profile *p = profile_first(ps); p; p = profile_next(p)) {
		if (p->in)
			vpmu_backend_sample_take(p->in->source);
		drain(p);
		if (p->node != n)
			continue;
		profile_read(p);
		profile_end(p);
		drain(p);
		sample_rings_free(p->rings);
		p->rings = NULL;
		p->gone = true;
	}
	whos_gone(&ps->whos, n->serial);
}

static int add_who(struct node *n, unsigned int depth, void *arg)
{
	return whos_add(arg, n);
}

/* ---- life --------------------------------------------------------------------------------- */

int profiles_create(struct tenants *ts, sd_event *ev, struct profiles **out)
{
	struct profiles *ps = xcalloc(1, sizeof(*ps));
	int ret = 0;

	ps->ts = ts;
	ps->reg.kind = &kind;
	if (ev)
		ret = sd_event_add_time_relative(ev, &ps->timer, CLOCK_MONOTONIC, 0, 1000,
						 profile_on_timer, ps);
	if (ret >= 0 && ev)
		ret = sd_event_source_set_enabled(ps->timer, SD_EVENT_OFF);
	if (ret < 0) {
		sd_event_source_disable_unref(ps->timer);
		free(ps);
		return ret;
	}
	ps->watch = (struct tenants_watch){
		.added = profile_node_added, .removing = profile_node_removing, .arg = ps};
	tenants_watch(ts, &ps->watch);
	*out = ps;
	return 0;
}

void profiles_destroy(struct profiles *ps)
{
	if (!ps)
		return;
	registry_close_all(&ps->reg);
	tenants_unwatch(ps->ts, &ps->watch);
	sd_event_source_disable_unref(ps->timer);
	free(ps);
}

struct registry *profiles_registry(struct profiles *ps)
{
	return &ps->reg;
}

static void profile_free(struct profile *p)
{
	traces_free(&p->rows);
	traces_free(&p->chains);
	sample_rings_free(p->rings);
	free(p->event);
	free(p->cpu_list);
	free(p->cpus);
	free(p);
}

/* Return an event that @source counts, on the sides of @key; "": none of the usual ones. */
static const char *profile_works(const struct vpmu_backend *source, vpmu_key_t key)
{
	static const char *const usual[] = {"instructions", "cycles", "cpu-clock"};
	enum vpmu_quality q;
	vpmu_key_t other;
	char why[200];

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (!vpmu_event_parse(usual[i], 0, &other, NULL, 0) &&
		    vpmu_backend_can_count(source, other | (key & (VPMU_KEY_GUEST | VPMU_KEY_HOST)),
					   &q, why, sizeof(why)))
			return usual[i];
	return "";
}

static int start_sampling(struct profile *p, struct vpmu_backend_node *in, vpmu_key_t key,
			  char *err, size_t errlen)
{
	const struct vpmu_sampling_opts opts = {
		.key = key,
		.period = p->period,
		.branches = p->lbr,
		.chains = p->lbr,
		.times = p->times,
		.cpus = p->cpus,
		.sample = profile_sample,
		.arg = p,
	};
	int ret = vpmu_backend_sample_start(in, &opts, &p->sampling);
	const char *other = ret == -EOPNOTSUPP ? profile_works(in->source, key) : "";
	char why[200];

	switch (ret) {
	case 0:
		return 0;
	case -EOPNOTSUPP:
		return fail(ret, err, errlen,
			    "event: %s: no CPU of backend %s can sample it%s%s; `vpmu events` "
			    "shows what is counted there",
			    p->event, p->backend, *other ? "; it can sample " : "", other);
	case -ENOSPC:
		return fail(ret, err, errlen,
			    "event: %s: all counter slots of backend %s are in use; end a session "
			    "first, `vpmu sessions` shows them",
			    p->event, p->backend);
	case -E2BIG:
		return fail(ret, err, errlen,
			    "profile-start: backend %s has no sampler left; end a profile first, "
			    "`vpmu sessions` shows them",
			    p->backend);
	default:
		return fail(ret, err, errlen, "profile-start: %s: %s", p->event,
			    vpmu_backend_error(in->source, ret, why, sizeof(why)));
	}
}

static int service_profile_check_period(uint64_t period, char *err, size_t errlen)
{
	if (period >= 1 && period <= PROFILE_PERIOD_MAX)
		return 0;
	return fail(-EINVAL, err, errlen, "period: %llu is invalid; expected 1 to %llu",
		    (unsigned long long)period, (unsigned long long)PROFILE_PERIOD_MAX);
}

/* Allocate memory and names that @p needs before the first sample. */
static int profile_prepare(struct profile *p, const char *event, char *err, size_t errlen)
{
	struct profiles *ps = p->ps;
	int ret;

	p->rows = (struct traces){.whos = &ps->whos, .max = PROFILE_ROWS_MAX};
	p->chains = (struct traces){.whos = &ps->whos,
				    .max = PROFILE_CHAINS_MAX,
				    .max_times = p->times ? PROFILE_TIMES_MAX : 0};
	p->event = strdup(event);
	p->rings = sample_rings_create(p->lbr);
	ret = p->event && p->rings ? 0 : -ENOMEM;
	if (!ret)
		ret = tenants_walk(ps->ts, add_who, &ps->whos);
	return ret ? fail(ret, err, errlen, "profile-start: %s", strerror(-ret)) : 0;
}

/* Take the list of CPUs, which the backend must be able to count. */
static int profile_cpus(struct profile *p, const struct vpmu_backend *source, const char *list,
			char *err, size_t errlen)
{
	if (!(source->can & VPMU_BACKEND_CPUS))
		return fail(-EOPNOTSUPP, err, errlen, "cpus: backend %s does not count single CPUs",
			    source->backend);
	p->cpu_list = strdup(list);
	p->cpus = calloc(source->nr_cpus, sizeof(*p->cpus));
	if (!p->cpu_list || !p->cpus)
		return fail(-ENOMEM, err, errlen, "profile-start: out of memory");
	return cpu_list_parse(list, p->cpus, source->nr_cpus, err, errlen);
}

static int start_timer(struct profiles *ps, char *err, size_t errlen)
{
	/* The rate of samples is still unknown. */
	ps->drain_ms = DRAIN_FIRST_MS;
	if (ps->timer &&
	    (sd_event_source_set_time_relative(ps->timer, ps->drain_ms * 1000ULL) < 0 ||
	     sd_event_source_set_enabled(ps->timer, SD_EVENT_ON) < 0))
		return fail(-ENOMEM, err, errlen,
			    "profile-start: the event loop refused its timer");
	return 0;
}

static int service_profile_start(struct profile *p, const struct profile_spec *spec, char *err,
				 size_t errlen)
{
	const unsigned int can = VPMU_BACKEND_SAMPLES | (spec->lbr ? VPMU_BACKEND_BRANCHES : 0);
	struct vpmu_backend_node *in;
	int ret = backend_choose(p->ps->ts, spec->open.target, can,
				 spec->lbr ? "sampling with branch records" : "sampling",
				 spec->open.backend, &in, err, errlen);

	if (ret)
		return ret;
	p->backend = in->source->backend;
	ret = profile_prepare(p, spec->event, err, errlen);
	if (!ret && spec->cpus)
		ret = profile_cpus(p, in->source, spec->cpus, err, errlen);
	if (!ret && spec->lbr && !(in->source->can & VPMU_BACKEND_CHAINS)) {
		ret = capture_attach(in, capture_ctl(CAPTURE_CALL_STACK), "lbr", err, errlen);
		p->captures = !ret;
	}
	if (ret)
		return ret;
	p->in = in; /* from now on profile_end() must detach */
	p->node = spec->open.target;
	p->opened_ns = now_ns();
	p->read = as_of_now(p->opened_ns);
	ret = start_sampling(p, in, spec->key, err, errlen);
	return ret ? ret : start_timer(p->ps, err, errlen);
}

int profile_start(struct profiles *ps, const struct profile_spec *spec, struct profile **out,
		  char *err, size_t errlen)
{
	struct profile *p;
	int ret = service_profile_check_period(spec->period, err, errlen);

	if (ret)
		return ret;
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM, err, errlen, "profile-start: out of memory");
	p->ps = ps;
	p->period = spec->period;
	p->lbr = spec->lbr;
	p->times = spec->lbr && spec->times;
	ret = registry_prepare(&ps->reg, &p->reg, &spec->open, err, errlen);
	if (!ret)
		ret = service_profile_start(p, spec, err, errlen);
	if (ret)
		goto fail;
	registry_add(&ps->reg, &p->reg);
	*out = p;
	return 0;
fail:
	profile_end(p);
	registry_discard(&p->reg);
	profile_free(p);
	if (!profile_first(ps))
		whos_clear(&ps->whos);
	return ret;
}

void profile_stop(struct profile *p)
{
	struct profiles *ps = p->ps;

	profile_end(p);
	ps->lost += p->lost;
	registry_remove(&ps->reg, &p->reg);
	profile_free(p);
	if (profile_first(ps))
		return;
	whos_clear(&ps->whos);
	if (ps->timer)
		sd_event_source_set_enabled(ps->timer, SD_EVENT_OFF);
}

uint64_t profiles_lost(const struct profiles *ps)
{
	uint64_t lost = ps->lost;

	for (const struct registered *e = ps->reg.first; e; e = e->next)
		lost += ((const struct profile *)e)->lost;
	return lost;
}
