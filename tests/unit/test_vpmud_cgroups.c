// SPDX-License-Identifier: GPL-2.0-or-later
/* Cgroups that match the rules, as they come and go. The tree is of plain directories: what
 * cgroups.c does with them is the same. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmud/cgroups.h"
#include "vpmud/config.h"

static char root[] = "/tmp/cgroups.XXXXXX", seen[4000];
static sd_event *ev;
static struct vpmud_config conf, conf2;
static struct cgroups *c;
static char err[300];
static unsigned int nr_born;

static void add(void *arg, struct cgroup *g)
{
	sprintf(seen + strlen(seen), "+%s=%s ", g->path, g->tenant);
	nr_born += g->born;
	cr_expect_null(g->user);
	cr_expect(g->id);
	g->user = g; /* the same object comes back */
}

static void del(void *arg, struct cgroup *g)
{
	sprintf(seen + strlen(seen), "-%s=%s ", g->path, g->tenant);
	cr_expect_eq(g->user, g);
}

static void say(void *arg, const char *line)
{
	sprintf(seen + strlen(seen), "!%s ", line);
}

static const struct cgroups_ops ops = {add, del, say};

/* Run a command in the tree. */
static void sh(const char *command)
{
	char line[1000];

	snprintf(line, sizeof(line), "cd %s && %s", root, command);
	cr_assert_eq(system(line), 0, "%s", command);
}

/* The reports since the last call, once they are @want: a look may still be due. */
static void expect(unsigned int line, const char *want)
{
	for (int i = 0; i < 100 && strcmp(seen, want); i++)
		cr_assert_geq(sd_event_run(ev, 10000), 0);
	cr_expect_str_eq(seen, want, "line %u: %s", line, seen);
	*seen = '\0';
}
#define EXPECT(want) expect(__LINE__, want)

static void rules(struct vpmud_config *f, const char *text)
{
	vpmud_config_init(f);
	cr_assert_eq(vpmud_config_text(f, "f", text, strlen(text), err, sizeof(err)), 0, "%s", err);
}

static void setup(void)
{
	cr_assert(mkdtemp(root));
	cr_assert_geq(sd_event_new(&ev), 0);
}

static void open_with(const char *text)
{
	rules(&conf, text);
	cr_assert_eq(cgroups_open(ev, root, &conf.rules, &ops, NULL, &c, err, sizeof(err)), 0, "%s",
		     err);
}

static void teardown(void)
{
	cgroups_close(c);
	vpmud_config_fini(&conf);
	vpmud_config_fini(&conf2);
	sd_event_unref(ev);
	sh("rm -r \"$PWD\"");
}

TestSuite(vpmud_cgroups, .init = setup, .fini = teardown);

Test(vpmud_cgroups, found_at_the_start_and_later)
{
	sh("mkdir -p a.slice/x b.slice/y.service b.slice/z.scope && touch b.slice/f.service");
	open_with("[tenant /a]\ncgroup = /a.slice\n[tenant /b/*]\ncgroup = /*/*.service\n"
		  "[tenant /later]\ncgroup = /m/n/o\n");
	EXPECT("+/a.slice=/a +/b.slice/y.service=/b/y.service ");
	sh("mkdir b.slice/w.service");
	cr_expect_eq(nr_born, 0);
	EXPECT("+/b.slice/w.service=/b/w.service ");
	cr_expect_eq(nr_born, 1);
	sh("mkdir -p c.slice && mkdir c.slice/v.service");
	EXPECT("+/c.slice/v.service=/b/v.service ");
	sh("mkdir m; mkdir m/n; mkdir m/n/o");
	EXPECT("+/m/n/o=/later ");
	sh("rmdir b.slice/y.service");
	EXPECT("-/b.slice/y.service=/b/y.service ");
	sh("rm -r m");
	EXPECT("-/m/n/o=/later ");
	sh("mkdir -p m/n/o");
	EXPECT("+/m/n/o=/later ");
	sh("rm -r *");
	for (int i = 0; i < 100 && strlen(seen) < 80; i++)
		sd_event_run(ev, 10000);
	cr_expect(strstr(seen, "-/a.slice=") && strstr(seen, "-/m/n/o=") && !strchr(seen, '+'),
		  "%s", seen);
}

Test(vpmud_cgroups, another_directory_of_the_same_path)
{
	open_with("[tenant /a]\ncgroup = /x\n");
	sh("mkdir x");
	EXPECT("+/x=/a ");
	/* Made before the first one goes, so that it has another inode. */
	sh("mkdir y && rmdir x && mv y x");
	EXPECT("-/x=/a +/x=/a ");
	sh("rmdir x");
	EXPECT("-/x=/a ");
}

Test(vpmud_cgroups, new_rules)
{
	sh("mkdir one two three");
	open_with("[tenant /a]\ncgroup = /one\ncgroup = /two\n");
	EXPECT("+/one=/a +/two=/a ");
	rules(&conf2, "[tenant /b]\ncgroup = /two\ncgroup = /three\n[tenant /a]\ncgroup = /one\n");
	cgroups_rules(c, &conf2.rules);
	EXPECT("-/two=/a +/two=/b +/three=/b ");
	cr_expect_eq(nr_born, 0, "they were there before the rules");
	sh("mkdir four && rmdir three");
	EXPECT("-/three=/b ");
}

Test(vpmud_cgroups, what_came_before_new_rules)
{
	sh("mkdir one three");
	open_with("[tenant /a]\ncgroup = /one\ncgroup = /two\n");
	EXPECT("+/one=/a ");
	cgroups_settle(c);
	sh("mkdir two");
	cgroups_settle(c);
	rules(&conf2, "[tenant /a]\ncgroup = /one\ncgroup = /two\ncgroup = /three\n");
	cgroups_rules(c, &conf2.rules);
	EXPECT("+/two=/a +/three=/a ");
	cr_expect_eq(nr_born, 1, "it came under the old ones");
}

Test(vpmud_cgroups, what_cannot_be)
{
	char *named;

	sh("mkdir host ..x");
	open_with("[tenant /*]\ncgroup = /*\n");
	cr_expect(strstr(seen, "!tenant path \"/host\"") && strlen(seen) < 200, "%s", seen);
	cr_assert_eq(cgroups_mount("/nonexistent", &named, err, sizeof(err)), -ENOENT);
	cr_expect_str_eq(err, "cgroup_root: /nonexistent: No such file or directory; expected the "
			      "directory where cgroup2 is mounted");
	cr_expect_eq(cgroups_mount("/tmp/", &named, err, sizeof(err)), 0);
	cr_expect_str_eq(named, "/tmp");
	free(named);
}
