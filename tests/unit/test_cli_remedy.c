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
		const char *what, *why, *has; /* has: in the remedy; "": none is needed */
	} rows[] = {
		/* vpmu/host/perf_check.c */
		{"perf events", "the kernel has no perf events", "CONFIG_PERF_EVENTS"},
		{"perf events",
		 "not permitted: perf_event_paranoid is 3; needs CAP_PERFMON or a lower value",
		 "perf_event_paranoid=2"},
		{"hardware counters", "no hardware PMU (in a VM: its host gives it no vPMU)",
		 "BIOS"},
		{"cycles", "others hold all hardware counters", "their holders"},
		{"slots", "no event of this meaning on this CPU", ""},
		{"loads", "this CPU's PMU does not have it", ""},
		{"KVM: hardware counters", "no hardware PMU (in a VM: its host gives it no vPMU)",
		 "BIOS"},
		/* cli/holders.c */
		{"NMI watchdog", "on: it can hold a counter of each CPU", "nmi_watchdog=0"},
		{"NMI watchdog", "not known: /proc/sys", "as root"},
		{"perf events of perf", "2 in process 12", "leave_counters"},
		{"perf events of vpmud", "2 in process 12", "vpmu sessions"},
		{"perf events of others", "not known: 3 of 4 processes", "as root"},
		{"perf events", "not known: /proc: Permission denied", "as root"},
		{"mediated vPMU", "on (kvm_intel): a guest with a vPMU has", ":H"},
		{"KVM vPMU", "not known: kvm/enable_pmu", "as root"},
		{"right to count",
		 "perf_event_paranoid is 3; above 2, counting CPUs needs CAP_SYS_ADMIN",
		 "perf_event_paranoid=2"},
		{"right to count", "perf_event_paranoid is 2; this user does not have",
		 "CAP_PERFMON"},
		{"right to BPF", "this user does not have both", "CAP_BPF"},
		{"right to BPF", "x; the kernel has no type information", "BTF"},
		{"right to BPF", "this user has CAP_BPF and CAP_PERFMON; no bpffs is mounted",
		 "mount -t bpf"},
		{"right to BPF",
		 "this user does not have both of CAP_BPF and CAP_PERFMON; no bpffs is mounted",
		 "as root"},
		/* cli/host.c */
		{"server",
		 "none answers: /run/vpmu/vpmud.sock (Permission denied), /run/vpmu/vpmu-vmm.sock "
		 "(No such file or directory)",
		 "admin_group"},
		{"server", "none answers: /run/vpmu/vpmud.sock (No such file or directory)",
		 "systemctl start vpmud"},
		{"counts without vpmud", "a former vpmud's program counts", "rm -r"},
		/* vpmud */
		{"PID namespace", "not the host's: cgroups are", "hostPID"},
		{"configuration", "the old one is in force: x", "vpmu reload"},
		{"VMs, vCPUs and cgroups are counted", "2 could not be", "journalctl"},
		{"events denied to guests", "3 times; the newest: cycles, of VM a",
		 "[tenant /PATH]"},
		{"guests beyond their quota", "1 refused; the newest: cycles, of VM a",
		 "tenant_max_events"},
		{"VMMs dropped", "2, 1 of them of VMs that sent invalid requests", "vcpus.sock"},
		{"hardware counters", "number of counters unknown: x", "set counters"},
		{"hardware counters",
		 "number of counters unknown: the kernel has no PMU of this CPU", "BIOS"},
		{"libvirt qemu:///system", "no connection; it is tried again: x", "libvirt = none"},
		{"hardware events in use", "9, which are multiplexed", "vpmu sessions"},
		{"guests' events", "not counted: KVM gives guests", ":H"},
		{"tasks that move while they run",
		 "charged to the old cgroup up to the next switch; both are partial then: "
		 "perf_event is not in the cgroup2 hierarchy",
		 "cgroup_no_v1"},
		{"tasks that move while they run",
		 "charged to the old cgroup up to the next switch; both are partial then: the "
		 "kernel takes neither an fentry program nor a kprobe that sees moves",
		 ""},
		{"vpmud may count", "perf_event_open: x", "journalctl"},
		/* service/daemon/contain.c */
		{"contain: user", "user 0; --user NAME becomes another one", "--user"},
		{"contain: user", "user 0", "stays user 0"},
		{"contain: capabilities", "not taken", "as root"},
		{"contain: no new privileges", "not taken", "as root"},
		{"contain: files", "no landlock: it would hide", "unit"},
		{"contain: files", "this kernel has none", "landlock"},
		{"contain: system calls", "not taken", "as root"},
		/* vmm */
		{"tenants are cgroups", "no cgroup root", "--cgroup-root"},
		{"emulator: translated code", "--no-jit", "no-jit"},
		{"KVM engine", "/dev/kvm: Permission denied", "group kvm"},
		{"KVM engine", "/dev/kvm: No such file", "kvm_intel"},
		{"KVM: sampling", "perf events of vCPU threads", "engine=emulator"},
		{"KVM: branch records", "KVM keeps", "engine=emulator"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *remedy = remedy_for(rows[i].what, rows[i].why);

		cr_expect(remedy, "no remedy of \"%s\": %s", rows[i].what, rows[i].why);
		if (!remedy)
			continue;
		cr_expect(strstr(remedy, rows[i].has), "%s: %s: \"%s\"", rows[i].what, rows[i].why,
			  remedy);
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
