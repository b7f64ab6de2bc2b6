// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Detects events that have stopped. The enabled time of an event grows even while it waits for a
 * counter. hotplug.c calls this at a takeover and before counts are compared. A former process's
 * event has no file descriptor here and is readable by BPF programs only, so a small program reads
 * it. Charges must not change.
 */
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "cgroup/slot.h"

#include <account.skel.h> /* it needs maps.h */

/* Two readings can fall into one tick of a coarse clock. */
#define TRIES	 4
#define PAUSE_US 1000
#define BUFFER	 ((int)sizeof(struct bpf_perf_event_value))
#define AT(m)	 ((short)((int)offsetof(struct bpf_perf_event_value, m) - BUFFER))

/* Loads a program that returns the low 32 bits of the enabled time, in ns, of the event at the
 * index given as its argument; 0: no such event. */
int alive_init(struct bpf_backend *k)
{
	const struct bpf_insn insns[] = {
		/* r2 = *(u64 *)r1 */
		{BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_2, BPF_REG_1, 0, 0},
		/* r1 = the map of events */
		{BPF_LD | BPF_IMM | BPF_DW, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0,
		 bpf_map__fd(k->skel->maps.events)},
		{0},
		/* r3 = r10 - BUFFER, r4 = BUFFER */
		{BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_3, BPF_REG_10, 0, 0},
		{BPF_ALU64 | BPF_ADD | BPF_K, BPF_REG_3, 0, 0, -BUFFER},
		{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_4, 0, 0, BUFFER},
		{BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_perf_event_read_value},
		/* if (r0) return 0 */
		{BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 2, 0},
		{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0},
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
		{BPF_LDX | BPF_MEM | BPF_DW, BPF_REG_0, BPF_REG_10, AT(enabled), 0},
		{BPF_JMP | BPF_EXIT, 0, 0, 0, 0},
	};

	k->alive = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "vpmu_alive", "Dual BSD/GPL", insns,
				 sizeof(insns) / sizeof(insns[0]), NULL);
	return k->alive < 0 ? -errno : 0;
}

uint64_t alive_dead(const struct bpf_backend *k, unsigned int cpu)
{
	uint32_t first[VPMU_MAX_SLOTS], again;
	uint64_t dead = 0;

	/* An event that cannot be read counts as alive. */
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (k->slot[i].key && slot_has(k, i, cpu) && !slot_needs_none(k, i) &&
		    !budget_is_off(k, i, cpu) &&
		    !k->sys->ask(k->alive, cpu, kp_event(cpu, i), &first[i]))
			dead |= 1ULL << i;
	for (unsigned int try = 0; dead && try < TRIES; try++) {
		if (try)
			usleep(PAUSE_US);
		for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
			if (dead >> i & 1 &&
			    (k->sys->ask(k->alive, cpu, kp_event(cpu, i), &again) ||
			     again != first[i]))
				dead &= ~(1ULL << i);
	}
	return dead;
}

void alive_exit(struct bpf_backend *k)
{
	if (k->alive >= 0)
		close(k->alive);
}
