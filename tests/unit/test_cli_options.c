// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/options_check.c and habits.c: faults in options, found as getopt_long() finds them. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/habits.h"
#include "cli/options_check.h"

static const struct argp_option child_options[] = {{"socket", 'S', "PATH", 0, NULL, 0}, {0}};
static const struct argp child = {.options = child_options};
static const struct argp_option options[] = {
	{"event", 'e', "LIST", 0, NULL, 0},
	{"event-list", 0, NULL, OPTION_ALIAS, NULL, 0},
	{"json-output", 'j', NULL, 0, NULL, 0},
	{"tree", 1000, NULL, 0, NULL, 0},
	{"timeout", 1001, "MS", 0, NULL, 0},
	{NULL, 'h', NULL, 0, NULL, 0},
	{"level", 'l', "N", OPTION_ARG_OPTIONAL, NULL, 0},
	{0},
};
static const struct argp argp = {
	.options = options, .children = (const struct argp_child[]){{&child, 0, NULL, 0}, {0}}};

Test(cli_options, faults)
{
	static const struct {
		int line;
		bool in_order;
		const char *word[5];
		const char *fault; /* part of the line; NULL: none */
	} rows[] = {
		{__LINE__, false, {"-e", "x", "y", "-j"}, NULL},
		{__LINE__, false, {"-jex"}, NULL},
		{__LINE__, false, {"-je", "-Z"}, NULL}, /* its value */
		{__LINE__, false, {"--event", "--bogus"}, NULL},
		{__LINE__, false, {"--event=x", "--ev", "x"}, NULL},
		{__LINE__, false, {"--event-l=x"}, NULL},
		{__LINE__, false, {"-l", "-j"}, NULL},
		{__LINE__, false, {"--level", "x"}, NULL},
		{__LINE__, false, {"-h", "--help", "--usage", "-V"}, NULL},
		{__LINE__, false, {"-S", "x", "-", "x"}, NULL},
		{__LINE__, false, {"--", "--bogus"}, NULL},
		{__LINE__, true, {"cmd", "--bogus"}, NULL},
		{__LINE__, false, {"cmd", "--bogus"}, "stat: unrecognized option '--bogus'; `vpmu"},
		{__LINE__, true, {"-j", "--evnt", "x"}, "'--evnt'; did you mean '--event'? `vpmu"},
		{__LINE__, true, {"--soket=x"}, "'--soket'; did you mean '--socket'?"},
		{__LINE__, true, {"-jZ"}, "stat: unrecognized option '-Z'; `vpmu help stat`"},
		{__LINE__, true, {"--t"}, "stat: option '--t' is ambiguous: --tree or --timeout"},
		{__LINE__, true, {"--tree=3"}, "stat: option '--tree' takes no value"},
		{__LINE__, true, {"-j", "-e"}, "stat: option '-e' needs a value"},
		{__LINE__, true, {"--timeout"}, "stat: option '--timeout' needs a value"},
		{__LINE__, true, {"--per-core"}, "stat: --per-core: "},
		{__LINE__, true, {"-A"}, "stat: -A: counts are per tenant"},
	};
	char err[400];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *argv[7] = {(char *)"vpmu stat"};
		int argc = 1;
		bool wrong;

		for (size_t k = 0; k < 5 && rows[i].word[k]; k++)
			argv[argc++] = (char *)rows[i].word[k];
		*err = '\0';
		wrong = options_fault(&argp, argc, argv, rows[i].in_order, err, sizeof(err));
		cr_expect(rows[i].fault ? wrong && strstr(err, rows[i].fault) : !wrong,
			  "line %d: %d \"%s\", expected \"%s\"", rows[i].line, wrong, err,
			  rows[i].fault ? rows[i].fault : "none");
		cr_expect_null(strchr(err, '\n'));
	}
}

Test(cli_options, of_vpmu_itself)
{
	char *argv[] = {(char *)"vpmu", (char *)"--soket", NULL};
	char err[400];

	cr_assert(options_fault(&argp, 2, argv, true, err, sizeof(err)));
	cr_expect_str_eq(err, "unrecognized option '--soket'; did you mean '--socket'? `vpmu help` "
			      "shows the options");
}

Test(cli_options, a_long_word_is_cut)
{
	char word[3000], *argv[] = {(char *)"vpmu stat", word, NULL}, err[400];

	memset(word, '-', sizeof(word) - 1);
	word[sizeof(word) - 1] = '\0';
	cr_assert(options_fault(&argp, 2, argv, true, err, sizeof(err)));
	cr_expect(strlen(err) < 300);
}

Test(cli_options, habits)
{
	cr_expect(strstr(habits_command("record"), "vpmu profile"));
	cr_expect_null(habits_command("list"), "vpmu has it");
	cr_expect_null(habits_command("report"), "vpmu has it");
	cr_expect_null(habits_command(""));
	cr_expect(strstr(habits_option("stat", "--no-aggr"), "--for-each"));
	cr_expect_null(habits_option("top", "--no-aggr"));
}
