// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of whole VMs that lie: every bit of what describes the VM changed, every byte of its RAM's
 * sections, every length, with and without the right CRC. Each is refused in one line with nothing
 * left behind, or is another VM, which runs.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <urcu/urcu-memb.h>
#include <zlib.h>

#include "vmm/snapshot/priv.h"
#include "vpmu/guest/abi.h"

/* Counts, records branches (models that have both registers), and prints: in CPL0. */
#define AT_LOOP 26
static const uint8_t guest_code[] = {
	0xb9, 0x86, 0x01, 0x00, 0x00, /* mov ecx, 186h */
	0xb8, 0xc0, 0x00, 0x53, 0x00, /* mov eax, 5300c0h: instructions, INT, EN */
	0x31, 0xd2,		      /* xor edx, edx */
	0x0f, 0x30,		      /* wrmsr */
	0xb9, 0xce, 0x14, 0x00, 0x00, /* mov ecx, 14ceh */
	0xb8, 0x07, 0x00, 0x7f, 0x00, /* mov eax, 7f0007h: all branches */
	0x0f, 0x30,		      /* wrmsr (#GP where there are none: triple fault) */
	0x66, 0xba, 0xf8, 0x03,	      /* loop: mov dx, 3f8h */
	0xb0, 0x78,		      /* mov al, 'x' */
	0xee,			      /* out dx, al */
	0xb9, 0x00, 0x01, 0x00, 0x00, /* mov ecx, 256 */
	0xff, 0xc9,		      /* dec ecx */
	0x75, 0xfc,		      /* jnz -4 */
	0xeb, 0xee,		      /* jmp loop */
};

static char dir[] = "/dev/shm/vpmu-test-XXXXXX";
static char image_path[80], file_path[80];

static void write_image(bool use_pmu)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		uint8_t code[sizeof(guest_code)];
	} f = {
		.eh = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
		       .e_type = ET_EXEC,
		       .e_machine = EM_X86_64,
		       .e_version = EV_CURRENT,
		       .e_entry = VPMU_BOOT_IMAGE + sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) +
				  (use_pmu ? 0 : AT_LOOP),
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_ehsize = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = 1},
		.ph = {.p_type = PT_LOAD,
		       .p_flags = PF_R | PF_X,
		       .p_vaddr = VPMU_BOOT_IMAGE,
		       .p_paddr = VPMU_BOOT_IMAGE,
		       .p_filesz = sizeof(f),
		       .p_memsz = sizeof(f)},
	};
	FILE *out;

	memcpy(f.code, guest_code, sizeof(guest_code));
	out = fopen(image_path, "w");
	cr_assert(out && fwrite(&f, sizeof(f), 1, out) == 1 && !fclose(out));
}

static struct config config;
static struct machine *machine;
static unsigned int vms_ended;

static void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		       void *arg)
{
	cr_assert(len <= SERIAL_LINE_MAX);
}

static void on_wake(void *arg)
{
}

static void on_ended(const struct machine_vm *vm, void *arg)
{
	vms_ended++;
}

static void setup(void)
{
	const struct machine_opts mo = {
		.host = &config.host,
		.console = on_console,
		.wake = on_wake,
		.ended = on_ended,
	};
	char err[300];

	urcu_memb_register_thread();
	cr_assert(mkdtemp(dir));
	snprintf(image_path, sizeof(image_path), "%s/image", dir);
	snprintf(file_path, sizeof(file_path), "%s/snap", dir);
	config_init(&config);
	config.host.slice_insns = 500;
	cr_assert_eq(machine_create(&mo, &machine, err, sizeof(err)), 0, "%s", err);
}

static void teardown(void)
{
	machine_destroy(machine);
	config_fini(&config);
	unlink(image_path);
	unlink(file_path);
	cr_assert_eq(rmdir(dir), 0, "something is left behind");
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
}

TestSuite(snapshot_file, .init = setup, .fini = teardown);

/* ---- a good file --------------------------------------------------------------------------------
 */

struct bytes {
	uint8_t *data;
	size_t len;
};

static struct bytes read_file(const char *path)
{
	struct bytes b;
	struct stat st;
	FILE *in = fopen(path, "r");

	cr_assert(in && !fstat(fileno(in), &st));
	b.len = (size_t)st.st_size;
	b.data = malloc(b.len);
	cr_assert_eq(fread(b.data, 1, b.len, in), b.len);
	fclose(in);
	return b;
}

/* A VM that has run for @slices, as a file. */
static struct bytes good_file(const char *pmu, uint64_t slices)
{
	char option[300], err[400];
	struct machine_vm *vm;
	struct bytes b;

	write_image(!strcmp(pmu, "intel-v5"));
	snprintf(option, sizeof(option),
		 "name=good,tenant=/t,vcpus=2,memory=4M,engine=soft,args=a b,pmu=%s,image=%s", pmu,
		 image_path);
	cr_assert_eq(config_vm_option(&config, option, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(machine_vm_add(machine, &config.vms[config.nr_vms - 1], &vm, err, sizeof(err)),
		     0, "%s", err);
	cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0);
	cr_assert_eq(machine_step(machine, slices), slices);
	cr_assert_eq(snapshot_save(vm, file_path, err, sizeof(err)), 0, "%s", err);
	machine_vm_remove(vm);
	b = read_file(file_path);
	return b;
}

static void fix_crc(uint8_t *data, size_t len)
{
	uint32_t crc = (uint32_t)crc32_z(0, data, len - 4);

	for (int i = 0; i < 4; i++)
		data[len - 4 + i] = (uint8_t)(crc >> 8 * i);
}

/* ---- trying -------------------------------------------------------------------------------------
 */

static int restore(const uint8_t *data, size_t len, struct machine_vm **vm, char err[500])
{
	static int fd = -1;
	char path[40];

	if (fd < 0)
		fd = memfd_create("snapshot", MFD_CLOEXEC);
	cr_assert(!ftruncate(fd, 0) && pwrite(fd, data, len, 0) == (ssize_t)len);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	*err = 0;
	return snapshot_restore(machine, path, NULL, NULL, vm, err, 500);
}

/* 1: another VM, which ran for a while; 0: refused. */
static int try(const uint8_t *data, size_t len)
{
	struct machine_vm *vm = NULL;
	char err[500];
	int ret = restore(data, len, &vm, err);

	if (ret) {
		cr_assert(*err && !strchr(err, '\n') && strlen(err) < 490, "%d \"%s\"", ret, err);
		cr_assert(ret == -EINVAL || ret == -EOPNOTSUPP || ret == -ENOMEM, "%d %s", ret,
			  err);
		cr_assert(!machine_vms(machine), "%s: and there is a VM", err);
		return 0;
	}
	cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0, "%s", err);
	machine_step(machine, 6);
	machine_reap(machine);
	machine_vm_remove(vm);
	return 1;
}

/* Where the sections of @b that describe the VM end. */
static size_t described(const struct bytes *b)
{
	size_t at = SNAP_HEAD;

	while (memcmp(b->data + at, "RAMP", 4))
		at += SNAP_SECTION_HEAD + (b->data[at + 8] | b->data[at + 9] << 8);
	return at;
}

Test(snapshot_file, comes_back)
{
	static const char *const models[] = {"intel-v5", "amd-v2", "none"};

	for (unsigned int i = 0; i < 3; i++) {
		struct bytes b = good_file(i ? models[i] : models[0], i ? 1 : 40), again;
		struct machine_vm *vm;
		char err[500];

		cr_assert_eq(restore(b.data, b.len, &vm, err), 0, "%s", err);
		cr_assert_str_eq(vm->name, "good");
		cr_assert_str_eq(vm->node->path, "/t");
		cr_assert_str_eq(vm->args, "a b");
		cr_assert_eq(vm->vcpus, 2);
		cr_assert_eq(machine_vm_state(vm), VM_PAUSED);
		cr_assert_eq(snapshot_save(vm, file_path, err, sizeof(err)), 0, "%s", err);
		again = read_file(file_path);
		cr_assert(again.len == b.len && !memcmp(again.data, b.data, b.len),
			  "saved again, it is another file");
		machine_vm_remove(vm);
		free(again.data);
		free(b.data);
	}
}

/* RAM that was never touched, or is zero, is not in the file. */
Test(snapshot_file, zero_pages_are_left_out)
{
	struct bytes b = good_file("intel-v5", 10);

	cr_assert_lt(b.len, 100000, "%zu bytes of a VM that uses some pages of 4 MiB", b.len);
	free(b.data);
}

static void put_le(uint8_t *to, uint64_t x, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(x >> 8 * i);
}

/* Nobody writes such a file: all of RAM is in it, and zero. The VM has no memory for it. */
Test(snapshot_file, zero_pages_take_no_memory)
{
	const size_t ram = 4 << 20, run = SNAP_RUN_PAGES * SNAP_PAGE;
	struct bytes b = good_file("none", 10);
	size_t at = described(&b), len = at, resident = 0;
	unsigned char in_core[1024];
	struct machine_vm *vm;
	uint8_t *f = calloc(1, at + ram + 4096);
	char err[500];

	cr_assert(f);
	memcpy(f, b.data, at);
	for (size_t gpa = 0; gpa < ram; gpa += run) {
		put_le(f + len, SNAP_RAMP, 4);
		f[len + 4] = 1;
		put_le(f + len + 8, 8 + run, 4);
		put_le(f + len + 12, gpa, 8);
		len += SNAP_SECTION_HEAD + 8 + run;
	}
	put_le(f + len, SNAP_END, 4);
	f[len + 4] = 1;
	put_le(f + len + 8, 8, 4);
	put_le(f + len + 12, ram / SNAP_PAGE, 8);
	len += SNAP_SECTION_HEAD + 8 + 4;
	fix_crc(f, len);
	cr_assert_eq(restore(f, len, &vm, err), 0, "%s", err);
	cr_assert_eq(vmm_ram_bytes(&vm->vm->ram), ram);
	cr_assert_eq(mincore(vm->vm->ram.base, ram, in_core), 0);
	for (size_t i = 0; i < ram / SNAP_PAGE; i++)
		resident += in_core[i] & 1;
	cr_expect_eq(resident, 0, "%zu pages", resident);
	machine_vm_remove(vm);
	free(f);
	free(b.data);
}

Test(snapshot_file, every_bit_of_the_description)
{
	struct bytes b = good_file("intel-v5", 40);
	size_t end = described(&b);
	unsigned int taken = 0, refused = 0;
	uint8_t *copy = malloc(b.len);

	for (size_t bit = 0; bit < 8 * end; bit++) {
		memcpy(copy, b.data, b.len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (bit % 8 == 0)
			cr_assert(!try(copy, b.len), "wrong CRC, byte %zu", bit / 8);
		fix_crc(copy, b.len);
		if (try(copy, b.len))
			taken++;
		else
			refused++;
	}
	fprintf(stderr, "# %zu bytes: %u flipped bits refused, %u make another VM (%u ended)\n",
		end, refused, taken, vms_ended);
	cr_assert(taken > 1000 && refused > 1000);
	free(copy);
	free(b.data);
}

Test(snapshot_file, every_byte_of_ram_sections)
{
	struct bytes b = good_file("amd-v2", 1);
	size_t at = described(&b);
	unsigned int taken = 0, refused = 0;
	uint8_t *copy = malloc(b.len);

	while (at < b.len) {
		uint32_t bytes = 0, step;

		memcpy(copy, b.data, b.len);
		memcpy(&bytes, b.data + at + 8, 4);
		/* heads and addresses all, of the pages some; the end all */
		for (size_t i = 0; i < SNAP_SECTION_HEAD + bytes && at + i < b.len - 4; i += step) {
			step = i < 20 || memcmp(b.data + at, "RAMP", 4) ? 1 : 97;
			for (unsigned int x = 1; x < 256; x = 2 * x + 1) {
				copy[at + i] = b.data[at + i] ^ (uint8_t)x;
				fix_crc(copy, b.len);
				if (try(copy, b.len))
					taken++;
				else
					refused++;
			}
			copy[at + i] = b.data[at + i];
		}
		at += SNAP_SECTION_HEAD + bytes;
		if (at + 4 >= b.len)
			break;
	}
	fprintf(stderr, "# %u changes refused, %u make another VM\n", refused, taken);
	cr_assert(taken > 100 && refused > 100);
	free(copy);
	free(b.data);
}

Test(snapshot_file, every_length)
{
	struct bytes b = good_file("intel-v4", 1);
	uint8_t *longer = calloc(1, b.len + 8);

	for (size_t len = 0; len < b.len; len += len < 4000 || b.len - len < 200 ? 1 : 61) {
		cr_assert(!try(b.data, len), "cut to %zu of %zu", len, b.len);
		if (len >= 4) { /* as if it ended there */
			memcpy(longer, b.data, len);
			fix_crc(longer, len);
			cr_assert(!try(longer, len), "cut to %zu of %zu, with a CRC", len, b.len);
		}
	}
	memcpy(longer, b.data, b.len);
	for (size_t more = 1; more <= 8; more++)
		cr_assert(!try(longer, b.len + more));
	cr_assert(try(longer, b.len));
	free(longer);
	free(b.data);
}

/* ---- RAM sections that reach where they must not ---- */

static void put(uint8_t *to, uint64_t x, int bytes)
{
	for (int i = 0; i < bytes; i++)
		to[i] = (uint8_t)(x >> 8 * i);
}

Test(snapshot_file, ram_addresses)
{
	struct bytes b = good_file("intel-v5", 1);
	static const struct {
		int line;
		uint64_t gpa;
		bool ok;
	} rows[] = {
		{__LINE__, 0, true},
		{__LINE__, 1, false},
		{__LINE__, 0x800, false},
		{__LINE__, 4 << 20, false},
		{__LINE__, (4 << 20) - 4096, false}, /* its pages do not fit there */
		{__LINE__, ~0ULL << 12, false},
		{__LINE__, 1ULL << 63, false},
		{__LINE__, 1ULL << 40, false},
		{__LINE__, 3 << 20, false}, /* the next section is below it */
	};
	size_t at = described(&b);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		put(b.data + at + 12, rows[i].gpa, 8);
		fix_crc(b.data, b.len);
		cr_assert_eq(try(b.data, b.len), rows[i].ok, "line %d", rows[i].line);
	}
	free(b.data);
}

/* A VM of which a vCPU has ended goes on without it; one of which all have is none. */
Test(snapshot_file, ended_vcpus)
{
	struct bytes b = good_file("intel-v5", 4);
	size_t at = SNAP_HEAD, rest, drop;
	struct machine_vm *vm;
	char err[500];

	for (unsigned int n = 1; n <= 2; n++) {
		/* the next vCPU's section becomes {id, exited, status 0} */
		do
			at += SNAP_SECTION_HEAD + (b.data[at + 8] | b.data[at + 9] << 8);
		while (memcmp(b.data + at, "VCPU", 4));
		drop = (size_t)(b.data[at + 8] | b.data[at + 9] << 8) - 9;
		rest = b.len - (at + SNAP_SECTION_HEAD + 9 + drop);
		b.data[at + SNAP_SECTION_HEAD + 4] = VCPU_EXITED;
		put(b.data + at + 8, 9, 4);
		memmove(b.data + at + SNAP_SECTION_HEAD + 9,
			b.data + at + SNAP_SECTION_HEAD + 9 + drop, rest);
		b.len -= drop;
		fix_crc(b.data, b.len);
		if (n == 2)
			break;
		cr_assert_eq(restore(b.data, b.len, &vm, err), 0, "%s", err);
		cr_assert_eq(atomic_load(&vm->vm->live), 1);
		cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0);
		cr_assert_eq(machine_step(machine, 10), 10);
		machine_vm_remove(vm);
	}
	cr_assert_eq(restore(b.data, b.len, &vm, err), -EINVAL);
	cr_assert(strstr(err, "every vCPU of the snapshot has ended"), "%s", err);
	free(b.data);
}
