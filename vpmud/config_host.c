// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The values of vpmud.conf that depend on this host: groups, pin_dir and cgroup_root; see config.h.
 * --check-config, the start and a reload call this, so that none of them accepts what another one
 * refuses. It changes nothing.
 */
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cgroup/fs/cgroupfs.h"
#include "service/access.h"
#include "service/program/memory.h"
#include "vpmud/config.h"
#include "vpmu/util/fail.h"

/* The file system of @path, which is this directory, or one that is to be made in an existing one.
 * *type: 0 if this user may not see it. Returns 0 or -errno. */
static int file_system(const char *path, unsigned long *type)
{
	char *copy = xstrdup(path), *slash;
	struct statfs fs;
	int ret = statfs(copy, &fs) ? -errno : 0;

	*type = 0;
	for (slash = strrchr(copy, '/'); slash > copy && !slash[1]; slash = strrchr(copy, '/'))
		*slash = '\0'; /* "dir/" is "dir" */
	if (ret == -ENOENT && slash) {
		slash[slash == copy] = '\0';
		ret = statfs(copy, &fs) ? -errno : 0;
	}
	free(copy);
	if (!ret)
		*type = (unsigned long)fs.f_type;
	return ret == -EACCES || ret == -EPERM ? 0 : ret;
}

static int check_directory(const char *at, const char *key, const char *value, unsigned long magic,
			   const char *expected, char *err, size_t errlen)
{
	unsigned long type;
	int ret;

	if (!at || !strcmp(value, "none"))
		return 0;
	ret = file_system(value, &type);
	if (!ret && (!type || type == magic))
		return 0;
	return fail(-EINVAL, err, errlen, "%s: vpmud/%s: \"%.200s\" is invalid; expected %s%s%s%s",
		    at, key, value, expected, ret ? " (" : "", ret ? strerror(-ret) : "",
		    ret ? ")" : "");
}

static int check_groups(const struct vpmud_config *c, char *err, size_t errlen)
{
	char admins[4300], readers[4300];
	struct access_rules access = {0};
	int ret;

	snprintf(admins, sizeof(admins), "%s: vpmud/admin_group", c->at_admin_group);
	snprintf(readers, sizeof(readers), "%s: vpmud/reader_group", c->at_reader_group);
	ret = access_parse(&access, (struct access_list){admins, c->admin_group},
			   (struct access_list){readers, c->reader_group}, err, errlen);
	access_fini(&access);
	return ret ? -EINVAL : 0;
}

int vpmud_config_host(const struct vpmud_config *c, char *err, size_t errlen)
{
	int ret = check_groups(c, err, errlen);

	if (!ret)
		ret = check_directory(c->at_pin_dir, "pin_dir", c->pin_dir, BPF_FS_MAGIC,
				      "the path of a directory in a BPF file system (mount -t bpf "
				      "bpf /sys/fs/bpf), or none",
				      err, errlen);
	if (!ret)
		ret = check_directory(c->at_cgroup_root, "cgroup_root", c->cgroup_root,
				      CGROUP2_SUPER_MAGIC, "the path where cgroup2 is mounted", err,
				      errlen);
	return ret;
}

int vpmud_config_mount(const char *named, char **out, char *err, size_t errlen)
{
	char *root = named ? realpath(named, NULL) : cgroupfs_mount("/proc/self/mounts");
	int ret = root ? 0 : -errno;

	*out = root;
	if (root)
		return 0;
	return named ? fail(ret, err, errlen,
			    "cgroup_root: %s: %s; expected the directory where cgroup2 is mounted",
			    named, strerror(-ret))
		     : fail(-ENOENT, err, errlen,
			    "cgroup_root: no cgroup2 is mounted here; mount one, or name its "
			    "directory");
}

int vpmud_config_read(struct vpmud_config *c, const char *path, char *err, size_t errlen)
{
	int ret;

	vpmud_config_init(c);
	if (!path && access(VPMUD_CONF, F_OK) && errno == ENOENT)
		return 0;
	ret = vpmud_config_file(c, path ? path : VPMUD_CONF, err, errlen);
	return ret ? ret : vpmud_config_host(c, err, errlen);
}
