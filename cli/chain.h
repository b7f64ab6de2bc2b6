/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains: addresses, whose code they are, and what they are called. Used by vpmu profile and
 * vpmu lbr. */
#ifndef CLI_CHAIN_H
#define CLI_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/field.h"
#include "cli/images.h"
#include "cli/stacks.h"

#define CHAIN_MAX 64

/* An address. Branch records leave out addresses of levels that they do not record. */
struct place {
	bool known;
	uint64_t address;
};

/* What ran where a chain was sampled. Strings belong to the answer. */
struct origin {
	const char *vm;	    /* NULL: no VM was running, or it is not known which */
	int vcpu;	    /* -1: the VM, not one of its vCPUs */
	const char *tenant; /* without a VM: whose cgroup it was, or NULL */
	const char *side;   /* "guest.k", "guest.u", "qemu", "user", "host"; NULL: a guest's */
	unsigned int pid;   /* of the process that addresses of user mode are of; 0: not known */
};

struct chain {
	struct origin in;
	size_t nr;
	struct place place[CHAIN_MAX]; /* where it was, then its callers, innermost first */
};

/* origin_parse - what ran where @row of an answer was sampled. */
void origin_parse(struct fields *f, const json_t *row, struct origin *o);

/* place_code - whose code @p is: callers of the host's kernel may be in user mode. Pure. */
enum code { CODE_GUEST, CODE_GUEST_KERNEL, CODE_HOST_KERNEL, CODE_HOST_USER };
enum code place_code(const struct origin *o, const struct place *p);

/* place_function, place_name - the function, or the function and the offset ("fib+0x12");
 * "[unknown]" if the address is not known. Both return @buf. */
const char *place_function(struct images *im, const struct origin *o, const struct place *p,
			   char buf[ADDRESS_LEN]);
const char *place_name(struct images *im, const struct origin *o, const struct place *p,
		       char buf[ADDRESS_LEN]);

/* chain_push - append a place; what exceeds CHAIN_MAX is left out. */
void chain_push(struct chain *ch, bool known, uint64_t address);

/* chain_parse - read @row of "chains". */
void chain_parse(struct fields *f, const json_t *row, struct chain *ch);

/* chain_add - add @count samples of @ch to the tree @root: "vm;vcpuN;outermost;...;innermost". With
 * a side, "[side]" is the frame behind who ran. An empty chain gets the frame "[no calls]". */
void chain_add(struct frame *root, struct images *im, const struct chain *ch, uint64_t count);

/* chains_add - add the "chains" of @answer, and its "other-chains", to the tree @root. Wrong fields
 * are in @f. */
void chains_add(struct fields *f, struct images *im, const json_t *answer, struct frame *root);

#endif
