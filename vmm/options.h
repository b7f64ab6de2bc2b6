/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command line of vpmu-vmm. main.c calls options_parse once, before anything else. Nothing here
 * may start a thread or touch a VM.
 */
#pragma once

#include "service/access.h"
#include "vmm/config/config.h"

struct options {
	struct config config;	    /* from the file and the options, checked */
	struct access_rules access; /* --admin-group, --reader-group */
	bool json;		    /* --json */
	bool hold;		    /* --hold: run until told to quit, even without a VM */
	bool paused;		    /* --paused: start no VM before "resume" */
	unsigned int
		wait_attach; /* start no VM before this many sessions are attached; 0: not given */
	bool no_socket;	     /* --no-socket */
};

/*
 * options_parse - parse the command line and read the configuration file. 0, or -errno with one
 * line in @err. --help, --usage, --version and --complete end the process with status 0, and a
 * misspelt option with status 2, because argp does so. options_fini - free *o; call it even if
 * options_parse failed.
 */
int options_parse(struct options *o, int argc, char **argv, char *err, size_t errlen);
void options_fini(struct options *o);
