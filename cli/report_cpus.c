// SPDX-License-Identifier: GPL-2.0-or-later
/* Who ran on which CPU during a report: see report.h. A session for each CPU and scope. */
#include <stdlib.h>

#include "cli/report.h"
#include "cli/session.h"
#include "service/program/memory.h"

#define CPUS_MAX 16 /* two sessions each, of those that the server has for all */
#define CPUS_OF	 2  /* scopes */

struct report_cpus {
	struct client *c;
	unsigned int nr;
	struct sessions of[CPUS_MAX][CPUS_OF];
};

static void report_cpus_free(struct report_cpus *p)
{
	for (unsigned int i = 0; i < p->nr * CPUS_OF; i++)
		sessions_fini(&p->of[i / CPUS_OF][i % CPUS_OF]);
	free(p);
}

static bool report_cpus_attach(struct report_cpus *p, unsigned int cpu, const char *scope,
			       struct sessions *s)
{
	char text[12], *err = NULL;
	json_t *answer;
	const char *name;

	snprintf(text, sizeof(text), "%u", cpu);
	answer = client_try(p->c,
			    json_pack("{s:s, s:s, s:s, s:s}", "cmd", "attach", "events",
				      "task-clock", "scope", scope, "cpus", text),
			    &err);
	free(err);
	name = json_string_value(json_object_get(answer, "session"));
	if (name)
		sessions_named(s, p->c, name);
	json_decref(answer);
	return s->nr != 0;
}

/* Others may need the room that some of the sessions have. */
static void report_cpus_refused(struct report_cpus *p)
{
	for (unsigned int i = 0; i < p->nr * CPUS_OF; i++)
		reading_free(sessions_read(&p->of[i / CPUS_OF][i % CPUS_OF], SESSION_END));
	report_cpus_free(p);
}

struct report_cpus *report_cpus_start(struct client *c, unsigned int nr_cpus)
{
	static const char *const scopes[CPUS_OF] = {"tenant", "vm"};
	struct report_cpus *p;

	if (nr_cpus > CPUS_MAX)
		return NULL;
	p = xcalloc(1, sizeof(*p));
	p->c = c;
	for (; p->nr < nr_cpus; p->nr++) {
		for (unsigned int i = 0; i < CPUS_OF; i++) {
			if (report_cpus_attach(p, p->nr, scopes[i], &p->of[p->nr][i]))
				continue;
			p->nr++;
			report_cpus_refused(p);
			return NULL;
		}
	}
	return p;
}

/* Add the rows of CPU @cpu to @list; @by_name finds them there. */
static void report_cpus_add(json_t *list, json_t *by_name, const struct reading *r,
			    unsigned int cpu, unsigned int nr)
{
	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];
		json_t *name, *e, *ns;
		char *key;

		if (!row->v[0].supported)
			continue;
		name = json_pack("[s?, s, s?]", row->backend, row->path, row->vm);
		key = name ? json_dumps(name, JSON_COMPACT) : NULL;
		if (!key) /* the strings of an answer are UTF-8 */
			memory_out();
		e = json_object_get(by_name, key);
		if (!e) {
			e = json_pack("{s:s?, s:s, s:s?, s:[]}", "backend", row->backend, "tenant",
				      row->path, "vm", row->vm, "ns");
			for (unsigned int k = 0; k < nr; k++)
				json_array_append_new(json_object_get(e, "ns"), json_integer(0));
			json_array_append_new(list, e);
			json_object_set(by_name, key, e);
		}
		ns = json_array_get(json_object_get(e, "ns"), cpu);
		json_integer_set(ns, json_integer_value(ns) + (json_int_t)row->v[0].count);
		free(key);
		json_decref(name);
	}
}

json_t *report_cpus_end(struct report_cpus *p)
{
	json_t *list, *by_name;
	bool ok = p != NULL;

	if (!p)
		return NULL;
	list = json_array();
	by_name = json_object();
	for (unsigned int i = 0; ok && i < p->nr * CPUS_OF; i++) {
		struct reading *r = sessions_read(&p->of[i / CPUS_OF][i % CPUS_OF], SESSION_END);

		ok = r != NULL;
		if (r)
			report_cpus_add(list, by_name, r, i / CPUS_OF, p->nr);
		reading_free(r);
	}
	json_decref(by_name);
	report_cpus_free(p);
	if (ok)
		return list;
	json_decref(list);
	return NULL;
}
