/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The branch records of one thread, by a perf event of its own: at every BRANCHES_PERIOD cycles of
 * the thread the kernel copies what the CPU has recorded for it, and overwrites older copies. The
 * kernel plane calls this for vCPU threads. One thread.
 *
 * No CPU with branch records was at hand when this was written: it is tested against a fake kernel
 * only.
 */
#ifndef CGROUP_SAMPLE_BRANCHES_H
#define CGROUP_SAMPLE_BRANCHES_H

#include <stdint.h>
#include <sys/types.h>

#include "cgroup/sample/sys.h"
#include "vpmu/lbr_regs.h"

#define BRANCHES_PERIOD 10000000 /* cycles of the thread */

struct branches;

/* branches_open - record what @ctl (vpmu/lbr_regs.h) selects in thread @tid from now on. 0 for @tid
 * is the caller. -EOPNOTSUPP: neither the CPU nor the kernel has such records; -EACCES; -ESRCH;
 * -ENOMEM; -EMFILE. */
int branches_open(const struct sample_sys *sys, pid_t tid, uint32_t ctl, struct branches **out);
void branches_close(struct branches *b);

/* branches_read - the newest copy. -ENOENT: there is none yet. */
int branches_read(struct branches *b, struct vpmu_lbr_regs *r);

/* branches_probe - whether branches_open could be: records nothing. Errors as there. */
int branches_probe(const struct sample_sys *sys, uint32_t ctl);

#endif
