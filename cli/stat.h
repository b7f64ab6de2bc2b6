/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of `vpmu stat`. watch.c waits while sessions count: the counts are read periodically,
 * so that some remain if the server is lost. A server that ends normally sends its last counts.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli/client.h"
#include "cli/options.h"
#include "cli/reading.h"
#include "cli/session.h"
#include "cli/wait.h"

enum watch_end {
	WATCH_TIME,	    /* timeout */
	WATCH_STOP,	    /* Ctrl-C, SIGTERM, or the command ended */
	WATCH_TARGET_GONE,  /* the target VM or tenant was removed */
	WATCH_FAILED,	    /* the server rejected a request; the error was printed */
	WATCH_SERVER_ENDED, /* the server ended and sent its last counts */
	WATCH_SERVER_LOST   /* the server is gone without last counts */
};

struct watch {
	struct sessions *s;
	bool follow;	      /* continue when the target is removed */
	struct reading *last; /* counts since the attach, newer than any returned by watch_take();
				 NULL: none */
	double next, gap;     /* of background readings */
};

/* watch_until - wait until cli_now() reaches @end (below 0: no limit), or for another end. */
enum watch_end watch_until(struct watch *w, double end);

/*
 * watch_take - read the counts now, as in @how, or take the last known ones if that fails. *@why,
 * from watch_until(), is updated if the server turns out to be gone. The caller must free the
 * reading. NULL: no counts.
 */
struct reading *watch_take(struct watch *w, enum session_read how, enum watch_end *why);

/* watch_note - print to standard error that the server is gone, and the age of the counts @shown
 * (NULL: none). Returns the exit status. */
int watch_note(enum watch_end why, const struct reading *shown);

void watch_fini(struct watch *w);

/* ---- repeat.c: the means of several runs of a command, for -r ---- */

/* mean_error - return the mean of the @n >= 1 values @x. *@error: the standard error of the mean,
 * sqrt(variance / n), as in perf stat -r; 0 for one value. */
double mean_error(const double *x, size_t n, double *error);

/*
 * repeat_mean - set @last, the difference over the last run, to the mean of the @n differences
 * @run. Rows are matched by id; a row missing in a run counts as 0. Each value gets its variance.
 * @last may be one of @run.
 */
void repeat_mean(struct reading *last, struct reading *const *run, size_t n);

/*
 * since.c, for --since: what vpmud has kept of the past (the request `history`, docs/protocol.md),
 * as readings that are printed like any other. It attaches nothing, and never makes up a count: an
 * interval without one is a gap.
 */
struct since_opts {
	const struct what_opts *what;
	const struct format_opts *format;
	const struct past_opts *past; /* since is given */
	double interval_s;	      /* -I: a reading for each; 0: one for the range */
};

/* since_run - ask @c and print. Returns the exit status: 1 if nothing was kept of that time. */
int since_run(const struct since_opts *o, struct client *c);

/*
 * own_cgroup.c: a cgroup for one command, below the cgroup of this process, so that the command
 * keeps its limits. A child process of its own removes it when this process ends it or is gone, in
 * whatever way.
 */
struct own_cgroup {
	char path[PATH_MAX]; /* below the mount of cgroup2 */
	int procs_fd;	     /* its cgroup.procs */
	int alive_fd;	     /* the keeper waits until this is closed */
	pid_t keeper;
};

struct client;

/* own_cgroup_tenant - make the cgroup, which the server then counts as a tenant, for @command of
 * `vpmu @cmd`. Returns the tenant, which the caller frees; NULL after an error was printed. In any
 * case the caller calls own_cgroup_end(). */
char *own_cgroup_tenant(struct own_cgroup *o, struct client *c, const char *cmd,
			const char *command);

/* own_cgroup_end - move what still runs in it to the cgroup above, and remove it. */
void own_cgroup_end(struct own_cgroup *o);
