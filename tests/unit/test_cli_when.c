// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/when.c: times of `vpmu stat --since`, in a time zone that has summer time. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <time.h>

#include "cli/when.h"

#define S 1000000000ULL
/* 2026-07-01 12:30:00 in Berlin, 10:30 UTC, and a half second. */
#define NOW (1782901800 * S + S / 2)

static void when_setup(void)
{
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
}

static void expect(uint64_t now, const char *text, uint64_t want)
{
	uint64_t ns = 1;

	cr_assert(when_parse(text, now, &ns), "\"%s\" was not accepted", text);
	cr_assert_eq(ns, want, "\"%s\": %llu, expected %llu", text, (unsigned long long)ns,
		     (unsigned long long)want);
}

Test(cli_when, before_now, .init = when_setup)
{
	expect(NOW, "now", NOW);
	expect(NOW, "-90s", NOW - 90 * S);
	expect(NOW, "-30m", NOW - 1800 * S);
	expect(NOW, "-2h", NOW - 7200 * S);
	expect(NOW, "-0s", NOW);
}

Test(cli_when, the_last_such_time, .init = when_setup)
{
	uint64_t noon = 1782900000 * S; /* 12:00 */

	expect(NOW, "12:00", noon);
	expect(NOW, "12:30:00", NOW - S / 2);
	expect(NOW, "12:30:01", NOW - S / 2 + S - 86400 * S); /* yesterday */
	expect(NOW, "23:59", noon - 12 * 3600 * S - 60 * S);
	/* A day of 23 hours: at 2026-03-29 03:30 CEST, 05:00 was 21.5 h ago and 01:00 was 1.5 h
	 * ago. */
	expect(1774747800 * S, "05:00", (1774747800 - 21 * 3600 - 1800) * S);
	expect(1774747800 * S, "01:00", (1774747800 - 3600 - 1800) * S);
	/* 02:30 did not exist that day. */
	expect(1774747800 * S, "02:30", (1774747800 - 24 * 3600) * S);
}

Test(cli_when, dates, .init = when_setup)
{
	expect(NOW, "2026-07-01 12:30", NOW - S / 2);
	expect(NOW, "2026-07-01T12:30:00", NOW - S / 2);
	expect(NOW, "2026-07-01T10:30:00Z", NOW - S / 2);
	expect(NOW, "2026-07-01t10:30:00z", NOW - S / 2);
	expect(NOW, "2026-07-01T10:30:00.5Z", NOW);
	expect(NOW, "2026-07-01T16:00:00+05:30", NOW - S / 2);
	expect(NOW, "2026-07-01T02:30:00.500000000-08:00", NOW);
	expect(NOW, "2024-02-29 00:00:00", 1709161200 * S);
	expect(NOW, "1970-01-01T00:00:00Z", 0);
}

Test(cli_when, not_a_time, .init = when_setup)
{
	static const char *const bad[] = {
		"",
		"-",
		"-5",
		"-5d",
		"-5mm",
		"--5m",
		"-1.5h",
		"-99999999999999999999s",
		"-18446744073709551676s", /* 2^64 + 60 */
		"-1000000000h",
		"5m",
		"yesterday",
		"nowish",
		" now",
		"24:00",
		"3:12",
		"03:60",
		"03:12:60",
		"03:12:",
		"03:12 ",
		"2026-02-29 00:00",
		"2026-00-01 00:00",
		"2026-01-00 00:00",
		"2026-13-01 00:00",
		"2026-04-31 00:00",
		"2026-07-01",
		"2026-07-01 ",
		"2026-07-01_12:30",
		"2026-07-01 12:30:00 Z",
		"2026-07-01 12:30:00.",
		"2026-07-01 12:30:00+5:30",
		"2026-07-01 12:30:00+05:30x",
		"1969-12-31T23:59:59Z",
		"1970-01-01T00:00:00+01:00",
		"2026-03-29 02:30", /* clocks went forward */
		"9999-12-31 00:00",
		"1782901800",
	};
	uint64_t ns;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_not(when_parse(bad[i], NOW, &ns), "\"%s\" was accepted", bad[i]);
}

Test(cli_when, text, .init = when_setup)
{
	char buf[WHEN_LEN];

	cr_assert_str_eq(when_text(NOW, buf), "2026-07-01 12:30:00");
}
