// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples in the format of perf script; see formats.h. There is no CPU field, because the
 * server merges equal samples. A name must never break a line or a field.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/chain.h"
#include "cli/formats.h"
#include "service/program/memory.h"

/* Return the object of the code at @p, named as by perf. */
static const char *object_of(struct images *im, const struct chain *ch, const struct place *p,
			     char buf[ADDRESS_LEN])
{
	switch (place_code(&ch->in, p)) {
	case CODE_GUEST_KERNEL:
		return "[guest.kernel.kallsyms]";
	case CODE_HOST_KERNEL:
		return "[kernel.kallsyms]";
	case CODE_HOST_USER:
		return place_object(im, &ch->in, p, buf);
	default:
		return "[unknown]";
	}
}

#define WHO_LEN 400

/* Write the origin as a command name: "web-1/vcpu0", "/acme:nginx" or "/acme". Returns @buf. */
static const char *perf_script_who(struct images *im, const struct origin *o, char buf[WHO_LEN])
{
	const char *who = origin_name(o), *comm;
	char text[ADDRESS_LEN];

	comm = origin_comm(im, o, text);
	if (comm)
		snprintf(buf, WHO_LEN, "%.256s:%.64s", who, comm);
	else
		snprintf(buf, WHO_LEN, o->vm && o->vcpu >= 0 ? "%.256s/vcpu%d" : "%.256s", who,
			 o->vcpu);
	return buf;
}

/* Return the lines of one sample, with a NUL in place of the time. */
static char *perf_script_text_of(struct fields *fields, struct images *im, const json_t *row,
				 const struct perf_script_about *about)
{
	char buf[ADDRESS_LEN], object[ADDRESS_LEN], who[WHO_LEN], *text = NULL;
	struct chain ch;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		memory_out();
	chain_parse(fields, im, row, &ch);
	fprintf(f, "%s %u", perf_script_who(im, &ch.in, who),
		ch.in.pid ? ch.in.pid : images_pid(im, ch.in.vm));
	fputc('\0', f);
	fprintf(f, " %" PRIu64 " %s:\n", about->period, about->event);
	for (size_t i = 0; i < ch.nr; i++) {
		const struct place *p = &ch.place[i];

		fprintf(f, "\t%16" PRIx64 " %s (%s)\n", p->address,
			p->known ? place_name(im, &ch.in, p, buf) : "[unknown]",
			object_of(im, &ch, p, object));
	}
	fputc('\n', f);
	/* fclose() may not report that memory ran out. */
	if (fclose(f) || !text)
		memory_out();
	return text;
}

static void print_sample(const char *text, const char *time, FILE *f)
{
	fprintf(f, "%s%s%s", text, time, text + strlen(text) + 1);
}

static void print_by_chain(const struct perf_script_about *about, struct fields *fields,
			   struct images *im, const json_t *chains, FILE *f)
{
	const json_t *row;
	size_t i;

	json_array_foreach (chains, i, row) {
		uint64_t n = field_u64(fields, row, "samples");
		char *text = perf_script_text_of(fields, im, row, about);

		while (n-- && !fields->wrong && !ferror(f))
			print_sample(text, "", f);
		free(text);
	}
}

/* ---- by time ------------------------------------------------------------------------------ */

struct sample {
	uint64_t ns; /* since the profile's start */
	size_t chain;
};

static int cmp_sample(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->chain > y->chain) - (x->chain < y->chain);
}

/* Return the number of samples if each has a time, else 0. */
static size_t all_timed(struct fields *fields, const json_t *chains)
{
	const json_t *row;
	size_t i, n = 0;

	json_array_foreach (chains, i, row) {
		size_t times = json_array_size(json_object_get(row, "times"));

		if (times != field_u64(fields, row, "samples"))
			return 0;
		n += times;
	}
	return n;
}

static void take_times(struct fields *fields, const json_t *row, size_t chain, struct sample *to)
{
	const json_t *time;
	size_t i;

	json_array_foreach (json_object_get(row, "times"), i, time) {
		if (!json_is_integer(time) || json_integer_value(time) < 0)
			field_wrong(fields, "times");
		to[i] = (struct sample){.ns = (uint64_t)json_integer_value(time), .chain = chain};
	}
}

static void print_by_time(const struct perf_script_about *about, struct fields *fields,
			  struct images *im, const json_t *chains, uint64_t start_ns, size_t nr,
			  FILE *f)
{
	size_t nr_chains = json_array_size(chains), i, n = 0;
	struct sample *samples = xcalloc(nr, sizeof(*samples));
	char **text = xcalloc(nr_chains, sizeof(*text)), time[48];
	const json_t *row;

	for (i = 0; i < nr_chains; i++) {
		row = json_array_get(chains, i);
		text[i] = perf_script_text_of(fields, im, row, about);
		take_times(fields, row, i, &samples[n]);
		n += json_array_size(json_object_get(row, "times"));
	}
	qsort(samples, nr, sizeof(*samples), cmp_sample);
	for (i = 0; i < nr && !fields->wrong && !ferror(f); i++) {
		uint64_t ns = start_ns + samples[i].ns;

		snprintf(time, sizeof(time), " %" PRIu64 ".%09u:", ns / 1000000000,
			 (unsigned int)(ns % 1000000000));
		print_sample(text[samples[i].chain], time, f);
	}
	for (i = 0; i < nr_chains; i++)
		free(text[i]);
	free(text);
	free(samples);
}

void perf_script_print(const struct perf_script_about *about, struct fields *fields,
		       struct images *im, const json_t *answer, FILE *f,
		       struct perf_script_gaps *gaps)
{
	const json_t *chains = field_array(fields, answer, "chains");
	uint64_t start_ns = field_u64_or(fields, answer, "start-ns", 0);
	size_t nr = start_ns ? all_timed(fields, chains) : 0;

	*gaps = (struct perf_script_gaps){
		.left_out = field_u64(fields, answer, "other-chains"),
		.no_times = start_ns && !nr && json_array_size(chains),
	};
	if (nr)
		print_by_time(about, fields, im, chains, start_ns, nr, f);
	else
		print_by_chain(about, fields, im, chains, f);
}
