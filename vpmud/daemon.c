// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Creates the parts of vpmud in order and connects them; see daemon.h. main.c calls it. Nothing
 * that VMs, cgroups and clients do may end the daemon.
 */
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "service/daemon/contain.h"
#include "service/program/memory.h"
#include "service/clock.h"
#include "service/session_save.h"
#include "vpmud/command_cgroups.h"
#include "vpmud/daemon_priv.h"
#include "vpmud/report.h"
#include "vpmu/util/fail.h"

#define TEND_US		 1000000
#define PAST_ACCURACY_US 1000
#define NAMED_US	 5000000 /* after the start: by then libvirt has identified the VMs */

void daemon_say(const char *line)
{
	fprintf(stderr, "vpmud: %s\n", line);
}

static void daemon_on_note(void *arg, const char *line)
{
	daemon_say(line);
}

static int open_access(struct daemon *d, char *err, size_t errlen)
{
	const struct vpmud_config *c = &d->config;
	/* The exporter's package creates this group. */
	const char *readers = c->reader_group		      ? c->reader_group
			      : getgrnam(VPMUD_READERS_USUAL) ? VPMUD_READERS_USUAL
							      : NULL;

	return access_parse(&d->access, (struct access_list){"admin_group", c->admin_group},
			    (struct access_list){"reader_group", readers}, err, errlen);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int on_tend(sd_event_source *s, uint64_t usec, void *arg)
{
	struct daemon *d = arg;

	bpf_backend_tend(d->kernel);
	tree_tend(d->tree);
	command_cgroups_tend(&d->config.rules, d->cgroup_root);
	guests_tend(d->guests);
	return sd_event_source_set_time_relative(s, TEND_US);
}

/* A multiplexing interval has ended: rotate the keys. */
static int on_turn(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	struct daemon *d = arg;

	bpf_backend_tend(d->kernel);
	return 0;
}

/* An interval of the history has ended. A late one does not move those that follow: readers take an
 * interval that is longer than one and a half for two, of which one was not counted. */
static int on_past(sd_event_source *s, uint64_t usec, void *arg)
{
	struct daemon *d = arg;
	const uint64_t interval = d->config.history_interval * 1000000ULL;
	uint64_t late;

	history_tick(d->history, realtime_us(), now_ns());
	late = now_ns() / 1000 - usec;
	return sd_event_source_set_time(s, usec + (late / interval + 1) * interval);
}

/* The time for rediscovery is over: drop what was saved but not found again. */
static int on_named(sd_event_source *s, uint64_t usec, void *arg)
{
	struct daemon *d = arg;

	tree_restored(d->tree);
	sessions_restored(server_sessions(d->server));
	guests_restored(d->guests, d->ts, d->kernel);
	bpf_backend_named(d->kernel);
	return 0;
}

/* Nodes come and go without requests. */
static int daemon_on_post(sd_event_source *s, void *arg)
{
	persist_all(((struct daemon *)arg)->persist);
	return 0;
}

static int open_kernel(struct daemon *d, char *err, size_t errlen)
{
	const struct bpf_backend_opts o = {
		.pin_dir = d->pin_dir,
		.busy = persist_busy,
		.isolated = d->config.isolated,
		.leave_counters = d->config.leave_counters,
		.counters = d->config.counters,
	};
	const char *pids = report_pids();
	char why[400];
	int ret;

	if (pids) {
		snprintf(why, sizeof(why), "PID namespace: %s", pids);
		daemon_say(why);
	}
	ret = bpf_backend_open(&o, &d->kernel, why, sizeof(why));
	if (ret)
		return fail(ret, err, errlen, "BPF backend: %s", why);
	if (d->pin_dir)
		d->persist = persist_create(d->socket, d->kernel, daemon_say);
	return 0;
}

static int open_tree(struct daemon *d, char *err, size_t errlen)
{
	static const struct cgroups_ops ops = {tree_cgroup_added, tree_cgroup_removed,
					       daemon_on_note, tree_cgroups_settle};
	const struct tree_backend backend = {
		.source = bpf_as_backend(d->kernel),
		.bind_cgroup = bpf_backend_bind_cgroup,
		.unbind_cgroup = bpf_backend_unbind_cgroup,
		.bind_task = bpf_backend_bind_task,
		.unbind_task = bpf_backend_unbind_task,
		.name = d->pin_dir ? bpf_backend_name : NULL,
		.has_cgroup = bpf_backend_has_cgroup,
	};
	int ret = tenants_create(NULL, &d->ts, err, errlen);

	if (ret)
		return ret;
	ret = vpmud_config_mount(d->config.cgroup_root, &d->cgroup_root, err, errlen);
	if (ret)
		return ret;
	ret = tenants_add_source(d->ts, backend.source);
	if (ret)
		return fail(ret, err, errlen, "tenants: %s", strerror(-ret));
	d->tree = tree_create(d->ts, &backend, &d->config.rules, d->cgroup_root, daemon_on_note,
			      NULL);
	if (d->persist && persist_tree(d->persist))
		tree_restore(d->tree, persist_tree(d->persist));
	return cgroups_open(d->ev, d->cgroup_root, &d->config.rules, &ops, d->tree, &d->cgroups,
			    err, errlen);
}

static int open_discovery(struct daemon *d, char *err, size_t errlen)
{
	static const struct disc_ops ops = {tree_vm_added, tree_vm_changed, tree_vm_removed,
					    daemon_on_note};
	const char *uris[VPMUD_URIS_MAX];
	struct disc_opts o = {.cgroup_root = d->cgroup_root, .libvirt_uris = uris};
	char *list = xstrdup(d->config.libvirt), *rest = list, *uri;
	int ret = 0;

	while (!ret && (uri = strsep(&rest, " \t"))) {
		if (!*uri || !strcmp(uri, "none"))
			continue;
		if (o.nr_uris == VPMUD_URIS_MAX)
			ret = -E2BIG;
		else
			uris[o.nr_uris++] = uri;
	}
	/* Load it now: discovery's threads would load it after containment, when no executable
	 * memory can be mapped. Discovery reports a missing library. */
	if (!ret && o.nr_uris)
		dlopen("libvirt.so.0", RTLD_NOW | RTLD_LOCAL);
	if (!ret)
		ret = disc_open(d->ev, &o, &ops, d->tree, &d->disc);
	if (!ret)
		ret = disc_scan(d->disc);
	free(list);
	return ret ? fail(ret, err, errlen, "finding VMs: %s", strerror(-ret)) : 0;
}

static int open_history(struct daemon *d, char *err, size_t errlen)
{
	struct history_opts o = {
		.interval_ns = d->config.history_interval * 1000000000ULL,
		.keep_ns = d->config.history * 1000000000ULL,
		.note = daemon_on_note,
	};
	char *file;
	int ret;

	if (!d->config.history)
		return 0;
	file = xasprintf("%s.history", d->socket);
	o.file = file;
	d->history = history_create(server_sessions(d->server), &o);
	free(file);
	ret = server_history(d->server, d->history);
	return ret ? fail(ret, err, errlen, "history: %s", strerror(-ret)) : 0;
}

/* The socket for VMMs, beside the control socket. */
static int open_guests(struct daemon *d, char *err, size_t errlen)
{
	const char *slash = strrchr(d->socket, '/');
	char path[128];
	const struct guests_opts o = {
		.ev = d->ev,
		.path = path,
		.own_dir = !d->config.socket,
		.events = d->config.guest_events,
		.rules = &d->config.rules,
		.kernel = d->kernel,
		.ts = d->ts,
		.tree = d->tree,
		.disc = d->disc,
	};

	if (!d->config.guest_events)
		return 0;
	if (!d->pin_dir)
		return fail(-EINVAL, err, errlen,
			    "guest_events: needs pins; expected a pin_dir in a BPF file system");
	if (!slash || snprintf(path, sizeof(path), "%.*s/vcpus.sock", (int)(slash - d->socket),
			       d->socket) >= (int)sizeof(path))
		return fail(-ENAMETOOLONG, err, errlen,
			    "guest_events: the path of the socket is too long");
	return guests_open(&o, &d->guests, err, errlen);
}

/* Choose the socket's path and the pin directory. */
static int open_places(struct daemon *d, char *err, size_t errlen)
{
	int ret = server_default_path("vpmud", d->usual_socket, sizeof(d->usual_socket));

	d->socket = d->config.socket ? d->config.socket : d->usual_socket;
	d->pin_dir = persist_pin_dir(&d->config, daemon_say);
	return ret ? fail(ret, err, errlen, "socket: %s", strerror(-ret)) : 0;
}

static int open_timers(struct daemon *d, char *err, size_t errlen)
{
	int ret = sd_event_add_time_relative(d->ev, &d->tend, CLOCK_MONOTONIC, TEND_US, 0, on_tend,
					     d);

	if (ret >= 0)
		ret = sd_event_source_set_enabled(d->tend, SD_EVENT_ON);
	if (ret >= 0)
		ret = sd_event_add_io(d->ev, &d->turn, bpf_backend_turn_fd(d->kernel), EPOLLIN,
				      on_turn, d);
	if (ret >= 0 && d->pin_dir)
		ret = sd_event_add_time_relative(d->ev, &d->named, CLOCK_MONOTONIC, NAMED_US, 0,
						 on_named, d);
	if (ret >= 0 && d->history)
		ret = sd_event_add_time_relative(d->ev, &d->past, CLOCK_MONOTONIC,
						 d->config.history_interval * 1000000ULL,
						 PAST_ACCURACY_US, on_past, d);
	if (ret >= 0 && d->history)
		ret = sd_event_source_set_enabled(d->past, SD_EVENT_ON);
	/* Before requests: an interval that has ended is in the answer. */
	if (ret >= 0 && d->history)
		ret = sd_event_source_set_priority(d->past, SD_EVENT_PRIORITY_IMPORTANT);
	if (ret >= 0 && d->pin_dir)
		ret = sd_event_add_post(d->ev, &d->post, daemon_on_post, d);
	return ret < 0 ? fail(ret, err, errlen, "event loop: %s", strerror(-ret)) : 0;
}

int daemon_create(sd_event *ev, const struct daemon_opts *o, struct daemon **out, char *err,
		  size_t errlen)
{
	static int (*const open[])(struct daemon * d, char *err, size_t errlen) = {
		open_access,	open_places,	    open_kernel,  open_tree,
		open_discovery, daemon_open_server, open_history, open_guests,
	};
	struct daemon *d = xcalloc(1, sizeof(*d));
	int ret;

	d->ev = sd_event_ref(ev);
	d->config_path = xstrdup(o->config);
	d->listen_fd = o->listen_fd;
	ret = vpmud_config_read(&d->config, o->config, err, errlen);
	for (size_t i = 0; i < sizeof(open) / sizeof(open[0]) && !ret; i++)
		ret = open[i](d, err, errlen);
	if (!ret)
		ret = vpmud_contain(err, errlen);
	if (!ret)
		ret = open_timers(d, err, errlen);
	if (ret)
		daemon_destroy(d);
	else
		*out = d;
	return ret;
}

void daemon_destroy(struct daemon *d)
{
	if (!d)
		return;
	sd_event_source_disable_unref(d->tend);
	sd_event_source_disable_unref(d->turn);
	sd_event_source_disable_unref(d->named);
	sd_event_source_disable_unref(d->post);
	sd_event_source_disable_unref(d->past);
	history_destroy(d->history);
	guests_close(d->guests);
	server_destroy(d->server);
	disc_close(d->disc);
	cgroups_close(d->cgroups);
	tree_destroy(d->tree);
	tenants_destroy(d->ts);
	if (d->kernel)
		bpf_backend_close(d->kernel);
	access_fini(&d->access);
	persist_destroy(d->persist);
	vpmud_config_fini(&d->config);
	free(d->config_path);
	free(d->cgroup_root);
	sd_event_unref(d->ev);
	free(d);
}

void daemon_leave(struct daemon *d)
{
	int ret;

	/* Its sessions and the guests' counters stay. */
	server_leave(d->server);
	if (!d->persist ||
	    (!sessions_registry(server_sessions(d->server))->nr && !guests_bound(d->guests)))
		return;
	guests_leave(d->guests);
	ret = persist_now(d->persist);
	fflush(NULL);
	_exit(ret ? 1 : 0);
}

const char *daemon_socket(const struct daemon *d)
{
	return d->socket;
}
