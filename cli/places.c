// SPDX-License-Identifier: GPL-2.0-or-later
/* Targets by process and cgroup; see places.h. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/fs/cgroupfs.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/places.h"
#include "service/program/memory.h"
#include "vpmu/util/proctext.h"

bool places_cgroup(const char *pid, char *path, size_t len)
{
	char text[2 * PATH_MAX], *found;

	proctext_read(text, sizeof(text), "/proc/%.20s/cgroup", pid);
	found = proctext_field(text, "0::");
	return found && *found == '/' && (size_t)snprintf(path, len, "%s", found) < len;
}

/* Return the process of the thread @text; 0: there is none. */
static long places_process(const char *text)
{
	char status[4096], *field;

	proctext_read(status, sizeof(status), "/proc/%.20s/status", text);
	field = proctext_field(status, "Tgid:");
	return field ? strtol(field, NULL, 10) : 0;
}

/* Return the name of the VM whose process is @pid; NULL: none. */
static char *places_vm(struct client *c, long pid)
{
	const json_t *row;
	char *name = NULL;
	json_t *list = client_silent(c, "list");
	size_t i;

	json_array_foreach (json_object_get(list, "nodes"), i, row) {
		const char *vm = json_string_value(json_object_get(row, "vm"));

		if (vm && json_integer_value(json_object_get(row, "pid")) == pid) {
			name = xstrdup(vm);
			break;
		}
	}
	json_decref(list);
	return name;
}

/* Return the tenant of the cgroup @path; *@whole: the cgroup itself is named by its rule. NULL:
 * none, or the server has none by cgroup; *@err is set if it reported that. */
static char *places_tenant(struct client *c, const char *path, bool *whole, char **err)
{
	json_t *answer =
		client_try(c, json_pack("{s:s, s:s}", "cmd", "cgroup-find", "cgroup", path), err);
	const char *tenant = json_string_value(json_object_get(answer, "tenant"));
	const char *cgroup = json_string_value(json_object_get(answer, "cgroup"));
	char *name = tenant && strcmp(tenant, "/host") ? xstrdup(tenant) : NULL;

	*whole = cgroup && !strcmp(cgroup, path);
	json_decref(answer);
	return name;
}

static char *places_of_process(struct client *c, const char *text)
{
	char path[PATH_MAX], *name, *err = NULL;
	long pid;
	bool whole;

	if (!*text || text[strspn(text, "0123456789")] || strlen(text) > 9)
		cli_usage("-p \"%s\": give the number of a process", text);
	pid = places_process(text);
	if (!pid || !places_cgroup(text, path, sizeof(path))) {
		cli_error("-p %s: no such process", text);
		return NULL;
	}
	name = places_vm(c, pid);
	if (name)
		return name;
	name = places_tenant(c, path, &whole, &err);
	if (name)
		cli_error("-p %s: counting its tenant %s, with all that runs in it", text, name);
	else if (err)
		cli_error("-p %s: no VM of this server is this process, and it knows no "
			  "cgroups: %s",
			  text, err);
	else
		cli_error("-p %s: its cgroup %s is in no tenant; add it to one in vpmud.conf, "
			  "or give -t /host",
			  text, path);
	free(err);
	return name;
}

static char *places_of_cgroup(struct client *c, const char *text)
{
	char *mount = cgroupfs_mount("/proc/self/mounts"), path[PATH_MAX], *name, *err = NULL;
	size_t n = mount ? strlen(mount) : 0;
	bool whole;

	/* As for perf, a path below the mount; or the whole path. */
	if (n && !strncmp(text, mount, n) && text[n] == '/')
		text += n;
	free(mount);
	snprintf(path, sizeof(path), "%s%s", *text == '/' ? "" : "/", text);
	n = strlen(path);
	if (n > 1 && path[n - 1] == '/')
		path[n - 1] = '\0';
	if (!strcmp(path, "/"))
		return xstrdup("/");
	name = places_tenant(c, path, &whole, &err);
	if (name && whole)
		return name;
	if (name)
		cli_error("-G %s: it is part of the tenant %s; give -t %s, or make it a tenant "
			  "in vpmud.conf",
			  path, name, name);
	else if (err)
		cli_error("-G %s: %s", path, err);
	else
		cli_error("-G %s: it is in no tenant; add it to one in vpmud.conf", path);
	free(name);
	free(err);
	return NULL;
}

char *places_target(struct client *c, enum target_kind kind, const char *text)
{
	switch (kind) {
	case TARGET_PID:
		return places_of_process(c, text);
	case TARGET_CGROUP:
		return places_of_cgroup(c, text);
	default:
		return xstrdup(text);
	}
}
