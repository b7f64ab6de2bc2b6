// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/holders.c with a /proc and a /sys of the test's own: the meaning of each file, also when
 * no kernel writes it. */
#include "folder_bed.h"
#include "cli/check.h"
#include "vpmu/util/utf8.h"

TestSuite(cli_holders, .init = folder_begin, .fini = folder_end);

/* A process with @events perf events open, and as many other files. */
static void process(int pid, const char *comm, int events)
{
	char name[100];

	snprintf(name, sizeof(name), "/proc/%d/comm", pid);
	folder_put(name, comm);
	for (int i = 0; i < 2 * events; i++) {
		snprintf(name, sizeof(name), "/proc/%d/fd/%d", pid, i);
		cr_assert_eq(symlink(i % 2 ? "anon_inode:[perf_event]" : "anon_inode:[perf_event]x",
				     folder_path(name)),
			     0);
	}
}

/* A host without holders. */
static void plain_host(void)
{
	folder_put("/proc/sys/kernel/nmi_watchdog", "0\n");
	folder_put("/proc/sys/kernel/perf_event_paranoid", "2\n");
	folder_put("/proc/self/status", "Name:\tx\nCapInh:\t0\nCapEff:\t000001ffffffffff\n");
	folder_put("/sys/module/kvm/parameters/enable_pmu", "N\n");
	folder_put("/sys/module/kvm_intel/parameters/enable_mediated_pmu", "N\n");
	folder_put("/sys/devices/system/cpu/isolated", "\n");
	folder_put("/sys/devices/system/cpu/nohz_full", "(null)\n");
	folder_put("/sys/kernel/btf/vmlinux", "x");
	folder_put("/proc/self/mounts", "bpf /proc/x proc rw 0 0\n/dev/a\\040b bpf ext4 rw 0 0\n"
					"bpf /sys/fs/bpf bpf rw 0 0\n");
	process(1, "init\n", 0);
}

static int add(const char *what, bool ok, const char *why, void *arg)
{
	char *text = arg;
	size_t n = strlen(text);

	cr_expect(utf8_text(what) && utf8_text(why));
	cr_assert(n + strlen(what) + strlen(why) + 10 < 10000);
	sprintf(text + n, "%s|%s|%s\n", what, ok ? "yes" : "no", why);
	return 0;
}

static const char *checked(void)
{
	static char text[10000];

	text[0] = '\0';
	cr_expect_eq(holders_check(folder, add, text), 0);
	return text;
}

#define SAYS(line)                                                                                 \
	do {                                                                                       \
		const char *text_ = checked();                                                     \
		cr_expect(strstr(text_, line "\n"), "missing: %s\nin:\n%s", line, text_);          \
	} while (0)

Test(cli_holders, nobody)
{
	plain_host();
	cr_expect_str_eq(checked(), "NMI watchdog|yes|off\n"
				    "perf events|yes|none: no process has perf events open\n"
				    "mediated vPMU|yes|off\n"
				    "KVM vPMU|yes|off: no guest has one\n"
				    "isolated CPUs|yes|none\n"
				    "right to count|yes|perf_event_paranoid is 2; this user has "
				    "CAP_PERFMON\n"
				    "right to BPF|yes|this user has CAP_BPF and CAP_PERFMON\n");
}

Test(cli_holders, an_empty_host)
{
	folder_put("/proc/self/x", "");
	cr_expect_str_eq(
		checked(),
		"NMI watchdog|yes|this kernel has none\n"
		"perf events|yes|none: no process has perf events open\n"
		"mediated vPMU|yes|this kernel has none\n"
		"KVM vPMU|yes|the module kvm is not loaded, or has no such switch\n"
		"isolated CPUs|yes|none\n"
		"right to count|no|not known: /proc/sys/kernel/perf_event_paranoid cannot "
		"be read; a kernel without perf events has no such file\n"
		"right to BPF|no|this user may have CAP_BPF and CAP_PERFMON; the kernel has "
		"no type information (/sys/kernel/btf/vmlinux); no bpffs is mounted, "
		"where counts survive a restart\n");
}

Test(cli_holders, no_proc)
{
	SAYS("perf events|no|not known: /proc: No such file or directory");
}

Test(cli_holders, everything_is_held)
{
	plain_host();
	folder_put("/proc/sys/kernel/nmi_watchdog", "1\n");
	folder_put("/sys/module/kvm/parameters/enable_pmu", "Y\n");
	folder_put("/sys/module/kvm_intel/parameters/enable_mediated_pmu", "Y\n");
	folder_put("/sys/devices/system/cpu/isolated", "2-3,6\n");
	folder_put("/sys/devices/system/cpu/nohz_full", "2-3\n");
	process(20, "perf\n", 3);
	process(300, "node exporter\n", 64);
	process(7, "perf\n", 2);
	SAYS("NMI watchdog|no|on: it can hold a counter of each CPU; `sysctl "
	     "kernel.nmi_watchdog=0` ends it");
	SAYS("perf events of node exporter|no|64 in process 300");
	SAYS("perf events of perf|no|5 in 2 processes, 7 and others");
	SAYS("mediated vPMU|no|on (kvm_intel): a guest with a vPMU has all counters while it runs, "
	     "and events that count in guests are refused");
	SAYS("KVM vPMU|yes|on: guests with a vPMU of their own count on this host's counters");
	SAYS("isolated CPUs|yes|isolated: 2-3,6; nohz_full: 2-3");
	cr_expect(!strstr(checked(), "of others") && !strstr(checked(), "perf events|"), "%s",
		  checked());
	cr_expect(strstr(checked(), "node exporter") < strstr(checked(), "perf events of perf"),
		  "not the largest first");
	folder_put("/sys/module/kvm_amd/parameters/enable_mediated_pmu", "1\n");
	folder_put("/sys/module/kvm_intel/parameters/enable_mediated_pmu", "N\n");
	SAYS("mediated vPMU|no|on (kvm_amd): a guest with a vPMU has all counters while it runs, "
	     "and "
	     "events that count in guests are refused");
}

Test(cli_holders, rights)
{
	static const struct {
		const char *caps, *paranoid, *count, *bpf;
	} cases[] = {
		{"0", "2",
		 "no|perf_event_paranoid is 2; this user does not have CAP_PERFMON, which "
		 "counting CPUs needs",
		 "no|this user does not have both of CAP_BPF and CAP_PERFMON"},
		{"0", "0", "yes|perf_event_paranoid is 0; this user does not have CAP_PERFMON",
		 "no|this user does not have both of CAP_BPF and CAP_PERFMON"},
		{"0000004000000000", "2", "yes|perf_event_paranoid is 2; this user has CAP_PERFMON",
		 "no|this user does not have both of CAP_BPF and CAP_PERFMON"},
		{"000000c000000000", "3",
		 "no|perf_event_paranoid is 3; this user has CAP_PERFMON; above 2, counting CPUs "
		 "needs "
		 "CAP_SYS_ADMIN",
		 "yes|this user has CAP_BPF and CAP_PERFMON"},
		{"0000000000200000", "3", "yes|perf_event_paranoid is 3; this user has CAP_PERFMON",
		 "yes|this user has CAP_BPF and CAP_PERFMON"},
		{"0000000000200000", "-1",
		 "yes|perf_event_paranoid is -1; this user has CAP_PERFMON",
		 "yes|this user has CAP_BPF and CAP_PERFMON"},
	};
	char text[400];

	plain_host();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "CapEff:\t%s\n", cases[i].caps);
		folder_put("/proc/self/status", text);
		folder_put("/proc/sys/kernel/perf_event_paranoid", cases[i].paranoid);
		snprintf(text, sizeof(text), "right to count|%s\nright to BPF|%s\n", cases[i].count,
			 cases[i].bpf);
		cr_expect(strstr(checked(), text), "%zu: %s", i, checked());
	}
}

/* A user may be in thousands of groups, which /proc/self/status lists before the capabilities. */
Test(cli_holders, many_groups)
{
	static char text[30000];
	size_t n = (size_t)snprintf(text, sizeof(text), "Name:\tx\nGroups:\t");

	plain_host();
	while (n < sizeof(text) - 100)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "1000000000 ");
	snprintf(text + n, sizeof(text) - n, "\nCapInh:\t0\nCapEff:\t000001ffffffffff\n");
	folder_put("/proc/self/status", text);
	cr_expect(strstr(checked(), "right to BPF|yes|this user has"), "%s", checked());
}

Test(cli_holders, hostile_files)
{
	char big[5000];

	plain_host();
	folder_put("/proc/sys/kernel/nmi_watchdog", "on\n");
	folder_put("/proc/sys/kernel/perf_event_paranoid", "");
	folder_put("/sys/module/kvm/parameters/enable_pmu", "maybe\n");
	folder_put("/sys/module/kvm_intel/parameters/enable_mediated_pmu", "\n");
	folder_put("/sys/devices/system/cpu/isolated", "\033[2J\xff\n");
	memset(big, '9', sizeof(big));
	folder_put_bytes("/sys/devices/system/cpu/nohz_full", big, sizeof(big));
	SAYS("NMI watchdog|no|not known: /proc/sys/kernel/nmi_watchdog has no number that can be "
	     "read");
	SAYS("mediated vPMU|no|not known: kvm_intel/enable_mediated_pmu cannot be read");
	SAYS("KVM vPMU|no|not known: kvm/enable_pmu cannot be read");
	cr_expect(strstr(checked(), "isolated CPUs|yes|isolated: ?[2J?; nohz_full: 9999"), "%s",
		  checked());
	cr_expect(strstr(checked(), "right to count|no|not known"));
	folder_put_bytes("/proc/sys/kernel/nmi_watchdog", big, sizeof(big));
	cr_expect(strstr(checked(), "NMI watchdog|no|not known"));
	folder_put_bytes("/proc/self/mounts", big, sizeof(big));
	cr_expect(strstr(checked(), "no bpffs is mounted"));
	folder_put("/proc/self/mounts", "bpf /sys/fs/bpf ext4 rw 0 0\nbpf\n\n x bpf\n");
	cr_expect(strstr(checked(), "no bpffs is mounted"));
	folder_put_bytes("/proc/self/status", big, sizeof(big));
	cr_expect(strstr(checked(), "right to BPF|no|this user may have"));
}

Test(cli_holders, hostile_processes)
{
	char name[100];

	plain_host();
	process(10, "a\nb", 1);
	process(11, "\033]0;x\a\n", 1);
	process(12, "\xe2\x80\xae\n", 1);
	process(13, "", 1);
	process(14, "perf events|yes|none\n", 1);
	/* Not processes: names that are no numbers, and a process without files. */
	folder_put("/proc/15x/comm", "x");
	cr_assert_eq(mkdir(folder_path("/proc/15x/fd"), 0700), 0);
	cr_assert_eq(symlink("anon_inode:[perf_event]", folder_path("/proc/15x/fd/0")), 0);
	folder_put("/proc/99999999999999999999/comm", "x");
	folder_put("/proc/16/comm", "x");
	SAYS("perf events of a|no|1 in process 10");
	SAYS("perf events of ?]0;x?|no|1 in process 11");
	SAYS("perf events of ???|no|1 in process 12");
	SAYS("perf events of ?|no|1 in process 13");
	SAYS("perf events of perf events|yes|none|no|1 in process 14");
	cr_expect(!strstr(checked(), "of x") && !strstr(checked(), "closed"), "%s", checked());

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "many-%02d\n", i);
		process(100 + i, name, 2);
	}
	SAYS("perf events of many-15|no|2 in process 115");
	SAYS("perf events of others|no|53 in 29 processes of 29 more names");
	cr_expect(!strstr(checked(), "many-16"));
	if (geteuid() == 0)
		return;
	cr_assert_eq(chmod(folder_path("/proc/10/fd"), 0), 0);
	cr_expect(strstr(checked(), "not known: 1 of "), "%s", checked());
	cr_assert_eq(chmod(folder_path("/proc/10/fd"), 0700), 0); /* for end() */
}

/* A caller that has had enough. */
static int stop(const char *what, bool ok, const char *why, void *arg)
{
	int *left = arg;

	return --*left ? 0 : -ENOMEM;
}

Test(cli_holders, stops)
{
	plain_host();
	process(20, "perf\n", 3);
	for (int calls = 1; calls <= 7; calls++) {
		int left = calls;

		cr_expect_eq(holders_check(folder, stop, &left), -ENOMEM, "%d", calls);
		cr_expect_eq(left, 0);
	}
}
