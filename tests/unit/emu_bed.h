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
#include "vmm/emu/emu.h"
#include "vmm/engine/engine.h"
#include "vmm/engine/simd.h"
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

#define BED_GUEST FLAT_GUEST

static const struct vmm_engine_ops *const o = &vmm_emu_ops;

/* The TSS has its 64-bit fields at odd multiples of 4. */
typedef uint64_t bed_word __attribute__((aligned(1), may_alias));

static inline bed_word *bed_u64(struct bed *b, uint64_t pa)
{
	return (bed_word *)(b->ram + pa);
}

static inline struct kvm_sregs bed_sregs(const struct bed *b)
{
	struct kvm_sregs s;

	o->get_sregs(b->v, &s);
	return s;
}

/* Make @change to the special registers s: BED_SREGS(&b, s.cr4 |= 8). */
#define BED_SREGS(b, change)                                                                       \
	do {                                                                                       \
		struct kvm_sregs s = bed_sregs(b);                                                 \
                                                                                                   \
		change;                                                                            \
		cr_assert_eq(o->set_sregs((b)->v, &s), 0);                                         \
	} while (0)

static inline void bed_set_mode(struct bed *b, struct vmm_engine_vcpu *v, bool user)
{
	struct kvm_sregs s;

	o->get_sregs(v, &s);
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
	cr_assert_eq(o->set_sregs(v, &s), 0);
}

/* 32-bit protected mode, without paging. */
static inline void bed_protected(struct bed *b, struct vmm_engine_vcpu *v)
{
	struct kvm_sregs s;

	bed_set_mode(b, v, false);
	o->get_sregs(v, &s);
	s.cr0 = 0x11;
	s.efer = 0;
	s.cs.l = 0;
	s.cs.db = 1;
	cr_assert_eq(o->set_sregs(v, &s), 0);
}

static inline void bed_gate(struct bed *b, unsigned int vec, uint64_t to, unsigned int ist,
			    unsigned int type_dpl)
{
	bed_word *g = bed_u64(b, BED_IDT + vec * 16);

	g[0] = (to & 0xffff) | (uint64_t)BED_CS0 << 16 | (uint64_t)ist << 32 |
	       (uint64_t)(type_dpl | 0x80) << 40 | (to & 0xffff0000) << 32;
	g[1] = to >> 32;
}

/* The registers of @r that are not 0 get its values, the others keep theirs. */
static inline void bed_regs(struct bed *b, const struct kvm_regs *r)
{
	const __u64 *from = &r->rax;
	__u64 *to = &b->r.rax;

	for (unsigned int i = 0; i < sizeof(*r) / sizeof(*from); i++)
		to[i] = from[i] ? from[i] : to[i];
	cr_assert_eq(o->set_regs(b->v, &b->r), 0);
}

#define BED_REGS(b, ...) bed_regs(b, &(struct kvm_regs){__VA_ARGS__})

static inline void bed_put(struct bed *b, uint64_t at, const uint8_t *code, const uint8_t *end)
{
	memcpy(b->ram + at, code, (size_t)(end - code));
}

#define BED_PUT(b, at, code) bed_put(b, at, code, code##_end)

/* Code at BED_CODE, registers zero but RIP, RSP, RDI = BED_DATA. */
static inline void bed_load(struct bed *b, const uint8_t *code, const uint8_t *end, bool user)
{
	bed_put(b, BED_CODE, code, end);
	bed_set_mode(b, b->v, user);
	memset(&b->r, 0, sizeof(b->r));
	BED_REGS(b, .rip = BED_CODE, .rsp = BED_STACK, .rdi = BED_DATA, .rflags = 2);
}

/* @vendor: as in CPUID leaf 0, which is @e. */
static inline void bed_vendor(struct kvm_cpuid_entry2 *e, const char *vendor)
{
	memcpy(&e->ebx, vendor, 4);
	memcpy(&e->edx, vendor + 4, 4);
	memcpy(&e->ecx, vendor + 8, 4);
}

/* Make the vCPU one of Intel's, if @intel; without this it is one of AMD's. */
static inline void bed_intel(struct bed *b, bool intel)
{
	struct kvm_cpuid_entry2 leaf0 = {.function = 0};

	bed_vendor(&leaf0, "GenuineIntel");
	if (intel)
		cr_assert_eq(o->set_cpuid(b->v, &leaf0, 1), 0);
}

/* Leaf 1 shows FXSR: a whole CPU. */
static inline void bed_whole(struct vmm_engine_vcpu *v, bool intel)
{
	struct kvm_cpuid_entry2 e[3] = {
		{.function = 0, .eax = 7},
		{.function = 1,
		 .eax = 0xa10f11,
		 .edx = 1u << 12 | 1u << 14 | 1u << 24 | 1u << 25 | 1u << 26},
		{.function = 7,
		 .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
		 .edx = 1u << 26 | 1u << 29},
	};

	bed_vendor(&e[0], intel ? "GenuineIntel" : "AuthenticAMD");
	cr_assert_eq(o->set_cpuid(v, e, 3), 0);
}

/* bed_show - the table of a whole CPU of Intel's with @simd (VMM_SIMD_*). */
static inline void bed_show(struct kvm_cpuid_entry2 e[4], uint32_t simd)
{
	const struct vmm_simd_cpuid shown = vmm_simd_cpuid(simd);

	memset(e, 0, 4 * sizeof(*e));
	bed_vendor(&e[0], "GenuineIntel");
	e[0].eax = 0xd;
	e[1] = (struct kvm_cpuid_entry2){.function = 1, .ecx = shown.ecx_1, .edx = 1u << 24};
	e[2] = (struct kvm_cpuid_entry2){.function = 7, .ebx = shown.ebx_7, .ecx = shown.ecx_7};
	e[3] = (struct kvm_cpuid_entry2){.function = 7, .index = 1, .eax = shown.eax_7_1};
	e[2].flags = e[3].flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
}

/* Without its vCPUs. */
static inline void bed_stop_vm(struct bed *b)
{
	o->vm_destroy(b->vm);
	o->close(b->e);
	munmap(b->ram, BED_RAM);
	b->e = NULL;
}

static inline void bed_stop(struct bed *b)
{
	o->vcpu_destroy(b->v);
	bed_stop_vm(b);
}

/* The bed of the test that runs: it ends when it is started again, and in the suite's .fini. */
static __attribute__((unused)) struct bed b;

static inline struct emu_vcpu *vcpu(void)
{
	return (struct emu_vcpu *)b.v;
}

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
	cr_assert_eq(o->open(&to->e, why, sizeof(why)), 0);
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
	cr_assert_eq(
		o->vm_create(to->e,
			     &(struct vmm_ram){.base = to->ram, .nr = 1, .slot[0].bytes = BED_RAM},
			     &to->vm),
		0);
}

/* One VM with one vCPU and @code. */
static inline void bed_start(struct bed *b, const uint8_t *code, const uint8_t *end, bool user)
{
	bed_init(b);
	cr_assert_eq(o->vcpu_create(b->vm, 0, &b->v), 0);
	o->set_tally(b->v, &b->t);
	bed_load(b, code, end, user);
}

/* Run with @budget; returns the exit and leaves the registers in b->r. */
static inline enum vmm_exit bed_run(struct bed *b, uint64_t budget)
{
	b->run.budget = budget;
	cr_assert_eq(o->run(b->v, &b->run), 0);
	o->get_regs(b->v, &b->r);
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

/* An interrupt, or NMI, arrives. */
static inline void bed_arrives(struct bed *b, uint8_t vector)
{
	cr_assert_eq(vector == 2 ? o->nmi(b->v) : o->interrupt(b->v, vector), 0);
}

/* The interrupt frame at RSP: [0] error code or RIP ... */
static inline uint64_t bed_stack(struct bed *b, unsigned int i)
{
	return *bed_u64(b, b->r.rsp + i * 8);
}

/* Start @code in a new VM with BED_REGS() of the rest, and run to a HLT: the vector. BED_RERUN: in
 * the same VM. */
#define BED_VECTOR(b, code, user, ...)                                                             \
	(BED_START(b, code, user), BED_REGS(b, __VA_ARGS__), bed_run_to_hlt(b))
#define BED_RERUN(b, code, user, ...)                                                              \
	(bed_load(b, code, code##_end, user), BED_REGS(b, __VA_ARGS__), bed_run_to_hlt(b))

#define BED_STR_(x) #x
#define BED_STR(x)  BED_STR_(x)
#define BED_LINE    "line " BED_STR(__LINE__)

/* The next HLT is in the handler of @vec, with @error (-1: none) and @rip in its frame. */
#define BED_FAULTS(b, vec, error, rip) bed_faults(b, vec, error, rip, BED_LINE)
static inline void bed_faults(struct bed *b, int vec, int64_t error, uint64_t rip,
			      const char *where)
{
	int got = bed_run_to_hlt(b);
	unsigned int e = error >= 0;

	cr_assert_eq(got, vec, "%s: vector %d", where, got);
	if (e)
		cr_assert_eq(bed_stack(b, 0), (uint64_t)error, "%s: error 0x%lx", where,
			     bed_stack(b, 0));
	cr_assert_eq(bed_stack(b, e), rip, "%s: rip 0x%lx", where, bed_stack(b, e));
}

/* run() with @budget ends by @exit at @rip, after @retired instructions. */
#define BED_STOPS(b, budget, exit, retired, rip) bed_stops(b, budget, exit, retired, rip, __LINE__)
static inline void bed_stops(struct bed *b, uint64_t budget, enum vmm_exit exit, uint64_t retired,
			     uint64_t rip, int line)
{
	enum vmm_exit x = bed_run(b, budget);

	cr_assert_eq(x, exit, "line %d: exit %d", line, x);
	cr_assert_eq(b->run.retired, retired, "line %d: %lu retired", line, b->run.retired);
	cr_assert_eq(b->r.rip, rip, "line %d: rip 0x%llx", line, b->r.rip);
}

/* bed_state - the state of the vCPU, in bytes; @buf has BED_STATE. */
#define BED_STATE 8192
static inline size_t bed_state(const struct bed *b, uint8_t *buf)
{
	size_t n = BED_STATE;

	cr_assert_eq(o->get_state(b->v, buf, &n), 0);
	return n;
}

/* The vCPU of @to gets the registers and the state of @from's. */
static inline void bed_copy(const struct bed *from, struct bed *to)
{
	struct kvm_sregs s = bed_sregs(from);
	uint8_t state[BED_STATE];
	size_t n = bed_state(from, state);

	o->get_regs(from->v, &to->r);
	cr_assert_eq(o->set_sregs(to->v, &s), 0);
	cr_assert_eq(o->set_regs(to->v, &to->r), 0);
	cr_assert_eq(o->set_state(to->v, state, n), 0);
}

/* A copy of @from in a VM of its own: memory, registers and state. */
static inline void bed_move(const struct bed *from, struct bed *to)
{
	bed_init(to);
	memcpy(to->ram, from->ram, BED_RAM);
	cr_assert_eq(o->vcpu_create(to->vm, 0, &to->v), 0);
	o->set_tally(to->v, &to->t);
	bed_copy(from, to);
}

static inline uint64_t bed_total(const struct vpmu_emu_tally *t, enum vpmu_emu_event ev)
{
	return t->ev[VPMU_EMU_OS][ev] + t->ev[VPMU_EMU_USR][ev];
}

#define BED_START(b, code, user) bed_start(b, code, code##_end, user)

#endif
