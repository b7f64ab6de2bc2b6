/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The state file: what the next vpmud must know to go on with the counts that are pinned in the
 * kernel. It belongs to root, and is replaced as a whole. keep.c says what is in it.
 */
#ifndef VPMUD_STATE_H
#define VPMUD_STATE_H

#include <jansson.h>
#include <stddef.h>

#define STATE_MAX (256u << 20) /* bytes */

/* state_write - replace the file @path by @state. -errno and one line in @err; then the old file is
 * as it was. */
int state_write(const char *path, const json_t *state, char *err, size_t errlen);

/* state_read - the object in file @path, which the caller frees; NULL and 0: there is no file.
 * -EPERM: others could have written it; -EINVAL: it is no such file. One line to @err. */
int state_read(const char *path, json_t **out, char *err, size_t errlen);

#endif
