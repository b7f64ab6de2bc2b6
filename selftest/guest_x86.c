// SPDX-License-Identifier: GPL-2.0-or-later
/* The VMs of priv.h on x86. kvm.c calls this, in workers. */
#if defined(__x86_64__)
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftest/priv.h"
#ifdef SELFTEST_PMU
#include "vpmu/guest/model.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"
#endif

enum { RAM = 2 << 20, PML4 = 0x2000, GDT = 0x5000, IDT = 0x6000, CODE = 0x8000, STACK = 0x20000 };
enum { PORT_PMIS = 0xf4, PORT_MSR = 0xf5, PORT_RDPMC = 0xf6, PORT_END = 0xf7 };

/* Registers as in the Intel SDM, vol. 4: 30BH IA32_FIXED_CTR2, 38DH IA32_FIXED_CTR_CTRL, 38FH
 * IA32_PERF_GLOBAL_CTRL, 390H IA32_PERF_GLOBAL_OVF_CTRL, 834H LVTPC in x2APIC mode. */
extern const char guest_x86_loop[], guest_x86_pmu[], guest_x86_nmi[], guest_x86_end[];
__asm__(".pushsection .rodata\n"
	"guest_x86_loop:\n"
	"1:	sub $1, %rcx\n jnz 1b\n"
	"	out %eax, $0xf7\n"
	"guest_x86_pmu:\n"
	"	mov $0x1b, %ecx\n rdmsr\n or $0xc00, %eax\n wrmsr\n" /* x2APIC mode */
	"	mov $0x80f, %ecx\n mov $0x1ff, %eax\n xor %edx, %edx\n wrmsr\n"
	"	mov $0x834, %ecx\n mov $0x400, %eax\n wrmsr\n" /* LVTPC: NMI */
	"	xor %ebx, %ebx\n"
	"	call 4f\n"
	"1:	pause\n cmp $3, %ebx\n jb 1b\n"
	"	mov %ebx, %eax\n out %eax, $0xf4\n"
	/* count a loop without a PMI, stop, and read the counter in both ways */
	"	mov $0x30b, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
	"	mov $0x38d, %ecx\n mov $0x300, %eax\n wrmsr\n"
	"	mov $0x38f, %ecx\n xor %eax, %eax\n mov $4, %edx\n wrmsr\n"
	"	mov $100000, %ecx\n"
	"2:	sub $1, %ecx\n jnz 2b\n"
	"	mov $0x38f, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
	"	mov $0x30b, %ecx\n rdmsr\n out %eax, $0xf5\n"
	"	mov $0x40000002, %ecx\n xor %eax, %eax\n"
	"	rdpmc\n shl $32, %rdx\n"
	"	out %eax, $0xf6\n"
	"	out %eax, $0xf7\n"
	/* IA32_FIXED_CTR2 = -2,000,000; count it at both levels, with PMI; start */
	"4:	mov $0x30b, %ecx\n mov $-2000000, %eax\n mov $0xffff, %edx\n wrmsr\n"
	"	mov $0x38d, %ecx\n mov $0xb00, %eax\n xor %edx, %edx\n wrmsr\n"
	"	mov $0x38f, %ecx\n xor %eax, %eax\n mov $4, %edx\n wrmsr\n"
	"	ret\n"
	"guest_x86_nmi:\n"
	"	inc %ebx\n"
	"	mov $0x38f, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
	"	mov $0x390, %ecx\n mov $4, %edx\n wrmsr\n"
	"	cmp $3, %ebx\n jae 5f\n call 4b\n"
	"5:	iretq\n"
	"guest_x86_end:\n"
	".popsection\n");

struct vpmu_kvm_vcpu;

struct vm {
	int kvm, vm, vcpu;
	uint8_t *ram;
	struct kvm_run *run;
	size_t run_bytes;
};

static void vm_put(struct vm *v, uint64_t at, uint64_t value)
{
	memcpy(v->ram + at, &value, sizeof(value));
}

/* Page tables that map the RAM to itself, a GDT, and an IDT with the NMI. */
static void vm_load(struct vm *v)
{
	const uint64_t nmi = CODE + (uint64_t)(guest_x86_nmi - guest_x86_loop);

	memcpy(v->ram + CODE, guest_x86_loop, (size_t)(guest_x86_end - guest_x86_loop));
	vm_put(v, PML4, (PML4 + 0x1000) | 3);
	vm_put(v, PML4 + 0x1000, (PML4 + 0x2000) | 3);
	vm_put(v, PML4 + 0x2000, 0x83);
	vm_put(v, GDT + 0x08, 0x00af9b000000ffffull);
	vm_put(v, GDT + 0x10, 0x00cf93000000ffffull);
	vm_put(v, IDT + 2 * 16, (nmi & 0xffff) | 0x08 << 16 | 0x8e00ull << 32);
}

static struct kvm_segment vm_segment(uint16_t selector, uint8_t type)
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

/* 64-bit mode, at @entry. */
static int vm_registers(struct vm *v, const char *entry, uint64_t rcx)
{
	struct kvm_regs regs = {.rip = CODE + (uint64_t)(entry - guest_x86_loop),
				.rsp = STACK,
				.rcx = rcx,
				.rflags = 2};
	struct kvm_sregs s;

	if (ioctl(v->vcpu, KVM_GET_SREGS, &s))
		return -errno;
	s.cs = vm_segment(0x08, 11);
	s.ds = s.es = s.fs = s.gs = s.ss = vm_segment(0x10, 3);
	s.gdt.base = GDT;
	s.gdt.limit = 0x17;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.cr3 = PML4;
	s.cr4 = 1 << 5;
	s.cr0 = 1u << 31 | 1 | 16;
	s.efer = 1 << 8 | 1 << 10;
	return ioctl(v->vcpu, KVM_SET_SREGS, &s) || ioctl(v->vcpu, KVM_SET_REGS, &regs) ? -errno
											: 0;
}

static void vm_free(struct vm *v)
{
	if (v->run)
		munmap(v->run, v->run_bytes);
	if (v->vcpu >= 0)
		close(v->vcpu);
	if (v->vm >= 0)
		close(v->vm);
	if (v->kvm >= 0)
		close(v->kvm);
	if (v->ram)
		munmap(v->ram, RAM);
}

static int vm_make(struct vm *v)
{
	struct kvm_userspace_memory_region slot = {.memory_size = RAM};
	void *ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*v = (struct vm){.kvm = -1, .vm = -1, .vcpu = -1};
	if (ram == MAP_FAILED)
		return -errno;
	v->ram = ram;
	vm_load(v);
	slot.userspace_addr = (uintptr_t)ram;
	v->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	v->vm = v->kvm < 0 ? -1 : ioctl(v->kvm, KVM_CREATE_VM, 0);
	if (v->vm < 0 || ioctl(v->vm, KVM_SET_USER_MEMORY_REGION, &slot) ||
	    ioctl(v->vm, KVM_CREATE_IRQCHIP, 0))
		return -errno;
	return 0;
}

static int vm_vcpu(struct vm *v)
{
	int bytes = ioctl(v->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	void *run;

	v->vcpu = ioctl(v->vm, KVM_CREATE_VCPU, 0);
	if (v->vcpu < 0 || bytes < 0)
		return -errno;
	v->run_bytes = (size_t)bytes;
	run = mmap(NULL, v->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->vcpu, 0);
	if (run == MAP_FAILED)
		return -errno;
	v->run = run;
	return 0;
}

/* The CPUID that KVM supports, with that of PMU @p. KVM refuses 64-bit mode to a vCPU whose CPUID
 * lacks it (Linux 6.12). */
static int vm_cpuid(const struct vm *v, const struct vpmu_kvm_vcpu *p)
{
	enum { ROOM = 256 };
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + ROOM * sizeof(c->entries[0]));
	int ret;

	if (!c)
		return -ENOMEM;
	c->nent = ROOM;
	ret = ioctl(v->kvm, KVM_GET_SUPPORTED_CPUID, c) ? -errno : 0;
#ifdef SELFTEST_PMU
	if (!ret && p) {
		size_t n = c->nent;

		ret = vpmu_kvm_vcpu_cpuid(p, c->entries, &n, ROOM);
		c->nent = (uint32_t)n;
	}
#endif
	if (!ret)
		ret = ioctl(v->vcpu, KVM_SET_CPUID2, c) ? -errno : 0;
	free(c);
	return ret;
}

int guest_loop(uint64_t n)
{
	struct vm v;
	int ret = vm_make(&v);

	if (!ret)
		ret = vm_vcpu(&v);
	if (!ret)
		ret = vm_cpuid(&v, NULL);
	if (!ret)
		ret = vm_registers(&v, guest_x86_loop, n);
	while (!ret && ioctl(v.vcpu, KVM_RUN, 0))
		ret = errno == EINTR ? 0 : -errno;
	if (!ret && (v.run->exit_reason != KVM_EXIT_IO || v.run->io.port != PORT_END))
		ret = -EPROTO;
	vm_free(&v);
	return ret;
}

#ifdef SELFTEST_PMU

static void *vm_hva(void *arg, uint64_t gpa, uint64_t *left)
{
	struct vm *v = arg;

	if (gpa >= RAM)
		return NULL;
	*left = RAM - gpa;
	return v->ram + gpa;
}

static int pmu_run(struct vm *v, struct vpmu_kvm_vcpu *p, struct guest_seen *seen)
{
	uint32_t value;
	int rc;

	for (;;) {
		vpmu_kvm_enter(p);
		rc = ioctl(v->vcpu, KVM_RUN, 0);
		if (vpmu_kvm_leave(p, rc < 0 ? -errno : rc) != VPMU_KVM_EXIT)
			continue;
		if (rc < 0 || v->run->exit_reason != KVM_EXIT_IO) {
			snprintf(seen->why, sizeof(seen->why), "the guest ended with exit %u",
				 v->run->exit_reason);
			return -EPROTO;
		}
		memcpy(&value, (uint8_t *)v->run + v->run->io.data_offset, sizeof(value));
		if (v->run->io.port == PORT_PMIS)
			seen->pmis = value;
		else if (v->run->io.port == PORT_MSR)
			seen->msr = value;
		else if (v->run->io.port == PORT_RDPMC)
			seen->rdpmc = value;
		else
			return 0;
	}
}

int guest_pmu(struct guest_seen *seen)
{
	const struct vpmu_guest_cfg model = {.model = VPMU_GUEST_INTEL_V2};
	struct vpmu_kvm_vm_opts vo = {.size = sizeof(vo), .flags = VPMU_KVM_RDPMC, .guest = &model};
	struct vpmu_kvm_vcpu_opts po = {.size = sizeof(po)};
	struct vpmu_host *host = vpmu_host_create();
	struct vpmu_kvm_vcpu *p = NULL;
	struct vpmu_kvm_vm *pv = NULL;
	struct vpmu_kvm_report r;
	struct vm v;
	int ret = vm_make(&v);

	if (!ret && !host)
		ret = -ENOMEM;
	if (!ret) {
		vo.fd = v.vm;
		vo.host = host;
		vo.hva = vm_hva;
		vo.arg = &v;
		ret = vpmu_kvm_vm_open(&vo, &pv, seen->why, sizeof(seen->why));
	}
	if (!ret)
		ret = vm_vcpu(&v);
	if (!ret) {
		po.fd = v.vcpu;
		po.run = v.run;
		ret = vpmu_kvm_vcpu_open(pv, &po, &p, seen->why, sizeof(seen->why));
	}
	if (!ret)
		ret = vm_cpuid(&v, p);
	if (!ret)
		ret = vm_registers(&v, guest_x86_pmu, 0);
	if (!ret)
		ret = pmu_run(&v, p, seen);
	if (p) {
		vpmu_kvm_vcpu_report(p, &r);
		seen->raised = r.pmis;
		vpmu_kvm_release(p);
		vpmu_kvm_vcpu_close(p);
	}
	vpmu_kvm_vm_close(pv);
	if (host)
		vpmu_host_destroy(host);
	vm_free(&v);
	return ret;
}

#else

int guest_pmu(struct guest_seen *seen)
{
	snprintf(seen->why, sizeof(seen->why), "built without the PMU of KVM guests (VPMU_VMM)");
	return -EOPNOTSUPP;
}

#endif
#endif
