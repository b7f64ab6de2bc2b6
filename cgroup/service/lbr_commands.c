// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket's commands of branch records: docs/protocol.md. Control thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/service/commands.h"
#include "vpmu/fail.h"
#include "cgroup/service/request.h"

#define READ_MAX 2048 /* vCPUs in one answer */

static int describe(const struct capture *cap, json_t *resp)
{
	json_t *obj = json_pack("{s:s, s:s, s:s, s:b, s:b}", "capture", cap->name, "target",
				cap->target, "mode", capture_mode_name(cap->mode), "keep",
				cap->owner == NULL, "gone", cap->gone);
	int ret = obj ? json_object_update(resp, obj) : -1;

	json_decref(obj);
	return ret;
}

/* Memory held for branch records on the host, the guests' own included. */
static int usage(struct commands *c, json_t *resp)
{
	struct vpmu_lbr_usage u;
	json_t *obj;

	vpmu_lbr_usage(tenants_host(c->ts), &u);
	obj = json_pack("{s:I, s:I}", "tasks", (json_int_t)u.tasks, "bytes", (json_int_t)u.bytes);
	return json_object_set_new(resp, "usage", obj);
}

int cmd_lbr_attach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"target", "mode", "name", "keep", NULL};
	struct capture_spec spec = {.mode = CAPTURE_CALL_STACK};
	const char *mode = NULL;
	bool keep = false;
	struct capture *cap;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = command_target(c, req, true, &spec.target, err, errlen);
	if (!ret)
		ret = request_string(req, "mode", false, 16, &mode, err, errlen);
	if (!ret && mode && capture_mode_parse(mode, &spec.mode))
		ret = fail(-EINVAL, err, errlen,
			   "mode: \"%s\"; call-stack, branches or calls is accepted", mode);
	if (!ret)
		ret = request_string(req, "name", false, SESSION_NAME_MAX, &spec.name, err, errlen);
	if (!ret)
		ret = request_bool(req, "keep", false, &keep, err, errlen);
	if (ret)
		return ret;
	spec.owner = keep ? NULL : c->conn;
	ret = capture_open(c->captures, &spec, &cap, err, errlen);
	if (ret)
		return ret;
	if (describe(cap, resp) || usage(c, resp)) {
		capture_close(cap);
		return command_oom(err, errlen);
	}
	return 0;
}

/* ---- reading ------------------------------------------------------------------------------ */

static json_t *filters(uint32_t ctl)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {
		{VPMU_LBR_OS, "kernel"},	 {VPMU_LBR_USR, "user"},
		{VPMU_LBR_JCC, "jcc"},		 {VPMU_LBR_REL_JMP, "rel-jmp"},
		{VPMU_LBR_IND_JMP, "ind-jmp"},	 {VPMU_LBR_REL_CALL, "rel-call"},
		{VPMU_LBR_IND_CALL, "ind-call"}, {VPMU_LBR_RET, "ret"},
		{VPMU_LBR_OTHER, "other"},
	};
	json_t *list = json_array();

	for (size_t i = 0; list && i < sizeof(names) / sizeof(names[0]); i++) {
		if ((ctl & names[i].bit) &&
		    json_array_append_new(list, json_string(names[i].name))) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

static json_t *entry_object(const struct vpmu_lbr_entry *e)
{
	json_t *from = e->from == VPMU_LBR_FROM_FILTERED ? json_null() : command_address(e->from);
	json_t *obj = json_pack("{s:o, s:o, s:s}", "from", from, "to", command_address(e->to),
				"type", vpmu_lbr_type_name(e->info));

	if (obj && (e->info & VPMU_LBR_INFO_CYC_VALID) &&
	    json_object_set_new(obj, "cycles",
				json_integer((json_int_t)(e->info & VPMU_LBR_INFO_CYC)))) {
		json_decref(obj);
		return NULL;
	}
	return obj;
}

static int add_regs(json_t *obj, const struct capture_reading *cr)
{
	const struct vpmu_lbr_regs *r = cr->r;
	json_t *entries = json_array();

	if (json_object_set_new(obj, "entries", entries) ||
	    json_object_set_new(obj, "source",
				json_string(cr->user == VPMU_LBR_GUEST ? "guest" : "capture")) ||
	    json_object_set_new(obj, "mode", json_string(capture_ctl_mode(r->ctl))) ||
	    json_object_set_new(obj, "filters", filters(r->ctl)) ||
	    json_object_set_new(obj, "depth", json_integer(r->depth)) ||
	    json_object_set_new(obj, "total", json_u64(r->total)))
		return -ENOMEM;
	for (unsigned int i = 0; vpmu_lbr_nth(r, i); i++)
		if (json_array_append_new(entries, entry_object(vpmu_lbr_nth(r, i))))
			return -ENOMEM;
	return 0;
}

static int read_row(const struct capture_reading *cr, void *arg)
{
	json_t *rows = arg;
	json_t *obj;

	if (json_array_size(rows) == READ_MAX)
		return -E2BIG;
	obj = json_pack("{s:s, s:i}", "vm", cr->vcpu->parent->name, "vcpu", (int)cr->vcpu->vcpu);
	if (!obj || json_array_append_new(rows, obj))
		return -ENOMEM;
	if (!cr->r)
		return json_object_set_new(
			obj, "error",
			json_string(cr->ret == -EAGAIN ? "records changed while they were read"
						       : strerror(-cr->ret)));
	return add_regs(obj, cr);
}

static int answer_read(struct commands *c, const struct node *target, json_t *resp, char *err,
		       size_t errlen)
{
	json_t *rows = json_array();
	int ret;

	if (json_object_set_new(resp, "rows", rows))
		return command_oom(err, errlen);
	ret = capture_read(c->ts, target, read_row, rows);
	if (ret == -E2BIG)
		return fail(ret, err, errlen,
			    "target: more than %d vCPUs have records; a smaller tenant or one VM "
			    "is accepted",
			    READ_MAX);
	return ret || usage(c, resp) ? command_oom(err, errlen) : 0;
}

int cmd_lbr_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"target", NULL};
	struct node *target;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = command_target(c, req, true, &target, err, errlen);
	return ret ? ret : answer_read(c, target, resp, err, errlen);
}

int cmd_lbr_detach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"capture", NULL};
	const char *name = NULL;
	struct capture *cap;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "capture", true, SESSION_NAME_MAX + 1, &name, err,
				     errlen);
	if (ret)
		return ret;
	cap = capture_find(c->captures, name);
	if (!cap)
		return fail(-ENOENT, err, errlen,
			    "capture: no \"%s\"; a name of `captures` is accepted", name);
	if (describe(cap, resp))
		return command_oom(err, errlen);
	capture_close(cap);
	/* It is done: an answer without the figures is better than an error. */
	usage(c, resp);
	return 0;
}

int cmd_captures(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	json_t *list = json_array();
	int ret = request_fields(req, NULL, err, errlen);

	if (json_object_set_new(resp, "captures", list))
		return command_oom(err, errlen);
	for (struct capture *cap = captures_first(c->captures); cap && !ret; cap = cap->next) {
		json_t *obj = json_object();

		if (!obj || json_array_append_new(list, obj) || describe(cap, obj))
			ret = command_oom(err, errlen);
	}
	return ret || usage(c, resp) ? ret ? ret : command_oom(err, errlen) : 0;
}
