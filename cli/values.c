// SPDX-License-Identifier: GPL-2.0-or-later
/* Options with a fixed set of values; see options.h. */
#include <stddef.h>
#include <string.h>

#include "cli/options.h"

const char *const *cli_values(const char *option)
{
	static const struct {
		const char *option, *value[4];
	} options[] = {
		{"for-each", {"tenant", "vm", "vcpu"}},
		{"mode", {"call-stack", "branches", "calls"}},
		{"format", {"perf-script", "pprof", "brstack"}}, /* enum data_format */
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].option, option))
			return options[i].value;
	return NULL;
}
