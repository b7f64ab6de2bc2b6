// SPDX-License-Identifier: GPL-2.0-or-later
/* Habits of perf; see habits.h. docs/perf.md lists the most common ones; a test runs them. */
#include <stddef.h>
#include <string.h>

#include "cli/habits.h"
#include "vpmu/util/nearest.h"

static const struct {
	const char *name, *hint;
} habits_commands[] = {
	{"record", "`vpmu profile -d SEC [TARGET]` samples and shows the functions at once; "
		   "--format=perf-script or --format=pprof with -o FILE keeps the samples"},
	{"script", "`vpmu profile --format=perf-script` prints samples as perf script does"},
	{"annotate", "vpmu has no annotated code; `vpmu profile --format=pprof -o FILE` is for "
		     "tools that show it"},
	{"diff", "compare two outputs of `vpmu profile --folded` with difffolded.pl"},
	{"kvm", "`vpmu stat --for-each vm` counts VMs, `vpmu top --for-each vm` shows them live"},
	{"trace", "vpmu counts and samples, it does not trace; `vpmu events` lists the events"},
	{"sched", "`vpmu stat -e task-clock,context-switches --for-each tenant` counts what runs"},
	{"mem", "vpmu records no addresses of memory; `vpmu stat -e loads,stores` counts accesses"},
	{"c2c", "vpmu records no addresses of memory; `vpmu stat -e cache-misses` counts misses"},
	{"lock", "vpmu does not trace locks; `vpmu profile` shows the functions that run"},
	{"probe", "vpmu counts no probes; `vpmu events` lists the events"},
	{"ftrace", "vpmu does not trace; `vpmu profile -g` shows call chains"},
	{"evlist", "`vpmu sessions` shows the events that are counted now"},
	{"test", "`vpmu check` shows what this host can count"},
	{"bench", "vpmu has no benchmarks; `vpmu stat -- COMMAND` counts one"},
	{"version", "`vpmu --version` shows it"},
	{"start", "`vpmu resume` lets VMs run, `vpmu attach` starts a session"},
	{"stop", "`vpmu pause` stops VMs, `vpmu detach` ends a session"},
	{"status", "`vpmu check` shows what the host can count, `vpmu list` the VMs"},
};

static const struct {
	const char *command, *letter, *name, *hint;
} habits_options[] = {
	{"stat", "-A", "--no-aggr", "counts are per tenant, VM or vCPU: give --for-each KIND"},
	{"stat", NULL, "--per-core", "counts are per tenant, VM or vCPU: give --for-each KIND"},
	{"stat", NULL, "--per-socket", "counts are per tenant, VM or vCPU: give --for-each KIND"},
	{"stat", NULL, "--per-thread", "give --for-each vcpu: one row for each vCPU thread"},
	{"stat", NULL, "--for-each-cgroup", "give --for-each tenant, or -G CGROUP,CGROUP"},
	{"stat", "-n", "--null", "give -- COMMAND and one event: its times are printed as well"},
	{"stat", "-D", "--delay", "begin later: `sleep SEC; vpmu stat ...`"},
	{"stat", "-T", "--transaction", "name the events with -e, for example those of libpfm4"},
	{"stat", NULL, "--topdown", "give -M with metrics that `vpmu metrics` lists"},
	{"stat", NULL, "--metric-only",
	 "give -M LIST; -x, and -j have metrics as lines of their own"},
	{"stat", "-i", "--no-inherit", "vpmu counts cgroups and VMs with all of their threads"},
	{"stat", "-b", "--bpf-prog", "vpmu counts cgroups and VMs; `vpmu list` shows them"},
	{"stat", "-u", "--uid", "vpmu counts cgroups and VMs: give -G CGROUP, or -p PID"},
	{"stat", "-B", "--big-num", "numbers are grouped, unless --no-big-num is given"},
	{"stat", NULL, "--tid", "give -p PID: the VM or tenant of a process or thread"},
	{"stat", NULL, "--timeout-sec", "give -d SEC"},
	{"profile", NULL, "--call-graph-mode", "give -g"},
	{"top", "-s", "--sort", "press the keys that h shows"},
	{"top", "-g", "--call-graph", "`vpmu profile -g` shows call chains"},
	{"report", "-i", "--input",
	 "there is no perf.data: `vpmu profile` samples and shows at once"},
	{"report", NULL, "--stdio", "`vpmu profile` shows the functions as text"},
	{"report", "-s", "--sort", "`vpmu profile` shows the functions as text, by samples"},
};

const char *habits_command(const char *name)
{
	for (size_t i = 0; i < sizeof(habits_commands) / sizeof(habits_commands[0]); i++)
		if (!strcmp(habits_commands[i].name, name))
			return habits_commands[i].hint;
	return NULL;
}

void habits_offer(struct vpmu_nearest *n)
{
	for (size_t i = 0; i < sizeof(habits_commands) / sizeof(habits_commands[0]); i++)
		vpmu_nearest_try(n, habits_commands[i].name);
}

const char *habits_option(const char *command, const char *typed)
{
	for (size_t i = 0; i < sizeof(habits_options) / sizeof(habits_options[0]); i++)
		if (!strcmp(habits_options[i].command, command) &&
		    (!strcmp(habits_options[i].name, typed) ||
		     (habits_options[i].letter && !strcmp(habits_options[i].letter, typed))))
			return habits_options[i].hint;
	return NULL;
}
