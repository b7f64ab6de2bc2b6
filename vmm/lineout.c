// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queued lines for standard output; see lineout.h. One thread writes; q.lock protects the queue and
 * the sources and is never held during a write.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vmm/lineout.h"

#define SOURCE_BYTES_MAX (256u << 10) /* limit of the bytes queued for one source */
#define CLOSE_SECONDS	 2	      /* lineout_close gives up after this time without progress */

struct lineout_source {
	size_t queued_bytes;
	unsigned int refs;  /* its owner's, and one for each queued line */
	unsigned long lost; /* dropped lines not yet reported */
	uint64_t dropped;   /* all dropped lines */
	char name[];
};

struct line {
	struct line *next;
	struct lineout_source *source; /* NULL: a line of the program itself */
	unsigned long tells;	       /* lost lines that it reports; 0: an ordinary line */
	char *text;
	size_t bytes;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	struct line *head, **tail;
	lineout_lost_fn lost;
	void (*trouble)(void *arg);
	void *arg;
	uint64_t written; /* number of lines, for lineout_close to see progress */
	bool closing, done;
	bool torn; /* the last line was cut off; used by the writer only */
	_Atomic int error;
} q = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

int lineout_error(void)
{
	return atomic_load(&q.error);
}

/* Keep the first error. Returns true if @error is the first one. */
static bool note_error(int error)
{
	int none = 0;

	return atomic_compare_exchange_strong(&q.error, &none, error);
}

struct lineout_source *lineout_source_new(const char *name)
{
	struct lineout_source *s = calloc(1, sizeof(*s) + strlen(name) + 1);

	if (!s)
		return NULL;
	s->refs = 1;
	strcpy(s->name, name);
	return s;
}

/* Under lock. */
static void put_source(struct lineout_source *s)
{
	if (!--s->refs)
		free(s);
}

void lineout_source_free(struct lineout_source *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&q.lock);
	put_source(s);
	pthread_mutex_unlock(&q.lock);
}

/* A line that reports @tells lost lines, or an ordinary one (@tells 0), was not written. Under
 * lock. */
static void count_dropped(struct lineout_source *s, unsigned long tells)
{
	if (!s)
		return;
	s->lost += tells ? tells : 1;
	s->dropped += !tells;
}

/* Queue @text, which is taken. Under lock. */
static void lineout_append(char *text, struct lineout_source *s, unsigned long tells)
{
	struct line *l = text ? malloc(sizeof(*l)) : NULL;

	if (!l) {
		free(text);
		count_dropped(s, tells);
		if (!s && note_error(ENOMEM))
			q.trouble(q.arg);
		return;
	}
	*l = (struct line){.source = s, .tells = tells, .text = text, .bytes = strlen(text)};
	if (s) {
		s->queued_bytes += l->bytes;
		s->refs++;
	}
	*q.tail = l;
	q.tail = &l->next;
	pthread_cond_signal(&q.more);
}

/* Queue the report of lost lines of @s, if there are any. Under lock. */
static void lineout_tell_lost(struct lineout_source *s)
{
	unsigned long lost = s->lost;

	if (!lost)
		return;
	s->lost = 0;
	lineout_append(q.lost(s->name, lost), s, lost);
}

void lineout_put(char *text, struct lineout_source *s)
{
	pthread_mutex_lock(&q.lock);
	if (s && s->queued_bytes >= SOURCE_BYTES_MAX) {
		free(text);
		count_dropped(s, 0);
	} else {
		if (s && !s->queued_bytes)
			lineout_tell_lost(s);
		lineout_append(text, s, 0);
	}
	pthread_mutex_unlock(&q.lock);
}

void lineout_drop(struct lineout_source *s, unsigned long n)
{
	pthread_mutex_lock(&q.lock);
	s->lost += n;
	s->dropped += n;
	pthread_mutex_unlock(&q.lock);
}

void lineout_settle(struct lineout_source *s)
{
	pthread_mutex_lock(&q.lock);
	lineout_tell_lost(s);
	pthread_mutex_unlock(&q.lock);
}

uint64_t lineout_dropped(struct lineout_source *s)
{
	uint64_t n;

	pthread_mutex_lock(&q.lock);
	n = s->dropped;
	pthread_mutex_unlock(&q.lock);
	return n;
}

/* Write all of @text. Returns 0 or an errno of standard output. Without the lock. */
static int lineout_write_all(const char *text, size_t bytes)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	while (bytes) {
		ssize_t n = write(STDOUT_FILENO, text, bytes);

		if (n < 0 && errno == EAGAIN)
			poll(&out, 1, -1); /* the pipe was opened with O_NONBLOCK */
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return errno;
		q.torn = text[n - 1] != '\n';
		text += n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int write_line(const struct line *l)
{
	int error = q.torn ? lineout_write_all("\n", 1) : 0;

	l->text[l->bytes] = '\n'; /* replaces the NUL */
	return error ? error : lineout_write_all(l->text, l->bytes + 1);
}

/* Free a line that was written, or not (@error). If its source has dropped lines and room again,
 * queue the report of their number; not after an error, because it would fail, too. Under lock. */
static void lineout_written(struct line *l, int error)
{
	struct lineout_source *s = l->source;

	q.written++;
	if (error && note_error(error))
		q.trouble(q.arg);
	free(l->text);
	if (s) {
		s->queued_bytes -= l->bytes;
		if (error)
			count_dropped(s, l->tells);
		else if (s->queued_bytes < SOURCE_BYTES_MAX / 2)
			lineout_tell_lost(s);
		put_source(s);
	}
	free(l);
}

static void *writer(void *arg)
{
	pthread_mutex_lock(&q.lock);
	while (q.head || !q.closing) {
		struct line *l = q.head;
		int error;

		if (!l) {
			pthread_cond_wait(&q.more, &q.lock);
			continue;
		}
		q.head = l->next;
		if (!q.head)
			q.tail = &q.head;
		pthread_mutex_unlock(&q.lock);
		error = write_line(l);
		pthread_mutex_lock(&q.lock);
		lineout_written(l, error);
	}
	q.done = true;
	pthread_mutex_unlock(&q.lock);
	return NULL;
}

int lineout_open(lineout_lost_fn lost, void (*trouble)(void *arg), void *arg)
{
	sigset_t all, old;
	int ret;

	q.tail = &q.head;
	q.lost = lost;
	q.trouble = trouble;
	q.arg = arg;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ret = -pthread_create(&q.thread, NULL, writer, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

void lineout_close(void)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	uint64_t seen = UINT64_MAX;
	int idle = 0;
	bool done;

	pthread_mutex_lock(&q.lock);
	q.closing = true;
	pthread_cond_signal(&q.more);
	pthread_mutex_unlock(&q.lock);
	do {
		pthread_mutex_lock(&q.lock);
		done = q.done;
		idle = q.written == seen ? idle + 1 : 0;
		seen = q.written;
		pthread_mutex_unlock(&q.lock);
		if (!done)
			nanosleep(&pause, NULL);
	} while (!done && idle < CLOSE_SECONDS * 100);
	if (done)
		pthread_join(q.thread, NULL);
	/* Otherwise the thread is stuck in write() and ends with the process. */
}
