// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The platform's hardware counters: their number per CPU, and whether KVM gives guests the whole
 * PMU (mediated vPMU). budget.c calls this. It never opens an event to find out: that would take
 * counters from others, and on a host with mediated vPMUs could keep a VM from starting.
 */
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/slot.h"
#include "vpmu/util/proctext.h"

#define PMUS "/sys/bus/event_source/devices"

static void pmu_say(struct bpf_backend_pmu *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void pmu_say(struct bpf_backend_pmu *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->from, sizeof(p->from), fmt, ap);
	va_end(ap);
}

/* The number of the kernel's PMUs with names that begin with @prefix. */
static unsigned int pmus(const struct bpf_backend_sys *sys, const char *prefix)
{
	char path[256];
	struct dirent *d;
	unsigned int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s" PMUS, sys->files);
	dir = opendir(path);
	while (dir && (d = readdir(dir)))
		n += !strncmp(d->d_name, prefix, strlen(prefix));
	if (dir)
		closedir(dir);
	return n;
}

static bool has_pmu(const struct bpf_backend_sys *sys, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s" PMUS "/%s", sys->files, name);
	return access(path, F_OK) == 0;
}

/* ---- x86 ---------------------------------------------------------------------------------- */

enum { EAX, EBX, ECX, EDX };

/* As the kernel's driver: from CPUID 0AH. */
static void intel(const struct bpf_backend_sys *sys, struct bpf_backend_pmu *p)
{
	static const unsigned int fixed[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES,
					     VPMU_EV_REF_CYCLES, VPMU_EV_SLOTS};
	uint32_t r[4], version;

	if (!sys->cpuid(0, r) || r[EAX] < 10 || !sys->cpuid(10, r) || !(r[EAX] & 0xff)) {
		pmu_say(p, "this CPU shows no counters (CPUID 0AH)");
		return;
	}
	version = r[EAX] & 0xff;
	p->known = true;
	p->general = r[EAX] >> 8 & 0xff;
	for (unsigned int i = 0; i < sizeof(fixed) / sizeof(fixed[0]) && version > 1; i++)
		if (i < (r[EDX] & 0x1f) || (version >= 5 && r[ECX] >> i & 1))
			p->fixed |= 1u << fixed[i];
	pmu_say(p, "CPUID 0AH");
}

/* As the kernel's driver: 4 counters, 6 with PERFCTR_CORE, or the number reported by PerfMonV2. */
static void amd(const struct bpf_backend_sys *sys, struct bpf_backend_pmu *p)
{
	uint32_t r[4], max;

	p->known = true;
	p->general = 4;
	pmu_say(p, "what every CPU of AMD has");
	max = sys->cpuid(0x80000000, r) ? r[EAX] : 0;
	if (max >= 0x80000001 && sys->cpuid(0x80000001, r) && r[ECX] >> 23 & 1) {
		p->general = 6;
		pmu_say(p, "CPUID 80000001H: PERFCTR_CORE");
	}
	if (max >= 0x80000022 && sys->cpuid(0x80000022, r) && r[EAX] & 1 && r[EBX] & 0xf) {
		p->general = r[EBX] & 0xf;
		pmu_say(p, "CPUID 80000022H");
	}
}

static void x86(const struct bpf_backend_sys *sys, struct bpf_backend_pmu *p)
{
	uint32_t r[4];
	char vendor[13] = "";

	if (has_pmu(sys, "cpu_atom")) {
		pmu_say(p, "CPUs of several kinds");
		return;
	}
	if (!has_pmu(sys, "cpu")) {
		pmu_say(p, "the kernel has no PMU of this CPU");
		return;
	}
	if (sys->cpuid(0, r)) {
		memcpy(vendor, &r[EBX], 4);
		memcpy(vendor + 4, &r[EDX], 4);
		memcpy(vendor + 8, &r[ECX], 4);
	}
	if (!strcmp(vendor, "AuthenticAMD") || !strcmp(vendor, "HygonGenuine"))
		amd(sys, p);
	else
		intel(sys, p);
}

/* ---- arm64 -------------------------------------------------------------------------------- */

/* The number is in PMCR_EL0, which only the kernel can read, and its driver does not export it in
 * sysfs. Assume six, the number Arm's Base System Architecture requires of servers. */
static void arm64(const struct bpf_backend_sys *sys, struct bpf_backend_pmu *p)
{
	if (!pmus(sys, "armv8_")) {
		pmu_say(p, "the kernel has no PMU of this CPU");
		return;
	}
	p->known = true;
	p->general = 6;
	p->fixed = 1u << VPMU_EV_CYCLES;
	pmu_say(p, "assumed: the minimum of Arm's servers, as this kernel does not report it");
}

void pmu_find(const struct bpf_backend_sys *sys, unsigned int counters, struct bpf_backend_pmu *p)
{
	uint32_t r[4];

	*p = (struct bpf_backend_pmu){0};
	if (sys->cpuid(0, r))
		x86(sys, p);
	else
		arm64(sys, p);
	if (!counters)
		return;
	p->known = true;
	p->general = counters;
	pmu_say(p, "counters in vpmud.conf");
}

bool pmu_is_mediated(const struct bpf_backend_sys *sys)
{
	static const char *const modules[] = {"kvm_intel", "kvm_amd", "kvm"};
	char on[8];

	for (unsigned int i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {
		proctext_read(on, sizeof(on), "%s/sys/module/%s/parameters/enable_mediated_pmu",
			      sys->files, modules[i]);
		if (*on == 'Y' || *on == '1')
			return true;
	}
	return false;
}
