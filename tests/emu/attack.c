// SPDX-License-Identifier: GPL-2.0-or-later
/* The guests of attack.h: page tables, descriptors and code. */
#include <string.h>

#include "tests/emu/attack.h"
#include "tests/emu/flat.h"
#include "vmm/emu/svm/vmcb.h"

#define PML4	 0x10000ULL
#define PDPT	 0x11000ULL
#define PD	 0x12000ULL
#define PD2	 0x13000ULL
#define PT	 0x14000ULL
#define HANDLERS 0x3000ULL /* 16 bytes per vector */
#define TSS	 0x4000ULL
#define IDT	 0x5000ULL
#define GDT	 0x6000ULL
#define STACK0	 0x80000ULL
#define STACK	 0x90000ULL
#define IST1	 0xa0000ULL
#define VMCB_AT	 0xb0000ULL
#define NPT	 0xb1000ULL /* three tables */
#define CODE	 ATTACK_CODE
#define DATA	 0x300000ULL
#define FIELD	 0x400000ULL   /* 1 MiB of short jumps, and the targets of JUMPS */
#define PAGES	 0x600000ULL   /* the window's mappings */
#define CHAIN	 0x800000ULL   /* 8 MiB of pointers to pointers */
#define WINDOW	 0x40000000ULL /* 511 pages of 4 KiB; the last one is not mapped */

#define GUEST FLAT_GUEST

enum { /* attack.special */
       NOTHING,
       STEPS,	 /* single steps: TF, and a #DB handler that returns */
       FAULTS,	 /* #PF and #UD handlers skip two bytes; INT 80H returns */
       NO_FETCH, /* the #PF handler cannot be fetched */
       SYSCALLS,
       DF,	     /* RFLAGS.DF */
       FIELDS,	     /* FIELD is full of short jumps */
       JUMPS,	     /* DATA is a table of 2,000 places in FIELD */
       CHASE,	     /* CHAIN is filled */
       WORLDS,	     /* RAX has a VMCB of a guest at FIELD */
       WORLDS_TOUCH, /* it touches pages, and each VMRUN flushes its translations */
       WORLDS_FLUSH, /* each VMRUN flushes */
       WORLDS_NPT,   /* WORLDS_TOUCH with nested page tables */
       WORLDS_FILL,  /* it has filled its TLB with pages that it stores to */
       WORLDS_INSIDE /* its code is in the page of the VMCB */
};

/* clang-format off */
/* The same with all counters, each of another event; then what looks at all of them. */
#define SELECT(n, event) "mov $0x186+" #n ",%ecx\n mov $" #event ",%eax\n wrmsr\n"
#define ALL_COUNTERS                                                                               \
	"xor %edx,%edx\n mov $0x38d,%ecx\n mov $0x333,%eax\n wrmsr\n"                             \
	SELECT(0, 0x4100c0) SELECT(1, 0x4200c0) SELECT(2, 0x4300c4) SELECT(3, 0x4320c4)            \
	SELECT(4, 0x4381d0) SELECT(5, 0x4382d0) SELECT(6, 0x4100c4) SELECT(7, 0x41003c)            \
	"mov $0x38f,%ecx\n mov $0xff,%eax\n mov $7,%edx\n wrmsr\n"
GUEST(att_vmmcall, "vmmcall");
GUEST(att_fill, "1: mov %ecx,(%rsi)\n add $4096,%rsi\n add $1,%cl\n jnz 1b\n vmmcall");
GUEST(att_touch, ".set i,0\n .rept 32\n mov i*4096(%rsi),%ecx\n .set i,i+1\n .endr\n vmmcall");

GUEST(att_skip2, "add $8,%rsp\n addq $2,(%rsp)\n iretq");
GUEST(att_skip2_ud, "addq $2,(%rsp)\n iretq");
GUEST(att_iretq, "iretq");
GUEST(att_sysretq, "sysretq");
/* x87 and SSE. SSE1 makes them legal, and leaves OSXMMEXCPT off: #XM is #UD then. */
#define SSE1 "mov %cr4,%rax\n or $0x200,%eax\n mov %rax,%cr4\n fninit\n"
#define TINY "movl $1,(%rdi)\n movl $0,4(%rdi)\n movl $1,8(%rdi)\n movl $1,12(%rdi)\n movups (%rdi),%xmm1\n"
#define MXCSR(x) "movl $" #x ",32(%rdi)\n ldmxcsr 32(%rdi)\n"
/* clang-format on */

#define X(name, code, effort, special, ...) GUEST(code, __VA_ARGS__);
#define SAME(...)
#include "tests/emu/attack_list.h"
#undef X
#undef SAME

#define X(name, code, effort, special, ...)                                                        \
	{name, code, code##_end, effort, (special) == CHASE, special},
#define SAME(...) X(__VA_ARGS__, )
const struct attack attacks[] = {
#include "tests/emu/attack_list.h"
};
const size_t nr_attacks = sizeof(attacks) / sizeof(attacks[0]);

static void put(uint8_t *ram, uint64_t at, uint64_t x)
{
	memcpy(ram + at, &x, sizeof(x));
}

static void gate(uint8_t *ram, unsigned int vec, uint64_t to, unsigned int ist, unsigned int dpl)
{
	put(ram, IDT + vec * 16,
	    (to & 0xffff) | 0x08ULL << 16 | (uint64_t)ist << 32 |
		    (uint64_t)(0x8e | dpl << 5) << 40 | (to & 0xffff0000) << 32);
	put(ram, IDT + vec * 16 + 8, to >> 32);
}

static void handler(uint8_t *ram, unsigned int vec, const uint8_t *code, const uint8_t *end)
{
	memcpy(ram + HANDLERS + vec % 32 * 16, code, (size_t)(end - code));
	gate(ram, vec, HANDLERS + vec % 32 * 16, 0, 3);
}

static void tables(uint8_t *ram)
{
	put(ram, PML4, PDPT | 7);
	put(ram, PDPT, PD | 7);
	put(ram, PDPT + 8, PD2 | 7);
	for (uint64_t i = 0; i < ATTACK_RAM >> 21; i++)
		put(ram, PD + i * 8, i << 21 | 0x80 | 7);
	put(ram, PD2, PT | 7);
	for (uint64_t i = 0; i < 511; i++)
		put(ram, PT + i * 8, (PAGES + i * 4096) | 7);
	put(ram, GDT + 8, 0x00af9b000000ffff);
	put(ram, GDT + 0x10, 0x00cf93000000ffff);
	put(ram, GDT + 0x20, 0x00cff3000000ffff);
	put(ram, GDT + 0x28, 0x00affb000000ffff);
	put(ram, GDT + 0x30, 0x0000890000000067 | TSS << 16);
	put(ram, TSS + 4, STACK0);
	put(ram, TSS + 0x24, IST1);
	for (unsigned int i = 0; i < 256; i++)
		gate(ram, i, HANDLERS, 0, 0);
	ram[HANDLERS] = 0xf4;
}

/* A guest of the guest, in its own mode and with its page tables. */
static void world(unsigned int special, uint8_t *ram)
{
	bool touch = special == WORLDS_TOUCH || special == WORLDS_NPT;
	bool flush = touch || special == WORLDS_FLUSH;
	uint64_t code = special == WORLDS_INSIDE ? VMCB_AT + 0x800 : FIELD;
	const struct vmcb_seg data = {.selector = 0x10, .attrib = 0xc93, .limit = ~0u};
	struct vmcb_control c = {
		.icpt = {0, 3}, /* VMRUN, VMMCALL */
		.asid = 1,
		.tlb_control = flush ? VMCB_FLUSH_ASID : VMCB_FLUSH_NONE,
		.nested_ctl = special == WORLDS_NPT ? VMCB_NP_ENABLE : 0,
		.ncr3 = NPT,
	};
	struct vmcb_save s = {
		.es = data,
		.cs = {.selector = 8, .attrib = 0xa9b, .limit = ~0u},
		.ss = data,
		.ds = data,
		.efer = 0x1d01,
		.cr4 = 0x20,
		.cr3 = PML4,
		.cr0 = 0x80010033,
		.rip = code,
		.rsp = STACK,
		.g_pat = 0x0007040600070406,
	};

	memcpy(ram + VMCB_AT, &c, sizeof(c));
	memcpy(ram + VMCB_AT + VMCB_SAVE, &s, sizeof(s));
	if (touch)
		memcpy(ram + code, att_touch, (size_t)(att_touch_end - att_touch));
	else if (special == WORLDS_FILL)
		memcpy(ram + code, att_fill, (size_t)(att_fill_end - att_fill));
	else
		memcpy(ram + code, att_vmmcall, (size_t)(att_vmmcall_end - att_vmmcall));
	put(ram, NPT, (NPT + 0x1000) | 7);
	put(ram, NPT + 0x1000, (NPT + 0x2000) | 7);
	for (uint64_t i = 0; i < ATTACK_RAM >> 21; i++)
		put(ram, NPT + 0x2000 + i * 8, i << 21 | 0x80 | 7);
}

static void prepare(const struct attack *a, uint8_t *ram)
{
	uint64_t at = 0;

	switch (a->special) {
	case STEPS:
		handler(ram, 1, att_iretq, att_iretq_end);
		gate(ram, 13, CODE, 1, 0);
		break;
	case FAULTS:
		handler(ram, 13, att_skip2, att_skip2_end);
		handler(ram, 14, att_skip2, att_skip2_end);
		handler(ram, 6, att_skip2_ud, att_skip2_ud_end);
		handler(ram, 0x80, att_iretq, att_iretq_end);
		break;
	case NO_FETCH:
		gate(ram, 14, WINDOW + 511 * 4096, 1, 0);
		break;
	case SYSCALLS:
		memcpy(ram + HANDLERS + 16, att_sysretq, (size_t)(att_sysretq_end - att_sysretq));
		break;
	case FIELDS:
		for (uint64_t i = 0; i < 64 << 10; i += 2)
			memcpy(ram + FIELD + i, "\xeb\x00", 2);
		memcpy(ram + FIELD + (64 << 10), "\xb8\x00\x00\x40\x00\xff\xe0", 7);
		break;
	case JUMPS:
		for (uint64_t i = 0; i < 2000; i++) {
			int32_t rel = (int32_t)(CODE - (FIELD + i * 64 + 5));

			put(ram, DATA + i * 8, FIELD + i * 64);
			ram[FIELD + i * 64] = 0xe9;
			memcpy(ram + FIELD + i * 64 + 1, &rel, 4);
		}
		break;
	case CHASE: /* every 64 bytes, far apart, in one cycle */
		for (uint64_t i = 0, n = (8 << 20) / 64; i < n; i++) {
			uint64_t next = (at + 40503) % n; /* odd: n is a power of two */

			put(ram, CHAIN + at * 64, CHAIN + next * 64);
			at = next;
		}
		break;
	case WORLDS ... WORLDS_INSIDE:
		world(a->special, ram);
		break;
	default:
		break;
	}
}

/* STAR and LSTAR, by the guest's own WRMSRs: no other way leads to them from outside. */
static const uint8_t set_syscall[] = {
	0xb9, 0x81, 0,	  0,	0xc0,	 /* mov $STAR, %ecx */
	0x31, 0xc0,			 /* xor %eax, %eax */
	0xba, 0x08, 0,	  0x18, 0,	 /* mov $0x180008, %edx */
	0x0f, 0x30,			 /* wrmsr */
	0xff, 0xc1,			 /* inc %ecx: LSTAR */
	0xb8, 0x10, 0x30, 0,	0,	 /* mov $HANDLERS + 16, %eax */
	0x31, 0xd2,			 /* xor %edx, %edx */
	0x0f, 0x30,			 /* wrmsr */
	0x44, 0x89, 0xc1,		 /* mov %r8d, %ecx: CODE */
	0x41, 0xbb, 2,	  0,	0,    0, /* mov $2, %r11d */
	0x48, 0x0f, 0x07,		 /* sysretq */
};

static const struct kvm_cpuid_entry2 svm_shown[] = {
	{.function = 0x80000000, .eax = 0x80000022},
	{.function = 0x80000001, .ecx = 1u << 2},
	{.function = 0x80000008, .eax = 40},
	{.function = 0x80000022, .eax = 7}, /* PerfMonV2: a world switch may change DebugCtl */
};

int attack_load(const struct attack *a, const struct vmm_engine_ops *ops, struct vmm_engine_vcpu *v,
		uint8_t *ram)
{
	struct kvm_regs r = {.rip = CODE,
			     .rsp = STACK,
			     .rdi = DATA,
			     .rsi = WINDOW,
			     .rbx = PAGES,
			     .r8 = CODE,
			     .rflags = a->code == att_step ? 0x102 : 2};
	struct kvm_sregs s;
	int ret;

	tables(ram);
	prepare(a, ram);
	memcpy(ram + CODE, a->code, (size_t)(a->end - a->code));
	if (a->special == SYSCALLS) {
		memcpy(ram + DATA, set_syscall, sizeof(set_syscall));
		r.rip = DATA;
	}
	if (a->special >= WORLDS) {
		ret = ops->set_cpuid(v, svm_shown, sizeof(svm_shown) / sizeof(svm_shown[0]));
		if (ret)
			return ret;
		r.rax = VMCB_AT;
	}
	ret = ops->get_sregs(v, &s);
	if (ret)
		return ret;
	s.cr0 = 0x80010033; /* PG WP NE ET MP PE */
	s.cr3 = PML4;
	s.cr4 = 0x120;	/* PCE PAE */
	s.efer = 0xd01; /* SCE LME LMA NXE */
	if (a->special >= WORLDS)
		s.efer |= 0x1000; /* SVME */
	s.cs = flat_segment(0x08, true);
	s.ss = s.ds = s.es = flat_segment(0x10, false);
	s.gdt.base = GDT;
	s.gdt.limit = 0x3f;
	s.idt.base = IDT;
	s.idt.limit = 0xfff;
	s.tr = (struct kvm_segment){
		.base = TSS, .limit = 0x67, .selector = 0x30, .type = 0xb, .present = 1};
	s.apic_base |= 3ULL << 10; /* x2APIC mode */
	ret = ops->set_sregs(v, &s);
	return ret ? ret : ops->set_regs(v, &r);
}
