/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples of profiles and captures, added up by location: a table of (vCPU or other node, side,
 * process, privilege level, addresses) with a count each. One address is a row of a histogram,
 * several are a call chain. The table is bounded: samples that find it full are counted together as
 * `other`, so the sum is always the number of all samples. Names of vCPUs are kept here, too,
 * because traces outlive the vCPUs. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/tenant/tenant.h"

/* ---- names of nodes ------------------------------------------------------------------------ */

/* A node by name: a vCPU that is removed and added again has the same one. */
struct who {
	char vm[TENANT_VM_NAME_MAX + 1]; /* "": a tenant */
	int vcpu;			 /* -1: the VM as a whole */
	char *tenant;			 /* path of a tenant; else NULL */
	size_t refs;			 /* private */
};

struct whos {
	void *by_serial, *by_name; /* tsearch(3) */
};

/* whos_add - make node @n known to whos_find; no-op for / and /host. -ENOMEM.
 * whos_gone - forget @serial; the name stays as long as a trace refers to it.
 * whos_clear - forget all serials. */
int whos_add(struct whos *ws, const struct node *n);
void whos_gone(struct whos *ws, uint64_t serial);
void whos_clear(struct whos *ws);
/* whos_find - the name of node @serial; NULL: unknown. */
struct who *whos_find(const struct whos *ws, uint64_t serial);

/* ---- traces ------------------------------------------------------------------------------- */

#define TRACE_CPL_UNKNOWN 255

struct trace {
	struct who *who; /* NULL: no vCPU ran, or its name is unknown */
	uint64_t samples;
	uint64_t at_ns;	   /* in traces_add: the time of its samples; 0: unknown */
	uint64_t *time_ns; /* of as many samples as there was room for, in order of traces_add */
	size_t nr_times, cap_times;
	uint64_t first_ns; /* CLOCK_MONOTONIC of the first of its samples; 0: unknown */
	uint32_t pid;	   /* process of host user addresses; else 0 */
	uint8_t side;	   /* enum vpmu_side */
	uint8_t cpl;	   /* at ip[0], or TRACE_CPL_UNKNOWN */
	bool known;	   /* ip[0] is valid */
	uint8_t nr;	   /* 0: a vCPU that made no calls */
	uint64_t ip[];	   /* the sample's address, then the calls that led there, newest first */
};

struct traces {
	struct whos *whos; /* the owner sets whos, max and max_times */
	size_t max;	   /* maximum of distinct traces */
	size_t max_times;  /* maximum of samples with times, over all traces */
	size_t nr_times;
	struct trace **slot;
	size_t cap, nr;
	uint64_t other; /* samples for which there was no room */
};

/* traces_add - add to @t a trace described by @what (samples, at_ns, who, pid .. nr) and
 * @ip[0..nr). If there is no room or memory for a sample's time, the time is dropped. */
void traces_add(struct traces *t, const struct trace *what, const uint64_t *ip);

/* traces_sorted - all traces, most samples first, then by name and address: a malloc'd array of
 * t->nr pointers, valid until the next change. NULL when out of memory. */
const struct trace **traces_sorted(const struct traces *t);

void traces_free(struct traces *t);
