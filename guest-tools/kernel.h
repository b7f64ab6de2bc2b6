/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Interface between the files of the guest kernel (kernel.c, kernel_pmi.c, start.S): the data of a
 * vCPU and privileged instructions. The tools run in CPL3 and must not include this file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "guest-tools/layout.h"

enum { VEC_NMI = 2, VEC_UD = 6, VEC_DF = 8, VEC_GP = 13, VEC_PF = 14 };

struct gate { /* SDM vol. 3, 6.14.1 */
	uint16_t offset0;
	uint16_t selector;
	uint8_t ist;
	uint8_t type;
	uint16_t offset16;
	uint32_t offset32;
	uint32_t reserved;
};

struct tss { /* SDM vol. 3, 8.7 */
	uint32_t reserved0;
	uint64_t rsp[3];
	uint64_t reserved1;
	uint64_t ist[7];
	uint64_t reserved2;
	uint16_t reserved3;
	uint16_t iomap;
} __attribute__((packed));

struct percpu {
	uint64_t user_rsp; /* start.S uses the first seven fields: PERCPU_* in layout.h */
	uint64_t run_rip;
	uint64_t run_msr;
	uint64_t run_rsp;   /* RSP of the tool at SYS_RUN */
	uint64_t run_flags; /* RFLAGS for the function that SYS_RUN calls */
	uint64_t run;	    /* struct guest_run, if it has a list of writes */
	uint64_t run_nr;    /* number of writes in the list */
	uint64_t catch_rip;
	uint64_t catch_rsp;
	uint64_t vcpu;
	uint64_t umem_end;
	uint64_t exec, exec_pt; /* the executable page and its table: physical */
	uint64_t exec_va;	/* its virtual address; 0: not mapped */
	uint64_t gdt[8];
	struct guest_pmi *pmi;
	struct tss tss;
};

struct trap_frame {
	uint64_t rax, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t vector, error;
	uint64_t rip, cs, rflags, rsp, ss;
};

static inline struct percpu *this_cpu(void)
{
	return (struct percpu *)KCPU_VA;
}

static inline uint64_t rdmsr(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr));
	return (uint64_t)hi << 32 | lo;
}

static inline void wrmsr(uint32_t msr, uint64_t value)
{
	__asm__ volatile("wrmsr" : : "c"(msr), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)));
}

/* start.S: 0, or -1 if the access is #GP; then nothing is changed. */
int msr_read_safe(uint32_t msr, uint64_t *value);
int msr_write_safe(uint32_t msr, uint64_t value);
int pmc_read_safe(uint32_t index, uint64_t *value);

/* kernel.c: returns true if the @bytes at @p are in the tools' memory, so that CPL3 may pass
 * them. */
bool user_range(const struct percpu *cpu, uint64_t p, uint64_t bytes);

/* kernel_pmi.c: pmi_register - execute SYS_PMI. pmi_interrupt - handle an NMI or a vector >= 32. */
int64_t pmi_register(struct percpu *cpu, uint64_t pmi);
void pmi_interrupt(struct percpu *cpu, const struct trap_frame *f);
