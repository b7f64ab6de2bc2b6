// SPDX-License-Identifier: GPL-2.0-or-later
/* service/capture.c, lbr_commands.c: captures by name, records, and their ends. */
#include <errno.h>

#include "capture_bed.h"
#include "service/capture.h"

TestSuite(lbr, .init = bed_acme, .fini = bed_fini);

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

static size_t tasks(void)
{
	struct vpmu_lbr_usage u;

	vpmu_lbr_usage(h.host, &u);
	return u.tasks;
}

Test(lbr, read_shows_every_record_of_every_vcpu)
{
	const json_t *row;
	json_t *a;

	bed_vm(acme, "web-1", 2);
	a = must("{'cmd':'lbr-attach','target':'/acme','mode':'branches'}");
	expect_has(a, "{'capture':'@1','mode':'branches'}");
	cr_expect_eq(integer(json_object_get(a, "usage"), "tasks"), 2);
	cr_expect(integer(json_object_get(a, "usage"), "bytes") > 1600);
	bed_enter(0, &vcpu[0]);
	for (uint64_t i = 0; i < 40; i++)
		push(0, 0x1000 + i, 0x2000 + i,
		     (i % 7 == 6 ? 8ULL : i % 7) << VPMU_LBR_INFO_TYPE_SHIFT |
			     (i % 2 ? VPMU_LBR_INFO_CYC_VALID | i : 0));
	push(0, VPMU_LBR_FROM_FILTERED, 0xffffffff80000000, 8ULL << VPMU_LBR_INFO_TYPE_SHIFT);
	a = must("{'cmd':'lbr-read','target':'web-1'}"); /* while it runs */
	cr_assert_eq(size_of(a, "rows"), 2);
	row = nth(a, "rows", 0);
	expect_has(row,
		   "{'vm':'web-1','vcpu':0,'source':'capture','mode':'branches','total':'41'}");
	expect_json(
		json_object_get(row, "filters"),
		"['kernel','user','jcc','rel-jmp','ind-jmp','rel-call','ind-call','ret','other']");
	cr_assert_eq(size_of(row, "entries"), 32);
	expect_json(nth(row, "entries", 0),
		    "{'from':null,'to':'0xffffffff80000000','type':'other'}");
	expect_json(nth(row, "entries", 1),
		    "{'from':'0x1027','to':'0x2027','type':'rel-call','cycles':39}");
	cr_expect_str_eq(str(nth(row, "entries", 31), "from"), "0x1009");
	cr_expect_eq(size_of(nth(a, "rows", 1), "entries"), 0);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	must("{'cmd':'lbr-detach','capture':'@1'}");
	cr_expect_eq(tasks(), 0);
	cr_expect_eq(size_of(must("{'cmd':'lbr-read','target':'/'}"), "rows"), 0);
}

Test(lbr, types_have_names)
{
	static const char *const want[] = {"jcc", "ind-jmp", "rel-jmp", "ind-call", "rel-call",
					   "ret", "other",   "other",	"other"};
	json_t *row;

	bed_vm(acme, "web-1", 1);
	must("{'cmd':'lbr-attach','target':'/','mode':'branches'}");
	bed_enter(0, vcpu);
	for (uint64_t i = 0; i < 9; i++)
		push(0, i, i, i << VPMU_LBR_INFO_TYPE_SHIFT);
	row = nth(must("{'cmd':'lbr-read','target':'/'}"), "rows", 0);
	for (size_t i = 0; i < 9; i++)
		cr_expect_str_eq(str(nth(row, "entries", 8 - i), "type"), want[i]);
}

Test(lbr, captures_are_counted_and_of_one_mode)
{
	json_t *a;

	bed_vm(acme, "web-1", 1);
	a = must("{'cmd':'lbr-attach','target':'/acme','name':'a','keep':true}");
	cr_expect_str_eq(str(a, "mode"), "call-stack", "the default");
	must("{'cmd':'lbr-attach','target':'web-1','name':'b'}");
	must("{'cmd':'lbr-attach','target':'/acme','name':'c'}");
	cr_expect_eq(tasks(), 1);
	a = ask("{'cmd':'lbr-attach','target':'/','mode':'calls'}");
	cr_expect(strstr(str(a, "error"), "captured in another mode"), "%s", str(a, "error"));
	cr_expect_eq(integer(a, "errno"), EBUSY);
	must("{'cmd':'lbr-detach','capture':'a'}");
	must("{'cmd':'lbr-detach','capture':'b'}");
	cr_expect_eq(tasks(), 1, "c is left");
	a = must("{'cmd':'captures'}");
	cr_assert_eq(size_of(a, "captures"), 1);
	cr_expect_str_eq(str(nth(a, "captures", 0), "capture"), "c");
	must("{'cmd':'lbr-detach','capture':'c'}");
	cr_expect_eq(tasks(), 0);
	must("{'cmd':'lbr-attach','target':'/','mode':'calls'}");
}

Test(lbr, targets_may_go_while_captured)
{
	struct node *vm = bed_vm(acme, "web-1", 1);
	json_t *a;

	must("{'cmd':'lbr-attach','target':'web-1','name':'vm'}");
	must("{'cmd':'lbr-attach','target':'web-1','name':'vm2'}");
	must("{'cmd':'lbr-attach','target':'/acme','name':'tenant'}");
	bed_vm_remove(vm); /* though it is captured */
	cr_assert_eq(tenant_remove(h.ts, "/acme", h.err, sizeof(h.err)), 0, "%s", h.err);
	a = must("{'cmd':'captures'}");
	cr_expect_eq(size_of(a, "captures"), 3);
	cr_expect(json_is_true(json_object_get(nth(a, "captures", 0), "gone")));
	must("{'cmd':'lbr-detach','capture':'vm'}");
	must("{'cmd':'lbr-detach','capture':'tenant'}");
	cr_expect_eq(tasks(), 0);
}

Test(lbr, vcpus_to_come_are_captured)
{
	must("{'cmd':'lbr-attach','target':'/'}");
	cr_expect_eq(tasks(), 0);
	bed_vm(acme, "late", 1);
	cr_expect_eq(tasks(), 1);
	bed_enter(1, vcpu);
	push(1, 1, 2, 0);
	vpmu_pcpu_switch(h.pcpu[1], NULL);
	cr_expect_eq(num(nth(must("{'cmd':'lbr-read','target':'/'}"), "rows", 0), "total"), 1);
}

Test(lbr, the_guests_own_records_say_so)
{
	const json_t *row;
	json_t *a;

	bed_vm(acme, "web-1", 1);
	bed_guest_records();
	must("{'cmd':'lbr-attach','target':'/acme'}");
	bed_enter(0, vcpu);
	push(0, 1, 2, 0);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	row = nth(must("{'cmd':'lbr-read','target':'/acme'}"), "rows", 0);
	expect_has(row, "{'source':'guest','mode':'custom','depth':8}");
	expect_json(json_object_get(row, "filters"), "['user','jcc']");
	/* They are no call chains to add up. */
	a = must("{'cmd':'lbr-read','capture':'@1'}");
	expect_has(a, "{'read':1,'custom':1}");
	cr_expect_eq(size_of(must("{'cmd':'lbr-detach','capture':'@1'}"), "chains"), 0);
}

/* The samples of the chain @chain of vCPU @nr of @a; 0: there is none. */
static uint64_t chain_samples(const json_t *a, json_int_t nr, const char *chain)
{
	json_t *row;
	uint64_t n = 0;
	size_t i;

	json_array_foreach (json_object_get(a, "chains"), i, row) {
		char *text = json_dumps(json_object_get(row, "chain"), JSON_COMPACT);

		if (strcmp(text, chain) == 0 && integer(row, "vcpu") == nr)
			n += num(row, "samples");
		free(text);
	}
	return n;
}

Test(lbr, chains_are_added_up_here)
{
	const uint64_t call = 3ULL << VPMU_LBR_INFO_TYPE_SHIFT;
	struct node *vm = bed_vm(acme, "web-1", 2);
	size_t bytes = 0;
	json_t *a;

	must("{'cmd':'lbr-attach','target':'/acme','name':'c'}");
	bed_enter(0, &vcpu[0]);
	push(0, 0x1000, 0x2000, call);
	for (int i = 0; i < 3; i++)
		must("{'cmd':'lbr-read','capture':'c'}");
	push(0, 0x2010, 0x3000, call);
	push(0, VPMU_LBR_FROM_FILTERED, 0xffffffff80000000, call);
	for (int i = 0; i < 100; i++) {
		char *text;

		a = must("{'cmd':'lbr-read','capture':'c'}");
		text = json_dumps(a, JSON_COMPACT);
		bytes = strlen(text) > bytes ? strlen(text) : bytes;
		expect_has(a, "{'read':2,'with-records':1,'custom':0,'unread':0}");
		free(text);
	}
	cr_expect(bytes < 200, "a reading answers %zu bytes", bytes);
	/* A read of the records themselves adds nothing. */
	must("{'cmd':'lbr-read','target':'/acme'}");
	/* A removed VM keeps its records. */
	bed_vm_remove(vm);
	a = must("{'cmd':'lbr-read','capture':'c'}");
	cr_expect_eq(integer(a, "read"), 0);
	a = must("{'cmd':'lbr-detach','capture':'c'}");
	cr_expect_eq(size_of(a, "chains"), 3);
	cr_expect_str_eq(str(nth(a, "chains", 0), "vm"), "web-1");
	cr_expect_eq(chain_samples(a, 0, "[\"0x2000\",\"0x1000\"]"), 3);
	cr_expect_eq(chain_samples(a, 0, "[\"0xffffffff80000000\",null,\"0x2010\",\"0x1000\"]"),
		     100);
	cr_expect_eq(chain_samples(a, 1, "[]"), 103);
	cr_expect_eq(num(a, "other-chains"), 0);
	must("{'cmd':'lbr-attach','target':'/acme'}");
	cr_expect(!json_object_get(must("{'cmd':'lbr-detach','capture':'@1'}"), "chains"),
		  "nothing was added up");
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
	must("{'cmd':'lbr-attach','target':'/acme','name':'c'}");
	cr_expect_eq(kicks, TEST_PCPUS);
	for (unsigned int i = 2; i < 5; i++) {
		json_t *a = must("{'cmd':'lbr-read','capture':'c'}");

		cr_expect_eq(integer(a, "read"), 100);
		cr_expect_eq(kicks, i * TEST_PCPUS);
	}
	must("{'cmd':'lbr-detach','capture':'c'}");
	cr_expect_eq(kicks, 5 * TEST_PCPUS);
	for (unsigned int i = 0; i < 100; i++)
		test_vcpu_fini(&v[i].v);
}

#define ATTACH "{'cmd':'lbr-attach','target':'/'"

Test(lbr, bad_requests)
{
	static const struct bad bad[] = {
		{"{'cmd':'lbr-attach'}", "target: missing", EINVAL},
		{"{'cmd':'lbr-attach','target':'/x'}", "no tenant \"/x\"", ENOENT},
		{ATTACH ",'mode':'all'}",
		 "mode: \"all\" is invalid; expected call-stack, branches or calls", EINVAL},
		{ATTACH ",'mode':1}", "mode: an integer", EINVAL},
		{ATTACH ",'name':''}", "name: 0 bytes", EINVAL},
		{ATTACH ",'name':'a/b'}", "name: \"a/b\"", EINVAL},
		{ATTACH ",'name':'taken'}", "there is a capture \"taken\"", EEXIST},
		{ATTACH ",'keep':'yes'}", "keep: ", EINVAL},
		{ATTACH ",'depth':8}", "depth: unknown field", EINVAL},
		{"{'cmd':'lbr-attach','target':'/host'}", "no branch records of this target",
		 EOPNOTSUPP},
		{"{'cmd':'lbr-read'}", "target: missing", EINVAL},
		{"{'cmd':'lbr-read','target':'nope'}", "no VM \"nope\"", ENOENT},
		{"{'cmd':'lbr-read','target':'/','vm':'x'}", "vm: unknown field", EINVAL},
		{"{'cmd':'lbr-read','capture':'nope'}", "capture: no \"nope\"", ENOENT},
		{"{'cmd':'lbr-read','capture':'taken','target':'/'}",
		 "target: give only one of target and capture", EINVAL},
		{"{'cmd':'lbr-detach'}", "capture: missing", EINVAL},
		{"{'cmd':'lbr-detach','capture':'nope'}",
		 "capture: no \"nope\"; `vpmu sessions` shows", ENOENT},
		{"{'cmd':'captures','target':'/'}", "target: unknown field", EINVAL},
	};

	must("{'cmd':'lbr-attach','target':'/acme','name':'taken'}");
	all_bad(bad, sizeof(bad) / sizeof(bad[0]));
	cr_expect_eq(size_of(must("{'cmd':'captures'}"), "captures"), 1, "nothing was left behind");
}

Test(lbr, at_most_so_many)
{
	json_t *a;

	for (int i = 0; i < CAPTURES_MAX; i++)
		must("{'cmd':'lbr-attach','target':'/'}");
	a = ask("{'cmd':'lbr-attach','target':'/'}");
	cr_expect(strstr(str(a, "error"), "there are 256 captures, which is the limit; detach one"),
		  "%s", str(a, "error"));
}
