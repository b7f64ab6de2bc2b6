/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket: JSON lines over a unix stream socket (docs/protocol.md). vpmu-vmm serves it;
 * the daemon of the BPF backend will serve the same commands. The server runs inside the caller's
 * sd-event loop on the control thread. Each request is answered by one line before the next is
 * read.
 *
 * Built in: hello, list, events, attach, reattach, read, detach, sessions, sharing, conservation,
 * check, tenant-add, tenant-remove, profile-start, profile-read, profile-stop, profiles,
 * lbr-attach, lbr-read, lbr-detach, captures. The owner registers what only it can do (vm-add,
 * vm-remove, quit); request.h has what such a command needs to check its fields.
 */
#ifndef SERVICE_SERVER_H
#define SERVICE_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#include "service/access.h"
#include "service/tenant/tenant.h"

#define SERVER_PROTOCOL	   1	 /* version of docs/protocol.md */
#define SERVER_LINE_MAX	   65536 /* bytes of a request, newline included */
#define SERVER_CLIENTS_MAX 64
/* Of one user, of a tenant's readers, of all readers, of all but root and the server's user. */
#define SERVER_CLIENTS_USER    16
#define SERVER_CLIENTS_TENANT  24
#define SERVER_CLIENTS_READERS 48
#define SERVER_CLIENTS_OTHERS  56
#define SERVER_IDLE_MS	       1000 /* a client this long silent may be dropped for a new one */
#define SERVER_PENDING_MAX     (64 << 20) /* bytes of answers not yet read, over all clients */
/* Of these, what leaves room for answers to root and the server's user. */
#define SERVER_PENDING_OTHERS (SERVER_PENDING_MAX / 8 * 7)
#define SERVER_SLOW_SEC	      10  /* a client that reads nothing for this long is dropped */
#define SERVER_LOST_SEC	      300 /* a named session stays so long after its connection's end */

struct server;
struct later;

struct server_opts {
	const char *path; /* of the socket. A stale socket is replaced; if a
			   * server listens on it, -EADDRINUSE with one line */
	bool own_dir;	  /* the directory of @path is the server's own (server_default_path): it is
			   * made if it is missing, and nobody else may write to it */
	int listen_fd;	  /* not 0: a socket that listens at @path already (socket activation); it
			   * is closed in the end, its file stays */
	const char *name; /* "vpmu-vmm", for hello */
	enum vpmu_space raw_space; /* vendor of rHEX event names */
	bool host_too; /* an event without ":G" or ":H" is counted in guests and in the host; else
			* in guests only */
	/* for `check`: appends {"what","ok","why"} objects, with "backend" where a row is about one
	 * backend. @all: the client may see every tenant, and so figures of the whole host. May be
	 * NULL */
	void (*check)(json_t *rows, bool all, void *arg);
	/* for `sharing`, whose client sees all: adds what only the owner knows. -ENOMEM. May be
	 * NULL */
	int (*figures)(json_t *resp, void *arg);
	int (*vm_info)(const struct node *vm, json_t *obj,
		       void *arg); /* adds fields to a VM in `list`; may be NULL */
	/* A command has been done, and its answer is about to be sent. May be NULL */
	void (*done)(void *arg);
	unsigned int slow_sec;		   /* 0: SERVER_SLOW_SEC */
	unsigned int lost_sec;		   /* 0: SERVER_LOST_SEC */
	const struct access_rules *access; /* groups that may connect; NULL: none. Not copied */
	/* one line about a client that was dropped and why, may be NULL */
	void (*log)(const char *line, void *arg);
	void *arg;
};

/*
 * server_create - listen on @opts->path, whose directory must not be a symbolic link, nor belong to
 * a third user. @opts is copied, its strings are not. Sessions, profiles and captures watch @ts.
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
/* server_register - for administrators only. -EEXIST when there is a command of that name. @cmd is
 * not copied. */
int server_register(struct server *s, const char *cmd, server_fn fn, void *arg);

/*
 * server_then - for a command, while it is called: @then is called when the answer is there (@ok),
 * or when there is no memory for it. A command that cannot be taken back does its work only then; a
 * command that can be taken back takes itself back when @ok is false. Not called when the command
 * returns an error.
 */
void server_then(struct server *s, void (*then)(bool ok, void *arg), void *arg);

/*
 * server_wait - for a command, while it is called and before it has done anything: the request
 * waits, and its client with it, and the others are served meanwhile. The command then returns 0
 * and is not answered; if it returns an error it does not wait. NULL: it cannot wait, because it
 * has waited already, nobody is connected, or there is no memory. It is done at once then.
 * server_go_on - @ret 0: run the command again; -errno: answer with that and the line @err. @lost
 * is called instead if the client goes away meanwhile, or the server ends. Each ends the wait.
 */
struct later *server_wait(struct server *s, void (*lost)(void *arg), void *arg);
void server_go_on(struct later *l, int ret, const char *err);

/* server_dispatch - one request line (not NUL-terminated, @len bytes) to one malloc'd answer line
 * ending in \n. NULL only when out of memory; the command was not done then. Tests and the fuzzer
 * call this. */
char *server_dispatch(struct server *s, const char *line, size_t len);

/*
 * A server whose counts outlive it: session_save.h. server_sessions - its sessions, to save and to
 * restore them. server_leave - the end of a server whose sessions the next one goes on with: say
 * farewell to the clients, whose sessions without a name end, and remove the socket. Nothing but
 * the end of the process may follow.
 */
struct sessions;
struct sessions *server_sessions(struct server *s);
void server_leave(struct server *s);

/*
 * server_default_path - where @name ("vpmu-vmm") listens when no path is given: /run/vpmu for root,
 * else $XDG_RUNTIME_DIR/vpmu, else /tmp/vpmu-UID. Returns 0 or -ENAMETOOLONG.
 */
int server_default_path(const char *name, char *buf, size_t len);

#endif
