// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VM's console: ring, file and rate; see console.h. The threads of vCPUs write, the control
 * thread reads; c->lock protects everything. Text is from a guest: nothing here interprets it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "vmm/console.h"
#include "vmm/lineout.h"

struct console {
	pthread_mutex_t lock;
	struct lineout_source *out; /* NULL: lines do not go to standard output */
	int fd;			    /* -1: no file */
	bool torn;		    /* the file's last line ended in the middle */
	bool many;

	/* The bucket of bytes that the guest may print; negative after a line that was longer. */
	uint64_t rate, filled_ns;
	int64_t bytes;

	uint64_t lines, dropped;
	unsigned long lost; /* dropped lines not yet reported in ring and file */

	/* The bytes from @tail to @head, at their positions modulo CONSOLE_RING_BYTES. @tail is the
	 * start of a line. */
	char *ring;
	uint64_t tail, head;

	uint8_t *bytes_ring; /* NULL: the guest sent no byte yet, or out of memory */
	uint64_t nr_sent;    /* the newest CONSOLE_RING_BYTES of them are in the ring */
};

int console_open_file(const char *path, char *err, size_t errlen)
{
	/* O_NONBLOCK and O_NOCTTY make opening a pipe or a terminal harmless; it is refused below.
	 */
	int fd =
		open(path,
		     O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		     0600);
	struct stat st;

	if (fd < 0)
		return fail(-errno, err, errlen, "%.300s: %s", path,
			    errno == ELOOP ? "a symbolic link; expected the file itself"
					   : strerror(errno));
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return fail(-EINVAL, err, errlen, "%.300s: not a regular file", path);
}

struct console *console_new(const struct console_opts *o)
{
	struct console *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	if (o->print) {
		c->out = lineout_source_new(o->name);
		if (!c->out) {
			free(c);
			return NULL;
		}
	}
	pthread_mutex_init(&c->lock, NULL);
	c->fd = o->fd;
	c->many = o->many;
	c->rate = o->rate;
	c->bytes = (int64_t)(o->rate * CONSOLE_BURST_SEC);
	return c;
}

void console_free(struct console *c)
{
	if (!c)
		return;
	lineout_source_free(c->out);
	if (c->fd >= 0)
		close(c->fd);
	pthread_mutex_destroy(&c->lock);
	free(c->ring);
	free(c->bytes_ring);
	free(c);
}

/* Returns true if the guest may print a line of @n bytes at @now_ns. Under lock. */
static bool take_bytes(struct console *c, size_t n, uint64_t now_ns)
{
	const uint64_t second = 1000000000, since = now_ns - c->filled_ns;
	int64_t burst = (int64_t)(c->rate * CONSOLE_BURST_SEC);
	uint64_t add;

	if (!c->rate)
		return true;
	if (n < CONSOLE_LINE_MIN)
		n = CONSOLE_LINE_MIN;
	/* No overflow at 1 GB/s. The time is kept until it is worth a byte. */
	add = since / second * c->rate + since % second * c->rate / second;
	if (add)
		c->filled_ns = now_ns;
	c->bytes = add < (uint64_t)(burst - c->bytes) ? c->bytes + (int64_t)add : burst;
	/* A full bucket passes a line of any length, or long lines would never be printed. */
	if (c->bytes < (int64_t)n && c->bytes < burst)
		return false;
	c->bytes -= (int64_t)n;
	return true;
}

static char *at(const struct console *c, uint64_t pos)
{
	return &c->ring[pos % CONSOLE_RING_BYTES];
}

/* Append @text and a newline, over the oldest lines. Under lock. false: out of memory. */
static bool ring_put(struct console *c, const char *text, size_t len)
{
	if (!c->ring)
		c->ring = malloc(CONSOLE_RING_BYTES);
	if (!c->ring)
		return false;
	while (c->head + len + 1 - c->tail > CONSOLE_RING_BYTES)
		while (*at(c, c->tail++) != '\n')
			;
	for (size_t i = 0; i < len; i++)
		*at(c, c->head++) = text[i];
	*at(c, c->head++) = '\n';
	return true;
}

/* Write @text, which ends in a newline, to the file. Under lock. */
static bool file_put(struct console *c, const char *text, size_t len)
{
	if (c->torn && write(c->fd, "\n", 1) != 1)
		return false;
	c->torn = false;
	while (len) {
		ssize_t n = write(c->fd, text, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
		c->torn = len != 0;
	}
	return true;
}

/* Keep @text in the ring, and in the file if there is one. Under lock. Returns true if the operator
 * can see it where requested. */
static bool console_keep(struct console *c, const char *text)
{
	size_t len = strlen(text);
	bool kept = ring_put(c, text, len);
	char *line;

	if (c->fd < 0)
		return kept || c->out;
	line = malloc(len + 2);
	if (!line)
		return false;
	memcpy(line, text, len);
	memcpy(line + len, "\n", 2);
	kept = file_put(c, line, len + 1);
	free(line);
	return kept;
}

/* Report lost lines in ring and file. Under lock. */
static void console_tell_lost(struct console *c)
{
	char note[64];

	if (!c->lost)
		return;
	snprintf(note, sizeof(note), "(%lu lines lost)", c->lost);
	if (console_keep(c, note))
		c->lost = 0;
}

bool console_line(struct console *c, unsigned int vcpu, const char *text, uint64_t now_ns)
{
	size_t room = strlen(text) + 16;
	char line[room];
	bool ok;

	if (c->many)
		snprintf(line, room, "[%u] %s", vcpu, text);
	else
		strcpy(line, text);
	pthread_mutex_lock(&c->lock);
	c->lines++;
	ok = take_bytes(c, strlen(line) + 1, now_ns);
	if (ok)
		console_tell_lost(c);
	if (!ok || !console_keep(c, line)) {
		c->lost++;
		c->dropped++;
	}
	pthread_mutex_unlock(&c->lock);
	if (!ok && c->out)
		lineout_drop(c->out, 1);
	return ok;
}

void console_sent(struct console *c, uint8_t byte)
{
	pthread_mutex_lock(&c->lock);
	if (!c->bytes_ring)
		c->bytes_ring = malloc(CONSOLE_RING_BYTES);
	if (c->bytes_ring)
		c->bytes_ring[c->nr_sent++ % CONSOLE_RING_BYTES] = byte;
	pthread_mutex_unlock(&c->lock);
}

bool console_prints(const struct console *c)
{
	return c->out != NULL;
}

void console_print(struct console *c, char *line)
{
	lineout_put(line, c->out);
}

void console_settle(struct console *c)
{
	pthread_mutex_lock(&c->lock);
	console_tell_lost(c);
	pthread_mutex_unlock(&c->lock);
	if (c->out)
		lineout_settle(c->out);
}

void console_stats(struct console *c, struct console_stats *out)
{
	pthread_mutex_lock(&c->lock);
	*out = (struct console_stats){.lines = c->lines, .dropped = c->dropped};
	pthread_mutex_unlock(&c->lock);
	/* These include the lines that were over the rate. */
	if (c->out)
		out->dropped = lineout_dropped(c->out);
}

long console_read(struct console *c, uint64_t *from, uint64_t *missed, char *buf, size_t room)
{
	size_t len = 0;
	uint64_t pos;

	pthread_mutex_lock(&c->lock);
	*missed = *from < c->tail ? c->tail - *from : 0;
	pos = *from + *missed;
	if (pos > c->head || (pos > c->tail && *at(c, pos - 1) != '\n')) {
		pthread_mutex_unlock(&c->lock);
		return -EINVAL;
	}
	for (*from = pos; pos < c->head && len + 1 < room;) {
		buf[len++] = *at(c, pos++);
		if (buf[len - 1] == '\n')
			*from = pos;
	}
	pthread_mutex_unlock(&c->lock);
	/* Only whole lines. */
	while (len && buf[len - 1] != '\n')
		len--;
	buf[len] = 0;
	return (long)len;
}

long console_read_sent(struct console *c, uint64_t *from, uint64_t *missed, uint8_t *buf,
		       size_t room)
{
	uint64_t oldest;
	long n = -EINVAL;

	pthread_mutex_lock(&c->lock);
	oldest = c->nr_sent > CONSOLE_RING_BYTES ? c->nr_sent - CONSOLE_RING_BYTES : 0;
	if (*from <= c->nr_sent) {
		*missed = *from < oldest ? oldest - *from : 0;
		*from += *missed;
		for (n = 0; *from < c->nr_sent && (size_t)n < room; (*from)++)
			buf[n++] = c->bytes_ring[*from % CONSOLE_RING_BYTES];
	}
	pthread_mutex_unlock(&c->lock);
	return n;
}
