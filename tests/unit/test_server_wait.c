// SPDX-License-Identifier: GPL-2.0-or-later
/* server_wait in service/server.h: commands that are answered later, and other clients until then.
 */
#include "server_bed.h"
#include "service/session.h"

/* The command `wait`: it waits the first time, and returns the number of its runs. */
static struct later *waits;
static unsigned int runs, losses;
static bool refuse;

static void on_lost(void *arg)
{
	cr_expect_eq(arg, &losses);
	losses++;
	waits = NULL;
}

static int cmd_wait(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct later *l = server_wait(srv, on_lost, &losses);

	runs++;
	if (l && refuse) {
		snprintf(err, errlen, "wait: refused");
		return -EPERM;
	}
	if (l) {
		waits = l;
		return 0;
	}
	return json_object_set_new(resp, "runs", json_integer(runs));
}

static void setup(void)
{
	server_setup();
	runs = losses = 0;
	refuse = false;
	waits = NULL;
	cr_assert_eq(server_register(srv, "wait", cmd_wait, NULL), 0);
}

TestSuite(server_wait, .init = setup, .fini = server_teardown);

/* The condition holds. */
static void go_on(int ret, const char *err)
{
	struct later *l = waits;

	cr_assert(l);
	waits = NULL;
	server_go_on(l, ret, err);
}

Test(server_wait, others_are_served_and_answers_keep_their_order)
{
	int fd = dial(), other = dial();

	say(fd, "{\"cmd\":\"wait\",\"id\":1}\n{\"cmd\":\"sharing\",\"id\":2}\n");
	cr_expect_eq(take(fd), 0, "%s", answer);
	cr_expect_eq(runs, 1);
	cr_expect_eq(lines(reply(other, "{\"cmd\":\"sharing\"}\n")), 1, "%s", answer);
	go_on(0, NULL);
	take(fd);
	cr_expect_eq(runs, 2);
	cr_expect_eq(lines(answer), 2, "%s", answer);
	cr_expect_eq(strncmp(answer, "{\"runs\":2,\"ok\":true,\"id\":1}\n", 28), 0, "%s", answer);
	cr_expect(strstr(answer, "\"id\":2"), "%s", answer);
	cr_expect_eq(losses, 0);
	close(fd);
	close(other);
	pump();
}

Test(server_wait, an_error_instead)
{
	int fd = dial();

	reply(fd, "{\"cmd\":\"wait\",\"id\":\"a\"}\n");
	go_on(-ENOEXEC, "wait: it is no kernel");
	take(fd);
	cr_expect_str_eq(answer, "{\"ok\":false,\"errno\":8,\"error\":\"wait: it is no kernel\","
				 "\"id\":\"a\"}\n");
	cr_expect_eq(runs, 1);
	/* A command that fails at once does not wait. */
	refuse = true;
	reply(fd, "{\"cmd\":\"wait\"}\n");
	cr_expect_str_eq(answer, "{\"ok\":false,\"errno\":1,\"error\":\"wait: refused\"}\n");
	cr_expect_eq(lines(reply(fd, "{\"cmd\":\"sharing\"}\n")), 1, "%s", answer);
	cr_expect_eq(losses, 0);
	close(fd);
	pump();
}

Test(server_wait, a_client_that_goes_waits_no_more)
{
	int fd = dial();

	reply(fd, "{\"cmd\":\"wait\"}\n");
	cr_assert(waits);
	close(fd);
	pump();
	cr_expect_eq(losses, 1);
	cr_expect_null(waits);
	/* Half closed it is there, and gets its answer. */
	fd = dial();
	say(fd, "{\"cmd\":\"wait\"}\n");
	shutdown(fd, SHUT_WR);
	take(fd);
	cr_expect_eq(losses, 1);
	go_on(0, NULL);
	take(fd);
	cr_expect(strstr(answer, "\"runs\":3"), "%s", answer);
	close(fd);
	pump();
}

Test(server_wait, a_client_that_waits_is_not_idle)
{
	int fd[SERVER_CLIENTS_MAX], more;
	struct timespec idle = {.tv_sec = SERVER_IDLE_MS / 1000, .tv_nsec = 100000000};

	/* It is the one that has been silent for longest. */
	fd[0] = dial();
	reply(fd[0], "{\"cmd\":\"wait\"}\n");
	for (int i = 1; i < SERVER_CLIENTS_MAX; i++) {
		fd[i] = dial();
		pump();
	}
	nanosleep(&idle, NULL);
	more = dial();
	cr_expect_eq(lines(reply(more, "{\"cmd\":\"sharing\"}\n")), 1, "%s", answer);
	cr_expect_eq(losses, 0, "another one was dropped");
	go_on(0, NULL);
	take(fd[0]);
	cr_expect(strstr(answer, "\"runs\":2"), "%s", answer);
	for (int i = 0; i < SERVER_CLIENTS_MAX; i++)
		close(fd[i]);
	close(more);
	pump();
}

/* The next server goes on with the sessions that have a name; others end with their connection. */
Test(server_wait, named_sessions_outlive_the_server)
{
	struct registry *r = sessions_registry(server_sessions(srv));
	int fd = dial();

	reply(fd, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"mine\"}\n"
		  "{\"cmd\":\"attach\",\"events\":\"cycles\"}\n"
		  "{\"cmd\":\"attach\",\"events\":\"cycles\",\"name\":\"kept\",\"keep\":true}\n");
	cr_assert_eq(r->nr, 3);
	server_leave(srv);
	cr_expect_gt(recv(fd, answer, sizeof(answer), 0), 0);
	cr_expect(strstr(answer, "\"rows\":") && strstr(answer, "\"session\":\"mine\""), "%s",
		  answer);
	cr_expect_eq(r->nr, 2);
	for (const struct registered *e = r->first; e; e = e->next)
		cr_expect(!e->owner && (strcmp(e->name, "mine") == 0) == (e->lost_ns != 0), "%s",
			  e->name);
	close(fd);
}

Test(server_wait, nobody_to_wait_for_or_the_server_ends)
{
	json_t *obj = ask("{\"cmd\":\"wait\"}"); /* no connection */
	int fd = dial();

	cr_expect_eq(json_integer_value(json_object_get(obj, "runs")), 1);
	cr_expect_null(waits);
	json_decref(obj);
	reply(fd, "{\"cmd\":\"wait\"}\n");
	cr_assert(waits);
	server_leave(srv);
	cr_expect_eq(losses, 1);
	cr_expect_eq(recv(fd, answer, sizeof(answer), 0), 0, "closed without an answer");
	close(fd);
}
