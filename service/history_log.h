/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of past counts as bytes: segments of records, the same in memory and in files. A
 * record has a length and a checksum; readers check every field, and a segment ends for them before
 * the first record that is damaged or incomplete. history.c calls this. Control thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/event/key.h"

/* Flags of a delta; the quality (enum vpmu_quality) is in the low bits. */
#define HISTORY_QUALITY	    3u
#define HISTORY_PARTIAL	    4u
#define HISTORY_AGED	    8u
#define HISTORY_MULTIPLEXED 16u /* share: percent of the time a counter counted */

struct history_delta {
	uint32_t id; /* of the series in its segment: the number of series before it */
	uint8_t flags, share;
	uint64_t delta;
};

struct history_tick {
	uint64_t time_ns, width_ns;
	bool follows; /* it has all since the tick before, however late it is */
};

struct history_segment {
	uint8_t *buf;
	size_t len, room;
	uint32_t nr_ids;
	uint64_t seq; /* number of the segment */
	uint64_t first_ns,
		last_ns; /* least and greatest time of its ticks, CLOCK_REALTIME; 0: none */
	unsigned int ticks;
};

/* Callbacks of a walk; NULL: not called. Strings are valid during the call. */
struct history_walk {
	void (*series)(void *arg, uint32_t id, const char *path, const char *vm, vpmu_key_t key,
		       const char *event); /* vm: "": a tenant */
	/* Deltas of a tick follow; returns false to skip them. */
	bool (*tick)(void *arg, const struct history_tick *t);
	void (*delta)(void *arg, const struct history_delta *d);
	void *arg;
};

/* history_log_begin - start @s, all 0 but seq, with its first record.
 * history_log_series - append a series; returns its id here.
 * history_log_tick - append a tick: deltas of ascending ids. */
void history_log_begin(struct history_segment *s, uint64_t interval_ns);
uint32_t history_log_series(struct history_segment *s, const char *path, const char *vm,
			    vpmu_key_t key, const char *event);
void history_log_tick(struct history_segment *s, const struct history_tick *t,
		      const struct history_delta *d, size_t n);

/* history_log_walk - call @w for the records of @s; returns the length of the valid part.
 * history_log_check - of @s only buf and len are set, from a file: set the rest, and cut off what
 * is invalid. -EINVAL: not of @interval_ns, or no segment. */
size_t history_log_walk(const struct history_segment *s, const struct history_walk *w);
int history_log_check(struct history_segment *s, uint64_t interval_ns);
/* history_log_trim - give memory that is not needed back. */
void history_log_trim(struct history_segment *s);

/*
 * history_file.c: the files, one per segment, FILE.0 to FILE.8 by its number. A file grows by one
 * write per interval; a segment that was cut off is written anew.
 */
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
