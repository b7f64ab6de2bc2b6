// SPDX-License-Identifier: GPL-2.0-or-later
/* The keys of a VM's PMU, see conf.h. */
#include <cpuid.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload/conf.h"
#include "preload/words.h"
#include "service/daemon/guest_keys.h"
#include "vpmu/hostpmu_perf.h"
#include "vpmu/util/fail.h"

static const struct {
	const char *name, *variable, *expected;
} conf_keys[CONF_KEYS] = {
	[CONF_PMU] = {"pmu", "VPMU_PMU", "auto, none, amd-core, amd-v2, intel-v2 or intel-v5"},
	[CONF_GP] = {"gp", "VPMU_GP", "6 for amd-core, 4 to 15 for amd-v2, 2 to 8 for Intel"},
	[CONF_POLICY] = {"policy", "VPMU_POLICY", "full, standard, architectural or off"},
	[CONF_ALLOW] = {"allow", "VPMU_ALLOW", "events, comma separated"},
	[CONF_DENY] = {"deny", "VPMU_DENY", "events, comma separated"},
	[CONF_VPMUD] = {"vpmud", "VPMU_VPMUD", "the absolute path of vcpus.sock, or none"},
	/* vpmud's, for which there are neither keys of the file nor variables */
	[CONF_LIMIT_POLICY] = {"limit_policy", NULL, "full, standard, architectural or off"},
	[CONF_LIMIT_ALLOW] = {"limit_allow", NULL, "events, comma separated"},
	[CONF_LIMIT_DENY] = {"limit_deny", NULL, "events, comma separated"},
	[CONF_UNFIT] = {"unfit", NULL, "1"},
};

const char *conf_key_name(enum conf_key k)
{
	return conf_keys[k].name;
}

const char *conf_variable(enum conf_key k)
{
	return conf_keys[k].variable;
}

static bool conf_valid(enum conf_key k, const char *value)
{
	enum vpmu_guest_model model;
	enum vpmu_policy_tier tier;
	unsigned int gp;

	if (strchr(value, '\n'))
		return false;
	switch (k) {
	case CONF_PMU:
		return !guest_pmu_parse(value, &model);
	case CONF_GP:
		return !guest_gp_parse(value, &gp);
	case CONF_VPMUD:
		return !strcmp(value, "none") || (*value == '/' && strlen(value) < 108);
	case CONF_LIMIT_POLICY:
	case CONF_POLICY:
		return !vpmu_policy_tier_parse(value, &tier);
	default:
		return *value; /* the model decides how events are read: conf_apply */
	}
}

/* NULL: no value. */
static int conf_replace(struct conf *c, enum conf_key k, const char *value)
{
	char *copy = value ? strdup(value) : NULL;

	if (value && !copy)
		return -ENOMEM;
	free(c->value[k]);
	c->value[k] = copy;
	return 0;
}

static int conf_set_below(struct conf *c, unsigned int end, const char *where, const char *name,
			  const char *value, char *err, size_t errlen)
{
	for (unsigned int k = 0; k < end; k++) {
		if (strcmp(name, conf_keys[k].name))
			continue;
		if (!conf_valid((enum conf_key)k, value))
			return fail(-EINVAL, err, errlen,
				    "%s: %s: \"%.80s\" is invalid; expected %s", where, name, value,
				    conf_keys[k].expected);
		if (conf_replace(c, (enum conf_key)k, value))
			return fail(-ENOMEM, err, errlen, "%s: out of memory", where);
		return 0;
	}
	return -ENOENT;
}

int conf_set(struct conf *c, const char *where, const char *name, const char *value, char *err,
	     size_t errlen)
{
	return conf_set_below(c, CONF_OWN, where, name, value, err, errlen);
}

int conf_over(struct conf *c, const struct conf *over)
{
	/* A list of either kind replaces both. */
	if (over->value[CONF_ALLOW] || over->value[CONF_DENY]) {
		for (unsigned int k = CONF_ALLOW; k <= CONF_DENY; k++)
			conf_replace(c, (enum conf_key)k, NULL);
	}
	for (unsigned int k = 0; k < CONF_KEYS; k++)
		if (over->value[k] && conf_replace(c, (enum conf_key)k, over->value[k]))
			return -ENOMEM;
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

static bool conf_has(const struct conf *c, enum conf_key k, const char *value)
{
	return c->value[k] && !strcmp(c->value[k], value);
}

bool conf_is_off(const struct conf *c)
{
	return conf_has(c, CONF_PMU, "none") || conf_has(c, CONF_POLICY, "off") ||
	       conf_has(c, CONF_LIMIT_POLICY, "off");
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
		ret = value ? conf_set_below(c, CONF_KEYS, CONF_VARIABLE, line, value, err, errlen)
			    : -ENOENT;
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

	if (!c->value[CONF_GP] || guest_gp_parse(c->value[CONF_GP], &cfg->gp))
		return 0;
	expected = guest_gp_expected(cfg->model, cfg->gp);
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

static int conf_model(const struct conf *c, bool intel, enum vpmu_guest_model *model)
{
	int ret = guest_pmu_parse(c->value[CONF_PMU] ? c->value[CONF_PMU] : "auto", model);

	if (!ret && *model == VPMU_GUEST_MODELS)
		*model = intel ? VPMU_GUEST_INTEL_V5 : VPMU_GUEST_AMD_V2;
	return ret;
}

unsigned int conf_host_counters(void)
{
	unsigned int a, b, c, d;

	if (conf_host_is_intel()) /* SDM vol. 3, 20.2.1 */
		return __get_cpuid(0xa, &a, &b, &c, &d) && (a & 0xff) ? a >> 8 & 0xff : 0;
	/* APM vol. 3, appendix E: NumPerfCtrCore; PerfCtrExtCore */
	if (__get_cpuid(0x80000022, &a, &b, &c, &d) && (a & 1))
		return b & 0xf;
	return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c >> 23 & 1) ? 6 : 0;
}

/* How many of the host's general counters are the guest's. AMD's CPUs have no fixed ones. */
static unsigned int conf_share(enum vpmu_guest_model model, bool intel, unsigned int host)
{
	unsigned int others = VPMU_PERF_LEAVE + (words_is_intel(model) && !intel ? 3 : 0);

	return host > others ? host - others : 0;
}

int conf_fits(const struct conf *c, bool intel, unsigned int host, char *err, size_t errlen)
{
	enum vpmu_guest_model model;
	unsigned int gp;

	if (c->value[CONF_GP] || !host || conf_model(c, intel, &model) ||
	    model != VPMU_GUEST_AMD_CORE)
		return 0;
	gp = conf_share(model, intel, host);
	if (gp >= 6)
		return 0;
	return fail(-EINVAL, err, errlen,
		    "pmu: amd-core has 6 counters, this host %u less 2 for others: more events "
		    "than %u would count too little; expected amd-v2, or gp = 6, which leaves "
		    "others fewer",
		    host, gp);
}

int conf_default_gp(struct conf *c, bool intel, unsigned int host)
{
	enum vpmu_guest_model model;
	unsigned int gp, most;
	char text[12];

	if (c->value[CONF_GP] || !host || conf_model(c, intel, &model))
		return 0;
	gp = conf_share(model, intel, host);
	most = words_is_intel(model) ? 8 : 6; /* the models' own default */
	while (gp < most && guest_gp_expected(model, gp))
		gp++;
	if (gp >= most)
		return 0;
	snprintf(text, sizeof(text), "%u", gp);
	return conf_replace(c, CONF_GP, text);
}

int conf_vendor(struct conf *c, bool intel, const char *vendor)
{
	enum vpmu_guest_model model;

	if (!*vendor)
		vendor = intel ? "Genu" : "Auth";
	if (conf_model(c, intel, &model) || !words_unfit(model, vendor))
		return 0;
	return conf_replace(c, CONF_UNFIT, "1");
}

bool conf_is_unfit(const struct conf *c)
{
	return c->value[CONF_UNFIT];
}

/* Make *p of three keys from @first on: policy, allow and deny. *@limits: it denies anything. */
static int conf_policy(const struct conf *c, enum conf_key first, enum vpmu_space space,
		       struct vpmu_policy *p, bool *limits, char *err, size_t errlen)
{
	const char *tier = c->value[first], *allow = c->value[first + 1],
		   *deny = c->value[first + 2];
	const char *list = allow ? allow : deny;
	char why[200] = "";
	int ret;

	memset(p, 0, sizeof(*p));
	if (tier)
		vpmu_policy_tier_parse(tier, &p->tier);
	if (allow && deny)
		return fail(-EINVAL, err, errlen,
			    "deny: given with allow; expected only one of them");
	if (list) {
		p->action = allow ? VPMU_POLICY_ALLOW : VPMU_POLICY_DENY;
		ret = vpmu_policy_add(p, space, list, why, sizeof(why));
		if (ret)
			return fail(ret, err, errlen, "%s%s: %s",
				    first == CONF_LIMIT_POLICY ? "vpmud: " : "",
				    allow ? "allow" : "deny", why);
	}
	*limits = p->tier != VPMU_POLICY_FULL || p->action != VPMU_POLICY_NO_LIST;
	return 0;
}

int conf_apply(const struct conf *c, bool intel, struct vpmu_guest_cfg *cfg,
	       struct vpmu_policy policy[2], char *err, size_t errlen)
{
	enum vpmu_space space;
	bool own, limit;
	int ret;

	*cfg = (struct vpmu_guest_cfg){.no_lbr = true};
	if (conf_model(c, intel, &cfg->model))
		return fail(-EINVAL, err, errlen,
			    "pmu: \"%.80s\" is invalid; expected auto, none or a model",
			    c->value[CONF_PMU]);
	space = words_is_intel(cfg->model) ? VPMU_SPACE_INTEL : VPMU_SPACE_AMD;
	ret = conf_gp(c, cfg, err, errlen);
	if (!ret)
		ret = conf_policy(c, CONF_POLICY, space, &policy[0], &own, err, errlen);
	if (!ret)
		ret = conf_policy(c, CONF_LIMIT_POLICY, space, &policy[1], &limit, err, errlen);
	if (ret)
		return ret;
	policy[0].also = limit ? &policy[1] : NULL;
	cfg->policy = own || limit ? &policy[0] : NULL;
	return 0;
}

/* ---- vpmud's limits ---- */

int conf_limit(struct conf *c, const struct conf *limit, char *err, size_t errlen)
{
	const char *pmu = limit->value[CONF_PMU], *gp = limit->value[CONF_GP];
	unsigned int own_gp, max_gp;
	int ret = 0;

	for (unsigned int k = CONF_POLICY; !ret && k <= CONF_DENY; k++)
		ret = conf_replace(c, CONF_LIMIT_POLICY + (k - CONF_POLICY), limit->value[k]);
	if (!ret && pmu && strcmp(pmu, "auto") && !conf_has(c, CONF_PMU, "none")) {
		if (strcmp(pmu, "none") && c->value[CONF_PMU] && !conf_has(c, CONF_PMU, "auto") &&
		    !conf_has(c, CONF_PMU, pmu))
			return fail(-EACCES, err, errlen,
				    "pmu: %s is invalid; expected %s, which vpmud gives this "
				    "tenant, or none",
				    c->value[CONF_PMU], pmu);
		ret = conf_replace(c, CONF_PMU, pmu);
	}
	if (!ret && gp && !guest_gp_parse(gp, &max_gp) &&
	    (!c->value[CONF_GP] || guest_gp_parse(c->value[CONF_GP], &own_gp) || own_gp > max_gp))
		ret = conf_replace(c, CONF_GP, gp);
	return ret == -ENOMEM ? fail(ret, err, errlen, "out of memory") : ret;
}
