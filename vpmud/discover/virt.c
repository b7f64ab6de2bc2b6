// SPDX-License-Identifier: GPL-2.0-or-later
/* The caller's side of virt.h: starts and stops the threads of virt_worker.c, and owns their
 * message queue. It must not call libvirt. */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "service/program/memory.h"
#include "vpmud/discover/virt_priv.h"

#define CLOSE_SECONDS 2

struct virt {
	struct virt_queue *queue;
	size_t nr;
	struct virt_worker *workers[];
};

/* ---- the queue ---- */

/* Drop a reference to @q. */
static void virt_queue_put(struct virt_queue *q)
{
	unsigned int left;

	pthread_mutex_lock(&q->lock);
	left = --q->refs;
	pthread_mutex_unlock(&q->lock);
	if (left)
		return;
	while (q->first) {
		struct virt_message *m = q->first;

		q->first = m->next;
		free(m);
	}
	close(q->fd);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

void virt_post(struct virt_queue *q, struct virt_message *m)
{
	uint64_t one = 1;

	pthread_mutex_lock(&q->lock);
	if (q->closed) {
		free(m);
	} else {
		*q->end = m;
		q->end = &m->next;
		/* An overflow leaves the eventfd readable, which is all that is needed. */
		if (write(q->fd, &one, sizeof(one)) < 0)
			(void)one;
	}
	pthread_mutex_unlock(&q->lock);
}

/* ---- workers ---- */

void virt_worker_put(void *arg)
{
	struct virt_worker *w = arg;
	unsigned int left;

	pthread_mutex_lock(&w->lock);
	left = --w->refs;
	pthread_mutex_unlock(&w->lock);
	if (left)
		return;
	virt_queue_put(w->queue);
	pthread_cond_destroy(&w->cond);
	pthread_mutex_destroy(&w->lock);
	free(w->pid_dir);
	free(w->uri);
	free(w);
}

void virt_worker_get(struct virt_worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->refs++;
	pthread_mutex_unlock(&w->lock);
}

static struct virt_worker *worker_new(struct virt_queue *q, size_t nr, const char *uri)
{
	struct virt_worker *w = xcalloc(1, sizeof(*w));
	pthread_condattr_t attr;

	w->uri = xstrdup(uri);
	w->pid_dir = virt_pid_dir(uri);
	w->uri_nr = nr;
	w->queue = q;
	w->refs = 1;
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->cond, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_lock(&q->lock);
	q->refs++;
	pthread_mutex_unlock(&q->lock);
	return w;
}

int virt_open(const char *const *uris, size_t nr, struct virt **out)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct virt_queue *q;
	struct virt *v;

	if (fd < 0)
		return -errno;
	v = xcalloc(1, sizeof(*v) + nr * sizeof(v->workers[0]));
	q = xcalloc(1, sizeof(*q));
	q->fd = fd;
	pthread_mutex_init(&q->lock, NULL);
	q->refs = 1;
	q->end = &q->first;
	v->queue = q;
	domxml_init();
	/* Queries must not start a session daemon. Errors are in our notes; most of what libvirt
	 * would print is no error, such as a domain that ended. */
	setenv("LIBVIRT_AUTOSTART", "0", 0);
	setenv("LIBVIRT_LOG_OUTPUTS", "4:file:/dev/null", 0);
	for (; v->nr < nr; v->nr++)
		v->workers[v->nr] = worker_new(q, v->nr, uris[v->nr]);
	*out = v;
	return 0;
}

int virt_start(struct virt *v)
{
	sigset_t all, old;
	int ret = 0;

	/* Signals stay with the caller's thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (size_t i = 0; !ret && i < v->nr; i++) {
		virt_worker_get(v->workers[i]);
		ret = -pthread_create(&v->workers[i]->thread, NULL, virt_worker, v->workers[i]);
		v->workers[i]->started = !ret;
		if (ret)
			virt_worker_put(v->workers[i]);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ret;
}

int virt_fd(const struct virt *v)
{
	return v->queue->fd;
}

struct virt_message *virt_take(struct virt *v)
{
	struct virt_message *all;
	uint64_t n;

	pthread_mutex_lock(&v->queue->lock);
	if (read(v->queue->fd, &n, sizeof(n)) < 0)
		n = 0; /* nothing new */
	all = v->queue->first;
	v->queue->first = NULL;
	v->queue->end = &v->queue->first;
	pthread_mutex_unlock(&v->queue->lock);
	return all;
}

void virt_close(struct virt *v)
{
	struct timespec end;

	if (!v)
		return;
	pthread_mutex_lock(&v->queue->lock);
	v->queue->closed = true;
	pthread_mutex_unlock(&v->queue->lock);
	for (size_t i = 0; i < v->nr; i++) {
		pthread_mutex_lock(&v->workers[i]->lock);
		v->workers[i]->stop = true;
		pthread_cond_signal(&v->workers[i]->cond);
		pthread_mutex_unlock(&v->workers[i]->lock);
	}
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += CLOSE_SECONDS;
	for (size_t i = 0; i < v->nr; i++) {
		struct virt_worker *w = v->workers[i];

		if (w->started && pthread_timedjoin_np(w->thread, NULL, &end))
			pthread_detach(w->thread);
		virt_worker_put(w);
	}
	virt_queue_put(v->queue);
	free(v);
}
