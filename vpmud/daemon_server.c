// SPDX-License-Identifier: GPL-2.0-or-later
/* The control socket of vpmud: the commands and callbacks that other servers do not have, among
 * them the reload of the configuration; see daemon.h. */
#include <errno.h>
#include <stdio.h>

#include "service/request.h"
#include "service/session_save.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"
#include "vpmud/command_cgroups.h"
#include "vpmud/daemon_priv.h"
#include "vpmud/report.h"

static void daemon_on_log(const char *line, void *arg)
{
	daemon_say(line);
}

int daemon_reload(struct daemon *d, char *err, size_t errlen)
{
	struct vpmud_config next = {0}, old = d->config;
	const char *fixed;
	int ret;

	*err = '\0';
	ret = vpmud_config_read(&next, d->config_path, err, errlen);
	if (ret) {
		vpmud_config_fini(&next);
		snprintf(d->reload_error, sizeof(d->reload_error), "%s", err);
		return ret;
	}
	fixed = vpmud_config_fixed(&old, &next);
	if (fixed)
		fail(0, err, errlen,
		     "%s has changed in the file, which takes effect when vpmud starts again; the "
		     "rules for tenants are in force now",
		     fixed);
	*d->reload_error = '\0';
	/* Take only the rules from the new file, and the events of VMs that have none by rules; all
	 * else is fixed at the start. */
	if (d->guests && next.guest_events) {
		d->config.guest_events = next.guest_events;
		next.guest_events = old.guest_events;
	}
	cgroups_settle(d->cgroups);
	d->config.rules = next.rules;
	next.rules = old.rules;
	d->config.rules.commands = old.rules.commands;
	next.rules.commands = (struct patterns){0};
	tree_rules(d->tree, &d->config.rules);
	cgroups_rules(d->cgroups, &d->config.rules);
	tree_prune(d->tree);
	guests_rules(d->guests, &d->config.rules, d->config.guest_events);
	vpmud_config_fini(&next);
	if (d->persist)
		persist_now(d->persist);
	return 0;
}

static int daemon_cmd_reload(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct daemon *d = arg;
	int ret = request_fields(req, NULL, err, errlen);

	if (!ret)
		ret = daemon_reload(d, err, errlen);
	if (!ret && *err)
		json_object_set_new(resp, "note", json_string(err));
	return ret;
}

static int daemon_cmd_cgroup_find(void *arg, const json_t *req, json_t *resp, char *err,
				  size_t errlen)
{
	struct daemon *d = arg;

	return command_cgroup_find(&d->config.rules, d->cgroup_root, req, resp, err, errlen);
}

static int daemon_cmd_cgroup_add(void *arg, const json_t *req, json_t *resp, char *err,
				 size_t errlen)
{
	struct daemon *d = arg;
	int ret;

	cgroups_settle(d->cgroups);
	ret = command_cgroup_add(&d->config.rules, d->cgroup_root, req, err, errlen);
	if (ret)
		return ret;
	cgroups_scan(d->cgroups);
	return command_cgroup_find(&d->config.rules, d->cgroup_root, req, resp, err, errlen);
}

/* ---- callbacks of the server ---------------------------------------------------------------- */

static void figures(json_t *resp, void *arg)
{
	const struct daemon *d = arg;

	report_figures(d->kernel, d->guests, resp);
}

static void daemon_check(json_t *rows, bool all, void *arg)
{
	const struct daemon *d = arg;
	const struct report r = {
		.kernel = d->kernel,
		.disc = d->disc,
		.tree = d->tree,
		.cgroup_root = d->cgroup_root,
		.sections = d->config.rules.nr,
		.reload_error = d->reload_error,
		.guests = d->guests,
	};

	report_check(&r, rows, all);
}

static void daemon_vm_info(const struct node *vm, json_t *obj, void *arg)
{
	const struct daemon *d = arg;

	tree_vm_info(vm, obj, arg);
	guests_vm_info(d->guests, vm, obj);
}

/* Save before the client gets its answer. */
static void on_done(void *arg)
{
	struct daemon *d = arg;

	if (d->persist)
		persist_sessions(d->persist);
}

int daemon_open_server(struct daemon *d, char *err, size_t errlen)
{
	const struct server_opts o = {
		.path = d->socket,
		.own_dir = !d->config.socket,
		.listen_fd = d->listen_fd,
		/* rHEX events are encodings of this machine's vendor, as in perf. */
		.raw_space = vpmu_event_host_space(),
		/* Cgroups without VMs have no count in guests. */
		.host_too = true,
		.name = "vpmud",
		.check = daemon_check,
		.figures = figures,
		.vm_info = daemon_vm_info,
		.done = on_done,
		.access = &d->access,
		.log = daemon_on_log,
		.arg = d,
	};
	int ret = server_create(d->ts, d->ev, &o, &d->server, err, errlen);

	if (!ret && d->persist)
		persist_begin(d->persist, server_sessions(d->server), d->tree);
	if (!ret && (server_register(d->server, "reload", daemon_cmd_reload, d) ||
		     server_register(d->server, "cgroup-find", daemon_cmd_cgroup_find, d) ||
		     server_register(d->server, "cgroup-add", daemon_cmd_cgroup_add, d)))
		ret = fail(-EEXIST, err, errlen, "socket: a command is there already");
	return ret;
}
