// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * VMs with interrupt controllers on modelled pCPUs: four vCPUs wake each other by IPIs and by
 * timers, in HLT most of the time, while VMs are paused, unplaced and removed. A wake that is lost
 * is a hang. All vCPUs of a VM see one clock. With one pCPU and skip_idle everything repeats
 * exactly. A program of its own because it is run under ThreadSanitizer, where Criterion is not.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <urcu/urcu-memb.h>

#include "tests/elf_image.h"
#include "vmm/sched/runner.h"
#include "vpmu/account.h"
#include "vpmu/guest/abi.h"
#include "vpmu/host.h"

#define VCPUS	4
#define VMS_MAX 24
#define ROUNDS	200
#define IDT	0x100000
#define IDTR	0x110000
#define CELLS	0x120000 /* 64 bytes for each vCPU: mailbox, timer interrupts, sum of TSCs */

#define GUEST(name, ...)                                                                           \
	extern const uint8_t name[], name##_end[];                                                 \
	__asm__(".pushsection .rodata\n.balign 16\n.globl " #name "\n" #name ":\n" __VA_ARGS__     \
		"\n.globl " #name "_end\n" #name "_end:\n.popsection\n")

#define WRMSR(msr) "mov $" #msr ",%ecx\nxor %edx,%edx\nwrmsr\n"

/*
 * R15 is the vCPU's number, RBX its cell, R14 the round. Each round: put a letter into the next
 * vCPU's mailbox and send it an IPI; start the timer; wait in HLT until a letter has come and the
 * timer has expired.
 */
GUEST(g_ring,
      "mov %rdi,%r15\nlidt 0x110000\n"
      "mov %edi,%eax\nshl $14,%eax\nmov $0x180000,%esp\nsub %rax,%rsp\n"
      "mov %edi,%ebx\nshl $6,%ebx\nadd $0x120000,%ebx\n"
      "mov $0x1ff,%eax\n" WRMSR(0x80f) "mov $0xb,%eax\n" WRMSR(0x83e) "mov $0x40,%eax\n" WRMSR(
	      0x832) "xor %r14d,%r14d\n"
		     "1: lea 1(%r15),%edx\nand $3,%edx\n"
		     "mov %edx,%eax\nshl $6,%eax\nlock incq 0x120000(%rax)\n"
		     "mov $0x830,%ecx\nmov $0x41,%eax\nwrmsr\n"
		     "imul $777,%r15d,%eax\nlea 2000(%rax,%r14),%eax\n" WRMSR(
			     0x838) "2: cli\ncmp %r14,(%rbx)\njbe 3f\ncmp %r14,8(%rbx)\nja 4f\n"
				    "3: sti\nhlt\njmp 2b\n"
				    "4: sti\nrdtsc\nadd %rax,16(%rbx)\n"
				    "inc %r14\ncmp $200,%r14\njb 1b\n"
				    "xor %eax,%eax\nout %eax,$0xf4\n"
				    /* interrupt handlers */
				    ".globl h_timer\nh_timer: incq 8(%rbx)\n.globl h_ipi\nh_ipi: "
				    "push %rax\npush %rcx\n"
				    "push %rdx\nxor %eax,%eax\n" WRMSR(
					    0x80b) "pop %rdx\npop %rcx\npop %rax\niretq\n");
extern const uint8_t h_timer[], h_ipi[];

/* The same without an end, and with long naps. */
GUEST(g_naps,
      "lidt 0x110000\nmov %edi,%ebx\nshl $6,%ebx\nadd $0x120000,%ebx\n"
      "mov %edi,%eax\nshl $14,%eax\nmov $0x180000,%esp\nsub %rax,%rsp\n"
      "mov $0x1ff,%eax\n" WRMSR(0x80f) "mov $0xb,%eax\n" WRMSR(0x83e) "mov $0x20040,%eax\n" WRMSR(
	      0x832) "imul $100000,%edi,%eax\n"
		     "add $200000,%eax\n" WRMSR(0x838) "sti\n1: hlt\njmp 1b\n");

/*
 * A clock that all vCPUs see: each loads the last TSC that anybody has read from 120140H, reads its
 * own, which must not be less, and stores it. After 64 rounds it naps until its timer comes. The
 * cell's third word counts the times that the clock went back.
 */
GUEST(g_token,
      "lidt 0x110000\nmov %edi,%ebx\nshl $6,%ebx\nadd $0x120000,%ebx\n"
      "mov %edi,%eax\nshl $14,%eax\nmov $0x180000,%esp\nsub %rax,%rsp\n"
      "mov $0x1ff,%eax\n" WRMSR(0x80f) "mov $0xb,%eax\n" WRMSR(0x83e) "mov $0x40,%eax\n" WRMSR(
	      0x832) "xor %r14d,%r14d\n"
		     "1: mov 0x120140,%r8\nrdtsc\nshl $32,%rdx\nor %rdx,%rax\n"
		     "cmp %r8,%rax\njae 2f\nincq 16(%rbx)\n2: mov %rax,0x120140\n"
		     "inc %r14\ntest $63,%r14b\njnz 1b\n"
		     "mov $2000,%eax\n" WRMSR(0x838) "sti\nhlt\ncli\n"
						     "cmp $32768,%r14\njb 1b\n"
						     "xor %eax,%eax\nout %eax,$0xf4\n");
GUEST(g_dead, "cli\nhlt\n");
GUEST(g_spin, "1: jmp 1b\n");

static void must(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void must(bool ok, const char *fmt, ...)
{
	va_list ap;

	if (ok)
		return;
	va_start(ap, fmt);
	fprintf(stderr, "halt: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	exit(1);
}

struct bed {
	struct vpmu_host *host;
	struct runner *runner;
	struct vmm_engine *engine;
	struct {
		struct vm *vm;
		struct vpmu_account *account, *vcpus[VCPUS];
	} vms[VMS_MAX];
	_Atomic unsigned int ended;
};

static void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void on_ended(struct vm *vm, void *arg)
{
	((struct bed *)arg)->ended++;
}

static void bed_init(struct bed *b, struct host_config *h)
{
	char why[256];

	memset(b, 0, sizeof(*b));
	urcu_memb_register_thread();
	b->host = vpmu_host_create();
	must(b->host && !runner_create(b->host, h, &b->runner), "runner");
	must(!vmm_emu_ops.open(&b->engine, why, sizeof(why)), "engine");
}

/* An image of @n bytes of code. */
static struct image image_of(const uint8_t *code, size_t n)
{
	static struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		uint8_t code[1024];
	} f;

	memset(&f, 0, sizeof(f));
	f.eh = elf_program(VPMU_BOOT_IMAGE, 1);
	f.ph = elf_segment(PF_R | PF_W | PF_X, VPMU_BOOT_IMAGE, offsetof(__typeof__(f), code),
			   sizeof(f.code));
	must(n <= sizeof(f.code), "code of %zu bytes", n);
	memcpy(f.code, code, n);
	return (struct image){.name = "halt.elf", .data = (uint8_t *)&f, .bytes = sizeof(f)};
}

static void gate(struct vm *vm, unsigned int vector, const uint8_t *handler)
{
	uint64_t to = VPMU_BOOT_IMAGE + 512 + (uint64_t)(handler - h_timer);
	uint64_t g[2] = {(to & 0xffff) | 8 << 16 | 0x8eULL << 40 | (to >> 16 & 0xffff) << 48, 0};

	memcpy(vm->ram.base + IDT + vector * 16, g, sizeof(g));
}

static struct vm *add_vm(struct bed *b, unsigned int i, const uint8_t *code, const uint8_t *end)
{
	static const struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) idtr = {0xfff, IDT};
	struct image img = image_of(code, (size_t)(end - code));
	struct vm_opts o = {
		.name = "halt",
		.vcpus = VCPUS,
		.memory_bytes = 4 << 20,
		.image = &img,
		.irqchip = true,
		.pmu.model = VPMU_GUEST_INTEL_V2,
		.ops = &vmm_emu_ops,
		.engine = b->engine,
		.sched = runner_sched(b->runner),
		.vcpu_accounts = b->vms[i].vcpus,
		.console = on_console,
		.ended = on_ended,
		.arg = b,
	};
	char err[256] = "";
	struct vm *vm;

	must(!vpmu_account_create(vpmu_host_root(b->host), NULL, &b->vms[i].account), "account");
	for (int v = 0; v < VCPUS; v++)
		must(!vpmu_account_create(b->vms[i].account, NULL, &b->vms[i].vcpus[v]), "account");
	o.account = b->vms[i].account;
	must(!vm_create(&o, &vm, err, sizeof(err)), "%s", err);
	b->vms[i].vm = vm;
	memcpy(vm->ram.base + IDTR, &idtr, sizeof(idtr));
	memcpy(vm->ram.base + VPMU_BOOT_IMAGE + 512, h_timer, (size_t)(g_ring_end - h_timer));
	gate(vm, 0x40, h_timer);
	gate(vm, 0x41, h_ipi);
	return vm;
}

static void del_vm(struct bed *b, unsigned int i)
{
	if (!b->vms[i].vm)
		return;
	vm_destroy(b->vms[i].vm);
	for (int v = 0; v < VCPUS; v++)
		must(!vpmu_account_del(b->vms[i].vcpus[v]), "account in use");
	must(!vpmu_account_del(b->vms[i].account), "account in use");
	b->vms[i].vm = NULL;
}

static void bed_fini(struct bed *b)
{
	for (unsigned int i = 0; i < VMS_MAX; i++)
		del_vm(b, i);
	runner_destroy(b->runner);
	vpmu_host_destroy(b->host);
	vmm_emu_ops.close(b->engine);
	urcu_memb_unregister_thread();
}

static void start(struct vm *vm)
{
	char err[256];

	must(!vm_start(vm, err, sizeof(err)), "%s", err);
}

static void nap(long us)
{
	struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

static uint64_t cell(const struct vm *vm, unsigned int vcpu, unsigned int word)
{
	uint64_t x;

	memcpy(&x, vm->ram.base + CELLS + vcpu * 64 + word * 8, 8);
	return x;
}

/* All rounds were made, and all letters and interrupts came. */
static void check_ring(const struct vm *vm)
{
	must(vm_state(vm) == VM_DONE, "the VM is %s: %s", vm_state_name(vm_state(vm)), vm->reason);
	for (unsigned int v = 0; v < VCPUS; v++)
		must(cell(vm, v, 0) == ROUNDS && cell(vm, v, 1) == ROUNDS,
		     "vCPU %u: %lu letters, %lu interrupts", v, cell(vm, v, 0), cell(vm, v, 1));
}

static struct host_config host(unsigned int pcpus)
{
	return (struct host_config){
		.pcpus = pcpus,
		.gp = 4,
		.fixed = 3,
		.width = 48,
		.slice_insns = 5000,
		.seed = 1,
		.migrate_every = 4,
		.tick_us = 100,
	};
}

/* ---- no wake is lost ---- */

static void rings(unsigned int pcpus, unsigned int vms, enum runner_migrate migrate, bool skip)
{
	struct host_config h = host(pcpus);
	struct bed b;

	h.migrate = migrate;
	h.skip_idle = skip;
	bed_init(&b, &h);
	for (unsigned int i = 0; i < vms; i++)
		start(add_vm(&b, i, g_ring, g_ring_end));
	must(!runner_launch(b.runner), "threads");
	while (b.ended < vms)
		nap(500);
	for (unsigned int i = 0; i < vms; i++)
		check_ring(b.vms[i].vm);
	bed_fini(&b);
}

/* ---- one clock for all vCPUs ---- */

/* Whoever runs, sleeps and moves where: no vCPU reads less than another one has read before. */
static void tokens(unsigned int pcpus, unsigned int vms)
{
	struct host_config h = host(pcpus);
	struct bed b;

	h.migrate = RUNNER_MIGRATE_RANDOM;
	bed_init(&b, &h);
	for (unsigned int i = 0; i < vms; i++)
		start(add_vm(&b, i, g_token, g_token_end));
	must(!runner_launch(b.runner), "threads");
	while (b.ended < vms)
		nap(500);
	for (unsigned int i = 0; i < vms; i++) {
		must(vm_state(b.vms[i].vm) == VM_DONE, "the VM is %s: %s",
		     vm_state_name(vm_state(b.vms[i].vm)), b.vms[i].vm->reason);
		for (unsigned int v = 0; v < VCPUS; v++)
			must(cell(b.vms[i].vm, v, 1) == 32768 / 64 && !cell(b.vms[i].vm, v, 2),
			     "vCPU %u napped %lu times, and its clock went back %lu times", v,
			     cell(b.vms[i].vm, v, 1), cell(b.vms[i].vm, v, 2));
	}
	bed_fini(&b);
}

/* ---- the same seed, the same run ---- */

struct outcome {
	struct runner_stats stats;
	uint64_t sums[VCPUS];
};

static struct outcome repeat(bool threads)
{
	struct host_config h = host(1);
	struct outcome o;
	struct bed b;

	h.skip_idle = true;
	h.random_slices = true;
	bed_init(&b, &h);
	for (unsigned int i = 0; i < 3; i++)
		start(add_vm(&b, i, g_ring, g_ring_end));
	if (threads) {
		must(!runner_launch(b.runner), "threads");
		while (b.ended < 3)
			nap(500);
	} else {
		while (b.ended < 3)
			must(runner_step(b.runner, 1000) > 0, "nothing runs");
	}
	for (unsigned int v = 0; v < VCPUS; v++)
		o.sums[v] = cell(b.vms[1].vm, v, 2);
	bed_fini(&b);
	return o;
}

static void determinism(void)
{
	struct outcome a = repeat(false), b = repeat(false), c = repeat(true), d = repeat(true);

	must(!memcmp(a.sums, b.sums, sizeof(a.sums)), "stepped twice: the clocks differ");
	must(!memcmp(c.sums, d.sums, sizeof(c.sums)), "two runs of one thread: the clocks differ");
	must(!memcmp(a.sums, c.sums, sizeof(a.sums)), "stepped and with a thread: they differ");
}

/* ---- pauses and removal ---- */

static uint64_t naps_of(const struct vm *vm)
{
	uint64_t n = 0;

	for (unsigned int v = 0; v < VCPUS; v++)
		n += cell(vm, v, 1);
	return n;
}

/* vCPUs are found wherever they are, and their timers go on afterwards. */
static void pauses(unsigned int pcpus)
{
	struct host_config h = host(pcpus);
	struct bed b;

	bed_init(&b, &h);
	must(!runner_launch(b.runner), "threads");
	for (unsigned int i = 0; i < 6; i++)
		start(add_vm(&b, i, i < 4 ? g_naps : g_ring, i < 4 ? g_naps_end : g_ring_end));
	for (unsigned int n = 0; n < 300; n++) {
		struct vm *vm = b.vms[n % 4].vm;
		uint64_t before;

		nap(n % 7 * 50);
		if (n % 3)
			vm_pause(vm);
		else
			must(!vm_unplace(vm), "unplace");
		before = naps_of(vm);
		/* Any thread may drive a line, also while the VM is paused. */
		vmm_emu_ops.irq_line(vm->evm, 3, n & 1);
		start(vm);
		if (n % 50 == 49) { /* it goes on */
			while (naps_of(vm) < before + 4)
				nap(200);
			del_vm(&b, n % 4);
			start(add_vm(&b, n % 4, g_naps, g_naps_end));
		}
	}
	while (b.ended < 2)
		nap(500);
	check_ring(b.vms[4].vm);
	check_ring(b.vms[5].vm);
	bed_fini(&b);
}

/* ---- VMs that nothing can wake, and failures of one vCPU ---- */

static void ends(void)
{
	struct host_config h = host(2);
	struct bed b;
	struct vm *vm;

	bed_init(&b, &h);
	must(!runner_launch(b.runner), "threads");
	vm = add_vm(&b, 0, g_dead, g_dead_end);
	start(vm);
	while (b.ended < 1)
		nap(500);
	must(vm_state(vm) == VM_FAILED && strstr(vm->reason, "all vCPUs halted"), "%s", vm->reason);
	/* Those that sleep learn that the VM fails. */
	vm = add_vm(&b, 1, g_naps, g_naps_end);
	start(vm);
	nap(2000);
	vm_fail(vm, "on purpose");
	while (b.ended < 2)
		nap(500);
	must(vm_state(vm) == VM_FAILED && !strcmp(vm->reason, "on purpose"), "%s", vm->reason);
	bed_fini(&b);
}

/* A VM that sleeps costs its neighbour nothing, and sees time pass however busy the pCPU is. */
static void beside(void)
{
	struct host_config h = host(1);
	struct bed b;

	bed_init(&b, &h);
	must(!runner_launch(b.runner), "threads");
	start(add_vm(&b, 0, g_spin, g_spin_end));
	start(add_vm(&b, 1, g_ring, g_ring_end));
	while (b.ended < 1)
		nap(500);
	check_ring(b.vms[1].vm);
	bed_fini(&b);
}

int main(void)
{
	rings(1, 1, RUNNER_MIGRATE_BALANCE, false);
	rings(1, 3, RUNNER_MIGRATE_BALANCE, true);
	rings(2, 1, RUNNER_MIGRATE_BALANCE, false);
	rings(2, 5, RUNNER_MIGRATE_RANDOM, false);
	rings(3, 3, RUNNER_MIGRATE_NONE, false);
	printf("rings done\n");
	tokens(2, 1);
	tokens(3, 3);
	printf("no clock went back\n");
	determinism();
	printf("the same seed, the same run\n");
	pauses(1);
	pauses(2);
	printf("pauses done\n");
	ends();
	beside();
	printf("all done\n");
	return 0;
}
