// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket's commands of branch records: docs/protocol.md. Control thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/commands.h"
#include "service/request.h"
#include "vpmu/util/fail.h"

#define READ_MAX 2048 /* vCPUs in one answer */

static void lbr_commands_describe(const struct registered *e, const struct access *who,
				  json_t *resp)
{
	const struct capture *cap = (const struct capture *)e;

	json_object_set_new(resp, "mode", json_string(capture_mode_name(cap->mode)));
	json_object_set_new(resp, "gone", json_boolean(cap->gone));
	command_backend(cap->backend, cap->node, resp);
}

static const struct command_kind command_captures = {"capture", lbr_commands_describe};

/* Memory for branch records on the host, including the guests' own, on all backends: memory may be
 * added over backends, unlike counts. */
static void usage(struct commands *c, json_t *resp)
{
	struct vpmu_lbr_usage sum = {0}, u;
	struct vpmu_backend *s;

	if (!access_all(c->who))
		return; /* the figure covers all tenants */
	for (unsigned int i = 0; (s = tenants_source(c->ts, i)); i++) {
		vpmu_backend_branches_usage(s, &u);
		sum.tasks += u.tasks;
		sum.bytes += u.bytes;
	}
	json_object_set_new(resp, "usage",
			    json_pack("{s:I, s:I}", "tasks", (json_int_t)sum.tasks, "bytes",
				      (json_int_t)sum.bytes));
}

int cmd_lbr_attach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct capture_spec spec = {.mode = CAPTURE_CALL_STACK};
	const char *mode = NULL;
	struct capture *cap;
	int ret = command_opening(c, req, true, false, &spec.open, err, errlen);

	if (!ret)
		ret = request_string(req, "mode", false, 16, &mode, err, errlen);
	if (!ret && mode && capture_mode_parse(mode, &spec.mode))
		ret = fail(-EINVAL, err, errlen,
			   "mode: \"%s\" is invalid; expected call-stack, branches or calls", mode);
	if (ret)
		return ret;
	ret = capture_open(c->captures, &spec, &cap, err, errlen);
	if (ret)
		return ret;
	command_describe(c, &command_captures, &cap->reg, resp);
	usage(c, resp);
	command_opened(c, &cap->reg);
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

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (ctl & names[i].bit)
			json_array_append_new(list, json_string(names[i].name));
	return list;
}

static json_t *entry_object(const struct vpmu_lbr_entry *e)
{
	json_t *from = e->from == VPMU_LBR_FROM_FILTERED ? json_null() : command_address(e->from);
	json_t *obj = json_pack("{s:o, s:o, s:s}", "from", from, "to", command_address(e->to),
				"type", vpmu_lbr_type_name(e->info));

	if (e->info & VPMU_LBR_INFO_CYC_VALID)
		json_object_set_new(obj, "cycles",
				    json_integer((json_int_t)(e->info & VPMU_LBR_INFO_CYC)));
	return obj;
}

static void add_regs(json_t *obj, const struct capture_reading *cr)
{
	const struct vpmu_lbr_regs *r = cr->r;
	json_t *entries = json_array();

	for (unsigned int i = 0; vpmu_lbr_nth(r, i); i++)
		json_array_append_new(entries, entry_object(vpmu_lbr_nth(r, i)));
	json_object_set_new(obj, "entries", entries);
	json_object_set_new(obj, "source",
			    json_string(cr->user == VPMU_LBR_GUEST ? "guest" : "capture"));
	json_object_set_new(obj, "mode", json_string(capture_ctl_mode(r->ctl)));
	json_object_set_new(obj, "filters", filters(r->ctl));
	json_object_set_new(obj, "depth", json_integer(r->depth));
	json_object_set_new(obj, "total", json_u64(r->total));
}

struct read_state {
	const struct commands *c;
	json_t *rows;
};

static int lbr_commands_read_row(const struct capture_reading *cr, void *arg)
{
	const struct read_state *st = arg;
	json_t *rows = st->rows, *obj;

	if (!access_sees(st->c->who, cr->vcpu->path))
		return 0;
	if (json_array_size(rows) == READ_MAX)
		return -E2BIG;
	obj = json_pack("{s:s, s:i, s:s}", "vm", cr->vcpu->parent->name, "vcpu",
			(int)cr->vcpu->vcpu, "backend", node_source(cr->vcpu)->backend);
	if (cr->r)
		add_regs(obj, cr);
	else
		json_object_set_new(obj, "error",
				    json_string(cr->ret == -EAGAIN
							? "records changed while they were read"
							: strerror(-cr->ret)));
	json_array_append_new(rows, obj);
	return 0;
}

static int lbr_commands_answer_read(struct commands *c, const struct node *target, json_t *resp,
				    char *err, size_t errlen)
{
	struct read_state st = {.c = c, .rows = json_array()};
	int ret;

	ret = capture_read(c->ts, target, lbr_commands_read_row, &st);
	json_object_set_new(resp, "rows", st.rows);
	if (ret == -E2BIG)
		return fail(ret, err, errlen,
			    "target: more than %d vCPUs have records; expected a smaller tenant or "
			    "one VM",
			    READ_MAX);
	usage(c, resp);
	return ret;
}

/* Add one reading to the capture's call chains. */
static int answer_fold(struct commands *c, const json_t *req, json_t *resp, char *err,
		       size_t errlen)
{
	struct capture_folded n;
	struct registered *e;
	int ret = command_named(c, captures_registry(c->captures), req, &e, err, errlen);

	if (!ret && json_object_get(req, "target"))
		ret = fail(-EINVAL, err, errlen, "target: give only one of target and capture");
	if (!ret && ((struct capture *)e)->mode != CAPTURE_CALL_STACK)
		ret = fail(-EINVAL, err, errlen,
			   "capture: \"%s\" has no call chains; expected one of mode call-stack",
			   e->name);
	if (!ret && ((struct capture *)e)->gone)
		ret = fail(-ENOENT, err, errlen, "capture: no VM or tenant \"%s\" any more",
			   e->target);
	if (ret)
		return ret;
	ret = capture_fold((struct capture *)e, &n);
	if (ret)
		return ret;
	json_object_set_new(resp, "read", json_integer(n.read));
	json_object_set_new(resp, "with-records", json_integer(n.total));
	json_object_set_new(resp, "custom", json_integer(n.custom));
	json_object_set_new(resp, "unread", json_integer(n.unread));
	usage(c, resp);
	return 0;
}

int cmd_lbr_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct node *target;
	int ret;

	if (json_object_get(req, "capture"))
		return answer_fold(c, req, resp, err, errlen);
	ret = command_target(c, req, true, true, &target, err, errlen);
	return ret ? ret : lbr_commands_answer_read(c, target, resp, err, errlen);
}

int cmd_lbr_detach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct registered *e;
	struct capture *cap;
	int ret = command_named(c, captures_registry(c->captures), req, &e, err, errlen);

	if (ret)
		return ret;
	cap = (struct capture *)e;
	command_describe(c, &command_captures, e, resp);
	if (cap->folded)
		ret = command_traces(resp, "chains", &cap->chains, CAPTURE_CHAINS_MAX, true);
	usage(c, resp);
	if (!ret)
		command_ended(c, e);
	return ret;
}

int cmd_captures(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	usage(c, resp);
	return command_list(c, &command_captures, captures_registry(c->captures), req, resp, err,
			    errlen);
}
