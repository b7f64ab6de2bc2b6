/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Command line completion: `PROGRAM --complete WORD...` prints candidates for the last WORD and
 * does nothing else. all programs complete from the argp tables that parse their options;
 * cli/completions has a shim for each shell.
 *
 * Each line of output is a word, optionally followed by a tab and its meaning. A line that begins
 * with a tab is no word: "\tfiles\tPREFIX" stands for file names, each after PREFIX, which the
 * shell completes itself; "\tmore" means that no blank follows the words.
 *
 * Names come from servers, which may be hostile: complete_offer drops words that a shell would
 * expand.
 */
#pragma once

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#define COMPLETE_ARGS_MAX 32

struct complete {
	char **words; /* the words before the last one */
	size_t nr_words, next;
	const char *word;		 /* the last one, as typed so far */
	const char *typed;		 /* the part of it to complete */
	const struct argp_option *value; /* the option that @typed is the value of; NULL: none */
	const char *args[COMPLETE_ARGS_MAX]; /* words that are neither options nor values */
	size_t nr_args;
	int watch;	     /* key of an option to record the value of; 0: none */
	const char *watched; /* its value; NULL: not given */
};

/* complete_asked - returns true if the command line requests completion. Then *c is set, and the
 * process exits after $VPMU_COMPLETE_SECONDS (default 2), since a server may not respond. */
bool complete_asked(struct complete *c, int argc, char **argv);

/* complete_scan - parse words before the last one as argp would with @argp, or with @stop up to the
 * first argument; a further call continues after them. Sets value, typed and args of *c. */
void complete_scan(struct complete *c, const struct argp *argp, bool stop);

/* complete_item - complete only the part after the last comma of a list. */
void complete_item(struct complete *c);

/* Print candidates that begin with the typed text. */
void complete_offer(const struct complete *c, const char *word, const char *meaning); /* or NULL */
void complete_options(const struct complete *c, const struct argp *argp);
void complete_files(const struct complete *c);
void complete_more(void);
/* complete_accepted - offer the words of a text such as "none, balance, random or random:N" that
 * consist of lowercase letters, digits and -. */
void complete_accepted(const struct complete *c, const char *text);

/* complete_takes_files - returns true if @option's value is FILE, PATH or DIR. */
bool complete_takes_files(const struct argp_option *option);

/* complete_option - complete an option, or the file name that is its value. */
void complete_option(const struct complete *c, const struct argp *argp);

/* complete_by - execute @program, which is in this program's directory, to complete its command
 * line: the words @before (NULL-terminated) and the typed one. Returns only if that fails. */
void complete_by(const struct complete *c, const char *program, const char *const before[]);
