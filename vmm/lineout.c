// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Queued lines for standard output; see lineout.h. One thread writes; q.lock protects the queue and
 * is never held during a write.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vmm/lineout.h"

#define SOURCE_BYTES_MAX (256u << 10) /* limit of the bytes queued for one source */
#define CLOSE_SECONDS	 2	      /* lineout_close gives up after this time without progress */

struct source {
	struct source *next;
	size_t queued_bytes;
	unsigned long lost;
	char name[];
};

struct line {
	struct line *next;
	struct source *source; /* NULL: a line that must not be dropped */
	char *text;
	size_t bytes;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t thread;
	struct line *head, **tail;
	struct source *sources; /* sources that have queued or dropped lines */
	lineout_lost_fn lost;
	void (*gone)(void *arg);
	void *arg;
	uint64_t written; /* number of lines, for lineout_close to see progress */
	bool closing, done;
	_Atomic bool failed;
} q = {.lock = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

bool lineout_failed(void)
{
	return atomic_load(&q.failed);
}

static struct source *find_source(const char *name)
{
	struct source *s;

	for (s = q.sources; s && strcmp(s->name, name); s = s->next)
		;
	if (s)
		return s;
	s = calloc(1, sizeof(*s) + strlen(name) + 1);
	if (!s)
		return NULL;
	strcpy(s->name, name);
	s->next = q.sources;
	q.sources = s;
	return s;
}

static void forget_source(struct source *s)
{
	struct source **p = &q.sources;

	if (s->queued_bytes || s->lost)
		return;
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	free(s);
}

/* Queue @text, which is taken. Under lock. */
static void append(char *text, struct source *source)
{
	struct line *l = text ? malloc(sizeof(*l)) : NULL;

	if (!l) {
		free(text);
		if (source)
			source->lost++;
		else
			atomic_store(&q.failed, true);
		return;
	}
	*l = (struct line){.source = source, .text = text, .bytes = strlen(text)};
	if (source)
		source->queued_bytes += l->bytes;
	*q.tail = l;
	q.tail = &l->next;
	pthread_cond_signal(&q.more);
}

void lineout_put(char *text, const char *source)
{
	struct source *s = NULL;

	pthread_mutex_lock(&q.lock);
	if (source)
		s = find_source(source);
	if (source && (!s || s->queued_bytes >= SOURCE_BYTES_MAX)) {
		free(text);
		if (s)
			s->lost++;
	} else {
		append(text, s);
	}
	pthread_mutex_unlock(&q.lock);
}

/* Write all of @text. False: standard output cannot be written. Without the lock. */
static bool write_line(const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(STDOUT_FILENO, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		text += n;
		bytes -= (size_t)n;
	}
	return true;
}

/* Free a line that was written. If its source has dropped lines and room again, queue the line that
 * says how many. Under lock. */
static void written(struct line *l, bool ok)
{
	struct source *s = l->source;

	q.written++;
	if (!ok && !atomic_exchange(&q.failed, true))
		q.gone(q.arg);
	free(l->text);
	if (s) {
		s->queued_bytes -= l->bytes;
		if (s->lost && s->queued_bytes < SOURCE_BYTES_MAX / 2) {
			unsigned long lost = s->lost;

			s->lost = 0;
			append(q.lost(s->name, lost), s);
		}
		forget_source(s);
	}
	free(l);
}

static void *writer(void *arg)
{
	pthread_mutex_lock(&q.lock);
	while (q.head || !q.closing) {
		struct line *l = q.head;
		bool ok;

		if (!l) {
			pthread_cond_wait(&q.more, &q.lock);
			continue;
		}
		q.head = l->next;
		if (!q.head)
			q.tail = &q.head;
		pthread_mutex_unlock(&q.lock);
		l->text[l->bytes] = '\n'; /* replaces the NUL */
		ok = !lineout_failed() && write_line(l->text, l->bytes + 1);
		pthread_mutex_lock(&q.lock);
		written(l, ok);
	}
	q.done = true;
	pthread_mutex_unlock(&q.lock);
	return NULL;
}

int lineout_open(lineout_lost_fn lost, void (*gone)(void *arg), void *arg)
{
	sigset_t all, old;
	int ret;

	q.tail = &q.head;
	q.lost = lost;
	q.gone = gone;
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
