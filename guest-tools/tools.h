/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest tools: commands named by the first word of the guest's arguments. They run in CPL3 on
 * each vCPU, each with variables, stack and memory of its own (layout.h).
 */
#ifndef GUEST_TOOLS_TOOLS_H
#define GUEST_TOOLS_TOOLS_H

#include "guest-tools/layout.h"
#include "guest-tools/text.h"
#include "guest-tools/workloads.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 }; /* exit status of a vCPU */

/* A command: @args is what follows its name. Returns the exit status. */
typedef int tool_fn(const struct guest_info *info, const char *args);

tool_fn stat_main, msr_main, selftest_main, record_main, lbr_main, torture_main, leak_main,
	victim_main;

/* tool_error - "vcpu N: error: @text"; returns TOOL_USAGE. */
int tool_error(const struct guest_info *info, const char *text);

/* tool_cannot - the same line for what this machine does not have; returns TOOL_FAILED. */
int tool_cannot(const struct guest_info *info, const char *text);

/* tool_run - run @w with argument @n; @run->msr and enable say what to write around it. 0, or -1
 * when that write was #GP. The caller checked the memory (args_workload). */
int tool_run(const struct guest_info *info, const struct workload *w, uint64_t n,
	     struct guest_run *run, uint64_t *result);

/* tool_op - one operation of the kernel's; false: #GP. *@value: in for writes, out for reads. */
bool tool_op(enum guest_op_kind kind, uint32_t index, uint64_t *value);
bool tool_rdmsr(uint32_t msr, uint64_t *value);
bool tool_wrmsr(uint32_t msr, uint64_t value);
void tool_cpuid(uint32_t leaf, uint32_t sub, uint32_t regs[4]);

/* user.S */
uint64_t sys_null_call(uint64_t arg);
uint64_t sys_run(struct guest_run *run);
void sys_exit(int status) __attribute__((noreturn));
int64_t sys_write(const char *buf, size_t bytes);
int64_t sys_pmu(struct guest_op *ops, size_t n);
int64_t sys_pmi(struct guest_pmi *pmi);
int64_t sys_exec(const void *code, size_t bytes, uint64_t va);

struct user_fault {
	uint64_t vector, error, address;
};
int user_try(void (*fn)(void *), void *arg, struct user_fault *fault);

#endif
