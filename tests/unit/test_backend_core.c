// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * service/backend/core.c: the contract of service/backend/backend.h on libvpmu's core. Removal of a
 * node cannot fail and folds exactly, also without memory (malloc is wrapped: see CMakeLists.txt).
 */
#include <errno.h>

#include "alloc_wrap.h"
#include "cgroup_host.h"
#include "vpmu/core/internal.h"

static struct test_host h;
static struct vpmu_backend *src;
static const vpmu_key_t keys[] = {
	((uint64_t)VPMU_SPACE_GENERIC << VPMU_KEY_SPACE_SHIFT) | VPMU_EV_INSTRUCTIONS |
		VPMU_KEY_USR | VPMU_KEY_GUEST,
	((uint64_t)VPMU_SPACE_GENERIC << VPMU_KEY_SPACE_SHIFT) | VPMU_EV_CYCLES | VPMU_KEY_USR |
		VPMU_KEY_GUEST,
	((uint64_t)VPMU_SPACE_GENERIC << VPMU_KEY_SPACE_SHIFT) | VPMU_EV_CACHE_MISSES |
		VPMU_KEY_USR | VPMU_KEY_GUEST,
};

static void setup(void)
{
	test_host_init(&h, NULL);
	src = h.source;
}

static void teardown(void)
{
	alloc_refuse = false;
	test_host_fini(&h);
}

TestSuite(source_core, .init = setup, .fini = teardown);

/* A node as the tree makes them, with something that can run in it. */
struct place {
	struct vpmu_backend_node *n;
	struct test_vcpu v;
};

static void place_init(struct place *p, struct vpmu_backend_node *parent, uint64_t serial)
{
	memset(p, 0, sizeof(*p));
	cr_assert_eq(vpmu_backend_node_add(parent, serial, &p->n), 0);
	cr_expect_eq(p->n->serial, serial);
	cr_expect_eq(p->n->source, src);
	cr_assert_eq(vpmu_context_init(&p->v.ctx, vpmu_backend_core_account(p->n), NULL), 0);
}

static void place_fini(struct place *p)
{
	vpmu_context_fini(&p->v.ctx);
	vpmu_backend_node_remove(p->n);
}

static struct vpmu_counting *count(struct vpmu_backend_node *n, size_t nr, struct vpmu_value *v)
{
	struct vpmu_counting *c = vpmu_counting_new(n, keys, nr, v);
	size_t failed;

	cr_assert(c);
	cr_assert_eq(vpmu_backend_attach(c, &failed), 0);
	return c;
}

static void uncount(struct vpmu_counting *c)
{
	c->next = NULL;
	vpmu_backend_detach(c);
	vpmu_counting_free(c);
}

Test(source_core, a_batch_counts_from_its_attach_to_its_detach)
{
	struct vpmu_value va[3], vb[2], vr[1];
	struct vpmu_counting *a, *b, *r;
	struct place x, y;
	size_t failed;

	place_init(&x, src->root, 1);
	place_init(&y, x.n, 2);
	test_run(&h, 0, &y.v, 999);
	a = vpmu_counting_new(x.n, keys, 3, va);
	b = vpmu_counting_new(y.n, keys, 2, vb);
	r = vpmu_counting_new(src->root, keys, 1, vr);
	a->next = b;
	b->next = r;
	cr_assert_eq(vpmu_backend_attach(a, &failed), 0);
	test_run(&h, 0, &x.v, 10);
	test_run(&h, 1, &y.v, 5);
	vpmu_backend_flush(a);
	vpmu_backend_read(a);
	cr_expect_eq(va[0].count, 15);
	vpmu_backend_read(r);
	cr_expect_eq(vr[0].count, 15);
	test_run(&h, 1, &y.v, 1);
	vpmu_backend_detach(a);
	test_run(&h, 1, &y.v, 7777);
	cr_expect_eq(va[0].count, 16);
	cr_expect_eq(va[1].count, 32, "two cycles each");
	cr_expect_eq(va[1].quality, VPMU_Q_MODELLED);
	cr_expect_not(va[2].supported);
	cr_expect_eq(vb[0].count, 6);
	cr_expect_eq(vr[0].count, 16);
	vpmu_counting_free(a);
	vpmu_counting_free(b);
	vpmu_counting_free(r);
	place_fini(&y);
	place_fini(&x);
}

Test(source_core, a_failed_attach_names_its_key_and_leaves_nothing)
{
	vpmu_key_t many[VPMU_MAX_SLOTS + 1];
	struct vpmu_value v[VPMU_MAX_SLOTS + 1], one[1];
	struct vpmu_counting *first = vpmu_counting_new(src->root, keys, 1, one), *c;
	struct vpmu_sharing sh;
	size_t failed = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS + 1; i++)
		many[i] = vpmu_key_make(VPMU_SPACE_INTEL, (uint16_t)(0x80 + i),
					VPMU_KEY_USR | VPMU_KEY_GUEST);
	c = vpmu_counting_new(src->other, many, VPMU_MAX_SLOTS + 1, v);
	first->next = c;
	cr_expect_eq(vpmu_backend_attach(first, &failed), -ENOSPC);
	cr_expect_eq(failed, VPMU_MAX_SLOTS - 1, "the second list's: the first has one slot");
	vpmu_backend_sharing(src, &sh);
	cr_expect_eq(sh.consumers, 0);
	alloc_refuse = true;
	first->next = NULL;
	cr_expect_eq(vpmu_backend_attach(first, &failed), -ENOMEM);
	cr_expect_eq(failed, 0);
	alloc_refuse = false;
	vpmu_counting_free(first);
	vpmu_counting_free(c);
}

Test(source_core, detach_needs_no_memory)
{
	struct vpmu_value v[2];
	struct vpmu_counting *c;
	struct place x;

	place_init(&x, src->root, 1);
	c = count(x.n, 2, v);
	test_run(&h, 0, &x.v, 44);
	alloc_refuse = true;
	vpmu_backend_detach(c);
	alloc_refuse = false;
	cr_expect_eq(v[0].count, 44);
	cr_expect_eq(v[1].count, 88);
	vpmu_counting_free(c);
	place_fini(&x);
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	cr_expect_eq(c->hardware, c->charged, "pCPU %u", c->pcpu);
	++*(int *)arg;
	return 0;
}

/* Issue of before: removal failed without memory, and a caller that ignored that used the node's
 * memory after it was freed. */
Test(source_core, removal_without_memory_loses_nothing)
{
	struct vpmu_value v[1], vp[1];
	struct vpmu_counting *root, *p;
	struct place tenant, vm, vcpu;
	int rows = 0;

	place_init(&tenant, src->root, 1);
	place_init(&vm, tenant.n, 2);
	place_init(&vcpu, vm.n, 3);
	root = count(src->root, 1, v);
	p = count(tenant.n, 1, vp);
	test_run(&h, 0, &vcpu.v, 100);
	test_run(&h, 1, &vm.v, 20);
	test_run(&h, 1, &tenant.v, 3);
	alloc_refuse = true;
	place_fini(&vcpu);
	place_fini(&vm);
	vpmu_backend_flush(root);
	vpmu_backend_read(p);
	cr_expect_eq(vp[0].count, 123, "its counts are still the tenant's");
	vpmu_backend_detach(p);
	cr_expect_eq(vp[0].count, 123);
	place_fini(&tenant);
	vpmu_backend_read(root);
	cr_expect_eq(v[0].count, 123);
	alloc_refuse = false;
	vpmu_counting_free(p);
	/* The rest is folded with the next node; no sum changes. */
	place_init(&tenant, src->root, 4);
	cr_expect_eq(vpmu_backend_core_account(src->root)->nr_children, 2, "/host and this one");
	vpmu_backend_flush(root);
	vpmu_backend_read(root);
	cr_expect_eq(v[0].count, 123);
	cr_assert_eq(vpmu_backend_conservation(src, conserved, &rows), 0);
	cr_expect_geq(rows, 2);
	uncount(root);
	place_fini(&tenant);
}

Test(source_core, a_vm_is_removed_without_memory)
{
	struct node *vm = test_vm(&h, test_tenant(&h, "/a"), "vm", 4);

	alloc_refuse = true;
	tenant_vm_remove(h.ts, vm);
	alloc_refuse = false;
	cr_expect_null(tenant_vm_find(h.ts, "vm"));
	test_vm(&h, tenant_find(h.ts, "/a"), "vm", 1);
}

static int samples;
static uint64_t seen, seen_ns;

static void sample(void *arg, const struct vpmu_backend_sample *s)
{
	samples++;
	seen = s->serial;
	seen_ns = s->time_ns;
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

Test(source_core, samples_carry_their_time_if_asked)
{
	struct vpmu_sampling_opts o = {.key = keys[0], .period = 10, .sample = sample};
	struct vpmu_sampling *s;
	uint64_t before;

	for (int times = 0; times < 2; times++) {
		o.times = times;
		cr_assert_eq(vpmu_backend_sample_start(src->root, &o, &s), 0);
		before = monotonic_ns();
		test_run(&h, 0, NULL, 10);
		vpmu_backend_flush_node(src->root);
		cr_expect_eq(samples, times + 1);
		cr_expect(times ? seen_ns >= before && seen_ns <= monotonic_ns() : !seen_ns);
		vpmu_backend_sample_stop(s);
	}
}

Test(source_core, samples_carry_the_serial_of_the_vcpu)
{
	struct vpmu_sampling_opts o = {.key = keys[0], .period = 10, .sample = sample};
	struct vpmu_sampling *s;
	struct vpmu_value v;
	struct place x;

	place_init(&x, src->root, 77);
	cr_assert_eq(vpmu_backend_sample_start(src->root, &o, &s), 0);
	test_run(&h, 0, NULL, 10);
	vpmu_backend_flush_node(src->root);
	cr_expect_eq(samples, 1);
	cr_expect_eq(seen, 0, "no vCPU ran");
	test_run(&h, 0, &x.v, 10);
	cr_expect_eq(samples, 2);
	cr_expect_eq(seen, 77);
	vpmu_backend_sample_read(s, &v);
	cr_expect_eq(v.count, 20);
	vpmu_backend_sample_stop(s);
	test_run(&h, 0, &x.v, 10);
	cr_expect_eq(samples, 2);
	place_fini(&x);
}

Test(source_core, what_a_source_cannot_do_is_not_supported)
{
	const struct vpmu_backend_core_opts o = {.backend = "bare", .can_count = test_can_count};
	struct vpmu_sampling_opts so = {.key = keys[0], .period = 10, .sample = sample};
	struct vpmu_lbr_usage usage = {1, 1};
	struct vpmu_sampling *s = NULL;
	struct vpmu_lbr_regs regs;
	enum vpmu_lbr_user user;
	struct vpmu_backend *bare;

	cr_assert_eq(vpmu_backend_core_create(&o, &bare), 0);
	cr_expect_eq(vpmu_backend_sample_start(bare->root, &so, &s), -EOPNOTSUPP);
	cr_expect_eq(vpmu_backend_branches_attach(bare->root, VPMU_LBR_TYPES), -EOPNOTSUPP);
	vpmu_backend_branches_detach(bare->root);
	cr_expect_eq(vpmu_backend_branches_read(bare->root, &regs, &user), -ENOENT);
	vpmu_backend_branches_usage(bare, &usage);
	cr_expect_eq(usage.bytes, 0);
	vpmu_backend_sample_stop(NULL);
	vpmu_counting_free(NULL);
	vpmu_backend_core_destroy(bare);
	vpmu_backend_core_destroy(NULL);
}
