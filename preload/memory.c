// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where guest memory is in this process: the VMM's memory slots, for the search for RDPMC.
 *
 * A search runs on a vCPU's thread and may take milliseconds. During it the VMM may remove a slot
 * and unmap its memory. So a thread marks its vCPU as searching before it looks at the
 * table. A thread that changes a slot publishes the new table, waits until no vCPU searches, and
 * only then lets KVM and the VMM go on. Both sides store before they load, sequentially consistent.
 *
 * Pages that the library has written are not in KVM's dirty log. They are added to each answer, so
 * that a live migration transfers them: the newest VM_DIRTY_MAX pages. Older ones are of kernels
 * that kexec replaced.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/sys.h"
#include "preload/vm.h"

/* KVM_SET_USER_MEMORY_REGION2 of newer kernels begins as the first one does. */
#define MEM_GUEST_MEMFD (1u << 2)
#define PAGE		4096ull

/* Slots of other address spaces (SMM), of ROM, and of private memory are not in the table. */
#define SLOT_SPACE(slot) ((slot) >> 16)

struct vm_memory {
	size_t n;
	struct kvm_userspace_memory_region slot[];
};

static __thread struct vcpu *memory_vcpu;

void memory_runs(struct vcpu *v)
{
	memory_vcpu = v;
}

void memory_done(struct vcpu *v)
{
	if (atomic_load_explicit(&v->searching, memory_order_relaxed))
		atomic_store_explicit(&v->searching, false, memory_order_release);
}

void *memory_hva(void *arg, uint64_t gpa, uint64_t *left)
{
	struct vm *vm = arg;
	const struct vm_memory *t;

	if (memory_vcpu && !atomic_load_explicit(&memory_vcpu->searching, memory_order_relaxed))
		atomic_store(&memory_vcpu->searching, true);
	t = atomic_load(&vm->memory);
	for (size_t i = 0; t && i < t->n; i++) {
		uint64_t off = gpa - t->slot[i].guest_phys_addr;

		if (off >= t->slot[i].memory_size)
			continue;
		*left = t->slot[i].memory_size - off;
		return (uint8_t *)(uintptr_t)t->slot[i].userspace_addr + off;
	}
	return NULL;
}

/* Publish @t, and free the old table once no vCPU searches in it. Under memory_lock. */
static void memory_publish(struct vm *vm, struct vm_memory *t)
{
	struct vm_memory *old = atomic_exchange(&vm->memory, t);
	const struct timespec pause = {.tv_nsec = 100000};

	pthread_mutex_lock(&vm->lock); /* the list */
	for (struct vcpu *v = vm->vcpus; v; v = v->next) {
		/* A search is bounded, and its thread waits for nothing of the VMM's. */
		while (atomic_load(&v->searching))
			nanosleep(&pause, NULL);
	}
	pthread_mutex_unlock(&vm->lock);
	free(old);
}

static bool memory_is_searched(const struct kvm_userspace_memory_region *m)
{
	return m->memory_size && !(m->flags & (KVM_MEM_READONLY | MEM_GUEST_MEMFD));
}

/* Add slot @number of @from, if it is there. */
static void memory_copy_slot(struct vm_memory *t, const struct vm_memory *from, uint32_t number)
{
	for (size_t i = 0; from && i < from->n; i++)
		if (from->slot[i].slot == number)
			t->slot[t->n++] = from->slot[i];
}

/* The table without slot @number, with room for one more. NULL: no memory. */
static struct vm_memory *memory_without(const struct vm_memory *old, uint32_t number)
{
	size_t n = old ? old->n : 0;
	struct vm_memory *t = malloc(sizeof(*t) + (n + 1) * sizeof(t->slot[0]));

	if (!t)
		return NULL;
	t->n = 0;
	for (size_t i = 0; i < n; i++)
		if (old->slot[i].slot != number)
			t->slot[t->n++] = old->slot[i];
	return t;
}

int memory_set(struct vm *vm, unsigned long request, void *arg)
{
	struct vm_memory *without, *failed, *done;
	struct kvm_userspace_memory_region m;
	int rc;

	memcpy(&m, arg, sizeof(m));
	if (SLOT_SPACE(m.slot))
		return sys_ioctl(vm_fd(vm), request, arg);
	pthread_mutex_lock(&vm->memory_lock);
	/* No search may be in memory that KVM gives up, whether or not the call succeeds. */
	without = memory_without(atomic_load(&vm->memory), m.slot);
	failed = memory_without(without, m.slot);
	done = memory_without(without, m.slot);
	if (!without || !failed || !done) {
		rc = -ENOMEM;
		free(without);
		goto out;
	}
	memory_copy_slot(failed, atomic_load(&vm->memory), m.slot);
	if (memory_is_searched(&m))
		done->slot[done->n++] = m;
	memory_publish(vm, without);
	rc = sys_ioctl(vm_fd(vm), request, arg);
	/* KVM keeps the old slot if it refuses the new one. */
	memory_publish(vm, rc ? failed : done);
	if (rc)
		failed = NULL;
	else
		done = NULL;
out:
	free(failed);
	free(done);
	pthread_mutex_unlock(&vm->memory_lock);
	return rc;
}

void memory_free(struct vm *vm)
{
	free(atomic_load(&vm->memory));
}

void memory_dirty(void *arg, uint64_t gpa, uint64_t bytes)
{
	struct vm *vm = arg;

	/* Counted, since the last page of the address space is followed by page 0. */
	uint64_t page = gpa & -PAGE, pages = bytes ? (gpa % PAGE + bytes - 1) / PAGE + 1 : 0;

	for (; pages; pages--, page += PAGE) {
		uint32_t n = atomic_load(&vm->nr_dirty), i;

		for (i = 0; i < n && i < VM_DIRTY_MAX; i++)
			if (atomic_load(&vm->dirty[i]) == (page | 1))
				break;
		if (i < n && i < VM_DIRTY_MAX)
			continue;
		n = atomic_fetch_add(&vm->nr_dirty, 1);
		atomic_store(&vm->dirty[n % VM_DIRTY_MAX], page | 1); /* 1: it is stored */
	}
}

static void memory_add_dirty(struct vm *vm, const struct kvm_userspace_memory_region *m,
			     uint64_t *bitmap)
{
	uint32_t n = atomic_load(&vm->nr_dirty);

	for (uint32_t i = 0; i < n && i < VM_DIRTY_MAX; i++) {
		uint64_t page = atomic_load(&vm->dirty[i]), at;

		at = (page & -PAGE) - m->guest_phys_addr;
		if (page && at < m->memory_size)
			bitmap[at / PAGE / 64] |= 1ull << (at / PAGE % 64);
	}
}

int memory_get_dirty_log(struct vm *vm, struct kvm_dirty_log *log)
{
	const struct vm_memory *t;
	int rc;

	pthread_mutex_lock(&vm->memory_lock);
	rc = sys_ioctl(vm_fd(vm), KVM_GET_DIRTY_LOG, log);
	t = atomic_load(&vm->memory);
	for (size_t i = 0; !rc && t && i < t->n; i++)
		if (t->slot[i].slot == log->slot)
			memory_add_dirty(vm, &t->slot[i], log->dirty_bitmap);
	pthread_mutex_unlock(&vm->memory_lock);
	return rc;
}
