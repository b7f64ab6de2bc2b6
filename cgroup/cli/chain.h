/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains of vCPUs: addresses, and what they are called. Used by vpmu profile and vpmu lbr. */
#ifndef CLI_CHAIN_H
#define CLI_CHAIN_H

#include <stdbool.h>
#include <stddef.h>

#include "cgroup/cli/field.h"
#include "cgroup/cli/images.h"
#include "cgroup/cli/stacks.h"

#define CHAIN_MAX 64

/* An address of a guest. Branch records leave out addresses of levels that they do not record. */
struct place {
	bool known;
	uint64_t address;
};

struct chain {
	const char *vm; /* NULL: no VM was running, or it is not known which */
	unsigned int vcpu;
	size_t nr;
	struct place place[CHAIN_MAX]; /* where the vCPU was, then its callers, innermost first */
};

/* place_function, place_name - the function, or the function and the offset ("fib+0x12");
 * "[unknown]" if the address is not known. Both return @buf. */
const char *place_function(struct images *im, const char *vm, const struct place *p,
			   char buf[ADDRESS_LEN]);
const char *place_name(struct images *im, const char *vm, const struct place *p,
		       char buf[ADDRESS_LEN]);

/* chain_push - append a place; what exceeds CHAIN_MAX is left out. */
void chain_push(struct chain *ch, bool known, uint64_t address);

/* chain_add - add @count samples of @ch to the tree @root: "vm;vcpuN;outermost;...;innermost". An
 * empty chain gets the frame "[no calls]". 0 or -ENOMEM. */
int chain_add(struct frame *root, struct images *im, const struct chain *ch, uint64_t count);

/* chains_add - add the "chains" of @answer, and its "other-chains", to the tree @root. Wrong fields
 * are in
 * @f. 0 or -ENOMEM. */
int chains_add(struct fields *f, struct images *im, const json_t *answer, struct frame *root);

#endif
