// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/remedy.c: what to do about each row of `vpmu check`. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/check.h"

/* Each row that the programs can answer, with a reason, has a remedy or is a fact that needs none.
 */
Test(remedy, every_row)
{
	static const struct {
		int line;
		const char *what, *why, *has; /* has: in the remedy; "": none is needed */
	} rows[] = {
		/* vpmu/host/perf_check.c */
		{__LINE__, "perf events", "the kernel has no perf events", "CONFIG_PERF_EVENTS"},
		{__LINE__, "perf events",
		 "not permitted: perf_event_paranoid is 3; needs CAP_PERFMON or a lower value",
		 "perf_event_paranoid=2"},
		{__LINE__, "hardware counters",
		 "no hardware PMU (in a VM: its host gives it no vPMU)", "BIOS"},
		{__LINE__, "cycles", "others hold all hardware counters", "their holders"},
		{__LINE__, "slots", "no event of this meaning on this CPU", ""},
		{__LINE__, "loads", "this CPU's PMU does not have it", ""},
		{__LINE__, "KVM: hardware counters",
		 "no hardware PMU (in a VM: its host gives it no vPMU)", "BIOS"},
		/* cli/holders.c */
		{__LINE__, "NMI watchdog", "on: it can hold a counter of each CPU",
		 "nmi_watchdog=0"},
		{__LINE__, "NMI watchdog", "not known: /proc/sys", "as root"},
		{__LINE__, "perf events of perf", "2 in process 12", "leave_counters"},
		{__LINE__, "perf events of vpmud", "2 in process 12", "vpmu sessions"},
		{__LINE__, "perf events of others", "not known: 3 of 4 processes", "as root"},
		{__LINE__, "perf events", "not known: /proc: Permission denied", "as root"},
		{__LINE__, "mediated vPMU", "on (kvm_intel): a guest with a vPMU has", ":H"},
		{__LINE__, "KVM vPMU", "not known: kvm/enable_pmu", "as root"},
		{__LINE__, "right to count",
		 "perf_event_paranoid is 3; above 2, counting CPUs needs CAP_SYS_ADMIN",
		 "perf_event_paranoid=2"},
		{__LINE__, "right to count", "perf_event_paranoid is 2; this user does not have",
		 "CAP_PERFMON"},
		{__LINE__, "right to BPF", "this user does not have both", "CAP_BPF"},
		{__LINE__, "right to BPF", "x; the kernel has no type information", "BTF"},
		{__LINE__, "right to BPF",
		 "this user has CAP_BPF and CAP_PERFMON; no bpffs is mounted", "mount -t bpf"},
		{__LINE__, "right to BPF",
		 "this user does not have both of CAP_BPF and CAP_PERFMON; no bpffs is mounted",
		 "as root"},
		/* cli/host.c */
		{__LINE__, "server",
		 "none answers: /run/vpmu/vpmud.sock (Permission denied), /run/vpmu/vpmu-vmm.sock "
		 "(No such file or directory)",
		 "admin_group"},
		{__LINE__, "server",
		 "none answers: /run/vpmu/vpmud.sock (No such file or directory)",
		 "systemctl start vpmud"},
		{__LINE__, "counts without vpmud", "a former vpmud's program counts", "rm -r"},
		/* vpmud */
		{__LINE__, "PID namespace", "not the host's: cgroups are", "hostPID"},
		{__LINE__, "configuration", "the old one is in force: x", "vpmu reload"},
		{__LINE__, "VMs, vCPUs and cgroups are counted", "2 could not be", "journalctl"},
		{__LINE__, "events denied to guests", "3 times; the newest: cycles, of VM a",
		 "[tenant /PATH]"},
		{__LINE__, "guests beyond their quota", "1 refused; the newest: cycles, of VM a",
		 "tenant_max_events"},
		{__LINE__, "VMMs dropped", "2, 1 of them of VMs that sent invalid requests",
		 "vcpus.sock"},
		{__LINE__, "hardware counters", "number of counters unknown: x", "set counters"},
		{__LINE__, "hardware counters",
		 "number of counters unknown: the kernel has no PMU of this CPU", "BIOS"},
		{__LINE__, "libvirt qemu:///system", "no connection; it is tried again: x",
		 "libvirt = none"},
		{__LINE__, "hardware events in use", "9, which are multiplexed", "vpmu sessions"},
		{__LINE__, "guests' events", "not counted: KVM gives guests", ":H"},
		{__LINE__, "tasks that move while they run",
		 "charged to the old cgroup up to the next switch; both are partial then: "
		 "perf_event is not in the cgroup2 hierarchy",
		 "cgroup_no_v1"},
		{__LINE__, "tasks that move while they run",
		 "charged to the old cgroup up to the next switch; both are partial then: the "
		 "kernel takes neither an fentry program nor a kprobe that sees moves",
		 ""},
		{__LINE__, "vpmud may count", "perf_event_open: x", "journalctl"},
		/* service/daemon/contain.c */
		{__LINE__, "contain: user", "user 0; --user NAME becomes another one", "--user"},
		{__LINE__, "contain: user", "user 0", "stays user 0"},
		{__LINE__, "contain: capabilities", "not taken", "as root"},
		{__LINE__, "contain: no new privileges", "not taken", "as root"},
		{__LINE__, "contain: files", "no landlock: it would hide", "unit"},
		{__LINE__, "contain: files", "this kernel has none", "landlock"},
		{__LINE__, "contain: system calls", "not taken", "as root"},
		/* vmm */
		{__LINE__, "tenants are cgroups", "no cgroup root", "--cgroup-root"},
		{__LINE__, "emulator: translated code", "--no-jit", "no-jit"},
		{__LINE__, "KVM engine", "/dev/kvm: Permission denied", "group kvm"},
		{__LINE__, "KVM engine", "/dev/kvm: No such file", "kvm_intel"},
		{__LINE__, "KVM: sampling", "perf events of vCPU threads", "engine=emulator"},
		{__LINE__, "KVM: branch records", "KVM keeps", "engine=emulator"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *remedy = remedy_for(rows[i].what, rows[i].why);

		cr_expect(remedy, "line %d: no remedy of \"%s\"", rows[i].line, rows[i].what);
		if (!remedy)
			continue;
		cr_expect(strstr(remedy, rows[i].has), "line %d: \"%s\"", rows[i].line, remedy);
		cr_expect_not(strchr(remedy, '\n'));
	}
	cr_expect_null(remedy_for("what a later server knows", "x"));
}

Test(remedy, by_design)
{
	cr_expect(remedy_by_design("KVM: sampling", "perf events of vCPU threads"));
	cr_expect(remedy_by_design("slots", "no event of this meaning on this CPU"));
	cr_expect(remedy_by_design("contain: user", "user 0"), "vpmud");
	cr_expect_not(remedy_by_design("contain: user", "user 0; --user NAME becomes another one"));
	cr_expect_not(remedy_by_design("KVM: cycles", "no hardware PMU (in a VM: x)"));
	cr_expect_not(remedy_by_design("right to BPF", "no bpffs is mounted"));
	cr_expect_not(remedy_by_design("a later row", "b"));
}
