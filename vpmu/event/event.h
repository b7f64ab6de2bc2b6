/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of events, and perf's attributes for them.
 *
 * The CLI, the control socket, policies and configuration parse names; the perf host PMU asks for
 * attributes. None of this is for the switch path.
 */
#ifndef VPMU_EVENT_EVENT_H
#define VPMU_EVENT_EVENT_H

#include <stddef.h>

#include "vpmu/event/key.h"

struct perf_event_attr;

/*
 * vpmu_key_to_attr / vpmu_key_from_attr - to and from the perf ABI. to_attr fills *attr whole
 * (size, type, config, exclude_*; disabled and inherit stay 0). Raw keys of the other vendor than
 * the running CPU's, and generic events perf has no encoding of that meaning for on it, give
 * -EOPNOTSUPP; an invalid key -EINVAL. from_attr refuses sampling attrs and attrs a key cannot
 * express (config1..3, precise_ip) with -EINVAL. Any thread; may take libpfm's lock.
 */
int vpmu_key_to_attr(vpmu_key_t key, struct perf_event_attr *attr);
int vpmu_key_from_attr(const struct perf_event_attr *attr, vpmu_key_t *key);

/*
 * vpmu_event_parse - one event name to a key.
 * Accepts perf's generic names and aliases (instructions, cycles, cpu-cycles, branches,
 * branch-instructions, branches-taken, ref-cycles, loads, stores, ...), software events
 * (task-clock, context-switches, ...), raw rHEX (the vendor of @raw_space, or that of "intel::" or
 * "amd::" in front), and libpfm4 names ("skl::BR_INST_RETIRED:NEAR_TAKEN",
 * "amd64_fam19h_zen4::RETIRED_INSTRUCTIONS"), each with perf modifiers ":u", ":k", ":G", ":H".
 * Default: USR | OS | GUEST; software events: USR | OS | GUEST | HOST.
 * On error returns -EINVAL / -ENOENT and writes one line saying what and what is accepted to
 * @err (size @errlen, may be NULL). Takes libpfm's lock at most: not for hot paths.
 */
int vpmu_event_parse(const char *name, enum vpmu_space raw_space, vpmu_key_t *key, char *err,
		     size_t errlen);

/*
 * vpmu_event_parse_list - comma separated list as in `perf stat -e`, {groups} allowed and flat.
 * Fills keys[0..*n) and names (each a malloc'd string owned by the caller, if @names not NULL; a
 * group's modifiers are part of each of its names). *n is the capacity on entry. -E2BIG when it is
 * too small; else as vpmu_event_parse. On error *n is 0, no name is left allocated, and @err says
 * at which character.
 */
int vpmu_event_parse_list(const char *list, enum vpmu_space raw_space, vpmu_key_t *keys,
			  char **names, size_t *n, char *err, size_t errlen);

/* vpmu_event_name - canonical name of @key into @buf ("instructions:u"); returns @buf. The name
 * parses back to the same key. Any thread. */
#define VPMU_EVENT_NAME_MAX 96
const char *vpmu_event_name(vpmu_key_t key, char buf[VPMU_EVENT_NAME_MAX]);

/* vpmu_event_list - call @fn for every generic and software event name with its description.
 * Stops when @fn returns non-zero and returns that. */
struct vpmu_event_info {
	const char *name;
	const char *alias; /* or NULL */
	const char *desc;
	vpmu_key_t key;
};
int vpmu_event_list(int (*fn)(const struct vpmu_event_info *info, void *arg), void *arg);

#endif
