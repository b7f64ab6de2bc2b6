// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cgroup/service/server.c, listener.c, commands.c, request.c: the protocol, hostile requests,
 * clients.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "cgroup/service/request.h"
#include "cgroup/service/server.h"
#include "cgroup_host.h"

static struct test_host h;
static struct server *srv;
static sd_event *ev;
static char sock[64], last_log[256];

static int vm_info(const struct node *vm, json_t *obj, void *arg)
{
	return json_object_set_new(obj, "engine", json_string("test"));
}

static void check_rows(json_t *rows, void *arg)
{
	json_array_append_new(rows, json_pack("{s:s, s:b, s:s}", "what", "x", "ok", 0, "why", "y"));
}

static void on_log(const char *line, void *arg)
{
	snprintf(last_log, sizeof(last_log), "%s", line);
}

static void setup(void)
{
	struct server_opts opts = {.name = "test",
				   .path = sock,
				   .raw_space = VPMU_SPACE_INTEL,
				   .check = check_rows,
				   .vm_info = vm_info,
				   .log = on_log,
				   .slow_sec = 1};

	test_host_init(&h, NULL);
	snprintf(sock, sizeof(sock), "/tmp/vpmu-test-%d/s.sock", getpid());
	cr_assert_geq(sd_event_new(&ev), 0);
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
	test_vm(&h, test_tenant(&h, "/acme/web"), "web-1", 2);
}

static void teardown(void)
{
	struct stat st;

	server_destroy(srv);
	cr_expect_eq(lstat(sock, &st), -1, "the socket is gone");
	sd_event_unref(ev);
	*strrchr(sock, '/') = '\0';
	rmdir(sock);
	test_host_fini(&h);
}

TestSuite(server, .init = setup, .fini = teardown);

static json_t *ask_len(const char *line, size_t len)
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

static json_t *ask(const char *line)
{
	return ask_len(line, strlen(line));
}

/* Ask for something that must work. */
static json_t *must(const char *line)
{
	json_t *obj = ask(line);

	cr_assert(json_is_true(json_object_get(obj, "ok")), "%s: %s", line,
		  json_string_value(json_object_get(obj, "error")));
	return obj;
}

static const char *str(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "(none)";
}

/* ---- malformed requests -------------------------------------------------------------------- */

#define NEST10 "[[[[[[[[[["
#define A16    "aaaaaaaaaaaaaaaa"
#define A80    A16 A16 A16 A16 A16

Test(server, malformed_requests)
{
	static const struct {
		int line;
		const char *req;
		const char *names; /* the error names this */
		int err;
	} rows[] = {
		{__LINE__, "", "request", EINVAL},
		{__LINE__, "{", "request", EINVAL},
		{__LINE__, "nonsense", "request", EINVAL},
		{__LINE__, "[]", "an array", EINVAL},
		{__LINE__, "1", "an integer", EINVAL},
		{__LINE__, "\"hello\"", "a string", EINVAL},
		{__LINE__, "null", "null", EINVAL},
		{__LINE__, "{\"cmd\":\"hello\"} x", "request", EINVAL},
		{__LINE__, "{\"cmd\":\"hello\",\"cmd\":\"hello\"}", "request", EINVAL},
		{__LINE__, "{\"cmd\":\"hel\xffo\"}", "request", EINVAL},
		{__LINE__, "{\"cmd\":\"hel\\u0000o\"}", "request", EINVAL},
		{__LINE__, "{\"x\":" NEST10 "}", "nested", EINVAL},
		{__LINE__, "{}", "cmd: missing", EINVAL},
		{__LINE__, "{\"cmd\":1}", "cmd: an integer", EINVAL},
		{__LINE__, "{\"cmd\":\"\"}", "cmd: 0 bytes", EINVAL},
		{__LINE__, "{\"cmd\":\"" A80 "\"}", "cmd: 80 bytes", EINVAL},
		{__LINE__, "{\"cmd\":\"reboot\"}", "reboot", ENOSYS},
		{__LINE__, "{\"cmd\":\"\\u001b[31m\"}", "?[31m", ENOSYS},
		{__LINE__, "{\"cmd\":\"hello\",\"id\":{}}", "id: an object", EINVAL},
		{__LINE__, "{\"cmd\":\"hello\",\"id\":1.5}", "id: a fraction", EINVAL},
		{__LINE__, "{\"cmd\":\"hello\",\"id\":\"" A80 "\"}", "id: a longer", EINVAL},
		{__LINE__, "{\"cmd\":\"hello\",\"id\":99999999999999999999}", "request", EINVAL},
		{__LINE__, "{\"cmd\":\"hello\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"list\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"events\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"sessions\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"sharing\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"conservation\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"check\",\"x\":1}", "x: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\"}", "events: missing", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":1}", "events: an integer", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"\"}", "events: 0 bytes", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":[]}", "events: 0 names", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":[1]}", "events: item 0", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":[\"cycles\",[]]}", "events: item 1",
		 EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"no-such-event\"}", "no-such-event", 0},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles,\"}", "events", 0},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\",,,\"}", "events", 0},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"scope\":\"all\"}",
		 "scope: \"all\"", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"scope\":true}",
		 "scope: true or false", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":\"/nope\"}",
		 "target: no tenant", ENOENT},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":\"nope\"}",
		 "target: no VM", ENOENT},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":7}",
		 "target: an integer", EINVAL},
		{__LINE__,
		 "{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":\"web-1\","
		 "\"scope\":\"tenant\"}",
		 "scope", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"a b\"}", "name",
		 EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"" A80 "\"}",
		 "name: 80 bytes", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"keep\":1}",
		 "keep: an integer", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"evnts\":1}",
		 "accepted: events, scope, target, name, keep", EINVAL},
		{__LINE__, "{\"cmd\":\"read\"}", "session: missing", EINVAL},
		{__LINE__, "{\"cmd\":\"read\",\"session\":\"none\"}", "session: no", ENOENT},
		{__LINE__, "{\"cmd\":\"read\",\"session\":\"none\",\"keep-gone\":\"yes\"}",
		 "keep-gone: a string", EINVAL},
		{__LINE__, "{\"cmd\":\"detach\",\"session\":\"none\"}", "session: no", ENOENT},
		{__LINE__, "{\"cmd\":\"detach\",\"session\":[]}", "session: an array", EINVAL},
		{__LINE__, "{\"cmd\":\"tenant-add\"}", "path: missing", EINVAL},
		{__LINE__, "{\"cmd\":\"tenant-add\",\"path\":\"acme\"}", "tenant path", EINVAL},
		{__LINE__, "{\"cmd\":\"tenant-add\",\"path\":\"/../etc\"}", "tenant path", EINVAL},
		{__LINE__, "{\"cmd\":\"tenant-add\",\"path\":\"/host/x\"}", "tenant path", EINVAL},
		{__LINE__, "{\"cmd\":\"tenant-remove\",\"path\":\"/nope\"}", "no such tenant",
		 ENOENT},
		{__LINE__, "{\"cmd\":\"tenant-remove\",\"path\":\"/acme\"}", "has tenant", EBUSY},
		{__LINE__, "{\"cmd\":\"tenant-remove\",\"path\":\"/acme/web\"}", "VM \"web-1\"",
		 EBUSY},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *obj = ask(rows[i].req);
		json_int_t no = json_integer_value(json_object_get(obj, "errno"));

		cr_expect(json_is_false(json_object_get(obj, "ok")), "line %d", rows[i].line);
		cr_expect(strstr(str(obj, "error"), rows[i].names), "line %d: \"%s\" not in: %s",
			  rows[i].line, rows[i].names, str(obj, "error"));
		cr_expect(no > 0 && (!rows[i].err || no == rows[i].err), "line %d: errno %d",
			  rows[i].line, (int)no);
		json_decref(obj);
	}
	/* Nothing was left behind. */
	json_t *obj = must("{\"cmd\":\"sessions\"}");

	cr_expect_eq(json_array_size(json_object_get(obj, "sessions")), 0);
	json_decref(obj);
}

Test(server, too_long_or_with_nul)
{
	static char line[SERVER_LINE_MAX + 1];
	json_t *obj;

	memset(line, ' ', sizeof(line));
	obj = ask_len(line, SERVER_LINE_MAX);
	cr_expect_eq(json_integer_value(json_object_get(obj, "errno")), EMSGSIZE);
	json_decref(obj);
	obj = ask_len("{\"cmd\":\"hello\"}\0", 16);
	cr_expect(json_is_false(json_object_get(obj, "ok")));
	json_decref(obj);
}

/* ---- the commands ------------------------------------------------------------------------- */

static int cmd_echo(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"n", NULL};
	uint64_t n = 7;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_uint(req, "n", false, 1, 10, &n, err, errlen);
	return ret ? ret : json_object_set_new(resp, "n", json_integer((json_int_t)n));
}

static int cmd_silent_failure(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	return -EIO;
}

Test(server, registered_commands)
{
	json_t *obj;

	cr_expect_eq(server_register(srv, "echo", cmd_echo, NULL), 0);
	cr_expect_eq(server_register(srv, "echo", cmd_echo, NULL), -EEXIST);
	cr_expect_eq(server_register(srv, "list", cmd_echo, NULL), -EEXIST);
	cr_expect_eq(server_register(srv, "fail", cmd_silent_failure, NULL), 0);
	obj = must("{\"cmd\":\"echo\",\"n\":10,\"id\":\"q1\"}");
	cr_expect_eq(json_integer_value(json_object_get(obj, "n")), 10);
	cr_expect_str_eq(str(obj, "id"), "q1");
	json_decref(obj);
	obj = ask("{\"cmd\":\"echo\",\"n\":11}");
	cr_expect_str_eq(str(obj, "error"), "n: 11; 1 to 10 is accepted");
	json_decref(obj);
	obj = ask("{\"cmd\":\"echo\",\"n\":-1,\"id\":5}");
	cr_expect_str_eq(str(obj, "error"), "n: -1; 1 to 10 is accepted");
	cr_expect_eq(json_integer_value(json_object_get(obj, "id")), 5, "errors carry the id");
	json_decref(obj);
	obj = ask("{\"cmd\":\"fail\"}");
	cr_expect_str_eq(str(obj, "error"), strerror(EIO));
	json_decref(obj);
}

Test(server, hello_list_events_check)
{
	json_t *obj = must("{\"cmd\":\"hello\"}"), *item;
	size_t i;
	int found = 0;

	cr_expect_str_eq(str(obj, "server"), "test");
	cr_expect_eq(json_integer_value(json_object_get(obj, "protocol")), SERVER_PROTOCOL);
	cr_expect_geq(json_array_size(json_object_get(obj, "commands")), 12);
	json_decref(obj);

	obj = must("{\"cmd\":\"list\"}");
	item = json_array_get(json_object_get(obj, "nodes"), 4);
	cr_expect_str_eq(str(item, "kind"), "vm");
	cr_expect_str_eq(str(item, "vm"), "web-1");
	cr_expect_str_eq(str(item, "path"), "/acme/web");
	cr_expect_str_eq(str(item, "engine"), "test");
	cr_expect_str_eq(str(item, "plane"), "soft");
	cr_expect_eq(json_integer_value(json_object_get(item, "vcpus")), 2);
	cr_expect_eq(json_integer_value(json_object_get(item, "depth")), 3);
	json_decref(obj);

	obj = must("{\"cmd\":\"events\"}");
	json_array_foreach (json_object_get(obj, "events"), i, item) {
		const json_t *planes = json_object_get(item, "planes"),
			     *soft = json_array_get(planes, 0);

		cr_assert_eq(json_array_size(planes), 1);
		cr_expect_str_eq(str(soft, "plane"), "soft");
		if (strcmp(str(item, "event"), "cycles") == 0 ||
		    strcmp(str(item, "alias"), "cycles") == 0)
			found += strcmp(str(soft, "quality"), "modelled") == 0 &&
				 json_is_true(json_object_get(soft, "supported"));
		if (strcmp(str(item, "event"), "cache-misses") == 0)
			found += strcmp(str(soft, "why"), "no such event here") == 0 &&
				 json_is_false(json_object_get(soft, "supported"));
	}
	cr_expect_eq(found, 2);
	json_decref(obj);

	obj = must("{\"cmd\":\"check\"}");
	cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 2);
	json_decref(obj);
}

Test(server, a_session_from_attach_to_detach)
{
	struct node *vm = tenant_vm_find(h.ts, "web-1");
	struct test_vcpu v;
	json_t *obj, *row, *val;

	test_vcpu_init(&v, vm, 1);
	obj = must("{\"cmd\":\"attach\",\"events\":[\"instructions\",\"cycles:u\","
		   "\"cache-misses\"],\"scope\":\"vcpu\",\"target\":\"/acme\",\"name\":\"bill\","
		   "\"keep\":true}");
	cr_expect_str_eq(str(obj, "session"), "bill");
	cr_expect_eq(json_integer_value(json_object_get(obj, "nr-rows")), 2);
	json_decref(obj);
	test_run(&h, 0, &v, 1000);
	obj = must("{\"cmd\":\"read\",\"session\":\"bill\"}");
	cr_expect_str_eq(json_string_value(json_array_get(json_object_get(obj, "events"), 1)),
			 "cycles:u", "as the operator spelled it");
	row = json_array_get(json_object_get(obj, "rows"), 1);
	cr_expect_str_eq(str(row, "vm"), "web-1");
	cr_expect_str_eq(str(row, "plane"), "soft");
	cr_expect_eq(json_integer_value(json_object_get(row, "vcpu")), 1);
	val = json_array_get(json_object_get(row, "values"), 0);
	cr_expect_str_eq(str(val, "count"), "1000");
	cr_expect_str_eq(str(val, "counter-value"), "1000");
	cr_expect_str_eq(str(val, "quality"), "exact");
	val = json_array_get(json_object_get(row, "values"), 1);
	cr_expect_str_eq(str(val, "count"), "2000");
	cr_expect_str_eq(str(val, "quality"), "modelled");
	val = json_array_get(json_object_get(row, "values"), 2);
	cr_expect(json_is_false(json_object_get(val, "supported")));
	json_decref(obj);

	obj = must("{\"cmd\":\"sharing\"}");
	row = json_array_get(json_object_get(obj, "planes"), 0);
	cr_expect_str_eq(str(row, "plane"), "soft");
	cr_expect_geq(json_integer_value(json_object_get(row, "consumers")), 4);
	json_decref(obj);
	obj = must("{\"cmd\":\"conservation\"}");
	row = json_array_get(json_object_get(obj, "rows"), 0);
	cr_expect_str_eq(str(row, "hardware"), str(row, "charged"));
	cr_expect_str_eq(str(row, "plane"), "soft");
	json_decref(obj);

	test_run(&h, 1, &v, 500);
	obj = must("{\"cmd\":\"detach\",\"session\":\"bill\"}");
	row = json_array_get(json_object_get(obj, "rows"), 1);
	val = json_array_get(json_object_get(row, "values"), 0);
	cr_expect_str_eq(str(val, "count"), "1500", "final values come with the detach");
	json_decref(obj);
	obj = ask("{\"cmd\":\"read\",\"session\":\"bill\"}");
	cr_expect_eq(json_integer_value(json_object_get(obj, "errno")), ENOENT);
	json_decref(obj);
	test_vcpu_fini(&v);
}

Test(server, counts_beyond_2_to_the_53_are_exact)
{
	struct test_vcpu v;
	json_t *obj, *val;

	test_vcpu_init(&v, tenant_vm_find(h.ts, "web-1"), 0);
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"instructions\",\"name\":\"big\"}"));
	/* 48-bit counters: below one wrap between two switches. */
	for (int i = 0; i < 100; i++)
		test_run(&h, 0, &v, (1ULL << 47) + 1);
	obj = must("{\"cmd\":\"read\",\"session\":\"big\"}");
	val = json_array_get(
		json_object_get(json_array_get(json_object_get(obj, "rows"), 0), "values"), 0);
	cr_expect_str_eq(str(val, "count"), "14073748835532900");
	json_decref(obj);
	test_vcpu_fini(&v);
}

Test(server, tenants_by_request)
{
	json_t *obj = must("{\"cmd\":\"tenant-add\",\"path\":\"/bob/x\"}");

	cr_expect_str_eq(str(obj, "path"), "/bob/x");
	json_decref(obj);
	cr_expect(tenant_find(h.ts, "/bob/x"));
	json_decref(must("{\"cmd\":\"tenant-remove\",\"path\":\"/bob/x\"}"));
	cr_expect(!tenant_find(h.ts, "/bob/x"));
}

/* ---- clients ------------------------------------------------------------------------------ */

static int dial(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

	strcpy(addr.sun_path, sock);
	cr_assert_eq(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Let the server do whatever it can do now. */
static void pump(void)
{
	while (sd_event_run(ev, 0) > 0)
		;
}

static size_t take(int fd, char *buf, size_t len)
{
	size_t n = 0;
	ssize_t got;

	do {
		pump();
		got = recv(fd, buf + n, len - 1 - n, 0);
		if (got > 0)
			n += (size_t)got;
	} while (got > 0);
	buf[n] = '\0';
	return n;
}

static void say(int fd, const char *text)
{
	cr_assert_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static unsigned int lines(const char *text)
{
	unsigned int n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

Test(server, requests_in_pieces_and_in_heaps)
{
	char buf[65536];
	int fd = dial();

	say(fd, "{\"cmd\":");
	cr_expect_eq(take(fd, buf, sizeof(buf)), 0);
	say(fd, "\"hello\"}\n{\"cmd\":\"sharing\"}\nnonsense\n{\"cmd\":\"check\"}\n{\"cm");
	take(fd, buf, sizeof(buf));
	cr_expect_eq(lines(buf), 4, "%s", buf);
	say(fd, "d\":\"list\"}\n");
	take(fd, buf, sizeof(buf));
	cr_expect(strstr(buf, "web-1"), "%s", buf);
	close(fd);
	pump();
}

Test(server, a_client_that_hangs_up_gets_its_request_done)
{
	char buf[65536];
	int fd = dial();

	say(fd, "{\"cmd\":\"tenant-add\",\"path\":\"/one\"}\n");
	close(fd);
	pump();
	cr_expect(tenant_find(h.ts, "/one"));
	/* Half closed, as with `nc -N`: all answers come, then the end. */
	fd = dial();
	say(fd, "{\"cmd\":\"sharing\"}\n{\"cmd\":\"sharing\"}\n");
	shutdown(fd, SHUT_WR);
	take(fd, buf, sizeof(buf));
	cr_expect_eq(lines(buf), 2, "%s", buf);
	cr_expect_eq(recv(fd, buf, sizeof(buf), 0), 0, "closed by the server");
	close(fd);
}

Test(server, sessions_live_as_long_as_their_connection_unless_kept)
{
	char buf[65536];
	int fd = dial(), fd2 = dial();

	say(fd, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"mine\"}\n"
		"{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"kept\",\"keep\":true}\n");
	take(fd, buf, sizeof(buf));
	cr_expect_eq(lines(buf), 2);
	say(fd2, "{\"cmd\":\"read\",\"session\":\"mine\"}\n");
	take(fd2, buf, sizeof(buf));
	cr_expect(strstr(buf, "\"ok\":true"), "others may read it: %s", buf);
	close(fd);
	pump();
	say(fd2, "{\"cmd\":\"sessions\"}\n");
	take(fd2, buf, sizeof(buf));
	cr_expect(!strstr(buf, "mine"), "%s", buf);
	cr_expect(strstr(buf, "kept"), "%s", buf);
	close(fd2);
	pump();
}

Test(server, a_line_without_end_is_refused_and_closed)
{
	static char big[SERVER_LINE_MAX];
	char buf[65536];
	int fd = dial();
	size_t sent = 0;

	memset(big, 'x', sizeof(big));
	while (sent < sizeof(big)) {
		ssize_t n = send(fd, big + sent, sizeof(big) - sent, MSG_NOSIGNAL);

		cr_assert(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		pump();
	}
	take(fd, buf, sizeof(buf));
	cr_expect(strstr(buf, "65535 bytes"), "%s", buf);
	cr_expect_leq(recv(fd, buf, sizeof(buf), 0), 0);
	cr_expect(errno != EAGAIN, "closed");
	close(fd);
}

Test(server, too_many_clients)
{
	int fd[SERVER_CLIENTS_MAX + 1];
	char buf[65536];

	for (int i = 0; i <= SERVER_CLIENTS_MAX; i++) {
		fd[i] = dial();
		pump();
	}
	take(fd[SERVER_CLIENTS_MAX], buf, sizeof(buf));
	cr_expect(strstr(buf, "too many clients"), "%s", buf);
	close(fd[0]);
	pump();
	close(fd[SERVER_CLIENTS_MAX]);
	fd[0] = dial();
	say(fd[0], "{\"cmd\":\"sharing\"}\n");
	take(fd[0], buf, sizeof(buf));
	cr_expect_eq(lines(buf), 1, "room for one again");
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
		close(fd[i]);
	pump();
}

static bool closed(int fd)
{
	char c;

	pump();
	return recv(fd, &c, 1, MSG_PEEK) == 0;
}

Test(server, idle_clients_lock_nobody_out)
{
	struct timespec idle = {.tv_sec = SERVER_IDLE_MS / 1000, .tv_nsec = 20000000};
	int fd[SERVER_CLIENTS_MAX], late[2];
	char buf[65536];

	for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
		fd[i] = dial();
		pump();
	}
	say(fd[0], "{\"cmd\":\"attach\",\"events\":\"loads\"}\n");
	say(fd[1], "{\"cmd\":"); /* half a request is no reason to stay */
	take(fd[0], buf, sizeof(buf));
	nanosleep(&idle, NULL);
	say(fd[2], "{\"cmd\":\"sharing\"}\n");
	cr_expect(take(fd[2], buf, sizeof(buf)) > 0);
	for (int i = 0; i < 2; i++) {
		late[i] = dial();
		say(late[i], "{\"cmd\":\"sharing\"}\n");
		take(late[i], buf, sizeof(buf));
		cr_expect(strstr(buf, "\"ok\":true"), "a new client is served: %s", buf);
	}
	cr_expect(strstr(last_log, "idle for longest"), "%s", last_log);
	cr_expect_not(closed(fd[0]), "it has a session");
	cr_expect_not(closed(fd[2]), "it has just asked");
	cr_expect(closed(fd[1]) + closed(fd[3]) + closed(fd[4]) == 2, "the two longest idle");
	cr_expect_not(closed(fd[SERVER_CLIENTS_MAX - 1]));
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
		close(fd[i]);
	close(late[0]);
	close(late[1]);
	pump();
}

Test(server, a_client_that_does_not_read_is_dropped)
{
	char buf[65536], name[16];
	int slow = dial(), fd = dial();

	/* An answer larger than what the socket takes. */
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "/t/%d", i);
		test_tenant(&h, name);
	}
	say(slow, "{\"cmd\":\"list\"}\n{\"cmd\":\"list\"}\n");
	pump();
	say(fd, "{\"cmd\":\"sharing\"}\n");
	take(fd, buf, sizeof(buf));
	cr_expect_eq(lines(buf), 1, "others are served meanwhile");
	while (!last_log[0])
		cr_assert_geq(sd_event_run(ev, 5000000), 0);
	cr_expect(strstr(last_log, "dropped"), "%s", last_log);
	close(slow);
	close(fd);
	pump();
}

/* ---- the socket file ---------------------------------------------------------------------- */

Test(server, socket_paths)
{
	struct server_opts opts = {.name = "x", .raw_space = VPMU_SPACE_INTEL};
	struct server *second = NULL;
	struct tenants *ts;
	struct stat st;
	char path[80], longer[200];
	int fd;

	cr_assert_eq(lstat(sock, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0660);
	cr_assert_eq(tenants_create(NULL, &ts, h.err, sizeof(h.err)), 0);
	opts.path = sock;
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -EADDRINUSE);
	cr_expect(strstr(h.err, "a server listens there"), "%s", h.err);
	opts.path = "/dev/null";
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -EEXIST);
	opts.path = "/nowhere/deep/s.sock";
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -ENOENT);
	cr_expect(strstr(h.err, "/nowhere/deep"), "%s", h.err);
	memset(longer, 'a', sizeof(longer));
	longer[0] = '/';
	longer[sizeof(longer) - 1] = '\0';
	opts.path = longer;
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -ENAMETOOLONG);
	/* A stale one, of a server that died. */
	snprintf(path, sizeof(path), "%s.old", sock);
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	opts.path = path;
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), 0, "%s", h.err);
	server_destroy(second);
	cr_expect_eq(lstat(path, &st), -1);
	tenants_destroy(ts);
}
