// SPDX-License-Identifier: GPL-2.0-or-later
/* The keys of a VM's PMU, see conf.h. */
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/conf.h"
#include "preload/words.h"
#include "service/daemon/keys.h"
#include "vpmu/util/fail.h"

static const struct {
	const char *name, *variable, *expected;
} conf_keys[CONF_KEYS] = {
	[CONF_PMU] = {"pmu", "VPMU_PMU", "auto, none, amd-core, amd-v2, intel-v2 or intel-v5"},
	[CONF_GP] = {"gp", "VPMU_GP", "4 to 15 for amd-v2, 2 to 8 for Intel"},
	[CONF_POLICY] = {"policy", "VPMU_POLICY", "full, standard, architectural or off"},
	[CONF_ALLOW] = {"allow", "VPMU_ALLOW", "events, comma separated"},
	[CONF_DENY] = {"deny", "VPMU_DENY", "events, comma separated"},
	[CONF_VPMUD] = {"vpmud", "VPMU_VPMUD", "the absolute path of vcpus.sock, or none"},
};

const char *conf_key_name(enum conf_key k)
{
	return conf_keys[k].name;
}

const char *conf_variable(enum conf_key k)
{
	return conf_keys[k].variable;
}

/* 0: by the host's CPU. */
static int conf_model(const char *value, enum vpmu_guest_model *model)
{
	if (!value || !strcmp(value, "auto")) {
		*model = VPMU_GUEST_MODELS;
		return 0;
	}
	if (vpmu_guest_model_parse(value, model))
		return -EINVAL;
	switch (*model) {
	case VPMU_GUEST_NONE:
	case VPMU_GUEST_AMD_CORE:
	case VPMU_GUEST_AMD_V2:
	case VPMU_GUEST_INTEL_V2:
	case VPMU_GUEST_INTEL_V5:
		return 0;
	default:
		return -EINVAL;
	}
}

static bool conf_valid(enum conf_key k, const char *value)
{
	enum vpmu_guest_model model;
	enum vpmu_policy_tier tier;
	uint64_t n;

	if (strchr(value, '\n'))
		return false;
	switch (k) {
	case CONF_PMU:
		return !conf_model(value, &model);
	case CONF_GP:
		return !config_parse_u64(value, &n) && n >= 2 && n <= 15;
	case CONF_VPMUD:
		return !strcmp(value, "none") || (*value == '/' && strlen(value) < 108);
	case CONF_POLICY:
		return !vpmu_policy_tier_parse(value, &tier);
	default:
		return *value; /* the model decides how events are read: conf_apply */
	}
}

int conf_set(struct conf *c, const char *where, const char *name, const char *value, char *err,
	     size_t errlen)
{
	for (unsigned int k = 0; k < CONF_KEYS; k++) {
		char *copy;

		if (strcmp(name, conf_keys[k].name))
			continue;
		if (!conf_valid((enum conf_key)k, value))
			return fail(-EINVAL, err, errlen,
				    "%s: %s: \"%.80s\" is invalid; expected %s", where, name, value,
				    conf_keys[k].expected);
		copy = strdup(value);
		if (!copy)
			return fail(-ENOMEM, err, errlen, "%s: out of memory", where);
		free(c->value[k]);
		c->value[k] = copy;
		return 0;
	}
	return -ENOENT;
}

int conf_over(struct conf *c, const struct conf *over)
{
	/* A list of either kind replaces both. */
	if (over->value[CONF_ALLOW] || over->value[CONF_DENY]) {
		for (unsigned int k = CONF_ALLOW; k <= CONF_DENY; k++) {
			free(c->value[k]);
			c->value[k] = NULL;
		}
	}
	for (unsigned int k = 0; k < CONF_KEYS; k++) {
		char *copy;

		if (!over->value[k])
			continue;
		copy = strdup(over->value[k]);
		if (!copy)
			return -ENOMEM;
		free(c->value[k]);
		c->value[k] = copy;
	}
	return 0;
}

void conf_fini(struct conf *c)
{
	for (unsigned int k = 0; k < CONF_KEYS; k++)
		free(c->value[k]);
	*c = (struct conf){0};
}

const char *conf_vpmud(const struct conf *c)
{
	const char *value = c->value[CONF_VPMUD];

	if (!value)
		return "/run/vpmu/vcpus.sock";
	return strcmp(value, "none") ? value : "";
}

bool conf_is_off(const struct conf *c)
{
	const char *pmu = c->value[CONF_PMU], *policy = c->value[CONF_POLICY];

	return (pmu && !strcmp(pmu, "none")) || (policy && !strcmp(policy, "off"));
}

char *conf_text(const struct conf *c)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	for (unsigned int k = 0; k < CONF_KEYS; k++)
		if (c->value[k])
			fprintf(f, "%s=%s\n", conf_keys[k].name, c->value[k]);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

int conf_parse(struct conf *c, const char *text, char *err, size_t errlen)
{
	char *copy = strdup(text), *rest = copy, *line;
	int ret = 0;

	if (!copy)
		return fail(-ENOMEM, err, errlen, CONF_VARIABLE ": out of memory");
	while (!ret && (line = strsep(&rest, "\n"))) {
		char *value = strchr(line, '=');

		if (!*line)
			continue;
		if (value)
			*value++ = 0;
		ret = value ? conf_set(c, CONF_VARIABLE, line, value, err, errlen) : -ENOENT;
		if (ret == -ENOENT)
			ret = fail(-EINVAL, err, errlen,
				   CONF_VARIABLE ": \"%.80s\" is invalid; expected KEY=VALUE of "
						 "this version's keys",
				   line);
	}
	free(copy);
	return ret;
}

static int conf_gp(const struct conf *c, struct vpmu_guest_cfg *cfg, char *err, size_t errlen)
{
	const char *expected;
	uint64_t n;

	if (!c->value[CONF_GP] || config_parse_u64(c->value[CONF_GP], &n))
		return 0;
	cfg->gp = (unsigned int)n;
	switch (cfg->model) {
	case VPMU_GUEST_AMD_CORE:
		expected = n == 6 ? NULL : "6";
		break;
	case VPMU_GUEST_AMD_V2:
		expected = n >= 4 ? NULL : "4 to 15";
		break;
	default:
		expected = n <= 8 ? NULL : "2 to 8";
		break;
	}
	if (!expected)
		return 0;
	return fail(-EINVAL, err, errlen, "gp: %s is invalid; with pmu = %s, expected %s",
		    c->value[CONF_GP], vpmu_guest_model_name(cfg->model), expected);
}

bool conf_host_is_intel(void)
{
	unsigned int a, b = 0, c, d;

	return __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
}

int conf_apply(const struct conf *c, bool intel, struct vpmu_guest_cfg *cfg,
	       struct vpmu_policy *policy, char *err, size_t errlen)
{
	const char *allow = c->value[CONF_ALLOW], *deny = c->value[CONF_DENY];
	char why[200] = "";
	int ret;

	*cfg = (struct vpmu_guest_cfg){.no_lbr = true};
	memset(policy, 0, sizeof(*policy));
	if (conf_model(c->value[CONF_PMU], &cfg->model))
		return fail(-EINVAL, err, errlen,
			    "pmu: \"%.80s\" is invalid; expected auto, none or a model",
			    c->value[CONF_PMU]);
	if (cfg->model == VPMU_GUEST_MODELS)
		cfg->model = intel ? VPMU_GUEST_INTEL_V5 : VPMU_GUEST_AMD_V2;
	ret = conf_gp(c, cfg, err, errlen);
	if (ret)
		return ret;
	if (c->value[CONF_POLICY])
		vpmu_policy_tier_parse(c->value[CONF_POLICY], &policy->tier);
	if (allow && deny)
		return fail(-EINVAL, err, errlen,
			    "deny: given with allow; expected only one of them");
	if (allow || deny) {
		policy->action = allow ? VPMU_POLICY_ALLOW : VPMU_POLICY_DENY;
		ret = vpmu_policy_add(
			policy, words_is_intel(cfg->model) ? VPMU_SPACE_INTEL : VPMU_SPACE_AMD,
			allow ? allow : deny, why, sizeof(why));
		if (ret)
			return fail(ret, err, errlen, "%s: %s", allow ? "allow" : "deny", why);
	}
	if (policy->tier != VPMU_POLICY_FULL || policy->action != VPMU_POLICY_NO_LIST)
		cfg->policy = policy;
	return 0;
}
