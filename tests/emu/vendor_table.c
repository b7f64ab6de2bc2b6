// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The differences between Intel's and AMD's CPUs that the emulator models: one row each, with
 * both results written down by hand and the source of each. vendor_test.c runs every row as both
 * vendors, and on the host's CPU if it is one of those that vendor.c lists.
 *
 * "measured" with a model: on that CPU, by this table. "difftest on family 19h": the emulator
 * was written against such a CPU, and 100,000 sequences of emu-difftest, which reach this case,
 * agreed with it.
 */
#include "tests/emu/bare.h"
#include "tests/emu/vendor.h"

#define HIGH	  0x1234567800000000u /* upper half of a 64-bit register */
#define NOWHERE	  0x8000000000000000u /* not canonical */
#define UNMAP	  0x1000u
#define STACK_END (DT_STACK + DT_STACK_BYTES)
#define PML4E_1	  (1ull << 39) /* the first address that the second entry translates */

#define CODE(...)    .len = sizeof((uint8_t[]){__VA_ARGS__}), .code = {__VA_ARGS__}
#define NR_REGS(...) (sizeof((struct vendor_reg[]){__VA_ARGS__}) / sizeof(struct vendor_reg))
#define BEFORE(...)  .nr = NR_REGS(__VA_ARGS__), .before = {__VA_ARGS__}

/* Results. */
#define END	       .vector = DT_END
#define DB	       .vector = 1
#define UD	       .vector = 6
#define GP	       .vector = 13
#define PF(err, at)    .vector = 14, .error = (err), .cr2 = (at)
#define REFUSED	       .vector = DT_OTHER
#define CPL0(vec, off) .vector = (vec), .rip = (off), .cs = 0x10
#define FLAGS(bits)    .rflags = 2 | DT_IF | (bits)
#define AFTER(...)     .nr = NR_REGS(__VA_ARGS__), .reg = {__VA_ARGS__}

/* Sources; the row does not run on CPUs of AMD's. */
#define NOT_ON_AMD(...) .source = {__VA_ARGS__}, .emu_only = 1u << VENDOR_AMD

#define MEASURED     "measured on Intel family 6 model A7H"
#define DIFFTEST     "difftest on AMD family 19h"
#define MEASURED_AMD "measured on AMD family 19h model 11h and family 1ah"

const struct vendor_diff vendor_diffs[] = {
	/* ---- repeated string instructions with a 32-bit address size ---- */
	{
		.name = "rep-a32-movs-zero",
		.what = "REP MOVS with a 32-bit address size and ECX = 0: Intel clears the upper "
			"halves of RCX, RSI and RDI",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf3, 0x67, 0xa4),
		BEFORE({DT_RCX, HIGH}, {DT_RSI, HIGH | DT_DATA}, {DT_RDI, HIGH | (DT_DATA + 64)}),
		.result = {{END},
			   {END, AFTER({DT_RCX, 0}, {DT_RSI, DT_DATA}, {DT_RDI, DT_DATA + 64})}},
	},
	{
		.name = "rep-a32-movs-fault",
		.what = "... when the first element faults: the same",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf3, 0x67, 0x48, 0xa5),
		BEFORE({DT_RCX, HIGH | 3}, {DT_RSI, HIGH | UNMAP}, {DT_RDI, HIGH | DT_DATA}),
		.result = {{PF(4, UNMAP)},
			   {PF(4, UNMAP), AFTER({DT_RCX, 3}, {DT_RSI, UNMAP}, {DT_RDI, DT_DATA})}},
	},
	{
		.name = "rep-a32-stos-zero",
		.what = "REP STOS with a 32-bit address size and ECX = 0: Intel clears the upper "
			"halves of RCX and RDI",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf2, 0x67, 0xab),
		BEFORE({DT_RCX, HIGH}, {DT_RSI, HIGH | DT_DATA}, {DT_RDI, HIGH | DT_DATA}),
		.result = {{END}, {END, AFTER({DT_RCX, 0}, {DT_RDI, DT_DATA})}},
	},
	{
		.name = "rep-a32-stos-fault",
		.what = "... when the first element faults: the same",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf3, 0x67, 0xaa),
		BEFORE({DT_RCX, HIGH | 3}, {DT_RDI, HIGH | UNMAP}),
		.result = {{PF(6, UNMAP)}, {PF(6, UNMAP), AFTER({DT_RCX, 3}, {DT_RDI, UNMAP})}},
	},
	{
		.name = "rep-a32-lods-zero",
		.what = "REP LODS with a 32-bit address size and ECX = 0: Intel clears the upper "
			"half of RCX only",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf3, 0x67, 0xac),
		BEFORE({DT_RCX, HIGH}, {DT_RSI, HIGH | DT_DATA}),
		.result = {{END}, {END, AFTER({DT_RCX, 0})}},
	},
	{
		.name = "rep-a32-scas-fault",
		.what = "REPE SCAS with a 32-bit address size whose first element faults: likewise",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf3, 0x67, 0xaf),
		BEFORE({DT_RCX, HIGH | 3}, {DT_RDI, HIGH | UNMAP}),
		.result = {{PF(4, UNMAP)}, {PF(4, UNMAP), AFTER({DT_RCX, 3})}},
	},
	{
		.name = "rep-a32-cmps-zero",
		.what = "REPNE CMPS with a 32-bit address size and ECX = 0: likewise",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf2, 0x67, 0xa6),
		BEFORE({DT_RCX, HIGH}, {DT_RSI, HIGH | DT_DATA}, {DT_RDI, HIGH | DT_DATA}),
		.result = {{END}, {END, AFTER({DT_RCX, 0})}},
	},
	/* ---- repeated string instructions that stop between two iterations ---- */
	{
		.name = "rep-cmps-fault",
		.what = "REPE CMPS that faults in the ninth iteration: AMD has the flags of the "
			"eighth, Intel those from before the instruction",
		.source = {MEASURED_AMD, "SDM vol. 2, REP"},
		/* STC; REPE CMPSB */
		CODE(0xf9, 0xf3, 0xa6),
		BEFORE({DT_RCX, 100}, {DT_RSI, DT_RO + 0xff8}, {DT_RDI, DT_RO + 0xff8}),
		.result =
			{{PF(4, DT_RO + 0x1000), .rip = 1, FLAGS(DT_RF | DT_ZF | DT_PF),
			  AFTER({DT_RCX, 92}, {DT_RSI, DT_RO + 0x1000}, {DT_RDI, DT_RO + 0x1000})},
			 {PF(4, DT_RO + 0x1000), .rip = 1, FLAGS(DT_RF | DT_CF),
			  AFTER({DT_RCX, 92}, {DT_RSI, DT_RO + 0x1000}, {DT_RDI, DT_RO + 0x1000})}},
	},
	{
		.name = "rep-scas-fault",
		.what = "... REPNE SCAS: likewise",
		.source = {MEASURED_AMD, "SDM vol. 2, REP"},
		/* MOV word [RDI], 0; STC; REPNE SCASW */
		CODE(0x66, 0xc7, 0x07, 0x00, 0x00, 0xf9, 0x66, 0xf2, 0xaf),
		BEFORE({DT_RAX, 0x8000}, {DT_RCX, 100}, {DT_RDI, STACK_END - 2}),
		.result = {{PF(4, STACK_END), .rip = 6, FLAGS(DT_RF | DT_SF | DT_PF),
			    AFTER({DT_RCX, 99}, {DT_RDI, STACK_END})},
			   {PF(4, STACK_END), .rip = 6, FLAGS(DT_RF | DT_CF),
			    AFTER({DT_RCX, 99}, {DT_RDI, STACK_END})}},
		.pushes = true,
	},
	{
		.name = "rep-cmps-step",
		.what = "a debug trap between two iterations: the same flags, and RF is set by "
			"Intel only",
		.source = {MEASURED_AMD, MEASURED},
		/* PUSHFQ; OR word [RSP], 101H (TF, CF); POPFQ; REPE CMPSB */
		CODE(0x9c, 0x66, 0x81, 0x0c, 0x24, 0x01, 0x01, 0x9d, 0xf3, 0xa6),
		BEFORE({DT_RCX, 3}, {DT_RSI, DT_DATA}, {DT_RDI, DT_DATA}),
		.result = {{DB, .rip = 8, FLAGS(DT_ZF | DT_PF),
			    AFTER({DT_RCX, 2}, {DT_RSI, DT_DATA + 1}, {DT_RDI, DT_DATA + 1})},
			   {DB, .rip = 8, FLAGS(DT_RF | DT_CF),
			    AFTER({DT_RCX, 2}, {DT_RSI, DT_DATA + 1}, {DT_RDI, DT_DATA + 1})}},
		.pushes = true,
	},
	{
		.name = "rep-stos-step",
		.what = "... of an instruction that sets no flags",
		.source = {MEASURED_AMD, MEASURED},
		CODE(0x9c, 0x66, 0x81, 0x0c, 0x24, 0x01, 0x01, 0x9d, 0xf3, 0xaa),
		BEFORE({DT_RCX, 3}, {DT_RDI, DT_DATA}),
		.result = {{DB, .rip = 8, FLAGS(DT_CF), AFTER({DT_RCX, 2}, {DT_RDI, DT_DATA + 1})},
			   {DB, .rip = 8, FLAGS(DT_RF | DT_CF),
			    AFTER({DT_RCX, 2}, {DT_RDI, DT_DATA + 1})}},
		.pushes = true,
	},
	/* ---- which of two faults ---- */
	{
		.name = "cmps-both-fault",
		.what = "CMPS whose operands both fault: Intel reports ES:[RDI]",
		NOT_ON_AMD("no manual says; the order of the operands, not measured", MEASURED),
		CODE(0xa7),
		BEFORE({DT_RSI, UNMAP}, {DT_RDI, 2 * UNMAP}),
		.result = {{PF(4, UNMAP)}, {PF(4, 2 * UNMAP)}},
	},
	{
		.name = "cmps-fault-and-not-canonical",
		.what = "... also when the fault of the other operand is #GP",
		NOT_ON_AMD("no manual says; the order of the operands, not measured", MEASURED),
		CODE(0xf3, 0xa6),
		BEFORE({DT_RCX, 2}, {DT_RSI, NOWHERE}, {DT_RDI, UNMAP}),
		.result = {{GP}, {PF(4, UNMAP)}},
	},
	{
		.name = "iretq-no-frame",
		.what = "IRETQ whose frame cannot be read: Intel reports the address of RFLAGS, "
			"then CS, RIP, and when CS is good SS and RSP; AMD the first word",
		NOT_ON_AMD("APM vol. 3, IRET (the order of its POPs); not measured", MEASURED),
		CODE(0x48, 0xcf),
		BEFORE({DT_RSP, UNMAP}),
		.result = {{PF(4, UNMAP)}, {PF(4, UNMAP + 16)}},
	},
	{
		.name = "iretq-half-a-frame",
		.what = "... whose SS and RSP cannot be read, with a bad CS",
		NOT_ON_AMD("APM vol. 3, IRET (the order of its POPs); not measured", MEASURED),
		/* MOV RSP, RBX; PUSHFQ; PUSH 10H; PUSH RAX; IRETQ */
		CODE(0x48, 0x89, 0xdc, 0x9c, 0x6a, 0x10, 0x50, 0x48, 0xcf),
		BEFORE({DT_RBX, STACK_END}),
		.result = {{PF(4, STACK_END), .rip = 7, AFTER({DT_RSP, STACK_END - 24})},
			   {GP, .error = 0x10, .rip = 7, AFTER({DT_RSP, STACK_END - 24})}},
		.pushes = true,
	},
	{
		.name = "retf-no-frame",
		.what = "far RET whose frame cannot be read: Intel reports the address of CS",
		NOT_ON_AMD("APM vol. 3, RET (Far) (the order of its POPs); not measured", MEASURED),
		CODE(0x48, 0xcb),
		BEFORE({DT_RSP, UNMAP}),
		.result = {{PF(4, UNMAP)}, {PF(4, UNMAP + 8)}},
	},
	/* ---- near branches ---- */
	{
		.name = "call-not-canonical",
		.what = "CALL of an address that is not canonical: Intel has stored the return "
			"address before the #GP, RSP is as it was",
		.source = {DIFFTEST, MEASURED},
		CODE(0xff, 0xd0),
		BEFORE({DT_RAX, NOWHERE}),
		.result = {{GP}, {GP, .below = 2}},
	},
	{
		.name = "call-not-canonical-no-stack",
		.what = "... with a stack that cannot be written: Intel reports that",
		NOT_ON_AMD("follows from the row above", MEASURED),
		CODE(0xff, 0xd0),
		BEFORE({DT_RAX, NOWHERE}, {DT_RSP, DT_RO + 8}),
		.result = {{GP}, {PF(7, DT_RO)}},
	},
	{
		.name = "jmp-operand-size",
		.what = "a near branch with prefix 66: AMD truncates its target to 16 bits "
			"(refused "
			"here), Intel ignores the prefix",
		NOT_ON_AMD("APM vol. 3, JMP (Near)", "SDM vol. 2, JMP; " MEASURED),
		CODE(0x66, 0xe9, 1, 0, 0, 0, 0xf4),
		.result = {{REFUSED}, {END}},
	},
	{
		.name = "ret-operand-size",
		.what = "... RET: Intel pops 8 bytes",
		NOT_ON_AMD("APM vol. 3, RET (Near)", "SDM vol. 2, RET; " MEASURED),
		/* PUSH RAX; RET; HLT */
		CODE(0x50, 0x66, 0xc3, 0xf4),
		BEFORE({DT_RAX, DT_CODE + DT_SLOT_PAD + 4}),
		.result = {{REFUSED}, {END, .below = 4}},
	},
	/* ---- decoding ---- */
	{
		.name = "pause-rex-b",
		.what = "F3 90 with REX.B: AMD exchanges RAX and R8, Intel pauses",
		.source = {DIFFTEST, MEASURED},
		CODE(0xf3, 0x49, 0x90),
		BEFORE({DT_RAX, 1}, {DT_R8, 8}),
		.result = {{END, AFTER({DT_RAX, 8}, {DT_R8, 1})}, {END}},
	},
	{
		.name = "movsxd-16",
		.what = "MOVSXD with prefix 66: AMD reads 32 bits of memory, Intel 16",
		NOT_ON_AMD("Zydis; not measured", "SDM vol. 2, MOVSXD; " MEASURED),
		/* MOVSXD AX, [RBX]; XOR EAX, EAX */
		CODE(0x66, 0x63, 0x03, 0x31, 0xc0),
		BEFORE({DT_RBX, DT_RO + 0xffe}),
		.result = {{PF(4, DT_RO + 0x1000)}, {END, AFTER({DT_RAX, 0})}},
	},
	{
		.name = "prefetchw-register",
		.what = "0F 0D /1 (PREFETCHW) with a register: #UD on AMD, NOP on Intel",
		NOT_ON_AMD("APM vol. 3, PREFETCH",
			   "SDM vol. 2, table A-3 (reserved NOP); " MEASURED),
		CODE(0x0f, 0x0d, 0xc8),
		.result = {{UD}, {END}},
	},
	/* ---- system ---- */
	{
		.name = "null-fs",
		.what = "a null selector in FS or GS: Intel clears the base. AMD keeps it unless "
			"CPUID has NullSelectClearsBase, which the guest's has not",
		NOT_ON_AMD("Linux, check_null_seg_clears_base(); APM vol. 3, E.4.21 (80000021H)",
			   MEASURED),
		/* XOR EAX, EAX; MOV FS, EAX; RDFSBASE RAX */
		CODE(0x31, 0xc0, 0x8e, 0xe0, 0xf3, 0x48, 0x0f, 0xae, 0xc0),
		BEFORE({DT_RAX, 1}),
		.result = {{END, AFTER({DT_RAX, DT_FS_BASE})}, {END, AFTER({DT_RAX, 0})}},
	},
	{
		.name = "cpuid-beyond",
		.what = "a CPUID leaf beyond the last: Intel answers with the last basic leaf, AMD "
			"with zeros",
		.source = {"APM vol. 3, CPUID; Linux, get_out_of_range_cpuid_entry()",
			   "SDM vol. 2, CPUID; Linux, the same"},
		CODE(0x0f, 0xa2),
		BEFORE({DT_RAX, 0x81234567}),
		/* vendor_leaf0(): EAX = 0, the name in EBX, EDX, ECX */
		.result = {{END, AFTER({DT_RAX, 0}, {DT_RBX, 0}, {DT_RCX, 0}, {DT_RDX, 0})},
			   {END, AFTER({DT_RAX, 0}, {DT_RBX, 0x756e6547}, {DT_RCX, 0x6c65746e},
				       {DT_RDX, 0x49656e69})}},
		.emu_only = 1u << VENDOR_AMD | 1u << VENDOR_INTEL,
	},
	{
		.name = "tsc-aux-high",
		.what = "WRMSR of IA32_TSC_AUX with bits 63:32: #GP on Intel, ignored by AMD",
		.source =
			{"Linux, kvm/x86.c, MSR_TSC_AUX: \"AMD CPUs completely ignore bits 63:32\"",
			 "SDM vol. 4, C0000103H (reserved)"},
		.kernel = true,
		/* MOV ECX, C0000103H; MOV EAX, 5; MOV EDX, 7; WRMSR; RDMSR; INT3 */
		CODE(0xb9, 0x03, 0x01, 0x00, 0xc0, 0xb8, 5, 0, 0, 0, 0xba, 7, 0, 0, 0, 0x0f, 0x30,
		     0x0f, 0x32, 0xcc),
		.result = {{CPL0(3, 20), AFTER({DT_RCX, 0xc0000103}, {DT_RAX, 5}, {DT_RDX, 0})},
			   {CPL0(13, 15), AFTER({DT_RCX, 0xc0000103}, {DT_RAX, 5}, {DT_RDX, 7})}},
	},
	{
		.name = "sysret-not-canonical",
		.what = "SYSRET to an address that is not canonical: #GP at SYSRET in CPL 0 on "
			"Intel, at the target in CPL 3 on AMD",
		.source = {"APM vol. 3, SYSRET (RIP is not checked); Xen advisory 7",
			   "SDM vol. 2, SYSRET; Xen advisory 7"},
		.kernel = true,
		/* MOV ECX, C0000081H (STAR); MOV EDX, 200010H; WRMSR; MOV RCX, RBX; SYSRETQ */
		CODE(0xb9, 0x81, 0x00, 0x00, 0xc0, 0xba, 0x10, 0x00, 0x20, 0x00, 0x0f, 0x30, 0x48,
		     0x89, 0xd9, 0x48, 0x0f, 0x07),
		BEFORE({DT_RBX, NOWHERE}, {DT_R11, 2}),
		.result = {{GP, .rip = NOWHERE, .cs = DT_USER_CS,
			    AFTER({DT_RCX, NOWHERE}, {DT_RDX, 0x200010})},
			   {CPL0(13, 15), AFTER({DT_RCX, NOWHERE}, {DT_RDX, 0x200010})}},
	},
	{
		.name = "pml4e-bit-8",
		.what = "bit 8 of a PML4 entry: reserved on AMD, ignored by Intel",
		.source = {"APM vol. 2, 5.3.3; Linux, __reset_rsvds_bits_mask()",
			   "SDM vol. 3, table 4-15"},
		.kernel = true,
		/* Make PML4E 1 of PML4E 0, with bit 8: MOV RCX, [RAX]; OR RCX, 100H;
		 * MOV [RAX + 8], RCX; XOR ECX, ECX; MOV EDX, [RBX]; INT3 */
		CODE(0x48, 0x8b, 0x08, 0x48, 0x81, 0xc9, 0x00, 0x01, 0x00, 0x00, 0x48, 0x89, 0x48,
		     0x08, 0x31, 0xc9, 0x8b, 0x13, 0xcc),
		BEFORE({DT_RAX, BARE_KERNEL + BARE_CR3}, {DT_RBX, PML4E_1 + DT_DATA}),
		.result = {{PF(9, PML4E_1 + DT_DATA), .rip = 16, .cs = 0x10, AFTER({DT_RCX, 0})},
			   {CPL0(3, 19), AFTER({DT_RCX, 0}, {DT_RDX, 0})}},
	},
};

const unsigned int nr_vendor_diffs = sizeof(vendor_diffs) / sizeof(vendor_diffs[0]);
