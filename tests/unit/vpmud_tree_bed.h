/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A tree of vpmud with a fake backend that notes the bindings, and VMs and cgroups as discovery
 * reports them. The tests stand for discovery. */
#ifndef TESTS_UNIT_VPMUD_TREE_BED_H
#define TESTS_UNIT_VPMUD_TREE_BED_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vpmud/config.h"
#include "vpmud/tree_priv.h"

#define BINDS_MAX 64
#include "fake_binds.h"

static struct fake_source fake;
static struct tenants *ts;
static struct vpmud_config conf, conf2;
static struct tree *t;
static char root[] = "/tmp/tree.XXXXXX", notes[2000], err[300];

static inline void bind_check(struct vpmu_backend_node *n, pid_t tid, uint64_t start)
{
	cr_assert(n);
	if (tid)
		cr_assert_eq(start, (uint64_t)tid * 10, "the start time goes with the thread");
}

static inline void unbind_check(struct vpmu_backend_node *n, const struct bind *b)
{
	cr_assert(b, "unbound although it was not bound");
	cr_assert_eq(b->n, n, "unbound from a node that it is not bound to");
}

/* The lasting names that were given, in order. */
static struct named {
	const struct vpmu_backend_node *n;
	uint64_t name;
} names[BINDS_MAX];
static size_t nr_names;

static inline int name(struct vpmu_backend_node *n, uint64_t nr)
{
	cr_assert(nr && nr_names < BINDS_MAX);
	cr_assert_not(is_bound_to(n), "named after something was bound to it");
	names[nr_names++] = (struct named){n, nr};
	return 0;
}

static inline uint64_t name_of(const struct vpmu_backend_node *n)
{
	for (size_t i = nr_names; i--;)
		if (names[i].n == n)
			return names[i].name;
	return 0;
}

/* The contract of node_remove that the fake source cannot see: nothing is bound. */
static inline void node_remove(struct vpmu_backend_node *n)
{
	cr_assert_not(is_bound_to(n), "removed while something is bound to it");
	fake_node_remove(n);
}

/* Bindings in force: those made before the last flush. */
static size_t nr_flushed, nr_flushes;

static inline void flush_node(struct vpmu_backend_node *n)
{
	nr_flushes++;
	nr_flushed = 0;
	for (size_t i = 0; i < BINDS_MAX; i++)
		nr_flushed += binds[i].n != NULL;
}

static inline void note(void *arg, const char *line)
{
	snprintf(notes + strlen(notes), sizeof(notes) - strlen(notes), "%s\n", line);
}

static inline void read_rules(struct vpmud_config *c, const char *text)
{
	vpmud_config_init(c);
	cr_assert_eq(vpmud_config_text(c, "f", text, strlen(text), err, sizeof(err)), 0, "%s", err);
}

/* Cgroups that the kernel has of the vpmud before. */
static uint64_t pinned[BINDS_MAX];

static inline bool has_cgroup(const struct vpmu_backend *s, uint64_t id)
{
	for (size_t i = 0; i < BINDS_MAX; i++)
		if (id && pinned[i] == id)
			return true;
	return bind_of(id, 0);
}

static struct tree_backend backend;

static inline void start(const char *text)
{
	static struct vpmu_backend_ops ops;

	backend = (struct tree_backend){&fake.s,     bind_cgroup, unbind_cgroup, bind_task,
					unbind_task, name,	  has_cgroup};

	cr_assert(mkdtemp(root));
	ops = fake_ops;
	ops.node_remove = node_remove;
	ops.flush_node = flush_node;
	fake_init(&fake, "bpf", 0);
	fake.s.ops = &ops;
	cr_assert_eq(tenants_create(NULL, &ts, err, sizeof(err)), 0);
	cr_assert_eq(tenants_add_source(ts, &fake.s), 0);
	read_rules(&conf, text);
	t = tree_create(ts, &backend, &conf.rules, root, note, NULL);
}

static json_t *saved; /* the state of the vpmud before, which must live */

static inline void stop(void)
{
	char command[80];

	tree_destroy(t);
	json_decref(saved);
	memset(binds, 0, sizeof(binds)); /* the backend ends with us */
	tenants_destroy(ts);
	vpmud_config_fini(&conf);
	vpmud_config_fini(&conf2);
	snprintf(command, sizeof(command), "rm -r %s", root);
	cr_assert_eq(system(command), 0);
}

/* The tree of the next vpmud, from this one's saved state. @text: rules that have changed while it
 * was down; NULL: none have. */
static inline void next_vpmud_with(const char *text)
{
	const struct rules *rules = t->rules;

	if (text) {
		read_rules(&conf2, text);
		rules = &conf2.rules;
	}
	json_decref(saved);
	saved = tree_save(t);

	cr_assert(saved);
	tree_destroy(t);
	for (size_t i = 0; i < BINDS_MAX; i++)
		pinned[i] = binds[i].n ? binds[i].id : 0;
	memset(binds, 0, sizeof(binds)); /* the backend ends with us; the kernel has them */
	tenants_destroy(ts);
	nr_names = 0;
	cr_assert_eq(tenants_create(NULL, &ts, err, sizeof(err)), 0);
	cr_assert_eq(tenants_add_source(ts, &fake.s), 0);
	t = tree_create(ts, &backend, rules, root, note, NULL);
	tree_restore(t, saved);
}

static inline void next_vpmud(void)
{
	next_vpmud_with(NULL);
}

TestSuite(vpmud_tree, .fini = stop);

/* A VM of the process @pid in cgroup @cgroup with id @id, and vCPU threads 100 * pid + index for
 * each index of @vcpus. */
static inline struct disc_vm vm_of(pid_t pid, const char *name, const char *tenant,
				   const char *cgroup, uint64_t id, const char *vcpus)
{
	static struct disc_vcpu threads[8][8];
	static int next;
	struct disc_vm vm = {.name = name,
			     .kind = "qemu",
			     .pid = pid,
			     .start_time = 1,
			     .cgroup = cgroup,
			     .cgroup_id = id,
			     .tenant = tenant,
			     .nr_vcpus = strlen(vcpus),
			     .vcpus = threads[next]};

	for (size_t i = 0; vcpus[i]; i++) {
		pid_t tid = pid * 100 + vcpus[i] - '0';

		threads[next][i] = (struct disc_vcpu){vcpus[i] - '0', tid, (uint64_t)tid * 10};
	}
	next = (next + 1) % 8;
	return vm;
}

/* Discovery keeps what it reports, so each report is a copy here: the tests change their VMs. */
static inline const struct disc_vm *vm_reported(const struct disc_vm *vm)
{
	static struct disc_vm copies[32];
	static size_t next;

	next = (next + 1) % 32;
	copies[next] = *vm;
	return &copies[next];
}

static inline void vm_added(const struct disc_vm *vm)
{
	tree_vm_added(t, vm_reported(vm));
}

static inline void vm_changed(const struct disc_vm *vm)
{
	tree_vm_changed(t, vm_reported(vm));
}

/* The processes in cgroup @path, as in its cgroup.procs. */
static inline void procs(const char *path, const char *pids)
{
	char file[300];
	FILE *f;

	snprintf(file, sizeof(file), "%s%s", root, path);
	mkdir(file, 0700);
	strcat(file, "/cgroup.procs");
	f = fopen(file, "w");
	cr_assert(f);
	fputs(pids, f);
	fclose(f);
}

static inline struct vpmu_backend_node *in(const char *vm_or_path)
{
	const struct node *n =
		*vm_or_path == '/' ? tenant_find(ts, vm_or_path) : tenant_vm_find(ts, vm_or_path);

	return n ? node_in(n, &fake.s) : NULL;
}

static inline struct vpmu_backend_node *vcpu_in(const char *vm, unsigned int vcpu)
{
	const struct node *n = tenant_vm_find(ts, vm), *v = n ? node_vcpu(n, vcpu) : NULL;

	return v ? node_in(v, &fake.s) : NULL;
}

static inline void expect_bound(unsigned int line, uint64_t id, pid_t tid,
				const struct vpmu_backend_node *n)
{
	const struct bind *b = bind_of(id, tid);

	cr_expect_eq(b ? b->n : NULL, n, "line %u: cgroup %u, task %d", line, (unsigned int)id,
		     tid);
	cr_expect(n || !b, "line %u", line);
}
#define CGROUP_BOUND(id, n) expect_bound(__LINE__, id, 0, n)
#define TASK_BOUND(tid, n)  expect_bound(__LINE__, 0, tid, n)

static inline const char *path_of(const char *vm)
{
	const struct node *n = tenant_vm_find(ts, vm);

	return n ? n->path : "(none)";
}

#endif
