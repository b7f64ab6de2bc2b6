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
	static struct cgroup cgroups[8];
	static unsigned int nr;
	struct cgroup *c = &cgroups[nr];
	uint64_t was = tenant_find(ts, tenant) ? tenant_find(ts, tenant)->late_ns : 0;
	char dir[300];

	cr_assert_lt(nr++, 8);
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
	return tenant_find(ts, tenant)->late_ns - was;
}

Test(vpmud_tree, what_was_found_late)
{
	struct disc_vm vm = vm_of(7, "web", "/v", "/m/a", 50, "01"), own;
	uint64_t begun = clock_ns(CLOCK_BOOTTIME), ran, late, id;
	char dir[300];

	start("");
	cr_expect_eq(cgroup_late("/a", "populated 1\n", "usage_usec 9\n", false, "/a"), 0,
		     "it was there at the start");
	cr_expect_eq(cgroup_late("/a/x", "populated 0\nfrozen 0\n", "usage_usec 0\n", true, "/a/x"),
		     0, "nothing has run in it");
	cr_expect_eq(nr_flushed, 0, "so no CPU is interrupted");
	late = cgroup_late("/a/y", "populated 1\n", "usage_usec 0\n", true, "/a/y");
	cr_expect_eq(nr_flushed, 3, "from now on it is charged, without a switch");
	cr_expect_geq(late, 2000000);
	cr_expect_leq(late, clock_ns(CLOCK_BOOTTIME) - begun + 20000000);
	cr_expect_eq(tenant_find(ts, "/a")->late_ns, 0, "its cgroup is above");
	gives_away = true;
	late = cgroup_late("/a/z", "populated 1\n", "usage_usec 0\n", true, "/a/z");
	cr_expect_geq(late, 40000000, "another owner does not make it younger");
	gives_away = false;
	late = cgroup_late("/b", "populated 0\n", "usage_usec 1\n", true, "/b/c");
	cr_expect_geq(late, 2000000);
	cr_expect_eq(tenant_find(ts, "/b")->late_ns, late, "nothing above is /b's");
	cr_expect_eq(tenants_root(ts)->late_ns, 0);
	cr_expect_eq(tenant_find(ts, "/host")->late_ns, 0);
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
