// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command lbr: samples branch records at PMIs and compares them with the truth (truth.h). In
 * call-stack mode the truth about the workload chain is on its stack. Otherwise the truth about the
 * workload branches follows from its registers. Records of other workloads are printed and not
 * checked.
 */
#include "guest-tools/args.h"
#include "guest-tools/flow.h"
#include "guest-tools/sample.h"
#include "guest-tools/symbols.h"
#include "guest-tools/truth.h"

extern const char __urodata_start[]; /* guest.lds: the end of all code */

static struct args_lbr args;
static struct sampler s;
static bool judged; /* the truth is known */
static uint64_t captures, equal, cut, wrong, edge;
static const struct guest_sample *shown, *first_bad;

/* Count each capture as equal (all records are right), cut (they end too early), or wrong. */
static void judge(void)
{
	for (uint64_t i = 0; i < s.pmi.samples; i++) {
		const struct guest_sample *g = sampler_get(&s, i);
		unsigned int n, want;

		if (truth_edge(g, args.branches && judged)) {
			edge++; /* in the kernel, before the first or behind the last block */
			continue;
		}
		captures++;
		if (!judged) {
			shown = g;
			continue;
		}
		n = args.branches ? truth_branches(&s, g, &want) : truth_chain(&s, g, &want);
		if (want && n == want) {
			equal++;
			if (!shown || g->nr_stack > shown->nr_stack)
				shown = g;
			continue;
		}
		if (want && n == g->nr_lbr)
			cut++;
		else
			wrong++;
		if (!first_bad)
			first_bad = g;
	}
}

static const char *lbr_name_of(uint64_t ip, char buf[SYMBOL_TEXT_MAX])
{
	return symbol_text(symbol_start(ip, (uint64_t)__urodata_start), buf);
}

static void print_records(const char *what, const struct guest_sample *g)
{
	char a[SYMBOL_TEXT_MAX], b[SYMBOL_TEXT_MAX];
	const uint64_t *lbr = sample_lbr(&s, g);

	out("# %s, at 0x%lx (%s), newest first:\n", what, g->ip, lbr_name_of(g->ip, a));
	for (unsigned int i = 0; i < g->nr_lbr || (!args.branches && i < g->nr_stack); i++) {
		uint64_t from = lbr[2 * i], to = lbr[2 * i + 1];

		if (i < g->nr_lbr && lbr_record(&s.lbr, &from, &to))
			out("  0x%lx (%s) -> 0x%lx (%s)", from, lbr_name_of(from, a), to,
			    lbr_name_of(to, b));
		else
			out("  no record");
		if (judged && !args.branches && i < g->nr_stack)
			out(", on the stack 0x%lx", sample_stack(g)[i]);
		out("\n");
	}
}

#define JSON_BRANCHES 8

/* Print the names of the calling functions, outermost first, or the newest branches, newest first;
 * as many as fit a line of 512 bytes. */
static void json_records(const struct guest_sample *g)
{
	const uint64_t *lbr = sample_lbr(&s, g);
	char text[280], buf[SYMBOL_TEXT_MAX];
	size_t n = 0;

	text[0] = 0;
	for (unsigned int k = 0; k < g->nr_lbr; k++) {
		unsigned int i = args.branches ? k : g->nr_lbr - 1u - k;
		uint64_t from = lbr[2 * i], to = lbr[2 * i + 1];

		lbr_record(&s.lbr, &from, &to);
		if (n + SYMBOL_TEXT_MAX + 3 > sizeof(text) || (args.branches && k == JSON_BRANCHES))
			break;
		n += text_format(text + n, sizeof(text) - n, "%s\"", n ? "," : "");
		if (args.branches)
			n += text_format(text + n, sizeof(text) - n, "0x%lx 0x%lx\"", from, to);
		else
			n += text_format(text + n, sizeof(text) - n, "%s\"",
					 lbr_name_of(from, buf));
	}
	out(",\"%s\":[%s]", args.branches ? "branches" : "chain", text);
}

static void lbr_print(uint32_t vcpu)
{
	if (args.json) {
		out("{\"kind\":\"guest-lbr\",\"vcpu\":%u,\"mode\":\"%s\",\"depth\":%u,"
		    "\"captures\":%lu,\"judged\":%s,\"equal\":%lu,\"short\":%lu,\"wrong\":%lu,"
		    "\"lost\":%lu",
		    vcpu, args.branches ? "branches" : "calls", s.pmi.lbr_nr, captures,
		    judged ? "true" : "false", equal, cut, wrong, s.handled - s.pmi.samples);
		if (shown)
			json_records(shown);
		out("}\n");
		return;
	}
	if (shown)
		print_records(args.branches ? "last branches" : "a call chain", shown);
	if (first_bad)
		print_records("the first chain that is not equal", first_bad);
	out("# vcpu %u: %lu captures of %u records, ", vcpu, captures, s.pmi.lbr_nr);
	if (judged)
		out("equal %lu, short %lu, wrong %lu", equal, cut, wrong);
	else
		out("not judged: the truth of %s is not known", args.work.w->name);
	out("; %lu PMIs, not stored %lu, at the edges %lu\n", s.handled, s.handled - s.pmi.samples,
	    edge);
}

TOOL_COMMAND(lbr, "[--depth N] [--branches] [-c PERIOD] [-j] [WORKLOAD [ARG]]",
	     "compare branch records at PMIs with the true call chain");
int lbr_main(const struct guest_info *info, const char *text)
{
	static char err[ARGS_ERR_MAX];
	struct sample_opts o = {.lbr_mode = LBR_CALLS};
	struct lbr_dev dev;
	workload_fn *fn;
	size_t bytes = info->mem_bytes, n = 0;

	captures = equal = cut = wrong = edge = 0;
	shown = first_bad = NULL;
	judged = false;
	if (!args_lbr_parse(text, info->mem_bytes, &args, err))
		return tool_error(info, err);
	lbr_probe(&dev, err, sizeof(err));
	if (dev.kind == LBR_NONE)
		return tool_cannot(info, err);
	events_parse("instructions:u", 14, &o.ev, &n, err, sizeof(err));
	o.period = args.period;
	o.delivery = args.vector ? GUEST_PMI_VECTOR : GUEST_PMI_NMI;
	o.lbr_depth = args.depth ? args.depth : dev.max;
	o.lbr_mode = args.branches ? LBR_BRANCHES : LBR_CALLS;
	o.keep = workload_mem_bytes(args.work.w, args.work.n);
	fn = args.work.w->fn;
	if (!args.branches && fn == workload_chain) {
		judged = true;
		o.stack_nr = LBR_DEPTH_MAX + 1;
		fn = chain_walk;
		/* Every frame needs a record: user_call's, chain_walk's, depth + 1 of the tree. */
		bytes = o.lbr_depth > 2 ? o.lbr_depth - 2 : 0;
	} else if (args.branches && fn == workload_branches) {
		judged = true;
	}
	if (!sampler_open(&s, info, &o, err, sizeof(err)) ||
	    !sampler_run(&s, fn, args.work.n, bytes, err, sizeof(err)))
		return tool_cannot(info, err);
	if (!s.counted || (!s.pmi.pmis && s.expected > 1)) {
		text_format(err, sizeof(err), "%s",
			    s.counted ? "no PMI came: this machine does not deliver them"
				      : "instructions:u: the host cannot count this event");
		return tool_cannot(info, err);
	}
	judge();
	lbr_print(info->vcpu);
	if (!captures)
		return tool_cannot(info,
				   "nothing was captured: use a shorter period (-c) or more work");
	return judged && equal != captures ? TOOL_FAILED : TOOL_OK;
}
