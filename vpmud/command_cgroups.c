// SPDX-License-Identifier: GPL-2.0-or-later
/* Cgroups that clients name; see command_cgroups.h. The paths are untrusted. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "service/request.h"
#include "vpmud/command_cgroups.h"
#include "vpmu/util/fail.h"

static bool command_cgroup_exists(const char *root, const char *path)
{
	char dir[2 * PATH_MAX];
	struct stat st;

	snprintf(dir, sizeof(dir), "%s%s", root, path);
	return stat(dir, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Get the path of the request. */
static int command_cgroup_path(const char *root, const json_t *req, const char **path, char *err,
			       size_t errlen)
{
	static const char *const fields[] = {"cgroup", NULL};
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "cgroup", true, PATH_MAX - 1, path, err, errlen);
	if (ret)
		return ret;
	/* No walk out of @root. "/" itself is every task's. */
	if (strcmp(*path, "/") && !cgroup_pattern_ok(*path))
		return fail(-EINVAL, err, errlen,
			    "cgroup: \"%.200s\" is invalid; expected a path below the cgroup2 "
			    "mount, such as /acme.slice",
			    *path);
	if (!command_cgroup_exists(root, *path))
		return fail(-ENOENT, err, errlen, "cgroup: no \"%.200s\" in %.200s", *path, root);
	return 0;
}

int command_cgroup_find(const struct rules *r, const char *root, const json_t *req, json_t *resp,
			char *err, size_t errlen)
{
	char tenant[TENANT_PATH_MAX + 1];
	const char *path = NULL;
	size_t len;
	int ret = command_cgroup_path(root, req, &path, err, errlen);

	if (ret)
		return ret;
	if (!rules_find(r, path, tenant, &len)) {
		strcpy(tenant, "/host");
		len = 0;
	}
	json_object_set_new(resp, "tenant", json_string(tenant));
	json_object_set_new(resp, "cgroup", json_stringn(path, len));
	return 0;
}

int command_cgroup_add(struct rules *r, const char *root, const json_t *req, char *err,
		       size_t errlen)
{
	const char *path = NULL;
	int ret = command_cgroup_path(root, req, &path, err, errlen);

	if (ret)
		return ret;
	if (!path[1] || strpbrk(path, "*?["))
		return fail(-EINVAL, err, errlen,
			    "cgroup: \"%.200s\" is invalid; expected a path without *, ? and [",
			    path);
	if (patterns_add(&r->commands, path))
		return fail(-E2BIG, err, errlen, "cgroup: %d commands are counted already",
			    RULES_PATTERNS_MAX);
	return 0;
}

void command_cgroups_tend(struct rules *r, const char *root)
{
	for (size_t i = r->commands.nr; i-- > 0;)
		if (!command_cgroup_exists(root, r->commands.text[i]))
			patterns_remove(&r->commands, i);
}
