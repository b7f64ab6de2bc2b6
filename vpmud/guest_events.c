// SPDX-License-Identifier: GPL-2.0-or-later
/* The host's list of events that guests may have; see guest_policy.h. config.c checks it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"
#include "vpmud/guest_policy.h"

int guests_parse(const char *list, vpmu_key_t key[GUESTS_EVENTS_MAX], char *err, size_t errlen)
{
	char *copy = xstrdup(list), *rest = copy, *name;
	int n = 0, ret = 0;

	if (!strcmp(list, "none"))
		rest = NULL;
	while (!ret && (name = strsep(&rest, " \t"))) {
		if (!*name)
			continue;
		if (n == GUESTS_EVENTS_MAX) {
			ret = fail(-E2BIG, err, errlen, "expected up to %d events",
				   GUESTS_EVENTS_MAX);
			break;
		}
		ret = vpmu_event_parse(name, vpmu_event_host_space(), &key[n], err, errlen);
		if (!ret && vpmu_key_space(key[n]) == VPMU_SPACE_SCHED)
			ret = fail(-EINVAL, err, errlen,
				   "event '%s' is the scheduler's; expected one of perf's", name);
		if (!ret)
			key[n++] &= ~(VPMU_KEY_USR | VPMU_KEY_OS);
	}
	free(copy);
	return ret ? (ret == -E2BIG ? ret : -EINVAL) : n;
}
