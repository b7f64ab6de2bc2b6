// SPDX-License-Identifier: GPL-2.0-or-later
/* Output of vpmu profile: a histogram of functions, call chains, folded stacks or JSON; see
 * profile.h. */
#include <inttypes.h>
#include <libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chain.h"
#include "cli/error.h"
#include "cli/field.h"
#include "cli/output.h"
#include "cli/formats.h"
#include "cli/profile.h"
#include "cli/rows.h"
#include "cli/stacks.h"
#include "service/program/memory.h"

#define TOP_CHAINS 5

/* ---- the answer --------------------------------------------------------------------------- */

/* The answer of profile-stop without its rows and chains. Strings belong to the answer. */
struct facts {
	const char *event, *target, *quality, *backend; /* backend: may be NULL */
	const char *note;				/* limits of the samples; NULL */
	const char *cpus;				/* those that were sampled; NULL: all */
	uint64_t period, samples, lost, late_max, count, enabled_ns, running_ns;
	uint64_t other_rows, unchained, throttled, nobodys;
	bool gone;
};

static void parse_facts(struct fields *f, const json_t *a, struct facts *p)
{
	*p = (struct facts){
		.event = field_string(f, a, "event"),
		.target = field_string(f, a, "target"),
		.quality = field_string(f, a, "quality"),
		.backend = field_string_or(f, a, "backend", NULL),
		.cpus = field_string_or(f, a, "cpus", NULL),
		.period = field_u64(f, a, "period"),
		.samples = field_u64(f, a, "samples"),
		.lost = field_u64(f, a, "lost"),
		.late_max = field_u64(f, a, "late-max"),
		.count = field_u64(f, a, "count"),
		.enabled_ns = field_u64(f, a, "enabled-ns"),
		.running_ns = field_u64(f, a, "running-ns"),
		.other_rows = field_u64(f, a, "other-rows"),
		.unchained = field_u64_or(f, a, "unchained", 0),
		.throttled = field_u64_or(f, a, "throttled", 0),
		.nobodys = field_u64_or(f, a, "nobodys", 0),
		.note = field_string_or(f, a, "note", NULL),
		.gone = field_bool_or(f, a, "gone", false),
	};
}

/* One line of the histogram. */
struct line {
	char *name; /* of the VM, "VM/vCPU", or the tenant's path */
	struct origin in;
	char *function;
	char *comm, *object; /* of the host's processes; "" */
	bool kernel, known;  /* known: the address is known */
	uint64_t samples;
};

struct lines {
	struct line *line;
	size_t nr;
};

static void line_free(struct line *l)
{
	free(l->name);
	free(l->function);
	free(l->comm);
	free(l->object);
}

static void lines_free(struct lines *ls)
{
	for (size_t i = 0; i < ls->nr; i++) {
		line_free(&ls->line[i]);
	}
	free(ls->line);
}

static int by_place(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int ret = strcmp(x->name, y->name);

	if (!ret)
		ret = strcmp(x->comm, y->comm);
	if (!ret)
		ret = strcmp(x->function, y->function);
	if (!ret)
		ret = strcmp(x->object, y->object);
	if (!ret)
		ret = strcmp(x->in.side ? x->in.side : "", y->in.side ? y->in.side : "");
	return ret ? ret : x->kernel - y->kernel;
}

static int by_samples(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	if (x->samples != y->samples)
		return x->samples > y->samples ? -1 : 1;
	return by_place(a, b);
}

static void parse_line(struct fields *f, struct images *im, const json_t *row, bool each_vcpu,
		       struct line *l)
{
	char buf[ADDRESS_LEN];
	struct place p = {0};
	const char *comm;

	p.known = json_object_get(row, "ip") &&
		  field_address(f, json_object_get(row, "ip"), "ip", &p.address);
	l->known = p.known;
	origin_parse(f, row, &l->in);
	if (!each_vcpu)
		l->in.vcpu = -1;
	l->kernel = l->known && field_int(f, row, "cpl", 3) < 3;
	l->samples = field_u64(f, row, "samples");
	l->function = xstrdup(place_function(im, &l->in, &p, buf));
	l->object = xstrdup(l->known && l->in.pid && place_code(&l->in, &p) == CODE_HOST_USER
				    ? place_object(im, &l->in, &p, buf)
				    : "");
	comm = origin_comm(im, &l->in, buf);
	l->comm = xstrdup(comm ? comm : "");
	l->name = xasprintf(l->in.vcpu < 0 ? "%s" : "%s/%d", origin_name(&l->in), l->in.vcpu);
}

/* Merge the rows, which are per address, into lines per function, most samples first. */
static void make_lines(struct fields *f, bool each_vcpu, struct images *im, const json_t *a,
		       struct lines *ls)
{
	const json_t *rows = field_array(f, a, "rows"), *row;
	size_t i, to = 0;

	ls->line = xcalloc(json_array_size(rows) + 1, sizeof(*ls->line));
	json_array_foreach (rows, i, row) {
		ls->nr++;
		parse_line(f, im, row, each_vcpu, &ls->line[i]);
	}
	if (!ls->nr)
		return;
	qsort(ls->line, ls->nr, sizeof(*ls->line), by_place);
	for (i = 1; i < ls->nr; i++) {
		if (by_place(&ls->line[to], &ls->line[i]) == 0) {
			ls->line[to].samples += ls->line[i].samples;
			line_free(&ls->line[i]);
		} else {
			ls->line[++to] = ls->line[i];
		}
	}
	ls->nr = to + 1;
	qsort(ls->line, ls->nr, sizeof(*ls->line), by_samples);
}

/* ---- text and JSON ------------------------------------------------------------------------ */

static double percent(uint64_t n, uint64_t all)
{
	return all ? 100.0 * (double)n / (double)all : 0;
}

/* Print the event, the samples and their quality in one line. */
static void print_facts(const struct facts *p)
{
	char n[4][GROUP_LEN], labels[LABELS_LEN];

	printf("# %s: %s every %s: %s samples, %s lost, %s counted", p->target, p->event,
	       out_group(p->period, n[0]), out_group(p->samples, n[1]), out_group(p->lost, n[2]),
	       out_group(p->count, n[3]));
	fputs(out_labels(p->quality, NULL, labels), stdout);
	if (p->cpus)
		printf(", on CPUs %s", p->cpus);
	if (p->late_max)
		printf(", up to %s events late", out_group(p->late_max, n[0]));
	if (p->running_ns < p->enabled_ns)
		printf(", a counter in %.2f%% of the time", percent(p->running_ns, p->enabled_ns));
	if (p->gone)
		printf(", until it was removed");
	if (p->throttled)
		printf(", sampling stopped %s times for a while", out_group(p->throttled, n[0]));
	if (p->nobodys)
		printf(", %s of unknown tenants", out_group(p->nobodys, n[0]));
	if (p->backend)
		printf(", backend: %s", p->backend);
	putchar('\n');
}

/* Return a mark of the code's side: "[guest.k] ", or "[k] " and "[.] " if there are only guests. */
static const char *side_mark(const struct line *l, char buf[32])
{
	if (!l->known && !l->in.side)
		return "";
	if (!l->in.side)
		return l->kernel ? "[k] " : "[.] ";
	snprintf(buf, 32, "[%.20s] ", l->in.side);
	return buf;
}

static const char *profile_view_base(const char *object)
{
	const char *slash = strrchr(object, '/');

	return slash ? slash + 1 : object;
}

static int print_histogram(const struct facts *p, const struct lines *ls)
{
	struct libscols_table *t = rows_new_table();
	char buf[ADDRESS_LEN + 32], mark[32];
	bool processes = false;

	if (!t)
		return 1;
	for (size_t i = 0; i < ls->nr; i++)
		processes |= *ls->line[i].comm || *ls->line[i].object;
	scols_table_new_column(t, "OVERHEAD", 0, SCOLS_FL_RIGHT);
	scols_table_new_column(t, "SAMPLES", 0, SCOLS_FL_RIGHT);
	scols_table_new_column(t, "VM", 0, 0);
	if (processes) {
		scols_table_new_column(t, "COMMAND", 0, 0);
		scols_table_new_column(t, "OBJECT", 0, 0);
	}
	scols_table_new_column(t, "FUNCTION", 0, 0);
	for (size_t i = 0; i < ls->nr + (p->other_rows != 0); i++) {
		const struct line *l = i < ls->nr ? &ls->line[i] : NULL;
		struct libscols_line *out = scols_table_new_line(t, NULL);
		uint64_t n = l ? l->samples : p->other_rows;
		char group[GROUP_LEN];

		if (!out)
			break;
		snprintf(buf, sizeof(buf), "%.2f%%", percent(n, p->samples));
		scols_line_set_data(out, 0, buf);
		scols_line_set_data(out, 1, out_group(n, group));
		scols_line_set_data(out, 2, l ? l->name : "");
		if (processes) {
			scols_line_set_data(out, 3, l ? l->comm : "");
			scols_line_set_data(out, 4, l ? profile_view_base(l->object) : "");
		}
		snprintf(buf, sizeof(buf), "%s%s", l ? side_mark(l, mark) : "",
			 l ? l->function : "[other addresses]");
		scols_line_set_data(out, processes ? 5 : 3, buf);
	}
	scols_print_table(t);
	scols_unref_table(t);
	return 0;
}

static void profile_view_print_json(const struct facts *p, const json_t *a, const struct lines *ls)
{
	static const char *const totals[] = {
		"target",    "backend", "event",      "period",	    "samples", "lost",
		"late-max",  "count",	"enabled-ns", "running-ns", "quality", "other-rows",
		"unchained", "gone",	"throttled",  "nobodys",    "note"};
	json_t *obj;

	for (size_t i = 0; i < ls->nr; i++) {
		const struct line *l = &ls->line[i];
		char n[24];

		snprintf(n, sizeof(n), "%" PRIu64, l->samples);
		obj = json_pack("{s:s, s:s*, s:s*, s:s*, s:s, s:s*, s:s*, s:s, s:f, s:s*}", "kind",
				"profile", "vm", l->in.vm, "tenant", l->in.tenant, "side",
				l->in.side, "function", l->function, "comm",
				*l->comm ? l->comm : NULL, "object", *l->object ? l->object : NULL,
				"samples", n, "percent", percent(l->samples, p->samples), "backend",
				p->backend);
		if (l->in.vcpu >= 0)
			json_object_set_new(obj, "vcpu", json_integer(l->in.vcpu));
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

/* ---- call chains -------------------------------------------------------------------------- */

/* A stack of the tree, outermost frame first. */
struct stack {
	uint64_t samples;
	size_t n;
	const char *name[CHAIN_FRAMES_MAX];
};

/* Insert @st into @top, the TOP_CHAINS stacks with most samples, if it is one of them. */
static void profile_view_rank(struct stack *top, const struct stack *st)
{
	size_t i = TOP_CHAINS;

	while (i && top[i - 1].samples < st->samples)
		i--;
	if (i == TOP_CHAINS)
		return;
	memmove(&top[i + 1], &top[i], (TOP_CHAINS - 1 - i) * sizeof(*top));
	top[i] = *st;
}

/* Rank all stacks of the tree @f, reached by @path. Returns the number of stacks. */
static size_t profile_view_collect(const struct frame *f, struct stack *path, struct stack *top)
{
	size_t n = f->self != 0;

	if (f->self) {
		path->samples = f->self;
		profile_view_rank(top, path);
	}
	for (size_t i = 0; i < f->nr; i++) {
		path->name[path->n++] = f->child[i]->name;
		n += profile_view_collect(f->child[i], path, top);
		path->n--;
	}
	return n;
}

/* Print one stack, innermost frame first. Repeated frames are merged. */
static void print_stack(const struct stack *st, uint64_t all)
{
	/* Tenants, which are paths, and "[other chains]" have no vCPU; no VM is named so. */
	bool vcpu = st->n > 1 && !strchr("[/", st->name[0][0]) &&
		    !strncmp(st->name[1], "vcpu", strlen("vcpu"));
	size_t first = vcpu ? 2 : 1;

	printf("\n%6.2f%%  %s%s%s\n", percent(st->samples, all), st->name[0], vcpu ? "/" : "",
	       vcpu ? st->name[1] + strlen("vcpu") : "");
	for (size_t k = st->n; k-- > first;) {
		size_t same = 1;

		while (k > first && strcmp(st->name[k - 1], st->name[k]) == 0) {
			same++;
			k--;
		}
		printf("        %s", st->name[k]);
		printf(same > 1 ? " (%zu times)\n" : "\n", same);
	}
}

/* Print the stacks with most samples. */
static void print_chains(const struct frame *root)
{
	struct stack top[TOP_CHAINS] = {0}, path = {0};
	size_t n = profile_view_collect(root, &path, top);

	for (size_t i = 0; i < TOP_CHAINS && top[i].samples; i++)
		print_stack(&top[i], root->total);
	if (n > TOP_CHAINS)
		printf("\n(%zu more call chains; --folded shows them)\n", n - TOP_CHAINS);
}

/* ---- the whole output --------------------------------------------------------------------- */

/* Print to standard error the notes that the output lacks. */
static void print_notes(const struct profile_format *format, const struct facts *p)
{
	const bool data = format->folded || format->data;

	if (data && p->lost)
		cli_error("%" PRIu64 " samples were lost and are missing: they arrived faster than "
			  "the server reads them; raise the period with -c",
			  p->lost);
	if (data && p->throttled)
		cli_error("the kernel stopped sampling %" PRIu64 " times for a while, and what ran "
			  "then is missing; raise the period with -c",
			  p->throttled);
	if (data && p->running_ns < p->enabled_ns)
		cli_error("the event had a counter in %.2f%% of the time: samples of the rest are "
			  "missing",
			  percent(p->running_ns, p->enabled_ns));
	if (data && p->nobodys)
		cli_error("%" PRIu64
			  " samples are of unknown tenants; only a profile of / has them",
			  p->nobodys);
	if (!format->json && p->note)
		cli_error("%s", p->note);
	if (format->chains && p->unchained)
		cli_error("%" PRIu64 " samples have no call chain, because their guests record "
			  "branches of their own",
			  p->unchained);
}

/* Explain each word of @quality. */
static void print_quality(const char *quality)
{
	char *copy = xstrdup(quality), *rest = copy, *word;

	putchar('\n');
	while ((word = strsep(&rest, " ")))
		puts(out_quality(word));
	free(copy);
}

/* ---- data for other tools ------------------------------------------------------------------- */

static int show_perf_script(const struct profile_format *format, const struct facts *p,
			    struct images *im, const json_t *a)
{
	const struct perf_script_about about = {.event = p->event, .period = p->period};
	struct fields f = {0};
	struct perf_script_gaps gaps;

	perf_script_print(&about, &f, im, a, format->f, &gaps);
	if (gaps.left_out)
		cli_error("%" PRIu64
			  " samples are missing: they had too many different call chains",
			  gaps.left_out);
	if (gaps.no_times)
		cli_error("profile: the samples have no times: there are more than the server "
			  "keeps; take a shorter time or a larger -c");
	return fields_ok(&f) ? 0 : 1;
}

/* The comments carry the quality information of the text output. */
static void comment(struct pprof *out, const struct facts *p)
{
	char part[40] = "", unknown[60] = "";

	if (p->running_ns < p->enabled_ns)
		snprintf(part, sizeof(part), " in %.2f%% of the time",
			 percent(p->running_ns, p->enabled_ns));
	if (p->nobodys)
		snprintf(unknown, sizeof(unknown), ", %" PRIu64 " of unknown tenants", p->nobodys);
	pprof_comment(out,
		      "vpmu profile of %s: a sample each %" PRIu64 " %s; %" PRIu64
		      " counted (%s)%s, %" PRIu64 " samples lost%s",
		      p->target, p->period, p->event, p->count, p->quality, part, p->lost, unknown);
	if (p->throttled)
		pprof_comment(out, "sampling was stopped %" PRIu64 " times for a while",
			      p->throttled);
	if (p->note)
		pprof_comment(out, "%s", p->note);
}

static int show_pprof(const struct profile_format *format, const struct facts *p, struct images *im,
		      const json_t *a)
{
	const struct pprof_about about = {.samples = "samples",
					  .event = p->event,
					  .period = p->period,
					  .start_ns = format->start_ns,
					  .duration_ns = format->duration_ns};
	struct pprof *out = pprof_new(&about);
	struct fields f = {0};
	int ret = 0;

	comment(out, p);
	pprof_add_answer(out, &f, im, a);
	if (!f.wrong)
		ret = pprof_write(out, format->f);
	pprof_free(out);
	if (ret)
		cli_error("profile: %s", strerror(-ret));
	return ret || !fields_ok(&f) ? 1 : 0;
}

int profile_show(const struct profile_format *format, struct images *im, const json_t *a)
{
	bool text = !format->folded && !format->json && !format->data;
	struct frame root = {0};
	struct fields f = {0};
	struct lines ls = {0};
	struct facts p;
	int ret = 0;

	parse_facts(&f, a, &p);
	chains_look(&f, im, a);
	if (!format->folded && !format->data)
		make_lines(&f, format->vcpu, im, a, &ls);
	if (format->chains && !format->json && !format->data)
		chains_add(&f, im, a, &root);
	if (!fields_ok(&f)) {
		ret = 1;
		goto out;
	}
	if (format->folded)
		stacks_print_folded(&root, format->f);
	if (format->data == DATA_PERF_SCRIPT)
		ret = show_perf_script(format, &p, im, a);
	if (format->data == DATA_PPROF)
		ret = show_pprof(format, &p, im, a);
	if (format->json)
		profile_view_print_json(&p, a, &ls);
	if (text) {
		print_facts(&p);
		ret = print_histogram(&p, &ls);
	}
	if (text && format->chains)
		print_chains(&root);
	if (text && out_not_exact(p.quality))
		print_quality(p.quality);
	print_notes(format, &p);
out:
	stacks_free(&root);
	lines_free(&ls);
	return ret;
}
