/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu top counts: its options, and the sessions behind it. Used by the screen and by batch
 * mode. */
#ifndef CLI_TOP_SOURCE_H
#define CLI_TOP_SOURCE_H

#include "cli/session.h"

struct top_opts {
	struct what_opts what;
	struct format_opts format; /* of batch mode, and the metrics */
	const char *asked;	   /* -M; NULL: not given */
	bool metrics_optional;	   /* leave out the metrics that nothing shown supports */
	const char *metrics_only;  /* list of the events that only metrics need; NULL: none */
	const char *filter;	   /* rows whose names contain it; NULL: all */
	double delay_s;		   /* between two updates */
	long iterations;	   /* updates; 0: until q or Ctrl-C */
	bool batch;
};

/* What is known of a row beside its counts. */
struct top_fact {
	char state[16];		   /* of a VM, and of the VM of a vCPU; "": not known */
	unsigned int running, vms; /* of a tenant: its VMs on this backend, and how many run */
	double share; /* percent of the time of all pCPUs of the backend that it ran; below
		       * 0: not known */
};

struct top_source {
	struct client *c;
	const struct top_opts *o;
	struct sessions sessions;
	struct reading *before; /* totals of the last update */
	struct reading *diff;	/* what the last update shows */
	struct top_fact *facts; /* one per row of diff */
	double seconds;		/* diff is over so much time */
	double age_s;		/* of the last update, since top_open */
	/* private */
	struct sessions host; /* of /, whose time is that of the pCPUs; empty: may not be counted */
	struct reading *host_before;
};

/* top_open - start a session and read it once. false after an error was printed. In both cases the
 * caller must call top_close. */
bool top_open(struct top_source *src, struct client *c, const struct top_opts *o);
/* top_take - the counts since the last call; valid until the next one. NULL after an error was
 * printed. */
const struct reading *top_take(struct top_source *src);
/* top_close - end the sessions. Errors are not printed: the server may be gone. */
void top_close(struct top_source *src);

#endif
