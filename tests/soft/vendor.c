// SPDX-License-Identifier: GPL-2.0-or-later
/* CPU vendors, see vendor.h. */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>

#include "tests/soft/vendor.h"

/* CPUs on which all of difftest was run and agreed with the soft machine. */
static const struct {
	enum vendor vendor;
	unsigned int family, model_first, model_last;
} listed[] = {
	{VENDOR_AMD, 0x19, 0, 0xff},   /* Zen 3 and Zen 4 */
	{VENDOR_INTEL, 6, 0xa7, 0xa7}, /* with AMX, AVX512-FP16: what Sapphire Rapids has */
	{VENDOR_INTEL, 6, 0xcf, 0xcf}, /* Emerald Rapids */
};

static const char *const names[NR_VENDORS] = {
	[VENDOR_AMD] = "AuthenticAMD",
	[VENDOR_INTEL] = "GenuineIntel",
};

const char *vendor_name(enum vendor v)
{
	return names[v];
}

void vendor_of_host(struct vendor_host *h)
{
	unsigned int a = 0, r[3] = {0}, sig = 0, b, c, d, family, model;
	char name[13] = {0};

	__get_cpuid(0, &a, &r[0], &r[2], &r[1]);
	memcpy(name, r, sizeof(r));
	__get_cpuid(1, &sig, &b, &c, &d);
	family = sig >> 8 & 0xf;
	model = sig >> 4 & 0xf;
	if (family == 6 || family == 0xf)
		model |= sig >> 12 & 0xf0;
	if (family == 0xf)
		family += sig >> 20 & 0xff;
	h->vendor = strcmp(name, names[VENDOR_INTEL]) ? VENDOR_AMD : VENDOR_INTEL;
	h->listed = false;
	for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++)
		h->listed |= listed[i].vendor == h->vendor && listed[i].family == family &&
			     model >= listed[i].model_first && model <= listed[i].model_last &&
			     !strcmp(name, names[h->vendor]);
	snprintf(h->text, sizeof(h->text), "%s family 0x%x model 0x%x", name, family, model);
}

void vendor_leaf0(enum vendor v, struct kvm_cpuid_entry2 *e)
{
	memset(e, 0, sizeof(*e));
	e->eax = 1;
	memcpy(&e->ebx, names[v], 4);
	memcpy(&e->edx, names[v] + 4, 4);
	memcpy(&e->ecx, names[v] + 8, 4);
}
