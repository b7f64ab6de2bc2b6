// SPDX-License-Identifier: GPL-2.0-or-later
/* The VMM's own commands, while VMs run: adding, removing, pausing; and what they refuse. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "machine_bed.h"

#define ADD(rest) "{\"cmd\":\"vm-add\",\"image\":\"" VPMU_GUEST "\"," rest "}"

/* Field @key of the row of @vm in `list`, or NULL. */
static char *list_field(struct bed *b, const char *vm, const char *key)
{
	json_t *answer = bed_ask(b, true, "{\"cmd\":\"list\"}"), *node;
	char *text = NULL;
	size_t i;

	json_array_foreach (json_object_get(answer, "nodes"), i, node) {
		const char *name = json_string_value(json_object_get(node, "vm"));

		if (name && !strcmp(name, vm))
			text = strdup(json_string_value(json_object_get(node, key)));
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
	json_t *answer = bed_ask(b, true, "{\"cmd\":\"read\",\"session\":\"%s\"}", session), *row;
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
	json_decref(bed_ask(&b, true, "{\"cmd\":\"tenant-add\",\"path\":\"/a/b\"}"));
	json_decref(bed_ask(&b, true,
			    "{\"cmd\":\"attach\",\"name\":\"t\",\"keep\":true,"
			    "\"scope\":\"tenant\",\"events\":\"ref-cycles\"}"));
	bed_add(&b, "name=steady,tenant=/a,vcpus=2,engine=%s,args=spin", engine);
	bed_run(&b, 0);
	for (unsigned int i = 0; i < vms; i++) {
		json_decref(bed_ask(&b, true,
				    ADD("\"name\":\"v%u\",\"tenant\":\"/a/b\",\"vcpus\":%u,"
					"\"engine\":\"%s\",\"pmu\":\"%s\",\"args\":\"%s\""),
				    i, 1 + i % 3, engine, i % 2 ? "amd-v2" : "intel-v5",
				    i % 4 ? "spin" : "stat loop 20000"));
		if (i % 5 == 0)
			json_decref(bed_ask(&b, true, "{\"cmd\":\"pause\",\"name\":\"v%u\"}", i));
		if (i >= 4)
			json_decref(bed_ask(&b, true, "{\"cmd\":\"vm-remove\",\"name\":\"v%u\"}",
					    i - 4));
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

Test(control, churn_soft)
{
	churn("soft", 100);
}

Test(control, churn_kvm)
{
	if (bed_kvm())
		churn("kvm", 16);
}

static void pause_and_resume(const char *engine)
{
	uint64_t at_pause;
	struct bed b;

	bed_open(&b, "");
	bed_add(&b, "name=v,tenant=/a,vcpus=2,engine=%s,args=spin", engine);
	json_decref(bed_ask(&b, true,
			    "{\"cmd\":\"attach\",\"name\":\"t\",\"keep\":true,"
			    "\"scope\":\"tenant\",\"events\":\"ref-cycles\"}"));
	expect_state(&b, "v", "paused");
	cr_assert_eq(count_of(&b, "t", "/a"), 0);
	json_decref(bed_ask(&b, true, "{\"cmd\":\"resume\"}"));
	expect_state(&b, "v", "running");
	while (!count_of(&b, "t", "/a"))
		;
	json_decref(bed_ask(&b, true, "{\"cmd\":\"pause\",\"name\":\"v\"}"));
	expect_state(&b, "v", "paused");
	at_pause = count_of(&b, "t", "/a");
	for (int i = 0; i < 20; i++)
		cr_assert_eq(count_of(&b, "t", "/a"), at_pause);
	json_decref(bed_ask(&b, true, "{\"cmd\":\"resume\",\"name\":\"v\"}"));
	while (count_of(&b, "t", "/a") == at_pause)
		;
	json_decref(bed_ask(&b, true, "{\"cmd\":\"pause\"}"));
	/* A VM added while everything is paused waits too. */
	json_decref(bed_ask(
		&b, true, ADD("\"name\":\"w\",\"engine\":\"%s\",\"args\":\"run loop 5\""), engine));
	expect_state(&b, "w", "paused");
	json_decref(bed_ask(&b, true, "{\"cmd\":\"resume\"}"));
	bed_wait_line(&b, "w", "loop 5 = 15");
	bed_close(&b);
}

Test(control, pause_and_resume_soft)
{
	pause_and_resume("soft");
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
	json_decref(bed_ask(&b, false, ADD("\"name\":\"good\",\"engine\":\"soft\"")));
	json_decref(bed_ask(&b, true, "{\"cmd\":\"resume\",\"name\":\"good\"}"));
	expect_state(&b, "good", "done");
	json_decref(bed_ask(&b, true, "{\"cmd\":\"vm-remove\",\"name\":\"good\"}"));
	json_decref(
		bed_ask(&b, true, ADD("\"name\":\"good\",\"engine\":\"soft\",\"args\":\"help\"")));
	json_decref(bed_ask(&b, false, "{\"cmd\":\"vm-remove\",\"name\":\"nobody\"}"));
	json_decref(bed_ask(&b, true, "{\"cmd\":\"quit\"}"));
	cr_assert(b.quit);
	bed_close(&b);
}

Test(control, refused)
{
	static const struct {
		int line;
		const char *request, *says;
	} rows[] = {
		{__LINE__, "{\"cmd\":\"vm-add\"}", "vm/name: not given"},
		{__LINE__, "{\"cmd\":\"vm-add\",\"name\":\"x\"}", "vm x/image: not given"},
		{__LINE__, "{\"cmd\":\"vm-add\",\"name\":true}", "vm/name: accepted"},
		{__LINE__, "{\"cmd\":\"vm-add\",\"name\":[\"x\"]}", "a string or a number"},
		{__LINE__, "{\"cmd\":\"vm-add\",\"name\":\"a\\u0000b\"}", "u0000"},
		{__LINE__, "{\"cmd\":\"vm-add\",\"name\":\"x/y\"}", "vm/name: \"x/y\" given"},
		{__LINE__, "{\"cmd\":\"vm-add\",\"colour\":\"red\"}", "vm/colour: no such key"},
		{__LINE__, ADD("\"name\":\"x\",\"vcpus\":0"), "vm/vcpus: \"0\" given"},
		{__LINE__, ADD("\"name\":\"x\",\"vcpus\":-1"), "vm/vcpus: \"-1\" given"},
		{__LINE__, ADD("\"name\":\"x\",\"vcpus\":1.5"), "a string or a number"},
		{__LINE__, ADD("\"name\":\"x\",\"memory\":\"1M\""), "4M to 64G"},
		{__LINE__, ADD("\"name\":\"x\",\"tenant\":\"/../x\""), "vm/tenant"},
		{__LINE__,
		 "{\"cmd\":\"vm-add\",\"name\":\"x\",\"engine\":\"soft\",\"image\":\"/nowhere\"}",
		 "/nowhere: No such file"},
		{__LINE__,
		 "{\"cmd\":\"vm-add\",\"name\":\"x\",\"engine\":\"soft\",\"image\":\"/proc/self/"
		 "exe\"}",
		 "/proc/self/exe"},
		{__LINE__, "{\"cmd\":\"vm-remove\"}", "name"},
		{__LINE__, "{\"cmd\":\"vm-remove\",\"name\":\"x\",\"force\":true}", "force"},
		{__LINE__, "{\"cmd\":\"pause\",\"name\":\"x\"}", "no VM \"x\""},
		{__LINE__, "{\"cmd\":\"resume\",\"name\":\"x\"}", "no VM \"x\""},
		{__LINE__, "{\"cmd\":\"quit\",\"now\":true}", "now"},
	};
	struct bed b;

	bed_open(&b, "");
	bed_add(&b, "name=steady,args=spin");
	bed_run(&b, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *answer = bed_ask(&b, false, "%s", rows[i].request);
		const char *error = json_string_value(json_object_get(answer, "error"));

		cr_assert(error && strstr(error, rows[i].says), "line %d: %s", rows[i].line, error);
		cr_assert_null(strchr(error, '\n'));
		json_decref(answer);
		cr_assert_null(list_field(&b, "x", "state"), "line %d left a VM", rows[i].line);
	}
	cr_assert_not(b.quit);
	expect_state(&b, "steady", "running"); /* nothing else was affected */
	bed_close(&b);
}
