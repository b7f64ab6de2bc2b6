/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The console of a VM: the output of its guest. The newest lines are in a ring in memory, which
 * `vpmu console` reads; optionally they also go to standard output or to a file. If a guest prints
 * faster than its rate or than its output accepts, lines are dropped and counted. report.c feeds
 * it; control_console.c reads it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONSOLE_RING_BYTES (64u << 10)
/* A shorter line counts as so many bytes of the rate: a line costs the host more than its bytes. */
#define CONSOLE_LINE_MIN 100u
#define CONSOLE_BURST_SEC                                                                          \
	4 /* a guest that was silent may print this many seconds' worth at once                    \
	   */

struct console;

struct console_opts {
	const char *name; /* of the VM */
	bool many;	  /* the VM has several vCPUs: lines show the vCPU */
	uint64_t rate;	  /* bytes per second; 0: no limit */
	bool print;	  /* also to standard output (lineout.h) */
	int fd;		  /* also to this file; -1: to none. The console closes it */
};

struct console_stats {
	uint64_t lines;	  /* printed by the guest */
	uint64_t dropped; /* of these, not kept or not written; each line counts once */
};

/*
 * console_open_file - open the file @path for the lines of a console, for appending; it is created
 * with mode 0600. It must be a regular file and no symbolic link. Returns the descriptor, or -errno
 * and one line in @err.
 */
int console_open_file(const char *path, char *err, size_t errlen);

/* console_new - NULL: out of memory, and o->fd stays the caller's. console_free - no other call may
 * be under way; NULL is fine. */
struct console *console_new(const struct console_opts *o);
void console_free(struct console *c);

/*
 * console_line - vCPU @vcpu has printed @text, which is printable UTF-8 without a newline. @now_ns
 * is a monotonic time. Returns true if the line is within the rate: the caller must then pass it to
 * console_print. Any thread.
 */
bool console_line(struct console *c, unsigned int vcpu, const char *text, uint64_t now_ns);

/* console_prints - returns true if lines go to standard output. console_print - queue @line
 * (malloc'd, taken; NULL: out of memory) for it. Any thread. */
bool console_prints(const struct console *c);
void console_print(struct console *c, char *line);

/* console_settle - the VM has ended: report lost lines that are not reported yet on every
 * output. */
void console_settle(struct console *c);

/* console_sent - the guest has sent @byte; the newest CONSOLE_RING_BYTES of them are kept, besides
 * the lines. Any thread. */
void console_sent(struct console *c, uint8_t byte);

void console_stats(struct console *c, struct console_stats *out);

/*
 * console_read - copy whole lines from the ring, each with its newline, to @buf, which has @room
 * bytes, at least 4096, and is NUL-terminated. *@from is the position to read from, in bytes since
 * the VM was added: 0 or the value left by the previous call. If lines from *@from on have been
 * overwritten, *@missed gets the number of their bytes. Returns the length, or -EINVAL: *@from is
 * not the start of a line. Any thread.
 */
long console_read(struct console *c, uint64_t *from, uint64_t *missed, char *buf, size_t room);

/*
 * console_read_sent - copy bytes of console_sent() to @buf, which has @room bytes. *@from and
 * *@missed as above, but any position is a valid *@from up to the newest byte; beyond it -EINVAL.
 * Returns the number of bytes. Any thread.
 */
long console_read_sent(struct console *c, uint64_t *from, uint64_t *missed, uint8_t *buf,
		       size_t room);
