// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The remedies of `vpmu check`; see check.h. The first matching line of the table wins. The
 * reasons are strings of vpmu/host/perf_check.c, vpmud/ and vmm/machine/info.c; test_cli_remedy
 * checks each of them.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "cli/check.h"

#define NO_PMU                                                                                     \
	"on bare metal: look for a BIOS setting of performance counters; in a VM: let its host "   \
	"give it a vPMU (libvirt: <pmu state='on'/>). Software events are counted without one"

static const struct {
	const char *what; /* prefix of the row; NULL: any row */
	const char *why;  /* substring of the reason; NULL: any reason */
	const char *remedy;
} table[] = {
	/* reasons that occur in many rows */
	{NULL, "no hardware PMU (in a VM", NO_PMU},
	{NULL, "counting CPUs needs CAP_SYS_ADMIN",
	 "sysctl kernel.perf_event_paranoid=2 (in /etc/sysctl.d to keep it)"},
	{NULL, "not permitted: perf_event_paranoid",
	 "run as root, or with CAP_PERFMON and sysctl kernel.perf_event_paranoid=2; or use a "
	 "server with these rights (vpmud)"},
	{NULL, "others hold all hardware counters",
	 "see their holders in the second part; end them, or let events be multiplexed"},
	{NULL, "the kernel has no perf events", "a kernel with CONFIG_PERF_EVENTS"},
	{NULL, "mediated vPMU run", "count with :H, or start VMs without a vPMU"},
	{NULL, "this CPU's PMU does not have it", ""},
	{NULL, "no event of this meaning on this CPU", ""},

	/* users of the counters */
	{"mediated vPMU", "not known", "run vpmu check as root"},
	{"mediated vPMU", NULL, "count with :H, or load KVM with enable_mediated_pmu=N"},
	{"NMI watchdog", "not known", "run vpmu check as root"},
	{"NMI watchdog", NULL, "sysctl kernel.nmi_watchdog=0 (in /etc/sysctl.d to keep it)"},
	{"perf events of others", NULL, "run vpmu check as root: it sees all processes"},
	{"perf events", "not known", "run vpmu check as root: it sees all processes"},
	{"perf events of vpmud", NULL, "these are vpmu's own: vpmu sessions shows for whom"},
	{"perf events of vpmu-vmm", NULL, "these are vpmu's own: vpmu sessions shows for whom"},
	{"perf events of", NULL,
	 "if its counters are wanted, end that program; leave_counters in vpmud.conf leaves it its "
	 "share"},
	{"KVM vPMU", NULL, "run vpmu check as root"},

	/* rights */
	{"right to count", "not known", "a kernel with CONFIG_PERF_EVENTS, and /proc mounted"},
	{"right to count", NULL,
	 "use a server with it (vpmud); to count without one, run as root, or give the program "
	 "CAP_PERFMON"},
	{"right to BPF", "no type information",
	 "a kernel with CONFIG_DEBUG_INFO_BTF, as Debian's are"},
	{"right to BPF", "has CAP_BPF", "mount -t bpf bpf /sys/fs/bpf"}, /* all but bpffs */
	{"right to BPF", NULL, "run as root, or give the program CAP_BPF and CAP_PERFMON"},

	/* no server */
	{"server", "Permission denied",
	 "only root, the server's user and members of its groups may use the socket: be root, or "
	 "see admin_group and reader_group in vpmud.conf(5)"},
	{"server", "none answers",
	 "systemctl start vpmud; if it ends again, see journalctl -u vpmud. Or vpmu-vmm --socket "
	 "PATH, and -S PATH here"},
	{"counts without vpmud", NULL,
	 "start vpmud, which goes on with these counts; to give them up: rm -r /sys/fs/bpf/vpmu"},

	/* vpmud */
	{"PID namespace", NULL,
	 "run vpmud on the host, or its container in the host's PID namespace (hostPID: true, "
	 "--pid=host)"},
	{"configuration", NULL, "correct the file at the line that is named, then vpmu reload"},
	{"VMs, vCPUs and cgroups are counted", NULL,
	 "journalctl -u vpmud names the others, with the reasons"},
	{"names of VMs", NULL,
	 "journalctl -u vpmud names them; vm_owner in vpmud.conf(5) sets the users with trusted "
	 "names"},
	{"hardware counters", "no PMU of this CPU", NO_PMU},
	{"hardware counters", "number of counters unknown",
	 "set counters in vpmud.conf to how many general ones a CPU has"},
	{"hardware events in use", NULL,
	 "count fewer events at a time (vpmu sessions), or lower leave_counters in vpmud.conf"},
	{"guests' events", NULL, "count with :H, or start VMs without a vPMU"},
	{"tasks that move while they run", "cgroup2 hierarchy",
	 "unmount the hierarchy of version 1 with perf_event, or boot with "
	 "cgroup_no_v1=perf_event"},
	{"tasks that move while they run", NULL, ""},
	{"events denied to guests", NULL,
	 "vpmu list shows the VMs; policy and allow in [tenant /PATH] of vpmud.conf, or "
	 "guest_events, permit them"},
	{"guests beyond their quota", NULL,
	 "vpmu list shows the VMs; raise max_events or tenant_max_events in vpmud.conf, up to 24"},
	{"VMMs dropped", NULL,
	 "vpmu list shows the VMs; vpmu-qemu sends no such requests: which other VMM uses "
	 "vcpus.sock?"},
	{"vpmud may count", NULL,
	 "the reason is the kernel's: journalctl -u vpmud and dmesg; sysctl "
	 "kernel.perf_event_paranoid=2 if that is greater"},
	{"libvirt", NULL,
	 "install libvirt0 and start libvirtd or virtqemud, or set libvirt = none in vpmud.conf"},

	/* containment */
	{"contain: user", "--user", "vpmu-vmm: --user NAME"},
	{"contain: user", NULL, "vpmud stays user 0 (vpmud(8))"},
	{"contain: files", "no landlock", "start vpmud by its unit, which mounts files read-only"},
	{"contain: files", NULL, "a kernel with landlock (lsm=landlock,...)"},
	{"contain:", NULL, "start the server as root, or by its unit"},

	/* vpmu-vmm */
	{"tenants are cgroups", NULL, "--cgroup-root DIR if tenants shall be cgroups"},
	{"emulator: translated code", NULL, "start without --no-jit; guests are only slower"},
	{"KVM engine", "ermission",
	 "let the server's user open /dev/kvm (group kvm), or engine=emulator"},
	{"KVM engine", NULL, "load kvm_intel or kvm_amd, or engine=emulator"},
	{"KVM: sampling", NULL, "engine=emulator samples; vpmud samples VMs of KVM"},
	{"KVM: branch records", NULL, "engine=emulator has branch records"},
};

/* Rows that are no problems: the CPU, an option or vpmu itself is meant to be so. */
static const struct {
	const char *what, *why; /* as in the table */
	const char *but;	/* not with this in the reason; NULL: any */
} designed[] = {
	{"events denied to guests", NULL, NULL},
	{NULL, "this CPU's PMU does not have it", NULL},
	{NULL, "no event of this meaning on this CPU", NULL},
	{"perf events of vpmud", NULL, "not known"},
	{"perf events of vpmu-vmm", NULL, "not known"},
	{"tasks that move while they run", NULL, "cgroup2 hierarchy"},
	{"contain: user", NULL, "--user"}, /* vpmud stays user 0 */
	{"tenants are cgroups", NULL, NULL},
	{"emulator: translated code", NULL, NULL},
	{"KVM: sampling", NULL, NULL},
	{"KVM: branch records", NULL, NULL},
};

static bool remedy_matches(const char *text, const char *what, const char *why, const char *reason)
{
	return (!what || !strncmp(text, what, strlen(what))) && (!why || strstr(reason, why));
}

const char *remedy_for(const char *what, const char *why)
{
	/* vpmu-vmm prefixes the rows of perf events with the backend. */
	if (strncmp(what, "KVM: perf", 9) == 0 || strncmp(what, "KVM: hardware", 13) == 0)
		what += 5;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (remedy_matches(what, table[i].what, table[i].why, why))
			return table[i].remedy;
	return NULL;
}

bool remedy_by_design(const char *what, const char *why)
{
	for (size_t i = 0; i < sizeof(designed) / sizeof(designed[0]); i++)
		if (remedy_matches(what, designed[i].what, designed[i].why, why))
			return !designed[i].but || !strstr(why, designed[i].but);
	return false;
}
