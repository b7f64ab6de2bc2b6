// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The slots that an account uses: references by slot, separate for control consumers and for the
 * vCPU's own consumers, because different threads change them. consumer.c calls this when a
 * consumer starts and stops. The local functions are for the owner and must not take a lock once
 * the rows exist.
 */
#include <errno.h>
#include <stdlib.h>

#include "vpmu/core/internal.h"

/*
 * Invalidate the contexts affected by new keys of @a. In the local form that is the account's own
 * context, which belongs to the caller; in the control form every context, as any can have @a among
 * its ancestors. The release pairs with the acquire of tree_gen in context_update (pcpu.c): a pCPU
 * that sees the new generation sees the new keys.
 */
static void keys_changed(struct vpmu_account *a, bool local)
{
	if (!local)
		__atomic_add_fetch(&a->host->tree_gen, 1, __ATOMIC_RELEASE);
	else if (a->ctx)
		a->ctx->tree_gen = 0;
}

/* The entry of @slot in *@refs, created if necessary; NULL: out of memory. */
static uint32_t *refs_of(struct vpmu_refs **refs, uint32_t slot)
{
	struct vpmu_refs *r = *refs;
	uint32_t n = r ? r->n : 0, at = n;

	for (uint32_t i = 0; i < n; i++) {
		if (r->e[i].slot == slot)
			return &r->e[i].refs;
		if (!r->e[i].refs)
			at = i;
	}
	if (at == n) {
		r = realloc(r, sizeof(*r) + (n + 1) * sizeof(r->e[0]));
		if (!r)
			return NULL;
		r->n = n + 1;
		store_relaxed(refs, r); /* cells_reap tests it */
	}
	r->e[at].slot = slot;
	r->e[at].refs = 0;
	return &r->e[at].refs;
}

/*
 * Control form: put the slots of @n consumers of @a into use. Keys are published after all their
 * cells.
 */
int keys_ctl_add(struct vpmu_account *a, struct vpmu_consumer *const *c, size_t n)
{
	uint64_t slots = 0;
	int ret = -ENOMEM;
	size_t i;

	for (i = 0; i < n; i++) {
		uint32_t *refs = refs_of(&a->ctl, (uint32_t)c[i]->slot);

		if (!refs)
			goto fail;
		++*refs;
		slots |= VPMU_BIT(c[i]->slot);
	}
	slots &= ~a->keys_ctl;
	ret = slots ? cells_ctl_add(a, slots) : 0;
	if (ret)
		goto fail;
	if (slots)
		keys_changed(a, false);
	return 0;
fail:
	while (i--)
		--*refs_of(&a->ctl, (uint32_t)c[i]->slot);
	return ret;
}

/* The inverse. The cells stay until a sync has made every pCPU drop them: cells_reap. */
void keys_ctl_del(const struct vpmu_consumer *c)
{
	struct vpmu_account *a = c->account;

	if (--*refs_of(&a->ctl, (uint32_t)c->slot))
		return;
	store_release(&a->keys_ctl, a->keys_ctl & ~VPMU_BIT(c->slot));
	keys_changed(a, false);
}

int keys_local_prepare(struct vpmu_account *a, struct vpmu_pcpu *p, int slot)
{
	int ret = cells_local_add(a, p, slot);

	return ret ? ret : refs_of(&a->local, (uint32_t)slot) ? 0 : -ENOMEM;
}

void keys_local_add(struct vpmu_account *a, int slot)
{
	if ((*refs_of(&a->local, (uint32_t)slot))++)
		return;
	store_release(&a->keys_local, a->keys_local | VPMU_BIT(slot));
	keys_changed(a, true);
}

void keys_local_del(struct vpmu_account *a, int slot)
{
	if (--*refs_of(&a->local, (uint32_t)slot))
		return;
	store_release(&a->keys_local, a->keys_local & ~VPMU_BIT(slot));
	keys_changed(a, true);
}
