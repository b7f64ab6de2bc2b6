// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The source of backend "emulator": what is attached here is a session on each server that has some
 * of it, and its values are what that session said last. A count may never be shown when the
 * server's is not known, and never go back.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmud/peer_rows.h"
#include "vpmu/util/fail.h"

static struct peers *peers_of(const struct vpmu_backend *s)
{
	return (struct peers *)((char *)s - offsetof(struct peers, source));
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static struct pnode *pnode_new(struct peers *p, struct pnode *parent, enum pnode_kind kind,
			       uint64_t serial)
{
	size_t slots = kind == PNODE_TENANT ? PEERS_MAX : 0;
	struct pnode *n = calloc(1, sizeof(*n) + slots * sizeof(n->vms[0]));

	if (!n)
		return NULL;
	n->n = (struct vpmu_backend_node){.source = &p->source, .serial = serial};
	n->parent = parent;
	n->kind = kind;
	return n;
}

/* While a VM is being added, first its own node comes and then those of its vCPUs, by number. */
static int peer_source_node_add(struct vpmu_backend_node *parent, uint64_t serial,
				struct vpmu_backend_node **out)
{
	struct peers *p = peers_of(parent->source);
	struct peer_vm *vm = p->adding;
	struct pnode *n = pnode_new(p, pnode_of(parent),
				    !vm	     ? PNODE_TENANT
				    : vm->in ? PNODE_VCPU
					     : PNODE_VM,
				    serial);

	if (!n)
		return -ENOMEM;
	n->vm = vm;
	if (n->kind == PNODE_VM)
		vm->in = n;
	else if (n->kind == PNODE_VCPU)
		vm->vcpu[vm->nr_vcpus++] = n;
	*out = &n->n;
	return 0;
}

static void peer_source_node_remove(struct vpmu_backend_node *n)
{
	free(n);
}

/* ---- values --------------------------------------------------------------------------------- */

static const char *part_missing(const struct part *t)
{
	static char why[300]; /* one thread; until the next call */
	const struct remote *r = t->r;

	if (!part_matters(t))
		return NULL;
	if (r->peer->late)
		fail(0, why, sizeof(why), "the server at %s does not answer", r->peer->path);
	else if (r->state == FAILED)
		fail(0, why, sizeof(why), "the server at %s: %s", r->peer->path, r->why);
	else if (!r->read)
		fail(0, why, sizeof(why), "the server at %s has not answered yet", r->peer->path);
	else
		return NULL;
	return why;
}

static const char *peer_source_missing(const struct vpmu_counting *c)
{
	const struct count *k = (const struct count *)c;
	const struct part *t;
	const char *why;

	if (*k->why)
		return k->why;
	LIST_FOREACH (t, &k->parts, in_count) {
		why = part_missing(t);
		if (why)
			return why;
	}
	return NULL;
}

static void read_count(const struct vpmu_counting *c)
{
	const struct count *k = (const struct count *)c;
	bool none = peer_source_missing(c) != NULL;
	const struct part *t;

	for (size_t i = 0; i < c->nr_keys; i++) {
		struct vpmu_value *v = &c->values[i];
		bool not_by_all = false;

		*v = none ? (struct vpmu_value){.supported = true} : k->gone[i];
		if (none)
			continue;
		LIST_FOREACH (t, &k->parts, in_count) {
			value_add(v, &t->v[i]);
			value_add(v, &t->v[c->nr_keys + i]);
			not_by_all |= t->row > 0 && !t->v[i].supported;
		}
		v->partial |= v->supported && not_by_all;
		v->supported |= !not_by_all; /* nobody has said that it is not */
	}
}

/* ---- attaching ------------------------------------------------------------------------------ */

static struct vpmu_counting *peer_source_counting_new(struct vpmu_backend_node *n, size_t nr_keys)
{
	struct count *k = calloc(1, sizeof(*k) + nr_keys * sizeof(k->gone[0]));

	return k ? &k->c : NULL;
}

static void peer_source_counting_free(struct vpmu_counting *c)
{
	free(c);
}

static struct meter *meter_get(struct peers *p, const struct vpmu_counting *c)
{
	struct meter *m;

	LIST_FOREACH (m, &p->meters, next)
		if (m->keys == c->keys)
			return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->keys = c->keys;
	m->nr = c->nr_keys;
	LIST_INSERT_HEAD(&p->meters, m, next);
	return m;
}

static void unattach(struct peers *p, struct count *k)
{
	struct meter *m = k->m;
	struct remote *r, *next;
	struct part *t;

	if (!m)
		return;
	while ((t = LIST_FIRST(&k->parts))) {
		r = t->r;
		part_free(t);
		/* That of one VM goes with it; the others may get rows again. */
		if (r->only && LIST_EMPTY(&r->parts))
			remote_drop(r);
	}
	LIST_REMOVE(k, in_node);
	LIST_REMOVE(k, in_meter);
	k->m = NULL;
	if (!LIST_EMPTY(&m->counts))
		return;
	for (r = LIST_FIRST(&m->remotes); r; r = next) {
		next = LIST_NEXT(r, in_meter);
		remote_drop(r);
	}
	LIST_REMOVE(m, next);
	free(m);
}

static int attach_one(struct peers *p, struct count *k, bool many)
{
	struct pnode *n = pnode_of(k->c.node);
	struct meter *m = meter_get(p, &k->c);
	int ret = 0;

	if (!m)
		return -ENOMEM;
	LIST_INSERT_HEAD(&m->counts, k, in_meter);
	k->m = m;
	*k->why = '\0';
	memset(k->gone, 0, m->nr * sizeof(k->gone[0]));
	LIST_INSERT_HEAD(&n->counts, k, in_node);
	if (n->kind != PNODE_TENANT)
		return part_new(k, remote_for(m, n->vm->peer, n->kind, n->vm, many));
	for (unsigned int i = 0; i < PEERS_MAX && !ret; i++)
		if (p->peer[i] && p->peer[i]->greeted)
			ret = part_new(k, remote_for(m, p->peer[i], PNODE_TENANT, NULL, true));
	return ret;
}

static int peer_source_attach(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed)
{
	struct peers *p = peers_of(s);
	bool many = list && list->next;
	int ret = 0;

	*failed = 0;
	for (struct vpmu_counting *c = list; c && !ret; c = c->next)
		ret = attach_one(p, (struct count *)c, many);
	for (struct vpmu_counting *c = list; c && ret; c = c->next)
		unattach(p, (struct count *)c);
	return ret;
}

static void peer_source_detach(struct vpmu_backend *s, struct vpmu_counting *list)
{
	for (; list; list = list->next) {
		struct count *k = (struct count *)list;
		const char *why = peer_source_missing(list);

		read_count(list);
		/* The session may ask when there are no parts any more. */
		if (why && why != k->why)
			fail(0, k->why, sizeof(k->why), "%s", why);
		unattach(peers_of(s), k);
	}
}

static void peer_source_flush(struct vpmu_backend *s, const struct vpmu_counting *list)
{
	/* Whoever reads has waited for the servers before (peer_hold.c). */
}

static void peer_source_flush_node(struct vpmu_backend_node *n)
{
}

/* ---- the source ----------------------------------------------------------------------------- */

static bool peer_source_late(struct vpmu_backend *s, char *why, size_t whylen)
{
	const struct peers *p = peers_of(s);

	for (unsigned int i = 0; i < PEERS_MAX; i++) {
		const struct peer *e = p->peer[i];

		if (!e || !e->late || !e->nr_nodes)
			continue;
		fail(0, why, whylen, "the server at %s does not answer: its VMs are not counted",
		     e->path);
		return true;
	}
	return false;
}

static bool peer_source_can_count(const struct vpmu_backend *s, vpmu_key_t key,
				  enum vpmu_quality *q, char *why, size_t whylen)
{
	const struct vpmu_hostpmu *pmu = &peers_of(s)->pmu.pmu;

	if (!pmu->ops->eligible(pmu, key)) {
		snprintf(why, whylen, "the modelled pCPUs have no such event");
		return false;
	}
	*q = pmu->ops->quality(pmu, key);
	return true;
}

static void peer_source_sharing(struct vpmu_backend *s, struct vpmu_sharing *out)
{
	const struct peers *p = peers_of(s);

	*out = (struct vpmu_sharing){0};
	for (unsigned int i = 0; i < PEERS_MAX; i++) {
		const struct vpmu_sharing *one = p->peer[i] ? &p->peer[i]->sharing : NULL;

		if (!one)
			continue;
		out->consumers += one->consumers;
		out->keys += one->keys;
		out->host_counters += one->host_counters;
		out->refused += one->refused;
	}
}

static const struct vpmu_backend_ops ops = {
	.node_add = peer_source_node_add,
	.node_remove = peer_source_node_remove,
	.counting_new = peer_source_counting_new,
	.counting_free = peer_source_counting_free,
	.attach = peer_source_attach,
	.detach = peer_source_detach,
	.flush = peer_source_flush,
	.flush_node = peer_source_flush_node,
	.late = peer_source_late,
	.read = read_count,
	.missing = peer_source_missing,
	.can_count = peer_source_can_count,
	.sharing = peer_source_sharing,
};

int peer_source_init(struct peers *p)
{
	struct pnode *root = pnode_new(p, NULL, PNODE_TENANT, 0);
	struct pnode *other = pnode_new(p, root, PNODE_TENANT, 0);
	int ret = root && other ? vpmu_emupmu_init(&p->pmu, NULL) : -ENOMEM;

	p->source = (struct vpmu_backend){.ops = &ops, .backend = PEER_BACKEND};
	p->source.root = root ? &root->n : NULL;
	p->source.other = other ? &other->n : NULL;
	return ret;
}

void peer_source_fini(struct peers *p)
{
	free(p->source.root ? pnode_of(p->source.root) : NULL);
	free(p->source.other ? pnode_of(p->source.other) : NULL);
}
