// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VMM on vpmu/kvm.h whose vCPU is counted by vpmud, for vpmud_pages.sh:
 *
 *   vpmu-guest-pages SOCKET    a VM of one vCPU, run by this thread
 *
 * Its vCPU's account has a consumer of page faults. Reads commands from standard input and answers
 * each with one line:
 *
 *   start      begin to count, in place of the last time: "0", or the error's number
 *   run        run the vCPU for a while, so that ticks come: "SHARED EVENTS", the keys on vpmud's
 *              page and the perf events that the library has open
 *   faults N   take N page faults, run the vCPU once: "COUNT PERF GAP": since the start, by the
 *              consumer and by a perf event of this program; the ns without a counter
 */
#include <dirent.h>
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
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vpmu/consumer.h"
#include "vpmu/guest/guest.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"
#include "vpmu/pcpu.h"

#define PAGES 256
#define FAULTS                                                                                     \
	vpmu_key_make(VPMU_SPACE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS,                              \
		      VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST)

static struct vpmu_kvm_vm *vm;
static struct vpmu_kvm_vcpu *v;
static struct vpmu_consumer *consumer;
static int vcpu, perf;
static uint64_t perf_base;
static char *memory;

static void die(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	exit(errno == ENOENT || errno == EACCES ? 77 : 1);
}

static void vm_make(const char *socket)
{
	static const uint8_t code[] = {0xe6, 0x10, 0xeb, 0xfc}; /* 1: out %al, $0x10; jmp 1b */
	static struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_AMD_CORE};
	struct kvm_userspace_memory_region mem = {.memory_size = 0x2000};
	struct kvm_regs r = {.rip = 0x1000, .rflags = 2};
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(a), .config = PERF_COUNT_SW_PAGE_FAULTS};
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), fd;
	uint8_t *ram =
		mmap(NULL, 0x2000, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct vpmu_kvm_vm_opts o = {.size = sizeof(o),
				     .flags = VPMU_KVM_NO_IRQCHIP,
				     .guest = &cfg,
				     .host = vpmu_host_create(),
				     .vpmud = socket};
	struct vpmu_kvm_vcpu_opts vo = {.size = sizeof(vo)};
	struct kvm_sregs s;
	char why[300] = "";

	memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		      0);
	if (kvm < 0 || ram == MAP_FAILED || memory == MAP_FAILED)
		die("/dev/kvm");
	madvise(memory, PAGES * 4096, MADV_NOHUGEPAGE);
	memcpy(ram + 0x1000, code, sizeof(code));
	mem.userspace_addr = (uintptr_t)ram;
	fd = ioctl(kvm, KVM_CREATE_VM, 0);
	if (fd < 0 || ioctl(fd, KVM_SET_USER_MEMORY_REGION, &mem))
		die("KVM");
	o.fd = fd;
	if (vpmu_kvm_vm_open(&o, &vm, why, sizeof(why))) {
		errno = ENOENT; /* a KVM without MSR filters */
		die(why);
	}
	vcpu = ioctl(fd, KVM_CREATE_VCPU, 0);
	vo.fd = vcpu;
	vo.run = mmap(NULL, (size_t)ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), PROT_READ | PROT_WRITE,
		      MAP_SHARED, vcpu, 0);
	if (vcpu < 0 || vo.run == MAP_FAILED || ioctl(vcpu, KVM_GET_SREGS, &s))
		die("KVM");
	if (vpmu_kvm_vcpu_open(vm, &vo, &v, why, sizeof(why)))
		die(why);
	s.cs.base = s.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &s) || ioctl(vcpu, KVM_SET_REGS, &r))
		die("KVM");
	perf = (int)syscall(SYS_perf_event_open, &a, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (perf < 0)
		die("perf_event_open");
}

static void vm_run(void)
{
	enum vpmu_kvm_next next;
	int rc;

	do {
		rc = vpmu_kvm_enter(v);
		if (rc)
			die("enter");
		rc = ioctl(vcpu, KVM_RUN, 0);
		next = vpmu_kvm_leave(v, rc < 0 ? -errno : rc);
	} while (next != VPMU_KVM_EXIT);
}

static uint64_t perf_read(void)
{
	uint64_t n = 0;

	return read(perf, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

static struct vpmu_value consumer_value(void)
{
	struct vpmu_value value;

	vpmu_pcpu_flush(vpmu_kvm_vcpu_guest(v)->pcpu);
	vpmu_consumer_read(consumer, &value);
	return value;
}

static int start(void)
{
	struct vpmu_pcpu *pcpu = vpmu_kvm_vcpu_guest(v)->pcpu;
	int rc;

	if (consumer) {
		vpmu_consumer_del(consumer, pcpu, NULL);
		vpmu_rcu_free(consumer);
	}
	consumer = calloc(1, sizeof(*consumer));
	rc = consumer ? vpmu_consumer_add(consumer, vpmu_kvm_vcpu_account(v), FAULTS, pcpu) : -1;
	vm_run();
	perf_base = perf_read() - consumer_value().count;
	return -rc;
}

/* Open perf events, but for that of this program. */
static unsigned int events(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int n = 0;
	struct dirent *e;
	char to[64];

	while (dir && (e = readdir(dir))) {
		ssize_t len = readlinkat(dirfd(dir), e->d_name, to, sizeof(to) - 1);

		to[len > 0 ? len : 0] = 0;
		n += strstr(to, "[perf_event]") != NULL;
	}
	closedir(dir);
	return n - 1;
}

static void faults(unsigned int n)
{
	struct vpmu_value value;
	uint64_t by_perf;

	madvise(memory, PAGES * 4096, MADV_DONTNEED);
	for (unsigned int i = 0; i < n && i < PAGES; i++)
		*(volatile char *)(memory + i * 4096) = 1;
	vm_run();
	value = consumer_value();
	by_perf = perf_read();
	printf("%lu %lu %lu\n", (unsigned long)value.count, (unsigned long)(by_perf - perf_base),
	       (unsigned long)(value.enabled_ns - value.running_ns));
}

/* The library's alarms interrupt system calls. */
static bool next_line(char *line, int size)
{
	while (!fgets(line, size, stdin)) {
		if (feof(stdin) || errno != EINTR)
			return false;
		clearerr(stdin);
	}
	return true;
}

int main(int argc, char **argv)
{
	struct vpmu_kvm_report r;
	char line[128], word[32];
	unsigned int n;

	if (argc != 2)
		return 2;
	prctl(PR_SET_NAME, "CPU 0/KVM"); /* as QEMU names it: vpmud finds the thread by that */
	vm_make(argv[1]);
	vm_run();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (next_line(line, sizeof(line))) {
		n = 0;
		if (sscanf(line, "%31s %u", word, &n) < 1)
			continue;
		if (!strcmp(word, "start")) {
			printf("%d\n", start());
		} else if (!strcmp(word, "run")) {
			for (unsigned int i = 0; i < 10; i++) {
				usleep(5000);
				vm_run();
			}
			vpmu_kvm_vcpu_report(v, &r);
			printf("%u %u\n", r.shared, events());
		} else if (!strcmp(word, "faults")) {
			faults(n);
		}
	}
	return 0;
}
