/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest tools' driver of branch records: Intel architectural LBR (SDM vol. 3, 19.1) or AMD
 * LbrExtV2 (APM vol. 2, 13.1.1.9). In both, record 0 is the newest. sample.c uses it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LBR_DEPTH_MAX 32

enum lbr_kind { LBR_NONE, LBR_INTEL, LBR_AMD };
enum lbr_mode { LBR_CALLS, LBR_BRANCHES };

struct lbr_dev {
	enum lbr_kind kind;
	unsigned int max;  /* largest number of records */
	uint32_t depths;   /* bit n: depth 8 * (n + 1) can be chosen; 0: only max */
	bool call_stack;   /* has call-stack mode */
	bool filter;	   /* can filter by privilege level and kind of branch */
	uint32_t from, to; /* MSRs of the newest record */
	uint32_t stride;
	uint32_t enable_msr; /* writing @enable starts recording, and clears nothing */
	uint64_t enable;
};

/* lbr_probe - fill *dev from CPUID. Without branch records kind is LBR_NONE, and @why has one line.
 */
void lbr_probe(struct lbr_dev *dev, char *why, size_t why_size);

/* lbr_start - clear all records, then record in CPL3: the call stack or all near branches, @depth
 * deep. lbr_stop - stop recording; the records stay. False: an access was #GP. */
bool lbr_start(const struct lbr_dev *dev, enum lbr_mode mode, unsigned int depth);
bool lbr_stop(const struct lbr_dev *dev);

/* lbr_clear - clear all records, by a write of the depth (Intel) or of each record (AMD). */
bool lbr_clear(const struct lbr_dev *dev, unsigned int depth);

/* lbr_depth_ok - returns true if @depth is supported. */
bool lbr_depth_ok(const struct lbr_dev *dev, unsigned int depth);

/* lbr_record - convert *@from and *@to, as read from a record's MSRs, to the addresses of the
 * branch. False: the record is not valid. */
static inline bool lbr_record(const struct lbr_dev *dev, uint64_t *from, uint64_t *to)
{
	if (dev->kind == LBR_AMD) {
		bool valid = *to >> 63;

		*from = (uint64_t)((int64_t)(*from << 6) >> 6); /* 57:0, sign-extended */
		*to = (uint64_t)((int64_t)(*to << 6) >> 6);
		return valid;
	}
	return *from || *to;
}
