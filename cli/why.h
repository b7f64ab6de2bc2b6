/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Explains empty results of vpmu profile and vpmu lbr. */
#ifndef CLI_WHY_H
#define CLI_WHY_H

#include <stdbool.h>

#include "cli/client.h"

/* why_not_running - returns true if no VM of @target is running. @why: the reason, for an error
 * line; set even if one is. */
#define WHY_LEN 256
bool why_not_running(struct client *c, const char *target, char why[WHY_LEN]);

#endif
