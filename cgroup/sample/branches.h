/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The branch records of one thread, by a perf event of its own: at every BRANCHES_PERIOD cycles of
 * the thread the kernel copies what the CPU has recorded for it, and overwrites older copies. The
 * BPF backend calls this for vCPU threads. One thread.
 */
#ifndef CGROUP_SAMPLE_BRANCHES_H
#define CGROUP_SAMPLE_BRANCHES_H

#include <stdint.h>
#include <sys/types.h>

#include "cgroup/sample/sys.h"
#include "vpmu/lbr_regs.h"

#define BRANCHES_PERIOD 10000000 /* cycles of the thread */

struct branches;

/* branches_recorded - what is recorded when @ctl (vpmu/lbr_regs.h) is asked for: call stacks of
 * user mode only. Pure. */
uint32_t branches_recorded(uint32_t ctl);

/* branches_open - record what @ctl selects in thread @tid from now on. 0 for @tid is the caller.
 * -EOPNOTSUPP: the CPU or the kernel does not have such records; -EACCES; -ESRCH; -ENOMEM; -EMFILE.
 */
int branches_open(const struct sample_sys *sys, pid_t tid, uint32_t ctl, struct branches **out);
void branches_close(struct branches *b);

/* branches_read - the newest copy. -ENOENT: there is none yet. */
int branches_read(struct branches *b, struct vpmu_lbr_regs *r);

/* branches_probe - whether branches_open could be: records nothing. Errors as there. */
int branches_probe(const struct sample_sys *sys, uint32_t ctl);

#endif
