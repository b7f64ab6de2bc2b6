// SPDX-License-Identifier: GPL-2.0-or-later
/* The policy of a tenant's guests; see guest_policy.h. Values come from the administrator's file,
 * keys to decide on from hostile VMMs. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/daemon/guest_keys.h"
#include "service/daemon/keys.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmu/guest/model.h"
#include "vpmu/util/fail.h"
#include "vpmud/guest_policy.h"
#include "vpmud/guest_quota.h"

#define MODES (VPMU_KEY_USR | VPMU_KEY_OS)

struct guest_policy *guest_policy_new(const char *at)
{
	struct guest_policy *p = xcalloc(1, sizeof(*p));

	p->at = xstrdup(at);
	return p;
}

void guest_policy_free(struct guest_policy *p)
{
	if (!p)
		return;
	free(p->pmu);
	free(p->allow);
	free(p->deny);
	free(p->at);
	free(p);
}

/* ---- keys ----------------------------------------------------------------------------------- */

static int policy_number(unsigned int *field, const char *value)
{
	uint64_t n;

	if (config_parse_u64(value, &n) || n < 1 || n > GUEST_KEYS_MAX)
		return -EINVAL;
	*field = (unsigned int)n;
	return 0;
}

/* Add a software event, which guests of this project's register models do not have, but a VMM may
 * bind. Returns false if @entry is none. */
static bool policy_software(struct guest_policy *p, const char *entry, int *ret, char *why,
			    size_t whylen)
{
	char err[160];
	vpmu_key_t key;

	if (vpmu_event_parse(entry, vpmu_event_host_space(), &key, err, sizeof(err)) ||
	    vpmu_key_space(key) != VPMU_SPACE_SOFTWARE)
		return false;
	*ret = 0;
	if ((key & MODES) != MODES)
		*ret = fail(-EINVAL, why, whylen,
			    "\"%s\": a policy cannot depend on the privilege level (:u, :k)",
			    entry);
	else if (p->nr_software == GUESTS_EVENTS_MAX)
		*ret = fail(-EINVAL, why, whylen, "more than %d software events",
			    GUESTS_EVENTS_MAX);
	else
		p->software[p->nr_software++] = key & ~MODES;
	return true;
}

/* Append to the list in @list those entries of @value that are the hardware's. */
static int policy_list(struct guest_policy *p, char **list, const char *value, char *why,
		       size_t whylen)
{
	char *copy = xstrdup(value), *rest = copy, *entry, *more;
	int ret = 0;

	while (!ret && (entry = strsep(&rest, ","))) {
		entry += strspn(entry, " \t");
		for (size_t n = strlen(entry); n && strchr(" \t", entry[n - 1]); n--)
			entry[n - 1] = '\0';
		if (policy_software(p, entry, &ret, why, whylen))
			continue;
		ret = vpmu_policy_add(&p->events, vpmu_event_host_space(), entry, why, whylen);
		if (ret)
			break;
		more = xasprintf("%s%s%s", *list, **list ? "," : "", entry);
		free(*list);
		*list = more;
		if (strlen(more) > GUESTS_LIST_MAX)
			ret = fail(-EINVAL, why, whylen, "more than %d bytes", GUESTS_LIST_MAX);
	}
	free(copy);
	return ret ? -EINVAL : 0;
}

static int policy_set_list(struct guest_policy *p, bool allow, const char *value, char *why,
			   size_t whylen)
{
	char **list = allow ? &p->allow : &p->deny;

	if (allow ? p->deny : p->allow)
		return fail(-EINVAL, why, whylen, "given with %s; expected only one of them",
			    allow ? "deny" : "allow");
	if (!*list)
		*list = xstrdup("");
	p->events.action = allow ? VPMU_POLICY_ALLOW : VPMU_POLICY_DENY;
	return policy_list(p, list, value, why, whylen);
}

int guest_policy_set(struct guest_policy *p, const char *name, const char *value, char *why,
		     size_t whylen)
{
	enum vpmu_guest_model model;
	bool twice = false;
	int ret = -EINVAL;

	if (!strcmp(name, "allow") || !strcmp(name, "deny"))
		return policy_set_list(p, *name == 'a', value, why, whylen);
	if (!strcmp(name, "pmu")) {
		twice = p->pmu;
		ret = guest_pmu_parse(value, &model);
		if (!ret && !twice)
			p->pmu = xstrdup(value);
	} else if (!strcmp(name, "policy")) {
		twice = p->tier_given;
		ret = vpmu_policy_tier_parse(value, &p->events.tier);
		p->tier_given = true;
	} else if (!strcmp(name, "gp")) {
		twice = p->gp;
		ret = guest_gp_parse(value, &p->gp);
	} else if (!strcmp(name, "max_events")) {
		twice = p->max_events;
		ret = policy_number(&p->max_events, value);
	} else if (!strcmp(name, "tenant_max_events")) {
		twice = p->tenant_max_events;
		ret = policy_number(&p->tenant_max_events, value);
	}
	return twice ? fail(-EINVAL, why, whylen, "given twice; expected once") : ret;
}

int guest_policy_check(const struct guest_policy *p, char *err, size_t errlen)
{
	enum vpmu_guest_model model = VPMU_GUEST_MODELS;
	const char *expected;

	if (p->tier_given && p->events.tier == VPMU_POLICY_OFF && (p->allow || p->deny))
		return fail(-EINVAL, err, errlen,
			    "%s: invalid with policy = off; expected only one of them",
			    p->allow ? "allow" : "deny");
	if (p->pmu)
		guest_pmu_parse(p->pmu, &model);
	if (!p->gp)
		return 0;
	/* The number must fit one model on every host. */
	if (model == VPMU_GUEST_MODELS || model == VPMU_GUEST_NONE)
		return fail(-EINVAL, err, errlen,
			    "gp: %u is invalid; expected pmu = amd-v2, intel-v2 or intel-v5 beside "
			    "it",
			    p->gp);
	expected = guest_gp_expected(model, p->gp);
	return expected
		       ? fail(-EINVAL, err, errlen, "gp: %u is invalid; with pmu = %s, expected %s",
			      p->gp, p->pmu, expected)
		       : 0;
}

bool guest_policy_decides(const struct guest_policy *p)
{
	return p && (p->pmu || p->allow || p->deny || p->tier_given || p->gp || p->max_events);
}

/* ---- decisions ------------------------------------------------------------------------------ */

static bool policy_in_host_list(const struct guest_events *host, vpmu_key_t key)
{
	for (int i = 0; i < host->nr; i++)
		if ((key & ~MODES) == host->key[i])
			return true;
	return false;
}

static bool policy_allows_software(const struct guest_policy *p, const struct guest_events *host,
				   vpmu_key_t key)
{
	bool listed = false;

	for (unsigned int i = 0; i < p->nr_software; i++)
		listed |= p->software[i] == (key & ~MODES);
	if (p->allow)
		return listed;
	return !listed && !p->tier_given && policy_in_host_list(host, key);
}

bool guest_policy_allows(const struct guest_policy *p, const struct guest_events *host,
			 vpmu_key_t key)
{
	enum vpmu_space space = vpmu_event_host_space();
	uint64_t config;

	if (!vpmu_key_valid(key) || vpmu_key_space(key) == VPMU_SPACE_SCHED)
		return false;
	if (!p)
		return policy_in_host_list(host, key);
	if (p->tier_given && p->events.tier == VPMU_POLICY_OFF)
		return false;
	if (p->pmu && !strcmp(p->pmu, "none"))
		return false;
	if (vpmu_key_space(key) == VPMU_SPACE_SOFTWARE)
		return policy_allows_software(p, host, key);
	/* Guests' counters count in guests only. */
	if (!(key & VPMU_KEY_GUEST) || key & (VPMU_KEY_HOST | VPMU_KEY_SVM))
		return false;
	if (!p->tier_given && !p->allow && !policy_in_host_list(host, key))
		return false;
	if (space == VPMU_SPACE_INTEL && vpmu_key_space(key) == VPMU_SPACE_GENERIC &&
	    vpmu_key_event(key) == VPMU_EV_REF_CYCLES)
		return vpmu_policy_allows_fixed(&p->events, key);
	return !vpmu_key_to_raw(key, space, &config) &&
	       vpmu_policy_allows(&p->events, space, config, key);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* The events of the host's list that @p does not deny and that a list can name, as allow=...; none:
 * policy=off. */
static void policy_host_list(FILE *f, const struct guest_policy *p, const struct guest_events *host)
{
	struct vpmu_policy scratch = {0};
	char name[VPMU_EVENT_NAME_MAX];
	bool any = false;

	for (int i = 0; i < host->nr; i++) {
		vpmu_key_t key = host->key[i] | MODES;

		vpmu_event_name(key, name);
		if (!guest_policy_allows(p, host, key) ||
		    vpmu_policy_add(&scratch, vpmu_event_host_space(), name, NULL, 0))
			continue;
		fprintf(f, "%s%s", any ? "," : "allow=", name);
		any = true;
	}
	fputs(any ? "\n" : "policy=off\n", f);
}

char *guest_policy_text(const struct guest_policy *p, const struct guest_events *host)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		memory_out();
	if (p && p->pmu)
		fprintf(f, "pmu=%s\n", p->pmu);
	if (p && p->gp)
		fprintf(f, "gp=%u\n", p->gp);
	if (!p || (!p->tier_given && !p->allow)) {
		policy_host_list(f, p, host);
	} else if (p->allow && !*p->allow) {
		fputs("policy=off\n", f);
	} else {
		if (p->tier_given)
			fprintf(f, "policy=%s\n", vpmu_policy_tier_name(p->events.tier));
		if (p->allow || (p->deny && *p->deny))
			fprintf(f, "%s=%s\n", p->allow ? "allow" : "deny",
				p->allow ? p->allow : p->deny);
	}
	if (fclose(f))
		memory_out();
	return text;
}
