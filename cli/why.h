/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why a target that was sampled or captured showed nothing: vpmu profile and vpmu lbr. */
#ifndef CLI_WHY_H
#define CLI_WHY_H

#include <stdbool.h>

#include "cli/client.h"

/* why_not_running - whether no VM of @target runs now. @why: the reason, for an error line; it is
 * also set when a VM runs. */
#define WHY_LEN 256
bool why_not_running(struct client *c, const char *target, char why[WHY_LEN]);

#endif
