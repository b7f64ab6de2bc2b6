// SPDX-License-Identifier: GPL-2.0-or-later
/* Behaviour of the CPU that this runs on, see host.h. */
#include <cpuid.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include "tests/emu/host.h"
#include "tests/emu/native_side.h"

#define TOP 3u

void host_case(struct dt_case *c, uint64_t seed, const uint8_t *code, size_t len)
{
	const uint16_t fcw = 0x37f, fsw = TOP << 11, mxcsr = 0x1f80;
	uint32_t rel;

	memset(c, 0, sizeof(*c));
	c->regs[DT_RSP] = DT_STACK + 0x7c0;
	c->rflags = DT_IF | 2;
	c->slot = c->rip = dt_slot_address(seed);
	memcpy(c->fx, &fcw, 2);
	memcpy(c->fx + 2, &fsw, 2);
	memcpy(c->fx + 24, &mxcsr, 2);
	memset(c->code, DT_FILL, sizeof(c->code));
	memcpy(c->code, code, len);
	rel = DT_EXIT - (uint32_t)(c->rip + len + 5);
	c->code[len] = 0xe9;
	memcpy(c->code + len + 1, &rel, sizeof(rel));
}

/* Run @code with RDI = @rdi. */
static const struct dt_result *probe(struct native_side *native, const uint8_t *code, size_t len,
				     uint64_t rdi)
{
	struct dt_case *c = &native->shm->buf[0].c[0];
	char why[80];

	host_case(c, 0, code, len);
	c->regs[DT_RDI] = rdi;
	native->shm->buf[0].n = 1;
	return native_submit(native, 0) || native_wait(native, 0, why, sizeof(why))
		       ? NULL
		       : &native->shm->buf[0].r[0];
}

int host_probe(struct host_facts *h)
{
	static const uint8_t cvtpi2ps[] = {0x0f, 0x2a, 0x07},
			     maskmovdqu[] = {0x66, 0x0f, 0xf7, 0xc1},
			     fld1_fstp[] = {0xd9, 0xe8, 0xdb, 0x3f},
			     one[8] = {[7] = 0x80}; /* the mantissa of 1.0 */
	struct native_side native;
	const struct dt_result *r;
	int rc = -1;

	if (native_start(&native))
		return -1;
	r = probe(&native, cvtpi2ps, sizeof(cvtpi2ps), DT_DATA);
	if (!r || r->vector != DT_END)
		goto out;
	h->mmx_stays = (r->fx[3] >> 3 & 7) == TOP;
	r = probe(&native, maskmovdqu, sizeof(maskmovdqu), DT_RO);
	if (!r || r->vector != 14)
		goto out;
	h->upper_first = r->cr2 == DT_RO + 8;
	r = probe(&native, fld1_fstp, sizeof(fld1_fstp), DT_RO - 8);
	if (!r || r->vector != 14)
		goto out;
	h->x87_parts = !memcmp(r->data + DT_DATA_BYTES - 8, one, 8);
	printf("# this CPU: CVTPI2PS from memory %s; MASKMOVDQU reports a fault of its %s half "
	       "first; FSTP m80 that faults in the second page has stored %s\n",
	       h->mmx_stays ? "leaves x87 alone" : "sets TOP and tags of x87",
	       h->upper_first ? "upper" : "lower", h->x87_parts ? "8 bytes" : "nothing");
	rc = 0;
out:
	native_stop(&native);
	return rc;
}

/* The instruction at which @nat and @emulator ended in a page fault. */
static bool faulting(const struct dt_seq *q, const struct dt_result *nat,
		     const struct dt_result *emulator, struct insn *in)
{
	uint64_t off = nat->rip - q->c.slot;

	return nat->vector == 14 && emulator->vector == 14 && nat->rip == emulator->rip &&
	       off < DT_SLOT && insn_decode(q->c.code + off, DT_SLOT - off, in);
}

bool host_upper_fault(const struct dt_seq *q, const struct dt_result *nat,
		      const struct dt_result *emulator)
{
	uint64_t apart = nat->cr2 - emulator->cr2;
	struct insn in;

	if (!faulting(q, nat, emulator, &in) || in.i.mnemonic != ZYDIS_MNEMONIC_MASKMOVDQU)
		return false;
	/* The first bad byte is the operand's first, or the first of its second page. The first
	 * bad one of the upper half is then the first of that half. */
	return apart == 8 || (!(emulator->cr2 & 0xfff) && apart - 1 < 8);
}

/* What FSTP m80, or FBSTP, stores with the registers in @fx, whatever they mask. */
static void store10(const uint8_t *fx, bool bcd, uint8_t out[10])
{
	_Alignas(16) uint8_t regs[512] = {0}, own[512];
	const uint16_t fcw = (uint16_t)(fx[0] | fx[1] << 8 | 0x3f), mxcsr = 0x1f80;

	memcpy(regs, fx, DT_FX_BYTES);
	memcpy(regs, &fcw, 2);
	regs[2] = 0; /* no exception waits */
	regs[3] &= 0x38;
	memset(regs + 24, 0, 4);
	memcpy(regs + 24, &mxcsr, 2);
	if (bcd)
		__asm__ volatile("fxsave64 %0\n\tfxrstor64 %2\n\tfbstp %1\n\tfxrstor64 %0"
				 : "+m"(own), "=m"(*(uint8_t(*)[10])out)
				 : "m"(regs));
	else
		__asm__ volatile("fxsave64 %0\n\tfxrstor64 %2\n\tfstpt %1\n\tfxrstor64 %0"
				 : "+m"(own), "=m"(*(uint8_t(*)[10])out)
				 : "m"(regs));
}

void host_x87_part(const struct dt_seq *q, const struct dt_result *nat,
		   const struct dt_result *emulator, uint64_t base, const uint8_t *nat_mem,
		   uint8_t *mem, size_t n)
{
	uint8_t value[10];
	struct insn in;

	if (!faulting(q, nat, emulator, &in) || nat->cr2 != emulator->cr2 || nat->cr2 & 0xfff ||
	    (in.i.mnemonic != ZYDIS_MNEMONIC_FSTP && in.i.mnemonic != ZYDIS_MNEMONIC_FBSTP) ||
	    in.op[0].type != ZYDIS_OPERAND_TYPE_MEMORY || in.op[0].size != 80)
		return;
	store10(emulator->fx, in.i.mnemonic == ZYDIS_MNEMONIC_FBSTP, value);
	/* The operand begins 8 or 9 bytes before the page that cannot be written. */
	for (unsigned int k = 8; k < 10; k++) {
		uint64_t at = nat->cr2 - k - base;

		if (at <= n - 8 && !memcmp(nat_mem + at, value, 8)) {
			memcpy(mem + at, value, 8);
			return;
		}
	}
}

/* With 57-bit addresses other ones are canonical than on the emulator. */
static bool host_five_level(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[8192];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !strncmp(line, "flags", 5) && strstr(line, " la57");
	if (f)
		fclose(f);
	return found;
}

const char *host_lacks(void)
{
	unsigned int a, b, c, d;

	if (!(getauxval(AT_HWCAP2) & 2))
		return "user-space FSGSBASE";
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_BMI) || !(b & bit_BMI2))
		return "BMI1 or BMI2";
	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_POPCNT) || !(c & bit_MOVBE))
		return "POPCNT or MOVBE";
	if (!__get_cpuid(0x80000001, &a, &b, &c, &d) || !(c & bit_LZCNT) || !(c & bit_LAHF_LM))
		return "LZCNT or LAHF";
	if (host_five_level())
		return "four-level paging only (LA57 is on)";
	return NULL;
}
