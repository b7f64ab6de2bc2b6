// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The tree of nodes, the sources (backends) that count each of them, and tenants by path. VMs are
 * in vm.c; directories, cgroup ids and threads in cgroupfs.c. The servers and the service call this
 * on the control thread. A node must never be freed before its watchers are notified.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/fs/cgroupfs.h"
#include "service/program/memory.h"
#include "service/tenant/priv.h"
#include "vpmu/util/fail.h"

#define OWN_ID (1ULL << 63)

/* ---- nodes -------------------------------------------------------------------------------- */

static int cmp_path(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->path, ((const struct node *)b)->path);
}

int node_cmp_name(const void *a, const void *b)
{
	return strcmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}

void node_free(struct node *n)
{
	struct node_priv *p = priv(n);

	free(p->name);
	free(p->path);
	free(p->dir);
	free(p);
}

struct node *node_new(struct tenants *ts, enum node_kind kind, struct node *parent)
{
	struct node_priv *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->ts = ts;
	p->n.kind = kind;
	p->n.serial = ++ts->next_serial;
	p->n.parent = parent;
	p->n.depth = parent ? parent->depth + 1 : 0;
	return &p->n;
}

void node_chain(struct node *n)
{
	struct node_priv *p = priv(n), *parent = n->parent ? priv(n->parent) : NULL;

	p->ts->generation++;
	if (!parent)
		return;
	p->prev = parent->last_child;
	if (p->prev)
		p->prev->next = n;
	else
		parent->n.first_child = n;
	parent->last_child = n;
}

void node_unchain(struct node *n)
{
	struct node_priv *p = priv(n), *parent = n->parent ? priv(n->parent) : NULL;

	p->ts->generation++;
	if (!parent)
		return;
	if (p->prev)
		p->prev->next = n->next;
	else
		parent->n.first_child = n->next;
	if (n->next)
		priv(n->next)->prev = p->prev;
	else
		parent->last_child = p->prev;
	p->prev = n->next = NULL;
}

void node_tell_added(struct node *n, unsigned int i)
{
	struct tenants *ts = priv(n)->ts;

	ts->generation++;
	for (struct tenants_watch *w = ts->watches; w; w = w->next)
		if (w->added)
			w->added(n, n->in[i], w->arg);
}

void node_leave_sources(struct node *n)
{
	for (unsigned int i = 0; i < TENANTS_SOURCES_MAX; i++)
		if (n->in[i])
			vpmu_backend_node_remove(n->in[i]);
}

void node_delete(struct node *n)
{
	struct tenants *ts = priv(n)->ts;

	for (struct tenants_watch *w = ts->watches; w; w = w->next)
		if (w->removing)
			w->removing(n, w->arg);
	node_leave_sources(n);
	if (n->kind == NODE_TENANT)
		tdelete(n, &ts->by_path, cmp_path);
	else if (n->kind == NODE_VM)
		tdelete(n, &ts->by_vm, node_cmp_name);
	node_unchain(n);
	node_free(n);
}

/* A path node with its directory and id, not linked and not counted yet. */
static int path_node(struct tenants *ts, enum node_kind kind, struct node *parent, const char *path,
		     struct node **out, char *err, size_t errlen)
{
	struct node *n = node_new(ts, kind, parent);
	struct node_priv *p = n ? priv(n) : NULL;
	int ret = -ENOMEM;

	if (!n)
		goto oom;
	p->path = strdup(path);
	p->name = strdup(path[1] ? strrchr(path, '/') + 1 : path);
	if (!p->path || !p->name)
		goto oom;
	n->path = p->path;
	n->name = p->name;
	if (ts->fs && kind != NODE_HOST) {
		p->dir = cgroupfs_dir(ts->fs, path);
		if (!p->dir)
			goto oom;
		if (kind == NODE_TENANT)
			ret = cgroupfs_make(p->dir, &p->made_dir, err, errlen);
		else
			ret = 0;
		if (ret)
			goto fail;
		ret = cgroupfs_id(p->dir, &n->id, err, errlen);
		if (ret)
			goto fail_dir;
		n->dir = p->dir;
	} else {
		n->id = OWN_ID | ts->next_id++;
	}
	*out = n;
	return 0;
oom:
	fail(ret, err, errlen, "tenant %s: out of memory", path);
	goto fail;
fail_dir:
	if (p->made_dir)
		cgroupfs_remove(p->dir, NULL, 0);
fail:
	if (n)
		node_free(n);
	return ret;
}

/* ---- the tree and its sources ------------------------------------------------------------- */

int tenants_create(const char *cgroup_root, struct tenants **out, char *err, size_t errlen)
{
	struct tenants *ts = xcalloc(1, sizeof(*ts));
	int ret = 0;

	ts->next_id = 1;
	if (cgroup_root)
		ret = cgroupfs_open(cgroup_root, &ts->fs, err, errlen);
	if (!ret)
		ret = path_node(ts, NODE_ROOT, NULL, "/", &ts->root, err, errlen);
	if (!ret)
		ret = path_node(ts, NODE_HOST, ts->root, "/host", &ts->other, err, errlen);
	if (ret)
		goto fail;
	node_chain(ts->root);
	node_chain(ts->other);
	*out = ts;
	return 0;
fail:
	if (ts->root)
		node_free(ts->root);
	cgroupfs_close(ts->fs);
	free(ts);
	return ret;
}

/* Remove everything below @n. */
static void prune(struct tenants *ts, struct node *n)
{
	struct node *c;

	while ((c = n->first_child)) {
		prune(ts, c);
		if (c == ts->other) {
			node_unchain(c);
			node_free(c);
			continue;
		}
		if (priv(c)->made_dir)
			cgroupfs_remove(priv(c)->dir, NULL, 0);
		node_delete(c);
	}
}

void tenants_destroy(struct tenants *ts)
{
	if (!ts)
		return;
	if (ts->fs)
		cgroupfs_leave(ts->fs);
	prune(ts, ts->root);
	node_free(ts->root);
	cgroupfs_close(ts->fs);
	free(ts);
}

int tenants_add_source(struct tenants *ts, struct vpmu_backend *s)
{
	unsigned int i = 0;

	for (; i < TENANTS_SOURCES_MAX && ts->source[i]; i++)
		if (strcmp(ts->source[i]->backend, s->backend) == 0)
			return -EEXIST;
	if (i == TENANTS_SOURCES_MAX)
		return -ENOSPC;
	ts->source[i] = s;
	ts->root->in[i] = s->root;
	ts->other->in[i] = s->other;
	node_tell_added(ts->root, i);
	node_tell_added(ts->other, i);
	return 0;
}

struct vpmu_backend *tenants_source(const struct tenants *ts, unsigned int i)
{
	return i < TENANTS_SOURCES_MAX ? ts->source[i] : NULL;
}

void tenant_late(struct node *n, struct node *charged, uint64_t ns)
{
	priv(n)->ts->generation++;
	/* Up to the first node at or above both, which has all. */
	while (n != charged) {
		struct node **deeper = n->depth >= charged->depth ? &n : &charged;

		(*deeper)->late_ns += ns;
		*deeper = (*deeper)->parent;
	}
}

int node_count_by(struct node *n, unsigned int i)
{
	int ret;

	if (n->in[i])
		return 0;
	ret = node_count_by(n->parent, i);
	if (!ret)
		ret = vpmu_backend_node_add(n->parent->in[i], n->serial, &n->in[i]);
	if (!ret)
		node_tell_added(n, i);
	return ret;
}

unsigned int tenants_source_index(const struct tenants *ts, const struct vpmu_backend *s)
{
	unsigned int i = 0;

	while (ts->source[i] != s)
		i++;
	return i;
}

int tenant_count(struct node *n, struct vpmu_backend *s)
{
	return node_count_by(n, tenants_source_index(priv(n)->ts, s));
}

struct vpmu_backend_node *node_in(const struct node *n, const struct vpmu_backend *s)
{
	for (unsigned int i = 0; i < TENANTS_SOURCES_MAX; i++)
		if (n->in[i] && n->in[i]->source == s)
			return n->in[i];
	return NULL;
}

struct vpmu_backend *node_source(const struct node *n)
{
	unsigned int i = 0;

	while (!n->in[i])
		i++;
	return n->in[i]->source;
}

const char *node_target(const struct node *n)
{
	return n->kind == NODE_VM ? n->name : n->path;
}

struct node *tenants_root(const struct tenants *ts)
{
	return ts->root;
}

uint64_t tenants_generation(const struct tenants *ts)
{
	return ts->generation;
}

void tenants_watch(struct tenants *ts, struct tenants_watch *w)
{
	struct tenants_watch **link = &ts->watches;

	while (*link)
		link = &(*link)->next;
	w->next = NULL;
	*link = w;
}

void tenants_unwatch(struct tenants *ts, struct tenants_watch *w)
{
	struct tenants_watch **link = &ts->watches;

	while (*link && *link != w)
		link = &(*link)->next;
	if (*link)
		*link = w->next;
}

/* ---- tenants ------------------------------------------------------------------------------ */

struct node *tenant_find(const struct tenants *ts, const char *path)
{
	struct node key = {.path = path}, **found;

	if (strcmp(path, "/") == 0)
		return ts->root;
	if (strcmp(path, "/host") == 0)
		return ts->other;
	found = tfind(&key, &ts->by_path, cmp_path);
	return found ? *found : NULL;
}

/* Add the tenant at @path below @parent. */
static int add_one(struct tenants *ts, struct node *parent, const char *path, struct node **out,
		   char *err, size_t errlen)
{
	struct node *n;
	int ret = path_node(ts, NODE_TENANT, parent, path, &n, err, errlen);

	if (ret)
		return ret;
	if (!tsearch(n, &ts->by_path, cmp_path)) {
		if (priv(n)->made_dir)
			cgroupfs_remove(priv(n)->dir, NULL, 0);
		node_free(n);
		return fail(-ENOMEM, err, errlen, "tenant %s: out of memory", path);
	}
	node_chain(n);
	*out = n;
	return 0;
}

int tenant_add(struct tenants *ts, const char *path, struct node **out, char *err, size_t errlen)
{
	struct node *n = ts->root, *found, *made = NULL;
	char part[TENANT_PATH_MAX + 1];
	const char *end = path;
	int ret;

	if (!tenant_path_ok(path, err, errlen))
		return -EINVAL;
	while (*end) {
		end = strchrnul(end + 1, '/');
		memcpy(part, path, (size_t)(end - path));
		part[end - path] = '\0';
		found = tenant_find(ts, part);
		if (!found) {
			ret = add_one(ts, n, part, &found, err, errlen);
			if (ret)
				goto undo;
			if (!made)
				made = found;
		}
		n = found;
	}
	if (out)
		*out = n;
	return 0;
undo:
	/* Remove the ancestors that this call made. */
	while (made) {
		struct node *parent = n->parent;

		if (n == made)
			made = NULL;
		if (priv(n)->made_dir)
			cgroupfs_remove(priv(n)->dir, NULL, 0);
		node_delete(n);
		n = parent;
	}
	return ret;
}

int tenant_remove(struct tenants *ts, const char *path, char *err, size_t errlen)
{
	struct node *n = tenant_find(ts, path);
	int ret;

	if (!n)
		return fail(-ENOENT, err, errlen,
			    "tenant %.255s: no such tenant; `vpmu list` shows them", path);
	if (n->kind != NODE_TENANT)
		return fail(-EINVAL, err, errlen,
			    "tenant %s: cannot be removed; give the path of a tenant", path);
	if (n->first_child)
		return fail(-EBUSY, err, errlen,
			    "tenant %s: has %s \"%s\"; remove all below it first", path,
			    n->first_child->kind == NODE_VM ? "VM" : "tenant",
			    n->first_child->name);
	/* The directory first: rmdir fails if its cgroup has a thread. */
	if (priv(n)->made_dir) {
		ret = cgroupfs_remove(priv(n)->dir, err, errlen);
		if (ret)
			return ret;
	}
	node_delete(n);
	return 0;
}

int tenant_join(const struct node *n, int tid, char *err, size_t errlen)
{
	while (n->kind == NODE_VM || n->kind == NODE_VCPU)
		n = n->parent;
	if (n->kind != NODE_TENANT || !n->dir)
		return 0;
	return cgroupfs_join(priv(n)->ts->fs, n->path, tid, err, errlen);
}

/* ---- walking ------------------------------------------------------------------------------ */

int tenants_walk(const struct tenants *ts, int (*fn)(struct node *n, unsigned int depth, void *arg),
		 void *arg)
{
	struct node *n = ts->root;
	unsigned int order = 0;
	int ret;

	while (n) {
		n->order = order++;
		ret = fn(n, n->depth, arg);
		if (ret)
			return ret;
		if (n->first_child) {
			n = n->first_child;
			continue;
		}
		while (n && !n->next)
			n = n->parent;
		if (n)
			n = n->next;
	}
	return 0;
}
