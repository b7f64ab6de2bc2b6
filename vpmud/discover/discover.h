/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the VMs of this host and reports each one when it appears, changes and ends: QEMU,
 * vpmu-vmm and other users of /dev/kvm in /proc, and the domains of libvirt. The daemon calls it;
 * docs/operator-guide.md says what is found. It only reads: it never sends a VM, its monitor or
 * libvirt a command that changes anything.
 *
 * All functions are called by the thread that runs the event loop, and all callbacks come on it.
 * libvirt is talked to by threads of its own, which start with the first turn of the event loop:
 * a program that gives up privileges does so before.
 */
#ifndef VPMUD_DISCOVER_DISCOVER_H
#define VPMUD_DISCOVER_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct disc;

/* A thread that runs a vCPU. @start_time: in clock ticks after boot (field 22 of /proc/PID/stat).
 * (@tid, @start_time) names the thread for good, @tid alone may be used again. */
struct disc_vcpu {
	int index;
	pid_t tid;
	uint64_t start_time;
};

/*
 * A VM is a process; (@pid, @start_time) names it for good. Two VMs may have the same name, and
 * with a hostile user even the same UUID. Valid during the callback only.
 */
struct disc_vm {
	const char *name; /* 1 to 255 bytes that may be shown (vpmu/util/utf8.h) */
	const char *uuid; /* lower case, or NULL */
	const char
		*kind; /* "qemu", "libvirt" (QEMU, and libvirt says its pid), "vpmu-vmm", "kvm" */
	pid_t pid;
	uint64_t start_time; /* as in struct disc_vcpu */
	uid_t uid; /* real, effective and saved user id; -1: not known, or they are not the same */
	const char *cgroup; /* path in cgroup2, "/" for its root; NULL if it is not known */
	uint64_t cgroup_id; /* as bpf_get_current_cgroup_id() has it; 0 if it is not known */
	/* From libvirt's metadata, begins with "/"; NULL: none. The caller checks it further. */
	const char *tenant;
	size_t nr_vcpus; /* the threads known so far, sorted by index; no index twice */
	const struct disc_vcpu *vcpus;
	/* Where vpmu-vmm listens, or NULL. The path is as the process sees it. One vpmu-vmm is one
	 * VM here, of all its vCPU threads; a client that asks it there learns which VMs it has. */
	const char *backend_socket;
};

/* None may be NULL, none may call disc_*(). After disc_close() none is called. */
struct disc_ops {
	void (*added)(void *arg, const struct disc_vm *vm);
	/* Same (pid, start_time), all else may be new. */
	void (*changed)(void *arg, const struct disc_vm *vm);
	/* As it was reported last. */
	void (*removed)(void *arg, const struct disc_vm *vm);
	/* One line of printable text about what can't be found or believed, once for each cause. */
	void (*note)(void *arg, const char *line);
};

struct disc_opts {
	const char *proc;	 /* NULL: /proc */
	const char *cgroup_root; /* where cgroup2 is mounted; NULL: as /proc/self/mounts says */
	const char *const *libvirt_uris; /* "qemu:///system"; may be NULL */
	size_t nr_uris;
	uint64_t poll_ms; /* from one look at all processes to the next; 0: 1000 */
};

/*
 * disc_open - begin to look for VMs, from the event loop @e. The first look begins with the loop's
 * next turn. At most about a tenth of one CPU is used: with very many processes a look takes
 * longer than poll_ms. A process that has been no VM in eight looks is from then on met in every
 * eighth look only. The strings of @o may go afterwards.
 * Errors: -ENOMEM; what opendir() of /proc says. Nothing about libvirt is an error: what is
 * missing is a note, and is tried again.
 */
int disc_open(sd_event *e, const struct disc_opts *o, const struct disc_ops *ops, void *arg,
	      struct disc **out);

/*
 * disc_scan - look at all processes now, and report what is new before returning. libvirt is not
 * waited for: its names and tenants follow by changed(). Errors: -ENOMEM and those of reading
 * /proc; then the VMs that could not be looked at stay as they are.
 */
int disc_scan(struct disc *d);

/*
 * disc_libvirt - tell @fn about each URI of libvirt: whether its domains are known, and in @text
 * how many they are, or why not. @text is one line, valid during the call.
 */
void disc_libvirt(const struct disc *d,
		  void (*fn)(const char *uri, bool connected, const char *text, void *arg),
		  void *arg);

/* disc_close - end it; nothing more is reported. NULL is accepted. */
void disc_close(struct disc *d);

#endif
