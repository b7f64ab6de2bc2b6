// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Adds up samples by address and call chain. profile.c and capture.c call this on the control
 * thread. Memory must stay bounded whatever a guest does.
 */
#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "service/traces.h"

/* ---- names of nodes ------------------------------------------------------------------------ */

struct alias {
	uint64_t serial;
	struct who *who;
};

static int cmp_serial(const void *a, const void *b)
{
	uint64_t x = ((const struct alias *)a)->serial, y = ((const struct alias *)b)->serial;

	return x < y ? -1 : x > y;
}

static int cmp_who(const void *a, const void *b)
{
	const struct who *x = a, *y = b;
	int ret = strcmp(x->vm, y->vm);

	if (!ret)
		ret = (x->vcpu > y->vcpu) - (x->vcpu < y->vcpu);
	if (!ret)
		ret = (x->tenant != NULL) - (y->tenant != NULL);
	return ret || !x->tenant ? ret : strcmp(x->tenant, y->tenant);
}

static void who_free(struct who *w)
{
	free(w->tenant);
	free(w);
}

static void who_put(struct whos *ws, struct who *w)
{
	if (!w || --w->refs)
		return;
	tdelete(w, &ws->by_name, cmp_who);
	who_free(w);
}

static struct who *who_of(const struct node *n)
{
	const char *vm = n->kind == NODE_VCPU ? n->parent->name : n->kind == NODE_VM ? n->name : "";
	struct who *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	strncpy(w->vm, vm, sizeof(w->vm) - 1);
	w->vcpu = n->kind == NODE_VCPU ? (int)n->vcpu : -1;
	w->tenant = *vm ? NULL : strdup(n->path);
	if (*vm || w->tenant)
		return w;
	free(w);
	return NULL;
}

/* The name of @n, with a new reference; NULL: no memory. */
static struct who *who_named(struct whos *ws, const struct node *n)
{
	struct who *w = who_of(n), **found;

	if (!w)
		return NULL;
	found = tsearch(w, &ws->by_name, cmp_who);
	if (!found || *found != w)
		who_free(w);
	if (!found)
		return NULL;
	(*found)->refs++;
	return *found;
}

int whos_add(struct whos *ws, const struct node *n)
{
	struct alias *a, **found;

	if (n->kind == NODE_ROOT || n->kind == NODE_HOST || whos_find(ws, n->serial))
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->serial = n->serial;
	a->who = who_named(ws, n);
	found = a->who ? tsearch(a, &ws->by_serial, cmp_serial) : NULL;
	if (found)
		return 0;
	who_put(ws, a->who);
	free(a);
	return -ENOMEM;
}

static void alias_drop(struct whos *ws, struct alias *a)
{
	tdelete(a, &ws->by_serial, cmp_serial);
	who_put(ws, a->who);
	free(a);
}

void whos_gone(struct whos *ws, uint64_t serial)
{
	struct alias key = {.serial = serial}, **found = tfind(&key, &ws->by_serial, cmp_serial);

	if (found)
		alias_drop(ws, *found);
}

void whos_clear(struct whos *ws)
{
	/* glibc: the first word of a tsearch tree's root points to the root's datum. */
	while (ws->by_serial)
		alias_drop(ws, *(struct alias **)ws->by_serial);
}

struct who *whos_find(const struct whos *ws, uint64_t serial)
{
	struct alias key = {.serial = serial}, **found = tfind(&key, &ws->by_serial, cmp_serial);

	return found ? (*found)->who : NULL;
}

/* ---- traces ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15ULL;
	return h ^ h >> 29;
}

static uint64_t traces_hash(const struct trace *t, const uint64_t *ip)
{
	uint64_t h = mix((uintptr_t)t->who, (uint64_t)t->pid << 32 | (uint64_t)t->side << 24 |
						    (uint64_t)t->cpl << 16 | t->known << 8 | t->nr);

	for (unsigned int i = 0; i < t->nr; i++)
		h = mix(h, ip[i]);
	return h;
}

/* The slot of @what, or the free slot for it. */
static struct trace **lookup(struct trace **slot, size_t cap, const struct trace *what,
			     const uint64_t *ip)
{
	size_t i = traces_hash(what, ip) & (cap - 1);

	for (;; i = (i + 1) & (cap - 1)) {
		const struct trace *t = slot[i];

		if (!t || (t->who == what->who && t->cpl == what->cpl && t->known == what->known &&
			   t->side == what->side && t->pid == what->pid && t->nr == what->nr &&
			   memcmp(t->ip, ip, t->nr * sizeof(*ip)) == 0))
			return &slot[i];
	}
}

/* Grow so that the table stays no more than half full. */
static int traces_grow(struct traces *t)
{
	size_t cap = t->cap ? t->cap * 2 : 256;
	struct trace **slot;

	if (t->cap && (t->nr + 1) * 2 <= t->cap)
		return 0;
	slot = calloc(cap, sizeof(*slot));
	if (!slot)
		return -ENOMEM;
	for (size_t i = 0; i < t->cap; i++)
		if (t->slot[i])
			*lookup(slot, cap, t->slot[i], t->slot[i]->ip) = t->slot[i];
	free(t->slot);
	t->slot = slot;
	t->cap = cap;
	return 0;
}

/* Record the time of @n samples. */
static void add_times(struct traces *t, struct trace *to, uint64_t at_ns, uint64_t n)
{
	size_t room = t->max_times - t->nr_times;

	if (!at_ns)
		return;
	if (n > room)
		n = room;
	if (to->nr_times + n > to->cap_times) {
		size_t cap =
			to->cap_times * 2 > to->nr_times + n ? to->cap_times * 2 : to->nr_times + n;
		uint64_t *time_ns = reallocarray(to->time_ns, cap, sizeof(*time_ns));

		if (!time_ns)
			return;
		to->time_ns = time_ns;
		to->cap_times = cap;
	}
	t->nr_times += n;
	while (n--)
		to->time_ns[to->nr_times++] = at_ns;
}

void traces_add(struct traces *t, const struct trace *what, const uint64_t *ip)
{
	struct trace **slot = t->cap ? lookup(t->slot, t->cap, what, ip) : NULL, *new;

	if (slot && *slot) {
		(*slot)->samples += what->samples;
		/* Samples of several CPUs are not in order. */
		if (what->first_ns < (*slot)->first_ns)
			(*slot)->first_ns = what->first_ns;
		add_times(t, *slot, what->at_ns, what->samples);
		return;
	}
	new = t->nr < t->max &&traces_grow(t) == 0 ? malloc(sizeof(*new) + what->nr * sizeof(*ip))
						   : NULL;
	if (!new) {
		t->other += what->samples;
		return;
	}
	*new = *what;
	memcpy(new->ip, ip, what->nr * sizeof(*ip));
	if (new->who)
		new->who->refs++;
	new->time_ns = NULL;
	new->nr_times = new->cap_times = 0;
	add_times(t, new, what->at_ns, what->samples);
	*lookup(t->slot, t->cap, what, ip) = new;
	t->nr++;
}

static int cmp_trace(const void *a, const void *b)
{
	const struct trace *x = *(const struct trace *const *)a;
	const struct trace *y = *(const struct trace *const *)b;
	int ret;

	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	if (!x->who != !y->who)
		return x->who ? -1 : 1;
	ret = x->who ? cmp_who(x->who, y->who) : 0;
	for (unsigned int i = 0; !ret && i < x->nr && i < y->nr; i++)
		ret = x->ip[i] < y->ip[i] ? -1 : x->ip[i] > y->ip[i];
	if (!ret)
		ret = x->nr - y->nr;
	if (!ret)
		ret = x->side - y->side;
	if (!ret)
		ret = (x->pid > y->pid) - (x->pid < y->pid);
	return ret ? ret : x->cpl - y->cpl;
}

const struct trace **traces_sorted(const struct traces *t)
{
	const struct trace **all = calloc(t->nr + 1, sizeof(*all));
	size_t n = 0;

	for (size_t i = 0; all && i < t->cap; i++)
		if (t->slot[i])
			all[n++] = t->slot[i];
	if (all && n > 1)
		qsort(all, n, sizeof(*all), cmp_trace);
	return all;
}

void traces_free(struct traces *t)
{
	for (size_t i = 0; i < t->cap; i++) {
		if (!t->slot[i])
			continue;
		who_put(t->whos, t->slot[i]->who);
		free(t->slot[i]->time_ns);
		free(t->slot[i]);
	}
	free(t->slot);
	*t = (struct traces){.whos = t->whos, .max = t->max, .max_times = t->max_times};
}
