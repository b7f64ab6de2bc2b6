/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a domain's XML says about whose VM it is. virt_worker.c calls it for each domain. Any
 * thread, after domxml_init() was called once.
 */
#ifndef VPMUD_DISCOVER_DOMXML_H
#define VPMUD_DISCOVER_DOMXML_H

#include <stddef.h>

#include "vpmud/discover/cmdline.h"

/* Namespace of our element in <metadata>: <vpmu:tenant xmlns:vpmu="urn:vpmu:1">/acme</vpmu:tenant>
 */
#define DOMXML_NAMESPACE "urn:vpmu:1"

/* What the namespaces of Nova's <instance> begin with. */
#define DOMXML_NOVA "http://openstack.org/xmlns/libvirt/nova/"

/* Bytes of a domain's XML that are looked at. */
#define DOMXML_MAX (4 << 20)

struct domxml {
	char name[DISC_NAME_SIZE];
	char uuid[DISC_UUID_SIZE];
	char tenant[DISC_NAME_SIZE]; /* begins with "/"; empty: none */
};

/* domxml_init - once, before threads. */
void domxml_init(void);

/*
 * domxml_parse - fill *@out from the @len bytes at @xml. The tenant is the text of our element; or
 * else "/" and the UUID of the project that Nova says the instance belongs to. Returns 0;
 * -EINVAL: not a domain with a name and a UUID, or too much of it; -ENOMEM. With 0 the line @err
 * may say why a tenant that is there is not accepted; it is empty otherwise.
 */
int domxml_parse(const char *xml, size_t len, struct domxml *out, char *err, size_t errlen);

#endif
