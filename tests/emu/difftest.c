// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Differential test of the emulator: random instruction sequences of its ISA list must leave
 * the same registers, flags, memory and faults as on the CPU this runs on; their retired
 * instructions must be what single-stepping saw; and chopping a run into random budgets must change
 * nothing.
 *
 * A sequence is a function of its seed alone: `--seed N --count 1` replays one.
 */
#include <cpuid.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/emu/compare.h"
#include "tests/emu/coverage.h"
#include "tests/emu/native_side.h"
#include "tests/emu/emu_side.h"
#include "tests/emu/host.h"
#include "tests/emu/vendor.h"
#include "tests/measured.h"
#include "vmm/emu/jit/jit.h"

#define STEP_ONE_IN  64u /* single-stepping costs a signal per instruction */
#define SLICE_ONE_IN 4u
#define MAX_REPORTS  64u

enum kind { K_STATE, K_COUNT, K_BRANCH, K_SLICE, K_WARM, K_KINDS };

static const char *const kind_name[K_KINDS] = {
	"registers, flags, memory and faults equal the native CPU's",
	"instructions, branches (taken, conditional), loads and stores equal single-stepping",
	"the last branches recorded are the single-stepped ones",
	"random budget slices and alarms change neither state nor counts",
	"nor do translated code and a full TLB (--warm)",
};

static struct {
	uint64_t seed, count, seconds, min_coverage;
	unsigned int max_report;
	int undefined, shrink, step_all, unlisted, unmasked, warm, quiet; /* 0 or 1 */
} opt = {.seed = 1, .count = 100000, .max_report = 6, .shrink = true};

static struct native_side native;
static struct vendor_host host;
static struct host_facts facts;
/* The machines are of the host's vendor; @other, of the other vendor, is used only
 * on a host that vendor.c does not list. */
static struct sides {
	struct emu_side whole, sliced, other, warm;
} all;
static struct kvm_cpuid_entry2 cpuid[3 + GEN_CPUID_LEAVES]; /* 0, 80000001, 7, others */
static struct {
	uint64_t checked[K_KINDS], failed[K_KINDS];
	uint64_t ran, insns, faults, hangs, wild, vendors, lost;
} st;

static int new_machine(struct emu_side *s, unsigned int vcpus, enum vendor vendor)
{
	char why[200];
	int rc;

	emu_side_fini(s);
	vendor_leaf0(vendor, &cpuid[0]);
	rc = emu_side_init(s, vcpus, native.shm->pool, cpuid, 3 + GEN_CPUID_LEAVES, why,
			   sizeof(why));
	if (rc)
		fprintf(stderr, "difftest: %s\n", why);
	return rc;
}

static bool counts_equal(const struct path_counts *p, const struct emu_counts *c, char *why,
			 size_t why_len)
{
	const struct {
		const char *name;
		uint64_t truth, emulator;
	} t[] = {
		{"instructions", p->insns, c->ev[VPMU_EMU_INSTRUCTIONS]},
		{"branches", p->branches, c->ev[VPMU_EMU_BRANCHES]},
		{"taken branches", p->taken, c->ev[VPMU_EMU_BRANCHES_TAKEN]},
		{"conditional branches", p->conditional, c->ev[VPMU_EMU_BRANCHES_CONDITIONAL]},
		{"loads", p->loads, c->ev[VPMU_EMU_LOADS]},
		{"stores", p->stores, c->ev[VPMU_EMU_STORES]},
	};

	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		if (t[i].truth != t[i].emulator) {
			snprintf(why, why_len, "%s: single-stepped %" PRIu64 ", emulator %" PRIu64,
				 t[i].name, t[i].truth, t[i].emulator);
			return false;
		}
	return true;
}

/* Everything but cycles, which may be charged to another slice, must add up the same. */
static bool slices_equal(const struct dt_result *a, const struct dt_result *b,
			 const struct emu_counts *ca, const struct emu_counts *cb,
			 const struct dt_seq *q, char *why, size_t why_len)
{
	if (!results_equal(q, a, b, COMPARE_UNDEFINED, NULL, why, why_len))
		return false;
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		if (ca->ev[e] != cb->ev[e]) {
			snprintf(why, why_len, "event %d: whole %" PRIu64 ", sliced %" PRIu64, e,
				 ca->ev[e], cb->ev[e]);
			return false;
		}
	return true;
}

static struct dt_result r_whole, r_sliced, r_other, r_warm;

/* A sequence that overwrote its own return address may end up amid the bytes of a neighbour's
 * instructions, and meet one of those that the machine does not have. */
static bool went_wild(const struct dt_seq *q, const struct dt_result *emulator)
{
	return emulator->vector == DT_OTHER && emulator->rip - q->c.slot >= DT_SLOT &&
	       strstr(emulator->msg, "outside the emulator's list");
}

/*
 * All checks of one case with the native result @nat. K_KINDS: nothing wrong. @slice: in slices,
 * too. A case that ends differently on the CPUs of the other vendor is not compared with the CPU.
 */
static enum kind check_case(const struct dt_seq *q, const struct dt_result *nat, struct sides *x,
			    bool slice, char *why, size_t why_len)
{
	struct emu_counts ca, cb;
	struct path_counts p;
	bool hang = nat->vector == DT_HANG, native_known = true;
	unsigned int how = (opt.undefined ? COMPARE_UNDEFINED : 0) |
			   (host.vendor == VENDOR_INTEL ? 0 : COMPARE_EITHER_FAULT) |
			   (coverage_pointers() ? 0 : COMPARE_FP_FAULTS);

	emu_side_run(&x->whole, &q->c, 0, &r_whole, &ca);
	if (!host.listed)
		emu_side_run(&x->other, &q->c, 0, &r_other, &cb);
	if (went_wild(q, &r_whole)) {
		st.wild++;
		return K_KINDS;
	}
	if (!host.listed &&
	    !results_equal(q, &r_whole, &r_other, how & COMPARE_UNDEFINED, NULL, why, why_len)) {
		st.vendors++;
		native_known = false;
	}
	if (native_known) {
		st.checked[K_STATE]++;
		if (!results_equal(q, nat, &r_whole, how, &facts, why, why_len))
			return K_STATE;
	}
	if (ca.broken[0]) {
		snprintf(why, why_len, "%s", ca.broken);
		return K_COUNT;
	}
	if (native_known && q->c.step && !hang && path_count(q, nat, &p)) {
		st.checked[K_COUNT]++;
		if (!counts_equal(&p, &ca, why, why_len))
			return K_COUNT;
		st.checked[K_BRANCH]++;
		if (!path_branches_equal(&p, &ca.lbr, why, why_len))
			return K_BRANCH;
	}
	if (opt.warm && !hang) {
		emu_side_run(&x->warm, &q->c, EMU_SIDE_WARM, &r_warm, &cb);
		st.checked[K_WARM]++;
		if (cb.broken[0]) {
			snprintf(why, why_len, "%s", cb.broken);
			return K_WARM;
		}
		if (!slices_equal(&r_whole, &r_warm, &ca, &cb, q, why, why_len))
			return K_WARM;
	}
	if (!slice || hang)
		return K_KINDS;
	emu_side_run(&x->sliced, &q->c, q->c.seed | 1, &r_sliced, &cb);
	st.checked[K_SLICE]++;
	if (cb.broken[0]) {
		snprintf(why, why_len, "%s", cb.broken);
		return K_SLICE;
	}
	return slices_equal(&r_whole, &r_sliced, &ca, &cb, q, why, why_len) ? K_KINDS : K_SLICE;
}

static int new_machines(struct sides *s)
{
	return new_machine(&s->whole, 1, host.vendor) || new_machine(&s->sliced, 2, host.vendor) ||
			       new_machine(&s->other, 1, vendor_other(host.vendor)) ||
			       new_machine(&s->warm, 1, host.vendor)
		       ? -1
		       : 0;
}

static void load_all(struct sides *s, const struct dt_case *c, unsigned int n)
{
	emu_side_load(&s->whole, c, n);
	emu_side_load(&s->sliced, c, n);
	emu_side_load(&s->other, c, n);
	emu_side_load(&s->warm, c, n);
}

static void fini_all(struct sides *s)
{
	emu_side_fini(&s->whole);
	emu_side_fini(&s->sliced);
	emu_side_fini(&s->other);
	emu_side_fini(&s->warm);
}

/* One case alone on new machines; -1: could not run. */
static int run_alone(const struct dt_seq *q, enum kind *found, char *why, size_t why_len)
{
	struct sides x = {0};
	int rc = -1;

	native.shm->buf[0].n = 1;
	native.shm->buf[0].c[0] = q->c;
	native.shm->buf[0].c[0].step = !q->no_step;
	if (native_submit(&native, 0) || native_wait(&native, 0, why, why_len))
		return -1;
	if (!new_machines(&x)) {
		struct dt_seq s = *q;

		s.c.step = !q->no_step;
		load_all(&x, &q->c, 1);
		*found = check_case(&s, &native.shm->buf[0].r[0], &x, true, why, why_len);
		rc = 0;
	}
	fini_all(&x);
	return rc;
}

/* Replace by NOPs whatever the difference does not need. MOV ECX stays: shift counts hang on it. */
static void shrink(struct dt_seq *q, enum kind want)
{
	bool again = true;
	char why[200];

	while (again) {
		again = false;
		for (unsigned int k = 0; k + 1 < q->n; k++) {
			struct seq_insn *si = &q->insn[k];
			const uint8_t *b = q->c.code + si->off;
			struct dt_seq t = *q;
			enum kind found;

			if (b[0] == 0xb9 || (b[0] == 0x90 && (si->len == 1 || b[1] == 0x90)))
				continue;
			memset(t.c.code + si->off, 0x90, si->len);
			t.insn[k].raw = false;
			if (!gen_recheck(&t) || run_alone(&t, &found, why, sizeof(why)) ||
			    found != want)
				continue;
			*q = t;
			again = true;
		}
	}
}

/* Mismatches are looked into at the end, when the helper has no batch in work. */
static struct mismatch {
	struct dt_seq q;
	struct dt_result nat;
	enum kind kind;
	char why[200];
} mismatch[MAX_REPORTS];
static unsigned int nr_mismatches;

static void note_mismatch(const struct dt_seq *q, const struct dt_result *nat, enum kind kind,
			  const char *why)
{
	struct mismatch *m = &mismatch[nr_mismatches];

	st.failed[kind]++;
	if (nr_mismatches == opt.max_report)
		return;
	nr_mismatches++;
	m->q = *q;
	m->nat = *nat;
	m->kind = kind;
	snprintf(m->why, sizeof(m->why), "%s", why);
}

/*
 * FNSTENV and FNSAVE store the x87 pointers. A CPU of AMD's, and so Linux, does not save them when
 * another process runs in between. And then SSE becomes in use, which XSAVE shows, if MXCSR is not
 * the initial one. So a sequence with one of these that is equal when it runs again, and on the CPU
 * is not as it was, was interrupted. That is rare: more than a few are a failure.
 */
#define LOST_MAX 3
static bool pointers_lost(const struct mismatch *m)
{
	static const ZydisMnemonic of[] = {M(FNSTENV), M(FNSAVE),   M(XSAVE),
					   M(XSAVE64), M(XSAVEOPT), M(XSAVEOPT64),
					   M(XSAVEC),  M(XSAVEC64), M(XGETBV)};
	const struct dt_result *again = &native.shm->buf[0].r[0];
	enum kind found = K_COUNT;
	bool stores = false;
	char now[200];

	for (unsigned int k = 0; k < m->q.n; k++)
		for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
			stores |= m->q.insn[k].mnemonic == of[i];
	if (!stores || m->kind != K_STATE || st.lost == LOST_MAX ||
	    run_alone(&m->q, &found, now, sizeof(now)) || found != K_KINDS ||
	    (!memcmp(again->regs, m->nat.regs, sizeof(again->regs)) &&
	     !memcmp(again->data, m->nat.data, sizeof(again->data)) &&
	     !memcmp(again->stack, m->nat.stack, sizeof(again->stack))))
		return false;
	printf("# seed %" PRIu64 ": %s: not when it runs again, it was interrupted\n", m->q.c.seed,
	       m->why);
	st.lost++;
	st.failed[K_STATE]--;
	return true;
}

static void report(const struct mismatch *m)
{
	struct dt_seq s = m->q;
	enum kind found = K_KINDS;
	char now[200];

	if (pointers_lost(m))
		return;
	printf("# MISMATCH (%s)\n#  seed %" PRIu64 ": %s\n#  replay: %s --seed %" PRIu64
	       " --count 1%s\n",
	       kind_name[m->kind], s.c.seed, m->why, program_invocation_name, s.c.seed,
	       opt.undefined ? " --undefined" : "");
	if (opt.shrink && gen_recheck(&s))
		shrink(&s, m->kind);
	else
		s = m->q;
	if (run_alone(&s, &found, now, sizeof(now)) || found != m->kind) {
		printf("#  does not happen alone on a new machine; what came before matters\n");
		print_case(stdout, &m->q, NULL, NULL);
		return;
	}
	printf("#  %s\n", now);
	print_case(stdout, &s, m->kind >= K_SLICE ? &r_whole : &native.shm->buf[0].r[0],
		   m->kind == K_SLICE  ? &r_sliced
		   : m->kind == K_WARM ? &r_warm
				       : &r_whole);
	fflush(stdout);
}

struct batch {
	unsigned int n;
	struct dt_seq seq[DT_BATCH];
};

static void make_batch(struct batch *b, uint64_t seed, uint64_t left, unsigned int which)
{
	/* A batch ends where the next region of the code area begins. */
	b->n = (unsigned int)(DT_BATCH - seed % DT_BATCH);
	if (b->n > left)
		b->n = (unsigned int)left;
	for (unsigned int i = 0; i < b->n; i++) {
		gen_sequence(seed + i, &b->seq[i]);
		b->seq[i].c.step =
			(opt.step_all || b->seq[i].c.seed % STEP_ONE_IN == 0) && !b->seq[i].no_step;
		native.shm->buf[which].c[i] = b->seq[i].c;
	}
	native.shm->buf[which].n = b->n;
}

static int check_batch(const struct batch *b, unsigned int which)
{
	const struct dt_result *nat = native.shm->buf[which].r;
	const struct dt_seq *first = &b->seq[0];
	bool all_sliced = b->n < 16;
	char why[200];

	if ((!all.whole.vm.vm || first->c.seed / DT_BATCH % DT_REGIONS == 0) && new_machines(&all))
		return -1;
	load_all(&all, native.shm->buf[which].c, b->n);
	for (unsigned int i = 0; i < b->n; i++) {
		const struct dt_seq *q = &b->seq[i];
		bool slice = all_sliced || q->c.seed % SLICE_ONE_IN == 0;
		enum kind k = check_case(q, &nat[i], &all, slice, why, sizeof(why));

		coverage_count(q, &nat[i]);
		st.insns += q->n;
		st.ran++;
		st.faults += nat[i].vector >= 0;
		st.hangs += nat[i].vector == DT_HANG;
		if (k != K_KINDS)
			note_mismatch(q, &nat[i], k, why);
	}
	return 0;
}

static uint64_t nr_failed(void)
{
	uint64_t sum = 0;

	for (int k = 0; k < K_KINDS; k++)
		sum += st.failed[k];
	return sum;
}

static bool enough(double start, uint64_t next)
{
	return opt.seconds ? clock_s(CLOCK_MONOTONIC) - start >= (double)opt.seconds
			   : next >= opt.seed + opt.count;
}

/* While the helper runs one batch natively, this process makes and checks the others. */
static int run_all(double start)
{
	static struct batch batch[2];
	uint64_t next = opt.seed;
	unsigned int which = 0;
	char why[200];

	make_batch(&batch[0], next, opt.seconds ? UINT64_MAX : opt.count, 0);
	next += batch[0].n;
	if (native_submit(&native, 0))
		return -1;
	for (;; which ^= 1) {
		bool more = !enough(start, next);

		if (more) {
			make_batch(&batch[which ^ 1], next,
				   opt.seconds ? UINT64_MAX : opt.seed + opt.count - next,
				   which ^ 1);
			next += batch[which ^ 1].n;
		}
		if (native_wait(&native, which, why, sizeof(why))) {
			printf("# %s\n", why);
			return -1;
		}
		if (more && native_submit(&native, which ^ 1))
			return -1;
		if (check_batch(&batch[which], which))
			return -1;
		if (!more)
			return 0;
	}
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {{"seed", required_argument, NULL, 's'},
						{"count", required_argument, NULL, 'n'},
						{"time", required_argument, NULL, 't'},
						{"coverage", required_argument, NULL, 'c'},
						{"max-report", required_argument, NULL, 'm'},
						{"undefined", no_argument, &opt.undefined, 1},
						{"no-shrink", no_argument, &opt.shrink, 0},
						{"step-all", no_argument, &opt.step_all, 1},
						{"unlisted", no_argument, &opt.unlisted, 1},
						{"unmasked", no_argument, &opt.unmasked, 1},
						{"warm", no_argument, &opt.warm, 1},
						{"quiet", no_argument, &opt.quiet, 1},
						{0}};
	int o;

	while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
		char *end = NULL;
		uint64_t v = optarg ? strtoull(optarg, &end, 0) : 0;

		if (optarg && (end == optarg || *end || *optarg == '-')) {
			fprintf(stderr, "difftest: \"%s\" is not a number\n", optarg);
			return -1;
		}

		switch (o) {
		case 's':
			opt.seed = v;
			break;
		case 'n':
			opt.count = v;
			break;
		case 't':
			opt.seconds = v;
			break;
		case 'c':
			opt.min_coverage = v;
			break;
		case 'm':
			opt.max_report = (unsigned int)v;
			break;
		case 0: /* stored */
			break;
		default:
			fprintf(stderr,
				"usage: %s [--seed N] [--count N | --time SECONDS] [--coverage N]\n"
				"  [--max-report N] [--undefined] [--no-shrink] [--step-all] "
				"[--unlisted] [--unmasked] [--warm] [--quiet]\n",
				argv[0]);
			return -1;
		}
	}
	if (opt.warm)
		emu_jit_set(EMU_JIT_ALL);
	if (opt.max_report < 1 || opt.max_report > MAX_REPORTS || !opt.count) {
		fprintf(stderr, "difftest: --max-report is 1..%u, --count at least 1\n",
			MAX_REPORTS);
		return -1;
	}
	return 0;
}

/* Returns true if MXCSR has the bit MM, as CPUID has it for the emulator. */
static bool misalign(void)
{
	struct kvm_cpuid_entry2 *e = &cpuid[1];
	unsigned int a, b, c = 0, d;

	e->function = 0x80000001;
	if (__get_cpuid(e->function, &a, &b, &c, &d))
		e->ecx = c & 0x80;
	return e->ecx;
}

/* A CPU of AMD's that has LA57 keeps more bits of x87 pointers, also on a virtual machine that does
 * not show it. The emulator does so if its CPUID has it. */
static void show_la57(void)
{
	struct emu_fx old __attribute__((aligned(16))), x __attribute__((aligned(16)));

	__asm__ volatile("fxsave64 %0" : "=m"(old));
	x = old;
	x.fcw &= ~1u; /* an invalid operation is pending: it has a pointer */
	x.fsw = 0x8081;
	x.fip = 1ull << 50;
	__asm__ volatile("fxrstor64 %1\n\tfxsave64 %0\n\tfxrstor64 %2"
			 : "=m"(x)
			 : "m"(x), "m"(old));
	cpuid[2] = (struct kvm_cpuid_entry2){.function = 7, .ecx = x.fip >> 50 & 1 ? 1u << 16 : 0};
}

static int setup(void)
{
	bool *isa = coverage_init(), masked, no_cvtpi2ps;

	if (!isa)
		return -1;
	for (uint32_t i = 0; i < GEN_CPUID_LEAVES; i++) {
		struct kvm_cpuid_entry2 *e = &cpuid[3 + i];

		e->function = GEN_CPUID_FIRST + i;
		if (!__get_cpuid(e->function, &e->eax, &e->ebx, &e->ecx, &e->edx))
			isa[ZYDIS_MNEMONIC_CPUID] = false;
	}
	show_la57();
	vendor_of_host(&host);
	host.listed &= !opt.unlisted;
	/* What an exception that is not masked leaves behind was measured on these CPUs only. */
	masked = !coverage_pointers() && !opt.unmasked;
	if (host_probe(&facts)) {
		fprintf(stderr, "difftest: cannot measure this CPU with emu-difftest-native\n");
		return -1;
	}
	/* The emulator does not ask what kind of Intel CPU it is on. */
	no_cvtpi2ps = host.vendor == VENDOR_INTEL && facts.mmx_stays;
	gen_init(isa, host.listed && host.vendor == VENDOR_INTEL, misalign(), masked, no_cvtpi2ps);
	if (no_cvtpi2ps)
		printf("# not generated: cvtpi2ps with a memory operand (this CPU leaves x87 "
		       "alone, SDM vol. 2 says otherwise)\n");
	if (masked)
		printf("# not generated: control words that leave x87 and SSE exceptions unmasked "
		       "(not measured on this CPU; --unmasked)\n");
	printf("# this CPU: %s; compared with the emulator as %s%s\n", host.text,
	       vendor_name(host.vendor),
	       host.listed ? "" : ", except where the vendors differ (not in vendor.c's table)");
	if (native_start(&native)) {
		fprintf(stderr, "difftest: cannot start emu-difftest-native\n");
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *lacks = host_lacks();
	double start = clock_s(CLOCK_MONOTONIC);
	bool covered;
	int rc;

	if (parse(argc, argv))
		return 2;
	if (lacks) {
		printf("1..0 # SKIP this CPU has no %s\n", lacks);
		return 77;
	}
	if (setup())
		return 1;
	rc = run_all(start);
	for (unsigned int i = 0; i < nr_mismatches && !rc; i++)
		report(&mismatch[i]);
	if (nr_failed() + st.lost > nr_mismatches)
		printf("# and %" PRIu64 " mismatches more\n",
		       nr_failed() + st.lost - nr_mismatches);
	covered = coverage_print(opt.min_coverage, opt.quiet);
	printf("# %" PRIu64 " sequences from seed %" PRIu64 ", %" PRIu64 " instructions, %" PRIu64
	       " faults, %" PRIu64 " endless, %" PRIu64 " astray, %" PRIu64
	       " different by vendor, %.1f s, %.0f sequences/s\n",
	       st.ran, opt.seed, st.insns, st.faults, st.hangs, st.wild, st.vendors,
	       clock_s(CLOCK_MONOTONIC) - start,
	       (double)st.ran / (clock_s(CLOCK_MONOTONIC) - start));
	for (int k = 0; k < K_KINDS; k++)
		printf("%s %d - %s (%" PRIu64 " checked, %" PRIu64 " failed)\n",
		       st.failed[k] || rc ? "not ok" : "ok", k + 1, kind_name[k], st.checked[k],
		       st.failed[k]);
	printf("%s %d - every mnemonic reached at least %" PRIu64 " times\n",
	       covered ? "ok" : "not ok", K_KINDS + 1, opt.min_coverage);
	printf("1..%d\n", K_KINDS + 1);
	fini_all(&all);
	native_stop(&native);
	return rc || nr_failed() || !covered;
}
