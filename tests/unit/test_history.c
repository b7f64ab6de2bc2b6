// SPDX-License-Identifier: GPL-2.0-or-later
/* The memory of past counts: what sessions counted per interval, over the end of the process, and
 * the command that shows it. The backend is a fake one, so every count is known. */
#include "history_bed.h"
#include "tests/measured.h"

#define RANGE ",\"since\":\"%lu000\",\"until\":\"%lu000\""

Test(history, each_interval_has_what_was_counted_in_it)
{
	json_t *a;

	ATTACH("vms", "vm");
	ATTACH("tenants", "tenant");
	tick();
	run(vm, 5);
	tick();
	tick();
	run(vm, 7);
	tick();
	/* The sessions began in the first interval: it was counted in part. */
	EXPECT_PAST("/acme", "web", "0(exact partial) 5 0 7");
	EXPECT_PAST("/acme", "", "0(exact partial) 5 0 7");
	a = must("{\"cmd\":\"history\",\"scope\":\"vm\",\"points\":2}");
	cr_expect_str_eq(deltas(a, "/acme", "web"), "5(exact partial) 7");
	cr_expect_str_eq(deltas(a, "/acme", ""), "no series");
	cr_expect_eq(json_integer_value(json_object_get(a, "interval_ns")), 20 * SECOND);
	cr_expect_lt(json_integer_value(json_object_get(a, "start_ns")),
		     json_integer_value(json_array_get(json_object_get(a, "times"), 0)));
	/* Of what it took to read. */
	cr_expect_gt(json_integer_value(json_object_get(a, "width_ns")), 0);
	json_decref(a);
	a = must("{\"cmd\":\"history\",\"target\":\"web\",\"events\":\"cycles\"}");
	cr_expect_eq(json_array_size(json_object_get(a, "series")), 0);
	json_decref(a);
}

Test(history, what_nobody_counted_is_a_gap)
{
	ATTACH("vms", "vm");
	tick();
	run(vm, 5);
	tick();
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"vms\"}"));
	run(vm, 100);
	ATTACH("others", "vm");
	run(vm, 3);
	tick();
	run(vm, 4);
	tick();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5 3(exact partial) 4");
}

/* A second session takes over from the first at its own value: without an earlier one there is no
 * difference. */
Test(history, a_session_that_takes_over_has_a_gap)
{
	ATTACH("a", "vm");
	tick();
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"instructions,cycles\",\"scope\":\"vm\","
			 "\"name\":\"b\",\"keep\":true}"));
	run(vm, 5);
	tick();
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"a\"}"));
	run(vm, 6);
	tick();
	run(vm, 7);
	tick();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5 null 7");
}

/* Another session goes on with a series, which it has counted since before the clock was set back.
 */
Test(history, a_row_that_began_before_the_clock_was_set_back_is_not_new)
{
	const uint64_t back_us = 1000000000; /* less than the history keeps */

	ATTACH("a", "vm");
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"instructions,cycles\",\"scope\":\"vm\","
			 "\"name\":\"b\",\"keep\":true}"));
	run(vm, 1000);
	tick();
	history_tick(h, realtime_us() - back_us, now_ns());
	usleep(20);
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"a\"}"));
	run(vm, 6);
	history_tick(h, realtime_us() - back_us, now_ns());
	cr_expect_str_eq(past("/acme", "web", ",\"until\":\"%llu\"",
			      (unsigned long long)(realtime_us() - back_us / 2) * 1000),
			 "0(exact partial) null");
}

Test(history, the_last_counts_of_a_removed_vm_stay)
{
	struct node *db;

	ATTACH("vms", "vm");
	tick();
	db = add_vm("db");
	run(db, 8);
	tick();
	run(db, 9);
	tenant_vm_remove(ts, db);
	/* A client reads, and the session forgets the row. */
	json_decref(must("{\"cmd\":\"read\",\"session\":\"vms\"}"));
	json_decref(must("{\"cmd\":\"read\",\"session\":\"vms\"}"));
	tick();
	tick();
	EXPECT_PAST("/acme", "db", "null 8 9 null");
	/* It starts again, and within an interval. */
	db = add_vm("db");
	run(db, 1);
	tick();
	run(db, 2);
	tenant_vm_remove(ts, db);
	db = add_vm("db");
	run(db, 3);
	tick();
	EXPECT_PAST("/acme", "db", "null 8 9 null 1 5");
}

Test(history, a_row_is_partial_only_where_events_were_lost)
{
	ATTACH("vms", "vm");
	tick();
	tick();
	how.partial = true;
	how.losses = 1;
	run(vm, 5);
	tick();
	run(vm, 6);
	tick();
	how.losses = 2;
	run(vm, 7);
	tick();
	EXPECT_PAST("/acme", "web", "0(exact partial) 0 5(exact partial) 6 7(exact partial)");
}

/* What an interval lacks is in the next one. */
Test(history, an_interval_after_an_aged_one_is_aged)
{
	ATTACH("vms", "vm");
	tick();
	run(vm, 5);
	how.age_ns = 3;
	tick();
	run(vm, 6);
	how.age_ns = 0;
	tick();
	run(vm, 7);
	tick();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5(exact aged) 6(exact aged) 7");
}

/* An interval in which something was found late lacks it; a new row's does, too. */
Test(history, an_interval_with_something_late_is_partial)
{
	struct node *other;

	ATTACH("vms", "vm");
	tick();
	run(vm, 5);
	tenant_late(vm, acme, 9);
	tick();
	run(vm, 6);
	other = add_vm("new");
	tenant_late(other, acme, 9);
	run(other, 4);
	tick();
	run(vm, 7);
	run(other, 8);
	tick();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5(exact partial) 6 7");
	EXPECT_PAST("/acme", "new", "null null 4(exact partial) 8");
}

/* ---- over the end of the process ------------------------------------------------------------ */

static void again(void)
{
	server_down();
	server_up();
}

static off_t size_of(const char *path)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0, "%s", path);
	cr_expect_eq(st.st_mode & 0777, 0600);
	return st.st_size;
}

Test(history, it_survives_the_process)
{
	uint64_t at[2] = {realtime_us() - 1000000000, now_ns() - 1000 * SECOND};
	char path[128];
	off_t len;
	int fd;

	ATTACH("vms", "vm");
	tick_at(at, 10, 10);
	run(vm, 5);
	tick_at(at, 10, 10);
	again();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5");
	ATTACH("vms", "vm");
	run(vm, 6);
	tick_at(at, 10, 10);
	again();
	/* The session is another one, which began in this interval. */
	EXPECT_PAST("/acme", "web", "0(exact partial) 5 6(exact partial)");
	snprintf(path, sizeof(path), "%s.1", file);
	len = size_of(path);
	/* The last record was cut off. */
	cr_assert_eq(truncate(path, len - 1), 0);
	again();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5");
	ATTACH("vms", "vm");
	tick_at(at, 10, 10);
	run(vm, 7);
	tick_at(at, 10, 10);
	again();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5 null 0(exact partial) 7");
	/* One bit is wrong in the middle. */
	len = size_of(path);
	fd = open(path, O_RDWR);
	cr_assert(fd >= 0 && pwrite(fd, "\xff", 1, len / 2) == 1);
	close(fd);
	again();
	cr_expect_neq(strncmp("0(exact partial) 5 0", past("/acme", "web", "%s", ""), 20), 0);
	cr_expect_str_eq(notes, "");
	opts.interval_ns = SECOND;
	again();
	EXPECT_PAST("/acme", "web", "no series");
	cr_expect(strstr(notes, "of another interval"), "%s", notes);
}

/* As after a jump of the clock: one answer has no room for an interval each. */
Test(history, a_gap_of_weeks_is_bounded)
{
	json_t *a;

	ATTACH("vms", "vm");
	tick();
	run(vm, 5);
	tick();
	history_tick(h, realtime_us() + 14ull * 86400 * 1000000, now_ns());
	a = must("{\"cmd\":\"history\"}");
	cr_expect_lt(json_array_size(json_object_get(a, "times")), 10);
	json_decref(a);
}

/* A late tick has all that was counted since the one before. If the time jumped, that is not known
 * of the time between. */
Test(history, a_late_tick_is_no_gap)
{
	uint64_t at[2] = {realtime_us() - 1000000000, now_ns() - 1000 * SECOND};
	const json_t *times;
	json_t *a;

	ATTACH("vms", "vm");
	tick_at(at, 10, 10);
	tick_at(at, 10, 10);
	run(vm, 5);
	tick_at(at, 47, 47);
	run(vm, 6);
	tick_at(at, 10, 10);
	run(vm, 7);
	tick_at(at, 30, 10);
	a = must("{\"cmd\":\"history\"}");
	cr_expect_str_eq(deltas(a, "/acme", "web"), "0(exact partial) 0 5 6 null null 7");
	times = json_object_get(a, "times");
	cr_expect_eq(json_integer_value(json_array_get(times, 2)) -
			     json_integer_value(json_array_get(times, 1)),
		     47 * SECOND);
	json_decref(a);
	/* After a tick that was not kept, because there was no session. */
	json_decref(must("{\"cmd\":\"detach\",\"session\":\"vms\"}"));
	tick_at(at, 10, 10);
	tick_at(at, 10, 10);
	ATTACH("vms", "vm");
	run(vm, 8);
	tick_at(at, 10, 10);
	cr_expect(strstr(past("/acme", "web", "%s", ""), "7 null null 8(exact partial)"), "%s",
		  past("/acme", "web", "%s", ""));
}

/* Delete what is kept, and start again. */
static void anew(void)
{
	char command[128];

	server_down();
	snprintf(command, sizeof(command), "rm -f %s*", file);
	cr_assert_eq(system(command), 0);
	server_up();
	ATTACH("vms", "vm");
}

/* A time that comes twice has the counts of the first time, and is marked. What was kept under a
 * time to come hides nothing that comes before. */
Test(history, a_clock_that_was_set_back_marks_its_intervals)
{
	const char *text;
	uint64_t at[2] = {realtime_us() - 1000000000, now_ns() - 1000 * SECOND}, began;

	ATTACH("vms", "vm");
	tick_at(at, 10, 10);
	for (unsigned int i = 1; i < 4; i++) {
		run(vm, i);
		tick_at(at, 10, 10);
	}
	began = at[0];
	run(vm, 6);
	tick_at(at, -14, 10);
	run(vm, 7);
	tick_at(at, 10, 10);
	for (unsigned int i = 8; i < 11; i++) {
		run(vm, i);
		tick_at(at, 10, 10);
	}
	EXPECT_PAST("/acme", "web",
		    "0(exact partial) 1(exact partial) 2(exact partial) 3(exact partial) 8(exact "
		    "partial) 9(exact "
		    "partial) 10");
	/* A segment that begins in the time to come. */
	anew();
	tick_at(at, 7200, 10);
	tick_at(at, 10, 10);
	tick_at(at, -7200, 10);
	run(vm, 3);
	tick_at(at, 10, 10);
	text = past("/acme", "web", RANGE, began, at[0]);
	cr_expect(strstr(text, " 3"), "%s", text);
	server_down();
	server_up();
	text = past("/acme", "web", RANGE, began, at[0]);
	cr_expect(strstr(text, " 3"), "%s", text);
}

/* The clock was set back after a range began, so the first interval after that ends before the
 * range does. @ticks before it was set back by @back_s; the range begins @after_s after the last of
 * them. */
Test(history, a_clock_that_was_set_back_before_the_first_interval_of_a_range)
{
	static const struct {
		int line, ticks, back_s, after_s;
		const char *want;
	} row[] = {
		{__LINE__, 3, 52, 5, "5(exact partial) 5(exact partial) 5"},
		{__LINE__, 3, 50, 5, "5(exact partial) 5"},
		{__LINE__, 3, 50, 15, "5"},		   /* it was set back before the range */
		{__LINE__, 3, 8, 5, "5(exact partial) 5"}, /* time goes on between the ticks */
		{__LINE__, 3, 52, -5, "5(exact partial) 5(exact partial) 5(exact partial) 5"},
		/* Times that are the same to the µs are not added up. */
		{__LINE__, 3, 50, -5, "5(exact partial) 5(exact partial) 5"},
		/* The first interval has what was counted since the tick before the range. */
		{__LINE__, 3, 8, 1, "5(exact partial) 5(exact partial) 5"},
		/* The last tick before that, the first after it and the range are in a segment
		 * each. */
		{__LINE__, 45, 902, 5, "5(exact partial) 5(exact partial) 5"},
		{__LINE__, 45, 902, 11, "5(exact partial) 5"},
	};
	uint64_t at[2] = {realtime_us() - 10000000000, now_ns() - 10000 * SECOND}, since;
	const char *got;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		anew();
		for (int k = 0; k < row[i].ticks; k++, run(vm, 5))
			tick_at(at, 10, 10);
		since = at[0] + (uint64_t)(row[i].after_s * 1000000LL);
		tick_at(at, 10 - row[i].back_s, 10);
		while ((int64_t)at[0] < (int64_t)since - row[i].after_s * 1000000LL + 10000000) {
			run(vm, 5);
			tick_at(at, 10, 10);
		}
		run(vm, 5);
		tick_at(at, 10, 10);
		got = past("/acme", "web", ",\"since\":\"%lu000\"", since);
		cr_expect_str_eq(got, row[i].want, "line %d: %s", row[i].line, got);
	}
}

/* The range ends before the clock was set back, and the first interval after that behind it. */
Test(history, a_clock_that_was_set_back_to_the_end_of_a_range)
{
	uint64_t at[2] = {realtime_us() - 1000000000, now_ns() - 1000 * SECOND}, until;

	anew();
	for (int i = 0; i < 8; i++, run(vm, 5))
		tick_at(at, 10, 10);
	until = at[0] - 50000000;
	tick_at(at, -45, 10);
	cr_expect_str_eq(past("/acme", "web", ",\"until\":\"%lu000\"", until),
			 "0(exact partial) 5 5(exact partial)");
	/* A part of a merged one. */
	cr_expect_str_eq(past("/acme", "web", RANGE ",\"points\":1", until - 10000000, until),
			 "10(exact partial)");
}

/* What was counted when the clock was first set back is missing after the second time. */
Test(history, a_clock_that_was_set_back_twice)
{
	uint64_t at[2] = {realtime_us() - 1000000000, now_ns() - 1000 * SECOND};

	anew();
	for (int i = 0; i < 3; i++, run(vm, 5))
		tick_at(at, 10, 10);
	tick_at(at, -21, 10);
	tick_at(at, 10, 10);
	tick_at(at, 10, 10);
	for (int i = 0; i < 3; i++) {
		run(vm, 5);
		tick_at(at, i ? 10 : 4, 10);
	}
	EXPECT_PAST("/acme", "web",
		    "0(exact partial) 5(exact partial) 5(exact partial) 5(exact partial) "
		    "5(exact partial) 5");
}

/* The session of one VM goes on with the next VM of that name, which is another row. */
Test(history, a_vm_that_starts_again_marks_its_interval)
{
	json_decref(must("{\"cmd\":\"attach\",\"events\":\"instructions\",\"scope\":\"none\","
			 "\"target\":\"web\",\"name\":\"one\",\"keep\":true}"));
	tick();
	run(vm, 5);
	tick();
	run(vm, 3);
	tenant_vm_remove(ts, vm);
	vm = add_vm("web");
	run(vm, 4);
	tick();
	EXPECT_PAST("/acme", "web", "0(exact partial) 5 3(exact partial)");
}

Test(history, a_foreign_file_is_not_read)
{
	char path[128];

	ATTACH("vms", "vm");
	tick();
	snprintf(path, sizeof(path), "%s.1", file);
	cr_assert_eq(chmod(path, 0622), 0);
	again();
	EXPECT_PAST("/acme", "web", "no series");
	cr_expect(strstr(notes, "not permitted"), "%s", notes);
}

/* Bytes that anybody could have written: nothing is read beyond them (with asan). */
Test(history, damaged_segments_are_cut)
{
	struct history_segment good = {.seq = 1}, bad;
	struct history_delta d[2] = {{.id = 0, .delta = 1ULL << 40}, {.id = 1, .delta = 3}};
	uint64_t state = 88172645463325252ULL;

	history_log_begin(&good, SECOND);
	for (uint32_t i = 0; i < 20; i++) {
		if (i < 2)
			cr_assert_eq(history_log_series(&good, "/a", i ? "v" : "",
							vpmu_key_generic(0, VPMU_KEY_USR),
							"cycles"),
				     i);
		if (i)
			history_log_tick(&good, &(struct history_tick){i + 1, 1, true}, d, 2);
	}
	for (int i = 0; i < 20000; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		bad = good;
		bad.buf = malloc(good.len);
		memcpy(bad.buf, good.buf, good.len);
		bad.buf[state % good.len] ^= (uint8_t)(1 + (state >> 32) % 255);
		history_log_check(&bad, SECOND);
		cr_expect_lt(bad.len, good.len);
		cr_expect_lt(bad.ticks, good.ticks);
		free(bad.buf);
	}
	free(good.buf);
}

/* ---- whose ---------------------------------------------------------------------------------- */

static json_t *as(const struct access *who, const char *line)
{
	char *answer = server_dispatch_conn(srv, who, line, strlen(line), NULL);
	json_t *obj = json_loads(answer, 0, NULL);

	free(answer);
	return obj;
}

Test(history, readers_see_theirs_and_add_nothing)
{
	static const struct access reader = {.uid = 1000, .tenants = {"/beta"}, .nr = 1};
	struct node *beta;
	json_t *a;

	cr_assert_eq(tenant_add(ts, "/beta", &beta, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(beta, &fake.s), 0);
	a = as(&reader, "{\"cmd\":\"attach\",\"events\":\"instructions\",\"name\":\"mine\","
			"\"target\":\"/beta\"}");
	cr_assert(json_is_true(json_object_get(a, "ok")));
	json_decref(a);
	tick();
	EXPECT_PAST("/beta", "", "no series");
	ATTACH("tenants", "tenant");
	tick();
	a = as(&reader, "{\"cmd\":\"history\"}");
	cr_expect(!json_object_get(a, "width_ns"), "it depends on what others count");
	cr_expect_str_eq(deltas(a, "/beta", ""), "0(exact partial)");
	cr_expect_eq(json_array_size(json_object_get(a, "series")), 1);
	json_decref(a);
}

Test(history, requests_that_are_wrong)
{
	static const char *const lines[] = {
		"{\"cmd\":\"history\",\"since\":5}",	 "{\"cmd\":\"history\",\"since\":\"-5\"}",
		"{\"cmd\":\"history\",\"until\":\"x\"}", "{\"cmd\":\"history\",\"scope\":\"vcpu\"}",
		"{\"cmd\":\"history\",\"points\":0}",	 "{\"cmd\":\"history\",\"session\":\"x\"}",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		json_t *a = ask(lines[i]);

		cr_expect_eq(json_integer_value(json_object_get(a, "errno")), EINVAL, "%s",
			     lines[i]);
		json_decref(a);
	}
}

/* ---- memory and time ------------------------------------------------------------------------ */

/* 1,000 VMs, 8 events, an hour: at most 32 MiB. Counts are as large as those of busy VMs. */
Test(history, memory_is_bounded)
{
	static const char events[] = "instructions,cycles,instructions:u,cycles:u,"
				     "instructions:k,cycles:k,instructions:H,cycles:H";
	uint64_t at_us = realtime_us() - 3600 * 1000000ULL;
	char line[400];
	struct node *vms[1000];
	size_t before, after;
	double ms = 0, begin;
	json_t *a;

	for (int i = 0; i < 1000; i++) {
		snprintf(line, sizeof(line), "vm-%d", i);
		vms[i] = add_vm(line);
	}
	snprintf(line, sizeof(line),
		 "{\"cmd\":\"attach\",\"events\":\"%s\",\"scope\":\"vm\",\"name\":\"a\","
		 "\"keep\":true}",
		 events);
	json_decref(must(line));
	before = mallinfo2().uordblks + mallinfo2().hblkhd;
	for (int t = 0; t < 360; t++) {
		for (int i = 0; i < 1000; i++)
			for (unsigned int e = 0; e < FAKE_EVENTS; e++)
				fake_charge(node_in(node_vcpu(vms[i], 0), &fake.s), e,
					    100000000000ULL + (uint64_t)(i * t));
		begin = 1e3 * clock_s(CLOCK_PROCESS_CPUTIME_ID);
		history_tick(h, at_us += 10000000, now_ns());
		ms += 1e3 * clock_s(CLOCK_PROCESS_CPUTIME_ID) - begin;
	}
	after = mallinfo2().uordblks + mallinfo2().hblkhd;
	printf("# 1000 VMs, 8 events, 1 h: %.1f MiB of malloc; %.2f ms CPU an interval\n",
	       (double)(after - before) / 1048576, ms / 360);
	cr_expect_leq(after - before, 32u << 20);
	cr_expect_eq(history_dropped(h), 0);
	begin = 1e3 * clock_s(CLOCK_PROCESS_CPUTIME_ID);
	a = must("{\"cmd\":\"history\",\"target\":\"vm-7\",\"events\":\"instructions\"}");
	printf("# one series of these: %.0f ms CPU\n",
	       1e3 * clock_s(CLOCK_PROCESS_CPUTIME_ID) - begin);
	cr_expect_geq(json_array_size(json_object_get(a, "times")), 355,
		      "an hour less a part of a segment is there");
	json_decref(a);
	a = ask("{\"cmd\":\"history\"}");
	cr_expect_eq(json_integer_value(json_object_get(a, "errno")), E2BIG);
	json_decref(a);
}
