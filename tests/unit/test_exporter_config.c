// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exporter/config.c and answer.c: vpmu-exporter.conf, and what servers may answer, also one that
 * follows no protocol. I7 (honest): a value missing from an answer is never a number.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exporter/answer.h"
#include "exporter/config.h"
#include "service/connection.h"
#include "service/json_memory.h"

static char err[600];

static int read_text(struct exporter_config *c, const char *text)
{
	*err = '\0';
	return exporter_config_text(c, "f.conf", text, strlen(text), err, sizeof(err));
}

Test(exporter_config, defaults_and_all_keys)
{
	static const char *const words[] = {"no", "tenants", "all"};
	struct exporter_config c;
	char text[100];

	cr_assert_eq(read_text(&c, ""), 0, "%s", err);
	cr_expect_eq(c.created, METRICS_CREATED_TENANTS);
	cr_expect_eq(c.max_domains, 2000);
	cr_expect_eq(c.max_tenants, 2000);
	cr_expect_eq(c.keep_gone, 60);
	cr_expect(!c.as_of);
	cr_expect_null(c.listen);
	for (int i = 0; i < 3; i++) {
		sprintf(text, "[vpmu-exporter]\ncreated = %s\n", words[i]);
		cr_assert_eq(read_text(&c, text), 0, "%s", err);
		cr_expect_eq((int)c.created, i);
		exporter_config_fini(&c);
	}
	cr_assert_eq(read_text(&c,
			       "[vpmu-exporter]\nsocket = /s\nevents = cycles:u,r1234\n"
			       "listen = [::1]:9\ntls_cert = /c\ntls_key = /k\nusers = /u\n"
			       "max_domains = 0\nmax_tenants = 5\nkeep_gone = 0\nas_of = yes\n"),
		     0, "%s", err);
	cr_expect_str_eq(c.socket, "/s");
	cr_expect_str_eq(c.events, "cycles:u,r1234");
	cr_expect_str_eq(c.listen, "[::1]:9");
	cr_expect_str_eq(c.users, "/u");
	cr_expect_eq(c.max_domains, 0);
	cr_expect_eq(c.keep_gone, 0);
	cr_expect(c.as_of);
	exporter_config_fini(&c);
}

#define S "[vpmu-exporter]\n"

Test(exporter_config, what_is_wrong_is_said_in_one_line)
{
	static const struct {
		unsigned int line;
		const char *text, *message;
	} rows[] = {
		{__LINE__, "[metrics]\n",
		 "f.conf:1: [metrics] is invalid; expected [vpmu-exporter]"},
		{__LINE__, S S, "f.conf:2: [vpmu-exporter] given twice"},
		{__LINE__, S "x = 1\n", "vpmu-exporter/x: no such key; expected socket, events"},
		{__LINE__, S "socket = s\n", "starts with /"},
		{__LINE__, S "events = no-such-event\n", "vpmu-exporter/events: "},
		{__LINE__, S "tls_key = /k\n", "with tls_key only"},
		{__LINE__, S "tls_cert = /k\n", "with tls_cert only"},
		{__LINE__, S "listen = 9797\n", "expected ADDRESS:PORT, :PORT for"},
		{__LINE__, S "listen = :0\n", "expected ADDRESS:PORT"},
		{__LINE__, S "listen = :65536\n", "expected ADDRESS:PORT"},
		{__LINE__, S "listen = host:1\n", "expected ADDRESS:PORT"},
		{__LINE__, S "listen = unix:x\n", "expected ADDRESS:PORT"},
		{__LINE__, S "listen = [::1:1\n", "expected ADDRESS:PORT"},
		{__LINE__, S "created = yes\n", "expected all, tenants or no"},
		{__LINE__, S "as_of = tenants\n", "expected yes or no"},
		{__LINE__, S "keep_gone = 3601\n", "expected 0 to 3600 seconds"},
	};
	struct exporter_config c;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(read_text(&c, rows[i].text), -EINVAL, "line %u", rows[i].line);
		cr_expect(strstr(err, rows[i].message), "line %u: %s", rows[i].line, err);
		cr_expect_null(strpbrk(err, "\n\x1b"), "line %u: one line", rows[i].line);
		exporter_config_fini(&c);
	}
}

/* ---- answers -------------------------------------------------------------------------------- */

/* The result of a request to a server that sends @said and closes the connection. */
static int asked(const char *said, json_t **resp)
{
	struct connection c = {.fd = -1};
	int pair[2], ret;

	json_memory_init();
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	c.fd = pair[0];
	cr_assert_eq(send(pair[1], said, strlen(said), 0), (ssize_t)strlen(said));
	shutdown(pair[1], SHUT_WR);
	*err = '\0';
	ret = answer_ask(&c, json_pack("{s:s}", "cmd", "hello"), resp, err, sizeof(err));
	close(pair[1]);
	connection_close(&c);
	cr_expect_eq(!ret, *resp != NULL);
	cr_expect_eq(!ret, !*err, "%s", err);
	return ret;
}

Test(exporter_answers, what_servers_say)
{
	static const struct {
		unsigned int line;
		const char *said;
		int want;
		const char *message;
	} rows[] = {
		{__LINE__, "{\"ok\":true}\n", 0, ""},
		{__LINE__, "{\"id\":\"end\",\"ok\":true,\"rows\":[]}\n{\"ok\":true}\n", 0, ""},
		{__LINE__, "{\"ok\":false,\"errno\":2,\"error\":\"session: none\"}\n", -ENOENT,
		 "the server: session: none"},
		{__LINE__, "{\"ok\":false,\"errno\":-2}\n", -EPROTO, "does not follow"},
		{__LINE__, "{\"ok\":false,\"errno\":99999}\n", -EPROTO, "does not follow"},
		{__LINE__, "[]\n", -EPROTO, "does not follow"},
		{__LINE__, "hello\n", -EPROTO, "does not follow"},
		{__LINE__, "{\"ok\":true", -EPIPE, "it closed the connection"},
		{__LINE__, "", -EPIPE, "it closed the connection"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *resp;

		cr_expect_eq(asked(rows[i].said, &resp), rows[i].want, "line %u", rows[i].line);
		cr_expect(strstr(err, rows[i].message), "line %u: %s", rows[i].line, err);
		json_decref(resp);
	}
}

#define VALUE                                                                                      \
	"{\"count\":\"18446744073709551615\",\"enabled-ns\":\"2\",\"running-ns\":\"1\","           \
	"\"quality\":\"tsc partial\",\"supported\":true}"
#define ROW                                                                                        \
	"{\"row\":1,\"since-us\":\"5\",\"backend\":\"p\",\"kind\":\"root\",\"path\":\"/\","        \
	"\"gone\":false,\"values\":[" VALUE "]}"

/* The rows of @text without its @lack, a piece of it. */
static int rows_without(const char *text, const char *lack, struct answer_row **rows, size_t *nr)
{
	const char *at = strstr(text, lack);
	char buf[1000];
	json_t *read;
	int ret;

	cr_assert(at, "%s", lack);
	snprintf(buf, sizeof(buf), "%.*s%s", (int)(at - text), text, at + strlen(lack));
	json_memory_init();
	read = json_memory_parse(buf, strlen(buf), 0, NULL);
	cr_assert(read, "%s", buf);
	ret = answer_rows(read, 1, rows, nr);
	if (!ret && *nr)
		cr_expect_eq(rows[0]->values[0].count, UINT64_MAX);
	json_decref(read);
	return ret;
}

Test(exporter_answers, a_row_that_lacks_something_is_none)
{
	static const char *const needed[] = {"\"row\":1,",
					     "\"since-us\":\"5\",",
					     "\"backend\":\"p\",",
					     "\"kind\":\"root\",",
					     "\"path\":\"/\",",
					     "\"count\":\"18446744073709551615\",",
					     "\"enabled-ns\":\"2\",",
					     "\"running-ns\":\"1\",",
					     "\"quality\":\"tsc partial\",",
					     VALUE,
					     "5\",\"backend\":\""}; /* since-us of "p" */
	struct answer_row *rows;
	size_t nr;

	cr_assert_eq(rows_without("{\"rows\":[" ROW "]}", "", &rows, &nr), 0);
	cr_expect_eq(nr, 1);
	free(rows);
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
		cr_expect_eq(rows_without("{\"rows\":[" ROW "]}", needed[i], &rows, &nr), -EPROTO,
			     "%s", needed[i]);
		cr_expect_null(rows);
	}
	cr_expect_eq(rows_without("{\"rows\":1}", "", &rows, &nr), -EPROTO);
	cr_expect_eq(rows_without("{}", "", &rows, &nr), -EPROTO);
}
