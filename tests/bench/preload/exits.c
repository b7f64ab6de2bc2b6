// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The exits of one vCPU on /dev/kvm, as a VMM sees them: for exits.sh, by EXITS_KIND:
 *
 * rdmsr: reads of a counter of reference cycles that counts; wrmsr: writes of one that is off; io:
 * OUT, an exit of the VMM's own. Alone, this program answers MSRs by the MSR filter with nothing
 * but KVM_RUN. With arguments (QEMU's) it is started by vpmu-qemu, and MSRs are the library's.
 * Prints the CPU time of an exit in ns, the MSR exits that it has seen, and the host's instructions
 * of an exit (0: nothing counts them here). EXITS: their number. EXITS_MODEL: amd-core or intel-v2.
 * Exits with 77 where KVM cannot be used.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/measured.h"

enum { RAM = 1 << 16, CODE = 0x1000, BATCH = 1000, ENTRIES = 256 };

static uint8_t *ram;
static struct kvm_run *run;
static uint64_t seen; /* exits for an MSR */

static int skip(const char *what)
{
	fprintf(stderr, "# SKIP %s: %s\n", what, strerror(errno));
	return 77;
}

struct msr {
	uint32_t msr;
	uint64_t value;
};

/* The counter, and what lets it count reference cycles. */
static const struct msr amd[] = {{0xc0010200, 1ull << 32 | 1u << 22 | 3u << 16 | 0x120},
				 {0xc0010201, 0}};
static const struct msr intel[] = {{0x38d, 0x300}, {0x38f, 1ull << 34}, {0x30b, 0}};

static uint8_t *put32(uint8_t *p, uint8_t op, uint32_t v)
{
	*p++ = 0x66; /* a 32-bit operand in 16-bit mode */
	*p++ = op;
	memcpy(p, &v, sizeof(v));
	return p + sizeof(v);
}

/*
 * Of "rdmsr" the selects first. Then: mov ecx, counter; xor eax, eax; again: mov si, BATCH; next:
 * the access; dec si; jnz next; out 81H, al; jmp again.
 */
static void load(const char *kind, const struct msr *m, size_t n)
{
	uint8_t *p = ram + CODE, *again, *next;
	bool io = !strcmp(kind, "io"), rd = !strcmp(kind, "rdmsr");

	for (size_t i = 0; rd && i < n - 1; i++) {
		p = put32(p, 0xb9, m[i].msr);
		p = put32(p, 0xb8, (uint32_t)m[i].value);
		p = put32(p, 0xba, (uint32_t)(m[i].value >> 32));
		*p++ = 0x0f;
		*p++ = 0x30;
	}
	p = put32(p, 0xb9, m[n - 1].msr);
	p = put32(p, 0xb8, 0);
	p = put32(p, 0xba, 0);
	again = p;
	*p++ = 0xbe;
	*p++ = BATCH & 0xff;
	*p++ = BATCH >> 8;
	next = p;
	*p++ = io ? 0xe6 : 0x0f;
	*p++ = io ? 0x80 : rd ? 0x32 : 0x30;
	*p++ = 0x4e;
	*p++ = 0x75;
	*p = (uint8_t)(next - (p + 1));
	p++;
	*p++ = 0xe6;
	*p++ = 0x81;
	*p++ = 0xeb;
	*p = (uint8_t)(again - (p + 1));
}

/* Until the guest has done @batches. */
static int work(int vcpu, unsigned int batches)
{
	while (batches) {
		if (ioctl(vcpu, KVM_RUN, NULL) < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			return -errno;
		}
		switch (run->exit_reason) {
		case KVM_EXIT_IO:
			batches -= run->io.port == 0x81;
			break;
		case KVM_EXIT_X86_RDMSR:
			run->msr.data = seen++;
			run->msr.error = 0;
			break;
		case KVM_EXIT_X86_WRMSR:
			seen++;
			run->msr.error = 0;
			break;
		default:
			fprintf(stderr, "exits: exit %u\n", run->exit_reason);
			return -EIO;
		}
	}
	return 0;
}

/* An event of this thread's instructions, the kernel's as well, or -1. */
static int instructions_open(void)
{
	struct perf_event_attr a = {.type = PERF_TYPE_HARDWARE,
				    .size = sizeof(a),
				    .config = PERF_COUNT_HW_INSTRUCTIONS,
				    .exclude_guest = 1};

	return (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static uint64_t instructions_read(int fd)
{
	uint64_t n = 0;

	return fd >= 0 && read(fd, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* As QEMU does; the library wants to see it. */
static int cpuid(int kvm, int vcpu)
{
	struct {
		struct kvm_cpuid2 head;
		struct kvm_cpuid_entry2 e[ENTRIES];
	} c = {.head = {.nent = ENTRIES - 16}};

	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &c) < 0)
		return -1;
	return ioctl(vcpu, KVM_SET_CPUID2, &c);
}

/* The MSRs exit: all clear bits of the ranges' bitmaps. */
static int msr_exits(int vm, const struct msr *m, size_t n)
{
	static uint8_t none[8];
	struct kvm_enable_cap cap = {.cap = KVM_CAP_X86_USER_SPACE_MSR,
				     .args = {KVM_MSR_EXIT_REASON_FILTER}};
	struct kvm_msr_filter filter = {0};

	for (size_t i = 0; i < n; i++) {
		filter.ranges[i].flags = KVM_MSR_FILTER_READ | KVM_MSR_FILTER_WRITE;
		filter.ranges[i].nmsrs = 1;
		filter.ranges[i].base = m[i].msr;
		filter.ranges[i].bitmap = none;
	}
	return ioctl(vm, KVM_ENABLE_CAP, &cap) < 0 ? -1
						   : ioctl(vm, KVM_X86_SET_MSR_FILTER, &filter);
}

static int make_vm(int kvm, int *vm)
{
	struct kvm_userspace_memory_region slot = {.memory_size = RAM};

	*vm = ioctl(kvm, KVM_CREATE_VM, 0ul);
	if (*vm < 0)
		return -1;
	/* The library wants to see that the VMM asks. */
	ioctl(*vm, KVM_CHECK_EXTENSION, KVM_CAP_IMMEDIATE_EXIT);
	ram = mmap(NULL, RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ram == MAP_FAILED || ioctl(*vm, KVM_CREATE_IRQCHIP, 0) < 0)
		return -1;
	slot.userspace_addr = (uintptr_t)ram;
	return ioctl(*vm, KVM_SET_USER_MEMORY_REGION, &slot);
}

static int make_vcpu(int kvm, int vm)
{
	struct kvm_regs regs = {.rip = CODE, .rflags = 2, .rsp = 0x8000};
	int vcpu = ioctl(vm, KVM_CREATE_VCPU, 0ul), bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_sregs sregs;

	if (vcpu < 0 || bytes < 0)
		return -1;
	run = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED || cpuid(kvm, vcpu) < 0 || ioctl(vcpu, KVM_GET_SREGS, &sregs) < 0)
		return -1;
	sregs.cs.base = sregs.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu, KVM_SET_REGS, &regs) < 0)
		return -1;
	return vcpu;
}

int main(int argc, char **argv)
{
	const char *kind = getenv("EXITS_KIND"), *many = getenv("EXITS"),
		   *model = getenv("EXITS_MODEL");
	const bool alone = argc < 2, is_amd = model && !strcmp(model, "amd-core");
	const struct msr *m = is_amd ? amd : intel;
	const size_t n = is_amd ? sizeof(amd) / sizeof(amd[0]) : sizeof(intel) / sizeof(intel[0]);
	const unsigned int batches = many ? (unsigned int)strtoul(many, NULL, 10) / BATCH : 10;
	int kvm, vm, vcpu, rc, event;
	uint64_t insns;
	double cpu;

	if (!kind || !batches) {
		fprintf(stderr, "%s: no kind or number of exits; expected EXITS_KIND, EXITS\n",
			argv[0]);
		return 2;
	}
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		return skip("/dev/kvm");
	if (make_vm(kvm, &vm) < 0 || (alone && msr_exits(vm, m, n) < 0))
		return skip("a VM with MSR exits");
	vcpu = make_vcpu(kvm, vm);
	if (vcpu < 0)
		return skip("a vCPU");
	load(kind, m, n);
	rc = work(vcpu, 1);
	seen = 0;
	event = instructions_open();
	cpu = 1e9 * clock_s(CLOCK_THREAD_CPUTIME_ID);
	insns = instructions_read(event);
	rc = rc ? rc : work(vcpu, batches);
	insns = instructions_read(event) - insns;
	cpu = 1e9 * clock_s(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (rc) {
		fprintf(stderr, "%s: KVM_RUN: %s\n", argv[0], strerror(-rc));
		return 1;
	}
	printf("%.1f %llu %.1f\n", cpu / (batches * (double)BATCH), (unsigned long long)seen,
	       (double)insns / (batches * (double)BATCH));
	return 0;
}
