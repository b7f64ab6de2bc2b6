// SPDX-License-Identifier: GPL-2.0-or-later
/* Branch records of one vCPU; see capture.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/capture.h"
#include "cli/output.h"
#include "service/program/memory.h"

static struct place parse_place(struct fields *f, const json_t *entry, const char *key)
{
	struct place p = {0};

	p.known = field_address(f, json_object_get(entry, key), key, &p.address);
	return p;
}

void capture_parse(struct fields *f, const json_t *row, struct capture *c)
{
	const json_t *entries, *entry;
	size_t i;

	*c = (struct capture){.vm = field_string(f, row, "vm"),
			      .vcpu = field_int(f, row, "vcpu", INT32_MAX),
			      .backend = field_string_or(f, row, "backend", NULL),
			      .error = field_string_or(f, row, "error", NULL),
			      .source = field_string_or(f, row, "source", "capture"),
			      .mode = field_string_or(f, row, "mode", "")};
	if (c->error)
		return;
	field_string(f, row, "source");
	field_string(f, row, "mode");
	c->total = field_u64(f, row, "total");
	entries = field_array(f, row, "entries");
	c->branch = xcalloc(json_array_size(entries) + 1, sizeof(*c->branch));
	json_array_foreach (entries, i, entry) {
		struct branch *b = &c->branch[c->nr++];

		b->from = parse_place(f, entry, "from");
		b->to = parse_place(f, entry, "to");
		b->type = field_string(f, entry, "type");
		b->cycles = json_object_get(entry, "cycles")
				    ? (int)field_int(f, entry, "cycles", INT32_MAX)
				    : -1;
	}
}

void capture_fini(struct capture *c)
{
	free(c->branch);
	c->branch = NULL;
}

/* Returns true if the records are calls that have not returned. */
static bool capture_is_call_stack(const struct capture *c)
{
	return strcmp(c->mode, "call-stack") == 0;
}

/* Convert records of calls to a chain: the target of the newest call, then the origin of each. */
static void capture_chain(const struct images *im, const struct capture *c, struct chain *out)
{
	out->in = (struct origin){.vm = c->vm, .vcpu = (int)c->vcpu};
	out->nr = 0;
	for (size_t i = 0; i < c->nr; i++) {
		const struct branch *b = &c->branch[i];

		if (i == 0)
			chain_push(out, b->to.known, b->to.address);
		chain_push(out, b->from.known, b->from.address);
	}
	chain_settle(im, out);
}

void capture_want(struct images *im, const struct capture *c)
{
	struct chain ch;

	/* Both ends of each branch, as if they were calls. */
	capture_chain(im, c, &ch);
	chain_want(im, &ch);
	ch.nr = 0;
	for (size_t i = 0; i < c->nr; i++)
		chain_push(&ch, c->branch[i].to.known, c->branch[i].to.address);
	chain_want(im, &ch);
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *chain_list(struct images *im, const struct capture *c)
{
	json_t *list = json_array();
	char buf[ADDRESS_LEN];
	struct chain ch;

	capture_chain(im, c, &ch);
	for (size_t i = 0; i < ch.nr; i++)
		json_array_append_new(list,
				      json_string(place_function(im, &ch.in, &ch.place[i], buf)));
	return list;
}

static json_t *branch_list(struct images *im, const struct capture *c)
{
	json_t *list = json_array();
	char from[ADDRESS_LEN], to[ADDRESS_LEN];
	struct chain ch;

	capture_chain(im, c, &ch);
	for (size_t i = 0; i < c->nr; i++) {
		const struct branch *b = &c->branch[i];
		json_t *o =
			json_pack("{s:s, s:s, s:s}", "from", place_name(im, &ch.in, &b->from, from),
				  "to", place_name(im, &ch.in, &b->to, to), "type", b->type);

		if (b->cycles >= 0)
			json_object_set_new(o, "cycles", json_integer(b->cycles));
		json_array_append_new(list, o);
	}
	return list;
}

void capture_print_json(struct images *im, const struct capture *c)
{
	json_t *obj = json_pack("{s:s, s:s, s:i, s:s*, s:s, s:s}", "kind", "lbr", "vm", c->vm,
				"vcpu", (int)c->vcpu, "backend", c->backend, "source", c->source,
				"mode", c->mode);

	if (c->error)
		json_object_set_new(obj, "error", json_string(c->error));
	else if (capture_is_call_stack(c))
		json_object_set_new(obj, "chain", chain_list(im, c));
	else
		json_object_set_new(obj, "branches", branch_list(im, c));
	json_dumpf(obj, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(obj);
}

/* ---- text --------------------------------------------------------------------------------- */

void capture_print(struct images *im, const struct capture *c)
{
	/* Only the emulator models cycles; a server that reports no backends has only that one. */
	const char *modelled = !c->backend || !strcmp(c->backend, "emulator") ? " (modelled)" : "";
	char from[ADDRESS_LEN], to[ADDRESS_LEN], group[GROUP_LEN];
	struct chain ch;

	printf("%s/%u: ", c->vm, c->vcpu);
	if (c->error) {
		puts(c->error);
		return;
	}
	printf("%s, %s: %zu of %s records, newest first%s%s\n",
	       strcmp(c->source, "guest") ? "captured" : "the guest's own", c->mode, c->nr,
	       out_group(c->total, group), c->backend ? ", backend: " : "",
	       c->backend ? c->backend : "");
	capture_chain(im, c, &ch);
	if (capture_is_call_stack(c)) {
		for (size_t i = 0; i < ch.nr; i++)
			printf("    %s\n", place_name(im, &ch.in, &ch.place[i], from));
		return;
	}
	for (size_t i = 0; i < c->nr; i++) {
		const struct branch *b = &c->branch[i];

		printf("    %-8s %-30s -> %s", b->type, place_name(im, &ch.in, &b->from, from),
		       place_name(im, &ch.in, &b->to, to));
		if (b->cycles >= 0)
			printf("  %d cycles%s", b->cycles, modelled);
		putchar('\n');
	}
}
