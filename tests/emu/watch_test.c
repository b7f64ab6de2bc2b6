// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hardware breakpoints of the emulator against the CPU that this runs on: the random sequences
 * of the differential test run on both with the same random breakpoints for instructions, stores
 * and accesses. Each #DB must come at the same place with the same bits of DR6, and a sequence must
 * end as it does without breakpoints, with the same counts, also in random slices.
 *
 * On the CPU the breakpoints are set by ptrace, as a debugger does it. What ptrace does not allow
 * is not compared: breakpoints for I/O, general detect, instruction breakpoints in the kernel.
 *
 * One difference is known. Some SSE instructions have a memory operand of 16 bytes, but need only
 * one half of it: the lower one as the count of a shift or for UNPCKLPD, the upper one for
 * UNPCKHPD. AMD's family 19H compares that half with breakpoints, and the emulator all of it.
 * So these instructions are not generated, nor are FXRSTOR, XSAVE, XRSTOR and their variants: the
 * emulator reports a breakpoint anywhere in the area, the CPU one in the parts that it accesses,
 * which depend on the components and on the CPU.
 *
 *   emu-watch [--seed N] [--count N]
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

#include "tests/emu/compare.h"
#include "tests/emu/coverage.h"
#include "tests/emu/native_side.h"
#include "tests/emu/emu_side.h"
#include "tests/emu/vendor.h"
#include "tests/emu/watch_cpu.h"

#define MAX_REPORTS 6u

static struct native_side native;
static struct vendor_host host;
static struct host_facts facts;
static bool together; /* watch_measure() */
static struct emu_side plain, watched, sliced;
static struct {
	uint64_t ran, skipped, disturbed, differs, failed, code, data, joined;
} st;

/* ---- watched addresses ---- */

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
				 "trap %u: CPU rip 0x%" PRIx64 " DR6 %x, emulator rip 0x%" PRIx64
				 " DR6 %x (%u and %u traps)",
				 i, x->rip, x->dr6, y->rip, y->dr6, a->n, b->n);
			return false;
		}
	}
	return true;
}

/* The instruction breakpoints in @dr6. */
static uint32_t of_code(const struct dt_watch *w, uint32_t dr6)
{
	for (unsigned int n = 0; n < 4; n++)
		if (w->dr7 >> (16 + 4 * n) & 3)
			dr6 &= ~(1u << n);
	return dr6;
}

/* Turn @t, the emulator's, into the report of a CPU that reports them together. */
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

/* Returns true if REP MOVS or REP STOS is at @rip. */
static bool rep_string(const struct dt_seq *q, uint64_t rip)
{
	uint64_t off = rip - q->c.slot;
	struct insn in;

	return off < DT_SLOT && insn_decode(q->c.code + off, DT_SLOT - off, &in) &&
	       in.i.meta.category == ZYDIS_CATEGORY_STRINGOP && insn_is_rep_string(&in) &&
	       INSN_IS(&in, M(MOVSB), M(MOVSW), M(MOVSD), M(MOVSQ), M(STOSB), M(STOSW), M(STOSD),
		       M(STOSQ));
}

/*
 * Take the traps amid one REP MOVS or REP STOS for one. Intel's CPUs may report what an iteration
 * has met after the next one, and in one #DB what both have met (SDM vol. 3, "Data Memory and I/O
 * Breakpoint Exception Conditions").
 */
static void join_group(const struct dt_seq *q, struct dt_traps *t)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i++) {
		const struct dt_trap *x = &t->at[i];

		if (n && t->at[n - 1].rip == x->rip && rep_string(q, x->rip))
			t->at[n - 1].dr6 |= x->dr6;
		else
			t->at[n++] = *x;
	}
	t->n = n;
}

static bool counts_equal(const struct emu_counts *a, const struct emu_counts *b, char *why,
			 size_t len)
{
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		if (a->ev[e] != b->ev[e]) {
			snprintf(why, len, "event %d: %" PRIu64 ", with breakpoints %" PRIu64, e,
				 a->ev[e], b->ev[e]);
			return false;
		}
	return true;
}

static void run_emu(struct emu_side *s, const struct dt_case *c, const struct dt_watch *w,
		    struct dt_traps *t, uint64_t slices, struct dt_result *r,
		    struct emu_counts *counts)
{
	s->watch = w;
	s->traps = t;
	emu_side_load(s, c, 1);
	emu_side_run(s, c, slices, r, counts);
}

/* A gather or scatter that faults behind an element with a breakpoint is a trap instead (SDM vol.
 * 2, VPGATHERDD), which the emulator does not have. */
static bool faulting_gather(const struct dt_seq *q, const struct dt_result *r)
{
	uint64_t off = r->rip - q->c.slot;
	struct insn in;

	return r->vector >= 0 && off < DT_SLOT &&
	       insn_decode(q->c.code + off, DT_SLOT - off, &in) &&
	       (in.i.meta.category == ZYDIS_CATEGORY_GATHER ||
		in.i.meta.category == ZYDIS_CATEGORY_SCATTER ||
		in.i.meta.category == ZYDIS_CATEGORY_AVX2GATHER);
}

static int check(uint64_t seed)
{
	static struct dt_result r_plain, r_watched, r_sliced;
	static struct dt_traps cpu, emulator, emu_sliced;
	struct emu_counts c_plain, c_watched, c_sliced;
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
	run_emu(&plain, &q.c, NULL, NULL, 0, &r_plain, &c_plain);
	if (r_plain.vector == DT_HANG || r_plain.vector == DT_OTHER ||
	    faulting_gather(&q, &r_plain)) {
		st.skipped++;
		return 0;
	}
	choose(&q, &r_plain, &w);
	run_emu(&watched, &q.c, &w, &emulator, 0, &r_watched, &c_watched);
	run_emu(&sliced, &q.c, &w, &emu_sliced, seed | 1, &r_sliced, &c_sliced);
	native.shm->buf[0].n = 1;
	native.shm->buf[0].c[0] = q.c;
	if (watch_run(&native, &w, &cpu))
		return -1;
	st.ran++;
	if (!results_equal(&q, nat, &r_plain, how, &facts, why, sizeof(why))) {
		static const struct dt_watch nothing;
		static struct dt_traps none;

		/* The kernel of an AMD host may lose FOP, FIP and FDP when it stops a process. */
		if (watch_run(&native, &nothing, &none))
			return -1;
		if (!results_equal(&q, nat, &r_plain, how, &facts, why, sizeof(why))) {
			st.differs++; /* emu-difftest finds out why */
			return 0;
		}
		st.disturbed++;
	}
	if (together) {
		join(&w, &emulator);
		join(&w, &emu_sliced);
	}
	if (host.vendor == VENDOR_INTEL) {
		join_group(&q, &cpu);
		join_group(&q, &emulator);
		join_group(&q, &emu_sliced);
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
	    traps_equal(&cpu, &emulator, why, sizeof(why)) &&
	    traps_equal(&cpu, &emu_sliced, why, sizeof(why)))
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

static int machine(struct emu_side *s)
{
	struct kvm_cpuid_entry2 e[2] = {{0}, {.function = 0x80000001}};
	unsigned int a, b, c = 0, d;
	char why[200];
	int rc;

	vendor_leaf0(host.vendor, &e[0]);
	if (__get_cpuid(0x80000001, &a, &b, &c, &d))
		e[1].ecx = c & 0x80; /* MXCSR.MM */
	rc = emu_side_init(s, 1, native.shm->pool, e, 2, why, sizeof(why));
	if (rc)
		fprintf(stderr, "emu-watch: %s\n", why);
	return rc;
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
		ZYDIS_MNEMONIC_PSLLW,	   ZYDIS_MNEMONIC_PSLLD,   ZYDIS_MNEMONIC_PSLLQ,
		ZYDIS_MNEMONIC_PSRLW,	   ZYDIS_MNEMONIC_PSRLD,   ZYDIS_MNEMONIC_PSRLQ,
		ZYDIS_MNEMONIC_PSRAW,	   ZYDIS_MNEMONIC_PSRAD,   ZYDIS_MNEMONIC_UNPCKLPD,
		ZYDIS_MNEMONIC_UNPCKHPD,   ZYDIS_MNEMONIC_FXRSTOR, ZYDIS_MNEMONIC_FXRSTOR64,
		ZYDIS_MNEMONIC_XSAVE,	   ZYDIS_MNEMONIC_XSAVE64, ZYDIS_MNEMONIC_XSAVEOPT,
		ZYDIS_MNEMONIC_XSAVEOPT64, ZYDIS_MNEMONIC_XSAVEC,  ZYDIS_MNEMONIC_XSAVEC64,
		ZYDIS_MNEMONIC_XRSTOR,	   ZYDIS_MNEMONIC_XRSTOR64};
	uint64_t seed = DT_BATCH, count = 6000;
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
	if (!isa)
		return 1;
	vendor_of_host(&host);
	isa[ZYDIS_MNEMONIC_CPUID] = false;
	for (size_t i = 0; i < sizeof(half) / sizeof(half[0]); i++)
		isa[half[i]] = false;
	__get_cpuid(0x80000001, &a, &b, &c, &d);
	if (host_probe(&facts)) {
		fprintf(stderr, "emu-watch: cannot measure this CPU with emu-difftest-native\n");
		return 1;
	}
	gen_init(isa, host.listed && host.vendor == VENDOR_INTEL, c & 0x80, !coverage_pointers(),
		 host.vendor == VENDOR_INTEL && facts.mmx_stays);
	if (host.vendor == VENDOR_INTEL && facts.mmx_stays)
		printf("# not generated: cvtpi2ps with a memory operand (this CPU leaves x87 "
		       "alone, "
		       "SDM vol. 2 says otherwise)\n");
	if (native_start(&native)) {
		fprintf(stderr, "emu-watch: cannot start emu-difftest-native\n");
		return 1;
	}
	no = watch_attach(&native);
	if (no) {
		printf("1..0 # SKIP %s\n", no);
		watch_stop(&native);
		return 77;
	}
	if (watch_measure(&native, seed, isa, &together)) {
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
	       " ended differently; traps: %" PRIu64 " instruction, %" PRIu64 " data; %" PRIu64
	       " pairs of the emulator's taken for one\n",
	       st.ran, st.skipped, st.disturbed, st.differs, st.code, st.data, st.joined);
	printf("%s 1 - each #DB comes where it does on the CPU (%" PRIu64 " of %" PRIu64
	       " sequences failed)\n",
	       st.failed ? "not ok" : "ok", st.failed, st.ran);
	bad = st.differs || (count >= 1000 && (!st.code || !st.data));
	printf("%s 2 - enough was compared\n1..2\n", bad ? "not ok" : "ok");
	emu_side_fini(&plain);
	emu_side_fini(&watched);
	emu_side_fini(&sliced);
	watch_stop(&native);
	return st.failed || bad;
}
