// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The same image on both engines: the same results; and on KVM a guest's ref-cycles are
 * the engine's own account of the time it spent in that guest, to the tick.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <urcu/urcu-memb.h>

#include "guest-tools/workloads.h"
#include "machine_bed.h"
#include "vmm/sched/perfpmu.h"
#include "vpmu/account.h"

/* ---- results -------------------------------------------------------------------------------- */

static const struct {
	const char *workload;
	unsigned long n;
} runs[] = {
	{"empty", 77},	   {"loop", 123456},   {"sieve", 20000}, {"fib", 18},
	{"memcpy", 50000}, {"repmovs", 70001}, {"chase", 12345}, {"syscalls", 50},
};

#define NR_RUNS (sizeof(runs) / sizeof(runs[0]))

/* The line "vcpu 0: loop 123456 = RESULT" of @vm. */
static const char *result_line(const struct bed *b, const char *vm)
{
	for (size_t i = 0; i < b->nr_lines; i++)
		if (!strcmp(b->lines[i].vm, vm) && strstr(b->lines[i].text, " = "))
			return b->lines[i].text;
	cr_assert_fail("%s printed no result", vm);
	return NULL;
}

/* The function's result on this machine. */
static uint64_t native_result(const char *name, uint64_t n)
{
	const struct workload *w = workload_find(name, strlen(name));
	size_t bytes = (workload_mem_bytes(w, n) + 63) & ~63ULL;
	void *mem = aligned_alloc(64, bytes ? bytes : 64);
	uint64_t ret = 0;

	if (w->needs_call) /* the guest's call returns its argument */
		for (uint64_t i = 1; i <= n; i++)
			ret += i;
	else
		ret = w->fn(n, mem, bytes, NULL);
	free(mem);
	return ret;
}

static void same_results(const char *const *engines, size_t nr_engines)
{
	static const char *const models[] = {"none", "intel-v2", "intel-v5", "amd-v2"};
	char vm[64], want[128];
	struct bed b;

	bed_open(&b, "");
	for (size_t e = 0; e < nr_engines; e++)
		for (size_t r = 0; r < NR_RUNS; r++)
			bed_add(&b, "name=%s-%zu,engine=%s,pmu=%s,args=run %s %lu", engines[e], r,
				engines[e], models[r % 4], runs[r].workload, runs[r].n);
	bed_run(&b, (unsigned int)(nr_engines * NR_RUNS));
	cr_assert_eq(b.failed, 0);
	for (size_t r = 0; r < NR_RUNS; r++) {
		snprintf(want, sizeof(want), "vcpu 0: %s %lu = %lu", runs[r].workload, runs[r].n,
			 (unsigned long)native_result(runs[r].workload, runs[r].n));
		for (size_t e = 0; e < nr_engines; e++) {
			snprintf(vm, sizeof(vm), "%s-%zu", engines[e], r);
			cr_assert_str_eq(result_line(&b, vm), want);
		}
	}
	bed_close(&b);
}

Test(engines, same_results)
{
	static const char *const engines[] = {"emulator", "kvm"};

	same_results(engines, bed_kvm() ? 2 : 1);
}

/* "auto" is KVM where it can be had, else the emulator; either way the guest runs. */
Test(engines, automatic)
{
	static const char *const engines[] = {"auto"};

	same_results(engines, 1);
}

/* The value of row @i of session "a", of the backend @backend. */
static const json_t *value_on(const json_t *answer, size_t i, const char *backend)
{
	const json_t *row = json_array_get(json_object_get(answer, "rows"), i);

	cr_assert_str_eq(json_string_value(json_object_get(row, "backend")), backend);
	return json_array_get(json_object_get(row, "values"), 0);
}

static uint64_t count_on(const json_t *answer, size_t i, const char *backend)
{
	const json_t *v = value_on(answer, i, backend);

	cr_assert(json_is_true(json_object_get(v, "supported")));
	return strtoull(json_string_value(json_object_get(v, "count")), NULL, 10);
}

static size_t backends(struct bed *b)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'sharing'}");
	size_t n = json_array_size(json_object_get(answer, "backends"));

	json_decref(answer);
	return n;
}

/* Both engines in one process, operator sessions over both: each VM counts on its backend, and a
 * tenant with VMs on both has a row on each. */
Test(engines, side_by_side)
{
	json_t *vms, *tenants;
	uint64_t emulator, kvm;
	struct bed b;

	if (!bed_kvm())
		return;
	bed_open(&b, "");
	bed_do(&b, "{'cmd':'check'}");
	cr_assert_eq(backends(&b), 0, "a backend comes with its first VM, not with a question");
	bed_add(&b, "name=k,tenant=/acme,engine=kvm,vcpus=2,args=run loop 1000000");
	cr_assert_eq(backends(&b), 1);
	bed_do(&b, "{'cmd':'attach','name':'v','keep':true,'scope':'vm','events':'ref-cycles'}");
	bed_do(&b,
	       "{'cmd':'attach','name':'t','keep':true,'target':'/acme','events':'ref-cycles'}");
	bed_add(&b, "name=s,tenant=/acme,engine=emulator,vcpus=2,args=run loop 1000000");
	cr_assert_eq(backends(&b), 2);
	bed_run(&b, 2);
	cr_assert_eq(b.failed, 0);
	vms = bed_ask(&b, true, "{'cmd':'read','session':'v'}");
	kvm = count_on(vms, 0, "kvm");
	emulator = count_on(vms, 1, "emulator");
	cr_assert_gt(kvm, 0);
	cr_assert_gt(emulator, 0);
	/* A count's quality depends on its backend. */
	cr_assert_str_eq(json_string_value(json_object_get(value_on(vms, 0, "kvm"), "quality")),
			 "tsc");
	cr_assert_str_eq(
		json_string_value(json_object_get(value_on(vms, 1, "emulator"), "quality")),
		"modelled");
	tenants = bed_ask(&b, true, "{'cmd':'read','session':'t'}");
	cr_assert_eq(json_array_size(json_object_get(tenants, "rows")), 2);
	cr_assert_eq(count_on(tenants, 0, "kvm"), kvm);
	cr_assert_eq(count_on(tenants, 1, "emulator"), emulator);
	json_decref(vms);
	json_decref(tenants);
	bed_close(&b);
}

/* ---- ref-cycles on KVM ---------------------------------------------------------------------- */

#define VCPUS	      2
#define GLOBAL_CTRL   0x38f
#define ENABLE_FIXED2 (1ULL << 34)

/* The engine's values, by vCPU, at the exits that matter. */
static struct spy {
	struct vmm_engine_vcpu *ev;
	uint64_t enabled, disabled, last;
	unsigned int enables;
} spies[VCPUS];

static int spy_create(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **v)
{
	int ret = vmm_kvm_ops.vcpu_create(vm, id, v);

	spies[id] = (struct spy){.ev = *v};
	return ret;
}

static int spy_run(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	struct spy *s = v == spies[0].ev ? &spies[0] : &spies[1];
	int ret = vmm_kvm_ops.run(v, run);

	vmm_kvm_ops.guest_tsc(v, &s->last);
	if (!ret && run->exit == VMM_EXIT_WRMSR && run->u.msr.index == GLOBAL_CTRL) {
		if (run->u.msr.data == ENABLE_FIXED2) {
			s->enabled = s->last;
			s->enables++;
		} else if (s->enables) {
			s->disabled = s->last;
		}
	}
	return ret;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t guest_read[VCPUS];
static unsigned int reads;
static _Atomic bool over;

static void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
	const char *value;
	char text[256];

	snprintf(text, sizeof(text), "%.*s", (int)len, line);
	value = strstr(text, "rd 0x30b = ");
	if (!value)
		return;
	pthread_mutex_lock(&lock);
	guest_read[vcpu] = strtoull(value + strlen("rd 0x30b = "), NULL, 0);
	reads++;
	pthread_mutex_unlock(&lock);
}

static void on_ended(struct vm *vm, void *arg)
{
	over = true;
}

Test(engines, kvm_ref_cycles_are_the_engines_account)
{
	struct vmm_engine_ops spy = vmm_kvm_ops;
	struct vpmu_account *account, *vcpus[VCPUS];
	struct vpmu_consumer per_vcpu[VCPUS] = {0}, whole = {0};
	struct threads_pmu pmu = perfpmu_ops;
	struct vpmu_value value;
	struct perfpmu_opts conf = {.leave_counters = VPMU_PERF_LEAVE};
	struct image img;
	struct vm_opts o = {
		.name = "ref",
		.vcpus = VCPUS,
		.memory_bytes = 16 << 20,
		.image = &img,
		.args = "msr wr 0x38d 0x300 count 0x38f 0x400000000 loop 300000 rd 0x30b",
		.pmu.model = VPMU_GUEST_INTEL_V5,
		.ops = &spy,
		.vcpu_accounts = vcpus,
		.console = on_console,
		.ended = on_ended,
	};
	const vpmu_key_t key = vpmu_key_generic(VPMU_EV_REF_CYCLES, VPMU_KEY_USR | VPMU_KEY_OS);
	struct timespec ms = {.tv_nsec = 1000000};
	struct vpmu_host *host;
	struct threads *threads;
	struct vm *vm;
	char err[512];

	if (!bed_kvm())
		return;
	urcu_memb_register_thread();
	spy.vcpu_create = spy_create;
	spy.run = spy_run;
	pmu.arg = &conf;
	host = vpmu_host_create();
	cr_assert_eq(threads_create(host, &pmu, 0, &threads), 0);
	cr_assert_eq(vmm_kvm_ops.open(&o.engine, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(image_read(VPMU_GUEST, &img, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(vpmu_account_create(vpmu_host_root(host), NULL, &account), 0);
	for (int i = 0; i < VCPUS; i++)
		cr_assert_eq(vpmu_account_create(account, NULL, &vcpus[i]), 0);
	o.account = account;
	o.sched = threads_sched(threads);
	cr_assert_eq(vm_create(&o, &vm, err, sizeof(err)), 0, "%s", err);
	for (int i = 0; i < VCPUS; i++)
		cr_assert_eq(vpmu_consumer_add(&per_vcpu[i], vcpus[i], key, NULL), 0);
	cr_assert_eq(vpmu_consumer_add(&whole, account, key, NULL), 0);
	cr_assert_eq(vm_start(vm, err, sizeof(err)), 0, "%s", err);
	while (!over)
		nanosleep(&ms, NULL);
	cr_assert_eq(vm_state(vm), VM_DONE, "%s", vm->reason);
	cr_assert_eq(vm_status(vm), 0);
	cr_assert_eq(reads, VCPUS);

	for (int i = 0; i < VCPUS; i++) {
		cr_assert_eq(spies[i].enables, 1);
		cr_assert_gt(guest_read[i], 0);
		/* The guest's reading is the engine's ticks between the two writes. */
		cr_assert_eq(guest_read[i], spies[i].disabled - spies[i].enabled,
			     "vCPU %d: guest %lu, engine %lu", i, guest_read[i],
			     (spies[i].disabled - spies[i].enabled));
		/* The operator's count is all of the engine's ticks. */
		vpmu_consumer_del(&per_vcpu[i], NULL, &value);
		cr_assert_eq(value.count, spies[i].last, "vCPU %d", i);
		cr_assert_eq(value.quality, VPMU_Q_TSC);
	}
	vpmu_consumer_del(&whole, NULL, &value);
	cr_assert_eq(value.count, spies[0].last + spies[1].last);

	vm_destroy(vm);
	for (int i = 0; i < VCPUS; i++)
		cr_assert_eq(vpmu_account_del(vcpus[i]), 0);
	cr_assert_eq(vpmu_account_del(account), 0);
	threads_destroy(threads);
	vmm_kvm_ops.close(o.engine);
	vpmu_host_destroy(host);
	image_free(&img);
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
}
