// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exporter/: the form of the text that scrapers get, the one that they accept, and users, whose
 * hashes and passwords are wiped. test_exporter.c has what is in the text.
 */
#include <criterion/criterion.h>
#include <crypt.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "exporter/exposition.h"
#include "exporter/http.h"
#include "exporter/users.h"

/* ---- the form ------------------------------------------------------------------------------- */

static void text_of(struct expo *e, char *buf, size_t len)
{
	cr_assert_eq(expo_end(e), 0);
	cr_assert_lt(e->len, len);
	memcpy(buf, e->text, e->len);
	buf[e->len] = '\0';
	expo_fini(e);
}

static void write_three(struct expo *e)
{
	expo_family(e, "a_seconds", EXPO_COUNTER, "seconds", "Help.");
	expo_ns(e, "x=\"1\"", 1234567891, 1700000000000001);
	expo_family(e, "b", EXPO_GAUGE, NULL, "Help.");
	expo_u64(e, "", 18446744073709551615ULL, 5);
	expo_family(e, "c", EXPO_INFO, NULL, "Help.");
	expo_u64(e, "v=\"2\"", 1, 0);
}

Test(exposition, the_two_forms)
{
	struct expo text = {.form = EXPO_TEXT, .created = true};
	struct expo open = {.form = EXPO_OPENMETRICS, .created = true};
	char buf[1000];

	write_three(&text);
	text_of(&text, buf, sizeof(buf));
	cr_assert_str_eq(buf, "# HELP a_seconds_total Help.\n# TYPE a_seconds_total counter\n"
			      "a_seconds_total{x=\"1\"} 1.234567\n"
			      "# HELP b Help.\n# TYPE b gauge\nb 18446744073709551615\n"
			      "# HELP c_info Help.\n# TYPE c_info gauge\nc_info{v=\"2\"} 1\n");
	write_three(&open);
	text_of(&open, buf, sizeof(buf));
	cr_assert_str_eq(buf, "# HELP a_seconds Help.\n# TYPE a_seconds counter\n"
			      "# UNIT a_seconds seconds\n"
			      "a_seconds_total{x=\"1\"} 1.234567\n"
			      "a_seconds_created{x=\"1\"} 1700000000.000001\n"
			      "# HELP b Help.\n# TYPE b gauge\nb 18446744073709551615\n"
			      "# HELP c Help.\n# TYPE c info\nc_info{v=\"2\"} 1\n# EOF\n");
}

Test(exposition, labels_are_escaped_or_do_not_fit)
{
	char buf[64] = "";
	size_t used = 0;

	cr_assert(expo_label(buf, sizeof(buf), &used, "a", "q\"b\\c\nd\x80\xc3\xa4"));
	cr_assert_str_eq(buf, "a=\"q\\\"b\\\\c?d?\xc3\xa4\"");
	cr_assert(expo_label(buf, sizeof(buf), &used, "b", ""));
	cr_assert_str_eq(buf + used - 5, ",b=\"\"");
	for (size_t len = 0; len < used + 8; len++) {
		char small[64];
		size_t at = used;

		memcpy(small, buf, used + 1);
		cr_assert_not(expo_label(small, len, &at, "c", "1234"), "%zu", len);
		cr_assert_eq(at, used);
		cr_assert_str_eq(small, buf);
	}
}

Test(accept, forms)
{
	static const struct {
		const char *accept;
		enum expo_form want;
	} row[] = {
		{NULL, EXPO_TEXT},
		{"", EXPO_TEXT},
		{"*/*", EXPO_TEXT},
		{"text/plain", EXPO_TEXT},
		{"application/openmetrics-text", EXPO_OPENMETRICS},
		{"application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
		 "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
		 EXPO_OPENMETRICS}, /* Prometheus 2.42 */
		{"text/plain;version=0.0.4;q=0.5, Application/OpenMetrics-Text ; q=0.4", EXPO_TEXT},
		{"application/openmetrics-text; version=0.0.1", EXPO_TEXT},
		{"application/openmetrics-text;version=2.0.0,text/plain;q=0.1", EXPO_TEXT},
		{"application/openmetrics-text;q=0", EXPO_TEXT},
		{"application/openmetrics-text;q=1.5", EXPO_TEXT},
		{"application/openmetrics-text;q=x", EXPO_TEXT},
		{",,;;=,q=;application/openmetrics-text", EXPO_TEXT},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		cr_assert_eq(accept_form(row[i].accept), row[i].want, "%s", row[i].accept);
	cr_assert(accept_gzip("gzip"));
	cr_assert(accept_gzip("br, GZIP;q=0.1"));
	cr_assert(accept_gzip("*"));
	cr_assert_not(accept_gzip(NULL));
	cr_assert_not(accept_gzip("identity"));
	cr_assert_not(accept_gzip("*;q=0"));
	cr_assert_not(accept_gzip("*, gzip;q=0"));
	cr_assert_not(accept_gzip("gzip;q=0.000"));
}

/* ---- users ---------------------------------------------------------------------------------- */

/* A cheap hash of @password. */
static const char *crypt_of(const char *password)
{
	static struct crypt_data data;

	return crypt_r(password, "$6$rounds=1000$aaaaaaaa$", &data);
}

static struct users *users_of(const char *text)
{
	struct users *u = NULL;
	char err[300] = "";

	cr_assert_eq(users_text("users", text, strlen(text), &u, err, sizeof(err)), 0, "%s", err);
	return u;
}

Test(users, right_and_wrong_passwords)
{
	char text[1000];
	struct users *u;

	snprintf(text, sizeof(text), "# who\n\nprom:%s\n", crypt_of("secret"));
	u = users_of(text);
	cr_assert_eq(users_check(u, "prom", "secret", 0), 1);
	cr_assert_eq(users_check(u, "prom", "Secret", 0), 0);
	cr_assert_eq(users_check(u, "prom", "", 0), 0);
	cr_assert_eq(users_check(u, "prometheus", "secret", 0), 0);
	/* So many in one second; the right one is known and needs no hash. */
	cr_assert_eq(users_check(u, "prom", "x", 0), -EAGAIN);
	cr_assert_eq(users_check(u, "prom", "secret", 0), 1);
	cr_assert_eq(users_check(u, "prom", "x", 1000000000), 0);
	cr_assert_eq(users_check(u, "prom", "secretive", 1000000000), 0);
	users_free(u);
}

Test(users, files_that_are_refused)
{
	static const char *const bad[] = {"",	     "prom\n",	      ":x\n",
					  "prom:\n", "prom:secret\n", "prom:aa0123456789.\n",
					  "# prom\n"};
	char err[300], twice[600], hash[200];
	struct users *u;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(users_text("f", bad[i], strlen(bad[i]), &u, err, sizeof(err)), -EINVAL,
			     "%s", bad[i]);
		cr_assert_eq(strncmp(err, "f:", 2), 0, "%s", err);
	}
	snprintf(hash, sizeof(hash), "%s", crypt_of("a"));
	snprintf(twice, sizeof(twice), "a:%s\na:%s\n", hash, hash);
	cr_assert_eq(users_text("f", twice, strlen(twice), &u, err, sizeof(err)), -EINVAL);
	cr_assert_eq(users_text("f", "a:\0b", 4, &u, err, sizeof(err)), -EINVAL);
}

/* A user with a hash, and the password of that: nowhere in this program once each byte stands for
 * another one. The parts that are searched are behind what free() overwrites. */
#define HIDE 0x80
enum { BEHIND = 40, PART = 40 };
static unsigned char hidden_user[] =
	"prom:$6$rounds=1000$Tq3kZ8vW$22hOaj4XxcMJbsf2Xe8f.HVyamZXx0aEEvJj4ib8Cnw/PBbgTJLksrjjDeo"
	"L3jGW.veagiENWAcpYoaqqeLgb.";
static unsigned char hidden_password[] =
	"u8jzPde0IgxLd6GncfBAepfJBd0Kh8oOOL8dKLzdocJ2isAjIhKtJ0RlgLKOmxgJTeKdNnFRx5Rq9sWm2TzK";

/* In how many places of this process's memory the part of a hidden text is. */
static unsigned int found_places(const unsigned char *text)
{
	enum { CHUNK = 1 << 20 };
	unsigned char *buf =
		mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned int found = 0;
	const unsigned long huge = 1ul << 36; /* a sanitizer's shadow of the whole address space */
	unsigned long from, to;
	char line[400], mode[5];

	text += BEHIND;
	cr_assert(buf != MAP_FAILED && mem >= 0 && maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %4s", &from, &to, mode) != 3 || mode[1] != 'w' ||
		    to - from >= huge || from == (unsigned long)buf)
			continue;
		for (; from < to; from += CHUNK - PART) {
			ssize_t n = pread(mem, buf, CHUNK, (off_t)from);

			for (ssize_t i = 0; i + PART <= n; i++) {
				const unsigned char *first =
					memchr(buf + i, text[0] ^ HIDE, (size_t)(n - i));
				int k = 0;

				if (!first || (i = first - buf) + PART > n)
					break;

				while (k < PART && buf[i + k] == (text[k] ^ HIDE))
					k++;
				found += k == PART && i < CHUNK - PART;
			}
			if (n < CHUNK)
				break;
		}
	}
	fclose(maps);
	close(mem);
	munmap(buf, CHUNK);
	return found;
}

static void hide(unsigned char *text, size_t size, int fd)
{
	for (size_t i = 0; i + 1 < size; i++) {
		cr_assert(fd < 0 || write(fd, &text[i], 1) == 1);
		text[i] ^= HIDE;
	}
}

/* Nothing is left of the file and of passwords but the users. */
Test(users, secrets_are_wiped)
{
	char path[] = "/tmp/vpmu-users-XXXXXX", err[300] = "", given[sizeof(hidden_password)];
	int fd = mkstemp(path);
	struct users *u;

	cr_assert_geq(fd, 0);
	hide(hidden_user, sizeof(hidden_user), fd);
	hide(hidden_password, sizeof(hidden_password), -1);
	close(fd);
	cr_expect_eq(found_places(hidden_user), 0);
	cr_expect_eq(found_places(hidden_password), 0);
	cr_assert_eq(users_read(path, &u, err, sizeof(err)), 0, "%s", err);
	cr_expect_eq(found_places(hidden_user), 1, "the user's: %u", found_places(hidden_user));
	for (size_t i = 0; i < sizeof(given); i++)
		given[i] = (char)(i + 1 < sizeof(given) ? hidden_password[i] ^ HIDE : 0);
	cr_assert_eq(users_check(u, "prom", given, 0), 1);
	explicit_bzero(given, sizeof(given));
	cr_expect_eq(found_places(hidden_password), 1, "%u", found_places(hidden_password));
	users_free(u);
	cr_expect_eq(found_places(hidden_user), 0, "%u", found_places(hidden_user));
	cr_expect_eq(found_places(hidden_password), 0, "%u", found_places(hidden_password));
	unlink(path);
}
