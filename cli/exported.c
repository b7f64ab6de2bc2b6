// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes the metrics for Prometheus to standard output, or to a file for node_exporter's textfile
 * collector. list_metrics.c calls it. exporter/ defines the contents. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/commands.h"
#include "cli/error.h"
#include "cli/terminal.h"
#include "exporter/config.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/files.h"

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

/* Replace the file atomically. */
static int write_file(const char *path, const struct expo *e, char *err, size_t errlen)
{
	char next[PATH_MAX];
	int ret;

	/* node_exporter reads *.prom only, so not this one. Several processes may write the
	 * file. */
	if (snprintf(next, sizeof(next), "%s.%d.new", path, getpid()) >= (int)sizeof(next))
		return fail(-ENAMETOOLONG, err, errlen, "%.80s...: the path is too long", path);
	ret = replace_file(path, next, 0644, true, e->text, e->len);
	return ret ? fail(ret, err, errlen, "%s: %s", path, strerror(-ret)) : 0;
}

int exported_show(struct cli *cli, const char *config, bool openmetrics, const char *path)
{
	struct expo e = {.form = openmetrics ? EXPO_OPENMETRICS : EXPO_TEXT};
	struct exporter_config conf;
	struct client *c = NULL;
	char err[600];
	int ret = exporter_config_read(&conf, config, err, sizeof(err));

	if (!ret) {
		c = client_open(cli, false); /* prints the error */
		if (!c) {
			exporter_config_fini(&conf);
			return 1;
		}
		ret = render(&conf, c, &e, err, sizeof(err));
	}
	if (!ret && path)
		ret = write_file(path, &e, err, sizeof(err));
	else if (!ret && fwrite(e.text, 1, e.len, stdout) != e.len)
		ret = fail(-EIO, err, sizeof(err), "cannot write");
	if (ret)
		cli_error("metrics: %s", terminal_safe(err));
	client_close(c);
	expo_fini(&e);
	exporter_config_fini(&conf);
	return ret ? 1 : 0;
}
