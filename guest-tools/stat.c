// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command stat: counts events while a workload runs and prints them as `perf stat` does. It
 * prints the raw counts and must not subtract anything: they include the tool's own instructions.
 * Values that are scaled, modelled or derived are marked.
 */
#include "guest-tools/args.h"
#include "guest-tools/pmu.h"
#include "guest-tools/tools.h"

/* Sums over all runs, for one event. */
struct total {
	uint64_t runs; /* runs that were counted */
	uint64_t sum;
	unsigned __int128 squares; /* sum of squares */
	uint64_t enabled_ns, running_ns;
};

static struct args_stat args;
static struct pmu pmu;
static struct pmu_slot slots[EVENTS_MAX];
static struct total totals[EVENTS_MAX];
static struct guest_write writes[PMU_WRITES_MAX];

static uint64_t isqrt(unsigned __int128 v)
{
	unsigned __int128 bit = (unsigned __int128)1 << 126, root = 0;

	while (bit > v)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (v >= root + bit) {
			v -= root + bit;
			root = (root >> 1) + bit;
		} else {
			root >>= 1;
		}
	}
	return (uint64_t)root;
}

/* Standard deviation of the mean in 1/100 % of it, as perf's "+-". */
static uint64_t deviation(const struct total *t)
{
	unsigned __int128 n = t->runs, var, den;
	uint64_t mean = t->runs ? t->sum / t->runs : 0, scale = 10000;

	if (t->runs < 2 || !mean)
		return 0;
	/* n * sum(x^2) - sum(x)^2 = n^2 (n - 1) * (deviation of the mean)^2 */
	var = n * t->squares - (unsigned __int128)t->sum * t->sum;
	den = n * n * (n - 1);
	/* Without a library there is no 128-bit division, so take the roots first, with 16 more
	 * bits if they are small. */
	if (var >> 94)
		scale <<= 16;
	else
		var <<= 32;
	return mul_div(isqrt(var), scale, isqrt(den << 32)) / mean;
}

static const char *quality_name(uint32_t quality)
{
	switch (quality) {
	case VPMU_PV_Q_EXACT:
		return "exact";
	case VPMU_PV_Q_MODELLED:
		return "modelled";
	case VPMU_PV_Q_ESTIMATED:
		return "estimated";
	case VPMU_PV_Q_TSC:
		return "tsc";
	default:
		return "unknown";
	}
}

/* The text that is printed instead of the count, or NULL if there is a count. */
static const char *no_count(const struct pmu_slot *s, const struct total *t)
{
	if (s->state == PMU_NOT_SUPPORTED)
		return "<not supported>";
	return t->runs ? NULL : "<not counted>";
}

/* Running share of the enabled time, in 1/100 %. */
static uint64_t percent_running(const struct total *t)
{
	if (t->running_ns >= t->enabled_ns)
		return 10000;
	return mul_div(t->running_ns, 10000, t->enabled_ns);
}

static void stat_print_text(const struct pmu_slot *s, const struct total *t)
{
	const char *none = no_count(s, t), *remark = "";
	char num[32], tail[96];
	size_t n = 0;
	uint64_t v;

	if (!none && s->times && s->quality != VPMU_PV_Q_EXACT)
		remark = quality_name(s->quality);
	else if (s->state == PMU_NO_FREE)
		remark = "no free counter";
	n += text_format(tail + n, sizeof(tail) - n, "%s%-11s", *remark ? "# " : "  ", remark);
	if (!none && t->runs > 1) {
		v = deviation(t);
		n += text_format(tail + n, sizeof(tail) - n, " ( +- %2lu.%lu%lu%% )", v / 100,
				 v / 10 % 10, v % 10);
	}
	v = percent_running(t);
	if (!none && s->times && v < 10000)
		n += text_format(tail + n, sizeof(tail) - n, "  (%lu.%lu%lu%%)", v / 100,
				 v / 10 % 10, v % 10);
	while (n && tail[n - 1] == ' ')
		n--;
	out("%18s      ", none ? none : text_thousands(t->sum / t->runs, num));
	out("%-*s%.*s\n", n ? 26 : 0, s->ev->name, (int)n, tail);
}

static void print_csv(const struct pmu_slot *s, const struct total *t, uint32_t vcpu)
{
	const char *none = no_count(s, t), *sep = args.sep;
	uint64_t v;

	if (none)
		out("%s", none);
	else
		out("%lu", t->sum / t->runs);
	out("%s%s%s%s", sep, sep, s->ev->name, sep);
	if (args.repeat > 1) {
		v = none ? 0 : deviation(t);
		out("%lu.%lu%lu%%%s", v / 100, v / 10 % 10, v % 10, sep);
	}
	v = none ? 0 : percent_running(t);
	if (s->times || none)
		out("%lu%s%lu.%lu%lu%s", none ? 0 : t->running_ns, sep, v / 100, v / 10 % 10,
		    v % 10, sep);
	else
		out("%s%s", sep, sep);
	out("%s%svcpu %u\n", none ? "" : quality_name(s->times ? s->quality : UINT32_MAX), sep,
	    vcpu);
}

static void stat_print_json(const struct pmu_slot *s, const struct total *t, uint32_t vcpu)
{
	const char *none = no_count(s, t);
	uint64_t v;

	if (none)
		out("{\"counter-value\" : \"%s\"", none);
	else
		out("{\"counter-value\" : \"%lu\"", t->sum / t->runs);
	out(", \"unit\" : \"\", \"event\" : \"%s\"", s->ev->name);
	if (args.repeat > 1 && !none) {
		v = deviation(t);
		out(", \"variance\" : %lu.%lu%lu", v / 100, v / 10 % 10, v % 10);
	}
	v = none ? 0 : percent_running(t);
	if (s->times || none)
		out(", \"event-runtime\" : %lu, \"pcnt-running\" : %lu.%lu%lu",
		    none ? 0 : t->running_ns, v / 100, v / 10 % 10, v % 10);
	if (!none)
		out(", \"quality\" : \"%s\"", quality_name(s->times ? s->quality : UINT32_MAX));
	out(", \"vcpu\" : %u}\n", vcpu);
}

static void print_all(uint32_t vcpu, uint64_t result)
{
	const struct args_work *work = &args.work;

	if (args.format == STAT_TEXT) {
		out("\n Performance counter stats for '%s %lu' (vcpu %u", work->w->name, work->n,
		    vcpu);
		if (args.repeat > 1)
			out(", %u runs", args.repeat);
		out("):\n\n");
	}
	for (size_t i = 0; i < args.nr_ev; i++) {
		if (args.format == STAT_TEXT)
			stat_print_text(&slots[i], &totals[i]);
		else if (args.format == STAT_CSV)
			print_csv(&slots[i], &totals[i], vcpu);
		else
			stat_print_json(&slots[i], &totals[i], vcpu);
	}
	if (args.format == STAT_TEXT)
		out("\n%18lu      result of %s %lu\n\n", result, work->w->name, work->n);
}

static void print_counters(uint32_t vcpu)
{
	char text[128];

	pmu_describe(&pmu, text, sizeof(text));
	out("# vcpu %u: %s\n", vcpu, text);
	for (size_t i = 0; i < args.nr_ev; i++) {
		if (slots[i].ctr >= (int)VPMU_PV_FIXED)
			out("# vcpu %u: %s: fixed counter %d\n", vcpu, slots[i].ev->name,
			    slots[i].ctr - (int)VPMU_PV_FIXED);
		else if (slots[i].ctr >= 0)
			out("# vcpu %u: %s: counter %d\n", vcpu, slots[i].ev->name, slots[i].ctr);
		else
			out("# vcpu %u: %s: no counter\n", vcpu, slots[i].ev->name);
	}
}

static void add_run(const struct pmu_slot *s, struct total *t)
{
	uint64_t v = pmu_scaled(s);

	if (s->state != PMU_COUNTED)
		return;
	t->runs++;
	t->sum += v;
	t->squares += (unsigned __int128)v * v;
	t->enabled_ns += s->enabled_ns;
	t->running_ns += s->running_ns;
}

TOOL_COMMAND(stat, "[-e EV,...] [-x SEP | -j] [-r N] [-v] WORKLOAD [ARG]",
	     "count events while a workload runs");
int stat_main(const struct guest_info *info, const char *text)
{
	static char err[ARGS_ERR_MAX];
	uint64_t result = 0;

	if (!args_stat_parse(text, info->mem_bytes, &args, err))
		return tool_error(info, err);
	pmu_probe(&pmu);
	pmu_assign(&pmu, args.ev, slots, args.nr_ev);
	for (size_t i = 0; i < args.nr_ev; i++)
		totals[i] = (struct total){.runs = 0};
	if (args.verbose)
		print_counters(info->vcpu);
	for (uint32_t r = 0; r < args.repeat; r++) {
		struct guest_run run;

		pmu_program(&pmu, slots, args.nr_ev, &run, writes);
		if (tool_run(info, args.work.w, args.work.n, &run, &result)) {
			if (run.msr)
				text_format(err, sizeof(err),
					    "writing 0x%lx to MSR 0x%x (global control) is #GP",
					    run.enable, run.msr);
			else
				text_format(err, sizeof(err),
					    "enabling a counter in its event select is #GP");
			pmu_quiet(&pmu);
			return tool_cannot(info, err);
		}
		pmu_read(&pmu, slots, args.nr_ev);
		for (size_t i = 0; i < args.nr_ev; i++)
			add_run(&slots[i], &totals[i]);
	}
	print_all(info->vcpu, result);
	return TOOL_OK;
}
