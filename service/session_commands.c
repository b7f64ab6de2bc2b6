// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket's commands of sessions: docs/protocol.md. Control thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/clock.h"
#include "service/commands.h"
#include "service/cpu_list.h"
#include "service/request.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define EVENTS_BYTES_MAX 8192
#define KEEP_GONE_MAX	 3600 /* seconds */

/* ---- attach --------------------------------------------------------------------------------- */

/* Join "events" of a request, a string as for perf stat -e or an array of names, to one string. */
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
		return fail(-EINVAL, err, errlen, "events: %zu names; expected 1 to %d",
			    json_array_size(v), SESSION_EVENTS_MAX);
	json_array_foreach (v, i, item) {
		size_t size = json_string_length(item);

		if (!json_is_string(item) || size < 1 || size > VPMU_EVENT_NAME_MAX)
			return fail(-EINVAL, err, errlen,
				    "events: item %zu: expected a string of 1 to %d bytes", i,
				    VPMU_EVENT_NAME_MAX);
		if (n + size + 2 > len)
			return fail(-EINVAL, err, errlen, "events: expected up to %zu bytes",
				    len - 1);
		if (n)
			buf[n++] = ',';
		memcpy(buf + n, json_string_value(item), size);
		n += size;
	}
	buf[n] = '\0';
	return 0;
}

static void session_commands_describe(const struct registered *e, const struct access *who,
				      json_t *obj)
{
	const struct session *s = (const struct session *)e;
	json_t *names = json_array();

	for (size_t i = 0; i < s->nr_events; i++)
		json_array_append_new(names, json_string(s->events[i]));
	json_object_set_new(obj, "events", names);
	if (s->metrics)
		json_object_set_new(obj, "metrics", json_string(s->metrics));
	if (s->cpu_list)
		json_object_set_new(obj, "cpus", json_string(s->cpu_list));
	json_object_set_new(obj, "scope", json_string(session_scope_name(s->scope)));
	json_object_set_new(obj, "nr-rows", json_integer((json_int_t)session_rows_for(s, who)));
	json_object_set_new(obj, "age-ns", json_u64(now_ns() - s->opened_ns));
	if (s->opened_width_ns != UINT64_MAX)
		json_object_set_new(obj, "start-width-ns", json_u64(s->opened_width_ns));
}

static const struct command_kind command_sessions = {"session", session_commands_describe};

static int open_session(struct commands *c, const json_t *req, char *const *names,
			const vpmu_key_t *keys, size_t n, json_t *resp, char *err, size_t errlen)
{
	struct session_spec spec = {
		.nr_events = n, .events = (const char *const *)names, .keys = keys};
	const char *scope = "none";
	struct session *s;
	int ret = request_string(req, "scope", false, 16, &scope, err, errlen);

	if (!ret && session_scope_parse(scope, &spec.scope))
		ret = fail(-EINVAL, err, errlen,
			   "scope: \"%s\" is invalid; expected none, tenant, vm or vcpu", scope);
	if (!ret)
		ret = request_string(req, "metrics", false, SESSION_METRICS_MAX, &spec.metrics, err,
				     errlen);
	if (!ret)
		ret = request_string(req, "cpus", false, CPU_LIST_BYTES_MAX, &spec.cpus, err,
				     errlen);
	/* Names are for sessions that last, and files of state have no CPUs. */
	if (!ret && spec.cpus && json_object_get(req, "name"))
		ret = fail(-EINVAL, err, errlen,
			   "cpus: a session with a name counts all CPUs; expected no name");
	if (!ret)
		ret = command_opening(c, req, false, spec.scope != SESSION_ONE, &spec.open, err,
				      errlen);
	if (ret)
		return ret;
	ret = session_open(c->sessions, &spec, &s, err, errlen);
	if (ret)
		return ret;
	command_describe(c, &command_sessions, &s->reg, resp);
	command_opened(c, &s->reg);
	return 0;
}

int command_events(struct commands *c, const json_t *req, vpmu_key_t keys[SESSION_EVENTS_MAX],
		   char *names[SESSION_EVENTS_MAX], size_t *n, char *err, size_t errlen)
{
	char text[EVENTS_BYTES_MAX], why[200] = "";
	int ret = event_list(req, text, sizeof(text), err, errlen);

	if (ret)
		return ret;
	*n = SESSION_EVENTS_MAX;
	ret = vpmu_event_parse_list(text, c->opts->raw_space, keys, names, n, why, sizeof(why));
	if (ret == -E2BIG)
		return fail(ret, err, errlen, "events: more than %d; expected 1 to %d",
			    SESSION_EVENTS_MAX, SESSION_EVENTS_MAX);
	if (ret)
		return fail(ret, err, errlen, "events: %s", why);
	for (size_t i = 0; c->opts->host_too && i < *n; i++)
		keys[i] = vpmu_event_host_too(names[i], keys[i]);
	return 0;
}

int cmd_attach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	vpmu_key_t keys[SESSION_EVENTS_MAX];
	char *names[SESSION_EVENTS_MAX] = {0};
	size_t n = 0;
	int ret = command_events(c, req, keys, names, &n, err, errlen);

	if (ret)
		return ret;
	ret = open_session(c, req, names, keys, n, resp, err, errlen);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	return ret;
}

/* The client becomes the owner of a lost session, or of another connection's. */
int cmd_reattach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct registered *e;
	int ret = command_named(c, sessions_registry(c->sessions), req, &e, err, errlen);

	if (ret)
		return ret;
	if (e->owner || e->lost_ns) {
		e->owner = c->who;
		e->lost_ns = 0;
	}
	command_describe(c, &command_sessions, e, resp);
	return 0;
}

/* ---- read ----------------------------------------------------------------------------------- */

struct read_state {
	const struct access *who;
	const struct session *s;
	struct json_text *rows;
	bool first;
};

/* Written as text, because 10,000 tenants with 8 events would need 80,000 objects. */
static void session_commands_read_row(const struct session_row *r, void *arg)
{
	struct read_state *st = arg;
	struct json_text *t = st->rows;

	/* The session may have been opened with other rights. */
	if (!access_sees(st->who, r->path))
		return;
	json_text_count(t, st->first ? "{\"row\":" : ",{\"row\":", r->id);
	st->first = false;
	json_text_field(t, ",\"backend\":", r->backend);
	json_text_field(t, ",\"kind\":", command_node_kind(r->kind));
	json_text_count(t, ",\"depth\":", r->depth);
	json_text_field(t, ",\"path\":", r->path);
	if (r->vm)
		json_text_field(t, ",\"vm\":", r->vm);
	if (r->kind == NODE_VCPU)
		json_text_count(t, ",\"vcpu\":", r->vcpu);
	if (r->error)
		json_text_field(t, ",\"error\":", r->error);
	json_text_count(t, ",\"since-us\":\"", r->since_us);
	if (r->late_ns)
		json_text_count(t, "\",\"late-ns\":\"", r->late_ns);
	json_text_add(t,
		      r->gone ? "\",\"gone\":true,\"values\":[" : "\",\"gone\":false,\"values\":[");
	for (size_t e = 0; e < st->s->nr_events; e++) {
		if (e)
			json_text_add(t, ",");
		command_value_text(t, &r->values[e], r->late_ns);
	}
	json_text_add(t, "]}");
}

/* "stalled": one line for each backend of the session with a stalled CPU. */
static void add_stalled(const struct session *s, json_t *resp)
{
	json_t *lines = json_array();
	struct vpmu_backend *source;
	char why[200];

	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++)
		if (session_counts_on(s, source) && vpmu_backend_stalled(source, why, sizeof(why)))
			json_array_append_new(lines, json_string(why));
	command_array(resp, "stalled", lines);
}

/* "unsupported": events of the session that one of its backends cannot count, with the reason. */
static void session_commands_add_unsupported(const struct session *s, json_t *resp)
{
	json_t *all = json_array();
	struct vpmu_backend *source;
	enum vpmu_quality q;
	char why[200];

	for (unsigned int i = 0; (source = tenants_source(s->ts, i)); i++) {
		if (!session_counts_on(s, source))
			continue;
		for (size_t e = 0; e < s->nr_events; e++)
			if (!vpmu_backend_can_count(source, s->keys[e], &q, why, sizeof(why)))
				json_array_append_new(all, json_pack("{s:s, s:s, s:s}", "backend",
								     source->backend, "event",
								     s->events[e], "why", why));
	}
	command_array(resp, "unsupported", all);
}

static void session_commands_answer_read(struct commands *c, struct session *s, json_t *resp)
{
	struct read_state st = {.who = c->who, .s = s, .rows = &c->text, .first = true};

	json_text_add(&c->text, "{\"rows\":[");
	command_describe(c, &command_sessions, &s->reg, resp);
	json_object_set_new(resp, "dropped", json_u64(s->dropped));
	session_read(s, session_commands_read_row, &st);
	add_stalled(s, resp);
	session_commands_add_unsupported(s, resp);
	json_object_set_new(resp, "age-ns", json_u64(s->read.ns - s->opened_ns));
	command_as_of(resp, &s->read);
	json_text_add(&c->text, "],");
}

/* The client has received the rows of removed nodes. */
static void read_done(bool ok, void *arg)
{
	struct session *s = arg;

	if (ok)
		session_forget_before(s, s->forget_ns);
}

/* "keep-gone": a boolean, or the seconds for which a row is shown after its end. *@ns: rows that
 * ended before are forgotten. */
static int keep_gone(const json_t *req, uint64_t *ns, char *err, size_t errlen)
{
	uint64_t sec, now = now_ns();
	bool keep = false;
	int ret;

	if (!json_is_integer(json_object_get(req, "keep-gone"))) {
		ret = request_bool(req, "keep-gone", false, &keep, err, errlen);
		*ns = keep ? 0 : UINT64_MAX;
		return ret;
	}
	ret = request_uint(req, "keep-gone", true, 0, KEEP_GONE_MAX, &sec, err, errlen);
	if (!ret)
		*ns = now > sec * 1000000000ULL ? now - sec * 1000000000ULL : 0;
	return ret;
}

int cmd_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct registered *s;
	uint64_t forget_ns = 0;
	int ret = keep_gone(req, &forget_ns, err, errlen);

	if (!ret)
		ret = command_named(c, sessions_registry(c->sessions), req, &s, err, errlen);
	if (ret)
		return ret;
	session_commands_answer_read(c, (struct session *)s, resp);
	((struct session *)s)->forget_ns = forget_ns;
	server_then(c->server, read_done, s);
	return 0;
}

int cmd_detach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct registered *s;
	int ret = command_named(c, sessions_registry(c->sessions), req, &s, err, errlen);

	if (ret)
		return ret;
	session_commands_answer_read(c, (struct session *)s, resp);
	command_ended(c, s);
	return 0;
}

int cmd_sessions(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	return command_list(c, &command_sessions, sessions_registry(c->sessions), req, resp, err,
			    errlen);
}
