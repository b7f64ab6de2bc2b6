/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's PMU driver: finds out which PMU the vCPU shows, gives events counters, programs
 * them through the architectural MSRs and reads them back, with the paravirtual times and
 * quality of vpmu/guest/abi.h where those exist. One vCPU, one user; runs in CPL3 and has the
 * kernel execute batches of privileged instructions.
 */
#ifndef GUEST_TOOLS_PMU_H
#define GUEST_TOOLS_PMU_H

#include "guest-tools/events.h"
#include "guest-tools/layout.h"

enum pmu_vendor { PMU_NONE, PMU_INTEL, PMU_AMD };

struct pmu {
	enum pmu_vendor vendor;
	unsigned int version; /* Intel: architectural version; AMD: 2 PerfMonV2, 1 without */
	unsigned int gp, fixed;
	unsigned int width;	       /* bits of a counter */
	uint32_t missing;	       /* Intel: CPUID 0AH EBX, bits beyond its length set */
	uint32_t global_ctrl;	       /* MSR; 0: none, each event select starts its own counter */
	uint32_t status, status_clear; /* MSRs; 0: counters have no status */
	uint32_t evtsel0, ctr0;	       /* MSRs of counter 0 */
	uint32_t stride;	       /* from one counter's to the next one's */
	uint32_t pv;		       /* VPMU_PV_FEAT_*, 0: no paravirtual leaf */
};

/* Counter numbers are those of the paravirtual MSRs: GP from 0, fixed from VPMU_PV_FIXED. */
#define PMU_NO_COUNTER (-1)
#define PMU_WRITES_MAX VPMU_PV_FIXED

enum pmu_state {
	PMU_COUNTED,
	PMU_NOT_SUPPORTED, /* no encoding, flagged missing, refused, or the host cannot count it */
	PMU_NO_FREE,	   /* all counters taken by other events */
	PMU_NOT_COUNTED	   /* enabled, but a host counter was never free for it */
};

struct pmu_slot {
	const struct event *ev;
	enum pmu_state state;
	int ctr;
	uint64_t value; /* as read */
	bool times;	/* the following are known */
	uint64_t enabled_ns, running_ns;
	uint32_t quality; /* VPMU_PV_Q_* */
};

/* pmu_probe - what CPUID says; whether there is one of AMD's without global control only a register
 * tells, which is read. */
void pmu_probe(struct pmu *pmu);

/* pmu_describe - one line about it into @buf. */
void pmu_describe(const struct pmu *pmu, char *buf, size_t size);

/*
 * pmu_assign - give each of @ev a counter: fixed ones first; equal events get one each while
 * there are enough, and share otherwise. Sets s[].ev, state, ctr.
 */
void pmu_assign(const struct pmu *pmu, const struct event *ev, struct pmu_slot *s, size_t n);

/*
 * pmu_program - all counters off, zeroed and set up; *run: what starts them around a run, nothing
 * else. Without global control that is a list in @writes, which must live as long as @run. false:
 * nothing to start. A counter whose setup is refused becomes PMU_NOT_SUPPORTED.
 */
bool pmu_program(const struct pmu *pmu, struct pmu_slot *s, size_t n, struct guest_run *run,
		 struct guest_write writes[PMU_WRITES_MAX]);

/* pmu_read - values, times and quality of stopped counters; then takes the setup away. */
void pmu_read(const struct pmu *pmu, struct pmu_slot *s, size_t n);

/* pmu_quiet - all counters off, event selects 0, status cleared. */
void pmu_quiet(const struct pmu *pmu);

/* pmu_scaled - the estimate for the whole time a counter was enabled. */
uint64_t pmu_scaled(const struct pmu_slot *s);

/* pmu_countable - whether a counter can be given @e at all. pmu_gp_select - its event select with
 * USR and OS, without EN and INT; 0: fixed counters only. pmu_fixed - its fixed counter, or -1. */
bool pmu_countable(const struct pmu *pmu, const struct event *e);
uint64_t pmu_gp_select(const struct pmu *pmu, const struct event *e);
int pmu_fixed(const struct pmu *pmu, const struct event *e);

/* The same bits on both: SDM vol. 3 figure 20-1, APM vol. 2 figure 13-7. */
#define EVTSEL_USR (1u << 16)
#define EVTSEL_OS  (1u << 17)
#define EVTSEL_INT (1u << 20)
#define EVTSEL_EN  (1u << 22)
/* SDM vol. 3 figure 20-2, four bits per counter */
#define FIXED_OS	    1u
#define FIXED_USR	    2u
#define FIXED_PMI	    8u
#define MSR_IA32_FIXED_CTRL 0x38du

/* The MSRs of a counter. */
uint32_t pmu_counter_msr(const struct pmu *pmu, int ctr);
uint32_t pmu_evtsel_msr(const struct pmu *pmu, int ctr);

#endif
