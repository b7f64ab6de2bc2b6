// SPDX-License-Identifier: GPL-2.0-or-later
/* Call chains of vCPUs: see chain.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/cli/chain.h"

const char *place_function(struct images *im, const char *vm, const struct place *p,
			   char buf[ADDRESS_LEN])
{
	return p->known ? images_function(im, vm, p->address, buf) : strcpy(buf, "[unknown]");
}

const char *place_name(struct images *im, const char *vm, const struct place *p,
		       char buf[ADDRESS_LEN])
{
	return p->known ? images_place(im, vm, p->address, buf) : strcpy(buf, "[unknown]");
}

void chain_push(struct chain *ch, bool known, uint64_t address)
{
	if (ch->nr < CHAIN_MAX)
		ch->place[ch->nr++] = (struct place){.known = known, .address = address};
}

int chain_add(struct frame *root, struct images *im, const struct chain *ch, uint64_t count)
{
	char buf[CHAIN_MAX][ADDRESS_LEN], vcpu[24];
	const char *name[CHAIN_MAX + 3];
	size_t n = 0;

	snprintf(vcpu, sizeof(vcpu), "vcpu%u", ch->vcpu);
	name[n++] = ch->vm ? ch->vm : "[host]";
	if (ch->vm)
		name[n++] = vcpu;
	for (size_t i = ch->nr; i--;)
		name[n++] = place_function(im, ch->vm, &ch->place[i], buf[i]);
	if (!ch->nr)
		name[n++] = "[no calls]";
	return stacks_add(root, name, n, count);
}

int chains_add(struct fields *f, struct images *im, const json_t *answer, struct frame *root)
{
	const json_t *chains = field_array(f, answer, "chains"), *row, *ip;
	uint64_t others = field_u64_or(f, answer, "other-chains", 0);
	const char *other = "[other chains]";
	size_t i, k;

	json_array_foreach (chains, i, row) {
		struct chain ch = {.vm = field_string_or(f, row, "vm", NULL)};
		const json_t *ips = field_array(f, row, "chain");

		if (ch.vm)
			ch.vcpu = field_int(f, row, "vcpu", INT32_MAX);
		json_array_foreach (ips, k, ip) {
			uint64_t address = 0;
			bool known = field_address(f, ip, "chain", &address);

			chain_push(&ch, known, address);
		}
		if (chain_add(root, im, &ch, field_u64(f, row, "samples")))
			return -ENOMEM;
	}
	return others ? stacks_add(root, &other, 1, others) : 0;
}
