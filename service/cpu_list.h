/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lists of CPUs as perf and the kernel have them: "0,2-4". */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define CPU_LIST_BYTES_MAX 4096

/* cpu_list_parse - set the CPUs in @text, of @nr, in @set[0..nr). Returns 0, or -EINVAL and one
 * line in @err. */
int cpu_list_parse(const char *text, bool *set, unsigned int nr, char *err, size_t errlen);
