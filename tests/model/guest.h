/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A guest's PMU registers in the model: guest.c. steps_guest.c does the same to the library's. */
#ifndef TESTS_MODEL_GUEST_H
#define TESTS_MODEL_GUEST_H

#include "tests/model/steps.h"

#define G_CTR_FRZ	 (1ULL << 59)
#define G_LBR_FRZ	 (1ULL << 58)
#define G_FREEZE_LBRS	 (1ULL << 11)
#define G_FREEZE_PERFMON (1ULL << 12)

/* Event selects that the histories use, and enum vpmu_generic. */
struct g_event {
	uint16_t intel, amd;
	int event;
};
#define G_EVENTS 7
extern const struct g_event g_events[G_EVENTS];

uint64_t g_bit(unsigned int i); /* of counter @i, in the global registers */
uint64_t g_all_bits(const struct h_guest *g);
bool g_has_status(const struct h_guest *g);

void g_init(struct history *h, int v);
void g_reset(struct history *h, int v);
void g_placed(struct history *h, int v, int place);		    /* M_NONE: nowhere */
void g_settle(struct history *h, struct h_guest *g, uint32_t ctrs); /* values are as of now */
void g_apply(struct history *h, int v, uint32_t ctrs);
void g_lbr_apply(struct history *h, int v);

void g_write_sel(struct history *h, int v, unsigned int i, uint64_t val);
void g_write_fixed_ctrl(struct history *h, int v, uint64_t val);
void g_write_ctr(struct history *h, int v, unsigned int i, uint64_t val);
void g_write_global(struct history *h, int v, uint64_t val);
void g_write_status(struct history *h, int v, uint64_t clear, uint64_t set);
void g_lbr_depth(struct history *h, int v, unsigned int depth);
void g_pmi(struct history *h, int v);

/* Calls of the library in steps_guest.c; samples in them may show branch records of before or
 * after. */
#define G_OP(h, call)                                                                              \
	({                                                                                         \
		(h)->lbr_moves = true;                                                             \
		__auto_type got_ = OP(h, M_NONE, call);                                            \
		(h)->lbr_moves = false;                                                            \
		got_;                                                                              \
	})
#define G_OP_VOID(h, call)                                                                         \
	do {                                                                                       \
		(h)->lbr_moves = true;                                                             \
		OP_VOID(h, M_NONE, call);                                                          \
		(h)->lbr_moves = false;                                                            \
	} while (0)

#endif
