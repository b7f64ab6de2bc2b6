// SPDX-License-Identifier: GPL-2.0-or-later
/* Entry of the guest tools in CPL3 (user.S calls tools_main): runs the command that the first word
 * of the guest's arguments names. Also the small commands run, spin and help. */
#include "guest-tools/args.h"
#include "guest-tools/tools.h"

int tools_main(const struct guest_info *info);

TOOL_COMMAND(run, "[-r N] WORKLOAD [ARG]",
	     "run a workload N times (0: until interrupted) and print its result");
int run_main(const struct guest_info *info, const char *args)
{
	static char err[ARGS_ERR_MAX];
	struct guest_run run = {.msr = 0};
	struct args_run a;
	uint64_t result, i = 0;

	if (!args_run_parse(args, info->mem_bytes, &a, err))
		return tool_error(info, err);
	do {
		tool_run(info, a.work.w, a.work.n, &run, &result);
	} while (++i != a.repeat);
	out("vcpu %u: %s %lu = %lu\n", info->vcpu, a.work.w->name, a.work.n, result);
	return TOOL_OK;
}

/* Keep the vCPU busy for N million iterations, or until the VM is removed. */
TOOL_COMMAND(spin, "[N]", "run N million loop iterations; without N until interrupted");
int spin_main(const struct guest_info *info, const char *args)
{
	static char err[ARGS_ERR_MAX];
	struct word w = text_next_word(&args);
	uint64_t n = 0;

	if (w.len && !text_u64(w.s, w.len, &n)) {
		text_format(err, sizeof(err),
			    "argument '%.*s' of spin is invalid; expected a number of million "
			    "iterations",
			    (int)(w.len < 64 ? w.len : 64), w.s);
		return tool_error(info, err);
	}
	if (!args_end(args, err))
		return tool_error(info, err);
	for (uint64_t i = 0; !w.len || i < n; i++)
		workload_loop(1000000, NULL, 0, NULL);
	out("vcpu %u: spin %lu done\n", info->vcpu, n);
	return TOOL_OK;
}

extern const struct tool_command __commands_start[], __commands_end[]; /* guest.lds */

TOOL_COMMAND(help, "", "print this text");
int help_main(const struct guest_info *info, const char *args)
{
	if (info->vcpu) /* only the first vCPU prints it */
		return TOOL_OK;
	out("Guest arguments: COMMAND [ARGUMENTS]\n");
	for (const struct tool_command *c = __commands_start; c < __commands_end; c++)
		out("  %-8s %-57s %s\n", c->name, c->args, c->desc);
	out("Workloads:\n");
	for (size_t i = 0; i < nr_workloads; i++)
		out("  %-8s %s (%s, default %lu)\n", workloads[i].name, workloads[i].desc,
		    workloads[i].arg, workloads[i].default_arg);
	out("Events, with :u and :k, or raw rHEX:\n ");
	for (int i = 0; i < EV_RAW; i++)
		out(" %s", event_table[i].name);
	out("\n");
	return TOOL_OK;
}

static int dispatch(const struct guest_info *info)
{
	static char err[ARGS_ERR_MAX];
	const char *args = info->args;
	struct word name = text_next_word(&args);
	size_t n;

	for (const struct tool_command *c = __commands_start; c < __commands_end; c++) {
		if (name.len && word_is(name, c->name))
			return c->fn(info, args);
	}
	if (name.len)
		n = text_format(err, sizeof(err), "unknown command '%.*s' in the guest's arguments",
				(int)(name.len < 64 ? name.len : 64), name.s);
	else
		n = text_format(err, sizeof(err), "no command in the guest's arguments");
	for (const struct tool_command *c = __commands_start; c < __commands_end; c++)
		n += text_format(err + n, sizeof(err) - n, "%s%s",
				 c == __commands_start ? ": known are " : ", ", c->name);
	return tool_error(info, err);
}

int tools_main(const struct guest_info *info)
{
	int status = dispatch(info);

	out_flush();
	return status;
}
