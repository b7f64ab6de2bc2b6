/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is exported: counts of every tenant and every VM, how good they are, and how the server is.
 * docs/metrics.md is the specification. Two sessions of the server count for it; they are kept, so
 * that their counts go on when the exporter or vpmud starts again. One thread.
 *
 * A count that is not there is no number: it is absent, and a family "..._missing" says why. Counts
 * are never scaled, since a scaled count can decrease.
 */
#ifndef EXPORTER_METRICS_H
#define EXPORTER_METRICS_H

#include <jansson.h>

#include "exporter/exposition.h"

/* The names of the two sessions. */
#define METRICS_SESSION_VMS	"vpmu-exporter.vms"
#define METRICS_SESSION_TENANTS "vpmu-exporter.tenants"
#define METRICS_EVENTS_MAX	64

/* Which counters say in OpenMetrics when they began (_created): a line more for each of them. */
enum metrics_created {
	METRICS_CREATED_NO,
	METRICS_CREATED_TENANTS, /* all but those of VMs */
	METRICS_CREATED_ALL,
};

struct metrics_opts {
	const char *events; /* as for `vpmu stat -e` */
	enum metrics_created created;
	unsigned int max_vms;	    /* VMs with rows of their own */
	unsigned int max_tenants;   /* the same of tenants */
	unsigned int keep_gone_sec; /* a removed VM's last counts are shown for so long */
	/* Asks the server: @req is taken (NULL: out of memory), and *@resp is its answer. -errno
	 * and one line in @err: also when the answer is an error, with its errno. */
	int (*ask)(void *arg, json_t *req, json_t **resp, char *err, size_t errlen);
	void *arg;
};

struct metrics;

/* metrics_create - @o is copied, its strings are not. -EINVAL: the events; -ENOMEM; one line to
 * @err. The server is not asked. metrics_destroy - the sessions stay; NULL is fine. */
int metrics_create(const struct metrics_opts *o, struct metrics **out, char *err, size_t errlen);
void metrics_destroy(struct metrics *m);

/* metrics_render - all families to @e, whose form is set, but expo_end. Sessions that are not
 * there, or count other events, are opened; their counts begin then. -errno and a line in @err. */
int metrics_render(struct metrics *m, struct expo *e, char *err, size_t errlen);

#endif
