// SPDX-License-Identifier: GPL-2.0-or-later
/* The keys and sections of vpmud.conf; see config.h. The administrator's file may contain any
 * error. */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "service/daemon/inifile.h"
#include "service/program/memory.h"
#include "vpmud/config.h"
#include "vpmu/util/fail.h"

/* ---- keys ----------------------------------------------------------------------------------- */

static int set_pin_dir(const struct config_key *k, void *field, const char *value, char *why)
{
	return strcmp(value, "none") ? config_set_path(k, field, value, why)
				     : config_set_text(k, field, value, why);
}

/* Reject embedded drivers: they only have domains that the process itself starts, and they are
 * modules, which a contained process must not load. */
static int set_libvirt(const struct config_key *k, void *field, const char *value, char *why)
{
	const char *uri = value + strspn(value, " \t"), *path;
	unsigned int nr = 0;

	for (; *uri; uri += strcspn(uri, " \t"), uri += strspn(uri, " \t")) {
		if (nr++ == VPMUD_URIS_MAX) {
			snprintf(why, CONFIG_WHY_MAX, "up to %d of them", VPMUD_URIS_MAX);
			return -EINVAL;
		}
		path = strstr(uri, ":///embed");
		if (!path || path > uri + strcspn(uri, " \t?") || !strchr(" \t?", path[9]))
			continue;
		strcpy(why, "it has domains of its own process only");
		return -EINVAL;
	}
	return config_set_text(k, field, value, why);
}

static int set_guest_events(const struct config_key *k, void *field, const char *value, char *why)
{
	vpmu_key_t key[GUESTS_EVENTS_MAX];
	int n = guests_parse(value, key, why, CONFIG_WHY_MAX);

	return n < 0 ? n : config_set_text(k, field, value, why);
}

static int config_many(int ret, char *why)
{
	if (ret == -E2BIG)
		snprintf(why, CONFIG_WHY_MAX, "the tenant has %d of them", RULES_PATTERNS_MAX);
	return ret ? -EINVAL : 0;
}

static int set_patterns(const struct config_key *k, void *field, const char *value, char *why)
{
	return *value ? config_many(patterns_add(field, value), why) : -EINVAL;
}

static int set_cgroup(const struct config_key *k, void *field, const char *value, char *why)
{
	return cgroup_pattern_ok(value) ? set_patterns(k, field, value, why) : -EINVAL;
}

static int set_owner(const struct config_key *k, void *field, const char *value, char *why)
{
	const struct passwd *user;
	uint64_t uid;

	if (config_parse_u64(value, &uid)) {
		user = getpwnam(value);
		if (!user)
			return -EINVAL;
		uid = user->pw_uid;
	}
	/* (uid_t)-1 is reserved: it means "unknown". */
	if (uid >= UINT32_MAX)
		return -EINVAL;
	return config_many(rule_add_owner(field, (uid_t)uid), why);
}

static int set_guest(const struct config_key *k, void *field, const char *value, char *why)
{
	struct rule *rule = field;

	return *value ? guest_policy_set(rule->guest, k->name, value, why, CONFIG_WHY_MAX)
		      : -EINVAL;
}

#define C(field)   offsetof(struct vpmud_config, field)
#define R(field)   offsetof(struct rule, field)
#define SOCKET_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 1)

static const struct config_key vpmud_keys[] = {
	{"socket", config_set_path, C(socket), 1, SOCKET_MAX,
	 "a path of up to 107 bytes that starts with /"},
	{"pin_dir", set_pin_dir, C(pin_dir), 1, 200,
	 "the path of a directory in a BPF file system, or none"},
	{"cgroup_root", config_set_path, C(cgroup_root), 1, 4000,
	 "the path where cgroup2 is mounted"},
	{"libvirt", set_libvirt, C(libvirt), 1, 1023,
	 "URIs such as qemu:///system, but not qemu:///embed, separated by blanks, or none"},
	{"guest_events", set_guest_events, C(guest_events), 1, 1023,
	 "up to 16 names of events, separated by blanks, or none"},
	{"isolated", config_set_bool, C(isolated), 0, 0, "yes or no"},
	{"leave_counters", config_set_uint, C(leave_counters), 0, 64, "0 to 64"},
	{"counters", config_set_uint, C(counters), 1, 64, "1 to 64"},
	{"history", config_set_uint, C(history), 0, 86400, "0 to 86400 seconds"},
	{"history_interval", config_set_uint, C(history_interval), 1, 3600, "1 to 3600 seconds"},
	{"admin_group", config_set_text, C(admin_group), 1, 1023, "groups, separated by blanks"},
	{"reader_group", config_set_text, C(reader_group), 1, 4095,
	 "GROUP or GROUP=/TENANT,/TENANT..., separated by blanks"},
};

static const struct config_key tenant_keys[] = {
	{"cgroup", set_cgroup, R(cgroup), 0, 0,
	 "a pattern such as /machine.slice/acme-*: up to 32 components, no . or .."},
	{"metadata", set_patterns, R(metadata), 0, 0, "a pattern for the metadata of VMs"},
	{"vm", set_patterns, R(vm), 0, 0, "a pattern for names of VMs"},
	{"vm_owner", set_owner, 0, 0, 0, "a user of this host, or its number"},
	{"pmu", set_guest, 0, 0, 0, "auto, none, amd-core, amd-v2, intel-v2 or intel-v5"},
	{"gp", set_guest, 0, 0, 0, "2 to 15"},
	{"policy", set_guest, 0, 0, 0, "full, standard, architectural or off"},
	{"allow", set_guest, 0, 0, 0, "events, separated by commas"},
	{"deny", set_guest, 0, 0, 0, "events, separated by commas"},
	{"max_events", set_guest, 0, 0, 0, "1 to 24"},
	{"tenant_max_events", set_guest, 0, 0, 0, "1 to 24"},
};

#define NR(keys) (sizeof(keys) / sizeof((keys)[0]))

/* ---- sections ------------------------------------------------------------------------------- */

struct file {
	struct vpmud_config *c;
	bool vpmud_seen, in_tenant;
};

static int config_begin(void *arg, const struct config_at *at)
{
	struct file *f = arg;
	struct rule *rule;
	char why[200];
	int ret;

	f->in_tenant = strcmp(at->section, "vpmud") != 0;
	if (!f->in_tenant) {
		if (f->vpmud_seen)
			return fail(-EINVAL, at->err, at->errlen,
				    "%s: [%s] given twice; expected once", at->where, at->section);
		f->vpmud_seen = true;
		return 0;
	}
	if (strncmp(at->section, "tenant ", 7))
		return CONFIG_NO_SECTION;
	ret = rules_add(&f->c->rules, at->section + 7, &rule, why, sizeof(why));
	return ret ? fail(-EINVAL, at->err, at->errlen, "%s: [%s]: %s", at->where, at->section, why)
		   : 0;
}

/* Return where the place of @key is kept, or NULL. */
static char **config_place(struct vpmud_config *c, const char *key)
{
	return !strcmp(key, "pin_dir")	      ? &c->at_pin_dir
	       : !strcmp(key, "cgroup_root")  ? &c->at_cgroup_root
	       : !strcmp(key, "admin_group")  ? &c->at_admin_group
	       : !strcmp(key, "reader_group") ? &c->at_reader_group
					      : NULL;
}

static bool config_is_guest(const char *key)
{
	for (size_t i = 0; i < NR(tenant_keys); i++)
		if (!strcmp(key, tenant_keys[i].name))
			return tenant_keys[i].set == set_guest;
	return false;
}

static int vpmud_config_set(void *arg, const struct config_at *at, const char *key,
			    const char *value)
{
	struct file *f = arg;
	struct rules *r = &f->c->rules;
	uint32_t given = 0; /* a tenant's keys may be given several times: each adds a pattern */
	char **place;
	int ret;

	if (f->in_tenant && config_is_guest(key) && !r->rule[r->nr - 1].guest)
		r->rule[r->nr - 1].guest = guest_policy_new(at->where);
	if (f->in_tenant)
		return config_set(tenant_keys, NR(tenant_keys), &r->rule[r->nr - 1], &given, at,
				  key, value);
	ret = config_set(vpmud_keys, NR(vpmud_keys), f->c, &f->c->given, at, key, value);
	place = ret ? NULL : config_place(f->c, key);
	if (place)
		*place = xstrdup(at->where);
	return ret;
}

static int config_end(void *arg, const struct config_at *at)
{
	const struct file *f = arg;
	const struct rule *rule = f->in_tenant ? &f->c->rules.rule[f->c->rules.nr - 1] : NULL;
	char why[200];

	if (rule && rule->guest && guest_policy_check(rule->guest, why, sizeof(why)))
		return fail(-EINVAL, at->err, at->errlen, "%s: tenant %s%s/%s", rule->guest->at,
			    rule->path, rule->each ? "/*" : "", why);
	if (rule && rule->each && !rule->cgroup.nr && !rule->vm.nr && !rule->metadata.nr)
		return fail(-EINVAL, at->err, at->errlen,
			    "%s: the section before has neither cgroup nor metadata nor vm, and "
			    "its * stands for their matches; expected at least one of them",
			    at->where);
	return 0;
}

static const struct config_sections sections = {"[vpmud] or [tenant /PATH]", config_begin,
						vpmud_config_set, config_end};

/* Without the host's list there is no socket, and keys for guests would do nothing. */
static int config_check_guests(const struct vpmud_config *c, char *err, size_t errlen)
{
	for (size_t i = 0; !c->guest_events && i < c->rules.nr; i++)
		if (c->rules.rule[i].guest)
			return fail(-EINVAL, err, errlen,
				    "%s: tenant %s%s: guests have no counters without "
				    "guest_events; expected guest_events = none or a list in "
				    "[vpmud]",
				    c->rules.rule[i].guest->at, c->rules.rule[i].path,
				    c->rules.rule[i].each ? "/*" : "");
	return 0;
}

/* ---- public functions ----------------------------------------------------------------------- */

void vpmud_config_init(struct vpmud_config *c)
{
	*c = (struct vpmud_config){
		.libvirt = xstrdup("qemu:///system"),
		.leave_counters = 2,
		.history = 3600,
		.history_interval = 10,
	};
}

void vpmud_config_fini(struct vpmud_config *c)
{
	free(c->socket);
	free(c->pin_dir);
	free(c->cgroup_root);
	free(c->libvirt);
	free(c->guest_events);
	free(c->admin_group);
	free(c->reader_group);
	free(c->at_pin_dir);
	free(c->at_cgroup_root);
	free(c->at_admin_group);
	free(c->at_reader_group);
	rules_fini(&c->rules);
	*c = (struct vpmud_config){0};
}

int vpmud_config_text(struct vpmud_config *c, const char *name, const char *text, size_t len,
		      char *err, size_t errlen)
{
	struct file f = {.c = c};
	int ret = config_read_text(&sections, &f, name, text, len, err, errlen);

	return ret ? ret : config_check_guests(c, err, errlen);
}

int vpmud_config_file(struct vpmud_config *c, const char *path, char *err, size_t errlen)
{
	struct file f = {.c = c};
	int ret = config_read_file(&sections, &f, path, err, errlen);

	return ret ? ret : config_check_guests(c, err, errlen);
}

static bool differ(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") != 0;
}

const char *vpmud_config_fixed(const struct vpmud_config *a, const struct vpmud_config *b)
{
	return differ(a->socket, b->socket)		    ? "socket"
	       : differ(a->pin_dir, b->pin_dir)		    ? "pin_dir"
	       : differ(a->cgroup_root, b->cgroup_root)	    ? "cgroup_root"
	       : differ(a->libvirt, b->libvirt)		    ? "libvirt"
	       : !a->guest_events != !b->guest_events	    ? "guest_events"
	       : a->isolated != b->isolated		    ? "isolated"
	       : a->leave_counters != b->leave_counters	    ? "leave_counters"
	       : a->counters != b->counters		    ? "counters"
	       : a->history != b->history		    ? "history"
	       : a->history_interval != b->history_interval ? "history_interval"
	       : differ(a->admin_group, b->admin_group)	    ? "admin_group"
	       : differ(a->reader_group, b->reader_group)   ? "reader_group"
							    : NULL;
}
