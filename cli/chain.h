/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains: addresses, the code they belong to, and their names. Used by vpmu profile and vpmu
 * lbr. */
#ifndef CLI_CHAIN_H
#define CLI_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/field.h"
#include "cli/images.h"
#include "cli/stacks.h"

#define CHAIN_MAX 64

/* An address; unknown where branch records omit a privilege level. */
struct place {
	bool known;
	uint64_t address;
};

/* The origin of a sample. Strings belong to the answer. */
struct origin {
	const char *vm;	    /* NULL: no VM was running, or unknown */
	int vcpu;	    /* -1: the VM, not one of its vCPUs */
	const char *tenant; /* without a VM: the tenant that has the cgroup, or NULL */
	const char *side;   /* "guest.k", "guest.u", "qemu", "user", "host"; NULL: a guest's */
	unsigned int pid;   /* process of user-mode addresses; 0: unknown */
};

struct chain {
	struct origin in;
	size_t nr;
	struct place place[CHAIN_MAX]; /* the sampled address, then its callers, innermost first */
};

/* origin_parse - parse the origin of @row of an answer. */
void origin_parse(struct fields *f, const json_t *row, struct origin *o);

/* place_code - classify @p: callers of the host's kernel may be in user mode. Pure. */
enum code { CODE_GUEST, CODE_GUEST_KERNEL, CODE_HOST_KERNEL, CODE_HOST_USER };
enum code place_code(const struct origin *o, const struct place *p);

/* place_function, place_name - write the function, or the function and the offset ("fib+0x12");
 * "[unknown]" if the address is unknown. Both return @buf. */
const char *place_function(struct images *im, const struct origin *o, const struct place *p,
			   char buf[ADDRESS_LEN]);
const char *place_name(struct images *im, const struct origin *o, const struct place *p,
		       char buf[ADDRESS_LEN]);

/* chain_push - append a place; places beyond CHAIN_MAX are dropped. */
void chain_push(struct chain *ch, bool known, uint64_t address);

/* chain_parse - parse @row of "chains". */
void chain_parse(struct fields *f, const json_t *row, struct chain *ch);

/* chain_add - add @count samples of @ch to the tree @root: "vm;vcpuN;outermost;...;innermost". With
 * a side, "[side]" is the frame after the VM or tenant. An empty chain gets the frame "[no
 * calls]". */
void chain_add(struct frame *root, struct images *im, const struct chain *ch, uint64_t count);

/* chains_add - add "chains" and "other-chains" of @answer to the tree @root. Invalid fields are
 * recorded in @f. */
void chains_add(struct fields *f, struct images *im, const json_t *answer, struct frame *root);

#endif
