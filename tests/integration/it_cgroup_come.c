// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Nodes that come while sessions count, as new tenants do: their rows begin without a flush, so a
 * thousand of them interrupt CPUs as often as one, and miss nothing and have nothing too much.
 *
 *   IT_CGROUP_COME=N  nodes that come (default 1000; an emulated machine takes 50)
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define PAGE 4096

static const vpmu_key_t keys[] = {SW(PERF_COUNT_SW_PAGE_FAULTS), SW(PERF_COUNT_SW_TASK_CLOCK)};
enum { KEYS = 2 };

static unsigned int flushes;

static int come_run(int prog, unsigned int cpu)
{
	flushes++;
	return bpf_backend_sys_real.run(prog, cpu);
}

static struct bpf_backend *come_open(void)
{
	static struct bpf_backend_sys sys;

	sys = bpf_backend_sys_real;
	sys.run = come_run;
	return bed_open(&(struct bpf_backend_opts){.sys = &sys});
}

enum { SESSIONS = 3, GROUPS = 8, FAULTS = 200, MORE = 100 };

Test(cgroup_come, many_take_one_flush)
{
	const char *many = getenv("IT_CGROUP_COME");
	const unsigned int nr = many ? (unsigned int)atoi(many) : 1000;
	struct bpf_backend *k = come_open();
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *all = NULL,
			     **row = calloc(nr * SESSIONS, sizeof(struct vpmu_counting *));
	struct vpmu_backend_node *n = NULL;
	unsigned int begun;
	char name[16];

	for (unsigned int i = 0; i < SESSIONS; i++) {
		all = bed_counting(s->root, keys, KEYS, NULL);
		bed_attach(all);
	}
	begun = flushes;
	for (unsigned int i = 0; i < nr; i++) {
		n = bed_node(s->root);
		for (unsigned int j = 0; j < SESSIONS; j++) {
			row[i * SESSIONS + j] = bed_counting(n, keys, KEYS, NULL);
			bed_attach(row[i * SESSIONS + j]);
		}
		snprintf(name, sizeof(name), "g%u", i);
		cr_assert_eq(
			bpf_backend_bind_cgroup(n, i < GROUPS ? bed_cgroup(name) : 1000000 + i), 0);
	}
	printf("# %u nodes, %u sessions: %u flushes\n", nr, SESSIONS, flushes - begun);
	cr_expect_eq(flushes, begun);
	vpmu_backend_flush_node(n);
	cr_expect_leq(flushes - begun, k->nr_cpus);
	/* Without a flush since. */
	for (unsigned int i = 0; i < GROUPS; i++) {
		snprintf(name, sizeof(name), "g%u", i);
		bed_kill(bed_job(name, FAULTS));
	}
	for (unsigned int i = 0; i < nr * SESSIONS; i++) {
		const struct vpmu_value *v = row[i]->values;

		bed_read(row[i]);
		if (i / SESSIONS < GROUPS)
			cr_expect(v->partial || (v->count >= FAULTS && v->count <= FAULTS + MORE),
				  "node %u: %lu", i / SESSIONS, v->count);
		else
			cr_expect(!v->count && !v->enabled_ns, "node %u: %lu", i / SESSIONS,
				  v->count);
		cr_expect_eq(v->count, row[i / SESSIONS * SESSIONS]->values->count);
	}
	cr_expect_gt(bed_conserved(s), 0);
	free(row);
	bed_done(k);
}

struct busy {
	uint64_t faults;
};

static void work_busy(void *arg)
{
	struct busy *b = arg;

	for (;;) {
		char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		struct rusage r;

		madvise(p, 16 * PAGE, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < 16; i++)
			((volatile char *)p)[i * PAGE] = 1;
		munmap(p, 16 * PAGE);
		getrusage(RUSAGE_SELF, &r);
		__atomic_store_n(&b->faults, (uint64_t)(r.ru_minflt + r.ru_majflt),
				 __ATOMIC_RELEASE);
	}
}

static uint64_t come_faults(const struct busy *b)
{
	return __atomic_load_n(&b->faults, __ATOMIC_ACQUIRE);
}

/* The program does not switch when its cgroup gets a node, and the node's row has nothing from
 * before. */
Test(cgroup_come, one_that_runs_already)
{
	enum { ROUNDS = 100 };
	struct bpf_backend *k = come_open();
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *all = bed_counting(s->root, keys, KEYS, NULL);
	const uint64_t id = bed_cgroup("b");
	struct busy *b = bed_share(sizeof(*b));
	unsigned int partial = 0;

	bed_attach(all);
	bed_spawn("b", work_busy, b);
	while (!come_faults(b))
		usleep(1000);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct vpmu_backend_node *n = bed_node(s->root);
		struct vpmu_counting *c = bed_counting(n, keys, KEYS, NULL);
		uint64_t before = come_faults(b), bound, last, now;
		unsigned int begun = flushes;

		bed_attach(c);
		cr_expect_eq(flushes, begun);
		cr_assert_eq(bpf_backend_bind_cgroup(n, id), 0);
		vpmu_backend_flush_node(n);
		bound = come_faults(b);
		for (int j = 0; j < 1000 && come_faults(b) < bound + 500; j++)
			usleep(1000);
		last = come_faults(b);
		bed_read(c);
		now = come_faults(b) + 64; /* it may be amid its faults */
		partial += c->values->partial;
		cr_expect(c->values->partial || c->values->count <= now - before,
			  "round %u: %lu of %lu since before it came", i, c->values->count,
			  now - before);
		cr_expect(c->values->partial || c->values->count + 64 >= last - bound,
			  "round %u: %lu of %lu since it was bound", i, c->values->count,
			  last - bound);
		bpf_backend_unbind_cgroup(n, id);
		bed_detach(c);
		bed_counting_free(c);
		vpmu_backend_node_remove(n);
	}
	printf("# %u of %u rounds are partial\n", partial, ROUNDS);
	cr_expect_gt(bed_conserved(s), 0);
	bed_done(k);
}

/* Rows of nodes that were there: what runs in them, or below them, was charged to them before. */
Test(cgroup_come, rows_of_nodes_that_were_there)
{
	enum { ROUNDS = 100 };
	struct bpf_backend *k = come_open();
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *all = bed_counting(s->root, keys, KEYS, NULL);
	struct vpmu_backend_node *above = bed_node(s->root), *n = bed_tenant(above, "b");
	struct busy *b = bed_share(sizeof(*b));

	bed_two_cpus();
	bed_run_on(0, 1); /* or each attach is at a switch of the program's CPU */
	bed_attach(all);
	bed_run_on(bed_spawn("b", work_busy, b), 0);
	while (!come_faults(b))
		usleep(1000);
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct vpmu_counting *c = bed_counting(i % 2 ? above : n, keys, KEYS, NULL);
		uint64_t before = come_faults(b), now;
		unsigned int begun = flushes;

		bed_attach(c);
		cr_expect_neq(flushes, begun);
		bed_read(c);
		now = come_faults(b) + 64; /* it may be amid its faults */
		cr_expect(c->values->partial || c->values->count <= now - before,
			  "round %u: %lu of %lu since it began", i, c->values->count, now - before);
		bed_detach(c);
		bed_counting_free(c);
		usleep(5000);
	}
	bed_done(k);
}
