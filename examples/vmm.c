// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VMM whose guest has a PMU: vmm
 *
 * One VM with one vCPU on /dev/kvm. The guest counts ref-cycles with fixed counter 2 of an Intel
 * PMU and takes three PMIs as NMIs, on any host, whatever its CPU and even if that has no PMU. The
 * lines that give it the PMU begin with vpmu_. Exits with 77 where KVM cannot be used.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vpmu/guest/model.h>
#include <vpmu/host.h>
#include <vpmu/kvm.h>

/* ---- the guest ---- */

enum { RAM = 2 << 20, PML4 = 0x2000, GDT = 0x5000, IDT = 0x6000, CODE = 0x8000, STACK = 0x20000 };
enum { PORT_PMIS = 0xf4, PORT_COUNT = 0xf5, PORT_END = 0xf6, PMIS = 3 };

extern const char guest[], guest_nmi[], guest_end[];
asm(".pushsection .rodata\n"
    "guest:\n"
    "	mov $0x1b, %ecx\n rdmsr\n or $0xc00, %eax\n wrmsr\n" /* x2APIC mode */
    "	mov $0x80f, %ecx\n mov $0x1ff, %eax\n xor %edx, %edx\n wrmsr\n"
    "	mov $0x834, %ecx\n mov $0x400, %eax\n wrmsr\n" /* LVTPC: NMI */
    "	xor %ebx, %ebx\n"
    "	call arm\n"
    "1:	pause\n cmp $3, %ebx\n jb 1b\n"
    "	mov %ebx, %eax\n out %eax, $0xf4\n"
    "	mov $0x30b, %ecx\n rdmsr\n out %eax, $0xf5\n"
    "	out %eax, $0xf6\n"
    /* IA32_FIXED_CTR2 = -2,000,000; count it at both levels, with PMI; start */
    "arm:	mov $0x30b, %ecx\n mov $-2000000, %eax\n mov $0xffff, %edx\n wrmsr\n"
    "	mov $0x38d, %ecx\n mov $0xb00, %eax\n xor %edx, %edx\n wrmsr\n"
    "	mov $0x38f, %ecx\n xor %eax, %eax\n mov $4, %edx\n wrmsr\n"
    "	ret\n"
    /* stop, clear the overflow, and go on until there were three */
    "guest_nmi:\n"
    "	inc %ebx\n"
    "	mov $0x38f, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
    "	mov $0x390, %ecx\n mov $4, %edx\n wrmsr\n"
    "	cmp $3, %ebx\n jae 2f\n call arm\n"
    "2:	iretq\n"
    "guest_end:\n"
    ".popsection\n");

static uint8_t *ram;

static void put64(uint64_t at, uint64_t value)
{
	memcpy(ram + at, &value, sizeof(value));
}

/* Page tables that map the RAM to itself, a GDT, and an IDT with the NMI. */
static void load_guest(void)
{
	const uint64_t nmi = CODE + (uint64_t)(guest_nmi - guest);

	memcpy(ram + CODE, guest, (size_t)(guest_end - guest));
	put64(PML4, (PML4 + 0x1000) | 3);
	put64(PML4 + 0x1000, (PML4 + 0x2000) | 3);
	put64(PML4 + 0x2000, 0x83);
	put64(GDT + 0x08, 0x00af9b000000ffffull);
	put64(GDT + 0x10, 0x00cf93000000ffffull);
	put64(IDT + 2 * 16, (nmi & 0xffff) | 0x08 << 16 | 0x8e00ull << 32);
}

/* ---- a VMM, as it was ---- */

static void die(const char *what)
{
	fprintf(stderr, "vmm: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int kvm(int fd, unsigned long request, void *arg)
{
	int rc = ioctl(fd, request, arg);

	if (rc < 0)
		die("KVM");
	return rc;
}

static struct kvm_segment segment(uint16_t selector, uint8_t type)
{
	return (struct kvm_segment){.selector = selector,
				    .limit = 0xffffffff,
				    .type = type,
				    .present = 1,
				    .db = selector != 0x08,
				    .s = 1,
				    .l = selector == 0x08,
				    .g = 1};
}

/* 64-bit mode, at the first instruction. */
static void set_registers(int vcpu)
{
	struct kvm_regs regs = {.rip = CODE, .rsp = STACK, .rflags = 2};
	struct kvm_sregs s;

	kvm(vcpu, KVM_GET_SREGS, &s);
	s.cs = segment(0x08, 11);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(0x10, 3);
	s.gdt.base = GDT;
	s.gdt.limit = 0x17;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.cr3 = PML4;
	s.cr4 = 1 << 5;
	s.cr0 = 1u << 31 | 1 | 16;
	s.efer = 1 << 8 | 1 << 10;
	kvm(vcpu, KVM_SET_SREGS, &s);
	kvm(vcpu, KVM_SET_REGS, &regs);
}

/* ---- what is new ---- */

static struct vpmu_kvm_vm *open_vm(struct vpmu_host *host, int fd)
{
	const struct vpmu_guest_cfg model = {.model = VPMU_GUEST_INTEL_V2};
	const struct vpmu_kvm_vm_opts o = {
		.size = sizeof(o), .fd = fd, .guest = &model, .host = host};
	struct vpmu_kvm_vm *vm;
	char why[200];

	if (!vpmu_kvm_vm_open(&o, &vm, why, sizeof(why)))
		return vm;
	fprintf(stderr, "vmm: %s\n", why);
	exit(77);
}

static struct vpmu_kvm_vcpu *open_vcpu(struct vpmu_kvm_vm *vm, int fd, struct kvm_run *run)
{
	const struct vpmu_kvm_vcpu_opts o = {.size = sizeof(o), .fd = fd, .run = run};
	struct vpmu_kvm_vcpu *v;
	char why[200];

	if (!vpmu_kvm_vcpu_open(vm, &o, &v, why, sizeof(why)))
		return v;
	fprintf(stderr, "vmm: %s\n", why);
	exit(1);
}

static void set_cpuid(int dev, int vcpu, const struct vpmu_kvm_vcpu *v)
{
	enum { ROOM = 256 + VPMU_KVM_CPUID_MORE };
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + ROOM * sizeof(c->entries[0]));
	size_t n;

	if (!c)
		die("CPUID");
	c->nent = 256;
	kvm(dev, KVM_GET_SUPPORTED_CPUID, c);
	n = c->nent;
	vpmu_kvm_vcpu_cpuid(v, c->entries, &n, ROOM);
	c->nent = (uint32_t)n;
	kvm(vcpu, KVM_SET_CPUID2, c);
	free(c);
}

/* Run until the guest says so. Returns its number of PMIs. */
static unsigned int run_guest(int vcpu, struct kvm_run *run, struct vpmu_kvm_vcpu *v)
{
	unsigned int pmis = 0;

	for (;;) {
		uint32_t value;
		int rc;

		vpmu_kvm_enter(v);
		rc = ioctl(vcpu, KVM_RUN, 0);
		if (vpmu_kvm_leave(v, rc < 0 ? -errno : rc) != VPMU_KVM_EXIT)
			continue;
		if (rc < 0 || run->exit_reason != KVM_EXIT_IO) {
			fprintf(stderr, "vmm: KVM_RUN: %d, exit %u\n", rc, run->exit_reason);
			exit(1);
		}
		memcpy(&value, (uint8_t *)run + run->io.data_offset, sizeof(value));
		if (run->io.port == PORT_PMIS)
			pmis = value;
		else if (run->io.port == PORT_COUNT)
			printf("guest: %u PMIs, and its counter stands at %u\n", pmis, value);
		else
			return pmis;
	}
}

int main(void)
{
	struct kvm_userspace_memory_region slot = {.memory_size = RAM};
	struct vpmu_host *host = vpmu_host_create();
	struct vpmu_kvm_report r;
	struct vpmu_kvm_vcpu *v;
	struct vpmu_kvm_vm *vm;
	struct kvm_run *run;
	unsigned int pmis;
	int dev, fd, vcpu;

	dev = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (dev < 0) {
		fprintf(stderr, "vmm: /dev/kvm: %s\n", strerror(errno));
		return 77;
	}
	fd = kvm(dev, KVM_CREATE_VM, 0);
	ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!host || ram == MAP_FAILED)
		die("memory");
	load_guest();
	slot.userspace_addr = (uintptr_t)ram;
	kvm(fd, KVM_SET_USER_MEMORY_REGION, &slot);
	kvm(fd, KVM_CREATE_IRQCHIP, 0);
	vm = open_vm(host, fd);
	vcpu = kvm(fd, KVM_CREATE_VCPU, 0);
	run = mmap(NULL, (size_t)kvm(dev, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		   MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		die("kvm_run");
	v = open_vcpu(vm, vcpu, run);
	set_cpuid(dev, vcpu, v);
	set_registers(vcpu);
	pmis = run_guest(vcpu, run, v);
	vpmu_kvm_vcpu_report(v, &r);
	printf("vpmu: %llu WRMSR, %llu RDMSR, %llu #GP, %llu PMIs raised\n",
	       (unsigned long long)r.wrmsr, (unsigned long long)r.rdmsr,
	       (unsigned long long)r.faults, (unsigned long long)r.pmis);
	vpmu_kvm_vcpu_close(v);
	vpmu_kvm_vm_close(vm);
	vpmu_host_destroy(host);
	return pmis != PMIS || r.pmis != PMIS;
}
