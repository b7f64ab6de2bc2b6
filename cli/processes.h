/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of processes of the host and of the code they run in user mode, for profiles: first all
 * addresses of an answer are collected, then the processes are looked at once. A process that has
 * ended has no names any more. Everything read is untrusted; see object_names.h. images.c calls
 * this.
 */
#ifndef CLI_PROCESSES_H
#define CLI_PROCESSES_H

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

#endif
