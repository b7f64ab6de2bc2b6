/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon behind main(): the BPF backend, the tree of tenants and VMs, and the socket, made
 * from a configuration, on the caller's event loop. All functions: the event loop's thread, which
 * is registered with liburcu.
 */
#ifndef VPMUD_DAEMON_H
#define VPMUD_DAEMON_H

#include <stddef.h>
#include <systemd/sd-event.h>

struct daemon_opts {
	const char *config; /* path of vpmud.conf; NULL: VPMUD_CONF if it is there */
	int listen_fd;	    /* struct server_opts */
};

struct daemon;

/*
 * daemon_create - begin to count and to serve. Rights are given up before it returns (contain.h).
 * -EINVAL: the configuration is not accepted; else what the kernel says. One line to @err. What
 * fails later is a line on standard error. daemon_destroy - end it; NULL is fine.
 */
int daemon_create(sd_event *ev, const struct daemon_opts *o, struct daemon **out, char *err,
		  size_t errlen);
void daemon_destroy(struct daemon *d);

/* daemon_leave - the orderly end: clients get their last counts, and the socket goes. If sessions
 * with names are open and counts are pinned, counting goes on for the next vpmud, and the process
 * ends here; otherwise it returns, and daemon_destroy follows. */
void daemon_leave(struct daemon *d);

/* daemon_reload - read the configuration again. On an error the old one stays in force; counting
 * goes on in either case. One line to @err; after success @err is empty, or names what takes effect
 * at the next start only. */
int daemon_reload(struct daemon *d, char *err, size_t errlen);

/* daemon_socket - where it serves. */
const char *daemon_socket(const struct daemon *d);

/* daemon_read_config - read the configuration of @path (as above) into *@c, which the caller frees
 * in either case. For --check-config as well. */
struct vpmud_config;
int daemon_read_config(const char *path, struct vpmud_config *c, char *err, size_t errlen);

/* daemon_say - one line to standard error, or with PRIORITY before it to the journal. */
void daemon_say(const char *line);

#endif
