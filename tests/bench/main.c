// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-bench [NAME...]: run all benchmarks, or those named, and print the machine and the results;
 * vpmu-bench --vs OTHER [NAME...]: compare with another build. Results and goals are explained in
 * docs/performance.md. A goal that is missed is printed; it is never an exit status.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "vpmu/core/rcu.h"

static const struct bench benches[] = {
	{"switch_equal", "switch between vCPUs of equal cookies", bench_switch_equal},
	{"switch_4keys", "switch between vCPUs with 4 distinct keys", bench_switch_4keys},
	{"switch_scale", "the same with many tenants and consumers", bench_switch_scale},
	{"switch_many_keys", "switch with more keys than counters", bench_switch_many_keys},
	{"tenant", "attach, read, detach a tenant of 10,000 VMs on 16 pCPUs", bench_tenant},
	{"safe_point", "the longest safe point during control calls", bench_safe_point},
	{"account_memory", "accounts of 10,000 VMs on 16 pCPUs", bench_account_memory},
	{"consumer_add_del", "a guest counter comes and goes", bench_consumer_add_del},
	{"consumer_read", "a guest counter is read", bench_consumer_read},
	{"sampling", "three sample on one counter against one", bench_sampling},
	{"lbr_switch", "switch with 32 branch records to save and restore", bench_lbr_switch},
	{"lbr_memory", "memory for branch records of 10,000 vCPUs", bench_lbr_memory},
	{"emu_mips", "guest instructions per CPU second, all events counted", bench_emu_mips},
	{"emu_mips_lbr", "the same while branches are recorded", bench_emu_mips_lbr},
	{"emu_mips_programs", "programs on the emulator against QEMU's TCG",
	 bench_emu_mips_programs},
	{"emu_mips_sse", "programs with SSE", bench_emu_mips_sse},
	{"emu_alarm", "the same with an exact stop every so many events", bench_emu_alarm},
	{"linux_boot_emu", "Debian's kernel boots: the emulator against QEMU's TCG",
	 bench_linux_boot_emu},
	{"linux_idle", "the CPU time of an idle stock Linux VM", bench_linux_idle},
	{"vm_create", "an emulator VM is made: time, memory beyond guest RAM", bench_vm_create},
	{"runner_scale", "1,000 vCPUs on 2 pCPUs against one", bench_runner_scale},
	{"fair_worst", "what hostile guests leave of a pCPU", bench_fair_worst},
	{"kvm_msr_exit", "an MSR exit on KVM beyond an empty handler's", bench_kvm_msr_exit},
	{"kvm_boot", "vpmu-vmm starts a guest on KVM: time, memory beyond guest RAM",
	 bench_kvm_boot},
	{"kvm_sampling", "a PMI on KVM beyond a bare kick and NMI", bench_kvm_sampling},
	{"kvm_rdpmc", "RDPMC on KVM by a hardware breakpoint against an IN", bench_kvm_rdpmc},
	{"control_stall", "control calls while hostile guests run", bench_control_stall},
};
#define NR (sizeof(benches) / sizeof(benches[0]))

static bool as_json, list;
static bool wanted[NR];
static const char *vs_other;
static unsigned int rounds, runs = 10;

/* The columns of a table. A goal is in units where the result has some. */
static void print_row(json_t *o, json_t *params)
{
	const char *of = json_string_value(json_object_get(o, "of"));
	json_t *goal = json_object_get(o, of ? "goal_units" : "goal");
	json_t *free_pct = json_object_get(o, "core_free_pct");
	char units[32] = "", limit[48] = "", core[32] = "", *text;

	if (of)
		snprintf(units, sizeof(units), "%.2f %s",
			 json_number_value(json_object_get(o, "units")), of);
	if (goal)
		snprintf(limit, sizeof(limit), "%s %g %s",
			 json_is_true(json_object_get(o, "at_least")) ? ">=" : "<=",
			 json_number_value(goal),
			 json_is_true(json_object_get(o, "ok")) ? "ok" : "MISSED");
	if (free_pct)
		snprintf(core, sizeof(core), "%.0f%%", json_number_value(free_pct));
	text = params ? json_dumps(params, JSON_COMPACT | JSON_REAL_PRECISION(5)) : NULL;
	printf("%-22s %10.2f %-9s %-13s %-15s %5s  %s\n",
	       json_string_value(json_object_get(o, "name")),
	       json_number_value(json_object_get(o, "value")),
	       json_string_value(json_object_get(o, "unit")), units, limit, core, text ? text : "");
	free(text);
}

/* Takes both references over. */
static void print_result(json_t *o, json_t *params, const struct bench_set *set)
{
	if (set) {
		json_object_set_new(o, "rounds", json_integer(set->rounds));
		json_object_set_new(o, "cycles_per_block", json_real(set->cycles_per_block));
		json_object_set_new(o, "core_free_pct", json_real(set->core_free_pct));
	}
	if (as_json) {
		char *text;

		if (params)
			json_object_update(o, params);
		text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(5));
		printf("%s\n", text);
		free(text);
	} else {
		print_row(o, params);
	}
	fflush(stdout);
	json_decref(params);
	json_decref(o);
}

void bench_report(const char *name, double value, const char *unit, double goal, bool at_least,
		  json_t *params)
{
	bool ok = goal == 0 || (at_least ? value >= goal : value <= goal);
	json_t *o = json_pack("{s:s, s:f, s:s}", "name", name, "value", value, "unit", unit);

	if (goal != 0) {
		json_object_set_new(o, "goal", json_real(goal));
		json_object_set_new(o, "at_least", json_boolean(at_least));
		json_object_set_new(o, "ok", json_boolean(ok));
	}
	print_result(o, params, NULL);
}

void bench_report_as(const char *name, double value, const char *value_unit,
		     const struct bench_set *set, unsigned int i, double parts,
		     enum bench_unit unit, double goal, json_t *params)
{
	double units = bench_units(set, i, unit) / parts;
	json_t *o = json_pack("{s:s, s:f, s:s, s:f, s:s}", "name", name, "value", value, "unit",
			      value_unit, "units", units, "of", bench_unit_name(unit));

	if (goal != 0) {
		json_object_set_new(o, "goal_units", json_real(goal));
		json_object_set_new(o, "ok", json_boolean(units <= goal));
	}
	print_result(o, params, set);
}

void bench_report_ns(const char *name, const struct bench_set *set, unsigned int i,
		     enum bench_unit unit, double goal, json_t *params)
{
	bench_report_as(name, set->c[i].ns, "ns", set, i, 1, unit, goal, params);
}

static unsigned int number(struct argp_state *state, const char *arg)
{
	char *end;
	unsigned long n = strtoul(arg, &end, 10);

	if (*end || end == arg || n < 1 || n > 1000000)
		argp_failure(state, 2, 0, "%s: a number from 1 to 1000000 is needed", arg);
	return (unsigned int)n;
}

/* The machine, once before the results. */
static void print_machine(void)
{
	json_t *o = bench_describe_machine();
	const char *name;
	json_t *v;

	if (as_json) {
		json_t *line = json_pack("{s:o}", "machine", o);
		char *text = json_dumps(line, JSON_COMPACT);

		printf("%s\n", text);
		free(text);
		json_decref(line);
		return;
	}
	json_object_foreach (o, name, v) {
		char *text = json_is_string(v) ? NULL : json_dumps(v, JSON_ENCODE_ANY);

		printf("# %-16s %s\n", name, text ? text : json_string_value(v));
		free(text);
	}
	json_decref(o);
	printf("%-22s %10s %-9s %-13s %-15s %5s\n", "# name", "value", "", "in units", "goal",
	       "core free");
}

static int compare(bool all)
{
	const char *names[NR + 1] = {0};
	size_t n = 0;

	for (size_t i = 0; i < NR; i++)
		if (all || wanted[i])
			names[n++] = benches[i].name;
	return vs_run(vs_other, runs, rounds, names);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'r':
		rounds = number(state, arg);
		return 0;
	case 'v':
		vs_other = arg;
		return 0;
	case 'n':
		runs = number(state, arg);
		return 0;
	case 'j':
		as_json = true;
		return 0;
	case 'l':
		list = true;
		return 0;
	case ARGP_KEY_ARG:
		for (size_t i = 0; i < NR; i++) {
			if (!strcmp(arg, benches[i].name)) {
				wanted[i] = true;
				return 0;
			}
		}
		argp_failure(state, 2, 0, "%s: no such benchmark; --list names them", arg);
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

int main(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{"json", 'j', NULL, 0, "One JSON object per line", 0},
		{"list", 'l', NULL, 0, "Name the benchmarks", 0},
		{"rounds", 'r', "N", 0, "Measure in N rounds at most; for tests", 0},
		{"vs", 'v', "OTHER", 0, "Compare with the vpmu-bench of another build", 0},
		{"runs", 'n', "N", 0, "With --vs: run either build N times (10)", 0},
		{0},
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[NAME...]",
		.doc = "Measure vpmu. Times are CPU time; docs/performance.md says how they are "
		       "taken "
		       "and what the units are.",
	};
	bool all = true;
	int ret = 0;

	argp_err_exit_status = 2;
	if (argp_parse(&argp, argc, argv, 0, NULL, NULL))
		return 2;
	for (size_t i = 0; i < NR; i++) {
		if (list)
			printf("%-20s %s\n", benches[i].name, benches[i].what);
		all = all && !wanted[i];
	}
	if (list)
		return 0;
	if (vs_other)
		return compare(all);
	bench_limit_rounds(rounds);
	bench_pin();
	print_machine();
	urcu_memb_register_thread();
	for (size_t i = 0; i < NR; i++)
		if (all || wanted[i])
			ret |= benches[i].run();
	urcu_memb_unregister_thread();
	return ret;
}
