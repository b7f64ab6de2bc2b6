/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples, of profiles and of captures, added up by where they were: a table of (vCPU or other
 * node, side, process, privilege level, addresses) with a count each. One address is a row of a
 * histogram, several are a call chain. The table is bounded: samples that find it full go into one
 * count of others, so the sum is always the number of all samples. The names of vCPUs are kept too,
 * because they outlive the vCPUs. Control thread.
 */
#ifndef SERVICE_TRACES_H
#define SERVICE_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/tenant/tenant.h"

/* ---- who ---------------------------------------------------------------------------------- */

/* A node by name: a vCPU that is removed and added again is the same one. */
struct who {
	char vm[TENANT_VM_NAME_MAX + 1]; /* "": a tenant */
	int vcpu;			 /* -1: the VM as a whole */
	char *tenant;			 /* path of a tenant; else NULL */
	size_t refs;			 /* private */
};

struct whos {
	void *by_serial, *by_name; /* tsearch(3) */
};

/* whos_add - let whos_find find node @n; nothing happens if @n is / or /host. -ENOMEM. whos_gone -
 * @serial is not found any more; the name stays as long as a trace refers to it. whos_clear -
 * forget all serials. */
int whos_add(struct whos *ws, const struct node *n);
void whos_gone(struct whos *ws, uint64_t serial);
void whos_clear(struct whos *ws);
/* whos_find - NULL: not known. */
struct who *whos_find(const struct whos *ws, uint64_t serial);

/* ---- traces ------------------------------------------------------------------------------- */

#define TRACE_CPL_UNKNOWN 255

struct trace {
	struct who *who; /* NULL: no vCPU ran, or its name is not known */
	uint64_t samples;
	uint64_t at_ns;	   /* traces_add: the time of its samples; 0: not known */
	uint64_t *time_ns; /* of as many of the samples as there was room for, in the order of
			      traces_add */
	size_t nr_times, cap_times;
	uint32_t pid;  /* whose addresses these are, where that is not the guest or kernel; 0 */
	uint8_t side;  /* enum vpmu_side */
	uint8_t cpl;   /* at ip[0], or TRACE_CPL_UNKNOWN */
	bool known;    /* false: ip[0] is not known */
	uint8_t nr;    /* 0: a vCPU that made no calls */
	uint64_t ip[]; /* where the sample was, then the calls that led there, newest first */
};

struct traces {
	struct whos *whos; /* the owner sets whos, max and max_times */
	size_t max;	   /* distinct traces that are kept */
	size_t max_times;  /* times of samples that are kept, of all traces */
	size_t nr_times;
	struct trace **slot;
	size_t cap, nr;
	uint64_t other; /* samples for which there was no room */
};

/* traces_add - @t's count for what @what describes (its samples, at_ns, who, pid .. nr) and
 * @ip[0..nr). A sample for whose time there is no room or memory has none. */
void traces_add(struct traces *t, const struct trace *what, const uint64_t *ip);

/* traces_sorted - all of them, those with most samples first, the rest by name and address: a
 * malloc'd array of t->nr pointers, valid until the next change. NULL when out of memory. */
const struct trace **traces_sorted(const struct traces *t);

void traces_free(struct traces *t);

#endif
