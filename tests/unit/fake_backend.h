/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A backend that is not libvpmu's core: its counts are in plain arrays that the test
 * writes. It counts instructions and cycles, has no branch records, and samples only if asked to.
 * It fails the test when cgroup/ breaks the contract of service/backend/backend.h.
 */
#ifndef TESTS_UNIT_FAKE_BACKEND_H
#define TESTS_UNIT_FAKE_BACKEND_H

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "service/backend/backend.h"
#include "service/clock.h"

#define FAKE_EVENTS 2 /* VPMU_EV_CYCLES, VPMU_EV_INSTRUCTIONS: as they are numbered */

struct fake_node {
	struct vpmu_backend_node n; /* first */
	struct fake_node *parent;
	uint64_t count[FAKE_EVENTS]; /* charged to the node itself or folded into it */
	uint64_t below[FAKE_EVENTS]; /* charged to nodes below it that are still there */
	unsigned int children, countings;
};

struct fake_source {
	struct vpmu_backend s; /* first */
	struct fake_node root, other;
	unsigned int nodes, countings, flushes;
	int attach_error;		/* what attach answers; 0: it attaches */
	struct fake_sampling *sampling; /* the only one there may be */
	bool stalled;			/* a CPU does not answer */
	/* fake_instant() of the first flush or attach, and of the last read or attach; 0: none */
	uint64_t first_ns, last_ns;
};

struct fake_counting {
	struct vpmu_counting c; /* first */
	bool attached;
	uint64_t base[];
};

struct fake_sampling {
	struct vpmu_sampling s; /* first */
	struct vpmu_sampling_opts opts;
	uint64_t base;
};

/* An instant of CLOCK_MONOTONIC that is no other call's. */
static inline uint64_t fake_instant(void)
{
	static uint64_t last;
	uint64_t now;

	do
		now = now_ns();
	while (now == last);
	return last = now;
}

/* A part of what the caller does was done. */
static inline void fake_part(struct vpmu_backend *s)
{
	struct fake_source *f = (struct fake_source *)s;

	f->last_ns = fake_instant();
	if (!f->first_ns)
		f->first_ns = f->last_ns;
}

static inline struct fake_source *fake_of(const struct vpmu_backend_node *n)
{
	return (struct fake_source *)n->source;
}

static inline struct fake_node *fake_node(const struct vpmu_backend_node *n)
{
	return (struct fake_node *)n;
}

/* What happens in a vCPU: @n events of number @ev. */
static inline void fake_charge(struct vpmu_backend_node *node, unsigned int ev, uint64_t n)
{
	fake_node(node)->count[ev] += n;
	for (struct fake_node *p = fake_node(node)->parent; p; p = p->parent)
		p->below[ev] += n;
}

static inline uint64_t fake_total(const struct vpmu_backend_node *n, unsigned int ev)
{
	return fake_node(n)->count[ev] + fake_node(n)->below[ev];
}

static inline int fake_node_add(struct vpmu_backend_node *parent, uint64_t serial,
				struct vpmu_backend_node **out)
{
	struct fake_node *n = calloc(1, sizeof(*n));

	cr_assert(n);
	n->n = (struct vpmu_backend_node){.source = parent->source, .serial = serial};
	n->parent = fake_node(parent);
	n->parent->children++;
	fake_of(parent)->nodes++;
	*out = &n->n;
	return 0;
}

static inline void fake_node_remove(struct vpmu_backend_node *node)
{
	struct fake_node *n = fake_node(node);

	cr_assert_eq(n->children, 0, "a node is removed before those below it");
	cr_assert_eq(n->countings, 0, "a node is removed while something is attached to it");
	for (unsigned int ev = 0; ev < FAKE_EVENTS; ev++) {
		n->parent->count[ev] += fake_total(node, ev);
		n->parent->below[ev] -= fake_total(node, ev);
	}
	n->parent->children--;
	fake_of(node)->nodes--;
	free(n);
}

static inline struct vpmu_counting *fake_counting_new(struct vpmu_backend_node *n, size_t nr_keys)
{
	struct fake_counting *c = calloc(1, sizeof(*c) + nr_keys * sizeof(c->base[0]));

	cr_assert(c);
	fake_of(n)->countings++;
	return &c->c;
}

static inline void fake_counting_free(struct vpmu_counting *c)
{
	cr_assert_not(((struct fake_counting *)c)->attached, "freed while it is attached");
	fake_of(c->node)->countings--;
	free(c);
}

static inline bool fake_can_count(const struct vpmu_backend *s, vpmu_key_t key,
				  enum vpmu_quality *q, char *why, size_t whylen)
{
	*q = VPMU_Q_ESTIMATED;
	snprintf(why, whylen, "the fake has no such event");
	return vpmu_key_space(key) == VPMU_SPACE_GENERIC && vpmu_key_event(key) < FAKE_EVENTS;
}

static inline int fake_attach(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed)
{
	struct fake_source *f = (struct fake_source *)s;

	*failed = 0;
	if (f->attach_error)
		return f->attach_error;
	for (; list; list = list->next) {
		struct fake_counting *c = (struct fake_counting *)list;

		cr_assert_eq(list->source, s, "a list has countings of one source");
		cr_assert_not(c->attached, "attached twice");
		fake_part(s);
		c->attached = true;
		fake_node(list->node)->countings++;
		for (size_t i = 0; i < list->nr_keys; i++)
			c->base[i] = vpmu_key_event(list->keys[i]) < FAKE_EVENTS
					     ? fake_total(list->node, vpmu_key_event(list->keys[i]))
					     : 0;
	}
	return 0;
}

static inline void fake_read(const struct vpmu_counting *c)
{
	const struct fake_counting *f = (const struct fake_counting *)c;
	enum vpmu_quality q;
	char why[80];

	cr_assert(f->attached, "read while it is not attached");
	fake_part(c->source);
	for (size_t i = 0; i < c->nr_keys; i++) {
		c->values[i] = (struct vpmu_value){0};
		if (!fake_can_count(NULL, c->keys[i], &q, why, sizeof(why)))
			continue;
		c->values[i].supported = true;
		c->values[i].quality = q;
		c->values[i].enabled_ns = c->values[i].running_ns = 1;
		c->values[i].count = fake_total(c->node, vpmu_key_event(c->keys[i])) - f->base[i];
	}
}

static inline void fake_detach(struct vpmu_backend *s, struct vpmu_counting *list)
{
	for (; list; list = list->next) {
		cr_assert_eq(list->source, s, "a list has countings of one source");
		fake_read(list);
		((struct fake_counting *)list)->attached = false;
		fake_node(list->node)->countings--;
	}
}

static inline void fake_flush(struct vpmu_backend *s, const struct vpmu_counting *list)
{
	((struct fake_source *)s)->flushes++;
	fake_part(s);
}

static inline void fake_flush_node(struct vpmu_backend_node *n)
{
	((struct fake_source *)n->source)->flushes++;
}

static inline bool fake_stalled(struct vpmu_backend *s, char *why, size_t whylen)
{
	if (((struct fake_source *)s)->stalled)
		snprintf(why, whylen, "CPU 5 of the fake is out to lunch");
	return ((struct fake_source *)s)->stalled;
}

static inline void fake_sharing(struct vpmu_backend *s, struct vpmu_sharing *out)
{
	*out = (struct vpmu_sharing){.consumers = ((struct fake_source *)s)->countings, .keys = 7};
}

static inline int fake_sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
				    struct vpmu_sampling **out)
{
	struct fake_sampling *s;
	enum vpmu_quality q;
	char why[80];

	if (!fake_can_count(n->source, o->key, &q, why, sizeof(why)))
		return -EOPNOTSUPP;
	s = calloc(1, sizeof(*s));
	cr_assert(s);
	cr_assert_not(fake_of(n)->sampling);
	s->s.node = n;
	s->opts = *o;
	s->base = fake_total(n, vpmu_key_event(o->key));
	fake_of(n)->sampling = s;
	fake_node(n)->countings++;
	*out = &s->s;
	return 0;
}

static inline void fake_sample_stop(struct vpmu_sampling *s)
{
	fake_node(s->node)->countings--;
	fake_of(s->node)->sampling = NULL;
	free(s);
}

static inline void fake_sample_read(const struct vpmu_sampling *s, struct vpmu_value *out)
{
	const struct fake_sampling *f = (const struct fake_sampling *)s;

	*out = (struct vpmu_value){.supported = true};
	out->count = fake_total(s->node, vpmu_key_event(f->opts.key)) - f->base;
}

/* One sample of vCPU node @n at address @ip, if it is sampled. */
static inline void fake_sample(const struct vpmu_backend_node *n, uint64_t ip)
{
	const struct fake_sampling *f = fake_of(n)->sampling;
	const struct vpmu_backend_sample s = {
		.serial = n->serial, .known = true, .cpl = 3, .ip = ip, .periods = 1};

	if (f)
		f->opts.sample(f->opts.arg, &s);
}

static const struct vpmu_backend_ops fake_ops = {
	.node_add = fake_node_add,
	.node_remove = fake_node_remove,
	.counting_new = fake_counting_new,
	.counting_free = fake_counting_free,
	.attach = fake_attach,
	.detach = fake_detach,
	.flush = fake_flush,
	.flush_node = fake_flush_node,
	.stalled = fake_stalled,
	.read = fake_read,
	.can_count = fake_can_count,
	.sharing = fake_sharing,
	.sample_start = fake_sample_start,
	.sample_stop = fake_sample_stop,
	.sample_read = fake_sample_read,
};

static inline void fake_init(struct fake_source *f, const char *backend, unsigned int can)
{
	*f = (struct fake_source){0};
	f->root.n.source = f->other.n.source = &f->s;
	f->other.parent = &f->root;
	f->s = (struct vpmu_backend){
		.ops = &fake_ops,
		.backend = backend,
		.can = can,
		.root = &f->root.n,
		.other = &f->other.n,
	};
}

#endif
