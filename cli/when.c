// SPDX-License-Identifier: GPL-2.0-or-later
/* Points in time as people type them; see when.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/when.h"

#define NS_PER_S 1000000000ULL
#define AGO_MAX	 1000000000ULL /* seconds */

/* Read exactly @n digits. Returns NULL if there are fewer, or if they exceed @max. */
static const char *when_digits(const char *p, int n, int max, int *out)
{
	*out = 0;
	for (; p && n; n--, p++) {
		if (*p < '0' || *p > '9')
			return NULL;
		*out = *out * 10 + (*p - '0');
	}
	return p && *out <= max ? p : NULL;
}

static const char *when_char(const char *p, char c)
{
	return p && *p == c ? p + 1 : NULL;
}

/* Read HH:MM[:SS]. */
static const char *when_clock(const char *p, struct tm *tm)
{
	p = when_digits(p, 2, 23, &tm->tm_hour);
	p = when_digits(when_char(p, ':'), 2, 59, &tm->tm_min);
	if (p && *p == ':')
		p = when_digits(p + 1, 2, 59, &tm->tm_sec);
	return p;
}

/* Read Z or +HH:MM. */
static const char *when_zone(const char *p, long *east_s)
{
	struct tm zone = {0};
	char sign = *p;

	if (sign == 'Z' || sign == 'z')
		return p + 1;
	if (sign != '+' && sign != '-')
		return NULL;
	p = when_digits(p + 1, 2, 23, &zone.tm_hour);
	p = when_digits(when_char(p, ':'), 2, 59, &zone.tm_min);
	*east_s = (sign == '+' ? 60L : -60L) * (zone.tm_hour * 60L + zone.tm_min);
	return p;
}

/* Digits after the seconds, as ns; those beyond ns are dropped. */
static const char *when_fraction(const char *p, uint64_t *ns)
{
	uint64_t unit = NS_PER_S / 10;

	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++, unit /= 10)
		*ns += (uint64_t)(*p - '0') * unit;
	return p;
}

/* False: @tm does not exist, as February 30, or is before 1970. */
static bool when_seconds(const struct tm *tm, bool utc, uint64_t *s)
{
	struct tm t = *tm;
	time_t at;

	t.tm_isdst = -1;
	at = utc ? timegm(&t) : mktime(&t);
	*s = (uint64_t)at;
	return at >= 0 && t.tm_mday == tm->tm_mday && t.tm_mon == tm->tm_mon &&
	       t.tm_hour == tm->tm_hour && t.tm_min == tm->tm_min;
}

static bool when_ago(const char *p, uint64_t now_ns, uint64_t *ns)
{
	uint64_t n = 0, unit;

	if (*p < '0' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9'; p++) {
		n = n * 10 + (uint64_t)(*p - '0');
		if (n > AGO_MAX)
			return false;
	}
	unit = *p == 's' ? 1 : *p == 'm' ? 60 : *p == 'h' ? 3600 : 0;
	if (!unit || p[1] || n * unit > now_ns / NS_PER_S)
		return false;
	*ns = now_ns - n * unit * NS_PER_S;
	return true;
}

/* The last HH:MM[:SS]: today or yesterday. */
static bool when_today(const struct tm *clock, uint64_t now_ns, uint64_t *ns)
{
	time_t now = (time_t)(now_ns / NS_PER_S);
	struct tm t;
	uint64_t s;

	for (int day = 0; day < 2; day++) {
		/* From noon: no clock change there makes a day more or less of it. */
		if (!localtime_r(&now, &t))
			return false;
		t.tm_mday -= day;
		t.tm_hour = 12;
		t.tm_min = t.tm_sec = 0;
		t.tm_isdst = -1;
		if (mktime(&t) < 0)
			return false;
		t.tm_hour = clock->tm_hour;
		t.tm_min = clock->tm_min;
		t.tm_sec = clock->tm_sec;
		if (when_seconds(&t, false, &s) && s * NS_PER_S <= now_ns) {
			*ns = s * NS_PER_S;
			return true;
		}
	}
	return false;
}

bool when_parse(const char *text, uint64_t now_ns, uint64_t *ns)
{
	struct tm tm = {0};
	const char *p, *rest;
	uint64_t s, part = 0;
	bool utc = false;
	long east_s = 0;

	if (!strcmp(text, "now")) {
		*ns = now_ns;
		return true;
	}
	if (*text == '-')
		return when_ago(text + 1, now_ns, ns);
	p = when_clock(text, &tm);
	if (p && !*p)
		return when_today(&tm, now_ns, ns);
	tm = (struct tm){0};
	p = when_digits(text, 4, 9999, &tm.tm_year);
	p = when_digits(when_char(p, '-'), 2, 12, &tm.tm_mon);
	p = when_digits(when_char(p, '-'), 2, 31, &tm.tm_mday);
	if (!p || (*p != ' ' && *p != 'T' && *p != 't'))
		return false;
	p = when_clock(p + 1, &tm);
	if (p && *p == '.')
		p = when_fraction(p + 1, &part);
	if (!p)
		return false;
	if (*p) {
		rest = when_zone(p, &east_s);
		if (!rest || *rest)
			return false;
		utc = true;
	}
	tm.tm_year -= 1900;
	tm.tm_mon--;
	if (!when_seconds(&tm, utc, &s) || (east_s > 0 && s < (uint64_t)east_s) ||
	    s > UINT64_MAX / NS_PER_S - 86400)
		return false;
	*ns = (uint64_t)((long long)s - east_s) * NS_PER_S + part;
	return true;
}

char *when_text(uint64_t ns, char buf[WHEN_LEN])
{
	time_t s = (time_t)(ns / NS_PER_S);
	struct tm tm;

	if (!localtime_r(&s, &tm) || !strftime(buf, WHEN_LEN, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(buf, WHEN_LEN, "%llu", (unsigned long long)(ns / NS_PER_S));
	return buf;
}
