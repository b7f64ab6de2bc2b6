// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Matching VMs and cgroups with the rules; see rules.h. Names of VMs, metadata and cgroups are
 * untrusted input: a path built from them must pass tenant_path_ok().
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmud/rules.h"
#include "vpmu/util/fail.h"

/* ---- building rules ------------------------------------------------------------------------- */

static int rules_add_rule(struct rules *r, const char *path, bool each, struct rule **out,
			  char *err, size_t errlen)
{
	for (size_t i = 0; i < r->nr; i++)
		if (r->rule[i].each == each && !strcmp(r->rule[i].path, path))
			return fail(-EEXIST, err, errlen, "given twice; expected once");
	if (r->nr == RULES_TENANTS_MAX)
		return fail(-E2BIG, err, errlen, "more than %d tenants", RULES_TENANTS_MAX);
	/* The array doubles whenever the number of rules is a power of two. */
	if (!(r->nr & (r->nr - 1)))
		r->rule = xreallocarray(r->rule, r->nr ? 2 * r->nr : 1, sizeof(*r->rule));
	*out = &r->rule[r->nr++];
	**out = (struct rule){.each = each};
	strcpy((*out)->path, path);
	return 0;
}

int rules_add(struct rules *r, const char *path, struct rule **out, char *err, size_t errlen)
{
	char plain[TENANT_PATH_MAX + 1];
	size_t len = strnlen(path, sizeof(plain));
	bool each = len >= 2 && len < sizeof(plain) && !strcmp(path + len - 2, "/*");

	snprintf(plain, sizeof(plain), "%.*s", (int)(each ? len - 2 : len), path);
	/* The section path "/" and star has no prefix to check. */
	if (!(each && !*plain) && !tenant_path_ok(each ? plain : path, err, errlen))
		return -EINVAL;
	return rules_add_rule(r, plain, each, out, err, errlen);
}

static void patterns_fini(struct patterns *p)
{
	for (size_t i = 0; i < p->nr; i++)
		free(p->text[i]);
	free(p->text);
}

void rules_fini(struct rules *r)
{
	for (size_t i = 0; i < r->nr; i++) {
		patterns_fini(&r->rule[i].cgroup);
		patterns_fini(&r->rule[i].vm);
		patterns_fini(&r->rule[i].metadata);
		guest_policy_free(r->rule[i].guest);
		free(r->rule[i].owners);
	}
	free(r->rule);
	patterns_fini(&r->commands);
	*r = (struct rules){0};
}

int patterns_add(struct patterns *p, const char *pattern)
{
	if (p->nr == RULES_PATTERNS_MAX)
		return -E2BIG;
	p->text = xreallocarray(p->text, p->nr + 1, sizeof(*p->text));
	p->text[p->nr++] = xstrdup(pattern);
	return 0;
}

void patterns_remove(struct patterns *p, size_t i)
{
	free(p->text[i]);
	p->text[i] = p->text[--p->nr];
}

int rule_add_owner(struct rule *rule, uid_t uid)
{
	if (rule->nr_owners == RULES_PATTERNS_MAX)
		return -E2BIG;
	rule->owners = xreallocarray(rule->owners, rule->nr_owners + 1, sizeof(*rule->owners));
	rule->owners[rule->nr_owners++] = uid;
	return 0;
}

/* Return the length of the component at *@path (which points at its "/") and advance *@path past
 * it. */
static size_t component(const char **path, const char **text)
{
	*text = *path + 1;
	*path = strchrnul(*text, '/');
	return (size_t)(*path - *text);
}

bool cgroup_pattern_ok(const char *pattern)
{
	const char *text;
	size_t nr = 0;

	if (*pattern != '/')
		return false;
	while (*pattern) {
		size_t len = component(&pattern, &text);

		if (!len || len > 255 || (len == 1 && *text == '.') ||
		    (len == 2 && !memcmp(text, "..", 2)) || ++nr > RULES_COMPONENTS_MAX)
			return false;
	}
	return true;
}

/* ---- matching ------------------------------------------------------------------------------- */

static bool rules_matches(const char *pattern, const char *name)
{
	return fnmatch(pattern, name, FNM_NOESCAPE) == 0;
}

static bool any_matches(const struct patterns *p, const char *name)
{
	for (size_t i = 0; i < p->nr; i++)
		if (rules_matches(p->text[i], name))
			return true;
	return false;
}

/* Return the number of leading components of @path that @pattern matches; 0: no match. */
static size_t matches_path(const char *pattern, const char *path, const char **rest)
{
	char want[256], have[256];
	const char *text;
	size_t nr = 0, len;

	while (*pattern) {
		len = component(&pattern, &text);
		snprintf(want, sizeof(want), "%.*s", (int)len, text);
		if (*path != '/')
			return 0;
		len = component(&path, &text);
		if (!len || len >= sizeof(have))
			return 0;
		snprintf(have, sizeof(have), "%.*s", (int)len, text);
		if (!rules_matches(want, have))
			return 0;
		nr++;
	}
	*rest = path;
	return nr;
}

static bool path_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c && strchr("_.:@-/", c));
}

/* Build the path of @rule's tenant for the name of @len bytes at @name, a path if @deep. */
static bool tenant_of(const struct rule *rule, const char *name, size_t len, bool deep,
		      char path[TENANT_PATH_MAX + 1], char *why, size_t whylen)
{
	size_t at = strlen(rule->path);

	strcpy(path, rule->path);
	if (!rule->each)
		return true;
	if (deep && len && *name == '/')
		name++, len--;
	if (at + 1 + len > TENANT_PATH_MAX) {
		fail(0, why, whylen, "tenant %s/%.80s...: longer than %d bytes", rule->path, name,
		     TENANT_PATH_MAX);
		return false;
	}
	path[at++] = '/';
	for (size_t i = 0; i < len; i++)
		path[at++] = path_char(name[i]) && (deep || name[i] != '/') ? name[i] : '_';
	path[at] = '\0';
	return tenant_path_ok(path, why, whylen);
}

/* Return the rule with the longest cgroup pattern that matches @path or, unless @whole, an
 * ancestor; *@name is set to the last component that the pattern matched. */
static const struct rule *by_cgroup(const struct rules *r, const char *path, bool whole,
				    const char **name, size_t *len)
{
	const struct rule *best = NULL;
	size_t best_nr = 0, nr;
	const char *rest;

	for (size_t i = 0; i < r->nr; i++) {
		for (size_t p = 0; p < r->rule[i].cgroup.nr; p++) {
			nr = matches_path(r->rule[i].cgroup.text[p], path, &rest);
			if (nr <= best_nr || (whole && *rest))
				continue;
			best = &r->rule[i];
			best_nr = nr;
			*name = rest;
			while ((*name)[-1] != '/')
				--*name;
			*len = (size_t)(rest - *name);
		}
	}
	return best;
}

/* As rules_cgroup() or, unless @whole, for the nearest ancestor with a rule; *@len: the bytes of
 * @path up to it. */
static const struct rule *rules_place(const struct rules *r, const char *path, bool whole,
				      size_t *len, char tenant[TENANT_PATH_MAX + 1], char *why,
				      size_t whylen)
{
	static const struct rule command_rule = {.each = true};
	struct rule above = {.each = true};
	const struct rule *found;
	char dir[PATH_MAX];
	const char *rest, *name;
	size_t n;

	for (size_t i = 0; i < r->commands.nr; i++) {
		if (!matches_path(r->commands.text[i], path, &rest) || (whole && *rest))
			continue;
		*len = (size_t)(rest - path);
		snprintf(dir, sizeof(dir), "%.*s", (int)*len, path);
		name = strrchr(r->commands.text[i], '/') + 1;
		dir[*len - strlen(name) - 1] = '\0';
		found = by_cgroup(r, dir, false, &rest, &n);
		if (found && !tenant_of(found, rest, n, false, above.path, why, whylen))
			return NULL;
		return tenant_of(&above, name, strlen(name), false, tenant, why, whylen)
			       ? &command_rule
			       : NULL;
	}
	found = by_cgroup(r, path, whole, &name, &n);
	if (!found || !tenant_of(found, name, n, false, tenant, why, whylen))
		return NULL;
	*len = (size_t)(name + n - path);
	return found;
}

bool rules_find(const struct rules *r, const char *path, char tenant[TENANT_PATH_MAX + 1],
		size_t *len)
{
	return rules_place(r, path, false, len, tenant, NULL, 0) != NULL;
}

/* Return true if @rule trusts the name of @vm. */
static bool rule_trusts(const struct rule *rule, const struct rules_vm *vm)
{
	const char *rest;

	if (vm->libvirt)
		return true;
	for (size_t i = 0; vm->uid != (uid_t)-1 && i < rule->nr_owners; i++)
		if (rule->owners[i] == vm->uid)
			return true;
	for (size_t i = 0; vm->cgroup && i < rule->cgroup.nr; i++)
		if (matches_path(rule->cgroup.text[i], vm->cgroup, &rest))
			return true;
	return false;
}

bool rules_vm(const struct rules *r, const struct rules_vm *vm, char path[TENANT_PATH_MAX + 1],
	      const struct rule **refused, char *why, size_t whylen)
{
	static const struct rule by_metadata = {.each = true};
	const char *metadata = vm->metadata;
	size_t len;

	*refused = NULL;
	if (whylen)
		*why = '\0';
	if (metadata && !r->nr)
		return tenant_of(&by_metadata, metadata, strlen(metadata), true, path, why, whylen);
	/* Metadata names a tenant by its path or by a bare name. */
	for (size_t i = 0; metadata && i < r->nr; i++)
		if (any_matches(&r->rule[i].metadata, metadata) ||
		    (*metadata == '/' && any_matches(&r->rule[i].metadata, metadata + 1)))
			return tenant_of(&r->rule[i], metadata, strlen(metadata), true, path, why,
					 whylen);
	for (size_t i = 0; i < r->nr; i++) {
		const struct rule *rule = &r->rule[i];

		if (!any_matches(&rule->vm, vm->name))
			continue;
		if (rule_trusts(rule, vm)) {
			*refused = NULL;
			return tenant_of(rule, vm->name, strlen(vm->name), false, path, why,
					 whylen);
		}
		if (!*refused)
			*refused = rule;
	}
	return vm->cgroup && rules_place(r, vm->cgroup, false, &len, path, why, whylen);
}

const struct rule *rules_cgroup(const struct rules *r, const char *path,
				char tenant[TENANT_PATH_MAX + 1], char *why, size_t whylen)
{
	size_t len;

	if (whylen)
		*why = '\0';
	return rules_place(r, path, true, &len, tenant, why, whylen);
}

/* ---- guests --------------------------------------------------------------------------------- */

/* The section of the tenant with the path of @len bytes at @path: its own, else one that stands
 * for several. */
static const struct rule *rules_section(const struct rules *r, const char *path, size_t len)
{
	const struct rule *each = NULL;
	size_t above = len;

	while (above && path[above - 1] != '/')
		above--;
	if (!above)
		return NULL;
	above--;
	for (size_t i = 0; i < r->nr; i++) {
		const struct rule *rule = &r->rule[i];
		size_t n = rule->each ? above : len;

		if (strncmp(rule->path, path, n) || rule->path[n])
			continue;
		if (!rule->each)
			return rule;
		each = rule;
	}
	return each;
}

const struct guest_policy *rules_guest(const struct rules *r, const char *path)
{
	for (size_t len = strlen(path); len; len--) {
		const struct rule *rule;

		if (path[len] && path[len] != '/')
			continue;
		rule = rules_section(r, path, len);
		if (rule && guest_policy_decides(rule->guest))
			return rule->guest;
	}
	return NULL;
}

unsigned int rules_guest_max(const struct rules *r, const char *path)
{
	const struct rule *rule = rules_section(r, path, strlen(path));

	return rule && rule->guest ? rule->guest->tenant_max_events : 0;
}
