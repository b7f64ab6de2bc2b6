// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Times of readings (struct as_of): every part was read within them, and what a program has counted
 * by then is between what it had done at their begin and at their end.
 */
#include <pthread.h>
#include <time.h>
#include <urcu/urcu-memb.h>

#include "cgroup_host.h"
#include "fake_backend.h"
#include "service/session.h"
#include "tests/random.h"

static struct test_host h;
static struct sessions *ss;
static struct fake_source fake[2];

static void setup(void)
{
	test_host_init(&h, NULL);
	fake_init(&fake[0], "fake", 0);
	fake_init(&fake[1], "other", 0);
	for (int i = 0; i < 2; i++)
		cr_assert_eq(tenants_add_source(h.ts, &fake[i].s), 0);
	ss = sessions_create(h.ts);
}

static void teardown(void)
{
	sessions_destroy(ss);
	test_host_fini(&h);
}

TestSuite(as_of, .init = setup, .fini = teardown);

static struct session *as_of_open(enum session_scope scope)
{
	static const char *const names[] = {"instructions"};
	static vpmu_key_t keys[1];
	struct session_spec spec = {.nr_events = 1, .events = names, .keys = keys, .scope = scope};
	struct session *s = NULL;

	keys[0] = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS);
	spec.open.target = tenant_find(h.ts, "/a");
	cr_assert_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), 0, "%s", h.err);
	return s;
}

static void as_of_count(const struct session_row *row, void *arg)
{
	*(uint64_t *)arg += row->values[0].count;
}

/* ---- parts that are read at known times ----------------------------------------------------- */

/* All of @fake was done between @begin_ns and @ns, and both are within @from_ns and @to_ns. */
static void as_of_expect_within(uint64_t from_ns, uint64_t begin_ns, uint64_t ns, uint64_t to_ns)
{
	cr_expect(from_ns <= begin_ns && ns <= to_ns, "%lu %lu %lu %lu", from_ns, begin_ns, ns,
		  to_ns);
	for (int i = 0; i < 2; i++) {
		cr_assert(fake[i].first_ns);
		cr_expect(begin_ns <= fake[i].first_ns, "%d: %lu ns too late", i,
			  begin_ns - fake[i].first_ns);
		cr_expect(ns >= fake[i].last_ns, "%d: %lu ns too early", i, fake[i].last_ns - ns);
	}
}

static void as_of_forget(void)
{
	for (int i = 0; i < 2; i++)
		fake[i].first_ns = fake[i].last_ns = 0;
}

Test(as_of, all_parts_are_read_within_the_width)
{
	struct node *t = test_tenant(&h, "/a"), *vm;
	uint64_t before, after, sum = 0;
	struct session *s;

	for (int i = 0; i < 2; i++)
		cr_assert_eq(tenant_vm_add(h.ts, t, &fake[i].s, i ? "other" : "vm", 3, NULL, &vm,
					   h.err, sizeof(h.err)),
			     0);
	before = fake_instant();
	s = as_of_open(SESSION_VCPU);
	after = fake_instant();
	as_of_expect_within(before, s->opened_ns - s->opened_width_ns, s->opened_ns, after);
	for (int i = 0; i < 3; i++) {
		uint64_t real = realtime_us();

		as_of_forget();
		before = fake_instant();
		session_read(s, as_of_count, &sum);
		after = fake_instant();
		as_of_expect_within(before, s->read.ns - s->read.width_ns, s->read.ns, after);
		/* Unless the clock is set meanwhile. */
		cr_expect(s->read.us - real < 3600000000u, "%lu %lu", s->read.us, real);
	}
}

/* ---- a known program ------------------------------------------------------------------------ */

#define STEPS	 100000
#define SESSIONS 30
#define READS	 6

/* A pCPU and its owner, who writes down what it does. */
static struct as_of_cpu {
	pthread_t thread;
	struct test_vcpu v;
	unsigned int p;
	bool runs, stop;
	size_t nr;
	struct {
		uint64_t before_ns, after_ns, insns;
	} step[STEPS];
} cpu[TEST_PCPUS];

static void as_of_nap(void)
{
	const struct timespec nap = {.tv_nsec = 50000};

	nanosleep(&nap, NULL);
}

static void *as_of_owner(void *arg)
{
	struct as_of_cpu *c = arg;
	uint64_t rng = c->p + 1;

	urcu_memb_register_thread();
	vpmu_pcpu_online(h.pcpu[c->p]);
	cr_assert_eq(vpmu_context_place(&c->v.ctx, h.pcpu[c->p]), 0);
	vpmu_pcpu_switch(h.pcpu[c->p], &c->v.ctx);
	__atomic_store_n(&c->runs, true, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		uint64_t n = 1 + random_split(&rng) % 1000;

		if (c->nr < STEPS) {
			c->step[c->nr].insns = n;
			c->step[c->nr].before_ns = now_ns();
			test_retire(&h.pmu[c->p], n);
			c->step[c->nr++].after_ns = now_ns();
		}
		if (n % 8 == 0) {
			vpmu_pcpu_switch(h.pcpu[c->p], NULL);
			vpmu_pcpu_switch(h.pcpu[c->p], &c->v.ctx);
		}
		/* One answers soon and counts on, while the other lets the reader wait. */
		if (n % (c->p ? 4 : 64) == 1)
			as_of_nap();
		vpmu_pcpu_poll(h.pcpu[c->p]);
	}
	vpmu_pcpu_switch(h.pcpu[c->p], NULL);
	vpmu_pcpu_offline(h.pcpu[c->p]);
	urcu_memb_unregister_thread();
	return NULL;
}

/* What all had done at @ns: @begun: with what was begun, else only what was done. */
static uint64_t as_of_truth(uint64_t ns, bool begun)
{
	uint64_t sum = 0;

	for (int i = 0; i < TEST_PCPUS; i++)
		for (size_t k = 0; k < cpu[i].nr; k++) {
			if ((begun ? cpu[i].step[k].before_ns : cpu[i].step[k].after_ns) <= ns)
				sum += cpu[i].step[k].insns;
			else
				break;
		}
	return sum;
}

Test(as_of, a_count_is_between_the_truths_of_its_times)
{
	static struct {
		uint64_t from_ns, from_width_ns, count;
		struct as_of to;
	} read[SESSIONS * READS];
	struct node *vm = test_vm(&h, test_tenant(&h, "/a"), "w", TEST_PCPUS);
	size_t n = 0, wide = 0;

	for (unsigned int i = 0; i < TEST_PCPUS; i++) {
		cpu[i].p = i;
		test_vcpu_init(&cpu[i].v, vm, i);
		cr_assert_eq(pthread_create(&cpu[i].thread, NULL, as_of_owner, &cpu[i]), 0);
		while (!__atomic_load_n(&cpu[i].runs, __ATOMIC_RELAXED))
			as_of_nap();
	}
	for (int i = 0; i < SESSIONS; i++) {
		struct session *s = as_of_open(SESSION_ONE);

		for (int k = 0; k < READS; k++, n++) {
			read[n].from_ns = s->opened_ns;
			read[n].from_width_ns = s->opened_width_ns;
			session_read(s, as_of_count, &read[n].count);
			read[n].to = s->read;
			as_of_nap();
		}
		session_close(s);
	}
	for (int i = 0; i < TEST_PCPUS; i++) {
		__atomic_store_n(&cpu[i].stop, true, __ATOMIC_RELAXED);
		cr_assert_eq(pthread_join(cpu[i].thread, NULL), 0);
		test_vcpu_fini(&cpu[i].v);
	}
	for (size_t i = 0; i < n; i++) {
		uint64_t from = read[i].from_ns, to = read[i].to.ns;
		uint64_t low = as_of_truth(to - read[i].to.width_ns, false);
		uint64_t high =
			as_of_truth(to, true) - as_of_truth(from - read[i].from_width_ns, false);
		uint64_t base = as_of_truth(from, true);

		low = low > base ? low - base : 0;
		cr_expect(read[i].count >= low && read[i].count <= high,
			  "reading %zu: %lu, expected %lu to %lu", i, read[i].count, low, high);
		wide += high > low && low;
	}
	cr_expect_gt(wide, 10, "the program must run during the readings: %zu", wide);
}
