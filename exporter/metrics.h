/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exported metrics: counts of every tenant and every VM, their quality, and the state of the
 * server. docs/metrics.md is the specification. They use two sessions of the server, which are
 * kept, so that counts continue when the exporter or vpmud restarts. The exporter and `vpmu
 * metrics` call it. One thread.
 *
 * A missing count is absent, and a family "..._missing" has the reason. Counts must never be
 * scaled, because a scaled count can decrease.
 */
#pragma once

#include <jansson.h>

#include "exporter/exposition.h"
#include "vpmu/event/event.h"

/* The names of the two sessions. */
#define METRICS_SESSION_VMS	"vpmu-exporter.vms"
#define METRICS_SESSION_TENANTS "vpmu-exporter.tenants"
#define METRICS_EVENTS_MAX	64

/* Counters that get their start time in OpenMetrics (_created), one more line each. */
enum metrics_created {
	METRICS_CREATED_NO,
	METRICS_CREATED_TENANTS, /* all but VMs' counters */
	METRICS_CREATED_ALL,
};

struct metrics_opts {
	const char *events; /* as for `vpmu stat -e` */
	enum metrics_created created;
	bool as_of;		    /* with the families of the readings' times */
	unsigned int max_vms;	    /* limit of VMs with rows */
	unsigned int max_tenants;   /* limit of tenants with rows */
	unsigned int keep_gone_sec; /* how long a removed VM's last counts are kept */
	/* Query the server: @req is taken (NULL: out of memory), and *@resp is the answer. Returns
	 * 0, or -errno and one line in @err, for an error in the answer as well. */
	int (*ask)(void *arg, json_t *req, json_t **resp, char *err, size_t errlen);
	void *arg;
};

struct metrics;

/* metrics_create - @o is copied, its strings are not. -EINVAL: invalid events; one line to
 * @err. Does not query the server. metrics_destroy - keeps the sessions; NULL is allowed. */
int metrics_create(const struct metrics_opts *o, struct metrics **out, char *err, size_t errlen);
void metrics_destroy(struct metrics *m);

/* metrics_render - write all families to @e, with its form set, without expo_end(). Sessions that
 * are missing or count other events are opened, and start counting. Returns 0, or -errno and one
 * line in @err. */
int metrics_render(struct metrics *m, struct expo *e, char *err, size_t errlen);

/* metrics_sums - as metrics_render(), as JSON for the live page (docs/report.md): @e of the form
 * EXPO_JSON. In page_data.c. */
int metrics_sums(struct metrics *m, struct expo *e, char *err, size_t errlen);

/* ---- shared by metrics.c, metric_rows.c and page_data.c only ---- */

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
