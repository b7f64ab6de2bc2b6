/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The values of options that accept only some words: cli_choice checks them, and complete.c offers
 * them. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H

/* cli_values - the values of @option ("mode"), up to NULL; NULL: it accepts other things. */
const char *const *cli_values(const char *option);

#endif
