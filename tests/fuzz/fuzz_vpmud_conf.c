// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile vpmud.conf files, and names of VMs and cgroups for their rules. A file is refused with
 * one printable line, or its rules make only paths that are tenants' paths.
 */
#include <stdlib.h>
#include <string.h>

#include "vpmud/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
	if (!ok)
		abort();
}

static void require_line(const char *err)
{
	for (const char *p = err; *p; p++)
		require((unsigned char)*p >= 0x20 && *p != 0x7f);
}

/* @name as a VM's name, its metadata, its cgroup. */
static void apply(const struct rules *r, const char *name)
{
	char path[TENANT_PATH_MAX + 1], err[512] = "";
	const struct rule *refused;

	for (int i = 0; i < 4; i++) {
		const struct rules_vm vm = {i % 2 ? "" : name, i == 1 ? name : NULL,
					    i == 3 ? name : NULL, i == 0, 0};

		if (rules_vm(r, &vm, path, &refused, err, sizeof(err)))
			require(tenant_path_ok(path, NULL, 0));
		require(!refused || (!vm.libvirt && refused->vm.nr));
		require_line(err);
	}
	if (rules_cgroup(r, name, path, err, sizeof(err)))
		require(tenant_path_ok(path, NULL, 0));
	require_line(err);
}

/* The first line is a name; the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *nl = memchr(data, '\n', size);
	size_t len = nl ? (size_t)(nl - data) : size;
	char *name = malloc(len + 1), err[512] = "";
	struct vpmud_config c;
	int ret;

	if (!name)
		return 0;
	vpmud_config_init(&c);
	memcpy(name, data, len);
	name[len] = '\0';
	len += nl != NULL;
	ret = vpmud_config_text(&c, "fuzz.conf", (const char *)data + len, size - len, err,
				sizeof(err));
	require(!ret == !*err);
	require_line(err);
	require(!c.pin_dir || *c.pin_dir == '/' || !strcmp(c.pin_dir, "none"));
	for (size_t i = 0; !ret && i < c.rules.nr; i++)
		for (size_t k = 0; k < c.rules.rule[i].cgroup.nr; k++)
			require(cgroup_pattern_ok(c.rules.rule[i].cgroup.text[k]));
	if (!ret)
		apply(&c.rules, name);
	vpmud_config_fini(&c);
	free(name);
	return 0;
}
