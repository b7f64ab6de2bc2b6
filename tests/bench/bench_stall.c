// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * control_stall: how long control calls take while guests make each of their instructions as
 * expensive as they can, or attack by interrupts (tests/emu/attack.h). A whole machine with its
 * server, with commands that this thread calls as the control socket does. These are times by the
 * clock on the wall: with more threads than CPUs a part of them is waiting for a CPU, which is
 * printed beside them.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/bench_bed.h"
#include "tests/emu/attack.h"
#include "vmm/control.h"

#define VMS    2 /* with VCPUS vCPUs each, which share their code pages */
#define VCPUS  8 /* guests that attack by interrupts have as many as they need */
#define ROUNDS 30
#define IMAGE  "\"image\":\"" VPMU_GUEST "\","

static const struct op {
	const char *name, *request;
} ops[] = {
	{"read", "{\"cmd\":\"read\",\"session\":\"s\"}"},
	{"list", "{\"cmd\":\"list\"}"},
	{"vm-add", "{\"cmd\":\"vm-add\",\"name\":\"new\",\"engine\":\"emulator\"," IMAGE
		   "\"memory\":\"8M\",\"args\":\"spin\"}"},
	{"pause", "{\"cmd\":\"pause\",\"name\":\"a0\"}"},
	{"resume", "{\"cmd\":\"resume\",\"name\":\"a0\"}"},
	{"vm-remove", "{\"cmd\":\"vm-remove\",\"name\":\"new\"}"},
};
#define OPS (sizeof(ops) / sizeof(ops[0]))

/* The guest of @i: those of attacks, then those of chip_attacks. *chip is NULL for the former. */
static const struct attack *nth_attack(size_t i, const struct chip_attack **chip)
{
	*chip = i < nr_attacks ? NULL : &chip_attacks[i - nr_attacks];
	return *chip ? &(*chip)->attack : &attacks[i];
}

struct stall {
	struct config config;
	struct machine *machine;
	struct control control;
};

/* ---- a machine ---- */

static void quiet(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		  void *arg)
{
}

static void nothing(void *arg)
{
}

static void no_vm(const struct machine_vm *vm, void *arg)
{
}

static void note(const char *line, void *arg)
{
	fprintf(stderr, "vpmu-bench: control_stall: %s\n", line);
}

/* All vCPUs run the same code in the same pages, on stacks of their own. */
static int load(struct vm *vm, void *arg, char *err, size_t errlen)
{
	struct kvm_regs regs;
	int ret = 0;

	for (unsigned int i = 0; i < vm->nr_vcpus && !ret; i++) {
		struct vmm_engine_vcpu *v = vm->vcpus[i].ev;

		ret = attack_load(arg, vm->ops, v, vm->ram.base);
		if (!ret)
			ret = vm->ops->get_regs(v, &regs);
		if (ret)
			break;
		regs.rsp -= i * 4096ULL;
		ret = vm->ops->set_regs(v, &regs);
	}
	return ret;
}

static void ask(struct stall *s, const char *request)
{
	char *answer = server_dispatch(s->control.server, request, strlen(request));

	must(answer && strstr(answer, "\"ok\":true"), "control_stall",
	     answer ? answer : "no memory");
	free(answer);
}

static void add_attack(struct stall *s, const struct attack *a, const struct chip_attack *chip,
		       unsigned int i)
{
	struct vm_config *c;
	char option[128], err[512];
	struct machine_vm *vm;

	snprintf(option, sizeof(option),
		 "name=a%u,vcpus=%u,memory=%lluM,engine=emulator,tenant=/a,%s=" VPMU_GUEST, i,
		 chip ? chip->vcpus : VCPUS, ATTACK_RAM >> 20, chip ? "kernel" : "image");
	must(!config_vm_option(&s->config, option, err, sizeof(err)), "control_stall", err);
	c = &s->config.vms[s->config.nr_vms - 1];
	must(!machine_vm_restore(s->machine, c, chip ? bvm_load_chip : load,
				 chip ? (void *)chip : (void *)a, &vm, err, sizeof(err)),
	     "control_stall", err);
}

static void stall_open(struct stall *s, const struct attack *a, const struct chip_attack *chip,
		       uint64_t slice)
{
	struct machine_opts o = {.console = quiet,
				 .wake = nothing,
				 .ended = no_vm,
				 .note = note,
				 .host = &s->config.host};
	char err[512];

	memset(s, 0, sizeof(*s));
	config_init(&s->config);
	s->config.host.slice_insns = slice;
	must(!machine_create(&o, &s->machine, err, sizeof(err)), "control_stall", err);
	s->control = (struct control){.machine = s->machine,
				      .quit = nothing,
				      .added = no_vm,
				      .removed = no_vm,
				      .log = note};
	must(!control_serve(&s->control, NULL, NULL, err, sizeof(err)), "control_stall", err);
	for (unsigned int i = 0; i < VMS; i++)
		add_attack(s, a, chip, i);
	ask(s, "{\"cmd\":\"attach\",\"name\":\"s\",\"scope\":\"vm\",\"events\":\"instructions,"
	       "cycles\"}");
	ask(s, "{\"cmd\":\"resume\"}");
}

/* All of them were still there to be stopped. */
static void stall_close(struct stall *s, const struct attack *a)
{
	for (struct machine_vm *vm = machine_vms(s->machine); vm; vm = vm->next) {
		machine_reap(s->machine);
		must(machine_vm_state(vm) == VM_RUNNING, a->name, vm->reason);
	}
	control_close(&s->control);
	machine_destroy(s->machine);
	config_fini(&s->config);
}

/* ---- times ---- */

/* How long threads of this process have waited for a CPU so far, all together. 0: the kernel does
 * not say. */
static double waited_ms(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	double sum = 0;

	while (d && (e = readdir(d))) {
		char path[300];
		unsigned long long ran, waited;
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", e->d_name);
		f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
		if (f && fscanf(f, "%llu %llu", &ran, &waited) == 2)
			sum += (double)waited / 1e6;
		if (f)
			fclose(f);
	}
	if (d)
		closedir(d);
	return sum;
}

/* Calls of one kind. */
struct times {
	double *ms;
	unsigned int n;
	double worst, waited; /* the longest call, and the threads' wait for CPUs in that time */
	const char *attack;   /* beside which it was */
};

static void timed(struct stall *s, const char *request, const char *attack, struct times *t)
{
	double waited = waited_ms(), start = 1e3 * clock_s(CLOCK_MONOTONIC), ms;

	ask(s, request);
	ms = 1e3 * clock_s(CLOCK_MONOTONIC) - start;
	waited = waited_ms() - waited;
	t->ms[t->n++] = ms;
	if (ms > t->worst) {
		t->worst = ms;
		t->waited = waited;
		t->attack = attack;
	}
}

static void report(const char *call, struct times *t, uint64_t slice)
{
	qsort(t->ms, t->n, sizeof(t->ms[0]), by_value);
	bench_report("control_stall", t->worst, "ms", 100, false,
		     json_pack("{s:s, s:I, s:i, s:f, s:f, s:s, s:f}", "call", call, "slice",
			       (json_int_t)slice, "calls", (int)t->n, "median_ms", t->ms[t->n / 2],
			       "p99_ms", t->ms[(t->n * 99 - 1) / 100], "attack", t->attack,
			       "waited_ms", t->waited));
}

int bench_control_stall(void)
{
	static const uint64_t slices[] = {100000, RUNNER_SLICE_MAX};
	unsigned int rounds = bench_rounds(ROUNDS);
	const struct chip_attack *chip;
	const struct attack *a;
	struct stall s;

	bench_unpin(); /* the threads of pCPUs are not to share this thread's CPU */
	for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
		struct times times[OPS] = {0};

		for (size_t k = 0; k < OPS; k++) {
			times[k].ms =
				calloc((nr_attacks + nr_chip_attacks) * rounds, sizeof(double));
			must(times[k].ms, "control_stall", "out of memory");
		}
		for (size_t n = 0; n < nr_attacks + nr_chip_attacks; n++) {
			a = nth_attack(n, &chip);
			stall_open(&s, a, chip, slices[i]);
			for (unsigned int r = 0; r < rounds; r++)
				for (size_t k = 0; k < OPS; k++)
					timed(&s, ops[k].request, a->name, &times[k]);
			stall_close(&s, a);
		}
		for (size_t k = 0; k < OPS; k++) {
			report(ops[k].name, &times[k], slices[i]);
			free(times[k].ms);
		}
	}
	bench_pin();
	return 0;
}
