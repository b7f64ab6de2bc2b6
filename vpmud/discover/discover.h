/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the VMs of this host and reports each one when it appears, changes and ends: QEMU, vpmu-vmm
 * and other users of /dev/kvm in /proc, and the domains of libvirt. The daemon calls it;
 * docs/operator-guide.md has the list. It must never send a VM, its monitor or libvirt a command
 * that changes anything.
 *
 * Call all functions on the event loop's thread; callbacks run on it, too. Separate threads talk to
 * libvirt. They start with the first iteration of the event loop: drop privileges before it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

struct disc;

/* A thread that runs a vCPU. @start_time is in clock ticks after boot (field 22 of /proc/PID/stat).
 * (@tid, @start_time) is unique; @tid alone may be reused. */
struct disc_vcpu {
	int index;
	pid_t tid;
	uint64_t start_time;
};

/*
 * A VM is a process, identified by (@pid, @start_time). Two VMs may have the same name, and with a
 * hostile user even the same UUID. Valid until the next callback about it has returned, or until
 * disc_close().
 */
struct disc_vm {
	const char *name; /* 1 to 255 printable bytes (vpmu/util/utf8.h) */
	const char *uuid; /* lower case, or NULL */
	const char
		*kind; /* "qemu", "libvirt" (QEMU, pid confirmed by libvirt), "vpmu-vmm", "kvm" */
	pid_t pid;
	uint64_t start_time; /* as in struct disc_vcpu */
	uid_t uid;	     /* real, effective and saved user id; -1: unknown, or they differ */
	const char *cgroup;  /* path in cgroup2, "/" for its root; NULL: unknown */
	uint64_t cgroup_id;  /* as from bpf_get_current_cgroup_id(); 0: unknown */
	/* From libvirt's metadata, begins with "/"; NULL: none. The caller must validate it. */
	const char *tenant;
	size_t nr_vcpus;   /* the threads known so far, sorted by index; no index twice */
	size_t nr_unknown; /* vCPUs besides whose threads are not known yet */
	const struct disc_vcpu *vcpus;
	/* The socket of a vpmu-vmm, as a path in the process's view, or NULL. All VMs of one
	 * vpmu-vmm are one VM here, with all their vCPU threads; clients ask the socket for the
	 * individual VMs. */
	const char *backend_socket;
};

/* None may be NULL or call disc_*(). None is called after disc_close(). */
struct disc_ops {
	void (*added)(void *arg, const struct disc_vm *vm);
	/* (pid, start_time) is unchanged, all else may be new. */
	void (*changed)(void *arg, const struct disc_vm *vm);
	/* @vm is as last reported. */
	void (*removed)(void *arg, const struct disc_vm *vm);
	/* One printable line about an error or a limit, once per cause. */
	void (*note)(void *arg, const char *line);
};

struct disc_opts {
	const char *proc;		 /* NULL: /proc */
	const char *cgroup_root;	 /* mount point of cgroup2; NULL: no ids of cgroups */
	const char *const *libvirt_uris; /* "qemu:///system"; may be NULL */
	size_t nr_uris;
	uint64_t poll_ms; /* interval between scans of all processes; 0: 1000 */
};

/*
 * disc_open - start discovery on the event loop @e; the first scan begins with the loop's next
 * iteration. It uses about a tenth of one CPU: with very many processes a scan takes longer than
 * poll_ms. A process that was not a VM in eight scans is then checked in every eighth only. The
 * strings of @o are copied. Errors: those of opening /proc. libvirt causes no errors:
 * failures are noted, and retried.
 */
int disc_open(sd_event *e, const struct disc_opts *o, const struct disc_ops *ops, void *arg,
	      struct disc **out);

/*
 * disc_scan - scan all processes now, and report changes before returning. It does not wait for
 * libvirt: its names and tenants follow by changed(). Errors: those of reading /proc;
 * VMs that could not be read stay unchanged.
 */
int disc_scan(struct disc *d);

/*
 * disc_process - call @fn with what is known of process (@pid, @start_time) as a VM, without vCPUs,
 * before it is one: its cgroup, its user, the -name among its arguments, and libvirt's word if
 * that has been heard. -ESRCH, -ENOENT: it has ended; other errors of /proc.
 */
int disc_process(struct disc *d, pid_t pid, uint64_t start_time,
		 void (*fn)(const struct disc_vm *vm, void *arg), void *arg);

/*
 * disc_libvirt - call @fn for each libvirt URI: @connected if its domains are known, @text has
 * their number or the error. @text is one line, valid during the call.
 */
void disc_libvirt(const struct disc *d,
		  void (*fn)(const char *uri, bool connected, const char *text, void *arg),
		  void *arg);

/* disc_close - stop and free; nothing more is reported. NULL is allowed. */
void disc_close(struct disc *d);
