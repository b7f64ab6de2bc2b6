// SPDX-License-Identifier: GPL-2.0-or-later
/* Whoever prints never waits for the reader; what is lost is said, and nothing else is lost. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/lineout.h"

#define LINES 200000u

static int rd;
static bool told;

static char *lost(const char *source, unsigned long n)
{
	char *text;

	return asprintf(&text, "%s lost %lu", source, n) < 0 ? NULL : text;
}

static void gone(void *arg)
{
	__atomic_store_n(&told, true, __ATOMIC_RELEASE);
}

static void setup(void)
{
	int fd[2];

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe2(fd, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fd[1], STDOUT_FILENO), STDOUT_FILENO);
	close(fd[1]);
	rd = fd[0];
	cr_assert_eq(lineout_open(lost, gone, NULL), 0);
}

TestSuite(lineout, .init = setup);

static char *line(const char *fmt, unsigned int n)
{
	char *text;

	return asprintf(&text, fmt, n) < 0 ? NULL : text;
}

Test(lineout, a_reader_that_stops)
{
	unsigned long got = 0, missing = 0, n, mine = 0;
	unsigned int next = 0, v;
	char text[256];
	FILE *f;

	/* Nobody reads: 200,000 lines of 30 bytes are more than a pipe and a source's queue. */
	for (unsigned int i = 0; i < LINES; i++)
		lineout_put(line("flood %u .....................", i), "noisy");
	for (unsigned int i = 0; i < 1000; i++)
		lineout_put(line("kept %u", i), NULL);
	lineout_put(line("end %u", 0), NULL);
	f = fdopen(rd, "r");
	cr_assert(f);
	while (mine < 1001 || got + missing < LINES) {
		cr_assert(fgets(text, sizeof(text), f));
		if (sscanf(text, "flood %u", &v) == 1) {
			cr_assert(v >= next, "%u after %u", v, next);
			next = v + 1;
			got++;
		} else if (sscanf(text, "noisy lost %lu", &n) == 1) {
			missing += n;
		} else if (sscanf(text, "kept %u", &v) == 1) {
			cr_assert_eq(v, mine);
			mine++;
		} else {
			cr_assert_str_eq(text, "end 0\n");
			mine++;
		}
	}
	cr_assert_eq(got + missing, LINES);
	cr_assert_gt(missing, 0);
	cr_assert_gt(got, 0);
	lineout_close();
}

Test(lineout, all_is_out_at_the_end)
{
	char text[64];

	for (unsigned int i = 0; i < 100; i++)
		lineout_put(line("%u", i), i % 2 ? "a" : NULL);
	lineout_close();
	close(STDOUT_FILENO);
	FILE *f = fdopen(rd, "r");
	for (int i = 0; i < 100; i++) {
		cr_assert(fgets(text, sizeof(text), f), "line %d", i);
		cr_assert_eq(atoi(text), i);
	}
	cr_assert_null(fgets(text, sizeof(text), f));
}

Test(lineout, a_reader_that_is_gone)
{
	close(rd);
	lineout_put(line("%u", 1), NULL);
	lineout_close();
	cr_assert(__atomic_load_n(&told, __ATOMIC_ACQUIRE));
	cr_assert(lineout_failed());
}
