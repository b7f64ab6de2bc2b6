/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples added up by where they were: a table of (vCPU, privilege, addresses) with a count each.
 * One address makes the rows of a histogram, several a call chain. Bounded: what finds the table
 * full goes into one count of others, so that the sum is always all samples. And the names of the
 * vCPUs in it, which outlive the vCPUs. Control thread.
 */
#ifndef CGROUP_SERVICE_TRACES_H
#define CGROUP_SERVICE_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup/tenant/tenant.h"

/* ---- who ---------------------------------------------------------------------------------- */

/* A vCPU by name: one that goes and comes again is the same. */
struct who {
	char vm[TENANT_VM_NAME_MAX + 1]; /* "": no vCPU, or one that nobody knows any more */
	unsigned int vcpu;
	size_t refs; /* private */
};

struct whos {
	void *by_serial, *by_name; /* tsearch(3) */
};

/* whos_add - node @n (others than vCPUs: nothing happens) can be found. -ENOMEM. whos_gone - no
 * longer; the name stays as long as something refers to it. whos_clear - nobody can be found. */
int whos_add(struct whos *ws, const struct node *n);
void whos_gone(struct whos *ws, uint64_t serial);
void whos_clear(struct whos *ws);
/* whos_find - NULL: not known. */
struct who *whos_find(const struct whos *ws, uint64_t serial);

/* ---- traces ------------------------------------------------------------------------------- */

struct trace {
	struct who *who; /* NULL: no vCPU, or one that nobody knows any more */
	uint64_t samples;
	uint8_t cpl;   /* at ip[0] */
	bool known;    /* false: ip[0] is not known */
	uint8_t nr;    /* 1.. */
	uint64_t ip[]; /* the sample's own, then those of the calls that led there, newest first */
};

struct traces {
	struct whos *whos; /* set by the owner, as max */
	size_t max;	   /* distinct traces kept */
	struct trace **slot;
	size_t cap, nr;
	uint64_t other; /* samples for which there was no room */
};

/* traces_add - @t's count for what @what describes (its samples, who .. nr) and @ip[0..nr). */
void traces_add(struct traces *t, const struct trace *what, const uint64_t *ip);

/* traces_sorted - all of them, those with most samples first, the rest by name and address: a
 * malloc'd array of t->nr pointers, valid until the next change. NULL when out of memory. */
const struct trace **traces_sorted(const struct traces *t);

void traces_free(struct traces *t);

#endif
