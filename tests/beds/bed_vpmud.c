// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmud on a host with a PMU, asked as an operator asks it: hardware counts of tenants and VMs to
 * the instruction, before and after it is killed. armbed, x86bed: tenants that loop, and the filter
 * of system calls. kvmbed: a VM that vpmud finds by itself.
 */
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "service/daemon/contain.h"
#include "tests/beds/bed.h"
#include "tests/beds/bed_guest.h"
#include "tests/beds/operator.h"
#include "tests/beds/workload.h"
#include "tests/contain_calls.h"

#define TENANTS 3u
#define TIMES	20u
#define SHOWS	20000000u /* a loop of some ticks */
#define CONFIG                                                                                     \
	"[vpmud]\n"                                                                                \
	"libvirt = none\n"                                                                         \
	"[tenant /t0]\ncgroup = /t0\n"                                                             \
	"[tenant /t1]\ncgroup = /t1\n"                                                             \
	"[tenant /t2]\ncgroup = /t2\n"

/* How the kernel reports tasks that move: Debian's has fentry on x86 only. */
#ifdef __aarch64__
#define MOVES_BY "kprobe"
#else
#define MOVES_BY "fentry"
#endif

static const char *const tenant[TENANTS] = {"t0", "t1", "t2"};
static const char *const path[TENANTS] = {"/t0", "/t1", "/t2"};

static uint64_t loop_of(unsigned int i)
{
	return 30000 + 11111 * i;
}

/* A process in each tenant that executes TIMES loops of 2 * loop_of() instructions. */
static void make_loops(struct looper l[TENANTS])
{
	for (unsigned int i = 0; i < TENANTS; i++)
		looper_make(&l[i], tenant[i], loop_of(i), TIMES);
	usleep(10000); /* until all of them wait */
}

static void play_loops(struct looper l[TENANTS])
{
	for (unsigned int i = 0; i < TENANTS; i++)
		looper_start(&l[i]);
	for (unsigned int i = 0; i < TENANTS; i++)
		looper_end(&l[i]);
}

/* The process @l of tenant @i has executed its loops and its fixed rest. */
static void expect_loops(const char *what, uint64_t counted, unsigned int i, uint64_t *besides)
{
	uint64_t loops = 2 * loop_of(i) * TIMES;

	cr_assert(counted != UINT64_MAX && counted > loops, "%s: tenant %u: %lu instructions", what,
		  i, counted);
	if (!*besides)
		*besides = counted - loops;
	cr_expect_eq(counted, loops + *besides, "%s: tenant %u: %lu beside its loops, not %lu",
		     what, i, (counted - loops), *besides);
}

static void conserved(void)
{
	const char *out = asked("conservation");

	cr_expect(has_line(out, "instructions:uGH", " yes", NULL), "%s", out);
	cr_expect(has_line(out, "cycles:GH", " yes", NULL), "%s", out);
	cr_expect(!has_line(out, " no", NULL, NULL), "%s", out);
}

/* Debian's kernels start with 3, which permits perf events to CAP_SYS_ADMIN only. */
static void paranoid(const char *level)
{
	int fd = open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY | O_CLOEXEC);

	cr_assert(fd >= 0 && write(fd, level, strlen(level)) == (ssize_t)strlen(level));
	close(fd);
}

/* ---- tenants ------------------------------------------------------------------------------ */

/* Each of the three rounds is counted exactly: the first while vpmud runs, the second while it is
 * dead, the third by its successor. All of it is in the session that the first one has opened. */
Test(bed_vpmud, a_session_is_exact_over_kill_9)
{
	struct looper l[TENANTS];
	uint64_t before[TENANTS], besides = 0, cycles;
	const char *out;
	pid_t vpmud;

	for (unsigned int i = 0; i < TENANTS; i++)
		cgroup_make(tenant[i]);
	paranoid("2");
	vpmud = vpmud_start(CONFIG);
	out = asked("list");
	for (unsigned int i = 0; i < TENANTS; i++)
		cr_expect(has_line(out, tenant[i], "tenant", NULL), "%s", out);
	cr_expect(has_line(asked("check"), "BPF backend", "yes", "no counter is in use"));

	/* The processes are made before, so that each executes the same while it is counted. */
	make_loops(l);
	asked("attach s -e instructions:uGH,cycles:GH --for-each tenant");
	play_loops(l);
	/* A confined vpmud may attach that program, too. */
	cr_expect(has_line(asked("check"), "tasks that move while they run", "yes", MOVES_BY));
	out = asked("stat --session s -x,");
	for (unsigned int i = 0; i < TENANTS; i++) {
		before[i] = cell(out, "instructions:uGH", path[i], "", "");
		expect_loops("while vpmud runs", before[i], i, &besides);
	}
	printf("each tenant: its loops and %lu instructions in user mode\n", besides);
	cr_expect_lt(besides, 1000u);
	conserved();

	make_loops(l);
	out = asked("stat --session s -x,");
	for (unsigned int i = 0; i < TENANTS; i++)
		before[i] = cell(out, "instructions:uGH", path[i], "", "");
	vpmud_kill(vpmud);
	play_loops(l);
	vpmud = vpmud_start(CONFIG);
	out = asked("stat --session s -x,");
	for (unsigned int i = 0; i < TENANTS; i++)
		expect_loops("while nobody runs",
			     cell(out, "instructions:uGH", path[i], "", "") - before[i], i,
			     &besides);
	conserved();

	make_loops(l);
	out = asked("stat --session s -x,");
	for (unsigned int i = 0; i < TENANTS; i++)
		before[i] = cell(out, "instructions:uGH", path[i], "", "");
	play_loops(l);
	out = asked("stat --session s -x,");
	for (unsigned int i = 0; i < TENANTS; i++) {
		expect_loops("the next vpmud",
			     cell(out, "instructions:uGH", path[i], "", "") - before[i], i,
			     &besides);
		cycles = cell(out, "cycles:GH", path[i], "", "");
		cr_expect(cycles != UINT64_MAX && cycles > 0);
	}
	conserved();
	asked("detach s");
	/* When it is sure that all is found that its predecessor had. */
	while (!has_line(asked("check"), "BPF backend", "yes", "no counter is in use"))
		sleep(1); /* a check takes the emulator a second */
	vpmud_stop(vpmud);
}

/*
 * The events of a CPU that goes are dead for good. If it goes and comes back between two looks,
 * the next vpmud must notice it: what runs there afterwards is counted, to the instruction, and
 * missed counts are marked.
 */
Test(bed_vpmud, a_cpu_that_was_away_while_vpmud_was_dead)
{
	uint64_t before, besides = 0;
	struct looper l;
	const char *out;
	pid_t vpmud;

	if (access("/sys/devices/system/cpu/cpu1/online", F_OK))
		cr_skip_test("one CPU");
	for (unsigned int i = 0; i < TENANTS; i++)
		cgroup_make(tenant[i]);
	cgroups_apart(); /* a move is told: nothing is partial because of it */
	paranoid("2");
	vpmud = vpmud_start(CONFIG);
	asked("attach s -e instructions:uGH,cycles:GH,page-faults --for-each tenant");
	for (unsigned int i = 0; i < 2; i++) {
		if (i) {
			vpmud_kill(vpmud);
			bed_cpu1(false);
			bed_cpu1(true);
			vpmud = vpmud_start(CONFIG);
		}
		bed_run_on(1);
		looper_make(&l, tenant[0], loop_of(0), TIMES);
		bed_run_on(0);
		usleep(10000); /* until it waits */
		before = cell(asked("stat --session s -x,"), "instructions:uGH", path[0], "", "");
		cr_assert_neq(before, UINT64_MAX);
		looper_start(&l);
		looper_end(&l);
		out = asked("stat --session s -x,");
		cr_expect_eq(has_line(out, ",instructions:uGH,/t0,,", "partial", NULL), i == 1,
			     "%s", out);
		expect_loops(i ? "the CPU is back" : "before it goes",
			     cell(out, "instructions:uGH", path[0], "", "") - before, 0, &besides);
	}
	conserved();
	asked("detach s");
	vpmud_stop(vpmud);
}

/* ---- rights ------------------------------------------------------------------------------- */

/* It counts with the filter in force, and the filter is that of this CPU. */
Test(bed_vpmud, is_contained)
{
	pid_t vpmud = vpmud_start("[vpmud]\nlibvirt = none\npin_dir = none\n");
	const char *out = asked("check");

	cr_expect(has_line(out, "contain: system calls", "yes", "no exec"), "%s", out);
	cr_expect(has_line(out, "contain: capabilities", "yes", "CAP_BPF and CAP_PERFMON"), "%s",
		  out);
	vpmud_stop(vpmud);
}

/* Without the right to count it reports that, and makes no number up. */
Test(bed_vpmud, is_not_permitted)
{
	const char *out;
	pid_t vpmud;

	paranoid("3");
	vpmud = vpmud_start("[vpmud]\nlibvirt = none\npin_dir = none\n");
	out = asked("check");
	if (!has_line(out, "vpmud may count ", "no", "perf_event_paranoid of 2 or less")) {
		vpmud_stop(vpmud);
		paranoid("2");
		cr_skip_test("this kernel knows no perf_event_paranoid of 3");
	}
	out = asked("stat -e instructions:uGH,page-faults -x, -d 0.01");
	cr_expect(has_line(out, "<not supported>,,instructions:uGH,", NULL, NULL), "%s", out);
	cr_expect(has_line(out, "<not supported>,,page-faults,", NULL, NULL), "%s", out);
	paranoid("2");
	cr_expect(has_line(asked("check"), "vpmud may count ", "yes", NULL));
	vpmud_stop(vpmud);
}

/* The status of a child that calls @fn behind the filter. */
static int behind_filter(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || contain_syscalls(NULL, 0) ? 99
											  : fn());
	cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status;
}

Test(bed_vpmud, filter_of_system_calls)
{
	int status = behind_filter(contain_refused);

	cr_expect_eq(status, 0, "%x", (unsigned int)status);
	status = behind_filter(contain_exec);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%x", (unsigned int)status);
	status = behind_filter(contain_trace);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS, "%x", (unsigned int)status);
}

/* ---- a VM --------------------------------------------------------------------------------- */

struct vm {
	pid_t pid;
	int start;	    /* a pipe: closed to start */
	uint64_t *executed; /* shared: instructions of its guest when it waits; 0 before */
};

static uint64_t guest_instructions(void)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < TIMES; i++)
		n += 2 * (loop_of(0) + i) + 1;
	return n;
}

/* A process of tenant @i with a VM of one vCPU, which has executed a loop, and waits. Neither a
 * name nor a system call shows the vCPU's thread: that it has been in a guest for some ticks does.
 */
static void make_vm(struct vm *vm, unsigned int i)
{
	struct bed_guest g;
	uint64_t entries;
	int start[2];
	char c;

	cr_assert(!pipe2(start, O_CLOEXEC));
	vm->executed = mmap(NULL, sizeof(*vm->executed), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(vm->executed != MAP_FAILED);
	vm->pid = fork();
	cr_assert(vm->pid >= 0);
	if (vm->pid == 0) {
		close(start[1]);
		cgroup_enter(tenant[i]);
		bed_guest_make(&g);
		bed_guest_start(&g, SHOWS);
		while (bed_guest_run(&g))
			;
		entries = bed_guest_entries(&g);
		if (read(start[0], &c, 1) != 0)
			_exit(1);
		for (unsigned int k = 0; k < TIMES; k++) {
			bed_guest_start(&g, loop_of(0) + k);
			while (bed_guest_run(&g))
				;
			sched_yield();
		}
		__atomic_store_n(vm->executed,
				 guest_instructions() + bed_guest_entries(&g) - entries,
				 __ATOMIC_RELEASE);
		pause();
		_exit(0);
	}
	close(start[0]);
	vm->start = start[1];
}

/* Wait until `vpmu list` shows the VM of process @pid with its vCPU, or (!@want) not at all. The
 * time is the machine's own, which is its instructions: a look at all processes begins each second
 * of it. */
static void until_found(pid_t pid, bool want)
{
	char word[24];

	snprintf(word, sizeof(word), "pid=%d", pid);
	for (int i = 0; has_line(asked("list"), want ? " vm   " : "vm", want ? " 1 state=" : word,
				 want ? word : NULL) != want;
	     i++) {
		cr_assert_lt(i, 400, "%s: %s after 20 seconds", word,
			     want ? "not found" : "still there");
		usleep(50000);
	}
}

Test(bed_vpmud, finds_a_vm_and_counts_its_guest)
{
	struct vm vm;
	const char *out;
	pid_t vpmud;
	uint64_t counted = 0, done = 0;
	char name[24];

	if (access("/dev/kvm", F_OK))
		cr_skip_test("no KVM in this bed");
	for (unsigned int i = 0; i < TENANTS; i++)
		cgroup_make(tenant[i]);
	paranoid("2");
	vpmud = vpmud_start(CONFIG);
	make_vm(&vm, 1); /* after it: what vpmud may read then counts */
	until_found(vm.pid, true);
	printf("%s", asked("list"));
	asked("attach s -e instructions:G,instructions:H,instructions:GH --for-each tenant");
	asked("attach v -e instructions:G --for-each vm -t /t1");
	close(vm.start);
	while (!done || counted == UINT64_MAX || counted < done) {
		usleep(10000);
		done = __atomic_load_n(vm.executed, __ATOMIC_ACQUIRE);
		counted = cell(asked("stat --session s -x,"), "instructions:G", "/t1", "", "");
	}
	out = asked("stat --session s -x,");
	cr_expect_eq(cell(out, "instructions:G", "/t1", "", ""), done, "%s", out);
	cr_expect_eq(cell(out, "instructions:G", "/", "", ""), done, "%s", out);
	out = asked("stat --session v -x,");
	snprintf(name, sizeof(name), ",/t1,");
	cr_expect(strtoull(out, NULL, 10) == done && strstr(out, name), "%s", out);
	kill(vm.pid, SIGKILL);
	cr_assert_eq(waitpid(vm.pid, NULL, 0), vm.pid);
	until_found(vm.pid, false);
	out = asked("stat --session s -x,");
	cr_expect_eq(cell(out, "instructions:G", "/t1", "", ""), done,
		     "what a VM that has ended counted is the tenant's: %s", out);
	out = asked("conservation");
	cr_expect(has_line(out, " instructions ", " yes", NULL) &&
			  !has_line(out, " no", NULL, NULL),
		  "%s", out);
	vpmud_stop(vpmud);
}
