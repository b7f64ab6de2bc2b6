// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stock Linux guests (tools/linux-guest) as a user runs them, by vpmu-vmm.
 *
 * linux_boot_emu: Debian's cloud kernel from exec to the machine's end, with an init that switches
 * it off, on the emulator with 1 and 4 vCPUs and in QEMU's TCG with and without -icount. All of
 * them run once in each round. QEMU also runs its firmware and unpacks the kernel in the guest.
 * linux_idle: the share of a CPU that a VM with a sleeping init takes.
 *
 * Without the kernel, or for the first without QEMU, nothing is measured, and a line on stderr says
 * so.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench_bed.h"

#define QEMU	"qemu-system-x86_64"
#define LINUX	VPMU_SOURCE_DIR "/build/linux"
#define KERNEL	LINUX "/cloud.vmlinuz"
#define CMDLINE "console=ttyS0 panic=-1"
#define ROUNDS	5
#define IDLE_S	10 /* that an idle VM is looked at */

enum { EMU, EMU_4, ICOUNT, PLAIN, NR };

static char dir[] = "/tmp/vpmu-bench.XXXXXX";

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

/* Runs @argv with its output in @out, or nowhere if that is -1. Returns its process. */
static pid_t spawn(char *const *argv, int out)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	must(pid >= 0, argv[0], "fork");
	if (!pid) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(out < 0 ? null : out, 1);
		dup2(out < 0 ? null : out, 2);
		execvp(argv[0], argv);
		_exit(errno == ENOENT ? 127 : 126);
	}
	return pid;
}

/* The CPU time of @pid in s, and the exit status in *status. */
static double ended(pid_t pid, int *status)
{
	struct rusage used;

	while (wait4(pid, status, 0, &used) < 0)
		must(errno == EINTR, "wait4", strerror(errno));
	return seconds(&used.ru_utime) + seconds(&used.ru_stime);
}

static bool run(char *const *argv)
{
	int status;

	ended(spawn(argv, -1), &status);
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* An initial RAM disk with an init that executes @job. False: there is no kernel to boot. */
static bool prepare(const char *bench, const char *job, char initrd[64])
{
	char path[64], arg[80];
	char *gone[] = {VPMU_SOURCE_DIR "/tools/linux-guest", "gone", NULL};
	char *make[] = {VPMU_SOURCE_DIR "/tools/linux-guest", "initrd", initrd, arg, NULL};
	FILE *f;

	if (run(gone)) {
		fprintf(stderr,
			"vpmu-bench: %s: SKIPPED: no kernel in build/linux "
			"(tools/linux-guest fetches it)\n",
			bench);
		return false;
	}
	must(mkdtemp(dir), dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/job", dir);
	snprintf(arg, sizeof(arg), "job=%s", path);
	snprintf(initrd, 64, "%s/initrd", dir);
	f = fopen(path, "w");
	must(f && fputs(job, f) >= 0 && !fclose(f), path, "it cannot be written");
	must(run(make), "tools/linux-guest", "it makes no initial RAM disk");
	return true;
}

static void clean(void)
{
	char *rm[] = {"rm", "-r", dir, NULL};

	run(rm);
	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
}

static void vm_arg(char *arg, size_t room, const char *initrd, unsigned int vcpus)
{
	snprintf(arg, room,
		 "name=l1,engine=emulator,pmu=amd-v2,ram=512M,vcpus=%u,kernel=" KERNEL
		 ",initrd=%s,cmdline=" CMDLINE,
		 vcpus, initrd);
}

/* CPU time of one boot in s. */
static double boot(int what, char *initrd)
{
	char vm[512];
	char *vmm[] = {VPMU_BENCH_VMM, "--no-socket", "--vm", vm, NULL};
	char *qemu[] = {QEMU,
			"-accel",
			"tcg",
			"-M",
			"q35",
			"-m",
			"512",
			"-nographic",
			"-nodefaults",
			"-no-reboot",
			"-serial",
			"stdio",
			"-kernel",
			KERNEL,
			"-initrd",
			initrd,
			"-append",
			CMDLINE,
			"-no-user-config",
			NULL,
			NULL,
			NULL};
	int status;
	double s;

	if (what == EMU || what == EMU_4) {
		vm_arg(vm, sizeof(vm), initrd, what == EMU ? 1 : 4);
		s = ended(spawn(vmm, -1), &status);
	} else {
		if (what == ICOUNT) {
			qemu[19] = "-icount";
			qemu[20] = "shift=0";
		}
		s = ended(spawn(qemu, -1), &status);
	}
	must(WIFEXITED(status) && !WEXITSTATUS(status),
	     what == EMU || what == EMU_4 ? vmm[0] : QEMU, "the guest did not end well");
	return s;
}

int bench_linux_boot_emu(void)
{
	static const struct {
		const char *name, *unit;
		int a, b;
		double goal;
	} rows[3] = {
		{"linux_boot_emu", "x icount", EMU, ICOUNT, 0.5},
		{"linux_boot_emu_plain", "x qemu", EMU, PLAIN, 1},
		{"linux_boot_emu_4", "x 1 vCPU", EMU_4, EMU, 1.5},
	};
	unsigned int rounds = bench_rounds(ROUNDS);
	char *version[] = {QEMU, "--version", NULL};
	double s[NR][ROUNDS], ratio[3][ROUNDS], middle[NR];
	char initrd[64];

	if (!run(version)) {
		fprintf(stderr, "vpmu-bench: linux_boot_emu: SKIPPED: " QEMU " is not installed\n");
		return 0;
	}
	if (!prepare("linux_boot_emu", "head -n 26 /proc/cpuinfo\n", initrd))
		return 0;
	bench_unpin();
	for (unsigned int r = 0; r < rounds; r++)
		for (int i = 0; i < NR; i++)
			s[i][r] = boot(i, initrd);
	bench_pin();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned int r = 0; r < rounds; r++)
			ratio[i][r] = s[rows[i].a][r] / s[rows[i].b][r];
	for (int i = 0; i < NR; i++)
		middle[i] = median(s[i], rounds);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		bench_report(rows[i].name, median(ratio[i], rounds), rows[i].unit, rows[i].goal,
			     false,
			     json_pack("{s:f, s:f, s:i}", "s", middle[rows[i].a], "other_s",
				       middle[rows[i].b], "rounds", (int)rounds));
	clean();
	return 0;
}

/* The CPU time of @pid so far in s. */
static double cpu_time(pid_t pid)
{
	struct timespec t = {0};
	clockid_t clock;

	must(!clock_getcpuclockid(pid, &clock) && !clock_gettime(clock, &t), "vpmu-vmm",
	     "it ended early");
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int bench_linux_idle(void)
{
	char initrd[64], vm[512], said[4096];
	char *vmm[] = {VPMU_BENCH_VMM, "--no-socket", "--vm", vm, NULL};
	double cpu, begin;
	int out[2], status;
	ssize_t n;
	pid_t pid;
	FILE *f;

	/* One line when it is booted; then nothing but the kernel's own timers. */
	if (!prepare("linux_idle", "echo idle now\nsleep 100000\n", initrd))
		return 0;
	vm_arg(vm, sizeof(vm), initrd, 1);
	must(!pipe2(out, O_CLOEXEC), "pipe", strerror(errno));
	bench_unpin();
	pid = spawn(vmm, out[1]);
	close(out[1]);
	f = fdopen(out[0], "r");
	must(f, "fdopen", "out of memory");
	do
		must(fgets(said, sizeof(said), f), "vpmu-vmm", "the guest did not boot");
	while (!strstr(said, "idle now"));
	sleep(2); /* the kernel's work after its boot */
	cpu = cpu_time(pid);
	begin = clock_s(CLOCK_MONOTONIC);
	sleep(IDLE_S);
	cpu = (cpu_time(pid) - cpu) / (clock_s(CLOCK_MONOTONIC) - begin);
	kill(pid, SIGTERM);
	while ((n = read(out[0], said, sizeof(said))) > 0)
		;
	ended(pid, &status);
	fclose(f);
	bench_pin();
	bench_report("linux_idle", 100 * cpu, "%", 0.5, false,
		     json_pack("{s:i, s:i}", "vcpus", 1, "seconds", IDLE_S));
	clean();
	return 0;
}
