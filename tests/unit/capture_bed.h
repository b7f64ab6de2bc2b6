/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A server without a socket on a host with VMs that the test runs by hand: where they are, what
 * they count, which branches they take.
 */
#ifndef TESTS_UNIT_CAPTURE_BED_H
#define TESTS_UNIT_CAPTURE_BED_H

#include <jansson.h>
#include <stdlib.h>

#include "answers.h"
#include "service/server.h"
#include "cgroup_host.h"
#include "vpmu/context.h"

struct bed_vcpu {
	struct test_vcpu v; /* first */
	struct vpmu_where at;
};

static struct test_host h;
static struct server *srv;

static inline int bed_where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	*out = ((struct bed_vcpu *)ctx)->at;
	return 0;
}

static inline void bed_vcpu_init(struct bed_vcpu *b, struct node *vm, unsigned int i)
{
	test_vcpu_init(&b->v, vm, i);
	b->v.ctx.where = bed_where;
	b->at = (struct vpmu_where){0};
}

static inline void bed_server(sd_event *ev, const char *path)
{
	const struct server_opts opts = {
		.name = "test", .path = path, .own_dir = true, .raw_space = VPMU_SPACE_INTEL};

	test_host_init(&h, NULL);
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
}

static inline void bed_fini(void)
{
	server_destroy(srv);
	test_host_fini(&h);
}

static inline json_t *ask(const char *line)
{
	char *answer = server_dispatch(srv, line, strlen(line));
	json_t *obj;

	cr_assert(answer);
	cr_expect_eq(strchr(answer, '\n'), answer + strlen(answer) - 1, "one line: %s", answer);
	obj = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(obj && json_is_boolean(json_object_get(obj, "ok")), "%s", answer);
	free(answer);
	return obj;
}

/* A count: a string of decimal digits. */
static inline uint64_t num(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));
	char *end;
	uint64_t v;

	cr_assert(s && *s, "%s is missing", key);
	v = strtoull(s, &end, 10);
	cr_assert(!*end, "%s: %s", key, s);
	return v;
}

struct bad {
	int line;
	const char *request, *error;
	int err;
};

/* Each must fail with one line that has @error in it, and errno @err. */
static inline void all_bad(const struct bad *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *o = ask(b[i].request);

		cr_expect(json_is_false(json_object_get(o, "ok")), "line %d: %s", b[i].line,
			  b[i].request);
		cr_expect(strstr(str(o, "error"), b[i].error),
			  "line %d: %s\n  got:  %s\n  want: %s", b[i].line, b[i].request,
			  str(o, "error"), b[i].error);
		cr_expect_eq(json_integer_value(json_object_get(o, "errno")), b[i].err,
			     "line %d: errno", b[i].line);
		json_decref(o);
	}
}

#endif
