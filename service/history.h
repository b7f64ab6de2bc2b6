/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The memory of the last hour: per tenant and VM what sessions counted in each interval. It counts
 * nothing itself: it reads the sessions of administrators and of readers that see all tenants, and
 * keeps differences. So it costs a switch nothing, and a tenant's readers can neither fill it nor
 * learn from it what others ask of their nodes. Memory is bounded; the oldest goes first.
 *
 * With a file it survives the process: each interval is appended by one write, and a file that was
 * cut off is used up to there. Control thread.
 */
#pragma once

#include "service/history_log.h"
#include "service/session.h"

#define HISTORY_BYTES_MAX  (30u << 20) /* of segments; with 8,000 series 32 MiB in all */
#define HISTORY_SERIES_MAX 32768       /* at a time */
#define HISTORY_SEGMENTS   9 /* eight are the time to keep; the oldest goes when one is new */

struct history;

struct history_opts {
	uint64_t interval_ns, keep_ns;
	const char *file; /* files FILE.0 to FILE.8; NULL: none. Copied */
	void (*note)(void *arg, const char *line);
	void *arg;
};

/*
 * history_create - read what a former process has kept. Call it before sessions are opened or
 * restored. history_destroy - NULL is fine. Call it before @ss is destroyed.
 * history_tick - an interval has ended at @at_us, CLOCK_REALTIME: read the sessions and keep what
 * they have counted; @mono_ns is CLOCK_MONOTONIC.
 */
struct history *history_create(struct sessions *ss, const struct history_opts *o);
void history_destroy(struct history *h);
void history_tick(struct history *h, uint64_t at_us, uint64_t mono_ns);

/* For the command (history_commands.c). history_segment - the @i-th oldest; NULL: no more. */
uint64_t history_interval_ns(const struct history *h);
uint64_t history_dropped(const struct history *h);
const struct history_segment *history_segment(const struct history *h, size_t i);
