// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The keys of the host and of a VM: one table each, which files, options, requests and snapshots
 * use. The table also has a text for the values expected, so that every message can name them.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "vpmu/util/fail.h"
#include "service/tenant/tenant.h"
#include "vmm/boot/boot.h"
#include "vmm/config/config.h"
#include "vmm/config/keys.h"
#include "vmm/engine/ram.h"
#include "vpmu/quota.h"

/* ---- values ---- */

static int set_image(const struct config_key *k, void *field, const char *value, char *why)
{
	int ret = config_set_text(k, field, value, why);
	char *path;

	if (ret)
		return ret;
	path = image_find(value);
	if (!path)
		return -ENOMEM;
	free(*(char **)field);
	*(char **)field = path;
	return 0;
}

static int config_set_memory(const struct config_key *k, void *field, const char *value, char *why)
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
	if (config_parse_u64(digits, &v) || v > k->max >> shift)
		return -EINVAL;
	v <<= shift;
	if (v < k->min || v % VMM_RAM_ALIGN)
		return -EINVAL;
	*(uint64_t *)field = v;
	return 0;
}

static int config_set_name(const struct config_key *k, void *field, const char *value, char *why)
{
	if (!vm_name_ok(value))
		return -EINVAL;
	strcpy(field, value);
	return 0;
}

static int set_tenant(const struct config_key *k, void *field, const char *value, char *why)
{
	if (strlen(value) > VM_TENANT_MAX || !tenant_path_ok(value, why, CONFIG_WHY_MAX))
		return -EINVAL;
	strcpy(field, value);
	return 0;
}

static int set_model(const struct config_key *k, void *field, const char *value, char *why)
{
	return vpmu_guest_model_parse(value, field);
}

static int set_policy(const struct config_key *k, void *field, const char *value, char *why)
{
	return vpmu_policy_tier_parse(value, field);
}

/* @field is the whole struct vm_config, because this sets two fields: the setting itself, and the
 * one for the register model. */
static int set_vm_lbr(const struct config_key *k, void *field, const char *value, char *why)
{
	struct vm_config *vm = field;
	bool on;

	if (config_set_bool(k, &on, value, why))
		return -EINVAL;
	vm->lbr = on ? VM_LBR_ON : VM_LBR_OFF;
	vm->pmu.no_lbr = !on;
	return 0;
}

static int set_host_console(const struct config_key *k, void *field, const char *value, char *why)
{
	if (!strcmp(value, "stdout"))
		*(enum vm_console *)field = VM_CONSOLE_STDOUT;
	else if (!strcmp(value, "ring"))
		*(enum vm_console *)field = VM_CONSOLE_RING;
	else
		return -EINVAL;
	return 0;
}

/* @field is the whole struct vm_config, because a path is kept as well. */
static int set_vm_console(const struct config_key *k, void *field, const char *value, char *why)
{
	struct vm_config *vm = field;

	if (!set_host_console(k, &vm->console, value, why))
		return 0;
	if (!strchr(value, '/'))
		return -EINVAL;
	vm->console = VM_CONSOLE_FILE;
	return config_set_text(k, &vm->console_file, value, why);
}

/* Words of keys, in the order of their enums. */
static const char *const host_lbr_words[] = {"off", "branches", "call-stack"},
			 *const engine_words[] = {"auto", "emulator", "kvm"},
			 *const migrate_words[] = {"balance", "random", "none"};

static int set_word(const char *const *words, int nr, void *field, const char *value)
{
	for (int i = 0; i < nr; i++)
		if (!strcmp(value, words[i])) {
			*(int *)field = i;
			return 0;
		}
	return -EINVAL;
}

static int set_host_lbr(const struct config_key *k, void *field, const char *value, char *why)
{
	return set_word(host_lbr_words, 3, field, value);
}

/* @field is true for "off". */
static int set_rdpmc(const struct config_key *k, void *field, const char *value, char *why)
{
	*(bool *)field = !strcmp(value, "off");
	return *(bool *)field || !strcmp(value, "auto") ? 0 : -EINVAL;
}

static int set_engine(const struct config_key *k, void *field, const char *value, char *why)
{
	return set_word(engine_words, 3, field, value);
}

/* @field is the whole struct host_config, because "random:N" sets two fields. */
static int set_migrate(const struct config_key *k, void *field, const char *value, char *why)
{
	struct host_config *h = field;
	uint64_t every;

	if (strncmp(value, "random:", 7))
		return set_word(migrate_words, 3, &h->migrate, value);
	if (config_parse_u64(value + 7, &every) || every < k->min || every > k->max)
		return -EINVAL;
	h->migrate = RUNNER_MIGRATE_RANDOM;
	h->migrate_every = (unsigned int)every;
	return 0;
}

/* ---- keys ---- */

_Static_assert(MAX_EVENTS_MAX == VPMU_MAX_SLOTS - VPMU_SLOTS_OPERATORS, "what guests may have");
_Static_assert(TENANT_MAX_EVENTS + VM_MAX_EVENTS <= MAX_EVENTS_MAX,
	       "a tenant leaves room for a VM of another one");

#define H(field)   offsetof(struct host_config, field)
#define V(field)   offsetof(struct vm_config, field)
#define SOCKET_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static const struct config_key host_keys[] = {
	{"pcpus", config_set_uint, H(pcpus), 1, RUNNER_PCPUS_MAX, "1 to 64"},
	{"gp", config_set_uint, H(gp), 0, 16, "0 to 16"},
	{"fixed", config_set_uint, H(fixed), 0, 3, "0 to 3"},
	{"width", config_set_uint, H(width), 40, 63, "40 to 63"},
	{"slice", config_set_u64, H(slice_insns), 1, RUNNER_SLICE_MAX,
	 "1 to 10000000 instructions"},
	{"random_slices", config_set_bool, H(random_slices), 0, 0, "yes or no"},
	{"seed", config_set_u64, H(seed), 0, UINT64_MAX, "0 to 18446744073709551615"},
	{"skip_idle", config_set_bool, H(skip_idle), 0, 0, "yes or no"},
	{"migrate", set_migrate, 0, 1, 1000000,
	 "none, balance, random or random:N, N 1 to 1000000"},
	{"tick_us", config_set_uint, H(tick_us), 1, 1000000, "1 to 1000000 microseconds"},
	{"stalled_after", config_set_uint, H(stalled_after), 1, 600000, "1 to 600000 milliseconds"},
	{"nominal_cycles", config_set_bool, H(nominal_cycles), 0, 0, "yes or no"},
	{"no_jit", config_set_bool, H(no_jit), 0, 0, "yes or no"},
	{"leave_counters", config_set_uint, H(leave_counters), 0, 64, "0 to 64"},
	{"pinned_counters", config_set_bool, H(pinned_counters), 0, 0, "yes or no"},
	{"lbr", set_host_lbr, H(lbr), 0, 0, "off, branches or call-stack"},
	{"console", set_host_console, H(console), 0, 0, "stdout or ring"},
	{"console_rate", config_set_u64, H(console_rate), 0, 1000000000,
	 "0 to 1000000000 bytes a second"},
	{"socket", config_set_text, H(socket), 1, SOCKET_MAX, "a path of 1 to 107 bytes"},
	{"user", config_set_text, H(user), 1, 255, "the name of a user"},
	{"ram_limit", config_set_memory, H(ram_limit), VMM_RAM_MIN, 1ull << 50,
	 "4M to 1048576G in steps of 2M"},
	{"snapshot_dir", config_set_text, H(snapshot_dir), 1, 4095, "a path of 1 to 4095 bytes"},
	{"cgroup_root", config_set_text, H(cgroup_root), 1, 4095, "a path of 1 to 4095 bytes"},
	{"admin_group", config_set_text, H(admin_group), 1, 1023, "groups, separated by blanks"},
	{"reader_group", config_set_text, H(reader_group), 1, 4095,
	 "GROUP or GROUP=/TENANT,/TENANT..., separated by blanks"},
};

static const struct config_key vm_keys[] = {
	{"name", config_set_name, V(name), 0, 0, VM_NAME_ACCEPTED},
	{"tenant", set_tenant, V(tenant), 0, 0, "a path such as /acme/web"},
	{"vcpus", config_set_uint, V(vcpus), 1, VM_VCPUS_MAX, "1 to 64"},
	{"memory", config_set_memory, V(memory_bytes), VMM_RAM_MIN, VMM_RAM_MAX,
	 "4M to 64G in steps of 2M"},
	{"ram", config_set_memory, V(memory_bytes), VMM_RAM_MIN, VMM_RAM_MAX,
	 "4M to 64G in steps of 2M"},
	{"kernel", config_set_text, V(kernel), 1, 4095, "a path of 1 to 4095 bytes"},
	{"initrd", config_set_text, V(initrd), 1, 4095, "a path of 1 to 4095 bytes"},
	{"cmdline", config_set_bytes, V(cmdline), 1, 4095, "1 to 4095 bytes"},
	{"image", set_image, V(image), 1, 4095, "a path of 1 to 4095 bytes, or guest"},
	{"args", config_set_bytes, V(args), 0, 4095, "up to 4095 bytes"},
	{"pmu", set_model, V(pmu.model), 0, 0,
	 "none, intel-v2, intel-v3, intel-v4, intel-v5, amd-k7, amd-core or amd-v2"},
	{"gp", config_set_uint, V(pmu.gp), 1, VPMU_GUEST_MAX_GP, "2 to 8 (Intel) or 4 to 15 (AMD)"},
	{"fixed", config_set_uint, V(pmu.fixed), 1, VPMU_GUEST_MAX_FIXED, "1 to 4 (Intel only)"},
	{"engine", set_engine, V(engine), 0, 0, "auto, emulator or kvm"},
	{"rdpmc", set_rdpmc, V(rdpmc_off), 0, 0, "auto or off"},
	{"svm", config_set_bool, V(svm), 0, 0, "yes or no"},
	{"policy", set_policy, V(policy), 0, 0, "full, standard, architectural or off"},
	{"allow", config_set_text, V(allow), 1, 4095, "a list of events of 1 to 4095 bytes"},
	{"deny", config_set_text, V(deny), 1, 4095, "a list of events of 1 to 4095 bytes"},
	{"lbr", set_vm_lbr, 0, 0, 0, "on or off"},
	{"console", set_vm_console, 0, 1, 4095, "stdout, ring or the path of a file, with a /"},
	{"max_events", config_set_uint, V(max_events), 1, MAX_EVENTS_MAX, "1 to 56"},
	{"tenant_max_events", config_set_uint, V(tenant_max_events), 1, MAX_EVENTS_MAX, "1 to 56"},
	{"weight", config_set_uint, V(weight), 1, VM_WEIGHT_MAX, "1 to 10000"},
	{"tenant_weight", config_set_uint, V(tenant_weight), 1, VM_WEIGHT_MAX, "1 to 10000"},
};

#define NR(keys) (sizeof(keys) / sizeof((keys)[0]))

int config_set_host(struct host_config *h, uint32_t *given, const struct config_at *at,
		    const char *key, const char *value)
{
	char **place = !strcmp(key, "admin_group")    ? &h->at_admin_group
		       : !strcmp(key, "reader_group") ? &h->at_reader_group
						      : NULL;
	int ret = config_set(host_keys, NR(host_keys), h, given, at, key, value);

	if (ret || !place)
		return ret;
	free(*place);
	if (asprintf(place, "%s: %s/%s", at->where, at->section, key) < 0) {
		*place = NULL;
		return fail(-ENOMEM, at->err, at->errlen, "%s: out of memory", at->where);
	}
	return 0;
}

int config_set_vm(struct vm_config *vm, const struct config_at *at, const char *key,
		  const char *value)
{
	return config_set(vm_keys, NR(vm_keys), vm, &vm->given, at, key, value);
}

bool config_vm_given(const struct vm_config *vm, const char *name)
{
	for (size_t i = 0; i < NR(vm_keys); i++)
		if (!strcmp(vm_keys[i].name, name))
			return vm->given >> i & 1;
	return false;
}

/* ---- completion ---- */

static void complete_key(struct complete *c, const struct config_key *k)
{
	if (strstr(k->accepted, "path of"))
		complete_files(c);
	if (k->set != config_set_text) /* those take any text, described by @accepted */
		complete_accepted(c, k->accepted);
}

void config_complete_host(struct complete *c, const char *key)
{
	for (size_t i = 0; i < NR(host_keys); i++)
		if (!strcmp(host_keys[i].name, key))
			complete_key(c, &host_keys[i]);
}

void config_complete_vm(struct complete *c)
{
	static const char *const vm_add[] = {"vm", "add", NULL};
	const char *eq;
	char key[40];

	complete_item(c);
	eq = strchr(c->typed, '=');
	if (!eq)
		complete_more();
	for (size_t i = 0; i < NR(vm_keys); i++) {
		const struct config_key *k = &vm_keys[i];

		snprintf(key, sizeof(key), "%s=", k->name);
		if (!eq)
			complete_offer(c, key, NULL);
		if (!eq || strncmp(c->typed, key, strlen(key)))
			continue;
		if (k->set == config_set_name || k->set == set_tenant)
			complete_by(c, "vpmu", vm_add); /* it queries the server */
		c->typed = eq + 1;
		complete_key(c, k);
		return;
	}
}

/* ---- names ---- */

bool vm_name_ok(const char *name)
{
	return strlen(name) <= VM_NAME_MAX && tenant_vm_name_ok(name, NULL, 0);
}

const char *vm_engine_name(enum vm_engine e)
{
	return engine_words[e];
}

const char *host_lbr_name(enum host_lbr m)
{
	return host_lbr_words[m];
}
