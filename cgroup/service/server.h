/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket: JSON lines over a unix stream socket (docs/protocol.md). vpmu-vmm serves it;
 * the daemon of the kernel plane will serve the same commands. The server runs inside the caller's
 * sd-event loop on the control thread. Each request is answered by one line before the next is
 * read.
 *
 * Built in: hello, list, events, attach, read, detach, sessions, sharing, conservation, check,
 * tenant-add, tenant-remove, profile-start, profile-read, profile-stop, profiles, lbr-attach,
 * lbr-read, lbr-detach, captures. The owner registers what only it can do (vm-add, vm-remove,
 * quit); request.h has what such a command needs to check its fields.
 */
#ifndef CGROUP_SERVICE_SERVER_H
#define CGROUP_SERVICE_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#include "cgroup/tenant/tenant.h"

#define SERVER_PROTOCOL	   1	 /* version of docs/protocol.md */
#define SERVER_LINE_MAX	   65536 /* bytes of a request, newline included */
#define SERVER_CLIENTS_MAX 64
#define SERVER_IDLE_MS	   1000	      /* a client this long silent may be dropped for a new one */
#define SERVER_PENDING_MAX (64 << 20) /* bytes of answers not yet read, over all clients */
#define SERVER_SLOW_SEC	   10	      /* a client that reads nothing for this long is dropped */

struct server;

struct server_opts {
	const char *path;	   /* of the socket, mode 0660. A stale socket is replaced; if a
				    * server listens on it, -EADDRINUSE with one line */
	const char *name;	   /* "vpmu-vmm", for hello */
	enum vpmu_space raw_space; /* vendor of rHEX event names */
	/* for `check`: appends {"what","ok","why"} objects, with "plane" where a row is about one
	 * plane. May be NULL */
	void (*check)(json_t *rows, void *arg);
	int (*vm_info)(const struct node *vm, json_t *obj,
		       void *arg); /* adds fields to a VM in `list`; may be NULL */
	unsigned int slow_sec;	   /* 0: SERVER_SLOW_SEC */
	/* one line about a client that was dropped and why, may be NULL */
	void (*log)(const char *line, void *arg);
	void *arg;
};

/*
 * server_create - listen on @opts->path. Makes the last directory of the path (mode 0755) if it
 * is missing. @opts is copied, its strings are not. Sessions, profiles and captures watch @ts.
 * -errno and one line in @err. server_destroy closes clients and sessions and removes the socket;
 * before tenants_destroy.
 */
int server_create(struct tenants *ts, sd_event *ev, const struct server_opts *opts,
		  struct server **out, char *err, size_t errlen);
void server_destroy(struct server *s);

/*
 * A command: @req is the whole request object, @resp gets the fields of the answer ("ok":true is
 * added). On error return -errno and one line in @err; the answer is then
 * {"ok":false,"errno":N,"error":"..."}.
 */
typedef int (*server_fn)(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen);
/* server_register - -EEXIST when there is a command of that name. @cmd is not copied. */
int server_register(struct server *s, const char *cmd, server_fn fn, void *arg);

/* server_dispatch - one request line (not NUL-terminated, @len bytes) to one malloc'd answer line
 * ending in \n. NULL only when out of memory. Tests and the fuzzer call this. */
char *server_dispatch(struct server *s, const char *line, size_t len);

/*
 * server_default_path - where @name ("vpmu-vmm") listens when no path is given: /run/vpmu for root,
 * else $XDG_RUNTIME_DIR/vpmu, else /tmp/vpmu-UID. Returns 0 or -ENAMETOOLONG.
 */
int server_default_path(const char *name, char *buf, size_t len);

#endif
