// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tenants and cgroups of a real host as nodes; VMs are in tree_vm.c. See tree.h. A node must never
 * be removed while something is bound to it.
 */
#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmud/tree_priv.h"
#include "vpmu/util/clock.h"
#include "vpmu/util/fail.h"

void tree_note(struct tree *t, const char *line)
{
	t->note(t->arg, line);
}

void tree_failed(struct tree *t, const char *line)
{
	t->failed++;
	tree_note(t, line);
}

/* ---- claims on cgroups ---------------------------------------------------------------------- */

static int cmp_claim(const void *a, const void *b)
{
	uint64_t x = ((const struct claim *)a)->id, y = ((const struct claim *)b)->id;

	return x < y ? -1 : x > y;
}

static struct claim *claim_get(struct tree *t, uint64_t id)
{
	struct claim key = {.id = id}, **found = tfind(&key, &t->claims, cmp_claim), *c;

	if (found)
		return *found;
	c = xcalloc(1, sizeof(*c));
	c->id = id;
	xtsearch(c, &t->claims, cmp_claim);
	return c;
}

/* Bind @c to its current owner, a VM before a tenant; free it if there is none. */
static int claim_settle(struct tree *t, struct claim *c)
{
	struct node *want = c->vm ? c->vm : c->tenant;
	int ret = 0;

	if (want == c->bound)
		goto out;
	if (want)
		ret = t->backend.bind_cgroup(node_in(want, t->backend.source), c->id);
	else
		t->backend.unbind_cgroup(node_in(c->bound, t->backend.source), c->id);
	if (!ret)
		c->bound = want;
out:
	if (!c->vm && !c->tenant && !c->bound) {
		tdelete(c, &t->claims, cmp_claim);
		free(c);
	}
	return ret;
}

int tree_claim(struct tree *t, uint64_t id, struct node *n)
{
	struct claim *c = claim_get(t, id);
	struct node **whose = n->kind == NODE_VM ? &c->vm : &c->tenant;
	int ret;

	if (*whose && *whose != n)
		return -EBUSY; /* another VM has it */
	*whose = n;
	ret = claim_settle(t, c);
	if (ret) {
		*whose = NULL;
		claim_settle(t, c);
	}
	return ret;
}

void tree_unclaim(struct tree *t, uint64_t id, struct node *n)
{
	struct claim key = {.id = id}, **found = tfind(&key, &t->claims, cmp_claim), *c;

	if (!found)
		return;
	c = *found;
	if (c->vm == n)
		c->vm = NULL;
	if (c->tenant == n)
		c->tenant = NULL;
	/* If rebinding to the tenant fails, leave the cgroup unbound. */
	if (claim_settle(t, c)) {
		t->backend.unbind_cgroup(node_in(n, t->backend.source), id);
		c->bound = NULL;
	}
}

struct node *tree_owner(const struct tree *t, uint64_t id)
{
	struct claim key = {.id = id}, **found = tfind(&key, &t->claims, cmp_claim);

	return found ? (*found)->bound : NULL;
}

/* ---- tenants -------------------------------------------------------------------------------- */

static int cmp_tenant(const void *a, const void *b)
{
	return strcmp(((const struct tenant *)a)->path, ((const struct tenant *)b)->path);
}

static struct tenant *tenant_known(const struct tree *t, const char *path)
{
	struct tenant key, **found;

	snprintf(key.path, sizeof(key.path), "%s", path);
	found = tfind(&key, &t->tenants, cmp_tenant);
	return found ? *found : NULL;
}

struct tenant *tree_tenant(struct tree *t, const char *path)
{
	struct tenant *tenant = tenant_known(t, path);
	char why[300] = "";
	bool made = !tenant;

	if (made) {
		tenant = xcalloc(1, sizeof(*tenant));
		snprintf(tenant->path, sizeof(tenant->path), "%s", path);
		xtsearch(tenant, &t->tenants, cmp_tenant);
		tenant->next = t->first_tenant;
		tenant->back = &t->first_tenant;
		if (tenant->next)
			tenant->next->back = &tenant->next;
		t->first_tenant = tenant;
	}
	/* An operator may have removed the node: add it again. */
	if (tenant->node)
		return tenant;
	if (tenant_add(t->ts, path, &tenant->node, why, sizeof(why)) ||
	    tenant_count(tenant->node, t->backend.source)) {
		tenant->node = NULL;
		tree_failed(t, *why ? why : "tenant: out of memory");
		if (made)
			tree_tenant_forget(t, tenant);
		return NULL;
	}
	return tenant;
}

void tree_tenant_forget(struct tree *t, struct tenant *tenant)
{
	*tenant->back = tenant->next;
	if (tenant->next)
		tenant->next->back = tenant->back;
	tdelete(tenant, &t->tenants, cmp_tenant);
	free(tenant);
}

static bool useless(const struct tenant *tenant)
{
	return !tenant->vms && !tenant->cgroups && !tenant->in_rules;
}

/* Remove @tenant. Returns false if something is still in it. */
static bool tenant_drop(struct tree *t, struct tenant *tenant)
{
	if (tenant->node && tenant_remove(t->ts, tenant->path, NULL, 0))
		return false;
	tree_tenant_forget(t, tenant);
	return true;
}

/* A tenant is being removed: from now on its cgroups are charged to those above them. */
static void on_removing(struct node *n, void *arg)
{
	struct tree *t = arg;
	struct tenant *tenant = n->kind == NODE_TENANT ? tenant_known(t, n->path) : NULL;

	if (!tenant)
		return;
	if (tenant->cgroups)
		tree_cgroups_settle(t, 0);
	for (struct in_tenant *c = tenant->cgroups ? t->first_cgroup : NULL; c; c = c->next)
		if (c->tenant == tenant && tenant->node)
			tree_unclaim(t, c->id, tenant->node);
	tenant->node = NULL;
}

/* ---- cgroups -------------------------------------------------------------------------------- */

/* Returns true if the former vpmud's rules assigned @found to the same tenant, as far as is known:
 * it has come since. What new rules assign is counted from now on, as after a reload. */
static bool tree_cgroup_owed(const struct tree *t, const struct cgroup *found)
{
	char path[TENANT_PATH_MAX + 1];

	return t->starts && !t->backend.has_cgroup(t->backend.source, found->id) &&
	       (!t->had_known || (rules_cgroup(&t->had, found->path, path, NULL, 0) &&
				  !strcmp(path, found->tenant)));
}

void tree_cgroup_added(void *arg, struct cgroup *found)
{
	struct tree *t = arg;
	struct tenant *tenant = tree_tenant(t, found->tenant);
	struct in_tenant *c;
	char line[400];
	bool owed;
	int ret;

	if (!tenant)
		return;
	c = xcalloc(1, sizeof(*c));
	c->tenant = tenant;
	c->id = found->id;
	c->path = found->path;
	c->next = t->first_cgroup;
	c->back = &t->first_cgroup;
	if (c->next)
		c->next->back = &c->next;
	t->first_cgroup = c;
	t->nr_cgroups++;
	tenant->cgroups++;
	found->user = c;
	owed = tree_cgroup_owed(t, found);
	for (struct node *n = tenant->node; owed && n; n = n->parent)
		n->owed = true;
	ret = tree_claim(t, c->id, tenant->node);
	if (!ret && (found->born || owed))
		tree_late_cgroup(t, c);
	if (!ret)
		return;
	fail(0, line, sizeof(line), "cgroup %.200s: not counted for %s: %s", found->path,
	     tenant->path, strerror(-ret));
	tree_failed(t, line);
}

void tree_cgroup_removed(void *arg, struct cgroup *gone)
{
	struct tree *t = arg;
	struct in_tenant *c = gone->user;
	struct tenant *tenant = c ? c->tenant : NULL;

	if (!c)
		return;
	if (c->late)
		tree_cgroups_settle(t, 0);
	if (tenant->node)
		tree_unclaim(t, c->id, tenant->node);
	*c->back = c->next;
	if (c->next)
		c->next->back = c->back;
	free(c);
	t->nr_cgroups--;
	tenant->cgroups--;
	/* It was named after the cgroup, and has no other use. */
	if (useless(tenant) && !tenant->for_vms)
		tenant_drop(t, tenant);
}

/* ---- rules ---------------------------------------------------------------------------------- */

void tree_rules(struct tree *t, const struct rules *rules)
{
	struct tenant *tenant;

	t->rules = rules;
	json_decref(t->rules_saved);
	t->rules_saved = tree_rules_save(rules);
	for (tenant = t->first_tenant; tenant; tenant = tenant->next)
		tenant->in_rules = false;
	for (size_t i = 0; i < rules->nr; i++) {
		tenant = rules->rule[i].each ? NULL : tree_tenant(t, rules->rule[i].path);
		if (tenant)
			tenant->in_rules = true;
	}
	tree_vms_move(t);
}

void tree_prune(struct tree *t)
{
	bool dropped;

	/* Repeat: a tenant can go only after those below it. */
	do {
		struct tenant *tenant = t->first_tenant, *next;

		dropped = false;
		for (; tenant; tenant = next) {
			next = tenant->next;
			if (useless(tenant))
				dropped |= tenant_drop(t, tenant);
		}
	} while (dropped);
}

/* ---- persistent names ----------------------------------------------------------------------- */

/* FNV-1a, 64 bits. */
static uint64_t tree_hash(uint64_t h, const void *data, size_t len)
{
	const unsigned char *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3;
	return h;
}

/* Persistent names: a node is looked up below its own parent only, so its name need not include the
 * path. The start time tells a restarted VM from the old one. */
static void tree_on_added(struct node *n, struct vpmu_backend_node *in, void *arg)
{
	struct tree *t = arg;
	uint64_t h = tree_hash(0xcbf29ce484222325, &n->kind, sizeof(n->kind));
	const struct tree_vm *vm = n->user;

	if (in->source != t->backend.source || n->kind < NODE_TENANT || !t->backend.name)
		return;
	h = tree_hash(h, n->name, strlen(n->name));
	if (n->kind == NODE_VM) {
		h = tree_hash(h, &vm->vm->pid, sizeof(vm->vm->pid));
		h = tree_hash(h, &vm->vm->start_time, sizeof(vm->vm->start_time));
	}
	t->backend.name(in, h ? h : 1);
}

struct saving {
	const struct tree *t;
	json_t *added;
};

static void save_claim(const void *node, VISIT which, void *cgroups)
{
	const struct claim *c = *(const struct claim *const *)node;

	if (which == postorder || which == leaf)
		json_array_append_new(cgroups, json_sprintf("%" PRIu64, c->id));
}

/* Tenants that the tree did not create: operators' own, and parents of others, which hold the
 * counts of removed children. */
static int save_added(struct node *n, unsigned int depth, void *arg)
{
	const struct saving *s = arg;

	if (n->kind != NODE_TENANT || tenant_known(s->t, n->path))
		return 0;
	return json_array_append_new(s->added, json_string(n->path));
}

json_t *tree_save(const struct tree *t)
{
	json_t *tenants = json_array(), *vms = json_array(), *cgroups = json_array();
	struct saving s = {t, json_array()};

	twalk_r(t->claims, save_claim, cgroups);
	tenants_walk(t->ts, save_added, &s);

	for (const struct tenant *x = t->first_tenant; x; x = x->next)
		if (x->node && x->for_vms)
			json_array_append_new(tenants, json_string(x->path));
	for (const struct tree_vm *v = t->first_vm; v; v = v->next)
		json_array_append_new(vms, tree_vm_save(v));
	return json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:O*}", "tenants", tenants, "added",
			 s.added, "vms", vms, "cgroups", cgroups, "real-time",
			 (json_int_t)t->real_ns, "scanned", (json_int_t)t->whole_ns, "rules",
			 t->rules_saved);
}

/* Recreate an operator's tenant; no rule and no reload removes it. */
static void restore_added(struct tree *t, const char *path)
{
	char why[300] = "";
	struct node *n;

	if (tenant_add(t->ts, path, &n, why, sizeof(why)) || tenant_count(n, t->backend.source))
		tree_failed(t, why);
}

void tree_restore(struct tree *t, const json_t *saved)
{
	const json_t *path;
	size_t i;

	t->saved = json_incref((json_t *)saved);
	t->since_ns = 0; /* its sessions go on */
	t->starts = true;
	t->real_ns = json_integer_value(json_object_get(saved, "real-time"));
	t->whole_ns = (uint64_t)json_integer_value(json_object_get(saved, "scanned"));
	t->had_known = tree_rules_had(json_object_get(saved, "rules"), &t->had);
	json_array_foreach (json_object_get(saved, "tenants"), i, path) {
		const char *text = json_string_value(path);
		struct tenant *x =
			text && tenant_path_ok(text, NULL, 0) ? tree_tenant(t, text) : NULL;

		if (x)
			x->for_vms = true;
	}
	json_array_foreach (json_object_get(saved, "added"), i, path) {
		const char *text = json_string_value(path);

		if (text && tenant_path_ok(text, NULL, 0))
			restore_added(t, text);
	}
}

void tree_restored(struct tree *t)
{
	struct vpmu_backend_node *root = t->backend.source->root;
	const json_t *text;
	size_t i;

	/* The backend also has the previous vpmud's bindings, some of which no rule of today
	 * claims. */
	json_array_foreach (json_object_get(t->saved, "cgroups"), i, text) {
		const char *id = json_string_value(text);
		struct claim key = {.id = id ? strtoull(id, NULL, 10) : 0};

		if (key.id && !tfind(&key, &t->claims, cmp_claim) &&
		    !t->backend.bind_cgroup(root, key.id))
			t->backend.unbind_cgroup(root, key.id);
	}
	json_decref(t->saved);
	t->saved = NULL;
	rules_fini(&t->had);
	t->had_known = false;
}

/* ---- life ----------------------------------------------------------------------------------- */

void tree_usage(const struct tree *t, struct tree_usage *out)
{
	*out = (struct tree_usage){.cgroups = t->nr_cgroups, .failed = t->failed};
	for (const struct tree_vm *vm = t->first_vm; vm; vm = vm->next) {
		out->vms++;
		out->whole_vms += vm->whole;
		out->refused += vm->refused_for >= REFUSED_TENDS;
	}
}

struct tree *tree_create(struct tenants *ts, const struct tree_backend *backend,
			 const struct rules *rules, const char *cgroup_root,
			 void (*note)(void *arg, const char *line), void *arg)
{
	struct tree *t = xcalloc(1, sizeof(*t));

	t->root = xstrdup(cgroup_root);
	t->ts = ts;
	t->backend = *backend;
	t->note = note;
	t->arg = arg;
	t->round = 1; /* VMs start at 0 */
	t->since_ns = clock_ns(CLOCK_BOOTTIME);
	t->watch = (struct tenants_watch){tree_on_added, on_removing, t, NULL};
	tenants_watch(ts, &t->watch);
	tree_rules(t, rules);
	return t;
}

void tree_destroy(struct tree *t)
{
	struct in_tenant *c;
	struct tree_vm *vm;

	if (!t)
		return;
	tenants_unwatch(t->ts, &t->watch);
	json_decref(t->saved);
	json_decref(t->rules_saved);
	rules_fini(&t->had);
	while ((vm = t->first_vm)) {
		t->first_vm = vm->next;
		tree_vm_free(vm);
	}
	while ((c = t->first_cgroup)) {
		t->first_cgroup = c->next;
		free(c);
	}
	while (t->first_tenant)
		tree_tenant_forget(t, t->first_tenant);
	tdestroy(t->claims, free);
	free(t->root);
	free(t);
}
