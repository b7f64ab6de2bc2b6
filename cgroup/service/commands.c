// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/service/commands.h"
#include "vpmu/fail.h"
#include "cgroup/service/request.h"

#define EVENTS_BYTES_MAX 8192
#define NO_FIELDS	 NULL

int command_oom(char *err, size_t errlen)
{
	return fail(-ENOMEM, err, errlen, "request: out of memory");
}

static const char *kind_name(enum node_kind kind)
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
	obj = json_pack("{s:s, s:s, s:i}", "kind", kind_name(n->kind), "path", n->path, "depth",
			(int)depth);
	if (!obj || json_array_append_new(st->nodes, obj))
		return -ENOMEM;
	if (n->kind == NODE_VM) {
		if (json_object_set_new(obj, "vm", json_string(n->name)) ||
		    json_object_set_new(obj, "vcpus", json_integer(count_vcpus(n))))
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

static int event_row(const struct vpmu_event_info *info, void *arg)
{
	const struct list_state *st = arg;
	const struct server_opts *o = st->c->opts;
	enum vpmu_quality q = VPMU_Q_EXACT;
	char why[200] = "";
	json_t *obj = json_pack("{s:s, s:s, s:s*}", "event", info->name, "desc", info->desc,
				"alias", info->alias);
	int known;

	if (!obj || json_array_append_new(st->nodes, obj))
		return -ENOMEM;
	known = o->can_count ? o->can_count(info->key, &q, why, sizeof(why), o->arg) : -ENODATA;
	if (known < 0)
		return 0;
	if (json_object_set_new(obj, "supported", json_boolean(known)))
		return -ENOMEM;
	if (known)
		return json_object_set_new(obj, "quality", json_string(vpmu_quality_name(q)))
			       ? -ENOMEM
			       : 0;
	return json_object_set_new(obj, "why", json_string(why)) ? -ENOMEM : 0;
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

/* ---- sessions ------------------------------------------------------------------------------- */

/* "events" of a request - a string like perf stat -e's, or an array of names - to one string. */
static int event_list(const json_t *req, char *buf, size_t len, char *err, size_t errlen)
{
	const json_t *v = json_object_get(req, "events"), *item;
	const char *text = NULL;
	size_t i, n = 0;

	if (!json_is_array(v)) {
		int ret = request_string(req, "events", true, len - 1, &text, err, errlen);

		if (!ret)
			strcpy(buf, text);
		return ret;
	}
	if (json_array_size(v) < 1 || json_array_size(v) > SESSION_EVENTS_MAX)
		return fail(-EINVAL, err, errlen, "events: %zu names; 1 to %d are accepted",
			    json_array_size(v), SESSION_EVENTS_MAX);
	json_array_foreach (v, i, item) {
		size_t size = json_string_length(item);

		if (!json_is_string(item) || size < 1 || size > VPMU_EVENT_NAME_MAX)
			return fail(-EINVAL, err, errlen,
				    "events: item %zu: a string of 1 to %d bytes is accepted", i,
				    VPMU_EVENT_NAME_MAX);
		if (n + size + 2 > len)
			return fail(-EINVAL, err, errlen, "events: at most %zu bytes are accepted",
				    len - 1);
		if (n)
			buf[n++] = ',';
		memcpy(buf + n, json_string_value(item), size);
		n += size;
	}
	buf[n] = '\0';
	return 0;
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

static json_t *session_object(const struct session *s)
{
	json_t *names = json_array(), *obj;

	for (size_t i = 0; names && i < session_nr_events(s); i++) {
		if (json_array_append_new(names, json_string(session_event(s, i)))) {
			json_decref(names);
			names = NULL;
		}
	}
	if (!names)
		return NULL;
	obj = json_pack("{s:s, s:s, s:s, s:b, s:I, s:o}", "session", session_name(s), "scope",
			session_scope_name(session_scope(s)), "target", session_target(s), "keep",
			session_owner(s) == NULL, "nr-rows", (json_int_t)session_nr_rows(s),
			"events", names);
	if (!obj || json_object_set_new(obj, "age-ns", json_u64(session_age_ns(s)))) {
		json_decref(obj);
		return NULL;
	}
	return obj;
}

static int open_session(struct commands *c, const json_t *req, char *const *names,
			const vpmu_key_t *keys, size_t n, json_t *resp, char *err, size_t errlen)
{
	struct session_spec spec = {
		.nr_events = n, .events = (const char *const *)names, .keys = keys};
	const char *scope = "none";
	struct node *target = NULL;
	struct session *s;
	bool keep = false;
	json_t *obj;
	int ret;

	ret = request_string(req, "scope", false, 16, &scope, err, errlen);
	if (!ret && session_scope_parse(scope, &spec.scope))
		ret = fail(-EINVAL, err, errlen,
			   "scope: \"%s\"; none, tenant, vm or vcpu is accepted", scope);
	if (!ret)
		ret = command_target(c, req, false, &target, err, errlen);
	spec.target = target;
	if (!ret)
		ret = request_string(req, "name", false, SESSION_NAME_MAX, &spec.name, err, errlen);
	if (!ret)
		ret = request_bool(req, "keep", false, &keep, err, errlen);
	if (ret)
		return ret;
	spec.owner = keep ? NULL : c->conn;
	ret = session_open(c->sessions, &spec, &s, err, errlen);
	if (ret)
		return ret;
	obj = session_object(s);
	if (!obj || json_object_update(resp, obj)) {
		json_decref(obj);
		session_close(s);
		return command_oom(err, errlen);
	}
	json_decref(obj);
	return 0;
}

static int cmd_attach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"events", "scope", "target", "name", "keep", NULL};
	vpmu_key_t keys[SESSION_EVENTS_MAX];
	char *names[SESSION_EVENTS_MAX] = {0};
	char text[EVENTS_BYTES_MAX], why[200] = "";
	size_t n = SESSION_EVENTS_MAX;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = event_list(req, text, sizeof(text), err, errlen);
	if (ret)
		return ret;
	ret = vpmu_event_parse_list(text, c->opts->raw_space, keys, names, &n, why, sizeof(why));
	if (ret == -E2BIG)
		return fail(ret, err, errlen, "events: more than %d; 1 to %d are accepted",
			    SESSION_EVENTS_MAX, SESSION_EVENTS_MAX);
	if (ret)
		return fail(ret, err, errlen, "events: %s", why);
	ret = open_session(c, req, names, keys, n, resp, err, errlen);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	return ret;
}

static int named_session(struct commands *c, const json_t *req, struct session **s, char *err,
			 size_t errlen)
{
	const char *name = NULL;
	int ret = request_string(req, "session", true, SESSION_NAME_MAX + 1, &name, err, errlen);

	if (ret)
		return ret;
	*s = session_find(c->sessions, name);
	return *s ? 0
		  : fail(-ENOENT, err, errlen,
			 "session: no \"%s\"; a name of `sessions` is accepted", name);
}

static json_t *value_object(const struct vpmu_value *v)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:s, s:b}", "count", json_u64(v->count),
			 "counter-value", json_u64(vpmu_value_scaled(v)), "enabled-ns",
			 json_u64(v->enabled_ns), "running-ns", json_u64(v->running_ns), "quality",
			 v->partial ? "partial" : vpmu_quality_name(v->quality), "supported",
			 v->supported);
}

struct read_state {
	const struct session *s;
	json_t *rows;
};

static int read_row(const struct session_row *r, void *arg)
{
	const struct read_state *st = arg;
	json_t *values = json_array(), *obj;

	for (size_t e = 0; values && e < session_nr_events(st->s); e++) {
		if (json_array_append_new(values, value_object(&r->values[e]))) {
			json_decref(values);
			values = NULL;
		}
	}
	if (!values)
		return -ENOMEM;
	obj = json_pack("{s:I, s:s, s:i, s:s, s:s*, s:s*, s:b, s:o}", "row", (json_int_t)r->id,
			"kind", kind_name(r->kind), "depth", (int)r->depth, "path", r->path, "vm",
			r->vm, "error", r->error, "gone", r->gone, "values", values);
	if (!obj || json_array_append_new(st->rows, obj))
		return -ENOMEM;
	if (r->kind == NODE_VCPU && json_object_set_new(obj, "vcpu", json_integer(r->vcpu)))
		return -ENOMEM;
	return 0;
}

static int answer_read(struct session *s, bool keep_gone, json_t *resp, char *err, size_t errlen)
{
	struct read_state st = {.s = s, .rows = json_array()};
	json_t *obj = session_object(s);
	int ret;

	if (!obj || json_object_update(resp, obj) ||
	    json_object_set_new(resp, "dropped", json_u64(session_dropped(s))) || !st.rows) {
		json_decref(obj);
		json_decref(st.rows);
		return command_oom(err, errlen);
	}
	json_decref(obj);
	ret = session_read(s, keep_gone, read_row, &st);
	if (json_object_set_new(resp, "rows", st.rows) || ret ||
	    json_object_set_new(resp, "age-ns", json_u64(session_read_age_ns(s))))
		return command_oom(err, errlen);
	return 0;
}

static int cmd_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"session", "keep-gone", NULL};
	bool keep_gone = false;
	struct session *s;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_bool(req, "keep-gone", false, &keep_gone, err, errlen);
	if (!ret)
		ret = named_session(c, req, &s, err, errlen);
	return ret ? ret : answer_read(s, keep_gone, resp, err, errlen);
}

static int cmd_detach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"session", NULL};
	struct session *s;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = named_session(c, req, &s, err, errlen);
	if (!ret)
		ret = answer_read(s, true, resp, err, errlen);
	if (!ret)
		session_close(s);
	return ret;
}

static int list_session(struct session *s, void *arg)
{
	json_t *obj = session_object(s);

	return obj && json_array_append_new(arg, obj) == 0 ? 0 : -ENOMEM;
}

static int cmd_sessions(struct commands *c, const json_t *req, json_t *resp, char *err,
			size_t errlen)
{
	json_t *list = json_array();
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "sessions", list))
		return command_oom(err, errlen);
	if (ret)
		return ret;
	return sessions_each(c->sessions, list_session, list) ? command_oom(err, errlen) : 0;
}

/* ---- the host ------------------------------------------------------------------------------- */

static int cmd_sharing(struct commands *c, const json_t *req, json_t *resp, char *err,
		       size_t errlen)
{
	struct vpmu_sharing sh;
	json_t *obj;
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (ret)
		return ret;
	vpmu_host_sharing(tenants_host(c->ts), &sh);
	obj = json_pack("{s:I, s:I, s:I}", "consumers", (json_int_t)sh.consumers, "keys",
			(json_int_t)sh.keys, "host-counters", (json_int_t)sh.host_counters);
	ret = obj ? json_object_update(resp, obj) : -1;
	json_decref(obj);
	return ret ? command_oom(err, errlen) : 0;
}

static int conservation_row(const struct vpmu_conservation *c, void *arg)
{
	char name[VPMU_EVENT_NAME_MAX];
	json_t *obj = json_pack("{s:I, s:s, s:o, s:o}", "pcpu", (json_int_t)c->pcpu, "event",
				vpmu_event_name(c->key, name), "hardware", json_u64(c->hardware),
				"charged", json_u64(c->charged));

	return obj && json_array_append_new(arg, obj) == 0 ? 0 : -ENOMEM;
}

static int cmd_conservation(struct commands *c, const json_t *req, json_t *resp, char *err,
			    size_t errlen)
{
	json_t *rows = json_array();
	int ret = request_fields(req, NO_FIELDS, err, errlen);

	if (json_object_set_new(resp, "rows", rows))
		return command_oom(err, errlen);
	if (ret)
		return ret;
	return vpmu_host_conservation(tenants_host(c->ts), conservation_row, rows)
		       ? command_oom(err, errlen)
		       : 0;
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
