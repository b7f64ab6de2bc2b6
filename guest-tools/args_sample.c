// SPDX-License-Identifier: GPL-2.0-or-later
/* Arguments of record, lbr, torture, leak and victim; see args.h. Every error names the word that
 * is wrong and the values expected. */
#include "guest-tools/args.h"
#include "guest-tools/layout.h"

static int args_sample_cut(struct word w)
{
	return (int)(w.len < 64 ? w.len : 64);
}

/* Parse a number from @min to @max: the rest of a short option's word, or the next word at *@s. */
static bool args_sample_number(const char **s, struct word opt, uint64_t min, uint64_t max,
			       uint64_t *v, char *err)
{
	struct word w;

	if (opt.len > 2 && opt.s[0] == '-' && opt.s[1] != '-')
		w = (struct word){opt.s + 2, opt.len - 2};
	else
		w = text_next_word(s);
	if (w.len && text_u64(w.s, w.len, v) && *v >= min && *v <= max)
		return true;
	text_format(err, ARGS_ERR_MAX, "%.*s '%.*s' is invalid; expected %lu to %lu",
		    args_sample_cut(opt), opt.s, args_sample_cut(w), w.s, min, max);
	return false;
}

static bool unknown(struct word opt, const char *accepted, char *err)
{
	text_format(err, ARGS_ERR_MAX, "unknown option '%.*s': %s", args_sample_cut(opt), opt.s,
		    accepted);
	return false;
}

/* Take the next option at *@s. False: the next word is not an option, or it was "--". */
static bool next_option(const char **s, struct word *opt)
{
	const char *behind = *s;

	*opt = text_next_word(&behind);
	if (!opt->len || opt->s[0] != '-')
		return false;
	*s = behind;
	return !word_is(*opt, "--");
}

static bool short_is(struct word opt, char letter)
{
	return opt.len >= 2 && opt.s[0] == '-' && opt.s[1] == letter;
}

static bool one_event(const char **s, struct word opt, struct event *ev, char *err)
{
	struct event list[EVENTS_MAX];
	struct word w = opt.len > 2 ? (struct word){opt.s + 2, opt.len - 2} : text_next_word(s);
	size_t n = 0;

	if (!w.len) {
		text_format(err, ARGS_ERR_MAX, "option -e needs a value");
		return false;
	}
	if (!events_parse(w.s, w.len, list, &n, err, ARGS_ERR_MAX))
		return false;
	if (n != 1) {
		text_format(err, ARGS_ERR_MAX, "-e '%.*s': one event is sampled at a time",
			    args_sample_cut(w), w.s);
		return false;
	}
	*ev = list[0];
	return true;
}

bool args_record_parse(const char *s, uint64_t mem_bytes, struct args_record *a, char *err)
{
	static const char accepted[] =
		"record takes -e EVENT, -c PERIOD, -g, --raw, --nmi, --vector, --fixed, -j";
	struct word opt;
	size_t n = 0;

	*a = (struct args_record){.period = 10000};
	if (!events_parse("instructions:u", 14, &a->ev, &n, err, ARGS_ERR_MAX))
		return false;
	while (next_option(&s, &opt)) {
		if (word_is(opt, "-j"))
			a->json = true;
		else if (word_is(opt, "-g"))
			a->chains = true;
		else if (word_is(opt, "--raw"))
			a->raw = true;
		else if (word_is(opt, "--nmi"))
			a->vector = false;
		else if (word_is(opt, "--vector"))
			a->vector = true;
		else if (word_is(opt, "--fixed"))
			a->fixed = true;
		else if (short_is(opt, 'e') ? !one_event(&s, opt, &a->ev, err)
			 : short_is(opt, 'c')
				 ? !args_sample_number(&s, opt, 1, ARGS_PERIOD_MAX, &a->period, err)
				 : !unknown(opt, accepted, err))
			return false;
	}
	return args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}

bool args_lbr_parse(const char *s, uint64_t mem_bytes, struct args_lbr *a, char *err)
{
	static const char accepted[] =
		"lbr takes --depth N, --branches, -c PERIOD, --nmi, --vector, -j";
	const char *rest, *fallback;
	struct word opt;
	uint64_t depth;

	*a = (struct args_lbr){.period = 997};
	while (next_option(&s, &opt)) {
		if (word_is(opt, "-j")) {
			a->json = true;
		} else if (word_is(opt, "--branches")) {
			a->branches = true;
		} else if (word_is(opt, "--nmi")) {
			a->vector = false;
		} else if (word_is(opt, "--vector")) {
			a->vector = true;
		} else if (word_is(opt, "--depth")) {
			if (!args_sample_number(&s, opt, 1, 32, &depth, err))
				return false;
			a->depth = (uint32_t)depth;
		} else if (short_is(opt, 'c') ? !args_sample_number(&s, opt, 1, ARGS_PERIOD_MAX,
								    &a->period, err)
					      : !unknown(opt, accepted, err)) {
			return false;
		}
	}
	rest = s;
	fallback = a->branches ? "branches" : "chain";
	if (!text_next_word(&rest).len)
		return args_workload(&fallback, mem_bytes, &a->work, err);
	return args_workload(&s, mem_bytes, &a->work, err) && args_end(s, err);
}

/* Parse an optional number that has no option's name; @name is for the error line. */
static bool positional(const char **s, const char *name, uint64_t min, uint64_t max, uint64_t *v,
		       char *err)
{
	const char *rest = *s;
	struct word w = {name, 0};

	while (name[w.len])
		w.len++;
	return !text_next_word(&rest).len || args_sample_number(s, w, min, max, v, err);
}

bool args_torture_parse(const char *s, struct args_torture *a, char *err)
{
	struct word opt;

	*a = (struct args_torture){.seed = 1, .ops = 10000};
	while (next_option(&s, &opt)) {
		if (!word_is(opt, "-j"))
			return unknown(opt, "torture takes -j", err);
		a->json = true;
	}
	return positional(&s, "SEED", 0, UINT64_MAX, &a->seed, err) &&
	       positional(&s, "N", 1, ARGS_OPS_MAX, &a->ops, err) && args_end(s, err);
}

static bool args_sample_address_ok(uint64_t va, char *err)
{
	if (va >= UEXEC_MIN && va <= UEXEC_MAX && va % GUEST_PAGE == 0)
		return true;
	text_format(err, ARGS_ERR_MAX,
		    "address 0x%lx is invalid; expected 0x%x to 0x%x in steps of 0x%x", va,
		    UEXEC_MIN, UEXEC_MAX, GUEST_PAGE);
	return false;
}

bool args_leak_parse(const char *s, struct args_leak *a, char *err)
{
	struct word opt;

	*a = (struct args_leak){.rounds = 10, .spin = 100000, .address = UEXEC_MIN};
	while (next_option(&s, &opt)) {
		if (word_is(opt, "-j"))
			a->json = true;
		else if (word_is(opt, "--spin")
				 ? !args_sample_number(&s, opt, 1, ARGS_OPS_MAX, &a->spin, err)
			 : word_is(opt, "--at")
				 ? !args_sample_number(&s, opt, 0, UINT64_MAX, &a->address, err)
				 : !unknown(opt, "leak takes --spin N, --at ADDRESS, -j", err))
			return false;
	}
	return positional(&s, "ROUNDS", 1, ARGS_OPS_MAX, &a->rounds, err) && args_end(s, err) &&
	       args_sample_address_ok(a->address, err);
}

bool args_victim_parse(const char *s, struct args_victim *a, char *err)
{
	*a = (struct args_victim){.address = 0x20000000};
	return positional(&s, "ADDRESS", 0, UINT64_MAX, &a->address, err) &&
	       positional(&s, "ROUNDS", 0, ARGS_OPS_MAX, &a->rounds, err) && args_end(s, err) &&
	       args_sample_address_ok(a->address, err);
}
