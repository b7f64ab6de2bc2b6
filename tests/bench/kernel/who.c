// SPDX-License-Identifier: GPL-2.0-or-later
/* Who counts while vpmu-kernel-bench lets tasks switch: the BPF backend, perf, programs that do
 * nothing. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "tests/bench/kernel/kbench.h"
#include "vpmu/event/event.h"

#define PERF_MAX     64	   /* processes of perf, each with as many tenants as its files allow */
#define PERF_MS	     60000 /* a perf that does not count by then never does */
#define PERF_RESERVE 200   /* files that perf needs beside those of events */
#define ARG_MAX_LEN  (128 * 1024) /* MAX_ARG_STRLEN of Linux */

const char *perf_path = "perf";

/* ---- the BPF backend ---- */

void backend_open(struct backend *p, unsigned int tenants, const char *events)
{
	static struct vpmu_value values[MAX_TENANTS][8];
	static vpmu_key_t keys[8];
	const struct bpf_backend_opts o = {.pin_dir = NULL};
	char why[512];
	size_t n = 8, failed;
	int ret = bpf_backend_open(&o, &p->k, why, sizeof(why));

	if (ret)
		skip("%s", why);
	if (vpmu_event_parse_list(events, VPMU_SPACE_GENERIC, keys, NULL, &n, why, sizeof(why)))
		skip("%s", why);
	p->nr = tenants;
	p->list = NULL;
	for (unsigned int i = 0; i < tenants; i++) {
		struct vpmu_counting *c;

		if (vpmu_backend_node_add(bpf_as_backend(p->k)->root, i + 1, &p->node[i]) ||
		    bpf_backend_bind_cgroup(p->node[i], ground_id(i)) ||
		    !(c = vpmu_counting_new(p->node[i], keys, n, values[i])))
			skip("node %u: no memory", i);
		c->next = p->list;
		p->list = c;
	}
	ret = tenants ? vpmu_backend_attach(p->list, &failed) : 0;
	if (ret)
		skip("attach: %s", strerror(-ret));
}

void backend_read(const struct backend *p)
{
	vpmu_backend_flush(p->list);
	for (struct vpmu_counting *c = p->list; c; c = c->next)
		vpmu_backend_read(c);
}

void backend_close(struct backend *p)
{
	if (p->nr)
		vpmu_backend_detach(p->list);
	while (p->list) {
		struct vpmu_counting *c = p->list;

		p->list = c->next;
		vpmu_counting_free(c);
	}
	bpf_backend_close(p->k);
}

/* ---- perf stat --for-each-cgroup ---- */

/* A process of perf that counts for tenants @from to @to - 1, once it counts; 0: it does not. */
static pid_t perf_start(unsigned int from, unsigned int to, const char *events, bool bpf, char *why,
			size_t size)
{
	struct pollfd wait = {.events = POLLIN};
	char *list = calloc(1, ARG_MAX_LEN), *at = list, said[512] = "";
	int ready[2], out = memfd_create("perf", 0), null = open("/dev/null", O_RDWR);
	pid_t pid;
	char c;

	if (!list || out < 0 || null < 0 || pipe(ready))
		skip("no memory or files for perf");
	for (unsigned int i = from; i < to; i++) {
		char name[32];
		int n = ground_name(name, sizeof(name), i);

		if (at - list + n + 2 > ARG_MAX_LEN)
			skip("the names of %u tenants are too long for perf", to - from);
		at += sprintf(at, "%s%s", i > from ? "," : "", name);
	}
	pid = fork();
	if (!pid) {
		char sh[64];

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setpgid(0, 0); /* perf leaves it to the terminal to end its command */
		dup2(null, 0);
		dup2(out, 1);
		dup2(out, 2);
		/* perf starts the command when it counts. */
		snprintf(sh, sizeof(sh), "echo >/dev/fd/%d; exec sleep 1000", ready[1]);
		if (bpf)
			execlp(perf_path, "perf", "stat", "--bpf-counters", "-a", "-e", events,
			       "--for-each-cgroup", list, "sh", "-c", sh, NULL);
		else
			execlp(perf_path, "perf", "stat", "-a", "-e", events, "--for-each-cgroup",
			       list, "sh", "-c", sh, NULL);
		_exit(1);
	}
	free(list);
	close(ready[1]);
	close(null);
	wait.fd = ready[0];
	if (pid < 0 || poll(&wait, 1, PERF_MS) != 1 || read(ready[0], &c, 1) != 1) {
		if (pread(out, said, sizeof(said) - 1, 0) < 0)
			said[0] = 0;
		said[strcspn(said + strspn(said, "\n "), "\n") + strspn(said, "\n ")] = 0;
		snprintf(why, size, "%s %s %s", perf_path,
			 wait.revents ? "ended before it counted:"
				      : "does not count within a minute:",
			 said + strspn(said, "\n "));
		if (pid > 0) {
			kill(-pid, SIGKILL);
			kill(pid, SIGKILL);
			waitpid(pid, NULL, 0);
		}
		pid = 0;
	}
	close(ready[0]);
	close(out);
	return pid;
}

static void perf_stop(pid_t pid)
{
	kill(-pid, SIGINT);
	waitpid(pid, NULL, 0);
}

/* How many tenants one perf can have: it opens a file for each event, CPU and cgroup. */
static unsigned int perf_tenants(int events)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_max == RLIM_INFINITY)
		return MAX_TENANTS;
	if (r.rlim_max <= PERF_RESERVE)
		return 1;
	return (unsigned int)((r.rlim_max - PERF_RESERVE) / (unsigned long)(cpus * events + 1));
}

/* ---- programs that do nothing ---- */

static const struct bpf_insn empty[] = {
	{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0},
	{.code = BPF_JMP | BPF_EXIT},
};

/* At every switch, as ours is (tp_btf). */
static int empty_btf(void)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	int prog, link, id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);

	if (id <= 0)
		return -1;
	opts.attach_btf_id = (__u32)id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", empty, 2, &opts);
	if (prog < 0)
		return -1;
	link = bpf_raw_tracepoint_open(NULL, prog);
	close(prog);
	return link;
}

static int empty_tp(void)
{
	int prog = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "empty", "GPL", empty, 2, NULL);
	int fd = prog < 0 ? -1 : bpf_raw_tracepoint_open("sched_switch", prog);

	if (prog >= 0)
		close(prog);
	return fd;
}

static int open_event(__u64 config, int cpu, __u64 period)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = config,
		.sample_period = period,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* When the cgroup changes: it is an event of its own. */
static int empty_cg(int cpu)
{
	int prog = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "empty", "GPL", empty, 2, NULL);
	int fd = prog < 0 ? -1 : open_event(PERF_COUNT_SW_CGROUP_SWITCHES, cpu, 1);

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_BPF, prog)) {
		close(fd);
		fd = -1;
	}
	if (prog >= 0)
		close(prog);
	return fd;
}

/* ---- for all of them ---- */

static enum who is;
static struct backend backend;
static pid_t perf[PERF_MAX];
static int fds[5];
static unsigned int nr_perf, nr_fds;

static bool keep_fd(int fd)
{
	if (fd >= 0)
		fds[nr_fds++] = fd;
	return fd >= 0;
}

/* The four events of EVENTS4 on @cpu. Nobody reads them. */
static bool open_events(int cpu)
{
	return keep_fd(open_event(PERF_COUNT_SW_CPU_CLOCK, cpu, 0)) &&
	       keep_fd(open_event(PERF_COUNT_SW_CONTEXT_SWITCHES, cpu, 0)) &&
	       keep_fd(open_event(PERF_COUNT_SW_PAGE_FAULTS, cpu, 0)) &&
	       keep_fd(open_event(PERF_COUNT_SW_CPU_MIGRATIONS, cpu, 0));
}

bool who_start(enum who who, unsigned int tenants, int events, int cpu, char *why, size_t size)
{
	const char *names = events == 8 ? EVENTS8 : events ? EVENTS4 : FAULTS;
	unsigned int most = who == PERF ? perf_tenants(events) : tenants;
	bool ok = true;

	is = who;
	nr_perf = nr_fds = 0;
	if (who == BACKEND)
		backend_open(&backend, tenants, names);
	for (unsigned int i = 0; (who == PERF || who == BPERF) && ok && i < tenants; i += most) {
		unsigned int to = tenants - i > most ? i + most : tenants;

		ok = nr_perf < PERF_MAX;
		if (!ok) {
			snprintf(why, size, "more than %d processes of perf", PERF_MAX);
			break;
		}
		perf[nr_perf] = perf_start(i, to, names, who == BPERF, why, size);
		ok = perf[nr_perf] > 0;
		nr_perf += ok;
	}
	errno = 0;
	if (who == EVENTS || who == EMPTY_EVENTS)
		ok = open_events(cpu);
	if (ok && (who == EMPTY_BTF || who == EMPTY_EVENTS))
		ok = keep_fd(empty_btf());
	if (ok && who == EMPTY_TP)
		ok = keep_fd(empty_tp());
	if (ok && who == EMPTY_CG)
		ok = keep_fd(empty_cg(cpu));
	if (!ok) {
		if (who != PERF && who != BPERF)
			snprintf(why, size, "%s", strerror(errno));
		who_stop();
	}
	return ok;
}

void who_stop(void)
{
	if (is == BACKEND)
		backend_close(&backend);
	while (nr_perf)
		perf_stop(perf[--nr_perf]);
	while (nr_fds)
		close(fds[--nr_fds]);
	is = NOBODY;
}
