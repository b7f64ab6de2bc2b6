// SPDX-License-Identifier: GPL-2.0-or-later
/* Profiles in pprof's format; see formats.h. */
#include <errno.h>
#include <pprof.pb-c.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "cli/formats.h"
#include "service/program/memory.h"

#define GZIP_WINDOW (15 + 16) /* deflateInit2 of zlib.h: the largest window, a gzip header */

/* An entry of the profile that has an id, kept so that it is emitted once. */
enum kind { STRING, MAPPING, FUNCTION, LOCATION };
struct known {
	enum kind kind;
	const char *text; /* of strings; else "" */
	uint64_t a, b;	  /* the rest of its key */
	uint64_t id;
};

struct pprof {
	Perftools__Profiles__Profile m;
	void *entries; /* of tsearch */
	uint64_t period;
	bool event;
};

static int pprof_compare(const void *a, const void *b)
{
	const struct known *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->a != y->a)
		return x->a < y->a ? -1 : 1;
	if (x->b != y->b)
		return x->b < y->b ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* Return the entry equal to @key, or NULL. */
static const struct known *pprof_find(const struct pprof *p, const struct known *key)
{
	struct known *const *found = tfind(key, &p->entries, pprof_compare);

	return found ? *found : NULL;
}

/* Store @key, whose text must live as long as the profile. Returns its id. */
static uint64_t pprof_keep(struct pprof *p, const struct known *key)
{
	struct known *e = xmalloc(sizeof(*e));

	*e = *key;
	if (!tsearch(e, &p->entries, pprof_compare))
		memory_out();
	return e->id;
}

/*
 * Append to the array *@list of @n pointers a message of @size bytes, initialized from @init. The
 * array doubles when its length is a power of two.
 */
static void *pprof_append(void *list, size_t *n, size_t size, const void *init)
{
	void *array, *message;

	/* memcpy(), because of the strict aliasing of pointer types. */
	memcpy(&array, list, sizeof(array));
	if (!(*n & (*n - 1))) {
		array = xreallocarray(array, *n ? *n * 2 : 1, sizeof(void *));
		memcpy(list, &array, sizeof(array));
	}
	message = xmalloc(size);
	memcpy(message, init, size);
	memcpy((char *)array + (*n)++ * sizeof(message), &message, sizeof(message));
	return message;
}

#define APPEND(list, n, type, init)                                                                \
	((type *)pprof_append(&(list), &(n), sizeof(type), &(const type)init))

/* Return the index of @text in the string table. */
static int64_t string(struct pprof *p, const char *text)
{
	struct known key = {.kind = STRING, .text = text};
	const struct known *e = pprof_find(p, &key);

	if (e)
		return (int64_t)e->id;
	key.text = pprof_append(&p->m.string_table, &p->m.n_string_table, strlen(text) + 1, text);
	key.id = p->m.n_string_table - 1;
	return (int64_t)pprof_keep(p, &key);
}

/* The ids of a mapping, a function and a location. */
static uint64_t mapping(struct pprof *p, const char *file)
{
	int64_t name = string(p, file);
	struct known key = {.kind = MAPPING, .text = "", .a = (uint64_t)name};
	const struct known *e = pprof_find(p, &key);
	Perftools__Profiles__Mapping *m;

	if (e)
		return e->id;
	m = APPEND(p->m.mapping, p->m.n_mapping, Perftools__Profiles__Mapping,
		   PERFTOOLS__PROFILES__MAPPING__INIT);
	m->id = key.id = p->m.n_mapping;
	m->filename = name;
	m->has_functions = true; /* readers need not symbolize */
	return pprof_keep(p, &key);
}

static uint64_t function(struct pprof *p, const char *text, uint64_t in)
{
	int64_t name = string(p, text);
	struct known key = {.kind = FUNCTION, .text = "", .a = (uint64_t)name, .b = in};
	const struct known *e = pprof_find(p, &key);
	Perftools__Profiles__Function *f;

	if (e)
		return e->id;
	f = APPEND(p->m.function, p->m.n_function, Perftools__Profiles__Function,
		   PERFTOOLS__PROFILES__FUNCTION__INIT);
	f->id = key.id = p->m.n_function;
	f->name = f->system_name = name;
	return pprof_keep(p, &key);
}

/* Return the id of a place named @name; a place without an address is identified by its name. */
static uint64_t location(struct pprof *p, uint64_t in, bool known, uint64_t address,
			 const char *name)
{
	struct known key = {.kind = LOCATION, .text = known ? "" : name, .a = in, .b = address};
	const struct known *e = pprof_find(p, &key);
	Perftools__Profiles__Location *l;
	Perftools__Profiles__Line *line;

	if (e)
		return e->id;
	l = APPEND(p->m.location, p->m.n_location, Perftools__Profiles__Location,
		   PERFTOOLS__PROFILES__LOCATION__INIT);
	l->id = key.id = p->m.n_location;
	l->mapping_id = in;
	l->address = known ? address : 0;
	line = APPEND(l->line, l->n_line, Perftools__Profiles__Line,
		      PERFTOOLS__PROFILES__LINE__INIT);
	line->function_id = function(p, name, in);
	if (!known)
		key.text = p->m.string_table[string(p, name)];
	return pprof_keep(p, &key);
}

static void value_type(struct pprof *p, Perftools__Profiles__ValueType *v, const char *type)
{
	v->type = string(p, type);
	v->unit = string(p, "count");
}

static void sample_type(struct pprof *p, const char *type)
{
	Perftools__Profiles__ValueType *v =
		APPEND(p->m.sample_type, p->m.n_sample_type, Perftools__Profiles__ValueType,
		       PERFTOOLS__PROFILES__VALUE_TYPE__INIT);

	value_type(p, v, type);
}

static void period_type(struct pprof *p, const struct pprof_about *about)
{
	Perftools__Profiles__ValueType *v = xmalloc(sizeof(*v));

	perftools__profiles__value_type__init(v);
	p->m.period_type = v;
	p->m.period = (int64_t)about->period;
	value_type(p, v, about->event);
}

struct pprof *pprof_new(const struct pprof_about *about)
{
	struct pprof *p = xcalloc(1, sizeof(*p));

	perftools__profiles__profile__init(&p->m);
	p->event = about->event != NULL;
	p->period = about->period;
	p->m.time_nanos = about->start_ns;
	p->m.duration_nanos = about->duration_ns;
	string(p, ""); /* the first string is the empty one, see profile.proto */
	sample_type(p, about->samples);
	if (p->event) {
		sample_type(p, about->event);
		period_type(p, about);
	}
	p->m.default_sample_type = p->m.sample_type[p->m.n_sample_type - 1]->type;
	return p;
}

void pprof_free(struct pprof *p)
{
	/* free_unpacked() also frees the message itself, which is the start of *@p. */
	_Static_assert(offsetof(struct pprof, m) == 0, "free() gets the profile");
	tdestroy(p->entries, free);
	perftools__profiles__profile__free_unpacked(&p->m, NULL);
}

void pprof_comment(struct pprof *p, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p->m.comment = xreallocarray(p->m.comment, p->m.n_comment + 1, sizeof(*p->m.comment));
	p->m.comment[p->m.n_comment++] = string(p, text);
}

/* @text NULL: the label is a number. */
static void pprof_label(struct pprof *p, Perftools__Profiles__Sample *s, const char *key,
			const char *text, int64_t num)
{
	Perftools__Profiles__Label *l = APPEND(s->label, s->n_label, Perftools__Profiles__Label,
					       PERFTOOLS__PROFILES__LABEL__INIT);

	l->key = string(p, key);
	l->str = text ? string(p, text) : 0;
	l->num = text ? 0 : num;
}

static void labels(struct pprof *p, struct images *im, Perftools__Profiles__Sample *s,
		   const struct origin *o)
{
	const char *tenant = o->tenant ? o->tenant : images_tenant(im, o->vm);
	char comm[ADDRESS_LEN];

	if (o->vm)
		pprof_label(p, s, "vm", o->vm, 0);
	/* As text: a numeric label 0 is the same as none, and vCPU 0 needs one. */
	if (o->vm && o->vcpu >= 0) {
		char vcpu[24];

		snprintf(vcpu, sizeof(vcpu), "%d", o->vcpu);
		pprof_label(p, s, "vcpu", vcpu, 0);
	}
	if (tenant)
		pprof_label(p, s, "tenant", tenant, 0);
	if (o->side)
		pprof_label(p, s, "side", o->side, 0);
	if (o->pid)
		pprof_label(p, s, "pid", NULL, o->pid);
	if (origin_comm(im, o, comm))
		pprof_label(p, s, "comm", comm, 0);
}

/* Return the mapping of the code at @pl: a file, or a name in brackets as in perf. */
static uint64_t mapping_of(struct pprof *p, struct images *im, const struct origin *o,
			   const struct place *pl)
{
	const char *path = images_path(im, o->vm);
	char name[ADDRESS_LEN];

	switch (pl->known ? place_code(o, pl) : CODE_HOST_USER) {
	case CODE_GUEST_KERNEL:
		snprintf(name, sizeof(name), "[guest.kernel.kallsyms] %.200s", o->vm ? o->vm : "");
		return mapping(p, name);
	case CODE_HOST_KERNEL:
		return mapping(p, "[kernel.kallsyms]");
	case CODE_GUEST:
		snprintf(name, sizeof(name), "[guest] %.200s", o->vm ? o->vm : "");
		return mapping(p, path ? path : name);
	case CODE_HOST_USER:
		return mapping(p, place_object(im, o, pl, name));
	default:
		return mapping(p, "[unknown]");
	}
}

/* A sample without places. The caller adds its places. */
static Perftools__Profiles__Sample *sample_new(struct pprof *p, size_t places, uint64_t count)
{
	Perftools__Profiles__Sample *s =
		APPEND(p->m.sample, p->m.n_sample, Perftools__Profiles__Sample,
		       PERFTOOLS__PROFILES__SAMPLE__INIT);

	s->location_id = xcalloc(places, sizeof(*s->location_id));
	s->value = xcalloc(2, sizeof(*s->value));
	s->value[s->n_value++] = (int64_t)count;
	if (p->event)
		s->value[s->n_value++] = (int64_t)(count * p->period);
	return s;
}

/* Add @count samples of one place without an address. */
static void add_named(struct pprof *p, struct images *im, const struct origin *o, const char *name,
		      uint64_t count)
{
	Perftools__Profiles__Sample *s = sample_new(p, 1, count);

	s->location_id[s->n_location_id++] = location(p, mapping(p, "[unknown]"), false, 0, name);
	if (o)
		labels(p, im, s, o);
}

static void add_chain(struct pprof *p, struct images *im, const struct chain *ch, uint64_t count)
{
	Perftools__Profiles__Sample *s;
	char buf[ADDRESS_LEN];

	if (!ch->nr) {
		add_named(p, im, &ch->in, "[no calls]", count);
		return;
	}
	s = sample_new(p, ch->nr, count);
	for (size_t i = 0; i < ch->nr; i++) {
		const struct place *pl = &ch->place[i];

		s->location_id[s->n_location_id++] =
			location(p, mapping_of(p, im, &ch->in, pl), pl->known, pl->address,
				 place_function(im, &ch->in, pl, buf));
	}
	labels(p, im, s, &ch->in);
}

void pprof_add_answer(struct pprof *p, struct fields *f, struct images *im, const json_t *answer)
{
	const json_t *chains = field_array(f, answer, "chains"), *row;
	uint64_t others = field_u64_or(f, answer, "other-chains", 0);
	size_t i;

	json_array_foreach (chains, i, row) {
		struct chain ch;

		chain_parse(f, im, row, &ch);
		add_chain(p, im, &ch, field_u64(f, row, "samples"));
		if (f->wrong)
			return;
	}
	if (others)
		add_named(p, im, NULL, "[other chains]", others);
}

int pprof_write(const struct pprof *p, FILE *f)
{
	size_t len = perftools__profiles__profile__get_packed_size(&p->m), bound;
	unsigned char *plain = malloc(len ? len : 1), *packed = NULL;
	z_stream z = {0};
	int ret = -ENOMEM;

	if (!plain || deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
				   Z_DEFAULT_STRATEGY) != Z_OK)
		goto out;
	perftools__profiles__profile__pack(&p->m, plain);
	bound = deflateBound(&z, len);
	packed = malloc(bound);
	z.next_in = plain;
	z.avail_in = (uInt)len;
	z.next_out = packed;
	z.avail_out = (uInt)bound;
	if (packed && len == z.avail_in && bound == z.avail_out &&
	    deflate(&z, Z_FINISH) == Z_STREAM_END) {
		fwrite(packed, 1, z.total_out, f);
		ret = 0;
	}
	deflateEnd(&z);
out:
	free(packed);
	free(plain);
	return ret;
}
