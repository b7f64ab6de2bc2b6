// SPDX-License-Identifier: GPL-2.0-or-later
/* See contest_vm.h. */
#include "tests/nested/contest_vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vpmu/guest/model.h"
#include "vpmu/host.h"
#include "vpmu/kvm.h"

void vm_die(const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	va_start(ap, fmt);
	fputs("contest: ", stdout);
	vprintf(fmt, ap);
	va_end(ap);
	printf(" (%s)\n", strerror(errno));
	exit(1);
}

static int kvm(int fd, unsigned long request, void *arg, const char *what)
{
	int rc = ioctl(fd, request, arg);

	if (rc < 0)
		vm_die("%s", what);
	return rc;
}

bool vm_modules(bool mediated)
{
	int fd = open("/kvm-amd.ko", O_RDONLY | O_CLOEXEC);
	char now = 0;

	if (fd < 0 || syscall(SYS_delete_module, "kvm_amd", O_NONBLOCK))
		vm_die("kvm_amd cannot be unloaded");
	if (syscall(SYS_finit_module, fd, mediated ? "enable_mediated_pmu=1" : "", 0))
		vm_die("kvm-amd.ko");
	close(fd);
	fd = open("/sys/module/kvm_amd/parameters/enable_mediated_pmu", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return !mediated;
	if (read(fd, &now, 1) != 1 || (now == 'Y') != mediated)
		vm_die("enable_mediated_pmu is %c", now);
	close(fd);
	return true;
}

/* ---- memory and registers ---- */

static void put64(const struct contest_vm *m, uint64_t at, uint64_t value)
{
	memcpy(m->ram + at, &value, sizeof(value));
}

static void load(const struct contest_vm *m)
{
	const uint64_t nmi = L2_CODE + (uint64_t)(l2_nmi - __start_l2);

	memcpy(m->ram + L2_CODE, __start_l2, (size_t)(__stop_l2 - __start_l2));
	put64(m, L2_PML4, (L2_PML4 + 0x1000) | 3);
	put64(m, L2_PML4 + 0x1000, (L2_PML4 + 0x2000) | 3);
	put64(m, L2_PML4 + 0x2000, 0x83);
	put64(m, L2_GDT + 0x08, 0x00af9b000000ffffull);
	put64(m, L2_GDT + 0x10, 0x00cf93000000ffffull);
	put64(m, L2_IDT + 2 * 16,
	      (nmi & 0xffff) | 0x08 << 16 | 0x8e00ull << 32 | (nmi >> 16) << 48);
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

static void set_registers(const struct contest_vm *m)
{
	struct kvm_regs regs = {
		.rip = L2_CODE + (uint64_t)(l2_start - __start_l2), .rsp = L2_STACK, .rflags = 2};
	struct kvm_sregs s;

	kvm(m->vcpu, KVM_GET_SREGS, &s, "KVM_GET_SREGS");
	s.cs = segment(0x08, 11);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(0x10, 3);
	s.gdt.base = L2_GDT;
	s.gdt.limit = 0x17;
	s.idt.base = L2_IDT;
	s.idt.limit = 0xfff;
	s.cr3 = L2_PML4;
	s.cr4 = 1 << 5;
	s.cr0 = 1u << 31 | 1 | 16;
	s.efer = 1 << 8 | 1 << 10;
	kvm(m->vcpu, KVM_SET_SREGS, &s, "KVM_SET_SREGS");
	kvm(m->vcpu, KVM_SET_REGS, &regs, "KVM_SET_REGS");
}

/* ---- vPMUs ---- */

static void *hva(void *arg, uint64_t gpa, uint64_t *left)
{
	const struct contest_vm *m = arg;

	*left = gpa < L2_RAM ? L2_RAM - gpa : 0;
	return *left ? m->ram + gpa : NULL;
}

static void set_cpuid(struct contest_vm *m)
{
	enum { ROOM = 256 + VPMU_KVM_CPUID_MORE };
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + ROOM * sizeof(c->entries[0]));
	size_t n;

	if (!c)
		vm_die("CPUID");
	c->nent = 256;
	kvm(m->dev, KVM_GET_SUPPORTED_CPUID, c, "KVM_GET_SUPPORTED_CPUID");
	n = c->nent;
	if (m->v && vpmu_kvm_vcpu_cpuid(m->v, c->entries, &n, ROOM))
		vm_die("vpmu_kvm_vcpu_cpuid");
	c->nent = (uint32_t)n;
	kvm(m->vcpu, KVM_SET_CPUID2, c, "KVM_SET_CPUID2");
	free(c);
}

/* What the guest's PMU is is KVM's decision, so that all means are compared with the same guest. */
static bool has_v2(int dev)
{
	struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + 256 * sizeof(c->entries[0]));
	bool v2 = false;

	if (!c)
		vm_die("CPUID");
	c->nent = 256;
	kvm(dev, KVM_GET_SUPPORTED_CPUID, c, "KVM_GET_SUPPORTED_CPUID");
	for (uint32_t i = 0; i < c->nent; i++)
		v2 |= c->entries[i].function == 0x80000022 && c->entries[i].eax & 1;
	free(c);
	return v2;
}

static void open_ours(struct contest_vm *m)
{
	const struct vpmu_guest_cfg model = {.model = m->v2 ? VPMU_GUEST_AMD_V2
							    : VPMU_GUEST_AMD_CORE};
	/* The operator of the table has counters. */
	struct vpmu_kvm_vm_opts o = {.size = sizeof(o),
				     .fd = m->vm,
				     .guest = &model,
				     .flags = VPMU_KVM_RDPMC,
				     .leave_counters = 2,
				     .hva = hva,
				     .arg = m};
	char why[200];

	m->host = o.host = vpmu_host_create();
	if (!m->host || vpmu_kvm_vm_open(&o, &m->kvm_vm, why, sizeof(why)))
		vm_die("%s", m->host ? why : "out of memory");
}

static void open_our_vcpu(struct contest_vm *m)
{
	const struct vpmu_kvm_vcpu_opts o = {.size = sizeof(o), .fd = m->vcpu, .run = m->run};
	char why[200];

	if (vpmu_kvm_vcpu_open(m->kvm_vm, &o, &m->v, why, sizeof(why)))
		vm_die("%s", why);
}

/* ---- life ---- */

static void find_exits(struct contest_vm *m)
{
	struct {
		struct kvm_stats_desc d;
		char name[256];
	} one;
	struct kvm_stats_header h;

	m->stats = kvm(m->vcpu, KVM_GET_STATS_FD, NULL, "KVM_GET_STATS_FD");
	if (pread(m->stats, &h, sizeof(h), 0) != sizeof(h) || h.name_size > sizeof(one.name))
		vm_die("KVM's statistics");
	for (uint32_t i = 0; i < h.num_desc; i++) {
		size_t bytes = sizeof(one.d) + h.name_size;

		if (pread(m->stats, &one, bytes, (off_t)(h.desc_offset + i * bytes)) !=
		    (ssize_t)bytes)
			vm_die("KVM's statistics");
		if (!strcmp(one.name, "exits"))
			m->exits_at = h.data_offset + one.d.offset;
	}
	if (!m->exits_at)
		vm_die("KVM has no statistic \"exits\"");
}

void vm_open(struct contest_vm *m, enum contest_vpmu kind)
{
	struct kvm_userspace_memory_region slot = {.memory_size = L2_RAM};
	struct kvm_enable_cap off = {.cap = KVM_CAP_PMU_CAPABILITY, .args = {KVM_PMU_CAP_DISABLE}};

	memset(m, 0, sizeof(*m));
	m->dev = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m->dev < 0)
		vm_die("/dev/kvm");
	m->v2 = has_v2(m->dev);
	m->vm = kvm(m->dev, KVM_CREATE_VM, 0, "KVM_CREATE_VM");
	m->ram = mmap(NULL, L2_RAM, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (m->ram == MAP_FAILED)
		vm_die("memory");
	load(m);
	slot.userspace_addr = (uintptr_t)m->ram;
	kvm(m->vm, KVM_SET_USER_MEMORY_REGION, &slot, "the guest's RAM");
	kvm(m->vm, KVM_CREATE_IRQCHIP, NULL, "KVM_CREATE_IRQCHIP");
	if (kind == VPMU_NONE)
		kvm(m->vm, KVM_ENABLE_CAP, &off, "KVM_PMU_CAP_DISABLE");
	if (kind == VPMU_OURS)
		open_ours(m);
	m->vcpu = kvm(m->vm, KVM_CREATE_VCPU, NULL, "KVM_CREATE_VCPU");
	m->run = mmap(NULL, (size_t)kvm(m->dev, KVM_GET_VCPU_MMAP_SIZE, NULL, "size"),
		      PROT_READ | PROT_WRITE, MAP_SHARED, m->vcpu, 0);
	if (m->run == MAP_FAILED)
		vm_die("kvm_run");
	if (kind == VPMU_OURS)
		open_our_vcpu(m);
	set_cpuid(m);
	set_registers(m);
	find_exits(m);
	vm_run(m); /* to where it waits for a job */
}

void vm_close(struct contest_vm *m)
{
	vpmu_kvm_vcpu_close(m->v);
	vpmu_kvm_vm_close(m->kvm_vm);
	if (m->host)
		vpmu_host_destroy(m->host);
	munmap(m->run, (size_t)ioctl(m->dev, KVM_GET_VCPU_MMAP_SIZE, NULL));
	close(m->stats);
	close(m->vcpu);
	close(m->vm);
	close(m->dev);
	munmap(m->ram, L2_RAM);
}

struct l2_job *vm_job(const struct contest_vm *m)
{
	return (struct l2_job *)(m->ram + L2_JOB);
}

/* ---- running ---- */

/* Returns true if the exit in kvm_run is for us. */
static bool run_once(struct contest_vm *m)
{
	int rc;

	if (m->v && vpmu_kvm_enter(m->v))
		vm_die("vpmu_kvm_enter");
	rc = ioctl(m->vcpu, KVM_RUN, 0);
	m->user++;
	if (m->v && vpmu_kvm_leave(m->v, rc < 0 ? -errno : rc) != VPMU_KVM_EXIT)
		return false;
	if (rc)
		vm_die("KVM_RUN");
	if (m->run->exit_reason != KVM_EXIT_IO || m->run->io.direction != KVM_EXIT_IO_OUT)
		vm_die("exit %u", m->run->exit_reason);
	return true;
}

void vm_run(struct contest_vm *m)
{
	while (!run_once(m) || m->run->io.port != L2_PORT_DONE)
		;
}

uint64_t vm_exits(const struct contest_vm *m)
{
	uint64_t v = 0;

	if (pread(m->stats, &v, sizeof(v), (off_t)m->exits_at) != sizeof(v))
		vm_die("KVM's statistics");
	return v;
}
