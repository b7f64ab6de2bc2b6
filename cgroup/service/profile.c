// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cgroup/service/capture.h"
#include "vpmu/fail.h"
#include "cgroup/service/profile.h"

#define DRAIN_MIN_MS   5
#define DRAIN_FIRST_MS 10 /* nothing is known of how fast samples come */

struct profiles {
	struct tenants *ts;
	struct tenants_watch watch;
	sd_event_source *timer; /* NULL: none */
	unsigned int drain_ms;
	struct profile *first;
	struct whos whos; /* of all vCPUs, while there is a profile */
	uint64_t next_auto;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

/* ---- samples ------------------------------------------------------------------------------ */

void profile_sample(void *arg, const struct vpmu_sample *s)
{
	struct profile *p = arg;
	const struct node *n = s->ctx ? vpmu_account_owner(s->ctx->own) : NULL;
	struct sample_record r = {
		.vcpu = n && n->kind == NODE_VCPU ? n->serial : 0,
		.ip = s->where_known ? s->where.ip : 0,
		.periods = s->periods,
		.late = (s->periods - 1) * p->period + s->over,
		.cpl = s->where_known ? s->where.cpl : 0,
		.known = s->where_known,
	};

	sample_rings_put(p->rings, s->pcpu, &r, s->has_lbr ? s->lbr : NULL);
}

static void take(const struct sample_record *r, void *arg)
{
	struct profile *p = arg;
	uint64_t ip[1 + VPMU_LBR_DEPTH_MAX];
	struct trace t = {
		.who = whos_find(&p->ps->whos, r->vcpu),
		.samples = r->periods,
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
	traces_add(&p->chains, &t, ip);
}

static unsigned int drain(struct profile *p)
{
	unsigned int percent;

	if (!p->rings)
		return 0;
	percent = sample_rings_drain(p->rings, take, p);
	p->lost = sample_rings_lost(p->rings);
	return percent;
}

/* Soon enough that a ring that fills as fast as now is not half full the next time. */
static int on_timer(sd_event_source *src, uint64_t usec, void *arg)
{
	struct profiles *ps = arg;
	unsigned int fullest = 0;

	for (struct profile *p = ps->first; p; p = p->next) {
		unsigned int percent = drain(p);

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
	if (p->gone)
		return;
	vpmu_host_sync(tenants_host(p->ps->ts));
	drain(p);
	vpmu_sampler_read(p->sampler, &p->value);
	p->read_ns = now_ns();
}

/* ---- following the tree --------------------------------------------------------------------- */

static void node_added(struct node *n, void *arg)
{
	struct profiles *ps = arg;

	/* Without memory its samples are those of nobody; they are counted all the same. */
	if (ps->first)
		whos_add(&ps->whos, n);
}

/* No more samples; what was taken stays. */
static void end(struct profile *p)
{
	if (p->sampler)
		vpmu_sampler_destroy(p->sampler);
	p->sampler = NULL;
	if (p->lbr && p->node)
		vpmu_lbr_detach(p->node->account);
	p->node = NULL;
}

static void node_removing(struct node *n, void *arg)
{
	struct profiles *ps = arg;

	for (struct profile *p = ps->first; p; p = p->next) {
		if (n->kind == NODE_VCPU)
			drain(p);
		if (p->node != n)
			continue;
		profile_read(p);
		end(p);
		drain(p);
		sample_rings_free(p->rings);
		p->rings = NULL;
		p->gone = true;
	}
	if (n->kind == NODE_VCPU)
		whos_gone(&ps->whos, n->serial);
}

static int add_who(struct node *n, unsigned int depth, void *arg)
{
	return whos_add(arg, n);
}

/* ---- life --------------------------------------------------------------------------------- */

int profiles_create(struct tenants *ts, sd_event *ev, struct profiles **out)
{
	struct profiles *ps = calloc(1, sizeof(*ps));
	int ret = 0;

	if (!ps)
		return -ENOMEM;
	ps->ts = ts;
	ps->next_auto = 1;
	if (ev)
		ret = sd_event_add_time_relative(ev, &ps->timer, CLOCK_MONOTONIC, 0, 1000, on_timer,
						 ps);
	if (ret >= 0 && ev)
		ret = sd_event_source_set_enabled(ps->timer, SD_EVENT_OFF);
	if (ret < 0) {
		sd_event_source_disable_unref(ps->timer);
		free(ps);
		return ret;
	}
	ps->watch =
		(struct tenants_watch){.added = node_added, .removing = node_removing, .arg = ps};
	tenants_watch(ts, &ps->watch);
	*out = ps;
	return 0;
}

void profiles_destroy(struct profiles *ps)
{
	if (!ps)
		return;
	while (ps->first)
		profile_stop(ps->first);
	tenants_unwatch(ps->ts, &ps->watch);
	sd_event_source_disable_unref(ps->timer);
	free(ps);
}

static void profile_free(struct profile *p)
{
	traces_free(&p->rows);
	traces_free(&p->chains);
	sample_rings_free(p->rings);
	free(p->event);
	free(p->target);
	free(p);
}

static int start_sampler(struct profile *p, const struct profile_spec *spec, char *err,
			 size_t errlen)
{
	const struct vpmu_sampler_opts opts = {
		.account = spec->target->account,
		.key = spec->key,
		.period = spec->period,
		.lbr = spec->lbr,
		.sample = profile_sample,
		.arg = p,
	};
	int ret = vpmu_sampler_create(tenants_host(p->ps->ts), &opts, &p->sampler);

	switch (ret) {
	case 0:
		return 0;
	case -EOPNOTSUPP:
		return fail(ret, err, errlen,
			    "event: %s: no CPU of this host can sample it; an event `events` calls "
			    "supported, of the soft machine, is accepted",
			    p->event);
	case -ENOSPC:
		return fail(ret, err, errlen,
			    "event: %s: all counter slots of the host are in use; detach a session",
			    p->event);
	case -E2BIG:
		return fail(ret, err, errlen,
			    "profile-start: the host has %d samplers; stop one of `profiles` first",
			    VPMU_SAMPLERS_MAX);
	default:
		return fail(ret, err, errlen, "profile-start: %s: %s", p->event, strerror(-ret));
	}
}

static int take_name(struct profile *p, const char *name, char *err, size_t errlen)
{
	if (!name) {
		snprintf(p->name, sizeof(p->name), "@%llu", (unsigned long long)p->ps->next_auto++);
		return 0;
	}
	if (!session_name_ok(name, err, errlen))
		return -EINVAL;
	if (profile_find(p->ps, name))
		return fail(-EEXIST, err, errlen,
			    "name: there is a profile \"%s\"; stop it, or take another name", name);
	strcpy(p->name, name);
	return 0;
}

static int check_period(uint64_t period, char *err, size_t errlen)
{
	if (period >= 1 && period <= PROFILE_PERIOD_MAX)
		return 0;
	return fail(-EINVAL, err, errlen, "period: %llu; 1 to %llu events are accepted",
		    (unsigned long long)period, (unsigned long long)PROFILE_PERIOD_MAX);
}

int profile_start(struct profiles *ps, const struct profile_spec *spec, struct profile **out,
		  char *err, size_t errlen)
{
	struct profile *p, **link;
	int ret = check_period(spec->period, err, errlen);

	if (ret)
		return ret;
	p = calloc(1, sizeof(*p));
	if (!p)
		return fail(-ENOMEM, err, errlen, "profile-start: out of memory");
	p->ps = ps;
	p->period = spec->period;
	p->lbr = spec->lbr;
	p->owner = spec->owner;
	p->rows = (struct traces){.whos = &ps->whos, .max = PROFILE_ROWS_MAX};
	p->chains = (struct traces){.whos = &ps->whos, .max = PROFILE_CHAINS_MAX};
	ret = take_name(p, spec->name, err, errlen);
	if (ret)
		goto fail;
	p->event = strdup(spec->event);
	p->target = strdup(spec->target->kind == NODE_VM ? spec->target->name : spec->target->path);
	p->rings = sample_rings_create(spec->lbr);
	ret = p->event && p->target && p->rings ? 0 : -ENOMEM;
	if (!ret)
		ret = tenants_walk(ps->ts, add_who, &ps->whos);
	if (ret) {
		fail(ret, err, errlen, "profile-start: %s", strerror(-ret));
		goto fail;
	}
	if (spec->lbr) {
		ret = capture_attach(spec->target->account, capture_ctl(CAPTURE_CALL_STACK), "lbr",
				     err, errlen);
		if (ret)
			goto fail;
		p->node = spec->target; /* end() has something to detach from */
	}
	p->opened_ns = p->read_ns = now_ns();
	ret = start_sampler(p, spec, err, errlen);
	if (ret)
		goto fail;
	p->node = spec->target;
	for (link = &ps->first; *link; link = &(*link)->next)
		;
	*link = p;
	/* From now on it is not known how fast they come. */
	ps->drain_ms = DRAIN_FIRST_MS;
	if (ps->timer &&
	    (sd_event_source_set_time_relative(ps->timer, ps->drain_ms * 1000ULL) < 0 ||
	     sd_event_source_set_enabled(ps->timer, SD_EVENT_ON) < 0)) {
		profile_stop(p);
		return fail(-ENOMEM, err, errlen,
			    "profile-start: the event loop refused its timer");
	}
	*out = p;
	return 0;
fail:
	end(p);
	profile_free(p);
	if (!ps->first)
		whos_clear(&ps->whos);
	return ret;
}

void profile_stop(struct profile *p)
{
	struct profiles *ps = p->ps;
	struct profile **link = &ps->first;

	end(p);
	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	profile_free(p);
	if (ps->first)
		return;
	whos_clear(&ps->whos);
	if (ps->timer)
		sd_event_source_set_enabled(ps->timer, SD_EVENT_OFF);
}

void profiles_close_owner(struct profiles *ps, const void *owner)
{
	struct profile *p = ps->first, *next;

	for (; p; p = next) {
		next = p->next;
		if (p->owner == owner)
			profile_stop(p);
	}
}

bool profiles_owned(const struct profiles *ps, const void *owner)
{
	for (const struct profile *p = ps->first; p; p = p->next)
		if (p->owner == owner)
			return true;
	return false;
}

struct profile *profile_find(const struct profiles *ps, const char *name)
{
	for (struct profile *p = ps->first; p; p = p->next)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

struct profile *profiles_first(const struct profiles *ps)
{
	return ps->first;
}

uint64_t profile_age_ns(const struct profile *p)
{
	return p->read_ns - p->opened_ns;
}
