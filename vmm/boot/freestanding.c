// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The boot protocol of freestanding images (vpmu/guest/abi.h): checks a static ELF64 executable,
 * copies it into guest RAM, writes the boot area (GDT, boot info, arguments, page tables) and gives
 * the registers that every vCPU starts with.
 *
 * Layouts: System V ABI ch. 4 and 5 (ELF header, program header), SDM vol. 3, 3.4.5 and 5.5 / APM
 * vol. 2, 4.8 and 5.3 (descriptors, long-mode page tables).
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/elf.h"
#include "vmm/boot/flat.h"
#include "vpmu/util/fail.h"
#include "vpmu/guest/abi.h"

#define PAGE_BYTES	4096ULL
#define PAGETABLES_END	0x80000ULL /* vpmu/guest/abi.h */
#define ENTRIES		512ULL
#define DIRECTORY_BYTES (ENTRIES * VMM_RAM_ALIGN)	/* what one page directory maps: 1 GiB */
#define ADDRESS_MAX	(VMM_RAM_MAX + DIRECTORY_BYTES) /* RAM and the hole below 4 GiB */

_Static_assert(VPMU_BOOT_PAGETABLES + (2 + ADDRESS_MAX / DIRECTORY_BYTES) * PAGE_BYTES <=
		       PAGETABLES_END,
	       "page tables of the largest RAM fit the boot area");

#define SEL_CODE 0x08

/* IA32_APIC_BASE */
#define APIC_BASE_ADDRESS 0xfee00000u
#define APIC_BASE_BSP	  (1u << 8)
#define APIC_BASE_EXTD	  (1u << 10)
#define APIC_BASE_EN	  (1u << 11)

static const struct elf_rules rules = {
	.lowest = VPMU_BOOT_IMAGE,
	.lowest_text = "0x200000 or above",
	.same_addresses = true,
};

static int check_image(const struct elf_check *c, Elf64_Ehdr *eh)
{
	int ret = elf_header(c, eh);

	return ret ? ret : elf_segments(c, eh);
}

static int check_params(const struct vmm_ram *ram, const struct boot_params *p, char *err,
			size_t errlen)
{
	uint64_t bytes = vmm_ram_bytes(ram);

	if (bytes < VMM_RAM_MIN || bytes > VMM_RAM_MAX || bytes % VMM_RAM_ALIGN ||
	    vmm_ram_end(ram) > ADDRESS_MAX)
		return fail(-EINVAL, err, errlen,
			    "guest memory is %" PRIu64 " bytes; expected 4M to 64G in steps of 2M",
			    bytes);
	if (p->args && strlen(p->args) > VPMU_BOOT_ARGS_MAX)
		return fail(-EINVAL, err, errlen,
			    "guest arguments are %zu bytes long; expected up to %u",
			    strlen(p->args), VPMU_BOOT_ARGS_MAX);
	return 0;
}

static int freestanding_check(const struct image *img, const struct vmm_ram *ram,
			      const struct boot_params *p, char *err, size_t errlen)
{
	struct elf_check c = {img, ram, &rules, err, errlen};
	int ret = check_params(ram, p, err, errlen);
	Elf64_Ehdr eh;

	return ret ? ret : check_image(&c, &eh);
}

/* Map all RAM 1:1 with 2 MiB pages: one PML4, one PDPT, a page directory per GiB that has RAM. */
static void freestanding_write_pagetables(const struct vmm_ram *ram)
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
	struct elf_check c = {img, ram, &rules, err, errlen};
	const char *args = p->args ? p->args : "";
	uint64_t gdt[FLAT_GDT_BYTES(SEL_CODE) / 8] = {0, DESC_CODE64, DESC_DATA, DESC_TSS64, 0};
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
	int ret;

	ret = check_params(ram, p, err, errlen);
	if (ret)
		return ret;
	ret = check_image(&c, &eh);
	if (ret)
		return ret;

	elf_copy(img, &eh, &rules, ram);
	memcpy(ram->base + VPMU_BOOT_GDT, gdt, sizeof(gdt));
	memcpy(ram->base + VPMU_BOOT_INFO, &info, sizeof(info));
	memcpy(ram->base + VPMU_BOOT_ARGS, args, strlen(args) + 1);
	freestanding_write_pagetables(ram);
	*entry = eh.e_entry;
	return 0;
}

static void freestanding_registers(uint64_t entry, unsigned int vcpu, const struct boot_params *p,
				   struct kvm_regs *regs, struct kvm_sregs *sregs)
{
	*regs = (struct kvm_regs){
		.rip = entry,
		.rdi = vcpu,
		.rsi = VPMU_BOOT_INFO,
		.rflags = 2, /* bit 1 is always set: interrupts off */
	};
	flat_sregs(sregs, VPMU_BOOT_GDT, SEL_CODE, VPMU_BOOT_PAGETABLES);
	sregs->cr0 |= CR0_MP | CR0_NE | CR0_WP;
	sregs->efer |= EFER_SCE | EFER_NXE;
	/* x2APIC mode from the start; vCPU 0 is the boot processor (SDM vol. 3, 11.4.4). */
	if (p->lapic)
		sregs->apic_base = APIC_BASE_ADDRESS | APIC_BASE_EN | APIC_BASE_EXTD |
				   (vcpu ? 0 : APIC_BASE_BSP);
}

const struct boot_protocol boot_freestanding = {
	.name = "freestanding",
	.probe = elf_probe,
	.check = freestanding_check,
	.load = freestanding_load,
	.registers = freestanding_registers,
};
