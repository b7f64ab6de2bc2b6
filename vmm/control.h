/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu-vmm's commands beside the built-in ones (vm-add, vm-remove, console-read, pause, resume,
 * quit, vm-save, vm-restore, vm-set, tenant-set), and its part of `list` and `check`. Control
 * thread.
 */
#pragma once

#include "service/server.h"
#include "vmm/machine/machine.h"

struct control {
	struct machine *machine;
	struct server *server;
	const char *snapshot_dir; /* absolute: snapshots are only below it; NULL: there are none */
	bool usual_socket;	  /* its directory is the server's own */
	bool paused;		  /* added VMs do not run before resume */
	const struct access_rules *access;			 /* server_opts.access */
	void (*quit)(void *arg);				 /* the quit command */
	void (*added)(const struct machine_vm *vm, void *arg);	 /* a VM was added by a command */
	void (*removed)(const struct machine_vm *vm, void *arg); /* a VM is about to be removed by a
								  * command */
	void (*log)(const char *line, void *arg);		 /* the server dropped a client */
	void *arg;
	/* private */
	struct machine_vm *vm;		/* the VM of the pending answer to an addition or removal */
	struct control_kernel *kernels; /* requests that wait, the first one's kernel is unpacked */
};

/* control_serve - serve @path on @ev. *c holds machine and callbacks, and outlives the server. */
int control_serve(struct control *c, sd_event *ev, const char *path, char *err, size_t errlen);
void control_close(struct control *c);

/* control_kernels_tend - after machine_opts.wake: continue requests with an unpacked kernel. */
void control_kernels_tend(struct control *c);

/* control_resume - start every VM; VMs that are added later run at once. */
int control_resume(struct control *c, char *err, size_t errlen);

/* control_vm_added - end of the commands that add @vm: start it unless @c is paused, and answer.
 * @vm is removed if that fails or there is no memory for the answer. */
int control_vm_added(struct control *c, struct machine_vm *vm, json_t *resp, char *err,
		     size_t errlen);

/* control_sessions - number of operator sessions attached now. */
unsigned int control_sessions(struct control *c);

/* control_named_vm - check that @req has no fields but @fields, and find the VM of the field
 * "name". Without that field: *vm is NULL, or an error if it is @required. */
int control_named_vm(struct control *c, const json_t *req, const char *const *fields, bool required,
		     struct machine_vm **vm, char *err, size_t errlen);

/* ---- control_console.c, control_set.c, control_snapshot.c: commands ---- */

server_fn control_console_read, control_console_write, control_vm_set, control_tenant_set,
	control_vm_save, control_vm_restore;

/* control_console_info - add to the VM @obj of `list` the number of lines that its console lost, if
 * any. */
void control_console_info(const struct machine_vm *vm, json_t *obj);

/* ---- control_kernel.c ---- */
/* control_kernel_wait - let the request that adds @vm, a VM with a kernel, wait for that kernel.
 * Returns 1; 0 if the request cannot wait (server_wait), as when it is run again with the kernel
 * unpacked; or -errno and one line in @err. */
int control_kernel_wait(struct control *c, const struct vm_config *vm, char *err, size_t errlen);

/* control_kernels_close - drop all waiting requests: the server has closed its clients. */
void control_kernels_close(struct control *c);
