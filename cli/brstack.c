// SPDX-License-Identifier: GPL-2.0-or-later
/* Branch records for optimizers; see formats.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/formats.h"
#include "service/program/memory.h"

struct brstack_vcpu {
	char *vm;
	unsigned int vcpu;
	uint64_t total; /* branches recorded at the last reading */
};

static struct brstack_vcpu *brstack_find(struct brstack *b, const char *vm)
{
	for (size_t i = 0; i < b->nr; i++)
		if (!strcmp(b->vcpu[i].vm, vm))
			return &b->vcpu[i];
	return NULL;
}

static bool path_is_printable(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < 0x20 || *path == 0x7f)
			return false;
	return true;
}

/* Print the mapping of @vm's image as perf prints that of a program. */
static void print_image(struct brstack *b, struct images *im, const char *vm, FILE *f)
{
	const char *path = images_path(im, vm);
	unsigned int pid = images_pid(im, vm);
	struct segment s;

	if (!path || !path_is_printable(path))
		return;
	for (size_t i = 0; i < b->nr; i++) {
		const char *other = images_path(im, b->vcpu[i].vm);

		if (other && !strcmp(other, path))
			return;
	}
	b->images++;
	for (size_t i = 0; images_segment(im, vm, i, &s); i++)
		fprintf(f,
			"PERF_RECORD_MMAP2 %u/%u: [0x%" PRIx64 "(0x%" PRIx64 ") @ 0x%" PRIx64
			" 00:00 0 0]: r-xp %s\n",
			pid, pid, s.address, s.len, s.offset, path);
}

/* Return the state of @c's vCPU, added if it is new. */
static struct brstack_vcpu *vcpu_of(struct brstack *b, struct images *im, const struct capture *c,
				    FILE *f)
{
	struct brstack_vcpu *v;

	for (size_t i = 0; i < b->nr; i++)
		if (b->vcpu[i].vcpu == c->vcpu && !strcmp(b->vcpu[i].vm, c->vm))
			return &b->vcpu[i];
	b->vcpu = xreallocarray(b->vcpu, b->nr + 1, sizeof(*v));
	if (!brstack_find(b, c->vm))
		print_image(b, im, c->vm, f);
	v = &b->vcpu[b->nr++];
	*v = (struct brstack_vcpu){.vm = xstrdup(c->vm), .vcpu = c->vcpu};
	return v;
}

void brstack_print(struct brstack *b, struct images *im, const struct capture *c, FILE *f)
{
	bool modelled = !c->backend || !strcmp(c->backend, "emulator"); /* as capture_print */
	struct brstack_vcpu *v;
	uint64_t fresh;

	if (c->error || !c->nr)
		return;
	v = vcpu_of(b, im, c, f);
	/* A smaller total: the VM was restarted. */
	fresh = c->total >= v->total ? c->total - v->total : c->total;
	v->total = c->total;
	if (!fresh || !c->branch[0].from.known || !c->branch[0].to.known)
		return;
	fprintf(f, "%16" PRIx64, c->branch[0].to.address);
	for (size_t i = 0; i < c->nr && i < fresh; i++) {
		const struct branch *r = &c->branch[i];

		if (!r->from.known || !r->to.known)
			break;
		fprintf(f, " 0x%" PRIx64 "/0x%" PRIx64 "/-/-/-/%d", r->from.address, r->to.address,
			r->cycles < 0 || modelled ? 0 : r->cycles);
	}
	fputc('\n', f);
	b->lines++;
}

void brstack_free(struct brstack *b)
{
	for (size_t i = 0; i < b->nr; i++)
		free(b->vcpu[i].vm);
	free(b->vcpu);
	*b = (struct brstack){0};
}
