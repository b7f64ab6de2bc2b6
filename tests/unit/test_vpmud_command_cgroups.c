// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmud/command_cgroups.c: cgroups that clients name. The root is a directory of this test's own.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmud/command_cgroups.h"

static char root[] = "/tmp/vpmu-cgroups-XXXXXX", dir[100], err[400];
static struct rules rules;

static void setup(void)
{
	cr_assert(mkdtemp(root));
	snprintf(dir, sizeof(dir), "%s/job", root);
	cr_assert(!mkdir(dir, 0755));
}

static void teardown(void)
{
	rmdir(dir);
	rmdir(root);
	rules_fini(&rules);
}

TestSuite(command_cgroups, .init = setup, .fini = teardown);

static int ask(bool add, const char *cgroup, json_t *resp)
{
	json_t *req = cgroup ? json_pack("{s:s, s:s}", "cmd", "x", "cgroup", cgroup)
			     : json_pack("{s:s}", "cmd", "x");
	int ret = add ? command_cgroup_add(&rules, root, req, err, sizeof(err))
		      : command_cgroup_find(&rules, root, req, resp, err, sizeof(err));

	json_decref(req);
	return ret;
}

Test(command_cgroups, what_is_refused)
{
	static const struct {
		const char *cgroup; /* NULL: not given */
		int find, add;
	} rows[] = {
		{NULL, -EINVAL, -EINVAL},
		{"", -EINVAL, -EINVAL},
		{"job", -EINVAL, -EINVAL},
		{"/../etc", -EINVAL, -EINVAL},
		{"/job/..", -EINVAL, -EINVAL},
		{"/./job", -EINVAL, -EINVAL},
		{"//job", -EINVAL, -EINVAL},
		{"/job/", -EINVAL, -EINVAL},
		{"/nope", -ENOENT, -ENOENT},
		{"/j*", -ENOENT, -ENOENT},
		{"/", 0, -EINVAL},
		{"/job", 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		json_t *resp = json_object();
		int find = ask(false, rows[i].cgroup, resp), add = ask(true, rows[i].cgroup, NULL);

		cr_expect_eq(find, rows[i].find, "find %s: %d, %s", rows[i].cgroup, find, err);
		cr_expect_eq(add, rows[i].add, "add %s: %d, %s", rows[i].cgroup, add, err);
		json_decref(resp);
	}
	cr_expect_eq(rules.commands.nr, 1);
}

Test(command_cgroups, a_pattern_is_no_name)
{
	char odd[120];

	snprintf(odd, sizeof(odd), "%s/j[o]b", root);
	cr_assert(!mkdir(odd, 0755));
	cr_expect_eq(ask(true, "/j[o]b", NULL), -EINVAL, "%s", err);
	rmdir(odd);
}

Test(command_cgroups, until_it_is_gone)
{
	json_t *resp = json_object();

	cr_assert(!ask(false, "/job", resp));
	cr_expect_str_eq(json_string_value(json_object_get(resp, "tenant")), "/host");
	cr_expect_str_eq(json_string_value(json_object_get(resp, "cgroup")), "");
	cr_assert(!ask(true, "/job", NULL));
	cr_assert(!ask(false, "/job", resp));
	cr_expect_str_eq(json_string_value(json_object_get(resp, "tenant")), "/job");
	cr_expect_str_eq(json_string_value(json_object_get(resp, "cgroup")), "/job");
	command_cgroups_tend(&rules, root);
	cr_expect_eq(rules.commands.nr, 1);
	rmdir(dir);
	command_cgroups_tend(&rules, root);
	cr_expect_eq(rules.commands.nr, 0);
	json_decref(resp);
}

Test(command_cgroups, bounded)
{
	for (int i = 0; i < RULES_PATTERNS_MAX; i++)
		cr_assert(!ask(true, "/job", NULL));
	cr_expect_eq(ask(true, "/job", NULL), -E2BIG);
}
