/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A bare emulator VM for tests: user code in CPL3 at addresses of the test's choice, and a
 * kernel that is nothing but 32 exception handlers which halt. The place of its HLT shows the
 * happened; there is no other way out, so a test sees every fault.
 *
 * Uses vmm/engine/engine.h only.
 */
#ifndef TESTS_EMU_SVM_H
#define TESTS_EMU_SVM_H

#include "vmm/engine/engine.h"

#define SVM_MAX_VCPUS 128u

/* Page table bits (SDM vol. 3, table 4-20). */
#define SVM_W  (1ull << 1)
#define SVM_U  (1ull << 2)
#define SVM_NX (1ull << 63)

/* Guest-physical layout; memory from SVM_FREE on is handed out by svm_alloc(). */
#define SVM_GDT	     0x1000u
#define SVM_IDT	     0x2000u
#define SVM_HANDLERS 0x3000u
#define SVM_CR3	     0x4000u
#define SVM_CPU	     0x100000u /* one page per vCPU: TSS at 0, kernel stack below its end */
#define SVM_FREE     0x200000u
/* The kernel's linear address of guest-physical 0. */
#define SVM_KERNEL 0xffffffff80000000ull

struct svm {
	struct vmm_engine *e;
	struct vmm_engine_vm *vm;
	uint8_t *ram;
	size_t ram_bytes;
	uint64_t next_free, next_table;
	unsigned int nr_vcpus;
	struct vmm_engine_vcpu *vcpu[SVM_MAX_VCPUS];
};

/* What stopped user code. */
struct svm_stop {
	int vector; /* exception 0..31, or -1: no exception, see run.exit */
	uint32_t error;
	uint64_t cr2;
	uint64_t rip, rflags;
	uint16_t cs, ss;
	struct kvm_regs regs; /* rsp, rip and rflags as at the exception */
};

/* svm_create - a VM with @ram_bytes of zeroed memory (a multiple of 2 MiB, at least 4 MiB) and
 * @nr_vcpus. 0 or -errno with one line in @why. svm_destroy also after a failed create. */
int svm_create(struct svm *s, size_t ram_bytes, unsigned int nr_vcpus, char *why, size_t why_len);
void svm_destroy(struct svm *s);

/* svm_alloc - guest-physical address of @bytes (rounded to pages) of fresh memory, 0 if full. */
uint64_t svm_alloc(struct svm *s, size_t bytes);

/* svm_map - 4 KiB pages @va -> @pa for @bytes, @bits of SVM_W | SVM_U | SVM_NX. Before the first
 * run. 0, or -ENOMEM. */
int svm_map(struct svm *s, uint64_t va, uint64_t pa, size_t bytes, uint64_t bits);

/* svm_user - put vCPU @i into CPL3 with @regs; segment bases as given. */
int svm_user(struct svm *s, unsigned int i, const struct kvm_regs *regs, uint64_t fs_base,
	     uint64_t gs_base);

/* svm_stopped - what vCPU @i stopped at, after a run() that ended with run->exit @exit. */
int svm_stopped(struct svm *s, unsigned int i, enum vmm_exit exit, struct svm_stop *stop);

#endif
