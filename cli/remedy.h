/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Suggests remedies for rows of `vpmu check` that are not ok. Pure. */
#ifndef CLI_REMEDY_H
#define CLI_REMEDY_H

#include <stdbool.h>

/*
 * remedy_for - return a remedy for the row @what, which is not ok because of @why: a static string
 * of one line; "" if none is needed; NULL if the row is unknown, such as one of a newer server.
 */
const char *remedy_for(const char *what, const char *why);

/* remedy_by_design - return true if such a row is no problem: the CPU, an option or vpmu itself is
 * meant to be so. Its remedy is another way, if there is one. */
bool remedy_by_design(const char *what, const char *why);

#endif
