/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads files of /proc for scan.c, process.c and threads.c. Only fields written by the kernel are
 * trusted; names and command lines come from the process itself.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Fields of /proc/PID/stat and /proc/PID/task/TID/stat, proc(5). */
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

/* PF_KTHREAD of linux/sched.h. */
#define PROC_FLAG_KTHREAD 0x00200000

/* procfile_read - read up to @len - 1 bytes of @path relative to the directory @dir, and add a NUL.
 * Returns their number or -errno; -ENOENT or -ESRCH: the process is gone. */
ssize_t procfile_read(int dir, const char *path, char *buf, size_t len);

/* procfile_dir - open directory @name in @dir; close *@out with closedir(). Returns 0 or -errno, as
 * procfile_read(). */
int procfile_dir(int dir, const char *name, DIR **out);

/* procfile_parse_stat - returns 0, or -EINVAL if @text is not a stat file. */
int procfile_parse_stat(const char *text, struct proc_stat *st);

/* procfile_stat - read and parse a stat file. */
int procfile_stat(int dir, const char *path, struct proc_stat *st);

/* procfile_uid - find the user of the process at @dir: *@uid is its real, effective and saved user
 * id, or -1 if they differ or cannot be read. Returns 0, or -errno if it ended
 * (procfile_gone()). */
int procfile_uid(int dir, uid_t *uid);

/* procfile_gone - returns true if @err (-errno) of a file in /proc means that the process or thread
 * ended. */
bool procfile_gone(int err);

/* procfile_number - parse @name as a pid, tid or descriptor; -1 if it is not a number. */
int procfile_number(const char *name);
