// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile vpmud.conf files, and names of VMs and cgroups for their rules. A file is refused with
 * one printable line, or its rules make only paths that are tenants' paths.
 */
#include "tests/fuzz/fuzz.h"
#include "vpmud/config.h"

/* @name as a VM's name, its metadata, its cgroup. */
static void apply(const struct rules *r, const char *name)
{
	char path[TENANT_PATH_MAX + 1], err[512] = "";
	const struct rule *refused;

	for (int i = 0; i < 4; i++) {
		const struct rules_vm vm = {i % 2 ? "" : name, i == 1 ? name : NULL,
					    i == 3 ? name : NULL, i == 0, 0};

		if (rules_vm(r, &vm, path, &refused, err, sizeof(err)))
			fuzz_require(tenant_path_ok(path, NULL, 0));
		fuzz_require(!refused || (!vm.libvirt && refused->vm.nr));
		fuzz_clean_line(err, false);
	}
	if (rules_cgroup(r, name, path, err, sizeof(err)))
		fuzz_require(tenant_path_ok(path, NULL, 0));
	fuzz_clean_line(err, false);
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
	fuzz_require(!ret == !*err);
	fuzz_clean_line(err, false);
	fuzz_require(!c.pin_dir || *c.pin_dir == '/' || !strcmp(c.pin_dir, "none"));
	for (size_t i = 0; !ret && i < c.rules.nr; i++)
		for (size_t k = 0; k < c.rules.rule[i].cgroup.nr; k++)
			fuzz_require(cgroup_pattern_ok(c.rules.rule[i].cgroup.text[k]));
	if (!ret)
		apply(&c.rules, name);
	vpmud_config_fini(&c);
	free(name);
	return 0;
}
