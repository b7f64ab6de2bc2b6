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
	size_t nr;
	char *names[METRICS_EVENTS_MAX];
	char *label[METRICS_EVENTS_MAX]; /* ,event="NAME" */
};

/* The server's answers of one scrape. */
struct metrics_answers {
	json_t *read[2]; /* of the tenants' and the VMs' session */
	json_t *list, *sharing, *hello;
};

/* metrics_prepare - make m->label. -EINVAL: two events of one name; -ENOMEM. */
int metrics_prepare(struct metrics *m, char *err, size_t errlen);

/* metrics_rows - the families of the host, the tenants and the VMs. -EPROTO: an answer is none;
 * -ENOMEM. */
int metrics_rows(struct metrics *m, const struct metrics_answers *a, struct expo *e);

#endif
