// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples of the BPF backend on hardware counters that are exact: of a guest that executes a known
 * number of instructions there are floor(count / period) samples, and each is in the guest's code.
 * The period's end is noticed when the guest exits, so a guest must exit more often than that.
 */
#include <sys/mman.h>

#include "cgroup/cgroup.h"
#include "tests/beds/bed.h"
#include "tests/beds/bed_guest.h"

/* Each run of the guest is a loop of 2 * LOOP instructions, and one more. */
#define LOOP  2000
#define RUNS  2000
#define LINES 5

static struct bpf_backend *k;
static struct vpmu_backend *source;
static struct vpmu_backend_node *vm, *vcpu, *neighbour;

struct seen {
	uint64_t samples, side[VPMU_SIDE_HOST + 1], of_vcpu, of_guest, outside, in_line[LINES];
};

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s: %s", path,
		  strerror(errno));
	close(fd);
}

static void make_backend(void)
{
	const struct bpf_backend_opts opts = {.pin_dir = NULL};
	char why[512] = "";

	/* The kernel would lower the rate, as one interrupt takes it some microseconds here. */
	write_file("/proc/sys/kernel/perf_cpu_time_max_percent", "0");
	bed_one_cpu();
	cr_assert(!bpf_backend_open(&opts, &k, why, sizeof(why)), "%s", why);
	source = bpf_as_backend(k);
	cr_assert(!vpmu_backend_node_add(source->root, 1, &vm));
	cr_assert(!vpmu_backend_node_add(vm, 2, &vcpu));
	cr_assert(!vpmu_backend_node_add(source->root, 3, &neighbour));
	cr_assert(!bpf_backend_bind_task(vcpu, gettid(), bed_start_time(gettid())));
}

/* KVM of Linux 6.1 on x86 tells perf the mode that the vCPU had when it was last preempted. */
static bool is_guest_kernel(enum vpmu_side side)
{
#ifdef __x86_64__
	if (side == VPMU_SIDE_GUEST_USER)
		return true;
#endif
	return side == VPMU_SIDE_GUEST_KERNEL;
}

static void take(void *arg, const struct vpmu_backend_sample *s)
{
	static const uint64_t line[LINES] = BED_GUEST_LINES;
	struct seen *seen = arg;
	size_t i = 0;

	seen->samples++;
	seen->side[s->side]++;
	seen->of_vcpu += s->serial == 2;
	if (!is_guest_kernel(s->side))
		return;
	seen->of_guest++;
	while (i < LINES && s->ip != BED_GUEST_CODE + line[i])
		i++;
	if (i == LINES)
		seen->outside++;
	else
		seen->in_line[i]++;
}

static struct vpmu_sampling *start(const char *event, uint64_t period,
				   struct vpmu_backend_node *node, struct seen *seen)
{
	struct vpmu_sampling_opts o = {.period = period, .sample = take, .arg = seen};
	struct vpmu_sampling *s;
	char err[256] = "";
	int ret;

	*seen = (struct seen){0};
	cr_assert(!vpmu_event_parse(event, VPMU_SPACE_GENERIC, &o.key, err, sizeof(err)), "%s",
		  err);
	ret = vpmu_backend_sample_start(node, &o, &s);
	cr_assert(!ret, "%s", strerror(-ret));
	return s;
}

/* Returns how many instructions the CPU counts as the guest's. */
static uint64_t run_guest(struct bed_guest *g, unsigned int runs)
{
	uint64_t entries = bed_guest_entries(g);

	for (unsigned int i = 0; i < runs; i++) {
		bed_guest_start(g, LOOP);
		while (bed_guest_run(g))
			;
	}
	return runs * (2ULL * LOOP + 1) + bed_guest_entries(g) - entries;
}

static void stop(struct vpmu_sampling *s, uint64_t *count)
{
	struct vpmu_sampling_state state;
	struct vpmu_value v;

	vpmu_backend_flush_node(s->node);
	vpmu_backend_sample_read(s, &v);
	vpmu_backend_sample_state(s, &state);
	cr_expect_eq(state.lost + state.throttled + state.nobodys, 0u);
	cr_expect_null(state.note, "%s", state.note);
	cr_expect(v.supported && !v.partial && v.running_ns == v.enabled_ns);
	*count = v.count;
	vpmu_backend_sample_stop(s);
}

Test(bed_profile, samples_are_the_floor_of_the_count)
{
	static const uint64_t periods[] = {8009, 10000, 50021, 100000, 1000003};
	struct bed_guest g;

	bed_guest_make(&g);
	make_backend();
	for (size_t i = 0; i < sizeof(periods) / sizeof(periods[0]); i++) {
		struct vpmu_sampling *s, *other;
		struct seen seen, none;
		uint64_t done, count, others;

		s = start("instructions:G", periods[i], vm, &seen);
		other = start("instructions:G", periods[i], neighbour, &none);
		done = run_guest(&g, RUNS);
		stop(other, &others);
		stop(s, &count);
		printf("period %lu: %lu instructions, %lu samples, in the lines of the loop "
		       "%lu %lu %lu %lu %lu\n",
		       periods[i], count, seen.samples, seen.in_line[0], seen.in_line[1],
		       seen.in_line[2], seen.in_line[3], seen.in_line[4]);
		cr_expect_eq(count, done, "%lu counted", count);
		cr_expect_eq(seen.samples, done / periods[i]);
		cr_expect_eq(seen.of_guest, seen.samples);
		cr_expect_eq(seen.of_vcpu, seen.samples);
		cr_expect_eq(seen.outside, 0u);
		cr_expect_eq(none.samples + others, 0u, "nothing is the neighbour's");
	}
	bpf_backend_close(k);
	bed_guest_free(&g);
}

/* Work of the vCPU's thread outside the guest is the host's. */
Test(bed_profile, the_host_side)
{
	struct vpmu_sampling *s;
	struct bed_guest g;
	struct seen seen;
	uint64_t count;

	bed_guest_make(&g);
	make_backend();
	s = start("instructions:uH", 100000, vm, &seen);
	for (int i = 0; i < 2500; i++) { /* the emulator notices a period's end at system calls */
		bed_loop(2000);
		syscall(SYS_getppid);
	}
	run_guest(&g, 100);
	stop(s, &count);
	printf("user mode of the VMM: %lu instructions, %lu samples, by side", count, seen.samples);
	for (int i = 0; i <= VPMU_SIDE_HOST; i++)
		printf(" %lu", seen.side[i]);
	putchar('\n');
	cr_expect_geq(count, 10000000u);
	/* The emulator interrupts at the system call, in the kernel, or at a tick. */
	cr_expect_eq(seen.side[VPMU_SIDE_VMM] + seen.side[VPMU_SIDE_HOST], seen.samples);
	cr_expect_eq(seen.of_vcpu, seen.samples);
	/* Others ran on this CPU, too, and some of its samples are theirs. */
	cr_expect_leq(seen.samples, count / 100000 + 1);
	cr_expect_geq(seen.samples, 95u);
	bpf_backend_close(k);
	bed_guest_free(&g);
}
