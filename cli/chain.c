// SPDX-License-Identifier: GPL-2.0-or-later
/* Call chains and their origins; see chain.h. */
#include <stdio.h>
#include <string.h>

#include "cli/chain.h"

void origin_parse(struct fields *f, const json_t *row, struct origin *o)
{
	*o = (struct origin){.vm = field_string_or(f, row, "vm", NULL),
			     .vcpu = -1,
			     .tenant = field_string_or(f, row, "tenant", NULL),
			     .side = field_string_or(f, row, "side", NULL)};
	/* Without a side it is guest code, which always has a vCPU. */
	if (o->vm && (!o->side || json_object_get(row, "vcpu")))
		o->vcpu = (int)field_int(f, row, "vcpu", INT32_MAX);
	if (json_object_get(row, "pid"))
		o->pid = (unsigned int)field_int(f, row, "pid", INT32_MAX);
	o->first_ns = field_u64_or(f, row, "first-ns", 0);
}

static bool chain_is(const struct origin *o, const char *side)
{
	return o->side && !strcmp(o->side, side);
}

enum code place_code(const struct origin *o, const struct place *p)
{
	if (chain_is(o, "guest.k"))
		return CODE_GUEST_KERNEL;
	if (!o->side || chain_is(o, "guest.u"))
		return CODE_GUEST;
	return p->address >> 63 ? CODE_HOST_KERNEL : CODE_HOST_USER;
}

/* Return the name of @p's function, NULL if unknown. */
static const char *chain_find(struct images *im, const struct origin *o, const struct place *p,
			      uint64_t *offset)
{
	switch (place_code(o, p)) {
	case CODE_GUEST_KERNEL:
		return images_guest_kernel(im, o->vm, p->address, offset);
	case CODE_HOST_KERNEL:
		return images_host_kernel(im, p->address, offset);
	case CODE_GUEST:
		return images_image(im, o->vm, p->address, offset);
	default:
		return NULL;
	}
}

/* Return true for user code of a known process of the host. */
static bool chain_in_process(const struct origin *o, const struct place *p)
{
	return p->known && o->pid && place_code(o, p) == CODE_HOST_USER;
}

const char *place_object(struct images *im, const struct origin *o, const struct place *p,
			 char buf[ADDRESS_LEN])
{
	struct process_code code = {0};

	if (chain_in_process(o, p))
		processes_find(images_processes(im), o->pid, p->address, &code);
	return images_spell(code.object ? code.object : "[unknown]", NULL, 0, buf);
}

/* Write the function, with its offset if @offset; without one @buf gets "[FILE]" if @file, else
 * "[unknown]". */
static const char *chain_process_name(struct images *im, const struct origin *o,
				      const struct place *p, bool offset, bool file,
				      char buf[ADDRESS_LEN])
{
	struct process_code code;
	const char *base;
	char text[ADDRESS_LEN];

	processes_find(images_processes(im), o->pid, p->address, &code);
	if (code.function)
		return images_spell(code.function, offset ? &code.offset : NULL, 0, buf);
	if (!file || !code.object)
		return strcpy(buf, "[unknown]");
	base = strrchr(code.object, '/');
	snprintf(text, sizeof(text), base ? "[%.200s]" : "%.200s", base ? base + 1 : code.object);
	return images_spell(text, NULL, 0, buf);
}

const char *place_function(struct images *im, const struct origin *o, const struct place *p,
			   char buf[ADDRESS_LEN])
{
	uint64_t offset;

	if (chain_in_process(o, p))
		return chain_process_name(im, o, p, false, true, buf);
	return p->known ? images_spell(chain_find(im, o, p, &offset), NULL, p->address, buf)
			: strcpy(buf, "[unknown]");
}

const char *place_name(struct images *im, const struct origin *o, const struct place *p,
		       char buf[ADDRESS_LEN])
{
	uint64_t offset = 0;
	const char *name;

	if (chain_in_process(o, p))
		return chain_process_name(im, o, p, true, false, buf);
	name = p->known ? chain_find(im, o, p, &offset) : NULL;
	return p->known ? images_spell(name, &offset, p->address, buf) : strcpy(buf, "[unknown]");
}

const char *origin_name(const struct origin *o)
{
	return o->vm ? o->vm : o->tenant ? o->tenant : "/host";
}

const char *origin_comm(struct images *im, const struct origin *o, char buf[ADDRESS_LEN])
{
	return o->pid && !o->vm
		       ? images_spell(processes_comm(images_processes(im), o->pid), NULL, 0, buf)
		       : NULL;
}

void chain_push(struct chain *ch, bool known, uint64_t address)
{
	if (ch->nr < CHAIN_MAX)
		ch->place[ch->nr++] = (struct place){.known = known, .address = address};
}

void chain_settle(const struct images *im, struct chain *ch)
{
	struct origin *o = &ch->in;

	if (o->side || !images_is_thread(im, o->vm))
		return;
	o->side = ch->nr && ch->place[0].known && !(ch->place[0].address >> 63) ? "qemu" : "host";
	o->pid = images_pid(im, o->vm);
}

void chain_parse(struct fields *f, const struct images *im, const json_t *row, struct chain *ch)
{
	const json_t *ips = field_array(f, row, "chain"), *ip;
	size_t i;

	*ch = (struct chain){0};
	origin_parse(f, row, &ch->in);
	json_array_foreach (ips, i, ip) {
		uint64_t address = 0;
		bool known = field_address(f, ip, "chain", &address);

		chain_push(ch, known, address);
	}
	chain_settle(im, ch);
}

/* Add @count samples of @ch to the tree @root: "vm;vcpuN;outermost;...;innermost". With a side,
 * "[side]" is the frame after the VM or tenant, and after it the command, if one is known. An empty
 * chain gets the frame "[no calls]". */
static void chain_add(struct frame *root, struct images *im, const struct chain *ch, uint64_t count)
{
	char buf[CHAIN_MAX][ADDRESS_LEN], comm[ADDRESS_LEN], vcpu[24], side[24];
	const struct origin *o = &ch->in;
	const char *name[CHAIN_FRAMES_MAX];
	size_t n = 0;

	snprintf(vcpu, sizeof(vcpu), "vcpu%d", o->vcpu);
	snprintf(side, sizeof(side), "[%s]", o->side ? o->side : "");
	name[n++] = origin_name(o);
	if (o->vm && o->vcpu >= 0)
		name[n++] = vcpu;
	if (o->side)
		name[n++] = side;
	if (origin_comm(im, o, comm))
		name[n++] = comm;
	for (size_t i = ch->nr; i--;)
		name[n++] = place_function(im, o, &ch->place[i], buf[i]);
	if (!ch->nr)
		name[n++] = "[no calls]";
	stacks_add(root, name, n, count);
}

void chain_want(struct images *im, const struct chain *ch)
{
	for (size_t i = 0; i < ch->nr; i++)
		if (chain_in_process(&ch->in, &ch->place[i]))
			processes_want(images_processes(im), ch->in.pid, ch->in.first_ns,
				       ch->place[i].address);
}

void chains_look(struct fields *f, struct images *im, const json_t *answer)
{
	const json_t *rows = json_object_get(answer, "rows"), *row;
	const json_t *chains = json_object_get(answer, "chains");
	struct chain ch;
	size_t i;

	json_array_foreach (rows, i, row) {
		const json_t *ip = json_object_get(row, "ip");
		uint64_t address = 0;

		ch.nr = 0;
		origin_parse(f, row, &ch.in);
		if (ip && field_address(f, ip, "ip", &address))
			chain_push(&ch, true, address);
		chain_want(im, &ch);
	}
	json_array_foreach (chains, i, row) {
		chain_parse(f, im, row, &ch);
		chain_want(im, &ch);
	}
	images_look(im);
}

void chains_add(struct fields *f, struct images *im, const json_t *answer, struct frame *root)
{
	const json_t *chains = field_array(f, answer, "chains"), *row;
	uint64_t others = field_u64_or(f, answer, "other-chains", 0);
	const char *other = "[other chains]";
	size_t i;

	json_array_foreach (chains, i, row) {
		struct chain ch;

		chain_parse(f, im, row, &ch);
		chain_add(root, im, &ch, field_u64(f, row, "samples"));
	}
	if (others)
		stacks_add(root, &other, 1, others);
}
