/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of processes of the host and of the code they run in user mode, for profiles: first all
 * addresses of an answer are collected, then the processes are looked at once. A process that has
 * ended has no names any more. Everything read is untrusted; see object_names.c. images.c calls
 * this.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct processes;

struct processes *processes_new(void);
/* processes_free - NULL is allowed. */
void processes_free(struct processes *ps);

/* processes_want - name @address of process @pid, too, at the next processes_look(). @first_ns:
 * when it ran there first, by CLOCK_MONOTONIC; 0: unknown. A process that began later than that has
 * the number of one that has ended, and gives it no names. */
void processes_want(struct processes *ps, unsigned int pid, uint64_t first_ns, uint64_t address);

/* processes_look - read /proc for all that is wanted. @server: the process of the server that
 * reported the numbers; if it has another PID namespace, nothing is named. Prints a line about
 * processes, and one about files, that could not be read. */
void processes_look(struct processes *ps, unsigned int server);

/* processes_comm - the command name of @pid; ":PID" if unknown, as in perf. It belongs to @ps and
 * may have any bytes. */
const char *processes_comm(struct processes *ps, unsigned int pid);

/* Code in user mode. Strings belong to the processes and may have any bytes. */
struct process_code {
	const char *object;   /* path of the mapped file, "[vdso]", "[anon]"; NULL: unknown */
	const char *function; /* NULL: unknown */
	uint64_t offset;      /* in the function */
};

/* processes_find - describe the code at @address of @pid. */
void processes_find(const struct processes *ps, unsigned int pid, uint64_t address,
		    struct process_code *out);

/*
 * object_names.c: Names places in files that processes of the host execute: programs and libraries,
 * which tenants may have made to harm their reader. So a child process reads each file: it has
 * limits of time and memory and almost no system calls, and only its answer comes back. processes.c
 * calls this, from one thread.
 */
#define OBJECT_NAME_MAX 200 /* bytes of a function's name; the rest is cut off */

/* A place: an offset in the file. The function there and the place's offset in it are the answer.
 */
struct object_place {
	uint64_t at;
	char *name; /* malloc'd; NULL: unknown */
	uint64_t offset;
};

/* object_names - name @place[0..nr) of the mapped file @path[0], else of @path[1] (NULL: none). The
 * file must be regular and have inode number @inode. Without symbols of its own, those of its build
 * id in @debug_dir ("/usr/lib/debug") are used, else its dynamic ones. Gives up at the time
 * @deadline_ns of CLOCK_MONOTONIC. Returns 0 or -errno: -ETIMEDOUT, -ESTALE (another file has the
 * name now), -ENOEXEC (no ELF file). Even then, names that were found are set. */
int object_names(const char *const path[2], uint64_t inode, const char *debug_dir,
		 struct object_place *place, size_t nr, uint64_t deadline_ns);
