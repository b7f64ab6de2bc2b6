// SPDX-License-Identifier: GPL-2.0-or-later
/* A build without libarchive: see bundle.h. */
#include "cli/bundle.h"
#include "cli/error.h"

int bundle_write(struct cli *cli, const char *path, bool names, const struct bundle_rows *rows)
{
	cli_error("check: --bundle: this build of vpmu is without libarchive, which writes the "
		  "archive");
	return 1;
}
