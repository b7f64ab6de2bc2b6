/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests of clients that wait for a kernel to be unpacked. Control thread. */
#ifndef VMM_CONTROL_KERNEL_H
#define VMM_CONTROL_KERNEL_H

#include "vmm/control.h"

/* control_kernel_wait - let the request that adds @vm, a VM with a kernel, wait for that kernel.
 * Returns 1; 0 if the request cannot wait (server_wait), as when it is run again with the kernel
 * unpacked; or -errno and one line in @err. */
int control_kernel_wait(struct control *c, const struct vm_config *vm, char *err, size_t errlen);

/* control_kernels_close - drop all waiting requests: the server has closed its clients. */
void control_kernels_close(struct control *c);

#endif
