// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Changes of a consumer under readers, at the moment that matters: after a reader has found the
 * consumer's state, and before it has the account's sum. account_sum and what allocates are wrapped
 * (alloc_wrap.h): a test can act inside of a read, and sees every allocation.
 */
#include <semaphore.h>

#include "alloc_wrap.h"
#include "core_bed.h"
#include "vpmu/core/internal.h"

static struct vpmu_consumer *c, *other;

/* Action of the next call of account_sum on this thread, once, before and after the sum. */
static __thread void (*before_sum)(void), (*after_sum)(void);
static __thread int skip_sums;

void __real_account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum);
void __wrap_account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum);
void __wrap_account_sum(const struct vpmu_account *a, int slot, struct vpmu_sum *sum)
{
	void (*before)(void), (*after)(void);

	if (skip_sums) {
		skip_sums--;
		__real_account_sum(a, slot, sum);
		return;
	}
	before = before_sum;
	after = after_sum;
	before_sum = after_sum = NULL;
	if (before)
		before();
	__real_account_sum(a, slot, sum);
	if (after)
		after();
}

static void setup(void)
{
	bed_init(&b, NULL);
	other = bed_count(&b, b.tenant, INSNS);
	/* While somebody else counts the key for the VM, the VM is charged when @c stops, and
	 * after. */
	bed_count(&b, b.vm, INSNS);
}

TestSuite(consumer, .init = setup, .fini = bed_teardown);

static void add(bool local)
{
	c = local ? bed_own(&b, 0, INSNS) : bed_count(&b, b.vm, INSNS);
	bed_vcpu(&b, 0, 10);
}

/* ---- a state that ends while somebody reads ---- */

static void disable(void)
{
	vpmu_consumer_disable(c, c->local ? b.p[0] : NULL);
	bed_vcpu(&b, 0, 1000);
}

static void delete_and_reuse(void)
{
	vpmu_consumer_del(c, b.p[0], NULL);
	bed_vcpu(&b, 0, 1000);
	cr_assert_eq(vpmu_consumer_add(c, b.vcpu[2], INSNS, b.p[0]), 0);
	bed_vcpu(&b, 2, 3);
}

static void ends_while_read(bool local)
{
	add(local);
	before_sum = disable;
	cr_expect_eq(bed_read(c).count, 10, "counts from after the consumer was disabled");
	cr_expect_null(before_sum, "the sum was read");
	cr_expect_eq(bed_read(c).count, 10);
}

Test(consumer, local_end_in_the_middle_of_a_read)
{
	ends_while_read(true);
}

Test(consumer, end_in_the_middle_of_a_read)
{
	ends_while_read(false);
}

Test(consumer, another_consumer_in_the_middle_of_a_read)
{
	add(true);
	after_sum = delete_and_reuse;
	cr_expect_eq(bed_read(c).count, 3, "the value of the consumer that is there now");
}

/* ---- a control stop while pCPUs go on ---- */

static struct vpmu_value seen;

static void read_and_go_on(void)
{
	seen = bed_read(c);
	bed_vcpu(&b, 0, 5);
}

static void go_on(void)
{
	bed_vcpu(&b, 0, 5);
}

/* The sums that disabling computes: the value that it had, then the cut. */
#define SUMS_BEFORE_CUT 1

Test(consumer, nobody_looks_at_a_stop)
{
	add(false);
	vpmu_consumer_disable(c, NULL);
	bed_vcpu(&b, 0, 1000);
	cr_expect_eq(bed_read(c).count, 10, "the stop leaves its value undecided");
}

Test(consumer, the_first_who_looks_decides)
{
	struct vpmu_value last;

	add(false);
	skip_sums = SUMS_BEFORE_CUT;
	before_sum = read_and_go_on;
	cr_expect_eq(bed_end(&b, c).count, 10, "less or more than what was read");
	cr_expect_eq(seen.count, 10);
	/* The stopper first: its sum is taken, then the account goes on. */
	add(false);
	skip_sums = SUMS_BEFORE_CUT;
	after_sum = go_on;
	vpmu_consumer_disable(c, NULL);
	cr_expect_eq(bed_read(c).count, 10);
	cr_expect_eq(bed_end(&b, c).count, 10);
	/* A reader behind the stopper's sum: both use the reader's. */
	add(false);
	skip_sums = SUMS_BEFORE_CUT;
	after_sum = read_and_go_on;
	last = bed_end(&b, c);
	cr_expect_eq(seen.count, last.count);
}

static sem_t reader_has_sum, reader_may_go_on, reader_done;
static struct vpmu_value slow;

static void wait_with_sum(void)
{
	sem_post(&reader_has_sum);
	sem_wait(&reader_may_go_on);
}

static void *slow_reader(void *arg)
{
	urcu_memb_register_thread();
	after_sum = wait_with_sum;
	vpmu_consumer_read(c, &slow);
	sem_post(&reader_done);
	urcu_memb_unregister_thread();
	return NULL;
}

static pthread_t reader;

static void let_reader_look(void)
{
	pthread_create(&reader, NULL, slow_reader, NULL);
	sem_wait(&reader_has_sum);
}

static void let_reader_go_on(void)
{
	sem_post(&reader_may_go_on);
	sem_wait(&reader_done);
}

/* A reader that found the first stop decides nothing about the second one. */
Test(consumer, a_reader_that_is_one_stop_late)
{
	sem_init(&reader_has_sum, 0, 0);
	sem_init(&reader_may_go_on, 0, 0);
	sem_init(&reader_done, 0, 0);
	add(false);
	skip_sums = SUMS_BEFORE_CUT;
	before_sum = let_reader_look;
	vpmu_consumer_disable(c, NULL);
	cr_expect_eq(bed_read(c).count, 10);
	cr_assert_eq(vpmu_consumer_enable(c, NULL), 0);
	bed_vcpu(&b, 0, 7);
	skip_sums = SUMS_BEFORE_CUT;
	before_sum = let_reader_go_on;
	vpmu_consumer_disable(c, NULL);
	cr_expect_eq(slow.count, 17);
	cr_expect_eq(bed_read(c).count, 17);
	pthread_join(reader, NULL);
}

/* ---- memory ---- */

static void toggle(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++) {
		vpmu_consumer_disable(c, b.p[0]);
		cr_assert_eq(vpmu_consumer_enable(c, b.p[0]), 0);
	}
}

Test(consumer, toggling_a_key_in_use_allocates_nothing)
{
	unsigned long before;

	bed_count(&b, b.tenant, INSNS);
	add(true);
	toggle(1);
	before = alloc_calls;
	toggle(1000);
	for (int i = 0; i < 1000; i++)
		bed_end(&b, bed_own(&b, 0, INSNS));
	cr_expect_eq(alloc_calls - before, 0);
	/* By control, on an account that has the key in use anyway. */
	bed_count(&b, b.tenant, INSNS);
	before = alloc_calls;
	for (int i = 0; i < 100; i++) {
		vpmu_consumer_disable(other, NULL);
		cr_assert_eq(vpmu_consumer_enable(other, NULL), 0);
	}
	cr_expect_eq(alloc_calls - before, 0);
}

static void *stays(void *arg)
{
	urcu_memb_register_thread();
	urcu_memb_read_lock();
	sem_post(&reader_has_sum);
	sem_wait(&reader_may_go_on);
	urcu_memb_read_unlock();
	urcu_memb_unregister_thread();
	return NULL;
}

Test(consumer, a_reader_that_stays_holds_no_memory)
{
	struct mallinfo2 before, after;
	unsigned long calls;

	sem_init(&reader_has_sum, 0, 0);
	sem_init(&reader_may_go_on, 0, 0);
	pthread_create(&reader, NULL, stays, NULL);
	sem_wait(&reader_has_sum);
	add(true);
	before = mallinfo2();
	calls = alloc_calls;
	toggle(1000000);
	after = mallinfo2();
	cr_expect_eq(alloc_calls - calls, 0);
	cr_expect_leq(after.uordblks + after.hblkhd, before.uordblks + before.hblkhd);
	sem_post(&reader_may_go_on);
	pthread_join(reader, NULL);
	cr_expect_eq(bed_read(c).count, 10);
}
