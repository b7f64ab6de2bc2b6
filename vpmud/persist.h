/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves what the next vpmud needs beside the counts pinned in the kernel: sessions, their bases,
 * and the count of each VM. Decides when the state file is written and which of its contents
 * are trusted. All functions run on the event loop's thread.
 */
#pragma once

#include "cgroup/cgroup.h"
#include "service/session.h"
#include "vpmud/config.h"
#include "vpmud/tree.h"

struct persist;

/* persist_pin_dir - the pin directory: from @c, or the default if there is a bpffs. NULL: no pins;
 * @note gets a line unless the configuration disables them. */
const char *persist_pin_dir(const struct vpmud_config *c, void (*note)(const char *line));

/* persist_busy - for bpf_backend_opts: wait 0.1 s for a killed vpmud, which holds the pins until
 * the kernel has closed its events. @times: waits so far. Returns false to give up: after 30 s, or
 * if SIGTERM or SIGINT is pending. */
bool persist_busy(unsigned int times);

/*
 * persist_create - read the state file beside @socket, and ignore it if it belongs to other counts
 * than those of @k. @note gets a line for everything lost, and for the first failed write.
 *
 * persist_destroy - call it after the sessions are freed: they hold strings of it. NULL is allowed.
 */
struct persist *persist_create(const char *socket, struct bpf_backend *k,
			       void (*note)(const char *line));
void persist_destroy(struct persist *k);

/* persist_tree - the tree that the previous vpmud saved; NULL: none. Borrowed. */
const json_t *persist_tree(const struct persist *k);

/* persist_begin - reopen the saved sessions. State is written from now on. */
void persist_begin(struct persist *k, struct sessions *ss, struct tree *tree);

/*
 * persist_sessions - write the file if a session was added, removed or changed; call it before the
 * client gets its answer.
 *
 * persist_all - write the file if a node changed, too; less often with very many nodes. After a
 * failed write both retry once a second.
 *
 * persist_now - write the file now, also for new rules. Returns 0 or -errno.
 */
void persist_sessions(struct persist *k);
void persist_all(struct persist *k);
int persist_now(struct persist *k);
