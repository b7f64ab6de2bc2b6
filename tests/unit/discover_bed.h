/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A /proc and a cgroup2 of files in a temporary directory, for tests of vpmud/discover: processes
 * are written and removed by the test, and what discovery reports is lines of text. openat() and
 * readlinkat() of the library go through hooks, so that a test can act between two reads or refuse
 * one. The program is linked with --wrap for both (tests/unit/CMakeLists.txt).
 */
#ifndef TESTS_UNIT_DISCOVER_BED_H
#define TESTS_UNIT_DISCOVER_BED_H

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmud/discover/discover.h"

#define UUID "00112233-4455-6677-8899-aabbccddeeff"

extern struct discover_bed {
	char dir[64];	 /* has proc and cgroup */
	char *seen;	 /* reports since bed_expect(), one line each */
	size_t seen_len; /* bytes of it */
	FILE *out;
	sd_event *event;
	struct disc *d;
	unsigned long opened; /* calls of openat() */
	/* Called before each openat() and readlinkat(); returns 0 or the errno to fail with. */
	int (*hook)(const char *path);
} bed;

/* ---- files ---- */

__attribute__((format(printf, 1, 2))) static char *bed_path(const char *fmt, ...)
{
	static char path[4][512];
	static unsigned int n;
	char *p = path[n++ % 4];
	va_list ap;

	int at = snprintf(p, sizeof(path[0]), "%s/", bed.dir);
	va_start(ap, fmt);
	vsnprintf(p + at, sizeof(path[0]) - (size_t)at, fmt, ap);
	va_end(ap);
	return p;
}

static inline void bed_write(const char *path, const void *data, size_t len)
{
	FILE *f = fopen(path, "w");

	cr_assert(f && fwrite(data, 1, len, f) == len && !fclose(f), "%s: %m", path);
}

static inline void bed_mkdir(const char *path)
{
	cr_assert(!mkdir(path, 0755) || errno == EEXIST, "%s: %m", path);
}

static int bed_unlink(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline void bed_remove(const char *path)
{
	nftw(path, bed_unlink, 16, FTW_DEPTH | FTW_PHYS);
}

/* One process, as bed_process() writes it; 0 or NULL stands for a usual value. */
struct bed_process {
	int pid, ppid;
	unsigned int uid;
	unsigned long start;
	const char *comm;
	char state;
	unsigned long flags, threads, vsize;
	const char *cmdline; /* arguments, separated by blanks */
	const char *raw;     /* or its bytes */
	size_t raw_len;
	const char *cgroup;
};

static inline void bed_stat(const char *path, int id, const char *comm, char state, int ppid,
			    unsigned long flags, unsigned long threads, unsigned long start,
			    unsigned long vsize, unsigned long guest)
{
	char text[1024];
	int n = snprintf(
		text, sizeof(text),
		"%d (%s) %c %d 1 1 0 -1 %lu 0 0 0 0 1 2 0 0 20 0 %lu 0 %lu %lu 5 "
		"18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 %lu 0 0 0 0 0 0 0 "
		"0 0\n",
		id, comm, state, ppid, flags, threads, start, vsize, guest);

	bed_write(path, text, (size_t)n);
}

/* Its real, effective and saved user id. */
static inline void bed_status(int pid, unsigned int real, unsigned int effective,
			      unsigned int saved)
{
	char text[200];
	int n = snprintf(
		text, sizeof(text),
		"Name:\tUid: 7 7 7\nUmask:\t0022\nUid:\t%u\t%u\t%u\t%u\nGid:\t1\t1\t1\t1\n", real,
		effective, saved, effective);

	bed_write(bed_path("proc/%d/status", pid), text, (size_t)n);
}

/* A thread; @guest: clock ticks of guest time; @call: its syscall file, NULL: none. */
static inline void bed_thread(int pid, int tid, const char *comm, unsigned long start,
			      unsigned long guest, const char *call)
{
	bed_mkdir(bed_path("proc/%d/task/%d", pid, tid));
	bed_stat(bed_path("proc/%d/task/%d/stat", pid, tid), tid, comm, 'S', 1, 0, 1, start, 0,
		 guest);
	if (call)
		bed_write(bed_path("proc/%d/task/%d/syscall", pid, tid), call, strlen(call));
}

static inline void bed_process(const struct bed_process *p)
{
	unsigned long start = p->start ? p->start : 1000;
	const char *comm = p->comm ? p->comm : "qemu-system-x86";

	bed_mkdir(bed_path("proc/%d", p->pid));
	bed_mkdir(bed_path("proc/%d/task", p->pid));
	bed_mkdir(bed_path("proc/%d/fd", p->pid));
	bed_stat(bed_path("proc/%d/stat", p->pid), p->pid, comm, p->state ? p->state : 'S',
		 p->ppid ? p->ppid : 1, p->flags, p->threads ? p->threads : 3, start,
		 p->vsize ? p->vsize : 4096, 0);
	bed_thread(p->pid, p->pid, comm, start, 0, NULL);
	bed_status(p->pid, p->uid, p->uid, p->uid);
	if (p->raw) {
		bed_write(bed_path("proc/%d/cmdline", p->pid), p->raw, p->raw_len);
	} else {
		char *text = strdup(p->cmdline ? p->cmdline : "");
		size_t len = strlen(text);

		for (char *c = text; *c; c++)
			if (*c == ' ')
				*c = 0;
		bed_write(bed_path("proc/%d/cmdline", p->pid), text, len ? len + 1 : 0);
		free(text);
	}
	bed_write(bed_path("proc/%d/cgroup", p->pid), p->cgroup ? p->cgroup : "0::/\n",
		  strlen(p->cgroup ? p->cgroup : "0::/\n"));
}

static inline void bed_link(int pid, int fd, const char *to)
{
	char *path = bed_path("proc/%d/fd/%d", pid, fd);

	unlink(path);
	cr_assert(!symlink(to, path), "%s: %m", path);
}

static inline void bed_end(int pid)
{
	bed_remove(bed_path("proc/%d", pid));
}

/* A QEMU with two vCPUs, the threads pid + 1 and pid + 2, which started a tick later each. */
static inline void bed_qemu(int pid, unsigned long start, const char *cmdline)
{
	bed_process(&(struct bed_process){.pid = pid, .start = start, .cmdline = cmdline});
	bed_thread(pid, pid + 1, "CPU 0/KVM", start + 1, 0, NULL);
	bed_thread(pid, pid + 2, "CPU 1/KVM", start + 2, 0, NULL);
}

/* ---- reports ---- */

static inline const char *bed_or(const char *text)
{
	return text ? text : "-";
}

static void bed_report(const char *what, const struct disc_vm *vm)
{
	fprintf(bed.out,
		"%s %s %s uuid=%s id=%d/%" PRIu64 " cgroup=%s tenant=%s socket=%s vcpus=", what,
		vm->kind, vm->name, bed_or(vm->uuid), (int)vm->pid, vm->start_time,
		bed_or(vm->cgroup), bed_or(vm->tenant), bed_or(vm->backend_socket));
	for (size_t i = 0; i < vm->nr_vcpus; i++)
		fprintf(bed.out, "%s%d:%d/%" PRIu64, i ? "," : "", vm->vcpus[i].index,
			(int)vm->vcpus[i].tid, vm->vcpus[i].start_time);
	if (vm->uid)
		fprintf(bed.out, " uid=%d", (int)vm->uid);
	fprintf(bed.out, "\n");
}

static void bed_added(void *arg, const struct disc_vm *vm)
{
	bed_report("added", vm);
}

static void bed_changed(void *arg, const struct disc_vm *vm)
{
	bed_report("changed", vm);
}

static void bed_removed(void *arg, const struct disc_vm *vm)
{
	bed_report("removed", vm);
}

static void bed_note(void *arg, const char *line)
{
	fprintf(bed.out, "note %s\n", line);
}

static const struct disc_ops bed_ops = {bed_added, bed_changed, bed_removed, bed_note};

/* bed_seen - the reports since the last call. */
static inline const char *bed_seen(void)
{
	static char *last;

	fclose(bed.out);
	free(last);
	last = bed.seen;
	bed.out = open_memstream(&bed.seen, &bed.seen_len);
	cr_assert(bed.out);
	return last;
}

/* bed_scan - look once; returns the reports. */
static inline const char *bed_scan(void)
{
	int ret = disc_scan(bed.d);

	cr_assert_eq(ret, 0, "disc_scan: %s", strerror(-ret));
	return bed_seen();
}

static inline void bed_open(const struct disc_opts *o)
{
	cr_assert_eq(disc_open(bed.event, o, &bed_ops, NULL, &bed.d), 0);
}

static inline void bed_init(void)
{
	strcpy(bed.dir, "/tmp/vpmu-discover-XXXXXX");
	cr_assert(mkdtemp(bed.dir));
	bed_mkdir(bed_path("proc"));
	bed_mkdir(bed_path("cgroup"));
	bed.out = open_memstream(&bed.seen, &bed.seen_len);
	cr_assert(bed.out && sd_event_new(&bed.event) >= 0);
	bed.hook = NULL;
}

/* bed_start - the temporary /proc, with a cgroup2 beside it. */
static inline void bed_start(void)
{
	bed_init();
	bed_open(&(struct disc_opts){.proc = bed_path("proc"), .cgroup_root = bed_path("cgroup")});
}

static inline void bed_stop(void)
{
	bed.hook = NULL;
	disc_close(bed.d);
	sd_event_unref(bed.event);
	bed_remove(bed.dir);
	bed_seen();
	fclose(bed.out);
	free(bed.seen);
}

/* A QEMU of libvirt, bed_qemu(10, 1000, QEMU_WEB), and what is reported of it. */
#define QEMU_WEB                                                                                   \
	"/usr/bin/qemu-system-x86_64 -name guest=web-1,debug-threads=on -S -uuid " UUID            \
	" -machine pc,accel=kvm -smp 2"

/* What is reported of a VM at the top of the cgroups. */
#define VM_LINE_OF(what, kind_name, uuid, id, vcpus)                                               \
	what " " kind_name " uuid=" uuid " id=" id " cgroup=/ tenant=- socket=- vcpus=" vcpus "\n"
#define VM_LINE(what, kind_name, id, vcpus) VM_LINE_OF(what, kind_name, "-", id, vcpus)
#define QEMU_WEB_VCPUS(what, vcpus)	    VM_LINE_OF(what, "qemu web-1", UUID, "10/1000", vcpus)
#define QEMU_WEB_LINE(what)		    QEMU_WEB_VCPUS(what, "0:11/1001,1:12/1002")

/* It is there, and known. */
static inline void bed_web(void)
{
	bed_qemu(10, 1000, QEMU_WEB);
	bed_scan();
}

/* Let the event loop turn until @what is reported. */
static inline void bed_wait(const char *what)
{
	do
		cr_assert_geq(sd_event_run(bed.event, UINT64_MAX), 0);
	while (!strstr(bed_seen(), what));
}

/* A process with one thread more, named @comm, comes: the reports. It has gone then. */
static inline const char *bed_visit(const struct bed_process *p, const char *comm)
{
	static char *got;

	bed_process(p);
	bed_thread(p->pid, p->pid + 1, comm, 1, 0, NULL);
	free(got);
	got = strdup(bed_scan());
	bed_end(p->pid);
	bed_scan();
	return got;
}

#define expect_seen(want)                                                                          \
	do {                                                                                       \
		const char *got_ = bed_scan();                                                     \
		cr_expect_str_eq(got_, want, "line %d: got:\n%swanted:\n%s", __LINE__, got_,       \
				 want);                                                            \
	} while (0)

#endif
