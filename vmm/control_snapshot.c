// SPDX-License-Identifier: GPL-2.0-or-later
/* vm-save and vm-restore. Control thread. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "service/request.h"
#include "vmm/control.h"
#include "vmm/snapshot/snapshot.h"

/* The snapshot directory, and *file: the field "file" as a path below it. Returns a descriptor. */
static int get_file(const struct control *c, const json_t *req, const char **file, char *err,
		    size_t errlen)
{
	const char *dir = c->snapshot_dir;
	size_t n = dir ? strlen(dir) : 0;
	int fd, ret = request_string(req, "file", true, SNAPSHOT_PATH_MAX, file, err, errlen);

	if (ret)
		return ret;
	if (!dir)
		return fail(-EPERM, err, errlen,
			    "file: this server has no directory for snapshots, so it neither "
			    "writes nor reads any; start it with --snapshot-dir DIR");
	if (**file == '/') {
		while (n && dir[n - 1] == '/')
			n--;
		if (strncmp(*file, dir, n) || (*file)[n] != '/')
			return fail(-EPERM, err, errlen,
				    "file: \"%.160s\" is invalid; expected a name of a file in "
				    "%.160s, the server's --snapshot-dir",
				    *file, dir);
		*file += n + 1;
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? fail(-errno, err, errlen, "%.300s: %s", dir, strerror(errno)) : fd;
}

int control_vm_save(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "file", NULL};
	const char *file = NULL;
	struct control *c = arg;
	struct machine_vm *vm;
	int dir, ret = control_named_vm(c, req, fields, true, &vm, err, errlen);

	if (ret)
		return ret;
	dir = get_file(c, req, &file, err, errlen);
	if (dir < 0)
		return dir;
	ret = snapshot_save(vm, dir, file, err, errlen);
	close(dir);
	if (!ret && json_object_set_new(resp, "saved", json_true()))
		ret = fail(-ENOMEM, err, errlen, "vm-save: out of memory");
	return ret;
}

/* Field "trust": a boolean, or "yes" or "no", which `vpmu vm restore FILE trust=yes` sends. */
static int get_trust(const json_t *req, bool *trust, char *err, size_t errlen)
{
	const char *text = json_string_value(json_object_get(req, "trust"));

	if (!text)
		return request_bool(req, "trust", false, trust, err, errlen);
	*trust = !strcmp(text, "yes");
	if (*trust || !strcmp(text, "no"))
		return 0;
	return fail(-EINVAL, err, errlen, "trust: \"%.80s\" is invalid; expected yes or no", text);
}

/* Convert a number, which may also be given as a string, to text in @buf. */
static int get_number(const json_t *req, const char *key, char buf[24], const char **text,
		      char *err, size_t errlen)
{
	const json_t *v = json_object_get(req, key);

	if (!json_is_integer(v))
		return request_string(req, key, false, 23, text, err, errlen);
	snprintf(buf, 24, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
	*text = buf;
	return 0;
}

#define NUMBERS 4

static int control_snapshot_get_said(const json_t *req, struct snapshot_said *s,
				     char numbers[NUMBERS][24], char *err, size_t errlen)
{
	const struct {
		const char *key, **value;
		size_t max;
	} texts[] = {
		{"name", &s->name, VM_NAME_MAX}, {"tenant", &s->tenant, VM_TENANT_MAX},
		{"policy", &s->policy, 32},	 {"memory", &s->memory, 32},
		{"allow", &s->allow, 4095},	 {"deny", &s->deny, 4095},
		{"engine", &s->engine, 32},
	};
	const struct {
		const char *key, **value;
	} given[NUMBERS] = {
		{"weight", &s->weight},
		{"tenant_weight", &s->tenant_weight},
		{"max_events", &s->max_events},
		{"tenant_max_events", &s->tenant_max_events},
	};
	int ret = get_trust(req, &s->trust, err, errlen);

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && !ret; i++)
		ret = request_string(req, texts[i].key, false, texts[i].max, texts[i].value, err,
				     errlen);
	for (size_t i = 0; i < NUMBERS && !ret; i++)
		ret = get_number(req, given[i].key, numbers[i], given[i].value, err, errlen);
	return ret;
}

static int restore(struct control *c, const json_t *req, const struct snapshot_said *said,
		   struct machine_vm **vm, char *err, size_t errlen)
{
	const char *file;
	char why[200];
	int fd, ret, dir = get_file(c, req, &file, err, errlen);

	if (dir < 0)
		return dir;
	fd = snapshot_open(dir, file, why, sizeof(why));
	close(dir);
	if (fd < 0)
		return fail(fd, err, errlen, "%.250s: %s", file, why);
	ret = snapshot_restore(c->machine, fd, file, said, vm, err, errlen);
	close(fd);
	return ret;
}

int control_vm_restore(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {
		"file",	  "name",  "tenant", "policy",	      "memory",	    "allow",
		"deny",	  "trust", "weight", "tenant_weight", "max_events", "tenant_max_events",
		"engine", NULL};
	struct snapshot_said said = {.name = NULL};
	char numbers[NUMBERS][24];
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = control_snapshot_get_said(req, &said, numbers, err, errlen);
	if (!ret)
		ret = restore(c, req, &said, &vm, err, errlen);
	return ret ? ret : control_vm_added(c, vm, resp, err, errlen);
}
