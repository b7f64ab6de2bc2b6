// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The threads that talk to libvirt, see virt.h. A thread opens its URI, queries all domains, and
 * then each one that an event names. Callbacks run on libvirt's own thread; they must only record
 * the domain.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "service/program/memory.h"
#include "vpmu/util/files.h"
#include "vpmud/discover/procfile.h"
#include "vpmud/discover/virt_lib.h"
#include "vpmud/discover/virt_priv.h"
#include "vpmu/util/fail.h"

/* Seconds between connection attempts, doubling from the first to the last. */
#define RETRY_FIRST 1
#define RETRY_LAST  60

/* A hung daemon is given up after three unanswered keepalives, 5 s each. */
#define ALIVE_SECONDS 5
#define ALIVE_COUNT   3

/* Like VIR_DOMAIN_EVENT_CALLBACK: libvirt calls the function with the arguments of its kind of
 * event. clang 19 warns of a direct cast between such types. */
#define CALLBACK(f) ((virConnectDomainEventGenericCallback)(void (*)(void))(f))

/* ---- messages ---- */

static struct virt_message *message(const struct virt_worker *w, enum virt_what what)
{
	struct virt_message *m = xcalloc(1, sizeof(*m));

	m->what = what;
	m->uri = w->uri_nr;
	return m;
}

static void post_note(struct virt_worker *w, const char *what, const char *why)
{
	struct virt_message *m = message(w, VIRT_LINK);

	fail(0, m->text, sizeof(m->text), "libvirt: %s: %s%s", w->uri, what, why);
	virt_post(w->queue, m);
}

/* ---- callbacks, on libvirt's thread ---- */

static void on_close(virConnectPtr conn, int reason, void *arg)
{
	struct virt_worker *w = arg;

	pthread_mutex_lock(&w->lock);
	w->lost = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static void name_domain(struct virt_worker *w, virDomainPtr dom)
{
	char uuid[VIR_UUID_STRING_BUFLEN];
	bool known = w->lib->virDomainGetUUIDString(dom, uuid) < 0;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; !known && i < w->nr_named; i++)
		known = !strcmp(w->named[i], uuid);
	if (!known && w->nr_named < NAMED_MAX)
		memcpy(w->named[w->nr_named++], uuid, sizeof(uuid));
	else if (!known)
		w->all = true;
	pthread_cond_signal(&w->cond);
	pthread_mutex_unlock(&w->lock);
}

static int on_lifecycle(virConnectPtr conn, virDomainPtr dom, int event, int detail, void *arg)
{
	name_domain(arg, dom);
	return 0;
}

static void on_metadata(virConnectPtr conn, virDomainPtr dom, int type, const char *nsuri,
			void *arg)
{
	name_domain(arg, dom);
}

/* ---- the thread of a URI ---- */

/* Return the process of the domain @name from its driver's pid file; 0: unknown. */
static pid_t virt_worker_pid_of(const struct virt_worker *w, const char *name)
{
	char path[PATH_MAX], text[32];
	ssize_t n;
	int fd, pid;

	if (!w->pid_dir || strchr(name, '/') ||
	    snprintf(path, sizeof(path), "%s/%s.pid", w->pid_dir, name) >= (int)sizeof(path))
		return 0;
	fd = regular_open(AT_FDCWD, path, O_NOFOLLOW);
	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	pid = procfile_number(text);
	return pid > 0 ? pid : 0;
}

/* Query @dom and post the result, if it has one. */
static void virt_worker_ask(struct virt_worker *w, virDomainPtr dom)
{
	char *xml = w->lib->virDomainGetXMLDesc(dom, 0);
	struct virt_message *m;
	int ret;

	if (!xml)
		return;
	m = message(w, VIRT_DOMAIN);
	ret = domxml_parse(xml, strlen(xml), &m->xml, m->text, sizeof(m->text));
	free(xml);
	if (ret) {
		m->what = VIRT_NOTE;
		if (!strcmp(w->bad, m->text)) {
			free(m);
			return; /* already reported */
		}
		memcpy(w->bad, m->text, sizeof(w->bad));
	} else {
		m->active = w->lib->virDomainIsActive(dom) == 1;
		m->pid = m->active ? virt_worker_pid_of(w, m->xml.name) : 0;
	}
	virt_post(w->queue, m);
}

static bool ask_all(struct virt_worker *w, virConnectPtr conn)
{
	virDomainPtr *doms;
	int n = w->lib->virConnectListAllDomains(conn, &doms, 0);

	if (n < 0)
		return false;
	virt_post(w->queue, message(w, VIRT_BEGIN));
	for (int i = 0; i < n; i++) {
		/* A domain removed in between has no XML; an event reports its end. */
		virt_worker_ask(w, doms[i]);
		w->lib->virDomainFree(doms[i]);
	}
	free(doms);
	virt_post(w->queue, message(w, VIRT_END));
	return true;
}

static void ask_one(struct virt_worker *w, virConnectPtr conn, const char *uuid)
{
	virDomainPtr dom = w->lib->virDomainLookupByUUIDString(conn, uuid);
	struct virt_message *m;

	if (dom) {
		virt_worker_ask(w, dom);
		w->lib->virDomainFree(dom);
		return;
	}
	if (w->lib->virGetLastErrorCode() != VIR_ERR_NO_DOMAIN)
		return; /* the connection is lost, which on_close() reports */
	m = message(w, VIRT_GONE);
	memcpy(m->xml.uuid, uuid, DISC_UUID_SIZE);
	virt_post(w->queue, m);
}

/* Wait for work, up to @seconds unless 0. Returns true to stop. */
static bool wait_for_work(struct virt_worker *w, unsigned int seconds)
{
	struct timespec deadline;
	bool stop;

	clock_gettime(CLOCK_MONOTONIC, &deadline);
	deadline.tv_sec += seconds;
	pthread_mutex_lock(&w->lock);
	while (!w->stop && (seconds || (!w->lost && !w->all && !w->nr_named)))
		if (!seconds)
			pthread_cond_wait(&w->cond, &w->lock);
		else if (pthread_cond_timedwait(&w->cond, &w->lock, &deadline) == ETIMEDOUT)
			break;
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

static bool stopped(struct virt_worker *w)
{
	bool stop;

	pthread_mutex_lock(&w->lock);
	stop = w->stop;
	pthread_mutex_unlock(&w->lock);
	return stop;
}

/* Follow the domains of @conn until it is lost or the thread has to stop. */
static void follow(struct virt_worker *w, virConnectPtr conn)
{
	while (!wait_for_work(w, 0)) {
		char named[NAMED_MAX][DISC_UUID_SIZE];
		bool all, lost;
		size_t nr;

		pthread_mutex_lock(&w->lock);
		lost = w->lost;
		all = w->all;
		nr = w->nr_named;
		memcpy(named, w->named, nr * sizeof(named[0]));
		w->all = false;
		w->nr_named = 0;
		pthread_mutex_unlock(&w->lock);
		if (lost || (all && !ask_all(w, conn)))
			return;
		for (size_t i = 0; !all && i < nr; i++)
			ask_one(w, conn, named[i]);
	}
}

/* Register the callbacks before all domains are queried, so that no change is missed. */
static int virt_worker_begin(struct virt_worker *w, virConnectPtr conn, int ids[2])
{
	const struct virt_lib *l = w->lib;

	/* Local drivers support neither of the first two, and cannot be lost. */
	l->virConnectSetKeepAlive(conn, ALIVE_SECONDS, ALIVE_COUNT);
	/* No reference: local drivers would never drop it. After virt_worker_end() has unregistered
	 * it, it is not called. */
	l->virConnectRegisterCloseCallback(conn, on_close, w, NULL);
	virt_worker_get(w);
	ids[0] = l->virConnectDomainEventRegisterAny(conn, NULL, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
						     CALLBACK(on_lifecycle), w, virt_worker_put);
	if (ids[0] < 0)
		virt_worker_put(w);
	virt_worker_get(w);
	ids[1] =
		l->virConnectDomainEventRegisterAny(conn, NULL, VIR_DOMAIN_EVENT_ID_METADATA_CHANGE,
						    CALLBACK(on_metadata), w, virt_worker_put);
	if (ids[1] < 0)
		virt_worker_put(w);
	return ids[0] < 0 ? -1 : 0;
}

static void virt_worker_end(struct virt_worker *w, virConnectPtr conn, const int ids[2])
{
	for (int i = 0; i < 2; i++)
		if (ids[i] >= 0)
			w->lib->virConnectDomainEventDeregisterAny(conn, ids[i]);
	w->lib->virConnectUnregisterCloseCallback(conn, on_close);
	w->lib->virConnectClose(conn);
}

/* Serve one connection until it ends. Returns true if it was established. */
static bool virt_worker_serve(struct virt_worker *w)
{
	virConnectPtr conn = w->lib->virConnectOpenReadOnly(w->uri);
	bool ok = false;
	int ids[2] = {-1, -1};

	if (conn) {
		pthread_mutex_lock(&w->lock);
		w->lost = false;
		w->all = true;
		w->nr_named = 0;
		pthread_mutex_unlock(&w->lock);
		ok = !virt_worker_begin(w, conn, ids);
		if (ok && w->noted) {
			post_note(w, "connected again", "");
			w->noted = false;
		}
	}
	if (!ok && !w->noted) {
		post_note(w,
			  "no connection; it is tried again: ", w->lib->virGetLastErrorMessage());
		w->noted = true;
	}
	if (ok)
		follow(w, conn);
	if (conn)
		virt_worker_end(w, conn, ids);
	return ok;
}

void *virt_worker(void *arg)
{
	struct virt_worker *w = arg;
	unsigned int retry = RETRY_FIRST;
	char err[256] = "";

	w->lib = virt_lib_load(err, sizeof(err));
	if (!w->lib) {
		post_note(w,
			  "libvirt can't be loaded; domains are found without their names and "
			  "tenants, until a restart: ",
			  err);
		goto out;
	}
	for (;;) {
		struct timespec from, to;
		bool stood;

		clock_gettime(CLOCK_MONOTONIC, &from);
		stood = virt_worker_serve(w);
		clock_gettime(CLOCK_MONOTONIC, &to);
		if (stopped(w))
			break;
		if (stood && !w->noted) {
			post_note(w, "the connection is lost; it is tried again", "");
			w->noted = true;
		}
		if (stood && to.tv_sec - from.tv_sec > RETRY_LAST)
			retry = RETRY_FIRST;
		if (wait_for_work(w, retry))
			break;
		retry = retry * 2 > RETRY_LAST ? RETRY_LAST : retry * 2;
	}
out:
	virt_worker_put(w);
	return NULL;
}
