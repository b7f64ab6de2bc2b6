/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's parts: daemon.c makes them in order, daemon_server.c serves them. */
#pragma once

#include "cgroup/cgroup.h"
#include "service/history.h"
#include "service/server.h"
#include "vpmud/config.h"
#include "vpmud/daemon.h"
#include "vpmud/guests.h"
#include "vpmud/persist.h"
#include "vpmud/tree.h"

struct daemon {
	sd_event *ev;
	char *config_path; /* as daemon_opts.config */
	struct vpmud_config config;
	struct access_rules access;
	char usual_socket[128];
	const char *socket;
	int listen_fd; /* as daemon_opts.listen_fd */
	struct bpf_backend *kernel;
	struct tenants *ts;
	char *cgroup_root;
	struct tree *tree;
	struct cgroups *cgroups;
	struct disc *disc;
	struct server *server;
	struct history *history; /* NULL: none is kept */
	struct guests *guests;	 /* NULL: no events for guests */
	sd_event_source *tend, *turn, *named, *post, *past;
	const char *pin_dir;	 /* NULL: no pins */
	struct persist *persist; /* NULL: no pins */
	char reload_error[512];	 /* error of the last reload; "": it succeeded */
};

/* daemon_open_server - open the control socket with vpmud's commands, and begin to save sessions.
 */
int daemon_open_server(struct daemon *d, char *err, size_t errlen);
