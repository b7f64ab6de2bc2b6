/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host of the peers tests: tree, fake BPF backend, server, clients. */
#ifndef TESTS_UNIT_PEERS_HOST_H
#define TESTS_UNIT_PEERS_HOST_H

#include <fcntl.h>
#include <grp.h>
#include <sys/wait.h>

#include "answers.h"
#include "peers_bed.h"

static struct played one, two;

static inline int bed_info(const struct node *vm, json_t *obj, void *arg)
{
	return peers_has(peers, vm) ? peers_info(peers, vm, obj)
				    : json_object_set_new(obj, "found", json_string("test"));
}

static inline int bed_hold(void *arg, const json_t *req, const struct access *who, bool ready,
			   struct later *l, char *err, size_t errlen)
{
	return peers_hold(peers, server_sessions(srv), req, who, ready, l, err, errlen);
}

static inline int bed_compared(json_t *resp, void *arg)
{
	return peers_compared(peers, resp);
}

/* @places NULL: all sockets of the bed but the server's own. */
static inline void bed_begin_at(const char *places, unsigned int late_ms)
{
	char err[300], all[100];
	const struct peers_opts o = {.places = places ? places : all,
				     .uid = geteuid(),
				     .late_ms = late_ms,
				     .note = bed_note};
	const struct server_opts so = {.path = sock,
				       .name = "vpmud",
				       .raw_space = VPMU_SPACE_INTEL,
				       .vm_info = bed_info,
				       .hold = bed_hold,
				       .compared = bed_compared,
				       .access = &bed_access};

	json_memory_init();
	*bed_log = '\0';
	snprintf(bed_dir, sizeof(bed_dir), "/tmp/vpmu-peers-%d-XXXXXX", getpid());
	cr_assert(mkdtemp(bed_dir));
	snprintf(sock, sizeof(sock), "%s/own", bed_dir);
	snprintf(all, sizeof(all), "%s/*.sock", bed_dir);
	cr_assert_geq(sd_event_new(&ev), 0);
	cr_assert_eq(tenants_create(NULL, &ts, err, sizeof(err)), 0);
	fake_init(&kernel, "kernel", 0);
	cr_assert_eq(tenants_add_source(ts, &kernel.s), 0);
	cr_assert_geq(peers_create(ev, ts, &o, &peers), 0);
	cr_assert_eq(server_create(ts, ev, &so, &srv, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(peers_register(peers, srv), 0);
}

static inline void bed_begin(void)
{
	bed_begin_at(NULL, 0);
}

static inline void bed_end(void)
{
	server_destroy(srv);
	peers_stop(peers);
	tenants_destroy(ts);
	peers_destroy(peers);
	play_end(&one);
	play_end(&two);
	sd_event_unref(ev);
	unlink(sock);
	cr_expect_eq(rmdir(bed_dir), 0, "nothing is left in %s", bed_dir);
	access_fini(&bed_access);
}

/* Everybody does what it can do now. */
static inline void turn(void)
{
	while (sd_event_run(ev, 0) > 0)
		;
	play(&one);
	play(&two);
	while (sd_event_run(ev, 0) > 0)
		;
}

/* Turns until all is said. */
static inline void settle(void)
{
	unsigned int asked;

	do {
		asked = one.asked + two.asked;
		for (int i = 0; i < 20; i++)
			turn();
	} while (asked != one.asked + two.asked);
}

/* Look for servers, and ask them what there is. */
static inline void look(void)
{
	peers_look(peers);
	settle();
	peers_look(peers);
	settle();
}

/* until(CONDITION): turns, also of the clock, until it holds. */
#define until(condition)                                                                           \
	do {                                                                                       \
		uint64_t until_ns = now_ns() + WAIT_NS;                                            \
		while (!(condition)) {                                                             \
			cr_assert_lt(now_ns(), until_ns, "never: %s; log: %s", #condition,         \
				     bed_log);                                                     \
			usleep(1000);                                                              \
			peers_look(peers);                                                         \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

/* ---- clients -------------------------------------------------------------------------------- */

struct talk {
	int fd;
	size_t len;
	char in[1 << 20];
};

static inline void talk_begin(struct talk *t)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	t->len = 0;
	strcpy(addr.sun_path, sock);
	cr_assert_eq(connect(t->fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
}

static inline void talk_end(struct talk *t)
{
	close(t->fd);
	turn();
}

static inline void say(struct talk *t, const char *line)
{
	cr_assert_eq(send(t->fd, line, strlen(line), MSG_NOSIGNAL), (ssize_t)strlen(line));
	cr_assert_eq(send(t->fd, "\n", 1, MSG_NOSIGNAL), 1);
}

/* The next answer, if it is there. */
static inline json_t *heard(struct talk *t)
{
	ssize_t n = recv(t->fd, t->in + t->len, sizeof(t->in) - t->len, 0);
	json_t *obj;
	char *nl;

	t->len += n > 0 ? (size_t)n : 0;
	nl = memchr(t->in, '\n', t->len);
	if (!nl)
		return NULL;
	obj = json_loadb(t->in, (size_t)(nl - t->in), 0, NULL);
	cr_assert(obj);
	t->len -= (size_t)(nl - t->in) + 1;
	memmove(t->in, nl + 1, t->len);
	return obj;
}

/* Ask, and wait for the answer. */
static inline json_t *ask_on(struct talk *t, const char *line)
{
	json_t *obj = NULL;

	say(t, line);
	until((obj = heard(t)));
	return obj;
}

static inline json_t *ask(const char *line)
{
	struct talk *t = malloc(sizeof(*t));
	json_t *obj;

	cr_assert(t);
	talk_begin(t);
	obj = ask_on(t, line);
	talk_end(t);
	free(t);
	return obj;
}

/* The error of @line, which is refused. A static string. */
static inline const char *refused(const char *line)
{
	static char text[512];
	json_t *obj = ask(line);

	cr_expect(json_is_false(json_object_get(obj, "ok")), "%s is done", line);
	snprintf(text, sizeof(text), "%s", str(obj, "error"));
	json_decref(obj);
	return text;
}

/* The nodes of list, one word each: "/acme/web web-1 emulator 2". */
static inline const char *nodes(void)
{
	static char text[8192];
	json_t *obj = must("{\"cmd\":\"list\"}"), *n;
	size_t i, len = 0;

	*text = '\0';
	json_array_foreach (json_object_get(obj, "nodes"), i, n) {
		if (strcmp(str(n, "kind"), "vm"))
			continue;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s:%s:%s:%d",
					len ? " " : "", str(n, "path"), str(n, "vm"),
					str(n, "backend"),
					(int)json_integer_value(json_object_get(n, "vcpus")));
	}
	json_decref(obj);
	return text;
}

/* The row of @backend for @path and @vm (NULL: none) in the answer @obj. */
static inline json_t *row_of(const json_t *obj, const char *backend, const char *path,
			     const char *vm)
{
	json_t *row;
	size_t i;

	json_array_foreach (json_object_get(obj, "rows"), i, row)
		if (!strcmp(str(row, "backend"), backend) && !strcmp(str(row, "path"), path) &&
		    !strcmp(str(row, "vm"), vm ? vm : "(none)"))
			return row;
	return NULL;
}

/* The count of the first event in that row; -1: no row; -2: it has an error. */
static inline long long count_of(const json_t *obj, const char *backend, const char *path,
				 const char *vm)
{
	json_t *row = row_of(obj, backend, path, vm);

	if (!row)
		return -1;
	if (json_object_get(row, "error"))
		return -2;
	return atoll(str(json_array_get(json_object_get(row, "values"), 0), "count"));
}

static inline long long read_count(const char *session, const char *backend, const char *path,
				   const char *vm)
{
	char line[200];
	json_t *obj;
	long long n;

	snprintf(line, sizeof(line), "{\"cmd\":\"read\",\"session\":\"%s\"}", session);
	obj = must(line);
	n = count_of(obj, backend, path, vm);
	json_decref(obj);
	return n;
}

static inline void attach(const char *name, const char *scope, const char *target)
{
	char line[300];

	snprintf(line, sizeof(line),
		 "{\"cmd\":\"attach\",\"events\":[\"instructions\",\"page-faults\"],\"keep\":true,"
		 "\"name\":\"%s\",\"scope\":\"%s\",\"target\":\"%s\"}",
		 name, scope, target);
	json_decref(must(line));
}

#endif
