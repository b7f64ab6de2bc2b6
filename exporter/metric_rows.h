/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What metrics.c and metric_rows.c share; nobody else includes it. */
#ifndef EXPORTER_METRIC_ROWS_H
#define EXPORTER_METRIC_ROWS_H

#include "exporter/metrics.h"
#include "vpmu/event/event.h"

/* Bytes of ,event="NAME" with each byte of the name escaped. */
#define METRICS_EVENT_LABEL (2 * VPMU_EVENT_NAME_MAX + 16)

struct metrics {
	struct metrics_opts o;
	uint64_t started_us;
	size_t nr;
	char *names[SESSION_EVENTS_MAX];
	vpmu_key_t keys[SESSION_EVENTS_MAX];
	char *label[SESSION_EVENTS_MAX]; /* ,event="NAME" */
};

/* metrics_prepare - make m->label. -EINVAL: two events of one name; -ENOMEM. */
int metrics_prepare(struct metrics *m, char *err, size_t errlen);

/* metrics_rows - the families of the host, the tenants and the VMs. -ENOMEM. */
int metrics_rows(struct metrics *m, struct session *tenants, struct session *vms, struct expo *e);

#endif
