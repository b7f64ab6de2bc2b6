/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interface between config.c (keys and values), vm.c (one VM) and file.c (files). No other file
 * includes this; config.h is the public interface. */
#pragma once

#include "service/daemon/inifile.h"
#include "vmm/config/config.h"

#define VM_NAME_ACCEPTED "1 to 40 of letters, digits and _ . : @ -, the first a letter, digit or _"

/* config_set_host, config_set_vm - set one key. *given has a bit for each key that was set.
 * -EINVAL, with one line in at->err: no such key, the key was given before, or the value is
 * invalid. */
int config_set_host(struct host_config *h, uint32_t *given, const struct config_at *at,
		    const char *key, const char *value);
int config_set_vm(struct vm_config *vm, const struct config_at *at, const char *key,
		  const char *value);

/* config_vm_given - returns true if the key @name of @vm was set. */
bool config_vm_given(const struct vm_config *vm, const char *name);

/* config_add_vm - add a VM with default values at the end of c->vms. The pointer is valid until the
 * next call. NULL: error, with one line in at->err. */
struct vm_config *config_add_vm(struct config *c, const struct config_at *at);
