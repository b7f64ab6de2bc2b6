// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The exporter's scanner beside jansson: values that both must read alike, text that both must
 * refuse, and rows with random bytes changed, which must not be read beyond their end (ASan).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/answer.h"
#include "exporter/scan.h"

Test(scan, strings)
{
	static const char *const texts[] = {
		"\"\"",
		"\"abc\"",
		"\"a\\\"b\\\\c\\/d\\b\\f\\n\\r\\t\"",
		"\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00z\"",
		"\"\xc3\xa9\"",
		"\"\\ud83d\"",
		"\"\\ud83d\\u0041\"",
		"\"\\ude00\"",
		"\"\\u0000\"",
		"\"\\u12g4\"",
		"\"\\u12\"",
		"\"\\x\"",
		"\"\\",
		"\"a",
		"\"",
		"a",
		"\"\n\"",
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		json_t *j = json_loads(texts[i], JSON_DECODE_ANY, NULL);
		char *text = strdup(texts[i]), *p = text, *s = NULL;
		bool ok = scan_string(&p, &s);

		cr_expect_eq(ok, j != NULL, "%s", texts[i]);
		cr_expect(!ok || (!strcmp(s, json_string_value(j)) && !*p), "%s", texts[i]);
		free(text);
		json_decref(j);
	}
}

Test(scan, numbers)
{
	static const struct {
		const char *text;
		bool ok;
		uint64_t v;
	} rows[] = {
		{"0", true, 0},
		{"\"18446744073709551615\"", true, UINT64_MAX},
		{"\"18446744073709551616\"", false, 0},
		{"12,", true, 12},
		{"12.5", false, 0},
		{"1e3", false, 0},
		{"-1", false, 0},
		{"\"\"", false, 0},
		{"\"1 \"", false, 0},
		{"\"1", false, 0},
		{"true", false, 0},
		{"", false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char *text = strdup(rows[i].text), *p = text;
		uint64_t v = 0;
		bool ok = scan_u64(&p, &v);

		cr_expect_eq(ok, rows[i].ok, "%s", rows[i].text);
		cr_expect(!ok || v == rows[i].v, "%s", rows[i].text);
		free(text);
	}
}

#define VALUE                                                                                      \
	"{\"count\":\"7\",\"enabled-ns\":2,\"running-ns\":\"1\",\"supported\":true,"               \
	"\"quality\":\"exact\",\"new\":[{\"a\":[1,\"]}\\\"\"]},null]}"
#define ROW                                                                                        \
	"{\"row\":1,\"since-us\":\"5\",\"backend\":\"p\",\"kind\":\"vm\",\"path\":\"/\\u0041\","   \
	"\"vm\":\"a\\\"b\",\"new\":{\"rows\":[]},\"gone\":true,\"values\":[" VALUE "," VALUE "]}"
#define READ                                                                                       \
	"{\"ok\":true, \"x\":{\"rows\":[1]} , \"rows\" : [" ROW " , " ROW "],\"dropped\":\"3\"}"

static int rows_of(const char *text, size_t len, struct answer_row **rows, size_t *nr)
{
	char *line = malloc(len + 1);
	json_t *read;
	int ret;

	memcpy(line, text, len);
	line[len] = '\0';
	read = answer_parse(line, len);
	ret = answer_rows(read, 2, rows, nr);
	json_decref(read);
	free(line);
	return ret;
}

Test(scan, rows)
{
	char line[] = READ;
	struct answer_row *r;
	json_t *read;
	size_t nr;

	cr_assert_eq(rows_of(READ, strlen(READ), &r, &nr), 0);
	cr_assert_eq(nr, 2);
	for (size_t i = 0; i < nr; i++) {
		cr_expect(r[i].id == 1 && r[i].since_us == 5 && r[i].gone && !r[i].root);
		cr_expect_str_eq(r[i].path, "/A");
		cr_expect_str_eq(r[i].vm, "a\"b");
		cr_expect_null(r[i].error);
		for (size_t v = 0; v < 2; v++) {
			const struct answer_value *x = &r[i].values[v];

			cr_expect(x->count == 7 && x->enabled_ns == 2 && x->running_ns == 1);
			cr_expect(x->supported && !x->age_ns);
			cr_expect_str_eq(x->quality, "exact");
		}
	}
	free(r);
	read = answer_parse(line, strlen(line));
	cr_expect_str_eq(json_string_value(json_object_get(read, "dropped")), "3");
	json_decref(read);
	cr_assert_eq(rows_of("{\"rows\":[]}", 11, &r, &nr), 0);
	cr_expect_eq(nr, 0);
	free(r);
}

Test(scan, rows_with_changed_bytes)
{
	static const char bytes[] = "\"\\{}[],:0u \t\x01\x80z";
	unsigned int taken = 0, refused = 0;
	char *text = strdup(READ);
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i++) {
		for (size_t b = 0; b < sizeof(bytes); b++) {
			struct answer_row *r = NULL;
			char kept = text[i];
			size_t nr;

			text[i] = bytes[b];
			if (rows_of(text, len, &r, &nr)) {
				refused++;
				cr_assert_null(r);
			} else {
				taken++;
			}
			free(r);
			text[i] = kept;
		}
		for (size_t cut = 0; cut < 2; cut++) {
			struct answer_row *r = NULL;
			size_t nr;

			cr_assert(rows_of(text + (cut ? i + 1 : 0), cut ? len - i - 1 : i, &r, &nr),
				  "cut at %zu", i);
		}
	}
	free(text);
	cr_expect(taken > 100 && refused > 3000, "%u taken, %u refused", taken, refused);
}
