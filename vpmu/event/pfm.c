// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libpfm4's event names to encodings. Any PMU's table may be named, not only the running CPU's:
 * guests and soft machines have other ones. Slow path only; one lock around all of libpfm, whose
 * calls are not documented as thread-safe.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <perfmon/pfmlib_perf_event.h>

#include "vpmu/event/priv.h"
#include "vpmu/fail.h"

/* Bits that libpfm sets in every PERFEVTSEL it makes and that do not say what is counted:
 * USR, OS, INT, EN (SDM vol. 3, figure 20-1). */
#define SEL_USR	       (1ULL << 16)
#define SEL_OS	       (1ULL << 17)
#define SEL_INT	       (1ULL << 20)
#define SEL_ANY	       (1ULL << 21)
#define SEL_EN	       (1ULL << 22)
#define SEL_IN_TX      (3ULL << 32) /* Intel */
#define SEL_HOST_GUEST (3ULL << 40) /* AMD HostOnly, GuestOnly */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int init_rc;

/*
 * libpfm reads LIBPFM_ENCODE_INACTIVE from the environment in pfm_initialize(). Set it before
 * main(), as setenv() in a process with threads would race with every getenv().
 */
static void __attribute__((constructor)) encode_inactive(void)
{
	setenv("LIBPFM_ENCODE_INACTIVE", "1", 0);
}

static void init(void)
{
	init_rc = pfm_initialize();
}

/* Locks on success. */
static int pfm_enter(void)
{
	pthread_once(&once, init);
	if (init_rc != PFM_SUCCESS)
		return -ENOENT;
	pthread_mutex_lock(&lock);
	return 0;
}

static void pfm_leave(void)
{
	pthread_mutex_unlock(&lock);
}

/* Encode @name to codes[0..*count), at most @max; the event's index to *idx. PFM_* result. */
static int encode(const char *name, uint64_t *codes, int max, int *count, int *idx)
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

bool vpmu_pfm_host_has(const char *event, uint64_t code)
{
	uint64_t codes[1] = {0};
	int count = 0, idx;
	bool has;

	if (pfm_enter())
		return false;
	/* A name without "pmu::" is looked up in the tables of the running CPU only. */
	has = encode(event, codes, 1, &count, &idx) == PFM_SUCCESS && count == 1 &&
	      (codes[0] & vpmu_raw_config_mask(VPMU_SPACE_INTEL)) == code;
	pfm_leave();
	return has;
}

static bool pmu_info(pfm_pmu_t pmu, pfm_pmu_info_t *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	return pfm_get_pmu_info(pmu, info) == PFM_SUCCESS;
}

/*
 * The key space of a core PMU's table, or 0. libpfm for x86 has only x86 tables; of those, two do
 * not have the PERFEVTSEL layout of the manuals (Pentium 4) or their event codes (Knights Corner).
 */
static enum vpmu_space pmu_space(const pfm_pmu_info_t *info)
{
#ifdef __x86_64__
	if (info->type != PFM_PMU_TYPE_CORE)
		return 0;
	if (!strncmp(info->name, "netburst", 8) || !strcmp(info->name, "knc"))
		return 0;
	return strncmp(info->name, "amd64_", 6) ? VPMU_SPACE_INTEL : VPMU_SPACE_AMD;
#else
	return 0;
#endif
}

/* Up to the "::" of @name, to @pmu; the rest is returned. */
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

/* Feed @n the names of @info's events. */
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
 * The first of @attrs ("UMASK:c=1:...") that @event does not have goes to @n->word, in @buf, and
 * what it may have meant to @n->best. False when the event has all of them.
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

/* Why libpfm refused @name, as well as it can be said. Called with the lock held. */
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
	/* The caller has more to say about names that libpfm never heard of. */
	if (rest == name)
		return fail(-ENOENT, err, errlen, "%s", "");

	vpmu_nearest_init(&near_pmu, pmu);
	pfm_for_all_pmus(i)
	{
		if (!pmu_info((pfm_pmu_t)i, &info) || !pmu_space(&info))
			continue;
		vpmu_nearest_try(&near_pmu, info.name);
		if (!strcasecmp(info.name, pmu)) {
			found = true;
			break;
		}
	}
	if (!found)
		return fail(-ENOENT, err, errlen,
			    "event '%s': libpfm4 has no core PMU '%s'%s%s%s; accepted: a "
			    "PMU such as skl, icl, amd64_fam19h_zen4",
			    name, pmu, near_pmu.best ? " (did you mean '" : "",
			    near_pmu.best ? near_pmu.best : "", near_pmu.best ? "'?)" : "");

	if (colon && unknown_attr(&info, event, colon + 1, attr, sizeof(attr), &near))
		return fail(-ENOENT, err, errlen,
			    "event '%s': %s has no unit mask or modifier '%s'%s%s%s", name, event,
			    attr, near.best ? "; did you mean '" : "", near.best ? near.best : "",
			    near.best ? "'?" : "");
	if (pfm_rc == PFM_ERR_ATTR_VAL)
		return fail(-EINVAL, err, errlen,
			    "event '%s': the value of a modifier is out of range; accepted: "
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

/* libpfm's own names of perf's events ("perf::PERF_COUNT_HW_CPU_CYCLES"). */
static int encode_perf(const char *name, vpmu_key_t *key, char *err, size_t errlen)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	pfm_perf_encode_arg_t arg = {.attr = &attr, .size = sizeof(arg)};

	if (pfm_get_os_event_encoding(name, PFM_PLM0 | PFM_PLM3, PFM_OS_PERF_EVENT, &arg) !=
	    PFM_SUCCESS)
		return fail(-EINVAL, err, errlen, "event '%s': libpfm4 has no encoding", name);
	/* Where to count is ours to say: guests, unless :G or :H follow. */
	attr.size = sizeof(attr);
	attr.exclude_guest = 0;
	attr.exclude_host = attr.type != PERF_TYPE_SOFTWARE;
	if (vpmu_key_from_attr(&attr, key))
		return fail(-EINVAL, err, errlen,
			    "event '%s': not a counting event of one core counter; "
			    "accepted: perf's hardware and software events",
			    name);
	return 0;
}

static int check_config(const char *name, enum vpmu_space space, uint64_t config, int count,
			char *err, size_t errlen)
{
	const uint64_t plumbing = SEL_USR | SEL_OS | SEL_INT | SEL_EN;
	uint64_t extra = config & ~vpmu_raw_config_mask(space) & ~plumbing;

	if (count != 1)
		return fail(-EINVAL, err, errlen,
			    "event '%s' needs a second register (off-core response, load "
			    "latency or front-end filter), which cannot be shared; accepted: "
			    "events of one event select",
			    name);
	if (extra & SEL_HOST_GUEST)
		return fail(-EINVAL, err, errlen,
			    "event '%s': write guest only and host only as :G and :H at the "
			    "end",
			    name);
	if (extra)
		return fail(-EINVAL, err, errlen, "event '%s' needs %s, which cannot be shared",
			    name,
			    extra & SEL_ANY	? "AnyThread (it counts the other hyper-thread too)"
			    : extra & SEL_IN_TX ? "transaction filtering"
						: "event select bits that a key does not have");
	return 0;
}

int vpmu_pfm_encode(const char *name, enum vpmu_space *space, uint64_t *config, uint64_t *priv,
		    vpmu_key_t *key, char *err, size_t errlen)
{
	pfm_event_info_t ei = {.size = sizeof(ei)};
	uint64_t codes[1] = {0};
	pfm_pmu_info_t info;
	int count = 0, idx = 0;
	int rc;

	rc = pfm_enter();
	if (rc)
		return fail(rc, err, errlen, "event '%s': libpfm4 failed to start", name);

	rc = encode(name, codes, 1, &count, &idx);
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
		rc = encode_perf(name, key, err, errlen);
		goto out;
	}

	*space = pmu_space(&info);
	if (!*space) {
		fail(rc, err, errlen,
		     "event '%s': %s is not a core PMU of Intel's or AMD's event select "
		     "layout; accepted: core events",
		     name, info.name);
		goto out;
	}
	rc = check_config(name, *space, codes[0], count, err, errlen);
	if (rc)
		goto out;
	*priv = (codes[0] & SEL_USR ? VPMU_KEY_USR : 0) | (codes[0] & SEL_OS ? VPMU_KEY_OS : 0);
	*config = codes[0] & vpmu_raw_config_mask(*space);
	if (*space == VPMU_SPACE_INTEL &&
	    (*config == PSEUDO_REF_CYCLES || *config == PSEUDO_SLOTS)) {
		*key = vpmu_key_generic(
			*config == PSEUDO_SLOTS ? VPMU_EV_SLOTS : VPMU_EV_REF_CYCLES, *priv);
		*space = 0;
	}
out:
	pfm_leave();
	return rc;
}
