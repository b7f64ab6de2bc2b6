// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the host is: CPU, kernel, counters, what is missing, and errata that change counts. run.c
 * calls this before the checks.
 */
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "selftest/priv.h"

struct cpu {
	char vendor[32], name[128];
	unsigned int family, model, stepping;
	bool hypervisor;
};

/* x86 only; on arm64 the fields are named differently and vendor stays empty. */
static void cpu_read(struct cpu *c)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[4096];

	memset(c, 0, sizeof(*c));
	while (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
		sscanf(line, "vendor_id : %31s", c->vendor);
		sscanf(line, "cpu family : %u", &c->family);
		sscanf(line, "model : %u", &c->model);
		sscanf(line, "model name : %127[^\n]", c->name);
		sscanf(line, "stepping : %u", &c->stepping);
		sscanf(line, "CPU part : %127[^\n]", c->name);
		if (!strncmp(line, "flags", 5))
			c->hypervisor = strstr(line, " hypervisor");
	}
	if (f)
		fclose(f);
}

/* Errata and properties that the kernel's drivers handle or that change what counts mean. */
static void facts_errata(struct selftest *t, const struct cpu *c)
{
	const bool intel = !strcmp(c->vendor, "GenuineIntel"),
		   amd = !strcmp(c->vendor, "AuthenticAMD");

	if (!t->pmu || t->o->exact)
		return;
	if (c->vendor[0])
		selftest_fact(t, "known",
			      "each interrupt may count as one instruction and one branch of user "
			      "mode (Weaver et al., ISPASS 2013): upper bounds allow for it");
	/* Linux, arch/x86/events/intel/core.c, intel_ht_bug(): "PMU erratum BJ122, BV98, HSD29". */
	if (intel && c->family == 6 &&
	    (c->model == 42 || c->model == 45 || c->model == 58 || c->model == 62 ||
	     c->model == 60 || c->model == 63 || c->model == 69 || c->model == 70))
		selftest_fact(
			t, "erratum",
			"BJ122, BV98, HSD29: with hyper-threading, events of memory accesses can "
			"corrupt a counter of the sibling CPU; the kernel keeps them apart");
	/* Linux, arch/x86/events/intel/core.c, intel_tfa: counter 3 is used by microcode. */
	if (!access("/sys/devices/cpu/allow_tsx_force_abort", F_OK))
		selftest_fact(t, "erratum",
			      "TSX force abort: counter 3 may be the microcode's; see "
			      "/sys/devices/cpu/allow_tsx_force_abort");
	/* github.com/rr-debugger/rr, wiki "Zen". */
	if (amd && (c->family == 0x17 || c->family == 0x19))
		selftest_fact(t, "erratum",
			      "family %xh: rr trusts the count of retired conditional branches "
			      "only with SpecLockMap off (its scripts/zen_workaround.py)",
			      c->family);
}

void facts(struct selftest *t)
{
	struct bpf_backend_budget b;
	struct utsname uts;
	struct cpu c;

	cpu_read(&c);
	t->amd = !strcmp(c.vendor, "AuthenticAMD");
	if (c.vendor[0])
		selftest_fact(t, "CPU", "%s (%s %u/%u/%u)%s", c.name, c.vendor, c.family, c.model,
			      c.stepping, c.hypervisor ? ", in a virtual machine" : "");
	else
		selftest_fact(t, "CPU", "%s", c.name[0] ? c.name : "unknown");
	selftest_fact(t, "CPUs", "%u", t->nr_cpus);
	if (!uname(&uts))
		selftest_fact(t, "kernel", "%s %s %s", uts.sysname, uts.release, uts.machine);
	bpf_backend_budget(t->k, &b);
	if (b.known)
		selftest_fact(t, "counters", "%u general, %u fixed: %s", b.general, b.fixed,
			      b.from);
	else
		selftest_fact(t, "counters", "unknown: %s", b.from);
	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN; k++)
		if (!k->usable && (t->pmu || !k->hardware))
			selftest_fact(t, "missing", "%s: %s", k->event, k->why);
	if (!t->pmu)
		selftest_fact(t, "missing", "hardware counters (%s): software events only",
			      t->known[1].why);
	if (!scratch_controllers())
		selftest_fact(t, "missing",
			      "no controller is on in cgroup.subtree_control of the root, as "
			      "systemd has: the kernel may show no moves of tasks");
	facts_errata(t, &c);
}
