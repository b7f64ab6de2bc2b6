// SPDX-License-Identifier: GPL-2.0-or-later
/* A VM's console: the ring, the rate, the file, and the counters. */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/resource.h>

#include "folder_bed.h"
#include "vmm/console.h"

#define SEC 1000000000ull

static char buf[CONSOLE_RING_BYTES + 4096];

static struct console *console(uint64_t rate, int fd)
{
	const struct console_opts o = {.name = "a", .rate = rate, .fd = fd};
	struct console *c = console_new(&o);

	cr_assert(c);
	return c;
}

static void expect(struct console *c, uint64_t lines, uint64_t dropped)
{
	struct console_stats s;

	console_stats(c, &s);
	cr_assert_eq(s.lines, lines, "%lu lines", s.lines);
	cr_assert_eq(s.dropped, dropped, "%lu dropped", s.dropped);
}

Test(console, reading_goes_on_where_it_was)
{
	const struct console_opts o = {.name = "a", .many = true, .fd = -1};
	struct console *c = console_new(&o);
	uint64_t from = 0, missed;

	cr_assert_eq(console_read(c, &from, &missed, buf, sizeof(buf)), 0);
	cr_assert(console_line(c, 0, "one", 1));
	cr_assert(console_line(c, 12, "", 1));
	cr_assert_eq(console_read(c, &from, &missed, buf, sizeof(buf)), 14);
	cr_assert_str_eq(buf, "[0] one\n[12] \n");
	cr_assert_eq(console_read(c, &from, &missed, buf, sizeof(buf)), 0);
	cr_assert(console_line(c, 1, "two", 1));
	cr_assert_eq(console_read(c, &from, &missed, buf, sizeof(buf)), 8);
	cr_assert_str_eq(buf, "[1] two\n");
	cr_assert_eq(missed, 0);
	from = 3; /* inside a line */
	cr_assert_eq(console_read(c, &from, &missed, buf, sizeof(buf)), -EINVAL);
	from = UINT64_MAX;
	cr_assert_eq(console_read(c, &from, &missed, buf, sizeof(buf)), -EINVAL);
	expect(c, 3, 0);
	console_free(c);
}

/* The ring has the newest lines, whole ones, whatever their lengths. */
Test(console, the_ring_is_bounded)
{
	struct console *c = console(0, -1);
	uint64_t from = 0, missed, total = 0;
	unsigned int first, last = 0, n = 0;
	char line[2100];

	for (unsigned int i = 0; i < 5000; i++) {
		int len = snprintf(line, sizeof(line), "%u %0*d", i, 1 + i * 7 % 2000, 0);

		cr_assert(console_line(c, 0, line, 1));
		total += (uint64_t)len + 1;
	}
	long len = console_read(c, &from, &missed, buf, sizeof(buf));

	cr_assert_gt(len, CONSOLE_RING_BYTES - 2100);
	cr_assert_leq(len, CONSOLE_RING_BYTES);
	cr_assert_eq(missed + (uint64_t)len, total);
	cr_assert_eq(from, total);
	cr_assert_eq(sscanf(buf, "%u ", &first), 1);
	for (char *p = buf, *nl; (nl = strchr(p, '\n')); p = nl + 1, n++) {
		cr_assert_eq(sscanf(p, "%u ", &last), 1);
		cr_assert_eq(last, first + n);
		cr_assert_eq(nl - p,
			     snprintf(NULL, 0, "%u %0*d", last, 1 + (int)(last * 7 % 2000), 0));
	}
	cr_assert_eq(last, 4999);
	expect(c, 5000, 0);

	/* In small pieces: the same text. */
	char *all = strdup(buf);
	size_t at = 0;

	for (from = 0; at < (size_t)len;) {
		long part = console_read(c, &from, &missed, buf, 4096);

		cr_assert_gt(part, 0);
		cr_assert_lt(part, 4096);
		cr_assert_eq(memcmp(all + at, buf, (size_t)part), 0);
		at += (size_t)part;
	}
	cr_assert_eq(at, (size_t)len);
	free(all);
	console_free(c);
}

/* 10 lines a second, as short ones count as CONSOLE_LINE_MIN bytes: a burst of 4 s' worth, then so
 * much as time brings; the rest is counted and told of. */
Test(console, a_guest_prints_at_its_rate)
{
	struct console *c = console(10 * CONSOLE_LINE_MIN, -1);
	uint64_t from = 0, missed;
	unsigned int ok = 0;

	for (unsigned int i = 0; i < 1000; i++)
		ok += console_line(c, 0, "123456789", 5 * SEC);
	cr_assert_eq(ok, 40);
	expect(c, 1000, 960);
	cr_assert_not(console_line(c, 0, "123456789", 5 * SEC + SEC / 20));
	cr_assert(console_line(c, 0, "after 0.1s", 5 * SEC + SEC / 5));
	cr_assert_gt(console_read(c, &from, &missed, buf, sizeof(buf)), 0);
	cr_assert(strstr(buf, "\n123456789\n(961 lines lost)\nafter 0.1s\n"), "%s", buf);
	expect(c, 1002, 961);
	console_free(c);
}

/* A line that exceeds the burst is printed, and paid for before the next one. */
Test(console, a_low_rate_loses_no_long_lines)
{
	struct console *c = console(1, -1);
	char line[101] = {0};

	memset(line, 'x', sizeof(line) - 1);
	cr_assert(console_line(c, 0, line, 5 * SEC));
	cr_assert_not(console_line(c, 0, "y", (5 + 100) * SEC));
	cr_assert(console_line(c, 0, "y", (5 + 101) * SEC));
	cr_assert_not(console_line(c, 0, line, (5 + 200) * SEC));
	cr_assert(console_line(c, 0, line, (5 + 201) * SEC));
	expect(c, 5, 2);
	console_free(c);
}

static char path[PATH_MAX];

static void file_of(char *text)
{
	FILE *f = fopen(path, "r");
	size_t n = fread(text, 1, 4095, f);

	text[n] = 0;
	fclose(f);
}

/* A file that cannot take the lines: they are counted; when it can again, no line is torn. */
Test(console, a_file, .init = folder_begin, .fini = folder_end)
{
	struct rlimit small = {.rlim_cur = 10, .rlim_max = RLIM_INFINITY}, large = small;
	char text[4096], link[PATH_MAX + 8], err[512];
	struct console *c;
	int fd;

	large.rlim_cur = RLIM_INFINITY;
	signal(SIGXFSZ, SIG_IGN);
	strcpy(path, folder_path("/con"));
	fd = console_open_file(path, err, sizeof(err));
	cr_assert(fd >= 0, "%s", err);
	c = console(0, fd);
	console_line(c, 0, "first", 1);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	console_line(c, 0, "second", 1); /* four bytes of it can be written */
	console_line(c, 0, "third", 1);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &large), 0);
	expect(c, 3, 2);
	console_line(c, 0, "fourth", 1);
	console_free(c);
	file_of(text);
	cr_assert_str_eq(text, "first\nseco\n(2 lines lost)\nfourth\n");

	/* It is appended to; any other than an own regular file is refused. */
	fd = console_open_file(path, err, sizeof(err));
	c = console(0, fd);
	console_line(c, 0, "fifth", 1);
	console_free(c);
	file_of(text);
	cr_assert(strstr(text, "fourth\nfifth\n"));
	snprintf(link, sizeof(link), "%s.l", path);
	cr_assert_eq(symlink(path, link), 0);
	cr_assert_eq(console_open_file(link, err, sizeof(err)), -ELOOP);
	cr_assert(strstr(err, "symbolic link"), "%s", err);
	unlink(link);
	cr_assert_eq(mkfifo(link, 0600), 0);
	cr_assert_lt(console_open_file(link, err, sizeof(err)), 0); /* and does not hang */
}
