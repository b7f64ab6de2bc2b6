// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds a few of QEMU's options, see conf.h. An option's value is the next argument, as with
 * QEMU; which options have one is known only of those that are looked for. */
#include <string.h>

#include "preload/conf.h"

/* Copy the last value of KEY=VALUE in the list @opts ("a,b=c"); ",," is a comma. False: not there.
 */
static bool list_get(const char *opts, const char *key, char *value, size_t len)
{
	size_t key_len = strlen(key);
	bool found = false;

	while (*opts) {
		bool here = !strncmp(opts, key, key_len) && opts[key_len] == '=';
		const char *p = here ? opts + key_len + 1 : opts;
		size_t n = 0;

		for (; *p && (*p != ',' || p[1] == ','); p++) {
			if (*p == ',')
				p++;
			if (here && n + 1 < len)
				value[n++] = *p;
		}
		if (here)
			value[n] = 0;
		found |= here;
		opts = *p ? p + 1 : p;
	}
	return found;
}

/* The first element, which may have no key. */
static size_t list_first(const char *opts, const char **end)
{
	*end = strchrnul(opts, ',');
	return (size_t)(*end - opts);
}

static bool is_help(const char *value)
{
	const char *end;
	size_t n = list_first(value, &end);

	/* -device help, and -device MODEL,help */
	return (n == 4 && !strncmp(value, "help", 4)) || !strcmp(value, "?") ||
	       (strlen(value) > 5 && !strcmp(value + strlen(value) - 5, ",help"));
}

static bool is_on(const char *value)
{
	return !strcmp(value, "on") || !strcmp(value, "true") || !strcmp(value, "yes") ||
	       !strcmp(value, "y");
}

static void read_cpu(struct arguments *a, const char *value)
{
	const char *end;
	size_t n = list_first(value, &end);
	char pmu[16];

	a->pmu = (n == 4 && !strncmp(value, "host", n)) || (n == 3 && !strncmp(value, "max", n));
	/* Not an escaped comma: QEMU's features have none. */
	if (*end)
		end += strspn(end, ",") - 1;
	if (list_get(end, "pmu", pmu, sizeof(pmu)))
		a->pmu = is_on(pmu);
	else if (strstr(end, ",+pmu"))
		a->pmu = true;
	else if (strstr(end, ",-pmu"))
		a->pmu = false;
	if (!list_get(end, "vendor", a->vendor, sizeof(a->vendor)))
		*a->vendor = 0;
}

static void read_machine(struct arguments *a, const char *value)
{
	char accel[64], type[64];
	const char *end;
	size_t n = list_first(value, &end);

	if ((n == 4 && !strncmp(value, "none", n)) ||
	    (list_get(value, "type", type, sizeof(type)) && !strcmp(type, "none")))
		a->probe = true;
	/* a list of accelerators, of which the first one is tried first */
	if (list_get(value, "accel", accel, sizeof(accel)))
		a->kvm |= !strncmp(accel, "kvm", 3);
}

static void read_name(struct arguments *a, const char *value)
{
	const char *end;
	size_t n = list_first(value, &end);

	if (list_get(value, "guest", a->name, sizeof(a->name)))
		return;
	if (memchr(value, '=', n) || n >= sizeof(a->name))
		return;
	memcpy(a->name, value, n);
	a->name[n] = 0;
}

void arguments_read(struct arguments *a, char *const argv[])
{
	memset(a, 0, sizeof(*a));
	for (size_t i = 1; argv[0] && argv[i]; i++) {
		const char *opt = argv[i], *value = argv[i + 1];

		if (*opt != '-')
			continue;
		opt += opt[1] == '-' ? 2 : 1;
		if (!strcmp(opt, "help") || !strcmp(opt, "h") || !strcmp(opt, "version"))
			a->probe = true;
		else if (!strcmp(opt, "enable-kvm"))
			a->kvm = true;
		if (!value)
			return;
		if (is_help(value))
			a->probe = true;
		else if (!strcmp(opt, "cpu"))
			read_cpu(a, value);
		else if (!strcmp(opt, "accel"))
			a->kvm |= !strncmp(value + (strncmp(value, "accel=", 6) ? 0 : 6), "kvm", 3);
		else if (!strcmp(opt, "machine") || !strcmp(opt, "M"))
			read_machine(a, value);
		else if (!strcmp(opt, "name"))
			read_name(a, value);
	}
}
