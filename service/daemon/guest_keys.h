/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The keys pmu and gp of guests that QEMU runs, which vpmud.conf and qemu.conf have. */
#pragma once

#include "vpmu/guest/model.h"

/* guest_pmu_parse - the register model of pmu = @value. "auto", what fits the host's CPU, is
 * VPMU_GUEST_MODELS. 0 or -EINVAL. */
int guest_pmu_parse(const char *value, enum vpmu_guest_model *model);

/* guest_gp_parse - gp = @value: the range that some model has. 0 or -EINVAL.
 * guest_gp_expected - NULL if @model can have @gp counters; otherwise the valid numbers. A static
 * string. */
int guest_gp_parse(const char *value, unsigned int *gp);
const char *guest_gp_expected(enum vpmu_guest_model model, unsigned int gp);
