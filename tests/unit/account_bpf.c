// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Build check, never run: vpmu/charge.h as the BPF program of the kernel plane will use it. A
 * ctest compiles this with clang -target bpf; it fails when the delta rule needs anything that
 * BPF has not (a library, a 128-bit type, an atomic load).
 */
#include <linux/types.h>

#include "vpmu/charge.h"

/* Laid out like the values of two per-CPU array maps. */
struct cpu_state {
	__u64 last_ns;
	__u64 snap[VPMU_MAX_SLOTS];
	__u64 now[VPMU_MAX_SLOTS]; /* stands for bpf_perf_event_read() of each slot */
	__u64 width_mask[VPMU_MAX_SLOTS];
};

/*
 * account_switch - charge the slots of @mask to @prev, whose time on this CPU ends at @now_ns.
 * Shaped for the verifier: a constant bound, and one test per slot instead of a bit scan.
 */
__attribute__((section("tp_btf/sched_switch"), used)) int
account_switch(struct cpu_state *cpu, struct vpmu_counts *prev, __u64 mask, __u64 now_ns)
{
	unsigned int slot;
	__u64 ran_ns;
	int charged = 0;

	if (!cpu || !prev)
		return 0;
	ran_ns = now_ns - cpu->last_ns;
	vpmu_charge_time(&prev->time_ns, ran_ns);
	cpu->last_ns = now_ns;
	for (slot = 0; slot < VPMU_MAX_SLOTS; slot++) {
		if (!(mask & (1ULL << slot)))
			continue;
		if (!VPMU_LOAD(&cpu->width_mask[slot])) {
			vpmu_charge_time(&prev->idle_ns[slot], ran_ns);
			continue;
		}
		vpmu_charge(&prev->total[slot], &cpu->snap[slot], VPMU_LOAD(&cpu->now[slot]),
			    cpu->width_mask[slot]);
		charged++;
	}
	return charged;
}
