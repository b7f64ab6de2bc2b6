// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmud.conf: valid files, the messages of others, and the tenant that the rules give a
 * VM or a cgroup. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vpmud/config.h"

static struct vpmud_config c;
static char err[600];

static void setup(void)
{
	vpmud_config_init(&c);
}

static void teardown(void)
{
	vpmud_config_fini(&c);
}

TestSuite(vpmud_config, .init = setup, .fini = teardown);
TestSuite(vpmud_rules, .init = setup, .fini = teardown);

static int read_text(const char *text)
{
	return vpmud_config_text(&c, "f.conf", text, strlen(text), err, sizeof(err));
}

Test(vpmud_config, defaults_and_all_keys)
{
	cr_expect_null(c.pin_dir);
	cr_expect_str_eq(c.libvirt, "qemu:///system");
	cr_expect_not(c.isolated);
	cr_expect_eq(c.leave_counters, 2);
	cr_expect_eq(c.counters, 0);
	cr_assert_eq(read_text("[vpmud]\nsocket=/run/x.sock\npin_dir = /b/p\ncgroup_root=/c\n"
			       "libvirt = qemu:///embedded?x=:///embed\nisolated = yes\n"
			       "admin_group=adm\n"
			       "leave_counters = 0\ncounters = 8\n"
			       "reader_group = a=/acme b\n[tenant /acme]\ncgroup = /a.slice\n"
			       "cgroup = /b-*.slice/x\\x2dy\nmetadata = 12*\nvm = web-?\n"
			       "vm_owner = root\nvm_owner = 4294967294\n"
			       "[tenant /acme/web]\n[tenant /*]\nvm = *\n"),
		     0, "%s", err);
	cr_expect_str_eq(c.socket, "/run/x.sock");
	cr_expect_str_eq(c.pin_dir, "/b/p");
	cr_expect_str_eq(c.cgroup_root, "/c");
	cr_expect_str_eq(c.libvirt, "qemu:///embedded?x=:///embed");
	cr_expect(c.isolated);
	cr_expect_eq(c.leave_counters, 0);
	cr_expect_eq(c.counters, 8);
	cr_expect_str_eq(c.admin_group, "adm");
	cr_expect_str_eq(c.reader_group, "a=/acme b");
	cr_assert_eq(c.rules.nr, 3);
	cr_expect_str_eq(c.rules.rule[0].path, "/acme");
	cr_assert_eq(c.rules.rule[0].cgroup.nr, 2);
	cr_expect_str_eq(c.rules.rule[0].cgroup.text[1], "/b-*.slice/x\\x2dy");
	cr_expect_eq(c.rules.rule[0].metadata.nr, 1);
	cr_expect_eq(c.rules.rule[0].vm.nr, 1);
	cr_assert_eq(c.rules.rule[0].nr_owners, 2);
	cr_expect_eq(c.rules.rule[0].owners[0], 0);
	cr_expect_eq(c.rules.rule[0].owners[1], 4294967294);
	cr_expect_not(c.rules.rule[1].each);
	cr_expect(c.rules.rule[2].each);
	cr_expect_str_eq(c.rules.rule[2].path, "");
}

Test(vpmud_config, what_is_wrong_is_said_in_one_line)
{
	static const struct {
		unsigned int line;
		const char *text, *message;
	} rows[] = {
		{__LINE__, "x = 1\n", "f.conf:1: \"x\" before any section; expected [vpmud] or"},
		{__LINE__, "[vpmu]\n",
		 "f.conf:1: [vpmu] is invalid; expected [vpmud] or [tenant /PATH]"},
		{__LINE__, "[tenant /a\n", "f.conf:1: section without \"]\""},
		{__LINE__, "[vpmud]\n[vpmud]\n", "f.conf:2: [vpmud] given twice"},
		{__LINE__, "[vpmud]\nsock = /a\n",
		 "f.conf:2: vpmud/sock: no such key; expected socket, pin_dir"},
		{__LINE__, "[vpmud]\nsocket = a\n",
		 "f.conf:2: vpmud/socket: \"a\" is invalid; expected "},
		{__LINE__, "[vpmud]\nsocket = /a\nsocket = /b\n",
		 "f.conf:3: vpmud/socket: given twice"},
		{__LINE__, "[vpmud]\nlibvirt = qemu:///system qemu:///embed?root=/a\n",
		 "it has domains of its own process only"},
		{__LINE__, "[vpmud]\nlibvirt = qemu:///embed\n", "domains of its own process"},
		{__LINE__, "[vpmud]\nlibvirt = 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n",
		 "up to 16 of them"},
		{__LINE__, "[vpmud]\nisolated = maybe\n", "expected yes or no"},
		{__LINE__, "[vpmud]\nleave_counters = -1\n", "\"-1\" is invalid; expected 0 to 64"},
		{__LINE__, "[vpmud]\nleave_counters = 65\n", "expected 0 to 64"},
		{__LINE__, "[vpmud]\ncounters = 0\n", "expected 1 to 64"},
		{__LINE__, "[vpmud]\nadmin_group = a\x1b[31m\n", "control characters"},
		{__LINE__, "[tenant acme]\n", "f.conf:1: [tenant acme]: tenant path \"acme\""},
		{__LINE__, "[tenant /host]\n", "/host is what runs in no tenant"},
		{__LINE__, "[tenant /a/*/b]\n", "components of [A-Za-z0-9_.:@-]"},
		{__LINE__, "[tenant /]\n", "a path like /acme/web"},
		{__LINE__, "[tenant /a]\n\n[tenant /a]\n", "f.conf:3: [tenant /a]: given twice"},
		{__LINE__, "[tenant /a]\ncgroup = a\n",
		 "f.conf:2: tenant /a/cgroup: \"a\" is invalid; exp"},
		{__LINE__, "[tenant /a]\ncgroup = /\n", "tenant /a/cgroup: \"/\" is invalid"},
		{__LINE__, "[tenant /a]\ncgroup = /a//b\n", "up to 32 components"},
		{__LINE__, "[tenant /a]\ncgroup = /a/../b\n", "no . or .."},
		{__LINE__, "[tenant /a]\ncgroup =\n", "tenant /a/cgroup: \"\" is invalid"},
		{__LINE__, "[tenant /a]\nvm =\n", "tenant /a/vm: \"\" is invalid"},
		{__LINE__, "[tenant /a]\nuser = x\n", "no such key; expected cgroup, metadata, vm"},
		{__LINE__, "[metrics]\n", "f.conf:1: [metrics] is invalid; expected [vpmud] or"},
		{__LINE__, "[tenant /a/*]\n", "neither cgroup nor metadata nor vm"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		vpmud_config_fini(&c);
		vpmud_config_init(&c);
		*err = '\0';
		cr_expect_eq(read_text(rows[i].text), -EINVAL, "line %u", rows[i].line);
		cr_expect(strstr(err, rows[i].message), "line %u: %s", rows[i].line, err);
		cr_expect_null(strpbrk(err, "\n\x1b"), "line %u: one line", rows[i].line);
	}
}

Test(vpmud_config, limits)
{
	char text[60 * RULES_PATTERNS_MAX];
	size_t len = (size_t)sprintf(text, "[tenant /a]\n");

	for (int i = 0; i <= RULES_PATTERNS_MAX; i++)
		len += (size_t)sprintf(text + len, "vm = x%d\n", i);
	cr_expect_eq(read_text(text), -EINVAL);
	cr_expect(strstr(err, "f.conf:258: tenant /a/vm: \"x256\" is invalid") &&
			  strstr(err, "256 of them"),
		  "%s", err);
	cr_expect_eq(vpmud_config_file(&c, "/nonexistent/f", err, sizeof(err)), -ENOENT);
	cr_expect_str_eq(err, "/nonexistent/f: No such file or directory");
}

Test(vpmud_config, what_a_reload_cannot_change)
{
	static const char *const changes[] = {
		"socket=/x",	 "pin_dir=/x",	   "cgroup_root=/x",   "libvirt=none", "isolated=1",
		"admin_group=x", "reader_group=x", "leave_counters=3", "counters=5",
	};
	struct vpmud_config d;
	char text[80];

	vpmud_config_init(&d);
	cr_assert_eq(read_text("[tenant /a]\n"), 0);
	cr_expect_null(vpmud_config_fixed(&c, &d), "rules may change");
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		const char *key;

		vpmud_config_fini(&d);
		vpmud_config_init(&d);
		sprintf(text, "[vpmud]\n%s\n", changes[i]);
		cr_assert_eq(vpmud_config_text(&d, "f", text, strlen(text), err, sizeof(err)), 0);
		key = vpmud_config_fixed(&c, &d);
		cr_assert(key, "%s", changes[i]);
		cr_expect(!strncmp(key, changes[i], strlen(key)), "%s: %s", changes[i], key);
	}
	vpmud_config_fini(&d);
}

/* ---- rules ---------------------------------------------------------------------------------- */

static char path[TENANT_PATH_MAX + 1];

static const struct rule *refused;

/* The tenant of a process that has @uid. */
static const char *process_in(const char *name, const char *cgroup, uid_t uid)
{
	const struct rules_vm vm = {.name = name, .cgroup = cgroup, .uid = uid};

	return rules_vm(&c.rules, &vm, path, &refused, err, sizeof(err)) ? path : NULL;
}

/* The tenant of a domain of libvirt. */
static const char *vm_in(const char *name, const char *metadata, const char *cgroup)
{
	const struct rules_vm vm = {name, metadata, cgroup, true, (uid_t)-1};
	bool in = rules_vm(&c.rules, &vm, path, &refused, err, sizeof(err));

	cr_expect_null(refused);
	return in ? path : NULL;
}

Test(vpmud_rules, without_rules_metadata_says)
{
	cr_expect_str_eq(vm_in("web", "/acme/web", NULL), "/acme/web");
	cr_expect_str_eq(vm_in("web", "acme", "/x"), "/acme");
	cr_expect_str_eq(vm_in("web", "7 0", "/x"), "/7_0");
	cr_expect_null(vm_in("web", NULL, "/x"));
	cr_expect_str_eq(err, "");
	cr_expect_null(vm_in("web", "/host", "/x"));
	cr_expect(strstr(err, "/host is what runs in no tenant"), "%s", err);
	cr_expect_null(vm_in("web", "/a/../b", "/x"));
	cr_expect(strstr(err, "other than . and .."), "%s", err);
}

Test(vpmud_rules, metadata_then_name_then_cgroup)
{
	cr_assert_eq(read_text("[tenant /c]\ncgroup = /m/*\n[tenant /v]\nvm = web*\n"
			       "[tenant /m]\nmetadata = acme\n[tenant /m2]\nmetadata = a*\n"),
		     0);
	cr_expect_str_eq(vm_in("web", "acme", "/m/1"), "/m");
	cr_expect_str_eq(vm_in("web", "/acme", "/m/1"), "/m", "a path without its slash");
	cr_expect_str_eq(vm_in("web", "acme2", "/m/1"), "/m2", "the first section that matches");
	cr_expect_str_eq(vm_in("web", "b", "/m/1"), "/v");
	cr_expect_str_eq(vm_in("db", "b", "/m/1"), "/c");
	cr_expect_str_eq(vm_in("db", NULL, "/m/1/emulator"), "/c", "below the cgroup");
	cr_expect_null(vm_in("db", NULL, "/m"));
	cr_expect_null(vm_in("db", NULL, "/mm/1"));
	cr_expect_null(vm_in("db", NULL, NULL));
}

/* Names that are not from libvirt are a process's own. */
Test(vpmud_rules, a_name_counts_for_whom_the_section_believes)
{
	cr_assert_eq(read_text("[tenant /a]\nvm = *\n[tenant /b]\nvm = b-*\nvm_owner = 107\n"
			       "vm_owner=root\ncgroup = /b\n[tenant /c]\nvm = b-*\nvm_owner = 108\n"
			       "[tenant /d]\ncgroup = /d\n"),
		     0, "%s", err);
	cr_expect_null(process_in("b-1", NULL, 106));
	cr_expect_eq(refused, &c.rules.rule[0], "the first one");
	cr_expect_str_eq(process_in("b-1", "/d/x", 106), "/d", "its cgroup");
	cr_expect_eq(refused, &c.rules.rule[0]);
	cr_expect_str_eq(process_in("b-1", "/d", 107), "/b");
	cr_expect_null(refused);
	cr_expect_str_eq(process_in("b-1", "/d", 0), "/b");
	cr_expect_str_eq(process_in("b-1", "/d", 108), "/c");
	cr_expect_str_eq(process_in("b-1", "/b/x", 108), "/b", "in a cgroup of the section");
	cr_expect_str_eq(process_in("b-1", "/d", (uid_t)-1), "/d", "not known, or several");
	cr_expect_str_eq(process_in("x", "/d", 107), "/d", "another name");
	cr_expect_str_eq(vm_in("b-1", NULL, "/d"), "/a", "libvirt says it");
}

Test(vpmud_rules, the_longest_cgroup_pattern_counts)
{
	cr_assert_eq(
		read_text("[tenant /a]\ncgroup = /s\n[tenant /b]\ncgroup = /s/*.service\n"
			  "[tenant /c]\ncgroup = /s/x*\n[tenant /d]\ncgroup = /s/[ab]\\x2d?\n"),
		0, "%s", err);
	cr_expect_str_eq(vm_in("v", NULL, "/s"), "/a");
	cr_expect_str_eq(vm_in("v", NULL, "/s/other"), "/a");
	cr_expect_str_eq(vm_in("v", NULL, "/s/x.service/y"), "/b", "the first of two of a length");
	cr_expect_str_eq(vm_in("v", NULL, "/s/x1"), "/c");
	cr_expect_str_eq(vm_in("v", NULL, "/s/b\\x2d7"), "/d", "a backslash is a character");
	cr_expect_str_eq(vm_in("v", NULL, "/s/bx2d7"), "/a");
	cr_expect_eq(rules_cgroup(&c.rules, "/s/x1", path, err, sizeof(err)), &c.rules.rule[2]);
	cr_expect_null(rules_cgroup(&c.rules, "/s/x1/y", path, err, sizeof(err)), "itself only");
	cr_expect_null(rules_cgroup(&c.rules, "/t", path, err, sizeof(err)));
}

Test(vpmud_rules, names_take_the_place_of_the_star)
{
	char name[300];

	cr_assert_eq(read_text("[tenant /pods/*]\ncgroup = /k/*/pod*\n[tenant /*]\nmetadata = *\n"
			       "[tenant /vms/*]\nvm = *\n"),
		     0, "%s", err);
	cr_expect(rules_cgroup(&c.rules, "/k/burst/pod\\x2d1", path, err, sizeof(err)));
	cr_expect_str_eq(path, "/pods/pod_x2d1");
	cr_expect_str_eq(vm_in("a/b c", NULL, NULL), "/vms/a_b_c");
	cr_expect_str_eq(vm_in("v", "/x/y", NULL), "/x/y");
	cr_expect_null(vm_in("v", "/x//y", NULL));
	cr_expect(*err);
	cr_expect_null(vm_in("..", NULL, NULL));
	memset(name, 'n', 299);
	name[299] = '\0';
	cr_expect_null(vm_in(name, NULL, NULL));
	cr_expect(strstr(err, "longer than 255"), "%s", err);
}

Test(vpmud_rules, a_commands_cgroup_is_a_tenant_of_its_own)
{
	size_t len;

	cr_assert_eq(read_text("[tenant /a]\ncgroup = /s\n"), 0, "%s", err);
	cr_assert_eq(patterns_add(&c.rules.commands, "/s/x/vpmu-stat-7"), 0);
	cr_assert_eq(patterns_add(&c.rules.commands, "/other/vpmu-stat-8"), 0);
	cr_expect(rules_cgroup(&c.rules, "/s/x/vpmu-stat-7", path, err, sizeof(err)));
	cr_expect_str_eq(path, "/a/vpmu-stat-7", "below the tenant that would have it");
	cr_expect(rules_cgroup(&c.rules, "/other/vpmu-stat-8", path, err, sizeof(err)));
	cr_expect_str_eq(path, "/vpmu-stat-8");
	cr_expect_null(rules_cgroup(&c.rules, "/s/x/vpmu-stat-77", path, err, sizeof(err)));
	cr_expect_str_eq(vm_in("v", NULL, "/s/x/vpmu-stat-7/vm"), "/a/vpmu-stat-7");
	cr_expect(rules_find(&c.rules, "/s/x/vpmu-stat-7/y", path, &len));
	cr_expect_eq(len, strlen("/s/x/vpmu-stat-7"));
	cr_expect(rules_find(&c.rules, "/s/y", path, &len));
	cr_expect_str_eq(path, "/a");
	cr_expect_eq(len, 2);
	cr_expect_not(rules_find(&c.rules, "/t", path, &len));
	/* Gone: the tenant above has it again. */
	patterns_remove(&c.rules.commands, 0);
	cr_expect_str_eq(vm_in("v", NULL, "/s/x/vpmu-stat-7/vm"), "/a");
	cr_expect(rules_cgroup(&c.rules, "/other/vpmu-stat-8", path, err, sizeof(err)));
}
