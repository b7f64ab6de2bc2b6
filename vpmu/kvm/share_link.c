// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The thread that talks to vpmud, for share.c: connects, sends one request at a time, and takes its
 * answer, which is not trusted. It holds the lock but for its sleep.
 *
 * A connection that ends leaves what was bound as it is: if vpmud has ended, pages go on, and the
 * next vpmud is asked for the same keys again.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fcntl.h>

#include "vpmu/kvm/share_priv.h"
#include "vpmu/util/clock.h"

#define MS 1000000ull

/* Between attempts to connect: doubled after each failure, and well below VPMU_TOTALS_AGAIN_NS. */
#define LINK_CONNECT_NS	    (100 * MS)
#define LINK_CONNECT_MAX_NS (1000 * MS)
/* After a refusal: ESRCH passes when vpmud has found the VM, ENOSPC with what else is counted, and
 * what is in vpmud's configuration with this connection. */
#define LINK_FIND_NS   (200 * MS)
#define LINK_RETRY_NS  (5000 * MS)
#define LINK_DENIED_NS (60000 * MS)

/* ---- the connection ----------------------------------------------------- */

static void link_close(struct share_client *c)
{
	if (c->came >= 0)
		close(c->came);
	if (c->fd >= 0)
		close(c->fd);
	c->came = c->fd = -1;
	c->have = 0;
	c->asked = 0;
	c->late = false;
	c->down = true;
	c->failures = c->answered ? 0 : c->failures < 4 ? c->failures + 1 : 4;
	c->answered = false;
	c->connect_ns =
		clock_ns(CLOCK_MONOTONIC) + (LINK_CONNECT_NS << c->failures < LINK_CONNECT_MAX_NS
						     ? LINK_CONNECT_NS << c->failures
						     : LINK_CONNECT_MAX_NS);
	for (struct share_thread *t = c->threads; t; t = t->next) {
		for (unsigned int i = 0; i < SHARE_KEYS; i++) {
			struct share *s = &t->share[i];

			if (s->state == SHARE_BOUND)
				s->again = true;
			else if (s->key)
				share_set(t, s, s->used ? SHARE_WANTED : SHARE_NONE);
			s->retry_ns = 0;
		}
	}
	pthread_cond_broadcast(&c->changed);
}

static void link_connect(struct share_client *c)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	strcpy(a.sun_path, c->path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&a, sizeof(a)))
		link_close(c);
	else
		c->down = false;
}

/* ---- what to ask for next ----------------------------------------------- */

/* Send request @what. Returns false if the connection has ended. */
static bool link_ask(struct share_client *c, struct share_thread *t, struct share *s, uint32_t what)
{
	const struct vpmu_totals_request q = {
		.version = VPMU_TOTALS_VERSION, .what = what, .key = s->key, .tid = t->tid};

	/* A small message fits, since no other one is on the way. */
	if (send(c->fd, &q, sizeof(q), MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof(q)) {
		link_close(c);
		return false;
	}
	c->asked = what;
	c->asked_of = t;
	c->asked_key = s->key;
	if (what == VPMU_TOTALS_UNBIND)
		share_set(t, s, SHARE_UNBIND);
	return true;
}

/* When something is to be done for @s, of @t: at once if not after @now. *@what: the request, or 0:
 * to forget it. UINT64_MAX: never. */
static uint64_t link_due(const struct share_thread *t, const struct share *s, uint32_t *what)
{
	bool used = s->used && !t->gone;
	uint64_t idle = t->gone ? 0 : s->idle_ns + SHARE_IDLE_NS;

	*what = used ? VPMU_TOTALS_BIND : 0;
	switch (s->state) {
	case SHARE_WANTED:
		/* One that is only asked for is as one in use for a while. */
		if (used || t->gone || clock_ns(CLOCK_MONOTONIC) >= idle)
			return used ? s->retry_ns : 0;
		*what = VPMU_TOTALS_BIND;
		return s->retry_ns;
	case SHARE_REFUSED:
		return used ? s->retry_ns : idle;
	case SHARE_BOUND:
		if (s->again) {
			*what = used ? VPMU_TOTALS_BIND : 0;
			return used ? s->retry_ns : idle;
		}
		*what = s->event_wanted && s->event_fd < 0 && !s->event_error ? VPMU_TOTALS_EVENT
									      : VPMU_TOTALS_UNBIND;
		return *what == VPMU_TOTALS_EVENT ? 0 : used ? UINT64_MAX : idle;
	case SHARE_UNBIND:
		*what = VPMU_TOTALS_UNBIND;
		return 0;
	default:
		return UINT64_MAX;
	}
}

static void link_bury(struct share_client *c)
{
	for (struct share_thread **link = &c->threads; *link;) {
		struct share_thread *t = *link;
		bool busy = !t->gone || (c->asked && c->asked_of == t);

		for (unsigned int i = 0; i < SHARE_KEYS; i++)
			busy |= t->share[i].key != 0;
		if (busy) {
			link = &t->next;
			continue;
		}
		*link = t->next;
		share_thread_free(t);
	}
}

/* Do what is due. Returns when something is due next: UINT64_MAX: when it is woken. */
static uint64_t link_work(struct share_client *c)
{
	uint64_t next = UINT64_MAX, due, now = clock_ns(CLOCK_MONOTONIC);
	uint32_t what;

	for (struct share_thread *t = c->threads; t; t = t->next) {
		for (unsigned int i = 0; i < SHARE_KEYS; i++) {
			struct share *s = &t->share[i];

			due = link_due(t, s, &what);
			/* vpmud may yet bind it: then it has to be given back. */
			if (!what && c->asked && c->asked_of == t && c->asked_key == s->key)
				continue;
			if (due <= now && !what) {
				share_set(t, s, SHARE_NONE);
				continue;
			}
			if (due == UINT64_MAX)
				continue;
			if (c->fd < 0 && what == VPMU_TOTALS_UNBIND) {
				due = due <= now ? c->connect_ns : due;
			} else if (c->fd < 0 && what) {
				due = due > c->connect_ns ? due : c->connect_ns;
				if (due <= now)
					link_connect(c);
				if (c->fd < 0)
					due = c->connect_ns;
			}
			if (due <= now && c->asked)
				continue; /* the answer comes first */
			if (due <= now && c->fd >= 0 && !link_ask(c, t, s, what))
				due = c->connect_ns;
			if (due > now && due < next)
				next = due;
		}
	}
	link_bury(c);
	return next;
}

/* ---- answers ------------------------------------------------------------ */

/* Map page @fd. One of a file could shrink, which would be fatal at a read. NULL: it is none. */
static struct share_page *link_map(int fd)
{
	struct share_page *p = malloc(sizeof(*p));
	struct stat st;
	int seals;

	if (!p)
		return NULL;
	p->refs = 1;
	if (fstat(fd, &st))
		goto err;
	if (st.st_mode & S_IFMT) {
		seals = fcntl(fd, F_GET_SEALS);
		if (!S_ISREG(st.st_mode) || seals < 0 || !(seals & F_SEAL_SHRINK) ||
		    st.st_size < (off_t)sizeof(struct vpmu_totals))
			goto err;
	}
	p->totals = mmap(NULL, sizeof(*p->totals), PROT_READ, MAP_SHARED, fd, 0);
	if (p->totals != MAP_FAILED)
		return p;
err:
	free(p);
	return NULL;
}

static void link_refused(struct share_thread *t, struct share *s, int error)
{
	bool again = s->again && error == ESRCH;

	/* vpmud has not found the VM again yet. */
	if (!again)
		share_set(t, s, SHARE_REFUSED);
	s->error = error;
	s->retry_ns = clock_ns(CLOCK_MONOTONIC) + (error == ESRCH    ? LINK_FIND_NS
						   : error == ENOSPC ? LINK_RETRY_NS
								     : LINK_DENIED_NS);
}

/* @new takes the place of a page that has ended, with all that was bound on it. */
static void link_renew(struct share_thread *t, struct share_page *new)
{
	share_page_put(t->page);
	t->page = new;
	for (unsigned int i = 0; i < SHARE_KEYS; i++) {
		if (t->share[i].state != SHARE_BOUND)
			continue;
		share_set(t, &t->share[i], SHARE_WANTED);
		t->share[i].retry_ns = 0;
	}
}

/* True if both map the same memory: a seq in between, and the clock with it. A page that no one
 * writes any more must not be taken for one that goes on. */
static bool link_same(const struct vpmu_totals *old, const struct vpmu_totals *new)
{
	uint64_t seq = __atomic_load_n(&old->seq, __ATOMIC_SEQ_CST);
	uint64_t ns = __atomic_load_n(&old->time_ns, __ATOMIC_SEQ_CST);
	uint64_t new_seq = __atomic_load_n(&new->seq, __ATOMIC_SEQ_CST);
	uint64_t new_ns = __atomic_load_n(&new->time_ns, __ATOMIC_SEQ_CST);

	return new_seq >= seq && new_seq <= __atomic_load_n(&old->seq, __ATOMIC_SEQ_CST) &&
	       new_ns >= ns && new_ns <= __atomic_load_n(&old->time_ns, __ATOMIC_SEQ_CST);
}

/* True if nothing of @t is bound by this connection: the next bind comes with a page. */
static bool link_first(const struct share_thread *t)
{
	for (unsigned int i = 0; i < SHARE_KEYS; i++)
		if (t->share[i].state == SHARE_BOUND && !t->share[i].again)
			return false;
	return true;
}

/* The answer to a bind: in @slot, with the page @fd or -1. Returns false: it is none. */
static bool link_bound(struct share_thread *t, struct share *s, unsigned int slot, int fd)
{
	struct share_page *new = fd >= 0 ? link_map(fd) : NULL;
	bool ended = !t->page || t->page->totals->ended ||
		     (new && !link_same(t->page->totals, new->totals));

	if (slot >= VPMU_MAX_SLOTS || (!new && (fd >= 0 || ended || link_first(t)))) {
		share_page_put(new);
		return false;
	}
	/* The page goes on. */
	if (!ended && s->again && s->slot == slot) {
		share_page_put(new);
		s->again = false;
		return true;
	}
	if (ended)
		link_renew(t, new);
	else
		share_page_put(new);
	s->slot = slot;
	share_set(t, s, SHARE_BOUND);
	return true;
}

/* Take the answer to c->asked, with descriptor c->came or -1. Returns false: it is none. */
static bool link_answer(struct share_client *c, const struct vpmu_totals_reply *r)
{
	struct share_thread *t = c->asked_of;
	struct share *s = share_find(t, c->asked_key);
	uint32_t asked = c->asked;
	bool good = true;

	c->asked = 0;
	c->answered = true;
	c->failures = 0;
	c->late = false;
	if (r->error > 4095 || (c->came >= 0 && (r->error || asked == VPMU_TOTALS_UNBIND)))
		return false;
	if (!s)
		return true;
	if (asked == VPMU_TOTALS_UNBIND) {
		share_set(t, s, s->used && !t->gone ? SHARE_WANTED : SHARE_NONE);
		/* vpmud and this client did not agree: not at once. */
		s->retry_ns = s->error == EEXIST ? clock_ns(CLOCK_MONOTONIC) + LINK_FIND_NS : 0;
		s->error = 0;
	} else if (asked == VPMU_TOTALS_EVENT) {
		if (!r->error && c->came < 0)
			return false;
		if (s->event_wanted) {
			s->event_error = (int)r->error;
			s->event_fd = c->came;
			c->came = -1;
		}
	} else if (r->error == EEXIST) {
		share_set(t, s, SHARE_UNBIND);
		s->error = EEXIST;
	} else if (r->error) {
		link_refused(t, s, (int)r->error);
	} else {
		good = link_bound(t, s, r->slot, c->came);
	}
	pthread_cond_broadcast(&c->changed);
	return good;
}

/* Take what has come. Returns false: the connection is to be closed. */
static bool link_receive(struct share_client *c)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} room;
	struct iovec iov = {c->in + c->have, sizeof(c->in) - c->have};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = &room,
			   .msg_controllen = sizeof(room)};
	struct vpmu_totals_reply r;
	ssize_t n = recvmsg(c->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	bool good;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
		size_t bytes = h->cmsg_len - CMSG_LEN(0);

		if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
			continue;
		/* The room ends the list; padding leaves space for a second one. */
		for (size_t i = 0; i < bytes / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(fd));
			if (c->came >= 0)
				close(fd);
			else
				c->came = fd;
		}
	}
	c->have += (size_t)n;
	if (c->have < sizeof(c->in))
		return true;
	memcpy(&r, c->in, sizeof(r));
	c->have = 0;
	good = c->asked && link_answer(c, &r);
	if (c->came >= 0)
		close(c->came);
	c->came = -1;
	return good;
}

void *share_link_run(void *arg)
{
	struct share_client *c = arg;
	uint64_t woken;

	/* Not the name that a vCPU's thread has passed on, by which vpmud finds vCPUs. */
	prctl(PR_SET_NAME, "vpmu-share");
	pthread_mutex_lock(&c->lock);
	c->came = -1;
	while (!c->stop) {
		uint64_t next = link_work(c), now = clock_ns(CLOCK_MONOTONIC);
		struct pollfd p[2] = {{.fd = c->wake, .events = POLLIN},
				      {.fd = c->fd, .events = POLLIN}};
		const struct timespec sleep = {.tv_sec = (time_t)((next - now) / 1000000000u),
					       .tv_nsec = (long)((next - now) % 1000000000u)};

		pthread_mutex_unlock(&c->lock);
		ppoll(p, 2,
		      next == UINT64_MAX ? NULL
		      : next > now	 ? &sleep
					 : &(struct timespec){0},
		      NULL);
		pthread_mutex_lock(&c->lock);
		if (p[0].revents && read(c->wake, &woken, sizeof(woken)) < 0)
			continue;
		if (c->fd >= 0 && p[1].revents && !link_receive(c))
			link_close(c);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}
