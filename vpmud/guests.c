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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "service/clock.h"
#include "service/program/memory.h"
#include "service/socket_file.h"
#include "vpmu/event/event.h"
#include "vpmu/totals.h"
#include "vpmu/util/fail.h"
#include "vpmud/guests.h"

#define VMMS_MAX     1024
#define REQUESTS_MAX 200	 /* of a connection in a second; further ones wait */
#define BINDS_MAX    1024	 /* of a connection */
#define KEYS_MAX     24		 /* distinct keys of all binds: the host has 64 slots */
#define BUSY_NS	     50000000ull /* likewise: time that requests of a connection take in a second */
#define PRIORITY     (SD_EVENT_PRIORITY_NORMAL + 10) /* the control socket goes first */
#define EVENTS_MAX   128			     /* of a connection; one more each second */
#define MODES	     (VPMU_KEY_USR | VPMU_KEY_OS)

struct bind {
	struct bind *next;
	struct node *vcpu;
	pid_t tid;
	vpmu_key_t key;
	unsigned int slot;
	struct vpmu_value value;
	struct vpmu_counting *counting;
};

struct vmm {
	struct vmm *next;
	struct guests *g;
	int fd;
	sd_event_source *io;
	pid_t pid;
	uint64_t start_time;
	struct bind *binds;
	unsigned int nr_binds, requests; /* requests: in this second */
	unsigned int events;		 /* handed out; one less each second */
	uint64_t busy_ns;		 /* likewise */
	size_t have;			 /* bytes of a request that has not arrived whole */
	unsigned char in[sizeof(struct vpmu_totals_request)];
};

struct guests {
	struct guests_opts o;
	struct socket_file file;
	char path[128];
	sd_event_source *io;
	struct tenants_watch watch;
	struct vmm *vmms;
	unsigned int nr_vmms, nr_binds;
	vpmu_key_t event[GUESTS_EVENTS_MAX];
	int nr_events;
	uint64_t refused, dropped;
};

/* ---- binds ---------------------------------------------------------------------------------- */

static struct vpmu_backend_node *guests_node(const struct guests *g, const struct node *vcpu)
{
	return node_in(vcpu, bpf_as_backend(g->o.kernel));
}

static struct bind **guests_find(struct vmm *v, pid_t tid, vpmu_key_t key)
{
	struct bind **b = &v->binds;

	while (*b && ((*b)->tid != tid || (key && (*b)->key != key)))
		b = &(*b)->next;
	return b;
}

/* The page of @vcpu, which is @v's, shows what is bound, and nothing else that is counted there. */
static void guests_show(const struct vmm *v, const struct node *vcpu)
{
	uint64_t slots = 0;

	for (const struct bind *b = v->binds; b; b = b->next)
		if (b->vcpu == vcpu)
			slots |= 1ull << b->slot;
	bpf_backend_totals_show(guests_node(v->g, vcpu), slots);
}

/* Take @link's bind out and free it; @v's vCPU keeps its page while other binds need it. */
static void guests_unbind(struct vmm *v, struct bind **link, bool detach)
{
	struct bind *b = *link;

	*link = b->next;
	v->nr_binds--;
	v->g->nr_binds--;
	if (detach) {
		vpmu_backend_detach(b->counting);
		vpmu_counting_free(b->counting);
		if (!*guests_find(v, b->tid, 0))
			bpf_backend_totals_close(guests_node(v->g, b->vcpu));
		else
			guests_show(v, b->vcpu);
	}
	free(b);
}

static bool guests_permits(const struct guests *g, vpmu_key_t key)
{
	for (int i = 0; i < g->nr_events; i++)
		if ((key & ~MODES) == g->event[i] && (key & MODES))
			return true;
	return false;
}

static bool guests_has_key(const struct guests *g, vpmu_key_t key)
{
	for (const struct vmm *v = g->vmms; v; v = v->next)
		for (const struct bind *b = v->binds; b; b = b->next)
			if (b->key == key)
				return true;
	return false;
}

static unsigned int guests_keys(const struct guests *g)
{
	unsigned int n = 0;
	vpmu_key_t key;

	for (int i = 0; i < g->nr_events; i++)
		for (vpmu_key_t modes = VPMU_KEY_USR; modes <= MODES; modes += VPMU_KEY_USR) {
			key = g->event[i] | modes;
			n += guests_has_key(g, key);
		}
	return n;
}

/* A vCPU has one owner: the one connection of its process. */
static int guests_bind(struct vmm *v, struct node *vcpu, pid_t tid, vpmu_key_t key,
		       unsigned int *slot, int *fd)
{
	struct vpmu_backend_node *n = guests_node(v->g, vcpu);
	bool first = !*guests_find(v, tid, 0);
	struct bind *b;
	size_t failed;
	int ret, at;

	if (*guests_find(v, tid, key))
		return -EEXIST;
	if (!guests_permits(v->g, key))
		return -EACCES;
	if (v->nr_binds == BINDS_MAX ||
	    (!guests_has_key(v->g, key) && guests_keys(v->g) >= KEYS_MAX))
		return -ENOSPC;
	b = xcalloc(1, sizeof(*b));
	*b = (struct bind){.vcpu = vcpu, .tid = tid, .key = key};
	b->counting = vpmu_counting_new(n, &b->key, 1, &b->value);
	ret = b->counting ? vpmu_backend_attach(b->counting, &failed) : -ENOMEM;
	if (ret)
		goto err;
	at = bpf_backend_slot(b->counting, 0);
	ret = at < 0 ? -EOPNOTSUPP : 0;
	if (!ret && first) {
		*fd = bpf_backend_totals_open(n);
		ret = *fd < 0 ? *fd : 0;
	}
	if (ret) {
		if (first)
			bpf_backend_totals_close(n);
		vpmu_backend_detach(b->counting);
		goto err;
	}
	*slot = b->slot = (unsigned int)at;
	b->next = v->binds;
	v->binds = b;
	v->nr_binds++;
	v->g->nr_binds++;
	guests_show(v, vcpu);
	return 0;
err:
	vpmu_counting_free(b->counting);
	free(b);
	return ret;
}

/* A sampling event of thread @tid for its bound @key: the VMM sets its period. */
static int guests_event(struct vmm *v, pid_t tid, vpmu_key_t key, int *fd)
{
	struct perf_event_attr attr;
	int ret;

	if (!key || !*guests_find(v, tid, key))
		return -ENOENT;
	if (v->events == EVENTS_MAX)
		return -ENOSPC;
	ret = vpmu_key_to_attr(key, &attr);
	if (ret)
		return ret;
	attr.disabled = 1;
	attr.sample_period = 1ULL << 62; /* never */
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	*fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (*fd < 0)
		return -errno;
	v->events++;
	return 0;
}

static void guests_removing(struct node *n, void *arg)
{
	struct guests *g = arg;

	for (struct vmm *v = g->vmms; v; v = v->next)
		for (struct bind **b = &v->binds; *b;)
			if ((*b)->vcpu == n)
				guests_unbind(v, b, true);
			else
				b = &(*b)->next;
}

/* ---- connections ---------------------------------------------------------------------------- */

static void vmm_close(struct vmm *v, bool detach)
{
	struct vmm **link = &v->g->vmms;

	while (*link != v)
		link = &(*link)->next;
	*link = v->next;
	v->g->nr_vmms--;
	while (v->binds)
		guests_unbind(v, &v->binds, detach);
	sd_event_source_disable_unref(v->io);
	close(v->fd);
	free(v);
}

/* Send @reply with @fd (-1: none). Returns false if the VMM does not read its replies. */
static bool vmm_reply(const struct vmm *v, const struct vpmu_totals_reply *reply, int fd)
{
	struct iovec iov = {(void *)(uintptr_t)reply, sizeof(*reply)};
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} c = {0};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = &c;
		m.msg_controllen = sizeof(c.room);
		c.h = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(&c.h), &fd, sizeof(fd));
	}
	return sendmsg(v->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*reply);
}

/* Answer one request. Returns false: the connection is to be closed. */
static bool vmm_request(struct vmm *v)
{
	struct vpmu_totals_request q;
	struct vpmu_totals_reply reply = {0};
	struct node *vcpu;
	struct bind **b;
	int ret, fd = -1;
	bool sent;

	memcpy(&q, v->in, sizeof(q));
	v->have = 0;
	if (q.version != VPMU_TOTALS_VERSION || q.zero) {
		v->g->dropped++;
		return false;
	}
	vcpu = tree_vcpu(v->g->o.tree, v->pid, v->start_time, q.tid);
	if (q.what == VPMU_TOTALS_BIND) {
		ret = vcpu ? guests_bind(v, vcpu, q.tid, q.key, &reply.slot, &fd) : -ESRCH;
		v->g->refused += ret == -EACCES || ret == -ENOSPC;
	} else if (q.what == VPMU_TOTALS_EVENT) {
		ret = vcpu ? guests_event(v, q.tid, q.key, &fd) : -ESRCH;
	} else if (q.what == VPMU_TOTALS_UNBIND) { /* the thread may have ended */
		b = guests_find(v, q.tid, q.key);
		ret = *b && q.key ? 0 : vcpu ? -ENOENT : -ESRCH;
		if (!ret)
			guests_unbind(v, b, true);
	} else {
		ret = -EINVAL;
	}
	reply.error = (__u32)-ret;
	sent = vmm_reply(v, &reply, fd);
	if (fd >= 0)
		close(fd);
	return sent;
}

static int vmm_on_io(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	struct vmm *v = arg;
	uint64_t begin;
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
	if (vmm_request(v))
		v->busy_ns += now_ns() - begin;
	else
		vmm_close(v, true);
	return 0;
}

static bool guests_may_connect(const struct guests *g, pid_t pid, uint64_t *start_time)
{
	if (g->nr_vmms == VMMS_MAX || !tree_vm_start(g->o.tree, pid, start_time))
		return false;
	for (const struct vmm *v = g->vmms; v; v = v->next)
		if (v->pid == pid && v->start_time == *start_time)
			return false;
	return true;
}

static int guests_on_connect(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	struct guests *g = arg;
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uint64_t start_time;
	struct vmm *v;

	if (conn < 0)
		return 0;
	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len) ||
	    !guests_may_connect(g, cred.pid, &start_time)) {
		g->dropped++;
		close(conn);
		return 0;
	}
	v = xcalloc(1, sizeof(*v));
	*v = (struct vmm){
		.g = g, .fd = conn, .pid = cred.pid, .start_time = start_time, .next = g->vmms};
	if (sd_event_add_io(g->o.ev, &v->io, conn, EPOLLIN, vmm_on_io, v) < 0 ||
	    sd_event_source_set_priority(v->io, PRIORITY) < 0) {
		sd_event_source_disable_unref(v->io);
		close(conn);
		free(v);
		return 0;
	}
	g->vmms = v;
	g->nr_vmms++;
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

int guests_open(const struct guests_opts *o, struct guests **out, char *err, size_t errlen)
{
	struct guests *g = xcalloc(1, sizeof(*g));
	int ret;

	g->o = *o;
	g->file.fd = -1;
	snprintf(g->path, sizeof(g->path), "%s", o->path);
	g->watch = (struct tenants_watch){.removing = guests_removing, .arg = g};
	tenants_watch(o->ts, &g->watch);
	ret = guests_parse(o->events, g->event, err, errlen);
	if (ret >= 0) {
		g->nr_events = ret;
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
	for (struct vmm *v = g ? g->vmms : NULL; v; v = v->next) {
		v->requests = 0;
		v->busy_ns = 0;
		v->events -= v->events > 0;
		sd_event_source_set_enabled(v->io, SD_EVENT_ON);
	}
}

/* The connection that has bound events of @vcpu. */
static const struct vmm *guests_owner(const struct guests *g, const struct node *vcpu)
{
	for (const struct vmm *v = g ? g->vmms : NULL; v; v = v->next)
		for (const struct bind *b = v->binds; b; b = b->next)
			if (b->vcpu == vcpu)
				return v;
	return NULL;
}

struct restored {
	const struct guests *g;
	struct bpf_backend *kernel;
};

static int guests_drop_page(struct node *n, unsigned int depth, void *arg)
{
	const struct restored *r = arg;
	struct vpmu_backend_node *in =
		n->kind == NODE_VCPU ? node_in(n, bpf_as_backend(r->kernel)) : NULL;

	const struct vmm *owner;

	if (!in || !bpf_backend_has_totals(in))
		return 0;
	owner = guests_owner(r->g, n);
	if (owner)
		guests_show(owner, n);
	else
		bpf_backend_totals_close(in);
	return 0;
}

void guests_restored(const struct guests *g, struct tenants *ts, struct bpf_backend *kernel)
{
	struct restored r = {g, kernel};

	tenants_walk(ts, guests_drop_page, &r);
}

unsigned int guests_vm(const struct guests *g, const struct node *vm)
{
	unsigned int n = 0;

	for (const struct vmm *v = g ? g->vmms : NULL; v; v = v->next)
		for (const struct bind *b = v->binds; b; b = b->next)
			n += b->vcpu->parent == vm;
	return n;
}

void guests_usage(const struct guests *g, struct guests_usage *out)
{
	*out = (struct guests_usage){g->nr_vmms, g->nr_binds, g->refused, g->dropped};
}
