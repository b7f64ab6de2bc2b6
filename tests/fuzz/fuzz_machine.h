/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For fuzzers of whole VMs: a machine of one pCPU with the emulator engine, and files of its VMs.
 */
#ifndef TESTS_FUZZ_FUZZ_MACHINE_H
#define TESTS_FUZZ_FUZZ_MACHINE_H

#include <urcu/urcu-memb.h>

#include "tests/fuzz/fuzz.h"
#include "vmm/snapshot/priv.h"

#define FILE_MAX (1u << 20)

static struct machine *machine;
static int file_fd; /* where write_vm() writes */

/* Not on KVM: the host's kernel is not tested here. */
static const struct snapshot_said said = {.trust = true, .engine = "emulator"};

static void on_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len,
		       void *arg);

static void on_wake(void *arg)
{
}

static void on_ended(const struct machine_vm *vm, void *arg)
{
}

static void make_machine(unsigned int slice_insns)
{
	static struct config c;
	const struct machine_opts mo = {
		.host = &c.host, .console = on_console, .wake = on_wake, .ended = on_ended};
	char err[500];

	config_init(&c);
	c.host.pcpus = 1;
	c.host.slice_insns = slice_insns;
	CHECK(!machine_create(&mo, &machine, err, sizeof(err)), "%s", err);
	file_fd = memfd_create("snapshot", MFD_CLOEXEC);
}

/* A VM with these keys, the last of which names file @fd, is added and starts, with @input on COM1.
 */
static struct machine_vm *add_vm(const char *keys, int fd, const char *input)
{
	char option[200], err[500] = "";
	struct machine_vm *vm;
	struct config c;

	config_init(&c);
	snprintf(option, sizeof(option), "name=fuzz,engine=emulator,%s=/proc/self/fd/%d", keys, fd);
	CHECK(!config_vm_option(&c, option, err, sizeof(err)), "%s", err);
	CHECK(!machine_vm_add(machine, &c.vms[0], &vm, err, sizeof(err)), "%s", err);
	config_fini(&c);
	if (input)
		vm_input(vm->vm, input, strlen(input), true);
	CHECK(!machine_vm_start(vm, err, sizeof(err)), "%s", err);
	return vm;
}

/* @vm is placed nowhere and written to file_fd. Returns how many bytes that are. */
static size_t write_vm(struct machine_vm *vm)
{
	static struct snap_out out;
	char err[500] = "";

	CHECK(!vm_unplace(vm->vm), "engine");
	CHECK(!ftruncate(file_fd, 0) && lseek(file_fd, 0, SEEK_SET) == 0, "file");
	memset(&out, 0, offsetof(struct snap_out, buf));
	out.fd = file_fd;
	CHECK(!snap_save_vm(vm, &out, err, sizeof(err)), "cannot be saved: %s", err);
	return (size_t)lseek(file_fd, 0, SEEK_END);
}

/* The first @bytes of what write_vm() wrote. */
static void read_file(uint8_t *to, size_t bytes)
{
	CHECK(bytes <= FILE_MAX && pread(file_fd, to, bytes, 0) == (ssize_t)bytes, "file");
}

#endif
