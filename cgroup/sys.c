// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The backend's system calls, apart from creating maps. load.c uses these unless a test passes
 * others (struct bpf_backend_sys).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "vpmu/util/proctext.h"

static int sys_event_open(const struct perf_event_attr *attr, int cpu, int group)
{
	long rc = syscall(SYS_perf_event_open, attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC);

	return rc < 0 ? -errno : (int)rc;
}

static int sys_event_read(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns)
{
	uint64_t v[3];
	ssize_t n;

	do
		n = read(fd, v, sizeof(v));
	while (n < 0 && errno == EINTR);
	if (n != sizeof(v))
		return n < 0 ? -errno : -ENODATA;
	*count = v[0];
	*enabled_ns = v[1];
	*running_ns = v[2];
	return 0;
}

static int sys_event_switch(int fd, bool on)
{
	int rc =
		ioctl(fd, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);

	return rc ? -errno : 0;
}

static int sys_event_reset(int fd)
{
	return ioctl(fd, PERF_EVENT_IOC_RESET, 0) ? -errno : 0;
}

static bool sys_cpuid(uint32_t leaf, uint32_t r[4])
{
#if defined(__x86_64__)
	__cpuid_count(leaf, 0, r[0], r[1], r[2], r[3]);
	return true;
#else
	return false;
#endif
}

/* Attach an empty program to the hook. Returns a file descriptor; negative: refused. */
static int hook_trace(int hook)
{
	const struct bpf_insn leave[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, o, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = (__u32)hook);
	int prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "vpmu_may", "GPL", leave, 2, &o), link;

	if (prog < 0)
		return prog;
	link = bpf_raw_tracepoint_open(NULL, prog);
	close(prog);
	return link;
}

static int hook_probe(void)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	char type[16];

	proctext_read(type, sizeof(type), "/sys/bus/event_source/devices/kprobe/type");
	attr.kprobe_func = (uintptr_t)KP_MOVE_HOOK;
	return sscanf(type, "%u", &attr.type) == 1 ? sys_event_open(&attr, 0, -1) : -ENOENT;
}

static bool sys_may_hook(unsigned int means, int hook)
{
	int fd;

	if (means == MOVE_TRACEPOINT)
		return true;
	fd = means == MOVE_FENTRY ? hook_trace(hook) : hook_probe();
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int sys_map_set(int fd, const void *key, const void *value)
{
	return bpf_map_update_elem(fd, key, value, BPF_ANY);
}

/* One call for all pages, because each call waits for a grace period. */
static int sys_pages(int fd, const uint32_t *index, const int *page, uint32_t n)
{
	__u32 count = n;

	return bpf_map_update_batch(fd, index, page, &count, NULL);
}

static int sys_ask(int prog, unsigned int cpu, uint64_t arg, uint32_t *answer)
{
	uint64_t ctx[4] = {arg};
	LIBBPF_OPTS(bpf_test_run_opts, o, .ctx_in = ctx, .ctx_size_in = sizeof(ctx),
		    .flags = BPF_F_TEST_RUN_ON_CPU, .cpu = cpu);
	int ret = bpf_prog_test_run_opts(prog, &o);

	*answer = o.retval;
	return ret;
}

/* Retry limit: a CPU is busy for some microseconds, with interrupts on. */
#define RUN_TRIES 100000

static int sys_run(int prog, unsigned int cpu)
{
	uint32_t answer = 0;
	int ret;

	for (unsigned int i = 0; i < RUN_TRIES; i++) {
		ret = sys_ask(prog, cpu, KP_FLUSH_ASKED, &answer);
		if (ret || answer != KP_FLUSH_BUSY)
			return ret;
	}
	return -EBUSY;
}

const struct bpf_backend_sys bpf_backend_sys_real = {
	.event_open = sys_event_open,
	.event_switch = sys_event_switch,
	.event_reset = sys_event_reset,
	.event_read = sys_event_read,
	.cpuid = sys_cpuid,
	.load = bpf_object__load_skeleton,
	.attach = bpf_program__attach,
	.may_hook = sys_may_hook,
	.map_set = sys_map_set,
	.map_del = bpf_map_delete_elem,
	.pages = sys_pages,
	.run = sys_run,
	.ask = sys_ask,
	.files = "",
};

/* Parses a kernel CPU list such as "0-3,8"; it may be empty. */
bool bpf_backend_cpus(const struct bpf_backend_sys *sys, const char *name, bool *set,
		      unsigned int nr)
{
	char text[4096], *at = text, *end;
	unsigned long first, last;

	memset(set, 0, nr * sizeof(*set));
	if (proctext_read(text, sizeof(text), "%s%s", sys->files, name) < 0)
		return false;
	while (*at >= '0' && *at <= '9') {
		first = last = strtoul(at, &end, 10);
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < nr; first++)
			set[first] = true;
		at = *end == ',' ? end + 1 : end;
	}
	return true;
}
