// SPDX-License-Identifier: GPL-2.0-or-later
/* service/tenant/tenant.c and cgroupfs.c: names, the tree, folding, real cgroup2 directories. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <linux/magic.h>

#include "cgroup/fs/cgroupfs.h"
#include "cgroup_host.h"
#include "vpmu/core/internal.h"

static struct test_host h;

static void setup(void)
{
	test_host_init(&h, NULL);
}

static void teardown(void)
{
	test_host_fini(&h);
}

TestSuite(tenant, .init = setup, .fini = teardown);

/* ---- names -------------------------------------------------------------------------------- */

#define A16  "0123456789abcdef"
#define A64  A16 A16 A16 A16
#define A250 A64 A64 A64 A16 A16 A16 "0123456789"

Test(tenant, path_names)
{
	static const struct {
		int line;
		const char *path;
		bool ok;
	} rows[] = {
		{__LINE__, "/acme", true},
		{__LINE__, "/acme/web", true},
		{__LINE__, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p", true},
		{__LINE__, "/machine.slice/qemu-1-a.b:c@d_e", true},
		{__LINE__, "/hosts", true},
		{__LINE__, "/acme/host", true},
		{__LINE__, "/" A250, true},
		{__LINE__, "/...", true},
		{__LINE__, "/-a", true},
		{__LINE__, "", false},
		{__LINE__, "/", false},
		{__LINE__, "acme", false},
		{__LINE__, "/acme/", false},
		{__LINE__, "//acme", false},
		{__LINE__, "/acme//web", false},
		{__LINE__, "/.", false},
		{__LINE__, "/..", false},
		{__LINE__, "/acme/../..", false},
		{__LINE__, "/acme/./web", false},
		{__LINE__, "/host", false},
		{__LINE__, "/host/vm", false},
		{__LINE__, "/a b", false},
		{__LINE__, "/a\nb", false},
		{__LINE__, "/a\x1b[31m", false},
		{__LINE__, "/\xc3\xa9", false},
		{__LINE__, "/a*", false},
		{__LINE__, "/a$(reboot)", false},
		{__LINE__, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q", false},
		{__LINE__, "/" A250 A16, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[256] = "";
		bool ok = tenant_path_ok(rows[i].path, err, sizeof(err));

		cr_expect_eq(ok, rows[i].ok, "line %d: %s", rows[i].line, rows[i].path);
		cr_expect_eq(err[0] == '\0', ok, "line %d: error text \"%s\"", rows[i].line, err);
		cr_expect(!strpbrk(err, "\n\x1b"), "line %d: control characters", rows[i].line);
	}
}

Test(tenant, vm_names)
{
	static const struct {
		int line;
		const char *name;
		bool ok;
	} rows[] = {
		{__LINE__, "web-1", true},  {__LINE__, "_x", true},   {__LINE__, "9", true},
		{__LINE__, A64, true},	    {__LINE__, "", false},    {__LINE__, "/web", false},
		{__LINE__, "-rf", false},   {__LINE__, ".", false},   {__LINE__, "@1", false},
		{__LINE__, A64 "x", false}, {__LINE__, "a b", false}, {__LINE__, "a/b", false},
		{__LINE__, "a\x7f", false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[256] = "";

		cr_expect_eq(tenant_vm_name_ok(rows[i].name, err, sizeof(err)), rows[i].ok,
			     "line %d: %s", rows[i].line, err);
	}
}

/* ---- the tree ----------------------------------------------------------------------------- */

Test(tenant, ancestors_are_made_and_found)
{
	struct node *web = test_tenant(&h, "/acme/shop/web"), *again;

	cr_expect_str_eq(web->path, "/acme/shop/web");
	cr_expect_str_eq(web->name, "web");
	cr_expect_eq(web->depth, 3);
	cr_expect_eq(web->parent, tenant_find(h.ts, "/acme/shop"));
	cr_expect_eq(web->parent->parent, tenant_find(h.ts, "/acme"));
	cr_expect_eq(web->parent->parent->parent, tenants_root(h.ts));
	again = test_tenant(&h, "/acme/shop/web");
	cr_expect_eq(again, web);
	cr_expect(web->id >> 63, "an id of our own");
	cr_expect_neq(web->id, web->parent->id);
	cr_expect_null(web->dir);
	cr_expect_null(tenant_find(h.ts, "/acm"));
	cr_expect_null(node_in(web, h.source), "nothing is counted there yet");
}

Test(tenant, vms_and_vcpus)
{
	struct node *web = test_tenant(&h, "/acme/web"), *vm = test_vm(&h, web, "web-1", 3), *other;

	cr_expect_eq(tenant_vm_find(h.ts, "web-1"), vm);
	cr_expect_null(tenant_vm_find(h.ts, "web"));
	cr_expect_str_eq(vm->path, "/acme/web");
	cr_expect_eq(vm->depth, 3);
	for (unsigned int i = 0; i < 3; i++)
		cr_expect_eq(test_account(&h, node_vcpu(vm, i))->parent, test_account(&h, vm));
	cr_expect_eq(test_account(&h, vm)->parent, test_account(&h, web));
	cr_expect_eq(test_account(&h, web)->parent, test_account(&h, web->parent));
	cr_expect_eq(node_source(vm), h.source);
	cr_expect_str_eq(node_target(vm), "web-1");
	cr_expect_str_eq(node_target(web), "/acme/web");
	cr_expect_null(node_vcpu(vm, 3));
	cr_expect_eq(tenant_vm_add(h.ts, tenant_find(h.ts, "/acme"), h.source, "web-1", 1, NULL,
				   &other, h.err, sizeof(h.err)),
		     -EEXIST);
	cr_expect(strstr(h.err, "/acme/web"), "%s", h.err);
	cr_expect_eq(
		tenant_vm_add(h.ts, web, h.source, "x", 4097, NULL, &other, h.err, sizeof(h.err)),
		-EINVAL);
	cr_expect_eq(tenant_vm_add(h.ts, tenants_root(h.ts), h.source, "x", 1, NULL, &other, h.err,
				   sizeof(h.err)),
		     -EINVAL);
	other = test_vm(&h, tenant_find(h.ts, "/host"), "free", 1);
	cr_expect_str_eq(other->path, "/host");
}

Test(tenant, vcpus_come_and_go)
{
	struct node *web = test_tenant(&h, "/acme/web"), *vm, *v;

	cr_assert_eq(tenant_vm_add(h.ts, web, h.source, "x", 0, NULL, &vm, h.err, sizeof(h.err)),
		     0);
	cr_expect_null(vm->first_child);
	cr_assert_eq(tenant_vcpu_add(h.ts, vm, 3, &v, h.err, sizeof(h.err)), 0, "%s", h.err);
	cr_expect_eq(node_vcpu(vm, 3), v);
	cr_expect_str_eq(v->name, "3");
	cr_expect_eq(test_account(&h, v)->parent, test_account(&h, vm));
	cr_expect_eq(tenant_vcpu_add(h.ts, vm, 3, &v, h.err, sizeof(h.err)), -EEXIST);
	cr_expect(strstr(h.err, "it has a vCPU 3"), "%s", h.err);
	cr_expect_eq(tenant_vcpu_add(h.ts, vm, 4096, &v, h.err, sizeof(h.err)), -EINVAL);
	tenant_vcpu_remove(node_vcpu(vm, 3));
	cr_expect_null(vm->first_child);
	cr_assert_eq(tenant_vcpu_add(h.ts, vm, 0, &v, h.err, sizeof(h.err)), 0, "%s", h.err);
	tenant_vm_remove(h.ts, vm);
	cr_expect_null(tenant_vm_find(h.ts, "x"));
}

struct seen {
	char text[512];
};

static int note(struct node *n, unsigned int depth, void *arg)
{
	struct seen *s = arg;
	size_t len = strlen(s->text);

	snprintf(s->text + len, sizeof(s->text) - len, "%u:%s ", depth, n->name);
	return 0;
}

static int stop_at_b(struct node *n, unsigned int depth, void *arg)
{
	++*(int *)arg;
	return strcmp(n->name, "b") == 0 ? 42 : 0;
}

Test(tenant, walk_shows_parents_first_in_order)
{
	struct seen s = {0};
	int n = 0;

	test_tenant(&h, "/a/x");
	test_tenant(&h, "/b");
	test_vm(&h, tenant_find(h.ts, "/a/x"), "vm", 2);
	test_tenant(&h, "/a/y");
	cr_expect_eq(tenants_walk(h.ts, note, &s), 0);
	cr_expect_str_eq(s.text, "0:/ 1:host 1:a 2:x 3:vm 4:0 4:1 2:y 1:b ");
	cr_expect_eq(tenants_walk(h.ts, stop_at_b, &n), 42);
	cr_expect_eq(n, 9);
}

Test(tenant, siblings_unlink_anywhere)
{
	struct seen s = {0};

	test_tenant(&h, "/a");
	test_tenant(&h, "/b");
	test_tenant(&h, "/c");
	cr_expect_eq(tenant_remove(h.ts, "/b", h.err, sizeof(h.err)), 0);
	test_tenant(&h, "/d");
	cr_expect_eq(tenant_remove(h.ts, "/d", h.err, sizeof(h.err)), 0);
	test_tenant(&h, "/e");
	cr_expect_eq(tenant_remove(h.ts, "/a", h.err, sizeof(h.err)), 0);
	tenants_walk(h.ts, note, &s);
	cr_expect_str_eq(s.text, "0:/ 1:host 1:c 1:e ");
}

Test(tenant, removal_needs_an_empty_tenant)
{
	struct node *vm = test_vm(&h, test_tenant(&h, "/a/b"), "vm", 1);

	cr_expect_eq(tenant_remove(h.ts, "/a", h.err, sizeof(h.err)), -EBUSY);
	cr_expect(strstr(h.err, "\"b\""), "%s", h.err);
	cr_expect_eq(tenant_remove(h.ts, "/a/b", h.err, sizeof(h.err)), -EBUSY);
	cr_expect(strstr(h.err, "VM \"vm\""), "%s", h.err);
	cr_expect_eq(tenant_remove(h.ts, "/c", h.err, sizeof(h.err)), -ENOENT);
	cr_expect_eq(tenant_remove(h.ts, "/", h.err, sizeof(h.err)), -EINVAL);
	cr_expect_eq(tenant_remove(h.ts, "/host", h.err, sizeof(h.err)), -EINVAL);
	tenant_vm_remove(h.ts, vm);
	cr_expect_null(tenant_vm_find(h.ts, "vm"));
	cr_expect_eq(tenant_remove(h.ts, "/a/b", h.err, sizeof(h.err)), 0);
	cr_expect_eq(tenant_remove(h.ts, "/a", h.err, sizeof(h.err)), 0);
	cr_expect_null(tenant_find(h.ts, "/a"));
}

Test(tenant, removal_folds_into_the_parent)
{
	vpmu_key_t key = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS);
	struct vpmu_consumer *c = calloc(1, sizeof(*c));
	struct node *a = test_tenant(&h, "/a"), *vm = test_vm(&h, test_tenant(&h, "/a/b"), "vm", 2);
	struct vpmu_value val;
	struct test_vcpu v[2];

	test_vcpu_init(&v[0], vm, 0);
	test_vcpu_init(&v[1], vm, 1);
	cr_assert_eq(vpmu_consumer_add(c, test_account(&h, a), key, NULL), 0);
	test_run(&h, 0, &v[0], 1000);
	test_run(&h, 1, &v[1], 200);
	test_vcpu_fini(&v[0]);
	test_vcpu_fini(&v[1]);
	tenant_vm_remove(h.ts, vm);
	cr_assert_eq(tenant_remove(h.ts, "/a/b", h.err, sizeof(h.err)), 0);
	vpmu_consumer_del(c, NULL, &val);
	cr_expect_eq(val.count, 1200);
	vpmu_rcu_free(c);
}

static unsigned int added, removing;

static void on_added(struct node *n, struct vpmu_backend_node *in, void *arg)
{
	added++;
}

static void on_removing(struct node *n, void *arg)
{
	removing++;
}

Test(tenant, watches_are_told_of_every_node)
{
	struct tenants_watch w = {.added = on_added, .removing = on_removing}, w2 = w, never = w;
	struct node *vm;

	tenants_watch(h.ts, &never);
	tenants_watch(h.ts, &w);
	tenants_watch(h.ts, &w2);
	tenants_unwatch(h.ts, &never);
	tenants_unwatch(h.ts, &never);
	vm = test_vm(&h, test_tenant(&h, "/a/b"), "vm", 4);
	cr_expect_eq(added, 2 * (2 + 1 + 4));
	tenants_unwatch(h.ts, &w);
	tenant_vm_remove(h.ts, vm);
	cr_expect_eq(removing, 5);
	tenant_remove(h.ts, "/a/b", NULL, 0);
	cr_expect_eq(removing, 6);
	tenants_unwatch(h.ts, &w2);
}

/* ---- real cgroups ------------------------------------------------------------------------- */

/* A cgroup2 directory to play in, or NULL: then the test is skipped, with a note. */
static char *playground(void)
{
	static const char *const mounts[] = {"/sys/fs/cgroup/unified", "/sys/fs/cgroup"};
	struct statfs sfs;
	char *dir;

	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		if (statfs(mounts[i], &sfs) || sfs.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		if (asprintf(&dir, "%s/vpmu-test-%d", mounts[i], getpid()) < 0)
			return NULL;
		if (mkdir(dir, 0755) == 0)
			return dir;
		free(dir);
	}
	return NULL;
}

static struct test_host hc;
static char *ground;

static void setup_cgroup(void)
{
	ground = playground();
	if (!ground)
		cr_skip_test("no cgroup2 directory this user may write to");
	test_host_init(&hc, ground);
}

static void teardown_cgroup(void)
{
	if (!ground)
		return;
	test_host_fini(&hc);
	cr_expect_eq(rmdir(ground), 0, "everything below is gone: %s", strerror(errno));
	free(ground);
}

TestSuite(tenant_cgroup, .init = setup_cgroup, .fini = teardown_cgroup);

Test(tenant_cgroup, directories_and_ids)
{
	struct node *web = test_tenant(&hc, "/acme/web");
	struct stat st;
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/acme/web", ground);
	cr_expect_str_eq(web->dir, dir);
	cr_assert_eq(stat(dir, &st), 0);
	cr_expect_eq(web->id, st.st_ino, "kernfs: the inode number is the cgroup id");
	cr_expect_eq(tenant_remove(hc.ts, "/acme/web", hc.err, sizeof(hc.err)), 0);
	cr_expect_eq(stat(dir, &st), -1);
	test_tenant(&hc, "/acme/web");
	cr_expect_eq(stat(dir, &st), 0);
	/* teardown removes the rest */
}

Test(tenant_cgroup, names_of_kernel_files_are_refused)
{
	struct node *n;

	cr_expect_eq(tenant_add(hc.ts, "/cgroup.procs", &n, hc.err, sizeof(hc.err)), -EEXIST);
	cr_expect(strstr(hc.err, "file of the kernel"), "%s", hc.err);
	cr_expect_eq(tenant_add(hc.ts, "/new/cgroup.procs", &n, hc.err, sizeof(hc.err)), -EEXIST);
	cr_expect_null(tenant_find(hc.ts, "/new"), "ancestors made for nothing are gone");
}

Test(tenant_cgroup, directories_of_others_stay)
{
	char dir[256];

	snprintf(dir, sizeof(dir), "%s/theirs", ground);
	cr_assert_eq(mkdir(dir, 0755), 0);
	test_tenant(&hc, "/theirs/ours");
	tenants_destroy(hc.ts);
	cr_expect_eq(rmdir(dir), 0, "it was still there, and empty");
	cr_assert_eq(tenants_create(ground, &hc.ts, hc.err, sizeof(hc.err)), 0);
}

static void my_cgroup(char *buf, size_t len)
{
	char path[64], all[1024], *p;
	int fd, n;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/cgroup", syscall(SYS_gettid));
	fd = open(path, O_RDONLY);
	n = (int)read(fd, all, sizeof(all) - 1);
	close(fd);
	all[n > 0 ? n : 0] = '\0';
	p = strstr(all, "0::");
	snprintf(buf, len, "%.*s", p ? (int)strcspn(p + 3, "\n") : 0, p ? p + 3 : "");
}

struct joiner {
	struct node *to;
	int ret;
	char err[256], at[256];
};

static void *join_thread(void *arg)
{
	struct joiner *j = arg;

	j->ret = tenant_join(j->to, (int)syscall(SYS_gettid), j->err, sizeof(j->err));
	my_cgroup(j->at, sizeof(j->at));
	return NULL;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

Test(tenant_cgroup, threads_of_one_process_in_different_tenants)
{
	struct joiner j[2] = {{.to = test_tenant(&hc, "/acme/web")}, {0}};
	struct node *vm = test_vm(&hc, test_tenant(&hc, "/bob"), "vm", 1);
	char before[256], after[256];
	pthread_t t;

	my_cgroup(before, sizeof(before));
	j[1].to = node_vcpu(vm, 0);
	for (int i = 0; i < 2; i++) {
		pthread_create(&t, NULL, join_thread, &j[i]);
		pthread_join(t, NULL);
		cr_expect_eq(j[i].ret, 0, "%s", j[i].err);
	}
	cr_expect(ends_with(j[0].at, "/acme/web"), "%s", j[0].at);
	cr_expect(ends_with(j[1].at, "/bob"), "%s", j[1].at);
	/* A tenant that comes later is threaded as well. */
	j[0].to = test_tenant(&hc, "/acme/later");
	pthread_create(&t, NULL, join_thread, &j[0]);
	pthread_join(t, NULL);
	cr_expect_eq(j[0].ret, 0, "%s", j[0].err);
	cr_expect(ends_with(j[0].at, "/acme/later"), "%s", j[0].at);
	tenants_destroy(hc.ts);
	my_cgroup(after, sizeof(after));
	cr_expect_str_eq(after, before, "the process is back where it was");
	cr_assert_eq(tenants_create(ground, &hc.ts, hc.err, sizeof(hc.err)), 0);
}

Test(tenant_cgroup, join_errors_are_one_line)
{
	struct node *n = test_tenant(&hc, "/acme");
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	cr_expect_eq(tenant_join(n, child, hc.err, sizeof(hc.err)), -ESRCH);
	cr_expect(strstr(hc.err, "expected a running thread"), "%s", hc.err);
	cr_expect_eq(tenant_join(tenant_find(hc.ts, "/host"), child, hc.err, sizeof(hc.err)), 0,
		     "/host has no cgroup");
}

Test(tenant_cgroup, a_tenant_with_processes_of_others_stays)
{
	struct node *n = test_tenant(&hc, "/acme");
	int fds[2], status;
	pid_t child;

	cr_assert_eq(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		char c;

		close(fds[1]);
		_exit(read(fds[0], &c, 1) < 0);
	}
	close(fds[0]);
	/* One thread: it moves as a whole, and the cgroup stays a plain domain. */
	cr_assert_eq(tenant_join(n, child, hc.err, sizeof(hc.err)), 0, "%s", hc.err);
	cr_expect_eq(tenant_remove(hc.ts, "/acme", hc.err, sizeof(hc.err)), -EBUSY);
	cr_expect(strstr(hc.err, "cgroup.threads"), "%s", hc.err);
	cr_expect_eq(tenant_find(hc.ts, "/acme"), n, "nothing happened to it");
	close(fds[1]);
	waitpid(child, &status, 0);
	cr_expect_eq(tenant_remove(hc.ts, "/acme", hc.err, sizeof(hc.err)), 0, "%s", hc.err);
}

Test(tenant, cgroup_roots_that_are_none)
{
	static const struct {
		int line;
		const char *root;
		int ret;
	} rows[] = {
		{__LINE__, "/nowhere", -ENOENT},
		{__LINE__, "/tmp", -EINVAL},
		{__LINE__, "/dev/null", -EINVAL},
		{__LINE__, "", -ENOENT},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct tenants *ts = NULL;

		cr_expect_eq(tenants_create(rows[i].root, &ts, h.err, sizeof(h.err)), rows[i].ret,
			     "line %d: %s", rows[i].line, h.err);
		cr_expect(strstr(h.err, "expected"), "line %d: %s", rows[i].line, h.err);
	}
}

/* As the kernel writes /proc/self/mounts: a blank in a name is \040. */
Test(tenant, the_mount_of_cgroup2)
{
	static const struct {
		int line;
		const char *mounts, *dir; /* NULL: none */
	} rows[] = {
		{__LINE__, "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "/sys/fs/cgroup"},
		{__LINE__, "x /cgroup2 tmpfs rw 0 0\ny /a cgroup2 rw 0 0\ny /b cgroup2 rw 0 0\n",
		 "/a"},
		{__LINE__, "none /my\\040groups cgroup2 rw 0 0\n", "/my groups"},
		{__LINE__, "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n", NULL},
		{__LINE__, "", NULL},
	};
	char path[] = "/tmp/vpmu-mounts-XXXXXX", *dir;
	int fd = mkstemp(path);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		ssize_t n = (ssize_t)strlen(rows[i].mounts);

		cr_assert(!ftruncate(fd, 0) && pwrite(fd, rows[i].mounts, (size_t)n, 0) == n);
		dir = cgroupfs_mount(path);
		cr_expect(!dir == !rows[i].dir && (!dir || !strcmp(dir, rows[i].dir)),
			  "line %d: %s", rows[i].line, dir ? dir : "none");
		free(dir);
	}
	close(fd);
	unlink(path);
	cr_expect_null(cgroupfs_mount(path));
}
