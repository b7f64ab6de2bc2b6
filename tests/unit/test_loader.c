// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/boot, the freestanding protocol: a good image, and every header field that is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot_bed.h"
#include "tests/elf_image.h"
#include "vpmu/guest/abi.h"

#define RAM_BYTES (16ULL << 20)
#define TEXT_OFF  0x1000
#define TEXT_LEN  0x20
#define DATA_OFF  0x2000
#define DATA_LEN  0x30

/* An image of three program headers: text, data with bss, a note that is not loaded. */
struct file {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	uint8_t pad[0x3000 - sizeof(Elf64_Ehdr) - 3 * sizeof(Elf64_Phdr)];
};

static void good_file(struct file *f)
{
	memset(f, 0, sizeof(*f));
	f->eh = elf_program(VPMU_BOOT_IMAGE + 0x10, 3);
	f->ph[0] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_offset = TEXT_OFF,
		.p_vaddr = VPMU_BOOT_IMAGE,
		.p_paddr = VPMU_BOOT_IMAGE,
		.p_filesz = TEXT_LEN,
		.p_memsz = TEXT_LEN,
		.p_align = 0x1000,
	};
	f->ph[1] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = DATA_OFF,
		.p_vaddr = VPMU_BOOT_IMAGE + 0x1000,
		.p_paddr = VPMU_BOOT_IMAGE + 0x1000,
		.p_filesz = DATA_LEN,
		.p_memsz = 0x5000,
		.p_align = 0x1000,
	};
	f->ph[2] = (Elf64_Phdr){.p_type = PT_NOTE};
	memset((uint8_t *)f + TEXT_OFF, 0x90, TEXT_LEN);
	memset((uint8_t *)f + DATA_OFF, 0xda, DATA_LEN);
}

static struct file f;

static void init(void)
{
	good_file(&f);
	boot_bed("test.elf", &f, sizeof(f), RAM_BYTES);
}

TestSuite(loader, .init = init, .fini = fini);

static int load(void)
{
	return load_by(&boot_freestanding);
}

static int check(void)
{
	return boot_freestanding.check(&img, &ram, &p, err, sizeof(err));
}

static uint64_t walk(uint64_t va)
{
	return walk_from(VPMU_BOOT_PAGETABLES, va);
}

Test(loader, good_image)
{
	struct vpmu_boot_info info;
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	p = (struct boot_params){.args = "stat loop 1000", .nr_vcpus = 3};
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_eq(entry, VPMU_BOOT_IMAGE + 0x10);
	cr_assert(!memcmp(ram.base + VPMU_BOOT_IMAGE, (uint8_t *)&f + TEXT_OFF, TEXT_LEN));
	cr_assert_eq(ram.base[VPMU_BOOT_IMAGE + TEXT_LEN], 0);
	cr_assert(!memcmp(ram.base + VPMU_BOOT_IMAGE + 0x1000, (uint8_t *)&f + DATA_OFF, DATA_LEN));
	cr_assert_eq(ram.base[VPMU_BOOT_IMAGE + 0x1000 + DATA_LEN], 0);

	memcpy(&info, ram.base + VPMU_BOOT_INFO, sizeof(info));
	cr_assert_eq(info.magic, VPMU_BOOT_MAGIC);
	cr_assert_eq(info.mem_bytes, RAM_BYTES);
	cr_assert_eq(info.args, VPMU_BOOT_ARGS);
	cr_assert_eq(info.nr_vcpus, 3);
	cr_assert_eq(info.version, 2);
	cr_assert_eq(info.high_bytes, 0);
	cr_assert_str_eq((char *)ram.base + VPMU_BOOT_ARGS, "stat loop 1000");

	for (uint64_t va = 0; va < RAM_BYTES; va += 0x1ff123)
		cr_assert_eq(walk(va), va, "0x%lx", va);
	cr_assert_eq(walk(RAM_BYTES), ~0ULL);
	cr_assert_eq(walk(1ULL << 39), ~0ULL);

	memset(&sregs, 0xff, sizeof(sregs));
	boot_freestanding.registers(entry, 2, &p, &regs, &sregs);
	cr_assert_eq(regs.rip, entry);
	cr_assert_eq(regs.rdi, 2);
	cr_assert_eq(regs.rsi, VPMU_BOOT_INFO);
	cr_assert_eq(regs.rflags, 2);
	cr_assert_eq(sregs.cr3, VPMU_BOOT_PAGETABLES);
	cr_assert_eq(sregs.cs.selector, 8);
	cr_assert_eq(sregs.cs.l, 1);
	cr_assert_eq(sregs.ss.selector, 0x10);
	/* The descriptors in memory match the segment registers. */
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 8) >> 53 & 1, sregs.cs.l);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 8) >> 40 & 0xf, sregs.cs.type);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 0x10) >> 40 & 0xf, sregs.ss.type);
	cr_assert_eq(get_u64(ram.base + sregs.gdt.base + 0x18) >> 40 & 0xf, sregs.tr.type);
}

/* RAM on both sides of the hole is mapped, the hole is not; the guest gets its place. */
Test(loader, two_slots)
{
	const uint64_t gib = 1ULL << 30, end = 6 * gib;
	struct vpmu_boot_info info;
	struct kvm_sregs sregs = {0};
	struct kvm_regs regs;

	p.lapic = true;
	other_ram(5 * gib);
	cr_assert_eq(load(), 0, "%s", err);
	for (uint64_t va = 0; va < end + gib; va += 0x1ff123)
		cr_assert_eq(walk(va), va < 3 * gib || (va >= 4 * gib && va < end) ? va : ~0ULL,
			     "0x%lx", va);
	memcpy(&info, ram.base + VPMU_BOOT_INFO, sizeof(info));
	cr_assert_eq(info.mem_bytes, 3 * gib);
	cr_assert_eq(info.high_base, 4 * gib);
	cr_assert_eq(info.high_bytes, 2 * gib);
	for (unsigned int vcpu = 0; vcpu < 2; vcpu++) {
		boot_freestanding.registers(entry, vcpu, &p, &regs, &sregs);
		cr_assert_eq(sregs.apic_base, vcpu ? 0xfee00c00 : 0xfee00d00);
	}
	/* A segment in the hole, or over its edge, is not in memory. */
	f.ph[1].p_vaddr = f.ph[1].p_paddr = 3 * gib + 0x1000;
	cr_assert_eq(check(), -ENOEXEC);
	f.ph[1].p_vaddr = f.ph[1].p_paddr = 3 * gib - 0x1000;
	cr_assert_eq(check(), -ENOEXEC);
	f.ph[1].p_vaddr = f.ph[1].p_paddr = 4 * gib;
	cr_assert_eq(check(), 0, "%s", err);
}

Test(loader, layout)
{
	const uint64_t gib = 1ULL << 30;
	struct vmm_ram r;

	vm_ram_layout(3 * gib, &r);
	cr_assert_eq(r.nr, 1);
	cr_assert_eq(vmm_ram_end(&r), 3 * gib);
	vm_ram_layout(3 * gib + VMM_RAM_ALIGN, &r);
	cr_assert_eq(r.nr, 2);
	cr_assert_eq(vmm_ram_end(&r), 4 * gib + VMM_RAM_ALIGN);
	cr_assert_eq(vmm_ram_bytes(&r), 3 * gib + VMM_RAM_ALIGN);
	vm_ram_layout(VMM_RAM_MAX, &r);
	cr_assert_eq(vmm_ram_bytes(&r), VMM_RAM_MAX);
	cr_assert(vmm_ram_holds(&r, 0, 3 * gib));
	cr_assert(vmm_ram_holds(&r, 3 * gib - 1, 1));
	cr_assert_not(vmm_ram_holds(&r, 3 * gib - 1, 2));
	cr_assert_not(vmm_ram_holds(&r, 3 * gib, 1));
	cr_assert_not(vmm_ram_holds(&r, 4 * gib - 1, 1));
	cr_assert(vmm_ram_holds(&r, 4 * gib, VMM_RAM_MAX - 3 * gib));
	cr_assert_not(vmm_ram_holds(&r, 4 * gib, VMM_RAM_MAX - 3 * gib + 1));
	cr_assert_not(vmm_ram_holds(&r, vmm_ram_end(&r), 1));
	cr_assert_not(vmm_ram_holds(&r, 1, UINT64_MAX));
	cr_assert_not(vmm_ram_holds(&r, UINT64_MAX, 2));
}

/* Which protocol an image is for: a damaged one is still of its kind. */
Test(loader, find)
{
	const struct boot_protocol *p = NULL;

	cr_assert_eq(boot_find(&img, &p, err, sizeof(err)), 0);
	cr_assert_eq(p, &boot_freestanding);
	f.eh.e_machine = 0;
	p = NULL;
	cr_assert_eq(boot_find(&img, &p, err, sizeof(err)), 0);
	cr_assert_eq(p, &boot_freestanding);
	img.bytes = 3;
	cr_assert_eq(boot_find(&img, &p, err, sizeof(err)), -ENOEXEC);
	cr_assert(strstr(err, "test.elf: ") && strstr(err, "expected "), "%s", err);
	img.bytes = sizeof(f);
	f.eh.e_ident[0] = 'M';
	REFUSED(boot_find(&img, &p, err, sizeof(err)), -ENOEXEC,
		"test.elf: first bytes are 4d 45 4c 46; expected ");
}

/* ---- corrupted headers ---- */

#define EH(field, v)                                                                               \
	((struct corrupt){__LINE__, #field, offsetof(Elf64_Ehdr, field),                           \
			  sizeof(((Elf64_Ehdr *)0)->field), v, #field})
#define ID(i, v) ((struct corrupt){__LINE__, "e_ident", i, 1, v, "e_ident"})
#define PH(n, field, v)                                                                            \
	((struct corrupt){__LINE__, #field,                                                        \
			  sizeof(Elf64_Ehdr) + (n) * sizeof(Elf64_Phdr) +                          \
				  offsetof(Elf64_Phdr, field),                                     \
			  sizeof(((Elf64_Phdr *)0)->field), v, #field})
/* the message names another field than the one changed */
#define PHM(n, field, v, named)                                                                    \
	((struct corrupt){__LINE__, #field,                                                        \
			  sizeof(Elf64_Ehdr) + (n) * sizeof(Elf64_Phdr) +                          \
				  offsetof(Elf64_Phdr, field),                                     \
			  sizeof(((Elf64_Phdr *)0)->field), v, named})

struct corrupt {
	int line;
	const char *field;
	size_t offset, bytes;
	uint64_t value;
	const char *named; /* as in the message */
};

Test(loader, corrupted_headers)
{
	const struct corrupt rows[] = {
		ID(0, 0),
		ID(EI_CLASS, ELFCLASS32),
		ID(EI_DATA, ELFDATA2MSB),
		ID(EI_VERSION, 0),
		EH(e_type, ET_DYN),
		EH(e_type, ET_REL),
		EH(e_machine, EM_AARCH64),
		EH(e_version, 2),
		EH(e_ehsize, 0),
		EH(e_phentsize, 0),
		EH(e_phentsize, 0xffff),
		EH(e_phnum, 0),
		EH(e_phnum, 65),
		EH(e_phnum, 0xffff),
		EH(e_phoff, 0x3000),
		EH(e_phoff, 0x3000 - 3 * sizeof(Elf64_Phdr) + 1),
		EH(e_phoff, UINT64_MAX),
		EH(e_phoff, UINT64_MAX - 0xa0),
		EH(e_entry, 0),
		EH(e_entry, VPMU_BOOT_IMAGE - 1),
		EH(e_entry, VPMU_BOOT_IMAGE + TEXT_LEN),
		EH(e_entry, VPMU_BOOT_IMAGE + 0x1000 + DATA_LEN), /* the file does not have it */
		EH(e_entry, UINT64_MAX),
		PH(2, p_type, PT_INTERP),
		PH(2, p_type, PT_DYNAMIC),
		PH(0, p_filesz, TEXT_LEN + 1),
		PH(0, p_filesz, UINT64_MAX),
		PHM(0, p_offset, 0x3000 - TEXT_LEN + 1, "p_offset"),
		PH(0, p_offset, 0x3001),
		PH(0, p_offset, UINT64_MAX),
		PH(0, p_offset, UINT64_MAX - TEXT_LEN + 1),
		PH(0, p_offset, TEXT_OFF + 1), /* not p_vaddr modulo p_align */
		PH(0, p_vaddr, VPMU_BOOT_IMAGE - 0x1000),
		PH(0, p_vaddr, 0),
		PH(0, p_vaddr, RAM_BYTES + 0x1000),
		PH(0, p_vaddr, UINT64_MAX - 0xfff),
		PHM(0, p_vaddr, RAM_BYTES, "p_memsz"),
		PH(0, p_paddr, 0),
		PH(0, p_align, 3),
		PH(1, p_memsz, UINT64_MAX),
		PH(1, p_memsz, RAM_BYTES - VPMU_BOOT_IMAGE - 0xfff),
		PH(1, p_memsz, UINT64_MAX - VPMU_BOOT_IMAGE - 0x1000 + 1), /* sum wraps */
		PHM(0, p_memsz, 0x1001, "p_vaddr"),			   /* overlaps data */
	};
	static const uint8_t zero[4096];

	for (const struct corrupt *r = rows; r < rows + sizeof(rows) / sizeof(rows[0]); r++) {
		int ret;

		entry = 0xdead;
		good_file(&f);
		memcpy((uint8_t *)&f + r->offset, &r->value, r->bytes);
		ret = load();
		cr_assert_eq(ret, -ENOEXEC, "line %d: returned %d", r->line, ret);
		cr_assert(strstr(err, "test.elf: "), "line %d: %s", r->line, err);
		cr_assert(strstr(err, r->named), "line %d: %s", r->line, err);
		cr_assert(strstr(err, "expected "), "line %d: %s", r->line, err);
		cr_assert_null(strchr(err, '\n'), "line %d", r->line);
		cr_assert_eq(entry, 0xdead, "line %d", r->line);
	}
	/* A refused image leaves RAM as it was. */
	for (uint64_t gpa = 0; gpa < RAM_BYTES; gpa += sizeof(zero))
		cr_assert(!memcmp(ram.base + gpa, zero, sizeof(zero)), "gpa 0x%lx", gpa);
}

Test(loader, no_segment)
{
	f.ph[0].p_type = f.ph[1].p_type = PT_NOTE;
	REFUSED(check(), -ENOEXEC, "PT_LOAD");
}

/* Every prefix of the file is refused or a valid image; none is read beyond its end (asan). */
Test(loader, truncated)
{
	for (size_t n = 0; n < sizeof(f); n += n < 0x200 ? 1 : 0x33) {
		uint8_t *copy = malloc(n ? n : 1);

		img = (struct image){.name = "cut.elf", .data = copy, .bytes = n};
		memcpy(copy, &f, n);
		cr_assert_eq(check(), n >= DATA_OFF + DATA_LEN ? 0 : -ENOEXEC, "%zu bytes: %s", n,
			     err);
		free(copy);
	}
}

Test(loader, ram_and_args)
{
	static const uint64_t bad_ram[] = {0,
					   2ULL << 20,
					   (4ULL << 20) + 4096,
					   3ULL << 20,
					   (64ULL << 30) + (2ULL << 20),
					   UINT64_MAX};
	char args[VPMU_BOOT_ARGS_MAX + 2];
	const struct vmm_ram good = ram;

	for (size_t i = 0; i < sizeof(bad_ram) / sizeof(bad_ram[0]); i++) {
		ram = (struct vmm_ram){.base = good.base, .nr = 1, .slot[0].bytes = bad_ram[i]};
		cr_assert_eq(load(), -EINVAL);
	}
	ram = good;
	memset(args, 'a', sizeof(args));
	args[VPMU_BOOT_ARGS_MAX + 1] = 0;
	p.args = args;
	cr_assert_eq(load(), -EINVAL);
	args[VPMU_BOOT_ARGS_MAX] = 0;
	cr_assert_eq(load(), 0, "%s", err);
	cr_assert_str_eq((char *)ram.base + VPMU_BOOT_ARGS, args);
}

Test(loader, files)
{
	char path[] = "/tmp/vpmu-loader-XXXXXX", fifo[64];
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(image_read(path, &img, err, sizeof(err)), -EFBIG); /* empty */
	cr_assert_eq(write(fd, "abc", 3), 3);
	cr_assert_eq(image_read(path, &img, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(img.bytes, 3);
	cr_assert_str_eq(img.name, path);
	cr_assert_eq(check(), -ENOEXEC);
	image_free(&img);
	cr_assert_eq(ftruncate(fd, (off_t)BOOT_FILE_MAX + 1), 0);
	cr_assert_eq(image_read(path, &img, err, sizeof(err)), -EFBIG);
	cr_assert(strstr(err, path), "%s", err);
	close(fd);
	unlink(path);
	cr_assert_eq(image_read(path, &img, err, sizeof(err)), -ENOENT);
	cr_assert_eq(image_read("/tmp", &img, err, sizeof(err)), -EINVAL);
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	cr_assert_eq(image_read(fifo, &img, err, sizeof(err)), -EINVAL); /* and does not hang */
	unlink(fifo);
}

/* The images that come with vpmu-vmm have names; this test lies beside them as vpmu-vmm does. */
Test(loader, names)
{
	static const char *const paths[] = {"guest.elf", "./guest",   "guest/",
					    "/x/guest",	 "..",	      "no-such-image",
					    "nosuch",	 "guest elf", "\xff"};
	char exe[4096], *guest, *path;
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 64);

	cr_assert_gt(n, 0);
	exe[n] = 0;
	strcpy(strrchr(exe, '/'), "/../guest/guest.elf");
	guest = realpath(exe, NULL);
	cr_assert_not_null(guest, "%s", exe);
	path = image_find("guest");
	cr_assert_str_eq(path, guest);
	free(path);
	free(guest);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		path = image_find(paths[i]);
		cr_assert_str_eq(path, paths[i]);
		free(path);
	}
}
