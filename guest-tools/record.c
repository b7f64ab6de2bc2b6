// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command record: samples a workload by PMIs and prints a histogram by function, as perf report
 * does. It also checks the number of PMIs against the count of the event.
 */
#include "guest-tools/args.h"
#include "guest-tools/sample.h"
#include "guest-tools/symbols.h"

#define ROWS_MAX   64
#define CHAINS_MAX 16
#define JSON_MAX   480 /* a line of the serial port has 512 bytes */

/* Samples of one function, or with one chain of functions. */
struct row {
	union {
		uint64_t start; /* of the function */
		uint64_t first; /* sample of the chain: its index */
	};
	uint64_t samples;
	bool kernel;
};

extern const char __urodata_start[]; /* guest.lds: the end of all code */

static struct args_record args;
static struct sampler s;
static struct row rows[ROWS_MAX];
static size_t nr_rows;
static uint64_t other; /* samples of functions beyond ROWS_MAX */
static struct row chains[CHAINS_MAX];
static size_t nr_chains;
static uint64_t other_chains;

static uint64_t function_of(uint64_t ip)
{
	return symbol_start(ip, (uint64_t)__urodata_start);
}

static void record_add_row(uint64_t start, bool kernel)
{
	size_t i = 0;

	while (i < nr_rows && (rows[i].start != start || rows[i].kernel != kernel))
		i++;
	if (i == ROWS_MAX) {
		other++;
		return;
	}
	if (i == nr_rows)
		rows[nr_rows++] = (struct row){.start = start, .kernel = kernel};
	rows[i].samples++;
}

/* The function of frame @i of a sample. Frame 0 is the sampled function; its callers follow. */
static uint64_t frame(const struct guest_sample *g, unsigned int i)
{
	uint64_t from, to;

	if (!i)
		return function_of(g->ip);
	from = sample_lbr(&s, g)[2 * (i - 1)];
	to = sample_lbr(&s, g)[2 * (i - 1) + 1];
	lbr_record(&s.lbr, &from, &to);
	return function_of(from);
}

static bool same_chain(const struct guest_sample *a, const struct guest_sample *b)
{
	if (a->nr_lbr != b->nr_lbr)
		return false;
	for (unsigned int i = 0; i <= a->nr_lbr; i++) {
		if (frame(a, i) != frame(b, i))
			return false;
	}
	return true;
}

static void add_chain(uint64_t nr)
{
	const struct guest_sample *g = sampler_get(&s, nr);
	size_t i = 0;

	while (i < nr_chains && !same_chain(g, sampler_get(&s, chains[i].first)))
		i++;
	if (i == CHAINS_MAX) {
		other_chains++;
		return;
	}
	if (i == nr_chains)
		chains[nr_chains++] = (struct row){.first = nr};
	chains[i].samples++;
}

/* Most samples first. */
static void record_sort(struct row *r, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k && r[k].samples > r[k - 1].samples; k--) {
			struct row tmp = r[k];

			r[k] = r[k - 1];
			r[k - 1] = tmp;
		}
}

static void aggregate(void)
{
	for (uint64_t i = 0; i < s.pmi.samples; i++) {
		const struct guest_sample *g = sampler_get(&s, i);

		record_add_row(function_of(g->ip), !(g->cs & 3));
		if (args.chains)
			add_chain(i);
	}
	record_sort(rows, nr_rows);
	record_sort(chains, nr_chains);
}

/* Write a chain to @text, outermost first, cut to fit a line. @quote is put around each name. */
static void chain_text(const struct guest_sample *g, const char *sep, const char *quote, char *text,
		       size_t size)
{
	char buf[SYMBOL_TEXT_MAX];
	size_t n = 0;

	text[0] = 0;
	for (unsigned int i = g->nr_lbr + 1u; i--;) {
		const char *name = symbol_text(frame(g, i), buf);

		n += text_format(text + n, size - n, "%s%s%s%s", n ? sep : "", quote, name, quote);
		if (i && n + 2 * SYMBOL_TEXT_MAX > size) {
			text_format(text + n, size - n, "%s%s...%s", sep, quote, quote);
			return;
		}
	}
}

/* Samples that could not be stored, plus missing PMIs. */
static uint64_t record_lost(void)
{
	uint64_t missing = s.expected > s.handled ? s.expected - s.handled : 0;

	return s.handled - s.pmi.samples + missing + s.pmi.overruns;
}

static const char *delivery(void)
{
	return args.vector ? "vector" : "nmi";
}

/* Print each sample, in the order in which they came, as function and offset. */
static void print_raw(uint32_t vcpu)
{
	char name[SYMBOL_TEXT_MAX];

	for (uint64_t i = 0; i < s.pmi.samples; i++) {
		const struct guest_sample *g = sampler_get(&s, i);
		uint64_t start = function_of(g->ip);

		if (args.json)
			out("{\"kind\":\"sample\",\"vcpu\":%u,\"nr\":%lu,\"function\":\"%s\","
			    "\"offset\":%lu,\"cpl\":%u}\n",
			    vcpu, i, symbol_text(start, name), g->ip - start, g->cs & 3);
		else
			out("# sample %lu: %s+0x%lx cpl %u\n", i, symbol_text(start, name),
			    g->ip - start, g->cs & 3);
	}
}

static void record_print_text(uint32_t vcpu)
{
	char name[SYMBOL_TEXT_MAX], line[400];

	out("# vcpu %u: samples of %s, one in %lu, by %s, while %s %lu ran (result %lu)\n", vcpu,
	    args.ev.name, args.period, args.vector ? "vector" : "NMI", args.work.w->name,
	    args.work.n, s.result);
	out("# samples  percent  function\n");
	for (size_t i = 0; i < nr_rows; i++) {
		uint64_t p = mul_div(rows[i].samples, 10000, s.pmi.samples);

		out("%9lu  %3lu.%lu%lu%%  [%c] %s\n", rows[i].samples, p / 100, p / 10 % 10, p % 10,
		    rows[i].kernel ? 'k' : '.', symbol_text(rows[i].start, name));
	}
	if (other)
		out("%9lu           others\n", other);
	for (size_t i = 0; i < nr_chains; i++) {
		chain_text(sampler_get(&s, chains[i].first), ";", "", line, sizeof(line));
		out("# chain %lu %s\n", chains[i].samples, line);
	}
	if (other_chains)
		out("# chain %lu others\n", other_chains);
	out("# vcpu %u: %lu PMIs, expected %lu (count %lu / %lu), lost %lu, without cause %lu: "
	    "%s\n",
	    vcpu, s.handled, s.expected, s.count, args.period, record_lost(), s.pmi.no_cause,
	    s.partial	     ? "not checked, because the counter shared its host counter"
	    : sampler_ok(&s) ? "ok"
			     : "WRONG");
}

static void record_print_json(uint32_t vcpu)
{
	char name[SYMBOL_TEXT_MAX], line[JSON_MAX];
	uint64_t p;

	out("{\"kind\":\"sample-summary\",\"vcpu\":%u,\"workload\":\"%s\",\"arg\":%lu,"
	    "\"event\":\"%s\",\"period\":%lu,\"delivery\":\"%s\",\"pmis\":%lu,\"samples\":%lu,"
	    "\"expected\":%lu,\"count\":\"%lu\",\"lost\":%lu,\"without_cause\":%lu,"
	    "\"partial\":%s,\"ok\":%s}\n",
	    vcpu, args.work.w->name, args.work.n, args.ev.name, args.period, delivery(), s.handled,
	    s.pmi.samples, s.expected, s.count, record_lost(), s.pmi.no_cause,
	    s.partial ? "true" : "false", s.partial || sampler_ok(&s) ? "true" : "false");
	for (size_t i = 0; i < nr_rows; i++) {
		p = mul_div(rows[i].samples, 10000, s.pmi.samples);
		out("{\"kind\":\"sample-histogram\",\"vcpu\":%u,\"function\":\"%s\",\"cpl\":%d,"
		    "\"samples\":%lu,\"percent\":%lu.%lu%lu}\n",
		    vcpu, symbol_text(rows[i].start, name), rows[i].kernel ? 0 : 3, rows[i].samples,
		    p / 100, p / 10 % 10, p % 10);
	}
	if (other)
		out("{\"kind\":\"sample-histogram\",\"vcpu\":%u,\"function\":null,"
		    "\"samples\":%lu}\n",
		    vcpu, other);
	for (size_t i = 0; i < nr_chains; i++) {
		chain_text(sampler_get(&s, chains[i].first), ",", "\"", line, sizeof(line) - 80);
		out("{\"kind\":\"sample-chain\",\"vcpu\":%u,\"samples\":%lu,\"chain\":[%s]}\n",
		    vcpu, chains[i].samples, line);
	}
}

TOOL_COMMAND(record, "[-e EV] [-c PERIOD] [-g] [--raw] [--vector] [-j] WORKLOAD [ARG]",
	     "sample a workload by PMIs and print a histogram by function");
int record_main(const struct guest_info *info, const char *text)
{
	static char err[ARGS_ERR_MAX];
	struct sample_opts o;

	nr_rows = nr_chains = other = other_chains = 0;
	if (!args_record_parse(text, info->mem_bytes, &args, err))
		return tool_error(info, err);
	o = (struct sample_opts){
		.ev = args.ev,
		.period = args.period,
		.delivery = args.vector ? GUEST_PMI_VECTOR : GUEST_PMI_NMI,
		.fixed = args.fixed,
		.keep = workload_mem_bytes(args.work.w, args.work.n),
	};
	if (args.chains) {
		struct lbr_dev dev;

		lbr_probe(&dev, err, sizeof(err));
		if (dev.kind == LBR_NONE)
			return tool_cannot(info, err);
		o.lbr_depth = dev.max;
		o.lbr_mode = LBR_CALLS;
	}
	if (!sampler_open(&s, info, &o, err, sizeof(err)) ||
	    !sampler_run(&s, args.work.w->fn, args.work.n, info->mem_bytes, err, sizeof(err)))
		return tool_cannot(info, err);
	if (!s.counted) {
		text_format(err, sizeof(err), "%s: the host cannot count this event", args.ev.name);
		return tool_cannot(info, err);
	}
	if (!s.pmi.pmis && s.expected > 1) {
		text_format(err, sizeof(err),
			    "no PMI came in %lu periods: this machine does not deliver them",
			    s.expected);
		return tool_cannot(info, err);
	}
	aggregate();
	if (args.json)
		record_print_json(info->vcpu);
	else
		record_print_text(info->vcpu);
	if (args.raw)
		print_raw(info->vcpu);
	return s.partial || sampler_ok(&s) ? TOOL_OK : TOOL_FAILED;
}
