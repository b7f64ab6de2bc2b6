// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One thread's branch records by a perf event, see branches.h. The ring is written backwards, so
 * that its newest sample is at the head and the ring need not be emptied.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/sample/branches.h"
#include "cgroup/sample/ring.h"

#define SAMPLE_TYPE (RING_FIXED | PERF_SAMPLE_BRANCH_STACK)

struct branches {
	const struct sample_sys *sys;
	int fd;
	uint32_t ctl;
	size_t page;
	struct ring ring;
	uint64_t total; /* records seen in all copies that were read */
	uint64_t time_ns;
};

/* Call stacks are recorded in user mode only: Linux does not freeze them at the interrupt that
 * copies them, so with kernel code the handler's own calls would be on top. */
uint32_t branches_recorded(uint32_t ctl)
{
	return ctl & VPMU_LBR_CALL_STACK ? ctl & ~VPMU_LBR_OS : ctl;
}

/* perf's filter for @ctl; 0: not possible. */
static uint64_t filter(uint32_t ctl)
{
	static const struct {
		uint32_t types;
		uint64_t perf;
	} kinds[] = {
		{VPMU_LBR_TYPES, PERF_SAMPLE_BRANCH_ANY},
		{VPMU_LBR_REL_CALL | VPMU_LBR_IND_CALL, PERF_SAMPLE_BRANCH_ANY_CALL},
		{VPMU_LBR_RET, PERF_SAMPLE_BRANCH_ANY_RETURN},
		{VPMU_LBR_JCC, PERF_SAMPLE_BRANCH_COND},
		{VPMU_LBR_IND_JMP, PERF_SAMPLE_BRANCH_IND_JUMP},
	};
	uint32_t left = ctl & VPMU_LBR_TYPES;
	uint64_t f = PERF_SAMPLE_BRANCH_TYPE_SAVE;

	if (ctl & VPMU_LBR_CALL_STACK) {
		f |= PERF_SAMPLE_BRANCH_CALL_STACK;
		left = 0;
	}
	for (size_t i = 0; left && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if ((left & kinds[i].types) != kinds[i].types)
			continue;
		f |= kinds[i].perf;
		left &= ~kinds[i].types;
	}
	/* The remaining types cannot be selected by themselves. Without a privilege level perf
	 * would take the event's. */
	if (left || !(ctl & (VPMU_LBR_CALL_STACK | VPMU_LBR_TYPES)) ||
	    !(ctl & (VPMU_LBR_USR | VPMU_LBR_OS)))
		return 0;
	if (ctl & VPMU_LBR_USR)
		f |= PERF_SAMPLE_BRANCH_USER;
	if (ctl & VPMU_LBR_OS)
		f |= PERF_SAMPLE_BRANCH_KERNEL;
	return f;
}

static int branches_open_event(const struct sample_sys *sys, pid_t tid, uint32_t ctl)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.sample_period = BRANCHES_PERIOD,
		.sample_type = SAMPLE_TYPE,
		.branch_sample_type = filter(branches_recorded(ctl)),
		.disabled = 1,
		.exclude_hv = 1,
		.exclude_kernel = !(ctl & VPMU_LBR_OS),
		.exclude_user = !(ctl & VPMU_LBR_USR),
		.write_backward = 1,
		.watermark = 1,
		.wakeup_watermark = UINT32_MAX,
	};
	int fd;

	if (!attr.branch_sample_type)
		return -EOPNOTSUPP;
	fd = sys->open(&attr, tid, -1);
	switch (fd) {
	case -ENOENT: /* no hardware PMU */
	case -ENODEV:
	case -EINVAL:
		return -EOPNOTSUPP;
	case -EPERM:
		return -EACCES;
	default:
		return fd;
	}
}

int branches_probe(const struct sample_sys *sys, uint32_t ctl)
{
	int fd = branches_open_event(sys, 0, ctl);

	if (fd < 0)
		return fd;
	sys->close(fd);
	return 0;
}

int branches_open(const struct sample_sys *sys, pid_t tid, uint32_t ctl, struct branches **out)
{
	struct branches *b = calloc(1, sizeof(*b));
	void *base = NULL;
	int ret;

	if (!b)
		return -ENOMEM;
	b->sys = sys;
	b->ctl = branches_recorded(ctl);
	b->page = (size_t)sysconf(_SC_PAGESIZE);
	b->fd = branches_open_event(sys, tid, ctl);
	ret = b->fd < 0 ? b->fd : sys->map(b->fd, 2 * b->page, false, &base);
	if (!ret) {
		ring_init(&b->ring, base, b->page, b->page);
		ret = sys->control(b->fd, PERF_EVENT_IOC_ENABLE, 0);
	}
	if (ret) {
		branches_close(b);
		return ret == -EPERM ? -ENOMEM : ret; /* perf_event_mlock_kb is used up */
	}
	*out = b;
	return 0;
}

void branches_close(struct branches *b)
{
	if (!b)
		return;
	if (b->ring.page)
		b->sys->unmap(b->ring.page, 2 * b->page);
	if (b->fd >= 0)
		b->sys->close(b->fd);
	free(b);
}

/* Maps perf's branch types to those of VPMU_LBR_INFO_TYPE. */
static uint64_t branches_type_of(const struct perf_branch_entry *e)
{
	switch (e->type) {
	case PERF_BR_COND:
		return 0;
	case PERF_BR_IND:
		return 1;
	case PERF_BR_UNCOND:
		return 2;
	case PERF_BR_IND_CALL:
		return 3;
	case PERF_BR_CALL:
	case PERF_BR_COND_CALL:
		return 4;
	case PERF_BR_RET:
	case PERF_BR_COND_RET:
		return 5;
	default:
		return 8;
	}
}

struct taking {
	struct branches *b;
	struct vpmu_lbr_regs *r;
};

static void branches_take(const struct ring_sample *s, void *arg)
{
	const struct taking *t = arg;
	struct vpmu_lbr_regs *r = t->r;
	unsigned int n = s->nr_branches < VPMU_LBR_DEPTH_MAX ? s->nr_branches : VPMU_LBR_DEPTH_MAX;

	*r = (struct vpmu_lbr_regs){.ctl = t->b->ctl, .depth = VPMU_LBR_DEPTH_MAX};
	r->count = (uint8_t)n;
	r->head = (uint8_t)(n ? n - 1 : 0);
	for (unsigned int i = 0; i < n; i++) {
		const struct perf_branch_entry *e = &s->branches[i];
		struct vpmu_lbr_entry *to = &r->e[n - 1 - i];

		to->from = e->from;
		to->to = e->to;
		to->info = branches_type_of(e) << VPMU_LBR_INFO_TYPE_SHIFT;
		/* perf has 0 if the CPU gives no cycles. */
		if (e->cycles)
			to->info |= VPMU_LBR_INFO_CYC_VALID | e->cycles;
	}
	if (s->time_ns != t->b->time_ns)
		t->b->total += n;
	t->b->time_ns = s->time_ns;
	r->total = t->b->total;
}

int branches_read(struct branches *b, struct vpmu_lbr_regs *r)
{
	struct taking t = {.b = b, .r = r};
	struct ring_counts counts = {0};
	bool found;
	int ret = b->sys->control(b->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 1);

	if (ret)
		return ret;
	found = ring_newest(&b->ring, SAMPLE_TYPE, &counts, branches_take, &t);
	b->sys->control(b->fd, PERF_EVENT_IOC_PAUSE_OUTPUT, 0);
	return found ? 0 : -ENOENT;
}
