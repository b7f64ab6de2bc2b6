/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state file: what the next vpmud needs to continue with the counts pinned in the kernel. It is
 * owned by vpmud's user and replaced atomically. persist.c defines its contents.
 */
#ifndef VPMUD_STATE_H
#define VPMUD_STATE_H

#include <jansson.h>
#include <stddef.h>

#define STATE_MAX (256u << 20) /* bytes */

/* state_write - atomically replace the file @path by @state. Returns 0, or -errno and one line in
 * @err; the old file is then unchanged. */
int state_write(const char *path, const json_t *state, char *err, size_t errlen);

/* state_read - read the object in file @path to *@out, which the caller frees; NULL and 0: there is
 * no file. -EPERM: others can write to it; -EFBIG: longer than STATE_MAX; -EINVAL: no JSON object.
 * One line to @err. */
int state_read(const char *path, json_t **out, char *err, size_t errlen);

#endif
