/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmud.conf: one section [vpmud] and a section [tenant PATH] for each tenant (vpmud.conf(5)). A
 * message is one line: file and line, what is wrong, what is accepted. One thread at a time may use
 * an object.
 */
#ifndef VPMUD_CONFIG_H
#define VPMUD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmud/rules.h"

#define VPMUD_READERS_USUAL "vpmu-exporter"	   /* reader_group, if there is such a group */
#define VPMUD_CONF	    "/etc/vpmu/vpmud.conf" /* when no file is named; it may be missing */

struct vpmud_config {
	char *socket;			  /* NULL: the usual one */
	char *pin_dir;			  /* in a bpffs; "none"; NULL: the usual one */
	char *cgroup_root;		  /* where cgroup2 is mounted; NULL: the usual places */
	char *admin_group, *reader_group; /* service/access.h; may be NULL */
	char *libvirt;		     /* URIs, separated by blanks; "none": libvirt is not asked */
	bool isolated;		     /* count on isolated and nohz_full CPUs as on others */
	unsigned int leave_counters; /* general hardware counters of each CPU for others */
	unsigned int counters;	     /* how many a CPU has; 0: as the platform says */
	uint32_t given;		     /* keys of [vpmud] that were set */
	struct rules rules;
};

/* vpmud_config_init - the defaults. -ENOMEM. vpmud_config_fini - free what *c holds; for zeroes as
 * well. */
int vpmud_config_init(struct vpmud_config *c);
void vpmud_config_fini(struct vpmud_config *c);

/* vpmud_config_file - read @path into *c. vpmud_config_text - the @len bytes at @text, which
 * messages call @name. -EINVAL: not accepted. One line to @err. */
int vpmud_config_file(struct vpmud_config *c, const char *path, char *err, size_t errlen);
int vpmud_config_text(struct vpmud_config *c, const char *name, const char *text, size_t len,
		      char *err, size_t errlen);

/* vpmud_config_fixed - the first key of [vpmud] in which @b differs from @a, which a reload cannot
 * change; NULL: none. */
const char *vpmud_config_fixed(const struct vpmud_config *a, const struct vpmud_config *b);

#endif
