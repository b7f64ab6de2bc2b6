// SPDX-License-Identifier: GPL-2.0-or-later
/* The local APIC in snapshots: see lapic.h. Loaded bytes are untrusted. */
#include <errno.h>

#include "vmm/emu/irqchip/lapic.h"
#include "vpmu/core/blob_io.h"

#define TAG	    0x4350414cu /* "LAPC" */
#define FORMAT	    1
#define TAG_FULL    0x4c55464cu /* "LFUL" */
#define FORMAT_FULL 1

static void lapic_io(struct blob_io *io, void *of)
{
	struct lapic *l = of;

	IO(l->id), IO(l->svr), IO(l->tpr), IO(l->esr), IO(l->esr_shown), IO(l->icr);
	IO(l->timer_initial), IO(l->timer_divide);
	IO_EACH(l->lvt);
	for (int i = 0; i < 8; i++)
		IO(l->irr[i]), IO(l->isr[i]);
	IO_BOOL(l->nmi), IO(l->offered);
}

static void lapic_io_full(struct blob_io *io, void *of)
{
	struct lapic *l = of;

	IO_EACH(l->tmr);
	IO(l->ldr), IO(l->dfr), IO(l->timer_left), IO(l->timer_at), IO(l->tsc_deadline);
}

void lapic_save(const struct lapic *l, struct vpmu_blob *b)
{
	blob_save(b, TAG, FORMAT, lapic_io, l);
	if (l->full)
		blob_save(b, TAG_FULL, FORMAT_FULL, lapic_io_full, l);
}

int lapic_load(struct lapic *l, struct vpmu_blob_reader *r)
{
	struct lapic n = {.full = l->full};

	if (l->full) {
		n.deadline = l->deadline;
		n.x2 = l->x2;
		n.now = l->now;
		n.tsc_offset = l->tsc_offset;
	}
	if (!blob_load(r, TAG, FORMAT, lapic_io, &n) || n.id != l->id ||
	    (l->full && !blob_load(r, TAG_FULL, FORMAT_FULL, lapic_io_full, &n)) ||
	    !lapic_plausible(&n))
		return -EINVAL;
	*l = n;
	return 0;
}
