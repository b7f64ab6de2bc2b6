/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The branch records of one thread, by a perf event of its own: every BRANCHES_PERIOD cycles of the
 * thread the kernel copies the CPU's records of it, overwriting older copies. The BPF backend calls
 * this for vCPU threads. One thread at a time.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "cgroup/sample/sys.h"
#include "vpmu/lbr_regs.h"

#define BRANCHES_PERIOD 10000000 /* cycles of the thread */

struct branches;

/* branches_recorded - the part of @ctl (vpmu/lbr_regs.h) that is recorded: call stacks in user mode
 * only. Pure. */
uint32_t branches_recorded(uint32_t ctl);

/* branches_open - record the branches that @ctl selects in thread @tid (0: the caller's) from now
 * on. -EOPNOTSUPP: not supported by the CPU or the kernel; -EACCES; -ESRCH; -ENOMEM; -EMFILE. */
int branches_open(const struct sample_sys *sys, pid_t tid, uint32_t ctl, struct branches **out);
void branches_close(struct branches *b);

/* branches_read - read the newest copy. -ENOENT: there is none yet. */
int branches_read(struct branches *b, struct vpmu_lbr_regs *r);

/* branches_probe - check that branches_open would succeed for the calling thread; records nothing.
 * Errors as there. */
int branches_probe(const struct sample_sys *sys, uint32_t ctl);
