/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A bare emulator VM for tests: user code in CPL3 at addresses of the test's choice, and a
 * kernel that is nothing but 32 exception handlers, which halt. The place of the HLT shows which
 * exception it was; there is no other way out, so a test sees every fault.
 *
 * Uses vmm/engine/engine.h only.
 */
#ifndef TESTS_EMU_BARE_H
#define TESTS_EMU_BARE_H

#include "vmm/engine/engine.h"

#define BARE_MAX_VCPUS 128u

/* Page table bits (SDM vol. 3, table 4-20). */
#define BARE_W	(1ull << 1)
#define BARE_U	(1ull << 2)
#define BARE_NX (1ull << 63)

/* Guest-physical layout; memory from BARE_FREE on is handed out by bare_alloc(). */
#define BARE_GDT      0x1000u
#define BARE_IDT      0x2000u
#define BARE_HANDLERS 0x3000u
#define BARE_CR3      0x4000u
#define BARE_CPU      0x100000u /* one page per vCPU: TSS at 0, kernel stack below its end */
#define BARE_FREE     0x200000u
/* The kernel's linear address of guest-physical 0. */
#define BARE_KERNEL 0xffffffff80000000ull

struct bare {
	struct vmm_engine *e;
	struct vmm_engine_vm *vm;
	uint8_t *ram;
	size_t ram_bytes;
	uint64_t next_free, next_table;
	unsigned int nr_vcpus;
	struct vmm_engine_vcpu *vcpu[BARE_MAX_VCPUS];
};

/* What stopped user code. */
struct bare_stop {
	int vector; /* exception 0..31, or -1: no exception, see run.exit */
	uint32_t error;
	uint64_t cr2;
	uint64_t rip, rflags;
	uint16_t cs, ss;
	struct kvm_regs regs; /* rsp, rip and rflags as at the exception */
};

/* bare_create - a VM with @ram_bytes of zeroed memory (a multiple of 2 MiB, at least 4 MiB) and
 * @nr_vcpus. 0 or -errno with one line in @why. bare_destroy also after a failed create. */
int bare_create(struct bare *s, size_t ram_bytes, unsigned int nr_vcpus, char *why, size_t why_len);
void bare_destroy(struct bare *s);

/* bare_alloc - guest-physical address of @bytes (rounded to pages) of fresh memory, 0 if full. */
uint64_t bare_alloc(struct bare *s, size_t bytes);

/* bare_map - 4 KiB pages @va -> @pa for @bytes, @bits of BARE_W | BARE_U | BARE_NX. Before the
 * first run. 0, or -ENOMEM. */
int bare_map(struct bare *s, uint64_t va, uint64_t pa, size_t bytes, uint64_t bits);

/* bare_user - put vCPU @i into CPL3 with @regs; segment bases as given. */
int bare_user(struct bare *s, unsigned int i, const struct kvm_regs *regs, uint64_t fs_base,
	      uint64_t gs_base);

/* bare_stopped - what vCPU @i stopped at, after a run() that ended with run->exit @exit. */
int bare_stopped(struct bare *s, unsigned int i, enum vmm_exit exit, struct bare_stop *stop);

#endif
