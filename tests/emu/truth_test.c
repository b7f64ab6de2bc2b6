// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The emulator counts the instructions that the CPU retires: every known workload is single-stepped
 * natively and run by the emulator from the very same bytes at the very same addresses. Then on 100
 * vCPUs that are chopped into random slices and moved between two pCPUs' tallies, by one thread and
 * by two: the charge of each vCPU must still be the truth, to the count, and what they did to
 * shared memory under LOCK must all be there. And the branch records, looked at between slices, are
 * the last branches of the native run. All of it as in production, and again with all code
 * translated, unless VPMU_TEST_TRANSLATE chooses one.
 */
#include <errno.h>
#include <inttypes.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/emu/dt.h"
#include "tests/emu/truth_code.h"
#include "tests/emu/truth_run.h"
#include "vmm/emu/jit/jit.h"

#define NR_VCPUS    100u
#define MEM_BASE    0x50000000u /* vCPU i's scratch memory: MEM_BASE + i * MEM_STRIDE */
#define MEM_STRIDE  0x10000u
#define MEM_BYTES   0xc000u
#define STACK_OFF   0xd000u /* its stack, in the same stride */
#define STACK_BYTES 0x2000u
#define SHARED_BASE (MEM_BASE + NR_VCPUS * MEM_STRIDE) /* two pages all vCPUs write to */
#define MAX_RUNS    16u
#define SLICE_TOTAL 2000000u /* slices after which a schedule is stuck */

static struct run runs[MAX_RUNS];
static unsigned int nr_runs;
static unsigned int nr_tests, nr_failed;
static uint64_t seed = 20240611;

void result(bool ok, const char *fmt, const char *name)
{
	nr_tests++;
	nr_failed += !ok;
	printf("%sok %u - ", ok ? "" : "not ", nr_tests);
	printf(fmt, name);
	printf("\n");
	fflush(stdout);
}

/* Small arguments: a native step costs some ten microseconds. */
static uint64_t argument(const char *name)
{
	static const struct {
		const char *name;
		uint64_t n;
	} small[] = {
		{"empty", 5},	  {"loop", 3000},    {"sieve", 400}, {"fib", 12},
		{"memcpy", 5003}, {"repmovs", 9001}, {"chase", 500}, {"syscalls", 300},
	};

	for (size_t i = 0; i < sizeof(small) / sizeof(small[0]); i++)
		if (!strcmp(name, small[i].name))
			return small[i].n;
	return 10;
}

static int add_run(const char *name, workload_fn *fn, uint64_t n, void *mem)
{
	const uint64_t args[6] = {n, (uint64_t)(uintptr_t)mem, MEM_BYTES,
				  (uint64_t)(uintptr_t)truth_echo};
	struct run *r = &runs[nr_runs];
	int rc;

	r->name = name;
	r->fn = fn;
	r->n = n;
	rc = truth_record((const void *)(uintptr_t)fn, args, &r->truth, &r->log);
	if (rc) {
		printf("# %s: no truth: %s\n", name, strerror(-rc));
		return rc;
	}
	memset(mem, 0, MEM_BYTES);
	if (fn(n, mem, MEM_BYTES, truth_echo) != r->truth.ret) {
		printf("# %s: single-stepping changed its result\n", name);
		return -EINVAL;
	}
	r->memory = malloc(MEM_BYTES);
	if (!r->memory)
		return -ENOMEM;
	memcpy(r->memory, mem, MEM_BYTES);
	nr_runs++;
	printf("# %-9s n %-6" PRIu64 " instructions %7" PRIu64 " branches %6" PRIu64
	       " taken %6" PRIu64 " loads %6" PRIu64 " stores %6" PRIu64 "\n",
	       name, n, r->truth.insns, r->truth.branches, r->truth.taken, r->truth.loads,
	       r->truth.stores);
	return 0;
}

static int make_runs(void)
{
	void *mem = mmap((void *)(uintptr_t)MEM_BASE, MEM_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	int rc;

	if (mem != (void *)(uintptr_t)MEM_BASE)
		return -ENOMEM;
	for (size_t i = 0; i < nr_workloads; i++) {
		uint64_t n = argument(workloads[i].name);

		if (workload_mem_bytes(&workloads[i], n) > MEM_BYTES || nr_runs == MAX_RUNS - 2)
			return -E2BIG;
		rc = add_run(workloads[i].name, workloads[i].fn, n, mem);
		if (rc)
			return rc;
	}
	rc = add_run("odd", truth_odd, 10, mem);
	if (!rc)
		rc = add_run("shared", truth_shared, 700, mem);
	munmap(mem, MEM_BYTES);
	return rc;
}

/* ---- the same code in a VM ------------------------------------------------------------------ */

struct text {
	uint64_t start, bytes;
};

static int find_text(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct text *t = arg;
	uint64_t want = (uint64_t)(uintptr_t)workload_loop;

	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && p->p_flags & PF_X && want >= start &&
		    want < start + p->p_memsz) {
			t->start = start & ~0xfffull;
			t->bytes = ((start + p->p_memsz + 0xfff) & ~0xfffull) - t->start;
			return 1;
		}
	}
	return 0;
}

/* Scratch memory's guest-physical address, per vCPU. */
static uint64_t mem_pa[NR_VCPUS];
static uint64_t shared_pa;

static int map_machine(struct bare *s)
{
	struct text t = {0};
	uint64_t pa;
	int rc;

	dl_iterate_phdr(find_text, &t);
	pa = bare_alloc(s, t.bytes);
	if (!t.bytes || !pa)
		return -ENOMEM;
	memcpy(s->ram + pa, (const void *)(uintptr_t)t.start, t.bytes);
	rc = bare_map(s, t.start, pa, t.bytes, BARE_U);
	pa = bare_alloc(s, 4096);
	if (!rc && pa)
		rc = bare_map(s, EXIT_VA, pa, 4096, BARE_U);
	if (rc || !pa)
		return rc ? rc : -ENOMEM;
	s->ram[pa] = 0xf4;
	shared_pa = bare_alloc(s, 8192);
	if (!shared_pa)
		return -ENOMEM;
	rc = bare_map(s, SHARED_BASE, shared_pa, 8192, BARE_U | BARE_W | BARE_NX);
	for (unsigned int i = 0; i < s->nr_vcpus && !rc; i++) {
		mem_pa[i] = bare_alloc(s, MEM_STRIDE);
		if (!mem_pa[i])
			return -ENOMEM;
		rc = bare_map(s, MEM_BASE + i * MEM_STRIDE, mem_pa[i], MEM_STRIDE,
			      BARE_U | BARE_W | BARE_NX);
	}
	return rc;
}

int start_machine(struct bare *s, unsigned int vcpus)
{
	char why[200];
	int rc = bare_create(s, RAM_BYTES, vcpus, why, sizeof(why));

	if (rc)
		printf("# %s\n", why);
	return rc ? rc : map_machine(s);
}

int start_vcpu(struct bare *s, unsigned int i, const struct run *r, bool shared)
{
	uint32_t mem = MEM_BASE + i * MEM_STRIDE;
	uint64_t ret_at = STACK_OFF + STACK_BYTES - 64, ret = EXIT_VA;
	struct kvm_regs regs = {.rdi = r->n,
				.rsi = shared ? SHARED_BASE : mem,
				.rdx = MEM_BYTES,
				.rcx = (uint64_t)(uintptr_t)truth_echo,
				.rsp = mem + ret_at,
				.rip = (uint64_t)(uintptr_t)r->fn,
				.rflags = 0x202};

	memset(s->ram + mem_pa[i], 0, MEM_BYTES);
	memcpy(s->ram + mem_pa[i] + ret_at, &ret, 8);
	return bare_user(s, i, &regs, 0, 0);
}

static bool right(struct bare *s, unsigned int i, const struct account *a, bool own_memory)
{
	const struct truth *t = &a->r->truth;
	struct bare_stop stop;
	const struct {
		const char *name;
		uint64_t truth, emulator;
	} c[] = {
		{"instructions", t->insns, a->ev[VPMU_EMU_INSTRUCTIONS]},
		{"branches", t->branches, a->ev[VPMU_EMU_BRANCHES]},
		{"taken branches", t->taken, a->ev[VPMU_EMU_BRANCHES_TAKEN]},
		{"conditional branches", t->conditional, a->ev[VPMU_EMU_BRANCHES_CONDITIONAL]},
		{"loads", t->loads, a->ev[VPMU_EMU_LOADS]},
		{"stores", t->stores, a->ev[VPMU_EMU_STORES]},
	};
	bool ok = true;

	if (bare_stopped(s, i, VMM_EXIT_HLT, &stop) || stop.vector != 13 || stop.rip != EXIT_VA) {
		printf("# vcpu %u, %s: stopped by vector %d at %#" PRIx64 " error %#x cr2 %#" PRIx64
		       "\n",
		       i, a->r->name, stop.vector, stop.rip, stop.error, stop.cr2);
		return false;
	}
	if (stop.regs.rax != t->ret) {
		printf("# vcpu %u, %s: returned %#llx, natively %#" PRIx64 "\n", i, a->r->name,
		       stop.regs.rax, t->ret);
		ok = false;
	}
	/* Pointers in memory differ by where the scratch area is; vCPU 0 has it where native had.
	 */
	if (i == 0 && own_memory && memcmp(s->ram + mem_pa[0], a->r->memory, MEM_BYTES)) {
		printf("# vcpu %u, %s: memory differs from the native run's\n", i, a->r->name);
		ok = false;
	}
	for (size_t k = 0; k < sizeof(c) / sizeof(c[0]); k++)
		if (c[k].truth != c[k].emulator) {
			printf("# vcpu %u, %s: %s %" PRIu64 ", truth %" PRIu64 "\n", i, a->r->name,
			       c[k].name, c[k].emulator, c[k].truth);
			ok = false;
		}
	return ok;
}

int slice(struct bare *s, unsigned int i, struct account *a, struct vpmu_emu_tally *tally, int pcpu,
	  uint64_t budget)
{
	struct vpmu_emu_tally before = *tally;
	struct vmm_run run = {.budget = budget};
	int rc;

	vmm_emu_ops.set_tally(s->vcpu[i], tally);
	rc = vmm_emu_ops.run(s->vcpu[i], &run);
	if (rc)
		return rc;
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		a->ev[e] += tally->ev[VPMU_EMU_USR][e] - before.ev[VPMU_EMU_USR][e];
	a->slices++;
	a->moves += a->on != pcpu;
	a->on = pcpu;
	if (run.exit == VMM_EXIT_ERROR)
		printf("# vcpu %u: %s\n", i, run.u.error.msg);
	if (run.exit == VMM_EXIT_BUDGET)
		return run.retired == budget ? 0 : -ERANGE;
	if (run.exit == VMM_EXIT_INTR) /* the machine gave the CPU back early */
		return 0;
	a->done = true;
	return run.exit == VMM_EXIT_HLT ? 0 : -EIO;
}

static void test_alone(void)
{
	for (unsigned int k = 0; k < nr_runs; k++) {
		struct vpmu_emu_tally tally = {0};
		struct account a = {.r = &runs[k]};
		struct bare s = {0};
		int rc = start_machine(&s, 1);

		if (!rc)
			rc = start_vcpu(&s, 0, a.r, false);
		if (!rc)
			do
				rc = slice(&s, 0, &a, &tally, 0, 100 * a.r->truth.insns);
			while (!rc && !a.done && a.slices < 1000);
		if (rc)
			printf("# %s: %s\n", a.r->name, strerror(-rc));
		result(!rc && right(&s, 0, &a, true),
		       "%s: emulator counts are the single-stepped ones", a.r->name);
		bare_destroy(&s);
	}
}

struct schedule {
	struct bare s;
	struct account acc[NR_VCPUS];
	struct vpmu_emu_tally tally[NR_PCPUS];
	pthread_mutex_t lock; /* what follows */
	bool busy[NR_VCPUS];
	unsigned int left;
	uint64_t slices;
	int rc;
};

/* A vCPU without a thread, or -1. Caller holds the lock. */
static int pick(struct schedule *sc, uint64_t *rng)
{
	unsigned int at = dt_below(rng, NR_VCPUS);

	for (unsigned int k = 0; k < NR_VCPUS; k++) {
		unsigned int i = (at + k) % NR_VCPUS;

		if (!sc->acc[i].done && !sc->busy[i])
			return (int)i;
	}
	return -1;
}

/* 1 to 4096 instructions, short slices as likely as long ones. */
static uint64_t slice_length(uint64_t *rng)
{
	return 1 + dt_below(rng, 1u << dt_below(rng, 13));
}

static void run_pcpus(struct schedule *sc, uint64_t rng, int only)
{
	pthread_mutex_lock(&sc->lock);
	while (sc->left && !sc->rc) {
		int pcpu = only < 0 ? (int)dt_below(&rng, NR_PCPUS) : only, rc;
		int i = pick(sc, &rng);

		if (i < 0) {
			/* The other thread has the last one. */
			pthread_mutex_unlock(&sc->lock);
			sched_yield();
			pthread_mutex_lock(&sc->lock);
			continue;
		}
		sc->busy[i] = true;
		pthread_mutex_unlock(&sc->lock);
		rc = slice(&sc->s, (unsigned int)i, &sc->acc[i], &sc->tally[pcpu], pcpu,
			   slice_length(&rng));
		pthread_mutex_lock(&sc->lock);
		sc->busy[i] = false;
		sc->left -= sc->acc[i].done;
		if (rc)
			sc->rc = rc;
		if (++sc->slices > SLICE_TOTAL)
			sc->rc = -ETIMEDOUT;
		/* Let the other thread have its turn at the lock. */
		pthread_mutex_unlock(&sc->lock);
		if (only >= 0)
			sched_yield();
		pthread_mutex_lock(&sc->lock);
	}
	pthread_mutex_unlock(&sc->lock);
}

struct worker {
	struct schedule *sc;
	int pcpu;
};

static void *worker(void *arg)
{
	struct worker *w = arg;

	run_pcpus(w->sc, seed + (uint64_t)w->pcpu, w->pcpu);
	return NULL;
}

static int run_threads(struct schedule *sc)
{
	struct worker w[NR_PCPUS];
	pthread_t t[NR_PCPUS];

	for (unsigned int p = 0; p < NR_PCPUS; p++) {
		w[p] = (struct worker){.sc = sc, .pcpu = (int)p};
		if (pthread_create(&t[p], NULL, worker, &w[p])) {
			sc->rc = -EAGAIN;
			while (p--)
				pthread_join(t[p], NULL);
			return -EAGAIN;
		}
	}
	for (unsigned int p = 0; p < NR_PCPUS; p++)
		pthread_join(t[p], NULL);
	return 0;
}

/* Nothing charged to a pCPU may be missing from the vCPUs, or appear in two. */
static bool conserved(const struct schedule *sc)
{
	bool ok = true;

	for (int e = 0; e < VPMU_EMU_EVENTS; e++) {
		uint64_t pcpus = 0, vcpus = 0;

		for (unsigned int p = 0; p < NR_PCPUS; p++)
			pcpus += sc->tally[p].ev[VPMU_EMU_USR][e];
		for (unsigned int i = 0; i < NR_VCPUS; i++)
			vcpus += sc->acc[i].ev[e];
		if (pcpus != vcpus) {
			printf("# event %d: tallies %" PRIu64 ", vCPUs %" PRIu64 "\n", e, pcpus,
			       vcpus);
			ok = false;
		}
	}
	return ok;
}

/* What @vcpus times @n rounds of truth_shared() leave, by plain arithmetic. */
static bool shared_right(const struct bare *s, uint64_t vcpus, uint64_t n)
{
	const uint8_t *mem = s->ram + shared_pa;
	uint64_t rounds = vcpus * n, quad[2];
	uint32_t sum, bit;
	uint16_t word;

	memcpy(&quad[0], mem, 8);
	memcpy(&sum, mem + 62, 4);
	memcpy(&quad[1], mem + 4092, 8);
	memcpy(&word, mem + 127, 2);
	memcpy(&bit, mem + 256, 4);
	printf("# %" PRIu64 " locked rounds: %" PRIu64
	       " incremented, %u /3 added over a line, %" PRIu64 " /5 over a page, %u subtracted\n",
	       rounds, quad[0], sum, quad[1], (unsigned int)(uint16_t)-word);
	return quad[0] == rounds && sum == (uint32_t)(3 * rounds) && quad[1] == 5 * rounds &&
	       (uint16_t)-word == (uint16_t)(7 * rounds) && bit == (rounds & 1) << 1;
}

/* 100 vCPUs in random slices on 2 pCPUs: the workloads, or all on the same shared memory. */
static void test_sliced(bool threads, const struct run *shared)
{
	static struct schedule sc;
	unsigned int wrong = 0, moves = 0;
	bool ok;
	int rc;

	memset(&sc, 0, sizeof(sc));
	pthread_mutex_init(&sc.lock, NULL);
	sc.left = NR_VCPUS;
	rc = start_machine(&sc.s, NR_VCPUS);
	for (unsigned int i = 0; i < NR_VCPUS && !rc; i++) {
		sc.acc[i].r = shared ? shared : &runs[i % nr_runs];
		rc = start_vcpu(&sc.s, i, sc.acc[i].r, shared);
	}
	if (!rc && threads)
		rc = run_threads(&sc);
	else if (!rc)
		run_pcpus(&sc, seed, -1);
	if (!rc)
		rc = sc.rc;
	if (rc)
		printf("# %s\n", strerror(-rc));
	for (unsigned int i = 0; i < NR_VCPUS && !rc; i++) {
		wrong += !right(&sc.s, i, &sc.acc[i], !shared);
		moves += sc.acc[i].moves;
	}
	printf("# %" PRIu64 " slices, %u moves between pCPUs, seed %" PRIu64 "\n", sc.slices, moves,
	       seed);
	ok = !rc && !wrong && conserved(&sc);
	if (ok && shared)
		ok = shared_right(&sc.s, NR_VCPUS, shared->n);
	result(ok,
	       shared ? "100 vCPUs in random slices on shared memory, %s"
		      : "100 vCPUs in random slices on 2 pCPUs, %s",
	       threads ? "two threads" : "one thread");
	bare_destroy(&sc.s);
	pthread_mutex_destroy(&sc.lock);
}

static void test_all(const struct run *shared)
{
	test_alone();
	truth_branches(runs, nr_runs, false, seed);
	truth_branches(runs, nr_runs, true, seed);
	test_sliced(false, NULL);
	test_sliced(true, NULL);
	test_sliced(true, shared);
}

int main(int argc, char **argv)
{
	const struct run *shared = &runs[0];

	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0);
	if (make_runs()) {
		result(false, "%s", "native truth");
		printf("1..%u\n", nr_tests);
		return 1;
	}
	for (unsigned int k = 0; k < nr_runs; k++)
		if (runs[k].fn == truth_shared)
			shared = &runs[k];
	test_all(shared);
	/* Single-stepping takes most of the time, and its results serve both. */
	if (!getenv("VPMU_TEST_TRANSLATE")) {
		printf("# all code is translated now\n");
		emu_jit_set(EMU_JIT_ALL);
		test_all(shared);
	}
	printf("1..%u\n", nr_tests);
	for (unsigned int k = 0; k < nr_runs; k++) {
		free(runs[k].memory);
		free(runs[k].log.b);
	}
	return nr_failed != 0;
}
