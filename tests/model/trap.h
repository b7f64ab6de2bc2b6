/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Single-stepping the thread that calls: a SIGTRAP after each instruction. Only x86 lets a program
 * do that to itself; elsewhere TRAP_STEPS is 0 and the functions do nothing.
 */
#ifndef TESTS_MODEL_TRAP_H
#define TESTS_MODEL_TRAP_H

#include <stdint.h>
#include <ucontext.h>

#ifdef __x86_64__
#define TRAP_STEPS 1
#define TRAP_FLAG  0x100

/* The 128 bytes below the stack pointer belong to the function we are inlined into. */
static inline void trap_flag_on(void)
{
	__asm__ volatile(
		"sub $128, %%rsp\n\tpushf\n\torq $0x100, (%%rsp)\n\tpopf\n\tadd $128, %%rsp" ::
			: "memory", "cc");
}

static inline void trap_flag_off(void)
{
	__asm__ volatile("sub $128, %%rsp\n\tpushf\n\tandq $~0x100, (%%rsp)\n\tpopf\n\t"
			 "add $128, %%rsp" ::
				 : "memory", "cc");
}

/* In a handler: the interrupted code is not stepped any more. */
static inline void trap_stop(ucontext_t *uc)
{
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static inline uint64_t trap_pc(const ucontext_t *uc)
{
	return (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
}
#else
#define TRAP_STEPS 0

static inline void trap_flag_on(void)
{
}

static inline void trap_flag_off(void)
{
}

static inline void trap_stop(ucontext_t *uc)
{
}

static inline uint64_t trap_pc(const ucontext_t *uc)
{
#ifdef __aarch64__
	return uc->uc_mcontext.pc;
#else
	return 0;
#endif
}
#endif

#endif
