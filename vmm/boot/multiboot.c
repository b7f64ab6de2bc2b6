// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The boot protocol of multiboot images, version 1 of the Multiboot Specification (0.6.96): a
 * static ELF32 executable with a multiboot header, which starts in 32-bit protected mode without
 * paging. Small test kernels have this format. The VM has the hardware and the ACPI tables of stock
 * kernels; the initrd becomes the only module. vmm/machine chooses this protocol for a "kernel"
 * with such a header.
 *
 * Section numbers are those of the specification; ELF: System V ABI ch. 4 and 5.
 */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/bytes.h"
#include "vmm/boot/flat.h"
#include "vmm/boot/linux.h"
#include "vmm/boot/multiboot.h"
#include "vmm/engine/platform.h"
#include "vpmu/util/fail.h"

#define PAGE	  4096ULL
#define PHDRS_MAX 64

/* 3.1.1: the header is in the first 8192 bytes, at a multiple of 4. */
#define SEARCH_BYTES 8192u
#define HEADER_BYTES 12u
#define HEADER_MAGIC 0x1badb002u
/* 3.1.2: the loader must support bits 15:0 or refuse the image. Every image gets page-aligned
 * modules and the memory map. */
#define FLAG_PAGE_ALIGN	 (1u << 0)
#define FLAG_MEMORY_INFO (1u << 1)
#define FLAGS_REQUIRED	 0xffffu
#define FLAGS_ADDRESSES	 (1u << 16) /* the header, not ELF, has the load addresses */

#define SEL_CODE    8
#define DESC_CODE32 0x00cf9b000000ffffULL

/* The layout of guest memory; filled in by multiboot_plan(). */
struct layout {
	Elf32_Ehdr eh;
	uint64_t module; /* 0: none */
};

/* The input of a check, and where its error goes. */
struct check {
	const struct image *img;
	const struct vmm_ram *ram;
	char *err;
	size_t errlen;
};

static int multiboot_bad(const struct check *c, const char *field, uint64_t value,
			 const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen, "%s: multiboot: %s is 0x%" PRIx64 "; expected %s",
		    c->img->name, field, value, accepted);
}

static int bad_phdr(const struct check *c, unsigned int i, const char *field, uint64_t value,
		    const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen,
		    "%s: multiboot: program header %u: %s is 0x%" PRIx64 "; expected %s",
		    c->img->name, i, field, value, accepted);
}

/* Find the multiboot header: *flags. Returns false if there is none. */
static bool find_header(const struct image *img, uint32_t *flags)
{
	size_t end = img->bytes < SEARCH_BYTES ? img->bytes : SEARCH_BYTES;

	for (size_t at = 0; at + HEADER_BYTES <= end; at += 4) {
		const uint8_t *p = img->data + at;

		if (get_u32(p) != HEADER_MAGIC)
			continue;
		*flags = get_u32(p + 4);
		if ((uint32_t)(HEADER_MAGIC + *flags + get_u32(p + 8)) == 0)
			return true;
	}
	return false;
}

static bool multiboot_probe(const struct image *img)
{
	uint32_t flags;

	return find_header(img, &flags);
}

static int check_flags(const struct check *c)
{
	uint32_t flags = 0;

	if (!find_header(c->img, &flags))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: no multiboot header; expected one in the first 8192 bytes",
			    c->img->name);
	if (flags & FLAGS_REQUIRED & ~(FLAG_PAGE_ALIGN | FLAG_MEMORY_INFO))
		return multiboot_bad(c, "flags", flags, "bits 0 and 1 of bits 15:0");
	if (flags & FLAGS_ADDRESSES)
		return multiboot_bad(c, "flags", flags,
				     "bit 16 clear (the ELF header has the addresses)");
	return 0;
}

/* Check the ELF header of c->img, and that its program headers are inside the file; copy it to
 * *eh. */
static int check_elf(const struct check *c, Elf32_Ehdr *eh)
{
	if (c->img->bytes < sizeof(*eh) || memcmp(c->img->data, ELFMAG, SELFMAG))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: multiboot: not an ELF file; expected an ELF32 executable",
			    c->img->name);
	memcpy(eh, c->img->data, sizeof(*eh));
	if (eh->e_ident[EI_CLASS] != ELFCLASS32)
		return multiboot_bad(c, "e_ident[EI_CLASS]", eh->e_ident[EI_CLASS], "1 (32-bit)");
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return multiboot_bad(c, "e_ident[EI_DATA]", eh->e_ident[EI_DATA],
				     "1 (little endian)");
	if (eh->e_type != ET_EXEC)
		return multiboot_bad(c, "e_type", eh->e_type, "2 (static executable)");
	if (eh->e_machine != EM_386)
		return multiboot_bad(c, "e_machine", eh->e_machine, "3 (x86)");
	if (eh->e_phentsize != sizeof(Elf32_Phdr))
		return multiboot_bad(c, "e_phentsize", eh->e_phentsize, "0x20");
	if (!eh->e_phnum || eh->e_phnum > PHDRS_MAX)
		return multiboot_bad(c, "e_phnum", eh->e_phnum, "1 to 64");
	if (eh->e_phoff > c->img->bytes ||
	    eh->e_phnum * sizeof(Elf32_Phdr) > c->img->bytes - eh->e_phoff)
		return multiboot_bad(c, "e_phoff", eh->e_phoff,
				     "a program header table inside the file");
	return 0;
}

/* Copy program header @i. Returns true if it is a segment that occupies memory. */
static bool segment(const struct image *img, const Elf32_Ehdr *eh, unsigned int i, Elf32_Phdr *ph)
{
	memcpy(ph, img->data + eh->e_phoff + i * sizeof(*ph), sizeof(*ph));
	return ph->p_type == PT_LOAD && ph->p_memsz;
}

static int check_segment(const struct check *c, const Elf32_Ehdr *eh, unsigned int i,
			 const Elf32_Phdr *ph)
{
	Elf32_Phdr other;

	if (ph->p_filesz > ph->p_memsz)
		return bad_phdr(c, i, "p_filesz", ph->p_filesz, "up to p_memsz");
	if (ph->p_offset > c->img->bytes || ph->p_filesz > c->img->bytes - ph->p_offset)
		return bad_phdr(c, i, "p_offset", ph->p_offset,
				"p_offset + p_filesz inside the file");
	if (ph->p_paddr < LINUX_KERNEL)
		return bad_phdr(c, i, "p_paddr", ph->p_paddr, "0x100000 or above");
	if (!vmm_ram_holds(c->ram, ph->p_paddr, ph->p_memsz))
		return bad_phdr(c, i, "p_memsz", ph->p_memsz,
				"p_paddr + p_memsz inside guest memory (give the VM more?)");
	for (unsigned int j = 0; j < i; j++)
		if (segment(c->img, eh, j, &other) &&
		    (uint64_t)ph->p_paddr < (uint64_t)other.p_paddr + other.p_memsz &&
		    (uint64_t)other.p_paddr < (uint64_t)ph->p_paddr + ph->p_memsz)
			return bad_phdr(c, i, "p_paddr", ph->p_paddr,
					"segments that do not overlap");
	return 0;
}

/* Check all segments, and that the entry is in the file's bytes of an executable one. *end: the
 * first address behind them. */
static int check_segments(const struct check *c, const Elf32_Ehdr *eh, uint64_t *end)
{
	bool entry = false;
	Elf32_Phdr ph;

	*end = 0;
	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		int ret;

		if (!segment(c->img, eh, i, &ph))
			continue;
		ret = check_segment(c, eh, i, &ph);
		if (ret)
			return ret;
		entry |= ph.p_flags & PF_X && eh->e_entry >= ph.p_paddr &&
			 eh->e_entry - ph.p_paddr < ph.p_filesz;
		if ((uint64_t)ph.p_paddr + ph.p_memsz > *end)
			*end = (uint64_t)ph.p_paddr + ph.p_memsz;
	}
	if (!entry)
		return multiboot_bad(c, "e_entry", eh->e_entry,
				     "an address in an executable segment of the file");
	return 0;
}

/* Check everything. Pure. */
static int multiboot_plan(const struct image *img, const struct vmm_ram *ram,
			  const struct boot_params *p, struct layout *l, char *err, size_t errlen)
{
	struct check c = {.img = img, .ram = ram, .err = err, .errlen = errlen};
	/* Multiboot addresses have 32 bits: use the first slot, which is below 4 GiB. */
	uint64_t end = 0, top = ram->slot[0].bytes;
	int ret;

	if (!p->nr_vcpus || p->nr_vcpus > PLATFORM_VCPUS_MAX)
		return fail(-EINVAL, err, errlen, "%u vCPUs; expected 1 to %u with a kernel",
			    p->nr_vcpus, PLATFORM_VCPUS_MAX);
	if (p->args && strlen(p->args) > LINUX_CMDLINE_MAX)
		return fail(-EINVAL, err, errlen, "cmdline: %zu bytes long; expected up to %u",
			    strlen(p->args), LINUX_CMDLINE_MAX);
	ret = check_flags(&c);
	if (!ret)
		ret = check_elf(&c, &l->eh);
	if (!ret)
		ret = check_segments(&c, &l->eh, &end);
	l->module = 0;
	if (ret || !p->initrd)
		return ret;
	end = (end + PAGE - 1) & ~(PAGE - 1);
	if (top <= end || p->initrd->bytes > top - end)
		return fail(-EINVAL, err, errlen,
			    "%s: initrd of %zu bytes; expected up to %" PRIu64
			    ", the guest memory beside the kernel (give the VM more?)",
			    p->initrd->name, p->initrd->bytes, top > end ? top - end : 0);
	l->module = (top - p->initrd->bytes) & ~(PAGE - 1);
	return 0;
}

static int multiboot_check(const struct image *img, const struct vmm_ram *ram,
			   const struct boot_params *p, char *err, size_t errlen)
{
	struct layout l;

	return multiboot_plan(img, ram, p, &l, err, errlen);
}

/* ---- writing ---- */

static uint8_t *put_range(uint8_t *e, uint64_t gpa, uint64_t bytes, uint32_t type)
{
	put_u32(e, MULTIBOOT_MMAP_BYTES - 4); /* bytes after this field */
	put_u64(e + 4, gpa);
	put_u64(e + 12, bytes);
	put_u32(e + 20, type);
	return e + MULTIBOOT_MMAP_BYTES;
}

/* 3.3: the memory map, the command line and the module. */
static void write_info(const struct vmm_ram *ram, const struct boot_params *p,
		       const struct layout *l)
{
	uint8_t *info = ram->base + MULTIBOOT_INFO, *mmap = ram->base + MULTIBOOT_MMAP, *e;
	uint8_t *module = ram->base + MULTIBOOT_MODULE;
	uint32_t flags = MULTIBOOT_HAS_MEMORY | MULTIBOOT_HAS_CMDLINE | MULTIBOOT_HAS_MMAP;

	e = put_range(mmap, 0, LINUX_LOW_END, LINUX_E820_RAM);
	e = put_range(e, LINUX_ACPI, LINUX_ACPI_END - LINUX_ACPI, LINUX_E820_RESERVED);
	e = put_range(e, LINUX_ACPI_END, ram->slot[0].bytes - LINUX_ACPI_END, LINUX_E820_RAM);
	for (unsigned int i = 1; i < ram->nr; i++)
		e = put_range(e, ram->slot[i].gpa, ram->slot[i].bytes, LINUX_E820_RAM);

	put_u32(info + MULTIBOOT_LOWER, LINUX_LOW_END >> 10);
	put_u32(info + MULTIBOOT_UPPER, (uint32_t)((ram->slot[0].bytes - LINUX_KERNEL) >> 10));
	put_u32(info + MULTIBOOT_CMDLINE, LINUX_CMDLINE);
	put_u32(info + MULTIBOOT_MMAP_LENGTH, (uint32_t)(e - mmap));
	put_u32(info + MULTIBOOT_MMAP_ADDR, MULTIBOOT_MMAP);
	if (l->module) {
		flags |= MULTIBOOT_HAS_MODULES;
		put_u32(info + MULTIBOOT_MODS_COUNT, 1);
		put_u32(info + MULTIBOOT_MODS_ADDR, MULTIBOOT_MODULE);
		put_u32(module, (uint32_t)l->module);
		put_u32(module + 4, (uint32_t)(l->module + p->initrd->bytes));
		put_u32(module + 8, MULTIBOOT_MODULE + 12); /* its string, which is empty */
		memcpy(ram->base + l->module, p->initrd->data, p->initrd->bytes);
	}
	put_u32(info, flags);
}

static int multiboot_load(const struct image *img, const struct vmm_ram *ram,
			  const struct boot_params *p, uint64_t *entry, char *err, size_t errlen)
{
	static const uint64_t gdt[FLAT_GDT_BYTES(SEL_CODE) / 8] = {0, DESC_CODE32, DESC_DATA,
								   DESC_TSS64};
	const char *slash = strrchr(img->name, '/');
	char *cmdline = (char *)ram->base + LINUX_CMDLINE;
	Elf32_Phdr ph;
	struct layout l;
	int ret = multiboot_plan(img, ram, p, &l, err, errlen);

	if (ret)
		return ret;
	for (unsigned int i = 0; i < l.eh.e_phnum; i++)
		if (segment(img, &l.eh, i, &ph))
			memcpy(ram->base + ph.p_paddr, img->data + ph.p_offset, ph.p_filesz);
	memcpy(ram->base + MULTIBOOT_GDT, gdt, sizeof(gdt));
	/* The first word is the image's name, as with other loaders. */
	strncpy(cmdline, slash ? slash + 1 : img->name, MULTIBOOT_NAME_MAX);
	if (p->args && *p->args) {
		strcat(cmdline, " ");
		strcat(cmdline, p->args);
	}
	write_info(ram, p, &l);
	acpi_write(ram, p->nr_vcpus);
	*entry = l.eh.e_entry;
	return 0;
}

/* 3.2: the state of the machine. */
static void multiboot_registers(uint64_t entry, unsigned int vcpu, const struct boot_params *p,
				struct kvm_regs *regs, struct kvm_sregs *sregs)
{
	*regs = (struct kvm_regs){
		.rip = entry,
		.rax = MULTIBOOT_MAGIC,
		.rbx = MULTIBOOT_INFO,
		.rflags = 2, /* bit 1 is always set: interrupts off */
	};
	flat_sregs(sregs, MULTIBOOT_GDT, SEL_CODE, 0);
	sregs->cs.l = 0;
	sregs->cs.db = 1;
	sregs->cr0 = CR0_PE | CR0_ET;
	sregs->cr4 = 0;
	sregs->efer = 0;
}

const struct boot_protocol boot_multiboot = {
	.name = "multiboot",
	.platform = true,
	.exit_port = true,
	.probe = multiboot_probe,
	.check = multiboot_check,
	.load = multiboot_load,
	.registers = multiboot_registers,
};
