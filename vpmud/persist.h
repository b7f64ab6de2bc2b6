/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Saves what the next vpmud needs beside the counts pinned in the kernel: sessions, their bases,
 * and the count of each VM. Decides when the state file is written and which of its contents
 * are trusted. All functions run on the event loop's thread.
 */
#ifndef VPMUD_PERSIST_H
#define VPMUD_PERSIST_H

#include "cgroup/cgroup.h"
#include "service/session.h"
#include "vpmud/config.h"
#include "vpmud/tree.h"

struct keep;

/* keep_pin_dir - the pin directory: from @c, or the default if there is a bpffs. NULL: no pins;
 * @note gets a line unless the configuration disables them. */
const char *keep_pin_dir(const struct vpmud_config *c, void (*note)(const char *line));

/* keep_busy - for bpf_backend_opts: wait 0.1 s for a killed vpmud, which holds the pins until the
 * kernel has closed its events. @times: waits so far. Returns false to give up: after 30 s, or if
 * SIGTERM or SIGINT is pending. */
bool keep_busy(unsigned int times);

/*
 * keep_create - read the state file beside @socket, and ignore it if it belongs to other counts
 * than those of @k. @note gets a line for everything lost, and for the first failed write.
 *
 * keep_destroy - call it after the sessions are freed: they hold strings of it. NULL is allowed.
 */
struct keep *keep_create(const char *socket, struct bpf_backend *k, void (*note)(const char *line));
void keep_destroy(struct keep *k);

/* keep_tree - the tree that the previous vpmud saved; NULL: none. Borrowed. */
const json_t *keep_tree(const struct keep *k);

/* keep_begin - reopen the saved sessions. State is written from now on. */
void keep_begin(struct keep *k, struct sessions *ss, struct tree *tree);

/*
 * keep_sessions - write the file if a session was added, removed or changed; call it before the
 * client gets its answer.
 *
 * keep_all - write the file if a node changed, too; less often with very many nodes. After a failed
 * write both retry once a second.
 *
 * keep_now - write the file now. Returns 0 or -errno.
 */
void keep_sessions(struct keep *k);
void keep_all(struct keep *k);
int keep_now(struct keep *k);

#endif
