// SPDX-License-Identifier: GPL-2.0-or-later
/* The VMM's own commands, while VMs run: adding, removing, pausing; and refusals. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "machine_bed.h"
#include "vpmu/core/internal.h"
#include "vpmu/emupmu.h"

#define ADD(rest) "{'cmd':'vm-add','image':'" VPMU_GUEST "'," rest "}"

/* Field @key of the row of @vm in `list`, or NULL. */
static char *list_field(struct bed *b, const char *vm, const char *key)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'list'}"), *node;
	char *text = NULL;
	size_t i;

	json_array_foreach (json_object_get(answer, "nodes"), i, node) {
		const char *name = json_string_value(json_object_get(node, "vm"));

		if (name && !strcmp(name, vm))
			text = json_object_get(node, key)
				       ? strdup(json_string_value(json_object_get(node, key)))
				       : NULL;
	}
	json_decref(answer);
	return text;
}

static void expect_state(struct bed *b, const char *vm, const char *state)
{
	char *text = list_field(b, vm, "state");

	cr_assert(text, "no VM %s", vm);
	cr_assert_str_eq(text, state);
	free(text);
}

static uint64_t count_of(struct bed *b, const char *session, const char *path)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'read','session':'%s'}", session), *row;
	uint64_t count = 0;
	bool found = false;
	size_t i;

	json_array_foreach (json_object_get(answer, "rows"), i, row) {
		const json_t *v = json_array_get(json_object_get(row, "values"), 0);

		if (strcmp(json_string_value(json_object_get(row, "path")), path))
			continue;
		count = strtoull(json_string_value(json_object_get(v, "count")), NULL, 10);
		found = true;
	}
	json_decref(answer);
	cr_assert(found, "%s", path);
	return count;
}

static void churn(const char *engine, unsigned int vms)
{
	uint64_t before = 0, now;
	struct bed b;

	bed_open(&b, "slice=2000,random_slices=yes,migrate=random:4");
	bed_do(&b, "{'cmd':'tenant-add','path':'/a/b'}");
	bed_do(&b,
	       "{'cmd':'attach','name':'t','keep':true,'scope':'tenant','events':'ref-cycles'}");
	bed_add(&b, "name=steady,tenant=/a,vcpus=2,engine=%s,args=spin", engine);
	bed_run(&b, 0);
	for (unsigned int i = 0; i < vms; i++) {
		bed_do(&b,
		       ADD("'name':'v%u','tenant':'/a/b','vcpus':%u,'engine':'%s','pmu':'%s',"
			   "'args':'%s'"),
		       i, 1 + i % 3, engine, i % 2 ? "amd-v2" : "intel-v5",
		       i % 4 ? "spin" : "stat loop 20000");
		if (i % 5 == 0)
			bed_do(&b, "{'cmd':'pause','name':'v%u'}", i);
		if (i >= 4)
			bed_do(&b, "{'cmd':'vm-remove','name':'v%u'}", i - 4);
		if (i % 10 == 0)
			bed_conserved(&b);
		/* What removed VMs counted stays with their tenant and its ancestors. */
		now = count_of(&b, "t", "/a/b");
		cr_assert_geq(now, before);
		before = now;
		cr_assert_geq(count_of(&b, "t", "/a"), now);
	}
	cr_assert_gt(before, 0);
	expect_state(&b, "steady", "running");
	bed_close(&b);
}

Test(control, churn_emu)
{
	churn("emulator", 100);
}

Test(control, churn_kvm)
{
	if (bed_kvm())
		churn("kvm", 16);
}

static bool said(const struct bed *b, const char *vm, const char *text)
{
	for (size_t i = 0; i < b->nr_lines; i++)
		if (!strcmp(b->lines[i].vm, vm) && strstr(b->lines[i].text, text))
			return true;
	return false;
}

/* A guest beyond its quota is notified, the operator too, and its neighbour is not concerned. */
Test(control, a_quota_of_events)
{
	struct machine_vm *vm;
	char *text;
	struct bed b;

	bed_open(&b, "gp=8");
	bed_add(&b, "name=greedy,max_events=2,args=stat loop 20000");
	bed_add(&b, "name=other,args=stat loop 20000");
	bed_run(&b, 2);
	cr_expect(said(&b, "greedy", "<not supported>"));
	cr_expect_not(said(&b, "other", "<not"));
	text = list_field(&b, "greedy", "refused");
	cr_expect(text && strtoull(text, NULL, 10) > 0, "%s", text);
	free(text);
	text = list_field(&b, "other", "refused");
	cr_expect_null(text, "%s", text);
	/* It can be changed while the VM runs. */
	vm = bed_add(&b, "name=third,max_events=2,args=stat loop 20000");
	bed_do(&b, "{'cmd':'vm-set','name':'third','max_events':24}");
	cr_expect_eq(vm->weight, VM_WEIGHT_DEFAULT, "which was not given");
	bed_start(vm);
	bed_run(&b, 3);
	cr_expect_not(said(&b, "third", "<not"));
	bed_close(&b);
}

/* The same for the VMs of one tenant together; a client's later value counts, too. */
Test(control, a_quota_of_events_for_a_tenant)
{
	struct machine_vm *vm[3];
	char *text;
	struct bed b;

	bed_open(&b, "gp=8,pcpus=1");
	vm[0] = bed_add(&b, "name=first,tenant=/a/b,args=stat loop 20000");
	vm[1] = bed_add(&b, "name=second,tenant=/a,tenant_max_events=1,args=stat loop 20000");
	vm[2] = bed_add(&b, "name=other,tenant=/c,args=stat loop 20000");
	cr_expect_eq(machine_tenant_max_events(vm[0]), TENANT_MAX_EVENTS);
	cr_expect_eq(machine_tenant_max_events(vm[1]), 1);
	bed_run(&b, 3);
	cr_expect(said(&b, "first", "<not supported>"), "its tenant's tenant has a quota");
	cr_expect(said(&b, "second", "<not supported>"));
	cr_expect_not(said(&b, "other", "<not"));
	text = list_field(&b, "second", "refused");
	cr_expect(text && strtoull(text, NULL, 10) > 0, "%s", text);
	free(text);
	bed_refused(&b, "give weight or max_events", "{'cmd':'tenant-set','path':'/a'}");
	bed_refused(&b, "", "{'cmd':'tenant-set','path':'/a','max_events':57}");
	bed_do(&b, "{'cmd':'tenant-set','path':'/a','max_events':9}");
	cr_expect_eq(machine_tenant_max_events(vm[1]), 9);
	cr_expect_eq(machine_tenant_weight(vm[1]), VM_WEIGHT_DEFAULT, "which was not given");
	vm[0] = bed_add(&b, "name=third,tenant=/a/b,args=stat loop 20000");
	bed_start(vm[0]);
	bed_run(&b, 4);
	cr_expect_not(said(&b, "third", "<not"));
	bed_close(&b);
}

/* /a uses @want percent of the time that /a and /b use in the next 400 slices, or up to two more or
 * less: the instructions are counted, and the first ones of a VM are dearer than those that follow.
 */
static void expect_part(struct bed *b, unsigned int want, int line)
{
	uint64_t of_a = count_of(b, "t", "/a"), of_b = count_of(b, "t", "/b"), all;

	cr_assert_eq(machine_step(b->machine, 400), 400);
	of_a = count_of(b, "t", "/a") - of_a;
	all = of_a + count_of(b, "t", "/b") - of_b;
	cr_expect(100 * of_a >= (want - 2) * all && 100 * of_a <= (want + 2) * all,
		  "line %d: %lu %%", line, 100 * of_a / all);
}

/* Weights are changed while VMs run, and count at once. */
Test(control, weights_change_while_vms_run)
{
	static const struct {
		const char *request, *says;
	} bad[] = {
		{"{'cmd':'vm-set','name':'a'}", "give weight or max_events"},
		{"{'cmd':'vm-set','name':'a','max_events':57}", "1 to 56"},
		{"{'cmd':'vm-set','weight':5}", "name: "},
		{"{'cmd':'vm-set','name':'c','weight':5}", "no VM \"c\""},
		{"{'cmd':'vm-set','name':'a','weight':0}", "1 to 10000"},
		{"{'cmd':'vm-set','name':'a','weight':10001}", "1 to 10000"},
		{"{'cmd':'vm-set','name':'a','weight':'5'}", "an integer"},
		{"{'cmd':'vm-set','name':'a','weight':5,'x':1}", "x: "},
		{"{'cmd':'tenant-set','path':'/c','weight':5}", "no tenant \"/c\""},
		{"{'cmd':'tenant-set','path':'/','weight':5}", "no tenant \"/\""},
	};
	struct machine_vm *vm[3];
	struct bed b;

	bed_open(&b, "pcpus=1,slice=1000");
	vm[0] = bed_add(&b, "name=a,tenant=/a,args=spin");
	vm[1] = bed_add(&b, "name=b,tenant=/b,args=spin");
	bed_do(&b, "{'cmd':'attach','name':'t','scope':'tenant','events':'instructions'}");
	for (int i = 0; i < 2; i++)
		bed_start(vm[i]);
	machine_step(b.machine, 100);
	expect_part(&b, 50, __LINE__);
	bed_do(&b, "{'cmd':'tenant-set','path':'/a','weight':300}");
	expect_part(&b, 75, __LINE__);
	/* A VM that is alone in its tenant has all of it, whatever its weight. */
	bed_do(&b, "{'cmd':'vm-set','name':'a','weight':1}");
	expect_part(&b, 75, __LINE__);
	bed_do(&b, "{'cmd':'tenant-set','path':'/a','weight':100}");
	vm[2] = bed_add(&b, "name=a2,tenant=/a,args=spin");
	bed_start(vm[2]);
	bed_do(&b, "{'cmd':'vm-set','name':'a','weight':100}");
	bed_do(&b, "{'cmd':'vm-set','name':'a2','weight':900}");
	machine_step(b.machine, 1000); /* past its boot, which has expensive instructions */
	expect_part(&b, 50, __LINE__);
	cr_expect_eq(share_weight(&vm[2]->vm->share), 900);
	cr_expect_eq(vm[2]->weight, 900, "as `list` shows it");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		bed_refused(&b, bad[i].says, "%s", bad[i].request);
	cr_expect_eq(machine_tenant_weight(vm[0]), 100);
	cr_expect_eq(share_weight(&vm[0]->vm->share), 100);
	bed_close(&b);
}

/* The kernel divides the time of KVM guests, so a weight would have no effect. */
Test(control, a_kvm_guest_has_no_weight)
{
	struct bed b;

	if (!bed_kvm())
		return;
	bed_open(&b, "");
	bed_add(&b, "name=k,engine=kvm,args=spin");
	bed_refused(&b, "engine kvm", "{'cmd':'vm-set','name':'k','weight':5}");
	bed_do(&b, "{'cmd':'vm-set','name':'k','max_events':5}");
	bed_close(&b);
}

/* A pCPU with an owner that never polls is waited for until stalled_after. */
Test(control, a_pcpu_is_stalled_after_so_long)
{
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	struct bed b;

	bed_open(&b, "stalled_after=1");
	bed_add(&b, "name=v,args=spin");
	cr_expect_eq(bed_host(&b)->deadline_ns, 1000000);
	cr_assert_eq(vpmu_emupmu_init(&pmu, NULL), 0);
	cr_assert_eq(vpmu_pcpu_create(bed_host(&b), &pmu.pmu, 99, &p), 0);
	vpmu_pcpu_online(p);
	bed_refused(&b, "pCPU 99 of backend emulator does not answer", "{'cmd':'conservation'}");
	vpmu_pcpu_offline(p);
	cr_assert_eq(vpmu_pcpu_destroy(p), 0);
	bed_close(&b);
	bed_open(&b, "");
	bed_add(&b, "name=v,args=spin");
	cr_expect_eq(bed_host(&b)->deadline_ns, 10000000000);
	bed_close(&b);
}

static void pause_and_resume(const char *engine)
{
	uint64_t at_pause;
	struct bed b;

	bed_open(&b, "");
	bed_add(&b, "name=v,tenant=/a,vcpus=2,engine=%s,args=spin", engine);
	bed_do(&b,
	       "{'cmd':'attach','name':'t','keep':true,'scope':'tenant','events':'ref-cycles'}");
	expect_state(&b, "v", "paused");
	cr_assert_eq(count_of(&b, "t", "/a"), 0);
	bed_do(&b, "{'cmd':'resume'}");
	expect_state(&b, "v", "running");
	while (!count_of(&b, "t", "/a"))
		;
	bed_do(&b, "{'cmd':'pause','name':'v'}");
	expect_state(&b, "v", "paused");
	at_pause = count_of(&b, "t", "/a");
	for (int i = 0; i < 20; i++)
		cr_assert_eq(count_of(&b, "t", "/a"), at_pause);
	bed_do(&b, "{'cmd':'resume','name':'v'}");
	while (count_of(&b, "t", "/a") == at_pause)
		;
	bed_do(&b, "{'cmd':'pause'}");
	/* A VM added while everything is paused waits too. */
	bed_do(&b, ADD("'name':'w','engine':'%s','args':'run loop 5'"), engine);
	expect_state(&b, "w", "paused");
	bed_do(&b, "{'cmd':'resume'}");
	bed_wait_line(&b, "w", "loop 5 = 15");
	bed_close(&b);
}

Test(control, pause_and_resume_emu)
{
	pause_and_resume("emulator");
}

Test(control, pause_and_resume_kvm)
{
	if (bed_kvm())
		pause_and_resume("kvm");
}

/* A VM that has ended is still listed, until it is removed; then its name is free. */
Test(control, ended_vms)
{
	struct bed b;

	bed_open(&b, "");
	bed_add(&b, "name=good,args=run loop 5");
	bed_add(&b, "name=bad,args=nonsense");
	bed_run(&b, 2);
	expect_state(&b, "good", "done");
	expect_state(&b, "bad", "done");
	cr_assert_eq(b.failed, 1); /* status is not 0 */
	bed_refused(&b, "", ADD("'name':'good','engine':'emulator'"));
	bed_do(&b, "{'cmd':'resume','name':'good'}");
	expect_state(&b, "good", "done");
	bed_do(&b, "{'cmd':'vm-remove','name':'good'}");
	bed_do(&b, ADD("'name':'good','engine':'emulator','args':'help'"));
	bed_refused(&b, "", "{'cmd':'vm-remove','name':'nobody'}");
	bed_do(&b, "{'cmd':'quit'}");
	cr_assert(b.quit);
	bed_close(&b);
}

Test(control, refused)
{
	static const struct {
		const char *request, *says;
	} rows[] = {
		{"{'cmd':'vm-add'}", "vm/name: not given"},
		{"{'cmd':'vm-add','name':'x'}", "vm x/image: not given"},
		{"{'cmd':'vm-add','name':true}", "vm/name: expected"},
		{"{'cmd':'vm-add','name':['x']}", "a string or a number"},
		{"{'cmd':'vm-add','name':'a\\u0000b'}", "u0000"},
		{"{'cmd':'vm-add','name':'x/y'}", "vm/name: \"x/y\" is invalid"},
		{"{'cmd':'vm-add','colour':'red'}", "vm/colour: no such key"},
		{ADD("'name':'x','vcpus':0"), "vm/vcpus: \"0\" is invalid"},
		{ADD("'name':'x','vcpus':-1"), "vm/vcpus: \"-1\" is invalid"},
		{ADD("'name':'x','vcpus':1.5"), "a string or a number"},
		{ADD("'name':'x','memory':'1M'"), "4M to 64G"},
		{ADD("'name':'x','tenant':'/../x'"), "vm/tenant"},
		{"{'cmd':'vm-add','name':'x','engine':'emulator','image':'/nowhere'}",
		 "/nowhere: No such file"},
		{"{'cmd':'vm-add','name':'x','engine':'emulator','image':'/proc/self/exe'}",
		 "/proc/self/exe"},
		{"{'cmd':'vm-remove'}", "name"},
		{"{'cmd':'vm-remove','name':'x','force':true}", "force"},
		{"{'cmd':'pause','name':'x'}", "no VM \"x\""},
		{"{'cmd':'resume','name':'x'}", "no VM \"x\""},
		{"{'cmd':'quit','now':true}", "now"},
	};
	struct bed b;

	bed_open(&b, "");
	bed_add(&b, "name=steady,args=spin");
	bed_run(&b, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bed_refused(&b, rows[i].says, "%s", rows[i].request);
		cr_assert_null(list_field(&b, "x", "state"), "%s left a VM", rows[i].request);
	}
	cr_assert_not(b.quit);
	expect_state(&b, "steady", "running"); /* nothing else was affected */
	bed_close(&b);
}
