/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Completion of command lines: `PROGRAM --complete WORD...` prints what may stand for the last
 * WORD, and does nothing else. vpmu, vpmu-vmm and vpmud answer from the argp tables that parse
 * their options; cli/completions has a shim for each shell that asks them.
 *
 * Each line of the answer is a word, which may have a tab and its meaning behind it. A line that
 * begins with a tab is no word: "\tfiles\tPREFIX" stands for the names of files, each behind
 * PREFIX, which the shell completes itself; "\tmore" means that no blank follows the words.
 *
 * Names come from servers, which may be hostile: complete_offer drops what a shell would expand.
 */
#ifndef SERVICE_PROGRAM_COMPLETE_H
#define SERVICE_PROGRAM_COMPLETE_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

#define COMPLETE_ARGS_MAX 32

struct complete {
	char **words; /* those before the last one */
	size_t nr_words, next;
	const char *word;		     /* the last one, as far as it is typed */
	const char *typed;		     /* the end of it that is to be completed */
	const struct argp_option *value;     /* @typed is the value of this option; NULL: of none */
	const char *args[COMPLETE_ARGS_MAX]; /* the words that are neither options nor values */
	size_t nr_args;
	int watch;	     /* key of an option whose value the caller wants; 0: none */
	const char *watched; /* its value; NULL: it is not given */
};

/* complete_asked - whether the command line asks for completion. Then *c is set, and the process
 * ends after $VPMU_COMPLETE_SECONDS (2), since a server may not answer. */
bool complete_asked(struct complete *c, int argc, char **argv);

/* complete_scan - read words up to the last one, or with @stop up to the first argument, as argp
 * would with @argp; called again, it goes on behind them. *c then tells what is typed. */
void complete_scan(struct complete *c, const struct argp *argp, bool stop);

/* complete_item - complete only what is behind the last comma of a list. */
void complete_item(struct complete *c);

/* What may stand there, as far as it begins with what is typed. */
void complete_offer(const struct complete *c, const char *word, const char *meaning); /* or NULL */
void complete_options(const struct complete *c, const struct argp *argp);
void complete_files(const struct complete *c);
void complete_more(void);
/* complete_accepted - the words of a text such as "none, balance, random or random:N": those that
 * have only small letters, digits and -. */
void complete_accepted(const struct complete *c, const char *text);

/* complete_takes_files - whether @option's value is FILE, PATH or DIR. */
bool complete_takes_files(const struct argp_option *option);

/* complete_option - complete an option, or the file that is its value. */
void complete_option(const struct complete *c, const struct argp *argp);

/* complete_by - let @program, which is beside this one, complete its command line of the words
 * @before, up to NULL, and what is typed. Returns only if that fails. */
void complete_by(const struct complete *c, const char *program, const char *const before[]);

#endif
