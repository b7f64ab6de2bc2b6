// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The boot protocol of stock Linux kernels: places an unpacked kernel, its initrd, command line and
 * ACPI tables in guest RAM, writes the zero page, and gives vCPU 0 the registers that the kernel's
 * 64-bit entry expects. The kernel is put where it was linked to be: it is not relocated. Other
 * vCPUs wait for the kernel to start them.
 *
 * Documentation/arch/x86/boot.rst ("64-bit boot protocol") and zero-page.rst; descriptors and page
 * tables: SDM vol. 3, 3.4.5 and 5.5 / APM vol. 2, 4.8 and 5.3.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/bytes.h"
#include "vmm/boot/elf.h"
#include "vmm/boot/flat.h"
#include "vmm/boot/linux.h"
#include "vmm/engine/platform.h"
#include "vpmu/util/fail.h"

#define PAGE 4096ULL
#define GIB  (1ULL << 30)

/* For a vmlinux, which has no setup header: limits of kernels since 2.6.36. */
#define VMLINUX_CMDLINE_MAX 2047u
#define VMLINUX_INITRD_MAX  0x7fffffffu
#define VMLINUX_VERSION	    0x020fu

#define LOADER_OTHER	 0xff /* type_of_loader: none that has a number */
#define LOADED_HIGH	 0x01 /* loadflags: the kernel is at 1 MiB or above */
#define KASLR_FLAG	 0x02 /* the kernel was moved, which is not so */
#define CAN_USE_HEAP	 0x80
#define LOADFLAGS_CLEARS (KASLR_FLAG | CAN_USE_HEAP)

#define SEL_CODE 0x10 /* __BOOT_CS, as boot.rst demands; behind it __BOOT_DS */

static const struct elf_rules rules = {
	.lowest = LINUX_KERNEL,
	.lowest_text = "0x100000 or above",
};

/* The layout of guest memory; filled in by linux_plan(). */
struct layout {
	Elf64_Ehdr eh;
	const char *prefix, *cmdline; /* the command line is both */
	uint64_t initrd;	      /* 0: none */
};

/* A 32-bit field of the setup header, or @otherwise if there is no header. */
static uint32_t linux_header(const struct image *img, unsigned int field, uint32_t otherwise)
{
	return field - LINUX_HDR + 4 <= img->setup_bytes ? get_u32(img->setup + field - LINUX_HDR)
							 : otherwise;
}

/* Returns true if the command line @s has the parameter @name, which ends in '='. */
static bool has_parameter(const char *s, const char *name)
{
	for (const char *at = s; (at = strstr(at, name)); at++)
		if (at == s || at[-1] == ' ')
			return true;
	return false;
}

static int plan_cmdline(const struct image *img, const struct boot_params *p, struct layout *l,
			char *err, size_t errlen)
{
	uint32_t max = linux_header(img, LINUX_HDR_CMDLINE_SIZE, VMLINUX_CMDLINE_MAX);

	if (max > LINUX_CMDLINE_MAX)
		max = LINUX_CMDLINE_MAX;
	l->cmdline = p->args && *p->args ? p->args : LINUX_CMDLINE_DEFAULT;
	l->prefix = has_parameter(l->cmdline, "reboot=") ? "" : LINUX_CMDLINE_PREFIX;
	max -= max > strlen(l->prefix) ? (uint32_t)strlen(l->prefix) : max;
	if (strlen(l->cmdline) <= max)
		return 0;
	return fail(-EINVAL, err, errlen,
		    "cmdline: %zu bytes long; expected up to %" PRIu32 ", as in %s",
		    strlen(l->cmdline), max, img->setup_bytes ? img->name : "Linux");
}

int linux_plan_initrd(const struct boot_params *p, uint64_t end, uint64_t top, uint64_t *at,
		      char *err, size_t errlen)
{
	*at = 0;
	if (!p->initrd)
		return 0;
	end = (end + PAGE - 1) & ~(PAGE - 1);
	/* Not equal: the first address behind the kernel could be 0 bytes below the top. */
	if (top <= end || p->initrd->bytes > top - end)
		return fail(-EINVAL, err, errlen,
			    "%s: initrd of %zu bytes; expected up to %" PRIu64
			    ", the guest memory beside the kernel (give the VM more?)",
			    p->initrd->name, p->initrd->bytes, top > end ? top - end : 0);
	*at = (top - p->initrd->bytes) & ~(PAGE - 1);
	return 0;
}

/* The initrd goes to the highest address that the kernel can reach in the first slot. */
static int plan_initrd(const struct image *img, const struct vmm_ram *ram,
		       const struct boot_params *p, struct layout *l, char *err, size_t errlen)
{
	uint64_t top = (uint64_t)linux_header(img, LINUX_HDR_INITRD_MAX, VMLINUX_INITRD_MAX) + 1;
	uint64_t end = elf_load_end(img, &l->eh, &rules);

	if (top > ram->slot[0].bytes)
		top = ram->slot[0].bytes;
	return linux_plan_initrd(p, end, top & ~(PAGE - 1), &l->initrd, err, errlen);
}

/* Check everything. Pure. */
static int linux_plan(const struct image *img, const struct vmm_ram *ram,
		      const struct boot_params *p, struct layout *l, char *err, size_t errlen)
{
	struct elf_check c = {img, ram, &rules, err, errlen};
	int ret;

	if (!p->nr_vcpus || p->nr_vcpus > PLATFORM_VCPUS_MAX)
		return fail(-EINVAL, err, errlen, "%u vCPUs; expected 1 to %u with a kernel",
			    p->nr_vcpus, PLATFORM_VCPUS_MAX);
	if (!elf_probe(img))
		return fail(-ENOEXEC, err, errlen,
			    "%s: %s; expected a bzImage or an ELF64 vmlinux for x86-64", img->name,
			    img->setup_bytes ? "its unpacked payload is not an ELF file"
					     : "no kernel");
	ret = elf_header(&c, &l->eh);
	if (!ret)
		ret = elf_segments(&c, &l->eh);
	/* The entry must be mapped: see linux_write_pagetables. */
	if (!ret && l->eh.e_entry >= 4 * GIB)
		ret = elf_bad_field(&c, "e_entry", l->eh.e_entry, "below 4 GiB");
	if (!ret)
		ret = plan_cmdline(img, p, l, err, errlen);
	return ret ? ret : plan_initrd(img, ram, p, l, err, errlen);
}

static bool linux_probe(const struct image *img)
{
	return linux_is_bzimage(img) || elf_probe(img);
}

static int linux_check(const struct image *img, const struct vmm_ram *ram,
		       const struct boot_params *p, char *err, size_t errlen)
{
	struct layout l;

	return linux_plan(img, ram, p, &l, err, errlen);
}

/* ---- writing ---- */

/* The first 4 GiB, 1:1 with 2 MiB pages: one PML4, one PDPT, four page directories. */
static void linux_write_pagetables(const struct vmm_ram *ram)
{
	uint8_t *pml4 = ram->base + LINUX_PAGES, *pdpt = pml4 + PAGE, *pd = pdpt + PAGE;

	put_u64(pml4, (LINUX_PAGES + PAGE) | PTE_P | PTE_W);
	for (uint64_t gib = 0; gib < 4; gib++)
		put_u64(pdpt + 8 * gib, (LINUX_PAGES + (2 + gib) * PAGE) | PTE_P | PTE_W);
	for (uint64_t n = 0; n < 4 * 512; n++)
		put_u64(pd + 8 * n, n * VMM_RAM_ALIGN | PTE_P | PTE_W | PTE_PS);
}

/* The kernel overwrites the seed when it has used it. */
static void linux_write_rng_seed(const struct vmm_ram *ram, const uint8_t *seed)
{
	uint8_t *node = ram->base + LINUX_RNG_SEED;

	put_u64(node, 0); /* the last one */
	put_u32(node + LINUX_SETUP_DATA_TYPE, LINUX_SETUP_RNG_SEED);
	put_u32(node + LINUX_SETUP_DATA_BYTES, BOOT_RNG_SEED_BYTES);
	memcpy(node + LINUX_SETUP_DATA_DATA, seed, BOOT_RNG_SEED_BYTES);
}

static void add_e820(uint8_t *zp, uint64_t gpa, uint64_t bytes, uint32_t type)
{
	uint8_t *e = zp + LINUX_ZP_E820 + LINUX_E820_ENTRY_BYTES * zp[LINUX_ZP_E820_NR]++;

	put_u64(e, gpa);
	put_u64(e + 8, bytes);
	put_u32(e + 16, type);
}

static void write_zero_page(const struct image *img, const struct vmm_ram *ram,
			    const struct boot_params *p, const struct layout *l)
{
	uint8_t *zp = ram->base + LINUX_ZERO_PAGE;

	if (img->setup_bytes) {
		memcpy(zp + LINUX_HDR, img->setup, img->setup_bytes);
	} else {
		put_u16(zp + LINUX_HDR_BOOT_FLAG, 0xaa55);
		memcpy(zp + LINUX_HDR_MAGIC, "HdrS", 4);
		put_u16(zp + LINUX_HDR_VERSION, VMLINUX_VERSION);
		put_u32(zp + LINUX_HDR_ALIGNMENT, VMM_RAM_ALIGN);
		put_u32(zp + LINUX_HDR_CMDLINE_SIZE, VMLINUX_CMDLINE_MAX);
		put_u32(zp + LINUX_HDR_INITRD_MAX, VMLINUX_INITRD_MAX);
	}
	zp[LINUX_HDR_LOADER] = LOADER_OTHER;
	zp[LINUX_HDR_LOADFLAGS] =
		(uint8_t)((zp[LINUX_HDR_LOADFLAGS] & ~LOADFLAGS_CLEARS) | LOADED_HIGH);
	put_u64(zp + LINUX_HDR_SETUP_DATA, p->rng_seed ? LINUX_RNG_SEED : 0);
	put_u32(zp + LINUX_HDR_CMDLINE, LINUX_CMDLINE);
	put_u32(zp + LINUX_HDR_RAMDISK, (uint32_t)l->initrd);
	put_u32(zp + LINUX_HDR_RAMDISK_SIZE, l->initrd ? (uint32_t)p->initrd->bytes : 0);
	put_u64(zp + LINUX_ZP_RSDP, LINUX_ACPI);

	add_e820(zp, 0, LINUX_LOW_END, LINUX_E820_RAM);
	add_e820(zp, LINUX_ACPI, LINUX_ACPI_END - LINUX_ACPI, LINUX_E820_RESERVED);
	add_e820(zp, LINUX_ACPI_END, ram->slot[0].bytes - LINUX_ACPI_END, LINUX_E820_RAM);
	for (unsigned int i = 1; i < ram->nr; i++)
		add_e820(zp, ram->slot[i].gpa, ram->slot[i].bytes, LINUX_E820_RAM);
}

/*
 * The code at the reset vector, for kernels with reboot=bios in their command line: mov
 * $PLATFORM_RESET, %dx; mov $PLATFORM_RESET_VALUE, %al; out %al, %dx; hlt; jmp to the hlt.
 */
static void write_reset(const struct vmm_ram *ram)
{
	static const uint8_t code[] = {0xba,
				       PLATFORM_RESET & 0xff,
				       PLATFORM_RESET >> 8,
				       0xb0,
				       PLATFORM_RESET_VALUE,
				       0xee,
				       0xf4,
				       0xeb,
				       0xfd};

	memcpy(ram->base + LINUX_RESET, code, sizeof(code));
}

static int linux_load(const struct image *img, const struct vmm_ram *ram,
		      const struct boot_params *p, uint64_t *entry, char *err, size_t errlen)
{
	static const uint64_t gdt[FLAT_GDT_BYTES(SEL_CODE) / 8] = {0, 0, DESC_CODE64, DESC_DATA,
								   DESC_TSS64};
	struct layout l;
	int ret = linux_plan(img, ram, p, &l, err, errlen);

	if (ret)
		return ret;
	elf_copy(img, &l.eh, &rules, ram);
	if (l.initrd)
		memcpy(ram->base + l.initrd, p->initrd->data, p->initrd->bytes);
	memcpy(ram->base + LINUX_GDT, gdt, sizeof(gdt));
	strcpy((char *)ram->base + LINUX_CMDLINE, l.prefix);
	strcat((char *)ram->base + LINUX_CMDLINE, l.cmdline);
	linux_write_pagetables(ram);
	if (p->rng_seed)
		linux_write_rng_seed(ram, p->rng_seed);
	write_zero_page(img, ram, p, &l);
	acpi_write(ram, p->nr_vcpus);
	write_reset(ram);
	*entry = l.eh.e_entry;
	return 0;
}

static void linux_registers(uint64_t entry, unsigned int vcpu, const struct boot_params *p,
			    struct kvm_regs *regs, struct kvm_sregs *sregs)
{
	*regs = (struct kvm_regs){
		.rip = entry,
		.rsi = LINUX_ZERO_PAGE,
		.rflags = 2, /* bit 1 is always set: interrupts off */
	};
	flat_sregs(sregs, LINUX_GDT, SEL_CODE, LINUX_PAGES);
}

const struct boot_protocol boot_linux = {
	.name = "linux",
	.platform = true,
	.probe = linux_probe,
	.check = linux_check,
	.load = linux_load,
	.registers = linux_registers,
};
