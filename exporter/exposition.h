/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes Prometheus' exposition formats: the text format 0.0.4 and OpenMetrics 1.0. The caller
 * writes family after family, with all samples of each. Running out of memory is recorded: only
 * expo_end() reports whether the text is complete.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPO_MAX (64u << 20) /* bytes of one text; more counts as out of memory */

/* EXPO_JSON: the text is not from the functions below, which only end, free and label it. */
enum expo_form { EXPO_TEXT, EXPO_OPENMETRICS, EXPO_JSON };
enum expo_type { EXPO_COUNTER, EXPO_GAUGE, EXPO_INFO };

/* An empty text is all zero but for @form and @created. */
struct expo {
	enum expo_form form;
	bool created; /* OpenMetrics: write the start times of counters */
	char *text;   /* @len bytes */
	size_t len, room;
	bool failed;
	/* private: the family */
	const char *name;
	enum expo_type type;
};

/*
 * expo_family - begin family @name, a string that must live until the next one begins. Its samples
 * are named @name; @name_total for a counter, @name_info for an info. @unit: NULL, or the last part
 * of @name. @help: one line.
 */
void expo_family(struct expo *e, const char *name, enum expo_type type, const char *unit,
		 const char *help);

/*
 * expo_label - append label @name with value @value to the @len bytes at @buf, *@used of them in
 * use; the value is escaped, with ? for unprintable characters (vpmu/util/utf8.h). Returns false,
 * with nothing appended, if it does not fit. Pure.
 */
bool expo_label(char *buf, size_t len, size_t *used, const char *name, const char *value);

/*
 * Append a sample of the family. @labels: from expo_label(); "": none. expo_u64 - a number. expo_ns
 * - nanoseconds, written in seconds. @since_us: CLOCK_REALTIME at which a counter was 0; 0:
 * unknown.
 */
void expo_u64(struct expo *e, const char *labels, uint64_t v, uint64_t since_us);
void expo_ns(struct expo *e, const char *labels, uint64_t ns, uint64_t since_us);

/* expo_end - finish the text. Returns 0 or -ENOMEM. expo_fini - free it. */
int expo_end(struct expo *e);
void expo_fini(struct expo *e);

/* expo_content_type - return the value for HTTP's Content-Type. */
const char *expo_content_type(enum expo_form form);
