/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What peer_source.c and peer_rows.c share; nobody else includes it.
 *
 * Countings of one session of ours have the same array of keys. They are a meter, and have their
 * sessions on the servers (remotes) together. A tenant's counting has a part on each server, which
 * are added: they are counts of different emulators, but all of modelled CPUs.
 */
#ifndef VPMUD_PEER_ROWS_H
#define VPMUD_PEER_ROWS_H

#include "vpmud/peer_priv.h"

enum remote_state { ATTACHING, COUNTS, FAILED };

/* A session on a server. */
struct remote {
	LIST_ENTRY(remote) in_meter, in_peer;
	struct meter *m; /* NULL: nobody wants it any more; it goes with the next answer */
	struct peer *peer;
	enum pnode_kind kind;
	const struct peer_vm *only; /* it is about this VM only; NULL: about all nodes of @kind */
	enum remote_state state;
	bool read;	    /* there was an answer with counts */
	bool ended;	    /* the server has ended, and these are the last counts */
	unsigned int asked; /* requests that refer to it */
	char session[REGISTRY_NAME_MAX + 1];
	char why[200]; /* FAILED */
	LIST_HEAD(, part) parts;
};

/* What one remote says of one counting. */
struct part {
	LIST_ENTRY(part) in_count, in_remote;
	struct count *count;
	struct remote *r;
	int64_t row;	       /* the row that it is now; 0: none yet */
	struct vpmu_value v[]; /* 2 * nr_keys: of the row that it is now, and of those before */
};

struct count {
	struct vpmu_counting c; /* first */
	LIST_ENTRY(count) in_node, in_meter;
	struct meter *m; /* NULL: it is not attached */
	LIST_HEAD(, part) parts;
	char why[240];		  /* why it has no values any more; "": it has */
	struct vpmu_value gone[]; /* nr_keys: of remotes that are gone */
};

struct meter {
	LIST_ENTRY(meter) next;
	const vpmu_key_t *keys;
	size_t nr;
	LIST_HEAD(, count) counts;
	LIST_HEAD(, remote) remotes;
};

static inline struct pnode *pnode_of(const struct vpmu_backend_node *n)
{
	return (struct pnode *)n;
}

/* remote_for - the session on @e that counts nodes of @kind, opened if there is none. @only: the VM
 * that it is wanted for; @many: it is wanted for others, too. NULL: no memory. remote_drop - nobody
 * wants it any more. */
struct remote *remote_for(struct meter *m, struct peer *e, enum pnode_kind kind,
			  const struct peer_vm *only, bool many);
void remote_drop(struct remote *r);

/* part_new - what @r (may be NULL: no memory) says of @k. -ENOMEM. */
int part_new(struct count *k, struct remote *r);
void part_free(struct part *t);
/* part_matters - whether some of what @t is about is on its server: then it matters how that one
 * is. */
bool part_matters(const struct part *t);
/* value_add - of different nodes, machines or times. */
void value_add(struct vpmu_value *to, const struct vpmu_value *v);

#endif
