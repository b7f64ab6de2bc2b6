/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control socket: JSON lines over a unix stream socket (docs/protocol.md). vpmu-vmm and vpmud
 * serve it. The server runs in the caller's sd-event loop on the control thread. Each request is
 * answered by one line before the client's next one is read.
 *
 * Built in: hello, list, events, attach, reattach, read, detach, sessions, sharing, conservation,
 * check, tenant-add, tenant-remove, profile-start, profile-read, profile-stop, profiles,
 * lbr-attach, lbr-read, lbr-detach, captures. The owner registers its own commands (vm-add,
 * vm-remove, quit), which check their fields with request.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <systemd/sd-event.h>

#include "service/access.h"
#include "service/tenant/tenant.h"

#define SERVER_PROTOCOL	   1	 /* version of docs/protocol.md */
#define SERVER_LINE_MAX	   65536 /* bytes of a request, newline included */
#define SERVER_CLIENTS_MAX 64
/* Limits for one user, a tenant's readers, all readers, all except root and the server's user. */
#define SERVER_CLIENTS_USER    16
#define SERVER_CLIENTS_TENANT  24
#define SERVER_CLIENTS_READERS 48
#define SERVER_CLIENTS_OTHERS  56
#define SERVER_IDLE_MS	       1000 /* a client this long silent may be dropped for a new one */
#define SERVER_PENDING_MAX     (64 << 20) /* bytes of answers not yet read, over all clients */
/* Likewise of one user, of the readers of a tenant, of all readers, and of all but root and the
 * server's user. */
#define SERVER_PENDING_USER    (SERVER_PENDING_MAX / 8 * 4)
#define SERVER_PENDING_TENANT  (SERVER_PENDING_MAX / 8 * 5)
#define SERVER_PENDING_READERS (SERVER_PENDING_MAX / 8 * 6)
#define SERVER_PENDING_OTHERS  (SERVER_PENDING_MAX / 8 * 7)
#define SERVER_SLOW_SEC	       10  /* a client that reads nothing for this long is dropped */
#define SERVER_LOST_SEC	       300 /* how long a named session outlives its connection */

struct server;
struct later;

struct server_opts {
	const char *path; /* of the socket. A stale socket is replaced; if a server listens on it,
			   * -EADDRINUSE with one line */
	bool own_dir;	  /* the directory of @path is the server's own (server_default_path): it is
			   * created if missing, and others must not have write access */
	int listen_fd; /* not 0: a socket that already listens at @path (socket activation); it is
			* closed at the end, its file stays */
	const char *name;	   /* "vpmu-vmm", for hello */
	enum vpmu_space raw_space; /* vendor of rHEX event names */
	bool host_too; /* count events without ":G" or ":H" in guests and the host; else in guests
			* only */
	/* for `check`: appends {"what","ok","why"} objects, with "backend" if a row is about one
	 * backend. @all: the client may see every tenant, and so figures of the whole host. May be
	 * NULL */
	void (*check)(json_t *rows, bool all, void *arg);
	/* for `sharing`, if the client sees all: adds the owner's figures. May be NULL */
	void (*figures)(json_t *resp, void *arg);
	void (*vm_info)(const struct node *vm, json_t *obj,
			void *arg); /* adds fields to a VM in `list`; may be NULL */
	/* called after each successful command, before its answer is sent. May be NULL */
	void (*done)(void *arg);
	unsigned int slow_sec;		   /* 0: SERVER_SLOW_SEC */
	unsigned int lost_sec;		   /* 0: SERVER_LOST_SEC */
	const struct access_rules *access; /* groups that may connect; NULL: none. Not copied */
	/* logs one line about a dropped client and the reason. May be NULL */
	void (*log)(const char *line, void *arg);
	void *arg;
};

/*
 * server_create - listen on @opts->path; its directory must not be a symbolic link, nor belong to a
 * third user. @opts is copied, its strings are not. Sessions, profiles and captures watch @ts.
 * -errno and one line in @err.
 * server_destroy - close clients and sessions and remove the socket; call before tenants_destroy.
 */
int server_create(struct tenants *ts, sd_event *ev, const struct server_opts *opts,
		  struct server **out, char *err, size_t errlen);
void server_destroy(struct server *s);

/*
 * A command: @req is the whole request object, @resp gets the fields of the answer ("ok":true is
 * added). On error return -errno and one line in @err; the answer is then
 * {"ok":false,"errno":N,"error":"..."}.
 */
typedef int server_fn(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen);
/* server_register - add a command for administrators only. -EEXIST: the name is taken; -ENOSPC: no
 * room. @cmd is not copied. */
int server_register(struct server *s, const char *cmd, server_fn *fn, void *arg);

/* server_history - add the command `history`, for readers, too, on @h. -EEXIST, -ENOSPC. */
struct history;
int server_history(struct server *s, struct history *h);

/*
 * server_then - from within a command: call @then when the answer is complete (@ok) or there is no
 * memory for it. A command that cannot be undone does its work only in @then; one that can undoes
 * it when @ok is false. Not called if the command returns an error.
 */
void server_then(struct server *s, void (*then)(bool ok, void *arg), void *arg);

/*
 * server_wait - from within a command that has not done anything yet: let the request wait, and its
 * client with it, while others are served. The command then returns 0 and is not answered; if it
 * returns an error it does not wait. Returns NULL if it cannot wait, because it has waited already,
 * there is no connection, or out of memory; then do it at once.
 * server_go_on - @ret 0: run the command again; -errno: answer with that and the line @err. @lost
 * is called instead if the client disconnects first, or the server ends. Each ends the wait.
 */
struct later *server_wait(struct server *s, void (*lost)(void *arg), void *arg);
void server_go_on(struct later *l, int ret, const char *err);

/* server_dispatch - process one request line (@len bytes, not NUL-terminated); returns a malloc'd
 * answer line ending in \n, or NULL if out of memory, in which case the command was not done. For
 * tests and the fuzzer. */
char *server_dispatch(struct server *s, const char *line, size_t len);

/*
 * For servers with counts that outlive them: session_save.h.
 * server_sessions - its sessions, to save and to restore them.
 * server_leave - end a server so that the next one can go on with its sessions: send connected
 * clients the last counts of the sessions that they own, and remove the socket. Sessions without a
 * name end, the others are lost. Only the end of the process may follow.
 */
struct sessions;
struct sessions *server_sessions(struct server *s);
void server_leave(struct server *s);

/*
 * server_default_path - the default socket path of program @name ("vpmu-vmm"): in /run/vpmu for
 * root, else $XDG_RUNTIME_DIR/vpmu, else /tmp/vpmu-UID. Returns 0 or -ENAMETOOLONG.
 */
int server_default_path(const char *name, char *buf, size_t len);
