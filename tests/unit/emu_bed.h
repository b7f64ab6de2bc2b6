/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An emulator VM for unit tests: 4 MiB of RAM, flat 64-bit mode, a GDT, an IDT whose every vector
 * leads to a HLT of its own, a TSS, an identity map of large user pages, and a window of 4 KiB
 * pages at BED_WIN. Guest code is assembled into the test itself, between two labels.
 */
#ifndef TESTS_UNIT_EMU_BED_H
#define TESTS_UNIT_EMU_BED_H

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/emu/flat.h"
#include "vmm/engine/engine.h"
#include "vpmu/emupmu.h"

#define BED_RAM	     (4ULL << 20)
#define BED_PML4     0x10000ULL
#define BED_PDPT     0x11000ULL
#define BED_PD	     0x12000ULL
#define BED_PD2	     0x13000ULL
#define BED_PT	     0x14000ULL
#define BED_HANDLERS 0x3000ULL /* 256 times HLT */
#define BED_TSS	     0x4000ULL
#define BED_IDT	     0x5000ULL
#define BED_GDT	     0x6000ULL
#define BED_STACK0   0x80000ULL /* RSP0 */
#define BED_STACK    0x90000ULL /* where RSP begins */
#define BED_IST1     0xa0000ULL
#define BED_CODE     0x200000ULL
#define BED_DATA     0x300000ULL
#define BED_WIN	     0x40000000ULL /* 512 pages of 4 KiB, entries at BED_PT */
#define BED_CS0	     0x08
#define BED_SS0	     0x10
#define BED_SS3	     0x23
#define BED_CS3	     0x2b
#define BED_TR	     0x30

#define BED_P  1ULL
#define BED_W  2ULL
#define BED_U  4ULL
#define BED_A  0x20ULL
#define BED_D  0x40ULL
#define BED_PS 0x80ULL
#define BED_NX (1ULL << 63)

struct bed {
	struct vmm_engine *e;
	struct vmm_engine_vm *vm;
	struct vmm_engine_vcpu *v;
	uint8_t *ram;
	struct vpmu_emu_tally t;
	struct vmm_run run;
	struct kvm_regs r;
};

/* Guest code: BED_GUEST(name, "asm") makes name and name_end. */
#define BED_GUEST(name, ...)                                                                       \
	extern const uint8_t name[], name##_end[];                                                 \
	__asm__(".pushsection .rodata\n.balign 16\n.globl " #name "\n" #name ":\n" __VA_ARGS__     \
		"\n.globl " #name "_end\n" #name "_end:\n.popsection\n")

/* The TSS has its 64-bit fields at odd multiples of 4. */
typedef uint64_t bed_word __attribute__((aligned(1), may_alias));

static inline bed_word *bed_u64(struct bed *b, uint64_t pa)
{
	return (bed_word *)(b->ram + pa);
}

static inline void bed_set_mode(struct bed *b, struct vmm_engine_vcpu *v, bool user)
{
	struct kvm_sregs s;

	vmm_emu_ops.get_sregs(v, &s);
	s.cr0 = 0x80010033; /* PG WP NE ET MP PE */
	s.cr3 = BED_PML4;
	s.cr4 = 0x20;
	s.efer = 0xd01; /* SCE LME LMA NXE */
	s.cs = flat_segment(user ? BED_CS3 : BED_CS0, true);
	s.ss = s.ds = s.es = flat_segment(user ? BED_SS3 : BED_SS0, false);
	s.gdt.base = BED_GDT;
	s.gdt.limit = 0x3f;
	s.idt.base = BED_IDT;
	s.idt.limit = 0xfff;
	s.tr = (struct kvm_segment){
		.base = BED_TSS, .limit = 0x67, .selector = BED_TR, .type = 0xb, .present = 1};
	cr_assert_eq(vmm_emu_ops.set_sregs(v, &s), 0);
}

static inline void bed_gate(struct bed *b, unsigned int vec, uint64_t to, unsigned int ist,
			    unsigned int type_dpl)
{
	bed_word *g = bed_u64(b, BED_IDT + vec * 16);

	g[0] = (to & 0xffff) | (uint64_t)BED_CS0 << 16 | (uint64_t)ist << 32 |
	       (uint64_t)(type_dpl | 0x80) << 40 | (to & 0xffff0000) << 32;
	g[1] = to >> 32;
}

/* Code at BED_CODE, registers zero but RIP, RSP, RDI = BED_DATA. */
static inline void bed_load(struct bed *b, const uint8_t *code, const uint8_t *end, bool user)
{
	memcpy(b->ram + BED_CODE, code, (size_t)(end - code));
	bed_set_mode(b, b->v, user);
	memset(&b->r, 0, sizeof(b->r));
	b->r.rip = BED_CODE;
	b->r.rsp = BED_STACK;
	b->r.rdi = BED_DATA;
	b->r.rflags = 2;
	vmm_emu_ops.set_regs(b->v, &b->r);
}

/* Make the vCPU one of Intel's; without this it is one of AMD's. */
static inline void bed_intel(struct bed *b)
{
	struct kvm_cpuid_entry2 leaf0 = {
		.ebx = 0x756e6547, .edx = 0x49656e69, .ecx = 0x6c65746e}; /* GenuineIntel */

	cr_assert_eq(vmm_emu_ops.set_cpuid(b->v, &leaf0, 1), 0);
}

static inline void bed_stop(struct bed *b)
{
	vmm_emu_ops.vcpu_destroy(b->v);
	vmm_emu_ops.vm_destroy(b->vm);
	vmm_emu_ops.close(b->e);
	munmap(b->ram, BED_RAM);
	b->e = NULL;
}

/* The bed of the test that runs: it ends when it is started again, and in the suite's .fini. */
static __attribute__((unused)) struct bed b;

static inline void bed_end(void)
{
	if (b.e)
		bed_stop(&b);
}

static inline void bed_init(struct bed *to)
{
	char why[128];

	if (to == &b)
		bed_end();
	memset(to, 0, sizeof(*to));
	cr_assert_eq(vmm_emu_ops.open(&to->e, why, sizeof(why)), 0);
	to->ram = mmap(NULL, BED_RAM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(to->ram != MAP_FAILED);
	*bed_u64(to, BED_PML4) = BED_PDPT | 7;
	*bed_u64(to, BED_PDPT) = BED_PD | 7;
	*bed_u64(to, BED_PDPT + 8) = BED_PD2 | 7;
	for (uint64_t i = 0; i < BED_RAM >> 21; i++)
		*bed_u64(to, BED_PD + i * 8) = i << 21 | BED_PS | 7;
	*bed_u64(to, BED_PD2) = BED_PT | 7;
	*bed_u64(to, BED_GDT + 8) = 0x00af9b000000ffff;
	*bed_u64(to, BED_GDT + 0x10) = 0x00cf93000000ffff;
	*bed_u64(to, BED_GDT + 0x20) = 0x00cff3000000ffff;
	*bed_u64(to, BED_GDT + 0x28) = 0x00affb000000ffff;
	*bed_u64(to, BED_GDT + 0x30) = 0x0000890000000067 | (BED_TSS & 0xffffff) << 16;
	*bed_u64(to, BED_TSS + 4) = BED_STACK0;
	*bed_u64(to, BED_TSS + 0x24) = BED_IST1;
	*(uint16_t *)(to->ram + BED_TSS + 0x66) = 0x68;
	memset(to->ram + BED_HANDLERS, 0xf4, 256);
	for (unsigned int i = 0; i < 256; i++)
		bed_gate(to, i, BED_HANDLERS + i, 0, 0xe);
	cr_assert_eq(vmm_emu_ops.vm_create(
			     to->e,
			     &(struct vmm_ram){.base = to->ram, .nr = 1, .slot[0].bytes = BED_RAM},
			     &to->vm),
		     0);
}

/* One VM with one vCPU and @code. */
static inline void bed_start(struct bed *b, const uint8_t *code, const uint8_t *end, bool user)
{
	bed_init(b);
	cr_assert_eq(vmm_emu_ops.vcpu_create(b->vm, 0, &b->v), 0);
	vmm_emu_ops.set_tally(b->v, &b->t);
	bed_load(b, code, end, user);
}

/* Run with @budget; returns the exit and leaves the registers in b->r. */
static inline enum vmm_exit bed_run(struct bed *b, uint64_t budget)
{
	b->run.budget = budget;
	cr_assert_eq(vmm_emu_ops.run(b->v, &b->run), 0);
	vmm_emu_ops.get_regs(b->v, &b->r);
	return b->run.exit;
}

/* Run until a HLT, and return the vector of its handler (-1: none). */
static inline int bed_run_to_hlt(struct bed *b)
{
	enum vmm_exit x = bed_run(b, 10000000);

	cr_assert_eq(x, VMM_EXIT_HLT, "exit %d%s%s, rip 0x%llx", x, x == VMM_EXIT_ERROR ? ": " : "",
		     x == VMM_EXIT_ERROR ? b->run.u.error.msg : "", b->r.rip);
	if (b->r.rip > BED_HANDLERS && b->r.rip <= BED_HANDLERS + 256)
		return (int)(b->r.rip - BED_HANDLERS - 1);
	return -1;
}

/* The interrupt frame at RSP: [0] error code or RIP ... */
static inline uint64_t bed_stack(struct bed *b, unsigned int i)
{
	return *bed_u64(b, b->r.rsp + i * 8);
}

static inline uint64_t bed_total(const struct vpmu_emu_tally *t, enum vpmu_emu_event ev)
{
	return t->ev[VPMU_EMU_OS][ev] + t->ev[VPMU_EMU_USR][ev];
}

#define BED_START(b, code, user) bed_start(b, code, code##_end, user)

#endif
