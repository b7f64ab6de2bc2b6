// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The socket of counters for guests; see guests.h. daemon.c opens it if vpmud.conf lists events.
 *
 * A connection has binds: one event of one vCPU each, a counting of the vCPU's node. They end with
 * the request to unbind, with the connection, or with the node. The page of a vCPU exists as long
 * as it has a bind. When vpmud ends, pages and counts go on: a VMM that connects to the next one
 * and binds again, before guests_restored, goes on with the same page.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/clock.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"
#include "vpmud/guests_priv.h"

#define VMMS_MAX     1024
#define REQUESTS_MAX 200	 /* of a connection in a second; further ones wait */
#define BUSY_NS	     50000000ull /* likewise: time that requests of a connection take in a second */
#define ACCEPT_NS    200000000ull /* likewise, of all: time of connecting and of closed ones */
#define STRANGERS    64		  /* connections of processes that are no VMs */
#define STRANGERS_OF 16		  /* likewise, of one user */
#define STRANGER_S   3		  /* seconds that such a connection may last */
#define PRIORITY     (SD_EVENT_PRIORITY_NORMAL + 10) /* the control socket goes first */

/* ---- connections ---------------------------------------------------------------------------- */

/* What @v has cost in this second, its end included, delays new connections: otherwise it would be
 * forgotten when @v connects again. */
static void vmm_close(struct vmm *v, bool detach)
{
	struct vmm **link = &v->g->vmms;
	uint64_t begin = now_ns();

	while (*link != v)
		link = &(*link)->next;
	*link = v->next;
	v->g->nr_vmms--;
	v->g->nr_strangers -= v->waited > 0;
	while (v->binds)
		guests_unbind(v, &v->binds, detach);
	guests_leave_tenant(v);
	v->g->accept_ns += v->busy_ns + (now_ns() - begin);
	sd_event_source_disable_unref(v->io);
	sd_event_source_disable_unref(v->ended);
	guest_peer_close(&v->peer);
	close(v->fd);
	free(v);
}

/* Send @reply, then @text, with @fd (-1: none). Returns false if the VMM does not read its replies.
 */
static bool vmm_reply(const struct vmm *v, const struct vpmu_totals_reply *reply, const char *text,
		      int fd)
{
	struct iovec iov[2] = {{(void *)(uintptr_t)reply, sizeof(*reply)},
			       {(void *)(uintptr_t)text, strlen(text)}};
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = {0};
	struct msghdr m = {.msg_iov = iov, .msg_iovlen = 2};

	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof(c.room);
		c.h = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	}
	return sendmsg(v->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	       (ssize_t)(sizeof(*reply) + iov[1].iov_len);
}

/* Answer one request. Returns false: the connection is to be closed. */
static bool vmm_request(struct vmm *v)
{
	struct vpmu_totals_request q;
	struct vpmu_totals_reply reply = {0};
	char *text = NULL;
	struct node *vcpu;
	struct bind **b;
	uint64_t start;
	int ret, fd = -1;
	bool sent;

	memcpy(&q, v->in, sizeof(q));
	v->have = 0;
	if (q.version != VPMU_TOTALS_VERSION || q.zero ||
	    (v->waited && q.what != VPMU_TOTALS_CONFIG)) {
		v->g->dropped++;
		v->g->invalid += !v->waited;
		return false;
	}
	vcpu = tree_vcpu(v->g->o.tree, v->peer.pid, v->peer.start_time, q.tid, &start);
	if (q.what == VPMU_TOTALS_CONFIG) {
		text = q.key || q.tid ? NULL : guests_config(v);
		ret = text ? 0 : -EINVAL;
		reply.slot = text ? (__u32)strlen(text) : 0;
	} else if (q.what == VPMU_TOTALS_BIND) {
		ret = vcpu ? guests_bind(v, vcpu, q.tid, q.key, &reply.slot, &fd) : -ESRCH;
		if (ret == -EACCES || ret == -ENOSPC)
			guests_deny(v, vcpu->parent, q.key, ret);
	} else if (q.what == VPMU_TOTALS_EVENT) {
		ret = vcpu ? guests_event(v, q.tid, start, q.key, &fd) : -ESRCH;
	} else if (q.what == VPMU_TOTALS_UNBIND) { /* the thread may have ended */
		b = guests_find(v, q.tid, q.key);
		ret = *b && q.key ? 0 : vcpu ? -ENOENT : -ESRCH;
		if (!ret)
			guests_unbind(v, b, true);
	} else {
		ret = -EINVAL;
	}
	reply.error = (__u32)-ret;
	sent = vmm_reply(v, &reply, text ? text : "", fd);
	if (fd >= 0)
		close(fd);
	free(text);
	return sent && !v->waited;
}

static int vmm_on_io(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	struct vmm *v = arg;
	uint64_t begin;
	bool goes_on;
	ssize_t n;

	/* A second's requests are used up: guests_tend goes on with it. */
	if ((v->requests == REQUESTS_MAX || v->busy_ns > BUSY_NS) &&
	    !(events & (EPOLLHUP | EPOLLERR))) {
		sd_event_source_set_enabled(s, SD_EVENT_OFF);
		return 0;
	}
	n = recv(fd, v->in + v->have, sizeof(v->in) - v->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0)
		v->have += (size_t)n;
	if (n <= 0) {
		vmm_close(v, true);
		return 0;
	}
	v->requests++;
	if (v->have < sizeof(v->in))
		return 0;
	begin = now_ns();
	goes_on = vmm_request(v);
	v->busy_ns += now_ns() - begin;
	if (!goes_on)
		vmm_close(v, true);
	return 0;
}

/* The process has ended, and another one has its connection. */
static int vmm_on_end(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	vmm_close(arg, true);
	return 0;
}

/* The client has closed it, which the event loop has not seen yet. */
static bool vmm_hung_up(const struct vmm *v)
{
	struct pollfd f = {.fd = v->fd};

	return poll(&f, 1, 0) > 0 && f.revents & (POLLHUP | POLLERR);
}

static bool guests_may_connect(struct guests *g, const struct guest_peer *p, bool stranger)
{
	struct vmm *former = NULL;
	unsigned int same = 0;

	for (struct vmm *v = g->vmms; v; v = v->next) {
		if (v->peer.pid == p->pid && v->peer.start_time == p->start_time)
			former = v;
		same += v->waited && v->peer.uid == p->uid;
	}
	if (former && !vmm_hung_up(former))
		return false;
	if (former)
		vmm_close(former, true);
	if (g->nr_vmms == VMMS_MAX)
		return false;
	return !stranger || (g->nr_strangers < STRANGERS && same < STRANGERS_OF);
}

/* Takes @conn and @peer over. */
static void guests_connected(struct guests *g, int conn, struct guest_peer *peer)
{
	bool stranger = !tree_vm(g->o.tree, peer->pid, peer->start_time);
	struct vmm *v;

	if (!guests_may_connect(g, peer, stranger)) {
		g->dropped++;
		guest_peer_close(peer);
		close(conn);
		return;
	}
	v = xcalloc(1, sizeof(*v));
	*v = (struct vmm){.g = g, .fd = conn, .peer = *peer, .waited = stranger, .next = g->vmms};
	g->vmms = v;
	g->nr_vmms++;
	g->nr_strangers += stranger;
	if (sd_event_add_io(g->o.ev, &v->io, conn, EPOLLIN, vmm_on_io, v) < 0 ||
	    sd_event_source_set_priority(v->io, PRIORITY) < 0 ||
	    (peer->pidfd >= 0 &&
	     sd_event_add_io(g->o.ev, &v->ended, peer->pidfd, EPOLLIN, vmm_on_end, v) < 0))
		vmm_close(v, true);
}

static int guests_on_connect(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	struct guests *g = arg;
	uint64_t begin = now_ns();
	struct guest_peer peer;
	int conn;

	if (g->accept_ns > ACCEPT_NS) { /* guests_tend goes on with it */
		sd_event_source_set_enabled(s, SD_EVENT_OFF);
		return 0;
	}
	conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (conn < 0)
		return 0;
	if (guest_peer_read(conn, &peer)) {
		g->dropped++;
		close(conn);
	} else {
		guests_connected(g, conn, &peer);
	}
	g->accept_ns += now_ns() - begin;
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

int guests_open(const struct guests_opts *o, struct guests **out, char *err, size_t errlen)
{
	struct guests *g = xcalloc(1, sizeof(*g));
	int ret;

	g->o = *o;
	g->file.fd = -1;
	g->kept.set = -1;
	snprintf(g->path, sizeof(g->path), "%s", o->path);
	g->watch = (struct tenants_watch){.removing = guests_removing, .arg = g};
	tenants_watch(o->ts, &g->watch);
	g->rules = o->rules;
	ret = g->events.nr = guests_parse(o->events, g->events.key, err, errlen);
	if (ret >= 0) {
		/* Everyone may connect; the process must be a VM. */
		ret = socket_file_make(&g->file, g->path, o->own_dir, 0666, (gid_t)-1, err, errlen);
	}
	if (!ret) {
		ret = sd_event_add_io(o->ev, &g->io, g->file.fd, EPOLLIN, guests_on_connect, g);
		if (ret >= 0)
			ret = sd_event_source_set_priority(g->io, PRIORITY);
		if (ret < 0)
			fail(ret, err, errlen, "socket %s: %s", g->path, strerror(-ret));
	}
	if (ret < 0) {
		guests_close(g);
		return ret;
	}
	*out = g;
	return 0;
}

static void guests_end(struct guests *g, bool detach)
{
	if (!g)
		return;
	while (g->vmms)
		vmm_close(g->vmms, detach);
	sd_event_source_disable_unref(g->io);
	socket_file_close(&g->file, g->path);
	tenants_unwatch(g->o.ts, &g->watch);
	guest_kept_close(&g->kept);
	free(g);
}

void guests_close(struct guests *g)
{
	guests_end(g, true);
}

void guests_leave(struct guests *g)
{
	guests_end(g, false);
}

void guests_tend(struct guests *g)
{
	struct vmm *next;

	for (struct vmm *v = g ? g->vmms : NULL; v; v = next) {
		next = v->next;
		v->requests = 0;
		v->busy_ns = 0;
		if (v->waited && v->waited++ > STRANGER_S) {
			g->dropped++;
			vmm_close(v, true);
			continue;
		}
		sd_event_source_set_enabled(v->io, SD_EVENT_ON);
	}
	if (!g)
		return;
	g->accept_ns = 0;
	sd_event_source_set_enabled(g->io, SD_EVENT_ON);
}

void guests_rules(struct guests *g, const struct rules *rules, const char *events)
{
	struct vmm *next;
	char why[200];

	if (!g)
		return;
	g->rules = rules;
	g->events.nr = guests_parse(events, g->events.key, why, sizeof(why));
	guest_quota_limits(&g->quotas, guests_limit, g);
	for (struct vmm *v = g->vmms; v; v = next) {
		next = v->next;
		if (!v->binds) {
			guests_leave_tenant(v); /* it enters one again by the new rules */
		} else if (!guests_still_permitted(v)) {
			g->ended++;
			vmm_close(v, true);
		}
	}
}
