// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/boot/multiboot.c: what an image finds in memory and in its registers, that it runs from there
 * on the emulator, and refusals. */
#include "boot_bed.h"
#include "multiboot_image.h"
#include "vmm/boot/linux.h"
#include "vmm/engine/engine.h"

static struct mb_image image;

static void init(void)
{
	mb_image(&image);
	boot_bed("dir/test.flat", &image, sizeof(image), 16 * MIB);
}

TestSuite(multiboot, .init = init, .fini = fini);

static int load(void)
{
	return load_by(&boot_multiboot);
}

static uint32_t info(unsigned int field)
{
	return get_u32(ram.base + MULTIBOOT_INFO + field);
}

Test(multiboot, memory)
{
	static uint8_t disk[5000];
	struct image initrd = {.name = "env", .data = disk, .bytes = sizeof(disk)};
	const uint8_t *mmap, *module;

	p = (struct boot_params){.args = "one two", .initrd = &initrd, .nr_vcpus = 2};
	memset(disk, 0x5a, sizeof(disk));
	cr_assert(boot_multiboot.probe(&img));
	cr_assert_eq(boot_multiboot.check(&img, &ram, &p, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(info(0), 0, "check wrote");
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(entry, image.eh.e_entry);
	cr_assert(!memcmp(ram.base + MB_AT, &image, sizeof(image)));
	cr_assert_eq(get_u32(ram.base + MB_BSS), 0x464c457f);
	cr_assert_eq(ram.base[MB_BSS + 4], 0);

	/* 3.3 of the specification: memory, command line, modules, memory map. */
	cr_assert_eq(info(0), 1 << 0 | 1 << 2 | 1 << 3 | 1 << 6);
	cr_assert_eq(info(4), 639);
	cr_assert_eq(info(8), 15 * 1024);
	cr_assert_str_eq((char *)ram.base + info(16), "test.flat one two");
	cr_assert_eq(info(20), 1);
	module = ram.base + info(24);
	cr_assert_eq(get_u32(module), 16 * MIB - 8192);
	cr_assert_eq(get_u32(module + 4), 16 * MIB - 8192 + sizeof(disk));
	cr_assert_eq(ram.base[get_u32(module + 8)], 0);
	cr_assert(!memcmp(ram.base + get_u32(module), disk, sizeof(disk)));
	cr_assert_eq(info(44), 3 * 24);
	mmap = ram.base + info(48);
	cr_assert(get_u32(mmap) == 20 && get_u64(mmap + 4) == 0 && get_u64(mmap + 12) == 0x9fc00 &&
		  get_u32(mmap + 20) == 1);
	cr_assert(get_u64(mmap + 28) == 0xe0000 && get_u64(mmap + 36) == 0x20000 &&
		  get_u32(mmap + 44) == 2);
	cr_assert(get_u64(mmap + 52) == MIB && get_u64(mmap + 60) == 15 * MIB &&
		  get_u32(mmap + 68) == 1);
	/* Where kernels without a pointer look for ACPI. */
	cr_assert(!memcmp(ram.base + LINUX_ACPI, "RSD PTR ", 8));
}

Test(multiboot, without_module_or_arguments)
{
	other_ram(5 * GIB);
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(info(0) & 1 << 3, 0);
	cr_assert_eq(info(20), 0);
	cr_assert_str_eq((char *)ram.base + info(16), "test.flat");
	cr_assert_eq(info(8), (3 * GIB - MIB) >> 10);
	cr_assert_eq(info(44), 4 * 24);
	cr_assert_eq(get_u64(ram.base + info(48) + 3 * 24 + 4), 4 * GIB);
}

/* 3.2: the image starts as specified. */
Test(multiboot, runs)
{
	/* A whole CPU, as VMs with a kernel have it: it shows FXSR. */
	struct kvm_cpuid_entry2 cpuid = {.function = 1, .edx = 1u << 24};
	struct vmm_run run = {.budget = 100};
	struct vmm_engine_vcpu *v;
	struct vmm_engine_vm *vm;
	struct vmm_engine *e;
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(vmm_emu_ops.open(&e, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(vmm_emu_ops.vm_create(e, &ram, &vm), 0);
	cr_assert_eq(vmm_emu_ops.vcpu_create(vm, 0, &v), 0);
	cr_assert_eq(vmm_emu_ops.set_cpuid(v, &cpuid, 1), 0);
	vmm_emu_ops.get_sregs(v, &sregs);
	boot_multiboot.registers(entry, 0, &p, &regs, &sregs);
	cr_assert_eq(sregs.cr0, 0x11);
	cr_assert(sregs.cs.db && !sregs.cs.l && sregs.cs.selector == 8 &&
		  sregs.ss.selector == 0x10);
	/* The descriptors in memory match the segment registers. */
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 8), 0x00cf9b000000ffff);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 16), 0x00cf93000000ffff);
	cr_assert_eq(vmm_emu_ops.set_sregs(v, &sregs), 0);
	cr_assert_eq(vmm_emu_ops.set_regs(v, &regs), 0);
	cr_assert_eq(vmm_emu_ops.run(v, &run), 0);
	cr_assert_eq(run.exit, VMM_EXIT_IO, "exit %d: %s", run.exit, run.u.error.msg);
	cr_assert_eq(run.u.io.port, PLATFORM_DEBUG_EXIT);
	cr_assert_eq(run.u.io.data, 0x2badb002 + (1 << 0 | 1 << 2 | 1 << 6) + 't');
	cr_assert_eq(get_u32(ram.base + MB_BSS), run.u.io.data);
	vmm_emu_ops.vcpu_destroy(v);
	vmm_emu_ops.vm_destroy(vm);
	vmm_emu_ops.close(e);
}

/* At a multiple of 4, with all of it in the first 8192 bytes, and with its checksum. */
Test(multiboot, header)
{
	static const struct {
		unsigned int at, bytes;
		bool found;
	} rows[] = {{8180, 16384, true},
		    {8184, 16384, false},
		    {2, 16384, false},
		    {0, 12, true},
		    {0, 11, false}};
	uint8_t *file = calloc(1, 16384);
	struct image far = {.name = "far", .data = file};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		memset(file, 0, 16384);
		memcpy(file + rows[i].at, image.header, 12);
		far.bytes = rows[i].bytes;
		cr_assert_eq(boot_multiboot.probe(&far), rows[i].found, "row %zu", i);
		file[rows[i].at + 8]++;
		cr_assert_not(boot_multiboot.probe(&far), "row %zu, another checksum", i);
	}
	free(file);
}

Test(multiboot, refused)
{
	static const struct {
		int line;
		size_t offset, bytes;
		uint64_t value;
		const char *says;
	} rows[] = {
#define AT(member, value, says)                                                                    \
	{__LINE__, offsetof(struct mb_image, member), sizeof(((struct mb_image *)0)->member),      \
	 value, says}
		AT(eh.e_ident[0], 0, "e_ident is 00 45 4c 46; expected 7f 45 4c 46 (ELF)"),
		AT(eh.e_ident[EI_CLASS], ELFCLASS64, "e_ident[EI_CLASS] is 0x2"),
		AT(eh.e_ident[EI_DATA], ELFDATA2MSB, "e_ident[EI_DATA]"),
		AT(eh.e_type, ET_DYN, "e_type"),
		AT(eh.e_machine, EM_X86_64, "e_machine"),
		AT(eh.e_phentsize, 56, "e_phentsize"),
		AT(eh.e_phnum, 0, "e_phnum"),
		AT(eh.e_phnum, 65, "e_phnum"),
		AT(eh.e_phoff, sizeof(struct mb_image) - 95, "e_phoff"),
		AT(eh.e_phoff, UINT32_MAX, "e_phoff"),
		AT(eh.e_entry, MB_AT - 1, "e_entry"),
		AT(eh.e_entry, MB_AT + sizeof(struct mb_image), "e_entry"),
		AT(ph[0].p_filesz, sizeof(struct mb_image) + 1, "header 0: p_filesz"),
		AT(ph[1].p_offset, sizeof(struct mb_image) - 3, "header 1: p_offset"),
		AT(ph[1].p_offset, UINT32_MAX, "p_offset"),
		AT(ph[1].p_paddr, 0xff000, "p_paddr is 0xff000; expected 0x100000 or above"),
		AT(ph[1].p_paddr, 16 * MIB - 0x2fff, "give the VM more?"),
		AT(ph[1].p_paddr, UINT32_MAX,
		   "header 1: p_paddr is 0xffffffff; expected an address in guest memory"),
		AT(ph[1].p_memsz, UINT32_MAX, "p_memsz"),
		AT(ph[1].p_paddr, MB_AT - 0x2fff, "segments that do not overlap"),
		AT(ph[1].p_paddr, MB_AT + 1, "segments that do not overlap"),
	};
	static const uint8_t zero[4096];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		mb_image(&image);
		memcpy((uint8_t *)&image + rows[i].offset, &rows[i].value, rows[i].bytes);
		cr_assert_eq(load(), -ENOEXEC, "line %d", rows[i].line);
		cr_assert(strstr(err, rows[i].says), "line %d: %s", rows[i].line, err);
		cr_assert(!strncmp(err, "dir/test.flat: ", 15) && !strchr(err, '\n'), "%s", err);
		cr_assert(!memcmp(ram.base + MULTIBOOT_INFO, zero, sizeof(zero)), "line %d",
			  rows[i].line);
		cr_assert_eq(ram.base[MB_AT], 0, "line %d", rows[i].line);
	}
	/* As near as it may be. */
	mb_image(&image);
	image.ph[1].p_paddr = 16 * MIB - 0x3000;
	cr_assert_eq(load(), 0, "%s", err);
}

static void flags(uint32_t value, int ret)
{
	image.header[1] = value;
	image.header[2] = -(0x1badb002u + value);
	cr_assert_eq(load(), ret, "0x%x: %s", value, err);
}

Test(multiboot, flags)
{
	flags(0, 0);
	flags(1 << 0 | 1 << 1 | 1u << 31, 0);
	flags(1 << 2, -ENOEXEC);
	cr_assert(strstr(err, "flags is 0x4; expected bits 0 and 1 of bits 15:0"), "%s", err);
	flags(1 << 15, -ENOEXEC);
	flags(1 << 16, -ENOEXEC);
	cr_assert(strstr(err, "bit 16 clear"), "%s", err);
	image.header[2]++;
	REFUSED(boot_multiboot.check(&img, &ram, &p, err, sizeof(err)), -ENOEXEC,
		"no multiboot header");
}

Test(multiboot, parameters)
{
	static uint8_t disk[16 << 20];
	struct image initrd = {.name = "env", .data = disk};
	char *args;

	p.nr_vcpus = PLATFORM_VCPUS_MAX + 1;
	REFUSED(load(), -EINVAL, "17 vCPUs; expected 1 to 16 with a kernel");
	p.nr_vcpus = 0;
	cr_assert_eq(load(), -EINVAL);
	p.nr_vcpus = PLATFORM_VCPUS_MAX;
	args = calloc(1, 4097);
	memset(args, 'x', 4096);
	p.args = args;
	REFUSED(load(), -EINVAL, "cmdline: 4096 bytes long; expected up to 4095");
	args[4095] = 0;
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(strlen((char *)ram.base + info(16)), 9 + 1 + 4095);
	/* The module fits up to the kernel's last page. */
	p.initrd = &initrd;
	initrd.bytes = 16 * MIB - (MB_BSS + 0x3000);
	cr_assert_eq(load(), 0, "%s", err);
	initrd.bytes++;
	REFUSED(load(), -EINVAL, "env: initrd of 11522049 bytes; expected up to 11522048");
	free(args);
}
