/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For the test VMMs guest_counter.c and guest_pages.c: a VM of 8 KiB that leaves KVM_RUN at once,
 * page faults of the thread, and a perf event of this program that counts them, too. A failure
 * ends the program: with 77 where KVM or perf events cannot be used.
 */
#ifndef TESTS_GUEST_FAULTS_H
#define TESTS_GUEST_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAULTS_MAX 256

static char *faults_memory;
static int faults_perf;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(errno == ENOENT || errno == EACCES ? 77 : 1);
}

/* The descriptor of a VM without a vCPU. *@kvm: that of /dev/kvm. */
static int guest_vm(int *kvm)
{
	static const uint8_t code[] = {0xe6, 0x10, 0xeb, 0xfc}; /* 1: out %al, $0x10; jmp 1b */
	struct kvm_userspace_memory_region mem = {.memory_size = 0x2000};
	uint8_t *ram =
		mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int vm;

	*kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (*kvm < 0 || ram == MAP_FAILED)
		die("/dev/kvm");
	memcpy(ram + 0x1000, code, sizeof(code));
	mem.userspace_addr = (uintptr_t)ram;
	vm = ioctl(*kvm, KVM_CREATE_VM, 0);
	if (vm < 0 || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &mem))
		die("KVM");
	return vm;
}

/* Set the registers of @vcpu, and open the perf event. */
static void guest_begin(int vcpu)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(a), .config = PERF_COUNT_SW_PAGE_FAULTS};
	struct kvm_regs r = {.rip = 0x1000, .rflags = 2};
	struct kvm_sregs s;

	if (ioctl(vcpu, KVM_GET_SREGS, &s))
		die("KVM");
	s.cs.base = s.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &s) || ioctl(vcpu, KVM_SET_REGS, &r))
		die("KVM");
	faults_memory = mmap(NULL, FAULTS_MAX * 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (faults_memory == MAP_FAILED)
		die("memory");
	madvise(faults_memory, FAULTS_MAX * 4096, MADV_NOHUGEPAGE);
	faults_perf = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (faults_perf < 0)
		die("perf_event_open");
}

static void faults_take(unsigned int n)
{
	madvise(faults_memory, FAULTS_MAX * 4096, MADV_DONTNEED);
	for (unsigned int i = 0; i < n && i < FAULTS_MAX; i++)
		*(volatile char *)(faults_memory + i * 4096) = 1;
}

static uint64_t faults_by_perf(void)
{
	uint64_t n = 0;

	return read(faults_perf, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

#endif
