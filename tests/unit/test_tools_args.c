// SPDX-License-Identifier: GPL-2.0-or-later
/* The guest tools' text functions against libc, and their argument parser row by row. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/guest/hostile.h"
#include "guest-tools/tools.h"

#define MEM_BYTES (1u << 20)

/* ---- text ----------------------------------------------------------------------------------- */

Test(text, format_agrees_with_libc)
{
	char a[128], b[128];

#define SAME(...)                                                                                  \
	do {                                                                                       \
		size_t len = text_format(a, sizeof(a), __VA_ARGS__);                               \
		snprintf(b, sizeof(b), __VA_ARGS__);                                               \
		cr_expect_str_eq(a, b);                                                            \
		cr_expect_eq(len, strlen(b));                                                      \
	} while (0)
	SAME("%s|%5s|%-5s|%.2s|%.*s", "ab", "ab", "ab", "abc", 1, "xyz");
	SAME("%d %d %5d|%-5d|", 0, -2147483647 - 1, -42, 42);
	SAME("%u %lu %x %lx %18lu", 4294967295u, UINT64_MAX, 0xabcu, UINT64_MAX, 7ul);
	SAME("%c%%%-*s|", 'x', 6, "ab");
#undef SAME
	cr_expect_eq(text_format(a, 5, "%s", "12345678"), 4);
	cr_expect_str_eq(a, "1234");
}

Test(text, numbers)
{
	static const struct {
		int line;
		const char *s;
		bool ok;
		uint64_t v;
	} rows[] = {
		{__LINE__, "0", true, 0},
		{__LINE__, "18446744073709551615", true, UINT64_MAX},
		{__LINE__, "18446744073709551616", false, 0},
		{__LINE__, "99999999999999999999", false, 0},
		{__LINE__, "0xffffffffffffffff", true, UINT64_MAX},
		{__LINE__, "0x10000000000000000", false, 0},
		{__LINE__, "0X1f", true, 31},
		{__LINE__, "0xAbC", true, 0xabc},
		{__LINE__, "0x", false, 0},
		{__LINE__, "", false, 0},
		{__LINE__, "-1", false, 0},
		{__LINE__, "+1", false, 0},
		{__LINE__, "12a", false, 0},
		{__LINE__, "1 ", false, 0},
		{__LINE__, "010", true, 10},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t v = 0;

		cr_expect(text_u64(rows[i].s, strlen(rows[i].s), &v) == rows[i].ok, "line %d",
			  rows[i].line);
		if (rows[i].ok)
			cr_expect(v == rows[i].v, "line %d: %lu", rows[i].line, v);
	}
}

Test(text, thousands_and_mul_div)
{
	char buf[32];

	cr_expect_str_eq(text_thousands(0, buf), "0");
	cr_expect_str_eq(text_thousands(999, buf), "999");
	cr_expect_str_eq(text_thousands(1000, buf), "1,000");
	cr_expect_str_eq(text_thousands(UINT64_MAX, buf), "18,446,744,073,709,551,615");
	cr_expect_eq(mul_div(UINT64_MAX, 7, 7), UINT64_MAX);
	cr_expect_eq(mul_div(1ull << 63, 3, 4), 3ull << 61);
	cr_expect_eq(mul_div(UINT64_MAX, 2, 1), UINT64_MAX); /* saturates */
	cr_expect_eq(mul_div(5, 5, 0), UINT64_MAX);
}

/* ---- arguments ------------------------------------------------------------------------------ */

Test(args, stat_accepts)
{
	static const struct {
		int line;
		const char *args;
		size_t nr_ev;
		enum stat_format format;
		uint32_t repeat;
		const char *work;
		uint64_t n;
	} rows[] = {
		{__LINE__, "loop", 8, STAT_TEXT, 1, "loop", 1000000},
		{__LINE__, "  sieve\t10 ", 8, STAT_TEXT, 1, "sieve", 10},
		{__LINE__, "-e cycles loop 0x10", 1, STAT_TEXT, 1, "loop", 16},
		{__LINE__, "-e cycles -e {loads:u,stores:uk} loop", 3, STAT_TEXT, 1, "loop",
		 1000000},
		{__LINE__, "-ecycles -j -r5 fib 3", 1, STAT_JSON, 5, "fib", 3},
		{__LINE__, "-x, -r 2 -v -- fib", 8, STAT_CSV, 2, "fib", 20},
		{__LINE__, "-x ; -e r20c4:k,cpu-cycles empty", 2, STAT_CSV, 1, "empty", 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[ARGS_ERR_MAX] = "";
		struct args_stat a;

		cr_expect(args_stat_parse(rows[i].args, MEM_BYTES, &a, err), "line %d: %s",
			  rows[i].line, err);
		cr_expect(a.nr_ev == rows[i].nr_ev, "line %d", rows[i].line);
		cr_expect(a.format == rows[i].format, "line %d", rows[i].line);
		cr_expect(a.repeat == rows[i].repeat, "line %d", rows[i].line);
		cr_expect(!strcmp(a.work.w->name, rows[i].work), "line %d", rows[i].line);
		cr_expect(a.work.n == rows[i].n, "line %d", rows[i].line);
	}
}

Test(args, stat_refuses)
{
	static const struct {
		int line;
		const char *args, *err; /* part of the line */
	} rows[] = {
		{__LINE__, "", "no workload"},
		{__LINE__, "frob", "'frob'"},
		{__LINE__, "loop 12x", "'12x'"},
		{__LINE__, "loop 1 2", "'2'"},
		{__LINE__, "loop ten", "'ten'"},
		{__LINE__, "fib 94", "expected up to 93"},
		{__LINE__, "sieve 2000000", "needs 2000001 bytes"},
		{__LINE__, "sieve 99999999999", "expected up to"},
		{__LINE__, "-e", "-e needs a value"},
		{__LINE__, "-x", "-x needs a value"},
		{__LINE__, "-r 0 loop", "'0'"},
		{__LINE__, "-r 99999999999 loop", "'99999999999'"},
		{__LINE__, "-r x loop", "'x'"},
		{__LINE__, "-q loop",
		 "unknown option '-q': stat takes -e EVENTS, -x SEP, -j, -r N, -v"},
		{__LINE__, "-vv loop", "'-vv'"},
		{__LINE__, "- loop", "'-'"},
		{__LINE__, "-x ======== loop", "up to 7"},
		{__LINE__, "-e cycle loop", "'cycle'"},
		{__LINE__, "-e cycles, loop", "''"},
		{__LINE__, "-e ,cycles loop", "''"},
		{__LINE__, "-e {cycles loop", "without '}'"},
		{__LINE__, "-e cycles} loop", "without '{'"},
		{__LINE__, "-e {{cycles}} loop", "inside a group"},
		{__LINE__, "-e {cycles}loads loop", "',' expected"},
		{__LINE__, "-e cycles:x loop", "'cycles:x'"},
		{__LINE__, "-e cycles: loop", "'cycles:'"},
		{__LINE__, "-e cycles:uuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuuu loop", "modifier"},
		{__LINE__, "-e r loop", "'r'"},
		{__LINE__, "-e r12345 loop", "'r12345'"},
		{__LINE__, "-e rxy loop", "'rxy'"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[ARGS_ERR_MAX] = "";
		struct args_stat a;

		cr_expect(!args_stat_parse(rows[i].args, MEM_BYTES, &a, err), "line %d",
			  rows[i].line);
		cr_expect(strstr(err, rows[i].err), "line %d: %s", rows[i].line, err);
		cr_expect(!strchr(err, '\n'), "line %d", rows[i].line);
	}
}

Test(args, too_many_events)
{
	char s[EVENTS_MAX * 8 + 32] = "-e loads", err[ARGS_ERR_MAX];
	struct args_stat a;

	for (int i = 1; i < EVENTS_MAX; i++)
		strcat(s, ",loads");
	strcat(s, " loop");
	cr_expect(args_stat_parse(s, MEM_BYTES, &a, err), "%s", err);
	cr_expect_eq(a.nr_ev, EVENTS_MAX);
	s[strlen(s) - 5] = 0;
	strcat(s, ",loads loop");
	cr_expect(!args_stat_parse(s, MEM_BYTES, &a, err));
	cr_expect(strstr(err, "more than 32"));
}

Test(args, record)
{
	char err[ARGS_ERR_MAX];
	struct args_record a;

	cr_assert(args_record_parse(" sieve", MEM_BYTES, &a, err), "%s", err);
	cr_expect_str_eq(a.ev.name, "instructions:u");
	cr_expect(a.ev.usr && !a.ev.os && a.period == 10000 && !a.vector && !a.json && !a.chains);
	cr_assert(args_record_parse("-e cycles -c500 --vector -g -j --fixed -- fib 7", MEM_BYTES,
				    &a, err),
		  "%s", err);
	cr_expect_eq(a.ev.id, EV_CYCLES);
	cr_expect(a.ev.usr && a.ev.os && a.period == 500 && a.vector && a.json && a.chains &&
		  a.fixed);
	cr_expect_eq(a.work.n, 7);
	cr_assert(args_record_parse("--vector --nmi -c 0x7fffffff loop", MEM_BYTES, &a, err));
	cr_expect(!a.vector && a.period == 0x7fffffff && !a.raw);
	cr_assert(args_record_parse("--raw loop", MEM_BYTES, &a, err) && a.raw);
}

Test(args, lbr)
{
	char err[ARGS_ERR_MAX];
	struct args_lbr a;

	cr_assert(args_lbr_parse("", MEM_BYTES, &a, err), "%s", err);
	cr_expect_str_eq(a.work.w->name, "chain");
	cr_expect(a.period == 997 && !a.depth && !a.branches && !a.vector && !a.json);
	cr_assert(args_lbr_parse("--branches --depth 8 -c 50 -j", MEM_BYTES, &a, err), "%s", err);
	cr_expect_str_eq(a.work.w->name, "branches");
	cr_expect(a.branches && a.depth == 8 && a.period == 50 && a.json);
	cr_assert(args_lbr_parse("--vector fib 9", MEM_BYTES, &a, err), "%s", err);
	cr_expect(a.vector && a.work.n == 9);
}

Test(args, torture_leak_victim)
{
	char err[ARGS_ERR_MAX];
	struct args_torture t;
	struct args_victim v;
	struct args_leak l;

	cr_assert(args_torture_parse(" ", &t, err));
	cr_expect(t.seed == 1 && t.ops == 10000 && !t.json);
	cr_assert(args_torture_parse("-j 18446744073709551615 5", &t, err), "%s", err);
	cr_expect(t.seed == UINT64_MAX && t.ops == 5 && t.json);
	cr_assert(args_leak_parse("", &l, err));
	cr_expect(l.rounds == 10 && l.spin == 100000 && l.address == 0x10000000);
	cr_assert(args_leak_parse("--spin 300 --at 0x3ffff000 -j 7", &l, err), "%s", err);
	cr_expect(l.rounds == 7 && l.spin == 300 && l.address == 0x3ffff000 && l.json);
	cr_assert(args_victim_parse("", &v, err));
	cr_expect(v.address == 0x20000000 && v.rounds == 0);
	cr_assert(args_victim_parse("0x10000000 3", &v, err));
	cr_expect(v.address == 0x10000000 && v.rounds == 3);
}

Test(args, sampling_errors)
{
	static const struct {
		int line;
		char tool; /* Record, Lbr, Torture, lEak, Victim */
		const char *args, *err;
	} rows[] = {
		{__LINE__, 'R', "", "no workload"},
		{__LINE__, 'R', "-x loop", "unknown option '-x': record takes"},
		{__LINE__, 'R', "--vectors loop", "unknown option '--vectors'"},
		{__LINE__, 'R', "-c 0 loop", "1 to 2147483647"},
		{__LINE__, 'R', "-c 0x80000000 loop", "-c '0x80000000'"},
		{__LINE__, 'R', "-c", "option -c needs a value"},
		{__LINE__, 'R', "-e", "-e needs a value"},
		{__LINE__, 'R', "-e cycles,loads loop", "one event is sampled at a time"},
		{__LINE__, 'R', "-e nonsense loop", "unknown event 'nonsense'"},
		{__LINE__, 'R', "loop 5 6", "unexpected '6'"},
		{__LINE__, 'L', "--depth 33", "--depth '33' is invalid; expected 1 to 32"},
		{__LINE__, 'L', "--depth", "option --depth needs a value"},
		{__LINE__, 'L', "-g", "unknown option '-g': lbr takes"},
		{__LINE__, 'L', "nonsense", "unknown workload 'nonsense'"},
		{__LINE__, 'T', "x", "SEED 'x'"},
		{__LINE__, 'T', "1 0", "N '0' is invalid; expected 1 to 1000000000"},
		{__LINE__, 'T', "1 2 3", "unexpected '3'"},
		{__LINE__, 'T', "-v", "torture takes -j"},
		{__LINE__, 'E', "0", "ROUNDS '0'"},
		{__LINE__, 'E', "--at 0x10000001",
		 "address 0x10000001 is invalid; expected 0x10000000 to 0x3ffff000"},
		{__LINE__, 'E', "--at 0xffff000", "address 0xffff000"},
		{__LINE__, 'E', "--spin 0", "--spin '0'"},
		{__LINE__, 'E', "1 2", "unexpected '2'"},
		{__LINE__, 'V', "0x40000000", "address 0x40000000"},
		{__LINE__, 'V', "nowhere", "ADDRESS 'nowhere'"},
		{__LINE__, 'V', "0x10000000 1 2", "unexpected '2'"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[ARGS_ERR_MAX] = "";
		struct args_torture t;
		struct args_record r;
		struct args_victim v;
		struct args_lbr l;
		struct args_leak e;
		const char *s = rows[i].args;
		bool ok = rows[i].tool == 'R'	? args_record_parse(s, MEM_BYTES, &r, err)
			  : rows[i].tool == 'L' ? args_lbr_parse(s, MEM_BYTES, &l, err)
			  : rows[i].tool == 'T' ? args_torture_parse(s, &t, err)
			  : rows[i].tool == 'E' ? args_leak_parse(s, &e, err)
						: args_victim_parse(s, &v, err);

		cr_expect(!ok, "line %d", rows[i].line);
		cr_expect(strstr(err, rows[i].err), "line %d: %s", rows[i].line, err);
		cr_expect(!strchr(err, '\n'), "line %d", rows[i].line);
	}
}

Test(args, run)
{
	static const struct {
		int line;
		const char *args;
		const char *err; /* NULL: valid */
		const char *workload;
		uint64_t repeat, n;
	} rows[] = {
		{__LINE__, "loop", NULL, "loop", 1, 1000000},
		{__LINE__, " -r 3 fib 5", NULL, "fib", 3, 5},
		{__LINE__, "-r0 loop 7", NULL, "loop", 0, 7},
		{__LINE__, "-r 18446744073709551615 loop", NULL, "loop", UINT64_MAX, 1000000},
		{__LINE__, "", "no workload", NULL, 0, 0},
		{__LINE__, "-r", "option -r needs a value", NULL, 0, 0},
		{__LINE__, "-r loop", "-r 'loop' is invalid; expected 0 to 18446744073709551615",
		 NULL, 0, 0},
		{__LINE__, "-r 2", "no workload", NULL, 0, 0},
		{__LINE__, "-v loop", "unknown option '-v': run takes -r N", NULL, 0, 0},
		{__LINE__, "loop -r 2", "unexpected '-r' at the end", NULL, 0, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char err[ARGS_ERR_MAX] = "";
		struct args_run a;
		bool ok = args_run_parse(rows[i].args, MEM_BYTES, &a, err);

		cr_expect_eq(ok, !rows[i].err, "line %d: %s", rows[i].line, err);
		if (!ok)
			cr_expect(strstr(err, rows[i].err), "line %d: %s", rows[i].line, err);
		else
			cr_expect(!strcmp(a.work.w->name, rows[i].workload) &&
					  a.repeat == rows[i].repeat && a.work.n == rows[i].n,
				  "line %d", rows[i].line);
	}
}

/* Hostile text: any bytes at all give a parse or one line, never more. */
Test(args, random_text)
{
	static const char pieces[][12] = {"stat", "-e",	   "-x",     "-j", "-r", "-v",
					  "loop", "sieve", "cycles", ":u", ",",	 "{",
					  "}",	  " ",	   "0x",     "99", "--", "r1c0",
					  "\t",	  "\xff",  "-",	     "-c", "-g", "--vector"};
	unsigned int seed = 1;

	for (int round = 0; round < 20000; round++) {
		char s[256] = "", err[ARGS_ERR_MAX] = "";
		struct args_record r;
		struct args_stat a;
		int n = rand_r(&seed) % 16;

		for (int i = 0; i < n; i++)
			strcat(s,
			       pieces[(size_t)rand_r(&seed) % (sizeof(pieces) / sizeof(*pieces))]);
		if (args_stat_parse(s, MEM_BYTES, &a, err))
			cr_expect(a.work.w && a.nr_ev && a.repeat, "%s", s);
		else
			cr_expect(err[0] && !strchr(err, '\n'), "%s", s);
		err[0] = 0;
		if (args_record_parse(s, MEM_BYTES, &r, err))
			cr_expect(r.work.w && r.period, "%s", s);
		else
			cr_expect(err[0] && !strchr(err, '\n'), "%s", s);
	}
}

/* The library's output goes nowhere in this test. */
int64_t sys_write(const char *buf, size_t bytes)
{
	return (int64_t)bytes;
}
