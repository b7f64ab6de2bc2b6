// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/vm: VMs that boot a stock kernel, on a scripted engine: their shared devices, what a guest's
 * switching off, reset, panic and triple fault make of the VM, and input. */
#include "bz_image.h"
#include "fake_engine.h"
#include "vm_bed.h"
#include "vmm/engine/platform.h"

#define VCPUS BED_VCPUS

/* The scripted engine with interrupt controllers, which note what devices drive. */
static struct vmm_engine_ops ops;
static unsigned int irqchips, edges;
static bool line;

static int irqchip(struct vmm_engine_vm *vm)
{
	irqchips++;
	return 0;
}

static int irq_line(struct vmm_engine_vm *vm, unsigned int gsi, bool level)
{
	cr_assert_eq(gsi, PLATFORM_COM1_GSI);
	edges += level && !line;
	line = level;
	return 0;
}

static const struct boot_protocol *protocol = &boot_linux;

static int create(unsigned int nr, char err[256])
{
	static struct bz_vmlinux kernel;
	struct image img = {.name = "vmlinux", .data = (uint8_t *)&kernel, .bytes = sizeof(kernel)};

	bz_vmlinux(&kernel);
	return bed_create((struct vm_opts){.vcpus = nr,
					   .memory_bytes = 64 << 20,
					   .image = &img,
					   .protocol = protocol,
					   .pmu.model = VPMU_GUEST_AMD_V2,
					   .ops = &ops},
			  err);
}

static void init(void)
{
	ops = fake_ops;
	ops.can |= VMM_CAN_IRQCHIP;
	ops.irqchip_create = irqchip;
	ops.irq_line = irq_line;
	bed_host(&one_pcpu);
}

TestSuite(vm_kernel, .init = init, .fini = bed_fini);

#define OUT(port, value)                                                                           \
	{                                                                                          \
		FAKE_OUT, port, value, 1                                                           \
	}
#define IN(port, value)                                                                            \
	{                                                                                          \
		FAKE_IN, port, value, 1                                                            \
	}
#define SPIN                                                                                       \
	{FAKE_RUN, 100, 0, 0},                                                                     \
	{                                                                                          \
		FAKE_AGAIN, 0, 0, 0                                                                \
	}

static const struct fake_step spin[] = {SPIN};

static void run(void)
{
	bed_start();
	bed_run();
	cr_assert_eq(fake_wrong, 0);
}

/* Run vCPU @who by @script while the others spin, until the VM has ended. */
static void play(unsigned int who, const struct fake_step *script)
{
	char err[256] = "";

	fake_play(who == 0 ? script : spin, who == 1 ? script : spin, who == 2 ? script : spin);
	cr_assert_eq(create(VCPUS, err), 0, "%s", err);
	run();
}

/* A script that prints @text and then does @last. */
static const struct fake_step *print(const char *text, struct fake_step last)
{
	static struct fake_step script[4 * SERIAL_LINE_MAX];
	size_t n = 0;

	for (; *text; text++)
		script[n++] = (struct fake_step)OUT(PLATFORM_COM1, (uint8_t)*text);
	script[n++] = last;
	script[n++] = (struct fake_step){FAKE_RUN, 100, 0, 0};
	script[n] = (struct fake_step){FAKE_AGAIN, n - 1, 0, 0};
	return script;
}

Test(vm_kernel, off)
{
	/* The one that switches off need not be vCPU 0. Afterwards it does nothing. */
	static const struct fake_step script[] = {OUT(0x600, 0x34), OUT(0xcf9, 6), SPIN};

	play(1, script);
	cr_assert_eq(irqchips, 1);
	cr_assert_eq(vm_state(b.vm), VM_DONE);
	cr_assert_eq(vm_how(b.vm), VM_HOW_OFF);
	cr_assert_eq(vm_status(b.vm), 0);
	cr_assert_str_empty(b.vm->reason);
	for (unsigned int i = 0; i < VCPUS; i++)
		cr_assert_eq(b.vm->vcpus[i].state, VCPU_STOPPED);
	/* vCPU 0 began at the entry with the zero page; the others' registers are the engine's. */
	cr_assert_eq(b.vm->vcpus[0].ev->regs.rsi, LINUX_ZERO_PAGE);
	cr_assert_eq(b.vm->vcpus[1].ev->regs.rsi, 0);
	cr_assert_eq(b.vm->vcpus[1].ev->sregs.cr3, 0);
}

Test(vm_kernel, reset)
{
	static const struct fake_step script[] = {OUT(0xcf9, 6), SPIN};

	play(2, script);
	cr_assert_eq(vm_state(b.vm), VM_DONE);
	cr_assert_eq(vm_how(b.vm), VM_HOW_RESET);
}

Test(vm_kernel, reset_by_keyboard)
{
	static const struct fake_step script[] = {IN(0x64, 0), OUT(0x64, 0xfe), SPIN};

	play(0, script);
	cr_assert_eq(vm_how(b.vm), VM_HOW_RESET);
}

Test(vm_kernel, panic)
{
	play(0, print("[    1.0] Kernel panic - not syncing: VFS: no root\x1b[7m\n[    1.0] Kernel "
		      "panic - not syncing: another\nmore",
		      (struct fake_step)OUT(0xcf9, 6)));
	cr_assert_eq(vm_state(b.vm), VM_FAILED);
	cr_assert_eq(vm_how(b.vm), VM_HOW_FAILED);
	/* The first, and nothing that a terminal would act on. */
	cr_assert_str_eq(b.vm->reason, "kernel panic: VFS: no root\\x1b[7m");
	/* The unfinished line came out. */
	cr_assert_str_eq(b.said, "more");
	cr_assert_eq(b.said_by, 0);
}

Test(vm_kernel, panic_and_triple_fault)
{
	play(1, print("Kernel panic - not syncing: stack is gone\n",
		      (struct fake_step){FAKE_SHUTDOWN, 0, 0, 0}));
	cr_assert_str_eq(b.vm->reason, "kernel panic: stack is gone");
	cr_assert_eq(vm_state(b.vm), VM_FAILED);
}

Test(vm_kernel, panic_and_error)
{
	play(1, print("Kernel panic - not syncing: no way out\n",
		      (struct fake_step){FAKE_ERROR, 0, 0, 0}));
	cr_assert_str_eq(b.vm->reason, "kernel panic: no way out");
}

Test(vm_kernel, error)
{
	play(1, print("no panic\n", (struct fake_step){FAKE_ERROR, 0, 0, 0}));
	cr_assert(strstr(b.vm->reason, "vCPU 1: no such instruction"), "%s", b.vm->reason);
}

/* A panic's text of any length is cut between characters. */
Test(vm_kernel, long_panic)
{
	char text[400] = "Kernel panic - not syncing: x";

	while (strlen(text) < 390)
		strcat(text, "\xc3\xa4");
	strcat(text, "\n");
	play(0, print(text, (struct fake_step)OUT(0xcf9, 6)));
	cr_assert_lt(strlen(b.vm->reason), 14 + VM_PANIC_MAX);
	cr_assert_eq(strlen(b.vm->reason) % 2, strlen("kernel panic: x") % 2, "%s", b.vm->reason);
	cr_assert_gt(strlen(b.vm->reason), VM_PANIC_MAX);
}

Test(vm_kernel, triple_fault)
{
	static const struct fake_step script[] = {{FAKE_SHUTDOWN, 0, 0, 0}};

	play(1, script);
	cr_assert_eq(vm_state(b.vm), VM_FAILED);
	cr_assert(strstr(b.vm->reason, "vCPU 1: triple fault at RIP 0x"), "%s", b.vm->reason);
}

/* All vCPUs reach the same serial port. Its interrupt is that of GSI 4. */
Test(vm_kernel, one_serial_port)
{
	static const struct fake_step zero[] = {
		OUT(0x3fc, 0x0b), OUT(0x3f9, 2), {FAKE_RUN, 5000, 0, 0}, OUT(0x600, 0x34), SPIN};
	static const struct fake_step one[] = {
		{FAKE_RUN, 2000, 0, 0}, IN(0x3f9, 2), IN(0x3fa, 2), IN(0x3fa, 1), SPIN};
	char err[256] = "";

	fake_play(zero, one, NULL);
	cr_assert_eq(create(2, err), 0, "%s", err);
	run();
	cr_assert_eq(edges, 1);
	cr_assert_not(line);
}

/* All vCPUs reach the same PCI address register, and through it the host bridge. */
Test(vm_kernel, one_pci)
{
	static const struct fake_step zero[] = {
		{FAKE_OUT, 0xcf8, 0x8f000008, 4}, {FAKE_RUN, 5000, 0, 0}, OUT(0x600, 0x34), SPIN};
	static const struct fake_step one[] = {{FAKE_RUN, 2000, 0, 0},
					       {FAKE_IN, 0xcf8, 0x80000008, 4},
					       {FAKE_IN, 0xcfc, 0x06000000, 4},
					       {FAKE_IN, 0xcfe, 0x0600, 2},
					       SPIN};
	char err[256] = "";

	fake_play(zero, one, NULL);
	cr_assert_eq(create(2, err), 0, "%s", err);
	run();
	cr_assert_eq(vm_how(b.vm), VM_HOW_OFF);
}

Test(vm_kernel, input)
{
	static const struct fake_step script[] = {IN(0x3fd, 0x61), IN(0x3f8, 'o'),   IN(0x3f8, 'k'),
						  IN(0x3fd, 0x60), OUT(0x600, 0x34), SPIN};
	char err[256] = "";

	fake_play(script, script, script);
	cr_assert_eq(create(1, err), 0, "%s", err);
	cr_assert_eq(vm_input(b.vm, "ok", 2, true), 2);
	run();
	cr_assert_eq(vm_how(b.vm), VM_HOW_OFF);
}

/* The exit port ends all of the VM, with the value written: only with a protocol that has one. */
Test(vm_kernel, exit_port)
{
	static const struct fake_step script[] = {
		OUT(PLATFORM_COM1, 'x'), {FAKE_OUT, PLATFORM_DEBUG_EXIT, 0x1234567, 4}, SPIN};
	struct boot_protocol with = boot_linux;

	with.exit_port = true;
	protocol = &with;
	play(1, script);
	cr_assert_eq(vm_state(b.vm), VM_DONE);
	cr_assert_eq(vm_how(b.vm), VM_HOW_EXITED);
	cr_assert_eq(vm_status(b.vm), 0x1234567);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_STOPPED);
	cr_assert_str_eq(b.said, "x");
}

Test(vm_kernel, no_exit_port)
{
	static const struct fake_step script[] = {
		{FAKE_OUT, PLATFORM_DEBUG_EXIT, 1, 1}, OUT(0x600, 0x34), SPIN};

	play(1, script);
	cr_assert_eq(vm_how(b.vm), VM_HOW_OFF);
	cr_assert_eq(vm_status(b.vm), 0);
}

Test(vm_kernel, refused)
{
	char err[256] = "";

	ops.can &= ~(unsigned int)VMM_CAN_IRQCHIP;
	fake_play(spin, spin, spin);
	cr_assert_eq(create(1, err), -EOPNOTSUPP);
	cr_assert(strstr(err, "engine fake has no interrupt controllers"), "%s", err);
	ops.can |= VMM_CAN_IRQCHIP;
	cr_assert_eq(create(VCPUS, err), 0, "%s", err);
	/* It cannot be saved: its engine cannot save its devices. */
	cr_assert_eq(vm_unplace(b.vm), -EOPNOTSUPP);
}
