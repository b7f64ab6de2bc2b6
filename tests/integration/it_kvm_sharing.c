// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two VMs on KVM with guests that count one event by three registers each, and operators that count
 * it at four places: each vCPU's thread has one host event for all of them. The kernel behind
 * vpmu_perf_sys is a fake in one respect: a hardware event counts a thousand for each time that its
 * thread enters its guest, so that there are counts on hosts without a PMU, which stand still while
 * the host reads them. The fake notes the owner of each event.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <linux/kvm.h>
#include <linux/perf_event.h>

#include "machine_bed.h"
#include "vpmu/host/perf_priv.h"

#define VMS	2
#define VCPUS	2
#define THREADS ((size_t)VMS * VCPUS)
#define OPENS	64

/* The hardware events of named threads that were opened. */
static struct {
	int tid, fd; /* fd < 0: closed again */
	uint64_t config, entries_before;
} opened[OPENS];
static size_t nr_opened;
/* Threads that run vCPUs. */
static struct {
	int tid;
	uint64_t entries; /* to its guest */
} entered[OPENS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct vpmu_perf_sys *kernel;

/* Of thread @tid, which a new place is made for. With the lock. */
static uint64_t *entries_of(int tid)
{
	size_t i = 0;

	while (i < OPENS && entered[i].tid && entered[i].tid != tid)
		i++;
	bed_must(i < OPENS, "more than %d threads", OPENS);
	entered[i].tid = tid;
	return &entered[i].entries;
}

int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	if (request == KVM_RUN) {
		pthread_mutex_lock(&lock);
		++*entries_of(gettid());
		pthread_mutex_unlock(&lock);
	}
	return __real_ioctl(fd, request, arg);
}

static int fake_open(const struct perf_event_attr *attr, int tid, int cpu, int group)
{
	struct perf_event_attr clock = *attr;
	int fd;

	if (attr->type == PERF_TYPE_SOFTWARE)
		return kernel->open(attr, tid, cpu, group);
	clock.type = PERF_TYPE_SOFTWARE;
	clock.config = PERF_COUNT_SW_TASK_CLOCK;
	clock.exclude_kernel = 1; /* it needs no rights then */
	fd = kernel->open(&clock, tid, cpu, group);
	if (fd < 0 || !tid)
		return fd; /* libvpmu probes the host by events of the calling thread */
	pthread_mutex_lock(&lock);
	bed_must(nr_opened < OPENS, "more than %d events", OPENS);
	opened[nr_opened].tid = tid;
	opened[nr_opened].fd = fd;
	opened[nr_opened].entries_before = *entries_of(tid);
	opened[nr_opened++].config = attr->config;
	pthread_mutex_unlock(&lock);
	return fd;
}

static int fake_read(int fd, struct vpmu_perf_reading *r)
{
	int rc = kernel->read(fd, r);

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < nr_opened; i++)
		if (opened[i].fd == fd)
			r->value = 1000 * (*entries_of(opened[i].tid) - opened[i].entries_before);
	pthread_mutex_unlock(&lock);
	return rc;
}

static struct perf_event_mmap_page *fake_map(int fd, bool ring)
{
	return NULL; /* as without the right to lock memory */
}

static void fake_close(int fd)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < nr_opened; i++)
		if (opened[i].fd == fd)
			opened[i].fd = -1;
	pthread_mutex_unlock(&lock);
	kernel->close(fd);
}

static bool may_count(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_TASK_CLOCK,
				       .exclude_kernel = 1};
	int fd = kernel->open(&attr, 0, -1, -1);

	if (fd < 0)
		fprintf(stderr, "# SKIP perf events of this process: %s\n", strerror(-fd));
	else
		kernel->close(fd);
	return fd >= 0;
}

/* The sum of the first values of all rows of @session. */
static uint64_t count_of(struct bed *b, const char *session, size_t rows)
{
	json_t *answer = bed_ask(b, true, "{'cmd':'read','session':'%s'}", session), *row;
	uint64_t sum = 0;
	size_t i;

	cr_assert_eq(json_array_size(json_object_get(answer, "rows")), rows, "%s", session);
	json_array_foreach (json_object_get(answer, "rows"), i, row) {
		json_t *v = json_array_get(json_object_get(row, "values"), 0);

		cr_assert(json_is_true(json_object_get(v, "supported")), "%s", session);
		sum += strtoull(json_string_value(json_object_get(v, "count")), NULL, 10);
	}
	json_decref(answer);
	return sum;
}

/* The value of register @what of @vm's vCPU @vcpu. */
static uint64_t guest_read(struct bed *b, const char *vm, unsigned int vcpu, const char *what)
{
	for (size_t i = 0; i < b->nr_lines; i++) {
		const struct bed_line *l = &b->lines[i];
		const char *value = strstr(l->text, what);

		if (!strcmp(l->vm, vm) && l->vcpu == vcpu && value)
			return strtoull(value + strlen(what), NULL, 0);
	}
	cr_assert_fail("%s did not print %s", vm, what);
	return 0;
}

static void attach(struct bed *b, const char *name, const char *where)
{
	bed_do(b, "{'cmd':'attach','name':'%s','keep':true,%s,'events':'instructions'}", name,
	       where);
}

/* IA32_PERFEVTSEL0, 1: C0H in both modes, and fixed counter 0 the same (SDM vol. 3, 20.2). */
#define GUEST                                                                                      \
	"msr wr 0x38f 0 wr 0x186 0x4300c0 wr 0x187 0x4300c0 wr 0x38d 0x3 count 0x38f 0x100000003 " \
	"loop "                                                                                    \
	"3000000 rd 0xc1 rd 0xc2 rd 0x309"

Test(kvm_sharing, one_host_event_for_guests_and_operators)
{
	static const char *const vms[VMS] = {"one", "two"};
	struct vpmu_perf_sys sys = *vpmu_perf_sys;
	uint64_t guests = 0, all;
	struct bed b;

	kernel = vpmu_perf_sys;
	if (!bed_kvm() || !may_count())
		return;
	sys.open = fake_open;
	sys.read = fake_read;
	sys.map = fake_map;
	sys.close = fake_close;
	vpmu_perf_sys = &sys;
	bed_open(&b, "");
	for (size_t i = 0; i < VMS; i++)
		bed_add(&b, "name=%s,tenant=/acme/%s,engine=kvm,pmu=intel-v5,vcpus=%d,args=" GUEST,
			vms[i], vms[i], VCPUS);
	attach(&b, "vms", "\"scope\":\"vm\"");
	attach(&b, "acme", "\"target\":\"/acme\"");
	attach(&b, "acme2", "\"target\":\"/acme\"");
	attach(&b, "root", "\"target\":\"/\"");
	bed_run(&b, VMS);
	cr_assert_eq(b.failed, 0);

	/* The registers of a guest were started and stopped by one write each. Two host events
	 * would not have counted the same nanoseconds. */
	for (size_t i = 0; i < VMS; i++) {
		for (unsigned int v = 0; v < VCPUS; v++) {
			uint64_t fixed = guest_read(&b, vms[i], v, "rd 0x309 = ");

			cr_expect_gt(fixed, 0u);
			cr_expect_eq(guest_read(&b, vms[i], v, "rd 0xc1 = "), fixed);
			cr_expect_eq(guest_read(&b, vms[i], v, "rd 0xc2 = "), fixed);
			guests += fixed;
		}
	}
	all = count_of(&b, "acme", 1);
	cr_expect_eq(count_of(&b, "vms", VMS), all);
	cr_expect_eq(count_of(&b, "acme2", 1), all);
	cr_expect_eq(count_of(&b, "root", 1), all);
	cr_expect_geq(all, guests);

	/* As many host events as threads, each of another thread. */
	cr_expect_eq(nr_opened, THREADS, "%zu host events of %zu threads", nr_opened, THREADS);
	for (size_t i = 0; i < nr_opened; i++) {
		cr_expect_eq(opened[i].config & 0xffffffff, PERF_COUNT_HW_INSTRUCTIONS);
		for (size_t k = 0; k < i; k++)
			cr_expect_neq(opened[k].tid, opened[i].tid);
	}
	fprintf(stderr, "# %zu host events for 12 guests' registers and 4 sessions\n", nr_opened);
	bed_close(&b);
	for (size_t i = 0; i < nr_opened; i++)
		cr_expect_lt(opened[i].fd, 0, "event %zu is still open", i);
	vpmu_perf_sys = kernel;
}
