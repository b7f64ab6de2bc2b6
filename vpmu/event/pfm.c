// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Encoding of libpfm4's event names, for any PMU that libpfm supports, because guests can have
 * another one than the running CPU's. parse.c and the vendors' files call this. libpfm is not
 * documented as thread-safe, so a lock protects all of it: never call this from the switch path.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perfmon/pfmlib_perf_event.h>

#include "vpmu/event/priv.h"
#include "vpmu/event/vendor.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/nearest.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int init_rc;

/*
 * Without LIBPFM_ENCODE_INACTIVE in the environment, pfm_initialize() enables the running CPU's
 * tables only. It is set before main(), because setenv() in a process with threads races with every
 * getenv().
 */
static void __attribute__((constructor)) encode_inactive(void)
{
	setenv("LIBPFM_ENCODE_INACTIVE", "1", 0);
}

static void pfm_init(void)
{
	init_rc = pfm_initialize();
}

/* Initialize libpfm if necessary, and take the lock. -ENOENT, without the lock: initialization
 * failed. */
static int pfm_enter(void)
{
	pthread_once(&once, pfm_init);
	if (init_rc != PFM_SUCCESS)
		return -ENOENT;
	pthread_mutex_lock(&lock);
	return 0;
}

static void pfm_leave(void)
{
	pthread_mutex_unlock(&lock);
}

/* Store the first @max codes of @name, their total number and the event's index. Returns PFM_*. */
static int pfm_encode(const char *name, uint64_t *codes, int max, int *count, int *idx)
{
	pfm_pmu_encode_arg_t arg = {.size = sizeof(arg)};
	int rc = pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_NONE, &arg);

	if (rc == PFM_SUCCESS) {
		*count = arg.count;
		*idx = arg.idx;
		if (arg.count > 0)
			memcpy(codes, arg.codes,
			       sizeof(*codes) * (size_t)(arg.count < max ? arg.count : max));
	}
	free(arg.codes);
	return rc;
}

bool vpmu_pfm_host_has(const char *event, uint64_t mask, uint64_t config)
{
	uint64_t codes[1] = {0};
	int count = 0, idx;
	bool has;

	if (pfm_enter())
		return false;
	/* Without "pmu::", only the tables of the running CPU are searched. */
	has = pfm_encode(event, codes, 1, &count, &idx) == PFM_SUCCESS && count == 1 &&
	      (codes[0] & mask) == config;
	pfm_leave();
	return has;
}

static bool pmu_info(pfm_pmu_t pmu, pfm_pmu_info_t *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	return pfm_get_pmu_info(pmu, info) == PFM_SUCCESS;
}

/* The vendor of a core PMU's table, or NULL. */
static const struct event_vendor *pmu_vendor(const pfm_pmu_info_t *info)
{
	if (info->type != PFM_PMU_TYPE_CORE)
		return NULL;
	for (const struct event_vendor *const *v = vpmu_event_vendors; *v; v++) {
		if ((*v)->pfm_has(info->name))
			return *v;
	}
	return NULL;
}

/* Copy the part of @name before "::" to @pmu, and return the part after it. */
static const char *split_pmu(const char *name, char *pmu, size_t len)
{
	const char *sep = strstr(name, "::");

	if (!sep) {
		pmu[0] = '\0';
		return name;
	}
	snprintf(pmu, len, "%.*s", (int)(sep - name), name);
	return sep + 2;
}

/* Try the event names of @info as candidates for @n. */
static void near_event(const pfm_pmu_info_t *info, struct vpmu_nearest *n)
{
	pfm_event_info_t ei;
	int i;

	for (i = info->first_event; i != -1; i = pfm_get_event_next(i)) {
		memset(&ei, 0, sizeof(ei));
		ei.size = sizeof(ei);
		if (pfm_get_event_info(i, PFM_OS_NONE, &ei) == PFM_SUCCESS)
			vpmu_nearest_try(n, ei.name);
	}
}

/*
 * Find the first of @attrs ("UMASK:c=1:...") that @event does not have: copy it to @buf, and set
 * @n->best to the nearest one. Returns false if the event has all of them.
 */
static bool unknown_attr(const pfm_pmu_info_t *info, const char *event, const char *attrs,
			 char *buf, size_t len, struct vpmu_nearest *n)
{
	pfm_event_attr_info_t ai;
	pfm_event_info_t ei;
	bool known = false;
	int i, a;

	for (i = info->first_event; i != -1; i = pfm_get_event_next(i)) {
		memset(&ei, 0, sizeof(ei));
		ei.size = sizeof(ei);
		if (pfm_get_event_info(i, PFM_OS_NONE, &ei) == PFM_SUCCESS &&
		    !strcasecmp(ei.name, event))
			break;
	}
	if (i == -1)
		return false;

	for (; *attrs; attrs += strcspn(attrs, ":"), attrs += *attrs == ':') {
		snprintf(buf, len, "%.*s", (int)strcspn(attrs, ":="), attrs);
		vpmu_nearest_init(n, buf);
		for (known = false, a = 0; a < ei.nattrs && !known; a++) {
			memset(&ai, 0, sizeof(ai));
			ai.size = sizeof(ai);
			if (pfm_get_event_attr_info(i, a, PFM_OS_NONE, &ai) != PFM_SUCCESS)
				continue;
			vpmu_nearest_try(n, ai.name);
			known = !strcasecmp(ai.name, buf);
		}
		if (!known)
			return true;
	}
	return false;
}

/* Write the reason why libpfm rejected @name to @err. With the lock held. */
static int explain(const char *name, int pfm_rc, char *err, size_t errlen)
{
	char pmu[64], event[96], attr[96];
	struct vpmu_nearest near_pmu, near;
	pfm_pmu_info_t info;
	const char *rest = split_pmu(name, pmu, sizeof(pmu));
	const char *colon = strchr(rest, ':');
	bool found = false;
	int i;

	snprintf(event, sizeof(event), "%.*s", colon ? (int)(colon - rest) : (int)strlen(rest),
		 rest);
	/* Not a libpfm name; the caller writes the error. */
	if (rest == name)
		return fail(-ENOENT, err, errlen, "%s", "");

	vpmu_nearest_init(&near_pmu, pmu);
	pfm_for_all_pmus(i)
	{
		if (!pmu_info((pfm_pmu_t)i, &info) || !pmu_vendor(&info))
			continue;
		vpmu_nearest_try(&near_pmu, info.name);
		if (!strcasecmp(info.name, pmu)) {
			found = true;
			break;
		}
	}
	if (!found)
		return fail(-ENOENT, err, errlen,
			    "event '%s': libpfm4 has no core PMU '%s'%s%s%s; expected a PMU such "
			    "as skl, icl, amd64_fam19h_zen4",
			    name, pmu, near_pmu.best ? " (did you mean '" : "",
			    near_pmu.best ? near_pmu.best : "", near_pmu.best ? "'?)" : "");

	if (colon && unknown_attr(&info, event, colon + 1, attr, sizeof(attr), &near))
		return fail(-ENOENT, err, errlen,
			    "event '%s': %s has no unit mask or modifier '%s'%s%s%s", name, event,
			    attr, near.best ? "; did you mean '" : "", near.best ? near.best : "",
			    near.best ? "'?" : "");
	if (pfm_rc == PFM_ERR_ATTR_VAL)
		return fail(-EINVAL, err, errlen,
			    "event '%s': the value of a modifier is out of range; expected "
			    "c=0..255, e, i, u, k",
			    name);
	if (pfm_rc == PFM_ERR_ATTR || pfm_rc == PFM_ERR_UMASK || pfm_rc == PFM_ERR_FEATCOMB)
		return fail(-EINVAL, err, errlen,
			    "event '%s': %s does not take this combination of unit masks "
			    "and modifiers",
			    name, event);
	if (pfm_rc == PFM_ERR_NOTFOUND) {
		vpmu_nearest_init(&near, event);
		near_event(&info, &near);
		return fail(-ENOENT, err, errlen, "event '%s': PMU %s has no event '%s'%s%s%s",
			    name, pmu, event, near.best ? "; did you mean '" : "",
			    near.best ? near.best : "", near.best ? "'?" : "");
	}
	return fail(-EINVAL, err, errlen, "event '%s': libpfm4: %s", name, pfm_strerror(pfm_rc));
}

/*
 * libpfm's own names of perf's events ("perf::PERF_COUNT_HW_CPU_CYCLES"). Their type is taken from
 * the name: libpfm reports it for PFM_OS_PERF_EVENT, but after 4.13 only if /sys is available.
 * Cache events, which have unit masks, are not supported.
 */
static int encode_perf(const char *name, const pfm_event_info_t *ei, uint64_t code, vpmu_key_t *key,
		       char *err, size_t errlen)
{
	const char *event = ei->equiv ? ei->equiv : ei->name;
	bool software = !strncmp(event, "PERF_COUNT_SW_", 14);
	bool hardware = !strncmp(event, "PERF_COUNT_HW_", 14) && !ei->nattrs;
	/* Guests only, unless :G or :H follow. */
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = software ? PERF_TYPE_SOFTWARE : PERF_TYPE_HARDWARE,
		.config = code,
		.exclude_host = !software,
	};

	if ((!software && !hardware) || vpmu_key_from_attr(&attr, key))
		return fail(-EINVAL, err, errlen,
			    "event '%s': not a counting event of one core counter; expected perf's "
			    "hardware and software events",
			    name);
	return 0;
}

static int check_code(const char *name, const struct event_vendor *vendor, uint64_t code, int count,
		      char *err, size_t errlen)
{
	const char *why;

	if (count != 1)
		return fail(-EINVAL, err, errlen,
			    "event '%s' needs a second register (off-core response, load latency "
			    "or front-end filter), which cannot be shared; expected events of one "
			    "event select",
			    name);
	why = vendor->pfm_refuse(code);
	return why ? fail(-EINVAL, err, errlen, "event '%s'%s", name, why) : 0;
}

int vpmu_pfm_encode(const char *name, enum vpmu_space *space, uint64_t *config, uint64_t *priv,
		    vpmu_key_t *key, char *err, size_t errlen)
{
	pfm_event_info_t ei = {.size = sizeof(ei)};
	const struct event_vendor *vendor;
	uint64_t codes[1] = {0};
	pfm_pmu_info_t info;
	int count = 0, idx = 0;
	int rc, ev;

	rc = pfm_enter();
	if (rc)
		return fail(rc, err, errlen, "event '%s': libpfm4 failed to start", name);

	rc = pfm_encode(name, codes, 1, &count, &idx);
	if (rc != PFM_SUCCESS) {
		rc = explain(name, rc, err, errlen);
		goto out;
	}
	rc = -EINVAL;
	if (pfm_get_event_info(idx, PFM_OS_NONE, &ei) != PFM_SUCCESS || !pmu_info(ei.pmu, &info)) {
		fail(rc, err, errlen, "event '%s': libpfm4 does not know its PMU", name);
		goto out;
	}
	if (info.type == PFM_PMU_TYPE_OS_GENERIC) {
		*space = 0;
		rc = encode_perf(name, &ei, codes[0], key, err, errlen);
		goto out;
	}

	vendor = pmu_vendor(&info);
	if (!vendor) {
		fail(rc, err, errlen,
		     "event '%s': %s is not a core PMU whose event selects are known; expected "
		     "core events",
		     name, info.name);
		goto out;
	}
	rc = check_code(name, vendor, codes[0], count, err, errlen);
	if (rc)
		goto out;
	*space = vendor->space;
	*priv = vendor->pfm_priv(codes[0]);
	*config = codes[0] & vendor->config_mask;
	ev = vendor->pseudo(*config);
	if (ev >= 0) {
		*key = vpmu_key_generic((enum vpmu_generic)ev, *priv);
		*space = 0;
	}
out:
	pfm_leave();
	return rc;
}
