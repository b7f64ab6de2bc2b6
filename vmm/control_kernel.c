// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Adding VMs that boot a kernel: the client waits until a thread has unpacked the kernel
 * (vmm/machine/unpack.c), while others are served. One kernel at a time, in the order of the
 * requests. Control thread.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/control.h"

struct control_kernel {
	struct control *c;
	struct later *request; /* NULL: the client has gone */
	char *path, *vm;
	struct machine_unpack *unpack; /* NULL: not begun */
	struct control_kernel *next;
};

static void kernel_free(struct control_kernel *k)
{
	free(k->path);
	free(k->vm);
	free(k);
}

static void client_gone(void *arg)
{
	((struct control_kernel *)arg)->request = NULL;
}

int control_kernel_wait(struct control *c, const struct vm_config *vm, char *err, size_t errlen)
{
	struct control_kernel *k = calloc(1, sizeof(*k)), **last = &c->kernels;

	if (!k)
		return fail(-ENOMEM, err, errlen, "vm-add: out of memory");
	k->c = c;
	k->request = server_wait(c->server, client_gone, k);
	if (!k->request) {
		kernel_free(k);
		return 0;
	}
	k->path = strdup(vm->kernel);
	k->vm = strdup(vm->name);
	if (k->path && k->vm && !c->kernels)
		k->unpack = machine_unpack(c->machine, k->path);
	if (!k->path || !k->vm || (!c->kernels && !k->unpack)) {
		kernel_free(k);
		return fail(-ENOMEM, err, errlen, "vm-add: out of memory");
	}
	while (*last)
		last = &(*last)->next;
	*last = k;
	return 1;
}

/* Finish request @k, already removed from the queue, with @ret. */
static void kernel_end(struct control_kernel *k, int ret, const char *why)
{
	char err[VM_REASON_MAX + 120];

	fail(0, err, sizeof(err), "vm-add: vm %s: %s", k->vm, why);
	if (k->request)
		server_go_on(k->request, ret, err);
	machine_unpack_unused(k->c->machine);
	kernel_free(k);
}

void control_kernels_tend(struct control *c)
{
	struct control_kernel *k;
	char why[VM_REASON_MAX] = "out of memory";

	while ((k = c->kernels) && (!k->unpack || machine_unpacked(k->unpack))) {
		int ret = k->unpack ? machine_unpack_take(k->unpack, why, sizeof(why)) : -ENOMEM;

		/* Skip requests with no client any more. */
		for (c->kernels = k->next; c->kernels && !c->kernels->request;) {
			struct control_kernel *gone = c->kernels;

			c->kernels = gone->next;
			kernel_free(gone);
		}
		kernel_end(k, ret, why);
		if (c->kernels && !c->kernels->unpack)
			c->kernels->unpack = machine_unpack(c->machine, c->kernels->path);
	}
}

void control_kernels_close(struct control *c)
{
	struct control_kernel *k;

	while ((k = c->kernels)) {
		c->kernels = k->next;
		if (k->unpack)
			machine_unpack_leave(k->unpack);
		kernel_free(k);
	}
}
