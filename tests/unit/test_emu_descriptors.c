// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * LAR, LSL, VERR and VERW in CPL 3 against the CPU that this runs on. Linux lets a process choose
 * the descriptors of its own LDT: the emulator gets the same ones. Of the GDT, both sides have
 * what Linux shows to programs. Skipped where a process may not have an LDT.
 */
#include <asm/ldt.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/emu_bed.h"

TestSuite(emu_descriptors, .fini = bed_end);

#define LDT	0x7000ULL /* in guest RAM */
#define ENTRIES 64u
#define BEFORE	0xa5a5a5a55a5a5a5aULL /* in the destination */

/* What Linux has in the GDT: arch/x86/kernel/cpu/common.c, gdt_page */
#define GDT_KERNEL_CS 0x00af9b000000ffffULL /* 10H */
#define GDT_KERNEL_DS 0x00cf93000000ffffULL /* 18H */
#define GDT_USER32_CS 0x00cffb000000ffffULL /* 20H */
#define GDT_USER_DS   0x00cff3000000ffffULL /* 28H */
#define GDT_USER_CS   0x00affb000000ffffULL /* 30H */

/* X(number, name, text), in which R is the mark of a register. */
#define INSN_LIST(X)                                                                               \
	X(LAR16, "lar 16", "lar " R "cx, " R "ax")                                                 \
	X(LAR32, "lar 32", "lar " R "ecx, " R "eax")                                               \
	X(LAR64, "lar 64", "lar " R "rcx, " R "rax")                                               \
	X(LSL16, "lsl 16", "lsl " R "cx, " R "ax")                                                 \
	X(LSL32, "lsl 32", "lsl " R "ecx, " R "eax")                                               \
	X(LSL64, "lsl 64", "lsl " R "rcx, " R "rax")                                               \
	X(VERR, "verr", "verr " R "cx")                                                            \
	X(VERW, "verw", "verw " R "cx")

#define INSN_NUMBER(number, name, text) number,
#define INSN_NAME(number, name, text)	name,
enum { INSN_LIST(INSN_NUMBER) INSNS };
static const char *const names[] = {INSN_LIST(INSN_NAME)};

struct answer {
	uint64_t dst;
	bool zf;
};

static bool shown[ENTRIES]; /* the kernel has taken this entry */
static uint64_t ldt[ENTRIES];

/* Every kind of descriptor that Linux allows: type, limit, D, G, P, AVL. */
static void choose(struct user_desc *d, unsigned int i)
{
	static const unsigned int limits[] = {0, 0xfff, 0x12345, 0xfffff};

	memset(d, 0, sizeof(*d));
	d->entry_number = i;
	d->base_addr = 0x10000 * i;
	d->limit = limits[i & 3];
	d->contents = i >> 2 & 3;
	d->read_exec_only = i >> 4 & 1;
	d->limit_in_pages = i >> 5 & 1;
	d->seg_32bit = !(i % 5 == 1);
	d->seg_not_present = d->contents == 3 || i % 7 == 3;
	d->useable = i % 3 == 1;
}

/* As the kernel makes it: arch/x86/include/asm/desc.h, fill_ldt(). */
static uint64_t descriptor(const struct user_desc *d)
{
	uint64_t type = 1u | (d->read_exec_only ^ 1u) << 1 | d->contents << 2;

	return (d->limit & 0xffff) | (uint64_t)(d->base_addr & 0xffffff) << 16 | type << 40 |
	       1ULL << 44 | 3ULL << 45 | (uint64_t)(d->seg_not_present ^ 1u) << 47 |
	       (uint64_t)(d->limit >> 16) << 48 | (uint64_t)d->useable << 52 |
	       (uint64_t)d->seg_32bit << 54 | (uint64_t)d->limit_in_pages << 55 |
	       (uint64_t)(d->base_addr >> 24) << 56;
}

static bool set_ldt(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < ENTRIES; i++) {
		struct user_desc d;

		choose(&d, i);
		shown[i] = !syscall(SYS_modify_ldt, 0x11, &d, sizeof(d));
		ldt[i] = shown[i] ? descriptor(&d) : 0;
		n += shown[i];
	}
	return shown[ENTRIES - 1] && n > ENTRIES / 2; /* the last one decides the limit */
}

static struct answer of_cpu(unsigned int insn, uint64_t sel)
{
	uint64_t dst = BEFORE;
	uint8_t zf = 0;

#define R "%%"
#define INSN_ASK(number, name, text)                                                               \
	if (insn == number)                                                                        \
		__asm__ volatile("test %%rsp, %%rsp\n" text "\nsetz %1"                            \
				 : "+a"(dst), "=&r"(zf)                                            \
				 : "c"(sel)                                                        \
				 : "cc");
	INSN_LIST(INSN_ASK)
#undef R
	return (struct answer){dst, zf};
}

#define R			      "%"
#define INSN_TEXT(number, name, text) text "\n.balign 8, 0x90\n"
BED_GUEST(guest_insns, INSN_LIST(INSN_TEXT));

static struct answer of_emu(struct bed *b, unsigned int insn, uint64_t sel)
{
	/* A budget of one ends it behind the instruction. */
	b->r = (struct kvm_regs){.rax = BEFORE,
				 .rcx = sel,
				 .rsp = BED_STACK,
				 .rip = BED_CODE + insn * 8,
				 .rflags = 2};
	o->set_regs(b->v, &b->r);
	cr_assert_eq(bed_run(b, 1), VMM_EXIT_BUDGET, "%s: %s", names[insn], b->run.u.error.msg);
	return (struct answer){b->r.rax, b->r.rflags & 0x40};
}

static bool is_intel(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(0, &a, &b, &c, &d) && b == 0x756e6547;
}

static void compare(struct bed *b, uint64_t sel)
{
	for (unsigned int i = 0; i < INSNS; i++) {
		struct answer cpu = of_cpu(i, sel), emulator = of_emu(b, i, sel);
		/* Bits 19:16 of LAR are undefined on Intel's CPUs (SDM vol. 2, LAR). */
		uint64_t mask = i <= LAR64 && cpu.zf && is_intel() ? ~0xf0000ULL : ~0ULL;

		cr_assert_eq(emulator.zf, cpu.zf, "%s of 0x%llx: ZF %d, the CPU has %d", names[i],
			     (unsigned long long)sel, emulator.zf, cpu.zf);
		cr_assert_eq(emulator.dst & mask, cpu.dst & mask, "%s of 0x%llx: 0x%llx and 0x%llx",
			     names[i], (unsigned long long)sel, (unsigned long long)emulator.dst,
			     (unsigned long long)cpu.dst);
	}
}

static const struct kvm_segment ldt_segment = {
	.base = LDT, .limit = ENTRIES * 8 - 1, .selector = 0x50, .type = 2, .present = 1};

Test(emu_descriptors, answers_are_those_of_the_cpu)
{
	unsigned int seen = 0;

	if (!set_ldt())
		cr_skip_test("a process may not have an LDT here");
	BED_START(&b, guest_insns, true);
	*bed_u64(&b, BED_GDT + 0x10) = GDT_KERNEL_CS;
	*bed_u64(&b, BED_GDT + 0x18) = GDT_KERNEL_DS;
	*bed_u64(&b, BED_GDT + 0x20) = GDT_USER32_CS;
	*bed_u64(&b, BED_GDT + 0x28) = GDT_USER_DS;
	*bed_u64(&b, BED_GDT + 0x30) = GDT_USER_CS;
	for (unsigned int i = 0; i < ENTRIES; i++)
		*bed_u64(&b, LDT + i * 8ULL) = ldt[i];
	BED_SREGS(&b, s.ldt = ldt_segment);
	for (uint64_t rpl = 0; rpl < 4; rpl++) {
		for (uint64_t i = 0; i < ENTRIES; i++)
			if (shown[i]) {
				compare(&b, i << 3 | 4 | rpl);
				seen++;
			}
		compare(&b, ENTRIES << 3 | 4 | rpl); /* beyond the LDT */
		compare(&b, 0xfffc | rpl);
		compare(&b, rpl); /* null */
		for (uint64_t sel = 0x10; sel <= 0x30; sel += 8)
			compare(&b, sel | rpl);
		compare(&b, 0xfff8 | rpl); /* beyond the GDT */
	}
	cr_assert_gt(seen, 4 * ENTRIES / 2);
	compare(&b, 0xffffffffffff0000 | 0x2b); /* only 16 bits are looked at */
}
