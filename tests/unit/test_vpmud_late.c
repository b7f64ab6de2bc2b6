// SPDX-License-Identifier: GPL-2.0-or-later
/* What ran before vpmud found it is late, by no less than that time. */
#include "vpmud_tree_bed.h"

#include "cgroup/fs/cgroupfs.h"
#include "vpmu/util/clock.h"

/* A file of cgroup @path. */
static void cgroup_file(const char *path, const char *name, const char *text)
{
	char file[300];
	FILE *f;

	snprintf(file, sizeof(file), "%s%s/%s", root, path, name);
	f = fopen(file, "w");
	cr_assert(f);
	fputs(text, f);
	fclose(f);
}

/* The directory and cgroup.procs of a new cgroup get new stamps when a task has run in it. */
static bool gives_away;

/* A cgroup of tenant /a/x below /a's comes: it is late if something can have run in it. */
static uint64_t cgroup_late(const char *path, const char *events, const char *stat, bool born,
			    const char *tenant)
{
	static struct cgroup cgroups[16];
	static unsigned int nr;
	struct cgroup *c = &cgroups[nr];
	uint64_t was = tenant_find(ts, tenant) ? tenant_find(ts, tenant)->late_ns : 0;
	char dir[300];

	cr_assert_lt(nr++, 16);
	procs(path, "7\n");
	cgroup_file(path, "cgroup.events", events);
	cgroup_file(path, "cpu.stat", stat);
	snprintf(dir, sizeof(dir), "%s%s", root, path);
	*c = (struct cgroup){.path = path, .tenant = tenant, .born = born};
	cr_assert_eq(cgroupfs_id(dir, &c->id, err, sizeof(err)), 0);
	usleep(2000); /* the stamps are of the last tick or later */
	if (gives_away) {
		usleep(40000);
		cr_assert_eq(chmod(dir, 0755), 0);
		strcat(dir, "/cgroup.procs");
		cr_assert_eq(chmod(dir, 0644), 0);
	}
	tree_cgroup_added(t, c);
	tree_cgroups_settle(t, 0);
	return tenant_find(ts, tenant)->late_ns - was;
}

Test(vpmud_tree, what_was_found_late)
{
	struct disc_vm vm = vm_of(7, "web", "/v", "/m/a", 50, "01"), own;
	uint64_t begun = clock_ns(CLOCK_BOOTTIME), ran, late, id, host;
	char dir[300];

	start("");
	cr_expect_eq(cgroup_late("/a", "populated 1\n", "usage_usec 9\n", false, "/a"), 0,
		     "it was there at the start");
	cr_expect_eq(cgroup_late("/a/x", "populated 0\nfrozen 0\n", "usage_usec 0\n", true, "/a/x"),
		     0, "nothing has run in it");
	cr_expect_eq(nr_flushes, 0, "so no CPU is interrupted");
	late = cgroup_late("/a/y", "populated 1\n", "usage_usec 0\n", true, "/a/y");
	cr_expect_eq(nr_flushed, 3, "from now on it is charged, without a switch");
	cr_expect_geq(late, 2000000);
	cr_expect_leq(late, clock_ns(CLOCK_BOOTTIME) - begun + 20000000);
	cr_expect_eq(tenant_find(ts, "/a")->late_ns, 0, "its cgroup is above");
	cr_expect_eq(tenant_find(ts, "/host")->late_ns, 0, "so nothing of it was the host's");
	gives_away = true;
	late = cgroup_late("/a/z", "populated 1\n", "usage_usec 0\n", true, "/a/z");
	cr_expect_geq(late, 40000000, "another owner does not make it younger");
	gives_away = false;
	late = cgroup_late("/b", "populated 0\n", "usage_usec 1\n", true, "/b/c");
	cr_expect_geq(late, 2000000);
	cr_expect_eq(tenant_find(ts, "/b")->late_ns, late, "nothing above is /b's");
	cr_expect_eq(tenants_root(ts)->late_ns, 0);
	host = tenant_find(ts, "/host")->late_ns;
	cr_expect_eq(host, late, "it was the host's");
	/* Threads that began long ago, but not before this vpmud. */
	procs("/m", "");
	procs("/m/a", "7\n8\n");
	vm_added(&vm);
	cr_expect_eq(nr_flushed, 7, "its vCPUs, too");
	ran = clock_ns(CLOCK_BOOTTIME) - begun;
	late = node_vcpu(tenant_vm_find(ts, "web"), 0)->late_ns;
	cr_expect(late && late <= ran, "%llu", (unsigned long long)late);
	late += node_vcpu(tenant_vm_find(ts, "web"), 1)->late_ns;
	cr_expect_eq(tenant_vm_find(ts, "web")->late_ns, late);
	cr_expect_eq(tenant_find(ts, "/v")->late_ns, late);
	cr_expect_eq(tenant_find(ts, "/host")->late_ns, host + late);
	/* One with a cgroup of its own has other threads, also before its vCPUs. */
	procs("/m/b", "9\n");
	snprintf(dir, sizeof(dir), "%s/m/b", root);
	cr_assert_eq(cgroupfs_id(dir, &id, err, sizeof(err)), 0);
	own = vm_of(9, "own", "/u", "/m/b", id, "");
	vm_added(&own);
	CGROUP_BOUND(id, in("own"));
	late = tenant_vm_find(ts, "own")->late_ns;
	cr_expect(late);
	cr_expect_eq(tenant_find(ts, "/u")->late_ns, late);
	own = vm_of(9, "own", "/u", "/m/b", id, "0");
	vm_changed(&own);
	cr_expect(node_vcpu(tenant_vm_find(ts, "own"), 0)->late_ns);
	cr_expect_eq(tenant_vm_find(ts, "own")->late_ns, late, "it has what its vCPU lacks");
	/* In another tenant it was counted until then. */
	vm = vm_of(7, "web", "/w", "/m/a", 50, "01");
	vm_changed(&vm);
	cr_expect_str_eq(tenant_vm_find(ts, "web")->path, "/w");
	cr_expect_eq(tenant_vm_find(ts, "web")->late_ns, 0);
}

static uint64_t vcpu_late(const char *vm, unsigned int vcpu)
{
	return node_vcpu(tenant_vm_find(ts, vm), vcpu)->late_ns;
}

/* Only vCPUs that were bound before are not late. */
Test(vpmud_tree, vcpus_that_come_with_a_move_or_while_it_is_down_are_late)
{
	struct disc_vm web = vm_of(7, "web", NULL, NULL, 0, ""), db;
	uint64_t begun = clock_ns(CLOCK_BOOTTIME);

	start("");
	vm_added(&web);
	web = vm_of(7, "web", "/v", NULL, 0, "0");
	vm_changed(&web);
	cr_expect_str_eq(path_of("web"), "/v");
	cr_expect(vcpu_late("web", 0), "it was /host's");
	web = vm_of(7, "web", "/w", NULL, 0, "01");
	vm_changed(&web);
	cr_expect_str_eq(path_of("web"), "/w");
	cr_expect_eq(vcpu_late("web", 0), 0, "it was the VM's");
	cr_expect(vcpu_late("web", 1));
	next_vpmud();
	db = vm_of(1, "db", NULL, NULL, 0, "0");
	vm_added(&web);
	vm_added(&db);
	cr_expect_eq(vcpu_late("web", 0), 0);
	cr_expect_gt(vcpu_late("db", 0), clock_ns(CLOCK_BOOTTIME) - begun,
		     "the sessions are older than this vpmud");
	tree_restored(t);
	web = vm_of(7, "web", "/w", NULL, 0, "012");
	vm_changed(&web);
	cr_expect_eq(vcpu_late("web", 0), 0);
	cr_expect(vcpu_late("web", 2), "it has come since");
}

/* @late: the first run of the test's cgroups is late. */
static void cgroup_again(const char *path, bool late)
{
	cr_expect_eq(cgroup_late(path, "populated 1\n", "usage_usec 9\n", false, path) != 0, late,
		     "%s", path);
}

#define STEP_NS	  1000000000000
#define RULES_ALL "[tenant /*]\ncgroup = /*\n"

static void all_found(void)
{
	tree_cgroups_settle(t, clock_ns(CLOCK_BOOTTIME));
}

Test(vpmud_tree, cgroups_that_came_while_it_was_down_are_late)
{
	uint64_t boot = clock_ns(CLOCK_BOOTTIME), late;

	start(RULES_ALL);
	cgroup_again("/before", false);
	all_found();
	next_vpmud();
	cgroup_again("/before", false);
	cgroup_again("/down", true);
	cr_expect_eq(cgroup_late("/empty", "populated 0\n", "usage_usec 0\n", false, "/empty"), 0);
	cr_expect(tenant_find(ts, "/empty")->owed && !tenant_find(ts, "/before")->owed);
	all_found();
	cgroup_again("/rule", false);
	/* The clock was set back while it was down. */
	t->real_ns += STEP_NS;
	next_vpmud();
	late = cgroup_late("/old", "populated 1\n", "usage_usec 0\n", false, "/old");
	cr_expect_geq(late, 2000000);
	cr_expect_leq(late, clock_ns(CLOCK_BOOTTIME) - boot, "the last scan has not found it");
	/* A state from before the first scan. */
	t->whole_ns = 0;
	late = cgroup_late("/older", "populated 1\n", "usage_usec 0\n", false, "/older");
	cr_expect_geq(late, boot < STEP_NS ? boot : STEP_NS);
	cr_expect_leq(late, clock_ns(CLOCK_BOOTTIME));
}

/* As after a reload, a tenant that new rules make is counted from then on. */
Test(vpmud_tree, rules_that_have_changed_while_it_was_down_make_nothing_late)
{
	start("[tenant /a]\ncgroup = /a\n[tenant /c/*]\ncgroup = /c/*\n");
	all_found();
	next_vpmud_with("[tenant /a]\ncgroup = /a\ncgroup = /new\n[tenant /b]\ncgroup = /b\n"
			"[tenant /d/*]\ncgroup = /c/*\n");
	procs("/c", "");
	cr_expect(cgroup_late("/a", "populated 1\n", "usage_usec 9\n", false, "/a"));
	cr_expect(tenant_find(ts, "/a")->owed);
	cr_expect_eq(cgroup_late("/new", "populated 1\n", "usage_usec 9\n", false, "/a"), 0);
	cgroup_again("/b", false);
	cr_expect_not(tenant_find(ts, "/b")->owed);
	cr_expect_eq(cgroup_late("/c/x", "populated 1\n", "usage_usec 9\n", false, "/d/x"), 0,
		     "it belonged to another tenant");
}

/* A state that does not tell the former rules. */
Test(vpmud_tree, rules_that_are_not_known_are_as_now)
{
	static const char *const texts[] = {
		"null",
		"[[\"/x/*\", \"relative\"]]",
		"[[\"no/path\", \"/x\"]]",
		"[[]]",
		"[7]",
		"[[\"/x\", 7]]",
		"[[\"/x\"], [\"/x\"]]",
	};
	char path[] = "/0";

	start(RULES_ALL);
	all_found();
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *state = tree_save(t);

		cr_assert_eq(json_array_size(json_object_get(state, "rules")), 1);
		json_object_set_new(state, "rules", json_loads(texts[i], JSON_DECODE_ANY, NULL));
		tree_restore(t, state);
		path[1]++;
		cgroup_again(path, true);
		tree_restored(t);
		json_decref(state);
	}
}

/* Move what the tree has noted of the clock, as if the clock had been set by @ns. */
static void clock_was_set(int64_t ns)
{
	t->real_ns -= ns;
	t->real_next_ns -= ns;
}

static int64_t now_ahead(void)
{
	return (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME));
}

static void dates(const char *path, int64_t ns)
{
	for (struct in_tenant *c = t->first_late; c; c = c->next_late)
		if (!strcmp(c->path, path))
			c->born_ns += (uint64_t)ns;
}

/* The clock is set while a scan runs: a time is not too short, nor longer than since the last scan.
 */
Test(vpmud_tree, the_clock_is_set_during_a_scan)
{
	static struct cgroup c[] = {{.path = "/ahead", .tenant = "/ahead", .born = true},
				    {.path = "/back", .tenant = "/back", .born = true}};
	uint64_t begun, late;
	char dir[300];

	start("");
	all_found();
	begun = clock_ns(CLOCK_BOOTTIME);
	usleep(2000);
	for (int i = 0; i < 2; i++) {
		procs(c[i].path, "7\n");
		cgroup_file(c[i].path, "cgroup.events", "populated 1\n");
		snprintf(dir, sizeof(dir), "%s%s", root, c[i].path);
		cr_assert_eq(cgroupfs_id(dir, &c[i].id, err, sizeof(err)), 0);
	}
	usleep(20000);
	/* It was ahead since after the last scan, when the cgroup came, and is right again. */
	tree_cgroup_added(t, &c[0]);
	dates("/ahead", STEP_NS);
	tree_cgroups_settle(t, 0);
	late = tenant_find(ts, "/ahead")->late_ns;
	cr_expect_geq(late, 20000000, "%llu", (unsigned long long)late);
	cr_expect_leq(late, clock_ns(CLOCK_BOOTTIME) - begun + 20000000);
	/* It was right when the cgroup came, and is set back by less than its age. */
	tree_cgroup_added(t, &c[1]);
	dates("/back", 10000000);
	clock_was_set(10000000);
	cr_expect_lt(t->real_ns, now_ahead());
	tree_tend(t);
	cr_expect_geq(t->real_ns, now_ahead() - 1000000, "noted between scans, too");
	clock_was_set(-10000000);
	tree_tend(t);
	tree_cgroups_settle(t, 0);
	late = tenant_find(ts, "/back")->late_ns;
	cr_expect_geq(late, 20000000, "%llu", (unsigned long long)late);
	cr_expect_leq(late, clock_ns(CLOCK_BOOTTIME) - begun + 20000000);
}

/*
 * A model: many cgroups come at once, each has run, and they are found in any order. Rows of nodes
 * that have more or less than what ran in their cgroups must be late; it takes one flush.
 */
#define CAME 12

static uint64_t random_next(uint64_t *state, uint64_t below)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return (*state >> 33) % below;
}

static const char *const model_tenants[] = {"/a", "/a/x", "/a/x/y", "/a/z", "/b", "/b/x"};
#define MODEL_TENANTS (sizeof(model_tenants) / sizeof(model_tenants[0]))
#define MODEL_NODES   (MODEL_TENANTS + 2)

static const char *model_node(size_t i)
{
	return i < MODEL_TENANTS ? model_tenants[i] : i > MODEL_TENANTS ? "/" : "/host";
}

static void model_charge(int64_t *at, const struct node *n, int64_t more)
{
	for (size_t i = 0; n && i < MODEL_NODES; i++)
		if (!strcmp(model_node(i), n->path))
			at[i] += more;
	if (n)
		model_charge(at, n->parent, more);
}

static void model_round(uint64_t seed)
{
	static struct cgroup c[CAME];
	static char *path[CAME];
	int64_t wrong[MODEL_NODES] = {0};
	const struct node *node;
	size_t order[CAME];
	char dir[300];

	for (size_t i = 0; i < CAME; i++) {
		size_t above = random_next(&seed, i + 1), other = random_next(&seed, i + 1);

		cr_assert_gt(asprintf(&path[i], "%s/%zu", above < i ? path[above] : "", i), 0);
		procs(path[i], "7\n");
		cgroup_file(path[i], "cgroup.events", "populated 1\n");
		c[i] = (struct cgroup){.path = path[i],
				       .tenant = model_tenants[random_next(&seed, MODEL_TENANTS)],
				       .born = true};
		snprintf(dir, sizeof(dir), "%s%s", root, path[i]);
		cr_assert_eq(cgroupfs_id(dir, &c[i].id, err, sizeof(err)), 0);
		order[i] = order[other];
		order[other] = i;
	}
	for (size_t i = 0; i < MODEL_NODES; i++)
		if ((node = tenant_find(ts, model_node(i))))
			((struct node *)node)->late_ns = 0;
	nr_flushes = 0;
	for (size_t i = 0; i < CAME; i++)
		tree_cgroup_added(t, &c[order[i]]);
	cr_expect_eq(nr_flushes, 0);
	tree_cgroups_settle(t, clock_ns(CLOCK_BOOTTIME));
	cr_expect_eq(nr_flushes, 1, "one for all");
	cr_expect_geq(nr_flushed, CAME, "when all were bound");
	tree_cgroups_settle(t, clock_ns(CLOCK_BOOTTIME));
	cr_expect_eq(nr_flushes, 1, "and none when nothing has come");
	for (size_t i = 0; i < CAME; i++) {
		model_charge(wrong, tenant_find(ts, "/host"), 1);
		model_charge(wrong, tenant_find(ts, c[i].tenant), -1);
	}
	for (size_t i = 0; i < MODEL_NODES; i++) {
		node = tenant_find(ts, model_node(i));
		cr_expect(!node || !wrong[i] || node->late_ns, "%s has %+d", model_node(i),
			  (int)wrong[i]);
		cr_expect(strcmp(model_node(i), "/") || !node->late_ns);
	}
	for (size_t i = CAME; i-- > 0;) {
		tree_cgroup_removed(t, &c[i]);
		free(path[i]);
	}
	snprintf(dir, sizeof(dir), "rm -r %s/*", root);
	cr_assert_eq(system(dir), 0);
	nr_names = 0;
}

Test(vpmud_tree, many_come_at_once)
{
	start("");
	for (uint64_t seed = 1; seed <= 50; seed++)
		model_round(seed);
}
