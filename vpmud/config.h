/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads vpmud.conf: one section [vpmud] and one [tenant PATH] per tenant (vpmud.conf(5)). An error
 * is one line: file and line, the error, and the expected value. An object may be used by one
 * thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpmud/rules.h"

#define VPMUD_READERS_USUAL "vpmu-exporter"	   /* default reader_group, if the group exists */
#define VPMUD_CONF	    "/etc/vpmu/vpmud.conf" /* default file; may be missing */

#define VPMUD_URIS_MAX 16 /* of libvirt */

struct vpmud_config {
	char *socket;			  /* NULL: the default */
	char *pin_dir;			  /* in a bpffs; "none": no pins; NULL: the default */
	char *cgroup_root;		  /* mount point of cgroup2; NULL: find it */
	char *admin_group, *reader_group; /* service/access.h; may be NULL */
	char *libvirt;		       /* URIs, separated by blanks; "none": libvirt is not used */
	char *guest_events;	       /* that VMMs may bind; "none"; NULL: no socket for VMMs */
	bool isolated;		       /* count on isolated and nohz_full CPUs as on others */
	unsigned int leave_counters;   /* general counters per CPU for other users of perf */
	unsigned int counters;	       /* general counters per CPU; 0: detect */
	unsigned int history;	       /* seconds that past counts are kept; 0: not at all */
	unsigned int history_interval; /* seconds between two of them */
	uint32_t given;		       /* keys of [vpmud] that were set */
	/* "FILE:LINE" of keys that config_host.c checks; NULL: not given */
	char *at_pin_dir, *at_cgroup_root, *at_admin_group, *at_reader_group;
	struct rules rules;
};

/* vpmud_config_init - set the defaults. vpmud_config_fini - free the members of *@c, which may be
 * zeroed. */
void vpmud_config_init(struct vpmud_config *c);
void vpmud_config_fini(struct vpmud_config *c);

/* vpmud_config_file - read @path into *@c. vpmud_config_text - parse @len bytes at @text; messages
 * use @name as the file name. Returns 0, or -errno (-EINVAL: invalid) and one line in @err. */
int vpmud_config_file(struct vpmud_config *c, const char *path, char *err, size_t errlen);
int vpmud_config_text(struct vpmud_config *c, const char *name, const char *text, size_t len,
		      char *err, size_t errlen);

/* vpmud_config_read - set the defaults, read @path (NULL: VPMUD_CONF, if it exists) and check the
 * values against this host. The caller frees *@c even on error. Returns as vpmud_config_file(). */
int vpmud_config_read(struct vpmud_config *c, const char *path, char *err, size_t errlen);

/* vpmud_config_host - check the values that depend on this host: groups, pin_dir, cgroup_root. What
 * this user cannot see passes. Returns as vpmud_config_file(). */
int vpmud_config_host(const struct vpmud_config *c, char *err, size_t errlen);

/* vpmud_config_mount - find the mount point of cgroup2: @named, or if NULL the first in
 * /proc/self/mounts. *@out is malloc'd. Returns 0, or -errno and one line in @err. */
int vpmud_config_mount(const char *named, char **out, char *err, size_t errlen);

/* vpmud_config_fixed - return the first key of [vpmud] that differs between @a and @b and that a
 * reload cannot change, or NULL. */
const char *vpmud_config_fixed(const struct vpmud_config *a, const struct vpmud_config *b);
