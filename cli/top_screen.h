/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The full screen of vpmu top. */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "cli/top_source.h"

/* top_screen - run the screen for @src until q. Keys change @o. Returns the exit status; errors
 * were printed after the screen was closed. */
int top_screen(struct top_source *src, struct top_opts *o);

#endif
