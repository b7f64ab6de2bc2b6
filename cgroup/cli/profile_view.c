// SPDX-License-Identifier: GPL-2.0-or-later
/* What vpmu profile shows of an answer: histogram, JSON, folded stacks. */
#include <errno.h>
#include <inttypes.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/output.h"
#include "cgroup/cli/profile.h"
#include "cgroup/cli/stacks.h"

#define CHAIN_MAX  64
#define TOP_CHAINS 5

/* ---- the answer ------------------------------------------------------------------------------ */

static uint64_t count_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? strtoull(text, NULL, 10) : 0;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "?";
}

/* One line of the histogram. */
struct line {
	char *name; /* VM or VM/vCPU */
	const char *vm;
	int vcpu; /* -1: all, or none */
	char *function;
	bool kernel, known;
	uint64_t samples;
};

struct lines {
	struct line *line;
	size_t nr, cap;
};

static void lines_free(struct lines *ls)
{
	for (size_t i = 0; i < ls->nr; i++) {
		free(ls->line[i].name);
		free(ls->line[i].function);
	}
	free(ls->line);
}

static int by_place(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int ret = strcmp(x->name, y->name);

	if (!ret)
		ret = strcmp(x->function, y->function);
	return ret ? ret : x->kernel - y->kernel;
}

static int by_samples(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return by_place(a, b);
}

/* Rows of addresses to lines of functions, most samples first. */
static int make_lines(const struct profile_opts *o, struct images *im, const json_t *answer,
		      struct lines *ls)
{
	const json_t *rows = json_object_get(answer, "rows"), *row;
	size_t i, to = 0;

	ls->line = calloc(json_array_size(rows) + 1, sizeof(*ls->line));
	json_array_foreach (rows, i, row) {
		const char *vm = json_string_value(json_object_get(row, "vm"));
		const json_t *cpl = json_object_get(row, "cpl");
		char buf[ADDRESS_LEN] = "[unknown]";
		struct line *l = &ls->line[ls->nr];
		uint64_t ip;

		if (!ls->line)
			break;
		l->known = address_parse(json_object_get(row, "ip"), &ip) == 0;
		if (l->known)
			images_function(im, vm, ip, buf);
		l->vm = vm;
		l->vcpu =
			vm && o->vcpu ? (int)json_integer_value(json_object_get(row, "vcpu")) : -1;
		l->kernel = l->known && json_integer_value(cpl) < 3;
		l->samples = count_of(row, "samples");
		l->function = strdup(buf);
		if (asprintf(&l->name, l->vcpu < 0 ? "%s" : "%s/%d", vm ? vm : "[host]", l->vcpu) <
		    0)
			l->name = NULL;
		if (!l->name || !l->function) {
			free(l->name);
			free(l->function);
			break;
		}
		ls->nr++;
	}
	if (!ls->line || ls->nr < json_array_size(rows)) {
		cli_error("out of memory");
		return -ENOMEM;
	}
	if (!ls->nr)
		return 0;
	qsort(ls->line, ls->nr, sizeof(*ls->line), by_place);
	for (i = 1; i < ls->nr; i++) {
		if (by_place(&ls->line[to], &ls->line[i]) == 0) {
			ls->line[to].samples += ls->line[i].samples;
			free(ls->line[i].name);
			free(ls->line[i].function);
		} else {
			ls->line[++to] = ls->line[i];
		}
	}
	ls->nr = to + 1;
	qsort(ls->line, ls->nr, sizeof(*ls->line), by_samples);
	return 0;
}

/* ---- text and JSON ------------------------------------------------------------------------- */

static double percent(uint64_t n, uint64_t all)
{
	return all ? 100.0 * (double)n / (double)all : 0;
}

static const char *quality_note(const json_t *a)
{
	const char *q = text_of(a, "quality");

	return strcmp(q, "exact") ? q : NULL;
}

/* What was sampled, and how well: the same facts everywhere. */
static void facts(const json_t *a, char *buf, size_t len)
{
	char n[4][GROUP_LEN];
	const char *q = quality_note(a);
	uint64_t enabled = count_of(a, "enabled-ns"), running = count_of(a, "running-ns");
	size_t used;

	used = (size_t)snprintf(
		buf, len, "%s every %s: %s samples, %s lost, %s counted%s%s%s", text_of(a, "event"),
		out_group(count_of(a, "period"), n[0]), out_group(count_of(a, "samples"), n[1]),
		out_group(count_of(a, "lost"), n[2]), out_group(count_of(a, "count"), n[3]),
		q ? " (" : "", q ? q : "", q ? ")" : "");
	if (used < len && count_of(a, "late-max"))
		used += (size_t)snprintf(buf + used, len - used, ", at most %s late",
					 out_group(count_of(a, "late-max"), n[0]));
	if (used < len && running < enabled)
		used += (size_t)snprintf(buf + used, len - used,
					 ", a counter in %.2f%% of the time",
					 percent(running, enabled));
	if (used < len && json_is_true(json_object_get(a, "gone")))
		snprintf(buf + used, len - used, ", until it was removed");
}

static int print_histogram(const json_t *a, const struct lines *ls)
{
	struct libscols_table *t = scols_new_table();
	uint64_t samples = count_of(a, "samples"), other = count_of(a, "other-rows");
	char buf[ADDRESS_LEN + 8];

	if (!t) {
		cli_error("out of memory");
		return 1;
	}
	scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	scols_table_new_column(t, "OVERHEAD", 0, SCOLS_FL_RIGHT);
	scols_table_new_column(t, "SAMPLES", 0, SCOLS_FL_RIGHT);
	scols_table_new_column(t, "VM", 0, 0);
	scols_table_new_column(t, "FUNCTION", 0, 0);
	for (size_t i = 0; i <= ls->nr; i++) {
		const struct line *l = i < ls->nr ? &ls->line[i] : NULL;
		struct libscols_line *out = l || other ? scols_table_new_line(t, NULL) : NULL;
		char group[GROUP_LEN];
		uint64_t n = l ? l->samples : other;

		if (!out)
			continue;
		snprintf(buf, sizeof(buf), "%.2f%%", percent(n, samples));
		scols_line_set_data(out, 0, buf);
		scols_line_set_data(out, 1, out_group(n, group));
		scols_line_set_data(out, 2, l ? l->name : "");
		snprintf(buf, sizeof(buf), "%s%s",
			 !l || !l->known ? ""
			 : l->kernel	 ? "[k] "
					 : "[.] ",
			 l ? l->function : "[other addresses]");
		scols_line_set_data(out, 3, buf);
	}
	scols_print_table(t);
	scols_unref_table(t);
	return 0;
}

static void print_json(const json_t *a, const struct lines *ls)
{
	static const char *const totals[] = {"target",	   "event",    "period",     "samples",
					     "lost",	   "late-max", "count",	     "enabled-ns",
					     "running-ns", "quality",  "other-rows", "unchained",
					     "gone"};
	uint64_t samples = count_of(a, "samples");
	json_t *obj;

	for (size_t i = 0; i < ls->nr; i++) {
		const struct line *l = &ls->line[i];
		char n[24];

		snprintf(n, sizeof(n), "%" PRIu64, l->samples);
		obj = json_pack("{s:s, s:s*, s:s, s:s, s:f}", "kind", "profile", "vm", l->vm,
				"function", l->function, "samples", n, "percent",
				percent(l->samples, samples));
		if (l->vcpu >= 0)
			json_object_set_new(obj, "vcpu", json_integer(l->vcpu));
		if (l->known)
			json_object_set_new(obj, "level",
					    json_string(l->kernel ? "kernel" : "user"));
		json_dumpf(obj, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
		putchar('\n');
		json_decref(obj);
	}
	obj = json_pack("{s:s}", "kind", "profile-total");
	for (size_t i = 0; i < sizeof(totals) / sizeof(totals[0]); i++)
		json_object_set(obj, totals[i], json_object_get(a, totals[i]));
	json_dumpf(obj, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(obj);
}

/* ---- chains ------------------------------------------------------------------------------- */

/* Chains of addresses, innermost first, to stacks below "vm;vcpuN", outermost first. */
static int make_stacks(struct images *im, const json_t *a, struct frame *root)
{
	const json_t *chain, *ip;
	size_t i, k;

	json_array_foreach (json_object_get(a, "chains"), i, chain) {
		const char *vm = json_string_value(json_object_get(chain, "vm"));
		const json_t *ips = json_object_get(chain, "chain");
		char buf[CHAIN_MAX][ADDRESS_LEN], vcpu[24];
		const char *name[CHAIN_MAX + 2];
		size_t n = 0, len = json_array_size(ips);

		if (len > CHAIN_MAX)
			len = CHAIN_MAX;
		snprintf(vcpu, sizeof(vcpu), "vcpu%d",
			 (int)json_integer_value(json_object_get(chain, "vcpu")));
		name[n++] = vm ? vm : "[host]";
		if (vm)
			name[n++] = vcpu;
		for (k = len; k--;) {
			uint64_t address;

			ip = json_array_get(ips, k);
			if (address_parse(ip, &address))
				strcpy(buf[k], "[unknown]");
			else
				images_function(im, vm, address, buf[k]);
			name[n++] = buf[k];
		}
		if (stacks_add(root, name, n, count_of(chain, "samples"))) {
			cli_error("out of memory");
			return -ENOMEM;
		}
	}
	if (count_of(a, "other-chains")) {
		const char *other = "[other chains]";

		if (stacks_add(root, &other, 1, count_of(a, "other-chains")))
			return -ENOMEM;
	}
	return 0;
}

/* A stack of the tree: its frames from the outermost to the innermost. */
struct stack {
	uint64_t samples;
	size_t n;
	const char *name[CHAIN_MAX + 2];
};

/* Insert @st into the TOP_CHAINS of @top, if it is one of them. */
static void rank(struct stack *top, const struct stack *st)
{
	size_t i = TOP_CHAINS;

	while (i && top[i - 1].samples < st->samples)
		i--;
	if (i == TOP_CHAINS)
		return;
	memmove(&top[i + 1], &top[i], (TOP_CHAINS - 1 - i) * sizeof(*top));
	top[i] = *st;
}

static size_t collect(const struct frame *f, struct stack *path, struct stack *top)
{
	size_t n = f->self != 0;

	if (f->self) {
		path->samples = f->self;
		rank(top, path);
	}
	for (size_t i = 0; i < f->nr; i++) {
		path->name[path->n++] = f->child[i]->name;
		n += collect(f->child[i], path, top);
		path->n--;
	}
	return n;
}

/* The stacks with most samples, innermost first, for people. */
static int print_chains(struct images *im, const json_t *a)
{
	struct stack top[TOP_CHAINS] = {0}, path = {0};
	struct frame root = {0};
	size_t n;

	if (make_stacks(im, a, &root)) {
		stacks_free(&root);
		return 1;
	}
	n = collect(&root, &path, top);
	for (size_t i = 0; i < TOP_CHAINS && top[i].samples; i++) {
		const struct stack *st = &top[i];
		bool vcpu = st->name[0][0] != '['; /* no VM's name starts so */

		printf("\n%6.2f%%  %s%s%s\n", percent(st->samples, root.total), st->name[0],
		       vcpu ? "/" : "", vcpu ? st->name[1] + strlen("vcpu") : "");
		for (size_t k = st->n; k-- > 1U + vcpu;) {
			size_t same = 1;

			while (k > 1U + vcpu && strcmp(st->name[k - 1], st->name[k]) == 0) {
				same++;
				k--;
			}
			printf("        %s", st->name[k]);
			printf(same > 1 ? " (%zu times)\n" : "\n", same);
		}
	}
	if (n > TOP_CHAINS)
		printf("\n(%zu more call chains; --folded shows them)\n", n - TOP_CHAINS);
	stacks_free(&root);
	return 0;
}

/* ---- all of it ------------------------------------------------------------------------------ */

int profile_show(const struct profile_opts *o, struct images *im, const json_t *a)
{
	struct frame root = {0};
	struct lines ls = {0};
	char line[256];
	int ret = 0;

	if (o->folded) {
		ret = make_stacks(im, a, &root) ? 1 : 0;
		if (!ret)
			stacks_print_folded(&root, stdout);
		stacks_free(&root);
	} else {
		ret = make_lines(o, im, a, &ls) ? 1 : 0;
		if (!ret && o->json) {
			print_json(a, &ls);
		} else if (!ret) {
			facts(a, line, sizeof(line));
			printf("# %s: %s\n", text_of(a, "target"), line);
			ret = print_histogram(a, &ls);
			if (o->chains && !ret)
				ret = print_chains(im, a);
			if (quality_note(a))
				printf("\n%s\n", out_quality(quality_note(a)));
		}
		lines_free(&ls);
	}
	/* Where only the data are printed, what is wrong with them is said beside. */
	if (o->folded && count_of(a, "lost"))
		cli_error("%" PRIu64 " samples were lost and are not in it: they came faster than "
			  "they could be taken; a greater -c is accepted",
			  count_of(a, "lost"));
	if (o->chains && count_of(a, "unchained"))
		cli_error("%" PRIu64 " samples have no call chain: their guests record branches of "
			  "their own",
			  count_of(a, "unchained"));
	return ret;
}
