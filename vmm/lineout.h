/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lines to standard output, written by a thread of its own: whoever has a line to print never waits
 * for whoever reads it. Lines of guests are bounded per source: a guest that floods a reader that
 * is slow or stopped loses its own lines, and a line says how many. Any thread unless said
 * otherwise.
 */
#ifndef VMM_LINEOUT_H
#define VMM_LINEOUT_H

#include <stdbool.h>
#include <stddef.h>

/* Text that stands for @n lost lines of @source, malloc'd; NULL: out of memory. */
typedef char *(*lineout_lost_fn)(const char *source, unsigned long n);

/* lineout_open - start the thread. @gone(arg) is called, from it, once nothing can be written any
 * more. -errno. Before any other. */
int lineout_open(lineout_lost_fn lost, void (*gone)(void *arg), void *arg);

/* lineout_put - queue malloc'd @text (taken; NULL is a failure to write) without a newline.
 * @source: name of who may flood, or NULL for lines that are never dropped. */
void lineout_put(char *text, const char *source);

/* lineout_failed - whether output is not possible any more. */
bool lineout_failed(void);

/* lineout_close - write what is queued and end the thread. Gives up on a reader that takes nothing
 * for two seconds. Nobody else may print any more. */
void lineout_close(void);

#endif
