// SPDX-License-Identifier: GPL-2.0-or-later
/* Random attributes of perf events: half of them as tools ask for, half of them anything. */
#include <linux/hw_breakpoint.h>
#include <string.h>

#include "random.h"

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

/* The requests of tools: most of them are granted. */
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

/* Linux passes AnyThread on to every Intel PMU from version 3 on, also where CPUID says that there
 * is none. KVM's PMU and ours answer such a WRMSR by #GP, of which Linux complains. */
#define ANY_THREAD (1ULL << 21)

static void unchecked_attr(struct perf_event_attr *a)
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

void random_attr(struct perf_event_attr *a)
{
	unchecked_attr(a);
	if (a->type == PERF_TYPE_RAW)
		a->config &= ~ANY_THREAD;
}
