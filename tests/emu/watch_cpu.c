// SPDX-License-Identifier: GPL-2.0-or-later
/* Breakpoints of the CPU that this runs on, set by ptrace, see watch_cpu.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "tests/emu/host.h"
#include "tests/emu/watch_cpu.h"

static long dr_at(unsigned int n)
{
	return (long)(offsetof(struct user, u_debugreg) +
		      n * sizeof(((struct user *)0)->u_debugreg[0]));
}

static int poke(struct native_side *native, unsigned int n, uint64_t x)
{
	return ptrace(PTRACE_POKEUSER, native->pid, dr_at(n), x) ? -errno : 0;
}

/* Let the helper go on, with signal @sig, until it stops. Returns the wait status, or -1. */
static int until_stop(struct native_side *native, int sig)
{
	int status;

	if (ptrace(PTRACE_SYSCALL, native->pid, 0, sig) ||
	    waitpid(native->pid, &status, 0) != native->pid || !WIFSTOPPED(status))
		return -1;
	return status;
}

static bool is_syscall(int status)
{
	return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* Returns true if the helper is about to make system call @nr on descriptor @fd. */
static bool enters(struct native_side *native, long nr, int fd)
{
	struct user_regs_struct r;
	struct __ptrace_syscall_info info;

	return ptrace(PTRACE_GET_SYSCALL_INFO, native->pid, sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_ENTRY &&
	       !ptrace(PTRACE_GETREGS, native->pid, 0, &r) && (long)r.orig_rax == nr &&
	       (int)r.rdi == fd;
}

/* Until it reads its next command. */
static int until_idle(struct native_side *native)
{
	int status = 0;

	do
		status = until_stop(native, status && !is_syscall(status) && !(status >> 16) &&
							    WSTOPSIG(status) != SIGTRAP
						    ? WSTOPSIG(status)
						    : 0);
	while (status >= 0 && !(is_syscall(status) && enters(native, SYS_read, DT_FD_CMD)));
	return status < 0 ? -1 : 0;
}

const char *watch_attach(struct native_side *native)
{
	static const char none[] = "ptrace sets no hardware breakpoints here";
	int status;

	if (ptrace(PTRACE_SEIZE, native->pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) ||
	    ptrace(PTRACE_INTERRUPT, native->pid, 0, 0) ||
	    waitpid(native->pid, &status, 0) != native->pid || !WIFSTOPPED(status) ||
	    until_idle(native))
		return "no ptrace of a child here";
	/* A hypervisor or a kernel may not let us. */
	return poke(native, 0, DT_DATA) || poke(native, 7, 0x10001) || poke(native, 7, 0) ? none
											  : NULL;
}

void watch_stop(struct native_side *native)
{
	ptrace(PTRACE_DETACH, native->pid, 0, 0);
	native_stop(native);
}

static bool of_case(uint64_t rip)
{
	return rip - DT_CODE <= DT_CODE_BYTES || rip - DT_EDGE <= 0x1000 || rip == DT_EXIT;
}

static int note_trap(struct native_side *native, struct dt_traps *t)
{
	struct user_regs_struct r;
	long dr6;

	errno = 0;
	dr6 = ptrace(PTRACE_PEEKUSER, native->pid, dr_at(6), 0);
	if (errno || ptrace(PTRACE_GETREGS, native->pid, 0, &r) || poke(native, 6, 0))
		return -1;
	if (!of_case(r.rip) || t->n == DT_TRAPS)
		return 0; /* the helper itself, which copies the watched bytes */
	t->at[t->n++] = (struct dt_trap){r.rip, dr6 & 15};
	return t->n == DT_TRAPS ? poke(native, 7, 0) : 0;
}

/* Run the case in buffer 0 with @w. The helper stands at its read. */
int watch_run(struct native_side *native, const struct dt_watch *w, struct dt_traps *t)
{
	int status = 0, rc = poke(native, 7, 0);
	char why[80];

	t->n = 0;
	for (unsigned int i = 0; i < 4 && !rc; i++)
		rc = poke(native, i, w->dr[i]);
	if (!rc)
		rc = poke(native, 7, w->dr7);
	if (rc || native_submit(native, 0))
		return -1;
	for (;;) {
		int sig = 0;

		if (status && !is_syscall(status) && !(status >> 16)) {
			sig = WSTOPSIG(status);
			if (sig == SIGTRAP) {
				siginfo_t info;

				if (ptrace(PTRACE_GETSIGINFO, native->pid, 0, &info))
					return -1;
				if (info.si_code == TRAP_HWBKPT) {
					sig = 0;
					if (note_trap(native, t))
						return -1;
				}
			}
		}
		status = until_stop(native, sig);
		if (status < 0)
			return -1;
		if (is_syscall(status) && enters(native, SYS_write, DT_FD_ACK))
			break;
	}
	if (poke(native, 7, 0) || until_idle(native))
		return -1;
	return native_wait(native, 0, why, sizeof(why));
}

/* Run @code with RSI and RDI in the data, RCX = @count, and the breakpoints @w, of which the second
 * one is made one for the instruction at offset @next unless that is 0. @seed: whose place. */
static int probe(struct native_side *native, uint64_t seed, const uint8_t *code, size_t len,
		 uint64_t count, struct dt_watch w, unsigned int next, struct dt_traps *t)
{
	struct dt_case *c = &native->shm->buf[0].c[0];

	host_case(c, seed, code, len);
	c->regs[DT_RDI] = DT_DATA;
	c->regs[DT_RSI] = DT_DATA + 0x1000;
	c->regs[DT_RCX] = count;
	if (next) {
		w.dr[1] = c->rip + next;
		w.dr7 |= 4;
	}
	native->shm->buf[0].n = 1;
	return watch_run(native, &w, t);
}

/* What kinds of CPU do differently. @isa: what to leave out is made false. */
int watch_measure(struct native_side *native, uint64_t seed, bool *isa, bool *together)
{
	static const uint8_t mov_nop[] = {0x88, 0x07, 0x90},
			     maskmovdqu[] = {0x66, 0x0f, 0xf7, 0xc1}, rep_movsb[] = {0xf3, 0xa4},
			     rep_stosb[] = {0xf3, 0xaa};
	struct dt_watch w = {.dr = {DT_DATA}, .dr7 = 1u << 16 | 1};
	struct dt_traps t;
	bool masked, late = false;

	/*
	 * True if the CPU reports in one #DB the data that an instruction has met and the
	 * breakpoint at the next instruction. B0 to B3 show that a condition is met when the #DB is
	 * generated (SDM vol. 3, 18.2.3), so it may.
	 */
	if (probe(native, seed, mov_nop, sizeof(mov_nop), 0, w, 2, &t))
		return -1;
	*together = t.n == 1 && t.at[0].rip == dt_slot_address(seed) + 2 && t.at[0].dr6 == 3;
	if (probe(native, seed, maskmovdqu, sizeof(maskmovdqu), 0, w, 0, &t))
		return -1;
	masked = t.n;
	for (unsigned int k = 0; k < 2; k++)
		for (uint32_t at = 64; at < 0xfc0; at += 64) {
			w.dr[0] = DT_DATA + at;
			if (probe(native, seed, k ? rep_stosb : rep_movsb, 2, 0x1000, w, 0, &t))
				return -1;
			late |= t.n != 1 || t.at[0].rip != dt_slot_address(seed);
		}
	printf("# this CPU: a data breakpoint and an instruction breakpoint at the next "
	       "instruction are reported in %s\n",
	       *together ? "one #DB" : "two");
	if (masked) {
		isa[ZYDIS_MNEMONIC_MASKMOVDQU] = isa[ZYDIS_MNEMONIC_MASKMOVQ] = false;
		printf("# not generated: maskmovdqu, maskmovq (on this CPU bytes that are not "
		       "stored "
		       "meet breakpoints)\n");
	}
	if (late) {
		isa[ZYDIS_MNEMONIC_MOVSB] = isa[ZYDIS_MNEMONIC_STOSB] = false;
		printf("# not generated: movsb, stosb (on this CPU long ones report a data "
		       "breakpoint "
		       "behind a group of iterations)\n");
	}
	return 0;
}
