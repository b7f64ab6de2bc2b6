/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queued lines for standard output. report.c and console.c queue the lines and a thread writes
 * them, so that no caller ever waits for the reader. The lines of a guest are bounded: if a guest
 * prints faster than the reader reads, further lines of that guest are dropped, and one line says
 * how many. A line that cannot be written (a full disk, a reader that is gone) is dropped and
 * counted as well; nothing here ever ends the process. Any thread may call these functions, unless
 * a comment says otherwise.
 */
#ifndef VMM_LINEOUT_H
#define VMM_LINEOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose lines may be dropped: one guest. */
struct lineout_source;

/* Returns the line that replaces @n dropped lines of @source, malloc'd; NULL: out of memory. */
typedef char *(*lineout_lost_fn)(const char *source, unsigned long n);

/* lineout_open - start the thread. Call it before any other function here. @trouble(arg) is called
 * once, on that thread, when the first line could not be written. -errno. */
int lineout_open(lineout_lost_fn lost, void (*trouble)(void *arg), void *arg);

/* lineout_source_new - a source with a name for lineout_lost_fn. NULL: out of memory.
 * lineout_source_free - give it back. Its queued lines are still written. NULL is fine. */
struct lineout_source *lineout_source_new(const char *name);
void lineout_source_free(struct lineout_source *s);

/* lineout_put - queue a line. @text is malloc'd, without a newline, and is taken; NULL means that
 * the caller had no memory for it, so it is dropped and counted. @s is the guest, whose lines may
 * be dropped, or NULL for a line of the program itself, which is dropped only if it cannot be
 * written or memory is short. */
void lineout_put(char *text, struct lineout_source *s);

/* lineout_drop - @n lines of @s were dropped before they came here: the next line that says how
 * many are lost includes them. lineout_settle - print that line now if one is due. lineout_dropped
 * - how many lines of @s were dropped in all. */
void lineout_drop(struct lineout_source *s, unsigned long n);
void lineout_settle(struct lineout_source *s);
uint64_t lineout_dropped(struct lineout_source *s);

/* lineout_error - why the first line that could not be written was not: an errno, ENOMEM if there
 * was no memory for a line of the program itself; 0 if there was no such line. */
int lineout_error(void);

/* lineout_close - write the queued lines and end the thread. Gives up if the reader takes nothing
 * for two seconds. No other call may be under way or follow, except lineout_error. */
void lineout_close(void);

#endif
