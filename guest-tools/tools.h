/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The commands of the guest image and their shared functions. main.c runs the command named by the
 * first word of the guest's arguments. Commands run in CPL3 on every vCPU; each vCPU has its own
 * variables, stack and memory (layout.h), so they need no locks.
 */
#pragma once

#include "guest-tools/layout.h"
#include "guest-tools/text.h"
#include "guest-tools/workloads.h"

enum { TOOL_OK = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 }; /* exit status of a vCPU */

/* A command. @args is the text after its name. Returns the exit status. */
typedef int tool_fn(const struct guest_info *info, const char *args);

struct tool_command {
	const char *name;
	tool_fn *fn;
	const char *args, *desc;
};

/* TOOL_COMMAND - add a command to the image. guest.lds collects them, in the order of the link. */
#define TOOL_COMMAND(name, args, desc)                                                             \
	tool_fn name##_main;                                                                       \
	static const struct tool_command name##_command                                            \
		__attribute__((used, section("tool_commands"), aligned(8))) = {#name, name##_main, \
									       args, desc}

/* tool_error - print "vcpu N: error: @text" for wrong arguments. Returns TOOL_USAGE. */
int tool_error(const struct guest_info *info, const char *text);

/* tool_cannot - print the same line for a feature that this host lacks. Returns TOOL_FAILED. */
int tool_cannot(const struct guest_info *info, const char *text);

/* tool_run - run @w with argument @n. @run->msr, enable and writes are the writes around it. The
 * caller has checked that the memory suffices (args_workload). Returns 0, or -1 if a write was
 * #GP. */
int tool_run(const struct guest_info *info, const struct workload *w, uint64_t n,
	     struct guest_run *run, uint64_t *result);

/* tool_op - have the kernel execute one operation. *@value is input of a write and output of a
 * read. tool_rdmsr, tool_wrmsr, tool_cpuid - the same for one kind of operation. False: #GP. */
bool tool_op(enum guest_op_kind kind, uint32_t index, uint64_t *value);
bool tool_rdmsr(uint32_t msr, uint64_t *value);
bool tool_wrmsr(uint32_t msr, uint64_t value);
void tool_cpuid(uint32_t leaf, uint32_t sub, uint32_t regs[4]);

/* user.S: one function for each system call of layout.h */
uint64_t sys_null_call(uint64_t arg);
uint64_t sys_run(struct guest_run *run);
void sys_exit(int status) __attribute__((noreturn));
int64_t sys_write(const char *buf, size_t bytes);
int64_t sys_pmu(struct guest_op *ops, size_t n);
int64_t sys_pmi(struct guest_pmi *pmi);
