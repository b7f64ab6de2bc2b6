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
#include <errno.h>
#include <string.h>

#include "vmm/boot/bytes.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/flat.h"
#include "vmm/boot/linux.h"
#include "vmm/boot/multiboot.h"
#include "vmm/engine/platform.h"
#include "vpmu/util/fail.h"

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
	Elf64_Ehdr eh;
	uint64_t module; /* 0: none */
};

static const struct elf_rules rules = {
	.elf32 = true,
	.lowest = LINUX_KERNEL,
	.lowest_text = "0x100000 or above",
};

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

static int check_flags(const struct elf_check *c)
{
	uint32_t flags = 0;

	if (!find_header(c->img, &flags))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: no multiboot header; expected one in the first 8192 bytes",
			    c->img->name);
	if (flags & FLAGS_REQUIRED & ~(FLAG_PAGE_ALIGN | FLAG_MEMORY_INFO))
		return elf_bad_field(c, "multiboot flags", flags, "bits 0 and 1 of bits 15:0");
	if (flags & FLAGS_ADDRESSES)
		return elf_bad_field(c, "multiboot flags", flags,
				     "bit 16 clear (the ELF header has the addresses)");
	return 0;
}

/* Check everything. Pure. */
static int multiboot_plan(const struct image *img, const struct vmm_ram *ram,
			  const struct boot_params *p, struct layout *l, char *err, size_t errlen)
{
	struct elf_check c = {img, ram, &rules, err, errlen};
	int ret;

	if (!p->nr_vcpus || p->nr_vcpus > PLATFORM_VCPUS_MAX)
		return fail(-EINVAL, err, errlen, "%u vCPUs; expected 1 to %u with a kernel",
			    p->nr_vcpus, PLATFORM_VCPUS_MAX);
	if (p->args && strlen(p->args) > LINUX_CMDLINE_MAX)
		return fail(-EINVAL, err, errlen, "cmdline: %zu bytes long; expected up to %u",
			    strlen(p->args), LINUX_CMDLINE_MAX);
	ret = check_flags(&c);
	if (!ret)
		ret = elf_header(&c, &l->eh);
	if (!ret)
		ret = elf_segments(&c, &l->eh);
	if (ret)
		return ret;
	/* Multiboot addresses have 32 bits: use the first slot, which is below 4 GiB. */
	return linux_plan_initrd(p, elf_load_end(img, &l->eh, &rules), ram->slot[0].bytes,
				 &l->module, err, errlen);
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
	struct layout l;
	int ret = multiboot_plan(img, ram, p, &l, err, errlen);

	if (ret)
		return ret;
	elf_copy(img, &l.eh, &rules, ram);
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
