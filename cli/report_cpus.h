/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The CPUs that each VM and tenant ran on during `vpmu report`: a VM waits for those that have its
 * own CPUs. Only report.c uses it. */
#ifndef CLI_REPORT_CPUS_H
#define CLI_REPORT_CPUS_H

#include <jansson.h>

#include "cli/client.h"

struct report_cpus;

/* report_cpus_start - count on each CPU apart, from now on. NULL: the server cannot, or there are
 * too many CPUs; nothing is printed. */
struct report_cpus *report_cpus_start(struct client *c, unsigned int nr_cpus);

/* report_cpus_end - return the page's "cpus", or NULL; frees @p, which may be NULL. */
json_t *report_cpus_end(struct report_cpus *p);

#endif
