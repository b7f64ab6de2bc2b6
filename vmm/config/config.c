// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The configuration as a whole: the host, and VMs from files and options.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/config/config.h"
#include "vmm/config/keys.h"

void config_init(struct config *c)
{
	*c = (struct config){
		.host =
			{
				.pcpus = 2,
				.gp = 4,
				.fixed = 3,
				.width = 48,
				.slice_insns = 100000,
				.seed = 1,
				.migrate_every = 16,
				.tick_us = 1000,
				.stalled_after = 10000,
				.leave_counters = 2,
				.console_rate = 1u << 20,
			},
	};
}

void config_fini(struct config *c)
{
	for (size_t i = 0; i < c->nr_vms; i++)
		vm_config_fini(&c->vms[i]);
	free(c->vms);
	free(c->host.socket);
	free(c->host.user);
	free(c->host.snapshot_dir);
	free(c->host.cgroup_root);
	free(c->host.admin_group);
	free(c->host.reader_group);
	free(c->host.at_admin_group);
	free(c->host.at_reader_group);
	*c = (struct config){0};
}

struct vm_config *config_add_vm(struct config *c, const struct config_at *at)
{
	struct vm_config *vms;

	if (c->nr_vms >= CONFIG_VMS_MAX) {
		fail(-E2BIG, at->err, at->errlen, "%s: more than %u VMs", at->where,
		     CONFIG_VMS_MAX);
		return NULL;
	}
	/* The array doubles whenever the number of VMs is a power of two. */
	if (!(c->nr_vms & (c->nr_vms - 1))) {
		vms = reallocarray(c->vms, c->nr_vms ? 2 * c->nr_vms : 1, sizeof(*vms));
		if (!vms)
			goto enomem;
		c->vms = vms;
	}
	if (vm_config_init(&c->vms[c->nr_vms], at->where))
		goto enomem;
	return &c->vms[c->nr_vms++];
enomem:
	fail(-ENOMEM, at->err, at->errlen, "%s: out of memory", at->where);
	return NULL;
}

int config_host_option(struct config *c, const char *where, const char *key, const char *value,
		       char *err, size_t errlen)
{
	struct config_at at = {where, "host", err, errlen};
	uint32_t given = 0; /* an option may set a key that the file has set */
	int ret;

	ret = config_set_host(&c->host, &given, &at, key, value);
	c->host.given |= given;
	return ret;
}

/* Cut the next "key=value" off *option, with each ",," replaced by ","; NULL at the end. */
static char *next_item(char **option)
{
	char *item = *option, *in = item, *out = item;

	if (!item)
		return NULL;
	for (; *in; in++) {
		if (*in == ',' && *++in != ',') {
			*out = 0;
			*option = in;
			return item;
		}
		*out++ = *in;
	}
	*out = 0;
	*option = NULL;
	return item;
}

int config_vm_option(struct config *c, const char *option, char *err, size_t errlen)
{
	struct config_at at = {"--vm", "vm", err, errlen};
	struct vm_config *vm = config_add_vm(c, &at);
	char *copy = strdup(option), *rest = copy, *item;
	int ret = 0;

	if (!vm || !copy) {
		ret = -ENOMEM;
		if (vm)
			fail(ret, err, errlen, "--vm: out of memory");
		goto out;
	}
	while (!ret && (item = next_item(&rest))) {
		char *eq = strchr(item, '=');

		if (!eq || eq == item) {
			ret = fail(-EINVAL, err, errlen,
				   "--vm: \"%.80s\" is invalid; expected key=value,key=value,... "
				   "(write a comma in a value as \",,\")",
				   item);
			break;
		}
		*eq = 0;
		ret = config_set_vm(vm, &at, item, eq + 1);
	}
	if (!ret)
		ret = vm_config_check(vm, err, errlen);
out:
	free(copy);
	return ret;
}

static int compare_names(const void *a, const void *b)
{
	const struct vm_config *const *va = a, *const *vb = b;

	return strcmp((*va)->name, (*vb)->name);
}

int config_check(const struct config *c, char *err, size_t errlen)
{
	const struct vm_config **sorted;
	int ret = 0;

	if (!c->host.gp && !c->host.fixed)
		return fail(-EINVAL, err, errlen,
			    "host/gp: 0 given with host/fixed = 0; expected at least one counter "
			    "in all");
	if (c->host.skip_idle && c->host.pcpus != 1)
		return fail(-EINVAL, err, errlen,
			    "host/skip_idle: yes given with host/pcpus = %u; expected yes with one "
			    "modelled pCPU",
			    c->host.pcpus);
	if (c->nr_vms < 2)
		return 0;
	sorted = calloc(c->nr_vms, sizeof(*sorted));
	if (!sorted)
		return fail(-ENOMEM, err, errlen, "out of memory");
	for (size_t i = 0; i < c->nr_vms; i++)
		sorted[i] = &c->vms[i];
	qsort(sorted, c->nr_vms, sizeof(*sorted), compare_names);
	for (size_t i = 1; i < c->nr_vms && !ret; i++)
		if (!strcmp(sorted[i - 1]->name, sorted[i]->name))
			ret = fail(-EINVAL, err, errlen,
				   "%s: vm %s: a VM of that name is at %s too; expected a name "
				   "that no other VM has",
				   sorted[i]->where, sorted[i]->name, sorted[i - 1]->where);
	free(sorted);
	return ret;
}
