/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queued lines for standard output. report.c and console.c queue the lines and a thread writes
 * them, so that no caller waits for the reader. The queue of each guest is bounded: if a guest
 * prints faster than the reader reads, further lines of that guest are dropped, and one line
 * reports their number. A line that cannot be written (a full disk, a reader that is gone) is
 * dropped and counted as well; nothing here may end the process. Any thread may call these
 * functions, unless noted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* One guest, as a source of lines that may be dropped. */
struct lineout_source;

/* Returns the line that replaces @n dropped lines of @source, malloc'd; NULL: out of memory. */
typedef char *(*lineout_lost_fn)(const char *source, unsigned long n);

/* lineout_open - start the thread. Call it before any other function here. @trouble(arg) is called
 * once, on that thread, at the first write error. -errno. */
int lineout_open(lineout_lost_fn lost, void (*trouble)(void *arg), void *arg);

/* lineout_source_new - a source with a name for lineout_lost_fn. NULL: out of memory.
 * lineout_source_free - give it back. Its queued lines are still written. NULL is fine. */
struct lineout_source *lineout_source_new(const char *name);
void lineout_source_free(struct lineout_source *s);

/* lineout_put - queue a line. @text is malloc'd, without a newline, and is taken; NULL means that
 * the caller had no memory for it, so it is dropped and counted. @s is the guest, or NULL for a
 * line of the program itself, which is dropped only if it cannot be written or memory is short. */
void lineout_put(char *text, struct lineout_source *s);

/* lineout_drop - the caller dropped @n lines of @s: the next report of lost lines includes them.
 * lineout_settle - print that report now if one is due. lineout_dropped - number of dropped lines
 * of @s in all. */
void lineout_drop(struct lineout_source *s, unsigned long n);
void lineout_settle(struct lineout_source *s);
uint64_t lineout_dropped(struct lineout_source *s);

/* lineout_error - the first write error: an errno, ENOMEM if there was no memory for a line of the
 * program itself; 0: none. */
int lineout_error(void);

/* lineout_close - write the queued lines and end the thread. Gives up if the reader takes nothing
 * for two seconds. No other call may be in progress or follow, except lineout_error. */
void lineout_close(void);
