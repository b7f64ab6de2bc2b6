/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by tenant.c and vm.c; private to them. */
#pragma once

#include "service/tenant/tenant.h"

struct node_priv {
	struct node n; /* first */
	struct tenants *ts;
	struct node *last_child, *prev;
	char *name, *path, *dir; /* owned; path only of root, host and tenants */
	bool made_dir;
	char number[12]; /* name of a vCPU */
};

struct tenants {
	struct vpmu_backend *source[TENANTS_SOURCES_MAX]; /* NULL after the last one */
	struct cgroupfs *fs;				  /* NULL: plain paths */
	struct node *root, *other;
	void *by_path, *by_vm; /* tsearch(3) trees of struct node */
	uint64_t next_id, next_serial, generation;
	struct tenants_watch *watches;
};

static inline struct node_priv *priv(const struct node *n)
{
	return (struct node_priv *)n;
}

/* node_cmp_name - comparison of two nodes, for by_vm. */
int node_cmp_name(const void *a, const void *b);

/* node_new - a node in no list and no source; NULL: no memory.
 * node_free - free such a node, or an unlinked one.
 * node_chain, node_unchain - link to, unlink from its parent's children. */
struct node *node_new(struct tenants *ts, enum node_kind kind, struct node *parent);
void node_free(struct node *n);
void node_chain(struct node *n);
void node_unchain(struct node *n);

/* node_tell_added - notify the watchers that source @i counts @n from now on. */
void node_tell_added(struct node *n, unsigned int i);
/* node_leave_sources - remove @n from the sources that count it. */
void node_leave_sources(struct node *n);
/* node_delete - notify the watchers, leave the sources, and free @n, which must have no children.
 */
void node_delete(struct node *n);

/* tenants_source_index - index of source @s, which must be in the tree. */
unsigned int tenants_source_index(const struct tenants *ts, const struct vpmu_backend *s);
/* node_count_by - let source @i count @n, which must not be a VM or vCPU, and its ancestors.
 * -ENOMEM. */
int node_count_by(struct node *n, unsigned int i);
