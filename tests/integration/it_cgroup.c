// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF backend on the running kernel: nothing is lost while tasks and cgroups come, move and
 * go; each count is charged to its own account; nothing is attached while no counter is in use.
 * Perf events of the test's own have the right counts. Skipped where BPF is not permitted.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"
#include "tests/measured.h"

#define NR_KEYS 5

static const vpmu_key_t keys[NR_KEYS] = {
	SW(PERF_COUNT_SW_CONTEXT_SWITCHES), SW(PERF_COUNT_SW_PAGE_FAULTS),
	SW(PERF_COUNT_SW_CPU_MIGRATIONS),   SW(PERF_COUNT_SW_CPU_CLOCK),
	SW(PERF_COUNT_SW_PAGE_FAULTS_MIN),
};

/* ---- conservation ------------------------------------------------------------------------- */

#define TENANTS 4
#define VMS	8 /* at a time, each a cgroup below a tenant's */

static void (*const works[])(void *) = {work_faults, work_switches, work_migrations, work_sleeps};

struct churn {
	struct vpmu_backend_node *tenant[TENANTS];
	struct {
		struct vpmu_backend_node *node; /* NULL: not there */
		unsigned int tenant;
		uint64_t cgroup;
		char name[16];
		pid_t pid;
		bool bound;
	} vm[VMS];
	unsigned int made, moved, removed;
};

static void vm_add(struct churn *c, unsigned int i)
{
	c->vm[i].tenant = (unsigned int)rand() % TENANTS;
	snprintf(c->vm[i].name, sizeof(c->vm[i].name), "t%u/vm%u", c->vm[i].tenant, i);
	c->vm[i].cgroup = bed_cgroup(c->vm[i].name);
	c->vm[i].node = bed_node(c->tenant[c->vm[i].tenant]);
	c->vm[i].pid = bed_spawn(c->vm[i].name, works[rand() % 4], NULL);
	/* Some are counted by their cgroup, some as a part of the tenant's. */
	c->vm[i].bound = rand() % 3;
	if (c->vm[i].bound)
		cr_assert_eq(bpf_backend_bind_cgroup(c->vm[i].node, c->vm[i].cgroup), 0);
	c->made++;
}

static void vm_remove(struct churn *c, unsigned int i)
{
	if (rand() % 2)
		bed_kill(c->vm[i].pid);
	vpmu_backend_node_remove(c->vm[i].node);
	bed_rmdir(c->vm[i].name);
	bed_kill(c->vm[i].pid);
	c->vm[i].node = NULL;
	c->removed++;
}

static void churn_step(struct churn *c)
{
	unsigned int i = (unsigned int)rand() % VMS, j = (unsigned int)rand() % VMS;

	if (!c->vm[i].node) {
		vm_add(c, i);
	} else if (rand() % 3 == 0) {
		vm_remove(c, i);
	} else if (c->vm[j].node) {
		bed_move(c->vm[i].pid, c->vm[j].name);
		c->moved++;
	}
}

static void churn(const struct bpf_backend_opts *o)
{
	struct bpf_backend *k = bed_open(o);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *root, *list = NULL;
	uint64_t before[2][NR_KEYS], after[2][NR_KEYS];
	struct bed_counters truth[NR_KEYS];
	const char *seconds = getenv("IT_CGROUP_SECONDS");
	unsigned int compared = 0;
	struct churn c = {0};
	struct bpf_backend_usage u;
	double end;
	char name[16];

	srand(1);
	for (unsigned int i = 0; i < TENANTS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		c.tenant[i] = bed_tenant(s->root, name);
		list = bed_counting(c.tenant[i], keys, NR_KEYS, list);
	}
	list = bed_counting(s->other, keys, NR_KEYS, list);
	root = list = bed_counting(s->root, keys, NR_KEYS, list);
	for (unsigned int i = 0; i < NR_KEYS; i++)
		bed_counters(&truth[i], keys[i]);
	for (unsigned int i = 0; i < VMS / 2; i++)
		vm_add(&c, i);

	for (unsigned int i = 0; i < NR_KEYS; i++)
		before[0][i] = bed_counters_read(&truth[i]);
	bed_attach(list);
	for (unsigned int i = 0; i < NR_KEYS; i++)
		before[1][i] = bed_counters_read(&truth[i]);
	bed_first();
	end = clock_s(CLOCK_MONOTONIC) + (seconds ? atof(seconds) : 3);
	/* On a slow machine a step can take a second. */
	for (unsigned int steps = 0; clock_s(CLOCK_MONOTONIC) < end || steps < 300; steps++) {
		churn_step(&c);
		if (rand() % 8 == 0)
			vpmu_backend_flush(list);
		if (rand() % 8 == 0)
			compared += bed_conserved(s);
		if (rand() % 16 == 0)
			bpf_backend_tend(k);
		usleep(2000);
	}
	compared += bed_conserved(s);
	bpf_backend_usage(k, &u);
	for (unsigned int i = 0; i < NR_KEYS; i++)
		after[0][i] = bed_counters_read(&truth[i]);
	bed_detach(list);
	for (unsigned int i = 0; i < NR_KEYS; i++)
		after[1][i] = bed_counters_read(&truth[i]);

	for (unsigned int i = 0; i < NR_KEYS; i++) {
		uint64_t sum = 0;

		for (struct vpmu_counting *l = root->next; l; l = l->next)
			sum += l->values[i].count;
		cr_expect_eq(sum, root->values[i].count, "key %u: tenants and other %lu, root %lu",
			     i, sum, root->values[i].count);
		cr_expect(root->values[i].count >= after[0][i] - before[1][i] &&
				  root->values[i].count <= after[1][i] - before[0][i],
			  "key %u: the root has %lu, the CPUs between %lu and %lu", i,
			  root->values[i].count, (after[0][i] - before[1][i]),
			  (after[1][i] - before[0][i]));
		cr_expect(root->values[i].supported && !root->values[i].partial);
		cr_expect_eq(root->values[i].enabled_ns, root->values[i].running_ns);
		cr_expect(i == 2 || root->values[i].count > 1000);
		bed_counters_close(&truth[i]);
	}
	printf("# %u VMs made, %u removed, %u moves; %u comparisons of CPUs and "
	       "events; %lu switches, %lu faults, %lu migrations\n",
	       c.made, c.removed, c.moved, compared, root->values[0].count, root->values[1].count,
	       root->values[2].count);
	cr_expect_gt(compared, 0);
	bed_done(k);
}

Test(cgroup, nothing_is_lost_in_churn)
{
	churn(NULL);
}

/* Nothing is known of the kernel, as its BTF is not found where it is looked for. So the program is
 * taken that needs to know nothing. */
Test(cgroup, nothing_is_lost_by_the_program_for_any_kernel)
{
	struct bpf_backend_sys sys = bpf_backend_sys_real;
	const struct bpf_backend_opts o = {.sys = &sys};

	sys.files = "/nowhere";
	churn(&o);
}

/* ---- charges ---------------------------------------------------------------------- */

#define FAULTS 1000
/* Faults that the process takes besides: it has run before, so there are few. */
#define SLACK 20
/* Less is right only where the kernel hid a switch, and then the value is partial. */
static bool may_lack(struct bpf_backend *k, const struct vpmu_counting *c)
{
	return c->values[0].partial && bed_unseen(k);
}
#define assert_faults(c, n)                                                                        \
	do {                                                                                       \
		uint64_t v_ = bed_value(c);                                                        \
		cr_expect((v_ + 1 > (n) || may_lack(k, c)) && v_ <= (n) + SLACK,                   \
			  "%s: %lu faults instead of %u", #c, v_, (unsigned int)(n));              \
	} while (0)

/* A tenant that may make cgroups can nest them. */
Test(cgroup, a_count_of_a_deep_cgroup_is_its_tenants)
{
	const vpmu_key_t key = SW(PERF_COUNT_SW_PAGE_FAULTS);
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *c = bed_counting(bed_tenant(s->root, "a"), &key, 1, NULL);
	char name[200] = "a";
	pid_t pid;

	bed_cgroup(strcat(name, "/d"));
	pid = bed_job(name, FAULTS);
	bed_attach(bed_counting(s->root, &key, 1, NULL));
	bed_attach(c);
	for (unsigned int depth = 2; depth <= KP_MAX_DEPTH + 26; depth++) {
		bed_cgroup(strcat(name, "/d"));
		if (depth % 30)
			continue;
		bed_move(pid, name);
		bed_job_go();
		assert_faults(c, depth / 30 * FAULTS);
	}
	bed_done(k);
}

Test(cgroup, a_count_goes_to_whom_it_belongs)
{
	const vpmu_key_t key = SW(PERF_COUNT_SW_PAGE_FAULTS);
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_backend_node *a = bed_tenant(s->root, "a"), *b = bed_tenant(s->root, "b"),
				 *vm = bed_node(a), *vcpu = bed_node(vm);
	struct vpmu_counting *ca, *cb, *cvm, *cvcpu;
	uint64_t id_vm = bed_cgroup("a/vm");
	pid_t pid;

	bed_cgroup("a/vm/deep");
	pid = bed_job("a/vm/deep", FAULTS);
	ca = bed_counting(a, &key, 1, NULL);
	cb = bed_counting(b, &key, 1, NULL);
	cvm = bed_counting(vm, &key, 1, NULL);
	cvcpu = bed_counting(vcpu, &key, 1, NULL);
	/* Sandboxes hide some tasks' switches from tracepoints. With everything counted, what runs
	 * behind such a switch is still charged to whom it belongs. */
	bed_attach(bed_counting(s->root, &key, 1, NULL));
	bed_attach(ca);
	bed_attach(cb);
	assert_faults(ca, 0);

	/* The nearest ancestor's node. */
	bed_job_go();
	assert_faults(ca, FAULTS);
	assert_faults(cb, 0);
	/* A nearer one is bound, and counted later. */
	cr_assert_eq(bpf_backend_bind_cgroup(vm, id_vm), 0);
	bed_job_go();
	bed_attach(cvm);
	assert_faults(cvm, 0);
	assert_faults(ca, 2 * FAULTS);
	bed_job_go();
	assert_faults(cvm, FAULTS);
	assert_faults(ca, 3 * FAULTS);
	/* A task's node comes before its cgroup's, wherever it runs. */
	cr_assert_eq(bpf_backend_bind_task(vcpu, pid, bed_start_time(pid) + 1), -ESRCH);
	bed_bind_task(vcpu, pid);
	bed_attach(cvcpu);
	bed_job_go();
	assert_faults(cvcpu, FAULTS);
	assert_faults(cvm, 2 * FAULTS);
	bed_move(pid, "b");
	bed_job_go();
	assert_faults(cvcpu, 2 * FAULTS);
	assert_faults(cb, 0);
	/* No longer bound: its cgroup's. */
	bpf_backend_unbind_task(vcpu, pid);
	bed_job_go();
	assert_faults(cvcpu, 2 * FAULTS);
	assert_faults(cvm, 3 * FAULTS);
	assert_faults(cb, FAULTS);
	/* Removed nodes: counts stay with the parents, and so does what still runs there. */
	bed_move(pid, "a/vm");
	bed_detach(cvcpu);
	vpmu_backend_node_remove(vcpu);
	bed_job_go();
	assert_faults(cvm, 4 * FAULTS);
	bed_detach(cvm);
	cr_expect(cvm->values[0].count >= 4 * FAULTS || may_lack(k, cvm));
	vpmu_backend_node_remove(vm);
	bpf_backend_tend(k);
	bed_node(s->root); /* it may have the account of a removed one */
	bed_node(s->root);
	bed_job_go();
	for (int i = 0; i < 3; i++) {
		bpf_backend_tend(k);
		assert_faults(ca, 7 * FAULTS);
	}
	bed_conserved(s);
	bed_done(k);
}

/* ---- no counter in use ---------------------------------------------------------------------- */

static unsigned int links(void)
{
	FILE *p = popen("ls -l /proc/self/fd /proc/$PPID/fd | grep -c 'bpf_link\\|bpf-link'", "r");
	unsigned int n = 99;

	cr_assert(p && fscanf(p, "%u", &n) == 1);
	pclose(p);
	return n;
}

/* The first key needs none where the program finds the kernel's own number. */
static unsigned int with_events(const struct bpf_backend *k)
{
	return (NR_KEYS - k->sees_hidden) * (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
}

Test(cgroup, nothing_is_attached_when_nobody_counts)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *c = bed_counting(bed_tenant(s->root, "a"), keys, NR_KEYS, NULL);
	struct bpf_backend_usage u;

	bed_spawn("a", work_sleeps, NULL);
	for (int i = 0; i < 2; i++) {
		bpf_backend_usage(k, &u);
		cr_expect_eq(u.programs, 0);
		cr_expect_eq(u.events, 0);
		cr_expect_eq(links(), 0);
		bed_attach(c);
		bpf_backend_usage(k, &u);
		cr_expect_eq(u.programs, 1u + (k->move_link != NULL));
		cr_expect_eq(u.events, with_events(k));
		cr_expect_eq(links(), 1u + (k->move_link != NULL));
		/* Only one tenant is counted: the others' work is not charged, and is not lost. */
		for (int t = 0; t < 100000 && bed_value(c) <= 10; t++)
			usleep(1000); /* the task may have to wait for a CPU */
		cr_expect_gt(bed_conserved(s), 0);
		bed_detach(c);
		cr_expect_gt(c->values[0].count, 10);
	}
	bpf_backend_usage(k, &u);
	cr_expect_eq(u.programs + u.events, 0);
	bed_done(k);
}

/* ---- scale -------------------------------------------------------------------------------- */

static unsigned int open_files(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Memory, files and reading depend on the counters, not on the number of nodes. */
Test(cgroup, files_do_not_grow_with_nodes)
{
	static const unsigned int nodes[] = {1, 6000}; /* more than a page of accounts */
	unsigned int files[2], cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *list = NULL;
	struct bpf_backend_usage u;
	unsigned int n = 0;

	for (int i = 0; i < 2; i++) {
		for (; n < nodes[i]; n++) {
			struct vpmu_backend_node *node = bed_node(s->root);

			cr_assert_eq(bpf_backend_bind_cgroup(node, 1ULL << 40 | n), 0);
			list = bed_counting(node, keys, NR_KEYS, list);
		}
		bed_attach(list);
		files[i] = open_files();
		bpf_backend_usage(k, &u);
		cr_expect_eq(u.events, with_events(k));
		cr_expect_eq(u.accounts, nodes[i] + 3);
		cr_expect_eq(u.programs, 1u + (k->move_link != NULL));
		vpmu_backend_flush(list);
		for (struct vpmu_counting *l = list; l; l = l->next)
			vpmu_backend_read(l);
		/* None of these cgroups exists, so only root and other can have cells. */
		cr_expect_leq(u.cells, 2 * 2 * (cpus + 1));
		bed_detach(list);
	}
	cr_expect_eq(files[0], files[1]);
	bed_done(k);
}

/* ---- perf --------------------------------------------------------------------------------- */

/* The count that perf stat -x, printed for @event. */
static uint64_t perf_says(FILE *f, const char *event)
{
	char line[512];
	uint64_t v = 0;

	rewind(f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, event))
			v = strtoull(line, NULL, 10);
	return v;
}

Test(cgroup, agrees_with_perf_stat)
{
	const vpmu_key_t key[2] = {SW(PERF_COUNT_SW_PAGE_FAULTS), SW(PERF_COUNT_SW_CPU_MIGRATIONS)};
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *c = bed_counting(bed_tenant(s->root, "p"), key, 2, NULL);
	char out[] = "/tmp/vpmu-perf-XXXXXX", rel[64], sh[64], byte;
	int ready[2], here[2], status, fd = mkstemp(out);
	uint64_t theirs, ours;
	pid_t pid;
	FILE *f;

	bed_job("p", FAULTS);
	bed_attach(bed_counting(s->root, key, 2, NULL));
	bed_attach(c);
	cr_assert(fd >= 0 && !pipe(ready) && !pipe(here));
	snprintf(rel, sizeof(rel), "%s/p", bed_top());
	/* What perf has started ends with us, also if we fail. */
	snprintf(sh, sizeof(sh), "echo >/dev/fd/%d; exec cat </dev/fd/%d", ready[1], here[0]);
	pid = bed_fork();
	if (!pid) {
		setpgid(0, 0);
		close(here[1]);
		freopen("/dev/null", "w", stderr);
		execlp("perf", "perf", "stat", "-o", out, "-x,", "-a", "-e",
		       "page-faults,cpu-migrations", "--for-each-cgroup", rel, "sh", "-c", sh,
		       NULL);
		_exit(127);
	}
	close(ready[1]);
	close(here[0]);
	if (read(ready[0], &byte, 1) != 1) {
		waitpid(pid, &status, 0);
		unlink(out);
		bed_done(k);
		cr_skip_test("perf stat --for-each-cgroup does not run here (package linux-perf)");
	}
	for (int i = 0; i < 10; i++)
		bed_job_go();
	kill(-pid, SIGINT);
	waitpid(pid, &status, 0);
	bed_detach(c);
	f = fdopen(fd, "r");
	theirs = perf_says(f, "page-faults");
	ours = c->values[0].count;
	printf("# page-faults: perf %lu, vpmu %lu; cpu-migrations: perf %lu, vpmu %lu\n", theirs,
	       ours, perf_says(f, "cpu-migrations"), c->values[1].count);
	cr_expect_geq(theirs, 10 * FAULTS);
	cr_expect((ours >= theirs || may_lack(k, c)) && ours <= theirs + 10 * SLACK);
	fclose(f);
	unlink(out);
	bed_done(k);
}

/* A node is the sum of its parts in every reading, while all CPUs go on: nodes and bases are taken
 * at once, with others' parts in between. */
Test(cgroup, every_reading_adds_up)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *root, *list = NULL, *c;
	uint64_t last = 0, seen = 0;
	char name[16];

	for (unsigned int i = 0; i < TENANTS; i++) {
		snprintf(name, sizeof(name), "t%u", i);
		list = bed_counting(bed_tenant(s->root, name), keys, NR_KEYS, list);
		bed_spawn(name, i % 2 ? work_faults : work_switches, NULL);
	}
	list = bed_counting(s->other, keys, NR_KEYS, list);
	root = list = bed_counting(s->root, keys, NR_KEYS, list);
	for (unsigned int i = 0; i < 10000; i++) {
		if (i % 1000 == 0) {
			if (i)
				bed_detach(list);
			bed_attach(list);
			last = 0;
		}
		if (i % 10 == 0)
			vpmu_backend_flush(list);
		s->ops->read_list(list);
		for (unsigned int key = 0; key < NR_KEYS; key++) {
			uint64_t count = 0, time = 0;

			seen += root->values[key].count;
			for (c = root->next; c; c = c->next) {
				count += c->values[key].count;
				time += c->values[key].enabled_ns;
			}
			cr_assert_eq(count, root->values[key].count, "reading %u, key %u", i, key);
			cr_assert_eq(time, root->values[key].enabled_ns, "reading %u, key %u", i,
				     key);
		}
		cr_assert_geq(root->values[0].enabled_ns, last);
		last = root->values[0].enabled_ns;
	}
	cr_expect_gt(seen, 0);
	bed_done(k);
}
