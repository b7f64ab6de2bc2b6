/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What outlives vpmud beside the counts that are pinned in the kernel: sessions, their bases, and
 * which VM has which count. When the state file (state.h) is written, what is in it, and what of it
 * is believed. All functions: the event loop's thread.
 */
#ifndef VPMUD_PERSIST_H
#define VPMUD_PERSIST_H

#include "cgroup/cgroup.h"
#include "service/session.h"
#include "vpmud/config.h"
#include "vpmud/tree.h"

struct keep;

/* keep_pin_dir - where counts are pinned: as @c says, or the usual directory if there is a bpffs;
 * NULL: nowhere, and @note gets a line if nobody asked for that. */
const char *keep_pin_dir(const struct vpmud_config *c, void (*note)(const char *line));

/* keep_busy - for bpf_backend_opts: wait for a vpmud that was killed, which has the pins until the
 * kernel has closed its events. */
bool keep_busy(unsigned int times);

/*
 * keep_create - the state file beside @socket; it is read, and what is of other counts than those
 * of @k is left. @note gets a line of each thing that is lost, and of the first write that fails.
 * -ENOMEM. keep_destroy - after the sessions, which have strings of it; NULL is fine.
 */
int keep_create(const char *socket, struct bpf_backend *k, void (*note)(const char *line),
		struct keep **out);
void keep_destroy(struct keep *k);

/* keep_tree - what the former vpmud has left of the tree; NULL: nothing. */
const json_t *keep_tree(const struct keep *k);

/* keep_begin - open the sessions again that were left. Their files are written from now on. */
void keep_begin(struct keep *k, struct sessions *ss, struct tree *tree);

/*
 * keep_sessions - write the file if a session has come, gone or changed: before a client is told.
 * keep_all - also if a node has; with very many nodes less often. After a write that failed both
 * try again, at most once a second. keep_now - write it. 0, or -errno.
 */
void keep_sessions(struct keep *k);
void keep_all(struct keep *k);
int keep_now(struct keep *k);

#endif
