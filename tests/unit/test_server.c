// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * service/server.c, commands.c, request.c: the protocol and hostile requests. Clients:
 * test_server_clients.c; rights: test_server_access.c.
 */
#include "server_bed.h"

TestSuite(server, .init = server_setup, .fini = server_teardown);

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
		{__LINE__, "{\"cmd\":\"read\",\"keep-gone\":3601}", "keep-gone: 3601", EINVAL},
		{__LINE__, "{\"cmd\":\"read\",\"keep-gone\":\"1\"}", "keep-gone: a string", EINVAL},
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
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"cpus\":0}",
		 "cpus: an integer", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"cpus\":\"\"}",
		 "cpus: 0 bytes", EINVAL},
		{__LINE__,
		 "{\"cmd\":\"attach\",\"events\":\"cycles\",\"cpus\":\"0\",\"name\":\"a\"}",
		 "cpus: a session with a name", EINVAL},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"cpus\":\"0\"}",
		 "does not count single CPUs", EOPNOTSUPP},
		{__LINE__, "{\"cmd\":\"attach\",\"events\":\"cycles\",\"evnts\":1}",
		 "expected events, scope, target, name, keep, metrics", EINVAL},
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
		json_t *obj = keep(ask(rows[i].req));
		json_int_t no = json_integer_value(json_object_get(obj, "errno"));

		cr_expect(json_is_false(json_object_get(obj, "ok")), "line %d", rows[i].line);
		cr_expect(strstr(str(obj, "error"), rows[i].names), "line %d: \"%s\" not in: %s",
			  rows[i].line, rows[i].names, str(obj, "error"));
		cr_expect(no > 0 && (!rows[i].err || no == rows[i].err), "line %d: errno %d",
			  rows[i].line, (int)no);
	}
	/* Nothing was left behind. */
	json_t *obj = keep(must("{\"cmd\":\"sessions\"}"));

	cr_expect_eq(json_array_size(json_object_get(obj, "sessions")), 0);
}

Test(server, too_long_or_with_nul)
{
	static char line[SERVER_LINE_MAX + 1];
	json_t *obj;

	memset(line, ' ', sizeof(line));
	obj = keep(ask_len(line, SERVER_LINE_MAX));
	cr_expect_eq(json_integer_value(json_object_get(obj, "errno")), EMSGSIZE);
	obj = keep(ask_len("{\"cmd\":\"hello\"}\0", 16));
	cr_expect(json_is_false(json_object_get(obj, "ok")));
}

/* ---- the commands ------------------------------------------------------------------------- */

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
	obj = keep(must("{\"cmd\":\"echo\",\"n\":10,\"id\":\"q1\"}"));
	cr_expect_eq(json_integer_value(json_object_get(obj, "n")), 10);
	cr_expect_str_eq(str(obj, "id"), "q1");
	obj = keep(ask("{\"cmd\":\"echo\",\"n\":11}"));
	cr_expect_str_eq(str(obj, "error"), "n: 11 is invalid; expected 1 to 10");
	obj = keep(ask("{\"cmd\":\"echo\",\"n\":-1,\"id\":5}"));
	cr_expect_str_eq(str(obj, "error"), "n: -1 is invalid; expected 1 to 10");
	cr_expect_eq(json_integer_value(json_object_get(obj, "id")), 5, "errors carry the id");
	obj = keep(ask("{\"cmd\":\"fail\"}"));
	cr_expect_str_eq(str(obj, "error"), strerror(EIO));
}

Test(server, hello_list_events_check)
{
	json_t *obj = keep(must("{\"cmd\":\"hello\"}")), *item;
	size_t i;
	int found = 0;

	cr_expect_str_eq(str(obj, "server"), "test");
	cr_expect_eq(json_integer_value(json_object_get(obj, "protocol")), SERVER_PROTOCOL);
	cr_expect_geq(json_array_size(json_object_get(obj, "commands")), 12);

	obj = keep(must("{\"cmd\":\"list\"}"));
	item = json_array_get(json_object_get(obj, "nodes"), 4);
	cr_expect_str_eq(str(item, "kind"), "vm");
	cr_expect_str_eq(str(item, "vm"), "web-1");
	cr_expect_str_eq(str(item, "path"), "/acme/web");
	cr_expect_str_eq(str(item, "engine"), "test");
	cr_expect_str_eq(str(item, "backend"), "emulator");
	cr_expect_eq(json_integer_value(json_object_get(item, "vcpus")), 2);
	cr_expect_eq(json_integer_value(json_object_get(item, "depth")), 3);

	obj = keep(must("{\"cmd\":\"events\"}"));
	json_array_foreach (json_object_get(obj, "events"), i, item) {
		const json_t *backends = json_object_get(item, "backends"),
			     *emulator = json_array_get(backends, 0);

		cr_assert_eq(json_array_size(backends), 1);
		cr_expect_str_eq(str(emulator, "backend"), "emulator");
		if (strcmp(str(item, "event"), "cycles") == 0 ||
		    strcmp(str(item, "alias"), "cycles") == 0)
			found += strcmp(str(emulator, "quality"), "modelled") == 0 &&
				 json_is_true(json_object_get(emulator, "supported"));
		if (strcmp(str(item, "event"), "cache-misses") == 0)
			found += strcmp(str(emulator, "why"), "no such event here") == 0 &&
				 json_is_false(json_object_get(emulator, "supported"));
	}
	cr_expect_eq(found, 2);

	obj = keep(must("{\"cmd\":\"check\"}"));
	cr_expect_eq(json_array_size(json_object_get(obj, "rows")), 1);
}

Test(server, a_session_from_attach_to_detach)
{
	struct node *vm = tenant_vm_find(h.ts, "web-1");
	struct test_vcpu v;
	json_t *obj, *row, *val;

	test_vcpu_init(&v, vm, 1);
	obj = keep(
		must("{\"cmd\":\"attach\",\"events\":[\"instructions\",\"cycles:u\","
		     "\"cache-misses\"],\"scope\":\"vcpu\",\"target\":\"/acme\",\"name\":\"bill\","
		     "\"keep\":true}"));
	cr_expect_str_eq(str(obj, "session"), "bill");
	cr_expect_eq(json_integer_value(json_object_get(obj, "nr-rows")), 2);
	test_run(&h, 0, &v, 1000);
	obj = keep(must("{\"cmd\":\"read\",\"session\":\"bill\"}"));
	cr_expect_str_eq(json_string_value(json_array_get(json_object_get(obj, "events"), 1)),
			 "cycles:u", "as the operator spelled it");
	row = json_array_get(json_object_get(obj, "rows"), 1);
	cr_expect_str_eq(str(row, "vm"), "web-1");
	cr_expect_str_eq(str(row, "backend"), "emulator");
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
	cr_expect_eq(json_array_size(json_object_get(obj, "unsupported")), 1);
	val = json_array_get(json_object_get(obj, "unsupported"), 0);
	cr_expect_str_eq(str(val, "backend"), "emulator");
	cr_expect_str_eq(str(val, "event"), "cache-misses");
	cr_expect(str(val, "why")[0]);

	obj = keep(must("{\"cmd\":\"sharing\"}"));
	row = json_array_get(json_object_get(obj, "backends"), 0);
	cr_expect_str_eq(str(row, "backend"), "emulator");
	cr_expect_geq(json_integer_value(json_object_get(row, "consumers")), 4);
	obj = keep(must("{\"cmd\":\"conservation\"}"));
	row = json_array_get(json_object_get(obj, "rows"), 0);
	cr_expect_str_eq(str(row, "hardware"), str(row, "charged"));
	cr_expect_str_eq(str(row, "backend"), "emulator");

	test_run(&h, 1, &v, 500);
	obj = keep(must("{\"cmd\":\"detach\",\"session\":\"bill\"}"));
	row = json_array_get(json_object_get(obj, "rows"), 1);
	val = json_array_get(json_object_get(row, "values"), 0);
	cr_expect_str_eq(str(val, "count"), "1500", "final values come with the detach");
	obj = keep(ask("{\"cmd\":\"read\",\"session\":\"bill\"}"));
	cr_expect_eq(json_integer_value(json_object_get(obj, "errno")), ENOENT);
	test_vcpu_fini(&v);
}

Test(server, counts_beyond_2_to_the_53_are_exact)
{
	struct test_vcpu v;
	json_t *obj, *val;

	test_vcpu_init(&v, tenant_vm_find(h.ts, "web-1"), 0);
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"instructions\",\"name\":\"big\"}"));
	/* 48-bit counters: below one wrap between two ticks. The switches read none, since the
	 * whole host is counted and nothing else. */
	for (int i = 0; i < 100; i++) {
		test_run(&h, 0, &v, (1ULL << 47) + 1);
		vpmu_pcpu_tick(h.pcpu[0]);
	}
	obj = keep(must("{\"cmd\":\"read\",\"session\":\"big\"}"));
	val = json_array_get(
		json_object_get(json_array_get(json_object_get(obj, "rows"), 0), "values"), 0);
	cr_expect_str_eq(str(val, "count"), "14073748835532900");
	test_vcpu_fini(&v);
}

Test(server, tenants_by_request)
{
	json_t *obj = keep(must("{\"cmd\":\"tenant-add\",\"path\":\"/bob/x\"}"));

	cr_expect_str_eq(str(obj, "path"), "/bob/x");
	cr_expect(tenant_find(h.ts, "/bob/x"));
	json_decref(must("{\"cmd\":\"tenant-remove\",\"path\":\"/bob/x\"}"));
	cr_expect(!tenant_find(h.ts, "/bob/x"));
}
