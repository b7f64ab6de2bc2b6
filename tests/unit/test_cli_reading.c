// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/field.c, reading.c, terminal.c: fields of answers are checked whatever a server sends.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/field.h"
#include "cli/reading.h"
#include "cli/report.h"
#include "cli/terminal.h"

static void quiet(void)
{
	cr_assert(freopen("/dev/null", "w", stderr));
}

TestSuite(cli_fields, .init = quiet);
TestSuite(cli_reading, .init = quiet);

static json_t *json_of(const char *text)
{
	json_t *v = json_loads(text, 0, NULL);

	cr_assert(v, "%s", text);
	return v;
}

/* ---- fields ------------------------------------------------------------------------------- */

enum type { STRING, STRING_OR, U64, U64_OR, INT, BOOL, BOOL_OR, ARRAY };

static void read_field(struct fields *f, const json_t *o, enum type type)
{
	switch (type) {
	case STRING:
		field_string(f, o, "x");
		break;
	case STRING_OR:
		field_string_or(f, o, "x", NULL);
		break;
	case U64:
		field_u64(f, o, "x");
		break;
	case U64_OR:
		field_u64_or(f, o, "x", 0);
		break;
	case INT:
		field_int(f, o, "x", 10);
		break;
	case BOOL:
		field_bool(f, o, "x");
		break;
	case BOOL_OR:
		field_bool_or(f, o, "x", false);
		break;
	case ARRAY:
		field_array(f, o, "x");
	}
}

Test(cli_fields, types_are_checked)
{
	/* The types for which the object is right, as letters: s S u U i b B a, in the order of
	 * enum. */
	static const struct {
		int line;
		const char *object, *right;
	} row[] = {
		{__LINE__, "{}", "SUB"},
		{__LINE__, "{\"x\":null}", ""},
		{__LINE__, "{\"x\":\"\"}", "sS"},
		{__LINE__, "{\"x\":\"text\"}", "sS"},
		{__LINE__, "{\"x\":\"0\"}", "sSuU"},
		{__LINE__, "{\"x\":\"18446744073709551615\"}", "sSuU"},
		{__LINE__, "{\"x\":\"18446744073709551616\"}", "sS"},
		{__LINE__, "{\"x\":\"-1\"}", "sS"},
		{__LINE__, "{\"x\":\"+1\"}", "sS"},
		{__LINE__, "{\"x\":\" 1\"}", "sS"},
		{__LINE__, "{\"x\":\"1 \"}", "sS"},
		{__LINE__, "{\"x\":\"0x1\"}", "sS"},
		{__LINE__, "{\"x\":1}", "i"},
		{__LINE__, "{\"x\":10}", "i"},
		{__LINE__, "{\"x\":11}", ""},
		{__LINE__, "{\"x\":-1}", ""},
		{__LINE__, "{\"x\":1.0}", ""},
		{__LINE__, "{\"x\":true}", "bB"},
		{__LINE__, "{\"x\":[]}", "a"},
		{__LINE__, "{\"x\":{}}", ""},
		{__LINE__, "[]", "SUB"},
	};
	static const char letters[] = "sSuUibBa";

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		json_t *o = json_of(row[i].object);

		for (size_t t = 0; t < strlen(letters); t++) {
			struct fields f = {0};
			bool right = strchr(row[i].right, letters[t]) != NULL;

			read_field(&f, o, (enum type)t);
			cr_expect_eq(fields_ok(&f), right, "line %d, type %c", row[i].line,
				     letters[t]);
			cr_expect(right || strcmp(f.wrong, "x") == 0);
		}
		json_decref(o);
	}
}

Test(cli_fields, values_are_those_of_the_answer)
{
	json_t *o = json_of("{\"s\":\"web\",\"u\":\"18446744073709551615\",\"i\":7,\"b\":true,"
			    "\"a\":[1,2]}");
	struct fields f = {0};

	cr_expect_str_eq(field_string(&f, o, "s"), "web");
	cr_expect_eq(field_u64(&f, o, "u"), UINT64_MAX);
	cr_expect_eq(field_int(&f, o, "i", 7), 7);
	cr_expect(field_bool(&f, o, "b"));
	cr_expect_eq(json_array_size(field_array(&f, o, "a")), 2);
	cr_expect_str_eq(field_string_or(&f, o, "no", "none"), "none");
	cr_expect_eq(field_u64_or(&f, o, "no", 5), 5);
	cr_expect(field_bool_or(&f, o, "no", true));
	cr_expect(fields_ok(&f));
	/* The first wrong field is the one that is named, and a wrong value is harmless. */
	cr_expect_str_eq(field_string(&f, o, "i"), "");
	cr_expect_eq(field_u64(&f, o, "s"), 0);
	cr_expect_str_eq(f.wrong, "i");
	json_decref(o);
}

Test(cli_fields, addresses)
{
	json_t *v = json_of("[\"0x0\",\"0xffffffffffffffff\",null,\"0x10000000000000000\",\"0x\","
			    "\"12\",\"0x-1\",\"0x 1\",12,\"0xg\"]");
	uint64_t address = 1;
	struct fields f = {0};

	cr_expect(field_address(&f, json_array_get(v, 0), "ip", &address) && address == 0);
	cr_expect(field_address(&f, json_array_get(v, 1), "ip", &address) && address == UINT64_MAX);
	cr_expect(!field_address(&f, json_array_get(v, 2), "ip", &address));
	cr_expect(!f.wrong, "null is an address that is not known");
	for (size_t i = 3; i < json_array_size(v); i++) {
		f.wrong = NULL;
		cr_expect(!field_address(&f, json_array_get(v, i), "ip", &address));
		cr_expect(f.wrong && strcmp(f.wrong, "ip") == 0, "element %zu", i);
	}
	json_decref(v);
}

/* ---- readings ----------------------------------------------------------------------------- */

#define VALUE(count)                                                                               \
	"{\"count\":\"" count "\",\"enabled-ns\":\"100\",\"running-ns\":\"50\","                   \
	"\"quality\":\"exact\",\"supported\":true}"
#define ROW(id, kind, path, more, count)                                                           \
	"{\"row\":" id ",\"kind\":\"" kind "\",\"depth\":1,\"path\":\"" path "\"," more            \
	"\"gone\":false,\"values\":[" VALUE(count) "]}"
#define ANSWER(rows)                                                                               \
	"{\"session\":\"s\",\"target\":\"/\",\"scope\":\"tenant\",\"age-ns\":\"5\","               \
	"\"dropped\":\"0\",\"events\":[\"cycles\"],\"rows\":[" rows "]}"

static struct reading *parse(const char *text)
{
	json_t *answer = json_of(text);
	struct reading *r = reading_parse(answer);

	json_decref(answer);
	return r;
}

Test(cli_reading, rows_of_a_backend_stand_together_and_are_never_mixed)
{
	struct reading *before =
		parse(ANSWER(ROW("1", "tenant", "/a", "\"backend\":\"emulator\",", "10") "," ROW(
			"2", "tenant", "/a", "\"backend\":\"kvm\",",
			"1000") "," ROW("3", "tenant", "/a/b", "\"backend\":\"emulator\",", "7")));
	struct reading *now =
		parse(ANSWER(ROW("2", "tenant", "/a", "\"backend\":\"kvm\",", "1500") "," ROW(
			"1", "tenant", "/a", "\"backend\":\"emulator\",",
			"30") "," ROW("3", "tenant", "/a/b", "\"backend\":\"emulator\",", "8")));

	cr_assert(before && now);
	cr_expect_eq(reading_backends(before), 2);
	cr_expect_null(reading_backend(before));
	cr_expect_eq(before->rows[0].id, 1, "a parent comes before its child");
	cr_expect_eq(before->rows[1].id, 3);
	cr_expect_eq(before->rows[2].id, 2, "emulator comes before kvm");
	before->rows[1].v[0].age_ns = 9; /* these counts are in the difference */
	now->rows[2].v[0].age_ns = 8;
	reading_subtract(now, before);
	cr_expect_eq(now->rows[0].v[0].age_ns, 0);
	cr_expect_eq(now->rows[1].v[0].age_ns, 9);
	cr_expect_eq(now->rows[2].v[0].age_ns, 8);
	cr_expect_eq(now->rows[0].v[0].count, 20);
	cr_expect_eq(now->rows[1].v[0].count, 1);
	cr_expect_eq(now->rows[2].v[0].count, 500);
	reading_free(before);
	reading_free(now);
}

/* Only the interval in which something was found late lacks it. */
Test(cli_reading, late_in_one_interval)
{
	struct reading *a = parse(ANSWER(ROW("1", "tenant", "/a", "", "1"))),
		       *b = parse(ANSWER(ROW("1", "tenant", "/a", "\"late-ns\":\"7\",", "2"))),
		       *c = parse(ANSWER(ROW("1", "tenant", "/a", "\"late-ns\":\"7\",", "3")));

	cr_assert(a && b && c);
	strcpy(b->rows[0].v[0].quality, "late");
	strcpy(c->rows[0].v[0].quality, "tsc aged late");
	reading_subtract(c, b);
	cr_expect_eq(c->rows[0].late_ns, 0);
	cr_expect_str_eq(c->rows[0].v[0].quality, "tsc aged");
	reading_subtract(b, a);
	cr_expect_eq(b->rows[0].late_ns, 7);
	cr_expect_str_eq(b->rows[0].v[0].quality, "late");
	strcpy(a->rows[0].v[0].quality, "late");
	a->rows[0].late_ns = 6;
	reading_subtract(a, b);
	cr_expect_eq(a->rows[0].late_ns, 0);
	cr_expect_str_eq(a->rows[0].v[0].quality, "exact");
	reading_free(a);
	reading_free(b);
	reading_free(c);
}

Test(cli_reading, a_server_that_knows_no_backends)
{
	struct reading *r = parse(ANSWER(ROW("1", "tenant", "/a", "", "10")));

	cr_assert(r);
	cr_expect_eq(reading_backends(r), 1);
	cr_expect_null(reading_backend(r));
	reading_free(r);
	r = parse(ANSWER(ROW("1", "tenant", "/a", "\"backend\":\"emulator\",", "10")));
	cr_assert(r);
	cr_expect_str_eq(reading_backend(r), "emulator");
	reading_free(r);
	r = parse(ANSWER(""));
	cr_assert(r);
	cr_expect_eq(reading_backends(r), 0);
	cr_expect_null(reading_backend(r));
	reading_free(r);
}

#define TIMED(age, as_of, us, width, more)                                                         \
	"{\"session\":\"s\",\"target\":\"/\",\"scope\":\"tenant\",\"age-ns\":\"" age "\","         \
	"\"as-of-ns\":\"" as_of "\",\"as-of-us\":\"" us "\",\"width-ns\":\"" width "\"," more      \
	"\"dropped\":\"0\",\"events\":[\"cycles\"],\"rows\":[]}"

static void expect_moment(const struct moment *m, uint64_t ns, uint64_t width_ns)
{
	cr_expect(m->ns == ns && m->width_ns == width_ns, "%lu %lu, expected %lu %lu", m->ns,
		  m->width_ns, ns, width_ns);
}

Test(cli_reading, counts_are_of_the_time_between_two_readings)
{
	struct reading *before =
		parse(TIMED("3000", "10000", "77", "40",
			    "\"start-width-ns\":\"500\",\"cpus\":\"0\",\"metrics\":\"ipc\","));
	struct reading *now =
		parse(TIMED("5500", "12500", "79", "30", "\"start-width-ns\":\"500\","));
	struct reading *other = parse(TIMED("100", "12600", "80", "200", ""));
	struct reading *old = parse(ANSWER("")), *diff;

	cr_assert(before && now && other && old);
	diff = reading_difference(before, &(struct reading *){NULL});
	expect_moment(&diff->from, 7000, 500);
	expect_moment(&diff->to, 10000, 40);
	/* Both are freed, so they share no string. */
	cr_expect_str_eq(diff->cpus, "0");
	cr_expect_str_eq(diff->metrics, "ipc");
	cr_expect(diff->cpus != before->cpus && diff->metrics != before->metrics);
	reading_free(diff);
	reading_subtract(now, before);
	expect_moment(&now->from, 10000, 40);
	expect_moment(&now->to, 12500, 30);
	cr_expect_float_eq(reading_seconds(now), 2.5e-6, 1e-12);
	reading_subtract(other, before); /* of a later session of the same name */
	expect_moment(&other->from, 12500, UINT64_MAX);
	/* Of two targets: both are within the sum's times; the start of one is unknown. */
	reading_merge(now, other);
	expect_moment(&now->to, 12600, 200);
	expect_moment(&now->from, 12500, UINT64_MAX);
	cr_expect_eq(now->to_us, 80);
	/* Without times, only their difference. */
	cr_expect_eq(old->to_us, 0);
	cr_expect_float_eq(reading_seconds(old), 5e-9, 1e-15);
	reading_free(before);
	reading_free(now);
	reading_free(old);
}

#define ONE(count, enabled, running, supported)                                                    \
	ANSWER("{\"row\":1,\"kind\":\"tenant\",\"depth\":1,\"path\":\"/"                           \
	       "a\",\"values\":[{\"count\":\"" count "\",\"enabled-ns\":\"" enabled                \
	       "\",\"running-ns\":\"" running "\",\"quality\":\"exact\",\"supported\":" supported  \
	       "}]}")

/* The value of an interval between two readings. */
static struct val between(const char *first, const char *then, bool *counted)
{
	struct reading *before = parse(first), *now = parse(then);
	struct val v;

	cr_assert(before && now);
	reading_subtract(now, before);
	v = now->rows[0].v[0];
	*counted = val_counted(&now->rows[0], &v);
	reading_free(before);
	reading_free(now);
	return v;
}

Test(cli_reading, no_difference_is_below_0)
{
	bool counted;
	struct val v =
		between(ONE("5", "100", "60", "true"), ONE("9", "300", "160", "true"), &counted);

	cr_expect(counted && v.count == 4 && v.enabled_ns == 200 && v.running_ns == 100);
	cr_expect_str_eq(v.quality, "exact");
	/* No counter all the time: that is no count of 0. */
	v = between(ONE("5", "100", "60", "true"), ONE("5", "200", "59", "true"), &counted);
	cr_expect(!counted && v.enabled_ns == 100 && v.running_ns == 0);
	/* An event that can be counted no more has no values. */
	v = between(ONE("5", "100", "60", "true"), ONE("0", "0", "0", "false"), &counted);
	cr_expect(!counted && !v.count && !v.enabled_ns && !v.running_ns);
	/* It began anew: what it had counted by then is missing. */
	v = between(ONE("500", "100", "100", "true"), ONE("5", "200", "200", "true"), &counted);
	cr_expect(counted && v.count == 0 && v.enabled_ns == 100);
	cr_expect_str_eq(v.quality, "partial");
}

#define UNSUPPORTED(rows, list)                                                                    \
	"{\"session\":\"s\",\"target\":\"/\",\"scope\":\"tenant\",\"age-ns\":\"5\","               \
	"\"dropped\":\"0\",\"events\":[\"cycles\"],\"rows\":[" rows "],\"unsupported\":" list "}"
#define CANNOT(backend, why)                                                                       \
	"{\"backend\":\"" backend "\",\"event\":\"cycles\",\"why\":\"" why "\"}"

Test(cli_reading, why_an_event_is_not_supported)
{
	struct reading *r =
		parse(UNSUPPORTED(ROW("1", "tenant", "/a", "\"backend\":\"emulator\",", "10"),
				  "[" CANNOT("emulator", "no reason") "]"));
	struct reading *other = parse(UNSUPPORTED(
		ROW("2", "tenant", "/b", "\"backend\":\"kvm\",", "10"),
		"[" CANNOT("kvm", "no PMU") "," CANNOT("emulator", "another reason") "]"));
	struct reading *before = NULL, *diff;

	cr_assert(r && other);
	cr_expect_null(reading_why(r, &r->rows[0], 0), "it is supported");
	r->rows[0].v[0].supported = other->rows[0].v[0].supported = false;
	cr_expect_str_eq(reading_why(r, &r->rows[0], 0), "no reason");
	/* Several targets show each reason once, and so do intervals. */
	reading_merge(r, other);
	cr_expect_eq(r->nr_unsupported, 2);
	cr_expect_str_eq(reading_why(r, &r->rows[0], 0), "no reason");
	cr_expect_str_eq(reading_why(r, &r->rows[1], 0), "no PMU");
	diff = reading_difference(r, &before);
	cr_assert(diff);
	cr_expect_eq(diff->nr_unsupported, 2);
	cr_expect_str_eq(reading_why(diff, &diff->rows[1], 0), "no PMU");
	reading_free(diff);
	reading_free(before);
}

Test(cli_reading, wrong_answers)
{
	static const struct {
		int line;
		const char *text;
	} row[] = {
		{__LINE__, "{}"},
		{__LINE__, ANSWER("1")},
		{__LINE__, ANSWER("{}")},
		{__LINE__, ANSWER(ROW("1", "pod", "/a", "", "1"))},
		{__LINE__, ANSWER(ROW("1", "vm", "/a", "", "1"))}, /* without its name */
		{__LINE__, ANSWER(ROW("1", "vcpu", "/a", "\"vm\":\"v\",", "1"))},
		{__LINE__, ANSWER(ROW("1", "tenant", "a", "", "1"))},
		{__LINE__, ANSWER(ROW("-1", "tenant", "/a", "", "1"))},
		{__LINE__, ANSWER(ROW("281474976710656", "tenant", "/a", "", "1"))},
		{__LINE__, ANSWER(ROW("1", "tenant", "/a", "", "-1"))},
		{__LINE__, ANSWER(ROW("1", "tenant", "/a", "", "x"))},
		{__LINE__, ANSWER(ROW("1", "tenant", "/a", "\"backend\":1,", "1"))},
		{__LINE__, ANSWER(ROW("1", "tenant", "/a", "\"error\":false,", "1"))},
		{__LINE__, ANSWER("{\"row\":1,\"kind\":\"root\",\"depth\":256,\"path\":\"/\","
				  "\"values\":[" VALUE("1") "]}")},
		{__LINE__, ANSWER("{\"row\":1,\"kind\":\"root\",\"depth\":0,\"path\":\"/\","
				  "\"values\":[]}")},
		{__LINE__, ANSWER("{\"row\":1,\"kind\":\"root\",\"depth\":0,\"path\":\"/\","
				  "\"values\":[" VALUE("1") "," VALUE("1") "]}")},
		{__LINE__, UNSUPPORTED("", "{}")},
		{__LINE__, UNSUPPORTED("", "[1]")},
		{__LINE__, UNSUPPORTED("", "[{\"backend\":\"emulator\",\"event\":\"cycles\"}]")},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct reading *r = parse(row[i].text);

		cr_expect_null(r, "line %d", row[i].line);
		reading_free(r);
	}
}

/* A session that has gone on over 65,536 servers. */
Test(cli_reading, numbers_of_rows_can_be_large)
{
	struct reading *before = parse(ANSWER(ROW("8589934593", "tenant", "/a", "", "10")));
	struct reading *now = parse(ANSWER(ROW("8589934593", "tenant", "/a", "", "30") "," ROW(
		"4294967297", "tenant", "/b", "", "5")));

	cr_assert(before && now);
	reading_subtract(now, before);
	for (size_t i = 0; i < now->nr_rows; i++)
		cr_expect_eq(now->rows[i].v[0].count, now->rows[i].id == 8589934593 ? 20 : 5);
	reading_free(before);
	reading_free(now);
}

/* Every byte of a good answer, changed: a reading or an error, nothing else. */
Test(cli_reading, damaged_answers)
{
	static const char good[] = ANSWER(
		ROW("1", "vcpu", "/a", "\"vm\":\"v\",\"vcpu\":3,\"backend\":\"kvm\",", "10"));
	static const char other[] = "\"0-[]{}ax,:";
	char text[sizeof(good)];

	for (size_t i = 0; i < strlen(good); i++) {
		for (size_t k = 0; k < strlen(other); k++) {
			struct reading *r = NULL;
			json_t *answer;

			memcpy(text, good, sizeof(good));
			text[i] = other[k];
			answer = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
			if (answer)
				r = reading_parse(answer);
			json_decref(answer);
			for (size_t n = 0; r && n < r->nr_rows; n++)
				cr_expect(r->rows[n].path[0] == '/' && r->rows[n].vm);
			reading_free(r);
		}
	}
}

Test(cli_reading, words_of_quality_are_added_once)
{
	static const struct {
		int line;
		bool any;
		const char *more, *want;
	} row[] = {
		{__LINE__, false, "", ""},
		{__LINE__, false, "ok", ""},
		{__LINE__, false, " exact  ok ", ""},
		{__LINE__, true, "partial", "partial"},
		{__LINE__, true, "ok part partial", "partial part"},
		{__LINE__, true, "a-word-for-which-there-is-no-more-room", "partial part"},
		{__LINE__, true, "artial", "partial part artial"},
		/* Up to the last byte. */
		{__LINE__, true, "123456789-123456789-1234567",
		 "partial part artial 123456789-123456789-1234567"},
		{__LINE__, true, "x", "partial part artial 123456789-123456789-1234567"},
	};
	char all[QUALITY_LEN] = "";

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		cr_expect_eq(quality_add(all, row[i].more), row[i].any, "line %d", row[i].line);
		cr_expect_str_eq(all, row[i].want, "line %d: %s", row[i].line, all);
	}
}

/* ---- the data of a report ------------------------------------------------------------------- */

/* The series @event of VM @vm (NULL: of the tenant): its deltas as JSON; NULL: there is none. */
static char *deltas_of(const json_t *list, const char *vm, const char *event)
{
	const json_t *s;
	size_t i;

	json_array_foreach (list, i, s) {
		const char *its = json_string_value(json_object_get(s, "vm"));

		if ((its && vm ? !strcmp(its, vm) : its == vm) &&
		    !strcmp(json_string_value(json_object_get(s, "event")), event))
			return json_dumps(json_object_get(s, "delta"), JSON_COMPACT);
	}
	return NULL;
}

/* Two intervals of a tenant, of a VM that halts in the second one, and of a VM without a known
 * vCPU.
 */
Test(cli_reading, a_report_has_no_cpu_time_of_a_vm_without_a_known_vcpu)
{
#define COUNTED(id, vm, n, ns)                                                                     \
	"{\"row\":" id ",\"kind\":\"vm\",\"depth\":1,\"path\":\"/a\",\"vm\":" vm                   \
	",\"backend\":\"kvm\",\"gone\":false,\"values\":[{\"count\":\"" n                          \
	"\",\"enabled-ns\":\"" ns "\",\"running-ns\":\"" ns                                        \
	"\",\"quality\":\"exact\",\"supported\":true}]}"
#define INTERVAL(n, ns)                                                                            \
	parse(ANSWER(ROW("1", "tenant", "/a", "\"backend\":\"kvm\",", "0") "," COUNTED(            \
		"2", "\"web\"", n, ns) "," COUNTED("3", "\"db\"", "0", "0")))
	static const struct {
		int line;
		const char *vm, *event, *want;
	} row[] = {
		{__LINE__, "web", "cpu-time", "[400,0]"},
		{__LINE__, "web", "cycles", "[900,0]"},
		{__LINE__, "db", "cpu-time", "[null,null]"},
		{__LINE__, "db", "cycles", "[null,null]"},
		{__LINE__, NULL, "cpu-time", "[100,100]"},
	};
	struct reading *r[2] = {INTERVAL("900", "400"), INTERVAL("0", "0")};
	struct report_data d;
	json_t *list;

	report_data_init(&d);
	for (int i = 0; i < 2; i++)
		report_data_add(&d, (uint64_t)i + 1, &r[i], 1);
	list = report_data_end(&d);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char *got = deltas_of(list, row[i].vm, row[i].event);

		cr_expect_str_eq(got ? got : "none", row[i].want, "line %d: %s", row[i].line,
				 got ? got : "none");
		free(got);
	}
	json_decref(list);
	report_data_fini(&d);
	reading_free(r[0]);
	reading_free(r[1]);
}

/* A VM that starts again is a new row of the same name: one series, of which no interval is lost.
 */
Test(cli_reading, a_report_has_one_series_of_a_vm_that_starts_again)
{
	struct reading *r[3] = {
		parse(ANSWER(COUNTED("2", "\"web\"", "900", "400"))),
		parse(ANSWER(COUNTED("2", "\"web\"", "50", "30") "," COUNTED("4", "\"web\"", "70",
									     "60"))),
		parse(ANSWER(COUNTED("4", "\"web\"", "10", "10"))),
	};
	struct report_data d;
	json_t *list;
	char *got;

	report_data_init(&d);
	for (int i = 0; i < 3; i++)
		report_data_add(&d, (uint64_t)i + 1, &r[i], 1);
	list = report_data_end(&d);
	cr_expect_eq(json_array_size(list), 2); /* cpu-time, cycles */
	got = deltas_of(list, "web", "cycles");
	cr_expect_str_eq(got, "[900,120,10]");
	free(got);
	got = deltas_of(list, "web", "cpu-time");
	cr_expect_str_eq(got, "[400,90,10]");
	free(got);
	json_decref(list);
	report_data_fini(&d);
	for (int i = 0; i < 3; i++)
		reading_free(r[i]);
}

/* ---- text for a terminal ------------------------------------------------------------------ */

Test(cli_terminal, what_a_terminal_acts_on_is_replaced)
{
	static const struct {
		int line;
		const char *text, *want;
	} row[] = {
		{__LINE__, "", ""},
		{__LINE__, "web-1 ~", "web-1 ~"},
		{__LINE__, "a\x1b[31mb\x7f", "a?[31mb?"},
		{__LINE__, "caf\xc3\xa9 \xe4\xb8\xad", "caf\xc3\xa9 \xe4\xb8\xad"},
		{__LINE__,
		 "\xc2\x9b"
		 "31m",
		 "?31m"},			    /* U+009B: CSI */
		{__LINE__, "\xc2\xa0", "\xc2\xa0"}, /* U+00A0 */
		{__LINE__,
		 "a\xe2\x80\xae"
		 "b",
		 "a?b"},				      /* U+202E: right to left */
		{__LINE__, "\xe2\x81\xa6\xe2\x80\x8f", "??"}, /* U+2066, U+200F */
		{__LINE__, "\xe2\x80\x94", "\xe2\x80\x94"},   /* U+2014: a dash */
		{__LINE__, "\xd8\x9c", "?"},		      /* U+061C */
		{__LINE__, "cut \xe2\x80", "cut \xe2\x80"},
		{__LINE__, "cut \xc2", "cut \xc2"},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		char buf[64];

		strcpy(buf, row[i].text);
		cr_expect_str_eq(terminal_safe(buf), row[i].want, "line %d", row[i].line);
		cr_expect_eq(terminal_is_safe(row[i].text), strcmp(row[i].text, row[i].want) == 0,
			     "line %d", row[i].line);
	}
}
