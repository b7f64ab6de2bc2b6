/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the names and command lines of processes say about VMs. All of it is the process's own
 * words: any bytes, cut anywhere. Pure functions, any thread. process.c and threads.c call them.
 */
#ifndef VPMUD_DISCOVER_CMDLINE_H
#define VPMUD_DISCOVER_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a name that is shown, with the NUL. */
#define DISC_NAME_SIZE 256

/* Bytes of a UUID as text, with the NUL. */
#define DISC_UUID_SIZE 37

/* What a QEMU was started with; empty strings: nothing usable. */
struct qemu_args {
	char name[DISC_NAME_SIZE];
	char uuid[DISC_UUID_SIZE];
	bool no_machine; /* "-machine none": a QEMU that is asked about itself, and no VM */
};

/* cmdline_qemu_comm, cmdline_qemu_argv0 - whether a thread's name, or the first argument of the
 * command line @args of @len bytes, is QEMU's. */
bool cmdline_qemu_comm(const char *comm);
bool cmdline_qemu_argv0(const char *args, size_t len);

/* cmdline_qemu - fill *@out from the @len bytes of /proc/PID/cmdline at @args, which need not end
 * with a NUL. */
void cmdline_qemu(const char *args, size_t len, struct qemu_args *out);

/* cmdline_name - @text of @len bytes as a name that may be shown: other bytes as \xNN, and cut
 * after whole characters where it is too long. */
void cmdline_name(const char *text, size_t len, char name[DISC_NAME_SIZE]);

/* cmdline_uuid - @text of @len bytes in lower case. False, and @uuid is empty: it is no UUID. */
bool cmdline_uuid(const char *text, size_t len, char uuid[DISC_UUID_SIZE]);

/* What cmdline_vcpu says about a thread's name. */
enum { CMDLINE_NO_VCPU = -1, CMDLINE_ALL_VCPUS = -2 };

/* cmdline_vcpu - the index of the vCPU that a thread called @comm runs, as QEMU, vpmu-vmm,
 * Firecracker, Cloud Hypervisor, crosvm and kvmtool name theirs; or one of the above. */
int cmdline_vcpu(const char *comm);

#endif
