// SPDX-License-Identifier: GPL-2.0-or-later
/* service/capture.c, lbr_commands.c: captures by name, records, and their ends. */
#include <errno.h>

#include "capture_bed.h"
#include "service/capture.h"

static struct node *acme;

static void setup(void)
{
	bed_server(NULL, "/nowhere");
	acme = test_tenant(&h, "/acme");
}

TestSuite(lbr, .init = setup, .fini = bed_fini);

static void push(unsigned int pcpu, uint64_t from, uint64_t to, uint64_t info)
{
	struct vpmu_lbr_regs *r = &h.pmu[pcpu].tally->lbr;

	cr_assert(r->ctl & VPMU_LBR_EN, "nothing records");
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->e[r->head] = (struct vpmu_lbr_entry){from, to, info};
	if (r->count < r->depth)
		r->count++;
	r->total++;
}

static void enter(unsigned int pcpu, struct bed_vcpu *b)
{
	if (b->v.placed != h.pcpu[pcpu])
		cr_assert_eq(vpmu_context_place(&b->v.ctx, h.pcpu[pcpu]), 0);
	b->v.placed = h.pcpu[pcpu];
	vpmu_pcpu_switch(h.pcpu[pcpu], &b->v.ctx);
}

static size_t tasks(void)
{
	struct vpmu_lbr_usage u;

	vpmu_lbr_usage(h.host, &u);
	return u.tasks;
}

static char *dump(const json_t *o, const char *key)
{
	return json_dumps(json_object_get(o, key), JSON_COMPACT);
}

Test(lbr, read_shows_every_record_of_every_vcpu)
{
	struct node *vm = test_vm(&h, acme, "web-1", 2);
	const json_t *rows, *row;
	struct bed_vcpu v[2];
	json_t *a;
	char *text;

	bed_vcpu_init(&v[0], vm, 0);
	bed_vcpu_init(&v[1], vm, 1);
	a = must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"mode\":\"branches\"}");
	cr_expect_str_eq(str(a, "capture"), "@1");
	cr_expect_str_eq(str(a, "mode"), "branches");
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(a, "usage"), "tasks")), 2);
	cr_expect(json_integer_value(json_object_get(json_object_get(a, "usage"), "bytes")) > 1600);
	json_decref(a);
	enter(0, &v[0]);
	for (uint64_t i = 0; i < 40; i++)
		push(0, 0x1000 + i, 0x2000 + i,
		     (i % 7 == 6 ? 8ULL : i % 7) << VPMU_LBR_INFO_TYPE_SHIFT |
			     (i % 2 ? VPMU_LBR_INFO_CYC_VALID | i : 0));
	push(0, VPMU_LBR_FROM_FILTERED, 0xffffffff80000000, 8ULL << VPMU_LBR_INFO_TYPE_SHIFT);
	a = must("{\"cmd\":\"lbr-read\",\"target\":\"web-1\"}"); /* while it runs */
	rows = json_object_get(a, "rows");
	cr_assert_eq(json_array_size(rows), 2);
	row = json_array_get(rows, 0);
	cr_expect_str_eq(str(row, "vm"), "web-1");
	cr_expect_eq(json_integer_value(json_object_get(row, "vcpu")), 0);
	cr_expect_str_eq(str(row, "source"), "capture");
	cr_expect_str_eq(str(row, "mode"), "branches");
	cr_expect_eq(num(row, "total"), 41);
	text = dump(row, "filters");
	cr_expect_str_eq(text, "[\"kernel\",\"user\",\"jcc\",\"rel-jmp\",\"ind-jmp\",\"rel-call\","
			       "\"ind-call\",\"ret\",\"other\"]");
	free(text);
	cr_assert_eq(json_array_size(json_object_get(row, "entries")), 32);
	text = json_dumps(json_array_get(json_object_get(row, "entries"), 0), JSON_COMPACT);
	cr_expect_str_eq(text, "{\"from\":null,\"to\":\"0xffffffff80000000\",\"type\":\"other\"}");
	free(text);
	text = json_dumps(json_array_get(json_object_get(row, "entries"), 1), JSON_COMPACT);
	cr_expect_str_eq(
		text, "{\"from\":\"0x1027\",\"to\":\"0x2027\",\"type\":\"rel-call\",\"cycles\":39}",
		"%s", text);
	free(text);
	text = json_dumps(json_array_get(json_object_get(row, "entries"), 31), JSON_COMPACT);
	cr_expect(strstr(text, "\"0x1009\""), "%s", text);
	free(text);
	cr_expect_eq(json_array_size(json_object_get(json_array_get(rows, 1), "entries")), 0);
	json_decref(a);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"@1\"}"));
	cr_expect_eq(tasks(), 0);
	a = must("{\"cmd\":\"lbr-read\",\"target\":\"/\"}");
	cr_expect_eq(json_array_size(json_object_get(a, "rows")), 0);
	json_decref(a);
	test_vcpu_fini(&v[0].v);
	test_vcpu_fini(&v[1].v);
}

Test(lbr, types_have_names)
{
	static const char *const want[] = {"jcc", "ind-jmp", "rel-jmp", "ind-call", "rel-call",
					   "ret", "other",   "other",	"other"};
	struct node *vm = test_vm(&h, acme, "web-1", 1);
	struct bed_vcpu v;
	json_t *a, *e;

	bed_vcpu_init(&v, vm, 0);
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"mode\":\"branches\"}"));
	enter(0, &v);
	for (uint64_t i = 0; i < 9; i++)
		push(0, i, i, i << VPMU_LBR_INFO_TYPE_SHIFT);
	a = must("{\"cmd\":\"lbr-read\",\"target\":\"/\"}");
	e = json_object_get(json_array_get(json_object_get(a, "rows"), 0), "entries");
	for (size_t i = 0; i < 9; i++)
		cr_expect_str_eq(str(json_array_get(e, 8 - i), "type"), want[i]);
	json_decref(a);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	test_vcpu_fini(&v.v);
}

Test(lbr, captures_are_counted_and_of_one_mode)
{
	struct node *vm = test_vm(&h, acme, "web-1", 1);
	struct bed_vcpu v;
	json_t *a;

	bed_vcpu_init(&v, vm, 0);
	a = must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"name\":\"a\",\"keep\":true}");
	cr_expect_str_eq(str(a, "mode"), "call-stack", "the default");
	json_decref(a);
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"web-1\",\"name\":\"b\"}"));
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"name\":\"c\"}"));
	cr_expect_eq(tasks(), 1);
	a = ask("{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"mode\":\"calls\"}");
	cr_expect(strstr(str(a, "error"), "captured in another mode"), "%s", str(a, "error"));
	cr_expect_eq(json_integer_value(json_object_get(a, "errno")), EBUSY);
	json_decref(a);
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"a\"}"));
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"b\"}"));
	cr_expect_eq(tasks(), 1, "c is left");
	a = must("{\"cmd\":\"captures\"}");
	cr_assert_eq(json_array_size(json_object_get(a, "captures")), 1);
	cr_expect_str_eq(str(json_array_get(json_object_get(a, "captures"), 0), "capture"), "c");
	json_decref(a);
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"c\"}"));
	cr_expect_eq(tasks(), 0);
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"mode\":\"calls\"}"));
	test_vcpu_fini(&v.v);
}

Test(lbr, targets_may_go_while_captured)
{
	struct node *vm = test_vm(&h, acme, "web-1", 1);
	struct bed_vcpu v;
	json_t *a;

	bed_vcpu_init(&v, vm, 0);
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"web-1\",\"name\":\"vm\"}"));
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"web-1\",\"name\":\"vm2\"}"));
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"name\":\"tenant\"}"));
	test_vcpu_fini(&v.v);
	tenant_vm_remove(h.ts, vm); /* though it is captured */
	cr_assert_eq(tenant_remove(h.ts, "/acme", h.err, sizeof(h.err)), 0, "%s", h.err);
	a = must("{\"cmd\":\"captures\"}");
	cr_expect_eq(json_array_size(json_object_get(a, "captures")), 3);
	cr_expect(json_is_true(
		json_object_get(json_array_get(json_object_get(a, "captures"), 0), "gone")));
	json_decref(a);
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"vm\"}"));
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"tenant\"}"));
	cr_expect_eq(tasks(), 0);
}

Test(lbr, vcpus_to_come_are_captured)
{
	struct bed_vcpu v;
	struct node *vm;
	json_t *a;

	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/\"}"));
	cr_expect_eq(tasks(), 0);
	vm = test_vm(&h, acme, "late", 1);
	bed_vcpu_init(&v, vm, 0);
	cr_expect_eq(tasks(), 1);
	enter(1, &v);
	push(1, 1, 2, 0);
	vpmu_pcpu_switch(h.pcpu[1], NULL);
	a = must("{\"cmd\":\"lbr-read\",\"target\":\"/\"}");
	cr_expect_eq(num(json_array_get(json_object_get(a, "rows"), 0), "total"), 1);
	json_decref(a);
	test_vcpu_fini(&v.v);
}

Test(lbr, the_guests_own_records_say_so)
{
	struct node *vm = test_vm(&h, acme, "web-1", 1);
	struct vpmu_lbr_regs own = {.ctl = VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_JCC, .depth = 8};
	const json_t *row;
	struct bed_vcpu v;
	json_t *a;
	char *text;

	bed_vcpu_init(&v, vm, 0);
	cr_assert_eq(vpmu_context_place(&v.v.ctx, h.pcpu[0]), 0);
	v.v.placed = h.pcpu[0];
	cr_assert_eq(vpmu_lbr_guest_open(&v.v.ctx, h.pcpu[0], 8), 0);
	cr_assert_eq(vpmu_lbr_guest_set(&v.v.ctx, h.pcpu[0], &own), 0);
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\"}"));
	enter(0, &v);
	push(0, 1, 2, 0);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	a = must("{\"cmd\":\"lbr-read\",\"target\":\"/acme\"}");
	row = json_array_get(json_object_get(a, "rows"), 0);
	cr_expect_str_eq(str(row, "source"), "guest");
	cr_expect_str_eq(str(row, "mode"), "custom");
	cr_expect_eq(json_integer_value(json_object_get(row, "depth")), 8);
	text = dump(row, "filters");
	cr_expect_str_eq(text, "[\"user\",\"jcc\"]");
	free(text);
	json_decref(a);
	/* They are no call chains to add up. */
	a = must("{\"cmd\":\"lbr-read\",\"capture\":\"@1\"}");
	cr_expect_eq(json_integer_value(json_object_get(a, "read")), 1);
	cr_expect_eq(json_integer_value(json_object_get(a, "custom")), 1);
	json_decref(a);
	a = must("{\"cmd\":\"lbr-detach\",\"capture\":\"@1\"}");
	cr_expect_eq(json_array_size(json_object_get(a, "chains")), 0);
	json_decref(a);
	test_vcpu_fini(&v.v);
}

/* The samples of the chain @chain of vCPU @vcpu of @a; 0: there is none. */
static uint64_t chain_samples(const json_t *a, unsigned int vcpu, const char *chain)
{
	json_t *row;
	uint64_t n = 0;
	size_t i;

	json_array_foreach (json_object_get(a, "chains"), i, row) {
		char *text = dump(row, "chain");

		if (strcmp(text, chain) == 0 &&
		    json_integer_value(json_object_get(row, "vcpu")) == (json_int_t)vcpu)
			n += num(row, "samples");
		free(text);
	}
	return n;
}

Test(lbr, chains_are_added_up_here)
{
	const uint64_t call = 3ULL << VPMU_LBR_INFO_TYPE_SHIFT;
	struct node *vm = test_vm(&h, acme, "web-1", 2);
	struct bed_vcpu v[2];
	size_t bytes = 0;
	json_t *a;

	bed_vcpu_init(&v[0], vm, 0);
	bed_vcpu_init(&v[1], vm, 1);
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"name\":\"c\"}"));
	enter(0, &v[0]);
	push(0, 0x1000, 0x2000, call);
	for (int i = 0; i < 3; i++)
		json_decref(must("{\"cmd\":\"lbr-read\",\"capture\":\"c\"}"));
	push(0, 0x2010, 0x3000, call);
	push(0, VPMU_LBR_FROM_FILTERED, 0xffffffff80000000, call);
	for (int i = 0; i < 100; i++) {
		char *text;

		a = must("{\"cmd\":\"lbr-read\",\"capture\":\"c\"}");
		text = json_dumps(a, JSON_COMPACT);
		bytes = strlen(text) > bytes ? strlen(text) : bytes;
		cr_expect_eq(json_integer_value(json_object_get(a, "read")), 2);
		cr_expect_eq(json_integer_value(json_object_get(a, "with-records")), 1);
		cr_expect_eq(json_integer_value(json_object_get(a, "custom")), 0);
		cr_expect_eq(json_integer_value(json_object_get(a, "unread")), 0);
		free(text);
		json_decref(a);
	}
	cr_expect(bytes < 200, "a reading answers %zu bytes", bytes);
	/* A read of the records themselves adds nothing. */
	json_decref(must("{\"cmd\":\"lbr-read\",\"target\":\"/acme\"}"));
	/* A removed VM keeps its records. */
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	test_vcpu_fini(&v[0].v);
	test_vcpu_fini(&v[1].v);
	tenant_vm_remove(h.ts, vm);
	a = must("{\"cmd\":\"lbr-read\",\"capture\":\"c\"}");
	cr_expect_eq(json_integer_value(json_object_get(a, "read")), 0);
	json_decref(a);
	a = must("{\"cmd\":\"lbr-detach\",\"capture\":\"c\"}");
	cr_expect_eq(json_array_size(json_object_get(a, "chains")), 3);
	cr_expect_str_eq(str(json_array_get(json_object_get(a, "chains"), 0), "vm"), "web-1");
	cr_expect_eq(chain_samples(a, 0, "[\"0x2000\",\"0x1000\"]"), 3);
	cr_expect_eq(chain_samples(a, 0, "[\"0xffffffff80000000\",null,\"0x2010\",\"0x1000\"]"),
		     100);
	cr_expect_eq(chain_samples(a, 1, "[]"), 103);
	cr_expect_eq(num(a, "other-chains"), 0);
	json_decref(a);
	a = must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\"}");
	json_decref(a);
	a = must("{\"cmd\":\"lbr-detach\",\"capture\":\"@1\"}");
	cr_expect(!json_object_get(a, "chains"), "nothing was added up");
	json_decref(a);
}

static void count_kick(void *arg)
{
	++*(unsigned int *)arg;
}

/* A capture and its readings stop each pCPU once, however many VMs there are. */
Test(lbr, no_pcpu_is_asked_for_each_vm)
{
	static struct bed_vcpu v[100];
	unsigned int kicks = 0;

	for (unsigned int i = 0; i < 100; i++) {
		char name[16];

		snprintf(name, sizeof(name), "vm-%u", i);
		bed_vcpu_init(&v[i], test_vm(&h, acme, name, 1), 0);
		test_run(&h, i % TEST_PCPUS, &v[i].v, 10);
	}
	for (int p = 0; p < TEST_PCPUS; p++) {
		h.pmu[p].kick = count_kick;
		h.pmu[p].kick_arg = &kicks;
	}
	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"name\":\"c\"}"));
	cr_expect_eq(kicks, TEST_PCPUS);
	for (unsigned int i = 2; i < 5; i++) {
		json_t *a = must("{\"cmd\":\"lbr-read\",\"capture\":\"c\"}");

		cr_expect_eq(json_integer_value(json_object_get(a, "read")), 100);
		cr_expect_eq(kicks, i * TEST_PCPUS);
		json_decref(a);
	}
	json_decref(must("{\"cmd\":\"lbr-detach\",\"capture\":\"c\"}"));
	cr_expect_eq(kicks, 5 * TEST_PCPUS);
	for (unsigned int i = 0; i < 100; i++)
		test_vcpu_fini(&v[i].v);
}

Test(lbr, bad_requests)
{
	static const struct bad bad[] = {
		{__LINE__, "{\"cmd\":\"lbr-attach\"}", "target: missing", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/x\"}", "no tenant \"/x\"",
		 ENOENT},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"mode\":\"all\"}",
		 "mode: \"all\" is invalid; expected call-stack, branches or calls", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"mode\":1}",
		 "mode: an integer", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"name\":\"\"}",
		 "name: 0 bytes", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"name\":\"a/b\"}",
		 "name: \"a/b\"", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"name\":\"taken\"}",
		 "there is a capture \"taken\"", EEXIST},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"keep\":\"yes\"}",
		 "keep: ", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/\",\"depth\":8}",
		 "depth: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-attach\",\"target\":\"/host\"}",
		 "no branch records of this target", EOPNOTSUPP},
		{__LINE__, "{\"cmd\":\"lbr-read\"}", "target: missing", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-read\",\"target\":\"nope\"}", "no VM \"nope\"", ENOENT},
		{__LINE__, "{\"cmd\":\"lbr-read\",\"target\":\"/\",\"vm\":\"x\"}",
		 "vm: unknown field", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-read\",\"capture\":\"nope\"}", "capture: no \"nope\"",
		 ENOENT},
		{__LINE__, "{\"cmd\":\"lbr-read\",\"capture\":\"taken\",\"target\":\"/\"}",
		 "target: give only one of target and capture", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-detach\"}", "capture: missing", EINVAL},
		{__LINE__, "{\"cmd\":\"lbr-detach\",\"capture\":\"nope\"}",
		 "capture: no \"nope\"; `vpmu sessions` shows", ENOENT},
		{__LINE__, "{\"cmd\":\"captures\",\"target\":\"/\"}", "target: unknown field",
		 EINVAL},
	};
	json_t *a;

	json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/acme\",\"name\":\"taken\"}"));
	all_bad(bad, sizeof(bad) / sizeof(bad[0]));
	a = must("{\"cmd\":\"captures\"}");
	cr_expect_eq(json_array_size(json_object_get(a, "captures")), 1, "nothing was left behind");
	json_decref(a);
}

Test(lbr, at_most_so_many)
{
	json_t *a;

	for (int i = 0; i < CAPTURES_MAX; i++)
		json_decref(must("{\"cmd\":\"lbr-attach\",\"target\":\"/\"}"));
	a = ask("{\"cmd\":\"lbr-attach\",\"target\":\"/\"}");
	cr_expect(strstr(str(a, "error"), "there are 256 captures, which is the limit; detach one"),
		  "%s", str(a, "error"));
	json_decref(a);
}
