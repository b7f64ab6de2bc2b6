// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Branch records of a guest, for all register models. intel_lbr.c and amd_lbr.c call these
 * functions. The records are in the context (vpmu/lbr.h). They exist only while the guest uses
 * them: from the first enable, or the first record that it writes, until they are disabled and
 * empty.
 *
 * Hardware never refuses to record. Without memory nothing is recorded, records read as empty, and
 * the next enable or placement retries.
 */
#include <errno.h>
#include <string.h>

#include "vpmu/guest/internal.h"

/* True if *e reads as an empty record. */
static bool empty(const struct vpmu_guest *g, const struct vpmu_lbr_entry *e)
{
	uint64_t info = g->ops->intel ? e->info
				      : (e->info & (LBR_INFO_SPEC | LBR_INFO_MISPRED)) |
						(~e->info & LBR_INFO_INVALID);

	return !(e->from | e->to | info);
}

/* The value of an empty record. */
static struct vpmu_lbr_entry no_entry(const struct vpmu_guest *g)
{
	return (struct vpmu_lbr_entry){.info = g->ops->intel ? 0 : LBR_INFO_INVALID};
}

static struct vpmu_lbr_entry *nth(struct vpmu_lbr_regs *r, unsigned int n)
{
	return &r->e[(r->head + VPMU_LBR_DEPTH_MAX - n) % VPMU_LBR_DEPTH_MAX];
}

/* Copy the state to *r. If there is none and @make is set, create one. 0 or -errno. */
static int state(struct vpmu_guest *g, struct vpmu_lbr_regs *r, bool make)
{
	int ret;

	if (!g->ctx)
		return -ENOENT; /* the scratch guest of save.c */
	ret = vpmu_lbr_guest_get(g->ctx, g->pcpu, r);
	if (ret != -ENOENT || !make)
		return ret;
	ret = vpmu_lbr_guest_open(g->ctx, g->pcpu, g->lbr_depth);
	return ret ? ret : vpmu_lbr_guest_get(g->ctx, g->pcpu, r);
}

/* Replace the state by *r; free it if no record is left and the guest records nothing. */
static void lbr_store(struct vpmu_guest *g, struct vpmu_lbr_regs *r)
{
	while (r->count && empty(g, nth(r, r->count - 1u)))
		r->count--;
	if (r->total < r->count)
		r->total = r->count; /* records written by the guest */
	r->ctl = g->ops->lbr(g);
	if (r->count || (r->ctl & VPMU_LBR_EN))
		vpmu_lbr_guest_set(g->ctx, g->pcpu, r);
	else
		vpmu_lbr_guest_close(g->ctx, g->pcpu);
}

void guest_lbr_apply(struct vpmu_guest *g)
{
	struct vpmu_lbr_regs r;
	uint32_t want;

	if (!g->lbr_max)
		return;
	want = g->ops->lbr(g);
	if (state(g, &r, want & VPMU_LBR_EN))
		return;
	if (r.ctl != want || (!r.count && !(want & VPMU_LBR_EN)))
		lbr_store(g, &r);
}

bool guest_lbr_get(struct vpmu_guest *g, unsigned int n, struct vpmu_lbr_entry *e)
{
	const struct vpmu_lbr_entry *found;
	struct vpmu_lbr_regs r;

	*e = no_entry(g);
	if (state(g, &r, false))
		return false;
	found = vpmu_lbr_nth(&r, n);
	if (found)
		*e = *found;
	return found != NULL;
}

void guest_lbr_put(struct vpmu_guest *g, unsigned int n, const struct vpmu_lbr_entry *e)
{
	struct vpmu_lbr_regs r;

	if (state(g, &r, !empty(g, e)))
		return;
	for (; r.count <= n; r.count++)
		*nth(&r, r.count) = no_entry(g);
	*nth(&r, n) = *e;
	lbr_store(g, &r);
}

void guest_lbr_reset(struct vpmu_guest *g)
{
	struct vpmu_lbr_regs r;

	if (state(g, &r, false)) {
		guest_lbr_apply(g); /* if enabled: retry after a lack of memory */
		return;
	}
	r = (struct vpmu_lbr_regs){.depth = (uint8_t)g->lbr_depth};
	lbr_store(g, &r);
}
