/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters for guests: a VMM of this host binds events to its vCPUs, and reads their totals from
 * pages that the BPF program writes (vpmu/totals.h has the requests). Each VMM has what the policy
 * of its tenant and its quotas permit (guest_policy.h, guest_quota.h), and sees its own vCPUs only.
 *
 * VMMs are hostile. One is identified by the kernel (guest_peer.c) as a VM that was discovered; it
 * can name only its own vCPUs' threads. Connections, requests per second and events are limited,
 * and vpmud never waits for a VMM. A process that is no VM may ask what its tenant may have, once
 * per connection. All functions: the event loop's thread.
 */
#pragma once

#include <jansson.h>
#include <systemd/sd-event.h>

#include "cgroup/cgroup.h"
#include "vpmud/tree.h"

struct guests_opts {
	sd_event *ev;
	const char *path;   /* of the socket */
	bool own_dir;	    /* as in server_opts */
	const char *events; /* for guests_parse */
	const struct rules *rules;
	struct bpf_backend *kernel;
	struct tenants *ts;
	const struct tree *tree;
	struct disc *disc;
};

struct guests;

/* guests_open - listen at the socket. -errno and one line in @err.
 * guests_close - end all binds; before tree_destroy. NULL is fine.
 * guests_leave - the same, but pages and counts go on for the next vpmud. */
int guests_open(const struct guests_opts *o, struct guests **out, char *err, size_t errlen);
void guests_close(struct guests *g);
void guests_leave(struct guests *g);

/* guests_rules - @rules and @events, both valid, replace the former ones. The connection of a VM
 * with a bind that they do not permit is closed, so that its VMM learns of it. Quotas are for new
 * binds. Call it while the former rules still exist, after the tree has these. NULL @g is fine. */
void guests_rules(struct guests *g, const struct rules *rules, const char *events);

/* guests_tend - call it once a second.
 * guests_restored - the time for VMMs to bind again after a takeover is over: end other pages. Call
 * it before bpf_backend_named. Without @g, all pages. */
void guests_tend(struct guests *g);
void guests_restored(const struct guests *g, struct tenants *ts, struct bpf_backend *kernel);

/*
 * guests_view.c: what is shown. NULL @g: nothing.
 *
 * guests_vm_info - add to @obj, a VM's row of `list`: events bound, requests denied and refused.
 * guests_check - the rows of `check`.
 * guests_figures - the object "guests" of `sharing`.
 */
void guests_vm_info(const struct guests *g, const struct node *vm, json_t *obj);
void guests_check(const struct guests *g,
		  void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg);
void guests_figures(const struct guests *g, json_t *resp);

/* guests_bound - events that are bound now. */
unsigned int guests_bound(const struct guests *g);
