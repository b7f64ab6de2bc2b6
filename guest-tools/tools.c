// SPDX-License-Identifier: GPL-2.0-or-later
/* What the tools have in common, see tools.h. */
#include "guest-tools/tools.h"

int tool_error(const struct guest_info *info, const char *text)
{
	out("vcpu %u: error: %s\n", info->vcpu, text);
	return TOOL_USAGE;
}

int tool_run(const struct guest_info *info, const struct workload *w, uint64_t n,
	     struct guest_run *run, uint64_t *result)
{
	run->fn = w->fn;
	run->n = n;
	run->mem = info->mem;
	run->mem_bytes = info->mem_bytes;
	run->call = w->needs_call ? sys_null_call : NULL;
	run->fault = 0;
	*result = sys_run(run);
	return run->fault ? -1 : 0;
}
