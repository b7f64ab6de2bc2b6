/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon behind main(): creates the BPF backend, the tree of tenants and VMs, and the socket
 * from a configuration, on the caller's event loop. Call all functions on the event loop's thread,
 * which must be registered with liburcu.
 */
#pragma once

#include <stddef.h>
#include <systemd/sd-event.h>

struct daemon_opts {
	const char *config; /* path of vpmud.conf; NULL: VPMUD_CONF if it exists */
	int listen_fd;	    /* see struct server_opts */
};

struct daemon;

/*
 * daemon_create - start counting and serving, and drop privileges (caps.c). Returns 0, or -errno
 * (-EINVAL: invalid configuration) and one line in @err. Later failures are reported on standard
 * error.
 *
 * daemon_destroy - stop and free; NULL is allowed.
 */
int daemon_create(sd_event *ev, const struct daemon_opts *o, struct daemon **out, char *err,
		  size_t errlen);
void daemon_destroy(struct daemon *d);

/* daemon_leave - orderly shutdown: send clients their last counts and remove the socket. If named
 * sessions are open and counts are pinned, save them for the next vpmud and exit the process here.
 * Otherwise it returns; call daemon_destroy() next. */
void daemon_leave(struct daemon *d);

/* daemon_reload - read the configuration again and apply its rules. On error the old configuration
 * stays in force; counting continues in either case. Returns 0, or -errno and one line in @err;
 * after success @err is empty, or names the key that takes effect only at the next start. */
int daemon_reload(struct daemon *d, char *err, size_t errlen);

/* daemon_socket - the path of the socket; lives as long as @d. */
const char *daemon_socket(const struct daemon *d);

/* daemon_say - print one line to standard error. */
void daemon_say(const char *line);

/* caps.c drops the privileges that only the start needs; service/daemon/contain.h has the steps.
 * Called while there is one thread. Irreversible. */
/* vpmud_contain - take all steps. Returns 0, or -errno and one line in @err. */
int vpmud_contain(char *err, size_t errlen);
