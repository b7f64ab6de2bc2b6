/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The metrics of vpmud: whoever wants them - the HTTP process, the textfile, the command
 * `metrics` - is given a text of now (exporter/metrics.h). All functions: the event loop's thread.
 */
#ifndef VPMUD_METRICS_H
#define VPMUD_METRICS_H

#include <systemd/sd-event.h>

#include "exporter/metrics.h"
#include "vpmud/config.h"

struct vmetrics;

/* vmetrics_listen_ok - whether @listen is ADDRESS:PORT, :PORT, [ADDRESS]:PORT or unix:/PATH. Pure.
 */
bool vmetrics_listen_ok(const char *listen);

/*
 * vmetrics_create - listen, and make the HTTP process, if @c says so. @listen_fd: not 0, a socket
 * that listens already (socket activation), instead of c->listen; it is taken. @gid: the group that
 * may use a Unix socket, or -1. Early: before threads, and while all rights are there. NULL in
 * *@out if there is no section. -errno, one line to @err. vmetrics_destroy - before the rest of
 * vpmud; NULL is fine.
 */
int vmetrics_create(const struct metrics_config *c, int listen_fd, gid_t gid, struct vmetrics **out,
		    char *err, size_t errlen);
void vmetrics_destroy(struct vmetrics *m);

/*
 * vmetrics_begin - count and answer from now on. @o: without events and limits, which the
 * configuration has. @note gets a line when something fails for the first time. -errno and one line
 * to @err.
 */
int vmetrics_begin(struct vmetrics *m, sd_event *ev, struct metrics_opts *o,
		   void (*note)(const char *line), char *err, size_t errlen);

/* vmetrics_command - the command `metrics`, for server_register; @arg is the struct vmetrics. */
int vmetrics_command(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen);

#endif
