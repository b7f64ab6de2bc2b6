/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is exported: counts of every tenant and every VM, how good they are, and how the service is.
 * docs/metrics.md is the specification. Two sessions count for it, which a vpmud that starts again
 * takes over. All functions: control thread.
 *
 * A count that is not there is no number: it is absent, and a family "..._missing" says why. Counts
 * are never scaled, since a scaled count can decrease.
 */
#ifndef EXPORTER_METRICS_H
#define EXPORTER_METRICS_H

#include "exporter/exposition.h"
#include "service/session.h"

/* The names of the two sessions. */
#define METRICS_SESSION_VMS	"vpmud.metrics.vms"
#define METRICS_SESSION_TENANTS "vpmud.metrics.tenants"

/* What is known of a VM; strings that live until the tree changes, or NULL. @owner: VMs of one
 * owner share what room there is for VMs; those of 0, the host itself, come first. */
struct metrics_about {
	const char *uuid, *cgroup;
	uint64_t owner;
};

/* Which counters say in OpenMetrics when they began (_created): a line more for each of them. */
enum metrics_created {
	METRICS_CREATED_NO,
	METRICS_CREATED_TENANTS, /* all but those of VMs */
	METRICS_CREATED_ALL,
};

struct profiles;
struct metrics_opts {
	struct sessions *sessions;
	struct profiles *profiles;
	const char *events;	   /* as for `vpmu stat -e` */
	enum vpmu_space raw_space; /* as in struct server_opts */
	bool host_too;		   /* the same */
	enum metrics_created created;
	unsigned int max_vms;	    /* VMs with rows of their own */
	unsigned int max_tenants;   /* the same of tenants */
	unsigned int keep_gone_sec; /* a removed VM's last counts are shown for so long */
	struct metrics_about (*about)(void *arg, const struct node *vm); /* may be NULL */
	void (*more)(void *arg, struct expo *e); /* further families; may be NULL */
	void *arg;
};

struct metrics;

/* metrics_create - begin to count, or take over the sessions that there are, if they count the same
 * events. @o is copied, its strings are not. One line to @err; after success too, if nothing is
 * counted yet: each metrics_render tries again. metrics_destroy - the sessions stay;
 * NULL is fine. metrics_end - the sessions of @ss that a former metrics_create has made end. */
int metrics_create(const struct metrics_opts *o, struct metrics **out, char *err, size_t errlen);
void metrics_destroy(struct metrics *m);
void metrics_end(struct sessions *ss);

/* metrics_render - all families to @e, whose form is set, but expo_end. Sessions that somebody has
 * ended are opened again. -errno and a line in @err. */
int metrics_render(struct metrics *m, struct expo *e, char *err, size_t errlen);

#endif
