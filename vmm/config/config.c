// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The keys of the host and of a VM: one table each, which files, options, requests and snapshots
 * use. The text of what a key accepts is in the table, too, so that every message can name it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "vpmu/util/fail.h"
#include "cgroup/tenant/tenant.h"
#include "vmm/config/config.h"
#include "vmm/config/keys.h"
#include "vmm/engine/ram.h"

/* One key. set() parses @value and stores it at @field, which is @offset bytes into the object.
 * -EINVAL: the value is not accepted. @why is empty on entry; set() may write a reason to it that
 * is more specific than @accepted. */
struct key {
	const char *name;
	int (*set)(const struct key *k, void *field, const char *value, char why[160]);
	size_t offset;
	uint64_t min, max;
	const char *accepted;
};

/* ---- values ---- */

/* Decimal digits only: no sign, no blanks, no 0x. */
static int parse_u64(const char *s, uint64_t *v)
{
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	*v = strtoull(s, &end, 10);
	return errno || *end ? -EINVAL : 0;
}

static int set_u64(const struct key *k, void *field, const char *value, char why[160])
{
	uint64_t v;

	if (parse_u64(value, &v) || v < k->min || v > k->max)
		return -EINVAL;
	*(uint64_t *)field = v;
	return 0;
}

static int set_uint(const struct key *k, void *field, const char *value, char why[160])
{
	uint64_t v;

	if (set_u64(k, &v, value, why))
		return -EINVAL;
	*(unsigned int *)field = (unsigned int)v;
	return 0;
}

static int set_bool(const struct key *k, void *field, const char *value, char why[160])
{
	static const char *const yes[] = {"yes", "on", "true", "1"};
	static const char *const no[] = {"no", "off", "false", "0"};

	for (size_t i = 0; i < 4; i++) {
		if (!strcmp(value, yes[i]) || !strcmp(value, no[i])) {
			*(bool *)field = !strcmp(value, yes[i]);
			return 0;
		}
	}
	return -EINVAL;
}

static int set_text(const struct key *k, void *field, const char *value, char why[160])
{
	size_t len = strlen(value);
	char *copy;

	if (len < k->min || len > k->max)
		return -EINVAL;
	copy = strdup(value);
	if (!copy)
		return -ENOMEM;
	free(*(char **)field);
	*(char **)field = copy;
	return 0;
}

static int set_memory(const struct key *k, void *field, const char *value, char why[160])
{
	size_t len = strlen(value);
	char digits[24];
	unsigned int shift = 0;
	uint64_t v;

	if (!len || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, value, len + 1);
	switch (digits[len - 1]) {
	case 'K':
	case 'k':
		shift = 10;
		break;
	case 'M':
	case 'm':
		shift = 20;
		break;
	case 'G':
	case 'g':
		shift = 30;
		break;
	}
	if (shift)
		digits[len - 1] = 0;
	if (parse_u64(digits, &v) || v > k->max >> shift)
		return -EINVAL;
	v <<= shift;
	if (v < k->min || v % VMM_RAM_ALIGN)
		return -EINVAL;
	*(uint64_t *)field = v;
	return 0;
}

static int set_name(const struct key *k, void *field, const char *value, char why[160])
{
	if (!vm_name_ok(value))
		return -EINVAL;
	strcpy(field, value);
	return 0;
}

static int set_tenant(const struct key *k, void *field, const char *value, char why[160])
{
	if (strlen(value) > VM_TENANT_MAX || !tenant_path_ok(value, why, 160))
		return -EINVAL;
	strcpy(field, value);
	return 0;
}

static int set_model(const struct key *k, void *field, const char *value, char why[160])
{
	return vpmu_guest_model_parse(value, field);
}

static int set_policy(const struct key *k, void *field, const char *value, char why[160])
{
	return vpmu_policy_tier_parse(value, field);
}

/* @field is the whole struct vm_config, because this sets two fields: the setting that was asked
 * for, and the one for the register model. */
static int set_vm_lbr(const struct key *k, void *field, const char *value, char why[160])
{
	struct vm_config *vm = field;
	bool on;

	if (set_bool(k, &on, value, why))
		return -EINVAL;
	vm->lbr = on ? VM_LBR_ON : VM_LBR_OFF;
	vm->pmu.no_lbr = !on;
	return 0;
}

static int set_host_lbr(const struct key *k, void *field, const char *value, char why[160])
{
	for (enum host_lbr m = HOST_LBR_OFF; m <= HOST_LBR_CALL_STACK; m++) {
		if (!strcmp(value, host_lbr_name(m))) {
			*(enum host_lbr *)field = m;
			return 0;
		}
	}
	return -EINVAL;
}

static int set_engine(const struct key *k, void *field, const char *value, char why[160])
{
	for (enum vm_engine e = VM_ENGINE_AUTO; e <= VM_ENGINE_KVM; e++) {
		if (!strcmp(value, vm_engine_name(e))) {
			*(enum vm_engine *)field = e;
			return 0;
		}
	}
	return -EINVAL;
}

/* @field is the whole struct host_config, because "random:N" sets two fields. */
static int set_migrate(const struct key *k, void *field, const char *value, char why[160])
{
	struct host_config *h = field;
	uint64_t every;

	if (!strcmp(value, "balance")) {
		h->migrate = RUNNER_MIGRATE_BALANCE;
	} else if (!strcmp(value, "none")) {
		h->migrate = RUNNER_MIGRATE_NONE;
	} else if (!strcmp(value, "random")) {
		h->migrate = RUNNER_MIGRATE_RANDOM;
	} else if (!strncmp(value, "random:", 7)) {
		if (parse_u64(value + 7, &every) || every < k->min || every > k->max)
			return -EINVAL;
		h->migrate = RUNNER_MIGRATE_RANDOM;
		h->migrate_every = (unsigned int)every;
	} else {
		return -EINVAL;
	}
	return 0;
}

/* ---- keys ---- */

#define H(field)   offsetof(struct host_config, field)
#define V(field)   offsetof(struct vm_config, field)
#define SOCKET_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static const struct key host_keys[] = {
	{"pcpus", set_uint, H(pcpus), 1, RUNNER_PCPUS_MAX, "1 to 64"},
	{"gp", set_uint, H(gp), 0, 16, "0 to 16"},
	{"fixed", set_uint, H(fixed), 0, 3, "0 to 3"},
	{"width", set_uint, H(width), 40, 63, "40 to 63"},
	{"slice", set_u64, H(slice_insns), 1, RUNNER_SLICE_MAX, "1 to 10000000 instructions"},
	{"random_slices", set_bool, H(random_slices), 0, 0, "yes or no"},
	{"seed", set_u64, H(seed), 0, UINT64_MAX, "0 to 18446744073709551615"},
	{"migrate", set_migrate, 0, 1, 1000000,
	 "none, balance, random or random:N, N 1 to 1000000"},
	{"tick_us", set_uint, H(tick_us), 1, 1000000, "1 to 1000000 microseconds"},
	{"nominal_cycles", set_bool, H(nominal_cycles), 0, 0, "yes or no"},
	{"lbr", set_host_lbr, H(lbr), 0, 0, "off, branches or call-stack"},
	{"socket", set_text, H(socket), 1, SOCKET_MAX, "a path of 1 to 107 bytes"},
	{"cgroup_root", set_text, H(cgroup_root), 1, 4095, "a path of 1 to 4095 bytes"},
};

static const struct key vm_keys[] = {
	{"name", set_name, V(name), 0, 0, VM_NAME_ACCEPTED},
	{"tenant", set_tenant, V(tenant), 0, 0, "a path such as /acme/web"},
	{"vcpus", set_uint, V(vcpus), 1, VM_VCPUS_MAX, "1 to 64"},
	{"memory", set_memory, V(memory_bytes), VMM_RAM_MIN, VMM_RAM_MAX,
	 "4M to 64G in steps of 2M"},
	{"image", set_text, V(image), 1, 4095, "a path of 1 to 4095 bytes"},
	{"args", set_text, V(args), 0, 4095, "at most 4095 bytes"},
	{"pmu", set_model, V(pmu.model), 0, 0,
	 "none, intel-v2, intel-v3, intel-v4, intel-v5, amd-k7, amd-core or amd-v2"},
	{"gp", set_uint, V(pmu.gp), 1, VPMU_GUEST_MAX_GP, "1 to 8 (Intel) or 4 to 15 (AMD)"},
	{"fixed", set_uint, V(pmu.fixed), 1, VPMU_GUEST_MAX_FIXED, "1 to 4 (Intel only)"},
	{"engine", set_engine, V(engine), 0, 0, "auto, soft or kvm"},
	{"policy", set_policy, V(policy), 0, 0, "full, standard, architectural or off"},
	{"allow", set_text, V(allow), 1, 4095, "a list of events of 1 to 4095 bytes"},
	{"deny", set_text, V(deny), 1, 4095, "a list of events of 1 to 4095 bytes"},
	{"lbr", set_vm_lbr, 0, 0, 0, "on or off"},
};

#define NR(keys) (sizeof(keys) / sizeof((keys)[0]))

/* List all names of a table, for the message "no such key". */
static const char *key_names(const struct key *keys, size_t nr, char buf[160])
{
	size_t len = 0;

	for (size_t i = 0; i < nr; i++)
		len += (size_t)snprintf(buf + len, len < 160 ? 160 - len : 0, "%s%s", i ? ", " : "",
					keys[i].name);
	return buf;
}

static int set_key(const struct key *keys, size_t nr, void *obj, uint32_t *given,
		   const struct config_at *at, const char *name, const char *value)
{
	char why[160] = "";
	int ret;

	for (size_t i = 0; i < nr; i++) {
		const struct key *k = &keys[i];

		if (strcmp(k->name, name))
			continue;
		if (*given & 1u << i)
			return fail(-EINVAL, at->err, at->errlen,
				    "%s: %s/%s: given twice, accepted: once", at->where,
				    at->section, name);
		ret = k->set(k, (char *)obj + k->offset, value, why);
		if (ret == -ENOMEM)
			return fail(ret, at->err, at->errlen, "%s: out of memory", at->where);
		if (ret)
			return fail(-EINVAL, at->err, at->errlen,
				    "%s: %s/%s: \"%.80s\" given, accepted: %s%s%s%s", at->where,
				    at->section, name, value, k->accepted, *why ? " (" : "", why,
				    *why ? ")" : "");
		*given |= 1u << i;
		return 0;
	}
	return fail(-EINVAL, at->err, at->errlen, "%s: %s/%.80s: no such key, accepted: %s",
		    at->where, at->section, name, key_names(keys, nr, why));
}

int config_set_host(struct host_config *h, uint32_t *given, const struct config_at *at,
		    const char *key, const char *value)
{
	return set_key(host_keys, NR(host_keys), h, given, at, key, value);
}

int config_set_vm(struct vm_config *vm, const struct config_at *at, const char *key,
		  const char *value)
{
	return set_key(vm_keys, NR(vm_keys), vm, &vm->given, at, key, value);
}

/* ---- names ---- */

bool vm_name_ok(const char *name)
{
	return strlen(name) <= VM_NAME_MAX && tenant_vm_name_ok(name, NULL, 0);
}

const char *vm_engine_name(enum vm_engine e)
{
	static const char *const names[] = {"auto", "soft", "kvm"};

	return names[e];
}

const char *host_lbr_name(enum host_lbr m)
{
	static const char *const names[] = {"off", "branches", "call-stack"};

	return names[m];
}

/* ---- all of it ---- */

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
			},
	};
}

void config_fini(struct config *c)
{
	for (size_t i = 0; i < c->nr_vms; i++)
		vm_config_fini(&c->vms[i]);
	free(c->vms);
	free(c->host.socket);
	free(c->host.cgroup_root);
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
				   "--vm: \"%.80s\" given, accepted: key=value,key=value,... "
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
		return fail(
			-EINVAL, err, errlen,
			"host/gp: 0 given with host/fixed = 0, accepted: at least one counter in "
			"all");
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
			ret = fail(
				-EINVAL, err, errlen,
				"%s: vm %s: a VM of that name is at %s too, accepted: a name that "
				"no other VM has",
				sorted[i]->where, sorted[i]->name, sorted[i - 1]->where);
	free(sorted);
	return ret;
}
