// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer target: 16- and 32-bit code of the emulator (vmm/emu/legacy*.c) in real mode,
 * protected mode and compatibility mode, with any segments, and on its way into 64-bit mode. The
 * input is the mode, registers, descriptors and code; the code can change all of them. Each input
 * runs three times: in one slice, in many, and in slices between which the vCPU's state is taken
 * out and put back.
 *
 * Must hold: no crash, no undefined behaviour, no leak; never more retired than the budget; the
 * tally holds the retired instructions; an error is one line; slicing and saving change nothing.
 *
 * A vCPU that is restored has no translations cached, so a guest that changes its page tables while
 * it uses them may go on in another way there, as on any CPU (docs/internals/emulator.md, "State").
 * What such a guest does is not compared.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fuzz_assert.h"
#include "tests/unit/emu_bed.h"
#include "vmm/emu/emu.h"

enum { WHOLE, SLICED, SAVED, MACHINES };

#define TABLES	     BED_PML4
#define TABLES_BYTES 0x5000u /* to the end of BED_PT */
#define CODE	     0x8000u
#define BUDGET	     400u
#define EXITS	     64u

struct __attribute__((packed)) header {
	uint8_t mode;  /* bits 1:0: real, protected, compatibility, 64-bit; 2: CS.D; 3: Intel */
	uint8_t slice; /* instructions in a slice */
	uint8_t types; /* of the data segments */
	uint8_t flags;
	uint16_t regs[8];
	uint16_t selectors[4];
	uint64_t descriptors[2]; /* selectors 38H and 40H */
};

struct machine {
	struct bed b;
	uint64_t retired;
	unsigned int exits;
	enum vmm_exit last;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	bool gave_up; /* it makes no progress, and its last place depends on cached translations */
	bool stale;   /* its course may depend on cached translations */
	uint8_t tables[TABLES_BYTES]; /* its page tables at the last stop */
};

static void cpuid(struct bed *b, bool intel)
{
	struct kvm_cpuid_entry2 e[3] = {
		{.function = 0, .eax = 7},
		{.function = 1, .eax = 0xa10f11, .edx = 1u << 24 | 1u << 25 | 1u << 26},
		{.function = 7, .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX, .edx = 1u << 26},
	};
	const char *name = intel ? "GenuineIntel" : "AuthenticAMD";

	memcpy(&e[0].ebx, name, 4);
	memcpy(&e[0].edx, name + 4, 4);
	memcpy(&e[0].ecx, name + 8, 4);
	cr_assert_eq(vmm_emu_ops.set_cpuid(b->v, e, 3), 0);
}

static void set_mode(struct bed *b, const struct header *h)
{
	unsigned int mode = h->mode & 3;
	struct kvm_segment *seg[6];
	struct kvm_sregs s;

	vmm_emu_ops.get_sregs(b->v, &s);
	seg[0] = &s.ds, seg[1] = &s.es, seg[2] = &s.ss, seg[3] = &s.fs, seg[4] = &s.gs;
	seg[5] = &s.cs;
	for (unsigned int i = 0; i < 6; i++) {
		*seg[i] = (struct kvm_segment){.limit = mode ? 0xffffffff : 0xffff,
					       .type = 3,
					       .present = 1,
					       .s = 1,
					       .db = mode != 0,
					       .g = mode != 0,
					       .selector = h->selectors[i & 3]};
		if (!mode)
			seg[i]->base = (uint64_t)h->selectors[i & 3] << 4;
		else if (i < 5 && h->types >> i & 1)
			seg[i]->limit = (h->flags * 256u) + 0xff;
	}
	s.es.unusable = h->types >> 5 & 1;
	s.fs.type = h->types >> 6 & 1 ? 1 : 3;
	s.gs.type = h->types >> 7 & 1 ? 7 : 3;
	s.cs.type = 11;
	s.cs.selector = mode ? BED_CS0 : CODE >> 4;
	s.cs.base = mode ? 0 : CODE;
	s.cs.db = mode && h->mode & 4;
	s.cs.l = mode == 3;
	if (mode == 3)
		s.cs.db = 0;
	s.cr0 = mode < 2 ? 0x10 | mode : 0x80000011;
	s.cr3 = BED_PML4;
	s.cr4 = mode < 2 ? 0 : 0x20;
	s.efer = mode < 2 ? 0 : 0x500;
	s.gdt = (struct kvm_dtable){.base = BED_GDT, .limit = 0x47};
	s.idt = (struct kvm_dtable){.base = BED_IDT, .limit = 0xfff};
	cr_assert_eq(vmm_emu_ops.set_sregs(b->v, &s), 0);
}

static void build(struct machine *m, const struct header *h, const uint8_t *code, size_t n)
{
	struct bed *b = &m->b;

	memset(m, 0, sizeof(*m));
	bed_init(b);
	*bed_u64(b, BED_GDT + 0x18) = 0x00cf9b000000ffff; /* 32-bit code */
	*bed_u64(b, BED_GDT + 0x38) = h->descriptors[0];
	*bed_u64(b, BED_GDT + 0x40) = h->descriptors[1];
	((struct emu_vm *)b->vm)->born_ns = 0; /* the guest can read it */
	cr_assert_eq(vmm_emu_ops.vcpu_create(b->vm, 0, &b->v), 0);
	vmm_emu_ops.set_tally(b->v, &b->t);
	cpuid(b, h->mode & 8);
	memcpy(b->ram + CODE, code, n);
	set_mode(b, h);
	b->r = (struct kvm_regs){
		.rip = h->mode & 3 ? CODE : 0,
		.rax = h->regs[0],
		.rcx = h->regs[1],
		.rdx = h->regs[2],
		.rbx = h->regs[3] | 0x300000u * !!(h->mode & 3),
		.rsp = h->regs[4],
		.rbp = h->regs[5],
		.rsi = h->regs[6] * (h->mode & 16 ? 0x10001ull : 1),
		.rdi = h->regs[7] * (h->mode & 32 ? 0x10001ull : 1),
		.rflags = 2 | (h->flags & 0xd5),
	};
	vmm_emu_ops.set_regs(b->v, &b->r);
}

static void save_and_load(struct bed *b)
{
	uint8_t buf[4096], again[4096];
	size_t n = sizeof(buf), k = sizeof(again);
	struct kvm_sregs s;
	struct kvm_regs r;

	vmm_emu_ops.get_sregs(b->v, &s);
	vmm_emu_ops.get_regs(b->v, &r);
	cr_assert_eq(vmm_emu_ops.get_state(b->v, buf, &n), 0);
	cr_assert_eq(vmm_emu_ops.set_sregs(b->v, &s), 0);
	cr_assert_eq(vmm_emu_ops.set_regs(b->v, &r), 0);
	cr_assert_eq(vmm_emu_ops.set_state(b->v, buf, n), 0, "a state is not taken back");
	cr_assert_eq(vmm_emu_ops.get_state(b->v, again, &k), 0);
	cr_assert(n == k && !memcmp(buf, again, n), "a state changed on its way");
}

/*
 * True if the guest has, or may have, changed page tables in use since the last stop: it may
 * set A and D bits, as the CPU does. Page tables elsewhere are not looked at.
 */
static void look_at_tables(struct machine *m)
{
	const uint64_t ad = BED_A | BED_D;
	struct kvm_sregs s;

	vmm_emu_ops.get_sregs(m->b.v, &s);
	if (s.cr0 >> 31 & 1) {
		m->stale |= (s.cr3 & ~0xfffULL) != BED_PML4;
		for (unsigned int i = 0; i < TABLES_BYTES; i += 8) {
			uint64_t now = *bed_u64(&m->b, TABLES + i), old;

			memcpy(&old, m->tables + i, 8);
			m->stale |= ((now ^ old) & ~ad) || (old & ~now);
		}
	}
	memcpy(m->tables, m->b.ram + TABLES, TABLES_BYTES);
}

/* Run until BUDGET instructions or something that ends it. */
static void execute(struct machine *m, unsigned int slice, bool saves)
{
	struct vmm_run *run = &m->b.run;
	unsigned int idle = 0;

	memcpy(m->tables, m->b.ram + TABLES, TABLES_BYTES);
	while (m->retired < BUDGET && m->exits < EXITS) {
		run->budget = slice && slice < BUDGET - m->retired ? slice : BUDGET - m->retired;
		cr_assert_eq(vmm_emu_ops.run(m->b.v, run), 0);
		cr_assert_leq(run->retired, run->budget);
		m->retired += run->retired;
		m->last = run->exit;
		look_at_tables(m);
		switch (run->exit) {
		case VMM_EXIT_BUDGET:
			cr_assert_eq(run->retired, run->budget);
			break;
		case VMM_EXIT_INTR:
			if (idle++ > 20) {
				m->gave_up = true;
				return;
			}
			break;
		case VMM_EXIT_IO:
			m->exits++;
			run->u.io.data = 0x12345678;
			break;
		case VMM_EXIT_RDMSR:
		case VMM_EXIT_WRMSR:
			m->exits++;
			run->u.msr.data = 0x1122334455667788;
			run->u.msr.fault = run->u.msr.index & 1;
			break;
		case VMM_EXIT_RDPMC:
			m->exits++;
			run->u.pmc.fault = true;
			break;
		case VMM_EXIT_ERROR:
			cr_assert(run->u.error.msg[0] && !strchr(run->u.error.msg, '\n'));
			return;
		default:
			return;
		}
		if (saves && run->exit == VMM_EXIT_BUDGET)
			save_and_load(&m->b);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Both memories hold the same. Pages that neither has touched are not read: that would make them.
 */
static bool same_ram(const struct bed *a, const struct bed *b)
{
	static unsigned char in[2][BED_RAM / 4096];

	if (mincore(a->ram, BED_RAM, in[0]) || mincore(b->ram, BED_RAM, in[1]))
		return !memcmp(a->ram, b->ram, BED_RAM);
	for (size_t i = 0; i < BED_RAM / 4096; i++)
		if (((in[0][i] | in[1][i]) & 1) &&
		    memcmp(a->ram + i * 4096, b->ram + i * 4096, 4096))
			return false;
	return true;
}

/* Both have executed the same. */
static void compare(const struct machine *a, const struct machine *b)
{
	if (a->gave_up || b->gave_up || a->stale || b->stale)
		return;
	cr_assert_eq(a->retired, b->retired, "%lu and %lu retired", a->retired, b->retired);
	cr_assert_eq(a->last, b->last, "exits %d and %d", a->last, b->last);
	cr_assert_eq(memcmp(&a->regs, &b->regs, sizeof(a->regs)), 0, "registers");
	cr_assert_eq(memcmp(&a->sregs, &b->sregs, sizeof(a->sregs)), 0, "segments");
	cr_assert(same_ram(&a->b, &b->b), "memory");
	cr_assert_eq(memcmp(a->b.t.ev, b->b.t.ev, sizeof(a->b.t.ev)), 0, "counts");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct machine m[MACHINES];
	struct header h;
	size_t n;

	if (size < sizeof(h) + 1)
		return -1;
	memcpy(&h, data, sizeof(h));
	n = size - sizeof(h);
	if (n > 0x2000)
		n = 0x2000;
	for (int i = 0; i < MACHINES; i++) {
		build(&m[i], &h, data + sizeof(h), n);
		execute(&m[i], i == WHOLE ? 0 : 1 + h.slice % 16, i == SAVED);
		vmm_emu_ops.get_regs(m[i].b.v, &m[i].regs);
		vmm_emu_ops.get_sregs(m[i].b.v, &m[i].sregs);
		cr_assert_eq(bed_total(&m[i].b.t, VPMU_EMU_INSTRUCTIONS), m[i].retired);
		cr_assert_leq(bed_total(&m[i].b.t, VPMU_EMU_BRANCHES_TAKEN),
			      bed_total(&m[i].b.t, VPMU_EMU_BRANCHES));
	}
	/* The machine in slices has been looked at most closely: it decides which parts are
	 * compared. */
	if (!m[SLICED].stale) {
		compare(&m[WHOLE], &m[SLICED]);
		compare(&m[SLICED], &m[SAVED]);
	}
	for (int i = 0; i < MACHINES; i++)
		bed_stop(&m[i].b);
	return 0;
}
