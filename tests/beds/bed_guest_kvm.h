/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What bed_guest.h's VM is on every architecture, for bed_guest.c and bed_guest_x86.c. */
#ifndef TESTS_BEDS_BED_GUEST_KVM_H
#define TESTS_BEDS_BED_GUEST_KVM_H

#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/kvm.h>

#include "tests/beds/bed_guest.h"

#define RAM_BYTES 0x10000ULL

/* A VM with one vCPU, and @code at the begin of its RAM. */
static void guest_open(struct bed_guest *g, const void *code, size_t bytes)
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
	memcpy(g->ram, code, bytes);
	slot.userspace_addr = (uintptr_t)g->ram;
	cr_assert(!ioctl(g->vm, KVM_SET_USER_MEMORY_REGION, &slot), "the guest's RAM: %s",
		  strerror(errno));
	g->vcpu = ioctl(g->vm, KVM_CREATE_VCPU, 0);
	cr_assert(g->vcpu >= 0, "KVM_CREATE_VCPU: %s", strerror(errno));
	g->run_bytes = ioctl(g->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	cr_assert(g->run_bytes > 0);
	g->run = mmap(NULL, (size_t)g->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu, 0);
	cr_assert(g->run != MAP_FAILED);
}

void bed_guest_free(struct bed_guest *g)
{
	munmap(g->run, (size_t)g->run_bytes);
	close(g->vcpu);
	close(g->vm);
	close(g->kvm);
	munmap(g->ram, RAM_BYTES);
}

/* To the exit @reason, which ends the guest's loop. */
static int guest_run(struct bed_guest *g, uint32_t reason)
{
	if (ioctl(g->vcpu, KVM_RUN, 0)) {
		cr_assert_eq(errno, EINTR, "KVM_RUN: %s", strerror(errno));
		return -EINTR;
	}
	cr_assert_eq(g->run->exit_reason, reason, "exit %u", g->run->exit_reason);
	return 0;
}

#endif
