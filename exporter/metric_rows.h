/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by metrics.c, metric_rows.c and page_data.c only. */
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
	json_t *read[2]; /* of the sessions of tenants and of VMs */
	json_t *list, *sharing, *hello;
};

/* metrics_ask_all - query the server; see metrics_render(). Call metrics_answers_free() in any
 * case. */
int metrics_ask_all(const struct metrics *m, struct metrics_answers *a, char *err, size_t errlen);
void metrics_answers_free(struct metrics_answers *a);

/* metrics_prepare - set m->label. Returns 0; -EINVAL: two events of one name. */
int metrics_prepare(struct metrics *m, char *err, size_t errlen);

/* metrics_rows - write the families of the host, the tenants and the VMs. Returns 0; -EPROTO: an
 * answer violates the protocol. */
int metrics_rows(struct metrics *m, const struct metrics_answers *a, struct expo *e);

/* metrics_vms - return the objects of the VMs in `list` by name, which the caller frees.
 * metrics_uncounted - returns true if no thread of @vm, one of these, is known that could be
 * counted: what was counted of it before is a number, 0 is none. */
json_t *metrics_vms(const json_t *list);
bool metrics_uncounted(const json_t *vm);

#endif
