// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Operations of the random user on perf events: open, read, map, change and close. Its readings
 * is checked here: counts and times that go down, records that are not whole.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "random.h"

#define MEMBERS_MAX 128
#define GROUP_WORDS (3 + 3 * MEMBERS_MAX)

struct event events[EVENTS];
uint64_t done_opens, done_refused, done_reads, done_records, done_samples;

long sys_open(struct perf_event_attr *a, pid_t pid, int cpu, int group, unsigned long flags)
{
	return syscall(SYS_perf_event_open, a, pid, cpu, group, flags);
}

int some_event(void)
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

void close_event(struct event *e)
{
	unsigned int members = 1;

	if (e->map && one_in(2)) {
		munmap(e->map, e->map_bytes);
		e->map = NULL;
	}
	close(e->fd);
	if (e->map)
		munmap(e->map, e->map_bytes);
	for (unsigned int i = 0; i < EVENTS; i++)
		members += events[i].leader == e - events;
	for (unsigned int i = 0; i < EVENTS; i++)
		if (events[i].leader == e - events) {
			events[i].leader = -1;
			events[i].was_of = members;
		}
	memset(e, 0, sizeof(*e));
	e->fd = e->leader = -1;
}

void op_open(void)
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
	if (flags & PERF_FLAG_FD_NO_GROUP)
		leader = -1;
	if (leader >= 0)
		events[leader].was_of = 0;
	events[at] =
		(struct event){.fd = (int)fd, .attr = a, .leader = leader, .pid = pid, .cpu = cpu};
	if (ioctl((int)fd, PERF_EVENT_IOC_ID, &events[at].id))
		failed("event %u has no ID", at);
	if (one_in(2)) {
		size_t bytes = (1 + (one_in(20) ? below(9) : 1u << below(5))) * (size_t)PAGE;
		int prot = PROT_READ | (one_in(4) ? 0 : PROT_WRITE);
		void *map = mmap(NULL, bytes, prot, MAP_SHARED, (int)fd, 0);

		if (map != MAP_FAILED) {
			events[at].map = map;
			events[at].map_bytes = bytes;
			events[at].own_ring = (prot & PROT_WRITE) && !(flags & PERF_FLAG_FD_OUTPUT);
		}
	}
	if (one_in(6)) {
		fcntl((int)fd, F_SETFL, O_ASYNC | O_NONBLOCK);
		fcntl((int)fd, F_SETSIG, one_in(2) ? SIGIO : SIGRTMIN);
		fcntl((int)fd, F_SETOWN, getpid());
	}
}

void op_close(void)
{
	int i = some_event();

	if (i >= 0)
		close_event(&events[i]);
}

/* ---- reading ---- */

/* Returns true if the kernel only ever adds to the count of such an event. */
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
		failed("times of event %u (type %u config 0x%llx pid %d cpu %d inherit %u pinned "
		       "%u) went from %llu/%llu to %llu/%llu",
		       i, e->attr.type, (unsigned long long)e->attr.config, (int)e->pid, e->cpu,
		       e->attr.inherit, e->attr.pinned, (unsigned long long)e->enabled,
		       (unsigned long long)e->running, (unsigned long long)enabled,
		       (unsigned long long)running);
	e->counted = true;
	e->value = value;
	e->enabled = times ? enabled : 0;
	e->running = times ? running : 0;
}

/* A read of event @i gave @got bytes at @buf, where @want are right. Another run may not come to
 * this again, so the whole evidence is printed at once. */
static void wrong_size(int i, const uint64_t *buf, ssize_t got, size_t want)
{
	const struct event *e = &events[i];
	uint64_t again[GROUP_WORDS], id = 0;
	char words[8 * 20 + 1] = "", words_again[8 * 20 + 1] = "";
	unsigned int members = 0;
	ssize_t n;

	/* The pattern shows which words the kernel writes. */
	memset(again, 0xa5, sizeof(again));
	n = read(e->fd, again, sizeof(again));
	if (ioctl(e->fd, PERF_EVENT_IOC_ID, &id))
		id = 0;
	for (unsigned int k = 0; k < EVENTS; k++)
		members += events[k].fd >= 0 && events[k].leader == i;
	for (unsigned int k = 0; k < 8; k++) {
		sprintf(words + strlen(words), " 0x%llx", (unsigned long long)buf[k]);
		sprintf(words_again + strlen(words_again), " 0x%llx", (unsigned long long)again[k]);
	}
	failed("a read of event %d has %zd bytes, not %zu:%s", i, got, want, words);
	failed("  a second read has %zd bytes:%s", n, words_again);
	failed("  type %u config 0x%llx read_format 0x%llx pid %d cpu %d inherit %u pinned %u, ID "
	       "%llu (now %llu), leader %d, leads %u",
	       e->attr.type, (unsigned long long)e->attr.config,
	       (unsigned long long)e->attr.read_format, (int)e->pid, e->cpu, e->attr.inherit,
	       e->attr.pinned, (unsigned long long)e->id, (unsigned long long)id, e->leader,
	       members);
}

/*
 * Linux keeps the size of a read in the event. Until "perf/core: Fix group leader use-after-free
 * after sibling detach" (Debian's 6.1.176 is without it, 6.1.192 has it) it did not set that anew
 * for the members of a group with a closed leader. Each of them is a group of one then, and is
 * read as such, but with zeros up to the size of the old group. @n: words of the group of one.
 */
static bool size_of_old_group(const struct event *e, const uint64_t *buf, ssize_t got, size_t n)
{
	size_t each = 1 + !!(e->attr.read_format & PERF_FORMAT_ID);

	if (buf[0] != 1 || !e->was_of || (size_t)got != (n + (e->was_of - 1) * each) * 8)
		return false;
	for (; n < (size_t)got / 8; n++)
		if (buf[n])
			return false;
	return true;
}

void op_read(void)
{
	uint64_t buf[GROUP_WORDS];
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
		if ((size_t)got != n * 8 && !size_of_old_group(e, buf, got, n))
			wrong_size(i, buf, got, n * 8);
		/* the first is the leader; its counts are kept where it is read by itself */
		if (e->leader < 0 && (e->attr.read_format & PERF_FORMAT_ID) &&
		    buf[2 + enabled + running] != e->id)
			failed("event %d is in a group whose leader was closed", i);
		else if (e->leader < 0)
			check_counts(e, buf[1 + enabled + running], en, run, enabled && running);
		return;
	}
	en = enabled ? buf[n++] : 0;
	run = running ? buf[n++] : 0;
	n += !!(e->attr.read_format & PERF_FORMAT_ID);
	if ((size_t)got != n * 8)
		wrong_size(i, buf, got, n * 8);
	check_counts(e, buf[0], en, run, enabled && running);
}

/* Read the ring, as far as it can be understood from the outside. */
void op_ring(void)
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
		if (!e->own_ring) /* the kernel overwrites unread records */
			return;
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

/* The mapped page's count, with RDPMC if the kernel offers it. */
void op_page(void)
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

void op_ioctl(void)
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
