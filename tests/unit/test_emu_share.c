// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stress of shared translated code (vmm/emu/jit/jit_part.c): threads alternate on the vCPUs of
 * many VMs. All the time programs begin and end, so code memory is given back, becomes zeros, and
 * is written again, while other threads execute code beside it. Each program must end as it does
 * in the interpreter. VPMU_STRESS_PROGRAMS is how many programs run; few of them in the usual
 * tests.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/unit/emu_bed.h"
#include "tests/unit/emu_random.h"
#include "vmm/emu/jit/jit.h"

#define PROGRAMS 48 /* different ones at a time */
#define VMS	 12
#define PLACES	 2 /* vCPUs of each VM: their code, data and stacks are in different places */
#define THREADS	 4

/* How a program ends. The address of its code and data may be in its registers. */
struct end {
	struct kvm_regs r;
	uint64_t ev[VPMU_EMU_MODES][VPMU_EMU_EVENTS];
	uint64_t memory;
};

/* One vCPU. A thread holds the lock for a slice. */
struct seat {
	pthread_mutex_t lock;
	struct bed b;
	unsigned int place, program;
	bool busy;
};

static struct prog progs[PROGRAMS];
static struct end expected[PROGRAMS][PLACES];
static struct seat seats[VMS][PLACES];
static _Atomic unsigned int to_begin; /* programs of this round that have not begun */
static _Atomic unsigned int wrong, ended;
static _Atomic uint64_t slices;

static uint64_t data_of(unsigned int place)
{
	return BED_DATA + place * 0x8000;
}

static void load(struct bed *b, unsigned int place, unsigned int program)
{
	const struct prog *p = &progs[program];
	uint64_t data = program;

	for (uint64_t at = 0; at < 8192; at += 8)
		*bed_u64(b, data_of(place) + at) = random_split(&data);
	memcpy(b->ram + BED_CODE + place * 0x10000, p->code, p->n);
	bed_set_mode(b, b->v, program & 1);
	memset(&b->t, 0, sizeof(b->t));
	memset(&b->r, 0, sizeof(b->r));
	b->r.rip = BED_CODE + place * 0x10000;
	b->r.rsp = BED_STACK - place * 0x1000;
	b->r.rdi = data_of(place);
	b->r.rflags = 2;
	o->set_regs(b->v, &b->r);
}

static void end_of(const struct bed *b, unsigned int place, struct end *e)
{
	memset(e, 0, sizeof(*e));
	e->r = b->r;
	memcpy(e->ev, b->t.ev, sizeof(e->ev));
	for (uint64_t at = 0; at < 8192; at += 8)
		e->memory = (e->memory ^ *(const uint64_t *)(b->ram + data_of(place) + at)) *
			    0x100000001b3ull;
}

static bool goes_on(enum vmm_exit x)
{
	return x == VMM_EXIT_BUDGET || x == VMM_EXIT_INTR;
}

/* A VM with its vCPUs. */
static void open_vm(struct seat s[PLACES])
{
	bed_init(&s[0].b);
	for (unsigned int i = 0; i < PLACES; i++) {
		if (i)
			s[i].b = s[0].b;
		cr_assert_eq(o->vcpu_create(s[0].b.vm, i, &s[i].b.v), 0);
		s[i].place = i;
		s[i].busy = false;
	}
	for (unsigned int i = 0; i < PLACES; i++)
		o->set_tally(s[i].b.v, &s[i].b.t);
}

static void close_vm(struct seat s[PLACES])
{
	for (unsigned int i = 1; i < PLACES; i++)
		o->vcpu_destroy(s[i].b.v);
	bed_stop(&s[0].b);
}

/* The result of each program, by the interpreter. */
static void expect(uint64_t seed)
{
	static struct seat s[PLACES];

	emu_jit_set(EMU_JIT_OFF);
	open_vm(s);
	for (unsigned int i = 0; i < PROGRAMS; i++) {
		/* Neighbours are alike: they share translations up to where they differ. */
		if (i & 1) {
			progs[i] = progs[i - 1];
			progs[i].code[7] ^= 1; /* how often the outer loop runs */
		} else {
			random_prog(&progs[i], seed + i);
		}
		for (unsigned int p = 0; p < PLACES; p++) {
			load(&s[p].b, p, i);
			while (goes_on(bed_run(&s[p].b, 0)))
				;
			end_of(&s[p].b, p, &expected[i][p]);
		}
	}
	close_vm(s);
}

/* One slice of what @s runs, or the next program. False: there is none. */
static bool turn(struct seat *s, uint64_t *rng)
{
	struct end e;

	if (!s->busy) {
		unsigned int n = atomic_load(&to_begin);

		while (n && !atomic_compare_exchange_weak(&to_begin, &n, n - 1))
			;
		if (!n)
			return false;
		s->program = below(rng, PROGRAMS);
		load(&s->b, s->place, s->program);
		s->busy = true;
	}
	atomic_fetch_add(&slices, 1);
	if (goes_on(bed_run(&s->b, 1 + below(rng, below(rng, 4) ? 300 : 8000))))
		return true;
	s->busy = false;
	atomic_fetch_add(&ended, 1);
	end_of(&s->b, s->place, &e);
	if (memcmp(&e, &expected[s->program][s->place], sizeof(e))) {
		unsigned int bytes = progs[s->program].n;

		atomic_fetch_add(&wrong, 1);
		fprintf(stderr, "program %u (%u bytes) in place %u ends at rip %llx, not %llx\n",
			s->program, bytes, s->place, e.r.rip, expected[s->program][s->place].r.rip);
	}
	return true;
}

static void *work(void *arg)
{
	uint64_t rng = (uintptr_t)arg;
	unsigned int none = 0;

	/* Until no vCPU has had anything to do for a while. */
	while (none < 10 * VMS * PLACES) {
		struct seat *s = &seats[below(&rng, VMS)][below(&rng, PLACES)];

		if (pthread_mutex_trylock(&s->lock))
			continue;
		none = turn(s, &rng) ? 0 : none + 1;
		pthread_mutex_unlock(&s->lock);
	}
	return NULL;
}

/* One round: new programs, new VMs. */
static void share(uint64_t seed, unsigned int programs, enum emu_jit_mode mode)
{
	pthread_t t[THREADS];

	expect(seed);
	emu_jit_set(mode);
	atomic_store(&to_begin, programs);
	for (unsigned int i = 0; i < VMS; i++)
		open_vm(seats[i]);
	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_create(&t[i], NULL, work, (void *)(seed + i + 1)), 0);
	for (unsigned int i = 0; i < THREADS; i++)
		cr_assert_eq(pthread_join(t[i], NULL), 0);
	for (unsigned int i = 0; i < VMS; i++) {
		for (unsigned int p = 0; p < PLACES; p++)
			while (turn(&seats[i][p], &seed)) /* code that no thread has come back to */
				;
		close_vm(seats[i]);
	}
}

Test(emu_share, programs_end_as_they_must)
{
	const char *s = getenv("VPMU_STRESS_PROGRAMS");
	unsigned long n = s ? strtoul(s, NULL, 10) : 2000;
	struct vmm_engine *e;

	cr_assert_eq(o->open(&e, NULL, 0), 0);
	if (emu_jit_off())
		cr_skip_test("%s", emu_jit_off());
	for (unsigned int i = 0; i < VMS; i++)
		for (unsigned int p = 0; p < PLACES; p++)
			pthread_mutex_init(&seats[i][p].lock, NULL);
	for (uint64_t round = 0; ended < n; round++) {
		share(round * 1000, n < 1000 ? (unsigned int)n : 1000,
		      round & 1 ? EMU_JIT_HOT : EMU_JIT_ALL);
		if (s && round % 50 == 49)
			fprintf(stderr, "%u programs, %lu slices, %u wrong\n", ended,
				(unsigned long)slices, wrong);
	}
	if (s)
		fprintf(stderr, "%u programs, %lu slices, %u wrong\n", ended, (unsigned long)slices,
			wrong);
	cr_assert_eq(wrong, 0, "%u of %u programs ended otherwise", wrong, ended);
	cr_assert_eq(ended % 1000, 0);
}
