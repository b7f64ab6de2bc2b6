// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The C part of the guest kernel: page tables, descriptor tables, faults and system calls of one
 * vCPU. start.S calls it. It does as little as possible, because on some hosts CPL0 is interpreted;
 * the tools run in CPL3. It must have no variables besides struct percpu, because all vCPUs share
 * the image (guest.lds checks this).
 */
#include "guest-tools/kernel.h"

#define MSR_EFER  0xc0000080u /* APM vol. 2, 3.1.7 */
#define MSR_STAR  0xc0000081u
#define MSR_LSTAR 0xc0000082u
#define MSR_FMASK 0xc0000084u
#define EFER_SCE  (1u << 0)
#define EFER_NXE  (1u << 11)
#define CR0_WP	  (1u << 16)

#define PTE_P  (1ull << 0) /* SDM vol. 3, 4.5 */
#define PTE_W  (1ull << 1)
#define PTE_U  (1ull << 2)
#define PTE_NX (1ull << 63)

_Static_assert(offsetof(struct percpu, user_rsp) == PERCPU_USER_RSP, "");
_Static_assert(offsetof(struct percpu, run_rip) == PERCPU_RUN_RIP, "");
_Static_assert(offsetof(struct percpu, run_msr) == PERCPU_RUN_MSR, "");
_Static_assert(offsetof(struct percpu, run_rsp) == PERCPU_RUN_RSP, "");
_Static_assert(offsetof(struct percpu, run_flags) == PERCPU_RUN_FLAGS, "");
_Static_assert(offsetof(struct percpu, run) == PERCPU_RUN, "");
_Static_assert(offsetof(struct percpu, run_nr) == PERCPU_RUN_NR, "");
_Static_assert(sizeof(struct percpu) <= GUEST_PAGE, "");
_Static_assert(offsetof(struct guest_run, fn) == RUN_FN, "");
_Static_assert(offsetof(struct guest_run, n) == RUN_N, "");
_Static_assert(offsetof(struct guest_run, mem) == RUN_MEM, "");
_Static_assert(offsetof(struct guest_run, mem_bytes) == RUN_BYTES, "");
_Static_assert(offsetof(struct guest_run, call) == RUN_CALL, "");
_Static_assert(offsetof(struct guest_run, enable) == RUN_ENABLE, "");
_Static_assert(offsetof(struct guest_run, msr) == RUN_MSR, "");
_Static_assert(offsetof(struct guest_run, fault) == RUN_FAULT, "");
_Static_assert(offsetof(struct guest_run, writes) == RUN_WRITES, "");
_Static_assert(offsetof(struct guest_run, nr_writes) == RUN_NR, "");
_Static_assert(offsetof(struct guest_write, msr) == WRITE_MSR, "");
_Static_assert(offsetof(struct guest_write, on) == WRITE_ON, "");
_Static_assert(offsetof(struct guest_write, off) == WRITE_OFF, "");
_Static_assert(sizeof(struct guest_write) == WRITE_BYTES, "");
_Static_assert(sizeof(struct guest_info) <= UINFO_PAGES * GUEST_PAGE, "");
_Static_assert(offsetof(struct vpmu_boot_info, mem_bytes) == 8, "start.S");
_Static_assert(offsetof(struct vpmu_boot_info, nr_vcpus) == 24, "start.S");
_Static_assert(VPMU_BOOT_MAGIC == 0x756d7076746f6f62ull, "start.S");
_Static_assert(VPMU_PORT_COM1 == 0x3f8 && VPMU_PORT_EXIT == 0xf4, "start.S");

struct ex_entry {
	uint64_t fault, fixup;
};

/* guest.lds */
extern char __ktext_start[], __krodata_start[], __utext_start[], __urodata_start[];
extern char __udata_start[], __image_end[];
extern const struct ex_entry __ex_table_start[], __ex_table_end[];
/* start.S */
extern char trap_stubs[], syscall_entry[];
/* called by start.S */
uint64_t kernel_map(uint64_t vcpu, const struct vpmu_boot_info *boot, uint64_t slab,
		    uint64_t bytes);
void kernel_init(void);
void kernel_trap(struct trap_frame *f);
int64_t kernel_syscall(uint64_t nr, uint64_t a, uint64_t b, uint64_t c);

static inline void outb(uint16_t port, uint8_t value)
{
	__asm__ volatile("outb %0, %1" : : "a"(value), "d"(port));
}

static inline void outl(uint16_t port, uint32_t value)
{
	__asm__ volatile("outl %0, %1" : : "a"(value), "d"(port));
}

static inline void kernel_cpuid(uint32_t leaf, uint32_t sub, uint32_t regs[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(regs[0]), "=b"(regs[1]), "=c"(regs[2]), "=d"(regs[3])
			 : "a"(leaf), "c"(sub));
}

static void copy_quads(void *to, const void *from, uint64_t quads)
{
	__asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(quads) : : "memory");
}

static void zero_pages(void *to, uint64_t pages)
{
	uint64_t quads = pages * (GUEST_PAGE / 8);

	__asm__ volatile("rep stosq" : "+D"(to), "+c"(quads) : "a"(0ull) : "memory");
}

/* ---- console and end --------------------------------------------------------------------- */

static void kernel_put(const char *s)
{
	/* The transmitter of this machine is always ready (abi.h); reading LSR would cost an exit.
	 */
	while (*s)
		outb(VPMU_PORT_COM1, (uint8_t)*s++);
}

static void put_dec(uint64_t v)
{
	char buf[21], *p = buf + 20;

	*p = 0;
	do {
		*--p = (char)('0' + v % 10);
	} while (v /= 10);
	kernel_put(p);
}

static void put_hex(uint64_t v)
{
	int shift = 60;

	kernel_put("0x");
	while (shift && !(v >> shift))
		shift -= 4;
	for (; shift >= 0; shift -= 4)
		outb(VPMU_PORT_COM1, (uint8_t) "0123456789abcdef"[(v >> shift) & 15]);
}

static void __attribute__((noreturn)) vcpu_exit(uint32_t status)
{
	outl(VPMU_PORT_EXIT, status);
	for (;;)
		__asm__ volatile("cli; hlt");
}

/* ---- page tables ------------------------------------------------------------------------- */

/* Switch no-execute on if it exists. This must be done before a page table uses it. */
static bool enable_nx(void)
{
	uint32_t r[4];

	kernel_cpuid(0x80000000u, 0, r);
	if (r[0] < 0x80000001u)
		return false;
	kernel_cpuid(0x80000001u, 0, r);
	if (!(r[3] & (1u << 20)))
		return false;
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_NXE);
	return true;
}

/* Map @pages pages from physical @phys at @va in the page table @pt. */
static void guest_tools_kernel_map(uint64_t *pt, uint64_t va, uint64_t phys, uint64_t pages,
				   uint64_t flags)
{
	uint64_t *pte = &pt[(va >> 12) & 511];

	for (; pages; pages--, phys += GUEST_PAGE)
		*pte++ = phys | flags | PTE_P;
}

static uint64_t pages_of(const char *from, const char *to)
{
	return (uint64_t)(to - from) / GUEST_PAGE;
}

/*
 * Build this vCPU's address space (layout.h) in its slab and return CR3. The loader's page tables,
 * where virtual = physical, are still in use. start.S has checked that the slab has SLAB_MIN_PAGES.
 */
uint64_t kernel_map(uint64_t vcpu, const struct vpmu_boot_info *boot, uint64_t slab, uint64_t bytes)
{
	uint64_t nx = enable_nx() ? PTE_NX : 0;
	uint64_t udata_pages = pages_of(__udata_start, __image_end);
	uint64_t next = SLAB_REST + udata_pages, pages = bytes / GUEST_PAGE, umem, tables;
	char *base = (char *)slab;
	uint64_t *pd = (uint64_t *)(base + SLAB_PD * GUEST_PAGE);
	uint64_t *img = (uint64_t *)(base + SLAB_PT_IMG * GUEST_PAGE);
	uint64_t *kcpu = (uint64_t *)(base + SLAB_PT_KCPU * GUEST_PAGE);
	uint64_t *user = (uint64_t *)(base + SLAB_PT_USER * GUEST_PAGE);
	struct percpu *cpu = (struct percpu *)base;
	struct guest_info *info = (struct guest_info *)(base + SLAB_UINFO * GUEST_PAGE);
	const char *args = (const char *)boot->args;
	const uint64_t dir = PTE_P | PTE_W | PTE_U;

	/* The rest is scratch memory and its page tables; a table maps 512 pages. */
	umem = pages - next;
	if (umem > UMEM_MAX_PAGES)
		umem = UMEM_MAX_PAGES;
	tables = (umem + 511) / 512;
	if (umem > pages - next - tables)
		umem = pages - next - tables;

	zero_pages(cpu, 1);
	zero_pages(base + SLAB_PML4 * GUEST_PAGE, SLAB_UINFO + UINFO_PAGES - SLAB_PML4);
	*(uint64_t *)(base + SLAB_PML4 * GUEST_PAGE) = (slab + SLAB_PDPT * GUEST_PAGE) | dir;
	*(uint64_t *)(base + SLAB_PDPT * GUEST_PAGE) = (slab + SLAB_PD * GUEST_PAGE) | dir;
	pd[VPMU_BOOT_IMAGE >> 21] = (uint64_t)img | dir;
	pd[KCPU_VA >> 21] = (uint64_t)kcpu | dir;
	pd[UINFO_VA >> 21] = (uint64_t)user | dir;

	guest_tools_kernel_map(img, (uint64_t)__ktext_start, (uint64_t)__ktext_start,
			       pages_of(__ktext_start, __krodata_start), 0);
	guest_tools_kernel_map(img, (uint64_t)__krodata_start, (uint64_t)__krodata_start,
			       pages_of(__krodata_start, __utext_start), nx);
	guest_tools_kernel_map(img, (uint64_t)__utext_start, (uint64_t)__utext_start,
			       pages_of(__utext_start, __urodata_start), PTE_U);
	guest_tools_kernel_map(img, (uint64_t)__urodata_start, (uint64_t)__urodata_start,
			       pages_of(__urodata_start, __udata_start), PTE_U | nx);
	copy_quads(base + SLAB_REST * GUEST_PAGE, __udata_start, udata_pages * (GUEST_PAGE / 8));
	guest_tools_kernel_map(img, (uint64_t)__udata_start, slab + SLAB_REST * GUEST_PAGE,
			       udata_pages, PTE_U | PTE_W | nx);

	guest_tools_kernel_map(kcpu, KCPU_VA, slab, 1, PTE_W | nx);
	guest_tools_kernel_map(kcpu, KSTACK_VA, slab + SLAB_KSTACK * GUEST_PAGE, KSTACK_PAGES,
			       PTE_W | nx);
	guest_tools_kernel_map(kcpu, KSTACK2_VA, slab + SLAB_KSTACK2 * GUEST_PAGE, 1, PTE_W | nx);
	guest_tools_kernel_map(kcpu, KIDT_VA, slab + SLAB_IDT * GUEST_PAGE, 1, PTE_W | nx);
	guest_tools_kernel_map(kcpu, KEXEC_VA, slab + SLAB_EXEC * GUEST_PAGE, 1, PTE_W | nx);
	guest_tools_kernel_map(kcpu, KEXEC_PT_VA, slab + SLAB_PT_EXEC * GUEST_PAGE, 1, PTE_W | nx);
	guest_tools_kernel_map(kcpu, KPD_VA, slab + SLAB_PD * GUEST_PAGE, 1, PTE_W | nx);
	guest_tools_kernel_map(user, UINFO_VA, slab + SLAB_UINFO * GUEST_PAGE, UINFO_PAGES,
			       PTE_U | nx);
	guest_tools_kernel_map(user, USTACK_VA, slab + SLAB_USTACK * GUEST_PAGE, USTACK_PAGES,
			       PTE_U | PTE_W | nx);

	zero_pages(base + SLAB_EXEC * GUEST_PAGE, 2);
	zero_pages(base + next * GUEST_PAGE, tables);
	for (uint64_t i = 0; i < tables; i++)
		pd[(UMEM_VA >> 21) + i] = (slab + (next + i) * GUEST_PAGE) | dir;
	/* The tables are consecutive, so one call fills them all. */
	guest_tools_kernel_map((uint64_t *)(base + next * GUEST_PAGE), UMEM_VA,
			       slab + (next + tables) * GUEST_PAGE, umem, PTE_U | PTE_W | nx);

	cpu->run_flags = 2;
	cpu->exec = slab + SLAB_EXEC * GUEST_PAGE;
	cpu->exec_pt = slab + SLAB_PT_EXEC * GUEST_PAGE;
	cpu->vcpu = vcpu;
	cpu->umem_end = UMEM_VA + umem * GUEST_PAGE;
	info->vcpu = (uint32_t)vcpu;
	info->nr_vcpus = boot->nr_vcpus;
	info->mem = (void *)UMEM_VA;
	info->mem_bytes = umem * GUEST_PAGE;
	for (unsigned int i = 0; i < VPMU_BOOT_ARGS_MAX && args[i]; i++)
		info->args[i] = args[i];
	return slab + SLAB_PML4 * GUEST_PAGE;
}

/* ---- descriptor tables, MSRs ----------------------------------------------------------------- */

struct table_reg {
	uint16_t limit;
	uint64_t base;
} __attribute__((packed));

/* The vCPU's own address space and stack are in use from here on. The loader's segments have the
 * same selectors as ours, so no segment register has to be loaded. */
void kernel_init(void)
{
	struct percpu *cpu = this_cpu();
	struct table_reg gdtr = {sizeof(cpu->gdt) - 1, (uint64_t)cpu->gdt};
	struct gate *idt = (struct gate *)KIDT_VA;
	struct table_reg idtr = {GUEST_PAGE - 1, KIDT_VA};
	uint64_t tss = (uint64_t)&cpu->tss, cr0;

	cpu->gdt[SEL_KCODE / 8] = 0x00af9b000000ffffull; /* SDM vol. 3, 3.4.5: L=1, DPL 0, code */
	cpu->gdt[SEL_KDATA / 8] = 0x00cf93000000ffffull;
	cpu->gdt[SEL_UDATA / 8] = 0x00cff3000000ffffull;
	cpu->gdt[SEL_UCODE / 8] = 0x00affb000000ffffull;
	cpu->gdt[SEL_TSS / 8] = (sizeof(cpu->tss) - 1) | (tss & 0xffffff) << 16 | 0x89ull << 40 |
				(tss >> 24 & 0xff) << 56;
	cpu->gdt[SEL_TSS / 8 + 1] = tss >> 32;
	cpu->tss.rsp[0] = KSTACK_TOP;
	cpu->tss.ist[0] = KSTACK2_TOP;
	cpu->tss.iomap = sizeof(cpu->tss); /* no port is open to CPL3 */
	for (unsigned int i = 0; i < GUEST_PAGE / sizeof(*idt); i++) {
		uint64_t stub = (uint64_t)trap_stubs + 16 * i;

		idt[i] = (struct gate){
			.offset0 = (uint16_t)stub,
			.selector = SEL_KCODE,
			.ist = i == VEC_NMI || i == VEC_DF ? 1 : 0,
			.type = 0x8e, /* present, DPL 0, interrupt gate */
			.offset16 = (uint16_t)(stub >> 16),
		};
	}
	__asm__ volatile("lgdt %0" : : "m"(gdtr));
	__asm__ volatile("lidt %0" : : "m"(idtr));
	__asm__ volatile("ltr %w0" : : "r"(SEL_TSS));
	__asm__ volatile("mov %%cr0, %0" : "=r"(cr0));
	__asm__ volatile("mov %0, %%cr0" : : "r"(cr0 | CR0_WP));
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SCE);
	wrmsr(MSR_STAR, (uint64_t)(SEL_SYSRET | 3) << 48 | (uint64_t)SEL_KCODE << 32);
	wrmsr(MSR_LSTAR, (uint64_t)syscall_entry);
	wrmsr(MSR_FMASK, 0x47700); /* AC, NT, IOPL, DF, IF, TF */
}

/* ---- faults ------------------------------------------------------------------------------- */

static const char *trap_name(uint64_t vector)
{
	/* clang-format off */
	static const char names[32][4] = {
		"#DE", "#DB", "NMI", "#BP", "#OF", "#BR", "#UD", "#NM",
		"#DF", "",    "#TS", "#NP", "#SS", "#GP", "#PF", "",
		"#MF", "#AC", "#MC", "#XM", "#VE", "#CP", "",    "",
		"",    "",    "",    "",    "#HV", "#VC", "#SX", "",
	};
	/* clang-format on */

	return names[vector & 31][0] ? names[vector & 31] : "exception";
}

static uint64_t read_cr2(void)
{
	uint64_t v;

	__asm__ volatile("mov %%cr2, %0" : "=r"(v));
	return v;
}

/*
 * On one software KVM, SYSCALL in CPL3 was seen to do everything except enter CPL0: it jumps to the
 * entry in user mode, and the fetch from a supervisor page faults. RCX, R11 and RSP are as SYSCALL
 * leaves them, so the call can continue from here. A tool that jumps to the entry on purpose only
 * makes a system call.
 */
static bool finish_syscall(struct trap_frame *f)
{
	if (f->vector != VEC_PF || f->rip != (uint64_t)syscall_entry)
		return false;
	f->cs = SEL_KCODE;
	f->ss = SEL_KDATA;
	f->rflags = 2;
	return true;
}

/* Handle an exception or interrupt. After a fault execution continues at the instruction's fixup or
 * at the address given to SYS_CATCH; otherwise the vCPU ends. */
void kernel_trap(struct trap_frame *f)
{
	struct percpu *cpu = this_cpu();
	bool user = f->cs & 3;

	if (f->vector >= 32 || (f->vector == VEC_NMI && cpu->pmi)) {
		pmi_interrupt(cpu, f);
		return;
	}
	if (!user && (f->vector == VEC_GP || f->vector == VEC_UD)) {
		for (const struct ex_entry *e = __ex_table_start; e < __ex_table_end; e++) {
			if (e->fault == f->rip) {
				f->rip = e->fixup;
				return;
			}
		}
	}
	if (user && finish_syscall(f))
		return;
	if (user && cpu->catch_rip && f->vector != VEC_NMI) {
		f->rip = cpu->catch_rip;
		f->rsp = cpu->catch_rsp;
		f->rax = f->vector;
		f->rdx = f->error;
		f->rsi = f->vector == VEC_PF ? read_cr2() : 0;
		f->rflags = 2;
		cpu->catch_rip = 0;
		return;
	}
	kernel_put("vcpu ");
	put_dec(cpu->vcpu);
	kernel_put(": ");
	kernel_put(trap_name(f->vector));
	kernel_put("(");
	put_hex(f->error);
	kernel_put(") at rip=");
	put_hex(f->rip);
	if (f->vector == VEC_PF) {
		kernel_put(" address ");
		put_hex(read_cr2());
	}
	kernel_put(user ? " in user mode\n" : " in kernel mode\n");
	vcpu_exit(128 + (uint32_t)f->vector);
}

/* ---- system calls ------------------------------------------------------------------------- */

/* The tools' memory is their part of the image, and everything from UINFO_VA on. */
bool user_range(const struct percpu *cpu, uint64_t p, uint64_t bytes)
{
	uint64_t end = p + bytes;

	if (end < p)
		return false;
	return (p >= (uint64_t)__utext_start && end <= (uint64_t)__image_end) ||
	       (p >= UINFO_VA && end <= cpu->umem_end);
}

static void do_op(struct guest_op *op)
{
	int rc = 0;

	switch (op->kind) {
	case GUEST_RDMSR:
		rc = msr_read_safe(op->index, &op->value);
		break;
	case GUEST_WRMSR:
		rc = msr_write_safe(op->index, op->value);
		break;
	case GUEST_RDPMC:
		rc = pmc_read_safe(op->index, &op->value);
		break;
	case GUEST_CPUID: {
		uint32_t regs[4];

		kernel_cpuid(op->index, op->sub, regs);
		for (int i = 0; i < 4; i++)
			op->regs[i] = regs[i];
		break;
	}
	default:
		rc = -1;
	}
	op->fault = rc != 0;
}

/* SYS_EXEC: map a page of code into the tools' address space. Only this function writes to it. */
static int64_t exec_map(const struct percpu *cpu, uint64_t from, uint64_t bytes, uint64_t va)
{
	uint64_t *pt = (uint64_t *)KEXEC_PT_VA, *pd = (uint64_t *)KPD_VA;
	uint64_t old = cpu->exec_va;

	if (bytes > GUEST_PAGE || !user_range(cpu, from, bytes) || va % GUEST_PAGE ||
	    va < UEXEC_MIN || va > UEXEC_MAX)
		return -1;
	if (old) {
		pt[old >> 12 & 511] = 0;
		pd[old >> 21] = 0;
		__asm__ volatile("invlpg (%0)" : : "r"(old) : "memory");
	}
	zero_pages((void *)KEXEC_VA, 1);
	copy_quads((void *)KEXEC_VA, (const void *)from, bytes / 8);
	for (uint64_t i = bytes & ~7ull; i < bytes; i++)
		((volatile char *)KEXEC_VA)[i] = ((const char *)from)[i];
	pt[va >> 12 & 511] = cpu->exec | PTE_U | PTE_P;
	pd[va >> 21] = cpu->exec_pt | PTE_U | PTE_W | PTE_P;
	this_cpu()->exec_va = va;
	return 0;
}

/* Execute a system call; start.S puts the result into the caller's RAX. -1: no such call or a bad
 * pointer. If a page of an allowed range is not mapped, the fault in kernel mode ends the vCPU. */
int64_t kernel_syscall(uint64_t nr, uint64_t a, uint64_t b, uint64_t c)
{
	struct percpu *cpu = this_cpu();

	switch (nr) {
	case SYS_EXIT:
		vcpu_exit((uint32_t)a);
	case SYS_WRITE:
		if (!user_range(cpu, a, b))
			return -1;
		for (uint64_t i = 0; i < b; i++)
			outb(VPMU_PORT_COM1, ((const uint8_t *)a)[i]);
		return (int64_t)b;
	case SYS_PMU:
		if (b > UMEM_MAX_PAGES || !user_range(cpu, a, b * sizeof(struct guest_op)))
			return -1;
		for (uint64_t i = 0; i < b; i++)
			do_op((struct guest_op *)a + i);
		return 0;
	case SYS_CATCH:
		cpu->catch_rip = a;
		cpu->catch_rsp = b;
		return 0;
	case SYS_PMI:
		return pmi_register(cpu, a);
	case SYS_EXEC:
		return exec_map(cpu, a, b, c);
	default:
		return -1;
	}
}
