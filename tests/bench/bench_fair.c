// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fair_worst: how much of a pCPU is left for a plain guest beside a guest that makes each of its
 * instructions as expensive as it can (tests/emu/attack.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/bench_bed.h"
#include "tests/emu/attack.h"
#include "vmm/sched/runner_priv.h"

static int load(struct vm *vm, void *arg, char *err, size_t errlen)
{
	return attack_load(arg, vm->ops, vm->vcpus[0].ev, vm->ram.base);
}

static void attack_open(struct bed *b, struct bvm *v, const struct attack *a)
{
	bvm_open_load(b, v, 1, load, (void *)a);
	start(v);
}

/* The CPU time of slices of @effort in all, by VM. */
static void measure(struct bed *b, const struct bvm *victim, uint64_t effort, double ns[2])
{
	const struct runner_pcpu *p = b->runner->pcpus[0];
	double t = bench_thread_ns(), now;
	struct runner_stats s;
	uint64_t end;

	runner_stats(b->runner, &s);
	end = s.effort + effort;
	ns[0] = ns[1] = 0;
	while (s.effort < end) {
		must(runner_step(b->runner, 1) == 1, "runner", "the guests ended");
		now = bench_thread_ns();
		ns[!p->cur || p->cur->vm != victim->vm] += now - t;
		t = now;
		runner_stats(b->runner, &s);
	}
}

/* The victim's share of the CPU time in percent, the median of @rounds, beside @a or @chip. */
static double share(const struct attack *a, const struct chip_attack *chip, unsigned int rounds)
{
	double shares[64], ns[2];
	struct bvm victim, other;
	struct bed b;

	bed_open(&b, 1, 100000);
	attack_open(&b, &victim, &attacks[0]);
	if (chip) {
		bvm_open_linux(&b, &other, chip->vcpus, bvm_load_chip, (void *)chip);
		start(&other);
	} else {
		attack_open(&b, &other, a);
	}
	measure(&b, &victim, 4000000, ns);
	for (unsigned int i = 0; i < rounds; i++) {
		measure(&b, &victim, 16000000, ns);
		shares[i] = 100 * ns[0] / (ns[0] + ns[1]);
	}
	bvm_close(&other);
	bvm_close(&victim);
	bed_close(&b);
	return median(shares, rounds);
}

/* Returns true if VPMU_ATTACK is not set, or is in @name. */
static bool chosen(const char *name)
{
	const char *only = getenv("VPMU_ATTACK");

	return !only || strstr(name, only);
}

int bench_fair_worst(void)
{
	const struct attack *worst = &attacks[0];
	double least = 100, s;

	for (size_t i = 0; i < nr_attacks; i++) {
		if (!chosen(attacks[i].name))
			continue;
		s = share(&attacks[i], NULL, 5);
		if (s < least && !attacks[i].memory) {
			least = s;
			worst = &attacks[i];
		}
		bench_report(attacks[i].memory ? "fair_memory" : "fair", s / 50, "of fair", 0, true,
			     json_pack("{s:s}", "workload", attacks[i].name));
	}
	for (size_t i = 0; i < nr_chip_attacks; i++) {
		const struct chip_attack *c = &chip_attacks[i];

		if (!chosen(c->attack.name))
			continue;
		s = share(NULL, c, 5);
		if (s < least) {
			least = s;
			worst = &c->attack;
		}
		bench_report("fair", s / 50, "of fair", 0, true,
			     json_pack("{s:s, s:i}", "workload", c->attack.name, "vcpus",
				       (int)c->vcpus));
	}
	bench_report("fair_worst", least / 50, "of fair", 0.8, true,
		     json_pack("{s:s, s:i}", "attack", worst->name, "attacks",
			       (int)(nr_attacks + nr_chip_attacks)));
	return 0;
}
