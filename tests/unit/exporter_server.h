/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A server that is asked without a socket, for tests of exporter/. */
#ifndef TESTS_UNIT_EXPORTER_SERVER_H
#define TESTS_UNIT_EXPORTER_SERVER_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup_host.h"
#include "service/json_memory.h"
#include "service/server.h"
#include "service/session.h"
#include "vpmu/util/fail.h"

/* VMs called "u7-...": of user 1007; the others are libvirt's. "n...": counted by their vCPUs. */
static inline void exporter_vm_info(const struct node *vm, json_t *obj, void *arg)
{
	json_object_set_new(obj, "uuid", json_string("6f0c1b9e-0000-4000-8000-000000000001"));
	json_object_set_new(obj, "cgroup", json_string("/a\"b"));
	json_object_set_new(obj, "counted", json_string(vm->name[0] == 'n' ? "vcpus" : "cgroup"));
	if (vm->name[0] == 'u')
		json_object_set_new(obj, "owner", json_integer(1000 + atoi(vm->name + 1)));
}

static inline struct server *exporter_server(struct test_host *h)
{
	const struct server_opts o = {.name = "test", .vm_info = exporter_vm_info};
	struct server *s = NULL;

	cr_assert_eq(server_create(h->ts, NULL, &o, &s, h->err, sizeof(h->err)), 0, "%s", h->err);
	return s;
}

/* struct metrics_opts.ask */
static inline int exporter_server_ask(void *server, json_t *req, json_t **resp, char *err,
				      size_t errlen)
{
	char *line, *answer = NULL;
	int ret = -ENOMEM;

	json_memory_begin();
	line = req ? json_dumps(req, 0) : NULL;
	json_decref(req);
	*resp = NULL;
	if (line && !json_memory_failed())
		answer = server_dispatch(server, line, strlen(line));
	if (answer)
		*resp = json_memory_parse(answer, strlen(answer), 0, NULL);
	if (*resp && json_is_true(json_object_get(*resp, "ok")))
		ret = 0;
	else if (*resp)
		ret = -(int)json_integer_value(json_object_get(*resp, "errno"));
	if (ret) {
		fail(0, err, errlen, "%s",
		     *resp ? json_string_value(json_object_get(*resp, "error")) : "out of memory");
		json_decref(*resp);
		*resp = NULL;
	}
	free(line);
	free(answer);
	return ret;
}

#endif
