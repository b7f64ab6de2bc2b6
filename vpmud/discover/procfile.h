/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Files of /proc: for scan.c, process.c and threads.c. What stands in them is believed only as far
 * as the kernel wrote it; names and command lines are the process's own words.
 */
#ifndef VPMUD_DISCOVER_PROCFILE_H
#define VPMUD_DISCOVER_PROCFILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What /proc/PID/stat and /proc/PID/task/TID/stat say, proc(5). */
struct proc_stat {
	char comm[64]; /* any bytes but NUL */
	char state;
	pid_t ppid;
	uint64_t flags;
	uint64_t nr_threads;
	uint64_t start_time; /* clock ticks after boot */
	uint64_t vsize;	     /* bytes */
	uint64_t guest_time; /* clock ticks */
};

/* PF_KTHREAD of linux/sched.h: a thread of the kernel. */
#define PROC_FLAG_KTHREAD 0x00200000

/* procfile_read - at most @len - 1 bytes of @path relative to the directory @dir, and a NUL behind
 * them. Returns their number or -errno; -ENOENT or -ESRCH: the process is gone. */
ssize_t procfile_read(int dir, const char *path, char *buf, size_t len);

/* procfile_dir - the entries of directory @name in @dir; *out is to be closed with closedir.
 * -errno, as procfile_read. */
int procfile_dir(int dir, const char *name, DIR **out);

/* procfile_parse_stat - -EINVAL: @text is no such file. */
int procfile_parse_stat(const char *text, struct proc_stat *st);

/* procfile_stat - both. */
int procfile_stat(int dir, const char *path, struct proc_stat *st);

/* procfile_uid - the user of the process at @dir: *uid is its real, effective and saved user id, or
 * -1 if they are not the same or not to be read. -errno: procfile_gone. */
int procfile_uid(int dir, uid_t *uid);

/* procfile_gone - whether @err (-errno) of a file in /proc says that the process or thread ended.
 */
bool procfile_gone(int err);

/* procfile_number - the number that @name is, a pid or tid or descriptor; -1 if it is none. */
int procfile_number(const char *name);

#endif
