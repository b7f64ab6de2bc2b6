/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What to do about a row of `vpmu check` that is not as it should be. Pure. */
#ifndef CLI_REMEDY_H
#define CLI_REMEDY_H

/*
 * remedy_for - what an operator can do about the row @what, which is not ok because of @why. A
 * static string of one line. "" if the row is a fact that needs nothing; NULL if the row is not
 * known here, as those of a newer server.
 */
const char *remedy_for(const char *what, const char *why);

#endif
