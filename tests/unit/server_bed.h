/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server with a socket, on a host that has the tenant /acme/web with the VM web-1: for the tests
 * of the protocol, of clients, and of their rights.
 */
#ifndef TESTS_UNIT_SERVER_BED_H
#define TESTS_UNIT_SERVER_BED_H

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "answers.h"
#include "service/request.h"
#include "service/server.h"
#include "cgroup_host.h"

static struct test_host h;
static struct server *srv;
static sd_event *ev;
static char sock[64], last_log[256];

static json_t *kept;

/* @obj until the next one, or the end of the test. */
static inline json_t *keep(json_t *obj)
{
	json_decref(kept);
	return kept = obj;
}

static inline void vm_info(const struct node *vm, json_t *obj, void *arg)
{
	json_object_set_new(obj, "engine", json_string("test"));
}

static inline void check_rows(json_t *rows, bool all, void *arg)
{
	json_array_append_new(rows, json_pack("{s:s, s:b, s:s}", "what", "x", "ok", 0, "why", "y"));
}

static inline void on_log(const char *line, void *arg)
{
	snprintf(last_log, sizeof(last_log), "%s", line);
}

static inline void server_setup(void)
{
	struct server_opts opts = {.name = "test",
				   .path = sock,
				   .own_dir = true,
				   .raw_space = VPMU_SPACE_INTEL,
				   .check = check_rows,
				   .vm_info = vm_info,
				   .log = on_log,
				   .slow_sec = 1,
				   .lost_sec = 3600};

	test_host_init(&h, NULL);
	snprintf(sock, sizeof(sock), "/tmp/vpmu-test-%d/s.sock", getpid());
	cr_assert_geq(sd_event_new(&ev), 0);
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
	test_vm(&h, test_tenant(&h, "/acme/web"), "web-1", 2);
}

static inline void server_teardown(void)
{
	struct stat st;

	keep(NULL);
	server_destroy(srv);
	cr_expect_eq(lstat(sock, &st), -1, "the socket is gone");
	sd_event_unref(ev);
	*strrchr(sock, '/') = '\0';
	rmdir(sock);
	test_host_fini(&h);
}

static inline json_t *ask_len(const char *line, size_t len)
{
	char *answer = server_dispatch(srv, line, len);
	json_t *obj;

	cr_assert(answer);
	cr_expect_eq(strchr(answer, '\n'), answer + strlen(answer) - 1, "one line: %s", answer);
	obj = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(obj, "not JSON: %s", answer);
	cr_assert(json_is_boolean(json_object_get(obj, "ok")), "%s", answer);
	free(answer);
	return obj;
}

static inline json_t *ask(const char *line)
{
	return ask_len(line, strlen(line));
}

/* A command that answers with the request. */
static inline int cmd_echo(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"n", NULL};
	uint64_t n = 7;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_uint(req, "n", false, 1, 10, &n, err, errlen);
	return ret ? ret : json_object_set_new(resp, "n", json_integer((json_int_t)n));
}

/* ---- clients ---- */

static inline int dial(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(addr.sun_path, sock);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Let the server do whatever it can do now. */
static inline void pump(void)
{
	while (sd_event_run(ev, 0) > 0)
		;
}

static char answer[65536]; /* what take() has taken last */

static inline size_t take(int fd)
{
	size_t n = 0;
	ssize_t got;

	do {
		pump();
		got = recv(fd, answer + n, sizeof(answer) - 1 - n, 0);
		if (got > 0)
			n += (size_t)got;
	} while (got > 0);
	answer[n] = '\0';
	return n;
}

static inline void say(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Send @text, and take the answers. */
static inline const char *reply(int fd, const char *text)
{
	say(fd, text);
	take(fd);
	return answer;
}

static inline unsigned int lines(const char *text)
{
	unsigned int n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

#endif
