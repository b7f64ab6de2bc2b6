// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * emu_mips_programs: the emulator with all events counted against QEMU's TCG with -icount,
 * which counts instructions only, and without. The programs are those of programs/ and the
 * workloads of emu_mips. All run the same image (programs/), in turn, on one CPU. A
 * program runs with a small and with a large count, and the difference of the CPU times is what its
 * work takes: starting QEMU and the first translation of the code are in neither side's time. Both
 * must end with the same checksum. Without qemu-system-x86_64 nothing is measured, and a line on
 * stderr says so.
 *
 * emu_mips_sse: programs with SSE. The value is the emulator's rate; QEMU's, if it is there,
 * with and without -icount, is beside it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench_bed.h"

#define QEMU	   "qemu-system-x86_64"
#define ROUNDS	   7
#define ROUNDS_MAX 101
#define SMALL	   1	/* count of the run that is subtracted */
#define STEP	   1000 /* slices, between looks whether the VM has ended */

/* Counts that take either side some 0.2 to 0.5 s. */
struct program {
	const char *name;
	unsigned int n;
};
static const struct program programs[] = {
	{"loop", 1000},	    {"sieve", 1000},	     {"fib", 1000},
	{"memcpy", 1000},   {"repmovs", 1000},	     {"chase", 1500},
	{"quicksort", 150}, {"recursion", 1500},     {"crc", 900},
	{"bytecode", 300},  {"muldiv128", 6000},     {"bignum", 1500},
	{"hash", 300},	    {"loop_lock", 4000},     {"rep_scas", 3000},
	{"rep_cmps", 2000}, {"stos_backward", 4000},
};

static const struct program sse_programs[] = {
	{"sse_memcpy", 60000},
	{"sse_strlen", 8000},
	{"sse_double", 2500},
	{"sse_float", 25000},
};
#define SSE_GOAL 150 /* Minsn/s */

/* What one run gave. */
struct outcome {
	double ns; /* of CPU time */
	uint64_t insns;
	unsigned int status; /* 1 to 126, the checksum */
};

static void emu_run(const char *args, struct outcome *o)
{
	char err[512] = "out of memory";
	double begin;
	struct bvm v;
	struct bed b;

	bed_open(&b, 1, 100000);
	image_free(&b.image);
	must(!image_read(VPMU_BENCH_PROGRAMS, &b.image, err, sizeof(err)), "image", err);
	bvm_open(&b, &v, 1, args);
	start(&v);
	begin = bench_thread_ns();
	while (runner_step(b.runner, STEP) == STEP)
		;
	o->ns = bench_thread_ns() - begin;
	must(vm_state(v.vm) == VM_DONE, args, v.vm->reason);
	o->status = vm_status(v.vm);
	o->insns = insns(&b);
	bvm_close(&v);
	bed_close(&b);
}

/* 0, or -ENOENT: QEMU is not installed. @icount: with -icount. */
static int qemu_run(const char *args, bool icount, struct outcome *o)
{
	struct rusage used;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	must(pid >= 0, QEMU, "fork");
	if (!pid) {
		execlp(QEMU, QEMU, "-accel", "tcg", icount ? "-icount" : "-no-reboot",
		       icount ? "shift=0" : "-no-reboot", "-M",
		       "microvm,acpi=off,pit=off,pic=off,rtc=off,isa-serial=off", "-m", "16",
		       "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		       "-device", "isa-debug-exit,iobase=0xf4,iosize=4", "-kernel",
		       VPMU_BENCH_PROGRAMS, "-append", args, NULL);
		_exit(errno == ENOENT ? 127 : 126);
	}
	while (wait4(pid, &status, 0, &used) < 0)
		must(errno == EINTR, QEMU, "wait");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return -ENOENT;
	/* isa-debug-exit makes 2 * v + 1 of the guest's write; QEMU's own failures are 1. */
	must(WIFEXITED(status) && WEXITSTATUS(status) % 2 && WEXITSTATUS(status) > 1, QEMU, args);
	o->status = (unsigned int)WEXITSTATUS(status) / 2;
	o->ns = 1e9 * (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		1e3 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	return 0;
}

static double qemu_ns(const struct program *p, char args[2][64], bool icount, unsigned int status)
{
	struct outcome o[2] = {0};

	for (int i = 0; i < 2; i++)
		must(!qemu_run(args[i], icount, &o[i]), QEMU, "it went away");
	must(o[1].status == status, p->name, "the emulator and QEMU computed different results");
	return o[1].ns - o[0].ns;
}

static void compare(const struct program *p, unsigned int rounds)
{
	double rate[ROUNDS_MAX], other[ROUNDS_MAX], ratio[ROUNDS_MAX];
	struct outcome emulator[2] = {0}, qemu[2] = {0};
	double plain[ROUNDS_MAX], middle;
	char args[2][64];

	snprintf(args[0], sizeof(args[0]), "%s %u", p->name, SMALL);
	snprintf(args[1], sizeof(args[1]), "%s %u", p->name, p->n);
	for (unsigned int r = 0; r < rounds; r++) {
		double ns[2], insns;

		for (int i = 0; i < 2; i++) {
			emu_run(args[i], &emulator[i]);
			must(!qemu_run(args[i], true, &qemu[i]), QEMU, "it went away");
			must(emulator[i].status == qemu[i].status, args[i],
			     "the emulator and QEMU computed different results");
		}
		ns[0] = emulator[1].ns - emulator[0].ns;
		ns[1] = qemu[1].ns - qemu[0].ns;
		insns = (double)(emulator[1].insns - emulator[0].insns);
		rate[r] = 1e3 * insns / ns[0];
		other[r] = 1e3 * insns / ns[1];
		ratio[r] = ns[1] / ns[0];
		plain[r] = qemu_ns(p, args, false, emulator[1].status) / ns[0];
	}
	middle = median(ratio, rounds);
	bench_report("emu_mips_programs", middle, "x qemu", 1, true,
		     json_pack("{s:s, s:f, s:f, s:f, s:f, s:I, s:i}", "program", p->name, "minsn_s",
			       median(rate, rounds), "qemu_minsn_s", median(other, rounds), "least",
			       ratio[0], "x_qemu_plain", median(plain, rounds), "insns",
			       (json_int_t)(emulator[1].insns - emulator[0].insns), "rounds",
			       rounds));
}

int bench_emu_mips_programs(void)
{
	unsigned int rounds = bench_rounds(ROUNDS);
	struct outcome o = {0};

	if (qemu_run("crc 1", true, &o) == -ENOENT) {
		fprintf(stderr, "vpmu-bench: emu_mips_programs: SKIPPED: %s is not installed\n",
			QEMU);
		return 0;
	}
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		compare(&programs[i], rounds);
	return 0;
}

/* ---- emu_mips_sse ---- */

static void measure_sse(const struct program *p, unsigned int rounds, bool qemu)
{
	double rate[ROUNDS_MAX], counting[ROUNDS_MAX], plain[ROUNDS_MAX];
	struct outcome o[2] = {0};
	char args[2][64];
	double insns = 0;
	json_t *params;

	snprintf(args[0], sizeof(args[0]), "%s %u", p->name, SMALL);
	snprintf(args[1], sizeof(args[1]), "%s %u", p->name, p->n);
	for (unsigned int r = 0; r < rounds; r++) {
		double ns;

		for (int i = 0; i < 2; i++)
			emu_run(args[i], &o[i]);
		ns = o[1].ns - o[0].ns;
		insns = (double)(o[1].insns - o[0].insns);
		rate[r] = 1e3 * insns / ns;
		if (qemu) {
			counting[r] = qemu_ns(p, args, true, o[1].status) / ns;
			plain[r] = qemu_ns(p, args, false, o[1].status) / ns;
		}
	}
	params = json_pack("{s:s, s:I, s:i}", "program", p->name, "insns", (json_int_t)insns,
			   "rounds", rounds);
	if (qemu && params) {
		json_object_set_new(params, "x_qemu_icount", json_real(median(counting, rounds)));
		json_object_set_new(params, "x_qemu", json_real(median(plain, rounds)));
	}
	bench_report("emu_mips_sse", median(rate, rounds), "Minsn/s", SSE_GOAL, true, params);
}

int bench_emu_mips_sse(void)
{
	unsigned int rounds = bench_rounds(ROUNDS);
	struct outcome o = {0};
	bool qemu = qemu_run("crc 1", true, &o) != -ENOENT;

	if (!qemu)
		fprintf(stderr, "vpmu-bench: emu_mips_sse: %s is not installed: not compared\n",
			QEMU);
	for (size_t i = 0; i < sizeof(sse_programs) / sizeof(sse_programs[0]); i++)
		measure_sse(&sse_programs[i], rounds, qemu);
	return 0;
}
