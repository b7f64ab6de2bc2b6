// SPDX-License-Identifier: GPL-2.0-or-later
/* service/access.c: rights to act and to see. Most of it needs root, to be other users.
 */
#include <grp.h>
#include <time.h>

#include "service/listener.h"
#include "server_bed.h"

static struct access_rules rules;

static void teardown(void)
{
	server_teardown();
	access_fini(&rules);
}

TestSuite(server_access, .init = server_setup, .fini = teardown);

#define READER_UID 54321
#define READER_GID 54322
#define ADMIN_GID  54323

/*
 * A client process that is user @uid in groups @gid and, as a supplementary group, @more. It sends
 * its requests and prints the answers. Parent: the descriptor of its output.
 */
static int client_as(uid_t uid, gid_t gid, gid_t more, const char *requests)
{
	int out[2];
	pid_t pid;

	cr_assert_eq(pipe2(out, O_CLOEXEC), 0);
	pid = fork();
	if (pid)
		close(out[1]);
	if (!pid) {
		struct sockaddr_un addr = {.sun_family = AF_UNIX};
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		char buf[4096];
		ssize_t n;

		strcpy(addr.sun_path, sock);
		if (setgroups(1, &more) || setgid(gid) || setuid(uid) ||
		    connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
			dprintf(out[1], "%s\n", strerror(errno));
			_exit(1);
		}
		send(fd, requests, strlen(requests), MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
			if (write(out[1], buf, (size_t)n) != n)
				_exit(2);
		_exit(0);
	}
	fcntl(out[0], F_SETFL, O_NONBLOCK);
	return out[0];
}

static const char *said_as(uid_t uid, gid_t gid, gid_t more, const char *requests)
{
	static char buf[1 << 20];
	int fd = client_as(uid, gid, more, requests);
	size_t have = 0;
	ssize_t n;

	do {
		sd_event_run(ev, 1000);
		n = read(fd, buf + have, sizeof(buf) - 1 - have);
		have += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	buf[have] = '\0';
	close(fd);
	return buf;
}

#define SAYS(answer_, part)                                                                        \
	do {                                                                                       \
		const char *text_ = answer_;                                                       \
		cr_expect(strstr(text_, part), "%s", text_);                                       \
	} while (0)

static const char *as_reader(const char *requests)
{
	return said_as(READER_UID, 1, READER_GID, requests);
}

/* Start the server again with groups. Ends the test if this cannot be tested here. */
static void with_groups(const char *admins, const char *readers)
{
	struct server_opts opts = {.name = "groups",
				   .raw_space = VPMU_SPACE_INTEL,
				   .path = sock,
				   .check = check_rows,
				   .vm_info = vm_info,
				   .access = &rules,
				   .slow_sec = 3600};

	if (geteuid())
		cr_skip_test("not root: no other users to connect as");
	server_destroy(srv);
	cr_assert_eq(access_parse(&rules, (struct access_list){"a", admins},
				  (struct access_list){"r", readers}, h.err, sizeof(h.err)),
		     0, "%s", h.err);
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
	test_vm(&h, test_tenant(&h, "/victim/secret"), "hidden-vm", 1);
	test_tenant(&h, "/acme-evil");
}

Test(server_access, others_may_nothing)
{
	const char *text;

	with_groups(NULL, NULL);
	cr_expect_str_eq(as_reader("{\"cmd\":\"list\"}\n"), "Permission denied\n");
	/* Not even if somebody widens the socket's mode. */
	cr_assert_eq(chmod(sock, 0666), 0);
	text = as_reader("{\"cmd\":\"list\"}\n");
	cr_expect(strstr(text, "\"errno\":13") && !strstr(text, "web-1"), "%s", text);
}

Test(server_access, admins_by_group)
{
	struct stat st;
	const char *text;

	with_groups("54323", NULL);
	cr_assert_eq(stat(sock, &st), 0);
	cr_expect_eq(st.st_gid, ADMIN_GID);
	cr_expect_eq(st.st_mode & 0777, 0660);
	text = said_as(READER_UID, 1, ADMIN_GID, "{\"cmd\":\"tenant-add\",\"path\":\"/new\"}\n");
	cr_expect(strstr(text, "\"ok\":true") && tenant_find(h.ts, "/new"), "%s", text);
	SAYS(said_as(READER_UID, ADMIN_GID, 1, "{\"cmd\":\"list\"}\n"), "hidden-vm");
}

/* The rest of the first line of @text that has @what, behind it; "": none has it. */
static const char *after(const char *text, const char *what)
{
	static char rest[512];

	text = strstr(text, what);
	snprintf(rest, sizeof(rest), "%.*s", text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	return *rest ? rest + strlen(what) : "";
}

/* Without a target a reader of one tenant gets that; one of several learns which there are. */
Test(server_access, readers_without_a_target)
{
	const char *attach = "{\"cmd\":\"attach\",\"events\":\"cycles\"}\n";

	with_groups(NULL, "54322=/acme");
	SAYS(as_reader(attach), "\"target\":\"/acme\"");
}

Test(server_access, readers_of_several_without_a_target)
{
	const char *attach = "{\"cmd\":\"attach\",\"events\":\"cycles\"}\n", *text;

	with_groups(NULL, "54322=/acme,/victim/secret");
	text = as_reader(attach);
	cr_expect(strstr(text, "target: none is given, and you may see several; expected one of "
			       "/acme, /victim/secret\""),
		  "%s", text);
	SAYS(as_reader("{\"cmd\":\"attach\",\"events\":\"cycles\",\"scope\":\"tenant\"}\n"),
	     "\"ok\":true");
}

/* For any request of a reader, the answer has its own tenants only. */
Test(server_access, readers_see_their_tenants_only)
{
	static const char *const hidden[] = {"victim", "secret",    "evil",	    "hidden-vm",
					     "boss",   "\"/host\"", "conservation", "\"id\""};
	static const struct {
		int line;
		const char *request, *says;
	} rows[] = {
		{__LINE__, "{\"cmd\":\"hello\"}", "\"access\":\"reader\""},
		{__LINE__, "{\"cmd\":\"list\"}", "web-1"},
		{__LINE__, "{\"cmd\":\"events\"}", "instructions"},
		{__LINE__, "{\"cmd\":\"check\"}", "\"ok\":true"},
		{__LINE__, "{\"cmd\":\"sessions\"}", "\"sessions\":[]"},
		{__LINE__, "{\"cmd\":\"profiles\"}", "\"profiles\":[]"},
		{__LINE__, "{\"cmd\":\"captures\"}", "\"captures\":[]"},
		{__LINE__, "{\"cmd\":\"sharing\"}", "\"backends\":[]"},
		{__LINE__, "{\"cmd\":\"tenant-add\",\"path\":\"/acme/x\"}", "\"errno\":13"},
		{__LINE__, "{\"cmd\":\"tenant-remove\",\"path\":\"/acme\"}", "\"errno\":13"},
		{__LINE__, "{\"cmd\":\"owned\"}", "\"errno\":13"},
		{__LINE__, "{\"cmd\":\"read\",\"session\":\"the-b\"}", "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"detach\",\"session\":\"@1\"}", "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"reattach\",\"session\":\"@1\"}", "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"profile-read\",\"profile\":\"@1\"}", "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"profile-stop\",\"profile\":\"@1\"}", "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"target\":\"/\"}",
		 "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"profile-start\",\"event\":\"cycles\",\"target\":\"/\"}",
		 "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\"}", "\"errno\":2"},
		{__LINE__, "{\"cmd\":\"lbr-read\",\"target\":\"/\"}", "\"rows\":[]"},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\"}", "\"target\":\"/acme\""},
	};
	static const char all[] = "{\"cmd\":\"attach\",\"events\":\"cycles\",\"scope\":\"vm\","
				  "\"target\":\"/\",\"name\":\"same\"}\n"
				  "{\"cmd\":\"read\",\"session\":\"same\"}\n";
	struct test_vcpu v;
	const char *text;

	with_groups("54323", "54322=/acme");
	cr_assert_eq(server_register(srv, "owned", cmd_echo, NULL), 0);
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"the-boss\"}"));
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"same\"}"));
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"cycles\"}"));
	json_decref(must("{\"cmd\":\"profile-start\",\"event\":\"cycles\"}"));
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/\"}"));
	test_vcpu_init(&v, tenant_vm_find(h.ts, "hidden-vm"), 0);
	test_run(&h, 0, &v, 1000);
	test_run(&h, 0, NULL, 1000);
	text = server_dispatch(srv, "{\"cmd\":\"lbr-read\",\"target\":\"/\"}", 31);
	cr_expect(strstr(text, "hidden-vm"), "%s", text);
	free((char *)text);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char line[256];

		snprintf(line, sizeof(line), "%s\n", rows[i].request);
		text = as_reader(line);
		cr_expect(strstr(text, rows[i].says), "line %d: %s", rows[i].line, text);
		for (size_t k = 0; k < sizeof(hidden) / sizeof(hidden[0]); k++)
			cr_expect_not(strstr(text, hidden[k]), "line %d, \"%s\" in: %s",
				      rows[i].line, hidden[k], text);
	}
	text = as_reader(all);
	cr_expect_eq(lines(text), 2);
	cr_expect(strstr(text, "web-1") && !strstr(text, "hidden-vm"), "%s", text);
	cr_expect(!strstr(text, "\"errno\""), "a name of its own: %s", text);
	/* A name that is given by chance: "@2" would show that there is another one. */
	text = as_reader("{\"cmd\":\"attach\",\"events\":\"cycles\"}\n");
	cr_expect_gt(strtoull(after(text, "\"session\":\"@"), NULL, 10), 1000, "%s", text);
	/* The session stays for its user, and for administrators. */
	SAYS(as_reader("{\"cmd\":\"reattach\",\"session\":\"same\"}\n"), "\"scope\":\"vm\"");
	SAYS(said_as(READER_UID + 1, 1, READER_GID, "{\"cmd\":\"read\",\"session\":\"same\"}\n"),
	     "\"errno\":2");
	test_vcpu_fini(&v);
}

/* The answers to a reader of number @nr when it opens @n sessions with names of their own. */
static const char *opens_sessions(int nr, gid_t group, int n)
{
	static char many[65 * 80];
	char *end = many;

	for (int i = 0; i < n; i++)
		end += sprintf(end, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"n%d\"}\n",
			       i);
	return said_as(READER_UID + (uid_t)nr, 1, group, many);
}

static int count(const char *text, const char *what)
{
	int n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

#define OTHER_GID 54324

Test(server_access, nobody_can_take_all_sessions)
{
	const char *text;

	with_groups("54323", "54322=/acme 54324=/victim");
	text = opens_sessions(0, READER_GID, 65);
	cr_expect_eq(count(text, "\"ok\":true"), 64, "one user");
	cr_expect(strstr(text, "you have 64 sessions"), "the 65th is refused");
	/* All users of a tenant together. */
	cr_expect_eq(count(opens_sessions(1, READER_GID, 64), "\"ok\":true"), 32);
	text = opens_sessions(2, READER_GID, 64);
	cr_expect_eq(count(text, "\"ok\":true"), 0);
	cr_expect_not(strpbrk(after(text, "\"error\":"), "0123456789"), "it tells of others: %s",
		      text);
	/* Another tenant's, and administrators. */
	cr_expect_eq(count(opens_sessions(3, OTHER_GID, 64), "\"ok\":true"), 64);
	text = opens_sessions(4, ADMIN_GID, 64);
	cr_expect_eq(count(text, "\"ok\":true"), 64);
}

/* How many of @n different events, from number @first on, a reader of number @nr may count. */
static int counts_events(int nr, gid_t group, int first, int n)
{
	static char many[64 * 80];
	char *end = many;

	for (int i = first; i < first + n; i++)
		end += sprintf(end, "{\"cmd\":\"attach\",\"events\":\"r%x\",\"name\":\"e%d\"}\n",
			       0x100 * i + 0xc0, i);
	return count(said_as(READER_UID + (uid_t)nr, 1, group, many), "\"ok\":true");
}

Test(server_access, nobody_can_take_all_events)
{
	with_groups("54323", "54322=/acme 54324=/victim");
	cr_expect_eq(counts_events(0, READER_GID, 1, 20), 16, "one reader");
	cr_expect_eq(counts_events(1, READER_GID, 1, 16), 16, "they are the same: %s", h.err);
	cr_expect_eq(counts_events(2, READER_GID, 21, 16), 8, "readers of a tenant");
	cr_expect_eq(counts_events(3, OTHER_GID, 41, 16), 8, "all readers");
	cr_expect_eq(counts_events(4, ADMIN_GID, 61, 16), 16, "administrators");
}

/* A connection of user @uid with one more group, @more. */
static int dial_as(uid_t uid, gid_t more)
{
	int fd;

	cr_assert(!setgroups(1, &more) && !setegid(1) && !seteuid(uid));
	fd = dial();
	cr_assert(!seteuid(0) && !setegid(0) && !setgroups(0, NULL));
	return fd;
}

/* @n connections, each of which has a session if it is let in: how many are. */
static int connects(int *fd, int n, uid_t uid, gid_t more, const char **refusal)
{
	int in = 0;

	for (int i = 0; i < n; i++) {
		fd[i] = uid ? dial_as(uid, more) : dial();
		say(fd[i], "{\"cmd\":\"attach\",\"events\":\"cycles\"}\n");
		if (take(fd[i]) > 0 && strstr(answer, "\"ok\":true"))
			in++;
		else if (refusal)
			*refusal = answer;
	}
	return in;
}

Test(server_access, nobody_can_take_all_connections)
{
	static int fd[8][SERVER_CLIENTS_MAX];
	const char *text = "";

	with_groups("54323", "54322=/acme 54324=/victim 54325=/acme-evil");
	/* One user; all users of a tenant; all readers. */
	cr_expect_eq(connects(fd[0], SERVER_CLIENTS_MAX, READER_UID, READER_GID, &text),
		     SERVER_CLIENTS_USER);
	cr_expect(strstr(text, "\"errno\":16") && strstr(text, "you have 16 connections"), "%s",
		  text);
	cr_expect_eq(connects(fd[1], SERVER_CLIENTS_MAX, READER_UID + 1, READER_GID, &text),
		     SERVER_CLIENTS_TENANT - SERVER_CLIENTS_USER);
	cr_expect_not(strpbrk(after(text, "\"error\":"), "0123456789"), "it tells of others: %s",
		      text);
	cr_expect_eq(connects(fd[2], SERVER_CLIENTS_MAX, READER_UID + 2, OTHER_GID, NULL),
		     SERVER_CLIENTS_USER);
	cr_expect_eq(connects(fd[3], SERVER_CLIENTS_MAX, READER_UID + 3, OTHER_GID + 1, NULL),
		     SERVER_CLIENTS_READERS - SERVER_CLIENTS_TENANT - SERVER_CLIENTS_USER);
	/* Administrators have room; and root, whatever they do. */
	cr_expect_eq(connects(fd[4], SERVER_CLIENTS_MAX, READER_UID + 4, ADMIN_GID, NULL),
		     SERVER_CLIENTS_OTHERS - SERVER_CLIENTS_READERS);
	cr_expect_eq(connects(fd[5], SERVER_CLIENTS_MAX, 0, 0, NULL),
		     SERVER_CLIENTS_MAX - SERVER_CLIENTS_OTHERS);
	for (int k = 0; k < 6; k++)
		for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
			close(fd[k][i]);
	pump();
}

static int cmd_big(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	char *text = calloc(1, (8 << 20) + 1);
	int ret;

	memset(text, 'x', 8 << 20);
	ret = json_object_set_new(resp, "text", json_string(text));
	free(text);
	return ret;
}

/* Unread answers of 8 MiB each: other users and root are answered all the same. */
Test(server_access, unread_answers_leave_room_for_others)
{
	int admin[8], other, root;

	with_groups("54323", "54322=/acme");
	cr_assert_eq(server_register(srv, "big", cmd_big, NULL), 0);
	for (int i = 0; i < 8; i++) {
		admin[i] = dial_as(READER_UID, ADMIN_GID);
		say(admin[i], "{\"cmd\":\"big\"}\n");
		pump();
	}
	other = dial_as(READER_UID + 1, ADMIN_GID);
	say(other, "{\"cmd\":\"big\"}\n");
	pump();
	cr_expect_gt(recv(other, answer, sizeof(answer) - 1, 0), 60000, "%.200s", answer);
	root = dial();
	say(root, "{\"cmd\":\"big\"}\n");
	pump();
	cr_expect_gt(recv(root, answer, sizeof(answer) - 1, 0), 60000, "%.200s", answer);
	close(other);
	close(root);
	for (int i = 0; i < 8; i++)
		close(admin[i]);
	pump();
}

/* Who comes makes room at the cost of its like only. */
Test(server_access, a_reader_ends_no_idle_administrator)
{
	struct timespec idle = {.tv_sec = SERVER_IDLE_MS / 1000, .tv_nsec = 20000000};
	int admin[4], mine[SERVER_CLIENTS_USER], late;

	with_groups("54323", "54322=/acme");
	for (int i = 0; i < 4; i++)
		admin[i] = i < 2 ? dial() : dial_as(READER_UID + 1, ADMIN_GID);
	pump();
	for (int i = 0; i < SERVER_CLIENTS_USER; i++)
		mine[i] = dial_as(READER_UID, READER_GID);
	pump();
	nanosleep(&idle, NULL);
	late = dial_as(READER_UID, READER_GID);
	cr_expect(strstr(reply(late, "{\"cmd\":\"list\"}\n"), "\"ok\":true"), "%s", answer);
	cr_expect_eq(recv(mine[0], answer, 1, 0), 0, "the one that was idle for longest");
	for (int i = 0; i < 4; i++) {
		cr_expect(recv(admin[i], answer, 1, 0) < 0 && errno == EAGAIN, "%d", i);
		close(admin[i]);
	}
	for (int i = 0; i < SERVER_CLIENTS_USER; i++)
		close(mine[i]);
	close(late);
	pump();
}

/* The answer to @request of a client with the access @who. */
static const char *says_to(const struct access *who, const char *request)
{
	static char *answer;

	free(answer);
	answer = server_dispatch_conn(srv, who, request, strlen(request), NULL);
	cr_assert(answer);
	return answer;
}

/* A session outlives its connection, and its user comes back with fewer rights: in fewer groups, or
 * with a narrower configuration. Tenants outside of the user's rights now are not shown. */
Test(server_access, rights_are_those_of_the_reading)
{
	static const char *const named[] = {
		"{\"cmd\":\"profile-read\",\"profile\":\"p\"}",
		"{\"cmd\":\"profile-stop\",\"profile\":\"p\"}",
		"{\"cmd\":\"lbr-read\",\"capture\":\"c\"}",
		"{\"cmd\":\"lbr-detach\",\"capture\":\"c\"}",
	};
	static const char *const shown[] = {
		"{\"cmd\":\"read\",\"session\":\"s\"}",
		"{\"cmd\":\"sessions\"}",
		"{\"cmd\":\"reattach\",\"session\":\"s\"}",
		"{\"cmd\":\"profiles\"}",
		"{\"cmd\":\"captures\"}",
		"{\"cmd\":\"detach\",\"session\":\"s\"}",
	};
	const struct access wide = {.uid = 7, .nr = 2, .tenants = {"/acme", "/victim"}};
	const struct access now = {.uid = 7, .nr = 1, .tenants = {"/acme"}};
	const char *text;

	test_vm(&h, test_tenant(&h, "/victim/secret"), "hidden-vm", 1);
	SAYS(says_to(&wide, "{\"cmd\":\"attach\",\"events\":\"instructions\",\"target\":\"/\","
			    "\"scope\":\"tenant\",\"name\":\"s\",\"keep\":true}"),
	     "\"nr-rows\":4");
	cr_assert(strstr(says_to(&wide, shown[0]), "/victim/secret"));
	SAYS(says_to(&wide, "{\"cmd\":\"profile-start\",\"event\":\"instructions\",\"target\":"
			    "\"/victim\",\"name\":\"p\",\"keep\":true}"),
	     "\"ok\":true");
	SAYS(says_to(&wide, "{\"cmd\":\"lbr-attach\",\"target\":\"hidden-vm\",\"name\":\"c\","
			    "\"keep\":true}"),
	     "\"ok\":true");
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++)
		cr_expect(strstr(says_to(&now, named[i]), "\"errno\":2,"), "%s: %s", named[i],
			  says_to(&now, named[i]));
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
		text = says_to(&now, shown[i]);
		cr_expect(strstr(text, "\"ok\":true"), "%s: %s", shown[i], text);
		cr_expect(!strstr(text, "victim") && !strstr(text, "hidden"), "%s: %s", shown[i],
			  text);
		cr_expect(!strstr(text, "\"session\"") || strstr(text, "\"nr-rows\":2"), "%s: %s",
			  shown[i], text);
	}
	/* They are there, for whom they are. */
	cr_expect(strstr(says_to(&wide, named[1]), "\"ok\":true"));
	cr_expect(strstr(says_to(&wide, named[3]), "\"ok\":true"));
}

Test(server_access, rules_of_groups)
{
	static const struct {
		int line;
		const char *admins, *readers;
		int ret;
		const char *says;
	} rows[] = {
		{__LINE__, "root", NULL, 0, ""},
		{__LINE__, NULL, "root 12=/a,/b/c  13=/", 0, ""},
		{__LINE__, "no-such-group", NULL, -ENOENT,
		 "f:1: admins: no group \"no-such-group\""},
		{__LINE__, NULL, "12x", -ENOENT, "f:2: readers: no group \"12x\""},
		{__LINE__, "root=/a", NULL, -EINVAL,
		 "f:1: admins: \"root=\" is invalid; expected groups only (an "
		 "administrator sees every tenant"},
		{__LINE__, NULL, "root=a", -EINVAL, "f:2: readers: tenant path"},
		{__LINE__, NULL, "root=", -EINVAL, "tenant path"},
	};
	struct access_rules r;
	gid_t gid;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		h.err[0] = 0;
		cr_expect_eq(access_parse(&r, (struct access_list){"f:1: admins", rows[i].admins},
					  (struct access_list){"f:2: readers", rows[i].readers},
					  h.err, sizeof(h.err)),
			     rows[i].ret, "line %d: %s", rows[i].line, h.err);
		cr_expect(strstr(h.err, rows[i].says), "line %d: %s", rows[i].line, h.err);
		if (i == 1) {
			cr_expect(r.nr == 3 && r.rule[0].all && !r.rule[1].all && r.rule[2].all);
			cr_expect_eq(r.rule[1].nr, 2);
			cr_expect_eq(access_socket(&r, &gid), 0666);
		}
		access_fini(&r);
	}
}
