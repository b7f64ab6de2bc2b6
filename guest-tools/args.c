// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Arguments of stat and run, and the functions shared by all commands (a workload, the end); see
 * args.h. Every error names the wrong word and the values expected.
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

/* The value of an option: the rest of its word ("-r5"), or the next word ("-r 5"). */
static bool option_value(const char **s, struct word opt, struct word *value, char *err)
{
	if (opt.len > 2)
		*value = (struct word){opt.s + 2, opt.len - 2};
	else
		*value = text_next_word(s);
	if (!value->len)
		text_format(err, ARGS_ERR_MAX, "option %.*s needs a value", 2, opt.s);
	return value->len;
}

static bool parse_option(const char **s, struct word opt, struct args_stat *a, char *err)
{
	struct word value;
	uint64_t repeat;

	if (word_is(opt, "-v")) {
		a->verbose = true;
		return true;
	}
	if (word_is(opt, "-j")) {
		a->format = STAT_JSON;
		return true;
	}
	switch (opt.len >= 2 ? opt.s[1] : 0) {
	case 'e':
		return option_value(s, opt, &value, err) &&
		       events_parse(value.s, value.len, a->ev, &a->nr_ev, err, ARGS_ERR_MAX);
	case 'x':
		if (!option_value(s, opt, &value, err))
			return false;
		if (value.len >= sizeof(a->sep)) {
			text_format(err, ARGS_ERR_MAX, "separator of -x: expected up to %d bytes",
				    (int)sizeof(a->sep) - 1);
			return false;
		}
		text_format(a->sep, sizeof(a->sep), "%.*s", (int)value.len, value.s);
		a->format = STAT_CSV;
		return true;
	case 'r':
		if (!option_value(s, opt, &value, err))
			return false;
		if (!text_u64(value.s, value.len, &repeat) || !repeat || repeat > ARGS_REPEAT_MAX) {
			text_format(err, ARGS_ERR_MAX,
				    "-r '%.*s' is invalid; expected 1 to %u runs", args_cut(value),
				    value.s, ARGS_REPEAT_MAX);
			return false;
		}
		a->repeat = (uint32_t)repeat;
		return true;
	}
	text_format(err, ARGS_ERR_MAX,
		    "unknown option '%.*s': stat takes -e EVENTS, -x SEP, -j, -r N, -v",
		    args_cut(opt), opt.s);
	return false;
}

bool args_stat_parse(const char *s, uint64_t mem_bytes, struct args_stat *a, char *err)
{
	*a = (struct args_stat){.repeat = 1};
	for (;;) {
		const char *behind = s;
		struct word w = text_next_word(&behind);

		if (!w.len || w.s[0] != '-')
			break;
		s = behind;
		if (word_is(w, "--"))
			break;
		if (!parse_option(&s, w, a, err))
			return false;
	}
	if (!a->nr_ev && !events_parse(EVENTS_DEFAULT, sizeof(EVENTS_DEFAULT) - 1, a->ev, &a->nr_ev,
				       err, ARGS_ERR_MAX))
		return false;
	return args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}

bool args_run_parse(const char *s, uint64_t mem_bytes, struct args_run *a, char *err)
{
	const char *behind = s;
	struct word w = text_next_word(&behind), value;

	*a = (struct args_run){.repeat = 1};
	if (w.len >= 2 && w.s[0] == '-' && w.s[1] == 'r') {
		s = behind;
		if (!option_value(&s, w, &value, err))
			return false;
		if (!text_u64(value.s, value.len, &a->repeat)) {
			text_format(err, ARGS_ERR_MAX,
				    "-r '%.*s' is invalid; expected a number of runs (0: until "
				    "interrupted)",
				    args_cut(value), value.s);
			return false;
		}
	} else if (w.len && w.s[0] == '-') {
		text_format(err, ARGS_ERR_MAX, "unknown option '%.*s': run takes -r N", args_cut(w),
			    w.s);
		return false;
	}
	return args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}
