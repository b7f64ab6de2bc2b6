// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Comparisons with perf events of our own, opened beside the backend's: of a task, and of whole
 * CPUs. Also: user and kernel mode, guest and host. run.c calls them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/kvm.h>
#include <linux/perf_event.h>

#include "selftest/priv.h"

#define SIDES_PART                                                                                 \
	20 /* parts of both sides together which the sum may be off by: see sides_add() */

/* An event of task @pid, or with -1 of all tasks on @cpu. */
static int perf_open(struct selftest *t, vpmu_key_t key, pid_t pid, int cpu)
{
	struct perf_event_attr attr;
	int ret = vpmu_key_to_attr(key, &attr);

	if (ret)
		return ret;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return t->sys->event_open(&attr, pid, cpu);
}

/* Add the count of @fd to *@sum; -EBUSY: it was not counted all the time. */
static int perf_add(struct selftest *t, int fd, uint64_t *sum)
{
	uint64_t count, enabled, running;
	int ret = t->sys->event_read(fd, &count, &enabled, &running);

	if (ret)
		return ret;
	*sum += count;
	return enabled == running ? 0 : -EBUSY;
}

/* ---- a task ---- */

/* The worker is alone in its cgroup: its own event must have the cgroup's count. */
static int perf_task(struct selftest *t, const struct known *k)
{
	const uint64_t n = work_n(t, k->work);
	struct worker w = {.to = -1, .from = -1};
	uint64_t count = 0, most;
	char subject[VPMU_EVENT_NAME_MAX + 16];
	int fd = -1, ret = worker_start(t, NODE_A, &w);

	if (!ret)
		ret = measure_begin(t, &k->key, 1);
	if (!ret)
		ret = fd = perf_open(t, k->key, w.pid, -1);
	if (ret >= 0)
		ret = worker_do(t, &w, k->work, n);
	if (!ret)
		ret = perf_add(t, fd, &count);
	if (!ret) {
		measure_end(t);
		ret = measure_partial(t);
	}
	if (!ret) {
		snprintf(subject, sizeof(subject), "%s of a task", k->event);
		/* Both events count the same instructions; one is scheduled before the other. */
		most = k->hardware && !t->o->exact ? t->interrupts : 0;
		selftest_expect(t, subject, count > most ? count - most : 0, count + most,
				t->value[NODE_A][0].count,
				"perf's own event, and the cgroup's count");
		selftest_expect(t, subject, n * k->unit, known_most(t, k, n * k->unit), count,
				"perf's own event: not ours, but the kernel's or the CPU's");
	}
	if (fd >= 0)
		close(fd);
	worker_end(&w);
	return ret;
}

/* ---- CPUs ---- */

struct perf_cpus {
	int fd[SELFTEST_CPUS];
	unsigned int nr;
};

/* On all CPUs that are online, also those that this process may not run on: the host's count is of
 * all. */
static int perf_cpus_open(struct selftest *t, vpmu_key_t key, struct perf_cpus *p)
{
	p->nr = 0;
	for (unsigned int cpu = 0; cpu < t->s->nr_cpus && p->nr < SELFTEST_CPUS; cpu++) {
		int fd = perf_open(t, key, -1, (int)cpu);

		if (fd == -ENODEV)
			continue; /* offline */
		if (fd < 0)
			return fd;
		p->fd[p->nr++] = fd;
	}
	return 0;
}

static int perf_cpus_read(struct selftest *t, const struct perf_cpus *p, uint64_t *sum)
{
	int ret = 0;

	*sum = 0;
	for (unsigned int i = 0; i < p->nr && !ret; i++)
		ret = perf_add(t, p->fd[i], sum);
	return ret;
}

/*
 * The backend's count of the whole host lies between what our events count within its interval and
 * what they count around it.
 */
static int perf_host(struct selftest *t, const char *event)
{
	static struct perf_cpus p;
	uint64_t outer[2], inner[2];
	char subject[VPMU_EVENT_NAME_MAX + 16], why[200];
	struct worker w = {.to = -1, .from = -1};
	enum vpmu_quality q;
	vpmu_key_t key;
	int ret;

	if (vpmu_event_parse(event, vpmu_event_host_space(), &key, why, sizeof(why)) ||
	    !vpmu_backend_can_count(t->s, key, &q, why, sizeof(why)))
		return 0; /* facts() has named it */
	ret = perf_cpus_open(t, key, &p);
	if (!ret)
		ret = worker_start(t, NODE_A, &w);
	if (!ret)
		ret = perf_cpus_read(t, &p, &outer[0]);
	if (!ret)
		ret = measure_begin(t, &key, 1);
	if (!ret)
		ret = perf_cpus_read(t, &p, &inner[0]);
	for (int i = 0; i < 20 && !ret; i++) {
		ret = worker_do(t, &w, WORK_LOOP, 200000);
		if (!ret)
			ret = worker_do(t, &w, WORK_FAULTS, 500);
	}
	if (!ret)
		ret = perf_cpus_read(t, &p, &inner[1]);
	if (!ret) {
		measure_end(t);
		ret = perf_cpus_read(t, &p, &outer[1]);
	}
	if (!ret && t->value[NODE_ROOT][0].partial)
		ret = -EAGAIN;
	if (!ret) {
		snprintf(subject, sizeof(subject), "%s of the host", event);
		selftest_expect(t, subject, inner[1] - inner[0], outer[1] - outer[0],
				t->value[NODE_ROOT][0].count, "perf's own events around ours");
	}
	while (p.nr)
		close(p.fd[--p.nr]);
	worker_end(&w);
	return ret;
}

void check_perf(struct selftest *t)
{
	static const char *const of_host[] = {"page-faults", "context-switches", "instructions:H",
					      "cycles:H"};
	int ret = 0;

	for (const struct known *k = t->known; k < t->known + SELFTEST_KNOWN && !ret; k++) {
		ret = k->usable ? perf_task(t, k) : 0;
		for (int i = 0; i < 5 && ret == -EAGAIN; i++)
			ret = perf_task(t, k);
	}
	for (size_t i = 0; i < sizeof(of_host) / sizeof(of_host[0]) && !ret; i++) {
		ret = perf_host(t, of_host[i]);
		for (int again = 0; again < 5 && ret == -EAGAIN; again++)
			ret = perf_host(t, of_host[i]);
	}
	measure_end(t);
	if (ret == -EBUSY)
		selftest_skip(t, "perf's own event waited for a counter: others use the PMU");
	else if (ret == -EAGAIN)
		selftest_skip(t, "partial each time: context switches or moves were not shown");
	else if (ret)
		selftest_give_up(t, "perf's own event", ret);
}

/* ---- sides ---- */

/* @whole is @a and @b together. The backend reads one event after the other and its own
 * instructions count meanwhile, so they differ by a part of each switch. */
static void sides_add(struct selftest *t, const char *subject, uint64_t whole, uint64_t a,
		      uint64_t b)
{
	const uint64_t most = whole / SIDES_PART + 1000;

	selftest_expect(t, subject, whole > most ? whole - most : 0, whole + most, a + b,
			"cgroup a; one of the sides counts for another one");
}

/*
 * AMD's HostOnly and GuestOnly bits take effect only with EFER.SVME (APM vol. 2, 13.2.1), which KVM
 * sets while there is a VM. Returns a VM that does nothing; negative: there can be none.
 */
static int sides_vm(void)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm;

	if (kvm < 0)
		return -errno;
	vm = ioctl(kvm, KVM_CREATE_VM, 0);
	close(kvm);
	return vm;
}

static void sides_guest(struct selftest *t, uint64_t guest, uint64_t host, uint64_t all, int vm)
{
	if (t->amd && vm < 0) {
		selftest_skip(t, "guest and host: AMD's CPUs tell them apart only while KVM has a "
				 "VM (EFER.SVME), and /dev/kvm cannot be used");
		return;
	}
	/* No VM runs in this cgroup. */
	selftest_expect(t, "instructions:G without a guest", 0, 0, guest,
			"the host leaks into the guest's count");
	sides_add(t, "guest + host", all, host, guest);
}

void check_sides(struct selftest *t)
{
	static const char *const events[] = {"instructions:uH", "instructions:kH", "instructions:H",
					     "instructions:G", "instructions:GH"};
	enum { USER, KERNEL, HOST, GUEST, ALL, NR };
	struct worker w = {.to = -1, .from = -1};
	const struct vpmu_value *v = t->value[NODE_A];
	const uint64_t n = 1000000;
	vpmu_key_t keys[NR];
	char why[200];
	int ret, vm;

	for (int i = 0; i < NR; i++)
		if (vpmu_event_parse(events[i], vpmu_event_host_space(), &keys[i], why,
				     sizeof(why))) {
			selftest_skip(t, "%s", why);
			return;
		}
	vm = sides_vm();
	ret = worker_start(t, NODE_A, &w);
	if (!ret)
		ret = measure_begin(t, keys, NR);
	for (int i = 0; i < 10 && !ret; i++) {
		ret = worker_do(t, &w, WORK_LOOP, n);
		if (!ret)
			ret = worker_do(t, &w, WORK_YIELD, 500);
	}
	if (!ret) {
		measure_end(t);
		if (v[ALL].supported && v[ALL].running_ns < v[ALL].enabled_ns)
			selftest_skip(t, "fewer than %d counters", NR);
		else {
			sides_add(t, "user + kernel", v[HOST].count, v[USER].count,
				  v[KERNEL].count);
			if (v[GUEST].supported)
				sides_guest(t, v[GUEST].count, v[HOST].count, v[ALL].count, vm);
		}
	}
	worker_end(&w);
	if (vm >= 0)
		close(vm);
	if (ret)
		selftest_give_up(t, "a worker", ret);
}
