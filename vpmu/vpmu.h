/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All public headers of libvpmu's core, for programs outside of this tree. Files of this tree
 * include the header of the concept they use; host.h lists them.
 */
#ifndef VPMU_VPMU_H
#define VPMU_VPMU_H

#include "vpmu/account.h"
#include "vpmu/alarm.h"
#include "vpmu/charge.h"
#include "vpmu/conservation.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/event/event.h"
#include "vpmu/host.h"
#include "vpmu/hostpmu.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/sampler.h"

#endif
