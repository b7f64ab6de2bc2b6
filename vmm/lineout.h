/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queued lines for standard output. report.c queues the lines and a thread writes them, so that no
 * caller ever waits for the reader. The lines of a guest are bounded: if a guest prints faster than
 * the reader reads, further lines of that guest are dropped, and one line says how many. Any thread
 * may call these functions, unless a comment says otherwise.
 */
#ifndef VMM_LINEOUT_H
#define VMM_LINEOUT_H

#include <stdbool.h>
#include <stddef.h>

/* Returns the line that replaces @n dropped lines of @source, malloc'd; NULL: out of memory. */
typedef char *(*lineout_lost_fn)(const char *source, unsigned long n);

/* lineout_open - start the thread. Call it before any other function here. @gone(arg) is called
 * once, on that thread, when a write has failed. -errno. */
int lineout_open(lineout_lost_fn lost, void (*gone)(void *arg), void *arg);

/* lineout_put - queue a line. @text is malloc'd, without a newline, and is taken; NULL means that
 * the caller had no memory for it. @source is the name of the guest, whose lines may be dropped, or
 * NULL for a line that must not be dropped. */
void lineout_put(char *text, const char *source);

/* lineout_failed - whether a line could not be written or queued that must not be dropped. */
bool lineout_failed(void);

/* lineout_close - write the queued lines and end the thread. Gives up if the reader takes nothing
 * for two seconds. No other call may be under way or follow. */
void lineout_close(void);

#endif
