// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hardware breakpoints of the soft machine against the CPU that this runs on: the random sequences
 * of the differential test run on both with the same random breakpoints for instructions, stores
 * and accesses. Each #DB must come at the same place with the same bits of DR6, and a sequence must
 * end as it does without breakpoints, with the same counts, also in random slices.
 *
 * On the CPU the breakpoints are set by ptrace, as a debugger does it. What ptrace does not allow
 * is not compared: breakpoints for I/O, general detect, instruction breakpoints in the kernel.
 *
 * One difference is known. Some SSE instructions have a memory operand of 16 bytes, but need only
 * one half of it: the lower one as the count of a shift or for UNPCKLPD, the upper one for
 * UNPCKHPD. AMD's family 19H compares that half with breakpoints, and the soft machine all of it.
 * So these instructions are not generated.
 *
 *   soft-watch [--seed N] [--count N]
 */
#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "tests/soft/compare.h"
#include "tests/soft/coverage.h"
#include "tests/soft/native_side.h"
#include "tests/soft/soft_side.h"
#include "tests/soft/vendor.h"

#define MAX_REPORTS 6u

static struct native_side native;
static struct vendor_host host;
static struct host_facts facts;
static bool together; /* see measure() */
static struct soft_side plain, watched, sliced;
static struct {
	uint64_t ran, skipped, disturbed, differs, failed, code, data, joined;
} st;

/* ---- the CPU ---- */

static long dr_at(unsigned int n)
{
	return (long)(offsetof(struct user, u_debugreg) +
		      n * sizeof(((struct user *)0)->u_debugreg[0]));
}

static int poke(unsigned int n, uint64_t x)
{
	return ptrace(PTRACE_POKEUSER, native.pid, dr_at(n), x) ? -errno : 0;
}

/* Let the helper go on, with signal @sig, until it stops. Returns the wait status, or -1. */
static int until_stop(int sig)
{
	int status;

	if (ptrace(PTRACE_SYSCALL, native.pid, 0, sig) ||
	    waitpid(native.pid, &status, 0) != native.pid || !WIFSTOPPED(status))
		return -1;
	return status;
}

static bool is_syscall(int status)
{
	return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* Whether the helper is about to make system call @nr on descriptor @fd. */
static bool enters(long nr, int fd)
{
	struct user_regs_struct r;
	struct __ptrace_syscall_info info;

	return ptrace(PTRACE_GET_SYSCALL_INFO, native.pid, sizeof(info), &info) > 0 &&
	       info.op == PTRACE_SYSCALL_INFO_ENTRY && !ptrace(PTRACE_GETREGS, native.pid, 0, &r) &&
	       (long)r.orig_rax == nr && (int)r.rdi == fd;
}

/* Until it reads its next command. */
static int until_idle(void)
{
	int status = 0;

	do
		status = until_stop(status && !is_syscall(status) && !(status >> 16) &&
						    WSTOPSIG(status) != SIGTRAP
					    ? WSTOPSIG(status)
					    : 0);
	while (status >= 0 && !(is_syscall(status) && enters(SYS_read, DT_FD_CMD)));
	return status < 0 ? -1 : 0;
}

static int attach(void)
{
	int status;

	if (ptrace(PTRACE_SEIZE, native.pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) ||
	    ptrace(PTRACE_INTERRUPT, native.pid, 0, 0) ||
	    waitpid(native.pid, &status, 0) != native.pid || !WIFSTOPPED(status))
		return -1;
	return until_idle();
}

static void stop(void)
{
	ptrace(PTRACE_DETACH, native.pid, 0, 0);
	native_stop(&native);
}

static bool of_case(uint64_t rip)
{
	return rip - DT_CODE <= DT_CODE_BYTES || rip - DT_EDGE <= 0x1000 || rip == DT_EXIT;
}

static int note_trap(struct dt_traps *t)
{
	struct user_regs_struct r;
	long dr6;

	errno = 0;
	dr6 = ptrace(PTRACE_PEEKUSER, native.pid, dr_at(6), 0);
	if (errno || ptrace(PTRACE_GETREGS, native.pid, 0, &r) || poke(6, 0))
		return -1;
	if (!of_case(r.rip) || t->n == DT_TRAPS)
		return 0; /* the helper itself, which copies what is watched */
	t->at[t->n++] = (struct dt_trap){r.rip, dr6 & 15};
	return t->n == DT_TRAPS ? poke(7, 0) : 0;
}

/* Run the case in buffer 0 with @w. The helper stands at its read. */
static int run_native(const struct dt_watch *w, struct dt_traps *t)
{
	int status = 0, rc = poke(7, 0);
	char why[80];

	t->n = 0;
	for (unsigned int i = 0; i < 4 && !rc; i++)
		rc = poke(i, w->dr[i]);
	if (!rc)
		rc = poke(7, w->dr7);
	if (rc || native_submit(&native, 0))
		return -1;
	for (;;) {
		int sig = 0;

		if (status && !is_syscall(status) && !(status >> 16)) {
			sig = WSTOPSIG(status);
			if (sig == SIGTRAP) {
				siginfo_t info;

				if (ptrace(PTRACE_GETSIGINFO, native.pid, 0, &info))
					return -1;
				if (info.si_code == TRAP_HWBKPT) {
					sig = 0;
					if (note_trap(t))
						return -1;
				}
			}
		}
		status = until_stop(sig);
		if (status < 0)
			return -1;
		if (is_syscall(status) && enters(SYS_write, DT_FD_ACK))
			break;
	}
	if (poke(7, 0) || until_idle())
		return -1;
	return native_wait(&native, 0, why, sizeof(why));
}

/* ---- what is watched ---- */

/* Around a byte that the sequence changed, a register, or the stack pointer. */
static uint64_t data_address(const struct dt_case *c, const struct dt_result *r, uint64_t *rng)
{
	const uint8_t *pool = native.shm->pool;
	uint32_t n = 0, at = dt_below(rng, DT_DATA_BYTES);
	uint64_t x;

	switch (dt_below(rng, 5)) {
	case 0:
		return c->regs[DT_RSP] + 16 - dt_below(rng, 64);
	case 1:
		x = c->regs[dt_below(rng, DT_NREGS)];
		return x - DT_DATA < DT_DATA_BYTES ? x + dt_below(rng, 48) - 16 : DT_DATA + at;
	case 2:
		for (; n < DT_STACK_BYTES &&
		       r->stack[at % DT_STACK_BYTES] == pool[c->stack_pool + at % DT_STACK_BYTES];
		     n++, at++)
			;
		return DT_STACK + (at + dt_below(rng, 5) - 2) % DT_STACK_BYTES;
	default:
		for (; n < DT_DATA_BYTES &&
		       r->data[at % DT_DATA_BYTES] == pool[c->data_pool + at % DT_DATA_BYTES];
		     n++, at++)
			;
		return DT_DATA + (at + dt_below(rng, 5) - 2) % DT_DATA_BYTES;
	}
}

/* @r: how it ends. */
static void choose(const struct dt_seq *q, const struct dt_result *r, struct dt_watch *w)
{
	static const uint8_t bytes[] = {1, 2, 8, 4};
	uint64_t rng = q->c.seed ^ 0x77617463;

	memset(w, 0, sizeof(*w));
	for (unsigned int i = 0; i < 4; i++) {
		unsigned int len = dt_below(&rng, 4), type = 1 + 2 * dt_below(&rng, 2);

		if (!dt_below(&rng, 4))
			continue;
		if (dt_below(&rng, 4)) {
			w->dr[i] = data_address(&q->c, r, &rng) & ~(uint64_t)(bytes[len] - 1);
		} else {
			len = type = 0;
			w->dr[i] = q->c.slot + q->insn[dt_below(&rng, q->n)].off;
		}
		w->dr7 |= (1u << 2 * i) | (type | len << 2) << (16 + 4 * i);
	}
}

/* ---- */

static bool traps_equal(const struct dt_traps *a, const struct dt_traps *b, char *why, size_t len)
{
	for (uint32_t i = 0; i < a->n || i < b->n; i++) {
		const struct dt_trap none = {0}, *x = i < a->n ? &a->at[i] : &none,
				     *y = i < b->n ? &b->at[i] : &none;

		if (x->rip != y->rip || x->dr6 != y->dr6) {
			snprintf(why, len,
				 "trap %u: CPU rip 0x%" PRIx64 " DR6 %x, soft rip 0x%" PRIx64
				 " DR6 %x (%u and %u traps)",
				 i, x->rip, x->dr6, y->rip, y->dr6, a->n, b->n);
			return false;
		}
	}
	return true;
}

/* Run @code with RSI and RDI in the data, RCX = @count, and the breakpoints @w, of which the second
 * one is made one for the instruction at offset @next unless that is 0. @seed: whose place. */
static int probe(uint64_t seed, const uint8_t *code, size_t len, uint64_t count, struct dt_watch w,
		 unsigned int next, struct dt_traps *t)
{
	struct dt_case *c = &native.shm->buf[0].c[0];
	uint32_t rel;

	memset(c, 0, sizeof(*c));
	c->regs[DT_RSP] = DT_STACK + 0x7c0;
	c->regs[DT_RDI] = DT_DATA;
	c->regs[DT_RSI] = DT_DATA + 0x1000;
	c->regs[DT_RCX] = count;
	c->rflags = DT_IF | 2;
	c->slot = c->rip = dt_slot_address(seed);
	c->fx[0] = 0x7f; /* FCW 37FH, MXCSR 1F80H */
	c->fx[1] = 3;
	c->fx[24] = 0x80;
	c->fx[25] = 0x1f;
	memset(c->code, DT_FILL, sizeof(c->code));
	memcpy(c->code, code, len);
	rel = DT_EXIT - (uint32_t)(c->rip + len + 5);
	c->code[len] = 0xe9;
	memcpy(c->code + len + 1, &rel, sizeof(rel));
	if (next) {
		w.dr[1] = c->rip + next;
		w.dr7 |= 4;
	}
	native.shm->buf[0].n = 1;
	return run_native(&w, t);
}

/* What kinds of CPU do differently. @isa: what to leave out is made false. */
static int measure(uint64_t seed, bool *isa)
{
	static const uint8_t mov_nop[] = {0x88, 0x07, 0x90},
			     maskmovdqu[] = {0x66, 0x0f, 0xf7, 0xc1}, rep_movsb[] = {0xf3, 0xa4},
			     rep_stosb[] = {0xf3, 0xaa};
	struct dt_watch w = {.dr = {DT_DATA}, .dr7 = 1u << 16 | 1};
	struct dt_traps t;
	bool masked, late = false;

	/*
	 * Whether the CPU reports in one #DB the data that an instruction has met and the
	 * breakpoint at the next instruction. B0 to B3 say that a condition is met when the #DB is
	 * generated (SDM vol. 3, 18.2.3), so it may.
	 */
	if (probe(seed, mov_nop, sizeof(mov_nop), 0, w, 2, &t))
		return -1;
	together = t.n == 1 && t.at[0].rip == dt_slot_address(seed) + 2 && t.at[0].dr6 == 3;
	if (probe(seed, maskmovdqu, sizeof(maskmovdqu), 0, w, 0, &t))
		return -1;
	masked = t.n;
	for (unsigned int k = 0; k < 2; k++)
		for (uint32_t at = 64; at < 0xfc0; at += 64) {
			w.dr[0] = DT_DATA + at;
			if (probe(seed, k ? rep_stosb : rep_movsb, 2, 0x1000, w, 0, &t))
				return -1;
			late |= t.n != 1 || t.at[0].rip != dt_slot_address(seed);
		}
	printf("# this CPU: a data breakpoint and an instruction breakpoint at the next "
	       "instruction are reported in %s\n",
	       together ? "one #DB" : "two");
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

/* What of @dr6 are instruction breakpoints. */
static uint32_t of_code(const struct dt_watch *w, uint32_t dr6)
{
	for (unsigned int n = 0; n < 4; n++)
		if (w->dr7 >> (16 + 4 * n) & 3)
			dr6 &= ~(1u << n);
	return dr6;
}

/* Make of @t, the soft machine's, what a CPU reports that reports them together. */
static void join(const struct dt_watch *w, struct dt_traps *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct dt_trap *x = &t->at[i], *prev = n ? &t->at[n - 1] : NULL;

		if (prev && prev->rip == x->rip && !of_code(w, prev->dr6) &&
		    of_code(w, x->dr6) == x->dr6) {
			t->at[n - 1].dr6 |= x->dr6;
			st.joined++;
		} else {
			t->at[n++] = *x;
		}
	}
	t->n = n;
}

static bool counts_equal(const struct soft_counts *a, const struct soft_counts *b, char *why,
			 size_t len)
{
	for (int e = 0; e < VPMU_SOFT_EVENTS; e++)
		if (a->ev[e] != b->ev[e]) {
			snprintf(why, len, "event %d: %" PRIu64 ", with breakpoints %" PRIu64, e,
				 a->ev[e], b->ev[e]);
			return false;
		}
	return true;
}

static void run_soft(struct soft_side *s, const struct dt_case *c, const struct dt_watch *w,
		     struct dt_traps *t, uint64_t slices, struct dt_result *r,
		     struct soft_counts *counts)
{
	s->watch = w;
	s->traps = t;
	soft_side_load(s, c, 1);
	soft_side_run(s, c, slices, r, counts);
}

static int check(uint64_t seed)
{
	static struct dt_result r_plain, r_watched, r_sliced;
	static struct dt_traps cpu, soft, soft_sliced;
	struct soft_counts c_plain, c_watched, c_sliced;
	const struct dt_result *nat = &native.shm->buf[0].r[0];
	struct dt_watch w;
	struct dt_seq q;
	char why[200] = "";
	unsigned int how = (host.vendor == VENDOR_INTEL ? 0 : COMPARE_EITHER_FAULT) |
			   (coverage_pointers() ? 0 : COMPARE_FP_FAULTS);

	gen_sequence(seed, &q);
	if (q.no_step) {
		st.skipped++;
		return 0;
	}
	run_soft(&plain, &q.c, NULL, NULL, 0, &r_plain, &c_plain);
	if (r_plain.vector == DT_HANG || r_plain.vector == DT_OTHER) {
		st.skipped++;
		return 0;
	}
	choose(&q, &r_plain, &w);
	run_soft(&watched, &q.c, &w, &soft, 0, &r_watched, &c_watched);
	run_soft(&sliced, &q.c, &w, &soft_sliced, seed | 1, &r_sliced, &c_sliced);
	native.shm->buf[0].n = 1;
	native.shm->buf[0].c[0] = q.c;
	if (run_native(&w, &cpu))
		return -1;
	st.ran++;
	if (!results_equal(&q, nat, &r_plain, how, &facts, why, sizeof(why))) {
		static const struct dt_watch nothing;
		static struct dt_traps none;

		/* The kernel of an AMD host may lose FOP, FIP and FDP when it stops a process. */
		if (run_native(&nothing, &none))
			return -1;
		if (!results_equal(&q, nat, &r_plain, how, &facts, why, sizeof(why))) {
			st.differs++; /* soft-difftest finds out why */
			return 0;
		}
		st.disturbed++;
	}
	if (together) {
		join(&w, &soft);
		join(&w, &soft_sliced);
	}
	for (uint32_t i = 0; i < cpu.n; i++) {
		bool code = false, data = false;

		for (unsigned int n = 0; n < 4; n++)
			if (cpu.at[i].dr6 >> n & 1)
				*(w.dr7 >> (16 + 4 * n) & 3 ? &data : &code) = true;
		st.code += code;
		st.data += data;
	}
	if (results_equal(&q, &r_plain, &r_watched, COMPARE_UNDEFINED, NULL, why, sizeof(why)) &&
	    results_equal(&q, &r_plain, &r_sliced, COMPARE_UNDEFINED, NULL, why, sizeof(why)) &&
	    counts_equal(&c_plain, &c_watched, why, sizeof(why)) &&
	    counts_equal(&c_plain, &c_sliced, why, sizeof(why)) &&
	    traps_equal(&cpu, &soft, why, sizeof(why)) &&
	    traps_equal(&cpu, &soft_sliced, why, sizeof(why)))
		return 0;
	if (st.failed++ < MAX_REPORTS) {
		printf("# MISMATCH seed %" PRIu64 ": %s\n", seed, why);
		for (unsigned int i = 0; i < 4; i++)
			printf("#  DR%u 0x%" PRIx64 "\n", i, w.dr[i]);
		printf("#  DR7 0x%" PRIx64 "\n", w.dr7);
		print_case(stdout, &q, nat, &r_watched);
	}
	return 0;
}

static int machine(struct soft_side *s)
{
	struct kvm_cpuid_entry2 e[2] = {{0}, {.function = 0x80000001}};
	unsigned int a, b, c = 0, d;
	char why[200];
	int rc;

	vendor_leaf0(host.vendor, &e[0]);
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		e[1].ecx = c & 0x80; /* MXCSR.MM */
	rc = soft_side_init(s, 1, native.shm->pool, e, 2, why, sizeof(why));
	if (rc)
		fprintf(stderr, "soft-watch: %s\n", why);
	return rc;
}

/* ptrace and DR7 work here: a hypervisor or a kernel may not let us. */
static const char *no_breakpoints(void)
{
	if (attach())
		return "no ptrace of a child here";
	if (poke(0, DT_DATA) || poke(7, 0x10001))
		return "ptrace sets no hardware breakpoints here";
	return poke(7, 0) ? "ptrace sets no hardware breakpoints here" : NULL;
}

static bool number(const char *text, uint64_t *x)
{
	char *end;

	*x = strtoull(text, &end, 0);
	return end != text && !*end && *text != '-';
}

int main(int argc, char **argv)
{
	static const ZydisMnemonic half[] = {
		ZYDIS_MNEMONIC_PSLLW,	 ZYDIS_MNEMONIC_PSLLD,	 ZYDIS_MNEMONIC_PSLLQ,
		ZYDIS_MNEMONIC_PSRLW,	 ZYDIS_MNEMONIC_PSRLD,	 ZYDIS_MNEMONIC_PSRLQ,
		ZYDIS_MNEMONIC_PSRAW,	 ZYDIS_MNEMONIC_PSRAD,	 ZYDIS_MNEMONIC_UNPCKLPD,
		ZYDIS_MNEMONIC_UNPCKHPD, ZYDIS_MNEMONIC_FXRSTOR, ZYDIS_MNEMONIC_FXRSTOR64};
	uint64_t seed = DT_BATCH, count = 6000;
	char path[4096];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 32);
	const char *no;
	bool *isa = coverage_init(), bad = false;
	unsigned int a, b, c = 0, d;

	for (int i = 1; i < argc && !bad; i += 2)
		bad = i + 1 == argc || !(!strcmp(argv[i], "--seed")    ? number(argv[i + 1], &seed)
					 : !strcmp(argv[i], "--count") ? number(argv[i + 1], &count)
								       : false);
	if (bad) {
		fprintf(stderr, "usage: %s [--seed N] [--count N]\n", argv[0]);
		return 2;
	}
	if (!isa || len < 0)
		return 1;
	path[len] = 0;
	strcpy(strrchr(path, '/') + 1, "soft-difftest-native");
	vendor_of_host(&host);
	isa[ZYDIS_MNEMONIC_CPUID] = false;
	for (size_t i = 0; i < sizeof(half) / sizeof(half[0]); i++)
		isa[half[i]] = false;
	__get_cpuid(0x80000001, &a, &b, &c, &d);
	if (host_probe(path, &facts)) {
		fprintf(stderr, "soft-watch: cannot measure this CPU with %s\n", path);
		return 1;
	}
	gen_init(isa, host.listed && host.vendor == VENDOR_INTEL, c & 0x80, !coverage_pointers(),
		 host.vendor == VENDOR_INTEL && facts.mmx_stays);
	if (native_start(&native, path)) {
		fprintf(stderr, "soft-watch: cannot start %s\n", path);
		return 1;
	}
	no = no_breakpoints();
	if (no) {
		printf("1..0 # SKIP %s\n", no);
		stop();
		return 77;
	}
	if (measure(seed, isa)) {
		printf("not ok 1 - the native helper died\n");
		return 1;
	}
	if (machine(&plain) || machine(&watched) || machine(&sliced))
		return 1;
	for (uint64_t s = seed; s < seed + count; s++) {
		if (s / DT_BATCH % DT_REGIONS == 0)
			continue; /* the helper begins with new memory there */
		if (check(s)) {
			printf("not ok 1 - the native helper died\n");
			return 1;
		}
	}
	printf("# %" PRIu64 " sequences, %" PRIu64 " skipped; %" PRIu64
	       " ended as without breakpoints only where ptrace did not stop the CPU; %" PRIu64
	       " ended differently; traps: %" PRIu64 " instruction, %" PRIu64 " data\n",
	       st.ran, st.skipped, st.disturbed, st.differs, st.code, st.data);
	printf("%s 1 - each #DB comes where it does on the CPU (%" PRIu64 " of %" PRIu64
	       " sequences failed)\n",
	       st.failed ? "not ok" : "ok", st.failed, st.ran);
	bad = st.differs || (count >= 1000 && (!st.code || !st.data));
	printf("%s 2 - enough was compared\n1..2\n", bad ? "not ok" : "ok");
	soft_side_fini(&plain);
	soft_side_fini(&watched);
	soft_side_fini(&sliced);
	stop();
	return st.failed || bad;
}
