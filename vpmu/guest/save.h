/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A vCPU's PMU as a section of a snapshot, for vmm/snapshot and vpmu/kvm. Not public: vpmu/kvm.h
 * and vpmu_guest_get_msr are. */
#pragma once

#include "vpmu/core/blob.h"
#include "vpmu/guest/guest.h"

/*
 * vpmu_guest_save, vpmu_guest_load - serialize the PMU of a vCPU: registers, counts, pending PMIs
 * and branch records, so that it can continue in another process. Both require a vCPU that is
 * placed nowhere (vpmu_guest_placed with NULL); -EBUSY otherwise.
 *
 * save appends one section to @b. -ENOMEM.
 * load reads that section from @b into @g, which vpmu_guest_init has made with the configuration of
 * the saved vCPU. It validates everything before it changes anything. -EINVAL, with one line in
 * @err: no guest can reach this state; -ENOMEM. Counters with events that this host cannot count
 * stand still after the next placement.
 */
int vpmu_guest_save(struct vpmu_guest *g, struct vpmu_blob *b);
int vpmu_guest_load(struct vpmu_guest *g, struct vpmu_blob_reader *b, char *err, size_t errlen);
