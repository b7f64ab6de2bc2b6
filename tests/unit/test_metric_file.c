// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/metric/metric.c, folder.c: metric files, hostile ones included, and the files that come
 * with vpmu. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/metric/metric.h"

static struct metric_set set;
static char err[600];

static void fini(void)
{
	metric_set_free(&set);
}

TestSuite(metric_file, .fini = fini);

static int add(const char *text)
{
	err[0] = '\0';
	return metric_set_text(&set, "f.metrics", text, strlen(text), err, sizeof(err));
}

Test(metric_file, what_a_file_says)
{
	const struct metric *m;

	cr_assert_eq(add("# a comment\r\n\n"
			 "[ipc]\n"
			 "description = Instructions = many; per cycle # too\n"
			 "\tformula=instructions:u / cycles:u\r\n"
			 "unit   =   insn per cycle  \n"
			 "[loads_2]\nformula = loads\ndescription = L"),
		     0, "%s", err);
	cr_assert_eq(set.nr, 2);
	m = metric_set_find(&set, "ipc", 3);
	cr_assert(m);
	cr_expect_str_eq(m->description, "Instructions = many; per cycle # too");
	cr_expect_str_eq(m->unit, "insn per cycle");
	cr_expect_str_eq(m->text, "instructions:u / cycles:u");
	cr_expect_str_eq(m->file, "f.metrics");
	cr_expect_str_eq(m->formula.event[1], "cycles:u");
	m = metric_set_find(&set, "loads_2:u", 7);
	cr_assert(m);
	cr_expect_str_eq(m->unit, "");
	cr_expect_null(metric_set_find(&set, "ip", 2));
	cr_expect_null(metric_set_find(&set, "ipc2", 4));
	metric_set_free(&set);
	cr_expect_eq(set.nr, 0);
}

Test(metric_file, the_first_of_a_name_counts)
{
	cr_assert_eq(add("[m]\ndescription = one\nformula = cycles\n"), 0);
	cr_assert_eq(add("[m]\ndescription = two\nformula = loads\n"
			 "[n]\ndescription = three\nformula = loads\n"),
		     0);
	cr_expect_eq(set.nr, 2);
	cr_expect_str_eq(metric_set_find(&set, "m", 1)->description, "one");
	/* Metrics that are not added have to be right all the same. */
	cr_expect_eq(add("[m]\nformula = loads\n"), -EINVAL);
	cr_expect_eq(set.nr, 2);
}

Test(metric_file, refused)
{
	static const struct {
		int line, ret;
		const char *text, *says;
	} cases[] = {
		{__LINE__, -EINVAL, "[a]\n", "f.metrics:1: [a] has no formula"},
		{__LINE__, -EINVAL, "\n[a]\nformula=cycles\n\n",
		 "f.metrics:2: [a] has no description"},
		{__LINE__, -EINVAL, "[a]\ndescription=x\nformula=cycles\n[b]\n",
		 "f.metrics:4: [b] has no formula"},
		{__LINE__, -EINVAL, "[a]\n[b]\n", "f.metrics:1: [a] has no"},
		{__LINE__, -EINVAL, "[]\n", "f.metrics:1: [] is not the name"},
		{__LINE__, -EINVAL, "[a b]\n",
		 "f.metrics:1: [a b] is not the name of a metric; expected"},
		{__LINE__, -EINVAL, "[a:u]\n", "is not the name"},
		{__LINE__, -EINVAL, "[a/b]\n", "is not the name"},
		{__LINE__, -EINVAL, "[abcdefghijklmnopqrstuvwxyz0123456]\n", "is not the name"},
		{__LINE__, -EINVAL, "[a\n", "f.metrics:1: not a name in brackets; expected"},
		{__LINE__, -EINVAL, "[a] b\n", "not a name in brackets"},
		{__LINE__, -EINVAL, "formula = cycles\n", "before the first [name]"},
		{__LINE__, -EINVAL, "[a]\nformula\n", "f.metrics:2: \"formula\"; expected"},
		{__LINE__, -EINVAL, "[a]\nevents = cycles\n", "\"events\" is not a key; expected"},
		{__LINE__, -EINVAL, "[a]\nunit = x\nunit = y\n",
		 "f.metrics:3: unit is given twice"},
		{__LINE__, -EINVAL, "[a]\nformula =\n", "formula is empty"},
		{__LINE__, -EINVAL, "[a]\nformula = cycles +\n",
		 "f.metrics:2: formula, character 9:"},
		{__LINE__, -EINVAL, "[a]\nformula = cyles\n", "did you mean 'cycles'"},
		{__LINE__, -EINVAL, "[a]\nformula = cycles-loads\n", "a minus needs blanks"},
		{__LINE__, -EINVAL, "[a]\nformula = r1a8\n", "intel::r1a8"},
		{__LINE__, -EINVAL, "[a]\nformula = cycles:pp\n", "precise samples"},
		{__LINE__, -EINVAL, "[a]\ndescription = \033[2J\n",
		 "f.metrics:2: bytes that are not text"},
		{__LINE__, -EINVAL, "[a]\ndescription = \xc3\n", "bytes that are not text"},
		{__LINE__, -EINVAL,
		 "[a]\ndescription = x\nformula = cycles\n[a]\ndescription = x\nformula = cycles\n",
		 "f.metrics:4: [a] is given twice"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {

		cr_expect_eq(add(cases[i].text), cases[i].ret, "line %d: %s", cases[i].line, err);
		cr_expect(strstr(err, cases[i].says), "line %d: %s", cases[i].line, err);
		cr_expect(set.nr == 0 && !set.metric, "line %d", cases[i].line);
	}
}

Test(metric_file, bounds)
{
	static char text[METRIC_FILE_MAX + 100];
	size_t n = 0;

	/* The longest line, and one byte more. */
	n = (size_t)sprintf(text, "[a]\nformula = cycles\ndescription = ");
	memset(text + n, 'x', METRIC_LINE_MAX - strlen("description = "));
	cr_expect_eq(add(text), 0, "%s", err);
	strcat(text, "y");
	cr_expect_eq(add(text), -EINVAL);
	cr_expect(strstr(err, "f.metrics:3: line of 1001 bytes"), "%s", err);
	metric_set_free(&set);

	memset(text, '\n', METRIC_FILE_MAX + 1);
	text[METRIC_FILE_MAX + 1] = '\0';
	cr_expect_eq(add(text), -E2BIG);
	text[METRIC_FILE_MAX] = '\0';
	cr_expect_eq(add(text), 0);

	cr_expect_eq(metric_set_text(&set, "f", "[a]\nunit = x\0y\n", 15, err, 600), -EINVAL);
	cr_expect(strstr(err, "f:2: bytes that are not text"), "%s", err);

	n = 0;
	for (int i = 0; i < METRIC_COUNT_MAX / 2; i++)
		n += (size_t)sprintf(text + n, "[m%d]\ndescription=x\nformula=cycles\n", i);
	cr_expect_eq(add(text), 0, "%s", err);
	n = 0;
	for (int i = 0; i < METRIC_COUNT_MAX / 2; i++)
		n += (size_t)sprintf(text + n, "[n%d]\ndescription=x\nformula=cycles\n", i);
	cr_expect_eq(add(text), 0, "%s", err);
	cr_expect_eq(set.nr, METRIC_COUNT_MAX);
	cr_expect_eq(add("[x]\ndescription=x\nformula=cycles\n"), -E2BIG);
	cr_expect_eq(set.nr, METRIC_COUNT_MAX);
}

static void count(const char *line, void *arg)
{
	char *all = arg;

	strcat(all, line);
	strcat(all, "\n");
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[200];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	cr_assert(f);
	fputs(text, f);
	fclose(f);
}

Test(metric_file, folders)
{
	static const char good[] = "[%s]\ndescription=from %s\nformula=cycles\n";
	char folder[] = "/tmp/test_metric_XXXXXX", text[100], path[300], said[2000] = "";

	cr_assert(mkdtemp(folder));
	snprintf(text, sizeof(text), good, "one", "b");
	put(folder, "b.metrics", text);
	snprintf(text, sizeof(text), good, "one", "a");
	put(folder, "a.metrics", text);
	put(folder, "bad.metrics", "[x]\n");
	put(folder, "notes.txt", "[x]\n");
	put(folder, ".hidden.metrics", "[x]\n");
	put(folder, ".metrics", "[x]\n");
	snprintf(path, sizeof(path), "%s/pipe.metrics", folder);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(metric_set_folder(&set, folder, count, said), 0);
	cr_expect_eq(set.nr, 1);
	cr_expect_str_eq(set.metric[0].description, "from a");
	snprintf(path, sizeof(path), "%s/bad.metrics:1: [x] has no formula", folder);
	cr_expect(strstr(said, path), "%s", said);
	cr_expect(strstr(said, "pipe.metrics: not a regular file"), "%s", said);
	cr_expect_eq(strchr(strchr(said, '\n') + 1, '\n')[1], '\0', "more than 2 lines: %s", said);
	metric_set_free(&set);

	said[0] = '\0';
	cr_expect_eq(metric_set_folder(&set, "/nonexistent/metrics", count, said), 0);
	cr_expect_str_eq(said, "");
	cr_expect_eq(metric_set_file(&set, "/nonexistent", said, sizeof(said)), -ENOENT);
	cr_expect_str_eq(said, "/nonexistent: No such file or directory");
	snprintf(path, sizeof(path), "rm -r %s", folder);
	cr_expect_eq(system(path), 0);
}

/* The files that come with vpmu. The program is in build/tests. */
Test(metric_file, shipped)
{
	static const char *const names[] = {"ipc",
					    "cpi",
					    "ghz",
					    "branch-share",
					    "taken-share",
					    "branch-miss-rate",
					    "branch-mpki",
					    "loads-per-insn",
					    "stores-per-insn",
					    "cache-miss-rate",
					    "cache-mpki",
					    "frontend-stalls",
					    "backend-stalls",
					    "guest-share",
					    "kernel-share",
					    "wait-share",
					    "preemption-rate"};
	const size_t nr = sizeof(names) / sizeof(names[0]);
	char said[2000] = "", folder[4096], *slash;
	ssize_t n = readlink("/proc/self/exe", folder, sizeof(folder) - 40);

	cr_assert(n > 0);
	folder[n] = '\0';
	slash = strrchr(folder, '/');
	strcpy(slash, "/../share/vpmu/metrics");
	cr_expect_eq(metric_set_folder(&set, folder, count, said), 0);
	cr_expect_str_eq(said, "");
	cr_expect_eq(set.nr, nr, "%zu metrics", set.nr);
	for (size_t i = 0; i < nr; i++)
		cr_expect(metric_set_find(&set, names[i], strlen(names[i])), "%s", names[i]);
}
