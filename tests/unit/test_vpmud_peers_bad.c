// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Servers of vpmu-vmm that hang, lie, end, or are none. Each test has a good server beside the bad
 * one, which must not be the worse for it.
 */
#include "vpmud/peer_priv.h"
#include "peers_host.h"

TestSuite(peers_bad, .init = bed_begin, .fini = bed_end);

/* A bad server and a good one, each with a VM in /acme that has counted 100 for session "s". */
static void populate(void)
{
	play_begin(&one, "bad");
	play_begin(&two, "good");
	play_vm(&one, "b", "/acme", "emulator", 1);
	play_vm(&two, "g", "/acme", "emulator", 1);
	play_vm(&two, "h", "/globex", "emulator", 1);
	look();
	attach("s", "tenant", "/");
	attach("v", "vm", "/");
	one.vm[0].count = two.vm[0].count = two.vm[1].count = 100;
	cr_assert_eq(read_count("s", "emulator", "/acme", NULL), 200, "%s", bed_log);
}

/* The quality of the first value in that row. A static string. */
static const char *quality_of(const char *session, const char *path)
{
	static char text[64];
	char line[100];
	json_t *obj;

	snprintf(line, sizeof(line), "{\"cmd\":\"read\",\"session\":\"%s\"}", session);
	obj = must(line);
	snprintf(text, sizeof(text), "%s",
		 str(json_array_get(json_object_get(row_of(obj, "emulator", path, NULL), "values"),
				    0),
		     "quality"));
	json_decref(obj);
	return text;
}

static void good_is_well(long long n)
{
	cr_expect(strstr(nodes(), "/acme:g:emulator:1"), "%s; %s", nodes(), bed_log);
	cr_expect_eq(read_count("v", "emulator", "/acme", "g"), n);
	cr_expect_eq(read_count("s", "emulator", "/globex", NULL), 100);
	cr_expect_str_eq(quality_of("s", "/globex"), "exact", "nothing of it is missing");
}

/* The server "bad" has been given up, for the reason @why. */
static void given_up(const char *why)
{
	for (int i = 0; i < 50 && !strstr(bed_log, why); i++)
		look();
	cr_assert(strstr(bed_log, why), "%s", bed_log);
	turn();
	cr_expect(!strstr(nodes(), ":b:"), "%s; %s", nodes(), bed_log);
	two.vm[0].count = 150;
	good_is_well(150);
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 250, "what it said stays");
	cr_expect_str_eq(quality_of("s", "/acme"), "partial", "and what it did not say is missing");
}

/* ---- it hangs ------------------------------------------------------------------------------- */

/* Nobody is late on a machine that is slow, until the test says so. */
static void bed_patient(void)
{
	bed_begin();
	peers->late_ns = WAIT_NS;
}

/* From now on whoever has not answered at once is late, and perhaps the good one for a moment. */
static void impatient(void)
{
	peers->late_ns = 1000000;
}

Test(peers_hang, only_those_wait_who_ask_about_it, .init = bed_patient, .fini = bed_end)
{
	struct talk *t = malloc(sizeof(*t)), *u = malloc(sizeof(*u));
	json_t *obj;

	cr_assert(t && u);
	populate();
	attach("g", "none", "g");
	one.hangs = true;
	talk_begin(t);
	talk_begin(u);
	say(t, "{\"cmd\":\"read\",\"session\":\"s\",\"id\":1}");
	turn();
	obj = heard(t);
	cr_assert_null(obj, "it waits for the server");
	/* Others are answered, by what is known and by the good server. */
	say(u, "{\"cmd\":\"list\"}");
	for (int i = 0; i < 20; i++)
		turn();
	obj = heard(u);
	cr_assert(obj, "nobody else waits");
	json_decref(obj);
	two.vm[0].count = 130;
	say(u, "{\"cmd\":\"read\",\"session\":\"g\"}");
	for (int i = 0; i < 20; i++)
		turn();
	obj = heard(u);
	cr_assert(obj, "nor who asks about another server's VM");
	cr_expect_eq(count_of(obj, "emulator", "/acme", "g"), 30);
	json_decref(obj);
	cr_assert_null(heard(t));
	impatient();
	/* In the end it is answered, too: not counted, and why. */
	until((obj = heard(t)));
	cr_expect_eq(count_of(obj, "emulator", "/acme", NULL), -2);
	cr_expect(strstr(str(row_of(obj, "emulator", "/acme", NULL), "error"), one.path));
	cr_expect(json_array_size(json_object_get(obj, "late")));
	json_decref(obj);
	until(read_count("s", "emulator", "/globex", NULL) == 100); /* which has none of its VMs */
	cr_expect_eq(read_count("v", "emulator", "/acme", "b"), -2);
	cr_expect(strstr(refused("{\"cmd\":\"pause\",\"name\":\"b\"}"), "does not answer"));
	cr_expect(strstr(nodes(), "/acme:b:emulator:1"), "it is still there: %s", nodes());
	/* It goes on, and nothing is lost. */
	one.vm[0].count = 170;
	one.hangs = false;
	peers->late_ns = WAIT_NS;
	until(read_count("s", "emulator", "/acme", NULL) == 300);
	cr_expect_str_eq(quality_of("s", "/acme"), "exact");
	until(read_count("v", "emulator", "/acme", "b") == 170);
	talk_end(t);
	talk_end(u);
	free(t);
	free(u);
}

Test(peers_hang, a_client_that_goes_waits_no_more, .init = bed_patient, .fini = bed_end)
{
	struct talk *t = malloc(sizeof(*t));

	cr_assert(t);
	populate();
	one.hangs = true;
	talk_begin(t);
	say(t, "{\"cmd\":\"read\",\"session\":\"s\"}");
	turn();
	talk_end(t);
	talk_begin(t);
	say(t, "{\"cmd\":\"pause\",\"name\":\"b\"}");
	turn();
	talk_end(t);
	impatient();
	until(strstr(bed_log, "bad.sock: it does not answer"));
	until(read_count("v", "emulator", "/acme", "g") == 100);
	until(read_count("s", "emulator", "/globex", NULL) == 100);
	free(t);
}

Test(peers_hang, a_server_that_hangs_from_the_start, .init = bed_patient, .fini = bed_end)
{
	play_begin(&one, "bad");
	one.hangs = true;
	play_begin(&two, "good");
	play_vm(&two, "g", "/acme", "emulator", 1);
	look();
	attach("s", "tenant", "/");
	two.vm[0].count = 5;
	impatient();
	until(strstr(bed_log, "bad.sock: it does not answer"));
	until(read_count("s", "emulator", "/acme", NULL) == 5);
	until(read_count("s", "emulator", "/", NULL) == 5); /* it has no VMs */
}

/* A command that is passed on to a server that reads it and does not answer. */
Test(peers_hang, a_verb_has_a_time_limit, .init = bed_patient, .fini = bed_end)
{
	populate();
	one.instead_of = "vm-set";
	one.raw = "";
	impatient();
	cr_expect(strstr(refused("{\"cmd\":\"vm-set\",\"name\":\"b\",\"weight\":3}"),
			 "may still do what was asked"));
}

/* ---- it is replaced, or ends ---------------------------------------------------------------- */

/* The only server that is not compared, and why. */
static void is_missing(const json_t *answer, const char *path, const char *why)
{
	const json_t *missing = json_object_get(answer, "missing");

	cr_assert_eq(json_array_size(missing), 1);
	cr_expect_str_eq(str(json_array_get(missing, 0), "server"), path);
	cr_expect(strstr(str(json_array_get(missing, 0), "why"), why), "%s, not %s",
		  str(json_array_get(missing, 0), "why"), why);
}

Test(peers_hang, conservation_waits_for_a_server_and_not_for_ever, .init = bed_patient,
     .fini = bed_end)
{
	struct talk *t = malloc(sizeof(*t)), *u = malloc(sizeof(*u));
	json_t *obj;

	cr_assert(t && u);
	populate();
	one.hangs = true;
	talk_begin(t);
	talk_begin(u);
	say(t, "{\"cmd\":\"conservation\"}");
	say(u, "{\"cmd\":\"conservation\"}");
	for (int i = 0; i < 20; i++)
		turn();
	obj = heard(t);
	cr_assert_null(obj, "it waits for the server");
	talk_end(u); /* and goes away */
	for (int i = 0; i < 20; i++)
		turn();
	one.hangs = false;
	until((obj = heard(t)));
	cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 2);
	cr_expect_null(json_object_get(obj, "missing"));
	json_decref(obj);
	one.hangs = true;
	impatient();
	say(t, "{\"cmd\":\"conservation\"}");
	until((obj = heard(t)));
	/* The good one may have been late for a moment, too. */
	cr_expect(json_array_size(json_object_get(obj, "missing")));
	json_decref(obj);
	peers->late_ns = WAIT_NS;
	one.hangs = false;
	until(!peers->peer[0]->late && !peers->peer[1]->late);
	say(t, "{\"cmd\":\"conservation\"}");
	until((obj = heard(t)));
	cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 2);
	json_decref(obj);
	talk_end(t);
	free(t);
	free(u);
}

/* No row of such a server is shown, and it stays a server: its VMs are counted. */
Test(peers_bad, conservation_that_cannot_be)
{
	static const char *const answers[][2] = {
		{"{\"id\":1,\"ok\":false,\"errno\":110,\"error\":\"CPU 3\\nis late\"}\n",
		 "CPU 3 is late"},
		{"{\"id\":1,\"ok\":false}\n", "does not say why"},
		{"{\"id\":1,\"ok\":true}\n", "no conservation"},
		{"{\"id\":1,\"ok\":true,\"rows\":[7]}\n", "no conservation"},
		{"{\"id\":1,\"ok\":true,\"rows\":[{\"backend\":\"emulator\",\"pcpu\":0,\"event\":"
		 "\"cycles\","
		 "\"hardware\":\"1\",\"charged\":\"1\"},{\"backend\":\"emulator\",\"pcpu\":0,"
		 "\"event\":\"cycles\",\"hardware\":\"-1\",\"charged\":\"1\"}]}\n",
		 "no conservation"},
		{"{\"id\":1,\"ok\":true,\"rows\":[{\"backend\":\"emulator\",\"pcpu\":-1,\"event\":"
		 "\"cycles\","
		 "\"hardware\":\"1\",\"charged\":\"1\"}]}\n",
		 "no conservation"},
		{"{\"id\":1,\"ok\":true,\"rows\":[{\"backend\":\"emulator\",\"pcpu\":0,\"event\":"
		 "\"a\\u001b[2J\","
		 "\"hardware\":\"1\",\"charged\":\"1\"}]}\n",
		 "no conservation"},
		{"{\"id\":1,\"ok\":true,\"rows\":[{\"backend\":\"emulator\",\"pcpu\":0,\"event\":"
		 "\"cycles\","
		 "\"hardware\":\"18446744073709551616\",\"charged\":\"1\"}]}\n",
		 "no conservation"},
		{"HTTP/1.1 200 OK\n", "is no JSON"},
	};
	json_t *obj;

	populate();
	one.instead_of = "conservation";
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		one.raw = answers[i][0];
		obj = must("{\"cmd\":\"conservation\"}");
		cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 1, "%s", one.raw);
		cr_expect_str_eq(str(json_array_get(json_object_get(obj, "rows"), 0), "server"),
				 two.path);
		is_missing(obj, one.path, answers[i][1]);
		json_decref(obj);
	}
	one.instead_of = NULL;
	look();
	cr_expect(strstr(nodes(), "emulator"));
}

Test(peers_bad, another_one_takes_its_place_while_it_hangs)
{
	static struct played old;

	populate();
	one.hangs = true;
	old = one;
	play_begin(&one, "bad");
	play_vm(&one, "n", "/acme", "emulator", 1);
	look();
	cr_expect(strstr(nodes(), "/acme:n:emulator:1") && !strstr(nodes(), ":b:"), "%s", nodes());
	one.vm[0].count = 9;
	cr_expect_eq(read_count("v", "emulator", "/acme", "n"), 9);
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 209);
	close(old.listen);
	for (unsigned int i = 0; i < old.nr_clients; i++)
		close(old.client[i].fd);
}

Test(peers_bad, killed)
{
	json_t *obj;

	populate();
	one.vm[0].count = 190; /* nobody will know */
	play_end(&one);
	turn();
	obj = must("{\"cmd\":\"read\",\"session\":\"v\"}");
	cr_expect_eq(count_of(obj, "emulator", "/acme", "b"), -2, "its last counts are not known");
	cr_expect(strstr(str(row_of(obj, "emulator", "/acme", "b"), "error"), "it has ended"));
	json_decref(obj);
	given_up("it has ended");
	/* The next one at that place is another one. */
	play_begin(&one, "bad");
	play_vm(&one, "b", "/acme", "emulator", 1)->count = 1000;
	look();
	one.vm[0].count += 7;
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 257);
	cr_expect_eq(read_count("v", "emulator", "/acme", "b"), 7);
}

Test(peers_bad, ends_and_says_its_last_counts)
{
	json_t *obj;

	populate();
	one.vm[0].count = 190;
	for (unsigned int i = 0; i < SESSIONS; i++) {
		char *text, *line;

		if (!one.session[i].open)
			continue;
		obj = play_rows(&one, &one.session[i]);
		json_object_set_new(obj, "ok", json_true());
		json_object_set_new(obj, "id", json_string("end"));
		text = json_dumps(obj, JSON_COMPACT);
		cr_assert_geq(asprintf(&line, "%s\n", text), 0);
		play_send(&one, one.client[0].fd, line);
		free(line);
		free(text);
		json_decref(obj);
	}
	play_end(&one);
	turn();
	obj = must("{\"cmd\":\"read\",\"session\":\"v\"}");
	cr_expect_eq(count_of(obj, "emulator", "/acme", "b"), 190);
	json_decref(obj);
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 290);
	cr_expect_str_eq(quality_of("s", "/acme"), "exact", "nothing is missing");
}

/* ---- it lies -------------------------------------------------------------------------------- */

Test(peers_bad, answers_in_pieces_are_answers)
{
	populate();
	one.half = true;
	one.vm[0].count = 120;
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 220);
}

Test(peers_bad, no_json)
{
	populate();
	one.instead_of = "list";
	one.raw = "HTTP/1.1 200 OK\n";
	given_up("is no JSON");
}

Test(peers_bad, no_answer)
{
	populate();
	one.instead_of = "read";
	one.raw = "{\"id\":1}\n";
	given_up("is no answer");
}

Test(peers_bad, an_answer_that_nobody_asked_for)
{
	populate();
	one.instead_of = "sharing";
	one.raw = "{\"ok\":true,\"id\":777,\"backends\":[]}\n";
	given_up("what was not asked");
}

Test(peers_bad, a_line_without_end)
{
	char *line = malloc(PEERS_LINE_MAX + (1 << 20));

	cr_assert(line);
	memset(line, ' ', PEERS_LINE_MAX + (1 << 20));
	line[PEERS_LINE_MAX + (1 << 20) - 1] = '\0';
	populate();
	one.instead_of = "sharing";
	one.raw = line;
	given_up("longer than is accepted");
	free(line);
}

Test(peers_bad, brackets_by_the_million)
{
	char *line = malloc(2000001);

	cr_assert(line);
	memset(line, ',', 2000000);
	line[0] = '[';
	line[1999999] = '\n';
	line[2000000] = '\0';
	populate();
	one.instead_of = "sharing";
	one.raw = line;
	given_up("brackets");
	free(line);
}

Test(peers_bad, counts_that_go_back)
{
	populate();
	one.back = 1;
	given_up("go back");
}

/* What is in its lists must be names and numbers that can be. */
Test(peers_bad, nodes_that_cannot_be)
{
	static const struct {
		const char *name, *path;
		unsigned int vcpus;
	} bad[] = {
		{"../x", "/acme", 1}, {"x y", "/acme", 1}, {"", "/acme", 1},	   {"x", "acme", 1},
		{"x", "/host/a", 1},  {"x", "/a/../b", 1}, {"x", "/acme", 100000},
	};

	play_begin(&two, "good");
	play_vm(&two, "g", "/acme", "emulator", 1);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char name[16];

		*bed_log = '\0';
		snprintf(name, sizeof(name), "bad%zu", i);
		play_begin(&one, name);
		play_vm(&one, bad[i].name, bad[i].path, "emulator", bad[i].vcpus);
		look();
		cr_expect(strstr(bed_log, "a node that cannot be one"), "%s in %s: %s", bad[i].name,
			  bad[i].path, bed_log);
		cr_expect_str_eq(nodes(), "/acme:g:emulator:1");
		play_end(&one);
	}
}

Test(peers_bad, more_nodes_than_are_accepted)
{
	play_begin(&one, "bad");
	for (int i = 0; i < 9; i++) {
		char name[8];

		snprintf(name, sizeof(name), "v%d", i);
		play_vm(&one, name, "/acme", "emulator", 4096);
	}
	look();
	cr_expect(strstr(bed_log, "more than 32768"), "%s", bed_log);
	cr_expect_str_eq(nodes(), "");
}

/* Rows of VMs that it does not have are nobody's, whatever they say. */
Test(peers_bad, rows_of_others)
{
	populate();
	/* Not in its list, so they are rows of nothing. */
	play_vm(&one, "g", "/globex", "kvm", 1)->count = 5000;
	play_vm(&one, "k", "/globex", "kernel", 1)->count = 5000;
	look();
	good_is_well(100);
	cr_expect_eq(read_count("s", "kernel", "/", NULL), 0, "no count of the BPF backend");
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), 200);
}

/* A session of ours that somebody else has ended there. */
Test(peers_bad, a_session_that_is_gone)
{
	populate();
	for (unsigned int i = 0; i < SESSIONS; i++)
		one.session[i].open = false;
	cr_expect_eq(read_count("s", "emulator", "/acme", NULL), -2);
	cr_expect_eq(read_count("v", "emulator", "/acme", "b"), -2);
	good_is_well(100);
}

/* ---- it is none ----------------------------------------------------------------------------- */

Test(peers_bad, something_else_listens_there)
{
	play_begin(&one, "bad");
	one.name = "vpmud";
	play_vm(&one, "b", "/acme", "emulator", 1);
	look();
	cr_expect_str_eq(nodes(), "");
	cr_expect(strstr(bed_log, "it is no vpmu-vmm"), "%s", bed_log);
}

Test(peers_bad, another_user_s)
{
	if (geteuid())
		cr_skip_test("needs root, to be somebody else");
	chmod(bed_dir, 0777);
	cr_assert_eq(seteuid(65534), 0);
	play_begin(&one, "bad"); /* the kernel notes who listens */
	cr_assert_eq(seteuid(0), 0);
	play_vm(&one, "b", "/acme", "emulator", 1);
	look();
	cr_expect_str_eq(nodes(), "");
	cr_expect(strstr(bed_log, "a server of user 65534"), "%s", bed_log);
	cr_expect_eq(one.asked, 0, "it is told nothing");
}

Test(peers_bad, files_that_are_no_sockets)
{
	char path[100];
	FILE *f;

	snprintf(path, sizeof(path), "%s/x.sock", bed_dir);
	f = fopen(path, "w");
	cr_assert(f);
	fclose(f);
	look();
	cr_expect_str_eq(bed_log, "");
	unlink(path);
}

static void bed_nowhere(void)
{
	bed_begin_at("none", 0);
}

Test(peers_none, no_places, .init = bed_nowhere, .fini = bed_end)
{
	play_begin(&one, "one");
	play_vm(&one, "b", "/acme", "emulator", 1);
	look();
	cr_expect_str_eq(nodes(), "");
	cr_expect_eq(one.asked, 0);
}

Test(peers_places, what_is_accepted)
{
	cr_expect(peers_places_ok("none"));
	cr_expect(peers_places_ok("/run/vpmu/*.sock"));
	cr_expect(peers_places_ok(" /a\t/b  /c "));
	cr_expect_not(peers_places_ok(""));
	cr_expect_not(peers_places_ok(" "));
	cr_expect_not(peers_places_ok("none /a"));
	cr_expect_not(peers_places_ok("/a none"));
	cr_expect_not(peers_places_ok("run/x"));
}
