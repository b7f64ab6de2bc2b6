// SPDX-License-Identifier: LGPL-2.1-or-later
/* One-line error messages, see fail.h. */
#include <stdarg.h>
#include <stdio.h>

#include "vpmu/util/fail.h"

int fail(int ret, char *err, size_t errlen, const char *fmt, ...)
{
	va_list ap;

	if (!err || !errlen)
		return ret;
	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	/* Replace non-ASCII bytes, too: truncated UTF-8 would make a JSON answer invalid. */
	for (char *p = err; *p; p++)
		if (*p < 0x20 || *p > 0x7e)
			*p = '?';
	return ret;
}
