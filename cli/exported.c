// SPDX-License-Identifier: GPL-2.0-or-later
/* The metrics for Prometheus, to standard output or a file; see exported.h. list_metrics.c calls
 * it. What is exported and how is exporter/'s. */
#include <errno.h>
#include <stdio.h>

#include "cli/client.h"
#include "cli/error.h"
#include "cli/exported.h"
#include "cli/terminal.h"
#include "exporter/config.h"
#include "exporter/textfile.h"
#include "vpmu/util/fail.h"

static int render(const struct exporter_config *conf, struct client *c, struct expo *e, char *err,
		  size_t errlen)
{
	struct metrics *m = NULL;
	int ret = exporter_metrics(conf, client_connection(c), &m, err, errlen);

	if (!ret)
		ret = metrics_render(m, e, err, errlen);
	if (!ret && expo_end(e))
		ret = fail(-ENOMEM, err, errlen, "out of memory");
	metrics_destroy(m);
	return ret;
}

int exported_show(struct cli *cli, const char *config, bool openmetrics, const char *path)
{
	struct expo e = {.form = openmetrics ? EXPO_OPENMETRICS : EXPO_TEXT};
	struct exporter_config conf;
	struct client *c = NULL;
	char err[600];
	int ret = exporter_config_read(&conf, config, err, sizeof(err));

	if (!ret) {
		c = client_open(cli, false); /* which says what is wrong */
		if (!c) {
			exporter_config_fini(&conf);
			return 1;
		}
		ret = render(&conf, c, &e, err, sizeof(err));
	}
	if (!ret && path)
		ret = textfile_write(path, e.text, e.len, err, sizeof(err));
	else if (!ret && fwrite(e.text, 1, e.len, stdout) != e.len)
		ret = fail(-EIO, err, sizeof(err), "cannot write");
	if (ret)
		cli_error("metrics: %s", terminal_safe(err));
	client_close(c);
	expo_fini(&e);
	exporter_config_fini(&conf);
	return ret ? 1 : 0;
}
