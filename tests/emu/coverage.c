// SPDX-License-Identifier: GPL-2.0-or-later
/* Differential test: which instructions of the emulator's list were tested, see coverage.h. */
#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/emu/coverage.h"
#include "vmm/emu/cpu/emit.h"
#include "vmm/emu/emu.h"
#include "vmm/engine/simd.h"

static bool isa[SEQ_MNEMONICS];
static uint64_t generated[SEQ_MNEMONICS], reached[SEQ_MNEMONICS];

/* Forms of instructions with an EVEX prefix. */
enum { FORM_REG, FORM_MEM, FORM_BROADCAST, FORM_ROUND, FORM_MASK, FORM_ZERO, FORMS };
static uint64_t forms[SEQ_MNEMONICS][FORMS];
static const char *const form_name[FORMS] = {"register", "memory", "broadcast",
					     "rounding", "mask",   "zeroing"};

static void coverage_forms(const struct dt_seq *q, const struct seq_insn *si)
{
	uint64_t *f = forms[si->mnemonic];
	bool mem, b;
	struct insn in;

	if (si->raw || !insn_decode(q->c.code + si->off, si->len, &in) ||
	    in.i.encoding != ZYDIS_INSTRUCTION_ENCODING_EVEX)
		return;
	mem = in.i.raw.modrm.mod != 3;
	b = in.i.raw.evex.b;
	f[b ? (mem ? FORM_BROADCAST : FORM_ROUND) : mem ? FORM_MEM : FORM_REG]++;
	f[FORM_MASK] += in.i.raw.evex.aaa && !in.i.raw.evex.z;
	f[FORM_ZERO] += in.i.raw.evex.z;
}

static void print_forms(int m)
{
	if (!forms[m][FORM_REG] && !forms[m][FORM_MEM])
		return;
	printf("#   EVEX %-15s", ZydisMnemonicGetString((ZydisMnemonic)m));
	for (int i = 0; i < FORMS; i++)
		printf(" %s %" PRIu64, form_name[i], forms[m][i]);
	printf("\n");
}

/*
 * Not generated although on the list: results that belong to the machine (time stamps), and what
 * has no meaning for a process (it would enter the host's kernel).
 */
static const struct {
	const char *names, *why; /* each name is between blanks */
} left_out[] = {
	{" rdtsc rdtscp ", "time stamps differ"},
	{" syscall sysenter ", "enters the host's kernel"},
	{" sgdt sidt sldt str smsw lar lsl verr verw ", "answers for the host's kernel"},
	{" sysexit ", "belongs to kernels"},
	{" vmcall vmmcall ", "calls the host's hypervisor"},
	{" vmrun vmload vmsave stgi clgi invlpga skinit ", "SVM: the fault depends on the host"},
};

/* These store FIP, FDP and FOP. */
static const char *const pointers[] = {"fnsave", "fnstenv", "fxsave", "fxsave64"};

bool coverage_pointers(void)
{
	unsigned int a, b = 0, c, d;
	bool amd = __get_cpuid(0, &a, &b, &c, &d) && b == 0x68747541; /* Auth */

	return amd && __get_cpuid(0x80000008, &a, &b, &c, &d) && (b & 4);
}

/* XINUSE was measured on AMD's CPUs, where it follows from the registers. XCR0 and XINUSE can be
 * compared if no other component is enabled. */
static bool coverage_xsave(void)
{
	unsigned int a, b = 0, c = 0, d, low, high;

	if (!__get_cpuid(0, &a, &b, &c, &d) || b != 0x68747541 /* Auth */ ||
	    !__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) ||
	    !__get_cpuid_count(13, 1, &a, &b, &c, &d) || (a & 15) != 15)
		return false;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	/* Of AVX-512 all or none: the emulator has it if the host has. */
	return low == (vmm_simd_host() & VMM_SIMD_AVX512 ? 0xe7 : 7) && !high;
}

static bool is_xsave(const char *name)
{
	return !strncmp(name, "xsave", 5) || !strncmp(name, "xrstor", 6) ||
	       !strcmp(name, "xgetbv") || !strcmp(name, "xsetbv");
}

/* The groups of AVX-512 that an instruction needs which AVX lacks; 0: it is no such. */
static uint32_t coverage_avx512(const char *name)
{
	static const char *const icl[] = {
		"vpshld",    "vpshrd",	 "vpcompressb", "vpcompressw",	 "vpexpandb",
		"vpexpandw", "vpdp",	 "vpmadd52",	"vpopcnt",	 "vpshufbitqmb",
		"vpermb",    "vpermi2b", "vpermt2b",	"vpmultishiftqb"};

	for (unsigned int i = 0; i < emu_isa_nr_evex; i++) {
		if (strcmp(ZydisMnemonicGetString(emu_isa_evex[i].mnemonic), name))
			continue;
		if (strstr(name, "bf16"))
			return VMM_SIMD_AVX512_BF16;
		for (unsigned int k = 0; k < sizeof(icl) / sizeof(icl[0]); k++)
			if (!strncmp(name, icl[k], strlen(icl[k])))
				return VMM_SIMD_AVX512_ICL;
		return VMM_SIMD_AVX512;
	}
	return name[0] == 'k' ? VMM_SIMD_AVX512 : 0;
}

static const char *why_left_out(const char *name)
{
	char between[40];

	if (is_xsave(name) && !coverage_xsave())
		return "this CPU lacks XSAVES, or has other components or another XINUSE";
	for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
		if (!strcmp(pointers[i], name) && !coverage_pointers())
			return "this CPU's x87 pointers were not measured";
	snprintf(between, sizeof(between), " %s ", name);
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
		if (strstr(left_out[i].names, between))
			return left_out[i].why;
	if (name[0] == 'v' && (vmm_simd_host() & VMM_SIMD_YMM) != VMM_SIMD_YMM)
		return "this host lacks AVX2, FMA or F16C";
	if (coverage_avx512(name) & ~vmm_simd_host())
		return "this host lacks that part of AVX-512";
	return NULL;
}

static int add_mnemonic(const char *name, void *arg)
{
	for (int m = 0; m < SEQ_MNEMONICS; m++) {
		const char *z = ZydisMnemonicGetString((ZydisMnemonic)m);

		if (z && !strcmp(z, name)) {
			isa[m] = !why_left_out(name);
			return 0;
		}
	}
	fprintf(stderr, "difftest: emu_isa_list() names \"%s\", which Zydis does not know\n", name);
	return -EINVAL;
}

bool *coverage_init(void)
{
	return emu_isa_list(add_mnemonic, NULL) ? NULL : isa;
}

void coverage_count(const struct dt_seq *q, const struct dt_result *nat)
{
	uint64_t stop = nat->vector == DT_END ? DT_SLOT : nat->rip - q->c.slot;

	for (unsigned int k = 0; k < q->n; k++) {
		generated[q->insn[k].mnemonic]++;
		if (q->insn[k].off > stop)
			continue;
		reached[q->insn[k].mnemonic]++;
		coverage_forms(q, &q->insn[k]);
	}
}

static int print_left_out(const char *name, void *arg)
{
	const char *why = why_left_out(name);

	if (why)
		printf("# not generated: %s (%s)\n", name, why);
	return 0;
}

/* Instructions CPL3 cannot execute are on the list too; for those a fault is compared. */
bool coverage_print(uint64_t least, bool quiet)
{
	bool ok = true;
	unsigned int total = 0, low = 0;

	for (int m = 0; m < SEQ_MNEMONICS; m++) {
		if (!isa[m])
			continue;
		total++;
		if (reached[m] < least) {
			low++;
			ok = false;
		}
		if (!quiet || reached[m] < least)
			printf("# %-12s generated %9" PRIu64 " reached %9" PRIu64 "%s\n",
			       ZydisMnemonicGetString((ZydisMnemonic)m), generated[m], reached[m],
			       reached[m] < least ? " <- low" : "");
		if (!quiet)
			print_forms(m);
	}
	printf("# %u mnemonics, %u reached less than %" PRIu64 " times\n", total, low, least);
	emu_isa_list(print_left_out, NULL);
	return ok;
}
