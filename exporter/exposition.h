/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Text for Prometheus, in both of its forms: the text format 0.0.4 and OpenMetrics 1.0. The caller
 * writes family after family, and of each family all samples. Memory that runs out is remembered:
 * only expo_end says whether the text is whole.
 */
#ifndef EXPORTER_EXPOSITION_H
#define EXPORTER_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPO_MAX (64u << 20) /* bytes of one text; more is no memory */

enum expo_form { EXPO_TEXT, EXPO_OPENMETRICS };
enum expo_type { EXPO_COUNTER, EXPO_GAUGE, EXPO_INFO };

/* All 0 but @form and @created is an empty text. */
struct expo {
	enum expo_form form;
	bool created; /* OpenMetrics: say of counters when they began */
	char *text;   /* @len bytes */
	size_t len, room;
	bool failed;
	/* private: the family */
	const char *name;
	enum expo_type type;
};

/*
 * expo_family - begin family @name, which lives until the next one begins. Its samples are called
 * @name, of a counter @name_total, of an info @name_info. @unit: NULL, or the last part of @name.
 * @help: one line.
 */
void expo_family(struct expo *e, const char *name, enum expo_type type, const char *unit,
		 const char *help);

/*
 * expo_label - append label @name with value @value to the @len bytes at @buf, of which *used are
 * in use; the value is escaped, with ? for what may not be shown (vpmu/util/utf8.h). False: it does
 * not fit, and nothing was appended. Pure.
 */
bool expo_label(char *buf, size_t len, size_t *used, const char *name, const char *value);

/*
 * A sample of the family: @labels is what expo_label wrote ("": none). expo_u64 - a number.
 * expo_ns - seconds. @since_us: of a counter, CLOCK_REALTIME when it was 0; 0: not said.
 */
void expo_u64(struct expo *e, const char *labels, uint64_t v, uint64_t since_us);
void expo_ns(struct expo *e, const char *labels, uint64_t ns, uint64_t since_us);

/* expo_end - the last line. 0, or -ENOMEM. expo_fini - free it. */
int expo_end(struct expo *e);
void expo_fini(struct expo *e);

/* expo_content_type - for HTTP. */
const char *expo_content_type(enum expo_form form);

#endif
