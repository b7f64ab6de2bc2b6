/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vpmu-qemu asks vpmud what its VM may have, before QEMU runs: the process is the one that becomes
 * QEMU. */
#ifndef PRELOAD_ASK_H
#define PRELOAD_ASK_H

#include <stddef.h>

#include "preload/conf.h"

/* ask_vpmud - set the keys pmu, gp, policy, allow and deny of *@c as vpmud at the socket @path
 * gives them. 0; -ENOENT: @path is "", or no vpmud is there; -ETIMEDOUT with one line in @err: it
 * did not answer within a few seconds; -EPROTO, likewise: its answer is invalid; -ENOMEM. */
int ask_vpmud(const char *path, struct conf *c, char *err, size_t errlen);

#endif
