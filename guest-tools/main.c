// SPDX-License-Identifier: GPL-2.0-or-later
/* Entry of the guest tools in CPL3 (user.S calls tools_main): runs the command that the first word
 * of the guest's arguments names. Also the small commands run, spin and help. */
#include "guest-tools/args.h"
#include "guest-tools/tools.h"

int tools_main(const struct guest_info *info);

static int run_main(const struct guest_info *info, const char *args)
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
static int spin_main(const struct guest_info *info, const char *args)
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

static tool_fn help_main;

static const struct command {
	const char *name;
	tool_fn *fn;
	const char *args, *desc;
} commands[] = {
	{"stat", stat_main, "[-e EV,...] [-x SEP | -j] [-r N] [-v] WORKLOAD [ARG]",
	 "count events while a workload runs"},
	{"record", record_main, "[-e EV] [-c PERIOD] [-g] [--raw] [--vector] [-j] WORKLOAD [ARG]",
	 "sample a workload by PMIs and print a histogram by function"},
	{"lbr", lbr_main, "[--depth N] [--branches] [-c PERIOD] [-j] [WORKLOAD [ARG]]",
	 "compare branch records at PMIs with the true call chain"},
	{"torture", torture_main, "[-j] [SEED] [N]", "execute random PMU, LBR and APIC operations"},
	{"leak", leak_main, "[--spin N] [--at ADDRESS] [-j] [ROUNDS]",
	 "look for PMU state of another VM"},
	{"victim", victim_main, "[ADDRESS] [ROUNDS]",
	 "make branches and counts for leak to look for"},
	{"run", run_main, "[-r N] WORKLOAD [ARG]",
	 "run a workload N times (0: until interrupted) and print its result"},
	{"spin", spin_main, "[N]", "run N million loop iterations; without N until interrupted"},
	{"msr", msr_main, "rd|wr|pmc|cpuid|run|count ...",
	 "execute a script of privileged operations"},
	{"selftest", selftest_main, "",
	 "test faults, system calls and PMU registers; print PASS or FAIL lines"},
	{"help", help_main, "", "print this text"},
};

static int help_main(const struct guest_info *info, const char *args)
{
	if (info->vcpu) /* only the first vCPU prints it */
		return TOOL_OK;
	out("Guest arguments: COMMAND [ARGUMENTS]\n");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		out("  %-8s %-57s %s\n", commands[i].name, commands[i].args, commands[i].desc);
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

	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (name.len && word_is(name, commands[i].name))
			return commands[i].fn(info, args);
	}
	if (name.len)
		n = text_format(err, sizeof(err), "unknown command '%.*s' in the guest's arguments",
				(int)(name.len < 64 ? name.len : 64), name.s);
	else
		n = text_format(err, sizeof(err), "no command in the guest's arguments");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		n += text_format(err + n, sizeof(err) - n, "%s%s", i ? ", " : ": known are ",
				 commands[i].name);
	return tool_error(info, err);
}

int tools_main(const struct guest_info *info)
{
	int status = dispatch(info);

	out_flush();
	return status;
}
