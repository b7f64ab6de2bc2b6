// SPDX-License-Identifier: GPL-2.0-or-later
/* Cgroups that match the rules, as they come and go. The tree is of plain directories: what
 * cgroups.c does with them is the same. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmud/cgroups.h"
#include "vpmud/config.h"
#include "vpmu/util/clock.h"

static char root[] = "/tmp/cgroups.XXXXXX", seen[4000];
static sd_event *ev;
static struct vpmud_config conf, conf2;
static struct cgroups *c;
static char err[300];
static unsigned int nr_born;
/* Reports take so long; a client waits meanwhile, for so many of them at most. */
static unsigned int slow_us, nr_waits, nr_waits_max, nr_unsettled;
static int client = -1;

static void take_time(void)
{
	usleep(slow_us);
	if (client >= 0)
		eventfd_write(client, 1);
	if (++nr_waits > nr_waits_max)
		nr_waits_max = nr_waits;
}

static void add(void *arg, struct cgroup *g)
{
	take_time();
	nr_unsettled++;
	sprintf(seen + strlen(seen), "+%s=%s ", g->path, g->tenant);
	nr_born += g->born;
	cr_expect_null(g->user);
	cr_expect(g->id);
	g->user = g; /* the same object comes back */
}

static void del(void *arg, struct cgroup *g)
{
	take_time();
	sprintf(seen + strlen(seen), "-%s=%s ", g->path, g->tenant);
	cr_expect_eq(g->user, g);
}

static void say(void *arg, const char *line)
{
	sprintf(seen + strlen(seen), "!%s ", line);
}

static uint64_t whole_ns;

static void batch(void *arg, uint64_t ns)
{
	nr_unsettled = 0;
	cr_expect(!ns || ns >= whole_ns);
	whole_ns = ns ? ns : whole_ns;
}

static const struct cgroups_ops ops = {add, del, say, batch};

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

static int on_client(sd_event_source *s, int fd, uint32_t events, void *arg)
{
	eventfd_t nr;

	eventfd_read(fd, &nr);
	nr_waits = 0;
	cr_expect_eq(nr_unsettled, 0, "a client sees only what is settled");
	return 0;
}

/* How often @what is in the reports. */
static unsigned int reported(const char *what)
{
	unsigned int nr = 0;

	for (const char *p = seen; (p = strstr(p, what)); p++)
		nr++;
	return nr;
}

static void run_until(const char *what, unsigned int nr)
{
	for (int i = 0; i < 10000 && reported(what) < nr; i++)
		cr_assert_geq(sd_event_run(ev, 10000), 0);
	cr_assert_geq(reported(what), nr, "%s", seen);
}

/* A scan ends after 20 ms to go on later, so with reports of 1 ms each it makes 21 at most. */
#define PIECE_MAX 21

Test(vpmud_cgroups, clients_are_served_while_many_come_and_go)
{
	sh("mkdir a");
	open_with("[tenant /a/*]\ncgroup = /a/*\n");
	client = eventfd(0, EFD_CLOEXEC);
	cr_assert_geq(sd_event_add_io(ev, NULL, client, EPOLLIN, on_client, NULL), 0);
	slow_us = 1000;
	sh("for i in $(seq 60); do mkdir a/$i; done");
	run_until("+/a/", 1);
	cr_expect_leq(reported("+/a/"), PIECE_MAX);
	sh("mkdir a/late"); /* in the middle of the scan */
	run_until("+/a/", 61);
	cr_expect_eq(reported("-"), 0, "%s", seen);
	cr_expect_eq(nr_born, 61);
	sh("rmdir a/*");
	run_until("-/a/", 61);
	cr_expect_leq(nr_waits_max, 2 * PIECE_MAX);
	/* What must have all does not wait for the next piece. */
	*seen = '\0';
	sh("for i in $(seq 60); do mkdir a/$i; done");
	run_until("+/a/", 1);
	cr_expect_leq(reported("+/a/"), PIECE_MAX);
	cgroups_settle(c);
	cr_expect_eq(reported("+/a/"), 60);
	cr_expect_eq(reported("-"), 0, "%s", seen);
	close(client);
}

/* Settle without a descriptor for a directory. */
static void settle_blind(void)
{
	struct rlimit most, none;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &most), 0);
	none = (struct rlimit){0, most.rlim_max};
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	cgroups_settle(c);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &most), 0);
}

Test(vpmud_cgroups, what_cannot_be_listed_is_not_gone)
{
	uint64_t begun;

	sh("mkdir -p a/x b");
	open_with("[tenant /a/*]\ncgroup = /a/*\n[tenant /b]\ncgroup = /b\n");
	EXPECT("+/a/x=/a/x +/b=/b ");
	sh("mkdir a/y && rmdir b");
	begun = clock_ns(CLOCK_BOOTTIME);
	settle_blind();
	settle_blind();
	cr_expect(whole_ns && whole_ns < begun, "a/y may be as old as the first scan");
	cr_expect(*seen == '!' && !strrchr(seen + 1, '!') && !strchr(seen, '-'), "%s", seen);
	*seen = '\0';
	run_until("-/b", 1); /* without an event */
	EXPECT("+/a/y=/a/y -/b=/b ");
	cr_expect_geq(whole_ns, begun);
}

/* A tenth of a CPU at most, also without events. */
Test(vpmud_cgroups, polls_are_rarer_if_scans_are_slow)
{
	uint64_t begin;

	sh("mkdir a");
	open_with("[tenant /a/*]\ncgroup = /a/*\n[tenant /b]\ncgroup = /b\n");
	sh("mkdir a/x b");
	slow_us = 200000;
	begin = clock_ns(CLOCK_MONOTONIC);
	settle_blind();
	cr_expect_eq(reported("+/b"), 1);
	cr_expect_eq(reported("+/a/x"), 0, "%s", seen);
	run_until("+/a/x", 1);
	cr_expect_geq(clock_ns(CLOCK_MONOTONIC) - begin, 11 * 200000000ULL);
}

Test(vpmud_cgroups, a_command_ends_in_the_middle_of_a_scan)
{
	char path[] = "/c00";

	sh("mkdir c31 c32 c33 c34 c35 c36 c37 c38 c39 c40");
	rules(&conf, "");
	for (int i = 1; i <= 40; i++) {
		sprintf(path, "/c%02d", i);
		patterns_add(&conf.rules.commands, path);
	}
	cr_assert_eq(cgroups_open(ev, root, &conf.rules, &ops, NULL, &c, err, sizeof(err)), 0);
	cr_assert_eq(reported("+/c"), 10);
	slow_us = 1000;
	sh("for i in $(seq -w 1 30); do mkdir c$i; done");
	run_until("+/c", 11);
	cr_expect_leq(reported("+/c"), 10 + PIECE_MAX);
	patterns_remove(&conf.rules.commands, 3);
	run_until("+/c", 39);
	cr_expect_eq(reported("+/c04"), 0);
	cr_expect_eq(reported("-"), 0, "those of other commands stay: %s", seen);
}

Test(vpmud_cgroups, what_cannot_be)
{
	char *named;

	sh("mkdir host ..x");
	open_with("[tenant /*]\ncgroup = /*\n");
	cr_expect(strstr(seen, "!tenant path \"/host\"") && strlen(seen) < 200, "%s", seen);
	cr_assert_eq(vpmud_config_mount("/nonexistent", &named, err, sizeof(err)), -ENOENT);
	cr_expect_str_eq(err, "cgroup_root: /nonexistent: No such file or directory; expected the "
			      "directory where cgroup2 is mounted");
	cr_expect_eq(vpmud_config_mount("/tmp/", &named, err, sizeof(err)), 0);
	cr_expect_str_eq(named, "/tmp");
	free(named);
}
