/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Private to share.c and share_link.c: the client of vpmud's socket for VMMs. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "vpmu/kvm/share.h"

struct share_thread {
	struct share_thread *next;
	struct share_client *client;
	int tid;
	bool gone; /* no vCPU uses it */
	uint32_t binds;
	struct share_page *page; /* the newest; NULL: none */
	struct share share[SHARE_KEYS];
};

struct share_client {
	struct share_client *next; /* of the process */
	unsigned int users;	   /* likewise, under its lock */
	pthread_t thread;
	int wake; /* an eventfd */
	char path[108];

	pthread_mutex_t lock; /* of all below, and of threads */
	pthread_cond_t changed;
	struct share_thread *threads;
	bool stop;
	bool down;	  /* the last attempt to connect has failed, or ended without an answer */
	bool late;	  /* a vCPU has waited in vain since the last answer */
	uint64_t wait_ns; /* SHARE_WAIT_NS; longer in tests, for busy machines */

	/* share_link.c */
	int fd; /* -1: not connected */
	bool answered;
	uint64_t connect_ns; /* not before */
	unsigned int failures;
	/* The request without an answer; asked 0: none. */
	uint32_t asked;
	struct share_thread *asked_of;
	vpmu_key_t asked_key;
	int came; /* a descriptor that came with a part of the answer, or -1 */
	size_t have;
	unsigned char in[sizeof(struct vpmu_totals_reply)];
};

/* Under c->lock: the share of @key, or NULL (0: a free one); change its state and wake the
 * waiting. */
struct share *share_find(struct share_thread *t, vpmu_key_t key);
void share_set(struct share_thread *t, struct share *s, enum share_state state);
void share_page_put(struct share_page *p);
void share_thread_free(struct share_thread *t);

/* The thread of client @arg. */
void *share_link_run(void *arg);
