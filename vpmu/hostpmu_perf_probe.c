// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the host can count with perf events, found out by trying: how many hardware events at a
 * time, and which keys; and, for `vpmu check`, why not, in words. hostpmu_perf.c calls this when a
 * key is first used, never on the switch path.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"
#include "vpmu/hostpmu_perf_priv.h"

/* ---- the kernel --------------------------------------------------------------------------- */

static int sys_open(const struct perf_event_attr *attr, int tid, int cpu)
{
	long rc = syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return rc < 0 ? -errno : (int)rc;
}

static int sys_read(int fd, uint64_t *value)
{
	ssize_t n;

	do
		n = read(fd, value, sizeof(*value));
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return n == sizeof(*value) ? 0 : -ENODATA;
}

static struct perf_event_mmap_page *sys_map(int fd)
{
	void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);

	return page == MAP_FAILED ? NULL : page;
}

static void sys_unmap(struct perf_event_mmap_page *page)
{
	munmap(page, (size_t)sysconf(_SC_PAGESIZE));
}

static uint64_t sys_rdpmc(uint32_t index)
{
#ifdef __x86_64__
	uint32_t low, high;

	__asm__ volatile("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
	return (uint64_t)high << 32 | low;
#else
	return 0; /* never called: pages of other CPUs do not allow it */
#endif
}

static void sys_close(int fd)
{
	close(fd);
}

static const struct vpmu_perf_sys the_kernel = {
	.open = sys_open,
	.read = sys_read,
	.map = sys_map,
	.unmap = sys_unmap,
	.rdpmc = sys_rdpmc,
	.close = sys_close,
};
const struct vpmu_perf_sys *vpmu_perf_sys = &the_kernel;

/* ---- one event ---------------------------------------------------------------------------- */

static bool is_clock(vpmu_key_t key)
{
	return vpmu_key_space(key) == VPMU_SPACE_SOFTWARE &&
	       (vpmu_key_event(key) == PERF_COUNT_SW_CPU_CLOCK ||
		vpmu_key_event(key) == PERF_COUNT_SW_TASK_CLOCK);
}

int vpmu_perf_open(vpmu_key_t key, int tid, int cpu)
{
	struct perf_event_attr attr;
	int rc = vpmu_key_to_attr(key, &attr);

	if (rc)
		return rc;
	/* Pinned: on the PMU all the time or not at all, because a shared count must have no gaps.
	 */
	attr.pinned = attr.type != PERF_TYPE_SOFTWARE;
	rc = vpmu_perf_sys->open(&attr, tid, cpu);
	if (rc == -EACCES && is_clock(key)) {
		/* A clock runs on in the kernel whatever the attr says. Without the right to count
		 * the kernel, the attr must exclude it, and the count is the same. */
		attr.exclude_kernel = 1;
		rc = vpmu_perf_sys->open(&attr, tid, cpu);
	}
	return rc;
}

/*
 * Outcomes of probes, by key. The size is fixed, because guests choose raw keys and must not make
 * it grow. A key whose place another one took is probed again.
 */
#define CACHE_SIZE 256
static struct {
	vpmu_key_t key;
	bool of_cpu;
	int rc;
} cache[CACHE_SIZE];
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether an outcome can be remembered. Others can change at any time: no memory, no file
 * descriptors, counters that are busy. */
static bool is_lasting(int rc)
{
	return rc >= 0 || rc == -ENOENT || rc == -EINVAL || rc == -EOPNOTSUPP || rc == -EACCES ||
	       rc == -EPERM || rc == -ENOSYS;
}

int vpmu_perf_probe(vpmu_key_t key, int cpu)
{
	/* Fibonacci hashing: keys differ in low bits and in flags far above them. */
	unsigned int i = (unsigned int)(key * 0x9e3779b97f4a7c15ULL >> 56) % CACHE_SIZE;
	bool of_cpu = cpu >= 0;
	int rc;

	if (!key)
		return -EINVAL;
	pthread_mutex_lock(&cache_lock);
	if (cache[i].key == key && cache[i].of_cpu == of_cpu) {
		rc = cache[i].rc;
		goto out;
	}
	rc = vpmu_perf_open(key, of_cpu ? -1 : 0, cpu);
	if (rc >= 0) {
		vpmu_perf_sys->close(rc);
		rc = 0;
	}
	if (is_lasting(rc)) {
		cache[i].key = key;
		cache[i].of_cpu = of_cpu;
		cache[i].rc = rc;
	}
out:
	pthread_mutex_unlock(&cache_lock);
	return rc;
}

/* ---- how many at a time -------------------------------------------------------------------- */

static struct vpmu_perf_capacity capacity;
static pthread_once_t capacity_once = PTHREAD_ONCE_INIT;

/* Open @ev, pinned, for the calling thread: the file descriptor if it counts, -EBUSY if it found no
 * place on the PMU, or another -errno. */
static int open_counting(enum vpmu_generic ev)
{
	/* User level is allowed to most users, and answers the question as well. */
	int fd = vpmu_perf_open(vpmu_key_generic(ev, VPMU_KEY_USR), 0, -1);
	uint64_t value;
	int rc;

	if (fd < 0)
		return fd;
	rc = vpmu_perf_sys->read(fd, &value);
	if (!rc)
		return fd;
	vpmu_perf_sys->close(fd);
	return rc == -ENODATA ? -EBUSY : rc;
}

/*
 * No CPU has a fixed counter for branches. So the number of branch events that count together is
 * the number of general counters that are free (the kernel's NMI watchdog can hold one for good).
 * An event that still finds a place beside them has a fixed counter.
 */
static void find_capacity(void)
{
	static const uint16_t fixed[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES};
	int fds[VPMU_PERF_MAX_GP + 3];
	unsigned int n = 0, i;
	int fd = -EBUSY;

	while (n < VPMU_PERF_MAX_GP && (fd = open_counting(VPMU_EV_BRANCHES)) >= 0)
		fds[n++] = fd;
	capacity.gp = n;
	capacity.rc = n ? 0 : fd;
	for (i = 0; capacity.gp && i < sizeof(fixed) / sizeof(fixed[0]); i++) {
		fd = open_counting((enum vpmu_generic)fixed[i]);
		if (fd < 0)
			continue;
		fds[n++] = fd;
		capacity.fixed_event[capacity.fixed++] = fixed[i];
	}
	while (n)
		vpmu_perf_sys->close(fds[--n]);
}

const struct vpmu_perf_capacity *vpmu_perf_capacity(void)
{
	pthread_once(&capacity_once, find_capacity);
	return &capacity;
}

/* ---- in words ----------------------------------------------------------------------------- */

struct check {
	int (*fn)(const char *what, bool ok, const char *why, void *arg);
	void *arg;
	int paranoid;
};

static int paranoid_level(void)
{
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level;

	if (!f)
		return -ENOENT;
	if (fscanf(f, "%d", &level) != 1)
		level = -ENOENT;
	fclose(f);
	return level;
}

/* Write one line to @buf that says why a probe of @key returned @rc. */
static void why_not(const struct check *ck, vpmu_key_t key, int rc, char *buf, size_t len)
{
	struct perf_event_attr attr;

	switch (rc) {
	case -ENOENT:
		snprintf(buf, len, "no hardware PMU (in a VM: its host gives it no vPMU)");
		return;
	case -EACCES:
	case -EPERM:
		if (ck->paranoid == -ENOENT)
			snprintf(buf, len, "perf_event_open: %s", strerror(-rc));
		else
			snprintf(buf, len,
				 "not permitted: perf_event_paranoid is %d; needs CAP_PERFMON or a "
				 "lower value",
				 ck->paranoid);
		return;
	case -EOPNOTSUPP:
		if (key && vpmu_key_to_attr(key, &attr))
			snprintf(buf, len, "no event of this meaning on this CPU");
		else
			snprintf(buf, len,
				 "the PMU does not count guests apart now (no support, or VMs with "
				 "a "
				 "mediated vPMU run)");
		return;
	case -EINVAL:
		snprintf(buf, len, "this CPU's PMU does not have it");
		return;
	case -EBUSY:
		snprintf(buf, len, "others hold all hardware counters");
		return;
	case -ENOSYS:
		snprintf(buf, len, "the kernel has no perf events");
		return;
	default:
		snprintf(buf, len, "perf_event_open: %s", strerror(-rc));
	}
}

static int check_perf(const struct check *ck)
{
	int rc = vpmu_perf_probe(
		vpmu_key_make(VPMU_SPACE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK,
			      VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST),
		-1);
	char why[160];

	if (rc)
		why_not(ck, 0, rc, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "perf_event_paranoid is %d", ck->paranoid);
	return ck->fn("perf events", !rc, why, ck->arg);
}

static int check_hardware(const struct check *ck)
{
	const struct vpmu_perf_capacity *c = vpmu_perf_capacity();
	char why[160];

	if (c->gp)
		snprintf(why, sizeof(why), "%u general and %u fixed ones free at a time", c->gp,
			 c->fixed);
	else
		why_not(ck, vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR), c->rc, why,
			sizeof(why));
	return ck->fn("hardware counters", c->gp, why, ck->arg);
}

static int check_event(const struct vpmu_event_info *info, void *arg)
{
	const struct check *ck = arg;
	int rc = vpmu_perf_probe(info->key, -1);
	char why[160] = "";

	/* The kernel checks rights before it looks for a PMU. That there is no PMU says more. */
	if (vpmu_key_space(info->key) != VPMU_SPACE_SOFTWARE && rc != -EOPNOTSUPP &&
	    !vpmu_perf_capacity()->gp)
		rc = vpmu_perf_capacity()->rc;
	if (rc)
		why_not(ck, info->key, rc, why, sizeof(why));
	if (rc && info->key == vpmu_key_generic(VPMU_EV_REF_CYCLES, VPMU_KEY_USR | VPMU_KEY_OS))
		return ck->fn(info->name, true,
			      "in KVM guests, as TSC ticks between entering and leaving the guest "
			      "(quality tsc)",
			      ck->arg);
	return ck->fn(info->name, !rc, why, ck->arg);
}

int vpmu_hostpmu_perf_check(int (*fn)(const char *what, bool ok, const char *why, void *arg),
			    void *arg)
{
	struct check ck = {.fn = fn, .arg = arg, .paranoid = paranoid_level()};
	int rc = check_perf(&ck);

	if (!rc)
		rc = check_hardware(&ck);
	if (!rc)
		rc = vpmu_event_list(check_event, &ck);
	return rc;
}
