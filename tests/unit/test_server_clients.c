// SPDX-License-Identifier: GPL-2.0-or-later
/* service/listener.c: clients that are slow, many, or gone, and the file of the socket. */
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "server_bed.h"

TestSuite(server_clients, .init = server_setup, .fini = server_teardown);

Test(server_clients, requests_in_pieces_and_in_heaps)
{
	int fd = dial();

	say(fd, "{\"cmd\":");
	cr_expect_eq(take(fd), 0);
	cr_expect_eq(
		lines(reply(
			fd,
			"\"hello\"}\n{\"cmd\":\"sharing\"}\nnonsense\n{\"cmd\":\"check\"}\n{\"cm")),
		4, "%s", answer);
	cr_expect(strstr(reply(fd, "d\":\"list\"}\n"), "web-1"), "%s", answer);
	close(fd);
	pump();
}

Test(server_clients, a_client_that_hangs_up_gets_its_request_done)
{
	int fd = dial();

	say(fd, "{\"cmd\":\"tenant-add\",\"path\":\"/one\"}\n");
	close(fd);
	pump();
	cr_expect(tenant_find(h.ts, "/one"));
	/* Half closed, as with `nc -N`: all answers come, then the end. */
	fd = dial();
	say(fd, "{\"cmd\":\"sharing\"}\n{\"cmd\":\"sharing\"}\n");
	shutdown(fd, SHUT_WR);
	take(fd);
	cr_expect_eq(lines(answer), 2, "%s", answer);
	cr_expect_eq(recv(fd, answer, sizeof(answer), 0), 0, "closed by the server");
	close(fd);
}

/* 1: session @name is there and lost; 0: there; -1: not there. */
static int lost(const char *name)
{
	json_t *obj = must("{\"cmd\":\"sessions\"}"), *e;
	int found = -1;
	size_t i;

	json_array_foreach (json_object_get(obj, "sessions"), i, e)
		if (strcmp(str(e, "session"), name) == 0)
			found = json_is_true(json_object_get(e, "lost"));
	json_decref(obj);
	return found;
}

Test(server_clients, a_lost_session_ends_after_its_time)
{
	struct server_opts opts = {
		.name = "short", .raw_space = VPMU_SPACE_INTEL, .path = sock, .lost_sec = 1};
	int fd;

	server_destroy(srv);
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
	fd = dial();
	reply(fd, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"mine\"}\n");
	cr_expect_eq(lost("mine"), 0);
	close(fd);
	while (lost("mine") >= 0)
		sd_event_run(ev, 100000);
}

Test(server_clients, sessions_live_as_long_as_their_connection_unless_named_or_kept)
{
	int fd = dial(), fd2 = dial();

	cr_expect_eq(
		lines(reply(fd, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"mine\"}\n"
				"{\"cmd\":\"attach\",\"events\":\"cycles\"}\n"
				"{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"kept\","
				"\"keep\":true}\n")),
		3);
	cr_expect(strstr(reply(fd2, "{\"cmd\":\"read\",\"session\":\"mine\"}\n"), "\"ok\":true"),
		  "others may read it: %s", answer);
	close(fd);
	pump();
	cr_expect(lost("mine") == 1 && lost("kept") == 0 && lost("@1") == -1);
	reply(fd2, "{\"cmd\":\"reattach\",\"session\":\"mine\"}\n"
		   "{\"cmd\":\"reattach\",\"session\":\"kept\"}\n");
	cr_expect(lost("mine") == 0, "%s", answer);
	close(fd2);
	pump();
	cr_expect(lost("mine") == 1 && lost("kept") == 0, "lost again, and kept as before");
	fd2 = dial();
	cr_expect(strstr(reply(fd2, "{\"cmd\":\"detach\",\"session\":\"mine\"}\n"), "\"rows\""),
		  "%s", answer);
	cr_expect_eq(lost("mine"), -1);
	close(fd2);
	pump();
}

Test(server_clients, a_line_without_end_is_refused_and_closed)
{
	static char big[SERVER_LINE_MAX];
	int fd = dial();
	size_t sent = 0;

	memset(big, 'x', sizeof(big));
	while (sent < sizeof(big)) {
		ssize_t n = send(fd, big + sent, sizeof(big) - sent, MSG_NOSIGNAL);

		cr_assert(n > 0 || errno == EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		pump();
	}
	take(fd);
	cr_expect(strstr(answer, "65535 bytes"), "%s", answer);
	cr_expect_leq(recv(fd, answer, sizeof(answer), 0), 0);
	cr_expect(errno != EAGAIN, "closed");
	close(fd);
}

Test(server_clients, too_many_clients)
{
	int fd[SERVER_CLIENTS_MAX + 1];

	for (int i = 0; i <= SERVER_CLIENTS_MAX; i++) {
		fd[i] = dial();
		pump();
	}
	take(fd[SERVER_CLIENTS_MAX]);
	cr_expect(strstr(answer, "too many clients"), "%s", answer);
	close(fd[0]);
	pump();
	close(fd[SERVER_CLIENTS_MAX]);
	fd[0] = dial();
	cr_expect_eq(lines(reply(fd[0], "{\"cmd\":\"sharing\"}\n")), 1, "room for one again");
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

Test(server_clients, idle_clients_lock_nobody_out)
{
	struct timespec idle = {.tv_sec = SERVER_IDLE_MS / 1000, .tv_nsec = 20000000};
	int fd[SERVER_CLIENTS_MAX], late[2];

	for (int i = 0; i < SERVER_CLIENTS_MAX; i++) {
		fd[i] = dial();
		pump();
	}
	say(fd[0], "{\"cmd\":\"attach\",\"events\":\"loads\"}\n");
	say(fd[1], "{\"cmd\":"); /* half a request is no reason to stay */
	take(fd[0]);
	nanosleep(&idle, NULL);
	say(fd[2], "{\"cmd\":\"sharing\"}\n");
	cr_expect(take(fd[2]) > 0);
	for (int i = 0; i < 2; i++) {
		late[i] = dial();
		cr_expect(strstr(reply(late[i], "{\"cmd\":\"sharing\"}\n"), "\"ok\":true"),
			  "a new client is served: %s", answer);
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

Test(server_clients, a_client_that_does_not_read_is_dropped)
{
	char name[16];
	int slow = dial(), fd = dial();

	/* An answer larger than the socket's buffer. */
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "/t/%d", i);
		test_tenant(&h, name);
	}
	say(slow, "{\"cmd\":\"list\"}\n{\"cmd\":\"list\"}\n");
	pump();
	cr_expect_eq(lines(reply(fd, "{\"cmd\":\"sharing\"}\n")), 1, "others are served meanwhile");
	while (!last_log[0])
		cr_assert_geq(sd_event_run(ev, 5000000), 0);
	cr_expect(strstr(last_log, "dropped"), "%s", last_log);
	close(slow);
	close(fd);
	pump();
}

/* A command that takes longer than slow_sec, and with an answer that no socket takes at once. */
static int cmd_busy(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const struct timespec t = {.tv_sec = 1, .tv_nsec = 100000000};
	char *text = calloc(1, (8 << 20) + 1);

	nanosleep(&t, NULL);
	memset(text, 'x', 8 << 20);
	json_object_set_new(resp, "text", json_string(text));
	free(text);
	return 0;
}

static _Atomic size_t bytes_read;
static _Atomic bool reader_done;

/* Read up to the newline. */
static void *reader(void *arg)
{
	int fd = *(int *)arg;
	char buf[65536];
	ssize_t n;

	fcntl(fd, F_SETFL, 0);
	do {
		n = recv(fd, buf, sizeof(buf), 0);
		bytes_read += n > 0 ? (size_t)n : 0;
	} while (n > 0 && buf[n - 1] != '\n');
	bytes_read += n > 0 ? 1 << 30 : 0;
	reader_done = true;
	return NULL;
}

Test(server_clients, a_client_that_reads_is_not_dropped_by_a_busy_server)
{
	pthread_t thread;
	int fd = dial();

	cr_assert_eq(server_register(srv, "busy", cmd_busy, NULL), 0);
	say(fd, "{\"cmd\":\"busy\"}\n");
	cr_assert_eq(pthread_create(&thread, NULL, reader, &fd), 0);
	while (!reader_done)
		sd_event_run(ev, 10000);
	pthread_join(thread, NULL);
	cr_expect_str_empty(last_log);
	cr_expect_gt(bytes_read, 1 << 30, "the whole answer came, not %zu bytes", bytes_read);
	close(fd);
	pump();
}

/* Let the server run while it can have @nr descriptors: @fn, pump() or once. */
static void run_with(int nr, void (*fn)(void))
{
	struct rlimit all, few;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	few = all;
	few.rlim_cur = (rlim_t)nr;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	fn();
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
}

static void run_once(void)
{
	sd_event_run(ev, 0);
}

/* Not the number of clients is too great. */
Test(server_clients, no_descriptor_is_left)
{
	int fd = dial(), next = dup(fd);

	close(next);
	run_with(next, pump);
	take(fd);
	cr_expect(strstr(answer, "no file descriptor left"), "%s", answer);
	cr_expect(strstr(answer, "\"errno\":24"), "%s", answer);
	close(fd);
	/* Not even the one that is kept for this; later there is one again. */
	fd = dial();
	run_with(0, run_once);
	cr_expect_eq(lines(reply(fd, "{\"cmd\":\"sharing\"}\n")), 1);
	close(fd);
	pump();
	fd = dial();
	next = dup(fd);
	close(next);
	run_with(next, run_once);
	take(fd);
	cr_expect(strstr(answer, "no file descriptor left"), "%s", answer);
	close(fd);
	fd = dial();
	cr_expect_eq(lines(reply(fd, "{\"cmd\":\"sharing\"}\n")), 1, "room for one again");
	close(fd);
	pump();
}

Test(server_clients, a_client_that_reads_is_not_dropped_while_others_keep_the_server_busy)
{
	pthread_t thread;
	int fd = dial(), other = dial();

	cr_assert_eq(server_register(srv, "busy", cmd_busy, NULL), 0);
	say(fd, "{\"cmd\":\"busy\"}\n");
	pump();
	/* Its timer ends while the server is busy with another client, which does not read either.
	 */
	say(other, "{\"cmd\":\"busy\"}\n");
	cr_assert_eq(pthread_create(&thread, NULL, reader, &fd), 0);
	while (!reader_done)
		sd_event_run(ev, 10000);
	pthread_join(thread, NULL);
	cr_expect_gt(bytes_read, 1 << 30, "the whole answer came, not %zu bytes", bytes_read);
	close(fd);
	close(other);
	pump();
}

static unsigned int nr_counted;

static int cmd_count(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	nr_counted++;
	return 0;
}

/* A client that sends many requests at once must not be served before all others. */
Test(server_clients, pipelined_requests_do_not_go_first)
{
	static const char one[] = "{\"cmd\":\"count\"}\n";
	static char all[2000 * (sizeof(one) - 1) + 1];
	int fd = dial(), other = dial();
	ssize_t got = -1;

	for (size_t i = 0; i < 2000; i++)
		strcpy(all + i * (sizeof(one) - 1), one);
	cr_assert_eq(server_register(srv, "count", cmd_count, NULL), 0);
	pump();
	say(fd, all);
	while (!nr_counted)
		sd_event_run(ev, 0);
	say(other, "{\"cmd\":\"sharing\"}\n");
	nr_counted = 0;
	while (got <= 0) {
		sd_event_run(ev, 0);
		while (recv(fd, answer, sizeof(answer), 0) > 0)
			;
		got = recv(other, answer, sizeof(answer), 0);
	}
	cr_expect_leq(nr_counted, 10, "%u went first", nr_counted);
	close(fd);
	close(other);
	pump();
}

/* ---- the socket file ---------------------------------------------------------------------- */

/* Socket activation: the socket's creator keeps its file. */
Test(server_clients, a_socket_that_listens_already)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct server_opts opts = {.name = "x", .raw_space = VPMU_SPACE_INTEL, .path = sock};
	int fd, plain = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	server_destroy(srv);
	srv = NULL;
	opts.listen_fd = plain;
	cr_expect_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), -EINVAL);
	cr_expect(strstr(h.err, "is no listening unix stream socket"), "%s", h.err);
	strcpy(addr.sun_path, sock);
	opts.listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	cr_assert(!bind(opts.listen_fd, (struct sockaddr *)&addr, sizeof(addr)) &&
		  !listen(opts.listen_fd, 5));
	fd = dial(); /* before there is a server: it waits */
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
	cr_expect(fcntl(opts.listen_fd, F_GETFD) & FD_CLOEXEC);
	cr_expect(strstr(reply(fd, "{\"cmd\":\"hello\"}\n"), "\"server\":\"x\""), "%s", answer);
	close(fd);
	server_destroy(srv);
	srv = NULL;
	cr_expect_eq(fcntl(opts.listen_fd, F_GETFD), -1, "it is closed");
	cr_expect_eq(access(sock, F_OK), 0, "its file stays");
	unlink(sock);
}

Test(server_clients, socket_paths)
{
	struct server_opts opts = {.name = "x", .raw_space = VPMU_SPACE_INTEL};
	struct server *second = NULL;
	struct tenants *ts;
	struct stat st;
	char path[120], longer[200];
	int fd;

	cr_assert_eq(lstat(sock, &st), 0);
	cr_expect_eq(st.st_mode & 0777, 0600);
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
	/* Directories: only the server's own one is made, and it must belong to the server's user.
	 */
	char dir[60], link[80];

	snprintf(dir, sizeof(dir), "/tmp/vpmu-test-%d-b", getpid());
	snprintf(path, sizeof(path), "%s/s.sock", dir);
	opts.path = path;
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -ENOENT);
	cr_expect_eq(lstat(dir, &st), -1);
	opts.own_dir = true;
	cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), 0, "%s", h.err);
	server_destroy(second);
	static const mode_t modes[] = {0720, 0702, 0770, 0777, 01777};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		cr_assert_eq(chmod(dir, modes[i]), 0);
		cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -EPERM);
		cr_expect(strstr(h.err, "others may write to"), "%s", h.err);
	}
	cr_assert_eq(chmod(dir, 0755), 0);
	if (!geteuid()) {
		cr_assert_eq(chown(dir, 65534, (gid_t)-1), 0);
		cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -EPERM);
		cr_expect(strstr(h.err, "belongs to user 65534"), "%s", h.err);
		cr_assert_eq(chown(dir, 0, (gid_t)-1), 0);
	}
	snprintf(link, sizeof(link), "%s-link", dir);
	cr_assert_eq(symlink(dir, link), 0);
	snprintf(path, sizeof(path), "%s/s.sock", link);
	for (int own = 0; own < 2; own++) {
		opts.own_dir = own;
		cr_expect_eq(server_create(ts, ev, &opts, &second, h.err, sizeof(h.err)), -ELOOP);
		cr_expect(strstr(h.err, "is a symbolic link"), "%s", h.err);
	}
	unlink(link);
	rmdir(dir);
	opts.own_dir = false;
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
