// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Servers of vpmu-vmm in vpmud's tree, as long as they behave: VMs, tenants on two backends, counts
 * of every scope, verbs that are passed on, rights. What a bad server can do is in
 * test_vpmud_peers_bad.c.
 */
#include "peers_host.h"

TestSuite(peers, .init = bed_begin, .fini = bed_end);

Test(peers, vms_are_in_the_tree)
{
	json_t *obj;

	play_begin(&one, "one");
	play_vm(&one, "web-1", "/acme/web", "emulator", 2);
	play_vm(&one, "free", "/host", "emulator", 1);
	play_vm(&one, "hard", "/acme/web", "kvm", 4);
	look();
	cr_expect_str_eq(nodes(), "/host:free:emulator:1 /acme/web:web-1:emulator:2",
			 "KVM is not ours; %s", bed_log);
	obj = must("{\"cmd\":\"list\"}");
	for (size_t i = 0; i < json_array_size(json_object_get(obj, "nodes")); i++) {
		const json_t *n = json_array_get(json_object_get(obj, "nodes"), i);

		if (strcmp(str(n, "vm"), "web-1"))
			continue;
		cr_expect_str_eq(str(n, "state"), "running");
		cr_expect_eq(json_integer_value(json_object_get(n, "weight")), 7);
		cr_expect_str_eq(str(n, "server"), one.path);
		cr_expect_null(json_object_get(n, "surprise"));
	}
	json_decref(obj);
	/* They come, change, and go. */
	play_vm(&one, "web-2", "/acme", "emulator", 1);
	one.vm[0].gone = true;
	look();
	cr_expect_str_eq(nodes(), "/host:free:emulator:1 /acme:web-2:emulator:1");
	play_vm(&one, "web-1", "/acme/web", "emulator", 3);
	look();
	cr_expect_str_eq(nodes(),
			 "/host:free:emulator:1 /acme/web:web-1:emulator:3 /acme:web-2:emulator:1");
	strcpy(one.vm[3].path, "/globex");
	look();
	cr_expect_str_eq(
		nodes(),
		"/host:free:emulator:1 /acme/web:web-1:emulator:3 /globex:web-2:emulator:1");
	play_end(&one);
	turn();
	cr_expect_str_eq(nodes(), "", "they go with their server");
}

Test(peers, two_servers_may_have_equal_names)
{
	struct node *vm;
	char err[200], want[200];

	cr_assert_eq(tenant_vm_add(ts, tenant_find(ts, "/host"), &kernel.s, "a", 1, NULL, &vm, err,
				   sizeof(err)),
		     0);
	play_begin(&one, "one");
	play_vm(&one, "a", "/host", "emulator", 1);
	look();
	snprintf(want, sizeof(want), "/host:a:kernel:1 /host:a@%d:emulator:1", getpid());
	cr_expect_str_eq(nodes(), want);
	/* The name of the server's own is used there. */
	snprintf(want, sizeof(want), "{\"cmd\":\"pause\",\"name\":\"a@%d\"}", getpid());
	json_decref(must(want));
	cr_expect(strstr(one.last, "\"name\":\"a\""), "%s", one.last);
}

Test(peers, a_tenant_on_two_backends_has_two_rows)
{
	struct node *t, *vm;
	char err[200];
	json_t *obj;

	cr_assert_eq(tenant_add(ts, "/acme", &t, err, sizeof(err)), 0);
	cr_assert_eq(tenant_vm_add(ts, t, &kernel.s, "real", 1, NULL, &vm, err, sizeof(err)), 0);
	play_begin(&one, "one");
	play_vm(&one, "web-1", "/acme", "emulator", 2)->count = 1000;
	look();
	attach("s", "tenant", "/");
	attach("v", "vm", "/acme");
	attach("c", "vcpu", "/");
	attach("o", "none", "web-1");
	one.vm[0].count += 50;
	fake_charge(node_in(vm, &kernel.s), VPMU_EV_INSTRUCTIONS, 7);
	obj = must("{\"cmd\":\"read\",\"session\":\"s\"}");
	cr_expect_eq(count_of(obj, "kernel", "/acme", NULL), 7);
	cr_expect_eq(count_of(obj, "emulator", "/acme", NULL), 50, "only from the attach on");
	cr_expect_eq(count_of(obj, "kernel", "/", NULL), 7);
	cr_expect_eq(count_of(obj, "emulator", "/", NULL), 50);
	cr_expect_eq(count_of(obj, "emulator", "/host", NULL), 0);
	cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 6);
	json_decref(obj);
	one.vm[0].count += 3;
	cr_expect_eq(read_count("v", "emulator", "/acme", "web-1"), 53, "current when it is read");
	cr_expect_eq(read_count("v", "kernel", "/acme", "real"), 7);
	cr_expect_eq(read_count("c", "emulator", "/acme", "web-1"), 53, "the first vCPU's");
	cr_expect_eq(read_count("o", "emulator", "/acme", "web-1"), 53);
	/* What a backend cannot count is not supported there, and not zero. */
	obj = must("{\"cmd\":\"detach\",\"session\":\"o\"}");
	cr_expect(json_is_false(json_object_get(
		json_array_get(json_object_get(row_of(obj, "emulator", "/acme", "web-1"), "values"),
			       1),
		"supported")));
	json_decref(obj);
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"v\"}"));
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"c\"}"));
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"s\"}"));
	settle();
	cr_expect_eq(play_sessions(&one), 0, "sessions there end with ours");
}

Test(peers, servers_and_vms_that_come_later_are_counted)
{
	json_t *obj;

	attach("s", "tenant", "/");
	attach("v", "vm", "/");
	play_begin(&one, "one");
	play_vm(&one, "a", "/acme", "emulator", 1)->count = 500;
	look();
	one.vm[0].count += 4;
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 4);
	cr_expect_eq(read_count("v", "emulator", "/acme", "a"), 4);
	for (int i = 0; i < 7; i++) {
		char name[8];

		snprintf(name, sizeof(name), "b%d", i);
		play_vm(&one, name, "/acme", "emulator", 1);
		look();
		one.vm[i + 1].count += 10;
	}
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 74);
	cr_expect_eq(read_count("v", "emulator", "/acme", "b0"), 10);
	cr_expect_eq(read_count("v", "emulator", "/acme", "b6"), 10);
	cr_expect_leq(play_sessions(&one), 6, "not one session for each");
	/* A second server adds to the tenant on the same backend. */
	play_begin(&two, "two");
	play_vm(&two, "z", "/acme", "emulator", 1);
	look();
	two.vm[0].count += 1000;
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 1074);
	/* What a VM counted stays in its tenant, and its last row has its last counts. */
	one.vm[1].count += 5;
	one.vm[1].gone = true;
	look();
	obj = must("{\"cmd\":\"read\",\"session\":\"v\"}");
	cr_expect_eq(count_of(obj, "emulator", "/acme", "b0"), 15);
	cr_expect(json_is_true(json_object_get(row_of(obj, "emulator", "/acme", "b0"), "gone")));
	json_decref(obj);
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 1079);
}

/* A VM that was removed there and added again between two rounds is one row here. */
Test(peers, a_vm_that_was_replaced)
{
	play_begin(&one, "one");
	play_vm(&one, "a", "/acme", "emulator", 1);
	look();
	attach("v", "none", "a");
	one.vm[0].count += 100;
	cr_expect_eq(read_count("v", "emulator", "/acme", "a"), 100);
	one.vm[0].count += 20;
	one.vm[0].gone = true;
	play_vm(&one, "a", "/acme", "emulator", 1)->count = 7;
	cr_expect_eq(read_count("v", "emulator", "/acme", "a"), 127);
	one.vm[1].count += 1;
	cr_expect_eq(read_count("v", "emulator", "/acme", "a"), 128);
}

Test(peers, figures_of_servers)
{
	json_t *obj, *emulator;

	play_begin(&one, "one");
	play_begin(&two, "two");
	play_vm(&one, "a", "/acme", "emulator", 1);
	look();
	obj = must("{\"cmd\":\"sharing\"}");
	emulator = json_array_get(json_object_get(obj, "backends"), 1);
	cr_expect_str_eq(str(emulator, "backend"), "emulator");
	cr_expect_eq(json_integer_value(json_object_get(emulator, "consumers")), 10);
	cr_expect_eq(json_integer_value(json_object_get(emulator, "host-counters")), 8);
	json_decref(obj);
}

Test(peers, verbs_are_passed_on)
{
	json_t *obj;

	play_begin(&one, "one");
	play_vm(&one, "a", "/acme", "emulator", 1);
	look();
	json_decref(must("{\"cmd\":\"pause\",\"name\":\"a\",\"id\":5}"));
	cr_expect(strstr(one.last, "\"cmd\":\"pause\"") && strstr(one.last, "\"name\":\"a\""), "%s",
		  one.last);
	obj = must("{\"cmd\":\"console-read\",\"name\":\"a\",\"id\":\"mine\"}");
	cr_expect_str_eq(str(obj, "next"), "6");
	cr_expect_str_eq(str(obj, "id"), "mine", "the client's own id");
	json_decref(obj);
	obj = must("{\"cmd\":\"lbr-read\",\"target\":\"a\"}");
	cr_expect_str_eq(str(json_array_get(json_object_get(obj, "rows"), 0), "vm"), "a");
	json_decref(obj);
	cr_expect_str_eq(refused("{\"cmd\":\"vm-set\",\"name\":\"a\",\"weight\":7}"),
			 "no such session", "its error is the answer");
	cr_expect(
		strstr(refused("{\"cmd\":\"profile-start\",\"event\":\"cycles\",\"target\":\"a\"}"),
		       one.path));
	cr_expect(strstr(refused("{\"cmd\":\"lbr-attach\",\"target\":\"a\"}"), one.path));
	cr_expect(strstr(refused("{\"cmd\":\"pause\",\"name\":\"b\"}"), "no VM \"b\""));
	cr_expect(strstr(refused("{\"cmd\":\"pause\"}"), "name"));
	/* Who asks after it sees what has changed. */
	json_decref(must("{\"cmd\":\"vm-remove\",\"name\":\"a\"}"));
	cr_expect_str_eq(nodes(), "");
}

Test(peers, verbs_of_other_vms_are_refused)
{
	struct node *vm;
	char err[200];

	cr_assert_eq(tenant_vm_add(ts, tenant_find(ts, "/host"), &kernel.s, "q", 1, NULL, &vm, err,
				   sizeof(err)),
		     0);
	cr_expect(strstr(refused("{\"cmd\":\"pause\",\"name\":\"q\"}"), "no vpmu-vmm's"));
}

/* Its own rows, and those of each server with where it is. */
Test(peers, conservation_of_servers)
{
	json_t *obj, *rows, *row;

	play_begin(&one, "one");
	play_begin(&two, "two");
	play_vm(&one, "a", "/acme", "emulator", 1);
	look();
	one.half = true;
	obj = must("{\"cmd\":\"conservation\",\"id\":\"mine\"}");
	cr_expect_str_eq(str(obj, "id"), "mine", "the client's own id");
	rows = json_object_get(obj, "rows");
	cr_assert_eq(json_array_size(rows), 2);
	row = json_array_get(rows, strcmp(str(json_array_get(rows, 0), "server"), one.path) != 0);
	cr_expect_str_eq(str(row, "server"), one.path);
	cr_expect_str_eq(str(row, "backend"), "emulator");
	cr_expect_str_eq(str(row, "hardware"), "18446744073709551615");
	cr_expect_str_eq(str(row, "charged"), "7");
	cr_expect_eq(json_integer_value(json_object_get(row, "pcpu")), 1);
	cr_expect_null(json_object_get(obj, "missing"));
	json_decref(obj);
	/* Without servers it is as it was. */
	play_end(&one);
	play_end(&two);
	look();
	obj = must("{\"cmd\":\"conservation\"}");
	cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 0);
	cr_expect_null(json_object_get(obj, "missing"));
	json_decref(obj);
}

/* ---- rights --------------------------------------------------------------------------------- */

/* A child that is user and group 65534, asks @line, and writes the answer to @out. */
static void ask_as_nobody(const char *line, char *out, size_t len)
{
	int p[2];
	ssize_t n;
	pid_t pid;

	cr_assert_eq(pipe(p), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		struct sockaddr_un addr = {.sun_family = AF_UNIX};
		char buf[65536];
		int fd;

		if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
			_exit(1);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		strcpy(addr.sun_path, sock);
		if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ||
		    send(fd, line, strlen(line), 0) < 0 || send(fd, "\n", 1, 0) < 0)
			_exit(2);
		n = 0;
		while (n < (ssize_t)sizeof(buf)) {
			ssize_t got = recv(fd, buf + n, sizeof(buf) - (size_t)n, 0);

			if (got <= 0)
				break;
			n += got;
			if (memchr(buf, '\n', (size_t)n))
				break;
		}
		_exit(write(p[1], buf, (size_t)n) == n ? 0 : 3);
	}
	close(p[1]);
	fcntl(p[0], F_SETFL, O_NONBLOCK);
	n = 0;
	until(({
		ssize_t got = read(p[0], out + n, len - 1 - (size_t)n);

		n += got > 0 ? got : 0;
		got == 0;
	}));
	out[n] = '\0';
	close(p[0]);
	waitpid(pid, NULL, 0);
}

static void reader_begin(void)
{
	char err[200];

	if (geteuid())
		cr_skip_test("needs root, to be somebody else");
	cr_assert_eq(access_parse(&bed_access, NULL, "65534=/acme", err, sizeof(err)), 0);
	bed_begin();
	chmod(bed_dir, 0755);
}

Test(peers_reader, sees_its_tenants_and_changes_nothing, .init = reader_begin, .fini = bed_end)
{
	char text[65536];

	play_begin(&one, "one");
	play_vm(&one, "mine", "/acme/web", "emulator", 1);
	play_vm(&one, "other", "/globex", "emulator", 1);
	look();
	ask_as_nobody("{\"cmd\":\"list\"}", text, sizeof(text));
	cr_expect(strstr(text, "mine") && !strstr(text, "other") && !strstr(text, "globex"), "%s",
		  text);
	*one.last = '\0';
	for (const char *const *line =
		     (const char *const[]){"{\"cmd\":\"pause\",\"name\":\"mine\"}",
					   "{\"cmd\":\"vm-remove\",\"name\":\"mine\"}",
					   "{\"cmd\":\"console-read\",\"name\":\"mine\"}",
					   "{\"cmd\":\"lbr-read\",\"target\":\"mine\"}", NULL};
	     *line; line++) {
		ask_as_nobody(*line, text, sizeof(text));
		cr_expect(strstr(text, "administrators only"), "%s: %s", *line, text);
	}
	ask_as_nobody("{\"cmd\":\"lbr-read\",\"target\":\"other\"}", text, sizeof(text));
	cr_expect(strstr(text, "no VM"), "%s", text);
	ask_as_nobody("{\"cmd\":\"profile-start\",\"event\":\"cycles\",\"target\":\"other\"}", text,
		      sizeof(text));
	cr_expect(strstr(text, "no VM"), "%s", text);
	cr_expect_str_eq(one.last, "", "nothing was passed on");
	ask_as_nobody("{\"cmd\":\"attach\",\"events\":\"instructions\",\"scope\":\"vm\","
		      "\"target\":\"/acme\",\"name\":\"r\"}",
		      text, sizeof(text));
	cr_expect(strstr(text, "\"nr-rows\":1"), "%s", text);
	ask_as_nobody("{\"cmd\":\"attach\",\"events\":\"instructions\",\"scope\":\"tenant\","
		      "\"target\":\"/\",\"name\":\"r2\"}",
		      text, sizeof(text));
	one.vm[0].count = 11;
	one.vm[1].count = 999;
	ask_as_nobody("{\"cmd\":\"read\",\"session\":\"r2\"}", text, sizeof(text));
	cr_expect(strstr(text, "\"11\"") && !strstr(text, "\"999\"") && !strstr(text, "\"1010\""),
		  "%s", text);
}
