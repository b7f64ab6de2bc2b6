// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The boot protocol of freestanding images (vpmu/guest/abi.h): checks a static ELF64 executable,
 * copies it into guest RAM, writes the boot area (GDT, boot info, arguments, page tables) and gives
 * the registers that every vCPU starts with.
 *
 * Layouts: System V ABI ch. 4 and 5 (ELF header, program header), SDM vol. 3, 3.4.5 and 5.5 / APM
 * vol. 2, 4.8 and 5.3 (descriptors, long-mode page tables).
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/boot.h"
#include "vpmu/util/fail.h"
#include "vpmu/guest/abi.h"

#define MAX_PHDRS 64

/* Page-table entry bits, SDM vol. 3 table 4-15 ff. */
#define PTE_P  (1ULL << 0)
#define PTE_W  (1ULL << 1)
#define PTE_PS (1ULL << 7)

#define PAGE_BYTES	4096ULL
#define PAGETABLES_END	0x80000ULL /* vpmu/guest/abi.h */
#define ENTRIES		512ULL
#define DIRECTORY_BYTES (ENTRIES * VMM_RAM_ALIGN)	/* what one page directory maps: 1 GiB */
#define ADDRESS_MAX	(VMM_RAM_MAX + DIRECTORY_BYTES) /* RAM and the hole below 4 GiB */

_Static_assert(VPMU_BOOT_PAGETABLES + (2 + ADDRESS_MAX / DIRECTORY_BYTES) * PAGE_BYTES <=
		       PAGETABLES_END,
	       "page tables of the largest RAM fit the boot area");

/* Descriptors of the GDT, by selector: 08h 64-bit code, 10h data, 18h 64-bit TSS. */
#define DESC_CODE64 0x00af9b000000ffffULL
#define DESC_DATA   0x00cf93000000ffffULL
#define DESC_TSS64  0x00008b0000000067ULL /* busy, base 0, limit 67h */
#define SEL_CODE    0x08
#define SEL_DATA    0x10
#define SEL_TSS	    0x18
#define GDT_BYTES   (5 * 8)

#define CR0_PE	 (1ULL << 0)
#define CR0_MP	 (1ULL << 1)
#define CR0_ET	 (1ULL << 4)
#define CR0_NE	 (1ULL << 5)
#define CR0_WP	 (1ULL << 16)
#define CR0_PG	 (1ULL << 31)
#define CR4_PAE	 (1ULL << 5)
#define EFER_SCE (1ULL << 0)
#define EFER_LME (1ULL << 8)
#define EFER_LMA (1ULL << 10)
#define EFER_NXE (1ULL << 11)

/* IA32_APIC_BASE */
#define APIC_BASE_ADDRESS 0xfee00000u
#define APIC_BASE_BSP	  (1u << 8)
#define APIC_BASE_EXTD	  (1u << 10)
#define APIC_BASE_EN	  (1u << 11)

/* What a check reports to. */
struct check {
	const struct image *img;
	const struct vmm_ram *ram;
	char *err;
	size_t errlen;
};

static int bad_field(const struct check *c, const char *field, uint64_t value, const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen, "%s: %s is 0x%" PRIx64 ", accepted: %s",
		    c->img->name, field, value, accepted);
}

static int bad_phdr(const struct check *c, unsigned int i, const char *field, uint64_t value,
		    const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen,
		    "%s: program header %u: %s is 0x%" PRIx64 ", accepted: %s", c->img->name, i,
		    field, value, accepted);
}

static int check_ehdr(const struct check *c, Elf64_Ehdr *eh)
{
	if (c->img->bytes < sizeof(*eh))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: %zu bytes long, accepted: an ELF64 executable (header of %zu)",
			    c->img->name, c->img->bytes, sizeof(*eh));
	memcpy(eh, c->img->data, sizeof(*eh));
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: e_ident is %02x %02x %02x %02x, accepted: 7f 45 4c 46 (ELF)",
			    c->img->name, eh->e_ident[0], eh->e_ident[1], eh->e_ident[2],
			    eh->e_ident[3]);
	if (eh->e_ident[EI_CLASS] != ELFCLASS64)
		return bad_field(c, "e_ident[EI_CLASS]", eh->e_ident[EI_CLASS], "2 (64-bit)");
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return bad_field(c, "e_ident[EI_DATA]", eh->e_ident[EI_DATA], "1 (little endian)");
	if (eh->e_ident[EI_VERSION] != EV_CURRENT)
		return bad_field(c, "e_ident[EI_VERSION]", eh->e_ident[EI_VERSION], "1");
	if (eh->e_type != ET_EXEC)
		return bad_field(c, "e_type", eh->e_type, "2 (static executable)");
	if (eh->e_machine != EM_X86_64)
		return bad_field(c, "e_machine", eh->e_machine, "0x3e (x86-64)");
	if (eh->e_version != EV_CURRENT)
		return bad_field(c, "e_version", eh->e_version, "1");
	if (eh->e_ehsize != sizeof(*eh))
		return bad_field(c, "e_ehsize", eh->e_ehsize, "0x40");
	if (eh->e_phentsize != sizeof(Elf64_Phdr))
		return bad_field(c, "e_phentsize", eh->e_phentsize, "0x38");
	if (!eh->e_phnum || eh->e_phnum > MAX_PHDRS)
		return bad_field(c, "e_phnum", eh->e_phnum, "1 to 64");
	if (eh->e_phoff > c->img->bytes ||
	    eh->e_phnum * sizeof(Elf64_Phdr) > c->img->bytes - eh->e_phoff)
		return bad_field(c, "e_phoff", eh->e_phoff,
				 "a program header table inside the file");
	return 0;
}

static void read_phdr(const struct image *img, const Elf64_Ehdr *eh, unsigned int i, Elf64_Phdr *ph)
{
	memcpy(ph, img->data + eh->e_phoff + i * sizeof(*ph), sizeof(*ph));
}

/* A PT_LOAD segment that occupies memory. */
static bool is_load(const Elf64_Phdr *ph)
{
	return ph->p_type == PT_LOAD && ph->p_memsz;
}

static int check_load(const struct check *c, const Elf64_Ehdr *eh, unsigned int i)
{
	Elf64_Phdr ph, other;

	read_phdr(c->img, eh, i, &ph);
	if (ph.p_filesz > ph.p_memsz)
		return bad_phdr(c, i, "p_filesz", ph.p_filesz, "at most p_memsz");
	if (ph.p_offset > c->img->bytes || ph.p_filesz > c->img->bytes - ph.p_offset)
		return bad_phdr(c, i, "p_offset", ph.p_offset,
				"p_offset + p_filesz inside the file");
	if (!ph.p_memsz)
		return 0;
	if (ph.p_vaddr < VPMU_BOOT_IMAGE)
		return bad_phdr(c, i, "p_vaddr", ph.p_vaddr, "0x200000 or above");
	if (ph.p_vaddr != vmm_ram_end(c->ram) && !vmm_ram_holds(c->ram, ph.p_vaddr, 1))
		return bad_phdr(c, i, "p_vaddr", ph.p_vaddr, "an address in guest memory");
	if (!vmm_ram_holds(c->ram, ph.p_vaddr, ph.p_memsz))
		return bad_phdr(c, i, "p_memsz", ph.p_memsz,
				"p_vaddr + p_memsz inside guest memory (give the VM more?)");
	if (ph.p_paddr != ph.p_vaddr)
		return bad_phdr(c, i, "p_paddr", ph.p_paddr, "the same as p_vaddr");
	if (ph.p_align & (ph.p_align - 1))
		return bad_phdr(c, i, "p_align", ph.p_align, "0 or a power of two");
	if (ph.p_align > 1 && (ph.p_vaddr - ph.p_offset) & (ph.p_align - 1))
		return bad_phdr(c, i, "p_offset", ph.p_offset, "equal to p_vaddr modulo p_align");
	for (unsigned int j = 0; j < i; j++) {
		read_phdr(c->img, eh, j, &other);
		/* Neither sum wraps: both ends are in guest memory by now. */
		if (is_load(&other) && ph.p_vaddr < other.p_vaddr + other.p_memsz &&
		    other.p_vaddr < ph.p_vaddr + ph.p_memsz)
			return bad_phdr(c, i, "p_vaddr", ph.p_vaddr,
					"segments that do not overlap");
	}
	return 0;
}

static int check_image(const struct check *c, Elf64_Ehdr *eh)
{
	bool entry_ok = false, any = false;
	Elf64_Phdr ph;
	int ret;

	ret = check_ehdr(c, eh);
	if (ret)
		return ret;
	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		read_phdr(c->img, eh, i, &ph);
		if (ph.p_type == PT_INTERP || ph.p_type == PT_DYNAMIC)
			return bad_phdr(c, i, "p_type", ph.p_type,
					"a static executable (no PT_INTERP, no PT_DYNAMIC)");
		if (ph.p_type != PT_LOAD)
			continue;
		ret = check_load(c, eh, i);
		if (ret)
			return ret;
		any |= is_load(&ph);
		/* Entry in what the file provides: zero-fill is no code. */
		entry_ok |= ph.p_flags & PF_X && eh->e_entry >= ph.p_vaddr &&
			    eh->e_entry - ph.p_vaddr < ph.p_filesz;
	}
	if (!any)
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: no PT_LOAD segment, accepted: at least one", c->img->name);
	if (!entry_ok)
		return bad_field(c, "e_entry", eh->e_entry,
				 "an address in an executable segment of the file");
	return 0;
}

static bool freestanding_probe(const struct image *img)
{
	return img->bytes >= SELFMAG && !memcmp(img->data, ELFMAG, SELFMAG);
}

static int check_params(const struct vmm_ram *ram, const struct boot_params *p, char *err,
			size_t errlen)
{
	uint64_t bytes = vmm_ram_bytes(ram);

	if (bytes < VMM_RAM_MIN || bytes > VMM_RAM_MAX || bytes % VMM_RAM_ALIGN ||
	    vmm_ram_end(ram) > ADDRESS_MAX)
		return fail(-EINVAL, err, errlen,
			    "guest memory is %" PRIu64 " bytes, accepted: 4M to 64G in steps of 2M",
			    bytes);
	if (p->args && strlen(p->args) > VPMU_BOOT_ARGS_MAX)
		return fail(-EINVAL, err, errlen,
			    "guest arguments are %zu bytes long, accepted: at most %u",
			    strlen(p->args), VPMU_BOOT_ARGS_MAX);
	return 0;
}

static int freestanding_check(const struct image *img, const struct vmm_ram *ram,
			      const struct boot_params *p, char *err, size_t errlen)
{
	struct check c = {.img = img, .ram = ram, .err = err, .errlen = errlen};
	int ret = check_params(ram, p, err, errlen);
	Elf64_Ehdr eh;

	return ret ? ret : check_image(&c, &eh);
}

/* Map all RAM 1:1 with 2 MiB pages: one PML4, one PDPT, a page directory per GiB that has RAM. */
static void write_pagetables(const struct vmm_ram *ram)
{
	uint64_t *pml4 = (uint64_t *)(ram->base + VPMU_BOOT_PAGETABLES);
	uint64_t *pdpt = pml4 + ENTRIES;
	uint64_t *pd = pdpt + ENTRIES;
	uint64_t pdpt_gpa = VPMU_BOOT_PAGETABLES + PAGE_BYTES;
	uint64_t pd_gpa = pdpt_gpa + PAGE_BYTES;

	pml4[0] = pdpt_gpa | PTE_P | PTE_W;
	for (unsigned int i = 0; i < ram->nr; i++)
		for (uint64_t at = 0; at < ram->slot[i].bytes; at += VMM_RAM_ALIGN) {
			uint64_t gpa = ram->slot[i].gpa + at, n = gpa / VMM_RAM_ALIGN;

			pd[n] = gpa | PTE_P | PTE_W | PTE_PS;
			pdpt[n / ENTRIES] = (pd_gpa + n / ENTRIES * PAGE_BYTES) | PTE_P | PTE_W;
		}
}

static int freestanding_load(const struct image *img, const struct vmm_ram *ram,
			     const struct boot_params *p, uint64_t *entry, char *err, size_t errlen)
{
	struct check c = {.img = img, .ram = ram, .err = err, .errlen = errlen};
	const char *args = p->args ? p->args : "";
	uint64_t gdt[GDT_BYTES / 8] = {0, DESC_CODE64, DESC_DATA, DESC_TSS64, 0};
	struct vpmu_boot_info info = {
		.magic = VPMU_BOOT_MAGIC,
		.mem_bytes = ram->slot[0].bytes,
		.args = VPMU_BOOT_ARGS,
		.nr_vcpus = p->nr_vcpus,
		.version = 2,
		.high_base = ram->nr > 1 ? ram->slot[1].gpa : 0,
		.high_bytes = ram->nr > 1 ? ram->slot[1].bytes : 0,
	};
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	int ret;

	ret = check_params(ram, p, err, errlen);
	if (ret)
		return ret;
	ret = check_image(&c, &eh);
	if (ret)
		return ret;

	for (unsigned int i = 0; i < eh.e_phnum; i++) {
		read_phdr(img, &eh, i, &ph);
		if (is_load(&ph))
			memcpy(ram->base + ph.p_vaddr, img->data + ph.p_offset, ph.p_filesz);
	}
	memcpy(ram->base + VPMU_BOOT_GDT, gdt, sizeof(gdt));
	memcpy(ram->base + VPMU_BOOT_INFO, &info, sizeof(info));
	memcpy(ram->base + VPMU_BOOT_ARGS, args, strlen(args) + 1);
	write_pagetables(ram);
	*entry = eh.e_entry;
	return 0;
}

static void freestanding_registers(uint64_t entry, unsigned int vcpu, const struct boot_params *p,
				   struct kvm_regs *regs, struct kvm_sregs *sregs)
{
	struct kvm_segment code = {
		.limit = 0xffffffff,
		.selector = SEL_CODE,
		.type = 11, /* execute, read, accessed */
		.present = 1,
		.s = 1,
		.l = 1,
		.g = 1,
	};
	struct kvm_segment data = {
		.limit = 0xffffffff,
		.selector = SEL_DATA,
		.type = 3, /* read, write, accessed */
		.present = 1,
		.db = 1,
		.s = 1,
		.g = 1,
	};

	*regs = (struct kvm_regs){
		.rip = entry,
		.rdi = vcpu,
		.rsi = VPMU_BOOT_INFO,
		.rflags = 2, /* bit 1 is always set: interrupts off */
	};
	sregs->cs = code;
	sregs->ds = sregs->es = sregs->fs = sregs->gs = sregs->ss = data;
	/* VM entry demands a busy TSS; guests that take interrupts load one of their own. */
	sregs->tr =
		(struct kvm_segment){.limit = 0x67, .selector = SEL_TSS, .type = 11, .present = 1};
	sregs->ldt = (struct kvm_segment){.type = 2, .unusable = 1};
	sregs->gdt = (struct kvm_dtable){.base = VPMU_BOOT_GDT, .limit = GDT_BYTES - 1};
	sregs->idt = (struct kvm_dtable){0};
	sregs->cr0 = CR0_PE | CR0_MP | CR0_ET | CR0_NE | CR0_WP | CR0_PG;
	sregs->cr2 = 0;
	sregs->cr3 = VPMU_BOOT_PAGETABLES;
	sregs->cr4 = CR4_PAE;
	sregs->cr8 = 0;
	sregs->efer = EFER_SCE | EFER_LME | EFER_LMA | EFER_NXE;
	/* x2APIC mode from the start; vCPU 0 is the boot processor (SDM vol. 3, 11.4.4). */
	if (p->lapic)
		sregs->apic_base = APIC_BASE_ADDRESS | APIC_BASE_EN | APIC_BASE_EXTD |
				   (vcpu ? 0 : APIC_BASE_BSP);
}

const struct boot_protocol boot_freestanding = {
	.name = "freestanding",
	.probe = freestanding_probe,
	.check = freestanding_check,
	.load = freestanding_load,
	.registers = freestanding_registers,
};
