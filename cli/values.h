/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options with a fixed set of values, for cli_choice() and complete.c. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

/* cli_values - return the values of @option ("mode"), NULL-terminated; NULL: no fixed set. */
const char *const *cli_values(const char *option);

#endif
