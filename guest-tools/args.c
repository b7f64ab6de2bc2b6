// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Arguments of the guest tools; see args.h. A command has a table of options. Every error names the
 * wrong word and the values expected.
 */
#include "guest-tools/args.h"

/* Number of bytes of a word that an error line shows. */
static int args_cut(struct word w)
{
	return (int)(w.len < 64 ? w.len : 64);
}

bool args_workload(const char **s, uint64_t mem_bytes, struct args_work *work, char *err)
{
	struct word name = text_next_word(s), arg;
	const char *behind = *s;
	size_t n = 0;

	work->w = name.len ? workload_find(name.s, name.len) : NULL;
	if (!work->w) {
		if (name.len)
			n = text_format(err, ARGS_ERR_MAX, "unknown workload '%.*s'",
					args_cut(name), name.s);
		else
			n = text_format(err, ARGS_ERR_MAX, "no workload");
		for (size_t i = 0; i < nr_workloads; i++)
			n += text_format(err + n, ARGS_ERR_MAX - n, "%s%s",
					 i ? ", " : ": known are ", workloads[i].name);
		return false;
	}
	work->n = work->w->default_arg;
	arg = text_next_word(&behind);
	if (arg.len && arg.s[0] >= '0' && arg.s[0] <= '9') {
		*s = behind;
		if (!text_u64(arg.s, arg.len, &work->n)) {
			text_format(
				err, ARGS_ERR_MAX,
				"argument '%.*s' of %s is invalid; expected a decimal or 0x number",
				args_cut(arg), arg.s, work->w->name);
			return false;
		}
	}
	if (work->n > work->w->max_arg) {
		text_format(err, ARGS_ERR_MAX, "argument %lu of %s is invalid; expected up to %lu",
			    work->n, work->w->name, work->w->max_arg);
		return false;
	}
	if (workload_mem_bytes(work->w, work->n) > mem_bytes) {
		text_format(err, ARGS_ERR_MAX,
			    "%s %lu needs %lu bytes of memory, this vCPU has %lu", work->w->name,
			    work->n, workload_mem_bytes(work->w, work->n), mem_bytes);
		return false;
	}
	return true;
}

bool args_end(const char *s, char *err)
{
	struct word w = text_next_word(&s);

	if (w.len)
		text_format(err, ARGS_ERR_MAX, "unexpected '%.*s' at the end", args_cut(w), w.s);
	return !w.len;
}

/* ---- options ---- */

bool option_on(const struct option *o, struct word value, char *err)
{
	*(bool *)o->to = true;
	return true;
}

static bool option_off(const struct option *o, struct word value, char *err)
{
	*(bool *)o->to = false;
	return true;
}

bool option_u64(const struct option *o, struct word w, char *err)
{
	uint64_t *v = o->to;

	if (text_u64(w.s, w.len, v) && *v >= o->min && *v <= o->max)
		return true;
	text_format(err, ARGS_ERR_MAX, "%s '%.*s' is invalid; expected %lu to %lu", o->name,
		    args_cut(w), w.s, o->min, o->max);
	return false;
}

static bool option_u32(const struct option *o, struct word w, char *err)
{
	uint64_t v;
	struct option wide = *o;

	wide.to = &v;
	if (!option_u64(&wide, w, err))
		return false;
	*(uint32_t *)o->to = (uint32_t)v;
	return true;
}

/* A short option's value may follow in the same word. */
static const struct option *option_find(const struct option *o, size_t nr, struct word w)
{
	for (; nr; nr--, o++)
		if (word_is(w, o->name) ||
		    (o->value && !o->name[2] && w.len > 2 && w.s[1] == o->name[1]))
			return o;
	return NULL;
}

static bool option_unknown(const char *cmd, const struct option *o, size_t nr, struct word w,
			   char *err)
{
	size_t n = text_format(err, ARGS_ERR_MAX, "unknown option '%.*s': %s takes", args_cut(w),
			       w.s, cmd);

	for (size_t i = 0; i < nr; i++)
		n += text_format(err + n, ARGS_ERR_MAX - n, "%s %s%s%s", i ? "," : "", o[i].name,
				 o[i].value ? " " : "", o[i].value ? o[i].value : "");
	return false;
}

bool args_options(const char **s, const char *cmd, const struct option *o, size_t nr, char *err)
{
	for (;;) {
		const char *behind = *s;
		struct word w = text_next_word(&behind), value = {"", 0};
		const struct option *found;

		if (!w.len || w.s[0] != '-')
			return true;
		*s = behind;
		if (word_is(w, "--"))
			return true;
		found = option_find(o, nr, w);
		if (!found)
			return option_unknown(cmd, o, nr, w, err);
		if (found->value) {
			value = word_is(w, found->name) ? text_next_word(s)
							: (struct word){w.s + 2, w.len - 2};
			if (!value.len) {
				text_format(err, ARGS_ERR_MAX, "option %s needs a value",
					    found->name);
				return false;
			}
		}
		if (!found->set(found, value, err))
			return false;
	}
}

bool args_number(const char **s, const char *name, uint64_t min, uint64_t max, uint64_t *v,
		 char *err)
{
	const struct option o = {name, NULL, NULL, v, min, max};
	struct word w = text_next_word(s);

	return !w.len || option_u64(&o, w, err);
}

/* ---- stat, run ---- */

static bool stat_events(const struct option *o, struct word w, char *err)
{
	struct args_stat *a = o->to;

	return events_parse(w.s, w.len, a->ev, &a->nr_ev, err, ARGS_ERR_MAX);
}

static bool stat_json(const struct option *o, struct word value, char *err)
{
	((struct args_stat *)o->to)->format = STAT_JSON;
	return true;
}

static bool stat_separator(const struct option *o, struct word w, char *err)
{
	struct args_stat *a = o->to;

	if (w.len >= sizeof(a->sep)) {
		text_format(err, ARGS_ERR_MAX, "separator of -x: expected up to %d bytes",
			    (int)sizeof(a->sep) - 1);
		return false;
	}
	text_format(a->sep, sizeof(a->sep), "%.*s", (int)w.len, w.s);
	a->format = STAT_CSV;
	return true;
}

bool args_stat_parse(const char *s, uint64_t mem_bytes, struct args_stat *a, char *err)
{
	const struct option options[] = {
		{"-e", "EVENTS", stat_events, a, 0, 0},
		{"-x", "SEP", stat_separator, a, 0, 0},
		{"-j", NULL, stat_json, a, 0, 0},
		{"-r", "N", option_u32, &a->repeat, 1, ARGS_REPEAT_MAX},
		{"-v", NULL, option_on, &a->verbose, 0, 0},
	};

	*a = (struct args_stat){.repeat = 1};
	if (!args_options(&s, "stat", OPTIONS(options), err))
		return false;
	if (!a->nr_ev && !events_parse(EVENTS_DEFAULT, sizeof(EVENTS_DEFAULT) - 1, a->ev, &a->nr_ev,
				       err, ARGS_ERR_MAX))
		return false;
	return args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}

bool args_run_parse(const char *s, uint64_t mem_bytes, struct args_run *a, char *err)
{
	const struct option options[] = {
		{"-r", "N", option_u64, &a->repeat, 0, UINT64_MAX},
	};

	*a = (struct args_run){.repeat = 1};
	return args_options(&s, "run", OPTIONS(options), err) &&
	       args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}

/* ---- record, lbr ---- */

static bool record_event(const struct option *o, struct word w, char *err)
{
	struct event list[EVENTS_MAX];
	size_t n = 0;

	if (!events_parse(w.s, w.len, list, &n, err, ARGS_ERR_MAX))
		return false;
	if (n != 1) {
		text_format(err, ARGS_ERR_MAX, "-e '%.*s': one event is sampled at a time",
			    args_cut(w), w.s);
		return false;
	}
	*(struct event *)o->to = list[0];
	return true;
}

bool args_record_parse(const char *s, uint64_t mem_bytes, struct args_record *a, char *err)
{
	const struct option options[] = {
		{"-e", "EVENT", record_event, &a->ev, 0, 0},
		{"-c", "PERIOD", option_u64, &a->period, 1, ARGS_PERIOD_MAX},
		{"-g", NULL, option_on, &a->chains, 0, 0},
		{"--raw", NULL, option_on, &a->raw, 0, 0},
		{"--nmi", NULL, option_off, &a->vector, 0, 0},
		{"--vector", NULL, option_on, &a->vector, 0, 0},
		{"--fixed", NULL, option_on, &a->fixed, 0, 0},
		{"-j", NULL, option_on, &a->json, 0, 0},
	};
	size_t n = 0;

	*a = (struct args_record){.period = 10000};
	return events_parse("instructions:u", 14, &a->ev, &n, err, ARGS_ERR_MAX) &&
	       args_options(&s, "record", OPTIONS(options), err) &&
	       args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}

bool args_lbr_parse(const char *s, uint64_t mem_bytes, struct args_lbr *a, char *err)
{
	const struct option options[] = {
		{"--depth", "N", option_u32, &a->depth, 1, 32},
		{"--branches", NULL, option_on, &a->branches, 0, 0},
		{"-c", "PERIOD", option_u64, &a->period, 1, ARGS_PERIOD_MAX},
		{"--nmi", NULL, option_off, &a->vector, 0, 0},
		{"--vector", NULL, option_on, &a->vector, 0, 0},
		{"-j", NULL, option_on, &a->json, 0, 0},
	};
	const char *rest, *fallback;

	*a = (struct args_lbr){.period = 997};
	if (!args_options(&s, "lbr", OPTIONS(options), err))
		return false;
	rest = s;
	fallback = a->branches ? "branches" : "chain";
	if (!text_next_word(&rest).len)
		return args_workload(&fallback, mem_bytes, &a->work, err);
	return args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}
