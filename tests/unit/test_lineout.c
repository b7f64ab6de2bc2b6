// SPDX-License-Identifier: GPL-2.0-or-later
/* A printer never waits for the reader; losses are reported, and there are no others. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vmm/lineout.h"

#define LINES 200000u

static int rd, wr;
static int told;

static char *lost(const char *source, unsigned long n)
{
	char *text;

	return asprintf(&text, "%s lost %lu", source, n) < 0 ? NULL : text;
}

static void trouble(void *arg)
{
	__atomic_add_fetch(&told, 1, __ATOMIC_RELEASE);
}

static void setup(void)
{
	int fd[2];

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe2(fd, O_CLOEXEC), 0);
	cr_assert_eq(dup2(fd[1], STDOUT_FILENO), STDOUT_FILENO);
	close(fd[1]);
	rd = fd[0];
	wr = STDOUT_FILENO;
	cr_assert_eq(lineout_open(lost, trouble, NULL), 0);
}

TestSuite(lineout, .init = setup);

static char *line(const char *fmt, unsigned int n)
{
	char *text;

	return asprintf(&text, fmt, n) < 0 ? NULL : text;
}

/* Nobody reads while 200,000 lines of 30 bytes are queued, which is more than a pipe and a source's
 * queue hold. Then all is read: each line comes, or is in a line with the number of lost ones. */
static void stop_and_go(void)
{
	struct lineout_source *noisy = lineout_source_new("noisy");
	unsigned long got = 0, missing = 0, n, mine = 0;
	unsigned int next = 0, v;
	char text[256];
	FILE *f;

	for (unsigned int i = 0; i < LINES; i++)
		lineout_put(line("flood %u .....................", i), noisy);
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
	cr_assert_eq(lineout_dropped(noisy), missing);
	cr_assert_eq(lineout_error(), 0);
	lineout_source_free(noisy);
	lineout_close();
	cr_assert_eq(__atomic_load_n(&told, __ATOMIC_ACQUIRE), 0);
}

Test(lineout, a_reader_that_stops)
{
	stop_and_go();
}

/* EAGAIN is no error: it is treated as a blocking write. */
Test(lineout, a_pipe_that_does_not_block)
{
	cr_assert_eq(fcntl(wr, F_SETFL, O_NONBLOCK), 0);
	stop_and_go();
}

Test(lineout, all_is_out_at_the_end)
{
	struct lineout_source *a = lineout_source_new("a");
	char text[64];

	for (unsigned int i = 0; i < 100; i++)
		lineout_put(line("%u", i), i % 2 ? a : NULL);
	lineout_source_free(a); /* its lines are still written */
	lineout_close();
	close(STDOUT_FILENO);
	FILE *f = fdopen(rd, "r");
	for (int i = 0; i < 100; i++) {
		cr_assert(fgets(text, sizeof(text), f), "line %d", i);
		cr_assert_eq(atoi(text), i);
	}
	cr_assert_null(fgets(text, sizeof(text), f));
}

/* Wait until the queued lines of @s have been written or dropped. */
static void wait_dropped(struct lineout_source *s, uint64_t n)
{
	while (lineout_dropped(s) < n)
		usleep(1000);
	cr_assert_eq(lineout_dropped(s), n);
}

Test(lineout, a_reader_that_is_gone)
{
	struct lineout_source *a = lineout_source_new("a");

	close(rd);
	for (unsigned int i = 0; i < 100; i++) {
		lineout_put(line("%u", i), a);
		lineout_put(line("%u", i), NULL);
	}
	wait_dropped(a, 100);
	lineout_source_free(a);
	lineout_close();
	cr_assert_eq(__atomic_load_n(&told, __ATOMIC_ACQUIRE), 1);
	cr_assert_eq(lineout_error(), EPIPE);
}

/* A full disk that has room again: the loss is reported, once, before the next line. */
Test(lineout, an_error_that_passes)
{
	struct lineout_source *a = lineout_source_new("a");
	int pipe_fd = dup(STDOUT_FILENO), full = open("/dev/full", O_WRONLY);
	char text[64];
	FILE *f = fdopen(rd, "r");

	cr_assert(full >= 0);
	dup2(full, STDOUT_FILENO);
	for (unsigned int i = 0; i < 7; i++) {
		lineout_put(line("%u", i), a);
		wait_dropped(a, i + 1); /* and the line before it that reports the others */
	}
	cr_assert_eq(lineout_error(), ENOSPC);
	dup2(pipe_fd, STDOUT_FILENO);
	lineout_put(line("%u", 7), a);
	cr_assert(fgets(text, sizeof(text), f));
	cr_assert_str_eq(text, "a lost 7\n");
	cr_assert(fgets(text, sizeof(text), f));
	cr_assert_str_eq(text, "7\n");
	cr_assert_eq(lineout_dropped(a), 7);
	lineout_source_free(a);
	lineout_close();
}

/* No memory for a line: dropped, counted, and nothing else. */
Test(lineout, a_line_without_memory)
{
	struct lineout_source *a = lineout_source_new("a");
	char text[64];
	FILE *f = fdopen(rd, "r");

	lineout_put(NULL, a);
	lineout_drop(a, 2);
	lineout_put(NULL, NULL); /* such as "vm a: removed" */
	cr_assert_eq(lineout_error(), ENOMEM);
	cr_assert_eq(lineout_dropped(a), 3);
	lineout_settle(a);
	cr_assert(fgets(text, sizeof(text), f));
	cr_assert_str_eq(text, "a lost 3\n");
	lineout_source_free(a);
	lineout_close();
}
