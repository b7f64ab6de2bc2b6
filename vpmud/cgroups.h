/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the cgroups of this host that match the rules of vpmud.conf, at the start and as they are
 * created and removed. The daemon calls it, on the event loop's thread only. It must never write to
 * cgroupfs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "vpmud/rules.h"

#define CGROUPS_MAX 65536 /* matching cgroups; the rest is left out, with a note */

/* A matching cgroup. Valid until it is reported as removed. */
struct cgroup {
	const char *path;   /* relative to the cgroup2 mount */
	uint64_t id;	    /* as bpf_get_current_cgroup_id() has it */
	const char *tenant; /* path of its tenant */
	bool born;	    /* found as it came: not at the start, nor by new rules */
	void *user;	    /* the caller's */
};

struct cgroups_ops {
	void (*added)(void *arg, struct cgroup *c);
	/* The directory is gone, was replaced by another of the same path, or belongs to another
	 * tenant now. */
	void (*removed)(void *arg, struct cgroup *c);
	void (*note)(void *arg, const char *line);
	/* All that a piece of a scan has found was reported. @whole_ns: 0, unless that was the
	 * last piece: then all that matched at this CLOCK_BOOTTIME has been reported, by this scan
	 * or an earlier one. */
	void (*batch)(void *arg, uint64_t whole_ns);
};

struct cgroups;

/*
 * cgroups_open - scan once, then follow changes in pieces of 20 ms. @root, from
 * vpmud_config_mount(), is copied. @rules stay the caller's and must live until cgroups_rules()
 * replaces them, or until cgroups_close(). Returns 0, or -errno and one line in @err.
 *
 * cgroups_close - free everything without reporting removals.
 */
int cgroups_open(sd_event *e, const char *root, const struct rules *rules,
		 const struct cgroups_ops *ops, void *arg, struct cgroups **out, char *err,
		 size_t errlen);
void cgroups_close(struct cgroups *c);

/* cgroups_rules - switch to @rules: report cgroups that no longer match as removed and new matches
 * as added; a cgroup that stays with its tenant is not reported. */
void cgroups_rules(struct cgroups *c, const struct rules *rules);

/* cgroups_scan - scan now, for other rules.
 * cgroups_settle - find what has come under the rules so far. Call it before they change: later it
 * would not be born. */
void cgroups_scan(struct cgroups *c);
void cgroups_settle(struct cgroups *c);
