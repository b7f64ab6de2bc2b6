/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between config.c (keys and values), vm.c (one VM) and inifile.c (files); nobody else's. */
#ifndef VMM_CONFIG_KEYS_H
#define VMM_CONFIG_KEYS_H

#include "vmm/config/config.h"

#define VM_NAME_ACCEPTED "1 to 40 of letters, digits and _ . : @ -, the first a letter, digit or _"

/* What a message names, and where it goes. */
struct config_at {
	const char *where;   /* "vmm.ini:12", "--vm" */
	const char *section; /* "host", "vm web" */
	char *err;
	size_t errlen;
};

/* Set one key; -EINVAL with the line: no such key, given before (*given has a bit per key), value
 * not accepted. */
int config_set_host(struct host_config *h, uint32_t *given, const struct config_at *at,
		    const char *key, const char *value);
int config_set_vm(struct vm_config *vm, const struct config_at *at, const char *key,
		  const char *value);

/* A new VM with defaults at the end of c->vms; NULL with the line. Valid until the next one. */
struct vm_config *config_add_vm(struct config *c, const struct config_at *at);

#endif
