/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The vpmu-vmm servers of this host, in vpmud's own tree. Each one is found by its control socket,
 * and asked over that as any client asks (docs/protocol.md). The VMs of its emulator become VMs
 * of backend "emulator" in the tenants that the server says. Its KVM VMs are left out: the BPF
 * backend counts them, as processes of the host.
 *
 * A server may hang, lie, send anything, or be replaced by another one. It costs memory up to fixed
 * limits, and nobody but those who ask about its VMs waits for it. What it does not say is not
 * counted, and the rows of its VMs say why.
 *
 * All functions: the event loop's thread.
 */
#ifndef VPMUD_PEERS_H
#define VPMUD_PEERS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "service/access.h"
#include "service/server.h"
#include "service/session.h"
#include "service/tenant/tenant.h"

#define PEERS_MAX	 32	    /* servers at a time */
#define PEERS_LATE_MS	 10000	    /* without an answer for so long, a server does not answer */
#define PEERS_LINE_MAX	 (16 << 20) /* bytes of one answer */
#define PEERS_BUFFER_MAX (64 << 20) /* bytes of answers that are not whole, of all servers */
#define PEERS_NODES_MAX	 32768	    /* VMs and vCPUs of one server */
#define PEERS_TENANTS	 4096	    /* tenants made for servers' VMs; they stay for their counts */

struct peers;

struct peers_opts {
	const char *places; /* paths and patterns (glob(7)) of sockets, separated by blanks; "none";
			     * NULL: where vpmu-vmm listens by default */
	uid_t uid;	    /* servers of this user are asked, and root's */
	unsigned int late_ms; /* 0: PEERS_LATE_MS */
	void (*note)(void *arg, const char *line);
	void *arg;
};

/* peers_create - begin to look for servers. @ts gets the source of backend "emulator" when the
 * first VM of one comes. -ENOMEM or what sd-event says. peers_stop - forget all servers and their
 * VMs; after the end of the server that peers_hold is for. peers_destroy - after that, and after
 * tenants_destroy. NULL is fine for both. */
int peers_create(sd_event *ev, struct tenants *ts, const struct peers_opts *o, struct peers **out);
void peers_stop(struct peers *p);
void peers_destroy(struct peers *p);

/* peers_places_ok - whether @places is what struct peers_opts accepts. Pure. */
bool peers_places_ok(const char *places);

/* peers_look - look for servers now; a timer does it every second. */
void peers_look(struct peers *p);

/* peers_has - whether @vm is a VM of a server. peers_info - what the server says of it, for `list`;
 * not 0: no memory. */
bool peers_has(const struct peers *p, const struct node *vm);
int peers_info(const struct peers *p, const struct node *vm, json_t *obj);

/* peers_hold - for struct server_opts: requests that need an answer of a server first, and those
 * that are a server's own to answer. @ss: the sessions of the server that asks. */
int peers_hold(struct peers *p, struct sessions *ss, const json_t *req, const struct access *who,
	       bool ready, struct later *l, char *err, size_t errlen);

/*
 * peers_fresh - ask the servers for the counts of vpmud's own session with @keys, and call @done
 * when they have answered or are late. NULL: there is nothing to wait for, or no memory; @done is
 * not called then. peers_fresh_cancel - it is not called; NULL is fine. Not from @done.
 */
struct peers_fresh;
struct peers_fresh *peers_fresh(struct peers *p, const vpmu_key_t *keys, void (*done)(void *arg),
				void *arg);
void peers_fresh_cancel(struct peers_fresh *f);

/* peers_register - the commands of vpmu-vmm that are passed on to it. */
int peers_register(struct peers *p, struct server *s);

/* peers_compared - for struct server_opts: add to the answer of `conservation` what the servers
 * have said, and which have not. -ENOMEM. */
int peers_compared(const struct peers *p, json_t *resp);

/* peers_check - a row of `check` for each server and for each place that cannot be used. */
void peers_check(const struct peers *p,
		 void (*row)(const char *what, bool ok, const char *why, void *arg), void *arg);

#endif
