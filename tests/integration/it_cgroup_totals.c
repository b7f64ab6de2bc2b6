// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pages of totals on the running kernel: a thread that runs a vCPU finds, each time KVM_RUN has
 * returned, all that it has counted so far; to the count, since perf events of the thread count the
 * same. Then the process that made the page is killed, the page goes on, and the next one takes it
 * over. Skipped without /dev/kvm, BPF or a BPF file system of the test's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define KEYS   2
#define ROUNDS 200
#define PAGES  16
#define EXITS  20000u

static const vpmu_key_t keys[KEYS] = {SW(PERF_COUNT_SW_PAGE_FAULTS),
				      SW(PERF_COUNT_SW_CONTEXT_SWITCHES)};
static const uint64_t config[KEYS] = {PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_CONTEXT_SWITCHES};

/* ---- a vCPU of this thread --------------------------------------------------------------------
 */

static struct {
	int kvm, vm, vcpu;
	struct kvm_run *run;
	char *pages;
} g;

static void guest_open(void)
{
	static const uint8_t code[] = {0xe6, 0x10, 0xeb, 0xfc}; /* 1: out %al, $0x10; jmp 1b */
	struct kvm_userspace_memory_region mem = {.memory_size = 0x2000};
	struct kvm_sregs s;
	struct kvm_regs r = {.rip = 0x1000, .rflags = 2};
	uint8_t *ram;

	g.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (g.kvm < 0)
		cr_skip_test("/dev/kvm: %s", strerror(errno));
	ram = bed_share(0x2000);
	g.pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);
	cr_assert_neq(g.pages, MAP_FAILED);
	madvise(g.pages, PAGES * 4096, MADV_NOHUGEPAGE);
	memcpy(ram + 0x1000, code, sizeof(code));
	mem.userspace_addr = (uintptr_t)ram;
	g.vm = ioctl(g.kvm, KVM_CREATE_VM, 0);
	cr_assert_geq(g.vm, 0);
	cr_assert_eq(ioctl(g.vm, KVM_SET_USER_MEMORY_REGION, &mem), 0);
	g.vcpu = ioctl(g.vm, KVM_CREATE_VCPU, 0);
	cr_assert_geq(g.vcpu, 0);
	g.run = mmap(NULL, (size_t)ioctl(g.kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		     MAP_SHARED, g.vcpu, 0);
	cr_assert_neq(g.run, MAP_FAILED);
	cr_assert_eq(ioctl(g.vcpu, KVM_GET_SREGS, &s), 0);
	s.cs.base = s.cs.selector = 0;
	cr_assert_eq(ioctl(g.vcpu, KVM_SET_SREGS, &s), 0);
	cr_assert_eq(ioctl(g.vcpu, KVM_SET_REGS, &r), 0);
}

static void guest_run(void)
{
	int ret;

	do
		ret = ioctl(g.vcpu, KVM_RUN, 0);
	while (ret && errno == EINTR);
	cr_assert_eq(ret, 0, "KVM_RUN: %s", strerror(errno));
	cr_assert_eq(g.run->exit_reason, KVM_EXIT_IO);
}

/* ---- the thread's counts: by the page, and by perf events of its own --------------------------
 */

static struct {
	const volatile struct vpmu_totals *page;
	unsigned int slot[KEYS];
	int fd[KEYS];
	uint64_t page_base[KEYS], perf_base[KEYS], gaps, exact, inexact;
} c;

static void perf_open(void)
{
	for (unsigned int i = 0; i < KEYS; i++) {
		struct perf_event_attr a = {
			.type = PERF_TYPE_SOFTWARE, .size = sizeof(a), .config = config[i]};

		c.fd[i] = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
		cr_assert_geq(c.fd[i], 0, "%s", strerror(errno));
	}
}

/* Right after KVM_RUN: nothing that is counted is in between. */
static void counts_read(uint64_t page[KEYS], uint64_t perf[KEYS])
{
	struct vpmu_row row;
	__u64 time_ns;

	for (unsigned int i = 0; i < KEYS; i++) {
		cr_assert_eq(vpmu_totals_read((const struct vpmu_totals *)c.page, c.slot[i], &row,
					      &time_ns),
			     0);
		page[i] = row.total;
		cr_assert_eq(row.lost, 0);
		cr_assert_eq(read(c.fd[i], &perf[i], sizeof(perf[i])), sizeof(perf[i]));
	}
}

static void page_map(int fd)
{
	void *p = mmap(NULL, sizeof(struct vpmu_totals), PROT_READ, MAP_SHARED, fd, 0);

	cr_assert_neq(p, MAP_FAILED, "%s", strerror(errno));
	c.page = p;
}

static void counts_begin(void)
{
	guest_run();
	counts_read(c.page_base, c.perf_base); /* faults of its own come here */
	guest_run();
	counts_read(c.page_base, c.perf_base);
	c.gaps = c.page->gaps;
}

/* A round: some page faults and switches, and a move to the other CPU now and then. */
static void guest_round(unsigned int i)
{
	uint64_t page[KEYS], perf[KEYS];
	cpu_set_t cpus;

	if (i % 3 == 0) {
		CPU_ZERO(&cpus);
		CPU_SET(i / 3 % (unsigned int)sysconf(_SC_NPROCESSORS_ONLN), &cpus);
		sched_setaffinity(0, sizeof(cpus), &cpus); /* that CPU may be offline */
	}
	madvise(g.pages, PAGES * 4096, MADV_DONTNEED);
	for (unsigned int n = 0; n < 1 + i % PAGES; n++)
		*(volatile char *)(g.pages + n * 4096) = 1;
	if (i % 5 == 0)
		usleep(100);
	guest_run();
	counts_read(page, perf);
	if (c.page->gaps != c.gaps) { /* this kernel has hidden a switch */
		c.inexact++;
		counts_begin();
		return;
	}
	/* No switch between KVM_RUN and the readings. A second reading would have seen one. */
	for (unsigned int k = 0; k < KEYS; k++) {
		uint64_t by_page = page[k] - c.page_base[k], by_perf = perf[k] - c.perf_base[k];

		if (by_perf > by_page && by_perf - by_page <= 2) {
			uint64_t again[KEYS], perf_again[KEYS];

			guest_run();
			counts_read(again, perf_again);
			by_page = again[k] - c.page_base[k];
			by_perf = perf_again[k] - c.perf_base[k];
		}
		cr_assert_eq(by_page, by_perf, "round %u, key %u: %lu by the page, %lu by perf", i,
			     k, by_page, by_perf);
	}
	c.exact++;
}

/* ---- the daemon -------------------------------------------------------------------------------
 */

static char dir[BED_PIN_DIR];

struct daemon {
	struct bpf_backend *k;
	struct vpmu_backend_node *vm, *vcpu;
	struct vpmu_counting *counting;
	int fd;
};

static void daemon_open(struct daemon *d, pid_t tid, int found)
{
	const struct bpf_backend_opts o = {.pin_dir = dir};

	d->k = found ? bed_reopen(&o) : bed_open(&o);
	d->vm = bed_node(bpf_as_backend(d->k)->root);
	cr_assert_eq(bpf_backend_name(d->vm, 7), found);
	d->vcpu = bed_node(d->vm);
	cr_assert_eq(bpf_backend_name(d->vcpu, 8), found);
	bed_bind_task(d->vcpu, tid);
	d->counting = bed_counting(d->vcpu, keys, KEYS, NULL);
	bed_attach(d->counting);
	cr_assert_eq(bpf_backend_has_totals(d->vcpu), found);
	d->fd = bpf_backend_totals_open(d->vcpu);
	if (d->fd == -ENOENT)
		cr_skip_test("this kernel has no tracepoint " KP_EXIT_HOOK);
	cr_assert_geq(d->fd, 0, "%s", strerror(-d->fd));
	cr_assert(bpf_backend_has_totals(d->vcpu));
	bpf_backend_totals_show(d->vcpu, ~0ull);
	if (found)
		bpf_backend_named(d->k);
	for (unsigned int i = 0; i < KEYS; i++) {
		int slot = bpf_backend_slot(d->counting, i);

		cr_assert_geq(slot, 0);
		c.slot[i] = (unsigned int)slot;
	}
}

static void print_exact(void)
{
	printf("# %lu rounds exact, %lu with a hidden switch\n", c.exact, c.inexact);
	fflush(stdout);
	cr_assert_gt(c.exact, ROUNDS / 4);
}

Test(cgroup_totals, a_vcpu_reads_all_that_it_has_counted)
{
	struct daemon d;
	struct bpf_backend_usage u;
	uint64_t before[KEYS], page[KEYS], perf[KEYS];
	void *p;

	bed_pin_dir(dir);
	guest_open();
	perf_open();
	daemon_open(&d, (pid_t)syscall(SYS_gettid), 0);
	page_map(d.fd);
	counts_begin();
	for (unsigned int i = 0; i < ROUNDS; i++)
		guest_round(i);
	print_exact();

	/* The page and the row are the same charges: both began before the first one. */
	bed_read(d.counting);
	counts_read(page, perf);
	for (unsigned int i = 0; i < KEYS; i++)
		cr_assert_leq(d.counting->values[i].count - page[i], 20, "key %u", i);
	bpf_backend_usage(d.k, &u);
	cr_assert_geq(u.programs, 2);

	/* Nobody but the program writes to it. */
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, d.fd, 0);
	cr_assert(p == MAP_FAILED && errno == EPERM, "mapped to write");
	cr_assert(mprotect((void *)c.page, 4096, PROT_READ | PROT_WRITE) && errno == EACCES);
	cr_assert_lt(bpf_map_update_elem(d.fd, &(uint32_t){0}, (void *)c.page, BPF_ANY), 0);

	/* A second task would be a second writer. */
	pid_t other = bed_fork();

	if (!other) {
		pause();
		_exit(0);
	}
	bed_bind_task(d.vcpu, other);
	cr_assert(!bpf_backend_has_totals(d.vcpu) && c.page->ended);
	cr_assert_eq(bpf_backend_totals_open(d.vcpu), -EINVAL);
	guest_run();
	counts_read(before, perf);
	madvise(g.pages, PAGES * 4096, MADV_DONTNEED);
	*(volatile char *)g.pages = 1;
	guest_run();
	counts_read(page, perf);
	for (unsigned int i = 0; i < KEYS; i++)
		cr_assert_eq(before[i], page[i], "an ended page grows");
	bed_kill(other);
	bpf_backend_unbind_task(d.vcpu, other);

	/* Another page, which begins at 0; the exit's program is detached with the last one. */
	close(d.fd);
	d.fd = bpf_backend_totals_open(d.vcpu);
	cr_assert_geq(d.fd, 0);
	bpf_backend_totals_show(d.vcpu, ~0ull);
	page_map(d.fd);
	cr_assert(!c.page->ended);
	counts_begin();
	for (unsigned int i = 0; i < 20; i++)
		guest_round(i);
	bpf_backend_usage(d.k, &u);
	unsigned int with = u.programs;
	bpf_backend_totals_close(d.vcpu);
	bpf_backend_usage(d.k, &u);
	cr_assert_eq(u.programs, with - 1);
	cr_assert(c.page->ended);
	close(d.fd);
	bed_done(d.k);
}

/* On CPU 0, before all others, every 20 us for a moment. */
static void disturb(void)
{
	const struct sched_param p = {.sched_priority = 1};
	const struct timespec ts = {.tv_nsec = 20000};

	bed_run_on(0, 0);
	cr_assert_eq(sched_setscheduler(0, SCHED_FIFO, &p), 0, "%s", strerror(errno));
	for (;;)
		nanosleep(&ts, NULL);
}

/* How many switches the program finds to have missed while the vCPU exits so often. */
static uint64_t missed_in(struct bpf_backend *k, unsigned int exits)
{
	struct bpf_backend_usage before, after;

	bpf_backend_usage(k, &before);
	while (exits--)
		guest_run();
	bpf_backend_usage(k, &after);
	return after.missed - before.missed;
}

/* A task that preempts the vCPU's thread in the middle of a flush at an exit: its switches would be
 * charged to the wrong account, or look as if they had been missed. */
Test(cgroup_totals, no_switch_comes_into_a_flush)
{
	struct daemon d;
	pid_t other;
	uint64_t missed;

	if (!getenv("IT_CGROUP_TOTALS"))
		cr_skip_test("it disturbs the others: run it alone, with IT_CGROUP_TOTALS=1");
	bed_pin_dir(dir);
	guest_open();
	daemon_open(&d, (pid_t)syscall(SYS_gettid), 0);
	bed_run_on(0, 0);
	other = bed_fork();
	if (!other)
		disturb();
	bpf_backend_totals_close(d.vcpu);
	missed = missed_in(d.k, EXITS / 10);
	if (missed)
		cr_skip_test("this kernel hides switches: %lu", missed);
	close(d.fd);
	d.fd = bpf_backend_totals_open(d.vcpu);
	cr_assert_geq(d.fd, 0);
	missed = missed_in(d.k, EXITS);
	cr_expect_eq(missed, 0u, "%lu switches missed at %u exits", missed, EXITS);
	bed_kill(other);
	close(d.fd);
	bed_done(d.k);
}

Test(cgroup_totals, a_page_outlives_the_daemon)
{
	const pid_t tid = (pid_t)syscall(SYS_gettid);
	char pin[128];
	struct daemon d;
	int status, pipes[2], fd;
	pid_t first;

	bed_pin_dir(dir);
	guest_open();
	perf_open();
	cr_assert_eq(pipe(pipes), 0);
	first = bed_fork();
	if (!first) {
		daemon_open(&d, tid, 0);
		cr_assert_eq(write(pipes[1], c.slot, sizeof(c.slot)), sizeof(c.slot));
		for (;;)
			pause();
	}
	close(pipes[1]);
	if (read(pipes[0], c.slot, sizeof(c.slot)) != sizeof(c.slot)) {
		waitpid(first, &status, 0);
		bed_end();
		cr_skip_test("no backend with pages of totals here");
	}
	snprintf(pin, sizeof(pin), "%s/totals-0", dir);
	fd = bpf_obj_get(pin);
	cr_assert_geq(fd, 0, "%s: %s", pin, strerror(errno));
	page_map(fd);
	close(fd);
	counts_begin();
	for (unsigned int i = 0; i < ROUNDS / 4; i++)
		guest_round(i);
	for (unsigned int kills = 0; kills < 3; kills++) {
		kill(first, SIGKILL);
		waitpid(first, &status, 0);
		for (unsigned int i = 0; i < ROUNDS / 4; i++) /* without a daemon */
			guest_round(i);
		cr_assert_eq(pipe(pipes), 0);
		first = bed_fork();
		if (!first) {
			unsigned int slot[KEYS];

			memcpy(slot, c.slot, sizeof(slot));
			daemon_open(&d, tid, 1);
			cr_assert(!memcmp(slot, c.slot, sizeof(slot)), "a key has another slot");
			cr_assert_gt(bed_conserved(bpf_as_backend(d.k)), 0);
			cr_assert_eq(write(pipes[1], slot, sizeof(slot)), sizeof(slot));
			for (;;)
				pause();
		}
		close(pipes[1]);
		for (unsigned int i = 0; i < ROUNDS / 4; i++) /* while it takes over */
			guest_round(i);
		cr_assert_eq(read(pipes[0], c.slot, sizeof(c.slot)), sizeof(c.slot),
			     "the next daemon has failed");
		close(pipes[0]);
		cr_assert(!c.page->ended);
	}
	print_exact();
	kill(first, SIGKILL);
	waitpid(first, &status, 0);

	/* A daemon that does not know the vCPU ends the page, and removes its pin. */
	d.k = bed_reopen(&(struct bpf_backend_opts){.pin_dir = dir});
	bpf_backend_named(d.k);
	for (unsigned int i = 0; i < 100 && !c.page->ended; i++) {
		bpf_backend_tend(d.k);
		usleep(20000);
	}
	cr_assert(c.page->ended);
	cr_assert(access(pin, F_OK) && errno == ENOENT);
	bed_done(d.k);
}
