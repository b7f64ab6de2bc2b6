// SPDX-License-Identifier: GPL-2.0-or-later
/* Functions that all commands share: errors, runs, privileged operations; see tools.h. */
#include "guest-tools/tools.h"

int tool_error(const struct guest_info *info, const char *text)
{
	out("vcpu %u: error: %s\n", info->vcpu, text);
	return TOOL_USAGE;
}

int tool_cannot(const struct guest_info *info, const char *text)
{
	tool_error(info, text);
	return TOOL_FAILED;
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

bool tool_op(enum guest_op_kind kind, uint32_t index, uint64_t *value)
{
	struct guest_op op = {.kind = kind, .index = index, .value = *value};

	sys_pmu(&op, 1);
	if (op.fault)
		return false;
	if (kind != GUEST_WRMSR)
		*value = op.value;
	return true;
}

bool tool_rdmsr(uint32_t msr, uint64_t *value)
{
	*value = 0;
	return tool_op(GUEST_RDMSR, msr, value);
}

bool tool_wrmsr(uint32_t msr, uint64_t value)
{
	return tool_op(GUEST_WRMSR, msr, &value);
}

void tool_cpuid(uint32_t leaf, uint32_t sub, uint32_t regs[4])
{
	struct guest_op op = {.kind = GUEST_CPUID, .index = leaf, .sub = sub};

	sys_pmu(&op, 1);
	for (int i = 0; i < 4; i++)
		regs[i] = op.regs[i];
}
