/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The cgroups of this host that match the rules of vpmud.conf: found at the start, and reported
 * when they are made and removed. The daemon calls it. It only reads cgroupfs. One thread: the
 * event loop's.
 */
#ifndef VPMUD_CGROUPS_H
#define VPMUD_CGROUPS_H

#include <stdint.h>
#include <systemd/sd-event.h>

#include "vpmud/rules.h"

#define CGROUPS_MAX 65536 /* cgroups that match; the rest is left out, with a note */

/* One that matches. Valid until it is reported as gone. */
struct cgroup {
	const char *path;   /* in cgroup2 */
	uint64_t id;	    /* as bpf_get_current_cgroup_id() has it */
	const char *tenant; /* path of its tenant */
	void *user;	    /* the caller's */
};

struct cgroups_ops {
	void (*added)(void *arg, struct cgroup *c);
	/* The directory is gone, belongs to another tenant now, or is another one of that path. */
	void (*removed)(void *arg, struct cgroup *c);
	void (*note)(void *arg, const char *line);
};

struct cgroups;

/* cgroups_mount - where cgroup2 is mounted, malloc'd: @named, or if that is NULL as
 * /proc/self/mounts says. -errno and one line in @err. */
int cgroups_mount(const char *named, char **out, char *err, size_t errlen);

/*
 * cgroups_open - @root: of cgroups_mount; copied. @rules stay the caller's and must live until
 * cgroups_rules names others, or the end. Looks once before it returns. -errno and one line in
 * @err. cgroups_close - reports nothing.
 */
int cgroups_open(sd_event *e, const char *root, const struct rules *rules,
		 const struct cgroups_ops *ops, void *arg, struct cgroups **out, char *err,
		 size_t errlen);
void cgroups_close(struct cgroups *c);

/* cgroups_rules - follow @rules from now on: what no longer matches is reported as removed, then
 * what matches now as added; what stays with its tenant is not reported. */
void cgroups_rules(struct cgroups *c, const struct rules *rules);

/* cgroups_scan - look now. */
void cgroups_scan(struct cgroups *c);

#endif
