/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Parses names and command lines of processes for properties of a VM. The input is untrusted: any
 * bytes, truncated anywhere. Pure functions, any thread. process.c and threads.c call them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a name that is shown, with the NUL. */
#define DISC_NAME_SIZE 256

/* Bytes of a UUID as text, with the NUL. */
#define DISC_UUID_SIZE 37

/* A QEMU's arguments; empty strings: absent or unusable. */
struct qemu_args {
	char name[DISC_NAME_SIZE];
	char uuid[DISC_UUID_SIZE];
	bool no_machine; /* "-machine none": started for capability queries, not a VM */
};

/* cmdline_qemu_comm, cmdline_qemu_argv0 - return true if a thread's name, or the first argument of
 * the command line @args of @len bytes, is QEMU's. */
bool cmdline_qemu_comm(const char *comm);
bool cmdline_qemu_argv0(const char *args, size_t len);

/* cmdline_qemu - fill *@out from the @len bytes of /proc/PID/cmdline at @args, which need not end
 * with a NUL. */
void cmdline_qemu(const char *args, size_t len, struct qemu_args *out);

/* cmdline_name - copy @text of @len bytes as printable text: other bytes become \xNN, and a long
 * name is cut between characters. */
void cmdline_name(const char *text, size_t len, char name[DISC_NAME_SIZE]);

/* cmdline_uuid - copy @text of @len bytes in lower case. Returns false, with @uuid empty, if it is
 * not a UUID. */
bool cmdline_uuid(const char *text, size_t len, char uuid[DISC_UUID_SIZE]);

/* Other results of cmdline_vcpu(). */
enum { CMDLINE_NO_VCPU = -1, CMDLINE_ALL_VCPUS = -2 };

/* cmdline_vcpu - return the index of the vCPU that a thread named @comm runs, by the names that
 * QEMU, vpmu-vmm, Firecracker, Cloud Hypervisor, crosvm and kvmtool use, or one of the above. */
int cmdline_vcpu(const char *comm);
