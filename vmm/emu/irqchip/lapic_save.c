// SPDX-License-Identifier: GPL-2.0-or-later
/* The local APIC in snapshots: see lapic.h. Loaded bytes are untrusted. */
#include <errno.h>

#include "vmm/emu/irqchip/lapic.h"

#define TAG	    0x4350414cu /* "LAPC" */
#define FORMAT	    1
#define TAG_FULL    0x4c55464cu /* "LFUL" */
#define FORMAT_FULL 1

void lapic_save(const struct lapic *l, struct vpmu_blob *b)
{
	size_t section = vpmu_blob_begin(b, TAG, FORMAT);

	vpmu_blob_u32(b, l->id);
	vpmu_blob_u32(b, l->svr);
	vpmu_blob_u32(b, l->tpr);
	vpmu_blob_u32(b, l->esr);
	vpmu_blob_u32(b, l->esr_shown);
	vpmu_blob_u64(b, l->icr);
	vpmu_blob_u32(b, l->timer_initial);
	vpmu_blob_u32(b, l->timer_divide);
	for (int i = 0; i < 7; i++)
		vpmu_blob_u32(b, l->lvt[i]);
	for (int i = 0; i < 8; i++) {
		vpmu_blob_u32(b, l->irr[i]);
		vpmu_blob_u32(b, l->isr[i]);
	}
	vpmu_blob_u8(b, l->nmi);
	vpmu_blob_u8(b, l->offered);
	vpmu_blob_end(b, section);
	if (!l->full)
		return;
	section = vpmu_blob_begin(b, TAG_FULL, FORMAT_FULL);
	for (int i = 0; i < 8; i++)
		vpmu_blob_u32(b, l->tmr[i]);
	vpmu_blob_u32(b, l->ldr);
	vpmu_blob_u32(b, l->dfr);
	vpmu_blob_u32(b, l->timer_left);
	vpmu_blob_u64(b, l->timer_at);
	vpmu_blob_u64(b, l->tsc_deadline);
	vpmu_blob_end(b, section);
}

static bool load_full(struct lapic *n, const struct lapic *l, struct vpmu_blob_reader *r)
{
	struct vpmu_blob_reader s;
	uint16_t version;

	if (!vpmu_blob_get_section(r, TAG_FULL, &version, &s) || version != FORMAT_FULL)
		return false;
	n->full = true;
	n->deadline = l->deadline;
	n->x2 = l->x2;
	n->now = l->now;
	n->tsc_offset = l->tsc_offset;
	for (int i = 0; i < 8; i++)
		n->tmr[i] = vpmu_blob_get_u32(&s);
	n->ldr = vpmu_blob_get_u32(&s);
	n->dfr = vpmu_blob_get_u32(&s);
	n->timer_left = vpmu_blob_get_u32(&s);
	n->timer_at = vpmu_blob_get_u64(&s);
	n->tsc_deadline = vpmu_blob_get_u64(&s);
	return vpmu_blob_done(&s);
}

int lapic_load(struct lapic *l, struct vpmu_blob_reader *r)
{
	struct vpmu_blob_reader s;
	struct lapic n = {0};
	uint16_t version;

	if (!vpmu_blob_get_section(r, TAG, &version, &s) || version != FORMAT)
		return -EINVAL;
	n.id = vpmu_blob_get_u32(&s);
	n.svr = vpmu_blob_get_u32(&s);
	n.tpr = vpmu_blob_get_u32(&s);
	n.esr = vpmu_blob_get_u32(&s);
	n.esr_shown = vpmu_blob_get_u32(&s);
	n.icr = vpmu_blob_get_u64(&s);
	n.timer_initial = vpmu_blob_get_u32(&s);
	n.timer_divide = vpmu_blob_get_u32(&s);
	for (int i = 0; i < 7; i++)
		n.lvt[i] = vpmu_blob_get_u32(&s);
	for (int i = 0; i < 8; i++) {
		n.irr[i] = vpmu_blob_get_u32(&s);
		n.isr[i] = vpmu_blob_get_u32(&s);
	}
	n.nmi = vpmu_blob_get_bool(&s);
	n.offered = vpmu_blob_get_u8(&s);
	if (!vpmu_blob_done(&s) || n.id != l->id)
		return -EINVAL;
	if ((l->full && !load_full(&n, l, r)) || !lapic_plausible(&n))
		return -EINVAL;
	*l = n;
	return 0;
}
