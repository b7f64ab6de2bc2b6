/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counters for guests: a VMM of this host binds events to its vCPUs, and reads their totals from
 * pages that the BPF program writes (vpmu/totals.h has the requests). Each VMM has what the
 * administrator's list of events permits, and sees its own vCPUs only.
 *
 * VMMs are hostile. One is identified by the kernel (SO_PEERCRED) as a VM that was discovered; it
 * can name only its own vCPUs' threads. Connections, requests per second and events are limited,
 * and vpmud never waits for a VMM. All functions: the event loop's thread.
 */
#ifndef VPMUD_GUESTS_H
#define VPMUD_GUESTS_H

#include <jansson.h>
#include <systemd/sd-event.h>

#include "cgroup/cgroup.h"
#include "vpmud/tree.h"

#define GUESTS_EVENTS_MAX 16 /* events of the list */

/* guests_parse - the events of @list, names separated by blanks, as keys without privilege levels.
 * Returns their number, at most GUESTS_EVENTS_MAX; -EINVAL, -E2BIG with one line in @err. */
int guests_parse(const char *list, vpmu_key_t key[GUESTS_EVENTS_MAX], char *err, size_t errlen);

struct guests_opts {
	sd_event *ev;
	const char *path;   /* of the socket */
	bool own_dir;	    /* as in server_opts */
	const char *events; /* for guests_parse */
	struct bpf_backend *kernel;
	struct tenants *ts;
	const struct tree *tree;
};

struct guests;

/* guests_open - listen at the socket. -errno and one line in @err.
 * guests_close - end all binds; before tree_destroy. NULL is fine.
 * guests_leave - the same, but pages and counts go on for the next vpmud. */
int guests_open(const struct guests_opts *o, struct guests **out, char *err, size_t errlen);
void guests_close(struct guests *g);
void guests_leave(struct guests *g);

/* guests_tend - call it once a second.
 * guests_restored - the time for VMMs to bind again after a takeover is over: end other pages. Call
 * it before bpf_backend_named. Without @g, all pages. */
void guests_tend(struct guests *g);
void guests_restored(const struct guests *g, struct tenants *ts, struct bpf_backend *kernel);

/* guests_vm - number of events bound to vCPUs of @vm. NULL @g: 0. */
unsigned int guests_vm(const struct guests *g, const struct node *vm);

struct guests_usage {
	unsigned int vmms, binds; /* now */
	uint64_t refused;	  /* binds since the start: not on the list, or no counter left */
	uint64_t dropped;	  /* connections: not a VM, or invalid requests */
};
void guests_usage(const struct guests *g, struct guests_usage *out);

#endif
