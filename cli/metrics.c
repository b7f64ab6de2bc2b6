// SPDX-License-Identifier: GPL-2.0-or-later
/* Selection of metrics by -M; see metrics.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/error.h"
#include "cli/metrics.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

#define FOLDER_OF_USER	  "vpmu/metrics"
#define FOLDER_OF_PROGRAM VPMU_DATA_FROM_BIN "/vpmu/metrics" /* CMake: as installed, "../share" */
#define MODIFIERS	  "ukhGH"
#define EVENTS_MAX	  64 /* the server rejects more */

/* ---- known metrics ------------------------------------------------------------------------ */

/* Return the user's folder, or NULL. */
static char *user_folder(void)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (config && *config == '/')
		return xasprintf("%s/%s", config, FOLDER_OF_USER);
	return home && *home == '/' ? xasprintf("%s/.config/%s", home, FOLDER_OF_USER) : NULL;
}

static char *metrics_program_folder(void)
{
	char program[4096];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *path, *found;

	if (n <= 0)
		return NULL;
	program[n] = '\0';
	*strrchr(program, '/') = '\0';
	path = xasprintf("%s/%s", program, FOLDER_OF_PROGRAM);
	/* Without "..": it appears in messages. */
	found = realpath(path, NULL);
	if (!found)
		return path;
	free(path);
	return found;
}

int metrics_known(struct metric_set *set, void (*bad)(const char *line, void *arg), void *arg)
{
	static char *(*const folders[])(void) = {user_folder, metrics_program_folder};
	int ret = 0;

	for (size_t i = 0; i < 2; i++) {
		char *path = folders[i](), err[4200];
		size_t before = set->nr;
		int rc = path ? metric_set_folder(set, path, bad, arg) : 0;

		/* The user need not have any. */
		if (!rc && set->nr == before && folders[i] == metrics_program_folder) {
			rc = fail(-ENOENT, err, sizeof(err),
				  "%s: no metrics are here; expected the files *" METRIC_SUFFIX
				  " that are installed with vpmu",
				  path ? path : FOLDER_OF_PROGRAM);
			bad(err, arg);
		}
		ret = ret ? ret : rc;
		free(path);
	}
	return ret;
}

/* ---- selected metrics --------------------------------------------------------------------- */

struct chooser {
	struct metrics *ms;
	char bad[300]; /* first error of a file that may define the requested metric */
	char *err;
	size_t errlen;
};

static void note_bad(const char *line, void *arg)
{
	struct chooser *c = arg;

	if (!c->bad[0])
		snprintf(c->bad, sizeof(c->bad), "; %s", line);
}

static void free_chosen(struct chosen_metric *m)
{
	for (size_t i = 0; i < FORMULA_EVENTS_MAX; i++)
		free(m->event[i]);
	free(m->label);
}

/* Add the modifiers to the events of @m, like `perf stat -e` for a group. */
static int add_modifiers(const struct chooser *c, struct chosen_metric *m, const char *mods)
{
	const struct formula *f = &m->metric->formula;
	vpmu_key_t keys[FORMULA_EVENTS_MAX];
	size_t n = FORMULA_EVENTS_MAX, len = 0, bytes = strlen(mods) + 3;
	char *list, why[300], *event;
	int ret;

	for (size_t i = 0; i < f->nr_events; i++)
		bytes += strlen(f->event[i]) + 1;
	list = xmalloc(bytes);
	for (size_t i = 0; i < f->nr_events; i++)
		len += (size_t)sprintf(list + len, "%c%s", i ? ',' : '{', f->event[i]);
	sprintf(list + len, "}%s", mods);
	ret = vpmu_event_parse_list(list, 0, keys, m->event, &n, why, sizeof(why));
	free(list);
	if (!ret)
		return 0;
	/* Drop "event list, character 12: ": the user did not type that list. */
	event = strstr(why, ": ");
	return fail(ret, c->err, c->errlen, "\"%s\": %s", m->label, event ? event + 2 : why);
}

/* @mods: ":u", or "". */
static int cli_metrics_choose(struct chooser *c, const struct metric *metric, const char *mods)
{
	struct metrics *ms = c->ms;
	struct chosen_metric *m;

	for (size_t i = 0; i < ms->nr; i++)
		if (ms->m[i].metric == metric &&
		    strcmp(ms->m[i].label + strlen(metric->name), mods) == 0)
			return 0;
	ms->m = xreallocarray(ms->m, ms->nr + 1, sizeof(*ms->m));
	m = &ms->m[ms->nr++];
	*m = (struct chosen_metric){.metric = metric,
				    .label = xasprintf("%s%s", metric->name, mods)};
	if (*mods)
		return add_modifiers(c, m, mods);
	for (size_t i = 0; i < metric->formula.nr_events; i++)
		m->event[i] = xstrdup(metric->formula.event[i]);
	return 0;
}

static int choose_all(struct chooser *c, const struct metric_set *set)
{
	int ret = 0;

	for (size_t i = 0; i < set->nr && !ret; i++)
		ret = cli_metrics_choose(c, &set->metric[i], "");
	return ret;
}

static int choose_path(struct chooser *c, const char *path)
{
	struct metrics *ms = c->ms;
	struct metric_set *set = &ms->file[ms->nr_files];
	int ret;

	if (ms->nr_files == METRICS_FILES_MAX)
		return fail(-E2BIG, c->err, c->errlen, "\"%s\": more than %d files", path,
			    METRICS_FILES_MAX);
	ret = metric_set_file(set, path, c->err, c->errlen);
	if (ret)
		return ret;
	ms->nr_files++;
	if (!set->nr)
		return fail(-EINVAL, c->err, c->errlen, "%s: no metric is defined there", path);
	return choose_all(c, set);
}

/* Return true if @m is from a file of the folders named @name, of @len bytes. */
static bool in_file(const struct metric *m, const char *name, size_t len)
{
	const char *base = strrchr(m->file, '/');

	base = base ? base + 1 : m->file;
	return strncmp(base, name, len) == 0 && strcmp(base + len, METRIC_SUFFIX) == 0;
}

static int choose_name(struct chooser *c, const char *name)
{
	size_t len = strcspn(name, ":"), mods = strlen(name + len);
	const struct metric *metric = metric_set_find(&c->ms->known, name, len);
	bool found = metric != NULL;
	int ret = 0;

	if (mods && (mods == 1 || strspn(name + len + 1, MODIFIERS) != mods - 1))
		return fail(-EINVAL, c->err, c->errlen,
			    "\"%.60s\" is invalid; expected the modifiers u k h G H after \":\"",
			    name);
	if (metric)
		ret = cli_metrics_choose(c, metric, name + len);
	for (size_t i = 0; !metric && i < c->ms->known.nr && !ret; i++) {
		if (!in_file(&c->ms->known.metric[i], name, len))
			continue;
		found = true;
		ret = cli_metrics_choose(c, &c->ms->known.metric[i], name + len);
	}
	if (found)
		return ret;
	return fail(-ENOENT, c->err, c->errlen,
		    "\"%.60s\" is no metric; `vpmu metrics` lists them, and a path with \"/\" "
		    "names a file%s",
		    name, c->bad);
}

int metrics_choose(struct metrics *ms, const char *list, char *err, size_t errlen)
{
	struct chooser c = {.ms = ms, .err = err, .errlen = errlen};
	char *copy = xstrdup(list), *rest = copy, *item;
	int ret = 0;

	*ms = (struct metrics){0};
	metrics_known(&ms->known, note_bad, &c);
	while (!ret && (item = strsep(&rest, ","))) {
		if (!*item)
			ret = fail(-EINVAL, err, errlen,
				   "\"%.60s\": a name is empty; expected name[,name...]", list);
		else if (strchr(item, '/'))
			ret = choose_path(&c, item);
		else
			ret = choose_name(&c, item);
	}
	free(copy);
	if (ret)
		metrics_free(ms);
	return ret;
}

void metrics_free(struct metrics *ms)
{
	for (size_t i = 0; i < ms->nr; i++)
		free_chosen(&ms->m[i]);
	for (size_t i = 0; i < ms->nr_files; i++)
		metric_set_free(&ms->file[i]);
	metric_set_free(&ms->known);
	free(ms->m);
	*ms = (struct metrics){0};
}

/* ---- events ------------------------------------------------------------------------------- */

/* Append @name to *@list unless it is one of the @n items of @have or was appended before. */
static void metrics_append(char **list, char *const *have, size_t n, const char *name)
{
	char *longer;

	for (size_t i = 0; i < n; i++)
		if (strcmp(have[i], name) == 0)
			return;
	longer = xasprintf("%s%s%s", *list, **list ? "," : "", name);
	free(*list);
	*list = longer;
}

static bool needed_before(const struct metrics *ms, size_t m, size_t e)
{
	for (size_t i = 0; i <= m; i++)
		for (size_t k = 0; k < (i < m ? ms->m[i].metric->formula.nr_events : e); k++)
			if (strcmp(ms->m[i].event[k], ms->m[m].event[e]) == 0)
				return true;
	return false;
}

char *metrics_events(const struct metrics *ms, const char *events)
{
	char *list = xstrdup(events ? events : ""), *have[EVENTS_MAX] = {NULL};
	vpmu_key_t keys[EVENTS_MAX];
	size_t n = EVENTS_MAX;

	/* A list that cannot be parsed goes to the server as it is, which reports the error. */
	if (!*list || vpmu_event_parse_list(list, VPMU_SPACE_INTEL, keys, have, &n, NULL, 0))
		n = 0;
	for (size_t i = 0; i < ms->nr; i++)
		for (size_t e = 0; e < ms->m[i].metric->formula.nr_events; e++)
			if (!needed_before(ms, i, e))
				metrics_append(&list, have, n, ms->m[i].event[e]);
	for (size_t i = 0; i < n; i++)
		free(have[i]);
	return list;
}

char *metrics_names(const char *list)
{
	char *copy = xstrdup(list), *rest = copy, *item, *names = xstrdup("");

	while ((item = strsep(&rest, ",")))
		if (*item && !strchr(item, '/'))
			metrics_append(&names, NULL, 0, item);
	free(copy);
	if (*names)
		return names;
	free(names);
	return NULL;
}

char *metrics_ask(struct metrics *ms, const char *cmd, const char *list, const char *events)
{
	char err[600];
	int ret = metrics_choose(ms, list, err, sizeof(err));

	if (ret)
		cli_usage("%s: -M: %s", cmd, err);
	return metrics_events(ms, events);
}
