/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What virt.c (the caller's thread) and virt_worker.c (the threads that talk to libvirt) share.
 * Both structures are counted: who is left behind by a close goes on with them.
 */
#ifndef VPMUD_DISCOVER_VIRT_PRIV_H
#define VPMUD_DISCOVER_VIRT_PRIV_H

#include <pthread.h>

#include "vpmud/discover/virt.h"

/* Domains that events have named; with more of them all domains are asked about. */
#define NAMED_MAX 64

/* Messages to the caller. */
struct virt_queue {
	pthread_mutex_t lock;
	int fd;
	bool closed;
	unsigned int refs;
	struct virt_message *first, **end;
};

/* One URI. */
struct virt_worker {
	pthread_mutex_t lock;
	pthread_cond_t cond; /* CLOCK_MONOTONIC; stop, lost, all or nr_named has changed */
	unsigned int refs;
	struct virt_queue *queue;
	size_t uri_nr;
	char *uri;
	char *pid_dir;
	pthread_t thread;
	bool started;
	bool stop, lost;
	bool all; /* ask about all domains */
	size_t nr_named;
	char named[NAMED_MAX][DISC_UUID_SIZE];

	const struct virt_lib *lib; /* set before there is a connection */

	/* of the thread alone */
	bool noted;    /* that there is no connection */
	char bad[320]; /* the last domain's XML that was not understood */
};

/* virt_queue_put - let go of @q. */
void virt_queue_put(struct virt_queue *q);

/* virt_post - @m becomes the queue's. */
void virt_post(struct virt_queue *q, struct virt_message *m);

/* virt_worker_get, virt_worker_put - one more, one less that uses @w, a struct virt_worker. */
void virt_worker_get(struct virt_worker *w);
void virt_worker_put(void *w);

/* virt_worker - the thread of a URI; @w has a reference for it. */
void *virt_worker(void *w);

#endif
