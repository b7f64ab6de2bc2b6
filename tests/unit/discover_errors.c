// SPDX-License-Identifier: GPL-2.0-or-later
/* A part of test_discover: what happens between two reads of a process, and reads that fail. */
#include "discover_bed.h"

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
		bed_qemu(10, 1000 + i, QEMU_WEB);
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

		bed_qemu(10, 1000, QEMU_WEB);
		when = files_read[i];
		bed.hook = replace_10;
		got = bed_scan();
		cr_expect_str_eq(got, QEMU_WEB_LINE("added"), "%s: %s", files_read[i], got);
		cr_expect(!when, "%s is not read", files_read[i]);
		bed.hook = NULL;
		expect_seen(
			QEMU_WEB_LINE("removed") "added qemu new uuid=- id=10/9000 cgroup=/ "
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

	bed_web();
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
	expect_seen(QEMU_WEB_LINE("removed"));
}

Test(discover, hidden_processes)
{
	bed_web();
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
	bed_qemu(10, 1000, QEMU_WEB);
	expect_seen(QEMU_WEB_LINE("added"));
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

	bed_web();
	list_error = EIO;
	cr_expect_eq(disc_scan(bed.d), -EIO);
	list_error = 0;
	snprintf(want, sizeof(want), "note %s: Input/output error; it is tried again\n",
		 bed_path("proc"));
	cr_expect_str_eq(bed_seen(), want);
	expect_seen("");
}
