/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A fake kernel under preload/sys.h: descriptors, VMs, vCPUs, and of each what KVM would remember.
 * KVM_RUN takes its exits from a list. All calls are logged. For test_preload.c and
 * fuzz_preload.c.
 */
#ifndef TESTS_UNIT_PRELOAD_FAKE_H
#define TESTS_UNIT_PRELOAD_FAKE_H

#include <errno.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/sys.h"
#include "preload/vm.h"

enum { FAKE_FDS = 128, FAKE_FILES = 128, FAKE_EXITS = 16, FAKE_LOG = 4096, FAKE_RUN_BYTES = 8192 };
enum { FAKE_GP = 8, FAKE_SLOTS = 8, FAKE_MSRS = 64, FAKE_LEAVES = 64, FAKE_BITMAP = 4096 };
enum fake_kind { FAKE_FREE = 0, FAKE_DEV, FAKE_VM, FAKE_VCPU };

/* What a plain VMM could tell apart: compared with that of a VM without the library. */
struct fake_state {
	struct kvm_msr_filter filter; /* without its bitmaps */
	uint8_t bitmaps[KVM_MSR_FILTER_MAX_RANGES][FAKE_BITMAP];
	uint64_t msr_reasons;
	bool vpmu_off, irqchip;
	struct kvm_userspace_memory_region slot[FAKE_SLOTS];
	unsigned int leaves, msrs;
	struct kvm_cpuid_entry2 leaf[FAKE_LEAVES];
	struct kvm_msr_entry msr[FAKE_MSRS];
	struct kvm_regs regs;
	uint64_t signals; /* KVM_SET_SIGNAL_MASK */
};

struct fake_file {
	enum fake_kind kind;
	unsigned int refs, vcpus;
	struct fake_file *vm;
	struct fake_state s; /* a VM's; of vCPUs only regs, msr, leaf */
	union fake_run {
		struct kvm_run run;
		uint8_t bytes[FAKE_RUN_BYTES];
	} * run;
};

static struct fake {
	pthread_mutex_t lock;
	struct fake_file file[FAKE_FILES], *fd[FAKE_FDS];
	/* calls, but for KVM_RUN: the lower bits of the request, whatever the number of the VM */
	unsigned int calls;
	unsigned long log[FAKE_LOG];
	/* What fails, or lacks. */
	unsigned long fail_request; /* with fail_error */
	int fail_error;
	int no_cap; /* KVM_CAP_*; -1: none */
	bool no_dup, no_map, amd, amd_core;
	bool any_filter; /* KVM takes MSR filters without bitmaps */
	unsigned int mmap_size;
	/* The exits to come. */
	unsigned int exits, exit;
	struct fake_exit {
		int rc;
		uint32_t reason, msr, why;
		uint64_t data;
		bool immediate; /* an alarm's immediate_exit is set */
		void (*act)(struct kvm_run *run);
	} todo[FAKE_EXITS];
	struct kvm_run entered; /* as KVM saw it at the last KVM_RUN */
	unsigned int runs;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- files ---- */

static inline int fake_open(struct fake_file *f)
{
	for (int fd = 3; fd < FAKE_FDS; fd++) {
		if (fake.fd[fd])
			continue;
		fake.fd[fd] = f;
		f->refs++;
		return fd;
	}
	return -EMFILE;
}

static inline int fake_new(enum fake_kind kind, struct fake_file *vm)
{
	for (size_t i = 0; i < FAKE_FILES; i++) {
		struct fake_file *f = &fake.file[i];
		int fd;

		if (f->kind)
			continue;
		memset(f, 0, sizeof(*f));
		fd = fake_open(f);
		if (fd < 0)
			return fd;
		f->kind = kind;
		f->vm = vm;
		if (kind == FAKE_VCPU) {
			f->run = calloc(1, sizeof(*f->run));
			vm->refs++;
			vm->vcpus++;
		}
		return fd;
	}
	return -EMFILE;
}

static inline void fake_put(struct fake_file *f)
{
	if (--f->refs)
		return;
	if (f->kind == FAKE_VCPU) {
		free(f->run);
		fake_put(f->vm);
	}
	f->kind = FAKE_FREE;
}

static inline struct fake_file *fake_file(int fd)
{
	return fd >= 0 && fd < FAKE_FDS ? fake.fd[fd] : NULL;
}

/* Descriptors in use, those of the library included. */
static inline unsigned int fake_open_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < FAKE_FDS; fd++)
		n += fake.fd[fd] != NULL;
	return n;
}

/* ---- requests ---- */

static inline int fake_supported(struct kvm_cpuid2 *c)
{
	const struct kvm_cpuid_entry2 leaf[] = {
		{.function = 0,
		 .eax = 0xd,
		 .ebx = fake.amd ? 0x68747541 : 0x756e6547,
		 .ecx = 1,
		 .edx = 2},
		{.function = 1, .eax = 0x806f0, .ecx = 1u << 15},
		{.function = 0xa, .eax = 2 | FAKE_GP << 8 | 48 << 16, .edx = 3 | 48 << 5},
		{.function = 0x40000000, .ebx = 7},
		{.function = 0x80000000, .eax = 0x8000001f},
		{.function = 0x80000001, .ecx = 1 | (uint32_t)fake.amd_core << 23},
	};
	const unsigned int n = sizeof(leaf) / sizeof(leaf[0]);

	if (c->nent < n)
		return -E2BIG;
	memcpy(c->entries, leaf, sizeof(leaf));
	c->nent = n;
	return 0;
}

static inline int fake_set_cpuid(struct fake_file *f, const struct kvm_cpuid2 *c)
{
	if (c->nent > FAKE_LEAVES)
		return -E2BIG;
	f->s.leaves = c->nent;
	memcpy(f->s.leaf, c->entries, c->nent * sizeof(c->entries[0]));
	return 0;
}

static inline int fake_filter(struct fake_file *f, const struct kvm_msr_filter *m)
{
	for (size_t i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		/* as the kernel: whole longs */
		size_t bytes = ((size_t)m->ranges[i].nmsrs + 63) / 64 * 8;

		if (bytes > KVM_MSR_FILTER_MAX_BITMAP_SIZE)
			return -EINVAL;
		if (bytes && !m->ranges[i].bitmap && !fake.any_filter)
			return -EFAULT;
	}
	f->s.filter = *m;
	memset(f->s.bitmaps, 0, sizeof(f->s.bitmaps));
	for (size_t i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		size_t bytes = ((size_t)m->ranges[i].nmsrs + 63) / 64 * 8;

		if (bytes && m->ranges[i].bitmap)
			memcpy(f->s.bitmaps[i], m->ranges[i].bitmap,
			       bytes < FAKE_BITMAP ? bytes : FAKE_BITMAP);
		f->s.filter.ranges[i].bitmap = NULL;
	}
	return 0;
}

static inline int fake_enable_cap(struct fake_file *f, const struct kvm_enable_cap *cap)
{
	switch (cap->cap) {
	case KVM_CAP_DIRTY_LOG_RING:
		return f->vcpus ? -EINVAL : 0;
	case KVM_CAP_PMU_CAPABILITY:
		if (f->vcpus || fake.no_cap == KVM_CAP_PMU_CAPABILITY)
			return -EINVAL;
		f->s.vpmu_off = cap->args[0] & KVM_PMU_CAP_DISABLE;
		return 0;
	case KVM_CAP_X86_USER_SPACE_MSR:
		f->s.msr_reasons = cap->args[0];
		return 0;
	case KVM_CAP_SPLIT_IRQCHIP:
		f->s.irqchip = true;
		return 0;
	default:
		return -EINVAL;
	}
}

static inline bool fake_has_msr(const struct fake_file *v, uint32_t msr)
{
	if (msr == 0x10 || msr == 0x174 || msr == 0xc0000080)
		return true;
	return !v->vm->s.vpmu_off && (msr - 0xc1 < FAKE_GP || msr - 0x186 < FAKE_GP ||
				      msr - 0x309 < 3 || msr - 0x38d < 4);
}

static inline int fake_msrs(struct fake_file *v, unsigned long request, struct kvm_msrs *m)
{
	uint32_t i;

	if (m->nmsrs >= 256)
		return -E2BIG;
	for (i = 0; i < m->nmsrs && fake_has_msr(v, m->entries[i].index); i++) {
		unsigned int k = 0;

		while (k < v->s.msrs && v->s.msr[k].index != m->entries[i].index)
			k++;
		if (k == v->s.msrs) {
			v->s.msr[k].index = m->entries[i].index;
			v->s.msr[k].data = 0;
			v->s.msrs++;
		}
		if (request == KVM_SET_MSRS)
			v->s.msr[k].data = m->entries[i].data;
		else
			m->entries[i].data = v->s.msr[k].data;
	}
	return (int)i;
}

static inline int fake_run_vcpu(struct fake_file *v)
{
	struct kvm_run *run = &v->run->run;
	const struct fake_exit *e;

	fake.entered = *run;
	fake.runs++;
	if (fake.exit == fake.exits) {
		run->exit_reason = KVM_EXIT_HLT;
		return 0;
	}
	e = &fake.todo[fake.exit++];
	if (e->immediate)
		run->immediate_exit |= VPMU_KVM_IMMEDIATE;
	if (e->act)
		e->act(run);
	if (e->rc)
		return e->rc;
	run->exit_reason = e->reason;
	if (e->reason == KVM_EXIT_X86_RDMSR || e->reason == KVM_EXIT_X86_WRMSR) {
		run->msr.error = 0;
		run->msr.index = e->msr;
		run->msr.data = e->data;
		run->msr.reason = e->why;
	} else if (e->reason == KVM_EXIT_IO) {
		run->io.direction = KVM_EXIT_IO_IN;
		run->io.size = 4;
		run->io.port = (uint16_t)e->msr;
		run->io.count = 1;
		run->io.data_offset = 4096;
	}
	return 0;
}

/* KVM_CAP_SYNC_REGS: registers in kvm_run, at the begin and the end of KVM_RUN. */
static inline int fake_run_synced(struct fake_file *v)
{
	struct kvm_run *run = &v->run->run;
	int rc;

	if (run->kvm_dirty_regs & KVM_SYNC_X86_REGS)
		v->s.regs = run->s.regs.regs;
	run->kvm_dirty_regs = 0;
	rc = fake_run_vcpu(v);
	if (run->kvm_valid_regs & KVM_SYNC_X86_REGS)
		run->s.regs.regs = v->s.regs;
	return rc;
}

static inline int fake_vcpu_ioctl(struct fake_file *v, unsigned long request, void *arg)
{
	switch (request) {
	case KVM_RUN:
		return fake_run_synced(v);
	case KVM_SET_CPUID:
		return arg ? 0 : -EFAULT;
	case KVM_SET_CPUID2:
		return arg ? fake_set_cpuid(v, arg) : -EFAULT;
	case KVM_GET_MSRS:
	case KVM_SET_MSRS:
		return arg ? fake_msrs(v, request, arg) : -EFAULT;
	case KVM_GET_REGS:
		*(struct kvm_regs *)arg = v->s.regs;
		return 0;
	case KVM_SET_REGS:
		if (!arg)
			return -EFAULT;
		v->s.regs = *(struct kvm_regs *)arg;
		return 0;
	case KVM_GET_SREGS:
		memset(arg, 0, sizeof(struct kvm_sregs));
		return 0;
	case KVM_GET_LAPIC:
		memset(arg, 0, sizeof(struct kvm_lapic_state));
		return 0;
	case KVM_SET_SIGNAL_MASK:
		if (!arg)
			return 0;
		if (((struct kvm_signal_mask *)arg)->len != sizeof(v->s.signals))
			return -EINVAL;
		memcpy(&v->s.signals, ((struct kvm_signal_mask *)arg)->sigset,
		       sizeof(v->s.signals));
		return 0;
	case KVM_NMI:
		return 0;
	default:
		return -ENOTTY;
	}
}

static inline int fake_slot(struct fake_file *vm, const struct kvm_userspace_memory_region *m)
{
	if ((m->slot & 0xffff) >= FAKE_SLOTS || m->slot >> 16 > 1)
		return -EINVAL;
	if (!(m->slot >> 16))
		vm->s.slot[m->slot] = *m;
	return 0;
}

static inline int fake_dirty_log(struct fake_file *vm, struct kvm_dirty_log *log)
{
	if ((log->slot & 0xffff) >= FAKE_SLOTS || log->slot >> 16 ||
	    !vm->s.slot[log->slot].memory_size)
		return -ENOENT;
	if (!log->dirty_bitmap)
		return -EFAULT;
	memset(log->dirty_bitmap, 0, (vm->s.slot[log->slot].memory_size / 4096 + 63) / 64 * 8);
	return 0;
}

static inline int fake_cap(int cap)
{
	if (cap == fake.no_cap)
		return 0;
	return cap == KVM_CAP_PMU_CAPABILITY ? KVM_PMU_CAP_DISABLE : 1;
}

static inline int fake_vm_ioctl(struct fake_file *vm, unsigned long request, void *arg)
{
	switch (request) {
	case KVM_CREATE_VCPU:
		return fake_new(FAKE_VCPU, vm);
	case KVM_CREATE_IRQCHIP:
		vm->s.irqchip = true;
		return 0;
	case KVM_CHECK_EXTENSION:
		return fake_cap((int)(unsigned long)arg);
	case KVM_SIGNAL_MSI:
		return 1;
	case KVM_MEMORY_ENCRYPT_OP:
		return 0;
	}
	if (!arg)
		return -EFAULT;
	switch (request) {
	case KVM_SET_USER_MEMORY_REGION:
		return fake_slot(vm, arg);
	case KVM_GET_DIRTY_LOG:
		return fake_dirty_log(vm, arg);
	case KVM_X86_SET_MSR_FILTER:
		return fake_filter(vm, arg);
	case KVM_ENABLE_CAP:
		return fake_enable_cap(vm, arg);
	case KVM_SET_PMU_EVENT_FILTER:
		return 0;
	default:
		return -ENOTTY;
	}
}

/* ---- sys.h ---- */

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	struct fake_file *f;
	int rc = -EBADF;

	pthread_mutex_lock(&fake.lock);
	f = fake_file(fd);
	if (fake.calls < FAKE_LOG && request != KVM_RUN)
		fake.log[fake.calls++] = request;
	if (f && request == fake.fail_request)
		rc = fake.fail_error;
	else if (f && f->kind == FAKE_VCPU)
		rc = fake_vcpu_ioctl(f, request, arg);
	else if (f && f->kind == FAKE_VM)
		rc = fake_vm_ioctl(f, request, arg);
	else if (f && request == KVM_CREATE_VM)
		rc = fake_new(FAKE_VM, NULL);
	else if (f && request == KVM_GET_VCPU_MMAP_SIZE)
		rc = (int)fake.mmap_size;
	else if (f && request == KVM_GET_SUPPORTED_CPUID)
		rc = arg ? fake_supported(arg) : -EFAULT;
	else if (f && request == KVM_CHECK_EXTENSION)
		rc = fake_cap((int)(unsigned long)arg);
	else if (f)
		rc = -ENOTTY;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

int sys_close(int fd)
{
	struct fake_file *f;

	pthread_mutex_lock(&fake.lock);
	f = fake_file(fd);
	if (f) {
		fake.fd[fd] = NULL;
		fake_put(f);
	}
	pthread_mutex_unlock(&fake.lock);
	return f ? 0 : -EBADF;
}

int sys_dup(int fd)
{
	struct fake_file *f;
	int rc;

	pthread_mutex_lock(&fake.lock);
	f = fake_file(fd);
	rc = fake.no_dup ? -EMFILE : f ? fake_open(f) : -EBADF;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* A mapping holds the file, as in a kernel. */
int sys_map_run(int fd, size_t bytes, void **run)
{
	struct fake_file *f;
	int rc = -ENOMEM;

	pthread_mutex_lock(&fake.lock);
	f = fake_file(fd);
	if (!fake.no_map && f && f->kind == FAKE_VCPU && bytes <= FAKE_RUN_BYTES) {
		*run = f->run;
		f->refs++;
		rc = 0;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

void sys_unmap_run(void *run, size_t bytes)
{
	(void)bytes;
	pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < FAKE_FILES; i++)
		if (fake.file[i].kind == FAKE_VCPU && fake.file[i].run == run) {
			fake_put(&fake.file[i]);
			break;
		}
	pthread_mutex_unlock(&fake.lock);
}

int sys_tid(void)
{
	return (int)syscall(SYS_gettid);
}

/* A kernel as new. Files that are open are forgotten. */
static inline void fake_reset(void)
{
	for (size_t i = 0; i < FAKE_FILES; i++)
		if (fake.file[i].kind == FAKE_VCPU)
			free(fake.file[i].run);
	memset(&fake, 0, sizeof(fake));
	pthread_mutex_init(&fake.lock, NULL);
	fake.no_cap = -1;
	fake.mmap_size = FAKE_RUN_BYTES;
}

/* The VMM's close(): the library first, see interpose.c. */
static inline int vmm_close(int fd)
{
	call_closing(fd);
	return sys_close(fd);
}

/* Its dup(). */
static inline int vmm_dup(int fd)
{
	int rc = sys_dup(fd);

	if (rc >= 0)
		call_duplicated(fd, rc);
	return rc;
}

/* Its close_range(), which closes descriptors of the library, too. */
static inline void vmm_close_range(unsigned int first, unsigned int last)
{
	call_closing_range(first, last);
	for (unsigned int fd = first; fd <= last && fd < FAKE_FDS; fd++)
		sys_close((int)fd);
}

#endif
