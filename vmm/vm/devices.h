/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The devices that all vCPUs of a VM with a stock kernel share: the serial port, the power
 * registers and PCI's configuration space (vmm/engine/platform.h). vm.c makes them; vCPUs of
 * freestanding images have devices of their own (vcpu.c).
 */
#pragma once

#include "vmm/dev/pci.h"
#include "vmm/dev/power.h"
#include "vmm/dev/serial.h"

struct vm;

#define VM_PANIC_MAX 160

struct vm_devices {
	struct vm *vm;
	struct serial serial;
	struct power power;
	struct pci pci;
	bool exit_port; /* vCPUs have the exit port of boot_protocol.exit_port */
	/* The kernel's panic message from the serial port, printable; "": no panic. Under the
	 * serial port's lock until the VM has ended. */
	char panic[VM_PANIC_MAX];
};

/* vm_devices_new - the devices of @vm, as after a reset. NULL: out of memory. vm_devices_free - no
 * vCPU may run; NULL is fine. Control thread. */
struct vm_devices *vm_devices_new(struct vm *vm);
void vm_devices_free(struct vm_devices *d);

/* vm_devices_claim - put the devices onto the bus of a vCPU. -errno of bus_claim. Control thread.
 */
int vm_devices_claim(struct vm_devices *d, struct bus *bus);

/* vm_devices_exited - a vCPU has written to the exit port: the whole VM ends. Thread of that
 * vCPU. */
void vm_devices_exited(struct vm_devices *d);

/* vm_devices_save - append the devices' state to @b. vm_devices_load - the reverse, into new
 * devices; -EINVAL: the state is damaged, or no guest can cause it; -ENOMEM. Call both while no
 * vCPU runs. */
void vm_devices_save(struct vm_devices *d, struct vpmu_blob *b);
int vm_devices_load(struct vm_devices *d, struct vpmu_blob_reader *r);

/* vm_devices_panicked - a vCPU of the VM cannot continue. Returns true if the kernel's panic is the
 * reason: the VM has failed then. Thread of that vCPU. */
bool vm_devices_panicked(struct vm_devices *d);
