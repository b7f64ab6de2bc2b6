// SPDX-License-Identifier: GPL-2.0-or-later
/* CPU vendors, see vendor.h. */
#include <cpuid.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/emu/bare.h"
#include "tests/emu/vendor.h"

/* CPUs on which all of difftest was run and agreed with the emulator. */
static const struct {
	enum vendor vendor;
	unsigned int family, model_first, model_last;
} listed[] = {
	{VENDOR_AMD, 0x19, 0, 0xff}, /* Zen 3 and Zen 4 */
	/* Two kinds of CPU with this CPUID were seen in VMs; host.c finds out which one it is. */
	{VENDOR_INTEL, 6, 0xa7, 0xa7},
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
	memcpy(&e->ebx, names[v], 4);
	memcpy(&e->edx, names[v] + 4, 4);
	memcpy(&e->ecx, names[v] + 8, 4);
}

void vendor_case(const struct vendor_diff *d, struct dt_case *c)
{
	static const uint8_t jmp = 0xe9;
	uint32_t rel;

	memset(c, 0, sizeof(*c));
	for (unsigned int i = 0; i < DT_NREGS; i++)
		c->regs[i] = 0xa5a5000000000000u + i;
	c->regs[DT_RSP] = d->kernel ? BARE_KERNEL + BARE_CPU + 0x800 : DT_STACK + 0x7c0;
	for (unsigned int i = 0; i < d->nr; i++)
		c->regs[d->before[i].reg] = d->before[i].value;
	c->rflags = DT_IF | 2;
	c->slot = c->rip = dt_slot_address(0);
	memset(c->code, DT_FILL, sizeof(c->code));
	memcpy(c->code, d->code, d->len);
	rel = DT_EXIT - (uint32_t)(c->rip + d->len + 5);
	c->code[d->len] = jmp;
	memcpy(c->code + d->len + 1, &rel, sizeof(rel));
}

/* The stack at the end: as it was, except for the 8 bytes below RSP. */
static bool stack_expect(const struct vendor_result *e, const struct dt_case *c,
			 const uint8_t *pool, const struct dt_result *r)
{
	uint8_t stack[DT_STACK_BYTES];
	uint64_t address = c->slot + e->below;

	memcpy(stack, pool + c->stack_pool, sizeof(stack));
	if (e->below)
		memcpy(stack + (c->regs[DT_RSP] - 8 - DT_STACK), &address, sizeof(address));
	return !memcmp(stack, r->stack, sizeof(stack));
}

bool vendor_expect(const struct vendor_diff *d, enum vendor v, const struct dt_case *c,
		   const uint8_t *pool, const struct dt_result *r, char *why, size_t why_len)
{
	const struct vendor_result *e = &d->result[v];
	uint64_t regs[DT_NREGS], rip = e->rip < DT_SLOT ? c->slot + e->rip : e->rip;

	if (r->vector != e->vector) {
		snprintf(why, why_len, "vector %d, not %d %s", r->vector, e->vector, r->msg);
		return false;
	}
	if (e->vector == DT_OTHER)
		return true;
	if (e->vector >= 0 && r->rip != rip) {
		snprintf(why, why_len, "rip %#" PRIx64 ", not %#" PRIx64, r->rip, rip);
		return false;
	}
	if ((e->vector == 13 && r->error != e->error) ||
	    (e->vector == 14 && (r->cr2 != e->cr2 || r->error != e->error))) {
		snprintf(why, why_len, "error %#x at %#" PRIx64 ", not %#x at %#" PRIx64, r->error,
			 r->cr2, e->error, e->cr2);
		return false;
	}
	if (e->rflags && (r->rflags & ~(uint64_t)DT_TF) != e->rflags) {
		snprintf(why, why_len, "rflags %#" PRIx64 ", not %#" PRIx64, r->rflags, e->rflags);
		return false;
	}
	if (e->cs && r->cs != e->cs) {
		snprintf(why, why_len, "cs %#x, not %#x", r->cs, e->cs);
		return false;
	}
	memcpy(regs, c->regs, sizeof(regs));
	for (unsigned int i = 0; i < e->nr; i++)
		regs[e->reg[i].reg] = e->reg[i].value;
	for (unsigned int i = 0; i < DT_NREGS; i++)
		if (r->regs[i] != regs[i]) {
			snprintf(why, why_len, "register %u is %#" PRIx64 ", not %#" PRIx64, i,
				 r->regs[i], regs[i]);
			return false;
		}
	if (!d->kernel && !d->pushes && !stack_expect(e, c, pool, r)) {
		snprintf(why, why_len, "the stack differs");
		return false;
	}
	return true;
}
