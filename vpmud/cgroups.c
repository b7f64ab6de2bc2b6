// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Scanning for cgroups that match the rules; see cgroups.h. A scan walks each pattern component by
 * component and puts an inotify watch on each directory it lists. Any inotify event triggers
 * another scan, so events need not be parsed and none can be missed. A directory that vanishes
 * during a scan is treated as absent. Tenants can make any number of cgroups: a scan that follows
 * events must never keep clients waiting for all of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup/fs/cgroupfs.h"
#include "service/clock.h"
#include "service/program/memory.h"
#include "vpmud/cgroups.h"
#include "vpmu/util/fail.h"

#define POLL_US	  1000000 /* poll interval where watches do not work */
#define SHARE	  10	  /* scans use less than 1/SHARE of a CPU */
#define PIECE_US  20000	  /* a scan takes this long, then clients are served */
#define WATCHED	  (IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR)
#define DEPTH_MAX RULES_COMPONENTS_MAX

struct match {
	struct cgroup c; /* first */
	struct match *next;
	char *path, *tenant;
	uint64_t seen; /* number of the last scan that found it */
};

/* A component with *, ? or [ of the pattern that is walked, and the directory that is listed. */
struct level {
	DIR *in;
	char want[256];
	const char *rest;	  /* of the pattern */
	size_t dir_len, path_len; /* of struct cgroups */
};

struct cgroups {
	const struct rules *rules;
	struct cgroups_ops ops;
	void *arg;
	char *root;
	struct match *first;
	struct match *gone; /* removed, but not reported yet */
	void *by_path;	    /* tsearch(3) tree of struct match */
	size_t nr;
	int inotify_fd;
	sd_event_source *io;
	/* For the next scan, and between the pieces of one. No defer source: libsystemd dispatches
	 * one that is enabled again before all others of its priority. */
	sd_event_source *timer;
	bool pending; /* the timer is armed for a scan */
	bool polls;   /* adding a watch, or opening a directory, failed */
	bool blind;   /* the latter: what this scan does not find may be there */
	bool full;    /* this scan has left out some */
	bool follows; /* this scan is for a change of the directories */
	bool again;   /* they have changed during this scan */
	bool told_watches, told_blind, told_many, told_name;
	uint64_t next_us; /* earliest time of the next scan */

	/* The scan under way. */
	bool walks;			/* not all patterns are walked */
	uint64_t scan, busy_us;		/* its number, and the time it has taken so far */
	uint64_t begun_ns, whole_ns;	/* CLOCK_BOOTTIME: its begin; that of the last whole one */
	size_t rule, pattern, commands; /* the next pattern; commands left */
	size_t depth;
	struct level level[DEPTH_MAX];
	char dir[PATH_MAX], path[PATH_MAX]; /* a cgroup: absolute, and below the mount */
};

static void cgroups_note_once(struct cgroups *c, bool *told, const char *line)
{
	if (!*told)
		c->ops.note(c->arg, line);
	*told = true;
}

/* ---- matching cgroups ----------------------------------------------------------------------- */

static int cmp_match(const void *a, const void *b)
{
	return strcmp(((const struct match *)a)->path, ((const struct match *)b)->path);
}

static void match_free(struct match *e)
{
	free(e->path);
	free(e->tenant);
	free(e);
}

static struct match *match_new(const char *path, uint64_t id, const char *tenant)
{
	struct match *e = xcalloc(1, sizeof(*e));

	e->path = xstrdup(path);
	e->tenant = xstrdup(tenant);
	e->c = (struct cgroup){.path = e->path, .id = id, .tenant = e->tenant};
	return e;
}

/* Report the removal of @e, which is in no list any more, and free it. */
static void match_gone(struct cgroups *c, struct match *e)
{
	c->nr--;
	c->ops.removed(c->arg, &e->c);
	match_free(e);
}

/* The cgroup at c->path matches a rule. */
static void found(struct cgroups *c)
{
	char tenant[TENANT_PATH_MAX + 1], why[300];
	struct match key = {.path = c->path}, **have = tfind(&key, &c->by_path, cmp_match), *e;
	uint64_t id;

	if (have && (*have)->seen == c->scan)
		return; /* another pattern matches it as well */
	if (!rules_cgroup(c->rules, c->path, tenant, why, sizeof(why))) {
		if (*why)
			cgroups_note_once(c, &c->told_name, why);
		return;
	}
	if (cgroupfs_id(c->dir, &id, why, sizeof(why)))
		return; /* it is gone */
	if (have && (*have)->c.id == id && !strcmp((*have)->tenant, tenant)) {
		(*have)->seen = c->scan;
		return;
	}
	if (c->nr >= CGROUPS_MAX) {
		c->full = true;
		cgroups_note_once(c, &c->told_many,
				  "cgroups: more than 65536 match the rules; the rest is left out");
		return;
	}
	if (have) { /* replaced by another of the same path, or moved to another tenant */
		for (struct match **link = &c->first; *link; link = &(*link)->next) {
			if (*link != *have)
				continue;
			e = *link;
			*link = e->next;
			tdelete(e, &c->by_path, cmp_match);
			match_gone(c, e);
			break;
		}
	}
	e = match_new(c->path, id, tenant);
	e->c.born = c->follows;
	xtsearch(e, &c->by_path, cmp_match);
	e->seen = c->scan;
	e->next = c->first;
	c->first = e;
	c->nr++;
	c->ops.added(c->arg, &e->c);
}

/* ---- scanning ------------------------------------------------------------------------------- */

/* Watch c->dir for entries that are created or removed. */
static void cgroups_watch(struct cgroups *c)
{
	if (inotify_add_watch(c->inotify_fd, c->dir, WATCHED) >= 0 || errno == ENOENT ||
	    errno == ENOTDIR)
		return;
	c->polls = true;
	cgroups_note_once(c, &c->told_watches,
			  "cgroups: directories cannot be watched (fs.inotify.max_user_watches?); "
			  "they are looked at every second");
}

/* c->dir could not be opened. That it is gone is no failure. */
static void cgroups_blind(struct cgroups *c)
{
	if (errno != EMFILE && errno != ENFILE && errno != ENOMEM)
		return;
	c->blind = c->polls = true;
	cgroups_note_once(
		c, &c->told_blind,
		"cgroups: directories cannot be opened (LimitNOFILE?); they are looked at "
		"again every second");
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Go to the cgroup @name in c->dir. Returns false if its path is too long. */
static bool cgroups_down(struct cgroups *c, const char *name)
{
	size_t dir = strlen(c->dir), path = strlen(c->path);

	if (dir + strlen(name) + 2 > PATH_MAX)
		return false;
	sprintf(c->dir + dir, "/%s", name);
	sprintf(c->path + path, "/%s", name);
	return true;
}

/* Walk @pattern, which points at a "/" or its end, below c->path up to the next component that is
 * not plain. A plain one can match only the entry of that name: no readdir. */
static void cgroups_enter(struct cgroups *c, const char *pattern)
{
	struct level *l = &c->level[c->depth];

	for (; *pattern; pattern = l->rest) {
		cgroups_watch(c);
		l->rest = strchrnul(pattern + 1, '/');
		snprintf(l->want, sizeof(l->want), "%.*s", (int)(l->rest - pattern - 1),
			 pattern + 1);
		if (strpbrk(l->want, "*?[")) {
			l->dir_len = strlen(c->dir);
			l->path_len = strlen(c->path);
			l->in = opendir(c->dir);
			c->depth += l->in != NULL;
			if (!l->in)
				cgroups_blind(c);
			return;
		}
		if (!cgroups_down(c, l->want) || !is_dir(c->dir))
			return;
	}
	found(c);
}

/* The next pattern of this scan; NULL: that was the last. Commands' patterns are added and removed
 * meanwhile. patterns_remove() fills the gap with the last one, so none is missed from the last to
 * the first; and they are plain, so no level points to one. */
static const char *cgroups_pattern(struct cgroups *c)
{
	const struct rules *r = c->rules;

	for (; c->rule < r->nr; c->rule++, c->pattern = 0)
		if (c->pattern < r->rule[c->rule].cgroup.nr)
			return r->rule[c->rule].cgroup.text[c->pattern++];
	if (c->commands > r->commands.nr)
		c->commands = r->commands.nr;
	return c->commands ? r->commands.text[--c->commands] : NULL;
}

/* Look at one more directory entry. Returns false after the last one of all patterns. */
static bool cgroups_step(struct cgroups *c)
{
	struct level *l = c->depth ? &c->level[c->depth - 1] : NULL;
	const char *pattern;
	struct dirent *d;

	if (!l) {
		pattern = cgroups_pattern(c);
		snprintf(c->dir, sizeof(c->dir), "%s", c->root);
		*c->path = '\0';
		if (pattern)
			cgroups_enter(c, pattern);
		return pattern;
	}
	c->dir[l->dir_len] = c->path[l->path_len] = '\0';
	d = readdir(l->in);
	if (!d) {
		closedir(l->in);
		c->depth--;
	} else if (d->d_type == DT_DIR && *d->d_name != '.' &&
		   !fnmatch(l->want, d->d_name, FNM_NOESCAPE) && cgroups_down(c, d->d_name)) {
		cgroups_enter(c, l->rest);
	}
	return true;
}

/* Every pattern has been walked: what was not found is gone. */
static void cgroups_sweep(struct cgroups *c)
{
	if (c->blind)
		return;
	if (!c->full)
		c->whole_ns = c->begun_ns;
	for (struct match **link = &c->first; *link;) {
		struct match *e = *link;

		if (e->seen == c->scan) {
			link = &e->next;
			continue;
		}
		*link = e->next;
		tdelete(e, &c->by_path, cmp_match);
		e->next = c->gone;
		c->gone = e;
	}
}

static void tell_gone(struct cgroups *c)
{
	struct match *e = c->gone;

	c->gone = e->next;
	match_gone(c, e);
}

static bool cgroups_arm(struct cgroups *c, uint64_t us)
{
	return sd_event_source_set_time(c->timer, us) >= 0 &&
	       sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT) >= 0;
}

/* Go on with the scan for up to PIECE_US; @all: up to the removals, which come last. */
static void cgroups_piece(struct cgroups *c, bool all)
{
	uint64_t begin = now_us();

	while (c->walks && (all || now_us() - begin < PIECE_US)) {
		c->walks = cgroups_step(c);
		if (!c->walks)
			cgroups_sweep(c);
	}
	c->ops.batch(c->arg, c->walks ? 0 : c->whole_ns);
	while (!c->walks && c->gone && now_us() - begin < PIECE_US)
		tell_gone(c);
	c->busy_us += now_us() - begin;
}

static void cgroups_work(struct cgroups *c, bool all)
{
	uint64_t due;

	do
		cgroups_piece(c, all);
	while ((c->walks || c->gone) && !cgroups_arm(c, now_us()));
	if (c->walks || c->gone)
		return; /* clients first */
	c->next_us = now_us() + SHARE * c->busy_us;
	if (!c->again && !c->polls)
		return;
	due = c->again ? 0 : now_us() + POLL_US;
	c->pending = cgroups_arm(c, due < c->next_us ? c->next_us : due);
}

static void cgroups_leave(struct cgroups *c)
{
	while (c->depth)
		closedir(c->level[--c->depth].in);
}

/* Begin a scan, in place of one under way. */
static void cgroups_begin(struct cgroups *c, bool follows)
{
	cgroups_leave(c);
	c->scan++;
	c->walks = true;
	c->follows = follows;
	c->again = c->polls = c->blind = c->full = c->pending = false;
	c->busy_us = 0;
	c->begun_ns = clock_ns(CLOCK_BOOTTIME);
	c->rule = c->pattern = 0;
	c->commands = SIZE_MAX;
}

/* Find all that is there now. */
static void cgroups_scan_all(struct cgroups *c, bool follows)
{
	cgroups_begin(c, follows);
	cgroups_work(c, true);
}

void cgroups_scan(struct cgroups *c)
{
	cgroups_scan_all(c, false);
}

void cgroups_rules(struct cgroups *c, const struct rules *rules)
{
	c->rules = rules;
	c->told_many = c->told_name = false;
	cgroups_scan(c);
	while (c->gone) /* the new rules are in force when this returns */
		tell_gone(c);
}

/* ---- events --------------------------------------------------------------------------------- */

static void cgroups_follow(struct cgroups *c)
{
	if (c->walks || c->gone) {
		c->again = true;
		return;
	}
	cgroups_begin(c, true);
	cgroups_work(c, false);
}

static int cgroups_on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct cgroups *c = arg;

	c->pending = false;
	if (c->walks || c->gone)
		cgroups_work(c, false);
	else
		cgroups_follow(c);
	return 0;
}

/* Take the events. Returns true if there were some. */
static bool cgroups_drain(struct cgroups *c)
{
	char buf[16384];
	bool any = false;

	while (read(c->inotify_fd, buf, sizeof(buf)) > 0)
		any = true;
	return any;
}

void cgroups_settle(struct cgroups *c)
{
	if (cgroups_drain(c) || c->pending || c->walks || c->again)
		cgroups_scan_all(c, true);
}

static int on_inotify(sd_event_source *s, int fd, uint32_t revents, void *arg)
{
	struct cgroups *c = arg;

	cgroups_drain(c);
	if (!c->walks && !c->gone && now_us() < c->next_us) {
		c->pending = c->pending || cgroups_arm(c, c->next_us);
		if (c->pending)
			return 0;
	}
	cgroups_follow(c);
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

int cgroups_open(sd_event *e, const char *root, const struct rules *rules,
		 const struct cgroups_ops *ops, void *arg, struct cgroups **out, char *err,
		 size_t errlen)
{
	struct cgroups *c = xcalloc(1, sizeof(*c));
	int ret;

	c->rules = rules;
	c->ops = *ops;
	c->arg = arg;
	c->root = xstrdup(root);
	c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ret = c->inotify_fd < 0 ? -errno
				: sd_event_add_io(e, &c->io, c->inotify_fd, EPOLLIN, on_inotify, c);
	if (ret >= 0)
		ret = sd_event_add_time(e, &c->timer, CLOCK_MONOTONIC, 0, 1, cgroups_on_timer, c);
	if (ret >= 0)
		ret = sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
	if (ret < 0) {
		fail(ret, err, errlen, "cgroups: cannot be watched: %s", strerror(-ret));
		goto fail;
	}
	*out = c;
	cgroups_scan(c);
	return 0;
fail:
	cgroups_close(c);
	return ret;
}

void cgroups_close(struct cgroups *c)
{
	struct match *e;

	if (!c)
		return;
	cgroups_leave(c);
	while ((e = c->gone)) {
		c->gone = e->next;
		match_free(e);
	}
	while ((e = c->first)) {
		c->first = e->next;
		tdelete(e, &c->by_path, cmp_match);
		match_free(e);
	}
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->timer);
	if (c->inotify_fd >= 0)
		close(c->inotify_fd);
	free(c->root);
	free(c);
}
