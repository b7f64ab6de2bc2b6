// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of CPUs; see cpu_list.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/cpu_list.h"
#include "vpmu/util/fail.h"

/* Parse a number of up to 6 digits. */
static bool cpu_list_number(const char **at, unsigned long *out)
{
	size_t digits = strspn(*at, "0123456789");

	if (!digits || digits > 6)
		return false;
	*out = strtoul(*at, NULL, 10);
	*at += digits;
	return true;
}

int cpu_list_parse(const char *text, bool *set, unsigned int nr, char *err, size_t errlen)
{
	unsigned long first, last;
	const char *at = text;

	memset(set, 0, nr * sizeof(*set));
	for (;;) {
		if (!cpu_list_number(&at, &first))
			break;
		last = first;
		if (*at == '-' && (at++, !cpu_list_number(&at, &last)))
			break;
		if (last < first || last >= nr)
			break;
		for (; first <= last; first++)
			set[first] = true;
		if (!*at)
			return 0;
		if (*at++ != ',')
			break;
	}
	return fail(-EINVAL, err, errlen,
		    "cpus: \"%.40s\" is invalid; expected a list such as 0,2-4 of CPUs 0 to %u",
		    text, nr - 1);
}
