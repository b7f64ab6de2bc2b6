/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Call chains: addresses, the code they belong to, and their names. Used by vpmu profile and vpmu
 * lbr. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/field.h"
#include "cli/images.h"
#include "cli/stacks.h"

#define CHAIN_MAX	 64
#define CHAIN_FRAMES_MAX (CHAIN_MAX + 5) /* of chain_add: with the frames around it */

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
	uint64_t first_ns;  /* CLOCK_MONOTONIC of its first sample; 0: unknown */
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
 * "[unknown]" if the address is unknown. User code of the host without a name is "[FILE]" or
 * "[unknown]" for place_function, "[unknown]" for place_name. Both return @buf. */
const char *place_function(struct images *im, const struct origin *o, const struct place *p,
			   char buf[ADDRESS_LEN]);
const char *place_name(struct images *im, const struct origin *o, const struct place *p,
		       char buf[ADDRESS_LEN]);

/* place_object - write the file of code in the user mode of a process of the host: its path,
 * "[vdso]", "[anon]", or "[unknown]". Returns @buf. */
const char *place_object(struct images *im, const struct origin *o, const struct place *p,
			 char buf[ADDRESS_LEN]);

/* origin_name - the VM, else the tenant, else "/host", the rest of the host. */
const char *origin_name(const struct origin *o);

/* origin_comm - write the command name of a process of the host outside VMs; NULL: none, or no
 * process is known. Returns @buf. */
const char *origin_comm(struct images *im, const struct origin *o, char buf[ADDRESS_LEN]);

/* chain_push - append a place; places beyond CHAIN_MAX are dropped. */
void chain_push(struct chain *ch, bool known, uint64_t address);

/* chain_settle - find the side of branch records of @ch: those of vCPU threads, of backend bpf, are
 * the host's. Samples have theirs. */
void chain_settle(const struct images *im, struct chain *ch);

/* chain_parse - parse @row of "chains". */
void chain_parse(struct fields *f, const struct images *im, const json_t *row, struct chain *ch);

/* chain_want - name user code of the host in @ch at the next images_look(). */
void chain_want(struct images *im, const struct chain *ch);

/* chains_look - look at the processes of the host in @answer, so that their code has names. Invalid
 * fields are recorded in @f. */
void chains_look(struct fields *f, struct images *im, const json_t *answer);

/* chains_add - add "chains" and "other-chains" of @answer to the tree @root. Invalid fields are
 * recorded in @f. */
void chains_add(struct fields *f, struct images *im, const json_t *answer, struct frame *root);
