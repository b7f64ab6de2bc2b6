/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of vpmu top, its sessions, the screen and batch mode. */
#pragma once

#include "cli/session.h"

struct top_opts {
	struct what_opts what;
	struct format_opts format; /* of batch mode, and the metrics */
	const char *asked;	   /* -M; NULL: not given */
	bool metrics_optional;	   /* omit metrics without a supported row */
	const char *metrics_only;  /* events needed by metrics only; NULL: none */
	const char *filter;	   /* rows with it in their names; NULL: all */
	double delay_s;		   /* between two updates */
	long iterations;	   /* updates; 0: until q or Ctrl-C */
	bool batch;
};

/* Data of a row beside its counts. */
struct top_fact {
	char state[16];		   /* of the VM, also for a vCPU; "": unknown */
	unsigned int running, vms; /* of a tenant: its VMs on this backend, and how many run */
	double share; /* percent of the time of all pCPUs of the backend; below 0: unknown */
};

struct top_source {
	struct client *c;
	const struct top_opts *o;
	struct sessions sessions;
	struct reading *before; /* totals of the last update */
	struct reading *diff;	/* counts of the last update */
	struct top_fact *facts; /* one per row of diff */
	double seconds;		/* interval of diff */
	double age_s;		/* of the last update, since top_open */
	double idle; /* percent of the time of all pCPUs, which the share of /host lacks then; below
		      * 0: unknown */
	/* private */
	struct sessions host; /* session of /, which has the pCPUs' time; empty: no permission */
	struct reading *host_before;
	struct sessions idling; /* the same of idle-time */
	struct reading *idling_before;
};

/* top_open - start a session and read it once. Returns false after an error was printed. Call
 * top_close() in either case. */
bool top_open(struct top_source *src, struct client *c, const struct top_opts *o);
/* top_take - return the counts since the last call; valid until the next one. NULL after an error
 * was printed. */
const struct reading *top_take(struct top_source *src);
/* top_close - end the sessions. Errors are not printed: the server may be gone. */
void top_close(struct top_source *src);

/* top_batch - print @src as often as @o requests. Returns the exit status. */
int top_batch(struct top_source *src, const struct top_opts *o);

/* top_screen - run the screen for @src until q. Keys change @o. Returns the exit status; errors
 * were printed after the screen was closed. */
int top_screen(struct top_source *src, struct top_opts *o);
