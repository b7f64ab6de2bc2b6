// SPDX-License-Identifier: GPL-2.0-or-later
/* Counting truth by PTRACE_SINGLESTEP, see truth.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emu/facts.h"
#include "tests/emu/truth.h"

typedef uint64_t any_fn(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* From the child's SIGSTOP to the function's entry: libc's way out of raise(), and our call. */
#define MAX_LEAD_IN 20000

static int step(pid_t pid, struct user_regs_struct *r)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL))
		return -errno;
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	if (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP) {
		fprintf(stderr, "truth: the function died of %s %d\n",
			WIFSTOPPED(status) ? "signal" : "status",
			WIFSTOPPED(status) ? WSTOPSIG(status) : status);
		return -EINTR;
	}
	return ptrace(PTRACE_GETREGS, pid, NULL, r) ? -errno : 0;
}

/* The child is a fork: its code is at the same addresses as here, but may be read anywhere. */
static int decode_at(pid_t pid, uint64_t rip, struct insn *in)
{
	uint8_t code[15];
	struct iovec here = {code, sizeof(code)}, there = {(void *)(uintptr_t)rip, sizeof(code)};
	ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (n < 0) {
		/* The last instruction before an unmapped page. */
		there.iov_len = here.iov_len = 4096 - (rip & 4095);
		if (there.iov_len > sizeof(code))
			return -errno;
		n = process_vm_readv(pid, &here, 1, &there, 1, 0);
		if (n < 0)
			return -errno;
	}
	return insn_decode(code, (size_t)n, in) ? 0 : -ENOEXEC;
}

/* Room for one more of @nr. */
static bool grow(void **array, size_t bytes, size_t nr, size_t *room)
{
	size_t more = *room ? 2 * *room : 1024;
	void *p = nr < *room ? *array : realloc(*array, more * bytes);

	if (!p)
		return false;
	*array = p;
	*room = nr < *room ? *room : more;
	return true;
}

static int note(struct truth_log *log, const struct insn *in, uint64_t from, uint64_t to,
		uint64_t insn)
{
	if (!grow((void **)&log->b, sizeof(*log->b), log->nr, &log->room))
		return -ENOMEM;
	log->b[log->nr++] = (struct truth_branch){.from = from,
						  .to = to,
						  .next = from + in->i.length,
						  .insn = insn,
						  .type = insn_branch_type(in)};
	return 0;
}

static int note_step(struct truth_steps *steps, uint64_t rip, unsigned int what)
{
	if (!grow((void **)&steps->s, sizeof(*steps->s), steps->nr, &steps->room))
		return -ENOMEM;
	steps->s[steps->nr++] = (struct truth_step){.rip = rip, .what = what};
	return 0;
}

/* The results of a run; each may be NULL. */
struct sink {
	struct truth_log *log;
	struct truth_steps *steps;
};

static int count_to_return(pid_t pid, struct user_regs_struct *r, struct truth *out,
			   const struct sink *sink)
{
	uint64_t entry_rsp = r->rsp;
	bool in_string = false; /* amid the iterations of a rep string instruction */

	for (;;) {
		uint64_t rip = r->rip, rcx = r->rcx;
		unsigned int what = 0;
		struct insn in;
		bool string, idle;
		int rc = decode_at(pid, rip, &in);

		if (rc)
			return rc;
		string = insn_is_rep_string(&in);
		if (string && in.i.address_width == 32)
			rcx = (uint32_t)rcx;
		idle = string && !in_string && rcx == 0;
		rc = step(pid, r);
		if (rc)
			return rc;
		/* One trap per iteration, but one instruction: it retires when RIP moves on. */
		in_string = string && r->rip == rip;
		if (in_string)
			continue;
		out->insns++;
		if (insn_loads(&in) && !idle)
			what |= TRUTH_LOAD;
		if (insn_stores(&in) && !idle)
			what |= TRUTH_STORE;
		if (insn_is_branch(&in))
			what |= TRUTH_BRANCH;
		if (insn_is_branch(&in) &&
		    (in.i.meta.category != ZYDIS_CATEGORY_COND_BR || r->rip != rip + in.i.length))
			what |= TRUTH_TAKEN;
		if (in.i.meta.category == ZYDIS_CATEGORY_COND_BR)
			what |= TRUTH_CONDITIONAL;
		out->conditional += !!(what & TRUTH_CONDITIONAL);
		out->loads += !!(what & TRUTH_LOAD);
		out->stores += !!(what & TRUTH_STORE);
		out->branches += !!(what & TRUTH_BRANCH);
		out->taken += !!(what & TRUTH_TAKEN);
		if (sink->log && what & TRUTH_TAKEN)
			rc = note(sink->log, &in, rip, r->rip, out->insns);
		if (sink->steps && !rc)
			rc = note_step(sink->steps, rip, what);
		if (rc)
			return rc;
		if (in.i.meta.category == ZYDIS_CATEGORY_RET && r->rsp > entry_rsp) {
			out->ret = r->rax;
			return 0;
		}
	}
}

static int trace(pid_t pid, uint64_t entry, struct truth *out, const struct sink *sink)
{
	struct user_regs_struct r;
	int status, rc;

	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status))
		return -EPERM;
	if (ptrace(PTRACE_SETOPTIONS, pid, NULL, (void *)(uintptr_t)PTRACE_O_EXITKILL))
		return -errno;
	for (int i = 0; i < MAX_LEAD_IN; i++) {
		rc = step(pid, &r);
		if (rc)
			return rc;
		if (r.rip == entry)
			return count_to_return(pid, &r, out, sink);
	}
	return -EINTR;
}

static int run(const void *fn, const uint64_t args[6], struct truth *out, const struct sink *sink)
{
	any_fn *f = (any_fn *)(uintptr_t)fn;
	pid_t pid;
	int rc;

	memset(out, 0, sizeof(*out));
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
			_exit(1);
		raise(SIGSTOP);
		f(args[0], args[1], args[2], args[3], args[4], args[5]);
		_exit(0);
	}
	rc = trace(pid, (uint64_t)(uintptr_t)fn, out, sink);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return rc;
}

int truth_record(const void *fn, const uint64_t args[6], struct truth *out, struct truth_log *log)
{
	return run(fn, args, out, &(struct sink){.log = log});
}

int truth_steps(const void *fn, const uint64_t args[6], struct truth *out,
		struct truth_steps *steps)
{
	return run(fn, args, out, &(struct sink){.steps = steps});
}

int truth_call(const void *fn, const uint64_t args[6], struct truth *out)
{
	return truth_record(fn, args, out, NULL);
}

int truth_count(void (*fn)(void *), void *arg, struct truth *out)
{
	const uint64_t args[6] = {(uint64_t)(uintptr_t)arg};

	return truth_call((const void *)(uintptr_t)fn, args, out);
}
