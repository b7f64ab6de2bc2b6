/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Extracts name, UUID and tenant from a domain's XML. virt_worker.c calls it for each domain. Any
 * thread, once domxml_init() has returned.
 */
#pragma once

#include <stddef.h>

#include "vpmud/discover/cmdline.h"

/* Namespace of our element in <metadata>: <vpmu:tenant xmlns:vpmu="urn:vpmu:1">/acme</vpmu:tenant>
 */
#define DOMXML_NAMESPACE "urn:vpmu:1"

/* Prefix of the namespaces of Nova's <instance>. */
#define DOMXML_NOVA "http://openstack.org/xmlns/libvirt/nova/"

/* Largest domain XML that is parsed, in bytes. */
#define DOMXML_MAX (4 << 20)

struct domxml {
	char name[DISC_NAME_SIZE];
	char uuid[DISC_UUID_SIZE];
	char tenant[DISC_NAME_SIZE]; /* begins with "/"; empty: none */
};

/* domxml_init - call it once, before threads start. */
void domxml_init(void);

/*
 * domxml_parse - fill *@out from the @len bytes at @xml. The tenant is the text of our element, or
 * else "/" and the UUID of Nova's project. Returns 0; -EINVAL: not a domain with a name and a UUID,
 * or too large. If 0, @err may hold one line about an invalid tenant; it is empty
 * otherwise.
 */
int domxml_parse(const char *xml, size_t len, struct domxml *out, char *err, size_t errlen);
