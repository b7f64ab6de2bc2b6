// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Readers, controllers and runners at the same time; exact sums at the end.
 *
 *   test_churn [--seconds N] [--seed N] [--multiplex]
 *
 * Runners own a pCPU each: they switch between the vCPUs they have, execute, program the vCPUs'
 * own consumers, poll, tick, go offline and online, and hand vCPUs to each other. Controllers make
 * and remove VMs and operators' consumers, samplers and captures of every level, some of keys no
 * PMU counts so that slots keep getting other keys, and check conservation (I1) all the time.
 * Readers read every consumer there is: values must never go back, for any reader (I2, I4). Alarms
 * of vCPUs fire where they should, at any charge. At the end consumers that lived all the time
 * hold exactly the executed work, and samplers have taken floor(N / period) samples of each pCPU.
 *
 * All keys fit the counters, so that every value must be exact; with --multiplex they do not, and
 * values must not exceed the executed work. Meant for TSan and ASan too (--seconds 30).
 */
#include <errno.h>
#include <pthread.h>

#include "tests/model/churn_lasting.h"
#include "tests/model/churn_runner.h"
#include "tests/model/churn_world.h"
#include "vpmu/conservation.h"
#include "vpmu/lbr.h"

#define OPERATORS 24

static unsigned long nr_reads, nr_ops, nr_rows, nr_vms;

/* ---- readers ---- */

static uint64_t raise(uint64_t *most, uint64_t v)
{
	uint64_t old = __atomic_load_n(most, __ATOMIC_SEQ_CST);

	while (old < v && !__atomic_compare_exchange_n(most, &old, v, false, __ATOMIC_SEQ_CST,
						       __ATOMIC_SEQ_CST))
		;
	return old;
}

/* Whoever read before us saw no more than we see now. */
static void read_one(int i)
{
	struct vpmu_value v;
	struct pub *pub;
	uint64_t count, enabled;

	urcu_memb_read_lock();
	pub = load(&published[i]);
	if (pub) {
		count = __atomic_load_n(&pub->seen.count, __ATOMIC_SEQ_CST);
		enabled = __atomic_load_n(&pub->seen.enabled_ns, __ATOMIC_SEQ_CST);
		vpmu_consumer_read(&pub->c, &v);
		/* Unpublished before it is removed: then 0 is right. */
		if (load(&published[i]) == pub) {
			if (v.count < count || v.enabled_ns < enabled)
				fail("I2: consumer went back: %lu/%lu after %lu/%lu", v.count,
				     v.enabled_ns, count, enabled);
			if (v.running_ns > v.enabled_ns)
				fail("I2: running %lu > enabled %lu", v.running_ns, v.enabled_ns);
			raise(&pub->seen.count, v.count);
			raise(&pub->seen.enabled_ns, v.enabled_ns);
		}
	}
	urcu_memb_read_unlock();
}

static void *reader(void *arg)
{
	unsigned long n = 0;

	urcu_memb_register_thread();
	while (!load(&stop_readers)) {
		for (int i = 0; i < PUBLISHED; i++)
			read_one(i);
		n += PUBLISHED;
		sched_yield();
	}
	__atomic_add_fetch(&nr_reads, n, __ATOMIC_RELAXED);
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- samplers and captures ---- */

#define ROVING 8
static struct churn_sampler roving[ROVING];
static int roving_vm[ROVING];	  /* must go before this VM; -1: of something that stays */
static unsigned long nr_captures; /* atomic */

static void sampler_toggle(uint64_t *rng, int i)
{
	struct vpmu_account *a = vpmu_host_root(host);
	unsigned int what = rnd(rng, 4);
	int ret;

	if (roving[i].s) {
		churn_sample_end(&roving[i]);
		return;
	}
	roving_vm[i] = -1;
	if (what == 1)
		a = tenant[rnd(rng, TENANTS)];
	else if (what > 1)
		roving_vm[i] = (int)rnd(rng, VMS);
	if (roving_vm[i] >= 0) {
		struct vm *vm = vms[roving_vm[i]];

		if (!vm)
			return;
		a = what == 2 ? vm->account : vm->vcpu[rnd(rng, VCPUS)].own;
	}
	ret = churn_sample(&roving[i], host, a, m_keys[plain_keys[rnd(rng, PLAIN)]].key,
			   1 + rnd(rng, 500), rnd(rng, 2));
	if (ret && ret != -ENOSPC)
		fail("sampler: %d", ret);
}

/* All with the same filter: conflicts are test_lbr_churn's. */
static void capture_toggle(uint64_t *rng)
{
	struct vpmu_account *a = rnd(rng, 3) ? tenant[rnd(rng, TENANTS)] : vpmu_host_root(host);

	if (rnd(rng, 2)) {
		vpmu_lbr_detach(a);
		return;
	}
	if (vpmu_lbr_attach(a, VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES))
		fail("lbr_attach");
	__atomic_add_fetch(&nr_captures, 1, __ATOMIC_RELAXED);
}

/* ---- controllers ---- */

static void vm_create(int i, uint64_t *rng)
{
	struct vm *vm = vm_new(rnd(rng, TENANTS));

	for (int k = 0; k < VCPUS; k++)
		give(&runner[rnd(rng, RUNNERS)], &vm->vcpu[k]);
	vms[i] = vm;
	nr_vms++;
}

/* Wait until no runner has its vCPUs, then remove: counts go to the tenant. */
static void vm_destroy(int i)
{
	struct vm *vm = vms[i];

	store(&vm->dying, true);
	/* Some are there until no thread runs any more, some go while it dies. */
	for (int k = 0; k < ROVING; k++) {
		if (roving[k].s && roving_vm[k] == i && k % 2)
			churn_sample_end(&roving[k]);
	}
	if (!let_go_of(vm))
		return;
	for (int k = 0; k < ROVING; k++) {
		if (roving[k].s && roving_vm[k] == i)
			churn_sample_end(&roving[k]);
	}
	for (int k = 0; k < VCPUS; k++)
		for (int e = 0; e < PLAIN; e++)
			tenant_gone[vm->tenant][e] += vm->vcpu[k].executed[e];
	vms[i] = NULL;
	vm_free(vm);
}

struct operator_consumer {
	struct pub *pub;
	int vm; /* must go before this VM; -1: of something that stays */
};
static struct operator_consumer ops[OPERATORS];

/* Mostly what counts; else one of many that only take a slot. */
static vpmu_key_t operator_key(uint64_t *rng)
{
	if (rnd(rng, 3) == 0)
		return vpmu_key_make(VPMU_SPACE_INTEL, 0xb7, VPMU_KEY_USR | VPMU_KEY_GUEST) |
		       (vpmu_key_t)rnd(rng, 128) << VPMU_KEY_UMASK_SHIFT;
	if (multiplex)
		return m_keys[rnd(rng, (unsigned int)m_nr_keys)].key;
	return m_keys[plain_keys[rnd(rng, PLAIN)]].key;
}

static void op_add(uint64_t *rng, size_t n)
{
	struct vpmu_consumer *c[4];
	struct vpmu_account *acc[4];
	vpmu_key_t key[4];
	int at[4], ret;
	size_t got = 0;

	for (int i = 0; i < OPERATORS && got < n; i++) {
		struct vpmu_account *a;
		int vm = -1;

		if (ops[i].pub)
			continue;
		switch (rnd(rng, 5)) {
		case 0:
			a = vpmu_host_root(host);
			break;
		case 1:
			a = vpmu_host_other(host);
			break;
		case 2:
			a = tenant[rnd(rng, TENANTS)];
			break;
		default:
			vm = (int)rnd(rng, VMS);
			if (!vms[vm])
				continue;
			a = rnd(rng, 2) ? vms[vm]->account : vms[vm]->vcpu[rnd(rng, VCPUS)].own;
		}
		ops[i] = (struct operator_consumer){.pub = calloc(1, sizeof(struct pub)), .vm = vm};
		c[got] = &ops[i].pub->c;
		acc[got] = a;
		key[got] = operator_key(rng);
		at[got++] = i;
	}
	if (!got)
		return;
	ret = vpmu_consumer_add_many(c, acc, key, got, NULL);
	if (ret && ret != -EOPNOTSUPP)
		fail("add_many: %d", ret);
	for (size_t i = 0; i < got; i++)
		publish(ops[at[i]].pub, rng);
}

static void op_del(int i)
{
	struct pub *pub = ops[i].pub;
	struct vpmu_value last;

	unpublish(pub);
	vpmu_consumer_del(&pub->c, NULL, &last);
	if (last.count < __atomic_load_n(&pub->seen.count, __ATOMIC_SEQ_CST) ||
	    last.enabled_ns < __atomic_load_n(&pub->seen.enabled_ns, __ATOMIC_SEQ_CST))
		fail("I2: last value %lu, but %lu was read", last.count, pub->seen.count);
	vpmu_rcu_free(pub);
	ops[i].pub = NULL;
}

static void *controller(void *arg)
{
	uint64_t rng = base_seed + 100;

	urcu_memb_register_thread();
	while (!load(&stop_controllers) && !load(&failed)) {
		unsigned int what = rnd(&rng, 100);
		int i = (int)rnd(&rng, OPERATORS), v = (int)rnd(&rng, VMS);

		if (what < 30) {
			op_add(&rng, 1 + rnd(&rng, 4));
		} else if (what < 55) {
			if (ops[i].pub)
				op_del(i);
		} else if (what < 75) {
			if (ops[i].pub)
				vpmu_consumer_disable(&ops[i].pub->c, NULL);
		} else if (what < 92) {
			int ret = ops[i].pub ? vpmu_consumer_enable(&ops[i].pub->c, NULL) : 0;

			if (ret && ret != -EOPNOTSUPP && ret != -ENOSPC)
				fail("control enable: %d", ret);
		} else if (!vms[v]) {
			vm_create(v, &rng);
		} else {
			for (int k = 0; k < OPERATORS; k++) {
				if (ops[k].pub && ops[k].vm == v)
					op_del(k);
			}
			vm_destroy(v);
		}
		if (!rnd(&rng, 3))
			sampler_toggle(&rng, (int)rnd(&rng, ROVING));
		if (!rnd(&rng, 6))
			capture_toggle(&rng);
		__atomic_add_fetch(&nr_ops, 1, __ATOMIC_RELAXED);
	}
	for (int k = 0; k < OPERATORS; k++) {
		if (ops[k].pub)
			op_del(k);
	}
	for (int k = 0; k < ROVING; k++) {
		if (roving[k].s)
			churn_sample_end(&roving[k]);
	}
	urcu_memb_unregister_thread();
	return NULL;
}

static int row(const struct vpmu_conservation *c, void *arg)
{
	char name[VPMU_EVENT_NAME_MAX];

	if (c->hardware != c->charged)
		fail("I1: pCPU %u, %s: hardware %lu, charged %lu", c->pcpu,
		     vpmu_event_name(c->key, name), c->hardware, c->charged);
	nr_rows++;
	return 0;
}

static void *auditor(void *arg)
{
	struct vpmu_sharing s;

	urcu_memb_register_thread();
	while (!load(&stop_controllers) && !load(&failed)) {
		struct timespec t = {.tv_nsec = 300000};

		if (vpmu_host_conservation(host, row, NULL))
			fail("conservation");
		vpmu_host_sync(host);
		vpmu_host_sharing(host, &s);
		nanosleep(&t, NULL);
	}
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- the whole ---- */

static void setup(void)
{
	struct vpmu_emupmu_opts opts = {.gp = 2, .fixed = 1, .no_default = true};

	runners_init(multiplex ? &opts : NULL);
	for (int i = 0; i < TENANTS; i++) {
		if (vpmu_account_create(i == NESTED ? tenant[i - 1] : vpmu_host_root(host), NULL,
					&tenant[i]))
			fail("account_create");
	}
}

static void teardown(void)
{
	for (unsigned long i = 0; i < nr_captures; i++) {
		for (int t = 0; t < TENANTS; t++)
			vpmu_lbr_detach(tenant[t]);
		vpmu_lbr_detach(vpmu_host_root(host));
	}
	for (int i = 0; i < VMS; i++) {
		struct vm *vm = vms[i];

		for (int k = 0; vm && k < VCPUS; k++) {
			struct vcpu *v = &vm->vcpu[k];

			if (vpmu_context_place(&v->ctx, runner[0].p))
				fail("place");
			for (int l = 0; l < LOCALS; l++) {
				if (v->local[l])
					local_del(&runner[0], v, l);
			}
		}
		if (vm)
			vm_free(vm);
	}
	vpmu_host_destroy(host);
}

/* The tested cases have occurred. */
static bool all_happened(void)
{
	return load(&churn_samples) && load(&churn_records) && load(&nr_captures) &&
	       load(&runner[0].own.fires);
}

int main(int argc, char **argv)
{
	time_t seconds = churn_options(argc, argv, "multiplex", &multiplex);

	if (seconds < 0)
		return 2;
	m_keys_init();
	urcu_memb_register_thread();
	setup();
	add_lasting();
	add_samplers();
	churn_start(reader, controller, auditor);
	churn_for(seconds, all_happened);
	/* Controllers wait for runners: they end first. */
	churn_stop(&stop_controllers, threads.controllers, 2);
	churn_stop(&stop_runners, threads.runners, RUNNERS);
	check_samplers();
	check_lasting();
	churn_stop(&stop_readers, threads.readers, READERS);
	if (!load(&failed))
		teardown();
	printf("# seed %lu: %lu + %lu slices, %lu migrations, %lu control operations, %lu VMs, %lu "
	       "reads, %lu conservation rows\n",
	       base_seed, runner[0].slices, runner[1].slices, runner[0].moved + runner[1].moved,
	       nr_ops, nr_vms, nr_reads, nr_rows);
	printf("# %lu samples of %lu branch records, %lu captures, %lu alarms fired\n",
	       churn_samples, churn_records, nr_captures,
	       runner[0].own.fires + runner[1].own.fires);
	printf("%sok 1 - I1, I2, I4 under churn%s\n1..1\n", failed ? "not " : "",
	       multiplex ? ", more keys than counters" : "");
	urcu_memb_unregister_thread();
	return failed;
}
