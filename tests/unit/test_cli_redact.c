// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/redact.c and remedy.c: what passes into an archive for a bug report, and what to do
 * about each row of `vpmu check`. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/bundle_facts.h"
#include "cli/redact.h"
#include "cli/remedy.h"

static struct redact *r;

static void begin(void)
{
	r = redact_new(false);
	cr_assert(r);
	cr_assert_eq(redact_words(r, "the tenant %s has no counter"), 0);
}

static void end(void)
{
	redact_free(r);
}

TestSuite(redact, .init = begin, .fini = end);

/* The text as it is written. The caller frees it. */
static char *written(void (*write)(const struct redact *r, const char *text, FILE *to),
		     const char *text)
{
	char *out = NULL;
	size_t len;
	FILE *f = open_memstream(&out, &len);

	cr_assert(f);
	write(r, text, f);
	fclose(f);
	return out;
}

static void text_is(const char *text, const char *want)
{
	char *got = written(redact_text, text);

	cr_expect_str_eq(got, want);
	free(got);
}

/* Without the bytes of @name, and with the same pseudonym each time. */
static void hides(const char *text, const char *name)
{
	char *got = written(redact_text, text), *again = written(redact_text, text);

	cr_expect_not(strstr(got, name), "\"%s\" is in \"%s\"", name, got);
	cr_expect_str_eq(got, again);
	free(got);
	free(again);
}

Test(redact, what_passes)
{
	text_is("the tenant has no counter", "the tenant has no counter");
	text_is("Permission denied: 12.5% (4711), 0x1f", "Permission denied: 12.5% (4711), 0x1f");
	text_is("tenant: /proc/sys/kernel/nmi_watchdog.", "tenant: /proc/sys/kernel/nmi_watchdog.");
	text_is("", "");
	text_is(" \n", " \n");
}

Test(redact, names_do_not)
{
	hides("the tenant acme has no counter", "acme");
	hides("the tenant \"acme\" has", "acme");
	hides("tenant=/acme/web: no", "acme");
	hides("tenant=/acme/web: no", "web");
	hides("3f1c2a9e-7d50-4c0e-9b1c-2f6d8a1e5b7c", "3f1c");
	hides("/run/vpmu/vpmu-vmm-acme.sock", "acme");
	hides("/home/acme/image", "acme");
	hides("12acme", "acme");
	hides("tenant.acme", "acme");
	hides("\xc3\xa4\xc3\xb6", "\xc3\xa4");
}

/* A name that is a word of a message is known from the server's list. */
Test(redact, known_names)
{
	cr_assert_eq(redact_known(r, "/counter/no"), 0);
	hides("the tenant has no counter", "counter");
	hides("the tenant has no counter", " no ");
	text_is("the tenant", "the tenant");
}

Test(redact, pseudonyms)
{
	char *a = written(redact_name, "/acme/web"), *b = written(redact_name, "web");
	char *c = written(redact_name, "wed"), *t = written(redact_text, "web");

	cr_expect_eq(a[0], '/');
	cr_expect_str_eq(strrchr(a, '/') + 1, b, "a component has the same one everywhere");
	cr_expect_str_eq(b, t);
	if (strcmp(b, "hidden")) {
		cr_expect_eq(strlen(b), 10);
		cr_expect_str_neq(b, c);
	}
	free(a);
	free(b);
	free(c);
	free(t);
	a = written(redact_name, "/machine.slice/x");
	cr_expect_eq(strncmp(a, "/machine.slice/", 15), 0);
	free(a);
}

/* vpmud.conf: keys and numbers pass, names do not; a key that is none may be a name. */
Test(redact, configuration)
{
	static const char text[] = "# acme's\n[vpmud]\ncounters = 6\nisolated = yes\n"
				   "leave_counters = acme\nadmin_group = acme-ops\nacme = 1\n"
				   "[metrics]\nmax_domains = 50\n[tenant /acme/*]\n"
				   "cgroup = /machine.slice/acme-*.scope\n";
	char path[] = "/tmp/vpmu-redact-XXXXXX", *got = NULL;
	int fd = mkstemp(path);
	size_t len;
	FILE *to = open_memstream(&got, &len);

	cr_assert(fd >= 0 && to);
	cr_assert_eq(write(fd, text, sizeof(text) - 1), (ssize_t)sizeof(text) - 1);
	close(fd);
	cr_assert_eq(redact_words(r, "vpmud metrics yes no"), 0);
	facts_config(r, path, to);
	fclose(to);
	unlink(path);
	cr_expect_null(strstr(got, "acme"), "%s", got);
	cr_expect(strstr(got, "[vpmud]\ncounters = 6\nisolated = yes\n"), "%s", got);
	cr_expect(strstr(got, "\n? = "), "%s", got);
	cr_expect(strstr(got, "[metrics]\nmax_domains = 50\n[tenant /"), "%s", got);
	cr_expect(strstr(got, "\ncgroup = /machine.slice/"), "%s", got);
	free(got);
}

Test(redact, names_that_are_kept)
{
	redact_free(r);
	r = redact_new(true);
	cr_assert(r);
	text_is("the tenant /acme/web", "the tenant /acme/web");
}

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
		{__LINE__, "cycles", "others hold all hardware counters", "who holds them"},
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
		{__LINE__, "hardware counters", "not known how many a CPU has: x", "set counters"},
		{__LINE__, "hardware counters",
		 "not known how many a CPU has: the kernel has no PMU of this CPU", "BIOS"},
		{__LINE__, "libvirt qemu:///system", "no connection; it is tried again: x",
		 "libvirt = none"},
		{__LINE__, "hardware events in use", "9, which take turns", "vpmu sessions"},
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
		{__LINE__, "contain: user", "user 0", "--user"},
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
