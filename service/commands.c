// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Commands about the tree and the host, and functions shared by all commands. server.c calls them
 * on the control thread; requests are hostile (request.h). A command that fails must change
 * nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/clock.h"
#include "service/commands.h"
#include "service/request.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

/* ---- shared by the commands ----------------------------------------------------------------- */

#define QUALITY_LEN 32

/* A modelled count can be partial as well: all words are shown. */
static const char *quality_words(const struct vpmu_value *v, bool late, char words[QUALITY_LEN])
{
	const char *name = vpmu_quality_name(v->quality);

	if (!v->partial && !v->age_ns && !late)
		return name;
	snprintf(words, QUALITY_LEN, "%s%s%s%s", v->quality == VPMU_Q_EXACT ? "" : name,
		 v->partial ? " partial" : "", v->age_ns ? " aged" : "", late ? " late" : "");
	return words + (*words == ' ');
}

void command_value_text(struct json_text *t, const struct vpmu_value *v, bool late)
{
	char words[QUALITY_LEN];

	json_text_count(t, "{\"count\":\"", v->count);
	json_text_count(t, "\",\"counter-value\":\"", vpmu_value_scaled(v));
	json_text_count(t, "\",\"enabled-ns\":\"", v->enabled_ns);
	json_text_count(t, "\",\"running-ns\":\"", v->running_ns);
	if (v->age_ns)
		json_text_count(t, "\",\"age-ns\":\"", v->age_ns);
	json_text_add(t, "\",\"quality\":\""); /* words that need no quoting */
	json_text_add(t, quality_words(v, late, words));
	json_text_add(t, v->supported ? "\",\"supported\":true}" : "\",\"supported\":false}");
}

json_t *command_value(const struct vpmu_value *v)
{
	char quality[QUALITY_LEN];

	return json_pack("{s:o, s:o, s:o, s:o, s:s, s:b, s:o*}", "count", json_u64(v->count),
			 "counter-value", json_u64(vpmu_value_scaled(v)), "enabled-ns",
			 json_u64(v->enabled_ns), "running-ns", json_u64(v->running_ns), "quality",
			 quality_words(v, false, quality), "supported", v->supported, "age-ns",
			 v->age_ns ? json_u64(v->age_ns) : NULL);
}

void command_as_of(json_t *obj, const struct as_of *a)
{
	json_object_set_new(obj, "as-of-ns", json_u64(a->ns));
	json_object_set_new(obj, "as-of-us", json_u64(a->us));
	json_object_set_new(obj, "width-ns", json_u64(a->width_ns));
}

int command_target(struct commands *c, const json_t *req, bool required, bool narrows,
		   struct node **out, char *err, size_t errlen)
{
	const char *target = access_all(c->who) || c->who->nr != 1 ? "/" : c->who->tenants[0];
	char sees[200] = "";
	size_t len = 0;
	int ret = request_string(req, "target", required, TENANT_PATH_MAX, &target, err, errlen);

	if (ret)
		return ret;
	if (!json_object_get(req, "target") && !access_all(c->who) && c->who->nr > 1 && !narrows) {
		for (unsigned int i = 0; i < c->who->nr && len < sizeof(sees); i++)
			len += (size_t)snprintf(sees + len, sizeof(sees) - len, "%s%s",
						i ? ", " : "", c->who->tenants[i]);
		return fail(-EINVAL, err, errlen,
			    "target: none is given, and you may see several; expected one of %s%s",
			    sees, len < sizeof(sees) ? "" : "...");
	}
	*out = target[0] == '/' ? tenant_find(c->ts, target) : tenant_vm_find(c->ts, target);
	if (*out && (access_sees(c->who, (*out)->path) || (narrows && (*out)->kind == NODE_ROOT)))
		return 0;
	return fail(-ENOENT, err, errlen, "target: no %s \"%s\"; `vpmu list` shows what there is",
		    target[0] == '/' ? "tenant" : "VM", target);
}

int command_opening(struct commands *c, const json_t *req, bool required, bool narrows,
		    struct opening *out, char *err, size_t errlen)
{
	bool keep = false;
	int ret;

	*out = (struct opening){0};
	ret = command_target(c, req, required, narrows, &out->target, err, errlen);
	if (!ret)
		ret = request_string(req, "name", false, REGISTRY_NAME_MAX, &out->name, err,
				     errlen);
	if (!ret)
		ret = request_bool(req, "keep", false, &keep, err, errlen);
	if (!ret)
		ret = request_string(req, "backend", false, REGISTRY_NAME_MAX, &out->backend, err,
				     errlen);
	out->owner = keep ? NULL : c->who;
	out->who = c->who;
	return ret;
}

void command_describe(const struct commands *c, const struct command_kind *kind,
		      const struct registered *e, json_t *obj)
{
	json_object_set_new(obj, kind->field, json_string(e->name));
	json_object_set_new(obj, "target", json_string(e->target));
	json_object_set_new(obj, "keep", json_boolean(!e->owner && !e->lost_ns));
	json_object_set_new(obj, "lost", json_boolean(e->lost_ns));
	json_object_set_new(obj, "uid", json_integer(e->who.uid));
	kind->describe(e, c->who, obj);
}

void command_array(json_t *obj, const char *key, json_t *array)
{
	if (json_array_size(array))
		json_object_set(obj, key, array);
	json_decref(array);
}

void command_backend(const char *backend, const struct node *target, json_t *obj)
{
	json_t *others = json_array();

	json_object_set_new(obj, "backend", json_string(backend));
	for (unsigned int i = 0; target && i < TENANTS_SOURCES_MAX; i++)
		if (target->in[i] && strcmp(target->in[i]->source->backend, backend) != 0)
			json_array_append_new(others, json_string(target->in[i]->source->backend));
	command_array(obj, "left-out", others);
}

int command_list(const struct commands *c, const struct command_kind *kind,
		 const struct registry *r, const json_t *req, json_t *resp, char *err,
		 size_t errlen)
{
	json_t *list = json_array(), *obj;
	char key[16];

	snprintf(key, sizeof(key), "%ss", kind->field);
	for (const struct registered *e = r->first; e; e = e->next) {
		if (!registry_usable(e, c->who))
			continue;
		obj = json_object();
		command_describe(c, kind, e, obj);
		json_array_append_new(list, obj);
	}
	json_object_set_new(resp, key, list);
	return 0;
}

int command_named(const struct commands *c, const struct registry *r, const json_t *req,
		  struct registered **out, char *err, size_t errlen)
{
	const char *kind = r->kind->kind, *name = NULL;
	int ret = request_string(req, kind, true, REGISTRY_NAME_MAX + 1, &name, err, errlen);

	if (ret)
		return ret;
	*out = registry_find(r, name, c->who);
	if (*out && (*out)->lost_ns)
		(*out)->lost_ns = now_ns(); /* use extends its life */
	return *out ? 0
		    : fail(-ENOENT, err, errlen,
			   "%s: no \"%s\"; `vpmu sessions` shows what there is", kind, name);
}

static void close_opened(bool ok, void *arg)
{
	struct registered *e = arg;

	if (!ok)
		e->kind->close(e);
}

void command_opened(struct commands *c, struct registered *e)
{
	server_then(c->server, close_opened, e);
}

static void close_ended(bool ok, void *arg)
{
	struct registered *e = arg;

	if (ok)
		e->kind->close(e);
}

void command_ended(struct commands *c, struct registered *e)
{
	server_then(c->server, close_ended, e);
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

	if (n->kind == NODE_VCPU || !access_sees(st->c->who, n->path))
		return 0;
	obj = json_pack("{s:s, s:s, s:i}", "kind", command_node_kind(n->kind), "path", n->path,
			"depth", (int)depth);
	if (n->kind == NODE_VM) {
		json_object_set_new(obj, "vm", json_string(n->name));
		json_object_set_new(obj, "vcpus", json_integer(count_vcpus(n)));
		json_object_set_new(obj, "backend", json_string(node_source(n)->backend));
		if (o->vm_info)
			o->vm_info(n, obj, o->arg);
	} else {
		/* Ids are sequential, so they would reveal the number of others. */
		if (access_all(st->c->who))
			json_object_set_new(obj, "id", json_u64(n->id));
		if (n->dir)
			json_object_set_new(obj, "cgroup", json_string(n->dir));
	}
	json_array_append_new(st->nodes, obj);
	return 0;
}

static int commands_cmd_list(struct commands *c, const json_t *req, json_t *resp, char *err,
			     size_t errlen)
{
	struct list_state st = {.c = c, .nodes = json_array()};

	tenants_walk(c->ts, list_node, &st);
	json_object_set_new(resp, "nodes", st.nodes);
	return 0;
}

/* ---- events --------------------------------------------------------------------------------- */

/* One backend's support of an event. */
static json_t *event_on(const struct vpmu_backend *s, vpmu_key_t key)
{
	enum vpmu_quality q = VPMU_Q_EXACT;
	char why[200] = "";

	if (vpmu_backend_can_count(s, key, &q, why, sizeof(why)))
		return json_pack("{s:s, s:b, s:s}", "backend", s->backend, "supported", 1,
				 "quality", vpmu_quality_name(q));
	return json_pack("{s:s, s:b, s:s}", "backend", s->backend, "supported", 0, "why", why);
}

static int event_row(const struct vpmu_event_info *info, void *arg)
{
	const struct list_state *st = arg;
	const struct vpmu_backend *s;
	const vpmu_key_t key =
		st->c->opts->host_too ? vpmu_event_host_too(info->name, info->key) : info->key;
	json_t *backends = json_array();

	for (unsigned int i = 0; (s = tenants_source(st->c->ts, i)); i++)
		json_array_append_new(backends, event_on(s, key));
	json_array_append_new(st->nodes,
			      json_pack("{s:s, s:s, s:s*, s:o}", "event", info->name, "desc",
					info->desc, "alias", info->alias, "backends", backends));
	return 0;
}

static int commands_cmd_events(struct commands *c, const json_t *req, json_t *resp, char *err,
			       size_t errlen)
{
	struct list_state st = {.c = c, .nodes = json_array()};
	int ret = vpmu_event_list(event_row, &st);

	if (ret)
		fail(ret, err, errlen, "events: %s", strerror(-ret));
	json_object_set_new(resp, "events", st.nodes);
	return ret;
}

/* ---- the host ------------------------------------------------------------------------------- */

static int commands_cmd_sharing(struct commands *c, const json_t *req, json_t *resp, char *err,
				size_t errlen)
{
	json_t *backends = json_array();
	struct vpmu_backend *s;
	struct vpmu_sharing sh;
	char why[200];

	if (!access_all(c->who)) { /* the figures cover all tenants */
		json_object_set_new(resp, "backends", backends);
		return 0;
	}
	json_object_set_new(resp, "refused",
			    json_pack("{s:o, s:o, s:o}", "sessions",
				      json_u64(sessions_registry(c->sessions)->refused), "profiles",
				      json_u64(profiles_registry(c->profiles)->refused), "captures",
				      json_u64(captures_registry(c->captures)->refused)));
	json_object_set_new(resp, "samples-lost", json_u64(profiles_lost(c->profiles)));
	if (c->opts->figures)
		c->opts->figures(resp, c->opts->arg);
	for (unsigned int i = 0; (s = tenants_source(c->ts, i)); i++) {
		vpmu_backend_sharing(s, &sh);
		json_array_append_new(backends,
				      json_pack("{s:s, s:I, s:I, s:I, s:o, s:b}", "backend",
						s->backend, "consumers", (json_int_t)sh.consumers,
						"keys", (json_int_t)sh.keys, "host-counters",
						(json_int_t)sh.host_counters, "refused",
						json_u64(sh.refused), "stalled",
						vpmu_backend_stalled(s, why, sizeof(why))));
	}
	json_object_set_new(resp, "backends", backends);
	return 0;
}

struct conservation_state {
	const char *backend;
	json_t *rows;
};

static int conservation_row(const struct vpmu_conservation *c, void *arg)
{
	const struct conservation_state *st = arg;
	char name[VPMU_EVENT_NAME_MAX];

	json_array_append_new(st->rows,
			      json_pack("{s:s, s:I, s:s, s:o, s:o}", "backend", st->backend, "pcpu",
					(json_int_t)c->pcpu, "event", vpmu_event_name(c->key, name),
					"hardware", json_u64(c->hardware), "charged",
					json_u64(c->charged)));
	return 0;
}

static int commands_cmd_conservation(struct commands *c, const json_t *req, json_t *resp, char *err,
				     size_t errlen)
{
	struct conservation_state st = {.rows = json_array()};
	struct vpmu_backend *s;
	char why[200];
	int ret = 0;

	for (unsigned int i = 0; !ret && (s = tenants_source(c->ts, i)); i++) {
		if (!(s->can & VPMU_BACKEND_CONSERVES))
			continue;
		st.backend = s->backend;
		ret = vpmu_backend_conservation(s, conservation_row, &st);
		if (ret)
			fail(ret, err, errlen, "conservation: backend %s: %s", s->backend,
			     vpmu_backend_error(s, ret, why, sizeof(why)));
	}
	json_object_set_new(resp, "rows", st.rows);
	return ret;
}

static int commands_cmd_check(struct commands *c, const json_t *req, json_t *resp, char *err,
			      size_t errlen)
{
	json_t *rows = json_array();

	if (c->opts->check)
		c->opts->check(rows, access_all(c->who), c->opts->arg);
	json_object_set_new(resp, "rows", rows);
	return 0;
}

/* ---- tenants -------------------------------------------------------------------------------- */

static int cmd_tenant_add(struct commands *c, const json_t *req, json_t *resp, char *err,
			  size_t errlen)
{
	const char *path = NULL;
	struct node *n;
	int ret = request_string(req, "path", true, TENANT_PATH_MAX, &path, err, errlen);

	if (!ret)
		ret = tenant_add(c->ts, path, &n, err, errlen);
	if (ret)
		return ret;
	json_object_set_new(resp, "path", json_string(n->path));
	json_object_set_new(resp, "id", json_u64(n->id));
	if (n->dir)
		json_object_set_new(resp, "cgroup", json_string(n->dir));
	return 0;
}

static int cmd_tenant_remove(struct commands *c, const json_t *req, json_t *resp, char *err,
			     size_t errlen)
{
	const char *path = NULL;
	int ret = request_string(req, "path", true, TENANT_PATH_MAX, &path, err, errlen);

	return ret ? ret : tenant_remove(c->ts, path, err, errlen);
}

const struct command builtin_commands[] = {
	{"list", commands_cmd_list, FOR_READERS, NULL},
	{"events", commands_cmd_events, FOR_READERS, NULL},
	{"attach", cmd_attach, FOR_READERS,
	 FIELDS("events", "scope", "target", "name", "keep", "metrics", "cpus")},
	{"reattach", cmd_reattach, FOR_READERS, FIELDS("session")},
	{"read", cmd_read, FOR_READERS, FIELDS("session", "keep-gone")},
	{"detach", cmd_detach, FOR_READERS, FIELDS("session")},
	{"sessions", cmd_sessions, FOR_READERS, NULL},
	{"sharing", commands_cmd_sharing, FOR_READERS, NULL},
	{"conservation", commands_cmd_conservation, FOR_ALL_SEEING, NULL},
	{"check", commands_cmd_check, FOR_READERS, NULL},
	{"tenant-add", cmd_tenant_add, FOR_ADMINS, FIELDS("path")},
	{"tenant-remove", cmd_tenant_remove, FOR_ADMINS, FIELDS("path")},
	{"profile-start", cmd_profile_start, FOR_READERS,
	 FIELDS("event", "period", "target", "lbr", "name", "keep", "backend", "times", "cpus")},
	{"profile-read", cmd_profile_read, FOR_READERS, FIELDS("profile", "max")},
	{"profile-stop", cmd_profile_stop, FOR_READERS, FIELDS("profile", "max")},
	{"profiles", cmd_profiles, FOR_READERS, NULL},
	{"lbr-attach", cmd_lbr_attach, FOR_READERS,
	 FIELDS("target", "mode", "name", "keep", "backend")},
	{"lbr-read", cmd_lbr_read, FOR_READERS, FIELDS("target", "capture")},
	{"lbr-detach", cmd_lbr_detach, FOR_READERS, FIELDS("capture")},
	{"captures", cmd_captures, FOR_READERS, NULL},
	{NULL, NULL, FOR_ADMINS, NULL},
};
