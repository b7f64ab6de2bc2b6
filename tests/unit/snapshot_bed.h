/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine with VMs that are saved to files, and made of files that a test has changed: for the
 * tests of damaged and forged snapshots. */
#ifndef TESTS_UNIT_SNAPSHOT_BED_H
#define TESTS_UNIT_SNAPSHOT_BED_H

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <urcu/urcu-memb.h>
#include <zlib.h>

#include "tests/elf_image.h"
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

static inline void write_image(bool use_pmu)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph;
		uint8_t code[sizeof(guest_code)];
	} f = {
		.eh = elf_program(VPMU_BOOT_IMAGE + offsetof(__typeof__(f), code) +
					  (use_pmu ? 0 : AT_LOOP),
				  1),
		.ph = elf_segment(PF_R | PF_X, VPMU_BOOT_IMAGE, 0, sizeof(f)),
	};
	FILE *out;

	memcpy(f.code, guest_code, sizeof(guest_code));
	out = fopen(image_path, "w");
	cr_assert(out && fwrite(&f, sizeof(f), 1, out) == 1 && !fclose(out));
}

static struct config config;
static struct machine *machine;
static unsigned int vms_ended;

static inline void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line,
			      size_t len, void *arg)
{
	cr_assert(len <= SERIAL_LINE_MAX);
}

static inline void on_wake(void *arg)
{
}

static inline void on_ended(const struct machine_vm *vm, void *arg)
{
	vms_ended++;
}

static inline void snapshot_machine(void)
{
	const struct machine_opts mo = {
		.host = &config.host,
		.console = on_console,
		.wake = on_wake,
		.ended = on_ended,
	};
	char err[300];

	cr_assert_eq(machine_create(&mo, &machine, err, sizeof(err)), 0, "%s", err);
}

static inline void snapshot_setup(void)
{
	urcu_memb_register_thread();
	cr_assert(mkdtemp(dir));
	snprintf(image_path, sizeof(image_path), "%s/image", dir);
	snprintf(file_path, sizeof(file_path), "%s/snap", dir);
	config_init(&config);
	config.host.slice_insns = 500;
	snapshot_machine();
}

/* ---- a good file --------------------------------------------------------------------------------
 */

struct bytes {
	uint8_t *data;
	size_t len;
};

/* Of the test that runs: a VM's file, which is freed at the end, a VM, and the last error. */
static __attribute__((unused)) struct bytes b;
static __attribute__((unused)) struct machine_vm *vm;
static char err[500];

static inline struct bytes read_file(const char *path)
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

static inline void snapshot_teardown(void)
{
	free(b.data);
	machine_destroy(machine);
	config_fini(&config);
	unlink(image_path);
	unlink(file_path);
	cr_assert_eq(rmdir(dir), 0, "something is left behind");
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
}

/* Save the VM at file_path. */
static inline int save(void)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int ret = snapshot_save(vm, at, "snap", err, sizeof(err));

	close(at);
	return ret;
}

/* A VM of the options that @format makes. */
static inline __attribute__((format(printf, 1, 2))) void make_vm(const char *format, ...)
{
	char option[300];
	va_list ap;

	va_start(ap, format);
	vsnprintf(option, sizeof(option), format, ap);
	va_end(ap);
	cr_assert_eq(config_vm_option(&config, option, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(machine_vm_add(machine, &config.vms[config.nr_vms - 1], &vm, err, sizeof(err)),
		     0, "%s", err);
}

/* A VM that has run for @slices, as a file: @b. */
static inline struct bytes *good_file(const char *pmu, uint64_t slices)
{
	write_image(!strcmp(pmu, "intel-v5"));
	make_vm("name=good,tenant=/t,vcpus=2,memory=4M,engine=emulator,args=a b,pmu=%s,image=%s",
		pmu, image_path);
	cr_assert_eq(machine_vm_start(vm, err, sizeof(err)), 0);
	cr_assert_eq(machine_step(machine, slices), slices);
	cr_assert_eq(save(), 0, "%s", err);
	machine_vm_remove(vm);
	free(b.data);
	b = read_file(file_path);
	return &b;
}

static inline void fix_crc(uint8_t *data, size_t len)
{
	uint32_t crc = (uint32_t)crc32_z(0, data, len - 4);

	for (int i = 0; i < 4; i++)
		data[len - 4 + i] = (uint8_t)(crc >> 8 * i);
}

/* ---- trying -------------------------------------------------------------------------------------
 */

static inline int restore_as(const uint8_t *data, size_t len, const struct snapshot_said *said)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("snapshot", MFD_CLOEXEC);
	cr_assert(!ftruncate(fd, 0) && pwrite(fd, data, len, 0) == (ssize_t)len);
	*err = 0;
	return snapshot_restore(machine, fd, "snap", said, &vm, err, sizeof(err));
}

static inline int restore(const uint8_t *data, size_t len)
{
	return restore_as(data, len, &(struct snapshot_said){.trust = true});
}

#endif
