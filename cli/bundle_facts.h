/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The texts of an archive of `vpmu check --bundle`, one function each. They write what they find;
 * what cannot be read is said to be so. All of them are bounded. */
#ifndef CLI_BUNDLE_FACTS_H
#define CLI_BUNDLE_FACTS_H

#include <jansson.h>
#include <stdio.h>
#include <sys/types.h>

#include "cli/redact.h"

/* facts_host - kernel, distribution, CPU, settings and modules that matter for counting. */
void facts_host(FILE *to);
/* facts_process - state, limits and capabilities of process @pid. */
void facts_process(const struct redact *r, pid_t pid, FILE *to);
/* facts_servers - the same of each process of the names vpmud and vpmu-vmm. */
void facts_servers(const struct redact *r, FILE *to);
/* facts_config - vpmud.conf without comments. */
void facts_config(const struct redact *r, const char *path, FILE *to);
/* facts_journal - the newest lines of vpmud's journal, which a child process reads: no other thread
 * may be running. */
void facts_journal(const struct redact *r, FILE *to);
/* facts_rows - each object of @rows on a line, with the fields of @plain as they are and those of
 * @named as names. Other fields are left out. NULL ends both lists. */
void facts_rows(const struct redact *r, const json_t *rows, const char *const *plain,
		const char *const *named, FILE *to);

#endif
