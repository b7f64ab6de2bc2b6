// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Scanning for cgroups that match the rules; see cgroups.h. A scan walks each pattern component by
 * component and puts an inotify watch on each directory it lists. Any inotify event triggers
 * another scan, so events need not be parsed and none can be missed. A directory that vanishes
 * during a scan is treated as absent.
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
#define PIECE_US  20000	  /* removals are reported for this long, then clients are served */
#define WATCHED	  (IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE_SELF | IN_ONLYDIR)
#define DEPTH_MAX RULES_COMPONENTS_MAX

struct match {
	struct cgroup c; /* first */
	struct match *next;
	char *path, *tenant;
	bool seen; /* by this scan */
};

struct cgroups {
	sd_event *e;
	const struct rules *rules;
	struct cgroups_ops ops;
	void *arg;
	char *root;
	struct match *first;
	struct match *gone; /* removed, but not reported yet */
	void *by_path;	    /* tsearch(3) tree of struct match */
	size_t nr;
	int inotify_fd;
	sd_event_source *io, *timer, *telling;
	bool pending; /* the timer is armed */
	bool polls;   /* adding a watch failed */
	bool follows; /* this scan is for a change of the directories */
	bool told_watches, told_many, told_name;
	uint64_t next_us; /* earliest time of the next scan */
};

static void cgroups_note(struct cgroups *c, const char *line)
{
	c->ops.note(c->arg, line);
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

/* Report removed cgroups, for up to PIECE_US unless @all. Many may go at once, and clients must be
 * answered in between. */
static void tell_gone(struct cgroups *c, bool all)
{
	uint64_t begin = now_us();
	struct match *e;

	while ((e = c->gone) && (all || now_us() - begin < PIECE_US)) {
		c->gone = e->next;
		match_gone(c, e);
	}
	if (c->gone && sd_event_source_set_enabled(c->telling, SD_EVENT_ONESHOT) < 0)
		tell_gone(c, true);
}

static int on_telling(sd_event_source *s, void *arg)
{
	tell_gone(arg, false);
	return 0;
}

/* The cgroup at @path matches a rule. */
static void found(struct cgroups *c, const char *path, const char *dir)
{
	char tenant[TENANT_PATH_MAX + 1], why[300];
	struct match key = {.path = (char *)path}, **have = tfind(&key, &c->by_path, cmp_match), *e;
	uint64_t id;

	if (have && (*have)->seen)
		return; /* another pattern matches it as well */
	if (!rules_cgroup(c->rules, path, tenant, why, sizeof(why))) {
		if (*why && !c->told_name)
			cgroups_note(c, why);
		c->told_name |= *why != '\0';
		return;
	}
	if (cgroupfs_id(dir, &id, why, sizeof(why)))
		return; /* it is gone */
	if (have && (*have)->c.id == id && !strcmp((*have)->tenant, tenant)) {
		(*have)->seen = true;
		return;
	}
	if (c->nr >= CGROUPS_MAX) {
		if (!c->told_many)
			cgroups_note(
				c,
				"cgroups: more than 65536 match the rules; the rest is left out");
		c->told_many = true;
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
	e = match_new(path, id, tenant);
	e->c.born = c->follows;
	xtsearch(e, &c->by_path, cmp_match);
	e->seen = true;
	e->next = c->first;
	c->first = e;
	c->nr++;
	c->ops.added(c->arg, &e->c);
}

/* ---- scanning ------------------------------------------------------------------------------- */

/* Watch @dir for entries that are created or removed. */
static void cgroups_watch(struct cgroups *c, const char *dir)
{
	if (inotify_add_watch(c->inotify_fd, dir, WATCHED) >= 0 || errno == ENOENT ||
	    errno == ENOTDIR)
		return;
	c->polls = true;
	if (!c->told_watches)
		cgroups_note(c, "cgroups: directories cannot be watched "
				"(fs.inotify.max_user_watches?); they are looked at every second");
	c->told_watches = true;
}

static bool cgroups_is_plain(const char *name)
{
	return !strpbrk(name, "*?[");
}

static bool is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Walk @pattern, which points at a "/" or its end, below the cgroup @path. @dir is the absolute
 * path of that cgroup; both are buffers of PATH_MAX bytes, restored on return. */
static void cgroups_walk(struct cgroups *c, const char *pattern, char *dir, char *path)
{
	size_t dir_len = strlen(dir), path_len = strlen(path);
	const char *rest = strchrnul(pattern + !!*pattern, '/');
	char want[256];
	struct dirent *d;
	DIR *in;

	if (!*pattern) {
		found(c, path, dir);
		return;
	}
	cgroups_watch(c, dir);
	snprintf(want, sizeof(want), "%.*s", (int)(rest - pattern - 1), pattern + 1);
	in = cgroups_is_plain(want) ? NULL : opendir(dir);
	/* A plain component can match only the entry of that name: no readdir. */
	while (cgroups_is_plain(want) || (in && (d = readdir(in)))) {
		const char *name = cgroups_is_plain(want) ? want : d->d_name;

		if (!cgroups_is_plain(want) &&
		    (d->d_type != DT_DIR || *name == '.' || fnmatch(want, name, FNM_NOESCAPE)))
			continue;
		if (dir_len + strlen(name) + 2 <= PATH_MAX) {
			sprintf(dir + dir_len, "/%s", name);
			sprintf(path + path_len, "/%s", name);
			if (is_dir(dir))
				cgroups_walk(c, rest, dir, path);
			dir[dir_len] = path[path_len] = '\0';
		}
		if (!in)
			break;
	}
	if (in)
		closedir(in);
}

static void cgroups_find(struct cgroups *c, const struct patterns *p)
{
	char dir[PATH_MAX], path[PATH_MAX];

	for (size_t k = 0; k < p->nr; k++) {
		snprintf(dir, sizeof(dir), "%s", c->root);
		*path = '\0';
		cgroups_walk(c, p->text[k], dir, path);
	}
}

void cgroups_scan(struct cgroups *c)
{
	uint64_t begin = now_us();

	c->polls = false;
	for (struct match *e = c->first; e; e = e->next)
		e->seen = false;
	for (size_t i = 0; i < c->rules->nr; i++)
		cgroups_find(c, &c->rules->rule[i].cgroup);
	cgroups_find(c, &c->rules->commands);
	for (struct match **link = &c->first; *link;) {
		struct match *e = *link;

		if (e->seen) {
			link = &e->next;
			continue;
		}
		*link = e->next;
		tdelete(e, &c->by_path, cmp_match);
		e->next = c->gone;
		c->gone = e;
	}
	tell_gone(c, false);
	c->next_us = now_us() + SHARE * (now_us() - begin);
	if (c->polls && !c->pending) {
		c->pending = sd_event_source_set_time_relative(c->timer, POLL_US) >= 0 &&
			     sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT) >= 0;
	}
}

void cgroups_rules(struct cgroups *c, const struct rules *rules)
{
	c->rules = rules;
	c->told_many = c->told_name = false;
	cgroups_scan(c);
	tell_gone(c, true); /* the new rules are in force when this returns */
}

/* ---- events --------------------------------------------------------------------------------- */

static void cgroups_follow(struct cgroups *c)
{
	c->follows = true;
	cgroups_scan(c);
	c->follows = false;
}

static int cgroups_on_timer(sd_event_source *s, uint64_t usec, void *arg)
{
	struct cgroups *c = arg;

	c->pending = false;
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
	if (cgroups_drain(c) || c->pending)
		cgroups_follow(c);
}

static int on_inotify(sd_event_source *s, int fd, uint32_t revents, void *arg)
{
	struct cgroups *c = arg;
	uint64_t now;

	cgroups_drain(c);
	now = now_us();
	if (now >= c->next_us) {
		cgroups_follow(c);
	} else if (!c->pending) {
		c->pending = sd_event_source_set_time(c->timer, c->next_us) >= 0 &&
			     sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT) >= 0;
		if (!c->pending)
			cgroups_follow(c);
	}
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

int cgroups_mount(const char *named, char **out, char *err, size_t errlen)
{
	char *root = named ? realpath(named, NULL) : cgroupfs_mount("/proc/self/mounts");
	int ret = root ? 0 : -errno;

	*out = root;
	if (root)
		return 0;
	return named ? fail(ret, err, errlen,
			    "cgroup_root: %s: %s; expected the directory where cgroup2 is mounted",
			    named, strerror(-ret))
		     : fail(-ENOENT, err, errlen,
			    "cgroup_root: no cgroup2 is mounted here; mount one, or name its "
			    "directory");
}

int cgroups_open(sd_event *e, const char *root, const struct rules *rules,
		 const struct cgroups_ops *ops, void *arg, struct cgroups **out, char *err,
		 size_t errlen)
{
	struct cgroups *c = xcalloc(1, sizeof(*c));
	int ret;

	c->e = sd_event_ref(e);
	c->rules = rules;
	c->ops = *ops;
	c->arg = arg;
	c->root = xstrdup(root);
	c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ret = c->inotify_fd < 0 ? -errno
				: sd_event_add_io(e, &c->io, c->inotify_fd, EPOLLIN, on_inotify, c);
	if (ret >= 0)
		ret = sd_event_add_time(e, &c->timer, CLOCK_MONOTONIC, 0, 0, cgroups_on_timer, c);
	if (ret >= 0)
		ret = sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
	if (ret >= 0)
		ret = sd_event_add_defer(e, &c->telling, on_telling, c);
	if (ret >= 0)
		ret = sd_event_source_set_enabled(c->telling, SD_EVENT_OFF);
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
	sd_event_source_disable_unref(c->telling);
	if (c->inotify_fd >= 0)
		close(c->inotify_fd);
	sd_event_unref(c->e);
	free(c->root);
	free(c);
}
