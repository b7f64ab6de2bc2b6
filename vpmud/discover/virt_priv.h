/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by virt.c (the caller's thread) and virt_worker.c (the threads that talk to libvirt). Both
 * structures are reference-counted: a thread left behind by a close still uses them.
 */
#pragma once

#include <pthread.h>

#include "vpmud/discover/virt.h"

/* Domains named by events; with more, all domains are queried. */
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
	bool all; /* query all domains */
	size_t nr_named;
	char named[NAMED_MAX][DISC_UUID_SIZE];

	const struct virt_lib *lib; /* set before there is a connection */

	/* of the thread alone */
	bool noted;    /* the lost connection was reported */
	char bad[320]; /* last error about a domain's XML */
};

/* virt_post - append @m to the queue, which then owns it. */
void virt_post(struct virt_queue *q, struct virt_message *m);

/* virt_worker_get, virt_worker_put - take or drop a reference to @w, a struct virt_worker. */
void virt_worker_get(struct virt_worker *w);
void virt_worker_put(void *w);

/* virt_worker - the main function of a URI's thread; @w comes with a reference for it. */
void *virt_worker(void *w);
