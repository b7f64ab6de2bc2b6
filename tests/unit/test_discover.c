// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmud/discover on a /proc of files: every kind of VM, identity, hostile processes, errors. */
#include "discover_bed.h"
#include "vpmud/discover/priv.h"

TestSuite(discover, .init = bed_start, .fini = bed_stop);

/* ---- QEMU ---- */

Test(discover, qemu_comes_and_goes)
{
	expect_seen("");
	bed_qemu(10, 1000, QEMU_WEB);
	expect_seen(QEMU_WEB_LINE("added"));
	expect_seen("");
	bed_end(10);
	expect_seen(QEMU_WEB_LINE("removed"));
	expect_seen("");
}

Test(discover, a_vcpu_is_plugged_and_unplugged)
{
	bed_web();
	bed_thread(10, 15, "CPU 2/KVM", 1500, 0, NULL);
	expect_seen(QEMU_WEB_VCPUS("changed", "0:11/1001,1:12/1002,2:15/1500"));
	bed_remove(bed_path("proc/10/task/12"));
	expect_seen(QEMU_WEB_VCPUS("changed", "0:11/1001,2:15/1500"));
}

/* It decides on the trust in a VM's name: a program that is only on its way to a user is
 * no user's. */
Test(discover, whose_process_it_is)
{
	bed_web();
	bed_status(10, 107, 107, 107);
	expect_seen("changed qemu web-1 uuid=" UUID
		    " id=10/1000 cgroup=/ tenant=- socket=- vcpus=0:11/1001,1:12/1002 uid=107\n");
	bed_status(10, 107, 0, 0);
	expect_seen("changed qemu web-1 uuid=" UUID
		    " id=10/1000 cgroup=/ tenant=- socket=- vcpus=0:11/1001,1:12/1002 uid=-1\n");
	bed_status(10, 107, 107, 0);
	expect_seen("");
	bed_status(10, 0, 0, 0);
	expect_seen(QEMU_WEB_LINE("changed"));
}

/* A thread has the name of the one that made it until it names itself. */
Test(discover, a_thread_gets_its_name_late)
{
	bed_qemu(10, 1000, QEMU_WEB);
	bed_thread(10, 12, "qemu-system-x86", 1002, 0, NULL);
	bed_scan();
	bed_thread(10, 12, "CPU 1/KVM", 1002, 0, NULL);
	expect_seen(QEMU_WEB_LINE("changed"));
}

Test(discover, command_lines_of_qemu)
{
	static const struct {
		int line;
		const char *args, *name, *uuid;
	} rows[] = {
		{__LINE__, "qemu-system-x86_64 -name web", "web", NULL},
		{__LINE__, "qemu-system-x86_64 --name web", "web", NULL},
		{__LINE__, "/usr/libexec/qemu-kvm -name debug-threads=on,guest=web", "web", NULL},
		{__LINE__, "kvm -name web,process=other", "web", NULL},
		{__LINE__, "qemu-system-arm -name a,,b,debug-threads=on", "a,b", NULL},
		{__LINE__, "qemu-system-arm -name a -name b", "b", NULL},
		{__LINE__, "qemu-system-arm", "qemu-10", NULL},
		{__LINE__, "qemu-system-arm -name", "qemu-10", NULL},
		{__LINE__, "qemu-system-arm -name ,", "qemu-10", NULL},
		{__LINE__, "qemu-system-arm -name debug-threads=on", "qemu-10", NULL},
		{__LINE__, "qemu-system-arm -append -name -uuid " UUID, "qemu-10", UUID},
		{__LINE__, "qemu-system-arm -uuid 00112233-4455-6677-8899-AABBCCDDEEFF", "qemu-10",
		 UUID},
		{__LINE__, "qemu-system-arm -uuid 00112233-4455-6677-8899-aabbccddeef", "qemu-10",
		 NULL},
		{__LINE__, "qemu-system-arm -uuid 00112233x4455-6677-8899-aabbccddeeff", "qemu-10",
		 NULL},
		{__LINE__, "qemu-system-arm -uuid none", "qemu-10", NULL},
		{__LINE__, "/bin/sh /usr/bin/kvm -name web", NULL, NULL},
		{__LINE__, "timeout 5 qemu-system-x86_64 -name web", NULL, NULL},
		{__LINE__, "qemu-system-x86_64 -S -machine none,accel=kvm:tcg", NULL, NULL},
		{__LINE__, "qemu-system-x86_64 -M type=none", NULL, NULL},
		{__LINE__, "qemu-img convert a b", NULL, NULL},
		{__LINE__, "", NULL, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[512] = "";
		const char *got;

		if (rows[i].name)
			snprintf(want, sizeof(want),
				 "added qemu %s uuid=%s id=10/%zu cgroup=/ tenant=- socket=- "
				 "vcpus=0:11/1\n",
				 rows[i].name, bed_or(rows[i].uuid), 1000 + i);
		got = bed_visit(&(struct bed_process){.pid = 10,
						      .start = 1000 + i,
						      .comm = "main",
						      .cmdline = rows[i].args},
				"CPU 0/TCG");
		cr_expect_str_eq(got, want, "line %d: %s: got %s", rows[i].line, rows[i].args, got);
	}
}

/* Bytes that a terminal or JSON would choke on never get out. */
Test(discover, hostile_names)
{
	static const struct {
		int line;
		const char *raw;
		size_t len;
		const char *name;
	} rows[] = {
#define RAW(s)                                                                                     \
	__LINE__, "qemu-system-x86_64\0-name\0" s, sizeof("qemu-system-x86_64\0-name\0" s) - 1
		{RAW("a\nb"), "a\\x0ab"},
		{RAW("\x1b[2J"), "\\x1b[2J"},
		{RAW("a\tb\x7f"), "a\\x09b\\x7f"},
		{RAW("\xff\xfe"), "\\xff\\xfe"},
		{RAW("\xc3\xa9t\xc3\xa9"), "\xc3\xa9t\xc3\xa9"},
		{RAW("\xc3"), "\\xc3"},
		{RAW("\xe2\x80\xae"
		     "txt"),
		 "\\xe2\\x80\\xaetxt"},
		{RAW("no nul"), "no nul"},
	};
	char *big = malloc(2 << 20);
	const struct bed_process p = {.pid = 10, .raw = big, .raw_len = 2 << 20};
	const char *name;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[512];
		const char *got;

		snprintf(want, sizeof(want),
			 "added qemu %s uuid=- id=10/%zu cgroup=/ tenant=- socket=- vcpus=0:11/1\n",
			 rows[i].name, 1000 + i);
		got = bed_visit(&(struct bed_process){.pid = 10,
						      .start = 1000 + i,
						      .raw = rows[i].raw,
						      .raw_len = rows[i].len},
				"CPU 0/KVM");
		cr_expect_str_eq(got, want, "line %d: got %s", rows[i].line, got);
	}
	/* 2 MiB without a NUL, and 2 MiB of name. */
	memset(big, 'q', 2 << 20);
	cr_expect_str_eq(bed_visit(&p, "CPU 0/KVM"),
			 VM_LINE("added", "qemu qemu-10", "10/1000", "0:11/1"));
	memcpy(big, "qemu-system-x86_64\0-name\0", 25);
	name = strchr(strchr(bed_visit(&p, "CPU 0/KVM"), ' ') + 1, ' ') + 1;
	cr_expect_eq(strcspn(name, " "), 255);
	/* A name behind 100 KiB of other arguments is found. */
	memset(big, 'q', 2 << 20);
	memcpy(big, "qemu-system-x86_64", 19);
	memcpy(big + 100000, "\0-name\0far", 11);
	cr_expect_str_eq(bed_visit(&p, "CPU 0/KVM"),
			 VM_LINE("added", "qemu far", "10/1000", "0:11/1"));
	free(big);
}

Test(discover, names_of_threads)
{
	static const struct {
		int line;
		const char *comm;
		int index;
	} rows[] = {
		{__LINE__, "CPU 7/KVM", 7},	    {__LINE__, "CPU 255/TCG", 255},
		{__LINE__, "fc_vcpu 3", 3},	    {__LINE__, "vcpu12", 12},
		{__LINE__, "kvm-vcpu-1", 1},	    {__LINE__, "crosvm_vcpu4", 4},
		{__LINE__, "CPU /KVM", -1},	    {__LINE__, "CPU -1/KVM", -1},
		{__LINE__, "CPU 1/KVMx", -1},	    {__LINE__, "CPU 1/DUMMY", -1},
		{__LINE__, "CPU 9999999/KVM", -1},  {__LINE__, "vcpu", -1},
		{__LINE__, "vcpu1x", -1},	    {__LINE__, "IO mon_iothread", -1},
		{__LINE__, ") S 1 (CPU 1/KVM", -1}, {__LINE__, "", -1},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[32] = "vcpus=\n";
		const char *got;

		if (rows[i].index >= 0)
			snprintf(want, sizeof(want), "vcpus=%d:11/1\n", rows[i].index);
		got = bed_visit(&(struct bed_process){.pid = 10,
						      .start = 1000 + i,
						      .cmdline = "qemu-system-arm -name web"},
				rows[i].comm);
		cr_expect(strstr(got, want), "line %d: %s: got %s", rows[i].line, rows[i].comm,
			  got);
	}
}

Test(discover, one_thread_for_all_vcpus_says_so)
{
	bed_process(&(struct bed_process){.pid = 10, .cmdline = "qemu-system-arm -name web"});
	bed_thread(10, 11, "ALL CPUs/TCG", 7, 0, NULL);
	expect_seen(
		"note process 10 runs all its vCPUs in one thread; it is shown as vCPU 0\n" VM_LINE(
			"added", "qemu web", "10/1000", "0:11/7"));
	expect_seen("");
}

Test(discover, two_threads_of_one_vcpu)
{
	bed_qemu(10, 1000, QEMU_WEB);
	bed_thread(10, 9, "CPU 1/KVM", 2000, 0, NULL);
	expect_seen("note process 10: threads 12 and 9 both have the name of vCPU 1; the older one "
		    "counts\n" QEMU_WEB_LINE("added"));
	expect_seen("");
}

Test(discover, two_vms_of_one_name_and_uuid)
{
	bed_qemu(10, 1000, QEMU_WEB);
	bed_qemu(20, 1000, QEMU_WEB);
	bed_scan();
	bed_end(10);
	expect_seen(QEMU_WEB_LINE("removed"));
}

/* ---- identity ---- */

Test(discover, a_pid_is_used_again)
{
	bed_web();
	bed_end(10);
	bed_qemu(10, 5000, "qemu-system-x86_64 -name other");
	expect_seen(QEMU_WEB_LINE("removed")
			    VM_LINE("added", "qemu other", "10/5000", "0:11/5001,1:12/5002"));
	/* By a process that is no VM. */
	bed_end(10);
	bed_process(&(struct bed_process){.pid = 10, .start = 6000, .comm = "sh", .cmdline = "sh"});
	expect_seen(VM_LINE("removed", "qemu other", "10/5000", "0:11/5001,1:12/5002"));
	/* And by a VM again. */
	bed_end(10);
	bed_qemu(10, 1000, QEMU_WEB);
	expect_seen(QEMU_WEB_LINE("added"));
}

Test(discover, a_tid_is_used_again)
{
	bed_web();
	bed_thread(10, 12, "CPU 1/KVM", 7777, 0, NULL);
	expect_seen(QEMU_WEB_VCPUS("changed", "0:11/1001,1:12/7777"));
}

/* A shell becomes QEMU, and QEMU something else, without a new pid. */
Test(discover, a_process_executes_another_program)
{
	bed_process(&(struct bed_process){.pid = 10, .comm = "sh", .cmdline = "sh"});
	expect_seen("");
	bed_qemu(10, 1000, QEMU_WEB);
	expect_seen(QEMU_WEB_LINE("added"));
	bed_process(&(struct bed_process){.pid = 10, .comm = "true", .cmdline = "true"});
	expect_seen(QEMU_WEB_LINE("removed"));
}

/* While a program is being started its arguments can't be read yet. */
Test(discover, arguments_come_late)
{
	bed_qemu(10, 1000, "");
	expect_seen(VM_LINE("added", "qemu qemu-10", "10/1000", "0:11/1001,1:12/1002"));
	bed_qemu(10, 1000, QEMU_WEB);
	expect_seen(QEMU_WEB_LINE("changed"));
	/* Arguments that were read are not read again. */
	bed_qemu(10, 1000, "qemu-system-x86_64 -name liar");
	expect_seen("");
}

/* However long that takes, it is one thread that starts the program. */
Test(discover, a_program_is_started_slowly)
{
	struct bed_process p = {.pid = 10, .comm = "qemu-system-x86", .cmdline = "", .threads = 1};
	const char *got = "";

	bed_process(&p);
	for (int i = 0; i < 20; i++)
		expect_seen("");
	bed_qemu(10, 1000, QEMU_WEB);
	expect_seen(QEMU_WEB_LINE("added"));
	/* Under an arbitrary name. */
	p.pid = 20;
	p.comm = "vm";
	bed_process(&p);
	for (int i = 0; i < 20; i++)
		expect_seen("");
	p.cmdline = "qemu-system-x86_64 -name web-2";
	bed_process(&p);
	bed_thread(20, 21, "CPU 0/TCG", 1001, 0, NULL);
	for (int i = 0; i < 17 && !*got; i++)
		got = bed_scan();
	cr_expect_str_eq(got, VM_LINE("added", "qemu web-2", "20/1000", "0:21/1001"));
}

Test(discover, a_zombie_is_no_vm)
{
	bed_web();
	bed_process(
		&(struct bed_process){.pid = 10, .state = 'Z', .threads = 1, .cmdline = QEMU_WEB});
	expect_seen(QEMU_WEB_LINE("removed"));
	expect_seen("");
	bed_end(10);
	/* The first thread ended, others run on. */
	bed_process(
		&(struct bed_process){.pid = 10, .state = 'Z', .threads = 3, .cmdline = QEMU_WEB});
	bed_thread(10, 11, "CPU 0/KVM", 1001, 0, NULL);
	bed_thread(10, 12, "CPU 1/KVM", 1002, 0, NULL);
	expect_seen(QEMU_WEB_LINE("added"));
}

/* The copy that QEMU makes of itself to start a helper is no second VM. */
Test(discover, a_child_of_a_vm)
{
	bed_web();
	bed_process(&(struct bed_process){.pid = 20, .ppid = 10, .cmdline = QEMU_WEB});
	expect_seen("");
	/* A child that runs vCPUs is one. */
	bed_thread(20, 21, "CPU 0/KVM", 1001, 0, NULL);
	expect_seen(VM_LINE_OF("added", "qemu web-1", UUID, "20/1000", "0:21/1001"));
}

/* ---- what libvirt says ---- */

static struct virt_message *messages;

struct virt_message *__real_virt_take(struct virt *v);
struct virt_message *__wrap_virt_take(struct virt *v);
struct virt_message *__wrap_virt_take(struct virt *v)
{
	struct virt_message *m = messages;

	messages = NULL;
	return m ? m : __real_virt_take(v);
}

/* While the domains of one URI are listed, a domain of another that changes is joined at once. */
Test(discover, a_list_of_one_uri_holds_up_no_other)
{
	static const char *const uris[] = {"qemu:///system", "qemu:///session"};
	struct virt_message *begin = calloc(1, sizeof(*begin)), *dom = calloc(1, sizeof(*dom));
	char *proc = strdup(bed_path("proc"));

	disc_close(bed.d);
	bed_open(&(struct disc_opts){.proc = proc, .libvirt_uris = uris, .nr_uris = 2});
	bed_web();
	begin->what = VIRT_BEGIN;
	begin->next = dom;
	dom->what = VIRT_DOMAIN;
	dom->uri = 1;
	dom->active = true;
	dom->pid = 10;
	strcpy(dom->xml.name, "web-1");
	strcpy(dom->xml.uuid, UUID);
	messages = begin;
	domains_take(bed.d);
	cr_expect(strstr(bed_seen(), "changed libvirt web-1"));
	free(proc);
}

/* ---- without libvirt ---- */

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
	return __real_dlopen(strcmp(name, "libvirt.so.0") ? name : "libvirt-not-installed.so",
			     flags);
}

Test(discover, libvirt_is_not_installed)
{
	static const char *const uris[] = {"qemu:///system"};
	char *proc = strdup(bed_path("proc"));

	disc_close(bed.d);
	bed_open(&(struct disc_opts){
		.proc = proc, .libvirt_uris = uris, .nr_uris = 1, .poll_ms = 10});
	bed_wait("note libvirt: qemu:///system: libvirt can't be loaded; domains are found without "
		 "their names and tenants, until a restart: libvirt-not-installed.so: cannot open");
	bed_qemu(10, 1000, QEMU_WEB);
	bed_wait(QEMU_WEB_LINE("added"));
	free(proc);
}

/* ---- cost ---- */

/* A round goes on over many turns of the event loop, and each reads a bounded number of files. */
Test(discover, a_turn_is_bounded)
{
	unsigned long most = 0, turns = 0;
	const char *got = "";

	for (int pid = 100; pid < 400; pid++)
		bed_process(&(struct bed_process){.pid = pid, .comm = "sh", .cmdline = "sh"});
	bed_qemu(99, 1, "qemu-system-x86_64 -name web");
	while (turns < 10000 && !strstr(got, "added")) {
		bed.opened = 0;
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
		if (bed.opened > most)
			most = bed.opened;
		turns++;
		got = bed_seen();
	}
	cr_expect(strstr(got, "added qemu web"), "%s", got);
	/* stat, cmdline, fd and task of each; a process that has begun is
	 * finished. */
	cr_expect_leq(most, 256 * 3 + 20);
	for (bed.opened = 0; turns < 10000 && bed.opened < 1500; turns++)
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
	/* Known processes cost one file each. */
	bed_scan();
	bed.opened = 0;
	bed_scan();
	cr_expect_leq(bed.opened, 301 + 20);
}

/* Processes that are long known to be no VMs are met in every eighth round. */
Test(discover, a_round_is_cheap)
{
	char *proc = strdup(bed_path("proc"));

	disc_close(bed.d);
	bed_open(&(struct disc_opts){.proc = proc, .poll_ms = 10});
	for (int pid = 100; pid < 900; pid++)
		bed_process(&(struct bed_process){.pid = pid, .comm = "sh", .cmdline = "sh"});
	for (int i = 0; i < 12; i++)
		bed_scan();
	bed_qemu(99, 1, "qemu-system-x86_64 -name web");
	bed.opened = 0;
	bed_wait("added");
	/* That it ended takes a whole round, and the rest of the one before. */
	bed_end(99);
	bed_wait("removed");
	cr_expect_leq(bed.opened, 3 * (800 / 8 + 20));
	/* Each gets its turn: one of them becomes a VM. */
	bed_qemu(500, 1000, "qemu-system-x86_64 -name late");
	bed_wait("added qemu late");
	free(proc);
}

/* A host's users can't flood the log with odd processes. */
Test(discover, notes_are_bounded)
{
	size_t notes = 0;
	const char *got;

	for (int pid = 100; pid < 300; pid++) {
		bed_process(&(struct bed_process){.pid = pid, .cmdline = "qemu-system-arm"});
		bed_thread(pid, 1000 + pid, "ALL CPUs/TCG", 1, 0, NULL);
	}
	got = bed_scan();
	for (const char *p = got; (p = strstr(p, "note ")); p++)
		notes++;
	cr_expect_eq(notes, 32);
}
