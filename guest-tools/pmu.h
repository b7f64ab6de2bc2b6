/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest tools' PMU driver. It detects the vCPU's PMU, assigns counters to events, programs them
 * through the architectural MSRs and reads them back, with the paravirtual times and quality of
 * vpmu/guest/abi.h if these exist. It serves one vCPU and one user. It runs in CPL3; the kernel
 * executes the privileged instructions (SYS_PMU).
 */
#pragma once

#include "guest-tools/events.h"
#include "guest-tools/layout.h"

enum pmu_vendor { PMU_NONE, PMU_INTEL, PMU_AMD };

struct pmu {
	enum pmu_vendor vendor;
	unsigned int version; /* Intel: architectural version; AMD: 2 PerfMonV2, 1 without */
	unsigned int gp, fixed;
	unsigned int width;   /* bits of a counter */
	uint32_t missing;     /* Intel: CPUID 0AH EBX, with the bits beyond its length set */
	uint32_t global_ctrl; /* MSR; 0: none, each event select starts its own counter */
	uint32_t status, status_clear; /* MSRs; 0: there is no status register */
	uint32_t evtsel0, ctr0;	       /* MSRs of counter 0 */
	uint32_t stride;	       /* distance between the MSRs of two counters */
	uint32_t pv;		       /* VPMU_PV_FEAT_*; 0: no paravirtual leaf */
};

/* Counters are numbered as in the paravirtual MSRs: GP from 0, fixed from VPMU_PV_FIXED. */
#define PMU_NO_COUNTER (-1)
#define PMU_WRITES_MAX VPMU_PV_FIXED

enum pmu_state {
	PMU_COUNTED,
	PMU_NOT_SUPPORTED, /* no encoding, not in CPUID, #GP, or the host cannot count it */
	PMU_NO_FREE,	   /* other events use all counters */
	PMU_NOT_COUNTED	   /* enabled, but never had a host counter */
};

struct pmu_slot {
	const struct event *ev;
	enum pmu_state state;
	int ctr;
	uint64_t value; /* as read */
	bool times;	/* the following are valid */
	uint64_t enabled_ns, running_ns;
	uint32_t quality; /* VPMU_PV_Q_* */
};

/* pmu_probe - fill *pmu from CPUID. CPUID does not show if there is an AMD PMU without global
 * control, so its first event select is read. */
void pmu_probe(struct pmu *pmu);

/* pmu_describe - describe the PMU in one line in @buf. */
void pmu_describe(const struct pmu *pmu, char *buf, size_t size);

/*
 * pmu_assign - assign a counter to each of @ev, fixed counters first. Equal events get a counter
 * each if there are enough, and share one otherwise. Sets s[].ev, state and ctr.
 */
void pmu_assign(const struct pmu *pmu, const struct event *ev, struct pmu_slot *s, size_t n);

/*
 * pmu_program - stop all counters, set up those of @s and set them to 0. Sets *run to start and
 * stop them around a call (SYS_RUN). Without global control it uses a list in @writes, which must
 * live as long as *run. A counter becomes PMU_NOT_SUPPORTED if its setup is #GP. Returns false if
 * there is no counter to start.
 */
bool pmu_program(const struct pmu *pmu, struct pmu_slot *s, size_t n, struct guest_run *run,
		 struct guest_write writes[PMU_WRITES_MAX]);

/* pmu_read - read values, times and quality of the stopped counters, then clear their setup. */
void pmu_read(const struct pmu *pmu, struct pmu_slot *s, size_t n);

/* pmu_quiet - stop all counters, clear all event selects and the status. */
void pmu_quiet(const struct pmu *pmu);

/* pmu_scaled - the value, scaled up to the whole time during which the counter was enabled. */
uint64_t pmu_scaled(const struct pmu_slot *s);

/* pmu_countable - returns true if any counter can count @e.
 * pmu_gp_select - the event select of @e with USR and OS, without EN and INT; 0: only a fixed
 * counter can count it. pmu_fixed - the fixed counter of @e, or -1. */
bool pmu_countable(const struct pmu *pmu, const struct event *e);
uint64_t pmu_gp_select(const struct pmu *pmu, const struct event *e);
int pmu_fixed(const struct pmu *pmu, const struct event *e);

/* The same bits for both vendors: SDM vol. 3 figure 20-1, APM vol. 2 figure 13-7. */
#define EVTSEL_USR (1u << 16)
#define EVTSEL_OS  (1u << 17)
#define EVTSEL_INT (1u << 20)
#define EVTSEL_EN  (1u << 22)
/* SDM vol. 3 figure 20-2, four bits per counter */
#define FIXED_OS	    1u
#define FIXED_USR	    2u
#define FIXED_PMI	    8u
#define MSR_IA32_FIXED_CTRL 0x38du

/* The MSRs of counter @ctr. */
uint32_t pmu_counter_msr(const struct pmu *pmu, int ctr);
uint32_t pmu_evtsel_msr(const struct pmu *pmu, int ctr);
