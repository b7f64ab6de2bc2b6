/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event names, and perf attributes for event keys.
 *
 * The CLI, the control socket, policies and configuration files parse names; the perf host PMU
 * needs attributes. Not for the switch path.
 */
#ifndef VPMU_EVENT_EVENT_H
#define VPMU_EVENT_EVENT_H

#include <stddef.h>

#include "vpmu/event/key.h"

#ifdef __cplusplus
extern "C" {
#endif

struct perf_event_attr;

/*
 * vpmu_key_to_attr - fill *@attr for perf_event_open on this CPU: size, type, config and exclude_*;
 * everything else is 0. Returns 0; -EINVAL: @key is invalid; -EOPNOTSUPP: a raw key of another
 * vendor, or a generic event for which perf has no exact encoding on this CPU.
 * vpmu_key_from_attr - the inverse. -EINVAL: @attr samples, or has a setting that a key cannot hold
 * (config1, config2, precise_ip, an event of another PMU).
 * Any thread. Both may take libpfm's lock.
 */
int vpmu_key_to_attr(vpmu_key_t key, struct perf_event_attr *attr);
int vpmu_key_from_attr(const struct perf_event_attr *attr, vpmu_key_t *key);

/*
 * vpmu_event_parse - parse one event name into *@key. A name is one of these:
 *
 *   a generic event or perf's alias of it   instructions, cycles, cpu-cycles, loads
 *   a software event                        task-clock, context-switches
 *   perf's name of a cache event            L1-dcache-load-misses, dTLB-load-misses
 *   a raw code of @raw_space's vendor       r1a8
 *   a raw code of a named vendor            intel::r1a8, amd::r1a8, arm::r24
 *   a name of libpfm4                       skl::BR_INST_RETIRED:NEAR_TAKEN
 *
 * optionally followed by perf's modifiers: ":u" user, ":k" kernel, ":G" guest, ":H" host. Without
 * them an event counts user and kernel in guests, and a software event in guest and host.
 *
 * Returns 0; -EINVAL: malformed name; -ENOENT: no such event. On an error, @err (@errlen bytes, may
 * be NULL) receives one line with the fault and the expected form. Any thread; may take libpfm's
 * lock, so not for hot paths.
 */
int vpmu_event_parse(const char *name, enum vpmu_space raw_space, vpmu_key_t *key, char *err,
		     size_t errlen);

/* vpmu_event_host_too - returns @key, the result of vpmu_event_parse for @name, but counting in
 * guests and in the host unless @name has :G or :H. Any thread. */
vpmu_key_t vpmu_event_host_too(const char *name, vpmu_key_t key);

/*
 * vpmu_event_parse_list - parse a comma-separated list of names, as in `perf stat -e`. Groups in
 * braces only distribute their modifiers: "{cycles,loads}:u" is the same as "cycles:u,loads:u".
 *
 * *@n is the capacity of @keys (and @names) on entry, and the number of events on return. If @names
 * is not NULL, names[i] is set to the name of keys[i], which the caller frees. Errors: -E2BIG: *@n
 * is too small; -ENOMEM; else as vpmu_event_parse, and @err includes the character position. On an
 * error *@n is 0 and no name is allocated.
 */
int vpmu_event_parse_list(const char *list, enum vpmu_space raw_space, vpmu_key_t *keys,
			  char **names, size_t *n, char *err, size_t errlen);

/* vpmu_event_host_space - returns the raw event space of the running CPU, for @raw_space; 0:
 * unknown vendor. Any thread. */
enum vpmu_space vpmu_event_host_space(void);

/* vpmu_event_name - write the canonical name of @key ("instructions:u") to @buf and return @buf.
 * vpmu_event_parse maps it back to @key, except for keys with VPMU_KEY_SVM, which only a guest can
 * ask for: it refuses their names ("instructions/GuestOnly"). Any thread. */
#define VPMU_EVENT_NAME_MAX 96
const char *vpmu_event_name(vpmu_key_t key, char buf[VPMU_EVENT_NAME_MAX]);

/* vpmu_event_list - call @fn for each generic and each software event until it returns non-zero.
 * Returns 0 or @fn's value. Any thread. */
struct vpmu_event_info {
	const char *name;
	const char *alias; /* or NULL */
	const char *desc;
	vpmu_key_t key;
};
int vpmu_event_list(int (*fn)(const struct vpmu_event_info *info, void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
