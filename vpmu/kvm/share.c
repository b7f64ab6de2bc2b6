// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What the vCPUs of this process want of vpmud, and what they have; see share.h. The table is here,
 * the connection in share_link.c. One lock for both; no one holds it while waiting for vpmud.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "vpmu/kvm/share_priv.h"
#include "vpmu/util/clock.h"

static pthread_mutex_t clients_lock = PTHREAD_MUTEX_INITIALIZER;
static struct share_client *clients;

/* ---- shares, under c->lock ----------------------------------------------------------------------
 */

struct share *share_find(struct share_thread *t, vpmu_key_t key)
{
	for (unsigned int i = 0; i < SHARE_KEYS; i++)
		if (t->share[i].key == key)
			return &t->share[i];
	return NULL;
}

void share_page_put(struct share_page *p)
{
	if (!p || --p->refs)
		return;
	munmap((void *)(uintptr_t)p->totals, sizeof(*p->totals));
	free(p);
}

static void share_event_drop(struct share *s)
{
	if (s->event_fd >= 0)
		close(s->event_fd);
	s->event_fd = -1;
	s->event_error = 0;
	s->event_wanted = false;
}

void share_set(struct share_thread *t, struct share *s, enum share_state state)
{
	s->state = state;
	s->again = false;
	if (state == SHARE_BOUND)
		atomic_store(&s->bind, ++t->binds ? t->binds : ++t->binds);
	else
		atomic_store(&s->bind, 0);
	if (state != SHARE_BOUND)
		share_event_drop(s);
	if (state == SHARE_NONE)
		s->key = 0;
	pthread_cond_broadcast(&t->client->changed);
}

static bool share_page_ended(const struct share_thread *t)
{
	return !t->page || __atomic_load_n(&t->page->totals->ended, __ATOMIC_ACQUIRE);
}

static void share_wake(struct share_client *c)
{
	const uint64_t one = 1;

	if (write(c->wake, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

/* The share of @key, made if need be and wanted; NULL: no room. */
static struct share *share_want(struct share_thread *t, vpmu_key_t key)
{
	struct share *s = share_find(t, key);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (!s)
		s = share_find(t, 0);
	if (!s)
		return NULL;
	if (!s->key) {
		*s = (struct share){.key = key, .event_fd = -1};
		share_set(t, s, SHARE_WANTED);
		share_wake(t->client);
	} else if (s->state == SHARE_BOUND && share_page_ended(t) && !s->again) {
		/* Either vpmud has ended the bind as well, or the next one fails with EEXIST. */
		share_set(t, s, SHARE_WANTED);
		s->retry_ns = 0;
		share_wake(t->client);
	} else if (s->state == SHARE_REFUSED && now >= s->retry_ns) {
		/* Otherwise only what is used is asked for again. */
		share_set(t, s, SHARE_WANTED);
		share_wake(t->client);
	}
	s->idle_ns = now;
	return s;
}

static bool share_settled(const struct share *s)
{
	return s->state == SHARE_BOUND || s->state == SHARE_REFUSED;
}

static struct timespec share_deadline(const struct share_client *c)
{
	uint64_t due = clock_ns(CLOCK_MONOTONIC) + c->wait_ns;

	return (struct timespec){.tv_sec = (time_t)(due / 1000000000u),
				 .tv_nsec = (long)(due % 1000000000u)};
}

static void share_wait(struct share_client *c, const struct share *s, vpmu_key_t key)
{
	const struct timespec at = share_deadline(c);

	while (s->key == key && !share_settled(s) && !c->down && !c->late)
		if (pthread_cond_timedwait(&c->changed, &c->lock, &at) == ETIMEDOUT)
			c->late = !share_settled(s);
}

/* False as well for a key that is not wanted, as the table has no room: nothing will bind it. A VM
 * that vpmud has not found yet is asked for again. */
static bool share_hopeful(const struct share_client *c, const struct share *s)
{
	return s && (s->state == SHARE_BOUND ||
		     (!c->down && (s->state != SHARE_REFUSED || s->error == ESRCH)));
}

bool share_ask(struct share_thread *t, vpmu_key_t key, bool wait)
{
	struct share_client *c = t->client;
	struct share *s;
	bool hopeful;

	pthread_mutex_lock(&c->lock);
	s = share_want(t, key);
	if (s && wait)
		share_wait(c, s, key);
	hopeful = share_hopeful(c, s);
	pthread_mutex_unlock(&c->lock);
	return hopeful;
}

bool share_may(struct share_thread *t, vpmu_key_t key)
{
	struct share_client *c = t->client;
	bool may;

	pthread_mutex_lock(&c->lock);
	may = share_hopeful(c, share_find(t, key));
	pthread_mutex_unlock(&c->lock);
	return may;
}

bool share_get(struct share_thread *t, vpmu_key_t key, bool wait, struct share_use *out)
{
	struct share_client *c = t->client;
	struct share *s;
	bool bound;

	pthread_mutex_lock(&c->lock);
	s = share_want(t, key);
	if (s) {
		s->used = true;
		if (wait)
			share_wait(c, s, key);
	}
	bound = s && s->state == SHARE_BOUND && !share_page_ended(t);
	if (bound) {
		s->page = t->page;
		s->page->refs++;
		*out = (struct share_use){s->page->totals, s->slot, atomic_load(&s->bind), s};
	}
	pthread_mutex_unlock(&c->lock);
	return bound;
}

void share_put(struct share_thread *t, vpmu_key_t key)
{
	struct share_client *c = t->client;
	struct share *s;

	pthread_mutex_lock(&c->lock);
	s = share_find(t, key);
	if (s) {
		share_page_put(s->page);
		s->page = NULL;
		s->used = false;
		s->idle_ns = clock_ns(CLOCK_MONOTONIC);
		share_event_drop(s);
		share_wake(c); /* it may sleep, with nothing to do */
	}
	pthread_mutex_unlock(&c->lock);
}

bool share_ready(struct share_thread *t, vpmu_key_t key)
{
	struct share *s;
	bool ready;

	pthread_mutex_lock(&t->client->lock);
	s = share_find(t, key);
	ready = s && s->state == SHARE_BOUND && !share_page_ended(t);
	pthread_mutex_unlock(&t->client->lock);
	return ready;
}

int share_event(struct share_thread *t, struct share *s, bool wait)
{
	struct share_client *c = t->client;
	const struct timespec at = share_deadline(c);
	int fd;

	pthread_mutex_lock(&c->lock);
	if (!s->event_wanted && s->event_fd < 0) {
		s->event_wanted = true;
		share_wake(c);
	}
	while (wait && s->event_wanted && s->event_fd < 0 && !s->event_error && !c->down &&
	       !c->late)
		if (pthread_cond_timedwait(&c->changed, &c->lock, &at) == ETIMEDOUT)
			c->late = s->event_fd < 0 && !s->event_error;
	fd = s->event_fd >= 0 ? s->event_fd : s->event_error ? -s->event_error : -EAGAIN;
	if (s->event_fd >= 0 || s->event_error) {
		s->event_fd = -1;
		share_event_drop(s);
	}
	pthread_mutex_unlock(&c->lock);
	return fd;
}

/* ---- threads of vCPUs --------------------------------------------------- */

struct share_thread *share_begin(struct share_client *c, int tid)
{
	struct share_thread *t = calloc(1, sizeof(*t)), **link = &c->threads;

	if (!t)
		return NULL;
	t->client = c;
	t->tid = tid;
	for (unsigned int i = 0; i < SHARE_KEYS; i++)
		t->share[i].event_fd = -1;
	pthread_mutex_lock(&c->lock);
	/* Behind one that has ended: of the same @tid, vpmud gets its keys back before it is asked
	 * for them again. */
	while (*link)
		link = &(*link)->next;
	*link = t;
	pthread_mutex_unlock(&c->lock);
	return t;
}

void share_end(struct share_thread *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->client->lock);
	for (unsigned int i = 0; i < SHARE_KEYS; i++) {
		share_page_put(t->share[i].page);
		t->share[i].page = NULL;
		t->share[i].used = false;
		share_event_drop(&t->share[i]);
	}
	t->gone = true;
	share_wake(t->client);
	pthread_mutex_unlock(&t->client->lock);
}

void share_thread_free(struct share_thread *t)
{
	for (unsigned int i = 0; i < SHARE_KEYS; i++) {
		share_page_put(t->share[i].page);
		share_event_drop(&t->share[i]);
	}
	share_page_put(t->page);
	free(t);
}

/* ---- clients ------------------------------------------------------------ */

static void share_free(struct share_client *c)
{
	while (c->threads) {
		struct share_thread *t = c->threads;

		c->threads = t->next;
		share_thread_free(t);
	}
	if (c->fd >= 0)
		close(c->fd);
	if (c->wake >= 0)
		close(c->wake);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static int share_start(struct share_client *c)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&c->thread, NULL, share_link_run, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -rc;
}

static int share_new(const char *path, struct share_client **out)
{
	struct share_client *c;
	pthread_condattr_t monotonic;
	int rc;

	if (strlen(path) >= sizeof(c->path))
		return -ENAMETOOLONG;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	strcpy(c->path, path);
	c->wait_ns = SHARE_WAIT_NS;
	c->fd = -1;
	c->users = 1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&c->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	c->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = c->wake < 0 ? -errno : share_start(c);
	if (rc) {
		share_free(c);
		return rc;
	}
	*out = c;
	return 0;
}

int share_open(const char *path, struct share_client **out)
{
	struct share_client *c;
	int rc = 0;

	pthread_mutex_lock(&clients_lock);
	for (c = clients; c && strcmp(c->path, path); c = c->next)
		;
	if (c) {
		c->users++;
	} else {
		rc = share_new(path, &c);
		if (!rc) {
			c->next = clients;
			clients = c;
		}
	}
	pthread_mutex_unlock(&clients_lock);
	if (!rc)
		*out = c;
	return rc;
}

void share_close(struct share_client *c)
{
	struct share_client **link = &clients;

	if (!c)
		return;
	pthread_mutex_lock(&clients_lock);
	if (--c->users) {
		pthread_mutex_unlock(&clients_lock);
		return;
	}
	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	pthread_mutex_unlock(&clients_lock);
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	share_wake(c);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	share_free(c);
}
