// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmud/discover on a /proc of files: every kind of VM, identity, hostile processes, errors. */
#include "discover_bed.h"
#include "vpmud/discover/priv.h"

TestSuite(discover, .init = bed_start, .fini = bed_stop);

#define UUID "00112233-4455-6677-8899-aabbccddeeff"

#define WEB                                                                                        \
	"/usr/bin/qemu-system-x86_64 -name guest=web-1,debug-threads=on -S -uuid " UUID            \
	" -machine pc,accel=kvm -smp 2"

#define WEB_LINE(what)                                                                             \
	what " qemu web-1 uuid=" UUID " id=10/1000 cgroup=/ tenant=- socket=- "                    \
	     "vcpus=0:11/1001,1:12/1002\n"

/* ---- QEMU ---- */

Test(discover, qemu_comes_and_goes)
{
	expect_seen("");
	bed_qemu(10, 1000, WEB);
	expect_seen(WEB_LINE("added"));
	expect_seen("");
	bed_end(10);
	expect_seen(WEB_LINE("removed"));
	expect_seen("");
}

Test(discover, a_vcpu_is_plugged_and_unplugged)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	bed_thread(10, 15, "CPU 2/KVM", 1500, 0, NULL);
	expect_seen("changed qemu web-1 uuid=" UUID " id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002,2:15/1500\n");
	bed_remove(bed_path("proc/10/task/12"));
	expect_seen("changed qemu web-1 uuid=" UUID " id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,2:15/1500\n");
}

/* It decides on the trust in a VM's name: a program that is only on its way to a user is
 * no user's. */
Test(discover, whose_process_it_is)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	bed_status(10, 107, 107, 107);
	expect_seen("changed qemu web-1 uuid=" UUID " id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002 uid=107\n");
	bed_status(10, 107, 0, 0);
	expect_seen("changed qemu web-1 uuid=" UUID " id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002 uid=-1\n");
	bed_status(10, 107, 107, 0);
	expect_seen("");
	bed_status(10, 0, 0, 0);
	expect_seen(WEB_LINE("changed"));
}

/* A thread has the name of the one that made it until it names itself. */
Test(discover, a_thread_gets_its_name_late)
{
	bed_qemu(10, 1000, WEB);
	bed_thread(10, 12, "qemu-system-x86", 1002, 0, NULL);
	bed_scan();
	bed_thread(10, 12, "CPU 1/KVM", 1002, 0, NULL);
	expect_seen(WEB_LINE("changed"));
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

		bed_process(&(struct bed_process){
			.pid = 10, .start = 1000 + i, .comm = "main", .cmdline = rows[i].args});
		bed_thread(10, 11, "CPU 0/TCG", 1, 0, NULL);
		if (rows[i].name)
			snprintf(want, sizeof(want),
				 "added qemu %s uuid=%s id=10/%zu cgroup=/ tenant=- socket=- "
				 "vcpus=0:11/1\n",
				 rows[i].name, bed_or(rows[i].uuid), 1000 + i);
		got = bed_scan();
		cr_expect_str_eq(got, want, "line %d: %s: got %s", rows[i].line, rows[i].args, got);
		bed_end(10);
		bed_scan();
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

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[512];
		const char *got;

		bed_process(&(struct bed_process){
			.pid = 10, .start = 1000 + i, .raw = rows[i].raw, .raw_len = rows[i].len});
		bed_thread(10, 11, "CPU 0/KVM", 1, 0, NULL);
		snprintf(want, sizeof(want),
			 "added qemu %s uuid=- id=10/%zu cgroup=/ tenant=- socket=- vcpus=0:11/1\n",
			 rows[i].name, 1000 + i);
		got = bed_scan();
		cr_expect_str_eq(got, want, "line %d: got %s", rows[i].line, got);
		bed_end(10);
		bed_scan();
	}
	/* 2 MiB without a NUL, and 2 MiB of name. */
	memset(big, 'q', 2 << 20);
	bed_process(&(struct bed_process){.pid = 10, .raw = big, .raw_len = 2 << 20});
	bed_thread(10, 11, "CPU 0/KVM", 1, 0, NULL);
	expect_seen(
		"added qemu qemu-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- vcpus=0:11/1\n");
	bed_end(10);
	bed_scan();
	memcpy(big, "qemu-system-x86_64\0-name\0", 25);
	bed_process(&(struct bed_process){.pid = 10, .raw = big, .raw_len = 2 << 20});
	bed_thread(10, 11, "CPU 0/KVM", 1, 0, NULL);
	cr_expect_eq(strcspn(strchr(strchr(bed_scan(), ' ') + 1, ' ') + 1, " "), 255);
	/* A name behind 100 KiB of other arguments is found. */
	bed_end(10);
	bed_scan();
	memset(big, 'q', 2 << 20);
	memcpy(big, "qemu-system-x86_64", 19);
	memcpy(big + 100000, "\0-name\0far", 11);
	bed_process(&(struct bed_process){.pid = 10, .raw = big, .raw_len = 2 << 20});
	bed_thread(10, 11, "CPU 0/KVM", 1, 0, NULL);
	expect_seen("added qemu far uuid=- id=10/1000 cgroup=/ tenant=- socket=- vcpus=0:11/1\n");
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

		bed_process(&(struct bed_process){
			.pid = 10, .start = 1000 + i, .cmdline = "qemu-system-arm -name web"});
		bed_thread(10, 11, rows[i].comm, 1, 0, NULL);
		if (rows[i].index >= 0)
			snprintf(want, sizeof(want), "vcpus=%d:11/1\n", rows[i].index);
		got = bed_scan();
		cr_expect(strstr(got, want), "line %d: %s: got %s", rows[i].line, rows[i].comm,
			  got);
		bed_end(10);
		bed_scan();
	}
}

Test(discover, one_thread_for_all_vcpus_says_so)
{
	bed_process(&(struct bed_process){.pid = 10, .cmdline = "qemu-system-arm -name web"});
	bed_thread(10, 11, "ALL CPUs/TCG", 7, 0, NULL);
	expect_seen("note process 10 runs all its vCPUs in one thread; it is shown as vCPU 0\n"
		    "added qemu web uuid=- id=10/1000 cgroup=/ tenant=- socket=- vcpus=0:11/7\n");
	expect_seen("");
}

Test(discover, two_threads_of_one_vcpu)
{
	bed_qemu(10, 1000, WEB);
	bed_thread(10, 9, "CPU 1/KVM", 2000, 0, NULL);
	expect_seen("note process 10: threads 12 and 9 both have the name of vCPU 1; the older one "
		    "counts\n" WEB_LINE("added"));
	expect_seen("");
}

Test(discover, two_vms_of_one_name_and_uuid)
{
	bed_qemu(10, 1000, WEB);
	bed_qemu(20, 1000, WEB);
	bed_scan();
	bed_end(10);
	expect_seen(WEB_LINE("removed"));
}

/* ---- identity ---- */

Test(discover, a_pid_is_used_again)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	bed_end(10);
	bed_qemu(10, 5000, "qemu-system-x86_64 -name other");
	expect_seen(WEB_LINE("removed") "added qemu other uuid=- id=10/5000 cgroup=/ tenant=- "
					"socket=- vcpus=0:11/5001,1:12/5002\n");
	/* By a process that is no VM. */
	bed_end(10);
	bed_process(&(struct bed_process){.pid = 10, .start = 6000, .comm = "sh", .cmdline = "sh"});
	expect_seen("removed qemu other uuid=- id=10/5000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/5001,1:12/5002\n");
	/* And by a VM again. */
	bed_end(10);
	bed_qemu(10, 1000, WEB);
	expect_seen(WEB_LINE("added"));
}

Test(discover, a_tid_is_used_again)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	bed_thread(10, 12, "CPU 1/KVM", 7777, 0, NULL);
	expect_seen("changed qemu web-1 uuid=" UUID " id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/7777\n");
}

/* A shell becomes QEMU, and QEMU something else, without a new pid. */
Test(discover, a_process_executes_another_program)
{
	bed_process(&(struct bed_process){.pid = 10, .comm = "sh", .cmdline = "sh"});
	expect_seen("");
	bed_qemu(10, 1000, WEB);
	expect_seen(WEB_LINE("added"));
	bed_process(&(struct bed_process){.pid = 10, .comm = "true", .cmdline = "true"});
	expect_seen(WEB_LINE("removed"));
}

/* While a program is being started its arguments can't be read yet. */
Test(discover, arguments_come_late)
{
	bed_qemu(10, 1000, "");
	expect_seen("added qemu qemu-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002\n");
	bed_qemu(10, 1000, WEB);
	expect_seen(WEB_LINE("changed"));
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
	bed_qemu(10, 1000, WEB);
	expect_seen(WEB_LINE("added"));
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
	cr_expect_str_eq(got, "added qemu web-2 uuid=- id=20/1000 cgroup=/ tenant=- socket=- "
			      "vcpus=0:21/1001\n");
}

Test(discover, a_zombie_is_no_vm)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	bed_process(&(struct bed_process){.pid = 10, .state = 'Z', .threads = 1, .cmdline = WEB});
	expect_seen(WEB_LINE("removed"));
	expect_seen("");
	bed_end(10);
	/* The first thread ended, others run on. */
	bed_process(&(struct bed_process){.pid = 10, .state = 'Z', .threads = 3, .cmdline = WEB});
	bed_thread(10, 11, "CPU 0/KVM", 1001, 0, NULL);
	bed_thread(10, 12, "CPU 1/KVM", 1002, 0, NULL);
	expect_seen(WEB_LINE("added"));
}

/* The copy that QEMU makes of itself to start a helper is no second VM. */
Test(discover, a_child_of_a_vm)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	bed_process(&(struct bed_process){.pid = 20, .ppid = 10, .cmdline = WEB});
	expect_seen("");
	/* A child that runs vCPUs is one. */
	bed_thread(20, 21, "CPU 0/KVM", 1001, 0, NULL);
	expect_seen("added qemu web-1 uuid=" UUID " id=20/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:21/1001\n");
}

/* ---- between two reads ---- */

static const char *when;
static int error;

static int end_10(const char *path)
{
	if (when && !strcmp(path, when)) {
		when = NULL;
		bed_end(10);
	}
	return 0;
}

static int replace_10(const char *path)
{
	if (when && !strcmp(path, when)) {
		when = NULL;
		cr_assert(!rename(bed_path("proc/10"), bed_path("gone")));
		bed_qemu(10, 9000, "qemu-system-x86_64 -name new");
	}
	return 0;
}

static int refuse(const char *path)
{
	return when && !strcmp(path, when) ? error : 0;
}

static const char *const files_read[] = {"10", "stat", "cmdline", "task", "task/11/stat", "cgroup"};

Test(discover, it_ends_between_two_reads)
{
	for (size_t i = 0; i < sizeof(files_read) / sizeof(files_read[0]); i++) {
		bed_qemu(10, 1000 + i, WEB);
		when = files_read[i];
		bed.hook = end_10;
		cr_expect_str_eq(bed_scan(), "", "%s", files_read[i]);
		cr_expect(!when, "%s is not read", files_read[i]);
		bed.hook = NULL;
	}
}

/* Data of one process is never mixed with data of the next one of its pid. */
Test(discover, it_is_replaced_between_two_reads)
{
	for (size_t i = 1; i < sizeof(files_read) / sizeof(files_read[0]); i++) {
		const char *got;

		bed_qemu(10, 1000, WEB);
		when = files_read[i];
		bed.hook = replace_10;
		got = bed_scan();
		cr_expect_str_eq(got, WEB_LINE("added"), "%s: %s", files_read[i], got);
		cr_expect(!when, "%s is not read", files_read[i]);
		bed.hook = NULL;
		expect_seen(WEB_LINE("removed") "added qemu new uuid=- id=10/9000 cgroup=/ "
						"tenant=- socket=- vcpus=0:11/9001,1:12/9002\n");
		bed_end(10);
		bed_remove(bed_path("gone"));
		bed_scan();
	}
}

/* An error is no end: nothing vanishes, and it is reported once. */
Test(discover, errors_make_no_vm_vanish)
{
	static const char *const again[] = {"10", "stat", "task", "task/11/stat", "cgroup"};

	bed_qemu(10, 1000, WEB);
	bed_scan();
	for (size_t i = 0; i < 5; i++) {
		when = again[i];
		error = EMFILE;
		bed.hook = refuse;
		cr_expect_eq(disc_scan(bed.d), -EMFILE, "%s", again[i]);
		cr_expect_str_eq(bed_seen(),
				 i ? ""
				   : "note process 10 could not be looked at: Too many open files; "
				     "it is tried again\n");
		bed.hook = NULL;
		expect_seen("");
	}
	bed_end(10);
	expect_seen(WEB_LINE("removed"));
}

Test(discover, hidden_processes)
{
	bed_qemu(10, 1000, WEB);
	bed_scan();
	when = "stat";
	error = EACCES;
	bed.hook = refuse;
	expect_seen("");
}

Test(discover, no_permission_for_files_is_one_note)
{
	bed_process(&(struct bed_process){.pid = 20, .comm = "sh", .cmdline = "sh"});
	when = "fd";
	error = EACCES;
	bed.hook = refuse;
	expect_seen(
		"note process 20: its open files can't be seen, and perhaps not those of others. "
		"VMMs other than QEMU are not found there, and QEMU's vCPUs only by their "
		"threads' names. CAP_SYS_PTRACE permits it\n");
	for (int pid = 21; pid < 40; pid++)
		bed_process(&(struct bed_process){.pid = pid, .comm = "sh", .cmdline = "sh"});
	bed_qemu(10, 1000, WEB);
	expect_seen(WEB_LINE("added"));
}

static int list_error;

struct dirent *__real_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir);
struct dirent *__wrap_readdir(DIR *dir)
{
	if (!list_error)
		return __real_readdir(dir);
	errno = list_error;
	return NULL;
}

/* A list of processes that cannot be read is of no process, and ends none. */
Test(discover, proc_cannot_be_listed)
{
	char want[300];

	bed_qemu(10, 1000, WEB);
	bed_scan();
	list_error = EIO;
	cr_expect_eq(disc_scan(bed.d), -EIO);
	list_error = 0;
	snprintf(want, sizeof(want), "note %s: Input/output error; it is tried again\n",
		 bed_path("proc"));
	cr_expect_str_eq(bed_seen(), want);
	expect_seen("");
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
	bed_qemu(10, 1000, WEB);
	bed_scan();
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
	const char *got = "";

	disc_close(bed.d);
	bed_open(&(struct disc_opts){
		.proc = proc, .libvirt_uris = uris, .nr_uris = 1, .poll_ms = 10});
	while (!strstr(got,
		       "note libvirt: qemu:///system: libvirt can't be loaded; domains are found "
		       "without their names and tenants, until a restart: "
		       "libvirt-not-installed.so: cannot open")) {
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
		got = bed_seen();
	}
	bed_qemu(10, 1000, WEB);
	while (!strstr(got, WEB_LINE("added"))) {
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
		got = bed_seen();
	}
	free(proc);
}

/* ---- other users of KVM ---- */

static void kvm_process(int pid, const char *comm, int vcpus)
{
	bed_process(&(struct bed_process){.pid = pid, .comm = comm, .cmdline = comm});
	bed_link(pid, 3, "/dev/kvm");
	bed_link(pid, 4, "anon_inode:kvm-vm");
	for (int i = 0; i < vcpus; i++) {
		char to[40];

		snprintf(to, sizeof(to), "anon_inode:kvm-vcpu:%d", i);
		bed_link(pid, 10 + i, to);
	}
}

#if defined(__x86_64__)
#define IOCTL "16"
#else
#define IOCTL "29"
#endif
#define RUNS(fd) IOCTL " " fd " 0xae80 0x0 0x0 0x55d5b5110290 0x0 0x7fe2ce157530 0x7fe2d00ded6b\n"

Test(discover, firecracker)
{
	kvm_process(10, "firecracker", 2);
	bed_thread(10, 11, "fc_vcpu 0", 1001, 0, NULL);
	bed_thread(10, 12, "fc_vcpu 1", 1002, 0, NULL);
	bed_thread(10, 13, "fc_api", 1003, 0, NULL);
	expect_seen("added kvm firecracker-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002\n");
	/* It ends its VM, and lives on. */
	unlink(bed_path("proc/10/fd/4"));
	expect_seen("removed kvm firecracker-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002\n");
}

/* A VM appears in a process that was there before: its memory map grows. */
Test(discover, kvm_is_opened_late)
{
	bed_process(&(struct bed_process){.pid = 10, .comm = "vmm", .cmdline = "vmm"});
	for (int i = 0; i < 4; i++)
		expect_seen("");
	kvm_process(10, "vmm", 1);
	bed_process(&(struct bed_process){
		.pid = 10, .comm = "vmm", .cmdline = "vmm", .vsize = 1 << 30});
	bed_thread(10, 11, "vcpu0", 1001, 0, NULL);
	expect_seen("added kvm vmm-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001\n");
}

Test(discover, kvm_users_that_have_no_vm)
{
	bed_process(&(struct bed_process){.pid = 10, .comm = "a", .cmdline = "a"});
	bed_link(10, 3, "/dev/kvm");
	bed_process(&(struct bed_process){.pid = 20, .comm = "b", .cmdline = "b"});
	bed_link(20, 3, "/tmp/anon_inode:kvm-vm");
	bed_process(&(struct bed_process){.pid = 30, .comm = "c", .cmdline = "c"});
	bed_link(30, 3, "anon_inode:kvm-vmx");
	expect_seen("");
}

/* Unnamed threads are recognized by the vCPU that they run. */
Test(discover, vcpus_by_system_call)
{
	kvm_process(10, "vmm", 3);
	bed_thread(10, 11, "vmm", 1001, 0, RUNS("0xb"));
	bed_thread(10, 12, "vmm", 1002, 0, RUNS("0xa"));
	bed_thread(10, 13, "vmm", 1003, 0, "running\n");
	/* Made by the kernel, with its maker's system call and without a stack. */
	bed_thread(10, 14, "kvm-nx-lpage-re", 1004, 0,
		   IOCTL " 0xc 0xae80 0x0 0x0 0x55d5b5110290 0x0 0x0 0x0\n");
	/* Other calls, other descriptors. */
	bed_thread(10, 15, "vmm", 1005, 0, IOCTL " 0xc 0xae81 0x0 0x0 0x5 0x0 0x7f 0x7f\n");
	bed_thread(10, 16, "vmm", 1006, 0, "0 0xc 0xae80 0x0 0x0 0x5 0x0 0x7f 0x7f\n");
	bed_thread(10, 17, "vmm", 1007, 0, RUNS("0x3"));
	expect_seen("added kvm vmm-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:12/1002,1:11/1001\n");
	/* A known thread stays known while it runs; and the last one shows itself. */
	bed_thread(10, 12, "vmm", 1002, 0, "running\n");
	bed_thread(10, 13, "vmm", 1003, 0, RUNS("0xc"));
	expect_seen("changed kvm vmm-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:12/1002,1:11/1001,2:13/1003\n");
	/* But not for another thread of the same tid, and not without the vCPU. */
	bed_thread(10, 12, "vmm", 8888, 0, "running\n");
	unlink(bed_path("proc/10/fd/11"));
	expect_seen("changed kvm vmm-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=2:13/1003\n");
}

/* The last vCPU is the last thread that has run a guest. Two would be a guess. */
Test(discover, vcpus_by_elimination)
{
	kvm_process(10, "vmm", 2);
	bed_thread(10, 11, "vmm", 1001, 5, "running\n");
	bed_thread(10, 12, "vmm", 1002, 5, "running\n");
	expect_seen("added kvm vmm-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- vcpus=\n");
	bed_thread(10, 12, "vmm", 1002, 5, RUNS("0xa"));
	expect_seen("changed kvm vmm-10 uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:12/1002,1:11/1001\n");
}

Test(discover, vcpus_that_stay_unknown_are_noted_once)
{
	kvm_process(10, "vmm", 2);
	bed_thread(10, 11, "vmm", 1001, 0, "running\n");
	bed_scan();
	for (int i = 0; i < 3; i++)
		expect_seen("");
	expect_seen("note process 10: it is not known yet which threads run 2 of its 2 vCPUs; "
		    "QEMU's -name debug-threads=on shows it at once\n");
	for (int i = 0; i < 40; i++)
		expect_seen("");
}

Test(discover, qemu_without_names_of_threads)
{
	bed_process(&(struct bed_process){.pid = 10, .cmdline = "qemu-system-x86_64 -name web"});
	bed_link(10, 9, "anon_inode:kvm-vm");
	bed_link(10, 10, "anon_inode:kvm-vcpu:0");
	bed_thread(10, 11, "qemu-system-x86", 1001, 0, RUNS("0xa"));
	expect_seen("added qemu web uuid=- id=10/1000 cgroup=/ tenant=- socket=- "
		    "vcpus=0:11/1001\n");
}

/* ---- vpmu-vmm ---- */

Test(discover, vpmu_vmm_and_its_socket)
{
	static const char unix_sockets[] =
		"Num       RefCount Protocol Flags    Type St Inode Path\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 700 /run/other.sock\n"
		"0000000000000000: 00000003 00000000 00000000 0001 03 701 /run/client.sock\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 702 @abstract\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 703\n"
		"0000000000000000: 00000002 00000000 00010000 0001 01 704 a b/vpmu.sock\n";

	/* Its VMs are not queried: their name is its process's, their place its
	 * cgroup. */
	bed_mkdir(bed_path("cgroup/acme"));
	bed_process(&(struct bed_process){.pid = 10,
					  .comm = "vpmu-vmm",
					  .cmdline = "vpmu-vmm --vm name=web,tenant=/globex",
					  .cgroup = "0::/acme\n"});
	bed_mkdir(bed_path("proc/10/net"));
	bed_write(bed_path("proc/10/net/unix"), unix_sockets, sizeof(unix_sockets) - 1);
	cr_assert(!symlink("/home/me", bed_path("proc/10/cwd")));
	bed_thread(10, 11, "CPU 0/KVM", 1001, 0, NULL);
	bed_thread(10, 12, "CPU 1/KVM", 1002, 0, NULL);
	expect_seen("added vpmu-vmm vpmu-vmm-10 uuid=- id=10/1000 cgroup=/acme tenant=- socket=- "
		    "vcpus=0:11/1001,1:12/1002\n");
	for (int i = 701; i <= 704; i++) {
		char to[32];

		snprintf(to, sizeof(to), "socket:[%d]", i);
		bed_link(10, i, to);
	}
	/* It is looked for again, but not each time. */
	for (int i = 0; i < 2; i++) {
		const char *got = bed_scan();

		if (!*got)
			continue;
		cr_expect_str_eq(got, "changed vpmu-vmm vpmu-vmm-10 uuid=- id=10/1000 cgroup=/acme "
				      "tenant=- socket=/home/me/a b/vpmu.sock "
				      "vcpus=0:11/1001,1:12/1002\n");
		return;
	}
	cr_assert_fail("the socket is not found");
}

/* ---- cgroups ---- */

Test(discover, cgroups)
{
	static const struct {
		int line;
		const char *file, *shown, *dir;
	} rows[] = {
		{__LINE__, "0::/a/b\n", "/a/b", "cgroup/a/b"},
		{__LINE__, "9:name=systemd:/x\n1:cpu:/\n0::/a\n", "/a", "cgroup/a"},
		{__LINE__, "0::/\n", "/", "cgroup"},
		{__LINE__, "0::/machine.slice/m.scope/libvirt/emulator\n", "/machine.slice/m.scope",
		 "cgroup/machine.slice/m.scope"},
		{__LINE__, "0::/machine/qemu-1-a.libvirt-qemu/emulator\n",
		 "/machine/qemu-1-a.libvirt-qemu", "cgroup/machine/qemu-1-a.libvirt-qemu"},
		{__LINE__, "0::/a/emulator\n", "/a/emulator", NULL},
		{__LINE__, "0::/gone (deleted)\n", "/gone (deleted)", NULL},
		{__LINE__, "0::/../b\n", "-", NULL},
		{__LINE__, "0::/a\x1b\n", "-", NULL},
		{__LINE__, "0::/cut", "-", NULL},
		{__LINE__, "1:cpu:/\n", "-", NULL},
		{__LINE__, "", "-", NULL},
	};

	bed_mkdir(bed_path("cgroup/a"));
	bed_mkdir(bed_path("cgroup/a/b"));
	bed_mkdir(bed_path("cgroup/machine.slice"));
	bed_mkdir(bed_path("cgroup/machine.slice/m.scope"));
	bed_mkdir(bed_path("cgroup/machine"));
	bed_mkdir(bed_path("cgroup/machine/qemu-1-a.libvirt-qemu"));
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char want[256];
		const char *got;

		bed_qemu(10, 1000 + i, WEB);
		bed_write(bed_path("proc/10/cgroup"), rows[i].file, strlen(rows[i].file));
		snprintf(want, sizeof(want), " cgroup=%s tenant", rows[i].shown);
		got = bed_scan();
		cr_expect(strstr(got, want), "line %d: got %s", rows[i].line, got);
		bed_end(10);
		bed_scan();
	}
	/* It is moved. */
	bed_qemu(10, 1, "qemu-system-x86_64");
	bed_scan();
	bed_write(bed_path("proc/10/cgroup"), "0::/a\n", 6);
	expect_seen("changed qemu qemu-10 uuid=- id=10/1 cgroup=/a tenant=- socket=- "
		    "vcpus=0:11/2,1:12/3\n");
}

static uint64_t last_cgroup_id;

static void take_id(void *arg, const struct disc_vm *vm)
{
	last_cgroup_id = vm->cgroup_id;
}

Test(discover, cgroup_ids)
{
	struct disc_ops ops = {take_id, take_id, take_id, bed_note};
	struct stat st;

	bed_mkdir(bed_path("cgroup/a"));
	bed_qemu(10, 1, WEB);
	bed_write(bed_path("proc/10/cgroup"), "0::/a\n", 6);
	disc_close(bed.d);
	cr_assert_eq(disc_open(bed.event,
			       &(struct disc_opts){.proc = bed_path("proc"),
						   .cgroup_root = bed_path("cgroup")},
			       &ops, NULL, &bed.d),
		     0);
	bed_scan();
	cr_assert(!stat(bed_path("cgroup/a"), &st));
	cr_expect_eq(last_cgroup_id, st.st_ino);
	/* Removed and made again: another cgroup of the same name. */
	cr_assert(!rename(bed_path("cgroup/a"), bed_path("cgroup/b")));
	bed_scan();
	cr_expect_eq(last_cgroup_id, 0);
	bed_mkdir(bed_path("cgroup/a"));
	bed_scan();
	cr_assert(!stat(bed_path("cgroup/a"), &st));
	cr_expect_eq(last_cgroup_id, st.st_ino);
}

Test(discover, cgroup2_is_missing)
{
	struct disc_opts o = {.proc = "/proc", .cgroup_root = "/nonexistent"};

	disc_close(bed.d);
	bed_open(&o);
	cr_expect_str_eq(bed_seen(), "note /nonexistent: No such file or directory; VMs are shown "
				     "without the ids of their cgroups\n");
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
	const char *got = "";

	disc_close(bed.d);
	bed_open(&(struct disc_opts){.proc = proc, .poll_ms = 10});
	for (int pid = 100; pid < 900; pid++)
		bed_process(&(struct bed_process){.pid = pid, .comm = "sh", .cmdline = "sh"});
	for (int i = 0; i < 12; i++)
		bed_scan();
	bed_qemu(99, 1, "qemu-system-x86_64 -name web");
	bed.opened = 0;
	while (!strstr(got, "added")) {
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
		got = bed_seen();
	}
	/* That it ended takes a whole round, and the rest of the one before. */
	bed_end(99);
	while (!strstr(got, "removed")) {
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
		got = bed_seen();
	}
	cr_expect_leq(bed.opened, 3 * (800 / 8 + 20));
	/* Each gets its turn: one of them becomes a VM. */
	bed_qemu(500, 1000, "qemu-system-x86_64 -name late");
	while (!strstr(got, "added qemu late")) {
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
		got = bed_seen();
	}
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
