// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket's commands of profiles: docs/protocol.md. Control thread. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/commands.h"
#include "service/cpu_list.h"
#include "service/request.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define EVENT_BYTES_MAX 256

json_t *command_address(uint64_t address)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%" PRIx64, address);
	return json_string(text);
}

/* "period": an integer or a string of decimal digits, as counts are. */
static int period_field(const json_t *req, uint64_t *period, char *err, size_t errlen)
{
	const json_t *v = json_object_get(req, "period");
	const char *text = json_string_value(v);
	char *end;

	if (!json_is_string(v))
		return request_uint(req, "period", false, 1, PROFILE_PERIOD_MAX, period, err,
				    errlen);
	errno = 0;
	*period = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && *period >= 1 &&
	    *period <= PROFILE_PERIOD_MAX)
		return 0;
	return fail(-EINVAL, err, errlen, "period: \"%.40s\" is invalid; expected 1 to %llu", text,
		    (unsigned long long)PROFILE_PERIOD_MAX);
}

/* The state of a profile without reading it. */
static void profile_commands_describe(const struct registered *e, const struct access *who,
				      json_t *resp)
{
	const struct profile *p = (const struct profile *)e;

	json_object_set_new(resp, "event", json_string(p->event));
	json_object_set_new(resp, "period", json_u64(p->period));
	json_object_set_new(resp, "lbr", json_boolean(p->lbr));
	if (p->cpu_list)
		json_object_set_new(resp, "cpus", json_string(p->cpu_list));
	json_object_set_new(resp, "gone", json_boolean(p->gone));
	json_object_set_new(resp, "age-ns", json_u64(p->read.ns - p->opened_ns));
	command_backend(p->backend, p->node, resp);
}

static const struct command_kind command_profiles = {"profile", profile_commands_describe};

int cmd_profile_start(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct profile_spec spec = {.period = PROFILE_PERIOD};
	char why[200] = "";
	struct profile *p;
	int ret = request_string(req, "event", true, EVENT_BYTES_MAX, &spec.event, err, errlen);

	if (!ret)
		ret = period_field(req, &spec.period, err, errlen);
	if (!ret)
		ret = command_opening(c, req, false, false, &spec.open, err, errlen);
	if (!ret)
		ret = request_bool(req, "lbr", false, &spec.lbr, err, errlen);
	if (!ret)
		ret = request_bool(req, "times", false, &spec.times, err, errlen);
	if (!ret)
		ret = request_string(req, "cpus", false, CPU_LIST_BYTES_MAX, &spec.cpus, err,
				     errlen);
	if (!ret && spec.times && !spec.lbr)
		ret = fail(-EINVAL, err, errlen,
			   "times: true without lbr: true; expected both (call chains have times "
			   "anyway)");
	if (ret)
		return ret;
	ret = vpmu_event_parse(spec.event, c->opts->raw_space, &spec.key, why, sizeof(why));
	if (ret)
		return fail(ret, err, errlen, "event: %s", why);
	if (c->opts->host_too)
		spec.key = vpmu_event_host_too(spec.event, spec.key);
	ret = profile_start(c->profiles, &spec, &p, err, errlen);
	if (ret)
		return ret;
	command_describe(c, &command_profiles, &p->reg, resp);
	command_opened(c, &p->reg);
	return 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int profile_commands_answer(const struct commands *c, struct profile *p, size_t max,
				   json_t *resp)
{
	int ret;

	profile_read(p);
	command_describe(c, &command_profiles, &p->reg, resp);
	command_as_of(resp, &p->read);
	json_object_set_new(resp, "samples", json_u64(p->samples));
	json_object_set_new(resp, "lost", json_u64(p->lost));
	json_object_set_new(resp, "late-max", json_u64(p->late_max));
	json_object_update_new(resp, command_value(&p->value));
	/* The backend's remarks on its samples. */
	if (p->throttled)
		json_object_set_new(resp, "throttled", json_u64(p->throttled));
	if (p->nobodys)
		json_object_set_new(resp, "nobodys", json_u64(p->nobodys));
	if (p->note)
		json_object_set_new(resp, "note", json_string(p->note));
	ret = command_traces(resp, "rows", &p->rows, max, false);
	if (!ret && p->lbr)
		ret = command_traces(resp, "chains", &p->chains, max, true);
	if (p->lbr)
		json_object_set_new(resp, "unchained", json_u64(p->unchained));
	if (p->times)
		json_object_set_new(resp, "start-ns", json_u64(p->opened_ns));
	return ret;
}

/* Read the profile that the request names. */
static int read_named(struct commands *c, const json_t *req, json_t *resp, struct profile **p,
		      char *err, size_t errlen)
{
	struct registered *e;
	uint64_t max = PROFILE_ROWS_MAX;
	int ret = request_uint(req, "max", false, 0, PROFILE_ROWS_MAX, &max, err, errlen);

	if (!ret)
		ret = command_named(c, profiles_registry(c->profiles), req, &e, err, errlen);
	if (ret)
		return ret;
	*p = (struct profile *)e;
	return profile_commands_answer(c, *p, max, resp);
}

int cmd_profile_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct profile *p;

	return read_named(c, req, resp, &p, err, errlen);
}

int cmd_profile_stop(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct profile *p;
	int ret = read_named(c, req, resp, &p, err, errlen);

	if (!ret)
		command_ended(c, &p->reg);
	return ret;
}

int cmd_profiles(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	return command_list(c, &command_profiles, profiles_registry(c->profiles), req, resp, err,
			    errlen);
}
