// SPDX-License-Identifier: GPL-2.0-or-later
/* The sections of vpmu-vmm's ini files: [host] once, and [vm NAME] for each VM. The files are read
 * by service/daemon/inifile.c. An incomplete VM is an error. */
#include <errno.h>
#include <string.h>

#include "vmm/config/keys.h"
#include "vpmu/util/fail.h"

struct file {
	struct config *config;
	bool host_seen;
	bool in_vm; /* the last VM of the configuration belongs to the current section */
};

static int file_begin(void *arg, const struct config_at *at)
{
	struct file *f = arg;
	struct vm_config *vm;

	f->in_vm = strcmp(at->section, "host") != 0;
	if (!f->in_vm) {
		if (f->host_seen)
			return fail(-EINVAL, at->err, at->errlen,
				    "%s: [host] given twice; expected once", at->where);
		f->host_seen = true;
		return 0;
	}
	if (strncmp(at->section, "vm ", 3))
		return CONFIG_NO_SECTION;
	vm = config_add_vm(f->config, at);
	return vm ? config_set_vm(vm, at, "name", at->section + 3) : -ENOMEM;
}

static int file_set(void *arg, const struct config_at *at, const char *key, const char *value)
{
	struct file *f = arg;
	struct config *c = f->config;

	if (!f->in_vm)
		return config_set_host(&c->host, &c->host.given, at, key, value);
	if (!strcmp(key, "name"))
		return fail(
			-EINVAL, at->err, at->errlen,
			"%s: %s/name: \"%.80s\" is invalid; expected the name in [vm NAME] only",
			at->where, at->section, value);
	return config_set_vm(&c->vms[c->nr_vms - 1], at, key, value);
}

static int file_end(void *arg, const struct config_at *at)
{
	const struct file *f = arg;
	const struct config *c = f->config;

	return f->in_vm ? vm_config_check(&c->vms[c->nr_vms - 1], at->err, at->errlen) : 0;
}

static const struct config_sections sections = {"[host] or [vm NAME]", file_begin, file_set,
						file_end};

int config_text(struct config *c, const char *name, const char *text, size_t len, char *err,
		size_t errlen)
{
	struct file f = {.config = c};

	return config_read_text(&sections, &f, name, text, len, err, errlen);
}

int config_file(struct config *c, const char *path, char *err, size_t errlen)
{
	struct file f = {.config = c};

	return config_read_file(&sections, &f, path, err, errlen);
}
