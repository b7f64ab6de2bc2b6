// SPDX-License-Identifier: GPL-2.0-or-later
/* Valid names of tenants and VMs, which become directories and appear in terminals. */
#include <string.h>

#include "vpmu/util/fail.h"
#include "service/tenant/tenant.h"

static bool name_char(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("_.:@-", c));
}

bool tenant_path_within(const char *top, const char *path)
{
	size_t n = strlen(top);

	if (n == 1) /* "/" */
		return true;
	return strncmp(path, top, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool tenant_path_ok(const char *path, char *err, size_t errlen)
{
	unsigned int levels = 0;
	const char *p = path;

	if (*p != '/' || p[1] == '\0') {
		fail(0, err, errlen,
		     "tenant path \"%.40s\" is invalid; expected a path like /acme/web", path);
		return false;
	}
	if (strnlen(path, TENANT_PATH_MAX + 1) > TENANT_PATH_MAX) {
		fail(0, err, errlen, "tenant path \"%.40s...\" is invalid; expected up to %d bytes",
		     path, TENANT_PATH_MAX);
		return false;
	}
	while (*p == '/') {
		const char *c = ++p;

		while (name_char(*p))
			p++;
		if (p == c || (*p && *p != '/')) {
			fail(0, err, errlen,
			     "tenant path \"%s\" is invalid; expected components of "
			     "[A-Za-z0-9_.:@-]",
			     path);
			return false;
		}
		if ((p - c == 1 && c[0] == '.') || (p - c == 2 && c[0] == '.' && c[1] == '.')) {
			fail(0, err, errlen,
			     "tenant path \"%s\" is invalid; expected components other than . and "
			     "..",
			     path);
			return false;
		}
		if (levels++ == 0 && p - c == 4 && strncmp(c, "host", 4) == 0) {
			fail(0, err, errlen,
			     "tenant path \"%s\": /host is what runs in no tenant; expected "
			     "another name",
			     path);
			return false;
		}
	}
	if (levels > TENANT_LEVELS_MAX) {
		fail(0, err, errlen, "tenant path \"%s\" is invalid; expected up to %d levels",
		     path, TENANT_LEVELS_MAX);
		return false;
	}
	return true;
}

bool tenant_vm_name_ok(const char *name, char *err, size_t errlen)
{
	size_t len = strnlen(name, TENANT_VM_NAME_MAX + 1), i = 0;

	while (i < len && name_char(name[i]))
		i++;
	if (len == 0 || len > TENANT_VM_NAME_MAX || i < len || strchr(".:@-", name[0])) {
		fail(0, err, errlen,
		     "VM name \"%.64s\" is invalid; expected 1 to %d of [A-Za-z0-9_.:@-], the "
		     "first a letter, digit or _",
		     name, TENANT_VM_NAME_MAX);
		return false;
	}
	return true;
}
