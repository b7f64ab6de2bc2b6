// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A VMM's calls on VMs with vpmu-preload.so, over the fake kernel of the unit tests: each byte of
 * the input is a call, and takes its arguments from those behind it. VMs and vCPUs are made and
 * closed in any order, and calls go to any descriptor.
 *
 * Whatever comes: no access to memory that is not there, no call that never ends, a result that KVM
 * can have, kvm_run's exits of others untouched; and when all is closed, nothing is left open.
 */
#include "preload/fds.h"
#include "preload/words.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/preload_fake.h"
#include "vpmu/host.h"

enum { STEPS_MAX = 200, MSRS = 60, LEAVES = 70, FD_LIMIT = 24, RAM = 64 << 10 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
void __wrap_say(const char *fmt, ...);

static struct input {
	const uint8_t *data;
	size_t size;
} in;
static uint8_t *guest_ram;

static uint8_t next(void)
{
	if (!in.size)
		return 0;
	in.size--;
	return *in.data++;
}

static uint64_t number(void)
{
	static const uint64_t value[] = {
		0, 1, 0xff, 0x43003c, 1ull << 47, ~0ull, 0x5650000100000704};
	uint8_t b = next();

	return b < 128 ? value[b % (sizeof(value) / sizeof(value[0]))]
		       : (uint64_t)next() << (b & 63);
}

static uint32_t msr(void)
{
	static const uint32_t base[] = {0x10,  0xc1,  0x186,	  0x309,      0x38d,
					0x174, 0x606, 0xc0010000, 0xc0010200, 0xc0000300};

	return base[next() % (sizeof(base) / sizeof(base[0]))] + next() % 20;
}

static int call(int fd, unsigned long request, void *arg)
{
	int rc;

	errno = 0;
	rc = call_ioctl(fd, request, arg);
	CHECK(rc >= -1 && (rc >= 0) == (errno == 0), "0x%lx: %d, errno %d", request, rc, errno);
	CHECK(errno != EAGAIN && errno != EPERM, "0x%lx: errno %d", request, errno);
	return rc;
}

static void step_cpuid(int fd, bool set)
{
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + LEAVES * sizeof(c->entries[0]));

	CHECK(c, "memory");
	c->nent = LEAVES;
	call(3, KVM_GET_SUPPORTED_CPUID, c);
	for (uint8_t n = set ? next() % 4 : 0; n; n--) {
		uint32_t *word = (uint32_t *)&c->entries[next() % 8];

		word[next() % 7] = (uint32_t)number();
	}
	if (set && next() % 8 == 0)
		c->nent = next() % (LEAVES + 1);
	if (set && next() % 64 == 0)
		c->nent = (uint32_t)number() | 1024;
	if (set)
		call(fd, KVM_SET_CPUID2, c);
	free(c);
}

static void step_msrs(int fd, unsigned long request)
{
	struct kvm_msrs *m = calloc(1, sizeof(*m) + MSRS * sizeof(m->entries[0]));
	int rc;

	CHECK(m, "memory");
	m->nmsrs = next() % (MSRS + 1);
	for (uint32_t i = 0; i < m->nmsrs; i++)
		m->entries[i] = (struct kvm_msr_entry){.index = msr(), .data = number()};
	rc = call(fd, request, m);
	CHECK(rc <= (int)m->nmsrs, "%d of %u MSRs", rc, m->nmsrs);
	free(m);
}

static void step_filter(int fd)
{
	struct kvm_msr_filter f = {.flags = next() & 1};
	uint8_t *bits[KVM_MSR_FILTER_MAX_RANGES] = {NULL};

	for (uint8_t n = next() % 17; n; n--) {
		unsigned int i = next() % KVM_MSR_FILTER_MAX_RANGES;
		uint32_t nmsrs = next() | (next() % 4 ? 0 : next() << 8);

		free(bits[i]);
		/* exactly what KVM reads */
		bits[i] = calloc((nmsrs + 63) / 64 + !nmsrs, 8);
		f.ranges[i] = (struct kvm_msr_filter_range){
			.flags = 3, .nmsrs = nmsrs, .base = msr(), .bitmap = bits[i]};
		if (next() % 32 == 0)
			f.ranges[i].bitmap = NULL;
		if (next() % 32 == 0)
			f.ranges[i].nmsrs = ~0u;
	}
	call(fd, KVM_X86_SET_MSR_FILTER, &f);
	for (unsigned int i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++)
		free(bits[i]);
}

static void step_memory(int fd)
{
	struct kvm_userspace_memory_region m = {
		.slot = next() % 9 | (next() % 4 ? 0 : 1u << 16),
		.flags = next() & 3,
		.guest_phys_addr = next() % 4 ? next() * 4096ull : number() & ~4095ull,
		.memory_size = next() % 17 * 4096ull,
		.userspace_addr = (uintptr_t)guest_ram,
	};
	int rc = call(fd, KVM_SET_USER_MEMORY_REGION, &m);
	uint64_t left = 0;
	void *vm, *p;

	switch (fds_get(fd, &vm)) {
	case FDS_NONE:
		return;
	case FDS_VCPU:
		fds_put(fd);
		return;
	case FDS_VM:
		break;
	}
	p = memory_hva(vm, m.guest_phys_addr + next() * 256ull, &left);
	CHECK(!p || ((uint8_t *)p >= guest_ram && left && (uint8_t *)p + left <= guest_ram + RAM),
	      "guest memory at %p + %lu", p, left);
	if (!rc)
		memory_dirty(vm, m.guest_phys_addr + next() * 256ull, next());
	fds_put(fd);
}

static void step_dirty(int fd)
{
	uint64_t *bits = calloc(1, sizeof(*bits)); /* of the largest slot: 16 pages */
	struct kvm_dirty_log log = {.slot = next() % 9, .dirty_bitmap = bits};

	call(fd, KVM_GET_DIRTY_LOG, &log);
	free(bits);
}

static void step_run(int fd)
{
	static const uint32_t reason[] = {KVM_EXIT_X86_RDMSR, KVM_EXIT_X86_WRMSR,
					  KVM_EXIT_IO,	      KVM_EXIT_MMIO,
					  KVM_EXIT_X86_RDMSR, KVM_EXIT_X86_WRMSR};
	struct fake_file *f = fake_file(fd);
	int rc;

	if (f && f->kind == FAKE_VCPU)
		f->run->run.immediate_exit = 0; /* the VMM's, after EINTR; no handler ran */
	fake.exits = next() % FAKE_EXITS;
	fake.exit = 0;
	for (unsigned int i = 0; i < fake.exits; i++)
		fake.todo[i] = (struct fake_exit){
			.rc = next() % 8 ? 0 : -EINTR,
			.reason = reason[next() % 6],
			.msr = next() % 16 ? msr() : 0x33,
			.why = next() % 8 ? KVM_MSR_EXIT_REASON_FILTER
					  : KVM_MSR_EXIT_REASON_UNKNOWN,
			.data = number(),
			.immediate = next() % 4 == 0,
		};
	rc = call(fd, KVM_RUN, NULL);
	if (!rc && f->run->run.exit_reason == KVM_EXIT_MMIO)
		CHECK(fake.todo[fake.exit - 1].reason == KVM_EXIT_MMIO, "an exit that was none");
	if (f && f->kind == FAKE_VCPU && !rc)
		CHECK(!f->run->run.immediate_exit || fake.exit, "immediate_exit is set");
}

static void step_cap(int fd)
{
	static const uint32_t caps[] = {KVM_CAP_X86_USER_SPACE_MSR, KVM_CAP_X86_USER_SPACE_MSR,
					KVM_CAP_PMU_CAPABILITY, KVM_CAP_SPLIT_IRQCHIP};
	struct kvm_enable_cap cap = {.cap = caps[next() % 4], .args = {next() & 7}};

	call(fd, KVM_ENABLE_CAP, &cap);
}

static void step_regs(int fd)
{
	struct kvm_regs r = {.rip = next() & 1 ? 0xfff0 : number(), .rflags = 2};

	call(fd, KVM_SET_REGS, &r);
}

/* No two of the library's descriptors belong to one of the VMM's. */
static bool step_make_room(void)
{
	return fake_open_fds() < FD_LIMIT;
}

/* One of the VMM's: VMs and vCPUs, and /dev/kvm. */
static int step_fd(void)
{
	int fd = 3 + next() % FD_LIMIT;
	void *obj;

	if (fds_get(fd, &obj) == FDS_NONE)
		return 3;
	fds_put(fd);
	return fd;
}

/* A duplicate of a VM's or vCPU's. */
static void step_dup(int fd)
{
	void *obj;

	if (!step_make_room() || fds_get(fd, &obj) == FDS_NONE)
		return;
	fds_put(fd);
	CHECK(vmm_dup(fd) > 3 || fake.no_dup, "duplicate");
}

static void step_one(void)
{
	uint8_t what = next();
	int fd = step_fd();

	fake.fail_request = 0;
	fake.no_dup = fake.no_map = false;
	if (what & 0x80 && next() % 8 == 0) {
		static const unsigned long fails[] = {KVM_X86_SET_MSR_FILTER, KVM_ENABLE_CAP,
						      KVM_SET_USER_MEMORY_REGION, KVM_SET_MSRS,
						      KVM_CREATE_VCPU};

		fake.fail_request = fails[next() % 5];
		fake.fail_error = -EINVAL;
		fake.no_dup = next() & 1;
		fake.no_map = next() & 1;
	}
	switch (what % 20) {
	case 0:
	case 1:
		if (step_make_room())
			call(3, KVM_CREATE_VM, (void *)(next() % 16 ? 0ul : 4ul));
		return;
	case 2:
	case 3:
	case 4:
		if (step_make_room())
			call(fd, KVM_CREATE_VCPU, (void *)(unsigned long)(next() % 3));
		return;
	case 5:
		call(fd, KVM_CREATE_IRQCHIP, NULL);
		return;
	case 6:
	case 7:
		return step_cpuid(fd, what % 20 == 7);
	case 8:
	case 9:
		return step_msrs(fd, KVM_SET_MSRS);
	case 10:
		return step_msrs(fd, KVM_GET_MSRS);
	case 11:
		return step_filter(fd);
	case 12:
		return step_memory(fd);
	case 13:
		return step_dirty(fd);
	case 14:
	case 15:
		return step_run(fd);
	case 16:
		return step_cap(fd);
	case 17:
		return step_regs(fd);
	case 18:
		if (fd > 3 && next() & 1)
			vmm_close(fd);
		else
			step_dup(fd);
		return;
	default:
		call(fd, next() & 1 ? KVM_CHECK_EXTENSION : KVM_MEMORY_ENCRYPT_OP,
		     (void *)(unsigned long)KVM_CAP_IMMEDIATE_EXIT);
	}
}

/* Not a line for each VM that is refused. */
void __wrap_say(const char *fmt, ...)
{
	CHECK(fmt, "no line");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	guest_ram = fuzz_ram(RAM);
	return 0;
}

/* Most inputs begin with a guest that has a PMU. */
static void step_start(void)
{
	int vm = call(3, KVM_CREATE_VM, NULL), vcpu;
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + LEAVES * sizeof(c->entries[0]));

	CHECK(c && vm > 3 && !call(vm, KVM_CREATE_IRQCHIP, NULL), "VM");
	c->nent = LEAVES;
	CHECK(!call(3, KVM_GET_SUPPORTED_CPUID, c), "CPUID");
	vcpu = call(vm, KVM_CREATE_VCPU, NULL);
	CHECK(vcpu > 3 && !call(vcpu, KVM_SET_CPUID2, c) && process.watched, "vCPU");
	free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const text[] = {"pmu=intel-v2\ngp=4", "pmu=intel-v5", "pmu=amd-core",
					   "pmu=amd-v2\ngp=6"};
	struct vpmu_host *host = process.host; /* to end one takes milliseconds */
	unsigned int model;
	char err[200];

	in = (struct input){data, size};
	fake_reset();
	process = (struct process){.host = host};
	model = next() % 4;
	fake.amd = model >= 2;
	fake.no_cap = -1;
	CHECK(!process_init(text[model], !fake.amd, err, sizeof(err)), "%s", err);
	CHECK(fake_new(FAKE_DEV, NULL) == 3, "descriptors");
	if (next() % 4)
		step_start();
	else
		fake.no_cap = next() % 4 ? -1 : KVM_CAP_X86_MSR_FILTER;
	for (int i = 0; i < STEPS_MAX && in.size; i++)
		step_one();
	for (int fd = 3; fd < FAKE_FDS; fd++) {
		void *obj;

		/* The VMM's own, in any order; those that are the library's go with them. */
		if (fds_get(fd, &obj) == FDS_NONE && fd != 3)
			continue;
		if (fd != 3)
			fds_put(fd);
		vmm_close(fd);
	}
	CHECK(!fake_open_fds(), "%u descriptors are left", fake_open_fds());
	CHECK(!process.watched, "%u VMs are left", process.watched);
	return 0;
}
