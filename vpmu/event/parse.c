// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Parsing of event names from operators, clients of the control socket and configuration files. The
 * text is untrusted: it must not be copied without a limit. Every error is one line with the fault
 * and the expected form.
 *
 *   name  := base [":" modifiers]
 *   base  := generic, software or cache name | [vendor "::"] rHEX | libpfm4 name
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/event/priv.h"
#include "vpmu/event/vendor.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/nearest.h"

#define ACCEPTED                                                                                   \
	"expected names that `vpmu events` lists, rHEX, libpfm4 names (pmu::EVENT:UMASK), each "   \
	"with :u :k :G :H"

/* A parsed base, before it becomes a key. */
struct spec {
	enum vpmu_space space;
	uint64_t config; /* raw spaces */
	uint16_t event;	 /* generic and software */
	uint64_t priv;	 /* privilege levels given by the base itself */
	bool whole;	 /* @key is complete, except for modifiers (libpfm's "perf::" events) */
	vpmu_key_t key;
};

/* ---- modifiers --------------------------------------------------------------------------- */

static bool all_of(const char *s, const char *letters)
{
	return *s && !s[strspn(s, letters)];
}

char *vpmu_find_modifiers(char *name, const char *letters)
{
	char *colon = strrchr(name, ':');

	if (!colon || colon == name || colon[-1] == ':' || !all_of(colon + 1, letters))
		return NULL;
	return colon;
}

struct mods {
	uint64_t priv;	/* 0: not given */
	uint64_t where; /* 0: not given */
};

static int parse_modifiers(const char *name, const char *mods, struct mods *m, char *err,
			   size_t errlen)
{
	bool hv = false;

	for (; *mods; mods++) {
		switch (*mods) {
		case 'u':
			m->priv |= VPMU_KEY_USR;
			break;
		case 'k':
			m->priv |= VPMU_KEY_OS;
			break;
		case 'h':
			hv = true;
			break;
		case 'G':
			m->where |= VPMU_KEY_GUEST;
			break;
		case 'H':
			m->where |= VPMU_KEY_HOST;
			break;
		case 'p':
		case 'P':
			return fail(-EINVAL, err, errlen,
				    "event '%s': modifier '%c' requests precise samples, which "
				    "counters that are shared cannot give; expected u k h G H",
				    name, *mods);
		default:
			return fail(-EINVAL, err, errlen,
				    "event '%s': modifier '%c' selects how to count, not the "
				    "event; expected u k h G H",
				    name, *mods);
		}
	}
	/* Keys have no separate hypervisor level, so h adds nothing to u or k. */
	if (hv && !m->priv)
		return fail(-EINVAL, err, errlen,
			    "event '%s': modifier 'h' alone counts nothing: there is no hypervisor "
			    "level apart from the host's; expected u k G H",
			    name);
	return 0;
}

/* ---- the forms of a base ------------------------------------------------------------------ */

static bool same_name(const char *s, const char *name, const char *alias)
{
	return name && (!strcmp(s, name) || (alias && !strcmp(s, alias)));
}

static bool lookup_named(const char *base, struct spec *spec)
{
	unsigned int i;

	for (i = 0; i < VPMU_EV_GENERIC_NR; i++) {
		if (!same_name(base, vpmu_generic_rows[i].name, vpmu_generic_rows[i].alias))
			continue;
		spec->space = VPMU_SPACE_GENERIC;
		spec->event = (uint16_t)i;
		return true;
	}
	for (i = 0; i < VPMU_SW_NR; i++) {
		if (!same_name(base, vpmu_software_rows[i].name, vpmu_software_rows[i].alias))
			continue;
		spec->space = VPMU_SPACE_SOFTWARE;
		spec->event = (uint16_t)i;
		return true;
	}
	for (i = 0; i < VPMU_SCHED_NR; i++) {
		if (!same_name(base, vpmu_sched_rows[i].name, vpmu_sched_rows[i].alias))
			continue;
		spec->space = VPMU_SPACE_SCHED;
		spec->event = (uint16_t)i;
		return true;
	}
	return false;
}

/* Returns the vendor before "::" in *base and advances *base past it; NULL if there is none. */
static const struct event_vendor *split_vendor(const char **base)
{
	for (const struct event_vendor *const *v = vpmu_event_vendors; *v; v++) {
		size_t len = strlen((*v)->name);

		if (!strncmp(*base, (*v)->name, len) && !strncmp(*base + len, "::", 2)) {
			*base += len + 2;
			return *v;
		}
	}
	return NULL;
}

/* Error for a raw code without a vendor and without a default: list the vendors. */
static int vendor_missing(const char *name, const char *base, char *err, size_t errlen)
{
	char all[256] = "";
	size_t len = 0;

	for (const struct event_vendor *const *v = vpmu_event_vendors; *v && len < sizeof(all); v++)
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s::%.32s",
					len ? " or " : "", (*v)->name, base);
	return fail(-EINVAL, err, errlen, "event '%s': raw codes need a vendor here; expected %s",
		    name, all);
}

/* Parse rHEX, of the vendor before it or else of @raw_space. Returns 1; 0 if @base is not a raw
 * code; -errno. */
static int parse_raw(const char *name, const char *base, enum vpmu_space raw_space,
		     struct spec *spec, char *err, size_t errlen)
{
	const struct event_vendor *vendor = split_vendor(&base);

	if (!vendor)
		vendor = vpmu_event_vendor(raw_space);
	if (base[0] != 'r' || !base[1] ||
	    strspn(base + 1, "0123456789abcdefABCDEF") != strlen(base + 1))
		return 0;

	if (!vendor)
		return vendor_missing(name, base, err, errlen);
	errno = 0;
	spec->config = strtoull(base + 1, NULL, 16);
	if (errno || spec->config & ~vendor->config_mask)
		return fail(-EINVAL, err, errlen,
			    "event '%s': bits outside of 0x%llx (%s); privilege is :u or :k", name,
			    (unsigned long long)vendor->config_mask, vendor->fields);
	spec->space = vendor->space;
	return 1;
}

static int unknown_event(const char *name, const char *base, char *err, size_t errlen)
{
	const char *colon = strrchr(base, ':');
	struct vpmu_nearest near;
	struct spec spec = {0};
	char known[NAME_MAX_BYTES + 1];
	unsigned int i;

	if (colon) {
		snprintf(known, sizeof(known), "%.*s", (int)(colon - base), base);
		if (lookup_named(known, &spec))
			return fail(-EINVAL, err, errlen,
				    "event '%s': '%s' is no modifier; expected u k h G H", name,
				    colon + 1);
	}
	vpmu_nearest_init(&near, base);
	for (i = 0; i < VPMU_EV_GENERIC_NR; i++) {
		vpmu_nearest_try(&near, vpmu_generic_rows[i].name);
		vpmu_nearest_try(&near, vpmu_generic_rows[i].alias);
	}
	for (i = 0; i < VPMU_SW_NR; i++) {
		vpmu_nearest_try(&near, vpmu_software_rows[i].name);
		vpmu_nearest_try(&near, vpmu_software_rows[i].alias);
	}
	for (i = 0; vpmu_cache_name(i); i++)
		vpmu_nearest_try(&near, vpmu_cache_name(i));
	for (i = 0; i < VPMU_SCHED_NR; i++) {
		vpmu_nearest_try(&near, vpmu_sched_rows[i].name);
		vpmu_nearest_try(&near, vpmu_sched_rows[i].alias);
	}
	if (near.best)
		return fail(-ENOENT, err, errlen,
			    "unknown event '%s'; did you mean '%s'? " ACCEPTED, name, near.best);
	/* perf's SUBSYSTEM:NAME; events of libpfm4 have capitals. */
	if (colon && colon > base && strlen(colon) > 3 &&
	    strspn(base, "abcdefghijklmnopqrstuvwxyz0123456789_:") == strlen(base))
		return fail(-ENOENT, err, errlen,
			    "event '%s' is invalid: tracepoints are not counted; " ACCEPTED, name);
	return fail(-ENOENT, err, errlen, "unknown event '%s'; " ACCEPTED, name);
}

static int parse_pfm(const char *name, const char *base, struct spec *spec, char *err,
		     size_t errlen)
{
	int rc;

	if (err && errlen)
		err[0] = '\0';
	rc = vpmu_pfm_encode(base, &spec->space, &spec->config, &spec->priv, &spec->key, err,
			     errlen);
	if (rc == -ENOENT && !strstr(base, "::"))
		return unknown_event(name, base, err, errlen);
	spec->whole = !rc && !spec->space;
	return rc;
}

/* Parse @base, a writable copy of @name. Cuts the modifiers off @base and sets *mods to them. */
static int parse_base(const char *name, char *base, enum vpmu_space raw_space, struct spec *spec,
		      const char **mods, char *err, size_t errlen)
{
	char *colon = vpmu_find_modifiers(base, MODS_ON_PERF_NAMES);
	int rc;

	*mods = "";
	if (colon) {
		*colon = '\0';
		*mods = colon + 1;
	}
	if (lookup_named(base, spec) ||
	    vpmu_cache_event(base, raw_space, &spec->space, &spec->event, &spec->config))
		return 0;
	rc = parse_raw(name, base, raw_space, spec, err, errlen);
	if (rc)
		return rc < 0 ? rc : 0;

	if (colon && !all_of(*mods, MODS_ANYWHERE)) {
		*colon = ':';
		*mods = "";
	}
	return parse_pfm(name, base, spec, err, errlen);
}

/* ---- one event ---------------------------------------------------------------------------- */

static int software_key(const char *name, const struct spec *spec, const struct mods *m,
			vpmu_key_t *key, char *err, size_t errlen)
{
	const struct software_row *row = spec->space == VPMU_SPACE_SCHED
						 ? &vpmu_sched_rows[spec->event]
						 : &vpmu_software_rows[spec->event];
	uint64_t priv = m->priv ? m->priv : VPMU_KEY_PRIV;

	if (m->where && m->where != VPMU_KEY_WHERE)
		return fail(-EINVAL, err, errlen,
			    "event '%s': the kernel counts software events of a thread in guest "
			    "and host alike; expected '%s'",
			    name, row->name);
	if (row->priv == SW_PRIV_NONE && priv != VPMU_KEY_PRIV)
		return fail(-EINVAL, err, errlen,
			    "event '%s': the kernel does not separate user from kernel for this "
			    "event; expected '%s'",
			    name, row->name);
	*key = vpmu_key_make(spec->space, spec->event, priv | VPMU_KEY_WHERE);
	return 0;
}

static int make_key(const char *name, const struct spec *spec, const struct mods *m,
		    vpmu_key_t *key, char *err, size_t errlen)
{
	uint64_t flags;

	if (spec->whole && vpmu_key_space(spec->key) == VPMU_SPACE_SOFTWARE) {
		struct spec sw = {.space = VPMU_SPACE_SOFTWARE,
				  .event = (uint16_t)vpmu_key_event(spec->key)};

		return software_key(name, &sw, m, key, err, errlen);
	}
	if (spec->space == VPMU_SPACE_SOFTWARE || spec->space == VPMU_SPACE_SCHED)
		return software_key(name, spec, m, key, err, errlen);

	flags = m->where ? m->where : VPMU_KEY_GUEST;
	if (m->priv)
		flags |= m->priv;
	else if (spec->whole)
		flags |= spec->key & VPMU_KEY_PRIV;
	else
		flags |= spec->space == VPMU_SPACE_GENERIC ? VPMU_KEY_PRIV : spec->priv;

	if (spec->whole)
		*key = (spec->key & ~VPMU_KEY_FLAGS) | flags;
	else if (spec->space == VPMU_SPACE_GENERIC)
		*key = vpmu_key_make(VPMU_SPACE_GENERIC, spec->event, flags);
	else
		*key = vpmu_key_from_raw(spec->space, spec->config, flags);

	if (!vpmu_key_valid(*key))
		return fail(-EINVAL, err, errlen,
			    "event '%s' counts at no privilege level; expected :u, :k or neither "
			    "for both",
			    name);
	return 0;
}

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:="

int vpmu_event_parse(const char *name, enum vpmu_space raw_space, vpmu_key_t *key, char *err,
		     size_t errlen)
{
	struct spec spec = {.priv = VPMU_KEY_PRIV};
	struct mods mods = {0};
	char base[NAME_MAX_BYTES + 1];
	size_t len = strlen(name), good = strspn(name, NAME_CHARS);
	const char *letters;
	int rc;

	if (!len)
		return fail(-EINVAL, err, errlen, "empty event name; " ACCEPTED);
	if (len > NAME_MAX_BYTES)
		return fail(-EINVAL, err, errlen,
			    "event '%.32s...' is %zu bytes long; expected up to %d", name, len,
			    NAME_MAX_BYTES);
	if (name[good] == '/')
		return fail(-EINVAL, err, errlen,
			    "event '%.64s': perf's PMU/TERMS/ is unknown here; " ACCEPTED, name);
	if (good != len)
		return fail(-EINVAL, err, errlen,
			    "event '%.64s': character %zu cannot be part of a name; expected "
			    "letters, digits and _-.:=",
			    name, good + 1);

	memcpy(base, name, len + 1);
	rc = parse_base(name, base, raw_space, &spec, &letters, err, errlen);
	if (!rc)
		rc = parse_modifiers(name, letters, &mods, err, errlen);
	if (!rc)
		rc = make_key(name, &spec, &mods, key, err, errlen);
	return rc;
}

vpmu_key_t vpmu_event_host_too(const char *name, vpmu_key_t key)
{
	/* vpmu_find_modifiers does not write. */
	const char *mods = vpmu_find_modifiers((char *)name, MODS_ANYWHERE);

	if (mods && strpbrk(mods, "GH"))
		return key;
	return key | VPMU_KEY_GUEST | VPMU_KEY_HOST;
}
