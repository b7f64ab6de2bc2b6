/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What vpmu-vmm's control socket can do beyond the built-in commands: vm-add, vm-remove, pause,
 * resume, quit; and what it says about VMs and the host. Control thread.
 */
#ifndef VMM_CONTROL_H
#define VMM_CONTROL_H

#include "cgroup/service/server.h"
#include "vmm/machine/machine.h"

struct control {
	struct machine *machine;
	struct server *server;
	bool paused;		 /* VMs that are added wait for resume */
	void (*quit)(void *arg); /* the quit command */
	void (*added)(const struct machine_vm *vm, void *arg);	 /* by command */
	void (*removed)(const struct machine_vm *vm, void *arg); /* is about to be, by command */
	void (*log)(const char *line, void *arg);		 /* of the server's */
	void *arg;
};

/* control_serve - serve @path on @ev. *c holds machine and callbacks, and outlives the server. */
int control_serve(struct control *c, sd_event *ev, const char *path, char *err, size_t errlen);
void control_close(struct control *c);

/* control_resume - start every VM, and those to come. */
int control_resume(struct control *c, char *err, size_t errlen);

/* control_sessions - operator sessions attached now. */
unsigned int control_sessions(struct control *c);

#endif
