/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Points in time as people type them, for `vpmu stat --since`. It reads no clock: the caller has
 * the time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* For messages. */
#define WHEN_EXPECTED "now, -90s, -30m, -2h, HH:MM[:SS] or \"YYYY-MM-DD HH:MM[:SS]\""

/*
 * when_parse - parse all of @text: `now`, a time before @now_ns (-90s, -30m, -2h), HH:MM[:SS] (the
 * last such time, local), a date and a time (local, or RFC 3339 with Z or +HH:MM). *@ns: ns since
 * 1970. Returns false if it is none of these, or does not exist, such as 02:30 when clocks go
 * forward.
 */
bool when_parse(const char *text, uint64_t now_ns, uint64_t *ns);

/* when_text - write @ns as a local date and time to @buf, and return it. */
#define WHEN_LEN 32
char *when_text(uint64_t ns, char buf[WHEN_LEN]);
