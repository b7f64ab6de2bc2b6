// SPDX-License-Identifier: GPL-2.0-or-later
/* Command line completion: see complete.h. */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/program/complete.h"

#define SECONDS	   2
#define BEFORE_MAX 4 /* words of complete_by */

/* ---- tables of options -------------------------------------------------------------------- */

/* Options that argp adds to every table. */
static const struct argp_option usual[] = {
	{"help", 0, NULL, 0, "Give this help list", 0},
	{"usage", 0, NULL, 0, "Give a short usage message", 0},
	{"version", 'V', NULL, 0, "Print program version", 0},
	{0},
};

/* Called with each option @name, and with the @option that it is an alias of, or itself. Returning
 * true ends the walk. */
typedef bool (*option_fn)(const struct argp_option *name, const struct argp_option *option,
			  void *arg);

static bool each_of(const struct argp_option *table, option_fn fn, void *arg)
{
	const struct argp_option *option = table;

	for (const struct argp_option *o = table; o && (o->name || o->key || o->doc); o++) {
		if (!(o->flags & OPTION_ALIAS))
			option = o;
		if (fn(o, option, arg))
			return true;
	}
	return false;
}

static bool each_child(const struct argp *argp, option_fn fn, void *arg)
{
	if (each_of(argp->options, fn, arg))
		return true;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		if (each_child(c->argp, fn, arg))
			return true;
	return false;
}

static bool each_option(const struct argp *argp, option_fn fn, void *arg)
{
	return each_child(argp, fn, arg) || each_of(usual, fn, arg);
}

static bool has_letter(const struct argp_option *o)
{
	return o->key > 0 && o->key < 0x80 && isalnum(o->key);
}

struct wanted {
	const char *name; /* "duration=3"; NULL: a letter */
	size_t len;
	char letter;
	const struct argp_option *found;
};

/* As getopt: the whole name, else a prefix. */
static bool is_wanted(const struct argp_option *name, const struct argp_option *option, void *arg)
{
	struct wanted *w = arg;

	if (!w->name) {
		if (has_letter(name) && name->key == w->letter)
			w->found = option;
		return w->found != NULL;
	}
	if (!name->name || strncmp(name->name, w->name, w->len))
		return false;
	w->found = option;
	return !name->name[w->len];
}

/* ---- the typed words ------------------------------------------------------------------------ */

static void on_alarm(int sig)
{
	_exit(1);
}

bool complete_asked(struct complete *c, int argc, char **argv)
{
	static const char name[] = "--complete";
	const size_t len = sizeof(name) - 1;
	const char *seconds = getenv("VPMU_COMPLETE_SECONDS");
	size_t kept = 0;

	if (argc < 2 || strncmp(argv[1], name, len) || (argv[1][len] && argv[1][len] != '='))
		return false;
	*c = (struct complete){.words = argv + 2, .word = argc > 2 ? argv[argc - 1] : ""};
	c->nr_words = argc > 2 ? (size_t)argc - 3 : 0;
	/* --complete=N: complete_by has completed the first N bytes of the word. */
	if (argv[1][len])
		kept = strtoul(argv[1] + len + 1, NULL, 10);
	c->typed = c->word + (kept < strlen(c->word) ? kept : strlen(c->word));
	signal(SIGALRM, on_alarm);
	alarm(seconds && atoi(seconds) > 0 ? (unsigned int)atoi(seconds) : SECONDS);
	return true;
}

/* Parse option word @word: *option becomes its last option if that takes a value, else NULL.
 * Returns the value if @word includes it. */
static const char *scan_options(const struct argp *argp, const char *word,
				const struct argp_option **option)
{
	struct wanted w = {.name = word + 2, .len = strcspn(word + 2, "=")};

	*option = NULL;
	if (word[1] == '-') {
		each_option(argp, is_wanted, &w);
		*option = w.found && w.found->arg ? w.found : NULL;
		return *option && w.name[w.len] ? w.name + w.len + 1 : NULL;
	}
	for (const char *p = word + 1; *p; p++) {
		w = (struct wanted){.letter = *p};
		each_option(argp, is_wanted, &w);
		if (!w.found || !w.found->arg)
			continue;
		*option = w.found;
		return p[1] ? p + 1 : NULL;
	}
	return NULL;
}

void complete_scan(struct complete *c, const struct argp *argp, bool stop)
{
	bool options = true;
	const char *value;

	c->value = NULL;
	c->nr_args = 0;
	while (c->next < c->nr_words) {
		const char *w = c->words[c->next++];

		value = NULL;
		if (c->value) {
			value = w;
		} else if (!options || w[0] != '-' || !w[1]) {
			if (c->nr_args < COMPLETE_ARGS_MAX)
				c->args[c->nr_args++] = w;
			if (stop)
				return;
		} else if (!strcmp(w, "--")) {
			options = false;
		} else {
			value = scan_options(argp, w, &c->value);
		}
		if (!value)
			continue;
		if (c->value->key == c->watch)
			c->watched = value;
		c->value = NULL;
	}
	if (c->value || c->typed != c->word || !options || c->word[0] != '-' || !c->word[1])
		return;
	value = scan_options(argp, c->word, &c->value);
	if (value)
		c->typed = value;
	else
		c->value = NULL;
}

void complete_item(struct complete *c)
{
	const char *comma = strrchr(c->typed, ',');

	if (comma)
		c->typed = comma + 1;
}

/* ---- the answer --------------------------------------------------------------------------- */

/* Returns true if no shell expands @word. zsh expands a = at its start. */
static bool is_plain(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-./:@+,=";

	for (const char *p = word; *p; p++)
		if (!((unsigned char)*p & 0x80) && !strchr(plain, *p))
			return false;
	return *word && *word != '=';
}

static void print_word(const struct complete *c, const char *word, const char *meaning)
{
	if (strncmp(word, c->typed, strlen(c->typed)))
		return;
	printf("%.*s%s", (int)(c->typed - c->word), c->word, word);
	if (meaning)
		printf("\t%s", meaning);
	putchar('\n');
}

void complete_offer(const struct complete *c, const char *word, const char *meaning)
{
	/* A word with a leading - would be an option chosen by the server. */
	if (word && *word != '-' && is_plain(word))
		print_word(c, word, meaning);
}

static bool offer_option(const struct argp_option *name, const struct argp_option *option,
			 void *arg)
{
	const struct complete *c = arg;
	char word[64];

	if (name->flags & OPTION_HIDDEN)
		return false;
	if (has_letter(name)) {
		snprintf(word, sizeof(word), "-%c", name->key);
		print_word(c, word, option->doc);
	}
	if (name->name) {
		snprintf(word, sizeof(word), "--%s", name->name);
		print_word(c, word, option->doc);
	}
	return false;
}

void complete_options(const struct complete *c, const struct argp *argp)
{
	each_option(argp, offer_option, (void *)c);
}

void complete_files(const struct complete *c)
{
	printf("\tfiles\t%.*s\n", (int)(c->typed - c->word), c->word);
}

void complete_more(void)
{
	puts("\tmore");
}

void complete_accepted(const struct complete *c, const char *text)
{
	char word[64];

	while (*text) {
		size_t len = strcspn(text, ",");
		const char * or = strstr(text, " or "), *next = text + len + (text[len] != '\0');

		if (or && or < text + len) {
			len = (size_t)(or -text);
			next = or +4;
		}
		if (len < sizeof(word) &&
		    len == strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")) {
			snprintf(word, sizeof(word), "%.*s", (int)len, text);
			complete_offer(c, word, NULL);
		}
		text = next + strspn(next, " ");
		if (!strncmp(text, "or ", 3))
			text += 3;
	}
}

bool complete_takes_files(const struct argp_option *option)
{
	return strstr(option->arg, "FILE") || strstr(option->arg, "PATH") ||
	       strstr(option->arg, "DIR");
}

void complete_option(const struct complete *c, const struct argp *argp)
{
	if (!c->value)
		complete_options(c, argp);
	else if (complete_takes_files(c->value))
		complete_files(c);
}

void complete_by(const struct complete *c, const char *program, const char *const before[])
{
	char path[4096], kept[40];
	const char *argv[BEFORE_MAX + 4] = {program, kept};
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 64);
	size_t n = 2;
	char *slash;

	if (len <= 0)
		return;
	path[len] = '\0';
	slash = strrchr(path, '/');
	snprintf(slash, 64, "/%s", program);
	snprintf(kept, sizeof(kept), "--complete=%zu", (size_t)(c->typed - c->word));
	while (*before && n < BEFORE_MAX + 2)
		argv[n++] = *before++;
	argv[n++] = c->word;
	fflush(stdout);
	execv(path, (char *const *)argv);
}
