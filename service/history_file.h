/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files of the memory of past counts: one per segment, FILE.0 to FILE.8 by its number.
 * history.c calls this. A file grows by one write per interval; a segment that was cut off is
 * written anew.
 */
#ifndef SERVICE_HISTORY_FILE_H
#define SERVICE_HISTORY_FILE_H

#include "service/history_log.h"

struct history_file;

/*
 * history_file_open - read the segments of files @base.0 to @base.(max - 1) into @seg, the oldest
 * first. Files of another interval, of another user, or that others may write, are not read: a line
 * to @note.
 * history_file_write - bring the file of @s, the newest segment, up to date. On an error the next
 * call writes all of it.
 */
struct history_file *history_file_open(const char *base, uint64_t interval_ns,
				       struct history_segment *seg, size_t max, size_t *nr,
				       void (*note)(void *arg, const char *line), void *arg);
int history_file_write(struct history_file *f, const struct history_segment *s);
void history_file_close(struct history_file *f);

#endif
