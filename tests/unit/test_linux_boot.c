// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/boot/linux.c and acpi.c: the state that a kernel finds in guest memory and in its registers,
 * and which kernels are refused. */
#include <stdio.h>
#include <unistd.h>

#include "bz_image.h"
#include "boot_bed.h"

static struct bz_vmlinux kernel;

static void init(void)
{
	bz_vmlinux(&kernel);
	boot_bed("vmlinux", &kernel, sizeof(kernel), 64 * MIB);
}

TestSuite(linux_boot, .init = init, .fini = fini);

static int load(void)
{
	return load_by(&boot_linux);
}

static const uint8_t *zero_page(void)
{
	return ram.base + LINUX_ZERO_PAGE;
}

struct e820 {
	uint64_t gpa, bytes;
	uint32_t type;
};

static struct e820 e820(unsigned int n)
{
	const uint8_t *e = zero_page() + LINUX_ZP_E820 + n * LINUX_E820_ENTRY_BYTES;

	return (struct e820){get_u64(e), get_u64(e + 8), get_u32(e + 16)};
}

static uint64_t walk(uint64_t va)
{
	return walk_from(LINUX_PAGES, va);
}

Test(linux_boot, vmlinux)
{
	static uint8_t disk[5000];
	struct image initrd = {.name = "initrd", .data = disk, .bytes = sizeof(disk)};
	uint32_t at;

	p = (struct boot_params){.args = "console=ttyS0 quiet", .initrd = &initrd, .nr_vcpus = 2};
	memset(disk, 0x5a, sizeof(disk));
	cr_assert_eq(boot_linux.check(&img, &ram, &p, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(ram.base[LINUX_ZERO_PAGE + LINUX_HDR_LOADER], 0, "check wrote");
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(entry, BZ_TEXT + 0x40);

	/* The kernel is at its physical addresses, with zeroes behind the file's bytes. */
	cr_assert(!memcmp(ram.base + BZ_TEXT, kernel.text, sizeof(kernel.text)));
	cr_assert(!memcmp(ram.base + BZ_DATA, kernel.data, sizeof(kernel.data)));
	cr_assert_eq(ram.base[BZ_DATA + sizeof(kernel.data)], 0);
	cr_assert(!memcmp(ram.base + BZ_DATA + 0x8000, kernel.data, 0x10));
	cr_assert_eq(ram.base[BZ_DATA + 0x8010], 0);

	/* boot.rst: the fields that the loader must fill in. */
	cr_assert_eq(get_u16(zero_page() + LINUX_HDR_BOOT_FLAG), 0xaa55);
	cr_assert(!memcmp(zero_page() + LINUX_HDR_MAGIC, "HdrS", 4));
	cr_assert_geq(get_u16(zero_page() + LINUX_HDR_VERSION), 0x20e); /* has acpi_rsdp_addr */
	cr_assert_eq(zero_page()[LINUX_HDR_LOADER], 0xff);
	cr_assert_eq(zero_page()[LINUX_HDR_LOADFLAGS] & 3, 1); /* high, and not moved by KASLR */
	cr_assert_eq(get_u64(zero_page() + LINUX_ZP_RSDP), LINUX_ACPI);
	cr_assert_eq(get_u32(zero_page() + LINUX_HDR_CMDLINE), LINUX_CMDLINE);
	cr_assert_str_eq((char *)ram.base + LINUX_CMDLINE, "reboot=acpi console=ttyS0 quiet");
	cr_assert_eq(zero_page()[0x1ef], 0, "the sentinel of zero-page.rst");

	/* The initrd is as high as it can be, in whole pages. */
	at = get_u32(zero_page() + LINUX_HDR_RAMDISK);
	cr_assert_eq(at, 64 * MIB - 8192);
	cr_assert_eq(get_u32(zero_page() + LINUX_HDR_RAMDISK_SIZE), sizeof(disk));
	cr_assert(!memcmp(ram.base + at, disk, sizeof(disk)));
	cr_assert_eq(ram.base[at - 1], 0);

	/* All that the entry needs is mapped where it is. */
	for (uint64_t va = 0; va < 4 * GIB; va += 0x1ff123)
		cr_assert_eq(walk(va), va, "0x%lx", va);
	cr_assert_eq(walk(4 * GIB), ~0ULL);
}

Test(linux_boot, registers)
{
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	uint64_t apic;

	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_str_eq((char *)ram.base + LINUX_CMDLINE, "reboot=acpi console=ttyS0 panic=-1");
	cr_assert_eq(get_u32(zero_page() + LINUX_HDR_RAMDISK), 0);
	cr_assert_eq(get_u32(zero_page() + LINUX_HDR_RAMDISK_SIZE), 0);
	memset(&sregs, 0xff, sizeof(sregs));
	apic = sregs.apic_base;
	boot_linux.registers(entry, 0, &p, &regs, &sregs);
	/* boot.rst, 64-bit boot protocol: __BOOT_CS is 10H, __BOOT_DS 18H, both flat; RSI is the
	 * zero page; interrupts are off. */
	cr_assert_eq(regs.rip, entry);
	cr_assert_eq(regs.rsi, LINUX_ZERO_PAGE);
	cr_assert_eq(regs.rflags, 2);
	cr_assert(sregs.cs.selector == 0x10 && sregs.cs.l && !sregs.cs.db && !sregs.cs.base);
	cr_assert(sregs.ds.selector == 0x18 && sregs.ss.selector == 0x18 &&
		  sregs.es.selector == 0x18);
	cr_assert_eq(sregs.cr3, LINUX_PAGES);
	cr_assert_eq(sregs.cr0 & 0x80000001, 0x80000001);
	cr_assert_eq(sregs.cr4, 0x20);
	cr_assert_eq(sregs.efer, 0x500);
	/* The descriptors in memory match the segment registers. */
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 0x10) >> 53 & 1, 1);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 0x10) >> 40 & 0xf, sregs.cs.type);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 0x18) >> 40 & 0xf, sregs.ds.type);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 0x20) >> 40 & 0xf, sregs.tr.type);
	/* The engine's local APIC stays as it is. */
	cr_assert_eq(sregs.apic_base, apic);
	/* A reset by the firmware's entry: it writes 6 to port CF9H and halts. */
	cr_assert(!memcmp(ram.base + 0xffff0, "\xba\xf9\x0c\xb0\x06\xee\xf4\xeb\xfd", 9));
}

/* The header of a bzImage comes into the zero page, except for the loader's fields. */
Test(linux_boot, bzimage)
{
	const uint8_t *hdr;
	struct image bz;
	char *cmdline;

	cr_assert(bz_image(BZ_ZSTD, &kernel, sizeof(kernel), &bz));
	cr_assert_eq(linux_unpack(&bz, err, sizeof(err)), 0, "%s", err);
	img = bz;
	cr_assert_eq(load(), 0, "%s", err);
	hdr = zero_page() + LINUX_HDR;
	cr_assert_eq(get_u16(hdr + LINUX_HDR_XLOADFLAGS - LINUX_HDR), 0x7f);
	cr_assert_eq(get_u32(hdr + LINUX_HDR_CMDLINE_SIZE - LINUX_HDR), BZ_CMDLINE);
	cr_assert_eq(hdr[LINUX_HDR_LOADFLAGS - LINUX_HDR], 1);
	cr_assert_eq(get_u64(hdr + LINUX_HDR_SETUP_DATA - LINUX_HDR), 0, "a list of the file's");
	cr_assert(!memcmp(ram.base + BZ_TEXT, kernel.text, sizeof(kernel.text)));

	/* It has the longest command line that it takes. */
	cmdline = calloc(1, BZ_CMDLINE + 2);
	memset(cmdline, 'x', BZ_CMDLINE);
	memcpy(cmdline, "quiet reboot=t ", 15); /* nothing is put in front of it */
	p.args = cmdline;
	cr_assert_eq(load(), 0, "%s", err);
	cmdline[BZ_CMDLINE] = 'x';
	REFUSED(load(), -EINVAL, "cmdline: 301 bytes long; expected up to 300");
	memcpy(cmdline, "quiet_reboot=t ", 15);
	cmdline[BZ_CMDLINE - 12] = 0;
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(strlen((char *)ram.base + LINUX_CMDLINE), BZ_CMDLINE);
	cr_assert(!strncmp((char *)ram.base + LINUX_CMDLINE, "reboot=acpi quiet_reboot=t x", 28));
	cmdline[BZ_CMDLINE - 12] = 'x';
	cmdline[BZ_CMDLINE - 11] = 0;
	REFUSED(load(), -EINVAL, "289 bytes long; expected up to 288");
	free(cmdline);
	/* For any value there are 4 KiB for it. */
	put_u32(bz.setup + LINUX_HDR_CMDLINE_SIZE - LINUX_HDR, UINT32_MAX);
	cmdline = calloc(1, 4097);
	memset(cmdline, 'x', 4096);
	p.args = cmdline;
	REFUSED(load(), -EINVAL, "expected up to 4083");
	put_u32(bz.setup + LINUX_HDR_CMDLINE_SIZE - LINUX_HDR, 5);
	REFUSED(load(), -EINVAL, "expected up to 0");
	free(cmdline);
	image_free(&bz);
}

/* boot.rst, "setup_data": a list of one node, outside of all that is used until the kernel has read
 * it, in the least RAM that has room for the kernel, too. */
Test(linux_boot, rng_seed)
{
	static const uint64_t ram_bytes[] = {(BZ_END + 2 * MIB) & ~(2 * MIB - 1), 64 * MIB,
					     5 * GIB};
	static uint8_t disk[5000];
	struct image initrd = {.name = "initrd", .data = disk, .bytes = sizeof(disk)};
	uint8_t seed[BOOT_RNG_SEED_BYTES];
	char cmdline[2047 - 12 + 1]; /* the longest */
	uint64_t at, end;
	struct e820 e;

	for (size_t i = 0; i < sizeof(seed); i++)
		seed[i] = (uint8_t)(0xa0 + i);
	memset(cmdline, 'x', sizeof(cmdline) - 1);
	cmdline[sizeof(cmdline) - 1] = 0;
	memset(disk, 0x5a, sizeof(disk));
	for (size_t i = 0; i < sizeof(ram_bytes) / sizeof(ram_bytes[0]); i++) {
		other_ram(ram_bytes[i]);
		p = (struct boot_params){.args = cmdline,
					 .initrd = &initrd,
					 .rng_seed = seed,
					 .nr_vcpus = PLATFORM_VCPUS_MAX};
		cr_assert_eq(load(), 0, "%s", err);
		at = get_u64(zero_page() + LINUX_HDR_SETUP_DATA);
		end = at + 16 + sizeof(seed);
		e = e820(0);
		cr_assert(e.type == 1 && e.gpa <= at && end <= e.gpa + e.bytes);
		cr_assert(end <= get_u32(zero_page() + LINUX_HDR_RAMDISK) && end <= BZ_TEXT);
		cr_assert(at >= LINUX_ZERO_PAGE + 4096 && end <= LINUX_PAGES);
		cr_assert(end <= LINUX_CMDLINE, "the page tables are in between");
		/* next, type, len, data */
		cr_assert_eq(get_u64(ram.base + at), 0);
		cr_assert_eq(get_u32(ram.base + at + 8), 9);
		cr_assert_eq(get_u32(ram.base + at + 12), 32);
		cr_assert(!memcmp(ram.base + at + 16, seed, sizeof(seed)));
		/* All else is as without a seed. */
		cr_assert_eq(walk(4 * GIB - 1), 4 * GIB - 1);
		cr_assert_eq(strlen((char *)ram.base + LINUX_CMDLINE), strlen(cmdline) + 12);
		cr_assert(!memcmp(ram.base + get_u32(zero_page() + LINUX_HDR_RAMDISK), disk,
				  sizeof(disk)));
	}
	/* Without one there is no list. */
	other_ram(64 * MIB);
	p.rng_seed = NULL;
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(get_u64(zero_page() + LINUX_HDR_SETUP_DATA), 0);
	cr_assert_eq(ram.base[LINUX_RNG_SEED + 8], 0);
}

Test(linux_boot, e820)
{
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(zero_page()[LINUX_ZP_E820_NR], 3);
	other_ram(5 * GIB);
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(zero_page()[LINUX_ZP_E820_NR], 4);
	cr_assert(e820(0).gpa == 0 && e820(0).bytes == 0x9fc00 && e820(0).type == 1);
	cr_assert(e820(1).gpa == 0xe0000 && e820(1).bytes == 0x20000 && e820(1).type == 2);
	cr_assert(e820(2).gpa == MIB && e820(2).bytes == 3 * GIB - MIB && e820(2).type == 1);
	cr_assert(e820(3).gpa == 4 * GIB && e820(3).bytes == 2 * GIB && e820(3).type == 1);
}

/* ---- refusals ---- */

Test(linux_boot, initrd_too_big)
{
	/* The space between the kernel's end and that of RAM, and one byte more. */
	const size_t most = 64 * MIB - BZ_END;
	struct image initrd = {.name = "disk", .data = calloc(1, most + 1), .bytes = most};
	struct image bz;
	char says[64];

	p.initrd = &initrd;
	cr_assert(initrd.data);
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(get_u32(zero_page() + LINUX_HDR_RAMDISK), BZ_END);
	initrd.bytes++;
	cr_assert_eq(load(), -EINVAL);
	snprintf(says, sizeof(says), "disk: initrd of %zu bytes; expected up to %zu", most + 1,
		 most);
	cr_assert(strstr(err, says), "%s", err);

	/* The kernel may not reach all of RAM. */
	cr_assert(bz_image(BZ_GZIP, &kernel, sizeof(kernel), &bz));
	put_u32(bz.data + LINUX_HDR_INITRD_MAX, 32 * MIB - 1);
	cr_assert_eq(linux_unpack(&bz, err, sizeof(err)), 0, "%s", err);
	img = bz;
	initrd.bytes = 32 * MIB - BZ_END;
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(get_u32(zero_page() + LINUX_HDR_RAMDISK), BZ_END);
	initrd.bytes++;
	cr_assert_eq(load(), -EINVAL);
	/* Or nothing behind itself. */
	put_u32(bz.setup + LINUX_HDR_INITRD_MAX - LINUX_HDR, 0);
	initrd.bytes = 1;
	REFUSED(load(), -EINVAL, "expected up to 0");
	image_free(&bz);
	free(initrd.data);
}

Test(linux_boot, vcpus)
{
	p.nr_vcpus = 16;
	cr_assert_eq(load(), 0, "%s", err);
	p.nr_vcpus = 17;
	REFUSED(load(), -EINVAL, "17 vCPUs; expected 1 to 16 with a kernel");
	p.nr_vcpus = 0;
	cr_assert_eq(load(), -EINVAL);
}

/* Since Linux 6.18 startup_64 is in the segment RW-. Nothing is forbidden to be executed before the
 * kernel's own page tables. */
Test(linux_boot, entry_in_the_writable_segment)
{
	kernel.eh.e_entry = BZ_DATA + 0x2ff;
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(entry, BZ_DATA + 0x2ff);
}

Test(linux_boot, kernels)
{
	static const struct {
		int line;
		size_t offset, bytes;
		uint64_t value;
		const char *says;
	} rows[] = {
#define PH(n, field, value, says)                                                                  \
	{__LINE__,                                                                                 \
	 offsetof(struct bz_vmlinux, ph) + (n) * sizeof(Elf64_Phdr) + offsetof(Elf64_Phdr, field), \
	 sizeof(((Elf64_Phdr *)0)->field), value, says}
		PH(0, p_paddr, 0xff000, "p_paddr is 0xff000; expected 0x100000 or above"),
		PH(0, p_paddr, 0, "p_paddr is 0x0"),
		PH(0, p_paddr, 64 * MIB, "p_memsz"),
		PH(0, p_paddr, 64 * MIB + 1, "p_paddr"),
		PH(0, p_paddr, UINT64_MAX, "p_paddr"),
		PH(1, p_memsz, 64 * MIB, "give the VM more?"),
		PH(1, p_memsz, UINT64_MAX, "p_memsz"),
		PH(1, p_memsz, 0x8001, "p_paddr is 0x1208000; expected segments that do not"),
		PH(1, p_paddr, BZ_TEXT, "segments that do not overlap"),
		PH(0, p_filesz, 0x401, "p_filesz"),
		PH(0, p_offset, UINT64_MAX, "p_offset"),
		PH(2, p_type, PT_INTERP, "p_type"),
		{__LINE__, offsetof(struct bz_vmlinux, eh.e_entry), 8, BZ_VIRTUAL + BZ_TEXT,
		 "e_entry"},
		{__LINE__, offsetof(struct bz_vmlinux, eh.e_entry), 8, BZ_DATA + 0x300, "e_entry"},
		{__LINE__, offsetof(struct bz_vmlinux, eh.e_machine), 2, EM_386, "e_machine"},
		{__LINE__, offsetof(struct bz_vmlinux, eh.e_type), 2, ET_DYN, "e_type"},
	};
	static const uint8_t zero[4096];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bz_vmlinux(&kernel);
		memcpy((uint8_t *)&kernel + rows[i].offset, &rows[i].value, rows[i].bytes);
		cr_assert_eq(load(), -ENOEXEC, "line %d", rows[i].line);
		cr_assert(strstr(err, rows[i].says), "line %d: %s", rows[i].line, err);
		cr_assert(!strncmp(err, "vmlinux: ", 9) && !strchr(err, '\n'), "%s", err);
		cr_assert(!memcmp(ram.base + LINUX_ZERO_PAGE, zero, sizeof(zero)), "line %d",
			  rows[i].line);
		cr_assert_eq(ram.base[BZ_TEXT + 1], 0, "line %d", rows[i].line);
	}
	bz_vmlinux(&kernel);
	kernel.eh.e_ident[0] = 0;
	REFUSED(load(), -ENOEXEC, "vmlinux: no kernel; expected a bzImage or an ELF64 vmlinux");
	/* More than 4 GiB are beyond the tables. */
	other_ram(5 * GIB);
	bz_vmlinux(&kernel);
	kernel.ph[0].p_paddr = 4 * GIB;
	kernel.eh.e_entry = 4 * GIB;
	REFUSED(load(), -ENOEXEC, "e_entry is 0x100000000; expected below 4 GiB");
}

/* ---- ACPI ---- */

static const uint8_t *at(uint64_t gpa)
{
	cr_assert(gpa >= LINUX_ACPI && gpa < LINUX_ACPI_END, "0x%lx", gpa);
	return ram.base + gpa;
}

static void check_sum(const uint8_t *p, size_t n)
{
	uint8_t s = 0;

	for (size_t i = 0; i < n; i++)
		s = (uint8_t)(s + p[i]);
	cr_assert_eq(s, 0, "checksum of %.4s", (const char *)p);
}

/* The table at @gpa, with its checksum looked at. */
static const uint8_t *table(uint64_t gpa, const char *signature)
{
	const uint8_t *t = at(gpa);

	cr_assert(!memcmp(t, signature, 4), "%.4s", (const char *)t);
	cr_assert(gpa + get_u32(t + 4) <= LINUX_RESET);
	check_sum(t, get_u32(t + 4));
	return t;
}

static const uint8_t *tables(const uint8_t **fadt, const uint8_t **madt)
{
	const uint8_t *rsdp = at(get_u64(zero_page() + LINUX_ZP_RSDP)), *xsdt;

	cr_assert(!memcmp(rsdp, "RSD PTR ", 8));
	cr_assert_eq(rsdp[15], 2);
	check_sum(rsdp, 20);
	check_sum(rsdp, get_u32(rsdp + 20));
	xsdt = table(get_u64(rsdp + 24), "XSDT");
	cr_assert_eq(get_u32(xsdt + 4), 36 + 2 * 8);
	*fadt = table(get_u64(xsdt + 36), "FACP");
	*madt = table(get_u64(xsdt + 44), "APIC");
	return table(get_u64(*fadt + 140), "DSDT");
}

/* A register of 8 bits in I/O space (ACPI 6.4, 5.2.3.2). */
static void check_port(const uint8_t *gas, uint16_t port)
{
	cr_assert(gas[0] == 1 && gas[1] == 8 && gas[2] == 0 && get_u64(gas + 4) == port);
}

Test(linux_boot, acpi)
{
	static const unsigned int vcpus[] = {1, 4, 16};
	const uint8_t *fadt, *madt, *dsdt, *e;

	for (size_t i = 0; i < 3; i++) {
		p.nr_vcpus = vcpus[i];
		cr_assert_eq(load(), 0, "%s", err);
		dsdt = tables(&fadt, &madt);
		/* Hardware-reduced, with a reset register; no VGA, no CMOS clock, no keyboard. */
		cr_assert_eq(get_u32(fadt + 4), 276);
		cr_assert_eq(get_u32(fadt + 112) & (1 << 20 | 1 << 10), 1 << 20 | 1 << 10);
		cr_assert_eq(get_u16(fadt + 109), 0x24);
		check_port(fadt + 116, PLATFORM_RESET);
		cr_assert_eq(fadt[128], PLATFORM_RESET_VALUE);
		check_port(fadt + 244, PLATFORM_SLEEP_CONTROL);
		check_port(fadt + 256, PLATFORM_SLEEP_STATUS);

		cr_assert_eq(get_u32(madt + 36), PLATFORM_LAPIC);
		cr_assert_eq(get_u32(madt + 40) & 1, 0, "there are no 8259s");
		e = madt + 44;
		for (unsigned int v = 0; v < vcpus[i]; v++, e += 8)
			cr_assert(e[0] == 0 && e[1] == 8 && e[3] == v && get_u32(e + 4) == 1);
		cr_assert(e[0] == 1 && e[1] == 12 && get_u32(e + 4) == PLATFORM_IOAPIC &&
			  get_u32(e + 8) == 0);
		cr_assert_eq(e + 12 - madt, get_u32(madt + 4));
		cr_assert(memmem(dsdt, get_u32(dsdt + 4), "\x41\xd0\x05\x01", 4), "PNP0501");
		cr_assert(memmem(dsdt, get_u32(dsdt + 4), "_S5_\x12", 5));
	}
}

/* ACPI's own compiler understands the AML, and decodes it as meant. */
Test(linux_boot, aml_disassembled)
{
	static const char *const has[] = {
		"Device (COM1)",
		"EisaId (\"PNP0501\")",
		"Name (\\_S5, Package (0x02)",
	};
	/* iasl 20260408 shows no resources any more, its own neither, but their bytes. */
	static const char *const resources[2][3] = {
		{"0x03F8,             // Range Minimum",
		 "ResourceConsumer, Edge, ActiveHigh, Exclusive", "0x00000004,"},
		{"0x47, 0x01, 0xF8, 0x03, 0xF8, 0x03, 0x01, 0x08, ",
		 "0x89, 0x06, 0x00, 0x03, 0x01, 0x04, 0x00, 0x00, ", "0x00, 0x79, 0x00 "},
	};
	const uint8_t *fadt, *madt, *dsdt;
	char dir[] = "/tmp/vpmu-aml-XXXXXX", cmd[200], path[64], *text;
	FILE *f;

	if (system("command -v iasl >/dev/null 2>&1"))
		cr_skip_test("# SKIP no iasl (acpica-tools)");
	cr_assert_eq(load(), 0, "%s", err);
	dsdt = tables(&fadt, &madt);
	cr_assert(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/dsdt.aml", dir);
	f = fopen(path, "w");
	cr_assert(f && fwrite(dsdt, get_u32(dsdt + 4), 1, f) == 1 && !fclose(f));
	snprintf(cmd, sizeof(cmd),
		 "cd %s && iasl -d dsdt.aml >log 2>&1 && iasl -we dsdt.dsl >>log 2>&1", dir);
	cr_assert_eq(system(cmd), 0, "%s", cmd);
	snprintf(path, sizeof(path), "%s/dsdt.dsl", dir);
	text = calloc(1, 1 << 16);
	f = fopen(path, "r");
	cr_assert(text && f && fread(text, 1, (1 << 16) - 1, f));
	fclose(f);
	for (size_t i = 0; i < sizeof(has) / sizeof(has[0]); i++)
		cr_assert(strstr(text, has[i]), "%s in %s", has[i], text);
	for (size_t i = 0; i < 3; i++) {
		const char *r = resources[!strstr(text, "ResourceTemplate ()")][i];

		cr_assert(strstr(text, r), "%s in %s", r, text);
	}
	free(text);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	cr_assert_eq(system(cmd), 0);
}
