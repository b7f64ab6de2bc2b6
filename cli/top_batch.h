/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Batch mode of vpmu top: tables, separated values or JSON, for pipes and files. */
#ifndef CLI_TOP_BATCH_H
#define CLI_TOP_BATCH_H

#include "cli/top_source.h"

/* top_batch - print @src as often as @o requests. Returns the exit status. */
int top_batch(struct top_source *src, const struct top_opts *o);

#endif
