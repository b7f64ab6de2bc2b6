// SPDX-License-Identifier: GPL-2.0-or-later
/* Faults in options; see options_check.h. Walks @argv as getopt_long() does. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/habits.h"
#include "cli/options_check.h"
#include "vpmu/util/nearest.h"

/* Options that argp adds to each command. */
static const struct argp_option options_usual[] = {
	{"help", '?', NULL, 0, NULL, 0},
	{"usage", 0, NULL, 0, NULL, 0},
	{"version", 'V', NULL, 0, NULL, 0},
	{0},
};

/* What is looked for, and what was found. */
struct options_search {
	const char *name; /* of a long option; not terminated */
	size_t len;
	char letter;			 /* of a short one, if @name is NULL */
	const struct argp_option *found; /* with the value's name */
	bool exact, several;		 /* long: the whole name; several fit as a prefix */
	const char *other;		 /* a second name of the prefix */
	struct vpmu_nearest *near;	 /* NULL: do not look for the nearest long name */
};

static void options_try(struct options_search *s, const struct argp_option *name,
			const struct argp_option *option)
{
	if (!s->name) {
		if (name->key == s->letter && isgraph(s->letter))
			s->found = option;
		return;
	}
	if (!name->name)
		return;
	if (s->near)
		vpmu_nearest_try(s->near, name->name);
	if (s->exact || strncmp(name->name, s->name, s->len))
		return;
	s->exact = !name->name[s->len];
	if (s->found && s->found != option && !s->exact) {
		s->several = true;
		s->other = name->name;
		return;
	}
	if (s->exact)
		s->several = false;
	s->found = option;
}

static void options_table(struct options_search *s, const struct argp_option *table)
{
	const struct argp_option *option = table;

	for (const struct argp_option *o = table; o && (o->name || o->key || o->doc); o++) {
		if (!(o->flags & OPTION_ALIAS))
			option = o;
		options_try(s, o, option);
	}
}

static void options_all(struct options_search *s, const struct argp *argp)
{
	options_table(s, argp->options);
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		options_all(s, c->argp);
}

static const struct argp_option *options_find(struct options_search *s, const struct argp *argp)
{
	options_all(s, argp);
	options_table(s, options_usual);
	return s->found;
}

/* Write a fault of an option of @command ("": of vpmu itself) to @err. */
__attribute__((format(printf, 4, 5))) static void
options_say(char *err, size_t errlen, const char *command, const char *fmt, ...)
{
	char text[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	snprintf(err, errlen, "%s%s%s%s `vpmu help%s%s` shows the options", command,
		 *command ? ": " : "", text, text[strlen(text) - 1] == '?' ? "" : ";",
		 *command ? " " : "", command);
}

/* Describe the unknown option @typed ("--tagret" or "-Z"). */
static void options_unknown(const struct argp *argp, const char *command, const char *typed,
			    char *err, size_t errlen)
{
	const char *hint = habits_option(command, typed);
	struct vpmu_nearest near = {0};
	struct options_search s = {.name = typed + 2, .len = strlen(typed) - 2, .near = &near};

	if (hint) {
		snprintf(err, errlen, "%s: %s: %s", command, typed, hint);
		return;
	}
	if (typed[1] == '-') {
		vpmu_nearest_init(&near, typed + 2);
		options_find(&s, argp);
	}
	options_say(err, errlen, command, "unrecognized option '%s'%s%s%s", typed,
		    near.best ? "; did you mean '--" : "", near.best ? near.best : "",
		    near.best ? "'?" : "");
}

/* Check the long option @word. *@takes: it takes the next word as its value. */
static bool options_long(const struct argp *argp, const char *command, const char *word,
			 bool *takes, char *err, size_t errlen)
{
	struct options_search s = {.name = word + 2, .len = strcspn(word + 2, "=")};
	const struct argp_option *o = options_find(&s, argp);
	char typed[80];

	snprintf(typed, sizeof(typed), "%.*s", (int)(s.len + 2 > 78 ? 78 : s.len + 2), word);
	*takes = false;
	if (!o) {
		options_unknown(argp, command, typed, err, errlen);
		return true;
	}
	if (s.several) {
		options_say(err, errlen, command, "option '%s' is ambiguous: --%s or --%s", typed,
			    o->name, s.other);
		return true;
	}
	if (!o->arg && s.name[s.len]) {
		options_say(err, errlen, command, "option '%s' takes no value", typed);
		return true;
	}
	*takes = o->arg && !(o->flags & OPTION_ARG_OPTIONAL) && !s.name[s.len];
	return false;
}

/* Check the letters of @word. */
static bool options_short(const struct argp *argp, const char *command, const char *word,
			  bool *takes, char *err, size_t errlen)
{
	*takes = false;
	for (const char *p = word + 1; *p; p++) {
		struct options_search s = {.letter = *p};
		const struct argp_option *o = options_find(&s, argp);
		char typed[3] = {'-', *p};

		if (!o) {
			options_unknown(argp, command, typed, err, errlen);
			return true;
		}
		if (o->arg) {
			*takes = !p[1] && !(o->flags & OPTION_ARG_OPTIONAL);
			return false;
		}
	}
	return false;
}

bool options_fault(const struct argp *argp, int argc, char **argv, bool in_order, char *err,
		   size_t errlen)
{
	const char *blank = strchr(argv[0], ' '), *command = blank ? blank + 1 : "";
	bool takes, wrong;

	for (int i = 1; i < argc; i++) {
		const char *word = argv[i];

		if (!strcmp(word, "--"))
			return false;
		if (*word != '-' || !word[1]) {
			if (in_order)
				return false;
			continue;
		}
		wrong = word[1] == '-' ? options_long(argp, command, word, &takes, err, errlen)
				       : options_short(argp, command, word, &takes, err, errlen);
		if (wrong)
			return true;
		if (takes && ++i == argc) {
			options_say(err, errlen, command, "option '%s' needs a value", word);
			return true;
		}
	}
	return false;
}
