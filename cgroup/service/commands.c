// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Commands about the tree and the host, and what all commands share. server.c calls them on the
 * control thread; requests are hostile (request.h). A command that fails must change nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/service/commands.h"
#include "cgroup/service/request.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define NO_FIELDS NULL

/* ---- what the commands share ---------------------------------------------------------------- */

int command_oom(char *err, size_t errlen)
{
	return fail(-ENOMEM, err, errlen, "request: out of memory");
}

json_t *command_value(const struct vpmu_value *v)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:s, s:b}", "count", json_u64(v->count),
			 "counter-value", json_u64(vpmu_value_scaled(v)), "enabled-ns",
			 json_u64(v->enabled_ns), "running-ns", json_u64(v->running_ns), "quality",
			 v->partial ? "partial" : vpmu_quality_name(v->quality), "supported",
			 v->supported);
}

int command_target(struct commands *c, const json_t *req, bool required, struct node **out,
		   char *err, size_t errlen)
{
	const char *target = "/";
	int ret = request_string(req, "target", required, TENANT_PATH_MAX, &target, err, errlen);

	if (ret)
		return ret;
	*out = target[0] == '/' ? tenant_find(c->ts, target) : tenant_vm_find(c->ts, target);
	if (*out)
		return 0;
	return fail(-ENOENT, err, errlen,
		    "target: no %s \"%s\"; a path or VM name of `list` is accepted",
		    target[0] == '/' ? "tenant" : "VM", target);
}

int command_opening(struct commands *c, const json_t *req, bool required, struct opening *out,
		    char *err, size_t errlen)
{
	bool keep = false;
	int ret;

	*out = (struct opening){0};
	ret = command_target(c, req, required, &out->target, err, errlen);
	if (!ret)
		ret = request_string(req, "name", false, REGISTRY_NAME_MAX, &out->name, err,
				     errlen);
	if (!ret)
		ret = request_bool(req, "keep", false, &keep, err, errlen);
	if (!ret)
		ret = request_string(req, "plane", false, REGISTRY_NAME_MAX, &out->plane, err,
				     errlen);
	out->owner = keep ? NULL : c->conn;
	return ret;
}

int command_describe(const struct command_kind *kind, const struct registered *e, json_t *obj)
{
	return json_object_set_new(obj, kind->field, json_string(e->name)) ||
	       json_object_set_new(obj, "target", json_string(e->target)) ||
	       json_object_set_new(obj, "keep", json_boolean(!e->owner)) || kind->describe(e, obj);
}

int command_plane(const char *plane, const struct node *target, json_t *obj)
{
	json_t *others = json_array();
	int bad = !others || json_object_set_new(obj, "plane", json_string(plane));

	for (unsigned int i = 0; target && i < TENANTS_SOURCES_MAX && !bad; i++)
		if (target->in[i] && strcmp(target->in[i]->source->plane, plane) != 0)
			bad = json_array_append_new(others,
						    json_string(target->in[i]->source->plane));
	if (!bad && json_array_size(others))
		bad = json_object_set(obj, "left-out", others);
	json_decref(others);
	return bad;
}

int command_list(const struct command_kind *kind, const struct registry *r, const json_t *req,
		 json_t *resp, char *err, size_t errlen)
{
	json_t *list = json_array(), *obj;
	char key[16];
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	snprintf(key, sizeof(key), "%ss", kind->field);
	if (json_object_set_new(resp, key, list))
		return command_oom(err, errlen);
	for (const struct registered *e = r->first; e && !ret; e = e->next) {
		obj = json_object();
		if (!obj || json_array_append_new(list, obj) || command_describe(kind, e, obj))
			ret = command_oom(err, errlen);
	}
	return ret;
}

int command_named(const struct registry *r, const json_t *req, struct registered **out, char *err,
		  size_t errlen)
{
	const char *kind = r->kind->kind, *name = NULL;
	int ret = request_string(req, kind, true, REGISTRY_NAME_MAX + 1, &name, err, errlen);

	if (ret)
		return ret;
	*out = registry_find(r, name);
	return *out ? 0
		    : fail(-ENOENT, err, errlen, "%s: no \"%s\"; a name of `%ss` is accepted", kind,
			   name, kind);
}

const char *command_node_kind(enum node_kind kind)
{
	static const char *const names[] = {"root", "host", "tenant", "vm", "vcpu"};

	return names[kind];
}

/* ---- list ----------------------------------------------------------------------------------- */

struct list_state {
	struct commands *c;
	json_t *nodes;
};

static unsigned int count_vcpus(const struct node *vm)
{
	unsigned int n = 0;

	for (const struct node *v = vm->first_child; v; v = v->next)
		n++;
	return n;
}

static int list_node(struct node *n, unsigned int depth, void *arg)
{
	const struct list_state *st = arg;
	const struct server_opts *o = st->c->opts;
	json_t *obj;

	if (n->kind == NODE_VCPU)
		return 0;
	obj = json_pack("{s:s, s:s, s:i}", "kind", command_node_kind(n->kind), "path", n->path,
			"depth", (int)depth);
	if (!obj || json_array_append_new(st->nodes, obj))
		return -ENOMEM;
	if (n->kind == NODE_VM) {
		if (json_object_set_new(obj, "vm", json_string(n->name)) ||
		    json_object_set_new(obj, "vcpus", json_integer(count_vcpus(n))) ||
		    json_object_set_new(obj, "plane", json_string(node_source(n)->plane)))
			return -ENOMEM;
		return o->vm_info ? o->vm_info(n, obj, o->arg) : 0;
	}
	if (json_object_set_new(obj, "id", json_u64(n->id)))
		return -ENOMEM;
	if (n->dir && json_object_set_new(obj, "cgroup", json_string(n->dir)))
		return -ENOMEM;
	return 0;
}

static int cmd_list(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct list_state st = {.c = c, .nodes = json_array()};
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "nodes", st.nodes))
		return command_oom(err, errlen);
	if (ret)
		return ret;
	ret = tenants_walk(c->ts, list_node, &st);
	return ret ? fail(ret, err, errlen, "list: %s", strerror(-ret)) : 0;
}

/* ---- events --------------------------------------------------------------------------------- */

/* What one plane says of an event. */
static json_t *event_on(const struct vpmu_source *s, vpmu_key_t key)
{
	enum vpmu_quality q = VPMU_Q_EXACT;
	char why[200] = "";

	if (vpmu_source_can_count(s, key, &q, why, sizeof(why)))
		return json_pack("{s:s, s:b, s:s}", "plane", s->plane, "supported", 1, "quality",
				 vpmu_quality_name(q));
	return json_pack("{s:s, s:b, s:s}", "plane", s->plane, "supported", 0, "why", why);
}

static int event_row(const struct vpmu_event_info *info, void *arg)
{
	const struct list_state *st = arg;
	const struct vpmu_source *s;
	json_t *planes = json_array();
	json_t *obj = json_pack("{s:s, s:s, s:s*, s:o}", "event", info->name, "desc", info->desc,
				"alias", info->alias, "planes", planes);

	if (!obj || json_array_append_new(st->nodes, obj))
		return -ENOMEM;
	for (unsigned int i = 0; (s = tenants_source(st->c->ts, i)); i++)
		if (json_array_append_new(planes, event_on(s, info->key)))
			return -ENOMEM;
	return 0;
}

static int cmd_events(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct list_state st = {.c = c, .nodes = json_array()};
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "events", st.nodes))
		return command_oom(err, errlen);
	if (ret)
		return ret;
	ret = vpmu_event_list(event_row, &st);
	return ret ? fail(ret, err, errlen, "events: %s", strerror(-ret)) : 0;
}

/* ---- the host ------------------------------------------------------------------------------- */

static int cmd_sharing(struct commands *c, const json_t *req, json_t *resp, char *err,
		       size_t errlen)
{
	json_t *planes = json_array();
	struct vpmu_source *s;
	struct vpmu_sharing sh;
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "planes", planes))
		return command_oom(err, errlen);
	for (unsigned int i = 0; !ret && (s = tenants_source(c->ts, i)); i++) {
		vpmu_source_sharing(s, &sh);
		if (json_array_append_new(planes,
					  json_pack("{s:s, s:I, s:I, s:I}", "plane", s->plane,
						    "consumers", (json_int_t)sh.consumers, "keys",
						    (json_int_t)sh.keys, "host-counters",
						    (json_int_t)sh.host_counters)))
			ret = command_oom(err, errlen);
	}
	return ret;
}

struct conservation_state {
	const char *plane;
	json_t *rows;
};

static int conservation_row(const struct vpmu_conservation *c, void *arg)
{
	const struct conservation_state *st = arg;
	char name[VPMU_EVENT_NAME_MAX];
	json_t *obj = json_pack("{s:s, s:I, s:s, s:o, s:o}", "plane", st->plane, "pcpu",
				(json_int_t)c->pcpu, "event", vpmu_event_name(c->key, name),
				"hardware", json_u64(c->hardware), "charged", json_u64(c->charged));

	return obj && json_array_append_new(st->rows, obj) == 0 ? 0 : -ENOMEM;
}

static int cmd_conservation(struct commands *c, const json_t *req, json_t *resp, char *err,
			    size_t errlen)
{
	struct conservation_state st = {.rows = json_array()};
	struct vpmu_source *s;
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "rows", st.rows))
		return command_oom(err, errlen);
	for (unsigned int i = 0; !ret && (s = tenants_source(c->ts, i)); i++) {
		if (!(s->can & VPMU_SOURCE_CONSERVES))
			continue;
		st.plane = s->plane;
		ret = vpmu_source_conservation(s, conservation_row, &st);
		if (ret)
			fail(ret, err, errlen, "conservation: plane %s: %s", s->plane,
			     strerror(-ret));
	}
	return ret;
}

static int cmd_check(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const char *dir = tenants_root(c->ts)->dir;
	json_t *rows = json_array(), *obj;
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "rows", rows))
		return command_oom(err, errlen);
	if (ret)
		return ret;
	obj = json_pack("{s:s, s:b, s:s}", "what", "tenants are cgroups", "ok", dir != NULL, "why",
			dir ? dir : "plain paths: the server was given no cgroup root");
	if (!obj || json_array_append_new(rows, obj))
		return command_oom(err, errlen);
	if (c->opts->check)
		c->opts->check(rows, c->opts->arg);
	return 0;
}

/* ---- tenants -------------------------------------------------------------------------------- */

static int cmd_tenant_add(struct commands *c, const json_t *req, json_t *resp, char *err,
			  size_t errlen)
{
	static const char *const fields[] = {"path", NULL};
	const char *path = NULL;
	struct node *n;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "path", true, TENANT_PATH_MAX, &path, err, errlen);
	if (!ret)
		ret = tenant_add(c->ts, path, &n, err, errlen);
	if (ret)
		return ret;
	if (json_object_set_new(resp, "path", json_string(n->path)) ||
	    json_object_set_new(resp, "id", json_u64(n->id)) ||
	    (n->dir && json_object_set_new(resp, "cgroup", json_string(n->dir))))
		return command_oom(err, errlen);
	return 0;
}

static int cmd_tenant_remove(struct commands *c, const json_t *req, json_t *resp, char *err,
			     size_t errlen)
{
	static const char *const fields[] = {"path", NULL};
	const char *path = NULL;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "path", true, TENANT_PATH_MAX, &path, err, errlen);
	return ret ? ret : tenant_remove(c->ts, path, err, errlen);
}

const struct command builtin_commands[] = {
	{"list", cmd_list},
	{"events", cmd_events},
	{"attach", cmd_attach},
	{"read", cmd_read},
	{"detach", cmd_detach},
	{"sessions", cmd_sessions},
	{"sharing", cmd_sharing},
	{"conservation", cmd_conservation},
	{"check", cmd_check},
	{"tenant-add", cmd_tenant_add},
	{"tenant-remove", cmd_tenant_remove},
	{"profile-start", cmd_profile_start},
	{"profile-read", cmd_profile_read},
	{"profile-stop", cmd_profile_stop},
	{"profiles", cmd_profiles},
	{"lbr-attach", cmd_lbr_attach},
	{"lbr-read", cmd_lbr_read},
	{"lbr-detach", cmd_lbr_detach},
	{"captures", cmd_captures},
	{NULL, NULL},
};
