/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The profile in `vpmu report`: of the whole host while it counts, as a tree of functions below
 * each VM and tenant. Only report.c uses it. */
#ifndef CLI_REPORT_PROFILE_H
#define CLI_REPORT_PROFILE_H

#include <jansson.h>

#include "cli/client.h"

struct report_profile;

/* report_profile_start - start sampling. It never fails the report: the page has the reason. */
struct report_profile *report_profile_start(struct client *c);

/* report_profile_end - stop it and return the page's "profile"; frees @p. */
json_t *report_profile_end(struct report_profile *p);

#endif
