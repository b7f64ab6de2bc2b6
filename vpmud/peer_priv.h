/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the peer files share; nobody else includes it. */
#ifndef VPMUD_PEER_PRIV_H
#define VPMUD_PEER_PRIV_H

#include <sys/queue.h>
#include <sys/stat.h>

#include "vpmud/peer_link.h"
#include "vpmud/peers.h"
#include "vpmu/emupmu.h"
#include "service/backend/backend.h"

#define PEER_BACKEND "emulator" /* of the VMs that are a server's to count */

enum pnode_kind { PNODE_TENANT, PNODE_VM, PNODE_VCPU };

/* A node of backend "emulator". Its counts are the servers'. */
struct pnode {
	struct vpmu_backend_node n; /* first */
	struct pnode *parent;
	enum pnode_kind kind;
	struct peer_vm *vm; /* VM, vCPU */
	LIST_HEAD(, count) counts;
	uint32_t vms[]; /* tenants ("/" and "/host" too): VMs at or below it, by peer.slot */
};

/* A VM of a server. */
struct peer_vm {
	const char *name; /* as the server says */
	struct peer *peer;
	struct node *node;
	struct pnode *in;
	struct pnode **vcpu;
	unsigned int nr_vcpus;
	char *path;
	json_t *info;	/* what the server says of it, for `list` */
	uint64_t round; /* the last answer that has it */
	struct peer_vm *next_drop;
};

/* One server. */
struct peer {
	struct peers *p;
	unsigned int slot;
	char path[108];
	dev_t dev;
	ino_t ino;
	struct link *link;   /* NULL: it could not be asked; see why */
	bool late;	     /* it does not answer */
	bool greeted;	     /* it is a server that can be asked */
	bool listed;	     /* it has said once which VMs it has */
	unsigned int rounds; /* of requests that are on their way */
	uint64_t again_ns;   /* do not connect before */
	char why[240];	     /* what is wrong with it; "": nothing */
	void *vms;	     /* tsearch(3) tree of struct peer_vm */
	size_t nr_nodes;     /* VMs and vCPUs */
	uint64_t round;	     /* number of the list that is in force */
	json_t *list;	     /* the newest list, until the counts behind it are here */
	struct vpmu_sharing sharing;
	LIST_HEAD(, remote) remotes;
	TAILQ_HEAD(, mark) marks;
};

/* Somebody waits until a server has answered all up to request @upto. */
struct mark {
	TAILQ_ENTRY(mark) next;
	struct barrier *b;
	uint64_t upto;
};

struct barrier {
	unsigned int marks;
	void (*done)(void *arg);
	void *arg;
};

struct peers {
	sd_event *ev;
	struct tenants *ts;
	char *places;
	uid_t uid;
	uint64_t late_ns;
	void (*note)(void *arg, const char *line);
	void *arg;
	sd_event_source *timer;
	struct peer *peer[PEERS_MAX];
	size_t buffered, nr_tenants;
	bool noted_tenants, noted_many;
	/* The source: */
	struct vpmu_backend source;
	bool in_tree;		/* the tree has the source */
	struct peer_vm *adding; /* whose nodes the tree adds just now */
	struct vpmu_emupmu pmu; /* it only says what an emulator counts */
	LIST_HEAD(, meter) meters;
	LIST_HEAD(, forward) forwards;
	LIST_HEAD(, compare) compares;
	const struct compare *compared; /* what the command that runs now has waited for */
	struct server *server;
};

__attribute__((format(printf, 2, 3))) void peer_note(const struct peer *e, const char *fmt, ...);

/* peers_barrier - @done is called when each peer of those that @wants picks has answered what it
 * was asked so far, or does not answer in time. NULL: there is nothing to wait for, or no memory.
 * barrier_cancel - it is not called. */
struct barrier *peers_barrier(struct peers *p, bool (*wants)(struct peer *e, void *arg), void *arg,
			      void (*done)(void *arg), void *done_arg);
void barrier_cancel(struct peers *p, struct barrier *b);
/* peer_ask_all - a round: which VMs there are, and all counts. */
void peer_ask_all(struct peer *e);
/* peer_at - the peer that was connected at @path, or NULL. */
struct peer *peer_at(const struct peers *p, const char *path);

/* ---- peer_tree.c: VMs as nodes -------------------------------------------------------------- */

/* peer_list - take the server's answer to list. peer_list_apply - make the tree what it says. Not
 * 0: it lies, and link_fail was called. peer_vms_drop - the server has none any more. */
int peer_list(struct peer *e, const json_t *answer);
void peer_list_apply(struct peer *e);
void peer_vms_drop(struct peer *e);
struct peer_vm *peer_vm_find(const struct peer *e, const char *name);

/* ---- peer_rows.c: the source ---------------------------------------------------------------- */

int peer_source_init(struct peers *p);
void peer_source_fini(struct peers *p);
/* peer_appears - the server can be asked: tenants that are counted are counted there, too.
 * peer_is_lost - it cannot any more, and @why says why. peer_farewell - a line of its end. */
void peer_appears(struct peer *e);
void peer_is_lost(struct peer *e, const char *why);
void peer_farewell(struct peer *e, const json_t *line);
/* peer_read - ask for the counts of the sessions with @keys there (NULL: of all). peer_counts_for -
 * whether there is one. */
void peer_read(struct peer *e, const vpmu_key_t *keys);
bool peer_counts_for(const struct peer *e, const vpmu_key_t *keys);
/* peer_unread - whether it counts for @keys (NULL: any) and has not said any count yet.
 * peer_attaching - whether it has not answered that it counts. */
bool peer_unread(const struct peer *e, const vpmu_key_t *keys);
bool peer_attaching(const struct peer *e);

/* ---- peer_hold.c: requests that wait, and those that are passed on -------------------------- */

void peers_forget_forwards(struct peers *p);
void peer_forward_late(struct peers *p, uint64_t now);

/* ---- peer_compare.c: conservation of the servers -------------------------------------------- */

/* peer_compare - as hold of struct server_opts, for `conservation`: 1: it waits for servers. */
int peer_compare(struct peers *p, struct later *l);
void peers_forget_compares(struct peers *p);
void peer_compare_late(struct peers *p, uint64_t now);

#endif
