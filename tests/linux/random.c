// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A random user of perf_event_open, for stock Linux guests (tests/linux/randomtest):
 *   random SEED OPERATIONS [breakpoints]
 * opens, groups, enables, disables, reads, maps, samples, inherits, changes and closes perf events
 * of every kind on all CPUs and on threads of its own, as numbers that depend only on SEED say.
 * Most of what it asks for is nonsense, which the kernel refuses. What it reads must be right:
 *   - a count never goes down, unless it was reset;
 *   - records in rings are whole.
 * Afterwards it closes all, and on each CPU counts a loop whose instructions and branches it knows.
 * The last line of its output is "random: SEED ok" and what it did; or lines that begin with
 * "random: FAILED". Exit status 0 or 1.
 *
 * A time (enabled, running) that goes back is a line "random: note". Counts that the kernel itself
 * makes go down are not looked at: PERF_EVENT_IOC_MODIFY_ATTRIBUTES and events of a software clock,
 * whose count is what hrtimers say.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS	    96
#define CHILDREN    4
#define PAGE	    4096u
#define MEMBERS_MAX 128

struct event {
	int fd;
	struct perf_event_attr attr;
	struct perf_event_mmap_page *map;
	size_t map_bytes;
	int leader; /* index, -1: none */
	pid_t pid;  /* as it was opened */
	int cpu;
	/* the last values that were read; only while nothing has reset them */
	bool counted;
	uint64_t value, enabled, running;
};

static struct event events[EVENTS];
static pid_t children[CHILDREN];
static unsigned int cpus;
static uint64_t seed, state;
static bool breakpoints;
static unsigned int failures;
static volatile sig_atomic_t signals;
static uint64_t done_opens, done_refused, done_reads, done_records, done_samples;

static uint64_t rnd(void)
{
	/* xorshift64*; its low bits are the weaker ones */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (state * 0x2545f4914f6cdd1dULL) >> 16;
}

static unsigned int below(unsigned int n)
{
	return (unsigned int)(rnd() % n);
}

static bool one_in(unsigned int n)
{
	return !below(n);
}

static void failed(const char *fmt, ...)
{
	va_list ap;

	if (failures++ > 20)
		return;
	printf("random: FAILED: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

static void on_signal(int sig)
{
	signals++;
}

/* ---- work that is counted ---- */

static volatile unsigned int sink[1024];

/* Two instructions and one branch per round, in user mode. */
static inline void loop(unsigned long rounds)
{
	__asm__ volatile("1: dec %0\n jnz 1b\n" : "+r"(rounds) : : "cc");
}

static void work(void)
{
	switch (below(4)) {
	case 0:
		loop(1 + below(20000));
		break;
	case 1:
		for (unsigned int i = below(1024); i < 1024; i++)
			sink[(i * 17) & 1023] += i;
		break;
	case 2:
		for (unsigned int i = below(20); i; i--)
			syscall(SYS_getppid);
		break;
	default: {
		volatile char *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p != MAP_FAILED) {
			p[below(4 * PAGE)] = 1;
			munmap((void *)p, 4 * PAGE);
		}
	}
	}
}

/* ---- random attributes ---- */

/* One of the bits that exist; sometimes several, sometimes anything. */
static uint64_t bits(unsigned int valid)
{
	uint64_t x = 0;

	if (one_in(40))
		return rnd() << 16 ^ rnd();
	for (unsigned int n = below(6); n; n--)
		x |= 1ULL << below(valid);
	return x;
}

static uint64_t raw_config(void)
{
	/* events that the models have, and whatever else an event select can hold */
	static const uint16_t known[] = {0x00c0, 0x003c, 0x013c, 0x00c4, 0x00c5, 0x0076,
					 0x00c2, 0x00c3, 0x81d0, 0x82d0, 0x20c4, 0x4f2e};
	uint64_t c = known[below(sizeof(known) / sizeof(known[0]))];

	if (one_in(3))
		c = rnd() & 0xffff;
	if (one_in(4))
		c |= (rnd() & 0xff) << 24 | (rnd() & 1) << 18 | (rnd() & 1) << 23;
	if (one_in(20))
		c |= rnd() << 32;
	return c;
}

static void random_type(struct perf_event_attr *a)
{
	switch (below(breakpoints ? 12 : 11)) {
	case 0 ... 3:
		a->type = PERF_TYPE_HARDWARE;
		a->config = one_in(30) ? rnd() : below(PERF_COUNT_HW_MAX + 1);
		break;
	case 4 ... 6:
		a->type = PERF_TYPE_RAW;
		a->config = raw_config();
		break;
	case 7:
		a->type = PERF_TYPE_SOFTWARE;
		a->config = below(PERF_COUNT_SW_MAX + 1);
		break;
	case 8:
		a->type = PERF_TYPE_HW_CACHE;
		a->config = below(8) | below(4) << 8 | below(3) << 16;
		break;
	case 9:
		a->type = PERF_TYPE_TRACEPOINT;
		a->config = below(2000);
		break;
	case 10:
		a->type = below(32);
		a->config = rnd();
		break;
	default:
		a->type = PERF_TYPE_BREAKPOINT;
		a->bp_type = one_in(8) ? below(8) : one_in(3) ? HW_BREAKPOINT_X : HW_BREAKPOINT_W;
		a->bp_addr = (uint64_t)(uintptr_t)(a->bp_type == HW_BREAKPOINT_X
							   ? (void *)work
							   : (void *)&sink[below(1024)]);
		a->bp_len = one_in(8) ? below(16) : a->bp_type == HW_BREAKPOINT_X ? 8 : 4;
	}
}

static void random_sampling(struct perf_event_attr *a)
{
	static const uint32_t periods[] = {1, 2, 3, 10, 100, 1000, 10000, 100000, 1000000};

	if (one_in(3)) {
		a->freq = 1;
		a->sample_freq = one_in(20) ? rnd() : 1 + below(4000);
	} else {
		a->sample_period = one_in(20)
					   ? rnd()
					   : periods[below(sizeof(periods) / sizeof(periods[0]))] +
						     (one_in(2) ? below(7) : 0);
	}
	a->sample_type = bits(25);
	if (a->sample_type & PERF_SAMPLE_BRANCH_STACK)
		a->branch_sample_type = bits(19) | (one_in(2) ? PERF_SAMPLE_BRANCH_ANY : 0);
	if (a->sample_type & PERF_SAMPLE_REGS_USER)
		a->sample_regs_user = one_in(2) ? 0xff0fff : bits(64);
	if (a->sample_type & PERF_SAMPLE_REGS_INTR)
		a->sample_regs_intr = one_in(2) ? 0xff0fff : bits(64);
	if (a->sample_type & PERF_SAMPLE_STACK_USER)
		a->sample_stack_user = one_in(8) ? (uint32_t)rnd() : 8 * below(512);
	a->wakeup_events = one_in(2) ? 1 + below(10) : 0;
	a->sample_max_stack = one_in(4) ? (uint16_t)below(200) : 0;
	a->precise_ip = one_in(20) ? below(4) & 3 : 0;
}

/* What tools ask for: most of it is accepted. */
static void usual_attr(struct perf_event_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->size = sizeof(*a);
	do
		random_type(a);
	while (a->type == PERF_TYPE_TRACEPOINT && !one_in(4));
	if (one_in(2)) {
		static const uint16_t types[] = {
			PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD,
			PERF_SAMPLE_IP | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_READ,
			PERF_SAMPLE_IP | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_CPU,
			PERF_SAMPLE_IP | PERF_SAMPLE_RAW | PERF_SAMPLE_STREAM_ID,
		};

		random_sampling(a);
		a->sample_type = types[below(4)];
		a->branch_sample_type = 0;
		a->sample_regs_user = a->sample_regs_intr = 0;
		a->sample_stack_user = 0;
		a->sample_max_stack = 0;
		a->precise_ip = 0;
		if (one_in(3)) {
			a->sample_type |= PERF_SAMPLE_BRANCH_STACK;
			a->branch_sample_type = PERF_SAMPLE_BRANCH_ANY | (rnd() & 7);
		}
		if (one_in(4)) {
			a->sample_type |= PERF_SAMPLE_REGS_INTR | PERF_SAMPLE_STACK_USER |
					  PERF_SAMPLE_REGS_USER;
			a->sample_regs_intr = a->sample_regs_user = 0xff0fff;
			a->sample_stack_user = 64 * below(16);
		}
		a->freq &= a->sample_freq != 0 && a->sample_freq < 100000;
		a->sample_id_all = one_in(2);
	}
	a->read_format = below(16);
	a->disabled = one_in(3);
	a->inherit = one_in(3);
	a->pinned = one_in(12);
	a->exclude_user = one_in(6);
	a->exclude_kernel = one_in(2);
	a->exclude_guest = one_in(2);
	a->mmap = a->comm = a->task = a->context_switch = one_in(4);
}

static void random_attr(struct perf_event_attr *a)
{
	if (one_in(2)) {
		usual_attr(a);
		return;
	}
	memset(a, 0, sizeof(*a));
	a->size = one_in(30) ? (uint32_t)below(256) : sizeof(*a);
	random_type(a);
	if (one_in(2))
		random_sampling(a);
	a->read_format = one_in(30) ? rnd() : below(16);
	a->disabled = one_in(2);
	a->inherit = one_in(3);
	a->pinned = one_in(8);
	a->exclusive = one_in(12);
	a->exclude_user = one_in(5);
	a->exclude_kernel = one_in(3);
	a->exclude_hv = one_in(4);
	a->exclude_idle = one_in(8);
	a->exclude_host = one_in(20);
	a->exclude_guest = one_in(3);
	a->mmap = one_in(4);
	a->comm = one_in(4);
	a->inherit_stat = one_in(8);
	a->enable_on_exec = one_in(8);
	a->task = one_in(4);
	a->watermark = one_in(12);
	a->sample_id_all = one_in(3);
	a->mmap2 = one_in(6);
	a->context_switch = one_in(6);
	a->write_backward = one_in(12);
	a->use_clockid = one_in(8);
	if (a->use_clockid)
		a->clockid = (int)below(12);
	a->remove_on_exec = one_in(16);
	a->config1 = one_in(20) ? rnd() : a->config1;
	a->config2 = one_in(20) ? rnd() : a->config2;
}

/* ---- events ---- */

static long sys_open(struct perf_event_attr *a, pid_t pid, int cpu, int group, unsigned long flags)
{
	return syscall(SYS_perf_event_open, a, pid, cpu, group, flags);
}

/* An index of an open event, or -1. */
static int some_event(void)
{
	unsigned int at = below(EVENTS);

	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[(at + i) % EVENTS].fd >= 0)
			return (int)((at + i) % EVENTS);
	return -1;
}

static void forget_counts(struct event *e)
{
	e->counted = false;
}

static void forget_all_counts(void)
{
	for (unsigned int i = 0; i < EVENTS; i++)
		forget_counts(&events[i]);
}

static void close_event(struct event *e)
{
	if (e->map && one_in(2)) {
		munmap(e->map, e->map_bytes);
		e->map = NULL;
	}
	close(e->fd);
	if (e->map)
		munmap(e->map, e->map_bytes);
	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[i].leader == e - events)
			events[i].leader = -1;
	memset(e, 0, sizeof(*e));
	e->fd = e->leader = -1;
}

static void op_open(void)
{
	unsigned int at = below(EVENTS), tries = 0;
	struct perf_event_attr a;
	int leader = -1, cpu = -1;
	unsigned long flags = 0;
	pid_t pid = 0;
	long fd;

	if (events[at].fd >= 0)
		close_event(&events[at]);
	if (one_in(3))
		leader = some_event();
again:
	random_attr(&a);
	/* A group is one of one thread and one CPU. */
	if (leader >= 0 && !one_in(6)) {
		pid = events[leader].pid;
		cpu = events[leader].cpu;
	} else
		switch (below(6)) {
		case 0:
			pid = -1;
			cpu = (int)below(cpus);
			break;
		case 1:
			pid = children[below(CHILDREN)];
			cpu = one_in(2) ? -1 : (int)below(cpus);
			break;
		case 2:
			cpu = (int)below(cpus + 1) - 1;
			break;
		case 3:
			if (one_in(10)) {
				pid = (pid_t)below(300) - 1;
				cpu = (int)below(40) - 2;
			}
			break;
		}
	if (one_in(6))
		flags = one_in(4) ? rnd() : 1ul << below(4);
	fd = sys_open(&a, pid, cpu, leader >= 0 ? events[leader].fd : -1, flags);
	done_opens++;
	if (fd < 0) {
		done_refused++;
		if (tries++ < 4)
			goto again;
		return;
	}
	events[at] =
		(struct event){.fd = (int)fd, .attr = a, .leader = leader, .pid = pid, .cpu = cpu};
	if (one_in(2)) {
		size_t bytes = (1 + (one_in(20) ? below(9) : 1u << below(5))) * (size_t)PAGE;
		void *map = mmap(NULL, bytes, PROT_READ | (one_in(4) ? 0 : PROT_WRITE), MAP_SHARED,
				 (int)fd, 0);

		if (map != MAP_FAILED) {
			events[at].map = map;
			events[at].map_bytes = bytes;
		}
	}
	if (one_in(6)) {
		fcntl((int)fd, F_SETFL, O_ASYNC | O_NONBLOCK);
		fcntl((int)fd, F_SETSIG, one_in(2) ? SIGIO : SIGRTMIN);
		fcntl((int)fd, F_SETOWN, getpid());
	}
}

static void op_close(void)
{
	int i = some_event();

	if (i >= 0)
		close_event(&events[i]);
}

/* ---- reading ---- */

/* Whether the count of such an event is only ever added to by the kernel. */
static bool monotonic(const struct perf_event_attr *a)
{
	return a->type != PERF_TYPE_SOFTWARE ||
	       (a->config != PERF_COUNT_SW_CPU_CLOCK && a->config != PERF_COUNT_SW_TASK_CLOCK);
}

static void check_counts(struct event *e, uint64_t value, uint64_t enabled, uint64_t running,
			 bool times)
{
	unsigned int i = (unsigned int)(e - events);

	if (e->counted && monotonic(&e->attr) && value < e->value)
		failed("event %u (type %u config 0x%llx) went from %llu to %llu", i, e->attr.type,
		       (unsigned long long)e->attr.config, (unsigned long long)e->value,
		       (unsigned long long)value);
	if (e->counted && times && (enabled < e->enabled || running < e->running))
		printf("random: note: times of event %u (type %u config 0x%llx pid %d cpu %d "
		       "inherit %u pinned %u) went from %llu/%llu to %llu/%llu\n",
		       i, e->attr.type, (unsigned long long)e->attr.config, (int)e->pid, e->cpu,
		       e->attr.inherit, e->attr.pinned, (unsigned long long)e->enabled,
		       (unsigned long long)e->running, (unsigned long long)enabled,
		       (unsigned long long)running);
	e->counted = true;
	e->value = value;
	e->enabled = times ? enabled : 0;
	e->running = times ? running : 0;
}

static void op_read(void)
{
	uint64_t buf[3 + 3 * MEMBERS_MAX];
	bool enabled, running;
	struct event *e;
	int i = some_event();
	uint64_t en, run;
	size_t n = 1;
	ssize_t got;

	if (i < 0)
		return;
	e = &events[i];
	got = read(e->fd, buf, one_in(20) ? below(64) : sizeof(buf));
	done_reads++;
	/* 0: a pinned event that found no counter */
	if (got <= 0 || e->attr.read_format & ~15ULL)
		return;
	enabled = e->attr.read_format & PERF_FORMAT_TOTAL_TIME_ENABLED;
	running = e->attr.read_format & PERF_FORMAT_TOTAL_TIME_RUNNING;
	if (e->attr.read_format & PERF_FORMAT_GROUP) {
		uint64_t members = buf[0];

		if (members < 1 || members > MEMBERS_MAX) {
			failed("a group has %llu members", (unsigned long long)members);
			return;
		}
		en = enabled ? buf[n++] : 0;
		run = running ? buf[n++] : 0;
		n += members * (1 + !!(e->attr.read_format & PERF_FORMAT_ID));
		if ((size_t)got != n * 8)
			failed("a group's read has %zd bytes, not %zu", got, n * 8);
		/* the first is the leader, whose counts are kept where it is read by itself */
		if (e->leader < 0)
			check_counts(e, buf[1 + enabled + running], en, run, enabled && running);
		return;
	}
	en = enabled ? buf[n++] : 0;
	run = running ? buf[n++] : 0;
	n += !!(e->attr.read_format & PERF_FORMAT_ID);
	if ((size_t)got != n * 8)
		failed("a read has %zd bytes, not %zu", got, n * 8);
	check_counts(e, buf[0], en, run, enabled && running);
}

/* Read what is in the ring, as far as it can be understood from the outside. */
static void op_ring(void)
{
	struct perf_event_mmap_page *p;
	uint64_t head, tail, size;
	int i = some_event();
	struct event *e;

	if (i < 0 || !events[i].map)
		return;
	e = &events[i];
	p = e->map;
	if (e->attr.write_backward || e->map_bytes < 2 * PAGE)
		return;
	size = e->map_bytes - PAGE;
	head = __atomic_load_n(&p->data_head, __ATOMIC_ACQUIRE);
	tail = p->data_tail;
	if (head - tail > size) {
		failed("ring of event %d: head 0x%llx, tail 0x%llx", i, (unsigned long long)head,
		       (unsigned long long)tail);
		return;
	}
	while (tail < head) {
		const struct perf_event_header *h =
			(void *)((uint8_t *)p + PAGE + (tail & (size - 1)));

		/* headers are aligned to 8, so they do not wrap */
		if (h->size < sizeof(*h) || h->size % 8 || tail + h->size > head || !h->type ||
		    h->type >= 64) {
			failed("ring of event %d: a record of type %u and %u bytes", i, h->type,
			       h->size);
			break;
		}
		done_records++;
		done_samples += h->type == PERF_RECORD_SAMPLE;
		tail += h->size;
	}
	if (mprotect(p, PAGE, PROT_READ | PROT_WRITE) == 0)
		__atomic_store_n(&p->data_tail, head, __ATOMIC_RELEASE);
}

/* What the mapped page says of a count, with RDPMC if the kernel offers it. */
static void op_page(void)
{
	int i = some_event();
	volatile struct perf_event_mmap_page *p;
	uint32_t seq, index, n = 0;
	uint64_t lo, hi;

	if (i < 0 || !events[i].map)
		return;
	p = events[i].map;
	do {
		seq = p->lock;
		__asm__ volatile("" ::: "memory");
		index = p->index;
		/* It may be scheduled out between: then RDPMC reads another count, or faults
		 * where the counter is gone; the loop is the kernel's documented way. */
		if (p->cap_user_rdpmc && index && events[i].leader != -2)
			__asm__ volatile("rdpmc" : "=a"(lo), "=d"(hi) : "c"(index - 1));
		__asm__ volatile("" ::: "memory");
	} while (p->lock != seq && n++ < 100);
}

static const struct perf_event_attr *attr_of(int i)
{
	return &events[i].attr;
}

static void op_ioctl(void)
{
	static const char *const filters[] = {"1", "common_pid == 0", "", "x"};
	int i = some_event(), j = some_event();
	unsigned long flag = one_in(3) ? PERF_IOC_FLAG_GROUP : 0;
	struct perf_event_attr a;
	uint64_t x;

	if (i < 0)
		return;
	switch (below(14)) {
	case 0 ... 2:
		ioctl(events[i].fd, PERF_EVENT_IOC_ENABLE, flag);
		break;
	case 3 ... 5:
		ioctl(events[i].fd, PERF_EVENT_IOC_DISABLE, flag);
		break;
	case 6:
		ioctl(events[i].fd, PERF_EVENT_IOC_REFRESH, one_in(9) ? (int)rnd() : (int)below(5));
		break;
	case 7:
		forget_all_counts();
		ioctl(events[i].fd, PERF_EVENT_IOC_RESET, flag);
		break;
	case 8:
		x = one_in(9) ? rnd() : 1 + below(100000);
		ioctl(events[i].fd, PERF_EVENT_IOC_PERIOD, &x);
		break;
	case 9:
		ioctl(events[i].fd, PERF_EVENT_IOC_SET_OUTPUT,
		      j >= 0 && one_in(2) ? events[j].fd : -1);
		break;
	case 10:
		ioctl(events[i].fd, PERF_EVENT_IOC_SET_FILTER, filters[below(4)]);
		break;
	case 11:
		ioctl(events[i].fd, PERF_EVENT_IOC_ID, &x);
		break;
	case 12:
		ioctl(events[i].fd, PERF_EVENT_IOC_PAUSE_OUTPUT, below(2));
		break;
	default:
		a = *attr_of(i);
		if (a.type != PERF_TYPE_BREAKPOINT && one_in(2)) {
			ioctl(events[i].fd, rnd() & 0xffff, rnd());
			forget_all_counts();
			break;
		}
		a.disabled = one_in(2);
		forget_all_counts();
		ioctl(events[i].fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &a);
	}
}

/* ---- processes ---- */

/* A child that works a little for ever, and moves. */
static void child(uint64_t its_seed)
{
	state = its_seed;
	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[i].fd >= 0)
			close(events[i].fd);
	for (;;) {
		cpu_set_t set;

		work();
		if (one_in(50)) {
			CPU_ZERO(&set);
			CPU_SET(below(cpus), &set);
			sched_setaffinity(0, sizeof(set), &set);
		}
		/* Children that never sleep would only take CPU time from the one that asks. */
		if (!one_in(4))
			usleep(below(4000));
		if (getppid() == 1)
			_exit(0);
	}
}

static void new_child(unsigned int i)
{
	uint64_t its_seed = rnd() | 1;

	if (children[i] > 0) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	fflush(stdout);
	children[i] = fork();
	if (!children[i])
		child(its_seed);
}

static void op_fork(void)
{
	pid_t pid;

	if (one_in(3)) {
		new_child(below(CHILDREN));
		return;
	}
	fflush(stdout);
	pid = fork();
	if (!pid) {
		work();
		if (one_in(2) && !fork())
			_exit(0);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void op_move(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(below(cpus), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void op_other(void)
{
	int i = some_event();
	struct pollfd p = {.events = POLLIN};

	switch (below(4)) {
	case 0:
		prctl(one_in(2) ? PR_TASK_PERF_EVENTS_ENABLE : PR_TASK_PERF_EVENTS_DISABLE);
		break;
	case 1:
		p.fd = i < 0 ? 0 : events[i].fd;
		poll(&p, i >= 0, 0);
		break;
	case 2:
		if (i >= 0)
			close(dup(events[i].fd));
		break;
	default:
		usleep(below(3000));
	}
}

static void operate(void)
{
	switch (below(20)) {
	case 0 ... 4:
		op_open();
		break;
	case 5:
		op_close();
		break;
	case 6 ... 8:
		op_read();
		break;
	case 9 ... 12:
		op_ioctl();
		break;
	case 13:
		op_ring();
		break;
	case 14:
		op_page();
		break;
	case 15:
		op_other();
		break;
	case 16:
		if (one_in(6))
			op_fork();
		break;
	case 17:
		op_move();
		break;
	default:
		work();
	}
}

/* ---- known counts ---- */

/* Count @rounds of loop() on this CPU. */
static bool counted(uint64_t config, unsigned long rounds, uint64_t *count)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(a),
		.config = config,
		.disabled = 1,
		.exclude_kernel = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	uint64_t r[3] = {0};
	long fd = sys_open(&a, 0, -1, -1, 0);
	bool ok;

	if (fd < 0) {
		failed("a counter of its own: %s", strerror(errno));
		return false;
	}
	ioctl((int)fd, PERF_EVENT_IOC_ENABLE, 0);
	loop(rounds);
	ioctl((int)fd, PERF_EVENT_IOC_DISABLE, 0);
	ok = read((int)fd, r, sizeof(r)) == sizeof(r) && r[1] == r[2] && r[1];
	if (!ok)
		failed("a counter of its own was enabled %llu ns and ran %llu",
		       (unsigned long long)r[1], (unsigned long long)r[2]);
	close((int)fd);
	*count = r[0];
	return ok;
}

/* What is around the loop is the same each time. */
static void check_known(unsigned int cpu)
{
	static const struct {
		uint64_t config, each;
		const char *name;
	} rows[] = {
		{PERF_COUNT_HW_INSTRUCTIONS, 2, "instructions"},
		{PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 1, "branches"},
	};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		failed("moving to CPU %u: %s", cpu, strerror(errno));
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t a = 0, b = 0;

		if (!counted(rows[i].config, 1000, &a) || !counted(rows[i].config, 1001000, &b))
			continue;
		if (b - a != 1000000 * rows[i].each)
			failed("CPU %u: %s of a million rounds are %llu, not %llu", cpu,
			       rows[i].name, (unsigned long long)(b - a),
			       (unsigned long long)(1000000 * rows[i].each));
		if (a < 1000 * rows[i].each || a > 1000 * rows[i].each + 100)
			failed("CPU %u: %s of a thousand rounds are %llu", cpu, rows[i].name,
			       (unsigned long long)a);
	}
}

static unsigned long number(const char *text)
{
	char *end;
	unsigned long x = strtoul(text, &end, 0);

	if (!*text || *end) {
		fprintf(stderr, "usage: random SEED OPERATIONS [breakpoints]\n");
		exit(2);
	}
	return x;
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	unsigned long ops;

	if (argc < 3 || argc > 4 || (argc == 4 && strcmp(argv[3], "breakpoints"))) {
		fprintf(stderr, "usage: random SEED OPERATIONS [breakpoints]\n");
		return 2;
	}
	seed = number(argv[1]);
	ops = number(argv[2]);
	breakpoints = argc == 4;
	state = seed * 0x9e3779b97f4a7c15ULL + 1;
	cpus = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	sigaction(SIGIO, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	sigaction(SIGTRAP, &sa, NULL);
	sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	for (unsigned int i = 0; i < EVENTS; i++)
		events[i].fd = events[i].leader = -1;
	for (unsigned int i = 0; i < CHILDREN; i++)
		new_child(i);
	for (unsigned long i = 0; i < ops; i++) {
		operate();
	}
	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[i].fd >= 0)
			close_event(&events[i]);
	for (unsigned int i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	for (unsigned int cpu = 0; cpu < cpus; cpu++)
		check_known(cpu);
	printf("random: %llu %s: %lu operations, %llu opens (%llu refused), %llu reads, %llu "
	       "records "
	       "(%llu samples), %d signals\n",
	       (unsigned long long)seed, failures ? "FAILED" : "ok", ops,
	       (unsigned long long)done_opens, (unsigned long long)done_refused,
	       (unsigned long long)done_reads, (unsigned long long)done_records,
	       (unsigned long long)done_samples, (int)signals);
	return failures != 0;
}
