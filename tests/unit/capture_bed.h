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
static json_t *answers; /* of this test */
static struct bed_vcpu vcpu[3];
static struct node *acme;

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

static inline void bed_vcpus_fini(void)
{
	for (int p = 0; p < TEST_PCPUS; p++)
		vpmu_pcpu_switch(h.pcpu[p], NULL);
	for (int i = 0; i < 3; i++)
		test_vcpu_fini(&vcpu[i].v);
}

/* A VM of @vcpus vCPUs, which are the bed's. */
static inline struct node *bed_vm(struct node *tenant, const char *name, unsigned int vcpus)
{
	struct node *vm = test_vm(&h, tenant, name, vcpus);

	for (unsigned int i = 0; i < vcpus; i++)
		bed_vcpu_init(&vcpu[i], vm, i);
	return vm;
}

/* The VM of bed_vm goes. */
static inline void bed_vm_remove(struct node *vm)
{
	bed_vcpus_fini();
	tenant_vm_remove(h.ts, vm);
}

static inline void bed_place(unsigned int pcpu, struct bed_vcpu *b)
{
	if (b->v.placed != h.pcpu[pcpu])
		cr_assert_eq(vpmu_context_place(&b->v.ctx, h.pcpu[pcpu]), 0);
	b->v.placed = h.pcpu[pcpu];
}

static inline void bed_enter(unsigned int pcpu, struct bed_vcpu *b)
{
	bed_place(pcpu, b);
	vpmu_pcpu_switch(h.pcpu[pcpu], &b->v.ctx);
}

/* The guest of the first vCPU records its own branches, on pCPU 0. */
static inline void bed_guest_records(void)
{
	const struct vpmu_lbr_regs own = {.ctl = VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_JCC,
					  .depth = 8};

	bed_place(0, vcpu);
	cr_assert_eq(vpmu_lbr_guest_open(&vcpu->v.ctx, h.pcpu[0], 8), 0);
	cr_assert_eq(vpmu_lbr_guest_set(&vcpu->v.ctx, h.pcpu[0], &own), 0);
}

static inline void bed_server(sd_event *ev, const char *path)
{
	const struct server_opts opts = {
		.name = "test", .path = path, .own_dir = true, .raw_space = VPMU_SPACE_INTEL};

	test_host_init(&h, NULL);
	cr_assert_eq(server_create(h.ts, ev, &opts, &srv, h.err, sizeof(h.err)), 0, "%s", h.err);
}

/* Without a socket, with a tenant. */
static inline void bed_acme(void)
{
	bed_server(NULL, "/nowhere");
	acme = test_tenant(&h, "/acme");
}

static inline void bed_server_fini(void)
{
	json_decref(answers);
	answers = NULL;
	server_destroy(srv);
}

static inline void bed_fini(void)
{
	bed_vcpus_fini();
	bed_server_fini();
	test_host_fini(&h);
}

static inline void quotes(char *text, char from, char to)
{
	for (char *p = text; (p = strchr(p, from)); p++)
		*p = to;
}

/* The answer to @line, in which ' stands for ". It is the bed's. */
static inline json_t *ask(const char *line)
{
	char *request = strdup(line), *answer;
	json_t *obj;

	quotes(request, '\'', '"');
	answer = server_dispatch(srv, request, strlen(request));
	cr_assert(answer);
	cr_expect_eq(strchr(answer, '\n'), answer + strlen(answer) - 1, "one line: %s", answer);
	obj = json_loads(answer, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(obj && json_is_boolean(json_object_get(obj, "ok")), "%s", answer);
	free(answer);
	free(request);
	if (!answers)
		answers = json_array();
	cr_assert_eq(json_array_append_new(answers, obj), 0);
	return obj;
}

static inline json_int_t integer(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

static inline size_t size_of(const json_t *o, const char *key)
{
	return json_array_size(json_object_get(o, key));
}

static inline json_t *nth(const json_t *o, const char *key, size_t i)
{
	return json_array_get(json_object_get(o, key), i);
}

/* @o is @want, in which ' stands for ". */
static inline void expect_json(const json_t *o, const char *want)
{
	char *text = json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY);

	cr_assert(text);
	quotes(text, '"', '\'');
	cr_expect_str_eq(text, want, "%s, expected %s", text, want);
	free(text);
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

/* @o has the fields of @want, with these values; in @want, ' stands for ". */
static inline void expect_has(const json_t *o, const char *want)
{
	char *text = strdup(want);
	const json_t *value;
	const char *key;
	json_t *fields;

	quotes(text, '\'', '"');
	fields = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(fields, "%s", text);
	json_object_foreach (fields, key, value) {
		char *got = json_dumps(json_object_get(o, key), JSON_COMPACT | JSON_ENCODE_ANY);

		cr_expect(json_equal(json_object_get(o, key), value), "%s is %s, expected %s", key,
			  got ? got : "missing", want);
		free(got);
	}
	json_decref(fields);
	free(text);
}

struct bad {
	const char *request, *error;
	int err;
};

/* Each must fail with one line that has @error in it, and errno @err. */
static inline void all_bad(const struct bad *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_t *o = ask(b[i].request);

		cr_expect(json_is_false(json_object_get(o, "ok")), "%s", b[i].request);
		cr_expect(strstr(str(o, "error"), b[i].error), "%s\n  got:  %s\n  want: %s",
			  b[i].request, str(o, "error"), b[i].error);
		cr_expect_eq(integer(o, "errno"), b[i].err, "%s: errno", b[i].request);
	}
}

#endif
