// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Samples as `perf script` prints them, see perf_script.h. There is no time and no CPU: the server
 * adds equal samples up. A name must never break a line or a field.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/cli/chain.h"
#include "cgroup/cli/perf_script.h"

/* Which object the code at @p is in, as perf names kernels. */
static const char *object_of(const struct chain *ch, const struct place *p)
{
	switch (place_code(&ch->in, p)) {
	case CODE_GUEST_KERNEL:
		return "[guest.kernel.kallsyms]";
	case CODE_HOST_KERNEL:
		return "[kernel.kallsyms]";
	default:
		return "[unknown]";
	}
}

const char *perf_script_who(const struct origin *o, char buf[WHO_LEN])
{
	const char *who = o->vm ? o->vm : o->tenant ? o->tenant : "[host]";

	snprintf(buf, WHO_LEN, o->vm && o->vcpu >= 0 ? "%.256s/vcpu%d" : "%.256s", who, o->vcpu);
	return buf;
}

/* The lines of one sample. */
static char *text_of(struct images *im, const struct chain *ch,
		     const struct perf_script_about *about)
{
	unsigned int pid = ch->in.pid ? ch->in.pid : images_pid(im, ch->in.vm);
	char buf[ADDRESS_LEN], who[WHO_LEN], *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	fprintf(f, "%s %u %" PRIu64 " %s:\n", perf_script_who(&ch->in, who), pid, about->period,
		about->event);
	for (size_t i = 0; i < ch->nr; i++) {
		const struct place *p = &ch->place[i];

		fprintf(f, "\t%16" PRIx64 " %s (%s)\n", p->address,
			p->known ? place_name(im, &ch->in, p, buf) : "[unknown]", object_of(ch, p));
	}
	fputc('\n', f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

int perf_script_print(const struct perf_script_about *about, struct fields *fields,
		      struct images *im, const json_t *answer, FILE *f, uint64_t *left_out)
{
	const json_t *chains = field_array(fields, answer, "chains"), *row;
	size_t i;

	*left_out = field_u64(fields, answer, "other-chains");

	json_array_foreach (chains, i, row) {
		struct chain ch;
		char *text;
		uint64_t n;

		chain_parse(fields, row, &ch);
		n = field_u64(fields, row, "samples");
		if (fields->wrong)
			break;
		text = text_of(im, &ch, about);
		if (!text)
			return -ENOMEM;
		while (n-- && !ferror(f))
			fputs(text, f);
		free(text);
	}
	return 0;
}
