/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of vpmu-vmm. */
#ifndef VMM_OPTIONS_H
#define VMM_OPTIONS_H

#include "vmm/config/config.h"

struct options {
	struct config config;	  /* file and options together, checked */
	bool json;		  /* --json */
	bool hold;		  /* stay when the last VM has ended, or when there is none */
	bool paused;		  /* start no VM before "resume" */
	unsigned int wait_attach; /* ... or before so many operator sessions are attached */
	bool no_socket;
};

/*
 * options_parse - argp for --help, --usage and --version (which exit with 0) and misspelt options
 * (exit with 2); everything else is checked here: 0, or -errno and one line in @err.
 * options_fini frees in either case.
 */
int options_parse(struct options *o, int argc, char **argv, char *err, size_t errlen);
void options_fini(struct options *o);

#endif
