// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The VM of bed_guest.h on x86: 64-bit code under KVM. AMD's counters count each VMRUN as an
 * instruction of the guest (vmm/emu/svm/world.c), so that much is added to the loop.
 */
#include "tests/beds/bed_guest.h"

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm.h>

#define RAM_BYTES 0x10000ULL
#define TABLES_AT 0x1000ULL /* offset in RAM of three page tables: one page of 2 MiB at the RAM */
#define PORT	  0x10

static const uint8_t code[] = {
	0xeb, 0x00,	  /* jmp the next line */
	0x48, 0xff, 0xc8, /* dec %rax */
	0x75, 0xfb,	  /* jnz the line above */
	0xe6, PORT,	  /* out: ends KVM_RUN, and KVM carries it out, so it never retires */
	0xeb, 0xf7,	  /* jmp dec */
};

_Static_assert(sizeof(code) == BED_GUEST_CODE_BYTES, "as the header says");

static void tables(uint64_t *t)
{
	const uint64_t at = BED_GUEST_CODE + TABLES_AT;

	t[0] = (at + 0x1000) | 3;
	t[512 + BED_GUEST_CODE / (1 << 30)] = (at + 0x2000) | 3;
	t[1024 + BED_GUEST_CODE % (1 << 30) / (1 << 21)] = BED_GUEST_CODE | 0x83;
}

/* KVM refuses 64-bit mode to a vCPU whose CPUID lacks it (Linux 6.12). */
static void set_cpuid(const struct bed_guest *g)
{
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + 256 * sizeof(c->entries[0]));

	cr_assert(c);
	c->nent = 256;
	cr_assert(!ioctl(g->kvm, KVM_GET_SUPPORTED_CPUID, c), "%s", strerror(errno));
	cr_assert(!ioctl(g->vcpu, KVM_SET_CPUID2, c), "KVM_SET_CPUID2: %s", strerror(errno));
	free(c);
}

static void long_mode(const struct bed_guest *g)
{
	struct kvm_regs regs = {.rip = BED_GUEST_CODE, .rflags = 2};
	struct kvm_sregs s;

	cr_assert(!ioctl(g->vcpu, KVM_GET_SREGS, &s));
	s.cr0 = 0x80000011;
	s.cr3 = BED_GUEST_CODE + TABLES_AT;
	s.cr4 = 0x20;
	s.efer = 0x500;
	s.cs = (struct kvm_segment){
		.limit = ~0u, .selector = 8, .type = 11, .present = 1, .s = 1, .l = 1, .g = 1};
	s.ss = s.ds = s.es = (struct kvm_segment){
		.limit = ~0u, .selector = 16, .type = 3, .present = 1, .s = 1, .db = 1, .g = 1};
	cr_assert(!ioctl(g->vcpu, KVM_SET_SREGS, &s), "KVM_SET_SREGS: %s", strerror(errno));
	cr_assert(!ioctl(g->vcpu, KVM_SET_REGS, &regs));
}

void bed_guest_make(struct bed_guest *g)
{
	struct kvm_userspace_memory_region slot = {.guest_phys_addr = BED_GUEST_CODE,
						   .memory_size = RAM_BYTES};

	memset(g, 0, sizeof(*g));
	g->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (g->kvm < 0)
		cr_skip_test("/dev/kvm: %s", strerror(errno));
	g->vm = ioctl(g->kvm, KVM_CREATE_VM, 0);
	cr_assert(g->vm >= 0, "KVM_CREATE_VM: %s", strerror(errno));
	g->ram = mmap(NULL, RAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(g->ram != MAP_FAILED);
	memcpy(g->ram, code, sizeof(code));
	tables((uint64_t *)((uint8_t *)g->ram + TABLES_AT));
	slot.userspace_addr = (uintptr_t)g->ram;
	cr_assert(!ioctl(g->vm, KVM_SET_USER_MEMORY_REGION, &slot), "the guest's RAM: %s",
		  strerror(errno));
	g->vcpu = ioctl(g->vm, KVM_CREATE_VCPU, 0);
	cr_assert(g->vcpu >= 0, "KVM_CREATE_VCPU: %s", strerror(errno));
	g->run_bytes = ioctl(g->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	cr_assert(g->run_bytes > 0);
	g->run = mmap(NULL, (size_t)g->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu, 0);
	cr_assert(g->run != MAP_FAILED);
	set_cpuid(g);
	long_mode(g);
}

void bed_guest_free(struct bed_guest *g)
{
	munmap(g->run, (size_t)g->run_bytes);
	close(g->vcpu);
	close(g->vm);
	close(g->kvm);
	munmap(g->ram, RAM_BYTES);
}

void bed_guest_start(struct bed_guest *g, uint64_t n)
{
	struct kvm_regs regs;

	cr_assert(!ioctl(g->vcpu, KVM_GET_REGS, &regs));
	regs.rax = n;
	cr_assert(!ioctl(g->vcpu, KVM_SET_REGS, &regs));
}

int bed_guest_run(struct bed_guest *g)
{
	if (ioctl(g->vcpu, KVM_RUN, 0)) {
		cr_assert_eq(errno, EINTR, "KVM_RUN: %s", strerror(errno));
		return -EINTR;
	}
	cr_assert_eq(g->run->exit_reason, (uint32_t)KVM_EXIT_IO, "exit %u", g->run->exit_reason);
	cr_assert(g->run->io.direction == KVM_EXIT_IO_OUT && g->run->io.port == PORT);
	return 0;
}

/* The vCPU's "exits" of KVM's statistics: kvm-amd adds one for each VMRUN. */
uint64_t bed_guest_entries(const struct bed_guest *g)
{
	struct {
		struct kvm_stats_desc d;
		char name[256];
	} one;
	struct kvm_stats_header h;
	uint64_t v = 0;
	int fd = ioctl(g->vcpu, KVM_GET_STATS_FD, NULL);

	cr_assert(fd >= 0 && pread(fd, &h, sizeof(h), 0) == sizeof(h), "KVM_GET_STATS_FD: %s",
		  strerror(errno));
	cr_assert(h.name_size <= sizeof(one.name));
	for (uint32_t i = 0; i < h.num_desc; i++) {
		size_t bytes = sizeof(one.d) + h.name_size;

		cr_assert_eq(pread(fd, &one, bytes, (off_t)(h.desc_offset + i * bytes)),
			     (ssize_t)bytes);
		if (strcmp(one.name, "exits"))
			continue;
		cr_assert_eq(pread(fd, &v, sizeof(v), (off_t)(h.data_offset + one.d.offset)),
			     (ssize_t)sizeof(v));
		close(fd);
		return v;
	}
	cr_assert_fail("KVM has no statistic 'exits'");
	return 0;
}
